// SPDX-License-Identifier: MIT
// leaky.c - a small server with three problems that real ones have, for docs/where.md, which finds
// them; the program itself knows nothing of the allocator:
//
//   cc -O2 -g -rdynamic demo/leaky.c -pthread -o leaky
//   LD_PRELOAD=build/release/libmimalloc.so ./leaky
//
// `leaky [ROUNDS] [pause=MS] [fix-session] [fix-cache] [fix-import]` serves for so many rounds (100,
// with 10 ms between them; with 0 rounds until SIGTERM), says what it did, gives back what it can
// reach, and ends.
//
//   workers     each request: a session, an answer from the cache, and the end of the session
//   main        in the rounds from IMPORT_BEGIN to IMPORT_END: an import of records, of which one in
//               KEEP_ONE_IN stays
//
//   problem        what is wrong                                     what a fix does
//   session_open   a request that fails returns without session_end  ends the session
//   cache_put      no answer is ever dropped                         keeps the last CACHE_FIXED_MAX
//   import_record  what stays lies scattered among what goes         copies it, and frees the rest
//
// LEAKY-1  the same arguments lead to the same blocks, whatever the threads do: a request is known by
//     its number. So a test can compare what tools say with what the program says.
// LEAKY-2  the functions of the table are called by name, never inlined, and do something after they
//     allocate: each is in the stack of its blocks.
//
// Deliberately absent: a network. Requests are numbers.
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLED __attribute__((noinline))

enum {
  WORKERS = 3,
  ROUNDS = 100,
  REQUESTS = 100,
  PAUSE_MS = 10
}; // requests of a worker in a round
enum { FAIL_ONE_IN = 5, NEW_ONE_IN = 5, HOT_KEYS = 50 };
enum { CACHE_LISTS = 4096, CACHE_FIXED_MAX = 500, ANSWER_SIZE = 1792 };
enum { IMPORT_BEGIN = 30, IMPORT_END = 50, RECORDS = 400000, KEEP_ONE_IN = 10 };

static unsigned pause_ms = PAUSE_MS;
static bool has_session_fix, has_cache_fix, has_import_fix;
static volatile sig_atomic_t is_stopped;

static void* need(void* p) {
  if (p != NULL) return p;
  fputs("leaky: out of memory\n", stderr);
  exit(2);
}

// -- Sessions --

typedef struct session_s {
  unsigned request;
  char buffer[4092]; // 4096 bytes in all
} session_t;

CALLED session_t* session_open(unsigned request) {
  session_t* const session = need(malloc(sizeof(session_t)));
  memset(session->buffer, ' ', sizeof(session->buffer));
  session->request = request;
  return session;
}

CALLED void session_end(session_t* session) { free(session); }

// -- The cache: lists of answers, by key --

typedef struct answer_s {
  struct answer_s* next; // in its list
  struct answer_s* newer; // of all
  unsigned key;
  char text[ANSWER_SIZE - 2 * sizeof(void*) - sizeof(unsigned)];
} answer_t;

static struct {
  pthread_mutex_t mutex;
  answer_t* lists[CACHE_LISTS];
  answer_t* oldest;
  answer_t* newest;
  size_t count;
} cache = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static answer_t* cache_find(unsigned key) {
  answer_t* answer = cache.lists[key % CACHE_LISTS];
  while (answer != NULL && answer->key != key) answer = answer->next;
  return answer;
}

static void cache_drop_oldest(void) {
  answer_t* const answer = cache.oldest;
  answer_t** link = &cache.lists[answer->key % CACHE_LISTS];
  while (*link != answer) link = &(*link)->next;
  *link = answer->next;
  cache.oldest = answer->newer;
  if (cache.oldest == NULL) cache.newest = NULL;
  cache.count--;
  free(answer);
}

CALLED answer_t* cache_put(unsigned key) {
  answer_t* const answer = need(malloc(sizeof(answer_t)));
  memset(answer->text, 'a', sizeof(answer->text));
  answer->key = key;
  answer->newer = NULL;
  answer->next = cache.lists[key % CACHE_LISTS];
  cache.lists[key % CACHE_LISTS] = answer;
  if (cache.newest != NULL) {
    cache.newest->newer = answer;
  } else {
    cache.oldest = answer;
  }
  cache.newest = answer;
  cache.count++;
  if (has_cache_fix && cache.count > CACHE_FIXED_MAX) cache_drop_oldest();
  return answer;
}

CALLED void cache_answer(unsigned key, session_t* session) {
  pthread_mutex_lock(&cache.mutex);
  const answer_t* answer = cache_find(key);
  if (answer == NULL) answer = cache_put(key);
  memcpy(session->buffer, answer->text, sizeof(answer->text));
  pthread_mutex_unlock(&cache.mutex);
}

// -- Requests --

