// SPDX-License-Identifier: MIT
// retain.c - policy: how much free memory stays with the process, and for how long.
//
// Time is cut into periods of half the option `purge_delay` (times `arena_purge_mult`); at the end
// of each, memory that was freed before the period began goes back (purge.c). The first poll after
// a quiet time begins a period; slow allocations poll, so that the delay is a minimum, not an exact
// time. These rules say what goes back earlier, and what is used again instead:
//
// RETAIN-1  the memory that waits is at most MI_RETAIN_MIN and half of what is in use: a program
//     that frees much and then sleeps holds no more than that, although no thread looks at the
//     clock. The excess goes from the highest addresses down (if everything went at once instead,
//     blocks of 5 to 25 MiB replaced at random would take ten times as long), but what was freed
//     just now goes last, because it is used next (a malloc and free pair of 1 MiB at the bound:
//     400 us otherwise, 0.3 so). A 32nd of what waits, 2 MiB at most, goes with the excess, so
//     that a heap that is freed in the order of its addresses goes in such pieces, not in one call
//     for each slice (xmllint, freeing a tree of 170 MiB: 440 calls, 1,250 without).
// RETAIN-2  a large block that is claimed where slices are clean gets memory that waits elsewhere:
//     it changes its addresses at 1/100 of the cost of a fault (0.013 us for 4 KiB, 1.3 us), and
//     the heap does not grow while it has room in the wrong places. Only pieces of at least
//     MI_RETAIN_MOVE_MIN slices are moved: each is a mapping of its own until it is purged
//     (move.c).
//
// RETAIN-3  a free within the bound of RETAIN-4 reads no clock, and calls the system only for what
//     is beyond the bounds of RETAIN-1 and RETAIN-4: a thread that frees within them waits for no
//     system call.
// RETAIN-4  memory that waits beyond a soft bound, MI_RETAIN_SOFT_MIN and 1/8 of what is in use,
//     goes early: after t ms in which none did, t^2/512 slices may go, as soon as these are half of
//     the excess; the time that they stand for is spent then. Memory that is needed again every 20
//     ms is thus left alone (a slice takes 16 faults), and a program that was busy for half a
//     second is small as soon as it has freed its last block (an idle PostgreSQL backend after
//     three sorts: 19 MiB, 55 without, glibc 12). The clock is read where slices are claimed and
//     released, where periods are checked, and, while that much waits, after MI_QUICK_WAITING
//     refills of a thread: otherwise a program that does only small things after a large one would
//     keep what the large one left (a PostgreSQL backend with small queries: 75 MiB, 12 now). Where
//     as much waits as after the last release, because a block was allocated and freed in between,
//     only each MI_RETAIN_TURNS-th release looks at the bounds again: they and the clock cost a
//     third of a pair of 1 MiB.
// RETAIN-5  if fresh memory, in an arena or not, would make a new peak of committed memory while
//     more than that bound waits, as much of the waiting memory goes back first. The peak of a
//     program whose phases need different memory is that of the largest phase and this bound, not
//     their sum (four threads that go through sizes: 77 MiB, 93 without), and the cost is bounded
//     by the peak.
// RETAIN-6  what went back by RETAIN-1 or RETAIN-4, and is replaced within MI_RETAIN_SOON_MS of the
//     last such event, went back too early. After MI_RETAIN_COST of that (0.1 to 0.5 s of page
//     faults) the bound of RETAIN-1 grows by all that goes back too early; where there is no purge
//     thread, by MI_RETAIN_MORE_ALONE and a 64th of what ever did at most, so that a program which
//     then sleeps keeps little of it, unless so much was needed again lately, MI_RETAIN_BUSY in
//     each millisecond, that the faults took about half of its time: nothing takes more than about
//     twice as long because of that bound. After MI_RETAIN_COST_FIRST already, but by MI_RETAIN_MIN
//     at most, so that a program which then sleeps holds little (the recorded calls of sqlite, a
//     heap of 60 MiB, 20 times: 0.6 of the time). It shrinks by what goes back at the end of a
//     period, or early. So a program with threads that frees 300 MiB and allocates them again,
//     again and again, has no page faults (blocks of 32 KiB to 1 MiB: 5 us for each, 236 without),
//     and one that does so three times and sleeps keeps no more than twice MI_RETAIN_MIN, and half
//     of what is in use. Memory of which the program will touch little (zeroed.c) is not replaced.
//
// RETAIN-7  free memory inside of sparse pages (sparse.c) may stay as long as it and what waits are
//     together less than half of MI_RETAIN_MIN and half of what is in use. Beyond the bound of
//     RETAIN-4 it goes early, as other memory does. It goes later than free slices, which serve all
//     classes, and what is filled again soon counts for RETAIN-6.
//
// RETAIN-8  near the limit of what may be in use (budget.c) less waits, whatever RETAIN-1, RETAIN-4
//     and RETAIN-7 permit: at most 1/MI_RETAIN_ROOM_PART of what is left.
//
// RETAIN-9  what goes at the end of a period goes in parts of MI_RETAIN_PART_MIN slices (1 to 2
//     ms), or of MI_RETAIN_PART_MS, because a system call takes far longer with threads, with a
//     pause of MI_RETAIN_PAUSE_MS after each, so that no malloc takes as long as all of it: half of
//     a heap of 6 GiB of 16 bytes to 128 KiB, freed at random, took one malloc 290 ms. A poll that
//     comes late, of a thread that allocates seldom, takes a quarter of the time since, 20 ms at
//     most. What is beyond the bounds of RETAIN-1 and RETAIN-4 goes for MI_RETAIN_PART_MS at most
//     in one call, too: while one thread purges, others cannot, and what they release meanwhile is
//     a lot. The next release or poll goes on, or the purge thread: when several threads have freed
//     all at once, more than those bounds may be left until then. Not in the purge thread, and not
//     if the program asks for it (mi_collect).
//
// Reasons to purge: the period ended (polled by the slow path of malloc, at thread exit, by
// mi_collect, by the purge thread if there is one); more waits than RETAIN-1 or RETAIN-4 permit;
// fresh memory is claimed (RETAIN-5); mi_collect(true) and malloc_trim (mi_purge_everything);
// `purge_delay` 0. Reasons not to: `purge_delay` negative, pinned memory. Deliberately absent: the
// thread that polls for programs that sleep (purger.c); one that has a single thread must not find
// two, so the bounds hold without it.
#include "retain.h"

