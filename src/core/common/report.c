// SPDX-License-Identifier: MIT
// report.c - reports of misuse and damage wait here until they may be passed to the user.
//
//   found --> may the user's functions run now?  yes --> mi_hook_error
//                |  no                                       ^
//                v                                           |
//             a slot, until the thread has left its last lock and `mi_report_leave`
//
// The functions that a user registers for output and errors may call any function: malloc,
// mi_heap_new, fork. So they are never called with a lock held (which they might then wait for),
// nor in the middle of a change.
// REPORT-1  a report waits while its thread holds a lock (os/lock.h knows) or is between
//     `mi_report_enter` and `mi_report_leave`. It is delivered on the same thread, before the
//     public function returns: when the thread lock is left (`on_left`; under the other locks no
//     code looks at data that a program can damage), or by `mi_report_leave`.
// REPORT-2  the facts of a report, and the bytes that it shows, are copied when the mistake is
//     found: the page may be gone at the delivery.
// REPORT-3  slots are few, and taken without waiting. Reports that find no slot are counted, and
//     one report tells their number.
// REPORT-4  the refusal of a request is found only outside of locks and such sections, and its
//     report never waits: an error function may free memory.
// REPORT-5  a function that is called may never come back (longjmp, a C++ exception), or find a
//     mistake itself: what is found then is told at once, with all that waits. mi_hook_error does
//     not call the function of errors again then, so that there is an end.
#include "report.h"

#include "../../base/text.h"
#include "state.h"

#define MI_REPORT_SLOTS 16

typedef struct mi_report_slot_s {
  // thread - the thread that has the slot, 0 none. Only that thread reads or writes `report`.
  //   write  any    CAS acquire    claim      mi_report_claim  (sees that the last one was read)
  //   write  owner  store release  give back  mi_report_take   (publishes that it was read)
  //   write  child of a fork, its only thread  store relaxed  mi_report_keep_own
  //   read   any    relaxed        "is it mine?": only this thread writes its own id
  mi_atomic(uintptr_t) thread;
  mi_report_t report;
} mi_report_slot_t;

static mi_report_slot_t mi_report_slots[MI_REPORT_SLOTS] mi_attr_sparse;

mi_static_assert(MI_ERROR_COUNT <= 16, "a kind fits into its field");
mi_static_assert(MI_REPORT_SLOTS <= UINT8_MAX, "and what waits");

static const char mi_report_places[MI_REPORT_PLACES][16] mi_attr_rare = {
    [MI_REPORT_IN_FREE] = "free",          [MI_REPORT_IN_MALLOC] = "malloc",
    [MI_REPORT_IN_COLLECT] = "mi_collect", [MI_REPORT_IN_HEAP_DELETE] = "mi_heap_delete",
    [MI_REPORT_IN_FORK] = "fork",          [MI_REPORT_IN_THREAD_EXIT] = "thread exit",
};

static bool mi_report_may_call(void) { return mi_self()->quiet == 0 && mi_self()->locks_held == 0; }

static mi_report_slot_t* mi_report_claim(void) {
  for (size_t i = 0; i < MI_REPORT_SLOTS; i++) {
    uintptr_t nobody = 0;
    // Pairs with the release in `mi_report_take`.
    if (mi_atomic_cas_strong_acquire(&mi_report_slots[i].thread, &nobody, mi_tls_thread_id())) {
      return &mi_report_slots[i];
    }
  }
  return NULL;
}

// Return the name of the user's call that the thread is in.
static const char* mi_report_where(void) {
  return mi_report_places[mi_self()->quiet > 0 ? mi_self()->place : MI_REPORT_IN_FREE];
}

static void mi_report_keep(const mi_report_t* report) {
  mi_report_slot_t* const slot = mi_report_claim();
  if (slot != NULL) {
    slot->report = *report;
    mi_self()->waiting++;
  } else {
    if (mi_self()->missed < MI_SELF_MISSED_MAX) mi_self()->missed++;
    mi_self()->missed_kind = (unsigned)report->kind & 15;
  }
}

// Take the first waiting report of this thread. False if there is none.
static bool mi_report_take(mi_report_t* report) {
  for (size_t i = 0; i < MI_REPORT_SLOTS; i++) {
    mi_report_slot_t* const slot = &mi_report_slots[i];
    if (mi_atomic_load_relaxed(&slot->thread) != mi_tls_thread_id()) continue;
    *report = slot->report;
    // Publishes that the report was read; pairs with the acquire in `mi_report_claim`.
    mi_atomic_store_release(&slot->thread, 0);
    return true;
  }
  return false;
}

MI_INTERNAL mi_attr_cold void mi_report_deliver(void) {
  mi_self_t* const self = mi_self();
  if (mi_likely((self->waiting | self->missed) == 0)) return;
  if (!mi_report_may_call()) return;
  const size_t missed = self->missed;
  const mi_error_kind_t missed_kind = (mi_error_kind_t)self->missed_kind;
  // Before the first call, which leads here again only if it finds something: REPORT-5.
  self->waiting = self->missed = 0;
  mi_report_t report;
  for (size_t left = MI_REPORT_SLOTS; left > 0 && mi_report_take(&report); left--) {
    mi_hook_error(&report);
  }
  if (missed == 0) return;
  report = (mi_report_t){.kind = missed_kind, .missed = missed};
  mi_hook_error(&report);
}

