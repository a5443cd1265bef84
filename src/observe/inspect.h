// SPDX-License-Identifier: MIT
// inspect.h - the stamp, by which a tool that looks from outside finds the structures of the
// library, in a process or in a core dump, and knows where their fields are.
#ifndef MI_OBSERVE_INSPECT_H
#define MI_OBSERVE_INSPECT_H

#include "../core/core.h"

// Let the state lead to the stamp. Called while the process is set up.
MI_INTERNAL void mi_inspect_begin(void);

#endif
