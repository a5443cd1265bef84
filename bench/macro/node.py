"""node on buffers, JSON, compressed data, regular expressions and generated functions, with a worker thread.

JavaScript objects live in a heap that V8 maps itself. malloc serves what is around it: the memory of typed arrays and
buffers of up to 60 KB, their records (three of four blocks have at most 64 bytes), zlib's state, and the zones of
parser and compilers, which live for one function; and it does so from the compilers' and collectors' threads, where
blocks are freed that others allocated. Most of the resident memory is V8's own.
"""
from suite import catalog
from suite.context import checksum

ROUNDS = {"tiny": 1, "quick": 6, "full": 8}
SCRIPT = r"""
const crypto = require('crypto'), zlib = require('zlib');
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
let seed = 1;
const draw = n => { seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff; return (seed >> 8) % n; };
const hash = crypto.createHash('sha256');
function work(rounds) {
  const live = new Array(4000).fill(null);
  for (let turn = 0; turn < rounds; turn++) {
    for (let i = 0; i < 24000; i++) {
      const at = draw(live.length), size = draw(20) ? draw(2000) : draw(60000);
      if (live[at]) hash.update(live[at].subarray(0, 8));
      live[at] = new Uint8Array(size).fill(i & 255);
    }
    const rows = [];
    for (let i = 0; i < 5000; i++) rows.push({ id: i, name: 'n' + draw(1000), tags: ['a' + i % 7, 'b' + i % 11] });
    const text = JSON.stringify(rows), packed = zlib.deflateRawSync(text, { level: 1 });
    hash.update(zlib.inflateRawSync(packed)).update(String(JSON.parse(text).length));
    for (let i = 0; i < 150; i++) {
      const body = Array.from({ length: 40 }, (_, k) => `if (x % ${k + 2} === ${i % (k + 2)}) { y += ${k} * x; }`);
      hash.update(String(new Function('x', `let y = ${turn}; ${body.join(' ')} return y;`)(i + 1000)));
      hash.update(String(text.slice(0, 3000).replace(new RegExp(`n(${i % 10}\\d*)"`, 'g'), '<$1>').length));
    }
  }
  return hash.digest('hex');
}
if (isMainThread) {
  const rounds = Number(process.argv[2]);
  new Worker(__filename, { workerData: rounds }).on('message', theirs => console.log(ours, theirs));
  var ours = work(rounds);
} else {
  seed = 2;
  parentPort.postMessage(work(workerData));
}
"""


def prepare(folder, scale):
    (folder / "work.js").write_text(SCRIPT)


def run(context):
    return checksum(context.finish(["node", context.folder / "work.js", ROUNDS[context.scale]]))


WORKLOAD = catalog.Program(name="node", group="programs", needs=[("node", "nodejs")], prepare=prepare, run=run,
                           sentence="node on typed arrays, JSON, deflate, generated functions, two threads")
