// SPDX-License-Identifier: MIT
// override_elf.c - the allocation functions of libc and of C++, defined by this library on ELF
// systems.
//
// Only in builds that replace malloc (MI_MALLOC_OVERRIDE), as the end of the single translation
// unit: a name whose arguments and results agree with one of ours is an alias of it (same
// address, no extra jump), any other is a function that ends in a call of one.
//
// L1  all names of a family are defined here or none is: no block meets the free of another
//     allocator.
// L2  errno is what the manual pages promise: ENOMEM on failure, EINVAL for an alignment that
//     cannot be. posix_memalign returns the value; it sets errno to ENOMEM as well, as libc does.
// L3  a name of libc does what it does there, also where our function of that name does something
//     else (the option libc_semantics; `mi_elf_is_libc_way`):
//       realloc to size 0            glibc: frees, NULL       ours, musl: a block, NULL is failure
//       an alignment of memalign     glibc: rounds it up      ours, musl: EINVAL
//       that is no power of two
//       posix_memalign fails         errno ENOMEM             ours: errno stays
//     Every block has the alignment of any type (MI_CLASS_FIRST of core/sizeclass.h).
//
// Deliberately absent: functions that call malloc inside libc (realpath, getline, ...; they reach
// ours) and the information calls of glibc (override_glibc.c).
#if defined(MI_MALLOC_OVERRIDE)

#include <errno.h>
#include <stddef.h>

#include "../api/api.h"

// Some of these are macros in some headers.
#undef strdup
#undef strndup
#undef reallocarray

#define MI_ELF_EXPORT __attribute__((visibility("default"), used))
// Two steps, so that a name that is itself a macro (MI_PREFIX) is spelled as what it stands for.
#define MI_ELF_ALIAS_TO(ours) __attribute__((alias(#ours), visibility("default"), used))
#define MI_ELF_ALIAS(ours) MI_ELF_ALIAS_TO(ours)

// Headers of libc that a file before this one includes declare some names with attributes ours
// lack.
#pragma GCC diagnostic push
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#endif

// -- What libc does otherwise than we do (L3) --

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

// The next power of two. What has none stays, and fails.
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

// -- C, POSIX, BSD, glibc --

void* malloc(size_t size) MI_ELF_ALIAS(mi_malloc);
void* calloc(size_t count, size_t size) MI_ELF_ALIAS(mi_calloc);
void free(void* p) MI_ELF_ALIAS(mi_free);
void cfree(void* p) MI_ELF_ALIAS(mi_free);
void vfree(void* p) MI_ELF_ALIAS(mi_free);
void* reallocf(void* p, size_t size) MI_ELF_ALIAS(mi_reallocf);
char* strdup(const char* s) MI_ELF_ALIAS(mi_strdup);
char* strndup(const char* s, size_t n) MI_ELF_ALIAS(mi_strndup);
void* aligned_alloc(size_t alignment, size_t size) MI_ELF_ALIAS(memalign);
void* valloc(size_t size) MI_ELF_ALIAS(mi_valloc);
void* pvalloc(size_t size) MI_ELF_ALIAS(mi_pvalloc);
// Weak: NetBSD's C library has it, and programs bring their own elsewhere.
int reallocarr(void* p, size_t count, size_t size) mi_attr_weak MI_ELF_ALIAS(mi_reallocarr);
size_t malloc_size(const void* p) MI_ELF_ALIAS(mi_malloc_size);
size_t malloc_good_size(size_t size) MI_ELF_ALIAS(mi_malloc_good_size);
void* _aligned_malloc(size_t size, size_t alignment) MI_ELF_ALIAS(mi_malloc_aligned);

// The names libc itself and some programs call.
void* __libc_malloc(size_t size) MI_ELF_ALIAS(mi_malloc);
void* __libc_calloc(size_t count, size_t size) MI_ELF_ALIAS(mi_calloc);
void* __libc_realloc(void* p, size_t size) MI_ELF_ALIAS(realloc);
void __libc_free(void* p) MI_ELF_ALIAS(mi_free);
void __libc_cfree(void* p) MI_ELF_ALIAS(mi_free);
void* __libc_valloc(size_t size) MI_ELF_ALIAS(mi_valloc);
void* __libc_pvalloc(size_t size) MI_ELF_ALIAS(mi_pvalloc);
void* __libc_memalign(size_t alignment, size_t size) MI_ELF_ALIAS(memalign);
int __posix_memalign(void** p, size_t alignment, size_t size) MI_ELF_ALIAS(posix_memalign);

