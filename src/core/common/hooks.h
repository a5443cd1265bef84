// SPDX-License-Identifier: MIT
// hooks.h - the only calls the core makes upwards: options, messages, the user's callbacks.
//
// Implemented in src/api (options.c, output.c, process.c), in src/observe, and by the unit tests.
// The core may call any of them at any time, on any thread, also before libc is ready; a hook that
// allocates through the library must be prepared for re-entry. No lock of the core is held during
// the call.
#ifndef MI_CORE_HOOKS_H
#define MI_CORE_HOOKS_H

#include "describe.h"

// What went wrong, for `mi_hook_error`. Each kind is printed in full once and counted afterwards;
// the counts are printed at the end of the process.
typedef enum mi_error_kind_e {
  MI_ERROR_INVALID_POINTER, // EINVAL: an address that is not ours
  MI_ERROR_INTERIOR_POINTER, // EINVAL: an address inside a block
  MI_ERROR_DOUBLE_FREE, // EAGAIN: the block is free already
  MI_ERROR_CORRUPT_LIST, // EFAULT: a link of a free list points outside
  MI_ERROR_CORRUPT_PAGE, // EFAULT: a page contradicts itself
  MI_ERROR_OVERFLOW, // EFAULT: a write behind a block
  MI_ERROR_UNDERFLOW, // EFAULT: a write before a block
  MI_ERROR_LATE_WRITE, // EFAULT: a write into a freed block
  MI_ERROR_FAULT, // EFAULT: the library accessed memory that is inaccessible
  MI_ERROR_WRONG_HEAP, // EINVAL: a theap of another thread, or a heap that has ended
  MI_ERROR_TAG, // EFAULT: the program accessed memory by an address with another tag
  MI_ERROR_TOO_LARGE, // EOVERFLOW: the request cannot be represented
  MI_ERROR_ALIGNMENT, // EINVAL: not a power of two (public code EOVERFLOW, see api)
  MI_ERROR_OUT_OF_MEMORY, // ENOMEM: the system has no more
  MI_ERROR_COUNT,
} mi_error_kind_t;

// Bytes that a report shows from the one on that was written where it must not be, and before it.
#define MI_REPORT_BYTES ((size_t)16)

typedef struct mi_report_s {
  const char* where; // the name of the user's call, such as "free"
  const void* p; // the address it concerns, or NULL
  const void* found; // where a corrupt link leads to, or what was overwritten, or the address with
      // the wrong tag, or NULL
  size_t size; // bytes asked for, or of the block
  const uint8_t* bytes_at; // where these bytes are
  uint8_t bytes[2 * MI_REPORT_BYTES]; // what was overwritten, and what is around that
  uint8_t byte_count; // how many of them there are; 0 none
  size_t missed; // > 0: not a report, but the number of reports lost; `kind` is the last one's
  mi_error_kind_t kind;
  mi_about_t about; // what is at `p`
} mi_report_t;

// Print a report if the options ask for it, count it, and call the user's error handler, unless the
// thread is inside of it (REPORT-5). Called only by report.c, which knows when this is safe.
MI_INTERNAL void mi_hook_error(const mi_report_t* report);

// Print a message, if the option verbose asks for it, or a warning.
MI_INTERNAL void mi_hook_verbose(const char* format, ...) mi_attr_printf(1, 2);
MI_INTERNAL void mi_hook_warning(const char* format, ...) mi_attr_printf(1, 2);

// Read the environment into the option values. Called once, as the first step of process set-up.
MI_INTERNAL void mi_hook_load_options(void);

// Store where the calling functions return to, innermost first, without those of the library;
// entries behind the last one are NULL. Implemented in src/observe/stack.c.
MI_INTERNAL void mi_hook_stack(const void** frames, size_t capacity);

// The last thread of the program that the library knows of ends: what the library has running for
// itself must end, so that the process can.
MI_INTERNAL void mi_hook_last_thread(void);

// A fork begins: set the library up, if it is not yet.
MI_INTERNAL void mi_hook_fork(void);

// Look for a command of the user, and do it. Called by the purge thread while `mi_state.control_ms`
// is not 0.
MI_INTERNAL void mi_hook_control(void);

// Run the user's deferred-free callback, if there is one.
MI_INTERNAL void mi_hook_deferred_free(mi_effort_t effort, uint64_t heartbeat);

#endif
