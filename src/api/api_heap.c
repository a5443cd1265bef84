// SPDX-License-Identifier: MIT
// api_heap.c - heaps and theaps: their life, and the functions that allocate from one.
//
// mi_heap_malloc, mi_heap_zalloc and their forms with a theap are in core/front/alloc.c, strings in
// api_string.c, `new` in api_new.c. Each function here looks up the calling thread's theap of the
// heap and goes on as its namesake without a heap.
//
// API_HEAP-1  a heap that is NULL is the main heap of the calling thread's sub-process
//     (mi_enter_theap).
// API_HEAP-2  the main heap does not end, and no heap ends twice: both attempts give a warning.
// API_HEAP-3  no heap is made in an arena of a sub-process that was ended, which may have no memory
//     and belong to nobody: a warning.
#include "api.h"
#include "../core/core.h"

// -- Life --

mi_heap_t* mi_heap_main(void) mi_attr_noexcept {
  mi_process_setup();
  return &mi_enter_current()->heap_main;
}

mi_heap_t* mi_heap_get_backing(void) mi_attr_noexcept { return mi_heap_main(); }

mi_heap_t* mi_heap_new_in_arena(mi_arena_id_t arena_id) mi_attr_noexcept {
  mi_process_setup();
  mi_arena_t* const arena = (mi_arena_t*)arena_id;
  mi_subproc_t* const subproc = arena != NULL ? mi_subproc_of_arena(arena) : mi_enter_current();
  if (subproc == NULL) { // API_HEAP-3
    mi_output_force_warning("no heap in arena %p, whose sub-process has ended\n", arena_id);
    return NULL;
  }
  mi_heap_t* const heap = mi_heap_make(subproc, arena);
  if (heap == NULL) mi_api_no_memory("heap_new", sizeof(mi_heap_t));
  return heap;
}

mi_heap_t* mi_heap_new(void) mi_attr_noexcept { return mi_heap_new_in_arena(NULL); }

mi_heap_t* mi_heap_new_ex(int heap_tag, bool allow_destroy,
                          mi_arena_id_t arena_id) mi_attr_noexcept {
  (void)heap_tag;
  (void)allow_destroy;
  return mi_heap_new_in_arena(arena_id);
}

// End a heap, or warn (API_HEAP-2).
static void mi_api_end_heap(mi_heap_t* heap, const char* what, bool (*end)(mi_heap_t* heap)) {
  if (heap == NULL) return;
  if (heap->is_main) {
    mi_output_force_warning("cannot %s the main heap\n", what);
  } else if (!end(heap)) {
    mi_output_force_warning("cannot %s heap %p, which has ended\n", what, (void*)heap);
  }
}

void mi_heap_delete(mi_heap_t* heap) mi_attr_noexcept {
  mi_api_end_heap(heap, "delete", &mi_heap_end_by_delete);
}

void mi_heap_destroy(mi_heap_t* heap) mi_attr_noexcept {
  mi_api_end_heap(heap, "destroy", &mi_heap_end_by_destroy);
}

// -- Whose memory --

mi_heap_t* mi_heap_of(const void* p) mi_attr_noexcept {
  mi_page_t* const page = mi_walk_find(p);
  // Sees the const fields of the heap; pairs with the release in `mi_page_make`.
  return page == NULL ? NULL : mi_atomic_load_acquire(&page->heap);
}

bool mi_heap_contains(const mi_heap_t* heap, const void* p) mi_attr_noexcept {
  const mi_heap_t* const of = mi_heap_of(p);
  return of != NULL && of == (heap != NULL ? heap : mi_heap_main());
}

bool mi_any_heap_contains(const void* p) mi_attr_noexcept { return mi_walk_find(p) != NULL; }
bool mi_is_in_heap_region(const void* p) mi_attr_noexcept { return mi_walk_find(p) != NULL; }
bool mi_check_owned(const void* p) mi_attr_noexcept { return mi_walk_find(p) != NULL; }

bool mi_heap_contains_block(mi_heap_t* heap, const void* p) mi_attr_noexcept {
  return mi_heap_contains(heap, p);
}

bool mi_heap_check_owned(mi_heap_t* heap, const void* p) mi_attr_noexcept {
  return mi_heap_contains(heap, p);
}

void mi_heap_set_numa_affinity(mi_heap_t* heap, int numa_node) mi_attr_noexcept {
  mi_process_setup();
  if (heap == NULL) heap = mi_heap_main();
  mi_atomic_store_relaxed(&heap->numa_wish, 1 + mi_numa_node(numa_node));
}

// -- Theaps --

mi_theap_t* mi_heap_theap(mi_heap_t* heap) mi_attr_noexcept { return mi_enter_theap(heap); }

