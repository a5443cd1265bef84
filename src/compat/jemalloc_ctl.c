// SPDX-License-Identifier: MIT
// jemalloc_ctl.c - mallctl, mallctlnametomib and mallctlbymib: the tree of names, and what is
// behind each of them.
//
// `mi_jemalloc_leaf` has a row for each name; a `#` in it stands for a number. Rows with the same
// beginning stand together. A MIB has a number for each word of a name: of a `#` it is the number
// itself, of a word it is the row where names with the same beginning start. So the last number is
// the row of the name, and what is left of a MIB whose end is cut off can be completed, as the
// manual page of jemalloc shows.
//
//   row  name                  MIB of arena.3.decay    of arena.3.purge
//   0    arena.#.decay         0, 3, 0                 0, 3, 1
//   1    arena.#.purge
//
// JEMALLOC_CTL-1  a row reads, writes, or does both; then it first reads and returns the old value.
//     All checks of lengths come before anything changes, but for two: a value that does not fit is
//     returned as far as it does, with EINVAL; and the epoch begins before its number is read.
// JEMALLOC_CTL-2  the number of an arena is one that has been in use, the next one (which means
//     all, for old programs), MI_JEMALLOC_ALL or MI_JEMALLOC_DESTROYED. Any other is ENOENT.
//
// Deliberately absent, and so ENOENT: what is not counted here (thread.allocated, stats.mutexes),
// hooks of extents, names of threads, experimental.*.
#include <errno.h>
#include <string.h>

#include "jemalloc.h"
#include "mimalloc-profile.h"

typedef union mi_jemalloc_value_u {
  bool yes;
  unsigned number;
  size_t size;
  ssize_t ssize;
  uint64_t u64;
  int64_t i64;
  const char* text;
  void* address;
} mi_jemalloc_value_t;

typedef struct mi_jemalloc_leaf_s mi_jemalloc_leaf_t;

// What a row is asked for: the numbers in the name (MI_JEMALLOC_ALL where there is none), and the
// new value or NULL.
typedef struct mi_jemalloc_call_s {
  const mi_jemalloc_leaf_t* leaf;
  size_t index[2];
  const void* newp;
  size_t newlen;
} mi_jemalloc_call_t;

typedef int mi_jemalloc_read_fun(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value);
typedef int mi_jemalloc_write_fun(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value);

// A row is a constant, an option, or has functions. One without a value has `write` as its action.
struct mi_jemalloc_leaf_s {
  const char* name;
  mi_jemalloc_type_t type;
  enum { MI_JEMALLOC_CALLS, MI_JEMALLOC_CONSTANT, MI_JEMALLOC_OPTION } source;
  mi_jemalloc_read_fun* read; // NULL: not to be read
  mi_jemalloc_write_fun* write; // NULL: not to be written
  const char* text; // the constant, if it is a text
  long number; // the constant; or which option, or which figure
};

static const size_t mi_jemalloc_size_of[] = {
    [MI_JEMALLOC_VOID] = 0,
    [MI_JEMALLOC_BOOL] = sizeof(bool),
    [MI_JEMALLOC_UNSIGNED] = sizeof(unsigned),
    [MI_JEMALLOC_SIZE] = sizeof(size_t),
    [MI_JEMALLOC_SSIZE] = sizeof(ssize_t),
    [MI_JEMALLOC_UINT64] = sizeof(uint64_t),
    [MI_JEMALLOC_INT64] = sizeof(int64_t),
    [MI_JEMALLOC_TEXT] = sizeof(const char*),
};

static void mi_jemalloc_set(mi_jemalloc_value_t* value, mi_jemalloc_type_t type, long number) {
  switch (type) {
    case MI_JEMALLOC_BOOL:
      value->yes = number != 0;
      break;
    case MI_JEMALLOC_UNSIGNED:
      value->number = (unsigned)number;
      break;
    case MI_JEMALLOC_SIZE:
      value->size = (size_t)number;
      break;
    case MI_JEMALLOC_SSIZE:
      value->ssize = number;
      break;
    case MI_JEMALLOC_UINT64:
      value->u64 = (uint64_t)number;
      break;
    case MI_JEMALLOC_INT64:
      value->i64 = number;
      break;
    default:
      break;
  }
}

// -- Time and memory that goes back --

static int mi_jemalloc_read_decay(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->ssize = mi_option_get(mi_option_purge_delay);
  return 0;
}

static int mi_jemalloc_write_decay(const mi_jemalloc_call_t* call,
                                   const mi_jemalloc_value_t* value) {
  (void)call;
  if (value->ssize < -1 || value->ssize > INT32_MAX) return EFAULT;
  mi_option_set(mi_option_purge_delay, (long)value->ssize);
  return 0;
}

