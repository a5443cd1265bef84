// SPDX-License-Identifier: MIT
// hooks_real.c - the hooks of the core are those of src/api and src/observe here: nothing is
// recorded in the structure that unit.c looks into.
#include "hooks_fake.h"

hooks_fake_t hooks_fake;
