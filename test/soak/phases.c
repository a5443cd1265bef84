// SPDX-License-Identifier: MIT
// phases.c - the phases of the soak that any malloc can do. Each starts and joins its threads, and
// drops what it made but for what it left on the shelves in place of others.
#include "soak.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define SOAK_SERVERS ((size_t)4)
#define SOAK_SESSIONS ((size_t)6000) // blocks that live for seconds
#define SOAK_LONG ((size_t)4000) // for minutes
#define SOAK_ETERNAL ((size_t)3000) // for the whole run
#define SOAK_REQUEST_MAX ((size_t)40)

static soak_shelf_t soak_sessions, soak_long, soak_eternal;

// -- what lives all the time, and the requests of a server --

static void soak_shelf_fill(soak_shelf_t* shelf, uint64_t* random) {
  for (size_t i = 0; i < shelf->count; i++) {
    shelf->block[i] = soak_make(random, soak_request_size(random));
  }
}

// All of it at once, so that what grows from cycle to cycle is not what lives.
void soak_fill(uint64_t* random) {
  soak_shelf_fill(&soak_eternal, random);
  soak_shelf_fill(&soak_long, random);
  soak_shelf_fill(&soak_sessions, random);
}

void soak_check_eternal(void) {
  for (size_t i = 0; i < SOAK_ETERNAL; i++) {
    const soak_block_t block = soak_eternal.block[i];
    load_verify(block.p, block.size, block.mark);
  }
}

void soak_close(void) {
  soak_shelf_clear(&soak_sessions);
  soak_shelf_clear(&soak_long);
  soak_shelf_clear(&soak_eternal);
}

pthread_t soak_start(void* (*body)(void*), void* argument) {
  pthread_t thread;
  const int error = pthread_create(&thread, NULL, body, argument);
  CHECK_SAY(error == 0, "a thread cannot be started: %s", strerror(error));
  return thread;
}

#define SOAK_THREADS_MAX 32

void soak_threads(const soak_turn_t* turn, size_t count, void* (*body)(void*)) {
  soak_turn_t own[SOAK_THREADS_MAX];
  pthread_t thread[SOAK_THREADS_MAX];
  CHECK_SAY(count <= SOAK_THREADS_MAX, "%zu threads", count);
  for (size_t i = 0; i < count; i++) {
    own[i] = (soak_turn_t){turn->deadline_ms, turn->random + i * 7919, i};
    thread[i] = soak_start(body, &own[i]);
  }
  for (size_t i = 0; i < count; i++) pthread_join(thread[i], NULL);
}

// Most blocks of a request end with it; one in eight is kept for later in place of an older one.
void soak_request(uint64_t* random) {
  soak_block_t block[SOAK_REQUEST_MAX];
  const size_t count = 4 + random_below(random, SOAK_REQUEST_MAX - 4);
  for (size_t i = 0; i < count; i++) block[i] = soak_make(random, soak_request_size(random));
  const size_t resized = random_below(random, count);
  soak_resize(&block[resized], random, soak_request_size(random));
  for (size_t i = 0; i < count; i++) {
    if (random_below(random, 8) == 0) {
      soak_shelf_t* const shelf = random_below(random, 64) == 0 ? &soak_long : &soak_sessions;
      block[i] = soak_shelf_swap(shelf, random, block[i]);
    }
    soak_drop(block[i]);
  }
}

void* soak_serve(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  while (!soak_is_over(turn)) {
    for (size_t i = 0; i < 8; i++) soak_request(&turn->random);
  }
  return NULL;
}

static void soak_steady(soak_turn_t* turn) { soak_threads(turn, SOAK_SERVERS, &soak_serve); }

// A little work now and then: what a burst left goes back meanwhile.
void soak_quiet(soak_turn_t* turn) {
  while (!soak_is_over(turn)) {
    soak_request(&turn->random);
    load_wait_ms(2);
  }
}

// -- a burst: ten times the memory for a moment --

