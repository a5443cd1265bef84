// SPDX-License-Identifier: MIT
// sampled.c - call sites and their samples: what a heap profile is made of.
//
//   allocation that is a sample --begin--> record of the block --end--> unused
//                                             |
//        stack, chance --> call site (hash table): samples taken, samples freed, live at the peak
//
// SAMPLED-1  a block of `size` bytes is a sample with probability
//     p = 1 - e^(-size / interval)
//     and stands for 1/p blocks: the estimate of a sum over blocks is the sum over samples, divided
//     by p. All samples of a site have the same p, so that counts are enough. (A site is a stack
//     and a chance: the same function has one for each size, and for each rate.)
// SAMPLED-2  sites are only added, until the library is unloaded: a reader needs no lock. There are
//     at most MI_SITES_MAX sites and MI_SAMPLED_MAX samples in use; beyond that, and without
//     memory, a sample is only counted as missed.
// SAMPLED-3  nothing here waits or holds a lock, except that memory for a record or a site comes
//     from meta.c. A thread that vanishes by a fork leaves counts between two samples.
// SAMPLED-4  the past of a site is saved by who changes it: if it did not change since the last
//     peak (or mark), what is live now was live then. So the profile of the peak costs no copy of
//     all sites at each new peak, of which a growing program has one at each sample. Threads that
//     take or free samples of one site at the same moment may save each other's sample, too.
//
// Callers: sample.c chooses blocks, large.c and guard.c end them, the dumps of observe/ read.
// Deliberately absent: the choice, and all formats.
#include "sampled.h"

#include <string.h>

#include "meta.h"

#define MI_SITES_MAX ((int64_t)(MI_IS_TINY ? 4096 : 1 << 18))
#define MI_SAMPLED_MAX ((size_t)(MI_IS_TINY ? 1 << 14 : 1 << 26))
#define MI_SAMPLED_LIVE ((uint32_t)1)

static mi_records_t mi_sampled_records = {.record_size = sizeof(mi_sampled_t),
                                          .record_max = MI_SAMPLED_MAX};

MI_INTERNAL_DATA mi_sampled_all_t mi_sampled_all mi_attr_sparse;

// -- Numbers --

// So many bits of the fraction of a logarithm matter.
#define MI_SAMPLED_LOG_BITS 22

// Return -log2(u / 2^64) * 2^32 for u > 0: 64 - top bit, and the fraction by repeated squaring, as
// far as matters.
static uint64_t mi_sampled_minus_log2(uint64_t u) {
  const size_t top = mi_bits_log2(u);
  uint64_t mantissa = (u << (63 - top)) >> 32; // in [2^31, 2^32): the value in [1, 2)
  uint64_t fraction = 0;
  for (int i = 31; i >= 32 - MI_SAMPLED_LOG_BITS; i--) {
    mantissa = (mantissa * mantissa) >> 31;
    if (mantissa >> 32 != 0) {
      fraction |= (uint64_t)1 << i;
      mantissa >>= 1;
    }
  }
  return (((uint64_t)64 - top) << 32) - fraction;
}

MI_INTERNAL uint64_t mi_sampled_minus_ln(uint64_t u) {
  const uint64_t ln2_fixed = UINT64_C(2977044472); // ln 2 * 2^32
  return mi_bits_multiply(mi_sampled_minus_log2(u), ln2_fixed, 32);
}

MI_INTERNAL size_t mi_sampled_round(size_t size) {
  if (size <= 16) return size;
  return mi_bits_align_up(size, (size_t)1 << (mi_bits_log2(size) - 3));
}

#define MI_CHANCE_ONE ((uint64_t)1 << 62)

// Return a * b / 2^62.
static uint64_t mi_sampled_multiply(uint64_t a, uint64_t b) { return mi_bits_multiply(a, b, 62); }

// Return (1 - e^-x) * 2^62 for x = part / whole, both below 2^62: the series for x / 2^k, which is
// small, and then 1 - e^-2y = 2(1 - e^-y) - (1 - e^-y)^2, k times.
static uint64_t mi_sampled_one_minus_exp(uint64_t part, uint64_t whole) {
  if (part / 40 >= whole) return MI_CHANCE_ONE;
  size_t k = 8;
  while (part / whole >> (k - 8) != 0) k++;
  while (whole >> 40 != 0) { // more bits do not matter
    whole >>= 1;
    part = part > 1 ? part >> 1 : 1;
  }
  const size_t up = 63 - mi_bits_log2(part);
  const uint64_t quotient = ((uint64_t)part << up) / whole; // x * 2^up
  const uint64_t y = up > 62 - k ? quotient >> (up - (62 - k)) : quotient << ((62 - k) - up);
  const uint64_t y2 = mi_sampled_multiply(y, y);
  uint64_t p = y - y2 / 2 + mi_sampled_multiply(y2, y) / 6;
  for (size_t i = 0; i < k; i++) p = 2 * p - mi_sampled_multiply(p, p);
  return p < MI_CHANCE_ONE ? p : MI_CHANCE_ONE;
}

