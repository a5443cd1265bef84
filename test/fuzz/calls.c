// SPDX-License-Identifier: MIT
// calls.c - fuzz target: sequences of calls of the public interface on one to three threads,
// against a model of what every block must be (model.h), on the fake operating system.
//
// The input says what the system is like, and then for each step which thread does what. One
// thread runs at a time, so that an input always does the same. The system may refuse calls: the
// input chooses which, and the model knows when NULL is right.
//
// What is checked: contents, alignment, zeroing, usable size, no overlap, the heap of a block,
// what a visitor sees, reports of misuse; at the end the invariants of all structures (unit.c),
// that every slice is free, and that after `mi_unload` nothing is mapped.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arenas/arena.h"
#include "core/arenas/book.h"
#include "core/pages/page.h"
#include "core/common/pagemap.h"
#include "core/threads/sample.h"
#include "core/heaps/subproc.h"
#include "mimalloc-stats.h"
#include "model.h"

#define STEP_COUNT 600
#define LIVE_MAX ((size_t)64 << 20) // bytes of all blocks together

static long first_options[MI_OPTION_COUNT];

// -- Steps: allocation --

static size_t draw_size(void) {
  static const uint8_t bits[] = {7, 7, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24};
  const size_t size = fuzz_size(&fuzz.in, bits[fuzz_below(&fuzz.in, sizeof(bits))]);
  return fuzz.live + size > LIVE_MAX ? size % 1024 : size;
}

static size_t draw_alignment(void) {
  const size_t shift = fuzz_below(&fuzz.in, 32);
  return (size_t)1 << (shift < 25 ? shift : shift - 22);
}

static size_t main_home(void) { return fuzz.actors[fuzz.actor].subproc; }

// A heap there is, mostly that of the thread.
static size_t draw_home(void) {
  const size_t home = fuzz_below(&fuzz.in, HOME_COUNT * 2);
  return home < HOME_COUNT && fuzz.home[home].heap != NULL ? home : main_home();
}

static void* allocate_plain(shadow_t* b, size_t how) {
  size_t slot = 0;
  void* p = NULL;
  switch (how) {
    case 0:
      return mi_zalloc(b->size);
    case 1:
      return mi_calloc(b->size / 3, 3);
    case 2:
      return b->size <= MI_SMALL_SIZE_MAX ? mi_malloc_small(b->size) : mi_malloc(b->size);
    case 3:
      return b->size <= MI_SMALL_SIZE_MAX ? mi_zalloc_small(b->size) : mi_zalloc(b->size);
    case 4:
      return mi_malloc_aligned_at(b->size, b->alignment, b->offset);
    case 5:
      return mi_zalloc_aligned_at(b->size, b->alignment, b->offset);
    case 6:
      return mi_memalign(b->alignment, b->size);
    case 7:
      errno = ENOMEM; // which it does not touch
      if (mi_posix_memalign(&p, b->alignment, b->size) != 0) CHECK(p == NULL);
      return p;
    case 8:
      p = mi_umalloc(b->size, &slot);
      CHECK(p == NULL || slot >= mi_usable_size(p));
      return p;
    case 9:
      return mi_new_nothrow(b->size);
    case 10:
      return mi_pvalloc(b->size);
    default:
      return mi_malloc(b->size);
  }
}

static void* allocate_in(mi_heap_t* heap, shadow_t* b, size_t how) {
  switch (how) {
    case 0:
      return mi_heap_zalloc(heap, b->size);
    case 1:
      return mi_heap_calloc(heap, b->size / 3, 3);
    case 4:
      return mi_heap_malloc_aligned_at(heap, b->size, b->alignment, b->offset);
    case 5:
      return mi_heap_zalloc_aligned_at(heap, b->size, b->alignment, b->offset);
    case 6:
      return mi_heap_malloc_aligned(heap, b->size, b->alignment);
    case 8: {
      mi_theap_t* const theap = mi_heap_theap(heap);
      return theap == NULL ? NULL : mi_theap_malloc(theap, b->size);
    }
    default:
      return mi_heap_malloc(heap, b->size);
  }
}

