// SPDX-License-Identifier: MIT
// types.h - every structure that more than one file of the core touches.
//
//   address --pagemap--> page descriptor (128 bytes, out of line, one per slice)
//   sub-process > heap > theap (one per thread and heap) > page > block
//   arena: slices, and bitmaps of those that are free, dirty, or wait for purge
//
// Rules that hold for all of them:
// TYPES-1  an all-zero structure is a valid empty one, except a theap (see `mi_theap_empty`).
// TYPES-2  descriptors, heaps, sub-processes and arenas are unmapped only when the library is
//     unloaded (unload.c), and their memory is only used again for the same kind: a stale pointer
//     reads a valid structure of that kind.
// TYPES-3  a field that several threads touch without a lock is atomic, and its comment says which
//     threads do, in which order, and why; or it is const; or threads other than its owner only
//     look at it, for reports (`mi_atomic_peek`).
// TYPES-4  a block in use holds nothing of ours; a free block holds one link in its first word.
#ifndef MI_CORE_TYPES_H
#define MI_CORE_TYPES_H

#include "../../base/atomic.h"
#include "../../base/random.h"
#include "../../base/tool.h"
#include "../../os/lock.h"
#include "../../os/os.h"
#include "../../os/probe.h"
#include "../../os/tls.h"

// Size classes: 8; 16 to 128 in steps of 16; then eight per doubling up to MI_CLASS_MAX.
#define MI_CLASS_COUNT (9 + 8 * ((size_t)MI_CLASS_MAX_LOG2 - 7))
// Those of sizes up to MI_SMALL_MAX.
#define MI_CLASS_SMALL_COUNT (9 + 8 * ((size_t)MI_SMALL_MAX_LOG2 - 7))

// A free block. Blocks in use have no header.
typedef struct mi_block_s {
  struct mi_block_s* next;
} mi_block_t;

// Says if memory must read as zero up to its usable size.
typedef enum mi_fill_e { MI_UNINITIALIZED, MI_ZERO } mi_fill_t;
typedef enum mi_effort_e { MI_GENTLE, MI_FORCE } mi_effort_t;

typedef struct mi_page_s mi_page_t;
typedef struct mi_theap_s mi_theap_t;
typedef struct mi_heap_s mi_heap_t;
typedef struct mi_arena_s mi_arena_t;
typedef struct mi_kept_s mi_kept_t; // state.h
typedef struct mi_subproc_s mi_subproc_t;
typedef struct mi_quarantine_s mi_quarantine_t;
typedef struct mi_guarded_s mi_guarded_t; // guarded.h
typedef struct mi_sampled_s mi_sampled_t; // sampled.h

// Values of the owner word that are not the id of a thread. Thread ids are multiples of 16
// (os/tls.h).
#define MI_OWNER_NONE ((uintptr_t)0) // no page here: NULL, foreign and stale addresses
#define MI_OWNER_INTERIOR ((uintptr_t)2) // a later slice of a page: go to `first`
#define MI_OWNER_SHARED ((uintptr_t)4) // a page without a thread: abandoned
#define MI_OWNER_SINGLE ((uintptr_t)6) // a page of one large block, never owned
#define MI_OWNER_MAX_SPECIAL ((uintptr_t)15)
// Flags on a thread id, so that the comparison in `free` fails.
#define MI_OWNER_PARKED                                                                            \
  ((uintptr_t)1) // was full when the thread last used it, or is lent by it; see remote.c
#define MI_OWNER_SLOW                                                                              \
  ((uintptr_t)8) // has blocks whose address is not the block's start, or samples
// Is changed only by who holds the home of the thread: the purge thread may take it over. hold.c
#define MI_OWNER_HELD ((uintptr_t)4)
#define MI_OWNER_FLAGS (MI_OWNER_PARKED | MI_OWNER_SLOW | MI_OWNER_HELD)

// True if a page with this owner word belongs to the thread.
static inline bool mi_owner_is(uintptr_t owner, uintptr_t thread_id) {
  return owner > MI_OWNER_MAX_SPECIAL && (owner & ~(MI_OWNER_SLOW | MI_OWNER_HELD)) == thread_id;
}

// Bits of `mi_page_t.thread_free`; the rest is the list (blocks are at least 8-byte aligned).
#define MI_REMOTE_OWNED ((uintptr_t)1) // a thread owns the page, or an orphan has it (thread.c)
#define MI_REMOTE_POOLED ((uintptr_t)2) // the page is linked into a pool of abandoned pages
#define MI_REMOTE_BITS ((uintptr_t)7)

// The place where its owner keeps a page; used by the owner only.
typedef enum mi_page_place_e {
  MI_PLACE_NONE = 0, // nowhere: full, or between two places
  MI_PLACE_CURRENT, // the page its class allocates from
  MI_PLACE_QUEUE, // waits in the queue of its class: it has free blocks
  MI_PLACE_GUEST, // the page of another theap, kept a while because this thread frees into it
} mi_page_place_t;

