// SPDX-License-Identifier: MIT
// os_wasm.c - os.h on WebAssembly, with the C library of WASI or of Emscripten; addresses have 32
// bits.
//
//   0 | data, stack | others' | ours | free | ours ... | end -->  sbrk, which is memory.grow
//
// Memory has one end, which only moves up: nothing goes back to the system, and nothing can be made
// inaccessible. Ranges that are unmapped are kept, by pages of 64 KiB, and are what is mapped next:
// a bit for each page that an address of 32 bits can have.
//
// OS_WASM-1  a page is free (its bit is set), or in one of our mappings, or above the end, or not
//     ours: others call sbrk, too. Pages between what they took and the next page are skipped.
// OS_WASM-2  what others never had reads as zero, because nobody moves the end down: neither
//     library's malloc does. Free pages are cleared when they are mapped.
// OS_WASM-3  no function of memory uses the thread-local state: a new thread of Emscripten asks for
//     memory before it has any (override_emscripten.c). So the lock is a bare word.
// OS_POSIX-1 and OS_POSIX-2 hold here, too; a thread is not cancelled amid a call.
//
// Deliberately absent: purging, threads of our own, huge pages, guards, NUMA nodes, faults, stacks,
// fork. By default the options ask for none of these (base/config.h, base/defaults.h).
#include <string.h>

#include "lock.h"
#include "os_libc.h"
#include "tls.h"

#if MI_IS_WASM_THREADS && defined(__EMSCRIPTEN__)
#include <emscripten/threading.h>
#endif

mi_static_assert(MI_IS_32_BIT, "of the memory of 64-bit programs there is no port yet");

#define MI_OS_PAGE ((size_t)64 * MI_KIB)
#define MI_OS_PAGES ((size_t)65536)
#define MI_OS_NONE SIZE_MAX
// Small mappings are structures of the library. So that these do not end up behind an arena, which
// could not grow in place then, the first large mapping leaves room for some below.
#define MI_OS_SMALL ((size_t)2) // pages
#define MI_OS_ROOM ((size_t)4)

// -- lock.h --

#if MI_IS_WASM_THREADS

// The main thread of a browser may not sleep. Others hold our locks for a moment only.
static bool mi_os_may_sleep(void) {
#if defined(__EMSCRIPTEN__)
  return !emscripten_is_main_browser_thread();
#else
  return true;
#endif
}

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) {
  if (mi_os_may_sleep()) __builtin_wasm_memory_atomic_wait32((int*)word, (int)value, -1);
}

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) {
  __builtin_wasm_memory_atomic_notify((int*)word, 1);
}

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  const int64_t ns = ms > INT64_MAX / 1000000 ? -1 : (int64_t)ms * 1000000;
  if (mi_os_may_sleep()) __builtin_wasm_memory_atomic_wait32((int*)word, (int)value, ns);
}

#else // nobody else holds a lock

MI_INTERNAL void mi_os_wait(mi_atomic(uint32_t) * word, uint32_t value) { (void)word, (void)value; }

MI_INTERNAL void mi_os_wake(mi_atomic(uint32_t) * word) { (void)word; }

MI_INTERNAL void mi_os_wait_ms(mi_atomic(uint32_t) * word, uint32_t value, uint64_t ms) {
  (void)word, (void)value, (void)ms;
}

#endif

// -- Memory --

// The lock of what follows: 0 free, 1 held, 2 held while a thread sleeps (lock.h).
//   write  any     CAS, swap acquire  mi_os_memory_enter  (sees what the last holder wrote)
//   write  holder  swap release       mi_os_memory_leave  (publishes what was written under it)
static mi_atomic(uint32_t) mi_os_memory_word;
static uint64_t mi_os_free[MI_OS_PAGES / 64];
static size_t mi_os_free_count;

static void mi_os_memory_enter(void) {
  uint32_t expected = 0;
  // Pairs with the release in `mi_os_memory_leave`.
  if (mi_atomic_cas_strong_acquire(&mi_os_memory_word, &expected, 1)) return;
  // Pairs with that, too.
  while (mi_atomic_swap_acquire(&mi_os_memory_word, 2) != 0) mi_os_wait(&mi_os_memory_word, 2);
}

static void mi_os_memory_leave(void) {
  // Publishes what was written under the lock; pairs with the acquires in `mi_os_memory_enter`.
  if (mi_atomic_swap_release(&mi_os_memory_word, 0) == 2) mi_os_wake(&mi_os_memory_word);
}

static bool mi_os_is_free(size_t page) { return (mi_os_free[page / 64] >> page % 64 & 1) != 0; }

static void mi_os_note(size_t first, size_t end, bool is_free) {
  for (size_t page = first; page < end; page++) {
    if (mi_os_is_free(page) == is_free) continue;
    mi_os_free[page / 64] ^= (uint64_t)1 << page % 64;
    mi_os_free_count += is_free ? 1 : SIZE_MAX;
  }
}

