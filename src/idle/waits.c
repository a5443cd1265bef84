// SPDX-License-Identifier: MIT
// waits.c - libmimalloc-idle.so: threads give back memory that they do not use while they wait,
// although the program knows nothing of it.
//
//   LD_PRELOAD="libmimalloc.so libmimalloc-idle.so" program
//
// It stands in for the functions of libc in which programs wait for input, for other threads, or
// for time to pass, and calls `mi_thread_idle` (core/process/idle.c) when that has something to do:
//
//   wait(timeout)  -->  is something due?  --never---------------------------> wait of libc
//                                          --in 500 ms--> wait of libc for 500 ms
//                                                           |- something happened: return
//                                                           '- mi_thread_idle, wait for the rest
//
// WAITS-1  a function does what it does without us: the same results, errno, signals, cancellation,
//     and no shorter a wait. But pthread_cond_wait and pthread_cond_clockwait may return early, as
//     POSIX permits ("spurious wakeups"): what was signalled between two waits would be lost.
// WAITS-2  there is no system call more than without us, but when something is due.
// WAITS-3  memory is given back only where the thread is in no signal handler: that may have
//     interrupted malloc. The stack tells it, from a handler's frame on it.
// WAITS-4  a signal that comes while memory goes back interrupts the wait, as one that comes during
//     it: a program that waits until a handler has set a flag would not see that otherwise. So
//     signals are blocked meanwhile, and those that are pending then count.
// WAITS-5  without libmimalloc in the process all functions are those of libc.
// WAITS-6  nothing here allocates, takes a lock, or keeps state but the addresses of libc.
//
// Functions of libc are looked up when the library is loaded. One that this libc does not have
// (musl has no pthread_cond_clockwait) is not called by programs for it, and what needs it here is
// left out.
//
// Deliberately absent: waits that have no form with a timeout (read, accept, pthread_join), system
// calls that programs make without libc, what libc calls within itself, and, with 32 bits, the
// functions that take a time of 64.
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#define MI_WAITS_EXPORT __attribute__((visibility("default")))
#define MI_WAITS_FOREVER INT64_MAX
#define MI_WAITS_GIVEN (-1) // the timeout that the program gave
#define MI_WAITS_MS 1000000 // nanoseconds
#define MI_WAITS_SECOND 1000000000

// Those of libmimalloc: WAITS-5.
extern int mi_thread_idle_due(void) __attribute__((weak));
extern void mi_thread_idle(void) __attribute__((weak));

// X(name, result, parameters): the functions of libc.
#define MI_WAITS(X)                                                                                \
  X(poll, int, (struct pollfd*, nfds_t, int))                                                      \
  X(ppoll, int, (struct pollfd*, nfds_t, const struct timespec*, const sigset_t*))                 \
  X(__poll_chk, int, (struct pollfd*, nfds_t, int, size_t))                                        \
  X(__ppoll_chk, int, (struct pollfd*, nfds_t, const struct timespec*, const sigset_t*, size_t))   \
  X(epoll_wait, int, (int, struct epoll_event*, int, int))                                         \
  X(epoll_pwait, int, (int, struct epoll_event*, int, int, const sigset_t*))                       \
  X(epoll_pwait2, int, (int, struct epoll_event*, int, const struct timespec*, const sigset_t*))   \
  X(select, int, (int, fd_set*, fd_set*, fd_set*, struct timeval*))                                \
  X(pselect, int, (int, fd_set*, fd_set*, fd_set*, const struct timespec*, const sigset_t*))       \
  X(nanosleep, int, (const struct timespec*, struct timespec*))                                    \
  X(clock_nanosleep, int, (clockid_t, int, const struct timespec*, struct timespec*))              \
  X(usleep, int, (useconds_t))                                                                     \
  X(sleep, unsigned, (unsigned))                                                                   \
  X(sem_wait, int, (sem_t*))                                                                       \
  X(sem_clockwait, int, (sem_t*, clockid_t, const struct timespec*))                               \
  X(pthread_cond_wait, int, (pthread_cond_t*, pthread_mutex_t*))                                   \
  X(pthread_cond_clockwait, int,                                                                   \
    (pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*))

