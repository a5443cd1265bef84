// SPDX-License-Identifier: MIT
// config.h - every build macro, read once and turned into constants, with their cross-checks.
//
//   MI_DEBUG   0 release; 1 cheap assertions; 2 more; 3 whole-structure walks.
//   MI_TINY    small constants, so that every rare path runs in a short test.
//   MI_LOCAL_DYNAMIC_TLS  thread-local variables need no room that a library loaded late may not
//              find (compiler.h); as -ftls-model=local-dynamic on the command line.
//   MI_TRACK_ASAN, MI_TRACK_VALGRIND  tell AddressSanitizer or Valgrind about blocks (tool.h).
//   MI_PADDING  the library itself watches what is around blocks, and in freed ones (track.h).
//   MI_SECURE  1: exact state of blocks; 2: random order, fences; 3, 4: coded links, canaries;
//              5: fences behind pages (mark.h, fence.h, secret.h, canary.h).
//   MI_MTE     tag memory, on 64-bit ARM (tag.h, core/pages/tags.h).
//   MI_GUARDED  guard one block in 4000 by default (defaults.h); every build can guard blocks.
//   MI_OS_PLAIN  use nothing of the system but what POSIX has (os/os_plain.c).
//   MI_PREFIX  the prefix of public names instead of `mi_` (mimalloc-prefix.h), and of the
//              environment variables instead of `MIMALLOC_`; in upper or lower case.
//
//   MI_NO_THP  ask for no huge pages unless told otherwise (defaults.h).
//   MI_SKIP_COLLECT_ON_EXIT  builds with checks do not collect at the end of the process.
//
// A build by hand, as bindings of other languages do it, may pass the macros of the library that we
// are compatible with. Those that have an effect are above. Those that ask for a protection which
// does not exist here stop the build (below), because it must not seem to be there. Those that only
// tune that library, or ask for what is always so here (MI_FREE_IS_CHECKED, MI_STAT,
// MI_VISIT_ABANDONED), are accepted and change nothing.
//
// Code elsewhere uses the constants below with plain `if`; it does not test these macros.
#ifndef MI_BASE_CONFIG_H
#define MI_BASE_CONFIG_H

#include "compiler.h"

#if !defined(MI_DEBUG)
#define MI_DEBUG 0
#endif

#if MI_DEBUG < 0 || MI_DEBUG > 3
#error "MI_DEBUG is 0, 1, 2 or 3"
#endif
#if defined(MI_SECURE) && (MI_SECURE < 0 || MI_SECURE > 5)
#error "MI_SECURE: the levels are 0 to 5"
#endif
#if defined(MI_SECURE) && MI_SECURE > 0 && MI_IS_32_BIT
#error "MI_SECURE: links are coded with bits that addresses of 32 bits do not have"
#endif
#if defined(MI_SECURE) && MI_SECURE >= 5 && defined(MI_TINY) && MI_TINY
#error "MI_SECURE=5 needs OS pages that are smaller than a slice: build without MI_TINY"
#endif
#if defined(MI_MTE) && MI_MTE && !defined(__aarch64__)
#error "MI_MTE: only 64-bit ARM has tags of memory"
#endif
#if defined(MI_TRACK_ETW) && MI_TRACK_ETW > 0
#error "MI_TRACK_ETW is for Windows; build with MI_TRACK_ETW=0 or without it"
#endif
#if defined(MI_MAX_ALIGN_SIZE) && MI_MAX_ALIGN_SIZE > 16
#error "MI_MAX_ALIGN_SIZE: blocks are aligned to 16; build with at most that, or without it"
#endif
#if (defined(MI_TLS_MODEL_LOCAL) && MI_TLS_MODEL_LOCAL > 0) ||                                     \
    (defined(MI_TLS_MODEL_PTHREADS) && MI_TLS_MODEL_PTHREADS > 0)
#error "MI_TLS_MODEL_...: build with -ftls-model=initial-exec, or =local-dynamic, instead"
#endif

#if defined(MI_TINY) && MI_TINY
#define MI_IS_TINY 1
#else
#define MI_IS_TINY 0
#endif

// 1 if this build replaces the malloc of its process (`src/override`).
#if defined(MI_MALLOC_OVERRIDE)
#define MI_IS_OVERRIDE 1
#else
#define MI_IS_OVERRIDE 0
#endif

// 1 if this build knows when the program enters a sandbox (override/override_thread.c): it may open
// files until then.
#if (defined(MI_MALLOC_OVERRIDE) && defined(MI_SHARED_LIB_EXPORT)) || defined(MI_UNIT_TEST)
#define MI_SEES_SANDBOX 1
#else
#define MI_SEES_SANDBOX 0
#endif

