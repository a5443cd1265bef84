// SPDX-License-Identifier: MIT
// threads.h - the layer of a thread's part of a heap.
//
//   theap.h            lists, queues and guests
//   crowd.h            whether so many threads run that they share pages
//   sample.h           samples by cutting lists
//   reclaim.h portion.h parcel.h   frees into pages of others
//   flush.h            giving pages up
//   thread.h           start, end, what a thread leaves behind
//   refill.h           filling the list of a class
//
// The layers above include this file and no other of this folder. It knows only the layers below:
// common, arenas, pages.
#ifndef MI_CORE_THREADS_H
#define MI_CORE_THREADS_H

#include "../pages/pages.h"
#include "theap.h"
#include "crowd.h"
#include "sample.h"
#include "reclaim.h"
#include "portion.h"
#include "parcel.h"
#include "flush.h"
#include "thread.h"
#include "refill.h"

#endif
