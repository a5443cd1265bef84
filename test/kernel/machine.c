// SPDX-License-Identifier: MIT
// machine.c - NUMA nodes and huge pages of a real kernel: two nodes, each with an explicit huge
// page of 1 GiB and 64 of 2 MiB. test/test_kernel.py boots it, and runs each case as a process of
// its own.
//
// Each case asks the kernel where memory is, in its files and by its calls, never the library. That
// explicit huge pages are free again when a process has ended, init.c looks at.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "machine.h"

#include <mimalloc.h>
#include <mimalloc-stats.h>

#define SLACK MIB // what a program has besides

static void fill(void* p, size_t size) { memset(p, 0x5A, size); }

static void* filled(mi_heap_t* heap, size_t size) {
  void* const p = mi_heap_malloc(heap, size);
  CHECK(p != NULL);
  fill(p, size);
  return p;
}

static mi_heap_t* heap_on(int node) {
  mi_heap_t* const heap = mi_heap_new();
  CHECK(heap != NULL);
  mi_heap_set_numa_affinity(heap, node);
  return heap;
}

static const size_t some_sizes[] = {64, 3000, 20000, 300 * KIB, 3 * MIB};
#define SOME_SIZES (sizeof(some_sizes) / sizeof(some_sizes[0]))

// All that follows needs this.
static void machine(void) {
  for (int node = 0; node < NODES; node++) {
    CHECK(free_pages(node, GIANT_PAGE) == 1 && free_pages(node, LARGE_PAGE) == LARGE_PAGES / NODES);
    pin(node);
  }
  CHECK(strstr(text_of("/sys/kernel/mm/transparent_hugepage/enabled"), "[always]") != NULL);
}

// -- NUMA nodes

static void in_text(const char* text, void* arg) {
  if (strstr(text, "numa nodes") != NULL) *(size_t*)arg = number_behind(text, ":");
}

// The library counts the nodes of the machine.
static void numa_count(void) {
  size_t count = 0;
  mi_stats_print_out(in_text, &count);
  CHECK_SAY(count == NODES, "%zu", count);
}

// If this fails, mi_heap_set_numa_affinity() has no effect, or the memory never goes back.
static void numa_affinity(void) {
  for (int node = 0; node < 2 * NODES; node++) { // modulo the number of nodes
    pin(1 - node % NODES);
    mi_heap_t* const heap = heap_on(node);
    void* last = NULL;
    for (size_t i = 0; i < SOME_SIZES; i++) {
      for (size_t n = 0; n < 1 + 2 * MIB / some_sizes[i]; n++) {
        last = filled(heap, some_sizes[i]);
        if (n % 64 == 0) CHECK_ON(node % NODES, last, some_sizes[i]);
      }
    }
    char wanted[16];
    snprintf(wanted, sizeof(wanted), "prefer:%d", node % NODES);
    CHECK_SAY(strcmp(policy_of(last), wanted) == 0, "%s", policy_of(last));
    mi_heap_destroy(heap);
    mi_collect(true);
    const spread_t spread = spread_of(last, some_sizes[SOME_SIZES - 1]);
    CHECK_SAY(spread.on[0] + spread.on[1] == 0, "%zu and %zu", spread.on[0], spread.on[1]);
  }
}

// A heap without a preference has what the system gives: memory near the thread that first uses it.
static void numa_no_preference(void) {
  for (int node = 0; node < NODES; node++) {
    pin(node);
    void* const p = filled(heap_on(-1), 3 * MIB);
    CHECK_ON(node, p, 3 * MIB);
    CHECK_SAY(strcmp(policy_of(p), "default") == 0, "%s", policy_of(p));
  }
}

// The preference may change: it is for what the heap takes from then on.
static void numa_affinity_changes(void) {
  pin(0);
  mi_heap_t* const heap = heap_on(1);
  void* const first = filled(heap, 3 * MIB);
  mi_heap_set_numa_affinity(heap, 0);
  pin(1);
  void* const second = filled(heap, 3 * MIB);
  CHECK_ON(1, first, 3 * MIB);
  CHECK_ON(0, second, 3 * MIB);
}

