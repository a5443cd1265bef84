// SPDX-License-Identifier: MIT
// remote.c - the complete ownership protocol of a page: who may touch it, and how other threads
// free into it.
//
// One word per page, `thread_free`, decides: a list of blocks, and two bits.
//
//   OWNED clear: no thread touches the page. The list is empty (REMOTE-1). The thread that sets
//                OWNED owns the page.
//   OWNED set:   one thread owns the page and its plain fields; those of an orphan's page belong to
//                the holder of the thread lock (THREAD-2). Others push onto the list.
//
//        +--------------- park, give_up (owner; list empty) ---------------+
//        v                                                                 |
//   not owned -- a free, or a pop from the pool, sets OWNED (acquire) --> owned <--+ push (release)
//                                                                          |  +----+
//                                                                          +-- take (acquire)
//
// REMOTE-1  not owned => the list is empty: the first free claims the page instead of pushing.
// REMOTE-2  plain fields of a page are written by its owner only. The CAS that clears OWNED
//     publishes them (release), the CAS that sets it sees them (acquire).
// REMOTE-3  after the CAS that clears OWNED its thread touches nothing of the page (but `pool_next`
//     if it set POOLED): the page may be released and its slices reused by then.
// REMOTE-4  the owner word is a hint: only a thread stores its own id there, while it owns the page
//     or when it parks it (or the purge thread, as if the thread had parked it). A thread that
//     reads its own id without flags owns the page. With the flag PARKED it must win the CAS first,
//     with QUEUED it must hold its queues (hold.c).
//
// A block cannot be lost: it is pushed while the page is owned, and the owner looks at the list
// before it gives the page up (its CAS expects an empty list), or it is freed by the thread that
// just claimed the page. No thread waits: each loop repeats only because another thread changed the
// word. ABA: the word never holds a pointer that is followed without owning the whole list.
// Lifetime: the freed block keeps the page until its free is counted.
//
// In a process with one thread no other thread can touch the word, so that plain stores are enough
// (os.h, `mi_os_is_single_threaded`).
#include "remote.h"

MI_INTERNAL mi_block_t* mi_remote_take(mi_page_t* page) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  mi_assert_page(page, (word & MI_REMOTE_OWNED) != 0);
  if (mi_likely(word <= MI_REMOTE_BITS)) return NULL;
  if (mi_os_is_single_threaded()) { // from a parcel
    mi_atomic_store_relaxed(&page->thread_free, word & MI_REMOTE_BITS);
    return (mi_block_t*)(word & ~MI_REMOTE_BITS);
  }
  // Sees every link on the list; pairs with the release in `mi_remote_push`.
  while (!mi_atomic_cas_weak_acquire(&page->thread_free, &word, word & MI_REMOTE_BITS)) {
  }
  return (mi_block_t*)(word & ~MI_REMOTE_BITS);
}

MI_INTERNAL bool mi_remote_release(mi_page_t* page, uintptr_t pooled, uintptr_t bits) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  mi_assert_page(page, (word & MI_REMOTE_OWNED) != 0);
  if (mi_os_is_single_threaded() && word <= MI_REMOTE_BITS) {
    mi_atomic_store_relaxed(&page->thread_free, (word | bits) & ~MI_REMOTE_OWNED);
    return true;
  }
  do {
    if (word > MI_REMOTE_BITS || (word & MI_REMOTE_POOLED) != pooled) return false;
    // Publishes all fields of the page; pairs with the acquire of the next claim, in
    // `mi_remote_push` or `mi_remote_claim_popped`.
  } while (
      !mi_atomic_cas_weak_release(&page->thread_free, &word, (word | bits) & ~MI_REMOTE_OWNED));
  return true;
}

MI_INTERNAL bool mi_remote_claim_popped(mi_page_t* page) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  while (true) {
    mi_assert_page(page, (word & MI_REMOTE_POOLED) != 0);
    const uintptr_t desired = (word & ~MI_REMOTE_POOLED) | MI_REMOTE_OWNED;
    // Sees all fields when this claims the page; pairs with the release in `mi_remote_release`.
    if (mi_atomic_cas_weak_acq_rel(&page->thread_free, &word, desired)) {
      return (word & MI_REMOTE_OWNED) == 0;
    }
  }
}

// A block that is the newest of a list is free already.
MI_INTERNAL bool mi_remote_is_sane(const mi_page_t* page, mi_block_t* block,
                                   const mi_block_t* newest) {
  if (mi_unlikely(block == newest)) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, (mi_page_t*)(uintptr_t)page, block, NULL);
    return false;
  }
  return true;
}

MI_INTERNAL mi_remote_push_t mi_remote_push(mi_page_t* page, mi_block_t* first, mi_block_t* last) {
  uintptr_t word = mi_atomic_load_relaxed(&page->thread_free);
  if ((word & MI_REMOTE_OWNED) == 0 && mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(&page->thread_free, word | MI_REMOTE_OWNED);
    return MI_PUSH_CLAIMED;
  }
  while (true) {
    if ((word & MI_REMOTE_OWNED) == 0) {
      // Sees all fields of the page; pairs with the release in `mi_remote_release`.
      if (mi_atomic_cas_weak_acquire(&page->thread_free, &word, word | MI_REMOTE_OWNED)) {
        return MI_PUSH_CLAIMED;
      }
    } else {
      mi_block_t* const newest = (mi_block_t*)(word & ~MI_REMOTE_BITS);
      if (!mi_remote_is_sane(page, first, newest)) return MI_PUSH_REFUSED;
      mi_block_set_next(last, newest);
      const uintptr_t desired = (uintptr_t)first | (word & MI_REMOTE_BITS);
      if (mi_os_is_single_threaded()) {
        mi_atomic_store_relaxed(&page->thread_free, desired);
        return MI_PUSH_DONE;
      }
      // Publishes all links of the chain; pairs with the acquire in `mi_remote_take`.
      if (mi_atomic_cas_weak_release(&page->thread_free, &word, desired)) return MI_PUSH_DONE;
    }
  }
}