#include "bitmap.h"
#include "kept.h"
#include "move.h"
#include "purge.h"
#include "tail.h"

#define MI_RETAIN_MIN ((int64_t)(512 * MI_SLICE_SIZE))
#define MI_RETAIN_PART 1 // of what is in use, as a shift: a half
#define MI_RETAIN_BATCH_PART 32
// RETAIN-4, RETAIN-5
#define MI_RETAIN_SOFT_MIN ((int64_t)(64 * MI_SLICE_SIZE))
#define MI_RETAIN_SOFT_PART 3
#define MI_RETAIN_EARLY_MS 512
#define MI_RETAIN_TURNS 8
#define MI_RETAIN_STEP 8 // slices that go early at once, at least: each time is a system call
#define MI_RETAIN_LOOKS 8 // in the delay, by the purge thread, while that much waits
#define MI_RETAIN_TICK_MS 5 // the least that it sleeps; the clock has steps of 1 to 4
// RETAIN-6
#define MI_RETAIN_SOON_MS 250
#define MI_RETAIN_COST_FIRST ((int64_t)(1024 * MI_SLICE_SIZE))
#define MI_RETAIN_COST ((int64_t)(8192 * MI_SLICE_SIZE))
#define MI_RETAIN_MORE_ALONE (2 * MI_RETAIN_MIN)
#define MI_RETAIN_MORE_PART 64
#define MI_RETAIN_BUSY ((int64_t)(16 * MI_SLICE_SIZE))
#define MI_RETAIN_LATELY_MS 2000
// RETAIN-8
#define MI_RETAIN_ROOM_PART 4
#define MI_RETAIN_MOVE_MIN ((size_t)4)
#define MI_RETAIN_MOVE_TRIES 64 // runs that wait; most are too short in a fragmented heap

