// SPDX-License-Identifier: MIT
// override_zone.c - on macOS: this library as a zone, which is what the system calls an allocator,
// and malloc and its relatives for blocks of any zone.
//
//   malloc of libSystem, malloc_zone_malloc(default) --> the first zone = mi_zone --> mi_malloc
//   malloc of a program, where it is interposed (override_macos.c) -----------------> mi_malloc
//   free of either --> mi_zone_any_free --> ours: mi_free
//                                       '-> not ours: the zone that has the block
//
// A process has blocks that are not ours: those from before we came, and those of zones that
// programs and frameworks make for themselves (malloc_create_zone).
//
// OVERRIDE_ZONE-1  each function takes a block of any zone, also those of `mi_zone`: programs keep
//     the default zone of the moment and free into it later, and the system forwards what was
//     allocated while another zone was the default one. A block of no zone is ours to report.
// OVERRIDE_ZONE-2  a block that grows stays in its zone.
// OVERRIDE_ZONE-3  `force_lock` and its relatives have no effect: around a fork, handlers of our
//     own hold our locks (core/process/fork.c). They run before the system locks the zones, and
//     what it does until then may still allocate.
// OVERRIDE_ZONE-4  nothing here depends on macOS but the interface of <malloc/malloc.h>: the tests
//     run this file on other systems, with a model of that.
//
// Deliberately absent: what versions of the interface after 10 may have. The system then calls the
// functions that have been there before (malloc for malloc_type_malloc). Blocks of other processes:
// a tool cannot run our code there.
#if (defined(MI_MALLOC_OVERRIDE) && MI_IS_MACOS) || defined(MI_ZONE_MODEL)

#if !defined(MI_ZONE_MODEL)
#include <mach/mach.h>
#include <malloc/malloc.h>
#endif
#include <mimalloc-stats.h>
#include <mimalloc.h>

#include "../base/compiler.h"

#define MI_ZONE_VERSION 10

static malloc_zone_t mi_zone;

static bool mi_zone_is_ours(const void* p) { return mi_likely(mi_is_in_heap_region(p)); }

// Return the zone that has the block, NULL if none has, or we do.
static malloc_zone_t* mi_zone_of_others(const void* p) {
  malloc_zone_t* const zone = malloc_zone_from_ptr(p);
  return zone != &mi_zone ? zone : NULL;
}

// -- For blocks of any zone (OVERRIDE_ZONE-1): some are for override_macos.c only --

static void mi_zone_any_free(void* p) {
  malloc_zone_t* const other = p == NULL || mi_zone_is_ours(p) ? NULL : mi_zone_of_others(p);
  if (mi_unlikely(other != NULL)) {
    malloc_zone_free(other, p);
  } else {
    mi_free(p);
  }
}

static void* mi_zone_any_realloc(void* p, size_t size) {
  malloc_zone_t* const other = p == NULL || mi_zone_is_ours(p) ? NULL : mi_zone_of_others(p);
  return mi_unlikely(other != NULL) ? malloc_zone_realloc(other, p, size) : mi_realloc(p, size);
}

static mi_attr_unused void* mi_zone_any_reallocf(void* p, size_t size) {
  void* const q = mi_zone_any_realloc(p, size);
  if (q == NULL) mi_zone_any_free(p);
  return q;
}

static mi_attr_unused size_t mi_zone_any_size(const void* p) {
  if (p == NULL) return 0;
  if (mi_zone_is_ours(p)) return mi_usable_size(p);
  malloc_zone_t* const other = mi_zone_of_others(p);
  return other != NULL ? other->size(other, p) : 0;
}

// -- The zone --

// The system asks each zone: 0 for a block of another one.
static size_t mi_zone_size(malloc_zone_t* zone, const void* p) {
  (void)zone;
  return mi_zone_is_ours(p) ? mi_usable_size(p) : 0;
}

static void* mi_zone_malloc(malloc_zone_t* zone, size_t size) {
  (void)zone;
  return mi_malloc(size);
}

static void* mi_zone_calloc(malloc_zone_t* zone, size_t count, size_t size) {
  (void)zone;
  return mi_calloc(count, size);
}

static void* mi_zone_valloc(malloc_zone_t* zone, size_t size) {
  (void)zone;
  return mi_valloc(size);
}

static void* mi_zone_memalign(malloc_zone_t* zone, size_t alignment, size_t size) {
  (void)zone;
  return mi_memalign(alignment, size);
}

