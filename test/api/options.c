// SPDX-License-Identifier: MIT
// options.c - options from the environment and from the program, and what is said about them.
//
// The environment is read once per process, so most tests start this program again.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // mkstemp
#endif
#include "spawn.h"
#include "test_api.h"

#include <ctype.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

// The names in the order of the enumeration, and which of them count KiB.
static const struct {
  const char* name;
  long initial;
  bool is_size;
} options[] = {
    {"show_errors", 0, false},
    {"show_stats", 0, false},
    {"verbose", 0, false},
    {"deprecated_eager_commit", 1, false},
    {"arena_eager_commit", 2, false},
    {"purge_decommits", 1, false},
    {"allow_large_os_pages", 0, false},
    {"reserve_huge_os_pages", 0, false},
    {"reserve_huge_os_pages_at", -1, false},
    {"reserve_os_memory", 0, true},
    {"deprecated_segment_cache", 0, false},
    {"deprecated_page_reset", 0, false},
    {"deprecated_abandoned_page_purge", 0, false},
    {"deprecated_segment_reset", 0, false},
    {"deprecated_eager_commit_delay", 1, false},
    {"purge_delay", 1000, false},
    {"use_numa_nodes", 0, false},
    {"disallow_os_alloc", 0, false},
    {"os_tag", 100, false},
    {"max_errors", 32, false},
    {"max_warnings", 32, false},
    {"deprecated_max_segment_reclaim", 10, false},
    {"destroy_on_exit", 0, false},
    {"arena_reserve", LONG_MIN, true}, // depends on the build
    {"arena_purge_mult", 1, false},
    {"deprecated_purge_extend_delay", 1, false},
    {"disallow_arena_alloc", 0, false},
    {"retry_on_oom", 400, false},
    {"visit_abandoned", 0, false},
    {"guarded_min", 0, false},
    {"guarded_max", 1073741824, false},
    {"guarded_precise", 0, false},
    {"guarded_sample_rate", 0, false},
    {"guarded_sample_seed", 0, false},
    {"generic_collect", 10000, false},
    {"page_reclaim_on_free", 0, false},
    {"page_full_retain", 2, false},
    {"page_max_candidates", 4, false},
    {"max_vabits", 0, false},
    {"pagemap_commit", 0, false},
    {"page_commit_on_demand", 0, false},
    {"page_max_reclaim", -1, false},
    {"page_cross_thread_max_reclaim", 32, false},
    {"allow_thp", 1, false},
    {"minimal_purge_size", 0, true},
    {"arena_max_object_size", 2097152, true},
    {"arena_is_numa_local", 0, false},
    {"libc_semantics", 1, false}, // from here on our own, numbered from 1000
    {"drop_deepbind", 1, false},
    {"abort_on_misuse", LONG_MIN, false},
    {"zero_on_free", LONG_MIN, false},
    {"report_json", 0, false},
    {"quarantine", 0, true},
    {"zero_on_allocation", 0, false},
    {"profile_rate", 524288, false},
    {"profile_leaks", 0, false},
    {"purge_thread", 2, false},
    {"memory_limit", 0, true},
};
#define OPTION_COUNT (sizeof(options) / sizeof(options[0]))

#define OPTION_OWN 47

static mi_option_t number_of(size_t i) {
  return (mi_option_t)(i < OPTION_OWN ? i : i - OPTION_OWN + 1000);
}

static spawn_result_t result;

// What the child does with --print: the values, one a line.
static int print_options(void) {
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    printf("%s=%ld\n", options[i].name, mi_option_get(number_of(i)));
  }
  printf("is_secure=%lu\n", getauxval(AT_SECURE));
  return 0;
}

// Starts a child with one variable (and possibly a second) and returns what it has for `option`.
// Its messages are in `result`. Skips the test when there can be no child.
static long child_value(const char* variable, const char* second, const char* option) {
  const char* const environment[] = {variable, second, NULL};
  test_start_self("--print", environment, &result);
  assert_int_equal(result.signal, 0);
  assert_int_equal(result.exit_status, 0);
  char line[128];
  snprintf(line, sizeof(line), "%s=", option);
  const char* at = result.output;
  for (;;) {
    at = strstr(at, line);
    assert_non_null(at);
    if (at == result.output || at[-1] == '\n') break;
    at++;
  }
  return strtol(at + strlen(line), NULL, 10);
}