// One 8-byte word, written at once by a refill.
typedef struct mi_page_count_s {
  uint32_t used; // carved blocks that are not in `local_free`; +1 while MI_PLACE_CURRENT; less
      // `bias` while MI_PLACE_QUEUE
  uint32_t is_fresh_list; // the theap's list was carved from zero memory: zero except the links
} mi_page_count_t;

// What `count` becomes when a list is handed out.
typedef struct mi_page_refilled_s {
  uint32_t used; // capacity + 1. The capacity, the number of carved blocks, is stored only here.
  uint32_t handed; // blocks that were handed out, not yet settled: HANDED-1
} mi_page_refilled_t;

// The index of a page in a pool (pool.c), and a bit for each part of a page (part.h). Tiny pages
// are more, and have few parts.
#if MI_IS_TINY
typedef uint64_t mi_pool_link_t;
typedef uint16_t mi_part_mask_t;
#else
typedef uint32_t mi_pool_link_t;
typedef uint32_t mi_part_mask_t;
#endif

// Page descriptor. Non-atomic fields belong to the owner; those marked (const) do not change while
// the page lives, so a thread that holds a live block may read them.
struct mi_page_s {
  // -- cache line 0: what a free by the owner touches --
  // owner - the owner of this page: a thread id with MI_OWNER_ flags, or one of the special values.
  //   write  owner        relaxed  when it takes, parks or gives up the page: life.c
  //   write  who describes the slices, or hands a theap over  relaxed  life.c
  //   read   any thread   relaxed  "is it mine?": only this thread writes its own id, so equality
  //                                is never wrong; anything else is decided by `thread_free`.
  //   Lifetime: a live block keeps the page; a stale value costs a detour through remote.c.
  mi_atomic(uintptr_t) owner;
  union {
    mi_block_t* local_free; // blocks freed by the owner since the last refill
    mi_page_t* first; // of a later slice: the descriptor of the page (const)
    size_t shift; // of a single block: bytes from its start to the address handed out (const)
  };
  mi_page_count_t count;
  mi_page_refilled_t refilled;
  uint32_t reserved; // blocks that fit (const)
  uint8_t size_class; // (const) MI_CLASS_COUNT for a single block
  uint8_t place; // mi_page_place_t
  bool is_zero; // blocks past `capacity` read as zero
  // has_interior - a block was handed out at an address inside the block. Written by the owner;
  // read by any thread that frees such an address. Relaxed: that thread got the address after the
  // write.
  mi_atomic(bool) has_interior;
  uint32_t book_index; // its entry in the book, if the page is in one: book.h (const)
  bool has_fence; // where it is, or was: fence.h. Written by who has the run
  union {
    bool is_likely_full; // the class is busy: the page will be used up (const)
    uint8_t cut; // mi_page_cut_t, of a single block, by its holder
  };
  uint16_t bias; // what `count.used` is too low by: LIFE-1
  size_t block_size; // bytes (const, except for a single block resized in place by its holder)
  uint8_t* start; // first block (const)
  // -- cache line 1: what other threads and the slow path touch --
  // thread_free - blocks freed by other threads, and the MI_REMOTE_ bits, which say who may touch
  // the page: remote.c.
  //   write  any    CAS release   push blocks          mi_remote_push     (publishes the links)
  //   write  any    CAS acquire   set OWNED, by a free mi_remote_push     (sees all page fields)
  //   write  any    CAS acq_rel   set OWNED, by a pop  mi_remote_claim_popped  (the same)
  //   write  owner  CAS acquire   take the whole list  mi_remote_take     (sees every link)
  //   write  owner  CAS release   clear OWNED          mi_remote_release  (publishes all fields)
  //   write  owner  store relaxed begin and end of the page  mi_life_open, mi_life_close
  //   write  any    store relaxed with one thread  mi_remote_push, mi_remote_release
  //   write  owner  store relaxed with one thread  mi_remote_take
  //   read   any    acquire       look at the list     mi_list_returned, mi_visit_find_free
  //   read   owner  relaxed       "worth collecting?"  a miss is caught at the next refill
  //   read   any    relaxed       what a CAS expects, or for a report
  //   ABA    harmless: no thread pops one block.        Lifetime: a live block keeps the page.
  mi_attr_aligned(64) mi_atomic(uintptr_t) thread_free;
  mi_theap_t* theap; // that owns the page, if one does
  // heap - the heap of this page. A thread that acts on that heap enters it: inside.h.
  //   write  maker  store release  mi_page_make, mi_large_make  (publishes const fields of both)
  //   write  any    CAS release    by a delete, to the main heap  mi_heap_move_page  (the same)
  //   write  owner  store relaxed  of a rest, which is no page: KEPT-7  mi_kept_cut
  //   read   any    acquire        mi_inside_enter, mi_reclaim_claimed, mi_subproc_destroy_page
  //   read   any    acquire        mi_walk_book, mi_walk_arenas, mi_visit_page, mi_describe_copy
  //   read   any    acquire        mi_heap_of  (all see the const fields)
  //   read   any    relaxed        by the holder of the page or a block, which orders that
  mi_atomic(mi_heap_t*) heap;
  union {
    mi_page_t* next; // queue links, owner only
    mi_sampled_t* sampled; // of a single block: its record if it is a sample of a profile, or NULL;
        // who holds the block reads and writes it
  };
  union {
    mi_page_t* prev;
    mi_arena_t* arena; // of a single block: NULL if it is a mapping of its own (const); SPARE-5
  };
  union {
    mi_block_t* sample_rest; // blocks behind the next sample, set aside; see sample.c
    mi_guarded_t* guarded; // of a single block: its record if it has guards, or NULL (const)
  };
  // pool_next - index of the next page in the pool of abandoned pages, 0 none; see pool.c. Written
  // relaxed by the thread that set POOLED, before the push publishes it; read relaxed by poppers
  // that may lose, which the tag of the head shows.
  mi_atomic(mi_pool_link_t) pool_next;
  uint32_t slice_count; // slices of the page (const, as `block_size`)
  mi_part_mask_t holes; // parts whose memory went back: hole.c
  union {
    uint8_t sparse_at; // blocks in use at which the page is sparse, 0: never (const): sparse.c
    bool is_watched; // of a single block, by its holder: its free sees if it was used: ZEROED-3
  };
  // One byte; who may write one of these may write all.
  uint8_t backing : 1; // (const) mi_page_backing_t
  bool is_idle : 1; // the page is empty and kept in its queue, within the theap's budget
  // Memory past `capacity` may be resident, as far as we know (const); of a single block: all of it
  // was touched before the block was made.
  bool is_resident : 1;
  bool is_charged : 1; // of a single block: it is, up to `block_size`; stays while the run is spare
  bool is_lean : 1; // of a free slice: nothing past its first OS page is resident (hint, too)
  bool is_sparse : 1; // counted in `sparse_waiting` of its sub-process: sparse.c
  bool is_sparse_old : 1; // it was so at the last look
  bool has_tail : 1; // (const) memory behind the blocks was resident at the start: tail.c
};
mi_static_assert(sizeof(mi_page_t) == 128, "two cache lines, and the free path shifts by 7");
mi_static_assert(offsetof(mi_page_t, thread_free) == 64, "remote frees write the second line");
#define MI_PAGE_SHIFT 7

