// SPDX-License-Identifier: MIT
// calls.c - the functions that a program calls: each is passed on to the allocator that comes
// next, and recorded.
//
// CALLS-1  a call returns what the next allocator returned, with the errno that it left.
// CALLS-2  `operator new` is recorded as malloc (with an alignment as aligned_alloc), `delete` as
//     free. They are here because an allocator may have its own, which calls no malloc by name;
//     what the next one calls by name meanwhile is a part of the same call (WRITER-1), and an
//     exception that it throws passes through.
// CALLS-3  before the next allocator is known, calls are served by nextalloc.c; such a block may
//     come back at any time.
//
// Deliberately absent: malloc_usable_size and all other functions that neither allocate nor free.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/bits.h"
#include "nextalloc.h"
#include "writer.h"

#define MI_CALLS_EXPORT __attribute__((visibility("default")))

#undef reallocarray // a macro in some headers
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

// -- What is not recorded --

static bool mi_calls_are_early(void) { return mi_nextalloc.malloc == NULL; }

static mi_attr_noinline void* mi_calls_pass_malloc(size_t size) {
  return mi_calls_are_early() ? mi_nextalloc_early(size) : mi_nextalloc.malloc(size);
}

static mi_attr_noinline void* mi_calls_pass_calloc(size_t count, size_t size) {
  if (!mi_calls_are_early()) return mi_nextalloc.calloc(count, size);
  size_t total;
  return mi_bits_mul_overflows(count, size, &total) ? NULL : mi_nextalloc_early(total);
}

static mi_attr_noinline void* mi_calls_pass_realloc(void* p, size_t size) {
  size_t before = 0;
  if (mi_likely(!mi_nextalloc_is_early(p, &before))) {
    return mi_calls_are_early() ? mi_nextalloc_early(size) : mi_nextalloc.realloc(p, size);
  }
  void* const q = mi_calls_pass_malloc(size);
  if (q != NULL) memcpy(q, p, mi_bits_min(before, size));
  return q;
}

static mi_attr_noinline void mi_calls_pass_free(void* p) {
  size_t size;
  if (mi_nextalloc_is_early(p, &size) || mi_calls_are_early()) return;
  mi_nextalloc.free(p);
}

static void* mi_calls_pass_aligned(size_t alignment, size_t size) {
  return mi_calls_are_early() ? NULL : mi_nextalloc.aligned_alloc(alignment, size);
}

// -- Those that most calls are of --

static mi_attr_inline void mi_calls_record_malloc(mi_writer_t* w, void* p, size_t size) {
  uint8_t* at = mi_writer_record(w);
  if (mi_unlikely(at == NULL)) return;
  if (mi_unlikely(p == NULL)) *at++ = MI_FORMAT_FAILED;
  w->at = mi_writer_put_malloc(w, at, size);
  if (mi_likely(p != NULL)) mi_writer_enter(w, p);
}

MI_CALLS_EXPORT void* malloc(size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_pass_malloc(size);
  void* const p = mi_nextalloc.malloc(size);
  mi_calls_record_malloc(w, p, size);
  mi_writer_end(w);
  return p;
}

// Record a free of `p`, before it happens (WRITER-2). Returns false if the block is an early one.
static mi_attr_inline bool mi_calls_record_free(mi_writer_t* w, void* p) {
  const uint64_t name = p != NULL ? mi_writer_take(p) : 0;
  size_t size;
  if (mi_unlikely(name == 0) && p != NULL && mi_nextalloc_is_early(p, &size)) return false;
  uint8_t* at = mi_writer_record(w);
  if (mi_unlikely(at == NULL)) return true;
  if (mi_likely(name != 0)) {
    at = mi_writer_put_free(w, at, name);
  } else {
    *at++ = p == NULL ? MI_FORMAT_FREE_NULL : MI_FORMAT_FREE_UNKNOWN;
  }
  w->at = at;
  return true;
}

MI_CALLS_EXPORT void free(void* p) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) {
    mi_calls_pass_free(p);
    return;
  }
  if (mi_likely(mi_calls_record_free(w, p))) mi_nextalloc.free(p);
  mi_writer_end(w);
}

// -- Others that allocate --

// Write the record of a call that returned `p`: what was called, then one or two numbers.
static void mi_calls_record(mi_writer_t* w, void* p, uint8_t call, size_t first,
                            const size_t* second) {
  uint8_t* at = mi_writer_record(w);
  if (at == NULL) return;
  if (p == NULL) *at++ = MI_FORMAT_FAILED;
  *at++ = call;
  at = mi_format_put(at, first);
  if (second != NULL) at = mi_format_put(at, *second);
  w->at = at;
  if (p != NULL) mi_writer_enter(w, p);
}

