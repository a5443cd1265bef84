// SPDX-License-Identifier: MIT
// reserve.h - arenas that somebody asks for, the program or an option.
#ifndef MI_CORE_RESERVE_H
#define MI_CORE_RESERVE_H

#include "arena.h"

// What is reserved is a multiple of this, and what the program brings along at least as large.
#define MI_RESERVE_UNIT (512 * MI_SLICE_SIZE)

// Reserve `plan->size` bytes, rounded up, for a sub-process; in explicit huge OS pages only if
// there are enough. NULL: the system refuses.
MI_INTERNAL mi_arena_t* mi_reserve_memory(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                          mi_arena_kind_t kind);

// Reserve OS pages of 1 GiB next to each other, as many as there are up to `pages`; fewer when all
// of them would take more than twice `timeout_ms` (0: no limit). NULL: there is none.
MI_INTERNAL mi_arena_t* mi_reserve_giant_pages(mi_subproc_t* subproc, mi_arena_plan_t* plan,
                                               size_t pages, uint64_t timeout_ms);

// The same spread over the first `nodes` NUMA nodes. False: none has any.
MI_INTERNAL bool mi_reserve_giant_pages_spread(mi_subproc_t* subproc, size_t pages, size_t nodes,
                                               uint64_t timeout_ms);

// What options ask for, at the start of the process.
MI_INTERNAL void mi_reserve_at_start(void);

#endif
