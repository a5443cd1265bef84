// SPDX-License-Identifier: MIT
// jemalloc_conf.c - the options of jemalloc: where they are said, which of them act, and what is
// done at the end of the process.
//
// A text of options, `dirty_decay_ms:1000,prof:true`, is read from the variable malloc_conf of the
// program and then from the environment variable MALLOC_CONF; the later one wins. Each option has a
// row in jemalloc_options.def, and its value can be asked for as opt.<name>.
//
// JEMALLOC_CONF-1  an option of ours that the environment sets (MIMALLOC_PURGE_DELAY) wins over one
//     of jemalloc that means the same.
// JEMALLOC_CONF-2  nothing is printed, unless the option confirm_conf or MIMALLOC_VERBOSE asks for
//     it, or there is a mistake in the text.
// JEMALLOC_CONF-3  the options are read once, by the first thread that needs them. Another one that
//     comes meanwhile sees the values that hold if nothing is said.
//
// Deliberately absent: the link /etc/malloc.conf, and texts that are compiled in.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jemalloc.h"
#include "mimalloc-profile.h"

// A program may define both.
mi_attr_weak const char* malloc_conf = NULL;
mi_attr_weak void (*malloc_message)(void* arg, const char* text) = NULL;

#define MI_JEMALLOC_LINE_MAX (MI_JEMALLOC_PATH_MAX + 256)
#define MI_JEMALLOC_VALUE_MAX ((size_t)64) // of all but prof_prefix and what is not kept
#define MI_JEMALLOC_LG_SAMPLE_MAX 63

typedef struct mi_jemalloc_row_s {
  const char* name;
  mi_jemalloc_type_t type;
  long number; // if nothing is said
  const char* text; // the same, if it is a text
  const char* words; // what it may be
  const char* acts;
} mi_jemalloc_row_t;

static const mi_jemalloc_row_t mi_jemalloc_row[MI_JEMALLOC_OPT_COUNT] = {
#define X_NUMBER(name, type, value, acts) {#name, MI_JEMALLOC_##type, value, NULL, NULL, acts},
#define X_TEXT(name, value, words, acts) {#name, MI_JEMALLOC_TEXT, 0, value, words, acts},
#define X_UNSEEN(name, type)
#include "jemalloc_options.def"
#undef X_NUMBER
#undef X_TEXT
#undef X_UNSEEN
};

// What is read, and not kept.
static const mi_jemalloc_row_t mi_jemalloc_unseen[] = {
#define X_NUMBER(name, type, value, acts)
#define X_TEXT(name, value, words, acts)
#define X_UNSEEN(name, type) {#name, MI_JEMALLOC_##type, 0, NULL, NULL, NULL},
#include "jemalloc_options.def"
#undef X_NUMBER
#undef X_TEXT
#undef X_UNSEEN
};
#define MI_JEMALLOC_UNSEEN_COUNT (sizeof(mi_jemalloc_unseen) / sizeof(mi_jemalloc_unseen[0]))

// Of each option, whether a text said it. Written by the thread that reads the options
// (JEMALLOC_CONF-3), with release; read by any, with acquire, before the value.
static mi_atomic(bool) mi_jemalloc_is_said[MI_JEMALLOC_OPT_COUNT];

// What it said. Written by that thread, read by any, relaxed: the flag above publishes it.
static mi_atomic(long) mi_jemalloc_said[MI_JEMALLOC_OPT_COUNT];
// Texts are kept with a zero behind them. Written by that thread before it says that they are
// there, read by any.
static char mi_jemalloc_said_text[MI_JEMALLOC_OPT_COUNT][MI_JEMALLOC_VALUE_MAX];
static char mi_jemalloc_said_prefix[MI_JEMALLOC_PATH_MAX]; // of prof_prefix

typedef struct mi_jemalloc_place_s {
  char* text;
  size_t size;
} mi_jemalloc_place_t;

// Where the text of an option is kept.
static mi_jemalloc_place_t mi_jemalloc_place(mi_jemalloc_opt_t opt) {
  if (opt == MI_JEMALLOC_OPT_prof_prefix) {
    return (mi_jemalloc_place_t){mi_jemalloc_said_prefix, MI_JEMALLOC_PATH_MAX};
  }
  return (mi_jemalloc_place_t){mi_jemalloc_said_text[opt], MI_JEMALLOC_VALUE_MAX};
}