// If this fails, programs that hard-code option numbers, as language bindings do, set the wrong
// option.
static void options_have_the_numbers_of_the_abi(void** state) {
  (void)state;
  assert_int_equal(_mi_option_last, 47);
  assert_int_equal(mi_option_purge_delay, 15);
  assert_int_equal(mi_option_reset_delay, 15);
  assert_int_equal(mi_option_eager_region_commit, 4);
  assert_int_equal(mi_option_limit_os_alloc, 17);
  assert_int_equal(mi_option_arena_reserve, 23);
  assert_int_equal(mi_option_allow_thp, 43);
  assert_int_equal(mi_option_arena_is_numa_local, 46);
  assert_int_equal(mi_option_libc_semantics, 1000);
  assert_int_equal(mi_option_drop_deepbind, 1001);
  assert_int_equal(mi_option_abort_on_misuse, 1002);
  assert_int_equal(mi_option_zero_on_free, 1003);
  assert_int_equal(mi_option_report_json, 1004);
  assert_int_equal(mi_option_quarantine, 1005);
  assert_int_equal(mi_option_zero_on_allocation, 1006);
  assert_int_equal(mi_option_profile_rate, 1007);
  assert_int_equal(mi_option_profile_leaks, 1008);
  assert_int_equal(mi_option_purge_thread, 1009);
  assert_int_equal(mi_option_memory_limit, 1010);
}

// If this fails, the library behaves differently from what its documentation says when nothing is
// set.
static void options_have_their_defaults(void** state) {
  (void)state;
  test_skip_if_guarded("an option is set");
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (options[i].initial == LONG_MIN) continue;
    assert_int_equal(mi_option_get(number_of(i)), options[i].initial);
  }
}

// If this fails, some option cannot be set from the environment.
static void environment_sets_every_option(void** state) {
  (void)state;
  static char text[OPTION_COUNT][96];
  const char* environment[OPTION_COUNT + 1];
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    char name[64];
    size_t k = 0;
    for (; options[i].name[k] != 0; k++) name[k] = (char)toupper(options[i].name[k]);
    name[k] = 0;
    // show_errors, show_stats and verbose would change what is printed.
    const size_t value = i < 3 ? 0 : 7 + i;
    snprintf(text[i], sizeof(text[i]), "MIMALLOC_%s=%zu%s", name, value,
             options[i].is_size ? "KiB" : "");
    environment[i] = text[i];
  }
  environment[OPTION_COUNT] = NULL;
  test_start_self("--print", environment, &result);
  assert_int_equal(result.exit_status, 0);
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    char line[128];
    snprintf(line, sizeof(line), "%s=%zu\n", options[i].name, i < 3 ? 0 : 7 + i);
    assert_non_null(strstr(result.output, line));
  }
}

// If this fails, a setting that is written in words is misunderstood.
static void environment_understands_words(void** state) {
  (void)state;
  const char* const on[] = {"1", "true", "TRUE", "Yes", "on", "ON", ""};
  const char* const off[] = {"0", "false", "no", "NO", "Off"};
  char variable[96];
  for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
    snprintf(variable, sizeof(variable), "MIMALLOC_VISIT_ABANDONED=%s", on[i]);
    assert_int_equal(child_value(variable, NULL, "visit_abandoned"), 1);
  }
  for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
    snprintf(variable, sizeof(variable), "MIMALLOC_PURGE_DECOMMITS=%s", off[i]);
    assert_int_equal(child_value(variable, NULL, "purge_decommits"), 0);
  }
}

// If this fails, a number is misread, or a variable in small letters is missed.
static void environment_understands_numbers(void** state) {
  (void)state;
  assert_int_equal(child_value("MIMALLOC_PURGE_DELAY=-1", NULL, "purge_delay"), -1);
  assert_int_equal(child_value("MIMALLOC_PURGE_DELAY=+25", NULL, "purge_delay"), 25);
  assert_int_equal(child_value("mimalloc_purge_delay=33", NULL, "purge_delay"), 33);
  assert_int_equal(child_value("MiMalloc_Purge_Delay=34", NULL, "purge_delay"), 34);
  assert_int_equal(child_value("MIMALLOC_PURGE_DELAY=99999999999999999999999", NULL, "purge_delay"),
                   LONG_MAX);
}