// Blocks that have a mapping of their own are on the node, too, also after they have moved.
static void numa_mapped(void) {
  for (int node = 0; node < NODES; node++) {
    pin(1 - node);
    mi_heap_t* const heap = heap_on(node);
    void* p = filled(heap, 40 * MIB); // over half an arena
    CHECK_ON(node, p, 40 * MIB);
    p = mi_heap_realloc(heap, p, 60 * MIB);
    CHECK(p != NULL);
    fill(p, 60 * MIB);
    CHECK_ON(node, p, 60 * MIB);
    mi_free(p);
  }
}

// The same where each page of blocks has a mapping.
static void numa_mapped_all(void) {
  for (int node = 0; node < NODES; node++) {
    pin(1 - node);
    mi_heap_t* const heap = heap_on(node);
    for (size_t i = 0; i < SOME_SIZES; i++) CHECK_ON(node, filled(heap, some_sizes[i]), 64);
  }
}

// A block that grows, in place or by moving, stays on the node.
static void numa_realloc(void) {
  pin(0);
  mi_heap_t* const heap = heap_on(1);
  void* p = NULL;
  for (size_t size = 100 * KIB; size <= 64 * MIB; size = size * 5 / 2) {
    p = mi_heap_realloc(heap, p, size);
    CHECK(p != NULL);
    fill(p, size);
    filled(heap, size / 10); // in its way
    CHECK_ON(1, p, size);
  }
}

// A heap of 96 MiB of small blocks gets its huge pages on the node, too.
static void numa_huge(void) {
  pin(0);
  mi_heap_t* const heap = heap_on(1);
  for (size_t n = 0; n < 96 * MIB / 1000; n++) {
    void* const p = filled(heap, 1000);
    if (n % 200 == 0) CHECK_ON(1, p, 1000);
  }
  CHECK_SAY(huge_bytes() >= LARGE_PAGE, "%zu", huge_bytes()); // an emulator is slow: HUGE-5
}

// Two heaps that grow in turn have a few arenas each, not one for each step.
static void numa_in_turn(void) {
  mi_heap_t* const heap[] = {heap_on(0), heap_on(1)};
  for (size_t n = 0; n < 500; n++) {
    for (int node = 0; node < NODES; node++) {
      uint8_t* const p = (uint8_t*)mi_heap_malloc(heap[node], MIB);
      CHECK(p != NULL);
      *p = 1;
      CHECK(node_of(p) == node);
    }
  }
  mi_stats_t_decl(stats);
  CHECK(mi_stats_get(&stats));
  printf("FIGURE two heaps on two nodes, 500 MiB each, grown in turn: %zu arenas\n",
         (size_t)stats.arena_count.total);
  CHECK(stats.arena_count.total <= 100);
}

static pthread_barrier_t barrier;
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER; // files are read into one place

static void allocated_on(int node, size_t size, bool is_checked) {
  void* const p = malloc(size);
  CHECK(p != NULL);
  fill(p, size);
  if (!is_checked) return;
  pthread_mutex_lock(&looking);
  CHECK_ON(node, p, size);
  CHECK_SAY(strncmp(policy_of(p), "prefer:", 7) == 0, "%s", policy_of(p));
  pthread_mutex_unlock(&looking);
}

static void* allocate_on(void* arg) {
  const int node = (int)(intptr_t)arg;
  pthread_mutex_lock(&looking);
  pin(node);
  pthread_mutex_unlock(&looking);
  pthread_barrier_wait(&barrier);
  for (size_t n = 0; n < 8000; n++) allocated_on(node, some_sizes[n % 3], n % 100 < 3);
  for (size_t n = 0; n < 4; n++) allocated_on(node, some_sizes[SOME_SIZES - 1], true);
  pthread_barrier_wait(&barrier); // what an ended thread leaves behind is for any thread
  return NULL;
}

