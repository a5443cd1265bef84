// SPDX-License-Identifier: MIT
// cfrac.c - factor a number with the continued fraction method, every intermediate number a block.
//
// Pattern: numbers of unlimited length, each in a block of its own that is freed as soon as it was
// used. Blocks have 8 to 60 bytes, nearly all live for a few hundred instructions, and few are
// alive at any time: a malloc and a free for every division by a prime.
// Asks: the shortest possible malloc and free of tiny blocks, last in first out.
//
// Method: Morrison and Brillhart, "A Method of Factoring and the Factorization of F7", 1975. As a
// benchmark: cfrac by Dave Barrett, described in Zorn and Grunwald, "Empirical Measurements of Six
// Allocation-Intensive C Programs", 1992, and Leijen, Zorn and de Moura, "Mimalloc: Free List
// Sharding in Action", 2019.
// Differs: numbers are freed by their one user instead of being counted; digits have 32 bits; one
// early abort; no large primes, so a relation factors completely over the base.
#include "bench.h"

// Digits to the base 2^32, least significant first; the last one is not 0, so zero has no digits.
typedef struct number_s {
  uint32_t length;
  uint32_t digits[];
} number_t;

// x * x = root * root * product of the primes that are odd (mod N); odd[0] stands for the sign.
typedef struct relation_s {
  number_t* x;
  number_t* root;
  bool* odd;
} relation_t;

static uint64_t mallocs;

static void* block_new(size_t size) {
  mallocs++;
  return bench_malloc(size);
}

static number_t* number_new(uint32_t length) {
  number_t* const n = block_new(sizeof(number_t) + length * sizeof(uint32_t));
  n->length = length;
  return n;
}

static uint32_t number_bits(const number_t* a) {
  if (a->length == 0) return 0;
  return 32 * a->length - (uint32_t)__builtin_clz(a->digits[a->length - 1]);
}

static number_t* number_trim(number_t* n) {
  while (n->length > 0 && n->digits[n->length - 1] == 0) n->length--;
  return n;
}

static number_t* number_small(uint32_t value) {
  number_t* const n = number_new(1);
  n->digits[0] = value;
  return number_trim(n);
}

static number_t* number_copy(const number_t* a) {
  number_t* const n = number_new(a->length);
  memcpy(n->digits, a->digits, a->length * sizeof(uint32_t));
  return n;
}

// Let `*place` be `value`, and free what it was.
static void number_replace(number_t** place, number_t* value) {
  free(*place);
  *place = value;
}

static int number_compare(const number_t* a, const number_t* b) {
  if (a->length != b->length) return a->length < b->length ? -1 : 1;
  for (uint32_t i = a->length; i-- > 0;) {
    if (a->digits[i] != b->digits[i]) return a->digits[i] < b->digits[i] ? -1 : 1;
  }
  return 0;
}

static bool number_is_one(const number_t* a) { return a->length == 1 && a->digits[0] == 1; }

static number_t* number_add(const number_t* a, const number_t* b) {
  if (a->length < b->length) return number_add(b, a);
  number_t* const n = number_new(a->length + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < a->length; i++) {
    carry += (uint64_t)a->digits[i] + (i < b->length ? b->digits[i] : 0);
    n->digits[i] = (uint32_t)carry;
    carry >>= 32;
  }
  n->digits[a->length] = (uint32_t)carry;
  return number_trim(n);
}

// a - b, where a >= b.
static number_t* number_subtract(const number_t* a, const number_t* b) {
  number_t* const n = number_new(a->length);
  uint64_t borrow = 0;
  for (uint32_t i = 0; i < a->length; i++) {
    const uint64_t digit = (uint64_t)a->digits[i] - (i < b->length ? b->digits[i] : 0) - borrow;
    n->digits[i] = (uint32_t)digit;
    borrow = digit >> 63;
  }
  if (borrow != 0) bench_fail("a number became negative");
  return number_trim(n);
}

