// SPDX-License-Identifier: MIT
// observe.h - the layer that looks at the program: where calls came from, faults in guarded blocks
// and in the library, and heap profiles.
//
//   stack.c   which functions called
//   fault.c   what is known about an access that faulted
//   inspect.c by what a tool from outside finds the structures of the library
//   profile.c, pprof.c, heap_text.c, folded.c, dump.c   heap profiles in three formats
//
// The layers above include this file and no other of this folder. It uses the core and what is
// below it, and calls upwards through `mi_hook_fault` only.
#ifndef MI_OBSERVE_OBSERVE_H
#define MI_OBSERVE_OBSERVE_H

#include "fault.h"
#include "inspect.h"
#include "profile.h"

#endif
