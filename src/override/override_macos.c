// SPDX-License-Identifier: MIT
// override_macos.c - on macOS, malloc and its relatives lead to this library: by interposing, and
// by a zone (override_zone.c). Written and linked, never run.
//
//                                the shared library             the archive, the object
//   malloc of a program          interposed                     libSystem, the first zone
//   malloc of libSystem          interposed                     the first zone
//   malloc_zone_malloc(default)  the first zone                 the first zone
//   a block that is not ours     free finds its zone            libSystem finds its zone
//   operator new                 that of the C++ library, which calls malloc
//   pthread_create               interposed, so that a program   that of libSystem
//                                with a second thread gets the
//                                purge thread
//
// The loader reads the table of pairs in the section __interpose of a library that came with the
// program, linked or by DYLD_INSERT_LIBRARIES, and has all other libraries call the first of a pair
// where they name the second. It does not do that for this library: here, the names mean those of
// libSystem.
//
// OVERRIDE_MACOS-1  a pair whose second function the system does not have is ignored by the loader:
//     functions that newer systems have are named by a weak reference. Where the headers are older
//     than these, malloc_type_... leads to the zone.
// OVERRIDE_MACOS-2  the names of malloc itself are not defined: two libraries with the same names
//     would be two allocators, because each program says which library it takes a name from.
// OVERRIDE_MACOS-3  operator new and delete are not interposed: a program may have its own, and
//     others would then be called in its libraries, but not in itself. Those of the system call
//     malloc, malloc_type_malloc and free.
//
// Deliberately absent: how the zone is taken back. The library must not be unloaded; one that was
// loaded late should not replace malloc (MI_OVERRIDE=OFF).
#if defined(MI_MALLOC_OVERRIDE) && MI_IS_MACOS

#include <pthread.h>
#include <stdlib.h>

#include "../api/api.h"

#if defined(MI_SHARED_LIB_EXPORT)

typedef struct mi_interposed_s {
  const void* ours;
  const void* of_system;
} mi_interposed_t;

#define MI_INTERPOSED __attribute__((used, section("__DATA,__interpose,interposing")))
#define MI_INTERPOSE(ours, of_system)                                                              \
  { (const void*)&(ours), (const void*)&(of_system) }

// Newer headers declare it, and say that it is new.
extern char mi_system_aligned_alloc __asm("_aligned_alloc") __attribute__((weak_import));
extern void vfree(void* p);

// The purge thread itself is made by libSystem's function, as all calls of this library are.
static int mi_macos_pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                   void* (*run)(void*), void* arg) {
  mi_process_start_purger();
  return pthread_create(thread, attributes, run, arg);
}

static const mi_interposed_t mi_macos_interposed[] MI_INTERPOSED = {
    MI_INTERPOSE(mi_macos_pthread_create, pthread_create),
    MI_INTERPOSE(mi_malloc, malloc),
    MI_INTERPOSE(mi_calloc, calloc),
    MI_INTERPOSE(mi_valloc, valloc),
    MI_INTERPOSE(mi_aligned_alloc, mi_system_aligned_alloc),
    MI_INTERPOSE(mi_posix_memalign, posix_memalign),
    MI_INTERPOSE(mi_zone_any_realloc, realloc),
    MI_INTERPOSE(mi_zone_any_reallocf, reallocf),
    MI_INTERPOSE(mi_zone_any_free, free),
    MI_INTERPOSE(mi_zone_any_free, vfree),
    MI_INTERPOSE(mi_zone_any_size, malloc_size),
    MI_INTERPOSE(mi_good_size, malloc_good_size),
};

// -- With the type of what is allocated, for allocators that keep types apart: macOS 14 --

#if __has_include(<malloc/_malloc_type.h>) // OVERRIDE_MACOS-1

#define MI_TYPED(name)                                                                             \
  extern char mi_system_type_##name __asm("_malloc_type_" #name) __attribute__((weak_import))
MI_TYPED(malloc);
MI_TYPED(calloc);
MI_TYPED(valloc);
MI_TYPED(aligned_alloc);
MI_TYPED(posix_memalign);
MI_TYPED(realloc);
MI_TYPED(free);

static void* mi_typed_malloc(size_t size, uint64_t type) {
  (void)type;
  return mi_malloc(size);
}

static void* mi_typed_calloc(size_t count, size_t size, uint64_t type) {
  (void)type;
  return mi_calloc(count, size);
}

static void* mi_typed_valloc(size_t size, uint64_t type) {
  (void)type;
  return mi_valloc(size);
}

static void* mi_typed_aligned_alloc(size_t alignment, size_t size, uint64_t type) {
  (void)type;
  return mi_aligned_alloc(alignment, size);
}

static int mi_typed_posix_memalign(void** p, size_t alignment, size_t size, uint64_t type) {
  (void)type;
  return mi_posix_memalign(p, alignment, size);
}

static void* mi_typed_realloc(void* p, size_t size, uint64_t type) {
  (void)type;
  return mi_zone_any_realloc(p, size);
}

static void mi_typed_free(void* p, uint64_t type) {
  (void)type;
  mi_zone_any_free(p);
}

static const mi_interposed_t mi_macos_interposed_typed[] MI_INTERPOSED = {
    MI_INTERPOSE(mi_typed_malloc, mi_system_type_malloc),
    MI_INTERPOSE(mi_typed_calloc, mi_system_type_calloc),
    MI_INTERPOSE(mi_typed_valloc, mi_system_type_valloc),
    MI_INTERPOSE(mi_typed_aligned_alloc, mi_system_type_aligned_alloc),
    MI_INTERPOSE(mi_typed_posix_memalign, mi_system_type_posix_memalign),
    MI_INTERPOSE(mi_typed_realloc, mi_system_type_realloc),
    MI_INTERPOSE(mi_typed_free, mi_system_type_free),
};

#endif
#endif

// After that of api/process.c, which prepares the set-up; libraries that use ours come later.
static void __attribute__((constructor)) mi_macos_on_load(void) {
  const bool is_first = mi_zone_register();
  mi_api_set_redirected(is_first);
  if (!is_first) mi_hook_warning("malloc of libSystem is another zone and stays so.\n");
}

#endif
