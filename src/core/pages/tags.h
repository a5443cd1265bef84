// SPDX-License-Identifier: MIT
// tags.h - memory tags (base/tag.h), in a build for them (MI_MTE): each block has one, and so has
// its address as the program gets it. An access through an address with another tag is a fault. In
// any other build all of this is empty.
//
//   memory       6 6 6 | 3 3 3 | 12 12 12 | 0 0 0 0 ...   a page: three blocks, the rest not carved
//   address of   6..     3..     12..
//
// TAGS-1  memory has the tag 0, but for the carved blocks of a page. So no address of a block leads
//     to structures of ours, to memory behind the last block, or to what is in its place when its
//     page has ended.
// TAGS-2  blocks with an even index have even tags, not 0, all others have odd ones. So neighbours
//     differ, also while two threads change theirs at one moment.
// TAGS-3  free gives a block another tag of that kind, before the block enters a list; malloc hands
//     it out with the tag that it has. So an address that was freed fits neither the free block nor
//     the next owner's, and after that, or if the page was made anew, only by chance (one in 6).
// TAGS-4  addresses inside of the library have no tag. The address of a block gets one where the
//     program gets it, and loses it where the program returns it (track.h). The library accesses a
//     block as the tag of its memory demands (`mi_tags_access`).
// TAGS-5  blocks of MI_TAGS_BLOCK_MAX bytes and more have the tag 0: a tag must be written to each
//     granule, which takes time, and would make memory resident that the program never touches.
//     So have guarded blocks, and blocks in memory that has no tags: explicit huge pages, and what
//     the program brought along.
//
// Tags are lost when memory goes back to the system: only free slices and large blocks do, which
// have the tag 0 anyway.
//
// A tag is no atomic variable, and none is needed: who writes it has the block. If two threads free
// a block at one moment, both may find the tag right (a double free that is not noticed).
#ifndef MI_CORE_TAGS_H
#define MI_CORE_TAGS_H

#include "../../base/tag.h"
#include "../arenas/arenas.h"

#define MI_TAGS_BLOCK_MAX MI_SLICE_SIZE

#if MI_IS_TAGGED

static inline bool mi_tags_are_on(void) { return mi_state.os.has_tags; }

// Return the address by which the library can access a block, or NULL for NULL.
static mi_attr_inline void* mi_tags_access(const void* p) {
  return mi_likely(mi_tags_are_on()) && p != NULL ? mi_tag_read(p) : (void*)(uintptr_t)p;
}

// Return the address that the program gets for `p`, which may be NULL.
static mi_attr_inline void* mi_tags_give(void* p) { return mi_tags_access(p); }

// Take `*p` back from the program, and replace it by the address without a tag; the block gets
// another tag. False if it is no block in use, as far as the tag shows, which is reported.
MI_INTERNAL bool mi_tags_take(void** p);

// True if `given`, an address of the program in the page, has the tag of the memory there.
MI_INTERNAL bool mi_tags_fit(const mi_page_t* page, const void* given);

// Tag a block that is carved / all blocks of a page that ends.
MI_INTERNAL void mi_tags_carve(const mi_page_t* page, void* block);
MI_INTERNAL void mi_tags_clear(const mi_page_t* page);

#else

static mi_attr_inline void* mi_tags_access(const void* p) { return (void*)(uintptr_t)p; }

static mi_attr_inline void* mi_tags_give(void* p) { return p; }

static mi_attr_inline bool mi_tags_take(void** p) {
  *p = mi_cpu_address(*p);
  return true;
}

static inline bool mi_tags_fit(const mi_page_t* page, const void* given) {
  (void)page;
  (void)given;
  return true;
}

static mi_attr_inline void mi_tags_carve(const mi_page_t* page, void* block) {
  (void)page;
  (void)block;
}

static mi_attr_inline void mi_tags_clear(const mi_page_t* page) { (void)page; }

#endif
#endif
