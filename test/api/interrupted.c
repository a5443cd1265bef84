// SPDX-License-Identifier: MIT
// interrupted.c - reports of a program in which signals come all the time.
#include "test_api.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRINTS 100

static void count_text(const char* text, void* arg) { *(size_t*)arg += strlen(text); }

// Read what the parent writes, after a while; says how much.
static _Noreturn void be_reader(int from, int to) {
  static char text[65536];
  usleep(50000);
  size_t total = 0;
  for (ssize_t got; (got = read(from, text, sizeof(text))) > 0;) total += (size_t)got;
  _exit(write(to, &total, sizeof(total)) == (ssize_t)sizeof(total) ? 0 : 1);
}

static void on_alarm(int number) { (void)number; }

// If this fails, part of a report is missing in a program that has timers: a write to a slow pipe
// is interrupted by each signal.
static void text_is_whole_although_signals_come(void** state) {
  (void)state;
  size_t expected = 0;
  for (size_t i = 0; i < PRINTS; i++) mi_options_print_out(&count_text, &expected);
  int text[2], answer[2];
  assert_int_equal(pipe(text), 0);
  assert_int_equal(pipe(answer), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(text[1]);
    be_reader(text[0], answer[1]);
  }
  const struct sigaction action = {.sa_handler = &on_alarm}, old_action = {.sa_handler = SIG_IGN};
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  const int old = dup(STDERR_FILENO);
  dup2(text[1], STDERR_FILENO);
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (size_t i = 0; i < PRINTS; i++) mi_options_print();
  setitimer(ITIMER_REAL, &never, NULL);
  sigaction(SIGALRM, &old_action, NULL);
  dup2(old, STDERR_FILENO);
  close(text[0]);
  close(text[1]);
  size_t total = 0;
  assert_int_equal(read(answer[0], &total, sizeof(total)), sizeof(total));
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_int_equal(total, expected);
  close(old);
  close(answer[0]);
  close(answer[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(text_is_whole_although_signals_come)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
