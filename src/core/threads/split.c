// SPDX-License-Identifier: MIT
// split.c - which class serves a size: wide classes, which split as they fill.
//
//   sizes of class     144   160   176   192   208   224   240   256
//   at first            +-----+-----+-----+-----+-----+-----+-- 256
//   many up to 192      +-----+-----+-- 192     +-----+-----+-- 256
//   many up to 160      +-- 160     +-- 192     +-----+-----+-- 256
//   many of all sizes  144   160   176   192   208   224   240   256
//
// Eight classes per doubling waste little inside of blocks, but each that is used needs a page for
// each thread: its first OS page at least, and later as much as the most blocks that were ever in
// use at once. Where a thread has a few hundred blocks of all sizes, that is most of its memory. So
// a theap begins with one class for each doubling, whose blocks serve all sizes in it, and a size
// gets blocks that fit it only when there are many of them. (As a node of a B-tree splits when it
// is full.)
//
// SPLIT-1  class_of gives for a size its own class, or one of the classes above it in the picture:
//     at positions 2, 4 and 8 of the doubling. All of these are multiples of each power of two that
//     divides the size, so that aligned requests need nothing more (SIZECLASS-4). Sizes up to 128
//     bytes, in steps of 16, have their own class, and so have those of more than a slice, whose
//     pages are of one block.
// SPLIT-2  a class is split when a request of another class than its own finds its page full and no
//     other page with a free block: then the next class below it in the picture serves that size,
//     and those with it. So a wide class wastes at most a part of one page, which stays its current
//     one (if it were set aside, the next of these sizes would make another one). In a crowd, where
//     threads own no pages, it is split as soon as the sub-process has two.
// SPLIT-3  a class between the size and the one that serves it is used at once if it has free
//     blocks: its pages are from before classes were joined, or from other threads.
// SPLIT-4  a class without a page is joined with the next one above it when idle pages are given
//     up: at each tick, and when the theap gives everything up. `is_split` saves the walk through
//     all classes where none is split, as in most theaps of heaps that come and go.
// SPLIT-5  where a page of the size's own class would make a new peak of committed memory, a class
//     above it in the picture serves the size, if it has free blocks beside its current page, or
//     in the pool, that are at most a fourth too long. So a program whose blocks become shorter as
//     time goes by has the memory of the longer ones, of whose pages each has some block in use.
//     (40,000 blocks of 8,000 bytes, replaced by shorter and shorter ones down to 1,000: 407 MiB
//     and 1.0 s, 600 and 1.8 without; glibc 301 and 1.5, tcmalloc 461, snmalloc 529, jemalloc 673.)
//     It is split again as SPLIT-2 says. Not in a small heap, where a page is resident in part; nor
//     beside other threads, which need those blocks themselves (larson: 1.07 of the time, 1.05 of
//     the memory).
// SPLIT-6  a class is split for a size that a block shrinks to (REALLOC-2) as soon as the
//     sub-process has MI_SPLIT_LESS_PAGES of it: a program that takes long blocks and cuts them to
//     the size that it needs allocates none of these sizes, and its pages are never full when one
//     shrinks. (With two pages already, threads with small heaps need 1.08 to 1.2 of the memory:
//     mstress.)
//
// Any block that is large enough is a block for a size: nothing else depends on this map, and only
// the owner of the theap reads and changes it. Deliberately absent: a map for the whole heap, which
// threads would have to share, and in which a thread with few blocks beside one with many would pay
// for it; wide classes in builds that watch what lies behind a block (MI_HAS_SPLIT).
#include "split.h"

#include <string.h>

#include "crowd.h"
#include "hold.h"

// One behind the last class that others can serve.
#define MI_SPLIT_END (MI_CLASS_COUNT - MI_SPLIT_TOP * (MI_CLASS_MAX_LOG2 - MI_SLICE_SHIFT))
// SPLIT-5: the part of a block that may be lost, at most.
#define MI_SPLIT_WASTE_PART 4
// The pages of a wide class from which on a crowd splits it, and a block that shrinks.
#define MI_SPLIT_CROWD_PAGES 2
#define MI_SPLIT_LESS_PAGES 8

mi_static_assert((MI_SPLIT_FIRST - 1) % MI_SPLIT_TOP == 0, "doublings end at multiples");
mi_static_assert((MI_SPLIT_END - 1) % MI_SPLIT_TOP == 0, "the last one, too");

