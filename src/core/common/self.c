// SPDX-License-Identifier: MIT
// self.c - the thread-local state, and the theap of a thread before its first allocation.
#include "self.h"

MI_INTERNAL_DATA mi_theap_t mi_theap_empty = {
    .current = {[0 ... MI_CLASS_COUNT - 1] = MI_PAGE_NONE},
    .home = &mi_theap_empty,
    .heap = MI_HEAP_GONE,
    .named = MI_HEAP_GONE,
    .hold = 1, // it has no pages: mi_free_held, mi_alloc_medium
};

#define MI_SELF_INITIAL                                                                            \
  { .theap = &mi_theap_empty, .theap_recent = &mi_theap_empty }

#if MI_HAS_SELF_TABLE
MI_INTERNAL_DATA const mi_self_t mi_self_initial = MI_SELF_INITIAL;
MI_INTERNAL_DATA mi_self_slot_t mi_self_slots[MI_SELF_SLOTS] = {
    [0 ... MI_SELF_SLOTS - 1] = {.self = MI_SELF_INITIAL},
};
#else
MI_INTERNAL_DATA __thread mi_self_t mi_self_tls mi_attr_tls = MI_SELF_INITIAL;
#endif
