// SPDX-License-Identifier: MIT
// writer.c - writes what threads call into the file of their process.
//
// A thread writes into a piece of the file that is mapped (format.h): what it has written is in
// the file whatever happens to the process. When the piece is full it takes another, which is at
// the end of the file. Between these moments nothing of the file is open.
//
// The environment: MIMALLOC_TRACE is the name of the file. `%p` in it becomes the number of the
// process, `%n` the name of the program, `%%` a `%`. A file that is there is never touched: the
// number of the process is appended to the name, then a number that makes it new.
// MIMALLOC_TRACE_LIMIT is the largest size of the file in MiB. MIMALLOC_TRACE_TIME=1 records the
// time about once in a hundred calls.
//
// WRITER-1  nothing here allocates, and no call that the recorded call makes is recorded
//     (`mi_writer_t.is_inside`): neither what the next allocator calls by name nor a signal
//     handler.
// WRITER-2  the record of a free is written before the block is passed on, that of an allocation
//     when the block is there: while a block is entered in the shadow, no other thread is given
//     it.
// WRITER-3  a thread writes into its own piece only. What threads share are words that are
//     accessed atomically, and lists under a lock that is held for some microseconds at most.
// WRITER-4  all of that is wiped in the child of a fork (MADV_WIPEONFORK), its lock too; the
//     pieces are not mapped there. So the child finds that it has no file, and begins its own.
// WRITER-5  whatever goes wrong with the file ends the recording, with one message; the program
//     goes on.
//
// Deliberately absent: what is recorded of which function (calls.c).
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../base/bits.h"
#include "../base/text.h"
#include "nextalloc.h"
#include "writer.h"

#define MI_WRITER_PATH_MAX 4096
// What a thread maps of the file at first; each further time it is 4 times as much, up to the last.
#define MI_WRITER_PIECE_FIRST ((size_t)4096)
#define MI_WRITER_PIECE_LAST ((size_t)64 * 1024)
#define MI_WRITER_REST_LEAST ((size_t)512) // of a piece, that another thread goes on in
#define MI_WRITER_TIMED_BYTES 200 // of records, after which the time is looked at
#define MI_WRITER_TIMED_US 1000 // less is not recorded
#define MI_WRITER_STOPPED MI_WRITER_THREAD_MASK // in the word of the order: no thread has it

extern char** environ; // some headers declare it only if asked for extensions

typedef enum mi_writer_state_e {
  MI_WRITER_UNKNOWN, // no call has come yet
  MI_WRITER_STARTING,
  MI_WRITER_ON,
  MI_WRITER_OFF // no trace is asked for, or it cannot begin
} mi_writer_state_t;

// What threads share; the child of a fork finds it empty (WRITER-4).
typedef struct mi_writer_process_s {
  mi_writer_order_t order;
  // mi_writer_state_t.
  //   write  first  CAS acquire     a thread starts     mi_writer_is_on
  //   write  first  store release   it has started      mi_writer_is_on   (publishes the rest)
  //   read   any    acquire         is there a trace?   mi_writer_is_on
  mi_atomic(int) phase;

  // The first who sets it reports; how many threads there were; how large the file is. Any thread
  // writes and reads them, relaxed.
  mi_atomic(int) is_stopped;
  mi_atomic(uint32_t) admitted_count;
  mi_atomic(uint64_t) file_bytes;

  // Whether a thread uses the lists below.
  //   write  any   swap acquire    mi_writer_lock     (sees the lists)
  //   write  any   store release   mi_writer_unlock   (publishes the lists)
  mi_atomic(int) ending_lock;
  mi_writer_t *ending_first, *ending_last; // threads that end, the oldest first
  mi_writer_t* unused;
  uint64_t start_ns; // of the clock that never goes back
  char path[MI_WRITER_PATH_MAX + 64];
  uint8_t header[MI_FORMAT_HEADER];
} mi_writer_process_t;

// What the environment says, read once; written by the first thread before others see the state.
static struct {
  bool is_read, has_times;
  uint64_t limit; // bytes
  char pattern[MI_WRITER_PATH_MAX];
} mi_writer_options;

