// SPDX-License-Identifier: MIT
// zones.c - this library as a zone of macOS (src/override/override_zone.c), with a model of the
// system's list of zones (test/lib/zone_model.h). If this fails, a program on macOS frees a
// block in the wrong allocator, or its tools see a heap that is not there.
//
// It tests what the library does with the interface, not that macOS keeps to it.
#include "test_api.h"

#include <sys/wait.h>
#include <unistd.h>

#include "zone_model.h"
#define MI_ZONE_MODEL
#include "../../src/override/override_zone.c"

// -- The model: a list of zones --

#define ZONES_MAX 8

static malloc_zone_t* zones[ZONES_MAX];
static unsigned zone_count;
static bool is_shifted; // a zone that leaves: the others move up, or the last one takes its place
static bool is_refused; // nobody tells which zones there are
static malloc_zone_t* first_before_purgeable; // when the purgeable zone was asked for

kern_return_t malloc_get_all_zones(task_t task, memory_reader_t* reader, vm_address_t** all,
                                   unsigned* count) {
  (void)reader;
  if (is_refused || task != mach_task_self()) return KERN_FAILURE;
  *all = (vm_address_t*)zones;
  *count = zone_count;
  return KERN_SUCCESS;
}

void malloc_zone_register(malloc_zone_t* zone) {
  assert_true(zone_count < ZONES_MAX);
  for (unsigned i = 0; i < zone_count; i++) assert_ptr_not_equal(zones[i], zone);
  zones[zone_count++] = zone;
}

void malloc_zone_unregister(malloc_zone_t* zone) {
  unsigned i = 0;
  while (i < zone_count && zones[i] != zone) i++;
  assert_true(i < zone_count);
  zone_count--;
  if (!is_shifted) {
    zones[i] = zones[zone_count];
  } else {
    for (; i < zone_count; i++) zones[i] = zones[i + 1];
  }
}

malloc_zone_t* malloc_zone_from_ptr(const void* p) {
  for (unsigned i = 0; p != NULL && i < zone_count; i++) {
    if (zones[i]->size(zones[i], p) != 0) return zones[i];
  }
  return NULL;
}

malloc_zone_t* malloc_default_purgeable_zone(void) {
  first_before_purgeable = zones[0];
  return NULL;
}

void malloc_zone_free(malloc_zone_t* zone, void* p) { zone->free(zone, p); }

void* malloc_zone_realloc(malloc_zone_t* zone, void* p, size_t size) {
  return zone->realloc(zone, p, size);
}

// What malloc and free of the system do.
static void* system_malloc(size_t size) { return zones[0]->malloc(zones[0], size); }

static void system_free(void* p) {
  malloc_zone_t* const zone = malloc_zone_from_ptr(p);
  assert_non_null(zone);
  zone->free(zone, p);
}

// -- The model: zones of others, with a few blocks of one size --

#define OTHER_BLOCKS 16
#define OTHER_SIZE 256

typedef struct other_s {
  malloc_zone_t zone; // first: a zone is known by its address
  size_t sizes[OTHER_BLOCKS]; // 0: free
  unsigned frees, reallocs;
  char blocks[OTHER_BLOCKS][OTHER_SIZE];
} other_t;

static size_t other_index(const other_t* other, const void* p) {
  const size_t at = (size_t)((uintptr_t)p - (uintptr_t)other->blocks);
  return at < sizeof(other->blocks) ? at / OTHER_SIZE : OTHER_BLOCKS;
}

static size_t other_size(malloc_zone_t* zone, const void* p) {
  const other_t* const other = (const other_t*)zone;
  const size_t i = other_index(other, p);
  return i < OTHER_BLOCKS ? other->sizes[i] : 0;
}

static void* other_malloc(malloc_zone_t* zone, size_t size) {
  other_t* const other = (other_t*)zone;
  assert_true(size > 0 && size <= OTHER_SIZE);
  for (size_t i = 0; i < OTHER_BLOCKS; i++) {
    if (other->sizes[i] != 0) continue;
    other->sizes[i] = size;
    return other->blocks[i];
  }
  return NULL;
}

