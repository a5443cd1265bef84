// SPDX-License-Identifier: MIT
// explain.c - reports, and descriptions of addresses, as text and as JSON.
//
//   mi_report_t = what happened, where, which bytes    + mi_about_t = block, neighbours, page, heap
//
//   text   what happened: block; page; heap          one line, by which programs find reports
//            block:  before:  behind:                what is known of it and of its neighbours
//            bytes:                                  what was overwritten
//            try:                                    how to find the place in the program
//   JSON   the same facts, one object on one line
//
// docs/guide.md has the lines and the keys; scripts/gdb.py says the same of an address.
// EXPLAIN-1  nothing here allocates, takes a lock, or reads memory of the program: all facts are in
//     the structures. Bytes of the program are shown as numbers, and as letters only if they are
//     printable.
// EXPLAIN-2  what JSON contains as a string is escaped; all keys are there in every report of a
//     kind, with null for what is not known.
// EXPLAIN-3  no report is longer than MI_EXPLAIN_MAX: each string is bounded.
#include "explain.h"

#include <errno.h>

#include "../../base/tag.h"
#include "../../base/text.h"

static const struct {
  int code; // what the user's error function receives
  char label[32]; // names the kind in reports
  char hint[192]; // what to try next
} mi_explain_kinds[MI_ERROR_COUNT] mi_attr_rare = {
    [MI_ERROR_INVALID_POINTER] =
        {EINVAL, "invalid pointer",
         "pass only what malloc of this library returned; MIMALLOC_ABORT_ON_MISUSE=2 stops at the "
         "call, for a debugger or a core dump"},
    [MI_ERROR_INTERIOR_POINTER] =
        {EINVAL, "pointer inside a block",
         "pass the address that malloc returned, not one inside the block; "
         "MIMALLOC_ABORT_ON_MISUSE=2 stops at the call, for a debugger or a core dump"},
    [MI_ERROR_DOUBLE_FREE] =
        {EAGAIN, "double free",
         "MIMALLOC_ABORT_ON_MISUSE=2 stops here; AddressSanitizer and MIMALLOC_GUARDED_SAMPLE_RATE "
         "tell where the block was freed first"},
    [MI_ERROR_CORRUPT_LIST] =
        {EFAULT, "corrupted free list",
         "a freed block was written to, or the block before it overflowed: the debug build, "
         "AddressSanitizer and MIMALLOC_GUARDED_SAMPLE_RATE find the write"},
    [MI_ERROR_CORRUPT_PAGE] =
        {EFAULT, "corrupted page",
         "memory of the library was overwritten, far from any block: look for a wild pointer with "
         "AddressSanitizer, or watch the descriptor in a debugger"},
    [MI_ERROR_OVERFLOW] =
        {EFAULT, "buffer overflow",
         "watch the first overwritten byte in a debugger and run again; AddressSanitizer and "
         "MIMALLOC_GUARDED_SAMPLE_RATE stop at the write"},
    [MI_ERROR_UNDERFLOW] =
        {EFAULT, "buffer underflow",
         "watch the overwritten byte in a debugger and run again; AddressSanitizer and "
         "MIMALLOC_GUARDED_SAMPLE_RATE stop at the write"},
    [MI_ERROR_LATE_WRITE] =
        {EFAULT, "use after free",
         "watch the overwritten byte in a debugger and run again; AddressSanitizer and "
         "MIMALLOC_GUARDED_SAMPLE_RATE stop at the write, and tell who freed the block"},
    [MI_ERROR_FAULT] =
        {EFAULT, "fault in the allocator",
         "a freed block was written to, a block before it overflowed, or what was passed is no "
         "block: the debug build, AddressSanitizer and MIMALLOC_GUARDED_SAMPLE_RATE=1 find it"},
    [MI_ERROR_WRONG_HEAP] =
        {EINVAL, "wrong heap",
         "only the thread that got a theap may use it, until it ends: elsewhere call "
         "mi_heap_malloc "
         "with its heap; and nobody uses a heap after mi_heap_delete or mi_heap_destroy"},
    [MI_ERROR_TAG] =
        {EFAULT, "wrong memory tag",
         "the block was freed, or the address comes from another one: AddressSanitizer and "
         "MIMALLOC_GUARDED_SAMPLE_RATE tell where it was freed"},
    [MI_ERROR_TOO_LARGE] = {EOVERFLOW, "allocation request is too large",
                            "look at how the size is computed: a negative number, or a product "
                            "that overflows, is such a size"},
    [MI_ERROR_ALIGNMENT] = {EOVERFLOW, "invalid alignment",
                            "an alignment is a power of two: 1, 2, 4, 8, and so on"},
    [MI_ERROR_OUT_OF_MEMORY] = {ENOMEM, "unable to allocate memory",
                                "MIMALLOC_SHOW_STATS=1 tells what the memory is used for; ulimit "
                                "-v, or memory.max of a cgroup, may be the limit"},
};