MI_INTERNAL void mi_report_keep_own(void) {
  for (size_t i = 0; i < MI_REPORT_SLOTS; i++) {
    if (mi_atomic_load_relaxed(&mi_report_slots[i].thread) == mi_tls_thread_id()) continue;
    mi_atomic_store_relaxed(&mi_report_slots[i].thread, 0);
  }
}

static void mi_report_make(const mi_report_t* report) {
  if (report->p == NULL || mi_report_may_call()) { // REPORT-4
    mi_hook_error(report);
  } else {
    mi_report_keep(report);
  }
}

// Copy bytes of the page, from `start` to `end`, to show them.
static void mi_report_show(mi_report_t* report, const uint8_t* start, const uint8_t* end) {
  report->bytes_at = start;
  report->byte_count = (uint8_t)mi_bits_min((size_t)(end - start), sizeof(report->bytes));
  mi_describe_copy_bytes(report->bytes, start, report->byte_count);
}

// A mistake tells what the block is, where the build does not know it, or is changing it just now.
static void mi_report_correct(mi_report_t* report) {
  mi_about_block_t* const block = &report->about.block;
  if (block->state == MI_BLOCK_NONE) return;
  if (report->kind == MI_ERROR_OVERFLOW || report->kind == MI_ERROR_UNDERFLOW) {
    block->state = MI_BLOCK_USED;
    block->start = (const uint8_t*)report->p;
    if (!MI_HAS_CANARY)
      block->size = report->size; // the canary is damaged, and so the size is not known
  } else if (report->kind == MI_ERROR_DOUBLE_FREE || report->kind == MI_ERROR_CORRUPT_LIST) {
    if (block->state == MI_BLOCK_UNKNOWN) block->state = MI_BLOCK_FREE;
  }
}

MI_INTERNAL mi_attr_cold void mi_report(mi_error_kind_t kind, const char* where, const void* p,
                                        size_t size) {
  mi_report_t report = {.kind = kind, .where = where, .p = p, .size = size};
  if (p != NULL) mi_describe_address(p, &report.about);
  mi_report_correct(&report);
  mi_report_make(&report);
}

MI_INTERNAL mi_attr_cold void mi_report_block(mi_error_kind_t kind, mi_page_t* page,
                                              const void* block, const void* found) {
  mi_report_t report = {.kind = kind, .p = block, .found = found};
  report.where = mi_report_where();
  mi_describe_page(page, block, &report.about);
  report.size = report.about.block_size;
  const mi_block_state_t state = report.about.block.state;
  const bool is_carved = state != MI_BLOCK_NONE && state != MI_BLOCK_FRESH;
  // The link in the block was followed just now.
  if (kind == MI_ERROR_CORRUPT_LIST && is_carved && block == mi_about_slot(&report.about)) {
    const size_t size = mi_bits_min(report.about.block_size, MI_REPORT_BYTES);
    mi_report_show(&report, (const uint8_t*)block, (const uint8_t*)block + size);
  }
  mi_report_correct(&report);
  mi_report_make(&report);
}

MI_INTERNAL mi_attr_cold void mi_report_write(mi_error_kind_t kind, const char* where,
                                              const void* block, size_t size, const void* found,
                                              size_t left) {
  mi_report_t report = {.kind = kind, .p = block, .size = size, .found = found};
  report.where = where != NULL ? where : mi_report_where();
  mi_describe_address(block, &report.about);
  const uint8_t* const first = (const uint8_t*)found;
  const uint8_t* start = first;
  // What is before it in the slot, in the same OS page: the one before may be a guard. (What is
  // left of a canary is not for others.)
  if (!MI_HAS_CANARY && report.about.kind == MI_ABOUT_PAGE) {
    const uint8_t* const from =
        kind == MI_ERROR_UNDERFLOW ? mi_about_slot(&report.about) : (const uint8_t*)block;
    const size_t in_page = (uintptr_t)first % mi_state.os.page_size;
    const size_t in_slot = from < first ? (size_t)(first - from) : 0;
    start -= mi_bits_min(mi_bits_min(in_slot, in_page), MI_REPORT_BYTES);
  }
  mi_report_show(&report, start, first + mi_bits_min(left, MI_REPORT_BYTES));
  mi_report_correct(&report);
  mi_report_make(&report);
}

#if MI_DEBUG >= 1
MI_INTERNAL void mi_report_assertion(const mi_page_t* page, const char* text, const char* file,
                                     int line, const char* function) {
  char buffer[MI_DESCRIBE_TEXT_MAX];
  mi_about_t about;
  mi_describe_page(page, NULL, &about);
  mi_describe_text(&about, buffer, sizeof(buffer));
  mi_assert_failed_about(text, file, line, function, buffer);
}
#endif
