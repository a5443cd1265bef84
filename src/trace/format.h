// SPDX-License-Identifier: MIT
// format.h - what a file with a trace looks like: known to the library that writes it (writer.h)
// and to the program that reads it (reader.h).
//
// A header, then pieces. A piece holds records of one thread, and can be read without the thread's
// earlier ones. All numbers of more than a byte are little-endian in the header and in the heads
// of pieces, and in records variable: 7 bits in each byte, the lowest first, bit 7 set if more
// follow.
//
// FORMAT-1  no address is recorded. A block is named by the thread whose call returned it and by
//     how many blocks calls of this thread had returned before (its number); a block that realloc
//     returns has a new name. So whoever reads a trace knows of each call which one it depends on.
// FORMAT-2  the calls of all threads have one order: that of their epochs, then that of the
//     records of a thread. A thread begins a new epoch with the call that follows one of another
//     thread. The order agrees with whatever orders the calls in the program (a mutex, a join,
//     ...).
// FORMAT-3  a byte of 0 where a record would begin ends a piece: a piece that nobody has closed is
//     valid as it lies there.
// FORMAT-4  the sum of a piece covers its head and the first `summed` bytes behind it. A piece
//     that was never closed (the process was killed, or the thread lived when it ended) has none.
// FORMAT-5  pieces follow each other. Where there is none, 0 fills up to the next multiple of
//     4096.
//
// Deliberately absent: call sites, contents, who locked what.
#ifndef MI_TRACE_FORMAT_H
#define MI_TRACE_FORMAT_H

#include "../base/compiler.h"

// The header: 8 bytes of magic, then fields at these offsets.
#define MI_FORMAT_MAGIC "mitrace1"
#define MI_FORMAT_SIZE 8 // 32 bits: of the header; the first piece follows
#define MI_FORMAT_STATE 12 // 32 bits: mi_format_state_t; not in the sum
#define MI_FORMAT_PID 16 // 32 bits: the process, and its parent
#define MI_FORMAT_PARENT 20 //
#define MI_FORMAT_START 24 // 64 bits: nanoseconds since 1970
#define MI_FORMAT_OS_PAGE 32 // 32 bits: bytes
#define MI_FORMAT_COMMAND 36 // 32 bits: bytes of the command line, which begins at MI_FORMAT_TEXT
#define MI_FORMAT_SUM 40 // 64 bits: of the rest of the header
#define MI_FORMAT_TEXT 48 // words that end with 0 each; cut if there are too many
#define MI_FORMAT_HEADER 4096 // bytes, as it is recorded

typedef enum mi_format_state_e {
  MI_FORMAT_WHOLE, // until the process ended, or was killed
  MI_FORMAT_LIMIT, // until the file was as large as it may be
  MI_FORMAT_NO_ROOM, // until the file could not be made larger
  MI_FORMAT_CUT, // the first calls of a longer trace
  MI_FORMAT_STATES
} mi_format_state_t;

// The head of a piece: fields at these offsets.
#define MI_FORMAT_PIECE 0x43504D49U // 32 bits at 0
#define MI_FORMAT_BYTES 4 // 32 bits: of the piece with its head
#define MI_FORMAT_THREAD 8 // 32 bits: counted from 0 in the order of their first calls
#define MI_FORMAT_INDEX 12 // 32 bits: how many pieces of this thread come before
#define MI_FORMAT_TIME 16 // 64 bits: nanoseconds since the start
#define MI_FORMAT_COUNT 24 // 64 bits: the number that the thread's next block has
#define MI_FORMAT_EPOCH 32 // 64 bits: in which the first record is
#define MI_FORMAT_SUMMED 40 // 32 bits: bytes of records that the sum covers, 0: no sum
#define MI_FORMAT_CHECK 44 // 32 bits: the sum
#define MI_FORMAT_HEAD 48 // bytes
#define MI_FORMAT_PIECE_MAX ((size_t)1 << 20)
#define MI_FORMAT_THREAD_MAX ((uint32_t)1 << 20) // exclusive
#define MI_FORMAT_RECORD_MAX 64 // bytes; no record is longer

