// SPDX-License-Identifier: MIT

package mimalloc

import (
	"encoding/json"
	"sync"
	"testing"
	"unsafe"
)

// statistics is a document of the library; current is a count in it.
func statistics(t *testing.T, text string) map[string]any {
	t.Helper()
	var seen map[string]any
	if err := json.Unmarshal([]byte(text), &seen); err != nil {
		t.Fatal(err)
	}
	return seen
}

func current(t *testing.T, text, name string) float64 {
	t.Helper()
	return statistics(t, text)[name].(map[string]any)["current"].(float64)
}

// inBlocks is how many bytes are in blocks. What threads hold ready is counted too, up to slack.
func inBlocks(t *testing.T, text string) float64 {
	t.Helper()
	return current(t, text, "malloc_normal") + current(t, text, "malloc_huge")
}

const slack = 1 << 20

// panics says what a function panicked with, nil if it did not.
func panics(f func()) (with any) {
	defer func() { with = recover() }()
	f()
	return
}

func TestVersionOfTheLibraryIsThatOfThePackage(t *testing.T) {
	number := 0
	for _, digit := range Version {
		if digit == '.' {
			number *= 10 // each part has two digits
		} else {
			number = number*10 + int(digit-'0')
		}
	}
	if number != LibraryVersion() {
		t.Error(number, LibraryVersion())
	}
}

func TestBlocksKeepWhatIsInThem(t *testing.T) {
	block := Malloc(100)
	bytes := unsafe.Slice((*byte)(block), UsableSize(block))
	if len(bytes) < 100 || len(bytes) > 128 {
		t.Error(len(bytes))
	}
	for i := range bytes {
		bytes[i] = byte(i)
	}
	block = Realloc(block, 100000)
	for i, value := range unsafe.Slice((*byte)(block), 100) {
		if value != byte(i) {
			t.Fatal(i, value)
		}
	}
	Free(block)
	Free(nil)
}

func TestCallocClearsAndCounts(t *testing.T) {
	for round := 0; round < 100; round++ {
		block := Calloc(10, 40)
		for i, value := range unsafe.Slice((*byte)(block), 400) {
			if value != 0 {
				t.Fatal(round, i, value)
			}
		}
		*(*uint64)(block) = ^uint64(0)
		Free(block)
	}
	if Calloc(1<<40, 1<<40) != nil {
		t.Error("a product that does not fit is allocated")
	}
}

func TestNoMemoryIsNil(t *testing.T) {
	if Malloc(1<<62) != nil {
		t.Error("more than there are addresses")
	}
}

func TestStatsCountWhatIsUsed(t *testing.T) {
	before := inBlocks(t, Stats())
	block := Malloc(64 << 20)
	if grown := inBlocks(t, Stats()) - before; grown < 64<<20-slack {
		t.Error(grown)
	}
	Free(block)
}

func TestCollectGivesMemoryBack(t *testing.T) {
	values := Slice[byte](64 << 20)
	for i := range values {
		values[i] = 1
	}
	before := current(t, Stats(), "committed")
	FreeSlice(values)
	Collect(true)
	if after := current(t, Stats(), "committed"); before-after < 60<<20 {
		t.Error(before, after)
	}
}

func TestOptionsAreSet(t *testing.T) {
	before := OptionPurgeDelay.Get()
	OptionPurgeDelay.Set(before + 7)
	if OptionPurgeDelay.Get() != before+7 {
		t.Error(OptionPurgeDelay.Get())
	}
	OptionPurgeDelay.Set(before)
}

type point struct {
	x, y float32
	tags [3]uint16
}

