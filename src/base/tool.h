// SPDX-License-Identifier: MIT
// tool.h - what we tell the tools that watch the memory of a program: AddressSanitizer, Valgrind,
// ThreadSanitizer.
//
// Such a tool knows mappings, not blocks. A build with MI_TRACK_ASAN or MI_TRACK_VALGRIND tells it
// what the program may touch; in any other build every function here is empty. core/pages/track.h
// says when these functions are called.
//
// The sanitizer's functions are weak: the library needs neither the compiler's flag nor its
// run-time, and one library serves programs of gcc and of clang, which bring their own, or none.
#ifndef MI_BASE_TOOL_H
#define MI_BASE_TOOL_H

#include "config.h"

#if MI_IS_TRACK_VALGRIND
#include <valgrind/memcheck.h>
#endif

extern void __asan_poison_memory_region(const volatile void* p, size_t size) mi_attr_weak;
extern void __asan_unpoison_memory_region(const volatile void* p, size_t size) mi_attr_weak;
extern void __asan_report_load1_noabort(void* p) mi_attr_weak;
extern void __lsan_register_root_region(const void* p, size_t size) mi_attr_weak;
extern void __lsan_unregister_root_region(const void* p, size_t size) mi_attr_weak;
extern void __tsan_release(void* p) mi_attr_weak;
extern void __tsan_acquire(void* p) mi_attr_weak;

// A function of the library that touches memory which the program must not: links in free blocks,
// notes on blocks. For Valgrind such code is between mi_tool_pause and mi_tool_resume.
#if MI_IS_TRACKED
#define mi_attr_unwatched mi_attr_unchecked
#else
#define mi_attr_unwatched mi_attr_inline
#endif

#define MI_TOOL_NAME                                                                               \
  (MI_IS_TRACK_ASAN       ? "asan"                                                                 \
   : MI_IS_TRACK_VALGRIND ? "valgrind"                                                             \
   : MI_IS_PADDED         ? "padding"                                                              \
                          : "none")

static inline void mi_tool_pause(void) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

static inline void mi_tool_resume(void) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

// Let the range be touched; its contents are undefined.
static inline void mi_tool_open(const void* p, size_t size) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_MAKE_MEM_UNDEFINED(p, size);
#endif
  if (MI_IS_TRACK_ASAN && __asan_unpoison_memory_region) __asan_unpoison_memory_region(p, size);
}

// Make touching the range a mistake.
static inline void mi_tool_close(const void* p, size_t size) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_MAKE_MEM_NOACCESS(p, size);
#endif
  if (MI_IS_TRACK_ASAN && __asan_poison_memory_region) __asan_poison_memory_region(p, size);
}

// Give the program a block in a closed range, with undefined contents / all zero.
static inline void mi_tool_give(const void* p, size_t size) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_MALLOCLIKE_BLOCK(p, size, 0, 0);
#endif
  if (MI_IS_TRACK_ASAN) mi_tool_open(p, size);
}

static inline void mi_tool_give_zero(const void* p, size_t size) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_MALLOCLIKE_BLOCK(p, size, 0, 1);
#endif
  if (MI_IS_TRACK_ASAN) mi_tool_open(p, size);
}

// Take a block back from the program.
static inline void mi_tool_take(const void* p, size_t size) {
#if MI_IS_TRACK_VALGRIND
  VALGRIND_FREELIKE_BLOCK(p, 0);
#endif
  if (MI_IS_TRACK_ASAN) mi_tool_close(p, size);
}

// Note that a block has another size now.
static inline void mi_tool_resize(const void* p, size_t old_size, size_t size) {
#if MI_IS_TRACK_VALGRIND
  if (size == 0) { // such a block does not exist for the tool
    mi_tool_take(p, old_size);
    mi_tool_give(p, size);
  } else {
    VALGRIND_RESIZEINPLACE_BLOCK(p, old_size, size, 0);
  }
#endif
  if (!MI_IS_TRACK_ASAN) return;
  mi_tool_close(p, old_size);
  mi_tool_open(p, size);
}

// Report a free of something that is no block. (Valgrind finds that out by itself.)
static inline void mi_tool_report(const void* p) {
  mi_tool_take(p, 0);
  if (MI_IS_TRACK_ASAN && __asan_report_load1_noabort)
    __asan_report_load1_noabort((void*)(uintptr_t)p);
}

// Tell the tool that blocks in the range may hold the only pointer to a block of the sanitizer's
// malloc: that is no leak then.
static inline void mi_tool_add_root(const void* p, size_t size) {
  if (MI_IS_TRACK_ASAN && __lsan_register_root_region) __lsan_register_root_region(p, size);
}

static inline void mi_tool_remove_root(const void* p, size_t size) {
  if (MI_IS_TRACK_ASAN && __lsan_unregister_root_region) __lsan_unregister_root_region(p, size);
}

// Around mappings, told to ThreadSanitizer: what a thread did with a range and its descriptors
// comes before what the thread does that gets the same addresses from the system. The system orders
// the two, and the tool does not see it. `order` is any address, the same for both.
static inline void mi_tool_before_unmap(void* order) {
  if (MI_IS_TSAN && __tsan_release) __tsan_release(order);
}

static inline void mi_tool_after_map(void* order) {
  if (MI_IS_TSAN && __tsan_acquire) __tsan_acquire(order);
}

#endif
