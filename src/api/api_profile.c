// SPDX-License-Identifier: MIT
// api_profile.c - heap profiles for the program and from the environment: mimalloc-profile.h.
//
//   MIMALLOC_PROFILE=FILE[,KIND] -> constructor -> samples -> exit: FILE is written
//   MIMALLOC_PROFILE_LEAKS=1     -> constructor -> samples -> exit: a report on standard error
//   mi_profile_start             -> any moment  -> samples -> mi_profile_write
//
// API_PROFILE-1  the environment is read once, by the constructor: reading stacks must be prepared
//     in a moment in which the program may call anything. A program with raised privileges has no
//     such variable (a file would be written with them).
// API_PROFILE-2  a child of a fork writes a file of its own: with %p in the name, or else with its
//     number before the suffix, so that no process overwrites the file of its parent.
//
// Deliberately absent: formats (observe/), what a sample is (core/threads/sample.c).
#include "mimalloc-profile.h"

#include <errno.h>
#include <string.h>

#include "api.h"

#define MI_PROFILE_PATH_MAX ((size_t)4096)
#define MI_PROFILE_TOP 20 // sites in a report of leaks
#define MI_PROFILE_REPORT_FRAMES ((size_t)16)

// What the environment asks for. Written by the constructor, read by it and at the end.
typedef struct mi_profile_wish_s {
  bool is_wanted; // a file is to be written
  mi_site_kind_t kind;
  size_t process; // that read it
  char path[MI_PROFILE_PATH_MAX];
} mi_profile_wish_t;
static mi_profile_wish_t mi_profile_wish mi_attr_sparse;

mi_static_assert((int)mi_profile_live == (int)MI_SITE_LIVE, "the kinds are those of the core");
mi_static_assert((int)mi_profile_allocated == (int)MI_SITE_TAKEN, "likewise");
mi_static_assert((int)mi_profile_peak == (int)MI_SITE_PEAK, "likewise");
mi_static_assert((int)mi_profile_growth == (int)MI_SITE_GROWTH, "likewise");
mi_static_assert((int)mi_profile_folded == (int)MI_PROFILE_FOLDED, "and so are the formats");

static bool mi_profile_is_kind(mi_profile_kind_t kind) {
  return kind >= mi_profile_live && kind <= mi_profile_growth;
}

// -- Switching --

bool mi_profile_start(size_t rate) mi_attr_noexcept {
  mi_process_setup();
  if (rate == 0) {
    const long option = mi_option_value(profile_rate);
    rate = option > 0 ? (size_t)option : 1;
  }
  mi_os_stack_prepare();
  mi_sample_profile(rate);
  const void* frame = NULL;
  return mi_os_stack(&frame, 1) > 0;
}

void mi_profile_stop(void) mi_attr_noexcept {
  if (mi_profile_rate() != 0) mi_sample_profile(0);
}

size_t mi_profile_rate(void) mi_attr_noexcept {
  return mi_atomic_load_relaxed(&mi_state.profile_interval);
}

void mi_profile_mark(void) mi_attr_noexcept { mi_sampled_mark(); }

// -- Writing --

// Copy a path; %p becomes the number of the process. False if it is too long.
static bool mi_profile_expand(const char* pattern, char* path) {
  size_t used = 0;
  for (const char* s = pattern; *s != 0; s++) {
    if (used + 24 > MI_PROFILE_PATH_MAX) return false;
    if (s[0] == '%' && s[1] == 'p') {
      used += mi_text_format(path + used, 24, "%zu", mi_os_process_number());
      s++;
    } else {
      path[used++] = *s;
    }
  }
  path[used] = 0;
  return true;
}

int mi_profile_write(const char* file, mi_profile_kind_t kind) mi_attr_noexcept {
  mi_process_setup();
  if (file == NULL || !mi_profile_is_kind(kind)) return EINVAL;
  char path[MI_PROFILE_PATH_MAX];
  if (!mi_profile_expand(file, path)) return ENAMETOOLONG;
  return mi_profile_dump(path, (mi_site_kind_t)kind);
}

