// SPDX-License-Identifier: MIT
// control.c - commands for a running process, in files of a folder that its user names.
//
//   MIMALLOC_CONTROL=FOLDER -> constructor -> purge thread, every quarter of a second:
//     FOLDER/PID.command -> read, removed, done -> FOLDER/PID.answer
//
// A folder, and neither a signal nor a socket: a signal interrupts calls of the program, and what
// it may do is next to nothing; a socket is a file that stays open, in a program that may close or
// count its files, and a thread of its own waits for it.
//
// CONTROL-1  off unless the environment names a folder. Then no code here runs, and the purge
//     thread makes no system call more. Off in a program with raised privileges.
// CONTROL-2  of the user alone: folder and command belong to the effective user of the process, are
//     no links, and nobody else can write into them (mi_os_folder_open). Answers can be read by
//     nobody else.
// CONTROL-3  a command is removed before it is done: none is done twice, whatever happens. One that
//     cannot be removed is not done. One that is there when the process starts is for an earlier
//     process of that number, and removed. (A child of a fork does not look for such.)
// CONTROL-4  an answer gets its name when it is whole. Its first line is `ok`, or `error: ` and a
//     reason.
// CONTROL-5  all runs on the purge thread, which holds no lock then. It never allocates (PURGER-4):
//     answers go through a buffer that is mapped (observe/dump.c); what reads stacks was prepared
//     by the constructor; the program's function for deferred frees is not called here.
// CONTROL-6  nothing is open between two looks, and a look that finds no command opens nothing: one
//     call asks if the file is there. (A program that closes numbers of files it did not open, at
//     the moment of an answer, can close the answer, as with any library that opens files on a
//     thread.)
//
// Deliberately absent: commands for several processes at once (a shell has loops), and commands
// that change what belongs to a thread of the program.
#include <errno.h>

#include "api.h"
#include "mimalloc-profile.h"
#include "../observe/dump.h"

#define MI_CONTROL_MS 250
#define MI_CONTROL_LINE_MAX ((size_t)1024)
#define MI_CONTROL_PATH_MAX ((size_t)1024)
#define MI_CONTROL_NAME_MAX ((size_t)40)
#define MI_CONTROL_METRICS_MAX (32 * MI_KIB)

// The folder; empty: none. Written by the constructor, before the purge thread starts.
static char mi_control_folder[MI_CONTROL_PATH_MAX] mi_attr_sparse;

typedef enum mi_control_command_e {
  MI_CONTROL_HELP,
  MI_CONTROL_GET,
  MI_CONTROL_SET,
  MI_CONTROL_COLLECT,
  MI_CONTROL_STATS,
  MI_CONTROL_METRICS,
  MI_CONTROL_EXPLAIN,
  MI_CONTROL_PROFILE,
  MI_CONTROL_PROFILE_START,
  MI_CONTROL_PROFILE_STOP,
  MI_CONTROL_PROFILE_MARK,
  MI_CONTROL_COUNT,
} mi_control_command_t;

static const char mi_control_names[MI_CONTROL_COUNT][16] mi_attr_rare = {
    "help",    "get",     "set",           "collect",      "stats",       "metrics",
    "explain", "profile", "profile-start", "profile-stop", "profile-mark"};

// Whether something follows the command.
static const bool mi_control_takes[MI_CONTROL_COUNT] mi_attr_rare = {
    [MI_CONTROL_GET] = true,     [MI_CONTROL_SET] = true,           [MI_CONTROL_EXPLAIN] = true,
    [MI_CONTROL_PROFILE] = true, [MI_CONTROL_PROFILE_START] = true,
};