// If this fails, MIMALLOC_ARENA_IS_NUMA_LOCAL=1 has no effect: threads have memory of other nodes.
static void numa_local(void) {
  pthread_t thread[2 * NODES];
  CHECK(pthread_barrier_init(&barrier, NULL, 2 * NODES) == 0);
  for (int i = 0; i < 2 * NODES; i++) {
    CHECK(pthread_create(&thread[i], NULL, &allocate_on, (void*)(intptr_t)(i % NODES)) == 0);
  }
  for (int i = 0; i < 2 * NODES; i++) CHECK(pthread_join(thread[i], NULL) == 0);
}

// MIMALLOC_USE_NUMA_NODES=1: there are no nodes, so no memory is bound to one.
static void numa_pretend_one(void) {
  pin(0);
  void* const p = filled(heap_on(1), 3 * MIB);
  CHECK_ON(0, p, 3 * MIB);
  CHECK_SAY(strcmp(policy_of(p), "default") == 0, "%s", policy_of(p));
}

// MIMALLOC_USE_NUMA_NODES=8: a node that the machine does not have gives no memory, but others do.
static void numa_pretend_more(void) {
  for (int node = 0; node < 8; node++) {
    void* const p = filled(heap_on(node), 3 * MIB);
    if (node < NODES) CHECK_ON(node, p, 3 * MIB);
  }
}

static uint8_t* mapped(size_t size) {
  void* const p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return (uint8_t*)p;
}

// Memory that the program brings along, and says where it is, serves heaps of that node first.
static void numa_managed(void) {
  const size_t size = 64 * MIB;
  uint8_t* const p = mapped(size);
  CHECK(mi_manage_os_memory(p, size, true, false, true, 1));
  const uint8_t* const far_away = (const uint8_t*)filled(heap_on(0), MIB);
  const uint8_t* const near = (const uint8_t*)filled(heap_on(1), MIB);
  CHECK(p <= near && near + MIB <= p + size);
  CHECK(far_away < p || p + size <= far_away);
}

// -- Explicit huge pages of 1 GiB

static void check_giant(const void* p, size_t size) {
  const uint8_t* const first = (const uint8_t*)p;
  for (size_t at = 0; at < size; at += GIANT_PAGE / 2) {
    CHECK_SAY(page_size_of(first + at) == GIANT_PAGE, "%zu", page_size_of(first + at));
  }
}

// A heap in such an arena has all of its blocks there, and they are usable.
static void use_arena(mi_arena_id_t arena, size_t page_size) {
  mi_heap_t* const heap = mi_heap_new_in_arena(arena);
  CHECK(heap != NULL);
  for (size_t i = 0; i < SOME_SIZES; i++) {
    void* const p = filled(heap, some_sizes[i]);
    CHECK(mi_arena_contains(arena, p));
    CHECK(page_size_of(p) == page_size);
  }
  mi_heap_destroy(heap);
}

// mi_reserve_huge_os_pages_at() of one page on a node takes the page of that node.
static void giant_at(int node) {
  mi_arena_id_t arena = NULL;
  pin(1 - node % NODES);
  CHECK(mi_reserve_huge_os_pages_at_ex(1, node, 0, true, &arena) == 0);
  CHECK(free_pages(node % NODES, GIANT_PAGE) == 0 && free_pages(1 - node % NODES, GIANT_PAGE) == 1);
  size_t size = 0;
  uint8_t* const start = (uint8_t*)mi_arena_area(arena, &size);
  CHECK(size == GIANT_PAGE);
  check_giant(start, size);
  CHECK(node_of(start) == node % NODES && node_of(start + size - 1) == node % NODES);
  CHECK(explicit_bytes() == GIANT_PAGE);
  use_arena(arena, GIANT_PAGE);
  mi_collect(true);
  CHECK(explicit_bytes() == GIANT_PAGE); // they are never given back
}

