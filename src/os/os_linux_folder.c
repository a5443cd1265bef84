// SPDX-License-Identifier: MIT
// os_linux_folder.c - files in a folder that only the user of this process can write into: of os.h,
// what commands for a running process take.
//
// OS_LINUX_FOLDER-1  names are looked up in the folder that was opened and checked, not by a path:
//     no other user can put something else in the place of the folder meanwhile.
// OS_LINUX_FOLDER-2  nothing here waits for another process: a pipe is opened, seen not to be a
//     file, and closed.
//
// Included by os.c. All are system calls made directly, as those of os_linux.c, because a library
// in between (a sandbox, a tracer of files) may allocate. A kernel without statx (before 4.11) has
// no such folder.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "os_posix.h"

// What statx(2) says: the structure of the kernel, which a libc or its headers may lack.
typedef struct mi_os_statx_s {
  uint32_t mask, block_size;
  uint64_t attributes;
  uint32_t links, user, group;
  uint16_t mode, unused;
  uint8_t rest[224];
} mi_os_statx_t;
mi_static_assert(sizeof(mi_os_statx_t) == 256, "what the kernel writes");

#define MI_OS_STATX_TYPE_MODE_UID 0xBU
#define MI_OS_STATX_OF_FILE 0x1000 // AT_EMPTY_PATH: of the open file itself

// The number of the effective user. Processors of 32 bits have an older call of 16 bits.
static uint32_t mi_os_folder_user(void) {
#if defined(SYS_geteuid32)
  return (uint32_t)syscall(SYS_geteuid32);
#else
  return (uint32_t)syscall(SYS_geteuid);
#endif
}

// Return 0 if an open file is of that kind, belongs to the user, and nobody else can write into it.
static int mi_os_folder_check(int file, uint32_t kind) {
  mi_os_statx_t about = {0};
  const long rc =
      syscall(SYS_statx, file, "", MI_OS_STATX_OF_FILE, MI_OS_STATX_TYPE_MODE_UID, &about);
  if (rc != 0) return errno;
  if ((about.mode & S_IFMT) != kind) return kind == S_IFDIR ? ENOTDIR : EINVAL;
  const bool is_private = about.user == mi_os_folder_user() && (about.mode & 022) == 0;
  return is_private ? 0 : EPERM;
}

// Open what must be of that kind, and private. Returns 0 or an errno value.
static int mi_os_folder_open_at(int folder, const char* name, uint32_t kind, int* file) {
  const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  *file = (int)syscall(SYS_openat, folder, name, flags, 0);
  if (*file < 0) return errno;
  const int err = mi_os_folder_check(*file, kind);
  if (err != 0) mi_os_call_close(*file);
  return err;
}

MI_INTERNAL bool mi_os_file_exists(const char* path) {
  const int saved_errno = errno;
  const bool is_there = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
  errno = saved_errno;
  return is_there;
}

MI_INTERNAL int mi_os_folder_open(const char* path, int* folder) {
  const int saved_errno = errno;
  const int err = mi_os_folder_open_at(AT_FDCWD, path, S_IFDIR, folder);
  errno = saved_errno;
  return err;
}

MI_INTERNAL int mi_os_folder_read(int folder, const char* name, char* text, size_t capacity) {
  const int saved_errno = errno;
  int file;
  int err = mi_os_folder_open_at(folder, name, S_IFREG, &file);
  text[0] = 0;
  if (err == 0) {
    const ptrdiff_t size = mi_os_call_read(file, text, capacity);
    if (size < 0) err = errno;
    if (size >= 0 && (size_t)size == capacity) err = EFBIG;
    text[size > 0 && err == 0 ? size : 0] = 0;
    mi_os_call_close(file);
  }
  errno = saved_errno;
  return err;
}

MI_INTERNAL int mi_os_folder_create(int folder, const char* name, int* file) {
  const int saved_errno = errno;
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  *file = (int)syscall(SYS_openat, folder, name, flags, 0600);
  const int err = *file < 0 ? errno : 0;
  errno = saved_errno;
  return err;
}

MI_INTERNAL int mi_os_folder_rename(int folder, const char* from, const char* to) {
  const int saved_errno = errno;
  const int err = syscall(SYS_renameat2, folder, from, folder, to, 0) != 0 ? errno : 0;
  errno = saved_errno;
  return err;
}

MI_INTERNAL int mi_os_folder_remove(int folder, const char* name) {
  const int saved_errno = errno;
  const int err = syscall(SYS_unlinkat, folder, name, 0) != 0 ? errno : 0;
  errno = saved_errno;
  return err;
}
