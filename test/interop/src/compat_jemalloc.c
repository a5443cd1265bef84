// A program written for jemalloc. It is compiled with its header, and the same program runs with
// jemalloc and with our library of that name: what is checked here holds for both. The argument is
// the name of a scenario; those whose names begin with `ours` hold for ours only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jemalloc/jemalloc.h>

#include "compat.h"

// The program's own options: the environment wins over them.
const char* malloc_conf = "dirty_decay_ms:1234,narenas:2";

// -- Short forms of mallctl --

#define READ_AS(type, name)                                                                        \
  ({                                                                                               \
    type value;                                                                                    \
    size_t length = sizeof(value);                                                                 \
    EQUAL(mallctl(name, &value, &length, NULL, 0), 0);                                             \
    EQUAL(length, sizeof(value));                                                                  \
    value;                                                                                         \
  })
#define WRITE_AS(type, name, new_value)                                                            \
  ({                                                                                               \
    type value = (new_value);                                                                      \
    mallctl(name, NULL, NULL, &value, sizeof(value));                                              \
  })

static int act(const char* name) { return mallctl(name, NULL, NULL, NULL, 0); }

static int of_arena(unsigned arena, const char* name) {
  char text[64];
  snprintf(text, sizeof(text), "arena.%u.%s", arena, name);
  return act(text);
}

static void refresh(void) { EQUAL(WRITE_AS(uint64_t, "epoch", 1), 0); }

static unsigned create(void) { return READ_AS(unsigned, "arenas.create"); }

// -- Functions with flags --

static const size_t SIZES[] = {1, 8, 17, 100, 1000, 4096, 5000, 40000, 300000, 3000000};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void sizes(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    for (unsigned lg = 0; lg <= 20; lg++) {
      const int flags = lg == 0 ? 0 : MALLOCX_LG_ALIGN(lg);
      char* const p = mallocx(SIZES[i], flags);
      CHECK(p != NULL);
      EQUAL((uintptr_t)p & (((uintptr_t)1 << lg) - 1), 0);
      CHECK(sallocx(p, 0) >= SIZES[i]);
      CHECK(sallocx(p, flags) >= nallocx(SIZES[i], flags)); // wide classes: split.c
      EQUAL(malloc_usable_size(p), sallocx(p, 0));
      memset(p, 1, sallocx(p, 0));
      sdallocx(p, SIZES[i], flags);
    }
  }
  EQUAL(MALLOCX_ALIGN(4096), 12);
  EQUAL(nallocx(SIZE_MAX, 0), 0);
  EQUAL(malloc_usable_size(NULL), 0);
}

static void zeroes(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    char* p = mallocx(SIZES[i], 0);
    memset(p, 0x55, SIZES[i]);
    dallocx(p, 0);
    p = mallocx(SIZES[i], MALLOCX_ZERO);
    all_are(p, 0, sallocx(p, 0), 0);
    // What a block grows by is zero from its real size on, and only that.
    const size_t before = sallocx(p, 0);
    memset(p, 0x55, before);
    char* used[8]; // what it moves to was in use
    for (size_t k = 0; k < COUNT(used); k++) used[k] = memset(malloc(before * 3), 0x55, before * 3);
    for (size_t k = 0; k < COUNT(used); k++) free(used[k]);
    p = rallocx(p, before * 3, MALLOCX_ZERO);
    CHECK(p != NULL && sallocx(p, 0) >= before * 3);
    all_are(p, 0, before, 0x55);
    all_are(p, before, sallocx(p, 0), 0);
    p = rallocx(p, SIZES[i] + 1, MALLOCX_ALIGN(256));
    EQUAL((uintptr_t)p & 255, 0);
    all_are(p, 0, SIZES[i], 0x55);
    dallocx(p, MALLOCX_ALIGN(256));
  }
}

static void in_place(void) {
  for (size_t i = 0; i < COUNT(SIZES); i++) {
    char* const p = mallocx(SIZES[i], 0);
    const size_t real = sallocx(p, 0);
    EQUAL(xallocx(p, SIZES[i], 0, 0), real);
    EQUAL(xallocx(p, real, 0, 0), real);
    memset(p, 0x55, real);
    const size_t now = xallocx(p, real, real * 2, MALLOCX_ZERO);
    CHECK(now >= real && now == sallocx(p, 0));
    all_are(p, 0, real, 0x55);
    all_are(p, real, now, 0);
    dallocx(p, 0);
  }
  void* const p = mallocx(100, 0);
  CHECK(xallocx(p, (size_t)1 << 40, 0, 0) < (size_t)1 << 40);
  CHECK(xallocx(p, 100, SIZE_MAX - 100, 0) >= 100);
  dallocx(p, 0);
}