// Short texts, which would otherwise lie among what every program reads.
static const char mi_control_ok[] mi_attr_rare = "ok\n";
static const char mi_control_ok_number[] mi_attr_rare = "ok\n%ld\n";
static const char mi_control_ok_text[] mi_attr_rare = "ok\n%s";
static const char mi_control_no_option[] mi_attr_rare = "no such option";
static const char mi_control_no_value[] mi_attr_rare = "not a value of this option";
static const char mi_control_no_address[] mi_attr_rare = "not an address";
static const char mi_control_no_number[] mi_attr_rare = "not a number";
static const char mi_control_no_file[] mi_attr_rare = "which file?";
static const char mi_control_line[] mi_attr_rare = "%s\n";
static const char mi_control_error[] mi_attr_rare = "error: %s\n";
static const char mi_control_error_number[] mi_attr_rare = "error: %d, %s\n";
static const char mi_control_variable[] = MI_ENVIRONMENT_PREFIX "control";
static const char mi_control_path[] mi_attr_rare = "%s/%zu.command";
static const char mi_control_suffix[3][16] mi_attr_rare = {"%zu.command", "%zu.answer.new",
                                                           "%zu.answer"};

// -- Commands --

static void mi_control_refuse(mi_dump_t* answer, const char* reason) {
  mi_dump_text(answer, mi_control_error, reason);
}

static void mi_control_finish(mi_dump_t* answer, int err) {
  if (err == 0) {
    mi_dump_text(answer, mi_control_ok);
  } else {
    mi_dump_text(answer, mi_control_error_number, err, mi_profile_reason(err));
  }
}

static void mi_control_out(const char* text, void* arg) {
  mi_dump_bytes((mi_dump_t*)arg, text, mi_text_length(text));
}

// Cut the first word off a line; returns the rest, without spaces around it.
static char* mi_control_cut(char* line) {
  while (*line != 0 && *line != ' ') line++;
  if (*line == 0) return line;
  *line++ = 0;
  while (*line == ' ') line++;
  return line;
}

// Read a number, decimal or behind 0x. False if it is none, or too large.
static bool mi_control_number(const char* text, uintptr_t* number) {
  const bool is_hex = text[0] == '0' && mi_text_upper(text[1]) == 'X';
  const uintptr_t base = is_hex ? 16 : 10;
  if (is_hex) text += 2;
  *number = 0;
  if (*text == 0) return false;
  for (; *text != 0; text++) {
    const char c = mi_text_upper(*text);
    const uintptr_t digit = c >= '0' && c <= '9' ? (uintptr_t)(c - '0') : (uintptr_t)(c - 'A') + 10;
    if (digit >= base || (c > '9' && c < 'A') || *number > (UINTPTR_MAX - digit) / base)
      return false;
    *number = *number * base + digit;
  }
  return true;
}

static void mi_control_get(mi_dump_t* answer, const char* name) {
  mi_option_t option;
  if (name[0] == 0) {
    mi_dump_text(answer, mi_control_ok);
    mi_options_print_out(&mi_control_out, answer);
  } else if (!mi_option_find(name, &option)) {
    mi_control_refuse(answer, mi_control_no_option);
  } else {
    mi_dump_text(answer, mi_control_ok_number, mi_option_get(option));
  }
}

static void mi_control_set(mi_dump_t* answer, char* name) {
  const char* const text = mi_control_cut(name);
  mi_option_t option;
  long value;
  if (!mi_option_find(name, &option)) {
    mi_control_refuse(answer, mi_control_no_option);
  } else if (text[0] == 0 || !mi_option_read(option, text, &value)) {
    mi_control_refuse(answer, mi_control_no_value);
  } else if (option == mi_option_purge_thread && value == 0) {
    mi_control_refuse(answer, "this thread does the commands: it must stay");
  } else {
    mi_option_set(option, value);
    mi_dump_text(answer, mi_control_ok_number, mi_option_get(option));
  }
}

static mi_attr_noinline void mi_control_metrics(mi_dump_t* answer) {
  char text[MI_CONTROL_METRICS_MAX];
  mi_metrics(mi_metrics_prometheus, text, sizeof(text));
  mi_dump_text(answer, mi_control_ok);
  mi_control_out(text, answer);
}