MI_INTERNAL const char* mi_explain_hint(mi_error_kind_t kind) {
  return mi_explain_kinds[kind].hint;
}

// Return what to try next.
static const char* mi_explain_report_hint(const mi_report_t* report) {
  if (report->kind == MI_ERROR_INVALID_POINTER && report->about.kind == MI_ABOUT_PAST) {
    return "the block was freed before, and so were all others of its page; AddressSanitizer and "
           "MIMALLOC_GUARDED_SAMPLE_RATE tell where";
  }
  if (report->kind == MI_ERROR_TAG) {
    const unsigned tag = mi_tag_of(report->found);
    if (tag != 0 && tag == report->about.before.tag) {
      return "the tag is that of the block before: it overflowed, or a freed block had this tag";
    }
    if (tag != 0 && tag == report->about.behind.tag) {
      return "the tag is that of the block behind: it underflowed, or a freed block had this tag";
    }
  }
  return mi_explain_hint(report->kind);
}

MI_INTERNAL int mi_explain_code(mi_error_kind_t kind) { return mi_explain_kinds[kind].code; }

MI_INTERNAL const char* mi_explain_label(mi_error_kind_t kind) {
  return mi_explain_kinds[kind].label;
}

// -- A text that counts what does not fit --

typedef struct mi_explain_s {
  char* buffer;
  size_t capacity;
  size_t length; // of all that was added
} mi_explain_t;

static void mi_explain_put(mi_explain_t* to, char c) {
  if (to->length + 1 < to->capacity) {
    to->buffer[to->length] = c;
    to->buffer[to->length + 1] = 0;
  }
  to->length++;
}

static mi_explain_t mi_explain_begin(char* buffer, size_t capacity) {
  if (capacity > 0) buffer[0] = 0;
  return (mi_explain_t){buffer, capacity, 0};
}

static void mi_explain_word(mi_explain_t* to, const char* text) {
  for (; *text != 0; text++) mi_explain_put(to, *text);
}

// Add at most 511 characters.
mi_attr_printf(2, 3) static mi_attr_cold
    void mi_explain_add(mi_explain_t* to, const char* format, ...) {
  char piece[512];
  va_list args;
  va_start(args, format);
  mi_text_vformat(piece, sizeof(piece), format, args);
  va_end(args);
  mi_explain_word(to, piece);
}

// Add a string of JSON (RFC 8259, section 7).
static void mi_explain_string(mi_explain_t* to, const char* text) {
  mi_explain_put(to, '"');
  for (; *text != 0; text++) {
    const unsigned char c = (unsigned char)*text;
    if (c < ' ' || c > '~') {
      mi_explain_add(to, "\\u00%x%x", c / 16u, c % 16u);
    } else {
      if (c == '"' || c == '\\') mi_explain_put(to, '\\');
      mi_explain_put(to, (char)c);
    }
  }
  mi_explain_put(to, '"');
}

MI_INTERNAL size_t mi_explain_quote(const char* string, char* buffer, size_t capacity) {
  mi_explain_t to = mi_explain_begin(buffer, capacity);
  mi_explain_string(&to, string);
  return to.length;
}

// Add bytes of the program as numbers / as letters.
static void mi_explain_hex(mi_explain_t* to, const uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    mi_explain_add(to, "%s%x%x", i > 0 ? " " : "", bytes[i] / 16u, bytes[i] % 16u);
  }
}

