// SPDX-License-Identifier: MIT
// track.c - notes on blocks, in builds for tools that watch the memory of a program, and in padded
// builds: track.h has the picture and the rules.
//
// Besides the mistakes that a tool or a pattern shows, a note shows those that are no access: a
// block that is freed twice, an address inside a block, or one that was never handed out.
// Deliberately absent: a quarantine. Freed blocks go to the list that malloc uses last, which
// mostly delays their reuse by a page's worth of calls.
#include "track.h"

#include "census.h"
#include "pad.h"
#include "page.h"

#if MI_IS_TRACKED

// TRACK-2, coded; all zero before the slot was ever handed out. Also the twin.
typedef struct mi_track_note_s {
  // block - as it was handed out. Who changes it from "in use" to "busy" takes the block back; all
  // else is written by the one thread that has the slot, as plain memory, and read by any
  // (mi_track_load, mi_track_store).
  //   write  any, free  CAS relaxed  mi_track_claim  (one of two frees of a block)
  //   ABA    a block that was handed out again there is freed by its first user, as in any build
  mi_atomic(uint64_t) block;
  uint64_t size; // as it was asked for
} mi_track_note_t;

mi_static_assert(sizeof(mi_track_note_t) == MI_NOTE_SIZE, "both words");
mi_static_assert(sizeof(mi_track_note_t) == MI_TRACK_ALIGNMENT, "the twin fits into the margin");

typedef struct mi_track_slot_s {
  uint8_t* start; // NULL: nothing was carved there
  size_t size;
} mi_track_slot_t;

// Return the margin for an alignment. There is none for a slice or more: the block must start in
// the slice of its descriptor.
static size_t mi_track_margin(size_t alignment) {
  return alignment < MI_SLICE_SIZE ? mi_bits_max(alignment, MI_TRACK_ALIGNMENT) : 0;
}

MI_INTERNAL size_t mi_track_room(size_t size, size_t alignment) {
  if (size > MI_REQUEST_MAX || alignment > MI_REQUEST_MAX / 4) return size; // cannot be had
  return mi_track_margin(alignment) + size + sizeof(mi_track_note_t);
}

// -- Slots and their notes --

static size_t mi_track_slot_count(const mi_page_t* page) {
  return mi_page_is_single(page) ? 1 : mi_page_capacity(page);
}

static mi_track_slot_t mi_track_slot_at(const mi_page_t* page, size_t index) {
  // Of a guarded block what is skipped is inaccessible.
  const size_t skipped = mi_page_is_guarded(page) ? page->shift : 0;
  return (mi_track_slot_t){page->start + skipped + index * page->block_size,
                           page->block_size - skipped};
}

// Return the slot that `p` lies in.
static mi_track_slot_t mi_track_slot(const mi_page_t* page, const void* p) {
  const mi_track_slot_t none = {NULL, 0};
  if (page == NULL) return none;
  const size_t index = mi_page_is_single(page) ? 0 : mi_page_index_of(page, p);
  return index < mi_track_slot_count(page) ? mi_track_slot_at(page, index) : none;
}

static mi_track_note_t* mi_track_note(const mi_track_slot_t* slot) {
  return (mi_track_note_t*)(slot->start + slot->size) - 1;
}

// True if the margin of the block has room for the twin: TRACK-5.
static bool mi_track_has_twin(const mi_track_slot_t* slot, const uint8_t* block) {
  return MI_IS_PADDED && (size_t)(block - slot->start) >= sizeof(mi_track_note_t);
}

// Copy the two words of a note at any address.
static mi_attr_unwatched void mi_track_load(const void* at, uint64_t words[2]) {
  mi_tool_pause();
  memcpy(words, at, sizeof(mi_track_note_t));
  mi_tool_resume();
}

static mi_attr_unwatched void mi_track_store(void* at, const uint64_t words[2]) {
  mi_tool_pause();
  memcpy(at, words, sizeof(mi_track_note_t));
  mi_tool_resume();
}

static mi_note_t mi_track_decode(const mi_track_slot_t* slot, const uint64_t words[2],
                                 uint64_t key) {
  return mi_note_decode(slot->start, slot->size, words, key);
}

