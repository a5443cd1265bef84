// SPDX-License-Identifier: MIT
// thread.c - tests of threads/thread.c: THREAD-1 to THREAD-3, with real threads one after the
// other.
#include "unit.h"

#include "core/heaps/heap.h"
#include "core/pages/page.h"
#include "core/heaps/subproc.h"
#include "core/threads/theap.h"
#include "core/threads/thread.h"

#define SIZE 256

static void* blocks[UNIT_BLOCKS_MAX];

static size_t orphan_list_length(void) {
  size_t count = 0;
  for (mi_theap_t* t = mi_state.orphans; t != NULL; t = t->orphan_next) count++;
  return count;
}

static size_t theaps_in_use(void) {
  size_t count = 0;
  for (size_t i = 0; i < MI_THEAP_BUCKETS; i++) {
    for (mi_theap_t* t = mi_state.theap_bucket[i]; t != NULL; t = t->bucket_next) count++;
  }
  return count;
}

typedef struct visit_s {
  size_t count; // blocks to allocate; they stay in `blocks`
  mi_theap_t* theap; // the thread's
  uintptr_t id;
} visit_t;

static void visit(void* arg) {
  visit_t* const v = (visit_t*)arg;
  check(mi_self_theap() == &mi_theap_empty);
  for (size_t i = 0; i < v->count; i++) blocks[i] = mi_malloc(SIZE);
  v->theap = mi_self_theap();
  v->id = mi_tls_thread_id();
  check(v->theap->thread_id == v->id);
}

static void leave_and_stay(void* arg) {
  (void)arg;
  mi_free(mi_malloc(SIZE));
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 2);
  mi_thread_withdraw(); // as mi_thread_done
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 2);
  mi_free(mi_malloc(SIZE));
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 2);
  mi_thread_leave();
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 1);
  mi_free(mi_malloc(SIZE));
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 2);
  mi_thread_stay_absent();
  mi_free(mi_malloc(SIZE));
  mi_thread_leave();
  mi_free(mi_malloc(SIZE));
  check(!mi_thread_is_present());
}

static void withdraw_and_end(void* arg) {
  (void)arg;
  mi_free(mi_malloc(SIZE));
  mi_thread_withdraw();
  mi_thread_withdraw();
  check(mi_thread_is_present() && mi_self_theap() == &mi_theap_empty);
}

// THREAD-7. If this fails, a program whose threads all say that they are idle (mi_thread_done) has
// no purge thread any more, or one that keeps it alive when they have ended.
UNIT_TEST(thread_is_present_without_a_home) {
  mi_free(mi_malloc(SIZE));
  mi_thread_withdraw();
  check_equal(mi_state.main.count.threads, 0);
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 1);
  unit_on_thread(&withdraw_and_end, NULL);
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 1);
  check_equal(hooks_fake.last_thread_count, 0);
  // If the system cannot tell of the end any more, the thread does not count.
  os_fake.fail_at[OS_FAKE_THREAD_KEY] = 1;
  mi_thread_withdraw();
  check_equal(hooks_fake.last_thread_count, 1);
}

// THREAD-7. If this fails, a process whose last thread ended stays for ever, or an idle server has
// no purge thread any more.
UNIT_TEST(thread_is_present_until_it_ends) {
  check(!mi_thread_is_present());
  mi_free(mi_malloc(SIZE));
  check(mi_thread_is_present());
  unit_on_thread(&leave_and_stay, NULL);
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 1);
  check_equal(hooks_fake.last_thread_count, 0);
  mi_thread_leave();
  check_equal(mi_atomic_load_relaxed(&mi_state.present), 0);
  check_equal(hooks_fake.last_thread_count, 1);
}

