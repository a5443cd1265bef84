// SPDX-License-Identifier: MIT
// reserve.c - arenas that the program or an option asks for: their sizes, explicit huge OS pages,
// the options that reserve memory at the start.
//
// Explicit huge OS pages come from a pool that the administrator filled; there may be fewer than
// wanted, or none. Pages of 2 MiB are taken all or not at all: an arena of normal pages serves as
// well. Pages of 1 GiB are taken one by one, because finding and clearing one takes up to a second:
// the program says how long it waits, and gets those that were found by then.
#include "reserve.h"

#include "numa.h"

#define MI_GIANT_SIZE MI_GIB
#define MI_GIANT_TIMEOUT_MS ((uint64_t)500) // for each page at the start
#define MI_GIANT_SPREAD_MS ((uint64_t)50) // added for each node
#define MI_NODES_MAX ((size_t)1024) // that Linux has

MI_INTERNAL mi_arena_t* mi_reserve_memory(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                          mi_arena_kind_t kind) {
  if (plan->size > MI_REQUEST_MAX) return NULL;
  const size_t unit = mi_bits_max(MI_RESERVE_UNIT, mi_state.os.page_size);
  plan->size = mi_bits_align_up(mi_bits_max(plan->size, 1), unit);
  if (kind == MI_ARENA_LARGE) {
    const bool is_whole = plan->size % mi_state.os.huge_page_size == 0;
    mi_arena_t* const arena = is_whole ? mi_arena_reserve(subproc, plan, kind) : NULL;
    if (arena != NULL) return arena;
    kind = MI_ARENA_COMMITTED;
  }
  return mi_arena_reserve(subproc, plan, kind);
}

// Map giant pages from `*start` on, or from where the system puts the first one. Returns their
// number.
static size_t mi_reserve_map_giant(uint8_t** start, size_t pages, int node, uint64_t timeout_ms) {
  const uint64_t begin = mi_os_now_ms();
  size_t count = 0;
  while (count < pages) {
    uint8_t* const wanted = *start + count * MI_GIANT_SIZE;
    uint8_t* const p = (uint8_t*)mi_os_map_large(wanted, MI_GIANT_SIZE, MI_GIANT_SIZE);
    if (p == NULL) break;
    if (count == 0) *start = p;
    if (p != *start + count * MI_GIANT_SIZE) {
      mi_os_unmap(p, MI_GIANT_SIZE); // the address is taken
      break;
    }
    mi_numa_prefer(p, MI_GIANT_SIZE, node);
    mi_os_populate(p, MI_GIANT_SIZE);
    count++;
    const uint64_t estimate_ms = (mi_os_now_ms() - begin) * pages / count;
    if (timeout_ms != 0 && estimate_ms > 2 * timeout_ms) break;
  }
  return count;
}

MI_INTERNAL mi_arena_t* mi_reserve_giant_pages(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                               size_t pages, uint64_t timeout_ms) {
  const size_t hint = (size_t)mi_arena_hint();
  plan->start = (uint8_t*)mi_bits_align_up(hint, MI_GIANT_SIZE);
  const size_t count = mi_reserve_map_giant(&plan->start, pages, plan->numa_node, timeout_ms);
  if (count == 0) return NULL;
  mi_count_add(&subproc->count.mmap_calls, (int64_t)count);
  plan->size = count * MI_GIANT_SIZE;
  plan->is_committed = plan->is_pinned = true;
  mi_arena_t* const arena = mi_arena_manage(subproc, plan);
  if (arena == NULL) mi_os_unmap(plan->start, plan->size);
  return arena;
}

MI_INTERNAL bool mi_reserve_giant_pages_spread(mi_subproc_t* subproc, size_t pages, size_t nodes,
                                               uint64_t timeout_ms) {
  nodes = mi_bits_min(nodes, MI_NODES_MAX);
  const uint64_t node_ms = timeout_ms == 0 ? 0 : timeout_ms / nodes + MI_GIANT_SPREAD_MS;
  bool is_any = false;
  for (size_t node = 0; node < nodes && node < pages; node++) {
    const size_t count = pages / nodes + (node < pages % nodes ? 1 : 0);
    mi_arena_plan_t plan = {.numa_node = mi_numa_node((int)node)};
    is_any = mi_reserve_giant_pages(subproc, &plan, count, node_ms) != NULL || is_any;
  }
  return is_any;
}

static bool mi_reserve_giant_at_start(size_t pages) {
  const long at = mi_option_value(reserve_huge_os_pages_at);
  const uint64_t timeout_ms = pages * MI_GIANT_TIMEOUT_MS;
  if (at < 0) {
    return mi_reserve_giant_pages_spread(&mi_state.main, pages, mi_numa_count(), timeout_ms);
  }
  mi_arena_plan_t plan = {.numa_node = mi_numa_node((int)at)};
  return mi_reserve_giant_pages(&mi_state.main, &plan, pages, timeout_ms) != NULL;
}

MI_INTERNAL void mi_reserve_at_start(void) {
  const long pages = mi_option_value(reserve_huge_os_pages);
  if (pages > 0 && !mi_reserve_giant_at_start((size_t)pages)) {
    mi_hook_warning("unable to reserve huge OS pages at the start: option reserve_huge_os_pages\n");
  }
  const long kib = mi_option_value(reserve_os_memory);
  mi_arena_plan_t plan = {.size = (size_t)kib * MI_KIB, .numa_node = -1};
  if (kib > 0 && mi_reserve_memory(&mi_state.main, &plan, MI_ARENA_LARGE) == NULL) {
    mi_hook_warning("unable to reserve %ld KiB at the start: option reserve_os_memory\n", kib);
  }
}
