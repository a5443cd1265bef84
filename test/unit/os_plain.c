// SPDX-License-Identifier: MIT
// os_plain.c - tests of src/os/os.c as it is where there is nothing but POSIX (os_plain.c,
// self_table.c), on the system itself.
//
// The files are compiled into this program as a part of it, as in os_linux.c.
#define _GNU_SOURCE
#define MI_SINGLE_TU 1
#define MI_OS_PLAIN 1
#include "../../src/base/text.c"
#include "../../src/os/assert.c"
#include "../../src/os/os.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "test_os.h"

// What core/common/self.c defines: here the first value is one that can be recognised.
#define FIRST_PLACE 77
static const mi_self_t mi_self_initial = {.place = FIRST_PLACE};
static mi_self_slot_t mi_self_slots[MI_SELF_SLOTS] = {
    [0 ... MI_SELF_SLOTS - 1] = {.self = {.place = FIRST_PLACE}},
};

static size_t count_taken(void) {
  size_t count = 0;
  for (mi_self_table_t* table = &mi_self_first; table != NULL; table = table->more) {
    for (size_t i = 0; i < table->count; i++) count += table->slots[i].id != 0;
  }
  return count;
}

// If this fails, threads share the state of each other, or a new thread finds that of an old one.
static void self_is_found_by_many(void** state) {
  (void)state;
  enum { MANY = 3000 };
  mi_self_t** const seen = (mi_self_t**)calloc(MANY, sizeof(*seen));
  // Identities as a system gives them: OS pages apart, and stacks of 8 MiB apart.
  for (uintptr_t step = 4096; step <= 8 * MI_MIB; step *= 2048) {
    const size_t before = count_taken();
    for (size_t i = 0; i < MANY; i++) {
      seen[i] = mi_self_find(0x7f0000000000 + i * step);
      assert_int_equal(seen[i]->place, FIRST_PLACE);
      seen[i]->parcel.last = (uint32_t)i;
    }
    for (size_t i = 0; i < MANY; i++) {
      assert_ptr_equal(mi_self_find(0x7f0000000000 + i * step), seen[i]);
      assert_int_equal(seen[i]->parcel.last, i);
    }
    assert_int_equal(count_taken(), before + MANY);
    for (size_t i = 0; i < MANY; i++) {
      mi_self_clear(mi_self_seek(0x7f0000000000 + i * step, 0x7f0000000000 + i * step, NULL));
      assert_int_equal(seen[i]->parcel.last, 0);
    }
    assert_int_equal(count_taken(), before);
  }
  free(seen);
}

static atomic_int ready;
static atomic_bool is_over;

static void* work(void* arg) {
  mi_self_t* const self = mi_self();
  for (int i = 0; i < 1000; i++) {
    if (mi_self() != self || self->parcel.last != (uint32_t)i) return NULL;
    self->parcel.last++;
    if (i == 500) {
      atomic_fetch_add(&ready, 1);
      while (!atomic_load(&is_over)) sched_yield();
    }
  }
  mi_self_leave();
  return arg;
}

// If this fails, two threads that start at the same time have one state, or slots are lost.
static void self_is_of_one_thread(void** state) {
  (void)state;
  enum { THREADS = 400, ROUNDS = 5 };
  static pthread_t threads[THREADS];
  mi_self(); // of this thread
  const size_t before = count_taken();
  for (int round = 0; round < ROUNDS; round++) {
    atomic_store(&ready, 0);
    atomic_store(&is_over, false);
    for (int i = 0; i < THREADS; i++) {
      assert_int_equal(pthread_create(&threads[i], NULL, &work, &is_over), 0);
    }
    while (atomic_load(&ready) < THREADS) sched_yield();
    assert_int_equal(count_taken(), before + THREADS);
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++) {
      void* result = NULL;
      pthread_join(threads[i], &result);
      assert_ptr_equal(result, &is_over);
    }
    assert_int_equal(count_taken(), before);
  }
}

