// SPDX-License-Identifier: MIT
// namespace_plugin.c - lives in a linker namespace of its own: a thread made here is unknown to the
// libc of the program. It does `work` while the caller's thread does the same; of its own, it
// allocates from its own libc.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void* run(void* work) {
  char* const mine = strdup("of this namespace");
  const long wrong = ((int (*)(unsigned))work)(1);
  free(mine);
  return (void*)wrong;
}

int plugin_with_thread(int (*work)(unsigned)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, (void*)work) != 0) return 2;
  const int wrong = work(2);
  void* others = NULL;
  pthread_join(thread, &others);
  return wrong != 0 || others != NULL;
}
