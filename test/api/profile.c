// SPDX-License-Identifier: MIT
// profile.c - heap profiles: their figures are right on average, for each place that allocates,
// whatever the program does; and they are switched on, written and read.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mimalloc-profile.h>
#include <mimalloc-stats.h>

#include "test_api.h"

// -- Places that allocate --

#define PLACES 12

// Functions of their own, so that a stack tells which one it was. The call is not the last thing
// that they do: else they would not be on the stack.
#define PLACE(n, call)                                                                             \
  static __attribute__((noinline, noclone)) void* place_##n(size_t size) {                         \
    void* volatile p = call;                                                                       \
    return p;                                                                                      \
  }
static mi_heap_t* other_heap;
static void* grow(size_t size);
PLACE(0, mi_malloc(size))
PLACE(1, mi_malloc(size))
PLACE(2, mi_zalloc(size))
PLACE(3, mi_calloc(2, size / 2))
PLACE(4, mi_malloc_aligned(size, 64))
PLACE(5, mi_zalloc_aligned(size, 4096))
PLACE(6, mi_malloc_aligned_at(size, 64, 8))
PLACE(7, mi_realloc(NULL, size))
PLACE(8, grow(size))
PLACE(9, mi_heap_malloc(other_heap, size))
PLACE(10, mi_malloc(size))
PLACE(11, mi_malloc(size))
typedef void* place_t(size_t size);
static place_t* const places[PLACES] = {place_0, place_1, place_2, place_3, place_4,  place_5,
                                        place_6, place_7, place_8, place_9, place_10, place_11};

static __attribute__((noinline)) void* grow(size_t size) {
  void* p = mi_malloc(size / 3 + 1);
  p = mi_realloc(p, size / 2 + 1);
  return mi_realloc(p, size);
}

// The place that an address is in, PLACES if none: the last function that begins before it.
static size_t place_at(uintptr_t at) {
  uintptr_t nearest = (uintptr_t)&grow <= at ? (uintptr_t)&grow : 0;
  size_t place = PLACES;
  for (size_t k = 0; k < PLACES; k++) {
    const uintptr_t start = (uintptr_t)places[k];
    if (start > at || start <= nearest) continue;
    nearest = start;
    place = k;
  }
  return at - nearest < 128 ? place : PLACES;
}

// The place that a stack goes through, PLACES if none.
static size_t place_of(const mi_profile_site_t* site) {
  for (size_t i = 0; i < site->frame_count; i++) {
    const size_t place = place_at((uintptr_t)site->frames[i]);
    if (place < PLACES) return place;
  }
  return PLACES;
}

typedef struct sum_s {
  long long count[PLACES + 1], bytes[PLACES + 1], samples[PLACES + 1];
} sum_t;

static bool add_site(const mi_profile_site_t* site, void* arg) {
  sum_t* const sum = (sum_t*)arg;
  const size_t k = place_of(site);
  sum->count[k] += site->count;
  sum->bytes[k] += site->bytes;
  sum->samples[k] += site->samples;
  return true;
}

static sum_t sum_of(mi_profile_kind_t kind) {
  sum_t sum = {{0}, {0}, {0}};
  assert_true(mi_profile_visit(kind, &add_site, &sum));
  return sum;
}

// Skips where stacks cannot be read: a profile then has one place.
static void begin(size_t rate) {
  mi_profile_stop();
  if (!mi_profile_start(rate)) test_skip("stacks cannot be read here");
  assert_int_equal(mi_profile_rate(), rate);
  const sum_t before = sum_of(mi_profile_live);
  mi_profile_stop();
  void* const p = place_0(100);
  mi_free(p);
  mi_profile_start(1);
  void* const q = place_0(100);
  const sum_t after = sum_of(mi_profile_live);
  mi_free(q);
  if (after.count[0] != before.count[0] + 1) test_skip("no block can be a sample here");
  mi_profile_start(rate);
}

