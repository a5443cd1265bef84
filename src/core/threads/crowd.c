// SPDX-License-Identifier: MIT
// crowd.c - a crowd of threads, most of which sleep: what a thread holds counts hundreds of times,
// so that pages are shared (crowd.h says by whom) and a thread holds a portion of blocks
// (portion.c).
//
// CROWD-1  a thread that waited less than twice in its last 1,024 refills is busy: it keeps pages
//     of small blocks as it does without a crowd (64 threads of larson that never wait: 0.4 of the
//     time) and holds what it holds then, when it waits at last, until 1,024 refills later. It
//     waited if a millisecond or two passed between two slow refills, that is without a system
//     call. Of 64 threads on two processors that want to run all the time, 1 % are then taken for
//     waiting: who refills often is hardly ever interrupted twice within so few refills, and who
//     refills seldom does not care.
#include "crowd.h"

// A thread in a crowd that waited less often in so many refills is busy.
#define MI_WAITS_MIN 2

MI_INTERNAL mi_attr_cold void mi_crowd_note_wait(mi_theap_t* home) {
  if (mi_os_was_away(&home->seen)) home->wait_count++;
}

MI_INTERNAL void mi_crowd_weigh_waits(mi_theap_t* home) {
  home->is_busy = home->wait_count < MI_WAITS_MIN;
  home->wait_count = 0;
}
