// SPDX-License-Identifier: MIT
// os.h - the contract between the allocator and an operating system.
//
// The contract is about mechanisms only: no options, no messages, no retries, no policy. This
// folder is the only place (with `src/override`) where operating-system macros may appear. os.c
// chooses the implementation; the unit tests bring their own (test/lib/os_fake.c), with other page
// sizes, failing calls and a clock of its own.
//
// Rules for every function: callable before libc is initialised and after `exit`; never allocates;
// preserves `errno` (so that `free` does); is no cancellation point. A function that can fail
// returns an errno value, 0 for success, or NULL / false where its comment says so.
//
// A port implements these functions, the two of os/lock.h, os/tls.h, and os/thread_self.h where the
// compiler's thread-local variables call malloc; and nothing else. A system with POSIX has most of
// them from os_posix.c and os_posix_fault.c, and the rest to start with from os_plain.c, or a part
// of that from os_cancel.c and os_common.c. Less is enough for os_libc.c, a C library; for
// os_key.c, keys of threads; for os_lacks.c and os_no_family.c, nothing. Which of the functions
// below may say no shows os_wasm.c, a port to a system that has hardly anything.
//
// How much a function must do:
//
//   must do it     init, map, unmap, commit, decommit, purge, remap; now_ms, now_us; random;
//                  write_error, abort; wait, wake; mi_tls_thread_id
//   may say no     function                         what is lost then
//                  map_at, hints                    arenas do not grow in place
//                  reset                            what purge does, at once
//                  map_large, populate, populate_huge, has_huge_pages, huge_pages, collapse, split,
//                  is_nonzero                       huge pages
//                  family_create                    huge pages of old memory after a fork
//                  move                             a large block that grows is copied
//                  guard, unguard                   guards cost two mappings each
//                  prefer_node, numa_nodes, numa_node  NUMA nodes
//                  is_single_threaded, is_alone     short ways of processes with one thread
//                  is_vfork_child                   its parent loses the purge thread when such a
//                                                   child gives up rights
//                  thread_on_exit                   what a thread that ends has, until another
//                                                   one with its identity comes
//                  thread_watch, was_away           speed of frees by other threads
//                  thread_start                     idle programs keep memory
//                  at_fork                          the child of a fork may not allocate, if the
//                                                   process had other threads
//                  environment                      options from there
//                  environment_wide                 mi_wdupenv_s
//                  is_readable                      what a report says of memory
//                  resident_pages, resident_sum     mi_explain says what is charged instead
//                  limit                            less memory waits where little is left
//                  real_path                        mi_realpath
//                  file_exists, folder_open         commands for a running process
//                  fault_watch, stack, symbol, mappings, file_create  reports of faults; profiles
//   need not       make_constant, secret, tag_maps, unload_watch, usage: what they say is used as
//                  it is
#ifndef MI_OS_OS_H
#define MI_OS_OS_H

#include "../base/atomic.h"
#include "../base/bits.h"

typedef struct mi_os_info_s {
  size_t page_size; // bytes; a power of two, read at run time
  size_t huge_page_size; // bytes, as the processor defines it; the system may have none
  size_t address_bits; // user addresses are below 2^address_bits
  bool has_overcommit; // reserved read-write memory is not charged until touched
  bool has_tags; // what is mapped from now on has tags, and all threads check them (base/tag.h)
  bool is_setuid; // runs with raised privileges: ignore the environment
} mi_os_info_t;

typedef enum mi_os_access_e {
  MI_OS_NO_ACCESS, // reserve addresses only
  MI_OS_READ_WRITE, // usable at once; reads as zero
} mi_os_access_t;

// Fill in `info`. Called once, before any other function.
MI_INTERNAL void mi_os_init(mi_os_info_t* info);

// True if this process lets us choose addresses, so that hints are followed where no other mapping
// is. False beside a sanitizer, which has fixed ranges of its own.
MI_INTERNAL bool mi_os_hints(void);

// Map `size` bytes of private zero memory whose address is a multiple of `alignment` (a power of
// two, at least the page size). `hint` is where the memory should go if that is free, or NULL; the
// system may place it elsewhere in any case.
// NULL when the system refuses. `size` is a multiple of the page size.
MI_INTERNAL void* mi_os_map(void* hint, size_t size, size_t alignment, mi_os_access_t access);

// The same in explicit OS pages of `os_page_size` bytes, aligned to that; `size` is a multiple of
// it. All of the memory is set aside now; it goes back only by `mi_os_unmap`. NULL when the system
// has too few such pages.
MI_INTERNAL void* mi_os_map_large(void* hint, size_t size, size_t os_page_size);

