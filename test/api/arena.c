// SPDX-License-Identifier: MIT
// arena.c - memory that the program reserves, or brings along.
//
// Builds with tiny constants have tiny arenas: sizes are in terms of what the library says is the
// least it takes.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE // for memfd_create; must come before the first header of libc
#endif
#include "spawn.h"
#include "test_heap.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

static size_t least; // size of an arena
static size_t unit; // alignment

static int get_limits(void** state) {
  (void)state;
  least = mi_arena_min_size();
  unit = mi_arena_min_alignment();
  return 0;
}

// A mapping; the system zeroes it.
static unsigned char* map(size_t size, int protection) {
  void* const p = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(p != MAP_FAILED);
  return (unsigned char*)p;
}

// The same at a multiple of `unit`. Both stay: an arena is for ever.
static unsigned char* map_aligned(size_t size, int protection) {
  unsigned char* const p = map(size + unit, protection);
  return p + (unit - (uintptr_t)p % unit) % unit;
}

static size_t resident_in(const unsigned char* start, size_t size) {
  static unsigned char present[1 << 16];
  const size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
  size_t count = 0;
  for (size_t done = 0; done < size; done += sizeof(present) * os_page) {
    const size_t rest = size - done;
    const size_t part = rest < sizeof(present) * os_page ? rest : sizeof(present) * os_page;
    assert_int_equal(mincore((void*)(uintptr_t)(start + done), part, present), 0);
    for (size_t i = 0; i < part / os_page; i++) count += present[i] & 1;
  }
  return count * os_page;
}

enum { FILL_MAX = 300000 };
static void* filled[FILL_MAX];

// Blocks of `size` until there are no more, all of them inside the arena. Returns how many.
static size_t fill(mi_heap_t* heap, mi_arena_id_t id, size_t size) {
  size_t count = 0;
  for (;;) {
    assert_true(count < FILL_MAX);
    errno = 0;
    unsigned char* const p = (unsigned char*)mi_heap_malloc(heap, size);
    if (p == NULL) break;
    if (!mi_arena_contains(id, p) || !mi_arena_contains(id, p + size - 1)) {
      fail_msg("block %zu at %p is outside of the arena", count, (void*)p);
    }
    memset(p, (int)(count % 251), size);
    filled[count++] = p;
  }
  assert_int_equal(errno, ENOMEM);
  return count;
}

static void check_filled(size_t count, size_t size) {
  for (size_t i = 0; i < count; i++) {
    assert_true(test_is_filled(filled[i], size, (unsigned char)(i % 251)));
  }
}

static mi_arena_id_t reserve_exclusive(size_t size) {
  mi_arena_id_t id = NULL;
  assert_int_equal(mi_reserve_os_memory_ex(size, false, false, true, &id), 0);
  assert_non_null(id);
  return id;
}

// -- Reserved memory --

// If this fails, a program cannot prepare memory that will do.
static void arena_limits_are_sensible(void** state) {
  (void)state;
  assert_true(unit >= 4096 && (unit & (unit - 1)) == 0);
  assert_true(least >= unit && least % unit == 0 && least <= 64 * TEST_MIB);
}

// If this fails, reserving a little is refused, or gives less than was asked for.
static void arena_reserve_rounds_up(void** state) {
  (void)state;
  const size_t asked[] = {1, least - 1, least, least + 1, 2 * least, 3 * least + 5};
  for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
    for (unsigned flags = i % 2; flags < 8; flags += 2) {
      mi_arena_id_t id = &id;
      const int error = mi_reserve_os_memory_ex(asked[i], (flags & 1) != 0, (flags & 2) != 0,
                                                (flags & 4) != 0, &id);
      assert_int_equal(error, 0);
      size_t size = 0;
      unsigned char* const start = (unsigned char*)mi_arena_area(id, &size);
      assert_true(start != NULL && test_is_aligned(start, unit));
      if (size < least || size < asked[i] || size > asked[i] + 2 * least) {
        fail_msg("%zu bytes for %zu", size, asked[i]);
      }
      mi_heap_t* const heap = mi_heap_new_in_arena(id);
      unsigned char* const p = (unsigned char*)mi_heap_zalloc(heap, 1000);
      assert_true(mi_arena_contains(id, p) && test_is_filled(p, 1000, 0));
      memset(p, 1, 1000);
      mi_heap_destroy(heap);
    }
  }
  assert_int_equal(mi_reserve_os_memory(1, true, false), 0);
  assert_int_equal(mi_reserve_os_memory(least, false, true), 0);
}

