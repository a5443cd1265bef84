// SPDX-License-Identifier: MIT
// espresso.c - minimise the two-level form of a Boolean function with several outputs.
//
// Pattern: covers (growing arrays of cubes of a few words) and single cubes, made and freed at
// every level of deep recursions: complement and tautology split a cover into cofactors until they
// are trivial. Blocks from 12 bytes to some 10 KiB, most of them short-lived, sizes mixed.
// Asks: fast malloc and free of mixed small sizes, a cheap realloc, and no memory lost to the mix.
//
// Method: Brayton, Hachtel, McMullen and Sangiovanni-Vincentelli, "Logic Minimization Algorithms
// for VLSI Synthesis", 1984: expand against the off-set, make irredundant, reduce, until nothing
// is won. As a benchmark: Grunwald, Zorn and Henderson, "Improving the Cache Locality of Memory
// Allocation", 1993.
// Differs: the function is generated; redundant cubes are dropped one by one instead of by a
// minimum cover; no essential primes, no last gasp, no special treatment of unate covers.
#include "bench.h"

#define INPUTS 16
#define OUTPUTS 10
#define CUBE_WORDS 2 // one of inputs, two bits each (may be 0, may be 1), and one of outputs
#define BITS (2 * INPUTS + OUTPUTS)

typedef uint32_t word_t;

// A set of cubes: the outputs of `cubes[i]` are 1 wherever its inputs hold.
typedef struct cover_s {
  size_t count;
  size_t capacity;
  word_t* cubes;
} cover_t;

static const word_t universe[CUBE_WORDS] = {UINT32_MAX, (1u << OUTPUTS) - 1};
static uint64_t mallocs;

// ---- cubes ----

static word_t* cube_new(const word_t* from) {
  mallocs++;
  word_t* const cube = bench_malloc(CUBE_WORDS * sizeof(word_t));
  memcpy(cube, from, CUBE_WORDS * sizeof(word_t));
  return cube;
}

static bool bit_get(const word_t* cube, size_t bit) { return (cube[bit / 32] >> (bit % 32)) & 1; }

static void bit_set(word_t* cube, size_t bit) { cube[bit / 32] |= (word_t)1 << (bit % 32); }

static void bit_clear(word_t* cube, size_t bit) { cube[bit / 32] &= ~((word_t)1 << (bit % 32)); }

static bool is_full(const word_t* cube) { return cube[0] == universe[0] && cube[1] == universe[1]; }

static bool is_disjoint(const word_t* a, const word_t* b) {
  const word_t inputs = a[0] & b[0];
  return (~(inputs | (inputs >> 1)) & 0x55555555u) != 0 || (a[1] & b[1]) == 0;
}

static bool is_inside(const word_t* inner, const word_t* outer) {
  return (inner[0] & ~outer[0]) == 0 && (inner[1] & ~outer[1]) == 0;
}

static size_t cube_weight(const word_t* cube) {
  return (size_t)__builtin_popcount(cube[0]) + (size_t)__builtin_popcount(cube[1]);
}

// A variable is a range of bits: two for an input, all outputs together for the last.
static size_t variable_first(size_t variable) { return 2 * variable; }

static size_t variable_end(size_t variable) {
  return variable < INPUTS ? 2 * variable + 2 : (size_t)BITS;
}

// ---- covers ----

static cover_t* cover_new(size_t capacity) {
  mallocs += 2;
  cover_t* const cover = bench_malloc(sizeof(cover_t));
  *cover = (cover_t){0, capacity, bench_malloc((capacity + 1) * CUBE_WORDS * sizeof(word_t))};
  return cover;
}

static void cover_free(cover_t* cover) {
  free(cover->cubes);
  free(cover);
}

static word_t* cube_at(const cover_t* cover, size_t i) { return cover->cubes + i * CUBE_WORDS; }

static void cover_push(cover_t* cover, const word_t* cube) {
  if (cover->count == cover->capacity) {
    cover->capacity = cover->capacity * 2 + 2;
    cover->cubes = realloc(cover->cubes, (cover->capacity + 1) * CUBE_WORDS * sizeof(word_t));
    if (cover->cubes == NULL) bench_fail("realloc returned NULL");
    mallocs++;
  }
  memcpy(cube_at(cover, cover->count++), cube, CUBE_WORDS * sizeof(word_t));
}