static void mi_zone_free(malloc_zone_t* zone, void* p) {
  (void)zone;
  mi_zone_any_free(p);
}

static void mi_zone_free_sized(malloc_zone_t* zone, void* p, size_t size) {
  (void)zone;
  (void)size;
  mi_zone_any_free(p);
}

static void* mi_zone_realloc(malloc_zone_t* zone, void* p, size_t size) {
  (void)zone;
  return mi_zone_any_realloc(p, size);
}

// The blocks of the process are in here.
static void mi_zone_destroy(malloc_zone_t* zone) { (void)zone; }

static unsigned mi_zone_malloc_many(malloc_zone_t* zone, size_t size, void** blocks,
                                    unsigned count) {
  unsigned made = 0;
  (void)zone;
  while (made < count && (blocks[made] = mi_malloc(size)) != NULL) made++;
  return made;
}

static void mi_zone_free_many(malloc_zone_t* zone, void** blocks, unsigned count) {
  (void)zone;
  for (unsigned i = 0; i < count; i++) mi_zone_any_free(blocks[i]);
}

static size_t mi_zone_committed(void) {
  mi_stats_t_decl(stats);
  return mi_stats_get(&stats) ? (size_t)stats.committed.current : 0;
}

// Memory is short. `goal` bytes would do; 0 as much as can be had.
static size_t mi_zone_relieve(malloc_zone_t* zone, size_t goal) {
  (void)zone;
  (void)goal;
  const size_t before = mi_zone_committed();
  mi_collect(true);
  const size_t after = mi_zone_committed();
  return before > after ? before - after : 0;
}

static boolean_t mi_zone_claims(malloc_zone_t* zone, void* p) {
  (void)zone;
  return mi_zone_is_ours(p);
}

// -- What tools ask --

#define MI_ZONE_RANGES 64

typedef struct mi_zone_tour_s {
  task_t task;
  void* context;
  vm_range_recorder_t* record;
  unsigned mask;
  unsigned count;
  vm_range_t blocks[MI_ZONE_RANGES]; // that are not recorded yet
} mi_zone_tour_t;

static void mi_zone_flush(mi_zone_tour_t* tour) {
  if (tour->count == 0) return;
  tour->record(tour->task, tour->context, MALLOC_PTR_IN_USE_RANGE_TYPE, tour->blocks, tour->count);
  tour->count = 0;
}

static bool mi_zone_visit(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                          size_t block_size, void* arg) {
  mi_zone_tour_t* const tour = (mi_zone_tour_t*)arg;
  (void)heap;
  if (block != NULL) {
    tour->blocks[tour->count++] = (vm_range_t){(vm_address_t)block, block_size};
    if (tour->count == MI_ZONE_RANGES) mi_zone_flush(tour);
  } else if ((tour->mask & MALLOC_PTR_REGION_RANGE_TYPE) != 0) {
    vm_range_t region = {(vm_address_t)area->blocks, area->reserved};
    tour->record(tour->task, tour->context, MALLOC_PTR_REGION_RANGE_TYPE, &region, 1);
  }
  return true;
}

static bool mi_zone_visit_heap(mi_heap_t* heap, void* arg) {
  const mi_zone_tour_t* const tour = (const mi_zone_tour_t*)arg;
  const bool has_blocks = (tour->mask & MALLOC_PTR_IN_USE_RANGE_TYPE) != 0;
  return mi_heap_visit_blocks(heap, has_blocks, &mi_zone_visit, arg);
}

// The other threads of the process do not allocate meanwhile: whoever calls this has stopped them.
static kern_return_t mi_zone_enumerate(task_t task, void* context, unsigned mask,
                                       vm_address_t address, memory_reader_t read,
                                       vm_range_recorder_t record) {
  (void)address;
  (void)read;
  if (task != mach_task_self()) return KERN_FAILURE;
  mi_zone_tour_t tour = {.task = task, .context = context, .record = record, .mask = mask};
  mi_subproc_visit_heaps(mi_subproc_main(), &mi_zone_visit_heap, &tour);
  mi_zone_flush(&tour);
  return KERN_SUCCESS;
}

static size_t mi_zone_good_size(malloc_zone_t* zone, size_t size) {
  (void)zone;
  return mi_good_size(size);
}