// What realloc did with a single block: TAIL-7.
typedef enum mi_page_cut_e {
  MI_CUT_NONE = 0,
  MI_CUT_DONE, // it was made shorter, and what it left went back
  MI_CUT_NEVER, // and then longer again
} mi_page_cut_t;

typedef enum mi_page_backing_e {
  MI_BACKING_ARENA = 0, // slices of an arena
  MI_BACKING_DIRECT, // a mapping of its own
} mi_page_backing_t;

// Pages in a ring: the `next` of the last one is the first, whose `prev` is NULL.
typedef struct mi_page_queue_s {
  mi_page_t* last; // NULL: there is none
} mi_page_queue_t;

// The heap of a theap whose heap was destroyed: a value that equals no heap.
#define MI_HEAP_GONE ((mi_heap_t*)16)

#define MI_GUEST_COUNT 4
#define MI_SPARSE_RING 6 // so that a theap stays within an OS page
#define MI_SAMPLE_EPOCH_NONE UINT32_MAX // the options about samples were not read yet
#define MI_SAMPLE_EPOCH_OPTIONS ((uint32_t)1 << 16) // what it grows by when one of them changes
#define MI_QUICK_REFILLS 640
#define MI_QUICK_WAITING 32 // while much waits to go back: RETAIN-4

// What a census counts: census.h. Without one there is nothing to count, and one figure, 0.
typedef enum mi_census_index_e {
  MI_CENSUS_CLASS = 0, // blocks of each size class; MI_CLASS_COUNT: with a page of their own
  MI_CENSUS_NORMAL = MI_CLASS_COUNT + 1, // bytes of the blocks that share a page
  MI_CENSUS_REQUESTED, // bytes that the program asked for, in all blocks
  MI_CENSUS_END,
  MI_CENSUS_COUNT = MI_HAS_CENSUS ? MI_CENSUS_END : 1
} mi_census_index_t;

// The figures of a heap, for statistics.
typedef enum mi_tally_index_e {
  MI_TALLY_PAGES = 0, // pages of blocks that have a class
  MI_TALLY_LARGE, // bytes in single-block pages
  MI_TALLY_CENSUS, // what is in use, by `mi_census_index_t`
  // The figures above have a peak in the heap; their sums are in `mi_counters_t`.
  MI_TALLY_PEAKS = MI_TALLY_CENSUS + MI_CENSUS_COUNT,
  MI_TALLY_PAGES_TOTAL = MI_TALLY_PEAKS, // pages ever made
  MI_TALLY_LARGE_TOTAL, // bytes
  MI_TALLY_LARGE_COUNT, // blocks ever made
  MI_TALLY_GUARDED, // of them, blocks with guards
  MI_TALLY_POOLED, // pages put into pools
  MI_TALLY_ADOPTED, // pages taken over by an allocation
  MI_TALLY_GUESTS, // pages taken over by a free
  MI_TALLY_FULL, // pages that became full while in a pool
  MI_TALLY_CENSUS_TOTAL, // what was ever handed out, by `mi_census_index_t`
  MI_TALLY_COUNT = MI_TALLY_CENSUS_TOTAL + MI_CENSUS_COUNT,
  // Those that threads which exchange blocks count again and again: tally.h.
  MI_TALLY_OFTEN_FIRST = MI_TALLY_POOLED,
  MI_TALLY_OFTEN_COUNT = MI_TALLY_FULL - MI_TALLY_OFTEN_FIRST
} mi_tally_index_t;

