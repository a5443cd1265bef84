// SPDX-License-Identifier: MIT
// life.h - the life of a page: every change of whose it is, and of where its owner keeps it. The
// picture and the rules are in life.c.
//
// Functions that take a theap are called by its thread, which owns the page; those of an orphan by
// who holds the thread lock (THREAD-2).
#ifndef MI_CORE_LIFE_H
#define MI_CORE_LIFE_H

#include "remote.h"

// -- descriptors --

// Set up the descriptors of a run; what the page will be is for the caller to write. Of a page with
// one block `interior_count` may be less than its slices.
MI_INTERNAL mi_page_t* mi_life_describe(uint8_t* start, size_t slice_count, size_t interior_count);

// The descriptors are nobody's again.
MI_INTERNAL void mi_life_undescribe(mi_page_t* page, size_t interior_count);

// -- whose the page is --

// A page of one large block: nobody's, for all its life.
MI_INTERNAL void mi_life_be_single(mi_page_t* page);

// A page of blocks that was just described: it has an owner, which the caller becomes
// (mi_life_own).
MI_INTERNAL void mi_life_open(mi_page_t* page);

// The owner gives an empty page up for good: its word is that of no page.
MI_INTERNAL void mi_life_close(mi_page_t* page);

// The thread of the theap owns the page: it made it, or claimed it.
MI_INTERNAL void mi_life_own(mi_theap_t* theap, mi_page_t* page);

// Owner of a page without a free block: give it up, still known as this thread's. False: blocks
// arrived, it is not full.
MI_INTERNAL bool mi_life_park(mi_page_t* page, uintptr_t thread_id);

// Give it up, to whoever comes first; `bits` are added to its word. False: still owned, see
// mi_remote_release.
MI_INTERNAL bool mi_life_share(mi_page_t* page, uintptr_t pooled, uintptr_t bits);

// Some block of the page, which the thread with this id owns, is handed out at an address inside
// it.
MI_INTERNAL void mi_life_note_interior(mi_page_t* page, uintptr_t thread_id);

// All pages that the theap has are owned under `owner` now (hand over to another thread).
MI_INTERNAL void mi_life_set_owner(mi_theap_t* theap, uintptr_t owner);

// -- where the owner keeps it --

// Allocate from the page, which is in no place.
MI_INTERNAL void mi_life_make_current(mi_theap_t* theap, mi_page_t* page);

// Stop allocating from the current page of a class, whose list in the theap is empty. It is in no
// place then. NULL: there is none.
MI_INTERNAL mi_page_t* mi_life_leave_current(mi_theap_t* theap, size_t size_class);

// The page waits in the queue of its class, at the end / does not wait any more.
MI_INTERNAL void mi_life_enqueue(mi_theap_t* theap, mi_page_t* page);
MI_INTERNAL void mi_life_dequeue(mi_theap_t* theap, mi_page_t* page);

// The page is a guest. Returns the one that had to go for it and is in no place now, or NULL.
MI_INTERNAL mi_page_t* mi_life_add_guest(mi_theap_t* theap, mi_page_t* page);

// A guest is one no more. False: it was none of them.
MI_INTERNAL bool mi_life_remove_guest(mi_theap_t* theap, mi_page_t* page);

// The page is in no place, whatever its descriptor says: its theap does not exist any more, or
// forgets it.
MI_INTERNAL void mi_life_displace(mi_page_t* page);

// The theap has no pages: they are gone already.
MI_INTERNAL void mi_life_forget_all(mi_theap_t* theap);

// -- LIFE-1 --

// `free_count` blocks are in `local_free`: what else was carved counts as used.
MI_INTERNAL void mi_life_recount(mi_page_t* page, uint32_t free_count);

#endif