MI_INTERNAL void mi_jemalloc_say(const char* text) {
  if (malloc_message != NULL) {
    malloc_message(NULL, text);
    return;
  }
  const int saved_errno = errno;
  size_t length = strlen(text);
  while (length > 0) {
    const ssize_t written = write(STDERR_FILENO, text, length);
    if (written <= 0) break;
    text += written;
    length -= (size_t)written;
  }
  errno = saved_errno;
}

// -- Values --

static bool mi_jemalloc_has(mi_jemalloc_opt_t opt) {
  // Sees the text; pairs with the release in `mi_jemalloc_accept`.
  return mi_atomic_load_acquire(&mi_jemalloc_is_said[opt]);
}

MI_INTERNAL long mi_jemalloc_number(mi_jemalloc_opt_t opt) {
  if (mi_jemalloc_has(opt)) return mi_atomic_load_relaxed(&mi_jemalloc_said[opt]);
  // Where ours have another value than a row can say, that is the truth.
  if (opt == MI_JEMALLOC_OPT_dirty_decay_ms) return mi_option_get(mi_option_purge_delay);
  if (opt == MI_JEMALLOC_OPT_background_thread) return mi_option_is_enabled(mi_option_purge_thread);
  if (opt == MI_JEMALLOC_OPT_tcache_max) return (long)mi_jemalloc_bin_size(mi_jemalloc_bins() - 1);
  return mi_jemalloc_row[opt].number;
}

MI_INTERNAL const char* mi_jemalloc_text(mi_jemalloc_opt_t opt) {
  return mi_jemalloc_has(opt) ? mi_jemalloc_place(opt).text : mi_jemalloc_row[opt].text;
}

// -- Reading --

// A piece of the text of options.
typedef struct mi_jemalloc_piece_s {
  const char* start;
  size_t length;
} mi_jemalloc_piece_t;

static bool mi_jemalloc_is(mi_jemalloc_piece_t piece, const char* word) {
  return strlen(word) == piece.length && memcmp(piece.start, word, piece.length) == 0;
}

// Cut off what is before a character, or all if there is none. False if nothing is left to cut.
static bool mi_jemalloc_cut(const char** rest, char at, mi_jemalloc_piece_t* piece) {
  if (**rest == 0) return false;
  const char* const end = strchr(*rest, at);
  piece->start = *rest;
  piece->length = end == NULL ? strlen(*rest) : (size_t)(end - *rest);
  *rest += piece->length + (end == NULL ? 0 : 1);
  return true;
}

static bool mi_jemalloc_parse_number(const mi_jemalloc_row_t* row, const char* text, long* number) {
  if (row->type == MI_JEMALLOC_BOOL) {
    *number = strcmp(text, "true") == 0;
    return *number != 0 || strcmp(text, "false") == 0;
  }
  const bool is_signed = row->type == MI_JEMALLOC_SSIZE || row->type == MI_JEMALLOC_INT64;
  char* end;
  errno = 0;
  *number = strtol(text, &end, 0);
  return errno == 0 && end != text && *end == 0 && *number >= (is_signed ? -1 : 0);
}

// As jemalloc, which takes some values for others.
static bool mi_jemalloc_parse_option(mi_jemalloc_opt_t opt, const char* text, long* number) {
  if (opt == MI_JEMALLOC_OPT_narenas && strcmp(text, "default") == 0) {
    *number = mi_jemalloc_row[opt].number;
    return true;
  }
  if (!mi_jemalloc_parse_number(&mi_jemalloc_row[opt], text, number)) return false;
  if (opt == MI_JEMALLOC_OPT_lg_prof_sample && *number > MI_JEMALLOC_LG_SAMPLE_MAX) {
    *number = MI_JEMALLOC_LG_SAMPLE_MAX;
  }
  return true;
}