// If this fails, a program goes on with the id of an arena that does not exist.
static void arena_failure_clears_the_id(void** state) {
  (void)state;
  const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, TEST_BEYOND, SIZE_MAX - least};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    mi_arena_id_t id = &id;
    assert_int_equal(mi_reserve_os_memory_ex(sizes[i], false, false, false, &id), ENOMEM);
    assert_null(id);
    assert_int_equal(mi_reserve_os_memory(sizes[i], false, false), ENOMEM);
  }
  mi_arena_id_t id = &id;
  assert_false(mi_manage_os_memory_ex(NULL, 4 * least, true, false, true, -1, false, &id));
  assert_null(id);
  void* const p = mi_malloc(100);
  assert_non_null(p);
  mi_free(p);
}

// If this fails, memory that was set aside for one part of a program is used up by others, or that
// part takes memory elsewhere.
static void arena_exclusive_serves_its_heaps_only(void** state) {
  (void)state;
  const mi_arena_id_t id = reserve_exclusive(4 * least);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  mi_heap_t* const of_version_2 = mi_heap_new_ex(3, true, id);
  mi_heap_t* const other = mi_heap_new();
  static void* p[4000];
  for (size_t i = 0; i < 4000; i++) {
    const size_t size = i % 100 == 0 ? least / 8 : 8 + i;
    p[i] = i % 2 == 0 ? mi_malloc(size) : mi_heap_malloc(other, size);
    if (p[i] == NULL || mi_arena_contains(id, p[i])) fail_msg("block %zu at %p", i, p[i]);
  }
  for (size_t i = 0; i < 4000; i++) mi_free(p[i]);
  for (size_t size = 8; size < least; size *= 3) {
    void* const q = mi_heap_malloc(heap, size);
    void* const r = mi_heap_malloc(of_version_2, size);
    assert_true(mi_heap_of(q) == heap && mi_arena_contains(id, q));
    assert_true(mi_heap_of(r) == of_version_2 && mi_arena_contains(id, r));
    mi_free(q);
    mi_free(r);
  }
  mi_heap_destroy(other);
  mi_heap_destroy(of_version_2);
  mi_heap_destroy(heap);
}

// If this fails, a large block with an alignment is refused while memory is only kept.
static void arena_gives_up_what_is_kept_for_aligned_blocks(void** state) {
  (void)state;
  const mi_arena_id_t id = reserve_exclusive(least);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  size_t size = 0;
  assert_non_null(mi_arena_area(id, &size));
  static void* p[4000];
  size_t count = 0;
  // Each size has pages of its own, here and there, and keeps one.
  while (count < 4000) {
    p[count] = mi_heap_malloc(heap, least / 512 * (1 + count % 19));
    if (p[count] == NULL) break;
    count++;
  }
  assert_true(count < 4000);
  while (count > 0) mi_free(p[--count]);
  void* const q = mi_heap_malloc_aligned(heap, size - size / 8, 4 * unit);
  assert_true(q != NULL && test_is_aligned(q, 4 * unit));
  mi_heap_destroy(heap);
}

