// SPDX-License-Identifier: MIT
// sample.c - sampling by cutting the free list, without a counter in malloc.
//
//   list after a refill:   b b b b b | S b b b b b b ...
//                          ---------   - the sample; it and what follows is set aside in the page
//                          handed out
//
// Each block is a sample with probability p, independently. The number of blocks up to and with the
// next sample is geometric; when it falls inside the list the list is cut before it, and the next
// miss is the sample. The geometric distribution has no memory, so every list draws anew, and the
// estimate stays unbiased even if a list is given back. A sample stands for 1/p blocks.
//
//   for a profile       p = 1 - e^(-size/interval); the sample has a record (sampled.c)
//   for guarded blocks  p = 1/rate, if the size is within bounds; the sample has guards (guard.c)
//
// Either gets a page of its own, and the rest is a list again. Both may be on: they draw
// independently, the nearer one cuts the list, and a block that both chose has guards and a record.
//
// SAMPLE-1  `sample_rest` of a page is NULL unless the page is current and its list was cut.
// SAMPLE-2  blocks in `sample_rest` count as used, like those in the list.
// SAMPLE-3  if guarded blocks are rare, only one list in `sample_every` on average may be cut, at
//     `sample_every` times p: the distance between such lists is random, so that each list has the
//     same chance. All others are refilled by alloc.c as without sampling. `sample_every` stays the
//     same until the rate changes: what is left of a list that was cut draws with the factor that
//     it was chosen with. It is 1, and the theap `sample_is_exact`, if p is large: then every
//     refill comes to the slow path. It is 1 for a profile, too: its estimates must be right for a
//     class of which a program uses few lists.
// SAMPLE-4  a portion (portion.c) is not cut: the block that is asked for stands for those that the
//     portion served before. While each list may be cut there are portions only in a crowd, where
//     they are at most 8 KiB, and none at all if `sample_is_exact`. (Of the blocks that a portion
//     served, one can be a sample: too few of them, if many should be.)
// SAMPLE-5  where one block in MI_SAMPLE_PACED or fewer is chosen, a theap guards at most so many
//     per second, and a few more at once: a program that does nothing but malloc and free must not
//     notice it either.
// SAMPLE-6  a block without a class is drawn by itself. One that changes its size in place is drawn
//     as if its bytes had been: what it grows by may make it a sample, what it shrinks by may end
//     that. It then has the chance of its new size.
//
// The logarithm is computed with integers: drawing needs no floating point, which a malloc inside a
// signal handler or a kernel thread could not use. Deliberately absent: what guards are (guard.c),
// and what is known about the samples of a profile (sampled.c).
#include "sample.h"

#include "hold.h"
#include "portion.h"
#include "split.h"

// Guarded blocks this frequent are chosen exactly.
#define MI_SAMPLE_EXACT ((size_t)64)
// A profile with an interval of so many bytes or fewer has no portions, of which one block at most
// is a sample: with them it would miss up to 1 % of the samples.
#define MI_SAMPLE_EXACT_INTERVAL (4 * MI_SLICE_SIZE)
// Such rare ones are bounded per time: one in so many milliseconds, and so many at once.
#define MI_SAMPLE_PACED ((size_t)1000)
#define MI_SAMPLE_PACE_MS 4
#define MI_SAMPLE_CREDIT_MAX 64
// A list of so many blocks has half a guarded one.
#define MI_SAMPLE_LENGTH 256
// Larger intervals are taken as this one.
#define MI_SAMPLE_INTERVAL_MAX ((size_t)1 << (MI_IS_32_BIT ? 30 : 40))

// Draw the number of trials up to and with the first success, each of probability part / whole.
static uint64_t mi_sample_draw(mi_theap_t* theap, uint64_t part, uint64_t whole) {
  if (part >= whole) return 1;
  const uint64_t minus_ln = mi_sampled_minus_ln(mi_random_next(&theap->random) | 1);
  const uint64_t ratio = whole / part;
  if (ratio >= 4096) { // -ln(1 - p) is p then, as exactly as matters
    return mi_bits_multiply(minus_ln, ratio, 32) + 1;
  }
  return minus_ln / mi_sampled_minus_ln(UINT64_MAX / whole * (whole - part)) + 1;
}

