// SPDX-License-Identifier: MIT
// output.c - messages: where they go, how many are printed, and the two callbacks for output and
// errors; and what a mistake of the program leads to.
//
//   mi_hook_verbose, mi_hook_warning, mi_hook_error (core/common/hooks.h)
//     -> one message with a prefix -> registered output, or standard error; only the buffer
//        before the library's constructor ran
//   mi_output_print -> one line of a report
//
// OUTPUT-1  nothing here allocates or uses stdio: messages are printed while malloc is being
//     called.
// OUTPUT-2  a message caused by printing a message, on the same thread, is dropped
//     (`mi_self()->is_printing`). But a mistake is told on standard error: the function for output
//     made it, or never came back (longjmp).
// OUTPUT-3  errno is the same after every function.
// OUTPUT-4  each kind of error is printed once; later errors are counted, and the counts printed at
//     the end. With option verbose all errors are printed.
//
// Any thread may call any function here. Deliberately absent: formatting (base/text.c), what a
// report of a mistake says (core/common/explain.c), and the text of other reports (stats.c,
// options.c).
#include <errno.h>
#include <stdio.h> // for the addresses of stdout and stderr only, see `mi_output_sink`

#include "api.h"
#include "callback.h"

// Longest report, with prefix, end of line, and terminating zero.
#define MI_OUTPUT_REPORT_MAX (MI_EXPLAIN_MAX + 64)

// The most bytes that an output function registered later receives. Further text goes only to
// standard error.
#define MI_OUTPUT_KEEP_MAX ((size_t)16 * MI_KIB)

static struct mi_output_s {
  mi_callback_t output;
  mi_callback_t error;
  // is_started - the constructor ran; main_thread - the thread it ran on. Written once, by that
  // thread, read by any. Relaxed: a message of another thread at that moment is at worst kept but
  // not printed, or lacks its thread id.
  mi_atomic(bool) is_started;
  mi_atomic(uintptr_t) main_thread;
  // Messages printed so far; per kind, errors printed or not (`seen`), and not printed (`hidden`).
  // Any thread, relaxed counts.
  mi_atomic(long) errors;
  mi_atomic(long) warnings;
  mi_atomic(size_t) seen[MI_ERROR_COUNT];
  mi_atomic(size_t) hidden[MI_ERROR_COUNT];
  // No thread waits for the lock, it only tries: a signal handler may print while its thread holds
  // the lock, and in the child of a fork the lock may stay held. Then a message is not kept.
  mi_lock_t lock;
  size_t kept; // characters in `mi_output_keep`, under the lock
} mi_output;

static char mi_output_keep[MI_OUTPUT_KEEP_MAX] mi_attr_sparse; // under the lock

// -- Where text goes --

static void mi_output_append(const char* text, size_t length) {
  if (!mi_lock_try_enter(&mi_output.lock)) return;
  const size_t room = MI_OUTPUT_KEEP_MAX - mi_output.kept;
  if (length <= room) {
    __builtin_memcpy(&mi_output_keep[mi_output.kept], text, length);
    mi_output.kept += length;
  }
  mi_lock_leave(&mi_output.lock);
}

static void mi_output_deliver(mi_sink_t sink, const char* text, size_t length) {
  const int saved_errno = errno;
  const bool was_busy = mi_self()->is_printing;
  mi_self()->is_printing = true;
  if (sink.out == NULL && !was_busy) {
    sink.out = (mi_output_fun*)mi_callback_get(&mi_output.output, &sink.arg);
  }
  if (sink.out != NULL) {
    sink.out(text, sink.arg);
  } else {
    if (mi_atomic_load_relaxed(&mi_output.is_started)) mi_os_write_error(text, length);
    mi_output_append(text, length);
  }
  mi_self()->is_printing = was_busy;
  errno = saved_errno;
}

