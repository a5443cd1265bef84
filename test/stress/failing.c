// SPDX-License-Identifier: MIT
// failing.c - every function of the interface for C while the system refuses calls of the library
// (sweep.h). If this fails, a program that could go on without the memory it asked for crashes,
// loses data, or never gets memory again.
//
// test/interop/test_failing.py looks that no exported function is missing here and in failing_new.
#include "sweep.h"

#include <malloc.h>
#include <mimalloc-profile.h>
#include <wchar.h>

#define SMALL ((size_t)100)
#define LARGE (600 * SWEEP_KIB) // a page of its own

static const size_t sizes[] = {SMALL, 20000, LARGE};
#define EACH_SIZE(size)                                                                            \
  for (size_t size_index = 0, size = sizes[0]; size_index < 3 && (size = sizes[size_index], true); \
       size_index++)

// Results that only have to be there.
static volatile size_t sink;
static void use(size_t x) { sink += x; }
static void use_pointer(const void* p) { use((size_t)p); }

static void plain(void) {
  EACH_SIZE(size) {
    SWEEP_GET(size, mi_malloc(size));
    SWEEP_GET_ZERO(size, mi_zalloc(size));
    SWEEP_GET_ZERO(size, mi_calloc(size / 4, 4));
    SWEEP_GET(size, mi_mallocn(size / 4, 4));
    size_t slot = 0;
    SWEEP_GET(size, mi_umalloc(size, &slot));
    SWEEP_GET_ZERO(size, mi_uzalloc(size, &slot));
    SWEEP_GET_ZERO(size, mi_ucalloc(size / 4, 4, &slot));
    SWEEP_GET_ALIGNED(size, 64, 0, mi_umalloc_aligned(size, 64, &slot));
    SWEEP_GET_ZERO(size, mi_uzalloc_aligned(size, 64, &slot));
    use(mi_good_size(size) + mi_malloc_good_size(size) + slot);
  }
  size_t slot = 0;
  SWEEP_GET(SMALL, mi_malloc_small(SMALL));
  SWEEP_GET_ZERO(SMALL, mi_zalloc_small(SMALL));
  SWEEP_GET(SMALL, mi_umalloc_small(SMALL, &slot));
  SWEEP_GET_ZERO(SMALL, mi_uzalloc_small(SMALL, &slot));
}

// Every way to give a block back, and to ask about it.
static void freeing(void) {
  EACH_SIZE(size) {
    void* p[6];
    for (size_t i = 0; i < 6; i++) p[i] = mi_malloc_aligned(size, 64);
    use(mi_usable_size(p[0]) + mi_malloc_size(p[1]) + mi_malloc_usable_size(p[2]));
    mi_free(p[0]);
    mi_cfree(p[1]);
    mi_free_size(p[2], size);
    mi_free_aligned(p[3], 64);
    mi_free_size_aligned(p[4], size, 64);
    size_t slot = 0;
    mi_ufree(p[5], &slot);
    void* const small = mi_malloc_small(SMALL);
    if (small != NULL) mi_free_small(small);
  }
}

static void resizing(void) {
  EACH_SIZE(size) {
    const size_t more = 2 * size + 4000;
    size_t before = 0, after = 0;
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_realloc(old, more));
    SWEEP_RESIZE(SWEEP_PLAIN, size, size / 4, mi_realloc(old, size / 4));
    SWEEP_RESIZE(SWEEP_FREES, size, more, mi_reallocf(old, more));
    SWEEP_RESIZE(SWEEP_ZERO, size, more, mi_rezalloc(old, more));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more / 8 * 8, mi_reallocn(old, more / 8, 8));
    SWEEP_RESIZE(SWEEP_ZERO, size, more / 8 * 8, mi_recalloc(old, more / 8, 8));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more / 8 * 8, mi_reallocarray(old, more / 8, 8));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_urealloc(old, more, &before, &after));
    SWEEP_RESIZE(SWEEP_PLAIN, size, size,
                 (mi_expand(old, more), old != NULL ? old : mi_malloc(size)));
    SWEEP_RESIZE(SWEEP_PLAIN, size, size,
                 (mi__expand(old, more), old != NULL ? old : mi_malloc(size)));
    void* p = mi_malloc(size);
    void* const was = p;
    const int err = mi_reallocarr(&p, more / 8, 8);
    CHECK_SAY(err == 0 || (err == ENOMEM && p == was), "mi_reallocarr: %d", err);
    sweep_keep(p, err == 0 ? more / 8 * 8 : p == NULL ? 0 : size);
  }
}