// Map exactly [start, start + size), all of whose addresses are free, as `mi_os_map` does. False if
// some of them are taken, or the system refuses; then no mapping has changed.
MI_INTERNAL bool mi_os_map_at(void* start, size_t size, mi_os_access_t access);

// What is mapped from now on has this number where the system shows mappings: on macOS (vmmap).
#if MI_IS_MACOS && !MI_IS_OS_PLAIN
MI_INTERNAL void mi_os_tag_maps(uint32_t number);
#else
static inline void mi_os_tag_maps(uint32_t number) { (void)number; }
#endif

// Give back a mapping or part of one. Returns 0 or an errno value (a split may need a new map
// entry).
MI_INTERNAL int mi_os_unmap(void* start, size_t size);

// Make reserved memory usable / unusable. After a commit, memory that was never used or was
// decommitted reads as zero.
MI_INTERNAL int mi_os_commit(void* start, size_t size);
MI_INTERNAL int mi_os_decommit(void* start, size_t size);

// Drop the contents at once: the memory stays usable, reads as zero, and no longer counts as
// resident. Where MI_OS_PURGE_REMAPS, by a mapping of our own in its place: not for memory that the
// program mapped, maybe from a file.
#define MI_OS_PURGE_REMAPS (MI_IS_OS_PLAIN || MI_IS_BSD || MI_IS_MACOS)
MI_INTERNAL int mi_os_purge(void* start, size_t size);

// Let the system take the memory when it runs short (cheaper, but it counts as resident until
// then).
MI_INTERNAL int mi_os_reset(void* start, size_t size);

// Fault the range in with one call / in huge pages, if the system has any (afterwards the range is
// advised to get no more of them, and those that it has stay). A failure has no effect.
MI_INTERNAL int mi_os_populate(void* start, size_t size);
MI_INTERNAL int mi_os_populate_huge(void* start, size_t size);

// True once `mi_os_populate_huge` was seen to get a huge page: the system has them and permits
// them. It may never be true although it is so, but not the reverse.
MI_INTERNAL bool mi_os_has_huge_pages(void);

// Copy the range, whole huge pages of memory in use, into huge pages in place, and have the OS
// pages that were not resident read as zero; afterwards it is advised as by `mi_os_populate_huge`.
// Does so even where huge pages are forbidden. ENOSYS or EINVAL: the system cannot do this at all,
// or not with this range; any other error: not now. A failure has no effect.
MI_INTERNAL int mi_os_collapse(void* start, size_t size);

// True if a word of 32 bits, at a multiple of four, can be read, and is not 0. The system reads it:
// memory that the program has made inaccessible, or that has tags, is no mistake.
MI_INTERNAL bool mi_os_is_nonzero(const void* word);

// Before part of a huge page goes back: have it be small pages, because the system takes no part of
// a huge page before it runs short. A failure has no effect but that.
MI_INTERNAL int mi_os_split(void* start, size_t size);

// Allow or forbid huge pages in a range. A hint; failure has no effect.
typedef enum mi_os_pages_e { MI_OS_SMALL, MI_OS_HUGE } mi_os_pages_t;
MI_INTERNAL int mi_os_huge_pages(void* start, size_t size, mi_os_pages_t pages);

// Move the contents of [from, from+size) to [to, to+size) by remapping; both are read-write
// mappings. Afterwards `from` is still mapped and reads as zero. ENOSYS: the system cannot do this,
// and nothing happened. Any other error: nothing was moved, but `to` may be unmapped now (Linux
// unmaps it before it checks the limits), and by the time this returns another thread may have
// mapped something there: it is ours again only after `mi_os_map_again`.
MI_INTERNAL int mi_os_move(void* from, void* to, size_t size);
// Map read-write memory where it was ours until then, as `mi_os_map_at`, but also where addresses
// are not chosen. False if there is other memory by now, or the system refuses.
MI_INTERNAL bool mi_os_map_again(void* start, size_t size);

// Replace the mapping of a range by fresh zero memory that can merge with its neighbours. The whole
// range must be ours: mappings of others would be destroyed.
MI_INTERNAL int mi_os_remap(void* start, size_t size);

// Make a range of read-write memory inaccessible, and give its contents back, without one more
// mapping / accessible again: it reads as zero. The child of a fork inherits it. Guards stay when
// contents are purged; populating a range with guards fails; they go with the mapping, and move
// with it. False, and nothing is changed for good, if the system cannot do this: Linux before 6.13,
// or memory that is locked or in explicit huge pages.
MI_INTERNAL bool mi_os_guard(void* start, size_t size);
MI_INTERNAL bool mi_os_unguard(void* start, size_t size);

