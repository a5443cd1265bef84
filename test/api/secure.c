// SPDX-License-Identifier: MIT
// secure.c - what a secure build (MI_SECURE) refuses at once, makes harmless, and hides. Only for
// that build.
#include "race.h"
#include "test_reports.h"

static const size_t sizes[] = {0,
                               1,
                               8,
                               16,
                               17,
                               48,
                               100,
                               500,
                               1000,
                               1024,
                               4096,
                               10000,
                               40000,
                               70000,
                               300000,
                               524288,
                               3 * TEST_MIB + 5};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

// A block, made in one of several ways.
#define WAYS 6
static unsigned char* make(size_t way, size_t size) {
  switch (way) {
    case 0:
      return (unsigned char*)mi_malloc(size);
    case 1:
      return (unsigned char*)mi_zalloc(size);
    case 2:
      return (unsigned char*)mi_malloc_aligned(size, 256);
    case 3:
      return (unsigned char*)mi_malloc_aligned(size, 256 * TEST_KIB);
    case 4:
      return (unsigned char*)mi_malloc_aligned_at(size, 64, 24);
    default:
      return (unsigned char*)mi_malloc_aligned_at(size, 64, 3); // at an odd address
  }
}

static void* free_there(void* p) {
  mi_free(p);
  return NULL;
}

static void free_in_thread(void* p) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &free_there, p), 0);
  pthread_join(thread, NULL);
}

static void expect_refused(size_t count, const char* kind) {
  if (refusals != count || damages != 0 || strstr(said, kind) == NULL) {
    fail_msg("%zu refusals, %zu damages, %zu and \"%s\" expected:\n%s", refusals, damages, count,
             kind, said);
  }
}

// If this fails, a block is free twice, and two owners get it.
static void each_second_free_is_refused(void** state) {
  (void)state;
  for (size_t way = 0; way < WAYS; way++) {
    for (size_t i = 0; i < SIZE_COUNT; i++) {
      unsigned char* const p = make(way, sizes[i]);
      unsigned char* const q = make(way, sizes[i]);
      unsigned char* const r = make(way, sizes[i]);
      listen();
      mi_free(p);
      mi_free(test_opaque_pointer(p)); // in a row
      mi_free(q);
      mi_free(test_opaque_pointer(p)); // after another one
      free_in_thread(test_opaque_pointer(q)); // in another thread
      expect_refused(3, "double free detected of block");
      free_in_thread(r);
      free_in_thread(test_opaque_pointer(r));
      mi_free(test_opaque_pointer(r)); // freed by another thread
      mi_collect(true);
      mi_free(test_opaque_pointer(r));
      mi_free(test_opaque_pointer(q));
      expect_refused(7, "double free detected of block");
    }
  }
}

static void* free_all_twice(void* arg) {
  void** const block = (void**)arg;
  for (size_t i = 0; i < 100; i++) mi_free(block[i]);
  for (size_t i = 0; i < 100; i++) mi_free(test_opaque_pointer(block[i]));
  return NULL;
}

// If this fails, a block on its way to its page is free twice.
static void second_free_of_a_block_on_its_way_is_refused(void** state) {
  (void)state;
  static void* block[100];
  for (size_t size = 16; size <= 1024; size *= 2) {
    for (size_t i = 0; i < 100; i++) block[i] = mi_malloc(size);
    listen();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, &free_all_twice, block), 0);
    pthread_join(thread, NULL);
    expect_refused(100, "double free detected of block");
  }
}

// If this fails, a pointer into a block, or to nothing of ours, gets onto a free list.
static void address_of_no_block_is_refused(void** state) {
  (void)state;
  static char fixed[100];
  char local[100];
  for (size_t way = 0; way < WAYS; way++) {
    for (size_t i = 0; i < SIZE_COUNT; i++) {
      unsigned char* const p = make(way, sizes[i]);
      listen();
      size_t count = 0;
      for (size_t at = 1; at < sizes[i]; at += at < 70 ? 1 : at) {
        mi_free(p + at);
        count++;
      }
      mi_free(p - 1);
      mi_free(p - 8);
      expect_refused(count + 2, "invalid pointer: ");
      listen();
      memset(p, 1, sizes[i]);
      mi_free(p);
      assert_int_equal(refusals + damages, 0);
    }
  }
  listen();
  mi_free(test_opaque_pointer(fixed + 16));
  mi_free(test_opaque_pointer(local + 16));
  mi_free((void*)test_opaque(16));
  mi_free((void*)test_opaque((size_t)1 << 46));
  mi_free((void*)test_opaque(SIZE_MAX & ~(size_t)15));
  mi_free((void*)test_opaque((size_t)0xDEADBEEFDEADBEE0));
  mi_free(NULL);
  expect_refused(6, "invalid pointer: ");
  unsigned char* const p = (unsigned char*)mi_malloc(48);
  listen();
  mi_free((unsigned char*)test_opaque_pointer(p) +
          ((size_t)1 << 47)); // an address with a bit too much
  expect_refused(1, "invalid pointer: ");
  mi_free(p);
}

