// SPDX-License-Identifier: MIT
// jemalloc.h - the interface of jemalloc 5, as a library of ours has it that is used in its place.
//
// What programs call is declared here as jemalloc's manual page does, because a build of ours has
// no header of jemalloc. Below it is what the files of this part share:
//
//   jemalloc.c        mallocx and its relatives
//   jemalloc_arena.c  an arena of jemalloc is a heap of ours
//   jemalloc_ctl.c    mallctl: the tree of names, and what is behind each of them
//   jemalloc_conf.c   the options: malloc_conf, MALLOC_CONF, what acts at the end of the process
//   jemalloc_prof.c   heap profiles
//   jemalloc_stats.c  figures, and malloc_stats_print
#ifndef MI_COMPAT_JEMALLOC_H
#define MI_COMPAT_JEMALLOC_H

#include <sys/types.h>

#include "compat.h"

#define MI_JEMALLOC_VERSION "5.3.0-0-libmimalloc"

MI_COMPAT_EXPORT extern const char* malloc_conf;
MI_COMPAT_EXPORT extern void (*malloc_message)(void* arg, const char* text);

MI_COMPAT_EXPORT void* mallocx(size_t size, int flags);
MI_COMPAT_EXPORT void* rallocx(void* p, size_t size, int flags);
// Give back what a block has beyond `size` bytes, without moving it, where that is possible. Of
// override_elf.c; NULL where these functions are not linked with the allocator.
void mi_elf_shrink(void* p, size_t size) __attribute__((weak, visibility("hidden")));
MI_COMPAT_EXPORT size_t xallocx(void* p, size_t size, size_t extra, int flags);
MI_COMPAT_EXPORT size_t sallocx(const void* p, int flags);
MI_COMPAT_EXPORT void dallocx(void* p, int flags);
MI_COMPAT_EXPORT void sdallocx(void* p, size_t size, int flags);
MI_COMPAT_EXPORT size_t nallocx(size_t size, int flags);
MI_COMPAT_EXPORT int mallctl(const char* name, void* oldp, size_t* oldlenp, void* newp,
                             size_t newlen);
MI_COMPAT_EXPORT int mallctlnametomib(const char* name, size_t* mibp, size_t* miblenp);
MI_COMPAT_EXPORT int mallctlbymib(const size_t* mib, size_t miblen, void* oldp, size_t* oldlenp,
                                  void* newp, size_t newlen);
MI_COMPAT_EXPORT void malloc_stats_print(void (*write)(void* arg, const char* text), void* arg,
                                         const char* opts);

// -- Arenas (jemalloc_arena.c). Number 0 is the main heap; arenas.create makes the others. --

#define MI_JEMALLOC_ALL ((size_t)4096) // the number that stands for all of them
#define MI_JEMALLOC_DESTROYED ((size_t)4097) // and for all that were destroyed

// How many numbers have been in use.
MI_INTERNAL size_t mi_jemalloc_arenas(void);
// The heap of an arena, or NULL if there is none of that number.
MI_INTERNAL mi_heap_t* mi_jemalloc_heap(size_t arena);
// The number of an arena; 0 for a heap that is none.
MI_INTERNAL size_t mi_jemalloc_arena_of(const mi_heap_t* heap);
// Make one. False if there is no memory, or no number.
MI_INTERNAL bool mi_jemalloc_create_arena(size_t* arena);
// Make an arena the one that malloc of the calling thread uses. Errno values.
MI_INTERNAL int mi_jemalloc_choose_arena(size_t arena);
// How many threads have chosen an arena; the first has those of `all` that chose no other.
MI_INTERNAL size_t mi_jemalloc_threads(size_t arena, size_t all);
// Free all that is in an arena, and maybe the arena, unless it is that of another thread. Errno
// values.
MI_INTERNAL int mi_jemalloc_reset_arena(size_t arena);
MI_INTERNAL int mi_jemalloc_destroy_arena(size_t arena);

// -- Options (jemalloc_conf.c) --

#define MI_JEMALLOC_PATH_MAX ((size_t)4096) // the longest text that prof_prefix can be

typedef enum mi_jemalloc_type_e {
  MI_JEMALLOC_VOID, // an action, without a value
  MI_JEMALLOC_BOOL,
  MI_JEMALLOC_UNSIGNED,
  MI_JEMALLOC_SIZE,
  MI_JEMALLOC_SSIZE,
  MI_JEMALLOC_UINT64,
  MI_JEMALLOC_INT64,
  MI_JEMALLOC_TEXT
} mi_jemalloc_type_t;

