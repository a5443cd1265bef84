// SPDX-License-Identifier: MIT
// sandbox.c - every function of the interface for C behind a filter of system calls that permits
// what a malloc needs (sandbox.h). If this fails, a program that locks itself in (a browser, a
// server, a decoder of pictures) is killed when it allocates, although it runs with other mallocs.
//
// The scenarios are those of failing.c; here are those about what they do not reach.
#define SWEEP_SANDBOX 1
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <mimalloc-profile.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>

#define main failing_main
// What asks the system by contract, which docs/guide.md says: test/interop/test_failing.py has the
// list. What is left of it here asks nothing.
#define mi_realpath(path, resolved) mi_strdup(path) // files
#define mi_heap_realpath(heap, path, resolved) mi_heap_strdup(heap, path)
#define mi_stats_print(out) ((void)0) // resident memory, processor time, NUMA nodes
#define mi_stats_print_out(out, arg) ((void)0)
#define mi_explain(out, arg) ((void)0)
#define mi_thread_stats_print_out(out, arg) ((void)0)
#define mi_thread_stats_print(out) ((void)0)
#define mi_subproc_stats_print_out(id, out, arg) ((void)0)
#define mi_subproc_heap_stats_print_out(id, out, arg) ((void)0)
#define mi_stats_get_json(size, text) NULL
#define mi_stats_as_json(stats, size, text) NULL
#define mi_subproc_stats_get_json(id, size, text) NULL
#define mi_heap_stats_get_json(heap, size, text) NULL
#define mi_metrics(format, text, size) (text[0] = 0, (size_t)text[0])
#define mi_process_info_print_out(out, arg) ((void)0)
#define mi_process_info_print() ((void)0)
#define mi_process_info(elapsed, user, system, rss, rss_peak, commit, commit_peak, faults)         \
  (*(rss) = 0)
#define mi_profile_start(rate) ((void)0) // the number of the thread, for each sample
#define mi_profile_write(file, kind) 0 // files, what is mapped
#define mi_profile_write_to(format, kind, put, arg) ((size_t)(put != NULL))
#define mi_heap_set_numa_affinity(heap, node) (mi_heap_set_numa_affinity)(heap, -1) // the nodes
#define mi_reserve_huge_os_pages_at(pages, node, ms) (mi_reserve_huge_os_pages_at)(pages, -1, ms)
#define mi_reserve_huge_os_pages_at_ex(pages, node, ms, exclusive, id)                             \
  (mi_reserve_huge_os_pages_at_ex)(pages, -1, ms, exclusive, id)
#define mi_reserve_huge_os_pages_interleave(pages, nodes, ms) 0
#define mi_reserve_huge_os_pages(pages, seconds, reserved) 0
#define mi_reserve_os_memory_ex(size, commit, large, exclusive, id)                                \
  (mi_reserve_os_memory_ex)(size, true, large, exclusive, id) // mprotect commits it
#include "failing.c"
#undef main

#include <semaphore.h>

#include "random.h"

// Large blocks that are replaced by others of other sizes take over what waits elsewhere, and those
// that grow with somebody behind them move.
static void moving(void) {
  static unsigned char* p[8];
  uint64_t seed = 1;
  for (size_t i = 0; i < 200; i++) {
    const size_t k = random_below(&seed, 8);
    const size_t size = 5 * SWEEP_MIB + random_below(&seed, 10 * SWEEP_MIB);
    if (i % 3 == 0) {
      p[k] = (unsigned char*)SWEEP_TAKE(size, mi_realloc(p[k], size));
    } else {
      mi_free(p[k]);
      p[k] = (unsigned char*)SWEEP_TAKE(size, mi_malloc(size));
    }
    for (size_t at = 0; at < size; at += 4096) p[k][at] = (unsigned char)k;
  }
  for (size_t k = 0; k < 8; k++) {
    CHECK_SAY(p[k] == NULL || p[k][4096] == k, "block %zu", k);
    mi_free(p[k]);
  }
}

// Enough for huge pages, for the bound on what waits, and for several turns of the clock.
static void filling(void) {
  static void* p[40000];
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < 40000; i++) {
      const size_t size = i * 7919 % 9000;
      p[i] = SWEEP_TAKE(size, mi_malloc(size));
      memset(p[i], 1, size);
    }
    for (size_t i = 0; i < 40000; i++) mi_free(p[i]);
    if (mi_thread_idle_due() >= 0) mi_thread_idle();
    mi_collect(round == 1);
  }
}

// -- a crowd of threads, some of which wait --

#define CROWD 48
#define TURNS 2000

static sem_t turns[CROWD];

static void* crowd_body(void* arg) {
  const size_t id = (size_t)arg;
  static __thread void* p[64];
  for (size_t turn = 0; turn < TURNS; turn++) {
    if (id % 2 == 0) {
      while (sem_wait(&turns[id]) != 0) {
      }
    }
    for (size_t i = 0; i < 64; i++) {
      mi_free(p[i]);
      p[i] = mi_malloc(16 + (i * 131 + turn * 17 + id) % 3000);
    }
    if (id % 2 == 0) sem_post(&turns[(id + 2) % CROWD]);
  }
  for (size_t i = 0; i < 64; i++) mi_free(p[i]);
  return NULL;
}

static void crowd(void) {
  pthread_t threads[CROWD];
  for (size_t i = 0; i < CROWD; i++) sem_init(&turns[i], 0, i % 16 == 0 ? 1 : 0);
  for (size_t i = 0; i < CROWD; i++) {
    const int err = pthread_create(&threads[i], NULL, &crowd_body, (void*)i);
    CHECK_SAY(err == 0, "pthread_create: %d", err);
  }
  for (size_t i = 0; i < CROWD; i++) pthread_join(threads[i], NULL);
}

int main(int argc, char** argv) {
  static const sweep_scenario_t scenarios[] = {
      {"moving", &moving, SWEEP_SILENT, 0},
      {"filling", &filling, SWEEP_SILENT, 0},
      {"crowd", &crowd, SWEEP_SILENT, 0},
  };
  const int status = sweep_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
  const int other = failing_main(argc, argv);
  return status != 0 ? status : other;
}
