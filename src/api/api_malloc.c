// SPDX-License-Identifier: MIT
// api_malloc.c - resizing, counted, zeroing, aligned and size-reporting forms of malloc and free.
//
// The functions of the hit path (malloc, zalloc, calloc, free, usable_size and the _small forms)
// are in core/front/alloc.c and core/front/free.c; the functions here check arguments and pass them
// on. No state.
//
// API_MALLOC-1  an alignment reaches the core only if it is a power of two, a product only if it
//     did not overflow.
// API_MALLOC-2  the library never relies on what a caller of the `mi_free_size` family claims:
//     debug builds check it, others ignore it.
//
// Deliberately absent: names of other systems (api_posix.c) and exceptions (api_new.c).
#include <errno.h>

#include "api.h"

MI_INTERNAL void* mi_api_overflow(const char* where) {
  mi_report(MI_ERROR_TOO_LARGE, where, NULL, SIZE_MAX);
  errno = ENOMEM;
  return NULL;
}

MI_INTERNAL void* mi_api_no_memory(const char* where, size_t size) {
  mi_report(MI_ERROR_OUT_OF_MEMORY, where, NULL, size);
  errno = ENOMEM;
  return NULL;
}

MI_INTERNAL void* mi_api_bad_alignment(const char* where, size_t alignment) {
  mi_report(MI_ERROR_ALIGNMENT, where, NULL, alignment);
  errno = EINVAL;
  return NULL;
}

// -- With a theap, for these and for api_heap.c --

static void* mi_api_no_theap(const mi_theap_t* theap, const char* where) {
  if (MI_HAS_USE_CHECK && theap != NULL) mi_report(MI_ERROR_WRONG_HEAP, where, theap, 0);
  errno = ENOMEM;
  return NULL;
}

MI_INTERNAL void* mi_api_realloc(mi_theap_t* theap, void* p, size_t size, mi_fill_t fill) {
  if (!mi_theap_is_usable(theap)) return mi_api_no_theap(theap, "realloc");
  return mi_realloc_block(theap, p, size, fill);
}

MI_INTERNAL void* mi_api_aligned(mi_theap_t* theap, const char* where, size_t size,
                                 size_t alignment, size_t offset, mi_fill_t fill) {
  if (!mi_bits_is_power_of_two(alignment)) return mi_api_bad_alignment(where, alignment);
  if (!mi_theap_is_usable(theap)) return mi_api_no_theap(theap, where);
  return mi_aligned_alloc_at(theap, size, alignment, offset, fill);
}

MI_INTERNAL void* mi_api_realloc_aligned(mi_theap_t* theap, const char* where, void* p, size_t size,
                                         size_t alignment, size_t offset, mi_fill_t fill) {
  const size_t step = mi_bits_max(alignment, 1);
  // `p` may have been aligned at an offset.
  const bool is_plain =
      alignment <= sizeof(void*) && offset % step == 0 && (uintptr_t)p % step == 0;
  if (is_plain && (alignment == 0 || mi_bits_is_power_of_two(alignment))) {
    return mi_api_realloc(theap, p, size, fill);
  }
  if (!mi_bits_is_power_of_two(alignment)) return mi_api_bad_alignment(where, alignment);
  if (!mi_theap_is_usable(theap)) return mi_api_no_theap(theap, where);
  return mi_realloc_block_at(theap, p, size, alignment, offset, fill);
}

// -- Resizing --

void* mi_realloc(void* p, size_t newsize) mi_attr_noexcept {
  return mi_realloc_block(mi_self_theap(), p, newsize, MI_UNINITIALIZED);
}

void* mi_reallocf(void* p, size_t newsize) mi_attr_noexcept {
  void* const q = mi_realloc(p, newsize);
  if (q == NULL) mi_free(p);
  return q;
}

void* mi_expand(void* p, size_t newsize) mi_attr_noexcept {
  return p != NULL && mi_realloc_in_place(p, newsize) ? p : NULL;
}

void* mi_rezalloc(void* p, size_t newsize) mi_attr_noexcept {
  return mi_realloc_block(mi_self_theap(), p, newsize, MI_ZERO);
}

// -- Counted --

void* mi_mallocn(size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("mallocn");
  return mi_malloc(total);
}

void* mi_reallocn(void* p, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("reallocn");
  return mi_realloc(p, total);
}

void* mi_recalloc(void* p, size_t newcount, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(newcount, size, &total)) return mi_api_overflow("recalloc");
  return mi_rezalloc(p, total);
}

// -- Aligned --

// Allocate from the calling thread's theap.
static void* mi_api_own_aligned(const char* where, size_t size, size_t alignment, size_t offset,
                                mi_fill_t fill) {
  return mi_api_aligned(mi_self_theap(), where, size, alignment, offset, fill);
}

static void* mi_api_own_realloc_aligned(const char* where, void* p, size_t size, size_t alignment,
                                        size_t offset, mi_fill_t fill) {
  return mi_api_realloc_aligned(mi_self_theap(), where, p, size, alignment, offset, fill);
}

void* mi_malloc_aligned(size_t size, size_t alignment) mi_attr_noexcept {
  return mi_api_own_aligned("malloc_aligned", size, alignment, 0, MI_UNINITIALIZED);
}

void* mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept {
  return mi_api_own_aligned("malloc_aligned_at", size, alignment, offset, MI_UNINITIALIZED);
}

void* mi_zalloc_aligned(size_t size, size_t alignment) mi_attr_noexcept {
  return mi_api_own_aligned("zalloc_aligned", size, alignment, 0, MI_ZERO);
}

void* mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) mi_attr_noexcept {
  return mi_api_own_aligned("zalloc_aligned_at", size, alignment, offset, MI_ZERO);
}

