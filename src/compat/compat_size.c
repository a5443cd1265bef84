// SPDX-License-Identifier: MIT
// compat_size.c - how large a block of some size and alignment would be: nallocx, which both
// jemalloc and gperftools have. It allocates nothing, so it has to know the rules:
//
//   alignment up to 64 KiB   the class of the size, rounded up to the alignment
//   where there is none      a page of its own: the size, rounded up to OS pages
//   secure, padded builds    the size itself, because they watch the bytes behind a block (but a
//                            block that is aligned as any other has at least 16, if it is secure)
#include <unistd.h>

#include "compat.h"
#include "mimalloc-stats.h"

#define MI_COMPAT_ALIGNMENT_MAX ((size_t)64 * 1024)

static size_t mi_compat_round(size_t size, size_t alignment) {
  return (size + alignment - 1) & ~(alignment - 1);
}

// Whether a block is as large as was asked for: no class has a size like this.
static bool mi_compat_is_exact(void) { return mi_good_size(33) == 33; }

MI_INTERNAL size_t mi_compat_size(size_t size, size_t alignment) {
  if (size > PTRDIFF_MAX || alignment > PTRDIFF_MAX - size) return 0;
  if (alignment <= MI_COMPAT_QUANTUM) return mi_good_size(size);
  if (mi_compat_is_exact()) return size;
  const size_t rounded = mi_compat_round(size, alignment);
  if (alignment <= MI_COMPAT_ALIGNMENT_MAX && rounded <= mi_stats_get_bin_size(MI_BIN_HUGE - 1)) {
    return mi_good_size(rounded);
  }
  return mi_compat_round(size > 0 ? size : 1, (size_t)sysconf(_SC_PAGESIZE));
}
