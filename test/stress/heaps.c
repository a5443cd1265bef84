// SPDX-License-Identifier: MIT
// Threads that come and go allocate from heaps of their own and from shared ones, free each
// other's blocks, and end heaps at any moment, in the main sub-process and in others. If this
// fails, a program with heaps gets blocks that overlap, loses objects with a heap they are not in,
// or keeps what it gave up; or a report of where its memory is ends it.
//
// A world is what the threads of one sub-process share: heaps, and slots with blocks. The slots are
// the model: what is in them, and nothing else, is in use. Blocks of an open heap go to the world's
// slots, where anybody frees them at any time; it can only be deleted. Blocks of a closed heap
// stay in its own slots and are touched under its lock; so it can be destroyed.
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>

#include "load.h"

#define LANES 4 // threads at a time, beside those of sub-processes
#define GUESTS 2 // threads of a sub-process
#define ENTRIES 10
#define CLOSED_SLOTS 256
#define SLOTS 4096
#define CHANGES ((size_t)400000)
#define THREAD_CHANGES 4000
#define TIME_MS 2200
#define LIBC_BLOCKS_MAX 100
// What may stay resident when nothing is in use.
#define LEFT_MAX (16 * LOAD_MIB)

typedef struct {
  size_t size;
  uint32_t life; // of the heap it was made in; 0: the main one
  uint8_t mark;
} block_t;

typedef _Atomic(block_t*) slot_t;

typedef struct {
  pthread_rwlock_t lock; // written: the heap ends; read: it is used
  mi_heap_t* heap; // NULL: the main one
  uint32_t life; // a number that no other heap has
  bool is_closed;
  slot_t slot[CLOSED_SLOTS]; // blocks of a closed heap
} entry_t;

typedef struct {
  entry_t entry[ENTRIES];
  slot_t slot[SLOTS];
} world_t;

static world_t main_world, guest_world[LANES];
static _Atomic(uint32_t) last_life;
static _Atomic(size_t) changes, heaps_ended, subprocs_ended;
static load_t load;
static uint64_t deadline_ms;

// -- Blocks --

static void verify(const block_t* block) {
  load_verify(block + 1, block->size - sizeof(block_t), block->mark);
}

static void drop(block_t* block) {
  if (block == NULL) return;
  verify(block);
  mi_free(block);
}

static void fill(block_t* block, size_t size, uint32_t life, uint64_t* state) {
  CHECK_SAY(block != NULL, "no memory for %zu bytes", size);
  block->size = size;
  block->life = life;
  block->mark = (uint8_t)random_next(state);
  load_fill(block + 1, size - sizeof(block_t), block->mark);
}

// Mostly small; one in 64 up to 64 KiB, one in 1024 up to 2 MiB.
static size_t draw_size(uint64_t* state) {
  const uint64_t r = random_next(state);
  size_t top = (size_t)32 << r % 6;
  if ((r >> 8 & 63) == 0) top = (r >> 14 & 15) != 0 ? 64 * LOAD_KIB : 2 * LOAD_MIB;
  return sizeof(block_t) + random_below(state, top);
}

static block_t* make_zeroed(mi_heap_t* heap, size_t size) {
  block_t* const block = (block_t*)mi_heap_calloc(heap, 1, size);
  load_verify_zero(block, size);
  return block;
}

static block_t* make(mi_heap_t* heap, uint32_t life, uint64_t* state) {
  const size_t size = draw_size(state);
  block_t* const block = (block_t*)(random_below(state, 8) == 0 ? make_zeroed(heap, size)
                                                                : mi_heap_malloc(heap, size));
  fill(block, size, life, state);
  return block;
}

// Into `heap`, whatever the block is in.
static block_t* resize(mi_heap_t* heap, uint32_t life, block_t* block, uint64_t* state) {
  if (block == NULL) return make(heap, life, state);
  verify(block);
  const size_t old = block->size, size = draw_size(state);
  const uint8_t mark = block->mark;
  block_t* const moved = (block_t*)mi_heap_realloc(heap, block, size);
  CHECK_SAY(moved != NULL, "no memory for %zu bytes", size);
  load_verify_moved(moved + 1, old - sizeof(block_t), size - sizeof(block_t), mark);
  fill(moved, size, life, state);
  return moved;
}

static slot_t* random_slot(world_t* world, uint64_t* state) {
  return &world->slot[random_below(state, SLOTS)];
}

// -- Heaps that are shared --