// If this fails, a thread of the child of a fork goes on with the theap of a thread that is not
// there.
static void self_of_others_is_forgotten_in_a_child(void** state) {
  (void)state;
  mi_self()->parcel.last = 5;
  mi_self_find(0x7f0000001000)->parcel.last = 6;
  const pid_t child = fork();
  if (child == 0) {
    mi_self_forget_others();
    const bool is_fine = mi_self()->parcel.last == 5 && count_taken() == 1 &&
                         mi_self_find(0x7f0000001000)->parcel.last == 0;
    _exit(is_fine ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// If this fails, the process ends although there is room, or it does not say why it ends.
static void self_is_found_where_memory_is_short(void** state) {
  (void)state;
  mi_self();
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_AS, &limit);
    if (mi_os_map(NULL, MI_MIB, MI_SLICE_SIZE, MI_OS_NO_ACCESS) != NULL) _exit(77);
    mi_self_first.more = NULL; // as if there were no other table yet
    const size_t free_slots = MI_SELF_SLOTS - 1;
    for (size_t i = 0; i < free_slots; i++) {
      if (mi_self_find(0x7e0000000000 + i * 4096)->parcel.last != 0) _exit(1);
      mi_self_find(0x7e0000000000 + i * 4096)->parcel.last = 1;
    }
    for (size_t i = 0; i < free_slots; i++) {
      if (mi_self_find(0x7e0000000000 + i * 4096)->parcel.last != 1) _exit(2);
    }
    freopen("/dev/null", "w", stderr);
    mi_self_find(0x7d0000000000);
    _exit(3);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    printf("SKIP: the emulator does not limit addresses\n");
    skip();
  }
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static mi_lock_t lock = {.name = "test"};
static size_t guarded;

static void* count(void* arg) {
  for (int i = 0; i < 20000; i++) {
    mi_lock_enter(&lock);
    guarded++;
    mi_lock_leave(&lock);
  }
  mi_self_leave();
  return arg;
}

// If this fails, two threads are in a lock, or one waits for ever.
static void os_locks(void** state) {
  (void)state;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, &count, NULL);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  assert_int_equal(guarded, 4 * 20000);
}

// If this fails, the core takes something for done that this system cannot do.
static void os_says_what_it_lacks(void** state) {
  (void)state;
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, 2 * page_size, page_size, MI_OS_READ_WRITE);
  assert_non_null(p);
  *p = 7;
  assert_int_equal(mi_os_populate(p, page_size), ENOSYS);
  assert_int_equal(mi_os_populate_huge(p, page_size), ENOSYS);
  assert_int_equal(mi_os_collapse(p, page_size), ENOSYS);
  assert_int_equal(mi_os_split(p, page_size), ENOSYS);
  assert_false(mi_os_is_nonzero(p));
  assert_int_equal(mi_os_huge_pages(p, page_size, MI_OS_HUGE), ENOSYS);
  assert_int_equal(mi_os_move(p, p + page_size, page_size), ENOSYS);
  assert_int_equal(mi_os_prefer_node(p, page_size, 0), ENOSYS);
  assert_false(mi_os_guard(p, page_size) || mi_os_unguard(p, page_size));
  assert_null(mi_os_map_large(NULL, 2 * MI_MIB, 2 * MI_MIB));
  assert_false(mi_os_has_huge_pages() || mi_os_is_alone() || mi_os_is_single_threaded());
  assert_false(mi_os_mappings(NULL, NULL));
  assert_true(*p == 7);
  assert_int_equal(mi_os_unmap(p, 2 * page_size), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(os_maps_at_an_address),
      cmocka_unit_test(os_maps_at_no_address_that_is_taken),
      cmocka_unit_test(os_maps_aligned),
      cmocka_unit_test(os_gives_memory_back),
      cmocka_unit_test(os_knows_what_is_readable),
      cmocka_unit_test(os_has_secrets),
      cmocka_unit_test(os_writes_files),
      cmocka_unit_test(os_says_what_it_lacks),
      cmocka_unit_test(os_locks),
      cmocka_unit_test(self_is_found_by_many),
      cmocka_unit_test(self_is_of_one_thread),
      cmocka_unit_test(self_of_others_is_forgotten_in_a_child),
      cmocka_unit_test(self_is_found_where_memory_is_short),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