MI_INTERNAL_DATA _Thread_local mi_writer_t* mi_writer_mine;
MI_INTERNAL_DATA mi_writer_order_t* mi_writer_order;
// Mapped when the first thread starts, constant then. Any thread writes and reads, relaxed: whoever
// uses what it points to has seen the state, or made it.
static mi_atomic(mi_writer_process_t*) mi_writer_process_at;
static _Thread_local bool mi_writer_is_starting;
static pthread_key_t mi_writer_key;
static size_t mi_writer_os_page;

static mi_writer_process_t* mi_writer_process(void) {
  return mi_atomic_load_relaxed(&mi_writer_process_at);
}

// -- The system. Calls of libc may be points of cancellation, so these are made directly. --

static void mi_writer_say(const char* what, const char* detail, int error) {
  char text[MI_WRITER_PATH_MAX + 256];
  size_t used = mi_text_format(text, sizeof(text), "mimalloc-trace: process %d: %s%s",
                               (int)syscall(SYS_getpid), what, detail);
  if (error != 0) used += mi_text_format(text + used, sizeof(text) - used, " (error %d)", error);
  used = mi_text_append(text, sizeof(text), used, "\n");
  syscall(SYS_write, 2, text, used);
}

static int mi_writer_open(const char* path, int flags) {
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void mi_writer_close_file(int file) { syscall(SYS_close, file); }

static uint64_t mi_writer_now_ns(clockid_t clock) {
  struct timespec now = {0, 0};
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

// Memory that the child of a fork finds empty; NULL if there is none.
static void* mi_writer_map(size_t size) {
  void* const p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (madvise(p, size, MADV_WIPEONFORK) == 0) return p;
  munmap(p, size);
  return NULL;
}

// -- The file --

static void mi_writer_set_state(mi_format_state_t state) {
  uint8_t field[4];
  mi_format_put_32(field, (uint32_t)state);
  const int file = mi_writer_open(mi_writer_process()->path, O_WRONLY);
  if (file < 0) return;
  syscall(SYS_pwrite64, file, field, sizeof(field), (long)MI_FORMAT_STATE);
  mi_writer_close_file(file);
}

// End the trace; the first that does so says why (WRITER-5).
static void mi_writer_stop(mi_format_state_t state, const char* why, int error) {
  mi_writer_process_t* const process = mi_writer_process();
  mi_atomic_store_relaxed(&process->order.caller, MI_WRITER_STOPPED);
  if (mi_atomic_swap_relaxed(&process->is_stopped, 1) != 0) return;
  mi_writer_set_state(state);
  mi_writer_say(why, ", the trace ends here", error);
}

MI_INTERNAL void mi_writer_stop_no_memory(void) {
  const int error = errno;
  mi_writer_stop(MI_FORMAT_NO_ROOM, "no memory to know blocks by", 0);
  errno = error;
}

// Make the file so large. Returns 0 or an error.
static int mi_writer_grow(int file, uint64_t from, size_t bytes) {
  // The kernel would end the process with SIGXFSZ.
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && from + bytes > limit.rlim_cur) return EFBIG;
  if (syscall(SYS_fallocate, file, 0, (long)from, (long)bytes) == 0) return 0;
  if (errno != EOPNOTSUPP && errno != ENOSYS) return errno;
  static const uint8_t zeros[4096];
  for (size_t done = 0; done < bytes; done += sizeof(zeros)) {
    const long written = syscall(SYS_pwrite64, file, zeros, sizeof(zeros), (long)(from + done));
    if (written != (long)sizeof(zeros)) return written < 0 ? errno : ENOSPC;
  }
  return 0;
}

// Map the next bytes of the file. Returns NULL if the trace ends.
static uint8_t* mi_writer_claim(size_t bytes) {
  mi_writer_process_t* const process = mi_writer_process();
  const uint64_t from = mi_atomic_add_relaxed(&process->file_bytes, bytes);
  if (from + bytes > mi_writer_options.limit) {
    mi_writer_stop(MI_FORMAT_LIMIT, "the file is as large as it may be", 0);
    return NULL;
  }
  const int file = mi_writer_open(process->path, O_RDWR);
  if (file < 0) {
    mi_writer_stop(MI_FORMAT_NO_ROOM, "cannot open the file again", errno);
    return NULL;
  }
  int error = mi_writer_grow(file, from, bytes);
  void* p = MAP_FAILED;
  if (error == 0) {
    p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, (off_t)from);
    if (p == MAP_FAILED) error = errno;
  }
  mi_writer_close_file(file);
  if (error != 0) {
    const bool is_full = error == ENOSPC || error == EDQUOT;
    mi_writer_stop(MI_FORMAT_NO_ROOM,
                   is_full ? "no space left for the file" : "cannot make the file larger", error);
    return NULL;
  }
  madvise(p, bytes, MADV_DONTFORK); // WRITER-4
  madvise(p, bytes, MADV_DONTDUMP);
  return (uint8_t*)p;
}

