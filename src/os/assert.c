// SPDX-License-Identifier: MIT
// assert.c - what a failed assertion of base/check.h does: it says where, and ends the process.
//
// It lies in this folder because it must print and stop without anything above: no output
// function of the user is called, nothing is allocated. Only debug builds have assertions. Also
// here: which locks a thread holds, which all builds need (os/lock.h).
#include "../base/text.h"
#include "os.h"

#include "lock.h"

#define MI_ASSERT_TEXT_MAX ((size_t)512)

MI_INTERNAL_DATA __thread uint32_t mi_locks_held mi_attr_tls;

MI_INTERNAL void mi_assert_failed(const char* text, const char* file, int line,
                                  const char* function) {
  char message[MI_ASSERT_TEXT_MAX];
  mi_text_format(message, sizeof(message),
                 "mimalloc: assertion failed: at \"%s\":%d, %s\nassertion: \"%s\"\n", file, line,
                 function, text);
  mi_os_abort(message);
}