// False if the request is a wrong one.
CALLED bool handle_request(unsigned request) {
  session_t* const session = session_open(request);
  const bool is_new = request % NEW_ONE_IN == 1;
  cache_answer(is_new ? HOT_KEYS + request : request % HOT_KEYS, session);
  if (request % FAIL_ONE_IN == 0) {
    if (has_session_fix) session_end(session);
    return false; // and the session?
  }
  session_end(session);
  return true;
}

// -- The import --

typedef struct record_s {
  unsigned key;
  char text[156]; // 160 bytes in all
} record_t;

static record_t* records[RECORDS];
static record_t* kept_copy; // with the fix: one block with all that stay

CALLED record_t* import_record(unsigned key) {
  record_t* const record = need(malloc(sizeof(record_t)));
  memset(record->text, 'r', sizeof(record->text));
  record->key = key;
  return record;
}

CALLED void import_part(unsigned part, unsigned parts) {
  const unsigned end = RECORDS / parts * (part + 1);
  for (unsigned key = RECORDS / parts * part; key < end; key++) records[key] = import_record(key);
}

CALLED void import_finish(void) {
  if (has_import_fix) {
    kept_copy = need(malloc(RECORDS / KEEP_ONE_IN * sizeof(record_t)));
    for (unsigned key = 0; key < RECORDS; key += KEEP_ONE_IN) {
      kept_copy[key / KEEP_ONE_IN] = *records[key];
    }
  }
  for (unsigned key = 0; key < RECORDS; key++) {
    if (key % KEEP_ONE_IN == 0 && !has_import_fix) continue;
    free(records[key]);
    records[key] = NULL;
  }
  puts("imported");
}

// -- The server --

typedef struct worker_s {
  pthread_t thread;
  unsigned number, failed;
} worker_t;

static worker_t workers[WORKERS];
static pthread_barrier_t round_begins, round_ends;
static unsigned round_count; // that have begun; written between rounds
static bool is_over; // likewise

CALLED void* work(void* arg) {
  worker_t* const worker = arg;
  for (;;) {
    pthread_barrier_wait(&round_begins);
    if (is_over) return NULL;
    const unsigned first = ((round_count - 1) * WORKERS + worker->number) * REQUESTS;
    for (unsigned i = 0; i < REQUESTS; i++) {
      if (!handle_request(first + i)) worker->failed++;
    }
    pthread_barrier_wait(&round_ends);
  }
}

static void serve(unsigned rounds) {
  while (!is_stopped && (rounds == 0 || round_count < rounds)) {
    round_count++;
    pthread_barrier_wait(&round_begins);
    if (round_count > IMPORT_BEGIN && round_count <= IMPORT_END) {
      import_part(round_count - IMPORT_BEGIN - 1, IMPORT_END - IMPORT_BEGIN);
    }
    if (round_count == IMPORT_END) import_finish();
    pthread_barrier_wait(&round_ends);
    usleep(pause_ms * 1000);
  }
  is_over = true;
  pthread_barrier_wait(&round_begins);
}

static void stop(int sig) {
  (void)sig;
  is_stopped = 1;
}

static void tell(void) {
  unsigned failed = 0;
  for (int i = 0; i < WORKERS; i++) failed += workers[i].failed;
  const unsigned lost = has_session_fix ? 0 : failed;
  const unsigned kept = round_count < IMPORT_END ? 0 : RECORDS / KEEP_ONE_IN;
  printf("served %u requests, %u of them wrong\n", round_count * WORKERS * REQUESTS, failed);
  printf("sessions lost: %u, %zu bytes\n", lost, lost * sizeof(session_t));
  printf("answers in the cache: %zu, %zu bytes\n", cache.count, cache.count * sizeof(answer_t));
  printf("records kept: %u, %zu bytes\n", kept, kept * sizeof(record_t));
}

int main(int argc, char** argv) {
  static char out[1024]; // so that libc allocates none
  unsigned rounds = ROUNDS;
  setvbuf(stdout, out, _IOLBF, sizeof(out));
  for (int i = 1; i < argc; i++) {
    char* end;
    has_session_fix |= strcmp(argv[i], "fix-session") == 0;
    has_cache_fix |= strcmp(argv[i], "fix-cache") == 0;
    has_import_fix |= strcmp(argv[i], "fix-import") == 0;
    const unsigned long number = strtoul(argv[i], &end, 10);
    if (strncmp(argv[i], "pause=", 6) == 0) pause_ms = (unsigned)atoi(argv[i] + 6);
    if (end != argv[i] && *end == 0) rounds = (unsigned)number;
  }
  signal(SIGTERM, &stop);
  pthread_barrier_init(&round_begins, NULL, WORKERS + 1);
  pthread_barrier_init(&round_ends, NULL, WORKERS + 1);
  for (int i = 0; i < WORKERS; i++) {
    workers[i].number = (unsigned)i;
    if (pthread_create(&workers[i].thread, NULL, &work, &workers[i]) != 0) return 2;
  }
  serve(rounds);
  for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
  tell();
  while (cache.oldest != NULL) cache_drop_oldest();
  for (unsigned key = 0; key < RECORDS; key++) free(records[key]);
  free(kept_copy);
  return 0;
}