static int reset(void** state) {
  (void)state;
  mi_profile_stop();
  mi_option_set(mi_option_guarded_sample_rate, 0);
  return 0;
}

// -- Estimates --

// 1 - e^(-size/interval)
static double chance(size_t size, size_t interval) {
  double x = (double)size / (double)interval / 1048576;
  double p = x - x * x / 2;
  for (size_t i = 0; i < 20; i++) p = 2 * p - p * p;
  return p;
}

// What an estimate should be near: a sum over blocks of the program.
typedef struct expected_s {
  double sum;
  double variance; // of the estimate
  double weight; // the most that one sample adds to the estimate
} expected_t;

typedef struct actual_s {
  expected_t bytes, count;
} actual_t;

// A block that is a sample with chance `p` adds `value`.
static void expected_add(expected_t* expected, double value, double p) {
  expected->sum += value;
  expected->variance += value * value * (1 - p) / p;
  if (expected->weight < value / p) expected->weight = value / p;
}

static void actual_add(actual_t* actual, size_t size, size_t interval) {
  const double p = chance(size, interval);
  expected_add(&actual->bytes, (double)size, p);
  expected_add(&actual->count, 1, p);
}

static double absolute(double x) { return x < 0 ? -x : x; }

// As near as all but one in 500 million runs are, and what is rounded; where most blocks are
// samples, and the standard error is less than a block, also three blocks. A number of standard
// errors alone would be wrong where few samples are expected, because their number is then far from
// normally distributed; the bound is Bernstein's: the chance to be `off` away is at most
// 2 exp(-off^2 / (2 (variance + weight off / 3))).
static void check_near(const char* what, size_t place, double estimate, const expected_t* expected,
                       double rounding) {
  const double off = absolute(estimate - expected->sum) - rounding;
  if (off > 0 && off * off > 2 * 21 * (expected->variance + expected->weight * off / 3)) {
    fail_msg("%s of place %zu: estimate %.0f, actual %.0f, standard error squared %.0f", what,
             place, estimate, expected->sum, expected->variance);
  }
}

static const size_t sizes[] = {16,    24,    100,    500,    1000,   4000,        10000,
                               40000, 65536, 100000, 300000, 700000, 1024 * 1024, 8 * 1024 * 1024};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void* free_some(void* arg) {
  void** const blocks = (void**)arg;
  for (size_t i = 0; blocks[i] != NULL; i++) mi_free(blocks[i]);
  return NULL;
}

// Allocates about `budget` bytes in blocks of one size at one place, frees two of three, half of
// these in another thread, and checks both figures. What is left is freed.
static void check_place(size_t place, size_t size, size_t budget, size_t interval) {
  enum { MOST = 100000 };
  static void* blocks[MOST];
  static void* others[MOST + 1];
  // No more samples than the tiny build has records for.
  void* const probe = places[place](size);
  const size_t most = (size_t)(8000 / chance(mi_usable_size(probe), interval));
  mi_free(probe);
  const size_t wanted = budget / size < 3 ? 3 : budget / size;
  const size_t limit = most < MOST ? most : MOST;
  const size_t count = wanted < limit ? wanted : limit;
  const sum_t taken = sum_of(mi_profile_allocated);
  const sum_t before = sum_of(mi_profile_live);
  actual_t all = {{0, 0, 0}, {0, 0, 0}};
  actual_t left = {{0, 0, 0}, {0, 0, 0}};
  size_t given = 0;
  for (size_t i = 0; i < count; i++) {
    blocks[i] = places[place](size);
    assert_non_null(blocks[i]);
    actual_add(&all, mi_usable_size(blocks[i]), interval);
  }
  for (size_t i = 0; i < count; i++) {
    if (i % 3 == 0) {
      actual_add(&left, mi_usable_size(blocks[i]), interval);
    } else if (i % 3 == 1) {
      mi_free(blocks[i]);
      blocks[i] = NULL;
    } else {
      others[given++] = blocks[i];
      blocks[i] = NULL;
    }
  }
  others[given] = NULL;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &free_some, others), 0);
  pthread_join(thread, NULL);
  const sum_t now = sum_of(mi_profile_live);
  const sum_t taken_now = sum_of(mi_profile_allocated);
  const double slack = (double)size / 8 + 2;
  const double few = chance(size, interval) > 0.5 ? 3 : 0;
  // A block is larger than what the program may use of it, if that begins inside, or a margin is
  // behind it.
  const bool is_whole = place != 6 && !test_is_tracked();
  if (is_whole)
    check_near("live bytes", place, (double)(now.bytes[place] - before.bytes[place]), &left.bytes,
               slack * left.count.sum / 8 + few * (double)size * 1.125);
  check_near("live blocks", place, (double)(now.count[place] - before.count[place]), &left.count,
             2 + few + left.count.sum / 50);
  if (place != 8 && is_whole) { // which has blocks on the way
    check_near("allocated bytes", place, (double)(taken_now.bytes[place] - taken.bytes[place]),
               &all.bytes, slack * all.count.sum / 8 + few * (double)size * 1.125);
  }
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  const sum_t end = sum_of(mi_profile_live);
  assert_int_equal(end.samples[place], before.samples[place]);
}

