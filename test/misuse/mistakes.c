// SPDX-License-Identifier: MIT
// mistakes.c - one mistake with memory, named by the argument, in a program that is otherwise
// right, and then a look at what became of it. It uses malloc and free only, so that it runs with
// any allocator in front. scripts/misuse.py runs it and reads what it writes:
//
//   begin        the mistake is made now
//   end          it was made, and the program still runs
//   harm WORDS   what the program finds later: a block in use has changed, or was handed out twice
//   fine         nothing like that: the mistake was harmless
//   lost         the mistake itself is the harm, as when a secret was read
//
// Without an argument it lists the mistakes; the first word of a name is the kind.
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1024)
#define MIB (KIB * KIB)
// Sizes that are blocks as they are, here and elsewhere.
#define SMALL ((size_t)48)
#define MEDIUM ((size_t)5120)
#define LARGE (192 * KIB)
#define HUGE_SIZE (3 * MIB)
#define PAGE ((size_t)4096)

typedef unsigned char byte_t;

static volatile size_t one = 1; // what the compiler does not know
static char forged_room[256] __attribute__((aligned(64))); // a place for a block that is none

static void say(const char* word) {
  char line[80];
  const int length = snprintf(line, sizeof(line), "%s\n", word);
  if (write(1, line, (size_t)length) < 0) _exit(3);
}

static void* hide(const void* p) {
  void* volatile hidden = (void*)(uintptr_t)p;
  return hidden;
}

static void drop(const void* p) { free(hide(p)); }

// The address without its highest byte, where memory may have a tag: the highest tag is not the
// highest place.
static uintptr_t place_of(const void* p) {
  const uintptr_t address = (uintptr_t)p;
  return sizeof(address) > 4 ? address & (UINTPTR_MAX >> 8) : address;
}

// -- What is in use besides --

#define LIVE 200
static byte_t* live[LIVE];
static size_t live_size;

static byte_t filler(size_t i) { return (byte_t)(i % 199 + 1); }

static byte_t* make(size_t i, size_t size) {
  byte_t* const p = (byte_t*)malloc(size * one);
  if (p == NULL) _exit(3);
  memset(p, filler(i), size < PAGE ? size : PAGE);
  memset(p + size - (size < PAGE ? size : PAGE), filler(i), size < PAGE ? size : PAGE);
  return p;
}

static size_t live_count(void) { return live_size > 100 * KIB ? 12 : LIVE; }

// Blocks of the size of the mistake, before and behind the one that it is made with.
static void prepare(size_t size) {
  live_size = size;
  for (size_t i = 0; i < live_count(); i++) live[i] = make(i, size);
}

static int is_whole(const byte_t* p, size_t i, size_t size) {
  const size_t part = size < PAGE ? size : PAGE;
  for (size_t k = 0; k < part; k++) {
    if (p[k] != filler(i) || p[size - 1 - k] != filler(i)) return 0;
  }
  return 1;
}

static void check_live(void) {
  for (size_t i = 0; i < live_count(); i++) {
    if (live[i] != NULL && !is_whole(live[i], i, live_size)) {
      say("harm a block in use has changed");
      _exit(0);
    }
  }
}

// Allocate and free a lot, and look if everything is as it should be.
static void look(void) {
  static byte_t* more[3 * LIVE];
  static size_t more_size[3 * LIVE];
  const size_t count = live_size > 100 * KIB ? 20 : 3 * LIVE;
  check_live();
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < count; i++) {
      more_size[i] = i % 3 != 2 ? live_size : 16 + i * 7 % 300;
      more[i] = make(i, more_size[i]);
      const uintptr_t at = (uintptr_t)more[i];
      if (at - (uintptr_t)forged_room < sizeof(forged_room)) {
        say("harm malloc returns memory that is not of the heap");
        _exit(0);
      }
    }
    check_live();
    for (size_t i = 0; i < count; i++) {
      if (!is_whole(more[i], i, more_size[i])) {
        say("harm a block was handed out twice");
        _exit(0);
      }
    }
    for (size_t i = 0; i < count; i++) free(more[i]);
    malloc_trim(0);
  }
  for (size_t i = 0; i < live_count(); i += 2) {
    free(live[i]);
    live[i] = NULL;
  }
  check_live();
}

