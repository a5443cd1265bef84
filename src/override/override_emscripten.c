// SPDX-License-Identifier: MIT
// override_emscripten.c - the names by which Emscripten's own library calls its malloc.
//
// Only in builds that replace malloc: otherwise a program would contain both. Emscripten frees with
// `emscripten_builtin_free` what it had from `malloc` (structures and stacks of threads), so both
// must be ours. And it allocates and frees the thread-local variables of a thread, ours among them,
// on that thread:
//
//   start   emscripten_builtin_memalign   the thread has no thread-local variables yet; of the main
//                                         thread it is the first call of all
//   end     destructors of keys           the thread leaves the library (core/threads/thread.c)
//           emscripten_builtin_free       its thread-local variables
//           emscripten_builtin_free       a last block of another kind
//
// OVERRIDE_EMSCRIPTEN-1  memory for thread-local variables is no block: it comes from a pool of its
//     own, without a look at the state of the thread (OS_WASM-3).
// OVERRIDE_EMSCRIPTEN-2  a thread that has freed its own is leaving: they go to the pool when it
//     frees its last block, which needs them. Until then no other thread may get them.
//
// In later versions the memory of a thread is one block, which another thread allocates and frees:
// then nothing here differs from malloc and free.
#if defined(MI_MALLOC_OVERRIDE) && defined(__EMSCRIPTEN__)

#include <emscripten/threading.h>

#include "../api/api.h"
#include "override.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

void* emscripten_builtin_malloc(size_t size) MI_ELF_ALIAS(mi_malloc);
void* emscripten_builtin_calloc(size_t count, size_t size) MI_ELF_ALIAS(mi_calloc);
void* emscripten_builtin_realloc(void* p, size_t size) MI_ELF_ALIAS(mi_realloc);

#if !MI_IS_WASM_THREADS

void* emscripten_builtin_memalign(size_t alignment, size_t size) MI_ELF_ALIAS(mi_memalign);
void emscripten_builtin_free(void* p) MI_ELF_ALIAS(mi_free);

#else

// In front of the thread-local variables of a thread, which are at a multiple of `alignment`.
typedef struct mi_emscripten_room_s {
  struct mi_emscripten_room_s* next; // in the pool
  size_t size; // bytes behind this
  bool is_leaving; // by its thread only
} mi_emscripten_room_t;

// The pool: a list that a thread takes as a whole, so that no other one has its rooms meanwhile.
//   write  any  swap acquire  mi_emscripten_take  (sees the rooms)
//   write  any  CAS release   mi_emscripten_give  (publishes a room)
static mi_atomic(mi_emscripten_room_t*) mi_emscripten_pool;

static void mi_emscripten_give(mi_emscripten_room_t* room) {
  mi_emscripten_room_t* first = mi_atomic_load_relaxed(&mi_emscripten_pool);
  do {
    room->next = first;
    // Publishes the room; pairs with the acquire in `mi_emscripten_take`.
  } while (!mi_atomic_cas_weak_release(&mi_emscripten_pool, &first, room));
}

// Cut memory of the system into rooms. Returns one of them; NULL if there is no memory.
static mi_emscripten_room_t* mi_emscripten_make(size_t alignment, size_t size) {
  const size_t before = mi_bits_align_up(sizeof(mi_emscripten_room_t), alignment);
  const size_t each = before + mi_bits_align_up(size, alignment);
  const size_t map_size = mi_bits_align_up(each, MI_SLICE_SIZE);
  uint8_t* const start = (uint8_t*)mi_os_map(NULL, map_size, MI_SLICE_SIZE, MI_OS_READ_WRITE);
  if (start == NULL) return NULL;
  mi_emscripten_room_t* room = NULL;
  for (size_t at = 0; at + each <= map_size; at += each) {
    if (room != NULL) mi_emscripten_give(room);
    room = (mi_emscripten_room_t*)(void*)(start + at + before) - 1;
    room->size = size;
  }
  return room;
}

static mi_emscripten_room_t* mi_emscripten_take(size_t alignment, size_t size) {
  // Sees the rooms; pairs with the release in `mi_emscripten_give`.
  mi_emscripten_room_t* room = mi_atomic_swap_acquire(&mi_emscripten_pool, NULL);
  mi_emscripten_room_t* found = NULL;
  while (room != NULL) {
    mi_emscripten_room_t* const next = room->next;
    if (found == NULL && room->size >= size && (uintptr_t)(room + 1) % alignment == 0) {
      found = room;
    } else {
      mi_emscripten_give(room);
    }
    room = next;
  }
  return found != NULL ? found : mi_emscripten_make(alignment, size);
}

// Return the room of the calling thread. NULL if it is the main thread, which keeps its own as long
// as there is the process, or if its variables are in a block, as in later versions.
static mi_emscripten_room_t* mi_emscripten_own(void) {
  void* const start = __builtin_wasm_tls_base();
  if (emscripten_is_main_browser_thread() || mi_is_in_heap_region(start)) return NULL;
  return (mi_emscripten_room_t*)start - 1;
}

MI_ELF_EXPORT void* emscripten_builtin_memalign(size_t alignment, size_t size) {
  if (size != __builtin_wasm_tls_size() || alignment != __builtin_wasm_tls_align()) {
    return mi_memalign(alignment, size);
  }
  mi_emscripten_room_t* const room = mi_emscripten_take(alignment, size);
  if (room == NULL) return NULL;
  room->is_leaving = false;
  return room + 1;
}

MI_ELF_EXPORT void emscripten_builtin_free(void* p) {
  mi_emscripten_room_t* const own = mi_emscripten_own();
  if (own != NULL && p == own + 1) {
    own->is_leaving = true;
    return;
  }
  mi_free(p);
  if (own != NULL && own->is_leaving) mi_emscripten_give(own);
}

#endif

#pragma GCC diagnostic pop

#endif