// If this fails, a profile blames the wrong function, or shows more or less than there is.
static void profile_estimates_each_place(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has exactly its size");
  const size_t interval = 20000;
  begin(interval);
  other_heap = mi_heap_new();
  assert_non_null(other_heap);
  for (size_t place = 0; place < PLACES; place++) {
    for (size_t i = 0; i < SIZES; i++) {
      check_place(place, sizes[(place + i) % SIZES], 4 * TEST_MIB, interval);
    }
  }
  mi_heap_delete(other_heap);
}

// If this fails, a profile at the default rate is wrong for blocks that are small beside it.
static void profile_estimates_at_the_default_rate(void** state) {
  (void)state;
  begin(512 * TEST_KIB);
  for (size_t i = 0; i < SIZES; i++) check_place(1, sizes[i], 64 * TEST_MIB, 512 * TEST_KIB);
}

enum { RESIZED_COUNT = 400, RESIZED_INTERVAL = 300000 };
static void* resized[RESIZED_COUNT];

// The profile has the blocks with the sizes that they have now.
static void check_resized(const sum_t* before) {
  actual_t actual = {{0, 0, 0}, {0, 0, 0}};
  for (size_t i = 0; i < RESIZED_COUNT; i++) {
    actual_add(&actual, mi_usable_size(resized[i]), RESIZED_INTERVAL);
  }
  const sum_t now = sum_of(mi_profile_live);
  double bytes = 0;
  for (size_t k = 0; k <= PLACES; k++) bytes += (double)(now.bytes[k] - before->bytes[k]);
  check_near("live bytes", PLACES, bytes, &actual.bytes, actual.bytes.sum / 50);
}

// If this fails, buffers that grow and shrink in place are lost, or counted with their first size.
static void profile_follows_blocks_that_are_resized(void** state) {
  (void)state;
  begin(RESIZED_INTERVAL);
  const sum_t before = sum_of(mi_profile_live);
  uint64_t random = 5;
  for (size_t i = 0; i < RESIZED_COUNT; i++) resized[i] = place_0(70000);
  for (size_t step = 0; step < 4000; step++) {
    const size_t i = random_below(&random, RESIZED_COUNT);
    const size_t usable = mi_usable_size(resized[i]);
    const size_t size = step % 3 == 2 ? usable / 2 + 1000 : usable + usable / (1 + step % 7) / 2;
    resized[i] = mi_realloc(resized[i], size > TEST_MIB ? 70000 : size);
    assert_non_null(resized[i]);
  }
  check_resized(&before);
  // Each of these stays where it is.
  for (size_t i = 0; i < RESIZED_COUNT; i++) mi_free(resized[i]);
  for (size_t i = 0; i < RESIZED_COUNT; i++) resized[i] = mi_realloc(place_0(TEST_MIB), 600000);
  check_resized(&before);
  for (size_t i = 0; i < RESIZED_COUNT; i++) mi_free(resized[i]);
}