static void resizing_aligned(void) {
  EACH_SIZE(size) {
    const size_t more = 2 * size + 4000;
    const size_t count = more / 8;
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_realloc_aligned(old, more, 128));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_realloc_aligned_at(old, more, 128, 24));
    SWEEP_RESIZE(SWEEP_ZERO, size, more, mi_rezalloc_aligned(old, more, 128));
    SWEEP_RESIZE(SWEEP_ZERO, size, more, mi_rezalloc_aligned_at(old, more, 128, 24));
    SWEEP_RESIZE(SWEEP_ZERO, size, count * 8, mi_recalloc_aligned(old, count, 8, 128));
    SWEEP_RESIZE(SWEEP_ZERO, size, count * 8, mi_recalloc_aligned_at(old, count, 8, 128, 24));
    SWEEP_RESIZE(SWEEP_ZERO, size, count * 8, mi_aligned_recalloc(old, count, 8, 128));
    SWEEP_RESIZE(SWEEP_ZERO, size, count * 8, mi_aligned_offset_recalloc(old, count, 8, 128, 24));
  }
}

static void aligned(void) {
  static const size_t alignments[] = {64, 4096, 4 * SWEEP_MIB};
  EACH_SIZE(size) {
    const size_t a = alignments[size_index];
    SWEEP_GET_ALIGNED(size, a, 0, mi_malloc_aligned(size, a));
    SWEEP_GET_ALIGNED(size, a, 24, mi_malloc_aligned_at(size, a, 24));
    SWEEP_GET_ALIGNED(size, a, 0, mi_zalloc_aligned(size, a));
    SWEEP_GET_ZERO(size, mi_zalloc_aligned_at(size, a, 24));
    SWEEP_GET_ALIGNED(size, a, 0, mi_calloc_aligned(size / 4, 4, a));
    SWEEP_GET_ZERO(size, mi_calloc_aligned_at(size / 4, 4, a, 24));
    SWEEP_GET_ALIGNED(size, a, 0, mi_memalign(a, size));
    SWEEP_GET_ALIGNED(size, a, 0, mi_aligned_alloc(a, size));
    SWEEP_GET_ALIGNED(size, 4096, 0, mi_valloc(size));
    SWEEP_GET_ALIGNED(size, 4096, 0, mi_pvalloc(size));
    int (*const functions[])(void**, size_t, size_t) = {&mi_posix_memalign, &mi__posix_memalign,
                                                        &posix_memalign};
    for (size_t i = 0; i < 3; i++) {
      void* p = NULL;
      errno = 0;
      const int err = functions[i](&p, a, size);
      const int errno_of_failure = functions[i] == &posix_memalign ? ENOMEM : 0; // as glibc's
      CHECK_SAY(errno == (err == 0 ? 0 : errno_of_failure), "%d", errno);
      CHECK_SAY((err == 0 ? p != NULL : err == ENOMEM && p == NULL), "%d", err);
      sweep_check_aligned("posix_memalign", p, a, 0);
      sweep_keep(p, size);
    }
  }
}

