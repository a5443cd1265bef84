// SPDX-License-Identifier: MIT
// stack.c - how much stack malloc and free need, at most: prints the bytes of each kind of work.
//
// Each kind runs on a stack of its own, which is filled with a pattern before. What lies below the
// lowest byte that has changed was not needed. All symbols must be bound when the program starts:
// the loader would do that on the same stack.
#include "figures.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>

#define STACK_SIZE ((size_t)256 * 1024)
#define STACK_PATTERN 0xA5
#define BLOCKS_MAX ((size_t)60000)

static uint8_t* stack;
static ucontext_t caller;
static void* blocks[BLOCKS_MAX];
static uint64_t chance = 1;

static void replace(size_t count, size_t size_max) {
  for (size_t i = 0; i < 5 * count; i++) {
    void** const block = &blocks[random_below(&chance, count)];
    const size_t size = 1 + random_below(&chance, size_max);
    if (*block != NULL && i % 4 == 0) {
      *block = realloc(*block, size);
    } else {
      free(*block);
      *block = i % 3 == 0 ? NULL : i % 8 == 0 ? calloc(1, size) : malloc(size);
    }
    if (*block != NULL) *(volatile uint8_t*)*block = 1;
  }
}

static void job_nothing(void) { getppid(); }
static void job_small(void) { replace(BLOCKS_MAX, 2000); }
static void job_large(void) { replace(1000, 300000); }

static void job_huge(void) {
  for (size_t i = 0; i < 20; i++) {
    void* const block = malloc(20 * FIGURES_MIB);
    figures_fill(block, 20 * FIGURES_MIB);
    free(blocks[i]);
    blocks[i] = block;
  }
}

static void job_aligned(void) {
  for (size_t i = 0; i < 5000; i++) {
    void** const block = &blocks[random_below(&chance, 1000)];
    free(*block);
    const size_t alignment = (size_t)64 << random_below(&chance, 14);
    if (posix_memalign(block, alignment, random_below(&chance, 100000)) != 0) abort();
  }
}

// Until there is no memory: before malloc says so, all that is unused is given up.
static void job_refused(void) {
  const struct rlimit limit = {64 * FIGURES_MIB, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) abort();
  void* newest = NULL;
  void** block;
  for (; (block = malloc(50 * FIGURES_MIB)) != NULL; newest = block) *block = newest;
  for (; newest != NULL; newest = block) {
    block = *(void**)newest;
    free(newest);
  }
}

static void job_free(void) {
  for (size_t i = 0; i < BLOCKS_MAX; i++) {
    free(blocks[i]);
    blocks[i] = NULL;
  }
}

static void* thread_run(void* unused) {
  (void)unused;
  replace(1000, 2000);
  return NULL;
}

static void job_thread(void) {
  pthread_t id;
  if (pthread_create(&id, NULL, &thread_run, NULL) != 0 || pthread_join(id, NULL) != 0) abort();
  job_small();
}

static void measure(const char* name, void (*job)(void)) {
  ucontext_t there;
  memset(stack, STACK_PATTERN, STACK_SIZE);
  if (getcontext(&there) != 0) abort();
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = STACK_SIZE;
  there.uc_link = &caller;
  makecontext(&there, job, 0);
  if (swapcontext(&caller, &there) != 0) abort();
  size_t untouched = 0;
  while (untouched < STACK_SIZE && stack[untouched] == STACK_PATTERN) untouched++;
  printf("%s %zu\n", name, STACK_SIZE - untouched);
}

int main(void) {
  stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) abort();
  measure("nothing", &job_nothing);
  measure("small", &job_small);
  measure("large", &job_large);
  measure("huge", &job_huge);
  measure("aligned", &job_aligned);
  measure("free", &job_free);
  measure("thread", &job_thread);
  measure("refused", &job_refused);
  return 0;
}