static void other_free(malloc_zone_t* zone, void* p) {
  other_t* const other = (other_t*)zone;
  assert_true(other_size(zone, p) > 0);
  other->sizes[other_index(other, p)] = 0;
  other->frees++;
}

static void* other_realloc(malloc_zone_t* zone, void* p, size_t size) {
  other_t* const other = (other_t*)zone;
  assert_true(other_size(zone, p) > 0);
  other->reallocs++;
  if (size > OTHER_SIZE) return NULL;
  other->sizes[other_index(other, p)] = size;
  return p;
}

static other_t others[3];

// A process in which there were so many zones when we came.
static void start(unsigned count) {
  zone_count = 0;
  is_refused = is_shifted = false;
  memset(others, 0, sizeof(others));
  for (unsigned i = 0; i < count; i++) {
    others[i].zone = (malloc_zone_t){.size = &other_size,
                                     .malloc = &other_malloc,
                                     .free = &other_free,
                                     .realloc = &other_realloc,
                                     .version = 4};
    malloc_zone_register(&others[i].zone);
  }
}

// -- Tests --

// If this fails, malloc of the system stays what it was, or a zone gets lost with its blocks.
static void zone_becomes_the_first(void** state) {
  (void)state;
  for (unsigned count = 1; count <= 3; count++) {
    for (unsigned way = 0; way < 2; way++) {
      start(count);
      is_shifted = way == 1;
      assert_true(mi_zone_register());
      assert_ptr_equal(zones[0], &mi_zone);
      assert_int_equal(zone_count, count + 1);
      assert_ptr_equal(first_before_purgeable, &others[0].zone);
      for (unsigned i = 0; i < count; i++) {
        void* const p = other_malloc(&others[i].zone, 100);
        assert_ptr_equal(malloc_zone_from_ptr(p), &others[i].zone);
      }
      void* const p = system_malloc(100);
      assert_true(mi_is_in_heap_region(p));
      system_free(p);
    }
  }
}

// If this fails, a program does not start where the system does not tell its zones.
static void zone_is_registered_where_nobody_tells(void** state) {
  (void)state;
  start(2);
  is_refused = true;
  assert_false(mi_zone_register());
  void* const p = mi_malloc(100);
  assert_ptr_equal(malloc_zone_from_ptr(p), &mi_zone);
  system_free(p);
}

// If this fails, a block that is older than we are, or of a framework's own zone, crashes in free.
static void blocks_of_others_go_back_to_their_zone(void** state) {
  (void)state;
  start(3);
  void* const old = system_malloc(40); // of the zone that was first
  void* const own = other_malloc(&others[2].zone, 50);
  assert_true(mi_zone_register());
  assert_int_equal(mi_zone_any_size(old), 40);
  assert_int_equal(mi_zone_any_size(own), 50);
  void* p = mi_zone_any_realloc(own, 60);
  assert_ptr_equal(p, own);
  assert_int_equal(mi_zone_any_size(own), 60);
  assert_null(mi_zone_any_realloc(own, 10000)); // and it is still there
  assert_int_equal(others[2].reallocs, 2);
  mi_zone_any_free(own);
  // The same by the zone itself: who asked for the default zone before has the first one now.
  assert_ptr_equal(zones[0]->realloc(zones[0], old, 44), old);
  zones[0]->free(zones[0], old);
  assert_int_equal(others[0].frees, 1);
  assert_int_equal(others[2].frees, 1);
  void* const again = other_malloc(&others[1].zone, 10);
  zones[0]->free_definite_size(zones[0], again, 10);
  assert_int_equal(others[1].frees, 1);
  void* const last = other_malloc(&others[1].zone, 10);
  assert_null(mi_zone_any_reallocf(last, 10000)); // which frees it
  assert_int_equal(others[1].frees, 2);
}

