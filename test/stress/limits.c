// SPDX-License-Identifier: MIT
// A process with little address space runs out of memory, is told so, frees, and goes on. If this
// fails, programs under `ulimit -v` or in small containers are aborted instead of handling the
// error.
#include <errno.h>
#include <sys/resource.h>

#include "load.h"

#define LIMIT (200 * LOAD_MIB)
#define USABLE (LIMIT * 3 / 10) // as blocks, at least, before the first refusal
#define BLOCK_MAX 400000

static void* block[BLOCK_MAX];

static bool is_refused(void* p) {
  if (p != NULL) return false;
  CHECK_SAY(errno == ENOMEM, "errno is %d", errno);
  return true;
}

// Allocate blocks of `size` until there are no more; all must be usable.
static size_t exhaust(size_t size) {
  size_t count = 0;
  while (count < BLOCK_MAX) {
    errno = 0;
    void* const p = malloc(size);
    if (is_refused(p)) break;
    load_fill(p, size, (uint8_t)count);
    block[count++] = p;
  }
  return count;
}

static void release(size_t count, size_t size, size_t first, size_t step) {
  for (size_t i = first; i < count; i += step) {
    load_verify(block[i], size, (uint8_t)i);
    free(block[i]);
    block[i] = NULL;
  }
}

// Exhaust with blocks of one size, of which there must be `least` bytes; then free and go on.
static void run(size_t size, size_t least) {
  const size_t count = exhaust(size);
  printf("blocks of %zu: %zu, %zu MiB\n", size, count, count * size / LOAD_MIB);
  fflush(stdout);
  CHECK(count < BLOCK_MAX);
  CHECK_SAY(count * size >= least, "only %zu KiB", count * size / LOAD_KIB);
  // Everything refuses, nothing breaks, and what there was is still there.
  errno = 0;
  CHECK_SAY(is_refused(malloc(LIMIT)), "more than there is");
  errno = 0;
  CHECK_SAY(is_refused(calloc(LIMIT / 8, 16)), "more than there is");
  errno = 0;
  CHECK_SAY(is_refused(realloc(count > 0 ? block[0] : NULL, LIMIT)), "more than there is");
  void* aligned = NULL;
  CHECK_SAY(posix_memalign(&aligned, 64, LIMIT) == ENOMEM && aligned == NULL, "more than there is");
  // Half is freed: as many blocks can be had again, mostly.
  release(count, size, 0, 2);
  size_t again = 0;
  for (size_t i = 0; i < count; i += 2) {
    block[i] = malloc(size);
    if (block[i] == NULL) break;
    load_fill(block[i], size, (uint8_t)i);
    again++;
  }
  CHECK_SAY(again + again / 8 + 2 >= count / 2, "%zu of %zu again", again, count / 2);
  for (size_t i = 0; i < count; i++) {
    if (block[i] == NULL) continue;
    load_verify(block[i], size, (uint8_t)i);
    free(block[i]);
  }
}

int main(int argc, char** argv) {
  if (LOAD_IS_SANITIZED) SKIP("a sanitizer's shadow needs more addresses than the limit");
  if (getenv("MI_STRESS_LIMITED") == NULL) {
    const struct rlimit limit = {LIMIT, LIMIT};
    CHECK_SAY(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    setenv("MI_STRESS_LIMITED", "1", 1);
    execv("/proc/self/exe", argv); // so that it holds from the first allocation on
    return 127;
  }
  load_t load = load_begin(argc, argv);
  run(20 * LOAD_MIB, USABLE);
  run(LOAD_MIB, USABLE);
  run(100 * LOAD_KIB, USABLE);
  run(1000 + random_below(&load.seed, 1000), USABLE);
  run(5000, USABLE);
  run(20 * LOAD_MIB, 0); // address space is not given back, so there may be no room for these
  return 0;
}
