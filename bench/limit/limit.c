// SPDX-License-Identifier: MIT
// limit.c - the allocator that does the least work that could be correct. Not an allocator to
// use: it is preloaded under the benchmark to show the distance between real allocators and the
// possible.
//
// One address range is reserved at start and aligned to 4 GiB. Its first part is for blocks of up
// to 4 MiB: bits 24 to 31 of an address are the size class of the block there, so that free needs
// neither header nor table. The rest is for larger blocks, each at a multiple of 4 GiB: those
// bits are 0, as they are in NULL, and one branch finds both.
//
//   address   | 4 GiB unit | class, 8 bits | chunk in stripe, 2 bits | offset in chunk, 22 bits |
//
// LIMIT-1  a thread has one linked stack of free blocks per class; only that thread touches it
// LIMIT-2  a chunk (4 MiB) of a class belongs to the thread that took it, which cuts blocks from it
//     in order
// LIMIT-3  stack 0 is always empty, so malloc(0) goes the slow way, always
//
// Left out, and this is why it is fast: a block stays with the thread that freed it (one that only
// allocates grows without bound, and what a thread holds is lost when it ends); blocks of up to 4
// MiB are never given back to the system, nor split, nor joined; a block never shrinks; a double
// free or a foreign pointer is not noticed; no statistics, no security, no fork protection;
// valloc and other rare names are not exported. Needs 48 TiB of address space and overcommit.
//
// Cost of the hit on x86-64 (gcc 12 -O2): malloc of up to 1024 bytes 11 instructions, of up to 4
// MiB 18; free 9; `ret` included.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LIMIT_UNIT ((size_t)1 << 32)
#define LIMIT_STRIPE ((size_t)1 << 24)
#define LIMIT_CHUNK ((size_t)1 << 22)
#define LIMIT_CHUNKS_PER_STRIPE (LIMIT_STRIPE / LIMIT_CHUNK)
#define LIMIT_SMALL_MAX ((size_t)1024)
#define LIMIT_MEDIUM_MAX LIMIT_CHUNK
#define LIMIT_CLASS_COUNT 113 // 0 is none; 64 in steps of 16 bytes; then 4 per power of two
#define LIMIT_BLOCK_UNITS ((size_t)4096)
#define LIMIT_LARGE_UNITS ((size_t)8192)

#define LIMIT_EXPORT __attribute__((visibility("default")))
#define LIMIT_SLOW __attribute__((noinline, cold))
#define limit_unlikely(x) __builtin_expect((x), 0)

typedef struct limit_block_s {
  struct limit_block_s* next;
} limit_block_t;

typedef struct limit_thread_s {
  limit_block_t* stack[LIMIT_CLASS_COUNT];
  char* cursor[LIMIT_CLASS_COUNT]; // first byte of the chunk that is in no block yet
  char* end[LIMIT_CLASS_COUNT];
} limit_thread_t;

static __thread limit_thread_t limit_thread __attribute__((tls_model("initial-exec")));

static _Atomic(char*) limit_base; // of the range; NULL until the first block
static atomic_size_t limit_chunk_count[LIMIT_CLASS_COUNT]; // chunks handed out

static atomic_flag limit_large_lock = ATOMIC_FLAG_INIT; // for the next three
static size_t limit_large_used; // units handed out once
static size_t limit_large_free[LIMIT_LARGE_UNITS]; // stack of free units
static size_t limit_large_free_count;

static size_t limit_large_size[LIMIT_LARGE_UNITS]; // bytes of the block that starts in a unit

// ---- Sizes ----

static inline size_t limit_medium_class(size_t size) {
  const size_t last = size - 1;
  const size_t power = 63u ^ (size_t)__builtin_clzll(last);
  const size_t quarter = last >> (power - 2); // 4 to 7
  return 65 + (power - 10) * 4 + (quarter - 4);
}