// If this fails, a size with a unit means something else.
static void environment_understands_units(void** state) {
  (void)state;
  const long most = PTRDIFF_MAX / 1024 + 1;
  const struct {
    const char* text;
    long kib;
  } cases[] = {
      {"10K", 10},
      {"10k", 10},
      {"10KB", 10},
      {"10KiB", 10},
      {"10kib", 10},
      {"3M", 3 * 1024},
      {"3MiB", 3 * 1024},
      {"3mb", 3 * 1024},
      {"2G", 2097152},
      {"2GiB", 2097152},
      {"1T", 1073741824 < most ? 1073741824 : most},
      {"1048576", 1024},
      {"1025", 2},
      {"1", 1},
      {"0", 0},
      {"9999999999T", most},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char variable[96];
    snprintf(variable, sizeof(variable), "MIMALLOC_MINIMAL_PURGE_SIZE=%s", cases[i].text);
    assert_int_equal(child_value(variable, NULL, "minimal_purge_size"), cases[i].kib);
  }
}

// If this fails, a typing error in a setting goes unnoticed, changes something, or crashes the
// program.
static void environment_garbage_is_reported_and_ignored(void** state) {
  (void)state;
  const char* const garbage[] = {
      "abc",      "12abc",
      "1.5",      "--5",
      "-",        "+",
      "0x10",     "10 20",
      "yess",     "5K",
      " ",        "%s%n",
      "\xFF\xFE", "11111111111111111111111111111111111111111111111111111111111111111111"};
  for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
    char variable[160];
    snprintf(variable, sizeof(variable), "MIMALLOC_PURGE_DELAY=%s", garbage[i]);
    assert_int_equal(child_value(variable, "MIMALLOC_SHOW_ERRORS=1", "purge_delay"), 1000);
    assert_int_equal(spawn_count(&result, "mimalloc: warning: environment option "
                                          "mimalloc_purge_delay has an invalid value."),
                     1);
    assert_int_equal(child_value(variable, NULL, "purge_delay"), 1000);
    assert_int_equal(spawn_count(&result, "mimalloc"), 0);
  }
  const char* const units[] = {"5X", "5KK", "5KiBx", "K", "5 K B", "1e9"};
  for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
    char variable[160];
    snprintf(variable, sizeof(variable), "MIMALLOC_MINIMAL_PURGE_SIZE=%s", units[i]);
    assert_int_equal(child_value(variable, "MIMALLOC_SHOW_ERRORS=1", "minimal_purge_size"), 0);
    assert_int_equal(spawn_count(&result, "has an invalid value."), 1);
  }
}

// If this fails, somebody who asks for messages in a wrong way never learns why there are none.
static void environment_bad_verbose_is_always_reported(void** state) {
  (void)state;
  assert_int_equal(child_value("MIMALLOC_VERBOSE=lots", NULL, "verbose"), 0);
  assert_int_equal(spawn_count(&result, "mimalloc_verbose has an invalid value."), 1);
}

