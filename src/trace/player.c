// SPDX-License-Identifier: MIT
// player.c - the program mimalloc-player: reads a trace; shows it, cuts it, or replays it with the
// allocator that this process has, and prints what that took. (mimalloc-replay starts it once for
// each allocator.)
//
// PLAYER-1  a trace that is damaged, or asks for more than there is, is a message and exit status
//     2; an allocator that fails is exit status 1.
// PLAYER-2  between the start of the program and the end of the replay nothing is printed, so that
//     stdio does not allocate.
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/bits.h"
#include "plan.h"
#include "play.h"

static const char mi_player_usage[] =
    "Usage: mimalloc-player TRACE [--touch pages|all|none] [--calls N] [--times N] [--json | "
    "--bench]\n"
    "       mimalloc-player TRACE --info | --dump [--calls N]\n"
    "       mimalloc-player TRACE --cut N FILE\n"
    "\n"
    "Does what a program did that ran with libmimalloc-trace.so, with the malloc of this process: "
    "libc's, or that of\n"
    "a library in LD_PRELOAD. TRACE is the file; - is standard input. mimalloc-replay compares "
    "several.\n"
    "\n"
    "  --touch WHAT  what is written to: the first byte of each OS page of a block (if not given), "
    "all, or nothing\n"
    "  --calls N     only the first N calls\n"
    "  --times N     again and again; what is left at the end is freed in between\n"
    "  --json        print the figures as JSON (--bench: as bench/run.py reads them)\n"
    "  --info        what the trace says: the program, calls, sizes, threads\n"
    "  --dump        all calls as text, in their order. THREAD:NUMBER is a block: the thread whose "
    "call returned it,\n"
    "                and how many blocks this thread had been given before\n"
    "  --cut N FILE  write the first N calls as a trace of their own, with the program's name, but "
    "without its\n"
    "                arguments and numbers\n";

typedef enum mi_player_action_e {
  MI_PLAYER_TEXT,
  MI_PLAYER_JSON,
  MI_PLAYER_BENCH,
  MI_PLAYER_INFO,
  MI_PLAYER_DUMP,
  MI_PLAYER_CUT
} mi_player_action_t;

typedef struct mi_player_options_s {
  const char* path;
  const char* output;
  mi_player_action_t action;
  mi_play_touch_t touch;
  uint64_t calls;
  uint32_t times;
} mi_player_options_t;

static mi_attr_cold mi_attr_printf(1, 2) void mi_player_fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fflush(stdout);
  fprintf(stderr, "mimalloc-player: ");
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  va_end(arguments);
  exit(2);
}

static uint64_t mi_player_number(const char* text, const char* what) {
  char* end = NULL;
  errno = 0;
  const unsigned long long number = text == NULL ? 0 : strtoull(text, &end, 10);
  if (text == NULL || end == text || *end != 0 || errno != 0 || text[0] == '-' || number == 0)
    mi_player_fail("%s needs a number of at least 1", what);
  return number;
}

static mi_play_touch_t mi_player_touch(const char* word) {
  if (word != NULL && strcmp(word, "none") == 0) return MI_PLAY_NOTHING;
  if (word != NULL && strcmp(word, "pages") == 0) return MI_PLAY_PAGES;
  if (word != NULL && strcmp(word, "all") == 0) return MI_PLAY_ALL;
  mi_player_fail("--touch needs one of pages, all, none");
  return MI_PLAY_PAGES;
}

static mi_player_options_t mi_player_parse(char** argv) {
  mi_player_options_t o = {.touch = MI_PLAY_PAGES, .calls = UINT64_MAX, .times = 1};
  for (char** at = argv + 1; *at != NULL; at++) {
    const char* const word = *at;
    if (strcmp(word, "--json") == 0) {
      o.action = MI_PLAYER_JSON;
    } else if (strcmp(word, "--bench") == 0) {
      o.action = MI_PLAYER_BENCH;
    } else if (strcmp(word, "--info") == 0) {
      o.action = MI_PLAYER_INFO;
    } else if (strcmp(word, "--dump") == 0) {
      o.action = MI_PLAYER_DUMP;
    } else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
      fputs(mi_player_usage, stdout);
      exit(0);
    } else if (strcmp(word, "--cut") == 0) {
      o.action = MI_PLAYER_CUT;
      o.calls = mi_player_number(at[1], word);
      o.output = at[2];
      if (o.output == NULL) mi_player_fail("--cut needs a file to write");
      at += 2;
    } else if (strcmp(word, "--calls") == 0) {
      o.calls = mi_player_number(*++at, word);
    } else if (strcmp(word, "--times") == 0) {
      o.times = (uint32_t)mi_bits_min(mi_player_number(*++at, word), UINT32_MAX);
    } else if (strcmp(word, "--touch") == 0) {
      o.touch = mi_player_touch(*++at);
    } else if (word[0] == '-' && word[1] != 0) {
      mi_player_fail("unknown option %s; --help lists all", word);
    } else if (o.path != NULL) {
      mi_player_fail("one trace at a time: %s or %s?", o.path, word);
    } else {
      o.path = word;
    }
    if (*at == NULL) break;
  }
  if (o.path == NULL) mi_player_fail("which trace? --help explains");
  return o;
}