// Return how much of `waiting` bytes is beyond `min` and a part of what is in use (a shift: a
// division takes as long as a lock), or beyond RETAIN-8.
static int64_t mi_retain_beyond(mi_subproc_t* subproc, int64_t waiting, int64_t min,
                                unsigned part) {
  const int64_t in_use = mi_atomic_load_relaxed(&subproc->count.committed) - waiting;
  const int64_t most = mi_budget_room(subproc, in_use) / MI_RETAIN_ROOM_PART;
  const int64_t allowed = min + (in_use > 0 ? in_use >> part : 0);
  return waiting - (allowed < most ? allowed : most);
}

static int64_t mi_retain_excess(mi_subproc_t* subproc, int64_t min, unsigned part) {
  const int64_t waiting = mi_atomic_load_relaxed(&subproc->purge_waiting);
  return mi_retain_beyond(subproc, waiting, min, part);
}

// Return the bytes that wait beyond the bound of RETAIN-4 and RETAIN-5.
static int64_t mi_retain_soft_excess(mi_subproc_t* subproc) {
  return mi_retain_excess(subproc, MI_RETAIN_SOFT_MIN, MI_RETAIN_SOFT_PART);
}

MI_INTERNAL bool mi_retain_is_much(mi_subproc_t* subproc) {
  return mi_retain_soft_excess(subproc) >= MI_RETAIN_STEP * (int64_t)MI_SLICE_SIZE;
}

// -- RETAIN-6 --

// Something that the rule is about happens at `now`. What is known of the past counts only if the
// last such event was a short time ago.
static void mi_retain_note(mi_subproc_t* subproc, int64_t now) {
  const int64_t seen = mi_atomic_load_relaxed(&subproc->retain_seen_ms);
  mi_atomic_store_relaxed(&subproc->retain_seen_ms, now);
  if (now - seen <= MI_RETAIN_SOON_MS) return;
  mi_atomic_store_relaxed(&subproc->retain_missed, 0);
  if (mi_atomic_load_relaxed(&subproc->retain_more) > 0) return; // it has learned once
  mi_atomic_store_relaxed(&subproc->retain_cost, 0);
}

// So many bytes went back: they are missed if they are needed soon.
static void mi_retain_miss(mi_subproc_t* subproc, int64_t bytes, int64_t now) {
  mi_retain_note(subproc, now);
  mi_count_add(&subproc->retain_missed, bytes);
}

// So many bytes more are needed again at `now`. True if that is what most of the time is spent for.
static bool mi_retain_is_busy(mi_subproc_t* subproc, int64_t bytes, int64_t now) {
  int64_t since = mi_atomic_load_relaxed(&subproc->retain_since_ms);
  if (now - since > 2 * MI_RETAIN_LATELY_MS) { // it begins, after a time without any of that
    since = now - MI_RETAIN_LATELY_MS / 2;
    mi_atomic_store_relaxed(&subproc->retain_since_ms, since);
    mi_atomic_store_relaxed(&subproc->retain_lately, 0);
  }
  const int64_t lately = mi_count_add(&subproc->retain_lately, bytes);
  if (now - since > MI_RETAIN_LATELY_MS) { // half of the time counts no more, and its bytes
    mi_atomic_store_relaxed(&subproc->retain_since_ms, since + (now - since) / 2);
    mi_count_add(&subproc->retain_lately, -(lately / 2));
  }
  return lately >= MI_RETAIN_COST && lately >= (now - since) * MI_RETAIN_BUSY;
}

