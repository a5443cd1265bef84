// SPDX-License-Identifier: MIT
// state.h - the one process-wide structure, and the option values.
//
// The other mutable globals of the core are the page map (pagemap.h), the thread-local state
// (os/thread_self.h), the regions of meta.c, and the waiting reports (report.c).
//
// No lock is held while a hook (hooks.h) is called: reports of damage that is found under a lock
// wait until the lock is left (report.c). fork takes all locks in the order of their ranks
// (fork.c).
#ifndef MI_CORE_STATE_H
#define MI_CORE_STATE_H

#include "types.h"

typedef enum mi_option_index_e {
#define X(name, value, kind, legacy, effect) MI_OPTION_##name,
#include "options.def"
#undef X
  MI_OPTION_COUNT
} mi_option_index_t;

// The pages of blocks of one size class: how many were ever made, are in use, and were in use at
// most; and the blocks that were ever handed out, as far as that is settled (handed.h). Written by
// the thread that makes, releases or settles a page, that settles a theap, and when a sub-process
// ends; read by any thread. Relaxed: each is a figure of its own.
typedef struct mi_class_count_s {
  mi_atomic(int64_t) made;
  mi_atomic(int64_t) handed;
  mi_atomic(int32_t) there, most; // 2^31 pages are 128 TiB
} mi_class_count_t;

// Counters that the slow paths keep, for statistics. Written and read by any thread, relaxed: each
// is a figure of its own. Each heap counts what it holds in a `mi_tally_t`; here are the sums that
// have a peak of their own.
typedef struct mi_counters_s {
  mi_atomic(int64_t) pages, pages_peak; // pages in use
  mi_atomic(int64_t) reserved, reserved_peak; // bytes of address space in arenas
  mi_atomic(int64_t) committed, committed_peak; // bytes in slices in use or not yet purged
  mi_atomic(int64_t) large, large_peak; // bytes in single-block pages
  mi_atomic(int64_t) census[MI_CENSUS_COUNT], census_peak[MI_CENSUS_COUNT]; // blocks: census.h
  mi_atomic(int64_t) threads, threads_peak, threads_total;
  mi_atomic(int64_t) busy_threads; // that keep pages in a crowd: CROWD-1
  mi_atomic(int64_t) heaps, heaps_peak, heaps_total; // with the main one
  mi_atomic(int64_t) theaps, theaps_peak, theaps_total;
  mi_atomic(int64_t) purged, purge_calls; // bytes, calls
  mi_atomic(int64_t) reset, reset_calls; // bytes, calls
  mi_atomic(int64_t) mmap_calls, commit_calls;
  mi_atomic(int64_t) rollbacks; // claims of slices that the system refused to commit
  mi_atomic(int64_t) arenas;
  mi_atomic(int64_t) meta; // bytes of our own structures, besides descriptors
  mi_atomic(int64_t) meta_charged, meta_charged_peak; // OS pages of these, and of freed ones
  // charged - bytes that the system charges for: charge.c; uncharged - that were charged and are
  // not any more. Written and read by any thread, relaxed, as the others. At the end: written with
  // each carving, whereas `committed` above is read often.
  mi_atomic(int64_t) charged, charged_peak;
  mi_atomic(int64_t) uncharged;
  mi_class_count_t of_class[MI_CLASS_COUNT];
} mi_counters_t;

// Threads that may keep a block each (kept.c): a bit in `kept_slots` each.
#define MI_KEPT_SLOTS 32
#define MI_ZEROED_SIZES 16

