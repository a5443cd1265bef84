// SPDX-License-Identifier: MIT
// override_elf.c - the allocation functions of libc, defined by this library on ELF systems.
//
// Only in builds that replace malloc (MI_MALLOC_OVERRIDE), as the end of the single translation
// unit. The functions that all others can be made of are ours, mostly as aliases (same address, no
// extra jump): malloc, calloc, realloc, free, memalign, aligned_alloc, posix_memalign and
// malloc_usable_size. Any other is made of these, and calls them by name (override.h).
//
// OVERRIDE_ELF-1  a block is freed by the allocator it came from, whichever names a program defines
//     itself, provided that its definitions fit each other.
// OVERRIDE_ELF-2  errno is what the manual pages promise: ENOMEM on failure, EINVAL for an invalid
//     alignment. posix_memalign returns the value; it sets errno to ENOMEM as well, as libc does.
// OVERRIDE_ELF-3  a name of libc does what it does in libc, also where our function of that name
//     does something else (the option libc_semantics; `mi_elf_is_libc_way`):
//       realloc to size 0            glibc: frees, NULL       ours, musl: a block, NULL is failure
//       an alignment of memalign     glibc: rounds it up      ours, musl: EINVAL
//       that is no power of two
//       posix_memalign fails         errno ENOMEM             ours: errno stays
//     Every block has the alignment of any type (MI_CLASS_FIRST of core/common/sizeclass.h).
//
// Deliberately absent: functions that call malloc inside libc (strdup, realpath, getline, ...; they
// call the chosen malloc), operator new and delete (override_new.c) and the information calls of
// glibc (override_glibc.c).
#if defined(MI_MALLOC_OVERRIDE) && !defined(_WIN32) && !defined(__APPLE__)

#include <errno.h>
#include <stddef.h>

#include "../api/api.h"
#include "override.h"

#undef reallocarray // a macro in some headers

// Headers of libc that earlier files include declare some names with attributes that ours lack.
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

// -- Where libc differs from our functions (OVERRIDE_ELF-3) --

static bool mi_elf_is_libc_way(void) { return mi_option_is_enabled(mi_option_libc_semantics); }

static bool mi_elf_is_glibc_way(void) {
#if defined(__GLIBC__)
  return mi_elf_is_libc_way();
#else
  return false;
#endif
}

static mi_attr_cold void* mi_elf_realloc_none(void* p) {
  if (!mi_elf_is_glibc_way()) return mi_realloc(p, 0);
  mi_free(p);
  return NULL;
}

void* realloc(void* p, size_t size) MI_ELF_EXPORT;
void* realloc(void* p, size_t size) {
  if (mi_unlikely(size == 0) && p != NULL) return mi_elf_realloc_none(p);
  return mi_realloc(p, size);
}

// Return the next power of two. An alignment that has none stays as it is, and fails.
static mi_attr_cold size_t mi_elf_round_alignment(size_t alignment) {
  if (!mi_elf_is_glibc_way() || alignment > SIZE_MAX / 2 + 1) return alignment;
  return alignment == 0 ? 1 : (size_t)2 << mi_bits_log2(alignment);
}

void* memalign(size_t alignment, size_t size) MI_ELF_EXPORT;
void* memalign(size_t alignment, size_t size) {
  if (!mi_bits_is_power_of_two(alignment)) alignment = mi_elf_round_alignment(alignment);
  return mi_memalign(alignment, size);
}

int posix_memalign(void** p, size_t alignment, size_t size) MI_ELF_EXPORT;
int posix_memalign(void** p, size_t alignment, size_t size) {
  const int result = mi_posix_memalign(p, alignment, size);
  if (result == ENOMEM && mi_elf_is_libc_way()) errno = ENOMEM;
  return result;
}

// -- What the others are made of, with realloc, memalign and posix_memalign above --

void* malloc(size_t size) MI_ELF_ALIAS(mi_malloc);
void* calloc(size_t count, size_t size) MI_ELF_ALIAS(mi_calloc);
void free(void* p) MI_ELF_ALIAS(mi_free);
void* aligned_alloc(size_t alignment, size_t size) MI_ELF_ALIAS(memalign);

