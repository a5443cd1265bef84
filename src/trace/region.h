// SPDX-License-Identifier: MIT
// region.h - see region.c.
#ifndef MI_TRACE_REGION_H
#define MI_TRACE_REGION_H

#include "../base/compiler.h"

// Some memory, zeroed. An all-zero structure is an empty one.
typedef struct mi_region_s {
  void* start;
  size_t bytes; // that are mapped
} mi_region_t;

// Make it at least so large: what is new is zeroed, what there is may move. Ends the program if
// there is no memory.
void mi_region_grow(mi_region_t* region, uint64_t bytes);
// Give back what is behind the first `bytes`, all if that is 0.
void mi_region_trim(mi_region_t* region, size_t bytes);

#endif
