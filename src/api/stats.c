// SPDX-License-Identifier: MIT
// stats.c - collects statistics: of a heap, of a sub-process, of the process.
//
//   counters of the core, a walk over its pages -> mi_stats_t -> text, JSON
//
// The figures are kept by the slow paths of the core (`mi_counters_t` of a sub-process,
// `mi_tally_t` of a heap) and by the kernel, or measured by a walk when they are asked for
// (`mi_usage_measure`): the fast paths count nothing. So there is nothing to merge or to reset.
//
// STATS-1  a field belongs to heaps (pages, blocks) or to the sub-process (memory from the system,
//     threads). The figures of a sub-process have all fields, "exclusive" ones lack those of heaps,
//     the figures of a heap have only those.
#include "stats.h"

#include "../core/core.h"

// -- Bins --

static size_t mi_stats_bin_of_class(size_t size_class) {
  if (size_class < MI_BIN_OWN) return size_class + 1;
  return MI_BIN_OWN + 1 + (size_class - MI_BIN_OWN) / 2;
}
mi_static_assert(MI_BIN_OWN + 1 + (MI_CLASS_COUNT - 1 - MI_BIN_OWN) / 2 < MI_BIN_LAST,
                 "the last bin is for blocks without a class");

mi_static_assert((MI_CLASS_COUNT - MI_BIN_OWN) % 2 == 0, "every pair has two classes");

// Return the largest class of a bin, or MI_CLASS_COUNT.
static size_t mi_stats_bin_class(size_t bin) {
  const size_t c = bin <= MI_BIN_OWN ? bin - 1 : MI_BIN_OWN + (bin - MI_BIN_OWN - 1) * 2 + 1;
  return mi_bits_min(c, MI_CLASS_COUNT);
}

size_t mi_stats_get_bin_size(size_t bin) mi_attr_noexcept {
  if (bin == 0) return mi_class_size(0); // the bin is always empty
  if (bin == MI_BIN_LAST) return MI_CLASS_MAX + sizeof(void*); // and larger
  const size_t c = bin < MI_BIN_LAST ? mi_stats_bin_class(bin) : MI_CLASS_COUNT;
  return c == MI_CLASS_COUNT ? 0 : mi_class_size(c);
}

MI_INTERNAL size_t mi_stats_page_size(size_t bin) {
  if (bin == 0 || bin == MI_BIN_LAST) return 0;
  const size_t c = mi_stats_bin_class(bin);
  return c == MI_CLASS_COUNT ? 0 : mi_class_slices(c) * MI_SLICE_SIZE;
}

// -- The structure --

// Make a count, whose peak is raised to at least the current value: both are read while they
// change.
static mi_stat_count_t mi_stats_count(int64_t total, int64_t peak, int64_t current) {
  const int64_t least = peak > current ? peak : current;
  return (mi_stat_count_t){
      .total = total > least ? total : least, .peak = least, .current = current};
}

static mi_stat_count_t mi_stats_now(int64_t current) { return mi_stats_count(0, 0, current); }

#if MI_HAS_CENSUS

// Fill in what a census counted: of one heap, or with NULL of all heaps of the sub-process. Peaks
// of a bin of two sizes are their sum, which may be higher than the peak of the bin.
static void mi_stats_fill_census(mi_stats_t* stats, const mi_subproc_t* subproc,
                                 const mi_heap_t* heap, const mi_tally_t* tally) {
  mi_stat_count_t count[MI_CENSUS_END];
  for (size_t i = 0; i < MI_CENSUS_END; i++) {
    count[i] =
        mi_stats_count(mi_atomic_load_relaxed(&tally->amount[MI_TALLY_CENSUS_TOTAL + i]),
                       mi_atomic_load_relaxed(heap == NULL ? &subproc->count.census_peak[i]
                                                           : &tally->peak[MI_TALLY_CENSUS + i]),
                       mi_atomic_load_relaxed(&tally->amount[MI_TALLY_CENSUS + i]));
  }
  memset(stats->malloc_bins, 0, sizeof(stats->malloc_bins));
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    mi_stat_count_t* const bin = &stats->malloc_bins[mi_stats_bin_of_class(c)];
    bin->total += count[c].total;
    bin->peak += count[c].peak;
    bin->current += count[c].current;
  }
  stats->malloc_bins[MI_BIN_LAST] = count[MI_CLASS_COUNT];
  stats->malloc_normal = count[MI_CENSUS_NORMAL];
  stats->malloc_requested = count[MI_CENSUS_REQUESTED];
}