static mi_note_t mi_track_read(const mi_track_slot_t* slot) {
  uint64_t words[2];
  mi_track_load(mi_track_note(slot), words);
  return mi_track_decode(slot, words, MI_NOTE_KEY);
}

// Read the note; if it is damaged, the twin in front of `p`, if there is one and it is about `p`.
static mi_note_t mi_track_read_either(const mi_track_slot_t* slot, const uint8_t* p) {
  const mi_note_t state = mi_track_read(slot);
  if (mi_likely(state.block != NULL) || state.is_busy) return state;
  if (p > slot->start + slot->size || !mi_track_has_twin(slot, p)) return state;
  uint64_t words[2];
  mi_track_load(p - sizeof(mi_track_note_t), words);
  mi_note_t twin = mi_track_decode(slot, words, MI_NOTE_KEY_TWIN);
  twin.word = state.word;
  return twin.block == p ? twin : state;
}

static void mi_track_write(const mi_track_slot_t* slot, uint8_t* block, size_t size,
                           uint64_t flag) {
  uint64_t words[2];
  mi_note_encode(words, block, size, flag, MI_NOTE_KEY);
  // Publishes the patterns; pairs with the fence in `mi_track_check_slot`.
  mi_atomic_fence_release();
  mi_track_store(mi_track_note(slot), words);
}

// Show in a report what the program wrote to the note of a claimed slot, if it did.
static void mi_track_show(const mi_track_slot_t* slot, const mi_note_t* state) {
  uint64_t words[2];
  mi_track_load(mi_track_note(slot), words);
  words[0] = state->word;
  if (mi_track_decode(slot, words, MI_NOTE_KEY).block == NULL) {
    mi_track_store(mi_track_note(slot), words);
  }
}

// Begin a change of the slot.
static void mi_track_forget(const mi_track_slot_t* slot) {
  static const uint64_t busy[2] = {MI_NOTE_BUSY, 0};
  mi_track_store(mi_track_note(slot), busy);
  // Publishes that, before the patterns; pairs with the fence in `mi_track_may_tell`.
  mi_atomic_fence_release();
}

// The same for a slot whose note was read. False if it changed since.
static mi_attr_unwatched bool mi_track_claim(const mi_track_slot_t* slot, const mi_note_t* state) {
  mi_track_note_t* const note = mi_track_note(slot);
  uint64_t word = state->word;
  bool is_claimed;
  mi_tool_pause();
  do { // relaxed: the program orders the use of a block before its free
    is_claimed = mi_atomic_cas_weak_relaxed(&note->block, &word, MI_NOTE_BUSY);
  } while (!is_claimed && word == state->word);
  // Publishes that, before the block changes; pairs with the fence in `mi_track_may_tell`.
  mi_atomic_fence_release();
  mi_tool_resume();
  return is_claimed;
}

// -- What the program overwrote: TRACK-5, TRACK-7 --

// What the program overwrote around a block: the first byte behind it, the last one before it, or
// NULL.
typedef struct mi_track_found_s {
  const uint8_t* behind;
  const uint8_t* before;
} mi_track_found_t;

#if MI_IS_PADDED

// Return where the pattern before a block begins.
static uint8_t* mi_track_margin_start(const mi_track_slot_t* slot, uint8_t* block) {
  const size_t margin = mi_bits_min((size_t)(block - slot->start), MI_PAD_MARGIN_MAX);
  return block - margin;
}

// Fill what is around the block.
static void mi_track_pad(const mi_track_slot_t* slot, uint8_t* block, size_t size) {
  uint8_t* margin_end = block;
  if (mi_track_has_twin(slot, block)) {
    uint64_t words[2];
    margin_end = block - sizeof(mi_track_note_t);
    mi_note_encode(words, block, size, 0, MI_NOTE_KEY_TWIN);
    mi_track_store(margin_end, words);
  }
  mi_pad_fill(mi_track_margin_start(slot, block), margin_end, MI_PAD_AROUND);
  mi_pad_fill(block + size, (uint8_t*)mi_track_note(slot), MI_PAD_AROUND);
}

static void mi_track_pad_contents(uint8_t* block, size_t size, uint8_t value) {
  if (size <= MI_PAD_CONTENTS_MAX) mi_pad_fill(block, block + size, value);
}