static size_t resident(void) {
  long all, now;
  FILE* const file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &now) == 2);
  fclose(file);
  return (size_t)now * (size_t)sysconf(_SC_PAGESIZE);
}

// A block of its own pages becomes shorter, and gives memory back.
static void shrink(void) {
  const size_t long_size = (size_t)100 << 20;
  const size_t short_size = (size_t)1 << 20;
  for (int flags = 0; flags <= MALLOCX_ZERO; flags += MALLOCX_ZERO) {
    char* const p = mallocx(long_size, flags);
    memset(p, 0x55, long_size);
    EQUAL(xallocx(p, short_size / 2, short_size / 2, flags), short_size);
    EQUAL(sallocx(p, 0), short_size);
    all_are(p, 0, short_size, 0x55);
    EQUAL(of_arena(MALLCTL_ARENAS_ALL, "purge"), 0);
    CHECK(resident() < long_size / 2);
    const size_t grown = xallocx(p, short_size, short_size, MALLOCX_ZERO);
    all_are(p, 0, short_size, 0x55);
    all_are(p, short_size, grown, 0);
    dallocx(p, 0);
  }
}

static void no_memory(void) {
  char* const p = mallocx(100, 0);
  memset(p, 0x55, 100);
  volatile size_t huge = PTRDIFF_MAX / 2;
  CHECK(mallocx(huge, 0) == NULL);
  CHECK(mallocx(huge, MALLOCX_ZERO) == NULL);
  CHECK(mallocx(huge, MALLOCX_ALIGN(4096)) == NULL);
  CHECK(rallocx(p, huge, 0) == NULL);
  CHECK(rallocx(p, huge, MALLOCX_ALIGN(64)) == NULL);
  all_are(p, 0, 100, 0x55);
  dallocx(p, 0);
}

// -- mallctl: names, lengths, errors --

static void errors(void) {
  uint64_t value = 0;
  size_t length = sizeof(value);
  const char* const unknown[] = {"",
                                 "nonsense",
                                 "stats",
                                 "stats.",
                                 "stats.allocated.x",
                                 "arena.x.purge",
                                 "arena..purge",
                                 "arena.0",
                                 "arena.9999.purge",
                                 "arenas.bin.1000.size",
                                 "stats.arenas.999.pactive",
                                 "version ",
                                 "Version",
                                 "arena.-1.purge"};
  for (size_t i = 0; i < COUNT(unknown); i++) {
    EQUAL(mallctl(unknown[i], &value, &length, NULL, 0), ENOENT);
  }
  EQUAL(mallctl("arenas.page", NULL, NULL, &value, sizeof(value)), EPERM);
  EQUAL(mallctl("arenas.page", NULL, NULL, NULL, 8), EPERM);
  EQUAL(mallctl("version", NULL, NULL, &value, sizeof(value)), EPERM);
  EQUAL(mallctl("opt.narenas", NULL, NULL, &value, sizeof(unsigned)), EPERM);
  EQUAL(mallctl("thread.tcache.flush", &value, &length, NULL, 0), EPERM);
  EQUAL(mallctl("thread.tcache.flush", NULL, NULL, &value, sizeof(value)), EPERM);
  EQUAL(mallctl("arena.0.purge", &value, &length, NULL, 0), EPERM);
  EQUAL(mallctl("tcache.flush", &value, &length, NULL, 0), EPERM);
  EQUAL(mallctl("epoch", NULL, NULL, &value, 4), EINVAL);
  EQUAL(mallctl("epoch", NULL, NULL, &value, 0), EINVAL);
  EQUAL(mallctl("epoch", NULL, NULL, NULL, 8), 0);
  // As much as fits is written, and said so.
  const size_t page = READ_AS(size_t, "arenas.page");
  EQUAL(page, sysconf(_SC_PAGESIZE));
  unsigned half[4] = {7, 7, 7, 7};
  length = sizeof(half[0]);
  EQUAL(mallctl("arenas.page", half, &length, NULL, 0), EINVAL);
  CHECK(length == sizeof(half[0]) && half[0] == (unsigned)page && half[1] == 7);
  length = sizeof(half);
  EQUAL(mallctl("arenas.page", half, &length, NULL, 0), EINVAL);
  CHECK(length == sizeof(size_t) && half[2] == 7);
  EQUAL(mallctl("arenas.page", NULL, &length, NULL, 0), 0);
  EQUAL(mallctl("arenas.page", &value, NULL, NULL, 0), 0);
}

