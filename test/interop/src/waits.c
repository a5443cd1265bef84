// SPDX-License-Identifier: MIT
// Waits in all functions that libmimalloc-idle.so stands in for (src/idle/waits.c), and checks what
// each of them does: its result, errno, how long it took, what it left in its arguments. The two
// functions of libmimalloc are here: they say that something is due after DUE_MS, and count calls.
//
//   waits          with the library: while a thread waits, memory goes back once
//   waits libc     without it: the same results, and nobody asks
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define DUE_MS 30
#define WAIT_MS 90
#define EVENT_MS 20 // after memory went back
#define MARK 77 // a value of errno

#define CHECK(condition) check(condition, #condition, __LINE__)

static const char* what = "";
static bool has_library = true;

static void check(bool is_true, const char* text, int line) {
  if (is_true) return;
  fprintf(stderr, "waits.c:%d: %s: failed: %s (errno %d)\n", line, what, text, errno);
  exit(1);
}

// -- the functions of libmimalloc --

static volatile int due_calls, idle_calls;
static volatile int64_t due_at; // 0: not asked yet; -1: nothing is due

static int64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t now_ms(void) { return now_us() / 1000; }

__attribute__((visibility("default"))) int mi_thread_idle_due(void) {
  due_calls++;
  errno = MARK + 1;
  if (due_at < 0) return -1;
  if (due_at == 0) due_at = now_ms() + DUE_MS;
  return due_at > now_ms() ? (int)(due_at - now_ms()) : 0;
}

// And again after each such time: the first may come just before the thread waits. 0: no more.
static void alarm_after(int ms) {
  const struct timeval val = {.tv_usec = ms * 1000};
  const struct itimerval t = {.it_interval = val, .it_value = val};
  CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

static volatile int alarm_in_idle_ms;
static volatile bool has_signal_in_idle;

__attribute__((visibility("default"))) void mi_thread_idle(void) {
  idle_calls++;
  if (alarm_in_idle_ms != 0) alarm_after(alarm_in_idle_ms);
  if (has_signal_in_idle) pthread_kill(pthread_self(), SIGALRM);
  errno = MARK + 2;
  due_at = -1;
}

// -- the functions, each with the same arguments --

static int pipe_end[2];
static int epoll_fd;
static sem_t sem;
static volatile nfds_t one = 1; // with _FORTIFY_SOURCE libc checks it
static struct timespec rest; // what a sleep left

static struct timespec spec(int ms) {
  return (struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
}

static struct timespec at(clockid_t clock, int ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_sec += ms / 1000;
  t.tv_nsec += ms % 1000 * 1000000L;
  if (t.tv_nsec >= 1000000000L) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000L;
  }
  return t;
}

static int has_polled(const struct pollfd* fd, int result) {
  CHECK(result < 0 || (result == 1) == ((fd->revents & POLLIN) != 0));
  return result;
}

static int by_poll(int ms) {
  struct pollfd fd = {.fd = pipe_end[0], .events = POLLIN};
  return has_polled(&fd, poll(&fd, one, ms));
}

static int by_ppoll(int ms) {
  struct pollfd fd = {.fd = pipe_end[0], .events = POLLIN};
  const struct timespec t = spec(ms);
  return has_polled(&fd, ppoll(&fd, one, ms < 0 ? NULL : &t, NULL));
}

static int has_event(const struct epoll_event* event, int result) {
  CHECK(result != 1 || (event->data.fd == pipe_end[0] && event->events == EPOLLIN));
  return result;
}

static int by_epoll_wait(int ms) {
  struct epoll_event event[4];
  return has_event(event, epoll_wait(epoll_fd, event, 4, ms));
}

static int by_epoll_pwait(int ms) {
  struct epoll_event event[4];
  return has_event(event, epoll_pwait(epoll_fd, event, 4, ms, NULL));
}

static int by_epoll_pwait2(int ms) {
  struct epoll_event event[4];
  const struct timespec t = spec(ms);
  return has_event(event, epoll_pwait2(epoll_fd, event, 4, ms < 0 ? NULL : &t, NULL));
}

// The sets: what is ready is in them, and nothing if nothing is.
static int has_selected(fd_set* reads, int result) {
  CHECK(result < 0 || (result == 1) == (FD_ISSET(pipe_end[0], reads) != 0));
  return result;
}

static int by_select(int ms) {
  fd_set reads;
  FD_ZERO(&reads);
  FD_SET(pipe_end[0], &reads);
  struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
  const int64_t begin = now_ms();
  const int result = select(pipe_end[0] + 1, &reads, NULL, NULL, ms < 0 ? NULL : &t);
  const int64_t left = ms - (now_ms() - begin);
  const int64_t said = (int64_t)t.tv_sec * 1000 + t.tv_usec / 1000;
  if (ms >= 0) CHECK(result == 0 ? said == 0 : said >= left - 2 && said <= left + 20);
  return has_selected(&reads, result);
}

static int by_pselect(int ms) {
  fd_set reads;
  FD_ZERO(&reads);
  FD_SET(pipe_end[0], &reads);
  const struct timespec t = spec(ms);
  return has_selected(&reads,
                      pselect(pipe_end[0] + 1, &reads, NULL, NULL, ms < 0 ? NULL : &t, NULL));
}

static int by_nanosleep(int ms) {
  const struct timespec t = spec(ms);
  return nanosleep(&t, &rest);
}

static int by_clock_nanosleep(int ms) {
  const struct timespec t = spec(ms);
  const int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &rest);
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}

