// SPDX-License-Identifier: MIT
// left_report.c - a program whose error function leaves the report of a fault by longjmp.
#include "spawn.h"
#include "test_api.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <mimalloc-stats.h>

#define SIZE ((size_t)100)

static sigjmp_buf outside;
static size_t left_count;

static void leave(int code, void* arg) {
  (void)code, (void)arg;
  left_count++;
  siglongjmp(outside, 1);
}

static void* fault_and_leave(void* arg) {
  unsigned char* const p = (unsigned char*)mi_malloc(SIZE);
  mi_free(p);
  if (sigsetjmp(outside, 1) == 0) *(volatile unsigned char*)test_opaque_pointer(p) = 1;
  return arg;
}

// Another thread leaves its report; then this one makes a fault that has nothing to do with blocks.
static void fault_after_left_report(void) {
  signal(SIGSEGV, SIG_DFL); // the handlers of cmocka go on after a fault
  signal(SIGBUS, SIG_DFL);
  alarm(60);
  mi_option_set(mi_option_abort_on_misuse, 0);
  mi_option_set(mi_option_guarded_sample_rate, 1);
  mi_register_error(&leave, NULL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &fault_and_leave, NULL) != 0) _exit(7);
  pthread_join(thread, NULL);
  if (left_count != 1) _exit(8);
  *(volatile unsigned char*)(uintptr_t)test_opaque(8) = 1;
}

// Whether guards can be had at all; a build for a tool has none.
static bool has_guards(void) {
  mi_option_set(mi_option_guarded_sample_rate, 1);
  mi_stats_t_decl(before);
  assert_true(mi_stats_get(&before));
  mi_free(mi_malloc(SIZE));
  mi_stats_t_decl(after);
  assert_true(mi_stats_get(&after));
  mi_option_set(mi_option_guarded_sample_rate, 0);
  return after.malloc_guarded_count.total > before.malloc_guarded_count.total;
}

// If this fails, a server that goes on after a fault hangs with the next one, instead of ending.
static void left_report_lets_others_end(void** state) {
  (void)state;
  test_skip_if_sanitized();
  if (!has_guards()) test_skip("no block can have guards here");
  static spawn_result_t result;
  assert_true(spawn_fork(&fault_after_left_report, &result));
  if (result.signal != SIGSEGV) {
    fail_msg("signal %d, status %d\n%s", result.signal, result.exit_status, result.output);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(left_report_lets_others_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
