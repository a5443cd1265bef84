// SPDX-License-Identifier: MIT
// meta.c - memory for our own structures: a bump allocator over mappings of 64 KiB or more, and
// lists of what was freed.
//
// Z1  memory past `used` of a region has never been touched.
// Z2  what was freed waits in a list of its exact size: there are few sizes, each used again and
//     again. What is more than half an OS page has whole ones, and a list entry outside of itself:
//     then its contents can go back to the system (mi_meta_purge).
// All state is under the arena lock. Deliberately absent: joining what is free. Heaps and arenas,
// whose structures are found by stale pointers, have lists of their own (T2 in types.h).
#include "meta.h"

#include <string.h>

#define MI_META_MAP_SIZE (64 * MI_KIB)

typedef struct mi_meta_region_s {
  uint8_t* start;
  size_t used;
  size_t size;
} mi_meta_region_t;

// For small pieces, and for those of whole OS pages.
static mi_meta_region_t mi_meta_region[2];

// A piece that is free. In its own first bytes, unless it has whole OS pages.
typedef struct mi_meta_free_s {
  struct mi_meta_free_s* next; // of the same size
  struct mi_meta_free_s* next_size; // of the newest of each size
  size_t size;
  void* piece;
  bool is_purged;
} mi_meta_free_t;

static mi_meta_free_t* mi_meta_free_list;

static bool mi_meta_has_pages(size_t size) { return size >= mi_state.os.page_size / 2; }

static size_t mi_meta_round(size_t size) {
  return mi_bits_align_up(size, mi_meta_has_pages(size) ? mi_state.os.page_size : 64);
}

// What points to the newest free piece of a size, or to the end of the list.
static mi_meta_free_t** mi_meta_find(size_t size) {
  mi_meta_free_t** link = &mi_meta_free_list;
  while (*link != NULL && (*link)->size != size) link = &(*link)->next_size;
  return link;
}

static void mi_meta_push(mi_meta_free_t* entry, void* piece, size_t size) {
  mi_meta_free_t** const link = mi_meta_find(size);
  mi_meta_free_t* const next = *link;
  *entry = (mi_meta_free_t){.next = next, .size = size, .piece = piece};
  if (next != NULL) entry->next_size = next->next_size;
  *link = entry;
}

static void* mi_meta_take_free(size_t size) {
  mi_meta_free_t** const link = mi_meta_find(size);
  mi_meta_free_t* const entry = *link;
  if (entry == NULL) return NULL;
  if (entry->next != NULL) entry->next->next_size = entry->next_size;
  *link = entry->next != NULL ? entry->next : entry->next_size;
  void* const piece = entry->piece;
  const bool is_zero = entry->is_purged;
  if (piece != entry) mi_meta_push(entry, entry, mi_meta_round(sizeof(mi_meta_free_t)));
  return is_zero ? piece : memset(piece, 0, size);
}

MI_INTERNAL void* mi_meta_alloc(size_t size) {
  size = mi_meta_round(size);
  void* p = mi_meta_take_free(size);
  mi_meta_region_t* const region = &mi_meta_region[mi_meta_has_pages(size) ? 1 : 0];
  if (p == NULL && region->size - region->used < size) {
    const size_t wanted = mi_bits_max(size, MI_META_MAP_SIZE);
    const size_t map_size = mi_bits_align_up(wanted, mi_state.os.page_size);
    void* const map = mi_os_map(NULL, map_size, mi_state.os.page_size, MI_OS_READ_WRITE);
    mi_count_add(&mi_state.main.count.mmap_calls, 1);
    if (map == NULL) return NULL;
    *region = (mi_meta_region_t){.start = (uint8_t*)map, .size = map_size};
  }
  if (p == NULL) {
    p = region->start + region->used;
    region->used += size;
  }
  mi_count_add(&mi_state.main.count.meta, (int64_t)size);
  return p;
}

MI_INTERNAL void mi_meta_free(void* p, size_t size) {
  size = mi_meta_round(size);
  mi_count_add(&mi_state.main.count.meta, -(int64_t)size);
  mi_meta_free_t* entry = (mi_meta_free_t*)p;
  if (mi_meta_has_pages(size)) {
    // Without memory for an entry the piece is its own, and stays as it is.
    mi_meta_free_t* const outside = (mi_meta_free_t*)mi_meta_alloc(sizeof(mi_meta_free_t));
    if (outside != NULL) entry = outside;
  }
  mi_meta_push(entry, p, size);
}

MI_INTERNAL void mi_meta_purge(void) {
  for (mi_meta_free_t* s = mi_meta_free_list; s != NULL; s = s->next_size) {
    for (mi_meta_free_t* entry = s; entry != NULL; entry = entry->next) {
      if (entry->piece == entry || entry->is_purged) continue;
      entry->is_purged = mi_os_purge(entry->piece, entry->size) == 0;
    }
  }
}
