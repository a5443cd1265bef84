// SPDX-License-Identifier: MIT
// usage.h - measures how much memory is in use.
#ifndef MI_CORE_USAGE_H
#define MI_CORE_USAGE_H

#include "../threads/threads.h"

// What is in use now, in one heap or in all heaps of a sub-process. usage.c says how exact this is.
typedef struct mi_usage_s {
  size_t in_use, in_use_blocks; // bytes and blocks that share pages
  size_t in_pages; // bytes of those pages that were handed out at least once
  size_t large, large_blocks; // the same for blocks with a page of their own
  size_t pooled_pages;
  size_t class_blocks[MI_CLASS_COUNT], class_pages[MI_CLASS_COUNT];
  int64_t class_handed[MI_CLASS_COUNT]; // of all heaps: blocks that malloc ever returned
} mi_usage_t;
MI_INTERNAL void mi_usage_measure(mi_subproc_t* subproc, mi_heap_t* heap, mi_usage_t* usage);

// The bytes of memory that our own structures have touched, descriptors included. They serve all
// sub-processes.
typedef struct mi_metadata_s {
  int64_t current, peak;
} mi_metadata_t;
MI_INTERNAL void mi_usage_metadata(mi_metadata_t* metadata);

#endif
