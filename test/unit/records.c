// SPDX-License-Identifier: MIT
// records.c - tests of common/records.c: a pool of records gives its memory back when none is in
// use (RECORDS-4), and hands out none twice.
#include "unit.h"

#include "core/common/meta.h"
#include "core/common/records.h"

#define COUNT 5000
#define LIVE ((uint32_t)1)

typedef struct note_s {
  mi_record_t record;
  uintptr_t owner;
  uint64_t rest[5];
} note_t;

static mi_records_t pool = {.record_size = sizeof(note_t)};
static note_t* notes[COUNT];

static void collect(void) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_records_collect(&pool);
  mi_lock_leave(&mi_state.arena_lock);
}

static note_t* claim(uintptr_t owner) {
  note_t* const note = (note_t*)mi_records_claim(&pool);
  check(note != NULL && mi_atomic_load_relaxed(&note->record.state) == MI_RECORD_UNUSED);
  note->owner = owner;
  mi_atomic_store_relaxed(&note->record.state, LIVE);
  return note;
}

static void release(note_t* note, uintptr_t owner) {
  check(mi_atomic_load_relaxed(&note->record.state) == LIVE && note->owner == owner);
  mi_records_release(&pool, &note->record);
}

static int64_t charged(void) { return mi_atomic_load_relaxed(&mi_state.main.count.meta_charged); }

// If this fails, a program that was profiled once keeps the memory of its samples.
UNIT_TEST_PAGE_SIZES(records_go_back_when_none_is_in_use) {
  mi_free(mi_malloc(1));
  const int64_t before = charged();
  int64_t most = 0;
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < COUNT; i++) notes[i] = claim(i);
    check_equal(mi_records_count(&pool), COUNT);
    if (round == 0) most = charged();
    check_equal(charged(), most);
    for (size_t i = 1; i < COUNT; i++) release(notes[i], i);
    collect();
    check_equal(charged(), most); // one is in use
    check_equal(notes[0]->owner, 0);
    release(notes[0], 0);
    collect();
    // A piece of less than an OS page stays.
    check(charged() <= before + (int64_t)(2 * mi_state.os.page_size));
    check_equal(mi_records_count(&pool), 0);
    check(unit_is_zero(notes[COUNT - 1], sizeof(note_t)));
    collect();
  }
  // What is left of the stack is none of these.
  for (size_t i = 0; i < COUNT; i++) {
    notes[i] = claim(i);
    check(&notes[i]->record == mi_records_at(&pool, i));
  }
  for (size_t i = 0; i < COUNT; i++) release(notes[i], i);
}

// If this fails, two samples have one record when another thread collects.
static void use_some(void* arg) {
  note_t* mine[60];
  const uintptr_t self = mi_tls_thread_id();
  for (size_t round = 0; round < *(size_t*)arg; round++) {
    const size_t count = 1 + round % 60;
    for (size_t i = 0; i < count; i++) mine[i] = claim(self + i);
    for (size_t i = 0; i < count; i++) release(mine[i], self + i);
    if (round % 8 == 0) collect();
  }
}

UNIT_TEST(records_are_handed_out_once) {
  mi_free(mi_malloc(1));
  size_t rounds[3] = {3000, 3000, 3000};
  unit_on_threads(3, &use_some, rounds, sizeof(size_t));
  check(mi_records_count(&pool) <= 3 * 60);
  collect();
  for (size_t i = 0; i < 3 * 60; i++) notes[i] = claim(i);
  check(mi_records_count(&pool) <= 3 * 60);
  for (size_t i = 0; i < 3 * 60; i++) release(notes[i], i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_go_back_when_none_is_in_use),
      cmocka_unit_test(records_are_handed_out_once),
  };
  return cmocka_run_group_tests_name("records", tests, NULL, NULL);
}