// One block more in a heap, or one that was somewhere else.
static void change_entry(world_t* world, entry_t* entry, uint64_t* state) {
  block_t* other =
      random_below(state, 8) == 0 ? atomic_exchange(random_slot(world, state), NULL) : NULL;
  pthread_rwlock_rdlock(&entry->lock);
  block_t* const block = resize(entry->heap, entry->life, other, state);
  if (entry->heap != NULL) {
    CHECK_SAY(mi_heap_of(block) == entry->heap, "%zu bytes in another heap", block->size);
  }
  slot_t* slot = random_slot(world, state);
  if (entry->is_closed) slot = &entry->slot[random_below(state, CLOSED_SLOTS)];
  other = atomic_exchange(slot, block);
  if (entry->is_closed) drop(other);
  if (random_below(state, 400) == 0) mi_heap_collect(entry->heap, random_below(state, 4) == 0);
  const bool is_open = !entry->is_closed;
  pthread_rwlock_unlock(&entry->lock);
  if (is_open) drop(other);
}

// The heap of an entry ends, and there is a new one.
static void replace_entry(entry_t* entry, uint64_t* state) {
  pthread_rwlock_wrlock(&entry->lock);
  const bool is_destroyed = entry->is_closed && random_below(state, 2) == 0;
  if (is_destroyed) {
    mi_heap_destroy(entry->heap);
  } else {
    mi_heap_delete(entry->heap);
  }
  for (size_t i = 0; entry->is_closed && i < CLOSED_SLOTS; i++) {
    block_t* const block = atomic_exchange(&entry->slot[i], NULL);
    if (!is_destroyed) drop(block);
  }
  entry->heap = mi_heap_new();
  CHECK(entry->heap != NULL);
  entry->life = atomic_fetch_add(&last_life, 1) + 1;
  entry->is_closed = random_below(state, 2) == 0;
  pthread_rwlock_unlock(&entry->lock);
  atomic_fetch_add(&heaps_ended, 1);
}

// -- Heaps of one thread --

enum { OWN_BLOCKS = 64 };

// A heap that lives for a moment, as the default of the thread or not; some of its blocks may stay.
static void use_own_heap(world_t* world, uint64_t* state) {
  block_t* own[OWN_BLOCKS];
  mi_heap_t* const heap = mi_heap_new();
  CHECK(heap != NULL);
  const uint32_t life = atomic_fetch_add(&last_life, 1) + 1;
  const bool is_default = random_below(state, 2) == 0;
  if (is_default) mi_theap_set_default(mi_heap_theap(heap));
  for (size_t i = 0; i < OWN_BLOCKS; i++) {
    if (is_default) {
      const size_t size = draw_size(state);
      own[i] = (block_t*)mi_malloc(size);
      fill(own[i], size, life, state);
    } else {
      own[i] = make(heap, life, state);
    }
    CHECK_SAY(mi_heap_of(own[i]) == heap, "%zu bytes in another heap", own[i]->size);
  }
  for (size_t i = 0; i < OWN_BLOCKS; i++) verify(own[i]);
  if (random_below(state, 2) == 0) {
    for (size_t i = 0; i < OWN_BLOCKS; i += 2) drop(own[i]);
    mi_heap_destroy(heap);
  } else {
    for (size_t i = 0; i < OWN_BLOCKS; i += 2) {
      drop(atomic_exchange(random_slot(world, state), own[i]));
    }
    mi_heap_delete(heap);
    for (size_t i = 1; i < OWN_BLOCKS; i += 2) drop(own[i]);
  }
  void* const p = mi_malloc(40);
  CHECK_SAY(mi_heap_of(p) == mi_heap_main(), "the default is not the main heap again");
  mi_free(p);
  atomic_fetch_add(&heaps_ended, 1);
}

// -- Reports --

static void count_text(const char* text, void* arg) {
  const size_t length = strlen(text);
  CHECK_SAY(length > 0 && length < 256, "%zu bytes at once: %s", length, text);
  CHECK_SAY(text[length - 1] == '\n', "not a whole line: %s", text);
  *(size_t*)arg += length;
}

// Heaps, threads and sub-processes end while it looks.
static void explain(void) {
  size_t length = 0;
  mi_explain(&count_text, &length);
  CHECK(length > 500);
}

// -- Threads --

static void work(world_t* world, uint64_t* state) {
  const size_t count = THREAD_CHANGES / 2 + random_below(state, THREAD_CHANGES);
  for (size_t i = 0; i < count; i++) {
    if (i % 256 == 0 && load_now_ms() > deadline_ms) break;
    if (random_below(state, 4000) == 0) explain();
    const size_t way = random_below(state, 1000);
    if (way < 3) {
      replace_entry(&world->entry[random_below(state, ENTRIES)], state);
    } else if (way < 6) {
      use_own_heap(world, state);
    } else if (way < 200) {
      drop(atomic_exchange(random_slot(world, state), make(NULL, 0, state)));
    } else if (way < 300) {
      drop(atomic_exchange(random_slot(world, state), NULL));
    } else {
      change_entry(world, &world->entry[random_below(state, ENTRIES)], state);
    }
  }
  atomic_fetch_add(&changes, count);
}

