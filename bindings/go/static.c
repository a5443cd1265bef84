// SPDX-License-Identifier: MIT
// static.c - the whole library in the package: cgo compiles each C file that stands beside the Go files.
//go:build !mimalloc_system

#include "../../src/static.c"
