// SPDX-License-Identifier: MIT
// messages.c - callbacks for output, errors and deferred frees, and the reports for people.
#include "spawn.h"
#include "test_api.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

static spawn_result_t result;

typedef struct sink_s {
  size_t calls;
  size_t longest_line;
  bool has_partial_line;
  char text[32768];
} sink_t;

static sink_t sink;

static void collect_text(const char* text, void* arg) {
  sink_t* const to = (sink_t*)arg;
  const size_t length = strlen(text);
  to->calls++;
  if (length == 0 || text[length - 1] != '\n') to->has_partial_line = true;
  if (length > to->longest_line) to->longest_line = length;
  if (strlen(to->text) + length < sizeof(to->text)) strcat(to->text, text);
}

static void clear_sink(void) { memset(&sink, 0, sizeof(sink)); }

// If this fails, the report at the end of a program is unreadable, or breaks programs that show
// it line by line.
static void stats_print_gives_whole_lines(void** state) {
  (void)state;
  clear_sink();
  void* const p = mi_malloc(3000000);
  mi_stats_print_out(&collect_text, &sink);
  mi_free(p);
  assert_true(sink.calls > 10);
  assert_true(sink.longest_line < 256);
  assert_false(sink.has_partial_line);
  assert_int_equal(strncmp(sink.text, "subproc 0\n", 10), 0);
  const char* const labels[] = {
      "\n blocks ",      "\n  binned    :", "\n  huge      :",       "\n pages ",
      "\n arenas ",      "\n  reserved  :", "\n  committed :",       "\n process ",
      "\n  threads   :", "\n  elapsed   :", "\n  process   : user: "};
  for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
    if (strstr(sink.text, labels[i]) == NULL) fail_msg("no \"%s\" in:\n%s", labels[i], sink.text);
  }
  clear_sink();
  mi_thread_stats_print_out(&collect_text, &sink);
  assert_true(sink.calls > 10);
  clear_sink();
  mi_process_info_print_out(&collect_text, &sink);
  assert_non_null(strstr(sink.text, "peak rss: "));
  // Without a function: to the one that is registered.
  mi_register_output(&collect_text, &sink);
  clear_sink();
  mi_process_info_print();
  assert_non_null(strstr(sink.text, "peak rss: "));
  clear_sink();
  mi_options_print();
  assert_non_null(strstr(sink.text, "option 'purge_delay': 1000\n"));
  mi_register_output(NULL, NULL);
  mi_stats_reset();
  mi_stats_merge();
}

// If this fails, what a program reads about its own memory use is nonsense.
static void process_info_tells_the_truth(void** state) {
  (void)state;
  size_t elapsed, user, system, rss, peak_rss, commit, peak_commit, faults;
  mi_process_info(&elapsed, &user, &system, &rss, &peak_rss, &commit, &peak_commit, &faults);
  const size_t size = 48 * TEST_MIB;
  char* const p = (char*)mi_malloc(size);
  assert_non_null(p);
  memset(p, 1, size);
  size_t rss2, peak2, commit2, peak_commit2;
  mi_process_info(NULL, NULL, NULL, &rss2, &peak2, &commit2, &peak_commit2, NULL);
  assert_true(rss2 >= rss + size / 10 * 9);
  assert_true(peak2 >= size);
  assert_true(commit2 >= size);
  assert_true(peak_commit2 >= commit2);
  mi_free(p);
  mi_collect(true);
  size_t rss3;
  mi_process_info(NULL, NULL, NULL, &rss3, NULL, NULL, NULL, NULL);
  assert_true(rss3 <= rss2 - size / 10 * 9);
  mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
}

