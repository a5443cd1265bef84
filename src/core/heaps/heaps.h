// SPDX-License-Identifier: MIT
// heaps.h - the layer of sets of pages that end together.
//
//   heap.h subproc.h   heaps and sub-processes: life and end
//   walk.h usage.h     all pages; what is in use
//   account.h          where the memory of the process is
//   collect.h          all unused memory goes back
//
// The layers above include this file and no other of this folder. This layer uses only those below
// it: common, arenas, pages, threads.
#ifndef MI_CORE_HEAPS_H
#define MI_CORE_HEAPS_H

#include "../threads/threads.h"
#include "heap.h"
#include "subproc.h"
#include "walk.h"
#include "usage.h"
#include "account.h"
#include "collect.h"

#endif