// Return the first byte at `at` that differs from what a note should be, from the end if `is_last`.
static const uint8_t* mi_track_differing(const uint8_t* at, const uint64_t wanted[2],
                                         bool is_last) {
  const uint8_t* const bytes = (const uint8_t*)wanted;
  const uint8_t* found = NULL;
  for (size_t i = 0; i < sizeof(mi_track_note_t) && (is_last || found == NULL); i++) {
    if (at[i] != bytes[i]) found = at + i;
  }
  return found;
}

static const uint8_t* mi_track_find_behind(const mi_track_slot_t* slot, const mi_note_t* state) {
  const uint8_t* const note = (const uint8_t*)mi_track_note(slot);
  const uint8_t* const found = mi_pad_first(state->block + state->size, note, MI_PAD_AROUND);
  if (found != NULL) return found;
  uint64_t words[2];
  mi_note_encode(words, state->block, state->size, 0, MI_NOTE_KEY);
  return mi_track_differing(note, words, false);
}

static const uint8_t* mi_track_find_before(const mi_track_slot_t* slot, const mi_note_t* state) {
  const uint8_t* margin_end = state->block;
  if (mi_track_has_twin(slot, state->block)) {
    uint64_t words[2];
    margin_end -= sizeof(mi_track_note_t);
    mi_note_encode(words, state->block, state->size, 0, MI_NOTE_KEY_TWIN);
    const uint8_t* const found = mi_track_differing(margin_end, words, true);
    if (found != NULL) return found;
  }
  return mi_pad_last(mi_track_margin_start(slot, state->block), margin_end, MI_PAD_AROUND);
}

// Look around a block in use.
static mi_track_found_t mi_track_find(const mi_track_slot_t* slot, const mi_note_t* state) {
  return (mi_track_found_t){mi_track_find_behind(slot, state), mi_track_find_before(slot, state)};
}

// True if no other thread can have caused what was found in a slot whose note was `words`: TRACK-8.
// `look` is NULL where the caller has the block.
static bool mi_track_may_tell(mi_page_t* page, const mi_track_slot_t* slot, const uint64_t words[2],
                              const mi_track_look_t* look) {
  if (look == NULL) return true;
  // Sees the note of a block that is not there any more; pairs with the fence in `mi_track_claim`.
  mi_atomic_fence_acquire();
  if (!look->is_alone(look)) return false;
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  if (owner == MI_OWNER_NONE || owner == MI_OWNER_INTERIOR) return false;
  uint64_t now[2];
  mi_track_load(mi_track_note(slot), now);
  return now[0] == words[0] && now[1] == words[1];
}

// Report what was found around a block.
static void mi_track_tell(const mi_track_slot_t* slot, const mi_note_t* state,
                          const mi_track_found_t* found, const char* where) {
  if (mi_unlikely(found->behind != NULL)) {
    mi_report_write(MI_ERROR_OVERFLOW, where, state->block, state->size, found->behind,
                    (size_t)(slot->start + slot->size - found->behind));
  }
  if (mi_unlikely(found->before != NULL)) {
    mi_report_write(MI_ERROR_UNDERFLOW, where, state->block, state->size, found->before,
                    (size_t)(state->block - found->before));
  }
}

// Return the first byte of a freed block that must not change. Where there is no margin, the link
// of the free slot lies in the block, or part of it does.
static uint8_t* mi_track_freed_start(const mi_track_slot_t* slot, const mi_note_t* state) {
  const size_t before = (size_t)(state->block - slot->start);
  const size_t linked = before < sizeof(mi_block_t) ? sizeof(mi_block_t) - before : 0;
  return state->block + mi_bits_min(linked, state->size);
}

// Return the first of these that did, or NULL.
static const uint8_t* mi_track_find_late(const mi_track_slot_t* slot, const mi_note_t* state) {
  if (state->size > MI_PAD_CONTENTS_MAX) return NULL;
  uint8_t* const start = mi_track_freed_start(slot, state);
  return mi_pad_first(start, state->block + state->size, MI_PAD_FREED);
}

// Report it, once.
static void mi_track_tell_late(const mi_track_slot_t* slot, const mi_note_t* state,
                               const uint8_t* found, const char* where) {
  uint8_t* const end = state->block + state->size;
  mi_report_write(MI_ERROR_LATE_WRITE, where, state->block, state->size, found,
                  (size_t)(end - found));
  mi_pad_fill(mi_track_freed_start(slot, state), end, MI_PAD_FREED);
}