static void step_allocate(void) {
  shadow_t* const b = unused_block();
  if (b == NULL) return;
  *b = (shadow_t){.alignment = 1, .home = draw_home()};
  mi_heap_t* const heap = fuzz.home[b->home].heap;
  const bool is_plain = b->home == main_home();
  size_t how = fuzz_below(&fuzz.in, 16);
  if (!is_plain && (how == 2 || how == 3 || how == 7 || how >= 9)) how = 15;
  b->size = draw_size();
  if (how == 1) b->size = b->size / 3 * 3;
  if (how >= 4 && how <= 7) b->alignment = draw_alignment();
  if (how == 7 && b->alignment < sizeof(void*)) b->alignment = sizeof(void*);
  if (how == 4 || how == 5) b->offset = fuzz_below(&fuzz.in, 2) == 0 ? 0 : fuzz_size(&fuzz.in, 14);
  if (how == 10) b->alignment = os_fake.page_size;
  b->is_zero_behind = how <= 1 || how == 3 || how == 5;
  start_call();
  uint8_t* const p = (uint8_t*)(is_plain ? allocate_plain(b, how) : allocate_in(heap, b, how));
  if (!is_block(p, b->home)) return;
  b->p = p; // not before: the deferred-free function looks at blocks
  accept_block(b, 0);
}

// What cannot be represented is refused, and nothing changes.
static void step_absurd(void) {
  const size_t size = SIZE_MAX - fuzz_size(&fuzz.in, 62);
  const size_t bad = fuzz_size(&fuzz.in, 64) | 3;
  shadow_t* const b = used_block();
  start_call();
  CHECK(mi_malloc(size) == NULL && errno == ENOMEM);
  CHECK(mi_calloc(size / 2, 3) == NULL && mi_zalloc_aligned(size, 64) == NULL);
  CHECK(mi_malloc_aligned_at(100, bad, 0) == NULL && errno == EINVAL);
  CHECK(mi_malloc_aligned_at(size, 4096, 7) == NULL);
  if (b == NULL) return;
  CHECK(mi_realloc(b->p, size) == NULL && mi_recalloc(b->p, size / 2, 5) == NULL);
  CHECK(mi_expand(b->p, size) == NULL);
  check_block(b);
}

// -- Steps: resizing --

// `heap` NULL: by the functions without one.
static void* resize_block(shadow_t* b, size_t size, mi_heap_t* heap) {
  const bool is_plain = heap == NULL;
  const bool is_aligned = b->alignment > 1 || b->offset > 0;
  const bool is_zero = b->is_zero_behind && size >= b->size;
  b->is_zero_behind = is_zero;
  start_call();
  if (is_zero && is_aligned) {
    return is_plain ? mi_rezalloc_aligned_at(b->p, size, b->alignment, b->offset)
                    : mi_heap_rezalloc_aligned_at(heap, b->p, size, b->alignment, b->offset);
  }
  if (is_zero) return is_plain ? mi_rezalloc(b->p, size) : mi_heap_rezalloc(heap, b->p, size);
  if (is_aligned) {
    return is_plain ? mi_realloc_aligned_at(b->p, size, b->alignment, b->offset)
                    : mi_heap_realloc_aligned_at(heap, b->p, size, b->alignment, b->offset);
  }
  return is_plain ? mi_realloc(b->p, size) : mi_heap_realloc(heap, b->p, size);
}

static void step_resize(void) {
  shadow_t* const b = used_block();
  if (b == NULL) return;
  const size_t home = draw_home();
  const size_t size =
      fuzz_below(&fuzz.in, 3) == 0 ? draw_size() : b->size + fuzz_below(&fuzz.in, b->size / 2 + 20);
  if (size > b->size && fuzz.live + size > LIVE_MAX) return;
  const bool was_zero = b->is_zero_behind;
  const bool is_plain = home == main_home() && fuzz_below(&fuzz.in, 2) == 0;
  // A thread that never allocated leaves a block where it is, unless it names a heap.
  const bool may_stay = is_plain && mi_self_home()->thread_id == 0;
  uint8_t* const p = (uint8_t*)resize_block(b, size, is_plain ? NULL : fuzz.home[home].heap);
  if (!is_block(p, home)) {
    b->is_zero_behind = was_zero;
    check_block(b);
    return;
  }
  fuzz.live -= b->size;
  // The smallest block of realloc starts with a zero byte.
  const size_t kept = size == 0 ? 0 : (b->filled < size ? b->filled : size);
  b->p = p;
  b->size = size;
  const bool has_stayed = may_stay && mi_heap_of(p) != fuzz.home[home].heap;
  b->home = has_stayed ? b->home : home;
  accept_block(b, kept);
}

