// SPDX-License-Identifier: MIT
// numa.c - see numa.h. The system is asked once, when the number is first needed.
#include "numa.h"

MI_INTERNAL size_t mi_numa_count(void) {
  const long pretended = mi_option_value(use_numa_nodes);
  if (pretended > 0) return (size_t)pretended;
  size_t count = mi_atomic_load_relaxed(&mi_state.numa_count);
  if (count == 0) {
    count = mi_os_numa_nodes();
    mi_atomic_store_relaxed(&mi_state.numa_count, count);
  }
  return count;
}

MI_INTERNAL int mi_numa_node(int node) {
  if (node < 0) return -1; // without asking the system
  const size_t count = mi_numa_count();
  return count == 1 ? -1 : (int)((size_t)node % count);
}

MI_INTERNAL int mi_numa_node_for(const mi_heap_t* heap) {
  const int wish = mi_atomic_load_relaxed(&((mi_heap_t*)(uintptr_t)heap)->numa_wish);
  if (wish > 0) return wish - 1;
  if (mi_option_value(arena_is_numa_local) == 0 || mi_numa_count() == 1) return -1;
  return mi_numa_node((int)mi_os_numa_node());
}
