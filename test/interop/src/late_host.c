// SPDX-License-Identifier: MIT
// late_host.c - a program in C that loads a plug-in in C++: late_host FILE MODE global|local.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc != 4) return 10;
  const int scope = strcmp(argv[3], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
  void* const plugin = dlopen(argv[1], RTLD_NOW | scope);
  if (plugin == NULL) {
    puts(dlerror());
    return 11;
  }
  int (*call)(int mode);
  *(void**)&call = dlsym(plugin, "plugin");
  return call(atoi(argv[2]));
}