static void step_expand(void) {
  shadow_t* const b = used_block();
  if (b == NULL) return;
  const size_t size = b->size + fuzz_below(&fuzz.in, b->size / 2 + 20);
  void* const p = mi_expand(b->p, size);
  if (p == NULL) return check_block(b);
  CHECK(p == b->p && mi_usable_size(p) >= size);
  fuzz.live -= b->size;
  b->size = size;
  b->is_zero_behind = false;
  accept_block(b, b->filled < size ? b->filled : size);
}

// -- Steps: freeing --

static void free_block(shadow_t* b, size_t how) {
  check_block(b);
  uint8_t* const p = b->p;
  const size_t alignment = b->offset == 0 ? b->alignment : 1;
  size_t slot = 0;
  fuzz.live -= b->size;
  b->p = NULL;
  errno = 77;
  switch (how) {
    case 0:
      mi_free_size(p, b->size);
      break;
    case 1:
      mi_free_aligned(p, alignment);
      break;
    case 2: {
      const size_t usable = mi_usable_size(p);
      mi_ufree(p, &slot);
      CHECK(slot >= usable);
      break;
    }
    case 3:
      mi_cfree(p);
      break;
    default:
      mi_free(p);
      break;
  }
  CHECK(errno == 77 && "free keeps errno");
}

static void step_free(void) {
  const size_t how = fuzz_below(&fuzz.in, 8);
  shadow_t* const b = used_block();
  if (b != NULL) free_block(b, how);
}

// Many at once: pages become empty, parcels are full.
static void step_free_many(void) {
  const size_t stride = 1 + fuzz_below(&fuzz.in, 4);
  for (size_t i = fuzz_below(&fuzz.in, BLOCK_COUNT); i < BLOCK_COUNT; i += stride) {
    if (fuzz.block[i].p != NULL && !fuzz.block[i].is_deferred) free_block(&fuzz.block[i], 4);
  }
}

// Many at once of one size, all by the same thread.
static void step_allocate_many(void) {
  const size_t size = draw_size() % 8192;
  const size_t home = draw_home();
  const size_t count = fuzz_below(&fuzz.in, BLOCK_COUNT);
  for (size_t i = 0; i < count; i++) {
    shadow_t* const b = &fuzz.block[i];
    if (b->p != NULL || fuzz.live + size > LIVE_MAX) continue;
    *b = (shadow_t){.alignment = 1, .size = size, .home = home};
    start_call();
    uint8_t* const p = (uint8_t*)mi_heap_malloc(fuzz.home[home].heap, size);
    if (!is_block(p, home)) return;
    b->p = p;
    accept_block(b, 0);
  }
}

// What the library calls in the middle of a malloc or a collection.
static void free_deferred(bool force, unsigned long long heartbeat, void* arg) {
  (void)force, (void)heartbeat, (void)arg;
  const int saved = errno;
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    shadow_t* const b = &fuzz.block[i];
    if (b->p == NULL || !b->is_deferred) continue;
    free_block(b, 4);
    errno = saved;
    return;
  }
}

static void step_defer(void) {
  shadow_t* const b = used_block();
  if (b != NULL) b->is_deferred = true;
}

// -- Steps: misuse, which is reported and has no effect --

static void on_error(int code, void* arg) {
  (void)arg;
  if (code == ENOMEM || code == EOVERFLOW) return;
  CHECK(code == EINVAL && fuzz.misuses > 0 && "nothing was misused");
  fuzz.misuses--;
}

static void free_wrongly(void* p) {
  fuzz.misuses = 1;
  mi_free(p);
  CHECK(fuzz.misuses == 0 && "misuse is reported");
}

