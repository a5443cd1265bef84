// SPDX-License-Identifier: MIT
// reader.h - see reader.c.
#ifndef MI_TRACE_READER_H
#define MI_TRACE_READER_H

#include "format.h"
#include "region.h"

typedef enum mi_reader_kind_e {
  MI_READER_NULL,
  MI_READER_UNKNOWN,
  MI_READER_BLOCK
} mi_reader_kind_t;

// How a block is named (FORMAT-1).
typedef struct mi_reader_name_s {
  mi_reader_kind_t kind;
  uint32_t thread;
  uint64_t number;
} mi_reader_name_t;

// One call, or the end of a thread.
typedef struct mi_reader_record_s {
  uint8_t call; // MI_FORMAT_MALLOC to MI_FORMAT_PVALLOC, MI_FORMAT_FREE, MI_FORMAT_END
  bool has_failed; // it returned no block
  bool is_unseen; // MI_FORMAT_UNSEEN
  bool is_last; // no other record of the thread follows
  uint32_t thread; // that called
  uint64_t number; // of the block that it returned
  uint64_t time_us; // since the start; as coarse as it was recorded
  uint64_t alignment, count, size; // as far as the call has them
  mi_reader_name_t block; // of free and realloc
} mi_reader_record_t;

// What is known of a thread, between two of its records.
typedef struct mi_reader_thread_s {
  size_t first, last; // its pieces, by their number in the file + 1; 0: none
  size_t piece; // the one that is read
  const uint8_t *at, *end; // NULL: no record follows
  uint64_t count, epoch, time_us;
  uint64_t other, other_number;
  mi_format_sizes_t sizes;
} mi_reader_thread_t;

typedef struct mi_reader_s {
  const uint8_t* file;
  size_t file_bytes;
  uint32_t header_bytes;
  mi_region_t contents; // of what cannot be mapped
  mi_region_t pieces; // mi_reader_piece_t, in the order of the file
  size_t piece_count;
  mi_region_t threads; // mi_reader_thread_t
  uint32_t thread_count;
  mi_region_t heap; // of threads with records, the one with the lowest epoch first
  uint32_t heap_count;
  char error[200]; // "": none
  char notes[400]; // sentences, each with a line end
} mi_reader_t;

// Open a file; "-" is standard input. Returns false if it is no trace, or damaged; `error` says it.
bool mi_reader_open(mi_reader_t* reader, const char* path);
// Give the file's memory back.
void mi_reader_close(mi_reader_t* reader);
// Read the next record. Returns false at the end, and if something is wrong: then there is `error`.
bool mi_reader_next(mi_reader_t* reader, mi_reader_record_t* record);

// For what writes a part of a trace: the piece of that number, counted from 0, and how much of it
// has been read, with its head.
const uint8_t* mi_reader_piece(const mi_reader_t* reader, size_t number, size_t* used);

#endif