#define SOAK_BURST_BYTES (256 * LOAD_MIB)
#define SOAK_BURST_THREADS ((size_t)2)
#define SOAK_LOOK 256 // blocks between two looks at the clock
#define SOAK_BURST_MAX ((size_t)80000)

static soak_shelf_t soak_burst_shelf[SOAK_BURST_THREADS];

// At most for half of the time, however slow the machine is.
static void* soak_burst_fill(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  soak_shelf_t* const shelf = &soak_burst_shelf[turn->index];
  const uint64_t now_ms = load_now_ms();
  turn->deadline_ms = now_ms + (turn->deadline_ms - now_ms) / 2;
  size_t bytes = 0;
  for (size_t i = 0; i < shelf->count && bytes < SOAK_BURST_BYTES / SOAK_BURST_THREADS; i++) {
    if (i % SOAK_LOOK == 0 && soak_is_over(turn)) break;
    shelf->block[i] = soak_make(&turn->random, soak_request_size(&turn->random));
    bytes += shelf->block[i].size;
  }
  return NULL;
}

// Freed by another thread than the one that made them.
static void* soak_burst_drop(void* argument) {
  const soak_turn_t* const turn = (const soak_turn_t*)argument;
  soak_shelf_clear(&soak_burst_shelf[(turn->index + 1) % SOAK_BURST_THREADS]);
  return NULL;
}

static void soak_burst(soak_turn_t* turn) {
  soak_threads(turn, SOAK_BURST_THREADS, &soak_burst_fill);
  soak_threads(turn, SOAK_BURST_THREADS, &soak_burst_drop);
  soak_quiet(turn);
}

// -- sizes that change: what was freed in one size must serve the next --

#define SOAK_SHIFT_BYTES (32 * LOAD_MIB)
#define SOAK_SHIFT_THREADS ((size_t)2)
#define SOAK_SHIFT_MAX ((size_t)100000)
#define SOAK_SHIFT_KEPT 16 // one block in so many stays when the size changes

static const soak_sizes_t soak_shifts[] = {{4, 7}, {12, 15}, {7, 9}, {15, 18}, {9, 12}, {18, 21}};
#define SOAK_SHIFTS (sizeof(soak_shifts) / sizeof(soak_shifts[0]))

static soak_shelf_t soak_shift_shelf[SOAK_SHIFT_THREADS];

// Places that are not free stay what they are.
static void soak_shift_fill(soak_shelf_t* shelf, soak_turn_t* turn, soak_sizes_t sizes) {
  size_t bytes = 0;
  for (size_t i = 0; i < shelf->count && bytes < SOAK_SHIFT_BYTES / SOAK_SHIFT_THREADS; i++) {
    if (shelf->block[i].p != NULL) continue;
    if (i % SOAK_LOOK == 0 && soak_is_over(turn)) break;
    shelf->block[i] = soak_make(&turn->random, soak_size(&turn->random, sizes));
    bytes += shelf->block[i].size;
  }
}

static void* soak_shift(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  soak_shelf_t* const shelf = &soak_shift_shelf[turn->index];
  for (size_t round = 0; !soak_is_over(turn); round++) {
    soak_shift_fill(shelf, turn, soak_shifts[round % SOAK_SHIFTS]);
    for (size_t i = 0; i < shelf->count; i++) {
      if (random_below(&turn->random, SOAK_SHIFT_KEPT) == 0) continue;
      soak_drop(shelf->block[i]);
      shelf->block[i].p = NULL;
    }
    if (round % (4 * SOAK_SHIFTS) == 4 * SOAK_SHIFTS - 1) soak_shelf_clear(shelf);
  }
  soak_shelf_clear(shelf);
  return NULL;
}

static void soak_sizes(soak_turn_t* turn) { soak_threads(turn, SOAK_SHIFT_THREADS, &soak_shift); }

// -- threads that come and go --

#define SOAK_CROWD 24
#define SOAK_VISITS 20

static pthread_key_t soak_key;
static sem_t soak_gone; // posted by each detached thread at its end