static void step_misuse(void) {
  static uint64_t not_ours[4];
  // Addresses that a program can have.
  const uintptr_t address = fuzz_size(&fuzz.in, MI_ADDRESS_BITS) & ~(uintptr_t)7;
  if (address != 0 && !mi_any_heap_contains((void*)address)) free_wrongly((void*)address);
  free_wrongly(&not_ours[1]);
  shadow_t* const b = used_block();
  if (b == NULL || b->size < 16) return;
  // Pages with aligned blocks inside slots take any address in a slot for its block, and in those
  // of the thread nobody looks.
  mi_page_t* const page = unit_page_of(b->p);
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner) & ~MI_OWNER_SLOW;
  if (mi_page_has_interior(page) || owner == mi_tls_thread_id()) return;
  free_wrongly(b->p + 8);
  check_block(b);
}

// -- Steps: heaps --

static void step_heap_new(void) {
  const size_t index = SUBPROC_COUNT + fuzz_below(&fuzz.in, HEAP_COUNT);
  home_t* const home = &fuzz.home[index];
  if (home->heap != NULL) return;
  const size_t arena = fuzz_below(&fuzz.in, ARENA_COUNT * 4);
  const bool is_bounded = arena < ARENA_COUNT && fuzz.arena[arena] != NULL && main_home() == 0;
  start_call();
  mi_heap_t* const heap = is_bounded ? mi_heap_new_in_arena(fuzz.arena[arena]) : mi_heap_new();
  if (!is_block(heap, HOME_UNKNOWN)) return;
  *home = (home_t){heap, main_home(), is_bounded};
}

// The blocks of a heap that ends: they move to `home`, or are gone.
static void end_blocks(size_t from, bool is_destroyed, size_t home) {
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    shadow_t* const b = &fuzz.block[i];
    if (b->p == NULL || b->home != from) continue;
    check_block(b);
    b->home = home;
    if (!is_destroyed) continue;
    fuzz.live -= b->size;
    b->p = NULL;
  }
}

static void end_heap(size_t index, bool is_destroyed) {
  home_t* const home = &fuzz.home[index];
  mi_heap_t* const heap = home->heap;
  end_blocks(index, is_destroyed, home->subproc);
  home->heap = NULL;
  if (is_destroyed) {
    mi_heap_destroy(heap);
  } else {
    mi_heap_delete(heap);
  }
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    if (fuzz.block[i].p != NULL) check_block(&fuzz.block[i]);
  }
}

static void step_heap_end(void) {
  const size_t index = SUBPROC_COUNT + fuzz_below(&fuzz.in, HEAP_COUNT);
  const bool is_destroyed = fuzz_below(&fuzz.in, 2) == 0;
  if (fuzz.home[index].heap != NULL) end_heap(index, is_destroyed);
}

static void step_heap_default(void) {
  shadow_t* const b = unused_block();
  const size_t home = draw_home();
  mi_heap_t* const heap = fuzz.home[home].heap;
  mi_heap_t* const before = mi_heap_set_default(heap);
  const bool is_set = mi_heap_get_default() == heap; // else there was no memory for it
  if (b != NULL && is_set) {
    *b = (shadow_t){.alignment = 1, .size = draw_size(), .home = home};
    start_call();
    uint8_t* const p = (uint8_t*)mi_malloc(b->size);
    b->p = is_block(p, home) ? p : NULL;
    if (b->p != NULL) accept_block(b, 0);
  }
  if (is_set) mi_heap_set_default(before);
}

// -- Steps: threads and sub-processes --

static bool is_busy(size_t subproc) {
  for (size_t i = 0; i < ACTOR_COUNT; i++) {
    if (fuzz.actors[i].is_running && fuzz.actors[i].subproc == subproc) return true;
  }
  return false;
}

static void step_subproc_new(void) {
  const size_t index = 1 + fuzz_below(&fuzz.in, SUBPROC_COUNT - 1);
  if (fuzz.home[index].heap != NULL) return;
  start_call();
  const mi_subproc_id_t id = mi_subproc_new();
  if (!is_block(id._mi_subproc_id, HOME_UNKNOWN)) return;
  fuzz.subproc[index] = id;
  fuzz.home[index] = (home_t){&((mi_subproc_t*)id._mi_subproc_id)->heap_main, index, false};
}

