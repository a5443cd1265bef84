// SPDX-License-Identifier: MIT
// A process with busy threads forks again and again, and the children allocate. If this fails, a
// child hangs or crashes in its first malloc, as happens to servers that fork under load, or when
// it ends a heap that threads of its parent were using, or because a page of another thread was
// ending; or a debug build tells of mistakes that nobody made; or the parent grows with each fork.
//
// --count forks --threads busy ones --mib what a child allocates --seconds at most
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "load.h"
#include "mimalloc.h"

#define THREADS_MAX 512
#define KEEP 256
#define CHILD_BLOCKS ((size_t)16384)
#define CHILD_ALARM_S 60
#define QUICK_FORKS 1000
#define QUICK_MS 2000
// What a parent of many forks may grow by, from the first quarter of them to the last.
#define GROWTH_PERCENT 10
#define GROWTH_MAX (8 * LOAD_MIB)
// For seconds the threads touch more of their pages with each block, forks or not. With that many
// forks it is a small part of the first quarter.
#define FORKS_TO_JUDGE 1000

static _Atomic(bool) is_done;
static _Atomic(uintptr_t*)
    shared[KEEP]; // blocks whose first word is their size; any thread frees them
static mi_heap_t* heap; // of all threads
static load_t load;
static size_t count = 100, threads = 8, child_mib = 10, seconds = 7;

static uintptr_t* make(uint64_t* state, size_t top) {
  const size_t size = sizeof(uintptr_t) + random_below(state, top);
  uintptr_t* const block = (uintptr_t*)malloc(size);
  CHECK_SAY(block != NULL, "no memory for %zu bytes", size);
  block[0] = size;
  load_fill(block + 1, size - sizeof(uintptr_t), (uint8_t)size);
  return block;
}

static void drop(uintptr_t* block) {
  if (block == NULL) return;
  load_verify(block + 1, block[0] - sizeof(uintptr_t), (uint8_t)block[0]);
  free(block);
}

#define HEAP_BLOCKS ((size_t)8)

// In the heap pages come and go all the time.
static void replace_in_heap(void** slot, uint64_t* state) {
  mi_free(*slot);
  const size_t size = 10000 + random_below(state, 90000);
  *slot = mi_heap_malloc(heap, size);
  CHECK_SAY(*slot != NULL, "no memory for %zu bytes", size);
  load_fill(*slot, 1000, 7);
}

static void* work(void* argument) {
  uint64_t state = load.seed + (uintptr_t)argument;
  void* in_heap[HEAP_BLOCKS] = {NULL};
  uintptr_t* mine[KEEP] = {NULL};
  while (!atomic_load(&is_done)) {
    const size_t i = random_below(&state, KEEP);
    drop(mine[i]);
    mine[i] = make(&state, i % 32 == 0 ? 200000 : 2000);
    replace_in_heap(&in_heap[i % HEAP_BLOCKS], &state);
    // The children need the processors too, however many threads there are.
    if (i % 16 == 0) load_wait_ms((long)(threads / 8));
    if (i % 4 == 0) mine[i] = atomic_exchange(&shared[random_below(&state, KEEP)], mine[i]);
  }
  for (size_t i = 0; i < KEEP; i++) drop(mine[i]);
  for (size_t i = 0; i < HEAP_BLOCKS; i++) mi_free(in_heap[i]);
  return NULL;
}

#define LARGE_BLOCKS ((size_t)20)

// Pages of this thread begin and end all the time.
static void* fill_and_empty(void* argument) {
  void *block[400], *large[LARGE_BLOCKS] = {NULL};
  uint64_t state = load.seed + (uintptr_t)argument;
  while (!atomic_load(&is_done)) {
    for (size_t i = 0; i < 400; i++) block[i] = malloc(4000);
    for (size_t i = 0; i < 400; i++) free(block[i]);
    for (size_t i = 0; i < 100; i++) {
      void** const slot = &large[random_below(&state, LARGE_BLOCKS)];
      free(*slot);
      *slot = malloc(600000 + random_below(&state, 300000));
    }
  }
  for (size_t i = 0; i < LARGE_BLOCKS; i++) free(large[i]);
  return NULL;
}

static void* work_in_child(void* argument) {
  uint64_t state = (uintptr_t)argument;
  for (size_t i = 0; i < 200; i++) drop(make(&state, 3000));
  return NULL;
}

// The heap goes on in the child, and ends.
static void use_heap_in_child(uint64_t* state, bool is_destroyed) {
  void* block[64] = {NULL};
  for (size_t i = 0; i < 300; i++) replace_in_heap(&block[i % 64], state);
  if (is_destroyed) {
    mi_heap_destroy(heap);
  } else {
    mi_heap_delete(heap);
    for (size_t i = 0; i < 64; i++) {
      load_verify(block[i], 1000, 7);
      mi_free(block[i]);
    }
  }
  heap = mi_heap_new();
  for (size_t i = 0; i < 10; i++) block[i] = NULL;
  for (size_t i = 0; i < 100; i++) replace_in_heap(&block[i % 10], state);
  mi_heap_destroy(heap);
}

