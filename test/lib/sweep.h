// SPDX-License-Identifier: MIT
// sweep.h - every scenario runs again and again in the real library, with the first, second, third
// ... system call that the library makes refused, until none is left to refuse.
//
// The program defines the functions of libc that the library calls (mmap, madvise, ...), so that
// the library finds these first; a call from the library is counted and perhaps refused, any other
// goes on to libc. Each run is a child of a process that never allocated: it begins with the set-up
// of the library. Included by one file of a program, in C or C++.
//
// After each run: what was refused said so (NULL, ENOMEM, the error function told), what was given
// is intact, memory that is back is used, no memory is lost compared with a run without refusal,
// nothing was printed, and the process ends by itself with status 0.
#ifndef TEST_SWEEP_H
#define TEST_SWEEP_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <mimalloc-stats.h>
#include <mimalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "proc.h"
#include "secure.h"

#define SWEEP_KIB ((size_t)1024)
#define SWEEP_MIB (SWEEP_KIB * SWEEP_KIB)

#if defined(__cplusplus)
#define SWEEP_NOEXCEPT noexcept
extern "C" {
#else
#define SWEEP_NOEXCEPT
#endif

// -- Which call is refused --

typedef enum sweep_kind_e {
  SWEEP_MMAP,
  SWEEP_MUNMAP,
  SWEEP_MPROTECT,
  SWEEP_MADVISE,
  SWEEP_MREMAP,
  SWEEP_OTHER, // files, limits, clocks, thread keys, fork handlers, nodes
  SWEEP_ANY, // all of the above
} sweep_kind_t;

typedef enum sweep_mode_e {
  SWEEP_NEVER, // what the others are compared with
  SWEEP_ONCE, // the n-th call
  SWEEP_ON, // that and all behind it
  SWEEP_EVERY, // each n-th
  SWEEP_MODES,
} sweep_mode_t;

static const char* const sweep_kinds[SWEEP_ANY + 1] = {"mmap",   "munmap", "mprotect", "madvise",
                                                       "mremap", "other",  "any"};
static const char* const sweep_modes[SWEEP_MODES] = {"never", "once", "on", "every"};

typedef struct sweep_plan_s {
  sweep_mode_t mode;
  sweep_kind_t kind;
  size_t n;
} sweep_plan_t;

// Shared with the parent.
typedef struct sweep_report_s {
  size_t calls[SWEEP_ANY + 1]; // that could be refused
  size_t resident; // bytes at the end
  size_t committed;
  size_t kept; // bytes that could not be unmapped, and perhaps not be purged either
} sweep_report_t;

static sweep_plan_t sweep_plan;
static sweep_report_t* sweep_report;
static bool sweep_is_on; // calls are refused
static uintptr_t sweep_text[2]; // where the library is

static bool sweep_refuses(sweep_kind_t kind, const void* caller) {
  const uintptr_t at = (uintptr_t)caller;
  if (!sweep_is_on || at < sweep_text[0] || at >= sweep_text[1]) return false;
  size_t* const calls = sweep_report->calls;
  const size_t any = __atomic_add_fetch(&calls[SWEEP_ANY], (size_t)1, __ATOMIC_RELAXED);
  const size_t own = __atomic_add_fetch(&calls[kind], (size_t)1, __ATOMIC_RELAXED);
  if (sweep_plan.kind != SWEEP_ANY && sweep_plan.kind != kind) return false;
  const size_t number = sweep_plan.kind == SWEEP_ANY ? any : own;
  switch (sweep_plan.mode) {
    case SWEEP_ONCE:
      return number == sweep_plan.n;
    case SWEEP_ON:
      return number >= sweep_plan.n;
    case SWEEP_EVERY:
      return number % sweep_plan.n == 0;
    default:
      return false;
  }
}

// The start of a function that stands before that of libc: looks up the latter, and decides.
#define SWEEP_REAL(name)                                                                           \
  static __typeof__(&name) real;                                                                   \
  if (real == NULL) *(void**)(&real) = dlsym(RTLD_NEXT, #name)
#define SWEEP_IF_REFUSED(kind) if (sweep_refuses(kind, __builtin_return_address(0)))

void* mmap(void* p, size_t size, int prot, int flags, int fd, off_t at) SWEEP_NOEXCEPT {
  SWEEP_REAL(mmap);
  SWEEP_IF_REFUSED(SWEEP_MMAP) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(p, size, prot, flags, fd, at);
}

int munmap(void* p, size_t size) SWEEP_NOEXCEPT {
  SWEEP_REAL(munmap);
  SWEEP_IF_REFUSED(SWEEP_MUNMAP) {
    sweep_report->kept += size;
    errno = ENOMEM;
    return -1;
  }
  return real(p, size);
}

int mprotect(void* p, size_t size, int prot) SWEEP_NOEXCEPT {
  SWEEP_REAL(mprotect);
  SWEEP_IF_REFUSED(SWEEP_MPROTECT) {
    errno = ENOMEM;
    return -1;
  }
  return real(p, size, prot);
}

int madvise(void* p, size_t size, int advice) SWEEP_NOEXCEPT {
  SWEEP_REAL(madvise);
  SWEEP_IF_REFUSED(SWEEP_MADVISE) {
    errno = ENOMEM;
    return -1;
  }
  return real(p, size, advice);
}

// Refused as Linux does when a limit is below what the process has: the target is gone.
void* mremap(void* p, size_t old_size, size_t size, int flags, ...) SWEEP_NOEXCEPT {
  va_list rest;
  va_start(rest, flags);
  void* const to = va_arg(rest, void*);
  va_end(rest);
  SWEEP_REAL(mremap);
  SWEEP_IF_REFUSED(SWEEP_MREMAP) {
    munmap(to, size);
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return real(p, old_size, size, flags, to);
}

int open(const char* path, int flags, ...) {
  SWEEP_REAL(open);
  SWEEP_IF_REFUSED(SWEEP_OTHER) {
    errno = EMFILE;
    return -1;
  }
  return real(path, flags); // the library only reads files
}

ssize_t read(int fd, void* p, size_t size) {
  SWEEP_REAL(read);
  SWEEP_IF_REFUSED(SWEEP_OTHER) {
    errno = EIO;
    return -1;
  }
  return real(fd, p, size);
}

int clock_gettime(clockid_t clock, struct timespec* t) SWEEP_NOEXCEPT {
  SWEEP_REAL(clock_gettime);
  SWEEP_IF_REFUSED(SWEEP_OTHER) {
    errno = EPERM;
    return -1;
  }
  return real(clock, t);
}

// Of the numbers that the library calls, a futex cannot be refused without hanging.
long syscall(long number, ...) SWEEP_NOEXCEPT {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (size_t i = 0; i < 6; i++) a[i] = va_arg(rest, long);
  va_end(rest);
  SWEEP_REAL(syscall);
  if (number == SYS_futex) return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  SWEEP_IF_REFUSED(SWEEP_OTHER) {
    errno = ENOSYS;
    return -1;
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int pthread_key_create(pthread_key_t* key, void (*destroy)(void*)) SWEEP_NOEXCEPT {
  SWEEP_REAL(pthread_key_create);
  SWEEP_IF_REFUSED(SWEEP_OTHER) return EAGAIN;
  return real(key, destroy);
}

int pthread_setspecific(pthread_key_t key, const void* value) SWEEP_NOEXCEPT {
  SWEEP_REAL(pthread_setspecific);
  SWEEP_IF_REFUSED(SWEEP_OTHER) return ENOMEM;
  return real(key, value);
}

// What pthread_atfork is made of in glibc.
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* dso);
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void* dso) {
  SWEEP_REAL(__register_atfork);
  SWEEP_IF_REFUSED(SWEEP_OTHER) return ENOMEM;
  return real(prepare, parent, child, dso);
}

#if defined(__cplusplus)
}
#endif

static int sweep_find_library(struct dl_phdr_info* info, size_t size, void* arg) {
  (void)size;
  const uintptr_t inside = (uintptr_t)arg;
  for (size_t i = 0; i < info->dlpi_phnum; i++) {
    const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (inside < start || inside - start >= info->dlpi_phdr[i].p_memsz) continue;
    sweep_text[0] = start;
    sweep_text[1] = start + info->dlpi_phdr[i].p_memsz;
    return 1;
  }
  return 0;
}

// -- What scenarios use --

typedef struct sweep_block_s {
  unsigned char* p;
  size_t size;
} sweep_block_t;

static sweep_block_t sweep_blocks[4000];
static size_t sweep_block_count;
static size_t sweep_told; // calls of the error function with ENOMEM

static void sweep_on_error(int err, void* arg) {
  (void)arg;
  if (err == ENOMEM) __atomic_add_fetch(&sweep_told, (size_t)1, __ATOMIC_RELAXED);
}

static void sweep_begin(void) {
  sweep_told = 0;
  errno = 0;
}

static unsigned char sweep_byte(const void* p, size_t i) {
  return (unsigned char)(((uintptr_t)p >> 4) * 31 + i * 7 + 1);
}

// The first bytes, the last one, and one of each OS page; of a large block every fourth is touched,
// because each is a fault of 3 us in thousands of runs.
static size_t sweep_step(size_t i, size_t size) {
  if (i < 128 || i + 1 >= size) return 1;
  const size_t step = i < 64 * SWEEP_KIB ? 4096 : 4 * 4096;
  return size - 1 - i < step ? size - 1 - i : step;
}

// A result of an allocation: NULL was announced, or it is a block.
static void* sweep_result(const char* what, void* p, size_t size) {
  const int err = errno;
  if (p == NULL) {
    CHECK_SAY(err == ENOMEM, "%s: errno is %d", what, err);
    CHECK_SAY(sweep_told > 0, "%s: the error function was not told", what);
    return NULL;
  }
  CHECK_SAY(mi_usable_size(p) >= size, "%s: only %zu bytes", what, mi_usable_size(p));
  return p;
}

static void sweep_keep(void* p, size_t size) {
  if (p == NULL) return;
  CHECK_SAY(sweep_block_count < sizeof(sweep_blocks) / sizeof(sweep_blocks[0]), "too many");
  for (size_t i = 0; i < size; i += sweep_step(i, size)) {
    ((unsigned char*)p)[i] = sweep_byte(p, i);
  }
  sweep_blocks[sweep_block_count].p = (unsigned char*)p;
  sweep_blocks[sweep_block_count++].size = size;
}

static void sweep_check_zero(const char* what, const void* p, size_t from, size_t size) {
  const unsigned char* const s = (const unsigned char*)p;
  for (size_t i = from; p != NULL && i < size; i += sweep_step(i, size)) {
    CHECK_SAY(s[i] == 0, "%s: byte %zu is %u", what, i, s[i]);
  }
}

static inline void sweep_check_aligned(const char* what, const void* p, size_t alignment,
                                       size_t offset) {
  CHECK_SAY(p == NULL || ((uintptr_t)p + offset) % alignment == 0, "%s: %p", what, p);
}

// A block from `call`, kept until the end.
#define SWEEP_GET(size, call) sweep_keep(SWEEP_TAKE(size, call), size)
#define SWEEP_TAKE(size, call) sweep_result(#call, (sweep_begin(), (void*)(call)), size)
#define SWEEP_GET_ZERO(size, call)                                                                 \
  do {                                                                                             \
    void* const got = SWEEP_TAKE(size, call);                                                      \
    sweep_check_zero(#call, got, 0, size);                                                         \
    sweep_keep(got, size);                                                                         \
  } while (0)
#define SWEEP_GET_ALIGNED(size, alignment, offset, call)                                           \
  do {                                                                                             \
    void* const got = SWEEP_TAKE(size, call);                                                      \
    sweep_check_aligned(#call, got, alignment, offset);                                            \
    sweep_keep(got, size);                                                                         \
  } while (0)

typedef enum sweep_resize_e {
  SWEEP_PLAIN,
  SWEEP_ZERO, // what is new reads as zero
  SWEEP_FREES, // the old block is gone when it fails
} sweep_resize_t;

static inline void sweep_resized(const char* what, sweep_resize_t how, void* old, size_t old_size,
                                 void* result, size_t size) {
  void* const now = sweep_result(what, result, size);
  const void* const left = now != NULL ? now : how == SWEEP_FREES ? NULL : old;
  const unsigned char* const s = (const unsigned char*)left;
  for (size_t i = 0; s != NULL && i < old_size && i < size; i += sweep_step(i, old_size)) {
    CHECK_SAY(s[i] == (unsigned char)(i * 5 + 3), "%s: byte %zu is lost", what, i);
  }
  if (how == SWEEP_ZERO) sweep_check_zero(what, now, old_size, size);
  if (now != NULL) {
    sweep_keep(now, size);
  } else if (how != SWEEP_FREES) {
    mi_free(old);
  }
}

// A zeroed block `old` of `old_size` bytes, maybe NULL, becomes what `call` makes of it.
#define SWEEP_RESIZE(how, old_size, size, call)                                                    \
  do {                                                                                             \
    unsigned char* const old = (unsigned char*)mi_zalloc(old_size);                                \
    const size_t had = old == NULL ? 0 : (old_size);                                               \
    for (size_t i = 0; i < had; i += sweep_step(i, had)) old[i] = (unsigned char)(i * 5 + 3);      \
    void* volatile was = old; /* it is looked at only if it is still there */                      \
    sweep_begin();                                                                                 \
    void* const result = (call);                                                                   \
    sweep_resized(#call, how, was, had, result, size);                                             \
  } while (0)

// -- One run --

typedef enum sweep_output_e { SWEEP_SILENT, SWEEP_MAY_PRINT } sweep_output_t;

typedef struct sweep_scenario_s {
  const char* name;
  void (*run)(void);
  sweep_output_t output;
  size_t slack; // bytes that may stay committed
} sweep_scenario_t;

static void sweep_check_kept(void) {
  for (size_t k = 0; k < sweep_block_count; k++) {
    const sweep_block_t* const b = &sweep_blocks[k];
    for (size_t i = 0; i < b->size; i += sweep_step(i, b->size)) {
      CHECK_SAY(b->p[i] == sweep_byte(b->p, i), "block %zu of %zu: byte %zu", k, b->size, i);
    }
  }
}

// Memory is back: everything works.
static void sweep_check_usable(void) {
  const size_t sizes[] = {8, 1000, 100000, 3 * SWEEP_MIB};
  for (size_t i = 0; i < 4; i++) {
    void* const p = mi_zalloc(sizes[i]);
    CHECK_SAY(p != NULL, "%zu bytes when memory is back", sizes[i]);
    mi_free(p);
  }
  mi_heap_t* const heap = mi_heap_new();
  CHECK_SAY(heap != NULL && mi_heap_malloc(heap, 100) != NULL, "a heap when memory is back");
  mi_heap_destroy(heap);
}

static size_t sweep_runs; // of children

#if defined(SWEEP_SANDBOX)
#include "sandbox.h"
#else

#define SWEEP_WITH "with refused system calls"

typedef enum sweep_setting_e {
  SWEEP_DEFAULT, // from the first call of the process on
  SWEEP_STEPWISE, // memory is reserved, committed piece by piece, and purged at once
  SWEEP_DIRECT, // no arenas: each page is a mapping
  SWEEP_SETTINGS,
} sweep_setting_t;

static const char* const sweep_settings[SWEEP_SETTINGS] = {"default", "stepwise", "direct"};

static void sweep_set(sweep_setting_t setting) {
  if (setting == SWEEP_STEPWISE) {
    mi_option_set(mi_option_arena_eager_commit, 0);
    mi_option_set(mi_option_purge_delay, 0);
  } else if (setting == SWEEP_DIRECT) {
    mi_option_set(mi_option_disallow_arena_alloc, 1);
  }
}

// Return what is committed without our own structures, which are kept for the next use.
static size_t sweep_committed(void) {
  static char text[64 * SWEEP_KIB];
  const size_t length = mi_metrics(mi_metrics_prometheus, text, sizeof(text));
  CHECK(length > 0 && length < sizeof(text));
  size_t bytes[2];
  static const char* const names[2] = {"\nmimalloc_committed_bytes ", "\nmimalloc_metadata_bytes "};
  for (size_t i = 0; i < 2; i++) {
    const char* const line = strstr(text, names[i]);
    CHECK(line != NULL);
    bytes[i] = (size_t)strtoull(line + strlen(names[i]), NULL, 10);
  }
  return bytes[0] - bytes[1];
}

static void sweep_child(const sweep_scenario_t* scenario, sweep_setting_t setting) {
  alarm(60);
  sweep_set(setting);
  mi_register_error(&sweep_on_error, NULL);
  sweep_is_on = true;
  scenario->run();
  sweep_is_on = false;
  sweep_check_kept();
  sweep_check_usable();
  sweep_check_kept();
  for (size_t i = 0; i < sweep_block_count; i++) mi_free(sweep_blocks[i].p);
  for (size_t i = 0; i < 2; i++) mi_collect(true);
  sweep_report->committed = sweep_committed();
  sweep_report->resident = proc_resident();
  exit(0); // with all destructors
}

// -- The sweep --

// In a secure build what is committed may differ by the marks of slices that were given back while
// the system refused: a sixteenth of each.
static size_t sweep_marks(void) {
  static bool is_asked, is_secure; // the same for all runs
  if (!is_asked) is_secure = test_is_secure();
  is_asked = true;
  return is_secure ? SWEEP_MIB : 0;
}

// Resident memory may differ by the descriptors and structures of other arenas, and by what the
// kernel keeps for each thread in its own figures.
#define SWEEP_SLACK (SWEEP_KIB * 768)

static void sweep_complain(const sweep_scenario_t* scenario, sweep_setting_t setting,
                           sweep_plan_t plan, const char* what) {
  printf("failed: %s, %s, refused %s %s %zu: %s\n", scenario->name, sweep_settings[setting],
         sweep_modes[plan.mode], sweep_kinds[plan.kind], plan.n, what);
  fflush(stdout);
}

static const char* sweep_verdict(const sweep_scenario_t* scenario, int status, size_t printed,
                                 const sweep_report_t* expected, char* text, size_t capacity) {
  const sweep_plan_t plan = sweep_plan;
  // Refused once, what cannot be unmapped is purged.
  const size_t kept = plan.mode == SWEEP_ONCE ? 0 : sweep_report->kept;
  if (WIFSIGNALED(status)) {
    snprintf(text, capacity, "ended by signal %d", WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    snprintf(text, capacity, "ended with status %d", WEXITSTATUS(status));
  } else if (printed > 0 && scenario->output == SWEEP_SILENT) {
    snprintf(text, capacity, "it printed something");
  } else if (plan.mode == SWEEP_NEVER) {
    return NULL;
  } else if (sweep_report->committed > expected->committed + scenario->slack + sweep_marks()) {
    snprintf(text, capacity, "%zu KiB committed at the end, %zu without refusal",
             sweep_report->committed / SWEEP_KIB, expected->committed / SWEEP_KIB);
  } else if (sweep_report->resident > expected->resident + SWEEP_SLACK + scenario->slack + kept) {
    snprintf(text, capacity, "%zu KiB resident at the end, %zu without refusal",
             sweep_report->resident / SWEEP_KIB, expected->resident / SWEEP_KIB);
  } else {
    return NULL;
  }
  return text;
}

// False: it failed.
static bool sweep_run(const sweep_scenario_t* scenario, sweep_setting_t setting, sweep_plan_t plan,
                      const sweep_report_t* expected) {
  memset(sweep_report, 0, sizeof(*sweep_report));
  sweep_plan = plan;
  sweep_runs++;
  const int output = memfd_create("output", MFD_CLOEXEC);
  const pid_t child = output < 0 ? -1 : fork();
  if (child == 0) {
    dup2(output, STDERR_FILENO);
    sweep_child(scenario, setting);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    printf("failed: no child can be started\n");
    exit(1);
  }
  char text[8192];
  const off_t printed = lseek(output, 0, SEEK_END);
  const char* const verdict =
      sweep_verdict(scenario, status, (size_t)printed, expected, text, sizeof(text));
  if (verdict != NULL) {
    sweep_complain(scenario, setting, plan, verdict);
    const ssize_t got = pread(output, text, sizeof(text) - 1, 0);
    if (got > 0) printf("%.*s\n", (int)got, text);
  }
  close(output);
  return verdict == NULL;
}

// Behind that some are left out: a loop repeats what was seen before. A secure build does what the
// others do, and a child of it takes six times as long, in which the system copies its tables.
#define SWEEP_ALL_UP_TO 30
#define SWEEP_ALL_UP_TO_SECURE 6

static size_t sweep_next(sweep_plan_t plan) {
  const size_t all = sweep_marks() > 0 ? SWEEP_ALL_UP_TO_SECURE : SWEEP_ALL_UP_TO;
  if (plan.mode == SWEEP_ONCE) return plan.n + 1 + (plan.n > all ? plan.n / 4 : 0);
  return plan.kind == SWEEP_ANY ? plan.n + 1 + plan.n / 4 : 2 * plan.n;
}

// Returns how many runs failed. A kind alone is not refused once: that is among the others.
static size_t sweep_scenario(const sweep_scenario_t* scenario, sweep_setting_t setting) {
  sweep_plan_t plan = {SWEEP_NEVER, SWEEP_ANY, 0};
  if (!sweep_run(scenario, setting, plan, NULL)) return 1;
  const sweep_report_t expected = *sweep_report;
  size_t failed = 0;
  for (int mode = SWEEP_ONCE; mode < SWEEP_MODES; mode++) {
    for (int kind = 0; kind <= SWEEP_ANY; kind++) {
      if ((mode == SWEEP_ONCE && kind != SWEEP_ANY) || expected.calls[kind] == 0) continue;
      plan.mode = (sweep_mode_t)mode;
      plan.kind = (sweep_kind_t)kind;
      for (plan.n = 1;; plan.n = sweep_next(plan)) {
        failed += sweep_run(scenario, setting, plan, &expected) ? 0 : 1;
        if (sweep_report->calls[kind] < plan.n || failed >= 3) break;
      }
    }
  }
  return failed;
}

// Each setting of a scenario. Returns how many runs failed.
static size_t sweep_settings_of(const sweep_scenario_t* scenario) {
  size_t failed = 0;
  for (int setting = 0; setting < SWEEP_SETTINGS; setting++) {
    failed += sweep_scenario(scenario, (sweep_setting_t)setting);
  }
  return failed;
}

#endif

// Without arguments all scenarios; else those that are named.
static int sweep_main(int argc, char** argv, const sweep_scenario_t* scenarios, size_t count) {
  sweep_report = (sweep_report_t*)mmap(NULL, sizeof(*sweep_report), PROT_READ | PROT_WRITE,
                                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (sweep_report == MAP_FAILED) return 2;
  const uintptr_t inside = (uintptr_t)dlsym(RTLD_DEFAULT, "mi_malloc");
  if (dl_iterate_phdr(&sweep_find_library, (void*)inside) == 0) return 2;
  setvbuf(stdout, NULL, _IONBF, 0); // the parent does not allocate
  size_t failed = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_wanted = argc <= 1;
    for (int k = 1; k < argc; k++) is_wanted = is_wanted || strcmp(argv[k], scenarios[i].name) == 0;
    if (!is_wanted) continue;
    failed += sweep_settings_of(&scenarios[i]);
  }
  printf("FIGURE %zu runs " SWEEP_WITH ", %zu failed\n", sweep_runs, failed);
  return failed == 0 && sweep_runs > 0 ? 0 : 1;
}

#endif