// What a thread keeps: kept.c. Only the thread that has the slot puts a block there.
struct mi_kept_s {
  // kept_run - the run of the block (spare.h), or 0.
  //   write  its thread  store release  put where nothing is  mi_kept_swap  (publishes the block)
  //   write  its thread  swap acq_rel   put  mi_kept_swap  (publishes the block, sees the old one)
  //   write  any         CAS acquire    take  mi_kept_take  (sees the block)
  //   write  its thread  store relaxed  with one thread  mi_kept_swap, mi_kept_take
  //   read   any         relaxed       a hint: the exchange decides
  //   ABA    the same word is the same run, which was kept again
  mi_attr_aligned(64) mi_atomic(uint64_t) kept_run;
  // kept_room - bytes of `kept_total` that are for this slot: KEPT-5.
  //   write  its thread  add relaxed   more is needed      mi_kept_reserve
  //   write  any         swap relaxed  it is given back    mi_kept_give_back
  //   read   its thread  relaxed       a stale value costs a look, or is too much for a period
  mi_atomic(int64_t) kept_room;
  // kept_seen - `kept_run` at the end of the last period. Written and read under the purge lock,
  // relaxed.
  mi_atomic(uint64_t) kept_seen;
  // kept_bytes - bytes of the block, or of the rest; again_bytes, again_count - of all blocks that
  // the thread took out again. Written by the thread, read by any: relaxed, figures.
  mi_atomic(int64_t) kept_bytes;
  mi_atomic(int64_t) again_bytes;
  mi_atomic(int64_t) again_count;
  // is_rest - what was put last is a rest: KEPT-7. Only the thread that has the slot uses it, to
  // know that without a look at what is there.
  bool is_rest;
};

// Whether any slot has a block. At the end of a period the purger turns SOME into FEW, and FEW into
// NONE if all are empty: a thread that keeps a block at that moment writes SOME after that, or has
// put its block there a period ago.
typedef enum mi_kept_any_e { MI_KEPT_NONE = 0, MI_KEPT_FEW, MI_KEPT_SOME } mi_kept_any_t;

