// SPDX-License-Identifier: MIT
// sysctl.h - what os_bsd.c asks the kernel of a BSD, as on_linux.h answers it.
#ifndef TEST_BSD_SYSCTL_H
#define TEST_BSD_SYSCTL_H

#include <stddef.h>
#include <stdint.h>

enum { CTL_KERN = 1, CTL_VM = 2, KERN_PROC = 14, KERN_PROC2 = 47, KERN_PROC_PID = 1 };
enum { VM_OVERCOMMIT = 12 };

struct kinfo_proc2 {
  int32_t p_vm_rssize;
};

int sysctl(const int* name, unsigned count, void* value, size_t* size, const void* next,
           size_t next_size);

#endif
