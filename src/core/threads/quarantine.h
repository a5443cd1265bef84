// SPDX-License-Identifier: MIT
// quarantine.h - freed blocks that are not handed out again for a while: option `quarantine` of a
// secure build from level 4 on.
#ifndef MI_CORE_QUARANTINE_H
#define MI_CORE_QUARANTINE_H

#include "theap.h"

#if MI_HAS_QUARANTINE

// Keep a block that was freed just now, whose mark says so, and that was cleared or not; another
// one that was kept is freed in its place. False if it is not kept: the caller frees it.
MI_INTERNAL bool mi_quarantine_take(void* p, bool is_cleared);

// Free all blocks that the calling thread keeps / and give up the place for them.
MI_INTERNAL void mi_quarantine_flush(void);
MI_INTERNAL void mi_quarantine_end(void);

// In the child of a fork: what a vanished thread has kept is freed later.
MI_INTERNAL void mi_quarantine_inherit(mi_theap_t* vanished);

#else

static mi_attr_inline bool mi_quarantine_take(void* p, bool is_cleared) {
  (void)is_cleared;
  (void)p;
  return false;
}

static inline void mi_quarantine_flush(void) {}
static inline void mi_quarantine_end(void) {}
static inline void mi_quarantine_inherit(mi_theap_t* vanished) { (void)vanished; }

#endif
#endif