// If this fails, what a freed block holds is taken for a block.
static void freed_block_is_not_resized(void** state) {
  (void)state;
  for (size_t i = 0; sizes[i] <= 4096; i++) {
    void* const p = mi_malloc(sizes[i]);
    void* const keep = mi_malloc(sizes[i]);
    mi_free(p);
    listen();
    assert_int_equal(mi_usable_size(test_opaque_pointer(p)), 0);
    expect_refused(1, " in malloc_usable_size: ");
    errno = 0;
    assert_null(mi_realloc(test_opaque_pointer(p), 2 * sizes[i] + 1));
    assert_int_equal(errno, EINVAL);
    assert_null(mi_realloc(test_opaque_pointer(p), 0));
    assert_null(mi_rezalloc(test_opaque_pointer(p), 1));
    assert_null(mi_realloc_aligned(test_opaque_pointer(p), 100, 64));
    assert_null(mi_expand(test_opaque_pointer(p), 1));
    mi_free_size(test_opaque_pointer(p), sizes[i]);
    assert_true(refusals >= 6);
    assert_int_equal(damages, 0);
    mi_free(keep);
  }
}

static void spoil(unsigned char* at) { *(volatile unsigned char*)at ^= 0x55; }

static const size_t slots[] = {32, 48, 80, 128, 144, 256, 1024, 5120, 65536, 524288, 3 * TEST_MIB};
#define SLOT_COUNT (sizeof(slots) / sizeof(slots[0]))

// If this fails, a write behind a block is not noticed, or its place is told wrong.
static void overflow_is_noticed_to_the_byte(void** state) {
  (void)state;
  for (size_t i = 0; i < SLOT_COUNT; i++) {
    for (size_t slack = 1; slack <= 8; slack++) {
      const size_t size = slots[i] - slack;
      for (size_t at = 0; at < slack; at++) {
        unsigned char* const p = (unsigned char*)mi_malloc(size);
        assert_int_equal(mi_usable_size(p), size);
        listen();
        spoil(p + size + at);
        mi_free(p);
        assert_int_equal(refusals, 0);
        assert_int_equal(damages, 1);
        char text[80];
        snprintf(text, sizeof(text), "of size %zu: write after %zu bytes, found in free", size,
                 size + at);
        const bool is_told = slack > 2 && at + 1 < slack; // the slack is told by the last byte
        if (is_told && strstr(said, text) == NULL) fail_msg("no \"%s\" in: %s", text, said);
      }
    }
  }
}

// If this fails, a string that is one byte too long is not noticed.
static void end_of_a_string_is_noticed(void** state) {
  (void)state;
  static unsigned char* block[400];
  for (size_t i = 0; i < SLOT_COUNT; i++) {
    // Each block has a key of its own, and none may let this through.
    const size_t count = slots[i] <= 5120 ? 400 : 8;
    for (size_t k = 0; k < count; k++) block[k] = (unsigned char*)mi_malloc(slots[i] - 1 - k % 8);
    for (size_t k = 0; k < count; k++) {
      listen();
      block[k][slots[i] - 1 - k % 8] = 0;
      mi_free(block[k]);
      assert_int_equal(damages, 1);
    }
  }
}

// If this fails, a block has no canary because the one before it in its slot had none.
static void slot_without_a_canary_gets_one_again(void** state) {
  (void)state;
  static unsigned char* block[200];
  for (size_t size = 32; size <= 4096; size *= 2) {
    for (size_t i = 0; i < 200; i++) {
      block[i] = (unsigned char*)mi_malloc_aligned(size, size);
      memset(block[i], (int)i, size); // all of it is the program's
      assert_int_equal(mi_usable_size(block[i]), size);
    }
    listen();
    for (size_t i = 0; i < 200; i++) mi_free(block[i]);
    assert_int_equal(damages + refusals, 0);
    for (size_t i = 0; i < 200; i++) {
      block[i] = (unsigned char*)mi_malloc(size - 1);
      assert_int_equal(mi_usable_size(block[i]), size - 1);
    }
    for (size_t i = 0; i < 200; i++) mi_free(block[i]);
  }
}