static void giant_at_0(void) { giant_at(0); }
static void giant_at_1(void) { giant_at(1); }
static void giant_at_none(void) { giant_at(NODES + 1); } // modulo the number of nodes

// At any node: that of the thread.
static void giant_any(void) {
  for (int node = 0; node < NODES; node++) {
    mi_arena_id_t arena = NULL;
    pin(node);
    CHECK(mi_reserve_huge_os_pages_at_ex(1, -1, 0, true, &arena) == 0);
    CHECK(free_pages(node, GIANT_PAGE) == 0);
    CHECK(free_pages_of_all(GIANT_PAGE) == (size_t)(NODES - 1 - node));
    CHECK(node_of(mi_arena_area(arena, NULL)) == node);
  }
}

// What one node has not, another gives; and what none has, is left out: a part is a success.
static void giant_part(void) {
  mi_arena_id_t arena = NULL;
  CHECK(mi_reserve_huge_os_pages_at_ex(NODES + 1, 1, 0, true, &arena) == 0);
  CHECK(free_pages_of_all(GIANT_PAGE) == 0);
  size_t size = 0;
  uint8_t* const start = (uint8_t*)mi_arena_area(arena, &size);
  CHECK(size == NODES * GIANT_PAGE);
  check_giant(start, size);
  CHECK(node_of(start) == 1 && node_of(start + GIANT_PAGE) == 0);
}

// Where there are none left, all say so, and memory of other kinds is there as before.
static void giant_none_left(void) {
  CHECK(mi_reserve_huge_os_pages_interleave(NODES, 0, 0) == 0);
  CHECK(free_pages_of_all(GIANT_PAGE) == 0);
  for (int node = -1; node < NODES; node++) {
    mi_arena_id_t arena = &arena;
    errno = 0;
    CHECK(mi_reserve_huge_os_pages_at_ex(1, node, 0, false, &arena) == ENOMEM);
    CHECK(errno == ENOMEM && arena == NULL);
  }
  CHECK(mi_reserve_huge_os_pages_interleave(1, 0, 0) == ENOMEM);
  size_t pages = 7;
  CHECK(mi_reserve_huge_os_pages(1, 0, &pages) == ENOMEM && pages == 0);
  CHECK(explicit_bytes() == NODES * GIANT_PAGE);
}

// Evenly over the nodes.
static void giant_interleave(void) {
  CHECK(mi_reserve_huge_os_pages_interleave(NODES, 0, 0) == 0);
  for (int node = 0; node < NODES; node++) {
    CHECK(free_pages(node, GIANT_PAGE) == 0);
    void* const p = filled(heap_on(node), 3 * MIB);
    CHECK(page_size_of(p) == GIANT_PAGE);
    CHECK(node_of(p) == node);
  }
}

// One page over all nodes is on the first.
static void giant_interleave_one(void) {
  pin(1);
  CHECK(mi_reserve_huge_os_pages_interleave(1, 0, 0) == 0);
  CHECK(free_pages(0, GIANT_PAGE) == 0 && free_pages(1, GIANT_PAGE) == 1);
}

// The first page takes longer than a millisecond: it is all that there is time for.
static void giant_deadline(void) {
  mi_arena_id_t arena = NULL;
  CHECK(mi_reserve_huge_os_pages_at_ex(NODES, -1, 1, true, &arena) == 0);
  size_t size = 0;
  CHECK(mi_arena_area(arena, &size) != NULL && size == GIANT_PAGE);
  CHECK(free_pages_of_all(GIANT_PAGE) == NODES - 1);
}

static void giant_older(void) {
  size_t pages = 7;
  CHECK(mi_reserve_huge_os_pages(NODES, 100.0, &pages) == 0 && pages == NODES);
  CHECK(free_pages_of_all(GIANT_PAGE) == 0);
}

static void check_main_heap_is_giant(void) {
  for (size_t i = 0; i < SOME_SIZES; i++) {
    void* const p = malloc(some_sizes[i]);
    CHECK(p != NULL);
    fill(p, some_sizes[i]);
    CHECK(page_size_of(p) == GIANT_PAGE);
  }
}