// If this fails, a call of malloc's family gives a block that is not what was asked for.
static void zone_allocates(void** state) {
  (void)state;
  start(1);
  assert_true(mi_zone_register());
  malloc_zone_t* const zone = zones[0];
  assert_true(zone->version >= 9 && zone->introspect->reinit_lock != NULL);
  uint8_t* p = (uint8_t*)zone->malloc(zone, 100);
  memset(p, 7, 100);
  p = (uint8_t*)zone->realloc(zone, p, 5000);
  for (size_t i = 0; i < 100; i++) assert_int_equal(p[i], 7);
  assert_true(zone->size(zone, p) >= 5000);
  assert_int_equal(zone->size(zone, p), mi_zone_any_size(p));
  assert_true(zone->claimed_address(zone, p));
  zone->free(zone, p);
  p = (uint8_t*)zone->calloc(zone, 30, 10);
  for (size_t i = 0; i < 300; i++) assert_int_equal(p[i], 0);
  zone->free_definite_size(zone, p, 300);
  p = (uint8_t*)zone->valloc(zone, 10);
  assert_int_equal((uintptr_t)p % (size_t)sysconf(_SC_PAGESIZE), 0);
  p = (uint8_t*)mi_zone_any_reallocf(p, 20000);
  assert_true(mi_zone_any_size(p) >= 20000);
  zone->free(zone, p);
  p = (uint8_t*)zone->memalign(zone, 1024, 10);
  assert_int_equal((uintptr_t)p % 1024, 0);
  zone->free(zone, p);
  void* many[100];
  assert_int_equal(zone->batch_malloc(zone, 48, many, 100), 100);
  many[50] = (zone->free(zone, many[50]), other_malloc(&others[0].zone, 20));
  zone->batch_free(zone, many, 100);
  assert_int_equal(others[0].frees, 1);
  zone->free(zone, NULL);
  assert_true(zone->introspect->good_size(zone, 100) >= 100);
}

// If this fails, the system takes blocks of others for ours: it asks each zone.
static void zone_knows_what_is_not_its_own(void** state) {
  (void)state;
  start(1);
  assert_true(mi_zone_register());
  int local = 0;
  const void* const not_ours[] = {NULL, &local, &others[0], test_opaque_pointer(&local)};
  for (size_t i = 0; i < sizeof(not_ours) / sizeof(not_ours[0]); i++) {
    assert_int_equal(mi_zone.size(&mi_zone, not_ours[i]), 0);
    assert_false(mi_zone.claimed_address(&mi_zone, (void*)(uintptr_t)not_ours[i]));
    assert_int_equal(mi_zone_any_size(not_ours[i]), 0);
  }
}

// What the enumerator tells.
typedef struct seen_s {
  const void* wanted;
  size_t wanted_size; // 0: not seen
  size_t blocks, regions;
  bool is_in_region;
} seen_t;

static void record(task_t task, void* context, unsigned type, vm_range_t* ranges, unsigned count) {
  seen_t* const seen = (seen_t*)context;
  assert_int_equal(task, mach_task_self());
  assert_true(count > 0);
  for (unsigned i = 0; i < count; i++) {
    const uintptr_t at = (uintptr_t)seen->wanted - ranges[i].address;
    if (type == MALLOC_PTR_IN_USE_RANGE_TYPE) {
      seen->blocks++;
      if (at == 0) seen->wanted_size += ranges[i].size;
    } else {
      assert_int_equal(type, MALLOC_PTR_REGION_RANGE_TYPE);
      seen->regions++;
      seen->is_in_region = seen->is_in_region || at < ranges[i].size;
    }
  }
}

static seen_t look(task_t task, unsigned mask, const void* wanted, kern_return_t expected) {
  seen_t seen = {.wanted = wanted};
  assert_int_equal(
      mi_zone.introspect->enumerator(task, &seen, mask, (vm_address_t)&mi_zone, NULL, &record),
      expected);
  return seen;
}