#else

static void mi_stats_fill_census(mi_stats_t* stats, const mi_subproc_t* subproc,
                                 const mi_heap_t* heap, const mi_tally_t* tally) {
  (void)stats, (void)subproc, (void)heap, (void)tally;
}

#endif

// Fill in the bins, from a walk and from what was counted of all heaps (`count`), or NULL.
static void mi_stats_fill_bins(mi_stats_t* stats, const mi_usage_t* usage,
                               const mi_class_count_t* count, int64_t large_total) {
  int64_t bytes = 0;
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) {
    const size_t bin = mi_stats_bin_of_class(c);
    stats->malloc_bins[bin].current += (int64_t)usage->class_blocks[c];
    stats->page_bins[bin].current += (int64_t)usage->class_pages[c];
    if (count == NULL) continue;
    stats->page_bins[bin].total += mi_atomic_load_relaxed(&count[c].made);
    stats->page_bins[bin].peak += mi_atomic_load_relaxed(&count[c].most);
    stats->malloc_bins[bin].total += usage->class_handed[c];
    bytes += usage->class_handed[c] * (int64_t)mi_class_size(c);
  }
  for (size_t bin = 0; bin < MI_BIN_LAST; bin++) {
    const mi_stat_count_t blocks = stats->malloc_bins[bin];
    const mi_stat_count_t pages = stats->page_bins[bin];
    stats->malloc_bins[bin] = mi_stats_count(blocks.total, 0, blocks.current);
    stats->page_bins[bin] = mi_stats_count(pages.total, pages.peak, pages.current);
  }
  stats->malloc_normal = mi_stats_count(bytes, 0, (int64_t)usage->in_use);
  const mi_stat_count_t large = mi_stats_count(large_total, 0, (int64_t)usage->large_blocks);
  stats->malloc_bins[MI_BIN_LAST] = stats->page_bins[MI_BIN_LAST] = large;
}

// Fill in the fields of heaps: of one heap, or with NULL of all heaps of the sub-process.
static void mi_stats_fill_heaps(mi_stats_t* stats, mi_subproc_t* subproc, mi_heap_t* heap) {
  mi_usage_t usage;
  mi_tally_t tally;
  mi_usage_measure(subproc, heap, &usage);
  mi_heap_sum_tally(subproc, heap, &tally);
#define OF(index) mi_atomic_load_relaxed(&tally.amount[MI_TALLY_##index])
  int64_t pages_peak = mi_atomic_load_relaxed(&tally.peak[MI_TALLY_PAGES]);
  int64_t large_peak = mi_atomic_load_relaxed(&tally.peak[MI_TALLY_LARGE]);
  if (heap == NULL) {
    pages_peak = mi_atomic_load_relaxed(&subproc->count.pages_peak);
    large_peak = mi_atomic_load_relaxed(&subproc->count.large_peak);
  }
  stats->pages = mi_stats_count(OF(PAGES_TOTAL), pages_peak, OF(PAGES));
  stats->page_committed = mi_stats_now((int64_t)usage.in_pages);
  stats->pages_abandoned = mi_stats_count(OF(POOLED), 0, (int64_t)usage.pooled_pages);
  // What is kept is subtracted, and may be so no longer.
  const int64_t large = OF(LARGE) > 0 ? OF(LARGE) : 0;
  stats->malloc_huge = mi_stats_count(OF(LARGE_TOTAL), large_peak, large);
  stats->malloc_huge_count.total = OF(LARGE_COUNT);
  stats->malloc_guarded_count.total = OF(GUARDED);
  stats->pages_reclaim_on_alloc.total = OF(ADOPTED);
  stats->pages_reclaim_on_free.total = OF(GUESTS);
  stats->pages_reabandon_full.total = OF(FULL);
  mi_stats_fill_bins(stats, &usage, heap == NULL ? subproc->count.of_class : NULL, OF(LARGE_COUNT));
  mi_stats_fill_census(stats, subproc, heap, &tally);
#undef OF
}