static void mi_explain_letters(const uint8_t* bytes, size_t count, char* letters) {
  for (size_t i = 0; i < count; i++) {
    letters[i] = (char)(bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '.');
  }
  letters[count] = 0;
}

// -- An address as text --

#define MI_EXPLAIN_INDENT "  "
#define MI_EXPLAIN_PREFIX "mimalloc:   " // so that the lines of a report are found together

static const char mi_explain_states[][28] mi_attr_rare = {
    [MI_BLOCK_NONE] = "none",
    [MI_BLOCK_UNKNOWN] = "not known whether in use",
    [MI_BLOCK_FRESH] = "never handed out",
    [MI_BLOCK_USED] = "in use",
    [MI_BLOCK_FREE] = "free",
};

static void mi_explain_block(mi_explain_t* to, const mi_about_block_t* block) {
  mi_explain_add(to, "%p, ", (const void*)block->start);
  if (block->size != MI_SIZE_UNKNOWN) mi_explain_add(to, "%zu bytes asked for, ", block->size);
  mi_explain_word(to, mi_explain_states[block->state]);
  if (MI_IS_TAGGED && block->tag != 0) mi_explain_add(to, ", tag %u", (unsigned)block->tag);
}

// Add where the address is, seen from the block.
static void mi_explain_offset(mi_explain_t* to, const mi_about_t* about) {
  const mi_about_block_t* const block = &about->block;
  if (about->p < block->start) {
    mi_explain_add(to, "; the address is %zu bytes before it", (size_t)(block->start - about->p));
    return;
  }
  const size_t offset = (size_t)(about->p - block->start);
  if (offset == 0) return;
  if (block->size != MI_SIZE_UNKNOWN && offset >= block->size) {
    mi_explain_add(to, "; the address is %zu bytes behind its end", offset - block->size);
  } else {
    mi_explain_add(to, "; the address is %zu bytes into it", offset);
  }
}

static void mi_explain_blocks(mi_explain_t* to, const mi_about_t* about, const char* prefix) {
  if (about->kind != MI_ABOUT_PAGE) return;
  mi_explain_add(to, "\n%sblock:  ", prefix);
  if (about->block.state == MI_BLOCK_NONE) {
    mi_explain_word(to, "none; the address is behind the last block of its page");
  } else {
    mi_explain_block(to, &about->block);
    mi_explain_offset(to, about);
  }
  mi_explain_add(to, "\n%sbefore: ", prefix);
  if (about->before.state == MI_BLOCK_NONE) {
    mi_explain_word(to, about->is_single ? "none; the block has a page of its own"
                                         : "none; the block is the first of its page");
  } else {
    mi_explain_block(to, &about->before);
  }
  mi_explain_add(to, "\n%sbehind: ", prefix);
  if (about->behind.state == MI_BLOCK_NONE) {
    mi_explain_word(to, about->is_single ? "none; the block has a page of its own"
                                         : "none; the block is the last of its page");
  } else {
    mi_explain_block(to, &about->behind);
  }
}

static void mi_explain_line(mi_explain_t* to, const mi_about_t* about) {
  char line[MI_DESCRIBE_TEXT_MAX];
  mi_describe_text(about, line, sizeof(line));
  mi_explain_word(to, line);
}

// -- An address as JSON --

static void mi_explain_json_block(mi_explain_t* to, const char* key,
                                  const mi_about_block_t* block) {
  static const char states[][8] mi_attr_rare = {
      [MI_BLOCK_NONE] = "none",   [MI_BLOCK_UNKNOWN] = "unknown", [MI_BLOCK_FRESH] = "fresh",
      [MI_BLOCK_USED] = "in use", [MI_BLOCK_FREE] = "free",
  };
  mi_explain_add(to, ",\"%s\":", key);
  if (block->state == MI_BLOCK_NONE) {
    mi_explain_word(to, "null");
    return;
  }
  mi_explain_add(to, "{\"address\":\"%p\",\"asked\":", (const void*)block->start);
  if (block->size == MI_SIZE_UNKNOWN) {
    mi_explain_word(to, "null");
  } else {
    mi_explain_add(to, "%zu", block->size);
  }
  if (MI_IS_TAGGED) mi_explain_add(to, ",\"tag\":%u", (unsigned)block->tag);
  mi_explain_add(to, ",\"state\":\"%s\"}", states[block->state]);
}