// Runs while the thread ends, maybe after the allocator's own clean-up.
static void soak_key_end(void* value) {
  free(value);
  free(malloc(100));
}

static void soak_visit(uint64_t* random) {
  pthread_setspecific(soak_key, malloc(50));
  const size_t count = 1 + random_below(random, SOAK_VISITS);
  for (size_t i = 0; i < count; i++) soak_request(random);
}

static void* soak_visit_joined(void* argument) {
  soak_visit(&((soak_turn_t*)argument)->random);
  return NULL;
}

static void* soak_visit_detached(void* seed) {
  uint64_t random = (uintptr_t)seed;
  soak_visit(&random);
  sem_post(&soak_gone);
  return NULL;
}

static void soak_visitors(soak_turn_t* turn) {
  while (!soak_is_over(turn)) {
    soak_threads(turn, SOAK_CROWD, &soak_visit_joined);
    turn->random += 1000003;
    pthread_t thread[SOAK_CROWD];
    for (uintptr_t i = 0; i < SOAK_CROWD; i++) {
      thread[i] = soak_start(&soak_visit_detached, (void*)(uintptr_t)random_next(&turn->random));
      pthread_detach(thread[i]);
    }
    for (size_t i = 0; i < SOAK_CROWD; i++) {
      while (sem_wait(&soak_gone) != 0) {
      }
    }
  }
}

// -- a pool of many threads that wait with their tasks --

#define SOAK_POOL ((size_t)120)
#define SOAK_LANES ((size_t)2) // threads of the pool that run at a time
#define SOAK_TASK_BLOCKS ((size_t)200)

typedef struct soak_worker_s {
  sem_t turn;
  soak_block_t block[SOAK_TASK_BLOCKS];
} soak_worker_t;

static soak_worker_t* soak_pool_worker;
static soak_turn_t soak_lane[SOAK_LANES]; // owned by the thread of the lane that runs
static atomic_bool soak_pool_is_done;
static sem_t soak_pool_done;

static void soak_task(soak_worker_t* worker, uint64_t* random) {
  for (size_t i = 0; i < SOAK_TASK_BLOCKS; i++) {
    soak_block_t old = worker->block[i];
    worker->block[i] = soak_make(random, soak_size(random, (soak_sizes_t){5, 12}));
    if (i % 4 == 0) old = soak_shelf_swap(&soak_sessions, random, old);
    soak_drop(old);
  }
}

static void* soak_wait_for_tasks(void* argument) {
  soak_worker_t* const worker = (soak_worker_t*)argument;
  const size_t lane = (size_t)(worker - soak_pool_worker) % SOAK_LANES;
  soak_turn_t* const turn = &soak_lane[lane];
  while (true) {
    while (sem_wait(&worker->turn) != 0) {
    }
    if (atomic_load(&soak_pool_is_done)) break;
    soak_task(worker, &turn->random);
    const size_t next = random_below(&turn->random, SOAK_POOL / SOAK_LANES) * SOAK_LANES + lane;
    sem_post(soak_is_over(turn) ? &soak_pool_done : &soak_pool_worker[next].turn);
  }
  for (size_t i = 0; i < SOAK_TASK_BLOCKS; i++) {
    soak_drop(worker->block[i]);
    worker->block[i].p = NULL;
  }
  return NULL;
}

static void soak_pool(soak_turn_t* turn) {
  atomic_store(&soak_pool_is_done, false);
  pthread_t thread[SOAK_POOL];
  for (size_t i = 0; i < SOAK_POOL; i++) {
    thread[i] = soak_start(&soak_wait_for_tasks, &soak_pool_worker[i]);
  }
  for (size_t i = 0; i < SOAK_LANES; i++) {
    soak_lane[i] = (soak_turn_t){turn->deadline_ms, turn->random + i, i};
    sem_post(&soak_pool_worker[i].turn);
  }
  for (size_t i = 0; i < SOAK_LANES; i++) {
    while (sem_wait(&soak_pool_done) != 0) {
    }
  }
  atomic_store(&soak_pool_is_done, true);
  for (size_t i = 0; i < SOAK_POOL; i++) sem_post(&soak_pool_worker[i].turn);
  for (size_t i = 0; i < SOAK_POOL; i++) pthread_join(thread[i], NULL);
}

