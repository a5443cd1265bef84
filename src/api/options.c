// SPDX-License-Identifier: MIT
// options.c - the options: read from the environment, got and set by the program, printed.
//
// The table is core/common/options.def; the values live in `mi_option_values`
// (core/common/state.h), in the unit of the option.
//
// OPTIONS-1  a value comes from, in rising order: the table, `mi_option_set_default`, the
//     environment, `mi_option_set`.
// OPTIONS-2  the environment is read before the first value is used, without libc (it may not be
//     ready), and again by the constructor if libc did not know it yet.
// OPTIONS-3  text that is no value changes nothing, and gives a warning.
//
// Nothing is synchronised: options are set at the start of a program. Reading one while another
// thread sets it gives the old or the new value. This file does not know what each option does.
#include "api.h"

#include "../base/defaults.h"

typedef enum mi_option_kind_e { MI_OPTION_KIND_NUMBER, MI_OPTION_KIND_SIZE } mi_option_kind_t;

// The effects in options.def, and what is printed about options without one.
typedef enum mi_option_effect_e {
  MI_OPTION_EFFECT_LIVE,
  MI_OPTION_EFFECT_OLD,
  MI_OPTION_EFFECT_MACOS,
  MI_OPTION_EFFECT_ALWAYS,
  MI_OPTION_EFFECT_ABSENT,
  MI_OPTION_EFFECT_SECURE,
} mi_option_effect_t;
static const char mi_option_reason[][32] mi_attr_rare = {
    "",
    "it is of earlier versions",
    "it is about macOS",
    "it is always on",
    "there is nothing it could set",
    "this is no secure build",
};

// The longest name of an option, and its end.
#define MI_OPTION_NAME_MAX 32