// Return who has the page.
static const char* mi_explain_holder(const mi_about_t* about) {
  const bool is_owned = (about->remote & MI_REMOTE_OWNED) != 0;
  if (about->is_single) return "program";
  if (about->owner <= MI_OWNER_MAX_SPECIAL) return is_owned ? "ended thread" : "nobody";
  return is_owned && (about->owner & MI_OWNER_PARKED) == 0 ? "thread" : "parked by thread";
}

static void mi_explain_json_page(mi_explain_t* to, const mi_about_t* about) {
  static const char heaps[][12] mi_attr_rare = {
      [MI_ABOUT_HEAP_NONE] = "unknown",      [MI_ABOUT_HEAP_MAIN] = "main",
      [MI_ABOUT_HEAP_NUMBERED] = "numbered", [MI_ABOUT_HEAP_ENDED] = "ended",
      [MI_ABOUT_HEAP_UNKNOWN] = "unknown",
  };
  mi_explain_add(to, ",\"page\":{\"address\":\"%p\",\"descriptor\":\"%p\",\"size\":%zu,",
                 (const void*)about->start, (const void*)about->page,
                 about->slice_count * MI_SLICE_SIZE);
  mi_explain_add(to, "\"block_size\":%zu,", about->block_size - about->shift);
  mi_explain_add(to, "\"blocks\":%zu,\"handed_out\":%zu,\"in_use\":%zu,",
                 about->is_single ? (size_t)1 : about->reserved, about->capacity, about->used);
  mi_explain_add(to, "\"holder\":\"%s\",\"thread\":", mi_explain_holder(about));
  if (about->owner > MI_OWNER_MAX_SPECIAL) {
    mi_explain_add(to, "\"0x%zx\"}", (size_t)(about->owner & ~MI_OWNER_FLAGS));
  } else {
    mi_explain_word(to, "null}");
  }
  mi_explain_add(to, ",\"heap\":{\"address\":\"%p\",\"kind\":\"%s\",\"number\":%zu,",
                 (const void*)about->heap, heaps[about->heap_kind], about->heap_sequence);
  mi_explain_add(to, "\"subprocess\":%zu}", about->subproc_sequence);
}

static void mi_explain_json_about(mi_explain_t* to, const mi_about_t* about) {
  static const char kinds[][8] mi_attr_rare = {
      [MI_ABOUT_NOTHING] = "foreign",
      [MI_ABOUT_PAST] = "free",
      [MI_ABOUT_PAGE] = "block",
      [MI_ABOUT_DAMAGED] = "damaged",
  };
  mi_explain_add(to, "{\"address\":\"%p\",\"kind\":\"%s\",\"text\":", (const void*)about->p,
                 kinds[about->kind]);
  char line[MI_DESCRIBE_TEXT_MAX];
  mi_describe_text(about, line, sizeof(line));
  mi_explain_string(to, line);
  mi_explain_json_block(to, "block", &about->block);
  mi_explain_json_block(to, "before", &about->before);
  mi_explain_json_block(to, "behind", &about->behind);
  if (about->kind == MI_ABOUT_PAGE) {
    mi_explain_json_page(to, about);
  } else {
    mi_explain_word(to, ",\"page\":null,\"heap\":null");
  }
  mi_explain_put(to, '}');
}

MI_INTERNAL size_t mi_explain_about(const mi_about_t* about, mi_explain_form_t form, char* buffer,
                                    size_t capacity) {
  mi_explain_t to = mi_explain_begin(buffer, capacity);
  if (form == MI_EXPLAIN_JSON) {
    mi_explain_json_about(&to, about);
  } else {
    mi_explain_line(&to, about);
    mi_explain_blocks(&to, about, MI_EXPLAIN_INDENT);
  }
  return to.length;
}

// -- Reports --

