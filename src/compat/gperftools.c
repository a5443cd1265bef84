// SPDX-License-Identifier: MIT
// gperftools.c - MallocExtension_*: properties, statistics, and memory that goes back.
//
//   word of gperftools          ours (mimalloc-stats.h)
//   current_allocated           malloc_normal + malloc_huge: the blocks that the program has
//   central_cache_free          what else is in their pages
//   pageheap_free               committed memory without pages
//   pageheap_committed          committed
//   pageheap_unmapped           reserved addresses without memory
//   heap_size                   the last two
//   total_physical              the same as pageheap_committed
//
// GPERFTOOLS-1  the bytes of the application, of lists of free blocks and of what is released
//     add up to heap_size, as they do there. A free block of a thread is counted as the central
//     cache's: it lies in a page, and no counter says whose list it is on.
//
// Deliberately absent: hooks of malloc and mmap, which the fast path would have to test for, and
// all of libtcmalloc that its minimal form lacks (heap profiler and checker).
#include "gperftools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mimalloc-stats.h"

#define MI_GPERFTOOLS_RATE_MAX 10.0 // of the rates that gperftools calls reasonable
#define MI_GPERFTOOLS_DELAY_MS 1000.0 // at rate 1

// -- Properties --

typedef struct mi_gperftools_figures_s {
  size_t allocated;
  size_t in_pages; // free, in a page
  size_t ready; // free, outside of pages
  size_t committed;
  size_t unmapped;
} mi_gperftools_figures_t;

static mi_gperftools_figures_t mi_gperftools_figures(void) {
  mi_stats_t_decl(stats);
  mi_gperftools_figures_t now = {0};
  if (!mi_stats_get(&stats)) return now;
  const size_t reserved = mi_compat_amount(stats.reserved);
  // Pages of one block are not in the sum of pages.
  size_t pages = mi_compat_amount(stats.page_committed) + mi_compat_amount(stats.malloc_huge);
  now.allocated = mi_compat_amount(stats.malloc_normal) + mi_compat_amount(stats.malloc_huge);
  now.committed = mi_compat_amount(stats.committed);
  // Figures that are found one after the other may differ by what happens meanwhile.
  if (pages < now.allocated) pages = now.allocated;
  if (now.committed < pages) now.committed = pages;
  now.in_pages = pages - now.allocated;
  now.ready = now.committed - pages;
  now.unmapped = reserved > now.committed ? reserved - now.committed : 0;
  return now;
}

// What was set as the limit of all thread caches; it has no effect. Written and read by any thread,
// relaxed.
static mi_atomic(size_t) mi_gperftools_cache_limit = (size_t)32 << 20;
// The purge delay before aggressive_memory_decommit was set. Written and read by any thread,
// relaxed.
static mi_atomic(long) mi_gperftools_delay_before;

int MallocExtension_GetNumericProperty(const char* property, size_t* value) {
  if (property == NULL || value == NULL) return 0;
  const mi_gperftools_figures_t now = mi_gperftools_figures();
  const bool is_eager = mi_option_get(mi_option_purge_delay) == 0;
  const struct {
    const char* name;
    size_t value;
  } all[] = {
      {"generic.current_allocated_bytes", now.allocated},
      {"generic.heap_size", now.committed + now.unmapped},
      {"generic.total_physical_bytes", now.committed},
      {"tcmalloc.central_cache_free_bytes", now.in_pages},
      {"tcmalloc.transfer_cache_free_bytes", 0},
      {"tcmalloc.thread_cache_free_bytes", 0},
      {"tcmalloc.current_total_thread_cache_bytes", 0},
      {"tcmalloc.max_total_thread_cache_bytes", mi_atomic_load_relaxed(&mi_gperftools_cache_limit)},
      {"tcmalloc.pageheap_free_bytes", now.ready},
      {"tcmalloc.slack_bytes", now.ready},
      {"tcmalloc.pageheap_unmapped_bytes", now.unmapped},
      {"tcmalloc.pageheap_committed_bytes", now.committed},
      {"tcmalloc.aggressive_memory_decommit", is_eager},
      {"tcmalloc.heap_limit_mb", 0},
  };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    if (strcmp(property, all[i].name) != 0) continue;
    *value = all[i].value;
    return 1;
  }
  return 0;
}

