// SPDX-License-Identifier: MIT
// report.c - tests of common/report.c: what the program damaged is found everywhere lists are
// walked, and told when the user's functions may do anything: REPORT-1 to REPORT-5.
#include "unit.h"

#include "core/process/fork.h"
#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/pages/remote.h"
#include "core/common/report.h"
#include "core/threads/thread.h"

#define SIZE 32 // small, so that the first list of tiny builds has more than two blocks

static void* blocks[UNIT_BLOCKS_MAX];
static size_t handler_calls;

// An error function that does what needs every lock. With one held, or a theap in the middle of a
// change, this waits for ever or fails a check of the debug build.
static void do_anything(void) {
  handler_calls++;
  check_equal(mi_self()->locks_held, 0);
  check_equal(mi_self()->quiet, 0);
  void* const p = mi_malloc(SIZE);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  void* const q = mi_heap_malloc(heap, SIZE);
  check(p != NULL && q != NULL && p != q);
  os_fake.fork_prepare();
  os_fake.fork_parent();
  mi_heap_end_by_destroy(heap);
  mi_free(p);
  mi_collect_all(MI_FORCE);
}

static void expect(size_t count) {
  mi_free(mi_malloc(1));
  hooks_fake.on_error = &do_anything;
  check_equal(handler_calls, count);
}

static void told(mi_error_kind_t kind, const char* where, const void* p) {
  check_equal(hooks_fake.report.kind, kind);
  check(strcmp(hooks_fake.report.where, where) == 0);
  check(hooks_fake.report.p == p);
  check(strstr(hooks_fake.about, "block ") != NULL && strstr(hooks_fake.about, "page at ") != NULL);
  check(strstr(hooks_fake.about, "heap") != NULL);
}

// Makes the list that malloc of the theap takes blocks from lead out of the page, behind its second
// block, which is returned.
static mi_block_t* damage_list(mi_theap_t* theap, size_t size) {
  mi_block_t* const victim = theap->free[mi_class_of(size)]->next;
  victim->next = (mi_block_t*)(uintptr_t)0x5a5a5a5a5a58;
  return victim;
}

static mi_theap_t* thread_theap;
static void allocate_and_end(void* arg) {
  *(void**)arg = mi_malloc(SIZE);
  thread_theap = mi_self_theap();
}

// If this fails, a program that wrote to freed memory hangs when its error function allocates while
// the memory of a thread that ended is given up.
UNIT_TEST_PAGE_SIZES(report_of_an_orphan_waits_for_the_lock) {
  expect(0);
  void* p = NULL;
  unit_on_thread(&allocate_and_end, &p);
  const mi_block_t* const victim = damage_list(thread_theap, SIZE);
  mi_collect_all(MI_FORCE);
  check_equal(handler_calls, 1);
  told(MI_ERROR_CORRUPT_LIST, "mi_collect", victim);
  check(hooks_fake.report.found == (void*)(uintptr_t)0x5a5a5a5a5a58);
  check(strstr(hooks_fake.about, "left by a thread that ended") != NULL);
  mi_free(p);
}

// If this fails, the same hangs when a heap is deleted.
UNIT_TEST_PAGE_SIZES(report_of_a_deleted_heap_waits_for_the_lock) {
  expect(0);
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  void* const p = mi_heap_malloc(heap, SIZE);
  const mi_block_t* const victim = damage_list(mi_theap_find(heap), SIZE);
  mi_heap_end_by_delete(heap);
  check_equal(handler_calls, 1);
  told(MI_ERROR_CORRUPT_LIST, "mi_heap_delete", victim);
  mi_free(p);
}

static void damage_and_end(void* arg) {
  void** const p = (void**)arg;
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  p[0] = mi_malloc(SIZE);
  p[1] = mi_heap_malloc(heap, SIZE);
  damage_list(mi_theap_find(heap), SIZE);
}

// If this fails, a thread that ends leaves a theap behind that nobody owns, or hangs.
UNIT_TEST_PAGE_SIZES(report_at_the_end_of_a_thread) {
  expect(0);
  unit_on_thread(&damage_and_end, blocks);
  check_equal(handler_calls, 1);
  check(strcmp(hooks_fake.report.where, "thread exit") == 0);
  check_equal(mi_state.main.count.threads, 1); // what the function made it start again has ended
  mi_free(blocks[0]);
  mi_free(blocks[1]);
}

