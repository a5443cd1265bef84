// SPDX-License-Identifier: MIT
// tagged_memory.c - a build with memory tags (MI_MTE): which mistakes end the program, what is said
// about them, and what has no tag.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_reports.h"

// What a child wrote, and how it ended.
static char output[16384];
static int status;

static unsigned tag_of(const void* p) { return (unsigned)((uintptr_t)p >> 56 & 15); }

// Make a mistake in a child, and listen to it. (An emulator cannot start this program again.)
static void make(void (*mistake)(void)) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL); // of cmocka
    mi_register_output(NULL, NULL);
    mi_register_error(NULL, NULL);
    mi_option_set(mi_option_abort_on_misuse, 2);
    mi_option_disable(mi_option_show_errors);
    mi_option_enable(mi_option_show_errors); // watches faults now
    dup2(ends[1], STDERR_FILENO);
    mistake();
    _exit(0);
  }
  close(ends[1]);
  size_t used = 0;
  ssize_t got;
  while ((got = read(ends[0], output + used, sizeof(output) - 1 - used)) > 0) used += (size_t)got;
  output[used] = 0;
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
}

static void skip_without_tags(void) {
  if (!test_has_memory_tags()) test_skip("the processor has no memory tags");
}

static void assert_said(const char* text) {
  if (strstr(output, text) == NULL) fail_msg("no \"%s\" in \"%s\"", text, output);
}

static void assert_faults(void (*mistake)(void), const char* text) {
  make(mistake);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) fail_msg("%d: %s", status, output);
  assert_said("wrong memory tag: ");
  assert_said(text);
}

static void assert_refused(void (*mistake)(void), const char* text) {
  make(mistake);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) fail_msg("%d: %s", status, output);
  assert_said(text);
}

static const size_t sizes[] = {1, 16, 100, 1000, 1024, 5000, 40000};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
// The page of such a block ends when it is freed: its next tag is any one.
#define LARGE 10000
static size_t size;

static volatile char* block(void) {
  void* const p = mi_malloc(size);
  if (mi_malloc(size) == NULL) abort(); // so that the page stays, if it has several blocks
  return (volatile char*)p;
}

static void overflow(void) {
  volatile char* const p = block();
  p[mi_usable_size((void*)(uintptr_t)p)] = 1;
}
static void underflow(void) {
  volatile char* const p = block();
  p[-1] = 1;
}
static void read_behind(void) {
  volatile char* const p = block();
  (void)p[mi_usable_size((void*)(uintptr_t)p) + 8];
}

// If this fails, a write or read beside a block goes unnoticed.
static void tagged_memory_stops_at_the_next_granule(void** state) {
  (void)state;
  skip_without_tags();
  for (size_t i = 0; i < SIZES; i++) {
    size = sizes[i];
    assert_faults(&overflow, "\n");
    assert_faults(&read_behind, "\n");
    assert_faults(&underflow, "\n");
  }
}

static void use_freed(bool is_write) {
  void* const other = mi_malloc(size); // so that the page stays
  volatile char* const p = block();
  mi_free((void*)(uintptr_t)p);
  if (is_write) {
    p[size - 1] = 1;
  } else {
    (void)p[0];
  }
  mi_free(other);
}
static void write_freed(void) { use_freed(true); }
static void read_freed(void) { use_freed(false); }

static void write_reused(void) {
  static void* again[3000];
  volatile char* const p = block();
  mi_free((void*)(uintptr_t)p);
  for (size_t i = 0; i < 3000; i++) { // some of these is in its place
    again[i] = mi_malloc(size);
    if (test_plain(again[i]) == test_plain((void*)(uintptr_t)p)) break;
  }
  p[0] = 1;
}

static void read_ended(void) {
  static void* blocks[3000];
  size_t count = 0;
  for (size_t bytes = 0; bytes < 400000 && count < 3000; bytes += size) {
    blocks[count++] = mi_malloc(size);
  }
  for (size_t i = 0; i < count; i++) mi_free(blocks[i]);
  mi_collect(true);
  (void)*(volatile char*)blocks[count / 2];
}

// If this fails, the memory of a freed block can be read or written by its old address.
static void tagged_memory_of_a_freed_block_is_closed(void** state) {
  (void)state;
  skip_without_tags();
  for (size_t i = 0; i < SIZES; i++) {
    size = sizes[i];
    assert_faults(&write_freed, "\n");
    assert_faults(&read_freed, "\n");
    if (size < LARGE) assert_faults(&write_reused, "\n");
    assert_faults(&read_ended, "\n");
  }
}

static void* write_first(void* p) {
  *(volatile char*)p = 1;
  return NULL;
}