// If this fails, whoever reads a freed block, or gets it next, reads what was in it.
static void freed_block_is_cleared(void** state) {
  (void)state;
  assert_int_equal(mi_option_get(mi_option_zero_on_free), 1); // of this level
  for (size_t i = 0; i < SLOT_COUNT - 1; i++) {
    const size_t size = slots[i] - 1;
    unsigned char* const keep = (unsigned char*)mi_malloc(size);
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    memset(p, 'S', size);
    mi_free(p);
    const unsigned char* const freed = (const unsigned char*)test_opaque_pointer(p);
    assert_true(test_is_filled(freed + sizeof(void*), size - sizeof(void*), 0)); // behind the link
    mi_option_disable(mi_option_zero_on_free);
    unsigned char* const q = (unsigned char*)mi_malloc(size);
    memset(q, 'S', size);
    mi_free(q);
    assert_true(test_is_filled((const unsigned char*)test_opaque_pointer(q) + 8, size - 8, 'S'));
    mi_option_enable(mi_option_zero_on_free);
    mi_free(keep);
  }
}

// If this fails, a program that reads what it did not write reads what others left there.
static void allocated_block_is_cleared(void** state) {
  (void)state;
  mi_option_disable(mi_option_zero_on_free);
  mi_option_enable(mi_option_zero_on_allocation);
  for (size_t i = 0; i < SLOT_COUNT - 1; i++) {
    for (size_t way = 0; way < 4; way++) {
      const size_t size = slots[i] - 1;
      unsigned char* block[8];
      for (size_t round = 0; round < 2; round++) { // what is freed in the first comes again
        for (size_t k = 0; k < 8; k++) {
          unsigned char* p = (unsigned char*)(way == 0   ? mi_malloc(size)
                                              : way == 1 ? mi_malloc_aligned(size, 64)
                                              : way == 2 ? mi_realloc(NULL, size)
                                                         : mi_heap_malloc(mi_heap_main(), size));
          assert_true(test_is_filled(p, size, 0));
          memset(p, 'S', size);
          // It shrinks and grows in its slot, and moves.
          if (size > 40) p = (unsigned char*)mi_realloc(mi_realloc(p, size - 7), size);
          assert_true(test_is_filled(p, size > 40 ? size - 7 : size, 'S'));
          if (size > 40) assert_true(test_is_filled(p + size - 7, 7, 0));
          p = (unsigned char*)mi_realloc(p, 3 * size);
          assert_true(test_is_filled(p + size, 2 * size, 0));
          memset(p, 'S', 3 * size);
          block[k] = p;
        }
        for (size_t k = 0; k < 8; k++) mi_free(block[k]);
      }
    }
  }
  mi_option_disable(mi_option_zero_on_allocation);
  mi_option_enable(mi_option_zero_on_free);
}

// If this fails, realloc takes what is behind a block for its own.
static void realloc_looks_behind(void** state) {
  (void)state;
  unsigned char* p = (unsigned char*)mi_malloc(100);
  listen();
  spoil(p + 111);
  p = (unsigned char*)mi_realloc(p, 105);
  assert_int_equal(damages, 1);
  listen();
  spoil(p + 111);
  mi_free(mi_realloc(p, 90));
  assert_int_equal(damages, 1);
  p = (unsigned char*)mi_malloc(3 * TEST_MIB - 1);
  listen();
  spoil(p + 3 * TEST_MIB - 1);
  p = (unsigned char*)mi_realloc(p, 3 * TEST_MIB - 5); // in place
  assert_int_equal(damages, 1);
  listen();
  p = (unsigned char*)mi_realloc(p, 5 * TEST_MIB - 1); // maybe moved
  mi_free(p);
  assert_int_equal(damages, 0);
  // What was behind is cleared where zero is promised.
  p = (unsigned char*)mi_zalloc(70);
  p = (unsigned char*)mi_rezalloc(p, 79);
  assert_true(test_is_filled(p, 79, 0));
  mi_free(p);
}

