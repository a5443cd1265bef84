// SPDX-License-Identifier: MIT // tidy: allow file-length (one function for each of os.h)
// os_fake.c - see os_fake.h. Part of every unit test, in the place of os/os.c.
//
// OS_FAKE-1  `ranges` is sorted by address, ranges do not overlap, and neighbours that a kernel
//     would merge are merged: same state, same advice, same origin.
// OS_FAKE-2  memory outside COMMITTED ranges is inaccessible; memory that is mapped afresh reads as
//     zero.
//
// All state is under one mutex: several threads of a test may call. Page sizes above that of the
// machine are pretended: the rules above are checked with the pretended size.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "os_fake.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/random.h"
#include "os/lock.h"

// The same addresses in every run, where that is possible.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define RESERVE_HINT ((uintptr_t)0)
#else
#define RESERVE_HINT ((uintptr_t)0x200000000000)
#endif

#define RANGE_MAX 65536
#define RANGE_ORIGIN_MAPPED 0
#define RANGE_ORIGIN_LARGE 1 // explicit large pages

typedef enum range_advice_e { ADVICE_NONE, ADVICE_HUGE, ADVICE_SMALL } range_advice_t;

typedef struct range_s {
  uint8_t* start;
  uint8_t* end;
  os_fake_state_t state;
  range_advice_t advice;
  size_t origin; // moved mappings differ from all others and do not merge
} range_t;

os_fake_t os_fake;

static range_t ranges[RANGE_MAX];
static size_t range_count;
static void* reserved; // with what was needed to align `os_fake.reserve`
static size_t next_origin = RANGE_ORIGIN_LARGE + 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t exit_key;
static bool has_exit_key;
static pid_t process; // that started the system

static _Noreturn void misuse(const char* what, const void* start, size_t size) {
  fprintf(stderr, "os_fake: %s: %p, %zu bytes\n", what, start, size);
  abort();
}

// -- the list of ranges --