#define MI_ENDED_LAST UINT32_MAX // mi_theap_s.ended_next

// The part of a heap that one thread owns. Only that thread touches it, except where marked; when
// it has no thread, the holder of the thread lock. A thread has a home, its theap of the main heap,
// and others: thread.c.
struct mi_theap_s {
  // -- read by every malloc: the list being allocated from lives here, one head per class --
  mi_block_t* free[MI_CLASS_COUNT];
  // The class that serves a size (SPLIT-1): one entry for each (size + 7) / 8 up to MI_SMALL_MAX,
  // then one for each larger class.
  uint8_t class_of[MI_SMALL_MAX / 8 + 1 + MI_CLASS_COUNT - MI_CLASS_SMALL_COUNT];
  // -- read at refill --
  mi_page_t* current[MI_CLASS_COUNT]; // the page whose blocks `free` holds, or MI_PAGE_NONE
  mi_page_queue_t queue[MI_CLASS_COUNT]; // pages with free blocks, oldest first
  mi_page_t* guest[MI_GUEST_COUNT]; // pages of other theaps that this thread frees into
  uint8_t room[MI_CLASS_COUNT]; // frees that may join a portion until its next count: portion.c
  uint8_t exchange[MI_CLASS_SMALL_COUNT]; // of a home: how much it exchanges blocks: PORTION-6
  mi_page_t* sparse[MI_SPARSE_RING]; // pages that became sparse, or did so once: sparse.c
  mi_page_t* sparse_next; // where to look for such pages again, a hint; NULL: the next queue
  uint32_t sparse_turn;
  uint32_t guest_turn;
  mi_page_t* look_next; // where the look through the queues goes on, a hint; NULL: the first page
  uint32_t quick_left; // refills that alloc.c may still do until the slow path, on which it is 0
  uint32_t quick_given; // the initial value of `quick_left`
  int32_t trim_left; // bytes of blocks until the thread looks at its idle pages again: REFILL-5
  uint32_t poll_count; // refills since the last check whether memory is to go back
  uint32_t generic_count; // refills since the last collect
  uint32_t cadence_count; // of a home: refills of its thread since the last rare things (refill.c)
  uint32_t look_ms; // of a home: when its thread last looked, without the high bits: FLUSH-1
  uint32_t shortage; // of mi_state, when the thread last gave up what it does not use: budget.c
  uint64_t heartbeat; // refills over all time
  uint64_t tick_ms; // of a home: when the thread last gave up idle pages
  uintptr_t thread_id; // 0 while no thread has the theap
  // heap - written under the thread lock by the thread that makes or cleans the theap, and by the
  // one that ends the heap (heap.c: the theap belongs to the main heap then); read by its thread,
  // or under the lock. Relaxed: the lock orders what counts.
  mi_atomic(mi_heap_t*) heap;
  // named - the heap that leads to this theap: equals `heap` until that heap has ended. Written
  // under the thread lock by the same threads, and read by its thread, relaxed.
  mi_atomic(mi_heap_t*) named;
  mi_theap_t* home; // the home of the same thread; a home points to itself
  size_t idle_bytes; // in pages of the queues that are kept although they are empty
  size_t page_count; // pages in `current` and `queue`
  size_t own_count; // pages in `queue` without MI_OWNER_HELD: HOLD-2
  int64_t peak_seen; // committed when it last gave up pages for a new peak: REFILL-4
  uint64_t wide; // a bit for each class of wide blocks with a current page, or more: THEAP-6
  uint64_t filled; // a bit for each small class of whose last new page much was used: REFILL-3
  bool is_split; // a class is split: SPLIT-4
  bool is_in_deferred_free;
  bool is_in_threadpool;
  uint8_t look_left; // classes that the look has not been through, 0: there is none: FLUSH-1
  bool look_ages; // sparse pages grow older with it
  uint8_t sparse_class; // of the queue that was looked at last: SPARSE-7
  uint8_t exchange_ticks; // of a home: 0 if it took no parked page of others of late: refill.c
  bool is_unwatched; // of a home: the system will not call us when its thread ends
  uint8_t look_pause; // of a home: how often it does not ask for the time: SPARSE-9
  // -- of a home: hold.c --
  // hold - odd while the thread is at its queues; grows each time.
  //   write  its thread  store relaxed  it comes  mi_hold_come  (HOLD-5 orders it)
  //   write  its thread  store release  it goes   mi_hold_go    (publishes what it did)
  //   write  its thread  store relaxed  under the thread lock  mi_hold_wait, mi_hold_begin
  //   read   its thread  relaxed        nobody else writes it
  //   read   purge thread  acquire      mi_asleep_look_at, mi_asleep_take  (sees what it did)
  mi_atomic(uint32_t) hold;
  // asked - what the purge thread wants of these queues: mi_hold_ask_t.
  //   write  purge thread  store relaxed  to ASKED    mi_asleep_look_at  (time orders it: HOLD-5)
  //   write  purge thread  CAS acquire    ASKED to TAKEN  mi_asleep_take
  //   write  purge thread  store relaxed  to NONE     mi_asleep_take: it did nothing
  //   write  purge thread  store release  to NONE     mi_asleep_look_at  (publishes what it did)
  //   write  its thread    CAS acquire    ASKED to NONE  mi_hold_answer
  //   write  its thread    store relaxed  to NONE, under the lock  mi_hold_wait, mi_hold_begin
  //   read   its thread    acquire        mi_hold_come, mi_hold_answer  (sees what was done)
  //   read   purge thread  relaxed        under the thread lock
  mi_atomic(uint32_t) asked;
  uint32_t hold_seen; // when the purge thread last asked; under the thread lock
  bool is_swept; // nothing came into the queues since they were taken; under the thread lock
  // -- of a home, in a crowd: crowd.c --
  bool is_busy; // the thread did not wait recently
  uint32_t busy_score; // how busy it is: CROWD-1
  uint64_t seen; // when the thread last refilled, for `mi_os_was_away`
  // -- sample.c --
  mi_random_t random;
  size_t guarded_rate; // one block in so many gets guards; 0 none
  size_t profile_interval; // mean distance between samples of a profile, bytes; 0 is off
  bool sample_is_on; // at least one of these is
  bool sample_is_exact; // each list may be cut
  bool sample_is_own; // not what the options say: set for this thread or heap alone
  uint32_t sample_every; // else one list in so many
  uint32_t sample_left; // refills until that list
  uint32_t sample_epoch; // of the options that were read: `mi_state.sample_epoch`
  uint64_t sample_ahead; // blocks up to and with the next sample, for the list that comes; 0 none
  uint32_t sample_next; // what that sample is for: mi_sample_t
  uint8_t sample_of[MI_CLASS_COUNT]; // the same for the first block of `sample_rest`
  uint64_t sample_count; // samples taken
  size_t guarded_min, guarded_max; // sizes of guarded blocks, bytes
  uint32_t guarded_credit; // guarded blocks that the theap may make at once: SAMPLE-5
  uint64_t guarded_ms; // when that was last raised
  bool is_plain; // the request that is under way has no byte for a canary: CANARY-3
  mi_theap_t* bucket_next; // homes in use, by thread id, under the thread lock
  mi_theap_t* orphan_next; // list of theaps without a thread, under the thread lock
  uint64_t orphan_since_ms;
  // -- of a home: the theaps of its thread in other heaps, by `mi_heap_t.slot` --
  mi_theap_t** others;
  size_t others_count; // entries of `others`
  uint32_t others_turn; // that which is next to give up idle pages
  uint32_t lend_next; // that of which the purge thread lends pages next; under the thread lock
  mi_kept_t* kept; // where the thread keeps the large block that it freed last, NULL none: kept.c
  mi_quarantine_t* quarantine; // freed blocks that the thread keeps, NULL none: quarantine.c
  // ended_count - how many of them have a heap that has ended. Written and read under the thread
  // lock, relaxed.
  mi_atomic(size_t) ended_count;
  // -- of a home: idle.c --
  bool is_rested; // its thread gave back what it does not use, and has not worked since
  uint32_t idle_hold; // `hold` when it was last looked at
  uint32_t rested_hold; // `hold` when that thread last gave something back
  uint32_t idle_wait_ms; // how long a thread must not work before it does so
  int64_t idle_waiting; // what waited then, and was its thread's to give back
  uint64_t idle_since_ms; // when one of these had changed
  uint64_t idle_due_ms; // when there is something to give back, 0 unknown, UINT64_MAX never
  // -- of any other theap, under the thread lock --
  mi_theap_t* heap_next; // theaps of the heap
  mi_theap_t** heap_link; // the pointer to this theap; NULL when its heap was destroyed
  bool is_ended; // the heap that it was made for has ended
  // slot - its index in `others` of its home.
  // ended_next - its place in the list of those whose heap has ended, as slot + 1: the next one,
  // MI_ENDED_LAST behind the last one, 0 if it is in no list. Of a home: the first one, 0 if there
  // is none. One whose slot was taken by another heap stays in the list until that is swept.
  uint32_t slot, ended_next;
  bool is_destroyed; // that heap was destroyed: its pages are gone
  // often - what the thread has counted of the figures from MI_TALLY_OFTEN_FIRST on, and its heap
  // has not: tally.h. Written by its thread, or under the thread lock while it has none; read under
  // that lock. Relaxed, as the figures.
  mi_atomic(uint8_t) often[MI_TALLY_OFTEN_COUNT];
  uint8_t handed_turn; // the class whose current page is settled next: HANDED-2
  bool has_unsettled; // some figure of the next row may be other than 0; only its thread may ask
  // unsettled - blocks of each class handed out, beside those that pages count: HANDED-3. Written
  // by its thread, or under the thread lock while it has none; read under that lock. Relaxed.
  mi_atomic(int16_t) unsettled[MI_CLASS_COUNT];
};

