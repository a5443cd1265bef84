// SPDX-License-Identifier: MIT
// options.c - fuzz target: what src/api/options.c reads from the environment, and the functions
// that get and set options, against a plain parser made of strtoull and strcasecmp.
//
// The input is the values of some options, under their names or the older ones; then come calls.
// The library is part of this file: who set an option last is known to options.c only, and must be
// forgotten from one input to the next.
#include "static.c"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fuzz.h"

#define VALUE_MAX 80 // a little more than what is looked at

static const struct {
  const char* name;
  const char* legacy;
  bool is_size;
} table[] = {
#define X(name, value, kind, legacy, effect) {#name, legacy, #kind[0] == 'S'},
#include "core/common/options.def"
#undef X
};

static const struct {
  const char* name;
  long value;
} public_numbers[] = {
#define X(name, value, kind, legacy, effect) {#name, (long)mi_option_##name},
#include "core/common/options.def"
#undef X
};

static char values[MI_OPTION_COUNT][VALUE_MAX];
static bool is_set[MI_OPTION_COUNT];
static bool is_legacy[MI_OPTION_COUNT];
static long first_values[MI_OPTION_COUNT];

// -- The naive parser --

static bool is_word(const char* text, const char* const* words) {
  for (size_t i = 0; i < 4; i++) {
    if (strcasecmp(text, words[i]) == 0) return true;
  }
  return false;
}

static bool parse_size(const char* suffix, unsigned __int128 number, long* value) {
  static const char units[] = "KMGT";
  unsigned __int128 bytes = number;
  if (*suffix != 0) {
    const char* const unit = strchr(units, toupper(*suffix));
    if (unit == NULL) return false;
    const char* const rest = suffix + 1;
    if (*rest != 0 && strcasecmp(rest, "B") != 0 && strcasecmp(rest, "iB") != 0) return false;
    for (const char* u = units; u <= unit; u++) bytes *= 1024;
  }
  if (bytes > PTRDIFF_MAX) bytes = PTRDIFF_MAX;
  *value = (long)((bytes + 1023) / 1024);
  return true;
}

static bool parse(const char* original, bool is_size, long* value) {
  static const char* const no[] = {"0", "false", "no", "off"};
  static const char* const yes[] = {"1", "true", "yes", "on"};
  *value = 1;
  if (original[0] == 0) return true;
  while (*original == ' ') original++;
  char text[VALUE_MAX];
  strcpy(text, original);
  if (strlen(text) > 64) return false;
  for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--) text[n - 1] = 0;
  if (is_word(text, yes)) return true;
  *value = 0;
  if (is_word(text, no)) return true;
  const char* digits = text + (text[0] == '-' || text[0] == '+' ? 1 : 0);
  if (!isdigit(*digits)) return false;
  char* end;
  const unsigned long long number = strtoull(digits, &end, 10); // ULLONG_MAX when it does not fit
  const unsigned long long bounded = number > INT64_MAX ? INT64_MAX : number;
  if (is_size) {
    if (!parse_size(end, bounded, value)) return false;
  } else {
    if (*end != 0) return false;
    *value = (long)bounded;
  }
  if (text[0] == '-') *value = -*value;
  return true;
}

// -- Calls --

static void check_calls(fuzz_input_t* in, long* model, mi_option_source_t* source) {
  const size_t i = fuzz_below(in, MI_OPTION_COUNT);
  const mi_option_t option = (mi_option_t)public_numbers[i].value;
  const long value = (long)fuzz_size(in, 64);
  const long max = (long)fuzz_size(in, 64);
  const bool is_guard = option == mi_option_guarded_min || option == mi_option_guarded_max;
  switch (fuzz_below(in, 5)) {
    case 0:
      if (is_guard) return; // which change together
      mi_option_set(option, value);
      model[i] = value;
      source[i] = MI_OPTION_FROM_PROGRAM;
      break;
    case 1:
      mi_option_set_default(option, value);
      if (source[i] == MI_OPTION_FROM_TABLE) model[i] = value; // OPTIONS-1
      break;
    case 2:
      if (is_guard) return;
      mi_option_set_enabled(option, value > 0);
      model[i] = value > 0;
      source[i] = MI_OPTION_FROM_PROGRAM;
      break;
    case 3: {
      const long low = value < max ? value : max;
      const long high = value < max ? max : value;
      const long got = mi_option_get_clamp(option, low, high);
      CHECK(got >= low && got <= high && (got == model[i] || got == low || got == high));
      break;
    }
    default: { // numbers that are no options
      const mi_option_t none = (mi_option_t)(int)max;
      for (size_t k = 0; k < MI_OPTION_COUNT; k++) {
        if ((long)none == public_numbers[k].value) return;
      }
      mi_option_set(none, value);
      mi_option_set_default(none, value);
      CHECK(mi_option_get(none) == 0 && mi_option_get_size(none) == 0);
      break;
    }
  }
}

