// SPDX-License-Identifier: MIT
// rbstress.c - the heap of an interpreter: cells in aligned pages, buffers from malloc, mark and
// sweep.
//
// Pattern: every value of the interpreted program is a cell of 40 bytes in a page of 64 KiB that
// is aligned to its size. Long strings and arrays own a buffer that grows with realloc, hash
// tables one that comes from calloc and is replaced when it is full. Garbage stays until the
// collector marks what is alive and sweeps all pages in order of address, freeing thousands of
// buffers at once; pages that came to be empty are freed. The interpreted program handles
// requests: it builds strings, arrays and tables, and keeps the result of some for long.
// Asks: aligned blocks without waste, cheap growth, and frees in long bursts in the order of
// addresses of their owners, unlike the order of allocation.
//
// Origin: rbstress of the mimalloc-bench suite puts the Ruby interpreter under stress. On its
// heap: Koichi Sasada, "Gradual Write-Barrier Insertion into a Ruby Interpreter", ISMM 2019.
// Differs: no interpreter: the program is written in C against such a heap; the collector is
// neither generational nor incremental; everything is seen from one thread.
#include "bench.h"

#define PAGE_BYTES 65536
#define CELL_BYTES 40
#define EMBEDDED_MAX 23 // bytes of a string that needs no buffer
#define ROOTS_MAX 256
#define SESSIONS 4000

typedef enum kind_e { KIND_FREE, KIND_STRING, KIND_ARRAY, KIND_HASH } kind_t;

typedef struct cell_s cell_t;

typedef struct entry_s {
  cell_t* key;
  cell_t* value;
} entry_t;

struct cell_s {
  uint32_t length;
  uint32_t capacity; // of the buffer; 0: none
  uint8_t kind;
  bool is_marked;
  union {
    cell_t* next; // free cell
    char* text;
    cell_t** items;
    entry_t* entries;
    char embedded[EMBEDDED_MAX + 1];
  } u;
};

typedef struct page_s {
  size_t live; // cells, counted by the sweep
  cell_t cells[];
} page_t;

_Static_assert(sizeof(cell_t) == CELL_BYTES, "a cell has 40 bytes");
#define PAGE_CELLS ((PAGE_BYTES - sizeof(page_t)) / CELL_BYTES)

static page_t** pages;
static size_t page_count;
static size_t page_capacity;
static cell_t* free_cells;
static size_t free_count;
static cell_t* roots[ROOTS_MAX]; // a stack: what the program holds
static size_t root_count;
static cell_t** marks; // a stack: marked, but its parts are not yet
static size_t mark_count;
static size_t mark_capacity;
static uint64_t mallocs;

static void* buffer_resize(void* buffer, size_t size) {
  void* const moved = realloc(buffer, size);
  if (moved == NULL) bench_fail("realloc returned NULL");
  mallocs++;
  return moved;
}

// ---- the heap ----

static void page_add(void) {
  void* memory = NULL;
  if (posix_memalign(&memory, PAGE_BYTES, PAGE_BYTES) != 0) bench_fail("posix_memalign failed");
  if (((uintptr_t)memory & (PAGE_BYTES - 1)) != 0) bench_fail("a page is not aligned");
  mallocs++;
  if (page_count == page_capacity) {
    page_capacity = page_capacity * 2 + 16;
    pages = buffer_resize(pages, page_capacity * sizeof(page_t*));
  }
  page_t* const page = memory;
  size_t place = page_count++;
  for (; place > 0 && pages[place - 1] > page; place--) pages[place] = pages[place - 1];
  pages[place] = page;
  for (size_t i = PAGE_CELLS; i-- > 0;) {
    page->cells[i] = (cell_t){.kind = KIND_FREE, .u.next = free_cells};
    free_cells = &page->cells[i];
  }
  free_count += PAGE_CELLS;
}

static void mark(cell_t* cell) {
  if (cell == NULL || cell->is_marked) return;
  if (cell->kind == KIND_FREE) bench_fail("a cell that is alive was freed");
  cell->is_marked = true;
  if (cell->kind == KIND_STRING) return;
  if (mark_count == mark_capacity) {
    mark_capacity = mark_capacity * 2 + 64;
    marks = buffer_resize(marks, mark_capacity * sizeof(cell_t*));
  }
  marks[mark_count++] = cell;
}