// The headers of each libc lack some.
#define X(name, result, parameters) MI_WAITS_EXPORT result name parameters;
MI_WAITS(X)
#undef X

// Written once when the library is loaded, before the program has threads; read by all.
#define X(name, result, parameters) static result(*mi_libc_##name) parameters;
MI_WAITS(X)
#undef X

// Another library may wait in its constructor, before ours has run.
static bool mi_waits_has_begun;

__attribute__((constructor)) static void mi_waits_begin(void) {
  if (mi_waits_has_begun) return;
#define X(name, result, parameters)                                                                \
  {                                                                                                \
    void* const f = dlsym(RTLD_NEXT, #name);                                                       \
    memcpy(&mi_libc_##name, &f, sizeof(f));                                                        \
  }
  MI_WAITS(X)
#undef X
  mi_waits_has_begun = true;
}

// -- time --

static int64_t mi_waits_now(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t) != 0) return 0;
  return (int64_t)t.tv_sec * MI_WAITS_SECOND + t.tv_nsec;
}

static struct timespec mi_waits_spec(int64_t ns) {
  return (struct timespec){.tv_sec = (time_t)(ns / MI_WAITS_SECOND),
                           .tv_nsec = (long)(ns % MI_WAITS_SECOND)};
}

// Return the nanoseconds of a timeout; 0 if libc refuses it.
static int64_t mi_waits_of_spec(const struct timespec* t) {
  if (t == NULL) return MI_WAITS_FOREVER;
  if (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= MI_WAITS_SECOND) return 0;
  const int64_t seconds = t->tv_sec;
  if (seconds >= MI_WAITS_FOREVER / MI_WAITS_SECOND) return MI_WAITS_FOREVER;
  return seconds * MI_WAITS_SECOND + t->tv_nsec;
}

static int64_t mi_waits_of_ms(int ms) {
  return ms < 0 ? MI_WAITS_FOREVER : (int64_t)ms * MI_WAITS_MS;
}

// True if so much time passes the same on a clock as for a thread that waits.
static bool mi_waits_is_known(clockid_t clock) {
  return clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME || clock == CLOCK_BOOTTIME;
}

// -- what is due --

static _Unwind_Reason_Code mi_waits_see_frame(struct _Unwind_Context* context, void* is_handler) {
  int is_interrupted = 0;
  _Unwind_GetIPInfo(context, &is_interrupted);
  if (is_interrupted == 0) return _URC_NO_REASON;
  *(bool*)is_handler = true;
  return _URC_NORMAL_STOP;
}

// WAITS-3
static bool mi_waits_is_in_handler(void) {
  bool is_handler = false;
  _Unwind_Backtrace(&mi_waits_see_frame, &is_handler);
  return is_handler;
}

// Return after how many milliseconds something is due; negative: never.
static int mi_waits_ask(void) {
  if (mi_thread_idle_due == NULL || mi_thread_idle == NULL) return -1;
  const int before = errno;
  const int due_ms = mi_thread_idle_due();
  errno = before;
  return due_ms;
}

// Return for how long the calling thread may wait until something is due, at least a millisecond.
static int64_t mi_waits_look(void) {
  const int due_ms = mi_waits_ask();
  return due_ms == 0 ? MI_WAITS_MS : mi_waits_of_ms(due_ms);
}

// What became of giving memory back.
typedef enum mi_waits_given_e {
  MI_WAITS_DONE,
  MI_WAITS_REFUSED, // the thread must not: nothing will be due
  MI_WAITS_INTERRUPTED, // WAITS-4
} mi_waits_given_t;

