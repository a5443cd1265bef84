// SPDX-License-Identifier: MIT
// errors.c - what programs do wrong: it is named on request, counted, and the program goes on.
//
// Each misuse is one function that runs in a process of its own and prints the address it
// misuses.
#include "spawn.h"
#include "test_api.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static spawn_result_t result;

static void tell_address(const void* p) {
  printf("misused 0x%zx\n", (size_t)(uintptr_t)p);
  fflush(stdout);
}

// After a misuse, the allocator still gives memory that is the program's alone.
static int survive(void) {
  enum { COUNT = 4000 };
  static unsigned char* p[COUNT];
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < COUNT; i++) {
      const size_t size = 16 + i % 200;
      p[i] = (unsigned char*)mi_malloc(size);
      if (p[i] == NULL) return 3;
      memset(p[i], (int)(i % 250), size);
    }
    for (size_t i = 0; i < COUNT; i++) {
      if (!test_is_filled(p[i], 16 + i % 200, (unsigned char)(i % 250))) return 4;
      mi_free(p[i]);
    }
  }
  printf("survived\n");
  return 0;
}

static int free_stack(void) {
  int local[8] = {0};
  tell_address(local);
  mi_free(test_opaque_pointer(local));
  return survive();
}

static int free_static(void) {
  static long data[16];
  tell_address(data + 2);
  mi_free(test_opaque_pointer(data + 2));
  return survive();
}

static int free_wild(void) {
  void* const p = (void*)(uintptr_t)0x123456789ab0;
  tell_address(p);
  mi_free(test_opaque_pointer(p));
  return survive();
}

static int free_non_canonical(void) {
  mi_free(test_opaque_pointer((void*)(uintptr_t)0x10));
  return survive();
}

static int free_many_foreign(void) {
  static char data[1000];
  tell_address(data);
  for (size_t i = 0; i < 100; i++) mi_free(test_opaque_pointer(data + i));
  return survive();
}

static int realloc_stack(void) {
  int local[8] = {0};
  tell_address(local);
  if (mi_realloc(test_opaque_pointer(local), 100) != NULL) return 5;
  if (mi_usable_size(test_opaque_pointer(local)) != 0) return 6;
  return survive();
}

static int realloc_inside(void) {
  char* const p = (char*)mi_malloc(100);
  tell_address(p + 16);
  if (mi_realloc(test_opaque_pointer(p + 16), 200) != NULL || errno != EINVAL) return 5;
  memset(p, 1, 100);
  if (mi_realloc(p, 200) == NULL) return 6;
  return survive();
}

static int free_inside_large(void) {
  char* const p = (char*)mi_malloc(5000000);
  tell_address(p + 100);
  mi_free(test_opaque_pointer(p + 100));
  memset(p, 1, 5000000);
  mi_free(p);
  return survive();
}

static void* free_it(void* p) {
  mi_free(p);
  return NULL;
}

static int free_inside_of_another_thread(void) {
  char* const p = (char*)mi_malloc(100);
  pthread_t thread;
  tell_address(p + 8);
  if (pthread_create(&thread, NULL, &free_it, test_opaque_pointer(p + 8)) != 0) return 7;
  pthread_join(thread, NULL);
  memset(p, 1, 100);
  mi_free(p);
  return survive();
}

static int free_large_twice(void) {
  void* const p = mi_malloc(5000000);
  tell_address(p);
  mi_free(p);
  mi_free(test_opaque_pointer(p));
  return survive();
}

static int free_small_twice(void) {
  void* p[10];
  for (size_t i = 0; i < 10; i++) p[i] = mi_malloc(64);
  tell_address(p[5]);
  mi_free(p[5]);
  mi_free(test_opaque_pointer(p[5]));
  const int status = survive();
  for (size_t i = 0; i < 10; i++) {
    if (i != 5) mi_free(p[i]);
  }
  return status;
}

