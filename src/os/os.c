// SPDX-License-Identifier: MIT
// os.c - the one place that chooses the implementation of os.h.
//
// Each implementation defines every function of os.h and lock.h in the order of the headers.
// The unit tests compile test/lib/os_fake.c instead of this file.
#if defined(__linux__)
#include "os_linux.c"
#include "os_linux_fault.c"
#include "os_linux_dump.c"
#else
#error "This version supports Linux only. A port starts with os/os.h."
#endif
