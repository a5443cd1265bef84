// SPDX-License-Identifier: MIT
// api_posix.c - allocation functions under the names of POSIX, BSD, glibc and Microsoft, with an
// mi_ prefix.
//
// They differ from their relatives in api_malloc.c in the order of arguments and in how they report
// failure: each follows its own standard. No state. The names without prefix are in src/override.
#include <errno.h>

#include "api.h"

int mi_posix_memalign(void** p, size_t alignment, size_t size) {
  if (p == NULL) return EINVAL;
  // Required is a multiple of the pointer size and a power of two: any power of two from that size
  // on.
  if (alignment < sizeof(void*) || !mi_bits_is_power_of_two(alignment)) {
    const int saved_errno = errno;
    mi_api_bad_alignment("posix_memalign", alignment);
    errno = saved_errno;
    return EINVAL;
  }
  const int saved_errno = errno;
  void* const q = mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
  errno = saved_errno;
  if (q == NULL) return ENOMEM;
  *p = q;
  return 0;
}

int mi__posix_memalign(void** p, size_t alignment, size_t size) {
  return mi_posix_memalign(p, alignment, size);
}

void* mi_memalign(size_t alignment, size_t size) mi_attr_noexcept {
  if (!mi_bits_is_power_of_two(alignment)) return mi_api_bad_alignment("memalign", alignment);
  return mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
}

void* mi_aligned_alloc(size_t alignment, size_t size) mi_attr_noexcept {
  if (!mi_bits_is_power_of_two(alignment)) return mi_api_bad_alignment("aligned_alloc", alignment);
  return mi_aligned_alloc_at(mi_self_theap(), size, alignment, 0, MI_UNINITIALIZED);
}

MI_INTERNAL size_t mi_api_page_size(void) {
  mi_process_setup();
  return mi_state.os.page_size;
}

void* mi_valloc(size_t size) mi_attr_noexcept {
  return mi_aligned_alloc_at(mi_self_theap(), size, mi_api_page_size(), 0, MI_UNINITIALIZED);
}

MI_INTERNAL bool mi_api_round_to_page(size_t size, size_t* rounded) {
  const size_t page_size = mi_api_page_size();
  if (size > SIZE_MAX - page_size) {
    mi_api_overflow("pvalloc");
    return false;
  }
  *rounded = size == 0 ? page_size : mi_bits_align_up(size, page_size);
  return true;
}

void* mi_pvalloc(size_t size) mi_attr_noexcept {
  size_t rounded;
  if (!mi_api_round_to_page(size, &rounded)) return NULL;
  return mi_aligned_alloc_at(mi_self_theap(), rounded, mi_api_page_size(), 0, MI_UNINITIALIZED);
}

void* mi_reallocarray(void* p, size_t count, size_t size) mi_attr_noexcept {
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) {
    mi_api_overflow("reallocarray");
    errno = EOVERFLOW;
    return NULL;
  }
  return mi_realloc(p, total);
}

// Returns an errno value.
static int mi_posix_reallocarr(const mi_posix_calls_t* calls, void* ptrp, size_t count,
                               size_t size) {
  if (ptrp == NULL || size == 0) return EINVAL;
  size_t total;
  if (mi_bits_mul_overflows(count, size, &total)) {
    mi_api_overflow("reallocarr");
    return EOVERFLOW;
  }
  // The pointer may have any type, so it is copied as bytes.
  void* p;
  __builtin_memcpy(&p, ptrp, sizeof(p));
  void* q = NULL;
  if (total == 0) {
    calls->free(p);
  } else {
    q = calls->realloc(p, total);
    if (q == NULL) return ENOMEM;
  }
  __builtin_memcpy(ptrp, &q, sizeof(q));
  return 0;
}

MI_INTERNAL int mi_api_reallocarr(const mi_posix_calls_t* calls, void* ptrp, size_t count,
                                  size_t size) {
  const int err = mi_posix_reallocarr(calls, ptrp, count, size);
  if (err != 0) errno = err;
  return err;
}

int mi_reallocarr(void* ptrp, size_t count, size_t size) mi_attr_noexcept {
  const mi_posix_calls_t calls = {mi_realloc, mi_free};
  return mi_api_reallocarr(&calls, ptrp, count, size);
}

size_t mi_malloc_size(const void* p) mi_attr_noexcept { return mi_usable_size(p); }

size_t mi_malloc_usable_size(const void* p) mi_attr_noexcept { return mi_usable_size(p); }

size_t mi_malloc_good_size(size_t size) mi_attr_noexcept { return mi_good_size(size); }

void* mi__expand(void* p, size_t newsize) mi_attr_noexcept {
  void* const q = mi_expand(p, newsize);
  if (q == NULL) errno = ENOMEM;
  return q;
}
