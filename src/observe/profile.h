// SPDX-License-Identifier: MIT
// profile.h - heap profiles, written in three formats.
#ifndef MI_OBSERVE_PROFILE_H
#define MI_OBSERVE_PROFILE_H

#include "../core/core.h"
#include "dump.h"

typedef enum mi_profile_form_e {
  MI_PROFILE_PPROF_GZIP, // for pprof; also what any other suffix means
  MI_PROFILE_PPROF, // the same, not as gzip
  MI_PROFILE_TEXT, // for jeprof, and pprof
  MI_PROFILE_FOLDED, // for flame graphs
} mi_profile_form_t;

// Return the format that a file name asks for, by its suffix.
MI_INTERNAL mi_profile_form_t mi_profile_form_of(const char* path);

// Write a profile to a file / a function. Returns 0 or an errno value.
MI_INTERNAL int mi_profile_dump(const char* path, mi_site_kind_t kind);
MI_INTERNAL int mi_profile_dump_to(mi_profile_form_t form, mi_site_kind_t kind, mi_dump_put_t* put,
                                   void* arg);

// Append the name of the code at an address: of its function, or its file and where in that.
MI_INTERNAL size_t mi_profile_name(const void* at, char* text, size_t capacity, size_t used);

// Return how many frames all call sites have.
MI_INTERNAL size_t mi_profile_frames(void);

// The writers: into a dump that has begun.
MI_INTERNAL void mi_pprof_write(mi_dump_t* dump, mi_site_kind_t kind);
MI_INTERNAL void mi_heap_text_write(mi_dump_t* dump, mi_site_kind_t kind);
MI_INTERNAL void mi_folded_write(mi_dump_t* dump, mi_site_kind_t kind);

#endif