// Make memory of the library itself read-only. A hint; failure has no effect.
MI_INTERNAL void mi_os_make_constant(void* start, size_t size);

// Return the milliseconds of a clock that never goes back. Cheap (no kernel entry where possible).
MI_INTERNAL uint64_t mi_os_now_ms(void);

// Return the microseconds of such a clock, exactly.
MI_INTERNAL uint64_t mi_os_now_us(void);

// Return unpredictable bits, without blocking; possibly weak, and the same in each call.
MI_INTERNAL uint64_t mi_os_random(void);

// Fill `words` with unpredictable numbers for keys: from the generator of the system, if it is
// ready, else from `mi_os_random`. Makes a system call.
MI_INTERNAL void mi_os_secret(uint64_t* words, size_t count);

// True if at least one or two milliseconds have passed since the last call with the same `mark`:
// the calling thread waited, or others ran in its place. A mark of 0 is long ago. Never enters the
// kernel.
MI_INTERNAL bool mi_os_was_away(uint64_t* mark);

// True if no other thread uses the memory of the calling one, in this process or another. May be
// false if the system does not tell. Makes a system call: for callers that would otherwise wait for
// a thread.
MI_INTERNAL bool mi_os_is_alone(void);

// True in the child of a vfork(2), which has the memory and the thread-local state of a thread of
// its parent until it runs another program. False if the system does not tell. Makes a system call,
// and another one if libc takes the calling thread for one of another process.
MI_INTERNAL bool mi_os_is_vfork_child(void);

// True when the process has only ever had one thread. May become false too early, never too late:
// the creation of a thread orders this read. The next function tells about threads that the system
// does not know.
MI_INTERNAL bool mi_os_is_single_threaded(void);

// Make the function above return false for good: from now on there may be threads made without the
// knowledge of our libc, as by another copy of it. Call this before there is such a thread; if one
// is found later, call it then.
MI_INTERNAL void mi_os_expect_threads(void);

// Return the value of environment variable `name` (compared without case), or NULL.
MI_INTERNAL const char* mi_os_environment(const char* name);

typedef enum mi_os_environment_e {
  MI_OS_ENVIRONMENT_UNKNOWN, // not known yet: libc is not ready
  MI_OS_ENVIRONMENT_WITHOUT,
  MI_OS_ENVIRONMENT_WITH,
} mi_os_environment_t;

// Check if the name of any variable starts with `prefix` (compared without case), in one pass over
// the environment.
MI_INTERNAL mi_os_environment_t mi_os_environment_look(const char* prefix);

// Store the value of a variable in `value`, as wide characters, if the `*size` characters there are
// enough for it and the terminating zero. Sets `*size` to what it needs, 0 if there is no such
// variable. ENOSYS: the system has no such environment.
MI_INTERNAL int mi_os_environment_wide(const wchar_t* name, wchar_t* value, size_t* size);

// Write to the standard error stream, without buffering.
MI_INTERNAL void mi_os_write_error(const char* text, size_t length);

// Call `on_exit` with `value` when the calling thread ends, once for each non-NULL value set.
// The first call of a process makes the key. False if the system has no key left, and after
// `mi_os_thread_key_done`: the function may then be gone when a thread ends.
MI_INTERNAL bool mi_os_thread_on_exit(void (*on_exit)(void* value), void* value);
MI_INTERNAL void mi_os_thread_key_done(void);

// Have that function called for the calling thread, too, with `value` if none is set yet. Never
// allocates, locks or waits, unlike the function above. False if this cannot be done, or not yet.
MI_INTERNAL bool mi_os_thread_watch(void* value);

// Start a thread of the library, with a small stack and all signals blocked / wait until it has
// ended, once. The first allocates and may have locks of libc, unlike everything else here. Returns
// 0 or an errno value.
typedef struct mi_os_thread_s {
  uintptr_t handle;
} mi_os_thread_t;
MI_INTERNAL int mi_os_thread_start(mi_os_thread_t* thread, void (*run)(void));
MI_INTERNAL void mi_os_thread_join(mi_os_thread_t thread);

// Threads of the library are created by a function of which this is the counterpart: the address of
// a pthread_join(3), 0 that of the program. Called before the first of them starts.
MI_INTERNAL void mi_os_thread_join_by(uintptr_t join);