static int by_clock_nanosleep_until(int ms) {
  const struct timespec t = at(CLOCK_REALTIME, ms);
  const int error = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &t, NULL);
  if (error != 0) errno = error;
  return error == 0 ? 0 : -1;
}

static int by_usleep(int ms) { return usleep((useconds_t)ms * 1000); }

static int of_sem(int result) { // 1 when posted, 0 after the time
  if (result == 0) return 1;
  if (errno != ETIMEDOUT) return -1;
  errno = MARK;
  return 0;
}

static int by_sem_clockwait(int ms) {
  const struct timespec t = at(CLOCK_MONOTONIC, ms < 0 ? 1000000 : ms);
  return of_sem(sem_clockwait(&sem, CLOCK_MONOTONIC, &t));
}

static int by_sem_wait(int ms) {
  (void)ms;
  return of_sem(sem_wait(&sem));
}

typedef enum { CAN_WAKE = 1, CAN_TIME = 2, CAN_FOREVER = 4, CAN_NOTHING = 8, HAS_REST = 16 } can_t;
#define CAN_ALL (CAN_WAKE | CAN_TIME | CAN_FOREVER | CAN_NOTHING)

static const struct {
  const char* name;
  int (*wait)(int ms); // -1: forever. Returns 1 after an event, 0 after the time
  int can;
} way[] = {
    {"poll", &by_poll, CAN_ALL},
    {"ppoll", &by_ppoll, CAN_ALL},
    {"epoll_wait", &by_epoll_wait, CAN_ALL},
    {"epoll_pwait", &by_epoll_pwait, CAN_ALL},
    {"epoll_pwait2", &by_epoll_pwait2, CAN_ALL},
    {"select", &by_select, CAN_ALL},
    {"pselect", &by_pselect, CAN_ALL},
    {"nanosleep", &by_nanosleep, CAN_TIME | HAS_REST},
    {"clock_nanosleep", &by_clock_nanosleep, CAN_TIME | HAS_REST},
    {"clock_nanosleep until", &by_clock_nanosleep_until, CAN_TIME},
    {"usleep", &by_usleep, CAN_TIME},
    {"sem_clockwait", &by_sem_clockwait, CAN_WAKE | CAN_TIME | CAN_FOREVER},
    {"sem_wait", &by_sem_wait, CAN_WAKE | CAN_FOREVER},
};

// -- events --

// Wait until memory went back, and some ms more; in none of the functions.
static void wait_for_idle(void) {
  const int64_t most = now_ms() + 10000;
  while (has_library && idle_calls == 0 && now_ms() < most) sched_yield();
  const int64_t end = now_ms() + EVENT_MS;
  while (now_ms() < end) sched_yield();
}

