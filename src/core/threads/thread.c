// SPDX-License-Identifier: MIT
// thread.c - a thread's start, which is its first allocation, its theaps, and its end.
//
//   in use (one thread) --thread ends--> orphan --next thread starts--> in use
//                                          '--waited too long, or too many: its pages go to pools
//                                          and arenas
//
// A thread that starts takes over the theap of one that ended, pages and all: programs that start
// and end threads all the time work in warm memory (larson: 20 to 27 % of the time otherwise).
//
// THREAD-1  a page is owned under a thread id only while the theap with that id is in use. The
//     system reuses ids; a thread that starts with the id of a theap still in use (its thread ended
//     without our notice) takes exactly that theap: no other living thread can have that id, so the
//     pages owned under it are this thread's. If it is to be in another sub-process, it ends the
//     theap for the other thread.
// THREAD-2  pages of an orphan have owner MI_OWNER_SHARED and stay OWNED: frees into them are
//     pushed, and otherwise only the thread that holds the thread lock touches them.
// THREAD-3  only a few orphans keep pages, and not many each; the others give everything up at
//     once.
//
// THREAD-4  a thread has one home, the theap of the main heap of its sub-process, and other theaps,
//     one for each other heap it allocated from: `others` of the home, by the slot of the heap. A
//     theap whose heap has ended stays there until the place is needed, the thread ends a heap
//     itself, or there are many (MI_ENDED_MAX).
// THREAD-5  orphans are homes of the main sub-process only: another one may end before the next
//     thread starts.
//
// THREAD-6  plain loads and stores replace atomic ones in processes with one thread, and end before
//     there is a second thread (`mi_os_is_single_threaded`). If the library missed the second
//     thread, because the program opened another linker namespace without our notice, they end when
//     that thread makes its home: late, but for good.
//
// THREAD-7  `mi_state.present` counts the threads whose end the system will tell us of. libc ends
//     the process when its last thread has ended, so the purge thread must be gone by then: it runs
//     only while this count is not 0 (purger.c), and who counts down to 0 ends it. A thread counts
//     from its first home on, until it ends: also while it has no home, after mi_thread_done,
//     because nobody could start the purge thread when it has one again, inside of malloc. A thread
//     that allocates again after we were told of its end, in the destructor of another key, does
//     not count again: we may not be told a second time.
//
// THREAD-8  a thread that refills, in whatever heap, looks at the idle pages of all its heaps, in
//     turn: others free blocks of pages that it owns in heaps from which it does not allocate now
//     (those of a deleted heap belong to the main heap), and only the owner can see that they are
//     empty. What a thread that sleeps has in its queues is taken over (hold.c).
//
// THREAD-9  theaps whose heap has ended are listed at their home, so that to free those of many
//     heaps takes as long for each as for one, however many heaps there are.
//
// All lists here are under the thread lock, which no free ever takes. Order: see state.h.
#include "thread.h"

#include "flush.h"
#include "hold.h"
#include "parcel.h"
#include "portion.h"
#include "quarantine.h"
#include "sample.h"
#include "split.h"

#define MI_ORPHANS_WITH_PAGES_MAX 16
#define MI_ORPHAN_PAGES_MAX 256
#define MI_ORPHAN_WAIT_MS 100
#define MI_ENDED_MAX 16
#define MI_OTHERS_MIN ((size_t)16)
// The theaps of a thread that look at their pages at once, and the pages that they look at
// together: others wait for the lock meanwhile.
#define MI_IDLE_OTHERS ((size_t)16)
#define MI_IDLE_OTHERS_PAGES ((size_t)1024)
// The memory of a theap: at least half of an OS page of 4 KiB, so that it has OS pages of its own,
// which go back when it does (META-2). With 32 bits and few classes (MI_TINY) it is smaller.
#define MI_THEAP_SIZE (sizeof(mi_theap_t) > 2 * MI_KIB ? sizeof(mi_theap_t) : 2 * MI_KIB)
mi_static_assert(MI_HAS_CENSUS || sizeof(mi_theap_t) <= 4 * MI_KIB, "a theap is within an OS page");

typedef enum mi_presence_e {
  MI_PRESENCE_NONE, // does not count, but may
  MI_PRESENCE_COUNTED,
  MI_PRESENCE_NEVER, // ends, or is one of our own threads
} mi_presence_t;