// Register the three fork callbacks (pthread_atfork). Returns 0 or an errno value.
MI_INTERNAL int mi_os_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

// A family: processes that share memory because they came to be by forks of one, its first. The
// first process creates it before it forks, NULL if the system has none of this; each that comes
// out of a fork, of the first one or of another, joins at once. Members that ended, or run another
// program, are gone. `is_alone` is for the first process: true if all others are gone, which means
// that it shares no memory. False is always possible. `end`: in the first process; the others keep
// theirs. At most one thread at a time calls any of these.
typedef struct mi_os_family_s mi_os_family_t;
MI_INTERNAL mi_os_family_t* mi_os_family_create(void);
MI_INTERNAL void mi_os_family_join(mi_os_family_t* family);
MI_INTERNAL bool mi_os_family_is_alone(mi_os_family_t* family);
MI_INTERNAL void mi_os_family_end(mi_os_family_t* family);

// Tell if the library is about to be unloaded by dlclose, in a process that goes on. Its destructor
// runs then, but also at the end of the process. The constructor calls `watch`, the destructor
// `is_unloaded`, once. False also if this cannot be told. `at_end` is called where the compiler's
// destructors are not (MI_HAS_DESTRUCTORS), at the same times.
MI_INTERNAL void mi_os_unload_watch(void (*at_end)(void));
MI_INTERNAL bool mi_os_is_unloaded(void);

// Where a weak reference does not reach the C++ library of the process: call its new-handler for a
// block of `size` bytes (false if there is none), or throw its std::bad_alloc (returns if no such
// library is known). May take the lock of the loader, so that no lock of ours may be held.
#if MI_IS_WINDOWS || (defined(__linux__) && !MI_IS_OS_PLAIN && !MI_IS_BSD && !MI_IS_MACOS)
MI_INTERNAL bool mi_os_cxx_call_handler(size_t size);
MI_INTERNAL void mi_os_cxx_throw(void);
#else
static inline bool mi_os_cxx_call_handler(size_t size) {
  (void)size;
  return false;
}
static inline void mi_os_cxx_throw(void) {}
#endif

typedef struct mi_os_usage_s {
  size_t elapsed_ms, user_ms, system_ms; // since the process started
  size_t rss, rss_peak; // bytes
  size_t page_faults; // major faults
} mi_os_usage_t;

// Store what the kernel says about this process.
MI_INTERNAL void mi_os_usage(mi_os_usage_t* usage);

typedef struct mi_os_limit_s {
  uint64_t limit; // bytes that this process may use together with others; UINT64_MAX no limit
  uint64_t used; // bytes of that in use that the system cannot take back
  bool is_short; // processes wait for memory now, in the same container or, if not known, anywhere
} mi_os_limit_t;

// Store for each OS page of a range that is mapped what is so of it. Opens a file. Returns 0 or an
// errno value.
typedef enum mi_os_page_state_e {
  MI_OS_RESIDENT = 1, // it is resident, or perhaps the page of zeros that the system has for all
  MI_OS_RESIDENT_OWN = 2, // it is for sure not that page
} mi_os_page_state_t;
MI_INTERNAL int mi_os_resident_pages(const void* start, size_t size, uint8_t* pages);

typedef struct mi_os_resident_s {
  uint64_t all; // bytes of the process that are resident
  uint64_t anonymous; // of these, what is not of a file
  uint64_t swapped; // bytes that are not, because the system has put them elsewhere
} mi_os_resident_t;

// Store that, zeros if nothing is known. Opens a file.
MI_INTERNAL void mi_os_resident_sum(mi_os_resident_t* sum);

// Store how much memory this process may use by the limit of its container that has the least room
// (control group, on Linux). Opens files: not for a process that has entered a sandbox. False if
// nothing is known.
MI_INTERNAL bool mi_os_limit(mi_os_limit_t* limit);

// Store the absolute path of a file, without links, in the 4096 bytes at `resolved`: realpath(3).
// Returns 0 or an errno value.
MI_INTERNAL int mi_os_real_path(const char* path, char* resolved);

// -- For dumps: files, and what is mapped --

// Return the numbers by which the system knows the calling thread, and the process. Make a system
// call.
MI_INTERNAL size_t mi_os_thread_number(void);
MI_INTERNAL size_t mi_os_process_number(void);

// Create a file, or replace what is in it / write all bytes / close it. Return 0 or an errno value.
// A child that calls exec does not inherit the file.
MI_INTERNAL int mi_os_file_create(const char* path, int* file);
MI_INTERNAL int mi_os_file_write(int file, const void* bytes, size_t size);
MI_INTERNAL int mi_os_file_close(int file);

