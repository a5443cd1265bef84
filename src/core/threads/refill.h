// SPDX-License-Identifier: MIT
// refill.h - the list of a class is empty: fill it.
#ifndef MI_CORE_REFILL_H
#define MI_CORE_REFILL_H

#include "theap.h"

// A block of the class, from a list that was filled if it was empty. NULL: no memory without giving
// up what is unused.
MI_INTERNAL mi_block_t* mi_refill_block(mi_theap_t* theap, size_t size_class);

// A fresh page of the class, owned by this thread and in no place. NULL: no memory.
MI_INTERNAL mi_page_t* mi_refill_make_page(mi_theap_t* theap, size_t size_class);

// Rare things that must happen now and then: every slow allocation, of blocks of `size_class` (or
// MI_CLASS_COUNT, larger ones), comes here.
MI_INTERNAL void mi_refill_cadence(mi_theap_t* theap, size_t size_class);

#endif