// If this fails, what is found under a lock is told late, or never.
UNIT_TEST(report_is_made_when_the_lock_is_left) {
  expect(0);
  void* const p = mi_malloc(SIZE);
  mi_lock_enter(&mi_state.thread_lock);
  mi_lock_enter(&mi_state.arena_lock);
  mi_report_block(MI_ERROR_DOUBLE_FREE, unit_page_of(p), p, NULL);
  mi_lock_leave(&mi_state.arena_lock);
  mi_report_deliver();
  check_equal(handler_calls, 0);
  mi_lock_leave(&mi_state.thread_lock);
  check_equal(handler_calls, 1);
  told(MI_ERROR_DOUBLE_FREE, "free", p);
  mi_free(p);
}

static void* from_handler[4];
static size_t in_handler_size;
static void take_the_same(void) {
  for (size_t i = 0; i < 4; i++) from_handler[i] = mi_malloc(in_handler_size);
}

// If this fails, an error function that allocates gets the very block that the program asked for,
// or calloc gives memory that is not zero.
UNIT_TEST_PAGE_SIZES(report_of_malloc_comes_behind_it) {
  static const size_t sizes[] = {16, 48, 100, 256};
  for (size_t i = 0; i < 8; i++) {
    in_handler_size = sizes[i % 4];
    const size_t c = mi_class_of(in_handler_size);
    const size_t count = unit_fill_page(c, blocks);
    unit_fill(blocks[0], in_handler_size, 7);
    mi_free(blocks[0]);
    mi_free(blocks[0]);
    hooks_fake.on_error = &take_the_same;
    void* const p = i < 4 ? mi_malloc(in_handler_size) : mi_zalloc(in_handler_size);
    hooks_fake.on_error = NULL;
    check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], i + 1);
    told(MI_ERROR_DOUBLE_FREE, "malloc", blocks[0]);
    if (i >= 4) check(unit_is_zero(p, in_handler_size));
    for (size_t k = 0; k < 4; k++) {
      check(from_handler[k] != NULL && from_handler[k] != p);
      for (size_t j = 0; j < k; j++) check(from_handler[j] != from_handler[k]);
    }
    mi_free(p);
    for (size_t k = 0; k < 4; k++) mi_free(from_handler[k]);
    for (size_t k = 1; k < count; k++) mi_free(blocks[k]);
  }
}

// If this fails, a list that leads out of its page is followed when it is handed out.
UNIT_TEST_PAGE_SIZES(report_of_a_link_at_refill) {
  const size_t c = mi_class_of(SIZE);
  const size_t count = unit_fill_page(c, blocks);
  mi_theap_set_quick(unit_theap(), 1); // else alloc.c swaps the list without a look
  mi_free(blocks[0]);
  mi_free(blocks[1]);
  mi_page_t* const page = unit_page_of(blocks[1]);
  ((mi_block_t*)blocks[1])->next = (mi_block_t*)(page->start + page->slice_count * MI_SLICE_SIZE);
  blocks[1] = mi_malloc(SIZE);
  check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], 1);
  told(MI_ERROR_CORRUPT_LIST, "malloc", blocks[1]);
  check(hooks_fake.report.found == page->start + page->slice_count * MI_SLICE_SIZE);
  // What hung behind it is lost: it counts as in use.
  check(mi_page_is_valid(page));
  for (size_t i = 1; i < count; i++) mi_free(blocks[i]);
  check_equal(hooks_fake.error_count, 1);
}

// If this fails, a page whose list is damaged is released while blocks of it are in use.
UNIT_TEST_PAGE_SIZES(report_of_a_link_when_a_page_is_empty) {
  mi_page_t* const page = unit_make_page(mi_class_of(SIZE), 2, blocks);
  mi_life_enqueue(unit_theap(), page);
  mi_free(blocks[0]);
  ((mi_block_t*)blocks[0])->next = (mi_block_t*)(page->start - 8);
  page->local_free = (mi_block_t*)blocks[0];
  blocks[0] = page->local_free;
  expect(0);
  page->local_free = (mi_block_t*)blocks[1];
  ((mi_block_t*)blocks[1])->next = (mi_block_t*)(page->start - 8);
  page->count.used = 0;
  mi_flush_emptied(unit_theap(), page);
  check_equal(handler_calls, 1);
  told(MI_ERROR_CORRUPT_LIST, "free", blocks[1]);
  check(mi_page_is_valid(page) && page->count.used > 0);
}

// If this fails, a link that leads to the next page of the same size is taken for right.
UNIT_TEST_PAGE_SIZES(report_of_a_link_into_another_page) {
  const size_t size = 64; // divides a slice
  mi_page_t* const page = unit_make_page(mi_class_of(size), 4, blocks);
  mi_free(blocks[0]);
  page->local_free = NULL;
  page->count.used = mi_page_capacity(page);
  mi_block_t* list = (mi_block_t*)blocks[1];
  list->next = (mi_block_t*)(page->start + page->slice_count * MI_SLICE_SIZE);
  mi_block_t* last;
  check_equal(mi_page_measure(page, &list, &last), 1);
  check(last == blocks[1] && last->next == NULL);
  check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], 1);
  list = (mi_block_t*)(page->start - size);
  check_equal(mi_page_measure(page, &list, &last), 0);
  check(list == NULL && last == NULL);
  check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], 2);
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
}

