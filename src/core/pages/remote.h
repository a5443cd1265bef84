// SPDX-License-Identifier: MIT
// remote.h - who may touch a page: the word that decides it. The protocol is in remote.c.
#ifndef MI_CORE_REMOTE_H
#define MI_CORE_REMOTE_H

#include "block.h"

// The result of freeing blocks into a page that the calling thread does not own (or owned until it
// parked the page).
typedef enum mi_remote_push_e {
  MI_PUSH_DONE, // the owner will take them
  MI_PUSH_CLAIMED, // no thread owned the page: now the caller does, and still has the blocks
  MI_PUSH_REFUSED, // the first block was free already: reported, and all blocks stay in use
} mi_remote_push_t;

// Push the blocks of the page that are linked from `first` to `last`, or claim the page.
MI_INTERNAL mi_remote_push_t mi_remote_push(mi_page_t* page, mi_block_t* first, mi_block_t* last);

// True unless a block that is being freed is free already, as the `newest` of a list, which is then
// reported.
MI_INTERNAL bool mi_remote_is_sane(const mi_page_t* page, mi_block_t* block,
                                   const mi_block_t* newest);

// Take all blocks that other threads pushed. Owner only. The links are visible afterwards.
MI_INTERNAL mi_block_t* mi_remote_take(mi_page_t* page);

// Clear OWNED, and add `bits`. False, and the page is still owned, if the list is not empty, or if
// POOLED is not as the caller saw it (`pooled`): the page left the stack, and no thread would find
// it.
MI_INTERNAL bool mi_remote_release(mi_page_t* page, uintptr_t pooled, uintptr_t bits);

// Become the owner of a page just popped from its pool. False if another thread owns it; the page
// is not in the pool any more in either case.
MI_INTERNAL bool mi_remote_claim_popped(mi_page_t* page);

#endif
