// SPDX-License-Identifier: MIT
// pprof.c - a profile in the format of pprof (profile.proto): messages with numbered fields.
//
//   sample types, mappings, then for each site:
//     a location and a function for each address that is new, a sample
//   a sample for each live block that was sampled: its thread and its age are labels
//   strings are written when they are first needed, which gives them their numbers
//
// Each sample has eight values: blocks and bytes that were allocated, are in use, were in use at
// the peak, and what is in use more than at the mark. The kind that was asked for is the one that
// pprof shows unless told otherwise.
//
// PPROF-1  a location is the address before the one that a call returns to: in the call.
// PPROF-2  what is live comes from the samples in use, everything else from the sites; threads may
//     change both meanwhile.
// PPROF-3  what the loader says of an address takes as long as its file has symbols: it is asked
//     once (addresses.c). Addresses that do not fit, because sites were added meanwhile, are left
//     out.
#include <errno.h>
#include <string.h>

#include "../base/text.h"
#include "profile.h"

// The strings that come first, by number.
typedef enum mi_pprof_string_e {
  MI_PPROF_EMPTY = 0,
  MI_PPROF_ALLOC_OBJECTS,
  MI_PPROF_ALLOC_SPACE,
  MI_PPROF_INUSE_OBJECTS,
  MI_PPROF_INUSE_SPACE,
  MI_PPROF_PEAK_OBJECTS,
  MI_PPROF_PEAK_SPACE,
  MI_PPROF_GROWTH_OBJECTS,
  MI_PPROF_GROWTH_SPACE,
  MI_PPROF_COUNT,
  MI_PPROF_BYTES,
  MI_PPROF_SPACE,
  MI_PPROF_THREAD,
  MI_PPROF_AGE,
  MI_PPROF_SECONDS,
  MI_PPROF_STRINGS
} mi_pprof_string_t;

static const char mi_pprof_string[MI_PPROF_STRINGS][16] mi_attr_rare = {"",
                                                                        "alloc_objects",
                                                                        "alloc_space",
                                                                        "inuse_objects",
                                                                        "inuse_space",
                                                                        "peak_objects",
                                                                        "peak_space",
                                                                        "growth_objects",
                                                                        "growth_space",
                                                                        "count",
                                                                        "bytes",
                                                                        "space",
                                                                        "thread",
                                                                        "age",
                                                                        "seconds"};

#define MI_PPROF_VALUES 8
#define MI_PPROF_MESSAGE_MAX ((size_t)1536)
#define MI_PPROF_NAME_MAX ((size_t)512)
#define MI_PPROF_MAPPINGS ((size_t)4096)

// Fields of the messages.
enum {
  MI_PPROF_SAMPLE_TYPE = 1,
  MI_PPROF_SAMPLE = 2,
  MI_PPROF_MAPPING = 3,
  MI_PPROF_LOCATION = 4,
  MI_PPROF_FUNCTION = 5,
  MI_PPROF_STRING_TABLE = 6,
  MI_PPROF_PERIOD_TYPE = 11,
  MI_PPROF_PERIOD = 12,
  MI_PPROF_COMMENT = 13,
  MI_PPROF_DEFAULT_TYPE = 14,
};

// A message being made.
typedef struct mi_pprof_message_s {
  size_t used;
  uint8_t bytes[MI_PPROF_MESSAGE_MAX];
} mi_pprof_message_t;

typedef struct mi_pprof_range_s {
  uintptr_t start, end;
} mi_pprof_range_t;

typedef struct mi_pprof_s {
  mi_dump_t* dump;
  uint64_t strings; // that were written
  uint64_t locations;
  uint64_t functions; // pprof counts on from their number
  mi_addresses_t places;
  mi_pprof_range_t* range; // of the mappings, in the order of addresses
  size_t range_count;
  uint64_t carry; // parts of blocks, in 2^-16, that the samples in use stand for so far
} mi_pprof_t;

// -- The wire format --

static void mi_pprof_put(mi_pprof_message_t* m, uint64_t number) {
  while (number >= 0x80 && m->used < MI_PPROF_MESSAGE_MAX) {
    m->bytes[m->used++] = (uint8_t)(number | 0x80);
    number >>= 7;
  }
  if (m->used < MI_PPROF_MESSAGE_MAX) m->bytes[m->used++] = (uint8_t)number;
}

