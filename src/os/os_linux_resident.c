// SPDX-License-Identifier: MIT
// os_linux_resident.c - what the kernel keeps in memory. Of os.h, `mi_os_resident_pages` and
// `mi_os_resident_sum`.
//
//   of a range        /proc/self/pagemap (proc(5)): since Linux 6.7 it can be asked for ranges that
//                     are resident and not the kernel's page of zeros, which counts for nobody.
//                     Before that, it has a word for each OS page, which does not tell that page
//                     from one that another process has, too. (Nor does mincore(2).)
//   of the process    /proc/self/smaps_rollup (proc(5)), since Linux 4.14. It is exact, while the
//                     counters of statm and status may be some MiB behind.
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os_posix.h"

#define MI_PAGEMAP_PRESENT ((uint64_t)1 << 63)
#define MI_PAGEMAP_EXCLUSIVE ((uint64_t)1 << 56)

// From linux/fs.h, which may be older.
typedef struct mi_os_scan_s {
  uint64_t size, flags, start, end, walk_end, regions, region_count, page_max;
  uint64_t inverted, all_of, any_of, wanted; // of the categories below
} mi_os_scan_t;
typedef struct mi_os_region_s {
  uint64_t start, end, categories;
} mi_os_region_t;
#define MI_PAGEMAP_SCAN 0xC0606610 // _IOWR('f', 16, mi_os_scan_t)
#define MI_SCAN_PRESENT ((uint64_t)1 << 3)
#define MI_SCAN_ZEROS ((uint64_t)1 << 5)
mi_static_assert(sizeof(mi_os_scan_t) == 0x60, "the number of the call has it");

// Short texts, which would otherwise lie among what every program reads.
static const char mi_os_resident_map[] mi_attr_rare = "/proc/self/pagemap";
static const char mi_os_resident_file[] mi_attr_rare = "/proc/self/smaps_rollup";
static const char mi_os_resident_names[3][12] mi_attr_rare = {"Rss:", "Anonymous:", "Swap:"};

// Ask for the ranges. False if the kernel has no such call.
static bool mi_os_resident_scan(int file, uintptr_t start, uintptr_t end, size_t page_size,
                                uint8_t* pages) {
  mi_os_region_t regions[64];
  memset(pages, 0, (end - start) / page_size);
  mi_os_scan_t scan = {.size = sizeof(scan),
                       .start = start,
                       .end = end,
                       .regions = (uintptr_t)regions,
                       .region_count = sizeof(regions) / sizeof(regions[0]),
                       .inverted = MI_SCAN_ZEROS,
                       .all_of = MI_SCAN_PRESENT | MI_SCAN_ZEROS,
                       .wanted = MI_SCAN_PRESENT};
  while (scan.start < end) {
    const long count = syscall(SYS_ioctl, file, (unsigned long)MI_PAGEMAP_SCAN, &scan);
    if (count < 0) return false;
    for (long i = 0; i < count; i++) {
      const size_t first = (size_t)(regions[i].start - start) / page_size;
      const size_t size = (size_t)(regions[i].end - regions[i].start);
      memset(pages + first, MI_OS_RESIDENT | MI_OS_RESIDENT_OWN, size / page_size);
    }
    if (scan.walk_end <= scan.start) return false;
    scan.start = scan.walk_end;
  }
  return true;
}

// Read the words.
static bool mi_os_resident_read(int file, uintptr_t start, size_t page_size, uint8_t* pages,
                                size_t count) {
  uint64_t words[256];
  const long at = (long)(start / page_size * sizeof(words[0]));
  if (syscall(SYS_lseek, file, at, SEEK_SET) < 0) return false;
  while (count > 0) {
    const size_t part = mi_bits_min(count, sizeof(words) / sizeof(words[0]));
    const ptrdiff_t size = (ptrdiff_t)(part * sizeof(words[0]));
    if (mi_os_call_read(file, words, (size_t)size) != size) return false;
    for (size_t i = 0; i < part; i++) {
      const bool is_own = (words[i] & MI_PAGEMAP_EXCLUSIVE) != 0;
      const unsigned bits = MI_OS_RESIDENT | (is_own ? MI_OS_RESIDENT_OWN : 0);
      pages[i] = (words[i] & MI_PAGEMAP_PRESENT) != 0 ? (uint8_t)bits : 0;
    }
    pages += part;
    count -= part;
  }
  return true;
}

MI_INTERNAL int mi_os_resident_pages(const void* start, size_t size, uint8_t* pages) {
  const int saved_errno = errno;
  const uintptr_t at = (uintptr_t)start;
  const size_t page_size = (size_t)getauxval(AT_PAGESZ);
  const int file = mi_os_call_open(mi_os_resident_map, O_RDONLY | O_CLOEXEC, 0);
  bool is_done = false;
  if (file >= 0) {
    is_done = mi_os_resident_scan(file, at, at + size, page_size, pages) ||
              mi_os_resident_read(file, at, page_size, pages, size / page_size);
    mi_os_call_close(file);
  }
  errno = saved_errno;
  return is_done ? 0 : ENOSYS;
}

// Return what a line "name: number kB" says, in bytes; 0 if there is none.
static mi_attr_cold uint64_t mi_os_resident_line(const char* text, const char* name) {
  const size_t length = mi_text_length(name);
  uint64_t number = 0;
  for (const char* s = text; *s != 0; s++) {
    if (*s != '\n' || !mi_text_equal_nocase(s + 1, name, length)) continue;
    for (s += length + 1; *s == ' '; s++) {
    }
    for (; *s >= '0' && *s <= '9'; s++) number = number * 10 + (uint64_t)(*s - '0');
    return number * MI_KIB;
  }
  return 0;
}

MI_INTERNAL void mi_os_resident_sum(mi_os_resident_t* sum) {
  char text[2 * MI_KIB];
  *sum = (mi_os_resident_t){0};
  if (mi_os_read_file(mi_os_resident_file, text, sizeof(text)) == 0) return;
  sum->all = mi_os_resident_line(text, mi_os_resident_names[0]);
  sum->anonymous = mi_os_resident_line(text, mi_os_resident_names[1]);
  sum->swapped = mi_os_resident_line(text, mi_os_resident_names[2]);
}