typedef struct {
  uint64_t seed;
  size_t lane;
  mi_subproc_id_t subproc; // of guests
} task_t;

static void* run_in_main(void* argument) {
  task_t* const task = (task_t*)argument;
  work(&main_world, &task->seed);
  return NULL;
}

static void* run_as_guest(void* argument) {
  task_t* const task = (task_t*)argument;
  mi_subproc_add_current_thread(task->subproc);
  CHECK_SAY(mi_subproc_current()._mi_subproc_id == task->subproc._mi_subproc_id, "not in it");
  work(&guest_world[task->lane], &task->seed);
  return NULL;
}

// -- What is in use, as the model and as visitors see it --

typedef struct {
  size_t blocks, bytes;
} sum_t;

static bool add_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                      void* arg) {
  (void)heap, (void)area;
  sum_t* const sum = (sum_t*)arg;
  if (block != NULL) sum->blocks++, sum->bytes += size;
  return true;
}

static bool add_heap(mi_heap_t* heap, void* arg) {
  return mi_heap_visit_blocks(heap, true, &add_block, arg);
}

// Adds the blocks that were made in heap `life`.
static void add_slots(sum_t* sum, slot_t* slot, size_t count, uint32_t life) {
  for (size_t i = 0; i < count; i++) {
    const block_t* const block = atomic_load(&slot[i]);
    if (block == NULL || block->life != life) continue;
    verify(block);
    sum->blocks++;
    sum->bytes += mi_usable_size(block);
  }
}

static void check_sum(const char* name, sum_t seen, sum_t model) {
  CHECK_SAY(seen.blocks == model.blocks && seen.bytes == model.bytes,
            "%s: %zu blocks of %zu bytes are seen, in use are %zu of %zu", name, seen.blocks,
            seen.bytes, model.blocks, model.bytes);
}

// Each heap has the blocks it should have. Returns the sum of all blocks of the world.
static sum_t check_world(world_t* world) {
  sum_t total = {0, 0};
  for (size_t i = 0; i < ENTRIES; i++) {
    entry_t* const entry = &world->entry[i];
    if (entry->heap == NULL) continue;
    sum_t seen = {0, 0}, model = {0, 0};
    add_heap(entry->heap, &seen);
    add_slots(&model, entry->slot, CLOSED_SLOTS, entry->life);
    if (!entry->is_closed) add_slots(&model, world->slot, SLOTS, entry->life);
    check_sum("a heap", seen, model);
    if (entry->is_closed) total.blocks += model.blocks, total.bytes += model.bytes;
  }
  for (size_t i = 0; i < SLOTS; i++) {
    const block_t* const block = atomic_load(&world->slot[i]);
    if (block != NULL) total.blocks++, total.bytes += mi_usable_size(block);
  }
  return total;
}

// The main heap has all blocks of heaps that were deleted, beside those of libc.
static void check_main_heap(void) {
  sum_t seen = {0, 0}, model = {0, 0};
  add_heap(mi_heap_main(), &seen);
  for (size_t i = 0; i < SLOTS; i++) {
    const block_t* const block = atomic_load(&main_world.slot[i]);
    if (block == NULL) continue;
    const mi_heap_t* expected = mi_heap_main();
    for (size_t k = 0; k < ENTRIES; k++) {
      const entry_t* const entry = &main_world.entry[k];
      if (block->life != 0 && block->life == entry->life) expected = entry->heap;
    }
    CHECK_SAY(mi_heap_of(block) == expected, "block %zu is in another heap", i);
    if (expected == mi_heap_main()) model.blocks++;
  }
  CHECK_SAY(seen.blocks >= model.blocks && seen.blocks <= model.blocks + LIBC_BLOCKS_MAX,
            "%zu blocks are seen, in use are %zu", seen.blocks, model.blocks);
}

static void drop_world(world_t* world) {
  for (size_t i = 0; i < SLOTS; i++) drop(atomic_exchange(&world->slot[i], NULL));
  for (size_t i = 0; i < ENTRIES; i++) {
    entry_t* const entry = &world->entry[i];
    for (size_t k = 0; k < CLOSED_SLOTS; k++) drop(atomic_exchange(&entry->slot[k], NULL));
  }
}

// Nothing of the world is there any more.
static void clear_world(world_t* world) {
  for (size_t i = 0; i < SLOTS; i++) atomic_store(&world->slot[i], NULL);
  for (size_t i = 0; i < ENTRIES; i++) {
    entry_t* const entry = &world->entry[i];
    entry->heap = NULL;
    entry->life = 0;
    entry->is_closed = false;
    for (size_t k = 0; k < CLOSED_SLOTS; k++) atomic_store(&entry->slot[k], NULL);
  }
}

// -- Sub-processes --

