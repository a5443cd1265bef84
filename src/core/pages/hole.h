// SPDX-License-Identifier: MIT
// hole.h - holes: OS pages inside a page in use that hold only free blocks, and went back.
#ifndef MI_CORE_HOLE_H
#define MI_CORE_HOLE_H

#include "page.h"

// Give back the parts of the page that hold only free blocks, as its owner; the page is in a queue,
// or in no place. Returns the bytes that went. Does nothing while another thread purges, or if an
// option keeps memory. Afterwards the caller corrects the bias (mi_life_rearm).
MI_INTERNAL size_t mi_hole_make(mi_subproc_t* subproc, mi_page_t* page);

// Fill some holes of a page that the calling thread owns. Returns the number of blocks that do not
// touch a hole any more, which lie side by side from index `*index` on: they are in no list, and
// count as used. 0 if the page has no hole.
MI_INTERNAL uint32_t mi_hole_fill(mi_subproc_t* subproc, mi_page_t* page, size_t* index);

#endif
