// SPDX-License-Identifier: MIT
// header_new.cpp - replaces operator new(size_t) and operator delete(void*) alone, with a header in
// front of each block, as the standard allows: every other form must end in these two.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

static unsigned long live;

void* operator new(std::size_t size) {
  auto* p = static_cast<std::size_t*>(std::malloc(size + 16));
  if (p == nullptr) throw std::bad_alloc();
  p[0] = 0x1234567;
  live++;
  return p + 2;
}

void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  auto* const block = static_cast<std::size_t*>(p) - 2;
  if (block[0] != 0x1234567) {
    std::puts("a block without our header");
    std::fflush(stdout);
    std::_Exit(1);
  }
  block[0] = 0;
  live--;
  std::free(block);
}

struct Sized {
  char text[200];
  ~Sized() { text[0] = 0; }
};

int main() {
  {
    std::vector<std::string> words;
    for (int i = 0; i < 10000; i++) words.emplace_back(static_cast<std::size_t>(i % 100), 'x');
    for (int i = 0; i < 1000; i++) {
      delete new Sized;     // sized delete
      delete[] new Sized[3]; // array forms
      delete new (std::nothrow) Sized;
      auto shared = std::make_shared<std::string>(100, 'y');
    }
  }
  std::printf("%lu live\n", live);
  return live == 0 ? 0 : 1;
}