static void strings(void) {
  static char text[200000];
  memset(text, 'x', sizeof(text) - 1);
  SWEEP_GET(sizeof(text), mi_strdup(text));
  SWEEP_GET(1001, mi_strndup(text, 1000));
  SWEEP_GET(5, mi_mbsdup((const unsigned char*)"text"));
  SWEEP_GET(5 * sizeof(wchar_t), mi_wcsdup(L"text"));
  SWEEP_GET(2, mi_realpath("/", NULL));
  SWEEP_GET(2, mi_heap_realpath(mi_heap_main(), "/", NULL));
  SWEEP_GET(5, mi_heap_strdup(mi_heap_main(), "text"));
  SWEEP_GET(5, mi_heap_strndup(mi_heap_main(), "text and more", 4));
  char* value = NULL;
  size_t size = 0;
  const int err = mi_dupenv_s(&value, &size, "PATH");
  CHECK_SAY(err == 0 || (err == ENOMEM && value == NULL), "mi_dupenv_s: %d", err);
  mi_free(value);
  wchar_t* wide = NULL;
  use((size_t)mi_wdupenv_s(&wide, &size, L"PATH"));
}

static void* volatile taken;

// The names without prefix; `volatile` so that the compiler does not take pairs away.
static void libc_names(void) {
  EACH_SIZE(size) {
    SWEEP_GET(size, malloc(size));
    SWEEP_GET_ZERO(size, calloc(size / 4, 4));
    SWEEP_RESIZE(SWEEP_PLAIN, size, 3 * size, realloc(old, 3 * size));
    SWEEP_RESIZE(SWEEP_PLAIN, size, size * 3, reallocarray(old, size, 3));
    SWEEP_GET_ALIGNED(size, 256, 0, memalign(256, size));
    SWEEP_GET_ALIGNED(size, 256, 0, aligned_alloc(256, size));
    SWEEP_GET_ALIGNED(size, 4096, 0, valloc(size));
    SWEEP_GET_ALIGNED(size, 4096, 0, pvalloc(size));
    taken = malloc(size);
    use(malloc_usable_size(taken));
    free(taken);
  }
  SWEEP_GET(5, strdup("text"));
  SWEEP_GET(5, strndup("text and more", 4));
  use((size_t)malloc_trim(0));
  const struct mallinfo2 info = mallinfo2();
  use(info.uordblks + (size_t)mallopt(M_TOP_PAD, 0));
}

// -- heaps --

// Blocks of every kind of a heap; with those that a destroyed heap takes along nothing is done.
static void fill_heap(mi_heap_t* heap, bool is_kept) {
  const size_t first = sweep_block_count;
  EACH_SIZE(size) {
    const size_t more = 2 * size + 4000;
    SWEEP_GET(size, mi_heap_malloc(heap, size));
    SWEEP_GET_ZERO(size, mi_heap_zalloc(heap, size));
    SWEEP_GET_ZERO(size, mi_heap_calloc(heap, size / 4, 4));
    SWEEP_GET(size, mi_heap_mallocn(heap, size / 4, 4));
    SWEEP_GET_ALIGNED(size, 512, 0, mi_heap_malloc_aligned(heap, size, 512));
    SWEEP_GET_ALIGNED(size, 512, 8, mi_heap_malloc_aligned_at(heap, size, 512, 8));
    SWEEP_GET_ZERO(size, mi_heap_zalloc_aligned(heap, size, 512));
    SWEEP_GET_ZERO(size, mi_heap_zalloc_aligned_at(heap, size, 512, 8));
    SWEEP_GET_ZERO(size, mi_heap_calloc_aligned(heap, size / 4, 4, 512));
    SWEEP_GET_ZERO(size, mi_heap_calloc_aligned_at(heap, size / 4, 4, 512, 8));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_heap_realloc(heap, old, more));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more / 8 * 8, mi_heap_reallocn(heap, old, more / 8, 8));
    SWEEP_RESIZE(SWEEP_FREES, size, more, mi_heap_reallocf(heap, old, more));
    SWEEP_RESIZE(SWEEP_ZERO, size, more, mi_heap_rezalloc(heap, old, more));
    SWEEP_RESIZE(SWEEP_ZERO, size, more / 8 * 8, mi_heap_recalloc(heap, old, more / 8, 8));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_heap_realloc_aligned(heap, old, more, 64));
    SWEEP_RESIZE(SWEEP_PLAIN, size, more, mi_heap_realloc_aligned_at(heap, old, more, 64, 8));
    SWEEP_RESIZE(SWEEP_ZERO, size, more, mi_heap_rezalloc_aligned(heap, old, more, 64));
    SWEEP_RESIZE(SWEEP_ZERO, size, more, mi_heap_rezalloc_aligned_at(heap, old, more, 64, 8));
    SWEEP_RESIZE(SWEEP_ZERO, size, size * 2, mi_heap_recalloc_aligned(heap, old, size, 2, 64));
    SWEEP_RESIZE(SWEEP_ZERO, size, size * 2,
                 mi_heap_recalloc_aligned_at(heap, old, size, 2, 64, 8));
  }
  SWEEP_GET(SMALL, mi_heap_malloc_small(heap, SMALL));
  SWEEP_GET_ZERO(SMALL, mi_heap_zalloc_small(heap, SMALL));
  sweep_check_kept();
  if (!is_kept) sweep_block_count = first;
}

