// SPDX-License-Identifier: MIT
// heaps.h - for programs that test classes over heaps: how many heaps there are, how many blocks
// one has, a heap that cannot be made, and a new-handler that gives up.
//
// Link with `-Wl,--wrap=mi_heap_new`.
#ifndef INTEROP_HEAPS_H
#define INTEROP_HEAPS_H

#include <mimalloc.h>

#include <new>

#include "../../lib/check.h"

static bool count_heap(mi_heap_t*, void* arg) {
  ++*static_cast<int*>(arg);
  return true;
}

static int heap_count() {
  int count = 0;
  mi_subproc_visit_heaps(mi_subproc_current(), &count_heap, &count);
  return count;
}

static bool count_block(const mi_heap_t*, const mi_heap_area_t*, void* block, size_t, void* arg) {
  if (block != nullptr) ++*static_cast<int*>(arg);
  return true;
}

static int block_count(mi_heap_t* heap) {
  int count = 0;
  mi_heap_visit_blocks(heap, true, &count_block, &count);
  return count;
}

static bool is_refused = false; // no heap can be made

extern "C" mi_heap_t* __real_mi_heap_new(void);
extern "C" mi_heap_t* __wrap_mi_heap_new(void) {
  return is_refused ? nullptr : __real_mi_heap_new();
}

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
static int handler_calls = 0;

// Gives up at the second call.
static void handler() {
  if (++handler_calls == 2) std::set_new_handler(nullptr);
}

// Whether `action` throws std::bad_alloc after it called the new-handler until that gave up.
template <class F> static bool runs_out_of_memory(F action) {
  handler_calls = 0;
  std::set_new_handler(&handler);
  bool is_thrown = false;
  try {
    action();
  } catch (const std::bad_alloc&) {
    is_thrown = true;
  }
  std::set_new_handler(nullptr);
  return is_thrown && handler_calls == 2;
}

// Whether `action` goes on when the new-handler found some memory.
template <class F> static bool is_helped(F action) {
  std::set_new_handler([] { is_refused = false; });
  is_refused = true;
  action();
  std::set_new_handler(nullptr);
  const bool is_called = !is_refused;
  is_refused = false;
  return is_called;
}
#endif

#endif
