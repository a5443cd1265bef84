// SPDX-License-Identifier: MIT
// output_fault.c - the report of a fault in a guarded block or in the library, and the stacks of a
// guarded block in any other report.
//
// Text is a line for each function; with the option report_json, each stack is an object on a line
// of its own (docs/guide.md).
//
// OUTPUT_FAULT-1  what runs here may run in a signal handler: it calls no more than output.c does,
//     and the function of the loader that knows the names of functions (os.h).
// OUTPUT_FAULT-2  one thread at a time reports a fault (FAULT-2), so that its line of JSON is
//     static: an alternate stack may be small.
#include <errno.h>

#include "api.h"

// -- Stacks as text --

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

// -- Stacks as JSON --

#define MI_OUTPUT_NAME_MAX 160
#define MI_OUTPUT_FRAME_MAX (2 * MI_OUTPUT_NAME_MAX + 160)

// One line. What is added fits, or is left out.
typedef struct mi_output_json_s {
  char text[2048];
  size_t used;
} mi_output_json_t;

// Add a piece, if there is room for it and the end of the object.
static bool mi_output_json_add(mi_output_json_t* json, const char* piece) {
  const size_t end = 8;
  if (json->used + mi_text_length(piece) + end > sizeof(json->text)) return false;
  json->used = mi_text_append(json->text, sizeof(json->text), json->used, piece);
  return true;
}

// Write the name as JSON: null if there is none, or it is too long.
static void mi_output_json_name(const char* name, char* text) {
  const bool is_there =
      name != NULL && mi_explain_quote(name, text, MI_OUTPUT_NAME_MAX) < MI_OUTPUT_NAME_MAX;
  if (!is_there) mi_text_format(text, MI_OUTPUT_NAME_MAX, "null");
}

static bool mi_output_json_frame(mi_output_json_t* json, const void* at, bool is_first) {
  mi_os_symbol_t symbol;
  mi_os_symbol(at, &symbol);
  char function[MI_OUTPUT_NAME_MAX];
  char module[MI_OUTPUT_NAME_MAX];
  mi_output_json_name(symbol.function, function);
  mi_output_json_name(symbol.module, module);
  char piece[MI_OUTPUT_FRAME_MAX];
  size_t used = mi_text_format(piece, sizeof(piece), "%s{\"address\":\"%p\",\"function\":%s,",
                               is_first ? "" : ",", at, function);
  used += mi_text_format(piece + used, sizeof(piece) - used, "\"function_offset\":%zu,",
                         symbol.function != NULL ? symbol.function_offset : 0);
  mi_text_format(piece + used, sizeof(piece) - used, "\"module\":%s,\"module_offset\":%zu}", module,
                 symbol.module != NULL ? symbol.module_offset : 0);
  return mi_output_json_add(json, piece);
}

// A stack `of` an access, an allocation or a free of a block, by a thread; `block` NULL: of none.
// Functions that do not fit are left out.
static void mi_output_json_stack(mi_output_json_t* json, const mi_guarded_t* block, const char* of,
                                 uintptr_t thread, const void* const* frames, size_t count) {
  json->used = mi_text_format(json->text, sizeof(json->text),
                              "{\"mimalloc\":\"stack\",\"of\":\"%s\",\"thread\":\"0x%zx\",", of,
                              (size_t)thread);
  char piece[MI_OUTPUT_FRAME_MAX];
  if (block != NULL) {
    mi_text_format(piece, sizeof(piece), "\"block\":\"%p\",\"size\":%zu,\"heap\":%zu,",
                   (const void*)block->p, block->size, block->heap_sequence);
  } else {
    mi_text_format(piece, sizeof(piece), "\"block\":null,\"size\":null,\"heap\":null,");
  }
  mi_output_json_add(json, piece);
  mi_output_json_add(json, "\"frames\":[");
  bool has_room = true;
  for (size_t i = 0; i < count && frames[i] != NULL && has_room; i++) {
    has_room = mi_output_json_frame(json, frames[i], i == 0);
  }
  json->used = mi_text_append(json->text, sizeof(json->text), json->used, "]}");
  if (!mi_self()->is_printing) mi_output_end(json->text, json->used);
}

static void mi_output_json_block(mi_output_json_t* json, const mi_guarded_t* block) {
  mi_output_json_stack(json, block, "allocation", block->allocated_by, block->allocated_at,
                       MI_GUARD_FRAMES);
  if (block->freed_by == 0) return;
  mi_output_json_stack(json, block, "free", block->freed_by, block->freed_at, MI_GUARD_FRAMES);
}

MI_INTERNAL void mi_output_stacks(const void* p) {
  const mi_guarded_t* const block = mi_guarded_find(p);
  if (block == NULL) return;
  if (mi_option_value(report_json) != 0) {
    mi_output_json_t json;
    mi_output_json_block(&json, block);
  } else {
    mi_output_block_stacks(block);
  }
}

// -- Faults --

static mi_output_json_t mi_output_fault_json mi_attr_sparse; // OUTPUT_FAULT-2

