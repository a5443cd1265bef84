// SPDX-License-Identifier: MIT
/// The memory allocator libmimalloc. `mimalloc.c` has all functions; `mimalloc.allocator` the allocators.
module mimalloc;

public import mimalloc.allocator;
public import mimalloc.c;
