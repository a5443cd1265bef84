// SPDX-License-Identifier: MIT
// folded.c - a profile as folded stacks, a line for each call site: what flame graphs are made of.
//
//   main;handle_request;parse 524288
//
// The number is bytes. The outermost function comes first. A site with several sizes has a line for
// each; tools add them up.
#include <string.h>

#include "../base/text.h"
#include "profile.h"

#define MI_FOLDED_NAME_MAX ((size_t)512)

// Write a name; what separates names, and the number, must not be in it.
static void mi_folded_name(mi_dump_t* dump, const void* at) {
  char name[MI_FOLDED_NAME_MAX];
  const size_t length = mi_profile_name(at, name, sizeof(name), 0);
  for (size_t i = 0; i < length; i++) {
    if (name[i] == ';' || name[i] == ' ' || name[i] == '\n') name[i] = '_';
  }
  mi_dump_bytes(dump, name, length);
}

MI_INTERNAL void mi_folded_write(mi_dump_t* dump, mi_site_kind_t kind) {
  for (mi_site_t* site = NULL; (site = mi_sampled_next_site(site)) != NULL;) {
    const mi_amount_t amount = mi_sampled_estimate(site, mi_sampled_amount(site, kind));
    if (amount.bytes <= 0) continue;
    for (size_t i = site->frame_count; i > 0; i--) {
      mi_folded_name(dump, site->frames[i - 1]);
      if (i > 1) mi_dump_bytes(dump, ";", 1);
    }
    if (site->frame_count == 0) mi_dump_text(dump, "[unknown]");
    mi_dump_text(dump, " %lld\n", (long long)amount.bytes);
  }
}