static void mi_thread_set_presence(mi_presence_t presence) {
  const bool was_counted = mi_thread_is_present();
  const bool is_counted = presence == MI_PRESENCE_COUNTED;
  mi_self()->presence = presence;
  if (!was_counted && is_counted) mi_atomic_add_relaxed(&mi_state.present, 1);
  if (was_counted && !is_counted && mi_atomic_sub_relaxed(&mi_state.present, 1) == 1) {
    mi_hook_last_thread();
  }
}

// The end of the calling thread is noticed no more, until it has a home again.
static void mi_thread_be_absent(void) {
  if (mi_thread_is_present()) mi_thread_set_presence(MI_PRESENCE_NONE);
}

MI_INTERNAL bool mi_thread_is_present(void) { return mi_self()->presence == MI_PRESENCE_COUNTED; }

MI_INTERNAL void mi_thread_stay_absent(void) { mi_thread_set_presence(MI_PRESENCE_NEVER); }

MI_INTERNAL void mi_thread_present_alone(void) {
  mi_atomic_store_relaxed(&mi_state.present, mi_thread_is_present() ? 1 : 0);
}

static void mi_thread_on_exit(void* value) {
  (void)value;
  mi_thread_stay_absent();
  mi_thread_leave();
  mi_self_leave();
}

// Return the number of threads with memory in all sub-processes: of those that there are, or ever
// were.
static mi_attr_cold int64_t mi_thread_sum(bool is_ever) {
  mi_lock_expect(&mi_state.thread_lock);
  int64_t sum = 0;
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) {
    sum += mi_atomic_load_relaxed(is_ever ? &s->count.threads_total : &s->count.threads);
  }
  return sum;
}

MI_INTERNAL mi_attr_cold int64_t mi_thread_count_all(void) { return mi_thread_sum(false); }

MI_INTERNAL mi_attr_cold int64_t mi_thread_total_all(void) { return mi_thread_sum(true); }

// Find the home with a thread id. Under the thread lock.
static mi_theap_t* mi_thread_find_own(uintptr_t id) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_theap_t* theap = *mi_thread_bucket(id);
  while (theap != NULL && theap->thread_id != id) theap = theap->bucket_next;
  return theap;
}

static mi_theap_t* mi_thread_make_theap(mi_heap_t* heap, mi_theap_t* home) {
  // The first home of the main sub-process is there already, and is never freed (THREAD-5).
  const bool is_first = home == NULL && heap == &mi_state.main.heap_main;
  mi_theap_t* theap = NULL;
  if (is_first && !mi_state.is_theap_main_taken) {
    mi_state.is_theap_main_taken = true;
    theap = &mi_state.theap_main;
  } else {
    theap = (mi_theap_t*)mi_meta_lock_and_alloc(MI_THEAP_SIZE);
  }
  if (theap == NULL) return NULL;
  mi_theap_init(theap, heap, home);
  mi_split_init(theap);
  return theap;
}

static mi_theap_t* mi_thread_pop_orphan(void) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_theap_t* const theap = mi_state.orphans;
  if (theap == NULL) return NULL;
  mi_state.orphans = theap->orphan_next;
  theap->orphan_next = NULL;
  if (theap->page_count > 0) mi_atomic_sub_relaxed(&mi_state.orphan_count, 1);
  return theap;
}

static void mi_thread_push_orphan(mi_theap_t* theap) {
  mi_lock_expect(&mi_state.thread_lock);
  theap->orphan_next = mi_state.orphans;
  mi_state.orphans = theap;
  if (theap->page_count > 0) mi_atomic_add_relaxed(&mi_state.orphan_count, 1);
}

// -- start --

MI_INTERNAL void mi_thread_watch(mi_theap_t* home) {
  home->is_unwatched = !mi_os_thread_on_exit(&mi_thread_on_exit, home);
  if (!home->is_unwatched && mi_self()->presence == MI_PRESENCE_NONE) {
    mi_thread_set_presence(MI_PRESENCE_COUNTED);
  }
}

static void mi_thread_count(mi_theap_t* home) {
  mi_counters_t* const count = &mi_theap_subproc(home)->count;
  mi_count_add(&count->threads_total, 1);
  mi_count_add_peak(&count->threads, &count->threads_peak, 1);
}

static void mi_thread_end_home(mi_theap_t* home);

// Notice a second thread that was not announced (THREAD-6). Under the thread lock.
static void mi_thread_note(uintptr_t id) {
  mi_lock_expect(&mi_state.thread_lock);
  if (mi_state.first_thread == 0) mi_state.first_thread = id;
  if (mi_state.first_thread != id && mi_os_is_single_threaded()) mi_os_expect_threads();
}

