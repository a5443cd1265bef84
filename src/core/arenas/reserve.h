// SPDX-License-Identifier: MIT
// reserve.h - arenas that the program or an option asks for.
#ifndef MI_CORE_RESERVE_H
#define MI_CORE_RESERVE_H

#include "arena.h"

// The size of reserved memory is a multiple of this; memory of the program must be at least as
// large.
#define MI_RESERVE_UNIT (512 * MI_SLICE_SIZE)

// Reserve `plan->size` bytes, rounded up, for a sub-process; in explicit huge OS pages only if
// there are enough. NULL if the system refuses.
MI_INTERNAL mi_arena_t* mi_reserve_memory(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                          mi_arena_kind_t kind);

// Reserve OS pages of 1 GiB next to each other, as many as there are up to `pages`; fewer when all
// of them would take more than twice `timeout_ms` (0: no limit). NULL if there are none.
MI_INTERNAL mi_arena_t* mi_reserve_giant_pages(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                               size_t pages, uint64_t timeout_ms);

// The same, spread over the first `nodes` NUMA nodes. False if none of them has such pages.
MI_INTERNAL bool mi_reserve_giant_pages_spread(mi_subproc_t* subproc, size_t pages, size_t nodes,
                                               uint64_t timeout_ms);

// Reserve what the options ask for, at the start of the process.
MI_INTERNAL void mi_reserve_at_start(void);

#endif
