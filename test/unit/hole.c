// SPDX-License-Identifier: MIT
// hole.c - tests of pages/hole.c, pages/part.c and threads/sparse.c: HOLE-1 to HOLE-3, SPARSE-1 to
// SPARSE-10.
#include "unit.h"

#include "core/heaps/heaps.h"
#include "core/process/process.h"
#include "core/threads/sparse.h"

static void* blocks[UNIT_BLOCKS_MAX];
static bool is_live[UNIT_BLOCKS_MAX];

static const size_t sizes[] = {16, 48, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static int64_t committed(void) { return mi_atomic_load_relaxed(&mi_state.main.count.committed); }

static int64_t sparse_waiting(void) {
  return mi_atomic_load_relaxed(&mi_state.main.sparse_waiting);
}

// Free a block of a page that is in no place.
static void push(mi_page_t* page, void* p) {
  mi_block_t* const block = (mi_block_t*)p;
  block->next = page->local_free;
  page->local_free = block;
  page->count.used--;
}

// A page in no place of whose blocks, which are `blocks`, each is in use with a chance of 1 in
// `part`; those have a pattern.
static mi_page_t* make_random(size_t size, size_t part, uint64_t* random) {
  const size_t c = mi_class_of(size);
  const size_t count = unit_page_blocks(c);
  mi_page_t* const page = unit_make_page(c, count, blocks);
  for (size_t i = 0; i < count; i++) unit_fill(blocks[i], page->block_size, i);
  for (size_t i = count; i-- > 0;) {
    is_live[i] = random_below(random, part) == 0;
    if (!is_live[i]) push(page, blocks[i]);
  }
  return page;
}

static void check_live(const mi_page_t* page) {
  for (size_t i = 0; i < page->reserved; i++) {
    check(!is_live[i] || unit_is_filled(blocks[i], page->block_size, i));
  }
}

// True if a block in use, or only ones that are free, touch the part.
static bool is_part_free(const mi_page_t* page, size_t part) {
  const size_t size = mi_part_size(page->slice_count);
  bool is_touched = false;
  for (size_t i = 0; i < page->reserved; i++) {
    const size_t start = i * page->block_size;
    if (start >= (part + 1) * size || start + page->block_size <= part * size) continue;
    if (is_live[i]) return false;
    is_touched = true;
  }
  return is_touched;
}

static size_t list_length(const mi_page_t* page) { return mi_list_length(page, page->local_free); }

// Everything that is known of a page with holes agrees with `is_live`.
static void check_holes(mi_page_t* page) {
  size_t live = 0, missing = 0;
  for (size_t i = 0; i < page->reserved; i++) {
    live += is_live[i];
    if (!mi_part_is_missing(page, i)) continue;
    missing++;
    check(!is_live[i]);
    for (mi_list_t at = mi_list_of(page, page->local_free); mi_list_has(&at); mi_list_step(&at)) {
      check(at.block != blocks[i]);
    }
  }
  check_equal(mi_part_missing(page), missing);
  check_equal(mi_part_used(page), live);
  check_equal(list_length(page) + missing + live, page->reserved);
  check(mi_page_is_valid(page));
}

static void release(mi_page_t* page) {
  while (page->holes != 0) {
    size_t index;
    const uint32_t count = mi_hole_fill(&mi_state.main, page, &index);
    check(count > 0);
  }
  page->local_free = NULL;
  page->count.used = 0;
  mi_page_release(UNIT_HEAP, page);
}

// If this fails, memory of a program is lost, or memory that holds nothing does not go back.
UNIT_TEST_PAGE_SIZES(hole_is_where_no_block_is_in_use) {
  uint64_t random = 7;
  for (size_t i = 0; i < SIZES; i++) {
    if (sizes[i] > MI_CLASS_MAX) continue;
    for (size_t part = 1; part <= 256; part *= 2) {
      mi_page_t* const page = make_random(sizes[i], part, &random);
      const int64_t before = committed();
      const size_t bytes = mi_hole_make(&mi_state.main, page);
      const size_t part_size = mi_part_size(page->slice_count);
      size_t holes = 0;
      for (size_t k = 0; k * part_size < page->slice_count * MI_SLICE_SIZE; k++) {
        const bool is_hole = (page->holes >> k & 1) != 0;
        holes += is_hole;
        check_equal(is_hole, mi_part_may_have_holes(page) && is_part_free(page, k));
        const size_t rest = page->slice_count * MI_SLICE_SIZE - k * part_size;
        check(!is_hole || unit_is_zero(page->start + k * part_size, mi_bits_min(part_size, rest)));
      }
      check_equal(bytes, holes * part_size);
      check_equal(before - committed(), bytes);
      check_holes(page);
      check_live(page);
      // A second time there is nothing to do; of what was freed since, only the new parts go.
      check_equal(mi_hole_make(&mi_state.main, page), 0);
      for (size_t j = 0; j < page->reserved; j += 2) {
        if (is_live[j]) push(page, blocks[j]);
        is_live[j] = false;
      }
      mi_hole_make(&mi_state.main, page);
      for (size_t k = 0; k * part_size < page->slice_count * MI_SLICE_SIZE; k++) {
        const bool is_hole = (page->holes >> k & 1) != 0;
        check_equal(is_hole, mi_part_may_have_holes(page) && is_part_free(page, k));
      }
      check_holes(page);
      check_live(page);
      release(page);
    }
  }
}

// If this fails, a block is handed out twice after its memory went back, or never again.
UNIT_TEST_PAGE_SIZES(hole_is_filled_block_by_block) {
  uint64_t random = 3;
  for (size_t i = 0; i < SIZES; i++) {
    if (sizes[i] > MI_CLASS_MAX) continue;
    for (size_t part = 2; part <= 64; part *= 2) {
      mi_page_t* const page = make_random(sizes[i], part, &random);
      const int64_t before = committed();
      mi_hole_make(&mi_state.main, page);
      while (page->holes != 0) {
        const uint32_t missing = mi_part_missing(page);
        const size_t holes = page->holes;
        size_t index;
        const uint32_t count = mi_hole_fill(&mi_state.main, page, &index);
        check(count > 0 && index + count <= page->reserved);
        check((page->holes & ~holes) == 0 && page->holes != holes);
        check_equal(missing - count, mi_part_missing(page));
        mi_block_t* list = mi_page_carve_at(page, index, count);
        for (uint32_t n = 0; n < count; n++) {
          check((uint8_t*)list >= page->start + index * page->block_size);
          check((uint8_t*)list < page->start + (index + count) * page->block_size);
          mi_block_t* const next = list->next;
          push(page, list);
          list = next;
        }
        check(list == NULL);
        check_holes(page);
      }
      check_equal(before, committed());
      check_live(page);
      size_t index;
      check_equal(mi_hole_fill(&mi_state.main, page, &index), 0);
      release(page);
    }
  }
}

// If this fails, memory of a block in use is lost because the program freed another one twice.
UNIT_TEST(hole_is_not_made_after_a_mistake) {
  uint64_t random = 5;
  for (size_t round = 0; round < 2; round++) {
    mi_page_t* const page = make_random(1024, 1, &random);
    const size_t count = page->reserved;
    for (size_t i = 1; i < count; i++) push(page, blocks[i]);
    if (round == 0) { // twice
      push(page, blocks[count / 2]);
    } else { // written to
      ((mi_block_t*)blocks[count / 2])->next = (mi_block_t*)(uintptr_t)0x10;
    }
    check_equal(mi_hole_make(&mi_state.main, page), 0);
    check_equal(page->holes, 0);
    check(unit_is_filled(blocks[0], page->block_size, 0));
    release(page);
  }
}

// If this fails, statistics lose blocks beside holes, or count memory that went back (18,000 bytes:
// the page has one block less than it would have in a crowd of threads).
UNIT_TEST(hole_is_no_block_and_no_memory) {
  enum { COUNT = 60 };
  for (size_t c = mi_class_of(512); c < MI_CLASS_COUNT; c++) {
    const size_t size = mi_class_size(c);
    for (size_t i = 0; i < COUNT; i++) blocks[i] = mi_malloc(size);
    size_t left = 0;
    for (size_t i = 0; i < COUNT; i++) {
      if (i % 3 == 1) {
        left++;
      } else {
        mi_free(blocks[i]);
        blocks[i] = NULL;
      }
    }
    mi_collect_all(MI_FORCE);
    size_t bytes = 0, in_use = 0;
    const mi_page_t* last = NULL;
    for (size_t i = 1; i < COUNT; i += 3) {
      const mi_page_t* const page = unit_page_of(blocks[i]);
      if (page != last) {
        bytes += (page->refilled.used - 1) * page->block_size -
                 mi_bits_count(page->holes) * mi_part_size(page->slice_count);
      }
      in_use += page->block_size;
      last = page;
    }
    mi_usage_t usage;
    mi_usage_measure(&mi_state.main, NULL, &usage);
    check_equal(usage.in_use_blocks, left);
    check_equal(usage.in_use, in_use);
    check_equal(usage.in_pages, bytes);
    for (size_t i = 1; i < COUNT; i += 3) mi_free(blocks[i]);
    mi_collect_all(MI_FORCE);
  }
}

// If this fails, a page is kept for ever because some of its memory went back, or is given up while
// it is in use.
UNIT_TEST_PAGE_SIZES(hole_in_a_queue) {
  for (size_t i = 0; i < SIZES; i++) {
    if (sizes[i] > MI_CLASS_MAX / 2) continue;
    const size_t c = mi_class_of(sizes[i]);
    const size_t count = unit_fill_page(c, blocks);
    if (count < 4) continue;
    void* const other = mi_malloc(sizes[i]); // the page is not current any more
    mi_page_t* const page = unit_page_of(blocks[0]);
    for (size_t j = 0; j < count; j++) unit_fill(blocks[j], page->block_size, j);
    for (size_t j = 3; j < count; j++) mi_free(blocks[j]);
    check_equal(mi_part_used(page), 3);
    const bool has_holes = mi_hole_make(&mi_state.main, page) > 0;
    mi_life_rearm(page);
    check_equal(has_holes, page->holes != 0);
    check_equal(mi_part_used(page), 3);
    mi_about_t about;
    mi_describe_address(blocks[0], &about);
    check_equal(about.used, 3);
    mi_usage_t usage;
    mi_usage_measure(&mi_state.main, NULL, &usage);
    check_equal(usage.class_blocks[c], 4); // and `other`
    unit_check_valid();
    mi_free(blocks[1]);
    check_equal(mi_part_used(page), 2);
    mi_free(blocks[2]);
    check(page->place == MI_PLACE_QUEUE && !mi_part_is_empty(page));
    check(unit_is_filled(blocks[0], page->block_size, 0));
    unit_check_valid();
    // All blocks can be had again, and none is the one in use.
    for (size_t j = 0; j < 2 * count; j++) {
      blocks[1 + j] = mi_malloc(sizes[i]);
      check(blocks[1 + j] != NULL && blocks[1 + j] != blocks[0]);
      unit_fill(blocks[1 + j], sizes[i], 1 + j);
    }
    check_equal(page->holes, 0);
    for (size_t j = 0; j < 2 * count; j++) check(unit_is_filled(blocks[1 + j], sizes[i], 1 + j));
    check(unit_is_filled(blocks[0], sizes[i], 0));
    for (size_t j = 0; j <= 2 * count; j++) mi_free(blocks[j]);
    mi_free(other);
    unit_check_valid();
    mi_collect_all(MI_FORCE);
    unit_check_empty();
  }
}

#define MANY 4000
static void* many[MANY];

// Fill pages of 1 KiB blocks, and free all but one block in `part`, which keep their pattern. The
// order is that of addresses, or one that visits each page again and again.
static void thin_out(size_t part, bool is_in_order) {
  for (size_t i = 0; i < MANY; i++) unit_fill(many[i] = mi_malloc(1024), 1024, i);
  const size_t step = is_in_order ? 1 : 37;
  for (size_t k = 0; k < step; k++) {
    for (size_t i = k; i < MANY; i += step) {
      if (i % part == 0) continue;
      mi_free(many[i]);
      many[i] = NULL;
    }
  }
}

// Return how many pages the blocks have that are left of these; and how many of them have holes.
static size_t count_pages(size_t first, size_t end, size_t* with_holes) {
  size_t count = 0;
  const mi_page_t* last = NULL;
  *with_holes = 0;
  for (size_t i = first; i < end; i++) {
    const mi_page_t* const page = many[i] == NULL ? NULL : unit_page_of(many[i]);
    if (page == NULL || page == last) continue;
    last = page;
    count++;
    *with_holes += page->holes != 0;
  }
  return count;
}

// Return how many blocks are in pages with holes.
static size_t count_in_holes(void) {
  size_t count = 0;
  for (size_t i = 0; i < MANY; i++) count += many[i] != NULL && unit_page_of(many[i])->holes != 0;
  return count;
}

static void check_and_free_rest(void) {
  for (size_t i = 0; i < MANY; i++) {
    check(many[i] == NULL || unit_is_filled(many[i], 1024, i));
    mi_free(many[i]);
  }
  check_equal(sparse_waiting(), 0);
  unit_check_valid();
}

// If this fails, what a program can see as free stays with it although it asks to have it returned.
UNIT_TEST(hole_is_made_when_all_is_collected) {
  if (MI_IS_TINY) return; // pages of 1 KiB blocks are too short
  thin_out(32, true);
  mi_page_t* const page = unit_page_of(many[32]);
  const int64_t before = committed();
  check_equal(page->holes, 0);
  mi_collect_all(MI_FORCE);
  check(page->holes != 0);
  check(committed() < before - MANY * 1024 / 2);
  unit_check_valid();
  check_and_free_rest();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a program that frees most of a large heap at random keeps it, or one that frees it
// in order pays for holes in pages that are about to be empty.
UNIT_TEST(hole_is_made_beyond_the_bounds) {
  if (MI_IS_TINY) return;
  os_fake.now_us = 1000000;
  unit_option(purge_delay, 100000);
  for (size_t in_order = 0; in_order < 2; in_order++) {
    // As if so much waited already: beyond RETAIN-1.
    mi_atomic_store_relaxed(&mi_state.main.sparse_waiting, (int64_t)1 << 40);
    const int64_t before = mi_atomic_load_relaxed(&mi_state.main.count.purge_calls);
    thin_out(in_order ? MANY : 32, in_order != 0);
    size_t with_holes;
    const size_t pages = count_pages(0, MANY, &with_holes);
    const int64_t calls = mi_atomic_load_relaxed(&mi_state.main.count.purge_calls);
    if (in_order) {
      check(calls - before <= 2); // the page that is not empty
    } else {
      check(calls - before >= 50);
      check(pages > 50 && with_holes + MI_SPARSE_RING + 2 >= pages);
    }
    mi_count_add(&mi_state.main.sparse_waiting, -((int64_t)1 << 40));
    check_and_free_rest();
    mi_collect_all(MI_FORCE);
  }
}

// If this fails, a program whose sizes change peaks at the sum of what it has and of what it had,
// as long as some block stays in each old page.
UNIT_TEST(hole_is_made_before_a_peak) {
  if (MI_IS_TINY) return;
  enum { PAGES = 240, STAYS = 4 };
  const mi_counters_t* const now = &mi_state.main.count;
  const size_t size = MI_SLICE_SIZE / 16;
  const size_t in_page = unit_page_blocks(mi_class_of(size));
  unit_option(purge_delay, 100000);
  const size_t empty = unit_fill_page(mi_class_of(2 * size), blocks);
  void* const kept = mi_malloc(2 * size);
  for (size_t i = 0; i < PAGES * in_page; i++) unit_fill(many[i] = mi_malloc(size), size, i);
  for (size_t i = 0; i < PAGES * in_page; i++) {
    if (i % STAYS == 0) continue;
    mi_free(many[i]);
    many[i] = NULL;
  }
  check_equal(count_in_holes(), 0); // all of it may wait: RETAIN-7
  // What an empty page leaves comes first.
  for (size_t i = 0; i < empty; i++) mi_free(blocks[i]);
  void* const first = mi_malloc(MI_SLICE_SIZE);
  check_equal(count_in_holes(), 0);
  const int64_t peak = now->committed_peak;
  const int64_t waiting = sparse_waiting();
  check(waiting > 6 * (int64_t)MI_MIB && waiting < 16 * (int64_t)MI_MIB);
  const size_t more = (size_t)waiting / MI_SLICE_SIZE / 4; // pages
  for (size_t i = 0; i < more; i++) blocks[i] = mi_malloc(MI_SLICE_SIZE);
  check(now->committed_peak <= peak + (int64_t)(2 * MI_SLICE_SIZE));
  check(count_in_holes() > 0);
  // What is within the bound of RETAIN-5 stays.
  for (size_t i = more; i < PAGES; i++) blocks[i] = mi_malloc(MI_SLICE_SIZE);
  check(now->committed_peak > peak + (int64_t)(PAGES / 8 * MI_SLICE_SIZE));
  check(sparse_waiting() > 4 * (int64_t)MI_MIB);
  for (size_t i = 0; i < PAGES; i++) mi_free(blocks[i]);
  mi_free(first);
  mi_free(kept);
  check_and_free_rest();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, half of a large heap that a program with one thread frees in its order, but for
// few blocks, stays for ever: it was within the bounds when the heap was large.
UNIT_TEST(hole_is_made_of_older_pages_when_the_heap_shrinks) {
  if (MI_IS_TINY) return;
  os_fake.now_us = 1000000;
  unit_option(purge_delay, 100000);
  for (size_t sizes_count = 1; sizes_count <= 3; sizes_count++) {
    for (size_t i = 0; i < MANY; i++) {
      unit_fill(many[i] = mi_malloc((size_t)1024 << (i % sizes_count)), 1024, i);
    }
    for (size_t half = 0; half < 2; half++) {
      for (size_t i = half * MANY / 2; i < (half + 1) * MANY / 2; i++) {
        if (i % 32 == 0) continue;
        mi_free(many[i]);
        many[i] = NULL;
      }
      if (half == 0) {
        check_equal(count_in_holes(), 0);
        const int64_t beyond = sparse_waiting() + ((int64_t)1 << 40);
        mi_atomic_store_relaxed(&mi_state.main.sparse_waiting, beyond);
      }
    }
    const size_t in_full_pages = 2 * (MI_SPARSE_RING + 2 * sizes_count);
    check(count_in_holes() + in_full_pages >= MANY / 32);
    mi_count_add(&mi_state.main.sparse_waiting, -((int64_t)1 << 40));
    check_and_free_rest();
    mi_collect_all(MI_FORCE);
  }
}

// If this fails, small blocks that a program frees in their order, but for few, hold all the memory
// that they had; or those that it frees at random make each free slow, also frees of larger blocks.
UNIT_TEST(hole_is_made_in_pages_of_many_blocks_that_are_freed_in_order) {
  if (MI_IS_TINY) return;
  enum { COUNT = 16 * MANY, HERE = 256, PART = 100, STEP = 37 };
  static void* p[COUNT];
  os_fake.now_us = 1000000;
  unit_option(purge_delay, 100000);
  for (size_t in_order = 0; in_order < 2; in_order++) {
    mi_atomic_store_relaxed(&mi_state.main.sparse_waiting, (int64_t)1 << 40);
    const size_t step = in_order ? 1 : STEP;
    size_t with_holes = 0;
    for (size_t i = 0; i < COUNT; i++) p[i] = mi_malloc(HERE);
    for (size_t k = 0; k < step; k++) {
      for (size_t i = k; i < COUNT; i += step) {
        if (i % PART != 0) mi_free(p[i]);
      }
    }
    for (size_t i = 0; i < COUNT; i += PART) with_holes += unit_page_of(p[i])->holes != 0;
    check(in_order ? with_holes > COUNT / PART / 2 : with_holes == 0);
    if (!in_order) {
      thin_out(32, true);
      for (size_t i = 0; i < COUNT; i += PART) with_holes += unit_page_of(p[i])->holes != 0;
      check(with_holes <= MI_SPARSE_RING * (unit_page_blocks(mi_class_of(HERE)) / PART + 1));
      for (size_t i = 0; i < MANY; i++) mi_free(many[i]);
    }
    for (size_t i = 0; i < COUNT; i += PART) mi_free(p[i]);
    mi_count_add(&mi_state.main.sparse_waiting, -((int64_t)1 << 40));
    check_equal(sparse_waiting(), 0);
    mi_collect_all(MI_FORCE);
    unit_check_empty();
  }
}

// If this fails, a program that goes on working keeps what it does not use inside its pages.
UNIT_TEST(hole_is_made_of_old_sparse_pages) {
  if (MI_IS_TINY) return;
  thin_out(64, false);
  mi_page_t* const page = unit_page_of(many[64]);
  check(page->is_sparse && sparse_waiting() > MANY * 1024 / 2);
  mi_flush_idle(unit_theap());
  check(page->is_sparse_old && page->holes == 0);
  mi_flush_idle(unit_theap());
  check(!page->is_sparse && page->holes != 0);
  check_and_free_rest();
}

static size_t count_old_sparse(size_t part) {
  size_t count = 0;
  for (size_t i = 0; i < MANY; i += part) count += unit_page_of(many[i])->is_sparse_old;
  return count;
}

// If this fails, a look at the pages of a large heap takes as long as to trim all that are sparse.
UNIT_TEST(hole_is_made_of_a_few_pages_at_a_time) {
  if (MI_IS_TINY) return;
  thin_out(64, false);
  mi_theap_t* const theap = unit_theap();
  size_t pages = MI_LOOK_PAGES_MAX;
  mi_flush_begin_look(theap, true);
  mi_flush_look(theap, &pages);
  const size_t old = count_old_sparse(64);
  check(old > MANY / 64 / 2 && theap->look_left == 0);
  mi_flush_begin_look(theap, false); // one that the clock did not begin
  mi_flush_look(theap, &pages);
  check_equal(count_old_sparse(64), old);
  os_fake.on_purge = &os_fake_be_slow; // as with many threads
  mi_flush_begin_look(theap, true);
  mi_flush_look(theap, &pages);
  const size_t left = count_old_sparse(64);
  check(left < old && left + 8 > old && theap->look_left > 0 && pages == 0);
  os_fake.on_purge = NULL;
  pages = MI_LOOK_PAGES_MAX;
  mi_flush_look(theap, &pages);
  check_equal(count_old_sparse(64), 0);
  check_and_free_rest();
}

// If this fails, the sparse pages that a part of a look does not come to wait for the next look,
// and most of them for minutes.
UNIT_TEST(hole_is_made_where_the_last_part_ended) {
  if (MI_IS_TINY) return;
  thin_out(64, false);
  mi_theap_t* const theap = unit_theap();
  mi_flush_idle(theap);
  const size_t old = count_old_sparse(64);
  mi_flush_begin_look(theap, true);
  for (size_t k = 1; k < 20; k++) {
    size_t pages = 64; // of which one may be trimmed
    mi_flush_look(theap, &pages);
    check_equal(count_old_sparse(64), old - k);
    check(theap->look_left > 0 && pages == 0);
  }
  check_and_free_rest();
}

// If this fails, a program that works little, and in small blocks, keeps what it has freed between
// them: it refills so seldom that a look takes minutes.
UNIT_TEST(hole_is_made_soon_while_much_waits) {
  if (MI_IS_TINY) return;
  thin_out(64, false);
  mi_theap_t* const theap = unit_theap();
  check(mi_sparse_is_much(&mi_state.main));
  int ms = 0;
  for (; mi_sparse_is_much(&mi_state.main) && ms < 60000; ms += 10) {
    os_fake_advance_ms(10);
    theap->home->cadence_count = 0;
    mi_refill_cadence(theap, mi_class_of(1024));
  }
  check(ms >= 500 && ms < 3000); // at the second look
  const size_t old = count_old_sparse(64);
  os_fake_advance_ms(10);
  mi_refill_cadence(theap, mi_class_of(1024));
  check_equal(count_old_sparse(64), old); // little waits now
  check_and_free_rest();
}

// Fill pages with blocks of a size, free all but one block in `part`, look at the pages twice, and
// check that a third of what was freed went back.
static void check_looks_give_back(size_t size, size_t part) {
  const size_t count = 64 * unit_page_blocks(mi_class_of(size));
  for (size_t i = 0; i < count; i++) unit_fill(many[i] = mi_malloc(size), size, i);
  const int64_t before = committed();
  for (size_t i = 0; i < count; i++) {
    if (i % part != 0) mi_free(many[i]);
  }
  const int64_t freed = (int64_t)((count - count / part) * size);
  for (size_t k = 0; k < 2; k++) mi_flush_idle(unit_theap());
  mi_retain_poll(&mi_state.main);
  const int64_t waiting = mi_atomic_load_relaxed(&mi_state.main.purge_waiting);
  check(before - committed() + waiting >= freed / 3);
  for (size_t i = 0; i < count; i += part) {
    check(unit_is_filled(many[i], size, i));
    mi_free(many[i]);
  }
  check_equal(sparse_waiting(), 0);
  unit_check_valid();
  mi_collect_all(MI_FORCE);
  unit_check_empty();
}

// If this fails, a program that goes on working keeps half of its heap of blocks that are as large
// as an OS page, or of those that lie in pages of several slices.
UNIT_TEST(hole_is_made_between_large_blocks) {
  if (MI_IS_TINY || mi_state.os.page_size > 4096) return; // parts are longer than the blocks
  static const size_t halves[] = {4096, 7168, 8192, 16384, 32768};
  for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++) check_looks_give_back(halves[i], 2);
  static const size_t quarters[] = {2560, 5120, 6656};
  for (size_t i = 0; i < sizeof(quarters) / sizeof(*quarters); i++)
    check_looks_give_back(quarters[i], 4);
}

// If this fails, options that keep memory do not.
UNIT_TEST(hole_is_not_made_against_options) {
  uint64_t random = 11;
  mi_page_t* const page = make_random(1024, 32, &random);
  unit_option(purge_delay, -1);
  check_equal(mi_hole_make(&mi_state.main, page), 0);
  unit_option(purge_delay, 1000);
  unit_option(purge_decommits, 0);
  check_equal(mi_hole_make(&mi_state.main, page), 0);
  check_equal(page->holes, 0);
  unit_option(purge_decommits, 1);
  check_equal(mi_hole_make(&mi_state.main, page) != 0, mi_part_may_have_holes(page));
  release(page);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hole_is_where_no_block_is_in_use),
      cmocka_unit_test(hole_is_filled_block_by_block),
      cmocka_unit_test(hole_is_not_made_after_a_mistake),
      cmocka_unit_test(hole_in_a_queue),
      cmocka_unit_test(hole_is_no_block_and_no_memory),
      cmocka_unit_test(hole_is_made_when_all_is_collected),
      cmocka_unit_test(hole_is_made_beyond_the_bounds),
      cmocka_unit_test(hole_is_made_before_a_peak),
      cmocka_unit_test(hole_is_made_of_older_pages_when_the_heap_shrinks),
      cmocka_unit_test(hole_is_made_in_pages_of_many_blocks_that_are_freed_in_order),
      cmocka_unit_test(hole_is_made_of_old_sparse_pages),
      cmocka_unit_test(hole_is_made_where_the_last_part_ended),
      cmocka_unit_test(hole_is_made_soon_while_much_waits),
      cmocka_unit_test(hole_is_made_of_a_few_pages_at_a_time),
      cmocka_unit_test(hole_is_made_between_large_blocks),
      cmocka_unit_test(hole_is_not_made_against_options),
  };
  return cmocka_run_group_tests_name("hole", tests, NULL, NULL);
}
