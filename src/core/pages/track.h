// SPDX-License-Identifier: MIT
// track.h - the one place where a block passes to the program, and the one where it returns: what
// tools (base/tool.h) are told about it, and what the library itself checks in a padded build. (The
// links of free blocks: block.h.)
//
// In a build without MI_TRACK_ASAN, MI_TRACK_VALGRIND and MI_PADDING all of this is empty: no
// instruction, no byte; but for the canaries of a secure build (canary.h), and memory tags
// (tags.h). With one of them:
//
//   slot   | margin | block, as the program asked for it | slack | note |   open: the block only
//
// TRACK-1  memory of arenas and pages is closed except for blocks in use.
// TRACK-2  each carved slot has a note at its end, which tells whether its block is in use, where
//     it starts, and its size; of a free block, where the last one was. The note is written by the
//     thread that hands the block out, and by the one that takes it back. The margin is 16 bytes,
//     or the alignment if that is larger and below a slice: none of our structures points to the
//     block itself, or leaks would not be found.
// TRACK-3  the usable size of a block is the size that was asked for.
// TRACK-4  the library touches closed memory only in functions with mi_attr_unwatched, or opens it
//     before.
//
// A padded build has no tool that sees the access, so it sees the trace:
//
// TRACK-5  the last 16 bytes of the margin are the twin of the note; the rest of the margin, and
//     the slack, have a pattern (pad.h). They are checked when the block is freed or resized, and
//     in blocks in use when everything is collected, or their page goes.
// TRACK-6  a note is coded so that hardly any change of it makes a note that can be: what is in it
//     is known to be damaged, or true (note.h).
// TRACK-7  a freed block up to MI_PAD_CONTENTS_MAX has a pattern, which is checked when its slot is
//     used again (not for a zeroed block, because that is zero by then), when everything is
//     collected, and when its page goes. The link of a free slot lies in the margin, if there is
//     one.
// TRACK-8  a look at all blocks is taken only while no other thread of the process has a home, so
//     that no other one allocates. Those without a home may free blocks meanwhile: such a free
//     changes the note before anything around the block, and no other note comes there before the
//     thread that looks allocates. So what is found is told only if the note is then what it was
//     before, the page is still there, and no thread got a home.
//
// track.c calls small inline functions of page.h, and page.c tells track.c what it carves and
// drops: the only files of the core that call each other (tidy: allow circle (questions are inline,
// and have no state)).
#ifndef MI_CORE_TRACK_H
#define MI_CORE_TRACK_H

#include "canary.h"

// The alignment that every block has, in bytes.
#define MI_TRACK_ALIGNMENT ((size_t)16)

// A look at all blocks: TRACK-8.
typedef struct mi_track_look_s mi_track_look_t;
struct mi_track_look_s {
  // Return whether no thread got a home since the look began. Orders what was read before behind
  // what such a thread writes.
  bool (*is_alone)(const mi_track_look_t* look);
  int64_t threads_total; // that had one when it began
};

#if MI_IS_TRACKED

// Return the size to ask the core for, so that margin and note fit in, too.
MI_INTERNAL size_t mi_track_room(size_t size, size_t alignment);

// Return the address that the program gets for `p`, the result of such a request; NULL for NULL.
MI_INTERNAL void* mi_track_give(void* p, size_t size, size_t alignment, mi_fill_t fill);

// Take `*p` back from the program, and replace it by the address that the core returned, without
// bits that the processor ignores. False if it is no block in use, which is reported.
MI_INTERNAL bool mi_track_take(void** p);

// Change the size of a block in place to `size` bytes. Returns the block.
MI_INTERNAL void* mi_track_resize(void* p, size_t old_size, size_t size);

// True if the block that `p`, an address in the page, lies in starts there, or if what is known of
// it is damaged; without tracking always.
MI_INTERNAL bool mi_track_is_block(const mi_page_t* page, const void* p);

// Return the bytes that the program may use from `p` on, if a block lies there; without tracking
// `usable`.
MI_INTERNAL size_t mi_track_usable(const void* p, size_t usable);

// Return the bytes that a block could have without moving, of whose slot `usable` are in use;
// without tracking `usable`.
static inline size_t mi_track_most(const void* p, size_t usable) {
  (void)p;
  return usable; // what is behind them was never opened
}

// Return the block in a slot in use.
MI_INTERNAL void* mi_track_block(void* slot, size_t slot_size);

// Note that a slot of the page was carved.
MI_INTERNAL void mi_track_carve(const mi_page_t* page, void* slot);

// Note that the page is about to go, with the blocks still in use.
MI_INTERNAL void mi_track_drop(mi_page_t* page);

// Look for writes outside of the blocks of the page that are in use, and into those that are free:
// TRACK-8.
MI_INTERNAL void mi_track_check(mi_page_t* page, const mi_track_look_t* look);

#else

static mi_attr_inline size_t mi_track_room(size_t size, size_t alignment) {
  (void)alignment;
#if MI_HAS_CANARY
  return mi_canary_room(size, alignment);
#else
  return size;
#endif
}

static mi_attr_inline void* mi_track_give(void* p, size_t size, size_t alignment, mi_fill_t fill) {
  (void)size;
  (void)alignment;
  (void)fill;
#if MI_HAS_CANARY
  return mi_likely(p != NULL) ? mi_canary_set(p, size) : NULL;
#else
  return mi_tags_give(p);
#endif
}

static mi_attr_inline bool mi_track_take(void** p) { return mi_tags_take(p); }

static mi_attr_inline void* mi_track_resize(void* p, size_t old_size, size_t size) {
  (void)old_size;
  (void)size;
#if MI_HAS_CANARY
  return mi_canary_reset(p, size);
#else
  return mi_tags_give(p);
#endif
}

static mi_attr_inline bool mi_track_is_block(const mi_page_t* page, const void* p) {
  (void)page;
  (void)p;
  return true;
}

static mi_attr_inline size_t mi_track_usable(const void* p, size_t usable) {
  (void)p;
#if MI_HAS_CANARY
  (void)usable;
  return mi_canary_usable(p);
#else
  return usable;
#endif
}

static inline size_t mi_track_most(const void* p, size_t usable) {
  (void)p;
#if MI_HAS_CANARY
  (void)usable;
  return mi_canary_most(p);
#else
  return usable;
#endif
}

static mi_attr_inline void* mi_track_block(void* slot, size_t slot_size) {
  (void)slot_size;
  return mi_tags_give(slot);
}

static mi_attr_inline void mi_track_carve(const mi_page_t* page, void* slot) {
  mi_tags_carve(page, slot);
}

static mi_attr_inline void mi_track_drop(mi_page_t* page) { mi_tags_clear(page); }

static mi_attr_inline void mi_track_check(mi_page_t* page, const mi_track_look_t* look) {
  (void)page, (void)look;
}

#endif
#endif
