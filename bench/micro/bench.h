// SPDX-License-Identifier: MIT
// bench.h - what every micro workload needs: arguments, clock, random numbers, threads, contents,
// output.
//
// The contract of a workload (scales, output keys, exit status) is in bench/README.md. Everything
// is static and small, so that each workload is one file on libc. Nothing here allocates while the
// workload runs.
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BENCH_MAX_THREADS 1024

typedef enum bench_scale_e { BENCH_TINY, BENCH_QUICK, BENCH_FULL } bench_scale_t;

typedef struct bench_args_s {
  bench_scale_t scale;
  size_t threads; // 0 unless the user asked for a number
  int rest; // index of the first argument that is not ours
} bench_args_t;

// Ends the workload: something that must never happen did.
static inline void bench_fail(const char* what) {
  fprintf(stderr, "benchmark failed: %s\n", what);
  exit(1);
}

// Parse `--scale tiny|quick|full` and `--threads N`; stop at the first argument that is neither.
static inline bench_args_t bench_parse(int argc, char** argv) {
  bench_args_t args = {BENCH_FULL, 0, 1};
  while (args.rest + 1 < argc) {
    const char* const key = argv[args.rest];
    const char* const value = argv[args.rest + 1];
    if (strcmp(key, "--scale") == 0) {
      if (strcmp(value, "tiny") == 0) {
        args.scale = BENCH_TINY;
      } else if (strcmp(value, "quick") == 0) {
        args.scale = BENCH_QUICK;
      } else if (strcmp(value, "full") == 0) {
        args.scale = BENCH_FULL;
      } else {
        bench_fail("--scale must be tiny, quick or full");
      }
    } else if (strcmp(key, "--threads") == 0) {
      args.threads = strtoul(value, NULL, 10);
      if (args.threads == 0 || args.threads > BENCH_MAX_THREADS) {
        bench_fail("--threads must be 1 to 1024");
      }
    } else {
      return args;
    }
    args.rest += 2;
  }
  return args;
}

// One of three values, by scale.
static inline size_t bench_pick(bench_args_t args, size_t tiny, size_t quick, size_t full) {
  return args.scale == BENCH_TINY ? tiny : args.scale == BENCH_QUICK ? quick : full;
}

static inline uint64_t bench_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Random numbers: splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
// 2014).
typedef struct bench_random_s {
  uint64_t state;
} bench_random_t;

static inline uint64_t bench_random(bench_random_t* r) {
  uint64_t z = (r->state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Uniform in [0, bound), without a division.
static inline size_t bench_below(bench_random_t* r, size_t bound) {
  return (size_t)(((unsigned __int128)bench_random(r) * bound) >> 64);
}

// Uniform in [low, high].
static inline size_t bench_between(bench_random_t* r, size_t low, size_t high) {
  return low + bench_below(r, high - low + 1);
}

// malloc that must succeed.
static inline void* bench_malloc(size_t size) {
  void* const p = malloc(size);
  if (p == NULL) bench_fail("malloc returned NULL");
  return p;
}

// Write a mark that depends on `key` at both ends of a block; size at least 1.
static inline void bench_mark(void* p, size_t size, uint64_t key) {
  volatile unsigned char* const bytes = (volatile unsigned char*)p;
  bytes[0] = (unsigned char)key;
  bytes[size - 1] = (unsigned char)key;
}

// Ends the workload if the mark is not there any more.
static inline void bench_verify(const void* p, size_t size, uint64_t key) {
  const volatile unsigned char* const bytes = (const volatile unsigned char*)p;
  if (bytes[0] != (unsigned char)key || bytes[size - 1] != (unsigned char)key) {
    bench_fail("the contents of a block have changed");
  }
}

// Run `count` threads with `body(argument of size `stride` each)` and wait for all of them.
static inline void bench_threads(size_t count, void* (*body)(void*), void* arguments,
                                 size_t stride) {
  pthread_t ids[BENCH_MAX_THREADS];
  for (size_t i = 0; i < count; i++) {
    if (pthread_create(&ids[i], NULL, body, (char*)arguments + i * stride) != 0) {
      bench_fail("a thread could not be started");
    }
  }
  for (size_t i = 0; i < count; i++) pthread_join(ids[i], NULL);
}

// The same, but a single one runs on this thread: the process stays one without threads.
static inline void bench_workers(size_t count, void* (*body)(void*), void* arguments,
                                 size_t stride) {
  if (count == 1) {
    body(arguments);
  } else {
    bench_threads(count, body, arguments, stride);
  }
}

// Resident memory of this process now, in KiB (proc(5), statm). Without stdio, which would call
// malloc: that may remind the allocator to give back.
static inline size_t bench_resident_kib(void) {
  char text[128] = {0};
  const int file = open("/proc/self/statm", O_RDONLY);
  if (file < 0) return 0;
  const ssize_t length = read(file, text, sizeof(text) - 1);
  close(file);
  if (length <= 0) return 0;
  char* end = text;
  strtoul(text, &end, 10);
  return strtoul(end, NULL, 10) * ((size_t)sysconf(_SC_PAGESIZE) / 1024);
}

// The two lines that every workload prints last.
static inline void bench_report(uint64_t check, uint64_t ops) {
  printf("check %016llx\nops %llu\n", (unsigned long long)check, (unsigned long long)ops);
}

#endif // BENCH_H