// The same for bytes: the number of blocks of `size` bytes up to and with the one that has the next
// sampled byte, ceil(-ln(u) * interval / size). A large one if that byte is not among the next
// `most` ones, which 1 - u < -ln(u) mostly tells at once.
static uint64_t mi_sample_draw_bytes(mi_theap_t* theap, size_t size, size_t most) {
  const uint64_t u = mi_random_next(&theap->random) | 1;
  if (mi_bits_multiply((0 - u) >> 24, theap->profile_interval, 40) >= most) return UINT64_MAX;
  const uint64_t minus_ln = mi_sampled_minus_ln(u);
  const uint64_t bytes = mi_bits_multiply(minus_ln, theap->profile_interval, 32);
  return bytes / size + 1;
}

// Choose the next list that may be cut, when one was: SAMPLE-3.
static void mi_sample_arm(mi_theap_t* theap) {
  if (theap->sample_is_exact) return;
  theap->sample_left = 1 + mi_random_below(&theap->random, 2 * theap->sample_every - 1);
  if (theap->sample_left < theap->quick_left) mi_theap_set_quick(theap, theap->sample_left);
}

// True if a block of the class may have guards: the request is looked at, too, when it is due.
static bool mi_sample_is_in_bounds(const mi_theap_t* theap, size_t c) {
  return theap->guarded_rate != 0 && mi_class_size(c) >= theap->guarded_min &&
         mi_split_least_size(c) <= theap->guarded_max;
}

// True if a block of the class may be a sample.
static bool mi_sample_is_eligible(const mi_theap_t* theap, size_t c) {
  return theap->profile_interval != 0 || mi_sample_is_in_bounds(theap, c);
}

// Draw the number of blocks up to and with the next sample, at least 1, and what it is for.
static uint64_t mi_sample_draw_block(mi_theap_t* theap, size_t c, mi_sample_t* sample) {
  uint64_t next = UINT64_MAX;
  *sample = MI_SAMPLE_NONE;
  if (mi_sample_is_in_bounds(theap, c)) {
    next = mi_sample_draw(theap, theap->sample_every, theap->guarded_rate);
    *sample = MI_SAMPLE_GUARD;
  }
  if (theap->profile_interval != 0) {
    const size_t most = mi_class_slices(c) * MI_SLICE_SIZE; // no list is longer
    const uint64_t other = mi_sample_draw_bytes(theap, mi_class_size(c), most);
    if (other < next) *sample = MI_SAMPLE_NONE;
    if (other <= next) *sample |= MI_SAMPLE_PROFILE;
    next = other < next ? other : next;
  }
  return next;
}

MI_INTERNAL void mi_sample_window(mi_theap_t* theap, size_t size_class, uint32_t length) {
  mi_page_t* const page = theap->current[size_class];
  mi_assert(page->sample_rest == NULL);
  const uint64_t ahead = theap->sample_ahead;
  theap->sample_ahead = 0;
  if (ahead > length) return; // its links, which may be in no cache, are not read
  // The first `ahead - 1` blocks may be handed out.
  mi_block_t* last = NULL;
  mi_block_t* block = theap->free[size_class];
  for (uint64_t i = 1; i < ahead && block != NULL; i++) {
    last = block;
    block = mi_block_next(block);
  }
  if (block == NULL) return;
  page->sample_rest = block;
  theap->sample_of[size_class] = (uint8_t)theap->sample_next;
  mi_block_join(&theap->free[size_class], last, NULL);
}

// Make the blocks that were set aside the list again. False if there are none.
static bool mi_sample_rejoin(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL || page->sample_rest == NULL) return false;
  theap->free[size_class] = page->sample_rest;
  page->sample_rest = NULL;
  return true;
}

// A portion is due for a sample, or not: SAMPLE-4.
static mi_sample_t mi_sample_of_portion(mi_theap_t* theap, size_t c, size_t most) {
  const size_t served = most - mi_bits_min(theap->room[c], most - 1);
  mi_sample_t sample;
  mi_sample_arm(theap);
  return mi_sample_draw_block(theap, c, &sample) <= served ? sample : MI_SAMPLE_NONE;
}