// Memory goes back at once, or after the delay that there was before.
static void mi_gperftools_set_eager(bool is_eager) {
  const long delay = mi_option_get(mi_option_purge_delay);
  if (is_eager == (delay == 0)) return;
  if (is_eager) mi_atomic_store_relaxed(&mi_gperftools_delay_before, delay);
  mi_option_set(mi_option_purge_delay,
                is_eager ? 0 : mi_atomic_load_relaxed(&mi_gperftools_delay_before));
}

int MallocExtension_SetNumericProperty(const char* property, size_t value) {
  if (property == NULL) return 0;
  if (strcmp(property, "tcmalloc.max_total_thread_cache_bytes") == 0) {
    mi_atomic_store_relaxed(&mi_gperftools_cache_limit, value);
    return 1;
  }
  if (strcmp(property, "tcmalloc.aggressive_memory_decommit") == 0) {
    mi_gperftools_set_eager(value != 0);
    return 1;
  }
  return strcmp(property, "tcmalloc.heap_limit_mb") == 0 && value == 0; // no limit is what there is
}

// -- Statistics --

typedef struct mi_gperftools_text_s {
  char* buffer;
  size_t size;
  size_t used;
} mi_gperftools_text_t;

static void mi_gperftools_append(const char* text, void* arg) {
  mi_gperftools_text_t* const to = (mi_gperftools_text_t*)arg;
  const size_t room = to->size - 1 - to->used;
  size_t length = strlen(text);
  if (length > room) length = room;
  memcpy(to->buffer + to->used, text, length);
  to->used += length;
  to->buffer[to->used] = 0;
}

static void mi_gperftools_line(mi_gperftools_text_t* to, char sign, size_t bytes,
                               const char* what) {
  char line[128];
  const double mib = (double)bytes / 1048576;
  snprintf(line, sizeof(line), "MALLOC: %c %12zu (%7.1f MiB) %s\n", sign, bytes, mib, what);
  mi_gperftools_append(line, to);
}

void MallocExtension_GetStats(char* buffer, int buffer_length) {
  if (buffer == NULL || buffer_length <= 0) return;
  mi_gperftools_text_t to = {buffer, (size_t)buffer_length, 0};
  buffer[0] = 0;
  const mi_gperftools_figures_t now = mi_gperftools_figures();
  const char* const rule = "MALLOC:   ------------\n";
  mi_gperftools_line(&to, ' ', now.allocated, "Bytes in use by application");
  mi_gperftools_line(&to, '+', now.ready, "Bytes in page heap freelist");
  mi_gperftools_line(&to, '+', now.in_pages, "Bytes in central cache freelist");
  mi_gperftools_line(&to, '+', 0, "Bytes in transfer cache freelist");
  mi_gperftools_line(&to, '+', 0, "Bytes in thread cache freelists");
  mi_gperftools_append(rule, &to);
  mi_gperftools_line(&to, '=', now.committed, "Actual memory used (physical + swap)");
  mi_gperftools_line(&to, '+', now.unmapped, "Bytes released to OS (aka unmapped)");
  mi_gperftools_append(rule, &to);
  mi_gperftools_line(&to, '=', now.committed + now.unmapped, "Virtual address space used");
  mi_stats_print_out(&mi_gperftools_append, &to);
}

