// SPDX-License-Identifier: MIT
// nextalloc.c - the functions that the recorded calls are passed on to: those of the allocator
// that comes next, and a little memory for the time until they are found.
//
// NEXTALLOC-1  the functions are found once, by the first call of the process; the table is
//     constant then, and no fork changes it.
// NEXTALLOC-2  what finds them (dlsym) may allocate. Such a call is served from memory of ours,
//     which is never freed, and is not recorded. No lock is held meanwhile.
//
// Deliberately absent: functions that the allocator lacks, where they cannot be made of the
// others.
#include <dlfcn.h>
#include <sched.h>

#include "../base/bits.h"
#include "nextalloc.h"

#define MI_NEXTALLOC_EARLY ((size_t)64 * 1024)

MI_INTERNAL_DATA mi_nextalloc_t mi_nextalloc;

// Memory for early calls: the size of a block, then the block.
static uint8_t mi_nextalloc_memory[MI_NEXTALLOC_EARLY] mi_attr_aligned(16);
// How much of it is used: any thread writes and reads it, relaxed.
static mi_atomic(size_t) mi_nextalloc_used;

// 0 nothing is known, 1 a thread is finding the functions, 2 they are known.
//   write  first  CAS acquire     a thread begins   mi_nextalloc_find
//   write  first  store release   all is known      mi_nextalloc_find   (publishes the table)
//   read   any    acquire         is it known?      mi_nextalloc_find
static mi_atomic(int) mi_nextalloc_state;
static _Thread_local bool mi_nextalloc_is_finding;

MI_INTERNAL void* mi_nextalloc_name(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  static const char* const libraries[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
  for (size_t i = 0; found == NULL && i < 3 && name[0] == '_'; i++) {
    void* const library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL) continue;
    found = dlsym(library, name);
    dlclose(library);
  }
  return found;
}

static void mi_nextalloc_fill(void) {
  // A function and an address of data are the same here: the loader says so.
#define MI_NEXTALLOC_GET(name) *(void**)&mi_nextalloc.name = dlsym(RTLD_NEXT, #name)
  MI_NEXTALLOC_GET(malloc);
  MI_NEXTALLOC_GET(calloc);
  MI_NEXTALLOC_GET(realloc);
  MI_NEXTALLOC_GET(reallocarray);
  MI_NEXTALLOC_GET(free);
  MI_NEXTALLOC_GET(aligned_alloc);
  MI_NEXTALLOC_GET(memalign);
  MI_NEXTALLOC_GET(posix_memalign);
  MI_NEXTALLOC_GET(valloc);
  MI_NEXTALLOC_GET(pvalloc);
#undef MI_NEXTALLOC_GET
}

MI_INTERNAL bool mi_nextalloc_find(void) {
  // sees the table that `mi_nextalloc_find` of another thread has filled
  if (mi_likely(mi_atomic_load_acquire(&mi_nextalloc_state) == 2)) return true;
  if (mi_nextalloc_is_finding) return false;
  int state = 0;
  // pairs with the store of `mi_nextalloc_find`, if that has happened
  if (mi_atomic_cas_strong_acquire(&mi_nextalloc_state, &state, 1)) {
    mi_nextalloc_is_finding = true;
    mi_nextalloc_fill();
    mi_nextalloc_is_finding = false;
    // publishes the table to `mi_nextalloc_find` of other threads
    mi_atomic_store_release(&mi_nextalloc_state, 2);
    return true;
  }
  // sees the table that `mi_nextalloc_find` of another thread has filled
  while (mi_atomic_load_acquire(&mi_nextalloc_state) != 2) sched_yield();
  return true;
}

MI_INTERNAL void* mi_nextalloc_early(size_t size) {
  if (size > MI_NEXTALLOC_EARLY / 2) return NULL;
  const size_t whole = 16 + mi_bits_align_up(size, 16);
  const size_t used = mi_atomic_add_relaxed(&mi_nextalloc_used, whole);
  if (used > MI_NEXTALLOC_EARLY - whole) return NULL;
  uint8_t* const p = mi_nextalloc_memory + used;
  *(size_t*)(void*)p = size;
  return p + 16;
}

MI_INTERNAL bool mi_nextalloc_is_early(const void* p, size_t* size) {
  const uintptr_t offset = (uintptr_t)p - (uintptr_t)mi_nextalloc_memory;
  if (offset < 16 || offset >= MI_NEXTALLOC_EARLY) return false;
  *size = *(const size_t*)((uintptr_t)p - 16);
  return true;
}