static void ask_heap(mi_heap_t* heap, const void* p) {
  use((size_t)mi_heap_contains(heap, p) + mi_heap_contains_block(heap, (void*)(uintptr_t)p));
  use((size_t)mi_heap_check_owned(heap, p) + mi_any_heap_contains(p) + mi_check_owned(p));
  use((size_t)mi_is_in_heap_region(p) +
      mi_unsafe_heap_page_is_under_utilized(heap, (void*)(uintptr_t)p, 50));
  use_pointer(mi_heap_of(p));
  mi_heap_set_numa_affinity(heap, 0);
  mi_heap_guarded_set_sample_rate(heap, 0, 0);
  mi_heap_guarded_set_size_bound(heap, 0, 0);
  use((size_t)mi_heap_unload(heap) + mi_heap_reload(heap, NULL));
}

static void* fill_heap_on_thread(void* heap) {
  EACH_SIZE(size) SWEEP_GET(size, mi_heap_malloc((mi_heap_t*)heap, size));
  return NULL;
}

// libc allocates for a thread, too: then there is none, and the result is false.
static bool on_thread(void* (*body)(void*), void* arg) {
  pthread_t thread;
  const int err = pthread_create(&thread, NULL, body, arg);
  CHECK_SAY(err == 0 || err == EAGAIN, "pthread_create: %d", err);
  if (err == 0) pthread_join(thread, NULL);
  return err == 0;
}

static mi_heap_t* heap_or_null(const char* what, mi_heap_t* heap) {
  CHECK_SAY(heap != NULL || (errno == ENOMEM && sweep_told > 0), "%s: %d", what, errno);
  return heap;
}

static void deleted_heaps(void) {
  sweep_begin();
  mi_heap_t* const heap = heap_or_null("mi_heap_new", mi_heap_new());
  if (heap == NULL) return;
  fill_heap(heap, true);
  on_thread(&fill_heap_on_thread, heap);
  ask_heap(heap, heap);
  mi_heap_collect(heap, true);
  mi_heap_delete(heap);
  sweep_check_kept();
}

static void destroyed_heaps(void) {
  for (size_t i = 0; i < 3; i++) {
    sweep_begin();
    mi_heap_t* const heap = heap_or_null("mi_heap_new_ex", mi_heap_new_ex(0, true, NULL));
    if (heap == NULL) continue;
    SWEEP_TAKE(SMALL, mi_heap_malloc(heap, SMALL));
    SWEEP_TAKE(LARGE, mi_heap_zalloc(heap, LARGE));
    mi_heap_t* const before = mi_heap_set_default(heap);
    void* const p = SWEEP_TAKE(SMALL, mi_malloc(SMALL));
    ask_heap(heap, p);
    mi_heap_set_default(before);
    mi_heap_destroy(heap);
  }
  use_pointer(mi_heap_get_default());
  use_pointer(mi_heap_get_backing());
}

