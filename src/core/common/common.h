// SPDX-License-Identifier: MIT
// common.h - the lowest layer of the core, which all others share.
//
//   types.h state.h    shared structures; the one process-wide structure
//   self.h             the thread-local state
//   tally.h handed.h   figures that many threads count at the same time; blocks ever handed out
//   pagemap.h          from an address to the descriptor of its slice
//   sizeclass.h        from a size to its class
//   meta.h             memory for our own structures
//   part.h             the parts of a page, and which of them are holes
//   secret.h mark.h    random numbers, and the exact state of each block, of a secure build
//   note.h slack.h     the codes of what lies at the ends of slots in tracked, and in secure builds
//   hooks.h            the only calls upwards: options, messages, callbacks
//   records.h guarded.h sampled.h  what is known about guarded blocks, and about samples
//   addresses.h        a table of what is known of addresses, for something that ends soon
//   describe.h explain.h report.h  what an address is; reports of misuse, and their words
//
// The layers above include this file and no other of this folder.
#ifndef MI_CORE_COMMON_H
#define MI_CORE_COMMON_H

#include "types.h"
#include "state.h"
#include "fence.h"
#include "self.h"
#include "handed.h"
#include "tally.h"
#include "pagemap.h"
#include "sizeclass.h"
#include "meta.h"
#include "secret.h"
#include "mark.h"
#include "note.h"
#include "slack.h"
#include "part.h"
#include "describe.h"
#include "hooks.h"
#include "records.h"
#include "guarded.h"
#include "sampled.h"
#include "addresses.h"
#include "explain.h"
#include "report.h"

#endif