// glibc's argument is not const, other systems' is.
size_t malloc_usable_size(void* p) MI_ELF_EXPORT;
size_t malloc_usable_size(void* p) { return mi_usable_size(p); }

void* reallocarray(void* p, size_t count, size_t size) MI_ELF_EXPORT;
void* reallocarray(void* p, size_t count, size_t size) {
  size_t total;
  // ENOMEM is the value of glibc and the BSDs; ours is another.
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("reallocarray");
  return realloc(p, total);
}

void free_sized(void* p, size_t size) MI_ELF_ALIAS(mi_free_size);
void free_aligned_sized(void* p, size_t alignment, size_t size) MI_ELF_EXPORT;
void free_aligned_sized(void* p, size_t alignment, size_t size) {
  mi_free_size_aligned(p, size, alignment);
}

// -- C++: operator new (_Znw), new[] (_Zna), delete (_Zdl), delete[] (_Zda), as the Itanium ABI
// spells them. `m` is size_t, `St11align_val_t` an alignment, `RKSt9nothrow_t` the address of
// std::nothrow --

void* _Znwm(size_t size) MI_ELF_ALIAS(mi_new);
void* _Znam(size_t size) MI_ELF_ALIAS(mi_new);
void* _ZnwmSt11align_val_t(size_t size, size_t alignment) MI_ELF_ALIAS(mi_new_aligned);
void* _ZnamSt11align_val_t(size_t size, size_t alignment) MI_ELF_ALIAS(mi_new_aligned);

void _ZdlPv(void* p) MI_ELF_ALIAS(mi_free);
void _ZdaPv(void* p) MI_ELF_ALIAS(mi_free);
void _ZdlPvm(void* p, size_t size) MI_ELF_ALIAS(mi_free_size);
void _ZdaPvm(void* p, size_t size) MI_ELF_ALIAS(mi_free_size);
void _ZdlPvSt11align_val_t(void* p, size_t alignment) MI_ELF_ALIAS(mi_free_aligned);
void _ZdaPvSt11align_val_t(void* p, size_t alignment) MI_ELF_ALIAS(mi_free_aligned);
void _ZdlPvmSt11align_val_t(void* p, size_t size, size_t alignment)
    MI_ELF_ALIAS(mi_free_size_aligned);
void _ZdaPvmSt11align_val_t(void* p, size_t size, size_t alignment)
    MI_ELF_ALIAS(mi_free_size_aligned);

typedef struct mi_elf_nothrow_s mi_elf_nothrow_t;

void* _ZnwmRKSt9nothrow_t(size_t size, const mi_elf_nothrow_t* tag) MI_ELF_EXPORT;
void* _ZnwmRKSt9nothrow_t(size_t size, const mi_elf_nothrow_t* tag) {
  (void)tag;
  return mi_new_nothrow(size);
}
void* _ZnamRKSt9nothrow_t(size_t size, const mi_elf_nothrow_t* tag)
    MI_ELF_ALIAS(_ZnwmRKSt9nothrow_t);

void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                         const mi_elf_nothrow_t* tag) MI_ELF_EXPORT;
void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                         const mi_elf_nothrow_t* tag) {
  (void)tag;
  return mi_new_aligned_nothrow(size, alignment);
}
void* _ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const mi_elf_nothrow_t* tag)
    MI_ELF_ALIAS(_ZnwmSt11align_val_tRKSt9nothrow_t);

void _ZdlPvRKSt9nothrow_t(void* p, const mi_elf_nothrow_t* tag) MI_ELF_EXPORT;
void _ZdlPvRKSt9nothrow_t(void* p, const mi_elf_nothrow_t* tag) {
  (void)tag;
  mi_free(p);
}
void _ZdaPvRKSt9nothrow_t(void* p, const mi_elf_nothrow_t* tag) MI_ELF_ALIAS(_ZdlPvRKSt9nothrow_t);

void _ZdlPvSt11align_val_tRKSt9nothrow_t(void* p, size_t alignment,
                                         const mi_elf_nothrow_t* tag) MI_ELF_EXPORT;
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void* p, size_t alignment, const mi_elf_nothrow_t* tag) {
  (void)tag;
  mi_free_aligned(p, alignment);
}
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void* p, size_t alignment, const mi_elf_nothrow_t* tag)
    MI_ELF_ALIAS(_ZdlPvSt11align_val_tRKSt9nothrow_t);

#pragma GCC diagnostic pop

#endif
