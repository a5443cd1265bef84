// SPDX-License-Identifier: MIT
// secure_told.c - error functions that use the library, called from every kind of report of a
// secure build. If this fails, a program that writes a log, or tidies up, where it is told of a
// mistake hangs or faults there.
#include "test_reports.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mimalloc-profile.h>

#define BLOCKS ((size_t)60)

static size_t told; // reports
static mi_heap_t* kept; // a heap that one of the functions deletes

static void* use_a_thread(void* arg) {
  mi_free(mi_malloc(1000));
  mi_collect(true);
  return arg;
}

// -- what an error function may do --

static void do_allocate(void) {
  void* p[200];
  for (size_t i = 0; i < 200; i++) p[i] = mi_malloc(i * 30);
  for (size_t i = 0; i < 200; i++) mi_free(p[i]);
}

static void do_collect(void) { mi_collect(true); }

static void do_fork(void) {
  if (told % 16 != 1) return; // it takes long
  const pid_t child = fork();
  if (child == 0) {
    use_a_thread(NULL);
    _exit(0);
  }
  int status = 0;
  if (child > 0) assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static void do_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &use_a_thread, NULL) == 0) pthread_join(thread, NULL);
}

static void do_guards(void) { mi_option_set(mi_option_guarded_sample_rate, (long)(told % 3)); }

static void do_profile(void) {
  mi_profile_start(1000);
  mi_profile_stop();
}

static void do_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  assert_non_null(mi_heap_malloc(heap, 100));
  assert_non_null(mi_heap_malloc(heap, 100000));
  mi_heap_destroy(heap);
}

static void do_delete(void) {
  mi_heap_t* const heap = kept;
  kept = NULL;
  if (heap != NULL) mi_heap_delete(heap);
}

static void do_describe(void) {
  static char text[2000];
  mi_describe(text, text, sizeof(text));
}

static void do_mistake(void) { mi_free((void*)test_opaque(24)); }

static void (*const actions[])(void) = {do_allocate, do_collect, do_fork, do_thread,
                                        do_guards,   do_profile, do_heap, do_delete,
                                        do_describe, do_mistake};
static void (*action)(void);

static void on_report(int code, void* arg) {
  (void)code, (void)arg;
  told++;
  action();
}

// -- mistakes --

static void* take(size_t size, bool in_heap) {
  return mi_heap_malloc(in_heap && kept != NULL ? kept : mi_heap_main(), size);
}

static void free_twice(unsigned char** p, size_t size) {
  (void)size;
  for (size_t i = 0; i < BLOCKS; i += 3) mi_free(p[i]);
  for (size_t i = 0; i < BLOCKS; i += 3) mi_free(p[i]);
  for (size_t i = 0; i < BLOCKS; i++) {
    if (i % 3 != 0) mi_free(p[i]);
  }
}

static void overflow(unsigned char** p, size_t size) {
  for (size_t i = 1; i < BLOCKS; i += 2) *(volatile unsigned char*)(p[i] + size) = 0x41;
  for (size_t i = 0; i < BLOCKS; i++) mi_free(p[i]);
}

static void write_late(unsigned char** p, size_t size) {
  for (size_t i = 0; i < BLOCKS; i++) mi_free(p[i]);
  for (size_t i = 0; i < BLOCKS && size < 500000; i += 4) {
    memset(test_opaque_pointer(p[i]), 0x42, 8);
  }
}

static void free_inside(unsigned char** p, size_t size) {
  (void)size;
  for (size_t i = 0; i < BLOCKS; i++) mi_free(p[i] + 16);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(p[i]);
}

static void resize_freed(unsigned char** p, size_t size) {
  for (size_t i = 0; i < BLOCKS; i++) {
    mi_free(p[i]);
    mi_free(mi_realloc(test_opaque_pointer(p[i]), size * 2));
  }
}

typedef void mistake_t(unsigned char** p, size_t size);
static mistake_t* const mistakes[] = {free_twice, overflow, write_late, free_inside, resize_freed};

static void make_mistake(mistake_t* mistake, size_t size, bool in_heap) {
  unsigned char* p[BLOCKS];
  const bool is_write = mistake == overflow || mistake == write_late;
  if (is_write && action == do_guards) return; // it may fault
  for (size_t i = 0; i < BLOCKS; i++) {
    p[i] = (unsigned char*)take(size, in_heap);
    assert_non_null(p[i]);
    memset(p[i], 1, size);
  }
  mistake(p, size);
  for (size_t i = 0; i < BLOCKS; i++) p[i] = (unsigned char*)mi_malloc(size);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(p[i]);
  mi_collect(true);
}

static void error_functions_may_use_the_library(void** state) {
  static const size_t sizes[] = {16, 40, 1000, 6000, 100000, 600000};
  (void)state;
  test_skip_if_sanitized();
  alarm(60);
  mi_option_disable(mi_option_abort_on_misuse);
  mi_register_error(&on_report, NULL);
  for (size_t a = 0; a < sizeof(actions) / sizeof(actions[0]); a++) {
    action = actions[a];
    told = 0;
    for (size_t i = 0; i < 2 * sizeof(mistakes) / sizeof(mistakes[0]); i++) {
      for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        if (kept == NULL) kept = mi_heap_new();
        make_mistake(mistakes[i / 2], sizes[s], i % 2 != 0);
      }
    }
    assert_true(told > 1000);
    mi_option_set(mi_option_guarded_sample_rate, 0);
  }
  mi_register_error(NULL, NULL);
  alarm(0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(error_functions_may_use_the_library),
  };
  return cmocka_run_group_tests(tests, &reports_set_up, &reports_tear_down);
}
