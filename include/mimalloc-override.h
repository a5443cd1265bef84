// SPDX-License-Identifier: MIT
/// @file
/// Calls of the C library's allocation functions become calls of ours.
///
/// For programs that cannot replace `malloc` when they are linked: include this header last in
/// each source file. The macros act on names alone: a method called `free` with one argument is
/// renamed too. Blocks that a library allocated on its own still belong to that library's `free`.
#pragma once
#ifndef MIMALLOC_OVERRIDE_H
#define MIMALLOC_OVERRIDE_H

#include "mimalloc.h"

/// @defgroup override Overriding by name
/// What mimalloc-override.h defines.
/// @{

/// @name The C standard
/// @{

/// A call of ours.
#define malloc(n) mi_malloc(n)
#define calloc(c, n) mi_calloc(c, n)
#define realloc(p, n) mi_realloc(p, n)
#define free(p) mi_free(p)
#define aligned_alloc(a, n) mi_aligned_alloc(a, n)
/// @}

/// @name POSIX
/// @{

/// A call of ours.
#define strdup(s) mi_strdup(s)
#define strndup(s, n) mi_strndup(s, n)
#define realpath(f, r) mi_realpath(f, r)
#define posix_memalign(p, a, n) mi_posix_memalign(p, a, n)
#define _posix_memalign(p, a, n) mi_posix_memalign(p, a, n)
/// @}

/// @name Unix
/// @{

/// A call of ours.
#define reallocf(p, n) mi_reallocf(p, n)
#define malloc_size(p) mi_usable_size(p)
#define malloc_usable_size(p) mi_usable_size(p)
#define malloc_good_size(n) mi_malloc_good_size(n)
#define cfree(p) mi_free(p)
#define valloc(n) mi_valloc(n)
#define pvalloc(n) mi_pvalloc(n)
#define reallocarray(p, c, n) mi_reallocarray(p, c, n)
#define reallocarr(p, c, n) mi_reallocarr(p, c, n)
#define memalign(a, n) mi_memalign(a, n)
/// @}

/// @name Microsoft
/// @{

/// A call of ours.
#define _expand(p, n) mi_expand(p, n)
#define _msize(p) mi_usable_size(p)
#define _recalloc(p, c, n) mi_recalloc(p, c, n)
#define _strdup(s) mi_strdup(s)
#define _strndup(s, n) mi_strndup(s, n)
#define _wcsdup(s) mi_wcsdup(s)
#define _mbsdup(s) mi_mbsdup(s)
#define _dupenv_s(b, n, v) mi_dupenv_s(b, n, v)
#define _wdupenv_s(b, n, v) mi_wdupenv_s(b, n, v)
#define _aligned_malloc(n, a) mi_malloc_aligned(n, a)
#define _aligned_realloc(p, n, a) mi_realloc_aligned(p, n, a)
#define _aligned_recalloc(p, c, n, a) mi_aligned_recalloc(p, c, n, a)
#define _aligned_msize(p, a, o) mi_usable_size(p)
#define _aligned_free(p) mi_free(p)
#define _aligned_offset_malloc(n, a, o) mi_malloc_aligned_at(n, a, o)
#define _aligned_offset_realloc(p, n, a, o) mi_realloc_aligned_at(p, n, a, o)
#define _aligned_offset_recalloc(p, c, n, a, o) mi_recalloc_aligned_at(p, c, n, a, o)
/// @}
/// @}

#endif
