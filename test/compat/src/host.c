// SPDX-License-Identifier: MIT
// host.c - a program that loads plugin.cpp with RTLD_DEEPBIND, as PHP loads its extensions, and
// shares blocks with it in both directions. Usage: host PLUGIN COUNT
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (plugin == NULL) {
    puts(dlerror());
    return 1;
  }
  char* (*answer)(const char*) = (char* (*)(const char*))dlsym(plugin, "plugin_answer");
  void (*release)(void*) = (void (*)(void*))dlsym(plugin, "plugin_free");
  void* (*grow)(void*, size_t) = (void* (*)(void*, size_t))dlsym(plugin, "plugin_grow");
  size_t (*work)(int) = (size_t(*)(int))dlsym(plugin, "plugin_work");
  for (int i = 0; i < atoi(argv[2]); i++) {
    char* text = answer("who");
    if (i == 0) puts(text);
    text = realloc(text, 100 + (size_t)i * 37);
    if (strcmp(text, "who: answered") != 0) return 3;
    free(text);
    char* mine = malloc((size_t)i * 13 + 1);
    mine[0] = 'm';
    mine = grow(mine, (size_t)i * 50 + 10);
    if (mine[0] != 'm') return 4;
    release(mine);
    release(strdup("of the host"));
  }
  printf("%zu\n", work(20000));
  return dlclose(plugin);
}