// If this fails, programs that start and end threads all the time work in cold memory.
UNIT_TEST_PAGE_SIZES(thread_takes_over_what_another_left) {
  mi_free(mi_malloc(1));
  visit_t first = {10, NULL, 0};
  unit_on_thread(&visit, &first);
  mi_page_t* const page = unit_page_of(blocks[0]);
  check_equal(orphan_list_length(), 1);
  check_equal(theaps_in_use(), 1);
  check_equal(mi_atomic_load_relaxed(&page->owner), MI_OWNER_SHARED); // THREAD-2
  check_equal(mi_atomic_load_relaxed(&page->thread_free), MI_REMOTE_OWNED);
  // Frees of others are pushed and nobody takes the page.
  mi_free(blocks[0]);
  check_equal(mi_atomic_load_relaxed(&page->thread_free), (uintptr_t)blocks[0] | MI_REMOTE_OWNED);
  const int64_t pages = unit_tally(PAGES_TOTAL);
  visit_t second = {1, NULL, 0};
  unit_on_thread(&visit, &second);
  check(second.theap == first.theap);
  check(unit_page_of(blocks[0]) == page);
  check_equal(unit_tally(PAGES_TOTAL), pages);
  check_equal(mi_atomic_load_relaxed(&page->owner), MI_OWNER_SHARED);
  check_equal(mi_state.main.count.threads, 1);
  check_equal(mi_state.main.count.threads_total, 3);
}

static void visit_and_check_owner(void* arg) {
  visit(arg);
  check_equal(mi_atomic_load_relaxed(&unit_page_of(blocks[0])->owner), mi_tls_thread_id());
  check_equal(mi_atomic_load_relaxed(&mi_state.orphan_count), 0);
}

// If this fails, blocks of pages taken over are freed the slow way.
UNIT_TEST_PAGE_SIZES(thread_owns_what_it_took_over) {
  visit_t v = {10, NULL, 0};
  unit_on_thread(&visit, &v);
  v.count = 1;
  unit_on_thread(&visit_and_check_owner, &v);
}

// If this fails, a thread whose end was not noticed leaves pages that a later one writes to without
// owning them.
UNIT_TEST_PAGE_SIZES(thread_id_that_is_used_again) {
  mi_free(mi_malloc(1));
  os_fake.is_failing_on = true;
  os_fake.fail_at[OS_FAKE_THREAD_KEY] = 1;
  visit_t first = {10, NULL, 0};
  visit_t second = {1, NULL, 0};
  unit_on_thread(&visit, &first);
  check_equal(theaps_in_use(), 2); // nobody told us
  check_equal(orphan_list_length(), 0);
  // The C library gives the next thread the same stack and identity.
  for (size_t i = 0; i < 10 && second.id != first.id; i++) unit_on_thread(&visit, &second);
  if (second.id == first.id) check(second.theap == first.theap); // THREAD-1
  unit_check_valid();
}

static mi_subproc_t* subproc;

static void visit_subproc(void* arg) {
  check(mi_enter_subproc(subproc));
  visit_t* const v = (visit_t*)arg;
  for (size_t i = 0; i < v->count; i++) blocks[i] = mi_malloc(SIZE);
  v->theap = mi_self_theap();
  v->id = mi_tls_thread_id();
  check(mi_theap_subproc(v->theap) == subproc);
}

static void visit_main(void* arg) {
  visit(arg);
  check(mi_theap_subproc(((visit_t*)arg)->theap) == &mi_state.main);
}

// If this fails, such a thread lands in the sub-process of the other, and a destroy of that takes
// its memory; or it does not get into its own.
UNIT_TEST_PAGE_SIZES(thread_id_that_is_used_again_in_another_sub_process) {
  for (size_t k = 0; k < 2; k++) {
    mi_free(mi_malloc(1));
    subproc = mi_subproc_make();
    os_fake.is_failing_on = true;
    os_fake.fail_at[OS_FAKE_THREAD_KEY] = 1;
    visit_t first = {10, NULL, 0};
    visit_t second = {1, NULL, 0};
    unit_on_thread(k == 0 ? &visit_subproc : &visit_main, &first);
    check_equal(theaps_in_use(), 2); // nobody told us
    // The C library gives the next thread the same stack and identity.
    os_fake.fail_at[OS_FAKE_THREAD_KEY] = 0;
    for (size_t i = 0; i < 10 && second.id != first.id; i++) {
      unit_on_thread(k == 0 ? &visit_main : &visit_subproc, &second);
    }
    check_equal(second.id, first.id);
    unit_check_valid();
    check_equal(theaps_in_use(), 1);
    check_equal(subproc->count.threads, 0);
    check(mi_subproc_end_by_destroy(subproc));
  }
}

