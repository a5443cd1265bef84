// SPDX-License-Identifier: MIT
// fault.c - an access that faulted: was it in, or beside, a guarded block, by a wrong memory tag,
// or made by the library?
//
//   SIGSEGV -> os_posix_fault.c -> mi_fault_on -> the record (guard.c) ----> mi_hook_fault
//                                      |-> an instruction of the library ------^
//                                      |-> a wrong memory tag -----------------^
//                                      '-> not ours: nothing
//
// The library faults where it follows what the program has destroyed (the link of a freed block),
// or what the program made up (free of a number).
//
// FAULT-1  all of this runs in a signal handler, on whatever the thread was doing: it allocates
//     nothing, takes no lock of ours, and follows no pointer but those to records, which are never
//     unmapped while the library is loaded. Other threads may change the record meanwhile: it is
//     copied once.
// FAULT-2  one thread at a time is here (OS_POSIX_FAULT-2), so that the facts are static: an
//     alternate stack may be small.
// FAULT-3  a fault is reported once: if the handler of the program returns, the access is repeated,
//     and faults again.
#include "fault.h"

#include <string.h>

// Written by the thread that switches, read by any, relaxed: it says whether errors are shown.
static mi_atomic(bool) mi_fault_guards;

static mi_fault_t mi_fault_last mi_attr_sparse; // FAULT-2

MI_INTERNAL bool mi_fault_has_guards(void) { return mi_atomic_load_relaxed(&mi_fault_guards); }

static mi_attr_racy bool mi_fault_copy(const void* address, mi_guarded_t* block) {
  const mi_guarded_t* const record = mi_guarded_find(address);
  if (record == NULL) return false;
  const volatile uint8_t* const from = (const volatile uint8_t*)record;
  for (size_t i = 0; i < sizeof(*block); i++) ((uint8_t*)block)[i] = from[i];
  return true;
}

// Return what is wrong with the access; MI_ERROR_COUNT: nothing that guards would stop.
static mi_error_kind_t mi_fault_kind(const uint8_t* address, mi_guarded_t* block) {
  if (mi_atomic_load_relaxed(&block->record.state) == MI_GUARD_FREED) return MI_ERROR_LATE_WRITE;
  if (address >= block->p + block->size) return MI_ERROR_OVERFLOW;
  return address < block->p ? MI_ERROR_UNDERFLOW : MI_ERROR_COUNT;
}

// Store where the access was. The stack has the frames of the handler first.
static void mi_fault_trace(const mi_os_fault_t* fault, const void** at) {
  const void* all[MI_FAULT_FRAMES + 4];
  at[0] = fault->at;
  at[1] = NULL;
  if (!fault->has_room || fault->at == NULL) return;
  const size_t count = mi_os_stack(all, MI_FAULT_FRAMES + 4);
  size_t first = 0;
  while (first < count && all[first] != fault->at) first++;
  size_t used = 0;
  for (size_t i = first; i < count && used < MI_FAULT_FRAMES; i++) at[used++] = all[i];
  if (used > 0 && used < MI_FAULT_FRAMES) at[used] = NULL;
}

static void mi_fault_on(const mi_os_fault_t* fault) {
  mi_fault_t now = {.kind = MI_ERROR_COUNT};
  if (fault->is_tag) {
    now.kind = MI_ERROR_TAG;
  } else if (mi_fault_copy(fault->address, &now.block)) {
    now.kind = mi_fault_kind((const uint8_t*)fault->address, &now.block);
  } else if (fault->is_in_library) {
    now.kind = MI_ERROR_FAULT;
  }
  if (now.kind == MI_ERROR_COUNT) return;
  mi_fault_t* const last = &mi_fault_last;
  if (last->used == fault->used && last->at[0] == fault->at && last->kind == now.kind) return;
  last->address = fault->address;
  last->used = fault->used;
  last->access = fault->access;
  last->kind = now.kind;
  memcpy(&last->block, &now.block, sizeof(now.block));
  mi_fault_trace(fault, last->at);
  mi_hook_fault(last);
}

MI_INTERNAL mi_attr_cold void mi_fault_start(void) {
  mi_os_stack_prepare();
  mi_os_fault_watch(&mi_fault_on);
}

MI_INTERNAL mi_attr_cold void mi_fault_start_guards(void) {
  mi_fault_start();
  mi_atomic_store_relaxed(&mi_fault_guards, true);
}

MI_INTERNAL mi_attr_cold void mi_fault_stop(void) {
  mi_os_fault_unwatch();
  mi_atomic_store_relaxed(&mi_fault_guards, false);
}
