// SPDX-License-Identifier: MIT
// cxx_new.cpp - C++ programs on this allocator: every form of new and delete, handlers,
// exceptions, containers.
//
// If this fails, C++ programs crash, leak, or do not notice that memory ran out.
#include <mimalloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

static std::size_t opaque(std::size_t x) {
  volatile std::size_t hidden = x;
  return hidden;
}

static bool is_ours(const void* p, std::size_t size) {
  return p != nullptr && mi_usable_size(p) >= size;
}

static void all_forms() {
  const std::align_val_t wide{256};
  for (std::size_t size = 1; size < 200000; size = size * 3 + 1) {
    void* p = ::operator new(size);
    CHECK(is_ours(p, size));
    ::operator delete(p);
    p = ::operator new[](size);
    CHECK(is_ours(p, size));
    ::operator delete[](p);
    p = ::operator new(size, std::nothrow);
    CHECK(is_ours(p, size));
    ::operator delete(p, std::nothrow);
    p = ::operator new[](size, std::nothrow);
    CHECK(is_ours(p, size));
    ::operator delete[](p, std::nothrow);
    p = ::operator new(size);
    ::operator delete(p, size);
    p = ::operator new[](size);
    ::operator delete[](p, size);
    p = ::operator new(size, wide);
    CHECK(is_ours(p, size) && reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    ::operator delete(p, wide);
    p = ::operator new[](size, wide);
    CHECK(is_ours(p, size) && reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    ::operator delete[](p, wide);
    p = ::operator new(size, wide, std::nothrow);
    CHECK(is_ours(p, size) && reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    ::operator delete(p, wide, std::nothrow);
    p = ::operator new[](size, wide, std::nothrow);
    CHECK(is_ours(p, size) && reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
    ::operator delete[](p, wide, std::nothrow);
    p = ::operator new(size, wide);
    ::operator delete(p, size, wide);
    p = ::operator new[](size, wide);
    ::operator delete[](p, size, wide);
  }
  ::operator delete(nullptr);
  ::operator delete[](nullptr);
}

template <typename F> static bool throws_bad_alloc(F f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

static void no_memory_throws() {
  const std::size_t huge = opaque(SIZE_MAX / 2);
  CHECK(throws_bad_alloc([&] { ::operator delete(::operator new(huge)); }));
  CHECK(throws_bad_alloc([&] { ::operator delete[](::operator new[](huge)); }));
  CHECK(throws_bad_alloc([&] {
    ::operator delete (::operator new (huge, std::align_val_t{64}), std::align_val_t{64});
  }));
  CHECK(throws_bad_alloc([&] { mi_free(mi_new(huge)); }));
  CHECK(throws_bad_alloc([&] { mi_free(mi_new_n(huge, 16)); }));
  CHECK(throws_bad_alloc([&] { mi_free(mi_new_aligned(100, opaque(24))); }));
  CHECK(throws_bad_alloc([&] {
    std::vector<char> v;
    v.reserve(opaque(PTRDIFF_MAX) - 1);
  }));
  CHECK(::operator new(huge, std::nothrow) == nullptr);
  CHECK(::operator new[](huge, std::nothrow) == nullptr);
  CHECK(::operator new (huge, std::align_val_t{64}, std::nothrow) == nullptr);
}

static int handler_calls = 0;

static void give_up_at_three() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

struct handler_error {};

static void throw_something() { throw handler_error(); }

static void handlers_are_called() {
  const std::size_t huge = opaque(SIZE_MAX / 2);
  std::set_new_handler(&give_up_at_three);
  handler_calls = 0;
  CHECK(throws_bad_alloc([&] { ::operator delete(::operator new(huge)); }));
  CHECK(handler_calls == 3);
  std::set_new_handler(&give_up_at_three);
  handler_calls = 0;
  CHECK(::operator new(huge, std::nothrow) == nullptr);
  CHECK(handler_calls == 3);
  std::set_new_handler(&give_up_at_three);
  handler_calls = 0;
  CHECK(mi_new_n(huge, 16) == nullptr); // the product overflows: the handler runs once
  CHECK(handler_calls == 1);
  std::set_new_handler(&throw_something);
  bool is_caught = false;
  try {
    ::operator delete(::operator new(huge));
  } catch (const handler_error&) {
    is_caught = true;
  }
  CHECK(is_caught);
  CHECK(::operator new(huge, std::nothrow) == nullptr);
  CHECK(::operator new[](huge, std::nothrow) == nullptr);
  CHECK(::operator new (huge, std::align_val_t{64}, std::nothrow) == nullptr);
  CHECK(::operator new[](huge, std::align_val_t{64}, std::nothrow) == nullptr);
  std::set_new_handler(nullptr);
}

struct alignas(128) wide_t {
  char data[200];
};

static void containers_work() {
  std::map<std::string, std::vector<int>> m;
  for (int i = 0; i < 20000; i++) m["key " + std::to_string(i % 1000)].push_back(i);
  CHECK(m.size() == 1000);
  for (const auto& pair : m) CHECK(pair.second.size() == 20);
  std::vector<wide_t> wide(100);
  CHECK(reinterpret_cast<std::uintptr_t>(wide.data()) % 128 == 0);
  std::thread other([&m] { m.clear(); });
  other.join();
  std::string s;
  for (int i = 0; i < 100000; i++) s += "ab";
  CHECK(s.size() == 200000);
}

int main() {
  void* const p = ::operator new(10);
  const bool is_ours = ::is_ours(p, 10);
  ::operator delete(p);
  if (!is_ours) {
    std::printf("this build does not replace operator new\n");
    return 0;
  }
  all_forms();
  no_memory_throws();
  handlers_are_called();
  containers_work();
  return 0;
}