// Add the bytes from the one on that was found, as numbers and as text.
static void mi_explain_found(mi_explain_t* to, const mi_report_t* report) {
  const size_t skipped = (size_t)((const uint8_t*)report->found - report->bytes_at);
  const uint8_t* const bytes = report->bytes + skipped;
  char letters[2 * MI_REPORT_BYTES + 1];
  mi_explain_hex(to, bytes, report->byte_count - skipped);
  mi_explain_letters(bytes, report->byte_count - skipped, letters);
  mi_explain_add(to, " \"%s\"", letters);
}

// A write outside of blocks in use; it happened before the call that found it.
static void mi_explain_write(mi_explain_t* to, const mi_report_t* report) {
  const char* const p = (const char*)report->p;
  const char* const found = (const char*)report->found;
  mi_explain_add(to, "%s in heap block %p of size %zu: write ", mi_explain_label(report->kind),
                 report->p, report->size);
  if (report->kind == MI_ERROR_OVERFLOW) {
    mi_explain_add(to, "after %zu bytes", (size_t)(found - p));
  } else if (report->kind == MI_ERROR_UNDERFLOW) {
    mi_explain_add(to, "%zu bytes before it", (size_t)(p - found));
  } else {
    mi_explain_add(to, "%zu bytes into it", (size_t)(found - p));
  }
  mi_explain_add(to, ", found in %s; there is now ", report->where);
  mi_explain_found(to, report);
}

// Add what happened.
static void mi_explain_mistake(mi_explain_t* to, const mi_report_t* report) {
  const char* const where = report->where;
  const size_t size = report->size;
  switch (report->kind) {
    case MI_ERROR_INVALID_POINTER:
    case MI_ERROR_INTERIOR_POINTER:
      mi_explain_add(to, "invalid pointer: %p in %s", report->p, where);
      break;
    case MI_ERROR_DOUBLE_FREE:
      mi_explain_add(to, "double free detected of block %p with size %zu in %s", report->p, size,
                     where);
      break;
    case MI_ERROR_CORRUPT_LIST:
      mi_explain_add(to, "corrupted free list entry of size %zu at %p: value %p in %s", size,
                     report->p, report->found, where);
      break;
    case MI_ERROR_CORRUPT_PAGE:
      mi_explain_add(to, "corrupted page with blocks of size %zu at %p in %s", size, report->p,
                     where);
      break;
    case MI_ERROR_OVERFLOW:
    case MI_ERROR_UNDERFLOW:
    case MI_ERROR_LATE_WRITE:
      mi_explain_write(to, report);
      break;
    case MI_ERROR_WRONG_HEAP:
      mi_explain_add(to, "wrong heap in %s: %p is not of this thread, or has ended", where,
                     report->p);
      break;
    case MI_ERROR_TAG:
      mi_explain_add(to, "wrong memory tag: %s at %p with tag %u", where, report->p,
                     mi_tag_of(report->found));
      break;
    case MI_ERROR_TOO_LARGE:
      // A product that overflows has no size to show.
      mi_explain_add(to, "allocation request is too large (%s%zu bytes) in %s",
                     size == SIZE_MAX ? "more than " : "", size, where);
      break;
    case MI_ERROR_ALIGNMENT:
      mi_explain_add(to, "invalid alignment: %zu in %s is not a power of two", size, where);
      break;
    default:
      mi_explain_add(to, "unable to allocate memory (%zu bytes) in %s", size, where);
      break;
  }
}

// Add the bytes in rows.
static void mi_explain_rows(mi_explain_t* to, const mi_report_t* report) {
  char letters[MI_REPORT_BYTES + 1];
  for (size_t i = 0; i < report->byte_count; i += MI_REPORT_BYTES) {
    const size_t count = mi_bits_min(report->byte_count - i, MI_REPORT_BYTES);
    mi_explain_add(to, "\n%s%s %p: ", MI_EXPLAIN_PREFIX, i == 0 ? "bytes: " : "       ",
                   (const void*)(report->bytes_at + i));
    mi_explain_hex(to, report->bytes + i, count);
    mi_explain_letters(report->bytes + i, count, letters);
    mi_explain_add(to, " \"%s\"", letters);
  }
}