// Return how much the bound may grow by, after so much was missed.
static int64_t mi_retain_more_max(int64_t cost, bool is_busy) {
  if (cost < MI_RETAIN_COST) return MI_RETAIN_MIN;
  const bool is_alone = mi_atomic_load_relaxed(&mi_state.purger) == MI_PURGER_NONE;
  if (!is_alone || is_busy) return INT64_MAX;
  return MI_RETAIN_MORE_ALONE + cost / MI_RETAIN_MORE_PART;
}

// So many bytes are claimed that are not resident, and may have been a moment ago.
static void mi_retain_learn(mi_subproc_t* subproc, int64_t bytes) {
  if (bytes <= 0 || mi_atomic_load_relaxed(&subproc->retain_missed) <= 0) return;
  const int64_t now = mi_atomic_load_relaxed(&subproc->purge_seen_ms);
  mi_retain_note(subproc, now);
  const int64_t missed = mi_atomic_load_relaxed(&subproc->retain_missed);
  const int64_t again = bytes < missed ? bytes : missed;
  mi_count_add(&subproc->retain_missed, -again);
  const int64_t cost = mi_count_add(&subproc->retain_cost, again);
  const bool is_busy = mi_retain_is_busy(subproc, again, now);
  if (cost < MI_RETAIN_COST_FIRST) return;
  const int64_t most = mi_retain_more_max(cost, is_busy);
  const int64_t room = most - mi_atomic_load_relaxed(&subproc->retain_more);
  const int64_t more = again < room ? again : room;
  if (more > 0) mi_count_add(&subproc->retain_more, more);
}

// So many bytes went back because they were not needed for some time.
static void mi_retain_unlearn(mi_subproc_t* subproc, int64_t bytes) {
  const int64_t more = mi_atomic_load_relaxed(&subproc->retain_more);
  if (more > 0 && bytes > 0) mi_count_add(&subproc->retain_more, -(bytes < more ? bytes : more));
}

// RETAIN-4: the slices that may go early after `ms` in which none did; and the reverse, rounded
// down.
static int64_t mi_retain_earned(int64_t ms) { return ms > 0 ? ms * ms / MI_RETAIN_EARLY_MS : 0; }

static int64_t mi_retain_time_for(int64_t slices) {
  int64_t ms = 0;
  for (int64_t bit = (int64_t)1 << 30; bit != 0; bit >>= 1) {
    if ((ms + bit) * (ms + bit) <= slices * MI_RETAIN_EARLY_MS) ms += bit;
  }
  return ms;
}

// RETAIN-4: spend time for as much of `excess` bytes as may go early, up to `most`, according to
// the last time that was read. Returns the slices that this is.
static int64_t mi_retain_spend(mi_subproc_t* subproc, int64_t excess, int64_t most) {
  const int64_t seen = mi_atomic_load_relaxed(&subproc->purge_seen_ms);
  const int64_t spent = mi_atomic_load_relaxed(&subproc->purge_spent_ms);
  const int64_t earned = mi_retain_earned(seen - spent);
  const int64_t wanted = (int64_t)mi_bits_divide_up((size_t)excess, MI_SLICE_SIZE);
  if (earned < MI_RETAIN_STEP || earned < wanted / 2) return 0; // it earns more the longer it waits
  const int64_t limit = (int64_t)mi_bits_divide_up((size_t)most, MI_SLICE_SIZE);
  int64_t slices = wanted < earned ? wanted : earned;
  if (slices > limit) slices = limit;
  mi_atomic_store_relaxed(&subproc->purge_spent_ms, seen - mi_retain_time_for(earned - slices));
  return slices;
}

// RETAIN-4: purge what may go early.
static mi_attr_noinline void mi_retain_early(mi_subproc_t* subproc) {
  if (mi_likely(!mi_retain_is_much(subproc))) return;
  const int64_t excess = mi_retain_soft_excess(subproc);
  const int64_t slices = mi_retain_spend(subproc, excess, excess);
  if (slices == 0) return;
  const int64_t seen = mi_atomic_load_relaxed(&subproc->purge_seen_ms);
  const uint64_t end_ms = (uint64_t)seen + MI_RETAIN_PART_MS; // RETAIN-9
  const int64_t purged = mi_purge_from_top(subproc, slices * (int64_t)MI_SLICE_SIZE, end_ms);
  mi_retain_unlearn(subproc, purged);
  mi_retain_miss(subproc, purged, seen);
}

