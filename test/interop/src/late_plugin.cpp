// SPDX-License-Identifier: MIT
// late_plugin.cpp - a plug-in in C++ of a program in C: the C++ library comes into the process with
// it, after ours.
#include <cstdint>
#include <new>
#include <vector>

static int handled;

static void handle() {
  handled++;
  std::set_new_handler(nullptr);
}

// Returns 0 if a request that is too large throws, or finds the handler.
extern "C" int plugin(int mode) {
  const volatile std::size_t size = SIZE_MAX / 4;
  if (mode == 0) {
    try {
      char* volatile const p = new char[size];
      delete[] p;
    } catch (const std::bad_alloc&) {
      return 0;
    }
  } else if (mode == 1) {
    try {
      std::vector<char> v(size);
      return v.data() == nullptr;
    } catch (const std::exception&) {
      return 0;
    }
  } else {
    std::set_new_handler(&handle);
    void* const p = operator new(size, std::nothrow);
    return p == nullptr && handled == 1 ? 0 : 3;
  }
  return 1;
}