// Keep a value. False if it is none.
static bool mi_jemalloc_accept(mi_jemalloc_opt_t opt, const char* text) {
  const mi_jemalloc_row_t* const row = &mi_jemalloc_row[opt];
  const mi_jemalloc_place_t place = mi_jemalloc_place(opt);
  long number = 0;
  const size_t length = strlen(text);
  if (length >= place.size) return false;
  if (row->type != MI_JEMALLOC_TEXT) {
    if (!mi_jemalloc_parse_option(opt, text, &number)) return false;
  } else if (row->words != NULL) {
    char word[MI_JEMALLOC_VALUE_MAX + 2];
    snprintf(word, sizeof(word), " %.*s ", (int)(MI_JEMALLOC_VALUE_MAX - 1), text);
    if (strstr(row->words, word) == NULL) return false;
  }
  memcpy(place.text, text, length + 1);
  mi_atomic_store_relaxed(&mi_jemalloc_said[opt], number);
  // Publishes the text; pairs with the acquire in `mi_jemalloc_has`.
  mi_atomic_store_release(&mi_jemalloc_is_said[opt], true);
  return true;
}

static bool mi_jemalloc_is_verbose(void) {
  return mi_option_is_enabled(mi_option_verbose) ||
         mi_jemalloc_number(MI_JEMALLOC_OPT_confirm_conf) != 0;
}

static void mi_jemalloc_report(const char* before, mi_jemalloc_piece_t name,
                               mi_jemalloc_piece_t value, const char* behind) {
  char line[MI_JEMALLOC_LINE_MAX];
  snprintf(line, sizeof(line), "<jemalloc>: %s%.*s:%.*s%s%s\n", before, (int)name.length,
           name.start, (int)value.length, value.start, *behind == 0 ? "" : ": ", behind);
  mi_jemalloc_say(line);
}

static bool mi_jemalloc_say_what(mi_jemalloc_piece_t name, mi_jemalloc_piece_t value,
                                 const mi_jemalloc_row_t* row, bool is_right) {
  if (!is_right) {
    mi_jemalloc_report("Invalid conf value: ", name, value, "");
  } else if (mi_jemalloc_is_verbose()) {
    mi_jemalloc_report("", name, value, row->acts == NULL ? "no effect" : row->acts);
  }
  return is_right;
}

static const mi_jemalloc_row_t* mi_jemalloc_find(mi_jemalloc_piece_t name,
                                                 const mi_jemalloc_row_t* row, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (mi_jemalloc_is(name, row[i].name)) return &row[i];
  }
  return NULL;
}

// Read one option. False if there is a mistake in it.
static bool mi_jemalloc_read_option(mi_jemalloc_piece_t name, mi_jemalloc_piece_t value) {
  char text[MI_JEMALLOC_PATH_MAX];
  snprintf(text, sizeof(text), "%.*s", (int)value.length, value.start);
  const bool is_whole = value.length < sizeof(text);
  const mi_jemalloc_row_t* row = mi_jemalloc_find(name, mi_jemalloc_row, MI_JEMALLOC_OPT_COUNT);
  if (row != NULL) {
    const mi_jemalloc_opt_t opt = (mi_jemalloc_opt_t)(row - mi_jemalloc_row);
    return mi_jemalloc_say_what(name, value, row, is_whole && mi_jemalloc_accept(opt, text));
  }
  row = mi_jemalloc_find(name, mi_jemalloc_unseen, MI_JEMALLOC_UNSEEN_COUNT);
  if (row != NULL) {
    long number;
    const bool is_right = row->type == MI_JEMALLOC_TEXT
                              ? value.length > 0
                              : is_whole && mi_jemalloc_parse_number(row, text, &number);
    return mi_jemalloc_say_what(name, value, row, is_right);
  }
  mi_jemalloc_report("Invalid conf pair: ", name, value, "");
  return false;
}

// Read a text of options. False if there is a mistake in it.
static bool mi_jemalloc_read(const char* rest) {
  bool is_right = true;
  mi_jemalloc_piece_t pair;
  while (rest != NULL && mi_jemalloc_cut(&rest, ',', &pair)) {
    const char* const colon = memchr(pair.start, ':', pair.length);
    const size_t length = colon == NULL ? pair.length : (size_t)(colon - pair.start);
    mi_jemalloc_piece_t value = {pair.start + length, 0};
    if (colon != NULL) value = (mi_jemalloc_piece_t){colon + 1, pair.length - length - 1};
    const mi_jemalloc_piece_t name = {pair.start, length};
    if (!mi_jemalloc_read_option(name, value)) is_right = false;
  }
  return is_right;
}