// If this fails, a heap that is bound to an arena takes what it must not when that is full, or does
// not recover.
static void arena_heap_is_refused_when_full(void** state) {
  (void)state;
  const mi_arena_id_t id = reserve_exclusive(4 * least);
  size_t area = 0;
  assert_non_null(mi_arena_area(id, &area));
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  const size_t sizes[] = {1000, least / 32768 + 16, 2 * unit, least / 4};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    const size_t count = fill(heap, id, sizes[i]);
    if (count * sizes[i] < area / 2) {
      fail_msg("%zu blocks of %zu of %zu bytes", count, sizes[i], area);
    }
    TEST_REFUSED(mi_heap_malloc(heap, area), ENOMEM);
    TEST_REFUSED(mi_heap_realloc(heap, filled[0], area), ENOMEM);
    TEST_REFUSED(mi_heap_zalloc_aligned(heap, area / 2, unit), ENOMEM);
    // Others are not concerned.
    void* const p = mi_malloc(sizes[i]);
    assert_true(p != NULL && !mi_arena_contains(id, p));
    mi_free(p);
    check_filled(count, sizes[i]);
    // A quarter is freed here and there, and can be had again.
    size_t freed = 0, again = 0;
    for (size_t k = 0; k < count; k += 4, freed++) {
      mi_free(filled[k]);
      filled[k] = NULL;
    }
    for (size_t k = 0; k < count; k += 4, again++) {
      filled[k] = mi_heap_malloc(heap, sizes[i]);
      if (filled[k] == NULL) break;
      memset(filled[k], (int)(k % 251), sizes[i]);
    }
    if (again < freed / 10 * 9) fail_msg("%zu of %zu again", again, freed);
    for (size_t k = 0; k < count; k++) mi_free(filled[k]);
    mi_heap_collect(heap, true); // pages of one size make room for the next
  }
  mi_heap_destroy(heap);
}

static void* fill_on_thread(void* argument) {
  mi_heap_t* const heap = (mi_heap_t*)argument;
  uintptr_t count = 0;
  while (mi_heap_malloc(heap, 1000) != NULL) count++;
  return (void*)count;
}

// If this fails, an arena can be used once only: each heap in it leaves a part behind.
static void arena_is_used_again(void** state) {
  (void)state;
  const mi_arena_id_t id = reserve_exclusive(2 * least);
  size_t first = 0;
  for (size_t round = 0; round < 40; round++) {
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    const size_t count =
        round % 4 == 1 ? (uintptr_t)test_on_thread(&fill_on_thread, heap) : fill(heap, id, 1000);
    if (round == 0) first = count;
    if (count < first / 10 * 9) fail_msg("round %zu: %zu of %zu blocks", round, count, first);
    if (round % 4 != 2) {
      mi_heap_destroy(heap);
    } else {
      mi_heap_delete(heap); // they are blocks of the main heap then, in this arena
      for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(mi_heap_of(filled[i]), mi_heap_main());
        mi_free(filled[i]);
      }
      mi_collect(true);
    }
  }
}

// -- Memory of the program --

// If this fails, memory of the program is used beyond its ends.
static void arena_manage_rounds_inwards(void** state) {
  (void)state;
  for (size_t i = 0; i < 8; i++) {
    const size_t room = 3 * least + 4 * unit;
    unsigned char* const region = map(room, PROT_READ | PROT_WRITE);
    unsigned char* const start = region + (i % 2 == 0 ? 0 : 100 * i + 1);
    const size_t size = room - unit - (i % 4 < 2 ? 0 : 333 * i);
    mi_arena_id_t id = NULL;
    assert_true(mi_manage_os_memory_ex(start, size, true, false, true, -1, true, &id));
    size_t area = 0;
    unsigned char* const arena = (unsigned char*)mi_arena_area(id, &area);
    assert_true(arena >= start && arena + area <= start + size && area >= least);
    assert_true(test_is_aligned(arena, unit));
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    const size_t count = fill(heap, id, 1000);
    assert_true(count * 1000 >= area / 2);
    check_filled(count, 1000);
    // Outside of what was given nothing was written.
    assert_true(test_is_filled(region, (size_t)(start - region), 0));
    assert_true(test_is_filled(start + size, (size_t)(region + room - start) - size, 0));
    mi_heap_destroy(heap);
  }
}

