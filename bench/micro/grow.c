// SPDX-License-Identifier: MIT
// grow.c - buffers that grow by realloc: one to gigabytes, or many small ones in turns, or ones
// that are cut to their length at the end.
//
// Published: nowhere; every string builder, dynamic array and input buffer does it.
// Asks of an allocator: to grow in place where it can, and to move a large block by changing the
// page table, not by copying; for small buffers, size classes that make few of the reallocs move.
// One buffer: from 1 KiB by factors of about 1.1; only what is new is touched, once per page. An
// allocator that copies holds both blocks meanwhile, so up to twice 4 GiB.
//
//   --many  10000 buffers from 16 bytes to at most 8 KiB instead, by factors of 1.5, each appended
//           to in turns; a finished one is verified, freed and begun again
//   --cut   buffers of 20 to 5000 bytes that double while they fill, and give back what they do not
//           need in the end (into_boxed_slice of Rust); then random ones are replaced. Asks that a
//           block which shrinks gives memory back
#include "bench.h"

#define GROW_PAGE ((size_t)4096)

// What every byte at offset `at` is, if it is written at all.
static unsigned char grow_byte(size_t at) {
  return (unsigned char)((at * UINT64_C(0x9E3779B97F4A7C15)) >> 56);
}

static uint64_t grow_verify(const volatile unsigned char* p, size_t size, size_t step) {
  uint64_t sum = 0;
  for (size_t at = 0; at < size; at += step) {
    if (p[at] != grow_byte(at)) bench_fail("the contents of a block have changed");
    sum += p[at];
  }
  return sum;
}

// After each step up to 1024 pages and the byte that was the last are verified, in the end all
// pages.
static uint64_t grow_one(size_t limit, uint64_t* check) {
  uint64_t ops = 1;
  size_t size = 1024;
  size_t touched = 0; // offset of the first page mark that is not written yet
  unsigned char* p = (unsigned char*)bench_malloc(size);
  for (;;) {
    for (; touched < size; touched += GROW_PAGE) p[touched] = grow_byte(touched);
    p[size - 1] = grow_byte(size - 1);
    if (size == limit) break;

    const size_t wanted = size + size / 10;
    const size_t larger = wanted < limit ? wanted : limit;
    unsigned char* const moved = (unsigned char*)realloc(p, larger);
    if (moved == NULL) bench_fail("realloc returned NULL");
    p = moved;
    ops++;
    if (p[size - 1] != grow_byte(size - 1)) bench_fail("the contents of a block have changed");
    *check += grow_verify(p, size, (size / GROW_PAGE / 1024 + 1) * GROW_PAGE);
    size = larger;
  }
  *check += grow_verify(p, size, GROW_PAGE);
  free(p);
  return ops;
}

typedef struct grow_buffer_s {
  unsigned char* start;
  uint16_t capacity; // bytes of the block; 0: no block
  uint16_t used; // bytes written
  uint16_t limit; // finished when so many are written
} grow_buffer_t;

// Append `count` bytes; 1 if malloc or realloc was called.
static uint64_t grow_append(grow_buffer_t* buffer, size_t count) {
  const size_t end = buffer->used + count;
  uint64_t ops = 0;
  if (end > buffer->capacity) {
    size_t capacity = buffer->capacity == 0 ? 16 : buffer->capacity;
    while (capacity < end) capacity += capacity / 2;
    unsigned char* const moved = (unsigned char*)realloc(buffer->start, capacity);
    if (moved == NULL) bench_fail("realloc returned NULL");
    buffer->start = moved;
    buffer->capacity = (uint16_t)capacity;
    ops = 1;
  }
  for (size_t at = buffer->used; at < end; at++) buffer->start[at] = grow_byte(at);
  buffer->used = (uint16_t)end;
  return ops;
}