static number_t* number_multiply(const number_t* a, const number_t* b) {
  number_t* const n = number_new(a->length + b->length);
  memset(n->digits, 0, n->length * sizeof(uint32_t));
  for (uint32_t i = 0; i < a->length; i++) {
    uint64_t carry = 0;
    for (uint32_t j = 0; j < b->length; j++) {
      carry += (uint64_t)a->digits[i] * b->digits[j] + n->digits[i + j];
      n->digits[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
    n->digits[i + b->length] = (uint32_t)carry;
  }
  return number_trim(n);
}

static number_t* number_divide_small(const number_t* a, uint32_t divisor, uint32_t* remainder) {
  number_t* const n = number_new(a->length);
  uint64_t rest = 0;
  for (uint32_t i = a->length; i-- > 0;) {
    rest = (rest << 32) | a->digits[i];
    n->digits[i] = (uint32_t)(rest / divisor);
    rest %= divisor;
  }
  *remainder = (uint32_t)rest;
  return number_trim(n);
}

// a << shift with one digit more, not trimmed; shift < 32.
static number_t* number_shifted(const number_t* a, uint32_t shift) {
  number_t* const n = number_new(a->length + 1);
  uint64_t carry = 0;
  for (uint32_t i = 0; i < a->length; i++) {
    carry |= (uint64_t)a->digits[i] << shift;
    n->digits[i] = (uint32_t)carry;
    carry >>= 32;
  }
  n->digits[a->length] = (uint32_t)carry;
  return n;
}

// One digit of the quotient of u by v at `place`, and u without it (schoolbook, guessed from the
// leading digits; v has its highest bit set).
static uint32_t number_divide_step(number_t* u, const number_t* v, uint32_t size, uint32_t place) {
  const uint64_t leading = ((uint64_t)u->digits[place + size] << 32) | u->digits[place + size - 1];
  uint64_t guess = leading / v->digits[size - 1];
  if (guess > UINT32_MAX) guess = UINT32_MAX;
  uint64_t carry = 0;
  uint64_t borrow = 0;
  for (uint32_t i = 0; i <= size; i++) {
    carry += guess * (i < size ? v->digits[i] : 0);
    const uint64_t digit = (uint64_t)u->digits[place + i] - (uint32_t)carry - borrow;
    u->digits[place + i] = (uint32_t)digit;
    borrow = digit >> 63;
    carry >>= 32;
  }
  while (borrow != 0) { // the guess was too large by one or two
    guess--;
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= size; i++) {
      sum += (uint64_t)u->digits[place + i] + (i < size ? v->digits[i] : 0);
      u->digits[place + i] = (uint32_t)sum;
      sum >>= 32;
    }
    borrow -= sum;
  }
  return (uint32_t)guess;
}

// a / b; the remainder only if `remainder` is not NULL.
static number_t* number_divide(const number_t* a, const number_t* b, number_t** remainder) {
  if (b->length == 0) bench_fail("a division by zero");
  if (number_compare(a, b) < 0) {
    if (remainder != NULL) *remainder = number_copy(a);
    return number_new(0);
  }
  if (b->length == 1) {
    uint32_t rest = 0;
    number_t* const quotient = number_divide_small(a, b->digits[0], &rest);
    if (remainder != NULL) *remainder = number_small(rest);
    return quotient;
  }
  const uint32_t size = b->length;
  const uint32_t shift = (uint32_t)__builtin_clz(b->digits[size - 1]);
  number_t* const u = number_shifted(a, shift);
  number_t* const v = number_shifted(b, shift);
  number_t* const quotient = number_new(a->length - size + 1);
  for (uint32_t place = a->length - size + 1; place-- > 0;) {
    quotient->digits[place] = number_divide_step(u, v, size, place);
  }
  free(v);
  if (remainder != NULL) {
    number_t* const rest = number_new(size);
    for (uint32_t i = 0; i < size; i++) {
      const uint64_t pair = ((uint64_t)u->digits[i + 1] << 32) | u->digits[i];
      rest->digits[i] = (uint32_t)(pair >> shift);
    }
    *remainder = number_trim(rest);
  }
  free(u);
  return number_trim(quotient);
}

static number_t* number_modulo(const number_t* a, const number_t* b) {
  number_t* rest = NULL;
  free(number_divide(a, b, &rest));
  return rest;
}

static number_t* number_multiply_modulo(const number_t* a, const number_t* b, const number_t* n) {
  number_t* const product = number_multiply(a, b);
  number_t* const rest = number_modulo(product, n);
  free(product);
  return rest;
}

static number_t* number_gcd(const number_t* a, const number_t* b) {
  number_t* x = number_copy(a);
  number_t* y = number_copy(b);
  while (y->length > 0) {
    number_t* const rest = number_modulo(x, y);
    number_replace(&x, y);
    y = rest;
  }
  free(y);
  return x;
}

// The integer part of the square root (Newton's iteration from above).
static number_t* number_root(const number_t* a) {
  number_t* root = number_copy(a);
  for (;;) {
    uint32_t rest = 0;
    number_t* const quotient = number_divide(a, root, NULL);
    number_t* const sum = number_add(root, quotient);
    number_t* const next = number_divide_small(sum, 2, &rest);
    free(quotient);
    free(sum);
    if (number_compare(next, root) >= 0) {
      free(next);
      return root;
    }
    number_replace(&root, next);
  }
}

static number_t* number_parse(const char* text) {
  number_t* n = number_new(0);
  number_t* const ten = number_small(10);
  for (; *text != '\0'; text++) {
    number_t* const digit = number_small((uint32_t)(*text - '0'));
    number_t* const product = number_multiply(n, ten);
    number_replace(&n, number_add(product, digit));
    free(product);
    free(digit);
  }
  free(ten);
  return n;
}

// ---- the method ----

#define BASE_MAX 1024

static uint32_t base[BASE_MAX]; // base[0] is unused: it stands for the sign
static size_t base_count;
static relation_t* pivots[BASE_MAX]; // by the first prime with an odd exponent

static uint32_t power_modulo(uint64_t value, uint32_t exponent, uint32_t modulus) {
  uint64_t result = 1;
  for (value %= modulus; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * value % modulus;
    value = value * value % modulus;
  }
  return (uint32_t)result;
}

// The primes that can divide a Q of the expansion: those of which N is a square.
static void base_make(const number_t* n, size_t count) {
  base[0] = 1;
  base[1] = 2;
  base_count = 2;
  for (uint32_t candidate = 3; base_count < count; candidate += 2) {
    bool is_prime = true;
    for (uint32_t d = 3; d * d <= candidate && is_prime; d += 2) is_prime = candidate % d != 0;
    if (!is_prime) continue;
    uint32_t rest = 0;
    free(number_divide_small(n, candidate, &rest));
    if (power_modulo(rest, (candidate - 1) / 2, candidate) == 1) base[base_count++] = candidate;
  }
}

// Divide by all primes of the base; NULL unless nothing is left. Gives up early when the small
// primes have left more than `abort_bits`: the others would hardly ever divide all of that.
static uint32_t* exponents_of(const number_t* q, bool is_negative, uint32_t abort_bits) {
  uint32_t* const exponents = block_new(base_count * sizeof(uint32_t));
  memset(exponents, 0, base_count * sizeof(uint32_t));
  exponents[0] = is_negative ? 1 : 0;
  number_t* left = number_copy(q);
  for (size_t i = 1; i < base_count && !number_is_one(left); i++) {
    if (i == base_count / 6 && number_bits(left) > abort_bits) break;
    for (;;) {
      uint32_t rest = 0;
      number_t* const quotient = number_divide_small(left, base[i], &rest);
      if (rest != 0) {
        free(quotient);
        break;
      }
      number_replace(&left, quotient);
      exponents[i]++;
    }
  }
  const bool is_smooth = number_is_one(left);
  free(left);
  if (is_smooth) return exponents;
  free(exponents);
  return NULL;
}

static void relation_free(relation_t* r) {
  free(r->x);
  free(r->root);
  free(r->odd);
  free(r);
}

// Multiply the root of a relation by a prime of the base.
static void relation_multiply(relation_t* r, size_t index, const number_t* n) {
  number_t* const prime = number_small(base[index]);
  number_replace(&r->root, number_multiply_modulo(r->root, prime, n));
  free(prime);
}

// x * x = product of the primes to these exponents (mod n). Frees the exponents.
static relation_t* relation_new(const number_t* x, uint32_t* exponents, const number_t* n) {
  relation_t* const r = block_new(sizeof(relation_t));
  *r = (relation_t){number_copy(x), number_small(1), block_new(base_count * sizeof(bool))};
  for (size_t i = 0; i < base_count; i++) {
    r->odd[i] = exponents[i] % 2 == 1;
    for (uint32_t k = 0; k < exponents[i] / 2; k++) relation_multiply(r, i, n);
  }
  free(exponents);
  return r;
}

// Multiply one relation by another: what is odd in both goes to the root.
static void relation_join(relation_t* r, const relation_t* other, const number_t* n) {
  number_replace(&r->x, number_multiply_modulo(r->x, other->x, n));
  number_replace(&r->root, number_multiply_modulo(r->root, other->root, n));
  for (size_t i = 0; i < base_count; i++) {
    // The sign needs no root: minus one twice is one.
    if (r->odd[i] && other->odd[i] && i > 0) relation_multiply(r, i, n);
    r->odd[i] = r->odd[i] != other->odd[i];
  }
}

// x * x = root * root (mod n): a factor in two of three cases, else NULL.
static number_t* relation_factor(const relation_t* r, const number_t* n) {
  number_t* const left = number_multiply_modulo(r->x, r->x, n);
  number_t* const right = number_multiply_modulo(r->root, r->root, n);
  if (number_compare(left, right) != 0) bench_fail("two squares differ: a number has changed");
  free(left);
  free(right);
  const bool is_above = number_compare(r->x, r->root) >= 0;
  number_t* const gap = is_above ? number_subtract(r->x, r->root) : number_subtract(r->root, r->x);
  number_t* factor = number_gcd(n, gap);
  free(gap);
  if (number_is_one(factor) || number_compare(factor, n) == 0) number_replace(&factor, NULL);
  return factor;
}

// Eliminate with what is known; a relation with no odd prime may give a factor.
static number_t* relation_add(relation_t* r, const number_t* n) {
  for (size_t i = 0; i < base_count; i++) {
    if (!r->odd[i]) continue;
    if (pivots[i] == NULL) {
      pivots[i] = r;
      return NULL;
    }
    relation_join(r, pivots[i], n);
  }
  number_t* const factor = relation_factor(r, n);
  relation_free(r);
  return factor;
}

// The state of the expansion of the square root of n, between two steps.
typedef struct expansion_s {
  number_t* root; // of n, rounded down
  number_t* p;
  number_t* q;
  number_t* a; // numerator of the convergent, modulo n
  number_t* a_before; // the one before
  number_t* quotient;
} expansion_t;

static void expansion_step(expansion_t* e, const number_t* n) {
  number_t* const product = number_multiply(e->quotient, e->q);
  number_replace(&e->p, number_subtract(product, e->p));
  free(product);
  number_t* const square = number_multiply(e->p, e->p);
  number_t* const gap = number_subtract(n, square);
  number_replace(&e->q, number_divide(gap, e->q, NULL));
  free(square);
  free(gap);
}

static void expansion_advance(expansion_t* e, const number_t* n) {
  number_t* const sum = number_add(e->root, e->p);
  number_replace(&e->quotient, number_divide(sum, e->q, NULL));
  free(sum);
  number_t* const product = number_multiply(e->quotient, e->a);
  number_t* const total = number_add(product, e->a_before);
  number_replace(&e->a_before, e->a);
  e->a = number_modulo(total, n);
  free(product);
  free(total);
}

static number_t* factor_of(const number_t* n) {
  expansion_t e = {number_root(n), number_new(0), number_small(1), NULL, number_small(1), NULL};
  e.quotient = number_copy(e.root);
  e.a = number_copy(e.root);
  const uint32_t abort_bits = number_bits(e.root) * 3 / 4;
  number_t* factor = NULL;
  for (size_t step = 1; factor == NULL; step++) {
    if (step > 10000000) bench_fail("no factor was found");
    expansion_step(&e, n);
    uint32_t* const exponents = exponents_of(e.q, step % 2 == 1, abort_bits);
    if (exponents != NULL) factor = relation_add(relation_new(e.a, exponents, n), n);
    expansion_advance(&e, n);
  }
  number_t* const all[] = {e.root, e.p, e.q, e.a, e.a_before, e.quotient};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) free(all[i]);
  return factor;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  static const char* const numbers[] = {"202673372839330929191", "15710238267446801793827836256009",
                                        "196315291640235775862530133742552187"};
  static const size_t bases[] = {80, 300, 600};
  number_t* const n = number_parse(numbers[args.scale]);
  base_make(n, bases[args.scale]);
  number_t* const factor = factor_of(n);
  number_t* rest = NULL;
  number_t* const other = number_divide(n, factor, &rest);
  if (rest->length != 0) bench_fail("what was found does not divide the number");
  // The smaller of the two, so that the check does not depend on which was found.
  const number_t* const smaller = number_compare(factor, other) < 0 ? factor : other;
  uint64_t check = 0;
  for (uint32_t i = smaller->length; i-- > 0;) check = (check << 32) | smaller->digits[i];
  free(rest);
  free(other);
  free(factor);
  free(n);
  for (size_t i = 0; i < base_count; i++) {
    if (pivots[i] != NULL) relation_free(pivots[i]);
  }
  bench_report(check, mallocs);
  return 0;
}
