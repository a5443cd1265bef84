// SPDX-License-Identifier: MIT
// override_glibc.c - the functions of glibc that trim the heap, tune it, and tell about it.
//
// Only in builds that replace malloc, on glibc: without them a program would ask the unused heap of
// libc, or, linked statically, pull in libc's malloc and define everything twice. The figures come
// from `mi_stats_snapshot`:
//
//   glibc's word            ours
//   arena, system bytes     memory of the pages that blocks share
//   mmapped, hblkhd         large blocks, which have a page of their own
//   in use, uordblks        other blocks the program has
//   free, fordblks          what is left in the shared pages
//
// OVERRIDE_GLIBC-1  no figure is invented: figures of things that we do not have (fast bins, a top)
//     or do not count (free blocks) are 0.
#if defined(MI_MALLOC_OVERRIDE) && !defined(_WIN32) && !defined(__APPLE__)

#if defined(__has_include)
#if __has_include(<features.h>)
#include <features.h>
#endif
#endif

#if defined(__GLIBC__)

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#include "../api/api.h"

#define MI_GLIBC_EXPORT __attribute__((visibility("default"), used))

static size_t mi_glibc_free_bytes(const mi_snapshot_t* now) {
  return now->in_pages > now->in_use ? now->in_pages - now->in_use : 0;
}

MI_GLIBC_EXPORT int malloc_trim(size_t pad) {
  (void)pad; // our heap has no top that could be padded
  return mi_process_trim() > 0 ? 1 : 0;
}

#if __GLIBC_PREREQ(2, 33)
MI_GLIBC_EXPORT struct mallinfo2 mallinfo2(void) {
  mi_snapshot_t now;
  mi_stats_snapshot(&now);
  struct mallinfo2 info = {0};
  info.arena = now.in_pages;
  info.hblks = now.large_blocks;
  info.hblkhd = now.large;
  info.uordblks = now.in_use;
  info.fordblks = mi_glibc_free_bytes(&now);
  return info;
}
#endif

// The older form counts in int: a figure that does not fit becomes INT_MAX.
static int mi_glibc_int(size_t value) { return value > (size_t)INT_MAX ? INT_MAX : (int)value; }

MI_GLIBC_EXPORT struct mallinfo mallinfo(void) {
  mi_snapshot_t now;
  mi_stats_snapshot(&now);
  struct mallinfo info = {0};
  info.arena = mi_glibc_int(now.in_pages);
  info.hblks = mi_glibc_int(now.large_blocks);
  info.hblkhd = mi_glibc_int(now.large);
  info.uordblks = mi_glibc_int(now.in_use);
  info.fordblks = mi_glibc_int(mi_glibc_free_bytes(&now));
  return info;
}

// Accepts what that of glibc does: all, but for sizes that are not fast there. None of it applies
// here, so nothing changes.
MI_GLIBC_EXPORT int mallopt(int param, int value) {
  const int fast_max = (int)(80 * sizeof(size_t) / 4);
  return param != M_MXFAST || (value >= 0 && value <= fast_max);
}

#define MI_GLIBC_TEXT_MAX ((size_t)2048)

MI_GLIBC_EXPORT void malloc_stats(void) {
  mi_snapshot_t now;
  mi_stats_snapshot(&now);
  char text[MI_GLIBC_TEXT_MAX];
  mi_text_format(text, sizeof(text),
                 "Arena 0:\n"
                 "system bytes     = %10zu\n"
                 "in use bytes     = %10zu\n"
                 "Total (incl. mmap):\n"
                 "system bytes     = %10zu\n"
                 "in use bytes     = %10zu\n"
                 "max mmap regions = %10zu\n"
                 "max mmap bytes   = %10zu\n",
                 now.in_pages, now.in_use, now.in_pages + now.large, now.in_use + now.large,
                 now.large_blocks, now.large_peak);
  mi_output_write(text);
}

MI_GLIBC_EXPORT int malloc_info(int options, FILE* file) {
  if (options != 0) return EINVAL;
  mi_snapshot_t now;
  mi_stats_snapshot(&now);
  const size_t free_bytes = mi_glibc_free_bytes(&now);
  char text[MI_GLIBC_TEXT_MAX];
  mi_text_format(text, sizeof(text),
                 "<malloc version=\"1\">\n"
                 "<heap nr=\"0\">\n"
                 "<sizes>\n"
                 "</sizes>\n"
                 "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
                 "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                 "<system type=\"current\" size=\"%zu\"/>\n"
                 "<system type=\"max\" size=\"%zu\"/>\n"
                 "<aspace type=\"total\" size=\"%zu\"/>\n"
                 "<aspace type=\"mprotect\" size=\"%zu\"/>\n"
                 "</heap>\n"
                 "<total type=\"fast\" count=\"0\" size=\"0\"/>\n"
                 "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n"
                 "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n"
                 "<system type=\"current\" size=\"%zu\"/>\n"
                 "<system type=\"max\" size=\"%zu\"/>\n"
                 "<aspace type=\"total\" size=\"%zu\"/>\n"
                 "<aspace type=\"mprotect\" size=\"%zu\"/>\n"
                 "</malloc>\n",
                 free_bytes, now.committed, now.committed_peak, now.reserved, now.committed,
                 free_bytes, now.large_blocks, now.large, now.committed, now.committed_peak,
                 now.reserved, now.committed);
  return fputs(text, file) < 0 ? errno : 0;
}

#endif
#endif
