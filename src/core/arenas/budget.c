// SPDX-License-Identifier: MIT
// budget.c - policy: how much memory may be in use, and what changes when that is soon all in use.
//
// A process whose container (a control group) has used up its memory is killed, without a malloc
// that fails first. So the library looks at the limit itself:
//
//   budget = what is in use by us + what is left of the limit + what waits for purge
//   room   = budget - what is in use by us
//
// BUDGET-1  a quarter of the room may wait for purge, and no more, whatever the other bounds are
//     (retain.c): the nearer the limit, the sooner memory goes back. No step at any amount.
// BUDGET-2  while the room is less than 1/MI_BUDGET_SHORT of the budget, nothing is kept ahead: no
//     huge pages for memory that is not used yet (huge.c, collapse.c).
// BUDGET-3  then all threads are asked, too, for what they do not use: each gives up its pages at
//     its next slow allocation, and one of them collects what all share (front/slow.c), as before a
//     malloc fails. Not more often than each MI_BUDGET_ASK_MS, unless the room is very small.
// BUDGET-4  the limit is found out (mi_os_limit) when MI_BUDGET_FIRST bytes are committed, and
//     again when a quarter of the room was used up since, at least MI_BUDGET_STEP bytes; if there
//     is none, when twice as much is committed; and each MI_BUDGET_POLL_MS while fresh memory is
//     used, if there is a limit, or MI_BUDGET_POLL_MIN are committed. So a small program never
//     does, and near the limit it costs less than the page faults of what is used meanwhile.
// BUDGET-5  this opens files, which a sandbox may not permit (INIT-4). So only builds do so that
//     notice a sandbox before the program enters it (MI_SEES_SANDBOX), and only until then; from
//     then on the budget stays as it was found last.
// BUDGET-6  while processes of the container, or else of the machine, wait for memory (pressure
//     stall information), there is no room.
// BUDGET-7  option memory_limit sets a budget instead, and no file is opened; a negative one, none.
//     A sub-process counts by itself.
//
// All of this is a guess: others use memory of the same container, and the system charges more than
// we count. Deliberately absent: a malloc that fails because of it.
#include "budget.h"

#define MI_BUDGET_FIRST ((int64_t)(128 * MI_SLICE_SIZE))
#define MI_BUDGET_STEP ((int64_t)(16 * MI_SLICE_SIZE))
#define MI_BUDGET_POLL_MIN ((int64_t)(1024 * MI_SLICE_SIZE))
#define MI_BUDGET_POLL_MS 1000
#define MI_BUDGET_SHORT 8
#define MI_BUDGET_VERY_SHORT 32
#define MI_BUDGET_ASK_MS 100

static int64_t mi_budget_in_use(mi_subproc_t* subproc) {
  const int64_t in_use = mi_atomic_load_relaxed(&subproc->count.committed) -
                         mi_atomic_load_relaxed(&subproc->purge_waiting);
  return in_use > 0 ? in_use : 0;
}

MI_INTERNAL int64_t mi_budget_left(mi_subproc_t* subproc) {
  return mi_budget_room(subproc, mi_budget_in_use(subproc));
}

// True if the room is less than one part in so many of the budget.
static bool mi_budget_is_below(mi_subproc_t* subproc, int64_t part) {
  const int64_t in_use = mi_budget_in_use(subproc);
  const int64_t room = mi_budget_room(subproc, in_use);
  return room != MI_BUDGET_NONE && room < (room + in_use) / part;
}

MI_INTERNAL bool mi_budget_is_short(mi_subproc_t* subproc) {
  return mi_budget_is_below(subproc, MI_BUDGET_SHORT);
}

