// SPDX-License-Identifier: MIT
// fence.c - inaccessible OS pages around mappings of our own, and behind large blocks: FENCE-1 to
// FENCE-3 in fence.h.
//
// The whole is mapped without access first, and then the middle anew: never is something between
// the fences accessible that is not ours, and a sandbox that permits mmap permits this.
#include "fence.h"

#if MI_IS_SECURE

// The fences are as long as the alignment, so that what is between them has it.
MI_INTERNAL void* mi_fence_map(size_t size, size_t alignment) {
  uint8_t* const p = (uint8_t*)mi_os_map(NULL, size + 2 * alignment, alignment, MI_OS_NO_ACCESS);
  mi_count_add(&mi_state.main.count.mmap_calls, 2);
  if (p == NULL) return NULL;
  if (mi_os_remap(p + alignment, size) == 0) return p + alignment;
  mi_os_unmap(p, size + 2 * alignment);
  return NULL;
}

MI_INTERNAL void mi_fence_unmap(void* start, size_t size, size_t alignment) {
  mi_os_unmap((uint8_t*)start - alignment, size + 2 * alignment);
}

MI_INTERNAL uint8_t* mi_fence_of(const mi_page_t* page) {
  if (page->size_class == MI_CLASS_COUNT) return page->start + page->block_size;
  return page->start + page->slice_count * MI_SLICE_SIZE - mi_state.os.page_size;
}

MI_INTERNAL void mi_fence_raise(mi_page_t* page) {
  if (page->has_fence) return;
  page->has_fence = mi_os_guard(mi_fence_of(page), mi_state.os.page_size);
}

MI_INTERNAL bool mi_fence_drop(mi_page_t* page) {
  if (!page->has_fence) return true;
  uint8_t* const fence = mi_fence_of(page);
  const size_t size = mi_state.os.page_size;
  // A filter of system calls that came after the fence may refuse the first one.
  page->has_fence = !mi_os_unguard(fence, size) && mi_os_remap(fence, size) != 0;
  return !page->has_fence;
}

#endif
