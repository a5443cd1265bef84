// SPDX-License-Identifier: MIT
// fork.c - tests of process/fork.c: the handlers are called by hand, as around a fork, in a
// process whose other threads then never run again.
#include "spawn.h"
#include "unit.h"

#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/arenas/arena.h"
#include "core/arenas/book.h"
#include "core/heaps/heap.h"
#include "core/pages/page.h"
#include "core/pages/remote.h"
#include "core/process/fork.h"
#include "core/heaps/subproc.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

#define SIZE 256
#define CLASS mi_class_of(SIZE)

static void* blocks[UNIT_BLOCKS_MAX];
static puppet_t other;

static bool is_free(mi_lock_t* lock) { return mi_atomic_load_relaxed(&lock->word) == 0; }

static bool are_locks_free(void) {
  return is_free(&mi_state.subproc_lock) && is_free(&mi_state.thread_lock) &&
         is_free(&mi_state.arena_lock) && is_free(&mi_state.purge_lock);
}

// If this fails, the child of a fork waits for ever for a lock, or the parent does.
UNIT_TEST_PAGE_SIZES(fork_holds_all_locks) {
  mi_free(mi_malloc(1));
  check_equal(os_fake_calls(OS_FAKE_AT_FORK), 1);
  for (size_t i = 0; i < 2; i++) {
    os_fake.fork_prepare();
    check(!is_free(&mi_state.thread_lock) && !is_free(&mi_state.arena_lock));
    check(!is_free(&mi_state.subproc_lock) && !is_free(&mi_state.purge_lock));
    if (i == 0) os_fake.fork_parent();
    if (i == 1) os_fake.fork_child();
    check(are_locks_free());
  }
  mi_free(mi_malloc(MI_CLASS_MAX * 2));
}

static void allocate(void* arg) {
  (void)arg;
  mi_free(mi_malloc(1));
}

// If this fails, the child of a fork may wait for ever when the system had no memory for the
// handlers at the start.
UNIT_TEST(fork_is_registered_when_the_system_lets_us) {
  os_fake.fail_at[OS_FAKE_AT_FORK] = 1;
  os_fake.is_failing_on = true;
  allocate(NULL);
  check(os_fake.fork_prepare == NULL);
  os_fake.fail_at[OS_FAKE_AT_FORK] = 0;
  unit_on_thread(&allocate, NULL);
  check(os_fake.fork_prepare != NULL);
  const size_t calls = os_fake_calls(OS_FAKE_AT_FORK);
  unit_on_thread(&allocate, NULL);
  check_equal(os_fake_calls(OS_FAKE_AT_FORK), calls);
}

// If this fails, the child of a program with one thread loses its own pages.
UNIT_TEST_PAGE_SIZES(fork_child_keeps_its_own_theap) {
  void* const p = mi_malloc(SIZE);
  void* const large = mi_malloc(MI_CLASS_MAX * 2);
  mi_theap_t* const theap = mi_self_theap();
  const size_t pages = theap->page_count;
  os_fake.fork_prepare();
  os_fake.fork_child();
  check(mi_self_theap() == theap && theap->page_count == pages);
  check_equal(mi_atomic_load_relaxed(&unit_page_of(p)->owner), mi_tls_thread_id());
  mi_free(p);
  check(mi_malloc(SIZE) != NULL);
  mi_free(large);
  mi_thread_leave();
  check(mi_self_theap() == &mi_theap_empty);
}

static size_t allocate_with_other(void) {
  puppet_start(&other);
  size_t count = 0;
  for (; count < 40; count++) blocks[count] = puppet_malloc(&other, SIZE);
  // Some free again, by the thread itself and by this one.
  for (size_t i = 0; i < 5; i++) puppet_free(&other, blocks[i]);
  for (size_t i = 5; i < 10; i++) mi_free(blocks[i]);
  return count;
}