// -- For commands: a folder that only the user of the process can write into --

// True if there is a file of that name. Opens nothing.
MI_INTERNAL bool mi_os_file_exists(const char* path);

// Open a folder. Fails with EPERM if it does not belong to the effective user, or if others can
// write into it, with ELOOP or ENOTDIR if it is a link or no folder. Closed by mi_os_file_close.
MI_INTERNAL int mi_os_folder_open(const char* path, int* folder);

// Store the text of a file in the folder, zero-terminated. Fails as the function above; with EINVAL
// if it is no file, and with EFBIG if it does not fit; the text is empty then. Never waits.
MI_INTERNAL int mi_os_folder_read(int folder, const char* name, char* text, size_t capacity);

// Create a file in the folder, which must not exist and only the user can read / give a file
// another name, in the place of one that has it / remove a file. Return 0 or an errno value.
MI_INTERNAL int mi_os_folder_create(int folder, const char* name, int* file);
MI_INTERNAL int mi_os_folder_rename(int folder, const char* from, const char* to);
MI_INTERNAL int mi_os_folder_remove(int folder, const char* name);

typedef struct mi_os_mapping_s {
  uintptr_t start, end;
  uint64_t offset; // of its start in the file
  const char* path; // of the file, or what else the system says; "" nothing
  const uint8_t* build_id; // NULL: not known
  size_t build_id_size; // bytes
} mi_os_mapping_t;

// Call `visit` for each mapping of the process that holds code, in the order of addresses. Returns
// false if the system does not tell, or `visit` returned false.
MI_INTERNAL bool mi_os_mappings(bool (*visit)(const mi_os_mapping_t* mapping, void* arg),
                                void* arg);

// -- Faults, and where a call came from --

typedef enum mi_os_access_kind_e {
  MI_OS_UNKNOWN_ACCESS,
  MI_OS_READ,
  MI_OS_WRITE
} mi_os_access_kind_t;

typedef struct mi_os_fault_s {
  const void* address; // that could not be accessed, NULL: not known
  const void* used; // the same, as the program had it: with a tag
  const void* at; // the instruction, NULL: not known
  mi_os_access_kind_t access;
  bool is_tag; // memory has another tag than that
  bool has_room; // the stack has room for more than a few function calls
  bool is_in_library; // the instruction is in this library, if it is a shared one and was found by
      // mi_os_stack_prepare; false if the stack overflowed there
} mi_os_fault_t;

// From now on, call `on_fault` when a thread accesses memory that is inaccessible. The function
// runs on that thread, in the place of the access, so it must not allocate or wait for locks. Then
// the access is treated as if this had not been called. False if the system cannot do this. A
// second call has the same effect, if nothing else watches by then.
MI_INTERNAL bool mi_os_fault_watch(void (*on_fault)(const mi_os_fault_t* fault));

// No more, if nobody has changed that since; else `on_fault` is not called, either.
MI_INTERNAL void mi_os_fault_unwatch(void);

// Prepare `mi_os_stack`. May allocate: for a moment at which the program may call anything.
MI_INTERNAL void mi_os_stack_prepare(void);

// Store up to `capacity` addresses that the calling functions return to, innermost first, without
// those in this library if it is a shared one. Returns their number, 0 if the system cannot tell.
// Of a function that a fault interrupted it is the address of the instruction.
MI_INTERNAL size_t mi_os_stack(const void** frames, size_t capacity);

typedef struct mi_os_symbol_s {
  const char* function; // name, or NULL: not known
  size_t function_offset;
  const char* module; // file name, or NULL
  size_t module_offset;
} mi_os_symbol_t;

// Say what code is at an address.
MI_INTERNAL void mi_os_symbol(const void* at, mi_os_symbol_t* symbol);

// Return the number of NUMA nodes, at least 1 / the node that the calling thread runs on.
MI_INTERNAL size_t mi_os_numa_nodes(void);
MI_INTERNAL size_t mi_os_numa_node(void);

// Take memory of the range that is not resident yet from `node`, if that has any. A hint; failure
// has no effect.
MI_INTERNAL int mi_os_prefer_node(void* start, size_t size, size_t node);

// True if the 4 bytes at `p`, an address that is a multiple of 4, can be read now. Makes a system
// call.
MI_INTERNAL bool mi_os_is_readable(const void* p);

// End the process, with `text` on the standard error stream.
MI_INTERNAL _Noreturn void mi_os_abort(const char* text);

#endif