// A sub-process: heaps, arenas and figures that share nothing with those of another one.
struct mi_subproc_s {
  mi_heap_t heap_main;
  // arenas - head of the list, as `mi_arena_t.next`.
  //   write  arena lock  store release  the first  mi_arena_publish  (publishes the arena's fields)
  //   write  arena lock  store relaxed  at the end, by the last  mi_arena_retire_all
  //   read   any         acquire        MI_FOR_EACH_ARENA  (sees the fields)
  //   read   the last    relaxed
  mi_atomic(mi_arena_t*) arenas;
  mi_arena_t* arena_last; // under the arena lock
  size_t arena_count; // under the arena lock
  // growth_count - new arenas, and pieces that arenas grew by. Written under the arena lock; read
  // there, and by a thread before it searches (relaxed: a stale value costs a search).
  mi_atomic(size_t) growth_count;
  mi_book_t direct; // pages outside arenas, of all its heaps
  // purge_waiting - bytes that wait for purge (WAIT-2), written by a thread that marks or claims;
  // purge_due_ms - when the next period ends (0: none is running), written by the purger, and by a
  // thread that sets an option. Read by any thread. Relaxed; the purge lock orders the work itself.
  // See retain.c.
  mi_atomic(int64_t) purge_waiting;
  mi_atomic(uint64_t) purge_due_ms;
  bool is_purged_in_part; // the period ended, and not all went yet: RETAIN-9; under the purge lock
  // spare - the run that was freed last, or 0: spare.c.
  //   write  any  swap acq_rel  keep, release  mi_spare_swap  (publishes the run, sees the old one)
  //   write  any  CAS acquire   claim          mi_spare_take  (sees the run)
  //   write  any  store relaxed  with one thread  mi_spare_swap, mi_spare_take
  //   read   any  relaxed       a hint: the exchange decides
  //   ABA    the same word is the same run, which was kept again
  mi_atomic(uint64_t) spare;
  // kept_total - bytes that threads may keep at this moment, whether they do or not. Written and
  // read by those that need more, written by whoever gives that back; relaxed: a budget.
  mi_atomic(int64_t) kept_total;
  mi_kept_t* kept; // slots for what threads keep (const): kept.c; NULL none
  // kept_any - an mi_kept_any_t, written by threads that keep a block and by the purger; read by
  // any. Relaxed: a hint.
  mi_atomic(uint32_t) kept_any;
  // kept_slots - which slots of `kept` belong to a thread.
  //   write  any         CAS acquire  a thread takes one  mi_kept_join   (sees that it is empty)
  //   write  its thread  CAS release  it gives it back    mi_kept_leave  (publishes that)
  //   write  alone       store relaxed  in the child of a fork  mi_kept_keep_own
  //   read   any         relaxed
  mi_atomic(uint32_t) kept_slots;
  // purge_seen_ms - the clock when a slow path last read it; purge_spent_ms - the time up to which
  // early purging used up its budget, 0 not known yet. Relaxed, by any thread: a budget.
  mi_atomic(int64_t) purge_seen_ms;
  mi_atomic(int64_t) purge_spent_ms;
  // collapse_due_ms - when the next look at old chunks is due. Any thread, relaxed: a hint.
  mi_atomic(uint64_t) collapse_due_ms;
  // collapse_quiet - passes in a row that found nothing new. Written under the purge lock, read by
  // any thread, relaxed: a hint.
  mi_atomic(uint32_t) collapse_quiet;
  bool collapse_has_news; // this pass has; under the purge lock
  size_t collapse_arena, collapse_chunk; // where that look goes on; under the purge lock
  bool collapse_is_alone; // when the pass began, no process shared memory; under the purge lock
  // has_tails - memory behind blocks of a page may wait; had_tails - there was such a page, ever
  // (tail.c). Written by a thread that makes a page, and by a purger; read by any thread. Relaxed:
  // a hint; a page that it misses is found by a later walk.
  mi_atomic(bool) has_tails;
  mi_atomic(bool) had_tails;
  // retain_more - bytes that may wait beyond RETAIN-1; retain_missed - bytes that went back
  // and have not been replaced; retain_cost - bytes of these that were replaced at once;
  // retain_seen_ms - when the last of that happened; retain_lately - bytes that were replaced at
  // once since about retain_since_ms. Relaxed, by any thread: RETAIN-6, a guess.
  mi_atomic(int64_t) retain_more;
  mi_atomic(int64_t) retain_missed;
  mi_atomic(int64_t) retain_cost;
  mi_atomic(int64_t) retain_seen_ms;
  mi_atomic(int64_t) retain_lately;
  mi_atomic(int64_t) retain_since_ms;
  // retain_same - bytes that waited when a free last kept the bounds; retain_turn - frees since
  // then that found the same. Relaxed, written and read by any thread: a lost step is another look.
  mi_atomic(int64_t) retain_same;
  mi_atomic(uint32_t) retain_turn;
  // budget - bytes that may be in use at most, 0 not known; budget_at - committed bytes at which
  // that is found out anew; budget_ms - when it was found out; budget_asked_ms - when all threads
  // were asked for what they do not use. Any thread, relaxed: budget.c, a guess. Who changes
  // budget_at (CAS) does the work.
  mi_atomic(int64_t) budget;
  mi_atomic(int64_t) budget_at;
  mi_atomic(uint64_t) budget_ms;
  mi_atomic(uint64_t) budget_asked_ms;
  // sparse_waiting - free bytes of sparse pages, about. Any thread, relaxed: a budget (sparse.c).
  mi_atomic(int64_t) sparse_waiting;
  // zeroed - what the program did with long blocks that were zero. Any thread, relaxed: a guess
  // (zeroed.c).
  mi_atomic(uint32_t) zeroed[MI_ZEROED_SIZES];
  mi_counters_t count;
  mi_heap_t* heaps; // besides the main one, under the thread lock
  mi_heap_t* ended; // structures of ended heaps, to be used again; under the thread lock
  mi_subproc_t* next; // list of all sub-processes, or of ended ones; under the thread lock
  size_t sequence; // for reports
  bool is_deleted; // ends when no block is left, under the thread lock
};