// Return the entry of the largest size of a class from MI_SPLIT_FIRST on.
static uint8_t* mi_split_entry(mi_theap_t* theap, size_t size_class) {
  if (size_class >= MI_CLASS_SMALL_COUNT) return &theap->class_of[mi_class_entry(size_class)];
  // The class is (9 + k % 8) << (k / 8 + 4) bytes; each entry is for 8 of them.
  const size_t k = size_class - MI_SPLIT_FIRST;
  return &theap->class_of[(MI_SPLIT_FIRST + k % MI_SPLIT_TOP) << (k / MI_SPLIT_TOP + 1)];
}

// Return the class that serves the sizes of such a class.
static size_t mi_split_of(mi_theap_t* theap, size_t size_class) {
  return *mi_split_entry(theap, size_class);
}

// Return the class above `size_class`, or itself, at a multiple of `step`.
static size_t mi_split_above(size_t size_class, size_t step) {
  return mi_bits_align_up(size_class, step);
}

// Return the class below `server` that the picture has for the sizes of `size_class`.
static size_t mi_split_below(size_t server, size_t size_class) {
  for (size_t step = MI_SPLIT_TOP / 2; step > 1; step /= 2) {
    const size_t c = mi_split_above(size_class, step);
    if (c < server) return c;
  }
  return size_class;
}

// True if `server` may serve the sizes of `size_class`.
static bool mi_split_may_serve(size_t server, size_t size_class) {
  for (size_t step = 1; step <= MI_SPLIT_TOP; step *= 2) {
    if (mi_split_above(size_class, step) == server) return true;
  }
  return false;
}

// Let `server` serve the sizes of a class from MI_SPLIT_FIRST on.
static void mi_split_set(mi_theap_t* theap, size_t size_class, size_t server) {
  uint8_t* const last = mi_split_entry(theap, size_class);
  const bool is_small = size_class < MI_CLASS_SMALL_COUNT;
  const size_t count = is_small ? (size_t)2 << ((size_class - MI_SPLIT_FIRST) / MI_SPLIT_TOP) : 1;
  memset(last + 1 - count, (int)server, count);
}

static uint8_t mi_split_widest(size_t size_class) {
  const bool is_wide = MI_HAS_SPLIT && size_class >= MI_SPLIT_FIRST && size_class < MI_SPLIT_END;
  return (uint8_t)(is_wide ? mi_split_above(size_class, MI_SPLIT_TOP) : size_class);
}

MI_INTERNAL void mi_split_init(mi_theap_t* theap) {
  for (size_t w = 0; w <= mi_class_size(MI_SPLIT_FIRST - 1) / 8; w++) {
    theap->class_of[w] = (uint8_t)mi_class_of(w * 8);
  }
  for (size_t c = MI_SPLIT_FIRST; c < MI_CLASS_COUNT; c++) {
    mi_split_set(theap, c, mi_split_widest(c));
  }
}

// Let `server` serve all sizes that it may of those that `before` serves. Returns `server`.
static size_t mi_split_use(mi_theap_t* theap, size_t server, size_t before) {
  theap->is_split = true;
  for (size_t c = server; c > server - MI_SPLIT_TOP && c >= MI_SPLIT_FIRST; c--) {
    if (mi_split_of(theap, c) == before && mi_split_may_serve(server, c)) {
      mi_split_set(theap, c, server);
    }
  }
  return server;
}

// True if the theap has no free block of the class: it would take or make another page.
static bool mi_split_is_full(const mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (theap->free[size_class] != NULL || theap->queue[size_class].last != NULL) return false;
  return page == NULL || (page->sample_rest == NULL && !mi_page_has_free(page));
}

// Return how many pages of the class the sub-process has.
static int32_t mi_split_pages(const mi_theap_t* theap, size_t size_class) {
  return mi_atomic_load_relaxed(&mi_theap_subproc(theap)->count.of_class[size_class].there);
}

// True if the class is to be split: SPLIT-2.
static bool mi_split_is_due(const mi_theap_t* theap, size_t size_class) {
  if (!mi_crowd_shares(theap)) return mi_theap_current(theap, size_class) != NULL;
  return mi_split_pages(theap, size_class) >= MI_SPLIT_CROWD_PAGES;
}

// Return a class of SPLIT-3 in which the theap has a page with a free block, or, if `is_pooled`,
// the pools of its heap have; else `server`.
static size_t mi_split_find(mi_theap_t* theap, size_t own, size_t server, bool is_pooled) {
  for (size_t step = 1; step < MI_SPLIT_TOP; step *= 2) {
    const size_t c = mi_split_above(own, step);
    if (c == server) break;
    const bool is_found =
        is_pooled ? mi_pool_has(mi_theap_heap(theap), c) : theap->queue[c].last != NULL;
    if (is_found) return mi_split_use(theap, c, server);
  }
  return server;
}

