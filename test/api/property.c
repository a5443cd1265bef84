// SPDX-License-Identifier: MIT
// property.c - random sequences of calls, checked against a model of what every block must be.
//
// The model is a shadow of each live block (shadow.h). A sequence is determined by its seed alone:
// --seed=N runs the one that failed again, and --sequences=N runs that many instead of as many as
// fit the time.
#include "shadow.h"
#include "test_api.h"

#include <pthread.h>
#include <time.h>

#define SLOT_COUNT 400
#define OPERATIONS 4000
#define TIME_LIMIT_MS 1500

static shadow_t slots[SLOT_COUNT];
static uint64_t first_seed;
static size_t sequence_limit; // 0: by time
static uint64_t seed;
static size_t operation;
static const char* action;
static uint64_t random_state;

static uint64_t draw(uint64_t limit) { return random_next(&random_state) % limit; }

// Everything a reader needs to see it again, if `fact` does not hold.
static void fail_unless(const shadow_t* slot, bool is_so, const char* fact) {
  if (is_so) return;
  fail_msg(
      "--seed=%llu, operation %zu (%s): not so: %s; block %p size %zu usable %zu alignment %zu "
      "offset %zu",
      (unsigned long long)seed, operation, action, fact, (void*)slot->p, slot->size,
      mi_usable_size(slot->p), slot->alignment, slot->offset);
}

#define REQUIRE(slot, condition) fail_unless(slot, condition, #condition)

static void accept(shadow_t* slot, size_t kept) {
  REQUIRE(slot, slot->p != NULL);
  const char* const wrong = shadow_accept(slot, kept, random_next(&random_state));
  fail_unless(slot, wrong == NULL, wrong);
}

static void look(const shadow_t* slot) {
  const char* const wrong = shadow_look(slot);
  fail_unless(slot, wrong == NULL, wrong);
}

static size_t draw_size(void) {
  switch (draw(40)) {
    case 0:
      return random_size(&random_state, 23);
    case 1:
    case 2:
    case 3:
      return random_size(&random_state, 17);
    case 4:
      return 0;
    default:
      return random_size(&random_state, 11);
  }
}

static size_t draw_alignment(void) { return (size_t)1 << (draw(30) == 0 ? draw(23) : draw(14)); }

// -- Operations --

static void allocate(shadow_t* slot) {
  const size_t size = draw_size();
  slot->size = size;
  slot->alignment = 1;
  slot->offset = 0;
  slot->is_zero_behind = false;
  switch (draw(8)) {
    case 0:
      action = "zalloc";
      slot->is_zero_behind = true;
      slot->p = (unsigned char*)mi_zalloc(size);
      break;
    case 1:
      action = "calloc";
      slot->is_zero_behind = true;
      slot->size = size / 3 * 3;
      slot->p = (unsigned char*)mi_calloc(size / 3, 3);
      break;
    case 2:
      action = "malloc_aligned";
      slot->alignment = draw_alignment();
      slot->p = (unsigned char*)mi_malloc_aligned(size, slot->alignment);
      break;
    case 3:
      action = "zalloc_aligned_at";
      slot->alignment = draw_alignment();
      slot->offset = draw(2) == 0 ? 0 : random_size(&random_state, 12);
      slot->is_zero_behind = true;
      slot->p = (unsigned char*)mi_zalloc_aligned_at(size, slot->alignment, slot->offset);
      break;
    case 4:
      action = "malloc_small";
      slot->size = size % (MI_SMALL_SIZE_MAX + 1);
      slot->p = (unsigned char*)mi_malloc_small(slot->size);
      break;
    default:
      action = "malloc";
      slot->p = (unsigned char*)mi_malloc(size);
      break;
  }
  accept(slot, 0);
}

static void resize(shadow_t* slot) {
  const size_t size = draw(4) == 0 ? draw_size() : slot->size + draw(slot->size / 2 + 10);
  size_t kept = slot->filled < size ? slot->filled : size;
  unsigned char* const old = slot->p;
  const bool is_aligned = slot->alignment > 1 || slot->offset > 0;
  if (size == 0) {
    // The minimal block of realloc starts with a zero byte.
    kept = 0;
  }
  if (slot->is_zero_behind && size >= slot->size) {
    action = is_aligned ? "rezalloc_aligned_at" : "rezalloc";
    slot->p = (unsigned char*)(is_aligned ? mi_rezalloc_aligned_at(slot->p, size, slot->alignment,
                                                                   slot->offset)
                                          : mi_rezalloc(slot->p, size));
  } else {
    action = is_aligned ? "realloc_aligned_at" : "realloc";
    slot->is_zero_behind = false;
    slot->p = (unsigned char*)(is_aligned ? mi_realloc_aligned_at(slot->p, size, slot->alignment,
                                                                  slot->offset)
                                          : mi_realloc(slot->p, size));
  }
  slot->size = size;
  REQUIRE(slot, slot->p != NULL);
  if (slot->p == old) action = "resize in place";
  accept(slot, kept);
}

