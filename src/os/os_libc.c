// SPDX-License-Identifier: MIT
// os_libc.c - the part of os.h that a C library with file descriptors has, though there be no POSIX
// system behind it: clocks, the environment, the error stream, files.
//
// OS_POSIX-1 to OS_POSIX-3 hold here, too: the file of a system gives calls that fulfil them
// (os_libc.h).
#include "os_libc.h"

#if MI_IS_BSD ||                                                                                   \
    defined(__DragonFly__) // where the start code of a program has the name, and libc may not
extern char** environ mi_attr_weak;
#define MI_OS_HAS_ENVIRON (&environ != NULL && environ != NULL)
#elif MI_IS_MACOS // where only the program has that name
#include <crt_externs.h>
#define environ (*_NSGetEnviron())
#define MI_OS_HAS_ENVIRON (environ != NULL)
#else
extern char** environ;
#define MI_OS_HAS_ENVIRON (environ != NULL)
#endif

static uint64_t mi_os_clock_us(clockid_t clock) {
  struct timespec t = {0};
  const int saved_errno = errno;
  if (clock_gettime(clock, &t) != 0) clock_gettime(MI_OS_CLOCK, &t);
  errno = saved_errno;
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

MI_INTERNAL uint64_t mi_os_now_ms(void) { return mi_os_clock_us(MI_OS_CLOCK_CHEAP) / 1000; }

MI_INTERNAL uint64_t mi_os_now_us(void) { return mi_os_clock_us(MI_OS_CLOCK); }

MI_INTERNAL const char* mi_os_environment(const char* name) {
  if (!MI_OS_HAS_ENVIRON) return NULL;
  const size_t length = mi_text_length(name);
  for (size_t i = 0; i < 10000 && environ[i] != NULL; i++) {
    if (mi_text_equal_nocase(environ[i], name, length) && environ[i][length] == '=') {
      return &environ[i][length + 1];
    }
  }
  return NULL;
}

MI_INTERNAL mi_os_environment_t mi_os_environment_look(const char* prefix) {
  if (!MI_OS_HAS_ENVIRON) return MI_OS_ENVIRONMENT_UNKNOWN;
  const size_t length = mi_text_length(prefix);
  for (size_t i = 0; i < 10000 && environ[i] != NULL; i++) {
    if (mi_text_equal_nocase(environ[i], prefix, length)) return MI_OS_ENVIRONMENT_WITH;
  }
  return MI_OS_ENVIRONMENT_WITHOUT;
}

MI_INTERNAL int mi_os_environment_wide(const wchar_t* name, wchar_t* value, size_t* size) {
  (void)name, (void)value;
  *size = 0;
  return ENOSYS;
}

MI_INTERNAL void mi_os_write_error(const char* text, size_t length) {
  mi_os_file_write(STDERR_FILENO, text, length);
}

MI_INTERNAL _Noreturn void mi_os_abort(const char* text) {
  mi_os_write_error(text, mi_text_length(text));
  abort();
}

// -- For dumps: files --

MI_INTERNAL int mi_os_file_create(const char* path, int* file) {
  const int saved_errno = errno;
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY;
  const int fd = mi_os_call_open(path, flags, 0644);
  const int err = fd < 0 ? errno : 0;
  errno = saved_errno;
  *file = fd;
  return err;
}

MI_INTERNAL int mi_os_file_write(int file, const void* bytes, size_t size) {
  const int saved_errno = errno;
  const char* at = (const char*)bytes;
  int err = 0;
  while (size > 0 && err == 0) {
    const ptrdiff_t written = mi_os_call_write(file, at, size);
    if (written > 0) {
      at += written;
      size -= (size_t)written;
    } else if (written == 0 || errno != EINTR) {
      err = written == 0 ? ENOSPC : errno;
    }
  }
  errno = saved_errno;
  return err;
}

MI_INTERNAL int mi_os_file_close(int file) {
  const int saved_errno = errno;
  const int err = mi_os_call_close(file) != 0 ? errno : 0;
  errno = saved_errno;
  return err;
}