MI_CALLS_EXPORT void* calloc(size_t count, size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_pass_calloc(count, size);
  void* const p = mi_nextalloc.calloc(count, size);
  mi_calls_record(w, p, MI_FORMAT_CALLOC, count, &size);
  mi_writer_end(w);
  return p;
}

MI_CALLS_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_pass_aligned(alignment, size);
  void* const p = mi_nextalloc.aligned_alloc(alignment, size);
  mi_calls_record(w, p, MI_FORMAT_ALIGNED_ALLOC, alignment, &size);
  mi_writer_end(w);
  return p;
}

static void* mi_calls_next_memalign(size_t alignment, size_t size) {
  if (mi_nextalloc.memalign == NULL) return mi_calls_pass_aligned(alignment, size);
  return mi_nextalloc.memalign(alignment, size);
}

MI_CALLS_EXPORT void* memalign(size_t alignment, size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_next_memalign(alignment, size);
  void* const p = mi_calls_next_memalign(alignment, size);
  mi_calls_record(w, p, MI_FORMAT_MEMALIGN, alignment, &size);
  mi_writer_end(w);
  return p;
}

MI_CALLS_EXPORT int posix_memalign(void** result, size_t alignment, size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) {
    return mi_calls_are_early() ? ENOMEM : mi_nextalloc.posix_memalign(result, alignment, size);
  }
  const int error = mi_nextalloc.posix_memalign(result, alignment, size);
  mi_calls_record(w, error == 0 ? *result : NULL, MI_FORMAT_POSIX_MEMALIGN, alignment, &size);
  mi_writer_end(w);
  return error;
}

static void* mi_calls_next_valloc(size_t size) {
  if (mi_nextalloc.valloc == NULL)
    return mi_calls_next_memalign((size_t)sysconf(_SC_PAGESIZE), size);
  return mi_nextalloc.valloc(size);
}

MI_CALLS_EXPORT void* valloc(size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_next_valloc(size);
  void* const p = mi_calls_next_valloc(size);
  mi_calls_record(w, p, MI_FORMAT_VALLOC, size, NULL);
  mi_writer_end(w);
  return p;
}

static void* mi_calls_next_pvalloc(size_t size) {
  if (mi_nextalloc.pvalloc != NULL) return mi_nextalloc.pvalloc(size);
  const size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
  if (size > SIZE_MAX - os_page) {
    errno = ENOMEM;
    return NULL;
  }
  return mi_calls_next_memalign(os_page, mi_bits_align_up(size, os_page));
}

MI_CALLS_EXPORT void* pvalloc(size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_next_pvalloc(size);
  void* const p = mi_calls_next_pvalloc(size);
  mi_calls_record(w, p, MI_FORMAT_PVALLOC, size, NULL);
  mi_writer_end(w);
  return p;
}

// -- realloc --

// Write the record of a realloc, and enter the block that there is now.
static void mi_calls_record_realloc(mi_writer_t* w, void* p, uint64_t name, void* q,
                                    const size_t* count, size_t size) {
  uint8_t* at = mi_writer_record(w);
  if (at != NULL) {
    if (q == NULL) *at++ = MI_FORMAT_FAILED;
    *at++ = count != NULL ? MI_FORMAT_REALLOCARRAY : MI_FORMAT_REALLOC;
    at = mi_writer_put_block(w, at, p, name);
    if (count != NULL) at = mi_format_put(at, *count);
    w->at = mi_format_put(at, size);
    if (q != NULL) mi_writer_enter(w, q);
  }
  // It failed, and the block is where it was: the word of its address exists.
  const bool is_freed = size == 0 || (count != NULL && *count == 0);
  if (q == NULL && name != 0 && !is_freed) mi_atomic_store_relaxed(mi_shadow_find(p), name);
}

static mi_attr_noinline void* mi_calls_realloc_early(mi_writer_t* w, void* p, size_t before,
                                                     size_t size) {
  void* const q = mi_nextalloc.malloc(size);
  if (q != NULL) memcpy(q, p, mi_bits_min(before, size));
  mi_calls_record_realloc(w, p, 0, q, NULL, size);
  return q;
}

MI_CALLS_EXPORT void* realloc(void* p, size_t size) {
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_pass_realloc(p, size);
  const uint64_t name = p != NULL ? mi_writer_take(p) : 0;
  size_t before;
  void* q;
  if (mi_unlikely(name == 0) && mi_nextalloc_is_early(p, &before)) {
    q = mi_calls_realloc_early(w, p, before, size);
  } else {
    q = mi_nextalloc.realloc(p, size);
    mi_calls_record_realloc(w, p, name, q, NULL, size);
  }
  mi_writer_end(w);
  return q;
}

