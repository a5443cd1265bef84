// SPDX-License-Identifier: MIT
// consumer.cpp - a C++ program of a user: every form of new and delete its language version has,
// and what happens without memory. It uses nothing else of the C++ library: linked statically, it
// gets no more.
//
// CONSUMER_NEW_DELETE: new and delete are ours through mimalloc-new-delete.h, malloc is not.
#include <new>

#include <mimalloc.h>
#if defined(CONSUMER_NEW_DELETE)
#include <mimalloc-new-delete.h>
#endif
#include <stdio.h>
#include <stdlib.h>

#include "../../lib/check.h"

template <class T> static T* ours(T* p) {
  T* volatile hidden = p;
  CHECK(mi_usable_size(hidden) > 0);
  return hidden;
}

static void forms() {
  delete ours(new int);
  delete[] ours(new int[10]);
  delete ours(new (std::nothrow) int);
  delete[] ours(new (std::nothrow) int[10]);
  ::operator delete(ours(::operator new(10, std::nothrow)), std::nothrow);
  ::operator delete[](ours(::operator new[](10, std::nothrow)), std::nothrow);
#if defined(__cpp_sized_deallocation)
  ::operator delete(ours(::operator new(10)), std::size_t(10));
  ::operator delete[](ours(::operator new[](10)), std::size_t(10));
#endif
#if defined(__cpp_aligned_new)
  struct alignas(256) wide {
    char data[300];
  };
  wide* const p = ours(new wide);
  CHECK(reinterpret_cast<std::size_t>(p) % 256 == 0);
  delete p;
  delete[] ours(new wide[3]);
  delete ours(new (std::nothrow) wide);
  delete[] ours(new (std::nothrow) wide[3]);
  const std::align_val_t a = std::align_val_t(64);
  ::operator delete(ours(::operator new(10, a)), a);
  ::operator delete[](ours(::operator new[](10, a)), a);
  ::operator delete(ours(::operator new(10, a)), std::size_t(10), a);
  ::operator delete[](ours(::operator new[](10, a)), std::size_t(10), a);
  ::operator delete(ours(::operator new(10, a, std::nothrow)), a, std::nothrow);
  ::operator delete[](ours(::operator new[](10, a, std::nothrow)), a, std::nothrow);
#endif
}

static int handler_calls = 0;

static void handler() {
  if (++handler_calls == 3) std::set_new_handler(NULL);
}

static void throws() { throw std::bad_alloc(); }

// What the forms that do not throw return while the new-handler does.
static void handler_throws(std::size_t huge) {
  std::set_new_handler(&throws);
  CHECK(new (std::nothrow) char[huge] == NULL);
  CHECK(::operator new(huge, std::nothrow) == NULL);
#if defined(__cpp_aligned_new)
  const std::align_val_t a = std::align_val_t(64);
  CHECK(::operator new(huge, a, std::nothrow) == NULL);
  CHECK(::operator new[](huge, a, std::nothrow) == NULL);
#endif
  std::set_new_handler(NULL);
}

static void no_memory() {
  volatile std::size_t huge = static_cast<std::size_t>(-1) / 4;
  bool is_caught = false;
  std::set_new_handler(&handler);
  try {
    ours(new char[huge]);
  } catch (const std::bad_alloc&) {
    is_caught = true;
  }
  CHECK(is_caught);
  CHECK(handler_calls == 3);
  CHECK(new (std::nothrow) char[huge] == NULL);
  handler_throws(huge);
}

int main() {
  forms();
  no_memory();
#if !defined(CONSUMER_NEW_DELETE)
  free(ours(static_cast<char*>(malloc(10))));
#endif
  return 0;
}
