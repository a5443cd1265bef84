// SPDX-License-Identifier: MIT
// meta.c - memory for our own structures: a bump allocator over mappings of 64 KiB or more, and
// lists of freed pieces.
//
// META-1  memory past `used` of a region has never been touched.
// META-2  a freed piece waits in a list of its exact size: there are few sizes, each used again and
//     again. A piece of more than half an OS page occupies whole OS pages and has its list entry
//     elsewhere, so that its contents can go back to the system (mi_meta_purge).
// META-3  the list entry of a mapping lies in a mapping whose own entry is older, or in that
//     mapping itself.
// META-4  `count.meta_charged` is the memory that pieces have touched, in whole OS pages, but what
//     was purged. (A piece counts as touched as a whole.)
// All state is under the arena lock. Deliberately absent: joining free pieces. Heaps and arenas,
// whose structures are found by stale pointers, have lists of their own (TYPES-2).
#include "meta.h"

#include "fence.h"

#include <string.h>

#define MI_META_MAP_SIZE (64 * MI_KIB)
// More mappings than a process can have: a list that is longer is damaged.
#define MI_META_MAPS_MAX ((size_t)1 << 20)

typedef struct mi_meta_region_s {
  uint8_t* start;
  size_t used;
  size_t size;
} mi_meta_region_t;

// One region for small pieces, and one for pieces of whole OS pages.
static mi_meta_region_t mi_meta_region[2];

// The list entry of a free piece: in its own first bytes, unless it has whole OS pages.
typedef struct mi_meta_free_s {
  struct mi_meta_free_s* next; // of the same size
  struct mi_meta_free_s* next_size; // in the list of the newest of each size
  size_t size;
  void* piece;
  bool is_purged;
} mi_meta_free_t;

static mi_meta_free_t* mi_meta_free_list;

MI_INTERNAL_DATA mi_meta_map_t* mi_meta_maps;

static size_t mi_meta_round_up(size_t size) {
  return mi_bits_align_up(size, mi_state.os.page_size);
}

static bool mi_meta_has_pages(size_t size) { return size >= mi_state.os.page_size / 2; }

// Round a size up. The result is on the same side of `mi_meta_has_pages` when it is rounded again.
static size_t mi_meta_round(size_t size) {
  size = mi_bits_align_up(size, 64);
  return mi_meta_has_pages(size) ? mi_bits_align_up(size, mi_state.os.page_size) : size;
}

static mi_attr_noinline void mi_meta_charge(int64_t bytes) {
  mi_counters_t* const count = &mi_state.main.count;
  mi_count_add_peak(&count->meta_charged, &count->meta_charged_peak, bytes);
}

// Return the pointer to the newest free piece of a size, or to the end of the list.
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
  if (piece != entry) mi_meta_free(entry, sizeof(mi_meta_free_t));
  if (!is_zero) return memset(piece, 0, size);
  mi_meta_charge((int64_t)size);
  return piece;
}

static void* mi_meta_take(size_t size);

// Return the least size of a mapping. One with a fence does not merge with its neighbours, and the
// number of mappings is limited: then each is an eighth of all, so that there are few.
static size_t mi_meta_map_size(void) {
  const size_t used = (size_t)mi_atomic_load_relaxed(&mi_state.main.count.meta);
  return MI_IS_SECURE ? mi_bits_max(MI_META_MAP_SIZE, used / 8) : MI_META_MAP_SIZE;
}

// Make room for `size` bytes in a region.
static bool mi_meta_map(mi_meta_region_t* region, size_t size) {
  const size_t wanted = mi_bits_max(size, mi_meta_map_size());
  const size_t map_size = mi_bits_align_up(wanted, mi_state.os.page_size);
  uint8_t* const start = (uint8_t*)mi_fence_map(map_size, mi_state.os.page_size);
  if (start == NULL) return false;
  const mi_meta_region_t before = *region;
  *region = (mi_meta_region_t){.start = start, .size = map_size};
  mi_meta_map_t* const map = (mi_meta_map_t*)mi_meta_take(mi_meta_round(sizeof(mi_meta_map_t)));
  if (map == NULL) {
    *region = before;
    mi_fence_unmap(start, map_size, mi_state.os.page_size);
    return false;
  }
  *map = (mi_meta_map_t){.next = mi_meta_maps, .start = start, .size = map_size};
  mi_meta_maps = map;
  return true;
}

