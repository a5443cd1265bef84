// SPDX-License-Identifier: MIT
// reader.c - reads the records of a trace, in the order of the calls of all threads (FORMAT-2).
//
// READER-1  whatever bytes a file has, each is looked at once at most, and none outside of it: a
//     damaged file is an error that names the byte.
// READER-2  a file that ends early is read as far as it goes: the notes say so.
//
// Deliberately absent: which blocks live. That a name is one of a block is for plan.c to see.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/bits.h"
#include "reader.h"

#define MI_READER_GAP ((size_t)4096) // FORMAT-5
#define MI_READER_BEHIND ((uint64_t)1 << 32) // no piece that is missing has so many blocks

typedef struct mi_reader_piece_s {
  const uint8_t *start, *end; // the end may be that of the file
  size_t next; // of the same thread, its number + 1
  size_t used; // bytes that have been read, when the thread has gone on
} mi_reader_piece_t;

static mi_reader_piece_t* mi_reader_pieces(const mi_reader_t* reader) {
  return (mi_reader_piece_t*)reader->pieces.start;
}

static mi_reader_thread_t* mi_reader_thread(const mi_reader_t* reader, uint32_t thread) {
  return (mi_reader_thread_t*)reader->threads.start + thread;
}

static bool mi_reader_fail(mi_reader_t* reader, const uint8_t* at, const char* what) {
  if (reader->error[0] == 0) {
    snprintf(reader->error, sizeof(reader->error), "damaged at byte %zu: %s",
             (size_t)(at - reader->file), what);
  }
  return false;
}

static void mi_reader_note(mi_reader_t* reader, const char* text) {
  const size_t used = strlen(reader->notes);
  if (strstr(reader->notes, text) == NULL)
    snprintf(reader->notes + used, sizeof(reader->notes) - used, "%s\n", text);
}

// -- The file --

static bool mi_reader_load(mi_reader_t* reader, const char* path) {
  const int file = strcmp(path, "-") == 0 ? 0 : open(path, O_RDONLY | O_CLOEXEC);
  struct stat about;
  if (file < 0 || fstat(file, &about) != 0) {
    snprintf(reader->error, sizeof(reader->error), "%s", strerror(errno));
    return false;
  }
  if (S_ISREG(about.st_mode) && about.st_size > 0) {
    void* const p = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (p != MAP_FAILED) {
      reader->file = (const uint8_t*)p;
      reader->file_bytes = (size_t)about.st_size;
    }
  }
  ssize_t got = 1;
  while (reader->file == NULL && got > 0) {
    mi_region_grow(&reader->contents, reader->file_bytes + 4096);
    got = read(file, (uint8_t*)reader->contents.start + reader->file_bytes, 4096);
    if (got > 0) reader->file_bytes += (size_t)got;
  }
  if (reader->file == NULL) reader->file = (const uint8_t*)reader->contents.start;
  if (got < 0) snprintf(reader->error, sizeof(reader->error), "%s", strerror(errno));
  if (file > 0) close(file);
  return got >= 0;
}

static bool mi_reader_check_header(mi_reader_t* reader) {
  const uint8_t* const file = reader->file;
  if (reader->file_bytes < MI_FORMAT_TEXT || memcmp(file, MI_FORMAT_MAGIC, MI_FORMAT_SIZE) != 0) {
    snprintf(reader->error, sizeof(reader->error), "not a trace of mimalloc-trace");
    return false;
  }
  const uint32_t size = mi_format_get_32(file + MI_FORMAT_SIZE);
  if (size < MI_FORMAT_TEXT || size > reader->file_bytes)
    return mi_reader_fail(reader, file, "size of the header");
  const size_t summed = mi_bits_min(size, MI_FORMAT_HEADER);
  if (mi_format_get_64(file + MI_FORMAT_SUM) != mi_format_sum_header(file, summed)) {
    return mi_reader_fail(reader, file, "the header has another sum");
  }
  if (mi_format_get_32(file + MI_FORMAT_STATE) >= MI_FORMAT_STATES ||
      mi_format_get_32(file + MI_FORMAT_COMMAND) > summed - MI_FORMAT_TEXT) {
    return mi_reader_fail(reader, file, "a field of the header");
  }
  reader->header_bytes = size;
  return true;
}