// If this fails, memory of vanished threads is lost in the child, or used although it is in use.
UNIT_TEST_PAGE_SIZES(fork_child_adopts_pages_of_vanished_threads) {
  mi_free(mi_malloc(1));
  const size_t count = allocate_with_other();
  for (size_t i = 10; i < count; i++) unit_fill(blocks[i], SIZE, i);
  mi_page_t* const page = unit_page_of(blocks[10]);
  const uintptr_t vanished = mi_atomic_load_relaxed(&page->owner);
  check(vanished != mi_tls_thread_id());
  os_fake.fork_prepare();
  os_fake.fork_child();
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 1); // THREAD-7
  // FORK-1: nothing is owned under the id of the vanished thread.
  MI_FOR_EACH_ARENA(&mi_state.main, arena) {
    for (size_t i = 0; i < arena->slice_count; i++) {
      mi_page_t* const p = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
      const uintptr_t owner = mi_atomic_load_relaxed(&p->owner);
      if ((mi_atomic_load_relaxed(&p->thread_free) & MI_REMOTE_OWNED) != 0) {
        check((owner & ~MI_OWNER_FLAGS) != vanished);
      }
    }
  }
  unit_check_valid();
  // What was in use stays so, whatever is allocated now.
  static void* more[600];
  for (size_t i = 0; i < 600; i++) {
    more[i] = mi_malloc(SIZE);
    memset(more[i], 0xEE, SIZE);
  }
  for (size_t i = 10; i < count; i++) {
    check(unit_is_filled(blocks[i], SIZE, i));
    mi_free(blocks[i]);
  }
  for (size_t i = 0; i < 600; i++) mi_free(more[i]);
  check_equal(hooks_fake.error_count, 0);
  unit_check_valid();
}

// If this fails, the child cannot use pages that waited for a new thread.
UNIT_TEST_PAGE_SIZES(fork_child_adopts_orphans) {
  mi_free(mi_malloc(1));
  allocate_with_other();
  puppet_end(&other);
  mi_page_t* const page = unit_page_of(blocks[20]);
  check_equal(mi_atomic_load_relaxed(&mi_state.orphan_count), 1);
  os_fake.fork_prepare();
  os_fake.fork_child();
  check(mi_state.orphans == NULL && mi_atomic_load_relaxed(&mi_state.orphan_count) == 0);
  check_equal(mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED, 0);
  for (size_t i = 10; i < 40; i++) mi_free(blocks[i]);
  check_equal(hooks_fake.error_count, 0);
}

// If this fails, a thread that forks and never allocated leaves these pages to nobody in the child.
UNIT_TEST(fork_child_without_memory_adopts_orphans) {
  mi_free(mi_malloc(1));
  allocate_with_other();
  puppet_end(&other);
  mi_thread_leave();
  os_fake.fork_prepare();
  os_fake.fork_child();
  for (size_t i = 10; i < 40; i++) {
    const uintptr_t word = mi_atomic_load_relaxed(&unit_page_of(blocks[i])->thread_free);
    check_equal(word & MI_REMOTE_OWNED, 0);
  }
}

// If this fails, guests and full pages of vanished threads confuse the child.
UNIT_TEST_PAGE_SIZES(fork_child_takes_guests_and_parked_pages) {
  puppet_start(&other);
  mi_free(puppet_malloc(&other, 8));
  // A page of this thread that is full; the other one frees into it and keeps it as a guest.
  const size_t count = unit_fill_page(CLASS, blocks);
  void* const next = mi_malloc(SIZE);
  puppet_free(&other, blocks[0]);
  mi_page_t* const guest = unit_page_of(blocks[1]);
  check_equal(guest->place, MI_PLACE_GUEST);
  // A page of the other thread that is full.
  mi_page_t* const parked = unit_make_page(CLASS, unit_page_blocks(CLASS), &blocks[count]);
  mi_atomic_store_relaxed(&parked->owner, mi_tls_thread_id() + 4096);
  check(mi_life_park(parked, mi_tls_thread_id() + 4096));
  os_fake.fork_prepare();
  os_fake.fork_child();
  check_equal(guest->place, MI_PLACE_NONE);
  check_equal(mi_atomic_load_relaxed(&guest->thread_free) & MI_REMOTE_OWNED, 0);
  for (size_t i = 1; i < count + unit_page_blocks(CLASS); i++) mi_free(blocks[i]);
  mi_free(next);
  check_equal(hooks_fake.error_count, 0);
  mi_flush_idle(unit_theap());
  check(mi_pagemap_find(blocks[count]) == NULL || mi_page_is_valid(parked));
}