static void leave_twice(void* arg) {
  visit(arg);
  mi_thread_leave();
  check(mi_self_theap() == &mi_theap_empty);
  mi_thread_leave();
  // And once more after its end.
  void* const p = mi_malloc(SIZE);
  check(p != NULL && mi_self_theap() != &mi_theap_empty);
  mi_free(p);
}

// If this fails, memory used in destructors of a thread crashes or leaks.
UNIT_TEST_PAGE_SIZES(thread_allocates_after_its_end) {
  visit_t v = {3, NULL, 0};
  unit_on_thread(&leave_twice, &v);
  check_equal(theaps_in_use(), 0);
  check_equal(orphan_list_length(), 1);
  check_equal(mi_state.main.count.threads, 0);
  for (size_t i = 0; i < 3; i++) mi_free(blocks[i]);
}

// If this fails, threads that ended hold more and more memory.
UNIT_TEST(thread_orphans_are_few) {
  enum { THREADS = 40, KEPT_MAX = 16 };
  static puppet_t puppet[THREADS];
  int64_t meta = 0;
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < THREADS; i++) puppet_start(&puppet[i]);
    for (size_t i = 0; i < THREADS; i++) {
      for (size_t k = 0; k < 3; k++) blocks[3 * i + k] = puppet_malloc(&puppet[i], 100 << k);
    }
    for (size_t i = 0; i < THREADS; i++) puppet_end(&puppet[i]);
    check_equal(orphan_list_length(), THREADS);
    size_t with_pages = 0;
    for (mi_theap_t* t = mi_state.orphans; t != NULL; t = t->orphan_next) {
      if (t->page_count > 0) with_pages++;
    }
    check(with_pages > 0 && with_pages <= KEPT_MAX); // THREAD-3
    check_equal(with_pages, mi_atomic_load_relaxed(&mi_state.orphan_count));
    // Their structures are used again.
    if (round == 0) meta = mi_state.main.count.meta;
    check_equal(mi_state.main.count.meta, meta);
    for (size_t i = 0; i < 3 * THREADS; i++) mi_free(blocks[i]);
  }
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

static void hold_many_pages(void* arg) {
  // More pages than an ended thread may keep, each with one block in use.
  void** const keep = (void**)arg;
  const size_t c = mi_class_of(MI_SLICE_SIZE / 8);
  const size_t per_page = unit_page_blocks(c);
  static void* all[300 * 64];
  check(per_page > 1 && per_page <= 64);
  for (size_t i = 0; i < 300 * per_page; i++) all[i] = mi_malloc(mi_class_size(c));
  for (size_t i = 0; i < 300 * per_page; i++) {
    if (i % per_page == 0) keep[i / per_page] = all[i];
    if (i % per_page != 0) mi_free(all[i]);
  }
  check(mi_self_theap()->page_count > 256);
}

