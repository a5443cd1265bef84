// SPDX-License-Identifier: MIT
// recorder.c - libmimalloc-trace.so as one translation unit: what a recorded call runs through,
// from the bottom up. The core of the allocator is not in it.
#include "../base/text.c"
#include "shadow.c"
#include "nextalloc.c"
#include "writer.c"
#include "calls.c"
