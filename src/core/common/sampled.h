// SPDX-License-Identifier: MIT
// sampled.h - what a heap profile is made of: call sites, and the sampled blocks in use.
#ifndef MI_CORE_SAMPLED_H
#define MI_CORE_SAMPLED_H

#include "hooks.h"
#include "records.h"

#define MI_SITE_FRAMES ((size_t)64)

// The chance of a block to be a sample: SAMPLED-1.
typedef struct mi_chance_s {
  size_t interval; // mean bytes between samples
  size_t size; // bytes; of a block without a class rounded up: `mi_sampled_round`
} mi_chance_t;

// An amount of samples, or what they stand for.
typedef struct mi_amount_s {
  int64_t count; // blocks
  int64_t bytes;
} mi_amount_t;

// The live samples of a site at an earlier moment: SAMPLED-4. A value of a moment later or earlier
// is as good.
typedef struct mi_site_past_s {
  // moment - that `count` and `bytes` are of; what is live now is that of any later one. All three
  // are written by a thread that takes or frees a sample, and read by these and by a dump; relaxed.
  mi_atomic(uint64_t) moment;
  mi_atomic(int64_t) count, bytes;
} mi_site_past_t;

// Samples with the same stack and the same chance.
typedef struct mi_site_s mi_site_t;
struct mi_site_s {
  mi_site_t* next; // in its bucket (const)
  uint64_t hash; // (const)
  mi_chance_t chance; // (const)
  uint64_t weight; // blocks that a sample stands for, in 2^-16 (const)
  // Samples that were taken, and those of them that were freed. Written by a thread that takes or
  // frees one, read by any, relaxed: figures.
  mi_atomic(int64_t) taken_count, taken_bytes;
  mi_atomic(int64_t) freed_count, freed_bytes;
  mi_site_past_t peak; // when the live samples of all sites stood for most
  mi_site_past_t mark; // when the program asked for it
  uint32_t frame_count; // (const)
  const void* frames[]; // where the calls return to (const)
};

#define MI_SITE_BUCKETS ((size_t)(MI_IS_TINY ? 64 : 1 << 14))

// All call sites, and sums over them. For sampled.c, and for those who look from outside
// (inspect.c).
typedef struct mi_sampled_all_s {
  // missed - samples without a record; site_count - sites there are. Any thread, relaxed: figures,
  // and a bound.
  mi_atomic(int64_t) missed;
  mi_atomic(int64_t) site_count;
  // live_bytes - what the samples in use stand for; peak_bytes - its maximum; peak_moment - the
  // number of that maximum; mark_moment - of the marks. Any thread, relaxed: SAMPLED-4.
  mi_atomic(int64_t) live_bytes;
  mi_atomic(int64_t) peak_bytes;
  mi_atomic(uint64_t) peak_moment;
  mi_atomic(uint64_t) mark_moment;
  // bucket - the newest site of a bucket.
  //   write  any  CAS acq_rel  mi_sampled_add_site   (publishes the site, or sees another)
  //   read   any  acquire      mi_sampled_find_site, mi_sampled_add_site, mi_sampled_next_site
  mi_atomic(mi_site_t*) bucket[MI_SITE_BUCKETS];
} mi_sampled_all_t;

MI_INTERNAL_DATA_DECL mi_sampled_all_t mi_sampled_all;

// What is known about a sampled block in use, out of line. The holder of the block writes it; a
// dump looks at it (`mi_atomic_peek`).
struct mi_sampled_s {
  mi_record_t record; // `state` is not MI_RECORD_UNUSED while it is in use
  // site - where the block was allocated. A record may be used for another block while a dump looks
  // at it, whose site is new.
  //   write  who takes the sample  store release  mi_sampled_begin  (publishes the site)
  //   write  a dump, to its copy   store relaxed  mi_sampled_copy
  //   read   a dump                acquire        mi_sampled_copy   (sees the site)
  //   read   who holds the block, or a copy  relaxed
  mi_atomic(mi_site_t*) site;
  size_t size; // of the slot, bytes
  uint64_t born_ms;
  uintptr_t thread; // that allocated it: mi_os_thread_number
};

// Return the site of a sample that the caller holds, or of a copy.
static inline mi_site_t* mi_sampled_site(const mi_sampled_t* sampled) {
  return mi_atomic_load_relaxed(&((mi_sampled_t*)(uintptr_t)sampled)->site);
}

// Return a size up to which all sizes have the same chance: three bits behind the first.
MI_INTERNAL size_t mi_sampled_round(size_t size);

// Return -ln(u / 2^64) in steps of 2^-32, for u > 0.
MI_INTERNAL uint64_t mi_sampled_minus_ln(uint64_t u);

// Return the blocks that a sample stands for, in 2^-16.
MI_INTERNAL uint64_t mi_sampled_weight(const mi_chance_t* chance);

// Note that a block of `size` bytes is a sample. NULL when out of memory: it counts as missed.
MI_INTERNAL mi_sampled_t* mi_sampled_begin(const mi_chance_t* chance, size_t size);

// Count a sample that there was no memory for.
MI_INTERNAL void mi_sampled_miss(void);

// Note that the block of a sample changed its size in place, to one with the same chance.
MI_INTERNAL void mi_sampled_resize(mi_sampled_t* sampled, size_t size);

// Note that the block was freed.
MI_INTERNAL void mi_sampled_end(mi_sampled_t* sampled);

// Return the next call site, the first one after NULL; NULL behind the last. Takes no lock.
MI_INTERNAL mi_site_t* mi_sampled_next_site(const mi_site_t* site);

// Copy the sample of an index, if it is in use. False if not / behind the last one.
MI_INTERNAL bool mi_sampled_copy(size_t index, mi_sampled_t* copy);
MI_INTERNAL size_t mi_sampled_count(void);

typedef enum mi_site_kind_e {
  MI_SITE_LIVE,
  MI_SITE_TAKEN, // all that were ever allocated
  MI_SITE_PEAK,
  MI_SITE_GROWTH, // live now, less what was live at the mark
} mi_site_kind_t;

// Return the samples of a site / an estimate of what such samples stand for.
MI_INTERNAL mi_amount_t mi_sampled_amount(mi_site_t* site, mi_site_kind_t kind);
MI_INTERNAL mi_amount_t mi_sampled_estimate(const mi_site_t* site, mi_amount_t samples);

// Begin a growth profile: it is the difference to now.
MI_INTERNAL void mi_sampled_mark(void);

// Return the number of samples that there was no memory for.
MI_INTERNAL size_t mi_sampled_missed(void);

// Give back the memory of samples, if none is in use; call sites stay. Under the arena lock.
MI_INTERNAL void mi_sampled_collect(void);

// Forget everything: its memory is about to be unmapped.
MI_INTERNAL void mi_sampled_done(void);

#endif
