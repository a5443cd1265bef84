// SPDX-License-Identifier: MIT
// check.c - does the preloaded library serve this process, and survive a little of everything?
//
// Prints "NAME FILE" for each of libc's functions: the file that serves it. Then threads allocate,
// grow, align and free each other's blocks, and when they ended the process forks and the child
// allocates too. (Not while they run: two of the peers have locks that a child then waits for
// without end.) Exits with 1 and a message if a block is not what it should be.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, SLOTS = 256, STEPS = 40000, FORKS = 10 };

typedef struct block {
  unsigned char* bytes;
  size_t size;
} block_t;

static block_t exchange[SLOTS]; // blocks go from thread to thread through here
static pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char* what, size_t size) {
  fprintf(stderr, "check: %s (size %zu)\n", what, size);
  _exit(1);
}

static uint32_t random_next(uint32_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

// From 1: what a size of 0 gives is up to the allocator.
static size_t random_size(uint32_t* state) {
  const uint32_t kind = random_next(state) % 1000;
  const uint32_t value = random_next(state);
  return 1 + (kind == 0 ? value % 3000000 : kind < 50 ? value % 40000 : value % 500);
}

static unsigned char mark_of(size_t size) { return (unsigned char)(size * 31 + 7); }

static void fill(block_t block) {
  if (block.size) {
    memset(block.bytes, mark_of(block.size), block.size);
  }
}

static void verify(block_t block, const char* what) {
  for (size_t i = 0; i < block.size; i += i < 64 || i + 64 > block.size ? 1 : 61) {
    if (block.bytes[i] != mark_of(block.size)) {
      fail(what, block.size);
    }
  }
}

static void* aligned_block(size_t size, uint32_t pick) {
  // Up to 128: mimalloc 2.0.9 gets larger ones wrong, and is worth comparing with all the same.
  const size_t alignment = (size_t)16 << (pick >> 8) % 4;
  void* p = NULL;
  switch (pick % 3) {
    case 0:
      p = memalign(alignment, size);
      break;
    case 1:
      p = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
      break;
    default:
      if (posix_memalign(&p, alignment, size) != 0) {
        p = NULL;
      }
  }
  if (p == NULL || (uintptr_t)p % alignment != 0) {
    fail("aligned allocation failed or is not aligned", size);
  }
  return p;
}

static block_t new_block(uint32_t* state) {
  block_t block = {NULL, random_size(state)};
  const uint32_t kind = random_next(state) % 10;
  if (kind == 0) {
    block.bytes = aligned_block(block.size, random_next(state));
  } else if (kind < 3) {
    block.bytes = calloc(1, block.size);
    for (size_t i = 0; block.bytes != NULL && i < block.size; i++) {
      if (block.bytes[i] != 0) {
        fail("calloc gave memory that is not zero", block.size);
      }
    }
  } else {
    block.bytes = malloc(block.size);
  }
  if (block.bytes == NULL) {
    fail("allocation failed", block.size);
  }
  if (malloc_usable_size(block.bytes) < block.size) {
    fail("malloc_usable_size is less than the size", block.size);
  }
  fill(block);
  return block;
}

static void resize(block_t* block, size_t size) {
  const unsigned char mark = mark_of(block->size);
  const size_t kept = size < block->size ? size : block->size;
  unsigned char* const bytes = realloc(block->bytes, size);
  if (bytes == NULL) {
    fail("realloc failed", size);
  }
  for (size_t i = 0; i < kept; i += 13) {
    if (bytes[i] != mark) {
      fail("realloc lost the content", size);
    }
  }
  *block = (block_t){bytes, size};
  fill(*block);
}

static void* work(void* seed) {
  uint32_t state = (uint32_t)(uintptr_t)seed * 2654435761u + 1;
  for (int i = 0; i < STEPS; i++) {
    block_t block = new_block(&state);
    if (random_next(&state) % 4 == 0) {
      resize(&block, random_size(&state));
    }
    const size_t slot = random_next(&state) % SLOTS;
    pthread_mutex_lock(&exchange_lock);
    const block_t other = exchange[slot];
    exchange[slot] = block;
    pthread_mutex_unlock(&exchange_lock);
    if (other.bytes != NULL) {
      verify(other, "a block changed");
    }
    free(other.bytes);
  }
  return NULL;
}

static void fork_and_allocate(uint32_t seed) {
  const pid_t child = fork();
  if (child < 0) {
    fail("fork failed", 0);
  }
  if (child == 0) {
    alarm(20); // a lock that nobody holds any more
    for (int i = 0; i < 1000; i++) {
      const block_t block = new_block(&seed);
      verify(block, "a block changed in the child");
      free(block.bytes);
    }
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    fail("the child of a fork did not end well", 0);
  }
}

int main(void) {
  static const char* const names[] = {
      "malloc",         "calloc",        "realloc",  "free",
      "posix_memalign", "aligned_alloc", "memalign", "malloc_usable_size"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    Dl_info info = {0};
    void* const address = dlsym(RTLD_DEFAULT, names[i]);
    printf("%s %s\n", names[i],
           address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : "nowhere");
  }
  fflush(stdout);
  free(NULL);
  pthread_t threads[THREADS];
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < THREADS; i++) {
      if (pthread_create(&threads[i], NULL, work, (void*)(round * THREADS + i + 1)) != 0) {
        fail("no thread", i);
      }
    }
    for (size_t i = 0; i < THREADS; i++) {
      pthread_join(threads[i], NULL);
    }
    for (uint32_t i = 0; i < FORKS; i++) {
      fork_and_allocate(i + 1);
    }
  }
  for (size_t i = 0; i < SLOTS; i++) {
    if (exchange[i].bytes != NULL) {
      verify(exchange[i], "a block changed");
    }
    free(exchange[i].bytes);
  }
  return 0;
}
