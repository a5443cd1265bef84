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
// OS_LINUX_LIMIT-4  this runs inside of malloc, on stacks of the program that may be small: a file
//     is read in parts of MI_OS_LIMIT_PART bytes, and all else that is kept of it is one path.
// OS_LINUX_LIMIT-5  of a path that does not fit the levels that do are looked at, if they are
//     visible: groups in groups, as of a container in a container, have paths of any length.
//
// Included by os.c. Sources: cgroups(7), Documentation/admin-guide/cgroup-v2.rst,
// cgroup-v1/memory.rst, accounting/psi.rst. Deliberately absent: limits on address space or on data
// (setrlimit), at which malloc fails and can give up what is unused; groups that are mounted
// elsewhere than under /sys/fs/cgroup.
#include "os_posix.h"

#define MI_OS_LIMIT_PART ((size_t)256)
#define MI_OS_LIMIT_PATH ((size_t)384)
#define MI_OS_LIMIT_FIELD ((size_t)16) // the longest name of a field that matters, with a zero
#define MI_OS_LIMIT_FILE_MAX ((size_t)32) // the longest name of a file, with "/" and a zero
#define MI_OS_LIMIT_MOUNT "/sys/fs/cgroup"
#define MI_OS_LIMIT_PRESSURE 10 // percent of the last ten seconds

// The files of a version. Arrays, not pointers: those would be relocated when each program starts.
typedef struct mi_os_limit_files_s {
  char mount[24];
  char controller[MI_OS_LIMIT_FIELD]; // as /proc/self/cgroup names it
  char limits[2][24]; // the second may be ""
  char usage[24];
  char cached[MI_OS_LIMIT_FIELD], kept[MI_OS_LIMIT_FIELD]; // fields of memory.stat: files, and
      // those that are in memory only
} mi_os_limit_files_t;

static const mi_os_limit_files_t mi_os_limit_versions[2] = {
    {MI_OS_LIMIT_MOUNT "/memory",
     "memory",
     {"memory.limit_in_bytes", ""},
     "memory.usage_in_bytes",
     "total_cache",
     "total_shmem"},
    {MI_OS_LIMIT_MOUNT, "", {"memory.max", "memory.high"}, "memory.current", "file", "shmem"},
};

static const char mi_os_limit_self[] = "/proc/self/cgroup";
static const char mi_os_limit_members[] = "cgroup.procs";
static const char mi_os_limit_stat[] = "memory.stat";
static const char mi_os_limit_waits[] = "memory.pressure";
static const char mi_os_limit_waits_all[] = "/proc/pressure/memory";
static const char mi_os_limit_share[] = "some avg10=";

// What one look needs: OS_LINUX_LIMIT-4.
typedef struct mi_os_limit_look_s {
  const mi_os_limit_files_t* files;
  int file; // that is open
  size_t at, end; // what of `part` is not looked at yet
  size_t root, group; // lengths in `path`: of the mount point, and with the path of the group
  char path[MI_OS_LIMIT_PATH]; // of the group, and at times behind it the name of a file
  char part[MI_OS_LIMIT_PART]; // of the file
} mi_os_limit_look_t;

// -- A file, character by character --

#define MI_OS_LIMIT_END (-1)

static bool mi_os_limit_open(mi_os_limit_look_t* look, const char* path) {
  look->at = look->end = 0;
  look->file = mi_os_call_open(path, O_RDONLY | O_CLOEXEC, 0);
  return look->file >= 0;
}

// The same for a file of the group.
static bool mi_os_limit_open_of(mi_os_limit_look_t* look, const char* name) {
  const size_t length = mi_text_append(look->path, MI_OS_LIMIT_PATH, look->group, "/");
  mi_text_append(look->path, MI_OS_LIMIT_PATH, length, name);
  return mi_os_limit_open(look, look->path);
}

// Return the next character, which stays the next one; MI_OS_LIMIT_END behind the last.
static int mi_os_limit_peek(mi_os_limit_look_t* look) {
  if (look->at == look->end) {
    const ptrdiff_t size = mi_os_call_read(look->file, look->part, MI_OS_LIMIT_PART);
    look->at = 0;
    look->end = size > 0 ? (size_t)size : 0;
    if (size <= 0) return MI_OS_LIMIT_END;
  }
  return (uint8_t)look->part[look->at];
}

