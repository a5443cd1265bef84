// SPDX-License-Identifier: MIT
// plugin.cpp - a shared library that contains the allocator, for dlopen_host.c. What it has in
// objects of static lifetime goes when it is unloaded, and must still be there then.
#include <mimalloc.h>

#include <stdlib.h>

#include <vector>

static std::vector<int, mi_stl_allocator<int>> numbers(1000, 42);

struct checker {
  ~checker() {
    if (numbers[999] != 42 || mi_usable_size(&numbers[0]) == 0) abort();
  }
};
static checker at_the_end;

extern "C" __attribute__((visibility("default"))) void* plugin_malloc(std::size_t size) {
  return mi_malloc(size);
}
extern "C" __attribute__((visibility("default"))) void plugin_free(void* p) { mi_free(p); }