static void* mi_meta_take(size_t size) {
  void* const again = mi_meta_take_free(size);
  if (again != NULL) return again;
  mi_meta_region_t* const region = &mi_meta_region[mi_meta_has_pages(size) ? 1 : 0];
  if (region->size - region->used < size && !mi_meta_map(region, size)) return NULL;
  void* const p = region->start + region->used;
  const size_t touched = mi_meta_round_up(region->used + size) - mi_meta_round_up(region->used);
  region->used += size;
  if (touched > 0) mi_meta_charge((int64_t)touched);
  return p;
}

MI_INTERNAL void* mi_meta_alloc(size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  size = mi_meta_round(size);
  void* const p = mi_meta_take(size);
  if (p != NULL) mi_count_add(&mi_state.main.count.meta, (int64_t)size);
  return p;
}

MI_INTERNAL void mi_meta_clear(void) {
  while (mi_meta_maps != NULL) {
    const mi_meta_map_t map = *mi_meta_maps; // newest first: META-3
    mi_fence_unmap(map.start, map.size, mi_state.os.page_size);
    mi_meta_maps = map.next;
  }
  mi_meta_free_list = NULL;
  mi_meta_region[0] = mi_meta_region[1] = (mi_meta_region_t){0};
}

MI_INTERNAL void mi_meta_free(void* p, size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  size = mi_meta_round(size);
  mi_count_add(&mi_state.main.count.meta, -(int64_t)size);
  mi_meta_free_t* entry = (mi_meta_free_t*)p;
  if (mi_meta_has_pages(size)) {
    // Without memory for an entry the piece holds it, and keeps its contents resident.
    mi_meta_free_t* const outside = (mi_meta_free_t*)mi_meta_alloc(sizeof(mi_meta_free_t));
    if (outside != NULL) entry = outside;
  }
  mi_meta_push(entry, p, size);
}

MI_INTERNAL void* mi_meta_lock_and_alloc(size_t size) {
  mi_lock_enter(&mi_state.arena_lock);
  void* const p = mi_meta_alloc(size);
  mi_lock_leave(&mi_state.arena_lock);
  return p;
}

MI_INTERNAL void mi_meta_lock_and_free(void* p, size_t size) {
  mi_lock_enter(&mi_state.arena_lock);
  mi_meta_free(p, size);
  mi_lock_leave(&mi_state.arena_lock);
}

// The list grows at its head only, and an entry does not change.
MI_INTERNAL mi_attr_racy bool mi_meta_contains(const void* p, size_t size) {
  if ((uintptr_t)p % sizeof(void*) != 0) return false;
  size_t left = MI_META_MAPS_MAX;
  for (const mi_meta_map_t* map = mi_atomic_peek(&mi_meta_maps); map != NULL; map = map->next) {
    const size_t offset = (size_t)((uintptr_t)p - (uintptr_t)map->start);
    if (offset < map->size) return map->size - offset >= size;
    if (left-- == 0) break;
  }
  return false;
}

MI_INTERNAL bool mi_meta_purge_used(void* p, size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  size = mi_meta_round(size);
  if (!mi_meta_has_pages(size) || mi_os_purge(p, size) != 0) return false;
  mi_meta_charge(-(int64_t)size);
  return true;
}

MI_INTERNAL void mi_meta_use_again(size_t size) {
  mi_lock_expect(&mi_state.arena_lock);
  mi_meta_charge((int64_t)mi_meta_round(size));
}

MI_INTERNAL void mi_meta_purge(void) {
  mi_lock_expect(&mi_state.arena_lock);
  for (mi_meta_free_t* s = mi_meta_free_list; s != NULL; s = s->next_size) {
    for (mi_meta_free_t* entry = s; entry != NULL; entry = entry->next) {
      if (entry->piece == entry || entry->is_purged) continue;
      entry->is_purged = mi_os_purge(entry->piece, entry->size) == 0;
      if (!entry->is_purged) continue;
      mi_meta_charge(-(int64_t)entry->size);
    }
  }
}