// If this fails, a destroyed heap's blocks can be freed into the pages of another.
static void block_of_a_destroyed_heap_is_refused(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  void* const small = mi_heap_malloc(heap, 100);
  void* const large = mi_heap_malloc(heap, 3 * TEST_MIB);
  listen();
  mi_heap_destroy(heap);
  assert_int_equal(refusals + damages, 0); // blocks in use go with their heap
  mi_free(test_opaque_pointer(small));
  mi_free(test_opaque_pointer(large));
  expect_refused(2, "double free detected of block");
}

// Blocks in use, each filled with a value of its own.
#define LIVE 400
static unsigned char* live[LIVE];

static void live_make(size_t size) {
  for (size_t i = 0; i < LIVE; i++) {
    live[i] = (unsigned char*)mi_malloc(size);
    memset(live[i], (int)(i % 251), size);
  }
}

static void live_check(size_t size) {
  for (size_t i = 0; i < LIVE; i++) {
    if (live[i] != NULL) assert_true(test_is_filled(live[i], size, (unsigned char)(i % 251)));
  }
}

static void live_end(void) {
  for (size_t i = 0; i < LIVE; i++) mi_free(live[i]);
}

// What a program may write over the link of a freed block.
static uintptr_t forged(size_t kind, const unsigned char* freed) {
  switch (kind) {
    case 0:
      return 0;
    case 1:
      return (uintptr_t)live[LIVE / 2]; // in use
    case 2:
      return (uintptr_t)live[LIVE / 2] + 16; // inside a block
    case 3:
      return (uintptr_t)freed; // itself
    case 4:
      return (uintptr_t)&live[3]; // of the program
    case 5:
      return (uintptr_t)1 << 46; // not mapped
    case 6:
      return SIZE_MAX;
    case 7:
      return 0x4141414141414141u;
    default:
      return ((const uintptr_t*)freed)[0] ^ ((uintptr_t)1 << (kind - 8)); // one bit of the link
  }
}
#define FORGED_KINDS (8 + 64)

// If this fails, a program that writes to a freed block decides where malloc takes memory from.
static void forged_link_leads_nowhere(void** state) {
  (void)state;
  for (size_t size = 16; size <= 2048; size = size * 3 + 16) {
    for (size_t i = 0; i < 2 * FORGED_KINDS; i++) {
      const size_t kind = i / 2;
      live_make(size);
      unsigned char* const freed = live[7];
      live[7] = NULL;
      mi_free(live[9]);
      live[9] = NULL;
      mi_free(freed);
      if (i % 2 != 0) { // not the first one of its list, which malloc takes in another way
        mi_free(live[11]);
        live[11] = NULL;
      }
      listen();
      *(volatile uintptr_t*)freed = forged(kind, freed);
      // As many as there may be free blocks in the page of the freed one and before it.
      static unsigned char* more[5000];
      size_t count = 0;
      for (; count < 5000 && (count < LIVE || damages == 0); count++) {
        more[count] = (unsigned char*)mi_malloc(size);
        assert_non_null(more[count]);
        assert_int_equal((uintptr_t)more[count] % 16, 0);
        memset(more[count], 255, size); // whoever else has it sees that
      }
      live_check(size);
      for (size_t k = 0; k < count; k++) assert_true(test_is_filled(more[k], size, 255));
      for (size_t k = 0; k < count; k++) mi_free(more[k]);
      live_end();
      mi_collect(true);
      if (damages == 0) {
        fail_msg("size %zu, link %zu is not noticed", size, kind);
      }
    }
  }
}

// If this fails, whoever gets a block learns where the next one is.
static void link_is_not_told(void** state) {
  (void)state;
  for (size_t size = 16; size <= 2048; size *= 2) {
    static void* block[100];
    for (size_t round = 0; round < 3; round++) {
      for (size_t i = 0; i < 100; i++) {
        block[i] = mi_malloc(size);
        assert_int_equal(*(uintptr_t*)block[i], 0);
        memset(block[i], 0, size);
      }
      for (size_t i = 0; i < 100; i++) mi_free(block[i]);
    }
    // A link that is there is no address.
    const uintptr_t link = *(volatile uintptr_t*)block[0];
    for (size_t i = 0; i < 100; i++) assert_true(link != (uintptr_t)block[i]);
  }
}

// If this fails, whoever gets a block learns a part of the key that its canary is coded with.
static void canary_is_not_told(void** state) {
  (void)state;
  for (size_t size = 17; size < 128; size++) {
    const size_t slot_size = (size / 16 + 1) * 16;
    for (size_t round = 0; round < 3; round++) {
      unsigned char* const p = (unsigned char*)mi_malloc(size);
      for (size_t i = slot_size - 8; i < size; i++) assert_int_equal(p[i], 0);
      memset(p, 'S', size);
      mi_free(p);
    }
  }
}