// If this fails, settings of older versions have no effect, or take precedence over new ones.
static void environment_legacy_names(void** state) {
  (void)state;
  static const struct {
    const char* variable;
    const char* name;
  } cases[] = {
      {"MIMALLOC_RESET_DELAY=77", "purge_delay"},
      {"MIMALLOC_EAGER_REGION_COMMIT=77", "arena_eager_commit"},
      {"MIMALLOC_RESET_DECOMMITS=77", "purge_decommits"},
      {"MIMALLOC_LARGE_OS_PAGES=77", "allow_large_os_pages"},
      {"MIMALLOC_LIMIT_OS_ALLOC=0", NULL},
      {"MIMALLOC_DECOMMIT_EXTEND_DELAY=77", "deprecated_purge_extend_delay"},
      {"MIMALLOC_ABANDONED_RECLAIM_ON_FREE=77", "page_reclaim_on_free"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const char* const name = cases[i].name != NULL ? cases[i].name : "disallow_os_alloc";
    const long expected = cases[i].name != NULL ? 77 : 0;
    assert_int_equal(child_value(cases[i].variable, "MIMALLOC_SHOW_ERRORS=1", name), expected);
    assert_int_equal(spawn_count(&result, "is deprecated"), 1);
  }
  assert_int_equal(child_value("MIMALLOC_RESET_DELAY=77", "MIMALLOC_PURGE_DELAY=88", "purge_delay"),
                   88);
}

// If this fails, users believe that an option works which this version does not act on.
static void environment_options_without_effect_say_so(void** state) {
  (void)state;
  const char* const without[] = {"page_full_retain", "os_tag",
                                 "retry_on_oom",     "deprecated_page_reset",
                                 "visit_abandoned",  "page_commit_on_demand",
                                 "max_vabits",       "page_max_candidates"};
  for (size_t i = 0; i < sizeof(without) / sizeof(without[0]); i++) {
    char variable[64], message[128];
    snprintf(variable, sizeof(variable), "MIMALLOC_%s=3", without[i]);
    snprintf(message, sizeof(message), "option '%s' is set but has no effect: ", without[i]);
    child_value(variable, "MIMALLOC_VERBOSE=1", without[i]);
    assert_int_equal(spawn_count(&result, message), 1);
    child_value(variable, NULL, without[i]);
    assert_int_equal(spawn_count(&result, "no effect"), 0);
  }
  child_value("MIMALLOC_PURGE_DELAY=3", "MIMALLOC_VERBOSE=1", "purge_delay");
  assert_int_equal(spawn_count(&result, "option 'purge_delay' is set but"), 0);
}

static bool copy_file(const char* from, const char* to) {
  FILE* const in = fopen(from, "rb");
  FILE* const out = fopen(to, "wb");
  bool is_copied = in != NULL && out != NULL;
  char buffer[4096];
  size_t length;
  while (is_copied && (length = fread(buffer, 1, sizeof(buffer), in)) > 0) {
    is_copied = fwrite(buffer, 1, length, out) == length;
  }
  if (in != NULL) fclose(in);
  if (out != NULL && fclose(out) != 0) is_copied = false;
  return is_copied;
}

// If this fails, whoever starts a program with raised privileges can influence how it uses memory.
static void environment_is_ignored_with_raised_privileges(void** state) {
  (void)state;
  char self[4096];
  char copy[] = "/tmp/mi-test-setuid-XXXXXX";
  if (geteuid() != 0 || !spawn_own_path(self, sizeof(self))) {
    test_skip("needs root, and a program that can start itself");
  }
  const int fd = mkstemp(copy);
  if (fd < 0) test_skip("no file in /tmp");
  close(fd);
  const char* const environment[] = {"MIMALLOC_PURGE_DELAY=77", "MIMALLOC_VERBOSE=1", NULL};
  const bool is_started = copy_file(self, copy) && chown(copy, 65534, 65534) == 0 &&
                          chmod(copy, 04755) == 0 &&
                          spawn_program(copy, "--print", environment, &result);
  unlink(copy);
  // Where set-uid programs are not allowed, or may not read the library, there is nothing to see.
  if (!is_started || result.exit_status != 0 || strstr(result.output, "is_secure=1") == NULL) {
    test_skip("no set-uid programs here");
  }
  assert_int_equal(spawn_count(&result, "purge_delay=1000\n"), 1);
  assert_int_equal(spawn_count(&result, "mimalloc"), 0);
}

// If this fails, a program cannot overrule the environment, or overrules it when it only meant to
// give a default.
static void program_overrules_the_environment(void** state) {
  (void)state;
  const mi_option_t option = mi_option_retry_on_oom;
  mi_option_set_default(option, 5);
  assert_int_equal(mi_option_get(option), 5);
  mi_option_set(option, 6);
  assert_int_equal(mi_option_get(option), 6);
  mi_option_set_default(option, 7);
  assert_int_equal(mi_option_get(option), 6);
  assert_true(mi_option_is_enabled(option));
  mi_option_disable(option);
  assert_false(mi_option_is_enabled(option));
  mi_option_enable(option);
  assert_int_equal(mi_option_get(option), 1);
  mi_option_set_enabled(option, false);
  assert_int_equal(mi_option_get(option), 0);
  mi_option_set_enabled_default(mi_option_visit_abandoned, true);
  assert_true(mi_option_is_enabled(mi_option_visit_abandoned));
  assert_int_equal(child_value("MIMALLOC_OS_TAG=103", "TEST_SET_DEFAULT=1", "os_tag"), 103);
}

// If this fails, values come out in the wrong unit or outside the limits of the caller.
static void program_reads_clamped_and_sizes(void** state) {
  (void)state;
  mi_option_set(mi_option_minimal_purge_size, 100);
  assert_int_equal(mi_option_get_size(mi_option_minimal_purge_size), 102400);
  mi_option_set(mi_option_minimal_purge_size, -5);
  assert_int_equal(mi_option_get_size(mi_option_minimal_purge_size), 0);
  mi_option_set(mi_option_minimal_purge_size, LONG_MAX);
  assert_int_equal(mi_option_get_size(mi_option_minimal_purge_size), SIZE_MAX);
  mi_option_set(mi_option_minimal_purge_size, 0);
  mi_option_set(mi_option_page_full_retain, 50);
  assert_int_equal(mi_option_get_clamp(mi_option_page_full_retain, -1, 32), 32);
  assert_int_equal(mi_option_get_clamp(mi_option_page_full_retain, 60, 90), 60);
  assert_int_equal(mi_option_get_clamp(mi_option_page_full_retain, 0, 99), 50);
  mi_option_set(mi_option_page_full_retain, 2);
}

// If this fails, a wrong option number reads or writes memory that is no option.
static void program_wrong_numbers_do_nothing(void** state) {
  (void)state;
  const int behind = 1000 + (int)OPTION_COUNT - OPTION_OWN;
  const int wrong_numbers[] = {47, 999, behind, INT_MAX, INT_MIN, -1};
  for (size_t i = 0; i < sizeof(wrong_numbers) / sizeof(wrong_numbers[0]); i++) {
    const mi_option_t wrong = (mi_option_t)wrong_numbers[i];
    mi_option_set(wrong, 5);
    mi_option_set_default(wrong, 5);
    mi_option_enable(wrong);
    assert_int_equal(mi_option_get(wrong), 0);
    assert_int_equal(mi_option_get_size(wrong), 0);
    assert_false(mi_option_is_enabled(wrong));
  }
}

// If this fails, the limits of guarded sizes contradict each other.
static void program_keeps_guarded_limits_in_order(void** state) {
  (void)state;
  mi_option_set(mi_option_guarded_max, 1000);
  mi_option_set(mi_option_guarded_min, 5000);
  assert_int_equal(mi_option_get(mi_option_guarded_max), 5000);
  mi_option_set(mi_option_guarded_max, 300);
  assert_int_equal(mi_option_get(mi_option_guarded_min), 300);
  mi_option_set(mi_option_guarded_min, 0);
}

static char printed[SPAWN_OUTPUT_MAX];
static size_t longest_line;

static void collect_text(const char* text, void* arg) {
  assert_ptr_equal(arg, printed);
  if (strlen(text) > longest_line) longest_line = strlen(text);
  if (strlen(printed) + strlen(text) < sizeof(printed)) strcat(printed, text);
}

// If this fails, nobody can see which options are in effect.
static void options_print_shows_all(void** state) {
  (void)state;
  printed[0] = 0;
  mi_options_print_out(&collect_text, printed);
  assert_int_equal(strncmp(printed, "v3.4.3", 6), 0);
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    char line[96];
    snprintf(line, sizeof(line), "\noption '%s': %ld%s\n", options[i].name,
             mi_option_get(number_of(i)), options[i].is_size ? " KiB" : "");
    assert_non_null(strstr(printed, line));
  }
  assert_non_null(strstr(printed, "\ndebug level : "));
  assert_true(longest_line < 256);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--print") == 0) {
    if (getenv("TEST_SET_DEFAULT") != NULL) mi_option_set_default(mi_option_os_tag, 200);
    return print_options();
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_have_the_numbers_of_the_abi),
      cmocka_unit_test(options_have_their_defaults),
      cmocka_unit_test(environment_sets_every_option),
      cmocka_unit_test(environment_understands_words),
      cmocka_unit_test(environment_understands_numbers),
      cmocka_unit_test(environment_understands_units),
      cmocka_unit_test(environment_garbage_is_reported_and_ignored),
      cmocka_unit_test(environment_bad_verbose_is_always_reported),
      cmocka_unit_test(environment_legacy_names),
      cmocka_unit_test(environment_options_without_effect_say_so),
      cmocka_unit_test(environment_is_ignored_with_raised_privileges),
      cmocka_unit_test(program_overrules_the_environment),
      cmocka_unit_test(program_reads_clamped_and_sizes),
      cmocka_unit_test(program_wrong_numbers_do_nothing),
      cmocka_unit_test(program_keeps_guarded_limits_in_order),
      cmocka_unit_test(options_print_shows_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
