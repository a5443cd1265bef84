// SPDX-License-Identifier: MIT
// visit.c - what a program can see of its heaps: areas, blocks in use, and pages worth emptying.
//
// A shadow knows each block in use. A visit collects what the visitor is shown and verifies it on
// the way; then both are compared. Neither allocates.
#include "test_heap.h"

#define BLOCK_MAX 200000

typedef struct block_s {
  unsigned char* p;
  size_t size; // requested, or of what was seen: usable
} block_t;

static block_t shadow[BLOCK_MAX];
static size_t shadow_count;
static block_t seen[BLOCK_MAX];

typedef struct visit_s {
  mi_heap_t* heap; // NULL: several
  size_t stop_at; // the call that returns false; 0: none
  size_t calls, areas, blocks;
  size_t used; // sum of what the areas say
  const char* wrong; // the first thing that was, or NULL
  bool has_blocks; // they are visited too
  mi_heap_area_t area; // the last one
  size_t blocks_in_area;
} visit_t;

static void check(visit_t* visit, bool fact, const char* text) {
  if (!fact && visit->wrong == NULL) visit->wrong = text;
}

static void end_area(visit_t* visit) {
  if (visit->areas == 0 || !visit->has_blocks) return;
  check(visit, visit->blocks_in_area == visit->area.used, "an area has as many blocks as it says");
}

static void see_area(visit_t* visit, const mi_heap_t* heap, const mi_heap_area_t* area,
                     size_t size) {
  end_area(visit);
  visit->areas++;
  visit->used += area->used;
  visit->area = *area;
  visit->blocks_in_area = 0;
  check(visit, area->blocks != NULL && mi_heap_of(area->blocks) == heap, "an area is in its heap");
  check(visit, area->block_size > 0 && size == area->block_size, "an area has a block size");
  check(visit, area->full_block_size >= area->block_size, "blocks do not overlap");
  check(visit, area->used * area->full_block_size <= area->committed, "used blocks were carved");
  check(visit, area->committed <= area->reserved, "there is room for what was carved");
}

static void see_block(visit_t* visit, const mi_heap_area_t* area, unsigned char* p, size_t size) {
  check(visit, visit->areas > 0 && area->blocks == visit->area.blocks, "the area comes first");
  const unsigned char* const place = (unsigned char*)test_plain(p); // areas have no tags
  const size_t offset = (size_t)(place - (unsigned char*)area->blocks);
  check(visit, place >= (unsigned char*)area->blocks, "a block is behind the start of its area");
  if (!test_is_tracked()) { // with margins
    check(visit, offset % area->full_block_size == 0, "a block is where its area has one");
    check(visit, offset + area->full_block_size <= area->committed, "a block was carved");
    check(visit, size == area->block_size, "the size is that of the area");
  }
  check(visit, size == mi_usable_size(p), "the size is the usable one");
  if (visit->blocks < BLOCK_MAX) seen[visit->blocks] = (block_t){p, size};
  visit->blocks++;
  visit->blocks_in_area++;
}

static bool see(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                void* arg) {
  visit_t* const visit = (visit_t*)arg;
  visit->calls++;
  check(visit, visit->stop_at == 0 || visit->calls <= visit->stop_at, "it stops on false");
  check(visit, visit->heap == NULL || heap == visit->heap, "the heap is the one that is visited");
  if (block == NULL) {
    see_area(visit, heap, area, size);
  } else {
    check(visit, visit->has_blocks, "blocks were not asked for");
    see_block(visit, area, (unsigned char*)block, size);
  }
  return visit->calls != visit->stop_at;
}

static int compare_blocks(const void* a, const void* b) {
  const unsigned char* const p = ((const block_t*)a)->p;
  const unsigned char* const q = ((const block_t*)b)->p;
  return p < q ? -1 : p > q;
}

