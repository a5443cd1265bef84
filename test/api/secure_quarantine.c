// SPDX-License-Identifier: MIT
// secure_quarantine.c - the option quarantine of a secure build (MI_SECURE): what is freed is not
// handed out again for a while, and is watched. Only for that build.
#include <sys/wait.h>
#include <unistd.h>

#include "puppet.h"
#include "race.h"
#include "test_reports.h"

#define MANY 2000
static unsigned char* block[MANY];

static int quarantine_set_up(void** state) {
  mi_option_set(mi_option_quarantine, 256); // KiB: blocks of up to 4 KiB
  return reports_set_up(state);
}

// True if one of so many fresh blocks is at `p`.
static bool comes_back(const unsigned char* p, size_t size, size_t count) {
  bool is_back = false;
  for (size_t i = 0; i < count; i++) {
    block[i] = (unsigned char*)mi_malloc(size);
    is_back = is_back || block[i] == p;
  }
  for (size_t i = 0; i < count; i++) mi_free(block[i]);
  return is_back;
}

// If this fails, a block that was freed has another owner at once.
static void freed_block_is_not_handed_out_next(void** state) {
  (void)state;
  for (size_t size = 16; size <= 3000; size = size * 3 / 2) {
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    mi_free(p);
    assert_false(comes_back(p, size, 1000)); // without it, when the list runs dry
  }
  // What is larger is not kept, nor what the program collects.
  unsigned char* const p = (unsigned char*)mi_malloc(10000);
  mi_free(p);
  assert_true(comes_back(p, 10000, 100)); // behind what is carved already
  unsigned char* const q = (unsigned char*)mi_malloc(1000);
  mi_free(q);
  mi_collect(true);
  assert_true(comes_back(q, 1000, MANY));
}

// If this fails, a block that is kept is freed again, or resized.
static void block_that_is_kept_is_free(void** state) {
  (void)state;
  unsigned char* const p = (unsigned char*)mi_malloc(100);
  listen();
  mi_free(p);
  mi_free(test_opaque_pointer(p));
  assert_null(mi_realloc(test_opaque_pointer(p), 50));
  assert_int_equal(mi_usable_size(test_opaque_pointer(p)), 0);
  assert_int_equal(refusals, 3);
  assert_int_equal(damages, 0);
}

// If this fails, a write into a freed block is not noticed, or one is reported that nobody made.
static void write_into_a_kept_block_is_reported(void** state) {
  (void)state;
  for (size_t at = 0; at < 1000; at += 37) {
    unsigned char* const p = (unsigned char*)mi_malloc(1000);
    memset(p, 1, 1000);
    listen();
    mi_free(p);
    *(volatile unsigned char*)(p + at) = 'W';
    mi_collect(true);
    assert_int_equal(damages, 1);
    assert_non_null(strstr(said, "use after free"));
  }
  listen();
  mi_option_disable(mi_option_zero_on_free);
  for (size_t i = 0; i < MANY; i++) block[i] = (unsigned char*)memset(mi_malloc(100), 1, 100);
  for (size_t i = 0; i < MANY; i++) mi_free(block[i]);
  mi_option_enable(mi_option_zero_on_free);
  mi_collect(true);
  assert_int_equal(damages + refusals, 0);
}

static bool count_freed(const mi_heap_t* heap, const mi_heap_area_t* area, void* p, size_t size,
                        void* arg) {
  (void)heap, (void)area, (void)size;
  for (size_t i = 0; p != NULL && i < 100; i++) *(size_t*)arg += p == block[i] ? 1 : 0;
  return true;
}

// If this fails, a program that looks for what it has left finds what it has freed.
static void kept_blocks_are_not_visited(void** state) {
  (void)state;
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < 100; i++) block[i] = (unsigned char*)mi_malloc(100);
    size_t count = 0;
    assert_true(mi_heap_visit_blocks(NULL, true, &count_freed, &count));
    assert_int_equal(count, 100);
    for (size_t i = 0; i < 100; i++) mi_free(block[i]);
    count = 0;
    if (round == 0) {
      assert_true(mi_heap_visit_blocks(NULL, true, &count_freed, &count));
    } else {
      assert_true(mi_theap_visit_blocks(mi_theap_get_default(), true, &count_freed, &count));
    }
    assert_int_equal(count, 0);
  }
}

