// SPDX-License-Identifier: MIT
//! Builds the module `mimalloc`, with the library in it, compiled from its one C file; `zig build test` runs the tests.
const std = @import("std");

/// Those of cmake/flags.cmake that clang has.
const flags = [_][]const u8{
    "-std=gnu11",       "-fvisibility=hidden", "-ftls-model=initial-exec", "-fno-builtin-malloc",
    "-fno-plt",         "-fexceptions",        "-fno-sanitize=all",        "-fno-semantic-interposition",
    "-DMI_STATIC_LIB",
};

pub fn build(b: *std.Build) void {
    const target = b.standardTargetOptions(.{});
    const optimize = b.standardOptimizeOption(.{});
    const secure = b.option(bool, "secure", "the secure build, level 4") orelse false;
    const debug = b.option(bool, "debug", "the checks of a debug build of the library") orelse false;

    const mimalloc = b.addModule("mimalloc", .{
        .root_source_file = b.path("src/mimalloc.zig"),
        .target = target,
        .optimize = optimize,
        .link_libc = true,
    });
    // As fast as in a release of the library, also where the program is built without optimization.
    const library = b.addLibrary(.{
        .name = "mimalloc",
        .linkage = .static,
        .root_module = b.createModule(.{ .target = target, .optimize = .ReleaseFast, .link_libc = true, .pic = true }),
    });
    library.root_module.addCSourceFile(.{ .file = b.path("../../src/static.c"), .flags = &flags });
    library.root_module.addIncludePath(b.path("../../include"));
    if (secure) library.root_module.addCMacro("MI_SECURE", "4");
    if (debug) {
        library.root_module.addCMacro("MI_DEBUG", "2");
        library.root_module.addCMacro("MI_PADDING", "1");
    }
    mimalloc.linkLibrary(library);

    const tests = b.addTest(.{ .root_module = b.createModule(.{
        .root_source_file = b.path("src/tests.zig"),
        .target = target,
        .optimize = optimize,
        .imports = &.{.{ .name = "mimalloc", .module = mimalloc }},
    }) });
    const run = b.addRunArtifact(tests);
    run.has_side_effects = true; // each time: the environment may have options of the library
    b.step("test", "Run the tests").dependOn(&run.step);
}