// There is no muzzy memory: what goes back has gone at once.
static int mi_jemalloc_write_muzzy(const mi_jemalloc_call_t* call,
                                   const mi_jemalloc_value_t* value) {
  (void)call;
  return value->ssize < -1 ? EFAULT : 0;
}

static int mi_jemalloc_read_muzzy(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->ssize = 0;
  return 0;
}

static bool mi_jemalloc_is_arena(size_t arena) {
  return arena < mi_jemalloc_arenas() && mi_jemalloc_heap(arena) != NULL;
}

static int mi_jemalloc_read_decay_of(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  return mi_jemalloc_is_arena(call->index[0]) ? mi_jemalloc_read_decay(call, value) : EFAULT;
}

static int mi_jemalloc_write_decay_of(const mi_jemalloc_call_t* call,
                                      const mi_jemalloc_value_t* value) {
  if (!mi_jemalloc_is_arena(call->index[0])) return EFAULT;
  const int result = mi_jemalloc_write_decay(call, value);
  // jemalloc takes all unused memory for old then.
  if (result == 0 && value->ssize != -1) mi_collect(true);
  return result;
}

static int mi_jemalloc_write_muzzy_of(const mi_jemalloc_call_t* call,
                                      const mi_jemalloc_value_t* value) {
  return mi_jemalloc_is_arena(call->index[0]) ? mi_jemalloc_write_muzzy(call, value) : EFAULT;
}

static int mi_jemalloc_read_muzzy_of(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  value->ssize = 0;
  return mi_jemalloc_is_arena(call->index[0]) ? 0 : EFAULT;
}

// Free memory belongs to no arena, so the collection of one that was created is of what the calling
// thread holds of it, and of all that is free.
static int mi_jemalloc_collect(const mi_jemalloc_call_t* call, bool force) {
  const size_t arena = call->index[0];
  if (arena == MI_JEMALLOC_DESTROYED) return 0;
  if (arena != 0 && mi_jemalloc_is_arena(arena)) mi_heap_collect(mi_jemalloc_heap(arena), force);
  mi_collect(force);
  return 0;
}

static int mi_jemalloc_purge(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)value;
  return mi_jemalloc_collect(call, true);
}

static int mi_jemalloc_decay(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)value;
  return mi_jemalloc_collect(call, false);
}

static int mi_jemalloc_read_background(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->yes = mi_option_is_enabled(mi_option_purge_thread);
  return 0;
}

static int mi_jemalloc_write_background(const mi_jemalloc_call_t* call,
                                        const mi_jemalloc_value_t* value) {
  (void)call;
  const long now = mi_option_get(mi_option_purge_thread);
  if (value->yes != (now != 0)) mi_option_set(mi_option_purge_thread, value->yes ? 2 : 0);
  return 0;
}

static int mi_jemalloc_read_one(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->size = 1;
  return 0;
}

static int mi_jemalloc_write_most_threads(const mi_jemalloc_call_t* call,
                                          const mi_jemalloc_value_t* value) {
  (void)call;
  return value->size > 1 ? EINVAL : 0;
}

// -- Threads and their caches --

static int mi_jemalloc_flush(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)call;
  (void)value;
  mi_theap_collect(mi_theap_get_default(), true);
  return 0;
}

static int mi_jemalloc_read_yes(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->yes = true;
  return 0;
}

// What a thread holds cannot be done without; jemalloc flushes it, too, when it is turned off.
static int mi_jemalloc_write_tcache(const mi_jemalloc_call_t* call,
                                    const mi_jemalloc_value_t* value) {
  return value->yes ? 0 : mi_jemalloc_flush(call, value);
}

static int mi_jemalloc_write_yes(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)call;
  return value->yes ? 0 : EFAULT;
}

static int mi_jemalloc_write_no(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)call;
  return value->yes ? EFAULT : 0;
}

static int mi_jemalloc_read_no(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->yes = false;
  return 0;
}

static int mi_jemalloc_read_thread_arena(const mi_jemalloc_call_t* call,
                                         mi_jemalloc_value_t* value) {
  (void)call;
  value->number = (unsigned)mi_jemalloc_arena_of(mi_heap_get_default());
  return 0;
}

static int mi_jemalloc_write_thread_arena(const mi_jemalloc_call_t* call,
                                          const mi_jemalloc_value_t* value) {
  (void)call;
  return mi_jemalloc_is_arena(value->number) ? mi_jemalloc_choose_arena(value->number) : EFAULT;
}

// The next number of an explicit tcache. Written and read by any thread, relaxed.
static mi_atomic(unsigned) mi_jemalloc_tcaches;