// If this fails, a loop in a list hangs the program when it gives memory back.
UNIT_TEST_PAGE_SIZES(report_of_a_loop_in_the_list_of_malloc) {
  expect(0);
  const size_t size =
      mi_class_size(mi_class_of(MI_SLICE_SIZE / 8) + 1); // mi_flush_trim looks at it
  static const size_t sizes[] = {SIZE, 0};
  for (size_t i = 0; i < 2; i++) {
    const size_t wanted = sizes[i] != 0 ? sizes[i] : size;
    void* const p = mi_malloc(wanted);
    mi_block_t* const first = unit_theap()->free[mi_class_of(wanted)];
    if (first == NULL || first->next == NULL) continue;
    mi_page_t* const page = unit_page_of(p);
    first->next->next = first;
    mi_flush_trim(unit_theap(), 0, MI_CLASS_COUNT);
    mi_flush_theap(unit_theap());
    check_equal(hooks_fake.count[MI_ERROR_CORRUPT_LIST], handler_calls);
    check(mi_page_is_valid(page));
    mi_free(p);
  }
  check(handler_calls >= 1);
}

// If this fails, a descriptor that contradicts itself gives the slices of others to the system.
UNIT_TEST_PAGE_SIZES(report_of_a_page_that_contradicts_itself) {
  for (size_t kind = 0; kind < 4; kind++) {
    void* p;
    mi_page_t* const page = unit_make_page(mi_class_of(SIZE), 1, &p);
    mi_page_t saved = *page;
    page->local_free = NULL;
    page->count.used = 0;
    if (kind == 0) page->start += MI_SLICE_SIZE;
    if (kind == 1) page->slice_count++;
    if (kind == 2) page->size_class = 255;
    if (kind == 3) page->block_size += 16;
    const size_t slices = unit_free_slices();
    mi_page_release(UNIT_HEAP, page);
    check_equal(hooks_fake.count[MI_ERROR_CORRUPT_PAGE], kind + 1);
    check(strstr(hooks_fake.about, "the page is damaged") != NULL);
    check_equal(unit_free_slices(), slices);
    page->start = saved.start;
    page->slice_count = saved.slice_count;
    page->size_class = saved.size_class;
    page->block_size = saved.block_size;
    mi_page_release(UNIT_HEAP, page);
    check_equal(unit_free_slices(), slices + saved.slice_count);
  }
}

enum { MANY = 20 };
static size_t seen_missed;
static void note_missed(void) { seen_missed += hooks_fake.report.missed; }

// If this fails, reports are lost without a trace, or one place for them stays taken for ever.
UNIT_TEST(report_counts_what_finds_no_room) {
  hooks_fake.on_error = &note_missed;
  for (size_t round = 1; round <= 3; round++) {
    mi_report_enter(MI_REPORT_IN_FREE);
    mi_page_t* const page = unit_make_page(mi_class_of(SIZE), 1, blocks);
    for (size_t i = 0; i < MANY; i++) {
      mi_report_block(MI_ERROR_DOUBLE_FREE, page, blocks[0], NULL);
    }
    mi_report_leave();
    check_equal(seen_missed, round * 4);
    check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], round * 17);
    page->count.used = 0;
    page->local_free = NULL;
    mi_page_release(UNIT_HEAP, page);
  }
}

// If this fails, a flood of reports is told as a handful: the count of them starts again.
UNIT_TEST(report_counts_no_further_than_it_can) {
  hooks_fake.on_error = &note_missed;
  seen_missed = 0;
  mi_report_enter(MI_REPORT_IN_FREE);
  mi_page_t* const page = unit_make_page(mi_class_of(SIZE), 1, blocks);
  for (size_t i = 0; i < 16 + 300; i++) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, page, blocks[0], NULL);
  }
  mi_report_leave();
  check_equal(seen_missed, MI_SELF_MISSED_MAX);
  page->count.used = 0;
  page->local_free = NULL;
  mi_page_release(UNIT_HEAP, page);
}

static void fill_slots(void* arg) {
  mi_report_enter(MI_REPORT_IN_FREE);
  for (size_t i = 0; i < 16; i++) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, unit_page_of(arg), arg, NULL);
  }
}
static void leave_slots(void* arg) {
  (void)arg;
  mi_report_leave();
}

