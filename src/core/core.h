// SPDX-License-Identifier: MIT
// core.h - the core, for the layers above it: they include this file and no other of this folder.
//
//   front     functions that a program calls: malloc, free, realloc, aligned allocation
//   process   set-up, fork, starting threads, unloading
//   heaps     sets of pages that end together
//   threads   a thread's part of a heap
//   pages     blocks in pages, and the word that says who may touch a page
//   arenas    slices: which are free, who has them, and when their memory goes back
//   common    structures, page map, size classes, reports
//
// Each folder is a layer that knows only those below it, and has one header of its own name for
// those above. `mi_malloc`, `mi_zalloc`, `mi_calloc`, `mi_free` and `mi_usable_size` are defined in
// the core as well but declared in the public header. Each function that the API calls may be the
// first call of a process, on any thread.
#ifndef MI_CORE_CORE_H
#define MI_CORE_CORE_H

#include "front/front.h"

#endif