static void theaps(void) {
  mi_heap_t* const heap = mi_heap_new();
  sweep_begin();
  mi_theap_t* const theap = mi_heap_theap(heap);
  CHECK_SAY(theap != NULL || errno == ENOMEM, "mi_heap_theap: %d", errno);
  mi_theap_t* const before = mi_theap_get_default();
  if (theap != NULL) {
    mi_theap_set_default(theap);
    EACH_SIZE(size) {
      SWEEP_GET(size, mi_theap_malloc(theap, size));
      SWEEP_GET_ZERO(size, mi_theap_zalloc(theap, size));
      SWEEP_GET_ZERO(size, mi_theap_calloc(theap, size / 4, 4));
      SWEEP_GET_ALIGNED(size, 64, 0, mi_theap_malloc_aligned(theap, size, 64));
      SWEEP_RESIZE(SWEEP_PLAIN, size, 3 * size, mi_theap_realloc(theap, old, 3 * size));
    }
    SWEEP_GET(SMALL, mi_theap_malloc_small(theap, SMALL));
    SWEEP_GET_ZERO(SMALL, mi_theap_zalloc_small(theap, SMALL));
    mi_theap_guarded_set_sample_rate(theap, 0, 0);
    mi_theap_guarded_set_size_bound(theap, 0, 0);
    mi_theap_collect(theap, true);
    mi_theap_set_default(before);
  }
  if (heap != NULL) mi_heap_delete(heap);
}

// -- sub-processes, arenas --

static bool see_heap(mi_heap_t* heap, void* arg) {
  (void)arg;
  use_pointer(heap);
  return true;
}

static void* join_subproc(void* arg) {
  const mi_subproc_id_t id = {arg};
  mi_subproc_add_current_thread(id);
  void* const p = SWEEP_TAKE(LARGE, mi_malloc(LARGE));
  mi_heap_t* const heap = mi_heap_new();
  if (heap != NULL) use_pointer(mi_heap_malloc(heap, SMALL));
  use_pointer(mi_subproc_current()._mi_subproc_id);
  mi_free(p);
  mi_thread_done(); // also when the system cannot tell of the end
  return NULL;
}

static void sub_processes(void) {
  for (size_t i = 0; i < 3; i++) {
    sweep_begin();
    const mi_subproc_id_t id = mi_subproc_new();
    if (id._mi_subproc_id == NULL) {
      CHECK_SAY(errno == ENOMEM && sweep_told > 0, "mi_subproc_new: %d", errno);
      continue;
    }
    on_thread(&join_subproc, id._mi_subproc_id);
    mi_subproc_visit_heaps(id, &see_heap, NULL);
    if (i == 0) {
      mi_subproc_delete(id);
    } else {
      mi_subproc_destroy(id);
    }
  }
  use_pointer(mi_subproc_main()._mi_subproc_id);
}

static bool commit(bool is_commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)arg;
  if (is_zero != NULL) *is_zero = false;
  return is_commit || madvise(start, size, MADV_DONTNEED) == 0;
}

static void use_arena(mi_arena_id_t arena) {
  if (arena == NULL) return;
  size_t size = 0;
  use_pointer(mi_arena_area(arena, &size));
  use((size_t)mi_arena_contains(arena, &size));
  sweep_begin();
  mi_heap_t* const heap = heap_or_null("mi_heap_new_in_arena", mi_heap_new_in_arena(arena));
  if (heap == NULL) return;
  SWEEP_TAKE(SMALL, mi_heap_malloc(heap, SMALL));
  SWEEP_TAKE(LARGE, mi_heap_malloc(heap, LARGE));
  mi_heap_destroy(heap);
}

