// SPDX-License-Identifier: MIT
// play.h - see play.c.
#ifndef MI_TRACE_PLAY_H
#define MI_TRACE_PLAY_H

#include "plan.h"

typedef enum mi_play_touch_e {
  MI_PLAY_NOTHING, // blocks are not written to
  MI_PLAY_PAGES, // the first byte, and that of each OS page
  MI_PLAY_ALL // all bytes
} mi_play_touch_t;

// What was measured. Sizes are bytes, times seconds.
typedef struct mi_play_result_s {
  double wall, cpu; // of all threads; `cpu` without what the player takes
  double own; // what the player takes
  uint64_t faults; // page faults that needed no disk
  int64_t start_resident; // before the first call: libc, code, what the allocator begins with
  int64_t peak_resident; // -1: the system does not say
  int64_t end_resident; // with all threads that live at the end; -1: as above
  uint64_t table_bytes; // that were subtracted from these
} mi_play_result_t;

// Play it `times` times; all but the last time, what lives at the end is freed then. The figures of
// time are sums. Ends the program with a message if the allocator fails.
void mi_play(const mi_plan_t* plan, mi_play_touch_t touch, uint32_t times,
             mi_play_result_t* result);

#endif
