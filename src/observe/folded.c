// SPDX-License-Identifier: MIT
// folded.c - a profile as folded stacks, a line for each call site: what flame graphs are made of.
//
//   main;handle_request;parse 524288
//
// The number is bytes. The outermost function comes first. A site with several sizes has a line for
// each; tools add them up.
//
// FOLDED-1  names are kept behind a table of addresses, whose values say where: offset and length.
//     One that finds no room there is asked for again (PPROF-3).
#include <string.h>

#include "../base/text.h"
#include "profile.h"

#define MI_FOLDED_NAME_MAX ((size_t)512)
#define MI_FOLDED_NAME_MEAN ((size_t)64)
#define MI_FOLDED_LENGTH_BITS 16

typedef struct mi_folded_s {
  mi_dump_t* dump;
  mi_addresses_t places;
  size_t used; // bytes of their room
} mi_folded_t;

// Find the name of an address; what separates names, and the number, must not be in it.
static size_t mi_folded_ask(const void* at, char name[MI_FOLDED_NAME_MAX]) {
  const size_t length = mi_profile_name(at, name, MI_FOLDED_NAME_MAX, 0);
  for (size_t i = 0; i < length; i++) {
    if (name[i] == ';' || name[i] == ' ' || name[i] == '\n') name[i] = '_';
  }
  return length;
}

static void mi_folded_name(mi_folded_t* folded, const void* at) {
  mi_addresses_t* const places = &folded->places;
  mi_address_t* const place = mi_addresses_find(places, at);
  if (place != NULL && place->value != 0) {
    const size_t length = place->value & (((size_t)1 << MI_FOLDED_LENGTH_BITS) - 1);
    mi_dump_bytes(folded->dump, places->room + (place->value >> MI_FOLDED_LENGTH_BITS), length);
    return;
  }
  char name[MI_FOLDED_NAME_MAX];
  const size_t length = mi_folded_ask(at, name);
  mi_dump_bytes(folded->dump, name, length);
  if (place == NULL || length > places->room_size - folded->used) return;
  memcpy(places->room + folded->used, name, length);
  place->value = (uint64_t)folded->used << MI_FOLDED_LENGTH_BITS | length;
  folded->used += length;
}

MI_INTERNAL void mi_folded_write(mi_dump_t* dump, mi_site_kind_t kind) {
  mi_folded_t folded = {.dump = dump};
  const size_t frames = mi_profile_frames();
  mi_addresses_make(&folded.places, frames, frames * MI_FOLDED_NAME_MEAN);
  for (mi_site_t* site = NULL; (site = mi_sampled_next_site(site)) != NULL;) {
    const mi_amount_t amount = mi_sampled_estimate(site, mi_sampled_amount(site, kind));
    if (amount.bytes <= 0) continue;
    for (size_t i = site->frame_count; i > 0; i--) {
      mi_folded_name(&folded, site->frames[i - 1]);
      if (i > 1) mi_dump_bytes(dump, ";", 1);
    }
    if (site->frame_count == 0) mi_dump_text(dump, "[unknown]");
    mi_dump_text(dump, " %lld\n", (long long)amount.bytes);
  }
  mi_addresses_end(&folded.places);
}