// Return one of the blocks in use: the mistake is made with it.
static byte_t* take(void) {
  const size_t i = live_count() / 2;
  byte_t* const p = live[i];
  live[i] = NULL;
  return p;
}

// -- Writes outside --

static void spill(byte_t* p, ptrdiff_t from, size_t count) {
  say("begin");
  for (size_t i = 0; i < count; i++) ((volatile byte_t*)p)[from + (ptrdiff_t)i] = 'x';
  say("end");
}

// Writes behind a block in use, which is freed afterwards.
static void overflow(size_t size, size_t skip, size_t count) {
  prepare(size);
  byte_t* const p = take();
  spill(p, (ptrdiff_t)(size + skip), count);
  drop(p);
}

static void underflow(size_t size, size_t distance, size_t count) {
  prepare(size);
  byte_t* const p = take();
  spill(p, -(ptrdiff_t)distance, count);
  drop(p);
}

static void overflow_slack(void) {
  prepare(SMALL);
  byte_t* const p = (byte_t*)malloc(41 * one);
  spill(p, 41, 1);
  drop(p);
}

static void overflow_string(void) {
  prepare(SMALL);
  char* const p = (char*)malloc(SMALL * one);
  say("begin");
  strcpy((char*)hide(p), "forty-eight letters are too many for this block.");
  say("end");
  drop(p);
}

static void overflow_small_1(void) { overflow(SMALL, 0, 1); }
static void overflow_small_8(void) { overflow(SMALL, 0, 8); }
static void overflow_small_16(void) { overflow(SMALL, 0, 16); }
static void overflow_small_100(void) { overflow(SMALL, 0, 100); }
static void overflow_small_page(void) { overflow(SMALL, 0, PAGE); }
static void overflow_small_strided(void) { overflow(SMALL, 64, 8); }
static void overflow_small_far(void) { overflow(SMALL, 256 * KIB, 8); }
static void overflow_medium_1(void) { overflow(MEDIUM, 0, 1); }
static void overflow_medium_16(void) { overflow(MEDIUM, 0, 16); }
static void overflow_medium_page(void) { overflow(MEDIUM, 0, PAGE); }
static void overflow_large_1(void) { overflow(LARGE, 0, 1); }
static void overflow_large_page(void) { overflow(LARGE, 0, PAGE); }
static void overflow_large_strided(void) { overflow(LARGE, LARGE / 2, 8); }
static void overflow_huge_1(void) { overflow(HUGE_SIZE, 0, 1); }
static void overflow_huge_page(void) { overflow(HUGE_SIZE, 0, PAGE); }
static void overflow_huge_64_pages(void) { overflow(HUGE_SIZE, 0, 64 * PAGE); }
static void underflow_small_1(void) { underflow(SMALL, 1, 1); }
static void underflow_small_8(void) { underflow(SMALL, 8, 8); }
static void underflow_small_16(void) { underflow(SMALL, 16, 16); }
static void underflow_medium_8(void) { underflow(MEDIUM, 8, 8); }
static void underflow_large_8(void) { underflow(LARGE, 8, 8); }
static void underflow_huge_8(void) { underflow(HUGE_SIZE, 8, 8); }
static void underflow_huge_page(void) { underflow(HUGE_SIZE, PAGE, PAGE); }

static void overflow_calloc(void) {
  prepare(SMALL);
  byte_t* const p = (byte_t*)calloc(SMALL, one);
  spill(p, SMALL, 8);
  drop(p);
}

static void overflow_aligned(void) {
  prepare(256);
  byte_t* const p = (byte_t*)aligned_alloc(256, 256 * one);
  spill(p, 256, 8);
  drop(p);
}

static void overflow_shrunk(void) {
  prepare(SMALL);
  byte_t* const p = (byte_t*)realloc(take(), 33 * one);
  spill(p, 33, 30);
  drop(p);
}