MI_INTERNAL mi_theap_t* mi_thread_start(mi_subproc_t* subproc) {
  const uintptr_t id = mi_tls_thread_id();
  mi_lock_enter(&mi_state.thread_lock);
  mi_theap_t* theap = mi_thread_find_own(id);
  if (mi_unlikely(theap != NULL && mi_theap_subproc(theap) != subproc)) { // THREAD-1
    mi_lock_leave(&mi_state.thread_lock);
    mi_thread_end_home(theap);
    mi_lock_enter(&mi_state.thread_lock);
    theap = NULL;
  }
  if (theap == NULL) {
    if (subproc == &mi_state.main) theap = mi_thread_pop_orphan();
    if (theap == NULL) theap = mi_thread_make_theap(&subproc->heap_main, NULL);
    if (theap == NULL) {
      mi_lock_leave(&mi_state.thread_lock);
      mi_thread_be_absent();
      return NULL;
    }
    mi_thread_note(id);
    mi_assert((id & (MI_OWNER_FLAGS | MI_OWNER_MAX_SPECIAL)) == 0);
    theap->thread_id = id;
    theap->bucket_next = *mi_thread_bucket(id);
    *mi_thread_bucket(id) = theap;
    mi_life_set_owner(theap, id);
    mi_thread_count(theap);
    mi_probe2(thread_start, id, theap);
  }
  mi_hold_begin(theap);
  mi_lock_leave(&mi_state.thread_lock);
  mi_self()->theap = theap;
  return theap;
}

// -- theaps of other heaps --

// Give up what the theap still has; no thread has the theap then. Under the thread lock.
static void mi_thread_clean(mi_theap_t* theap) {
  mi_lock_expect(&mi_state.thread_lock);
  // It was cleaned when its heap ended, and has nothing since then.
  if (mi_theap_heap(theap) == MI_HEAP_GONE && !theap->is_destroyed) return;
  if (mi_self()->theap == theap) mi_self()->theap = theap->home;
  if (mi_self()->theap_recent == theap) mi_self()->theap_recent = &mi_theap_empty;
  if (theap->is_destroyed) {
    mi_theap_reset(theap);
    mi_split_join(theap);
  } else {
    mi_flush_theap(theap);
  }
  mi_sample_drop_own(theap);
  if (theap->heap_link != NULL) {
    mi_tally_settle(theap, mi_theap_heap(theap));
    mi_theap_unlink(theap);
  }
  theap->is_destroyed = false;
  mi_atomic_store_relaxed(&theap->heap, MI_HEAP_GONE);
  mi_atomic_store_relaxed(&theap->named, MI_HEAP_GONE);
}

static void mi_thread_forget_ended(mi_theap_t* theap) {
  if (theap->is_ended) mi_atomic_sub_relaxed(&theap->home->ended_count, 1);
  theap->is_ended = false;
}

// Free the theap in a slot of a home of this thread. Under the lock.
static mi_attr_cold void mi_thread_free_other(mi_theap_t* home, size_t slot) {
  mi_theap_t* const theap = home->others[slot];
  mi_thread_clean(theap);
  mi_thread_forget_ended(theap);
  mi_meta_lock_and_free(theap, MI_THEAP_SIZE);
  home->others[slot] = NULL;
}

// Free the theaps of a home of this thread whose heap has ended: THREAD-9. Under the lock.
static mi_attr_cold void mi_thread_sweep(mi_theap_t* home) {
  mi_lock_expect(&mi_state.thread_lock);
  uint32_t next = home->ended_next;
  uint32_t rest = 0;
  while (next != 0 && next != MI_ENDED_LAST) {
    const uint32_t slot = next - 1;
    mi_theap_t* const theap = home->others[slot];
    next = theap->ended_next;
    theap->ended_next = 0;
    if (theap->is_in_deferred_free) {
      // A callback of the user runs inside a malloc from this theap: the next sweep.
      theap->ended_next = rest != 0 ? rest : MI_ENDED_LAST;
      rest = slot + 1;
    } else if (theap->is_ended) {
      mi_thread_free_other(home, slot);
    }
  }
  home->ended_next = rest;
}

// Free all theaps of a home of this thread but the home. Under the lock.
static void mi_thread_free_others(mi_theap_t* home) {
  mi_lock_expect(&mi_state.thread_lock);
  for (size_t i = 0; i < home->others_count; i++) {
    if (home->others[i] != NULL) mi_thread_free_other(home, i);
  }
  home->ended_next = 0;
}

