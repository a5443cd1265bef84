// SPDX-License-Identifier: MIT
// dump.c - bytes on their way to a file, or to a function of the program; plain, or as gzip.
//
//   mi_dump_bytes -> buffer (a mapping of its own) -> put -> file
//
// DUMP-1  nothing here allocates from a heap, takes a lock, or touches data of another thread: the
//     child of a fork can dump, and a dump changes no figure that it prints.
// DUMP-2  the first error ends it: what follows is dropped, and mi_dump_end returns it.
//
// The gzip form (RFC 1952) stores the bytes (RFC 1951, 3.2.4) and does not compress them: readers
// of profiles want that form, and a library for allocation is no place for a compressor.
#include "dump.h"

#include <errno.h>
#include <string.h>

#include "../base/text.h"

#define MI_DUMP_BUFFER ((size_t)(32 * MI_KIB)) // at most 65,535, the longest stored block

static void mi_dump_put_all(mi_dump_t* dump, const void* bytes, size_t size) {
  if (dump->err == 0 && !dump->put(bytes, size, dump->arg) && dump->err == 0) dump->err = ECANCELED;
}

// Continue a CRC-32 (ISO 3309, reflected), four bits at a time.
static uint32_t mi_dump_crc(uint32_t crc, const uint8_t* bytes, size_t size) {
  static const uint32_t of_nibble[16] mi_attr_rare = {
      0,          0x1DB71064, 0x3B6E20C8, 0x26D930AC, 0x76DC4190, 0x6B6B51F4,
      0x4DB26158, 0x5005713C, 0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
      0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C};
  crc = ~crc;
  for (size_t i = 0; i < size; i++) {
    crc ^= bytes[i];
    crc = of_nibble[crc & 15] ^ (crc >> 4);
    crc = of_nibble[crc & 15] ^ (crc >> 4);
  }
  return ~crc;
}

static void mi_dump_begin_gzip(mi_dump_t* dump) {
  static const uint8_t head[10] = {0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255};
  if (!dump->has_begun) mi_dump_put_all(dump, head, sizeof(head));
  dump->has_begun = true;
}

static void mi_dump_flush(mi_dump_t* dump) {
  if (dump->form == MI_DUMP_GZIP) mi_dump_begin_gzip(dump);
  if (dump->used == 0) return;
  if (dump->form == MI_DUMP_GZIP) {
    const uint8_t low = (uint8_t)(dump->used & 0xFF);
    const uint8_t high = (uint8_t)(dump->used >> 8);
    const uint8_t head[5] = {0, low, high, (uint8_t)~low, (uint8_t)~high};
    mi_dump_put_all(dump, head, sizeof(head));
    dump->crc = mi_dump_crc(dump->crc, dump->buffer, dump->used);
    dump->size += (uint32_t)dump->used;
  }
  mi_dump_put_all(dump, dump->buffer, dump->used);
  dump->used = 0;
}

MI_INTERNAL bool mi_dump_begin(mi_dump_t* dump, mi_dump_form_t form, mi_dump_put_t* put,
                               void* arg) {
  *dump = (mi_dump_t){.put = put, .arg = arg, .form = form, .file = -1};
  const size_t page_size = mi_state.os.page_size;
  dump->buffer = (uint8_t*)mi_os_map(NULL, mi_bits_align_up(MI_DUMP_BUFFER, page_size), page_size,
                                     MI_OS_READ_WRITE);
  if (dump->buffer == NULL) {
    dump->err = ENOMEM;
    return false;
  }
  return true;
}

static bool mi_dump_put_file(const void* bytes, size_t size, void* arg) {
  mi_dump_t* const dump = (mi_dump_t*)arg;
  dump->err = mi_os_file_write(dump->file, bytes, size);
  return dump->err == 0;
}

MI_INTERNAL bool mi_dump_begin_file(mi_dump_t* dump, mi_dump_form_t form, const char* path) {
  int file;
  const int err = mi_os_file_create(path, &file);
  if (err != 0) {
    *dump = (mi_dump_t){.err = err, .file = -1};
    return false;
  }
  if (mi_dump_begin(dump, form, &mi_dump_put_file, dump)) {
    dump->file = file;
    return true;
  }
  mi_os_file_close(file);
  return false;
}

MI_INTERNAL void mi_dump_bytes(mi_dump_t* dump, const void* bytes, size_t size) {
  const uint8_t* at = (const uint8_t*)bytes;
  while (size > 0 && dump->err == 0) {
    const size_t part = mi_bits_min(size, MI_DUMP_BUFFER - dump->used);
    memcpy(dump->buffer + dump->used, at, part);
    dump->used += part;
    at += part;
    size -= part;
    if (dump->used == MI_DUMP_BUFFER) mi_dump_flush(dump);
  }
}

MI_INTERNAL void mi_dump_text(mi_dump_t* dump, const char* format, ...) {
  char text[1200];
  va_list args;
  va_start(args, format);
  const size_t length = mi_text_vformat(text, sizeof(text), format, args);
  va_end(args);
  mi_dump_bytes(dump, text, length);
}

MI_INTERNAL int mi_dump_end(mi_dump_t* dump) {
  mi_dump_flush(dump);
  if (dump->form == MI_DUMP_GZIP) {
    uint8_t tail[13] = {1, 0, 0, 0xFF, 0xFF};
    for (size_t i = 0; i < 4; i++) {
      tail[5 + i] = (uint8_t)(dump->crc >> (8 * i));
      tail[9 + i] = (uint8_t)(dump->size >> (8 * i));
    }
    mi_dump_put_all(dump, tail, sizeof(tail));
  }
  mi_os_unmap(dump->buffer, mi_bits_align_up(MI_DUMP_BUFFER, mi_state.os.page_size));
  if (dump->file >= 0) {
    const int err = mi_os_file_close(dump->file);
    if (dump->err == 0) dump->err = err;
  }
  return dump->err;
}
