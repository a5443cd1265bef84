// SPDX-License-Identifier: MIT
// os.h - the contract between the allocator and an operating system.
//
// Mechanism only: no options, no messages, no retries, no policy. This folder is the only place
// (with `src/override`) where operating-system macros may appear. An implementation is one file,
// chosen in os.c; the unit tests bring their own (test/lib/os_fake.c), with other page sizes,
// failing calls and a clock of its own.
//
// Rules for every function: callable before libc is initialised and after `exit`; never allocates;
// preserves `errno` (so that `free` does); is no point where a thread is cancelled. A function that
// can fail returns an errno value, 0 for success, or NULL / false as said.
//
// A port writes these functions, os/tls.h and os/lock.h, nothing else.
#ifndef MI_OS_OS_H
#define MI_OS_OS_H

#include "../base/atomic.h"
#include "../base/bits.h"

typedef struct mi_os_info_s {
  size_t page_size; // bytes; a power of two, read at run time
  size_t huge_page_size; // bytes, as the processor has it; the system may give none
  size_t address_bits; // user addresses are below 2^address_bits
  bool has_overcommit; // reserved read-write memory is not charged until touched
  bool is_setuid; // runs with raised privileges: ignore the environment
} mi_os_info_t;

typedef enum mi_os_access_e {
  MI_OS_NO_ACCESS, // reserve addresses only
  MI_OS_READ_WRITE, // usable at once; reads as zero
} mi_os_access_t;

// Fill in `info`. Called once, before any other function.
MI_INTERNAL void mi_os_init(mi_os_info_t* info);

// Whether this process lets us choose addresses: hints of mappings are followed where nothing else
// is. Not beside a sanitizer, which has fixed ranges of its own.
MI_INTERNAL bool mi_os_hints(void);

// Map `size` bytes of private zero memory whose address is a multiple of `alignment` (a power of
// two, at least the page size). `hint` is where the memory should go if that is free, or NULL; it
// may be elsewhere in any case.
// NULL when the system refuses. `size` is a multiple of the page size.
MI_INTERNAL void* mi_os_map(void* hint, size_t size, size_t alignment, mi_os_access_t access);

// The same in explicit OS pages of `os_page_size` bytes, aligned to that; `size` is a multiple of
// it. All of it is there when it is touched: it is never given back but by `mi_os_unmap`. NULL when
// the system has not that many such pages.
MI_INTERNAL void* mi_os_map_large(void* hint, size_t size, size_t os_page_size);

// Map exactly [start, start + size), all of whose addresses are free, as `mi_os_map` does. False:
// some of them are taken, or the system refuses; then nothing has changed, whoever they belong to.
MI_INTERNAL bool mi_os_map_at(void* start, size_t size, mi_os_access_t access);

// Give back a mapping or part of one. Returns 0 or an errno value (a split may need a new map
// entry).
MI_INTERNAL int mi_os_unmap(void* start, size_t size);

// Make reserved memory usable / unusable. After commit of memory that was never used or was
// decommitted it reads as zero.
MI_INTERNAL int mi_os_commit(void* start, size_t size);
MI_INTERNAL int mi_os_decommit(void* start, size_t size);

// Drop the contents at once: the memory stays usable, reads as zero, and no longer counts as
// resident.
MI_INTERNAL int mi_os_purge(void* start, size_t size);

// Let the system take the memory when it is short (cheaper, but it still counts as resident).
MI_INTERNAL int mi_os_reset(void* start, size_t size);

// Fault the range in with one call; or in huge pages, if the system has any (afterwards the range
// is advised to have none: those there are stay). A failure has no effect.
MI_INTERNAL int mi_os_populate(void* start, size_t size);
MI_INTERNAL int mi_os_populate_huge(void* start, size_t size);

// Whether a range may have huge pages. A hint; failure has no effect.
typedef enum mi_os_pages_e { MI_OS_SMALL, MI_OS_HUGE } mi_os_pages_t;
MI_INTERNAL int mi_os_huge_pages(void* start, size_t size, mi_os_pages_t pages);

// Move the contents of [from, from+size) to [to, to+size) by remapping; both are read-write
// mappings. Afterwards `from` is still mapped and reads as zero. ENOSYS: the system cannot do this,
// and nothing happened. Otherwise nothing was moved, but `to` may be unmapped now (Linux unmaps it
// before it looks at the limits), and by the time this returns anybody may have mapped something
// there: it is ours again only after `mi_os_map_at`.
MI_INTERNAL int mi_os_move(void* from, void* to, size_t size);