// Report what is wrong in a slot. The contents of a page of its own may be with the system again,
// once its block is free.
static void mi_track_check_slot(mi_page_t* page, const mi_track_slot_t* slot,
                                const mi_track_look_t* look, const char* where) {
  uint64_t words[2];
  mi_track_load(mi_track_note(slot), words);
  const mi_note_t state = mi_track_read_either(slot, slot->start + MI_TRACK_ALIGNMENT);
  if (state.block == NULL) return;
  // Sees the patterns of a block that was freed; pairs with the fence in `mi_track_write`.
  mi_atomic_fence_acquire();
  if (state.is_used) {
    const mi_track_found_t found = mi_track_find(slot, &state);
    if (mi_likely(found.behind == NULL && found.before == NULL)) return;
    if (mi_track_may_tell(page, slot, words, look)) mi_track_tell(slot, &state, &found, where);
  } else if (!mi_page_is_single(page)) {
    const uint8_t* const found = mi_track_find_late(slot, &state);
    if (mi_likely(found == NULL)) return;
    if (mi_track_may_tell(page, slot, words, look)) {
      mi_track_tell_late(slot, &state, found, where);
    }
  }
}

#else

static void mi_track_pad(const mi_track_slot_t* slot, uint8_t* block, size_t size) {
  (void)slot, (void)block, (void)size;
}

static void mi_track_pad_contents(uint8_t* block, size_t size, uint8_t value) {
  (void)block, (void)size, (void)value;
}

static mi_track_found_t mi_track_find(const mi_track_slot_t* slot, const mi_note_t* state) {
  (void)slot, (void)state;
  return (mi_track_found_t){NULL, NULL};
}

static void mi_track_tell(const mi_track_slot_t* slot, const mi_note_t* state,
                          const mi_track_found_t* found, const char* where) {
  (void)slot, (void)state, (void)found, (void)where;
}

static void mi_track_check_slot(mi_page_t* page, const mi_track_slot_t* slot,
                                const mi_track_look_t* look, const char* where) {
  (void)page, (void)slot, (void)look, (void)where;
}

#endif

// -- Blocks come and go --

MI_INTERNAL void* mi_track_give(void* p, size_t size, size_t alignment, mi_fill_t fill) {
  if (p == NULL) return NULL;
  mi_page_t* const page = mi_pagemap_find(p);
  uint8_t* const block = (uint8_t*)p + mi_track_margin(alignment);
  const mi_track_slot_t slot = mi_track_slot(page, block);
  // (TRACK-7; what is in fresh memory of a page of its own means nothing.)
  const bool is_kept = fill == MI_UNINITIALIZED && !mi_page_is_single(page);
  if (is_kept) mi_track_check_slot(page, &slot, NULL, "malloc");
  mi_track_forget(&slot);
  mi_track_pad(&slot, block, size);
  if (fill == MI_UNINITIALIZED) mi_track_pad_contents(block, size, MI_PAD_FRESH);
  mi_track_write(&slot, block, size, 0);
  mi_tool_close(slot.start, slot.size); // it was opened to be written to
  if (fill == MI_ZERO) {
    mi_tool_give_zero(block, size);
  } else {
    mi_tool_give(block, size);
  }
  mi_census_note(page, size, 1);
  return block;
}

// Report a free of `p`, which is no block in use.
static bool mi_track_refuse(mi_error_kind_t kind, void* p, size_t size) {
  mi_report(kind, "free", p, size);
  mi_tool_report(p);
  return false;
}

