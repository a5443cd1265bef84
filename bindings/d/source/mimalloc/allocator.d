// SPDX-License-Identifier: MIT
/// Allocators of the shape that std.experimental.allocator asks for: the whole process's, and heaps that go at once.
module mimalloc.allocator;

import mimalloc.c;
import std.typecons : Ternary;

/// What all blocks are aligned to: what `platformAlignment` of std.experimental.allocator is at most. The library aligns
/// blocks of 16 bytes and more so, and shorter ones to 8 bytes.
private enum uint natural = 16;

/// The library as a process-wide allocator. Any thread may use it, and free what another one allocated.
struct Mimalloc
{
nothrow @nogc:
    enum uint alignment = natural;
    /// The one there is: it has no state.
    static shared Mimalloc instance;

    size_t goodAllocSize(size_t bytes) shared const @trusted
    {
        return mi_good_size(asked(bytes));
    }

    void[] allocate(size_t bytes) shared const @trusted
    {
        return bytes ? sliced(mi_malloc(asked(bytes)), bytes) : null;
    }

    void[] alignedAllocate(size_t bytes, uint alignment) shared const @trusted
    {
        return bytes ? sliced(mi_malloc_aligned(asked(bytes), alignment), bytes) : null;
    }

    bool expand(ref void[] block, size_t delta) shared const @system
    {
        return grown(block, delta);
    }

    bool reallocate(ref void[] block, size_t bytes) shared const @system
    {
        return bytes ? moved(block, mi_realloc(block.ptr, asked(bytes)), bytes) : emptied(block);
    }

    bool alignedReallocate(ref void[] block, size_t bytes, uint alignment) shared const @system
    {
        return bytes ? moved(block, mi_realloc_aligned(block.ptr, asked(bytes), alignment), bytes) : emptied(block);
    }

    bool deallocate(void[] block) shared const @system
    {
        return emptied(block);
    }
}

/// A set of blocks that can be freed at once, at the latest with it. Any thread may allocate from it, at the same time as
/// others. It cannot be copied.
struct MimallocHeap
{
nothrow @nogc:
    enum uint alignment = natural;
    private mi_heap_t* raw; // made when first used, so that MimallocHeap.init is a heap

    @disable this(this);

    ~this() @trusted
    {
        deallocateAll();
    }

    /// The heap as C knows it, for other functions; null if there is no memory for it. It must not be ended by them. The
    /// first call must be over before other threads use the heap.
    mi_heap_t* handle() @trusted
    {
        if (raw is null)
            raw = mi_heap_new();
        return raw;
    }

    size_t goodAllocSize(size_t bytes) const @trusted
    {
        return mi_good_size(asked(bytes));
    }

    void[] allocate(size_t bytes) @trusted
    {
        return bytes && handle ? sliced(mi_heap_malloc(raw, asked(bytes)), bytes) : null;
    }

    void[] alignedAllocate(size_t bytes, uint alignment) @trusted
    {
        return bytes && handle ? sliced(mi_heap_malloc_aligned(raw, asked(bytes), alignment), bytes) : null;
    }

    bool expand(ref void[] block, size_t delta) @system
    {
        return grown(block, delta);
    }

    bool reallocate(ref void[] block, size_t bytes) @system
    {
        if (!bytes)
            return emptied(block);
        return handle && moved(block, mi_heap_realloc(raw, block.ptr, asked(bytes)), bytes);
    }

    bool alignedReallocate(ref void[] block, size_t bytes, uint alignment) @system
    {
        if (!bytes)
            return emptied(block);
        return handle && moved(block, mi_heap_realloc_aligned(raw, block.ptr, asked(bytes), alignment), bytes);
    }

    bool deallocate(void[] block) @system
    {
        return emptied(block);
    }

    /// Frees all blocks; the heap can be used again.
    bool deallocateAll() @system
    {
        if (raw !is null)
            mi_heap_destroy(raw);
        raw = null;
        return true;
    }

    Ternary owns(const void[] block) const @trusted
    {
        return Ternary(raw !is null && block.ptr !is null && mi_heap_contains(cast(mi_heap_t*) raw, block.ptr));
    }
}

private nothrow @nogc @system:

/// How long a block must be to be aligned.
size_t asked(size_t bytes)
{
    return bytes < natural ? natural : bytes;
}

void[] sliced(void* block, size_t bytes)
{
    return block ? block[0 .. bytes] : null;
}

bool grown(ref void[] block, size_t delta)
{
    if (delta == 0)
        return true;
    const bytes = block.length + delta;
    if (block.ptr is null || bytes < delta || !mi_expand(block.ptr, bytes))
        return false;
    block = block.ptr[0 .. bytes];
    return true;
}

bool moved(ref void[] block, void* to, size_t bytes)
{
    if (to !is null)
        block = to[0 .. bytes];
    return to !is null;
}

bool emptied(ref void[] block)
{
    mi_free(block.ptr);
    block = null;
    return true;
}
