// SPDX-License-Identifier: MIT
// explain.h - reports, and descriptions of addresses, as text and as JSON.
#ifndef MI_CORE_EXPLAIN_H
#define MI_CORE_EXPLAIN_H

#include "hooks.h"

typedef enum mi_explain_form_e { MI_EXPLAIN_TEXT, MI_EXPLAIN_JSON } mi_explain_form_t;

// Bytes that are enough for any report and its terminating zero: EXPLAIN-3.
#define MI_EXPLAIN_MAX ((size_t)2048)

// Return what a user's error function receives for a kind / its name in reports.
MI_INTERNAL int mi_explain_code(mi_error_kind_t kind);
MI_INTERNAL const char* mi_explain_label(mi_error_kind_t kind);

// Return what to try next, whatever the address is.
MI_INTERNAL const char* mi_explain_hint(mi_error_kind_t kind);

// Write a description: text of some lines, or a JSON object, without a line break at its end. What
// does not fit is left out, and a zero follows if `capacity` is not 0. Returns the length of the
// whole description.
MI_INTERNAL size_t mi_explain_about(const mi_about_t* about, mi_explain_form_t form, char* buffer,
                                    size_t capacity);

// Write a string of JSON with its quotes in the same way.
MI_INTERNAL size_t mi_explain_quote(const char* string, char* buffer, size_t capacity);

// Write a report in the same way.
MI_INTERNAL size_t mi_explain_report(const mi_report_t* report, mi_explain_form_t form,
                                     char* buffer, size_t capacity);

// Write any other error / that so many more errors of a kind were not printed, as JSON.
MI_INTERNAL size_t mi_explain_message(const char* kind, int code, const char* message, char* buffer,
                                      size_t capacity);
MI_INTERNAL size_t mi_explain_hidden(mi_error_kind_t kind, size_t count, char* buffer,
                                     size_t capacity);

#endif