// Takes the first `capacity - 1` kept characters or fewer, preferably whole lines. Returns their
// number.
static size_t mi_output_take_kept(char* text, size_t capacity) {
  if (!mi_lock_try_enter(&mi_output.lock)) return 0;
  size_t length = mi_bits_min(mi_output.kept, capacity - 1);
  for (size_t i = length; length < mi_output.kept && i > 0; i--) {
    if (mi_output_keep[i - 1] == '\n') {
      length = i;
      break;
    }
  }
  __builtin_memcpy(text, mi_output_keep, length);
  text[length] = 0;
  mi_output.kept -= length;
  __builtin_memmove(mi_output_keep, mi_output_keep + length, mi_output.kept);
  mi_lock_leave(&mi_output.lock);
  return length;
}

MI_INTERNAL void mi_start_output(void) {
  if (mi_atomic_load_relaxed(&mi_output.is_started)) return;
  mi_atomic_store_relaxed(&mi_output.main_thread, mi_tls_thread_id());
  mi_atomic_store_relaxed(&mi_output.is_started, true);
  void* arg = NULL;
  if (mi_callback_get(&mi_output.output, &arg) != NULL) return;
  // The text that was held back stays kept, too, for a function that is registered later.
  if (!mi_lock_try_enter(&mi_output.lock)) return;
  if (mi_output.kept > 0) mi_os_write_error(mi_output_keep, mi_output.kept);
  mi_lock_leave(&mi_output.lock);
}

void mi_register_output(mi_output_fun* out, void* arg) mi_attr_noexcept {
  // Make the messages of the set-up first: they must not reach a function that may allocate.
  mi_process_setup();
  const mi_sink_t sink = mi_output_sink(out, arg);
  mi_callback_set(&mi_output.output, (mi_callback_fun_t*)sink.out, sink.arg);
  if (sink.out == NULL) return;
  char text[MI_OUTPUT_MESSAGE_MAX];
  size_t length;
  while ((length = mi_output_take_kept(text, sizeof(text))) > 0) {
    mi_output_deliver(sink, text, length);
  }
}

MI_INTERNAL void mi_output_write(const char* text) {
  mi_os_write_error(text, mi_text_length(text));
}

MI_INTERNAL mi_sink_t mi_output_sink(mi_output_fun* out, void* arg) {
  const void* const file = (const void*)(uintptr_t)out;
  const bool is_file = (file == (const void*)stdout || file == (const void*)stderr);
  const mi_sink_t sink = {is_file ? NULL : out, is_file ? NULL : arg};
  return sink;
}

// -- Messages --

static bool mi_output_wants_errors(void) {
  return mi_option_value(show_errors) != 0 || mi_option_value(verbose) != 0 ||
         mi_fault_has_guards();
}

MI_INTERNAL void mi_output_watch(void) {
  if (mi_option_value(guarded_sample_rate) > 0) {
    mi_fault_start_guards();
  } else if (mi_output_wants_errors()) {
    mi_fault_start();
  }
}

MI_INTERNAL bool mi_output_is_verbose(void) { return mi_option_value(verbose) != 0; }

// Counts a message; true if it may be printed. A negative `max` is no limit.
static bool mi_output_admit(mi_atomic(long) * count, long max) {
  if (!mi_output_wants_errors()) return false;
  const long earlier = mi_atomic_add_relaxed(count, 1);
  return mi_output_is_verbose() || max < 0 || earlier < max;
}

static const char mi_output_error_prefix[] = "mimalloc: error: ";

// Begin a message: the prefix, and the thread if that is not the main one. Returns the length.
static size_t mi_output_begin(const char* prefix, char* text, size_t capacity) {
  const size_t used = mi_text_append(text, capacity, 0, prefix);
  const uintptr_t self = mi_tls_thread_id();
  const uintptr_t main_thread = mi_atomic_load_relaxed(&mi_output.main_thread);
  if (main_thread == 0 || main_thread == self) return used;
  return used + mi_text_format(text + used, capacity - used, "thread 0x%zx: ", (size_t)self);
}

MI_INTERNAL void mi_output_end(char* text, size_t used) {
  if (used == 0 || text[used - 1] != '\n') text[used++] = '\n';
  text[used] = 0;
  const mi_sink_t sink = {NULL, NULL};
  mi_output_deliver(sink, text, used);
}

