// SPDX-License-Identifier: MIT
// guarded.c - guarded blocks: which blocks get guards, that they are blocks as any other, and that
// an access beside them, or after they were freed, is stopped and explained.
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guards.h"
#include "race.h"

// The size of the block of most tests: so far behind or before it is a guard, wherever it lies.
#define SIZE ((size_t)100)
#define FAR ((size_t)sysconf(_SC_PAGESIZE) - 96)

static const size_t sizes[] = {0,     1,     7,     8,     16,     17,     48,
                               100,   500,   1000,  1024,  4095,   4096,   4097,
                               10000, 40000, 65536, 70000, 300000, 524288, 3 * TEST_MIB + 5};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

// qemu-user tells a handler on aarch64 where the access was, and not what it was.
#if defined(__x86_64__)
#define KNOWS_ACCESS true
#else
#define KNOWS_ACCESS false
#endif

// -- The blocks --

#define WAYS 6
static unsigned char* make(size_t way, size_t size, size_t* alignment) {
  *alignment = size <= 8 ? 8 : 16;
  switch (way) {
    case 0:
      return (unsigned char*)mi_malloc(size);
    case 1:
      return (unsigned char*)mi_zalloc(size);
    case 2:
      *alignment = 2;
      return (unsigned char*)mi_malloc_aligned(size, 2);
    case 3:
      *alignment = 256;
      return (unsigned char*)mi_malloc_aligned(size, 256);
    case 4:
      *alignment = 4096;
      return (unsigned char*)mi_zalloc_aligned(size, 4096);
    default:
      return (unsigned char*)mi_realloc(NULL, size);
  }
}

// If this fails, a program that runs with every block guarded misses errors, or breaks.
static void guarded_every_block(void** state) {
  (void)state;
  need_guards();
  guard(1);
  for (size_t round = 0; round < 6; round++) {
    for (size_t way = 0; way < WAYS; way++) {
      for (size_t i = 0; i < SIZE_COUNT; i++) {
        const size_t size = sizes[i];
        size_t alignment;
        const size_t before = guarded_count();
        unsigned char* const p = make(way, size, &alignment);
        assert_non_null(p);
        assert_int_equal(guarded_count() - before, 1);
        assert_true(test_is_aligned(p, alignment));
        const size_t usable = mi_usable_size(p);
        assert_in_range(usable, size, size == 0 ? 8 : size);
        if (way == 1 || way == 4) assert_true(test_is_filled(p, usable, 0));
        size_t slot = 0;
        void* const u = mi_umalloc(size, &slot);
        assert_int_equal(slot, mi_usable_size(u)); // there are no more, but the guard
        mi_free(u);
        memset(p, (int)(i + 1), usable);
        assert_true(mi_is_in_heap_region(p) && mi_heap_of(p) == mi_heap_main());
        assert_true(test_is_filled(p, usable, (unsigned char)(i + 1)));
        mi_free(p);
      }
    }
  }
}

// If this fails, `guarded_precise` is off by some bytes.
static void guarded_to_the_byte(void** state) {
  (void)state;
  if (test_is_tracked()) test_skip("blocks have margins, or their own size");
  need_guards();
  mi_option_set(mi_option_guarded_precise, 1);
  guard(1);
  size_t at_end = 0;
  for (size_t i = 0; i < 200; i++) {
    const size_t size = 33 + i;
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    if (((uintptr_t)p + size) % 4096 == 0) at_end++;
    mi_free(p);
  }
  // Half of them begin at a guard.
  assert_in_range(at_end, 50, 150);
}

// If this fails, a program pays for sizes that it did not ask for, or does not get others.
static void guarded_within_bounds(void** state) {
  (void)state;
  need_guards();
  mi_option_set(mi_option_guarded_min, 200);
  mi_option_set(mi_option_guarded_max, 100000);
  guard(1);
  for (size_t i = 0; i < SIZE_COUNT; i++) {
    const size_t before = guarded_count();
    mi_free(mi_malloc(sizes[i]));
    mi_free(mi_malloc(sizes[i]));
    const bool is_within = sizes[i] >= 256 && sizes[i] < 99000;
    assert_int_equal(guarded_count() - before, is_within ? 2 : 0);
  }
}

