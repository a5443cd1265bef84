// SPDX-License-Identifier: MIT
// report.h - reports of misuse to the layers above (hooks.h), made at a moment when that is safe.
#ifndef MI_CORE_REPORT_H
#define MI_CORE_REPORT_H

#include "hooks.h"
#include "self.h"

// The calls of the user during which reports wait.
typedef enum mi_report_place_e {
  MI_REPORT_IN_FREE = 0,
  MI_REPORT_IN_MALLOC,
  MI_REPORT_IN_COLLECT,
  MI_REPORT_IN_HEAP_DELETE,
  MI_REPORT_IN_FORK,
  MI_REPORT_IN_THREAD_EXIT,
  MI_REPORT_PLACES,
} mi_report_place_t;

// Report a mistake with a request of `size` bytes, or with address `p`. `where` names the user's
// call.
MI_INTERNAL void mi_report(mi_error_kind_t kind, const char* where, const void* p, size_t size);

// Report a mistake with a block of `page`; `found` is where a corrupt link leads to, or NULL.
MI_INTERNAL void mi_report_block(mi_error_kind_t kind, mi_page_t* page, const void* block,
                                 const void* found);

// Report a write of the program outside of a block in use, or into a free one: the overwritten byte
// at `found` and those behind it, `left` at most, are shown. `size` is what the block was asked
// for. `where` names the user's call that found it; NULL: as for a block of a page.
MI_INTERNAL void mi_report_write(mi_error_kind_t kind, const char* where, const void* block,
                                 size_t size, const void* found, size_t left);

// Make the waiting reports of this thread, if they may be made now.
MI_INTERNAL void mi_report_deliver(void);

// In the child of a fork: forget the reports of other threads.
MI_INTERNAL void mi_report_keep_own(void);

// Begin a section in which structures are inconsistent, so that no function of the user may run:
// reports of this thread wait until it leaves the section. Sections may be nested; the `place` of
// the outermost one names the user's call.
static inline void mi_report_enter(mi_report_place_t place) {
  if (mi_self()->quiet++ == 0) mi_self()->place = (uint8_t)place;
}

static inline void mi_report_leave(void) {
  mi_self()->quiet--;
  if (mi_unlikely((mi_self()->waiting | mi_self()->missed) != 0)) mi_report_deliver();
}

// The same at the end of a thread: what a function that never came back has left in slots is told,
// too (REPORT-5), because nobody else could empty these.
static inline void mi_report_leave_thread(void) {
  mi_self()->waiting++;
  mi_report_leave();
}

// An assertion about a page: its failure describes the page.
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