static void mi_output_vmessage(const char* prefix, const char* format, va_list args) {
  if (mi_self()->is_printing) return;
  char text[MI_OUTPUT_MESSAGE_MAX];
  const size_t capacity = sizeof(text) - 1; // leaves room for the end of the line
  const size_t used = mi_output_begin(prefix, text, capacity);
  mi_output_end(text, used + mi_text_vformat(text + used, capacity - used, format, args));
}

mi_attr_printf(2, 3) static void mi_output_message(const char* prefix, const char* format, ...) {
  va_list args;
  va_start(args, format);
  mi_output_vmessage(prefix, format, args);
  va_end(args);
}

MI_INTERNAL void mi_output_print(mi_sink_t sink, const char* format, ...) {
  // An output function that asks for a report would otherwise be called without end.
  if (sink.out == NULL && mi_self()->is_printing) return;
  char text[MI_OUTPUT_LINE_MAX];
  va_list args;
  va_start(args, format);
  const size_t used = mi_text_vformat(text, sizeof(text), format, args);
  va_end(args);
  mi_output_deliver(sink, text, used);
}

MI_INTERNAL void mi_hook_verbose(const char* format, ...) {
  mi_lock_check_none("tells something");
  if (!mi_output_is_verbose()) return;
  va_list args;
  va_start(args, format);
  mi_output_vmessage("mimalloc: ", format, args);
  va_end(args);
}

MI_INTERNAL void mi_hook_warning(const char* format, ...) {
  mi_lock_check_none("warns");
  if (!mi_output_admit(&mi_output.warnings, mi_option_value(max_warnings))) return;
  va_list args;
  va_start(args, format);
  mi_output_vmessage("mimalloc: warning: ", format, args);
  va_end(args);
}

MI_INTERNAL void mi_output_force_warning(const char* format, ...) {
  va_list args;
  va_start(args, format);
  mi_output_vmessage("mimalloc: warning: ", format, args);
  va_end(args);
}

// -- Errors --

// True if the process ends after an error: builds with MI_XMALLOC if there is no memory, all others
// by the option abort_on_misuse. `is_handled`: an error function was called.
static bool mi_output_must_stop(int code, bool is_handled) {
  if (code == ENOMEM || code == EOVERFLOW) return MI_XMALLOC && !is_handled;
  const long level = mi_option_value(abort_on_misuse);
  return level >= 2 || (level == 1 && code == EFAULT && !is_handled);
}

// Calls the user's function, if there is one, and ends the process, if it must.
static void mi_output_call_error(int code) {
  if (mi_self()->is_in_error) {
    // The function itself made a mistake, or never came back (longjmp): it is not called again.
    if (mi_output_must_stop(code, true)) mi_os_abort("");
    return;
  }
  mi_self()->is_in_error = true;
  const int saved_errno = errno;
  void* arg = NULL;
  mi_error_fun* const fun = (mi_error_fun*)mi_callback_get(&mi_output.error, &arg);
  if (fun != NULL) fun(code, arg);
  if (mi_output_must_stop(code, fun != NULL)) mi_os_abort("");
  errno = saved_errno;
  mi_self()->is_in_error = false;
}

static bool mi_output_wants_json(void) { return mi_option_value(report_json) != 0; }

MI_INTERNAL void mi_output_say(const mi_report_t* report) {
  char text[MI_OUTPUT_REPORT_MAX];
  const size_t capacity = sizeof(text) - 1; // leaves room for the end of the line
  const bool is_json = mi_output_wants_json();
  const size_t used = is_json ? 0 : mi_output_begin(mi_output_error_prefix, text, capacity);
  const mi_explain_form_t form = is_json ? MI_EXPLAIN_JSON : MI_EXPLAIN_TEXT;
  const size_t length = mi_explain_report(report, form, text + used, capacity - used);
  mi_output_end(text, mi_bits_min(used + length, capacity - 1));
  if (report->p != NULL) mi_output_stacks(report->p);
}

