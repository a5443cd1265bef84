// SPDX-License-Identifier: MIT
// damage.c - the library with descriptors, heaps and ends of slots that were overwritten, and with
// memory that cannot be touched, in many random ways: whatever is asked or reported then, nothing
// crashes, hangs, or is too long for its buffer, and JSON stays JSON. test/test_reports.py builds
// it for each flavour, and reads what it prints.
//
//   damage ROUNDS SEED    prints some of the reports, and at the end how many were of each kind
#include "static.c"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../lib/random.h"

#define BLOCKS 64
#define SHOWN_EACH 997 // of so many texts one is printed

static struct {
  uint8_t* p;
  size_t size;
} blocks[BLOCKS];
static uint64_t seed;
static size_t texts, longest, kinds[4];
static char buffer[2 * MI_EXPLAIN_MAX];

static void fail(const char* what, const void* p) {
  fprintf(stderr, "damage: %s at %p\n", what, p);
  exit(3);
}

static void show(const char* text) {
  if (texts++ % SHOWN_EACH == 0) printf("%s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
  if (strlen(text) > longest) longest = strlen(text);
}

static void on_output(const char* text, void* arg) {
  (void)arg;
  const size_t length = strlen(text);
  if (length == 0 || text[length - 1] != '\n') fail("a report that was cut", text);
  show(text);
}

// All that can be asked about an address, and reported.
static void ask(const uint8_t* p) {
  mi_about_t about;
  mi_describe_address(p, &about);
  kinds[about.kind]++;
  if (mi_describe(p, buffer, sizeof(buffer)) != strlen(buffer)) fail("a length", p);
  if (mi_describe_json(p, buffer, sizeof(buffer)) != strlen(buffer)) fail("a length of JSON", p);
  show(buffer);
}

static void report(mi_page_t* page, const uint8_t* p) {
  for (int is_json = 0; is_json < 2; is_json++) {
    mi_option_set_enabled(mi_option_report_json, is_json != 0);
    const mi_error_kind_t kind = (mi_error_kind_t)random_below(&seed, MI_ERROR_TOO_LARGE);
    if (kind < MI_ERROR_CORRUPT_LIST) {
      mi_report(kind, "free", p, random_next(&seed));
    } else if (kind < MI_ERROR_OVERFLOW) {
      mi_report_block(kind, page, p, (void*)(uintptr_t)random_next(&seed));
    } else {
#if MI_IS_PADDED || MI_HAS_CANARY
      mi_report_write(kind, "free", p, random_size(&seed, 63), p + 20, random_below(&seed, 100));
#endif
    }
  }
  mi_option_disable(mi_option_report_json);
}

static uint64_t wild(const void* near) {
  const size_t i = random_below(&seed, BLOCKS);
  const uint64_t values[] = {
      0,
      1,
      UINT64_MAX,
      random_next(&seed),
      random_size(&seed, 47),
      (uintptr_t)near + random_below(&seed, 4096) - 2048,
      (uintptr_t)blocks[i].p,
      (uintptr_t)blocks[i].p & ~(uint64_t)(MI_SLICE_SIZE - 1),
      (uintptr_t)mi_pagemap_slice(blocks[i].p),
      random_below(&seed, 100) << 16,
  };
  return values[random_below(&seed, sizeof(values) / sizeof(values[0]))];
}

static void scribble(void* at, size_t size) {
  for (size_t n = 1 + random_below(&seed, 4); n > 0; n--) {
    const size_t length = (size_t)1 << random_below(&seed, 4);
    const uint64_t value = wild(at);
    memcpy((uint8_t*)at + random_below(&seed, size / length) * length, &value, length);
  }
}

// A descriptor that agrees with itself, and lies: of another class, or of one large block.
static void forge(mi_page_t* page) {
  page->size_class = (uint8_t)random_below(&seed, MI_CLASS_COUNT + 1);
  page->place = (uint8_t)random_below(&seed, 4);
  page->refilled.used = (uint32_t)random_below(&seed, 70000);
  if (page->size_class < MI_CLASS_COUNT) {
    page->block_size = mi_class_size(page->size_class);
    page->slice_count = (uint32_t)mi_class_slices(page->size_class);
    page->reserved = (uint32_t)(page->slice_count * MI_SLICE_SIZE / page->block_size);
    if (page->refilled.used > page->reserved + 1) page->refilled.used = page->reserved + 1;
  } else {
    page->slice_count = (uint32_t)random_below(&seed, 100000) + 1;
    page->block_size = random_below(&seed, page->slice_count * MI_SLICE_SIZE) + 1;
    page->shift = random_below(&seed, 2) * random_below(&seed, page->block_size);
  }
}

static void damage_a_descriptor(void) {
  const size_t i = random_below(&seed, BLOCKS);
  uint8_t* const p = blocks[i].p + random_below(&seed, blocks[i].size);
  mi_page_t* const page = mi_pagemap_find(p);
  if (page == NULL) return; // far inside a large block
  mi_page_t* const victim = random_below(&seed, 3) == 0 ? mi_pagemap_slice(p) : page;
  const mi_page_t saved = *victim;
  if (random_below(&seed, 3) == 0) forge(victim);
  if (random_below(&seed, 2) == 0) scribble(victim, sizeof(*victim));
  ask(p);
  ask(p + random_below(&seed, 1 << 20));
  if (blocks[i].size > 40) report(victim, blocks[i].p);
  *victim = saved;
}

static void damage_a_heap(mi_heap_t* heap, const uint8_t* p) {
  static mi_heap_t saved;
  memcpy(&saved, heap, sizeof(saved));
  scribble(&heap->subproc, 64);
  ask(p);
  memcpy(heap, &saved, sizeof(saved));
}

// The ends of slots, where notes and canaries are.
static void damage_a_slot(void) {
  const size_t i = random_below(&seed, BLOCKS);
  const mi_page_t* const page = mi_pagemap_find(blocks[i].p);
  if (page == NULL || page->block_size > 64 * MI_KIB) return;
  uint8_t* const end =
      mi_page_is_single(page)
          ? page->start + page->block_size
          : page->start + (mi_page_index_of(page, blocks[i].p) + 1) * page->block_size;
  uint8_t saved[32];
  uint8_t* const from = end - mi_bits_min(page->block_size, sizeof(saved));
  memcpy(saved, from, (size_t)(end - from));
  scribble(from, (size_t)(end - from));
  ask(blocks[i].p);
  memcpy(from, saved, (size_t)(end - from));
}

// Nothing but descriptors and marks may be needed.
static void close_a_page(void) {
  const size_t i = random_below(&seed, BLOCKS);
  const mi_page_t* const page = mi_pagemap_find(blocks[i].p);
  if (page == NULL) return;
  const size_t size = page->slice_count * MI_SLICE_SIZE;
  if (mprotect(page->start, size, PROT_NONE) != 0) fail("mprotect", page->start);
  ask(blocks[i].p);
  ask(page->start + random_below(&seed, size));
  if (mprotect(page->start, size, PROT_READ | PROT_WRITE) != 0) fail("mprotect", page->start);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const size_t rounds = strtoul(arguments[1], NULL, 10);
  seed = strtoul(arguments[2], NULL, 10);
  alarm(200); // a hang is a failure
  mi_option_set(mi_option_show_errors, 1);
  mi_option_set(mi_option_verbose, 0);
  mi_option_set(mi_option_max_errors, -1);
  mi_option_set(mi_option_abort_on_misuse, 0);
  mi_register_output(&on_output, NULL);
  mi_option_set(mi_option_verbose, 1);
  mi_heap_t* const heap = mi_heap_new();
  for (size_t i = 0; i < BLOCKS; i++) {
    blocks[i].size = 1 + random_size(&seed, i % 8 == 0 ? 23 : 17);
    blocks[i].p =
        (uint8_t*)(i % 3 == 0 ? mi_heap_malloc(heap, blocks[i].size) : mi_malloc(blocks[i].size));
    if (i % 5 == 4) mi_free(mi_malloc(blocks[i].size));
  }
  for (size_t round = 0; round < rounds; round++) {
    switch (random_below(&seed, 16)) {
      case 0:
        close_a_page();
        break;
      case 1:
        damage_a_slot();
        break;
      case 2:
        damage_a_heap(heap, blocks[3 * random_below(&seed, BLOCKS / 3)].p);
        break;
      default:
        damage_a_descriptor();
        break;
    }
  }
  printf("texts %zu longest %zu of %zu\n", texts, longest, (size_t)MI_EXPLAIN_MAX);
  printf("foreign %zu past %zu page %zu damaged %zu\n", kinds[0], kinds[1], kinds[2], kinds[3]);
  mi_option_set(mi_option_verbose, 0);
  for (size_t i = 0; i < BLOCKS; i++) mi_free(blocks[i].p);
  mi_heap_delete(heap);
  return 0;
}
