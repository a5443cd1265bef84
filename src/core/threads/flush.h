// SPDX-License-Identifier: MIT
// flush.h - a theap gives pages up.
#ifndef MI_CORE_FLUSH_H
#define MI_CORE_FLUSH_H

#include "theap.h"

// A page in the queue or among the guests has no block in use any more.
MI_INTERNAL void mi_flush_emptied(mi_theap_t* theap, mi_page_t* page);

// Collect what others freed, and release pages without blocks in use, but the ones that malloc
// uses.
MI_INTERNAL void mi_flush_idle(mi_theap_t* theap);

// Give up pages without a block in use that malloc still allocates from, in classes of several
// slices, until they hold no more than `limit` bytes. They keep a malloc and free pair from making
// pages; too many of them hold memory that other sizes could use. The class `busy` is left alone;
// MI_CLASS_COUNT for none.
MI_INTERNAL void mi_flush_trim(mi_theap_t* theap, size_t limit, size_t busy);

// Give up the pages of one class.
MI_INTERNAL void mi_flush_class(mi_theap_t* theap, size_t size_class);

// Give up everything: lists go back into their pages, empty pages to the arenas, others to the
// pools.
MI_INTERNAL void mi_flush_theap(mi_theap_t* theap);

// Stop allocating from the current page of a class: its list goes back into it. The page is in no
// place then.
MI_INTERNAL mi_page_t* mi_flush_detach(mi_theap_t* theap, size_t size_class);

#endif