// A number; zero need not be written.
static void mi_pprof_number(mi_pprof_message_t* m, unsigned field, uint64_t number) {
  if (number == 0) return;
  mi_pprof_put(m, field << 3);
  mi_pprof_put(m, number);
}

static void mi_pprof_bytes(mi_pprof_message_t* m, unsigned field, const void* bytes, size_t size) {
  if (m->used + size + 16 > MI_PPROF_MESSAGE_MAX) return;
  mi_pprof_put(m, field << 3 | 2);
  mi_pprof_put(m, size);
  memcpy(m->bytes + m->used, bytes, size);
  m->used += size;
}

static void mi_pprof_message(mi_pprof_message_t* m, unsigned field, const mi_pprof_message_t* in) {
  mi_pprof_bytes(m, field, in->bytes, in->used);
}

// Write a field of the profile itself.
static void mi_pprof_emit(mi_pprof_t* pprof, unsigned field, const void* bytes, size_t size) {
  mi_pprof_message_t head = {.used = 0};
  mi_pprof_put(&head, field << 3 | 2);
  mi_pprof_put(&head, size);
  mi_dump_bytes(pprof->dump, head.bytes, head.used);
  mi_dump_bytes(pprof->dump, bytes, size);
}

static void mi_pprof_emit_message(mi_pprof_t* pprof, unsigned field, const mi_pprof_message_t* m) {
  mi_pprof_emit(pprof, field, m->bytes, m->used);
}

static void mi_pprof_emit_number(mi_pprof_t* pprof, unsigned field, uint64_t number) {
  mi_pprof_message_t m = {.used = 0};
  mi_pprof_number(&m, field, number);
  mi_dump_bytes(pprof->dump, m.bytes, m.used);
}

// Write a string; returns its number.
static uint64_t mi_pprof_text(mi_pprof_t* pprof, const char* text) {
  mi_pprof_emit(pprof, MI_PPROF_STRING_TABLE, text, mi_text_length(text));
  return pprof->strings++;
}

// -- Types and mappings --

static void mi_pprof_value_type(mi_pprof_t* pprof, unsigned field, uint64_t type, uint64_t unit) {
  mi_pprof_message_t m = {.used = 0};
  mi_pprof_number(&m, 1, type);
  mi_pprof_number(&m, 2, unit);
  mi_pprof_emit_message(pprof, field, &m);
}

static uint64_t mi_pprof_default(mi_site_kind_t kind) {
  static const uint8_t of_kind[] = {[MI_SITE_LIVE] = MI_PPROF_INUSE_SPACE,
                                    [MI_SITE_TAKEN] = MI_PPROF_ALLOC_SPACE,
                                    [MI_SITE_PEAK] = MI_PPROF_PEAK_SPACE,
                                    [MI_SITE_GROWTH] = MI_PPROF_GROWTH_SPACE};
  return of_kind[kind];
}

static void mi_pprof_write_types(mi_pprof_t* pprof, mi_site_kind_t kind) {
  for (size_t i = 0; i < MI_PPROF_STRINGS; i++) mi_pprof_text(pprof, mi_pprof_string[i]);
  for (uint64_t type = MI_PPROF_ALLOC_OBJECTS; type <= MI_PPROF_GROWTH_SPACE; type++) {
    const bool is_space = (type - MI_PPROF_ALLOC_OBJECTS) % 2 != 0;
    const uint64_t unit = is_space ? MI_PPROF_BYTES : MI_PPROF_COUNT;
    mi_pprof_value_type(pprof, MI_PPROF_SAMPLE_TYPE, type, unit);
  }
  mi_pprof_value_type(pprof, MI_PPROF_PERIOD_TYPE, MI_PPROF_SPACE, MI_PPROF_BYTES);
  mi_pprof_emit_number(pprof, MI_PPROF_DEFAULT_TYPE, mi_pprof_default(kind));
}

