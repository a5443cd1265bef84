// SPDX-License-Identifier: MIT
// thread.c - a thread's start, which is its first allocation, and its end.
//
//   in use (one thread) --thread ends--> orphan --next thread starts--> in use
//                                          '--waited too long, or too many: its pages go to pools
//                                          and arenas
//
// A thread that starts takes over the theap of one that ended, pages and all: programs that start
// and end threads all the time work in warm memory (larson: 20 to 27 % of the time otherwise).
//
// X1  a page is owned under a thread id only while the theap with that id is in use. The system
//     reuses ids; a thread that starts with the id of a theap still in use (its thread ended
//     without telling us) takes exactly that theap: no other living thread can have that id, so
//     what is owned under it is this thread's.
// X2  pages of an orphan have owner MI_OWNER_SHARED and stay OWNED: frees into them are pushed,
//     nobody else touches them.
// X3  few orphans keep pages, and not many each; the others give everything up at once.
//
// All lists here are under the thread lock, which no free ever takes. Order: see state.h.
#include "thread.h"

#include "meta.h"
#include "purge.h"
#include "remote.h"

#define MI_ORPHANS_WITH_PAGES_MAX 16
#define MI_ORPHAN_PAGES_MAX 256
#define MI_ORPHAN_WAIT_MS 100

static void mi_thread_on_exit(void* value) {
  (void)value;
  mi_thread_leave();
}

// Under the thread lock.
static mi_theap_t* mi_thread_find_own(uintptr_t id) {
  mi_theap_t* theap = *mi_thread_bucket(id);
  while (theap != NULL && theap->thread_id != id) theap = theap->bucket_next;
  return theap;
}

static mi_theap_t* mi_thread_make_theap(void) {
  mi_theap_t* theap = NULL;
  if (!mi_state.is_theap_main_taken) {
    mi_state.is_theap_main_taken = true;
    theap = &mi_state.theap_main;
  } else {
    mi_lock_enter(&mi_state.arena_lock);
    theap = (mi_theap_t*)mi_meta_alloc(sizeof(mi_theap_t));
    mi_lock_leave(&mi_state.arena_lock);
  }
  if (theap != NULL) mi_theap_init(theap, &mi_state.heap_main);
  return theap;
}

static mi_theap_t* mi_thread_pop_orphan(void) {
  mi_theap_t* const theap = mi_state.orphans;
  if (theap == NULL) return NULL;
  mi_state.orphans = theap->orphan_next;
  theap->orphan_next = NULL;
  if (theap->page_count > 0) mi_atomic_sub_relaxed(&mi_state.orphan_count, 1);
  return theap;
}

static void mi_thread_push_orphan(mi_theap_t* theap) {
  theap->orphan_next = mi_state.orphans;
  mi_state.orphans = theap;
  if (theap->page_count > 0) mi_atomic_add_relaxed(&mi_state.orphan_count, 1);
}

MI_INTERNAL mi_theap_t* mi_thread_get_theap(void) {
  mi_process_setup();
  const uintptr_t id = mi_tls_thread_id();
  mi_lock_enter(&mi_state.thread_lock);
  mi_theap_t* theap = mi_thread_find_own(id);
  if (theap == NULL) {
    theap = mi_thread_pop_orphan();
    if (theap == NULL) theap = mi_thread_make_theap();
    if (theap == NULL) {
      mi_lock_leave(&mi_state.thread_lock);
      return NULL;
    }
    theap->thread_id = id;
    theap->bucket_next = *mi_thread_bucket(id);
    *mi_thread_bucket(id) = theap;
    mi_theap_set_owner(theap, id);
    mi_count_add(&mi_state.count.threads_total, 1);
    mi_count_add_peak(&mi_state.count.threads, &mi_state.count.threads_peak, 1);
  }
  mi_lock_leave(&mi_state.thread_lock);
  mi_theap_tls = theap;
  // May allocate through us: the theap is in place.
  mi_os_thread_on_exit(&mi_thread_on_exit, theap);
  return theap;
}

MI_INTERNAL void mi_thread_enter(void) {
  if (mi_theap_self()->thread_id == 0) mi_thread_get_theap();
}

MI_INTERNAL void mi_thread_leave(void) {
  mi_remote_end_parcels();
  mi_theap_t* const theap = mi_theap_self();
  if (theap->thread_id == 0) return;
  mi_theap_tls = &mi_theap_empty;
  // Guests and what became empty go back; the working set stays for the next thread, within bounds.
  mi_theap_collect(theap);
  mi_theap_trim(theap, 0, MI_CLASS_COUNT);
  const bool is_kept = theap->page_count <= MI_ORPHAN_PAGES_MAX &&
                       mi_atomic_load_relaxed(&mi_state.orphan_count) < MI_ORPHANS_WITH_PAGES_MAX;
  if (!is_kept) mi_theap_flush(theap);
  mi_theap_set_owner(theap, MI_OWNER_SHARED);
  theap->orphan_since_ms = mi_os_now_ms();
  mi_lock_enter(&mi_state.thread_lock);
  mi_theap_t** link = mi_thread_bucket(theap->thread_id);
  while (*link != theap) link = &(*link)->bucket_next;
  *link = theap->bucket_next;
  theap->bucket_next = NULL;
  theap->thread_id = 0;
  // Others may have left at the same time: X3 holds under the lock.
  if (mi_atomic_load_relaxed(&mi_state.orphan_count) >= MI_ORPHANS_WITH_PAGES_MAX) {
    mi_theap_flush(theap);
  }
  mi_thread_push_orphan(theap);
  mi_count_add(&mi_state.count.threads, -1);
  mi_lock_leave(&mi_state.thread_lock);
  mi_os_thread_on_exit(&mi_thread_on_exit, NULL);
  mi_purge_poll();
}

// Flush orphans that have waited for `wait_ms`. Under the thread lock.
static bool mi_thread_flush_waiting(uint64_t wait_ms) {
  const uint64_t now = mi_os_now_ms();
  bool is_any = false;
  for (mi_theap_t* theap = mi_state.orphans; theap != NULL; theap = theap->orphan_next) {
    if (theap->page_count == 0 || now - theap->orphan_since_ms < wait_ms) continue;
    mi_theap_flush(theap);
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
