// SPDX-License-Identifier: MIT
// api_new.c - implements in C what `operator new` of C++ promises: new-handlers, and an exception
// if there is none.
//
// Both come from the C++ library of the process, through weak references, or by name: on Windows
// (os_windows_cxx.c), and where it was loaded after us (os_linux_cxx.c). A process without a C++
// library has no handler and cannot throw, and is aborted instead. (So is a statically linked
// program that does not use std::bad_alloc: then the linker leaves the class out.) This file is
// compiled with unwind tables (-fexceptions), so that exceptions of a handler pass through.
//
// API_NEW-1  the handler is called for an impossible size as for any other failure (it may throw),
//     but not for an invalid alignment, or a handler that only frees memory would be called for
//     ever.
//
// Deliberately absent: catching. An exception of a handler passes through the nothrow forms, too;
// those of `operator new` catch it (override_new.c, mimalloc-new-delete.h).
#include <errno.h>

#include "api.h"

typedef void (*mi_new_handler_t)(void);

// std::get_new_handler().
extern mi_new_handler_t _ZSt15get_new_handlerv(void) mi_attr_weak;

// The parts of `throw std::bad_alloc()` in the Itanium C++ ABI: an object that holds only a pointer
// to its virtual table (which starts two words into the symbol), and its type. A program that
// catches the class contains these; the library function that throws it is missing in many
// statically linked programs.
extern void* __cxa_allocate_exception(size_t size) mi_attr_weak;
extern void __cxa_throw(void* exception, void* type, void (*destroy)(void*)) mi_attr_weak;
extern void* _ZTVSt9bad_alloc[] mi_attr_weak;
extern char _ZTISt9bad_alloc[] mi_attr_weak;
mi_weak_data(_ZTVSt9bad_alloc);
mi_weak_data(_ZTISt9bad_alloc);

MI_INTERNAL mi_attr_cold void mi_new_throw(void) {
  mi_output_error(ENOMEM, "out of memory in 'new'");
  errno = ENOMEM;
  __typeof__(&__cxa_allocate_exception) const make =
      (__typeof__(make))mi_weak_address(__cxa_allocate_exception);
  __typeof__(&__cxa_throw) const raise = (__typeof__(raise))mi_weak_address(__cxa_throw);
  void** const table = (void**)mi_weak_address(_ZTVSt9bad_alloc);
  if (make != NULL && raise != NULL && table != NULL) {
    void** const exception = (void**)make(sizeof(void*));
    *exception = &table[2];
    raise(exception, mi_weak_address(_ZTISt9bad_alloc), NULL); // nothing to destroy
  }
  mi_os_cxx_throw();
  mi_os_abort("mimalloc: error: out of memory in 'new', and no C++ library to throw\n");
}

MI_INTERNAL bool mi_new_call_handler(size_t size) {
  __typeof__(&_ZSt15get_new_handlerv) const get =
      (__typeof__(get))mi_weak_address(_ZSt15get_new_handlerv);
  const mi_new_handler_t handler = get == NULL ? NULL : get();
  // On Windows a C library has a handler, too.
  if (handler == NULL) return (get == NULL || MI_IS_WINDOWS) && mi_os_cxx_call_handler(size);
  handler();
  return true;
}

// -- The slow halves, after the first try failed. Alignment 0 means that of malloc --

MI_INTERNAL mi_attr_cold void* mi_new_retry(size_t size, size_t alignment) {
  while (mi_new_call_handler(size)) {
    void* const p =
        alignment == 0 ? mi_malloc(size)
                       : mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
    if (p != NULL) return p;
  }
  return NULL;
}

static mi_attr_cold void* mi_new_retry_or_throw(size_t size, size_t alignment) {
  void* const p = mi_new_retry(size, alignment);
  if (p == NULL) mi_new_throw();
  return p;
}

static mi_attr_cold void* mi_new_overflow(void) {
  mi_api_overflow("new");
  if (!mi_new_call_handler(SIZE_MAX)) mi_new_throw();
  return NULL;
}

// -- Public functions --

void* mi_new(size_t size) {
  void* const p = mi_malloc(size);
  return p != NULL ? p : mi_new_retry_or_throw(size, 0);
}

void* mi_new_nothrow(size_t size) mi_attr_noexcept {
  void* const p = mi_malloc(size);
  return p != NULL ? p : mi_new_retry(size, 0);
}

void* mi_new_aligned(size_t size, size_t alignment) {
  if (!mi_bits_is_power_of_two(alignment)) {
    mi_api_bad_alignment("new", alignment);
    mi_new_throw();
  }
  void* const p = mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
  return p != NULL ? p : mi_new_retry_or_throw(size, alignment);
}

void* mi_new_aligned_nothrow(size_t size, size_t alignment) mi_attr_noexcept {
  if (!mi_bits_is_power_of_two(alignment)) return mi_api_bad_alignment("new", alignment);
  void* const p = mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
  return p != NULL ? p : mi_new_retry(size, alignment);
}

void* mi_new_n(size_t count, size_t size) {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_new_overflow();
  return mi_new(total);
}

void* mi_new_realloc(void* p, size_t newsize) {
  for (;;) {
    void* const q = mi_realloc(p, newsize);
    if (q != NULL) return q;
    if (!mi_new_call_handler(newsize)) mi_new_throw();
  }
}

void* mi_new_reallocn(void* p, size_t newcount, size_t size) {
  size_t total;
  if (mi_bits_mul_overflows(newcount, size, &total)) return mi_new_overflow();
  return mi_new_realloc(p, total);
}

// -- With a heap --

// The handler may have made room for the theap, too.
void* mi_heap_alloc_new(mi_heap_t* heap, size_t size) {
  for (;;) {
    void* const p = mi_heap_malloc(heap, size);
    if (p != NULL) return p;
    if (!mi_new_call_handler(size)) mi_new_throw();
  }
}

void* mi_heap_alloc_new_n(mi_heap_t* heap, size_t count, size_t size) {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_new_overflow();
  return mi_heap_alloc_new(heap, total);
}
