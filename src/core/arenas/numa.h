// SPDX-License-Identifier: MIT
// numa.h - the NUMA nodes on which memory should be.
//
// A node is an index below the number of nodes, or -1: anywhere. On a machine with one node all
// memory is "anywhere".
#ifndef MI_CORE_NUMA_H
#define MI_CORE_NUMA_H

#include "../common/common.h"

// Return the number of nodes of the machine, or what option use_numa_nodes pretends; at least 1.
MI_INTERNAL size_t mi_numa_count(void);

// Convert a node that the program named: modulo the number of nodes; negative means anywhere.
MI_INTERNAL int mi_numa_node(int node);

// Return the node where memory for a heap should come from: the node that the heap prefers, or with
// option arena_is_numa_local that of the calling thread.
MI_INTERNAL int mi_numa_node_for(const mi_heap_t* heap);

// Prefer a node for memory that was mapped just now; -1: anywhere.
static inline void mi_numa_prefer(uint8_t* start, size_t size, int node) {
  if (node >= 0) mi_os_prefer_node(start, size, (size_t)node);
}

#endif