static int free_after_its_page(void) {
  enum { COUNT = 4000 };
  static void* p[COUNT];
  for (size_t i = 0; i < COUNT; i++) p[i] = mi_malloc(1000);
  for (size_t i = 0; i < COUNT; i++) mi_free(p[i]);
  mi_collect(true);
  tell_address(p[COUNT / 2]);
  mi_free(test_opaque_pointer(p[COUNT / 2]));
  return survive();
}

static int free_twice_in_a_heap(void) {
  mi_heap_t* const heap = mi_heap_new();
  void* p[10];
  for (size_t i = 0; i < 10; i++) p[i] = mi_heap_malloc(heap, 64);
  tell_address(p[5]);
  mi_free(p[5]);
  mi_free(test_opaque_pointer(p[5]));
  for (size_t i = 0; i < 4000; i++) {
    if (mi_heap_malloc(heap, 64) == NULL) return 25;
  }
  mi_heap_destroy(heap);
  return survive();
}

static void ignore_error(int err, void* arg) {
  (void)err;
  (void)arg;
}

static void* free_ten(void* arg) {
  void** const p = (void**)arg;
  for (size_t i = 0; i < 10; i++) mi_free(p[i]);
  return NULL;
}

static int write_after_free(void) {
  void* p[20];
  mi_register_error(&ignore_error, NULL); // else debug builds stop
  for (size_t i = 0; i < 20; i++) p[i] = mi_malloc(64);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &free_ten, p) != 0) return 7;
  pthread_join(thread, NULL);
  tell_address(p[4]);
  memset(test_opaque_pointer(p[4]), 0x5a, 64);
  mi_collect(true);
  for (size_t i = 10; i < 20; i++) mi_free(p[i]);
  return survive();
}

static size_t handled;

// What needs every lock there is.
static void do_anything(int err, void* arg) {
  (void)err;
  (void)arg;
  handled++;
  mi_heap_t* const heap = mi_heap_new();
  void* const p = mi_heap_malloc(heap, 100);
  void* const q = mi_malloc(100);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    void* const r = mi_malloc(100);
    _exit(r != NULL && r != p && r != q ? 0 : 1);
  }
  int status = 1;
  const bool has_fork = child >= 0 || errno != ENOSYS;
  CHECK(!has_fork || (child > 0 && waitpid(child, &status, 0) == child && status == 0));
  mi_free(q);
  mi_heap_destroy(heap);
  mi_collect(true);
}

// The block that was freed last, and is handed out next, leads nowhere behind it.
static void damage_list(mi_heap_t* heap) {
  void* p[20];
  for (size_t i = 0; i < 20; i++) p[i] = mi_heap_malloc(heap, 64);
  for (size_t i = 0; i < 20; i++) mi_free(p[i]);
  // Handed over to the list that malloc takes from, when that has run out.
  void* q = NULL;
  for (size_t i = 0; i < 100000 && q != p[19]; i++) q = mi_heap_malloc(heap, 64);
  CHECK(q == p[19]);
  memset(test_opaque_pointer(p[17]), 0x5a, 64);
}

// The same of the first block of the list that malloc takes next, which is noticed whenever that
// list is taken.
static int write_after_free_often(void) {
  mi_register_error(&ignore_error, NULL); // else debug builds stop
  for (size_t round = 0; round < 10; round++) {
    void* p[20];
    for (size_t i = 0; i < 20; i++) p[i] = mi_malloc(64);
    for (size_t i = 0; i < 20; i++) mi_free(p[i]);
    memset(test_opaque_pointer(p[19]), 0x5a, 64);
    for (size_t i = 0; i < 2000; i++) {
      if (!mi_is_in_heap_region(mi_malloc(64))) return 25;
    }
  }
  return survive();
}

static void* damage_and_end(void* arg) {
  damage_list((mi_heap_t*)arg);
  return NULL;
}