// A page that this thread parked, as another one leaves it that has just claimed it by a free:
// OWNED is set, nothing else has happened.
static mi_page_t* claim_parked(size_t* count) {
  *count = unit_fill_page(CLASS, blocks);
  blocks[*count] = mi_malloc(SIZE); // opens another page: this one is parked
  mi_page_t* const page = unit_page_of(blocks[0]);
  check_equal(mi_atomic_load_relaxed(&page->owner), mi_tls_thread_id() | MI_OWNER_PARKED);
  uintptr_t word = 0;
  check(mi_atomic_cas_strong_acquire(&page->thread_free, &word, MI_REMOTE_OWNED));
  return page;
}

// If this fails, the memory of a page that another thread was about to free into is lost in the
// child: what is freed there is never collected.
static void fork_while_claimed(bool has_theap) {
  mi_free(mi_malloc(1));
  if (has_theap) allocate_with_other();
  os_fake.is_single_threaded = false;
  size_t count;
  mi_page_t* const page = claim_parked(&count);
  os_fake.fork_prepare();
  os_fake.fork_child();
  check((mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED) == 0);
  check_equal(mi_atomic_load_relaxed(&page->owner), MI_OWNER_SHARED);
  check_equal(page->count.used, count);
  unit_check_valid();
  for (size_t i = 0; i <= count; i++) mi_free(blocks[i]);
  mi_collect_all(MI_FORCE);
  check_equal(mi_atomic_load_relaxed(&page->owner), MI_OWNER_NONE); // its memory went back
}

UNIT_TEST_PAGE_SIZES(fork_child_takes_what_was_just_claimed) { fork_while_claimed(true); }

UNIT_TEST_PAGE_SIZES(fork_child_takes_what_a_thread_without_a_theap_claimed) {
  fork_while_claimed(false);
}

// If this fails, a child forked by a thread without a theap crashes at its first malloc.
UNIT_TEST_PAGE_SIZES(fork_child_without_a_theap) {
  allocate_with_other();
  mi_thread_leave();
  check(mi_self_theap() == &mi_theap_empty);
  os_fake.fork_prepare();
  os_fake.fork_child();
  check(mi_self_theap() == &mi_theap_empty);
  for (size_t i = 10; i < 40; i++) mi_free(blocks[i]);
  void* const p = mi_malloc(SIZE);
  check(p != NULL);
  mi_free(p);
  unit_check_valid();
}

// If this fails, a thread started in the child with the id of a vanished one takes its theap, whose
// pages belong to somebody else by now.
UNIT_TEST_PAGE_SIZES(fork_child_forgets_vanished_theaps) {
  mi_free(mi_malloc(1));
  allocate_with_other();
  os_fake.fork_prepare();
  os_fake.fork_child();
  for (size_t i = 0; i < MI_THEAP_BUCKETS; i++) {
    for (mi_theap_t* t = mi_state.theap_bucket[i]; t != NULL; t = t->bucket_next) {
      check(t == mi_self_theap());
    }
  }
}

// -- heaps --

static mi_heap_t* heap;

static mi_heap_t* make_heap(mi_subproc_t* subproc) {
  mi_heap_t* const made = mi_heap_make(subproc, NULL);
  check(made != NULL);
  return made;
}