// What the cover is inside `cube`, as if there were nothing else.
static cover_t* cofactor(const cover_t* cover, const word_t* cube) {
  cover_t* const result = cover_new(cover->count);
  for (size_t i = 0; i < cover->count; i++) {
    if (is_disjoint(cube_at(cover, i), cube)) continue;
    word_t* const wide = cube_new(cube_at(cover, i));
    for (size_t w = 0; w < CUBE_WORDS; w++) wide[w] |= ~cube[w] & universe[w];
    cover_push(result, wide);
    free(wide);
  }
  return result;
}

static bool has_full_cube(const cover_t* cover) {
  for (size_t i = 0; i < cover->count; i++) {
    if (is_full(cube_at(cover, i))) return true;
  }
  return false;
}

// Choose the variable that most cubes depend on, and halve the values that matter between two
// cubes: both together are everything.
static void split_choose(const cover_t* cover, word_t** left, word_t** right) {
  size_t zeros[BITS] = {0};
  for (size_t i = 0; i < cover->count; i++) {
    for (size_t bit = 0; bit < BITS; bit++) zeros[bit] += !bit_get(cube_at(cover, i), bit);
  }
  size_t best = 0;
  size_t best_score = 0;
  for (size_t variable = 0; variable <= INPUTS; variable++) {
    size_t total = 0;
    size_t values = 0;
    for (size_t bit = variable_first(variable); bit < variable_end(variable); bit++) {
      total += zeros[bit];
      values += zeros[bit] > 0;
    }
    // Whatever divides the cover comes before what only thins it out.
    const size_t score = total + (values > 1 ? cover->count * OUTPUTS : 0);
    if (score > best_score) {
      best_score = score;
      best = variable;
    }
  }
  *left = cube_new(universe);
  *right = cube_new(universe);
  bool is_left = true;
  for (size_t bit = variable_first(best); bit < variable_end(best); bit++) {
    bit_clear(zeros[bit] > 0 && is_left ? *right : *left, bit);
    if (zeros[bit] > 0) is_left = !is_left;
  }
}

// True if every point is covered.
static bool is_tautology(const cover_t* cover) {
  if (has_full_cube(cover)) return true;
  word_t seen[CUBE_WORDS] = {0};
  for (size_t i = 0; i < cover->count; i++) {
    for (size_t w = 0; w < CUBE_WORDS; w++) seen[w] |= cube_at(cover, i)[w];
  }
  if (!is_full(seen)) return false;
  word_t* left = NULL;
  word_t* right = NULL;
  split_choose(cover, &left, &right);
  cover_t* const left_cover = cofactor(cover, left);
  bool result = is_tautology(left_cover);
  cover_free(left_cover);
  if (result) {
    cover_t* const right_cover = cofactor(cover, right);
    result = is_tautology(right_cover);
    cover_free(right_cover);
  }
  free(left);
  free(right);
  return result;
}

// The complement of one cube: for each variable that it depends on, all other values.
static cover_t* cube_complement(const word_t* cube) {
  cover_t* const result = cover_new(4);
  for (size_t variable = 0; variable <= INPUTS; variable++) {
    word_t* const other = cube_new(universe);
    bool has_value = false;
    for (size_t bit = variable_first(variable); bit < variable_end(variable); bit++) {
      if (bit_get(cube, bit)) {
        bit_clear(other, bit);
      } else {
        has_value = true;
      }
    }
    if (has_value) cover_push(result, other);
    free(other);
  }
  return result;
}

// Join two complements that hold inside `left` and `right`: a cube that is in both holds
// everywhere.
static cover_t* complement_merge(cover_t* a, cover_t* b, const word_t* left, const word_t* right) {
  cover_t* const result = cover_new(a->count + b->count);
  for (size_t i = 0; i < a->count; i++) {
    size_t twin = 0;
    while (twin < b->count && memcmp(cube_at(a, i), cube_at(b, twin), sizeof(universe)) != 0)
      twin++;
    word_t* const cube = cube_new(cube_at(a, i));
    if (twin < b->count) {
      memcpy(cube_at(b, twin), cube_at(b, --b->count), sizeof(universe));
    } else {
      for (size_t w = 0; w < CUBE_WORDS; w++) cube[w] &= left[w];
    }
    cover_push(result, cube);
    free(cube);
  }
  for (size_t i = 0; i < b->count; i++) {
    word_t* const cube = cube_new(cube_at(b, i));
    for (size_t w = 0; w < CUBE_WORDS; w++) cube[w] &= right[w];
    cover_push(result, cube);
    free(cube);
  }
  cover_free(a);
  cover_free(b);
  return result;
}