// Fill an empty buffer up to a random length, and cut it to that. Returns the calls.
static uint64_t grow_fill(grow_buffer_t* buffer, bench_random_t* random) {
  const size_t bits = bench_between(random, 4, 11);
  const size_t length = 20 + bench_between(random, (size_t)1 << bits, ((size_t)2 << bits) - 1);
  size_t capacity = 16;
  uint64_t ops = 2;
  buffer->start = (unsigned char*)bench_malloc(capacity);
  for (; capacity < length; capacity *= 2, ops++) {
    for (size_t at = capacity / 2; at < capacity; at++) buffer->start[at] = grow_byte(at);
    unsigned char* const moved = (unsigned char*)realloc(buffer->start, 2 * capacity);
    if (moved == NULL) bench_fail("realloc returned NULL");
    buffer->start = moved;
  }
  for (size_t at = 0; at < length; at++) buffer->start[at] = grow_byte(at);
  unsigned char* const cut = (unsigned char*)realloc(buffer->start, length);
  if (cut == NULL) bench_fail("realloc returned NULL");
  buffer->start = cut;
  buffer->used = (uint16_t)length;
  return ops;
}

static uint64_t grow_finish(grow_buffer_t* buffer) {
  const uint64_t sum = grow_verify(buffer->start, buffer->used, 1);
  free(buffer->start);
  *buffer = (grow_buffer_t){0};
  return sum;
}

static uint64_t grow_many(size_t count, size_t turns, uint64_t* check) {
  bench_random_t random = {1};
  uint64_t ops = 1;
  grow_buffer_t* const buffers = (grow_buffer_t*)calloc(count, sizeof(grow_buffer_t));
  if (buffers == NULL) bench_fail("calloc returned NULL");
  for (size_t turn = 0; turn < turns; turn++) {
    for (size_t i = 0; i < count; i++) {
      grow_buffer_t* const buffer = &buffers[i];
      if (buffer->limit == 0) buffer->limit = (uint16_t)bench_between(&random, 512, 8192 - 128);
      ops += grow_append(buffer, bench_between(&random, 1, 127));
      if (buffer->used >= buffer->limit) *check += grow_finish(buffer);
    }
  }
  for (size_t i = 0; i < count; i++) *check += grow_finish(&buffers[i]);
  free(buffers);
  return ops;
}

static uint64_t grow_cut(size_t count, size_t replaced, uint64_t* check) {
  bench_random_t random = {1};
  uint64_t ops = 1;
  grow_buffer_t* const buffers = (grow_buffer_t*)calloc(count, sizeof(grow_buffer_t));
  if (buffers == NULL) bench_fail("calloc returned NULL");
  for (size_t i = 0; i < count; i++) ops += grow_fill(&buffers[i], &random);
  for (size_t k = 0; k < replaced; k++) {
    grow_buffer_t* const buffer = &buffers[bench_between(&random, 0, count - 1)];
    *check += grow_finish(buffer);
    ops += grow_fill(buffer, &random);
  }
  for (size_t i = 0; i < count; i++) *check += grow_finish(&buffers[i]);
  free(buffers);
  return ops;
}

static bool grow_is(const bench_args_t* args, int argc, char** argv, const char* option) {
  return args->rest + 1 == argc && strcmp(argv[args->rest], option) == 0;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const bool is_many = grow_is(&args, argc, argv, "--many");
  const bool is_cut = grow_is(&args, argc, argv, "--cut");
  if (args.rest != argc && !is_many && !is_cut) bench_fail("known options: --many, --cut");
  const size_t mib = (size_t)1 << 20;
  uint64_t check = 0;
  uint64_t ops;
  if (is_many) {
    const size_t count = bench_pick(args, 200, 10000, 10000);
    ops = grow_many(count, bench_pick(args, 200, 100, 450), &check);
  } else if (is_cut) {
    const size_t count = bench_pick(args, 2000, 40000, 100000);
    ops = grow_cut(count, bench_pick(args, 2000, 80000, 1000000), &check);
  } else {
    const size_t limit = bench_pick(args, 8 * mib, 256 * mib, 4096 * mib);
    ops = grow_one(limit, &check);
    printf("live_kib %zu\n", limit / 1024);
  }
  bench_report(check, ops);
  return 0;
}