// Index of the first range that ends behind `p`.
static size_t range_find(const uint8_t* p) {
  size_t low = 0;
  size_t high = range_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (ranges[middle].end > p) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

static void range_insert(size_t i, range_t range) {
  if (range_count == RANGE_MAX) misuse("too many mappings", range.start, 0);
  memmove(&ranges[i + 1], &ranges[i], (range_count - i) * sizeof(range_t));
  ranges[i] = range;
  range_count++;
}

static void range_remove(size_t i, size_t count) {
  memmove(&ranges[i], &ranges[i + count], (range_count - i - count) * sizeof(range_t));
  range_count -= count;
}

// Make `p` a boundary of ranges.
static void range_split(uint8_t* p) {
  const size_t i = range_find(p);
  if (i == range_count || ranges[i].start >= p) return;
  range_t upper = ranges[i];
  upper.start = p;
  ranges[i].end = p;
  range_insert(i + 1, upper);
}

static bool range_can_merge(const range_t* a, const range_t* b) {
  return a->end == b->start && a->state == b->state && a->advice == b->advice &&
         a->origin == b->origin;
}

static size_t range_bytes(os_fake_state_t state, const uint8_t* start, const uint8_t* end) {
  size_t bytes = 0;
  for (size_t i = range_find(start); i < range_count && ranges[i].start < end; i++) {
    if (ranges[i].state < state) continue;
    const uint8_t* const from = ranges[i].start > start ? ranges[i].start : start;
    const uint8_t* const to = ranges[i].end < end ? ranges[i].end : end;
    bytes += (size_t)(to - from);
  }
  return bytes;
}

static void range_account(const uint8_t* start, const uint8_t* end, bool is_added) {
  const size_t mapped = range_bytes(OS_FAKE_RESERVED, start, end);
  const size_t committed = range_bytes(OS_FAKE_COMMITTED, start, end);
  os_fake.mapped = is_added ? os_fake.mapped + mapped : os_fake.mapped - mapped;
  os_fake.committed = is_added ? os_fake.committed + committed : os_fake.committed - committed;
}

// Replace what is in the range of `now`; the state UNMAPPED leaves a hole.
static void range_set(range_t now) {
  range_account(now.start, now.end, false);
  range_split(now.start);
  range_split(now.end);
  const size_t first = range_find(now.start);
  size_t last = first;
  while (last < range_count && ranges[last].start < now.end) last++;
  range_remove(first, last - first);
  if (now.state == OS_FAKE_UNMAPPED) return;
  range_insert(first, now);
  range_account(now.start, now.end, true);
  if (first + 1 < range_count && range_can_merge(&ranges[first], &ranges[first + 1])) {
    ranges[first].end = ranges[first + 1].end;
    range_remove(first + 1, 1);
  }
  if (first > 0 && range_can_merge(&ranges[first - 1], &ranges[first])) {
    ranges[first - 1].end = ranges[first].end;
    range_remove(first, 1);
  }
}

// Apply a change to every range inside, which keep what they do not change.
static void range_change(uint8_t* start, size_t size, int state, int advice) {
  uint8_t* const end = start + size;
  uint8_t* p = start;
  while (p < end) {
    range_t now = ranges[range_find(p)];
    now.start = p;
    now.end = now.end < end ? now.end : end;
    if (state >= 0) now.state = (os_fake_state_t)state;
    if (advice >= 0) now.advice = (range_advice_t)advice;
    p = now.end;
    range_set(now);
  }
}

// Highest free place, as a kernel chooses without a hint.
static uint8_t* range_place_high(size_t size, size_t alignment) {
  uint8_t* end = os_fake.reserve + os_fake.reserve_size;
  for (size_t i = range_count;; i--) {
    const uint8_t* const below = i > 0 ? ranges[i - 1].end : os_fake.reserve;
    if (size <= (size_t)(end - below)) {
      uint8_t* const p = (uint8_t*)mi_bits_align_down((uintptr_t)(end - size), alignment);
      if (p >= below) return p;
    }
    if (i == 0) return NULL;
    end = ranges[i - 1].start;
  }
}

// Lowest free place.
static uint8_t* range_place_low(size_t size, size_t alignment) {
  uint8_t* const end = os_fake.reserve + os_fake.reserve_size;
  uint8_t* p = (uint8_t*)mi_bits_align_up((uintptr_t)os_fake.reserve, alignment);
  for (size_t i = 0; p < end && size <= (size_t)(end - p); i++) {
    while (i < range_count && ranges[i].end <= p) i++;
    if (i == range_count || (ranges[i].start >= p && size <= (size_t)(ranges[i].start - p))) {
      return p;
    }
    p = (uint8_t*)mi_bits_align_up((uintptr_t)ranges[i].end, alignment);
  }
  return NULL;
}

// At `hint` when that is free; else at the lower end for who gave one. NULL: the reserve is full.
static uint8_t* range_place(uint8_t* hint, size_t size, size_t alignment) {
  if (hint == NULL) return range_place_high(size, alignment);
  uint8_t* const end = os_fake.reserve + os_fake.reserve_size;
  if (hint >= os_fake.reserve && hint < end && size <= (size_t)(end - hint) &&
      (uintptr_t)hint % alignment == 0 && range_bytes(OS_FAKE_TAKEN, hint, hint + size) == 0) {
    return hint;
  }
  os_fake.hint_missed++;
  return range_place_low(size, alignment);
}

// -- counting, failing, checking --

static bool is_due(size_t* countdown) {
  if (*countdown == 0) return false;
  if (*countdown == 1 && os_fake.is_failing_on) return true;
  if (--*countdown > 0) return false;
  *countdown = os_fake.fail_every;
  return true;
}

// Called with the lock held. True: the call must fail.
static bool enter_call(os_fake_call_t call, void* start, size_t size) {
  os_fake.count[call]++;
  bool is_failed = false;
  if (call < OS_FAKE_FALLIBLE) {
    os_fake.fallible_count++;
    const bool is_one = is_due(&os_fake.fail_at[call]);
    const bool is_any = is_due(&os_fake.fail_at[OS_FAKE_FALLIBLE]);
    is_failed = is_one || is_any;
  }
  const os_fake_entry_t entry = {call, (uint8_t*)start, size, is_failed};
  os_fake.log[os_fake.log_count++ % OS_FAKE_LOG_SIZE] = entry;
  return is_failed;
}

static void check_range(const char* what, const void* start, size_t size,
                        os_fake_state_t lowest_state) {
  const uint8_t* const p = (const uint8_t*)start;
  if (size == 0 || size % os_fake.page_size != 0) misuse("size not in pages", start, size);
  if ((uintptr_t)start % os_fake.page_size != 0) misuse("start not at a page", start, size);
  if (range_bytes(lowest_state, p, p + size) != size) misuse(what, start, size);
}

static bool is_large(const void* start) {
  return ranges[range_find((const uint8_t*)start)].origin == RANGE_ORIGIN_LARGE;
}

// As `check_range`, for calls that must not be made for explicit large pages.
static void check_normal_range(const char* what, const void* start, size_t size,
                               os_fake_state_t lowest_state) {
  check_range(what, start, size, lowest_state);
  if (is_large(start)) misuse("explicit large pages stay", start, size);
}

static void real_protect(void* start, size_t size, int protection) {
  if (mprotect(start, size, protection) != 0) misuse("the machine refuses access", start, size);
}

static void real_discard(void* start, size_t size) {
  if (madvise(start, size, MADV_DONTNEED) != 0) misuse("the machine keeps memory", start, size);
}

// A write that changes nothing, also while another thread writes there.
static void real_touch(uint8_t* p) {
#if defined(__SANITIZE_THREAD__)
  // The thread sanitizer would call it a race with plain writes of others.
  if (madvise(p, 4096, MADV_POPULATE_WRITE) != 0) misuse("the machine populates nothing", p, 4096);
#else
  __atomic_fetch_or(p, 0, __ATOMIC_RELAXED);
#endif
}

static bool is_over_limit(size_t size, bool is_read_write) {
  return is_read_write && !os_fake.has_overcommit &&
         os_fake.committed + size > os_fake.commit_limit;
}

// -- the contract --

void os_fake_start(size_t page_size, size_t reserve_size) {
  memset(&os_fake, 0, sizeof(os_fake));
  process = getpid();
  os_fake.page_size = page_size;
  os_fake.has_overcommit = true;
  os_fake.has_move = true;
  os_fake.has_guard = true;
  os_fake.has_hints = true;
  os_fake.commit_limit = SIZE_MAX;
  os_fake.now_us = 1000000000;
  os_fake.huge_page_size = MI_CHUNK_SLICES * MI_SLICE_SIZE;
  os_fake.random = 42;
  os_fake.reserve_size = reserve_size != 0 ? reserve_size : OS_FAKE_RESERVE_DEFAULT;
  const size_t size = os_fake.reserve_size + MI_WINDOW_SIZE;
  void* const p = mmap((void*)RESERVE_HINT, size, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) misuse("no address space", NULL, size);
  reserved = p;
  madvise(p, size, MADV_NOHUGEPAGE); // so that what is resident was touched
  os_fake.reserve = (uint8_t*)mi_bits_align_up((uintptr_t)p, MI_WINDOW_SIZE);
}

void os_fake_end(void) {
  munmap(reserved, os_fake.reserve_size + MI_WINDOW_SIZE);
  range_count = 0;
}

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  if (os_fake.page_size == 0) misuse("os_fake_start was not called", NULL, 0);
  info->page_size = os_fake.page_size;
  info->huge_page_size = os_fake.huge_page_size;
  info->address_bits = MI_ADDRESS_BITS;
  info->has_overcommit = os_fake.has_overcommit;
  info->is_setuid = os_fake.is_setuid;
}

