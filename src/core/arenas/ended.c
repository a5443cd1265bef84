// SPDX-License-Identifier: MIT
// ended.c - what is left of the arenas of sub-processes that have ended: the next ones use it.
//
//   mi_state.arenas_free    with memory of ours, clean and free
//   mi_state.arenas_ended   structures of those that had memory of the program, which is gone
//
// ENDED-1  an arena is in one of these lists, or in that of a sub-process (ARENA-3).
// ENDED-2  structures stay structures of arenas (TYPES-2); their maps went back, because nobody
//     finds these but through an arena.
//
// All is under the arena lock. Deliberately absent: giving addresses back; arenas of the main
// sub-process, which does not end.
#include "ended.h"

static bool mi_ended_serves(mi_arena_t* arena, size_t needed, int node) {
  const size_t slice_count = mi_atomic_load_relaxed(&arena->slice_count);
  return slice_count * MI_SLICE_SIZE >= needed && (node < 0 || arena->numa_node == node);
}

static void mi_ended_push(mi_arena_t** list, mi_arena_t* arena) {
  mi_lock_expect(&mi_state.arena_lock);
  mi_atomic_store_relaxed(&arena->next, *list);
  *list = arena;
}

// Take out the arena behind `before`, NULL: the first.
static mi_arena_t* mi_ended_pop(mi_arena_t** list, mi_arena_t* before) {
  mi_lock_expect(&mi_state.arena_lock);
  mi_arena_t* const arena = before == NULL ? *list : mi_atomic_load_relaxed(&before->next);
  mi_arena_t* const next = mi_atomic_load_relaxed(&arena->next);
  if (before == NULL) {
    *list = next;
  } else {
    mi_atomic_store_relaxed(&before->next, next);
  }
  mi_atomic_store_relaxed(&arena->next, NULL);
  return arena;
}

MI_INTERNAL void mi_ended_add(mi_arena_t* arena) {
  arena->is_exclusive = false;
  mi_ended_push(&mi_state.arenas_free, arena);
}

MI_INTERNAL mi_arena_t* mi_ended_take(size_t needed, int node) {
  mi_arena_t* before = NULL;
  mi_arena_t* arena = mi_state.arenas_free;
  while (arena != NULL && !mi_ended_serves(arena, needed, node)) {
    before = arena;
    arena = mi_atomic_load_relaxed(&arena->next);
  }
  return arena != NULL ? mi_ended_pop(&mi_state.arenas_free, before) : NULL;
}

MI_INTERNAL void mi_ended_add_structure(mi_arena_t* arena) {
  *arena = (mi_arena_t){0};
  mi_ended_push(&mi_state.arenas_ended, arena);
}

MI_INTERNAL mi_arena_t* mi_ended_take_structure(void) {
  if (mi_state.arenas_ended != NULL) return mi_ended_pop(&mi_state.arenas_ended, NULL);
  return (mi_arena_t*)mi_meta_alloc(sizeof(mi_arena_t));
}