static void end_subproc(size_t index, bool is_destroyed) {
  if (!is_busy(index)) {
    for (size_t i = 0; i < HOME_COUNT; i++) {
      if (fuzz.home[i].heap == NULL || fuzz.home[i].subproc != index) continue;
      end_blocks(i, is_destroyed, HOME_UNKNOWN);
      fuzz.home[i].heap = NULL;
    }
  } // else it stays
  if (is_destroyed) {
    mi_subproc_destroy(fuzz.subproc[index]);
  } else {
    mi_subproc_delete(fuzz.subproc[index]);
  }
}

static void step_subproc_end(void) {
  const size_t index = 1 + fuzz_below(&fuzz.in, SUBPROC_COUNT - 1);
  const bool is_destroyed = fuzz_below(&fuzz.in, 2) == 0;
  if (fuzz.home[index].heap != NULL) end_subproc(index, is_destroyed);
}

static void enter_subproc(void* arg) {
  const actor_t* const actor = (const actor_t*)arg;
  mi_subproc_add_current_thread(fuzz.subproc[actor->subproc]);
}

static void enter_threadpool(void* arg) {
  (void)arg;
  mi_thread_set_in_threadpool();
}

static void start_actor(size_t index, size_t subproc) {
  actor_t* const actor = &fuzz.actors[index];
  puppet_start(&actor->puppet);
  actor->is_running = true;
  actor->subproc = 0;
  if (subproc == 0 || fuzz.home[subproc].heap == NULL) return;
  actor->subproc = subproc;
  start_call();
  puppet_do(&actor->puppet, &enter_subproc, actor);
  // Without memory it stays where it was.
  if (is_refused_since(fuzz.log_seen) || fuzz.is_scarce) actor->subproc = SIZE_MAX;
}

static mi_subproc_id_t seen_subproc;

static void look_at_subproc(void* arg) {
  (void)arg;
  seen_subproc = mi_subproc_current();
}

static void settle_actor(size_t index) {
  actor_t* const actor = &fuzz.actors[index];
  if (actor->subproc != SIZE_MAX) return;
  puppet_do(&actor->puppet, &look_at_subproc, NULL);
  for (size_t i = 0; i < SUBPROC_COUNT; i++) {
    const bool is_seen = fuzz.subproc[i]._mi_subproc_id == seen_subproc._mi_subproc_id;
    if (is_seen && fuzz.home[i].heap != NULL) actor->subproc = i; // ids are used again
  }
  CHECK(actor->subproc != SIZE_MAX);
}

// Ends the thread of an actor that is not the one who does the step, and starts another.
static void step_thread(void) {
  const size_t index = 1 + fuzz_below(&fuzz.in, ACTOR_COUNT - 1);
  const size_t subproc = fuzz_below(&fuzz.in, SUBPROC_COUNT);
  const bool is_in_pool = fuzz_below(&fuzz.in, 4) == 0;
  if (index == fuzz.actor || !fuzz.actors[index].is_running) return;
  puppet_end(&fuzz.actors[index].puppet);
  start_actor(index, subproc);
  settle_actor(index);
  if (is_in_pool) puppet_do(&fuzz.actors[index].puppet, &enter_threadpool, NULL);
}

// -- Steps: time, the system, options --

static void step_collect(void) {
  const size_t how = fuzz_below(&fuzz.in, 8);
  if (how == 0) os_fake_advance_ms(fuzz_below(&fuzz.in, 3000));
  if (how <= 2) mi_collect(how == 1);
  if (how >= 3) mi_heap_collect(fuzz.home[draw_home()].heap, how == 3);
  if (how != 4) return;
  mi_thread_done();
  fuzz.actors[fuzz.actor].subproc = 0; // as far as the library knows it is another thread now
}

static void step_system(void) {
  const size_t how = fuzz_below(&fuzz.in, 8);
  memset(os_fake.fail_at, 0, sizeof(os_fake.fail_at));
  os_fake.is_failing_on = false;
  if (how < 2) return;
  if (how == 2) {
    os_fake.map_limit = fuzz_below(&fuzz.in, 16) * MI_MIB;
    fuzz.is_scarce |= os_fake.map_limit != 0;
    return;
  }
  if (how == 3 && !os_fake.has_overcommit) {
    os_fake.commit_limit = os_fake.committed + fuzz_below(&fuzz.in, 32) * MI_SLICE_SIZE;
    fuzz.is_scarce = true;
    return;
  }
  // Not the keys of threads: who has none leaves its pages behind, as it must.
  const os_fake_call_t call = (os_fake_call_t)fuzz_below(&fuzz.in, OS_FAKE_THREAD_KEY);
  os_fake.fail_at[call] = 1 + fuzz_below(&fuzz.in, 6);
  os_fake.is_failing_on = how == 7;
  fuzz.has_failed = true;
}

