// SPDX-License-Identifier: MIT
// check.h - assertions, by cost.
//
//   mi_assert       debug >= 1   constant-time facts: preconditions, postconditions.
//   mi_assert_full  debug >= 3   walks over a structure; checks the numbered invariants of a file.
//
// The release form type-checks its argument and generates no code, so that no variable becomes
// unused. A mistake of the *user* never fails an assertion: it is reported (see
// core/common/hooks.h).
#ifndef MI_BASE_CHECK_H
#define MI_BASE_CHECK_H

#include "config.h"

MI_INTERNAL void mi_assert_failed(const char* text, const char* file, int line,
                                  const char* function);
// The same with a line about the data that it concerns.
MI_INTERNAL void mi_assert_failed_about(const char* text, const char* file, int line,
                                        const char* function, const char* about);

#if MI_DEBUG >= 1
#define mi_assert(e) ((e) ? (void)0 : mi_assert_failed(#e, __FILE__, __LINE__, __func__))
#else
#define mi_assert(e) ((void)sizeof((e) ? 1 : 0))
#endif

#if MI_DEBUG >= 3
#define mi_assert_full(e) mi_assert(e)
#else
#define mi_assert_full(e) ((void)sizeof((e) ? 1 : 0))
#endif

#endif
