// SPDX-License-Identifier: MIT
// numa.h - on which NUMA nodes memory should be.
//
// A node is an index below the number of nodes, or -1: anywhere. With one node, all is anywhere.
#ifndef MI_CORE_NUMA_H
#define MI_CORE_NUMA_H

#include "../common/common.h"

// Nodes of the machine, or what option use_numa_nodes pretends; at least 1.
MI_INTERNAL size_t mi_numa_count(void);

// A node as the program named it: modulo their number, negative is anywhere.
MI_INTERNAL int mi_numa_node(int node);

// Where memory for a heap should come from: what the heap wants, or with option
// arena_is_numa_local the node of the calling thread.
MI_INTERNAL int mi_numa_node_for(const mi_heap_t* heap);

#endif