// -- Pieces --

// Sum up what the piece holds; more may follow (FORMAT-4).
static void mi_writer_sum(mi_writer_t* w) {
  if (w->piece == NULL) return;
  const uint32_t summed = (uint32_t)(w->at - w->piece - MI_FORMAT_HEAD);
  mi_format_put_32(w->piece + MI_FORMAT_CHECK, mi_format_sum_piece(w->piece, summed));
  mi_format_put_32(w->piece + MI_FORMAT_SUMMED, summed);
}

static void mi_writer_unmap(mi_writer_t* w) {
  if (w->map != NULL) munmap(w->map, w->map_bytes);
  w->map = w->rest = NULL;
  w->map_bytes = 0;
}

// The piece gets no more records. What it leaves of the mapping, if that is enough, is for the
// piece of the thread that gets the structure next: so threads that call little take little.
static void mi_writer_close(mi_writer_t* w) {
  if (w->piece == NULL) return;
  uint8_t* const rest = w->map + mi_bits_align_up((size_t)(w->at - w->map), 8);
  const size_t left = (size_t)(w->map + w->map_bytes - rest);
  if (left >= MI_WRITER_REST_LEAST && left < w->map_bytes) {
    mi_format_put_32(w->piece + MI_FORMAT_BYTES, (uint32_t)(rest - w->piece));
    w->rest = rest;
  }
  mi_writer_sum(w);
  w->piece = w->at = w->limit = NULL;
}

// Set where the writer is asked again: at the end, or soon, if it is to look at the time.
static void mi_writer_set_limit(mi_writer_t* w) {
  w->limit = w->map + w->map_bytes - MI_FORMAT_RECORD_MAX;
  if (mi_writer_options.has_times && w->limit - w->at > MI_WRITER_TIMED_BYTES)
    w->limit = w->at + MI_WRITER_TIMED_BYTES;
}

// Get memory for a piece: what another thread left, or some at the end of the file.
static bool mi_writer_find_room(mi_writer_t* w) {
  if (w->rest != NULL) return true;
  mi_writer_unmap(w);
  const size_t more = w->claimed_bytes == 0 ? MI_WRITER_PIECE_FIRST : w->claimed_bytes * 4;
  const size_t bytes = mi_bits_max(mi_bits_min(more, MI_WRITER_PIECE_LAST), mi_writer_os_page);
  w->rest = w->map = mi_writer_claim(bytes);
  if (w->map == NULL) return false;
  w->map_bytes = w->claimed_bytes = bytes;
  return true;
}

static bool mi_writer_next_piece(mi_writer_t* w) {
  if (w->piece != NULL) mi_writer_sum(w);
  w->piece = w->at = w->limit = NULL;
  if (!mi_writer_find_room(w)) return false;
  uint8_t* const piece = w->rest;
  w->rest = NULL;
  mi_format_put_32(piece + MI_FORMAT_BYTES, (uint32_t)(w->map + w->map_bytes - piece));
  mi_format_put_32(piece + MI_FORMAT_THREAD, (uint32_t)(w->name & MI_WRITER_THREAD_MASK));
  mi_format_put_32(piece + MI_FORMAT_INDEX, w->index++);
  const uint64_t now = mi_writer_now_ns(CLOCK_MONOTONIC) - mi_writer_process()->start_ns;
  mi_format_put_64(piece + MI_FORMAT_TIME, now);
  mi_format_put_64(piece + MI_FORMAT_COUNT, (w->name >> MI_WRITER_THREAD_BITS) - 1);
  mi_format_put_64(piece + MI_FORMAT_EPOCH, w->epoch);
  mi_format_put_32(piece, MI_FORMAT_PIECE);
  memset(&w->sizes, 0, sizeof(w->sizes));
  w->other = w->other_number = 0;
  w->passed_us = now / 1000;
  w->piece = piece;
  w->at = piece + MI_FORMAT_HEAD;
  mi_writer_set_limit(w);
  return true;
}