static cover_t* complement(const cover_t* cover) {
  if (cover->count == 0) {
    cover_t* const all = cover_new(1);
    cover_push(all, universe);
    return all;
  }
  if (has_full_cube(cover)) return cover_new(0);
  if (cover->count == 1) return cube_complement(cube_at(cover, 0));
  word_t* left = NULL;
  word_t* right = NULL;
  split_choose(cover, &left, &right);
  cover_t* const left_cover = cofactor(cover, left);
  cover_t* const left_complement = complement(left_cover);
  cover_free(left_cover);
  cover_t* const right_cover = cofactor(cover, right);
  cover_t* const right_complement = complement(right_cover);
  cover_free(right_cover);
  cover_t* const result = complement_merge(left_complement, right_complement, left, right);
  free(left);
  free(right);
  return result;
}

// ---- the three steps ----

// Order the cubes by weight (insertion sort: covers are short).
static void cover_sort(cover_t* cover, bool (*is_before)(size_t weight, size_t other)) {
  for (size_t i = 1; i < cover->count; i++) {
    word_t* const cube = cube_new(cube_at(cover, i));
    const size_t weight = cube_weight(cube);
    size_t k = i;
    for (; k > 0 && is_before(weight, cube_weight(cube_at(cover, k - 1))); k--) {
      memcpy(cube_at(cover, k), cube_at(cover, k - 1), sizeof(universe));
    }
    memcpy(cube_at(cover, k), cube, sizeof(universe));
    free(cube);
  }
}

static bool is_lighter(size_t weight, size_t other) { return weight < other; }

static bool is_heavier(size_t weight, size_t other) { return weight > other; }

static void raise_cube(word_t* cube, const cover_t* off, const size_t* order) {
  for (size_t i = 0; i < BITS; i++) {
    if (bit_get(cube, order[i])) continue;
    word_t* const raised = cube_new(cube);
    bit_set(raised, order[i]);
    size_t k = 0;
    while (k < off->count && is_disjoint(raised, cube_at(off, k))) k++;
    if (k == off->count) bit_set(cube, order[i]);
    free(raised);
  }
}

// Make each cube as large as the off-set allows, and drop those that came to lie inside another.
static cover_t* expand(cover_t* cover, const cover_t* off) {
  size_t ones[BITS] = {0};
  size_t order[BITS];
  for (size_t i = 0; i < cover->count; i++) {
    for (size_t bit = 0; bit < BITS; bit++) ones[bit] += bit_get(cube_at(cover, i), bit);
  }
  for (size_t i = 0; i < BITS; i++) { // most frequent values first
    size_t k = i;
    for (; k > 0 && ones[order[k - 1]] < ones[i]; k--) order[k] = order[k - 1];
    order[k] = i;
  }
  cover_sort(cover, is_lighter);
  cover_t* const result = cover_new(cover->count);
  while (cover->count > 0) {
    word_t* const prime = cube_new(cube_at(cover, 0));
    raise_cube(prime, off, order);
    size_t kept = 0;
    for (size_t i = 1; i < cover->count; i++) {
      if (is_inside(cube_at(cover, i), prime)) continue;
      memmove(cube_at(cover, kept++), cube_at(cover, i), sizeof(universe));
    }
    cover->count = kept;
    cover_push(result, prime);
    free(prime);
  }
  cover_free(cover);
  return result;
}

// All cubes but one, and all of `dont_care`, as seen inside the one.
static cover_t* rest_inside(const cover_t* cover, size_t skipped, const cover_t* dont_care) {
  cover_t* const rest = cover_new(8);
  for (size_t i = 0; i < cover->count; i++) {
    if (i != skipped) cover_push(rest, cube_at(cover, i));
  }
  for (size_t i = 0; i < dont_care->count; i++) cover_push(rest, cube_at(dont_care, i));
  cover_t* const result = cofactor(rest, cube_at(cover, skipped));
  cover_free(rest);
  return result;
}

static void cover_drop(cover_t* cover, size_t index) {
  cover->count--;
  memmove(cube_at(cover, index), cube_at(cover, index + 1),
          (cover->count - index) * sizeof(universe));
}

// Drop each cube that the others cover, small ones first.
static void make_irredundant(cover_t* cover, const cover_t* dont_care) {
  cover_sort(cover, is_lighter);
  for (size_t i = 0; i < cover->count;) {
    cover_t* const rest = rest_inside(cover, i, dont_care);
    if (is_tautology(rest)) {
      cover_drop(cover, i);
    } else {
      i++;
    }
    cover_free(rest);
  }
}

