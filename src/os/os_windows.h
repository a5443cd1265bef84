// SPDX-License-Identifier: MIT
// os_windows.h - the headers of Windows, without the macros that are names of ours, and what
// os_windows.c, os_windows_fault.c and os_windows_cxx.c share.
//
// All headers of Windows are included here: some use the macros that are undefined below.
#ifndef MI_OS_OS_WINDOWS_H
#define MI_OS_OS_WINDOWS_H

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#if !defined(_WIN32_WINNT) || _WIN32_WINNT < 0x0601
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0601 // what is younger than Windows 7 is looked up when the library starts
#endif
#include <windows.h>
#include <psapi.h>
#undef near
#undef far
#undef small
#undef interface

#include "os.h"

// Return the address of a function of a library, NULL if the process does not have the library, or
// that lacks it. Never loads anything. Takes the lock of the loader: for the constructor
// (OS_WINDOWS-3), and for OS_WINDOWS_CXX-1.
static void* mi_os_find(const char* module, const char* function);

// Return the module of the library itself: a DLL or a program that it is linked with.
static HMODULE mi_os_own_module(void);

#endif