MI_INTERNAL bool mi_os_hints(void) { return os_fake.has_hints; }

// The same through a pipe: an emulator knows nothing better.
static bool read_word_by_pipe(const void* p, uint32_t* word) {
  static int ends[2] = {-1, -1};
  if (ends[0] < 0 && pipe(ends) != 0) misuse("there is no pipe", p, sizeof(*word));
  if (write(ends[1], p, sizeof(*word)) != (ssize_t)sizeof(*word)) return false;
  return read(ends[0], word, sizeof(*word)) == (ssize_t)sizeof(*word);
}

// Reads a word that may not be readable.
static bool read_word(const void* p, uint32_t* word) {
  const struct iovec to = {word, sizeof(*word)};
  const struct iovec from = {(void*)(uintptr_t)p, sizeof(*word)};
  const ssize_t size = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
  if (size < 0 && errno == ENOSYS) return read_word_by_pipe(p, word);
  return size == (ssize_t)sizeof(*word);
}

MI_INTERNAL bool mi_os_is_readable(const void* p) {
  uint32_t word;
  return read_word(p, &word);
}

MI_INTERNAL bool mi_os_is_nonzero(const void* word) {
  uint32_t value;
  os_fake.now_us += os_fake.nonzero_us;
  return read_word(word, &value) && value != 0;
}

MI_INTERNAL void mi_os_make_constant(void* start, size_t size) {
  real_protect(start, size, PROT_READ);
}

MI_INTERNAL void* mi_os_map(void* hint, size_t size, size_t alignment, mi_os_access_t access) {
  pthread_mutex_lock(&lock);
  uint8_t* p = NULL;
  if (size % os_fake.page_size != 0 || size == 0) misuse("map: size not in pages", hint, size);
  if (!mi_bits_is_power_of_two(alignment) || alignment < os_fake.page_size) {
    misuse("map: alignment", hint, alignment);
  }
  const bool is_read_write = access == MI_OS_READ_WRITE;
  const bool is_failed = enter_call(OS_FAKE_MAP, hint, size);
  if (!os_fake.has_hints) hint = NULL;
  const bool is_too_large =
      (os_fake.map_limit != 0 && size > os_fake.map_limit) ||
      (os_fake.has_address_limit && size > os_fake.address_limit - os_fake.mapped);
  if (!is_failed && !is_too_large && !is_over_limit(size, is_read_write)) {
    p = range_place((uint8_t*)hint, size, alignment);
  }
  if (p != NULL) {
    const os_fake_state_t state = is_read_write ? OS_FAKE_COMMITTED : OS_FAKE_RESERVED;
    range_set((range_t){p, p + size, state, ADVICE_NONE, RANGE_ORIGIN_MAPPED});
    if (is_read_write) real_protect(p, size, PROT_READ | PROT_WRITE);
  }
  pthread_mutex_unlock(&lock);
  return p;
}