static void mi_player_print_notes(const mi_reader_t* reader, const char* path) {
  for (const char* at = reader->notes; *at != 0; at = strchr(at, '\n') + 1) {
    fprintf(stderr, "mimalloc-player: %s: %.*s\n", path, (int)strcspn(at, "\n"), at);
  }
}

// -- A trace as text --

static void mi_player_print_block(const mi_reader_name_t* name) {
  if (name->kind == MI_READER_BLOCK) {
    printf(" %u:%llu", name->thread, (unsigned long long)name->number);
  } else {
    printf(name->kind == MI_READER_NULL ? " NULL" : " unknown");
  }
}

static void mi_player_print_record(const mi_reader_record_t* r) {
  const bool is_free = r->call == MI_FORMAT_FREE;
  if (r->call == MI_FORMAT_END) {
    printf("%u ends\n", r->thread);
    return;
  }
  printf("%u %s", r->thread, r->is_unseen ? "(gone)" : mi_plan_call_name(mi_plan_call_index(r)));
  const bool is_realloc = r->call == MI_FORMAT_REALLOC || r->call == MI_FORMAT_REALLOCARRAY;
  if (is_free || is_realloc) mi_player_print_block(&r->block);
  if (r->alignment != 0) printf(" %llu", (unsigned long long)r->alignment);
  if (r->call == MI_FORMAT_CALLOC || r->call == MI_FORMAT_REALLOCARRAY)
    printf(" %llu", (unsigned long long)r->count);
  if (!is_free) printf(" %llu", (unsigned long long)r->size);
  if (!is_free && r->has_failed) printf(" = NULL");
  if (!is_free && !r->has_failed) printf(" = %u:%llu", r->thread, (unsigned long long)r->number);
  printf("\n");
}

static void mi_player_dump(mi_reader_t* reader, uint64_t calls) {
  mi_reader_record_t r;
  uint64_t last_ms = 0;
  for (uint64_t count = 0; count < calls && mi_reader_next(reader, &r);) {
    if (r.time_us / 1000 > last_ms) {
      last_ms = r.time_us / 1000;
      printf("# %llu ms\n", (unsigned long long)last_ms);
    }
    mi_player_print_record(&r);
    count += r.call != MI_FORMAT_END && !r.is_unseen;
  }
}

static void mi_player_print_command(const uint8_t* file, const char* before, const char* after) {
  const uint32_t length = mi_format_get_32(file + MI_FORMAT_COMMAND);
  printf("%s", before);
  for (uint32_t i = 0; i < length; i++) {
    const uint8_t c = file[MI_FORMAT_TEXT + i];
    if (c == 0) {
      if (i + 1 < length) printf(" ");
    } else if (c < 32 || c == '"' || c == '\\' || c >= 127) {
      printf("?");
    } else {
      printf("%c", c);
    }
  }
  printf("%s", after);
}

static void mi_player_info(const mi_reader_t* reader, const mi_plan_t* plan) {
  static const char* const states[MI_FORMAT_STATES] = {
      "until the process ended", "until the file was as large as it may be",
      "until there was no room for the file", "the first calls of a longer trace"};
  const uint8_t* const file = reader->file;
  mi_player_print_command(file, "program      ", "\n");
  printf("process      %u, of %u\n", mi_format_get_32(file + MI_FORMAT_PID),
         mi_format_get_32(file + MI_FORMAT_PARENT));
  printf("recorded     %s, %.3f s\n", states[mi_format_get_32(file + MI_FORMAT_STATE)],
         (double)plan->last_us / 1e6);
  printf("calls        %llu", (unsigned long long)plan->call_count);
  for (size_t i = 0; i < MI_PLAN_CALLS; i++) {
    if (plan->calls[i] > 0)
      printf(", %s %llu", mi_plan_call_name(i), (unsigned long long)plan->calls[i]);
  }
  printf("\nfailed       %llu\n", (unsigned long long)plan->failed_count);
  printf("not in it    %llu calls with blocks that the trace does not have\n",
         (unsigned long long)plan->unknown_count);
  printf("unseen       %llu blocks that went without a call\n",
         (unsigned long long)plan->unseen_count);
  printf("threads      %u, %llu calls with blocks of another\n", plan->started_count,
         (unsigned long long)plan->crossing_count);
  printf("requested    %llu bytes\n", (unsigned long long)plan->requested_bytes);
  printf("live, most   %llu bytes, %llu blocks\n", (unsigned long long)plan->peak_bytes,
         (unsigned long long)plan->peak_blocks);
  printf("live, last   %llu bytes, %llu blocks\n", (unsigned long long)plan->live_bytes,
         (unsigned long long)plan->live_blocks);
  printf("file         %zu bytes", reader->file_bytes);
  if (plan->call_count > 0)
    printf(", %.2f a call", (double)reader->file_bytes / (double)plan->call_count);
  printf("\n");
}

