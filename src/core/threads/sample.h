// SPDX-License-Identifier: MIT
// sample.h - samples one allocation every so many bytes, at no cost on the fast path.
#ifndef MI_CORE_SAMPLE_H
#define MI_CORE_SAMPLE_H

#include "theap.h"

// After a list of blocks of the class was put into `theap->free`: draw the distance to the next
// sample, and cut the list before it.
MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class);

// After the list became empty at a cut: make the blocks that were set aside the list again; its
// first block is the sample. False if there was no cut.
MI_INTERNAL bool mi_sample_take(mi_theap_t* theap, size_t size_class);

// Put the blocks that were set aside back behind the list (the page stops being current).
MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class);

// Turn sampling on, with a mean of `interval` bytes between samples, or off (0), for this theap.
MI_INTERNAL void mi_sample_set_interval(mi_theap_t* theap, size_t interval);

#endif
