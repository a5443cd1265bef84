// SPDX-License-Identifier: MIT
// test_reports.h - for tests of the public interface: what the library says about mistakes with
// memory, and how many there were.
#ifndef TEST_REPORTS_H
#define TEST_REPORTS_H

#include "test_api.h"

static char said[16384]; // the messages since `listen`
static size_t damages; // errors with EFAULT since then
static size_t refusals; // all others

static void hear(const char* text, void* arg) {
  (void)arg;
  const size_t used = strlen(said);
  snprintf(said + used, sizeof(said) - used, "%s", text);
}

static void on_error(int code, void* arg) {
  (void)arg;
  // Two threads may make mistakes at one moment.
  __atomic_fetch_add(code == EFAULT ? &damages : &refusals, 1, __ATOMIC_RELAXED);
}

static inline void listen(void) {
  said[0] = 0;
  damages = refusals = 0;
}

// The functions of a group of tests.
static inline int reports_set_up(void** state) {
  (void)state;
  mi_register_output(&hear, NULL);
  mi_register_error(&on_error, NULL);
  mi_option_enable(mi_option_show_errors);
  mi_option_enable(mi_option_verbose); // each error, not the first of its kind
  mi_option_set(mi_option_max_errors, -1);
  return 0;
}

static inline int reports_tear_down(void** state) {
  (void)state;
  mi_option_disable(mi_option_verbose);
  mi_register_error(NULL, NULL);
  mi_register_output(NULL, NULL);
  return 0;
}

#endif
