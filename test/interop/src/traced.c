// Makes calls that are known exactly, and writes down each: what libmimalloc-trace.so records must
// be the same. The first argument is a scenario, the second the file for what was done.
//
// All sizes are 7 more than a multiple of 1000 (of calloc and reallocarray the second number), so
// that a test can tell these calls from those of libc. A line is "THREAD CALL ARGUMENT... = BLOCK";
// blocks are addresses, which the test renames.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                                                   \
  do {                                                                                             \
    if (!(x)) {                                                                                    \
      static const char text[] = #x ": does not hold\n";                                           \
      if (write(2, text, sizeof(text) - 1) < 0) {                                                  \
      }                                                                                            \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

#define LOG_SIZE ((size_t)64 << 20)
#define HELD 200
#define THREADS 5
#define HUGE_SIZE ((SIZE_MAX / 4) / 1000 * 1000 + 7)

static char log_text[LOG_SIZE];
static size_t log_used;
static _Thread_local int self;

// No stdio: it allocates. snprintf into a buffer does not.
static void note(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int n = vsnprintf(log_text + log_used, LOG_SIZE - log_used, format, arguments);
  va_end(arguments);
  CHECK(n > 0 && log_used + (size_t)n < LOG_SIZE);
  log_used += (size_t)n;
}

static void write_log(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  CHECK(file >= 0 && write(file, log_text, log_used) == (ssize_t)log_used);
  close(file);
}

// -- Single calls, written down --

static uint32_t seed = 12345;
static uint32_t draw(uint32_t limit) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % limit;
}

static size_t draw_size(void) {
  static const uint32_t most[] = {1, 1, 2, 3, 5, 20, 100, 300};
  return 1000 * (size_t)draw(most[draw(8)]) + 7;
}

static void* held[HELD];

static void* fill(void* p, size_t size) {
  CHECK(p != NULL);
  memset(p, 0x5A, size < 64 ? size : 64);
  return p;
}

static void* allocate(void) {
  const size_t size = draw_size();
  const size_t alignment = (size_t)16 << draw(9);
  void* p = NULL;
  switch (draw(10)) {
    case 0:
      p = calloc(1 + alignment / 16, 1007);
      note("%d calloc %zu 1007 = %p\n", self, 1 + alignment / 16, p);
      return p;
    case 1:
      p = aligned_alloc(alignment, size);
      note("%d aligned_alloc %zu %zu = %p\n", self, alignment, size, p);
      break;
    case 2:
      p = memalign(alignment, size);
      note("%d memalign %zu %zu = %p\n", self, alignment, size, p);
      break;
    case 3:
      CHECK(posix_memalign(&p, alignment, size) == 0);
      note("%d posix_memalign %zu %zu = %p\n", self, alignment, size, p);
      break;
    case 4:
      p = realloc(NULL, size);
      note("%d realloc NULL %zu = %p\n", self, size, p);
      break;
    case 5:
      if (draw(4) != 0) break;
      p = valloc(size);
      note("%d valloc %zu = %p\n", self, size, p);
      break;
    case 6:
      if (draw(4) != 0) break;
      p = pvalloc(size);
      note("%d pvalloc %zu = %p\n", self, size, p);
      break;
    default:
      break;
  }
  if (p == NULL) {
    p = malloc(size);
    note("%d malloc %zu = %p\n", self, size, p);
  }
  return fill(p, size);
}

// The block may be that of another thread.
static void* reallocate(void* p) {
  const size_t size = draw_size();
  void* q;
  switch (draw(8)) {
    case 0:
      q = reallocarray(p, 3, size);
      note("%d reallocarray %p 3 %zu = %p\n", self, p, size, q);
      break;
    case 1: // fails, and leaves the block
      errno = 0;
      q = realloc(p, HUGE_SIZE);
      CHECK(q == NULL && errno == ENOMEM);
      note("%d realloc %p %zu = NULL\n", self, p, HUGE_SIZE);
      return p;
    default:
      q = realloc(p, size);
      note("%d realloc %p %zu = %p\n", self, p, size, q);
      break;
  }
  return fill(q, 7);
}

static void do_something(void) {
  void** const place = &held[draw(HELD)];
  const uint32_t kind = draw(20);
  if (*place == NULL) {
    *place = allocate();
  } else if (kind < 6) {
    *place = reallocate(*place);
  } else {
    note("%d free %p\n", self, *place);
    free(*place);
    *place = NULL;
  }
  if (kind == 19) {
    note("%d free NULL\n", self);
    free(NULL);
    errno = 0;
    CHECK(malloc(HUGE_SIZE) == NULL && errno == ENOMEM);
    note("%d malloc %zu = NULL\n", self, HUGE_SIZE);
    CHECK(reallocarray(NULL, SIZE_MAX / 4, 1007) == NULL && errno == ENOMEM);
    note("%d reallocarray NULL %zu 1007 = NULL\n", self, SIZE_MAX / 4);
  }
}

// glibc frees the block.
static void free_by_realloc(void) {
  void* const p = malloc(2007);
  note("%d malloc 2007 = %p\n", self, p);
  if (realloc(p, 0) != NULL) _exit(3);
  note("%d realloc %p 0 = NULL\n", self, p);
}

static void free_held(void) {
  for (int i = 0; i < HELD; i++) {
    if (held[i] == NULL) continue;
    note("%d free %p\n", self, held[i]);
    free(held[i]);
    held[i] = NULL;
  }
}

// -- Threads that call one after the other --

static pthread_mutex_t baton = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, steps_left;

static void* take_turns(void* argument) {
  self = (int)(intptr_t)argument;
  for (;;) {
    pthread_mutex_lock(&baton);
    while (turn != self && steps_left > 0) pthread_cond_wait(&changed, &baton);
    if (steps_left <= 0) break;
    // Mostly a few calls, sometimes many: so does a program.
    for (uint32_t i = 1 + (draw(4) == 0 ? draw(60) : draw(3)); i > 0; i--) do_something();
    steps_left--;
    turn = (int)draw(THREADS);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&baton);
  }
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&baton);
  return NULL;
}