static void check_value(size_t i, long expected) {
  const mi_option_t option = (mi_option_t)public_numbers[i].value;
  CHECK(mi_option_get(option) == expected);
  CHECK(mi_option_is_enabled(option) == (expected != 0));
  const size_t size = mi_option_get_size(option);
  const unsigned __int128 bytes = (unsigned __int128)(expected < 0 ? 0 : expected);
  const unsigned __int128 in_bytes = table[i].is_size ? bytes * 1024 : bytes;
  CHECK(size == (in_bytes > SIZE_MAX ? SIZE_MAX : (size_t)in_bytes));
}

// -- Inputs --

static size_t warnings;

static void count_warnings(const char* text, void* arg) {
  (void)arg;
  if (strstr(text, "invalid value") != NULL) warnings++;
}

// Text that is nearly a value: pieces of them, or any byte.
static void draw_value(fuzz_input_t* in, char* value) {
  static const char* const pieces[] = {"0",
                                       "1",
                                       "9",
                                       "-",
                                       "+",
                                       " ",
                                       "K",
                                       "m",
                                       "G",
                                       "T",
                                       "iB",
                                       "B",
                                       "true",
                                       "FALSE",
                                       "yes",
                                       "No",
                                       "on",
                                       "OFF",
                                       "1024",
                                       "99999999",
                                       "9223372036854775807",
                                       "9223372036854775808"};
  value[0] = 0;
  for (size_t n = fuzz_below(in, 7); n > 0; n--) {
    const size_t k = fuzz_below(in, 2 * sizeof(pieces) / sizeof(pieces[0]));
    const bool is_piece = k < sizeof(pieces) / sizeof(pieces[0]);
    const char any[2] = {(char)(fuzz_byte(in) | 1), 0};
    const char* const piece = is_piece ? pieces[k] : any;
    if (strlen(value) + strlen(piece) < VALUE_MAX) strcat(value, piece);
  }
}

static void draw_environment(fuzz_input_t* in) {
  memset(is_set, 0, sizeof(is_set));
  for (size_t n = fuzz_below(in, 12); n > 0; n--) {
    const size_t i = fuzz_below(in, MI_OPTION_COUNT);
    is_set[i] = true;
    is_legacy[i] = fuzz_below(in, 4) == 0 && table[i].legacy[0] != 0;
    draw_value(in, values[i]);
  }
}

// The environment as the kernel hands it over, with names in any case.
static void load(fuzz_input_t* in) {
  static char entries[MI_OPTION_COUNT][64 + VALUE_MAX];
  char* list[MI_OPTION_COUNT + 2] = {(char*)"MIMALLOC=no_option"};
  size_t count = 1;
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    if (!is_set[i]) continue;
    const char* const name = is_legacy[i] ? table[i].legacy : table[i].name;
    snprintf(entries[i], sizeof(entries[i]), "mimalloc_%s=", name);
    const uint64_t upper = fuzz_number(in, 2);
    for (size_t k = 0; entries[i][k] != 0; k++) {
      if ((upper >> k % 16 & 1) != 0) entries[i][k] = (char)toupper(entries[i][k]);
    }
    strcat(entries[i], values[i]);
    list[count++] = entries[i];
  }
  char** const saved = environ;
  environ = list;
  mi_hook_load_options();
  environ = saved;
}

// As in a process that starts.
static void forget(void) {
  memset(mi_option_source, 0, sizeof(mi_option_source));
  memset(&mi_output, 0, sizeof(mi_output));
  mi_register_output(&count_warnings, NULL);
  warnings = 0;
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    mi_atomic_store_relaxed(&mi_option_values[i], first_values[i]);
  }
}

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  (void)argc, (void)argv;
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    first_values[i] = mi_atomic_load_relaxed(&mi_option_values[i]);
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz_input_t in = fuzz_open(data, size);
  long model[MI_OPTION_COUNT];
  mi_option_source_t source[MI_OPTION_COUNT] = {MI_OPTION_FROM_TABLE};
  size_t invalid = 0;
  forget();
  draw_environment(&in);
  load(&in);
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    model[i] = first_values[i];
    long value = 0;
    if (!is_set[i]) continue;
    if (parse(values[i], table[i].is_size, &value)) {
      model[i] = value;
      source[i] = MI_OPTION_FROM_ENVIRONMENT;
    } else {
      invalid++; // OPTIONS-3
    }
  }
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) check_value(i, model[i]);
  CHECK(warnings <= invalid);
  const bool is_heard = model[mi_option_verbose] > 0;
  CHECK(!is_heard || warnings == invalid);
  while (!fuzz_is_done(&in)) check_calls(&in, model, source);
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) check_value(i, model[i]);
  return 0;
}
