// SPDX-License-Identifier: MIT
// explain.c - tests of common/explain.c: EXPLAIN-1 to EXPLAIN-3.
#include "unit.h"

#include "core/common/explain.h"
#include "core/common/report.h"
#include "core/pages/page.h"

#define SIZE 256

static void* blocks[UNIT_BLOCKS_MAX];
static char text[MI_EXPLAIN_MAX];

static void says(const char* what) {
  if (strstr(text, what) != NULL) return;
  fprintf(stderr, "no \"%s\" in \"%s\"\n", what, text);
  check(!"the text says it");
}

// If this fails, a message with quotes, or bytes of an attacker, ends a string of JSON early.
UNIT_TEST(explain_escapes_strings) {
  const char* const message = "a \"b\" \\ \n\x01\x7f\xc3\xa4";
  const size_t length = mi_explain_message("other", 22, message, text, sizeof(text));
  check_equal(length, strlen(text));
  says(",\"message\":\"a \\\"b\\\" \\\\ \\u000a\\u0001\\u007f\\u00c3\\u00a4\"}");
  mi_report_t report = {.kind = MI_ERROR_OVERFLOW, .where = "free", .p = blocks, .size = 3};
  memcpy(report.bytes, "\"\\\n\x80 a~\x7f", 8);
  report.bytes_at = (uint8_t*)blocks + 3;
  report.found = report.bytes_at;
  report.byte_count = 8;
  mi_explain_report(&report, MI_EXPLAIN_JSON, text, sizeof(text));
  says("\"hex\":\"22 5c 0a 80 20 61 7e 7f\",\"text\":\"\\\"\\\\.. a~.\"}");
  mi_explain_report(&report, MI_EXPLAIN_TEXT, text, sizeof(text));
  says(": 22 5c 0a 80 20 61 7e 7f \"\"\\.. a~.\"\n");
}

// If this fails, a report names a block that is not beside the one it is about.
UNIT_TEST(explain_neighbours) {
  char expected[200];
  const size_t count = unit_fill_page(mi_class_of(SIZE), blocks);
  mi_about_t about;
  const size_t middle = count / 2;
  mi_describe_address((uint8_t*)blocks[middle] + 5, &about);
  check_equal(about.index, middle);
  check(about.before.start == blocks[middle - 1] && about.behind.start == blocks[middle + 1]);
  mi_explain_about(&about, MI_EXPLAIN_TEXT, text, sizeof(text));
  snprintf(
      expected, sizeof(expected),
      "\n  block:  %p, not known whether in use; the address is 5 bytes into it\n  before: %p, "
      "not known whether in use\n  behind: %p, not known whether in use",
      blocks[middle], blocks[middle - 1], blocks[middle + 1]);
  says(expected);
  mi_describe_address(blocks[0], &about);
  mi_explain_about(&about, MI_EXPLAIN_TEXT, text, sizeof(text));
  says("\n  before: none; the block is the first of its page\n");
  mi_describe_address(blocks[count - 1], &about);
  mi_explain_about(&about, MI_EXPLAIN_TEXT, text, sizeof(text));
  says("\n  behind: none; the block is the last of its page");
  mi_explain_about(&about, MI_EXPLAIN_JSON, text, sizeof(text));
  says("\"behind\":null");
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_describe_address(blocks[middle], &about);
  if (about.kind == MI_ABOUT_PAGE) check_equal(about.block.state, MI_BLOCK_FREE);
}

// If this fails, a release build says that it does not know what a report of a double free knows.
UNIT_TEST(explain_block_freed_twice) {
  mi_free(mi_malloc(1));
  void* const p = mi_malloc(SIZE);
  mi_report(MI_ERROR_DOUBLE_FREE, "free", p, SIZE);
  check_equal(hooks_fake.report.about.block.state, MI_BLOCK_FREE);
  mi_report_block(MI_ERROR_CORRUPT_LIST, unit_page_of(p), p, blocks);
  check_equal(hooks_fake.report.about.block.state, MI_BLOCK_FREE);
  check_equal(hooks_fake.report.byte_count, MI_REPORT_BYTES);
  check(memcmp(hooks_fake.report.bytes, p, MI_REPORT_BYTES) == 0);
  mi_free(p);
}

// If this fails, the longest report is cut, and is no JSON then; or a kind tells nothing to do.
UNIT_TEST(explain_fits) {
  const void* const far = (const void*)UINTPTR_MAX;
  const mi_about_block_t block = {(const uint8_t*)far, SIZE_MAX - 1, MI_BLOCK_UNKNOWN, 15};
  mi_report_t report = {.where = "aligned_offset_recalloc", .p = far, .found = far};
  report.size = SIZE_MAX - 1;
  report.bytes_at = (const uint8_t*)far - 16;
  memset(report.bytes, '"', sizeof(report.bytes));
  report.byte_count = sizeof(report.bytes);
  report.about = (mi_about_t){
      .p = (const uint8_t*)far,
      .page = (const mi_page_t*)far,
      .start = (const uint8_t*)far - 7,
      .slice_count = SIZE_MAX >> 17,
      .block_size = SIZE_MAX,
      .reserved = SIZE_MAX,
      .capacity = SIZE_MAX,
      .used = SIZE_MAX,
      .owner = UINTPTR_MAX,
      .remote = MI_REMOTE_POOLED,
      .heap = (const mi_heap_t*)far,
      .heap_sequence = SIZE_MAX,
      .subproc_sequence = SIZE_MAX,
      .heap_kind = MI_ABOUT_HEAP_ENDED,
      .block = block,
      .before = block,
      .behind = block,
  };
  size_t longest = 0;
  for (int form = 0; form < 2; form++) {
    for (size_t kind = 0; kind < MI_ERROR_COUNT; kind++) {
      for (size_t about = 0; about <= MI_ABOUT_DAMAGED; about++) {
        report.kind = (mi_error_kind_t)kind;
        report.about.kind = (mi_about_kind_t)about;
        const size_t length =
            mi_explain_report(&report, (mi_explain_form_t)form, text, sizeof(text));
        check(length + 64 < MI_EXPLAIN_MAX); // with the thread
        longest = mi_bits_max(longest, length);
        check_equal(length, strlen(text));
        says(form == MI_EXPLAIN_TEXT ? "\nmimalloc:   try:    " : ",\"try\":\"");
        check(mi_explain_label(report.kind)[0] != 0 && mi_explain_code(report.kind) != 0);
      }
    }
  }
  printf("FIGURE longest report: %zu of %zu bytes\n", longest, MI_EXPLAIN_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(explain_escapes_strings),
      cmocka_unit_test(explain_neighbours),
      cmocka_unit_test(explain_block_freed_twice),
      cmocka_unit_test(explain_fits),
  };
  return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
