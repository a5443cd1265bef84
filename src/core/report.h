// SPDX-License-Identifier: MIT
// report.h - telling the layers above what went wrong (hooks.h), when that can do no harm.
#ifndef MI_CORE_REPORT_H
#define MI_CORE_REPORT_H

#include "hooks.h"

// What a thread knows of its own reports.
typedef struct mi_report_thread_s {
  const char* where; // what the user called, while `quiet`
  uint32_t quiet; // how deep this thread is in `mi_report_enter`
  uint32_t waiting; // reports in slots
  uint32_t missed; // and those that found no slot
  uint8_t missed_kind; // mi_error_kind_t of the last of them
  bool is_delivering;
} mi_report_thread_t;

MI_INTERNAL_DATA_DECL __thread mi_report_thread_t mi_report_tls mi_attr_tls;

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
static inline void mi_report_enter(const char* where) {
  if (mi_report_tls.quiet++ == 0) mi_report_tls.where = where;
}

static inline void mi_report_leave(void) {
  mi_report_tls.quiet--;
  if (mi_unlikely((mi_report_tls.waiting | mi_report_tls.missed) != 0)) mi_report_deliver();
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
