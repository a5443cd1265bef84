// SPDX-License-Identifier: MIT
// play.c - does what a plan says, with the allocator that the process has, and measures it.
//
// PLAY-1  what the player itself needs is there before the first call: it neither allocates nor
//     maps while it plays, but for the stacks of threads. Its tables are resident from the start,
//     and their size is subtracted.
// PLAY-2  the time is that of the processor, of each thread while it plays. What the player takes
//     for itself is measured before, by doing all operations without the calls, and is subtracted,
//     as is what a thread takes to wait for another.
// PLAY-3  a block that is touched gets a byte that its slot gives. Before it is freed or replaced
//     that byte must still be there: an allocator that gives a block to two is found out.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../base/bits.h"
#include "play.h"

// Of the system's call; the header of the kernel may be missing.
#define MI_PLAY_FUTEX_WAIT 128 // FUTEX_WAIT_PRIVATE
#define MI_PLAY_FUTEX_WAKE 129

#define MI_PLAY_SPINS 100
#define MI_PLAY_SLEEP_NS 1000000 // a wake-up that was missed costs at most that
#define MI_PLAY_STACK ((size_t)64 * 1024)

// A block, while it lives.
typedef struct mi_play_block_s {
  uint8_t* p;
  size_t size;
} mi_play_block_t;

// A thread, in cache lines of its own.
typedef struct mi_play_thread_s {
  // How many operations are done, as far as another thread waits for them.
  //   write  it     store release   an operation is done    mi_play_note    (publishes the block)
  //   write  first  store release   the next time begins    mi_play_reset   (pairs with none)
  //   read   any    acquire         wait                    mi_play_wait    (sees the block)
  mi_atomic(uint32_t) played;
  // How many wait for it. Any thread writes and reads it, relaxed: a hint, see MI_PLAY_SLEEP_NS.
  mi_atomic(uint32_t) sleeping;
  pthread_t id;
  const mi_plan_thread_t* plan;
  uint64_t cpu_ns, wait_ns;
} mi_attr_aligned(128) mi_play_thread_t;

// Constant while threads play, but for what is atomic.
static struct {
  mi_play_block_t* blocks;
  mi_play_thread_t* threads;
  mi_play_touch_t touch;
  size_t os_page;
  // Whether threads that have done all may end. Any thread writes and reads it, relaxed: nothing
  // else depends on it.
  mi_atomic(uint32_t) may_end;
} mi_play_state;