MI_INTERNAL mi_attr_cold void mi_thread_sweep_ended(void) {
  mi_theap_t* const home = mi_self_home();
  if (mi_atomic_load_relaxed(&home->ended_count) == 0) return;
  mi_lock_enter(&mi_state.thread_lock);
  mi_thread_sweep(home);
  mi_lock_leave(&mi_state.thread_lock);
}

static bool mi_thread_has_many_ended(mi_theap_t* home) {
  return mi_atomic_load_relaxed(&home->ended_count) > MI_ENDED_MAX;
}

static bool mi_thread_make_room(mi_theap_t* home, size_t slot) {
  if (slot < home->others_count) return true;
  const size_t old_size = home->others_count * sizeof(mi_theap_t*);
  const size_t count = mi_bits_max((slot + 1) * 2, MI_OTHERS_MIN);
  mi_theap_t** const others = (mi_theap_t**)mi_meta_lock_and_alloc(count * sizeof(mi_theap_t*));
  if (others == NULL) return false;
  for (size_t i = 0; i < home->others_count; i++) others[i] = home->others[i];
  if (home->others != NULL) mi_meta_lock_and_free(home->others, old_size);
  home->others = others;
  home->others_count = count;
  return true;
}

// Make a theap of `heap` in its slot, which is empty or has a theap whose heap has ended. Under the
// thread lock. NULL when out of memory.
static mi_theap_t* mi_thread_make_other(mi_theap_t* home, mi_heap_t* heap) {
  mi_lock_expect(&mi_state.thread_lock);
  if (!mi_thread_make_room(home, heap->slot)) return NULL;
  mi_theap_t* theap = home->others[heap->slot];
  if (theap != NULL && theap->is_in_deferred_free) return NULL; // as in mi_thread_sweep
  if (theap != NULL) {
    mi_thread_clean(theap);
    mi_thread_forget_ended(theap);
    mi_atomic_store_relaxed(&theap->named, heap);
  } else {
    theap = mi_thread_make_theap(heap, home);
    if (theap == NULL) return NULL;
    theap->slot = (uint32_t)heap->slot;
    home->others[heap->slot] = theap;
  }
  theap->thread_id = home->thread_id;
  mi_theap_link(theap, heap);
  mi_count_add(&heap->subproc->count.theaps_total, 1);
  return theap;
}

MI_INTERNAL mi_theap_t* mi_thread_add_theap(mi_theap_t* home, mi_heap_t* heap) {
  mi_lock_enter(&mi_state.thread_lock);
  mi_theap_t* const theap = mi_thread_make_other(home, heap);
  if (mi_thread_has_many_ended(home)) mi_thread_sweep(home);
  mi_lock_leave(&mi_state.thread_lock);
  return theap;
}

static void mi_thread_flush_by(mi_theap_t* home, void (*flush)(mi_theap_t*, size_t*),
                               size_t* budget) {
  flush(home, budget);
  if (home->others == NULL) return;
  // The lock keeps their heaps from being destroyed meanwhile. No theap is freed: the caller may
  // allocate from one of them.
  mi_lock_enter(&mi_state.thread_lock);
  for (size_t i = 0; i < home->others_count; i++) {
    mi_theap_t* const theap = mi_theap_other(home, i);
    if (theap != NULL) flush(theap, budget);
  }
  mi_lock_leave(&mi_state.thread_lock);
}

static void mi_thread_flush_one(mi_theap_t* theap, size_t* budget) {
  (void)budget;
  mi_flush_theap(theap);
}

MI_INTERNAL void mi_thread_flush_all(mi_theap_t* home) {
  mi_thread_flush_by(home, &mi_thread_flush_one, NULL);
}

MI_INTERNAL mi_attr_cold bool mi_thread_rest(mi_theap_t* home) {
  size_t budget = MI_THREAD_REST_PAGES;
  mi_thread_flush_by(home, &mi_flush_rest, &budget);
  return budget > 0;
}

MI_INTERNAL mi_attr_cold void mi_thread_begin_look(mi_theap_t* theap) {
  mi_theap_t* const home = theap->home;
  mi_flush_begin_look(theap, true);
  if (theap != home) mi_flush_begin_look(home, true);
  if (home->others == NULL) return;
  mi_lock_enter(&mi_state.thread_lock); // as above
  const size_t count = mi_bits_min(home->others_count, MI_IDLE_OTHERS);
  size_t pages = MI_IDLE_OTHERS_PAGES;
  for (size_t i = 0; i < count && pages > 0; i++) {
    if (home->others_turn >= home->others_count) home->others_turn = 0;
    mi_theap_t* const other = mi_theap_other(home, home->others_turn++);
    if (other == NULL || other == theap) continue;
    mi_flush_begin_look(other, true);
    mi_flush_look(other, &pages);
  }
  mi_lock_leave(&mi_state.thread_lock);
}

