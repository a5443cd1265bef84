// SPDX-License-Identifier: MIT
// sample.h - every so many bytes one allocation is a sample, at no cost on the fast path.
#ifndef MI_CORE_SAMPLE_H
#define MI_CORE_SAMPLE_H

#include "theap.h"

// A list of blocks of the class was just put into `theap->free`: draw, and cut it before the next
// sample.
MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class);

// The list ran dry at a cut: the blocks that were set aside are the list again, and its first block
// is the sample. False when there was no cut.
MI_INTERNAL bool mi_sample_take(mi_theap_t* theap, size_t size_class);

// Put the blocks that were set aside back behind the list (the page stops being current).
MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class);

// Turn sampling on, with a mean of `interval` bytes between samples, or off (0), for this theap.
MI_INTERNAL void mi_sample_set_interval(mi_theap_t* theap, size_t interval);

#endif
