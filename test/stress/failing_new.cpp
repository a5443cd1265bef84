// SPDX-License-Identifier: MIT
// failing_new.cpp - operator new and its relatives while the system refuses calls of the library
// (sweep.h): std::bad_alloc, or what the new-handler does; NULL from the forms that do not throw.
#include "sweep.h"

#include <new>

namespace {

constexpr size_t kAlignment = 256;
const size_t sizes[] = {100, 20000, 600 * SWEEP_KIB};

size_t handled; // calls of the new-handler

// A handler that finds no memory takes itself out: the next failure throws.
void on_new() {
  handled++;
  std::set_new_handler(nullptr);
}

// What `get` returns is kept; what it throws is std::bad_alloc, after the handler was called.
template <class Get> void get(const char* what, size_t size, Get get_block) {
  handled = 0;
  std::set_new_handler(&on_new);
  sweep_begin();
  void* p = nullptr;
  bool is_thrown = false;
  try {
    p = get_block(size);
  } catch (const std::bad_alloc&) {
    is_thrown = true;
    CHECK_SAY(sweep_told > 0, "%s: the error function was not told", what);
  }
  CHECK_SAY(is_thrown == (p == nullptr), "%s: %p", what, p);
  CHECK_SAY(!is_thrown || handled == 1, "%s: the handler was called %zu times", what, handled);
  sweep_keep(p, size);
}

// The same for forms that return NULL.
template <class Get> void get_nothrow(const char* what, size_t size, Get get_block) {
  handled = 0;
  std::set_new_handler(&on_new);
  sweep_begin();
  void* const p = sweep_result(what, get_block(size), size);
  CHECK_SAY(p != nullptr || handled == 1, "%s: the handler was called %zu times", what, handled);
  sweep_keep(p, size);
}

// Grows a block of half the size; when that throws the old one is still there.
template <class Resize> void resize(const char* what, size_t size, Resize resize_block) {
  void* p = mi_malloc(size / 2);
  if (p != nullptr) memset(p, 7, size / 2);
  void* now = nullptr;
  get(what, size, [&](size_t wanted) { return now = resize_block(p, wanted); });
  if (now != nullptr || p == nullptr) return;
  const unsigned char* const s = static_cast<unsigned char*>(p);
  CHECK_SAY(s[0] == 7 && s[size / 2 - 1] == 7, "%s: the old block is lost", what);
  mi_free(p);
}

#define NEW(size, call) get(#call, size, [&](size_t n) -> void* { return call; })
#define NEW_NOTHROW(size, call) get_nothrow(#call, size, [&](size_t n) -> void* { return call; })
#define RENEW(size, call) resize(#call, size, [&](void* p, size_t n) -> void* { return call; })

void operators() {
  const std::align_val_t a{kAlignment};
  const std::nothrow_t& tag = std::nothrow;
  for (const size_t size : sizes) {
    NEW(size, ::operator new(n));
    NEW(size, ::operator new[](n));
    NEW(size, ::operator new(n, a));
    NEW(size, ::operator new[](n, a));
    NEW_NOTHROW(size, ::operator new(n, tag));
    NEW_NOTHROW(size, ::operator new[](n, tag));
    NEW_NOTHROW(size, ::operator new(n, a, tag));
    NEW_NOTHROW(size, ::operator new[](n, a, tag));
  }
}

void deletes() {
  const std::align_val_t a{kAlignment};
  const std::nothrow_t& tag = std::nothrow;
  for (const size_t size : sizes) {
    void* p[12];
    for (void*& block : p) block = ::operator new(size, a, tag);
    ::operator delete(p[0]);
    ::operator delete[](p[1]);
    ::operator delete(p[2], size);
    ::operator delete[](p[3], size);
    ::operator delete(p[4], a);
    ::operator delete[](p[5], a);
    ::operator delete(p[6], size, a);
    ::operator delete[](p[7], size, a);
    ::operator delete(p[8], tag);
    ::operator delete[](p[9], tag);
    ::operator delete(p[10], a, tag);
    ::operator delete[](p[11], a, tag);
  }
}

void functions() {
  mi_heap_t* const heap = mi_heap_main();
  for (const size_t size : sizes) {
    NEW(size, mi_new(n));
    NEW(size, mi_new_n(n, 1));
    NEW(size, mi_new_aligned(n, kAlignment));
    NEW(size, mi_heap_alloc_new(heap, n));
    NEW(size, mi_heap_alloc_new_n(heap, n, 1));
    NEW_NOTHROW(size, mi_new_nothrow(n));
    NEW_NOTHROW(size, mi_new_aligned_nothrow(n, kAlignment));
    RENEW(size, mi_new_realloc(p, n));
    RENEW(size, mi_new_reallocn(p, n, 1));
  }
}

} // namespace

int main(int argc, char** argv) {
  static const sweep_scenario_t scenarios[] = {
      {"operators", &operators, SWEEP_SILENT, 0},
      {"deletes", &deletes, SWEEP_SILENT, 0},
      {"functions", &functions, SWEEP_SILENT, 0},
  };
  return sweep_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
