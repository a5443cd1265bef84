// SPDX-License-Identifier: MIT
// machine.h - what the kernel says of its NUMA nodes, its huge pages, and where the memory of this
// process is. Nothing here allocates; what cannot be read ends the program.
#ifndef TEST_MACHINE_H
#define TEST_MACHINE_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define OS_PAGE ((size_t)4096) // of machine.c
#define LARGE_PAGE (2 * MIB)
#define GIANT_PAGE GIB
#define NODES 2
#define LARGE_PAGES ((size_t)128) // of all nodes

// From linux/mempolicy.h.
#define NODE_OF_ADDRESS 3 // MPOL_F_NODE | MPOL_F_ADDR

// The text of a file of the kernel.
static inline const char* text_of(const char* path) {
  static char text[256 * 1024];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  CHECK_SAY(file >= 0, "%s: %s", path, strerror(errno));
  size_t length = 0;
  for (ssize_t got; (got = read(file, text + length, sizeof(text) - 1 - length)) > 0;) {
    length += (size_t)got;
  }
  close(file);
  text[length] = 0;
  return text;
}

// The number behind a word, in a text.
static inline size_t number_behind(const char* text, const char* word) {
  const char* const found = strstr(text, word);
  CHECK_SAY(found != NULL, "no %s", word);
  return strtoul(found + strlen(word), NULL, 10);
}

// How many explicit huge pages of a size a node has left.
static inline size_t free_pages(int node, size_t page_size) {
  char path[128];
  snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/hugepages/hugepages-%zukB/%s", node,
           page_size / KIB, "free_hugepages");
  return strtoul(text_of(path), NULL, 10);
}

static inline size_t free_pages_of_all(size_t page_size) {
  size_t count = 0;
  for (int node = 0; node < NODES; node++) count += free_pages(node, page_size);
  return count;
}

// As the table of all memory has it; of 2 MiB.
static inline size_t free_large_pages(void) {
  return number_behind(text_of("/proc/meminfo"), "HugePages_Free:");
}

// Bytes of this process in transparent huge pages, and in explicit ones of any size.
static inline size_t huge_bytes(void) {
  return number_behind(text_of("/proc/self/smaps_rollup"), "AnonHugePages:") * KIB;
}

static inline size_t explicit_bytes(void) {
  return number_behind(text_of("/proc/self/smaps_rollup"), "Private_Hugetlb:") * KIB;
}

static inline size_t resident_bytes(void) {
  const char* const text = text_of("/proc/self/statm");
  return strtoul(strchr(text, ' '), NULL, 10) * (size_t)getpagesize();
}

// Of the mapping that an address is in, the number behind a word of smaps.
static inline size_t of_mapping(const void* p, const char* word) {
  const char* line = text_of("/proc/self/smaps");
  while (line != NULL) {
    uintptr_t start = 0;
    uintptr_t end = 0;
    if (sscanf(line, "%lx-%lx ", &start, &end) == 2 && start <= (uintptr_t)p &&
        (uintptr_t)p < end) {
      return number_behind(line, word);
    }
    line = strchr(line, '\n');
    if (line != NULL) line++;
  }
  FAIL("the address is not mapped");
}

static inline size_t page_size_of(const void* p) { return of_mapping(p, "KernelPageSize:") * KIB; }

// The policy of the mapping that an address is in, as numa_maps has it: "default", "prefer:1".
static inline const char* policy_of(const void* p) {
  static char policy[64];
  policy[0] = 0;
  const char* line = text_of("/proc/self/numa_maps");
  while (line != NULL && *line != 0) {
    char word[64];
    uintptr_t start = 0;
    if (sscanf(line, "%lx %63s", &start, word) == 2 && start <= (uintptr_t)p) strcpy(policy, word);
    line = strchr(line, '\n');
    if (line != NULL) line++;
  }
  return policy;
}

// The node that the page at an address is on. It must be in use.
static inline int node_of(const void* p) {
  int node = -1;
  CHECK(syscall(SYS_get_mempolicy, &node, NULL, 0, p, NODE_OF_ADDRESS) == 0);
  return node;
}

// How many of the OS pages of a range are on each node; behind that, how many are not there.
typedef struct spread_s {
  size_t on[NODES];
  size_t absent;
} spread_t;

static inline spread_t spread_of(const void* start, size_t size) {
  enum { AT_ONCE = 512 };
  void* page[AT_ONCE];
  int where[AT_ONCE];
  spread_t spread = {{0}, 0};
  const uintptr_t end = (uintptr_t)start + size;
  uintptr_t next = (uintptr_t)start & ~(OS_PAGE - 1);
  while (next < end) {
    size_t count = 0;
    for (; count < AT_ONCE && next < end; next += OS_PAGE) page[count++] = (void*)next;
    CHECK(syscall(SYS_move_pages, 0, count, page, NULL, where, 0) == 0);
    for (size_t i = 0; i < count; i++) {
      CHECK_SAY(where[i] < NODES, "node %d", where[i]);
      if (where[i] >= 0) {
        spread.on[where[i]]++;
      } else {
        spread.absent++;
      }
    }
  }
  return spread;
}

// All of the range is in memory, on that node.
#define CHECK_ON(node, start, size)                                                                \
  do {                                                                                             \
    const spread_t spread_ = spread_of(start, size);                                               \
    CHECK_SAY(spread_.on[1 - (node)] == 0 && spread_.absent == 0,                                  \
              "%zu bytes should be on node %d, pages: node 0 %zu, node 1 %zu, absent %zu",         \
              (size_t)(size), (node), spread_.on[0], spread_.on[1], spread_.absent);               \
  } while (0)

// The calling thread runs on the processors of a node only.
static inline void pin(int node) {
  char path[64];
  snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
  int first = -1;
  int last = -1;
  CHECK(sscanf(text_of(path), "%d-%d", &first, &last) == 2);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu = first; cpu <= last; cpu++) CPU_SET((size_t)cpu, &set);
  CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
  unsigned now = NODES;
  CHECK(syscall(SYS_getcpu, NULL, &now, NULL) == 0 && now == (unsigned)node);
}

static inline void write_to(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  CHECK_SAY(file >= 0, "%s: %s", path, strerror(errno));
  CHECK(write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
}

#endif
