// SPDX-License-Identifier: MIT
// jemalloc_arena.c - jemalloc's arenas, which are heaps: which number leads to which heap, and the
// threads whose arena it is.
//
// JEMALLOC_ARENA-1  an arena's number leads to one heap from arenas.create to arena.<i>.destroy;
//     then the number may be used again. arena.<i>.reset puts another heap in its place.
// JEMALLOC_ARENA-2  a heap that is the default one of another thread is not ended: that thread goes
//     on to allocate from it, and asks nobody. thread.arena first counts the thread, and then looks
//     whether the number still leads to a heap; who ends one first takes the number away, and then
//     looks whether threads are counted. Each look at the count is a read-modify-write of the same
//     word, so that one of the two sees the other.
//
// Deliberately absent: threads that choose a heap by mi_heap_set_default, which their program must
// keep in mind; and ending the blocks of an arena under threads that use it, which jemalloc's
// arena.<i>.reset does: it is refused with EFAULT, as jemalloc's arena.<i>.destroy is.
#include <errno.h>
#include <pthread.h>

#include "jemalloc.h"

#define MI_JEMALLOC_ARENA_MAX ((size_t)4095) // numbers below it fit in the flags of mallocx

// -- Numbers --

// Stands in the place of a heap that is being ended, so that nobody takes its number.
#define MI_JEMALLOC_ENDING ((mi_heap_t*)(uintptr_t)1)
// The heap of each arena but the first, which is the main heap. Written by those who create, reset
// and destroy, by CAS, which is acq_rel: they see what was written before; and by who has put
// MI_JEMALLOC_ENDING there, with release. Read by any thread, with acquire.
static mi_atomic(mi_heap_t*) mi_jemalloc_slot[MI_JEMALLOC_ARENA_MAX];
// Numbers that have been in use, but for the first. Written by those who create, read by any
// thread; relaxed, because the slot says whether there is an arena.
static mi_atomic(size_t) mi_jemalloc_created;
// The threads that chose each of these arenas. Written and read by any thread, acq_rel, in
// `mi_jemalloc_count_bound`: JEMALLOC_ARENA-2; also read relaxed, as a figure, and written relaxed
// in the child of a fork, which has one thread.
static mi_atomic(size_t) mi_jemalloc_bound[MI_JEMALLOC_ARENA_MAX];

MI_INTERNAL size_t mi_jemalloc_arenas(void) {
  return 1 + mi_atomic_load_relaxed(&mi_jemalloc_created);
}

MI_INTERNAL mi_heap_t* mi_jemalloc_heap(size_t arena) {
  if (arena == 0) return mi_heap_main();
  if (arena >= MI_JEMALLOC_ARENA_MAX) return NULL;
  // Sees the heap that another thread made; pairs with the CAS in `mi_jemalloc_create_arena`.
  mi_heap_t* const heap = mi_atomic_load_acquire(&mi_jemalloc_slot[arena]);
  return heap != MI_JEMALLOC_ENDING ? heap : NULL;
}

MI_INTERNAL size_t mi_jemalloc_arena_of(const mi_heap_t* heap) {
  const size_t count = mi_jemalloc_arenas();
  for (size_t i = 1; i < count; i++) {
    if (mi_jemalloc_heap(i) == heap) return i;
  }
  return 0;
}

MI_INTERNAL bool mi_jemalloc_create_arena(size_t* arena) {
  mi_heap_t* const heap = mi_heap_new();
  if (heap == NULL) return false;
  for (size_t i = 1; i < MI_JEMALLOC_ARENA_MAX; i++) {
    mi_heap_t* none = NULL;
    // Publishes the heap; pairs with the acquire in `mi_jemalloc_heap`.
    if (!mi_atomic_cas_strong_acq_rel(&mi_jemalloc_slot[i], &none, heap)) continue;
    size_t created = mi_atomic_load_relaxed(&mi_jemalloc_created);
    while (created < i && !mi_atomic_cas_weak_relaxed(&mi_jemalloc_created, &created, i)) {
    }
    *arena = i;
    return true;
  }
  mi_heap_delete(heap);
  return false;
}

// -- Threads. The arena of a thread is in a key of POSIX threads, which tells its end. --

static pthread_key_t mi_jemalloc_key;
static pthread_once_t mi_jemalloc_key_once = PTHREAD_ONCE_INIT;
// Written once, before it is read: pthread_once.
static bool mi_jemalloc_has_key;

static void mi_jemalloc_make_key(void);