// If this fails, a range that is too small is taken all the same, or refused without a word.
static void arena_manage_refuses_too_little(void** state) {
  (void)state;
  unsigned char* const region = map_aligned(2 * least, PROT_READ | PROT_WRITE);
  const size_t sizes[] = {0, 1, unit - 1, least / 2, least - 1};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    mi_arena_id_t id = &id;
    test_listen();
    assert_false(mi_manage_os_memory_ex(region, sizes[i], true, false, true, -1, true, &id));
    assert_true(test_heard("mimalloc: warning: "));
    assert_null(id);
    assert_false(mi_manage_os_memory(region, sizes[i], true, false, true, -1));
    assert_false(mi_manage_memory(region, sizes[i], true, false, true, -1, true, NULL, NULL, NULL));
  }
  // The start is rounded up, and then it is too little.
  mi_arena_id_t id = &id;
  assert_false(mi_manage_os_memory_ex(region + 1, least, true, false, true, -1, true, &id));
  assert_null(id);
  assert_true(test_is_filled(region, 2 * least, 0));
  assert_true(mi_manage_os_memory_ex(region, least, true, false, true, -1, true, &id));
  assert_non_null(id);
}

// If this fails, the first block in memory that is only reserved crashes the program.
static void arena_manage_commits_what_is_not(void** state) {
  (void)state;
  const size_t size = 3 * least;
  mi_arena_id_t id = NULL;
  unsigned char* const region = map_aligned(size, PROT_NONE);
  assert_true(mi_manage_os_memory_ex(region, size, false, false, true, 0, true, &id));
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  for (size_t round = 0; round < 3; round++) {
    const size_t count = fill(heap, id, round == 1 ? unit : 1000);
    assert_true(count > 3);
    check_filled(count, round == 1 ? unit : 1000);
    for (size_t i = 0; i < count; i++) mi_free(filled[i]);
    mi_heap_collect(heap, true);
    mi_collect(true);
  }
  mi_heap_destroy(heap);
  // Also as one that any heap may use.
  assert_true(mi_manage_os_memory(map_aligned(size, PROT_NONE), size, false, false, true, 0));
}

// If this fails, memory is given out twice: as a block, and in an arena.
static void arena_manage_refuses_what_is_in_a_block(void** state) {
  (void)state;
  const size_t size = sizeof(void*) < 8 ? 200 * TEST_MIB : 3 * TEST_GIB;
  mi_option_enable(mi_option_disallow_arena_alloc);
  unsigned char* const p = (unsigned char*)mi_malloc(size);
  mi_option_disable(mi_option_disallow_arena_alloc);
  assert_non_null(p);
  assert_false(mi_manage_os_memory(p + size / 2, 2 * least, true, false, true, -1));
  assert_false(mi_manage_os_memory(p + size - 2 * least, 4 * least, true, false, true, -1));
  mi_free(p);
}

// If this fails, memory that a program shares with others, and lets us use, is not shared any more.
static void arena_manage_shared_memory_stays_shared(void** state) {
  (void)state;
  if (sizeof(void*) < 8) test_skip("the arenas of the other tests take the addresses there are");
  const size_t size = least + unit;
  const int file = memfd_create("shared", MFD_CLOEXEC);
  if (file < 0) test_skip("no file without a name can be made");
  assert_int_equal(ftruncate(file, (off_t)size), 0);
  unsigned char* view[2];
  for (size_t i = 0; i < 2; i++) {
    view[i] = (unsigned char*)mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(view[i] != MAP_FAILED);
  }
  mi_arena_id_t id = NULL;
  assert_true(mi_manage_os_memory_ex(view[0], size, true, false, true, -1, true, &id));
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  fill(heap, id, 1000);
  mi_heap_destroy(heap);
  mi_collect(true);
  mi_heap_t* const other = mi_heap_new_in_arena(id);
  const size_t count = fill(other, id, 1000);
  for (size_t i = 0; i < count; i++) {
    const unsigned char* const p = (const unsigned char*)filled[i];
    assert_memory_equal(view[1] + (p - view[0]), p, 1000);
  }
  mi_heap_destroy(other);
  munmap(view[1], size);
  close(file);
}