static void mi_writer_put_time(mi_writer_t* w) {
  const uint64_t now_us =
      (mi_writer_now_ns(CLOCK_MONOTONIC) - mi_writer_process()->start_ns) / 1000;
  if (now_us < w->passed_us + MI_WRITER_TIMED_US) return;
  *w->at++ = MI_FORMAT_PASSED;
  w->at = mi_format_put(w->at, now_us - w->passed_us);
  w->passed_us = now_us;
}

// -- Records that are not on the fast path --

MI_INTERNAL bool mi_writer_turn(mi_writer_t* w) {
  uint64_t word = mi_atomic_load_relaxed(&mi_writer_order->caller), mine;
  do {
    if (word == MI_WRITER_STOPPED) return false;
    mine = (((word >> MI_WRITER_THREAD_BITS) + 1) << MI_WRITER_THREAD_BITS) |
           ((w->name & MI_WRITER_THREAD_MASK) + 1);
  } while (!mi_atomic_cas_weak_relaxed(&mi_writer_order->caller, &word, mine));
  const uint64_t epoch = mine >> MI_WRITER_THREAD_BITS;
  w->caller = mine;
  *w->at++ = MI_FORMAT_ORDER;
  w->at = mi_format_put(w->at, epoch - w->epoch);
  w->epoch = epoch;
  return true;
}

MI_INTERNAL uint8_t* mi_writer_put_free_far(mi_writer_t* w, uint8_t* at, uint64_t name) {
  if (mi_writer_is_mine(w, name)) {
    const uint64_t distance = mi_writer_distance(w, name) - MI_FORMAT_DISTANCE_FAR;
    if (distance < 16 * 256) {
      *at++ = (uint8_t)(MI_FORMAT_FREE_NEAR + (distance >> 8));
      *at++ = (uint8_t)distance;
      return at;
    }
    *at++ = MI_FORMAT_FREE_FAR;
    return mi_format_put(at, distance);
  }
  const uint64_t thread = name & MI_WRITER_THREAD_MASK,
                 number = (name >> MI_WRITER_THREAD_BITS) - 1;
  if (thread + 1 == w->other) {
    *at++ = MI_FORMAT_FREE_NEXT;
    at = mi_format_put(at, mi_format_fold(number - w->other_number));
  } else {
    *at++ = MI_FORMAT_FREE_OTHER;
    at = mi_format_put(mi_format_put(at, thread), number);
  }
  w->other = thread + 1;
  w->other_number = number;
  return at;
}

MI_INTERNAL void mi_writer_unseen(mi_writer_t* w, uint64_t name) {
  uint8_t* at = mi_writer_record(w);
  if (at == NULL) return;
  *at++ = MI_FORMAT_UNSEEN;
  w->at = mi_writer_put_free(w, at, name);
}

MI_INTERNAL uint8_t* mi_writer_put_block(const mi_writer_t* w, uint8_t* at, const void* p,
                                         uint64_t name) {
  if (p == NULL) return mi_format_put(at, MI_FORMAT_BLOCK_NULL);
  if (name == 0) return mi_format_put(at, MI_FORMAT_BLOCK_UNKNOWN);
  if (mi_writer_is_mine(w, name))
    return mi_format_put(at, MI_FORMAT_BLOCK_OWN + mi_writer_distance(w, name));
  at = mi_format_put(at, MI_FORMAT_BLOCK_OTHER);
  at = mi_format_put(at, name & MI_WRITER_THREAD_MASK);
  return mi_format_put(at, (name >> MI_WRITER_THREAD_BITS) - 1);
}

// -- Threads --

static void mi_writer_lock(void) {
  // sees the lists that `mi_writer_unlock` of another thread left
  while (mi_atomic_swap_acquire(&mi_writer_process()->ending_lock, 1) != 0) sched_yield();
}

static void mi_writer_unlock(void) {
  // publishes the lists to `mi_writer_lock`
  mi_atomic_store_release(&mi_writer_process()->ending_lock, 0);
}

