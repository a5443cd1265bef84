// SPDX-License-Identifier: MIT
// describe.c - the block, page and heap of an address in words, as part of every report of misuse
// and damage, and of every failed assertion about a page.
//
//   address -> descriptor (pagemap.h) -> is it sound? -> page, block, its neighbours -> heap
//
// What is known of a block depends on the build: with notes (note.h) its address, size and state,
// as the program has it; in a secure build its state (mark.h), and mostly its size (slack.h); in
// any other only if it was ever handed out, and if nothing of its page is in use.
//
// When this code runs, the program may be about to end or its memory may be damaged; it may run in
// a signal handler, while this very thread holds a lock.
// DESCRIBE-1  nothing here takes a lock, allocates, follows a link of a free list, or calls up.
// DESCRIBE-2  a pointer is followed only if it leads into a table of descriptors or into memory of
//     our own structures (both stay mapped, TYPES-2); a number is used only if it is in its range.
//     Of blocks only the last bytes of their slots are read, or the tag of the first one, which may
//     be no memory at all if the descriptor lies: the system is asked before (`mi_describe_read`).
// DESCRIBE-3  other threads change the data meanwhile: the facts are copied once, and may
//     contradict each other.
#include "describe.h"

#include "../../base/tag.h"
#include "../../base/text.h"
#include "mark.h"
#include "meta.h"
#include "note.h"
#include "pagemap.h"
#include "part.h"
#include "sizeclass.h"
#include "slack.h"

// How many windows, and slices, below that of an address are searched for the start of its page.
#define MI_DESCRIBE_WINDOWS 16
#define MI_DESCRIBE_SLICES 1024

// True if `page` is a descriptor: in the table of the window of `p`, or of one below it.
static bool mi_describe_is_descriptor(const mi_page_t* page, const void* p) {
  const size_t last = (uintptr_t)p >> MI_WINDOW_SHIFT;
  for (size_t w = last - mi_bits_min(last, MI_DESCRIBE_WINDOWS); w <= last; w++) {
    const uintptr_t window = mi_atomic_load_relaxed(&mi_pagemap.window[w]);
    if (window == 0) continue;
    const uintptr_t offset = (uintptr_t)page - ((uintptr_t)mi_pagemap.none + window);
    if (offset < sizeof(mi_pagemap.none)) return offset % sizeof(mi_page_t) == 0;
  }
  return false;
}

static mi_attr_racy void mi_describe_copy(const mi_page_t* page, mi_about_t* about) {
  mi_page_t* const from = (mi_page_t*)(uintptr_t)page;
  about->page = page;
  about->start = mi_atomic_peek(&page->start);
  about->slice_count = mi_atomic_peek(&page->slice_count);
  about->block_size = mi_atomic_peek(&page->block_size);
  about->reserved = mi_atomic_peek(&page->reserved);
  about->capacity = mi_bits_max(mi_atomic_peek(&page->refilled.used), 1) - 1;
  about->used = mi_atomic_peek(&page->count.used) + mi_atomic_peek(&page->bias);
  about->owner = mi_atomic_load_relaxed(&from->owner);
  about->remote = mi_atomic_load_relaxed(&from->thread_free);
  about->place = (mi_page_place_t)mi_atomic_peek(&page->place);
  about->is_single = mi_atomic_peek(&page->size_class) == MI_CLASS_COUNT;
  about->shift = about->is_single ? mi_atomic_peek(&page->shift) : 0;
  // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
  about->heap = mi_atomic_load_acquire(&from->heap);
  // Leave out the 1 that stands for being current (LIFE-1).
  if (about->place == MI_PLACE_CURRENT && about->used > 0) about->used--;
}

// True if `page` and the facts copied from it agree with each other and with the page map.
static mi_attr_racy bool mi_describe_is_sound(const mi_about_t* about) {
  const size_t size_class = mi_atomic_peek(&about->page->size_class);
  if (about->start == NULL || !mi_is_address(about->start)) return false;
  if ((uintptr_t)about->start % MI_SLICE_SIZE != 0) return false;
  if (mi_pagemap_slice(about->start) != about->page || about->slice_count == 0) return false;
  if (about->place > MI_PLACE_GUEST || size_class > MI_CLASS_COUNT) return false;
  const size_t bytes = about->slice_count * MI_SLICE_SIZE;
  if (about->is_single) return about->block_size <= bytes && about->shift < about->block_size;
  return about->block_size == mi_class_size(size_class) &&
         mi_class_has_slices(size_class, about->slice_count) &&
         about->capacity <= about->reserved && about->reserved * about->block_size <= bytes;
}