// The neighbour that is written to is free.
static void overflow_into_free(void) {
  prepare(SMALL);
  byte_t* const p = live[LIVE / 2];
  for (size_t i = 0; i < LIVE; i++) {
    if (live[i] != p) drop(live[i]);
    live[i] = NULL;
  }
  spill(p, SMALL, 3 * SMALL);
}

// -- Uses of freed blocks --

// Writes into a block after it was freed, and some others.
static void late(size_t size, size_t from, size_t count, size_t others) {
  prepare(size);
  byte_t* const p = take();
  drop(p);
  for (size_t i = 0; i < others; i++) {
    drop(live[i]);
    live[i] = NULL;
  }
  spill((byte_t*)hide(p), (ptrdiff_t)from, count);
}

static void* drop_there(void* p) {
  drop(p);
  return NULL;
}

static void in_thread(void* (*function)(void*), void* arg) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, function, arg) != 0) _exit(3);
  pthread_join(thread, NULL);
}

static void late_small_first(void) { late(SMALL, 0, 8, 0); }
static void late_small_second(void) { late(SMALL, 8, 8, 0); }
static void late_small_last(void) { late(SMALL, SMALL - 8, 8, 0); }
static void late_small_one_byte(void) { late(SMALL, 1, 1, 0); }
static void late_small_all(void) { late(SMALL, 0, SMALL, 0); }
static void late_small_after_others(void) { late(SMALL, 0, SMALL, 20); }
static void late_medium_first(void) { late(MEDIUM, 0, 16, 0); }
static void late_large_first(void) { late(LARGE, 0, 16, 0); }
static void late_large_middle(void) { late(LARGE, LARGE / 2, 16, 0); }
static void late_huge_first(void) { late(HUGE_SIZE, 0, 16, 0); }

static void late_other_thread(void) {
  prepare(SMALL);
  byte_t* const p = take();
  in_thread(&drop_there, p);
  spill((byte_t*)hide(p), 0, 8);
}

static void late_realloc(void) {
  prepare(SMALL);
  byte_t* const p = take();
  (void)!realloc(p, 100000 * one);
  spill((byte_t*)hide(p), 0, 8);
}

// A secret that is read after the block was freed, or by the next owner.
static void reads(size_t size, size_t at) {
  prepare(size);
  byte_t* const p = take();
  memset(p, 'S', size < PAGE ? size : PAGE);
  drop(p);
  say("begin");
  const byte_t byte = ((volatile byte_t*)hide(p))[at];
  say("end");
  if (byte == 'S') say("lost");
}

static void read_small(void) { reads(SMALL, 24); }
static void read_medium(void) { reads(MEDIUM, 3000); }
static void read_huge(void) { reads(HUGE_SIZE, 100); }

static void read_by_next_owner(void) {
  prepare(SMALL);
  byte_t* const p = take();
  memset(p, 'S', SMALL);
  drop(p);
  say("begin");
  int is_seen = 0;
  for (size_t i = 0; i < 1000; i++) is_seen |= ((volatile byte_t*)malloc(SMALL * one))[24] == 'S';
  say("end");
  if (is_seen) say("lost");
}

// The block has a new owner when it is written to, or freed again.
static byte_t* reused(void) {
  prepare(SMALL);
  const size_t i = LIVE / 2;
  byte_t* const p = live[i];
  drop(p);
  live[i] = make(i, SMALL);
  for (size_t k = 0; k < LIVE && live[i] != p; k++) {
    if (k == i) continue;
    drop(live[k]);
    live[k] = make(k, SMALL);
    if (live[k] == p) return p;
  }
  return p;
}

static void late_reused(void) {
  byte_t* const p = reused();
  spill((byte_t*)hide(p), 0, 8);
}

// -- Frees that are wrong --

static void again(const void* p) {
  say("begin");
  drop(p);
  say("end");
}

static void double_free(size_t size, size_t others) {
  prepare(size);
  byte_t* const p = take();
  drop(p);
  for (size_t i = 0; i < others; i++) {
    drop(live[i]);
    live[i] = NULL;
  }
  again(p);
}