static void mibs(void) {
  size_t mib[8] = {0};
  size_t length = 8;
  const unsigned bins = READ_AS(unsigned, "arenas.nbins");
  CHECK(bins > 10);
  EQUAL(mallctlnametomib("arenas.bin.0.size", mib, &length), 0);
  EQUAL(length, 4);
  size_t size, last = 0;
  for (unsigned i = 0; i < bins; i++) {
    mib[2] = i;
    size_t size_length = sizeof(size);
    EQUAL(mallctlbymib(mib, 4, &size, &size_length, NULL, 0), 0);
    CHECK(size > last);
    EQUAL(nallocx(size, 0), size);
    last = size;
  }
  size_t size_length = sizeof(size);
  mib[2] = bins + 1;
  EQUAL(mallctlbymib(mib, 4, &size, &size_length, NULL, 0), ENOENT);
  mib[2] = 0;
  EQUAL(mallctlbymib(mib, 3, &size, &size_length, NULL, 0), ENOENT);
  EQUAL(mallctlbymib(mib, 0, &size, &size_length, NULL, 0), ENOENT);
  mib[0] = 77;
  EQUAL(mallctlbymib(mib, 4, &size, &size_length, NULL, 0), ENOENT);
  length = 8;
  EQUAL(mallctlnametomib("arenas.nothing", mib, &length), ENOENT);
  // A beginning, which is completed by numbers of a longer one.
  size_t whole[8];
  length = 2;
  EQUAL(mallctlnametomib("arena.0.dirty_decay_ms", mib, &length), 0);
  EQUAL(length, 2);
  length = 8;
  EQUAL(mallctlnametomib("arena.0", mib, &length), 0);
  EQUAL(length, 2);
  length = 8;
  EQUAL(mallctlnametomib("arena.0.dirty_decay_ms", whole, &length), 0);
  EQUAL(length, 3);
  CHECK(mib[0] == whole[0] && mib[1] == 0 && whole[1] == 0);
  mib[2] = whole[2];
  ssize_t decay;
  size_length = sizeof(decay);
  EQUAL(mallctlbymib(mib, 3, &decay, &size_length, NULL, 0), 0);
  EQUAL(decay, READ_AS(ssize_t, "arena.0.dirty_decay_ms"));
  length = 8;
  EQUAL(mallctlnametomib("version", mib, &length), 0);
  EQUAL(length, 1);
}

// -- Figures --

static size_t figure(const char* name) { return READ_AS(size_t, name); }

static void statistics(void) {
  CHECK(strlen(READ_AS(const char*, "version")) > 3 && READ_AS(const char*, "version")[0] == '5');
  CHECK(READ_AS(bool, "config.stats"));
  refresh();
  const uint64_t epoch = READ_AS(uint64_t, "epoch");
  const size_t before = figure("stats.allocated");
  enum { MIB = 1 << 20, BLOCKS = 40 };
  char* block[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    CHECK((block[i] = malloc(MIB)) != NULL);
    memset(block[i], 1, MIB);
  }
  EQUAL(figure("stats.allocated"), before); // the epoch is the same
  EQUAL(READ_AS(uint64_t, "epoch"), epoch);
  refresh();
  EQUAL(READ_AS(uint64_t, "epoch"), epoch + 1);
  // Who begins one is told its number.
  uint64_t begun = 1;
  size_t length = sizeof(begun);
  EQUAL(mallctl("epoch", &begun, &length, &begun, sizeof(begun)), 0);
  EQUAL(begun, epoch + 2);
  const size_t allocated = figure("stats.allocated"), active = figure("stats.active");
  const size_t page = figure("arenas.page");
  CHECK(allocated >= before + (size_t)BLOCKS * MIB);
  CHECK(allocated < before + (size_t)BLOCKS * MIB * 5 / 4 + MIB);
  CHECK(active >= allocated && active % page == 0);
  CHECK(figure("stats.resident") >= active && figure("stats.resident") % page == 0);
  CHECK(figure("stats.mapped") >= active);
  CHECK(figure("stats.metadata") > 0 && figure("stats.metadata") < allocated);
  figure("stats.retained");
  EQUAL(figure("stats.arenas.4096.pactive"), active / page);
  EQUAL(figure("stats.arenas.4096.small.allocated") + figure("stats.arenas.4096.large.allocated"),
        allocated);
  const size_t resident = figure("stats.resident");
  for (size_t i = 0; i < BLOCKS; i++) free(block[i]);
  EQUAL(act("thread.tcache.flush"), 0);
  EQUAL(act("arena.4096.purge"), 0);
  refresh();
  CHECK(figure("stats.allocated") + (size_t)BLOCKS * MIB <= allocated);
  CHECK(figure("stats.resident") + (size_t)BLOCKS * MIB / 2 <= resident);
}