// -- A part of a trace --

static void mi_player_write(FILE* file, const void* bytes, size_t count, const char* path) {
  if (fwrite(bytes, 1, count, file) != count) mi_player_fail("%s: %s", path, strerror(errno));
}

// The header of a part: whose it was is left out, but for the name of the program.
static uint32_t mi_player_cut_header(const uint8_t* whole, uint8_t* header) {
  const char* const command = (const char*)whole + MI_FORMAT_TEXT;
  const uint32_t length = mi_format_get_32(whole + MI_FORMAT_COMMAND);
  const uint32_t path_length = (uint32_t)strnlen(command, length);
  uint32_t start = path_length;
  while (start > 0 && command[start - 1] != '/') start--;
  memset(header, 0, MI_FORMAT_TEXT);
  memcpy(header, whole, MI_FORMAT_SIZE);
  memcpy(header + MI_FORMAT_TEXT, command + start, path_length - start);
  const uint32_t size = MI_FORMAT_TEXT + path_length - start;
  mi_format_put_32(header + MI_FORMAT_SIZE, size);
  mi_format_put_32(header + MI_FORMAT_STATE, MI_FORMAT_CUT);
  mi_format_put_32(header + MI_FORMAT_OS_PAGE, mi_format_get_32(whole + MI_FORMAT_OS_PAGE));
  mi_format_put_32(header + MI_FORMAT_COMMAND, path_length - start);
  mi_format_put_64(header + MI_FORMAT_SUM, mi_format_sum_header(header, size));
  return size;
}

static void mi_player_cut(mi_reader_t* reader, const mi_player_options_t* o) {
  mi_reader_record_t r;
  for (uint64_t count = 0; count < o->calls && mi_reader_next(reader, &r);) {
    count += r.call != MI_FORMAT_END && !r.is_unseen;
  }
  if (reader->error[0] != 0) return;
  FILE* const file = fopen(o->output, "wbx");
  if (file == NULL) mi_player_fail("%s: %s", o->output, strerror(errno));
  uint8_t header[MI_FORMAT_HEADER];
  mi_player_write(file, header, mi_player_cut_header(reader->file, header), o->output);
  static uint8_t piece[MI_FORMAT_PIECE_MAX];
  for (size_t i = 0; i < reader->piece_count; i++) {
    size_t used = 0;
    const uint8_t* const start = mi_reader_piece(reader, i, &used);
    if (used <= MI_FORMAT_HEAD) continue;
    memcpy(piece, start, used);
    mi_format_put_32(piece + MI_FORMAT_BYTES, (uint32_t)used);
    const uint32_t summed = (uint32_t)(used - MI_FORMAT_HEAD);
    mi_format_put_32(piece + MI_FORMAT_CHECK, mi_format_sum_piece(piece, summed));
    mi_format_put_32(piece + MI_FORMAT_SUMMED, summed);
    mi_player_write(file, piece, used, o->output);
  }
  if (fclose(file) != 0) mi_player_fail("%s: %s", o->output, strerror(errno));
}

// -- A replay --

static uint64_t mi_player_available(void) {
  uint64_t kib = 0;
  FILE* const file = fopen("/proc/meminfo", "r");
  if (file == NULL) return UINT64_MAX;
  char line[256];
  while (kib == 0 && fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, "MemAvailable:", 13) == 0) kib = strtoull(line + 13, NULL, 10);
  }
  fclose(file);
  return kib == 0 ? UINT64_MAX : kib << 10;
}

static const char* mi_player_allocator(void) {
  Dl_info about;
  void* const address = dlsym(RTLD_DEFAULT, "malloc");
  return address != NULL && dladdr(address, &about) != 0 && about.dli_fname != NULL
             ? about.dli_fname
             : "";
}