static void* waker(void* arg) {
  (void)arg;
  wait_for_idle();
  CHECK(write(pipe_end[1], "x", 1) == 1);
  CHECK(sem_post(&sem) == 0);
  return NULL;
}

static void quiet(void) { // takes the event away
  char byte;
  CHECK(read(pipe_end[0], &byte, 1) == 1);
  while (sem_trywait(&sem) == 0) {
  }
}

static volatile int signals;

static void on_alarm(int number) {
  (void)number;
  signals++;
}

static void alarm_after_idle(int ms) {
  if (has_library) alarm_in_idle_ms = ms;
  if (!has_library) alarm_after(ms);
}

// Nothing was due before; then the function waits.
static void begin(const char* name) {
  what = name;
  due_at = 0;
  due_calls = idle_calls = signals = alarm_in_idle_ms = 0;
  errno = MARK;
}

static void see_idle(int count) {
  if (!has_library) {
    CHECK(due_calls == 0 && idle_calls == 0);
  } else {
    CHECK(idle_calls == count);
  }
}

// -- what each must do --

static void time_passes(int (*wait)(int)) {
  const int64_t before = now_us();
  CHECK(wait(WAIT_MS) == 0);
  CHECK(errno == MARK);
  CHECK(now_us() - before >= WAIT_MS * 1000 - 1); // now_us cuts off
  see_idle(1);
}

static void something_happens(int (*wait)(int), int ms) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &waker, NULL) == 0);
  CHECK(wait(ms) == 1);
  CHECK(errno == MARK);
  see_idle(1);
  CHECK(pthread_join(thread, NULL) == 0);
  quiet();
}

// Before something was due, or after.
static void is_interrupted(int (*wait)(int), bool has_rest, bool is_early) {
  const int after_ms = DUE_MS / 2;
  const int64_t wait_ms = 5000;
  rest = (struct timespec){0, 0};
  if (is_early) alarm_after(after_ms);
  if (!is_early) alarm_after_idle(after_ms);
  CHECK(wait((int)wait_ms) == -1);
  CHECK(errno == EINTR && signals >= 1);
  alarm_after(0);
  if (!is_early) see_idle(1);
  const int64_t left = (int64_t)rest.tv_sec * 1000 + rest.tv_nsec / 1000000;
  if (has_rest) CHECK(left > 1000 && left <= wait_ms - after_ms + 2);
}

// The signal comes while memory goes back.
static void is_interrupted_in_idle(int (*wait)(int), bool has_rest) {
  rest = (struct timespec){0, 0};
  has_signal_in_idle = true;
  CHECK(wait(5000) == -1);
  CHECK(errno == EINTR && signals == 1 && idle_calls == 1);
  has_signal_in_idle = false;
  if (has_rest) CHECK(rest.tv_sec == 4);
}

static void takes_no_time(int (*wait)(int)) {
  CHECK(wait(0) == 0);
  CHECK(errno == MARK && due_calls == 0);
}

static void nothing_is_due(int (*wait)(int)) {
  due_at = -1;
  CHECK(wait(1) == 0);
  CHECK(idle_calls == 0 && due_calls <= 1);
}

// -- errors --

static void refuses(void) {
  struct pollfd fd = {.fd = pipe_end[0], .events = POLLIN};
  const struct timespec bad = {.tv_sec = 1, .tv_nsec = 1000000000L};
  struct epoll_event event;
  fd_set reads;
  FD_ZERO(&reads);
  begin("errors");
  CHECK(ppoll(&fd, 1, &bad, NULL) == -1 && errno == EINVAL);
  CHECK(epoll_wait(-1, &event, 1, 5) == -1 && errno == EBADF);
  CHECK(epoll_wait(epoll_fd, &event, 0, 5) == -1 && errno == EINVAL);
  struct timeval negative = {.tv_sec = -1};
  CHECK(select(0, &reads, NULL, NULL, &negative) == -1 && errno == EINVAL);
  CHECK(select(-1, &reads, NULL, NULL, NULL) == -1 && errno == EINVAL);
  CHECK(pselect(0, NULL, NULL, NULL, &bad, NULL) == -1 && errno == EINVAL);
  CHECK(nanosleep(&bad, NULL) == -1 && errno == EINVAL);
  CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &bad, NULL) == EINVAL);
  CHECK(clock_nanosleep(9999, 0, &rest, NULL) == EINVAL);
  CHECK(sem_clockwait(&sem, CLOCK_MONOTONIC, &bad) == -1 && errno == EINVAL);
  CHECK(idle_calls == 0);
}