// If this fails, the child tells theaps of vanished threads that a heap ends, and finds no page of
// theirs in it.
UNIT_TEST_PAGE_SIZES(fork_child_takes_heaps_of_vanished_threads) {
  static puppet_t vanished[4];
  for (size_t k = 0; k < 4; k++) {
    mi_free(mi_malloc(1));
    heap = make_heap(&mi_state.main);
    mi_heap_t* const ended = make_heap(&mi_state.main);
    mi_heap_end_by_delete(ended);
    void* const mine = k < 2 ? mi_heap_malloc(heap, SIZE) : NULL;
    puppet_start(&vanished[k]);
    for (size_t i = 0; i < 40; i++) blocks[i] = puppet_heap_malloc(&vanished[k], heap, SIZE);
    puppet_free(&vanished[k], blocks[0]);
    mi_free(blocks[1]);
    // Threads that were in the middle of a free.
    mi_heap_t* const inside[] = {heap, ended, UNIT_HEAP};
    for (size_t i = 0; i < 3; i++) {
      mi_atomic_store_relaxed(&inside[i]->inside, 2);
      mi_atomic_store_relaxed(&inside[i]->is_filling, true);
    }
    os_fake.fork_prepare();
    os_fake.fork_child();
    for (size_t i = 0; i < 3; i++) check(!mi_atomic_load_relaxed(&inside[i]->is_filling));
    check_equal(mi_state.main.count.theaps, mine != NULL ? 1 : 0);
    check_equal(mi_state.main.count.threads, 1);
    unit_check_valid();
    check(unit_page_of(blocks[2])->place == MI_PLACE_NONE);
    check(make_heap(&mi_state.main) == ended);
    mi_heap_end_by_destroy(ended);
    if (k % 2 == 0) {
      mi_heap_end_by_destroy(heap);
    } else {
      mi_heap_end_by_delete(heap);
      for (size_t i = 2; i < 40; i++) mi_free(blocks[i]);
      mi_free(mine);
    }
    mi_collect_all(MI_FORCE);
    unit_check_valid();
    check_equal(hooks_fake.error_count, 0);
  }
}

static void be_in_subproc(void* arg) {
  mi_subproc_t* const subproc = (mi_subproc_t*)arg;
  check(mi_enter_subproc(subproc));
  for (size_t i = 0; i < 40; i++) {
    blocks[i] = i % 2 == 0 ? mi_malloc(SIZE) : mi_heap_malloc(heap, SIZE);
  }
}

// If this fails, the child cannot end a sub-process whose threads are gone.
UNIT_TEST_PAGE_SIZES(fork_child_ends_sub_processes_of_vanished_threads) {
  static puppet_t vanished[2];
  for (size_t k = 0; k < 2; k++) {
    mi_process_setup();
    mi_subproc_t* const subproc = mi_subproc_make();
    heap = make_heap(subproc);
    puppet_start(&vanished[k]);
    puppet_do(&vanished[k], &be_in_subproc, subproc);
    mi_atomic_store_relaxed(&subproc->heap_main.inside, 1);
    os_fake.fork_prepare();
    os_fake.fork_child();
    check_equal(subproc->count.threads, 0);
    unit_check_valid();
    if (k == 1) {
      check(mi_subproc_end_by_delete(subproc));
      check(subproc->is_deleted);
      for (size_t i = 0; i < 40; i++) mi_free(blocks[i]);
      unit_check_valid();
    }
    // Also when blocks in the lists of the vanished theap keep it.
    check(mi_subproc_end_by_destroy(subproc));
    check(mi_state.main.next == NULL);
    unit_check_valid();
  }
}

// If this fails, destroying a heap in the child breaks, or loses memory, when a vanished thread was
// making or releasing a page of it: the page is in the book, and has no owner.
UNIT_TEST_PAGE_SIZES(fork_child_destroys_a_heap_with_pages_without_an_owner) {
  for (size_t k = 0; k < 2; k++) {
    mi_free(mi_malloc(1));
    heap = make_heap(&mi_state.main);
    mi_page_t* page[2];
    if (k == 0) { // being released: FORK-2
      page[0] = unit_page_of(mi_heap_malloc(heap, SIZE));
      page[1] = unit_page_of(mi_heap_malloc(heap, MI_CLASS_MAX * 2));
      mi_flush_theap(mi_theap_find(heap));
      mi_life_undescribe(page[0], (mi_interior_t){0, 0});
      mi_life_undescribe(page[1], (mi_interior_t){0, 0});
    } else { // being made: entered, and not yet owned
      const mi_page_plan_t plan = {.size_class = CLASS, .slice_count = 1};
      page[0] = page[1] = mi_page_make(heap, &plan);
      check(page[0] != NULL);
    }
    check_equal(mi_atomic_load_relaxed(&page[0]->owner), MI_OWNER_NONE);
    os_fake.fork_prepare();
    os_fake.fork_child();
    mi_heap_end_by_destroy(heap);
    mi_collect_all(MI_FORCE);
    for (size_t i = 0; i < 2; i++) {
      mi_arena_t* const arena = mi_arena_of(&mi_state.main, page[i]->start);
      const size_t slice = mi_arena_slice_of(arena, page[i]->start);
      check(mi_bitmap_is_all_set(arena->free, slice, page[i]->slice_count));
    }
    unit_check_valid();
    check_equal(hooks_fake.error_count, 0);
  }
}