// 1 if a tool is told about blocks.
#if defined(MI_TRACK_ASAN) && MI_TRACK_ASAN
#define MI_IS_TRACK_ASAN 1
#else
#define MI_IS_TRACK_ASAN 0
#endif
#if defined(MI_TRACK_VALGRIND) && MI_TRACK_VALGRIND
#define MI_IS_TRACK_VALGRIND 1
#else
#define MI_IS_TRACK_VALGRIND 0
#endif
// 1 if the library itself looks for writes outside of blocks.
#if defined(MI_PADDING) && MI_PADDING
#define MI_IS_PADDED 1
#else
#define MI_IS_PADDED 0
#endif
// 1 if memory inside pages may go back: hole.c. Tools and patterns need the memory of free blocks;
// on WebAssembly no memory ever goes back.
#define MI_HAS_HOLES (!MI_IS_TRACKED && !MI_IS_TAGGED && !MI_IS_WASM)
// 1 if memory behind the blocks of a page may go back: tail.c.
#define MI_HAS_TAILS MI_HAS_HOLES
// 1 if chunks may be copied into huge pages: collapse.c. WebAssembly has none.
#define MI_HAS_COLLAPSE (!MI_IS_WASM)
// 1 if sizes share classes where there are few blocks: split.c. What a build watches behind a block
// is the further away the larger the block is.
#define MI_HAS_SPLIT (!MI_IS_TRACKED && !MI_IS_TAGGED && !MI_IS_SECURE)
// 1 if blocks are counted by size: census.h.
#define MI_HAS_CENSUS MI_IS_PADDED
// 1 if a theap of another thread, and a heap that has ended, are noticed where they are used.
#define MI_HAS_USE_CHECK (MI_IS_PADDED || MI_DEBUG >= 1)
// 1 if there are notes on blocks.
#define MI_IS_TRACKED (MI_IS_TRACK_ASAN || MI_IS_TRACK_VALGRIND || MI_IS_PADDED)

// 1 if the library knows exactly what each block is (mark.h), and from which level on what else.
#if defined(MI_SECURE)
#define MI_SECURE_LEVEL MI_SECURE
#else
#define MI_SECURE_LEVEL 0
#endif
#define MI_IS_SECURE (MI_SECURE_LEVEL >= 1)
#define MI_IS_SHUFFLED (MI_SECURE_LEVEL >= 2)
// 1 if there is an inaccessible OS page behind each large block (fence.h).
#define MI_HAS_FENCE (MI_SECURE_LEVEL >= 2)
// Bytes at the end of each page of blocks that no block has: an OS page there is inaccessible, if
// one is not larger.
#define MI_PAGE_FENCE_SIZE ((size_t)(MI_SECURE_LEVEL >= 5 ? 4096 : 0))
// 1 if there are canaries behind blocks.
#define MI_HAS_CANARY (MI_SECURE_LEVEL >= 3 && !MI_IS_PADDED)
// 1 if blocks may be cleared when they are freed, or allocated. (Those of a padded build have a
// pattern.)
#define MI_IS_CLEARED (MI_IS_SECURE && !MI_IS_PADDED)

// 1 if freed blocks may be kept for a while before they are handed out again (quarantine.h).
#define MI_HAS_QUARANTINE (MI_SECURE_LEVEL >= 4 && !MI_IS_PADDED)

// 1 if memory is tagged, where processor and system can do that.
#if defined(MI_MTE) && MI_MTE
#define MI_IS_TAGGED 1
#else
#define MI_IS_TAGGED 0
#endif

// 1 if the system is taken for one that has nothing but POSIX (os/os_plain.c); and if there is no
// thread-local storage that does without malloc (os/thread_self.h).
#if (defined(MI_OS_PLAIN) && MI_OS_PLAIN) || MI_IS_ONLY_POSIX
#define MI_IS_OS_PLAIN 1
#else
#define MI_IS_OS_PLAIN 0
#endif
#if MI_IS_OS_PLAIN || MI_IS_TLS_EMULATED
#define MI_HAS_SELF_TABLE 1
#else
#define MI_HAS_SELF_TABLE 0
#endif

#if defined(MI_SKIP_COLLECT_ON_EXIT) && MI_SKIP_COLLECT_ON_EXIT
#define MI_IS_COLLECTED_ON_EXIT 0
#else
#define MI_IS_COLLECTED_ON_EXIT (MI_DEBUG >= 1 || MI_IS_PADDED)
#endif

// 1 if the library itself is built with ThreadSanitizer.
#if defined(__SANITIZE_THREAD__)
#define MI_IS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MI_IS_TSAN 1
#endif
#endif
#if !defined(MI_IS_TSAN)
#define MI_IS_TSAN 0
#endif

// Print errors by default; end the process when there is no memory.
#if !defined(MI_SHOW_ERRORS)
#define MI_SHOW_ERRORS (MI_DEBUG >= 1 || MI_IS_TRACKED || MI_IS_SECURE || MI_IS_TAGGED)
#endif
#if !defined(MI_XMALLOC)
#define MI_XMALLOC 0
#endif

#if defined(MI_PREFIX)
#define MI_QUOTE_WORD(word) #word
#define MI_QUOTE(macro) MI_QUOTE_WORD(macro)
#define MI_ENVIRONMENT_PREFIX MI_QUOTE(MI_PREFIX)
#else
#define MI_ENVIRONMENT_PREFIX "mimalloc_"
#endif