MI_INTERNAL bool mi_os_map_at(void* start, size_t size, mi_os_access_t access) {
  pthread_mutex_lock(&lock);
  uint8_t* const p = (uint8_t*)start;
  if (size % os_fake.page_size != 0 || size == 0) misuse("map at: size not in pages", p, size);
  if ((uintptr_t)p % os_fake.page_size != 0) misuse("map at: start not at a page", p, size);
  const bool is_read_write = access == MI_OS_READ_WRITE;
  const uint8_t* const end = os_fake.reserve + os_fake.reserve_size;
  const bool is_free = p >= os_fake.reserve && p < end && size <= (size_t)(end - p) &&
                       range_bytes(OS_FAKE_TAKEN, p, p + size) == 0;
  const bool is_too_large =
      (os_fake.map_limit != 0 && size > os_fake.map_limit) ||
      (os_fake.has_address_limit && size > os_fake.address_limit - os_fake.mapped);
  const bool is_done = !enter_call(OS_FAKE_MAP_AT, p, size) && is_free && !is_too_large &&
                       !is_over_limit(size, is_read_write);
  if (is_done) {
    const os_fake_state_t state = is_read_write ? OS_FAKE_COMMITTED : OS_FAKE_RESERVED;
    range_set((range_t){p, p + size, state, ADVICE_NONE, RANGE_ORIGIN_MAPPED});
    if (is_read_write) real_protect(p, size, PROT_READ | PROT_WRITE);
  }
  pthread_mutex_unlock(&lock);
  return is_done;
}

MI_INTERNAL bool mi_os_map_again(void* start, size_t size) {
  return mi_os_map_at(start, size, MI_OS_READ_WRITE);
}

MI_INTERNAL void* mi_os_map_large(void* hint, size_t size, size_t os_page_size) {
  pthread_mutex_lock(&lock);
  if (size % os_page_size != 0 || size == 0) misuse("map: size not in large pages", hint, size);
  uint8_t* p = NULL;
  size_t* const is_free =
      os_page_size == os_fake.huge_page_size ? &os_fake.large_free : &os_fake.giant_free;
  if (!enter_call(OS_FAKE_MAP_LARGE, hint, size) && size / os_page_size <= *is_free) {
    p = range_place((uint8_t*)hint, size, os_page_size);
  }
  if (p != NULL) {
    *is_free -= size / os_page_size;
    range_set((range_t){p, p + size, OS_FAKE_COMMITTED, ADVICE_NONE, RANGE_ORIGIN_LARGE});
    real_protect(p, size, PROT_READ | PROT_WRITE);
  }
  pthread_mutex_unlock(&lock);
  return p;
}

