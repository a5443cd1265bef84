// SPDX-License-Identifier: MIT
// tail.h - what lies behind the blocks of a page in use goes back to the system: tail.c.
#ifndef MI_CORE_TAIL_H
#define MI_CORE_TAIL_H

#include "arena.h"

// A page was made in slices that were used before: note that what lies behind its blocks may be
// resident. No other thread knows the page yet.
MI_INTERNAL void mi_tail_note(mi_arena_t* arena, mi_page_t* page);

// The page ends, and its slices are about to be released. False if a purger is at work in them: it
// releases them when it is done.
MI_INTERNAL bool mi_tail_forget(mi_arena_t* arena, const mi_page_t* page);

// Tails that go back at a step, of each arena: in a call of malloc, and on the purge thread.
#define MI_TAIL_BATCH ((size_t)256)
#define MI_TAIL_BATCH_APART ((size_t)2048)

// A block with a page of its own shrank: what it left there of whole OS pages, in slices that it
// keeps, goes back, unless options or TAIL-7 keep it.
MI_INTERNAL void mi_tail_cut(mi_arena_t* arena, uint8_t* start, size_t size);

// End a period, under the purge lock: tails of old pages go back, at most `batch` of each arena,
// until that time.
MI_INTERNAL void mi_tail_step(mi_subproc_t* subproc, size_t batch, uint64_t end_ms);

// Give all tails back. Returns how many bytes went. Waits for another purger.
MI_INTERNAL size_t mi_tail_purge_all(mi_subproc_t* subproc);

#endif