static void mi_output_fault_as_json(const mi_fault_t* fault, const char* access,
                                    const char* message) {
  const mi_guarded_t* const block = &fault->block;
  const bool has_block = fault->kind != MI_ERROR_FAULT;
  mi_output_json_t* const json = &mi_output_fault_json;
  char* const text = json->text;
  const size_t capacity = sizeof(json->text);
  size_t used = mi_explain_message(mi_explain_label(fault->kind), EFAULT, message, text, capacity);
  used--; // the end of the object
  if (has_block) {
    used += mi_text_format(text + used, capacity - used, ",\"address\":\"%p\",\"size\":%zu",
                           (const void*)block->p, block->size);
  } else {
    used += mi_text_format(text + used, capacity - used, ",\"address\":null,\"size\":null");
  }
  if (fault->address != NULL) {
    used += mi_text_format(text + used, capacity - used, ",\"found\":\"%p\"", fault->address);
  } else {
    used += mi_text_format(text + used, capacity - used, ",\"found\":null");
  }
  used += mi_text_format(text + used, capacity - used, ",\"access\":\"%s\"", access);
  if (!has_block) {
    used += mi_text_format(text + used, capacity - used, ",\"try\":\"%s\"",
                           mi_explain_hint(fault->kind));
  }
  used += mi_text_format(text + used, capacity - used, "}");
  if (!mi_self()->is_printing) mi_output_end(text, used);
  const uintptr_t self = mi_tls_thread_id();
  mi_output_json_stack(json, has_block ? block : NULL, "access", self, fault->at, MI_FAULT_FRAMES);
  if (has_block) mi_output_json_block(json, block);
}

// Write in words where in or beside a block an access was.
static void mi_output_block_fault(const mi_fault_t* fault, const char* access, char* message) {
  const mi_guarded_t* const block = &fault->block;
  const uint8_t* const address = (const uint8_t*)fault->address;
  const uint8_t* const end = block->p + block->size;
  const bool is_late = fault->kind == MI_ERROR_LATE_WRITE;
  const char* const where = address < block->p ? "before" : address >= end ? "behind" : "into";
  const size_t distance = address < block->p ? (size_t)(block->p - address)
                          : address >= end   ? (size_t)(address - end)
                                             : (size_t)(address - block->p);
  mi_text_format(message, MI_OUTPUT_LINE_MAX,
                 "%s: %s at %p, %zu bytes %s a %sblock of %zu bytes at %p",
                 mi_explain_label(fault->kind), access, fault->address, distance, where,
                 is_late ? "freed " : "", block->size, (const void*)block->p);
}

// The same of an access of the library.
static void mi_output_library_fault(const mi_fault_t* fault, const char* access, char* message) {
  const char* const label = mi_explain_label(fault->kind);
  if (fault->address != NULL) {
    mi_text_format(message, MI_OUTPUT_LINE_MAX, "%s: %s at %p", label, access, fault->address);
  } else {
    mi_text_format(message, MI_OUTPUT_LINE_MAX, "%s: %s at an address that cannot be", label,
                   access);
  }
}

// Report an access by an address with a wrong tag: as a mistake with that address, and its stack.
static void mi_output_tag_fault(const mi_fault_t* fault, const char* access) {
  static mi_report_t report; // OUTPUT_FAULT-2
  report = (mi_report_t){.kind = MI_ERROR_TAG,
                         .where = access,
                         .p = fault->address,
                         .found = fault->used,
                         .size = SIZE_MAX};
  if (fault->address != NULL) mi_describe_address(fault->address, &report.about);
  mi_output_say(&report);
  if (mi_option_value(report_json) != 0) {
    mi_output_json_stack(&mi_output_fault_json, NULL, "access", mi_tls_thread_id(), fault->at,
                         MI_FAULT_FRAMES);
  } else {
    mi_output_stack("at", fault->at, MI_FAULT_FRAMES);
  }
  mi_output_notify(EFAULT);
}

MI_INTERNAL void mi_hook_fault(const mi_fault_t* fault) {
  static const char accesses[][8] mi_attr_rare = {
      [MI_OS_UNKNOWN_ACCESS] = "access", [MI_OS_READ] = "read", [MI_OS_WRITE] = "write"};
  const char* const access = accesses[fault->access];
  if (fault->kind == MI_ERROR_TAG) {
    mi_output_tag_fault(fault, access);
    return;
  }
  const bool has_block = fault->kind != MI_ERROR_FAULT;
  char message[MI_OUTPUT_LINE_MAX];
  (has_block ? &mi_output_block_fault : &mi_output_library_fault)(fault, access, message);
  if (mi_option_value(report_json) != 0) {
    mi_output_fault_as_json(fault, access, message);
  } else {
    mi_output_line("%s", message);
    mi_output_stack("at", fault->at, MI_FAULT_FRAMES);
    if (has_block) {
      mi_output_block_stacks(&fault->block);
    } else {
      mi_output_line("  try: %s", mi_explain_hint(fault->kind));
    }
  }
  // The library may hold locks: a function of the program that uses it could wait for ever.
  if (has_block) mi_output_notify(EFAULT);
}