typedef enum mi_jemalloc_opt_e {
#define X_NUMBER(name, type, value, acts) MI_JEMALLOC_OPT_##name,
#define X_TEXT(name, value, words, acts) MI_JEMALLOC_OPT_##name,
#define X_UNSEEN(name, type)
#include "jemalloc_options.def"
#undef X_NUMBER
#undef X_TEXT
#undef X_UNSEEN
  MI_JEMALLOC_OPT_COUNT
} mi_jemalloc_opt_t;

// The value of an option, as a number or as a text.
MI_INTERNAL long mi_jemalloc_number(mi_jemalloc_opt_t opt);
MI_INTERNAL const char* mi_jemalloc_text(mi_jemalloc_opt_t opt);
// Read the options, once. Each function that depends on them begins with it.
MI_INTERNAL void mi_jemalloc_set_up(void);
// Print by the program's function, else to standard error.
MI_INTERNAL void mi_jemalloc_say(const char* text);

// -- Profiles (jemalloc_prof.c) --

// Write a profile to a file; NULL: to the next one of the series with that letter. Errno values.
MI_INTERNAL int mi_jemalloc_dump(const char* file, char series);
// Begin to sample, at the rate that was last set.
MI_INTERNAL void mi_jemalloc_start_profile(void);
// The logarithm of that rate; set it, and let profiles show only what comes from now on.
MI_INTERNAL size_t mi_jemalloc_lg_rate(void);
MI_INTERNAL void mi_jemalloc_set_lg_rate(size_t lg);
MI_INTERNAL void mi_jemalloc_reset_profile(void);

// -- Figures (jemalloc_stats.c) --

typedef enum mi_jemalloc_figure_e {
  MI_JEMALLOC_ALLOCATED, // bytes of blocks: the sum of the next two
  MI_JEMALLOC_SMALL, // bytes of blocks that share a page
  MI_JEMALLOC_LARGE, // bytes of other blocks
  MI_JEMALLOC_ACTIVE, // bytes of pages
  MI_JEMALLOC_METADATA,
  MI_JEMALLOC_RESIDENT,
  MI_JEMALLOC_MAPPED,
  MI_JEMALLOC_RETAINED,
  MI_JEMALLOC_THREADS,
  MI_JEMALLOC_FIGURE_COUNT
} mi_jemalloc_figure_t;

// A figure of an arena; of all, as it was when the epoch began.
MI_INTERNAL size_t mi_jemalloc_figure(size_t arena, mi_jemalloc_figure_t figure);
// Begin an epoch; and the number of the one that is.
MI_INTERNAL void mi_jemalloc_next_epoch(void);
MI_INTERNAL uint64_t mi_jemalloc_epoch(void);
// The sizes of blocks that share a page, in ascending order.
MI_INTERNAL size_t mi_jemalloc_bins(void);
MI_INTERNAL size_t mi_jemalloc_bin_size(size_t bin);
// Blocks and pages of such a size, in an arena or in all.
MI_INTERNAL size_t mi_jemalloc_bin_blocks(size_t arena, size_t bin);
MI_INTERNAL size_t mi_jemalloc_bin_pages(size_t arena, size_t bin);
// Blocks ever allocated, or freed, when the epoch began, of all arenas: of such a size; of all
// sizes that share a page (MI_JEMALLOC_SMALL); of the others (MI_JEMALLOC_LARGE).
typedef struct mi_jemalloc_ever_s {
  size_t made, freed;
} mi_jemalloc_ever_t;
MI_INTERNAL mi_jemalloc_ever_t mi_jemalloc_bin_ever(size_t bin);
MI_INTERNAL mi_jemalloc_ever_t mi_jemalloc_ever(mi_jemalloc_figure_t which);
MI_INTERNAL size_t mi_jemalloc_os_page(void);

// Name, type and value of each option (jemalloc_ctl.c), for reports.
typedef void mi_jemalloc_visit_fun(const char* name, mi_jemalloc_type_t type, long number,
                                   const char* text, void* arg);
MI_INTERNAL void mi_jemalloc_visit_options(mi_jemalloc_visit_fun* visit, void* arg);

#endif
