// SPDX-License-Identifier: MIT
// budget.h - how much memory may be in use, and whether that is soon all in use.
#ifndef MI_CORE_BUDGET_H
#define MI_CORE_BUDGET_H

#include "arena.h"

#define MI_BUDGET_NONE INT64_MAX

// Return the bytes that may be in use besides `in_use`, at least 0; MI_BUDGET_NONE if there is no
// limit.
static inline int64_t mi_budget_room(mi_subproc_t* subproc, int64_t in_use) {
  const int64_t limit = mi_option_value(memory_limit);
  if (mi_unlikely(limit < 0 || limit > MI_BUDGET_NONE / (int64_t)MI_KIB)) return MI_BUDGET_NONE;
  const int64_t budget =
      limit == 0 ? mi_atomic_load_relaxed(&subproc->budget) : limit * (int64_t)MI_KIB;
  if (mi_likely(budget <= 0)) return MI_BUDGET_NONE;
  return budget > in_use ? budget - in_use : 0;
}

// The same besides what is in use.
MI_INTERNAL int64_t mi_budget_left(mi_subproc_t* subproc);

// True if nearly all memory that may be in use is in use.
MI_INTERNAL bool mi_budget_is_short(mi_subproc_t* subproc);

// `bytes` more will be in use: find out anew how much that may be, if it is due.
MI_INTERNAL void mi_budget_find(mi_subproc_t* subproc, int64_t bytes);

static inline bool mi_budget_is_due(mi_subproc_t* subproc, int64_t bytes) {
  return mi_atomic_load_relaxed(&subproc->count.committed) + bytes >=
         mi_atomic_load_relaxed(&subproc->budget_at);
}

// Find it out anew if that was done some time ago.
MI_INTERNAL void mi_budget_poll(mi_subproc_t* subproc, uint64_t now_ms);

// No file may be opened any more: BUDGET-5.
MI_INTERNAL void mi_budget_enter_sandbox(void);

// True if the thread of the theap is asked for what it does not use: BUDGET-3. / It has noticed.
// Returns true if this thread is also to collect what all threads share.
static inline bool mi_budget_asks(const mi_theap_t* theap) {
  return theap->shortage != mi_atomic_load_relaxed(&mi_state.shortage);
}
MI_INTERNAL bool mi_budget_answer(mi_theap_t* theap);

#endif
