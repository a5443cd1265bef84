// SPDX-License-Identifier: MIT
// gperftools_tc.c - tc_malloc and its relatives: our functions, whatever malloc stands for in the
// process, under the names that gperftools has for its own.
//
// Each does what the function of libc or C++ does whose name it has behind tc_. Deliberately
// absent: a new-handler that malloc calls (tc_set_new_mode keeps the flag, for tc_query_new_mode).
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "gperftools.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // these stand in tcmalloc.h

MI_COMPAT_EXPORT const char* tc_version(int* major, int* minor, const char** patch) {
  if (major != NULL) *major = 2;
  if (minor != NULL) *minor = 10;
  if (patch != NULL) *patch = "";
  return "gperftools 2.10 (libmimalloc)";
}

MI_COMPAT_EXPORT void* tc_malloc(size_t size) { return mi_malloc(size); }
MI_COMPAT_EXPORT void* tc_malloc_skip_new_handler(size_t size) { return mi_malloc(size); }
MI_COMPAT_EXPORT void* tc_calloc(size_t count, size_t size) { return mi_calloc(count, size); }
MI_COMPAT_EXPORT void tc_free(void* p) { mi_free(p); }
MI_COMPAT_EXPORT void tc_cfree(void* p) { mi_free(p); }

MI_COMPAT_EXPORT void tc_free_sized(void* p, size_t size) {
  (void)size;
  mi_free(p);
}

MI_COMPAT_EXPORT void* tc_realloc(void* p, size_t size) {
  if (p == NULL || size != 0) return mi_realloc(p, size);
  mi_free(p);
  return NULL;
}

// The next power of two, which glibc's memalign takes instead of an alignment that is none. Where
// size_t has no such the alignment stays as it is, and fails.
static size_t mi_tc_alignment(size_t alignment) {
  size_t power = 1;
  while (power != 0 && power < alignment) power <<= 1;
  return power != 0 ? power : alignment;
}

MI_COMPAT_EXPORT void* tc_memalign(size_t alignment, size_t size) {
  return mi_memalign(mi_tc_alignment(alignment), size);
}

MI_COMPAT_EXPORT int tc_posix_memalign(void** p, size_t alignment, size_t size) {
  return mi_posix_memalign(p, alignment, size);
}

MI_COMPAT_EXPORT void* tc_valloc(size_t size) { return mi_valloc(size); }
MI_COMPAT_EXPORT void* tc_pvalloc(size_t size) { return mi_pvalloc(size); }
MI_COMPAT_EXPORT size_t tc_malloc_size(void* p) { return mi_usable_size(p); }

// -- Sizes. Of the flags of jemalloc's function, that of the alignment is known. --

MI_COMPAT_EXPORT size_t tc_nallocx(size_t size, int flags) {
  return mi_compat_size(size, mi_compat_power((unsigned)flags & 63));
}

MI_COMPAT_EXPORT size_t nallocx(size_t size, int flags) { return tc_nallocx(size, flags); }

// -- C++ --

// The flag of tc_set_new_mode. Written and read by any thread, relaxed.
static mi_atomic(int) mi_gperftools_new_mode;

MI_COMPAT_EXPORT int tc_set_new_mode(int flag) {
  return mi_atomic_swap_relaxed(&mi_gperftools_new_mode, flag != 0);
}

MI_COMPAT_EXPORT int tc_query_new_mode(void) {
  return mi_atomic_load_relaxed(&mi_gperftools_new_mode);
}

// The last argument of a nothrow form is the address of std::nothrow. An exception of a new-handler
// passes through our functions, so it is caught where they are called.
#define MI_TC_FORMS(new_name, delete_name)                                                         \
  MI_COMPAT_EXPORT void* new_name(size_t size) { return mi_new(size); }                            \
  MI_COMPAT_EXPORT void* new_name##_nothrow(size_t size, const void* nothrow) {                    \
    (void)nothrow;                                                                                 \
    return mi_cxx_catching(size, 0, (uintptr_t)&mi_new_nothrow);                                   \
  }                                                                                                \
  MI_COMPAT_EXPORT void* new_name##_aligned(size_t size, size_t alignment) {                       \
    return mi_new_aligned(size, alignment);                                                        \
  }                                                                                                \
  MI_COMPAT_EXPORT void* new_name##_aligned_nothrow(size_t size, size_t alignment,                 \
                                                    const void* nothrow) {                         \
    (void)nothrow;                                                                                 \
    return mi_cxx_catching(size, alignment, (uintptr_t)&mi_new_aligned_nothrow);                   \
  }                                                                                                \
  MI_COMPAT_EXPORT void delete_name(void* p) { mi_free(p); }                                       \
  MI_COMPAT_EXPORT void delete_name##_sized(void* p, size_t size) {                                \
    (void)size;                                                                                    \
    mi_free(p);                                                                                    \
  }                                                                                                \
  MI_COMPAT_EXPORT void delete_name##_nothrow(void* p, const void* nothrow) {                      \
    (void)nothrow;                                                                                 \
    mi_free(p);                                                                                    \
  }                                                                                                \
  MI_COMPAT_EXPORT void delete_name##_aligned(void* p, size_t alignment) {                         \
    (void)alignment;                                                                               \
    mi_free(p);                                                                                    \
  }                                                                                                \
  MI_COMPAT_EXPORT void delete_name##_sized_aligned(void* p, size_t size, size_t alignment) {      \
    (void)size;                                                                                    \
    (void)alignment;                                                                               \
    mi_free(p);                                                                                    \
  }                                                                                                \
  MI_COMPAT_EXPORT void delete_name##_aligned_nothrow(void* p, size_t alignment,                   \
                                                      const void* nothrow) {                       \
    (void)alignment;                                                                               \
    (void)nothrow;                                                                                 \
    mi_free(p);                                                                                    \
  }
MI_TC_FORMS(tc_new, tc_delete)
MI_TC_FORMS(tc_newarray, tc_deletearray)