// Fill in the fields that belong to no heap.
static void mi_stats_fill_exclusive(mi_stats_t* stats, mi_subproc_t* subproc) {
  mi_counters_t* const count = &subproc->count;
#define NOW(name) mi_atomic_load_relaxed(&count->name)
  stats->reserved = mi_stats_count(0, NOW(reserved_peak), NOW(reserved));
  // Our own structures serve all sub-processes.
  mi_metadata_t own = {0};
  if (subproc == &mi_state.main) mi_usage_metadata(&own);
  stats->committed = mi_stats_count(NOW(charged) + NOW(uncharged) + own.peak,
                                    NOW(charged_peak) + own.peak, NOW(charged) + own.current);
  stats->reset.total = NOW(reset);
  stats->purged.total = NOW(purged);
  stats->threads = mi_stats_count(NOW(threads_total), NOW(threads_peak), NOW(threads));
  stats->heaps = mi_stats_count(NOW(heaps_total), NOW(heaps_peak), NOW(heaps));
  // Each thread has a theap of the main heap, which `theaps_total` does not count.
  stats->theaps = mi_stats_count(NOW(threads_total) + NOW(theaps_total),
                                 NOW(threads_peak) + NOW(theaps_peak), NOW(threads) + NOW(theaps));
  stats->mmap_calls.total = NOW(mmap_calls);
  stats->commit_calls.total = NOW(commit_calls);
  stats->reset_calls.total = NOW(reset_calls);
  stats->purge_calls.total = NOW(purge_calls);
  stats->arena_purges.total = NOW(purge_calls);
  stats->arena_count.total = NOW(arenas);
  stats->arena_rollback_count.total = NOW(rollbacks);
#undef NOW
}

MI_INTERNAL void mi_stats_collect(mi_subproc_t* subproc, mi_stats_t* stats) {
  mi_stats_init(stats);
  mi_stats_fill_exclusive(stats, subproc);
  mi_stats_fill_heaps(stats, subproc, NULL);
}

MI_INTERNAL void mi_stats_collect_heap(mi_heap_t* heap, mi_stats_t* stats) {
  mi_stats_init(stats);
  mi_stats_fill_heaps(stats, heap->subproc, heap);
}

// Add all fields of a structure to those of another: behind its head it is a row of numbers.
static void mi_stats_add(mi_stats_t* sum, const mi_stats_t* stats) {
  for (size_t at = offsetof(mi_stats_t, pages); at < sizeof(mi_stats_t); at += sizeof(int64_t)) {
    int64_t a;
    int64_t b;
    memcpy(&a, (const char*)sum + at, sizeof(a));
    memcpy(&b, (const char*)stats + at, sizeof(b));
    a += b;
    memcpy((char*)sum + at, &a, sizeof(a));
  }
}
mi_static_assert((sizeof(mi_stats_t) - offsetof(mi_stats_t, pages)) % sizeof(int64_t) == 0,
                 "nothing but numbers");

MI_INTERNAL void mi_stats_collect_all(mi_stats_t* stats) {
  mi_process_setup();
  mi_stats_init(stats);
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) {
    mi_stats_t one;
    mi_stats_collect(subproc, &one);
    mi_stats_add(stats, &one);
  }
}

MI_INTERNAL bool mi_stats_is_prepared(const mi_stats_t* stats) {
  return stats != NULL && stats->size == sizeof(*stats) && stats->version == MI_STAT_VERSION;
}

bool mi_stats_get(mi_stats_t* stats) mi_attr_noexcept {
  return mi_subproc_stats_get(mi_subproc_current(), stats);
}

bool mi_subproc_stats_get(mi_subproc_id_t id, mi_stats_t* stats) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc == NULL || !mi_stats_is_prepared(stats)) return false;
  mi_stats_collect(subproc, stats);
  return true;
}