// Shrink each cube to what only it covers, large ones first, so that it can grow elsewhere.
static void reduce(cover_t* cover, const cover_t* dont_care) {
  cover_sort(cover, is_heavier);
  for (size_t i = 0; i < cover->count;) {
    cover_t* const rest = rest_inside(cover, i, dont_care);
    cover_t* const needed = complement(rest);
    cover_free(rest);
    word_t hull[CUBE_WORDS] = {0};
    for (size_t k = 0; k < needed->count; k++) {
      for (size_t w = 0; w < CUBE_WORDS; w++) hull[w] |= cube_at(needed, k)[w];
    }
    if (needed->count == 0) {
      cover_drop(cover, i);
    } else {
      for (size_t w = 0; w < CUBE_WORDS; w++) cube_at(cover, i)[w] &= hull[w];
      i++;
    }
    cover_free(needed);
  }
}

static size_t cover_cost(const cover_t* cover) {
  size_t literals = 0;
  for (size_t i = 0; i < cover->count; i++) literals += BITS - cube_weight(cube_at(cover, i));
  return cover->count * 1000 + literals;
}

static cover_t* cover_join(const cover_t* a, const cover_t* b) {
  cover_t* const result = cover_new(a->count + b->count);
  for (size_t i = 0; i < a->count; i++) cover_push(result, cube_at(a, i));
  for (size_t i = 0; i < b->count; i++) cover_push(result, cube_at(b, i));
  return result;
}

static cover_t* minimise(const cover_t* on, const cover_t* dont_care) {
  cover_t* const both = cover_join(on, dont_care);
  cover_t* const off = complement(both);
  cover_free(both);
  cover_t* const nothing = cover_new(0);
  cover_t* cover = expand(cover_join(on, nothing), off);
  cover_free(nothing);
  make_irredundant(cover, dont_care);
  for (size_t cost = SIZE_MAX; cover_cost(cover) < cost;) {
    cost = cover_cost(cover);
    reduce(cover, dont_care);
    cover = expand(cover, off);
    make_irredundant(cover, dont_care);
  }
  cover_free(off);
  return cover;
}

// ---- the function, and the test of the result ----

// Cubes with `literals` inputs each that drive one to three outputs.
static cover_t* cover_random(bench_random_t* random, size_t count, size_t literals) {
  cover_t* const cover = cover_new(0);
  for (size_t i = 0; i < count; i++) {
    word_t cube[CUBE_WORDS] = {universe[0], 0};
    for (size_t k = 0; k < literals; k++) {
      const size_t variable = bench_below(random, INPUTS);
      if (((cube[0] >> (2 * variable)) & 3) == 3)
        bit_clear(cube, 2 * variable + bench_below(random, 2));
    }
    for (size_t k = bench_between(random, 1, 3); k > 0; k--) {
      bit_set(cube, 32 + bench_below(random, OUTPUTS));
    }
    cover_push(cover, cube);
  }
  return cover;
}

// The outputs of a cover at a point.
static word_t cover_value(const cover_t* cover, word_t point) {
  word_t value = 0;
  for (size_t i = 0; i < cover->count; i++) {
    if ((point & ~cube_at(cover, i)[0]) == 0) value |= cube_at(cover, i)[1];
  }
  return value;
}

static void verify(const cover_t* on, const cover_t* dont_care, const cover_t* result) {
  bench_random_t random = {99};
  for (size_t i = 0; i < 2000; i++) {
    word_t point = 0;
    for (size_t v = 0; v < INPUTS; v++) point |= (word_t)1 << (2 * v + bench_below(&random, 2));
    const word_t free_outputs = cover_value(dont_care, point);
    if (((cover_value(on, point) ^ cover_value(result, point)) & ~free_outputs) != 0) {
      bench_fail("the minimised cover is another function");
    }
  }
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t functions = bench_pick(args, 1, 3, 10);
  const size_t cubes = bench_pick(args, 20, 90, 90);
  bench_random_t random = {1984};
  uint64_t check = 0;
  for (size_t f = 0; f < functions; f++) {
    cover_t* const on = cover_random(&random, cubes, 7);
    cover_t* const dont_care = cover_random(&random, cubes / 8, 7);
    cover_t* const result = minimise(on, dont_care);
    verify(on, dont_care, result);
    check = check * 31 + result->count;
    for (size_t i = 0; i < result->count; i++) {
      for (size_t w = 0; w < CUBE_WORDS; w++) check = check * 1000003 + cube_at(result, i)[w];
    }
    cover_free(result);
    cover_free(dont_care);
    cover_free(on);
  }
  bench_report(check, mallocs);
  return 0;
}