static void double_small(void) { double_free(SMALL, 0); }
static void double_small_after_one(void) { double_free(SMALL, 1); }
static void double_small_after_50(void) { double_free(SMALL, 50); }
static void double_medium(void) { double_free(MEDIUM, 0); }
static void double_medium_after_one(void) { double_free(MEDIUM, 1); }
static void double_large(void) { double_free(LARGE, 0); }
static void double_large_after_one(void) { double_free(LARGE, 1); }
static void double_huge(void) { double_free(HUGE_SIZE, 0); }
static void double_huge_after_one(void) { double_free(HUGE_SIZE, 1); }

static void double_after_thread(void) {
  prepare(SMALL);
  byte_t* const p = take();
  in_thread(&drop_there, p);
  again(p);
}

static void* again_there(void* p) {
  again(p);
  return NULL;
}

static void double_in_thread(void) {
  prepare(SMALL);
  byte_t* const p = take();
  drop(p);
  in_thread(&again_there, p);
}

static void* drop_two_twice(void* arg) {
  byte_t** const p = (byte_t**)arg;
  drop(p[0]);
  drop(p[1]);
  again(p[0]);
  return NULL;
}

static void double_of_thread(void) {
  prepare(SMALL);
  byte_t* p[2] = {live[10], live[11]};
  live[10] = live[11] = NULL;
  in_thread(&drop_two_twice, p);
}

static void double_in_child(void) {
  prepare(SMALL);
  byte_t* const p = take();
  drop(p);
  const pid_t child = fork();
  if (child == 0) {
    again(p);
    look();
    say("fine");
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

static void double_aligned(void) {
  prepare(SMALL);
  byte_t* const p = (byte_t*)aligned_alloc(256, 512 * one);
  drop(p);
  again(p);
}

static void double_aligned_huge(void) {
  prepare(SMALL);
  byte_t* const p = (byte_t*)aligned_alloc(MIB, MIB * one);
  drop(p);
  again(p);
}

static void double_after_realloc(void) {
  prepare(SMALL);
  byte_t* const p = take();
  (void)!realloc(p, 100000 * one);
  again(p);
}

static void double_after_trim(void) {
  prepare(SMALL);
  byte_t* const p = take();
  drop(p);
  malloc_trim(0);
  again(p);
}

static void double_of_new_owner(void) {
  byte_t* const p = reused();
  again(p);
}

// Two threads free a block at one moment, many times.
static void* volatile contested;
static size_t turn, done; // atomic

static void await(const size_t* counter, size_t value) {
  for (size_t spins = 0; __atomic_load_n(counter, __ATOMIC_ACQUIRE) != value; spins++) {
    if (spins > 10000) sched_yield();
  }
}

static void* contest(void* arg) {
  for (size_t i = 1; i <= 2000; i++) {
    await(&turn, i);
    drop(contested);
    __atomic_store_n(&done, i, __ATOMIC_RELEASE);
  }
  return arg;
}

static void double_at_one_moment(void) {
  prepare(SMALL);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &contest, NULL) != 0) _exit(3);
  say("begin");
  for (size_t i = 1; i <= 2000; i++) {
    contested = malloc(SMALL * one);
    __atomic_store_n(&turn, i, __ATOMIC_RELEASE);
    drop(contested);
    await(&done, i);
  }
  say("end");
  pthread_join(thread, NULL);
}

static void inside(size_t size, size_t at) {
  prepare(size);
  byte_t* const p = take();
  again(p + at);
}

static void invalid_small_1(void) { inside(SMALL, 1); }
static void invalid_small_8(void) { inside(SMALL, 8); }
static void invalid_small_16(void) { inside(SMALL, 16); }
static void invalid_medium_16(void) { inside(MEDIUM, 16); }
static void invalid_medium_2048(void) { inside(MEDIUM, 2048); }
static void invalid_large_page(void) { inside(LARGE, PAGE); }
static void invalid_huge_16(void) { inside(HUGE_SIZE, 16); }
static void invalid_huge_page(void) { inside(HUGE_SIZE, PAGE); }
static void invalid_huge_mib(void) { inside(HUGE_SIZE, MIB); }
static void invalid_before(void) { inside(SMALL, (size_t)0 - 16); }