// MIMALLOC_RESERVE_HUGE_OS_PAGES=2: evenly, when the process starts.
static void giant_start(void) {
  for (int node = 0; node < NODES; node++) CHECK(free_pages(node, GIANT_PAGE) == 0);
  check_main_heap_is_giant();
}

// MIMALLOC_RESERVE_HUGE_OS_PAGES=1 MIMALLOC_RESERVE_HUGE_OS_PAGES_AT=1
static void giant_start_at(void) {
  CHECK(free_pages(0, GIANT_PAGE) == 1 && free_pages(1, GIANT_PAGE) == 0);
  check_main_heap_is_giant();
}

// MIMALLOC_RESERVE_HUGE_OS_PAGES=5: all there are.
static void giant_start_more(void) { giant_start(); }

// -- Explicit huge pages of 2 MiB

// If this fails, MIMALLOC_ALLOW_LARGE_OS_PAGES=1 has no effect, or the program has no memory when
// there are none left.
static void large_allowed(void) {
  void* const p = malloc(20000);
  CHECK(p != NULL);
  fill(p, 20000);
  CHECK(page_size_of(p) == LARGE_PAGE && explicit_bytes() >= LARGE_PAGE);
  CHECK(free_large_pages() == LARGE_PAGES - explicit_bytes() / LARGE_PAGE);
  bool is_other = false;
  for (size_t n = 0; n < 200; n++) { // 600 MiB
    uint8_t* const more = (uint8_t*)malloc(3 * MIB);
    CHECK(more != NULL);
    for (size_t at = 0; at < 3 * MIB; at += OS_PAGE) more[at] = 1;
    is_other = page_size_of(more) == OS_PAGE;
  }
  CHECK(is_other);
  CHECK_SAY(free_large_pages() <= 3, "%zu", free_large_pages()); // one block, at most, did not fit
}

// They stay with the program, because the system would have them only as a whole.
static void large_stay(void) {
  void* const p = malloc(3 * MIB);
  CHECK(p != NULL);
  fill(p, 3 * MIB);
  const size_t bytes = explicit_bytes();
  CHECK(bytes >= 4 * MIB);
  free(p);
  mi_collect(true);
  CHECK(explicit_bytes() == bytes);
}

// How the child of a fork ends that writes to a block of its parent, in a large page. The parent
// keeps what it has.
static int status_of_child(void) {
  uint8_t* const p = (uint8_t*)malloc(3 * MIB);
  CHECK(p != NULL);
  fill(p, 3 * MIB);
  CHECK(page_size_of(p) == LARGE_PAGE);
  const pid_t child = fork();
  if (child == 0) {
    memset(p, 7, 3 * MIB);
    _exit(page_size_of(p) == LARGE_PAGE ? 3 : 4);
  }
  int status = 0;
  CHECK(child > 0 && waitpid(child, &status, 0) == child);
  for (size_t i = 0; i < 3 * MIB; i++) CHECK(p[i] == 0x5A);
  CHECK(page_size_of(p) == LARGE_PAGE);
  return status;
}