static bool mi_os_limit_is_digit(int c) { return c >= '0' && c <= '9'; }

// Read the number that comes next, UINT64_MAX if none does, as in "max".
static uint64_t mi_os_limit_number(mi_os_limit_look_t* look) {
  int c = mi_os_limit_peek(look);
  if (!mi_os_limit_is_digit(c)) return UINT64_MAX;
  uint64_t number = 0;
  for (; mi_os_limit_is_digit(c); c = mi_os_limit_peek(look)) {
    const uint64_t digit = (uint64_t)(c - '0');
    number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
    look->at++;
  }
  return number;
}

// Read as much of `text` as comes next. True if all of it does.
static bool mi_os_limit_is_next(mi_os_limit_look_t* look, const char* text) {
  for (; *text != 0; text++, look->at++) {
    if (mi_os_limit_peek(look) != (uint8_t)*text) return false;
  }
  return true;
}

// Go to the next line. False if there is none.
static bool mi_os_limit_next_line(mi_os_limit_look_t* look) {
  int c;
  while ((c = mi_os_limit_peek(look)) != '\n' && c != MI_OS_LIMIT_END) look->at++;
  if (c == MI_OS_LIMIT_END) return false;
  look->at++;
  return mi_os_limit_peek(look) != MI_OS_LIMIT_END;
}

// Read what comes next, up to `last` or the end of the line, into a buffer, which ends with a zero
// in any case. False if it has no room for all of it.
static bool mi_os_limit_text(mi_os_limit_look_t* look, int last, char* text, size_t capacity) {
  size_t length = 0;
  int c;
  while ((c = mi_os_limit_peek(look)) != last && c != '\n' && c != MI_OS_LIMIT_END) {
    if (length + 1 == capacity) break;
    text[length++] = (char)c;
    look->at++;
  }
  text[length] = 0;
  return c == last || c == '\n' || c == MI_OS_LIMIT_END;
}

// -- What the files say --

static bool mi_os_limit_equal(const char* field, const char* name) {
  return mi_text_equal_nocase(field, name, MI_OS_LIMIT_FIELD);
}

// Go to the level above, at most to what is mounted.
static void mi_os_limit_go_up(mi_os_limit_look_t* look) {
  while (look->group > look->root && look->path[look->group - 1] != '/') look->group--;
  if (look->group > look->root) look->group--;
}

// Find the group of this process in lines "number:controllers:path", that of version 1 if there
// are both: its line comes first. False if it is in none.
static bool mi_os_limit_find_group(mi_os_limit_look_t* look) {
  char controller[MI_OS_LIMIT_FIELD];
  bool is_found = false;
  if (!mi_os_limit_open(look, mi_os_limit_self)) return false;
  do {
    mi_os_limit_number(look);
    if (!mi_os_limit_is_next(look, ":")) continue;
    if (!mi_os_limit_text(look, ':', controller, sizeof(controller))) continue;
    if (!mi_os_limit_is_next(look, ":")) continue;
    for (size_t version = 0; version < 2 && !is_found; version++) {
      look->files = &mi_os_limit_versions[version];
      is_found = mi_os_limit_equal(controller, look->files->controller);
    }
  } while (!is_found && mi_os_limit_next_line(look));
  if (is_found) {
    look->root = mi_text_append(look->path, MI_OS_LIMIT_PATH, 0, look->files->mount);
    const size_t room = MI_OS_LIMIT_PATH - look->root - MI_OS_LIMIT_FILE_MAX;
    const bool is_whole = mi_os_limit_text(look, '\n', look->path + look->root, room);
    const size_t length = mi_text_length(look->path);
    look->group = length > look->root + 1 ? length : look->root; // "/" is what is mounted
    if (!is_whole) mi_os_limit_go_up(look); // OS_LINUX_LIMIT-5
  }
  mi_os_call_close(look->file);
  return is_found;
}

// Return the number that a file of the group begins with, `otherwise` if there is no such file.
static uint64_t mi_os_limit_number_of(mi_os_limit_look_t* look, const char* name,
                                      uint64_t otherwise) {
  if (!mi_os_limit_open_of(look, name)) return otherwise;
  const uint64_t number = mi_os_limit_number(look);
  mi_os_call_close(look->file);
  return number;
}