// What a child does: take over blocks of threads that do not exist here, allocate, free, end.
static void be_child(size_t number) {
  alarm(LOAD_IS_SANITIZED ? 10 * CHILD_ALARM_S : CHILD_ALARM_S);
  uint64_t state = load.seed + number * 31;
  for (size_t i = 0; i < KEEP; i += 2) drop(atomic_exchange(&shared[i], NULL));
  use_heap_in_child(&state, number % 3 == 0);
  static uintptr_t* mine[CHILD_BLOCKS];
  size_t bytes = 0, made = 0;
  while (bytes < child_mib * LOAD_MIB && made < CHILD_BLOCKS) {
    mine[made] = make(&state, made % 16 == 0 ? 300000 : 4000);
    bytes += mine[made++][0];
  }
  CHECK_SAY(bytes >= child_mib * LOAD_MIB, "only %zu bytes in %zu blocks", bytes, made);
  // A sanitizer still has the parent's threads in its list there, or a lock that one of them held.
  if (number % 8 == 0 && !LOAD_IS_SANITIZED) {
    pthread_t thread;
    CHECK_SAY(pthread_create(&thread, NULL, &work_in_child, (void*)number) == 0, "in a child");
    pthread_join(thread, NULL);
  }
  for (size_t i = 0; i < made; i++) drop(mine[i]);
  if (number % 16 == 0) {
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      drop(make(&state, 100000));
      _exit(0);
    }
    int status = 1;
    CHECK_SAY(waitpid(grandchild, &status, 0) == grandchild && status == 0, "grandchild: %d",
              status);
  }
  if (number % 2 == 0) exit(0);
  _exit(0);
}

typedef struct {
  size_t rss, committed; // bytes
} memory_t;

static memory_t* seen; // before each fork

static memory_t measure(void) {
  memory_t now = {load_rss(), 0};
  mi_process_info(NULL, NULL, NULL, NULL, NULL, &now.committed, NULL, NULL);
  return now;
}

static memory_t mean(size_t first, size_t end) {
  memory_t sum = {0, 0};
  for (size_t i = first; i < end; i++) {
    sum.rss += seen[i].rss;
    sum.committed += seen[i].committed;
  }
  return (memory_t){sum.rss / (end - first), sum.committed / (end - first)};
}

static void check_growth(const char* what, size_t first, size_t last) {
  printf("FIGURE %s of the parent of forks: %zu KiB in the first quarter, %zu KiB in the last\n",
         what, first / LOAD_KIB, last / LOAD_KIB);
  fflush(stdout);
  CHECK_SAY(last <= first + first * GROWTH_PERCENT / 100 + GROWTH_MAX, "%s grew by %zu KiB", what,
            (last - first) / LOAD_KIB);
}

// Forks one child and waits for it. Returns how long that took.
static uint64_t fork_one(size_t number) {
  load_alive();
  fflush(stdout);
  seen[number] = measure();
  const uint64_t start_ms = load_now_ms();
  const pid_t child = fork();
  CHECK_SAY(child >= 0, "fork %zu", number);
  if (child == 0) be_child(number);
  int status = 1;
  CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "child %zu: status %d", number,
            status);
  return load_now_ms() - start_ms;
}

// Children that do next to nothing: the thread is stopped in as many places as there is time for.
// Half of them look for mistakes in a debug build: what another thread was doing is none.
static void fork_quickly(void) {
  const uint64_t start_ms = load_now_ms();
  for (size_t i = 0; i < QUICK_FORKS && load_now_ms() < start_ms + QUICK_MS; i++) {
    fflush(stdout);
    const pid_t child = fork();
    CHECK_SAY(child >= 0, "quick fork %zu", i);
    if (child == 0) {
      free(malloc(100));
      if (i % 2 == 0) mi_collect(true);
      _exit(0);
    }
    int status = 1;
    CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "quick child %zu: status %d", i,
              status);
  }
}

int main(int argc, char** argv) {
  const load_argument_t own[] = {
      {"--count", &count}, {"--threads", &threads}, {"--mib", &child_mib}, {"--seconds", &seconds}};
  load = load_begin_with(argc, argv, own, sizeof(own) / sizeof(own[0]));
  count = load_scale(&load, count);
  CHECK_SAY(threads >= 8 && threads <= THREADS_MAX, "8 to %d threads", THREADS_MAX);
  heap = mi_heap_new();
  seen = (memory_t*)calloc(count, sizeof(memory_t));
  CHECK_SAY(heap != NULL && seen != NULL, "no heap for %zu threads", threads);
  static pthread_t thread[THREADS_MAX];
  for (uintptr_t i = 0; i < threads; i++) {
    void* (*const function)(void*) = i == 0 ? &fill_and_empty : &work;
    CHECK_SAY(pthread_create(&thread[i], NULL, function, (void*)i) == 0, "thread %zu", (size_t)i);
    if (i == 0) fork_quickly();
  }
  const uint64_t start_ms = load_now_ms();
  size_t done = 0;
  uint64_t slowest_ms = 0;
  for (; done < count && load_now_ms() < start_ms + seconds * 1000; done++) {
    const uint64_t ms = fork_one(done);
    if (ms > slowest_ms) slowest_ms = ms;
  }
  atomic_store(&is_done, true);
  for (size_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < KEEP; i++) drop(atomic_exchange(&shared[i], NULL));
  mi_heap_destroy(heap);
  printf("FIGURE forks: %zu of a process with %zu threads, %zu MiB in each child: %zu s, slowest "
         "%zu ms, none hangs\n",
         done, threads, child_mib, (size_t)(load_now_ms() - start_ms) / 1000, (size_t)slowest_ms);
  if (done < FORKS_TO_JUDGE) {
    printf("too few forks to judge whether the parent grows\n");
    return 0;
  }
  const memory_t first = mean(0, done / 4), last = mean(done - done / 4, done);
  check_growth("resident", first.rss, last.rss);
  check_growth("committed", first.committed, last.committed);
  return 0;
}