MI_INTERNAL int mi_os_unmap(void* start, size_t size) {
  pthread_mutex_lock(&lock);
  check_range("unmap of what is not mapped", start, size, OS_FAKE_RESERVED);
  const bool is_failed = enter_call(OS_FAKE_UNMAP, start, size);
  if (is_failed) {
    os_fake.kept += range_bytes(OS_FAKE_RESERVED, (uint8_t*)start, (uint8_t*)start + size);
  } else {
    range_set((range_t){(uint8_t*)start, (uint8_t*)start + size, OS_FAKE_UNMAPPED, ADVICE_NONE, 0});
    real_discard(start, size);
    real_protect(start, size, PROT_NONE);
  }
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

MI_INTERNAL int mi_os_commit(void* start, size_t size) {
  pthread_mutex_lock(&lock);
  check_range("commit of what is not mapped", start, size, OS_FAKE_RESERVED);
  const uint8_t* const p = (const uint8_t*)start;
  const size_t more = size - range_bytes(OS_FAKE_COMMITTED, p, p + size);
  const bool is_failed = enter_call(OS_FAKE_COMMIT, start, size) || is_over_limit(more, true);
  if (!is_failed) {
    range_change((uint8_t*)start, size, OS_FAKE_COMMITTED, -1);
    real_protect(start, size, PROT_READ | PROT_WRITE);
  }
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

MI_INTERNAL int mi_os_decommit(void* start, size_t size) {
  pthread_mutex_lock(&lock);
  check_normal_range("decommit of what is not mapped", start, size, OS_FAKE_RESERVED);
  const bool is_failed = enter_call(OS_FAKE_DECOMMIT, start, size);
  if (!is_failed) {
    range_set((range_t){(uint8_t*)start, (uint8_t*)start + size, OS_FAKE_RESERVED, ADVICE_NONE,
                        RANGE_ORIGIN_MAPPED});
    real_discard(start, size);
    real_protect(start, size, PROT_NONE);
  }
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

MI_INTERNAL int mi_os_purge(void* start, size_t size) {
  if (os_fake.on_purge != NULL) os_fake.on_purge();
  pthread_mutex_lock(&lock);
  check_normal_range("purge of what is not usable", start, size, OS_FAKE_COMMITTED);
  const bool is_failed = enter_call(OS_FAKE_PURGE, start, size);
  if (!is_failed) real_discard(start, size);
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

// The system takes every other page at once: the worst it may do.
MI_INTERNAL int mi_os_reset(void* start, size_t size) {
  pthread_mutex_lock(&lock);
  check_normal_range("reset of what is not usable", start, size, OS_FAKE_COMMITTED);
  const bool is_failed = enter_call(OS_FAKE_RESET, start, size);
  for (size_t i = 0; !is_failed && i < size; i += 2 * os_fake.page_size) {
    real_discard((uint8_t*)start + i, os_fake.page_size);
  }
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

// A guard is no boundary of mappings, so that the list of ranges does not know it.
static bool guard(os_fake_call_t call, void* start, size_t size, int protection) {
  pthread_mutex_lock(&lock);
  check_range("guard in what is not usable", start, size, OS_FAKE_COMMITTED);
  const bool is_failed = enter_call(call, start, size) || !os_fake.has_guard || is_large(start);
  if (!is_failed) {
    real_discard(start, size);
    real_protect(start, size, protection);
  }
  pthread_mutex_unlock(&lock);
  return !is_failed;
}

MI_INTERNAL bool mi_os_guard(void* start, size_t size) {
  return guard(OS_FAKE_GUARD, start, size, PROT_NONE);
}

MI_INTERNAL bool mi_os_unguard(void* start, size_t size) {
  return guard(OS_FAKE_UNGUARD, start, size, PROT_READ | PROT_WRITE);
}

static int populate(os_fake_call_t call, void* start, size_t size) {
  pthread_mutex_lock(&lock);
  check_range("populate of what is not usable", start, size, OS_FAKE_COMMITTED);
  const bool is_failed = enter_call(call, start, size);
  if (call == OS_FAKE_POPULATE_HUGE) {
    range_change((uint8_t*)start, size, -1, ADVICE_SMALL);
    os_fake.now_us += os_fake.huge_us;
  }
  // Of a large page one write tells that it is there: a test has less memory than it pretends.
  if (is_large(start)) os_fake.now_us += os_fake.giant_us;
  const size_t step = is_large(start) ? size : 4096;
  for (size_t i = 0; !is_failed && i < size; i += step) real_touch((uint8_t*)start + i);
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

MI_INTERNAL int mi_os_populate(void* start, size_t size) {
  return populate(OS_FAKE_POPULATE, start, size);
}

MI_INTERNAL int mi_os_populate_huge(void* start, size_t size) {
  if (os_fake.gives_huge_pages) os_fake.has_huge_pages = true;
  return populate(OS_FAKE_POPULATE_HUGE, start, size);
}

MI_INTERNAL bool mi_os_has_huge_pages(void) { return os_fake.has_huge_pages; }

MI_INTERNAL int mi_os_collapse(void* start, size_t size) {
  if (os_fake.on_collapse != NULL) os_fake.on_collapse();
  pthread_mutex_lock(&lock);
  check_normal_range("collapse of what is not usable", start, size, OS_FAKE_COMMITTED);
  if (size != os_fake.huge_page_size) misuse("collapse in part", start, size);
  const bool is_failed = enter_call(OS_FAKE_COLLAPSE, start, size);
  const int err = is_failed ? ENOMEM : os_fake.collapse_error;
  os_fake.now_us += os_fake.collapse_us;
  range_change((uint8_t*)start, size, -1, ADVICE_SMALL);
  if (err == 0) {
    os_fake.collapse_growth += size - os_fake_resident(start, size);
    for (size_t i = 0; i < size; i += 4096) real_touch((uint8_t*)start + i);
  }
  pthread_mutex_unlock(&lock);
  return err;
}

static int advise(os_fake_call_t call, void* start, size_t size, int advice) {
  pthread_mutex_lock(&lock);
  check_range("advice for what is not mapped", start, size, OS_FAKE_RESERVED);
  const bool is_failed = enter_call(call, start, size);
  if (!is_failed) range_change((uint8_t*)start, size, -1, advice);
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

MI_INTERNAL int mi_os_split(void* start, size_t size) {
  return advise(OS_FAKE_SPLIT, start, size, -1);
}

MI_INTERNAL int mi_os_huge_pages(void* start, size_t size, mi_os_pages_t pages) {
  const int advice = pages == MI_OS_HUGE ? ADVICE_HUGE : ADVICE_SMALL;
  return advise(OS_FAKE_HUGE_PAGES, start, size, advice);
}

// The target takes over the advice of the source, as a moved mapping does. A source that lies in
// two mappings is refused. What is refused unmaps the target: the worst a kernel may do. And then
// others may map something there.
MI_INTERNAL int mi_os_move(void* from, void* to, size_t size) {
  pthread_mutex_lock(&lock);
  check_normal_range("move from what is not usable", from, size, OS_FAKE_COMMITTED);
  check_normal_range("move to what is not usable", to, size, OS_FAKE_COMMITTED);
  const bool is_cut = ranges[range_find((uint8_t*)from)].end < (uint8_t*)from + size;
  const bool is_failed = enter_call(OS_FAKE_MOVE, from, size) || is_cut;
  const bool is_done = !is_failed && os_fake.has_move;
  if (is_failed) {
    range_set((range_t){(uint8_t*)to, (uint8_t*)to + size, OS_FAKE_UNMAPPED, ADVICE_NONE, 0});
    real_discard(to, size);
    real_protect(to, size, PROT_NONE);
  } else if (is_done) {
    real_discard(to, size);
    for (size_t i = 0; i < size; i += os_fake.page_size) {
      if (os_fake_resident((uint8_t*)from + i, os_fake.page_size) == 0) continue;
      memcpy((uint8_t*)to + i, (uint8_t*)from + i, os_fake.page_size);
    }
    real_discard(from, size);
    range_t now = ranges[range_find((uint8_t*)from)];
    now.start = (uint8_t*)to;
    now.end = (uint8_t*)to + size;
    now.origin = next_origin++;
    range_set(now);
  }
  pthread_mutex_unlock(&lock);
  if (is_failed && os_fake.on_move_failed != NULL) os_fake.on_move_failed(to, size);
  return is_done ? 0 : (is_failed ? ENOMEM : ENOSYS);
}

MI_INTERNAL int mi_os_remap(void* start, size_t size) {
  pthread_mutex_lock(&lock);
  check_normal_range("remap of what is not mapped", start, size, OS_FAKE_RESERVED);
  const bool is_failed = enter_call(OS_FAKE_REMAP, start, size);
  if (!is_failed) {
    range_set((range_t){(uint8_t*)start, (uint8_t*)start + size, OS_FAKE_COMMITTED, ADVICE_NONE,
                        RANGE_ORIGIN_MAPPED});
    real_protect(start, size, PROT_READ | PROT_WRITE);
    real_discard(start, size);
  }
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

MI_INTERNAL uint64_t mi_os_now_ms(void) {
  pthread_mutex_lock(&lock);
  enter_call(OS_FAKE_CLOCK, NULL, 0);
  const uint64_t now = os_fake.now_us / 1000;
  pthread_mutex_unlock(&lock);
  return now;
}

MI_INTERNAL uint64_t mi_os_now_us(void) {
  pthread_mutex_lock(&lock);
  enter_call(OS_FAKE_CLOCK, NULL, 0);
  const uint64_t now = os_fake.now_us;
  pthread_mutex_unlock(&lock);
  return now;
}

MI_INTERNAL bool mi_os_was_away(uint64_t* mark) {
  pthread_mutex_lock(&lock);
  const bool was_away = os_fake.now_us - *mark >= OS_FAKE_AWAY_US;
  *mark = os_fake.now_us;
  pthread_mutex_unlock(&lock);
  return was_away;
}

// No test makes threads in the child of a fork.
// The references of api_new.c reach the C++ library, if there is one.
MI_INTERNAL bool mi_os_cxx_call_handler(size_t size) {
  (void)size;
  return false;
}

MI_INTERNAL void mi_os_cxx_throw(void) {}

MI_INTERNAL bool mi_os_is_alone(void) { return getpid() != process; }

MI_INTERNAL bool mi_os_is_vfork_child(void) { return false; }

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  for (size_t i = 0; i < count; i++) words[i] = mi_os_random();
}

MI_INTERNAL uint64_t mi_os_random(void) {
  pthread_mutex_lock(&lock);
  const uint64_t bits = mi_random_mix(++os_fake.random);
  pthread_mutex_unlock(&lock);
  return bits;
}

MI_INTERNAL bool mi_os_is_single_threaded(void) { return os_fake.is_single_threaded; }

MI_INTERNAL void mi_os_expect_threads(void) { os_fake.is_single_threaded = false; }

MI_INTERNAL const char* mi_os_environment(const char* name) {
  return os_fake.environment != NULL ? os_fake.environment(name) : NULL;
}

MI_INTERNAL int mi_os_environment_wide(const wchar_t* name, wchar_t* value, size_t* size) {
  (void)name, (void)value;
  *size = 0;
  return ENOSYS;
}

MI_INTERNAL mi_os_environment_t mi_os_environment_look(const char* prefix) {
  (void)prefix;
  return os_fake.environment != NULL ? MI_OS_ENVIRONMENT_WITH : MI_OS_ENVIRONMENT_WITHOUT;
}

MI_INTERNAL void mi_os_write_error(const char* text, size_t length) {
  fwrite(text, 1, length, stderr);
}

MI_INTERNAL bool mi_os_thread_watch(void* value) {
  if (!os_fake.has_thread_watch) return false;
  pthread_mutex_lock(&lock);
  const bool has_key = has_exit_key;
  pthread_mutex_unlock(&lock);
  return has_key &&
         (pthread_getspecific(exit_key) != NULL || pthread_setspecific(exit_key, value) == 0);
}

MI_INTERNAL bool mi_os_thread_on_exit(void (*on_exit)(void* value), void* value) {
  pthread_mutex_lock(&lock);
  const bool is_failed = enter_call(OS_FAKE_THREAD_KEY, NULL, 0);
  if (!is_failed && !has_exit_key) has_exit_key = pthread_key_create(&exit_key, on_exit) == 0;
  const bool is_done = !is_failed && has_exit_key && pthread_setspecific(exit_key, value) == 0;
  pthread_mutex_unlock(&lock);
  return is_done;
}

MI_INTERNAL void mi_os_thread_key_done(void) {
  if (has_exit_key) pthread_key_delete(exit_key);
  has_exit_key = false;
}

MI_INTERNAL int mi_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  if (os_fake.on_at_fork != NULL) os_fake.on_at_fork();
  pthread_mutex_lock(&lock);
  const bool is_failed = enter_call(OS_FAKE_AT_FORK, NULL, 0);
  if (!is_failed) {
    os_fake.fork_prepare = prepare;
    os_fake.fork_parent = parent;
    os_fake.fork_child = child;
  }
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

struct mi_os_family_s {
  char any;
};

static mi_os_family_t family;

MI_INTERNAL mi_os_family_t* mi_os_family_create(void) {
  if (!os_fake.has_family) return NULL;
  os_fake.families++;
  return &family;
}

MI_INTERNAL void mi_os_family_join(mi_os_family_t* joined) {
  if (joined != &family) misuse("a process joins what is no family", joined, 0);
  os_fake.family_members++;
}

MI_INTERNAL bool mi_os_family_is_alone(mi_os_family_t* asked) {
  if (asked != &family) misuse("a process asks what is no family", asked, 0);
  return os_fake.is_alone;
}

MI_INTERNAL void mi_os_family_end(mi_os_family_t* ended) {
  if (ended != &family || os_fake.families != 1) misuse("no family ends", ended, 0);
  os_fake.families--;
}

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  memset(usage, 0, sizeof(*usage));
  usage->rss = os_fake_resident_all();
}

MI_INTERNAL size_t mi_os_numa_nodes(void) { return mi_bits_max(os_fake.numa_nodes, 1); }

MI_INTERNAL size_t mi_os_numa_node(void) { return os_fake.numa_node; }

MI_INTERNAL int mi_os_prefer_node(void* start, size_t size, size_t node) {
  pthread_mutex_lock(&lock);
  check_range("a node for what is not mapped", start, size, OS_FAKE_RESERVED);
  if (node >= mi_os_numa_nodes()) misuse("no such node", start, node);
  const bool is_failed = enter_call(OS_FAKE_PREFER_NODE, start, size);
  os_fake.preferred_node = node;
  pthread_mutex_unlock(&lock);
  return is_failed ? ENOMEM : 0;
}

// The stacks and symbols of a system that cannot tell, and faults that it does not show us.
MI_INTERNAL bool mi_os_fault_watch(void (*on_fault)(const mi_os_fault_t* fault)) {
  (void)on_fault;
  return false;
}

MI_INTERNAL void mi_os_fault_unwatch(void) {}

MI_INTERNAL void mi_os_stack_prepare(void) {}

MI_INTERNAL size_t mi_os_stack(const void** frames, size_t capacity) {
  (void)frames;
  (void)capacity;
  return 0;
}

MI_INTERNAL void mi_os_symbol(const void* at, mi_os_symbol_t* symbol) {
  (void)at;
  *symbol = (mi_os_symbol_t){NULL, 0, NULL, 0};
}

MI_INTERNAL size_t mi_os_thread_number(void) { return 1; }

MI_INTERNAL size_t mi_os_process_number(void) { return 1 + os_fake.is_child; }

// There are no files here, and nothing is mapped.
MI_INTERNAL int mi_os_file_create(const char* path, int* file) {
  *file = -1;
  return path[0] == 0 ? ENOENT : EROFS;
}

MI_INTERNAL int mi_os_file_write(int file, const void* bytes, size_t size) {
  return file < 0 && bytes != NULL && size > 0 ? EBADF : 0;
}

MI_INTERNAL int mi_os_file_close(int file) { return file < 0 ? EBADF : 0; }

MI_INTERNAL int mi_os_resident_pages(const void* start, size_t size, uint8_t* pages) {
  pthread_mutex_lock(&lock);
  check_range("what is resident of what is not mapped", start, size, OS_FAKE_RESERVED);
  for (size_t i = 0; i < size / os_fake.page_size; i++) {
    const uint8_t* const page = (const uint8_t*)start + i * os_fake.page_size;
    const bool is_there = os_fake_resident(page, os_fake.page_size) > 0;
    pages[i] = is_there ? MI_OS_RESIDENT | MI_OS_RESIDENT_OWN : 0;
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

MI_INTERNAL void mi_os_resident_sum(mi_os_resident_t* sum) { *sum = (mi_os_resident_t){0}; }

MI_INTERNAL bool mi_os_limit(mi_os_limit_t* limit) {
  pthread_mutex_lock(&lock);
  os_fake.count[OS_FAKE_LIMIT]++;
  *limit = os_fake.limit;
  limit->used += os_fake_resident_all();
  pthread_mutex_unlock(&lock);
  return os_fake.has_limit;
}

MI_INTERNAL bool mi_os_file_exists(const char* path) { return path == NULL; }

MI_INTERNAL int mi_os_folder_open(const char* path, int* folder) {
  *folder = -1;
  return path[0] == 0 ? ENOENT : ENOSYS;
}

MI_INTERNAL int mi_os_folder_read(int folder, const char* name, char* text, size_t capacity) {
  text[0] = 0;
  return folder < 0 || name[0] == 0 || capacity == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL int mi_os_folder_create(int folder, const char* name, int* file) {
  *file = -1;
  return folder < 0 || name[0] == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL int mi_os_folder_rename(int folder, const char* from, const char* to) {
  return folder < 0 || from[0] == 0 || to[0] == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL int mi_os_folder_remove(int folder, const char* name) {
  return folder < 0 || name[0] == 0 ? EBADF : ENOSYS;
}

MI_INTERNAL bool mi_os_mappings(bool (*visit)(const mi_os_mapping_t* mapping, void* arg),
                                void* arg) {
  return visit == NULL && arg == NULL;
}

MI_INTERNAL _Noreturn void mi_os_abort(const char* text) {
  fputs(text, stderr);
  abort();
}

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  if (mi_atomic_load_relaxed(word) == value) sched_yield();
}

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  if (ms > 0) mi_os_wait(word, value);
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) { (void)word; }

// A system with one thread only: tests call mi_retain_tick.
MI_INTERNAL int mi_os_thread_start(mi_os_thread_t* thread, void (*run)(void)) {
  (void)thread;
  (void)run;
  return ENOSYS;
}

MI_INTERNAL void mi_os_thread_join(mi_os_thread_t thread) { (void)thread; }

MI_INTERNAL int mi_os_real_path(const char* path, char* resolved) {
  (void)path;
  (void)resolved;
  return ENOSYS; // there are no files
}

// -- questions of tests --

void os_fake_advance_ms(uint64_t ms) {
  pthread_mutex_lock(&lock);
  os_fake.now_us += ms * 1000;
  pthread_mutex_unlock(&lock);
}

void os_fake_be_slow(void) { os_fake_advance_ms(1); }

size_t os_fake_calls(os_fake_call_t call) {
  return call == OS_FAKE_FALLIBLE ? os_fake.fallible_count : os_fake.count[call];
}

void os_fake_take(void* start, size_t size) {
  pthread_mutex_lock(&lock);
  uint8_t* const p = (uint8_t*)start;
  if (range_bytes(OS_FAKE_TAKEN, p, p + size) != 0) misuse("taken twice", start, size);
  range_set((range_t){p, p + size, OS_FAKE_TAKEN, ADVICE_NONE, next_origin++});
  pthread_mutex_unlock(&lock);
}

size_t os_fake_resident(const void* start, size_t size) {
  static _Thread_local unsigned char present[MI_KIB * 64];
  const size_t real_page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t unit = os_fake.page_size > real_page ? os_fake.page_size : real_page;
  const size_t step = sizeof(present) * real_page;
  const uint8_t* const first = (const uint8_t*)mi_bits_align_down((uintptr_t)start, unit);
  const size_t length = mi_bits_align_up((size_t)((const uint8_t*)start - first) + size, unit);
  size_t bytes = 0;
  for (size_t at = 0; at < length; at += step) {
    const size_t count = mi_bits_min(length - at, step) / real_page;
    if (mincore((void*)(uintptr_t)(first + at), count * real_page, present) != 0) {
      // User-mode emulators do not look into memory without access, which has nothing resident.
      // Access changes slice by slice.
      const size_t part = mi_bits_max(MI_SLICE_SIZE / real_page, 1);
      for (size_t i = 0; i < count; i += part) {
        const size_t pages = mi_bits_min(part, count - i);
        uint8_t* const p = (uint8_t*)(uintptr_t)(first + at + i * real_page);
        if (mincore(p, pages * real_page, &present[i]) != 0) memset(&present[i], 0, pages);
      }
    }
    for (size_t i = 0; i < count; i += unit / real_page) {
      bool is_present = false;
      for (size_t j = 0; j < unit / real_page; j++) is_present |= (present[i + j] & 1) != 0;
      if (is_present) bytes += unit;
    }
  }
  return bytes;
}

size_t os_fake_resident_all(void) {
  size_t bytes = 0;
  for (size_t i = 0; i < range_count; i++) {
    if (ranges[i].state != OS_FAKE_COMMITTED) continue;
    bytes += os_fake_resident(ranges[i].start, (size_t)(ranges[i].end - ranges[i].start));
  }
  return bytes;
}

size_t os_fake_mapping_count(void) { return range_count; }

os_fake_state_t os_fake_state(const void* p) {
  const size_t i = range_find((const uint8_t*)p);
  const bool is_inside = i < range_count && ranges[i].start <= (const uint8_t*)p;
  return is_inside ? ranges[i].state : OS_FAKE_UNMAPPED;
}

bool os_fake_is_one_mapping(const void* start, size_t size) {
  const size_t i = range_find((const uint8_t*)start);
  return i < range_count && ranges[i].start <= (const uint8_t*)start &&
         ranges[i].end >= (const uint8_t*)start + size;
}

static range_advice_t advice_at(const uint8_t* p) {
  const size_t i = range_find(p);
  return i < range_count && ranges[i].start <= p ? (range_advice_t)ranges[i].advice : ADVICE_NONE;
}

bool os_fake_has_huge_advice(const void* p) { return advice_at((const uint8_t*)p) == ADVICE_HUGE; }
bool os_fake_has_small_advice(const void* p) {
  return advice_at((const uint8_t*)p) == ADVICE_SMALL;
}