static const struct mi_option_info_s {
  char name[MI_OPTION_NAME_MAX];
  char legacy[MI_OPTION_NAME_MAX]; // older name of the environment variable, or empty
  mi_option_kind_t kind;
  mi_option_effect_t effect;
} mi_option_table[MI_OPTION_COUNT] mi_attr_rare = {
#define X(name, value, kind, legacy, effect)                                                       \
  {#name, legacy, MI_OPTION_KIND_##kind, MI_OPTION_EFFECT_##effect},
#include "../core/common/options.def"
#undef X
};

// The numbers of the public enumeration are those of the table, except for our own options: these
// come last in the table, and have public numbers that the interface will never reach.
#define MI_OPTION_OWN 1000
#define MI_OPTION_PLACE(number)                                                                    \
  ((number) < MI_OPTION_OWN ? (number) : (number)-MI_OPTION_OWN + (int)_mi_option_last)
#define X(name, value, kind, legacy, effect)                                                       \
  mi_static_assert(MI_OPTION_PLACE((int)mi_option_##name) == (int)MI_OPTION_##name,                \
                   "the order of the ABI");                                                        \
  mi_static_assert(sizeof(#name) <= MI_OPTION_NAME_MAX && sizeof(legacy) <= MI_OPTION_NAME_MAX,    \
                   "names have an end");
#include "../core/common/options.def"
#undef X
mi_static_assert((int)_mi_option_last < (int)MI_OPTION_COUNT, "every option is in options.def");

// The longest value that is read, and the longest name of a variable.
#define MI_OPTION_TEXT_MAX ((size_t)64)
mi_static_assert(sizeof(MI_ENVIRONMENT_PREFIX) <= 32, "there is room for an option's name");

// The source of a value, see OPTIONS-1.
typedef enum mi_option_source_e {
  MI_OPTION_FROM_TABLE = 0, // or from `mi_option_set_default`
  MI_OPTION_FROM_ENVIRONMENT,
  MI_OPTION_FROM_PROGRAM,
} mi_option_source_t;
// Written and read by set-up and the option functions, relaxed, as the values are.
static mi_atomic(uint8_t) mi_option_source[MI_OPTION_COUNT];

// True once the environment could be read. Written and read only by set-up and the constructor,
// relaxed.
static mi_atomic(bool) mi_option_is_read;

// -- Parsing --

static bool mi_option_equals(const char* text, size_t length, const char* word) {
  return mi_text_length(word) == length && mi_text_equal_nocase(text, word, length);
}

static bool mi_option_parse_bool(const char* text, size_t length, long* value) {
  static const char words[2][4][8] mi_attr_rare = {{"0", "FALSE", "NO", "OFF"},
                                                   {"1", "TRUE", "YES", "ON"}};
  for (size_t i = 0; i < 2; i++) {
    for (size_t j = 0; j < 4; j++) {
      if (mi_option_equals(text, length, words[i][j])) {
        *value = (long)i;
        return true;
      }
    }
  }
  return false;
}

// Store the factor of a suffix as a shift; false if it is none. Suffixes are K M G T, alone or
// followed by B or iB.
static bool mi_option_parse_unit(const char* text, size_t length, unsigned* shift) {
  *shift = 0;
  if (length == 0) return true;
  switch (mi_text_upper(text[0])) {
    case 'K':
      *shift = 10;
      break;
    case 'M':
      *shift = 20;
      break;
    case 'G':
      *shift = 30;
      break;
    case 'T':
      *shift = 40;
      break;
    default:
      return false;
  }
  return length == 1 || mi_option_equals(text + 1, length - 1, "B") ||
         mi_option_equals(text + 1, length - 1, "iB");
}

// Convert bytes to KiB, rounded up; a result that does not fit becomes the largest size.
static long mi_option_to_kib(uint64_t number, unsigned shift) {
  const uint64_t max = (uint64_t)PTRDIFF_MAX;
  const uint64_t size = number > (max >> shift) ? max : number << shift;
  const uint64_t kib = size / MI_KIB + (size % MI_KIB != 0 ? 1 : 0);
  return kib > (uint64_t)LONG_MAX ? LONG_MAX : (long)kib;
}

static bool mi_option_parse_number(const char* text, size_t length, mi_option_kind_t kind,
                                   long* value) {
  size_t i = 0;
  const bool is_negative = (length > 0 && text[0] == '-');
  if (length > 0 && (text[0] == '-' || text[0] == '+')) i++;
  const size_t first_digit = i;
  uint64_t number = 0;
  for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
    const uint64_t digit = (uint64_t)(text[i] - '0');
    const uint64_t max = (uint64_t)(kind == MI_OPTION_KIND_SIZE ? INT64_MAX : LONG_MAX);
    number = number > (max - digit) / 10 ? max : number * 10 + digit;
  }
  if (i == first_digit) return false;
  unsigned shift = 0;
  if (kind == MI_OPTION_KIND_SIZE) {
    if (!mi_option_parse_unit(text + i, length - i, &shift)) return false;
    const long kib = mi_option_to_kib(number, shift);
    *value = is_negative ? -kib : kib;
    return true;
  }
  if (i != length) return false;
  *value = is_negative ? -(long)number : (long)number;
  return true;
}

// Store the value of `text` for an option of the given kind; false if it has none.
static bool mi_option_parse(const char* text, mi_option_kind_t kind, long* value) {
  if (text[0] == 0) {
    *value = 1;
    return true;
  }
  while (*text == ' ') text++;
  size_t length = 0;
  while (length <= MI_OPTION_TEXT_MAX && text[length] != 0) length++;
  if (length > MI_OPTION_TEXT_MAX) return false;
  while (length > 0 && text[length - 1] == ' ') length--;
  return mi_option_parse_bool(text, length, value) ||
         mi_option_parse_number(text, length, kind, value);
}

// -- The environment --

static const char* mi_option_environment(const char* option_name) {
  char name[MI_OPTION_TEXT_MAX];
  const size_t used = mi_text_append(name, sizeof(name), 0, MI_ENVIRONMENT_PREFIX);
  mi_text_append(name, sizeof(name), used, option_name);
  return mi_os_environment(name);
}

// What reading the environment found out about one option, printed after all of them are read.
typedef enum mi_option_finding_e {
  MI_OPTION_ABSENT = 0,
  MI_OPTION_READ,
  MI_OPTION_READ_LEGACY,
  MI_OPTION_INVALID,
} mi_option_finding_t;

static mi_option_finding_t mi_option_load(size_t option) {
  const struct mi_option_info_s* const info = &mi_option_table[option];
  mi_option_finding_t finding = MI_OPTION_READ;
  const char* text = mi_option_environment(info->name);
  if (text == NULL && info->legacy[0] != 0) {
    text = mi_option_environment(info->legacy);
    finding = MI_OPTION_READ_LEGACY;
  }
  if (text == NULL) return MI_OPTION_ABSENT;
  long value = 0;
  if (!mi_option_parse(text, info->kind, &value)) return MI_OPTION_INVALID;
  if (mi_atomic_load_relaxed(&mi_option_source[option]) != MI_OPTION_FROM_PROGRAM) {
    mi_atomic_store_relaxed(&mi_option_values[option], value);
    mi_atomic_store_relaxed(&mi_option_source[option], MI_OPTION_FROM_ENVIRONMENT);
  }
  return finding;
}

static void mi_option_tell(size_t option, mi_option_finding_t finding) {
  const struct mi_option_info_s* const info = &mi_option_table[option];
  if (finding == MI_OPTION_INVALID) {
    const char* const format =
        "environment option " MI_ENVIRONMENT_PREFIX "%s has an invalid value.";
    if (option == MI_OPTION_verbose) {
      mi_output_force_warning(format, info->name); // the user asked for messages
    } else {
      mi_hook_warning(format, info->name);
    }
    return;
  }
  if (finding == MI_OPTION_READ_LEGACY) {
    mi_hook_warning("environment option " MI_ENVIRONMENT_PREFIX
                    "%s is deprecated, use " MI_ENVIRONMENT_PREFIX "%s instead.",
                    info->legacy, info->name);
  }
  const bool is_live = info->effect == MI_OPTION_EFFECT_LIVE ||
                       (MI_IS_SECURE && info->effect == MI_OPTION_EFFECT_SECURE) ||
                       (MI_IS_MACOS && info->effect == MI_OPTION_EFFECT_MACOS);
  if (finding != MI_OPTION_ABSENT && !is_live) {
    mi_hook_verbose("option '%s' is set but has no effect: %s", info->name,
                    mi_option_reason[info->effect]);
  }
}

MI_INTERNAL void mi_hook_load_options(void) {
  mi_inspect_begin();
  if (mi_state.os.is_setuid) return;
  const mi_os_environment_t environment = mi_os_environment_look(MI_ENVIRONMENT_PREFIX);
  mi_atomic_store_relaxed(&mi_option_is_read, environment != MI_OS_ENVIRONMENT_UNKNOWN);
  if (environment != MI_OS_ENVIRONMENT_WITH) return; // most processes: no search for each option
  // There are two rounds, because options also decide if warnings are printed.
  uint8_t findings[MI_OPTION_COUNT];
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    findings[i] = (uint8_t)mi_option_load(i);
  }
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) mi_option_tell(i, (mi_option_finding_t)findings[i]);
  mi_sample_announce();
  mi_os_tag_maps((uint32_t)mi_option_value(os_tag));
}