static void step_option(void) {
  static const struct {
    mi_option_t option;
    long values[4];
  } table[] = {
      {mi_option_purge_delay, {0, 1, 1000, -1}},
      {mi_option_purge_decommits, {0, 1, 1, 0}},
      {mi_option_arena_eager_commit, {0, 1, 2, 0}},
      {mi_option_arena_reserve, {0, 256, 4096, 65536}},
      {mi_option_allow_large_os_pages, {0, 1, 2, 0}},
      {mi_option_disallow_arena_alloc, {0, 0, 1, 0}},
      {mi_option_generic_collect, {1, 2, 10, 10000}},
      {mi_option_page_reclaim_on_free, {-1, 0, 1, 0}},
      {mi_option_page_max_reclaim, {-1, 0, 1, 4}},
      {mi_option_page_cross_thread_max_reclaim, {-1, 0, 1, 32}},
      {mi_option_allow_thp, {0, 1, 2, 1}},
      {mi_option_minimal_purge_size, {0, 4, 64, 1024}},
      {mi_option_arena_max_object_size, {0, 64, 1024, 2097152}},
      {mi_option_arena_purge_mult, {0, 1, 10, 2}},
      {mi_option_pagemap_commit, {0, 1, 0, 0}},
      {mi_option_arena_is_numa_local, {0, 1, 0, 0}},
      {mi_option_disallow_os_alloc, {0, 0, 0, 1}},
  };
  const size_t i = fuzz_below(&fuzz.in, sizeof(table) / sizeof(table[0]));
  const long value = table[i].values[fuzz_below(&fuzz.in, 4)];
  mi_option_set(table[i].option, value);
  CHECK(mi_option_get(table[i].option) == value);
  fuzz.is_scarce |= table[i].option == mi_option_disallow_os_alloc && value != 0;
}

static bool commit_as_told(bool commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)arg;
  if (is_zero != NULL) *is_zero = commit;
  return (commit ? mi_os_commit(start, size) : mi_os_decommit(start, size)) == 0;
}

// Memory of the program, or of the system, reserved for heaps that ask for it or for all.
static void step_arena(void) {
  const size_t index = fuzz_below(&fuzz.in, ARENA_COUNT);
  const size_t how = fuzz_below(&fuzz.in, 16);
  const bool is_committed = (how & 1) != 0;
  const bool is_exclusive = (how & 2) != 0;
  if (fuzz.arena[index] != NULL || main_home() != 0) return;
  start_call();
  if (how >= 12) {
    const int error =
        mi_reserve_os_memory_ex(1, is_committed, how == 15, is_exclusive, &fuzz.arena[index]);
    CHECK((error == 0) == (fuzz.arena[index] != NULL) || error == ENOMEM);
  } else {
    const size_t size = mi_bits_max(mi_arena_min_size(), mi_arena_min_alignment());
    const mi_os_access_t access = is_committed ? MI_OS_READ_WRITE : MI_OS_NO_ACCESS;
    void* const p = mi_os_map(NULL, size, mi_arena_min_alignment(), access);
    if (p == NULL) return;
    const bool is_pinned = how >= 8 && is_committed;
    fuzz.foreign += size;
    mi_manage_memory(p, size, is_committed, is_pinned, true, -1, is_exclusive,
                     (how & 4) != 0 ? &commit_as_told : NULL, NULL, &fuzz.arena[index]);
  }
}

// -- Steps: looking --

typedef struct census_s {
  size_t home;
  size_t found;
} census_t;

