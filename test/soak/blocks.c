// SPDX-License-Identifier: MIT
// blocks.c - the shadow model of the soak: each block's contents follow from its mark and size,
// which are kept elsewhere, so that a block that is given out twice, cut or not copied is seen when
// it is dropped.
#include "soak.h"

#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define SOAK_COUNTERS 16
#define SOAK_ALIGNMENT_MAX_LOG2 16

// One would be a line that all threads write.
typedef struct soak_counter_s {
  _Alignas(64) _Atomic(int64_t) bytes; // of some threads: may be negative, the sum is not
  _Atomic(int64_t) made;
} soak_counter_t;

static soak_counter_t soak_counter[SOAK_COUNTERS];

static soak_counter_t* soak_counter_self(void) {
  return &soak_counter[(uintptr_t)pthread_self() >> 12 & (SOAK_COUNTERS - 1)];
}

static size_t soak_sum(size_t offset) {
  int64_t sum = 0;
  for (size_t i = 0; i < SOAK_COUNTERS; i++) {
    sum += atomic_load((_Atomic(int64_t)*)(uintptr_t)((uint8_t*)&soak_counter[i] + offset));
  }
  return sum > 0 ? (size_t)sum : 0;
}

size_t soak_live(void) { return soak_sum(offsetof(soak_counter_t, bytes)); }
size_t soak_made(void) { return soak_sum(offsetof(soak_counter_t, made)); }

void* soak_map(size_t size) {
  void* const p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_NORESERVE, -1, 0);
  CHECK_SAY(p != MAP_FAILED, "no memory for the tables of the soak: %zu bytes", size);
  return p;
}

size_t soak_size(uint64_t* random, soak_sizes_t sizes) {
  const size_t power = (size_t)1 << (sizes.low + random_below(random, sizes.high - sizes.low));
  return power + random_below(random, power);
}

size_t soak_request_size(uint64_t* random) {
  const size_t of_1000 = random_below(random, 1000);
  if (of_1000 < 900) return soak_size(random, (soak_sizes_t){3, 9});
  if (of_1000 < 990) return soak_size(random, (soak_sizes_t){9, 14});
  if (of_1000 < 999) return soak_size(random, (soak_sizes_t){14, 18});
  return soak_size(random, (soak_sizes_t){18, 21});
}

soak_block_t soak_adopt(void* p, size_t size, uint64_t* random) {
  CHECK_SAY(p != NULL, "no memory for %zu bytes", size);
  const soak_block_t block = {(uint8_t*)p, size, (uint8_t)random_next(random)};
  load_fill(p, size, block.mark);
  soak_counter_t* const counter = soak_counter_self();
  atomic_fetch_add_explicit(&counter->bytes, (int64_t)size, memory_order_relaxed);
  atomic_fetch_add_explicit(&counter->made, 1, memory_order_relaxed);
  return block;
}

void soak_forget(soak_block_t block) {
  load_verify(block.p, block.size, block.mark);
  atomic_fetch_sub_explicit(&soak_counter_self()->bytes, (int64_t)block.size, memory_order_relaxed);
}

static void* soak_zeroed(size_t size) {
  uint8_t* const bytes = (uint8_t*)calloc(1, size);
  for (size_t i = 0; bytes != NULL && i < size; i += load_step(i, size)) {
    CHECK_SAY(bytes[i] == 0, "calloc of %zu: byte %zu is %u", size, i, bytes[i]);
  }
  return bytes;
}

static void* soak_aligned(size_t size, uint64_t* random) {
  const size_t alignment = (size_t)8 << random_below(random, SOAK_ALIGNMENT_MAX_LOG2 - 2);
  void* p = NULL;
  if (posix_memalign(&p, alignment, size) != 0) return NULL;
  CHECK_SAY((uintptr_t)p % alignment == 0, "%p is not aligned to %zu", p, alignment);
  return p;
}

soak_block_t soak_make(uint64_t* random, size_t size) {
  const size_t way = random_below(random, 32);
  void* const p = way == 0  ? soak_aligned(size, random)
                  : way < 6 ? soak_zeroed(size)
                            : malloc(size);
  return soak_adopt(p, size, random);
}

void soak_resize(soak_block_t* block, uint64_t* random, size_t size) {
  uint8_t* const p = (uint8_t*)realloc(block->p, size);
  CHECK_SAY(p != NULL, "no memory to make %zu bytes of %zu", size, block->size);
  for (size_t i = 0; i < block->size && i < size; i += load_step(i, block->size)) {
    CHECK_SAY(p[i] == (uint8_t)(block->mark + i * 7), "realloc from %zu to %zu: byte %zu is %u",
              block->size, size, i, p[i]);
  }
  atomic_fetch_sub_explicit(&soak_counter_self()->bytes, (int64_t)block->size,
                            memory_order_relaxed);
  *block = soak_adopt(p, size, random);
}

void soak_drop(soak_block_t block) {
  if (block.p == NULL) return;
  soak_forget(block);
  free(block.p);
}

void soak_shelf_open(soak_shelf_t* shelf, size_t count) {
  pthread_mutex_init(&shelf->lock, NULL);
  shelf->count = count;
  shelf->block = (soak_block_t*)soak_map(count * sizeof(soak_block_t));
}

soak_block_t soak_shelf_swap(soak_shelf_t* shelf, uint64_t* random, soak_block_t block) {
  const size_t i = random_below(random, shelf->count);
  pthread_mutex_lock(&shelf->lock);
  const soak_block_t old = shelf->block[i];
  shelf->block[i] = block;
  pthread_mutex_unlock(&shelf->lock);
  return old;
}

void soak_shelf_clear(soak_shelf_t* shelf) {
  for (size_t i = 0; i < shelf->count; i++) {
    soak_drop(shelf->block[i]);
    shelf->block[i].p = NULL;
  }
}