MI_INTERNAL uint64_t mi_sampled_weight(const mi_chance_t* chance) {
  const uint64_t p = mi_sampled_one_minus_exp(chance->size, chance->interval);
  // 2^16 / (p / 2^62), by a divisor of 32 bits.
  const size_t cut = mi_bits_log2(p) > 31 ? mi_bits_log2(p) - 31 : 0;
  const size_t left = 62 + 16 - cut;
  const size_t first = mi_bits_min(left, 63);
  return (((uint64_t)1 << first) / (p >> cut)) << (left - first);
}

// -- Sites --

static uint64_t mi_sampled_hash(const mi_chance_t* chance, const void* const* frames,
                                size_t count) {
  uint64_t hash = mi_random_mix(chance->interval);
  hash = mi_random_mix(hash ^ chance->size);
  for (size_t i = 0; i < count; i++) hash = mi_random_mix(hash ^ (uintptr_t)frames[i]);
  return hash;
}

static bool mi_sampled_is_site(const mi_site_t* site, uint64_t hash, const mi_chance_t* chance,
                               const void* const* frames, size_t count) {
  return site->hash == hash && site->frame_count == count && site->chance.size == chance->size &&
         site->chance.interval == chance->interval &&
         memcmp((const void*)site->frames, (const void*)frames, count * sizeof(void*)) == 0;
}

// Look for a site from `first` on, up to `end`.
static mi_site_t* mi_sampled_find(mi_site_t* first, const mi_site_t* end, const mi_site_t* wanted) {
  for (mi_site_t* site = first; site != end; site = site->next) {
    if (mi_sampled_is_site(site, wanted->hash, &wanted->chance, wanted->frames,
                           wanted->frame_count)) {
      return site;
    }
  }
  return NULL;
}

// Add a site to its bucket, unless another thread did that meanwhile: then its memory is kept for
// the next one of its size.
static mi_site_t* mi_sampled_add_site(mi_site_t* site, size_t size) {
  mi_atomic(mi_site_t*)* const bucket = &mi_sampled_all.bucket[site->hash % MI_SITE_BUCKETS];
  mi_site_t* seen = NULL;
  // Sees the site; pairs with the release in `mi_sampled_add_site`.
  mi_site_t* first = mi_atomic_load_acquire(bucket);
  do {
    mi_site_t* const other = mi_sampled_find(first, seen, site);
    if (other != NULL) {
      mi_atomic_sub_relaxed(&mi_sampled_all.site_count, 1);
      mi_meta_lock_and_free(site, size);
      return other;
    }
    seen = first;
    site->next = first;
    // Publishes the site; pairs with the acquire in `mi_sampled_find_site`.
  } while (!mi_atomic_cas_weak_acq_rel(bucket, &first, site));
  return site;
}

static mi_site_t* mi_sampled_make_site(uint64_t hash, const mi_chance_t* chance,
                                       const void* const* frames, size_t count) {
  if (mi_atomic_add_relaxed(&mi_sampled_all.site_count, 1) >= MI_SITES_MAX) {
    mi_atomic_sub_relaxed(&mi_sampled_all.site_count, 1);
    return NULL;
  }
  const size_t size = sizeof(mi_site_t) + count * sizeof(void*);
  mi_site_t* const site = (mi_site_t*)mi_meta_lock_and_alloc(size);
  if (site == NULL) {
    mi_atomic_sub_relaxed(&mi_sampled_all.site_count, 1);
    return NULL;
  }
  site->hash = hash;
  site->chance = *chance;
  site->weight = mi_sampled_weight(chance);
  site->frame_count = (uint32_t)count;
  memcpy((void*)site->frames, (const void*)frames, count * sizeof(void*));
  return mi_sampled_add_site(site, size);
}

static mi_site_t* mi_sampled_find_site(const mi_chance_t* chance) {
  const void* frames[MI_SITE_FRAMES];
  mi_hook_stack(frames, MI_SITE_FRAMES);
  size_t count = 0;
  while (count < MI_SITE_FRAMES && frames[count] != NULL) count++;
  const uint64_t hash = mi_sampled_hash(chance, frames, count);
  mi_atomic(mi_site_t*)* const bucket = &mi_sampled_all.bucket[hash % MI_SITE_BUCKETS];
  // Sees the site; pairs with the release in `mi_sampled_add_site`.
  for (mi_site_t* site = mi_atomic_load_acquire(bucket); site != NULL; site = site->next) {
    if (mi_sampled_is_site(site, hash, chance, frames, count)) return site;
  }
  return mi_sampled_make_site(hash, chance, frames, count);
}