// If this fails, calloc in memory that the program used before gives what was in it.
static void arena_manage_believes_what_it_is_told_of_zero(void** state) {
  (void)state;
  for (unsigned is_zero = 0; is_zero < 2; is_zero++) {
    const size_t size = 2 * least;
    unsigned char* const region = map_aligned(size, PROT_READ | PROT_WRITE);
    if (is_zero == 0) memset(region, 0xFF, size);
    mi_arena_id_t id = NULL;
    assert_true(mi_manage_os_memory_ex(region, size, true, false, is_zero != 0, -1, true, &id));
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    for (size_t block = 16; block < least; block *= 2) {
      unsigned char* const p = (unsigned char*)mi_heap_zalloc(heap, block);
      if (p == NULL) break;
      assert_true(test_is_filled(p, mi_usable_size(p), 0));
    }
    mi_heap_destroy(heap);
  }
}

// If this fails, memory that must stay (locked, or shared with a device) is given back to the
// system; or memory that may go stays for ever.
static void arena_manage_pinned_memory_stays(void** state) {
  (void)state;
  for (unsigned is_pinned = 0; is_pinned < 2; is_pinned++) {
    const size_t size = 4 * least;
    unsigned char* const region = map_aligned(size, PROT_READ | PROT_WRITE);
    mi_arena_id_t id = NULL;
    assert_true(mi_manage_os_memory_ex(region, size, true, is_pinned != 0, true, -1, true, &id));
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    const size_t used = fill(heap, id, 1000) * 1000;
    assert_true(resident_in(region, size) >= used);
    mi_heap_destroy(heap);
    mi_collect(true);
    const size_t left = resident_in(region, size);
    // Where only another mapping would give contents back, that of the program stays as it is.
    const bool has_to_stay = is_pinned != 0 || strstr(program_invocation_name, "/plain/") != NULL;
    if (has_to_stay ? left < used : left > used / 4) {
      fail_msg("pinned %u: of %zu KiB %zu are left", is_pinned, used / TEST_KIB, left / TEST_KIB);
    }
  }
}

// -- Memory of the program with a function that commits it --

// Static in each test: arenas are for ever, and a later test purges them.
typedef struct pages_s {
  unsigned char* start;
  size_t size;
  size_t commits, decommits; // calls
  size_t decommitted; // bytes
  bool is_wrong; // a range that is not in the region
  bool is_dirty; // what is committed is not zero
  bool is_refusing;
} pages_t;

static bool commit(bool is_commit, void* start, size_t size, bool* is_zero, void* arg) {
  pages_t* const pages = (pages_t*)arg;
  unsigned char* const from = (unsigned char*)start;
  if (from < pages->start || size > pages->size || from + size > pages->start + pages->size) {
    pages->is_wrong = true;
    return false;
  }
  if (pages->is_refusing && is_commit) return false;
  if (is_commit) {
    pages->commits++;
    if (mprotect(start, size, PROT_READ | PROT_WRITE) != 0) return false;
    if (pages->is_dirty) memset(start, 0xEE, size);
    if (is_zero != NULL) *is_zero = !pages->is_dirty;
    return true;
  }
  errno = EBADF; // as after any call that fails
  pages->decommits++;
  pages->decommitted += size;
  madvise(start, size, MADV_DONTNEED);
  return mprotect(start, size, PROT_NONE) == 0;
}

static mi_arena_id_t manage_pages(pages_t* pages, size_t size, bool is_pinned) {
  const int protection = is_pinned ? PROT_READ | PROT_WRITE : PROT_NONE;
  pages->size = size;
  pages->start = map_aligned(size, protection);
  mi_arena_id_t id = NULL;
  assert_true(mi_manage_memory(pages->start, size, is_pinned, is_pinned, !pages->is_dirty, -1, true,
                               &commit, pages, &id));
  assert_non_null(id);
  return id;
}