// Allocates and frees blocks of several sizes, some of them at once. Returns how many got guards.
static size_t run_blocks(size_t count) {
  static void* live[97];
  const size_t before = guarded_count();
  for (size_t i = 0; i < count; i++) {
    const size_t at = i * 31 % 97;
    mi_free(live[at]);
    live[at] = mi_malloc(16 + i % 11 * 40);
  }
  for (size_t i = 0; i < 97; i++) {
    mi_free(live[i]);
    live[i] = NULL;
  }
  return guarded_count() - before;
}

// Within so many standard deviations: one is about the root of what is expected.
static bool is_near(size_t found, size_t expected, size_t deviations) {
  const size_t off = found > expected ? found - expected : expected - found;
  return off * off <= deviations * deviations * expected;
}

// If this fails, one in N is not one in N: errors are found later, or the program is slower.
static void guarded_at_a_rate(void** state) {
  (void)state;
  need_guards();
  mi_theap_t* const theap = mi_theap_get_default();
  static const size_t rates[] = {2, 10, 50};
  for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
    mi_theap_guarded_set_sample_rate(theap, rates[i], 1000 + i);
    const size_t count = 300 * rates[i];
    const size_t found = run_blocks(count);
    if (!is_near(found, 300, 5)) fail_msg("rate %zu: %zu of %zu", rates[i], found, count);
  }
  // Rare ones are in few lists.
  static const size_t rare[] = {200, 900};
  for (size_t i = 0; i < sizeof(rare) / sizeof(rare[0]); i++) {
    mi_theap_guarded_set_sample_rate(theap, rare[i], 2000 + i);
    const size_t found = run_blocks(300 * rare[i]);
    if (!is_near(found, 300, 5)) fail_msg("rate %zu: %zu of %zu", rare[i], found, 300 * rare[i]);
  }
  // Still rarer ones are in some lists only, and there are 250 per second at most.
  mi_theap_guarded_set_sample_rate(theap, 1900, 3000);
  size_t found = 0;
  for (size_t i = 0; i < 60; i++) {
    found += run_blocks(5 * 1900);
    usleep(25000);
  }
  if (!is_near(found, 300, 5)) fail_msg("rate 1900: %zu of %d", found, 300 * 1900);
  mi_theap_guarded_set_sample_rate(theap, 0, 0);
  assert_int_equal(run_blocks(10000), 0);
}

// If this fails, a run with a seed cannot be repeated.
static void guarded_with_a_seed_is_repeated(void** state) {
  (void)state;
  need_guards();
  size_t found[2];
  for (size_t i = 0; i < 2; i++) {
    mi_collect(true);
    mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 7, 42);
    found[i] = 0;
    for (size_t k = 0; k < 64; k++) {
      const size_t before = guarded_count();
      mi_free(mi_malloc(SIZE));
      if (guarded_count() > before) found[i] = found[i] * 3 + k;
    }
  }
  mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 0, 0);
  assert_int_equal(found[0], found[1]);
  assert_true(found[0] > 0);
}

// If this fails, a program that runs for long gets no guards any more, or more than it can bear.
static void guarded_blocks_in_use_are_bounded(void** state) {
  (void)state;
  // Where guards are mappings, the blocks that are kept after free have some of them.
  enum { COUNT = 20000, MOST = 4096, KEPT = 256 };
  need_guards();
  static void* live[COUNT];
  mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 2, 9);
  for (size_t round = 0; round < 2; round++) {
    const size_t before = guarded_count();
    for (size_t i = 0; i < COUNT; i++) live[i] = mi_malloc(SIZE);
    assert_in_range(guarded_count() - before, MOST - KEPT - 10, MOST);
    for (size_t i = 0; i < COUNT; i++) mi_free(live[i]);
  }
  mi_theap_guarded_set_sample_rate(mi_theap_get_default(), 0, 0);
}

