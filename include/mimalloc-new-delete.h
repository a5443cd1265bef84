// SPDX-License-Identifier: MIT
/// @file
/// The global `operator new` and `operator delete` of a C++ program, on this library.
///
/// Include it in exactly one C++ source file of a program that does not replace `malloc` as a
/// whole. All forms of the language version in use are defined: sized ones since C++14, aligned
/// ones since C++17. Without memory they do what `mi_new()` does; the forms with `std::nothrow`
/// return NULL where that throws, also if it is the new-handler that throws.
#pragma once
#ifndef MIMALLOC_NEW_DELETE_H
#define MIMALLOC_NEW_DELETE_H

#if defined(__cplusplus)
#include <new>

#include "mimalloc.h"

/// @addtogroup cxxnew
/// @{

/// @def mi_decl_new
/// The result is never NULL and has room for `n` bytes.
/// @def mi_decl_new_nothrow
/// The result is NULL or has room for `n` bytes.
#if defined(_MSC_VER) && defined(_Ret_notnull_) && defined(_Post_writable_byte_size_)
#define mi_decl_new(n) mi_decl_nodiscard mi_decl_restrict _Ret_notnull_ _Post_writable_byte_size_(n)
#define mi_decl_new_nothrow(n)                                                                     \
  mi_decl_nodiscard mi_decl_restrict _Ret_maybenull_ _Success_(return != NULL)                     \
      _Post_writable_byte_size_(n)
#else
#define mi_decl_new(n) mi_decl_nodiscard mi_decl_restrict
#define mi_decl_new_nothrow(n) mi_decl_nodiscard mi_decl_restrict
#endif

/// @}

/// @cond
// The operators are those of the C++ standard.

// Before C++11 a declaration of the standard header must be repeated with its exceptions.
#if __cplusplus >= 201103L || (defined(_MSC_VER) && _MSC_VER >= 1900)
#define mi_new_may_throw noexcept(false)
#else
#define mi_new_may_throw throw(std::bad_alloc)
#endif

// What the nothrow forms return when the first try failed. `mi_new_nothrow()` may not be what is
// called where exceptions can be caught: it is declared to throw nothing, so a compiler drops the
// handler around it. Without a new-handler nothing is thrown, because a static program that does
// not use std::bad_alloc lacks what it takes.
#if (defined(__cpp_exceptions) || defined(__EXCEPTIONS)) && !defined(_MSC_VER)
#define mi_new_can_catch
#if __cplusplus >= 201103L
#define mi_new_has_handler() (std::get_new_handler() != NULL)
#else
#define mi_new_has_handler() true
#endif
#endif

static inline void* mi_new_or_null(std::size_t n) mi_attr_noexcept {
#if defined(mi_new_can_catch)
  void* const p = mi_malloc(n);
  if (p != NULL || !mi_new_has_handler()) return p;
  try {
    return mi_new(n);
  } catch (...) {
    return NULL;
  }
#else
  return mi_new_nothrow(n);
#endif
}

mi_decl_new(n) void* operator new(std::size_t n) mi_new_may_throw { return mi_new(n); }
mi_decl_new(n) void* operator new[](std::size_t n) mi_new_may_throw { return mi_new(n); }
#undef mi_new_may_throw
mi_decl_new_nothrow(n) void* operator new(std::size_t n, const std::nothrow_t&) mi_attr_noexcept {
  return mi_new_or_null(n);
}
mi_decl_new_nothrow(n) void* operator new[](std::size_t n, const std::nothrow_t&) mi_attr_noexcept {
  return mi_new_or_null(n);
}

void operator delete(void* p) mi_attr_noexcept { mi_free(p); }
void operator delete[](void* p) mi_attr_noexcept { mi_free(p); }
void operator delete(void* p, const std::nothrow_t&) mi_attr_noexcept { mi_free(p); }
void operator delete[](void* p, const std::nothrow_t&) mi_attr_noexcept { mi_free(p); }

#if __cplusplus >= 201402L || (defined(_MSC_VER) && _MSC_VER >= 1916)
void operator delete(void* p, std::size_t n) noexcept { mi_free_size(p, n); }
void operator delete[](void* p, std::size_t n) noexcept { mi_free_size(p, n); }
#endif

#if defined(__cpp_aligned_new) || __cplusplus > 201402L
static inline void* mi_new_aligned_or_null(std::size_t n, std::align_val_t a) noexcept {
  const std::size_t alignment = static_cast<std::size_t>(a);
#if defined(mi_new_can_catch)
  void* const p = mi_malloc_aligned(n, alignment);
  if (p != NULL || !mi_new_has_handler()) return p;
  try {
    return mi_new_aligned(n, alignment);
  } catch (...) {
    return NULL;
  }
#else
  return mi_new_aligned_nothrow(n, alignment);
#endif
}

mi_decl_new(n) void* operator new(std::size_t n, std::align_val_t a) noexcept(false) {
  return mi_new_aligned(n, static_cast<std::size_t>(a));
}
mi_decl_new(n) void* operator new[](std::size_t n, std::align_val_t a) noexcept(false) {
  return mi_new_aligned(n, static_cast<std::size_t>(a));
}
mi_decl_new_nothrow(n) void* operator new(std::size_t n, std::align_val_t a,
                                          const std::nothrow_t&) noexcept {
  return mi_new_aligned_or_null(n, a);
}
mi_decl_new_nothrow(n) void* operator new[](std::size_t n, std::align_val_t a,
                                            const std::nothrow_t&) noexcept {
  return mi_new_aligned_or_null(n, a);
}

void operator delete(void* p, std::align_val_t a) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
void operator delete[](void* p, std::align_val_t a) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
void operator delete(void* p, std::size_t n, std::align_val_t a) noexcept {
  mi_free_size_aligned(p, n, static_cast<std::size_t>(a));
}
void operator delete[](void* p, std::size_t n, std::align_val_t a) noexcept {
  mi_free_size_aligned(p, n, static_cast<std::size_t>(a));
}
void operator delete(void* p, std::align_val_t a, const std::nothrow_t&) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
void operator delete[](void* p, std::align_val_t a, const std::nothrow_t&) noexcept {
  mi_free_aligned(p, static_cast<std::size_t>(a));
}
#endif

#undef mi_new_can_catch
#undef mi_new_has_handler
/// @endcond

#endif
#endif
