// SPDX-License-Identifier: MIT
// os_no_family.c - as os_lacks.c, where nothing tells which processes came to be by forks of this
// one and live: other systems than Linux, and other C libraries than glibc (os_family.c).
#include "os.h"

MI_INTERNAL mi_os_family_t* mi_os_family_create(void) { return NULL; }

MI_INTERNAL void mi_os_family_join(mi_os_family_t* family) { (void)family; }

MI_INTERNAL bool mi_os_family_is_alone(mi_os_family_t* family) {
  (void)family;
  return false;
}

MI_INTERNAL void mi_os_family_end(mi_os_family_t* family) { (void)family; }