// FORK-2: a page with an owner that is in no book. Under the arena lock: no page comes.
static mi_page_t* find_unlisted(void) {
  MI_FOR_EACH_ARENA(&mi_state.main, arena) {
    for (size_t i = 0; i < arena->slice_count; i++) {
      mi_page_t* const page = mi_pagemap_slice(arena->start + i * MI_SLICE_SIZE);
      const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
      if (owner == MI_OWNER_NONE || owner == MI_OWNER_INTERIOR) continue;
      if (mi_atomic_load_acquire(&page->heap) != heap) continue;
      const mi_page_t* seen;
      uint32_t at = 0;
      do {
        seen = mi_book_next(&heap->book, &at);
      } while (seen != NULL && seen != page);
      // Left meanwhile, and its owner was cleared before.
      if (seen == NULL && mi_atomic_load_acquire(&page->owner) != MI_OWNER_NONE) return page;
    }
  }
  return NULL;
}

enum { FORKS = 1000, MAKERS = 2 };
static mi_atomic(bool) is_over;

static void fork_or_make(void* arg) {
  size_t i = *(size_t*)arg;
  if (i == 0) {
    for (size_t n = 0; n < FORKS; n++) {
      os_fake.fork_prepare();
      // Let the others come as far as they can: one waits for the lock, in the middle of making.
      const size_t yields = n % 8 * 4;
      for (size_t k = 0; k < yields; k++) {
        if (n % 8 != 7 && mi_atomic_load_relaxed(&mi_state.arena_lock.word) == 2) break;
        sched_yield();
      }
      const mi_page_t* const unlisted = find_unlisted();
      check(unlisted == NULL);
      os_fake.fork_parent();
      sched_yield();
    }
    mi_atomic_store_release(&is_over, true);
  }
  while (!mi_atomic_load_acquire(&is_over)) {
    void* const p = mi_heap_malloc(heap, i++ % 2 == 0 ? MI_CLASS_MAX : MI_CLASS_MAX * 2);
    check(p != NULL);
    mi_free(p);
    mi_flush_theap(mi_theap_find(heap)); // keeps no empty page
  }
}

// If this fails, a child forked while another thread makes or releases a page takes that page,
// which is in no book, out of it: the book breaks, and ending the heap frees memory of others.
UNIT_TEST(fork_sees_no_page_without_its_book) {
  unit_option(arena_reserve, UNIT_ARENA_SIZE / MI_KIB);
  mi_process_setup();
  heap = make_heap(&mi_state.main);
  size_t id[MAKERS + 1] = {0, 1, 2};
  unit_on_threads(MAKERS + 1, &fork_or_make, id, sizeof(id[0]));
}

// -- in the middle of something --

// If this fails, a signal handler that forks while its thread is in one of our functions waits for
// that thread, which is itself.
UNIT_TEST_PAGE_SIZES(fork_inside_waits_for_nothing) {
  mi_free(mi_malloc(1));
  mi_lock_t* const lock[] = {&mi_state.subproc_lock, &mi_state.thread_lock, &mi_state.arena_lock,
                             &mi_state.purge_lock};
  for (size_t i = 0; i < 8; i++) {
    void (*const end)(void) = i % 2 == 0 ? os_fake.fork_parent : os_fake.fork_child;
    mi_lock_enter(lock[i / 2]);
    os_fake.fork_prepare();
    // The handler of another signal, which does the same.
    os_fake.fork_prepare();
    end();
    end();
    for (size_t k = 0; k < 4; k++) check_equal(is_free(lock[k]), k != i / 2);
    mi_lock_leave(lock[i / 2]);
    check(are_locks_free());
    // A fork that is interrupted by such a handler.
    os_fake.fork_prepare();
    os_fake.fork_prepare();
    end();
    check(!are_locks_free());
    end();
    check(are_locks_free());
  }
  mi_free(mi_malloc(MI_CLASS_MAX * 2));
  unit_check_valid();
}