// A sub-process from its start to its end. This thread stays outside, and frees blocks of it.
static void* run_subproc(void* argument) {
  task_t* const task = (task_t*)argument;
  world_t* const world = &guest_world[task->lane];
  const mi_subproc_id_t subproc = mi_subproc_new();
  CHECK(subproc._mi_subproc_id != NULL);
  pthread_t thread[GUESTS];
  task_t guest[GUESTS];
  for (size_t i = 0; i < GUESTS; i++) {
    guest[i] = (task_t){random_next(&task->seed), task->lane, subproc};
    CHECK_SAY(pthread_create(&thread[i], NULL, &run_as_guest, &guest[i]) == 0, "thread %zu", i);
  }
  for (size_t i = 0; i < THREAD_CHANGES / 2; i++) {
    drop(atomic_exchange(random_slot(world, &task->seed), NULL));
  }
  for (size_t i = 0; i < GUESTS; i++) pthread_join(thread[i], NULL);
  sum_t seen = {0, 0};
  mi_subproc_visit_heaps(subproc, &add_heap, &seen);
  check_sum("a sub-process", seen, check_world(world));
  if (random_below(&task->seed, 4) == 0) {
    mi_subproc_delete(subproc);
    drop_world(world);
  } else {
    for (size_t i = 0; i < SLOTS; i += 2) drop(atomic_exchange(&world->slot[i], NULL));
    mi_subproc_destroy(subproc);
  }
  clear_world(world);
  atomic_fetch_add(&subprocs_ended, 1);
  return NULL;
}

static void start(pthread_t* thread, task_t* task, uint64_t* state) {
  task->seed = random_next(state);
  void* (*const run)(void*) = random_below(state, 4) == 0 ? &run_subproc : &run_in_main;
  CHECK_SAY(pthread_create(thread, NULL, run, task) == 0, "thread of lane %zu", task->lane);
}

static void* do_nothing(void* argument) { return argument; }

// Return the resident memory that a thread leaves behind: some, in an emulator.
static size_t left_by_thread(void) {
  enum { COUNT = 32 };
  size_t before = load_rss();
  for (size_t i = 0; i < COUNT + LANES; i++) {
    pthread_t thread;
    if (i == LANES) before = load_rss();
    CHECK(pthread_create(&thread, NULL, &do_nothing, NULL) == 0);
    pthread_join(thread, NULL);
  }
  const size_t after = load_rss();
  return after > before ? (after - before) / COUNT : 0;
}

int main(int argc, char** argv) {
  load = load_begin(argc, argv);
  uint64_t state = load.seed;
  const size_t per_thread = left_by_thread();
  deadline_ms = load_now_ms() + TIME_MS;
  const size_t start_rss = load_rss();
  pthread_t thread[LANES];
  task_t task[LANES];
  size_t threads = LANES;
  for (size_t i = 0; i < LANES; i++) {
    for (size_t k = 0; k < ENTRIES; k++) {
      pthread_rwlock_init(&guest_world[i].entry[k].lock, NULL);
      if (i == 0) pthread_rwlock_init(&main_world.entry[k].lock, NULL);
    }
  }
  for (size_t i = 0; i < LANES; i++) {
    task[i].lane = i;
    start(&thread[i], &task[i], &state);
  }
  const size_t enough = load_scale(&load, CHANGES);
  for (; load_now_ms() < deadline_ms && atomic_load(&changes) < enough; threads++) {
    pthread_join(thread[threads % LANES], NULL);
    start(&thread[threads % LANES], &task[threads % LANES], &state);
  }
  for (size_t i = 0; i < LANES; i++) pthread_join(thread[i], NULL);
  const sum_t live = check_world(&main_world);
  check_main_heap();
  const size_t rss = load_rss();
  for (size_t i = 0; i < ENTRIES; i++) replace_entry(&main_world.entry[i], &state);
  drop_world(&main_world);
  for (size_t i = 0; i < ENTRIES; i++) mi_heap_destroy(main_world.entry[i].heap);
  mi_collect(true);
  const size_t end_rss = load_rss();
  printf("%zu changes, %zu threads, %zu heaps and %zu sub-processes ended\n", atomic_load(&changes),
         threads, atomic_load(&heaps_ended), atomic_load(&subprocs_ended));
  printf("live %zu KiB, resident %zu KiB; in the end %zu KiB, at the start %zu KiB\n",
         live.bytes / LOAD_KIB, rss / LOAD_KIB, end_rss / LOAD_KIB, start_rss / LOAD_KIB);
  fflush(stdout);
  const size_t by_threads = per_thread * (threads + GUESTS * atomic_load(&subprocs_ended));
  CHECK_SAY(end_rss < start_rss + load_bound(LEFT_MAX) + by_threads,
            "%zu KiB stay, %zu are of the threads", (end_rss - start_rss) / LOAD_KIB,
            by_threads / LOAD_KIB);
  return 0;
}
