// SPDX-License-Identifier: MIT
// mark.h - what is at an address, told out of line: a block in use, a free one, or no block. Only
// in a secure build (MI_SECURE); in any other all of this is empty.
//
//   memory   | 16 bytes | 16 bytes | 16 bytes | ...        a block of 48 bytes
//                 |          |          |
//   marks      [ mark ]    [ 0 ]      [ 0 ]                a table, elsewhere
//
// The mark of any address is found by a shift and one load, without the descriptor of its page. (A
// table is for 128 MiB, so that a small program maps one of 8 MiB.) Blocks are at least 16 bytes
// apart, so that each has a mark of its own:
//
//   0                no block starts here
//   c + 1            a free block of class c
//   c + 1 + USED     such a block in use
//   SINGLE           a block with a page of its own, in use
//   ENDED            here was a block, of a page that has ended
//   PLAIN            no block starts here, but 16 bytes before, and it has no canary (canary.h);
//                    the mark behind the last one of a table is in that table, too
//
// MARK-1  the mark of a block says "in use" exactly while the program has the block: malloc writes
//     that when the block leaves a list of free blocks, free writes "free" before the block enters
//     one. (In a build with notes the program has an address inside that block: track.h.)
// MARK-2  malloc takes only a free block, and a link of a free list is followed only to a free
//     block of the same class. So no link that a program forges leads out of our pages, to a block
//     in use, or into the middle of a block.
// MARK-3  when a page ends, the marks of its blocks become ENDED, so that no link leads there, and
//     a block that is freed twice is known as such. When a page of blocks is made, its marks are
//     cleared, unless they went back with the memory: of those some may be left that say ENDED,
//     where a large block was moved away.
// MARK-4  a page is not released while one of its blocks is in use, whatever its count says.
//
// A mark is written by the thread that holds the block: the one that carves it, takes it from a
// list, or frees it. In a program with several threads free exchanges the mark: if two threads free
// a block at one moment, one of them finds that it is free.
//
// A table is a range of addresses, which costs nothing where no page was made. Marks take a
// sixteenth of the memory of pages, and go back to the system when that memory does.
//
// mark.c reports mistakes, and a report tells what a mark says (tidy: allow circle (questions are
// inline, and have no state)).
#ifndef MI_CORE_MARK_H
#define MI_CORE_MARK_H

#include "secret.h"
#include "sizeclass.h"

#define MI_MARK_USED ((uint8_t)0x80)

#if MI_IS_SECURE

#define MI_MARK_SHIFT 4 // log2 of the bytes that share a mark
#define MI_MARK_WINDOW_SHIFT 27 // of those that share a table
#define MI_MARK_WINDOW_BITS (MI_MARK_WINDOW_SHIFT - MI_MARK_SHIFT) // log2 of the marks of a table
#define MI_MARK_WINDOW_COUNT ((size_t)1 << (MI_ADDRESS_BITS - MI_MARK_WINDOW_SHIFT))
#define MI_MARK_PLAIN ((uint8_t)0x7E)
#define MI_MARK_ENDED ((uint8_t)0x7F)
#define MI_MARK_SINGLE ((uint8_t)0xFF)
mi_static_assert(MI_CLASS_COUNT < 0x7E - 1, "each class has a mark");
mi_static_assert(MI_CLASS_FIRST > 0, "no block is shorter than what shares a mark");

// A mark, as told above.
//   write  who holds the block  store relaxed  mi_mark_carve, mi_mark_give, mi_mark_give_first
//   write  who holds the block  store relaxed  mi_mark_set_plain, mi_mark_clear_plain
//   write  who frees   CAS relaxed  mi_mark_take, mi_mark_take_single  (only one frees the block)
//   write  who frees   store relaxed  with one thread  mi_mark_take
//   write  maker or last owner of a page  store relaxed  mi_mark_begin_single, mi_mark_end
//   read   any    relaxed       the lists, and the program, order what the threads do
typedef mi_atomic(uint8_t) mi_mark_t;

typedef struct mi_marks_s {
  // base - where the marks of a window would begin if it were the first one; 0: it has no table.
  //   write  arena lock  store release  mi_mark_make_table
  //   write  alone       store relaxed  mi_mark_done
  //   read   any thread  relaxed  who holds one of our addresses got it after the write
  mi_atomic(uintptr_t) base[MI_MARK_WINDOW_COUNT];
} mi_marks_t;

MI_INTERNAL_DATA_DECL mi_marks_t mi_marks;

// Return the number of the mark of an address. An address between those that blocks of a class have
// gets a number beyond all tables: one test finds both.
static mi_attr_inline uintptr_t mi_mark_number(const void* p) {
  return ((uintptr_t)p >> MI_MARK_SHIFT) | ((uintptr_t)p << (64 - MI_MARK_SHIFT));
}

