// SPDX-License-Identifier: MIT
// heap_text.c - a profile as text, as gperftools writes heap profiles: jeprof and pprof read it.
//
//   heap profile:     12:     6144 [    40:    20480] @ heapprofile
//        10:     5120 [    30:    15360] @ 0x55d2c0a011f9 0x55d2c0a01252
//   ...
//   MAPPED_LIBRARIES:
//   55d2c0a01000-55d2c0a02000 r-xp 00001000 00:00 0 /usr/bin/program
//
// The first two numbers are blocks and bytes of the kind that is asked for, those in brackets of
// all that were ever allocated. They are estimates already: the word `heapprofile` says that the
// reader must not scale them, as it would samples.
#include "profile.h"

static void mi_heap_text_line(mi_dump_t* dump, mi_amount_t amount, mi_amount_t all) {
  mi_dump_text(dump, "%6lld: %8lld [%6lld: %8lld] @", (long long)amount.count,
               (long long)amount.bytes, (long long)all.count, (long long)all.bytes);
}

// Get both amounts of a site. False if there is nothing to show. The format has no negative
// numbers.
static bool mi_heap_text_amounts(mi_site_t* site, mi_site_kind_t kind, mi_amount_t* amount,
                                 mi_amount_t* all) {
  *all = mi_sampled_estimate(site, mi_sampled_amount(site, MI_SITE_TAKEN));
  *amount = mi_sampled_estimate(site, mi_sampled_amount(site, kind));
  if (amount->bytes < 0 || amount->count < 0) *amount = (mi_amount_t){0, 0};
  return all->count > 0;
}

static bool mi_heap_text_mapping(const mi_os_mapping_t* mapping, void* arg) {
  mi_dump_text((mi_dump_t*)arg, "%zx-%zx r-xp %zx 00:00 0 %s\n", (size_t)mapping->start,
               (size_t)mapping->end, (size_t)mapping->offset, mapping->path);
  return true;
}

MI_INTERNAL void mi_heap_text_write(mi_dump_t* dump, mi_site_kind_t kind) {
  mi_amount_t sum = {0, 0};
  mi_amount_t sum_all = {0, 0};
  mi_amount_t amount, all;
  for (mi_site_t* site = NULL; (site = mi_sampled_next_site(site)) != NULL;) {
    if (!mi_heap_text_amounts(site, kind, &amount, &all)) continue;
    sum.count += amount.count;
    sum.bytes += amount.bytes;
    sum_all.count += all.count;
    sum_all.bytes += all.bytes;
  }
  mi_dump_text(dump, "heap profile: ");
  mi_heap_text_line(dump, sum, sum_all);
  mi_dump_text(dump, " heapprofile\n");
  for (mi_site_t* site = NULL; (site = mi_sampled_next_site(site)) != NULL;) {
    if (!mi_heap_text_amounts(site, kind, &amount, &all)) continue;
    mi_heap_text_line(dump, amount, all);
    for (size_t i = 0; i < site->frame_count; i++) {
      mi_dump_text(dump, " 0x%zx", (size_t)(uintptr_t)site->frames[i]);
    }
    mi_dump_text(dump, "\n");
  }
  mi_dump_text(dump, "\nMAPPED_LIBRARIES:\n");
  mi_os_mappings(&mi_heap_text_mapping, dump);
}