// If this fails, a child of fork has no room for its own reports, or tells those of its parent.
UNIT_TEST(report_of_other_threads_is_forgotten_in_a_child) {
  static puppet_t other;
  void* const p = mi_malloc(SIZE);
  puppet_start(&other);
  puppet_do(&other, &fill_slots, p);
  mi_report_keep_own();
  fill_slots(p);
  mi_report_leave();
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 16);
  puppet_do(&other, &leave_slots, NULL); // as if it were another thread with that id
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 16);
  puppet_end(&other);
  mi_free(p);
}

static void fail_again(void) {
  handler_calls++;
  mi_report_enter(MI_REPORT_IN_MALLOC);
  mi_report_block(MI_ERROR_DOUBLE_FREE, unit_page_of(blocks[0]), blocks[0], NULL);
  mi_report_leave();
}

// If this fails, an error function that makes the same mistake never returns.
UNIT_TEST(report_from_an_error_function_ends) {
  blocks[0] = mi_malloc(SIZE);
  hooks_fake.on_error = &fail_again;
  mi_report_enter(MI_REPORT_IN_FREE);
  mi_report_block(MI_ERROR_DOUBLE_FREE, unit_page_of(blocks[0]), blocks[0], NULL);
  mi_report_leave();
  check_equal(handler_calls, 1);
  hooks_fake.on_error = NULL;
  mi_report_deliver();
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 2);
  mi_free(blocks[0]);
}

static jmp_buf outside;
static void jump_out(void) {
  handler_calls++;
  longjmp(outside, 1);
}

static void report_three(void) {
  mi_report_enter(MI_REPORT_IN_FREE);
  for (size_t i = 0; i < 3; i++) {
    mi_report_block(MI_ERROR_DOUBLE_FREE, unit_page_of(blocks[0]), blocks[0], NULL);
  }
  mi_report_leave();
}

// If this fails, an attacker who makes the error function end early is not noticed any more.
UNIT_TEST(report_that_was_left_silences_none) {
  blocks[0] = mi_malloc(SIZE);
  hooks_fake.on_error = &jump_out;
  if (setjmp(outside) == 0) {
    report_three();
    check(false);
  }
  check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 1);
  for (size_t round = 0; round < 20; round++) { // more than there are slots
    report_three();
    check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 6 + 3 * round);
  }
  check_equal(handler_calls, 1);
  mi_free(blocks[0]);
}

static void leave_reports(void* arg) {
  (void)arg;
  mi_free(mi_malloc(SIZE));
  if (setjmp(outside) == 0) report_three();
}

// If this fails, threads that end after such a jump take the places of all reports with them.
UNIT_TEST(reports_that_a_thread_has_left_are_told_at_its_end) {
  blocks[0] = mi_malloc(SIZE);
  hooks_fake.on_error = &jump_out;
  for (size_t round = 1; round <= 20; round++) {
    unit_on_thread(&leave_reports, NULL);
    check_equal(hooks_fake.count[MI_ERROR_DOUBLE_FREE], 3 * round);
    check_equal(handler_calls, round);
  }
  mi_free(blocks[0]);
}

// If this fails, an error function cannot free memory when there is none.
UNIT_TEST(report_of_a_request_never_waits) {
  mi_free(mi_malloc(1));
  mi_report_enter(MI_REPORT_IN_FREE);
  mi_report(MI_ERROR_OUT_OF_MEMORY, "malloc", NULL, 100);
  check_equal(hooks_fake.count[MI_ERROR_OUT_OF_MEMORY], 1);
  mi_report_leave();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(report_of_an_orphan_waits_for_the_lock),
      cmocka_unit_test(report_of_a_deleted_heap_waits_for_the_lock),
      cmocka_unit_test(report_at_the_end_of_a_thread),
      cmocka_unit_test(report_is_made_when_the_lock_is_left),
      cmocka_unit_test(report_of_malloc_comes_behind_it),
      cmocka_unit_test(report_of_a_link_at_refill),
      cmocka_unit_test(report_of_a_link_when_a_page_is_empty),
      cmocka_unit_test(report_of_a_link_into_another_page),
      cmocka_unit_test(report_of_a_loop_in_the_list_of_malloc),
      cmocka_unit_test(report_of_a_page_that_contradicts_itself),
      cmocka_unit_test(report_counts_what_finds_no_room),
      cmocka_unit_test(report_counts_no_further_than_it_can),
      cmocka_unit_test(report_of_other_threads_is_forgotten_in_a_child),
      cmocka_unit_test(report_from_an_error_function_ends),
      cmocka_unit_test(report_that_was_left_silences_none),
      cmocka_unit_test(reports_that_a_thread_has_left_are_told_at_its_end),
      cmocka_unit_test(report_of_a_request_never_waits),
  };
  return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