static uint64_t mi_play_now_ns(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static mi_attr_cold void mi_play_fail(const char* what, uint64_t number) {
  fprintf(stderr, "mimalloc-player: %s (%llu)\n", what, (unsigned long long)number);
  _exit(1);
}

static void mi_play_sleep(mi_atomic(uint32_t) * word, uint32_t value) {
  const struct timespec most = {0, MI_PLAY_SLEEP_NS};
  syscall(SYS_futex, word, MI_PLAY_FUTEX_WAIT, value, &most, NULL, 0);
}

static void mi_play_wake(mi_atomic(uint32_t) * word) {
  syscall(SYS_futex, word, MI_PLAY_FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

// -- Threads that wait for each other --

static void mi_play_note(mi_play_thread_t* t, uint64_t done) {
  // publishes the block to `mi_play_wait`
  mi_atomic_store_release(&t->played, (uint32_t)done);
  if (mi_unlikely(mi_atomic_load_relaxed(&t->sleeping) != 0)) mi_play_wake(&t->played);
}

static mi_attr_noinline void mi_play_wait(mi_play_thread_t* self, mi_play_thread_t* other,
                                          uint64_t wanted) {
  for (int i = 0; i < MI_PLAY_SPINS; i++) {
    // sees the block that `mi_play_note` has published
    if (mi_atomic_load_acquire(&other->played) >= wanted) return;
  }
  const uint64_t since = mi_play_now_ns(CLOCK_THREAD_CPUTIME_ID);
  mi_atomic_add_relaxed(&other->sleeping, 1);
  for (;;) {
    // sees the block that `mi_play_note` has published
    const uint32_t done = mi_atomic_load_acquire(&other->played);
    if (done >= wanted) break;
    mi_play_sleep(&other->played, done);
  }
  mi_atomic_sub_relaxed(&other->sleeping, 1);
  self->wait_ns += mi_play_now_ns(CLOCK_THREAD_CPUTIME_ID) - since;
}

static void* mi_play_thread(void* argument);

static void mi_play_start(uint32_t thread) {
  mi_play_thread_t* const t = &mi_play_state.threads[thread];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes,
                            mi_bits_max(MI_PLAY_STACK, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
  pthread_t id; // the thread itself writes down its own, before others need it
  const int error = pthread_create(&id, &attributes, mi_play_thread, t);
  pthread_attr_destroy(&attributes);
  if (error != 0) mi_play_fail("a thread cannot be started", (uint64_t)error);
}

static void mi_play_join(uint32_t thread) {
  const int error = pthread_join(mi_play_state.threads[thread].id, NULL);
  if (error != 0) mi_play_fail("a thread cannot be joined", (uint64_t)error);
}

// -- Blocks (PLAY-3) --

static uint8_t mi_play_mark(const mi_play_block_t* block) {
  return (uint8_t)(block - mi_play_state.blocks) | 1;
}

// Write to a block from an offset on.
static void mi_play_write(const mi_play_block_t* block, size_t from) {
  if (block->size == 0 || mi_play_state.touch == MI_PLAY_NOTHING) return;
  const uint8_t mark = mi_play_mark(block);
  if (mi_play_state.touch == MI_PLAY_ALL) {
    if (block->size > from) memset(block->p + from, mark, block->size - from);
    block->p[0] = mark;
    return;
  }
  *(volatile uint8_t*)block->p = mark;
  const size_t mask = mi_play_state.os_page - 1;
  const uintptr_t end = (uintptr_t)block->p + block->size;
  uintptr_t at = ((uintptr_t)block->p + from + mask) & ~(uintptr_t)mask;
  if (at == (uintptr_t)block->p) at += mask + 1;
  for (; at < end; at += mask + 1) *(volatile uint8_t*)at = mark;
}

static void mi_play_check(const mi_play_block_t* block) {
  if (block->size == 0 || mi_play_state.touch == MI_PLAY_NOTHING) return;
  if (mi_unlikely(block->p[0] != mi_play_mark(block)))
    mi_play_fail("the contents of a block have changed", block->size);
}

static void mi_play_keep(const mi_plan_op_t* op, void* p) {
  if (mi_unlikely(p == NULL) && op->size != 0)
    mi_play_fail("no memory for a block of so many bytes", op->size);
  if (mi_unlikely(((uintptr_t)p & (((uintptr_t)1 << op->alignment_log2) - 1)) != 0)) {
    mi_play_fail("a block is not aligned as it must be", op->size);
  }
  mi_play_block_t* const block = &mi_play_state.blocks[op->slot];
  *block = (mi_play_block_t){(uint8_t*)p, p == NULL ? 0 : op->size};
  mi_play_write(block, 0);
}

static void mi_play_calloc(const mi_plan_op_t* op) {
  uint8_t* const p = (uint8_t*)calloc(1, op->size);
  if (p != NULL && op->size > 0 && (p[0] | p[op->size - 1]) != 0)
    mi_play_fail("calloc: the block is not zero", op->size);
  mi_play_keep(op, p);
}

static void mi_play_realloc(const mi_plan_op_t* op) {
  mi_play_block_t* const block = &mi_play_state.blocks[op->slot];
  const size_t before = block->size;
  mi_play_check(block);
  uint8_t* const p = (uint8_t*)realloc(block->p, op->size);
  if (mi_unlikely(p == NULL) && op->size != 0)
    mi_play_fail("no memory for a block of so many bytes", op->size);
  *block = (mi_play_block_t){p, p == NULL ? 0 : op->size};
  if (before > 0) mi_play_check(block);
  mi_play_write(block, before);
}

static void mi_play_free(const mi_plan_op_t* op) {
  const mi_play_block_t* const block = &mi_play_state.blocks[op->slot];
  mi_play_check(block);
  free(block->p);
}

static void mi_play_call(const mi_plan_op_t* op) {
  const size_t alignment = (size_t)1 << op->alignment_log2;
  void* p = NULL;
  switch ((mi_plan_kind_t)op->kind) {
    case MI_PLAN_MALLOC:
      mi_play_keep(op, malloc(op->size));
      break;
    case MI_PLAN_FREE:
      mi_play_free(op);
      break;
    case MI_PLAN_CALLOC:
      mi_play_calloc(op);
      break;
    case MI_PLAN_REALLOC:
      mi_play_realloc(op);
      break;
    case MI_PLAN_ALIGNED_ALLOC:
      mi_play_keep(op, aligned_alloc(alignment, op->size));
      break;
    case MI_PLAN_MEMALIGN:
      mi_play_keep(op, memalign(alignment, op->size));
      break;
    case MI_PLAN_POSIX_MEMALIGN:
      if (posix_memalign(&p, alignment, op->size) != 0) p = NULL;
      mi_play_keep(op, p);
      break;
    case MI_PLAN_FREE_NULL:
      free(NULL);
      break;
    case MI_PLAN_WAIT:
    case MI_PLAN_START:
    case MI_PLAN_JOIN:
    case MI_PLAN_KINDS:
      break;
  }
}

// -- One thread --

static void mi_play_ops(mi_play_thread_t* self) {
  const mi_plan_op_t* const ops = (const mi_plan_op_t*)self->plan->ops.start;
  const uint64_t count = self->plan->op_count;
  for (uint64_t i = 0; i < count; i++) {
    const mi_plan_op_t* const op = &ops[i];
    if (mi_likely(op->kind < MI_PLAN_WAIT)) {
      mi_play_call(op);
    } else if (op->kind == MI_PLAN_WAIT) {
      mi_play_wait(self, &mi_play_state.threads[op->slot], op->size);
    } else if (op->kind == MI_PLAN_START) {
      mi_play_start(op->slot);
    } else {
      mi_play_join(op->slot);
    }
    if (op->is_awaited) mi_play_note(self, i + 1);
  }
}

static void mi_play_measured(mi_play_thread_t* self) {
  const uint64_t since = mi_play_now_ns(CLOCK_THREAD_CPUTIME_ID);
  mi_play_ops(self);
  self->cpu_ns += mi_play_now_ns(CLOCK_THREAD_CPUTIME_ID) - since;
}

static void* mi_play_thread(void* argument) {
  mi_play_thread_t* const self = (mi_play_thread_t*)argument;
  self->id = pthread_self();
  mi_play_measured(self);
  if (self->plan->is_done) return NULL;
  // It lived when the program ended.
  while (mi_atomic_load_relaxed(&mi_play_state.may_end) == 0) {
    mi_play_sleep(&mi_play_state.may_end, 0);
  }
  return NULL;
}

// -- What the player takes for itself (PLAY-2) --

// As `mi_play_call`, without the call: what it looks at and writes, but for the blocks.
static mi_attr_noinline void mi_play_dry_call(const mi_plan_op_t* op) {
  mi_play_block_t* const block = &mi_play_state.blocks[op->slot];
  switch ((mi_plan_kind_t)op->kind) {
    case MI_PLAN_FREE:
      *(volatile size_t*)&block->size;
      break;
    case MI_PLAN_REALLOC:
      *(volatile size_t*)&block->size = op->size;
      break;
    case MI_PLAN_FREE_NULL:
      break;
    default:
      *(mi_play_block_t volatile*)block = (mi_play_block_t){NULL, op->size};
      break;
  }
}

// Also makes all tables resident.
static uint64_t mi_play_dry(const mi_plan_t* plan) {
  uint64_t least = UINT64_MAX;
  for (int turn = 0; turn < 3; turn++) {
    const uint64_t since = mi_play_now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint32_t i = 0; i < plan->thread_count; i++) {
      const mi_plan_thread_t* const t = mi_plan_thread(plan, i);
      const mi_plan_op_t* const ops = (const mi_plan_op_t*)t->ops.start;
      for (uint64_t k = 0; k < t->op_count; k++) {
        if (mi_likely(ops[k].kind < MI_PLAN_WAIT)) mi_play_dry_call(&ops[k]);
      }
    }
    const uint64_t lasted = mi_play_now_ns(CLOCK_THREAD_CPUTIME_ID) - since;
    if (lasted < least) least = lasted;
  }
  return least;
}

// -- What the system says --

// Read a number of KiB behind a word in a file of /proc. Returns bytes, -1 if there is none.
static int64_t mi_play_proc(const char* path, const char* word) {
  char text[4096];
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const ssize_t got = read(file, text, sizeof(text) - 1);
  close(file);
  if (got <= 0) return -1;
  text[got] = 0;
  const char* const at = strstr(text, word);
  return at == NULL ? -1 : (int64_t)strtoll(at + strlen(word), NULL, 10) * 1024;
}

static int64_t mi_play_resident(void) {
  const int64_t exact = mi_play_proc("/proc/self/smaps_rollup", "\nRss:");
  return exact >= 0 ? exact : mi_play_proc("/proc/self/status", "\nVmRSS:");
}

// Forget the peak so far. Returns false if the system cannot.
static bool mi_play_forget_peak(void) {
  const int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_done = write(file, "5", 1) == 1;
  close(file);
  return is_done;
}

static uint64_t mi_play_faults(void) {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0;
}

// -- All of it --

// Before the next time: what the last one left is freed.
static void mi_play_reset(const mi_plan_t* plan) {
  mi_atomic_store_relaxed(&mi_play_state.may_end, 0);
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    // Pairs with none: no thread plays now.
    mi_atomic_store_release(&mi_play_state.threads[i].played, 0);
  }
}

static void mi_play_free_rest(const mi_plan_t* plan) {
  // A slot whose block was freed says so in no place but the plan.
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    const mi_plan_thread_t* const t = mi_plan_thread(plan, i);
    for (uint64_t k = 0; k < t->op_count; k++) {
      const mi_plan_op_t* const op = (const mi_plan_op_t*)t->ops.start + k;
      if (!op->is_last) continue;
      free(mi_play_state.blocks[op->slot].p);
    }
  }
}

// Whether this is a thread that nobody but the first one ends.
static bool mi_play_is_left(const mi_plan_t* plan, uint32_t thread) {
  const mi_plan_thread_t* const t = mi_plan_thread(plan, thread);
  return t->is_started && thread != plan->first && !t->is_joined;
}

// End the threads that live at the end.
static void mi_play_end_threads(const mi_plan_t* plan) {
  mi_atomic_store_relaxed(&mi_play_state.may_end, 1);
  mi_play_wake(&mi_play_state.may_end);
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    if (mi_play_is_left(plan, i) && !mi_plan_thread(plan, i)->is_done) mi_play_join(i);
  }
}

