// SPDX-License-Identifier: MIT
// dump.h - bytes on their way to a file, or to a function of the program.
#ifndef MI_OBSERVE_DUMP_H
#define MI_OBSERVE_DUMP_H

#include "../core/core.h"

// Takes bytes; false: no more.
typedef bool mi_dump_put_t(const void* bytes, size_t size, void* arg);

typedef enum mi_dump_form_e { MI_DUMP_PLAIN, MI_DUMP_GZIP } mi_dump_form_t;

// A dump being written. All of it belongs to one thread.
typedef struct mi_dump_s {
  mi_dump_put_t* put;
  void* arg;
  mi_dump_form_t form;
  uint8_t* buffer; // mapped for this dump
  size_t used; // bytes in it
  uint32_t crc; // of all bytes before the buffer
  uint32_t size; // and their number
  bool has_begun; // the head of the gzip form was written
  int file; // to close at the end, -1 none
  int err; // what went wrong first, an errno value; 0 nothing
} mi_dump_t;

// Begin a dump to a function / to a file, which is created. False, and `err` says why, if that
// fails.
MI_INTERNAL bool mi_dump_begin(mi_dump_t* dump, mi_dump_form_t form, mi_dump_put_t* put, void* arg);
MI_INTERNAL bool mi_dump_begin_file(mi_dump_t* dump, mi_dump_form_t form, const char* path);

// Add bytes / text.
MI_INTERNAL void mi_dump_bytes(mi_dump_t* dump, const void* bytes, size_t size);
MI_INTERNAL void mi_dump_text(mi_dump_t* dump, const char* format, ...) mi_attr_printf(2, 3);

// End the dump. Returns 0, or an errno value if anything of it went wrong.
MI_INTERNAL int mi_dump_end(mi_dump_t* dump);

#endif
