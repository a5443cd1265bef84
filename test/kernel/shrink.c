// SPDX-License-Identifier: MIT
// shrink.c - resident memory of a program whose heap shrinks, where OS pages have 64 KiB: what is
// free goes back, OS page by OS page.
#include "machine.h"

#include <mimalloc.h>

#define BLOCKS ((size_t)(64 * MIB / 4096))
#define SLACK (3 * MIB) // what a program has besides

static void* block[BLOCKS];

// Bytes that are resident after `keeps` of the blocks were freed, and all waiting memory went back.
static size_t after(bool (*keeps)(size_t i)) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (block[i] == NULL || keeps(i)) continue;
    free(block[i]);
    block[i] = NULL;
  }
  mi_collect(true);
  return resident_bytes();
}

static bool keeps_half(size_t i) { return i < BLOCKS / 2; }
static bool keeps_few(size_t i) { return i % 256 == 0; } // one in a MiB
static bool keeps_none(size_t i) { return i > BLOCKS; }

static void fill_all(void) {
  for (size_t i = 0; i < BLOCKS; i++) {
    if (block[i] != NULL) continue;
    block[i] = malloc(4096 - 16);
    CHECK(block[i] != NULL);
    memset(block[i], 0x5A, 4096 - 16);
  }
}

int main(void) {
  CHECK(getpagesize() == 64 * 1024);
  const size_t before = resident_bytes();
  for (size_t round = 0; round < 2; round++) {
    fill_all();
    const size_t full = resident_bytes() - before;
    const size_t half = after(keeps_half) - before;
    fill_all();
    const size_t few = after(keeps_few) - before;
    const size_t none = after(keeps_none) - before;
    printf("FIGURE OS pages of 64 KiB, 64 MiB of blocks: %zu KiB resident; half freed %zu, all but "
           "one in 256 freed %zu, all freed %zu\n",
           full / KIB, half / KIB, few / KIB, none / KIB);
    CHECK(full >= 60 * MIB && full <= 64 * MIB + SLACK);
    CHECK(half <= 32 * MIB + SLACK);
    CHECK(few <= BLOCKS / 256 * (64 * KIB) + SLACK);
    CHECK(none <= SLACK);
  }
  uint8_t* const large = (uint8_t*)malloc(32 * MIB);
  CHECK(large != NULL);
  memset(large, 1, 32 * MIB);
  CHECK(resident_bytes() >= before + 30 * MIB);
  free(large);
  mi_collect(true);
  CHECK_SAY(resident_bytes() <= before + SLACK, "%zu, before %zu", resident_bytes(), before);
  return 0;
}
