// SPDX-License-Identifier: MIT
//! The memory allocator libmimalloc as a `std.mem.Allocator`, and heaps whose blocks go at once.
const std = @import("std");
const Alignment = std.mem.Alignment;

/// What is used here of the C interface (mimalloc.h).
pub const c = struct {
    pub const mi_heap_t = opaque {};
    pub extern fn mi_malloc_aligned(size: usize, alignment: usize) callconv(.c) ?*anyopaque;
    pub extern fn mi_heap_malloc_aligned(heap: *mi_heap_t, size: usize, alignment: usize) callconv(.c) ?*anyopaque;
    pub extern fn mi_expand(p: ?*anyopaque, newsize: usize) callconv(.c) ?*anyopaque;
    pub extern fn mi_realloc_aligned(p: ?*anyopaque, newsize: usize, alignment: usize) callconv(.c) ?*anyopaque;
    pub extern fn mi_heap_realloc_aligned(heap: *mi_heap_t, p: ?*anyopaque, newsize: usize, alignment: usize) callconv(.c) ?*anyopaque;
    pub extern fn mi_free_size_aligned(p: ?*anyopaque, size: usize, alignment: usize) callconv(.c) void;
    pub extern fn mi_heap_new() callconv(.c) ?*mi_heap_t;
    pub extern fn mi_heap_destroy(heap: *mi_heap_t) callconv(.c) void;
    pub extern fn mi_heap_contains(heap: *mi_heap_t, p: ?*const anyopaque) callconv(.c) bool;
    pub extern fn mi_collect(force: bool) callconv(.c) void;
    pub extern fn mi_version() callconv(.c) c_int;
};

/// Any thread may use it, and free what another one allocated.
pub const allocator: std.mem.Allocator = .{ .ptr = undefined, .vtable = &.{
    .alloc = alloc,
    .resize = resize,
    .remap = remap,
    .free = free,
} };

/// The version of the library in the program, 30403 for 3.4.3.
pub fn version() u32 {
    return @intCast(c.mi_version());
}

/// Gives unused memory back to the system, all of it and at once.
pub fn collect() void {
    c.mi_collect(true);
}

/// A set of blocks that can be freed at once. Any thread may allocate from it, at the same time as others.
pub const Heap = struct {
    raw: *c.mi_heap_t,

    pub fn init() std.mem.Allocator.Error!Heap {
        return .{ .raw = c.mi_heap_new() orelse return error.OutOfMemory };
    }

    /// Frees the heap and all that is in it.
    pub fn deinit(heap: Heap) void {
        c.mi_heap_destroy(heap.raw);
    }

    pub fn allocator(heap: Heap) std.mem.Allocator {
        return .{ .ptr = heap.raw, .vtable = &.{
            .alloc = heapAlloc,
            .resize = resize,
            .remap = heapRemap,
            .free = free,
        } };
    }

    /// Whether an address is in a block of this heap.
    pub fn contains(heap: Heap, address: *const anyopaque) bool {
        return c.mi_heap_contains(heap.raw, address);
    }
};

fn alloc(_: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    return @ptrCast(c.mi_malloc_aligned(len, alignment.toByteUnits()));
}

fn heapAlloc(heap: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    return @ptrCast(c.mi_heap_malloc_aligned(@ptrCast(heap), len, alignment.toByteUnits()));
}

fn resize(_: *anyopaque, memory: []u8, _: Alignment, new_len: usize, _: usize) bool {
    return c.mi_expand(memory.ptr, new_len) != null;
}

fn remap(_: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, _: usize) ?[*]u8 {
    return @ptrCast(c.mi_realloc_aligned(memory.ptr, new_len, alignment.toByteUnits()));
}

fn heapRemap(heap: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, _: usize) ?[*]u8 {
    return @ptrCast(c.mi_heap_realloc_aligned(@ptrCast(heap), memory.ptr, new_len, alignment.toByteUnits()));
}

fn free(_: *anyopaque, memory: []u8, alignment: Alignment, _: usize) void {
    c.mi_free_size_aligned(memory.ptr, memory.len, alignment.toByteUnits());
}