// If this fails, with guards on as well a profile shows less, or blocks have no guards.
static void profile_with_guards(void** state) {
  (void)state;
  begin(20000);
  mi_option_set(mi_option_guarded_sample_rate, 20);
  mi_stats_t_decl(before);
  assert_true(mi_stats_get(&before));
  mi_option_set(mi_option_guarded_max, 2000);
  for (size_t i = 0; i < SIZES; i++) {
    if (sizes[i] <= 10000) check_place(10, sizes[i], 4 * TEST_MIB, 20000);
  }
  mi_stats_t_decl(after);
  assert_true(mi_stats_get(&after));
  mi_option_set(mi_option_guarded_max, (long)TEST_GIB);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  if (!test_is_tracked()) {
    assert_true(after.malloc_guarded_count.total > before.malloc_guarded_count.total);
  }
}

// -- Exact figures --

// If this fails, with a rate of 1 a leak of one block is not seen.
static void profile_of_every_block_is_exact(void** state) {
  (void)state;
  begin(1);
  const sum_t before = sum_of(mi_profile_live);
  void* blocks[PLACES][SIZES];
  size_t bytes[PLACES] = {0};
  other_heap = mi_heap_new();
  for (size_t k = 0; k < PLACES; k++) {
    for (size_t i = 0; i < SIZES; i++) {
      blocks[k][i] = places[k](sizes[i]);
      bytes[k] += mi_usable_size(blocks[k][i]);
    }
  }
  sum_t now = sum_of(mi_profile_live);
  for (size_t k = 0; k < PLACES; k++) {
    assert_int_equal(now.count[k] - before.count[k], SIZES);
    // A page of its own has whole OS pages; sizes are those of classes.
    const double is = (double)(now.bytes[k] - before.bytes[k]);
    if (!test_is_tracked() && absolute(is - (double)bytes[k]) > 4200.0 * SIZES) {
      fail_msg("place %zu: %.0f for %zu", k, is, bytes[k]);
    }
  }
  for (size_t k = 0; k < PLACES; k++) {
    for (size_t i = 0; i < SIZES; i++) mi_free(blocks[k][i]);
  }
  now = sum_of(mi_profile_live);
  for (size_t k = 0; k < PLACES; k++) {
    assert_int_equal(now.count[k], before.count[k]);
    assert_int_equal(now.bytes[k], before.bytes[k]);
  }
  mi_heap_delete(other_heap);
}

static void* pool_blocks[2][20000];

// Allocates as a thread that shares pages with others, and so holds a few blocks at a time.
static void* allocate_in_a_pool(void* arg) {
  const size_t count = *(size_t*)arg;
  mi_thread_set_in_threadpool();
  for (size_t i = 0; i < count; i++) pool_blocks[0][i] = place_0(64);
  for (size_t i = 0; i < count; i++) pool_blocks[1][i] = place_1(512);
  return NULL;
}

// If this fails, a profile of a program with many threads shows a hundred times of what there is,
// or at a rate of 1 not each block. (With the last rate such threads have portions: sample.c.)
static void profile_of_threads_that_share_pages(void** state) {
  (void)state;
  static const size_t rates[] = {1, 500, 300 * TEST_KIB}, counts[] = {500, 4000, 20000};
  for (size_t r = 0; r < 3; r++) {
    const size_t rate = rates[r];
    size_t count = counts[r];
    begin(rate);
    const sum_t before = sum_of(mi_profile_live);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, &allocate_in_a_pool, &count), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    const sum_t now = sum_of(mi_profile_live);
    for (size_t k = 0; k < 2; k++) {
      double expected = 0;
      for (size_t i = 0; i < count; i++) expected += (double)mi_usable_size(pool_blocks[k][i]);
      const double off = (double)(now.bytes[k] - before.bytes[k]) - expected;
      if (rate == 1) assert_int_equal(now.count[k] - before.count[k], count);
      // A sample stands for `rate` bytes at least: five standard deviations.
      if (rate > 1 && !test_is_tracked() && off * off > 25 * expected * (double)rate) {
        fail_msg("rate %zu, place %zu: %.0f more than %.0f", rate, k, off, expected);
      }
      for (size_t i = 0; i < count; i++) mi_free(pool_blocks[k][i]);
    }
  }
}

