// SPDX-License-Identifier: MIT
// gperftools_info.c - tc_mallinfo, tc_mallopt and tc_malloc_stats: what mallinfo, mallopt and
// malloc_stats of the library say. Only where libc has these (cmake/compat.cmake).
#include <malloc.h>

#include "gperftools.h"

#pragma GCC diagnostic ignored "-Wmissing-prototypes" // these stand in tcmalloc.h
#pragma GCC diagnostic ignored                                                                     \
    "-Wdeprecated-declarations" // of mallinfo: this one counts in int, too

MI_COMPAT_EXPORT struct mallinfo tc_mallinfo(void) { return mallinfo(); }
MI_COMPAT_EXPORT int tc_mallopt(int cmd, int value) { return mallopt(cmd, value); }
MI_COMPAT_EXPORT void tc_malloc_stats(void) { malloc_stats(); }