static void mi_control_explain(mi_dump_t* answer, const char* text) {
  uintptr_t address;
  if (text[0] == 0) {
    mi_dump_text(answer, mi_control_ok);
    mi_explain(&mi_control_out, answer);
    return;
  }
  if (!mi_control_number(text, &address)) {
    mi_control_refuse(answer, mi_control_no_address);
    return;
  }
  char about[MI_EXPLAIN_MAX];
  mi_describe((const void*)address, about, sizeof(about));
  mi_dump_text(answer, mi_control_ok_text, about);
  mi_dump_bytes(answer, mi_control_line + 2, 1);
}

static void mi_control_profile(mi_dump_t* answer, char* file) {
  if (file[0] == 0) {
    mi_control_refuse(answer, mi_control_no_file);
    return;
  }
  const int err = mi_profile_write_as(file);
  mi_control_finish(answer, err);
  if (err == 0 && mi_profile_rate() == 0) {
    mi_dump_text(answer, "no profile is on; the file has what was sampled before, if anything\n");
  }
}

static void mi_control_profile_start(mi_dump_t* answer, const char* text) {
  uintptr_t rate = 0;
  if (text[0] != 0 && !mi_control_number(text, &rate)) {
    mi_control_refuse(answer, mi_control_no_number);
    return;
  }
  mi_profile_start(rate);
  mi_dump_text(answer, mi_control_ok_number, (long)mi_profile_rate());
}

static void mi_control_help(mi_dump_t* answer) {
  mi_dump_text(answer, mi_control_ok);
  for (size_t i = 0; i < MI_CONTROL_COUNT; i++) {
    mi_dump_text(answer, mi_control_line, mi_control_names[i]);
  }
}

static mi_control_command_t mi_control_find(const char* word) {
  const size_t length = mi_text_length(word);
  for (size_t i = 0; i < MI_CONTROL_COUNT; i++) {
    if (length == mi_text_length(mi_control_names[i]) &&
        mi_text_equal_nocase(word, mi_control_names[i], length)) {
      return (mi_control_command_t)i;
    }
  }
  return MI_CONTROL_COUNT;
}

// The commands of each kind. Three functions: one would have a table of jumps, in memory that every
// program reads.
static mi_attr_noinline void mi_control_do_profile(mi_dump_t* answer, mi_control_command_t command,
                                                   char* rest) {
  if (command == MI_CONTROL_PROFILE) {
    mi_control_profile(answer, rest);
  } else if (command == MI_CONTROL_PROFILE_START) {
    mi_control_profile_start(answer, rest);
  } else {
    if (command == MI_CONTROL_PROFILE_STOP) mi_profile_stop();
    if (command == MI_CONTROL_PROFILE_MARK) mi_profile_mark();
    mi_dump_text(answer, mi_control_ok);
  }
}

static mi_attr_noinline void mi_control_do_report(mi_dump_t* answer, mi_control_command_t command,
                                                  char* rest) {
  if (command == MI_CONTROL_EXPLAIN) {
    mi_control_explain(answer, rest);
  } else if (command == MI_CONTROL_METRICS) {
    mi_control_metrics(answer);
  } else {
    mi_dump_text(answer, mi_control_ok);
    mi_stats_print_out(&mi_control_out, answer);
  }
}

static void mi_control_do(mi_dump_t* answer, char* line) {
  char* const rest = mi_control_cut(line);
  const mi_control_command_t command = mi_control_find(line);
  if (command == MI_CONTROL_COUNT) {
    mi_control_refuse(answer, "no such command; help lists them");
  } else if (rest[0] != 0 && !mi_control_takes[command]) {
    mi_control_refuse(answer, "nothing may follow this command, not even a line");
  } else if (command >= MI_CONTROL_PROFILE) {
    mi_control_do_profile(answer, command, rest);
  } else if (command >= MI_CONTROL_STATS) {
    mi_control_do_report(answer, command, rest);
  } else if (command == MI_CONTROL_GET) {
    mi_control_get(answer, rest);
  } else if (command == MI_CONTROL_SET) {
    mi_control_set(answer, rest);
  } else if (command == MI_CONTROL_COLLECT) {
    mi_dump_text(answer, mi_control_ok_number, (long)mi_collect_all_subprocs());
  } else {
    mi_control_help(answer);
  }
}

// -- Files --