// The child of a fork gets large pages of its own.
static void large_fork(void) {
  const int status = status_of_child();
  CHECK_SAY(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%x", (unsigned)status);
}

// But there is none left that its parent has not reserved: the kernel ends it. (The guide says so.)
static void large_fork_none_left(void) {
  const int status = status_of_child();
  CHECK_SAY(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS, "%x", (unsigned)status);
}

static void large_on_node(void) {
  for (int node = 0; node < NODES; node++) {
    pin(1 - node);
    const size_t before = free_pages(node, LARGE_PAGE);
    uint8_t* const p = (uint8_t*)filled(heap_on(node), 3 * MIB);
    CHECK(page_size_of(p) == LARGE_PAGE);
    CHECK(node_of(p) == node && node_of(p + 3 * MIB - 1) == node);
    CHECK(free_pages(node, LARGE_PAGE) < before);
  }
}

// mi_reserve_os_memory_ex() with allow_large: large pages, or else normal ones.
static void large_reserved(void) {
  const size_t all = free_large_pages();
  const size_t wanted[] = {64 * MIB, all * LARGE_PAGE, 64 * MIB};
  for (size_t i = 0; i < 3; i++) {
    mi_arena_id_t arena = NULL;
    CHECK(mi_reserve_os_memory_ex(wanted[i], true, true, true, &arena) == 0);
    size_t size = 0;
    const void* const start = mi_arena_area(arena, &size);
    CHECK(size >= wanted[i]);
    const size_t page_size = i == 1 ? OS_PAGE : LARGE_PAGE; // all of it, or nothing
    CHECK(page_size_of(start) == page_size);
    use_arena(arena, page_size);
  }
  mi_arena_id_t arena = NULL;
  CHECK(mi_reserve_os_memory_ex(64 * MIB, true, false, true, &arena) == 0);
  CHECK(page_size_of(mi_arena_area(arena, NULL)) == OS_PAGE);
}

// -- Transparent huge pages; this kernel gives them to all that ask and to all that do not

static void fill_small(size_t bytes) {
  for (size_t n = 0; n < bytes / 1000; n++) filled(mi_heap_main(), 1000);
}

// A heap over 32 MiB has them.
static void thp_where_they_pay(void) {
  fill_small(128 * MIB);
  const size_t huge = huge_bytes();
  printf("FIGURE 128 MiB of blocks of 1,000 bytes: %zu MiB in huge pages\n", huge / MIB);
  CHECK_SAY(huge >= LARGE_PAGE && huge <= 104 * MIB, "%zu", huge); // an emulator is slow: HUGE-5
}

// A small heap has none.
static void thp_small(void) {
  fill_small(24 * MIB);
  CHECK_SAY(huge_bytes() == 0, "%zu", huge_bytes());
}

// A block of which a word here and there is used has none, whatever it is in.
static void thp_sparse(void) {
  const size_t size[] = {MIB, 40 * MIB, 80 * MIB}; // the last one is over half an arena
  fill_small(64 * MIB);
  const size_t huge = huge_bytes();
  for (size_t i = 0; i < 3; i++) {
    uint8_t* const p = (uint8_t*)malloc(size[i]);
    CHECK(p != NULL);
    for (size_t at = 0; at < size[i]; at += MIB / 2) p[at] = 1;
    CHECK_SAY(huge_bytes() <= huge, "%zu, before %zu", huge_bytes(), huge);
  }
}

// MIMALLOC_ALLOW_THP=0 forbids them.
static void thp_never(void) {
  fill_small(128 * MIB);
  for (size_t n = 0; n < 10; n++) filled(mi_heap_main(), 3 * MIB);
  CHECK_SAY(huge_bytes() == 0, "%zu", huge_bytes());
  filled(mi_heap_main(), 80 * MIB); // over half an arena: a mapping of its own
  CHECK_SAY(huge_bytes() == 0, "%zu", huge_bytes());
}

// MIMALLOC_ALLOW_THP=2: everywhere.
static void thp_always(void) {
  fill_small(24 * MIB);
  filled(mi_heap_main(), 24 * MIB);
  CHECK_SAY(huge_bytes() >= 40 * MIB, "%zu", huge_bytes());
  filled(mi_heap_main(), 80 * MIB); // a mapping of its own
  CHECK_SAY(huge_bytes() >= 116 * MIB, "%zu", huge_bytes());
}

// What is freed goes back, huge or not.
static void thp_go_back(void) {
  mi_heap_t* const heap = mi_heap_new();
  const size_t before = resident_bytes();
  for (size_t n = 0; n < 96 * MIB / 1000; n++) filled(heap, 1000);
  CHECK(huge_bytes() >= LARGE_PAGE && resident_bytes() >= before + 96 * MIB);
  mi_heap_destroy(heap);
  mi_collect(true);
  CHECK_SAY(huge_bytes() == 0, "%zu", huge_bytes());
  CHECK_SAY(resident_bytes() <= before + 2 * SLACK, "%zu, before %zu", resident_bytes(), before);
}

// -- The list

typedef struct case_s {
  const char* name;
  void (*fun)(void);
  const char* environment; // variables, with spaces between
} case_t;

#define CASE(name, environment)                                                                    \
  { #name, name, environment }

static const case_t cases[] = {
    CASE(machine, ""),
    CASE(numa_count, ""),
    CASE(numa_affinity, ""),
    CASE(numa_no_preference, ""),
    CASE(numa_affinity_changes, ""),
    CASE(numa_mapped, "MIMALLOC_ARENA_RESERVE=64M"),
    CASE(numa_mapped_all, "MIMALLOC_DISALLOW_ARENA_ALLOC=1"),
    CASE(numa_realloc, ""),
    CASE(numa_huge, ""),
    CASE(numa_in_turn, ""),
    CASE(numa_local, "MIMALLOC_ARENA_IS_NUMA_LOCAL=1"),
    CASE(numa_pretend_one, "MIMALLOC_USE_NUMA_NODES=1"),
    CASE(numa_pretend_more, "MIMALLOC_USE_NUMA_NODES=8"),
    CASE(numa_managed, ""),
    CASE(giant_at_0, ""),
    CASE(giant_at_1, ""),
    CASE(giant_at_none, ""),
    CASE(giant_any, ""),
    CASE(giant_part, ""),
    CASE(giant_none_left, ""),
    CASE(giant_interleave, ""),
    CASE(giant_interleave_one, ""),
    CASE(giant_deadline, ""),
    CASE(giant_older, ""),
    CASE(giant_start, "MIMALLOC_RESERVE_HUGE_OS_PAGES=2"),
    CASE(giant_start_at, "MIMALLOC_RESERVE_HUGE_OS_PAGES=1 MIMALLOC_RESERVE_HUGE_OS_PAGES_AT=1"),
    CASE(giant_start_more, "MIMALLOC_RESERVE_HUGE_OS_PAGES=5"),
    CASE(large_allowed, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1"),
    CASE(large_stay, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1"),
    CASE(large_fork, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1 MIMALLOC_ARENA_RESERVE=32M"),
    CASE(large_fork_none_left, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1"),
    CASE(large_on_node, "MIMALLOC_ALLOW_LARGE_OS_PAGES=1 MIMALLOC_ARENA_RESERVE=32M"),
    CASE(large_reserved, ""),
    CASE(thp_where_they_pay, ""),
    CASE(thp_small, ""),
    CASE(thp_sparse, "MIMALLOC_ARENA_RESERVE=128M"),
    CASE(thp_never, "MIMALLOC_ALLOW_THP=0 MIMALLOC_ARENA_RESERVE=128M"),
    CASE(thp_always, "MIMALLOC_ALLOW_THP=2 MIMALLOC_ARENA_RESERVE=128M"),
    CASE(thp_go_back, ""),
};

// Start anew with the variables of a case: some are read before main.
static void start_with(const case_t* wanted, char** argv) {
  if (wanted->environment[0] == 0 || getenv("MACHINE_IS_SET") != NULL) return;
  char text[256];
  snprintf(text, sizeof(text), "MACHINE_IS_SET=1 %s", wanted->environment);
  char* word = strtok(text, " ");
  for (; word != NULL; word = strtok(NULL, " ")) {
    char* const value = strchr(word, '=');
    *value = 0;
    CHECK(setenv(word, value + 1, 1) == 0);
  }
  execv("/proc/self/exe", argv);
  FAIL("exec");
}

int main(int argc, char** argv) {
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    if (argc != 2 || strcmp(argv[1], cases[i].name) != 0) continue;
    start_with(&cases[i], argv);
    cases[i].fun();
    return 0;
  }
  FAIL("there is no such case");
}