// -- producers and consumers --

#define SOAK_QUEUE ((size_t)4096)

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  soak_block_t block[SOAK_QUEUE];
  size_t first, count;
  size_t producers;
} soak_queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void* soak_produce(soak_turn_t* turn) {
  while (!soak_is_over(turn)) {
    const soak_block_t block = soak_make(&turn->random, soak_request_size(&turn->random));
    pthread_mutex_lock(&soak_queue.lock);
    while (soak_queue.count == SOAK_QUEUE) {
      pthread_cond_wait(&soak_queue.changed, &soak_queue.lock);
    }
    soak_queue.block[(soak_queue.first + soak_queue.count++) % SOAK_QUEUE] = block;
    pthread_cond_broadcast(&soak_queue.changed);
    pthread_mutex_unlock(&soak_queue.lock);
  }
  pthread_mutex_lock(&soak_queue.lock);
  soak_queue.producers--;
  pthread_cond_broadcast(&soak_queue.changed);
  pthread_mutex_unlock(&soak_queue.lock);
  return NULL;
}

static void* soak_consume(void) {
  soak_block_t block;
  do {
    block.p = NULL;
    pthread_mutex_lock(&soak_queue.lock);
    while (soak_queue.count == 0 && soak_queue.producers > 0) {
      pthread_cond_wait(&soak_queue.changed, &soak_queue.lock);
    }
    if (soak_queue.count > 0) {
      block = soak_queue.block[soak_queue.first];
      soak_queue.first = (soak_queue.first + 1) % SOAK_QUEUE;
      soak_queue.count--;
      pthread_cond_broadcast(&soak_queue.changed);
    }
    pthread_mutex_unlock(&soak_queue.lock);
    soak_drop(block);
  } while (block.p != NULL);
  return NULL;
}

static void* soak_produce_or_consume(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  return turn->index % 2 == 0 ? soak_produce(turn) : soak_consume();
}

static void soak_pipeline(soak_turn_t* turn) {
  soak_queue.producers = 2;
  soak_threads(turn, 4, &soak_produce_or_consume);
}

// -- buffers that grow --

#define SOAK_BUFFERS ((size_t)8)
#define SOAK_BUFFER_MAX (4 * LOAD_MIB)

static void* soak_grow_buffers(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  soak_block_t buffer[SOAK_BUFFERS] = {{NULL, 0, 0}};
  while (!soak_is_over(turn)) {
    soak_block_t* const it = &buffer[random_below(&turn->random, SOAK_BUFFERS)];
    if (it->p == NULL) {
      *it = soak_make(&turn->random, 1 + random_below(&turn->random, 200));
    } else if (it->size < SOAK_BUFFER_MAX) {
      const size_t percent = 105 + random_below(&turn->random, 96);
      soak_resize(it, &turn->random, it->size * percent / 100 + 1);
    } else {
      // It is cut to what was needed, and handed on.
      soak_resize(it, &turn->random, 1 + random_below(&turn->random, 64 * LOAD_KIB));
      soak_drop(soak_shelf_swap(&soak_sessions, &turn->random, *it));
      it->p = NULL;
    }
  }
  for (size_t i = 0; i < SOAK_BUFFERS; i++) soak_drop(buffer[i]);
  return NULL;
}

static void soak_grow(soak_turn_t* turn) { soak_threads(turn, 2, &soak_grow_buffers); }

// -- children --

#define SOAK_CHILD_BYTES (8 * LOAD_MIB)
#define SOAK_CHILD_BLOCKS ((size_t)8000)
#define SOAK_CHILD_S 60 // it hangs then

static soak_block_t* soak_child_block;

