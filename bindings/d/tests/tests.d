// SPDX-License-Identifier: MIT
/// The declarations with the library that they are of, and the allocators with containers and allocators of Phobos.
module tests;

import core.stdc.string : strlen;
import core.thread : Thread;
import mimalloc;
import std.algorithm.comparison : equal;
import std.experimental.allocator;
import std.experimental.allocator.building_blocks;
import std.json : parseJSON;
import std.range : iota;
import std.typecons : Ternary;

// Functions that the library calls are those of C, and may not throw.
alias Reporter = extern (C) void function(int, void*) nothrow @nogc @system;
static assert(is(mi_error_fun == Reporter));
static assert(stateSize!Mimalloc == 0 && is(typeof(Mimalloc.instance) == shared));

// version of the declarations is that of the library
unittest
{
    assert(mi_version() == MI_MALLOC_VERSION);
}

// structures have the layout of the library: it says how large it thinks they are
unittest
{
    void* block = mi_malloc(1); // so that there is something to tell
    scope (exit)
        mi_free(block);
    mi_stats_t stats;
    stats.size = mi_stats_t.sizeof;
    stats.version_ = MI_STAT_VERSION;
    assert(mi_stats_get(&stats) && stats.committed.current > 0 && stats.committed.peak >= stats.committed.current);
    char* text = mi_stats_get_json(0, null);
    scope (exit)
        mi_free(text);
    assert(parseJSON(text[0 .. strlen(text)])["committed"]["current"].integer > 0);
}

// options are set by their names
unittest
{
    const before = mi_option_get(mi_option_purge_delay);
    scope (exit)
        mi_option_set(mi_option_purge_delay, before);
    mi_option_set(mi_option_purge_delay, 77);
    assert(mi_option_get(mi_option_purge_delay) == 77);
}

extern (C) bool count(const(mi_heap_t)*, const(mi_heap_area_t)*, void* block, size_t size, void* arg) nothrow @nogc
{
    if (block !is null)
        *cast(size_t*) arg += size;
    return true;
}

// a visitor sees each block of a heap
unittest
{
    MimallocHeap heap;
    foreach (i; 0 .. 100)
        heap.allocate(64);
    size_t bytes;
    assert(mi_heap_visit_blocks(heap.handle, true, &count, &bytes) && bytes == 6400);
}

/// Blocks of all sizes and alignments, resized and moved, keep what is in them.
void exercise(Allocator)(ref Allocator allocator)
{
    foreach (uint alignment; [1, 16, 64, 4096, 1 << 20])
        foreach (size_t size; [1, 7, 100, 5000, 300_000])
        {
            void[] block = allocator.alignedAllocate(size, alignment);
            assert(block.length == size && cast(size_t) block.ptr % alignment == 0);
            foreach (i, ref value; cast(ubyte[]) block)
                value = cast(ubyte) i;
            assert(allocator.alignedReallocate(block, size * 3, alignment));
            assert(block.length == size * 3 && cast(size_t) block.ptr % alignment == 0);
            assert((cast(ubyte[]) block)[0 .. size].equal(iota(size).map8));
            assert(allocator.deallocate(block));
        }
    void[] block = allocator.allocate(10);
    assert(allocator.reallocate(block, 100_000) && block.length == 100_000);
    assert(allocator.reallocate(block, 0) && block is null);
    assert(!allocator.expand(block, 1) && allocator.expand(block, 0));
    block = allocator.allocate(100);
    assert(allocator.expand(block, allocator.goodAllocSize(100) - 100) && block.length == allocator.goodAllocSize(100));
    assert(!allocator.expand(block, 1 << 20) && !allocator.expand(block, size_t.max));
    assert(allocator.deallocate(block) && allocator.deallocate(null));
    assert(allocator.allocate(0) is null && allocator.allocate(1UL << 62) is null);
}

