// SPDX-License-Identifier: MIT
/// @file
/// Heap profiles: which functions allocated the memory that is in use.
///
/// @code
/// mi_profile_start(0); // a sample every 512 KiB
/// run();
/// mi_profile_write("run.pb.gz", mi_profile_live);
/// @endcode
///
/// Then `pprof -http=: run.pb.gz` shows it. The suffix of the name chooses the format: `.pb.gz` and
/// `.pb` for pprof, `.heap` for jeprof, `.folded` for flame graphs; any other name means `.pb.gz`.
/// The same without a change of the program: `MIMALLOC_PROFILE=run.pb.gz`.
///
/// Blocks are sampled at random, by bytes: with a rate of 512 KiB a block of 512 bytes has a chance
/// of 1 in 1024, and one of 1 MiB is a sample in 6 of 7 cases. Figures are estimates, each sample
/// counting for all blocks that it stands for: they are right on average, and the error of a site
/// is about its bytes divided by the root of its number of samples. A size is that of the class of
/// a block (`mi_usable_size()`). Only blocks that are allocated while a profile is on are in it; a
/// free is noticed always.
#pragma once
#ifndef MIMALLOC_PROFILE_H
#define MIMALLOC_PROFILE_H

#include "mimalloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/// @defgroup profile Heap profiles
/// Which functions allocated the memory that is in use, was in use at the peak, or has grown.
///
/// All functions may be called by any thread at any time, except in signal handlers.
/// @{

/// What a profile shows.
typedef enum mi_profile_kind_e {
  mi_profile_live = 0, ///< blocks that are in use
  mi_profile_allocated = 1, ///< all that were ever allocated
  mi_profile_peak = 2, ///< what was in use when most was
  mi_profile_growth = 3 ///< what is in use more than when `mi_profile_mark()` was last called
} mi_profile_kind_t;

/// How a profile is written.
typedef enum mi_profile_format_e {
  mi_profile_pprof_gzip = 0, ///< for pprof, as gzip (not compressed)
  mi_profile_pprof = 1, ///< for pprof, a message of profile.proto
  mi_profile_heap_text = 2, ///< for jeprof and pprof, text as gperftools writes it
  mi_profile_folded = 3 ///< for flame graphs: a line for each stack, and bytes
} mi_profile_format_t;

/// A place that allocates, with the size of its blocks: there is one for each size.
typedef struct mi_profile_site_s {
  long long count; ///< blocks, estimated; growth may be negative
  long long bytes; ///< bytes, estimated
  long long samples; ///< samples that this is estimated from
  size_t block_size; ///< bytes of a block; of one without a class, rounded up
  size_t frame_count; ///< functions
  const void* const* frames; ///< where they return to, innermost first
} mi_profile_site_t;

/// Called for each site; false: no more.
/// @param site a place that allocates; valid during the call
/// @param arg the argument given with the function
/// @return true to go on
typedef bool(mi_cdecl mi_profile_visit_fun)(const mi_profile_site_t* site, void* arg);

/// Takes the bytes of a profile, in pieces.
/// @param bytes the next piece
/// @param size its length
/// @param arg the argument given with the function
/// @return true to go on
typedef bool(mi_cdecl mi_profile_put_fun)(const void* bytes, size_t size, void* arg);

/// Begin to sample, on all threads. Others follow when they next need a list of blocks.
/// @param rate mean bytes between samples; 0: option `profile_rate`. With 1, every block is a
///   sample, each of which has its own OS page: for small programs and tests
/// @return false if stacks cannot be read: all is then of one site
mi_decl_export bool mi_profile_start(size_t rate) mi_attr_noexcept;

/// Sample no more. What was sampled stays, and its frees are still noticed.
mi_decl_export void mi_profile_stop(void) mi_attr_noexcept;

/// The rate.
/// @return mean bytes between samples, 0: no profile is on
mi_decl_nodiscard mi_decl_export size_t mi_profile_rate(void) mi_attr_noexcept;

/// Begin a growth profile: it shows the difference to this moment.
mi_decl_export void mi_profile_mark(void) mi_attr_noexcept;

/// Write a profile to a file, which is created or replaced. Allocates nothing.
/// @param file its name; `%p` is replaced by the number of the process
/// @param kind what it shows. For pprof a file has all kinds, and this one is shown first
/// @return 0, or an errno value that says why not
mi_decl_export int mi_profile_write(const char* file, mi_profile_kind_t kind) mi_attr_noexcept;

/// Write a profile to a function.
/// @param format how
/// @param kind what it shows
/// @param put takes the bytes; it may allocate
/// @param arg its argument
/// @return 0, or an errno value: `ECANCELED` if `put` returned false
mi_decl_export int mi_profile_write_to(mi_profile_format_t format, mi_profile_kind_t kind,
                                       mi_profile_put_fun* put, void* arg) mi_attr_noexcept;

/// Visit all sites, in no order.
/// @param kind what the figures are of
/// @param visit called for each site that has samples of that kind
/// @param arg its argument
/// @return false if `visit` returned false
mi_decl_export bool mi_profile_visit(mi_profile_kind_t kind, mi_profile_visit_fun* visit,
                                     void* arg) mi_attr_noexcept;

/// Print what is in use, the sites with most bytes first: at the end of a program, its leaks (and
/// what it keeps on purpose).
/// @param out called with each line; NULL: the registered output function, or standard error
/// @param arg its argument
mi_decl_export void mi_profile_print_leaks(mi_output_fun* out, void* arg) mi_attr_noexcept;

/// @}

#ifdef __cplusplus
}
#endif
#endif
