// SPDX-License-Identifier: MIT
// meta.c - a bump allocator over mappings of 64 KiB or more, for structures that live as long as
// the process.
//
// Z1  memory past `mi_meta_used` of the current mapping has never been touched.
// All state is under the arena lock. Deliberately absent: freeing. Theaps are reused through the
// list of orphans (thread.c), arenas are never removed.
#include "meta.h"

#define MI_META_MAP_SIZE (64 * MI_KIB)

static uint8_t* mi_meta_start;
static size_t mi_meta_used;
static size_t mi_meta_size;

MI_INTERNAL void* mi_meta_alloc(size_t size) {
  size = mi_bits_align_up(size, 64);
  if (mi_meta_size - mi_meta_used < size) {
    const size_t wanted = mi_bits_max(size, MI_META_MAP_SIZE);
    const size_t map_size = mi_bits_align_up(wanted, mi_state.os.page_size);
    void* const p = mi_os_map(NULL, map_size, mi_state.os.page_size, MI_OS_READ_WRITE);
    mi_count_add(&mi_state.count.mmap_calls, 1);
    if (p == NULL) return NULL;
    mi_meta_start = (uint8_t*)p;
    mi_meta_used = 0;
    mi_meta_size = map_size;
  }
  void* const p = mi_meta_start + mi_meta_used;
  mi_meta_used += size;
  mi_count_add(&mi_state.count.meta, (int64_t)size);
  return p;
}