MI_INTERNAL void mi_option_load_late(void) {
  if (!mi_atomic_load_relaxed(&mi_option_is_read)) mi_hook_load_options();
}

// -- Public functions --

// Return the index of an option in the table; MI_OPTION_COUNT if no option has this number.
static size_t mi_option_place(mi_option_t option) {
  const int number = (int)option;
  if (number < 0 || (number >= (int)_mi_option_last && number < MI_OPTION_OWN)) {
    return MI_OPTION_COUNT;
  }
  return mi_bits_min((size_t)MI_OPTION_PLACE(number), MI_OPTION_COUNT);
}

long mi_option_get(mi_option_t option) {
  const size_t place = mi_option_place(option);
  if (place == MI_OPTION_COUNT) return 0;
  mi_process_setup();
  return mi_atomic_load_relaxed(&mi_option_values[place]);
}

long mi_option_get_clamp(mi_option_t option, long min, long max) {
  const long value = mi_option_get(option);
  return value < min ? min : (value > max ? max : value);
}

size_t mi_option_get_size(mi_option_t option) {
  const size_t place = mi_option_place(option);
  const long value = mi_option_get(option);
  if (value < 0 || place == MI_OPTION_COUNT) return 0;
  if (mi_option_table[place].kind != MI_OPTION_KIND_SIZE) return (size_t)value;
  return (size_t)value > SIZE_MAX / MI_KIB ? SIZE_MAX : (size_t)value * MI_KIB;
}

