// SPDX-License-Identifier: MIT
// profile.c - a heap profile is written: by the format that its name asks for.
//
//   call sites and samples (core/common/sampled.c) -> pprof.c      .pb.gz, .pb, any other name
//                                                  -> heap_text.c  .heap
//                                                  -> folded.c     .folded
//
// PROFILE-1  a dump takes no lock and copies nothing as a whole: other threads go on, and what they
//     allocate meanwhile is in it or not. Each site is read once for each figure.
//
// Callers: the API (api/api_profile.c). Deliberately absent: when a profile is taken.
#include "profile.h"

#include "../base/text.h"

static bool mi_profile_ends_with(const char* path, const char* suffix) {
  const size_t length = mi_text_length(path);
  const size_t end = mi_text_length(suffix);
  return length > end && mi_text_equal_nocase(path + length - end, suffix, end);
}

MI_INTERNAL mi_profile_form_t mi_profile_form_of(const char* path) {
  if (mi_profile_ends_with(path, ".pb")) return MI_PROFILE_PPROF;
  if (mi_profile_ends_with(path, ".heap")) return MI_PROFILE_TEXT;
  if (mi_profile_ends_with(path, ".folded")) return MI_PROFILE_FOLDED;
  return MI_PROFILE_PPROF_GZIP;
}

static mi_dump_form_t mi_profile_dump_form(mi_profile_form_t form) {
  return form == MI_PROFILE_PPROF_GZIP ? MI_DUMP_GZIP : MI_DUMP_PLAIN;
}

static int mi_profile_write_all(mi_dump_t* dump, mi_profile_form_t form, mi_site_kind_t kind) {
  if (form == MI_PROFILE_TEXT) {
    mi_heap_text_write(dump, kind);
  } else if (form == MI_PROFILE_FOLDED) {
    mi_folded_write(dump, kind);
  } else {
    mi_pprof_write(dump, kind);
  }
  return mi_dump_end(dump);
}

MI_INTERNAL int mi_profile_dump(const char* path, mi_site_kind_t kind) {
  const mi_profile_form_t form = mi_profile_form_of(path);
  mi_dump_t dump;
  if (!mi_dump_begin_file(&dump, mi_profile_dump_form(form), path)) return dump.err;
  return mi_profile_write_all(&dump, form, kind);
}

MI_INTERNAL int mi_profile_dump_to(mi_profile_form_t form, mi_site_kind_t kind, mi_dump_put_t* put,
                                   void* arg) {
  mi_dump_t dump;
  if (!mi_dump_begin(&dump, mi_profile_dump_form(form), put, arg)) return dump.err;
  return mi_profile_write_all(&dump, form, kind);
}

MI_INTERNAL size_t mi_profile_frames(void) {
  size_t frames = 64; // of sites that are added meanwhile
  for (mi_site_t* site = NULL; (site = mi_sampled_next_site(site)) != NULL;) {
    frames += site->frame_count;
  }
  return frames;
}

MI_INTERNAL size_t mi_profile_name(const void* at, char* text, size_t capacity, size_t used) {
  mi_os_symbol_t symbol;
  mi_os_symbol(at, &symbol);
  if (symbol.function != NULL) return mi_text_append(text, capacity, used, symbol.function);
  if (symbol.module == NULL) {
    return used + mi_text_format(text + used, capacity - used, "0x%zx", (size_t)(uintptr_t)at);
  }
  used = mi_text_append(text, capacity, used, symbol.module);
  return used + mi_text_format(text + used, capacity - used, "+0x%zx", symbol.module_offset);
}