// What is damaged is found when it is used.
static boolean_t mi_zone_check(malloc_zone_t* zone) {
  (void)zone;
  return true;
}

static void mi_zone_print(malloc_zone_t* zone, boolean_t verbose) {
  (void)zone;
  (void)verbose;
  mi_stats_print_out(NULL, NULL);
}

static void mi_zone_log(malloc_zone_t* zone, void* p) {
  (void)zone;
  (void)p;
}

static void mi_zone_do_nothing(malloc_zone_t* zone) { (void)zone; } // OVERRIDE_ZONE-3

static boolean_t mi_zone_is_locked(malloc_zone_t* zone) {
  (void)zone;
  return false;
}

static bool mi_zone_count(const mi_heap_t* heap, const mi_heap_area_t* area, void* block,
                          size_t block_size, void* arg) {
  (void)heap;
  (void)block;
  (void)block_size;
  *(unsigned*)arg += (unsigned)area->used;
  return true;
}

static bool mi_zone_count_heap(mi_heap_t* heap, void* arg) {
  return mi_heap_visit_blocks(heap, false, &mi_zone_count, arg);
}

// Memory that is not of an arena is not in `reserved`.
static int64_t mi_zone_larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void mi_zone_statistics(malloc_zone_t* zone, malloc_statistics_t* result) {
  (void)zone;
  *result = (malloc_statistics_t){0};
  mi_stats_t_decl(stats);
  if (!mi_stats_get(&stats)) return;
  result->size_in_use = (size_t)(stats.malloc_normal.current + stats.malloc_huge.current);
  result->max_size_in_use = (size_t)stats.committed.peak; // "of touched memory"
  result->size_allocated = (size_t)mi_zone_larger(stats.reserved.current, stats.committed.current);
  mi_subproc_visit_heaps(mi_subproc_main(), &mi_zone_count_heap, &result->blocks_in_use);
}

static malloc_introspection_t mi_zone_introspection = {
    .enumerator = &mi_zone_enumerate,
    .good_size = &mi_zone_good_size,
    .check = &mi_zone_check,
    .print = &mi_zone_print,
    .log = &mi_zone_log,
    .force_lock = &mi_zone_do_nothing,
    .force_unlock = &mi_zone_do_nothing,
    .statistics = &mi_zone_statistics,
    .zone_locked = &mi_zone_is_locked,
    .reinit_lock = &mi_zone_do_nothing,
};

static malloc_zone_t mi_zone = {
    .size = &mi_zone_size,
    .malloc = &mi_zone_malloc,
    .calloc = &mi_zone_calloc,
    .valloc = &mi_zone_valloc,
    .free = &mi_zone_free,
    .realloc = &mi_zone_realloc,
    .destroy = &mi_zone_destroy,
    .zone_name = "mimalloc",
    .batch_malloc = &mi_zone_malloc_many,
    .batch_free = &mi_zone_free_many,
    .introspect = &mi_zone_introspection,
    .version = MI_ZONE_VERSION,
    .memalign = &mi_zone_memalign,
    .free_definite_size = &mi_zone_free_sized,
    .pressure_relief = &mi_zone_relieve,
    .claimed_address = &mi_zone_claims,
};

// -- Becoming the first zone --

// Return the zone that malloc of libSystem allocates from, NULL if nobody tells. It is not always
// malloc_default_zone(), which may stand for the first one.
static malloc_zone_t* mi_zone_first(unsigned* count) {
  vm_address_t* zones = NULL;
  *count = 0;
  if (malloc_get_all_zones(mach_task_self(), NULL, &zones, count) != KERN_SUCCESS) return NULL;
  return *count > 0 ? (malloc_zone_t*)zones[0] : NULL;
}

// Register the zone, and have it be the first: each one before it is taken out and put in again at
// the end. False if that cannot be done; then the zone is one of those that free looks at.
static bool mi_zone_register(void) {
  // This zone takes small blocks from the zone that is first when it is made, and needs one of the
  // system's.
  malloc_default_purgeable_zone();
  malloc_zone_register(&mi_zone);
  unsigned count;
  malloc_zone_t* first = mi_zone_first(&count);
  for (unsigned i = 0; i < 2 * count && first != NULL && first != &mi_zone; i++) {
    malloc_zone_unregister(first);
    malloc_zone_register(first);
    first = mi_zone_first(&count);
  }
  return first == &mi_zone;
}

#endif
