// SPDX-License-Identifier: MIT
// describe.h - what is known about an address (its block, page and heap), for reports of misuse.
#ifndef MI_CORE_DESCRIBE_H
#define MI_CORE_DESCRIBE_H

#include "types.h"

typedef enum mi_about_kind_e {
  MI_ABOUT_NOTHING = 0, // the address is not ours
  MI_ABOUT_PAST, // nothing is in use there; `start` and so on describe the last page there
  MI_ABOUT_PAGE,
  MI_ABOUT_DAMAGED, // the descriptor contradicts itself or the page map
} mi_about_kind_t;

typedef enum mi_about_heap_e {
  MI_ABOUT_HEAP_NONE = 0, // not known
  MI_ABOUT_HEAP_MAIN,
  MI_ABOUT_HEAP_NUMBERED,
  MI_ABOUT_HEAP_ENDED, // deleted or destroyed
  MI_ABOUT_HEAP_UNKNOWN, // the pointer leads nowhere
} mi_about_heap_t;

typedef enum mi_block_state_e {
  MI_BLOCK_NONE = 0, // there is no such block
  MI_BLOCK_UNKNOWN, // this build does not know
  MI_BLOCK_FRESH, // never handed out
  MI_BLOCK_USED,
  MI_BLOCK_FREE,
} mi_block_state_t;

// A block that an address is in, or one beside it.
typedef struct mi_about_block_s {
  const uint8_t* start; // as the program has it, or of its slot
  size_t size; // as it was asked for; MI_SIZE_UNKNOWN
  mi_block_state_t state;
  uint8_t tag; // of its memory (base/tag.h), 0 none or not known
} mi_about_block_t;

#define MI_SIZE_UNKNOWN SIZE_MAX

// A copy of the facts, as they were at one moment.
typedef struct mi_about_s {
  const uint8_t* p;
  const mi_page_t* page; // the descriptor
  const uint8_t* start; // of the page, as the next five
  size_t slice_count;
  size_t block_size;
  size_t reserved; // blocks that fit
  size_t capacity; // blocks carved
  size_t used;
  size_t shift; // of a single block: bytes from its start to the address handed out
  uintptr_t owner; // as in mi_page_t, as the next two
  uintptr_t remote;
  mi_page_place_t place;
  const mi_heap_t* heap;
  size_t heap_sequence;
  size_t subproc_sequence; // 0 the main one
  mi_about_heap_t heap_kind;
  mi_about_kind_t kind;
  bool is_single;
  // Of a page, the block that `p` is in, or that would be there, and those before and behind it.
  size_t index; // in the page
  mi_about_block_t block, before, behind;
} mi_about_t;

#define MI_DESCRIBE_TEXT_MAX ((size_t)512)

// Describe any address, at any time, whatever is damaged: the function reads only the page map,
// descriptors and heaps, and what this build itself keeps at the ends of slots, if the system says
// that it can be read; it never waits, and bounds every loop.
MI_INTERNAL void mi_describe_address(const void* p, mi_about_t* about);

// The same for a known page that `p` should lie in; NULL means the start of the page. The
// descriptor must be readable.
MI_INTERNAL void mi_describe_page(const mi_page_t* page, const void* p, mi_about_t* about);

// Return the slot of the block that the address is in, of `block_size` bytes.
static inline const uint8_t* mi_about_slot(const mi_about_t* about) {
  return about->is_single ? about->start : about->start + about->index * about->block_size;
}

// Copy bytes of the page that were just read, or are known to be readable; a tool that watches the
// memory of the program does not see it.
MI_INTERNAL void mi_describe_copy_bytes(void* to, const uint8_t* from, size_t size);

// Write the description as one line of text. Returns its length.
MI_INTERNAL size_t mi_describe_text(const mi_about_t* about, char* buffer, size_t capacity);

#endif
