// SPDX-License-Identifier: MIT
// plugin.cpp - what host.c loads: allocates and frees on its own, frees what the host allocated,
// and hands out what the host frees. With RTLD_DEEPBIND its calls reach libc before anything
// preloaded.
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

extern "C" char* plugin_answer(const char* question) {
  return strdup((std::string(question) + ": answered").c_str());
}

extern "C" void plugin_free(void* p) { free(p); }

extern "C" void* plugin_grow(void* p, size_t size) { return realloc(p, size); }

extern "C" size_t plugin_work(int rounds) {
  std::map<std::string, std::vector<std::unique_ptr<std::string>>> all;
  for (int i = 0; i < rounds; i++) {
    all[std::to_string(i % 97)].push_back(std::make_unique<std::string>(i % 300, 'x'));
  }
  size_t sum = 0;
  for (const auto& [key, values] : all) {
    for (const auto& value : values) sum += value->size() + key.size();
  }
  char* text = nullptr;
  if (asprintf(&text, "%zu", sum) < 0) return 0;
  free(text);
  return sum;
}