// Any number will do: MALLOCX_TCACHE is accepted and has no effect. They fit in the flags.
static int mi_jemalloc_create_tcache(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->number = mi_atomic_add_relaxed(&mi_jemalloc_tcaches, 1) % 4094;
  return 0;
}

static int mi_jemalloc_end_tcache(const mi_jemalloc_call_t* call,
                                  const mi_jemalloc_value_t* value) {
  if (call->newp == NULL) return EINVAL;
  return mi_jemalloc_flush(call, value);
}

// -- Arenas --

static int mi_jemalloc_read_narenas(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->number = (unsigned)mi_jemalloc_arenas();
  return 0;
}

static int mi_jemalloc_read_page(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->size = mi_jemalloc_os_page();
  return 0;
}

static int mi_jemalloc_read_largest_bin(const mi_jemalloc_call_t* call,
                                        mi_jemalloc_value_t* value) {
  (void)call;
  value->size = mi_jemalloc_bin_size(mi_jemalloc_bins() - 1);
  return 0;
}

static int mi_jemalloc_read_bins(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->number = (unsigned)mi_jemalloc_bins();
  return 0;
}

static int mi_jemalloc_read_bin_size(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  value->size = mi_jemalloc_bin_size(call->index[0]);
  return 0;
}

static int mi_jemalloc_read_initialized(const mi_jemalloc_call_t* call,
                                        mi_jemalloc_value_t* value) {
  value->yes = call->index[0] == MI_JEMALLOC_ALL || mi_jemalloc_is_arena(call->index[0]);
  return 0;
}

static int mi_jemalloc_reset(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)value;
  return mi_jemalloc_is_arena(call->index[0]) ? mi_jemalloc_reset_arena(call->index[0]) : EFAULT;
}

static int mi_jemalloc_destroy(const mi_jemalloc_call_t* call, const mi_jemalloc_value_t* value) {
  (void)value;
  return mi_jemalloc_is_arena(call->index[0]) ? mi_jemalloc_destroy_arena(call->index[0]) : EFAULT;
}

static int mi_jemalloc_create(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const void* hooks = NULL;
  size_t arena = 0;
  if (call->newp != NULL) {
    if (call->newlen != sizeof(hooks)) return EINVAL;
    memcpy(&hooks, call->newp, sizeof(hooks));
  }
  if (hooks != NULL) return EFAULT;
  if (!mi_jemalloc_create_arena(&arena)) return EAGAIN;
  value->number = (unsigned)arena;
  return 0;
}

static int mi_jemalloc_lookup(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const void* p = NULL;
  if (call->newp == NULL || call->newlen != sizeof(p)) return EINVAL;
  memcpy(&p, call->newp, sizeof(p));
  const mi_heap_t* const heap = mi_heap_of(p);
  if (heap == NULL) return EINVAL;
  value->number = (unsigned)mi_jemalloc_arena_of(heap);
  return 0;
}

// -- Profiles --

static bool mi_jemalloc_has_profiles(void) { return mi_jemalloc_number(MI_JEMALLOC_OPT_prof) != 0; }

static int mi_jemalloc_write_dump(const mi_jemalloc_call_t* call,
                                  const mi_jemalloc_value_t* value) {
  if (!mi_jemalloc_has_profiles()) return ENOENT;
  const char* const file = call->newp == NULL ? NULL : value->text;
  if (file == NULL && *mi_jemalloc_text(MI_JEMALLOC_OPT_prof_prefix) == 0) return EFAULT;
  return mi_jemalloc_dump(file, 'm');
}

static int mi_jemalloc_read_active(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->yes = mi_profile_rate() != 0;
  return 0;
}

static int mi_jemalloc_write_active(const mi_jemalloc_call_t* call,
                                    const mi_jemalloc_value_t* value) {
  (void)call;
  if (!mi_jemalloc_has_profiles()) return ENOENT;
  if (!value->yes) {
    mi_profile_stop();
  } else if (mi_profile_rate() == 0) {
    mi_jemalloc_start_profile();
  }
  return 0;
}

static int mi_jemalloc_read_lg_sample(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->size = mi_jemalloc_lg_rate();
  return 0;
}

static int mi_jemalloc_write_reset(const mi_jemalloc_call_t* call,
                                   const mi_jemalloc_value_t* value) {
  if (!mi_jemalloc_has_profiles()) return ENOENT;
  if (call->newp != NULL) mi_jemalloc_set_lg_rate(value->size);
  mi_jemalloc_reset_profile();
  return 0;
}

// -- Figures --

static int mi_jemalloc_read_epoch(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  (void)call;
  value->u64 = mi_jemalloc_epoch();
  return 0;
}

static int mi_jemalloc_write_epoch(const mi_jemalloc_call_t* call,
                                   const mi_jemalloc_value_t* value) {
  (void)call;
  (void)value;
  mi_jemalloc_next_epoch();
  return 0;
}