#define MI_POOL_TAG_ONE ((uint64_t)1 << (MI_ADDRESS_BITS - MI_SLICE_SHIFT))
// pool head - the index of a page's first slice, and a tag in the bits from MI_POOL_TAG_ONE on that
// grows with each pop (Treiber, "Systems programming: coping with parallelism", 1986). See pool.c.
//   write  any  CAS release    push  mi_pool_push     (publishes `pool_next`)
//   write  any  CAS acq_rel    pop   mi_pool_pop_any  (sees `pool_next` of the new top page)
//   write  any  CAS acq_rel    all   mi_pool_take_all (sees every link)
//   write  who fills  store release  `rest`  mi_pool_fill_rest  (publishes every link: POOL-5)
//   read   any  acquire        pop   mi_pool_pop_any  (sees `pool_next` of the top page)
typedef struct mi_pool_s {
  mi_atomic(uint64_t) head;
} mi_pool_t;

// The list of all pages of a heap, or of a sub-process, in no order. Entries never move: the array
// is in pieces, each four times as large as the one before. See book.c.
#define MI_BOOK_FIRST ((size_t)4)
#define MI_BOOK_PIECES 15 // enough for 2^31 pages

// An entry: a page, or, odd, the next vacant entry.
//   write  arena lock  store release  add     mi_book_add     (publishes the descriptor)
//   write  any         store release  remove  mi_book_remove  (publishes that the caller is inside)
//   read   any         acquire        walk    mi_book_next    (sees that)
//   read   arena lock  relaxed        the next vacant entry: `vacant` orders it
typedef mi_atomic(uintptr_t) mi_book_entry_t;