// An address where no block was ever handed out.
static void invalid_never(void) {
  prepare(SMALL);
  byte_t* highest = live[0];
  for (size_t i = 1; i < LIVE; i++) {
    if (place_of(live[i]) > place_of(highest)) highest = live[i];
  }
  // An odd number of blocks away: with memory tags, a block at an even number of them has the same
  // tag in one of seven runs, and nothing could notice the mistake.
  again(highest + 39 * SMALL);
}

static void invalid_stack(void) {
  prepare(SMALL);
  byte_t local[256] __attribute__((aligned(64)));
  memset(local, 0, sizeof(local));
  again((byte_t*)hide(local) + 64);
}

static void invalid_static(void) {
  prepare(SMALL);
  again(forged_room + 64);
}

// What passes for a block of glibc: a size before it, and behind it.
static void invalid_forged_header(void) {
  prepare(SMALL);
  size_t* const words = (size_t*)hide(forged_room);
  for (size_t i = 0; i + 1 < sizeof(forged_room) / sizeof(size_t); i += 8) words[i + 1] = 0x41;
  again(words + 2);
}

static void invalid_code(void) {
  prepare(SMALL);
  again((const void*)(uintptr_t)&invalid_static);
}

static void invalid_mapping(void) {
  prepare(SMALL);
  byte_t* const p =
      (byte_t*)mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  again(p + PAGE);
}

static void invalid_number(void) {
  prepare(SMALL);
  again((void*)(16 * one));
}

static void invalid_not_canonical(void) {
  prepare(SMALL);
  again((void*)(0x4141414141414140 * one));
}

static void invalid_high_bit(void) {
  prepare(SMALL);
  again((void*)((uintptr_t)take() ^ ((uintptr_t)1 << 46)));
}

// -- Other calls --

static void resize(const void* p) {
  say("begin");
  void* const q = realloc(hide(p), 100 * one);
  say("end");
  if (q != NULL) memset(q, 'q', 100);
}

static void realloc_freed_small(void) {
  prepare(SMALL);
  byte_t* const p = take();
  drop(p);
  resize(p);
}

static void realloc_freed_medium(void) {
  prepare(MEDIUM);
  byte_t* const p = take();
  drop(p);
  resize(p);
}

static void realloc_freed_huge(void) {
  prepare(HUGE_SIZE);
  byte_t* const p = take();
  drop(p);
  resize(p);
}

static void realloc_inside(void) {
  prepare(SMALL);
  resize(take() + 16);
}

static void realloc_stack(void) {
  prepare(SMALL);
  byte_t local[256] __attribute__((aligned(64)));
  memset(local, 0, sizeof(local));
  resize(local + 64);
}

static void size_of_freed(void) {
  prepare(SMALL);
  byte_t* const p = take();
  drop(p);
  say("begin");
  const size_t size = malloc_usable_size(hide(p));
  say("end");
  if (size != 0) say("lost"); // the program goes on as if it had the block
}

// C++'s sized delete.
extern void _ZdlPvm(void* p, size_t size) __attribute__((weak));
extern void* _Znwm(size_t size) __attribute__((weak));

static void delete_as(size_t size, size_t claimed) {
  prepare(SMALL);
  if (_ZdlPvm == NULL || _Znwm == NULL) _exit(4);
  void* const p = _Znwm(size * one);
  say("begin");
  _ZdlPvm(hide(p), claimed * one);
  say("end");
}

static void delete_too_large(void) { delete_as(SMALL, MEDIUM); }
static void delete_too_small(void) { delete_as(MEDIUM, SMALL); }

// -- Links of free blocks --

// Frees some blocks, and writes `value` where each of them may have a link.
static void forge(uintptr_t value) {
  prepare(SMALL);
  byte_t* freed[8];
  for (size_t i = 0; i < 8; i++) {
    freed[i] = live[i * 3];
    live[i * 3] = NULL;
    drop(freed[i]);
  }
  if (value == 1) value = (uintptr_t)live[LIVE / 2];
  if (value == 2) value = (uintptr_t)live[LIVE / 2] + 16;
  say("begin");
  for (size_t i = 0; i < 8; i++) {
    const uintptr_t word = value == 3 ? (uintptr_t)freed[i] : value;
    ((volatile uintptr_t*)hide(freed[i]))[0] = word;
    ((volatile uintptr_t*)hide(freed[i]))[1] = word;
  }
  say("end");
}