MI_INTERNAL bool mi_track_take(void** block) {
  uint8_t* const p = (uint8_t*)mi_cpu_address(*block);
  if (p == NULL) return true;
  mi_page_t* const page = mi_pagemap_find(p);
  const mi_track_slot_t slot = mi_track_slot(page, p);
  if (slot.start == NULL) {
    // After mi_unload a stale pointer is ignored, not reported (UNLOAD-2).
    size_t size;
    const mi_error_kind_t kind = mi_guarded_mistake(p, &size);
    if (!mi_state.is_unloaded) mi_track_refuse(kind, p, size);
    return false;
  }
  const mi_note_t state = mi_track_read_either(&slot, p);
  if (state.is_busy) return mi_track_refuse(MI_ERROR_DOUBLE_FREE, p, slot.size);
  if (state.block != p) return mi_track_refuse(MI_ERROR_INTERIOR_POINTER, p, slot.size);
  if (!state.is_used) return mi_track_refuse(MI_ERROR_DOUBLE_FREE, p, slot.size);
  // Two threads may look, but only one of them tells.
  const mi_track_found_t found = mi_track_find(&slot, &state);
  if (!mi_track_claim(&slot, &state)) return mi_track_refuse(MI_ERROR_DOUBLE_FREE, p, slot.size);
  if (found.behind != NULL) mi_track_show(&slot, &state);
  mi_track_tell(&slot, &state, &found, "free");
  mi_track_pad_contents(p, state.size, MI_PAD_FREED);
  mi_track_write(&slot, p, state.size, MI_NOTE_FREED);
  mi_tool_take(p, state.size);
  mi_census_note(page, state.size, -1);
  *block = mi_page_is_single(page) ? page->start + page->shift : slot.start;
  return true;
}

MI_INTERNAL void* mi_track_resize(void* p, size_t old_size, size_t size) {
  mi_page_t* const page = mi_pagemap_find(p);
  const mi_track_slot_t slot = mi_track_slot(page, p);
  // The slot of a page of its own may have changed already, and its note is somewhere inside.
  if (!mi_page_is_single(page)) mi_track_check_slot(page, &slot, NULL, "realloc");
  mi_track_forget(&slot);
  mi_track_pad(&slot, (uint8_t*)p, size);
  if (size > old_size) mi_track_pad_contents((uint8_t*)p + old_size, size - old_size, MI_PAD_FRESH);
  mi_track_write(&slot, (uint8_t*)p, size, 0);
  mi_tool_resize(p, old_size, size);
  mi_census_resize(page, old_size, size);
  return p;
}

MI_INTERNAL bool mi_track_is_block(const mi_page_t* page, const void* p) {
  const mi_track_slot_t slot = mi_track_slot(page, p);
  if (slot.start == NULL) return false;
  const mi_note_t state = mi_track_read_either(&slot, (const uint8_t*)p);
  return state.block == NULL || state.block == p;
}

MI_INTERNAL size_t mi_track_usable(const void* p, size_t usable) {
  (void)usable;
  const mi_track_slot_t slot = mi_track_slot(mi_pagemap_find(p), p);
  if (slot.start == NULL) return 0;
  const mi_note_t state = mi_track_read_either(&slot, (const uint8_t*)p);
  if (!state.is_used) return 0;
  const size_t offset = (size_t)((const uint8_t*)p - state.block);
  return offset < state.size ? state.size - offset : 0;
}

MI_INTERNAL void* mi_track_block(void* start, size_t slot_size) {
  const mi_track_slot_t slot = {(uint8_t*)start, slot_size};
  const mi_note_t state = mi_track_read(&slot);
  return state.is_used ? state.block : NULL;
}

MI_INTERNAL void mi_track_carve(const mi_page_t* page, void* start) {
  static const uint64_t none[2] = {0, 0};
  const mi_track_slot_t slot = {(uint8_t*)start, page->block_size};
  mi_track_store(mi_track_note(&slot), none);
}

MI_INTERNAL void mi_track_drop(mi_page_t* page) {
  for (size_t i = 0; i < mi_track_slot_count(page); i++) {
    const mi_track_slot_t slot = mi_track_slot_at(page, i);
    mi_track_check_slot(page, &slot, NULL, NULL);
    const mi_note_t state = mi_track_read(&slot);
    if (!state.is_used) continue;
    mi_track_write(&slot, state.block, state.size, MI_NOTE_FREED);
    mi_tool_take(state.block, state.size);
    mi_census_note(page, state.size, -1);
  }
}

MI_INTERNAL void mi_track_check(mi_page_t* page, const mi_track_look_t* look) {
  for (size_t i = 0; i < mi_track_slot_count(page); i++) {
    const mi_track_slot_t slot = mi_track_slot_at(page, i);
    mi_track_check_slot(page, &slot, look, "mi_collect");
  }
}

#endif