MI_INTERNAL void mi_hook_error(const mi_report_t* report) {
  mi_lock_check_none("reports an error");
  // This may be the first call of the process, so read the options. But the program may also be
  // ending in the middle of the set-up.
  if (mi_atomic_load_relaxed(&mi_state.stage) == MI_STAGE_NONE) mi_process_setup();
  const mi_error_kind_t kind = report->kind;
  if (mi_output_wants_errors()) {
    const size_t count = report->missed > 0 ? report->missed : 1;
    const bool is_first = mi_atomic_add_relaxed(&mi_output.seen[kind], count) == 0;
    if (report->missed > 0 || (!is_first && !mi_output_is_verbose())) {
      mi_atomic_add_relaxed(&mi_output.hidden[kind], count);
    } else if (mi_output_admit(&mi_output.errors, mi_option_value(max_errors))) {
      mi_output_say(report);
    }
  }
  mi_output_call_error(mi_explain_code(kind));
}

MI_INTERNAL void mi_output_error(int err, const char* format, ...) {
  if (mi_output_admit(&mi_output.errors, mi_option_value(max_errors))) {
    va_list args;
    va_start(args, format);
    if (mi_output_wants_json()) {
      char message[MI_OUTPUT_LINE_MAX];
      char text[MI_OUTPUT_REPORT_MAX];
      mi_text_vformat(message, sizeof(message), format, args);
      const size_t length = mi_explain_message("other", err, message, text, MI_EXPLAIN_MAX);
      if (!mi_self()->is_printing) mi_output_end(text, length);
    } else {
      mi_output_vmessage(mi_output_error_prefix, format, args);
    }
    va_end(args);
  }
  mi_output_call_error(err);
}

MI_INTERNAL void mi_output_line(const char* format, ...) {
  va_list args;
  va_start(args, format);
  mi_output_vmessage("mimalloc: error: ", format, args);
  va_end(args);
}

MI_INTERNAL void mi_output_notify(int err) {
  void* arg = NULL;
  mi_error_fun* const fun = (mi_error_fun*)mi_callback_get(&mi_output.error, &arg);
  if (fun != NULL) fun(err, arg);
}

MI_INTERNAL void mi_output_summary(void) {
  if (!mi_output_wants_errors()) return;
  for (size_t kind = 0; kind < MI_ERROR_COUNT; kind++) {
    const size_t hidden = mi_atomic_load_relaxed(&mi_output.hidden[kind]);
    if (hidden == 0) continue;
    if (mi_output_wants_json()) {
      char text[MI_OUTPUT_LINE_MAX];
      mi_output_end(text, mi_explain_hidden((mi_error_kind_t)kind, hidden, text, sizeof(text) - 1));
    } else {
      mi_output_message(mi_output_error_prefix, "%s: %zu more of this kind",
                        mi_explain_label((mi_error_kind_t)kind), hidden);
    }
  }
}

void mi_register_error(mi_error_fun* fun, void* arg) {
  if (MI_IS_SECURE) mi_process_setup(); // CALLBACK-3
  mi_callback_set(&mi_output.error, (mi_callback_fun_t*)fun, arg);
}

// -- Descriptions --

static size_t mi_output_describe(const void* p, mi_explain_form_t form, char* buffer, size_t size) {
  mi_about_t about;
  mi_describe_address(mi_cpu_address(p), &about);
  return mi_explain_about(&about, form, buffer, buffer != NULL ? size : 0);
}

size_t mi_describe(const void* p, char* buffer, size_t size) mi_attr_noexcept {
  return mi_output_describe(p, MI_EXPLAIN_TEXT, buffer, size);
}

size_t mi_describe_json(const void* p, char* buffer, size_t size) mi_attr_noexcept {
  const size_t length = mi_output_describe(p, MI_EXPLAIN_JSON, buffer, size);
  if (buffer != NULL && size > 0 && length >= size) buffer[0] = 0; // never half an object
  return length;
}
