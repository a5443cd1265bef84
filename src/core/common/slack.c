// SPDX-License-Identifier: MIT
// slack.c - how long a canary is, as a table: SLACK-1 in slack.h. By a table, because each free
// looks it up, and to compute it takes six instructions.
#include "slack.h"

#if MI_HAS_CANARY

MI_INTERNAL_DATA const uint8_t mi_canary_shift[256] = {
    [1] = 56, [2] = 48, [3] = 40, [4] = 32, [5] = 24, [6] = 16, [7] = 8};

#endif
