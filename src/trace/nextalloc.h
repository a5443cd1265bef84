// SPDX-License-Identifier: MIT
// nextalloc.h - see nextalloc.c.
#ifndef MI_TRACE_NEXTALLOC_H
#define MI_TRACE_NEXTALLOC_H

#include "../base/atomic.h"

typedef struct mi_nextalloc_s {
  void* (*malloc)(size_t);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  void* (*reallocarray)(void*, size_t, size_t); // NULL: is made of realloc
  void (*free)(void*);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t); // NULL: aligned_alloc
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*valloc)(size_t); // NULL: aligned_alloc
  void* (*pvalloc)(size_t); // NULL: aligned_alloc
} mi_nextalloc_t;

// Constant once `mi_nextalloc_find` has returned true.
MI_INTERNAL_DATA_DECL mi_nextalloc_t mi_nextalloc;

// Find the functions. Returns false to the calls that finding them makes itself: these use
// `mi_nextalloc_early`. Another thread waits until they are found.
MI_INTERNAL bool mi_nextalloc_find(void);

// The function of that name behind ours; that of the C++ library, if it is one and the library is
// loaded where no other is found by name (a plug-in that brings it along). Or NULL.
MI_INTERNAL void* mi_nextalloc_name(const char* name);

// Memory for such a call: zeroed, aligned to 16. NULL if there is no more.
MI_INTERNAL void* mi_nextalloc_early(size_t size);
// Whether a block is from there; then `*size` is at least what was asked for.
MI_INTERNAL bool mi_nextalloc_is_early(const void* p, size_t* size);

#endif
