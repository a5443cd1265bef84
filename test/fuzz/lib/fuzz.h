// SPDX-License-Identifier: MIT
// fuzz.h - what the fuzz targets share: reading numbers from an input, and checks.
//
// A target is one file of test/fuzz. libFuzzer calls its `LLVMFuzzerTestOneInput` for each input,
// which takes numbers from it until it is done, acts on them, and checks what must hold.
//
// Each input starts from the same state: what one does must not depend on those before it, or a
// failure cannot be seen again.
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerInitialize(int* argc, char*** argv);

typedef struct fuzz_input_s {
  const uint8_t* data;
  size_t size;
  size_t at;
} fuzz_input_t;

static inline fuzz_input_t fuzz_open(const uint8_t* data, size_t size) {
  return (fuzz_input_t){data, size, 0};
}

static inline bool fuzz_is_done(const fuzz_input_t* in) { return in->at >= in->size; }

// The next byte; 0 behind the end.
static inline uint8_t fuzz_byte(fuzz_input_t* in) {
  return fuzz_is_done(in) ? 0 : in->data[in->at++];
}

// A number of so many bytes, the lowest first.
static inline uint64_t fuzz_number(fuzz_input_t* in, size_t bytes) {
  uint64_t x = 0;
  for (size_t i = 0; i < bytes; i++) x |= (uint64_t)fuzz_byte(in) << 8 * i;
  return x;
}

// A number below `end`, of as few bytes as hold it.
static inline size_t fuzz_below(fuzz_input_t* in, size_t end) {
  size_t bytes = 1;
  while (bytes < 8 && end > (size_t)1 << 8 * bytes) bytes++;
  return (size_t)(fuzz_number(in, bytes) % end);
}

// A size below 2^`bits`, of any magnitude: the first byte says how many bits it has.
static inline size_t fuzz_size(fuzz_input_t* in, size_t bits) {
  const size_t width = fuzz_below(in, bits + 1);
  const uint64_t x = fuzz_number(in, (width + 7) / 8);
  return width == 64 ? (size_t)x : (size_t)(x & (((uint64_t)1 << width) - 1));
}

#endif