// With the locks of the shelves, so that the child finds them whole.
static pid_t soak_fork_with_shelves(void) {
  pthread_mutex_lock(&soak_sessions.lock);
  pthread_mutex_lock(&soak_long.lock);
  const pid_t child = fork();
  pthread_mutex_unlock(&soak_long.lock);
  pthread_mutex_unlock(&soak_sessions.lock);
  CHECK_SAY(child >= 0, "fork: %s", strerror(errno));
  return child;
}

static void* soak_request_once(void* random) {
  soak_request((uint64_t*)random);
  return NULL;
}

// What it inherited is as it was; it frees blocks of threads that it does not have, works, ends.
static void soak_be_child(uint64_t random) {
  soak_block_t* const block = soak_child_block;
  alarm(SOAK_CHILD_S);
  soak_check_eternal();
  for (size_t i = 0; i < SOAK_SESSIONS; i += 2) {
    soak_drop(soak_sessions.block[i]);
    soak_sessions.block[i].p = NULL;
  }
  size_t bytes = 0, count = 0;
  while (bytes < SOAK_CHILD_BYTES && count < SOAK_CHILD_BLOCKS) {
    block[count] = soak_make(&random, soak_request_size(&random));
    bytes += block[count++].size;
  }
  pthread_join(soak_start(&soak_request_once, &random), NULL);
  for (size_t i = 0; i < count; i++) soak_drop(block[i]);
  _exit(0);
}

static void* soak_fork(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  if (turn->index != 0) return soak_serve(turn);
  while (!soak_is_over(turn)) {
    const pid_t child = soak_fork_with_shelves();
    if (child == 0) soak_be_child(turn->random);
    int status = 1;
    CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "a child: status %d", status);
    turn->random += 1000003;
    load_wait_ms(20);
  }
  return NULL;
}

static void soak_forks(soak_turn_t* turn) { soak_threads(turn, 3, &soak_fork); }

// -- collection while others work --

static void* soak_collect_now_and_then(void* argument) {
  soak_turn_t* const turn = (soak_turn_t*)argument;
  if (turn->index != 0) return soak_serve(turn);
  while (!soak_is_over(turn)) {
    soak_request(&turn->random);
    soak_collect(random_below(&turn->random, 2) == 0);
    load_wait_ms(5);
  }
  return NULL;
}

static void soak_collects(soak_turn_t* turn) { soak_threads(turn, 3, &soak_collect_now_and_then); }

// -- all of them --

void soak_open(void) {
  soak_shelf_open(&soak_sessions, SOAK_SESSIONS);
  soak_shelf_open(&soak_long, SOAK_LONG);
  soak_shelf_open(&soak_eternal, SOAK_ETERNAL);
  for (size_t i = 0; i < SOAK_BURST_THREADS; i++) {
    soak_shelf_open(&soak_burst_shelf[i], SOAK_BURST_MAX);
  }
  for (size_t i = 0; i < SOAK_SHIFT_THREADS; i++) {
    soak_shelf_open(&soak_shift_shelf[i], SOAK_SHIFT_MAX);
  }
  soak_pool_worker = (soak_worker_t*)soak_map(SOAK_POOL * sizeof(soak_worker_t));
  for (size_t i = 0; i < SOAK_POOL; i++) sem_init(&soak_pool_worker[i].turn, 0, 0);
  sem_init(&soak_pool_done, 0, 0);
  soak_child_block = (soak_block_t*)soak_map(SOAK_CHILD_BLOCKS * sizeof(soak_block_t));
  sem_init(&soak_gone, 0, 0);
  CHECK(pthread_key_create(&soak_key, &soak_key_end) == 0);
}

const soak_phase_t soak_phases[] = {
    {"steady", &soak_steady, 1},    {"burst", &soak_burst, 2}, {"sizes", &soak_sizes, 1},
    {"threads", &soak_visitors, 1}, {"pool", &soak_pool, 1},   {"pipeline", &soak_pipeline, 1},
    {"grow", &soak_grow, 1},        {"forks", &soak_forks, 1}, {"collect", &soak_collects, 1},
};
const size_t soak_phase_count = sizeof(soak_phases) / sizeof(soak_phases[0]);
