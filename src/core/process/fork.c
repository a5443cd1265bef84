// SPDX-License-Identifier: MIT
// fork.c - handlers around fork(2): locks are held across it, and the child takes over what other
// threads owned.
//
// In the child every other thread has stopped between two instructions. This is what they may have
// left half done, and why it is harmless:
//   a free into an own page   the block is on the list or not; counts are taken anew from the lists
//   a refill                  blocks in the list of a vanished theap stay counted as used: at most
//                             a list for each class is lost
//   claims of slices, pops    slices, or a page, that no list has: lost
//   the end of a page         its word says that nobody owns it before its marks change (page.c)
//   a parcel of frees         its blocks stay counted as used: at most one small parcel is lost
//   a block that is kept      on its way it stays counted as used; all others are freed later, by
//                             the child (QUARANTINE-4)
//   anything under a lock     cannot be: fork holds all locks (in their order, state.h)
//   queues taken over         cannot be half done, as above; their thread takes them back (HOLD-4)
//   the end of a heap         the pages that are left stay with a heap that no list knows; their
//                             blocks can be freed as all others
// No block that may be in use is ever counted as free.
//
// A signal handler may fork, whatever it interrupted, if the child only calls exec. If its thread
// held a lock, waiting for locks would be waiting for itself, or for a thread that waits for it:
// then the handlers do nothing, and the child must not allocate. Otherwise they work as always. The
// prepare handler touches no data of the thread, because the signal may have interrupted code that
// does: the parcel of the thread is not delivered, and stays as it is in both processes.
//
// Fork handlers of the program that were registered before ours run while we hold all locks. They
// may allocate: no other thread holds a lock, and this thread enters them freely
// (MI_LOCKS_OF_FORK). They may join a thread, and create one in the child (FORK-5); they must not
// wait in another way for a thread that allocates or ends.
//
// FORK-1  after the child handler no page is owned under the id of a vanished thread, so a new
//     thread may get that id.
// FORK-2  a page that has an owner and belongs into a book (RUN-1) is in that book at any moment:
//     the owner is cleared before the page is taken out (page.c, large.c), and written after it was
//     entered, under a lock that fork holds.
// FORK-3  a page may be owned although its owner word does not name the owner: a thread that claims
//     a page, by a free or from the pool, first sets OWNED and then writes its id. Meanwhile the
//     word names the thread that parked the page (this one or another), or none. Only the plain id
//     of this thread means that this thread owns the page (REMOTE-4). A thread without a theap
//     claims pages, too: all pages are checked unless there never was another thread.
// FORK-4  a page in a book may have no owner in the child: a vanished thread was making it, or had
//     cleared its owner and not yet taken it out (FORK-2). No block of it is in use. Its slices are
//     free again when its heap is destroyed; they are lost when its heap is deleted.
// FORK-5  handlers of the program that were registered before ours (in a constructor before that
//     of the library) run after ours before a fork, and before ours after it. Many libraries end
//     their threads before a fork, and create them again after it. So the locks are left while such
//     a handler joins a thread, which may need them to end, and another one may fork meanwhile; and
//     the child takes over before it creates one, not when its handler is called.
// FORK-6  blocks that vanished threads were allocating, freeing or resizing have notes (track.h) of
//     any state. So a child of a process with other threads does not look for mistakes in all of
//     its blocks (mi_collect_check), and takes none of these for one.
#include "fork.h"

#include "purger.h"

static void mi_fork_enter_locks(void) {
  mi_lock_enter(&mi_state.subproc_lock);
  mi_lock_enter(&mi_state.thread_lock);
  mi_lock_enter(&mi_state.arena_lock);
  mi_lock_enter(&mi_state.purge_lock);
  mi_state.fork_process = mi_os_process_number();
}

