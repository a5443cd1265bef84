// SPDX-License-Identifier: MIT

package mimalloc

import (
	"reflect"
	"unsafe"
)

const noMemory = "mimalloc: no memory"

// Slice returns a zeroed slice in a block of its own; FreeSlice frees it. It panics if there is no memory for it, if count is
// negative, and if the elements hold Go pointers (as strings, slices and maps do).
func Slice[T any](count int) []T {
	return slice[T](count, func(size uintptr) unsafe.Pointer { return Calloc(1, size) })
}

// SliceIn returns a zeroed slice in a block of a heap, as Slice does. It goes with the heap, or by FreeSlice.
func SliceIn[T any](heap *Heap, count int) []T {
	return slice[T](count, heap.Alloc)
}

// FreeSlice frees what Slice or SliceIn returned, or a part of it that begins at the same element. A slice that append has
// moved is in Go's memory, and must not be given to it.
func FreeSlice[T any](values []T) {
	var element T
	if cap(values) > 0 && unsafe.Sizeof(element) > 0 { // elements without a size are at an address of Go's
		Free(unsafe.Pointer(&values[:1][0]))
	}
}

func slice[T any](count int, allocate func(uintptr) unsafe.Pointer) []T {
	var element T
	if hasPointers(reflect.TypeOf(&element).Elem()) {
		panic("mimalloc: the collector does not see pointers in this memory")
	}
	size := unsafe.Sizeof(element)
	if count < 0 || size > 0 && uintptr(count) > ^uintptr(0)/2/size {
		panic("mimalloc: the length of a slice is out of range")
	}
	if size == 0 || count == 0 {
		return make([]T, count)[:count:count] // no memory at all
	}
	block := allocate(uintptr(count) * size)
	if block == nil {
		panic(noMemory)
	}
	return unsafe.Slice((*T)(block), count)
}

// hasPointers says whether the collector would have to look into a value of this type.
func hasPointers(of reflect.Type) bool {
	switch kind := of.Kind(); {
	case kind <= reflect.Complex128: // truth values and numbers
		return false
	case kind == reflect.Array:
		return of.Len() > 0 && hasPointers(of.Elem())
	case kind == reflect.Struct:
		for i := 0; i < of.NumField(); i++ {
			if hasPointers(of.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return true
}