// Records. The first byte says what was called:
//   00        nothing: the piece ends
//   01 to 7E  free of a block of this thread; distance = value - 1
//   7F        the same; a variable number follows: distance - 126
//   80 to BF  malloc of a size that was used before (mi_format_sizes_t): index = value - 80
//   C0 to CF  free as 01; distance = 126 + 256 * (value - C0) + the byte that follows
//   D0 to E1  as below
// The distance of a block is 0 if it is the last one that a call of this thread returned.
enum {
  MI_FORMAT_FREE = 0x01,
  MI_FORMAT_FREE_FAR = 0x7F,
  MI_FORMAT_MALLOC_KNOWN = 0x80,
  MI_FORMAT_FREE_NEAR = 0xC0,
  MI_FORMAT_MALLOC = 0xD0, // size
  MI_FORMAT_CALLOC = 0xD1, // count, size
  MI_FORMAT_REALLOC = 0xD2, // block, size
  MI_FORMAT_REALLOCARRAY = 0xD3, // block, count, size
  MI_FORMAT_ALIGNED_ALLOC = 0xD4, // alignment, size
  MI_FORMAT_MEMALIGN = 0xD5, // alignment, size
  MI_FORMAT_POSIX_MEMALIGN = 0xD6, // alignment, size
  MI_FORMAT_VALLOC = 0xD7, // size
  MI_FORMAT_PVALLOC = 0xD8, // size
  MI_FORMAT_FREE_OTHER = 0xD9, // thread, number: a block of another thread
  MI_FORMAT_FREE_NEXT = 0xDA, // of the same thread as the one before; folded difference
  MI_FORMAT_FREE_NULL = 0xDB, // free of NULL
  MI_FORMAT_FREE_UNKNOWN = 0xDC, // of a block that no recorded call returned
  MI_FORMAT_ORDER = 0xDD, // a new epoch: difference to the last one of this thread
  MI_FORMAT_PASSED = 0xDE, // time that passed since the last such record: microseconds
  MI_FORMAT_END = 0xDF, // the thread is about to end; few calls may follow
  MI_FORMAT_FAILED = 0xE0, // the call that follows returned no block
  MI_FORMAT_UNSEEN = 0xE1 // the block of the free that follows had gone, nobody saw how
};
#define MI_FORMAT_DISTANCE_FAR 126
#define MI_FORMAT_NEAR_LIMIT (MI_FORMAT_DISTANCE_FAR + 16 * 256)

// The block of a realloc: one of these, or its distance + MI_FORMAT_BLOCK_OWN.
enum {
  MI_FORMAT_BLOCK_NULL,
  MI_FORMAT_BLOCK_UNKNOWN,
  MI_FORMAT_BLOCK_OTHER, // thread, number
  MI_FORMAT_BLOCK_OWN
};

// A realloc to size 0 that "failed" has freed its block. Any other that failed leaves it.

// The sizes that mallocs used, each at the place that its value gives. Empty when a piece begins.
#define MI_FORMAT_SIZE_COUNT 64
typedef struct mi_format_sizes_s {
  uint64_t size[MI_FORMAT_SIZE_COUNT]; // size + 1; 0: none
} mi_format_sizes_t;

static inline uint32_t mi_format_place(uint64_t size) {
  return ((uint32_t)(size ^ (size >> 32)) * 0x9E3779B1U) >> 26;
}

// A difference that may be negative, as a number that is small if it is.
static inline uint64_t mi_format_fold(uint64_t difference) {
  return (difference << 1) ^ ((difference >> 63) != 0 ? UINT64_MAX : 0);
}
static inline uint64_t mi_format_unfold(uint64_t folded) {
  return (folded >> 1) ^ ((folded & 1) != 0 ? UINT64_MAX : 0);
}

static inline uint8_t* mi_format_put(uint8_t* at, uint64_t number) {
  for (; number >= 0x80; number >>= 7) *at++ = (uint8_t)(number | 0x80);
  *at++ = (uint8_t)number;
  return at;
}

static inline void mi_format_put_32(uint8_t* at, uint32_t number) {
  for (size_t i = 0; i < 4; i++) at[i] = (uint8_t)(number >> (8 * i));
}
static inline void mi_format_put_64(uint8_t* at, uint64_t number) {
  for (size_t i = 0; i < 8; i++) at[i] = (uint8_t)(number >> (8 * i));
}
static inline uint32_t mi_format_get_32(const uint8_t* at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; i++) number |= (uint32_t)at[i] << (8 * i);
  return number;
}
static inline uint64_t mi_format_get_64(const uint8_t* at) {
  return mi_format_get_32(at) | ((uint64_t)mi_format_get_32(at + 4) << 32);
}

// A sum that changes with any byte: each step is a bijection of what was summed so far.
static inline uint64_t mi_format_sum(uint64_t sum, const uint8_t* bytes, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    sum = (sum ^ mi_format_get_64(bytes + i)) * 0x9E3779B97F4A7C15U;
    sum ^= sum >> 29;
  }
  for (; i < count; i++) {
    sum = (sum ^ bytes[i]) * 0x9E3779B97F4A7C15U;
    sum ^= sum >> 29;
  }
  return sum;
}

// Of a header of `size` bytes, but for its state and the sum itself.
static inline uint64_t mi_format_sum_header(const uint8_t* header, size_t size) {
  uint64_t sum = mi_format_sum(size, header, MI_FORMAT_STATE);
  sum = mi_format_sum(sum, header + MI_FORMAT_PID, MI_FORMAT_SUM - MI_FORMAT_PID);
  return mi_format_sum(sum, header + MI_FORMAT_TEXT, size - MI_FORMAT_TEXT);
}

// Of a piece, of whose records `summed` bytes count.
static inline uint32_t mi_format_sum_piece(const uint8_t* piece, uint32_t summed) {
  uint64_t sum = mi_format_sum(summed, piece, MI_FORMAT_SUMMED);
  sum = mi_format_sum(sum, piece + MI_FORMAT_HEAD, summed);
  return (uint32_t)(sum ^ (sum >> 32));
}

#endif