// RETAIN-4: read the clock.
static mi_attr_noinline void mi_retain_look(mi_subproc_t* subproc, long delay) {
  const int64_t now = (int64_t)mi_os_now_ms();
  if (now == mi_atomic_load_relaxed(&subproc->purge_seen_ms)) return;
  const int64_t spent = mi_atomic_load_relaxed(&subproc->purge_spent_ms);
  if (spent == 0 || now - spent > delay) {
    mi_atomic_store_relaxed(&subproc->purge_spent_ms, spent == 0 ? now : now - delay);
  }
  mi_atomic_store_relaxed(&subproc->purge_seen_ms, now);
}

// Return the bytes that wait in free slices and inside of sparse pages.
static int64_t mi_retain_waiting_all(mi_subproc_t* subproc) {
  return mi_atomic_load_relaxed(&subproc->purge_waiting) +
         mi_atomic_load_relaxed(&subproc->sparse_waiting);
}

MI_INTERNAL bool mi_retain_lets_go(mi_subproc_t* subproc, size_t slice_count) {
  const long delay = mi_wait_delay_ms();
  if (delay <= 0) return delay == 0;
  const int64_t waiting = mi_retain_waiting_all(subproc);
  const int64_t min = MI_RETAIN_MIN / 2 + mi_atomic_load_relaxed(&subproc->retain_more);
  if (mi_retain_beyond(subproc, waiting, min, MI_RETAIN_PART) > 0) return true;
  const int64_t excess =
      mi_retain_beyond(subproc, waiting, MI_RETAIN_SOFT_MIN, MI_RETAIN_SOFT_PART);
  if (excess < MI_RETAIN_STEP * (int64_t)MI_SLICE_SIZE) return false;
  mi_retain_look(subproc, delay);
  return mi_retain_spend(subproc, excess, (int64_t)(slice_count * MI_SLICE_SIZE)) > 0;
}

MI_INTERNAL size_t mi_retain_sparse_way(mi_subproc_t* subproc, size_t fresh_count) {
  if (!mi_retain_is_peak(subproc, fresh_count) || mi_wait_delay_ms() <= 0) return 0;
  const int64_t excess = mi_retain_beyond(subproc, mi_retain_waiting_all(subproc),
                                          MI_RETAIN_SOFT_MIN, MI_RETAIN_SOFT_PART);
  const size_t most = mi_bits_max(fresh_count, MI_RETAIN_STEP) * MI_SLICE_SIZE;
  return excess > 0 ? mi_bits_min((size_t)excess, most) : 0;
}

MI_INTERNAL void mi_retain_note_gone(mi_subproc_t* subproc, size_t bytes) {
  mi_retain_miss(subproc, (int64_t)bytes, (int64_t)mi_os_now_ms());
}

MI_INTERNAL void mi_retain_before_peak(mi_subproc_t* subproc, size_t fresh_count) {
  const int64_t fresh = (int64_t)(fresh_count * MI_SLICE_SIZE);
  if (mi_unlikely(mi_budget_is_due(subproc, fresh))) mi_budget_find(subproc, fresh);
  if (!mi_retain_is_peak(subproc, fresh_count)) return;
  const int64_t excess = mi_retain_soft_excess(subproc);
  if (excess <= 0 || mi_wait_delay_ms() <= 0) return;
  const int64_t least = MI_RETAIN_STEP * (int64_t)MI_SLICE_SIZE;
  const int64_t bytes = fresh > least ? fresh : least;
  mi_purge_from_top(subproc, bytes < excess ? bytes : excess, UINT64_MAX);
}

