// SPDX-License-Identifier: MIT

package mimalloc

/*
#include <mimalloc.h>
#include <mimalloc-stats.h>
*/
import "C"

import "unsafe"

// Heap is a set of blocks that can be freed at once. Any goroutine may allocate from it, at the same time as others.
type Heap struct {
	raw *C.mi_heap_t // nil after Destroy
}

// NewHeap returns a heap without blocks. Destroy it when it is not used any more: the collector does not.
func NewHeap() *Heap {
	raw := C.mi_heap_new()
	if raw == nil {
		panic(noMemory)
	}
	return &Heap{raw}
}

// Alloc returns a zeroed block of size bytes, or nil if there is no memory for it. It may be given to Free before its heap
// is destroyed.
func (heap *Heap) Alloc(size uintptr) unsafe.Pointer {
	return C.mi_heap_zalloc(heap.living(), C.size_t(size))
}

// Contains says whether an address is in a block of this heap.
func (heap *Heap) Contains(address unsafe.Pointer) bool {
	return bool(C.mi_heap_contains(heap.living(), address))
}

// Stats returns what this heap uses, as JSON, or "" if there is no memory for it.
func (heap *Heap) Stats() string {
	return taken(C.mi_heap_stats_get_json(heap.living(), 0, nil))
}

// Destroy frees the heap and all blocks in it. A second time it does nothing; all other functions then panic.
func (heap *Heap) Destroy() {
	if heap.raw != nil {
		C.mi_heap_destroy(heap.raw)
		heap.raw = nil
	}
}

// living is the heap as C knows it, which must not be NULL there: that is another heap.
func (heap *Heap) living() *C.mi_heap_t {
	if heap.raw == nil {
		panic("mimalloc: the heap is destroyed")
	}
	return heap.raw
}