static bool mi_pprof_write_mapping(const mi_os_mapping_t* mapping, void* arg) {
  mi_pprof_t* const pprof = (mi_pprof_t*)arg;
  if (pprof->range_count == MI_PPROF_MAPPINGS) return false;
  pprof->range[pprof->range_count++] = (mi_pprof_range_t){mapping->start, mapping->end};
  char build_id[2 * 32 + 1] = "";
  for (size_t i = 0, used = 0; i < mi_bits_min(mapping->build_id_size, 32); i++) {
    const unsigned byte = mapping->build_id[i];
    used += mi_text_format(build_id + used, sizeof(build_id) - used, "%x%x", byte >> 4, byte & 15);
  }
  const uint64_t path = mi_pprof_text(pprof, mapping->path);
  const uint64_t id = build_id[0] != 0 ? mi_pprof_text(pprof, build_id) : 0;
  mi_pprof_message_t m = {.used = 0};
  mi_pprof_number(&m, 1, pprof->range_count);
  mi_pprof_number(&m, 2, mapping->start);
  mi_pprof_number(&m, 3, mapping->end);
  mi_pprof_number(&m, 4, mapping->offset);
  mi_pprof_number(&m, 5, path);
  mi_pprof_number(&m, 6, id);
  mi_pprof_emit_message(pprof, MI_PPROF_MAPPING, &m);
  return true;
}

