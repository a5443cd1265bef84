// SPDX-License-Identifier: MIT
// os_cancel.c - files for os_libc.c and os_posix.c, where the functions of libc are cancellation
// points and no others can be had: cancellation is off meanwhile (OS_POSIX-3).
//
// Deliberately absent: system calls by number, which os_linux.c makes.
#include "os_posix.h"

static int mi_os_cancel_off(void) {
  int state = PTHREAD_CANCEL_ENABLE;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  return state;
}

static void mi_os_cancel_restore(int state) {
  const int saved_errno = errno;
  pthread_setcancelstate(state, NULL);
  errno = saved_errno;
}

static int mi_os_call_open(const char* path, int flags, int mode) {
  const int state = mi_os_cancel_off();
  const int file = open(path, flags, mode);
  mi_os_cancel_restore(state);
  return file;
}

static mi_attr_unused ptrdiff_t mi_os_call_read(int file, void* bytes, size_t size) {
  const int state = mi_os_cancel_off();
  const ssize_t done = read(file, bytes, size);
  mi_os_cancel_restore(state);
  return done;
}

static ptrdiff_t mi_os_call_write(int file, const void* bytes, size_t size) {
  const int state = mi_os_cancel_off();
  const ssize_t done = write(file, bytes, size);
  mi_os_cancel_restore(state);
  return done;
}

static int mi_os_call_close(int file) {
  const int state = mi_os_cancel_off();
  const int rc = close(file);
  mi_os_cancel_restore(state);
  return rc;
}