// Let an option that changed take effect.
static void mi_option_follow(size_t place) {
  const bool is_guarded = place >= MI_OPTION_guarded_min && place <= MI_OPTION_guarded_sample_seed;
  if (is_guarded || place == MI_OPTION_show_errors || place == MI_OPTION_verbose) mi_output_watch();
  if (is_guarded) mi_sample_announce();
  if (place == MI_OPTION_purge_thread) mi_wait_notice(); // it may end a thread that sleeps
  if (place == MI_OPTION_purge_delay || place == MI_OPTION_arena_purge_mult) {
    mi_purger_follow_delay();
  }
}

void mi_option_set(mi_option_t option, long value) {
  const size_t place = mi_option_place(option);
  if (place == MI_OPTION_COUNT) return;
  mi_process_setup();
  mi_atomic_store_relaxed(&mi_option_values[place], value);
  mi_atomic_store_relaxed(&mi_option_source[place], MI_OPTION_FROM_PROGRAM);
  // The smallest guarded size is never above the largest.
  if (option == mi_option_guarded_min && mi_option_get(mi_option_guarded_max) < value) {
    mi_option_set(mi_option_guarded_max, value);
  } else if (option == mi_option_guarded_max && mi_option_get(mi_option_guarded_min) > value) {
    mi_option_set(mi_option_guarded_min, value);
  }
  mi_option_follow(place);
}

void mi_option_set_default(mi_option_t option, long value) {
  const size_t place = mi_option_place(option);
  if (place == MI_OPTION_COUNT) return;
  mi_process_setup();
  if (mi_atomic_load_relaxed(&mi_option_source[place]) != MI_OPTION_FROM_TABLE) return;
  mi_atomic_store_relaxed(&mi_option_values[place], value);
  mi_option_follow(place);
}

bool mi_option_is_enabled(mi_option_t option) { return mi_option_get(option) != 0; }

void mi_option_set_enabled(mi_option_t option, bool enable) {
  mi_option_set(option, enable ? 1 : 0);
}

void mi_option_set_enabled_default(mi_option_t option, bool enable) {
  mi_option_set_default(option, enable ? 1 : 0);
}

void mi_option_enable(mi_option_t option) { mi_option_set_enabled(option, true); }

void mi_option_disable(mi_option_t option) { mi_option_set_enabled(option, false); }

MI_INTERNAL bool mi_option_find(const char* name, mi_option_t* option) {
  const size_t length = mi_text_length(name);
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    if (!mi_option_equals(name, length, mi_option_table[i].name)) continue;
    const int last = (int)_mi_option_last;
    *option = (mi_option_t)((int)i < last ? (int)i : (int)i - last + MI_OPTION_OWN);
    return true;
  }
  return false;
}

MI_INTERNAL bool mi_option_read(mi_option_t option, const char* text, long* value) {
  return mi_option_parse(text, mi_option_table[mi_option_place(option)].kind, value);
}

void mi_options_print_out(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_process_setup();
  const mi_sink_t sink = mi_output_sink(out, arg);
  const int version = MI_MALLOC_VERSION;
  mi_output_print(sink, "v%d.%d.%d, %s\n", version / 10000, version / 100 % 100, version % 100,
                  MI_DEBUG >= 1 ? "debug" : "release");
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) {
    mi_output_print(sink, "option '%s': %ld%s\n", mi_option_table[i].name,
                    mi_atomic_load_relaxed(&mi_option_values[i]),
                    mi_option_table[i].kind == MI_OPTION_KIND_SIZE ? " KiB" : "");
  }
  mi_output_print(sink, "debug level : %d\n", MI_DEBUG);
  mi_output_print(sink, "secure level: %d\n", MI_SECURE_LEVEL);
  if (MI_DEFAULT_GUARDED_SAMPLE_RATE > 0) mi_output_print(sink, "guarded build: enabled\n");
  mi_output_print(sink, "mem tracking: %s\n", MI_TOOL_NAME);
}

void mi_options_print(void) mi_attr_noexcept { mi_options_print_out(NULL, NULL); }