// Whether a thread of this process has ended. Another may have its number meanwhile: then not yet.
static bool mi_writer_is_gone(int tid) {
  return syscall(SYS_tgkill, syscall(SYS_getpid), tid, 0) != 0 && errno == ESRCH;
}

// Close the pieces of threads that have ended: two at most, so that nobody waits long.
static void mi_writer_reap(void) {
  mi_writer_process_t* const process = mi_writer_process();
  mi_writer_lock();
  for (int i = 0; i < 2; i++) {
    mi_writer_t* const w = process->ending_first;
    if (w == NULL || !mi_writer_is_gone(w->tid)) break;
    process->ending_first = w->next;
    if (w->next == NULL) process->ending_last = NULL;
    mi_writer_close(w);
    w->next = process->unused;
    process->unused = w;
  }
  mi_writer_unlock();
}

// Called for the value of `mi_writer_key` when a thread ends; what other destructors free is still
// recorded, and the piece is closed by a later thread or when the process ends.
static void mi_writer_thread_end(void* value) {
  mi_writer_t* const w = (mi_writer_t*)value;
  if (w->piece == NULL || w->is_inside || w->is_ending)
    return; // the child of a fork has recorded nothing
  w->is_inside = true;
  uint8_t* const at = mi_writer_record(w);
  if (at != NULL) {
    *at = MI_FORMAT_END;
    w->at = at + 1;
  }
  if (w->piece != NULL) {
    mi_writer_process_t* const process = mi_writer_process();
    mi_writer_lock();
    w->is_ending = true;
    w->next = NULL;
    if (process->ending_last != NULL) process->ending_last->next = w;
    if (process->ending_first == NULL) process->ending_first = w;
    process->ending_last = w;
    mi_writer_unlock();
  }
  w->is_inside = false;
}

// Give a structure to this thread: `w` has been wiped.
static bool mi_writer_admit(mi_writer_t* w) {
  const uint32_t thread = mi_atomic_add_relaxed(&mi_writer_process()->admitted_count, 1);
  if (thread >= MI_FORMAT_THREAD_MAX - 2) {
    mi_writer_stop(MI_FORMAT_NO_ROOM, "too many threads", 0);
    return false;
  }
  w->name = MI_WRITER_NAME_STEP | thread;
  w->caller = UINT64_MAX; // nobody's
  w->tid = (int)syscall(SYS_gettid);
  return mi_writer_next_piece(w);
}

static mi_writer_t* mi_writer_structure(void) {
  mi_writer_process_t* const process = mi_writer_process();
  mi_writer_reap();
  mi_writer_lock();
  mi_writer_t* const w = process->unused;
  if (w != NULL) process->unused = w->next;
  mi_writer_unlock();
  if (w == NULL) {
    return (mi_writer_t*)mi_writer_map(mi_bits_align_up(sizeof(*w), mi_writer_os_page));
  }
  const mi_writer_t kept = {.map = w->map, .map_bytes = w->map_bytes, .rest = w->rest};
  *w = kept;
  return w;
}

// -- The start of a process --

static uint64_t mi_writer_number(const char* text) {
  uint64_t number = 0;
  for (; *text >= '0' && *text <= '9'; text++) number = number * 10 + (uint64_t)(*text - '0');
  return number;
}

static void mi_writer_read_options(void) {
  const char* const pattern = secure_getenv("MIMALLOC_TRACE");
  const char* const limit = secure_getenv("MIMALLOC_TRACE_LIMIT");
  const char* const times = secure_getenv("MIMALLOC_TRACE_TIME");
  mi_writer_options.is_read = true;
  mi_writer_options.limit = UINT64_MAX;
  mi_writer_options.has_times = times != NULL && mi_writer_number(times) != 0;
  const uint64_t mib = limit != NULL ? mi_writer_number(limit) : 0;
  if (mib != 0 && mib <= UINT64_MAX >> 20) mi_writer_options.limit = mib << 20;
  if (pattern == NULL || pattern[0] == 0) return;
  size_t used = 0;
  char folder[MI_WRITER_PATH_MAX];
  // The program may go to another folder later.
  if (pattern[0] != '/' && syscall(SYS_getcwd, folder, sizeof(folder)) > 0) {
    for (const char* c = folder; *c != 0 && used < MI_WRITER_PATH_MAX - 2; c++) {
      if (*c == '%') mi_writer_options.pattern[used++] = '%'; // stands for itself
      mi_writer_options.pattern[used++] = *c;
    }
    mi_writer_options.pattern[used++] = '/';
  }
  mi_text_append(mi_writer_options.pattern, MI_WRITER_PATH_MAX, used, pattern);
}