// Return the first free run of `count` pages at a multiple of `alignment` pages.
static size_t mi_os_find(size_t count, size_t alignment) {
  if (count > mi_os_free_count) return MI_OS_NONE;
  size_t first = 0;
  size_t length = 0;
  for (size_t page = 0; page < MI_OS_PAGES; page++) {
    if (page % 64 == 0 && mi_os_free[page / 64] == 0) {
      length = 0;
      page += 63;
    } else if (!mi_os_is_free(page)) {
      length = 0;
    } else {
      if (length == 0 && page % alignment != 0) continue;
      if (length == 0) first = page;
      if (++length == count) return first;
    }
  }
  return MI_OS_NONE;
}

// Return the page behind the last one that has any memory.
static size_t mi_os_end(void) { return mi_bits_divide_up((uintptr_t)sbrk(0), MI_OS_PAGE); }

// Move the end to that of page `end`. Pages up to there become free. False if the system refuses.
static bool mi_os_grow(size_t end) {
  while (mi_os_end() < end) {
    const uintptr_t from = (uintptr_t)sbrk(0);
    const size_t size = end * MI_OS_PAGE - from;
    if (end >= MI_OS_PAGES || size > PTRDIFF_MAX) return false;
    void* const p = sbrk((intptr_t)size);
    if (p == (void*)-1) return false;
    // Another thread may have moved the end meanwhile: it is the next round's task to go on.
    mi_os_note(mi_bits_divide_up((uintptr_t)p, MI_OS_PAGE), ((uintptr_t)p + size) / MI_OS_PAGE,
               true);
  }
  return true;
}

// Take exactly these pages, if those up to the end are free. Stores how many of them need not read
// as zero: the first ones. False if some are not free, or the system refuses.
static bool mi_os_take(size_t first, size_t count, size_t* used) {
  const size_t end = mi_os_end();
  if (first >= MI_OS_PAGES || count >= MI_OS_PAGES - first) return false;
  *used = first < end ? mi_bits_min(count, end - first) : 0;
  for (size_t page = first; page < first + *used; page++) {
    if (!mi_os_is_free(page)) return false;
  }
  if (!mi_os_grow(first + count)) return false;
  for (size_t page = first + *used; page < first + count; page++) {
    if (!mi_os_is_free(page)) return false; // another caller of sbrk came between
  }
  mi_os_note(first, first + count, false);
  return true;
}

// Take pages at the end, with the free ones that are there.
static size_t mi_os_take_last(size_t count, size_t alignment, size_t* used) {
  const size_t end = mi_os_end();
  size_t first = end;
  while (first > 0 && mi_os_is_free(first - 1)) first--;
  const size_t room = MI_OS_ROOM - mi_bits_min(MI_OS_ROOM, mi_os_free_count);
  if (count > MI_OS_SMALL && first == end && room > 0) {
    first = mi_bits_align_up(end + room, alignment);
    if (mi_os_take(first, count, used)) return first;
    first = end;
  }
  first = mi_bits_align_up(first, alignment);
  return mi_os_take(first, count, used) ? first : MI_OS_NONE;
}

MI_INTERNAL void* mi_os_map(void* hint, size_t size, size_t alignment, mi_os_access_t access) {
  (void)hint, (void)access;
  const int saved_errno = errno;
  const size_t count = size / MI_OS_PAGE;
  const size_t pages = mi_bits_max(alignment / MI_OS_PAGE, 1);
  size_t used = count;
  mi_os_memory_enter();
  size_t first = mi_os_find(count, pages);
  if (first != MI_OS_NONE) {
    mi_os_note(first, first + count, false);
  } else {
    first = mi_os_take_last(count, pages, &used);
  }
  mi_os_memory_leave();
  errno = saved_errno;
  if (first == MI_OS_NONE) return NULL;
  void* const start = (void*)(first * MI_OS_PAGE);
  memset(start, 0, used * MI_OS_PAGE);
  return start;
}

MI_INTERNAL bool mi_os_map_at(void* start, size_t size, mi_os_access_t access) {
  (void)access;
  const int saved_errno = errno;
  size_t used = 0;
  mi_os_memory_enter();
  const bool is_taken = mi_os_take((uintptr_t)start / MI_OS_PAGE, size / MI_OS_PAGE, &used);
  mi_os_memory_leave();
  errno = saved_errno;
  if (is_taken) memset(start, 0, used * MI_OS_PAGE);
  return is_taken;
}

MI_INTERNAL int mi_os_unmap(void* start, size_t size) {
  const size_t first = (uintptr_t)start / MI_OS_PAGE;
  mi_os_memory_enter();
  mi_os_note(first, first + size / MI_OS_PAGE, true);
  mi_os_memory_leave();
  return 0;
}

// Addresses are chosen only to go on where a mapping ends.
MI_INTERNAL bool mi_os_hints(void) { return true; }

