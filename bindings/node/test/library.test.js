// The package's functions and its command: who runs on the library, and what passes through.
"use strict";
const assert = require("node:assert/strict");
const { spawn, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const test = require("node:test");

const mimalloc = require("..");
const CLI = require.resolve("../cli.js");
const NODE = process.execPath;
const IS_ACTIVE = `require(${JSON.stringify(require.resolve(".."))}).isActive()`;

function cli(args, options = {}) {
  return spawnSync(NODE, [CLI, ...args], { encoding: "utf8", ...options });
}

function ended(child) {
  let output = "";
  child.stdout.on("data", (part) => (output += part));
  return new Promise((done) => child.on("close", (status, signal) => done({ status, signal, output })));
}

test("this process does not run on it", () => {
  assert.equal(mimalloc.isActive(), false);
  assert.ok(fs.statSync(mimalloc.path).isFile());
});

test("what run starts does, and so do its children", async () => {
  const child = `console.log(${IS_ACTIVE}, require("node:child_process").execFileSync(process.execPath, ["-p", "${IS_ACTIVE.replaceAll('"', '\\"')}"], { encoding: "utf8" }))`;
  const seen = await ended(mimalloc.run(NODE, ["-e", child]));
  assert.deepEqual(seen, { status: 0, signal: null, output: "true true\n\n" });
});

test("run keeps variables and what is preloaded already", async () => {
  const env = { A: "b", LD_PRELOAD: "libm.so.6" };
  const seen = await ended(mimalloc.run("/bin/sh", ["-c", 'echo "$A $LD_PRELOAD"'], { env }));
  assert.equal(seen.output, `b ${mimalloc.path}:libm.so.6\n`);
  assert.deepEqual(mimalloc.environment({}), { LD_PRELOAD: mimalloc.path });
  assert.deepEqual(env, { A: "b", LD_PRELOAD: "libm.so.6" });
});

test("run takes options without arguments", async () => {
  const options = { env: { A: "b" } };
  for (const args of [[options], [undefined, options], [null, options], [[], options]]) {
    const child = mimalloc.run("/bin/sh", ...args);
    child.stdin.end('echo "$A $LD_PRELOAD"');
    assert.equal((await ended(child)).output, `b ${mimalloc.path}\n`);
  }
  const child = mimalloc.run("/bin/sh");
  child.stdin.end('echo "$LD_PRELOAD"');
  assert.equal((await ended(child)).output, `${mimalloc.path}\n`);
});

test("a path that LD_PRELOAD cannot hold is refused", () => {
  for (const name of ["with space", "with:colon"]) {
    const folder = fs.mkdtempSync(`${os.tmpdir()}/libmimalloc-`);
    try {
      const copy = `${fs.realpathSync(folder)}/${name}`;
      fs.mkdirSync(`${copy}/libmimalloc`, { recursive: true });
      for (const file of ["index.js", "cli.js", "package.json", "libmimalloc/libmimalloc.so"]) {
        fs.copyFileSync(`${__dirname}/../${file}`, `${copy}/${file}`);
      }
      const library = JSON.stringify(`${copy}/libmimalloc/libmimalloc.so`);
      const expected = `LD_PRELOAD cannot hold ${library}: spaces and colons divide it.`;
      const other = require(copy);
      assert.throws(() => other.environment({}), (error) => error.message.startsWith(expected));
      assert.throws(() => other.run("true"), (error) => error.message.startsWith(expected));
      const seen = spawnSync(NODE, [`${copy}/cli.js`, "-p", "1"], { encoding: "utf8" });
      assert.equal(seen.status, 126);
      assert.equal(seen.stdout, "");
      assert.ok(seen.stderr.startsWith(`libmimalloc: ${expected}`), seen.stderr);
      // What the message says works.
      fs.symlinkSync(other.path, `${folder}/link.so`);
      const ran = spawnSync(NODE, ["-p", `require(${JSON.stringify(copy)}).isActive()`], { encoding: "utf8", env: { LD_PRELOAD: `${folder}/link.so` } });
      assert.equal(ran.stdout, "true\n");
      assert.equal(ran.stderr, "");
    } finally {
      fs.rmSync(folder, { recursive: true });
    }
  }
});

test("worker threads and much memory", async () => {
  const program = `
    const { Worker } = require("node:worker_threads");
    const work = 'let kept = []; for (let i = 0; i < 2000; i++) kept[i % 50] = Buffer.alloc(1 + i * 97 % 100000, i & 255);' +
      'if (!kept.every((b) => b.every((byte) => byte === b[0]))) throw new Error("changed"); require("zlib").gzipSync(kept[0]);';
    let left = 4;
    for (let i = 0; i < 4; i++) new Worker(work, { eval: true }).on("exit", (code) => {
      if (code) process.exitCode = code;
      if (!--left) console.log("done", ${IS_ACTIVE});
    });`;
  const seen = await ended(mimalloc.run(NODE, ["-e", program]));
  assert.deepEqual(seen, { status: 0, signal: null, output: "done true\n" });
});

test("statistics of the library come at the end", () => {
  const seen = cli(["-e", "Buffer.alloc(1e6)"], { env: { ...process.env, MIMALLOC_SHOW_STATS: "1" } });
  assert.match(seen.stderr, /committed/);
});

test("command: node's options, arguments, input and status pass through", () => {
  const program = "console.log(typeof gc, process.argv.slice(1).join(), require('node:fs').readFileSync(0, 'utf8')); process.exit(41)";
  const seen = cli(["--expose-gc", "-e", program, "--", "a", "--run"], { input: "text" });
  assert.deepEqual([seen.status, seen.stdout, seen.stderr], [41, "function a,--run text\n", ""]);
  assert.equal(cli(["-p", IS_ACTIVE]).stdout, "true\n");
});

test("command: other programs", () => {
  assert.match(cli(["--run", "cat", "/proc/self/maps"]).stdout, new RegExp(`${mimalloc.path}$`, "m"));
  const missing = cli(["--run", "no-such-program-is-here"]);
  assert.deepEqual([missing.status, /ENOENT/.test(missing.stderr)], [127, true]);
  for (const args of [[], ["--run"]]) {
    const seen = cli(args);
    assert.deepEqual([seen.status, /libmimalloc script\.js/.test(seen.stderr)], [1, true]);
  }
});

test("command: a signal that ends the program is told", () => {
  assert.equal(cli(["-e", "process.kill(process.pid, 'SIGKILL'); setTimeout(() => {}, 1e5)"]).status, 128 + 9);
});

test("command: signals reach the program", { timeout: 20000 }, async () => {
  const program = "process.on('SIGTERM', () => process.exit(7)); console.log('ready'); setTimeout(() => {}, 1e5)";
  const child = spawn(NODE, [CLI, "-e", program]);
  child.stdout.once("data", () => child.kill("SIGTERM"));
  const seen = await ended(child);
  assert.deepEqual([seen.status, seen.output], [7, "ready\n"]);
});