// The list that comes is the chosen one: it is cut before its block number `ahead`.
static void mi_sample_look_ahead(mi_theap_t* theap, uint64_t ahead, mi_sample_t sample) {
  theap->sample_ahead = ahead;
  theap->sample_next = sample;
  mi_sample_arm(theap);
}

// The list of the class is empty: what is the block that is asked for?
static mi_sample_t mi_sample_look(mi_theap_t* theap, size_t c) {
  if (mi_sample_rejoin(theap, c)) return theap->sample_of[c];
  if (theap->sample_left > 0) return MI_SAMPLE_NONE;
  if (theap->sample_ahead != 0) return MI_SAMPLE_NONE; // drawn already
  if (!mi_sample_is_eligible(theap, c)) {
    mi_sample_arm(theap);
    return MI_SAMPLE_NONE;
  }
  if (theap->room[c] > 0 && mi_theap_current(theap, c) == NULL) {
    return mi_sample_of_portion(theap, c, mi_portion_bounds(theap, c).most);
  }
  mi_sample_t sample;
  const uint64_t draw = mi_sample_draw_block(theap, c, &sample);
  if (draw == 1) return sample; // the list that comes draws again
  mi_sample_look_ahead(theap, draw, sample);
  return MI_SAMPLE_NONE;
}

MI_INTERNAL mi_sample_t mi_sample_take(mi_theap_t* theap, size_t size_class) {
  if (theap->free[size_class] != NULL) return MI_SAMPLE_NONE; // the deferred frees allocated
  const mi_sample_t sample = mi_sample_look(theap, size_class);
  if (sample != MI_SAMPLE_NONE) theap->sample_count++;
  return sample;
}

MI_INTERNAL bool mi_sample_is_large_due(mi_theap_t* theap) {
  if (theap->guarded_rate == 0) return false;
  const bool is_due = mi_sample_draw(theap, 1, theap->guarded_rate) == 1;
  if (is_due) theap->sample_count++;
  return is_due;
}

MI_INTERNAL void mi_sample_resume(mi_theap_t* theap, size_t size_class, size_t skip) {
  if (!mi_sample_is_eligible(theap, size_class)) return;
  mi_sample_t sample;
  const uint64_t ahead = skip + mi_sample_draw_block(theap, size_class, &sample);
  if (mi_theap_current(theap, size_class) != NULL && theap->free[size_class] != NULL) {
    theap->sample_ahead = ahead;
    theap->sample_next = sample;
    mi_sample_window(theap, size_class, MI_LENGTH_UNKNOWN);
  } else if (skip > 0 && theap->sample_left == 0) { // else the next miss draws
    mi_sample_look_ahead(theap, ahead, sample);
  }
}

MI_INTERNAL void mi_sample_restore(mi_theap_t* theap, size_t size_class) {
  mi_page_t* const page = mi_theap_current(theap, size_class);
  if (page == NULL || page->sample_rest == NULL) return;
  mi_block_t* last;
  mi_page_measure(page, &theap->free[size_class], &last);
  mi_block_join(&theap->free[size_class], last, page->sample_rest);
  page->sample_rest = NULL;
}

// -- Switching --

static void mi_sample_stop(mi_theap_t* theap) {
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_sample_restore(theap, c);
  theap->sample_is_on = false;
  theap->sample_is_exact = false;
  theap->sample_ahead = 0;
  theap->sample_left = 0;
  theap->sample_every = 1;
  mi_theap_set_quick(theap, MI_QUICK_REFILLS);
}

// Return how many lists there are to one that may be cut: SAMPLE-3.
static size_t mi_sample_every(const mi_theap_t* theap) {
  if (theap->profile_interval != 0 || theap->sample_is_exact) return 1;
  const size_t every = theap->guarded_rate / (2 * MI_SAMPLE_LENGTH);
  return mi_bits_min(mi_bits_max(every, 1), MI_QUICK_REFILLS);
}