// The next allocator's, or made of its realloc.
static void* mi_calls_next_reallocarray(void* p, size_t count, size_t size) {
  if (mi_nextalloc.reallocarray != NULL) return mi_nextalloc.reallocarray(p, count, size);
  size_t total;
  if (!mi_bits_mul_overflows(count, size, &total)) return mi_nextalloc.realloc(p, total);
  errno = ENOMEM;
  return NULL;
}

MI_CALLS_EXPORT void* reallocarray(void* p, size_t count, size_t size) {
  size_t total = 0, early;
  // No memory that early calls got is known to the function behind us.
  if (mi_nextalloc_is_early(p, &early))
    return mi_bits_mul_overflows(count, size, &total) ? NULL : realloc(p, total);
  mi_writer_t* const w = mi_writer_begin();
  if (mi_unlikely(w == NULL)) return mi_calls_next_reallocarray(p, count, size);
  const uint64_t name = p != NULL ? mi_writer_take(p) : 0;
  void* const q = mi_calls_next_reallocarray(p, count, size);
  mi_calls_record_realloc(w, p, name, q, &count, size);
  mi_writer_end(w);
  return q;
}

// -- C++ (cmake/trace.cmake says where it is left out) --

#if !defined(MI_TRACE_WITHOUT_CXX)

// The function behind ours. NULL if there is none; it is looked for once (twice, if two threads are
// the first; both find the same). Any thread writes and reads it, relaxed: it points to code.
typedef struct mi_calls_next_s {
  mi_atomic(void*) next_function;
} mi_calls_next_t;

static char mi_calls_none; // stands for "there is none"

static void* mi_calls_next(mi_calls_next_t* next, const char* name) {
  void* function = mi_atomic_load_relaxed(&next->next_function);
  if (mi_unlikely(function == NULL)) {
    function = mi_nextalloc_name(name);
    if (function == NULL) function = &mi_calls_none;
    mi_atomic_store_relaxed(&next->next_function, function);
  }
  return function != &mi_calls_none ? function : NULL;
}

// A call of `operator new` while it is passed on.
typedef struct mi_calls_new_s {
  mi_writer_t* w; // NULL: it is not recorded
  size_t size, alignment;
  void* p; // what it returned; NULL until then, and if an exception passes
} mi_calls_new_t;

static void mi_calls_record_new(mi_calls_new_t* call) {
  mi_writer_t* const w = call->w;
  if (mi_unlikely(w == NULL)) return;
  if (call->alignment != 0) {
    mi_calls_record(w, call->p, MI_FORMAT_ALIGNED_ALLOC, call->alignment, &call->size);
  } else {
    mi_calls_record_malloc(w, call->p, call->size);
  }
  mi_writer_end(w);
}

static void mi_calls_leave(mi_writer_t** w) {
  if (*w != NULL) mi_writer_end(*w);
}

// No C++ library is there that could throw.
static mi_attr_cold void mi_calls_no_memory(void) {
  static const char text[] =
      "mimalloc-trace: operator new has no memory, and the C++ library was not found\n";
  if (write(2, text, sizeof(text) - 1) < 0) {
  } // it ends anyway
  abort();
}

// The arguments of the forms are told apart by the functions that call this: `alignment` 0 is none,
// `nothrow` NULL is the form that throws. `next` takes those that there are, in this order.
static void* mi_calls_pass_new(void* next, size_t size, size_t alignment, const void* nothrow) {
  void* p;
  if (next == NULL) {
    const size_t least = size == 0 ? 1 : size; // NULL would mean failure
    p = alignment == 0 ? mi_calls_pass_malloc(least) : mi_calls_next_memalign(alignment, least);
    if (p == NULL && nothrow == NULL) mi_calls_no_memory();
  } else if (alignment != 0) {
    p = nothrow != NULL ? ((void* (*)(size_t, size_t, const void*))next)(size, alignment, nothrow)
                        : ((void* (*)(size_t, size_t))next)(size, alignment);
  } else {
    p = nothrow != NULL ? ((void* (*)(size_t, const void*))next)(size, nothrow)
                        : ((void* (*)(size_t))next)(size);
  }
  return p;
}