// Pages count as a whole, also beside a large block.
static void activity(void) {
  static void* block[20000];
  for (size_t i = 0; i < COUNT(block); i++) block[i] = malloc(1000);
  for (size_t i = 0; i < COUNT(block); i += 2) free(block[i]);
  EQUAL(act("thread.tcache.flush"), 0);
  refresh();
  const size_t before = figure("stats.active"), allocated = figure("stats.allocated");
  CHECK(before > allocated + 8000000);
  const size_t large = (size_t)8 << 20;
  CHECK(malloc(large) != NULL);
  refresh();
  CHECK(figure("stats.active") >= before + large);
  CHECK(figure("stats.active") < before + large * 3 / 2);
  CHECK(figure("stats.allocated") >= allocated + large);
}

// What is free goes back when the program asks for it, long before it would by itself.
static void purge(void) {
  EQUAL(WRITE_AS(ssize_t, "arenas.dirty_decay_ms", 100000), 0);
  for (unsigned i = 0, count = READ_AS(unsigned, "arenas.narenas"); i < count; i++) {
    char name[64];
    bool is_there = false;
    size_t length = sizeof(is_there);
    snprintf(name, sizeof(name), "arena.%u.initialized", i);
    EQUAL(mallctl(name, &is_there, &length, NULL, 0), 0);
    snprintf(name, sizeof(name), "arena.%u.dirty_decay_ms", i);
    if (is_there) EQUAL(WRITE_AS(ssize_t, name, 100000), 0);
  }
  const char* const name[] = {"arena.4096.purge", "arena.0.purge"};
  for (size_t n = 0; n < COUNT(name); n++) {
    static char* block[100];
    for (size_t i = 0; i < COUNT(block); i++) {
      CHECK((block[i] = malloc(300000)) != NULL);
      memset(block[i], 1, 300000);
    }
    for (size_t i = 0; i < COUNT(block); i++) free(block[i]);
    refresh();
    const size_t before = figure("stats.resident");
    EQUAL(act("arena.4096.decay"), 0);
    EQUAL(act(name[n]), 0);
    refresh();
    CHECK(figure("stats.resident") + 20000000 < before);
  }
}

// -- Settings --

static void decay(void) {
  ssize_t old, new = 1000;
  size_t length = sizeof(old);
  EQUAL(READ_AS(ssize_t, "opt.dirty_decay_ms"), READ_AS(ssize_t, "arenas.dirty_decay_ms"));
  EQUAL(mallctl("arenas.dirty_decay_ms", &old, &length, &new, sizeof(new)), 0);
  EQUAL(old, READ_AS(ssize_t, "opt.dirty_decay_ms"));
  EQUAL(READ_AS(ssize_t, "arenas.dirty_decay_ms"), 1000);
  EQUAL(WRITE_AS(ssize_t, "arenas.dirty_decay_ms", -1), 0);
  EQUAL(READ_AS(ssize_t, "arenas.dirty_decay_ms"), -1);
  EQUAL(WRITE_AS(ssize_t, "arenas.dirty_decay_ms", -2), EFAULT);
  EQUAL(WRITE_AS(ssize_t, "arena.0.dirty_decay_ms", -2), EFAULT);
  EQUAL(WRITE_AS(ssize_t, "arena.4096.dirty_decay_ms", 100), EFAULT);
  EQUAL(WRITE_AS(ssize_t, "arena.0.dirty_decay_ms", 700), 0);
  EQUAL(READ_AS(ssize_t, "arena.0.dirty_decay_ms"), 700);
  EQUAL(READ_AS(ssize_t, "arenas.muzzy_decay_ms"), 0);
  EQUAL(WRITE_AS(ssize_t, "arenas.muzzy_decay_ms", -2), EFAULT);
  EQUAL(WRITE_AS(ssize_t, "arenas.muzzy_decay_ms", 0), 0);
}

static void background(void) {
  EQUAL(WRITE_AS(bool, "background_thread", true), 0);
  CHECK(READ_AS(bool, "background_thread"));
  EQUAL(WRITE_AS(bool, "background_thread", false), 0);
  CHECK(!READ_AS(bool, "background_thread"));
  EQUAL(WRITE_AS(unsigned, "background_thread", 1), EINVAL);
  CHECK(READ_AS(size_t, "max_background_threads") >= 1);
  EQUAL(WRITE_AS(size_t, "max_background_threads", 100000), EINVAL);
}

