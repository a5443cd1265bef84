// SPDX-License-Identifier: MIT
// remote.h - who may touch a page: the word that decides it. The protocol is in remote.c.
#ifndef MI_CORE_REMOTE_H
#define MI_CORE_REMOTE_H

#include "block.h"

// What became of blocks that the calling thread frees into a page that it does not own (or owned
// when it was parked).
typedef enum mi_remote_push_e {
  MI_PUSH_DONE, // the owner will take them
  MI_PUSH_CLAIMED, // nobody owned the page: now the caller does, and still has the blocks
  MI_PUSH_REFUSED, // the first of them was free already: reported, and all of them stay in use
} mi_remote_push_t;

// Push the blocks of the page that are linked from `first` to `last`, or claim the page.
MI_INTERNAL mi_remote_push_t mi_remote_push(mi_page_t* page, mi_block_t* first, mi_block_t* last);

// Whether a block that is freed is not free already: the newest of a list. Reported.
MI_INTERNAL bool mi_remote_is_sane(const mi_page_t* page, mi_block_t* block,
                                   const mi_block_t* newest);

// Take all blocks that others pushed. Owner only. Their links are visible afterwards.
MI_INTERNAL mi_block_t* mi_remote_take(mi_page_t* page);

// Clear OWNED, adding `bits`. False, and still owned, when the list is not empty, or when POOLED is
// not what the caller saw: the page left the stack, and nobody would look at it again.
MI_INTERNAL bool mi_remote_release(mi_page_t* page, uintptr_t pooled, uintptr_t bits);

// Become the owner of a page just popped from its pool. False: somebody else is; the page is not in
// the pool any more.
MI_INTERNAL bool mi_remote_claim_popped(mi_page_t* page);

#endif
