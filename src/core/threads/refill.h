// SPDX-License-Identifier: MIT
// refill.h - fill the empty list of a class.
#ifndef MI_CORE_REFILL_H
#define MI_CORE_REFILL_H

#include "theap.h"

// Pages with nothing but untouched memory that a refill looks at: REFILL-2.
#define MI_REFILL_LOOKS ((size_t)4)

// Return a block of the class, from the list, which is filled if it is empty. NULL if there is no
// memory unless unused memory is given up.
MI_INTERNAL mi_block_t* mi_refill_block(mi_theap_t* theap, size_t size_class);

// The same for a class above MI_PORTION_OWN_SIZE_MAX, if there is nothing to do but to put the
// first page of the queue in the place of the current one. NULL, and nothing happened, if there is
// more. The thread holds its home, and the cadence may wait (mi_refill_may_wait).
MI_INTERNAL mi_block_t* mi_refill_turn(mi_theap_t* theap, size_t size_class);

// Make a fresh page of the class, owned by this thread and in no place. NULL if there is no memory.
MI_INTERNAL mi_page_t* mi_refill_make_page(mi_theap_t* theap, size_t size_class);

// True if the cadence may wait for later refills of blocks above MI_PORTION_OWN_SIZE_MAX. In a
// small heap it comes with each: what waits to go back is a larger part of that (recorded python
// would peak at 1.03).
static inline bool mi_refill_may_wait(const mi_theap_t* theap) {
  return theap->quick_left > 1 && theap->trim_left >= 0 && !mi_theap_is_in_small_heap(theap);
}

// Do the rare things that must happen now and then. Slow allocations call this, with the class of
// their block (MI_CLASS_COUNT for larger blocks), unless it may wait.
MI_INTERNAL void mi_refill_cadence(mi_theap_t* theap, size_t size_class);

#endif
