// SPDX-License-Identifier: MIT
// observe.h - the layer that looks at the program: where calls came from, and faults in guarded
// blocks and in the library.
//
//   stack.c   which functions called
//   fault.c   what is known about an access that faulted
//
// The layers above include this file and no other of this folder. It uses the core and what is
// below it, and calls upwards through `mi_hook_fault` only.
#ifndef MI_OBSERVE_OBSERVE_H
#define MI_OBSERVE_OBSERVE_H

#include "fault.h"

#endif