MI_INTERNAL mi_site_t* mi_sampled_next_site(const mi_site_t* site) {
  if (site != NULL && site->next != NULL) return site->next;
  for (size_t b = site == NULL ? 0 : site->hash % MI_SITE_BUCKETS + 1; b < MI_SITE_BUCKETS; b++) {
    // Sees the site; pairs with the release in `mi_sampled_add_site`.
    mi_site_t* const first = mi_atomic_load_acquire(&mi_sampled_all.bucket[b]);
    if (first != NULL) return first;
  }
  return NULL;
}

// -- Amounts --

static mi_amount_t mi_sampled_live(mi_site_t* site) {
  // What was freed is read first: more may seem to be live than is, never less than nothing.
  const int64_t freed_count = mi_atomic_load_relaxed(&site->freed_count);
  const int64_t freed_bytes = mi_atomic_load_relaxed(&site->freed_bytes);
  return (mi_amount_t){mi_atomic_load_relaxed(&site->taken_count) - freed_count,
                       mi_atomic_load_relaxed(&site->taken_bytes) - freed_bytes};
}

// SAMPLED-4: before a site changes.
static void mi_sampled_save(mi_site_past_t* past, uint64_t moment, mi_site_t* site) {
  if (mi_atomic_load_relaxed(&past->moment) == moment) return;
  const mi_amount_t live = mi_sampled_live(site);
  mi_atomic_store_relaxed(&past->count, live.count);
  mi_atomic_store_relaxed(&past->bytes, live.bytes);
  mi_atomic_store_relaxed(&past->moment, moment);
}

static void mi_sampled_save_past(mi_site_t* site) {
  mi_sampled_save(&site->peak, mi_atomic_load_relaxed(&mi_sampled_all.peak_moment), site);
  mi_sampled_save(&site->mark, mi_atomic_load_relaxed(&mi_sampled_all.mark_moment), site);
}

static mi_amount_t mi_sampled_past(const mi_site_past_t* past, uint64_t moment, mi_site_t* site) {
  if (mi_atomic_load_relaxed(&past->moment) != moment) return mi_sampled_live(site);
  return (mi_amount_t){mi_atomic_load_relaxed(&past->count), mi_atomic_load_relaxed(&past->bytes)};
}

MI_INTERNAL mi_amount_t mi_sampled_amount(mi_site_t* site, mi_site_kind_t kind) {
  mi_amount_t amount = mi_sampled_live(site);
  if (kind == MI_SITE_TAKEN) {
    amount.count = mi_atomic_load_relaxed(&site->taken_count);
    amount.bytes = mi_atomic_load_relaxed(&site->taken_bytes);
  } else if (kind == MI_SITE_PEAK) {
    const uint64_t moment = mi_atomic_load_relaxed(&mi_sampled_all.peak_moment);
    amount = mi_sampled_past(&site->peak, moment, site);
  } else if (kind == MI_SITE_GROWTH) {
    const uint64_t moment = mi_atomic_load_relaxed(&mi_sampled_all.mark_moment);
    // There is no mark, or the site is younger: all of it has grown.
    const mi_amount_t was = mi_sampled_past(&site->mark, moment, site);
    amount.count -= was.count;
    amount.bytes -= was.bytes;
  }
  return amount;
}

static int64_t mi_sampled_weigh(const mi_site_t* site, int64_t amount) {
  const bool is_negative = amount < 0;
  const uint64_t size = (uint64_t)(is_negative ? -amount : amount);
  const bool is_beyond = mi_bits_multiply(size, site->weight, 63) >= 1 << 16; // 2^63 * 2^16
  const uint64_t twice = mi_bits_multiply(size, site->weight, 15);
  const uint64_t sum = twice / 2 + twice % 2;
  const int64_t estimate = is_beyond || sum > INT64_MAX ? INT64_MAX : (int64_t)sum;
  return is_negative ? -estimate : estimate;
}

MI_INTERNAL mi_amount_t mi_sampled_estimate(const mi_site_t* site, mi_amount_t samples) {
  return (mi_amount_t){mi_sampled_weigh(site, samples.count),
                       mi_sampled_weigh(site, samples.bytes)};
}

MI_INTERNAL void mi_sampled_mark(void) { mi_atomic_add_relaxed(&mi_sampled_all.mark_moment, 1); }