func TestSlicesAreZeroedAndAligned(t *testing.T) {
	points := Slice[point](1000)
	if len(points) != 1000 || cap(points) != 1000 || uintptr(unsafe.Pointer(&points[0]))%unsafe.Alignof(points[0]) != 0 {
		t.Error(len(points), cap(points))
	}
	for i := range points {
		if points[i] != (point{}) {
			t.Fatal(i, points[i])
		}
		points[i] = point{x: float32(i)}
	}
	if points[999].x != 999 || UsableSize(unsafe.Pointer(&points[0])) < 1000*unsafe.Sizeof(point{}) {
		t.Error(points[999])
	}
	FreeSlice(points[:5])
	FreeSlice(Slice[point](0))
	FreeSlice(Slice[struct{}](5))
}

func TestSlicesWithoutSizeHaveNoBlock(t *testing.T) {
	before := inBlocks(t, Stats())
	block := Malloc(64 << 20)
	FreeSlice(unsafe.Slice((*struct{})(block), 5)) // wherever they are, nothing is freed there
	FreeSlice(unsafe.Slice((*[0]int)(block), 1))
	if grown := inBlocks(t, Stats()) - before; grown < 64<<20-slack {
		t.Error(grown)
	}
	Free(block)
}

func TestSlicesThatCannotBe(t *testing.T) {
	const pointers, length = "mimalloc: the collector does not see pointers in this memory", "mimalloc: the length of a slice is out of range"
	type named struct {
		number int
		names  [1]string
	}
	for name, one := range map[string]struct {
		make func()
		with string
	}{
		"strings":   {func() { Slice[string](1) }, pointers},
		"pointers":  {func() { Slice[*int](0) }, pointers},
		"structs":   {func() { Slice[named](1) }, pointers},
		"negative":  {func() { Slice[int](-1) }, length},
		"product":   {func() { Slice[[1 << 20]int64](1 << 50) }, length},
		"no memory": {func() { Slice[byte](1 << 62) }, noMemory},
	} {
		if seen := panics(one.make); seen != one.with {
			t.Error(name, seen)
		}
	}
}

func TestHeapFreesItsBlocks(t *testing.T) {
	heap := NewHeap()
	block, other := heap.Alloc(1000), Malloc(1000)
	if !heap.Contains(block) || heap.Contains(other) {
		t.Error("a block is in the wrong heap")
	}
	Free(block)
	numbers := SliceIn[int64](heap, 1<<20)
	numbers[1<<20-1] = 7
	if !heap.Contains(unsafe.Pointer(&numbers[1<<20-1])) || inBlocks(t, heap.Stats()) < 8<<20 {
		t.Error(heap.Stats())
	}
	Free(other)
	before := inBlocks(t, Stats())
	heap.Destroy()
	heap.Destroy()
	if freed := before - inBlocks(t, Stats()); freed < 8<<20-slack {
		t.Error(freed)
	}
	for _, call := range []func(){func() { heap.Alloc(1) }, func() { heap.Contains(nil) }, func() { heap.Stats() }} {
		if seen := panics(call); seen != "mimalloc: the heap is destroyed" {
			t.Error(seen)
		}
	}
}

// Goroutines allocate, free what others allocated, and share a heap, on as many threads as Go likes.
func TestGoroutinesShareBlocksAndHeaps(t *testing.T) {
	heap := NewHeap()
	defer heap.Destroy()
	blocks := make(chan []uint32, 100)
	var makers, takers sync.WaitGroup
	for maker := 0; maker < 8; maker++ {
		makers.Add(1)
		go func(mark uint32) {
			defer makers.Done()
			for i := 0; i < 5000; i++ {
				values := Slice[uint32](1 + i%300)
				if i%10 == 0 {
					values = SliceIn[uint32](heap, 1+i%300)
				}
				for at := range values {
					values[at] = mark
				}
				blocks <- values
			}
		}(uint32(maker))
	}
	for taker := 0; taker < 8; taker++ {
		takers.Add(1)
		go func() {
			defer takers.Done()
			for values := range blocks {
				for _, value := range values {
					if value != values[0] {
						t.Error(value, values[0])
					}
				}
				FreeSlice(values)
			}
		}()
	}
	makers.Wait()
	close(blocks)
	takers.Wait()
}

func BenchmarkPair(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Free(Malloc(64))
	}
}
