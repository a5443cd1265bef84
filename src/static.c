// SPDX-License-Identifier: MIT
// static.c - the whole library as one translation unit, and its table of contents, bottom-up.
//
// Every artifact is compiled from this file alone: the compiler sees all calls, and nothing
// internal is visible outside (MI_SINGLE_TU makes it static). The unit tests compile the files
// one by one instead.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // for mremap in the headers of libc; must come before the first of them
#endif
#define MI_SINGLE_TU 1

// base: knows nothing of allocation.
#include "base/text.c"

// os: what the operating system does.
#include "os/assert.c"
#include "os/os.c"

// core: the allocator.
#include "core/state.c"
#include "core/pagemap.c"
#include "core/meta.c"
#include "core/book.c"
#include "core/bitmap.c"
#include "core/describe.c"
#include "core/report.c"
#include "core/arena.c"
#include "core/numa.c"
#include "core/move.c"
#include "core/purge.c"
#include "core/retain.c"
#include "core/huge.c"
#include "core/slices.c"
#include "core/reserve.c"
#include "core/run.c"
#include "core/sizeclass.c"
#include "core/sample.c"
#include "core/pool.c"
#include "core/track.c"
#include "core/page.c"
#include "core/remote.c"
#include "core/large.c"
#include "core/theap.c"
#include "core/portion.c"
#include "core/refill.c"
#include "core/alloc.c"
#include "core/free.c"
#include "core/aligned.c"
#include "core/realloc.c"
#include "core/thread.c"
#include "core/heap.c"
#include "core/subproc.c"
#include "core/usage.c"
#include "core/fork.c"
#include "core/init.c"
#include "core/unload.c"

// api: the public functions, options, messages, statistics.
#include "api/output.c"
#include "api/options.c"
#include "api/stats.c"
#include "api/stats_text.c"
#include "api/stats_json.c"
#include "api/process.c"
#include "api/api_malloc.c"
#include "api/api_posix.c"
#include "api/api_arena.c"
#include "api/api_heap.c"
#include "api/api_subproc.c"
#include "api/visit.c"
#include "api/api_string.c"
#include "api/api_new.c"

// override: the names of libc and C++, when this build replaces malloc.
#include "override/override_glibc.c"
#include "override/override_elf.c"
#include "override/override_loader.c"
#include "override/override_new.c"