MI_INTERNAL void mi_retain_make_way(mi_subproc_t* subproc, size_t fresh_count, bool is_touched) {
  const long delay = mi_wait_delay_ms();
  const bool has_waited = mi_atomic_load_relaxed(&subproc->purge_waiting) > 0 ||
                          mi_atomic_load_relaxed(&subproc->purge_seen_ms) != 0;
  if (delay <= 0 || !has_waited) { // it is about the budget
    mi_retain_before_peak(subproc, fresh_count);
    return;
  }
  mi_retain_look(subproc, delay);
  mi_budget_poll(subproc, (uint64_t)mi_atomic_load_relaxed(&subproc->purge_seen_ms));
  if (is_touched) mi_retain_learn(subproc, (int64_t)(fresh_count * MI_SLICE_SIZE));
  mi_retain_early(subproc);
  mi_retain_before_peak(subproc, fresh_count);
}

// Purge what is beyond the bound of RETAIN-1, when `bytes` more wait that are in use now: all, or
// for as long as RETAIN-9 permits.
static void mi_retain_purge_excess(mi_subproc_t* subproc, int64_t bytes, bool is_whole) {
  const int64_t min = MI_RETAIN_MIN + mi_atomic_load_relaxed(&subproc->retain_more);
  const int64_t more = bytes + (bytes >> MI_RETAIN_PART);
  const int64_t excess = mi_retain_excess(subproc, min, MI_RETAIN_PART) + more;
  if (excess <= 0) return;
  const int64_t waiting = mi_atomic_load_relaxed(&subproc->purge_waiting);
  const int64_t batch = (waiting < min ? waiting : min) / MI_RETAIN_BATCH_PART;
  const uint64_t now = mi_os_now_ms();
  const uint64_t end_ms = is_whole ? UINT64_MAX : now + MI_RETAIN_PART_MS;
  const int64_t purged = mi_purge_from_top(subproc, excess + batch, end_ms);
  mi_retain_miss(subproc, purged, (int64_t)now);
}

MI_INTERNAL void mi_retain_before_wait(mi_subproc_t* subproc, size_t count) {
  const int64_t waiting = mi_atomic_load_relaxed(&subproc->purge_waiting);
  const int64_t bytes = (int64_t)(count * MI_SLICE_SIZE);
  if (waiting <= 0 || waiting + bytes == mi_atomic_load_relaxed(&subproc->retain_same)) return;
  if (mi_wait_delay_ms() > 0) mi_retain_purge_excess(subproc, bytes, false);
}

// True if as much waits as when a release last kept the bounds, except for each so many releases:
// a block was allocated and freed in between.
static bool mi_retain_is_same(mi_subproc_t* subproc, int64_t waiting) {
  if (waiting != mi_atomic_load_relaxed(&subproc->retain_same)) return false;
  const uint32_t turn = mi_atomic_load_relaxed(&subproc->retain_turn) + 1;
  mi_atomic_store_relaxed(&subproc->retain_turn, turn);
  return turn % MI_RETAIN_TURNS != 0;
}

MI_INTERNAL bool mi_retain_bound(mi_subproc_t* subproc) {
  const int64_t waiting = mi_atomic_load_relaxed(&subproc->purge_waiting);
  if (waiting <= 0 || mi_retain_is_same(subproc, waiting)) return false;
  mi_atomic_store_relaxed(&subproc->retain_same, waiting);
  const long delay = mi_wait_delay_ms();
  if (delay == 0) mi_purge_now(subproc, MI_GENTLE);
  // Less than the bound of RETAIN-4 is less than that of RETAIN-1.
  if (delay <= 0 || mi_likely(!mi_retain_is_much(subproc))) return false;
  mi_retain_purge_excess(subproc, 0, false);
  mi_retain_look(subproc, delay);
  mi_retain_early(subproc);
  return mi_retain_is_much(subproc);
}

