// SPDX-License-Identifier: MIT
//! The allocators with the standard library's own tests of allocators, and what is ours alone: heaps.
const std = @import("std");
const mimalloc = @import("mimalloc");
const testing = std.testing;

test "version" {
    try testing.expectEqual(30403, mimalloc.version());
}

/// Blocks of all sizes and alignments, resized and moved, keep what is in them.
fn exercise(allocator: std.mem.Allocator) !void {
    inline for (.{ 1, 16, 64, 4096, 1 << 20 }) |alignment| {
        for ([_]usize{ 1, 7, 100, 5000, 300_000 }) |len| {
            var block = try allocator.alignedAlloc(u8, .fromByteUnits(alignment), len);
            try testing.expect(std.mem.isAligned(@intFromPtr(block.ptr), alignment));
            for (block, 0..) |*byte, at| byte.* = @truncate(at);
            block = try allocator.realloc(block, len * 3);
            try testing.expect(std.mem.isAligned(@intFromPtr(block.ptr), alignment));
            if (allocator.resize(block, len)) block.len = len;
            for (block[0..len], 0..) |byte, at| try testing.expectEqual(@as(u8, @truncate(at)), byte);
            allocator.free(block);
        }
    }
    try testing.expectError(error.OutOfMemory, allocator.alloc(u8, 1 << 62));
}

test "blocks keep what is in them" {
    try exercise(mimalloc.allocator);
    const heap: mimalloc.Heap = try .init();
    defer heap.deinit();
    try exercise(heap.allocator());
}

test "resize stays where it is" {
    const block = try mimalloc.allocator.alloc(u8, 1000);
    defer mimalloc.allocator.free(block);
    try testing.expect(mimalloc.allocator.resize(block, 900) and mimalloc.allocator.resize(block, 1000));
    try testing.expect(!mimalloc.allocator.resize(block, 1 << 20));
}

test "containers" {
    const heap: mimalloc.Heap = try .init();
    var map: std.AutoHashMapUnmanaged(u64, u64) = .empty;
    for (0..100_000) |i| try map.put(heap.allocator(), i, i * i);
    try testing.expectEqual(99_999 * 99_999, map.get(99_999).?);
    try testing.expect(heap.contains(map.getPtr(7).?));
    heap.deinit(); // with the map in it
}

test "blocks are in their heap" {
    const heap: mimalloc.Heap = try .init();
    defer heap.deinit();
    const ours, const others = .{ try heap.allocator().create(u64), try mimalloc.allocator.create(u64) };
    defer mimalloc.allocator.destroy(others);
    try testing.expect(heap.contains(ours) and !heap.contains(others));
    const moved = try heap.allocator().realloc(try heap.allocator().alloc(u8, 10), 100_000);
    try testing.expect(heap.contains(moved.ptr));
}

test "threads free what others allocated" {
    const heap: mimalloc.Heap = try .init();
    defer heap.deinit();
    const work = struct {
        fn make(allocator: std.mem.Allocator, blocks: [][]u32, mark: u32) void {
            for (blocks, 1..) |*block, len| {
                block.* = allocator.alloc(u32, len) catch unreachable;
                @memset(block.*, mark);
            }
        }
    };
    var blocks: [4][500][]u32 = undefined;
    var threads: [4]std.Thread = undefined;
    for (&threads, &blocks, 0..) |*thread, *mine, i| {
        const allocator = if (i % 2 == 0) mimalloc.allocator else heap.allocator();
        thread.* = try std.Thread.spawn(.{}, work.make, .{ allocator, mine, @as(u32, @intCast(i)) });
    }
    for (threads, &blocks, 0..) |thread, *theirs, i| {
        thread.join();
        for (theirs) |block| {
            for (block) |value| try testing.expectEqual(i, value);
            mimalloc.allocator.free(block);
        }
    }
}
