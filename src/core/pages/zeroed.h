// SPDX-License-Identifier: MIT
// zeroed.h - how a long block that must be zero becomes so.
#ifndef MI_CORE_ZEROED_H
#define MI_CORE_ZEROED_H

#include "page.h"

// Shorter blocks are cleared.
#define MI_ZEROED_MIN ((size_t)(2 * MI_SLICE_SIZE))

typedef enum mi_zeroed_e {
  MI_ZEROED_NONE, // it need not be zero
  MI_ZEROED_SHORT, // it is cleared
  MI_ZEROED_ABSENT, // it is given back to the system, which gives it zero pages as it is touched
  MI_ZEROED_ABSENT_WATCHED, // the same, and its free sees if it was used
  MI_ZEROED_CLEARED // it is cleared, and watched, too
} mi_zeroed_t;

// Say how a block of `size` bytes, whole OS pages, of the sub-process becomes zero. Any thread.
MI_INTERNAL mi_zeroed_t mi_zeroed_choose(mi_subproc_t* subproc, size_t size);

// True if such a block of a class is to have a page of its own, because it is better absent, or is
// to be watched.
MI_INTERNAL bool mi_zeroed_is_apart(mi_subproc_t* subproc, size_t size);

static inline bool mi_zeroed_is_absent(mi_zeroed_t way) {
  return way == MI_ZEROED_ABSENT || way == MI_ZEROED_ABSENT_WATCHED;
}

static inline bool mi_zeroed_is_watched(mi_zeroed_t way) { return way > MI_ZEROED_ABSENT; }

// The program frees a block that is watched, or changes its size: see if it was used. The caller
// holds the block.
MI_INTERNAL void mi_zeroed_learn(mi_page_t* page);

#endif