static void mi_player_print_json(const mi_plan_t* plan, const mi_play_result_t* result) {
  printf("{\"allocator\": \"");
  for (const char* at = mi_player_allocator(); *at != 0; at++) {
    if (*at == '"' || *at == '\\') printf("\\");
    printf("%c", *at);
  }
  printf("\", \"calls\": %llu, \"threads\": %u, \"peak_live\": %llu, \"end_live\": %llu",
         (unsigned long long)plan->call_count, plan->started_count,
         (unsigned long long)plan->peak_bytes, (unsigned long long)plan->live_bytes);
  printf(", \"cpu_seconds\": %.6f, \"wall_seconds\": %.6f, \"own_seconds\": %.6f, \"faults\": %llu",
         result->cpu, result->wall, result->own, (unsigned long long)result->faults);
  printf(", \"start_resident\": %lld, \"peak_resident\": %lld, \"end_resident\": %lld, "
         "\"table_bytes\": %llu}\n",
         (long long)result->start_resident, (long long)result->peak_resident,
         (long long)result->end_resident, (unsigned long long)result->table_bytes);
}

static void mi_player_print_bench(const mi_plan_t* plan, const mi_play_result_t* result,
                                  uint32_t times) {
  const uint64_t numbers[4] = {plan->call_count, plan->peak_bytes, plan->peak_blocks,
                               plan->live_bytes};
  printf("check %016llx\n",
         (unsigned long long)mi_format_sum(0, (const uint8_t*)numbers, sizeof(numbers)));
  printf("ops %llu\nseconds %.6f\n", (unsigned long long)(plan->call_count * times), result->cpu);
  printf("live_kib %llu\n", (unsigned long long)(plan->peak_bytes >> 10));
  if (result->peak_resident >= 0)
    printf("peak_kib %lld\n", (long long)(result->peak_resident >> 10));
}

static void mi_player_print_text(const mi_plan_t* plan, const mi_play_result_t* result) {
  printf("allocator       %s\n", mi_player_allocator());
  printf("calls           %llu, %u threads\n", (unsigned long long)plan->call_count,
         plan->started_count);
  printf("processor       %.4f s with writing to blocks (%.4f s more for the replay itself)\n",
         result->cpu, result->own);
  printf("time            %.4f s\n", result->wall);
  printf("page faults     %llu\n", (unsigned long long)result->faults);
  printf("live, most      %.2f MiB\n", (double)plan->peak_bytes / 1048576);
  if (result->peak_resident >= 0) {
    const double grown = (double)(result->peak_resident - result->start_resident);
    printf("resident, most  %.2f MiB, %.2f of it before the first call\n",
           (double)result->peak_resident / 1048576, (double)result->start_resident / 1048576);
    if (plan->peak_bytes > 0) printf("fragmentation   %.3f\n", grown / (double)plan->peak_bytes);
  }
  if (result->end_resident >= 0)
    printf("resident, last  %.2f MiB\n", (double)result->end_resident / 1048576);
}

static void mi_player_replay(const mi_plan_t* plan, const mi_player_options_t* o) {
  const uint64_t available = mi_player_available();
  if (o->touch != MI_PLAY_NOTHING && plan->peak_bytes > available) {
    mi_player_fail("%s: the program had %llu MiB at once, and %llu are available here; --touch "
                   "none leaves blocks untouched",
                   o->path, (unsigned long long)(plan->peak_bytes >> 20),
                   (unsigned long long)(available >> 20));
  }
  mi_play_result_t result;
  mi_play(plan, o->touch, o->times, &result);
  if (o->action == MI_PLAYER_JSON) {
    mi_player_print_json(plan, &result);
  } else if (o->action == MI_PLAYER_BENCH) {
    mi_player_print_bench(plan, &result, o->times);
  } else {
    mi_player_print_text(plan, &result);
  }
}

int main(int argc, char** argv) {
  (void)argc;
  const mi_player_options_t o = mi_player_parse(argv);
  static mi_reader_t reader;
  static mi_plan_t plan;
  static char buffer[1 << 16];
  setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
  bool is_good = mi_reader_open(&reader, o.path);
  if (is_good && o.action == MI_PLAYER_DUMP) {
    mi_player_dump(&reader, o.calls);
  } else if (is_good && o.action == MI_PLAYER_CUT) {
    mi_player_cut(&reader, &o);
  } else if (is_good) {
    is_good = mi_plan_make(&plan, &reader, o.calls);
  }
  if (reader.error[0] != 0) mi_player_fail("%s: %s", o.path, reader.error);
  mi_player_print_notes(&reader, o.path);
  if (o.action == MI_PLAYER_INFO) {
    mi_player_info(&reader, &plan);
  } else if (o.action <= MI_PLAYER_BENCH) {
    mi_reader_close(&reader);
    mi_player_replay(&plan, &o);
  }
  return fflush(stdout) == 0 ? 0 : 2;
}
