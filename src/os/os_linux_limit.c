// SPDX-License-Identifier: MIT
// os_linux_limit.c - how much memory this process may use: the limits of its control group, and
// whether processes wait for memory. Of os.h, `mi_os_limit`.
//
//   /proc/self/cgroup                      the group, for version 1 and for version 2
//   memory.max, memory.high                version 2: limits of the group, or "max"
//   memory.limit_in_bytes                  version 1
//   memory.current, memory.usage_in_bytes  what the group uses, with files that are cached
//   memory.stat                            how much of that are such files
//   memory.pressure, /proc/pressure/memory the part of the last ten seconds in which a process
//                                          waited for memory
//
// OS_LINUX_LIMIT-1  a limit of a group is one of all groups in it: all levels are looked at, and
//     the one with the least room counts.
// OS_LINUX_LIMIT-2  what the system takes back when memory runs short is not used: caches of files,
//     but not files that are in memory only (tmpfs). To read memory.stat takes the system longer
//     than the other files: it is read only where the group uses more than half of its limit.
// OS_LINUX_LIMIT-3  in a container the path of the group may be one that is not visible there; what
//     is mounted is then the group itself.
// OS_LINUX_LIMIT-4  all that is read comes into one buffer: this runs inside of malloc, on stacks
//     of the program that may be small. What does not fit is not seen.
//
// Included by os.c. Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst,
// cgroup-v1/memory.rst, accounting/psi.rst. Deliberately absent: limits on address space or on data
// (setrlimit), at which malloc fails and can give up what is unused; groups that are mounted
// elsewhere than under /sys/fs/cgroup.
#include <string.h>

#include "os_posix.h"

#define MI_OS_LIMIT_TEXT ((size_t)3072)
#define MI_OS_LIMIT_GROUP ((size_t)320)
#define MI_OS_LIMIT_PATH (MI_OS_LIMIT_GROUP + 64)
#define MI_OS_LIMIT_MOUNT "/sys/fs/cgroup"
#define MI_OS_LIMIT_PRESSURE 10 // percent of the last ten seconds

// The files of a version. Arrays, not pointers: those would be relocated when each program starts.
typedef struct mi_os_limit_files_s {
  char mount[24];
  char line[16]; // how its line in /proc/self/cgroup goes on behind the number
  char limits[2][24]; // the second may be ""
  char usage[24];
  char cached[16], kept[16]; // fields of memory.stat: files, and those that are in memory only
} mi_os_limit_files_t;

static const mi_os_limit_files_t mi_os_limit_versions[2] mi_attr_rare = {
    {MI_OS_LIMIT_MOUNT "/memory",
     ":memory:",
     {"memory.limit_in_bytes", ""},
     "memory.usage_in_bytes",
     "total_cache ",
     "total_shmem "},
    {MI_OS_LIMIT_MOUNT, "::", {"memory.max", "memory.high"}, "memory.current", "file ", "shmem "},
};

static const char mi_os_limit_path[] mi_attr_rare = "%s%s/%s";
static const char mi_os_limit_self[] mi_attr_rare = "/proc/self/cgroup";
static const char mi_os_limit_members[] mi_attr_rare = "cgroup.procs";
static const char mi_os_limit_stat[] mi_attr_rare = "memory.stat";
static const char mi_os_limit_waits[] mi_attr_rare = "memory.pressure";
static const char mi_os_limit_waits_all[] mi_attr_rare = "/proc/pressure/memory";
static const char mi_os_limit_share[] mi_attr_rare = "some avg10=";

// What one look needs: OS_LINUX_LIMIT-4.
typedef struct mi_os_limit_look_s {
  const mi_os_limit_files_t* files;
  char group[MI_OS_LIMIT_GROUP]; // path of a group, "" what is mounted
  char path[MI_OS_LIMIT_PATH];
  char text[MI_OS_LIMIT_TEXT]; // of the last file that was read, zero-terminated
} mi_os_limit_look_t;

// Read the beginning of a file. False if there is none.
static bool mi_os_limit_read(mi_os_limit_look_t* look, const char* path) {
  const int file = mi_os_call_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return false;
  const ptrdiff_t size = mi_os_call_read(file, look->text, sizeof(look->text) - 1);
  mi_os_call_close(file);
  look->text[size > 0 ? size : 0] = 0;
  return size > 0;
}

// The same for a file of the group.
static bool mi_os_limit_read_of(mi_os_limit_look_t* look, const char* name) {
  mi_text_format(look->path, sizeof(look->path), mi_os_limit_path, look->files->mount, look->group,
                 name);
  return mi_os_limit_read(look, look->path);
}

// Return the number at the start of `text`, UINT64_MAX if there is none, as in "max".
static uint64_t mi_os_limit_number(const char* text) {
  uint64_t number = 0;
  if (*text < '0' || *text > '9') return UINT64_MAX;
  for (; *text >= '0' && *text <= '9'; text++) {
    const uint64_t digit = (uint64_t)(*text - '0');
    number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
  }
  return number;
}