// If this fails, a signal handler that forks corrupts what its thread was about to free.
UNIT_TEST_PAGE_SIZES(fork_touches_nothing_of_the_thread) {
  os_fake.has_thread_watch = true;
  mi_free(mi_malloc(1));
  puppet_start(&other);
  for (size_t i = 0; i < 4; i++) blocks[i] = puppet_malloc(&other, 16);
  mi_page_t* const page = unit_page_of(blocks[0]);
  const uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  mi_free(blocks[0]);
  check_equal(mi_atomic_load_relaxed(&page->thread_free), word); // it waits in the parcel
  os_fake.fork_prepare();
  check_equal(mi_atomic_load_relaxed(&page->thread_free), word);
  os_fake.fork_parent();
  check_equal(mi_atomic_load_relaxed(&page->thread_free), word);
  os_fake.fork_prepare();
  os_fake.fork_child();
  // The page is nobody's, and the block is not lost.
  check_equal(mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED, 0);
  const size_t used = page->count.used;
  mi_parcel_flush();
  check_equal(page->count.used, used - 1);
  for (size_t i = 1; i < 4; i++) mi_free(blocks[i]);
  check_equal(hooks_fake.error_count, 0);
}

static void allocate_in_handler(void) {
  static void* p[200];
  for (size_t i = 0; i < 200; i++) check((p[i] = mi_malloc(i * 997 % 70000)) != NULL);
  mi_heap_t* const made = mi_heap_make(&mi_state.main, NULL);
  check(made != NULL && mi_heap_malloc(made, SIZE) != NULL);
  mi_heap_end_by_destroy(made);
  for (size_t i = 0; i < 200; i++) mi_free(p[i]);
  mi_collect_all(MI_FORCE);
}

// If this fails, a fork hangs in a program with a library whose own fork handlers allocate and
// were registered before ours: they run while we hold all locks.
UNIT_TEST_PAGE_SIZES(fork_handlers_of_others_may_allocate) {
  mi_free(mi_malloc(1));
  for (size_t i = 0; i < 2; i++) {
    allocate_with_other();
    os_fake.fork_prepare();
    allocate_in_handler();
    // Others stay out.
    check(!is_free(&mi_state.thread_lock) && !is_free(&mi_state.arena_lock));
    check(!is_free(&mi_state.purge_lock));
    if (i == 0) os_fake.fork_parent();
    if (i == 1) os_fake.fork_child();
    check(are_locks_free());
    allocate_in_handler();
    for (size_t k = 10; k < 40; k++) mi_free(blocks[k]);
    if (i == 0) puppet_end(&other);
  }
  unit_check_valid();
}

static void fork_in_parent(void* arg) {
  (void)arg;
  os_fake.fork_prepare();
  os_fake.fork_parent();
}

// If this fails, a program hangs in fork whose handler joins a thread that has to end first, or the
// child of one whose handler creates a thread.
UNIT_TEST_PAGE_SIZES(fork_handlers_of_others_may_join_and_create_threads) {
  mi_free(mi_malloc(1));
  mi_fork_before_thread();
  check(!mi_fork_pause());
  for (size_t i = 0; i < 2; i++) {
    allocate_with_other();
    os_fake.fork_prepare();
    mi_fork_before_thread(); // of the parent: nothing changes
    check(!is_free(&mi_state.thread_lock) && mi_fork_pause());
    check(are_locks_free());
    allocate(NULL);
    unit_on_thread(&fork_in_parent, NULL);
    mi_fork_resume();
    check(!is_free(&mi_state.thread_lock) && !is_free(&mi_state.arena_lock));
    check(!is_free(&mi_state.purge_lock));
    os_fake.is_child = i;
    if (i == 1) {
      check(!mi_fork_pause()); // none of its threads is here
      mi_fork_before_thread();
      check(are_locks_free());
      unit_on_thread(&allocate, NULL);
      unit_check_valid();
      mi_lock_enter(&mi_state.thread_lock); // as the new thread might
      os_fake.fork_child();
      check(!is_free(&mi_state.thread_lock));
      mi_lock_leave(&mi_state.thread_lock);
    } else {
      os_fake.fork_parent();
      puppet_end(&other);
    }
    check(are_locks_free());
  }
  unit_check_valid();
}

static sem_t setting_up, has_forked;