static void threads(void) {
  CHECK(READ_AS(bool, "thread.tcache.enabled"));
  EQUAL(WRITE_AS(bool, "thread.tcache.enabled", true), 0);
  EQUAL(act("thread.tcache.flush"), 0);
  EQUAL(act("thread.idle"), 0);
  const unsigned tcache = READ_AS(unsigned, "tcache.create");
  void* const p = mallocx(100, MALLOCX_TCACHE(tcache));
  CHECK(p != NULL);
  dallocx(p, MALLOCX_TCACHE(tcache));
  dallocx(mallocx(100, MALLOCX_TCACHE_NONE), MALLOCX_TCACHE_NONE);
  EQUAL(WRITE_AS(unsigned, "tcache.flush", tcache), 0);
  EQUAL(act("tcache.flush"), EINVAL);
  EQUAL(WRITE_AS(unsigned, "tcache.destroy", tcache), 0);
  uint64_t wide;
  size_t length = sizeof(wide);
  EQUAL(mallctl("tcache.create", &wide, &length, NULL, 0), EINVAL);
  EQUAL(length, 0);
}

// -- Arenas --

static void arenas(void) {
  char text[64];
  uint64_t wide = 77;
  size_t length = sizeof(wide);
  EQUAL(mallctl("arenas.create", &wide, &length, NULL, 0), EINVAL);
  CHECK(length == 0 && wide == 77);
  const unsigned before = READ_AS(unsigned, "arenas.narenas");
  const unsigned arena = create();
  EQUAL(arena, before);
  EQUAL(READ_AS(unsigned, "arenas.narenas"), before + 1);
  snprintf(text, sizeof(text), "arena.%u.initialized", arena);
  refresh();
  CHECK(READ_AS(bool, text));
  const int flags = MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
  char* block[100];
  for (size_t i = 0; i < COUNT(block); i++) {
    CHECK((block[i] = mallocx(1000 * (i + 1), flags | (i % 2 ? MALLOCX_ZERO : 0))) != NULL);
    memset(block[i], (int)i, 1000 * (i + 1));
  }
  block[7] = rallocx(block[7], 50000, flags);
  all_are(block[7], 0, 8000, 7);
  void* other = malloc(100);
  unsigned of = 0;
  length = sizeof(of);
  EQUAL(mallctl("arenas.lookup", &of, &length, &block[3], sizeof(void*)), 0);
  EQUAL(of, arena);
  EQUAL(mallctl("arenas.lookup", &of, &length, &other, sizeof(void*)), 0);
  CHECK(of != arena);
  dallocx(block[5], flags);
  EQUAL(of_arena(arena, "decay"), 0);
  EQUAL(of_arena(arena, "purge"), 0);
  all_are(block[4], 0, 5000, 4);
  // Old programs mean all by the next number.
  EQUAL(of_arena(arena + 1, "purge"), 0);
  EQUAL(of_arena(arena + 2, "purge"), ENOENT);
  EQUAL(of_arena(0, "reset"), EFAULT);
  EQUAL(of_arena(0, "destroy"), EFAULT);
  EQUAL(of_arena(MALLCTL_ARENAS_ALL, "reset"), EFAULT);
  EQUAL(of_arena(arena, "reset"), 0);
  snprintf(text, sizeof(text), "stats.arenas.%u.small.allocated", arena);
  refresh();
  EQUAL(figure(text), 0);
  CHECK(mallocx(1000, flags) != NULL);
  // The thread's own arena.
  const unsigned mine = READ_AS(unsigned, "thread.arena");
  CHECK(mine != arena);
  EQUAL(WRITE_AS(unsigned, "thread.arena", arena), 0);
  EQUAL(READ_AS(unsigned, "thread.arena"), arena);
  EQUAL(act("thread.tcache.flush"), 0);
  void* own = malloc(3000);
  length = sizeof(of);
  EQUAL(mallctl("arenas.lookup", &of, &length, &own, sizeof(void*)), 0);
  EQUAL(of, arena);
  EQUAL(of_arena(arena, "destroy"), EFAULT);
  free(own);
  EQUAL(WRITE_AS(unsigned, "thread.arena", 5000), EFAULT);
  EQUAL(WRITE_AS(unsigned, "thread.arena", mine), 0);
  EQUAL(act("thread.tcache.flush"), 0);
  EQUAL(of_arena(arena, "destroy"), 0);
  EQUAL(of_arena(arena, "destroy"), EFAULT);
  snprintf(text, sizeof(text), "arena.%u.initialized", arena);
  CHECK(!READ_AS(bool, text));
  EQUAL(create(), arena); // the number is used again
  free(other);
}

static pthread_barrier_t turn;

// Allocates from the arena that it chose, and then from none.
static void* guest(void* arg) {
  const unsigned arena = *(const unsigned*)arg;
  EQUAL(WRITE_AS(unsigned, "thread.arena", arena), 0);
  char* const p = malloc(3000);
  memset(p, 0x5A, 3000);
  pthread_barrier_wait(&turn); // what ends the arena is refused
  pthread_barrier_wait(&turn);
  all_are(p, 0, 3000, 0x5A);
  for (size_t i = 0; i < 1000; i++) free(malloc(i));
  free(p);
  EQUAL(act("thread.tcache.flush"), 0);
  return NULL;
}