// After a visit that went through.
static void finish(visit_t* visit, bool result) {
  if (visit->stop_at == 0) end_area(visit);
  if (visit->wrong != NULL) fail_msg("not so: %s", visit->wrong);
  assert_true(result);
  assert_true(visit->blocks <= BLOCK_MAX);
  qsort(seen, visit->blocks, sizeof(block_t), &compare_blocks);
  for (size_t i = 1; i < visit->blocks; i++) {
    if (seen[i - 1].p + seen[i - 1].size > seen[i].p) fail_msg("seen twice: %p", (void*)seen[i].p);
  }
  if (visit->has_blocks) assert_int_equal(visit->used, visit->blocks);
}

static visit_t visit_all(mi_heap_t* heap) {
  visit_t visit = {.heap = heap == NULL ? mi_heap_main() : heap, .has_blocks = true};
  finish(&visit, mi_heap_visit_blocks(heap, true, &see, &visit));
  return visit;
}

// The block seen that `p` is in, or NULL.
static const block_t* find_seen(const visit_t* visit, const unsigned char* p) {
  size_t low = 0, high = visit->blocks;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (seen[middle].p != p && seen[middle].p + seen[middle].size <= p) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < visit->blocks && seen[low].p <= p ? &seen[low] : NULL;
}

// Every block of the shadow was seen, with its size.
static void check_shadow_is_seen(const visit_t* visit) {
  for (size_t i = 0; i < shadow_count; i++) {
    const block_t* const found = find_seen(visit, shadow[i].p);
    if (found == NULL) fail_msg("not seen: %p, %zu bytes", (void*)shadow[i].p, shadow[i].size);
    const size_t before = (size_t)(shadow[i].p - found->p); // of blocks that were aligned
    if (found->size - before < shadow[i].size) {
      fail_msg("%p: %zu usable of %zu", (void*)found->p, found->size - before, shadow[i].size);
    }
  }
}

// The heap consists of the shadow's blocks.
static void check_heap_is_shadow(mi_heap_t* heap) {
  const visit_t visit = visit_all(heap);
  check_shadow_is_seen(&visit);
  assert_int_equal(visit.blocks, shadow_count);
}

// -- Blocks --

static size_t draw_size(uint64_t* random) {
  const uint64_t kind = random_below(random, 200);
  if (kind < 1) return random_next(random) % (10 * TEST_MIB);
  if (kind < 4) return random_below(random, TEST_MIB);
  if (kind < 20) return random_next(random) % (100 * TEST_KIB);
  return random_size(random, 10);
}

typedef struct batch_s {
  mi_heap_t* heap; // NULL: of malloc
  block_t* block;
  size_t count;
  size_t every; // free one block in so many
  uint64_t seed;
} batch_t;

// A thread may run these, so they use no cmocka: a block that is missing is found later.
static void make_batch(void* argument) {
  batch_t* const batch = (batch_t*)argument;
  uint64_t random = batch->seed;
  for (size_t i = 0; i < batch->count; i++) {
    const size_t size = draw_size(&random);
    const bool is_aligned = random_below(&random, 20) == 0;
    const size_t alignment = is_aligned ? (size_t)1 << random_below(&random, 18) : 1;
    unsigned char* const p =
        (unsigned char*)(is_aligned ? mi_heap_malloc_aligned(batch->heap, size, alignment)
                                    : mi_heap_malloc(batch->heap, size));
    if (p != NULL && size > 0) p[0] = p[size - 1] = 1;
    batch->block[i] = (block_t){p, size};
  }
}

static void free_some(void* argument) {
  batch_t* const batch = (batch_t*)argument;
  size_t kept = 0;
  for (size_t i = 0; i < batch->count; i++) {
    if (i % batch->every == 0) {
      mi_free(batch->block[i].p);
    } else {
      batch->block[kept++] = batch->block[i];
    }
  }
  batch->count = kept;
}

static void* make_batch_and_end(void* argument) {
  make_batch(argument);
  return NULL;
}