// -- sets that are longer than usual, and shorter --

static void select_has_other_sets(void) {
  begin("sets");
  enum { LONG_FD = FD_SETSIZE + 70, WORD_BITS = 8 * sizeof(unsigned long) };
  static unsigned long words[LONG_FD / WORD_BITS + 1];
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = limit.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  const int fd = dup2(pipe_end[0], LONG_FD);
  if (fd == LONG_FD) { // the limit permits it
    words[LONG_FD / WORD_BITS] = 1UL << LONG_FD % WORD_BITS;
    struct timeval t = {.tv_usec = 1000};
    CHECK(select(LONG_FD + 1, (fd_set*)words, NULL, NULL, &t) == 0);
    close(fd);
  }
  struct {
    unsigned long set, behind;
  } small = {1UL << pipe_end[0], 12345};
  CHECK(pipe_end[0] < WORD_BITS);
  struct timeval t = {.tv_usec = WAIT_MS * 1000};
  CHECK(select(pipe_end[0] + 1, (fd_set*)&small, NULL, NULL, &t) == 0);
  CHECK(small.set == 0 && small.behind == 12345);
  see_idle(1);
}

// -- a signal handler that waits --

static void on_alarm_wait(int number) {
  (void)number;
  signals++;
  const int before = errno;
  CHECK(by_poll(2 * DUE_MS) == 0);
  errno = before;
}

static void handler_waits(void) {
  begin("handler");
  signal(SIGALRM, &on_alarm_wait);
  due_at = 1; // long ago
  CHECK(raise(SIGALRM) == 0);
  CHECK(signals == 1 && idle_calls == 0);
  signal(SIGALRM, &on_alarm);
  CHECK(by_poll(5) == 0); // and now it is given back
  see_idle(1);
}

// -- a signal that interrupts nothing --

static void sem_wait_is_restarted(void) {
  struct sigaction action = {.sa_handler = &on_alarm, .sa_flags = SA_RESTART}, before;
  CHECK(sigaction(SIGALRM, &action, &before) == 0);
  begin("sem_wait, restarted");
  has_signal_in_idle = true;
  something_happens(&by_sem_wait, -1);
  has_signal_in_idle = false;
  CHECK(signals == (has_library ? 1 : 0));
  CHECK(sigaction(SIGALRM, &before, NULL) == 0);
}

// -- threads --

static pthread_mutex_t mutex;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool is_ready;

static void* signaller(void* arg) {
  (void)arg;
  wait_for_idle();
  pthread_mutex_lock(&mutex);
  is_ready = true;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void cond_waits(void) {
  begin("pthread_cond_wait");
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
  CHECK(pthread_mutex_init(&mutex, &attr) == 0);
  for (int with_clock = 0; with_clock < 2; with_clock++) {
    begin(with_clock ? "pthread_cond_clockwait" : "pthread_cond_wait");
    is_ready = false;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, &signaller, NULL) == 0);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    int wakeups = 0;
    for (; !is_ready; wakeups++) {
      const struct timespec end = at(CLOCK_MONOTONIC, 100000);
      CHECK((with_clock ? pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &end)
                        : pthread_cond_wait(&cond, &mutex)) == 0);
    }
    CHECK(wakeups <= 2); // one of them early
    CHECK(pthread_mutex_lock(&mutex) == EDEADLK && pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    see_idle(1);
  }
  begin("pthread_cond_clockwait, over");
  CHECK(pthread_mutex_lock(&mutex) == 0);
  const int64_t before = now_ms();
  const struct timespec end = at(CLOCK_MONOTONIC, WAIT_MS);
  int error;
  do {
    error = pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &end);
  } while (error == 0);
  CHECK(error == ETIMEDOUT && now_ms() - before >= WAIT_MS - 1);
  CHECK(pthread_mutex_unlock(&mutex) == 0);
  see_idle(1);
}

