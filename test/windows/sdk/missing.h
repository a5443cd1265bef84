// SPDX-License-Identifier: MIT
// What headers of Wine 8 lack, or have otherwise than those of Windows; included before all others
// (cmake/cross-msvc.cmake).
#ifndef TEST_WINDOWS_MISSING_H
#define TEST_WINDOWS_MISSING_H

// Each module has an atexit of its own (runtime.c).
#define atexit atexit_of_a_dll
#include <stdlib.h>
#undef atexit
#ifdef __cplusplus
extern "C" {
#endif
int __cdecl atexit(void(__cdecl* function)(void));

// It defines a function that C++ of clang-cl has.
#define _InterlockedCompareExchange128 wine_interlocked_compare_exchange_128
#include <windows.h>
#undef _InterlockedCompareExchange128

SIZE_T WINAPI GetLargePageMinimum(void);
BOOL WINAPI GetNumaHighestNodeNumber(PULONG number);
WORD WINAPI RtlCaptureStackBackTrace(ULONG skipped, ULONG count, void** frames, ULONG* hash);
#ifdef __cplusplus
}
#endif

#endif