// Replace what is mapped there by fresh zero memory that can merge with its neighbours. All of it
// must be ours: what somebody else mapped would be gone.
MI_INTERNAL int mi_os_remap(void* start, size_t size);

// Make memory of the library itself read-only. A hint; failure has no effect.
MI_INTERNAL void mi_os_make_constant(void* start, size_t size);

// Milliseconds of a clock that never goes back. Cheap (no kernel entry where possible).
MI_INTERNAL uint64_t mi_os_now_ms(void);

// Microseconds of such a clock, exact.
MI_INTERNAL uint64_t mi_os_now_us(void);

// Some unpredictable bits, without blocking; possibly weak, and the same in each call.
MI_INTERNAL uint64_t mi_os_random(void);

// Whether one or two milliseconds or more have passed since the last call with the same `mark`: the
// calling thread waited, or others ran in its place. 0 is long ago. Never enters the kernel.
MI_INTERNAL bool mi_os_was_away(uint64_t* mark);

// Whether no other thread uses the memory of the calling one, in this process or another. May say
// false when the system does not tell. For who would wait for another thread: it asks the system.
MI_INTERNAL bool mi_os_is_alone(void);

// True when the process has only ever had one thread. May say false too early, never true too late:
// the creation of a thread orders this read. What the system does not know of it is told by the
// next.
MI_INTERNAL bool mi_os_is_single_threaded(void);

// From now on there may be threads that were made without the knowledge of our libc, as by another
// copy of it: the above is false for good. To be called while there is none; whoever finds one
// later calls it too, and then nothing is worse than it was.
MI_INTERNAL void mi_os_expect_threads(void);

// Value of environment variable `name` (compared without case), or NULL.
MI_INTERNAL const char* mi_os_environment(const char* name);

typedef enum mi_os_environment_e {
  MI_OS_ENVIRONMENT_UNKNOWN, // not known yet: libc is not ready
  MI_OS_ENVIRONMENT_WITHOUT,
  MI_OS_ENVIRONMENT_WITH,
} mi_os_environment_t;

// Whether some variable's name starts with `prefix` (compared without case). One pass over the
// environment.
MI_INTERNAL mi_os_environment_t mi_os_environment_look(const char* prefix);

// Write to the standard error stream, without buffering.
MI_INTERNAL void mi_os_write_error(const char* text, size_t length);

// Call `on_exit` with `value` when the calling thread ends, once for each non-NULL value set.
// The first call of a process makes the key. False when the system has no key left.
MI_INTERNAL bool mi_os_thread_on_exit(void (*on_exit)(void* value), void* value);
MI_INTERNAL void mi_os_thread_key_done(void);

// Have that function called for the calling thread too, with `value` if none is set yet. Never
// allocates, locks or waits, unlike the above. False: cannot be done, or not yet.
MI_INTERNAL bool mi_os_thread_watch(void* value);

// Register the three fork callbacks (pthread_atfork). Returns 0 or an errno value.
MI_INTERNAL int mi_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

// Whether the library is about to be unloaded by dlclose, in a process that goes on. Its
// destructor runs then, but also at the end of the process. The constructor calls `watch`, the
// destructor `is_unloaded`, once. False also when that cannot be told.
MI_INTERNAL void mi_os_unload_watch(void);
MI_INTERNAL bool mi_os_is_unloaded(void);

typedef struct mi_os_usage_s {
  size_t elapsed_ms, user_ms, system_ms; // since the process started
  size_t rss, rss_peak; // bytes
  size_t page_faults; // major faults
} mi_os_usage_t;

// What the kernel says about this process.
MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage);

// Number of NUMA nodes, at least 1, and the one that the calling thread runs on.
MI_INTERNAL size_t mi_os_numa_nodes(void);
MI_INTERNAL size_t mi_os_numa_node(void);

// Memory of the range that is not there yet comes from `node` if that has any. A hint; failure has
// no effect.
MI_INTERNAL int mi_os_prefer_node(void* start, size_t size, size_t node);

// The end of the process, with `text` on the standard error stream.
MI_INTERNAL _Noreturn void mi_os_abort(const char* text);

#endif