// If this fails, a program that always frees and allocates at random is slowed down without bound.
static void guarded_rarely_is_bounded_in_time(void** state) {
  (void)state;
  need_guards();
  guard(1000);
  assert_in_range(run_blocks(1000000), 1, 64 + 2000); // 64 and 250 a second
}

// If this fails, a guarded block loses its contents when it grows, or its guard is not at its end.
static void guarded_realloc_moves(void** state) {
  (void)state;
  need_guards();
  guard(1);
  for (size_t i = 0; i + 1 < SIZE_COUNT; i++) {
    const size_t size = sizes[i] + 2;
    unsigned char* const p = (unsigned char*)mi_malloc(size);
    memset(p, 7, size);
    unsigned char* const same = (unsigned char*)mi_realloc(p, size);
    assert_ptr_equal(same, p);
    unsigned char* const larger = (unsigned char*)mi_realloc(same, size + 1);
    assert_ptr_not_equal(larger, p);
    assert_true(test_is_filled(larger, size, 7));
    assert_int_equal(mi_usable_size(larger), size + 1);
    unsigned char* const smaller = (unsigned char*)mi_realloc(larger, test_opaque(size - 1));
    assert_ptr_not_equal(smaller, larger);
    assert_true(test_is_filled(smaller, size - 1, 7));
    unsigned char* const zeroed = (unsigned char*)mi_rezalloc(smaller, size + 5000);
    assert_true(test_is_filled(zeroed, size - 1, 7));
    assert_true(test_is_filled(zeroed + size - 1, 5001, 0));
    assert_null(mi_expand(zeroed, size + 6000));
    mi_free(zeroed);
  }
}

// If this fails, a block with guards is lost to its heap, or keeps the heap from ending.
static void guarded_in_heaps(void** state) {
  (void)state;
  need_guards();
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_t* const other = mi_heap_new();
  guard(1);
  unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, SIZE);
  unsigned char* const q = (unsigned char*)mi_heap_malloc(other, SIZE);
  memset(p, 1, SIZE);
  memset(q, 2, SIZE);
  assert_ptr_equal(mi_heap_of(p), heap);
  assert_ptr_equal(mi_heap_of(q), other);
  mi_heap_delete(heap);
  assert_ptr_equal(mi_heap_of(p), mi_heap_main());
  mi_heap_destroy(other);
  assert_null(mi_heap_of(q));
  assert_true(test_is_filled(p, SIZE, 1));
  mi_free(p);
  for (size_t i = 0; i < 100; i++) { // of a heap that is gone when they leave the quarantine
    mi_heap_t* const brief = mi_heap_new();
    for (size_t k = 0; k < 10; k++) mi_free(mi_heap_malloc(brief, 10 * k));
    mi_heap_delete(brief);
  }
  mi_collect(true);
}

typedef struct seen_s {
  const void* p;
  size_t count, size;
} seen_t;

static bool see(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                void* arg) {
  (void)heap;
  (void)area;
  seen_t* const seen = (seen_t*)arg;
  if (block == seen->p) {
    seen->count++;
    seen->size = size;
  }
  return true;
}

// If this fails, a walk over a heap steps on a guard, or shows what was freed.
static void guarded_blocks_are_visited(void** state) {
  (void)state;
  need_guards();
  guard(1);
  void* const p = mi_malloc(SIZE);
  guard(0);
  seen_t seen = {.p = p};
  assert_true(mi_heap_visit_blocks(mi_heap_main(), true, &see, &seen));
  assert_int_equal(seen.count, 1);
  assert_int_equal(seen.size, SIZE);
  mi_free(p);
  seen.count = 0;
  assert_true(mi_heap_visit_blocks(mi_heap_main(), true, &see, &seen));
  assert_int_equal(seen.count, 0);
}

#define PASSED 400
static void* passed[PASSED];

