// SPDX-License-Identifier: MIT
// pages.h - the layer of blocks in pages, and the word that says who may touch a page.
//
//   block.h track.h    links of free blocks; what memory checkers are told
//   page.h list.h      make, carve and release a page; a walk along a list of its blocks
//   hole.h             the parts of a page that went back although it is in use
//   remote.h life.h    the word of a page: its owner, blocks that others freed; the life of a page
//   inside.h pool.h    the heap of a page that may be ending; pages that no thread owns
//   large.h            blocks with a page of their own
//
// The layers above include this file and no other of this folder. This layer uses only those below
// it: common, arenas.
#ifndef MI_CORE_PAGES_H
#define MI_CORE_PAGES_H

#include "../arenas/arenas.h"
#include "tags.h"
#include "block.h"
#include "remote.h"
#include "life.h"
#include "page.h"
#include "list.h"
#include "hole.h"
#include "track.h"
#include "inside.h"
#include "pool.h"
#include "large.h"
#include "guard.h"

#endif