// Return what to add to the number of a mark for its address; 0 if there is none.
static mi_attr_inline uintptr_t mi_mark_base_of(uintptr_t number) {
  return mi_atomic_load_relaxed(&mi_marks.base[number >> MI_MARK_WINDOW_BITS]);
}

// Return the mark with a number; NULL if there is none.
static mi_attr_inline mi_mark_t* mi_mark_at(uintptr_t number) {
  if (mi_unlikely(number >> MI_MARK_WINDOW_BITS >= MI_MARK_WINDOW_COUNT)) return NULL;
  const uintptr_t base = mi_mark_base_of(number);
  if (mi_unlikely(base == 0)) return NULL;
  mi_mark_t* const mark = (mi_mark_t*)(base + number);
  mi_assume(mark != NULL);
  return mark;
}

// Return the mark of any address; NULL if there is none.
static mi_attr_inline mi_mark_t* mi_mark_find(const void* p) {
  return mi_mark_at((uintptr_t)p >> MI_MARK_SHIFT);
}

// Return the value of the mark of any address.
static mi_attr_inline uint8_t mi_mark_of(const void* p) {
  mi_mark_t* const mark = mi_mark_find(p);
  return mi_unlikely(mark == NULL) ? 0 : mi_atomic_load_relaxed(mark);
}

static mi_attr_inline bool mi_mark_is(mi_mark_t* mark, uint8_t value) {
  return mi_atomic_load_relaxed(mark) == value;
}

static inline bool mi_mark_is_used(const void* p) { return (mi_mark_of(p) & MI_MARK_USED) != 0; }

static mi_attr_inline bool mi_mark_is_aligned(const void* p) {
  return ((uintptr_t)p & (((uintptr_t)1 << MI_MARK_SHIFT) - 1)) == 0;
}

// Return the mark of a free block of a class.
static mi_attr_inline uint8_t mi_mark_free_of(size_t size_class) {
  return (uint8_t)(size_class + 1);
}

// Mark a block that is carved.
static inline void mi_mark_carve(const void* block, size_t size_class) {
  mi_atomic_store_relaxed(mi_mark_find(block), mi_mark_free_of(size_class));
}

// Hand a block out. False, and nothing happened, if it is no free block of the class.
static mi_attr_inline bool mi_mark_give(const void* block, size_t size_class) {
  mi_mark_t* const mark = mi_mark_find(block);
  if (mi_unlikely(mark == NULL)) return false;
  const uint8_t value = mi_mark_free_of(size_class);
  if (mi_unlikely(mi_atomic_load_relaxed(mark) != value)) return false;
  mi_atomic_store_relaxed(mark, value | MI_MARK_USED);
  return true;
}

// The same in two steps, for the first block of a list, which has a mark: hand the block out, then
// ask whether its link may be followed (mi_mark_may_lead) and leads to the same window or nowhere.
// If not, all is to be as before.
static mi_attr_inline bool mi_mark_give_first(const void* block, size_t size_class) {
  const uintptr_t number = mi_mark_number(block);
  mi_mark_t* const mark = (mi_mark_t*)(mi_mark_base_of(number) + number);
  const uint8_t value = mi_mark_free_of(size_class);
  if (mi_unlikely(!mi_mark_is(mark, value))) return false;
  // Before the second step: so a link of the block to itself is wrong.
  mi_atomic_store_relaxed(mark, value | MI_MARK_USED);
  return true;
}

static mi_attr_inline bool mi_mark_leads_near(const void* block, size_t size_class,
                                              const void* next) {
  if (mi_unlikely(next == NULL)) return true;
  const uintptr_t number = mi_mark_number(block);
  const uintptr_t to = mi_mark_number(next);
  if (mi_unlikely((to ^ number) >> MI_MARK_WINDOW_BITS != 0)) return false;
  const uint8_t value = mi_mark_free_of(size_class);
  return mi_likely(mi_mark_is((mi_mark_t*)(mi_mark_base_of(number) + to), value));
}

// Return the size of a block of a class with the mark `value`.
static mi_attr_inline size_t mi_mark_size(uint32_t value) {
  return mi_class_sizes[(size_t)(value & ~(uint32_t)MI_MARK_USED) - 1];
}

// Take a block of a class back, whose mark this is. Returns what the mark was; 0, and nothing
// happened, if it is no such block in use.
static mi_attr_inline uint32_t mi_mark_take(mi_mark_t* mark) {
  const uint32_t was = mi_atomic_load_relaxed(mark);
  const uint32_t freed = was - MI_MARK_USED;
  if (mi_unlikely(freed >= MI_MARK_SINGLE - MI_MARK_USED)) return 0;
  if (mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(mark, (uint8_t)freed);
    return was;
  }
  uint8_t value = (uint8_t)was;
  return mi_likely(mi_atomic_cas_strong_relaxed(mark, &value, (uint8_t)freed)) ? was : 0;
}

// Take back what the function above does not: a block with a page of its own. False, with a report
// unless `p` is NULL, if there is none in use at `p`.
MI_INTERNAL bool mi_mark_take_single(void* p);