static void* free_some_and_end(void* argument) {
  free_some(argument);
  return NULL;
}

static void shadow_clear(void) { shadow_count = 0; }

// `count` more blocks for the shadow.
static batch_t shadow_batch(mi_heap_t* heap, size_t count, uint64_t seed) {
  assert_true(shadow_count + count <= BLOCK_MAX);
  const batch_t batch = {heap, shadow + shadow_count, count, 2, seed};
  shadow_count += count;
  return batch;
}

static void shadow_free_some(void* (*on_thread)(void*), size_t every) {
  batch_t all = {NULL, shadow, shadow_count, every, 0};
  if (on_thread != NULL) {
    test_on_thread(on_thread, &all);
  } else {
    free_some(&all);
  }
  shadow_count = all.count;
}

static void shadow_free(void) { shadow_free_some(NULL, 1); }

// If this fails, a tool that lists what is in a heap shows blocks that were freed, or misses some.
static void visit_sees_exactly_the_blocks_in_use(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 8; seed++) {
    shadow_clear();
    mi_heap_t* const heap = mi_heap_new();
    check_heap_is_shadow(heap);
    batch_t mine = shadow_batch(heap, 1500, seed);
    make_batch(&mine);
    check_heap_is_shadow(heap);
    for (size_t i = 0; i < 3; i++) {
      batch_t of_thread = shadow_batch(heap, 700, seed * 1000 + i);
      test_on_thread(&make_batch_and_end, &of_thread);
    }
    check_heap_is_shadow(heap);
    shadow_free_some(NULL, 3);
    check_heap_is_shadow(heap);
    shadow_free_some(&free_some_and_end, 4);
    check_heap_is_shadow(heap);
    batch_t more = shadow_batch(heap, 500, seed + 77);
    make_batch(&more);
    check_heap_is_shadow(heap);
    mi_heap_collect(heap, seed % 2 == 0);
    check_heap_is_shadow(heap);
    shadow_free();
    check_heap_is_shadow(heap);
    mi_heap_destroy(heap);
  }
}

static void check_threads_that_live(size_t count) {
  enum { COUNT_MAX = 40 };
  static puppet_t puppet[COUNT_MAX];
  shadow_clear();
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < count; i++) {
    puppet_start(&puppet[i]);
    batch_t batch = shadow_batch(heap, 800, i + 5);
    puppet_do(&puppet[i], &make_batch, &batch);
  }
  check_heap_is_shadow(heap);
  batch_t mine = shadow_batch(heap, 300, 99);
  make_batch(&mine);
  shadow_free_some(NULL, 3);
  check_heap_is_shadow(heap);
  // What they freed themselves: they hold some of it ready.
  const size_t first = shadow_count;
  batch_t more = shadow_batch(heap, 500, 7);
  puppet_do(&puppet[count - 1], &make_batch, &more);
  puppet_do(&puppet[count / 2], &free_some, &more);
  shadow_count = first + more.count;
  check_heap_is_shadow(heap);
  for (size_t i = 0; i < count; i++) puppet_end(&puppet[i]);
  check_heap_is_shadow(heap);
  shadow_free();
  mi_heap_destroy(heap);
}

// If this fails, what idle threads of a pool hold is missing: in a server, nearly all.
static void visit_sees_blocks_of_threads_that_live(void** state) {
  (void)state;
  check_threads_that_live(3);
}

// If this fails, blocks that threads of a large pool hold ready are reported as leaks.
static void visit_knows_what_a_crowd_holds_ready(void** state) {
  (void)state;
  check_threads_that_live(40);
}

