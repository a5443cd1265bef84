// SPDX-License-Identifier: MIT
// inspect.c - the stamp in the library that mimalloc-inspect (tools/mimalloc_inspect) looks for.
//
//   note of ELF: this file has a stamp -> the stamp, by its first bytes -> state, page map, ...
//                                                '-> sizes, and where fields are (inspect.def)
//
// A tool from outside finds the note by the program headers of each mapped file: in a shared
// library, in a program that contains the library, and in both when they are stripped. So no symbol
// is exported, and no debug information is needed. As the library itself says where its fields are,
// one tool reads release, secure, debug and all other builds.
//
// INSPECT-1  the tool needs no code of the process. The stamp is constant; where code is position
//     independent the loader writes the addresses in it, so that a core dump has all of it.
// INSPECT-2  the state leads back to the stamp (`mi_state.stamp`) once the process is set up. So
//     bytes that only look like a stamp are refused, as those of a file that the program has read,
//     or of another build from whose file a core dump is completed; and a linker that drops what
//     nobody uses keeps the stamp.
//
// The distance from the note to the stamp is not in the note: C cannot write it, and the assembler
// cannot name a static object that gcc moves to another part with -flto.
#include "inspect.h"

// Counts up when the stamp, or the order or meaning of a line in inspect.def, changes.
#define MI_INSPECT_FORMAT 4

// What the library is told, or tells, about blocks in this build.
typedef enum mi_inspect_track_e {
  MI_INSPECT_TRACK_NONE = 0,
  MI_INSPECT_TRACK_ASAN,
  MI_INSPECT_TRACK_VALGRIND,
  MI_INSPECT_TRACK_PADDED,
} mi_inspect_track_t;

// A note: its head, the name of its owner, and what it says.
static const struct mi_inspect_note_s {
  uint32_t name_size, size, kind;
  char name[12];
  uint32_t format, version;
} mi_inspect_note mi_attr_note = {9, 8, 1, "mimalloc", MI_INSPECT_FORMAT, MI_MALLOC_VERSION};

typedef enum mi_inspect_count_e {
#define NUMBER(name, value) +1
#define SIZE(name, type) +1
#define FIELD(name, type, field) +1
  MI_INSPECT_COUNT = 0
#include "inspect.def"
#undef NUMBER
#undef SIZE
#undef FIELD
} mi_inspect_count_t;

// Up to `pointer_size` it is the same in every format. Few addresses, because each is a relocation.
static const struct mi_inspect_stamp_s {
  uint8_t magic[16];
  uint32_t format; // MI_INSPECT_FORMAT
  uint32_t version; // major * 10000 + minor * 100 + patch
  uint32_t number_count, unused;
  uint8_t secure, debug, track, is_tiny, is_tagged, is_override, is_plain, pointer_size;
  const void* state; // mi_state
  const void* pagemap; // mi_pagemap
  const void* marks; // mi_marks; NULL: not a secure build
  const void* meta_maps; // mi_meta_maps
  const void* sites; // mi_sampled_all
  uint32_t number[MI_INSPECT_COUNT]; // the lines of inspect.def
} mi_inspect_stamp = {
    .magic = "\x7fmi-inspect\xb1\x5e\xc7\x02",
    .format = MI_INSPECT_FORMAT,
    .version = MI_MALLOC_VERSION,
    .number_count = MI_INSPECT_COUNT,
    .secure = MI_SECURE_LEVEL,
    .debug = MI_DEBUG,
    .track = MI_IS_TRACK_ASAN       ? MI_INSPECT_TRACK_ASAN
             : MI_IS_TRACK_VALGRIND ? MI_INSPECT_TRACK_VALGRIND
             : MI_IS_PADDED         ? MI_INSPECT_TRACK_PADDED
                                    : MI_INSPECT_TRACK_NONE,
    .is_tiny = MI_IS_TINY,
    .is_tagged = MI_IS_TAGGED,
    .is_override = MI_IS_OVERRIDE,
    .is_plain = MI_IS_OS_PLAIN,
    .pointer_size = sizeof(void*),
    .state = &mi_state,
    .pagemap = &mi_pagemap,
#if MI_IS_SECURE
    .marks = &mi_marks,
#endif
    .meta_maps = &mi_meta_maps,
    .sites = &mi_sampled_all,
    .number =
        {
#define NUMBER(name, value) (uint32_t)(value),
#define SIZE(name, type) (uint32_t)sizeof(type),
#define FIELD(name, type, field) (uint32_t) offsetof(type, field),
#include "inspect.def"
#undef NUMBER
#undef SIZE
#undef FIELD
        },
};

MI_INTERNAL void mi_inspect_begin(void) { mi_state.stamp = &mi_inspect_stamp; }