// -- What they do --

static bool mi_jemalloc_is_word(mi_jemalloc_opt_t opt, const char* word) {
  return mi_jemalloc_has(opt) && strcmp(mi_jemalloc_text(opt), word) == 0;
}

static bool mi_jemalloc_is_on(mi_jemalloc_opt_t opt) {
  return mi_jemalloc_has(opt) && mi_jemalloc_number(opt) != 0;
}

static bool mi_jemalloc_is_off(mi_jemalloc_opt_t opt) {
  return mi_jemalloc_has(opt) && mi_jemalloc_number(opt) == 0;
}

static void mi_jemalloc_apply(void) {
  if (mi_jemalloc_has(MI_JEMALLOC_OPT_dirty_decay_ms)) {
    mi_option_set_default(mi_option_purge_delay,
                          mi_jemalloc_number(MI_JEMALLOC_OPT_dirty_decay_ms));
  }
  if (mi_jemalloc_is_off(MI_JEMALLOC_OPT_background_thread)) {
    mi_option_set_default(mi_option_purge_thread, 0);
  }
  if (mi_jemalloc_is_on(MI_JEMALLOC_OPT_zero)) {
    mi_option_set_default(mi_option_zero_on_allocation, 1);
  }
  if (mi_jemalloc_is_word(MI_JEMALLOC_OPT_thp, "always")) {
    mi_option_set_default(mi_option_allow_thp, 2);
  } else if (mi_jemalloc_is_word(MI_JEMALLOC_OPT_thp, "never")) {
    mi_option_set_default(mi_option_allow_thp, 0);
  }
  if (mi_jemalloc_is_word(MI_JEMALLOC_OPT_zero_realloc, "alloc")) {
    mi_option_set_default(mi_option_libc_semantics, 0);
  }
  if (!mi_jemalloc_is_on(MI_JEMALLOC_OPT_prof)) return;
  // With jemalloc, a program that asks for profiles gets them from the start.
  if (!mi_jemalloc_has(MI_JEMALLOC_OPT_prof_active)) {
    mi_jemalloc_accept(MI_JEMALLOC_OPT_prof_active, "true");
  }
  if (mi_jemalloc_is_on(MI_JEMALLOC_OPT_prof_active)) mi_jemalloc_start_profile();
}

// Whether a thread has begun to read the options. Written by that thread, read by any, relaxed: the
// values are published one by one.
static mi_atomic(bool) mi_jemalloc_is_set_up;

MI_INTERNAL void mi_jemalloc_set_up(void) {
  bool expected = false;
  if (mi_atomic_load_relaxed(&mi_jemalloc_is_set_up) ||
      !mi_atomic_cas_strong_relaxed(&mi_jemalloc_is_set_up, &expected, true)) {
    return;
  }
  const int saved_errno = errno;
  bool is_right = mi_jemalloc_read(malloc_conf);
  if (!mi_jemalloc_read(secure_getenv("MALLOC_CONF"))) is_right = false;
  if (!is_right && mi_jemalloc_is_on(MI_JEMALLOC_OPT_abort_conf)) {
    mi_jemalloc_say("<jemalloc>: abort_conf: there is a mistake in the options\n");
    abort();
  }
  mi_jemalloc_apply();
  errno = saved_errno;
}

__attribute__((constructor)) static void mi_jemalloc_at_start(void) { mi_jemalloc_set_up(); }

__attribute__((destructor)) static void mi_jemalloc_at_end(void) {
  if (mi_jemalloc_is_on(MI_JEMALLOC_OPT_stats_print)) {
    malloc_stats_print(NULL, NULL, mi_jemalloc_text(MI_JEMALLOC_OPT_stats_print_opts));
  }
  if (!mi_jemalloc_is_on(MI_JEMALLOC_OPT_prof_final) || !mi_jemalloc_is_on(MI_JEMALLOC_OPT_prof)) {
    return;
  }
  if (*mi_jemalloc_text(MI_JEMALLOC_OPT_prof_prefix) != 0) mi_jemalloc_dump(NULL, 'f');
  if (mi_jemalloc_is_on(MI_JEMALLOC_OPT_prof_leak)) mi_profile_print_leaks(NULL, NULL);
}
