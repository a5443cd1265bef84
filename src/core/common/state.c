// SPDX-License-Identifier: MIT
// state.c - the storage of state.h: all zero until the process is set up (init.c).
#include "state.h"

#include "../../base/defaults.h"

MI_INTERNAL_DATA mi_state_t mi_state;

MI_INTERNAL_DATA mi_atomic(long) mi_option_values[MI_OPTION_COUNT] = {
#define X(name, value, kind, legacy, effect) value,
#include "options.def"
#undef X
};