MI_INTERNAL void mi_thread_look(mi_theap_t* theap, uint64_t now) {
  mi_theap_t* const home = theap->home;
  const uint32_t passed = (uint32_t)now - home->look_ms;
  home->look_ms = (uint32_t)now;
  const uint32_t more = mi_bits_min(passed, MI_LOOK_PAGES_MAX / MI_LOOK_PAGES_EACH_MS);
  size_t pages = mi_bits_min(MI_LOOK_PAGES + more * MI_LOOK_PAGES_EACH_MS, MI_LOOK_PAGES_MAX);
  mi_flush_look(theap, &pages);
  mi_pool_go_on(mi_theap_heap(theap));
  if (theap == home) return;
  mi_flush_look(home, &pages);
  mi_pool_go_on(mi_theap_heap(home));
}

MI_INTERNAL void mi_thread_release_ended(size_t slot) {
  mi_theap_t* const home = mi_self_home();
  mi_theap_t* const theap = slot < home->others_count ? home->others[slot] : NULL;
  if (theap == NULL) return;
  mi_lock_enter(&mi_state.thread_lock);
  // The cleaned theap stays for the next heap with this slot: a program that makes and ends heaps
  // all the time then does not make theaps.
  mi_thread_clean(theap);
  if (mi_thread_has_many_ended(home)) mi_thread_sweep(home);
  mi_lock_leave(&mi_state.thread_lock);
}

// -- end --

static bool mi_thread_is_part_valid(mi_theap_t* theap) {
  if (theap->is_destroyed) return true; // THEAP-5: its pages are gone
  for (size_t c = 0; theap->thread_id == 0 && c < MI_CLASS_COUNT; c++) {
    if (mi_portion_of(theap, c) != NULL) return false; // PORTION-3
  }
  return mi_theap_is_valid(theap);
}

// True if THREAD-4 and THREAD-9 hold for the theap in a slot of `others`.
static bool mi_thread_is_other_valid(mi_theap_t* home, size_t slot) {
  mi_theap_t* const theap = home->others[slot];
  const mi_heap_t* const heap = mi_theap_heap(theap);
  if (theap->home != home || theap->thread_id != home->thread_id) return false;
  if (theap->slot != slot || (theap->is_ended && theap->ended_next == 0)) return false;
  if ((theap->heap_link != NULL) != (heap != MI_HEAP_GONE)) return false;
  if (heap == MI_HEAP_GONE) return mi_thread_is_part_valid(theap);
  return !theap->is_destroyed && (theap->is_ended ? heap->is_main : heap->slot == slot) &&
         mi_thread_is_part_valid(theap);
}

MI_INTERNAL bool mi_thread_is_valid(mi_theap_t* home) {
  mi_lock_expect(&mi_state.thread_lock);
  size_t ended = 0;
  for (size_t i = 0; i < home->others_count; i++) {
    if (home->others[i] == NULL) continue;
    if (!mi_thread_is_other_valid(home, i)) return false;
    ended += home->others[i]->is_ended ? 1 : 0;
  }
  return ended == mi_atomic_load_relaxed(&home->ended_count) && mi_thread_is_part_valid(home);
}