// True if memory waits, or may wait soon (KEPT-4), or behind the blocks of a page (tail.c).
static bool mi_retain_has_any(mi_subproc_t* subproc) {
  return mi_atomic_load_relaxed(&subproc->purge_waiting) > 0 || mi_kept_has_any(subproc) ||
         mi_atomic_load_relaxed(&subproc->has_tails);
}

MI_INTERNAL bool mi_retain_bound_again(mi_subproc_t* subproc) {
  mi_atomic_store_relaxed(&subproc->retain_same, 0);
  return mi_retain_bound(subproc);
}

// RETAIN-9: how much may go at a poll which comes so late.
static mi_purge_part_t mi_retain_part(uint64_t now, uint64_t late_ms) {
  const size_t late = late_ms < MI_RETAIN_LATE_MAX_MS ? (size_t)late_ms : MI_RETAIN_LATE_MAX_MS;
  return (mi_purge_part_t){.slices = MI_RETAIN_PART_MIN + late * MI_RETAIN_PART_EACH_MS,
                           .end_ms = now + MI_RETAIN_PART_MS + late / MI_RETAIN_LATE_PART};
}

// End a period, or go on with that. `tails`: of an arena, at most. Under the purge lock.
static void mi_retain_step(mi_subproc_t* subproc, uint64_t now, bool is_whole, size_t tails) {
  const uint64_t due = mi_atomic_load_relaxed(&subproc->purge_due_ms);
  if (now < due) return; // another thread did it just now
  const uint64_t period = ((uint64_t)mi_wait_delay_ms() + 1) / 2;
  uint64_t next = now + period;
  if (due != 0) { // the first poll after a quiet time only starts the period
    size_t bytes = 0;
    const mi_purge_part_t part = is_whole ? MI_PURGE_WHOLE : mi_retain_part(now, now - due);
    if (mi_purge_step(subproc, part, &bytes)) {
      mi_tail_step(subproc, tails, part.end_ms);
    } else {
      next = mi_os_now_ms() + (period < MI_RETAIN_PAUSE_MS ? period : MI_RETAIN_PAUSE_MS);
    }
    mi_retain_unlearn(subproc, (int64_t)bytes);
  }
  mi_atomic_store_relaxed(&subproc->purge_due_ms, mi_retain_has_any(subproc) ? next : 0);
}

// Out of line: in small programs nothing waits.
static mi_attr_noinline void mi_retain_poll_any(mi_subproc_t* subproc, bool is_whole,
                                                size_t tails) {
  const long delay = mi_wait_delay_ms();
  if (delay <= 0) return;
  if (is_whole) mi_retain_purge_excess(subproc, 0, true);
  mi_retain_look(subproc, delay);
  mi_retain_early(subproc);
  const uint64_t now = (uint64_t)mi_atomic_load_relaxed(&subproc->purge_seen_ms);
  const uint64_t due = mi_atomic_load_relaxed(&subproc->purge_due_ms);
  if (now < due || !mi_lock_try_enter(&mi_state.purge_lock)) return;
  mi_retain_step(subproc, now, is_whole, tails);
  mi_lock_leave(&mi_state.purge_lock);
}

// (Not put off: a program may change the delay again and again.)
static void mi_retain_lower_due(mi_subproc_t* subproc) {
  const long delay = mi_wait_delay_ms();
  if (delay < 0) return;
  const uint64_t next = mi_os_now_ms() + ((uint64_t)delay + 1) / 2;
  if (next < mi_atomic_load_relaxed(&subproc->purge_due_ms)) {
    mi_atomic_store_relaxed(&subproc->purge_due_ms, next);
  }
  mi_atomic_store_relaxed(&subproc->retain_same, 0); // the next release looks, if the delay is 0
}

MI_INTERNAL mi_attr_cold void mi_retain_shorten(mi_subproc_t* subproc) {
  // The program may set an option where it commits memory for us.
  if ((mi_self()->locks_held & mi_lock_bit(&mi_state.purge_lock)) != 0) return;
  mi_lock_enter(&mi_state.purge_lock); // no period of the old length begins after this
  mi_retain_lower_due(subproc);
  mi_lock_leave(&mi_state.purge_lock);
}