static int handler_does_anything(void) {
  alarm(60); // if it waits for itself
  mi_register_error(&do_anything, NULL);
  mi_heap_t* const heap = mi_heap_new();
  damage_list(heap);
  mi_heap_delete(heap);
  if (handled != 1) return 22;
  pthread_t thread;
  mi_heap_t* const other = mi_heap_new();
  if (pthread_create(&thread, NULL, &damage_and_end, other) != 0) return 7;
  pthread_join(thread, NULL);
  if (handled != 2) return 23;
  if (pthread_create(&thread, NULL, &damage_and_end, mi_heap_main()) != 0) return 7;
  pthread_join(thread, NULL);
  mi_collect(true);
  if (handled != 3) return 24;
  mi_heap_destroy(other);
  return survive();
}

static int too_large(void) {
  if (mi_malloc(test_opaque(SIZE_MAX - 100)) != NULL) return 8;
  if (mi_calloc(test_opaque(SIZE_MAX / 2), 3) != NULL) return 9;
  if (mi_realloc(NULL, test_opaque(SIZE_MAX - 100)) != NULL) return 10;
  if (mi_malloc_aligned(test_opaque(SIZE_MAX - 100), 64) != NULL) return 11;
  return survive();
}

static int bad_alignment(void) {
  if (mi_malloc_aligned(100, test_opaque(24)) != NULL) return 12;
  if (mi_memalign(test_opaque(48), 100) != NULL) return 13;
  void* p = NULL;
  if (mi_posix_memalign(&p, test_opaque(12), 100) != EINVAL) return 14;
  return survive();
}

static int no_memory(void) {
  if (mi_malloc(test_opaque(TEST_BEYOND)) != NULL) return 15;
  return survive();
}

// What a link was overwritten with, as it is printed; and what a size is that no system has.
#if __SIZEOF_POINTER__ == 4
#define LINK "0x5a5a5a5a"
#define NO_MEMORY "mimalloc: error: allocation request is too large (2147483648 bytes) in malloc"
#else
#define NO_MEMORY "mimalloc: error: unable to allocate memory (1152921504606846976 bytes)"
#define LINK "0x5a5a5a5a5a5a5a5a"
#endif

static const struct misuse_s {
  const char* name;
  int (*run)(void);
  const char* message; // with %s where the address stands
  const char* summary; // printed at the end when it happened again, or NULL
  const char* says[4]; // further parts of that line
} misuses[] = {
    {"free_stack", &free_stack, "mimalloc: error: invalid pointer: %s in free", NULL, {NULL}},
    {"free_static", &free_static, "mimalloc: error: invalid pointer: %s in free", NULL, {NULL}},
    {"free_wild", &free_wild, "mimalloc: error: invalid pointer: %s in free", NULL, {NULL}},
    {"free_non_canonical",
     &free_non_canonical,
     "mimalloc: error: invalid pointer: 0x10 in free",
     NULL,
     {NULL}},
    {"free_many_foreign",
     &free_many_foreign,
     "mimalloc: error: invalid pointer: %s in free",
     "mimalloc: error: invalid pointer: 99 more of this kind",
     {NULL}},
    {"realloc_stack",
     &realloc_stack,
     "mimalloc: error: invalid pointer: %s in realloc",
     NULL,
     {NULL}},
    {"free_inside_large",
     &free_inside_large,
     "invalid pointer: %s in free: block 0 of 1 at 0x",
     NULL,
     {" bytes, 100 bytes into it; ", "; page of its own at 0x", "; main heap\n"}},
    {"free_inside_of_another_thread",
     &free_inside_of_another_thread,
     "invalid pointer: %s in free: block ",
     NULL,
     {" of 112 bytes, 8 bytes into it; ", "; page at 0x", "; main heap\n", " of thread 0x"}},
    {"realloc_inside",
     &realloc_inside,
     "mimalloc: error: invalid pointer: %s in realloc: block ",
     NULL,
     {" of 112 bytes, 16 bytes into it; ", "; main heap\n"}},
    {"free_large_twice",
     &free_large_twice,
     "mimalloc: error: invalid pointer: %s in free: nothing is in use there",
     NULL,
     {"; last was a page at 0x", ", blocks of 50"}}, // and less than an OS page more
    {"free_after_its_page",
     &free_after_its_page,
     "mimalloc: error: invalid pointer: %s in free: nothing is in use there",
     NULL,
     {"; last was a page at 0x", ", blocks of 1024 bytes\n"}},
    {"free_small_twice",
     &free_small_twice,
     "mimalloc: error: double free detected of block %s with size 64 in malloc: block ",
     NULL,
     {" of 64 bytes; page at 0x", " blocks in use, of thread 0x", "; main heap\n"}},
    {"free_twice_in_a_heap",
     &free_twice_in_a_heap,
     "mimalloc: error: double free detected of block %s with size 64 in malloc: block ",
     NULL,
     {" of 64 bytes; page at 0x", "; heap 1 at 0x"}},
    {"write_after_free",
     &write_after_free,
     "mimalloc: error: corrupted free list entry of size 64 at %s: value " LINK " in ",
     NULL,
     {" of 64 bytes; page at 0x", "; main heap\n"}},
    {"write_after_free_often",
     &write_after_free_often,
     "mimalloc: error: corrupted free list entry of size 64 at ",
     "mimalloc: error: corrupted free list: 9 more of this kind",
     {": value " LINK " in malloc: block ", "; main heap\n"}},
    {"handler_does_anything",
     &handler_does_anything,
     "mimalloc: error: corrupted free list entry of size 64 at ",
     "mimalloc: error: corrupted free list: 2 more of this kind",
     {" in mi_heap_delete: block "}},
    {"too_large",
     &too_large,
     "mimalloc: error: allocation request is too large (",
     "mimalloc: error: allocation request is too large: 3 more of this kind",
     {NULL}},
    {"bad_alignment",
     &bad_alignment,
     "mimalloc: error: invalid alignment: 24",
     "mimalloc: error: invalid alignment: 2 more of this kind",
     {NULL}},
    {"no_memory", &no_memory, NO_MEMORY, NULL, {NULL}},
};
#define MISUSE_COUNT (sizeof(misuses) / sizeof(misuses[0]))