// Write the name of the file for this process. Returns its length.
static size_t mi_writer_expand(char* path) {
  size_t used = 0;
  for (const char* at = mi_writer_options.pattern; *at != 0; at++) {
    char one[16] = {*at, 0};
    const char* text = one;
    if (at[0] == '%' && at[1] != 0) {
      at++;
      if (*at == 'p') mi_text_format(one, sizeof(one), "%d", (int)syscall(SYS_getpid));
      if (*at == 'n') text = program_invocation_short_name;
      if (*at == '%') one[1] = 0;
    }
    used = mi_text_append(path, MI_WRITER_PATH_MAX, used, text);
  }
  return used;
}

// Make the file, under a name that no other has. Returns its descriptor, or -1 and sets errno.
static int mi_writer_create(char* path) {
  const size_t length = mi_writer_expand(path);
  const int flags = O_RDWR | O_CREAT | O_EXCL, pid = (int)syscall(SYS_getpid);
  int file = mi_writer_open(path, flags);
  for (int i = 0; file < 0 && errno == EEXIST && i < 10000; i++) {
    const size_t used = length + mi_text_format(path + length, 64, ".%d", pid);
    if (i > 0) mi_text_format(path + used, 32, ".%d", i);
    file = mi_writer_open(path, flags);
  }
  return file;
}

static size_t mi_writer_read_command(uint8_t* text, size_t capacity) {
  const int file = mi_writer_open("/proc/self/cmdline", O_RDONLY);
  if (file < 0) return 0;
  const long got = syscall(SYS_read, file, text, capacity);
  mi_writer_close_file(file);
  return got > 0 ? (size_t)got : 0;
}

static bool mi_writer_write_header(int file) {
  mi_writer_process_t* const process = mi_writer_process();
  uint8_t* const header = process->header;
  const size_t size = mi_bits_max(MI_FORMAT_HEADER, mi_writer_os_page);
  memcpy(header, MI_FORMAT_MAGIC, MI_FORMAT_SIZE);
  mi_format_put_32(header + MI_FORMAT_SIZE, (uint32_t)size);
  mi_format_put_32(header + MI_FORMAT_PID, (uint32_t)syscall(SYS_getpid));
  mi_format_put_32(header + MI_FORMAT_PARENT, (uint32_t)syscall(SYS_getppid));
  mi_format_put_64(header + MI_FORMAT_START, mi_writer_now_ns(CLOCK_REALTIME));
  mi_format_put_32(header + MI_FORMAT_OS_PAGE, (uint32_t)mi_writer_os_page);
  const size_t length =
      mi_writer_read_command(header + MI_FORMAT_TEXT, MI_FORMAT_HEADER - MI_FORMAT_TEXT);
  mi_format_put_32(header + MI_FORMAT_COMMAND, (uint32_t)length);
  mi_format_put_64(header + MI_FORMAT_SUM, mi_format_sum_header(header, MI_FORMAT_HEADER));
  process->start_ns = mi_writer_now_ns(CLOCK_MONOTONIC);
  mi_atomic_store_relaxed(&process->file_bytes, size);
  const int error = mi_writer_grow(file, 0, size);
  if (error != 0) errno = error;
  return error == 0 &&
         syscall(SYS_pwrite64, file, header, (long)MI_FORMAT_HEADER, 0L) == MI_FORMAT_HEADER;
}

// Begin a trace. Returns false if none is asked for or possible; the second is said.
static bool mi_writer_start(void) {
  if (!mi_writer_options.is_read) {
    mi_writer_os_page = (size_t)sysconf(_SC_PAGESIZE);
    mi_writer_read_options();
    if (pthread_key_create(&mi_writer_key, mi_writer_thread_end) != 0) return false;
  }
  if (mi_writer_options.pattern[0] == 0) return false;
  mi_writer_process_t* const process = mi_writer_process();
  if (!mi_shadow_init()) {
    mi_writer_say("no trace: no memory, or a kernel before 4.14", "", 0);
    return false;
  }
  const int file = mi_writer_create(process->path);
  const bool is_written = file >= 0 && mi_writer_write_header(file);
  if (!is_written) mi_writer_say("no trace: cannot write ", process->path, errno);
  if (file >= 0) mi_writer_close_file(file);
  mi_writer_order = &process->order;
  return is_written;
}