// Add a piece whose head is in the file. Returns the bytes it has, 0 if it is damaged.
static size_t mi_reader_add_piece(mi_reader_t* reader, const uint8_t* start) {
  const size_t left = reader->file_bytes - (size_t)(start - reader->file);
  const size_t bytes = mi_format_get_32(start + MI_FORMAT_BYTES);
  const uint32_t thread = mi_format_get_32(start + MI_FORMAT_THREAD);
  const uint32_t summed = mi_format_get_32(start + MI_FORMAT_SUMMED);
  if (bytes < MI_FORMAT_HEAD || bytes > MI_FORMAT_PIECE_MAX || thread >= MI_FORMAT_THREAD_MAX ||
      summed > bytes - MI_FORMAT_HEAD) {
    mi_reader_fail(reader, start, "the head of a piece");
    return 0;
  }
  if (bytes > left)
    mi_reader_note(reader, "the file ends within a piece: the end of it is missing");
  if (summed > 0 && MI_FORMAT_HEAD + (size_t)summed <= left &&
      mi_format_get_32(start + MI_FORMAT_CHECK) != mi_format_sum_piece(start, summed)) {
    mi_reader_fail(reader, start, "a piece has another sum");
    return 0;
  }
  mi_region_grow(&reader->pieces, (reader->piece_count + 1) * sizeof(mi_reader_piece_t));
  mi_reader_piece_t* const piece = &mi_reader_pieces(reader)[reader->piece_count++];
  piece->start = start;
  piece->end = start + mi_bits_min(bytes, left);
  if (thread >= reader->thread_count) {
    mi_region_grow(&reader->threads, ((uint64_t)thread + 1) * sizeof(mi_reader_thread_t));
    reader->thread_count = thread + 1;
  }
  mi_reader_thread_t* const owner = mi_reader_thread(reader, thread);
  if (owner->last != 0) {
    mi_reader_piece_t* const before = &mi_reader_pieces(reader)[owner->last - 1];
    before->next = reader->piece_count;
    if (mi_format_get_32(before->start + MI_FORMAT_INDEX) >=
        mi_format_get_32(start + MI_FORMAT_INDEX)) {
      mi_reader_fail(reader, start, "pieces of a thread are out of order");
      return 0;
    }
  }
  if (owner->first == 0) owner->first = reader->piece_count;
  owner->last = reader->piece_count;
  return bytes;
}

static bool mi_reader_find_pieces(mi_reader_t* reader) {
  size_t offset = reader->header_bytes;
  while (offset < reader->file_bytes) {
    const uint8_t* const start = reader->file + offset;
    if (reader->file_bytes - offset < MI_FORMAT_HEAD) {
      mi_reader_note(reader, "the file ends within the head of a piece");
      return true;
    }
    const uint32_t magic = mi_format_get_32(start);
    if (magic == 0) { // nobody came to write it
      offset = mi_bits_align_up(offset + 1, MI_READER_GAP);
      continue;
    }
    if (magic != MI_FORMAT_PIECE) return mi_reader_fail(reader, start, "no piece begins here");
    const size_t bytes = mi_reader_add_piece(reader, start);
    if (bytes == 0) return false;
    offset += bytes;
  }
  return true;
}

// -- Records --

// Read a number. On damage the error is set, and the result is 0.
static uint64_t mi_reader_number(mi_reader_t* reader, mi_reader_thread_t* t) {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && t->at < t->end; shift += 7) {
    const uint8_t byte = *t->at++;
    number |= (uint64_t)(byte & 0x7F) << shift;
    if (byte < 0x80) return number;
  }
  if (t->at < t->end || t->end != reader->file + reader->file_bytes)
    mi_reader_fail(reader, t->at, "a number");
  t->at = NULL; // the file ends within it
  return 0;
}

