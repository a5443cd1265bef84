// SPDX-License-Identifier: MIT
// namespace_host.c - loads namespace_plugin.c with dlmopen into a namespace with a libc of its own,
// and has it call back into this one, where malloc is whatever is preloaded. Usage: namespace_host
// PLUGIN
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 512

typedef struct block_s {
  size_t size;
  unsigned char mark;
  unsigned char text[];
} block_t;

static _Atomic(block_t*) shared[SLOTS];

// Blocks of many sizes, each with its own content, exchanged with the other thread: wrong content
// ends it.
static int churn(unsigned seed) {
  for (int round = 0; round < 400000; round++) {
    seed = seed * 1664525 + 1013904223;
    block_t* p = malloc(sizeof(block_t) + (seed >> 20) % 900);
    p->size = (seed >> 20) % 900;
    p->mark = (unsigned char)seed;
    memset(p->text, p->mark, p->size);
    p = atomic_exchange(&shared[seed >> 8 & (SLOTS - 1)], p);
    for (size_t at = 0; p != NULL && at < p->size; at++) {
      if (p->text[at] != p->mark) return 1;
    }
    free(p);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  void* const plugin = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
  if (plugin == NULL) {
    puts(dlerror());
    return 1;
  }
  int (*with_thread)(int (*)(unsigned)) =
      (int (*)(int (*)(unsigned)))dlsym(plugin, "plugin_with_thread");
  const int wrong = with_thread(churn);
  puts(wrong == 0 ? "blocks are right" : "blocks were overwritten");
  return wrong;
}
