// An allocator of the program's own, with a word in front of each block by which it knows its
// blocks again: one of anybody else ends the process. OWN_MALLOC defines the four names without
// which there is none, OWN_ALIGNED the rest of what glibc's manual lists for a replacement.
#ifndef OWN_H
#define OWN_H

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../lib/check.h"

#ifdef __cplusplus
#define OWN extern "C"
#else
#define OWN
#endif

#define OWN_MAGIC ((size_t)0x0123456789abcdef)

struct own_header {
  size_t size, magic;
};

static char own_pool[1 << 24] __attribute__((aligned(65536)));
static size_t own_used;

static inline int own_has(const void* p) {
  return (const char*)p >= own_pool && (const char*)p < own_pool + sizeof(own_pool);
}

static inline struct own_header* own_header(const void* p) {
  struct own_header* header = (struct own_header*)p - 1;
  if (!own_has(p)) FAIL("a block of another allocator, or a block of ours without its header");
  if (header->magic != OWN_MAGIC) FAIL("not the start of a block");
  return header;
}

static inline void* own_allocate(size_t alignment, size_t size) {
  const size_t offset = __atomic_fetch_add(&own_used, size + 2 * alignment + 32, __ATOMIC_RELAXED);
  if (offset + size + 2 * alignment + 32 > sizeof(own_pool)) FAIL("the pool is too small");
  const uintptr_t start = (uintptr_t)own_pool + offset + sizeof(struct own_header);
  void* p = (void*)((start + alignment - 1) / alignment * alignment);
  ((struct own_header*)p)[-1] = (struct own_header){size, OWN_MAGIC};
  return p;
}

#if defined(OWN_MALLOC)
OWN void* malloc(size_t size) { return own_allocate(16, size); }
OWN void free(void* p) {
  if (p != NULL) own_header(p)->magic = 0;
}
OWN void* calloc(size_t count, size_t size) {
  return own_allocate(16, count * size);
} /* never used before */
OWN void* realloc(void* p, size_t size) {
  if (p == NULL) return malloc(size);
  const size_t old = own_header(p)->size;
  void* q = malloc(size);
  memcpy(q, p, old < size ? old : size);
  free(p);
  return q;
}
#if defined(OWN_ALIGNED)
OWN void* memalign(size_t alignment, size_t size) {
  return own_allocate(alignment < 16 ? 16 : alignment, size);
}
OWN void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
OWN int posix_memalign(void** p, size_t alignment, size_t size) {
  *p = memalign(alignment, size);
  return 0;
}
OWN void* valloc(size_t size) { return memalign(4096, size); }
OWN void* pvalloc(size_t size) { return memalign(4096, (size + 4095) / 4096 * 4096); }
OWN size_t malloc_usable_size(void* p) { return p == NULL ? 0 : own_header(p)->size; }
#endif
#endif

#endif
