// SPDX-License-Identifier: MIT
// crowd.c - decides which threads of a crowd are busy. Most threads of a crowd sleep, and what one
// holds is multiplied by hundreds, so that pages are shared (crowd.h says by which threads) and a
// thread holds a portion of blocks (portion.c).
//
// CROWD-1  a thread is busy, and keeps its pages as it does without a crowd (64 threads of larson
//     that never wait: 0.4 of the time; one thread beside 32 that sleep: 9 ns for a pair of 2 KiB,
//     103 otherwise), once it has refilled MI_CADENCE_CALLS * MI_BUSY_SCORE times, not counting
//     MI_WAIT_COST of these for each time it waited. While it is busy a wait counts
//     MI_WAIT_COST_BUSY, because a refill then brings a page, not a few blocks, and it is busy
//     until nothing of the score is left. So a thread that answers requests shares from the start,
//     although no request takes it long, and one that stops to work in a crowd shares some requests
//     later; a thread that is only ever interrupted stays busy. A thread waited if two milliseconds
//     passed between two looks, MI_QUICK_WAITING refills apart; to see that takes no system call.
//
// Deliberately absent: threads that sleep for good after they were busy. Their current pages cannot
// be taken from them (hold.c, docs/decisions.md).
#include "crowd.h"

#define MI_BUSY_SCORE 16
#define MI_WAIT_COST 2
#define MI_WAIT_COST_BUSY 1

static void mi_crowd_set_busy(mi_theap_t* home, bool is_busy) {
  if (home->is_busy == is_busy) return;
  home->is_busy = is_busy;
  mi_count_add(&mi_theap_subproc(home)->count.busy_threads, is_busy ? 1 : -1);
}

MI_INTERNAL mi_attr_cold void mi_crowd_look(mi_theap_t* home) {
  if (!mi_os_was_away(&home->seen)) return;
  const uint32_t cost = home->is_busy ? MI_WAIT_COST_BUSY : MI_WAIT_COST;
  home->busy_score -= home->busy_score < cost ? home->busy_score : cost;
  if (home->busy_score == 0) mi_crowd_set_busy(home, false);
}

MI_INTERNAL void mi_crowd_credit(mi_theap_t* home) {
  if (home->busy_score < MI_BUSY_SCORE) home->busy_score++;
  if (home->busy_score == MI_BUSY_SCORE) mi_crowd_set_busy(home, true);
}

MI_INTERNAL void mi_crowd_leave(mi_theap_t* home) {
  home->busy_score = 0;
  mi_crowd_set_busy(home, false);
}
