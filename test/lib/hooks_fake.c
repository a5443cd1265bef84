// SPDX-License-Identifier: MIT
// hooks_fake.c - see hooks_fake.h. Part of every unit test, in the place of the layers above.
#include "hooks_fake.h"

#include <pthread.h>

#include "core/common/state.h"

hooks_fake_t hooks_fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the records

// The promise of hooks.h: a user's function may call anything, so no lock may be held.
static void check_no_lock(void) { mi_lock_check_none("calls a hook"); }

MI_INTERNAL void mi_hook_error(const mi_report_t* report) {
  check_no_lock();
  pthread_mutex_lock(&lock);
  hooks_fake.error_count++;
  hooks_fake.count[report->kind]++;
  hooks_fake.report = *report;
  mi_describe_text(&report->about, hooks_fake.about, sizeof(hooks_fake.about));
  pthread_mutex_unlock(&lock);
  if (hooks_fake.on_error == NULL || mi_self()->is_in_error) return; // as the real one: REPORT-5
  mi_self()->is_in_error = true;
  hooks_fake.on_error();
  mi_self()->is_in_error = false;
}

MI_INTERNAL void mi_hook_verbose(const char* format, ...) {
  (void)format;
  check_no_lock();
}

MI_INTERNAL void mi_hook_warning(const char* format, ...) {
  (void)format;
  check_no_lock();
  hooks_fake.warning_count++;
}

MI_INTERNAL void mi_hook_load_options(void) {
  check_no_lock();
  if (hooks_fake.on_load_options != NULL) hooks_fake.on_load_options();
}

MI_INTERNAL void mi_hook_stack(const void** frames, size_t capacity) {
  (void)capacity;
  frames[0] = __builtin_return_address(0);
  frames[1] = NULL;
}

MI_INTERNAL void mi_hook_fork(void) {} // each test begins with the set-up

MI_INTERNAL void mi_hook_last_thread(void) {
  check_no_lock();
  pthread_mutex_lock(&lock);
  hooks_fake.last_thread_count++;
  pthread_mutex_unlock(&lock);
}

MI_INTERNAL void mi_hook_control(void) { check_no_lock(); }

MI_INTERNAL void mi_hook_deferred_free(mi_effort_t effort, uint64_t heartbeat) {
  (void)effort;
  check_no_lock();
  pthread_mutex_lock(&lock);
  hooks_fake.deferred_count++;
  hooks_fake.heartbeat = heartbeat;
  pthread_mutex_unlock(&lock);
  if (hooks_fake.on_deferred_free != NULL) hooks_fake.on_deferred_free();
}