static void forged_live(void) { forge(1); }
static void forged_inside(void) { forge(2); }
static void forged_itself(void) { forge(3); }
static void forged_null(void) { forge(0); }
static void forged_static(void) { forge((uintptr_t)forged_room + 64); }
static void forged_unmapped(void) { forge((uintptr_t)1 << 45); }
static void forged_text(void) { forge(0x4141414141414141u); }

static const struct {
  const char* name;
  void (*function)(void);
} mistakes[] = {
#define M(name)                                                                                    \
  { #name, &name }
    M(overflow_slack),
    M(overflow_string),
    M(overflow_small_1),
    M(overflow_small_8),
    M(overflow_small_16),
    M(overflow_small_100),
    M(overflow_small_page),
    M(overflow_small_strided),
    M(overflow_small_far),
    M(overflow_medium_1),
    M(overflow_medium_16),
    M(overflow_medium_page),
    M(overflow_large_1),
    M(overflow_large_page),
    M(overflow_large_strided),
    M(overflow_huge_1),
    M(overflow_huge_page),
    M(overflow_huge_64_pages),
    M(overflow_calloc),
    M(overflow_aligned),
    M(overflow_shrunk),
    M(overflow_into_free),
    M(underflow_small_1),
    M(underflow_small_8),
    M(underflow_small_16),
    M(underflow_medium_8),
    M(underflow_large_8),
    M(underflow_huge_8),
    M(underflow_huge_page),
    M(late_small_first),
    M(late_small_second),
    M(late_small_last),
    M(late_small_one_byte),
    M(late_small_all),
    M(late_small_after_others),
    M(late_medium_first),
    M(late_large_first),
    M(late_large_middle),
    M(late_huge_first),
    M(late_other_thread),
    M(late_realloc),
    M(late_reused),
    M(read_small),
    M(read_medium),
    M(read_huge),
    M(read_by_next_owner),
    M(double_small),
    M(double_small_after_one),
    M(double_small_after_50),
    M(double_medium),
    M(double_medium_after_one),
    M(double_large),
    M(double_large_after_one),
    M(double_huge),
    M(double_huge_after_one),
    M(double_after_thread),
    M(double_in_thread),
    M(double_of_thread),
    M(double_in_child),
    M(double_aligned),
    M(double_aligned_huge),
    M(double_after_realloc),
    M(double_after_trim),
    M(double_of_new_owner),
    M(double_at_one_moment),
    M(invalid_small_1),
    M(invalid_small_8),
    M(invalid_small_16),
    M(invalid_medium_16),
    M(invalid_medium_2048),
    M(invalid_large_page),
    M(invalid_huge_16),
    M(invalid_huge_page),
    M(invalid_huge_mib),
    M(invalid_before),
    M(invalid_never),
    M(invalid_stack),
    M(invalid_static),
    M(invalid_forged_header),
    M(invalid_code),
    M(invalid_mapping),
    M(invalid_number),
    M(invalid_not_canonical),
    M(invalid_high_bit),
    M(realloc_freed_small),
    M(realloc_freed_medium),
    M(realloc_freed_huge),
    M(realloc_inside),
    M(realloc_stack),
    M(size_of_freed),
    M(delete_too_large),
    M(delete_too_small),
    M(forged_live),
    M(forged_inside),
    M(forged_itself),
    M(forged_null),
    M(forged_static),
    M(forged_unmapped),
    M(forged_text),
};
#define COUNT (sizeof(mistakes) / sizeof(mistakes[0]))

int main(int argc, char** argv) {
  for (size_t i = 0; i < COUNT; i++) {
    if (argc < 2) {
      printf("%s\n", mistakes[i].name);
    } else if (strcmp(argv[1], mistakes[i].name) == 0) {
      mistakes[i].function();
      look();
      say("fine");
      return 0;
    }
  }
  return argc < 2 ? 0 : 2;
}