static void check_reserve(const char* what, int err) {
  CHECK_SAY(err == 0 || err == ENOMEM, "%s: %d", what, err);
}

static void reserved_memory(void) {
  const size_t size = mi_arena_min_size();
  mi_arena_id_t id = NULL;
  for (size_t i = 0; i < 3; i++) {
    check_reserve("mi_reserve_os_memory_ex",
                  mi_reserve_os_memory_ex(size, i > 0, i > 1, true, &id));
    use_arena(id);
  }
  check_reserve("mi_reserve_os_memory", mi_reserve_os_memory(size, true, false));
  // Mostly there are none of these pages.
  size_t pages = 0;
  check_reserve("mi_reserve_huge_os_pages_at", mi_reserve_huge_os_pages_at(1, -1, 10));
  check_reserve("mi_reserve_huge_os_pages_at_ex",
                mi_reserve_huge_os_pages_at_ex(1, 0, 10, true, &id));
  check_reserve("mi_reserve_huge_os_pages_interleave",
                mi_reserve_huge_os_pages_interleave(1, 1, 10));
  check_reserve("mi_reserve_huge_os_pages", mi_reserve_huge_os_pages(1, 0.01, &pages));
  use(pages + mi_arena_min_alignment() + (size_t)mi_is_redirected());
  use((size_t)mi_arena_reload(NULL, 0, &id) + mi_arena_unload(NULL, NULL, NULL, NULL));
}

// The refusal of the structures is announced by a message: `may_print`.
static void brought_memory(void) {
  const size_t size = mi_arena_min_size();
  const size_t alignment = mi_arena_min_alignment();
  char* p = (char*)mmap(NULL, 3 * size + alignment, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(p != (char*)MAP_FAILED);
  p += (alignment - (uintptr_t)p % alignment) % alignment;
  mi_arena_id_t id = NULL;
  if (mi_manage_memory(p, size, true, false, true, -1, true, &commit, NULL, &id)) use_arena(id);
  if (mi_manage_os_memory_ex(p + size, size, true, false, true, -1, true, &id)) use_arena(id);
  use((size_t)mi_manage_os_memory(p + 2 * size, size, true, false, true, -1));
  SWEEP_GET(LARGE, mi_malloc(LARGE));
}

// -- threads, the process --

static void* passed[100];

static void* thread_body(void* arg) {
  (void)arg;
  mi_thread_init();
  mi_thread_set_in_threadpool();
  plain();
  mi_collect(false);
  if (arg != NULL) mi_thread_done();
  return NULL;
}

static void threads(void) {
  for (size_t i = 0; i < 3; i++) on_thread(&thread_body, i == 1 ? passed : NULL);
}

static void* free_passed(void* arg) {
  (void)arg;
  for (size_t i = 0; i < 100; i++) mi_free(passed[i]);
  return NULL;
}

static void passing(void) {
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < 100; i++) passed[i] = mi_malloc(i * 300);
    if (!on_thread(&free_passed, NULL)) free_passed(NULL);
  }
}

// The child of a fork while the system refuses.
static void forking(void) {
  SWEEP_GET(SMALL, mi_malloc(SMALL));
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    plain();
    sweep_check_kept();
    _exit(0);
  }
  int status = -1;
  CHECK_SAY(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
}

static void on_deferred(bool is_forced, unsigned long long heartbeat, void* arg) {
  (void)is_forced, (void)heartbeat, (void)arg;
  mi_free(mi_malloc(SMALL));
}

