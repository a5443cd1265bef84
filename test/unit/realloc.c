// SPDX-License-Identifier: MIT
// realloc.c - tests of front/realloc.c: REALLOC-1 to REALLOC-3, and random sequences against a
// shadow.
#include "unit.h"

#include "core/arenas/move.h"
#include "core/pages/large.h"

// If this fails, realloc loses contents.
UNIT_TEST_PAGE_SIZES(realloc_keeps_contents) {
  static const size_t steps[] = {1, 8, 9, 100, 1000, 1025, 5000, 60000, 200, 3, 300000};
  for (size_t from = 0; from < sizeof(steps) / sizeof(steps[0]); from++) {
    for (size_t to = 0; to < sizeof(steps) / sizeof(steps[0]); to++) {
      void* const p = mi_malloc(steps[from]);
      unit_fill(p, steps[from], from);
      void* const q = mi_realloc_block(mi_self_theap(), p, steps[to], MI_UNINITIALIZED);
      check(q != NULL && mi_usable_size(q) >= steps[to]);
      check(unit_is_filled(q, mi_bits_min(steps[from], steps[to]), from));
      mi_free(q);
    }
  }
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, realloc copies although the block is good as it is, or keeps far too much.
UNIT_TEST_PAGE_SIZES(realloc_stays_when_nearly_all_is_used) {
  for (size_t size = 32; size <= MI_CLASS_MAX; size += size / 3 + 1) {
    void* const p = mi_malloc(size);
    const size_t usable = mi_usable_size(p);
    check(mi_realloc_block(mi_self_theap(), p, usable, MI_UNINITIALIZED) == p); // REALLOC-2
    const size_t nearly = usable - usable / 8 + 1;
    check(mi_realloc_block(mi_self_theap(), p, nearly, MI_UNINITIALIZED) == p);
    void* const q = mi_realloc_block(mi_self_theap(), p, usable / 4, MI_UNINITIALIZED);
    check(q != NULL && mi_usable_size(q) < usable);
    mi_free(q);
  }
}

// Return how many bytes the blocks of a program have per hundred that it uses, if it doubles each
// buffer while that fills, and gives back what it did not need.
static size_t kept_of_hundred(size_t room) {
  enum { BUFFERS = 4000 };
  static void* buffers[BUFFERS];
  size_t kept = 0;
  size_t used = 0;
  for (size_t i = 0; i < BUFFERS; i++) {
    const size_t size = room / 2 + 1 + i * 37 % (room / 2);
    buffers[i] = mi_malloc(room);
    unit_fill(buffers[i], size, i);
    buffers[i] = mi_realloc_block(mi_self_theap(), buffers[i], size, MI_UNINITIALIZED);
    check(buffers[i] != NULL && unit_is_filled(buffers[i], size, i));
    kept += mi_usable_size(buffers[i]);
    used += size;
  }
  for (size_t i = 0; i < BUFFERS; i++) mi_free(buffers[i]);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
  return kept * 100 / used;
}

// If this fails, a program that cuts its buffers to the size that they need keeps a third more.
UNIT_TEST(realloc_gives_back_what_is_not_needed) {
  for (size_t room = 64; room <= 16 * MI_KIB; room *= 4) {
    snprintf(unit_context, sizeof(unit_context), ", buffers of %zu", room);
    check(kept_of_hundred(room) <= 120); // 133 if no block moved
  }
}

// If this fails, a block that shrinks by less than a slice stays resident as a whole, or what it
// leaves is not zero, or not there, when it grows again.
UNIT_TEST(realloc_gives_back_a_part_of_the_last_slice) {
  if (MI_IS_TINY) return; // a slice has one OS page
  const size_t size = 3 * MI_SLICE_SIZE;
  uint8_t* p = (uint8_t*)mi_malloc(MI_SLICE_SIZE);
  p = (uint8_t*)mi_realloc_block(mi_self_theap(), p, size, MI_UNINITIALIZED);
  unit_fill(p, size, 1);
  const mi_page_t* const page = mi_pagemap_find(p);
  check_equal(page->size_class, MI_CLASS_COUNT); // it has a page of its own
  const size_t last = mi_arena_slice_of(page->arena, p) + 2;
  check_equal(mi_charge_in_slice(page->arena, last), MI_SLICE_SIZE);
  const size_t less = 2 * MI_SLICE_SIZE + 1;
  check(mi_realloc_block(mi_self_theap(), p, less, MI_UNINITIALIZED) == p);
  const size_t kept = mi_usable_size(p) - 2 * MI_SLICE_SIZE;
  check(kept <= MI_SLICE_SIZE / 4); // of its class
  check_equal(mi_charge_in_slice(page->arena, last), kept);
  check(unit_is_filled(p, less, 1));
  check(mi_realloc_block(mi_self_theap(), p, size, MI_ZERO) == p);
  check(unit_is_filled(p, less, 1));
  check(unit_is_zero(p + 2 * MI_SLICE_SIZE + kept, MI_SLICE_SIZE - kept));
  check_equal(mi_charge_in_slice(page->arena, last), MI_SLICE_SIZE);
  mi_free(p);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a buffer that is made longer and shorter in turns pays page faults each time.
UNIT_TEST(realloc_in_turns_gives_nothing_back) {
  if (MI_IS_TINY) return; // a slice has one OS page
  const size_t size = 3 * MI_SLICE_SIZE;
  const size_t less = 2 * MI_SLICE_SIZE + 1;
  void* p = mi_malloc(MI_SLICE_SIZE); // what it grows to has a page of its own
  for (size_t round = 0; round < 3; round++) {
    p = mi_realloc_block(mi_self_theap(), p, size, MI_UNINITIALIZED);
    const mi_page_t* const page = mi_pagemap_find(p);
    const size_t last = mi_arena_slice_of(page->arena, p) + 2;
    p = mi_realloc_block(mi_self_theap(), p, less, MI_UNINITIALIZED);
    check_equal(mi_pagemap_find(p), page);
    check_equal(mi_charge_in_slice(page->arena, last) == MI_SLICE_SIZE, round > 0);
  }
  mi_free(p);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a program that needs less memory is told that there is none.
UNIT_TEST(realloc_to_a_smaller_size_needs_no_memory) {
  static void* blocks[2 * 8192];
  void* const p = mi_malloc(1000);
  void* const aligned = mi_aligned_alloc_at(mi_self_theap(), 1000, 64, 0, MI_UNINITIALIZED);
  unit_fill(p, 1000, 1);
  unit_option(disallow_os_alloc, 1);
  size_t count = 0;
  for (size_t size = 16 * MI_MIB; size >= 300; size /= 8) {
    while ((blocks[count] = mi_malloc(size)) != NULL) {
      count++;
      check(count < 2 * 8192);
    }
  }
  check(mi_realloc_block(mi_self_theap(), p, 300, MI_UNINITIALIZED) == p);
  check(mi_realloc_block_at(mi_self_theap(), aligned, 300, 64, 0, MI_ZERO) == aligned);
  check(mi_realloc_block(mi_self_theap(), p, 2000, MI_UNINITIALIZED) == NULL);
  check(unit_is_filled(p, 300, 1));
  unit_option(disallow_os_alloc, 0);
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_free(p);
  mi_free(aligned);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, realloc(p, 0) or realloc(NULL, n) crash or leak.
UNIT_TEST_PAGE_SIZES(realloc_of_nothing_and_to_nothing) {
  void* const p = mi_realloc_block(mi_self_theap(), NULL, 100, MI_ZERO);
  check(p != NULL && unit_is_zero(p, mi_usable_size(p)));
  void* const q = mi_realloc_block(mi_self_theap(), p, 0, MI_UNINITIALIZED);
  check(q != NULL && mi_usable_size(q) >= 1);
  mi_free(q);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a failed realloc destroys the block, and the program loses its data.
UNIT_TEST_PAGE_SIZES(realloc_failure_keeps_the_block) {
  const size_t sizes[] = {10, 1000, MI_CLASS_MAX, MI_CLASS_MAX * 3};
  for (size_t i = 0; i < 4; i++) {
    void* const p = mi_malloc(sizes[i]);
    unit_fill(p, sizes[i], i);
    const size_t usable = mi_usable_size(p);
    unit_option(disallow_os_alloc, 1);
    errno = 0;
    check(mi_realloc_block(mi_self_theap(), p, 8 * MI_GIB, MI_UNINITIALIZED) == NULL &&
          errno == ENOMEM);
    check(mi_realloc_block_at(mi_self_theap(), p, 8 * MI_GIB, 64, 0, MI_ZERO) == NULL);
    check(mi_realloc_block(mi_self_theap(), p, SIZE_MAX, MI_ZERO) == NULL);
    check(mi_realloc_block(mi_self_theap(), p, (size_t)PTRDIFF_MAX - 5, MI_ZERO) == NULL);
    unit_option(disallow_os_alloc, 0);
    check(unit_is_filled(p, sizes[i], i) && mi_usable_size(p) == usable); // REALLOC-1
    mi_free(p);
  }
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a size near the end of the address space makes an aligned block shrink: the
// program writes past it.
UNIT_TEST_PAGE_SIZES(realloc_of_shifted_blocks_notices_overflow) {
  const size_t alignment = MI_SLICE_SIZE * 16;
  const size_t offset = MI_SLICE_SIZE;
  uint8_t* const p = (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), MI_CLASS_MAX * 2, alignment,
                                                   offset, MI_UNINITIALIZED);
  check(p != NULL && ((uintptr_t)p + offset) % alignment == 0);
  const size_t usable = mi_usable_size(p);
  volatile size_t size = SIZE_MAX;
  for (size_t back = 0; back < 64 * MI_SLICE_SIZE; back += MI_SLICE_SIZE / 2) {
    size = SIZE_MAX - back;
    check(mi_realloc_block_at(mi_self_theap(), p, size, alignment, offset, MI_UNINITIALIZED) ==
          NULL);
    check(mi_realloc_block(mi_self_theap(), p, size, MI_UNINITIALIZED) == NULL);
    check(!mi_realloc_in_place(p, size));
    check_equal(mi_usable_size(p), usable);
  }
  mi_free(p);
  unit_check_empty();
}

// If this fails, mi_rezalloc shows old contents.
UNIT_TEST_PAGE_SIZES(realloc_zeroes_what_is_new) {
  // Dirty memory everywhere.
  void* dirt = mi_malloc(MI_CLASS_MAX * 16);
  memset(dirt, 0xFF, MI_CLASS_MAX * 16);
  mi_free(dirt);
  size_t size = 1;
  uint8_t* p = (uint8_t*)mi_zalloc(size);
  while (size < MI_CLASS_MAX * 6) {
    const size_t usable = mi_usable_size(p);
    memset(p, 0x55, usable);
    const size_t next = size + size / 2 + 9;
    p = (uint8_t*)mi_realloc_block(mi_self_theap(), p, next, MI_ZERO);
    check(p != NULL && mi_usable_size(p) >= next);
    for (size_t i = 0; i < usable; i += 61) check_equal(p[i], 0x55);
    if (next > usable) check(unit_is_zero(p + usable, mi_usable_size(p) - usable)); // REALLOC-3
    size = next;
  }
  // Down and up again inside the same slices.
  p = (uint8_t*)mi_realloc_block(mi_self_theap(), p, size - MI_SLICE_SIZE * 3, MI_ZERO);
  const size_t usable = mi_usable_size(p);
  memset(p, 0x55, usable);
  p = (uint8_t*)mi_realloc_block(mi_self_theap(), p, size, MI_ZERO);
  check(unit_is_zero(p + usable, mi_usable_size(p) - usable));
  mi_free(p);
}

// If this fails, mi_expand moves, or says no where it could grow.
UNIT_TEST_PAGE_SIZES(realloc_in_place_grows_only_where_it_is) {
  uint8_t* const p = (uint8_t*)mi_malloc(100);
  const size_t usable = mi_usable_size(p);
  check(mi_realloc_in_place(p, usable) && !mi_realloc_in_place(p, usable + 1));
  mi_free(p);
  uint8_t* const q = (uint8_t*)mi_malloc(MI_CLASS_MAX * 2);
  check(mi_realloc_in_place(q, MI_CLASS_MAX * 3));
  check(mi_usable_size(q) >= MI_CLASS_MAX * 3);
  void* const wall = mi_malloc(MI_CLASS_MAX * 2);
  check(!mi_realloc_in_place(q, MI_CLASS_MAX * 8));
  check(!mi_realloc_in_place(q, SIZE_MAX));
  check(!mi_realloc_in_place(NULL, 1) && !mi_realloc_in_place((void*)&usable, 1));
  mi_free(wall);
  mi_free(q);
}

// If this fails, xallocx of jemalloc's names moves a block, loses contents, or gives nothing back.
UNIT_TEST_PAGE_SIZES(realloc_shrink_gives_back_in_place) {
  const size_t less = MI_CLASS_MAX * 2;
  uint8_t* const p = (uint8_t*)mi_malloc(MI_CLASS_MAX * 20);
  const size_t usable = mi_usable_size(p);
  unit_fill(p, usable, 3);
  mi_realloc_shrink(p, usable);
  check(mi_usable_size(p) == usable);
  mi_realloc_shrink(p, less);
  check(mi_usable_size(p) >= less && mi_usable_size(p) < less + mi_state.os.page_size);
  check(unit_is_filled(p, less, 3));
  const size_t now = mi_usable_size(p);
  check(mi_realloc_in_place(p, 1) && mi_usable_size(p) == now);
  mi_realloc_shrink(p, 0);
  check(mi_usable_size(p) > 0 && unit_is_filled(p, mi_bits_min(mi_usable_size(p), less), 3));
  mi_free(p);
  void* const q = mi_malloc(100);
  const size_t small = mi_usable_size(q);
  mi_realloc_shrink(q, 1);
  check(mi_usable_size(q) == small);
  mi_free(q);
  mi_realloc_shrink(NULL, 1);
  mi_realloc_shrink((void*)&usable, 1);
  uint8_t* const aligned =
      (uint8_t*)mi_aligned_alloc_at(mi_self_theap(), MI_CLASS_MAX * 8, 4096, 64, MI_UNINITIALIZED);
  unit_fill(aligned, less, 5);
  mi_realloc_shrink(aligned, less);
  check(mi_usable_size(aligned) >= less && mi_usable_size(aligned) < MI_CLASS_MAX * 8);
  check(unit_is_filled(aligned, less, 5));
  mi_free(aligned);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, realloc of a wild pointer crashes instead of being reported.
UNIT_TEST_PAGE_SIZES(realloc_of_a_foreign_address_is_reported) {
  int local[4] = {0};
  errno = 0;
  check(mi_realloc_block(mi_self_theap(), local, 100, MI_UNINITIALIZED) == NULL);
  check(hooks_fake.count[MI_ERROR_INVALID_POINTER] == 1 && hooks_fake.report.p == local);
  check_equal(errno, EINVAL);
  check(mi_realloc_block_at(mi_self_theap(), local, 100, 64, 0, MI_UNINITIALIZED) == NULL);
  check_equal(hooks_fake.count[MI_ERROR_INVALID_POINTER], 2);
}

// If this fails, growing a buffer step by step takes quadratic time.
UNIT_TEST(realloc_of_a_growing_buffer_copies_little) {
  size_t copied = 0;
  size_t size = MI_CLASS_MAX * 2;
  uint8_t* p = (uint8_t*)mi_malloc(size);
  while (size < 200 * MI_CLASS_MAX) {
    void* const wall = mi_malloc(MI_CLASS_MAX * 2); // in the way, now and then
    const size_t moves = os_fake_calls(OS_FAKE_MOVE);
    size += MI_CLASS_MAX;
    uint8_t* const q = (uint8_t*)mi_realloc_block(mi_self_theap(), p, size, MI_UNINITIALIZED);
    if (q != p && os_fake_calls(OS_FAKE_MOVE) == moves) copied += size;
    p = q;
    mi_free(wall);
  }
  check_equal(copied, 0);
  mi_free(p);
}

enum { LIVE = 60, STEPS = 6000 };

typedef struct shadow_s {
  uint8_t* p;
  size_t size; // that holds the pattern
  size_t alignment; // 1: none asked for
  size_t offset;
} shadow_t;

static size_t draw_size(uint64_t* random) {
  const size_t bits = random_below(random, MI_CLASS_MAX_LOG2 + 3);
  return random_below(random, ((size_t)1 << bits) + 1);
}

// The pattern at both ends and at some places between.
static void touch(shadow_t* s, size_t tag) {
  for (size_t i = 0; i < s->size; i += (i < 200 || i + 300 > s->size ? 1 : 251)) {
    s->p[i] = (uint8_t)(i * 7 + tag);
  }
}

static bool is_touched(const uint8_t* p, size_t size, size_t common, size_t tag) {
  for (size_t i = 0; i < common; i += (i < 200 || i + 300 > size ? 1 : 251)) {
    if (p[i] != (uint8_t)(i * 7 + tag)) return false;
  }
  return true;
}

static void step_shadow(shadow_t* s, size_t tag, uint64_t* random) {
  const size_t size = draw_size(random);
  const bool is_aligned = random_below(random, 3) == 0;
  const size_t alignment = is_aligned ? (size_t)1 << random_below(random, MI_SLICE_SHIFT + 3) : 1;
  const size_t offset = is_aligned ? 8 * random_below(random, 40) : 0;
  uint8_t* q;
  if (is_aligned) {
    q = (uint8_t*)mi_realloc_block_at(mi_self_theap(), s->p, size, alignment, offset,
                                      MI_UNINITIALIZED);
    check(q != NULL && ((uintptr_t)q + offset) % alignment == 0);
  } else {
    q = (uint8_t*)mi_realloc_block(mi_self_theap(), s->p, size, MI_UNINITIALIZED);
  }
  check(q != NULL && mi_usable_size(q) >= size);
  check(is_touched(q, s->size, mi_bits_min(s->size, size), tag));
  *s = (shadow_t){q, size, alignment, offset};
  touch(s, tag);
}

// If this fails, sequences of realloc corrupt memory.
UNIT_TEST_PAGE_SIZES(realloc_random_sequences) {
  static shadow_t shadow[LIVE];
  uint64_t random = 21;
  for (size_t step = 0; step < STEPS; step++) {
    const size_t i = random_below(&random, LIVE);
    if (random_below(&random, 5) == 0) {
      check(is_touched(shadow[i].p, shadow[i].size, shadow[i].size, i));
      mi_free(shadow[i].p);
      shadow[i] = (shadow_t){NULL, 0, 1, 0};
    } else {
      step_shadow(&shadow[i], i, &random);
    }
    if (step % 500 == 0) unit_check_valid();
    if (step % 50 == 0) os_fake_advance_ms(40);
  }
  check_equal(hooks_fake.error_count, 0);
  for (size_t i = 0; i < LIVE; i++) mi_free(shadow[i].p);
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// True if a block of `size` bytes that cannot grow where it is moves without being copied, while so
// many moved ranges are there.
static bool moves_after(size_t count, size_t size) {
  uint8_t* const p = (uint8_t*)mi_malloc(size);
  void* const wall = mi_malloc(2 * size);
  check(p != NULL && wall != NULL);
  unit_fill(p, size, size);
  mi_atomic_add_relaxed(&mi_state.moved_count, count);
  const size_t calls = os_fake_calls(OS_FAKE_MOVE);
  uint8_t* const q = (uint8_t*)mi_realloc_block(mi_self_theap(), p, 3 * size, MI_UNINITIALIZED);
  check(q != NULL && q != p && unit_is_filled(q, size, size));
  const bool moves = os_fake_calls(OS_FAKE_MOVE) != calls;
  mi_free(q);
  mi_free(wall);
  mi_collect_all(MI_FORCE);
  mi_atomic_sub_relaxed(&mi_state.moved_count, count);
  return moves;
}

// If this fails, a program that has grown 256 blocks copies arrays of any size from then on, or it
// takes all the mappings that a process may have.
UNIT_TEST(realloc_moves_long_blocks_after_many_moves) {
  const size_t shorter = MI_MOVED_LONG - MI_MIB / 2;
  check(moves_after(0, shorter) && moves_after(0, MI_MOVED_LONG));
  check(moves_after(MI_MOVED_MAX - 1, shorter) && !moves_after(MI_MOVED_MAX, shorter));
  check(moves_after(MI_MOVED_MAX, MI_MOVED_LONG));
  check(!moves_after(MI_MOVED_LONG_MAX, MI_MOVED_LONG));
  check_equal(mi_atomic_load_relaxed(&mi_state.moved_count), 0);
  unit_check_empty();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(realloc_keeps_contents),
      cmocka_unit_test(realloc_stays_when_nearly_all_is_used),
      cmocka_unit_test(realloc_gives_back_what_is_not_needed),
      cmocka_unit_test(realloc_gives_back_a_part_of_the_last_slice),
      cmocka_unit_test(realloc_in_turns_gives_nothing_back),
      cmocka_unit_test(realloc_to_a_smaller_size_needs_no_memory),
      cmocka_unit_test(realloc_of_nothing_and_to_nothing),
      cmocka_unit_test(realloc_failure_keeps_the_block),
      cmocka_unit_test(realloc_of_shifted_blocks_notices_overflow),
      cmocka_unit_test(realloc_zeroes_what_is_new),
      cmocka_unit_test(realloc_in_place_grows_only_where_it_is),
      cmocka_unit_test(realloc_shrink_gives_back_in_place),
      cmocka_unit_test(realloc_of_a_foreign_address_is_reported),
      cmocka_unit_test(realloc_of_a_growing_buffer_copies_little),
      cmocka_unit_test(realloc_moves_long_blocks_after_many_moves),
      cmocka_unit_test(realloc_random_sequences),
  };
  return cmocka_run_group_tests_name("realloc", tests, NULL, NULL);
}