// If this fails, blocks of a fresh page come in an order that can be foretold.
static void order_is_random(void** state) {
  (void)state;
  size_t steps = 0;
  size_t neighbours = 0;
  size_t same = 0;
  ptrdiff_t before[64] = {0};
  for (size_t round = 0; round < 50; round++) {
    mi_heap_t* const heap = mi_heap_new();
    unsigned char* last = (unsigned char*)mi_heap_malloc(heap, 63);
    for (size_t i = 0; i < 60; i++) { // the first list of a page has 64, of 64 bytes each
      unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, 63);
      steps++;
      neighbours += p == last + 64 ? 1 : 0;
      same += p - last == before[i] ? 1 : 0;
      before[i] = p - last;
      last = p;
    }
    mi_heap_destroy(heap);
  }
  // By chance an eighth, because a block comes from one of eight rows; and a fortieth.
  assert_true(neighbours < steps / 6);
  assert_true(same < steps / 20);
}

#define RACES 20000

// If this fails, two threads that free a block at one moment give it to two others.
static void one_of_two_frees_at_one_moment_is_refused(void** state) {
  (void)state;
  if (test_is_sanitized()) test_skip("two threads race on purpose");
  static unsigned char* block[64];
  mi_option_disable(mi_option_verbose); // many reports
  listen();
  assert_true(race_begin(RACES));
  for (size_t i = 1; i <= RACES; i++) {
    race_free_twice(mi_malloc(i % 8 == 0 ? 3 * TEST_MIB : 100), i);
    if (i % 100 != 0) continue;
    for (size_t k = 0; k < 64; k++) {
      block[k] = (unsigned char*)mi_malloc(100);
      memset(block[k], (int)k, 100);
    }
    for (size_t k = 0; k < 64; k++) assert_true(test_is_filled(block[k], 100, (unsigned char)k));
    for (size_t k = 0; k < 64; k++) mi_free(block[k]);
  }
  race_end();
  mi_collect(true);
  assert_int_equal(refusals, RACES);
  assert_int_equal(damages, 0);
  mi_option_enable(mi_option_verbose);
}

// If this fails, a program that makes no mistake is told of one.
static void right_program_is_told_nothing(void** state) {
  (void)state;
  static unsigned char* block[500];
  uint64_t random = 7;
  listen();
  for (size_t step = 0; step < 200000; step++) {
    const size_t i = random_below(&random, 500);
    const size_t size = random_below(&random, (size_t)1 << random_below(&random, 20));
    if (random_below(&random, 3) == 0) {
      block[i] = (unsigned char*)mi_realloc(block[i], size);
    } else {
      mi_free(block[i]);
      block[i] = make(random_below(&random, WAYS), size);
    }
    assert_non_null(block[i]);
    memset(block[i], (int)step, mi_usable_size(block[i]));
    if (step % 5000 == 0) mi_collect(true);
  }
  for (size_t i = 0; i < 500; i++) mi_free(block[i]);
  mi_collect(true);
  if (damages + refusals > 0) fail_msg("%s", said);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(right_program_is_told_nothing),
      cmocka_unit_test(each_second_free_is_refused),
      cmocka_unit_test(second_free_of_a_block_on_its_way_is_refused),
      cmocka_unit_test(address_of_no_block_is_refused),
      cmocka_unit_test(freed_block_is_not_resized),
      cmocka_unit_test(block_of_a_destroyed_heap_is_refused),
      cmocka_unit_test(overflow_is_noticed_to_the_byte),
      cmocka_unit_test(end_of_a_string_is_noticed),
      cmocka_unit_test(realloc_looks_behind),
      cmocka_unit_test(slot_without_a_canary_gets_one_again),
      cmocka_unit_test(freed_block_is_cleared),
      cmocka_unit_test(allocated_block_is_cleared),
      cmocka_unit_test(link_is_not_told),
      cmocka_unit_test(canary_is_not_told),
      cmocka_unit_test(order_is_random),
      cmocka_unit_test(one_of_two_frees_at_one_moment_is_refused),
      cmocka_unit_test(forged_link_leads_nowhere), // last: it leaves damage behind
  };
  return cmocka_run_group_tests_name("secure", tests, &reports_set_up, &reports_tear_down);
}