// If this fails, memory that had guards is used again with them, or not as zeros.
static void guarded_memory_is_used_again(void** state) {
  (void)state;
  need_guards();
  for (size_t round = 0; round < 4; round++) {
    guard(1);
    for (size_t i = 0; i < 600; i++) {
      unsigned char* const p = (unsigned char*)mi_malloc(i * 50);
      memset(p, 3, i * 50);
      mi_free(p);
    }
    mi_collect(true);
    guard(0);
    for (size_t i = 0; i < PASSED; i++) {
      passed[i] = mi_zalloc(60000);
      assert_true(test_is_filled(passed[i], 60000, 0));
      memset(passed[i], 5, 60000);
    }
    for (size_t i = 0; i < PASSED; i++) mi_free(passed[i]);
  }
}

// If this fails, the free of a guarded block writes to the descriptor behind it, which may not
// exist: of a block in a mapping of its own only the first slices have one.
static void guarded_huge_block_ends(void** state) {
  (void)state;
  if (UINTPTR_MAX == UINT32_MAX) test_skip("no address space for four blocks of 1 GiB");
  need_guards();
  guard(1);
  // Nearly a window of the page map: most blocks end in a window that nothing else of ours is in.
  unsigned char* p[4];
  for (size_t i = 0; i < 4; i++) {
    const size_t before = guarded_count();
    p[i] = (unsigned char*)mi_malloc(TEST_GIB - TEST_MIB);
    if (p[i] == NULL) test_skip("no address space for four blocks of 1 GiB");
    assert_int_equal(guarded_count(), before + 1);
    p[i][0] = 1;
  }
  for (size_t i = 0; i < 4; i++) mi_free(p[i]);
}

// -- Mistakes: each in a child --

static spawn_result_t result;
static unsigned char* block;

// The handlers of cmocka go on after a fault.
static void begin_child(void) {
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
  mi_option_set(mi_option_abort_on_misuse, 0);
  guard(1);
  block = (unsigned char*)mi_malloc(SIZE);
  memset(block, 1, SIZE);
}

static void write_far_behind(void) {
  begin_child();
  *(volatile unsigned char*)(block + SIZE + FAR) = 1;
}

static void read_far_behind(void) {
  begin_child();
  (void)*(volatile unsigned char*)(block + SIZE + FAR);
}

static void write_far_before(void) {
  begin_child();
  *(volatile unsigned char*)(block - FAR) = 1;
}

static void read_freed(void) {
  begin_child();
  mi_free(block);
  (void)*(volatile unsigned char*)(block + 9);
}

static void write_freed(void) {
  begin_child();
  mi_free(block); // what follows must not need its memory
  for (size_t i = 0; i < 819200 / (size_t)sysconf(_SC_PAGESIZE); i++) mi_free(mi_malloc(30));
  *(volatile unsigned char*)block = 9;
}

static void* free_block(void* p) {
  mi_free(p);
  return NULL;
}

static void read_freed_by_other(void) {
  begin_child();
  pthread_t thread;
  pthread_create(&thread, NULL, &free_block, block);
  pthread_join(thread, NULL);
  (void)*(volatile unsigned char*)(block + 9);
}

static void read_after_fork(void) {
  begin_child();
  mi_free(block);
  const pid_t child = fork();
  if (child == 0) {
    unsigned char* const p = (unsigned char*)mi_malloc(SIZE); // with guards of its own
    memset(p, 4, SIZE);
    mi_free(p);
    (void)*(volatile unsigned char*)block;
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) raise(WTERMSIG(status));
}

typedef struct mistake_s {
  const char* name;
  void (*body)(void);
  const char* said[4];
} mistake_t;

