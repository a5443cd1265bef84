// SPDX-License-Identifier: MIT
// slices.h - for unit tests of the arenas: runs of slices, claimed and released as pages and large
// blocks do it.
#ifndef MI_TEST_SLICES_H
#define MI_TEST_SLICES_H

#include "unit.h"

#include "core/arenas/run.h"
#include "core/arenas/slices.h"

static inline mi_run_t claim(size_t count) {
  mi_run_t run = {0};
  check(mi_slices_claim(UNIT_HEAP, count, MI_SLICE_SIZE, 0, &run));
  return run;
}

// Touched all over.
static inline mi_run_t claim_dirty(size_t count) {
  mi_run_t run = claim(count);
  memset(run.start, 1, count * MI_SLICE_SIZE);
  mi_charge_add(run.arena, run.start, count * MI_SLICE_SIZE);
  return run;
}

static inline void release(const mi_run_t* run) {
  mi_slices_release(run->arena, run->slice_index, run->slice_count, MI_SLICE_SIZE);
}

static inline size_t resident(const mi_run_t* run) {
  return os_fake_resident(run->start, run->slice_count * MI_SLICE_SIZE);
}

#endif