static void mark_all(void) {
  for (size_t i = 0; i < root_count; i++) mark(roots[i]);
  while (mark_count > 0) {
    const cell_t* const cell = marks[--mark_count];
    if (cell->kind == KIND_ARRAY) {
      for (size_t i = 0; i < cell->length; i++) mark(cell->u.items[i]);
    } else {
      for (size_t i = 0; i < cell->capacity; i++) {
        mark(cell->u.entries[i].key);
        mark(cell->u.entries[i].value);
      }
    }
  }
}

static void cell_release(cell_t* cell) {
  if (cell->capacity > 0) free(cell->u.text);
  cell->kind = KIND_FREE;
}

// Release what is not marked, and make the list of free cells anew, page by page.
static void sweep(void) {
  free_cells = NULL;
  free_count = 0;
  size_t kept = 0;
  for (size_t p = 0; p < page_count; p++) {
    page_t* const page = pages[p];
    page->live = 0;
    for (size_t i = 0; i < PAGE_CELLS; i++) {
      cell_t* const cell = &page->cells[i];
      if (!cell->is_marked && cell->kind != KIND_FREE) cell_release(cell);
      page->live += cell->is_marked;
    }
    if (page->live == 0 && free_count > PAGE_CELLS) {
      free(page);
      continue;
    }
    for (size_t i = PAGE_CELLS; i-- > 0;) {
      cell_t* const cell = &page->cells[i];
      cell->is_marked = false;
      if (cell->kind != KIND_FREE) continue;
      cell->u.next = free_cells;
      free_cells = cell;
      free_count++;
    }
    pages[kept++] = page;
  }
  page_count = kept;
}

// Collect; if that does not free a third of all cells, grow.
static void collect(void) {
  mark_all();
  sweep();
  while (free_count * 3 < page_count * PAGE_CELLS || free_count == 0) page_add();
}

// Everything that must survive is reachable from the roots at every call.
static cell_t* cell_new(kind_t kind) {
  if (free_cells == NULL) collect();
  cell_t* const cell = free_cells;
  if (cell->kind != KIND_FREE) bench_fail("a free cell has changed");
  free_cells = cell->u.next;
  free_count--;
  *cell = (cell_t){.kind = (uint8_t)kind};
  return cell;
}

static cell_t* root_push(cell_t* cell) {
  if (root_count == ROOTS_MAX) bench_fail("the stack of the program is full");
  roots[root_count++] = cell;
  return cell;
}

// ---- values ----

static const char* string_text(const cell_t* string) {
  return string->capacity > 0 ? string->u.text : string->u.embedded;
}

static void string_append(cell_t* string, const char* text, size_t length) {
  const size_t total = string->length + length;
  if (string->capacity == 0 && total > EMBEDDED_MAX) {
    char* const buffer = bench_malloc(total + 1);
    mallocs++;
    memcpy(buffer, string->u.embedded, string->length);
    string->u.text = buffer;
    string->capacity = (uint32_t)total;
  } else if (string->capacity > 0 && total > string->capacity) {
    string->capacity = (uint32_t)(total + total / 2);
    string->u.text = buffer_resize(string->u.text, string->capacity + 1);
  }
  char* const bytes = string->capacity > 0 ? string->u.text : string->u.embedded;
  memcpy(bytes + string->length, text, length);
  bytes[total] = '\0';
  string->length = (uint32_t)total;
}

static void array_push(cell_t* array, cell_t* item) {
  if (array->length == array->capacity) {
    array->capacity = array->capacity * 3 / 2 + 4;
    array->u.items = buffer_resize(array->u.items, array->capacity * sizeof(cell_t*));
  }
  array->u.items[array->length++] = item;
}

static size_t string_hash(const cell_t* string) {
  uint64_t hash = 14695981039346656037u;
  const char* const text = string_text(string);
  for (size_t i = 0; i < string->length; i++)
    hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
  return (size_t)(hash >> 7);
}

// The entry of a key, or the empty one where it would go.
static entry_t* hash_find(const cell_t* hash, const cell_t* key) {
  for (size_t i = string_hash(key);; i++) {
    entry_t* const entry = &hash->u.entries[i & (hash->capacity - 1)];
    if (entry->key == NULL) return entry;
    if (entry->key->length == key->length &&
        memcmp(string_text(entry->key), string_text(key), key->length) == 0) {
      return entry;
    }
  }
}