// If this fails, a fault in a guarded block is not explained, or the program goes on.
static void guarded_faults_are_reported(void** state) {
  (void)state;
  need_guards();
  test_skip_if_sanitized();
  static const mistake_t mistakes[] = {
      {"write behind",
       &write_far_behind,
       {"buffer overflow: write at ", "%zu bytes behind a block of 100 bytes", "allocated at"}},
      {"read behind",
       &read_far_behind,
       {"buffer overflow: read at ", "%zu bytes behind a block of 100 bytes", "allocated at"}},
      {"write before",
       &write_far_before,
       {"buffer underflow: write at ", "%zu bytes before a block of 100 bytes", "allocated at"}},
      {"read freed",
       &read_freed,
       {"use after free: read at ", "9 bytes into a freed block of 100 bytes", "freed at"}},
      {"write freed",
       &write_freed,
       {"use after free: write at ", "0 bytes into a freed block of 100 bytes", "freed at"}},
      {"freed by another",
       &read_freed_by_other,
       {"use after free: read at ", ", freed by thread 0x", "freed at"}},
      {"after a fork",
       &read_after_fork,
       {"use after free: read at ", "0 bytes into a freed block of 100 bytes", "freed at"}},
  };
  for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
    assert_true(spawn_fork(mistakes[i].body, &result));
    if (result.signal != SIGSEGV) {
      fail_msg("%s: signal %d, status %d:\n%s", mistakes[i].name, result.signal, result.exit_status,
               result.output);
    }
    for (size_t k = 0; k < 4 && mistakes[i].said[k] != NULL; k++) {
      if (!KNOWS_ACCESS && k == 0) continue;
      // A padded block is longer, and lies elsewhere.
      if (mi_good_size(20) == 20 && strstr(mistakes[i].said[k], " bytes ") != NULL) continue;
      char said[64];
      snprintf(said, sizeof(said), mistakes[i].said[k], FAR);
      if (spawn_count(&result, said) == 1) continue;
      fail_msg("%s: \"%s\" is not said once:\n%s", mistakes[i].name, said, result.output);
    }
  }
}

static void free_twice(void) {
  begin_child();
  mi_free(block);
  mi_free(block);
  puts("went on");
  fflush(stdout);
}

static void realloc_freed(void) {
  begin_child();
  mi_free(block);
  if (mi_realloc(block, 2 * SIZE) == NULL) puts("went on");
  fflush(stdout);
}

static void write_slack(void) {
  begin_child();
  // It has 12 bytes of slack at the high end, and much more at the low one.
  block[SIZE] = 7;
  mi_free(block);
  puts("went on");
  fflush(stdout);
}

static void write_before_slack(void) {
  begin_child();
  while (((uintptr_t)block & 4095) == 0) { // begins at a guard
    block = (unsigned char*)mi_malloc(SIZE);
  }
  block[-3] = 7;
  mi_free(block);
  puts("went on");
  fflush(stdout);
}

// If this fails, a mistake that no guard stops is not found when the block is freed, or a second
// free is not.
static void guarded_mistakes_are_found_by_free(void** state) {
  (void)state;
  need_guards();
  static const mistake_t mistakes[] = {
      {"free twice", &free_twice, {"double free", "allocated at", "freed at", "went on"}},
      {"realloc", &realloc_freed, {"double free", "allocated at", "freed at", "went on"}},
      {"slack", &write_slack, {"buffer overflow", "write after 100 bytes", " 07 ", "went on"}},
      {"before",
       &write_before_slack,
       {"buffer underflow", "write 3 bytes before it", " 07 ", "went on"}},
  };
  for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
    assert_true(spawn_fork(mistakes[i].body, &result));
    for (size_t k = 0; k < 4; k++) {
      if (spawn_count(&result, mistakes[i].said[k]) == 0) {
        fail_msg("%s: \"%s\" is not said:\n%s", mistakes[i].name, mistakes[i].said[k],
                 result.output);
      }
    }
  }
}

// -- The handler --

static void on_fault(int number, siginfo_t* info, void* context) {
  (void)context;
  const bool is_right = number == SIGSEGV && info->si_addr == block + SIZE + FAR;
  static const char text[] = "the program's own handler\n";
  (void)!write(2, text, sizeof(text) - 1);
  _exit(is_right ? 42 : 43);
}

