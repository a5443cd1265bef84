// SPDX-License-Identifier: MIT
// os.c - the one place that chooses the implementation of os.h, and what is the same for all.
//
// The unit tests compile test/lib/os_fake.c instead of this file. A header that several choices use
// comes before the choice, because the amalgamation has each header once, where it comes first.
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "../base/random.h"
#include "../base/tag.h"
#include "../base/text.h"
#include "lock.h"
#include "os.h"
#include "tls.h"

#if MI_IS_WINDOWS
#include "os_windows.c"
#include "os_windows_cxx.c"
#include "os_windows_fault.c"
#include "os_lacks.c"
#include "os_no_family.c"
#else

#include "os_libc.h"

#if MI_IS_WASM
#include "os_wasm.c"
#include "os_bare.c"
#include "os_lacks.c"
#include "os_no_family.c"
#include "os_libc.c"
#else

#include "os_posix.h"

#if MI_IS_OS_PLAIN
#include "os_cancel.c"
#include "os_common.c"
#include "os_plain.c"
#include "os_bare.c"
#include "os_lacks.c"
#include "os_no_family.c"
#elif MI_IS_BSD
#include "os_cancel.c"
#include "os_common.c"
#include "os_bsd.c"
#include "os_bare.c"
#include "os_lacks.c"
#include "os_no_family.c"
#elif MI_IS_MACOS
#include "os_cancel.c"
#include "os_common.c"
#include "os_macos.c"
#include "os_bare.c"
#include "os_lacks.c"
#include "os_no_family.c"
#elif defined(__linux__)
#include "os_linux.c"
#include "os_linux_cxx.c"
#include "os_linux_dump.c"
#include "os_linux_fault.c"
#include "os_linux_folder.c"
#include "os_linux_limit.c"
#include "os_linux_resident.c"
#include "os_linux_unwinder.c"
#if defined(__GLIBC__)
#include "os_family.c"
#else
#include "os_no_family.c"
#endif
#else
#error "This version is for Linux, BSD, macOS, Windows and WebAssembly. A port starts with os/os.h."
#endif

#include "os_key.c"
#include "os_libc.c"
#include "os_posix.c"
#include "os_posix_fault.c"

#endif
#endif

#if MI_HAS_SELF_TABLE
#include "self_table.c"
#endif

// Use a counter of the processor: on some machines libc must enter the kernel to read the clock,
// and a sandbox may not permit that.
MI_INTERNAL bool mi_os_was_away(uint64_t* mark) {
#if MI_HAS_CPU_TICKS
  const uint64_t now = mi_cpu_ticks();
  const bool was_away = now - *mark >= 2 * mi_cpu_ticks_per_ms();
#else
  const uint64_t now = mi_os_now_us();
  const bool was_away = now - *mark >= 2000;
#endif
  *mark = now;
  return was_away;
}