static void unlock(void* arg) { CHECK(pthread_mutex_unlock(arg) == 0); }

static void* waits_forever(void* arg) {
  if (arg == NULL) {
    by_poll(-1);
  } else {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(&unlock, &mutex);
    while (true) pthread_cond_wait(&cond, &mutex);
    pthread_cleanup_pop(1);
  }
  return NULL;
}

// Before anything is due, and after.
static void is_cancelled(void) {
  for (int i = 0; i < 4; i++) {
    begin("cancel");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, &waits_forever, i % 2 == 0 ? NULL : &mutex) == 0);
    usleep(i < 2 ? DUE_MS * 500 : 3 * DUE_MS * 1000);
    CHECK(pthread_cancel(thread) == 0);
    void* result;
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
  }
}

typedef struct {
  int (*wait)(int);
  int ms;
  sem_t is_pending;
} cancelled_t;

static void* waits_cancelled(void* arg) {
  cancelled_t* const c = arg;
  CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
  while (sem_trywait(&c->is_pending) != 0) sched_yield();
  CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
  c->wait(c->ms);
  return NULL;
}

// A thread that was cancelled before it waits ends, and takes nothing, although there is something.
static void was_cancelled(int (*wait)(int), int ms) {
  cancelled_t c = {.wait = wait, .ms = ms};
  CHECK(sem_init(&c.is_pending, 0, 0) == 0);
  CHECK(write(pipe_end[1], "x", 1) == 1);
  CHECK(sem_post(&sem) == 0);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, &waits_cancelled, &c) == 0);
  CHECK(pthread_cancel(thread) == 0);
  CHECK(sem_post(&c.is_pending) == 0);
  void* result;
  CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
  int posts;
  CHECK(sem_getvalue(&sem, &posts) == 0 && posts == 1);
  quiet();
}

static void sleeps(void) {
  begin("sleep");
  alarm_after_idle(5);
  const unsigned left = sleep(5);
  CHECK(left == 4 && signals >= 1);
  alarm_after(0);
  see_idle(1);
  begin("sleep");
  const int64_t before = now_ms();
  CHECK(sleep(1) == 0 && errno == MARK && now_ms() - before >= 999);
  see_idle(1);
}

int main(int argc, char** argv) {
  has_library = argc < 2 || strcmp(argv[1], "libc") != 0;
  alarm(60);
  CHECK(pipe(pipe_end) == 0 && sem_init(&sem, 0, 0) == 0);
  epoll_fd = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = pipe_end[0]};
  CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_end[0], &event) == 0);
  struct sigaction action = {.sa_handler = &on_alarm}; // without SA_RESTART
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
    const int can = way[i].can;
    begin(way[i].name);
    if ((can & CAN_TIME) != 0) time_passes(way[i].wait);
    begin(way[i].name);
    if ((can & CAN_WAKE) != 0 && (can & CAN_TIME) != 0) something_happens(way[i].wait, 5000);
    begin(way[i].name);
    if ((can & CAN_FOREVER) != 0) something_happens(way[i].wait, -1);
    begin(way[i].name);
    is_interrupted(way[i].wait, (can & HAS_REST) != 0, true);
    begin(way[i].name);
    is_interrupted(way[i].wait, (can & HAS_REST) != 0, false);
    begin(way[i].name);
    if (has_library) is_interrupted_in_idle(way[i].wait, (can & HAS_REST) != 0);
    begin(way[i].name);
    if ((can & CAN_NOTHING) != 0) takes_no_time(way[i].wait);
    begin(way[i].name);
    if ((can & CAN_TIME) != 0) nothing_is_due(way[i].wait);
    // glibc looks at the semaphore first there.
    for (int due = -1; due <= 1 && way[i].wait != &by_sem_clockwait; due++) {
      begin(way[i].name);
      due_at = due; // never, later, long ago
      was_cancelled(way[i].wait, WAIT_MS);
    }
  }
  refuses();
  select_has_other_sets();
  sleeps();
  sem_wait_is_restarted();
  cond_waits();
  is_cancelled();
  handler_waits();
  puts("fine");
  return 0;
}