// Whether there is a trace; begins it. (Again in the child of a fork, WRITER-4.)
static bool mi_writer_is_on(void) {
  mi_writer_process_t* process = mi_writer_process();
  if (process == NULL) {
    if (environ == NULL) return false; // the loader allocates; libc has not begun
    const size_t size = mi_bits_align_up(sizeof(*process), (size_t)64 * 1024);
    mi_writer_process_t* const made = (mi_writer_process_t*)mi_writer_map(size);
    if (made == NULL) return false;
    if (mi_atomic_cas_strong_relaxed(&mi_writer_process_at, &process, made)) {
      process = made;
    } else {
      munmap(made, size); // another thread was first
    }
  }
  // sees what `mi_writer_is_on` of another thread has made
  int state = mi_atomic_load_acquire(&process->phase);
  // pairs with the store of `mi_writer_is_on`, if that has happened
  if (state == MI_WRITER_UNKNOWN &&
      mi_atomic_cas_strong_acquire(&process->phase, &state, MI_WRITER_STARTING)) {
    state = mi_writer_start() ? MI_WRITER_ON : MI_WRITER_OFF;
    // publishes the options, the file and the shadow to `mi_writer_is_on`
    mi_atomic_store_release(&process->phase, state);
  }
  while (state == MI_WRITER_UNKNOWN || state == MI_WRITER_STARTING) {
    sched_yield();
    // sees what `mi_writer_is_on` of another thread has made
    state = mi_atomic_load_acquire(&process->phase);
  }
  return state == MI_WRITER_ON;
}

// -- What the fast path calls --

MI_INTERNAL mi_writer_t* mi_writer_begin_slow(void) {
  if (!mi_nextalloc_find()) return NULL;
  mi_writer_t* w = mi_writer_mine;
  if (w != NULL || mi_writer_is_starting) return NULL; // inside of a call
  const int error = errno;
  mi_writer_is_starting = true; // WRITER-1
  if (mi_writer_is_on() && mi_atomic_load_relaxed(&mi_writer_order->caller) != MI_WRITER_STOPPED) {
    w = mi_writer_structure();
    if (w != NULL) {
      w->is_inside = true;
      mi_writer_mine = w; // WRITER-1, from here on; the next call may allocate
      pthread_setspecific(mi_writer_key, w);
      mi_writer_admit(w);
    } else {
      mi_writer_stop(MI_FORMAT_NO_ROOM, "no memory for another thread", 0);
    }
  }
  mi_writer_is_starting = false;
  errno = error;
  return w;
}

MI_INTERNAL bool mi_writer_more(mi_writer_t* w) {
  const int error = errno;
  bool is_there = true;
  if (w->name == 0) { // wiped: this is the child of a fork
    is_there = mi_writer_is_on() && mi_writer_admit(w);
  } else if (mi_atomic_load_relaxed(&mi_writer_order->caller) == MI_WRITER_STOPPED) {
    is_there = false;
  } else if (w->piece != NULL && w->map + w->map_bytes - w->at > MI_FORMAT_RECORD_MAX) {
    mi_writer_put_time(w);
    mi_writer_set_limit(w);
  } else {
    is_there = mi_writer_next_piece(w);
  }
  errno = error;
  return is_there;
}

// The process ends in order: what threads that have ended wrote, and this one, gets its sum.
static void __attribute__((destructor)) mi_writer_process_end(void) {
  mi_writer_process_t* const process = mi_writer_process();
  if (process == NULL || mi_writer_order == NULL) return;
  if (mi_writer_mine != NULL) mi_writer_sum(mi_writer_mine);
  mi_writer_lock();
  for (mi_writer_t* w = process->ending_first; w != NULL; w = w->next) {
    if (mi_writer_is_gone(w->tid)) mi_writer_sum(w);
  }
  mi_writer_unlock();
}
