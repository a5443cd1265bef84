// SPDX-License-Identifier: MIT
// usage.h - measures how much memory is in use.
#ifndef MI_CORE_USAGE_H
#define MI_CORE_USAGE_H

#include "../threads/threads.h"

// What is in use now, in one heap or in all heaps of a sub-process. usage.c says how exact this is.
typedef struct mi_usage_s {
  size_t in_use, in_use_blocks; // bytes and blocks that share pages
  size_t in_pages; // bytes of those pages that were handed out at least once, and did not go back
  size_t large, large_blocks; // the same for blocks with a page of their own
  size_t pooled_pages;
  size_t class_blocks[MI_CLASS_COUNT], class_pages[MI_CLASS_COUNT];
  int64_t class_handed[MI_CLASS_COUNT]; // of all heaps: blocks that malloc ever returned
} mi_usage_t;
MI_INTERNAL void mi_usage_measure(mi_subproc_t* subproc, mi_heap_t* heap, mi_usage_t* usage);

// What a page has, as its owner counts it: USAGE-1, USAGE-2.
typedef struct mi_usage_page_s {
  size_t size_class; // MI_CLASS_COUNT: a single block
  size_t block_size; // bytes
  size_t used, carved; // blocks in use, and those that were handed out at least once
  size_t absent; // bytes between these that went back (hole.c)
  int32_t handed; // see mi_page_refilled_t
} mi_usage_page_t;
MI_INTERNAL mi_usage_page_t mi_usage_of_page(mi_page_t* page);

// Under the thread lock: call a function for each theap whose lists the calling thread may read
// (USAGE-1), of a heap, or with NULL of all heaps of a sub-process.
typedef void mi_usage_theap_fun(const mi_theap_t* theap, void* arg);
MI_INTERNAL void mi_usage_each_theap(mi_subproc_t* subproc, mi_heap_t* heap,
                                     mi_usage_theap_fun* fun, void* arg);

// Call a function with each list of free blocks that count as used, and of which such a theap
// hands out: of a page, or with NULL of pages without a thread (portion.c).
typedef void mi_usage_list_fun(const mi_theap_t* theap, mi_page_t* page, size_t size_class,
                               size_t count, void* arg);
MI_INTERNAL void mi_usage_each_list(const mi_theap_t* theap, mi_usage_list_fun* fun, void* arg);

// The bytes of memory that our own structures have touched, descriptors included. They serve all
// sub-processes.
typedef struct mi_metadata_s {
  int64_t current, peak;
} mi_metadata_t;
MI_INTERNAL void mi_usage_metadata(mi_metadata_t* metadata);

#endif
