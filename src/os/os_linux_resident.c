// SPDX-License-Identifier: MIT
// os_linux_resident.c - what the kernel keeps in memory. Of os.h, `mi_os_resident_pages` and
// `mi_os_resident_sum`.
//
//   of a range        /proc/self/pagemap: a word for each OS page (proc(5)). mincore(2) does not
//                     tell the kernel's page of zeros, which counts for nobody.
//   of the process    /proc/self/smaps_rollup (proc(5)), since Linux 4.14. It is exact, while the
//                     counters of statm and status may be some MiB behind.
#include <sys/syscall.h>
#include <unistd.h>

#include "os_posix.h"

#define MI_PAGEMAP_PRESENT ((uint64_t)1 << 63)
#define MI_PAGEMAP_EXCLUSIVE ((uint64_t)1 << 56)

// Short texts, which would otherwise lie among what every program reads.
static const char mi_os_resident_map[] mi_attr_rare = "/proc/self/pagemap";
static const char mi_os_resident_file[] mi_attr_rare = "/proc/self/smaps_rollup";
static const char mi_os_resident_names[3][12] mi_attr_rare = {"Rss:", "Anonymous:", "Swap:"};

static bool mi_os_resident_read(int file, uint8_t* pages, size_t count) {
  uint64_t words[256];
  while (count > 0) {
    const size_t part = mi_bits_min(count, sizeof(words) / sizeof(words[0]));
    if (mi_os_call_read(file, words, part * sizeof(words[0])) != (ptrdiff_t)(part * 8))
      return false;
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
  const size_t page_size = (size_t)getauxval(AT_PAGESZ);
  const int file = mi_os_call_open(mi_os_resident_map, O_RDONLY | O_CLOEXEC, 0);
  bool is_done = false;
  if (file >= 0) {
    const uintptr_t at = (uintptr_t)start / page_size * sizeof(uint64_t);
    is_done = syscall(SYS_lseek, file, (long)at, SEEK_SET) >= 0 &&
              mi_os_resident_read(file, pages, size / page_size);
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

MI_INTERNAL bool mi_os_resident_sum(mi_os_resident_t* sum) {
  char text[2 * MI_KIB];
  *sum = (mi_os_resident_t){0};
  if (mi_os_read_file(mi_os_resident_file, text, sizeof(text)) == 0) return false;
  sum->all = mi_os_resident_line(text, mi_os_resident_names[0]);
  sum->anonymous = mi_os_resident_line(text, mi_os_resident_names[1]);
  sum->swapped = mi_os_resident_line(text, mi_os_resident_names[2]);
  return true;
}
