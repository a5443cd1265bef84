// SPDX-License-Identifier: MIT

//go:build !mimalloc_system

package mimalloc

// What static.c is compiled with: of the flags of cmake/flags.cmake those that cgo lets a package pass. They are without
// effect on speed: -fno-semantic-interposition, -fno-align-loops and -fno-align-jumps are missing.

/*
#cgo CFLAGS: -I${SRCDIR}/../../include -std=gnu11 -O2 -DNDEBUG -DMI_STATIC_LIB
#cgo CFLAGS: -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -fno-plt -fexceptions
#cgo LDFLAGS: -lpthread
*/
import "C"