// True if others may serve the sizes of the class.
static bool mi_split_may_lean(size_t own) {
  return MI_HAS_SPLIT && own - MI_SPLIT_FIRST < MI_SPLIT_END - MI_SPLIT_FIRST &&
         own % MI_SPLIT_TOP != 0;
}

// SPLIT-5: the theap has no free block of such a class. Return the class that serves its sizes now.
static mi_attr_noinline size_t mi_split_lean(mi_theap_t* theap, size_t own) {
  mi_heap_t* const heap = mi_theap_heap(theap);
  if (mi_theap_is_in_small_heap(theap)) return own;
  if (!mi_theap_is_alone(&heap->subproc->count)) return own;
  if (!mi_retain_is_peak(heap->subproc, mi_class_slices(own))) return own;
  if (mi_pool_has(heap, own)) return own;
  for (size_t step = 2; step <= MI_SPLIT_TOP; step *= 2) {
    const size_t c = mi_split_above(own, step);
    const size_t size = mi_class_size(c);
    if (c == own) continue;
    if (size - mi_class_size(own) > size / MI_SPLIT_WASTE_PART) break;
    const bool has_free = theap->queue[c].last != NULL || mi_pool_has(heap, c);
    if (has_free) return mi_split_use(theap, c, own);
  }
  return own;
}

MI_INTERNAL size_t mi_split_choose(mi_theap_t* theap, size_t size) {
  const size_t own = mi_class_of(size);
  size_t server = mi_split_class(theap, size);
  if (mi_likely(own == server)) {
    const bool is_lean = mi_split_may_lean(own) && mi_split_is_full(theap, own);
    return mi_unlikely(is_lean) ? mi_split_lean(theap, own) : own;
  }
  server = mi_split_find(theap, own, server, false);
  if (own == server || !mi_split_is_full(theap, server)) return server;
  server = mi_split_find(theap, own, server, true);
  while (own != server && mi_split_is_full(theap, server) && mi_split_is_due(theap, server)) {
    server = mi_split_use(theap, mi_split_below(server, own), server);
  }
  mi_assert_full(mi_split_is_valid(theap));
  return server;
}

// Split `server` for the sizes of the class `own`, as far as SPLIT-6 permits. Returns the class
// that serves these now.
static mi_attr_cold size_t mi_split_less(mi_theap_t* theap, size_t own, size_t server) {
  const mi_hold_t hold = mi_hold_enter(theap->home);
  while (own != server && mi_split_pages(theap, server) >= MI_SPLIT_LESS_PAGES) {
    server = mi_split_use(theap, mi_split_below(server, own), server);
  }
  mi_hold_leave(theap->home, hold);
  mi_assert_full(mi_split_is_valid(theap));
  return server;
}

MI_INTERNAL mi_attr_cold bool mi_split_saves(mi_theap_t* theap, size_t size, size_t most) {
  const size_t own = mi_class_of(size);
  if (own > most || theap->thread_id == 0) return own <= most;
  size_t server = mi_split_class(theap, size);
  if (server > most && mi_split_pages(theap, server) >= MI_SPLIT_LESS_PAGES) {
    server = mi_split_less(theap, own, server);
  }
  return server <= most;
}

static bool mi_split_is_unused(const mi_theap_t* theap, size_t size_class) {
  return mi_theap_current(theap, size_class) == NULL && mi_split_is_full(theap, size_class);
}

// Let the next class that is in use above `server` serve the sizes of a class.
static void mi_split_lift(mi_theap_t* theap, size_t size_class, size_t server) {
  for (size_t step = 2; step <= MI_SPLIT_TOP; step *= 2) {
    const size_t c = mi_split_above(size_class, step);
    if (c <= server || (step < MI_SPLIT_TOP && mi_split_of(theap, c) != c)) continue;
    mi_split_set(theap, size_class, c);
    return;
  }
}

MI_INTERNAL void mi_split_join(mi_theap_t* theap) {
  if (!theap->is_split) return;
  theap->is_split = false;
  for (size_t c = MI_SPLIT_END - 1; c >= MI_SPLIT_FIRST; c--) {
    const size_t server = mi_split_of(theap, c);
    if (server % MI_SPLIT_TOP == 0) continue;
    if (mi_split_is_unused(theap, server)) {
      mi_split_lift(theap, c, server);
    } else {
      theap->is_split = true;
    }
  }
}

MI_INTERNAL bool mi_split_is_valid(mi_theap_t* theap) {
  for (size_t c = MI_SPLIT_FIRST; c < MI_CLASS_COUNT; c++) {
    if (!mi_split_may_serve(mi_split_of(theap, c), c)) return false;
  }
  return true;
}