// Blocks that touch a hole count as used, but are not.
static mi_attr_racy void mi_describe_leave_out_holes(mi_about_t* about) {
  const size_t holes = mi_atomic_peek(&about->page->holes);
  if (about->is_single || holes == 0) return;
  const size_t missing =
      mi_part_count_missing(holes, about->slice_count, about->block_size, about->reserved);
  about->used -= mi_bits_min(missing, about->used);
}

// Describe the heap, which is followed only as DESCRIBE-2 permits: if it is the main heap of the
// main sub-process, or lies in memory that holds only structures of ours.
static mi_attr_racy void mi_describe_heap(mi_about_t* about) {
  const mi_heap_t* const heap = about->heap;
  const bool is_first = heap == &mi_state.main.heap_main;
  about->heap_kind = MI_ABOUT_HEAP_UNKNOWN;
  if (!is_first && !mi_meta_contains(heap, sizeof(mi_heap_t))) return;
  const mi_subproc_t* const subproc = mi_atomic_peek(&heap->subproc);
  if (subproc != &mi_state.main && !mi_meta_contains(subproc, sizeof(mi_subproc_t))) return;
  about->subproc_sequence = mi_atomic_peek(&subproc->sequence);
  about->heap_sequence = mi_atomic_peek(&heap->sequence);
  if (mi_atomic_peek(&heap->is_main)) {
    about->heap_kind = MI_ABOUT_HEAP_MAIN;
  } else {
    about->heap_kind =
        mi_atomic_peek(&heap->link) != NULL ? MI_ABOUT_HEAP_NUMBERED : MI_ABOUT_HEAP_ENDED;
  }
}

static bool mi_describe_has_address(const mi_about_t* about) {
  return (size_t)(about->p - about->start) < about->slice_count * MI_SLICE_SIZE;
}

// -- Blocks --

MI_INTERNAL mi_attr_unwatched void mi_describe_copy_bytes(void* to, const uint8_t* from,
                                                          size_t size) {
  mi_tool_pause();
  for (size_t i = 0; i < size; i++) ((volatile uint8_t*)to)[i] = ((const volatile uint8_t*)from)[i];
  mi_tool_resume();
}

#if MI_IS_TRACKED || MI_HAS_CANARY

// Copy `size` bytes, at most an OS page, from the end of a slot. False if they cannot be read.
static bool mi_describe_read(void* to, const uint8_t* end, size_t size) {
  const uintptr_t first = (uintptr_t)end - size;
  const uintptr_t last = (uintptr_t)end - 1;
  if (first > last || !mi_is_address((const void*)last)) return false;
  mi_tool_pause();
  const bool is_readable = mi_os_is_readable((const void*)(first & ~(uintptr_t)3)) &&
                           mi_os_is_readable((const void*)(last & ~(uintptr_t)3));
  mi_tool_resume();
  if (is_readable) mi_describe_copy_bytes(to, end - size, size);
  return is_readable;
}

#endif

#if MI_IS_TRACKED

// Add what the note of a slot says.
static void mi_describe_add_note(const uint8_t* slot, size_t size, mi_about_block_t* block) {
  uint64_t words[2];
  if (!mi_describe_read(words, slot + size, sizeof(words))) return;
  const mi_note_t note = mi_note_decode(slot, size, words, MI_NOTE_KEY);
  if (note.block != NULL) {
    block->start = note.block;
    block->size = note.size;
  }
  if (MI_IS_SECURE) return; // its mark is known
  if (note.block != NULL) block->state = note.is_used ? MI_BLOCK_USED : MI_BLOCK_FREE;
  if ((words[0] | words[1]) == 0) block->state = MI_BLOCK_FRESH;
}

#elif MI_HAS_CANARY

// Add what the canary of a block in use says.
static void mi_describe_add_canary(const uint8_t* end, mi_about_block_t* block) {
  const size_t room = (size_t)(end - block->start);
  uint64_t words[2];
  if (block->state != MI_BLOCK_USED || room <= MI_CANARY_NONE_SIZE) return;
  if (mi_mark_is_plain(mi_mark_find(block->start))) {
    block->size = room;
    return;
  }
  if (!mi_describe_read(words, end, sizeof(words))) return;
  const uint64_t key = mi_canary_key(block->start);
  if (!mi_canary_is_whole(words[1] ^ key)) return;
  const size_t told = (words[1] ^ key) >> 56;
  const size_t slack = told == MI_CANARY_FAR ? words[0] ^ key : told;
  if (slack <= room) block->size = room - slack;
}

#endif

