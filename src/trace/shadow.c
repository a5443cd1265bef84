// SPDX-License-Identifier: MIT
// shadow.c - which recorded block begins at an address: a word for each 8 bytes of memory, in
// tables that are mapped when the first block of their 64 MiB is entered.
//
// SHADOW-1  a word is accessed only by a thread that may use the block at its address: the one to
//     which malloc returned it, and then whoever frees it. So the accesses need no order of their
//     own: what hands the block on orders them.
// SHADOW-2  the child of a fork finds all empty (MADV_WIPEONFORK): blocks of its parent are in
//     another trace.
// SHADOW-3  words of addresses that are multiples of 16 lie apart from the others, so that of the
//     tables only half is touched where all blocks are aligned so.
// SHADOW-4  addresses have 48 bits: a system gives others only to a program that asks for them. Two
//     that differ above are taken for one, and a block may then seem to go unseen.
//
// Deliberately absent: sizes, and a way to free tables.
#include <sys/mman.h>

#include "shadow.h"

MI_INTERNAL_DATA mi_shadow_root_t* mi_shadow_root;

// Map memory that is touched here and there only, and that a child finds empty (SHADOW-2).
static void* mi_shadow_map(size_t size) {
  void* const p =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return NULL;
  madvise(p, size, MADV_NOHUGEPAGE);
  madvise(p, size, MADV_DONTDUMP);
  if (madvise(p, size, MADV_WIPEONFORK) == 0) return p;
  munmap(p, size);
  return NULL;
}

MI_INTERNAL bool mi_shadow_init(void) {
  if (mi_shadow_root == NULL)
    mi_shadow_root = (mi_shadow_root_t*)mi_shadow_map(sizeof(*mi_shadow_root));
  return mi_shadow_root != NULL;
}

MI_INTERNAL mi_shadow_word_t* mi_shadow_make(const void* p) {
  uintptr_t address;
  mi_shadow_word_t* table = mi_shadow_table(p, &address);
  if (table == NULL) {
    const size_t size = MI_SHADOW_TABLE_COUNT * sizeof(mi_shadow_word_t);
    mi_shadow_word_t* const made = (mi_shadow_word_t*)mi_shadow_map(size);
    if (made == NULL) return NULL;
    const size_t root = (address >> MI_SHADOW_TABLE_BITS) & (MI_SHADOW_ROOT_COUNT - 1);
    // publishes the table to `mi_shadow_table`
    if (mi_atomic_cas_strong_acq_rel(&mi_shadow_root->table[root], &table, made)) {
      table = made;
    } else {
      munmap(made, size); // another thread was first
      table = mi_shadow_table(p, &address);
    }
  }
  return &table[mi_shadow_index(address)];
}