MI_INTERNAL int mi_os_commit(void* start, size_t size) {
  (void)start, (void)size;
  return 0;
}

MI_INTERNAL int mi_os_purge(void* start, size_t size) {
  memset(start, 0, size);
  return 0;
}

MI_INTERNAL int mi_os_decommit(void* start, size_t size) { return mi_os_purge(start, size); }

MI_INTERNAL int mi_os_remap(void* start, size_t size) { return mi_os_purge(start, size); }

MI_INTERNAL int mi_os_reset(void* start, size_t size) { return mi_os_commit(start, size); }

MI_INTERNAL void mi_os_make_constant(void* start, size_t size) { (void)start, (void)size; }

MI_INTERNAL bool mi_os_is_readable(const void* p) {
  return (uintptr_t)p / MI_OS_PAGE < __builtin_wasm_memory_size(0);
}

// -- What there is not, beside os_lacks.c --

MI_INTERNAL bool mi_os_fault_watch(void (*on_fault)(const mi_os_fault_t* fault)) {
  (void)on_fault;
  return false;
}

MI_INTERNAL void mi_os_fault_unwatch(void) {}

MI_INTERNAL void mi_os_stack_prepare(void) {}

MI_INTERNAL size_t mi_os_stack(const void** frames, size_t capacity) {
  (void)frames, (void)capacity;
  return 0;
}

MI_INTERNAL void mi_os_symbol(const void* at, mi_os_symbol_t* symbol) {
  (void)at;
  *symbol = (mi_os_symbol_t){0};
}

MI_INTERNAL int mi_os_real_path(const char* path, char* resolved) {
#if defined(__EMSCRIPTEN__)
  const int saved_errno = errno;
  const int err = realpath(path, resolved) == NULL ? errno : 0;
  errno = saved_errno;
  return err;
#else
  (void)path, (void)resolved;
  return ENOSYS;
#endif
}

// There is no fork: no handler is missing.
MI_INTERNAL int mi_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  (void)prepare, (void)parent, (void)child;
  return 0;
}

// -- The process, and threads --

static uint64_t mi_os_started_ms;

MI_INTERNAL void mi_os_init(mi_os_info_t* info) {
  // Arenas need not start where a huge page could (arena.c): there is none.
  *info = (mi_os_info_t){.page_size = MI_OS_PAGE,
                         .huge_page_size = MI_OS_PAGE,
                         .address_bits = MI_ADDRESS_BITS,
                         .has_overcommit = true};
#if defined(__wasi__) && MI_IS_OVERRIDE
  // What is behind the data when a program starts is the heap; sbrk does not hand it out.
  extern char __heap_base;
  if (mi_os_started_ms == 0) {
    mi_os_note(mi_bits_divide_up((uintptr_t)&__heap_base, MI_OS_PAGE), mi_os_end(), true);
  }
#endif
  mi_os_started_ms = mi_os_now_ms();
}

MI_INTERNAL uint64_t mi_os_random(void) {
  uint64_t seed = 0;
  const int saved_errno = errno;
  if (getentropy(&seed, sizeof(seed)) != 0) seed = mi_os_now_us();
  errno = saved_errno;
  return seed;
}

MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count) {
  for (size_t i = 0; i < count; i++) words[i] = mi_os_random();
}

MI_INTERNAL bool mi_os_is_alone(void) { return !MI_IS_WASM_THREADS; }

MI_INTERNAL bool mi_os_is_single_threaded(void) { return !MI_IS_WASM_THREADS; }

MI_INTERNAL size_t mi_os_process_number(void) { return 1; }

MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage) {
  usage->elapsed_ms = (size_t)(mi_os_now_ms() - mi_os_started_ms);
  usage->rss = usage->rss_peak = (uintptr_t)sbrk(0);
}

// -- For os_libc.c --

static int mi_os_call_open(const char* path, int flags, int mode) {
  return open(path, flags, mode);
}

static ptrdiff_t mi_os_call_write(int file, const void* bytes, size_t size) {
  return write(file, bytes, size);
}

static int mi_os_call_close(int file) { return close(file); }

// -- Threads of our own: of no use, where nothing goes back to the system --

MI_INTERNAL int mi_os_thread_start(mi_os_thread_t* thread, void (*run)(void)) {
  (void)thread, (void)run;
  return ENOSYS;
}

MI_INTERNAL void mi_os_thread_join(mi_os_thread_t thread) { (void)thread; }

MI_INTERNAL void mi_os_thread_join_by(uintptr_t join) { (void)join; }

// -- The end of a thread --

#if MI_IS_WASM_THREADS

#include "os_key.c"

#else

MI_INTERNAL bool mi_os_thread_on_exit(void (*on_exit)(void* value), void* value) {
  (void)on_exit, (void)value;
  return true; // it ends with the process
}

MI_INTERNAL bool mi_os_thread_watch(void* value) {
  (void)value;
  return true;
}

MI_INTERNAL void mi_os_thread_key_done(void) {}

#endif