mi_theap_t* mi_theap_get_default(void) mi_attr_noexcept {
  mi_enter_home();
  mi_theap_t* const theap = mi_self_theap();
  return theap->thread_id != 0 ? theap : NULL;
}

mi_theap_t* mi_theap_set_default(mi_theap_t* theap) mi_attr_noexcept {
  mi_theap_t* const before = mi_theap_get_default();
  if (theap == NULL || before == NULL) return before;
  if (theap->home == before->home) {
    mi_self()->theap = theap;
  } else {
    mi_output_force_warning("a theap of another thread cannot be the default\n");
  }
  return before;
}

mi_heap_t* mi_heap_get_default(void) mi_attr_noexcept {
  mi_theap_t* const theap = mi_theap_get_default();
  return theap != NULL ? mi_theap_heap(theap) : mi_heap_main();
}

mi_heap_t* mi_heap_set_default(mi_heap_t* heap) mi_attr_noexcept {
  mi_theap_t* const before = mi_theap_set_default(mi_enter_theap(heap));
  return before != NULL ? mi_theap_heap(before) : mi_heap_main();
}

void mi_theap_collect(mi_theap_t* theap, bool force) mi_attr_noexcept {
  if (theap == NULL || theap->thread_id == 0) return;
  if (!mi_theap_is_usable(theap)) {
    mi_report(MI_ERROR_WRONG_HEAP, "theap_collect", theap, 0);
    return;
  }
  mi_collect_theap(theap, force ? MI_FORCE : MI_GENTLE);
}

void mi_heap_collect(mi_heap_t* heap, bool force) mi_attr_noexcept {
  mi_theap_collect(mi_theap_find(heap), force);
}

// A theap is changed by its own thread only.
void mi_theap_guarded_set_sample_rate(mi_theap_t* theap, size_t sample_rate,
                                      size_t seed) mi_attr_noexcept {
  if (theap == NULL || theap->thread_id != mi_tls_thread_id()) return;
  mi_sample_follow_options(theap);
  if (sample_rate > 0) mi_fault_start_guards();
  mi_sample_set_rate(theap, sample_rate, seed);
}

void mi_theap_guarded_set_size_bound(mi_theap_t* theap, size_t min, size_t max) mi_attr_noexcept {
  if (theap == NULL || theap->thread_id != mi_tls_thread_id()) return;
  mi_sample_follow_options(theap);
  mi_sample_set_bounds(theap, min, max);
}

void mi_heap_guarded_set_sample_rate(mi_heap_t* heap, size_t sample_rate,
                                     size_t seed) mi_attr_noexcept {
  mi_theap_guarded_set_sample_rate(mi_enter_theap(heap), sample_rate, seed);
}

void mi_heap_guarded_set_size_bound(mi_heap_t* heap, size_t min, size_t max) mi_attr_noexcept {
  mi_theap_guarded_set_size_bound(mi_enter_theap(heap), min, max);
}

// -- Allocation from a theap --

void* mi_theap_calloc(mi_theap_t* theap, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("theap_calloc");
  return mi_theap_zalloc(theap, total);
}

void* mi_theap_malloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept {
  return mi_theap_malloc(theap, size);
}

void* mi_theap_zalloc_small(mi_theap_t* theap, size_t size) mi_attr_noexcept {
  return mi_theap_zalloc(theap, size);
}

void* mi_theap_malloc_aligned(mi_theap_t* theap, size_t size, size_t alignment) mi_attr_noexcept {
  return mi_api_aligned(theap, "theap_malloc_aligned", size, alignment, 0, MI_UNINITIALIZED);
}

void* mi_theap_realloc(mi_theap_t* theap, void* p, size_t newsize) mi_attr_noexcept {
  return mi_api_realloc(theap, p, newsize, MI_UNINITIALIZED);
}

// -- Allocation from a heap --

void* mi_heap_calloc(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("heap_calloc");
  return mi_heap_zalloc(heap, total);
}

void* mi_heap_mallocn(mi_heap_t* heap, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("heap_mallocn");
  return mi_heap_malloc(heap, total);
}

void* mi_heap_malloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept {
  return mi_heap_malloc(heap, size);
}

void* mi_heap_zalloc_small(mi_heap_t* heap, size_t size) mi_attr_noexcept {
  return mi_heap_zalloc(heap, size);
}

void* mi_heap_realloc(mi_heap_t* heap, void* p, size_t newsize) mi_attr_noexcept {
  return mi_api_realloc(mi_enter_theap_in(heap), p, newsize, MI_UNINITIALIZED);
}

void* mi_heap_rezalloc(mi_heap_t* heap, void* p, size_t newsize) mi_attr_noexcept {
  return mi_api_realloc(mi_enter_theap_in(heap), p, newsize, MI_ZERO);
}