bool mi_subproc_stats_get_exclusive(mi_subproc_id_t id, mi_stats_t* stats) mi_attr_noexcept {
  mi_subproc_t* const subproc = mi_api_subproc(id);
  if (subproc == NULL || !mi_stats_is_prepared(stats)) return false;
  mi_stats_init(stats);
  mi_stats_fill_exclusive(stats, subproc);
  return true;
}

bool mi_heap_stats_get(mi_heap_t* heap, mi_stats_t* stats) mi_attr_noexcept {
  if (!mi_stats_is_prepared(stats)) return false;
  mi_stats_collect_heap(heap != NULL ? heap : mi_heap_main(), stats);
  return true;
}

// -- Nothing to merge or to reset --

void mi_stats_reset(void) mi_attr_noexcept {}
void mi_stats_merge(void) mi_attr_noexcept {}
void mi_heap_stats_merge_to_subproc(mi_heap_t* heap) mi_attr_noexcept { (void)heap; }
void mi_heap_stats_merge_to_main(mi_heap_t* heap) mi_attr_noexcept { (void)heap; }

// -- The process --

MI_INTERNAL void mi_stats_snapshot(mi_snapshot_t* snapshot) {
  mi_process_setup();
  *snapshot = (mi_snapshot_t){0};
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) {
    mi_counters_t* const count = &subproc->count;
    mi_usage_t usage;
    mi_usage_measure(subproc, NULL, &usage);
    snapshot->in_use += usage.in_use;
    snapshot->in_use_blocks += usage.in_use_blocks;
    snapshot->in_pages += usage.in_pages;
    const int64_t kept = mi_kept_count(subproc, NULL);
    const int64_t large = mi_atomic_load_relaxed(&count->large); // later: less may be kept by now
    snapshot->large += (size_t)(large > kept ? large - kept : 0);
    snapshot->large_peak += (size_t)mi_atomic_load_relaxed(&count->large_peak);
    snapshot->large_blocks += usage.large_blocks;
    snapshot->committed += (size_t)mi_atomic_load_relaxed(&count->charged);
    snapshot->committed_peak += (size_t)mi_atomic_load_relaxed(&count->charged_peak);
    snapshot->reserved += (size_t)mi_atomic_load_relaxed(&count->reserved);
  }
  mi_metadata_t own;
  mi_usage_metadata(&own);
  snapshot->committed += (size_t)own.current;
  snapshot->committed_peak += (size_t)own.peak;
}

MI_INTERNAL void mi_stats_collect_process(mi_stats_process_t* process) {
  mi_process_setup();
  *process = (mi_stats_process_t){0};
  mi_os_usage(&process->os);
  mi_metadata_t own;
  mi_usage_metadata(&own);
  process->metadata = process->commit = own.current;
  process->commit_peak = own.peak;
  size_t sequence = SIZE_MAX;
  mi_subproc_t* subproc;
  while ((subproc = mi_subproc_before(&sequence)) != NULL) {
    process->commit += mi_atomic_load_relaxed(&subproc->count.charged);
    process->commit_peak += mi_atomic_load_relaxed(&subproc->count.charged_peak);
  }
}

static void mi_stats_put(size_t* result, size_t value) {
  if (result != NULL) *result = value;
}

void mi_process_info(size_t* elapsed_msecs, size_t* user_msecs, size_t* system_msecs,
                     size_t* current_rss, size_t* peak_rss, size_t* current_commit,
                     size_t* peak_commit, size_t* page_faults) mi_attr_noexcept {
  mi_stats_process_t process;
  mi_stats_collect_process(&process);
  mi_stats_put(elapsed_msecs, process.os.elapsed_ms);
  mi_stats_put(user_msecs, process.os.user_ms);
  mi_stats_put(system_msecs, process.os.system_ms);
  mi_stats_put(current_rss, process.os.rss);
  mi_stats_put(peak_rss, process.os.rss_peak);
  mi_stats_put(current_commit, (size_t)process.commit);
  mi_stats_put(peak_commit, (size_t)process.commit_peak);
  mi_stats_put(page_faults, process.os.page_faults);
}