static void collecting(void) {
  mi_process_init();
  mi_register_deferred_free(&on_deferred, NULL);
  for (size_t round = 0; round < 3; round++) {
    static void* p[33]; // to 96 KB
    for (size_t i = 0; i < 33; i++) p[i] = mi_malloc(i * 3000);
    for (size_t i = 0; i < 33; i++) {
      if (p[i] != NULL) memset(p[i], 1, i * 3000);
    }
    for (size_t i = 0; i < 33; i++) mi_free(p[i]);
    if (mi_thread_idle_due() >= 0) mi_thread_idle();
    mi_collect(round == 1);
    mi_collect_reduce(0);
  }
  // What grows with somebody behind it moves, and so does memory that waits to be purged.
  void* p = NULL;
  for (size_t size = LARGE; size < 8 * LARGE; size += LARGE) {
    void* const q = mi_realloc(p, size);
    if (q != NULL) p = q;
    SWEEP_GET(LARGE / 4, mi_malloc(LARGE / 4));
  }
  mi_free(p);
  SWEEP_GET(2 * LARGE, mi_malloc(2 * LARGE));
}

// -- looking --

static void hear(const char* text, void* arg) {
  (void)arg;
  use(strlen(text));
}

static bool see_block(const mi_heap_t* heap, const mi_heap_area_t* area, void* block, size_t size,
                      void* arg) {
  (void)heap, (void)area, (void)arg;
  use_pointer(block);
  use(size);
  return true;
}

static void visiting(void) {
  for (size_t i = 0; i < 20; i++) SWEEP_GET(i * 1000, mi_malloc(i * 1000));
  mi_heap_t* const heap = mi_heap_main();
  use((size_t)mi_heap_visit_blocks(heap, true, &see_block, NULL));
  use((size_t)mi_heap_visit_abandoned_blocks(heap, true, &see_block, NULL));
  use((size_t)mi_abandoned_visit_blocks(mi_subproc_main(), 0, true, &see_block, NULL));
  use((size_t)mi_theap_visit_blocks(mi_theap_get_default(), true, &see_block, NULL));
}

static void use_json(char* json) {
  use_pointer(json);
  mi_free(json);
}

static void statistics(void) {
  SWEEP_GET(LARGE, mi_malloc(LARGE));
  mi_stats_t_decl(stats);
  mi_heap_t* const heap = mi_heap_main();
  const mi_subproc_id_t id = mi_subproc_main();
  use((size_t)mi_stats_get(&stats) + mi_heap_stats_get(heap, &stats));
  use((size_t)mi_subproc_stats_get(id, &stats) + mi_subproc_stats_get_exclusive(id, &stats));
  use_json(mi_stats_get_json(0, NULL));
  use_json(mi_stats_as_json(&stats, 0, NULL));
  use_json(mi_subproc_stats_get_json(id, 0, NULL));
  use_json(mi_heap_stats_get_json(heap, 0, NULL));
  char text[100];
  use(mi_metrics(mi_metrics_prometheus, text, sizeof(text)));
  mi_stats_print_out(&hear, NULL);
  mi_thread_stats_print_out(&hear, NULL);
  mi_thread_stats_print(&hear);
  mi_subproc_stats_print_out(id, &hear, NULL);
  mi_subproc_heap_stats_print_out(id, &hear, NULL);
  mi_heap_stats_print_out(heap, &hear, NULL);
  mi_explain(&hear, NULL);
  mi_heap_stats_merge_to_subproc(heap);
  mi_heap_stats_merge_to_main(heap);
  mi_stats_merge();
  mi_process_info_print_out(&hear, NULL);
  size_t figure[8];
  mi_process_info(&figure[0], &figure[1], &figure[2], &figure[3], &figure[4], &figure[5],
                  &figure[6], &figure[7]);
  use(figure[3] + mi_stats_get_bin_size(1) + (size_t)mi_version());
  mi_stats_reset();
}