static void mi_control_name(char name[MI_CONTROL_NAME_MAX], size_t which, size_t process) {
  mi_text_format(name, MI_CONTROL_NAME_MAX, mi_control_suffix[which], process);
}

static bool mi_control_put(const void* bytes, size_t size, void* arg) {
  return mi_os_file_write(*(int*)arg, bytes, size) == 0;
}

// Do what a line says, and write the answer. `err` says why there is no line.
static void mi_control_answer(int folder, size_t process, int err, char* line) {
  char fresh[MI_CONTROL_NAME_MAX];
  char name[MI_CONTROL_NAME_MAX];
  int file;
  mi_dump_t answer;
  mi_control_name(fresh, 1, process);
  mi_control_name(name, 2, process);
  mi_os_folder_remove(folder, fresh); // of a process with that number that did not finish
  if (mi_os_folder_create(folder, fresh, &file) != 0) return;
  bool is_whole = false;
  if (mi_dump_begin(&answer, MI_DUMP_PLAIN, &mi_control_put, &file)) {
    if (err == 0) {
      mi_control_do(&answer, line);
    } else if (err == EFBIG) {
      mi_control_refuse(&answer, "the command is longer than 1,000 bytes");
    } else {
      mi_control_refuse(&answer,
                        "the command must be a file of this user that only they can write");
    }
    is_whole = mi_dump_end(&answer) == 0;
  }
  mi_os_file_close(file);
  if (!is_whole || mi_os_folder_rename(folder, fresh, name) != 0) {
    mi_os_folder_remove(folder, fresh);
  }
}

// Cut spaces and the end of the line off.
static void mi_control_trim(char* line) {
  size_t length = mi_text_length(line);
  while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == ' ')) length--;
  line[length] = 0;
}

MI_INTERNAL mi_attr_cold void mi_hook_control(void) {
  const size_t process = mi_os_process_number(); // of the child, in the child of a fork
  char path[MI_CONTROL_PATH_MAX + MI_CONTROL_NAME_MAX];
  mi_text_format(path, sizeof(path), mi_control_path, mi_control_folder, process);
  int folder;
  if (!mi_os_file_exists(path) || mi_os_folder_open(mi_control_folder, &folder) != 0) return;
  char name[MI_CONTROL_NAME_MAX];
  char line[MI_CONTROL_LINE_MAX];
  mi_control_name(name, 0, process);
  const int err = mi_os_folder_read(folder, name, line, sizeof(line));
  if (mi_os_folder_remove(folder, name) == 0) { // CONTROL-3
    mi_control_trim(line);
    mi_control_answer(folder, process, err, line);
  }
  mi_os_file_close(folder);
}

// -- The environment --

// Remove what is meant for, or left by, an earlier process with this number.
static void mi_control_clear(int folder) {
  for (size_t which = 0; which < 3; which++) {
    char name[MI_CONTROL_NAME_MAX];
    mi_control_name(name, which, mi_os_process_number());
    mi_os_folder_remove(folder, name);
  }
}

MI_INTERNAL void mi_control_begin(void) {
  if (mi_state.os.is_setuid) return; // CONTROL-1
  const char* const folder = mi_os_environment(mi_control_variable);
  if (folder == NULL || folder[0] == 0) return;
  int opened;
  const int err = folder[0] != '/' || mi_text_length(folder) >= MI_CONTROL_PATH_MAX
                      ? EINVAL
                      : mi_os_folder_open(folder, &opened);
  if (err != 0) {
    mi_output_line(
        "no commands from %s: it must be a folder of this user, by its path from /, that "
        "nobody else can write into (error %d)",
        folder, err);
    return;
  }
  mi_control_clear(opened);
  mi_os_file_close(opened);
  if (mi_option_value(purge_thread) == 0) {
    mi_output_line("no commands from %s: the purge thread does them, and is switched off", folder);
    return;
  }
  mi_text_append(mi_control_folder, MI_CONTROL_PATH_MAX, 0, folder);
  mi_os_stack_prepare(); // CONTROL-5
  mi_atomic_store_relaxed(&mi_state.control_ms, MI_CONTROL_MS);
}