// The table of blocks by the logarithm of their size is one of our bins.
int MallocExtension_MallocMemoryStats(int* blocks, size_t* total,
                                      int histogram[MI_GPERFTOOLS_HISTOGRAM]) {
  mi_stats_t_decl(stats);
  *blocks = 0;
  *total = 0;
  memset(histogram, 0, sizeof(histogram[0]) * MI_GPERFTOOLS_HISTOGRAM);
  if (!mi_stats_get(&stats)) return 0;
  *total = mi_compat_amount(stats.malloc_normal) + mi_compat_amount(stats.malloc_huge);
  for (size_t i = 0; i < MI_BIN_COUNT; i++) {
    const size_t count = mi_compat_amount(stats.malloc_bins[i]);
    size_t entry = 0;
    size_t size = mi_stats_get_bin_size(i);
    if (i == MI_BIN_HUGE && count > 0) size = mi_compat_amount(stats.malloc_huge) / count;
    for (; size > 1; size >>= 1) entry++;
    histogram[entry] += (int)count;
    *blocks += (int)count;
  }
  return 1;
}

// -- What is a block --

// As in gperftools, only a build with checks looks at the memory: here, one that is secure or has
// padding does so with each free.
int MallocExtension_VerifyAllMemory(void) { return 1; }

int MallocExtension_VerifyMallocMemory(const void* p) {
  return p == NULL || mi_is_in_heap_region(p);
}

int MallocExtension_VerifyNewMemory(const void* p) { return MallocExtension_VerifyMallocMemory(p); }

int MallocExtension_VerifyArrayNewMemory(const void* p) {
  return MallocExtension_VerifyMallocMemory(p);
}

mi_gperftools_owner_t MallocExtension_GetOwnership(const void* p) {
  return mi_is_in_heap_region(p) ? MI_GPERFTOOLS_OWNED : MI_GPERFTOOLS_NOT_OWNED;
}

size_t MallocExtension_GetEstimatedAllocatedSize(size_t size) { return mi_good_size(size); }

size_t MallocExtension_GetAllocatedSize(const void* p) { return mi_usable_size(p); }

size_t MallocExtension_GetThreadCacheSize(void) { return 0; }

// -- Memory that goes back --

void MallocExtension_MarkThreadIdle(void) { mi_thread_done(); }

void MallocExtension_MarkThreadBusy(void) { mi_thread_init(); }

void MallocExtension_MarkThreadTemporarilyIdle(void) {
  mi_theap_collect(mi_theap_get_default(), true);
}

void MallocExtension_ReleaseFreeMemory(void) { mi_collect(true); }

// All goes back that can: there is no order in which a part of it would be the right one.
void MallocExtension_ReleaseToSystem(size_t num_bytes) {
  if (num_bytes > 0) mi_collect(true);
}

// Return the purge delay of a rate; at 0 nothing goes back.
static long mi_gperftools_delay(double rate) {
  const double delay = rate > 0 ? MI_GPERFTOOLS_DELAY_MS / rate : -1;
  return delay > 1e9 ? (long)1e9 : (long)delay;
}

void MallocExtension_SetMemoryReleaseRate(double rate) {
  mi_option_set(mi_option_purge_delay, mi_gperftools_delay(rate));
}

double MallocExtension_GetMemoryReleaseRate(void) {
  const long delay = mi_option_get(mi_option_purge_delay);
  if (delay < 0) return 0;
  const double rate = delay == 0 ? MI_GPERFTOOLS_RATE_MAX : MI_GPERFTOOLS_DELAY_MS / (double)delay;
  return rate < MI_GPERFTOOLS_RATE_MAX ? rate : MI_GPERFTOOLS_RATE_MAX;
}

// The rate may be said by the environment, as with gperftools. An option of ours that it sets wins.
__attribute__((constructor)) static void mi_gperftools_at_start(void) {
  const char* const text = secure_getenv("TCMALLOC_RELEASE_RATE");
  char* end = NULL;
  const double rate = text == NULL ? 0 : strtod(text, &end);
  if (text == NULL || end == text || *end != 0) return;
  mi_option_set_default(mi_option_purge_delay, mi_gperftools_delay(rate));
}
