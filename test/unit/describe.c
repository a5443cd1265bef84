// SPDX-License-Identifier: MIT
// describe.c - tests of common/describe.c: what is said of an address, and that nothing that is
// damaged makes it crash.
#include "unit.h"

#include "core/common/describe.h"
#include "core/pages/page.h"
#include "core/pages/pool.h"
#include "core/pages/remote.h"
#include "core/common/report.h"
#include "core/heaps/subproc.h"

#define SIZE 256

static void* blocks[UNIT_BLOCKS_MAX];
static char text[MI_DESCRIBE_TEXT_MAX];

static const char* describe(const void* p) {
  mi_about_t about;
  mi_describe_address(p, &about);
  const size_t length = mi_describe_text(&about, text, sizeof(text));
  check_equal(length, strlen(text));
  return text;
}

static void says(const void* p, const char* what) {
  if (strstr(describe(p), what) != NULL) return;
  fprintf(stderr, "no \"%s\" in \"%s\"\n", what, text);
  check(!"the description says it");
}

// If this fails, a report does not say which block, page or heap it is about, or a wrong one.
UNIT_TEST_PAGE_SIZES(describe_block_page_heap) {
  char expected[MI_DESCRIBE_TEXT_MAX];
  for (size_t i = 0; i < 3; i++) blocks[i] = mi_malloc(SIZE);
  const mi_page_t* const page = unit_page_of(blocks[2]);
  snprintf(expected, sizeof(expected),
           "block 2 of %zu at %p of %zu bytes, 7 bytes into it; page at %p of %zu KiB, ",
           (size_t)page->reserved, blocks[2], (size_t)SIZE, (void*)page->start,
           page->slice_count * MI_SLICE_SIZE / MI_KIB);
  says((uint8_t*)blocks[2] + 7, expected);
  snprintf(expected, sizeof(expected), "of thread 0x%zx, which allocates from it; main heap",
           (size_t)mi_tls_thread_id());
  says(blocks[2], expected);
  snprintf(expected, sizeof(expected), " of %zu blocks in use", (size_t)mi_page_capacity(page));
  says(blocks[2], expected);
  const uint8_t* const last = page->start + (size_t)(page->reserved - 1) * page->block_size;
  if (mi_page_capacity(page) < page->reserved) says(last, ", never handed out; ");
  mi_free(blocks[0]);
  mi_free(blocks[1]);
  mi_free(blocks[2]);
}

// If this fails, somebody who debugs large blocks is told less.
UNIT_TEST_PAGE_SIZES(describe_large_block) {
  uint8_t* const p = (uint8_t*)mi_malloc(MI_CLASS_MAX * 8);
  says(p, "block 0 of 1 at ");
  says(p, "; page of its own at ");
  says(p, "; main heap");
  says(p + 100, ", 100 bytes into it");
  // Slices without a descriptor of their own.
  char expected[100];
  const size_t far = MI_CLASS_MAX * 6 + 1;
  snprintf(expected, sizeof(expected), ", %zu bytes into it", far);
  says(p + far, expected);
  mi_free(p);
  snprintf(expected, sizeof(expected),
           "nothing is in use there; last was a page at %p, blocks of %zu bytes", (void*)p,
           mi_bits_align_up(MI_CLASS_MAX * 8, os_fake.page_size));
  says(p, expected);
  uint8_t* const shifted = (uint8_t*)mi_aligned_alloc_at(unit_theap(), MI_CLASS_MAX,
                                                         MI_CLASS_MAX * 2, 64, MI_UNINITIALIZED);
  says(shifted, "block 0 of 1 at ");
  says(shifted - 1, ", 1 bytes before it");
  mi_free(shifted);
}

// If this fails, an address that was never ours is taken for one of ours.
UNIT_TEST(describe_foreign_addresses) {
  int local = 0;
  says(NULL, "the address is not ours");
  says(&local, "the address is not ours");
  says((void*)(uintptr_t)-1, "the address is not ours");
  says((void*)(uintptr_t)0x123456789ab0, "the address is not ours");
  mi_free(mi_malloc(1));
  says(&local, "the address is not ours");
  says(&mi_state, "the address is not ours");
}

static void free_one(void* p) {
  mi_free(mi_malloc(1)); // a thread without a theap keeps no guests
  mi_free(p);
  mi_parcel_flush();
  says(p, "which frees into it");
}

// If this fails, a report says that a page is in a place where it is not.
UNIT_TEST_PAGE_SIZES(describe_places) {
  const size_t c = mi_class_of(SIZE);
  const size_t count = unit_fill_page(c, blocks);
  void* const next = mi_malloc(SIZE); // the full page is parked
  char expected[100];
  snprintf(expected, sizeof(expected), "parked by thread 0x%zx; main heap",
           (size_t)mi_tls_thread_id());
  says(blocks[0], expected);
  unit_on_thread(&free_one, blocks[0]);
  says(blocks[1], "of no thread");
  for (size_t i = 1; i < count / 2; i++) mi_free(blocks[i]);
  mi_flush_idle(unit_theap());
  says(blocks[count - 1], "of no thread, pooled; main heap");
  for (size_t i = count / 2; i < count; i++) mi_free(blocks[i]);
  mi_free(next);
  void* p;
  mi_page_t* const page = unit_make_page(c, 1, &p);
  says(p, "in none of its lists");
  mi_life_enqueue(unit_theap(), page);
  says(p, "in its queue");
  mi_free(p);
}