int mi_profile_write_to(mi_profile_format_t format, mi_profile_kind_t kind, mi_profile_put_fun* put,
                        void* arg) mi_attr_noexcept {
  mi_process_setup();
  const bool is_format = format >= mi_profile_pprof_gzip && format <= mi_profile_folded;
  if (put == NULL || !is_format || !mi_profile_is_kind(kind)) return EINVAL;
  return mi_profile_dump_to((mi_profile_form_t)format, (mi_site_kind_t)kind, put, arg);
}

bool mi_profile_visit(mi_profile_kind_t kind, mi_profile_visit_fun* visit,
                      void* arg) mi_attr_noexcept {
  if (visit == NULL || !mi_profile_is_kind(kind)) return false;
  for (mi_site_t* s = NULL; (s = mi_sampled_next_site(s)) != NULL;) {
    const mi_amount_t samples = mi_sampled_amount(s, (mi_site_kind_t)kind);
    if (samples.count == 0 && samples.bytes == 0) continue;
    const mi_amount_t amount = mi_sampled_estimate(s, samples);
    const mi_profile_site_t site = {.count = amount.count,
                                    .bytes = amount.bytes,
                                    .samples = samples.count,
                                    .block_size = s->chance.size,
                                    .frame_count = s->frame_count,
                                    .frames = s->frames};
    if (!visit(&site, arg)) return false;
  }
  return true;
}

// -- Leaks --

// The sites with most bytes in use, and the sum of all.
typedef struct mi_profile_top_s {
  mi_site_t* site[MI_PROFILE_TOP];
  mi_amount_t amount[MI_PROFILE_TOP];
  size_t used;
  size_t site_count;
  mi_amount_t sum;
} mi_profile_top_t;

static void mi_profile_rank(mi_profile_top_t* top, mi_site_t* site) {
  const mi_amount_t amount = mi_sampled_estimate(site, mi_sampled_amount(site, MI_SITE_LIVE));
  if (amount.count <= 0) return;
  top->site_count++;
  top->sum.count += amount.count;
  top->sum.bytes += amount.bytes;
  size_t at = top->used < MI_PROFILE_TOP ? top->used++ : MI_PROFILE_TOP;
  if (at == MI_PROFILE_TOP && top->amount[--at].bytes >= amount.bytes) return;
  for (; at > 0 && top->amount[at - 1].bytes < amount.bytes; at--) {
    top->site[at] = top->site[at - 1];
    top->amount[at] = top->amount[at - 1];
  }
  top->site[at] = site;
  top->amount[at] = amount;
}

static void mi_profile_print_site(mi_sink_t sink, const mi_site_t* site, mi_amount_t amount) {
  mi_output_print(sink, "%12lld bytes in %lld blocks of %zu bytes, allocated at\n",
                  (long long)amount.bytes, (long long)amount.count, site->chance.size);
  const size_t count = mi_bits_min(site->frame_count, MI_PROFILE_REPORT_FRAMES);
  for (size_t i = 0; i < count; i++) {
    char name[MI_OUTPUT_LINE_MAX - 32];
    mi_profile_name(site->frames[i], name, sizeof(name), 0);
    mi_output_print(sink, "               %s\n", name);
  }
}

void mi_profile_print_leaks(mi_output_fun* out, void* arg) mi_attr_noexcept {
  mi_process_setup();
  const mi_sink_t sink = mi_output_sink(out, arg);
  mi_profile_top_t top = {.used = 0};
  for (mi_site_t* s = NULL; (s = mi_sampled_next_site(s)) != NULL;) mi_profile_rank(&top, s);
  mi_output_print(sink,
                  "mimalloc: %lld bytes in %lld blocks are in use, from %zu sites (estimated)\n",
                  (long long)top.sum.bytes, (long long)top.sum.count, top.site_count);
  for (size_t i = 0; i < top.used; i++) mi_profile_print_site(sink, top.site[i], top.amount[i]);
  if (top.site_count > top.used) {
    mi_output_print(sink, "mimalloc: and %zu sites with less\n", top.site_count - top.used);
  }
  const size_t missed = mi_sampled_missed();
  if (missed > 0) mi_output_print(sink, "mimalloc: %zu samples were missed\n", missed);
}

// -- The environment --