static void mi_retain_poll_with(mi_subproc_t* subproc, bool is_whole, size_t tails) {
  mi_retain_bound(subproc);
  if (mi_retain_has_any(subproc)) mi_retain_poll_any(subproc, is_whole, tails);
}

MI_INTERNAL void mi_retain_poll(mi_subproc_t* subproc) {
  mi_retain_poll_with(subproc, false, MI_TAIL_BATCH);
}

MI_INTERNAL void mi_retain_poll_whole(mi_subproc_t* subproc) {
  mi_retain_poll_with(subproc, true, MI_TAIL_BATCH);
}

MI_INTERNAL uint64_t mi_retain_tick(mi_subproc_t* subproc) {
  mi_atomic_store_relaxed(&subproc->retain_same, 0); // look at the bounds, too
  mi_retain_poll_with(subproc, true, MI_TAIL_BATCH_APART);
  const long delay = mi_wait_delay_ms();
  if (delay <= 0 || !mi_retain_has_any(subproc)) return MI_RETAIN_NEVER;
  const uint64_t due = mi_atomic_load_relaxed(&subproc->purge_due_ms);
  const uint64_t now = mi_os_now_ms();
  uint64_t wait = due > now ? due - now : 0; // 0 also while another thread purges
  if (mi_retain_is_much(subproc)) { // RETAIN-4
    wait = (uint64_t)mi_bits_min((size_t)wait, (size_t)(delay / MI_RETAIN_LOOKS));
  }
  return wait + MI_RETAIN_TICK_MS;
}

// -- memory that waits is used again elsewhere: RETAIN-2 --

// Move the memory of a waiting run to clean slices at `to`, which the caller has claimed.
static mi_move_t mi_retain_move(mi_arena_t* arena, size_t index, size_t count, size_t to) {
  if (!mi_arena_hold(arena, index, count)) return MI_MOVE_NONE;
  uint8_t* const start = arena->start;
  const mi_move_t move = mi_move_memory(arena->subproc, arena, start + index * MI_SLICE_SIZE,
                                        start + to * MI_SLICE_SIZE, count * MI_SLICE_SIZE);
  if (move == MI_MOVE_DONE) {
    mi_move_note(arena, to, count);
    mi_bitmap_set(arena->dirty, to, count);
    mi_count_add(&arena->subproc->count.committed, (int64_t)(count * MI_SLICE_SIZE));
    // The old addresses read as zero now.
    mi_wait_forget(arena, index, count);
    mi_purge_claimed(arena, index, count);
  }
  mi_arena_let_go(arena, index, count); // publishes the cleared `dirty` bits
  return move;
}

MI_INTERNAL mi_attr_cold mi_slices_t mi_retain_reuse(mi_arena_t* arena, size_t index,
                                                     size_t count) {
  const mi_slices_t none = {0, 0};
  if (mi_atomic_load_relaxed(&arena->subproc->purge_waiting) <= 0) return none;
  const size_t end = index + count;
  size_t top = mi_wait_top(arena);
  for (size_t i = 0; i < MI_RETAIN_MOVE_TRIES && mi_move_is_allowed(0); i++) {
    index += mi_bitmap_run_length(arena->dirty, index, end);
    if (index == end) break;
    size_t room = 1;
    while (index + room < end && mi_bitmap_is_all_clear(arena->dirty, index + room, 1)) room++;
    const size_t start = mi_wait_top_run(arena, &top, room);
    if (top == 0) break;
    if (room < MI_RETAIN_MOVE_MIN) {
      index += room;
      continue;
    }
    if (top - start >= MI_RETAIN_MOVE_MIN) {
      const mi_move_t move = mi_retain_move(arena, start, top - start, index);
      if (move == MI_MOVE_LOST) return (mi_slices_t){index, top - start};
      if (move == MI_MOVE_NONE) break;
      index += top - start;
    }
    top = start;
  }
  return none;
}