static mi_block_state_t mi_describe_block_state(const mi_about_t* about, size_t index,
                                                const uint8_t* block) {
  if (!about->is_single && index >= about->capacity) return MI_BLOCK_FRESH;
  if (MI_IS_SECURE) {
    const uint8_t mark = mi_mark_of(block);
    if (mark == 0) return MI_BLOCK_UNKNOWN; // another thread ends the page
    return (mark & MI_MARK_USED) != 0 ? MI_BLOCK_USED : MI_BLOCK_FREE;
  }
  if (about->is_single) return MI_BLOCK_USED; // LARGE-1
  return about->used == 0 ? MI_BLOCK_FREE : MI_BLOCK_UNKNOWN;
}

// Return the tag of the memory of a block; 0 if it has none.
static uint8_t mi_describe_tag(const uint8_t* block) {
  if (!MI_IS_TAGGED || !mi_state.os.has_tags || !mi_os_is_readable(block)) return 0;
  return (uint8_t)mi_tag_of(mi_tag_read(block));
}

// Describe one block of a page; an index beyond its last block is none.
static void mi_describe_block(const mi_about_t* about, size_t index, mi_about_block_t* block) {
  if (index >= (about->is_single ? 1 : about->reserved)) return;
  const uint8_t* const slot = about->start + index * about->block_size;
  block->start = slot + about->shift;
  block->size = MI_SIZE_UNKNOWN;
  block->state = mi_describe_block_state(about, index, block->start);
  block->tag = mi_describe_tag((const uint8_t*)((uintptr_t)block->start & ~(uintptr_t)3));
  if (block->state == MI_BLOCK_FRESH) return;
#if MI_IS_TRACKED
  mi_describe_add_note(slot, about->block_size, block);
#elif MI_HAS_CANARY
  mi_describe_add_canary(slot + about->block_size, block);
#endif
}

// Describe the block that the address is in, and those beside it.
static void mi_describe_blocks(mi_about_t* about) {
  about->index = about->is_single ? 0 : (size_t)(about->p - about->start) / about->block_size;
  mi_describe_block(about, about->index, &about->block);
  if (about->is_single) return;
  if (about->index > 0) mi_describe_block(about, about->index - 1, &about->before);
  mi_describe_block(about, about->index + 1, &about->behind);
}

MI_INTERNAL mi_attr_racy void mi_describe_page(const mi_page_t* page, const void* p,
                                               mi_about_t* about) {
  if (p == NULL) p = mi_atomic_peek(&page->start);
  *about = (mi_about_t){.p = (const uint8_t*)p, .kind = MI_ABOUT_DAMAGED};
  if (!mi_is_address(p) || !mi_describe_is_descriptor(page, p)) {
    about->page = page;
    return;
  }
  mi_describe_copy(page, about);
  if (!mi_describe_is_sound(about) || !mi_describe_has_address(about)) return;
  about->kind = MI_ABOUT_PAGE;
  mi_describe_leave_out_holes(about);
  mi_describe_blocks(about);
  mi_describe_heap(about);
}

// Describe an address whose slice has no owner. It can still be part of a large block, which has
// descriptors only for its first slices; or a page was there before, whose descriptor is unchanged
// except for the owner.
static mi_attr_racy void mi_describe_gap(mi_about_t* about) {
  mi_about_t past = *about;
  const uintptr_t last = (uintptr_t)about->p >> MI_SLICE_SHIFT;
  for (size_t k = 0; k < MI_DESCRIBE_SLICES && k <= last; k++) {
    const uint8_t* const slice = (const uint8_t*)((last - k) << MI_SLICE_SHIFT);
    mi_about_t found = {.p = about->p};
    mi_describe_copy(mi_pagemap_slice(slice), &found);
    if (found.owner == MI_OWNER_INTERIOR) break;
    const bool is_there =
        found.start == slice && mi_describe_is_sound(&found) && mi_describe_has_address(&found);
    if (found.owner != MI_OWNER_NONE) {
      if (is_there) mi_describe_page(found.page, about->p, about);
      if (is_there) return;
      break;
    }
    if (is_there && past.kind == MI_ABOUT_NOTHING) {
      past = found;
      past.kind = MI_ABOUT_PAST;
    }
  }
  *about = past;
}

MI_INTERNAL mi_attr_racy void mi_describe_address(const void* p, mi_about_t* about) {
  *about = (mi_about_t){.p = (const uint8_t*)p};
  if (p == NULL || !mi_is_address(p)) return;
  mi_page_t* const page = mi_pagemap_slice(p);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if (owner == MI_OWNER_NONE) {
    mi_describe_gap(about);
  } else {
    mi_describe_page(owner == MI_OWNER_INTERIOR ? mi_atomic_peek(&page->first) : page, p, about);
  }
}

// -- Words --

typedef struct mi_describe_s {
  char* buffer;
  size_t capacity;
  size_t used;
} mi_describe_t;