// Cut a known kind off the end of the value, behind a comma.
static mi_site_kind_t mi_profile_cut_kind(char* path) {
  static const char names[4][12] mi_attr_rare = {"live", "allocated", "peak", "growth"};
  size_t comma = mi_text_length(path);
  while (comma > 0 && path[comma] != ',') comma--;
  if (comma == 0) return MI_SITE_LIVE;
  for (size_t i = 0; i < 4; i++) {
    const size_t length = mi_text_length(names[i]);
    if (mi_text_length(path + comma + 1) == length &&
        mi_text_equal_nocase(path + comma + 1, names[i], length)) {
      path[comma] = 0;
      return (mi_site_kind_t)i;
    }
  }
  return MI_SITE_LIVE;
}

MI_INTERNAL int mi_profile_write_as(char* file) {
  const mi_site_kind_t kind = mi_profile_cut_kind(file);
  return mi_profile_write(file, (mi_profile_kind_t)kind);
}

MI_INTERNAL void mi_profile_begin(void) {
  if (mi_state.os.is_setuid) return; // API_PROFILE-1
  mi_profile_wish_t* const wish = &mi_profile_wish;
  const char* const value = mi_os_environment(MI_ENVIRONMENT_PREFIX "profile");
  if (value != NULL && value[0] != 0) {
    wish->is_wanted = mi_text_length(value) < MI_PROFILE_PATH_MAX;
    if (!wish->is_wanted) mi_output_line("the name of the profile is too long");
    mi_text_append(wish->path, MI_PROFILE_PATH_MAX, 0, value);
    wish->kind = mi_profile_cut_kind(wish->path);
    wish->process = mi_os_process_number();
  }
  if (wish->is_wanted || mi_option_value(profile_leaks) != 0) mi_profile_start(0);
}

// Insert the number of a child before the suffix of its file: API_PROFILE-2.
static void mi_profile_name_child(const char* pattern, char* path) {
  size_t end = mi_text_length(pattern);
  size_t at = end;
  while (at > 0 && pattern[at - 1] != '/') at--;
  while (at < end && pattern[at] != '.') at++;
  memcpy(path, pattern, at);
  size_t used = at;
  used += mi_text_format(path + used, MI_PROFILE_PATH_MAX - used, ".%zu", mi_os_process_number());
  mi_text_append(path, MI_PROFILE_PATH_MAX, used, pattern + at);
}

static bool mi_profile_has_number(const char* pattern) {
  for (const char* s = pattern; *s != 0; s++) {
    if (s[0] == '%' && s[1] == 'p') return true;
  }
  return false;
}

static const struct mi_profile_reason_s {
  int err;
  char text[36];
} mi_profile_reasons[] mi_attr_rare = {
    {EACCES, "permission denied"},
    {EPERM, "permission denied"},
    {ENOENT, "no such folder"},
    {ENOTDIR, "a part of the name is no folder"},
    {EISDIR, "there is a folder of that name"},
    {ENOSPC, "no space left"},
    {EROFS, "the file system is read-only"},
    {EMFILE, "too many open files"},
    {ENOMEM, "out of memory"},
};

MI_INTERNAL const char* mi_profile_reason(int err) {
  for (size_t i = 0; i < sizeof(mi_profile_reasons) / sizeof(mi_profile_reasons[0]); i++) {
    if (mi_profile_reasons[i].err == err) return mi_profile_reasons[i].text;
  }
  return "see errno(3)";
}

MI_INTERNAL void mi_profile_end(void) {
  const mi_profile_wish_t* const wish = &mi_profile_wish;
  if (mi_option_value(profile_leaks) != 0 && mi_profile_rate() != 0) {
    mi_profile_print_leaks(NULL, NULL);
  }
  if (!wish->is_wanted) return;
  char path[MI_PROFILE_PATH_MAX];
  const char* pattern = wish->path;
  const bool is_child = mi_os_process_number() != wish->process;
  if (is_child && !mi_profile_has_number(wish->path)) {
    mi_profile_name_child(wish->path, path);
    pattern = path;
  }
  const int err = mi_profile_write(pattern, (mi_profile_kind_t)wish->kind);
  if (err == 0) return;
  mi_output_line("cannot write the profile %s: error %d, %s", pattern, err, mi_profile_reason(err));
}