/// Each block is aligned to what the allocator says, however it came about.
void checkAlignment(Allocator)(ref Allocator allocator)
{
    foreach (size_t size; 1 .. 50)
        foreach (i; 0 .. 4) // one may be aligned by chance
        {
            void[][4] blocks = [allocator.allocate(size), allocator.alignedAllocate(size, 8), allocator.allocate(100), null];
            assert(allocator.reallocate(blocks[2], size));
            blocks[3] = allocator.alignedAllocate(50 - size, 8);
            assert(allocator.alignedReallocate(blocks[3], size, 8));
            foreach (block; blocks)
                assert(block.length == size && cast(size_t) block.ptr % allocator.alignment == 0);
            foreach (block; blocks[i % 2 .. $]) // those that stay move the next ones
                allocator.deallocate(block);
        }
}

auto map8(R)(R numbers)
{
    import std.algorithm.iteration : map;

    return numbers.map!(i => cast(ubyte) i);
}

// both allocators
unittest
{
    exercise(Mimalloc.instance);
    MimallocHeap heap;
    exercise(heap);
    checkAlignment(Mimalloc.instance);
    checkAlignment(heap);
}

// what std.experimental.allocator makes on it: objects, arrays, building blocks
unittest
{
    static class Node
    {
        int value = 7;
    }

    auto node = Mimalloc.instance.make!Node;
    assert(node.value == 7 && mi_is_in_heap_region(cast(void*) node));
    Mimalloc.instance.dispose(node);
    auto numbers = Mimalloc.instance.makeArray!int(1000, 5);
    assert(Mimalloc.instance.expandArray(numbers, 100_000, 6) && numbers[999] == 5 && numbers[$ - 1] == 6);
    Mimalloc.instance.dispose(numbers);

    FallbackAllocator!(MimallocHeap, Mimalloc) both;
    void[] block = both.allocate(100);
    assert(both.primary.owns(block) == Ternary.yes && both.deallocate(block));
    auto erased = sharedAllocatorObject(Mimalloc.instance);
    block = erased.allocate(100);
    assert(block.length == 100 && mi_is_in_heap_region(block.ptr) && erased.deallocate(block));
}

// a heap owns its blocks and no others, and goes with them
unittest
{
    MimallocHeap heap;
    assert(heap.owns(null) == Ternary.no);
    void[] ours = heap.allocate(1000), others = Mimalloc.instance.allocate(1000);
    scope (exit)
        Mimalloc.instance.deallocate(others);
    assert(heap.owns(ours) == Ternary.yes && heap.owns(others) == Ternary.no);
    assert(heap.reallocate(ours, 100_000) && heap.owns(ours) == Ternary.yes);
    assert(heap.deallocateAll() && heap.owns(ours) == Ternary.no);
    assert(heap.allocate(10) !is null);
    static assert(!__traits(compiles, (MimallocHeap h) { MimallocHeap other = h; }));
}

// the destructor of a heap frees its blocks
unittest
{
    static long huge()
    {
        char* text = mi_stats_get_json(0, null);
        scope (exit)
            mi_free(text);
        return parseJSON(text[0 .. strlen(text)])["malloc_huge"]["current"].integer;
    }

    const before = huge;
    {
        MimallocHeap heap;
        heap.allocate(64 << 20);
        assert(huge - before >= 64 << 20);
    }
    assert(huge - before < 1 << 20);
}

// threads free what others allocated, and share a heap
unittest
{
    MimallocHeap heap;
    assert(heap.handle !is null);
    auto blocks = new ubyte[][][](4, 500);
    auto threads = new Thread[4];
    foreach (i; 0 .. 4)
        threads[i] = ((size_t i) => new Thread({
                foreach (size, ref block; blocks[i])
                {
                    block = cast(ubyte[])(i % 2 ? heap.allocate(size + 1) : Mimalloc.instance.allocate(size + 1));
                    block[] = cast(ubyte) i;
                }
            }).start())(i);
    foreach (i, thread; threads)
    {
        thread.join();
        foreach (block; blocks[i])
        {
            foreach (value; block)
                assert(value == i);
            Mimalloc.instance.deallocate(block);
        }
    }
}

void main()
{
}
