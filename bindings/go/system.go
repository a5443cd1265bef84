// SPDX-License-Identifier: MIT

//go:build mimalloc_system

package mimalloc

// The library of the system: also the malloc of all C code in the program, where it is the shared one.

// #cgo pkg-config: mimalloc
import "C"
