// SPDX-License-Identifier: MIT
// self.c - the thread-local variables, and the theap of a thread before its first allocation.
#include "self.h"

MI_INTERNAL_DATA __thread mi_self_t mi_self mi_attr_tls;
MI_INTERNAL_DATA mi_theap_t mi_theap_empty = {
    .current = {[0 ... MI_CLASS_COUNT - 1] = MI_PAGE_NONE},
    .home = &mi_theap_empty,
    .heap = MI_HEAP_GONE,
    .named = MI_HEAP_GONE,
};
MI_INTERNAL_DATA __thread mi_theap_t* mi_theap_tls mi_attr_tls = &mi_theap_empty;
MI_INTERNAL_DATA __thread mi_theap_t* mi_theap_recent_tls mi_attr_tls = &mi_theap_empty;