// The arena that a number stands for (JEMALLOC_CTL-2).
static size_t mi_jemalloc_asked(const mi_jemalloc_call_t* call) {
  return call->index[0] == mi_jemalloc_arenas() ? MI_JEMALLOC_ALL : call->index[0];
}

static int mi_jemalloc_read_figure(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const mi_jemalloc_figure_t which = (mi_jemalloc_figure_t)call->leaf->number;
  value->size = mi_jemalloc_figure(mi_jemalloc_asked(call), which);
  return 0;
}

static int mi_jemalloc_read_pactive(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  value->size = mi_jemalloc_figure(mi_jemalloc_asked(call), MI_JEMALLOC_ACTIVE);
  value->size /= mi_jemalloc_os_page();
  return 0;
}

// What is mapped and not active is waiting to go back.
static int mi_jemalloc_read_pdirty(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const size_t arena = mi_jemalloc_asked(call);
  const size_t mapped = mi_jemalloc_figure(arena, MI_JEMALLOC_MAPPED);
  const size_t active = mi_jemalloc_figure(arena, MI_JEMALLOC_ACTIVE);
  value->size = mapped > active ? (mapped - active) / mi_jemalloc_os_page() : 0;
  return 0;
}

static int mi_jemalloc_read_nthreads(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  value->number = (unsigned)mi_jemalloc_figure(mi_jemalloc_asked(call), MI_JEMALLOC_THREADS);
  return 0;
}

static int mi_jemalloc_read_curregs(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  value->size = mi_jemalloc_bin_blocks(mi_jemalloc_asked(call), call->index[1]);
  return 0;
}

static int mi_jemalloc_read_curslabs(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  value->size = mi_jemalloc_bin_pages(mi_jemalloc_asked(call), call->index[1]);
  return 0;
}

// JEMALLOC_STATS-3. Each request is an allocation: there is no cache that would serve one.
static int mi_jemalloc_tell_ever(const mi_jemalloc_call_t* call, uint64_t figure,
                                 mi_jemalloc_value_t* value) {
  value->u64 = figure;
  return mi_jemalloc_asked(call) == MI_JEMALLOC_ALL ? 0 : ENOENT;
}

static int mi_jemalloc_read_bin_made(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  return mi_jemalloc_tell_ever(call, mi_jemalloc_bin_ever(call->index[1]).made, value);
}

static int mi_jemalloc_read_bin_freed(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  return mi_jemalloc_tell_ever(call, mi_jemalloc_bin_ever(call->index[1]).freed, value);
}

static int mi_jemalloc_read_made(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const mi_jemalloc_figure_t which = (mi_jemalloc_figure_t)call->leaf->number;
  return mi_jemalloc_tell_ever(call, mi_jemalloc_ever(which).made, value);
}

static int mi_jemalloc_read_freed(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const mi_jemalloc_figure_t which = (mi_jemalloc_figure_t)call->leaf->number;
  return mi_jemalloc_tell_ever(call, mi_jemalloc_ever(which).freed, value);
}

// -- The tree --

