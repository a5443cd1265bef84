// The memory allocator libmimalloc as a shared library: programs that start with it in front of libc run on it.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");

/** The shared library: what LD_PRELOAD needs. */
const path = fs.realpathSync(`${__dirname}/libmimalloc/libmimalloc.so`);

/** The variables of a program that is to run on the library, from those it would have. */
function environment(variables = process.env) {
  if (/[ :]/.test(path)) {
    // The loader would take it for several names, say that there are no such files, and start the program without.
    throw new Error(
      `LD_PRELOAD cannot hold ${JSON.stringify(path)}: spaces and colons divide it. Move the package, ` +
        "or set LD_PRELOAD to a link to the library whose path has neither",
    );
  }
  const before = variables.LD_PRELOAD;
  return { ...variables, LD_PRELOAD: before ? `${path}:${before}` : path };
}

/**
 * Starts a program on the library, as `child_process.spawn` does; what that child starts runs on it, too. The arguments may
 * be left out.
 */
function run(command, args, options) {
  if (!Array.isArray(args)) {
    options = args ?? options; // null and undefined stand for no arguments
    args = [];
  }
  options ??= {};
  return spawn(command, args, { ...options, env: environment(options.env) });
}

/** Whether this process runs on the library of this package. */
function isActive() {
  return fs.readFileSync("/proc/self/maps", "utf8").split("\n").some((line) => line.endsWith(` ${path}`));
}

module.exports = { path, environment, run, isActive };