// A visited block must be exactly one of the model: its slot holds the start of it.
static bool find_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                       void* arg) {
  census_t* const census = (census_t*)arg;
  if (block == NULL) return true;
  CHECK(heap == fuzz.home[census->home].heap);
  CHECK((uint8_t*)block >= (uint8_t*)area->blocks);
  size_t matches = 0;
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    const shadow_t* const b = &fuzz.block[i];
    const bool is_inside = b->p >= (uint8_t*)block && b->p < (uint8_t*)block + size;
    if (b->p == NULL || !is_inside) continue;
    CHECK(b->home == census->home);
    matches++;
  }
  CHECK(matches == 1 && "what is visited is a block in use");
  census->found++;
  return true;
}

static void gather(void* arg) {
  (void)arg;
  mi_collect(false); // what it holds back of blocks it freed goes where it belongs
}

static void step_visit(void) {
  for (size_t i = 0; i < ACTOR_COUNT; i++) {
    if (i == fuzz.actor || !fuzz.actors[i].is_running) continue;
    if (i == 0) return; // it waits for us
    puppet_do(&fuzz.actors[i].puppet, &gather, NULL);
  }
  for (size_t home = 0; home < HOME_COUNT; home++) {
    if (fuzz.home[home].heap == NULL) continue;
    census_t census = {.home = home};
    CHECK(mi_heap_visit_blocks(fuzz.home[home].heap, true, &find_block, &census));
    size_t expected = 0;
    for (size_t i = 0; i < BLOCK_COUNT; i++) {
      expected += fuzz.block[i].p != NULL && fuzz.block[i].home == home;
    }
    CHECK(census.found == expected && "every block in use is visited");
  }
}

static void swallow(const char* text, void* arg) {
  (void)arg;
  CHECK(strlen(text) < 1024);
}

static void step_look(void) {
  const size_t how = fuzz_below(&fuzz.in, 7);
  if (how == 0) mi_stats_print_out(&swallow, NULL);
  if (how == 6) mi_explain(&swallow, NULL);
  if (how == 1) mi_heap_stats_print_out(fuzz.home[draw_home()].heap, &swallow, NULL);
  if (how == 2) mi_arenas_print();
  if (how == 3) {
    start_call();
    char* const text = mi_heap_stats_get_json(fuzz.home[draw_home()].heap, 0, NULL);
    if (is_block(text, main_home())) mi_free(text);
  }
  if (how == 4) (void)mi_any_heap_contains((void*)(uintptr_t)fuzz_number(&fuzz.in, 8));
  if (how == 5) {
    mi_theap_t* const theap = mi_self_theap();
    if (theap->thread_id != 0) mi_sample_profile(fuzz_size(&fuzz.in, 14));
  }
}

// -- The sequence --

static const struct {
  const char* name;
  void (*run)(void);
} steps[] = {
#define STEP(name)                                                                                 \
  { #name, &step_##name }
    STEP(allocate), STEP(allocate), STEP(allocate),     STEP(free),        STEP(free),
    STEP(resize),   STEP(resize),   STEP(expand),       STEP(free_many),   STEP(allocate_many),
    STEP(heap_new), STEP(heap_end), STEP(heap_default), STEP(subproc_new), STEP(subproc_end),
    STEP(thread),   STEP(collect),  STEP(system),       STEP(option),      STEP(arena),
    STEP(visit),    STEP(look),     STEP(misuse),       STEP(absurd),      STEP(defer),
#undef STEP
};

static void do_step(void* arg) {
  (void)arg;
  const size_t i = fuzz_below(&fuzz.in, sizeof(steps) / sizeof(steps[0]));
  if (is_traced)
    fprintf(stderr, "byte %zu: thread %zu: %s\n", fuzz.in.at, fuzz.actor, steps[i].name);
  steps[i].run();
}

// On the thread of an actor; 0 is the one of the fuzzer.
static void on_actor(size_t index, void (*f)(void* arg)) {
  fuzz.actor = index;
  if (index == 0) {
    f(NULL);
  } else {
    puppet_do(&fuzz.actors[index].puppet, f, NULL);
  }
}

// Every third block; the thread of the fuzzer, which comes last, all that are left.
static void free_share(void* arg) {
  (void)arg;
  for (size_t i = fuzz.actor; i < BLOCK_COUNT; i += fuzz.actor == 0 ? 1 : ACTOR_COUNT) {
    if (fuzz.block[i].p != NULL) free_block(&fuzz.block[i], 4);
  }
}

static void start(size_t actor_count) {
  const size_t system = fuzz_below(&fuzz.in, 256);
  size_t page_size = 4096;
  for (size_t i = system & 3; i > 0 && page_size * 4 <= MI_SLICE_SIZE; i--) page_size *= 4;
  os_fake_start(page_size, 0);
  os_fake.has_overcommit = (system & 4) == 0;
  os_fake.has_move = (system & 8) == 0;
  os_fake.has_thread_watch = (system & 16) == 0;
  os_fake.large_free = (system & 32) != 0 ? 4 : 0;
  os_fake.numa_nodes = (system & 64) != 0 ? 2 : 1;
  os_fake.is_single_threaded = actor_count == 1;
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    mi_atomic_store_relaxed(&mi_option_values[i], first_options[i]);
  }
  mi_option_set(mi_option_arena_reserve, (long)(MI_ARENA_STEP_MIN * 16 / MI_KIB));
  mi_process_setup();
  fuzz.subproc[0] = mi_subproc_main();
  fuzz.home[0].heap = mi_heap_main();
  fuzz.actors[0].is_running = true;
  for (size_t i = 1; i < actor_count; i++) start_actor(i, 0);
}