mi_attr_printf(2, 3) static void mi_describe_add(mi_describe_t* to, const char* format, ...) {
  va_list args;
  va_start(args, format);
  to->used += mi_text_vformat(to->buffer + to->used, to->capacity - to->used, format, args);
  va_end(args);
}

static void mi_describe_add_block(mi_describe_t* to, const mi_about_t* about) {
  const uint8_t* const slot = mi_about_slot(about) + about->shift;
  const size_t size = about->block_size - about->shift;
  if (about->block.state == MI_BLOCK_NONE) {
    mi_describe_add(to, "behind the last block, ");
    return;
  }
  mi_describe_add(to, "block %zu of %zu at %p of %zu bytes", about->index,
                  about->is_single ? (size_t)1 : about->reserved, (const void*)slot, size);
  if (about->p < slot) {
    mi_describe_add(to, ", %zu bytes before it", (size_t)(slot - about->p));
  } else if (about->p > slot) {
    mi_describe_add(to, ", %zu bytes into it", (size_t)(about->p - slot));
  }
  if (about->block.state == MI_BLOCK_FRESH) {
    mi_describe_add(to, ", never handed out");
  } else if (MI_IS_SECURE && about->block.state != MI_BLOCK_UNKNOWN) {
    mi_describe_add(to, about->block.state == MI_BLOCK_USED ? ", in use" : ", free");
  }
  mi_describe_add(to, "; ");
}

static void mi_describe_add_state(mi_describe_t* to, const mi_about_t* about) {
  static const char places[][24] mi_attr_rare = {
      [MI_PLACE_NONE] = "in none of its lists",
      [MI_PLACE_CURRENT] = "which allocates from it",
      [MI_PLACE_QUEUE] = "in its queue",
      [MI_PLACE_GUEST] = "which frees into it",
  };
  const bool is_owned = (about->remote & MI_REMOTE_OWNED) != 0;
  const bool is_pooled = (about->remote & MI_REMOTE_POOLED) != 0;
  const size_t thread = (size_t)(about->owner & ~MI_OWNER_FLAGS);
  if (about->is_single) return;
  mi_describe_add(to, ", %zu of %zu blocks in use, ", about->used, about->capacity);
  if (about->owner <= MI_OWNER_MAX_SPECIAL) {
    mi_describe_add(to, is_owned ? "left by a thread that ended" : "of no thread");
  } else if (is_owned && (about->owner & MI_OWNER_PARKED) == 0) {
    mi_describe_add(to, "of thread 0x%zx, %s", thread, places[about->place]);
  } else {
    mi_describe_add(to, "parked by thread 0x%zx", thread);
  }
  if (is_pooled) mi_describe_add(to, ", pooled");
}

static void mi_describe_add_heap(mi_describe_t* to, const mi_about_t* about) {
  const void* const at = about->heap;
  switch (about->heap_kind) {
    case MI_ABOUT_HEAP_MAIN:
      mi_describe_add(to, "; main heap");
      break;
    case MI_ABOUT_HEAP_NUMBERED:
      mi_describe_add(to, "; heap %zu at %p", about->heap_sequence, at);
      break;
    case MI_ABOUT_HEAP_ENDED:
      mi_describe_add(to, "; heap %zu at %p, which has ended", about->heap_sequence, at);
      break;
    default:
      mi_describe_add(to, "; heap not known, at %p", at);
      return;
  }
  if (about->subproc_sequence != 0) {
    mi_describe_add(to, " of sub-process %zu", about->subproc_sequence);
  }
}

MI_INTERNAL size_t mi_describe_text(const mi_about_t* about, char* buffer, size_t capacity) {
  mi_describe_t to = {buffer, capacity, 0};
  buffer[0] = 0;
  switch (about->kind) {
    case MI_ABOUT_NOTHING:
      mi_describe_add(&to, "the address is not ours");
      break;
    case MI_ABOUT_PAST:
      mi_describe_add(&to, "nothing is in use there; last was a page at %p, blocks of %zu bytes",
                      (const void*)about->start, about->block_size - about->shift);
      break;
    case MI_ABOUT_DAMAGED:
      mi_describe_add(
          &to, "the page is damaged: descriptor %p, start %p, %zu slices, blocks of size %zu",
          (const void*)about->page, (const void*)about->start, about->slice_count,
          about->block_size);
      break;
    default:
      mi_describe_add_block(&to, about);
      mi_describe_add(&to, "page%s at %p of %zu KiB", about->is_single ? " of its own" : "",
                      (const void*)about->start, about->slice_count * MI_SLICE_SIZE / MI_KIB);
      mi_describe_add_state(&to, about);
      mi_describe_add_heap(&to, about);
      break;
  }
  return to.used;
}
