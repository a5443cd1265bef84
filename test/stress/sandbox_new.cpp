// SPDX-License-Identifier: MIT
// sandbox_new.cpp - operator new and its relatives behind a filter of system calls, see sandbox.c.
#define SWEEP_SANDBOX 1
#include "failing_new.cpp"
