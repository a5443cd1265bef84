// SPDX-License-Identifier: MIT
// crowd.c - decides which threads of a crowd are busy. Most threads of a crowd sleep, and what one
// holds is multiplied by hundreds, so that pages are shared (crowd.h says by which threads) and a
// thread holds a portion of blocks (portion.c).
//
// CROWD-1  a thread that waited less than twice in its last 1,024 refills is busy: it keeps its
//     pages as it does without a crowd (64 threads of larson that never wait: 0.4 of the time; one
//     thread beside 32 that sleep: 9 ns for a pair of 2 KiB, 103 otherwise) and, once it waits,
//     keeps what it holds until 1,024 refills later. A thread waited if a millisecond or two passed
//     between two slow refills; to see that takes no system call. Of 64 threads on two processors
//     that want to run all the time, 1 % are then taken for waiting: a thread that refills often is
//     hardly ever interrupted twice within so few refills, and one that refills seldom loses
//     little.
#include "crowd.h"

// A thread in a crowd that waited less often than this, in MI_CADENCE_CALLS refills, is busy.
#define MI_WAITS_MIN 2

MI_INTERNAL mi_attr_cold void mi_crowd_note_wait(mi_theap_t* home) {
  if (mi_os_was_away(&home->seen)) home->wait_count++;
}

MI_INTERNAL void mi_crowd_weigh_waits(mi_theap_t* home) {
  home->is_busy = home->wait_count < MI_WAITS_MIN;
  home->wait_count = 0;
}