// If this fails, blocks that a thread freed a moment ago are reported as leaks.
static void visit_knows_what_a_living_thread_freed(void** state) {
  (void)state;
  shadow_clear();
  mi_heap_t* const heap = mi_heap_new();
  puppet_t puppet;
  puppet_start(&puppet);
  batch_t mine = shadow_batch(heap, 2000, 3);
  make_batch(&mine);
  puppet_do(&puppet, &free_some, &mine);
  shadow_count = mine.count;
  check_heap_is_shadow(heap);
  // Neighbours, some of which it may not have handed over yet.
  const size_t first = shadow_count;
  for (; shadow_count < first + 1000; shadow_count++) {
    shadow[shadow_count] = (block_t){(unsigned char*)mi_heap_malloc(heap, 64), 64};
  }
  batch_t neighbours = {heap, shadow + first + 300, 700, 1, 0};
  puppet_do(&puppet, &free_some, &neighbours);
  shadow_count = first + 300;
  check_heap_is_shadow(heap);
  puppet_end(&puppet);
  check_heap_is_shadow(heap);
  shadow_free();
  mi_heap_destroy(heap);
}

// If this fails, a hunt for a leak among what malloc gave misses it.
static void visit_main_heap(void** state) {
  (void)state;
  shadow_clear();
  const size_t before = visit_all(NULL).blocks;
  batch_t mine = shadow_batch(NULL, 2000, 11);
  make_batch(&mine);
  visit_t visit = visit_all(mi_heap_main());
  check_shadow_is_seen(&visit);
  assert_int_equal(visit.blocks, before + shadow_count);
  shadow_free_some(NULL, 2);
  visit = visit_all(NULL);
  check_shadow_is_seen(&visit);
  assert_int_equal(visit.blocks, before + shadow_count);
  // What libc keeps of a thread is in there too.
  batch_t of_thread = shadow_batch(NULL, 1000, 12);
  test_on_thread(&make_batch_and_end, &of_thread);
  visit = visit_all(NULL);
  check_shadow_is_seen(&visit);
  assert_true(visit.blocks >= before + shadow_count);
  shadow_free();
  assert_true(visit_all(NULL).blocks < before + 100);
}

// If this fails, after a heap was deleted its blocks are in no list at all.
static void visit_main_heap_sees_blocks_of_deleted_heaps(void** state) {
  (void)state;
  shadow_clear();
  mi_heap_t* const heap = mi_heap_new();
  batch_t mine = shadow_batch(heap, 1000, 21);
  make_batch(&mine);
  const size_t before = visit_all(NULL).blocks;
  mi_heap_delete(heap);
  visit_t visit = visit_all(NULL);
  check_shadow_is_seen(&visit);
  assert_int_equal(visit.blocks, before + shadow_count);
  shadow_free();
  visit = visit_all(NULL);
  assert_int_equal(visit.blocks, before);
}

// If this fails, a tool that looks for the first match runs through gigabytes, or the visitor is
// called after it was done.
static void visit_stops_on_false(void** state) {
  (void)state;
  shadow_clear();
  mi_heap_t* const heap = mi_heap_new();
  batch_t mine = shadow_batch(heap, 300, 31);
  test_on_thread(&make_batch_and_end, &mine);
  const size_t calls = visit_all(heap).calls;
  assert_true(calls > shadow_count);
  for (size_t stop_at = 1; stop_at <= calls; stop_at++) {
    visit_t visit = {.heap = heap, .stop_at = stop_at, .has_blocks = true};
    assert_false(mi_heap_visit_blocks(heap, true, &see, &visit));
    if (visit.wrong != NULL) fail_msg("not so: %s", visit.wrong);
    assert_int_equal(visit.calls, stop_at);
    visit_t abandoned = {.heap = heap, .stop_at = stop_at, .has_blocks = true};
    assert_false(mi_heap_visit_abandoned_blocks(heap, true, &see, &abandoned));
    assert_int_equal(abandoned.calls, stop_at);
  }
  visit_t areas = {.heap = heap, .stop_at = 1};
  assert_false(mi_heap_visit_blocks(heap, false, &see, &areas));
  assert_int_equal(areas.calls, 1);
  check_heap_is_shadow(heap);
  mi_heap_destroy(heap);
}