// If this fails, memory behind a function of the program is used before it can be, or never goes
// back.
static void arena_commit_function_is_called(void** state) {
  (void)state;
  static pages_t pages = {.start = NULL};
  const mi_arena_id_t id = manage_pages(&pages, 4 * least, false);
  for (size_t round = 0; round < 3; round++) {
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    const size_t commits = pages.commits, decommitted = pages.decommitted;
    const size_t used = fill(heap, id, 1000) * 1000;
    check_filled(used / 1000, 1000);
    assert_true(pages.commits > commits);
    mi_heap_destroy(heap);
    mi_collect(true);
    assert_true(pages.decommits > 0 && !pages.is_wrong);
    if (pages.decommitted - decommitted < used / 2) {
      fail_msg("of %zu KiB %zu went back", used / TEST_KIB,
               (pages.decommitted - decommitted) / TEST_KIB);
    }
  }
}

// If this fails, a commit function that brings memory with contents makes calloc give them.
static void arena_commit_function_says_what_is_zero(void** state) {
  (void)state;
  static pages_t pages = {.is_dirty = true};
  const mi_arena_id_t id = manage_pages(&pages, 4 * least, false);
  for (size_t round = 0; round < 2; round++) {
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    for (size_t size = 16; size < least; size *= 2) {
      unsigned char* const p = (unsigned char*)mi_heap_calloc(heap, 1, size);
      if (p == NULL) break;
      assert_true(test_is_filled(p, mi_usable_size(p), 0));
    }
    mi_heap_destroy(heap);
    mi_collect(true);
  }
  assert_true(pages.commits > 0 && !pages.is_wrong);
}

// If this fails, a program cannot trust errno after a free.
static void arena_commit_function_may_change_errno(void** state) {
  (void)state;
  static pages_t pages = {.start = NULL};
  const mi_arena_id_t id = manage_pages(&pages, least, false);
  const long delay = mi_option_get(mi_option_purge_delay);
  mi_option_set(mi_option_purge_delay, 0);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  for (size_t i = 0; i < 1000 && pages.decommits == 0; i++) { // the purge thread may be at it
    void* const p = mi_heap_malloc(heap, least / 4);
    assert_non_null(p);
    errno = ERANGE;
    mi_free(p);
    assert_int_equal(errno, ERANGE);
  }
  assert_true(pages.decommits > 0);
  mi_heap_destroy(heap);
  mi_option_set(mi_option_purge_delay, delay);
}

// If this fails, a commit function that has no memory to give makes the program crash.
static void arena_commit_function_may_refuse(void** state) {
  (void)state;
  static pages_t pages = {.is_refusing = false};
  const mi_arena_id_t id = manage_pages(&pages, 4 * least, false);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  assert_non_null(heap);
  pages.is_refusing = true;
  const size_t early = fill(heap, id, unit / 2); // what is committed already, if anything
  check_filled(early, unit / 2);
  pages.is_refusing = false;
  const size_t late = fill(heap, id, unit / 2);
  check_filled(late, unit / 2);
  assert_true(late > early && (early + late) * (unit / 2) >= pages.size / 2 && !pages.is_wrong);
  mi_heap_destroy(heap);
}

// If this fails, a program is asked to release memory that it said must stay.
static void arena_commit_function_is_not_called_for_pinned(void** state) {
  (void)state;
  static pages_t pages = {.start = NULL};
  const mi_arena_id_t id = manage_pages(&pages, 4 * least, true);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  const size_t count = fill(heap, id, 1000);
  check_filled(count, 1000);
  mi_heap_destroy(heap);
  mi_collect(true);
  assert_true(pages.decommits == 0 && !pages.is_wrong);
  assert_true(resident_in(pages.start, pages.size) >= count * 1000);
}

// -- What is asked about arenas --