// The ranks of the locks below (os/lock.h).
typedef enum mi_lock_rank_e {
  MI_RANK_SUBPROC = 1, // no sub-process ends: SUBPROC-4
  MI_RANK_THREAD, // theaps: start, exit, orphans; lists of heaps and sub-processes
  MI_RANK_ARENA, // growth of arenas, windows, and memory for our own structures
  MI_RANK_PURGE, // one purger at a time; only tried, except at a fork and the end of a sub-process
} mi_lock_rank_t;

typedef enum mi_process_stage_e {
  MI_STAGE_NONE = 0, // nothing is set up
  MI_STAGE_READY,
  MI_STAGE_BUSY, // a thread is setting up
  MI_STAGE_AWAITED, // and others sleep until it has finished
} mi_process_stage_t;

typedef enum mi_purger_state_e {
  MI_PURGER_NONE = 0, // there is no purge thread
  MI_PURGER_BUSY, // a thread starts or joins it
  MI_PURGER_BORN, // it runs, and the thread that started it has to say that it may go on
  MI_PURGER_AWAKE,
  MI_PURGER_ASLEEP, // until a thread marks memory
  MI_PURGER_STOP, // it is asked to end
  MI_PURGER_LATE, // and has not for so long that it may not exist
  MI_PURGER_ENDED, // and not joined
} mi_purger_state_t;

#define MI_THEAP_BUCKETS 64