// If this fails, the profile of the peak is that of another moment.
static void profile_peak_is_that_of_the_peak(void** state) {
  (void)state;
  enum { COUNT = 60 };
  void* blocks[COUNT];
  begin(1);
  const sum_t live = sum_of(mi_profile_live);
  // More than any test before: then the peak is here.
  const size_t size = 40 * TEST_MIB;
  for (size_t i = 0; i < COUNT; i++) blocks[i] = place_10(size);
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
  for (size_t i = 0; i < COUNT; i++) blocks[i] = place_11(size / 2);
  const sum_t peak = sum_of(mi_profile_peak);
  assert_int_equal(peak.count[10], live.count[10] + COUNT);
  assert_int_equal(peak.count[11], live.count[11]);
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
  const sum_t later = sum_of(mi_profile_peak);
  assert_int_equal(later.count[10], live.count[10] + COUNT);
  assert_int_equal(later.bytes[11], peak.bytes[11]);
}

typedef struct text_s {
  char bytes[4 * TEST_MIB];
  size_t size;
} text_t;

static bool put_text(const void* bytes, size_t size, void* arg) {
  text_t* const text = (text_t*)arg;
  if (size >= sizeof(text->bytes) - text->size) return false;
  memcpy(text->bytes + text->size, bytes, size);
  text->size += size;
  return true;
}

// If this fails, figures of text are wrong from 2 GiB on where a word has 32 bits.
static void profile_as_text_has_large_amounts(void** state) {
  (void)state;
  static text_t text;
  begin(1);
  for (size_t i = 0; i < 60; i++) mi_free(place_10(40 * TEST_MIB));
  const long long least = 60 * 40 * (long long)TEST_MIB;
  assert_int_equal(
      mi_profile_write_to(mi_profile_heap_text, mi_profile_allocated, &put_text, &text), 0);
  long long count, bytes;
  assert_int_equal(sscanf(text.bytes, "heap profile: %lld: %lld [", &count, &bytes), 2);
  assert_true(count >= 60 && bytes >= least);
  memset(&text, 0, sizeof(text));
  assert_int_equal(mi_profile_write_to(mi_profile_folded, mi_profile_allocated, &put_text, &text),
                   0);
  long long most = 0;
  for (char* line = strtok(text.bytes, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    const char* const last = strrchr(line, ' ');
    const long long amount = last == NULL ? 0 : strtoll(last, NULL, 10);
    assert_true(amount >= 0);
    if (amount > most) most = amount;
  }
  assert_true(most >= least);
}

// If this fails, a program that grows slowly does not see what by.
static void profile_growth_is_since_the_mark(void** state) {
  (void)state;
  begin(1);
  void* const first = place_3(1000);
  void* const second = place_3(1000);
  mi_profile_mark();
  sum_t growth = sum_of(mi_profile_growth);
  for (size_t k = 0; k <= PLACES; k++) assert_int_equal(growth.count[k], 0);
  void* const third = place_4(1000);
  mi_free(first);
  growth = sum_of(mi_profile_growth);
  assert_int_equal(growth.count[3], -1);
  assert_int_equal(growth.count[4], 1);
  mi_free(second);
  mi_free(third);
}

static void* keep_and_end(void* arg) {
  void** const blocks = (void**)arg;
  for (size_t i = 0; i < 10; i++) blocks[i] = place_5(100 + 1000 * i);
  return NULL;
}

// If this fails, blocks of threads that ended, or of destroyed heaps, are shown for ever, or not.
static void profile_knows_ends_of_threads_and_heaps(void** state) {
  (void)state;
  begin(1);
  const sum_t before = sum_of(mi_profile_live);
  void* blocks[10];
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, &keep_and_end, blocks), 0);
  pthread_join(thread, NULL);
  assert_int_equal(sum_of(mi_profile_live).count[5] - before.count[5], 10);
  for (size_t i = 0; i < 10; i++) mi_free(blocks[i]);
  other_heap = mi_heap_new();
  for (size_t i = 0; i < 10; i++) place_9(100 + 10000 * i);
  assert_int_equal(sum_of(mi_profile_live).count[9] - before.count[9], 10);
  mi_heap_destroy(other_heap);
  const sum_t after = sum_of(mi_profile_live);
  assert_int_equal(after.count[5], before.count[5]);
  assert_int_equal(after.count[9], before.count[9]);
}