typedef struct mi_book_s {
  mi_book_entry_t first[MI_BOOK_FIRST];
  mi_book_entry_t* piece[MI_BOOK_PIECES]; // the entries after `first`; made under the arena lock
  // used - entries that were ever written.
  //   write  arena lock  store release  add   mi_book_add   (publishes the entry and its piece)
  //   write  alone       store relaxed  clear mi_book_clear
  //   read   any         acquire        walk  mi_book_next  (sees entries and pieces)
  //   read   any         relaxed        how many, under the arena lock or for a guess
  mi_atomic(uint32_t) used;
  // vacant - index + 1 of the newest vacant entry, 0 none; they are linked through themselves.
  //   write  any          CAS release  push  mi_book_remove  (publishes the link)
  //   write  arena lock   CAS acq_rel  pop   mi_book_take_vacant  (sees the link of the entry)
  //   write  alone        store relaxed  clear  mi_book_clear
  //   read   arena lock   acquire      pop   mi_book_take_vacant  (sees the link of the top entry)
  //   ABA    none: pops are one at a time, so that what a popper read stays the entry below.
  mi_atomic(uint32_t) vacant;
} mi_book_t;

// Written by the slow paths of a thread that allocates from the heap or is inside it (inside.h), by
// its fast paths for a census, and by the thread that ends the heap; read by any thread. Relaxed:
// each is a figure of its own.
typedef struct mi_tally_s {
  mi_atomic(int64_t) amount[MI_TALLY_COUNT];
  mi_atomic(int64_t) peak[MI_TALLY_PEAKS];
} mi_tally_t;

#define MI_HEAP_POOL_WORDS ((MI_CLASS_COUNT + 63) / 64)
// Cache lines of heads of pools, and how many are in one.
#define MI_HEAP_POOL_ROW 8
#define MI_HEAP_POOL_LINES ((MI_CLASS_COUNT + MI_HEAP_POOL_ROW - 1) / MI_HEAP_POOL_ROW)