// The purge thread takes over the lists of a thread that sleeps: the home is held.
static mi_attr_cold void mi_sample_start_held(mi_theap_t* theap) {
  mi_sample_stop(theap);
  if (theap->guarded_rate == 0 && theap->profile_interval == 0) return;
  theap->sample_is_on = true;
  theap->sample_is_exact =
      (theap->guarded_rate != 0 && theap->guarded_rate <= MI_SAMPLE_EXACT) ||
      (theap->profile_interval != 0 && theap->profile_interval <= MI_SAMPLE_EXACT_INTERVAL);
  theap->sample_every = (uint32_t)mi_sample_every(theap);
  if (theap->sample_every > 1) {
    mi_sample_arm(theap);
    return;
  }
  if (theap->sample_is_exact) mi_portion_return_all(theap); // SAMPLE-4
  for (size_t c = 0; c < MI_CLASS_COUNT; c++) mi_sample_resume(theap, c, 0);
  mi_theap_set_quick(theap, 1);
}

// Sample as the theap says, the lists that are in place, too.
static mi_attr_cold void mi_sample_start(mi_theap_t* theap) {
  const mi_hold_t hold = mi_hold_enter(theap->home);
  mi_sample_start_held(theap);
  mi_hold_leave(theap->home, hold);
}

MI_INTERNAL void mi_sample_set_rate(mi_theap_t* theap, size_t rate, uint64_t seed) {
  if (rate != 0 && seed != 0) theap->random.state = mi_random_mix(seed);
  theap->guarded_rate = rate;
  theap->sample_is_own = true;
  theap->guarded_credit = MI_SAMPLE_CREDIT_MAX;
  mi_sample_start(theap);
}

MI_INTERNAL void mi_sample_set_bounds(mi_theap_t* theap, size_t min, size_t max) {
  theap->guarded_min = min;
  theap->guarded_max = mi_bits_max(min, max);
  theap->sample_is_own = true;
  if (theap->guarded_rate != 0) mi_sample_set_rate(theap, theap->guarded_rate, 0);
}

static size_t mi_sample_option(long value) { return value > 0 ? (size_t)value : 0; }

MI_INTERNAL mi_attr_cold void mi_sample_read_options(mi_theap_t* theap, uint32_t epoch) {
  const size_t rate = mi_sample_option(mi_option_value(guarded_sample_rate));
  const size_t interval = mi_atomic_load_relaxed(&mi_state.profile_interval);
  const bool is_profile = (theap->sample_epoch ^ epoch) < MI_SAMPLE_EPOCH_OPTIONS;
  theap->sample_epoch = epoch;
  theap->profile_interval = mi_bits_min(interval, MI_SAMPLE_INTERVAL_MAX);
  if (theap->sample_is_own && is_profile) { // its guards stay as they were set for it alone
    mi_sample_start(theap);
    return;
  }
  theap->guarded_min = mi_sample_option(mi_option_value(guarded_min));
  theap->guarded_max =
      mi_bits_max(theap->guarded_min, mi_sample_option(mi_option_value(guarded_max)));
  if (rate != 0 || interval != 0 || theap->sample_is_on) {
    mi_sample_set_rate(theap, rate, (uint64_t)mi_option_value(guarded_sample_seed));
  }
  theap->sample_is_own = false;
}

MI_INTERNAL mi_attr_cold void mi_sample_drop_own(mi_theap_t* theap) {
  // (A theap that does as the options say goes on with its draws.)
  if (!theap->sample_is_own) return;
  theap->sample_is_own = false;
  mi_sample_read_options(theap, mi_atomic_load_relaxed(&mi_state.sample_epoch));
}

// The lock keeps the heaps of these theaps from being destroyed meanwhile, with the lists that are
// cut.
static void mi_sample_follow_in_others(mi_theap_t* home) {
  mi_lock_expect(&mi_state.thread_lock);
  for (size_t i = 0; i < home->others_count; i++) {
    if (home->others[i] != NULL && !home->others[i]->is_ended) {
      mi_sample_follow_options(home->others[i]);
    }
  }
}

// Let the epoch grow by `step`, and the calling thread follow.
static void mi_sample_announce_by(uint32_t step) {
  const uint32_t epoch = mi_atomic_add_relaxed(&mi_state.sample_epoch, step) + step;
  if (epoch == MI_SAMPLE_EPOCH_NONE) mi_atomic_store_relaxed(&mi_state.sample_epoch, 0);
  mi_theap_t* const home = mi_self_home();
  if (home->thread_id == 0) return;
  mi_report_enter(MI_REPORT_IN_COLLECT);
  const mi_hold_t hold = mi_hold_enter(home); // before the lock, which the purge thread may need
  mi_sample_follow_options(home);
  if (home->others != NULL) {
    mi_lock_enter(&mi_state.thread_lock);
    mi_sample_follow_in_others(home);
    mi_lock_leave(&mi_state.thread_lock);
  }
  mi_hold_leave(home, hold);
  mi_report_leave();
}