// Return the number of the mapping that an address is in, 0 none.
static uint64_t mi_pprof_mapping_of(const mi_pprof_t* pprof, uintptr_t address) {
  size_t low = 0;
  size_t high = pprof->range_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (pprof->range[middle].end <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < pprof->range_count && pprof->range[low].start <= address ? low + 1 : 0;
}

// -- Locations --

static void mi_pprof_write_location(mi_pprof_t* pprof, uint64_t id, const void* frame) {
  mi_pprof_message_t m = {.used = 0};
  mi_pprof_message_t line = {.used = 0};
  mi_os_symbol_t symbol;
  mi_os_symbol(frame, &symbol);
  const uintptr_t address = (uintptr_t)frame - 1; // PPROF-1
  if (symbol.function != NULL) {
    const uint64_t name = mi_pprof_text(pprof, symbol.function);
    mi_pprof_message_t function = {.used = 0};
    mi_pprof_number(&function, 1, ++pprof->functions);
    mi_pprof_number(&function, 2, name);
    mi_pprof_number(&function, 3, name);
    mi_pprof_emit_message(pprof, MI_PPROF_FUNCTION, &function);
    mi_pprof_number(&line, 1, pprof->functions);
  }
  mi_pprof_number(&m, 1, id);
  mi_pprof_number(&m, 2, mi_pprof_mapping_of(pprof, address));
  mi_pprof_number(&m, 3, address);
  if (line.used > 0) mi_pprof_message(&m, 4, &line);
  mi_pprof_emit_message(pprof, MI_PPROF_LOCATION, &m);
}

// Return the number of the location of an address, which is written if it is new; 0 if there is no
// room.
static uint64_t mi_pprof_location(mi_pprof_t* pprof, const void* frame) {
  mi_address_t* const place = mi_addresses_find(&pprof->places, frame);
  if (place == NULL) return 0;
  if (place->value == 0) {
    place->value = ++pprof->locations;
    mi_pprof_write_location(pprof, place->value, frame);
  }
  return place->value;
}

// -- Samples --

// Write a sample; `labels` are what comes behind its values.
static void mi_pprof_write_sample(mi_pprof_t* pprof, const mi_site_t* site,
                                  const int64_t value[MI_PPROF_VALUES],
                                  const mi_pprof_message_t* labels) {
  mi_pprof_message_t m = {.used = 0};
  mi_pprof_message_t list = {.used = 0};
  for (size_t i = 0; i < site->frame_count; i++) {
    const uint64_t id = mi_pprof_location(pprof, site->frames[i]);
    if (id != 0) mi_pprof_put(&list, id);
  }
  mi_pprof_message(&m, 1, &list);
  list.used = 0;
  for (size_t i = 0; i < MI_PPROF_VALUES; i++) mi_pprof_put(&list, (uint64_t)value[i]);
  mi_pprof_message(&m, 2, &list);
  memcpy(m.bytes + m.used, labels->bytes, labels->used);
  m.used += labels->used;
  mi_pprof_emit_message(pprof, MI_PPROF_SAMPLE, &m);
}

static void mi_pprof_label(mi_pprof_message_t* labels, uint64_t key, uint64_t number,
                           uint64_t unit) {
  mi_pprof_message_t m = {.used = 0};
  mi_pprof_number(&m, 1, key);
  mi_pprof_number(&m, 3, number);
  mi_pprof_number(&m, 4, unit);
  mi_pprof_message(labels, 3, &m);
}

static void mi_pprof_write_site(mi_pprof_t* pprof, mi_site_t* site) {
  static const mi_site_kind_t kinds[] = {MI_SITE_TAKEN, MI_SITE_LIVE, MI_SITE_PEAK, MI_SITE_GROWTH};
  int64_t value[MI_PPROF_VALUES] = {0};
  for (size_t k = 0; k < MI_PPROF_VALUES / 2; k++) {
    if (kinds[k] == MI_SITE_LIVE) continue; // PPROF-2
    const mi_amount_t amount = mi_sampled_estimate(site, mi_sampled_amount(site, kinds[k]));
    value[2 * k] = amount.count;
    value[2 * k + 1] = amount.bytes;
  }
  mi_pprof_message_t labels = {.used = 0};
  mi_pprof_label(&labels, MI_PPROF_BYTES, site->chance.size, MI_PPROF_BYTES);
  mi_pprof_write_sample(pprof, site, value, &labels);
}

// Return an age as a number that many have in common: the power of two of seconds below it.
static uint64_t mi_pprof_age(uint64_t born_ms, uint64_t now_ms) {
  const uint64_t seconds = now_ms > born_ms ? (now_ms - born_ms) / 1000 : 0;
  return seconds == 0 ? 0 : (uint64_t)1 << mi_bits_log2(seconds);
}

static void mi_pprof_write_live(mi_pprof_t* pprof, const mi_sampled_t* sampled, uint64_t now_ms) {
  const mi_amount_t one = {1, (int64_t)sampled->size};
  const mi_amount_t amount = mi_sampled_estimate(mi_sampled_site(sampled), one);
  pprof->carry += mi_sampled_site(sampled)->weight; // so that the sum is right
  int64_t value[MI_PPROF_VALUES] = {0};
  value[2] = (int64_t)(pprof->carry >> 16);
  value[3] = amount.bytes;
  pprof->carry &= 0xFFFF;
  mi_pprof_message_t labels = {.used = 0};
  mi_pprof_label(&labels, MI_PPROF_BYTES, mi_sampled_site(sampled)->chance.size, MI_PPROF_BYTES);
  mi_pprof_label(&labels, MI_PPROF_THREAD, sampled->thread, 0);
  mi_pprof_label(&labels, MI_PPROF_AGE, mi_pprof_age(sampled->born_ms, now_ms), MI_PPROF_SECONDS);
  mi_pprof_write_sample(pprof, mi_sampled_site(sampled), value, &labels);
}

// -- The profile --

MI_INTERNAL void mi_pprof_write(mi_dump_t* dump, mi_site_kind_t kind) {
  mi_pprof_t pprof = {.dump = dump};
  const size_t ranges = MI_PPROF_MAPPINGS * sizeof(mi_pprof_range_t);
  if (!mi_addresses_make(&pprof.places, mi_profile_frames(), ranges)) {
    dump->err = ENOMEM;
    return;
  }
  pprof.range = (mi_pprof_range_t*)(void*)pprof.places.room;
  mi_pprof_write_types(&pprof, kind);
  mi_os_mappings(&mi_pprof_write_mapping, &pprof);
  size_t interval = mi_atomic_load_relaxed(&mi_state.profile_interval);
  for (mi_site_t* site = NULL; (site = mi_sampled_next_site(site)) != NULL;) {
    mi_pprof_write_site(&pprof, site);
    if (interval == 0) interval = site->chance.interval; // the profile was stopped
  }
  const uint64_t now_ms = mi_os_now_ms();
  mi_sampled_t sampled;
  for (size_t i = 0; i < mi_sampled_count(); i++) {
    if (mi_sampled_copy(i, &sampled)) mi_pprof_write_live(&pprof, &sampled, now_ms);
  }
  mi_pprof_emit_number(&pprof, MI_PPROF_PERIOD, interval);
  const size_t missed = mi_sampled_missed();
  if (missed > 0) {
    char text[96];
    mi_text_format(text, sizeof(text), "%zu samples were missed: no memory, or too many", missed);
    mi_pprof_emit_number(&pprof, MI_PPROF_COMMENT, mi_pprof_text(&pprof, text));
  }
  mi_addresses_end(&pprof.places);
}