// If this fails, a program that asks for messages in its own log does not get them, or gets half
// of them.
static void registered_output_gets_messages(void** state) {
  (void)state;
  clear_sink();
  mi_option_set(mi_option_show_errors, 1);
  mi_register_output(&collect_text, &sink);
  assert_null(mi_malloc_aligned(16, test_opaque(24)));
  assert_non_null(strstr(sink.text, "mimalloc: error: invalid alignment: 24"));
  assert_false(sink.has_partial_line);
  mi_register_output(NULL, NULL);
  const size_t calls = sink.calls;
  assert_null(mi_malloc_aligned(16, test_opaque(24)));
  assert_int_equal(sink.calls, calls);
  mi_option_set(mi_option_show_errors, 0);
}

static int register_late(void) {
  int local = 0;
  for (size_t i = 0; i < 50; i++) mi_free(test_opaque_pointer(&local));
  mi_register_output(&collect_text, &sink);
  printf("received: %s", sink.text);
  return sink.has_partial_line ? 1 : 0;
}

// If this fails, what was said before a program registered its log is not in it.
static void registered_output_gets_earlier_messages(void** state) {
  (void)state;
  test_skip_if_tracked();
  const char* const environment[] = {"MIMALLOC_VERBOSE=1", "MIMALLOC_PURGE_DELAY=x", NULL};
  test_start_self("register_late", environment, &result);
  assert_int_equal(result.exit_status, 0);
  const char* const at = strstr(result.output, "received: mimalloc: warning: environment option");
  assert_non_null(at);
  size_t count = 0;
  for (const char* s = at; (s = strstr(s, "mimalloc: error: invalid pointer: ")) != NULL; s++) {
    count++;
  }
  assert_int_equal(count, 50);
}

static void print_and_end(int signal) {
  (void)signal;
  alarm(30); // if it waits for a lock that this thread holds
  mi_arenas_print();
  _exit(0);
}

static bool crash_in_commit(bool commit, void* start, size_t size, bool* is_zero, void* arg) {
  (void)arg;
  if (commit) {
    if (mprotect(start, size, PROT_READ | PROT_WRITE) != 0) return false;
    *is_zero = true;
    return true;
  }
  raise(SIGSEGV); // we are called with a lock held
  return true;
}

static int crash_under_a_lock(void) {
  signal(SIGSEGV, &print_and_end);
  const size_t size = 256 * TEST_MIB;
  void* const start =
      mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mi_arena_id_t arena;
  if (start == MAP_FAILED || !mi_manage_memory(start, size, false, false, true, -1, true,
                                               &crash_in_commit, NULL, &arena)) {
    return 2;
  }
  mi_heap_t* const heap = mi_heap_new_in_arena(arena);
  void* const p = mi_heap_malloc(heap, 3 * TEST_MIB);
  if (p == NULL) return 3;
  mi_free(p);
  mi_collect(true);
  return 4; // the memory did not go back
}

// If this fails, the handler of a crash hangs instead of telling where memory was.
static void arenas_are_printed_after_a_crash(void** state) {
  (void)state;
  test_start_self("crash_under_a_lock", NULL, &result);
  if (result.signal != 0 || result.exit_status != 0) {
    fail_msg("signal %d, status %d:\n%s", result.signal, result.exit_status, result.output);
  }
  assert_int_equal(spawn_count(&result, ", exclusive, of the program, node -1\n"), 1);
}

static void* make_error(void* arg) {
  (void)arg;
  mi_free(test_opaque_pointer(&result));
  return NULL;
}

static int other_thread_errors(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, &make_error, NULL) != 0) return 1;
  pthread_join(thread, NULL);
  return 0;
}

// If this fails, messages of several threads cannot be told apart.
static void messages_name_the_thread(void** state) {
  (void)state;
  const char* const environment[] = {"MIMALLOC_SHOW_ERRORS=1", NULL};
  test_start_self("other_thread_errors", environment, &result);
  assert_int_equal(spawn_count(&result, "mimalloc: error: thread 0x"), 1);
}

static int tags[2];
static _Atomic bool is_mixed;

static void on_error_0(int err, void* arg) {
  if (err != EINVAL || arg != &tags[0]) is_mixed = true;
}