// If this fails, a program runs differently when it is profiled.
static void profile_blocks_are_as_any_other(void** state) {
  (void)state;
  if (mi_option_get(mi_option_guarded_sample_rate) != 0)
    test_skip("guarded blocks have their size");
  size_t usable[2][SIZES];
  for (size_t is_on = 0; is_on < 2; is_on++) {
    if (is_on == 1) begin(1);
    for (size_t i = 0; i < SIZES; i++) {
      unsigned char* p = (unsigned char*)mi_zalloc(sizes[i]);
      usable[is_on][i] = mi_usable_size(p);
      assert_true(test_is_filled(p, usable[is_on][i], 0));
      memset(p, 7, usable[is_on][i]);
      // In place where nearly all is used, elsewhere if it became much less.
      const size_t less = sizes[i] - sizes[i] / 16;
      unsigned char* const q = (unsigned char*)mi_realloc(p, less);
      const bool is_far = less < usable[is_on][i] - usable[is_on][i] / 8;
      assert_true(q == p || is_far || sizes[i] > 40 * TEST_KIB || test_is_tracked());
      p = (unsigned char*)mi_realloc(q, sizes[i] / 16 + 1);
      assert_true(test_is_filled(p, sizes[i] / 16 + 1, 7));
      assert_true(sizes[i] < 1000 || mi_usable_size(p) <= sizes[i]);
      assert_true(mi_usable_size(p) <= sizes[i] / 8 + 4096 + 64 || sizes[i] > 40 * TEST_KIB);
      mi_free(p);
    }
  }
  for (size_t i = 0; i < SIZES; i++) assert_int_equal(usable[0][i], usable[1][i]);
}

// -- Threads --

static bool is_stopped; // atomic
static bool put_nothing(const void* bytes, size_t size, void* arg) {
  (void)bytes;
  *(size_t*)arg += size;
  return true;
}

static void* run(void* arg) {
  uint64_t random = (uintptr_t)arg;
  void* live[64] = {NULL};
  while (!__atomic_load_n(&is_stopped, __ATOMIC_RELAXED)) {
    const size_t at = random_below(&random, 64);
    mi_free(live[at]);
    live[at] = places[at % 8](16 + random_below(&random, 30) * (at == 0 ? 5000 : 100));
  }
  for (size_t i = 0; i < 64; i++) mi_free(live[i]);
  return NULL;
}

// If this fails, a server cannot be profiled while it works.
static void profile_is_switched_and_written_while_threads_run(void** state) {
  (void)state;
  begin(5000);
  const sum_t before = sum_of(mi_profile_live);
  pthread_t threads[3];
  is_stopped = false;
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, &run, (void*)(i + 1)), 0);
  }
  size_t size = 0;
  for (size_t i = 0; i < 60; i++) {
    if (i % 3 == 0) mi_profile_start(i % 2 == 0 ? 1000 : 5000);
    if (i % 7 == 0) mi_profile_stop();
    if (i % 5 == 0) mi_profile_mark();
    for (int format = mi_profile_pprof_gzip; format <= mi_profile_folded; format++) {
      assert_int_equal(mi_profile_write_to((mi_profile_format_t)format, (mi_profile_kind_t)(i % 4),
                                           &put_nothing, &size),
                       0);
    }
  }
  assert_true(size > 0);
  __atomic_store_n(&is_stopped, true, __ATOMIC_RELAXED);
  for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  const sum_t after = sum_of(mi_profile_live);
  for (size_t k = 0; k < PLACES; k++) assert_int_equal(after.samples[k], before.samples[k]);
}

