// SPDX-License-Identifier: MIT
// unit.h - what the unit tests share: each test is a process of its own on the fake system.
//
//   // If this fails, ... (what breaks for a user)
//   UNIT_TEST(module_behaviour) { ... check(...); }
//
// and in `main` a table of `cmocka_unit_test(module_behaviour)`.
//
// The process-wide state of the allocator starts as it does in a program: all zero. The body runs
// in a forked child; `check` ends the child and fails the test. When the body returns, the
// invariants of all structures are checked once more (`unit_check_valid`).
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/core.h"
#include "core/threads/theap.h"
#include "hooks_fake.h"
#include "mimalloc.h"
#include "os_fake.h"
#include "puppet.h"
#include "random.h"

#define UNIT_HEAP (&mi_state.main.heap_main)

// A small arena, so that many fit a test.
#define UNIT_ARENA_SIZE (MI_IS_TINY ? 256 * MI_KIB : 4 * MI_MIB)
// What that heap and its theaps have counted.
#define unit_tally(what) unit_tally_of(MI_TALLY_##what)
int64_t unit_tally_of(mi_tally_index_t index);

// For the message when a child fails: which of many similar ones it is.
extern char unit_context[256];

// Runs the body in a child: with the smallest page size, or with each that the build supports.
void unit_run(void (*body)(void), size_t reserve_size);
void unit_run_page_sizes(void (*body)(void));

#define UNIT_TEST_ON(name, reserve_size)                                                           \
  static void name##_body(void);                                                                   \
  static void name(void** state) {                                                                 \
    (void)state;                                                                                   \
    unit_run(&name##_body, reserve_size);                                                          \
  }                                                                                                \
  static void name##_body(void)

#define UNIT_TEST(name) UNIT_TEST_ON(name, 0)

// With OS pages of 4, 16 and 64 KiB, up to the size of a slice.
#define UNIT_TEST_PAGE_SIZES(name)                                                                 \
  static void name##_body(void);                                                                   \
  static void name(void** state) {                                                                 \
    (void)state;                                                                                   \
    unit_run_page_sizes(&name##_body);                                                             \
  }                                                                                                \
  static void name##_body(void)

_Noreturn void unit_fail(const char* file, int line, const char* text);
void unit_check_equal(const char* file, int line, const char* text, uint64_t a, uint64_t b);

#define check(e) ((e) ? (void)0 : unit_fail(__FILE__, __LINE__, #e))
#define check_equal(a, b)                                                                          \
  unit_check_equal(__FILE__, __LINE__, #a " == " #b, (uint64_t)(a), (uint64_t)(b))

#define unit_option(name, value)                                                                   \
  mi_atomic_store_relaxed(&mi_option_values[MI_OPTION_##name], (long)(value))

// True when nothing is running and every invariant of types.h, page.c, pool.c, theap.c, heap.c,
// thread.c, book.c, run.c and arena.c holds; else says which one does not, and ends the child.
void unit_check_valid(void);

// After mi_collect_all(MI_FORCE) with no block in use: every slice is free.
void unit_check_empty(void);

// An arena of this size that does not grow, in front of all others.
void unit_reserve(size_t size);

size_t unit_free_slices(void);
size_t unit_used_slices(void); // of arenas that may grow meanwhile

// The calling thread's theap, made if it has none.
mi_theap_t* unit_theap(void);

// The page of a block; it must have one.
mi_page_t* unit_page_of(const void* p);

// Carve the next blocks of a page; NULL if all are carved.
mi_block_t* unit_carve(mi_page_t* page);

// A page of the class with every block carved, owned by this thread and in no place. `used` of its
// blocks are in use: `blocks[0]` to `blocks[used - 1]`; the others are in `local_free`.
mi_page_t* unit_make_page(size_t size_class, size_t used, void** blocks);
mi_page_t* unit_make_page_in(mi_theap_t* theap, size_t size_class, size_t used, void** blocks);

// Blocks of the class until the page that is current is full, and one less than opens another.
size_t unit_fill_page(size_t size_class, void** blocks);

// Make a peak of committed memory of so many slices, of which nothing is left.
void unit_make_peak(size_t slices);

// Blocks a page of the class holds, and the most that any page holds.
size_t unit_page_blocks(size_t size_class);
#define UNIT_BLOCKS_MAX (MI_SLICE_SIZE * 8 / 8)
size_t unit_pool_length(mi_heap_t* heap, size_t size_class);

// Fill with a pattern that depends on the tag; look whether it is still there.
void unit_fill(void* p, size_t size, size_t tag);
bool unit_is_filled(const void* p, size_t size, size_t tag);
bool unit_is_zero(const void* p, size_t size);

// -- threads --

// Runs `f(arg)` on a new thread that ends before this returns.
void unit_on_thread(void (*f)(void* arg), void* arg);

// Starts so many threads that wait, each with a home and no block; ends them.
void unit_start_puppets(puppet_t* puppets, size_t count);
void unit_end_puppets(puppet_t* puppets, size_t count);

// Runs `f(arg + i * size)` on `count` threads at once.
void unit_on_threads(size_t count, void (*f)(void* arg), void* arg, size_t size);

#endif
