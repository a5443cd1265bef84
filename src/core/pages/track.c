// SPDX-License-Identifier: MIT
// track.c - notes on blocks, in builds for tools that watch the memory of a program: track.h has
// the picture and the rules.
//
// Besides the mistakes that the tool finds, a note shows those that are no access: a block that is
// freed twice, an address inside a block, or one that was never handed out. Deliberately absent: a
// quarantine. Freed blocks go to the list that malloc uses last, which mostly delays their reuse by
// a page's worth of calls.
#include "track.h"

#include "page.h"

#if MI_IS_TRACKED

// TRACK-2
typedef struct mi_track_note_s {
  void* block; // as it was handed out; NULL: not in use
  size_t size; // as it was asked for
} mi_track_note_t;

// Return the margin for an alignment. There is none for a slice or more: the block must start in
// the slice of its descriptor.
static size_t mi_track_margin(size_t alignment) {
  return alignment < MI_SLICE_SIZE ? mi_bits_max(alignment, MI_TRACK_ALIGNMENT) : 0;
}

MI_INTERNAL size_t mi_track_room(size_t size, size_t alignment) {
  if (size > MI_REQUEST_MAX || alignment > MI_REQUEST_MAX / 4) return size; // cannot be had
  return mi_track_margin(alignment) + size + sizeof(mi_track_note_t);
}

static mi_attr_unwatched mi_track_note_t mi_track_read(const mi_track_note_t* at) {
  mi_tool_pause();
  const mi_track_note_t note = {at->block, at->size};
  mi_tool_resume();
  return note;
}

static mi_attr_unwatched void mi_track_write(mi_track_note_t* at, void* block, size_t size) {
  mi_tool_pause();
  at->block = block;
  at->size = size;
  mi_tool_resume();
}

static mi_track_note_t* mi_track_note_in(void* slot, size_t slot_size) {
  return (mi_track_note_t*)((uint8_t*)slot + slot_size) - 1;
}

// Return the slot that `p` lies in, or NULL if nothing was carved there.
static uint8_t* mi_track_slot(const mi_page_t* page, const void* p) {
  if (page == NULL) return NULL;
  if (mi_page_is_single(page)) return page->start;
  const size_t index = mi_page_index_of(page, p);
  return index < mi_page_capacity(page) ? page->start + index * page->block_size : NULL;
}

MI_INTERNAL void* mi_track_give(void* p, size_t size, size_t alignment, mi_fill_t fill) {
  if (p == NULL) return NULL;
  const mi_page_t* const page = mi_pagemap_find(p);
  p = (uint8_t*)p + mi_track_margin(alignment);
  uint8_t* const slot = mi_track_slot(page, p);
  mi_track_write(mi_track_note_in(slot, page->block_size), p, size);
  mi_tool_close(slot, page->block_size); // it was opened to be written to
  if (fill == MI_ZERO) {
    mi_tool_give_zero(p, size);
  } else {
    mi_tool_give(p, size);
  }
  return p;
}

static void mi_track_report(mi_error_kind_t kind, void* p, size_t size) {
  mi_report(kind, "free", p, size);
  mi_tool_report(p);
}

MI_INTERNAL bool mi_track_take(void** block) {
  void* const p = *block;
  if (p == NULL) return true;
  const mi_page_t* const page = mi_pagemap_find(p);
  uint8_t* const slot = mi_track_slot(page, p);
  if (slot == NULL) {
    // After mi_unload a stale pointer is ignored, not reported (UNLOAD-2).
    if (!mi_state.is_unloaded) mi_track_report(MI_ERROR_INVALID_POINTER, p, 0);
    return false;
  }
  mi_track_note_t* const at = mi_track_note_in(slot, page->block_size);
  const mi_track_note_t note = mi_track_read(at);
  if (note.block != p) {
    mi_track_report(note.block == NULL ? MI_ERROR_DOUBLE_FREE : MI_ERROR_INTERIOR_POINTER, p,
                    page->block_size);
    return false;
  }
  mi_track_write(at, NULL, 0);
  mi_tool_take(p, note.size);
  *block = mi_page_is_single(page) ? slot + page->shift : slot;
  return true;
}

MI_INTERNAL void* mi_track_resize(void* p, size_t old_size, size_t size) {
  const mi_page_t* const page = mi_pagemap_find(p);
  mi_track_write(mi_track_note_in(mi_track_slot(page, p), page->block_size), p, size);
  mi_tool_resize(p, old_size, size);
  return p;
}

MI_INTERNAL size_t mi_track_usable(const void* p, size_t usable) {
  (void)usable;
  const mi_page_t* const page = mi_pagemap_find(p);
  uint8_t* const slot = mi_track_slot(page, p);
  if (slot == NULL) return 0;
  const mi_track_note_t note = mi_track_read(mi_track_note_in(slot, page->block_size));
  const size_t offset = (size_t)((const uint8_t*)p - (const uint8_t*)note.block);
  return note.block != NULL && offset < note.size ? note.size - offset : 0;
}

MI_INTERNAL void* mi_track_block(void* slot, size_t slot_size) {
  return mi_track_read(mi_track_note_in(slot, slot_size)).block;
}

MI_INTERNAL void mi_track_carve(void* slot, size_t slot_size) {
  mi_track_write(mi_track_note_in(slot, slot_size), NULL, 0);
}

MI_INTERNAL void mi_track_drop(const mi_page_t* page) {
  const size_t count = mi_page_is_single(page) ? 1 : mi_page_capacity(page);
  for (size_t i = 0; i < count; i++) {
    uint8_t* const slot = page->start + i * page->block_size;
    mi_track_note_t* const at = mi_track_note_in(slot, page->block_size);
    const mi_track_note_t note = mi_track_read(at);
    if (note.block == NULL) continue;
    mi_track_write(at, NULL, 0);
    mi_tool_take(note.block, note.size);
  }
}

#endif
