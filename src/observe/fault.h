// SPDX-License-Identifier: MIT
// fault.h - faults of the program in guarded blocks (core/pages/guard.h), those by memory tags
// (core/pages/tags.h), and of the library.
#ifndef MI_OBSERVE_FAULT_H
#define MI_OBSERVE_FAULT_H

#include "../core/core.h"

#define MI_FAULT_FRAMES ((size_t)16)

// An access that faulted in or beside a guarded block, by its tag, or in the library.
typedef struct mi_fault_s {
  const void* address; // NULL: not known
  const void* used; // the same, with its tag
  mi_os_access_kind_t access;
  mi_error_kind_t kind; // MI_ERROR_OVERFLOW, MI_ERROR_UNDERFLOW or MI_ERROR_LATE_WRITE; or
      // MI_ERROR_FAULT, MI_ERROR_TAG: there is no guarded block
  mi_guarded_t block; // a copy
  const void* at[MI_FAULT_FRAMES]; // the instruction, and where the functions return to
} mi_fault_t;

// Watch for faults from now on: errors are shown. Called when the program may call anything.
MI_INTERNAL void mi_fault_start(void);

// The same, and errors are shown, whatever the options say: blocks are going to get guards.
MI_INTERNAL void mi_fault_start_guards(void);

// Stop: the library is about to be unloaded.
MI_INTERNAL void mi_fault_stop(void);

// True if guards were ever switched on.
MI_INTERNAL bool mi_fault_has_guards(void);

// Report a fault. Implemented in src/api/output_fault.c; runs in a signal handler.
MI_INTERNAL void mi_hook_fault(const mi_fault_t* fault);

#endif