// If this fails, a tool misses blocks of a heap (and reports what they point to as leaks), or sees
// some twice.
static void enumerator_finds_each_block_once(void** state) {
  (void)state;
  enum { COUNT = 1000 };
  test_skip_if_guarded("a guarded block does not start where its slot does");
  void* blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++) blocks[i] = mi_malloc(24 + 8 * (i % 50));
  void* const large = mi_malloc(3 * TEST_MIB);
  for (size_t i = 0; i < COUNT; i += 100) {
    const seen_t seen = look(mach_task_self(), MALLOC_PTR_IN_USE_RANGE_TYPE, blocks[i], 0);
    assert_int_equal(seen.wanted_size, mi_usable_size(blocks[i]));
    assert_true(seen.blocks > COUNT);
    assert_int_equal(seen.regions, 0);
  }
  seen_t seen = look(mach_task_self(), 3, large, KERN_SUCCESS);
  assert_int_equal(seen.wanted_size, mi_usable_size(large));
  assert_true(seen.is_in_region && seen.regions > 1);
  seen = look(mach_task_self(), MALLOC_PTR_REGION_RANGE_TYPE, large, KERN_SUCCESS);
  assert_true(seen.is_in_region && seen.blocks == 0);
  seen = look(mach_task_self() + 1, 3, large, KERN_FAILURE); // of another process
  assert_true(seen.blocks == 0 && seen.regions == 0);
  for (size_t i = 0; i < COUNT; i++) mi_free(blocks[i]);
  mi_free(large);
}

// If this fails, the figures of tools are those of another heap.
static void figures_follow_the_heap(void** state) {
  (void)state;
  malloc_statistics_t before, during;
  mi_zone.introspect->statistics(&mi_zone, &before);
  void* const p = mi_malloc(40 * TEST_MIB);
  memset(p, 1, 40 * TEST_MIB);
  mi_zone.introspect->statistics(&mi_zone, &during);
  assert_in_range(during.size_in_use - before.size_in_use, 40 * TEST_MIB, 41 * TEST_MIB);
  assert_true(during.blocks_in_use > before.blocks_in_use);
  assert_true(during.size_allocated >= during.size_in_use);
  assert_true(during.max_size_in_use >= 40 * TEST_MIB);
  mi_free(p);
  mi_zone.pressure_relief(&mi_zone, 0);
  assert_int_equal(mi_zone.pressure_relief(&mi_zone, 0), 0); // there is nothing left
  assert_true(mi_zone.introspect->check(&mi_zone));
  assert_false(mi_zone.introspect->zone_locked(&mi_zone));
}

// If this fails, memory that could go back stays when the system says that it is short.
static void pressure_gives_memory_back(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block gives its memory back when it is freed");
  mi_collect(true);
  mi_option_set(mi_option_purge_delay, 100000); // it waits
  enum { COUNT = 20000 };
  static void* blocks[COUNT];
  for (size_t i = 0; i < COUNT; i++) memset(blocks[i] = mi_malloc(TEST_KIB), 1, TEST_KIB);
  for (size_t i = 0; i < COUNT / 2; i++) mi_free(blocks[i]);
  assert_true(mi_zone.pressure_relief(&mi_zone, 0) >= 2 * TEST_MIB);
  for (size_t i = COUNT / 2; i < COUNT; i++) mi_free(blocks[i]);
}

// If this fails, the child of a fork hangs or crashes at its first malloc: the system locks all
// zones around it, and unlocks them in the parent and in the child.
static void zone_survives_a_fork(void** state) {
  (void)state;
  start(1);
  assert_true(mi_zone_register());
  malloc_introspection_t* const ours = zones[0]->introspect;
  void* const p = system_malloc(100);
  ours->force_lock(zones[0]);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    ours->reinit_lock(zones[0]);
    void* const q = system_malloc(200);
    const bool is_ours = mi_is_in_heap_region(p) && mi_is_in_heap_region(q);
    system_free(p);
    system_free(q);
    _exit(is_ours ? 42 : 1);
  }
  ours->force_unlock(zones[0]);
  system_free(p);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zone_becomes_the_first),
      cmocka_unit_test(zone_is_registered_where_nobody_tells),
      cmocka_unit_test(blocks_of_others_go_back_to_their_zone),
      cmocka_unit_test(zone_allocates),
      cmocka_unit_test(zone_knows_what_is_not_its_own),
      cmocka_unit_test(enumerator_finds_each_block_once),
      cmocka_unit_test(figures_follow_the_heap),
      cmocka_unit_test(pressure_gives_memory_back),
      cmocka_unit_test(zone_survives_a_fork),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