static const char* mi_os_limit_next_line(const char* line) {
  while (*line != '\n' && *line != 0) line++;
  return *line != 0 ? line + 1 : NULL;
}

// Return what is behind `name` where a line of the text begins with it, NULL if none does.
static const char* mi_os_limit_field(const mi_os_limit_look_t* look, const char* name) {
  const size_t length = mi_text_length(name);
  for (const char* line = look->text; line != NULL; line = mi_os_limit_next_line(line)) {
    if (mi_text_equal_nocase(line, name, length)) return line + length;
  }
  return NULL;
}

// Find the group of this process in what /proc/self/cgroup says. False if it is in none.
static bool mi_os_limit_find_group(mi_os_limit_look_t* look) {
  const size_t length = mi_text_length(look->files->line);
  for (const char* line = look->text; line != NULL; line = mi_os_limit_next_line(line)) {
    const char* at = line;
    while (*at >= '0' && *at <= '9') at++;
    if (!mi_text_equal_nocase(at, look->files->line, length)) continue;
    at += length;
    size_t size = 0;
    while (at[size] != '\n' && at[size] != 0) size++;
    if (size >= MI_OS_LIMIT_GROUP) return false;
    memcpy(look->group, at, size);
    look->group[size > 1 ? size : 0] = 0; // "/" is what is mounted
    return true;
  }
  return false;
}

// Return the bytes that a group uses and that the system cannot take back: OS_LINUX_LIMIT-2.
static uint64_t mi_os_limit_used(mi_os_limit_look_t* look, uint64_t limit) {
  if (!mi_os_limit_read_of(look, look->files->usage)) return 0;
  const uint64_t used = mi_os_limit_number(look->text);
  if (used <= limit / 2 || !mi_os_limit_read_of(look, mi_os_limit_stat)) return used;
  const char* const cached = mi_os_limit_field(look, look->files->cached);
  const char* const kept = mi_os_limit_field(look, look->files->kept);
  if (cached == NULL || kept == NULL) return used;
  // The fields are read one after the other by the kernel: the second may be the larger one.
  const uint64_t cached_bytes = mi_os_limit_number(cached), kept_bytes = mi_os_limit_number(kept);
  const uint64_t back = cached_bytes > kept_bytes ? cached_bytes - kept_bytes : 0;
  return back < used ? used - back : 0;
}

// One level: keep what has the least room.
static void mi_os_limit_level(mi_os_limit_look_t* look, mi_os_limit_t* limit) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < 2 && look->files->limits[i][0] != 0; i++) {
    if (!mi_os_limit_read_of(look, look->files->limits[i])) continue;
    const uint64_t number = mi_os_limit_number(look->text);
    if (number < least) least = number;
  }
  if (least >= (uint64_t)INT64_MAX / 2) return; // version 1 says almost that if there is none
  const uint64_t used = mi_os_limit_used(look, least);
  const uint64_t room = used < least ? least - used : 0;
  if (limit->limit != UINT64_MAX && room >= limit->limit - limit->used) return;
  limit->limit = least;
  limit->used = least - room;
}

// All levels, from the group of the process up: OS_LINUX_LIMIT-1.
static void mi_os_limit_levels(mi_os_limit_look_t* look, mi_os_limit_t* limit) {
  if (!mi_os_limit_read_of(look, mi_os_limit_members)) look->group[0] = 0; // OS_LINUX_LIMIT-3
  for (;;) {
    mi_os_limit_level(look, limit);
    size_t length = mi_text_length(look->group);
    if (length == 0) return;
    while (length > 1 && look->group[length - 1] != '/') length--;
    look->group[length - 1] = 0;
  }
}

// True if a file was read that says how long processes wait for memory: "some avg10=12.34 ...".
static bool mi_os_limit_pressure(const mi_os_limit_look_t* look, mi_os_limit_t* limit) {
  const char* const share = mi_os_limit_field(look, mi_os_limit_share);
  if (share == NULL) return false;
  const uint64_t percent = mi_os_limit_number(share);
  limit->is_short = percent != UINT64_MAX && percent >= MI_OS_LIMIT_PRESSURE;
  return true;
}

MI_INTERNAL mi_attr_cold bool mi_os_limit(mi_os_limit_t* limit) {
  const int saved_errno = errno;
  mi_os_limit_look_t look;
  *limit = (mi_os_limit_t){.limit = UINT64_MAX};
  bool has_pressure = false;
  bool is_known = mi_os_limit_read(&look, mi_os_limit_self);
  if (is_known) {
    look.files = &mi_os_limit_versions[0];
    if (!mi_os_limit_find_group(&look)) look.files = &mi_os_limit_versions[1];
    is_known = mi_os_limit_find_group(&look);
  }
  if (is_known) {
    has_pressure =
        mi_os_limit_read_of(&look, mi_os_limit_waits) && mi_os_limit_pressure(&look, limit);
    mi_os_limit_levels(&look, limit);
  }
  if (!has_pressure && mi_os_limit_read(&look, mi_os_limit_waits_all)) {
    has_pressure = mi_os_limit_pressure(&look, limit);
  }
  errno = saved_errno;
  return is_known || has_pressure;
}