// A set of pages that can be destroyed at once.
struct mi_heap_s {
  // pool - abandoned pages with free blocks, of class `c` at [c % LINES][c / LINES]: classes of
  // about the same size, which threads use at the same time, are in different cache lines.
  mi_attr_aligned(64) mi_pool_t pool[MI_HEAP_POOL_LINES][MI_HEAP_POOL_ROW];
  // rest - the pages that a drain has not come to yet, of one class: POOL-5
  mi_pool_t rest;
  // has_empty - bit c: some page in the pool of c became empty there; due - bit c: the drain in
  // progress has not come to the pool of c; empty_count - slices of such pages since a drain began;
  // kept_count - slices that the last one put back; rest_class - what `rest` has. Written and read
  // by any thread that gives a page up, pops or drains, relaxed: hints (POOL-4).
  mi_atomic(uint64_t) has_empty[MI_HEAP_POOL_WORDS];
  mi_atomic(uint64_t) due[MI_HEAP_POOL_WORDS];
  mi_atomic(int32_t) empty_count;
  mi_atomic(int32_t) kept_count;
  mi_atomic(uint32_t) rest_class;
  // is_filling - a thread puts pages into `rest`: only it may.
  //   write  any  swap acquire   mi_pool_fill_rest  (sees what the last one put there)
  //   write  who fills  store release  mi_pool_fill_rest  (publishes it)
  //   write  the only thread of a child  store relaxed  mi_fork_keep_theaps, mi_fork_keep_own
  mi_atomic(bool) is_filling;
  mi_subproc_t* subproc; // (const)
  size_t slot; // index in `mi_theap_t.others` (const)
  size_t sequence; // number in the sub-process, for reports; 0 the main heap (thread lock)
  bool is_main; // of its sub-process (const)
  // numa_wish - 1 + the node preferred for fresh memory, 0 none. Any thread, relaxed: a preference.
  mi_atomic(int) numa_wish;
  mi_arena_t* arena; // all pages come from it; NULL: from any that is not exclusive (const)
  // -- of heaps that can end, all but the main one of the main sub-process --
  // inside - threads that are in the middle of giving up a page of this heap: inside.h.
  //   write  any  add acq_rel    mi_inside_enter, mi_heap_end_by_delete  (HEAP-2)
  //   write  any  sub release    mi_inside_leave, mi_inside_enter  (publishes what was done inside)
  //   write  the only thread of a child  store relaxed  mi_fork_keep_theaps, mi_fork_keep_own
  //   read   who reuses the structure  acquire  mi_heap_take  (sees what was done inside)
  //   read   who ends its sub-process  acquire  mi_subproc_is_left  (the same)
  mi_atomic(size_t) inside;
  // -- of heaps that are not main --
  mi_book_t book; // its pages in arenas
  mi_theap_t* theaps; // under the thread lock
  mi_heap_t* next; // list of heaps of the sub-process, or of ended ones; under the thread lock
  mi_heap_t** link; // the pointer to this heap; NULL when it has ended
  // -- of all --
  mi_tally_t tally; // at the end: it is written often, the fields above are not
};

// The same type as the public mi_commit_fun_t.
typedef bool(mi_arena_commit_fun_t)(bool commit, void* start, size_t size, bool* is_zero,
                                    void* arg);

// Kinds of runs inside a word: 1, 2, 3 to 4, 5 to 8, ... 33 to 64 slices.
#define MI_RUN_KINDS 7

// Bitmaps have one bit per slice, in 64-bit words. Each map needs another memory order: bitmap.h
// has functions that promise one, and others that are relaxed.
//   write  any  or release     set    mi_bitmap_or    (publishes what was written)
//   write  any  CAS acquire    claim  mi_bitmap_take  (sees what the setter of the bits wrote)
//   write  any  and relaxed    clear  mi_bitmap_and_not
//   write  any  store relaxed  with one thread  mi_bitmap_or, mi_bitmap_take, mi_bitmap_and_not
//   read   any  acquire        mi_bitmap_is_set_acquire  (as a claim)
//   read   any  relaxed        to find candidates: a claim decides
typedef mi_atomic(uint64_t) mi_bitmap_word_t;

// Nodes of the index of free runs: fit.c.
//   write  any  CAS relaxed    mi_fit_refresh
//   write  any  store relaxed  with one thread  mi_fit_refresh
//   read   any  relaxed        a hint: what is found is claimed in the bitmap
typedef mi_atomic(uint64_t) mi_fit_node_t;
// An arena may have all addresses. (A word has 2^6 slices, each depth 2^3 nodes of the one below.)
#define MI_FIT_DEPTH_MAX ((MI_ADDRESS_BITS - MI_SLICE_SHIFT - 6 + 2) / 3)

// What is known of the slices of a chunk: a word for each of two policies. Beside each other, so
// that a small heap touches one OS page of them.
typedef struct mi_chunk_s {
  // filled - which slices are resident: collapse.c. Written by a thread that has carved slices or
  // gives their contents back, by one that looks at the chunk, and by one that forks; read by one
  // that looks. Relaxed: a decision that may be wrong by a chunk.
  mi_atomic(uint64_t) filled;
  // tails - a state of each slice: does memory behind the blocks of the page that begins there
  // wait, and does a purger give it back? See tail.c.
  //   write  maker   or release   the page has a tail  mi_tail_begin  (publishes the page)
  //   write  purger  CAS acquire  it is to go back     mi_tail_claim  (sees the page)
  //   write  purger  CAS relaxed  it became old        mi_tail_age
  //   write  purger, and who releases the page  and acq_rel  mi_tail_clear  (sees the other's work)
  //   write  any     store relaxed  with one thread  mi_tail_begin, mi_tail_claim, mi_tail_age
  //   write  any     store relaxed  with one thread  mi_tail_clear
  //   read   any     relaxed
  mi_atomic(uint64_t) tails;
} mi_chunk_t;