// True if a function that waits is interrupted by a signal: all are if it has a handler, but some
// are restarted (`is_restarted`: as SA_RESTART says).
static bool mi_waits_has_handler(int number, bool is_restarted) {
  struct sigaction action;
  if (sigaction(number, NULL, &action) != 0) return false;
  if (is_restarted && (action.sa_flags & SA_RESTART) != 0) return false;
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// Block all signals but those by which the system says that the thread made a mistake.
static void mi_waits_block(sigset_t* before) {
  static const int mistake[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof(mistake) / sizeof(mistake[0]); i++) sigdelset(&all, mistake[i]);
  pthread_sigmask(SIG_BLOCK, &all, before);
}

// Give back what is due.
static mi_waits_given_t mi_waits_give(bool is_restarted) {
  if (mi_waits_is_in_handler()) return MI_WAITS_REFUSED;
  const int error = errno;
  sigset_t before, pending;
  mi_waits_block(&before);
  mi_thread_idle();
  bool is_interrupted = false;
  if (sigpending(&pending) == 0) {
    for (int number = 1; number < NSIG && !is_interrupted; number++) {
      if (sigismember(&pending, number) != 1 || sigismember(&before, number) != 0) continue;
      is_interrupted = mi_waits_has_handler(number, is_restarted);
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL); // the handlers run now
  errno = error;
  return is_interrupted ? MI_WAITS_INTERRUPTED : MI_WAITS_DONE;
}

// The same as `mi_waits_look`, after what is due now went back. False, with errno, if that was
// interrupted.
static bool mi_waits_due(bool is_restarted, int64_t* due) {
  const int due_ms = mi_waits_ask();
  *due = mi_waits_of_ms(due_ms);
  if (due_ms != 0) return true;
  const mi_waits_given_t given = mi_waits_give(is_restarted);
  *due = given == MI_WAITS_REFUSED ? MI_WAITS_FOREVER : mi_waits_look();
  if (given != MI_WAITS_INTERRUPTED) return true;
  errno = EINTR;
  return false;
}

// -- functions with a timeout --

#define MI_WAITS_SETS 3
#define MI_WAITS_WORD_BITS (8 * sizeof(unsigned long))
#define MI_WAITS_SET_WORDS (FD_SETSIZE / MI_WAITS_WORD_BITS)

// What such a function was called with.
typedef struct mi_waits_args_s {
  int fd; // or a number of them
  void* items;
  size_t count, size; // of items; of their bytes, as the compiler knows it
  const sigset_t* mask;
  int ms; // the timeout, of those that have it in milliseconds
  const struct timespec* spec; // of others
  struct timeval* val; // of select
  fd_set* set[MI_WAITS_SETS]; // what select reads and writes
  unsigned long (*saved)[MI_WAITS_SET_WORDS]; // what was in them
} mi_waits_args_t;

// Call it with a timeout. Returns 0 if nothing happened.
typedef int mi_waits_call_t(const mi_waits_args_t* args, int64_t ns);

static int mi_waits_run(mi_waits_call_t* call, const mi_waits_args_t* args, int64_t left) {
  int64_t rest = MI_WAITS_GIVEN;
  while (left > 0) {
    int64_t due;
    if (!mi_waits_due(false, &due)) return -1;
    if (due >= left) break;
    const int64_t begin = mi_waits_now(CLOCK_MONOTONIC);
    const int result = call(args, due);
    if (result != 0) return result;
    if (left != MI_WAITS_FOREVER) left -= mi_waits_now(CLOCK_MONOTONIC) - begin;
    rest = left = left > 0 ? left : 0;
  }
  return call(args, rest);
}

// Return a timeout in milliseconds, rounded up: WAITS-1.
static int mi_waits_ms(const mi_waits_args_t* args, int64_t ns) {
  if (ns == MI_WAITS_GIVEN) return args->ms;
  return ns == MI_WAITS_FOREVER ? -1 : (int)((ns + MI_WAITS_MS - 1) / MI_WAITS_MS);
}

// Return a timeout as libc takes it, in `t` if need be.
static const struct timespec* mi_waits_time(const mi_waits_args_t* args, int64_t ns,
                                            struct timespec* t) {
  if (ns == MI_WAITS_GIVEN) return args->spec;
  if (ns == MI_WAITS_FOREVER) return NULL;
  *t = mi_waits_spec(ns);
  return t;
}

static int mi_waits_poll(const mi_waits_args_t* a, int64_t ns) {
  return mi_libc_poll((struct pollfd*)a->items, a->count, mi_waits_ms(a, ns));
}

MI_WAITS_EXPORT int poll(struct pollfd* fds, nfds_t count, int ms) {
  mi_waits_begin();
  const mi_waits_args_t args = {.items = fds, .count = count, .ms = ms};
  return mi_waits_run(&mi_waits_poll, &args, mi_waits_of_ms(ms));
}

static int mi_waits_poll_chk(const mi_waits_args_t* a, int64_t ns) {
  return mi_libc___poll_chk((struct pollfd*)a->items, a->count, mi_waits_ms(a, ns), a->size);
}

MI_WAITS_EXPORT int __poll_chk(struct pollfd* fds, nfds_t count, int ms, size_t size) {
  mi_waits_begin();
  const mi_waits_args_t args = {.items = fds, .count = count, .ms = ms, .size = size};
  return mi_waits_run(&mi_waits_poll_chk, &args, mi_waits_of_ms(ms));
}

static int mi_waits_ppoll(const mi_waits_args_t* a, int64_t ns) {
  struct timespec t;
  return mi_libc_ppoll((struct pollfd*)a->items, a->count, mi_waits_time(a, ns, &t), a->mask);
}

MI_WAITS_EXPORT int ppoll(struct pollfd* fds, nfds_t count, const struct timespec* timeout,
                          const sigset_t* mask) {
  mi_waits_begin();
  const mi_waits_args_t args = {.items = fds, .count = count, .spec = timeout, .mask = mask};
  return mi_waits_run(&mi_waits_ppoll, &args, mi_waits_of_spec(timeout));
}

static int mi_waits_ppoll_chk(const mi_waits_args_t* a, int64_t ns) {
  struct timespec t;
  return mi_libc___ppoll_chk((struct pollfd*)a->items, a->count, mi_waits_time(a, ns, &t), a->mask,
                             a->size);
}

MI_WAITS_EXPORT int __ppoll_chk(struct pollfd* fds, nfds_t count, const struct timespec* timeout,
                                const sigset_t* mask, size_t size) {
  mi_waits_begin();
  const mi_waits_args_t args = {
      .items = fds, .count = count, .spec = timeout, .mask = mask, .size = size};
  return mi_waits_run(&mi_waits_ppoll_chk, &args, mi_waits_of_spec(timeout));
}

static int mi_waits_epoll_wait(const mi_waits_args_t* a, int64_t ns) {
  return mi_libc_epoll_wait(a->fd, (struct epoll_event*)a->items, (int)a->count,
                            mi_waits_ms(a, ns));
}

MI_WAITS_EXPORT int epoll_wait(int fd, struct epoll_event* events, int count, int ms) {
  mi_waits_begin();
  const mi_waits_args_t args = {.fd = fd, .items = events, .count = (size_t)count, .ms = ms};
  return mi_waits_run(&mi_waits_epoll_wait, &args, mi_waits_of_ms(ms));
}

static int mi_waits_epoll_pwait(const mi_waits_args_t* a, int64_t ns) {
  return mi_libc_epoll_pwait(a->fd, (struct epoll_event*)a->items, (int)a->count,
                             mi_waits_ms(a, ns), a->mask);
}

MI_WAITS_EXPORT int epoll_pwait(int fd, struct epoll_event* events, int count, int ms,
                                const sigset_t* mask) {
  mi_waits_begin();
  const mi_waits_args_t args = {
      .fd = fd, .items = events, .count = (size_t)count, .ms = ms, .mask = mask};
  return mi_waits_run(&mi_waits_epoll_pwait, &args, mi_waits_of_ms(ms));
}

static int mi_waits_epoll_pwait2(const mi_waits_args_t* a, int64_t ns) {
  struct timespec t;
  return mi_libc_epoll_pwait2(a->fd, (struct epoll_event*)a->items, (int)a->count,
                              mi_waits_time(a, ns, &t), a->mask);
}

MI_WAITS_EXPORT int epoll_pwait2(int fd, struct epoll_event* events, int count,
                                 const struct timespec* timeout, const sigset_t* mask) {
  mi_waits_begin();
  if (mi_libc_epoll_pwait2 == NULL) {
    errno = ENOSYS;
    return -1;
  }
  const mi_waits_args_t args = {
      .fd = fd, .items = events, .count = (size_t)count, .spec = timeout, .mask = mask};
  return mi_waits_run(&mi_waits_epoll_pwait2, &args, mi_waits_of_spec(timeout));
}

// -- select: a call changes its sets, also when the time is over --

// Return the bytes of a set that libc reads: programs may have shorter ones than fd_set.
static size_t mi_waits_set_size(const mi_waits_args_t* a) {
  return ((size_t)a->fd + MI_WAITS_WORD_BITS - 1) / MI_WAITS_WORD_BITS * sizeof(unsigned long);
}

static void mi_waits_restore(const mi_waits_args_t* a) {
  for (size_t i = 0; i < MI_WAITS_SETS; i++) {
    if (a->set[i] != NULL) memcpy(a->set[i], a->saved[i], mi_waits_set_size(a));
  }
}

// Set up the arguments that both functions have. False if a set is longer than usual.
static bool mi_waits_save(mi_waits_args_t* a, int fd, fd_set* read, fd_set* write, fd_set* other) {
  if (fd < 0 || fd > FD_SETSIZE) return false;
  a->fd = fd;
  a->set[0] = read;
  a->set[1] = write;
  a->set[2] = other;
  for (size_t i = 0; i < MI_WAITS_SETS; i++) {
    if (a->set[i] != NULL) memcpy(a->saved[i], a->set[i], mi_waits_set_size(a));
  }
  return true;
}

static int mi_waits_select(const mi_waits_args_t* a, int64_t ns) {
  mi_waits_restore(a);
  struct timeval val;
  struct timeval* timeout = ns == MI_WAITS_GIVEN ? a->val : NULL;
  if (ns != MI_WAITS_GIVEN && ns != MI_WAITS_FOREVER) {
    const struct timespec t = mi_waits_spec(ns + 999); // rounded up
    val = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
    timeout = &val;
  }
  return mi_libc_select(a->fd, a->set[0], a->set[1], a->set[2], timeout);
}

MI_WAITS_EXPORT int select(int fd, fd_set* read, fd_set* write, fd_set* other,
                           struct timeval* timeout) {
  mi_waits_begin();
  unsigned long saved[MI_WAITS_SETS][MI_WAITS_SET_WORDS];
  mi_waits_args_t args = {.val = timeout, .saved = saved};
  if (!mi_waits_save(&args, fd, read, write, other)) {
    return mi_libc_select(fd, read, write, other, timeout);
  }
  int64_t left = MI_WAITS_FOREVER;
  if (timeout != NULL) {
    const bool is_refused = timeout->tv_sec < 0 || timeout->tv_usec < 0;
    const struct timespec t = {.tv_sec = is_refused ? 0 : timeout->tv_sec};
    left = mi_waits_of_spec(&t);
    if (left != MI_WAITS_FOREVER && !is_refused) left += (int64_t)timeout->tv_usec * 1000;
  }
  if (left == MI_WAITS_FOREVER || left == 0) return mi_waits_run(&mi_waits_select, &args, left);
  // Linux says how much is left.
  const int64_t end = mi_waits_now(CLOCK_MONOTONIC) + left;
  const int result = mi_waits_run(&mi_waits_select, &args, left);
  const int64_t rest = end - mi_waits_now(CLOCK_MONOTONIC);
  const struct timespec t = mi_waits_spec(rest > 0 ? rest : 0);
  *timeout = (struct timeval){.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000};
  return result;
}

static int mi_waits_pselect(const mi_waits_args_t* a, int64_t ns) {
  mi_waits_restore(a);
  struct timespec t;
  return mi_libc_pselect(a->fd, a->set[0], a->set[1], a->set[2], mi_waits_time(a, ns, &t), a->mask);
}

MI_WAITS_EXPORT int pselect(int fd, fd_set* read, fd_set* write, fd_set* other,
                            const struct timespec* timeout, const sigset_t* mask) {
  mi_waits_begin();
  unsigned long saved[MI_WAITS_SETS][MI_WAITS_SET_WORDS];
  mi_waits_args_t args = {.spec = timeout, .mask = mask, .saved = saved};
  if (!mi_waits_save(&args, fd, read, write, other)) {
    return mi_libc_pselect(fd, read, write, other, timeout, mask);
  }
  return mi_waits_run(&mi_waits_pselect, &args, mi_waits_of_spec(timeout));
}

// -- sleep --

#define MI_WAITS_NANOSLEEP ((clockid_t)-1) // no clock: by nanosleep, as libc does

// Sleep for so long, on a clock. Returns an error number, and then what is left.
static int mi_waits_sleep(clockid_t clock, int64_t left, int64_t* rest) {
  // So much time passes whatever becomes of the date meanwhile.
  const clockid_t measure = clock == CLOCK_BOOTTIME ? clock : CLOCK_MONOTONIC;
  while (left > 0) {
    int64_t due;
    *rest = left;
    if (!mi_waits_due(false, &due)) return EINTR;
    const int64_t part = due < left ? due : left;
    const struct timespec t = mi_waits_spec(part);
    struct timespec over = {0, 0};
    const int64_t begin = mi_waits_now(measure);
    int error = 0;
    if (clock != MI_WAITS_NANOSLEEP) {
      error = mi_libc_clock_nanosleep(clock, 0, &t, &over);
    } else if (mi_libc_nanosleep(&t, &over) != 0) {
      error = errno;
    }
    if (error != 0) {
      *rest = left - part + (int64_t)over.tv_sec * MI_WAITS_SECOND + over.tv_nsec;
      return error;
    }
    if (part == left) return 0;
    left -= mi_waits_now(measure) - begin;
  }
  return 0;
}

// True if libc does it alone: it refuses the time, or that is too short to look for more.
static bool mi_waits_is_short(int64_t ns) { return ns < MI_WAITS_MS || ns == MI_WAITS_FOREVER; }

MI_WAITS_EXPORT int nanosleep(const struct timespec* time, struct timespec* rest) {
  mi_waits_begin();
  const int64_t ns = mi_waits_of_spec(time);
  if (mi_waits_is_short(ns)) return mi_libc_nanosleep(time, rest);
  int64_t left;
  const int error = mi_waits_sleep(MI_WAITS_NANOSLEEP, ns, &left);
  if (error == 0) return 0;
  if (rest != NULL) *rest = mi_waits_spec(left);
  errno = error;
  return -1;
}

MI_WAITS_EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec* time,
                                    struct timespec* rest) {
  mi_waits_begin();
  const int64_t ns = mi_waits_of_spec(time);
  if (mi_waits_is_short(ns) || !mi_waits_is_known(clock) || (flags & ~TIMER_ABSTIME) != 0) {
    return mi_libc_clock_nanosleep(clock, flags, time, rest);
  }
  if (flags == 0) {
    int64_t left;
    const int error = mi_waits_sleep(clock, ns, &left);
    if (error != 0 && rest != NULL) *rest = mi_waits_spec(left);
    return error;
  }
  while (true) {
    int64_t due;
    if (!mi_waits_due(false, &due)) return EINTR;
    const int64_t now = mi_waits_now(clock);
    if (due >= ns - now) return mi_libc_clock_nanosleep(clock, flags, time, rest);
    const struct timespec t = mi_waits_spec(now + due);
    const int error = mi_libc_clock_nanosleep(clock, flags, &t, NULL);
    if (error != 0) return error;
  }
}

MI_WAITS_EXPORT int usleep(useconds_t us) {
  mi_waits_begin();
  const int64_t ns = (int64_t)us * 1000;
  if (mi_waits_is_short(ns)) return mi_libc_usleep(us);
  int64_t left;
  const int error = mi_waits_sleep(MI_WAITS_NANOSLEEP, ns, &left);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

MI_WAITS_EXPORT unsigned sleep(unsigned seconds) {
  mi_waits_begin();
  if (seconds == 0) return mi_libc_sleep(0);
  const int before = errno;
  int64_t left;
  const int error = mi_waits_sleep(MI_WAITS_NANOSLEEP, (int64_t)seconds * MI_WAITS_SECOND, &left);
  if (error == 0) errno = before;
  return error == 0 ? 0 : (unsigned)(left / MI_WAITS_SECOND);
}

// -- other threads --

MI_WAITS_EXPORT int sem_wait(sem_t* sem) {
  mi_waits_begin();
  if (mi_libc_sem_clockwait == NULL) return mi_libc_sem_wait(sem);
  const int before = errno;
  pthread_testcancel(); // as libc does, before it looks whether it has to wait
  if (sem_trywait(sem) == 0) return 0;
  while (true) {
    int64_t due;
    errno = before;
    if (!mi_waits_due(true, &due)) return -1;
    if (due == MI_WAITS_FOREVER) return mi_libc_sem_wait(sem);
    const struct timespec t = mi_waits_spec(mi_waits_now(CLOCK_MONOTONIC) + due);
    if (mi_libc_sem_clockwait(sem, CLOCK_MONOTONIC, &t) == 0) return 0;
    if (errno != ETIMEDOUT) return -1;
  }
}

MI_WAITS_EXPORT int sem_clockwait(sem_t* sem, clockid_t clock, const struct timespec* end) {
  mi_waits_begin();
  const int64_t end_ns = mi_waits_of_spec(end);
  const bool is_usual = mi_waits_is_known(clock) && end_ns != 0 && end_ns != MI_WAITS_FOREVER;
  while (is_usual) {
    int64_t due;
    if (!mi_waits_due(true, &due)) return -1;
    const int64_t now = mi_waits_now(clock);
    if (due >= end_ns - now) break;
    const struct timespec t = mi_waits_spec(now + due);
    const int before = errno;
    if (mi_libc_sem_clockwait(sem, clock, &t) == 0) return 0;
    if (errno != ETIMEDOUT) return -1;
    errno = before;
  }
  return mi_libc_sem_clockwait(sem, clock, end);
}

// Wait until `end`, which is earlier than the program wants: after that it is as if the thread had
// been woken (WAITS-1). The mutex is not held while memory goes back.
static int mi_waits_cond(pthread_cond_t* cond, pthread_mutex_t* mutex, clockid_t clock,
                         int64_t end) {
  const struct timespec t = mi_waits_spec(end);
  const int error = mi_libc_pthread_cond_clockwait(cond, mutex, clock, &t);
  if (error != ETIMEDOUT) return error;
  pthread_mutex_unlock(mutex);
  mi_waits_give(false);
  return pthread_mutex_lock(mutex);
}

MI_WAITS_EXPORT int pthread_cond_wait(pthread_cond_t* cond, pthread_mutex_t* mutex) {
  mi_waits_begin();
  const int64_t due = mi_libc_pthread_cond_clockwait == NULL ? MI_WAITS_FOREVER : mi_waits_look();
  if (due == MI_WAITS_FOREVER) return mi_libc_pthread_cond_wait(cond, mutex);
  return mi_waits_cond(cond, mutex, CLOCK_MONOTONIC, mi_waits_now(CLOCK_MONOTONIC) + due);
}

MI_WAITS_EXPORT int pthread_cond_clockwait(pthread_cond_t* cond, pthread_mutex_t* mutex,
                                           clockid_t clock, const struct timespec* end) {
  mi_waits_begin();
  const int64_t end_ns = mi_waits_of_spec(end);
  const int64_t now = mi_waits_now(clock);
  const int64_t due = mi_waits_look();
  if (!mi_waits_is_known(clock) || end_ns == 0 || due >= end_ns - now) {
    return mi_libc_pthread_cond_clockwait(cond, mutex, clock, end);
  }
  return mi_waits_cond(cond, mutex, clock, now + due);
}
