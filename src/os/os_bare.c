// SPDX-License-Identifier: MIT
// os_bare.c - as os_lacks.c, for systems that have even less: what Windows has of os.h and neither
// WebAssembly nor POSIX does, which is explicit huge pages, guards, NUMA nodes, the number of a
// thread, and how a library is unloaded.
//
// Each function says that it cannot do it; os.h says what that costs.
#include "os.h"
#include "tls.h"

MI_INTERNAL void* mi_os_map_large(void* hint, size_t size, size_t os_page_size) {
  (void)hint, (void)size, (void)os_page_size;
  return NULL;
}

MI_INTERNAL bool mi_os_guard(void* start, size_t size) {
  (void)start, (void)size;
  return false;
}

MI_INTERNAL bool mi_os_unguard(void* start, size_t size) {
  (void)start, (void)size;
  return false;
}

MI_INTERNAL size_t mi_os_numa_nodes(void) { return 1; }

MI_INTERNAL size_t mi_os_numa_node(void) { return 0; }

MI_INTERNAL size_t mi_os_thread_number(void) { return (size_t)mi_tls_thread_id(); }

MI_INTERNAL void mi_os_unload_watch(void (*at_end)(void)) { (void)at_end; }

MI_INTERNAL bool mi_os_is_unloaded(void) { return false; }
