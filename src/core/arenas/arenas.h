// SPDX-License-Identifier: MIT
// arenas.h - the layer of slices: which are free, who has them, and when their memory goes back.
//
//   bitmap.h           bits that many threads claim
//   fit.h              where so many slices are free
//   arena.h numa.h     ranges of slices, which of them are free, growth; NUMA nodes
//   ended.h            what is left of arenas whose sub-process has ended
//   move.h             memory that changes its addresses
//   wait.h spare.h     free memory that has not gone back; the run that was freed last
//   budget.h           how much memory may be in use, and what that changes
//   purge.h retain.h   how free memory goes back to the system; when, and how much
//   tail.h             memory behind the blocks of pages in use
//   huge.h collapse.h  memory that is faulted in ahead; old memory that becomes one huge page
//   slices.h           claim and release, with all of the above
//   reserve.h          arenas that the program asks for
//   book.h run.h       which pages there are; slices for a page
//
// The layers above include this file and no other of this folder. This layer uses only the one
// below it: common.
#ifndef MI_CORE_ARENAS_H
#define MI_CORE_ARENAS_H

#include "../common/common.h"
#include "bitmap.h"
#include "fit.h"
#include "numa.h"
#include "arena.h"
#include "ended.h"
#include "charge.h"
#include "move.h"
#include "wait.h"
#include "spare.h"
#include "kept.h"
#include "purge.h"
#include "budget.h"
#include "retain.h"
#include "huge.h"
#include "collapse.h"
#include "tail.h"
#include "slices.h"
#include "reserve.h"
#include "book.h"
#include "run.h"

#endif
