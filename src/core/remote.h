// SPDX-License-Identifier: MIT
// remote.h - who may touch a page, and frees by threads that may not. The protocol is in remote.c.
#ifndef MI_CORE_REMOTE_H
#define MI_CORE_REMOTE_H

#include "page.h"

// Free a block of a page that the calling thread does not own (or owned when it was parked).
MI_INTERNAL void mi_remote_free(mi_page_t* page, mi_block_t* block);

// The same for `count` blocks of one page, linked from `first` to `last`.
MI_INTERNAL void mi_remote_free_chain(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                      uint32_t count);

// Take all blocks that others pushed. Owner only. Their links are visible afterwards.
MI_INTERNAL mi_block_t* mi_remote_take(mi_page_t* page);

// Owner of a page without a free block: give it up, still known as this thread's. False: blocks
// arrived, it is not full.
MI_INTERNAL bool mi_remote_park(mi_page_t* page, uintptr_t thread_id);

// Become the owner of a page just popped from its pool. False: somebody else is; the page is not in
// the pool any more.
MI_INTERNAL bool mi_remote_claim_popped(mi_page_t* page);

// Owner, page in no queue: release it if it is empty, else give it up, through the pool when enough
// of it is free.
MI_INTERNAL void mi_remote_give_up(mi_page_t* page);

// Deliver what this thread has freed into a page of another and holds back.
MI_INTERNAL void mi_remote_flush(void);

// The same, and hold back nothing from now on: the thread ends.
MI_INTERNAL void mi_remote_end_parcels(void);

#endif