static void fault_with_handler(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = &on_fault;
  signal(SIGSEGV, SIG_DFL);
  begin_child();
  guard(0);
  sigaction(SIGSEGV, &action, NULL); // ours is gone
  *(volatile unsigned char*)(block + SIZE + FAR) = 1;
}

static void fault_before_handler(void) {
  static unsigned char stack[65536];
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
  sigaltstack(&other, NULL);
  write_far_behind();
}

static void on_small_stack(int number) {
  (void)number;
  _exit(44);
}

static void fault_on_small_stack(void) {
  static unsigned char stack[12 * 1024];
  const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
  sigaltstack(&other, NULL);
  write_far_behind();
}

static void fault_elsewhere(void) {
  begin_child();
  *(volatile unsigned char*)(uintptr_t)test_opaque(8) = 1;
}

static void sent_signal(void) {
  begin_child();
  kill(getpid(), SIGSEGV);
  for (size_t i = 0; i < 1000; i++) sched_yield();
}

// If this fails, our handler is in the way of that of the program, or of the end of the process.
static void guarded_handler_stands_back(void** state) {
  (void)state;
  need_guards();
  test_skip_if_sanitized();
  assert_true(spawn_fork(&fault_with_handler, &result));
  assert_int_equal(result.exit_status, 42);
  assert_int_equal(spawn_count(&result, "the program's own handler"), 1);
  assert_int_equal(spawn_count(&result, "buffer overflow"), 0);
  assert_true(spawn_fork(&fault_before_handler, &result));
  assert_int_equal(result.signal, SIGSEGV);
  assert_int_equal(spawn_count(&result, "buffer overflow: "), 1);
  assert_true(spawn_fork(&fault_on_small_stack, &result));
  assert_int_equal(result.signal, SIGSEGV);
  assert_int_equal(spawn_count(&result, "buffer overflow: "), 1);
  assert_true(spawn_fork(&fault_elsewhere, &result));
  assert_int_equal(result.signal, SIGSEGV);
  assert_int_equal(spawn_count(&result, "mimalloc"), 0);
  assert_true(spawn_fork(&sent_signal, &result));
  assert_int_equal(result.signal, SIGSEGV);
  assert_int_equal(spawn_count(&result, "mimalloc"), 0);
}

// Installed before guards are first switched on, in a process of its own.
static int chain_child(void) {
  struct sigaction action = {.sa_flags = SA_SIGINFO};
  action.sa_sigaction = &on_fault;
  sigaction(SIGSEGV, &action, NULL);
  guard(1);
  block = (unsigned char*)mi_malloc(SIZE);
  *(volatile unsigned char*)(block + SIZE + FAR) = 1;
  return 1;
}

static int chain_simple_child(void) {
  signal(SIGSEGV, &on_small_stack);
  guard(1);
  block = (unsigned char*)mi_malloc(SIZE);
  *(volatile unsigned char*)(block + SIZE + FAR) = 1;
  return 1;
}

static volatile sig_atomic_t once_calls;
static void on_once(int number) {
  (void)number;
  if (++once_calls > 1) _exit(3);
}

// A handler that is to be called once, and returns: the access is repeated, and ends the process.
static int chain_once_child(void) {
  struct sigaction action = {.sa_handler = &on_once};
  action.sa_flags = (int)SA_RESETHAND;
  sigaction(SIGSEGV, &action, NULL);
  guard(1);
  block = (unsigned char*)mi_malloc(SIZE);
  *(volatile unsigned char*)(block + SIZE + FAR) = 1;
  return 1;
}

// Without guards the process has the handlers that it had.
static int untouched_child(void) {
  struct sigaction now;
  mi_free(mi_malloc(SIZE));
  guard(0);
  if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_handler != SIG_DFL) return 1;
  guard(1);
  if (sigaction(SIGSEGV, NULL, &now) != 0 || now.sa_handler == SIG_DFL) return 2;
  return 0;
}