// Go to the next piece of a thread. Without one, `at` is NULL.
static bool mi_reader_enter_piece(mi_reader_t* reader, mi_reader_thread_t* t) {
  const bool is_first = t->piece == 0;
  const size_t before = t->piece;
  if (!is_first && t->at != NULL) {
    mi_reader_piece_t* const left = &mi_reader_pieces(reader)[before - 1];
    left->used = (size_t)(t->at - left->start);
  }
  t->piece = is_first ? t->first : mi_reader_pieces(reader)[before - 1].next;
  t->at = NULL;
  if (t->piece == 0) return true;
  const mi_reader_piece_t* const piece = &mi_reader_pieces(reader)[t->piece - 1];
  const uint64_t count = mi_format_get_64(piece->start + MI_FORMAT_COUNT);
  const uint64_t epoch = mi_format_get_64(piece->start + MI_FORMAT_EPOCH);
  const uint32_t index = mi_format_get_32(piece->start + MI_FORMAT_INDEX);
  const uint32_t last =
      is_first ? UINT32_MAX
               : mi_format_get_32(mi_reader_pieces(reader)[before - 1].start + MI_FORMAT_INDEX);
  const bool is_next = index == last + 1;
  if (is_next ? count != t->count || epoch != t->epoch
              : count < t->count || count - t->count > MI_READER_BEHIND || epoch < t->epoch) {
    return mi_reader_fail(reader, piece->start, "a piece does not fit the one before");
  }
  if (!is_next) mi_reader_note(reader, "a piece of a thread is missing");
  t->count = count;
  t->epoch = epoch;
  t->time_us = mi_format_get_64(piece->start + MI_FORMAT_TIME) / 1000;
  t->other = t->other_number = 0;
  memset(&t->sizes, 0, sizeof(t->sizes));
  t->at = piece->start + MI_FORMAT_HEAD;
  t->end = piece->end;
  return true;
}

// Go to the thread's next record: over the ends of pieces, epochs and times. Without one, `at` is
// NULL.
static bool mi_reader_advance(mi_reader_t* reader, mi_reader_thread_t* t) {
  for (;;) {
    if (t->at == NULL || t->at == t->end || *t->at == 0) {
      if (!mi_reader_enter_piece(reader, t)) return false;
      if (t->at == NULL) return true;
    } else if (*t->at == MI_FORMAT_ORDER) {
      t->at++;
      const uint64_t step = mi_reader_number(reader, t);
      if (t->at != NULL && (step == 0 || step > UINT64_MAX - t->epoch))
        return mi_reader_fail(reader, t->at, "an epoch");
      t->epoch += step;
    } else if (*t->at == MI_FORMAT_PASSED) {
      t->at++;
      t->time_us += mi_reader_number(reader, t);
    } else {
      return reader->error[0] == 0;
    }
    if (reader->error[0] != 0) return false;
  }
}

// The block of this thread at a distance. Nothing, if the file ends within the record.
static void mi_reader_own(mi_reader_t* reader, mi_reader_thread_t* t, mi_reader_record_t* r,
                          uint64_t distance) {
  if (t->at == NULL) return;
  if (distance >= t->count) mi_reader_fail(reader, t->at, "a block that was never there");
  r->block = (mi_reader_name_t){MI_READER_BLOCK, r->thread, t->count - 1 - distance};
}

static void mi_reader_other(mi_reader_t* reader, mi_reader_thread_t* t, mi_reader_record_t* r) {
  const uint64_t thread = mi_reader_number(reader, t);
  const uint64_t number = t->at != NULL ? mi_reader_number(reader, t) : 0;
  if (thread >= MI_FORMAT_THREAD_MAX && t->at != NULL) mi_reader_fail(reader, t->at, "a thread");
  r->block = (mi_reader_name_t){MI_READER_BLOCK, (uint32_t)thread, number};
}

static void mi_reader_block(mi_reader_t* reader, mi_reader_thread_t* t, mi_reader_record_t* r) {
  const uint64_t kind = mi_reader_number(reader, t);
  if (t->at == NULL) return;
  if (kind >= MI_FORMAT_BLOCK_OWN) {
    mi_reader_own(reader, t, r, kind - MI_FORMAT_BLOCK_OWN);
  } else if (kind == MI_FORMAT_BLOCK_OTHER) {
    mi_reader_other(reader, t, r);
  } else {
    r->block.kind = kind == MI_FORMAT_BLOCK_NULL ? MI_READER_NULL : MI_READER_UNKNOWN;
  }
}