static void mi_explain_text(mi_explain_t* to, const mi_report_t* report) {
  mi_explain_mistake(to, report);
  if (report->p != NULL) {
    mi_explain_word(to, ": ");
    mi_explain_line(to, &report->about);
    mi_explain_blocks(to, &report->about, MI_EXPLAIN_PREFIX);
    mi_explain_rows(to, report);
  }
  mi_explain_add(to, "\n%stry:    %s", MI_EXPLAIN_PREFIX, mi_explain_report_hint(report));
}

static void mi_explain_json_head(mi_explain_t* to, const char* kind, int code) {
  mi_explain_add(to, "{\"mimalloc\":\"error\",\"kind\":\"%s\",\"errno\":%d,\"thread\":\"0x%zx\",",
                 kind, code, (size_t)mi_tls_thread_id());
}

static void mi_explain_json_address(mi_explain_t* to, const char* key, const void* p) {
  if (p == NULL) {
    mi_explain_add(to, ",\"%s\":null", key);
  } else {
    mi_explain_add(to, ",\"%s\":\"%p\"", key, p);
  }
}

static void mi_explain_json_bytes(mi_explain_t* to, const mi_report_t* report) {
  if (report->byte_count == 0) {
    mi_explain_word(to, ",\"bytes\":null");
    return;
  }
  char letters[2 * MI_REPORT_BYTES + 1];
  mi_explain_letters(report->bytes, report->byte_count, letters);
  mi_explain_add(to, ",\"bytes\":{\"address\":\"%p\",\"hex\":\"", (const void*)report->bytes_at);
  mi_explain_hex(to, report->bytes, report->byte_count);
  mi_explain_word(to, "\",\"text\":");
  mi_explain_string(to, letters);
  mi_explain_put(to, '}');
}

static void mi_explain_json(mi_explain_t* to, const mi_report_t* report) {
  char message[MI_DESCRIBE_TEXT_MAX];
  mi_explain_t line = mi_explain_begin(message, sizeof(message));
  mi_explain_mistake(&line, report);
  mi_explain_json_head(to, mi_explain_label(report->kind), mi_explain_code(report->kind));
  mi_explain_word(to, "\"call\":");
  mi_explain_string(to, report->where);
  mi_explain_word(to, ",\"message\":");
  mi_explain_string(to, message);
  mi_explain_json_address(to, "address", report->p);
  if (report->size == SIZE_MAX) {
    mi_explain_word(to, ",\"size\":null");
  } else {
    mi_explain_add(to, ",\"size\":%zu", report->size);
  }
  mi_explain_json_address(to, "found", report->found);
  mi_explain_json_bytes(to, report);
  mi_explain_word(to, ",\"about\":");
  if (report->p == NULL) {
    mi_explain_word(to, "null");
  } else {
    mi_explain_json_about(to, &report->about);
  }
  mi_explain_add(to, ",\"try\":\"%s\"}", mi_explain_report_hint(report));
}

MI_INTERNAL size_t mi_explain_report(const mi_report_t* report, mi_explain_form_t form,
                                     char* buffer, size_t capacity) {
  mi_explain_t to = mi_explain_begin(buffer, capacity);
  if (form == MI_EXPLAIN_JSON) {
    mi_explain_json(&to, report);
  } else {
    mi_explain_text(&to, report);
  }
  return to.length;
}

MI_INTERNAL size_t mi_explain_message(const char* kind, int code, const char* message, char* buffer,
                                      size_t capacity) {
  mi_explain_t to = mi_explain_begin(buffer, capacity);
  mi_explain_json_head(&to, kind, code);
  mi_explain_word(&to, "\"message\":");
  mi_explain_string(&to, message);
  mi_explain_put(&to, '}');
  return to.length;
}

MI_INTERNAL size_t mi_explain_hidden(mi_error_kind_t kind, size_t count, char* buffer,
                                     size_t capacity) {
  mi_explain_t to = mi_explain_begin(buffer, capacity);
  mi_explain_add(&to, "{\"mimalloc\":\"summary\",\"kind\":\"%s\",\"errno\":%d,\"more\":%zu}",
                 mi_explain_label(kind), mi_explain_code(kind), count);
  return to.length;
}
