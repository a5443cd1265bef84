// SPDX-License-Identifier: MIT
// hooks_fake.h - core/common/hooks.h for unit tests: what the core reports is recorded.
#ifndef TEST_HOOKS_FAKE_H
#define TEST_HOOKS_FAKE_H

#include "core/common/hooks.h"

typedef struct hooks_fake_s {
  size_t error_count; // of all kinds
  size_t count[MI_ERROR_COUNT];
  mi_report_t report; // the last error
  char about[MI_DESCRIBE_TEXT_MAX]; // what it says of the address
  size_t warning_count;
  size_t last_thread_count;
  size_t deferred_count;
  uint64_t heartbeat; // of the last deferred free
  void (*on_error)(void); // what the user's handlers do
  void (*on_deferred_free)(void);
  void (*on_load_options)(void);
} hooks_fake_t;

extern hooks_fake_t hooks_fake;

#endif