// If this fails, a call without a visitor crashes.
static void visit_without_visitor_is_false(void** state) {
  (void)state;
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  assert_non_null(p);
  for (size_t blocks = 0; blocks < 2; blocks++) {
    assert_false(mi_heap_visit_blocks(heap, blocks != 0, NULL, NULL));
    assert_false(mi_heap_visit_blocks(NULL, blocks != 0, NULL, NULL));
    assert_false(mi_heap_visit_abandoned_blocks(heap, blocks != 0, NULL, NULL));
    assert_false(mi_heap_visit_abandoned_blocks(NULL, blocks != 0, NULL, NULL));
    assert_false(mi_abandoned_visit_blocks(mi_subproc_main(), -1, blocks != 0, NULL, NULL));
    assert_false(mi_theap_visit_blocks(mi_heap_theap(heap), blocks != 0, NULL, NULL));
  }
  mi_heap_destroy(heap);
}

// If this fails, a summary of a heap takes as long as a list of all blocks, or does not add up.
static void visit_areas_only(void** state) {
  (void)state;
  shadow_clear();
  mi_heap_t* const heap = mi_heap_new();
  batch_t mine = shadow_batch(heap, 1500, 41);
  make_batch(&mine);
  batch_t of_thread = shadow_batch(heap, 1500, 42);
  test_on_thread(&make_batch_and_end, &of_thread);
  shadow_free_some(NULL, 3);
  const visit_t all = visit_all(heap);
  visit_t areas = {.heap = heap};
  finish(&areas, mi_heap_visit_blocks(heap, false, &see, &areas));
  assert_int_equal(areas.calls, areas.areas);
  assert_int_equal(areas.areas, all.areas);
  assert_int_equal(areas.used, shadow_count);
  mi_heap_destroy(heap);
}

// -- Parts of a heap --

// If this fails, memory that threads left behind cannot be found.
static void visit_abandoned_sees_what_ended_threads_left(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has a page of its own");
  shadow_clear();
  mi_heap_t* const heap = mi_heap_new();
  puppet_t puppet;
  puppet_start(&puppet);
  block_t held = {NULL, 0};
  batch_t of_worker = {heap, &held, 1, 1, 4};
  do { // a small block: its page is not full, so the thread holds it
    mi_free(held.p);
    of_worker.seed++;
    puppet_do(&puppet, &make_batch, &of_worker);
  } while (held.size > 1000);
  unsigned char* const mine = (unsigned char*)mi_heap_malloc(heap, 50);
  batch_t of_thread = shadow_batch(heap, 2000, 51);
  test_on_thread(&make_batch_and_end, &of_thread);
  visit_t visit = {.heap = heap, .has_blocks = true};
  finish(&visit, mi_heap_visit_abandoned_blocks(heap, true, &see, &visit));
  check_shadow_is_seen(&visit);
  assert_null(find_seen(&visit, held.p));
  assert_null(find_seen(&visit, mine));
  assert_int_equal(visit.blocks, shadow_count);
  visit_t areas = {.heap = heap};
  finish(&areas, mi_heap_visit_abandoned_blocks(heap, false, &see, &areas));
  assert_true(areas.areas == visit.areas && areas.used == shadow_count);
  puppet_end(&puppet);
  mi_heap_destroy(heap);
}