static void hash_grow(cell_t* hash) {
  entry_t* const old = hash->u.entries;
  const uint32_t old_capacity = hash->capacity;
  hash->capacity = old_capacity > 0 ? old_capacity * 2 : 8;
  hash->u.entries = calloc(hash->capacity, sizeof(entry_t));
  if (hash->u.entries == NULL) bench_fail("calloc returned NULL");
  mallocs++;
  for (size_t i = 0; i < hash->capacity; i++) {
    if (hash->u.entries[i].key != NULL) bench_fail("memory from calloc is not zero");
  }
  for (size_t i = 0; i < old_capacity; i++) {
    if (old[i].key != NULL) *hash_find(hash, old[i].key) = old[i];
  }
  free(old);
}

static void hash_put(cell_t* hash, cell_t* key, cell_t* value) {
  if (hash->length * 4 >= hash->capacity * 3) hash_grow(hash);
  entry_t* const entry = hash_find(hash, key);
  if (entry->key == NULL) {
    entry->key = key;
    hash->length++;
  }
  entry->value = value;
}

// ---- the program ----

static uint64_t string_sum(const cell_t* string) { return string_hash(string) ^ string->length; }

// A string of some words, appended one after the other.
static cell_t* text_make(bench_random_t* random, size_t words) {
  static const char letters[] = "the quick brown fox jumps over the lazy dog and runs away again";
  cell_t* const string = cell_new(KIND_STRING);
  for (size_t i = 0; i < words; i++) {
    const size_t first = bench_below(random, sizeof(letters) - 20);
    string_append(string, letters + first, bench_between(random, 1, 19));
  }
  return string;
}

// One request: parse it into a table of fields, list them, answer with one text.
static cell_t* request_handle(bench_random_t* random, uint64_t* check) {
  const size_t base = root_count;
  cell_t* const fields = root_push(cell_new(KIND_HASH));
  cell_t* const list = root_push(cell_new(KIND_ARRAY));
  for (size_t i = bench_between(random, 2, 30); i > 0; i--) {
    cell_t* const key = root_push(text_make(random, 1));
    cell_t* const value = root_push(text_make(random, bench_below(random, 8)));
    hash_put(fields, key, value);
    array_push(list, key);
    root_count -= 2;
  }
  cell_t* const answer = root_push(cell_new(KIND_STRING));
  for (size_t i = 0; i < list->length; i++) {
    const cell_t* const key = list->u.items[i];
    const cell_t* const value = hash_find(fields, key)->value;
    if (value == NULL) bench_fail("a field was lost");
    string_append(answer, string_text(key), key->length);
    string_append(answer, ": ", 2);
    string_append(answer, string_text(value), value->length);
    string_append(answer, "\n", 1);
  }
  *check = *check * 31 + string_sum(answer);
  cell_t* const session = root_push(cell_new(KIND_ARRAY));
  array_push(session, answer);
  if (bench_below(random, 4) == 0) array_push(session, fields);
  root_count = base;
  return session;
}

int main(int argc, char** argv) {
  const bench_args_t args = bench_parse(argc, argv);
  const size_t requests = bench_pick(args, 500, 40000, 120000);
  const size_t session_count = bench_pick(args, 100, SESSIONS, SESSIONS);
  bench_random_t random = {5040};
  uint64_t check = 0;
  cell_t* const sessions = root_push(cell_new(KIND_ARRAY));
  for (size_t i = 0; i < session_count; i++) array_push(sessions, NULL);
  for (size_t i = 0; i < requests; i++) {
    cell_t* const session = request_handle(&random, &check);
    sessions->u.items[bench_below(&random, session_count)] = session;
  }
  for (size_t i = 0; i < session_count; i++) {
    const cell_t* const session = sessions->u.items[i];
    if (session != NULL) check += string_sum(session->u.items[0]);
  }
  root_count = 0;
  mark_all();
  sweep();
  for (size_t p = 0; p < page_count; p++) free(pages[p]);
  free(pages);
  free(marks);
  bench_report(check, mallocs);
  return 0;
}
