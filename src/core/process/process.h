// SPDX-License-Identifier: MIT
// process.h - the layer of set-up, fork, starting threads, unloading.
//
//   init.h fork.h      set-up, once; the child of a fork
//   enter.h            what a thread gets when it first needs it
//   purger.h           the purge thread
//   idle.h             a thread that is going to wait
//   unload.h           the end of all memory
//
// The layers above include this file and no other of this folder. This layer uses only those below
// it: common, arenas, pages, threads, heaps.
#ifndef MI_CORE_PROCESS_H
#define MI_CORE_PROCESS_H

#include "../heaps/heaps.h"
#include "fork.h"
#include "init.h"
#include "enter.h"
#include "purger.h"
#include "idle.h"
#include "unload.h"

#endif