// If this fails, the same of all heaps together is incomplete.
static void visit_abandoned_of_all_heaps(void** state) {
  (void)state;
  shadow_clear();
  mi_heap_t* const heap[3] = {mi_heap_new(), mi_heap_new(), NULL};
  for (size_t i = 0; i < 3; i++) {
    batch_t batch = shadow_batch(heap[i], 500, 61 + i);
    test_on_thread(&make_batch_and_end, &batch);
  }
  visit_t visit = {.has_blocks = true};
  finish(&visit, mi_abandoned_visit_blocks(mi_subproc_main(), 7, true, &see, &visit));
  check_shadow_is_seen(&visit);
  // Blocks that this thread has freed since then are free, also those that it still holds back.
  mi_free(shadow[--shadow_count].p);
  mi_free(shadow[--shadow_count].p);
  visit_t freed = {.has_blocks = true};
  finish(&freed, mi_abandoned_visit_blocks(mi_subproc_main(), 0, true, &see, &freed));
  check_shadow_is_seen(&freed);
  assert_int_equal(freed.blocks, visit.blocks - 2);
  visit_t stopped = {.stop_at = 2, .has_blocks = true};
  assert_false(mi_abandoned_visit_blocks(mi_subproc_main(), 0, true, &see, &stopped));
  assert_int_equal(stopped.calls, 2);
  visit_t main_heap = {.heap = mi_heap_main(), .has_blocks = true};
  finish(&main_heap, mi_heap_visit_abandoned_blocks(NULL, true, &see, &main_heap));
  memmove(shadow, shadow + 1000, 500 * sizeof(block_t));
  shadow_count = 498;
  check_shadow_is_seen(&main_heap);
  shadow_free();
  mi_heap_destroy(heap[0]);
  mi_heap_destroy(heap[1]);
}

// If this fails, the part of a heap that this thread holds is taken for the whole, or is empty.
static void visit_theap_sees_its_own(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has a page of its own");
  mi_heap_t* const heap = mi_heap_new();
  puppet_t puppet;
  puppet_start(&puppet);
  block_t others[20];
  batch_t of_worker = {heap, others, 20, 1, 71};
  puppet_do(&puppet, &make_batch, &of_worker);
  shadow_clear();
  for (size_t i = 0; i < 10; i++) {
    shadow[shadow_count++] = (block_t){(unsigned char*)mi_heap_malloc(heap, 64), 64};
  }
  visit_t visit = {.heap = heap, .has_blocks = true};
  finish(&visit, mi_theap_visit_blocks(mi_heap_theap(heap), true, &see, &visit));
  check_shadow_is_seen(&visit);
  assert_int_equal(visit.blocks, 10);
  visit_t stopped = {.heap = heap, .stop_at = 1, .has_blocks = true};
  assert_false(mi_theap_visit_blocks(mi_heap_theap(heap), true, &see, &stopped));
  visit_t none = {.has_blocks = true};
  (void)mi_theap_visit_blocks(NULL, true, &see, &none);
  assert_int_equal(none.calls, 0);
  puppet_end(&puppet);
  mi_heap_destroy(heap);
}

// -- Pages worth emptying --

enum { SPARSE = 100000 };

static size_t count_under_utilized(mi_heap_t* heap, size_t percent) {
  size_t count = 0;
  for (size_t i = 0; i < shadow_count; i++) {
    count += mi_unsafe_heap_page_is_under_utilized(heap, shadow[i].p, percent);
  }
  return count;
}

static mi_heap_t* make_dense_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  shadow_clear();
  for (size_t i = 0; i < SPARSE; i++) {
    unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, 64);
    assert_non_null(p);
    memset(p, (int)(i % 255), 64);
    shadow[shadow_count++] = (block_t){p, 64};
  }
  return heap;
}