// A free, whose first byte was read. Returns false if it is none.
static bool mi_reader_read_free(mi_reader_t* reader, mi_reader_thread_t* t, mi_reader_record_t* r,
                                uint8_t first) {
  r->call = MI_FORMAT_FREE;
  if (first < MI_FORMAT_FREE_FAR) {
    mi_reader_own(reader, t, r, first - MI_FORMAT_FREE);
  } else if (first == MI_FORMAT_FREE_FAR) {
    const uint64_t distance = mi_reader_number(reader, t);
    mi_reader_own(reader, t, r,
                  distance > UINT64_MAX / 2 ? distance : distance + MI_FORMAT_DISTANCE_FAR);
  } else if (first >= MI_FORMAT_FREE_NEAR && first < MI_FORMAT_MALLOC) {
    const uint64_t low = t->at < t->end ? *t->at : 0;
    t->at = t->at < t->end ? t->at + 1 : NULL;
    mi_reader_own(reader, t, r,
                  MI_FORMAT_DISTANCE_FAR + ((uint64_t)(first - MI_FORMAT_FREE_NEAR) << 8) + low);
  } else if (first == MI_FORMAT_FREE_OTHER) {
    mi_reader_other(reader, t, r);
  } else if (first == MI_FORMAT_FREE_NEXT) {
    const uint64_t step = mi_format_unfold(mi_reader_number(reader, t));
    if (t->other == 0 && t->at != NULL) mi_reader_fail(reader, t->at, "a free without one before");
    r->block =
        (mi_reader_name_t){MI_READER_BLOCK, (uint32_t)(t->other - 1), t->other_number + step};
  } else if (first == MI_FORMAT_FREE_NULL || first == MI_FORMAT_FREE_UNKNOWN) {
    r->block.kind = first == MI_FORMAT_FREE_NULL ? MI_READER_NULL : MI_READER_UNKNOWN;
  } else {
    return false;
  }
  if (first == MI_FORMAT_FREE_OTHER || first == MI_FORMAT_FREE_NEXT) {
    t->other = (uint64_t)r->block.thread + 1;
    t->other_number = r->block.number;
  }
  return true;
}

// Any other call, whose first byte was read.
static void mi_reader_read_call(mi_reader_t* reader, mi_reader_thread_t* t, mi_reader_record_t* r,
                                uint8_t first) {
  r->call = first;
  r->count = 1;
  switch (first) {
    case MI_FORMAT_END:
      return;
    case MI_FORMAT_MALLOC:
    case MI_FORMAT_VALLOC:
    case MI_FORMAT_PVALLOC:
      break;
    case MI_FORMAT_CALLOC:
      r->count = mi_reader_number(reader, t);
      break;
    case MI_FORMAT_REALLOC:
      mi_reader_block(reader, t, r);
      break;
    case MI_FORMAT_REALLOCARRAY:
      mi_reader_block(reader, t, r);
      if (t->at != NULL) r->count = mi_reader_number(reader, t);
      break;
    case MI_FORMAT_ALIGNED_ALLOC:
    case MI_FORMAT_MEMALIGN:
    case MI_FORMAT_POSIX_MEMALIGN:
      r->alignment = mi_reader_number(reader, t);
      break;
    default:
      mi_reader_fail(reader, t->at - 1, "no call begins so");
      return;
  }
  if (t->at != NULL) r->size = mi_reader_number(reader, t);
  if (first == MI_FORMAT_MALLOC && t->at != NULL)
    t->sizes.size[mi_format_place(r->size)] = r->size + 1;
}

// Read a record of a thread that has one. Returns false on damage, and if the file ends within it:
// then `at` is NULL.
static bool mi_reader_read(mi_reader_t* reader, mi_reader_thread_t* t, mi_reader_record_t* r) {
  uint8_t first = *t->at++;
  for (; first == MI_FORMAT_FAILED || first == MI_FORMAT_UNSEEN; first = *t->at++) {
    r->has_failed |= first == MI_FORMAT_FAILED;
    r->is_unseen |= first == MI_FORMAT_UNSEEN;
    if (t->at == t->end) {
      t->at = NULL;
      return false;
    }
  }
  if (first >= MI_FORMAT_MALLOC_KNOWN && first < MI_FORMAT_FREE_NEAR) {
    const uint64_t size = t->sizes.size[first - MI_FORMAT_MALLOC_KNOWN];
    if (size == 0) return mi_reader_fail(reader, t->at - 1, "a size that was never used");
    r->call = MI_FORMAT_MALLOC;
    r->count = 1;
    r->size = size - 1;
  } else if (first == 0) {
    return mi_reader_fail(reader, t->at - 1, "no call begins so");
  } else if (!mi_reader_read_free(reader, t, r, first)) {
    mi_reader_read_call(reader, t, r, first);
  }
  if (reader->error[0] != 0 || t->at == NULL) return false;
  if (r->call != MI_FORMAT_FREE && r->call != MI_FORMAT_END && !r->has_failed)
    r->number = t->count++;
  return true;
}

