// SPDX-License-Identifier: MIT
// static.c - the whole library as one translation unit, and its table of contents, bottom-up.
//
// Every artifact is compiled from this file alone: the compiler sees all calls, and no internal
// name is visible outside (MI_SINGLE_TU makes them static). The unit tests compile the files one by
// one instead.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // for mremap in the headers of libc; must come before the first of them
#endif
#define MI_SINGLE_TU 1

// base: knows nothing of allocation.
#include "base/text.c"

// os: mechanisms of the operating system.
#include "os/assert.c"
#include "os/os.c"

// core: the allocator, in layers; each knows only those before it.
// - common to all layers
#include "core/common/state.c"
#include "core/common/fence.c"
#include "core/common/pagemap.c"
#include "core/common/self.c"
#include "core/common/sizeclass.c"
#include "core/common/handed.c"
#include "core/common/meta.c"
#include "core/common/secret.c"
#include "core/common/slack.c"
#include "core/common/records.c"
#include "core/common/guarded.c"
#include "core/common/sampled.c"
#include "core/common/part.c"
#include "core/common/describe.c"
#include "core/common/explain.c"
#include "core/common/report.c"
#include "core/common/mark.c"
// - slices
#include "core/arenas/bitmap.c"
#include "core/arenas/fit.c"
#include "core/arenas/numa.c"
#include "core/arenas/arena.c"
#include "core/arenas/ended.c"
#include "core/arenas/charge.c"
#include "core/arenas/move.c"
#include "core/arenas/wait.c"
#include "core/arenas/spare.c"
#include "core/arenas/kept.c"
#include "core/arenas/purge.c"
#include "core/arenas/budget.c"
#include "core/arenas/huge.c"
#include "core/arenas/collapse.c"
#include "core/arenas/tail.c"
#include "core/arenas/retain.c"
#include "core/arenas/slices.c"
#include "core/arenas/reserve.c"
#include "core/arenas/book.c"
#include "core/arenas/run.c"
// - pages and blocks
#include "core/pages/remote.c"
#include "core/pages/life.c"
#include "core/pages/track.c"
#include "core/pages/tags.c"
#include "core/pages/canary.c"
#include "core/pages/page.c"
#include "core/pages/hole.c"
#include "core/pages/pool.c"
#include "core/pages/large.c"
#include "core/pages/guard.c"
#include "core/pages/zeroed.c"
// - theaps: a thread's part of a heap
#include "core/threads/theap.c"
#include "core/threads/crowd.c"
#include "core/threads/sample.c"
#include "core/threads/reclaim.c"
#include "core/threads/portion.c"
#include "core/threads/parcel.c"
#include "core/threads/sparse.c"
#include "core/threads/split.c"
#include "core/threads/hold.c"
#include "core/threads/flush.c"
#include "core/threads/asleep.c"
#include "core/threads/quarantine.c"
#include "core/threads/thread.c"
#include "core/threads/refill.c"
// - heaps
#include "core/heaps/heap.c"
#include "core/heaps/walk.c"
#include "core/heaps/subproc.c"
#include "core/heaps/usage.c"
#include "core/heaps/account.c"
#include "core/heaps/collect.c"
// - the process
#include "core/process/purger.c"
#include "core/process/idle.c"
#include "core/process/fork.c"
#include "core/process/init.c"
#include "core/process/enter.c"
#include "core/process/unload.c"
// - functions that a program calls
#include "core/front/slow.c"
#include "core/front/alloc.c"
#include "core/front/free.c"
#include "core/front/usable.c"
#include "core/front/aligned.c"
#include "core/front/realloc.c"

// observe: where calls came from, faults in guarded blocks, heap profiles.
#include "observe/stack.c"
#include "observe/fault.c"
#include "observe/dump.c"
#include "observe/pprof.c"
#include "observe/heap_text.c"
#include "observe/folded.c"
#include "observe/profile.c"
#include "observe/inspect.c"

// api: the public functions, options, messages, statistics.
#include "api/output.c"
#include "api/output_fault.c"
#include "api/options.c"
#include "api/stats.c"
#include "api/stats_text.c"
#include "api/account_text.c"
#include "api/stats_json.c"
#include "api/stats_metrics.c"
#include "api/process.c"
#include "api/api_malloc.c"
#include "api/api_posix.c"
#include "api/api_arena.c"
#include "api/api_heap.c"
#include "api/api_subproc.c"
#include "api/visit.c"
#include "api/api_profile.c"
#include "api/control.c"
#include "api/api_string.c"
#include "api/api_new.c"

// override: the names of libc and C++, when this build replaces malloc.
#include "override/override_glibc.c"
#include "override/override_elf.c"
#include "override/override_bsd.c"
#include "override/override_emscripten.c"
#include "override/override_windows.c"
#include "override/override_zone.c"
#include "override/override_macos.c"
#include "override/override_loader.c"
#include "override/override_thread.c"
#include "override/override_new.c"