// If this fails, a program that defragments moves objects that are well where they are, or none.
static void visit_under_utilized_follows_the_rules(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has a page of its own");
  mi_heap_t* const heap = make_dense_heap();
  mi_heap_t* const other = mi_heap_new();
  static int object;
  assert_false(mi_unsafe_heap_page_is_under_utilized(heap, NULL, 100));
  assert_false(mi_unsafe_heap_page_is_under_utilized(NULL, NULL, 100));
  assert_false(mi_unsafe_heap_page_is_under_utilized(heap, &object, 100));
  // All pages are full, but the one that malloc uses.
  assert_int_equal(count_under_utilized(heap, 99), 0);
  assert_int_equal(count_under_utilized(heap, 100), 0);
  for (size_t i = 0; i < SPARSE; i++) {
    if (i % 4 != 0) mi_free(shadow[i].p);
  }
  for (size_t i = 0; i < SPARSE / 4; i++) shadow[i] = shadow[i * 4];
  shadow_count = SPARSE / 4;
  // Each page is used to a quarter.
  assert_true(count_under_utilized(heap, 50) >= shadow_count / 10 * 9);
  assert_true(count_under_utilized(NULL, 50) >= shadow_count / 10 * 9);
  assert_true(count_under_utilized(heap, 100) >= count_under_utilized(heap, 50));
  assert_true(count_under_utilized(heap, 1000) == count_under_utilized(heap, 100));
  assert_true(count_under_utilized(heap, 15) <= shadow_count / 100);
  assert_int_equal(count_under_utilized(heap, 0), 0);
  assert_int_equal(count_under_utilized(other, 100), 0);
  // Where malloc is taking blocks from is no place to move away from, also when some are freed.
  for (size_t i = 0; i < SPARSE / 10; i++) {
    void* const freed = mi_heap_malloc(heap, 64);
    void* const p = mi_heap_malloc(heap, 64);
    mi_free(freed);
    assert_false(mi_unsafe_heap_page_is_under_utilized(heap, p, 100));
  }
  mi_heap_destroy(other);
  mi_heap_destroy(heap);
}

// If this fails, defragmenting does not free pages: it costs time and gains nothing.
static void visit_under_utilized_pages_can_be_emptied(void** state) {
  (void)state;
  test_skip_if_guarded("a guarded block has a page of its own");
  mi_heap_t* const heap = make_dense_heap();
  const size_t full = visit_all(heap).areas;
  uint64_t random = 5;
  size_t kept = 0;
  for (size_t i = 0; i < SPARSE; i++) {
    if (random_below(&random, 5) == 0) {
      shadow[kept++] = (block_t){shadow[i].p, i};
    } else {
      mi_free(shadow[i].p);
    }
  }
  shadow_count = kept;
  assert_true(visit_all(heap).areas >= full / 10 * 9);
  for (size_t i = 0; i < kept; i++) {
    if (!mi_unsafe_heap_page_is_under_utilized(heap, shadow[i].p, 50)) continue;
    unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, 64);
    memcpy(p, shadow[i].p, 64);
    mi_free(shadow[i].p);
    shadow[i].p = p;
  }
  mi_heap_collect(heap, true);
  const visit_t visit = visit_all(heap);
  printf("FIGURE pages of 100,000 blocks of which a fifth is in use, before and after moving them: "
         "%zu, %zu\n",
         full, visit.areas);
  assert_true(visit.areas <= full / 2);
  for (size_t i = 0; i < kept; i++) {
    assert_true(test_is_filled(shadow[i].p, 64, (unsigned char)(shadow[i].size % 255)));
    shadow[i].size = 64;
  }
  check_heap_is_shadow(heap);
  mi_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(visit_sees_exactly_the_blocks_in_use),
      cmocka_unit_test(visit_sees_blocks_of_threads_that_live),
      cmocka_unit_test(visit_knows_what_a_crowd_holds_ready),
      cmocka_unit_test(visit_knows_what_a_living_thread_freed),
      cmocka_unit_test(visit_main_heap),
      cmocka_unit_test(visit_main_heap_sees_blocks_of_deleted_heaps),
      cmocka_unit_test(visit_stops_on_false),
      cmocka_unit_test(visit_without_visitor_is_false),
      cmocka_unit_test(visit_areas_only),
      cmocka_unit_test(visit_abandoned_sees_what_ended_threads_left),
      cmocka_unit_test(visit_abandoned_of_all_heaps),
      cmocka_unit_test(visit_theap_sees_its_own),
      cmocka_unit_test(visit_under_utilized_follows_the_rules),
      cmocka_unit_test(visit_under_utilized_pages_can_be_emptied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