// Wait until all threads have done all; those that do not live at the end are ended.
static void mi_play_await(const mi_plan_t* plan) {
  mi_play_thread_t* const self = &mi_play_state.threads[plan->first];
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    if (!mi_play_is_left(plan, i)) continue;
    mi_play_wait(self, &mi_play_state.threads[i], mi_plan_thread(plan, i)->op_count);
    if (mi_plan_thread(plan, i)->is_done) mi_play_join(i);
  }
}

static uint64_t mi_play_make_tables(const mi_plan_t* plan) {
  static mi_region_t blocks, threads;
  mi_region_grow(&blocks, (uint64_t)plan->slot_count * sizeof(mi_play_block_t) + 1);
  mi_region_grow(&threads, (uint64_t)plan->thread_count * sizeof(mi_play_thread_t) + 1);
  mi_region_trim(&blocks, (size_t)plan->slot_count * sizeof(mi_play_block_t) + 1);
  mi_region_trim(&threads, (size_t)plan->thread_count * sizeof(mi_play_thread_t) + 1);
  memset(blocks.start, 1, blocks.bytes);
  memset(blocks.start, 0, blocks.bytes);
  memset(threads.start, 1, threads.bytes);
  memset(threads.start, 0, threads.bytes);
  mi_play_state.blocks = (mi_play_block_t*)blocks.start;
  mi_play_state.threads = (mi_play_thread_t*)threads.start;
  uint64_t bytes = blocks.bytes + threads.bytes + plan->threads.bytes;
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    mi_play_state.threads[i].plan = mi_plan_thread(plan, i);
    bytes += mi_plan_thread(plan, i)->ops.bytes;
  }
  return bytes;
}