MI_INTERNAL size_t mi_sampled_missed(void) {
  return (size_t)mi_atomic_load_relaxed(&mi_sampled_all.missed);
}

// -- Samples --

// Count what a site has more, or less, and whether that is a new peak.
static void mi_sampled_count_live(const mi_site_t* site, int64_t bytes) {
  const int64_t amount = mi_sampled_weigh(site, bytes);
  const int64_t live = mi_atomic_add_relaxed(&mi_sampled_all.live_bytes, amount) + amount;
  int64_t peak = mi_atomic_load_relaxed(&mi_sampled_all.peak_bytes);
  while (live > peak) {
    if (!mi_atomic_cas_weak_relaxed(&mi_sampled_all.peak_bytes, &peak, live)) continue;
    mi_atomic_add_relaxed(&mi_sampled_all.peak_moment, 1);
    return;
  }
}

static void mi_sampled_take(mi_site_t* site, size_t size) {
  mi_sampled_save_past(site);
  mi_atomic_add_relaxed(&site->taken_bytes, (int64_t)size);
  mi_atomic_add_relaxed(&site->taken_count, 1);
  mi_sampled_count_live(site, (int64_t)size);
}

static void mi_sampled_drop(mi_site_t* site, size_t size) {
  mi_sampled_save_past(site);
  mi_atomic_add_relaxed(&site->freed_bytes, (int64_t)size);
  mi_atomic_add_relaxed(&site->freed_count, 1);
  mi_sampled_count_live(site, -(int64_t)size);
}

MI_INTERNAL void mi_sampled_miss(void) { mi_atomic_add_relaxed(&mi_sampled_all.missed, 1); }

MI_INTERNAL mi_attr_cold mi_sampled_t* mi_sampled_begin(const mi_chance_t* chance, size_t size) {
  mi_site_t* const site = mi_sampled_find_site(chance);
  mi_sampled_t* const sampled =
      site != NULL ? (mi_sampled_t*)mi_records_claim(&mi_sampled_records) : NULL;
  if (sampled == NULL) {
    mi_sampled_miss();
    return NULL;
  }
  // Publishes the site; pairs with the acquire in `mi_sampled_copy`.
  mi_atomic_store_release(&sampled->site, site);
  sampled->size = size;
  sampled->born_ms = mi_os_now_ms();
  sampled->thread = mi_os_thread_number();
  mi_sampled_take(site, size);
  // Publishes the record; pairs with the acquire in `mi_sampled_copy`.
  mi_atomic_store_release(&sampled->record.state, MI_SAMPLED_LIVE);
  return sampled;
}

MI_INTERNAL void mi_sampled_resize(mi_sampled_t* sampled, size_t size) {
  mi_sampled_drop(mi_sampled_site(sampled), sampled->size);
  mi_sampled_take(mi_sampled_site(sampled), size);
  sampled->size = size;
}

MI_INTERNAL mi_attr_cold void mi_sampled_end(mi_sampled_t* sampled) {
  mi_sampled_drop(mi_sampled_site(sampled), sampled->size);
  mi_records_release(&mi_sampled_records, &sampled->record);
}

MI_INTERNAL size_t mi_sampled_count(void) { return mi_records_count(&mi_sampled_records); }

// The record may be used for another block meanwhile: the copy then has the site of one and the age
// of the other.
static mi_attr_racy void mi_sampled_peek(const mi_sampled_t* sampled, mi_sampled_t* copy) {
  copy->size = mi_atomic_peek(&sampled->size);
  copy->born_ms = mi_atomic_peek(&sampled->born_ms);
  copy->thread = mi_atomic_peek(&sampled->thread);
}

MI_INTERNAL bool mi_sampled_copy(size_t index, mi_sampled_t* copy) {
  mi_sampled_t* const sampled = (mi_sampled_t*)mi_records_at(&mi_sampled_records, index);
  if (sampled == NULL) return false;
  // Sees the record; pairs with the release in `mi_sampled_begin`.
  if (mi_atomic_load_acquire(&sampled->record.state) != MI_SAMPLED_LIVE) return false;
  mi_sampled_peek(sampled, copy);
  // Sees the site, also if the record is used for another block now; pairs with the release in
  // `mi_sampled_begin`.
  mi_site_t* const site = mi_atomic_load_acquire(&sampled->site);
  mi_atomic_store_relaxed(&copy->site, site);
  return site != NULL;
}

MI_INTERNAL void mi_sampled_collect(void) { mi_records_collect(&mi_sampled_records); }

MI_INTERNAL void mi_sampled_done(void) {
  mi_records_done(&mi_sampled_records);
  memset(&mi_sampled_all, 0, sizeof(mi_sampled_all));
}