// If this fails, one thread that ended holds a whole heap's worth of pages.
UNIT_TEST_PAGE_SIZES(thread_with_many_pages_gives_them_up) {
  static void* keep[300];
  unit_on_thread(&hold_many_pages, keep);
  check(mi_state.orphans != NULL && mi_state.orphans->page_count <= 256); // THREAD-3
  unit_check_valid();
  for (size_t i = 0; i < 300; i++) mi_free(keep[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, pages of ended threads are never given back.
UNIT_TEST_PAGE_SIZES(thread_flush_releases_orphans) {
  mi_free(mi_malloc(1));
  visit_t v = {10, NULL, 0};
  unit_on_thread(&visit, &v);
  for (size_t i = 0; i < 10; i++) mi_free(blocks[i]);
  check(!mi_thread_release_orphans()); // too early
  os_fake_advance_ms(100);
  check(mi_thread_release_orphans());
  check(!mi_thread_release_orphans());
  check_equal(mi_atomic_load_relaxed(&mi_state.orphan_count), 0);
  check_equal(orphan_list_length(), 1); // its structure waits for the next thread
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, the first thread's end and a new start lose the structure made for it.
UNIT_TEST_PAGE_SIZES(thread_main_can_leave_and_come_back) {
  void* const p = mi_malloc(SIZE);
  mi_theap_t* const theap = mi_self_theap();
  check(theap == &mi_state.theap_main);
  mi_thread_leave();
  mi_free(p);
  void* const q = mi_malloc(SIZE);
  check(mi_self_theap() == theap);
  mi_enter_home();
  check(mi_self_theap() == theap);
  mi_free(q);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, one more thread costs more than it must.
UNIT_TEST(thread_costs_little) {
  mi_free(mi_malloc(1));
  puppet_t puppet;
  puppet_start(&puppet);
  void* p[8];
  const size_t before = os_fake_resident_all();
  for (size_t i = 0; i < 8; i++) p[i] = puppet_malloc(&puppet, 16 << i);
  const size_t after = os_fake_resident_all();
  printf("FIGURE one more thread with a block in 8 classes: %zu KiB\n", (after - before) / MI_KIB);
  check(after - before <= 80 * MI_KIB);
  for (size_t i = 0; i < 8; i++) puppet_free(&puppet, p[i]);
  puppet_end(&puppet);
}

static void churn(void* arg) {
  uint64_t random = *(size_t*)arg;
  void* p[50] = {NULL};
  for (size_t i = 0; i < 400; i++) {
    void** const slot = &p[random_below(&random, 50)];
    mi_free(*slot);
    *slot = mi_malloc(random_below(&random, 5000));
  }
  for (size_t i = 0; i < 50; i++) mi_free(p[i]);
}

static void start_threads(void* arg) {
  for (size_t i = 0; i < 60; i++) unit_on_thread(&churn, arg);
}

// If this fails, threads that come and go make memory grow without bound.
UNIT_TEST(thread_churn_is_bounded) {
  size_t id[3] = {1, 2, 3};
  unit_on_threads(3, &start_threads, id, sizeof(id[0]));
  check(mi_state.main.count.threads_total >= 180 && mi_state.main.count.threads == 0);
  check(orphan_list_length() <= 6);
  check(mi_state.main.count.pages_peak < 400);
  unit_check_valid();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

static void first_call(void* arg) {
  void* p = NULL;
  switch (*(size_t*)arg % 4) {
    case 0:
      p = mi_malloc(10);
      break;
    case 1:
      p = mi_zalloc(MI_CLASS_MAX * 2);
      break;
    case 2:
      p = mi_aligned_alloc_at(mi_self_theap(), 100, 4096, 0, MI_ZERO);
      break;
    default:
      mi_collect_all(MI_FORCE);
      break;
  }
  mi_free(p);
}

static void start_unwatched(void* arg) {
  (void)arg;
  os_fake.fail_at[OS_FAKE_THREAD_KEY] = 1;
  os_fake.is_failing_on = true;
  mi_free(mi_malloc(100));
  check(mi_self_theap()->is_unwatched);
  os_fake.fail_at[OS_FAKE_THREAD_KEY] = 0;
  mi_free(mi_malloc(MI_CLASS_MAX * 2)); // comes by the cadence of refill.c
  check(!mi_self_theap()->is_unwatched);
}

// If this fails, a thread that started while memory was short keeps its pages when it ends.
UNIT_TEST(thread_end_is_told_when_the_system_lets_us) {
  mi_free(mi_malloc(100));
  unit_on_thread(&start_unwatched, NULL);
  check_equal(mi_atomic_load_relaxed(&mi_state.main.count.threads), 1);
}

// If this fails, threads that allocate for the first time at once set the process up twice.
UNIT_TEST(thread_first_calls_race) {
  size_t id[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  unit_on_threads(8, &first_call, id, sizeof(id[0]));
  check_equal(mi_atomic_load_relaxed(&mi_state.stage), MI_STAGE_READY);
  check_equal(os_fake_calls(OS_FAKE_AT_FORK), 1);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a thread that libc does not know of never ends the plain loads and stores of the
// first one.
UNIT_TEST(thread_that_nobody_announced_is_noticed) {
  os_fake.is_single_threaded = true;
  mi_free(mi_malloc(1));
  mi_thread_leave();
  mi_free(mi_malloc(1)); // the first one again
  check(mi_os_is_single_threaded());
  visit_t second = {1, NULL, 0};
  unit_on_thread(&visit, &second);
  check(!mi_os_is_single_threaded());
  mi_free(blocks[0]);
}

typedef struct share_s {
  size_t first, step, count; // of the blocks that are freed
} share_t;

static void free_share(void* arg) {
  const share_t* const share = (const share_t*)arg;
  for (size_t i = share->first; i < share->count; i += share->step) mi_free(blocks[i]);
}

#define OTHER_SIZE (MI_SLICE_SIZE / 8)

// Allocate `count` blocks in a heap and free the first of each `step`; another thread frees the
// rest, so that no page has a block in use, and the thread that owns the pages does not know it.
static void free_crosswise(mi_heap_t* heap, size_t count, size_t step) {
  for (size_t i = 0; i < count; i++) blocks[i] = mi_heap_malloc(heap, SIZE);
  free_share(&(share_t){.step = step, .count = count});
  for (size_t first = 1; first < step; first++) {
    unit_on_thread(&free_share, &(share_t){.first = first, .step = step, .count = count});
  }
}

// Allocate in a heap until the thread has looked at its idle pages.
static void work_in(mi_heap_t* heap) {
  mi_theap_t* const home = unit_theap();
  for (home->tick_ms = 0; home->tick_ms == 0;) mi_free(mi_heap_malloc(heap, OTHER_SIZE));
}

// If this fails, a thread that frees in one heap and allocates in another keeps all that others
// free of it.
UNIT_TEST_PAGE_SIZES(thread_gives_up_idle_pages_of_all_its_heaps) {
  mi_free(mi_malloc(SIZE));
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  mi_heap_t* const main = &mi_state.main.heap_main;
  const size_t step = unit_page_blocks(mi_class_of(SIZE));
  const size_t count = mi_bits_min(20 * step, UNIT_BLOCKS_MAX / step * step);
  mi_free(mi_heap_malloc(heap, SIZE));
  for (size_t i = 0; i < 2; i++) {
    const size_t before = unit_used_slices();
    free_crosswise(i == 0 ? main : heap, count, step);
    check(unit_used_slices() >= before + count / step - 2);
    work_in(i == 0 ? heap : main);
    check(unit_used_slices() <= before + 3); // for what the work needs
  }
  check(mi_heap_end_by_delete(heap));
  unit_check_valid();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(thread_that_nobody_announced_is_noticed),
      cmocka_unit_test(thread_is_present_until_it_ends),
      cmocka_unit_test(thread_is_present_without_a_home),
      cmocka_unit_test(thread_takes_over_what_another_left),
      cmocka_unit_test(thread_owns_what_it_took_over),
      cmocka_unit_test(thread_end_is_told_when_the_system_lets_us),
      cmocka_unit_test(thread_id_that_is_used_again),
      cmocka_unit_test(thread_id_that_is_used_again_in_another_sub_process),
      cmocka_unit_test(thread_allocates_after_its_end),
      cmocka_unit_test(thread_orphans_are_few),
      cmocka_unit_test(thread_with_many_pages_gives_them_up),
      cmocka_unit_test(thread_flush_releases_orphans),
      cmocka_unit_test(thread_main_can_leave_and_come_back),
      cmocka_unit_test(thread_costs_little),
      cmocka_unit_test(thread_churn_is_bounded),
      cmocka_unit_test(thread_first_calls_race),
      cmocka_unit_test(thread_gives_up_idle_pages_of_all_its_heaps),
  };
  return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