MI_INTERNAL void mi_sample_announce(void) { mi_sample_announce_by(MI_SAMPLE_EPOCH_OPTIONS); }

MI_INTERNAL void mi_sample_profile(size_t interval) {
  mi_atomic_store_relaxed(&mi_state.profile_interval, interval);
  mi_sample_announce_by(1);
}

// -- Guarded samples --

MI_INTERNAL bool mi_sample_may_guard(mi_theap_t* theap, size_t size) {
  if (theap->guarded_rate == 0) return false;
  if (size < theap->guarded_min || size > theap->guarded_max) return false;
  if (theap->guarded_rate < MI_SAMPLE_PACED) return true;
  const uint64_t now = mi_os_now_ms(); // SAMPLE-5
  const uint64_t more = (now - theap->guarded_ms) / MI_SAMPLE_PACE_MS;
  if (more > 0) {
    const uint64_t credit = theap->guarded_credit + more;
    theap->guarded_credit = (uint32_t)mi_bits_min((size_t)credit, MI_SAMPLE_CREDIT_MAX);
    theap->guarded_ms = now;
  }
  if (theap->guarded_credit == 0) return false;
  theap->guarded_credit--;
  return true;
}

// -- Samples of a profile --

MI_INTERNAL void mi_sample_record(mi_theap_t* theap, mi_page_t* page, size_t size_class) {
  const mi_chance_t chance = {
      .interval = theap->profile_interval,
      .size = mi_class_size(size_class),
  };
  page->sampled = mi_sampled_begin(&chance, chance.size);
  mi_probe2(sample, page->start, page->block_size);
}

// The chance of a block without a class.
static mi_chance_t mi_sample_chance(const mi_theap_t* theap, size_t size) {
  return (mi_chance_t){.interval = theap->profile_interval, .size = mi_sampled_round(size)};
}

MI_INTERNAL void mi_sample_record_large(mi_theap_t* theap, mi_page_t* page) {
  if (theap->profile_interval == 0) return;
  const mi_chance_t chance = mi_sample_chance(theap, page->block_size);
  if (mi_sample_draw_bytes(theap, chance.size, chance.size) > 1) return;
  theap->sample_count++;
  page->sampled = mi_sampled_begin(&chance, page->block_size);
  mi_probe2(sample, page->start, page->block_size);
}

// A sample shrank, or has another rate: does it stay one? It does with the ratio of the chances.
static bool mi_sample_stays(mi_theap_t* theap, const mi_chance_t* now, const mi_chance_t* before) {
  const uint64_t weight = mi_sampled_weight(before);
  const uint64_t wanted = mi_sampled_weight(now);
  // (A thread without a theap has nothing to draw with.)
  if (wanted <= weight || theap->thread_id == 0) return true;
  return mi_sample_draw(theap, weight, wanted) == 1;
}

MI_INTERNAL void mi_sample_resized(mi_theap_t* theap, mi_page_t* page, size_t old_size) {
  mi_sampled_t* const sampled = page->sampled;
  if (sampled == NULL) {
    const size_t before = mi_sampled_round(old_size);
    const size_t size = mi_sampled_round(page->block_size);
    if (theap->profile_interval == 0 || size <= before) return;
    if (mi_sample_draw_bytes(theap, size - before, size - before) > 1) return;
    const mi_chance_t chance = mi_sample_chance(theap, size);
    page->sampled = mi_sampled_begin(&chance, page->block_size);
    return;
  }
  const mi_chance_t before = mi_sampled_site(sampled)->chance;
  mi_chance_t now = before;
  now.size = mi_sampled_round(page->block_size);
  if (now.size == before.size) {
    if (sampled->size != page->block_size) mi_sampled_resize(sampled, page->block_size);
    return;
  }
  const bool is_kept = mi_sample_stays(theap, &now, &before);
  mi_sampled_end(sampled);
  page->sampled = is_kept ? mi_sampled_begin(&now, page->block_size) : NULL;
}