// -- Files --

static size_t bytes_left;
static bool put_some(const void* bytes, size_t size, void* arg) {
  (void)bytes;
  (void)arg;
  if (size > bytes_left) return false;
  bytes_left -= size;
  return true;
}

// If this fails, a profile is cut off and the program is not told.
static void profile_tells_what_went_wrong(void** state) {
  (void)state;
  begin(1);
  void* const p = place_0(100);
  assert_int_equal(mi_profile_write("/nowhere/at/all.pb.gz", mi_profile_live), ENOENT);
  assert_int_equal(mi_profile_write("/", mi_profile_live), EISDIR);
  assert_int_equal(mi_profile_write(NULL, mi_profile_live), EINVAL);
  assert_int_equal(mi_profile_write("x", (mi_profile_kind_t)4), EINVAL);
  if (access("/dev/full", W_OK) == 0) {
    assert_int_equal(mi_profile_write("/dev/full", mi_profile_live), ENOSPC);
  }
  for (bytes_left = 0; bytes_left < 100; bytes_left += 33) {
    const int err = mi_profile_write_to(mi_profile_pprof, mi_profile_live, &put_some, NULL);
    assert_int_equal(err, ECANCELED);
  }
  assert_int_equal(mi_profile_write_to(mi_profile_pprof, mi_profile_live, NULL, NULL), EINVAL);
  assert_int_equal(mi_profile_write_to((mi_profile_format_t)9, mi_profile_live, &put_nothing, NULL),
                   EINVAL);
  assert_false(mi_profile_visit(mi_profile_live, NULL, NULL));
  mi_free(p);
}

static char folder[] = "/tmp/mimalloc-profile-XXXXXX";

// Reads a file of the folder; its length, or -1.
static long read_file(const char* name, char* text, size_t capacity) {
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE* const file = fopen(path, "r");
  if (file == NULL) return -1;
  const size_t length = fread(text, 1, capacity - 1, file);
  fclose(file);
  unlink(path);
  text[length] = 0;
  return (long)length;
}

void* kept[50]; // not static, so that the compiler keeps what it does not see used

// What the child does: leaks, and has a child of its own that does, too.
static int leak_child(const char* how) {
  for (size_t i = 0; i < 50; i++) kept[i] = place_0(100000);
  if (strcmp(how, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) exit(0);
    waitpid(child, NULL, 0);
    printf("child %d\n", (int)child);
  }
  return 0;
}

static spawn_result_t result;

static void run_child(const char* argument, const char* variable, const char* second) {
  const char* const environment[] = {variable, second, NULL};
  test_start_self(argument, environment, &result);
  assert_int_equal(result.signal, 0);
  assert_int_equal(result.exit_status, 0);
}

