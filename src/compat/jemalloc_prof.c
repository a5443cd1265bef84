// SPDX-License-Identifier: MIT
// jemalloc_prof.c - heap profiles, as programs ask jemalloc for them: the rate is a logarithm, and
// files are numbered, or have names that say nothing about the format.
//
// JEMALLOC_PROF-1  a file is text for jeprof, unless its name ends like one of another format that
//     we know (mimalloc-profile.h).
// JEMALLOC_PROF-2  samples are never dropped: after prof.reset, profiles show what has grown since.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jemalloc.h"
#include "mimalloc-profile.h"

// The logarithm of the rate, plus 1; 0: that of the option. Written and read by any thread,
// relaxed.
static mi_atomic(size_t) mi_jemalloc_lg_sample;
// Whether profiles show what came after prof.reset, and how many were written. Written and read by
// any thread, relaxed: they are hints for the next file.
static mi_atomic(bool) mi_jemalloc_was_reset;
static mi_atomic(unsigned) mi_jemalloc_dumps;

// As in jemalloc, a rate that is too large becomes the largest.
static size_t mi_jemalloc_bound_rate(size_t lg) {
  const size_t most = sizeof(size_t) * 8 - 2;
  return lg < most ? lg : most;
}

MI_INTERNAL size_t mi_jemalloc_lg_rate(void) {
  const size_t set = mi_atomic_load_relaxed(&mi_jemalloc_lg_sample);
  if (set > 0) return set - 1;
  return mi_jemalloc_bound_rate((size_t)mi_jemalloc_number(MI_JEMALLOC_OPT_lg_prof_sample));
}

MI_INTERNAL void mi_jemalloc_start_profile(void) {
  mi_profile_start((size_t)1 << mi_jemalloc_lg_rate());
}

MI_INTERNAL void mi_jemalloc_set_lg_rate(size_t lg) {
  mi_atomic_store_relaxed(&mi_jemalloc_lg_sample, mi_jemalloc_bound_rate(lg) + 1);
}

MI_INTERNAL void mi_jemalloc_reset_profile(void) {
  mi_profile_mark();
  mi_atomic_store_relaxed(&mi_jemalloc_was_reset, true);
  if (mi_profile_rate() != 0) mi_jemalloc_start_profile(); // maybe at another rate
}

static bool mi_jemalloc_ends_with(const char* text, const char* end) {
  const size_t length = strlen(text);
  return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

// As mi_profile_write, but what has no other suffix is for jeprof, whatever it is called.
static mi_profile_format_t mi_jemalloc_format(const char* file) {
  if (mi_jemalloc_ends_with(file, ".pb.gz")) return mi_profile_pprof_gzip;
  if (mi_jemalloc_ends_with(file, ".pb")) return mi_profile_pprof;
  return mi_jemalloc_ends_with(file, ".folded") ? mi_profile_folded : mi_profile_heap_text;
}

static bool mi_jemalloc_put_profile(const void* bytes, size_t size, void* arg) {
  const char* rest = (const char*)bytes;
  while (size > 0) {
    const ssize_t written = write(*(const int*)arg, rest, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest += written;
    size -= (size_t)written;
  }
  return true;
}

MI_INTERNAL int mi_jemalloc_dump(const char* file, char series) {
  char own[MI_JEMALLOC_PATH_MAX + 64]; // a prefix, numbers and letters
  const unsigned number = mi_atomic_add_relaxed(&mi_jemalloc_dumps, 1);
  if (file == NULL) {
    const char* const prefix = mi_jemalloc_text(MI_JEMALLOC_OPT_prof_prefix);
    char count[16] = "";
    if (series != 'f') snprintf(count, sizeof(count), "%u", number);
    snprintf(own, sizeof(own), "%s.%ld.%u.%c%s.heap", prefix, (long)getpid(), number, series,
             count);
    file = own;
  }
  int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return EFAULT;
  const bool was_reset = mi_atomic_load_relaxed(&mi_jemalloc_was_reset);
  const int result =
      mi_profile_write_to(mi_jemalloc_format(file), was_reset ? mi_profile_growth : mi_profile_live,
                          &mi_jemalloc_put_profile, &fd);
  return close(fd) == 0 && result == 0 ? 0 : EFAULT;
}