static void expand(shadow_t* slot) {
  action = "expand";
  const size_t size = slot->size + draw(slot->size + 10);
  void* const p = mi_expand(slot->p, size);
  if (p == NULL) return;
  REQUIRE(slot, p == slot->p);
  REQUIRE(slot, mi_usable_size(slot->p) >= size);
  slot->size = size;
  slot->is_zero_behind = false;
  accept(slot, slot->filled < size ? slot->filled : size);
}

static void release(shadow_t* slot) {
  action = "free";
  look(slot);
  switch (draw(5)) {
    case 0:
      mi_free_size(slot->p, slot->size);
      break;
    case 1:
      mi_free_aligned(slot->p, slot->offset == 0 ? slot->alignment : 1);
      break;
    case 2:
      mi_cfree(slot->p);
      break;
    default:
      mi_free(slot->p);
      break;
  }
  slot->p = NULL;
}

static void* release_some(void* arg) {
  (void)arg;
  for (size_t i = 0; i < SLOT_COUNT; i += 3) {
    if (slots[i].p == NULL) continue;
    mi_free(slots[i].p);
    slots[i].p = NULL;
  }
  // Blocks of this thread stay when it ends.
  for (size_t i = 0; i < SLOT_COUNT; i += 6) {
    slots[i].size = 100 + i;
    slots[i].alignment = 1;
    slots[i].offset = 0;
    slots[i].is_zero_behind = false;
    slots[i].p = (unsigned char*)mi_malloc(slots[i].size);
  }
  return NULL;
}

static void release_on_another_thread(void) {
  action = "free on another thread";
  for (size_t i = 0; i < SLOT_COUNT; i += 3) {
    if (slots[i].p != NULL) look(&slots[i]);
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, &release_some, NULL) != 0) return;
  pthread_join(thread, NULL);
  for (size_t i = 0; i < SLOT_COUNT; i += 6) accept(&slots[i], 0);
}

// -- The whole model --

static int compare_slots(const void* a, const void* b) {
  const shadow_t* const x = *(shadow_t* const*)a;
  const shadow_t* const y = *(shadow_t* const*)b;
  return x->p < y->p ? -1 : (x->p > y->p ? 1 : 0);
}

static void check_everything(void) {
  static shadow_t* live[SLOT_COUNT];
  size_t count = 0;
  action = "check";
  for (size_t i = 0; i < SLOT_COUNT; i++) {
    if (slots[i].p == NULL) continue;
    look(&slots[i]);
    live[count++] = &slots[i];
  }
  qsort(live, count, sizeof(live[0]), &compare_slots);
  for (size_t i = 1; i < count; i++) {
    const shadow_t* const lower = live[i - 1];
    REQUIRE(lower, lower->p + mi_usable_size(lower->p) <= live[i]->p && "blocks do not overlap");
  }
}

static void run_sequence(void) {
  random_state = seed;
  for (operation = 0; operation < OPERATIONS; operation++) {
    shadow_t* const slot = &slots[draw(SLOT_COUNT)];
    if (slot->p == NULL) {
      allocate(slot);
    } else if (draw(3) == 0) {
      resize(slot);
    } else if (draw(20) == 0) {
      expand(slot);
    } else {
      release(slot);
    }
    if (draw(500) == 0) check_everything();
    if (draw(700) == 0) release_on_another_thread();
    if (draw(900) == 0) mi_collect(draw(2) == 0);
  }
  check_everything();
  for (size_t i = 0; i < SLOT_COUNT; i++) {
    if (slots[i].p != NULL) release(&slots[i]);
  }
}

static uint64_t now_ms(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

// If this fails, some sequence of calls corrupts the data of a program.
static void property_random_sequences(void** state) {
  (void)state;
  const uint64_t start = now_ms();
  size_t done = 0;
  for (;;) {
    seed = first_seed + done;
    run_sequence();
    done++;
    if (sequence_limit != 0 ? done >= sequence_limit : now_ms() - start > TIME_LIMIT_MS) break;
  }
  printf("FIGURE property_operations %zu\n", done * OPERATIONS);
}

int main(int argc, char** argv) {
  first_seed = now_ms() % 1000000000;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--seed=", 7) == 0) {
      first_seed = strtoull(argv[i] + 7, NULL, 10);
      if (sequence_limit == 0) sequence_limit = 1;
    } else if (strncmp(argv[i], "--sequences=", 12) == 0) {
      sequence_limit = strtoull(argv[i] + 12, NULL, 10);
    }
  }
  printf("# seed %llu\n", (unsigned long long)first_seed);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(property_random_sequences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
