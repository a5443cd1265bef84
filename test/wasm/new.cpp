// new.cpp - operator new and delete of C++: blocks are ours, and a program without memory learns it.
#include <new>
#include <string>
#include <vector>

#include "programs.h"

struct alignas(256) wide {
  char bytes[300];
};

int main() {
  auto* const one = new int(7);
  auto* const many = new wide[3];
  CHECK(IS_OURS(one) && IS_OURS(many) && (uintptr_t)many % 256 == 0);
  delete one;
  delete[] many;
  std::vector<std::string> names;
  for (int i = 0; i < 10000; i++) names.push_back(std::string(100, (char)i));
  CHECK(IS_OURS(names.data()) && IS_OURS(names[77].data()) && names[77] == std::string(100, 77));
  volatile size_t impossible = (size_t)PTRDIFF_MAX - 100;
  void* volatile none = new (std::nothrow) char[impossible];
  CHECK(none == nullptr);
  bool is_caught = false;
  try {
    none = new char[impossible];
  } catch (const std::bad_alloc&) {
    is_caught = true;
  }
  CHECK(is_caught);
  show("new", 1);
  return 0;
}
