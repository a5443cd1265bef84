// SPDX-License-Identifier: MIT
// heaps.h - the layer of sets of pages that end together.
//
//   heap.h subproc.h   heaps and sub-processes: life and end
//   walk.h usage.h     all pages; what is in use
//   collect.h          everything that is unused goes back
//
// The layers above include this file and no other of this folder. It knows only the layers below:
// common, arenas, pages, threads.
#ifndef MI_CORE_HEAPS_H
#define MI_CORE_HEAPS_H

#include "../threads/threads.h"
#include "heap.h"
#include "subproc.h"
#include "walk.h"
#include "usage.h"
#include "collect.h"

#endif