static void write_freed_on_a_thread(void) {
  void* const p = mi_malloc(100);
  pthread_t thread;
  mi_free(p);
  pthread_create(&thread, NULL, &write_first, p);
  pthread_join(thread, NULL);
}

static void write_freed_in_a_child(void) {
  void* const p = mi_malloc(100);
  mi_free(p);
  const pid_t child = fork();
  if (child == 0) {
    write_first(p);
    _exit(0);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  if (WIFSIGNALED(ended) && WTERMSIG(ended) == SIGSEGV) write_first(p);
}

// If this fails, mistakes of threads and of children of fork are not noticed.
static void tagged_memory_is_checked_by_threads_and_children(void** state) {
  (void)state;
  skip_without_tags();
  assert_faults(&write_freed_on_a_thread, "\n");
  assert_faults(&write_freed_in_a_child, "\n");
}

static void free_twice(void) {
  void* const p = (void*)(uintptr_t)block();
  mi_free(p);
  mi_free(p);
}
static void free_after_reuse(void) {
  void* const p = (void*)(uintptr_t)block();
  mi_free(p);
  for (size_t i = 0; i < 3000; i++) {
    if (test_plain(mi_malloc(size)) == test_plain(p)) break;
  }
  mi_free(p);
}
static void realloc_freed(void) {
  void* const p = (void*)(uintptr_t)block();
  mi_free(p);
  if (mi_realloc(p, 2 * size) != NULL) _exit(1);
}
static void size_of_freed(void) {
  void* const p = (void*)(uintptr_t)block();
  mi_free(p);
  if (mi_usable_size(p) > 0) _exit(1);
}
static void free_inside(void) { mi_free((char*)(uintptr_t)block() + 16); }
static void free_untagged(void) { mi_free(test_plain((void*)(uintptr_t)block())); }

// If this fails, a block is freed or resized by an address that is no longer its own.
static void tagged_memory_is_freed_once(void** state) {
  (void)state;
  skip_without_tags();
  for (size_t i = 0; i < SIZES; i++) {
    size = sizes[i];
    const char* const twice = size < LARGE ? "double free detected of block " : "mimalloc: error: ";
    assert_refused(&free_twice, twice);
    if (size < LARGE) assert_refused(&free_after_reuse, twice);
    assert_refused(&realloc_freed, twice);
    if (size < LARGE) assert_refused(&size_of_freed, "in malloc_usable_size");
    assert_refused(&free_untagged, "double free detected of block ");
    if (size > 16) assert_refused(&free_inside, "invalid pointer: ");
  }
}

static void overflow_100(void) {
  char* const p = (char*)mi_malloc(100);
  char* const q = (char*)mi_malloc(100);
  char* const next = (char*)test_plain(p) + 112;
  *(volatile char*)((uintptr_t)next | (uintptr_t)tag_of(p) << 56) = 1;
  mi_free(q);
}

// If this fails, a fault by a wrong tag is not explained.
static void tagged_memory_faults_are_explained(void** state) {
  (void)state;
  skip_without_tags();
  assert_faults(&overflow_100, "\nmimalloc:   block:  0x");
  assert_said(" with tag ");
  assert_said(" of 112 bytes; page at 0x");
  assert_said("\nmimalloc:   before: 0x");
  assert_said("the tag is that of the block before: it overflowed");
  assert_said("\nmimalloc: error:   at:\n");
}

static void explain_as_json(void) {
  mi_option_enable(mi_option_report_json);
  overflow_100();
}

// If this fails, a fault by a wrong tag is no JSON where that was asked for.
static void tagged_memory_faults_are_json(void** state) {
  (void)state;
  skip_without_tags();
  assert_faults(&explain_as_json, "{\"mimalloc\":\"error\",\"kind\":\"wrong memory tag\"");
  assert_said("\",\"asked\":null,\"tag\":");
  assert_said("{\"mimalloc\":\"stack\",\"of\":\"access\"");
}

// If this fails, neighbours have the same tag, or tags do not change when blocks are freed.
static void tagged_memory_has_tags_by_block(void** state) {
  (void)state;
  skip_without_tags();
  static unsigned char tags[1000000 / 16];
  for (size_t i = 0; i < SIZES; i++) {
    const size_t count = 1000000 / 16 / sizes[i] + 8;
    unsigned used = 0;
    char** const blocks = (char**)mi_calloc(count, sizeof(char*));
    for (size_t k = 0; k < count; k++) {
      blocks[k] = (char*)mi_malloc(sizes[i]);
      tags[k] = (unsigned char)tag_of(blocks[k]);
      used |= 1u << tags[k];
      assert_int_not_equal(tags[k], 0);
    }
    const size_t slot = mi_good_size(sizes[i]);
    for (size_t k = 1; k < count; k++) {
      if ((char*)test_plain(blocks[k]) == (char*)test_plain(blocks[k - 1]) + slot) {
        assert_int_not_equal(tags[k], tags[k - 1]);
      }
    }
    if (count > 500) assert_int_equal(used, 0xFFFE); // all but 0 are used
    for (size_t k = 0; k < count && k < 50 && sizes[i] < LARGE; k++) {
      static char* others[3000];
      size_t other_count = 0;
      mi_free(blocks[k]);
      char* p = (char*)mi_malloc(sizes[i]);
      for (; test_plain(p) != test_plain(blocks[k]); p = (char*)mi_malloc(sizes[i])) {
        assert_true(other_count < 3000);
        others[other_count++] = p;
      }
      assert_int_not_equal(tag_of(p), tags[k]);
      assert_int_equal(tag_of(p) % 2, tags[k] % 2);
      blocks[k] = p;
      while (other_count > 0) mi_free(others[--other_count]);
    }
    for (size_t k = 0; k < count; k++) mi_free(blocks[k]);
    mi_free(blocks);
  }
}

// If this fails, memory keeps the tags of its blocks when their page ends: another kind of block
// that gets it faults.
static void tagged_memory_ends_with_its_page(void** state) {
  (void)state;
  listen();
  for (long delay = -1; delay < 2; delay++) { // kept; back to the system, at once and soon
    mi_option_set(mi_option_purge_delay, delay);
    for (size_t round = 0; round < 4; round++) {
      mi_heap_t* const heap = mi_heap_new();
      for (size_t i = 0; i < 4000; i++) memset(mi_heap_malloc(heap, 1000), 1, 1000);
      mi_heap_destroy(heap);
      if (round == 3) mi_collect(true);
      for (size_t large = 70000; large < 4000000; large *= 2) {
        char* const p = (char*)(round % 2 == 0 ? mi_malloc(large) : mi_zalloc(large));
        assert_int_equal(tag_of(p), 0);
        if (round % 2 != 0) assert_true(test_is_filled(p, large, 0));
        memset(p, 2, large);
        char* const q = (char*)mi_realloc(p, 3 * large);
        assert_true(test_is_filled(q, large, 2));
        mi_free(q);
      }
    }
  }
  mi_option_set(mi_option_purge_delay, 1000);
  assert_int_equal(damages + refusals, 0);
}

// If this fails, blocks in memory that the program brought along, or between guards, fault.
static void tagged_memory_is_not_needed(void** state) {
  (void)state;
  listen();
  const size_t bytes = 64 * TEST_MIB;
  void* const start =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mi_arena_id_t arena;
  assert_true(mi_manage_os_memory_ex(start, bytes, true, false, true, -1, true, &arena));
  mi_heap_t* const heap = mi_heap_new_in_arena(arena);
  for (size_t round = 0; round < 3; round++) {
    void* blocks[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
      blocks[i] = mi_heap_zalloc(heap, sizes[i]);
      assert_int_equal(tag_of(blocks[i]), 0);
      memset(blocks[i], 3, sizes[i]);
      blocks[i] = mi_heap_realloc(heap, blocks[i], 2 * sizes[i]);
      assert_true(test_is_filled(blocks[i], sizes[i], 3));
    }
    for (size_t i = 0; i < SIZES; i++) mi_free(blocks[i]);
  }
  mi_heap_destroy(heap);
  mi_option_set(mi_option_guarded_sample_rate, 1);
  mi_heap_t* const guarded = mi_heap_new();
  for (size_t i = 0; i < SIZES; i++) {
    char* const p = (char*)mi_heap_zalloc(guarded, sizes[i]);
    memset(p, 4, sizes[i]);
    mi_free(p);
  }
  mi_heap_destroy(guarded);
  mi_option_set(mi_option_guarded_sample_rate, 0);
  assert_int_equal(damages + refusals, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tagged_memory_has_tags_by_block),
      cmocka_unit_test(tagged_memory_stops_at_the_next_granule),
      cmocka_unit_test(tagged_memory_of_a_freed_block_is_closed),
      cmocka_unit_test(tagged_memory_is_checked_by_threads_and_children),
      cmocka_unit_test(tagged_memory_is_freed_once),
      cmocka_unit_test(tagged_memory_faults_are_explained),
      cmocka_unit_test(tagged_memory_faults_are_json),
      cmocka_unit_test(tagged_memory_ends_with_its_page),
      cmocka_unit_test(tagged_memory_is_not_needed),
  };
  return cmocka_run_group_tests(tests, &reports_set_up, &reports_tear_down);
}