static void leave_block(void* arg) { *(void**)arg = mi_malloc(SIZE); }

// If this fails, nobody sees that a page waits for a thread that has ended.
UNIT_TEST_PAGE_SIZES(describe_orphan) {
  mi_free(mi_malloc(1));
  void* p = NULL;
  unit_on_thread(&leave_block, &p);
  says(p, "left by a thread that ended");
  mi_free(p);
}

// If this fails, the heap of a damaged block is not known, or a heap that is gone is read.
UNIT_TEST_PAGE_SIZES(describe_heaps) {
  mi_free(mi_malloc(1));
  char expected[100];
  mi_heap_t* const heap = mi_heap_make(&mi_state.main, NULL);
  void* const p = mi_heap_malloc(heap, SIZE);
  snprintf(expected, sizeof(expected), "; heap %zu at %p", heap->sequence, (void*)heap);
  says(p, expected);
  mi_subproc_t* const subproc = mi_subproc_make();
  mi_heap_t* const other = mi_heap_make(subproc, NULL);
  void* const q = mi_heap_malloc(other, SIZE);
  snprintf(expected, sizeof(expected), "; heap %zu at %p of sub-process %zu", other->sequence,
           (void*)other, subproc->sequence);
  says(q, expected);
  mi_page_t* const page = unit_page_of(p);
  mi_atomic_store_relaxed(&page->heap, (mi_heap_t*)(uintptr_t)0x12340);
  says(p, "; heap not known, at 0x12340");
  mi_heap_t* const gone = (mi_heap_t*)((uint8_t*)&mi_state + 8);
  mi_atomic_store_relaxed(&page->heap, gone);
  says(p, "; heap not known, at ");
  mi_atomic_store_relaxed(&page->heap, heap);
  mi_heap_t** const link = heap->link;
  heap->link = NULL;
  says(p, ", which has ended");
  heap->link = link;
  mi_heap_end_by_delete(heap);
  says(p, "; main heap");
  mi_free(p);
  check(mi_subproc_end_by_destroy(subproc));
  says(q, "nothing is in use there");
}

// If this fails, a damaged descriptor turns a report into a second crash.
UNIT_TEST(describe_survives_any_damage) {
  enum { ROUNDS = 200000 };
  size_t c = 0;
  while (mi_class_slices(c) < 2) c++;
  mi_page_t* const page = unit_make_page(c, 2, blocks);
  mi_page_t* const interior = mi_pagemap_slice(page->start + MI_SLICE_SIZE);
  void* const large = mi_malloc(MI_CLASS_MAX * 4);
  mi_page_t* const victims[] = {page, interior, unit_page_of(large)};
  const uint8_t* const addresses[] = {(uint8_t*)blocks[1] + 5, page->start + MI_SLICE_SIZE + 3,
                                      (uint8_t*)large + 17};
  uint64_t seed = 4711;
  size_t damaged = 0;
  for (size_t round = 0; round < ROUNDS; round++) {
    const size_t v = round % 3;
    const mi_page_t saved = *victims[v];
    uint8_t* const bytes = (uint8_t*)victims[v];
    for (size_t n = 1 + random_below(&seed, 4); n > 0; n--) {
      const size_t at = random_below(&seed, sizeof(mi_page_t) / 8) * 8;
      const uint64_t wild[] = {0,
                               1,
                               UINT64_MAX,
                               random_next(&seed),
                               (uint64_t)(uintptr_t)blocks[0],
                               (uint64_t)(uintptr_t)victims[v] + random_below(&seed, 4096)};
      const size_t length = (size_t)1 << random_below(&seed, 4);
      memcpy(bytes + at + random_below(&seed, 8 / length) * length, &wild[random_below(&seed, 6)],
             length);
    }
    mi_about_t about;
    mi_describe_address(addresses[v], &about);
    check(mi_describe_text(&about, text, sizeof(text)) < sizeof(text));
    if (about.kind == MI_ABOUT_DAMAGED) damaged++;
    mi_describe_page(victims[v], NULL, &about);
    check(mi_describe_text(&about, text, sizeof(text)) < sizeof(text));
    *victims[v] = saved;
  }
  check(damaged > ROUNDS / 20);
  mi_about_t about;
  mi_describe_page((mi_page_t*)(uintptr_t)0x1230, blocks[0], &about);
  check_equal(about.kind, MI_ABOUT_DAMAGED);
  says(blocks[0], "block 0 of ");
  page->local_free = NULL;
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
  mi_free(large);
}

// If this fails, a small buffer is written past its end.
UNIT_TEST(describe_fits_any_buffer) {
  void* const p = mi_malloc(SIZE);
  mi_about_t about;
  mi_describe_address(p, &about);
  for (size_t capacity = 1; capacity < 300; capacity++) {
    memset(text, 'x', sizeof(text));
    check(mi_describe_text(&about, text, capacity) < capacity);
    check(text[capacity] == 'x' && strlen(text) < capacity);
  }
  mi_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(describe_block_page_heap),
      cmocka_unit_test(describe_large_block),
      cmocka_unit_test(describe_foreign_addresses),
      cmocka_unit_test(describe_places),
      cmocka_unit_test(describe_orphan),
      cmocka_unit_test(describe_heaps),
      cmocka_unit_test(describe_survives_any_damage),
      cmocka_unit_test(describe_fits_any_buffer),
  };
  return cmocka_run_group_tests_name("describe", tests, NULL, NULL);
}