// The number of the arena that the calling thread chose; 0 for none.
static size_t mi_jemalloc_chosen(void) {
  pthread_once(&mi_jemalloc_key_once, &mi_jemalloc_make_key);
  return mi_jemalloc_has_key ? (size_t)(uintptr_t)pthread_getspecific(mi_jemalloc_key) : 0;
}

// Count a thread, or one less, and return how many there are.
static size_t mi_jemalloc_count_bound(size_t arena, size_t more) {
  // Sees what another thread did to the number; pairs with `mi_jemalloc_count_bound` there.
  return mi_atomic_add_acq_rel(&mi_jemalloc_bound[arena], more) + more;
}

static void mi_jemalloc_on_thread_end(void* arena) {
  mi_jemalloc_count_bound((size_t)(uintptr_t)arena, (size_t)0 - 1);
}

// The other threads are not in the child.
static void mi_jemalloc_on_fork_in_child(void) {
  for (size_t i = 1; i < mi_jemalloc_arenas(); i++) {
    mi_atomic_store_relaxed(&mi_jemalloc_bound[i], i == mi_jemalloc_chosen() ? 1 : 0);
  }
}

static void mi_jemalloc_make_key(void) {
  mi_jemalloc_has_key = pthread_key_create(&mi_jemalloc_key, &mi_jemalloc_on_thread_end) == 0;
  if (mi_jemalloc_has_key) pthread_atfork(NULL, NULL, &mi_jemalloc_on_fork_in_child);
}

MI_INTERNAL int mi_jemalloc_choose_arena(size_t arena) {
  const size_t before = mi_jemalloc_chosen();
  if (arena != 0) mi_jemalloc_count_bound(arena, 1);
  mi_heap_t* const heap = mi_jemalloc_heap(arena);
  const bool is_done = heap != NULL && mi_jemalloc_has_key &&
                       pthread_setspecific(mi_jemalloc_key, (const void*)(uintptr_t)arena) == 0;
  if (is_done) mi_heap_set_default(heap);
  const size_t left = is_done ? before : arena;
  if (left != 0) mi_jemalloc_count_bound(left, (size_t)0 - 1);
  return is_done ? 0 : heap == NULL ? EFAULT : EAGAIN;
}

MI_INTERNAL size_t mi_jemalloc_threads(size_t arena, size_t all) {
  if (arena != 0) return mi_atomic_load_relaxed(&mi_jemalloc_bound[arena]);
  for (size_t i = 1; i < mi_jemalloc_arenas(); i++) {
    const size_t bound = mi_atomic_load_relaxed(&mi_jemalloc_bound[i]);
    all -= bound < all ? bound : all;
  }
  return all;
}

// -- The end of an arena --

// Put another heap, or none, in the place of an arena's, and end that one.
static int mi_jemalloc_end_heap(size_t arena, mi_heap_t* next) {
  mi_heap_t* const heap = mi_jemalloc_heap(arena);
  mi_heap_t* expected = heap;
  // Sees the heap that another thread made; pairs with the CAS in `mi_jemalloc_create_arena`.
  if (heap == NULL ||
      !mi_atomic_cas_strong_acq_rel(&mi_jemalloc_slot[arena], &expected, MI_JEMALLOC_ENDING)) {
    return EFAULT;
  }
  const bool is_default = mi_heap_get_default() == heap;
  const size_t own = next != NULL && mi_jemalloc_chosen() == arena ? 1 : 0;
  const bool is_used = mi_jemalloc_count_bound(arena, 0) > own || (is_default && next == NULL);
  if (!is_used && is_default) mi_heap_set_default(next);
  // Publishes the other heap; pairs with the acquire in `mi_jemalloc_heap`.
  mi_atomic_store_release(&mi_jemalloc_slot[arena], is_used ? heap : next);
  if (!is_used) mi_heap_destroy(heap);
  return is_used ? EFAULT : 0;
}

MI_INTERNAL int mi_jemalloc_reset_arena(size_t arena) {
  if (arena == 0) return EFAULT;
  mi_heap_t* const next = mi_heap_new();
  if (next == NULL) return EAGAIN;
  const int err = mi_jemalloc_end_heap(arena, next);
  if (err != 0) mi_heap_delete(next);
  return err;
}

MI_INTERNAL int mi_jemalloc_destroy_arena(size_t arena) {
  return arena == 0 ? EFAULT : mi_jemalloc_end_heap(arena, NULL);
}