static void on_error_1(int err, void* arg) {
  if (err != EINVAL || arg != &tags[1]) is_mixed = true;
}

static void* make_many_errors(void* arg) {
  (void)arg;
  for (size_t i = 0; i < 20000; i++) mi_free(test_opaque_pointer(&result));
  return NULL;
}

// If this fails, a callback that is replaced while another thread fails is called with the argument
// of the other.
static void registration_never_mixes_two_callbacks(void** state) {
  (void)state;
  test_skip_if_tracked();
  pthread_t threads[2];
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, &make_many_errors, NULL), 0);
  }
  for (size_t i = 0; i < 20000; i++) {
    mi_register_error(i % 2 == 0 ? &on_error_0 : &on_error_1, &tags[i % 2]);
  }
  for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  mi_register_error(NULL, NULL);
  assert_false(is_mixed);
}

static int last_error;
static size_t error_calls;

static void on_error(int err, void* arg) {
  assert_ptr_equal(arg, &last_error);
  last_error = err;
  error_calls++;
  mi_free(mi_malloc(100)); // a handler may allocate
  errno = 1;
}

// If this fails, programs that react to errors of the allocator are not told, or told the wrong
// kind.
static void registered_error_function_gets_codes(void** state) {
  (void)state;
  test_skip_if_tracked();
  int local = 0;
  mi_register_error(&on_error, &last_error);
  errno = 4711;
  mi_free(test_opaque_pointer(&local));
  assert_int_equal(last_error, EINVAL);
  assert_int_equal(errno, 4711);
  assert_null(mi_malloc(test_opaque(SIZE_MAX)));
  assert_int_equal(last_error, EOVERFLOW);
  assert_int_equal(errno, ENOMEM);
  assert_null(mi_malloc_aligned(10, test_opaque(3)));
  assert_int_equal(last_error, EOVERFLOW);
  assert_int_equal(errno, EINVAL);
  assert_null(mi_malloc(test_opaque(TEST_BEYOND)));
  // Of 32 bits of addresses, a block may have half, and no more is a size.
  assert_int_equal(last_error, sizeof(void*) == 4 ? EOVERFLOW : ENOMEM);
  assert_int_equal(error_calls, 4);
  mi_register_error(NULL, NULL);
  mi_free(test_opaque_pointer(&local));
  assert_int_equal(error_calls, 4);
}

static size_t deferred_calls, deferred_forced, deferred_depth;
static unsigned long long deferred_beat;

static void on_deferred(bool force, unsigned long long heartbeat, void* arg) {
  assert_ptr_equal(arg, &deferred_calls);
  assert_int_equal(deferred_depth, 0);
  assert_true(heartbeat > deferred_beat);
  deferred_beat = heartbeat;
  deferred_depth++;
  deferred_calls++;
  if (force) deferred_forced++;
  for (size_t i = 0; i < 2000; i++) mi_free(mi_malloc(i * 10));
  mi_collect(false);
  deferred_depth--;
}

static mi_subproc_id_t deferred_subproc;

static void leave_in_deferred(bool force, unsigned long long heartbeat, void* arg) {
  (void)force, (void)heartbeat, (void)arg;
  deferred_calls++;
  mi_thread_done();
  mi_subproc_add_current_thread(deferred_subproc);
  mi_free(mi_malloc(100));
}

static void say_nothing(const char* message, void* arg) { (void)message, (void)arg; }

// If this fails, a malloc goes on with what its thread has given up to another one.
static void deferred_free_cannot_end_the_thread(void** state) {
  (void)state;
  test_skip_if_guarded("so many guarded blocks take too long");
  enum { COUNT = 300000 };
  static void* p[COUNT];
  deferred_subproc = mi_subproc_new();
  mi_theap_t* const theap = mi_theap_get_default();
  mi_register_output(&say_nothing, NULL);
  mi_register_deferred_free(&leave_in_deferred, NULL);
  mi_collect(true);
  const size_t calls = deferred_calls;
  for (size_t round = 0; round < 8 && deferred_calls == calls; round++) {
    for (size_t i = 0; i < COUNT; i++) p[i] = mi_malloc(64 + i % 128);
    for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
  }
  assert_true(deferred_calls > calls);
  assert_ptr_equal(mi_theap_get_default(), theap);
  mi_register_deferred_free(NULL, NULL);
  mi_register_output(NULL, NULL);
  mi_subproc_destroy(deferred_subproc);
}

