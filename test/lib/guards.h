// SPDX-License-Identifier: MIT
// guards.h - what the tests of guarded blocks share: guards are switched on and off, and counted.
#ifndef TEST_GUARDS_H
#define TEST_GUARDS_H

#include <mimalloc-stats.h>

#include "test_api.h"

static inline void guard(long rate) { mi_option_set(mi_option_guarded_sample_rate, rate); }

// Blocks that ever got guards.
static inline size_t guarded_count(void) {
  mi_stats_t_decl(stats);
  assert_true(mi_stats_get(&stats));
  return (size_t)stats.malloc_guarded_count.total;
}

// For the end of each test.
static inline int reset(void** state) {
  (void)state;
  guard(0);
  mi_option_set(mi_option_guarded_precise, 0);
  mi_option_set(mi_option_guarded_min, 0);
  mi_option_set(mi_option_guarded_max, (long)TEST_GIB);
  return 0;
}

// Whether guards can be had at all; a build for a tool has none.
static inline void need_guards(void) {
  mi_theap_t* const theap = mi_theap_get_default();
  mi_theap_guarded_set_sample_rate(theap, 1, 0);
  const size_t before = guarded_count();
  mi_free(mi_malloc(100));
  const bool is_guarded = guarded_count() > before;
  mi_theap_guarded_set_sample_rate(theap, 0, 0);
  if (!is_guarded) test_skip("no block can have guards here");
}

#endif
