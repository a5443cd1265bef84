#!/usr/bin/env node
// Runs node, or another program, on the library: it gets our place as far as a child can, input, output, signals and status.
"use strict";
const { constants } = require("node:os");
const { run } = require("./index.js");

const USAGE = `Runs a program on libmimalloc:
  libmimalloc script.js [argument...]        node, with its options in front of the script
  libmimalloc --run program [argument...]    any program`;

const args = process.argv.slice(2);
const [command, ...rest] = args[0] === "--run" ? args.slice(1) : [process.execPath, ...args];
if (args.length === 0 || command === undefined) {
  console.error(USAGE);
  process.exit(1);
}

function start() {
  try {
    return run(command, rest, { stdio: "inherit" });
  } catch (error) {
    console.error(`libmimalloc: ${error.message}`);
    process.exit(126);
  }
}

const child = start();
// The terminal sends SIGINT to the child as well; it decides what that means.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP", "SIGUSR2"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("error", (error) => {
  console.error(`libmimalloc: ${error.message}`);
  process.exitCode = error.code === "ENOENT" ? 127 : 126;
});
child.on("exit", (code, signal) => {
  process.exitCode = signal ? 128 + constants.signals[signal] : code; // as a shell says it
});