static void turns(void) {
  pthread_t id[THREADS];
  steps_left = 3000;
  for (int i = 1; i < THREADS; i++)
    CHECK(pthread_create(&id[i], NULL, take_turns, (void*)(intptr_t)i) == 0);
  take_turns((void*)0);
  for (int i = 1; i < THREADS; i++) CHECK(pthread_join(id[i], NULL) == 0);
  free_by_realloc();
  free_held();
}

// -- Threads that call all at once, and exchange blocks --

static _Atomic(void*) exchange[64];
static atomic_long malloc_count, free_count;

static void* rush(void* argument) {
  uint32_t own = 1 + (uint32_t)(intptr_t)argument;
  for (int i = 0; i < 2500; i++) {
    own = own * 1664525u + 1013904223u;
    void* p = malloc(1000 * (own >> 28) + 7);
    *(volatile char*)p = 1;
    p = atomic_exchange(&exchange[(own >> 8) % 64], p);
    if (p == NULL) continue;
    free(p);
    atomic_fetch_add(&free_count, 1);
  }
  atomic_fetch_add(&malloc_count, 2500);
  return NULL;
}

static void crowd(void) {
  for (int round = 0; round < 3; round++) {
    pthread_t id[8];
    for (int i = 0; i < 8; i++)
      CHECK(pthread_create(&id[i], NULL, rush, (void*)(intptr_t)(round * 8 + i)) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_join(id[i], NULL) == 0);
  }
  for (int i = 0; i < 64; i++) {
    if (exchange[i] == NULL) continue;
    free(exchange[i]);
    atomic_fetch_add(&free_count, 1);
  }
  note("%ld %ld\n", atomic_load(&malloc_count), atomic_load(&free_count));
}

// -- Processes --

static void forks(const char* path) {
  for (int i = 0; i < 100; i++) do_something();
  char child[4096];
  snprintf(child, sizeof(child), "%s.child", path);
  const pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    log_used = 0;
    for (int i = 0; i < 100; i++) do_something();
    free_held();
    write_log(child);
    _exit(0);
  }
  for (int i = 0; i < 50; i++) do_something();
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  free_held();
}

static void* one(void* argument) {
  free(malloc(1007));
  return argument;
}

static void passing(long count) {
  for (long i = 0; i < count; i++) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, one, NULL) == 0 && pthread_join(id, NULL) == 0);
  }
}

static void many(long count) {
  for (long i = 0; i < count; i++) free(malloc(1007 + 1000 * (size_t)(i % 5)));
}

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  const char* const scenario = argv[1];
  if (strcmp(scenario, "turns") == 0) turns();
  if (strcmp(scenario, "crowd") == 0) crowd();
  if (strcmp(scenario, "forks") == 0) forks(argv[2]);
  if (strcmp(scenario, "pauses") == 0) {
    for (int i = 0; i < 3; i++) {
      many(1000);
      usleep(20000);
    }
    many(1000);
  }
  if (strcmp(scenario, "passing") == 0) passing(atol(argv[3]));
  if (strcmp(scenario, "many") == 0) many(atol(argv[3]));
  if (strcmp(scenario, "execs") == 0) {
    for (int i = 0; i < 10; i++) do_something();
    write_log(argv[2]);
    execl("/proc/self/exe", argv[0], "some", argv[3], (char*)NULL);
  }
  if (strcmp(scenario, "some") == 0) {
    for (int i = 0; i < 50; i++) do_something();
  }
  if (strcmp(scenario, "killed") == 0 || strcmp(scenario, "leaves") == 0) {
    for (int i = 0; i < 5000; i++) do_something();
  }
  write_log(argv[2]);
  if (strcmp(scenario, "killed") == 0) raise(SIGKILL);
  if (strcmp(scenario, "leaves") == 0) _exit(0);
  return 0;
}