#define MI_KIB ((size_t)1024)
#define MI_MIB (MI_KIB * MI_KIB)
#define MI_GIB (MI_MIB * MI_KIB)

// A slice is the unit in which arenas hand out memory; a window is the range of addresses that
// shares one table of page descriptors; a chunk is what one huge OS page backs.
// An arena grows by MI_ARENA_STEP_MIN, or by a part of what is reserved (one in
// MI_ARENA_STEP_PART).
#if MI_IS_TINY
#define MI_SLICE_SHIFT 12
#define MI_WINDOW_SHIFT 24
#define MI_ARENA_RESERVE_KIB 1024
#define MI_ARENA_STEP_MIN (64 * MI_KIB)
#define MI_ARENA_STEP_PART 8
#define MI_NEAR_SLICES ((size_t)128)
#define MI_CARVE_MAX_BYTES ((size_t)512)
#elif MI_IS_WASM // what is mapped is used up, touched or not; the table of a window is an OS page
#define MI_SLICE_SHIFT 16
#define MI_WINDOW_SHIFT 25
#define MI_ARENA_RESERVE_KIB (1024 * 1024)
#define MI_ARENA_STEP_MIN (256 * MI_KIB)
#define MI_ARENA_STEP_PART 32
#define MI_NEAR_SLICES ((size_t)1) // no arena is near
#define MI_CARVE_MAX_BYTES ((size_t)16 * MI_KIB)
#else
#define MI_SLICE_SHIFT 16
#if MI_IS_32_BIT // addresses are scarce
#define MI_WINDOW_SHIFT 26
#define MI_ARENA_RESERVE_KIB (64 * 1024)
#else
#define MI_WINDOW_SHIFT 30
#define MI_ARENA_RESERVE_KIB (1024 * 1024)
#endif
#define MI_ARENA_STEP_MIN MI_MIB
#define MI_ARENA_STEP_PART 8
#define MI_NEAR_SLICES ((size_t)512)
#define MI_CARVE_MAX_BYTES ((size_t)16 * MI_KIB)
#endif

// Addresses of user space that a window table covers (64-bit Linux hands out at most this many bits
// unless asked for more).
#if MI_IS_32_BIT
#define MI_ADDRESS_BITS 32
#elif defined(__aarch64__)
#define MI_ADDRESS_BITS 48
#else
#define MI_ADDRESS_BITS 47
#endif

static mi_attr_inline bool mi_is_address(const void* p) {
  return (uint64_t)(uintptr_t)p >> MI_ADDRESS_BITS == 0;
}

#define MI_SLICE_SIZE ((size_t)1 << MI_SLICE_SHIFT)
#define MI_WINDOW_SIZE ((size_t)1 << MI_WINDOW_SHIFT)
#define MI_WINDOW_SLICES ((size_t)1 << (MI_WINDOW_SHIFT - MI_SLICE_SHIFT))
#define MI_WINDOW_COUNT ((size_t)1 << (MI_ADDRESS_BITS - MI_WINDOW_SHIFT))
#define MI_CHUNK_SLICES ((size_t)32)
#define MI_CHUNK_SIZE (MI_CHUNK_SLICES * MI_SLICE_SIZE)
// The library itself contains descriptors for this many bytes at the start of one window:
// pagemap.h.
#define MI_NEAR_SIZE (MI_NEAR_SLICES * MI_SLICE_SIZE)

// Sizes up to here are found through the theap's byte table (see sizeclass.h). A program that mixes
// sizes on both sides pays for a wrong prediction at every second malloc (16 to 2,000 bytes,
// replaced: 1.3 of the time with 1,024). With twice as long a table a theap needs two OS pages.
#define MI_SMALL_MAX_LOG2 12
#define MI_SMALL_MAX ((size_t)1 << MI_SMALL_MAX_LOG2)
// Largest block that has a size class.
#define MI_CLASS_MAX (MI_SLICE_SIZE * 8)
#define MI_CLASS_MAX_LOG2 (MI_SLICE_SHIFT + 3)

// Requests above this fail before any other work (in larger objects a ptrdiff_t would overflow).
#define MI_REQUEST_MAX ((size_t)PTRDIFF_MAX - MI_WINDOW_SIZE)

mi_static_assert(MI_IS_TRACK_ASAN + MI_IS_TRACK_VALGRIND + MI_IS_PADDED <= 1, "one at a time");
mi_static_assert(!MI_IS_SECURE || MI_IS_TRACK_ASAN + MI_IS_TRACK_VALGRIND == 0, "tools see links");
mi_static_assert(!MI_IS_TAGGED || !MI_IS_SECURE + !MI_IS_TRACKED == 2, "they write behind blocks");
mi_static_assert(sizeof(void*) == 8 || sizeof(void*) == 4, "addresses have 32 or 64 bits");
mi_static_assert(MI_WINDOW_SHIFT > MI_SLICE_SHIFT + 6, "a window holds many slices");

#endif
