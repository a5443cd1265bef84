// SPDX-License-Identifier: MIT
// soak.h - what the files of the soak share.
//
//   soak.c    arguments, the cycles of phases, the sampler, the end
//   blocks.c  the shadow model: blocks whose contents are known, and shelves of them
//   phases.c  what any malloc can do
//   own.c     what only this library has: heaps, arenas, sub-processes
//   plain.c   in its place in a program that is linked with no allocator, for a preloaded one
//
// Our own tables are mapped and touched before the first sample: what grows later is the
// allocator's.
#ifndef SOAK_H
#define SOAK_H

#include <pthread.h>

#include "load.h"

// -- blocks.c --

typedef struct soak_block_s {
  uint8_t* p; // NULL: none
  size_t size;
  uint8_t mark; // of its contents, see load.h
} soak_block_t;

// Sizes are spread evenly over the powers of two from 2^low to 2^high.
typedef struct soak_sizes_s {
  unsigned low, high;
} soak_sizes_t;

size_t soak_size(uint64_t* random, soak_sizes_t sizes);
size_t soak_request_size(uint64_t* random); // as servers ask: mostly small, few up to 2 MiB

// Fill and count a block that the caller allocated.
soak_block_t soak_adopt(void* p, size_t size, uint64_t* random);
// Its contents are right, and it is not counted any more; who owns it frees it.
void soak_forget(soak_block_t block);

soak_block_t soak_make(uint64_t* random, size_t size); // in one of the ways of the C library
void soak_resize(soak_block_t* block, uint64_t* random, size_t size);
void soak_drop(soak_block_t block); // NULL is fine

size_t soak_live(void); // bytes asked for and not yet dropped
size_t soak_made(void); // blocks so far

// Places that any thread may put blocks into and take others' out of.
typedef struct soak_shelf_s {
  pthread_mutex_t lock;
  size_t count;
  soak_block_t* block;
} soak_shelf_t;

void soak_shelf_open(soak_shelf_t* shelf, size_t count);
soak_block_t soak_shelf_swap(soak_shelf_t* shelf, uint64_t* random, soak_block_t block);
void soak_shelf_clear(soak_shelf_t* shelf);

// Memory that is no allocator's, populated; all zero.
void* soak_map(size_t size);

// -- phases.c --

// One phase of one cycle, or one thread of it.
typedef struct soak_turn_s {
  uint64_t deadline_ms;
  uint64_t random;
  size_t index; // of the thread
} soak_turn_t;

typedef struct soak_phase_s {
  const char* name;
  void (*run)(soak_turn_t* turn);
  unsigned parts; // of the time of a cycle
} soak_phase_t;

static inline bool soak_is_over(const soak_turn_t* turn) {
  return load_now_ms() >= turn->deadline_ms;
}

// Threads that run `body` with a turn of their own until they end.
void soak_threads(const soak_turn_t* turn, size_t count, void* (*body)(void*));
pthread_t soak_start(void* (*body)(void*), void* argument);

void soak_request(uint64_t* random); // what a server does all the time
void* soak_serve(void* turn); // requests until the turn is over
void soak_quiet(soak_turn_t* turn); // the phase at the end of each cycle

extern const soak_phase_t soak_phases[];
extern const size_t soak_phase_count;
void soak_open(void); // our own tables
void soak_fill(uint64_t* random); // what lives all the time
void soak_check_eternal(void);
void soak_close(void);

// -- own.c and plain.c --

extern const soak_phase_t soak_own_phases[];
extern const size_t soak_own_phase_count;
void soak_own_open(void);
void soak_collect(bool is_forced);
size_t soak_committed(void); // bytes

#endif