typedef struct mi_state_s {
  // stage - see mi_process_stage_t. Set-up runs once.
  //   write  any    CAS acquire    NONE -> BUSY, by who sets up, BUSY -> AWAITED  mi_init_begin
  //   write  who set BUSY  swap release  -> READY  mi_init_end  (publishes all it wrote)
  //   write  child of a fork meanwhile, its only thread  store relaxed  -> BUSY  mi_init_begin
  //   read   any    acquire  mi_process_setup, mi_init_begin, mi_process_prepare, mi_collect_all
  //                          (sees all that)
  //   read   any    acquire  the same  mi_walk_find
  //   read   any    acquire  the same  mi_purger_start
  //   read   any    relaxed  whether it was set up at all: for a report, and at the end
  mi_atomic(uint32_t) stage;
  // is_usable - everything is set up except the fork handlers. Written by the thread that sets up,
  // release (a fork may copy it at any moment); read by that thread, and in the child of such a
  // fork (acquire).
  mi_atomic(bool) is_usable;
  // setup_thread - the thread that sets up, 0 none. Written by that thread, read by any. Relaxed:
  // only that thread finds its own id.
  mi_atomic(uintptr_t) setup_thread;
  // is_fork_known - our handlers run at a fork. Written by the thread that registers them, and by
  // the handlers, relaxed; read relaxed, and again while `is_fork_asked` is held.
  mi_atomic(bool) is_fork_known;
  // is_fork_asked - a thread is registering them.
  //   write  any      swap acquire   to true   mi_fork_register  (sees the above)
  //   write  who did  store release  to false  mi_fork_register  (publishes the above)
  //   write  child of a fork, its only thread  store relaxed  to false  mi_fork_take_over
  mi_atomic(bool) is_fork_asked;
  bool is_torn; // FORK-6; written by the only thread of the child of a fork
  size_t fork_process; // the parent, during a fork; 0 else. Under the locks that a fork holds
  // prepared - what the constructor found out about the system, const once is_prepared: written by
  // the constructor, release (publishes it), read by the thread that sets up (acquire).
  mi_atomic(bool) is_prepared;
  mi_os_info_t prepared;
  mi_os_info_t os;
  mi_lock_t thread_lock;
  mi_lock_t arena_lock;
  mi_lock_t purge_lock;
  mi_subproc_t main; // the main sub-process; first of the list
  mi_subproc_t* ended; // structures of ended sub-processes, under the thread lock
  size_t subproc_count; // ever made, besides the main one; under the thread lock
  mi_lock_t subproc_lock;
  // deleted_count - sub-processes that wait for their last block. Written under the thread lock;
  // read by any thread, relaxed, as a hint.
  mi_atomic(size_t) deleted_count;
  size_t slot_count; // number of heap structures, under the thread lock
  size_t window_first, window_end; // windows with a table are in this range; under the arena lock
  bool is_near_taken; // a window uses the library's own descriptors; under the arena lock
  mi_arena_t* arenas_free; // of ended sub-processes, under the arena lock
  mi_arena_t* arenas_ended; // structures of those that have no memory, under the arena lock
  uint8_t* arena_hint; // where the next arena should go, NULL: anywhere; under the arena lock
  uintptr_t first_thread; // the thread that made the first home, 0 none yet; under the thread lock
  mi_theap_t theap_main; // of the first thread, so that small programs need no mapping for it
  bool is_theap_main_taken; // under the thread lock
  mi_theap_t* theap_bucket[MI_THEAP_BUCKETS]; // theaps in use, by thread id, under the thread lock
  mi_theap_t* orphans; // theaps without a thread, under the thread lock
  // orphan_count - orphans that have pages. Written under the lock; read there, and outside as a
  // hint (relaxed).
  mi_atomic(size_t) orphan_count;
  // quarantines - what threads that vanished in a fork have kept: QUARANTINE-4. Written by the only
  // thread of the child, and by one that takes it to free it; read by any. Relaxed: no other thread
  // was there when it was written.
  mi_atomic(mi_quarantine_t*) quarantines;
  // huge_after_us - no huge pages before this time, see huge.c. Any thread, relaxed: a hint.
  mi_atomic(uint64_t) huge_after_us;
  uint64_t collapse_after_us; // no chunk is collapsed before this time; under the purge lock
  uint32_t collapse_failures; // without a success between; under the purge lock
  mi_os_family_t* family; // who shares memory since a fork, NULL: none, or not known; and if this
  bool is_family_ours; // process is the first of them: both under the purge lock
  // moved_count - ranges of arenas that were moved and not yet renewed. Any thread, relaxed: only a
  // budget.
  mi_atomic(size_t) moved_count;
  // lost_count - slices of arenas that must not be used any more, see move.c. Written by any
  // thread, read when the library is unloaded; relaxed.
  mi_atomic(size_t) lost_count;
  // numa_count - NUMA nodes of the machine, 0 not known yet. Any thread, relaxed: each would find
  // the same.
  mi_atomic(size_t) numa_count;
  // sample_epoch - grows by MI_SAMPLE_EPOCH_OPTIONS when an option about samples changes, by 1 when
  // a profile begins or ends. Any thread, relaxed: a theap reads the options again when it finds
  // another number. (After 65,535 profiles one looks like an option.)
  mi_atomic(uint32_t) sample_epoch;
  // profile_interval - mean bytes between samples of a heap profile, 0 off. Any thread, relaxed, as
  // the options.
  mi_atomic(size_t) profile_interval;
  // control_ms - how often the purge thread looks for commands of the user, in ms, 0 never. Written
  // by the constructor, read by any thread, relaxed: the purge thread starts later.
  mi_atomic(uint32_t) control_ms;
  // is_sandboxed - the program has entered a sandbox, or may soon: no file is opened any more.
  // Written by the thread that enters it, before it does, relaxed; read by any thread, relaxed: a
  // filter of system calls for other threads, too, is set later.
  mi_atomic(bool) is_sandboxed;
  // shortage - how often all threads were asked for what they do not use; shortage_met - the last
  // of these for which a thread has collected what all share (the CAS says who does). Any thread,
  // relaxed: a request.
  mi_atomic(uint32_t) shortage;
  mi_atomic(uint32_t) shortage_met;
  // purger - what the purge thread does, see mi_purger_state_t and purger.c.
  //   write  any     CAS acquire    from one state to the next  mi_purger_turn  (sees the thread's)
  //   write  any     CAS relaxed    ASLEEP -> AWAKE             mi_wait_wake_purger
  //   write  who set BUSY  store release  -> AWAKE or NONE  mi_purger_start, mi_purger_await_end
  //                                                         (publishes purger_thread)
  //   write  purge thread  CAS release  STOP or LATE -> ENDED   mi_purger_end  (publishes its work)
  //   write  child of a fork, its only thread  store relaxed  to NONE  mi_purger_forget
  //   read   any     relaxed        a hint: an exchange decides
  mi_atomic(uint32_t) purger;
  // has_queued - a page that the purge thread may take over came into a queue, or became current,
  // since it last looked.
  // Written by any thread, to true, and by the purge thread, to false; read by any, relaxed: the
  // holds order what is behind it (HOLD-6).
  mi_atomic(bool) has_queued;
  // visitors - walks over pages during which the purge thread takes over no queue: HOLD-7.
  //   write  any    add relaxed    it begins  mi_asleep_pause  (the thread lock orders it)
  //   write  any    CAS release    it is over  mi_asleep_resume  (what it read is written later)
  //   write  child of a fork, its only thread  store relaxed  to 0  mi_fork_take_over
  //   read   purge thread  acquire  mi_asleep_look_from  (the same)
  //   read   any    relaxed        what a CAS expects
  mi_atomic(uint32_t) visitors;
  // present - threads of the program whose end we will be told of, see THREAD-7. Any thread,
  // relaxed: who counts down to 0 acts, and nothing is published by it.
  mi_atomic(size_t) present;
  mi_os_thread_t purger_thread; // written by who set BUSY, read by who does so next
  bool is_unloaded; // all memory was given back once: unload.c; changes while no thread is here
  // By which a tool from outside finds all this: inspect.c. Written by the thread that sets up,
  // const from then on.
  const void* stamp;
} mi_state_t;

