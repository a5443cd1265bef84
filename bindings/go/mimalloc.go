// SPDX-License-Identifier: MIT

// Package mimalloc is the memory allocator libmimalloc, for memory that Go's garbage collector does not see: large tables
// and buffers whose end the program knows, and what it shares with C.
//
// Any goroutine may call any function, and free what another one allocated. There must be no Go pointers in this memory:
// the collector does not find them there.
package mimalloc

/*
#include <mimalloc.h>
#include <mimalloc-stats.h>
*/
import "C"

import "unsafe"

// Version is that of the library whose sources this package is part of.
const Version = "3.4.3"

// LibraryVersion is that of the library in the program, 30403 for 3.4.3.
func LibraryVersion() int {
	return int(C.mi_version())
}

// Malloc returns a block of size bytes, whose contents are unknown, or nil if there is no memory for it.
func Malloc(size uintptr) unsafe.Pointer {
	return C.mi_malloc(C.size_t(size))
}

// Calloc returns a zeroed block for count elements of size bytes, or nil if there is no memory for it or the product is too
// large.
func Calloc(count, size uintptr) unsafe.Pointer {
	return C.mi_calloc(C.size_t(count), C.size_t(size))
}

// Realloc changes the size of a block of Malloc, Calloc or Realloc, and returns where it is now. A nil block is allocated.
// If there is no memory, it returns nil, and the block is as before.
func Realloc(block unsafe.Pointer, size uintptr) unsafe.Pointer {
	return C.mi_realloc(block, C.size_t(size))
}

// Free frees a block of Malloc, Calloc, Realloc or a Heap; nil does nothing.
func Free(block unsafe.Pointer) {
	C.mi_free(block)
}

// UsableSize returns how many bytes a block has room for: at least what was asked for.
func UsableSize(block unsafe.Pointer) uintptr {
	return uintptr(C.mi_usable_size(block))
}

// Collect gives unused memory back to the system: with force all of it, and at once.
func Collect(force bool) {
	C.mi_collect(C.bool(force))
}

// Stats returns what the whole process uses, as JSON, or "" if there is no memory for it. Go's own memory is not in it.
func Stats() string {
	return taken(C.mi_stats_get_json(0, nil))
}

// taken makes a string of a text that the library wrote into a block.
func taken(text *C.char) string {
	defer C.mi_free(unsafe.Pointer(text))
	return C.GoString(text)
}

// Option is a setting of the library. Environment variables such as MIMALLOC_PURGE_DELAY=100 set them, too.
type Option int

// Get returns the value that an option has.
func (option Option) Get() int {
	return int(C.mi_option_get(C.mi_option_t(option)))
}

// Set gives an option a value. Some are read when the program starts, and only there.
func (option Option) Set(value int) {
	C.mi_option_set(C.mi_option_t(option), C.long(value))
}
