// SPDX-License-Identifier: MIT
// threads.h - the layer of theaps, the parts of heaps that threads own.
//
//   theap.h            lists, queues and guests
//   crowd.h            if so many threads run that they share pages
//   sample.h           samples by cutting lists
//   reclaim.h portion.h parcel.h   frees into pages of other threads, or into full ones
//   split.h            which class serves a size
//   flush.h            giving pages up
//   hold.h asleep.h    queues of a thread, which the purge thread takes over while it sleeps
//   thread.h           start, end, what a thread leaves behind
//   refill.h           filling the list of a class
//
// The layers above include this file and no other of this folder. This layer uses only those below
// it: common, arenas, pages.
#ifndef MI_CORE_THREADS_H
#define MI_CORE_THREADS_H

#include "../pages/pages.h"
#include "theap.h"
#include "crowd.h"
#include "sample.h"
#include "reclaim.h"
#include "portion.h"
#include "parcel.h"
#include "split.h"
#include "flush.h"
#include "hold.h"
#include "asleep.h"
#include "quarantine.h"
#include "thread.h"
#include "refill.h"

#endif