// In the middle of the set-up. Goes on when the fork is done, or after a while: a fork may wait for
// the set-up instead.
static void wait_for_fork(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 1;
  sem_post(&setting_up);
  while (sem_timedwait(&has_forked, &until) != 0 && errno == EINTR) {
  }
}

static void* kept;
static uintptr_t keeper;

// Registering a fork handler may allocate.
static void keep_and_wait_for_fork(void) {
  kept = mi_malloc(SIZE);
  unit_fill(kept, SIZE, 7);
  keeper = mi_tls_thread_id();
  wait_for_fork();
}

// In the child, where the thread that made it does not exist.
static void check_kept(void) {
  check(unit_is_filled(kept, SIZE, 7));
  const uintptr_t owner = mi_atomic_load_relaxed(&unit_page_of(kept)->owner);
  check((owner & ~MI_OWNER_FLAGS) != keeper);
}

static void* set_up(void* arg) {
  mi_free(mi_malloc(SIZE));
  return arg;
}

static void fork_in_set_up(void (**hook)(void), void (*function)(void)) {
  *hook = function;
  sem_init(&setting_up, 0, 0);
  sem_init(&has_forked, 0, 0);
  pthread_t first;
  check(pthread_create(&first, NULL, &set_up, NULL) == 0);
  while (sem_wait(&setting_up) != 0) {
  }
  const bool is_registered = os_fake.fork_prepare != NULL;
  if (is_registered) os_fake.fork_prepare();
  const pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    alarm(20); // a hang ends by the signal
    *hook = NULL;
    if (is_registered) os_fake.fork_child();
    void* const p = mi_malloc(SIZE);
    check(p != NULL && p != kept);
    mi_free(p);
    if (kept != NULL) check_kept();
    mi_free(kept);
    unit_check_valid();
    spawn_keep_coverage();
    _exit(0);
  }
  if (is_registered) os_fake.fork_parent();
  sem_post(&has_forked);
  int status = 1;
  check(waitpid(child, &status, 0) == child);
  check_equal(status, 0);
  pthread_join(first, NULL);
  *hook = NULL;
  set_up(NULL);
}

// If this fails, a child that was forked while another thread made the first allocation of the
// process hangs in its own first one.
UNIT_TEST(fork_during_set_up) { fork_in_set_up(&hooks_fake.on_load_options, &wait_for_fork); }

// If this fails, it does so, or loses what there is, when only the fork handlers were missing.
UNIT_TEST(fork_before_it_is_registered) {
  fork_in_set_up(&os_fake.on_at_fork, &keep_and_wait_for_fork);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fork_holds_all_locks),
      cmocka_unit_test(fork_is_registered_when_the_system_lets_us),
      cmocka_unit_test(fork_child_keeps_its_own_theap),
      cmocka_unit_test(fork_child_adopts_pages_of_vanished_threads),
      cmocka_unit_test(fork_child_adopts_orphans),
      cmocka_unit_test(fork_child_without_memory_adopts_orphans),
      cmocka_unit_test(fork_child_takes_guests_and_parked_pages),
      cmocka_unit_test(fork_child_takes_what_was_just_claimed),
      cmocka_unit_test(fork_child_takes_what_a_thread_without_a_theap_claimed),
      cmocka_unit_test(fork_child_without_a_theap),
      cmocka_unit_test(fork_child_forgets_vanished_theaps),
      cmocka_unit_test(fork_child_takes_heaps_of_vanished_threads),
      cmocka_unit_test(fork_child_ends_sub_processes_of_vanished_threads),
      cmocka_unit_test(fork_child_destroys_a_heap_with_pages_without_an_owner),
      cmocka_unit_test(fork_sees_no_page_without_its_book),
      cmocka_unit_test(fork_inside_waits_for_nothing),
      cmocka_unit_test(fork_touches_nothing_of_the_thread),
      cmocka_unit_test(fork_handlers_of_others_may_allocate),
      cmocka_unit_test(fork_handlers_of_others_may_join_and_create_threads),
      cmocka_unit_test(fork_during_set_up),
      cmocka_unit_test(fork_before_it_is_registered),
  };
  return cmocka_run_group_tests_name("fork", tests, NULL, NULL);
}
