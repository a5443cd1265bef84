// SPDX-License-Identifier: MIT
// report.h - telling the layers above what went wrong (hooks.h), when that can do no harm.
#ifndef MI_CORE_REPORT_H
#define MI_CORE_REPORT_H

#include "hooks.h"
#include "self.h"

// What a user can have called where reports wait.
typedef enum mi_report_place_e {
  MI_REPORT_IN_FREE = 0,
  MI_REPORT_IN_MALLOC,
  MI_REPORT_IN_COLLECT,
  MI_REPORT_IN_HEAP_DELETE,
  MI_REPORT_IN_FORK,
  MI_REPORT_IN_THREAD_EXIT,
  MI_REPORT_PLACES,
} mi_report_place_t;

// Report what concerns a request of `size` bytes, or address `p`. `where` is what the user called.
MI_INTERNAL void mi_report(mi_error_kind_t kind, const char* where, const void* p, size_t size);

// Report what concerns a block of `page`; `found` is the link, or NULL.
MI_INTERNAL void mi_report_block(mi_error_kind_t kind, mi_page_t* page, const void* block,
                                 const void* found);

// Reports that are waiting are made, if they may be made now.
MI_INTERNAL void mi_report_deliver(void);

// In the child of a fork: what other threads had to report is forgotten.
MI_INTERNAL void mi_report_keep_own(void);

// From here on structures are between two states that a function of the user may not meet: reports
// of this thread wait until it leaves. May be nested; the outermost says what the user called.
static inline void mi_report_enter(mi_report_place_t place) {
  if (mi_self.quiet++ == 0) mi_self.place = (uint8_t)place;
}

static inline void mi_report_leave(void) {
  mi_self.quiet--;
  if (mi_unlikely((mi_self.waiting | mi_self.missed) != 0)) mi_report_deliver();
}

// An assertion about a page: a failure describes it.
#if MI_DEBUG >= 1
MI_INTERNAL void mi_report_assertion(const mi_page_t* page, const char* text, const char* file,
                                     int line, const char* function);
#define mi_assert_page(page, e)                                                                    \
  ((e) ? (void)0 : mi_report_assertion(page, #e, __FILE__, __LINE__, __func__))
#else
#define mi_assert_page(page, e) ((void)sizeof((e) ? 1 : 0))
#endif

#if MI_DEBUG >= 3
#define mi_assert_page_full(page, e) mi_assert_page(page, e)
#else
#define mi_assert_page_full(page, e) ((void)sizeof((e) ? 1 : 0))
#endif

#endif