// A reserved range of slices. Immutable after publication except for the atomics. See arena.c.
struct mi_arena_s {
  uint8_t* start; // slice aligned
  size_t slice_max; // slices it may grow to; the bitmaps have room for that
  size_t word_count; // of each bitmap
  // slice_count - slices that are mapped: `mi_arena_slices`.
  //   write  maker       store relaxed  mi_arena_make    (before any other thread knows it)
  //   write  arena lock  store release  mi_arena_extend  (publishes their windows)
  //   read   any         acquire        mi_arena_slices  (sees the windows)
  mi_atomic(size_t) slice_count;
  bool is_committed; // usable without mprotect
  bool is_pinned; // never purged
  bool is_exclusive; // only for heaps that ask for it
  bool is_foreign; // memory of the user: never mapped by us
  bool has_room; // all that it may grow to are addresses of ours
  int numa_node; // where the memory is, -1 unknown or anywhere: numa.h
  mi_subproc_t* subproc; // its owner; changes under the arena lock, when no thread uses the arena
  // Called instead of mprotect, with `commit_arg`; NULL none. Both are coded in a secure build.
  mi_arena_commit_fun_t* commit_fun;
  void* commit_arg;
  // is_unsure - foreign memory that is not known to be zero even where `dirty` is clear: it was
  // given back once, or is made usable by mprotect. Written by a purger, read by a thread that
  // claims its slices later (relaxed: the claim orders it).
  mi_atomic(bool) is_unsure;
  // used_end - slices from here on were never used. Written by a thread that claims slices,
  // read by any, relaxed: a figure, which a race may leave too low until the next claim.
  mi_atomic(size_t) used_end;
  // free_count - free slices. Written by a thread that claims or gives back, read by one that
  // searches, relaxed: a hint.
  mi_atomic(int64_t) free_count;
  // low_word[k] - no word below has a run of more than 2^(k-1) free slices inside it, mostly.
  // Written by a thread that claims or gives back, read by one that searches. Relaxed hints: a
  // stale value costs a longer search, or a run at a higher address.
  mi_atomic(size_t) low_word[MI_RUN_KINDS];
  mi_fit_node_t* fit[MI_FIT_DEPTH_MAX]; // the index of free runs, by depth - 1 (const)
  size_t fit_depth; // of its one node for the whole arena (const)
  // fit_stale - 1: some of these 8 words may have changed since their node was made. Written by a
  // thread that changes them, and by one that searches, which reads it. Relaxed: a hint.
  mi_bitmap_word_t* fit_stale;
  // free - 1: the slice is free. Written by any thread: it claims with `mi_bitmap_try_claim`,
  // acquire (sees what was written there), and gives back with `mi_bitmap_set_release`, release
  // (publishes that). Read by any thread, relaxed, to find free slices; and acquire, by a thread
  // that checks if the sub-process can end.
  mi_bitmap_word_t* free;
  // dirty - 1: the slice may be non-zero. Written only by the thread that has claimed the slice;
  // read by any thread for a guess (relaxed: a claim orders it).
  mi_bitmap_word_t* dirty;
  // committed - 1: usable without mprotect. Written and read only by the thread that claimed the
  // slice (relaxed: the claim orders it).
  mi_bitmap_word_t* committed;
  // moved - 1: the mapping was replaced by mremap and must be renewed before it goes back. Written
  // only by the thread that has claimed the slice; read by any thread for a guess (relaxed, as
  // `dirty`).
  mi_bitmap_word_t* moved;
  // moved_first - 1: a moved range, or the rest of one, starts here; `mi_state.moved_count` is at
  // least the number of such ranges. Written and read as `moved`, relaxed; but `mi_move_note_cut`
  // also writes the bit of the slice behind a range.
  mi_bitmap_word_t* moved_first;
  // purge_young, purge_old - 1: freed in this / before the last purge period. Written by a thread
  // that gives back or claims the slice, or purges; read by any thread. Relaxed hints, see wait.c.
  mi_bitmap_word_t* purge_young;
  mi_bitmap_word_t* purge_old;
  // purge_end - no slice from here on is in these two, mostly. Written and read by a thread that
  // marks slices (raised), and by a purger (lowered). Relaxed: a hint; slices that it hides are
  // purged at the end of a period.
  mi_atomic(size_t) purge_end;
  // units - MI_CHARGE_UNITS bits for each slice, 1: the system charges for it: charge.c. Written by
  // a thread that has claimed the slice, read by one that takes over the arena. Relaxed: a figure.
  mi_bitmap_word_t* units;
  // marked - in a secure build, 1: the marks of the slice are charged. Written and read as `units`,
  // relaxed.
  mi_bitmap_word_t* marked;
  mi_chunk_t* chunks; // one for each chunk of slices
  size_t tail_chunk; // where the next look at tails goes on; under the purge lock
  // next - in the list of a sub-process, which only grows until the sub-process has ended, or in
  // a list of what is left of others (ended.c).
  //   write  arena lock  store release  append  mi_arena_publish  (publishes the arena's fields)
  //   write  arena lock  store relaxed  the lists of ended.c  mi_ended_push, mi_ended_pop
  //   read   any         acquire        MI_FOR_EACH_ARENA  (sees the fields)
  //   read   arena lock, or the last    relaxed
  mi_atomic(mi_arena_t*) next;
  mi_arena_t* before; // the previous arena of that list (const while the arena is in it)
};

#endif