static unsigned threads_of(unsigned arena) {
  char text[64];
  snprintf(text, sizeof(text), "stats.arenas.%u.nthreads", arena);
  refresh();
  return READ_AS(unsigned, text);
}

// An arena is not ended while it is that of another thread.
static void arena_of_a_thread(void) {
  pthread_t thread;
  unsigned arena = create();
  EQUAL(threads_of(arena), 0);
  pthread_barrier_init(&turn, NULL, 2);
  EQUAL(pthread_create(&thread, NULL, &guest, &arena), 0);
  pthread_barrier_wait(&turn);
  EQUAL(threads_of(arena), 1);
  EQUAL(of_arena(arena, "destroy"), EFAULT);
  EQUAL(threads_of(arena), 1);
  pthread_barrier_wait(&turn);
  EQUAL(pthread_join(thread, NULL), 0);
  EQUAL(threads_of(arena), 0);
  EQUAL(of_arena(arena, "destroy"), 0);
}

// Ours refuses this, too; and only the thread that called fork is in the child.
static void reset_of_others(void) {
  pthread_t thread;
  unsigned arena = create();
  pthread_barrier_init(&turn, NULL, 2);
  EQUAL(pthread_create(&thread, NULL, &guest, &arena), 0);
  pthread_barrier_wait(&turn);
  EQUAL(of_arena(arena, "reset"), EFAULT);
  const pid_t child = fork();
  if (child == 0) _exit(of_arena(arena, "destroy"));
  int status = -1;
  EQUAL(waitpid(child, &status, 0), child);
  EQUAL(status, 0);
  pthread_barrier_wait(&turn);
  EQUAL(pthread_join(thread, NULL), 0);
  EQUAL(WRITE_AS(unsigned, "thread.arena", arena), 0);
  EQUAL(of_arena(arena, "reset"), 0);
  EQUAL(threads_of(arena), 1);
  memset(malloc(3000), 1, 3000);
  EQUAL(of_arena(arena, "destroy"), EFAULT);
  EQUAL(WRITE_AS(unsigned, "thread.arena", 0), 0);
  EQUAL(of_arena(arena, "destroy"), 0);
}