static void mi_fork_prepare(void) {
  mi_atomic_store_relaxed(&mi_state.is_fork_known, true);
  mi_hook_fork(); // sets up, which makes the locks
  const bool is_ready = mi_atomic_load_relaxed(&mi_state.stage) == MI_STAGE_READY;
  if (mi_self()->locks_held != 0 || !is_ready) { // a signal interrupted the set-up
    mi_self()->forks_inside++;
    return;
  }
  mi_fork_enter_locks();
  // PURGER-2: a program that asks the system after the fork how many threads it has is told of its
  // own. (It stays for a user who wants one in a program with one thread, or to command it.)
  const bool is_wanted =
      mi_option_value(purge_thread) == 1 || mi_atomic_load_relaxed(&mi_state.control_ms) != 0;
  if (mi_thread_count_all() <= 1 && !is_wanted) mi_purger_dismiss();
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) mi_collapse_fork_prepare(s);
  mi_self()->locks_held |= MI_LOCKS_OF_FORK;
}

// End a fork. True if there is nothing to do: it began while its thread held a lock, or the child
// has taken over already.
static bool mi_fork_end(void) {
  if (mi_self()->forks_inside > 0) {
    mi_self()->forks_inside--;
    return true;
  }
  if (mi_state.fork_process == 0) return true;
  mi_state.fork_process = 0;
  mi_self()->locks_held &= ~MI_LOCKS_OF_FORK;
  return false;
}

static void mi_fork_leave_locks(void) {
  mi_self()->locks_held &= ~MI_LOCKS_OF_FORK;
  mi_lock_leave(&mi_state.purge_lock);
  mi_lock_leave(&mi_state.arena_lock);
  mi_lock_leave(&mi_state.thread_lock);
  mi_lock_leave(&mi_state.subproc_lock);
}

// What is resident is shared by the two processes from now on.
static void mi_fork_share(void) {
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) mi_collapse_fork_share(s);
}

static void mi_fork_parent(void) {
  if (mi_fork_end()) return;
  mi_fork_share();
  mi_fork_leave_locks();
}

// Take over a page whose owner does not exist here: count its blocks anew, and give it up.
static void mi_fork_adopt(mi_page_t* page) {
  mi_block_t* last;
  mi_life_displace(page);
  mi_life_recount(page, mi_page_measure(page, &page->local_free, &last));
  mi_pool_give_up(page);
}

static bool mi_fork_adopt_if_vanished(mi_page_t* page, void* self) {
  const uintptr_t owner = mi_atomic_load_relaxed(&page->owner);
  const bool is_paged = owner > MI_OWNER_MAX_SPECIAL || owner == MI_OWNER_SHARED;
  // FORK-3: if the word still names the thread that parked the page, another thread owns it.
  const bool is_own = mi_owner_is(owner, *(uintptr_t*)self);
  if (is_paged && !is_own && (mi_atomic_load_relaxed(&page->thread_free) & MI_REMOTE_OWNED) != 0) {
    mi_fork_adopt(page);
  }
  return true;
}

// Keep only this thread's theaps of a heap. Under the thread lock.
static void mi_fork_keep_theaps(mi_heap_t* heap, const mi_theap_t* own) {
  mi_lock_expect(&mi_state.thread_lock);
  mi_theap_t* theap = heap->theaps;
  heap->theaps = NULL;
  while (theap != NULL) {
    mi_theap_t* const next = theap->heap_next;
    theap->heap_next = NULL;
    theap->heap_link = NULL;
    mi_tally_settle(theap, heap);
    mi_count_add(&heap->subproc->count.theaps, -1);
    if (theap->home == own) mi_theap_link(theap, heap);
    theap = next;
  }
  mi_atomic_store_relaxed(&heap->inside, 0);
  mi_atomic_store_relaxed(&heap->is_filling, false); // POOL-5
}

static void mi_fork_keep_own(mi_subproc_t* subproc, mi_theap_t* own) {
  mi_lock_enter(&mi_state.thread_lock); // only for mi_lock_expect: there is no other thread
  mi_fork_keep_theaps(&subproc->heap_main, own);
  for (mi_heap_t* heap = subproc->heaps; heap != NULL; heap = heap->next) {
    mi_fork_keep_theaps(heap, own);
  }
  for (mi_heap_t* heap = subproc->ended; heap != NULL; heap = heap->next) {
    mi_atomic_store_relaxed(&heap->inside, 0);
    mi_atomic_store_relaxed(&heap->is_filling, false);
  }
  const bool is_here = own->thread_id != 0 && mi_theap_subproc(own) == subproc;
  mi_atomic_store_relaxed(&subproc->count.threads, is_here ? 1 : 0);
  mi_atomic_store_relaxed(&subproc->count.busy_threads, is_here && own->is_busy ? 1 : 0);
  mi_lock_leave(&mi_state.thread_lock);
}

