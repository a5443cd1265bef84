// SPDX-License-Identifier: MIT
// api.h - declarations that the files of this folder share, and that the layers above may use
// besides mimalloc.h.
//
// The public functions themselves are declared in mimalloc.h only. This layer turns arguments of
// users into calls of the core (overflow, alignment, NULL), keeps the options, and prints.
#ifndef MI_API_API_H
#define MI_API_API_H

#include "mimalloc.h"
#include "../base/text.h"
#include "../core/core.h"
#include "../observe/observe.h"

// Longest message, with prefix and terminating zero; longest line of a report.
#define MI_OUTPUT_MESSAGE_MAX 992
#define MI_OUTPUT_LINE_MAX 256

// The destination of a report: a function of the user, or the registered output if `out` is NULL.
typedef struct mi_sink_s {
  mi_output_fun* out;
  void* arg;
} mi_sink_t;

// Make a sink from the arguments of a `..._print_out` function. Programs of old versions pass a
// FILE*.
MI_INTERNAL mi_sink_t mi_output_sink(mi_output_fun* out, void* arg);

// Formats one line (or part of one) and hands it to the sink.
MI_INTERNAL void mi_output_print(mi_sink_t sink, const char* format, ...) mi_attr_printf(2, 3);

// Writes text to standard error, whatever is registered.
MI_INTERNAL void mi_output_write(const char* text);

// From now on, send messages to standard error and not only to the buffer; prints the messages that
// were held back.
MI_INTERNAL void mi_start_output(void);

// Watch for faults from now on, if the options ask for guards, or for errors to be shown.
MI_INTERNAL void mi_output_watch(void);

// Prints how often each kind of error occurred after the first time.
MI_INTERNAL void mi_output_summary(void);

// Take a profile if the environment asks for one / write it at the end of the process.
MI_INTERNAL void mi_profile_begin(void);
MI_INTERNAL void mi_profile_end(void);

// Write a profile to FILE[,KIND], which is cut. Returns 0 or an errno value.
MI_INTERNAL int mi_profile_write_as(char* file);
// What an errno value of that means.
MI_INTERNAL const char* mi_profile_reason(int err);

// Let the purge thread look for commands, if the environment asks for it.
MI_INTERNAL void mi_control_begin(void);

// The option of a name, in any case; false if there is none / the value that a text means in the
// environment; false if it means none.
MI_INTERNAL bool mi_option_find(const char* name, mi_option_t* option);
MI_INTERNAL bool mi_option_read(mi_option_t option, const char* text, long* value);

// True if the user wants to see information messages.
MI_INTERNAL bool mi_output_is_verbose(void);

// Read the environment again if no option was found there before: the first call may come before
// libc has an environment.
MI_INTERNAL void mi_option_load_late(void);

// Print an error of any kind, if the user wants errors, and call the user's handler with `err`.
MI_INTERNAL void mi_output_error(int err, const char* format, ...) mi_attr_printf(2, 3);
// Print a line of a report of an error, whatever the options say.
MI_INTERNAL void mi_output_line(const char* format, ...) mi_attr_printf(1, 2);
// Print a report, whatever the options say.
MI_INTERNAL void mi_output_say(const mi_report_t* report);
// End the line, for which there is room, and print it.
MI_INTERNAL void mi_output_end(char* text, size_t used);
// Call the user's error function; the process goes on in any case.
MI_INTERNAL void mi_output_notify(int err);
// Print who allocated and freed the guarded block that `p` is in or beside, if there is one.
MI_INTERNAL void mi_output_stacks(const void* p);
// Print a warning even if the user did not ask for warnings.
MI_INTERNAL void mi_output_force_warning(const char* format, ...) mi_attr_printf(1, 2);

// Report that a product of a count and a size, or a size rounded up, does not fit: sets errno,
// returns NULL.
MI_INTERNAL void* mi_api_overflow(const char* where);
// Report that there is no memory for something of `size` bytes: sets errno, returns NULL.
MI_INTERNAL void* mi_api_no_memory(const char* where, size_t size);
// Report an alignment that is not a power of two: sets errno to EINVAL, returns NULL.
MI_INTERNAL void* mi_api_bad_alignment(const char* where, size_t alignment);