static void options(void) {
  const mi_option_t option = mi_option_purge_delay;
  use((size_t)mi_option_get(option) + (size_t)mi_option_get_clamp(option, 0, 10));
  use(mi_option_get_size(mi_option_arena_reserve) + (size_t)mi_option_is_enabled(option));
  const long before = mi_option_get(option);
  mi_option_enable(option);
  mi_option_disable(option);
  mi_option_set_enabled(option, true);
  mi_option_set_enabled_default(option, true);
  mi_option_set_default(option, 1);
  mi_option_set(option, before);
  mi_options_print_out(&hear, NULL);
  SWEEP_GET(LARGE, mi_malloc(LARGE));
}

static void printing(void) {
  mi_register_output(&hear, NULL);
  SWEEP_GET(LARGE, mi_malloc(LARGE));
  mi_options_print();
  mi_arenas_print();
  mi_debug_show_arenas();
  char text[2000];
  mi_describe(text, text, sizeof(text));
  mi_describe_json(&hear, text, sizeof(text));
  mi_stats_print(NULL);
  mi_process_info_print();
  mi_register_output(NULL, NULL);
}

static bool see_site(const mi_profile_site_t* site, void* arg) {
  (void)arg;
  use((size_t)site->bytes + site->frame_count);
  return true;
}

static bool take_bytes(const void* bytes, size_t size, void* arg) {
  (void)arg;
  use(((const unsigned char*)bytes)[size - 1]);
  return true;
}

static void profiles(void) {
  mi_profile_start(1000);
  EACH_SIZE(size) {
    SWEEP_GET(size, mi_malloc(size));
    SWEEP_GET_ALIGNED(size, 64, 0, mi_malloc_aligned(size, 64));
  }
  void* const kept = mi_malloc(LARGE);
  mi_profile_mark();
  use(mi_profile_rate() + (size_t)mi_profile_visit(mi_profile_live, &see_site, NULL));
  use((size_t)mi_profile_write("/dev/null", mi_profile_peak));
  use((size_t)mi_profile_write_to(mi_profile_pprof, mi_profile_growth, &take_bytes, NULL));
  use((size_t)mi_profile_write_to(mi_profile_folded, mi_profile_live, &take_bytes, NULL));
  mi_profile_print_leaks(&hear, NULL);
  mi_free(kept);
  mi_profile_stop();
}

// Pages that threads keep when the system refuses to tell of their end.
#define UNTOLD (4 * SWEEP_MIB)

int main(int argc, char** argv) {
  static const sweep_scenario_t scenarios[] = {
      {"plain", &plain, SWEEP_SILENT, 0},
      {"freeing", &freeing, SWEEP_SILENT, 0},
      {"resizing", &resizing, SWEEP_SILENT, 0},
      {"resizing_aligned", &resizing_aligned, SWEEP_SILENT, 0},
      {"aligned", &aligned, SWEEP_SILENT, 0},
      {"strings", &strings, SWEEP_SILENT, 0},
      {"libc_names", &libc_names, SWEEP_SILENT, 0},
      {"deleted_heaps", &deleted_heaps, SWEEP_SILENT, UNTOLD},
      {"destroyed_heaps", &destroyed_heaps, SWEEP_SILENT, 0},
      {"theaps", &theaps, SWEEP_SILENT, 0},
      {"sub_processes", &sub_processes, SWEEP_MAY_PRINT, UNTOLD},
      {"reserved_memory", &reserved_memory, SWEEP_SILENT, 0},
      {"brought_memory", &brought_memory, SWEEP_MAY_PRINT, 0},
      {"threads", &threads, SWEEP_SILENT, UNTOLD},
      {"passing", &passing, SWEEP_SILENT, UNTOLD},
      {"forking", &forking, SWEEP_SILENT, 0},
      {"collecting", &collecting, SWEEP_SILENT, 0},
      {"visiting", &visiting, SWEEP_SILENT, 0},
      {"statistics", &statistics, SWEEP_SILENT, 0},
      {"options", &options, SWEEP_SILENT, 0},
      {"printing", &printing, SWEEP_MAY_PRINT, 0},
      {"profiles", &profiles, SWEEP_MAY_PRINT, 0},
  };
  return sweep_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
