// SPDX-License-Identifier: MIT
// account.h - where the memory of the process is.
#ifndef MI_CORE_ACCOUNT_H
#define MI_CORE_ACCOUNT_H

#include "usage.h"

// What some pages have together.
typedef struct mi_account_sum_s {
  size_t pages;
  size_t blocks, carved; // in use; handed out at least once
  size_t bytes; // of the blocks in use
  size_t resident; // bytes of the pages
  size_t in_use; // of these bytes; the rest is free: ACCOUNT-1
} mi_account_sum_t;

// The sums of all heaps, or of all threads, in no order.
typedef struct mi_account_row_s {
  uintptr_t key; // 0: a vacant row
  mi_account_sum_t sum;
} mi_account_row_t;

typedef struct mi_account_rows_s {
  mi_account_row_t* row; // a mapping of its own, or NULL
  size_t capacity, used; // rows; a power of two
  mi_account_sum_t others; // of those for which no row could be had
} mi_account_rows_t;

// Blocks with a page of their own.
typedef enum mi_account_single_e {
  MI_ACCOUNT_OWN, // because they are large, or aligned
  MI_ACCOUNT_SAMPLE, // of a profile
  MI_ACCOUNT_GUARDED,
  MI_ACCOUNT_SINGLES
} mi_account_single_t;

typedef struct mi_account_s {
  mi_account_sum_t all;
  mi_account_sum_t of_class[MI_CLASS_COUNT + MI_ACCOUNT_SINGLES];
  int64_t handed[MI_CLASS_COUNT]; // blocks of each class that malloc ever returned
  mi_account_rows_t heaps; // by the address of the heap
  mi_account_rows_t threads; // by thread id; MI_OWNER_SINGLE, MI_OWNER_SHARED: of no thread
  size_t empty; // resident bytes of pages without a block in use
  size_t kept, kept_for_ever; // resident bytes of arenas in no page; of these, what never goes back
  size_t outside_pages, outside; // pages that are in no arena, and resident bytes of these
  size_t metadata, marks; // resident bytes of our own structures
  mi_os_resident_t process; // zeros if the system does not say it
  bool is_resident_known; // false: "resident" is what the system charges for: ACCOUNT-3
  mi_os_page_state_t counts; // which OS pages count as resident: ACCOUNT-3
} mi_account_t;

// Add everything up / give back the memory of the rows.
MI_INTERNAL void mi_account_make(mi_account_t* account);
MI_INTERNAL void mi_account_done(mi_account_t* account);

// Return the resident bytes that are ours.
MI_INTERNAL size_t mi_account_ours(const mi_account_t* account);

// Go through rows, from most resident bytes to least: return the one after `last`, or the first.
// NULL after the last one.
MI_INTERNAL const mi_account_row_t* mi_account_next(const mi_account_rows_t* rows,
                                                    const mi_account_row_t* last);

// -- An arena, for a map --

#define MI_ACCOUNT_VIEW ((size_t)64)

// What is resident of some slices of an arena, so that the system is asked for many at once.
typedef struct mi_account_view_s {
  const mi_arena_t* arena;
  size_t first, end; // slices that are known
  mi_os_page_state_t counts; // which OS pages do
  bool is_known; // the system says it, so far
  uint32_t bytes[MI_ACCOUNT_VIEW];
} mi_account_view_t;

// Return how many bytes of a slice are resident.
MI_INTERNAL size_t mi_account_resident(mi_account_view_t* view, size_t slice_index);

// A run of slices: of a page, or one slice that is in none.
typedef struct mi_account_run_s {
  size_t first, count; // slices
  size_t resident, in_use; // bytes
  mi_page_t* page; // NULL: none
  mi_usage_page_t usage; // of the page
} mi_account_run_t;

// Call a function for each run of an arena, in the order of addresses. `counts` is that of the
// account.
typedef void mi_account_run_fun(mi_account_view_t* view, const mi_account_run_t* run, void* arg);
// Returns whether the system said what is resident.
MI_INTERNAL bool mi_account_each_run(const mi_arena_t* arena, mi_os_page_state_t counts,
                                     mi_account_run_fun* fun, void* arg);

#endif
