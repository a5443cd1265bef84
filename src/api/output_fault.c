// SPDX-License-Identifier: MIT
// output_fault.c - the report of a fault in a guarded block, and the stacks of such a block in any
// other report.
//
// OUTPUT_FAULT-1  what runs here may run in a signal handler: it calls no more than output.c does,
//     and the function of the loader that knows the names of functions (os.h).
#include <errno.h>

#include "api.h"

// Print the functions of a stack, a line each.
static void mi_output_stack(const char* title, const void* const* frames, size_t count) {
  if (frames[0] == NULL) return;
  mi_output_line("  %s:", title);
  for (size_t i = 0; i < count && frames[i] != NULL; i++) {
    mi_os_symbol_t symbol;
    mi_os_symbol(frames[i], &symbol);
    if (symbol.module == NULL) {
      mi_output_line("    #%zu %p", i, frames[i]);
    } else if (symbol.function == NULL) {
      mi_output_line("    #%zu %p (%s+0x%zx)", i, frames[i], symbol.module, symbol.module_offset);
    } else {
      mi_output_line("    #%zu %s+0x%zx (%s+0x%zx)", i, symbol.function, symbol.function_offset,
                     symbol.module, symbol.module_offset);
    }
  }
}

static void mi_output_threads(const mi_guarded_t* block) {
  char text[160];
  size_t used = mi_text_format(text, sizeof(text), "  guarded block at %p of %zu bytes, ",
                               (const void*)block->p, block->size);
  if (block->heap_sequence == 0) {
    used += mi_text_format(text + used, sizeof(text) - used, "main heap");
  } else {
    used += mi_text_format(text + used, sizeof(text) - used, "heap %zu", block->heap_sequence);
  }
  used += mi_text_format(text + used, sizeof(text) - used, "; allocated by thread 0x%zx",
                         (size_t)block->allocated_by);
  if (block->freed_by != 0) {
    mi_text_format(text + used, sizeof(text) - used, ", freed by thread 0x%zx",
                   (size_t)block->freed_by);
  }
  mi_output_line("%s", text);
}

static void mi_output_block_stacks(const mi_guarded_t* block) {
  mi_output_threads(block);
  mi_output_stack("allocated at", block->allocated_at, MI_GUARD_FRAMES);
  if (block->freed_by != 0) mi_output_stack("freed at", block->freed_at, MI_GUARD_FRAMES);
}

MI_INTERNAL void mi_output_stacks(const void* p) {
  const mi_guarded_t* const block = mi_guarded_find(p);
  if (block != NULL) mi_output_block_stacks(block);
}

MI_INTERNAL void mi_hook_fault(const mi_fault_t* fault) {
  static const char* const accesses[] = {
      [MI_OS_UNKNOWN_ACCESS] = "access", [MI_OS_READ] = "read", [MI_OS_WRITE] = "write"};
  const mi_guarded_t* const block = &fault->block;
  const uint8_t* const address = (const uint8_t*)fault->address;
  const char* const access = accesses[fault->access];
  const uint8_t* const end = block->p + block->size;
  const bool is_late = fault->kind == MI_ERROR_LATE_WRITE;
  const char* const mistake = is_late                            ? "use after free"
                              : fault->kind == MI_ERROR_OVERFLOW ? "buffer overflow"
                                                                 : "buffer underflow";
  const char* const where = address < block->p ? "before" : address >= end ? "behind" : "into";
  const size_t distance = address < block->p ? (size_t)(block->p - address)
                          : address >= end   ? (size_t)(address - end)
                                             : (size_t)(address - block->p);
  mi_output_line("%s: %s at %p, %zu bytes %s a %sblock of %zu bytes at %p", mistake, access,
                 fault->address, distance, where, is_late ? "freed " : "", block->size,
                 (const void*)block->p);
  mi_output_stack("at", fault->at, MI_FAULT_FRAMES);
  mi_output_block_stacks(block);
  mi_output_notify(EFAULT);
}