// If this fails, a program cannot tell which arena an object is in, or asking crashes.
static void arena_area_and_contains(void** state) {
  (void)state;
  size_t size = 77;
  assert_null(mi_arena_area(NULL, &size));
  assert_int_equal(size, 0);
  assert_null(mi_arena_area(NULL, NULL));
  const mi_arena_id_t id = reserve_exclusive(2 * least);
  const mi_arena_id_t other = reserve_exclusive(2 * least);
  unsigned char* const start = (unsigned char*)mi_arena_area(id, &size);
  assert_ptr_equal(mi_arena_area(id, NULL), start);
  assert_true(mi_arena_contains(id, start) && mi_arena_contains(id, start + size - 1));
  assert_false(mi_arena_contains(id, start + size) || mi_arena_contains(id, start - 1));
  assert_false(mi_arena_contains(other, start) || mi_arena_contains(id, NULL));
  assert_false(mi_arena_contains(id, &size) || mi_arena_contains(NULL, start));
  assert_false(mi_arena_contains(NULL, NULL));
  // An address in an arena need not be one of a heap.
  assert_false(mi_any_heap_contains(start + size - 1));
}

// If this fails, nobody can see what is in the arenas.
static void arena_print_reaches_the_output_function(void** state) {
  (void)state;
  reserve_exclusive(least);
  void (*const prints[])(void) = {&mi_arenas_print, &mi_debug_show_arenas};
  for (size_t i = 0; i < 2; i++) {
    mi_register_output(&test_receive, NULL);
    test_messages[0] = 0;
    prints[i]();
    mi_register_output(NULL, NULL);
    const size_t length = strlen(test_messages);
    assert_true(length > 20 && test_messages[length - 1] == '\n');
  }
}

// -- Huge pages --