// Find out the budget, if that is possible.
static void mi_budget_look(mi_subproc_t* subproc) {
  if (!MI_SEES_SANDBOX || mi_option_value(memory_limit) != 0) return;
  if (mi_atomic_load_relaxed(&mi_state.is_sandboxed)) return;
  mi_os_limit_t limit;
  const bool is_known = mi_os_limit(&limit);
  const int64_t in_use = mi_budget_in_use(subproc);
  int64_t budget = 0;
  if (is_known && limit.limit < (uint64_t)INT64_MAX) {
    const int64_t waiting = mi_atomic_load_relaxed(&subproc->purge_waiting);
    const int64_t left = limit.used < limit.limit ? (int64_t)(limit.limit - limit.used) : 0;
    budget = in_use + left + (waiting > 0 ? waiting : 0);
  }
  if (is_known && limit.is_short) budget = in_use > 0 ? in_use : 1; // BUDGET-6
  mi_atomic_store_relaxed(&subproc->budget, budget);
}

// BUDGET-3
static void mi_budget_ask(mi_subproc_t* subproc) {
  if (mi_likely(!mi_budget_is_short(subproc))) return;
  const uint64_t now = mi_os_now_ms();
  const bool is_soon = now - mi_atomic_load_relaxed(&subproc->budget_asked_ms) < MI_BUDGET_ASK_MS;
  if (is_soon && !mi_budget_is_below(subproc, MI_BUDGET_VERY_SHORT)) return;
  mi_atomic_store_relaxed(&subproc->budget_asked_ms, now);
  mi_atomic_add_relaxed(&mi_state.shortage, 1);
}

MI_INTERNAL mi_attr_cold void mi_budget_find(mi_subproc_t* subproc, int64_t bytes) {
  const int64_t committed = mi_atomic_load_relaxed(&subproc->count.committed) + bytes;
  int64_t at = mi_atomic_load_relaxed(&subproc->budget_at);
  const bool is_first = committed < MI_BUDGET_FIRST;
  const int64_t next = is_first ? MI_BUDGET_FIRST : committed + MI_BUDGET_STEP;
  if (committed < at || !mi_atomic_cas_strong_relaxed(&subproc->budget_at, &at, next)) return;
  if (is_first) return;
  mi_budget_look(subproc);
  mi_atomic_store_relaxed(&subproc->budget_ms, mi_os_now_ms());
  const int64_t room = mi_budget_room(subproc, mi_budget_in_use(subproc) + bytes);
  const int64_t most = INT64_MAX - committed;
  const int64_t wanted = room == MI_BUDGET_NONE ? committed : room / 4;
  const int64_t step = wanted < most ? wanted : most;
  if (step > MI_BUDGET_STEP) mi_atomic_store_relaxed(&subproc->budget_at, committed + step);
  mi_budget_ask(subproc);
}

MI_INTERNAL void mi_budget_poll(mi_subproc_t* subproc, uint64_t now_ms) {
  const int64_t committed = mi_atomic_load_relaxed(&subproc->count.committed);
  const bool has_budget = mi_atomic_load_relaxed(&subproc->budget) != 0;
  if (mi_likely(!has_budget && committed < MI_BUDGET_POLL_MIN)) return;
  if (now_ms - mi_atomic_load_relaxed(&subproc->budget_ms) < MI_BUDGET_POLL_MS) return;
  mi_atomic_store_relaxed(&subproc->budget_ms, now_ms);
  mi_budget_look(subproc);
  mi_budget_ask(subproc);
}

MI_INTERNAL mi_attr_cold void mi_budget_enter_sandbox(void) {
  if (mi_atomic_load_relaxed(&mi_state.is_sandboxed)) return;
  mi_budget_look(&mi_state.main);
  mi_atomic_store_relaxed(&mi_state.is_sandboxed, true);
}

MI_INTERNAL mi_attr_cold bool mi_budget_answer(mi_theap_t* theap) {
  uint32_t met = mi_atomic_load_relaxed(&mi_state.shortage_met);
  theap->shortage = mi_atomic_load_relaxed(&mi_state.shortage);
  return met != theap->shortage &&
         mi_atomic_cas_strong_relaxed(&mi_state.shortage_met, &met, theap->shortage);
}