static void run_misuse(const struct misuse_s* misuse, const char* variable, const char* second) {
  const char* const environment[] = {variable, second, NULL};
  test_start_self(misuse->name, environment, &result);
  if (result.signal != 0 || result.exit_status != 0) {
    fail_msg("%s: signal %d, status %d:\n%s", misuse->name, result.signal, result.exit_status,
             result.output);
  }
  assert_int_equal(spawn_count(&result, "survived"), 1);
}

// The message that is expected, with the address the child told.
static void expected_message(const struct misuse_s* misuse, char* text, size_t capacity) {
  char address[64] = "";
  const char* const at = strstr(result.output, "misused ");
  if (at != NULL) sscanf(at, "misused %63s", address);
  snprintf(text, capacity, misuse->message, address);
}

// If this fails, the cause of a crash or a leak cannot be found with MIMALLOC_SHOW_ERRORS=1.
static void misuse_is_named_with_its_address(void** state) {
  (void)state;
  test_skip_if_tracked();
  for (size_t i = 0; i < MISUSE_COUNT; i++) {
    char text[256];
    run_misuse(&misuses[i], "MIMALLOC_SHOW_ERRORS=1", NULL);
    expected_message(&misuses[i], text, sizeof(text));
    if (spawn_count(&result, text) != 1) {
      fail_msg("%s: expected \"%s\" once in:\n%s", misuses[i].name, text, result.output);
    }
    for (size_t k = 0; k < 4 && misuses[i].says[k] != NULL; k++) {
      if (spawn_count(&result, misuses[i].says[k]) == 1) continue;
      fail_msg("%s: expected \"%s\" once in:\n%s", misuses[i].name, misuses[i].says[k],
               result.output);
    }
  }
}