void mi_play(const mi_plan_t* plan, mi_play_touch_t touch, uint32_t times,
             mi_play_result_t* result) {
  *result = (mi_play_result_t){.peak_resident = -1, .end_resident = -1};
  mi_play_state.touch = touch;
  mi_play_state.os_page = (size_t)sysconf(_SC_PAGESIZE);
  result->table_bytes = mi_play_make_tables(plan);
  result->own = (double)mi_play_dry(plan) * times / 1e9;
  mi_play_resident(); // a first time: it takes some stack
  result->start_resident = mi_play_resident() - (int64_t)result->table_bytes;
  const bool has_peak = mi_play_forget_peak();
  const uint64_t faults = mi_play_faults();
  for (uint32_t turn = 0; turn < times; turn++) {
    mi_play_reset(plan);
    const uint64_t since = mi_play_now_ns(CLOCK_MONOTONIC);
    if (plan->thread_count > 0) mi_play_measured(&mi_play_state.threads[plan->first]);
    mi_play_await(plan);
    if (turn + 1 == times) {
      result->faults = mi_play_faults() - faults;
      const int64_t tables = (int64_t)result->table_bytes;
      const int64_t now = mi_play_resident(),
                    peak = has_peak ? mi_play_proc("/proc/self/status", "\nVmHWM:") : -1;
      result->end_resident = now < tables ? -1 : now - tables;
      result->peak_resident = peak < tables ? -1 : peak - tables;
    }
    mi_play_end_threads(plan);
    result->wall += (double)(mi_play_now_ns(CLOCK_MONOTONIC) - since) / 1e9;
    if (turn + 1 < times) mi_play_free_rest(plan);
  }
  uint64_t cpu_ns = 0;
  for (uint32_t i = 0; i < plan->thread_count; i++) {
    cpu_ns += mi_play_state.threads[i].cpu_ns - mi_play_state.threads[i].wait_ns;
  }
  const double cpu = (double)cpu_ns / 1e9;
  result->cpu = cpu > result->own ? cpu - result->own : 0;
}