// Threads create arenas, use them and end them at once, while others begin epochs.
static void* worker(void* arg) {
  (void)arg;
  for (int i = 0; i < 50; i++) {
    const unsigned arena = create();
    void* p = mallocx(100, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
    CHECK(p != NULL);
    p = rallocx(p, 10000, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE | MALLOCX_ZERO);
    CHECK(p != NULL);
    refresh();
    CHECK(figure("stats.active") >= figure("arenas.page"));
    EQUAL(of_arena(arena, i % 2 ? "reset" : "destroy"), 0);
    if (i % 2) EQUAL(of_arena(arena, "destroy"), 0);
  }
  return NULL;
}

static void at_once(void) {
  pthread_t thread[4];
  for (size_t i = 0; i < COUNT(thread); i++) pthread_create(&thread[i], NULL, &worker, NULL);
  // A child of a fork in the midst of it has all that it needs.
  for (int i = 0; i < 10; i++) {
    const pid_t child = fork();
    if (child == 0) {
      worker(NULL);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  for (size_t i = 0; i < COUNT(thread); i++) pthread_join(thread[i], NULL);
}

// -- Options --

// The second argument is what opt.dirty_decay_ms must be.
static void options(const char* wanted) {
  EQUAL(READ_AS(ssize_t, "opt.dirty_decay_ms"), atoi(wanted));
  EQUAL(READ_AS(ssize_t, "arenas.dirty_decay_ms"), atoi(wanted));
  EQUAL(READ_AS(unsigned, "opt.narenas"), 2);
  CHECK(strcmp(READ_AS(const char*, "opt.dss"), "secondary") == 0 ||
        strcmp(READ_AS(const char*, "opt.dss"), "disabled") == 0);
  EQUAL(strcmp(READ_AS(const char*, "opt.zero_realloc"), "free"), 0);
  CHECK(READ_AS(bool, "opt.tcache") && !READ_AS(bool, "opt.abort"));
  EQUAL(strcmp(READ_AS(const char*, "config.malloc_conf"), ""), 0);
}

// -- Reports --

static size_t said;
static void count_message(void* arg, const char* text) {
  (void)arg;
  said += strlen(text);
}
static void put(void* arg, const char* text) { fputs(text, arg); }

static void report(const char* opts) {
  malloc_stats_print(&put, stdout, opts);
  malloc_message = &count_message;
  malloc_stats_print(NULL, NULL, opts);
  CHECK(said > 100);
}

// -- Profiles: with MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:10 --

static __attribute__((noinline)) void* allocate_much(void) {
  static void* block[2000];
  for (size_t i = 0; i < COUNT(block); i++) block[i] = malloc(1000);
  return block;
}

static void profile(const char* file) {
  CHECK(READ_AS(bool, "config.prof") && READ_AS(bool, "opt.prof"));
  CHECK(!READ_AS(bool, "opt.prof_active") && !READ_AS(bool, "prof.active"));
  EQUAL(READ_AS(size_t, "opt.lg_prof_sample"), 10);
  EQUAL(READ_AS(size_t, "prof.lg_sample"), 10);
  CHECK(READ_AS(bool, "prof.thread_active_init") && READ_AS(bool, "thread.prof.active"));
  EQUAL(WRITE_AS(bool, "prof.active", true), 0);
  CHECK(READ_AS(bool, "prof.active"));
  allocate_much();
  EQUAL(WRITE_AS(const char*, "prof.dump", file), 0);
  EQUAL(act("prof.dump"), 0); // to a file of its own name
  EQUAL(WRITE_AS(const char*, "prof.dump", "/nowhere/at/all"), EFAULT);
  size_t length = sizeof(file);
  EQUAL(mallctl("prof.dump", &file, &length, NULL, 0), EPERM);
  CHECK(!READ_AS(bool, "prof.gdump"));
  EQUAL(WRITE_AS(bool, "prof.gdump", false), 0);
  EQUAL(READ_AS(uint64_t, "prof.interval"), 0);
  EQUAL(WRITE_AS(bool, "prof.active", false), 0);
  CHECK(!READ_AS(bool, "prof.active"));
  EQUAL(WRITE_AS(size_t, "prof.reset", 12), 0);
  EQUAL(READ_AS(size_t, "prof.lg_sample"), 12);
  EQUAL(act("prof.reset"), 0);
  EQUAL(READ_AS(size_t, "prof.lg_sample"), 12);
}

static void profiled(void) { // with prof:true
  CHECK(READ_AS(bool, "opt.prof") && READ_AS(bool, "opt.prof_active") &&
        READ_AS(bool, "prof.active"));
}

static void no_profile(void) { // with prof:false
  CHECK(!READ_AS(bool, "opt.prof"));
  EQUAL(WRITE_AS(bool, "prof.active", true), ENOENT);
  EQUAL(WRITE_AS(const char*, "prof.dump", "profile"), ENOENT);
  EQUAL(act("prof.reset"), ENOENT);
}

// -- Only ours --

static long option(int which) {
  long (*get)(int) = (long (*)(int))dlsym(RTLD_DEFAULT, "mi_option_get");
  CHECK(get != NULL);
  return get(which);
}

// What has no counterpart is unknown or refused, and settings are those of our options.
static void ours(void) {
  uint64_t value = 0;
  size_t length = sizeof(value);
  const char* const absent[] = {"thread.allocated",
                                "thread.allocatedp",
                                "thread.deallocated",
                                "thread.deallocatedp",
                                "arena.0.extent_hooks",
                                "stats.zero_reallocs",
                                "experimental.utilization.query",
                                "arenas.lextent.0.size",
                                "arenas.bin.0.nregs",
                                "prof.prefix",
                                "thread.prof.name"};
  for (size_t i = 0; i < COUNT(absent); i++) {
    EQUAL(mallctl(absent[i], &value, &length, NULL, 0), ENOENT);
  }
  EQUAL(option(15), 1234);
  EQUAL(WRITE_AS(ssize_t, "arenas.dirty_decay_ms", 55), 0);
  EQUAL(option(15), 55);
  EQUAL(WRITE_AS(bool, "background_thread", false), 0);
  EQUAL(option(1009), 0);
  EQUAL(WRITE_AS(bool, "background_thread", true), 0);
  EQUAL(option(1009), 2);
  EQUAL(WRITE_AS(bool, "prof.gdump", true), EFAULT);
  EQUAL(WRITE_AS(bool, "thread.prof.active", false), EFAULT);
  EQUAL(WRITE_AS(bool, "prof.thread_active_init", false), EFAULT);
  void* hooks = &hooks;
  unsigned arena;
  length = sizeof(arena);
  EQUAL(mallctl("arenas.create", &arena, &length, &hooks, sizeof(hooks)), EFAULT);
  hooks = NULL;
  EQUAL(mallctl("arenas.create", &arena, &length, &hooks, sizeof(hooks)), 0);
  const void* const here = &length;
  EQUAL(mallctl("arenas.lookup", &arena, &length, (void*)&here, sizeof(here)), EINVAL);
  EQUAL(mallctl("arenas.lookup", &arena, &length, NULL, 0), EINVAL);
  // A large block grows in its place.
  void* const p = mallocx(3000000, 0);
  CHECK(xallocx(p, 3000000, 1 << 20, 0) >= 3000000 + (1 << 20));
  dallocx(p, 0);
  // Bins tell how many blocks there are of a size.
  char name[64];
  size_t before = 0, bin = 0;
  while (READ_AS(size_t, (snprintf(name, sizeof(name), "arenas.bin.%zu.size", bin), name)) < 2000)
    bin++;
  snprintf(name, sizeof(name), "stats.arenas.4096.bins.%zu.curregs", bin);
  refresh();
  before = figure(name);
  for (int i = 0; i < 300; i++) CHECK(malloc(2000) != NULL);
  refresh();
  CHECK(figure(name) >= before + 300 && figure(name) < before + 400);
  // More arenas than numbers fit in the flags cannot be made.
  unsigned made = 0;
  for (;; made++) {
    length = sizeof(arena);
    const int result = mallctl("arenas.create", &arena, &length, NULL, 0);
    if (result == EAGAIN) break;
    EQUAL(result, 0);
    CHECK(made < 5000 && mallocx(10, MALLOCX_ARENA(arena)) != NULL);
  }
  CHECK(made > 4000);
}

// Blocks ever allocated are counted of all arenas together.
static void ours_ever(void) {
  char name[64];
  size_t bin = 0;
  while (READ_AS(size_t, (snprintf(name, sizeof(name), "arenas.bin.%zu.size", bin), name)) < 2000)
    bin++;
  free(malloc(2000));
  refresh();
  snprintf(name, sizeof(name), "stats.arenas.4096.bins.%zu.nmalloc", bin);
  const uint64_t ever = READ_AS(uint64_t, name);
  const uint64_t small = READ_AS(uint64_t, "stats.arenas.4096.small.nmalloc");
  const uint64_t large = READ_AS(uint64_t, "stats.arenas.4096.large.nmalloc");
  const uint64_t large_freed = READ_AS(uint64_t, "stats.arenas.4096.large.ndalloc");
  snprintf(name, sizeof(name), "stats.arenas.4096.bins.%zu.ndalloc", bin);
  const uint64_t freed = READ_AS(uint64_t, name);
  for (int i = 0; i < 1000; i++) {
    void* volatile const one = malloc(2000);
    void* volatile const other = malloc(3000000);
    free(other);
    free(one);
  }
  EQUAL(READ_AS(uint64_t, name), freed); // until the next epoch
  refresh();
  EQUAL(READ_AS(uint64_t, name), freed + 1000);
  snprintf(name, sizeof(name), "stats.arenas.4096.bins.%zu.nmalloc", bin);
  EQUAL(READ_AS(uint64_t, name), ever + 1000);
  snprintf(name, sizeof(name), "stats.arenas.4096.bins.%zu.nrequests", bin);
  EQUAL(READ_AS(uint64_t, name), ever + 1000);
  CHECK(READ_AS(uint64_t, "stats.arenas.4096.small.nmalloc") >= small + 1000);
  EQUAL(READ_AS(uint64_t, "stats.arenas.4096.large.nmalloc"), large + 1000);
  EQUAL(READ_AS(uint64_t, "stats.arenas.4096.large.ndalloc"), large_freed + 1000);
  uint64_t nothing;
  size_t length = sizeof(nothing);
  snprintf(name, sizeof(name), "stats.arenas.0.bins.%zu.nmalloc", bin);
  EQUAL(mallctl(name, &nothing, &length, NULL, 0), ENOENT);
}

// What an option of our own in the environment says, wins: MIMALLOC_PURGE_DELAY=99.
static void ours_first(void) {
  EQUAL(option(15), 99);
  EQUAL(READ_AS(ssize_t, "arenas.dirty_decay_ms"), 99);
}

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const char* const word = argc > 2 ? argv[2] : "";
#define IS(name)                                                                                   \
  if (strcmp(what, #name) == 0) return (name(), 0)
  IS(sizes);
  IS(zeroes);
  IS(in_place);
  IS(shrink);
  IS(no_memory);
  IS(errors);
  IS(mibs);
  IS(statistics);
  IS(decay);
  IS(background);
  IS(threads);
  IS(arenas);
  IS(arena_of_a_thread);
  IS(at_once);
  IS(activity);
  IS(purge);
  IS(profiled);
  IS(no_profile);
  IS(ours);
  IS(ours_ever);
  IS(ours_first);
  IS(reset_of_others);
#define IS_WITH(name)                                                                              \
  if (strcmp(what, #name) == 0) return (name(word), 0)
  IS_WITH(options);
  IS_WITH(report);
  IS_WITH(profile);
  return 2;
}