void* mi_calloc_aligned(size_t count, size_t size, size_t alignment) mi_attr_noexcept {
  return mi_calloc_aligned_at(count, size, alignment, 0);
}

void* mi_calloc_aligned_at(size_t count, size_t size, size_t alignment,
                           size_t offset) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) return mi_api_overflow("calloc_aligned");
  return mi_api_own_aligned("calloc_aligned", total, alignment, offset, MI_ZERO);
}

void* mi_realloc_aligned(void* p, size_t newsize, size_t alignment) mi_attr_noexcept {
  return mi_api_own_realloc_aligned("realloc_aligned", p, newsize, alignment, 0, MI_UNINITIALIZED);
}

void* mi_realloc_aligned_at(void* p, size_t newsize, size_t alignment,
                            size_t offset) mi_attr_noexcept {
  return mi_api_own_realloc_aligned("realloc_aligned_at", p, newsize, alignment, offset,
                                    MI_UNINITIALIZED);
}

void* mi_rezalloc_aligned(void* p, size_t newsize, size_t alignment) mi_attr_noexcept {
  return mi_api_own_realloc_aligned("rezalloc_aligned", p, newsize, alignment, 0, MI_ZERO);
}

void* mi_rezalloc_aligned_at(void* p, size_t newsize, size_t alignment,
                             size_t offset) mi_attr_noexcept {
  return mi_api_own_realloc_aligned("rezalloc_aligned_at", p, newsize, alignment, offset, MI_ZERO);
}

void* mi_recalloc_aligned(void* p, size_t newcount, size_t size,
                          size_t alignment) mi_attr_noexcept {
  return mi_recalloc_aligned_at(p, newcount, size, alignment, 0);
}

void* mi_recalloc_aligned_at(void* p, size_t newcount, size_t size, size_t alignment,
                             size_t offset) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(newcount, size, &total)) return mi_api_overflow("recalloc_aligned");
  return mi_api_own_realloc_aligned("recalloc_aligned", p, total, alignment, offset, MI_ZERO);
}

void* mi_aligned_recalloc(void* p, size_t newcount, size_t size,
                          size_t alignment) mi_attr_noexcept {
  return mi_recalloc_aligned_at(p, newcount, size, alignment, 0);
}

void* mi_aligned_offset_recalloc(void* p, size_t newcount, size_t size, size_t alignment,
                                 size_t offset) mi_attr_noexcept {
  return mi_recalloc_aligned_at(p, newcount, size, alignment, offset);
}

// -- Free, with a size that the caller knows --

// Without padding, a block that holds more than was asked for may be claimed to have any size up to
// that.
static void mi_api_check_claim(const void* p, size_t size, size_t alignment) {
  if ((MI_DEBUG == 0 && !MI_IS_PADDED && !MI_IS_SECURE) || p == NULL) return;
  const size_t usable = mi_usable_if_used(p);
  if (usable != 0 && (size > usable || (MI_IS_PADDED && size != 0 && size < usable))) {
    mi_hook_warning("free with size %zu of block %p, which holds %zu bytes", size, p, usable);
  }
  if (alignment != 0 && (uintptr_t)p % alignment != 0) {
    mi_hook_warning("free with alignment %zu of block %p, which has less", alignment, p);
  }
}

void mi_free_size(void* p, size_t size) mi_attr_noexcept {
  mi_api_check_claim(p, size, 0);
  mi_free(p);
}

void mi_free_aligned(void* p, size_t alignment) mi_attr_noexcept {
  mi_api_check_claim(p, 0, alignment);
  mi_free(p);
}

void mi_free_size_aligned(void* p, size_t size, size_t alignment) mi_attr_noexcept {
  mi_api_check_claim(p, size, alignment);
  mi_free(p);
}

void mi_cfree(void* p) mi_attr_noexcept {
  if (mi_is_known_address(p)) mi_free(p);
}

// -- Sizes --

size_t mi_good_size(size_t size) mi_attr_noexcept {
  if (size > MI_REQUEST_MAX || MI_IS_TRACKED) return size;
  if (MI_HAS_CANARY) return mi_bits_max(size, 16);
  if (size > MI_CLASS_MAX) mi_process_setup(); // the size of an OS page is needed
  return mi_class_good_size(size);
}

// Return the result of an allocation, and store its slot size if the caller wants it.
static void* mi_api_with_size(void* p, size_t* block_size) {
  if (p != NULL && block_size != NULL) *block_size = mi_slot_size(p);
  return p;
}

void* mi_umalloc(size_t size, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_malloc(size), block_size);
}

void* mi_uzalloc(size_t size, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_zalloc(size), block_size);
}

void* mi_ucalloc(size_t count, size_t size, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_calloc(count, size), block_size);
}

void* mi_umalloc_small(size_t size, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_malloc_small(size), block_size);
}

void* mi_uzalloc_small(size_t size, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_zalloc_small(size), block_size);
}

void* mi_umalloc_aligned(size_t size, size_t alignment, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_malloc_aligned(size, alignment), block_size);
}

void* mi_uzalloc_aligned(size_t size, size_t alignment, size_t* block_size) mi_attr_noexcept {
  return mi_api_with_size(mi_zalloc_aligned(size, alignment), block_size);
}

void* mi_urealloc(void* p, size_t newsize, size_t* block_size_pre,
                  size_t* block_size_post) mi_attr_noexcept {
  if (block_size_pre != NULL) *block_size_pre = mi_slot_size(p);
  return mi_api_with_size(mi_realloc(p, newsize), block_size_post);
}

void mi_ufree(void* p, size_t* block_size) mi_attr_noexcept {
  mi_api_with_size(p, block_size);
  mi_free(p);
}
