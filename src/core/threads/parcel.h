// SPDX-License-Identifier: MIT
// parcel.h - free into a page that the calling thread does not own.
#ifndef MI_CORE_PARCEL_H
#define MI_CORE_PARCEL_H

#include "../pages/pages.h"

// Free a block of a page that the calling thread does not own (or owned when it was parked).
MI_INTERNAL void mi_parcel_free(mi_page_t* page, mi_block_t* block);

// Deliver the blocks that this thread has freed into a page of another thread and still holds back.
MI_INTERNAL void mi_parcel_flush(void);

// The same at the end of the thread: it holds back nothing from now on.
MI_INTERNAL void mi_parcel_end(void);

#endif