MI_INTERNAL_DATA_DECL mi_state_t mi_state;

// Option values in their storage unit. Written at start-up and by the option functions; read
// anywhere, relaxed: options are independent, and a stale value is as good as a slightly earlier
// call.
MI_INTERNAL_DATA_DECL mi_atomic(long) mi_option_values[MI_OPTION_COUNT];

#define mi_option_value(name) mi_atomic_load_relaxed(&mi_option_values[MI_OPTION_##name])

// Add to a counter; returns the new value. With one thread, a load and a store.
static inline int64_t mi_count_add(mi_atomic(int64_t) * counter, int64_t amount) {
  if (mi_os_is_single_threaded()) {
    const int64_t now = mi_atomic_load_relaxed(counter) + amount;
    mi_atomic_store_relaxed(counter, now);
    return now;
  }
  return mi_atomic_add_relaxed(counter, amount) + amount;
}

// Raise a peak to `now`, if it is lower. Returns the peak.
static inline int64_t mi_count_raise(mi_atomic(int64_t) * peak, int64_t now) {
  int64_t seen = mi_atomic_load_relaxed(peak);
  if (now > seen && mi_os_is_single_threaded()) {
    mi_atomic_store_relaxed(peak, now);
    return now;
  }
  while (now > seen && !mi_atomic_cas_weak_relaxed(peak, &seen, now)) {
  }
  return now > seen ? now : seen;
}

// Add to a counter, and update its peak.
static inline void mi_count_add_peak(mi_atomic(int64_t) * counter, mi_atomic(int64_t) * peak,
                                     int64_t amount) {
  mi_count_raise(peak, mi_count_add(counter, amount));
}

static inline void mi_tally_add(mi_tally_t* tally, mi_tally_index_t index, int64_t amount) {
  if (index < MI_TALLY_PEAKS) {
    mi_count_add_peak(&tally->amount[index], &tally->peak[index], amount);
  } else {
    mi_count_add(&tally->amount[index], amount);
  }
}

#endif