// If this fails, the crash handler of a program is not called any more.
static void guarded_handler_chains(void** state) {
  (void)state;
  need_guards();
  test_skip_if_sanitized();
  test_start_self("chain", NULL, &result);
  assert_int_equal(spawn_count(&result, "buffer overflow: "), 1);
  assert_int_equal(spawn_count(&result, "the program's own handler"), 1);
  assert_int_equal(result.exit_status, 42);
  test_start_self("chain-simple", NULL, &result);
  assert_int_equal(spawn_count(&result, "buffer overflow: "), 1);
  assert_int_equal(result.exit_status, 44);
  test_start_self("chain-once", NULL, &result);
  assert_int_equal(result.signal, SIGSEGV);
  test_start_self("untouched", NULL, &result);
  assert_int_equal(result.exit_status, 0);
}

// From the environment, as a user does it.
static int environment_child(void) {
  block = (unsigned char*)mi_malloc(SIZE);
  mi_free(block);
  (void)*(volatile unsigned char*)block;
  return 1;
}

static int count_child(void) {
  printf("guarded: %zu\n", guarded_count() > 0 ? (size_t)1 : (size_t)0);
  mi_free(mi_malloc(SIZE));
  printf("then: %zu\n", guarded_count() > 0 ? (size_t)1 : (size_t)0);
  return 0;
}

// If this fails, MIMALLOC_GUARDED_SAMPLE_RATE does not do what the guide says.
static void guarded_by_the_environment(void** state) {
  (void)state;
  need_guards();
  test_skip_if_sanitized();
  static const char* const every[] = {"MIMALLOC_GUARDED_SAMPLE_RATE=1", NULL};
  test_start_self("environment", every, &result);
  assert_int_equal(result.signal, SIGSEGV);
  assert_int_equal(spawn_count(&result, "use after free: "), 1); // read, or access
  test_start_self("count", every, &result);
  assert_int_equal(spawn_count(&result, "then: 1"), 1);
  test_start_self("count", NULL, &result);
  assert_int_equal(spawn_count(&result, "then: 0"), 1);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    if (strcmp(argv[1], "chain") == 0) return chain_child();
    if (strcmp(argv[1], "chain-simple") == 0) return chain_simple_child();
    if (strcmp(argv[1], "chain-once") == 0) return chain_once_child();
    if (strcmp(argv[1], "untouched") == 0) return untouched_child();
    if (strcmp(argv[1], "environment") == 0) return environment_child();
    if (strcmp(argv[1], "count") == 0) return count_child();
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(guarded_every_block, reset),
      cmocka_unit_test_teardown(guarded_to_the_byte, reset),
      cmocka_unit_test_teardown(guarded_within_bounds, reset),
      cmocka_unit_test_teardown(guarded_at_a_rate, reset),
      cmocka_unit_test_teardown(guarded_with_a_seed_is_repeated, reset),
      cmocka_unit_test_teardown(guarded_blocks_in_use_are_bounded, reset),
      cmocka_unit_test_teardown(guarded_rarely_is_bounded_in_time, reset),
      cmocka_unit_test_teardown(guarded_realloc_moves, reset),
      cmocka_unit_test_teardown(guarded_in_heaps, reset),
      cmocka_unit_test_teardown(guarded_blocks_are_visited, reset),
      cmocka_unit_test_teardown(guarded_memory_is_used_again, reset),
      cmocka_unit_test_teardown(guarded_huge_block_ends, reset),
      cmocka_unit_test_teardown(guarded_faults_are_reported, reset),
      cmocka_unit_test_teardown(guarded_mistakes_are_found_by_free, reset),
      cmocka_unit_test_teardown(guarded_handler_stands_back, reset),
      cmocka_unit_test_teardown(guarded_handler_chains, reset),
      cmocka_unit_test_teardown(guarded_by_the_environment, reset),
  };
  return cmocka_run_group_tests_name("guarded", tests, NULL, NULL);
}
