// SPDX-License-Identifier: MIT
// os_fake.h - an operating system in a box: the contract of os/os.h and os/lock.h, for unit tests.
//
// Memory comes from one reserve of real address space; which part of it is mapped, with which
// access, and what the last advice was, is tracked in a list of ranges, as a kernel does. A test
// chooses page size, overcommit and limits, lets calls fail, owns the clock, and asks what
// happened.
//
// Misuse by the allocator ends the process with a message: unmapping what is not mapped, a size
// that is no multiple of the page size, purging inaccessible memory, and so on.
#ifndef TEST_OS_FAKE_H
#define TEST_OS_FAKE_H

#include "os/os.h"

// Calls that are counted.
typedef enum os_fake_call_e {
  OS_FAKE_MAP,
  OS_FAKE_MAP_AT,
  OS_FAKE_MAP_LARGE,
  OS_FAKE_UNMAP,
  OS_FAKE_COMMIT,
  OS_FAKE_DECOMMIT,
  OS_FAKE_PURGE,
  OS_FAKE_RESET,
  OS_FAKE_POPULATE,
  OS_FAKE_POPULATE_HUGE,
  OS_FAKE_COLLAPSE,
  OS_FAKE_SPLIT,
  OS_FAKE_HUGE_PAGES,
  OS_FAKE_GUARD,
  OS_FAKE_UNGUARD,
  OS_FAKE_MOVE,
  OS_FAKE_REMAP,
  OS_FAKE_PREFER_NODE,
  OS_FAKE_THREAD_KEY,
  OS_FAKE_AT_FORK,
  OS_FAKE_FALLIBLE, // number of the above, which can fail; as an index: all of them together
  OS_FAKE_CLOCK,
  OS_FAKE_LIMIT,
  OS_FAKE_CALL_COUNT,
} os_fake_call_t;

typedef struct os_fake_entry_s {
  os_fake_call_t call;
  uint8_t* start;
  size_t size;
  bool is_failed;
} os_fake_entry_t;

#define OS_FAKE_LOG_SIZE 1024
#define OS_FAKE_AWAY_US 2000
#if defined(__x86_64__)
#define OS_FAKE_RESERVE_DEFAULT ((size_t)16 << 30)
#else
#define OS_FAKE_RESERVE_DEFAULT ((size_t)4 << 30) // an emulator lists all pages of it
#endif

typedef struct os_fake_s {
  // -- what a test sets --
  size_t page_size;
  bool has_overcommit;
  bool has_move; // moving mappings is supported
  bool has_guard; // OS pages inside a mapping can be made inaccessible
  bool has_hints; // addresses may be chosen
  bool has_thread_watch; // the end of a thread can be watched without a theap: parcels
  bool is_single_threaded;
  bool is_setuid;
  bool has_address_limit;
  size_t address_limit; // bytes that may be mapped, when limited
  size_t commit_limit; // bytes that may be read-write without overcommit
  size_t map_limit; // larger mappings are refused; 0: no limit
  size_t fail_at[OS_FAKE_CALL_COUNT]; // 1: the next such call fails, 2: the one after; 0: none
  size_t is_child; // 1 in the child of a fork: another process
  bool is_failing_on; // what reached its count fails from then on
  size_t fail_every; // what reached its count fails again after so many; 0: not again
  uint64_t now_us;
  uint64_t huge_us; // what populating with huge pages takes
  bool has_huge_pages; // memory was seen to come in them
  bool gives_huge_pages; // it will be seen when memory is next populated with them
  int collapse_error; // what a collapse fails with, 0: it succeeds
  uint64_t collapse_us; // what it takes
  uint64_t nonzero_us; // what it takes to look at a word
  size_t huge_page_size;
  bool has_family; // processes that share memory can be told
  bool is_alone; // of a family, all others are gone
  bool has_limit; // the limit of a container can be found
  mi_os_limit_t limit; // `used`: by others
  size_t large_free; // explicit OS pages of `huge_page_size` there are
  size_t giant_free; // and of any other size
  uint64_t giant_us; // what populating one of those takes
  size_t numa_nodes; // 0 is 1
  size_t numa_node; // that every thread runs on
  uint64_t random;
  const char* (*environment)(const char* name);
  void (*on_collapse)(void); // runs before a collapse, as another thread would
  void (*on_purge)(void); // runs in the middle of a purge, as another thread would
  void (*on_move_failed)(void* to, size_t size); // runs when a move left a hole there
  void (*on_at_fork)(void); // runs before fork handlers are registered
  // -- what a test reads --
  size_t count[OS_FAKE_CALL_COUNT];
  size_t fallible_count; // of all calls that can fail
  size_t kept; // bytes that could not be unmapped
  size_t collapse_growth; // bytes that became resident by collapses
  size_t families; // created, and not ended
  size_t family_members; // that joined one
  size_t hint_missed; // mappings that went elsewhere than their hint said
  size_t mapped; // bytes
  size_t committed; // bytes that are read-write
  size_t preferred_node; // of the last call
  uint8_t* reserve; // start of the address range all memory comes from
  size_t reserve_size;
  os_fake_entry_t log[OS_FAKE_LOG_SIZE];
  size_t log_count; // entries ever made; the log keeps the last ones
  void (*fork_prepare)(void);
  void (*fork_parent)(void);
  void (*fork_child)(void);
} os_fake_t;

extern os_fake_t os_fake;

// Before the first use of the allocator. `reserve_size` 0: the default.
void os_fake_start(size_t page_size, size_t reserve_size);

// The system is gone with all memory, and may be started again.
void os_fake_end(void);

void os_fake_advance_ms(uint64_t ms);

// A millisecond passes: for the functions above, as if a system call took that long.
void os_fake_be_slow(void);

// Calls of one kind since the start, or all fallible ones together.
size_t os_fake_calls(os_fake_call_t call);

// Another part of the program maps memory exactly there: what was free is taken.
void os_fake_take(void* start, size_t size);

// Memory that was touched and not given back, in whole pages.
size_t os_fake_resident(const void* start, size_t size);
size_t os_fake_resident_all(void);

// Ranges with equal access, advice and origin: what a kernel lists as mappings.
size_t os_fake_mapping_count(void);

typedef enum os_fake_state_e {
  OS_FAKE_UNMAPPED = 0,
  OS_FAKE_TAKEN, // by `os_fake_take`: not the allocator's
  OS_FAKE_RESERVED,
  OS_FAKE_COMMITTED,
} os_fake_state_t;

os_fake_state_t os_fake_state(const void* p);

// Whether the range lies in one mapping.
bool os_fake_is_one_mapping(const void* start, size_t size);

// Whether the last advice for the address was to have huge pages, or to have none.
bool os_fake_has_huge_advice(const void* p);
bool os_fake_has_small_advice(const void* p);

#endif