// If this fails, a program cannot be profiled without being changed.
static void profile_by_the_environment(void** state) {
  (void)state;
  begin(1);
  if (mkdtemp(folder) == NULL) test_skip("no folder can be made");
  static char text[1 << 20];
  char variable[256];
  snprintf(variable, sizeof(variable), "MIMALLOC_PROFILE=%s/run.heap", folder);
  run_child("--leak", variable, "MIMALLOC_PROFILE_RATE=1000");
  assert_true(read_file("run.heap", text, sizeof(text)) > 0);
  assert_true(strncmp(text, "heap profile: ", 14) == 0);
  long long count = 0, bytes = 0;
  assert_int_equal(sscanf(text, "heap profile: %lld: %lld", &count, &bytes), 2);
  assert_in_range(count, 50, 200);
  assert_in_range(bytes, 50 * 100000, 50 * 140000);
  // The kind; and the number of the process.
  snprintf(variable, sizeof(variable), "MIMALLOC_PROFILE=%s/run.%%p.folded,allocated", folder);
  run_child("--fork", variable, "MIMALLOC_PROFILE_RATE=1000");
  int child = 0;
  assert_int_equal(sscanf(strstr(result.output, "child "), "child %d", &child), 1);
  char name[64];
  snprintf(name, sizeof(name), "run.%d.folded", child);
  assert_true(read_file(name, text, sizeof(text)) > 0);
  assert_non_null(strstr(text, ";"));
  // A child of a fork has a file of its own in any case.
  snprintf(variable, sizeof(variable), "MIMALLOC_PROFILE=%s/run.pb.gz", folder);
  run_child("--fork", variable, NULL);
  assert_int_equal(sscanf(strstr(result.output, "child "), "child %d", &child), 1);
  snprintf(name, sizeof(name), "run.%d.pb.gz", child);
  assert_true(read_file(name, text, sizeof(text)) > 20 && memcmp(text, "\x1F\x8B\x08", 3) == 0);
  assert_true(read_file("run.pb.gz", text, sizeof(text)) > 20);
}

// If this fails, a profile that could not be written is missed only when it is wanted.
static void profile_by_the_environment_tells_errors(void** state) {
  (void)state;
  begin(1);
  run_child("--leak", "MIMALLOC_PROFILE=/nowhere/run.pb.gz", NULL);
  assert_int_equal(
      spawn_count(&result, "cannot write the profile /nowhere/run.pb.gz: error 2, no such folder"),
      1);
}

// If this fails, a program does not tell its leaks.
static void profile_prints_leaks_at_exit(void** state) {
  (void)state;
  begin(1);
  run_child("--leak", "MIMALLOC_PROFILE_LEAKS=1", "MIMALLOC_PROFILE_RATE=1000");
  assert_true(spawn_count(&result, "bytes in 50 blocks of") >= 1);
  assert_true(spawn_count(&result, " are in use, from ") == 1);
}

// Remove what was written, whatever became of the test.
static int remove_folder(void** state) {
  (void)state;
  DIR* const files = opendir(folder);
  if (files == NULL) return 0;
  for (const struct dirent* file; (file = readdir(files)) != NULL;) {
    if (file->d_name[0] != '.') unlinkat(dirfd(files), file->d_name, 0);
  }
  closedir(files);
  return rmdir(folder);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--leak") == 0) return leak_child("leak");
  if (argc > 1 && strcmp(argv[1], "--fork") == 0) return leak_child("fork");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(profile_estimates_each_place, reset),
      cmocka_unit_test_teardown(profile_estimates_at_the_default_rate, reset),
      cmocka_unit_test_teardown(profile_follows_blocks_that_are_resized, reset),
      cmocka_unit_test_teardown(profile_with_guards, reset),
      cmocka_unit_test_teardown(profile_of_every_block_is_exact, reset),
      cmocka_unit_test_teardown(profile_of_threads_that_share_pages, reset),
      cmocka_unit_test_teardown(profile_peak_is_that_of_the_peak, reset),
      cmocka_unit_test_teardown(profile_as_text_has_large_amounts, reset),
      cmocka_unit_test_teardown(profile_growth_is_since_the_mark, reset),
      cmocka_unit_test_teardown(profile_knows_ends_of_threads_and_heaps, reset),
      cmocka_unit_test_teardown(profile_blocks_are_as_any_other, reset),
      cmocka_unit_test_teardown(profile_is_switched_and_written_while_threads_run, reset),
      cmocka_unit_test_teardown(profile_tells_what_went_wrong, reset),
      cmocka_unit_test_teardown(profile_by_the_environment, reset),
      cmocka_unit_test_teardown(profile_by_the_environment_tells_errors, reset),
      cmocka_unit_test_teardown(profile_prints_leaks_at_exit, reset),
  };
  return cmocka_run_group_tests_name("profile", tests, NULL, &remove_folder);
}