// Return the bytes of a group that the system takes back when memory runs short: OS_LINUX_LIMIT-2.
static uint64_t mi_os_limit_back(mi_os_limit_look_t* look) {
  char field[MI_OS_LIMIT_FIELD];
  uint64_t cached = UINT64_MAX, kept = UINT64_MAX;
  if (!mi_os_limit_open_of(look, mi_os_limit_stat)) return 0;
  do {
    if (!mi_os_limit_text(look, ' ', field, sizeof(field))) continue;
    const bool is_cached = mi_os_limit_equal(field, look->files->cached);
    if (!is_cached && !mi_os_limit_equal(field, look->files->kept)) continue;
    if (!mi_os_limit_is_next(look, " ")) continue;
    *(is_cached ? &cached : &kept) = mi_os_limit_number(look);
  } while ((cached == UINT64_MAX || kept == UINT64_MAX) && mi_os_limit_next_line(look));
  mi_os_call_close(look->file);
  if (cached == UINT64_MAX || kept == UINT64_MAX) return 0;
  // The fields are read one after the other by the kernel: the second may be the larger one.
  return cached > kept ? cached - kept : 0;
}

// Return the bytes that a group uses and that the system cannot take back.
static uint64_t mi_os_limit_used(mi_os_limit_look_t* look, uint64_t limit) {
  const uint64_t used = mi_os_limit_number_of(look, look->files->usage, 0);
  if (used <= limit / 2) return used;
  const uint64_t back = mi_os_limit_back(look);
  return back < used ? used - back : 0;
}

// One level: keep what has the least room.
static void mi_os_limit_level(mi_os_limit_look_t* look, mi_os_limit_t* limit) {
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < 2 && look->files->limits[i][0] != 0; i++) {
    const uint64_t number = mi_os_limit_number_of(look, look->files->limits[i], UINT64_MAX);
    if (number < least) least = number;
  }
  if (least >= (uint64_t)INT64_MAX / 2) return; // version 1 says almost that if there is none
  const uint64_t used = mi_os_limit_used(look, least);
  const uint64_t room = used < least ? least - used : 0;
  if (limit->limit != UINT64_MAX && room >= limit->limit - limit->used) return;
  limit->limit = least;
  limit->used = least - room;
}

// True if the group is visible: OS_LINUX_LIMIT-3.
static bool mi_os_limit_is_visible(mi_os_limit_look_t* look) {
  if (!mi_os_limit_open_of(look, mi_os_limit_members)) return false;
  mi_os_call_close(look->file);
  return true;
}

// All levels, from the group of the process up: OS_LINUX_LIMIT-1.
static void mi_os_limit_levels(mi_os_limit_look_t* look, mi_os_limit_t* limit) {
  for (;;) {
    mi_os_limit_level(look, limit);
    if (look->group <= look->root) return;
    mi_os_limit_go_up(look);
  }
}

// Read how long processes wait for memory from a file that was opened: "some avg10=12.34 ...".
// False if it does not say so.
static bool mi_os_limit_pressure(mi_os_limit_look_t* look, mi_os_limit_t* limit) {
  const bool is_known = mi_os_limit_is_next(look, mi_os_limit_share);
  const uint64_t percent = is_known ? mi_os_limit_number(look) : UINT64_MAX;
  mi_os_call_close(look->file);
  limit->is_short = percent != UINT64_MAX && percent >= MI_OS_LIMIT_PRESSURE;
  return is_known;
}

MI_INTERNAL mi_attr_cold bool mi_os_limit(mi_os_limit_t* limit) {
  const int saved_errno = errno;
  mi_os_limit_look_t look;
  *limit = (mi_os_limit_t){.limit = UINT64_MAX};
  bool has_pressure = false;
  const bool is_known = mi_os_limit_find_group(&look);
  if (is_known) {
    if (!mi_os_limit_is_visible(&look)) look.group = look.root;
    has_pressure =
        mi_os_limit_open_of(&look, mi_os_limit_waits) && mi_os_limit_pressure(&look, limit);
    mi_os_limit_levels(&look, limit);
  }
  if (!has_pressure && mi_os_limit_open(&look, mi_os_limit_waits_all)) {
    has_pressure = mi_os_limit_pressure(&look, limit);
  }
  errno = saved_errno;
  return is_known || has_pressure;
}