static void* mi_calls_new(void* next, size_t size, size_t alignment, const void* nothrow) {
  // Also if an exception passes.
  mi_calls_new_t call
      __attribute__((cleanup(mi_calls_record_new))) = {mi_writer_begin(), size, alignment, NULL};
  call.p = mi_calls_pass_new(next, size, alignment, nothrow);
  return call.p;
}

// `delete` with what follows the block: its size, its alignment, std::nothrow, in this order.
static void mi_calls_delete(void* next, void* p, size_t first, size_t second) {
  mi_writer_t* w __attribute__((cleanup(mi_calls_leave))) = mi_writer_begin();
  if (w == NULL || mi_calls_record_free(w, p)) {
    if (next != NULL) {
      ((void (*)(void*, size_t, size_t))next)(p, first, second); // more than it takes does no harm
    } else {
      mi_calls_pass_free(p);
    }
  }
}

#define MI_CALLS_NEXT(name)                                                                        \
  static mi_calls_next_t next;                                                                     \
  void* const function = mi_calls_next(&next, #name)

#define MI_CALLS_NEW(name)                                                                         \
  MI_CALLS_EXPORT void* name(size_t size) {                                                        \
    MI_CALLS_NEXT(name);                                                                           \
    return mi_calls_new(function, size, 0, NULL);                                                  \
  }
#define MI_CALLS_NEW_NOTHROW(name)                                                                 \
  MI_CALLS_EXPORT void* name(size_t size, const void* nothrow) {                                   \
    MI_CALLS_NEXT(name);                                                                           \
    return mi_calls_new(function, size, 0, nothrow);                                               \
  }
#define MI_CALLS_NEW_ALIGNED(name)                                                                 \
  MI_CALLS_EXPORT void* name(size_t size, size_t alignment) {                                      \
    MI_CALLS_NEXT(name);                                                                           \
    return mi_calls_new(function, size, alignment, NULL);                                          \
  }
#define MI_CALLS_NEW_ALIGNED_NOTHROW(name)                                                         \
  MI_CALLS_EXPORT void* name(size_t size, size_t alignment, const void* nothrow) {                 \
    MI_CALLS_NEXT(name);                                                                           \
    return mi_calls_new(function, size, alignment, nothrow);                                       \
  }
#define MI_CALLS_DELETE(name)                                                                      \
  MI_CALLS_EXPORT void name(void* p) {                                                             \
    MI_CALLS_NEXT(name);                                                                           \
    mi_calls_delete(function, p, 0, 0);                                                            \
  }
#define MI_CALLS_DELETE_1(name)                                                                    \
  MI_CALLS_EXPORT void name(void* p, size_t first) {                                               \
    MI_CALLS_NEXT(name);                                                                           \
    mi_calls_delete(function, p, first, 0);                                                        \
  }
#define MI_CALLS_DELETE_2(name)                                                                    \
  MI_CALLS_EXPORT void name(void* p, size_t first, size_t second) {                                \
    MI_CALLS_NEXT(name);                                                                           \
    mi_calls_delete(function, p, first, second);                                                   \
  }

MI_CALLS_NEW(_Znwm)
MI_CALLS_NEW(_Znam)
MI_CALLS_NEW_NOTHROW(_ZnwmRKSt9nothrow_t)
MI_CALLS_NEW_NOTHROW(_ZnamRKSt9nothrow_t)
MI_CALLS_NEW_ALIGNED(_ZnwmSt11align_val_t)
MI_CALLS_NEW_ALIGNED(_ZnamSt11align_val_t)
MI_CALLS_NEW_ALIGNED_NOTHROW(_ZnwmSt11align_val_tRKSt9nothrow_t)
MI_CALLS_NEW_ALIGNED_NOTHROW(_ZnamSt11align_val_tRKSt9nothrow_t)
MI_CALLS_DELETE(_ZdlPv)
MI_CALLS_DELETE(_ZdaPv)
MI_CALLS_DELETE_1(_ZdlPvm)
MI_CALLS_DELETE_1(_ZdaPvm)
MI_CALLS_DELETE_1(_ZdlPvRKSt9nothrow_t)
MI_CALLS_DELETE_1(_ZdaPvRKSt9nothrow_t)
MI_CALLS_DELETE_1(_ZdlPvSt11align_val_t)
MI_CALLS_DELETE_1(_ZdaPvSt11align_val_t)
MI_CALLS_DELETE_2(_ZdlPvmSt11align_val_t)
MI_CALLS_DELETE_2(_ZdaPvmSt11align_val_t)
MI_CALLS_DELETE_2(_ZdlPvSt11align_val_tRKSt9nothrow_t)
MI_CALLS_DELETE_2(_ZdaPvSt11align_val_tRKSt9nothrow_t)

#endif