// -- The order of threads --

static uint32_t* mi_reader_heap(const mi_reader_t* reader) { return (uint32_t*)reader->heap.start; }

static bool mi_reader_is_before(const mi_reader_t* reader, uint32_t a, uint32_t b) {
  const uint64_t x = mi_reader_thread(reader, a)->epoch, y = mi_reader_thread(reader, b)->epoch;
  return x < y || (x == y && a < b);
}

static void mi_reader_swap(uint32_t* a, uint32_t* b) {
  const uint32_t kept = *a;
  *a = *b;
  *b = kept;
}

static void mi_reader_push(mi_reader_t* reader, uint32_t thread) {
  mi_region_grow(&reader->heap, (uint64_t)(reader->heap_count + 1) * sizeof(uint32_t));
  uint32_t* const heap = mi_reader_heap(reader);
  uint32_t i = reader->heap_count++;
  heap[i] = thread;
  for (; i > 0 && mi_reader_is_before(reader, heap[i], heap[(i - 1) / 2]); i = (i - 1) / 2) {
    mi_reader_swap(&heap[i], &heap[(i - 1) / 2]);
  }
}

// The thread at the top has another epoch now: move it down.
static void mi_reader_sift(mi_reader_t* reader) {
  uint32_t* const heap = mi_reader_heap(reader);
  for (uint32_t i = 0;;) {
    uint32_t least = i;
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child < reader->heap_count; child++) {
      if (mi_reader_is_before(reader, heap[child], heap[least])) least = child;
    }
    if (least == i) return;
    mi_reader_swap(&heap[i], &heap[least]);
    i = least;
  }
}

static void mi_reader_pop(mi_reader_t* reader) {
  uint32_t* const heap = mi_reader_heap(reader);
  heap[0] = heap[--reader->heap_count];
  mi_reader_sift(reader);
}

bool mi_reader_next(mi_reader_t* reader, mi_reader_record_t* record) {
  while (reader->heap_count > 0 && reader->error[0] == 0) {
    const uint32_t thread = mi_reader_heap(reader)[0];
    mi_reader_thread_t* const t = mi_reader_thread(reader, thread);
    const uint64_t epoch = t->epoch;
    *record = (mi_reader_record_t){.thread = thread, .time_us = t->time_us};
    const bool is_read = mi_reader_read(reader, t, record);
    if (reader->error[0] != 0) break;
    if (!is_read) mi_reader_note(reader, "the file ends within a record");
    if (!mi_reader_advance(reader, t)) break;
    record->is_last = t->at == NULL;
    if (t->at == NULL) {
      mi_reader_pop(reader);
    } else if (t->epoch != epoch) {
      mi_reader_sift(reader);
    }
    if (is_read) return true;
  }
  return false;
}

const uint8_t* mi_reader_piece(const mi_reader_t* reader, size_t number, size_t* used) {
  const mi_reader_piece_t* const piece = &mi_reader_pieces(reader)[number];
  const mi_reader_thread_t* const t =
      mi_reader_thread(reader, mi_format_get_32(piece->start + MI_FORMAT_THREAD));
  *used = t->piece == number + 1 && t->at != NULL ? (size_t)(t->at - piece->start) : piece->used;
  return piece->start;
}

bool mi_reader_open(mi_reader_t* reader, const char* path) {
  memset(reader, 0, sizeof(*reader));
  if (!mi_reader_load(reader, path) || !mi_reader_check_header(reader) ||
      !mi_reader_find_pieces(reader))
    return false;
  for (uint32_t thread = 0; thread < reader->thread_count; thread++) {
    mi_reader_thread_t* const t = mi_reader_thread(reader, thread);
    if (!mi_reader_advance(reader, t)) return false;
    if (t->at != NULL) mi_reader_push(reader, thread);
  }
  return true;
}

void mi_reader_close(mi_reader_t* reader) {
  if (reader->contents.start == NULL && reader->file_bytes > 0)
    munmap((void*)(uintptr_t)reader->file, reader->file_bytes);
  mi_region_trim(&reader->contents, 0);
  mi_region_trim(&reader->pieces, 0);
  mi_region_trim(&reader->threads, 0);
  mi_region_trim(&reader->heap, 0);
  reader->file = NULL;
}