// Allocate from a theap of the calling thread; if that is NULL (no memory for one), the result is
// NULL. The arguments are checked; `where` names the user's call.
MI_INTERNAL void* mi_api_realloc(mi_theap_t* theap, void* p, size_t size, mi_fill_t fill);
MI_INTERNAL void* mi_api_aligned(mi_theap_t* theap, const char* where, size_t size,
                                 size_t alignment, size_t offset, mi_fill_t fill);
// A block that needs no more than the alignment of a pointer is resized as any other; an alignment
// of 0 means the same.
MI_INTERNAL void* mi_api_realloc_aligned(mi_theap_t* theap, const char* where, void* p, size_t size,
                                         size_t alignment, size_t offset, mi_fill_t fill);

// The functions that composed functions call: ours, or those that the process has under these names
// (override_elf.c).
typedef struct mi_posix_calls_s {
  void* (*realloc)(void* p, size_t size);
  void (*free)(void* p);
} mi_posix_calls_t;
// `mi_reallocarr`, made of these calls.
MI_INTERNAL int mi_api_reallocarr(const mi_posix_calls_t* calls, void* ptrp, size_t count,
                                  size_t size);
// Return the size of an OS page / round a size up to whole OS pages, at least one (false, and errno
// is set, if it does not fit).
MI_INTERNAL size_t mi_api_page_size(void);
MI_INTERNAL bool mi_api_round_to_page(size_t size, size_t* rounded);

// What mi_is_redirected returns from now on.
MI_INTERNAL void mi_api_set_redirected(bool is_redirected);

// Calls the new-handler of C++ for a block of `size` bytes. False if there is none.
MI_INTERNAL bool mi_new_call_handler(size_t size);
// After malloc failed: call the handler and try again, until there is none. Alignment 0 means that
// of malloc. An exception of the handler passes through.
MI_INTERNAL mi_attr_cold void* mi_new_retry(size_t size, size_t alignment);
// Called if there is neither memory nor a handler: throws std::bad_alloc, or ends the process.
MI_INTERNAL mi_attr_cold void mi_new_throw(void);

// Return the sub-process of an id, or NULL. Sets the process up.
MI_INTERNAL mi_subproc_t* mi_api_subproc(mi_subproc_id_t id);

// What the process holds, for the information calls of C libraries. In bytes, except the counts.
typedef struct mi_snapshot_s {
  size_t in_use; // blocks of the program that share pages
  size_t in_use_blocks;
  size_t in_pages; // memory of these pages
  size_t large, large_peak; // blocks with a page of their own
  size_t large_blocks;
  size_t committed, committed_peak, reserved;
} mi_snapshot_t;
MI_INTERNAL void mi_stats_snapshot(mi_snapshot_t* snapshot);

// The program is about to create a thread, or wants it at once: the purge thread may start.
MI_INTERNAL void mi_process_start_purger(void);

// The program is about to join a thread. If true, call the other function after it.
MI_INTERNAL bool mi_process_begin_join(void);
MI_INTERNAL void mi_process_end_join(void);

// Between the two: give other threads a millisecond in which they may enter locks.
MI_INTERNAL void mi_process_pause_join(void);

// End the purge thread, if there is one.
MI_INTERNAL void mi_process_end_purger(void);

// A function failed because the program can have no more threads, or has more than one: end the
// purge thread. True if the function should be tried again, because there was one, and it is gone.
// `tries` counts these calls, from 0 on.
MI_INTERNAL bool mi_process_make_room(size_t* tries);

// The same of a function that creates a thread: the purge thread stays away for a second, or each
// one that fails would start it, end it, and be tried again.
MI_INTERNAL bool mi_process_make_room_for_thread(size_t* tries);

// The program enters a sandbox, or may soon: the library opens no file any more, unless it is asked
// to. Called by override_thread.c.
MI_INTERNAL void mi_process_enter_sandbox(void);

// Give back all unused memory; returns the bytes that went to the system.
MI_INTERNAL size_t mi_process_trim(void);

#endif