static inline size_t limit_class_size(size_t class_index) {
  if (class_index <= 64) return class_index * 16;
  const size_t step = class_index - 65;
  return (5 + step % 4) << (8 + step / 4);
}

static inline size_t limit_class_of(const void* p) { return (uint32_t)(uintptr_t)p >> 24; }

// ---- The range ----

static LIMIT_SLOW char* limit_reserve(void) {
  const size_t size = (LIMIT_BLOCK_UNITS + LIMIT_LARGE_UNITS) * LIMIT_UNIT;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const range = mmap(NULL, size + LIMIT_UNIT, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (range == MAP_FAILED) return NULL;
  const uintptr_t aligned = ((uintptr_t)range + LIMIT_UNIT - 1) & ~(uintptr_t)(LIMIT_UNIT - 1);
  char* expected = NULL;
  // Two threads may come here at once: the second one's range is given back.
  if (!atomic_compare_exchange_strong(&limit_base, &expected, (char*)aligned)) {
    munmap(range, size + LIMIT_UNIT);
    return expected;
  }
  return (char*)aligned;
}

static char* limit_range(void) {
  char* const base = atomic_load_explicit(&limit_base, memory_order_acquire);
  return base != NULL ? base : limit_reserve();
}

// ---- Large blocks: whole units, given back to the system when freed, so always zero ----

static void limit_large_enter(void) {
  while (atomic_flag_test_and_set_explicit(&limit_large_lock, memory_order_acquire)) {
  }
}

static void limit_large_leave(void) {
  atomic_flag_clear_explicit(&limit_large_lock, memory_order_release);
}

static size_t limit_large_units(size_t size) { return (size + LIMIT_UNIT - 1) / LIMIT_UNIT; }

static size_t limit_large_unit(const void* p) {
  return (size_t)((const char*)p - limit_range()) / LIMIT_UNIT - LIMIT_BLOCK_UNITS;
}

static LIMIT_SLOW void* limit_large_alloc(size_t size) {
  char* const base = limit_range();
  if (base == NULL || size > LIMIT_LARGE_UNITS * LIMIT_UNIT) return NULL;
  const size_t units = limit_large_units(size);
  size_t unit = LIMIT_LARGE_UNITS;
  limit_large_enter();
  if (units == 1 && limit_large_free_count > 0) {
    unit = limit_large_free[--limit_large_free_count];
  } else if (units <= LIMIT_LARGE_UNITS - limit_large_used) {
    unit = limit_large_used;
    limit_large_used += units;
  }
  limit_large_leave();
  if (unit == LIMIT_LARGE_UNITS) return NULL;
  limit_large_size[unit] = size;
  return base + (LIMIT_BLOCK_UNITS + unit) * LIMIT_UNIT;
}

static LIMIT_SLOW void limit_large_release(void* p) {
  if (p == NULL) return;
  const size_t unit = limit_large_unit(p);
  const size_t size = limit_large_size[unit];
  madvise(p, size, MADV_DONTNEED);
  limit_large_enter();
  for (size_t i = 0; i < limit_large_units(size); i++) {
    limit_large_free[limit_large_free_count++] = unit + i;
  }
  limit_large_leave();
}

// ---- Blocks of up to 4 MiB ----

// The stack of the class is empty: cut a block from the chunk, or take a chunk.
static LIMIT_SLOW void* limit_refill(size_t class_index) {
  limit_thread_t* const thread = &limit_thread;
  const size_t size = limit_class_size(class_index);
  char* p = thread->cursor[class_index];
  if ((size_t)(thread->end[class_index] - p) < size) {
    char* const base = limit_range();
    const size_t chunk = atomic_fetch_add(&limit_chunk_count[class_index], 1);
    const size_t unit = chunk / LIMIT_CHUNKS_PER_STRIPE;
    if (base == NULL || unit >= LIMIT_BLOCK_UNITS) return NULL;
    p = base + unit * LIMIT_UNIT + class_index * LIMIT_STRIPE +
        chunk % LIMIT_CHUNKS_PER_STRIPE * LIMIT_CHUNK;
    thread->end[class_index] = p + LIMIT_CHUNK;
  }
  thread->cursor[class_index] = p + size;
  return p;
}

static LIMIT_SLOW void* limit_alloc_slow(size_t size, size_t class_index) {
  void* p;
  if (size > LIMIT_MEDIUM_MAX) {
    p = limit_large_alloc(size);
  } else {
    p = limit_refill(size == 0 ? 1 : class_index);
  }
  if (p == NULL) errno = ENOMEM;
  return p;
}

static inline void* limit_alloc(size_t size) {
  size_t class_index;
  if (size <= LIMIT_SMALL_MAX) {
    class_index = (size + 15) / 16;
  } else if (size <= LIMIT_MEDIUM_MAX) {
    class_index = limit_medium_class(size);
  } else {
    return limit_alloc_slow(size, 0);
  }
  limit_block_t* const block = limit_thread.stack[class_index];
  if (limit_unlikely(block == NULL)) return limit_alloc_slow(size, class_index);
  limit_thread.stack[class_index] = block->next;
  return block;
}

static inline void limit_release(void* p) {
  const size_t class_index = limit_class_of(p);
  if (limit_unlikely(class_index == 0)) {
    limit_large_release(p);
    return;
  }
  limit_block_t* const block = (limit_block_t*)p;
  block->next = limit_thread.stack[class_index];
  limit_thread.stack[class_index] = block;
}

static size_t limit_usable(const void* p) {
  const size_t class_index = limit_class_of(p);
  if (class_index != 0) return limit_class_size(class_index);
  return p == NULL ? 0 : limit_large_size[limit_large_unit(p)];
}

// A block of a power of two bytes lies at a multiple of its size, and a large one at one of 4 GiB.
static void* limit_alloc_aligned(size_t alignment, size_t size) {
  size_t bytes = size > alignment ? size : alignment;
  if (alignment > LIMIT_UNIT) return NULL;
  if (alignment <= 16 || bytes > LIMIT_MEDIUM_MAX) return limit_alloc(bytes);
  while ((bytes & (bytes - 1)) != 0) bytes = (bytes | (bytes - 1)) + 1;
  return limit_alloc(bytes);
}

// ---- Exported ----

LIMIT_EXPORT void* malloc(size_t size) { return limit_alloc(size); }

LIMIT_EXPORT void free(void* p) { limit_release(p); }

LIMIT_EXPORT void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  void* const p = limit_alloc(bytes);
  if (p != NULL && bytes <= LIMIT_MEDIUM_MAX) memset(p, 0, bytes);
  return p;
}

LIMIT_EXPORT void* realloc(void* p, size_t size) {
  if (p == NULL) return limit_alloc(size);
  if (size == 0) {
    limit_release(p);
    return NULL;
  }
  const size_t usable = limit_usable(p);
  if (size <= usable) return p;
  if (limit_class_of(p) == 0 && limit_large_units(size) == limit_large_units(usable)) {
    limit_large_size[limit_large_unit(p)] = size;
    return p;
  }
  void* const moved = limit_alloc(size);
  if (moved != NULL) {
    memcpy(moved, p, usable);
    limit_release(p);
  }
  return moved;
}

LIMIT_EXPORT int posix_memalign(void** out, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  const int before = errno;
  void* const p = limit_alloc_aligned(alignment, size);
  errno = before;
  if (p == NULL) return ENOMEM;
  *out = p;
  return 0;
}

LIMIT_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    errno = EINVAL;
    return NULL;
  }
  return limit_alloc_aligned(alignment, size);
}

LIMIT_EXPORT void* memalign(size_t alignment, size_t size) {
  return aligned_alloc(alignment, size);
}

LIMIT_EXPORT size_t malloc_usable_size(void* p) { return limit_usable(p); }
