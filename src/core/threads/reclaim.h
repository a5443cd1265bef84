// SPDX-License-Identifier: MIT
// reclaim.h - free into a page that no thread, or another thread, owns.
#ifndef MI_CORE_RECLAIM_H
#define MI_CORE_RECLAIM_H

#include "../pages/pages.h"

// Free `count` blocks of one page that the calling thread does not own (or owned when it was
// parked), linked from `first` to `last`.
MI_INTERNAL void mi_reclaim_chain(mi_page_t* page, mi_block_t* first, mi_block_t* last,
                                  uint32_t count);

#endif