// Leave the home to the next thread, or its pages to pools and arenas.
static void mi_thread_leave_home(mi_theap_t* theap) {
  mi_subproc_t* const subproc = mi_theap_subproc(theap);
  mi_hold_enter(theap); // until `mi_hold_begin`
  // Guests and empty pages go back; the working set stays for the next thread, within bounds.
  mi_portion_return_all(theap); // PORTION-3
  mi_sample_drop_own(theap);
  mi_flush_idle(theap);
  mi_flush_trim(theap, 0, MI_CLASS_COUNT);
  const bool is_kept = subproc == &mi_state.main && theap->page_count <= MI_ORPHAN_PAGES_MAX &&
                       mi_atomic_load_relaxed(&mi_state.orphan_count) < MI_ORPHANS_WITH_PAGES_MAX;
  if (!is_kept) mi_flush_theap(theap);
  mi_retain_poll(subproc); // while the sub-process cannot end: this thread still counts
  mi_life_set_owner(theap, MI_OWNER_SHARED);
  theap->orphan_since_ms = mi_os_now_ms();
  theap->is_in_threadpool = false;
  mi_crowd_leave(theap);
  theap->filled = 0; // REFILL-3: the next thread may do other things
  mi_lock_enter(&mi_state.thread_lock);
  mi_theap_t** link = mi_thread_bucket(theap->thread_id);
  while (*link != theap) link = &(*link)->bucket_next;
  *link = theap->bucket_next;
  theap->bucket_next = NULL;
  mi_kept_leave(theap);
  mi_tally_settle(theap, mi_theap_heap(theap));
  theap->thread_id = 0;
  mi_hold_begin(theap);
  theap->idle_due_ms = theap->rested_hold = 0; // the next thread begins anew: IDLE-2
  // Other threads may have left at the same time: THREAD-3 is checked again under the lock.
  if (mi_atomic_load_relaxed(&mi_state.orphan_count) >= MI_ORPHANS_WITH_PAGES_MAX) {
    mi_flush_theap(theap);
  }
  if (subproc == &mi_state.main) {
    mi_thread_push_orphan(theap);
  } else {
    if (theap->others != NULL) {
      mi_meta_lock_and_free(theap->others, theap->others_count * sizeof(mi_theap_t*));
    }
    mi_meta_lock_and_free(theap, MI_THEAP_SIZE);
  }
  mi_count_add(&subproc->count.threads, -1);
  mi_lock_leave(&mi_state.thread_lock);
  mi_os_thread_on_exit(&mi_thread_on_exit, NULL);
}

// End a home that has the calling thread's id.
static void mi_thread_end_home(mi_theap_t* home) {
  mi_probe2(thread_end, home->thread_id, home);
  mi_report_enter(MI_REPORT_IN_THREAD_EXIT); // error functions find a thread without a theap
  mi_lock_enter(&mi_state.thread_lock);
  mi_assert_full(mi_thread_is_valid(home));
  mi_thread_free_others(home);
  mi_lock_leave(&mi_state.thread_lock);
  mi_self()->theap = &mi_theap_empty;
  mi_self()->theap_recent = &mi_theap_empty;
  mi_thread_leave_home(home);
  mi_report_leave_thread();
}

MI_INTERNAL void mi_thread_give_up(void) {
  mi_quarantine_end();
  mi_theap_t* const home = mi_self_home();
  if (home->thread_id != 0) mi_thread_end_home(home);
}

MI_INTERNAL void mi_thread_leave(void) {
  mi_parcel_end();
  mi_thread_give_up();
  mi_thread_be_absent();
}

MI_INTERNAL void mi_thread_withdraw(void) {
  mi_parcel_end();
  mi_thread_give_up(); // after which the end of the thread would not be noticed: THREAD-7
  if (mi_thread_is_present() && !mi_os_thread_on_exit(&mi_thread_on_exit, &mi_theap_empty)) {
    mi_thread_be_absent();
  }
}

// -- orphans --

// Flush orphans that have waited for `wait_ms`. Under the thread lock.
static bool mi_thread_flush_waiting(uint64_t wait_ms) {
  mi_lock_expect(&mi_state.thread_lock);
  const uint64_t now = mi_os_now_ms();
  bool is_any = false;
  for (mi_theap_t* theap = mi_state.orphans; theap != NULL; theap = theap->orphan_next) {
    if (theap->page_count == 0 || now - theap->orphan_since_ms < wait_ms) continue;
    mi_flush_theap(theap);
    mi_atomic_sub_relaxed(&mi_state.orphan_count, 1);
    is_any = true;
  }
  return is_any;
}

MI_INTERNAL bool mi_thread_release_orphans(void) {
  if (mi_likely(mi_atomic_load_relaxed(&mi_state.orphan_count) == 0)) return false;
  if (!mi_lock_try_enter(&mi_state.thread_lock)) return false;
  const bool is_any = mi_thread_flush_waiting(MI_ORPHAN_WAIT_MS);
  mi_lock_leave(&mi_state.thread_lock);
  return is_any;
}

MI_INTERNAL void mi_thread_flush_orphans(void) {
  if (mi_atomic_load_relaxed(&mi_state.orphan_count) == 0) return;
  mi_lock_enter(&mi_state.thread_lock);
  mi_thread_flush_waiting(0);
  mi_lock_leave(&mi_state.thread_lock);
}