// Keep only this thread's home. True if there were homes of other threads.
static bool mi_fork_keep_home(const mi_theap_t* own) {
  bool has_others = mi_state.orphans != NULL;
  for (size_t i = 0; i < MI_THEAP_BUCKETS; i++) {
    mi_theap_t* theap = mi_state.theap_bucket[i];
    mi_state.theap_bucket[i] = NULL;
    while (theap != NULL) {
      mi_theap_t* const next = theap->bucket_next;
      if (theap == own) {
        theap->bucket_next = mi_state.theap_bucket[i];
        mi_state.theap_bucket[i] = theap;
      } else {
        mi_tally_settle(theap, mi_theap_heap(theap));
        mi_quarantine_inherit(theap);
        has_others = true;
      }
      theap = next;
    }
  }
  // The structures of vanished threads stay unused: they may be in any state.
  mi_state.orphans = NULL;
  mi_atomic_store_relaxed(&mi_state.orphan_count, 0);
  return has_others;
}

MI_INTERNAL void mi_fork_take_over(void) {
  mi_lock_reset(&mi_state.purge_lock);
  mi_lock_reset(&mi_state.arena_lock);
  mi_lock_reset(&mi_state.thread_lock);
  mi_lock_reset(&mi_state.subproc_lock);
  mi_atomic_store_relaxed(&mi_state.is_fork_asked, false);
  mi_self_forget_others();
  mi_purger_forget();
  mi_thread_present_alone();
  mi_report_enter(MI_REPORT_IN_FORK);
  mi_report_keep_own();
  mi_collapse_fork_join();
  mi_fork_share();
  mi_theap_t* const own = mi_self_home();
  mi_atomic_store_relaxed(&mi_state.visitors, 0);
  const bool has_others = mi_fork_keep_home(own) || !mi_os_is_single_threaded();
  if (has_others) mi_state.is_torn = true;
  for (mi_subproc_t* s = &mi_state.main; s != NULL; s = s->next) {
    mi_fork_keep_own(s, own);
    mi_kept_keep_own(s, own);
    if (has_others) mi_walk_pages(s, NULL, &mi_fork_adopt_if_vanished, &own->thread_id);
  }
  mi_report_leave();
}

static void mi_fork_child(void) {
  if (!mi_fork_end()) mi_fork_take_over();
}

// True if the thread is inside a fork whose handler for this process has not run.
static bool mi_fork_is_on(void) {
  const mi_self_t* const self = mi_self();
  return mi_unlikely((self->locks_held & MI_LOCKS_OF_FORK) != 0) && self->forks_inside == 0;
}

static mi_attr_cold bool mi_fork_is_child(void) {
  return mi_os_process_number() != mi_state.fork_process;
}

MI_INTERNAL void mi_fork_before_thread(void) {
  if (mi_fork_is_on() && mi_fork_is_child()) mi_fork_child();
}

MI_INTERNAL bool mi_fork_pause(void) {
  if (!mi_fork_is_on() || mi_fork_is_child()) return false;
  mi_fork_leave_locks();
  return true;
}

MI_INTERNAL mi_attr_cold void mi_fork_resume(void) {
  mi_fork_enter_locks();
  mi_self()->locks_held |= MI_LOCKS_OF_FORK;
}

MI_INTERNAL void mi_fork_register(void) {
  if (mi_likely(mi_atomic_load_relaxed(&mi_state.is_fork_known))) return;
  // Sees if another thread has registered them in `mi_fork_register`. They must not be registered
  // twice: the second handler would wait for the locks of the first.
  if (mi_atomic_swap_acquire(&mi_state.is_fork_asked, true)) return;
  if (!mi_atomic_load_relaxed(&mi_state.is_fork_known) &&
      mi_os_at_fork(&mi_fork_prepare, &mi_fork_parent, &mi_fork_child) == 0) {
    mi_atomic_store_relaxed(&mi_state.is_fork_known, true);
  }
  // Publishes `is_fork_known`; pairs with the acquire in `mi_fork_register` of another thread.
  mi_atomic_store_release(&mi_state.is_fork_asked, false);
}