#define ROW(name, type, read, write)                                                               \
  {name, MI_JEMALLOC_##type, MI_JEMALLOC_CALLS, read, write, NULL, 0},
#define FIGURE(name, which)                                                                        \
  {name, MI_JEMALLOC_SIZE, MI_JEMALLOC_CALLS, &mi_jemalloc_read_figure, NULL, NULL, which},
#define EVER(name, which, read)                                                                    \
  {name, MI_JEMALLOC_UINT64, MI_JEMALLOC_CALLS, read, NULL, NULL, which},
#define NUMBER(name, type, value)                                                                  \
  {name, MI_JEMALLOC_##type, MI_JEMALLOC_CONSTANT, NULL, NULL, NULL, value},
#define TEXT(name, value) {name, MI_JEMALLOC_TEXT, MI_JEMALLOC_CONSTANT, NULL, NULL, value, 0},
#define X_NUMBER(name, type, value, acts)                                                          \
  {"opt." #name, MI_JEMALLOC_##type, MI_JEMALLOC_OPTION, NULL, NULL, NULL, MI_JEMALLOC_OPT_##name},
#define X_TEXT(name, value, words, acts)                                                           \
  {"opt." #name, MI_JEMALLOC_TEXT, MI_JEMALLOC_OPTION, NULL, NULL, NULL, MI_JEMALLOC_OPT_##name},
#define X_UNSEEN(name, type)

static const mi_jemalloc_leaf_t mi_jemalloc_leaf[] = {
    // clang-format off
    ROW("arena.#.decay", VOID, NULL, &mi_jemalloc_decay)
    ROW("arena.#.destroy", VOID, NULL, &mi_jemalloc_destroy)
    ROW("arena.#.dirty_decay_ms", SSIZE, &mi_jemalloc_read_decay_of, &mi_jemalloc_write_decay_of)
    TEXT("arena.#.dss", "disabled")
    ROW("arena.#.initialized", BOOL, &mi_jemalloc_read_initialized, NULL)
    ROW("arena.#.muzzy_decay_ms", SSIZE, &mi_jemalloc_read_muzzy_of, &mi_jemalloc_write_muzzy_of)
    ROW("arena.#.purge", VOID, NULL, &mi_jemalloc_purge)
    ROW("arena.#.reset", VOID, NULL, &mi_jemalloc_reset)
    ROW("arenas.bin.#.size", SIZE, &mi_jemalloc_read_bin_size, NULL)
    ROW("arenas.create", UNSIGNED, &mi_jemalloc_create, NULL)
    ROW("arenas.dirty_decay_ms", SSIZE, &mi_jemalloc_read_decay, &mi_jemalloc_write_decay)
    ROW("arenas.lookup", UNSIGNED, &mi_jemalloc_lookup, NULL)
    ROW("arenas.muzzy_decay_ms", SSIZE, &mi_jemalloc_read_muzzy, &mi_jemalloc_write_muzzy)
    ROW("arenas.narenas", UNSIGNED, &mi_jemalloc_read_narenas, NULL)
    ROW("arenas.nbins", UNSIGNED, &mi_jemalloc_read_bins, NULL)
    ROW("arenas.nhbins", UNSIGNED, &mi_jemalloc_read_bins, NULL)
    NUMBER("arenas.nlextents", UNSIGNED, 0)
    ROW("arenas.page", SIZE, &mi_jemalloc_read_page, NULL)
    NUMBER("arenas.quantum", SIZE, MI_COMPAT_QUANTUM)
    ROW("arenas.tcache_max", SIZE, &mi_jemalloc_read_largest_bin, NULL)
    ROW("background_thread", BOOL, &mi_jemalloc_read_background, &mi_jemalloc_write_background)
    NUMBER("config.cache_oblivious", BOOL, 1)
    NUMBER("config.debug", BOOL, 0)
    NUMBER("config.fill", BOOL, 0)
    NUMBER("config.lazy_lock", BOOL, 0)
    TEXT("config.malloc_conf", "")
    NUMBER("config.prof", BOOL, 1)
    NUMBER("config.prof_libgcc", BOOL, 0)
    NUMBER("config.prof_libunwind", BOOL, 0)
    NUMBER("config.stats", BOOL, 1)
    NUMBER("config.utrace", BOOL, 0)
    NUMBER("config.xmalloc", BOOL, 0)
    ROW("epoch", UINT64, &mi_jemalloc_read_epoch, &mi_jemalloc_write_epoch)
    ROW("max_background_threads", SIZE, &mi_jemalloc_read_one, &mi_jemalloc_write_most_threads)
#include "jemalloc_options.def"
    ROW("prof.active", BOOL, &mi_jemalloc_read_active, &mi_jemalloc_write_active)
    ROW("prof.dump", TEXT, NULL, &mi_jemalloc_write_dump)
    ROW("prof.gdump", BOOL, &mi_jemalloc_read_no, &mi_jemalloc_write_no)
    NUMBER("prof.interval", UINT64, 0)
    ROW("prof.lg_sample", SIZE, &mi_jemalloc_read_lg_sample, NULL)
    ROW("prof.reset", SIZE, NULL, &mi_jemalloc_write_reset)
    ROW("prof.thread_active_init", BOOL, &mi_jemalloc_read_yes, &mi_jemalloc_write_yes)
    FIGURE("stats.active", MI_JEMALLOC_ACTIVE)
    FIGURE("stats.allocated", MI_JEMALLOC_ALLOCATED)
    FIGURE("stats.arenas.#.base", MI_JEMALLOC_METADATA)
    ROW("stats.arenas.#.bins.#.curregs", SIZE, &mi_jemalloc_read_curregs, NULL)
    ROW("stats.arenas.#.bins.#.curslabs", SIZE, &mi_jemalloc_read_curslabs, NULL)
    ROW("stats.arenas.#.bins.#.ndalloc", UINT64, &mi_jemalloc_read_bin_freed, NULL)
    ROW("stats.arenas.#.bins.#.nmalloc", UINT64, &mi_jemalloc_read_bin_made, NULL)
    ROW("stats.arenas.#.bins.#.nrequests", UINT64, &mi_jemalloc_read_bin_made, NULL)
    FIGURE("stats.arenas.#.large.allocated", MI_JEMALLOC_LARGE)
    EVER("stats.arenas.#.large.ndalloc", MI_JEMALLOC_LARGE, &mi_jemalloc_read_freed)
    EVER("stats.arenas.#.large.nmalloc", MI_JEMALLOC_LARGE, &mi_jemalloc_read_made)
    EVER("stats.arenas.#.large.nrequests", MI_JEMALLOC_LARGE, &mi_jemalloc_read_made)
    FIGURE("stats.arenas.#.mapped", MI_JEMALLOC_MAPPED)
    ROW("stats.arenas.#.nthreads", UNSIGNED, &mi_jemalloc_read_nthreads, NULL)
    ROW("stats.arenas.#.pactive", SIZE, &mi_jemalloc_read_pactive, NULL)
    ROW("stats.arenas.#.pdirty", SIZE, &mi_jemalloc_read_pdirty, NULL)
    NUMBER("stats.arenas.#.pmuzzy", SIZE, 0)
    FIGURE("stats.arenas.#.resident", MI_JEMALLOC_RESIDENT)
    FIGURE("stats.arenas.#.retained", MI_JEMALLOC_RETAINED)
    FIGURE("stats.arenas.#.small.allocated", MI_JEMALLOC_SMALL)
    EVER("stats.arenas.#.small.ndalloc", MI_JEMALLOC_SMALL, &mi_jemalloc_read_freed)
    EVER("stats.arenas.#.small.nmalloc", MI_JEMALLOC_SMALL, &mi_jemalloc_read_made)
    EVER("stats.arenas.#.small.nrequests", MI_JEMALLOC_SMALL, &mi_jemalloc_read_made)
    FIGURE("stats.mapped", MI_JEMALLOC_MAPPED)
    FIGURE("stats.metadata", MI_JEMALLOC_METADATA)
    NUMBER("stats.metadata_thp", SIZE, 0)
    FIGURE("stats.resident", MI_JEMALLOC_RESIDENT)
    FIGURE("stats.retained", MI_JEMALLOC_RETAINED)
    ROW("tcache.create", UNSIGNED, &mi_jemalloc_create_tcache, NULL)
    ROW("tcache.destroy", UNSIGNED, NULL, &mi_jemalloc_end_tcache)
    ROW("tcache.flush", UNSIGNED, NULL, &mi_jemalloc_end_tcache)
    ROW("thread.arena", UNSIGNED, &mi_jemalloc_read_thread_arena, &mi_jemalloc_write_thread_arena)
    ROW("thread.idle", VOID, NULL, &mi_jemalloc_flush)
    ROW("thread.prof.active", BOOL, &mi_jemalloc_read_yes, &mi_jemalloc_write_yes)
    ROW("thread.tcache.enabled", BOOL, &mi_jemalloc_read_yes, &mi_jemalloc_write_tcache)
    ROW("thread.tcache.flush", VOID, NULL, &mi_jemalloc_flush)
    TEXT("version", MI_JEMALLOC_VERSION)
    // clang-format on
};
#undef ROW
#undef FIGURE
#undef NUMBER
#undef TEXT
#undef X_NUMBER
#undef X_TEXT
#undef X_UNSEEN

#define MI_JEMALLOC_LEAVES (sizeof(mi_jemalloc_leaf) / sizeof(mi_jemalloc_leaf[0]))
#define MI_JEMALLOC_WORDS_MAX ((size_t)6)

// -- Names --

// Find a word of a name. Returns its length; 0 if the name has fewer words.
static size_t mi_jemalloc_word(const char* name, size_t index, const char** word) {
  for (*word = name; index > 0; index--) {
    const char* const dot = strchr(*word, '.');
    if (dot == NULL) return 0;
    *word = dot + 1;
  }
  return strcspn(*word, ".");
}

static size_t mi_jemalloc_words(const char* name) {
  size_t words = 1;
  while ((name = strchr(name, '.')) != NULL) {
    name++;
    words++;
  }
  return words;
}

// Whether the names of two rows begin with the same words, so many.
static bool mi_jemalloc_share(size_t a, size_t b, size_t words) {
  const char* const name_a = mi_jemalloc_leaf[a].name;
  const char* const name_b = mi_jemalloc_leaf[b].name;
  const char *last_a, *last_b;
  const size_t length = mi_jemalloc_word(name_a, words - 1, &last_a);
  return length > 0 && mi_jemalloc_word(name_b, words - 1, &last_b) == length &&
         last_a - name_a == last_b - name_b &&
         memcmp(name_a, name_b, (size_t)(last_a - name_a) + length) == 0;
}

// Whether names with the same first words as those of a row start at row `first`.
static bool mi_jemalloc_is_first(size_t first, size_t row, size_t words) {
  return first <= row && mi_jemalloc_share(first, row, words) &&
         (first == 0 || !mi_jemalloc_share(first - 1, row, words));
}

static bool mi_jemalloc_is_number(const char* word, size_t length, size_t* number) {
  *number = 0;
  if (length == 0 || length > 9) return false;
  for (size_t i = 0; i < length; i++) {
    if (word[i] < '0' || word[i] > '9') return false;
    *number = *number * 10 + (size_t)(word[i] - '0');
  }
  return true;
}

// Whether a number may stand for a `#` of a row (JEMALLOC_CTL-2). What is before it says of what.
static bool mi_jemalloc_is_index(size_t row, size_t at, size_t number) {
  const char* before;
  const size_t length = mi_jemalloc_word(mi_jemalloc_leaf[row].name, at - 1, &before);
  if (memcmp(before, "bin", length < 3 ? length : 3) == 0) return number < mi_jemalloc_bins();
  return number <= mi_jemalloc_arenas() || number == MI_JEMALLOC_ALL ||
         number == MI_JEMALLOC_DESTROYED;
}

// From `row` on, find the first row whose name begins as that one does, and goes on with a word.
static bool mi_jemalloc_descend(size_t* row, size_t at, const char* word, size_t length,
                                size_t* number) {
  for (size_t i = *row; i < MI_JEMALLOC_LEAVES; i++) {
    const char* own;
    if (at > 0 && !mi_jemalloc_share(*row, i, at)) break;
    const size_t own_length = mi_jemalloc_word(mi_jemalloc_leaf[i].name, at, &own);
    const bool is_index = own_length == 1 && *own == '#';
    if (is_index ? !mi_jemalloc_is_number(word, length, number)
                 : own_length != length || memcmp(own, word, length) != 0) {
      continue;
    }
    if (!is_index) *number = i;
    *row = i;
    return !is_index || mi_jemalloc_is_index(i, at, *number);
  }
  return false;
}

// Translate a name, or the beginning of one. ENOENT if there is none.
static int mi_jemalloc_translate(const char* name, size_t* mib, size_t* words) {
  size_t row = 0;
  for (*words = 0; *words < MI_JEMALLOC_WORDS_MAX; ++*words) {
    const char* word;
    const size_t length = mi_jemalloc_word(name, *words, &word);
    if (length == 0 || !mi_jemalloc_descend(&row, *words, word, length, &mib[*words]))
      return ENOENT;
    if (word[length] != 0) continue;
    ++*words;
    return 0;
  }
  return ENOENT;
}

// Find the row of a MIB, and the numbers in it. NULL if there is none.
static const mi_jemalloc_leaf_t* mi_jemalloc_find(const size_t* mib, size_t words, size_t* index) {
  if (words == 0 || words > MI_JEMALLOC_WORDS_MAX) return NULL;
  const size_t row = mib[words - 1];
  if (row >= MI_JEMALLOC_LEAVES || mi_jemalloc_words(mi_jemalloc_leaf[row].name) != words)
    return NULL;
  for (size_t i = 0; i < words; i++) {
    const char* word;
    mi_jemalloc_word(mi_jemalloc_leaf[row].name, i, &word);
    if (*word != '#') {
      if (!mi_jemalloc_is_first(mib[i], row, i + 1)) return NULL;
    } else {
      if (!mi_jemalloc_is_index(row, i, mib[i])) return NULL;
      *index++ = mib[i];
    }
  }
  return &mi_jemalloc_leaf[row];
}

// -- Reading and writing --

// What creates something does so only if there is room for its number.
static bool mi_jemalloc_creates(const mi_jemalloc_leaf_t* leaf) {
  return leaf->read == &mi_jemalloc_create || leaf->read == &mi_jemalloc_create_tcache;
}

// What takes a value to answer about, besides that.
static bool mi_jemalloc_takes_value(const mi_jemalloc_leaf_t* leaf) {
  return leaf->read == &mi_jemalloc_create || leaf->read == &mi_jemalloc_lookup;
}

static int mi_jemalloc_read_value(const mi_jemalloc_call_t* call, mi_jemalloc_value_t* value) {
  const mi_jemalloc_leaf_t* const leaf = call->leaf;
  if (leaf->source == MI_JEMALLOC_CALLS) return leaf->read(call, value);
  const bool is_option = leaf->source == MI_JEMALLOC_OPTION;
  const mi_jemalloc_opt_t opt = (mi_jemalloc_opt_t)leaf->number;
  if (leaf->type == MI_JEMALLOC_TEXT) {
    value->text = is_option ? mi_jemalloc_text(opt) : leaf->text;
  } else {
    mi_jemalloc_set(value, leaf->type, is_option ? mi_jemalloc_number(opt) : leaf->number);
  }
  return 0;
}

// Give the program a value, or as much of it as fits.
static int mi_jemalloc_give(const mi_jemalloc_call_t* call, void* oldp, size_t* oldlenp) {
  if (oldp == NULL || oldlenp == NULL) return 0;
  mi_jemalloc_value_t value = {.u64 = 0};
  const int result = mi_jemalloc_read_value(call, &value);
  if (result != 0) return result;
  const size_t size = mi_jemalloc_size_of[call->leaf->type];
  const bool fits = *oldlenp == size;
  if (*oldlenp > size) *oldlenp = size;
  memcpy(oldp, &value, *oldlenp);
  return fits ? 0 : EINVAL;
}

// Whether a call may read and write what it asks for.
static int mi_jemalloc_check(const mi_jemalloc_call_t* call, const void* oldp, size_t* oldlenp) {
  const mi_jemalloc_leaf_t* const leaf = call->leaf;
  const bool is_read = leaf->source != MI_JEMALLOC_CALLS || leaf->read != NULL;
  const bool is_written = leaf->write != NULL && leaf->type != MI_JEMALLOC_VOID;
  const size_t size = mi_jemalloc_size_of[leaf->type];
  if (!is_read && (oldp != NULL || oldlenp != NULL)) return EPERM;
  if (mi_jemalloc_creates(leaf) && (oldp == NULL || oldlenp == NULL || *oldlenp != size)) {
    if (oldlenp != NULL) *oldlenp = 0;
    return EINVAL;
  }
  if (mi_jemalloc_takes_value(leaf)) return 0;
  if (!is_written && (call->newp != NULL || call->newlen != 0)) return EPERM;
  return call->newp != NULL && call->newlen != size ? EINVAL : 0;
}

static int mi_jemalloc_do(const mi_jemalloc_call_t* call, void* oldp, size_t* oldlenp) {
  const mi_jemalloc_leaf_t* const leaf = call->leaf;
  const int refused = mi_jemalloc_check(call, oldp, oldlenp);
  if (refused != 0) return refused;
  mi_jemalloc_value_t value = {.u64 = 0};
  const bool is_epoch = leaf->write == &mi_jemalloc_write_epoch; // JEMALLOC_CTL-1
  const int given = is_epoch ? 0 : mi_jemalloc_give(call, oldp, oldlenp);
  if (given != 0) return given;
  // What has no reader acts without a value, too.
  if (leaf->write != NULL && (call->newp != NULL || leaf->read == NULL)) {
    if (call->newp != NULL) memcpy(&value, call->newp, call->newlen);
    const int written = leaf->write(call, &value);
    if (written != 0) return written;
  }
  return is_epoch ? mi_jemalloc_give(call, oldp, oldlenp) : 0;
}

int mallctlbymib(const size_t* mib, size_t miblen, void* oldp, size_t* oldlenp, void* newp,
                 size_t newlen) {
  mi_jemalloc_set_up();
  mi_jemalloc_epoch(); // there is one from the first call on
  mi_jemalloc_call_t call = {NULL, {MI_JEMALLOC_ALL, MI_JEMALLOC_ALL}, newp, newlen};
  call.leaf = mi_jemalloc_find(mib, miblen, call.index);
  return call.leaf == NULL ? ENOENT : mi_jemalloc_do(&call, oldp, oldlenp);
}

int mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp, size_t newlen) {
  size_t mib[MI_JEMALLOC_WORDS_MAX];
  size_t words = 0;
  const int result = mi_jemalloc_translate(name, mib, &words);
  return result != 0 ? result : mallctlbymib(mib, words, oldp, oldlenp, newp, newlen);
}

int mallctlnametomib(const char* name, size_t* mibp, size_t* miblenp) {
  size_t mib[MI_JEMALLOC_WORDS_MAX];
  size_t words = 0;
  const int result = mi_jemalloc_translate(name, mib, &words);
  if (result != 0) return result;
  if (words < *miblenp) *miblenp = words;
  memcpy(mibp, mib, *miblenp * sizeof(mib[0]));
  return 0;
}

MI_INTERNAL void mi_jemalloc_visit_options(mi_jemalloc_visit_fun* visit, void* arg) {
  for (size_t i = 0; i < MI_JEMALLOC_LEAVES; i++) {
    const mi_jemalloc_leaf_t* const leaf = &mi_jemalloc_leaf[i];
    if (leaf->source != MI_JEMALLOC_OPTION) continue;
    const mi_jemalloc_opt_t opt = (mi_jemalloc_opt_t)leaf->number;
    const bool is_text = leaf->type == MI_JEMALLOC_TEXT;
    visit(leaf->name + sizeof("opt.") - 1, leaf->type, is_text ? 0 : mi_jemalloc_number(opt),
          is_text ? mi_jemalloc_text(opt) : NULL, arg);
  }
}