static bool is_any_in_use(mi_book_t* book) {
  uint32_t at = 0;
  return mi_book_next(book, &at) != NULL;
}

// The system works again, everything is freed: all of it comes back.
static void finish(void) {
  memset(os_fake.fail_at, 0, sizeof(os_fake.fail_at));
  os_fake.commit_limit = SIZE_MAX;
  os_fake.map_limit = 0;
  mi_option_set(mi_option_disallow_os_alloc, 0);
  fuzz.is_scarce = false;
  for (size_t i = 0; i < BLOCK_COUNT; i++) {
    if (fuzz.block[i].p != NULL) check_block(&fuzz.block[i]);
  }
  unit_check_valid();
  for (size_t i = ACTOR_COUNT; i-- > 0;) {
    if (fuzz.actors[i].is_running) on_actor(i, &free_share);
  }
  for (size_t i = 1; i < ACTOR_COUNT; i++) {
    if (fuzz.actors[i].is_running) puppet_end(&fuzz.actors[i].puppet);
    fuzz.actors[i].is_running = false;
  }
  for (size_t i = SUBPROC_COUNT; i < HOME_COUNT; i++) {
    if (fuzz.home[i].heap != NULL) end_heap(i, i % 2 == 0);
  }
  for (size_t i = 1; i < SUBPROC_COUNT; i++) {
    if (fuzz.home[i].heap != NULL) end_subproc(i, i % 2 == 0);
  }
  mi_collect(true);
  mi_collect(true);
  unit_check_valid();
  unit_check_empty();
  CHECK(!is_any_in_use(&mi_state.main.direct));
  CHECK(mi_state.main.next == NULL && "every sub-process has ended");
  CHECK(mi_state.main.heaps == NULL);
  const bool has_failed = fuzz.has_failed || is_refused_since(0);
  mi_unload();
  CHECK(has_failed || os_fake.mapped == fuzz.foreign);
  mi_state.is_unloaded = false; // the next one is a process of its own
  os_fake_end();
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  (void)argc, (void)argv;
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    first_options[i] = mi_atomic_load_relaxed(&mi_option_values[i]);
  }
  // Functions can be registered only in a process that was set up.
  os_fake_start(4096, 0);
  mi_process_init();
  mi_register_error(&on_error, NULL);
  mi_register_output(&swallow, NULL);
  mi_register_deferred_free(&free_deferred, NULL);
  mi_unload();
  mi_state.is_unloaded = false;
  os_fake_end();
  is_traced = getenv("MI_FUZZ_TRACE") != NULL;
  shadow_dense_max = 8192;
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  memset(&fuzz, 0, sizeof(fuzz));
  fuzz.in = fuzz_open(data, size);
  const size_t actor_count = 1 + fuzz_below(&fuzz.in, ACTOR_COUNT);
  start(actor_count);
  for (size_t i = 0; i < STEP_COUNT && !fuzz_is_done(&fuzz.in); i++) {
    on_actor(fuzz_below(&fuzz.in, actor_count), &do_step);
  }
  finish();
  return 0;
}
