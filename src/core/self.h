// SPDX-License-Identifier: MIT
// self.h - what a thread knows of itself besides its theaps, also when it has none yet or any more.
//
// O1  only the thread itself reads or writes it; a signal handler on it leaves it as it was.
// O2  it is small: these variables take room in the static block of every thread, of which little
//     is left for libraries that are loaded late. With the pointers of theap.h, the parcel of
//     remote.c and the locks of os/lock.h it is 48 bytes in all (test/interop/test_embed.py).
//
// What the fields of reports mean is in report.c, where they are defined.
#ifndef MI_CORE_SELF_H
#define MI_CORE_SELF_H

#include "../base/config.h"

typedef struct mi_self_s {
  // -- report.c --
  uint8_t place; // mi_report_place_t: what the user called, while `quiet`
  uint8_t quiet; // how deep this thread is in `mi_report_enter`
  uint8_t waiting; // reports in slots
  uint8_t missed; // and those that found no slot; MI_SELF_MISSED_MAX: so many or more
  uint8_t missed_kind : 4; // mi_error_kind_t of the last of them
  bool is_delivering : 1;
  // -- api/output.c --
  bool is_printing : 1;
  bool is_in_error : 1; // in the user's error function
  // -- api/process.c --
  bool is_in_deferred : 1; // in the user's deferred-free function
  // -- fork.c --
  // Forks that this thread began inside a lock and that are not over. They end in reverse order,
  // and those that began outside one are the outermost.
  uint8_t forks_inside;
} mi_self_t;

#define MI_SELF_MISSED_MAX UINT8_MAX

MI_INTERNAL_DATA_DECL __thread mi_self_t mi_self mi_attr_tls;

#endif