void* mi_heap_reallocf(mi_heap_t* heap, void* p, size_t newsize) mi_attr_noexcept {
  void* const q = mi_heap_realloc(heap, p, newsize);
  if (q == NULL) mi_free(p);
  return q;
}

void* mi_heap_reallocn(mi_heap_t* heap, void* p, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("heap_reallocn");
  return mi_heap_realloc(heap, p, total);
}

void* mi_heap_recalloc(mi_heap_t* heap, void* p, size_t newcount, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(newcount, size, &total)) return mi_api_overflow("heap_recalloc");
  return mi_heap_rezalloc(heap, p, total);
}

// -- Aligned, from a heap --

static void* mi_api_heap_aligned(mi_heap_t* heap, size_t size, size_t alignment, size_t offset,
                                 mi_fill_t fill) {
  return mi_api_aligned(mi_enter_theap_in(heap), "heap_malloc_aligned", size, alignment, offset,
                        fill);
}

static void* mi_api_heap_realloc_aligned(mi_heap_t* heap, void* p, size_t size, size_t alignment,
                                         size_t offset, mi_fill_t fill) {
  return mi_api_realloc_aligned(mi_enter_theap_in(heap), "heap_realloc_aligned", p, size, alignment,
                                offset, fill);
}

void* mi_heap_malloc_aligned(mi_heap_t* heap, size_t size, size_t alignment) mi_attr_noexcept {
  return mi_api_heap_aligned(heap, size, alignment, 0, MI_UNINITIALIZED);
}

void* mi_heap_malloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                                size_t offset) mi_attr_noexcept {
  return mi_api_heap_aligned(heap, size, alignment, offset, MI_UNINITIALIZED);
}

void* mi_heap_zalloc_aligned(mi_heap_t* heap, size_t size, size_t alignment) mi_attr_noexcept {
  return mi_api_heap_aligned(heap, size, alignment, 0, MI_ZERO);
}

void* mi_heap_zalloc_aligned_at(mi_heap_t* heap, size_t size, size_t alignment,
                                size_t offset) mi_attr_noexcept {
  return mi_api_heap_aligned(heap, size, alignment, offset, MI_ZERO);
}

void* mi_heap_calloc_aligned(mi_heap_t* heap, size_t count, size_t size,
                             size_t alignment) mi_attr_noexcept {
  return mi_heap_calloc_aligned_at(heap, count, size, alignment, 0);
}

void* mi_heap_calloc_aligned_at(mi_heap_t* heap, size_t count, size_t size, size_t alignment,
                                size_t offset) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("heap_calloc_aligned");
  return mi_api_heap_aligned(heap, total, alignment, offset, MI_ZERO);
}

void* mi_heap_realloc_aligned(mi_heap_t* heap, void* p, size_t newsize,
                              size_t alignment) mi_attr_noexcept {
  return mi_api_heap_realloc_aligned(heap, p, newsize, alignment, 0, MI_UNINITIALIZED);
}

void* mi_heap_realloc_aligned_at(mi_heap_t* heap, void* p, size_t newsize, size_t alignment,
                                 size_t offset) mi_attr_noexcept {
  return mi_api_heap_realloc_aligned(heap, p, newsize, alignment, offset, MI_UNINITIALIZED);
}

void* mi_heap_rezalloc_aligned(mi_heap_t* heap, void* p, size_t newsize,
                               size_t alignment) mi_attr_noexcept {
  return mi_api_heap_realloc_aligned(heap, p, newsize, alignment, 0, MI_ZERO);
}

void* mi_heap_rezalloc_aligned_at(mi_heap_t* heap, void* p, size_t newsize, size_t alignment,
                                  size_t offset) mi_attr_noexcept {
  return mi_api_heap_realloc_aligned(heap, p, newsize, alignment, offset, MI_ZERO);
}

void* mi_heap_recalloc_aligned(mi_heap_t* heap, void* p, size_t newcount, size_t size,
                               size_t alignment) mi_attr_noexcept {
  return mi_heap_recalloc_aligned_at(heap, p, newcount, size, alignment, 0);
}

void* mi_heap_recalloc_aligned_at(mi_heap_t* heap, void* p, size_t newcount, size_t size,
                                  size_t alignment, size_t offset) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(newcount, size, &total)) return mi_api_overflow("heap_recalloc");
  return mi_api_heap_realloc_aligned(heap, p, total, alignment, offset, MI_ZERO);
}

// -- Experiments of versions 3.0 and 3.1 --

bool mi_heap_unload(mi_heap_t* heap) mi_attr_noexcept {
  (void)heap;
  return false;
}

bool mi_heap_reload(mi_heap_t* heap, mi_arena_id_t arena_id) mi_attr_noexcept {
  (void)heap;
  (void)arena_id;
  return false;
}