// In glibc the argument is not const, in other systems it is.
size_t malloc_usable_size(void* p) MI_ELF_EXPORT;
size_t malloc_usable_size(void* p) { return mi_usable_size(p); }

// Our own functions, whatever the names above stand for in the process (`MI_IS_OURS`).
static void* mi_elf_malloc(size_t size) MI_ELF_LOCAL(mi_malloc);
static void* mi_elf_aligned_alloc(size_t alignment, size_t size) MI_ELF_LOCAL(memalign);

// The names that programs call from a malloc of their own.
void* __libc_malloc(size_t size) MI_ELF_ALIAS(mi_malloc);
void* __libc_calloc(size_t count, size_t size) MI_ELF_ALIAS(mi_calloc);
void* __libc_realloc(void* p, size_t size) MI_ELF_ALIAS(realloc);
void __libc_free(void* p) MI_ELF_ALIAS(mi_free);
void __libc_cfree(void* p) MI_ELF_ALIAS(mi_free);
void* __libc_valloc(size_t size) MI_ELF_ALIAS(mi_valloc);
void* __libc_pvalloc(size_t size) MI_ELF_ALIAS(mi_pvalloc);
void* __libc_memalign(size_t alignment, size_t size) MI_ELF_ALIAS(memalign);

size_t malloc_good_size(size_t size) MI_ELF_ALIAS(mi_malloc_good_size); // a size, not a block

// -- Functions made of these --

MI_ELF_EXPORT void cfree(void* p) { MI_BY_NAME(free)(p); }

MI_ELF_EXPORT void vfree(void* p) { MI_BY_NAME(free)(p); }

MI_ELF_EXPORT void free_sized(void* p, size_t size) {
  (void)size;
  MI_BY_NAME(free)(p);
}

MI_ELF_EXPORT void free_aligned_sized(void* p, size_t alignment, size_t size) {
  (void)alignment;
  (void)size;
  MI_BY_NAME(free)(p);
}

MI_ELF_EXPORT void* reallocf(void* p, size_t size) {
  void* const q = MI_BY_NAME(realloc)(p, size);
  if (q == NULL && size != 0) MI_BY_NAME(free)(p); // with size 0, realloc may have freed it
  return q;
}

MI_ELF_EXPORT void* reallocarray(void* p, size_t count, size_t size) {
  size_t total;
  // glibc and the BSDs return ENOMEM; our own function returns another value.
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("reallocarray");
  return MI_BY_NAME(realloc)(p, total);
}

// The name is weak: NetBSD's C library has it, and elsewhere programs bring their own.
mi_attr_weak MI_ELF_EXPORT int reallocarr(void* p, size_t count, size_t size) {
  const mi_posix_calls_t calls = {MI_BY_NAME(realloc), MI_BY_NAME(free)};
  return mi_api_reallocarr(&calls, p, count, size);
}

MI_ELF_EXPORT int __posix_memalign(void** p, size_t alignment, size_t size) {
  return MI_BY_NAME(posix_memalign)(p, alignment, size);
}

MI_ELF_EXPORT void* _aligned_malloc(size_t size, size_t alignment) {
  if (!mi_bits_is_power_of_two(alignment))
    return mi_api_bad_alignment("_aligned_malloc", alignment);
  return MI_BY_NAME(memalign)(alignment, size);
}

MI_ELF_EXPORT void* valloc(size_t size) { return MI_BY_NAME(memalign)(mi_api_page_size(), size); }

MI_ELF_EXPORT void* pvalloc(size_t size) {
  size_t rounded;
  if (!mi_api_round_to_page(size, &rounded)) return NULL;
  return MI_BY_NAME(memalign)(mi_api_page_size(), rounded);
}

MI_ELF_EXPORT size_t malloc_size(const void* p) { return MI_BY_NAME(malloc_usable_size)((void*)p); }

// -- For the names of other allocators (src/compat/), which are in one library with this --

#if defined(MI_SHARED_LIB_EXPORT)
void mi_elf_shrink(void* p, size_t size) __attribute__((visibility("hidden")));
mi_attr_cold void mi_elf_shrink(void* p, size_t size) { mi_realloc_shrink(p, size); }
#endif

#pragma GCC diagnostic pop

#endif