// If this fails, language run-times that free in batches never do, or do so inside themselves.
static void deferred_free_is_called(void** state) {
  (void)state;
  test_skip_if_guarded("so many guarded blocks take too long");
  enum { COUNT = 300000 };
  mi_register_deferred_free(&on_deferred, &deferred_calls);
  mi_collect(false);
  assert_int_equal(deferred_calls, 1);
  assert_int_equal(deferred_forced, 0);
  mi_collect(true);
  assert_int_equal(deferred_calls, 2);
  assert_int_equal(deferred_forced, 1);
  static void* p[COUNT];
  // Once in so many refills, each of which is up to a page of blocks.
  for (size_t round = 0; round < 8 && deferred_calls == 2; round++) {
    for (size_t i = 0; i < COUNT; i++) p[i] = mi_malloc(64 + i % 128);
    for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
  }
  assert_true(deferred_calls > 2);
  mi_register_deferred_free(NULL, NULL);
  const size_t calls = deferred_calls;
  mi_collect(true);
  assert_int_equal(deferred_calls, calls);
}

static int nothing(void) {
  mi_free(mi_malloc(100));
  return 0;
}

// If this fails, users cannot see statistics without changing the program.
static void show_stats_prints_at_the_end(void** state) {
  (void)state;
  const char* const shown[] = {"MIMALLOC_SHOW_STATS=1", NULL};
  test_start_self("nothing", shown, &result);
  assert_int_equal(result.exit_status, 0);
  assert_int_equal(spawn_count(&result, "subproc 0\n"), 1);
  assert_int_equal(spawn_count(&result, "option '"), 0);
  const char* const verbose[] = {"MIMALLOC_VERBOSE=1", NULL};
  test_start_self("nothing", verbose, &result);
  assert_int_equal(spawn_count(&result, "subproc 0\n"), 1);
  assert_int_equal(spawn_count(&result, "option 'show_errors': 0\n"), 1);
  test_start_self("nothing", NULL, &result);
  assert_int_equal(result.length, 0);
}

// If this fails, calls that may be made more than once do harm.
static void init_and_done_may_be_repeated(void** state) {
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    mi_process_init();
    mi_thread_init();
    void* const p = mi_malloc(100);
    assert_non_null(p);
    mi_thread_done();
    mi_free(p);
    mi_thread_set_in_threadpool();
    mi_collect_reduce(1000);
  }
}

int main(int argc, char** argv) {
  if (argc > 1) {
    if (strcmp(argv[1], "register_late") == 0) return register_late();
    if (strcmp(argv[1], "crash_under_a_lock") == 0) return crash_under_a_lock();
    if (strcmp(argv[1], "other_thread_errors") == 0) return other_thread_errors();
    return nothing();
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stats_print_gives_whole_lines),
      cmocka_unit_test(process_info_tells_the_truth),
      cmocka_unit_test(registered_output_gets_messages),
      cmocka_unit_test(registered_output_gets_earlier_messages),
      cmocka_unit_test(messages_name_the_thread),
      cmocka_unit_test(arenas_are_printed_after_a_crash),
      cmocka_unit_test(registered_error_function_gets_codes),
      cmocka_unit_test(registration_never_mixes_two_callbacks),
      cmocka_unit_test(deferred_free_is_called),
      cmocka_unit_test(deferred_free_cannot_end_the_thread),
      cmocka_unit_test(show_stats_prints_at_the_end),
      cmocka_unit_test(init_and_done_may_be_repeated),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