static void* free_some(void* arg) {
  (void)arg;
  for (size_t i = 0; i < MANY; i++) mi_free(mi_malloc(16 + i));
  for (size_t i = 0; i < MANY; i += 2) mi_free(block[i]);
  return NULL;
}

// How many blocks of 200 to 255 bytes there are.
static size_t used;
static bool count_used(const mi_heap_t* heap, const mi_heap_area_t* area, void* p, size_t size,
                       void* arg) {
  (void)heap, (void)p, (void)size, (void)arg;
  if (area->block_size >= 200 && area->block_size < 256) used += area->used;
  return true;
}

// If this fails, what a thread keeps is lost with it, or is freed into the page of another wrongly.
static void threads_and_forks_lose_nothing(void** state) {
  (void)state;
  listen();
  mi_collect(true);
  used = 0;
  mi_heap_visit_blocks(NULL, false, &count_used, NULL);
  const size_t before = used;
  for (size_t round = 0; round < 30; round++) {
    for (size_t i = 0; i < MANY; i++) block[i] = (unsigned char*)mi_malloc(200);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, &free_some, NULL), 0);
    const pid_t child = round % 10 == 0 ? fork() : -1;
    if (child == 0) {
      for (size_t i = 1; i < MANY; i += 2) mi_free(block[i]);
      mi_collect(true);
      _exit(damages + refusals == 0 ? 0 : 1);
    }
    pthread_join(thread, NULL);
    for (size_t i = 1; i < MANY; i += 2) mi_free(block[i]);
    int status = 0;
    if (child > 0) assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
  }
  mi_collect(true);
  used = 0;
  mi_heap_visit_blocks(NULL, false, &count_used, NULL);
  assert_int_equal(used, before); // also of what the thread freed, which has ended
  assert_int_equal(damages + refusals, 0);
}

static void free_a_hundred(void* arg) {
  (void)arg;
  for (size_t i = 0; i < 100; i++) block[i] = (unsigned char*)memset(mi_malloc(200), 1, 200);
  for (size_t i = 0; i < 100; i++) mi_free(block[i]);
}

// If this fails, what the threads of a program kept stays for ever in its children.
static void child_frees_what_vanished_threads_kept(void** state) {
  (void)state;
  static puppet_t other[3];
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i <= round; i++) {
      puppet_start(&other[i]);
      puppet_do(&other[i], &free_a_hundred, NULL);
    }
    listen();
    const pid_t child = fork();
    if (child == 0) {
      size_t count = 0;
      const pid_t own = round > 1 ? fork() : 0; // a child that has the same to do
      if (own > 0) {
        int status = 0;
        _exit(waitpid(own, &status, 0) != own || status != 0);
      }
      if (round > 0) mi_free(mi_malloc(200)); // is kept
      mi_collect(true);
      mi_heap_visit_blocks(NULL, true, &count_freed, &count); // those of the last one
      _exit(count + damages + refusals == 0 ? 0 : 1);
    }
    int status = 0;
    if (child > 0) assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (size_t i = 0; i <= round; i++) puppet_end(&other[i]);
  }
}

// If this fails, a heap is destroyed while somebody keeps a block of it, which is freed later.
static void heap_that_ends_takes_its_blocks_along(void** state) {
  (void)state;
  listen();
  for (size_t round = 0; round < 200; round++) {
    mi_heap_t* const heap = mi_heap_new();
    for (size_t i = 0; i < 100; i++) block[i] = (unsigned char*)mi_heap_malloc(heap, 64);
    for (size_t i = 0; i < 100; i += 2) mi_free(block[i]);
    if (round % 2 == 0) {
      mi_heap_destroy(heap);
    } else {
      mi_heap_delete(heap);
      for (size_t i = 1; i < 100; i += 2) mi_free(block[i]);
    }
    for (size_t i = 0; i < 100; i++) mi_free(mi_malloc(64));
  }
  mi_collect(true);
  assert_int_equal(damages + refusals, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(freed_block_is_not_handed_out_next),
      cmocka_unit_test(block_that_is_kept_is_free),
      cmocka_unit_test(write_into_a_kept_block_is_reported),
      cmocka_unit_test(kept_blocks_are_not_visited),
      cmocka_unit_test(threads_and_forks_lose_nothing),
      cmocka_unit_test(child_frees_what_vanished_threads_kept),
      cmocka_unit_test(heap_that_ends_takes_its_blocks_along),
  };
  return cmocka_run_group_tests(tests, &quarantine_set_up, &reports_tear_down);
}
