// SPDX-License-Identifier: MIT
// defaults.h - the default values of those options for which the build may choose another one:
// -DMI_DEFAULT_VERBOSE=1. In the unit of the option (core/common/options.def); sizes are KiB.
#ifndef MI_BASE_DEFAULTS_H
#define MI_BASE_DEFAULTS_H

#include "config.h"

#if !defined(MI_DEFAULT_VERBOSE)
#define MI_DEFAULT_VERBOSE 0
#endif

// Builds with checks end the process when memory is damaged, secure ones and those with memory tags
// after any mistake.
#if !defined(MI_DEFAULT_ABORT_ON_MISUSE)
#if MI_IS_SECURE || MI_IS_TAGGED
#define MI_DEFAULT_ABORT_ON_MISUSE 2
#elif MI_DEBUG >= 1 || MI_IS_PADDED
#define MI_DEFAULT_ABORT_ON_MISUSE 1
#else
#define MI_DEFAULT_ABORT_ON_MISUSE 0
#endif
#endif

#if !defined(MI_DEFAULT_ZERO_ON_FREE)
#if MI_SECURE_LEVEL >= 4
#define MI_DEFAULT_ZERO_ON_FREE 1
#else
#define MI_DEFAULT_ZERO_ON_FREE 0
#endif
#endif

#if !defined(MI_DEFAULT_ARENA_EAGER_COMMIT)
#define MI_DEFAULT_ARENA_EAGER_COMMIT 2
#endif

#if !defined(MI_DEFAULT_ALLOW_LARGE_OS_PAGES)
#define MI_DEFAULT_ALLOW_LARGE_OS_PAGES 0
#endif

#if !defined(MI_DEFAULT_RESERVE_HUGE_OS_PAGES)
#define MI_DEFAULT_RESERVE_HUGE_OS_PAGES 0
#endif

#if !defined(MI_DEFAULT_RESERVE_OS_MEMORY)
#define MI_DEFAULT_RESERVE_OS_MEMORY 0
#endif

#if !defined(MI_DEFAULT_ARENA_RESERVE)
#define MI_DEFAULT_ARENA_RESERVE MI_ARENA_RESERVE_KIB
#endif

#if !defined(MI_DEFAULT_DISALLOW_ARENA_ALLOC)
#define MI_DEFAULT_DISALLOW_ARENA_ALLOC 0
#endif

#if !defined(MI_DEFAULT_GUARDED_SAMPLE_RATE)
#if defined(MI_GUARDED) && MI_GUARDED > 0
#define MI_DEFAULT_GUARDED_SAMPLE_RATE 4000
#else
#define MI_DEFAULT_GUARDED_SAMPLE_RATE 0
#endif
#endif

#if !defined(MI_DEFAULT_PAGEMAP_COMMIT)
#define MI_DEFAULT_PAGEMAP_COMMIT 0
#endif

#if !defined(MI_DEFAULT_PAGE_MAX_RECLAIM)
#define MI_DEFAULT_PAGE_MAX_RECLAIM -1
#endif

#if !defined(MI_DEFAULT_PAGE_CROSS_THREAD_MAX_RECLAIM)
#define MI_DEFAULT_PAGE_CROSS_THREAD_MAX_RECLAIM 32
#endif

#if !defined(MI_DEFAULT_ALLOW_THP)
#if defined(MI_NO_THP) && MI_NO_THP
#define MI_DEFAULT_ALLOW_THP 0
#else
#define MI_DEFAULT_ALLOW_THP 1
#endif
#endif

// Memory of WebAssembly never goes back: to clear it ahead would only take time.
#if !defined(MI_DEFAULT_PURGE_DELAY)
#if MI_IS_WASM
#define MI_DEFAULT_PURGE_DELAY -1
#else
#define MI_DEFAULT_PURGE_DELAY 1000
#endif
#endif

#if !defined(MI_DEFAULT_ARENA_MAX_OBJECT_SIZE)
#define MI_DEFAULT_ARENA_MAX_OBJECT_SIZE 2097152
#endif

#endif