static uint64_t now_ms(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

// If this fails, a program on a machine without huge pages, which is most, does not start.
static void arena_huge_pages_are_had_or_not(void** state) {
  (void)state;
  mi_arena_id_t id = &id;
  int error = mi_reserve_huge_os_pages_at_ex(1, -1, 500, true, &id);
  assert_true(error == 0 || error == ENOMEM);
  assert_int_equal(id != NULL, error == 0);
  if (error == 0) {
    mi_heap_t* const heap = mi_heap_new_in_arena(id);
    void* const p = mi_heap_malloc(heap, 100 * TEST_MIB);
    assert_true(mi_arena_contains(id, p));
    mi_heap_destroy(heap);
  }
  error = mi_reserve_huge_os_pages_at(1, 1000, 500);
  assert_true(error == 0 || error == ENOMEM);
  error = mi_reserve_huge_os_pages_interleave(1, 0, 500);
  assert_true(error == 0 || error == ENOMEM);
  size_t reserved = 77;
  error = mi_reserve_huge_os_pages(1, 0.5, &reserved);
  assert_true(error == 0 || error == ENOMEM);
  assert_int_equal(reserved, error == 0 ? 1 : 0);
  error = mi_reserve_huge_os_pages(1, 0.5, NULL);
  assert_true(error == 0 || error == ENOMEM);
  void* const p = mi_malloc(1000);
  assert_non_null(p);
  mi_free(p);
}

// If this fails, the start of a program that asks for many huge pages takes minutes.
static void arena_huge_pages_take_no_longer_than_said(void** state) {
  (void)state;
  const uint64_t start = now_ms();
  int error = mi_reserve_huge_os_pages_at(1000, -1, 100);
  assert_true(error == 0 || error == ENOMEM);
  error = mi_reserve_huge_os_pages_interleave(1000, 4, 100);
  assert_true(error == 0 || error == ENOMEM);
  mi_arena_id_t id = &id;
  error = mi_reserve_huge_os_pages_at_ex(SIZE_MAX, -1, 100, true, &id);
  assert_true(error == ENOMEM || id != NULL);
  const uint64_t took = now_ms() - start;
  if (took > 5000) fail_msg("it took %llu ms", (unsigned long long)took);
}

// -- The rest --

// Runs in a child: arenas until there can be no more.
static void reserve_many(void) {
  size_t count = 0;
  // With 32 bits of addresses, of which the tests before have used some.
  const bool is_small = sizeof(void*) == 4;
  const size_t enough = is_small ? 16 : 400;
  const size_t more = is_small ? 16 : 100;
  while (count < enough && mi_reserve_os_memory_ex(1, false, false, true, NULL) == 0) count++;
  for (size_t i = 0; i < more; i++) { // malloc still grows
    void* const p = mi_malloc(16 * TEST_MIB);
    CHECK(p != NULL);
    memset(p, 1, TEST_MIB);
  }
  printf("%zu arenas\n", count);
}

// If this fails, a program that reserves too often cannot even allocate any more.
static void arena_many_leave_room_for_malloc(void** state) {
  (void)state;
  static spawn_result_t result;
  assert_true(spawn_fork(&reserve_many, &result));
  if (result.exit_status != 0) {
    fail_msg("signal %d, status %d:\n%s", result.signal, result.exit_status, result.output);
  }
}

// If this fails, programs that try what versions 3.0 and 3.1 had go wrong instead of on.
static void arena_functions_that_are_no_more(void** state) {
  (void)state;
  assert_false(mi_is_redirected());
  const mi_arena_id_t id = reserve_exclusive(least);
  mi_heap_t* const heap = mi_heap_new_in_arena(id);
  char* const text = mi_heap_strdup(heap, "still there");
  void* base = NULL;
  size_t accessed = 0, full = 0;
  mi_arena_id_t reloaded = id;
  assert_false(mi_arena_unload(id, &base, &accessed, &full));
  assert_false(mi_arena_unload(NULL, NULL, NULL, NULL));
  assert_false(mi_arena_reload(text, least, &reloaded));
  assert_false(mi_arena_reload(NULL, 0, NULL));
  assert_false(mi_heap_unload(heap) || mi_heap_unload(NULL));
  assert_false(mi_heap_reload(heap, id) || mi_heap_reload(NULL, NULL));
  assert_string_equal(text, "still there");
  assert_true(mi_heap_of(text) == heap && mi_arena_contains(id, text));
  mi_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_limits_are_sensible),
      cmocka_unit_test(arena_reserve_rounds_up),
      cmocka_unit_test(arena_failure_clears_the_id),
      cmocka_unit_test(arena_exclusive_serves_its_heaps_only),
      cmocka_unit_test(arena_gives_up_what_is_kept_for_aligned_blocks),
      cmocka_unit_test(arena_heap_is_refused_when_full),
      cmocka_unit_test(arena_is_used_again),
      cmocka_unit_test(arena_manage_rounds_inwards),
      cmocka_unit_test(arena_manage_refuses_too_little),
      cmocka_unit_test(arena_manage_commits_what_is_not),
      cmocka_unit_test(arena_manage_believes_what_it_is_told_of_zero),
      cmocka_unit_test(arena_manage_pinned_memory_stays),
      cmocka_unit_test(arena_manage_shared_memory_stays_shared),
      cmocka_unit_test(arena_manage_refuses_what_is_in_a_block),
      cmocka_unit_test(arena_commit_function_is_called),
      cmocka_unit_test(arena_commit_function_says_what_is_zero),
      cmocka_unit_test(arena_commit_function_may_change_errno),
      cmocka_unit_test(arena_commit_function_may_refuse),
      cmocka_unit_test(arena_commit_function_is_not_called_for_pinned),
      cmocka_unit_test(arena_area_and_contains),
      cmocka_unit_test(arena_print_reaches_the_output_function),
      cmocka_unit_test(arena_huge_pages_are_had_or_not),
      cmocka_unit_test(arena_huge_pages_take_no_longer_than_said),
      cmocka_unit_test(arena_many_leave_room_for_malloc),
      cmocka_unit_test(arena_functions_that_are_no_more),
  };
  return cmocka_run_group_tests(tests, &get_limits, NULL);
}