// If this fails, a misuse in a loop floods the log, or nobody learns how often it happened.
static void misuse_is_counted_after_the_first(void** state) {
  (void)state;
  test_skip_if_tracked();
  for (size_t i = 0; i < MISUSE_COUNT; i++) {
    run_misuse(&misuses[i], "MIMALLOC_SHOW_ERRORS=1", NULL);
    const size_t more = spawn_count(&result, "more of this kind");
    if (misuses[i].summary == NULL) {
      assert_int_equal(more, 0);
    } else if (spawn_count(&result, misuses[i].summary) != 1) {
      fail_msg("%s: expected \"%s\" in:\n%s", misuses[i].name, misuses[i].summary, result.output);
    }
  }
}

// If this fails, programs whose output is read by others print what nobody asked for.
static void misuse_is_silent_by_default(void** state) {
  (void)state;
  test_skip_if_tracked();
  for (size_t i = 0; i < MISUSE_COUNT; i++) {
    run_misuse(&misuses[i], NULL, NULL);
    if (spawn_count(&result, "mimalloc:") != 0) {
      // Builds with checks print by default.
      assert_non_null(strstr(result.output, "mimalloc: error:"));
    }
  }
}

// If this fails, the limits on messages do not work.
static void messages_are_limited(void** state) {
  (void)state;
  test_skip_if_tracked();
  const struct misuse_s* const many = &misuses[4];
  run_misuse(many, "MIMALLOC_SHOW_ERRORS=1", "MIMALLOC_MAX_ERRORS=0");
  assert_int_equal(spawn_count(&result, "invalid pointer: 0x"), 0);
  run_misuse(many, "MIMALLOC_VERBOSE=1", "MIMALLOC_MAX_ERRORS=0");
  assert_int_equal(spawn_count(&result, "invalid pointer: 0x"), 100);
}

static jmp_buf jump_target;

static void jump_away(int code, void* arg) {
  (void)code, (void)arg;
  longjmp(jump_target, 1);
}

static int free_wild_twice_and_jump(void) {
  mi_register_error(&jump_away, NULL);
  if (setjmp(jump_target) == 0) return free_wild();
  printf("jumped\n");
  fflush(stdout);
  return free_wild();
}

static void jump_from_output(const char* text, void* arg) {
  (void)text, (void)arg;
  longjmp(jump_target, 1);
}

static int jump_from_output_and_free_wild(void) {
  mi_register_output(&jump_from_output, NULL);
  if (setjmp(jump_target) == 0) return free_wild();
  return realloc_inside(); // a mistake of another kind
}

// If this fails, a mistake is told nobody after the function for output left by longjmp.
static void misuse_behind_a_jump_from_output_is_told(void** state) {
  (void)state;
  const char* const environment[] = {"MIMALLOC_SHOW_ERRORS=1", "MIMALLOC_ABORT_ON_MISUSE=0", NULL};
  test_start_self("jump_from_output", environment, &result);
  assert_int_equal(spawn_count(&result, "survived"), 1);
  assert_int_equal(spawn_count(&result, "in realloc"), 1);
}

// If this fails, an attacker who makes the error function end early is not stopped any more.
static void misuse_behind_a_jump_ends_the_process(void** state) {
  (void)state;
  const char* const environment[] = {"MIMALLOC_ABORT_ON_MISUSE=2", NULL};
  test_start_self("jump", environment, &result);
  assert_int_equal(spawn_count(&result, "jumped"), 1);
  assert_int_equal(result.signal, SIGABRT);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "jump") == 0) return free_wild_twice_and_jump();
  if (argc > 1 && strcmp(argv[1], "jump_from_output") == 0) return jump_from_output_and_free_wild();
  for (size_t i = 0; argc > 1 && i < MISUSE_COUNT; i++) {
    if (strcmp(argv[1], misuses[i].name) == 0) return misuses[i].run();
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(misuse_is_named_with_its_address),
      cmocka_unit_test(misuse_is_counted_after_the_first),
      cmocka_unit_test(misuse_is_silent_by_default),
      cmocka_unit_test(messages_are_limited),
      cmocka_unit_test(misuse_behind_a_jump_ends_the_process),
      cmocka_unit_test(misuse_behind_a_jump_from_output_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