// True if a link in a list of free blocks with the mark `value` may lead to `next`: MARK-2.
static mi_attr_inline bool mi_mark_may_lead(uint8_t value, const void* next) {
  return next == NULL || (mi_mark_is_aligned(next) && mi_mark_of(next) == value);
}

// Note behind the mark of a block of 32 bytes or more that it has no canary.
static inline void mi_mark_set_plain(mi_mark_t* of) {
  mi_mark_t* const mark = of + 1;
  mi_atomic_store_relaxed(mark, MI_MARK_PLAIN);
}

static mi_attr_inline bool mi_mark_is_plain(mi_mark_t* of) {
  return mi_mark_is(of + 1, MI_MARK_PLAIN);
}

// Forget that, of a block of any size: what else is behind it stays.
static mi_attr_inline bool mi_mark_clear_plain(mi_mark_t* of) {
  if (mi_likely(!mi_mark_is_plain(of))) return false;
  mi_mark_t* const mark = of + 1;
  mi_atomic_store_relaxed(mark, 0);
  return true;
}

// Report a link that leads where it must not. Returns NULL.
MI_INTERNAL void* mi_mark_refuse_link(const void* block, const void* next);

// Report a block of a free list that is no free block.
MI_INTERNAL void mi_mark_refuse_block(const void* block);

// Prepare the marks of a page that is about to be made: MARK-3. `is_zero`: its memory was never
// used, or went back. False when out of memory.
MI_INTERNAL bool mi_mark_begin(const uint8_t* start, size_t size, bool is_zero);

// Fault the marks of some memory in with one call, because that memory was, too.
MI_INTERNAL void mi_mark_populate(const uint8_t* start, size_t size);

// Mark a block with a page of its own as in use. False when out of memory.
MI_INTERNAL bool mi_mark_begin_single(const uint8_t* block);

// Return how many blocks of the page are in use.
MI_INTERNAL uint32_t mi_mark_count(const mi_page_t* page);

// Mark all blocks of the page, or its only one, as ended: MARK-3.
MI_INTERNAL void mi_mark_end(const mi_page_t* page);

// Give the marks of free slices back to the system, with their memory.
MI_INTERNAL void mi_mark_purge(const uint8_t* start, size_t size);

// Unmap all tables.
MI_INTERNAL void mi_mark_done(void);

#else

#define MI_MARK_SINGLE ((uint8_t)0xFF)

typedef uint8_t mi_mark_t;

static mi_attr_inline uintptr_t mi_mark_number(const void* p) {
  (void)p;
  return 0;
}

static mi_attr_inline mi_mark_t* mi_mark_at(uintptr_t number) {
  (void)number;
  return NULL;
}

static mi_attr_inline uint32_t mi_mark_take(mi_mark_t* mark) {
  (void)mark;
  return 0;
}

static inline bool mi_mark_take_single(void* p) {
  (void)p;
  return false;
}

static mi_attr_inline bool mi_mark_give_first(const void* block, size_t size_class) {
  (void)block;
  (void)size_class;
  return true;
}

static mi_attr_inline bool mi_mark_leads_near(const void* block, size_t size_class,
                                              const void* next) {
  (void)block;
  (void)size_class;
  (void)next;
  return true;
}

static inline uint8_t mi_mark_of(const void* p) {
  (void)p;
  return 0;
}

static inline bool mi_mark_is_used(const void* p) {
  (void)p;
  return true;
}

static inline void mi_mark_carve(const void* block, size_t size_class) {
  (void)block;
  (void)size_class;
}

static mi_attr_inline uint8_t mi_mark_free_of(size_t size_class) {
  (void)size_class;
  return 0;
}

static mi_attr_inline bool mi_mark_give(const void* block, size_t size_class) {
  (void)block;
  (void)size_class;
  return true;
}

static mi_attr_inline bool mi_mark_may_lead(uint8_t value, const void* next) {
  (void)value;
  (void)next;
  return true;
}

static inline void* mi_mark_refuse_link(const void* block, const void* next) {
  (void)block;
  return (void*)(uintptr_t)next;
}

static inline void mi_mark_refuse_block(const void* block) { (void)block; }

static inline bool mi_mark_begin(const uint8_t* start, size_t size, bool is_zero) {
  (void)start;
  (void)size;
  (void)is_zero;
  return true;
}

static inline void mi_mark_populate(const uint8_t* start, size_t size) {
  (void)start;
  (void)size;
}

static inline bool mi_mark_begin_single(const uint8_t* block) {
  (void)block;
  return true;
}

static inline uint32_t mi_mark_count(const mi_page_t* page) {
  (void)page;
  return 0;
}

static inline void mi_mark_end(const mi_page_t* page) { (void)page; }

static inline void mi_mark_purge(const uint8_t* start, size_t size) {
  (void)start;
  (void)size;
}

static inline void mi_mark_done(void) {}

#endif
#endif
