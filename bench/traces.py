#!/usr/bin/python3
"""Record the traces of real programs that are workloads of the benchmark (bench/traces), and measure what recording costs.

  bench/traces.py --record [NAME...]       runs the programs of bench/macro with libmimalloc-trace.so, and writes bench/traces anew
  bench/traces.py --measure --rounds 7     time with and without a trace, in turns; bytes a call; many threads, many calls
  bench/traces.py --list                   what each trace says

A trace in the repository is the first calls of one process, as many as fit into 100 KB when they are compressed; it has no
addresses, no contents, and of the command line only the program's name.
"""
import argparse
import lzma
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

from suite import catalog, measure  # noqa: E402  found by the line above
from suite.context import Context, environment, libc  # noqa: E402

ROOT = BENCH.parent
RELEASE = ROOT / "build" / "release"
RECORDER, PLAYER = RELEASE / "mimalloc-trace" / "libmimalloc-trace.so", RELEASE / "mimalloc-player"
MOST_BYTES = 100_000  # of a compressed trace
MOST_CALLS = 1_000_000
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 3, "pb": 0}]

# The trace: the program of bench/macro, with inputs of which scale. Of its processes the one with most calls is taken.
RECIPES = {"python": "quick", "perl": "tiny", "jq": "tiny", "sqlite": "quick", "lua": "tiny", "gcc": "tiny", "clang": "tiny",
           "xmllint": "tiny", "node": "tiny", "redis": "tiny", "ripgrep": "quick", "rocksdb": "tiny"}
MEASURED = {"python": "quick", "perl": "quick", "jq": "quick", "sqlite": "quick", "gcc": "quick", "xmllint": "quick", "rocksdb": "quick"}

# Threads and calls without a program around them: the worst case.
LOOP = r"""
#include <pthread.h>
#include <stdlib.h>
static long count;
static void* run(void* argument) { /* replaces random blocks of 1000 */
  void* live[1000] = {0};
  unsigned seed = (unsigned)(size_t)argument;
  for (long i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    void** const place = &live[(seed >> 8) % 1000];
    free(*place);
    *place = malloc(16 + (seed >> 20) % 200);
  }
  for (int i = 0; i < 1000; i++) free(live[i]);
  return NULL;
}
int main(int argc, char** argv) {
  const int threads = argc > 2 ? atoi(argv[1]) : 1;
  count = argc > 2 ? atol(argv[2]) : 1;
  pthread_t id[1000];
  for (int i = 0; i < threads; i++) pthread_create(&id[i], NULL, run, (void*)(size_t)i);
  for (int i = 0; i < threads; i++) pthread_join(id[i], NULL);
  return 0;
}
"""
LOOPS = {"10 million calls": (1, 5_000_000), "10 million calls, 2 threads": (2, 2_500_000), "10 million calls, 100 threads": (100, 50_000)}


def fail(message):
    sys.exit(f"traces: {message}")


def variables(folder):
    """What has a program recorded. The system's library is preloaded, too: some programs are linked with another malloc."""
    system = libc().get("LD_PRELOAD", "")
    return {"LD_PRELOAD": f"{RECORDER}:{system}" if system else str(RECORDER), "MIMALLOC_TRACE": f"{folder}/%n.%p"}


def info(trace, *options):
    """{key: the rest of the line} of what the player says."""
    done = subprocess.run([PLAYER, trace, "--info", *options], capture_output=True, text=True, check=False)
    return dict(re.findall(r"^(\w+(?:, \w+| in it)?) +(.*)$", done.stdout, re.M))


def calls(trace):
    return int(info(trace).get("calls", "0").split(",")[0])


def workload(name):
    found = [program for program in catalog.all_workloads() if program.name == name and program.kind == "macro"]
    if not found or found[0].missing():
        fail(f"{name}: {found[0].missing() if found else 'there is no such program in bench/macro'}")
    return found[0]


def packed(trace, count, folder):
    """The first so many calls, compressed."""
    part = pathlib.Path(folder) / "part"
    part.unlink(missing_ok=True)
    subprocess.run([PLAYER, trace, "--cut", str(count), part], check=True)
    return lzma.compress(part.read_bytes(), lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=FILTERS)


def fit(trace, folder):
    """(compressed trace, calls): as many as fit."""
    low, high = 0, min(calls(trace), MOST_CALLS)
    best, count = b"", high
    for _ in range(8):
        data = packed(trace, count, folder)
        if len(data) <= MOST_BYTES:
            best, low = data, count
            if count == high:
                break
        else:
            high = count
        if high - low < 0.02 * high:
            break
        count = low + (high - low) // 2 if best else max(1, int(count * MOST_BYTES / len(data)))
    return best, low


def record(names):
    catalog.TRACES.mkdir(exist_ok=True)
    for name in names or RECIPES:
        if name not in RECIPES:
            fail(f"{name}: there are {', '.join(RECIPES)}")
        program, scale = workload(name), RECIPES[name]
        program.make_inputs(scale)
        with tempfile.TemporaryDirectory(prefix="traces-") as folder:
            with Context(program.folder(scale), scale, variables(folder)) as context:
                program.run(context)
            found = max(pathlib.Path(folder).iterdir(), key=calls, default=None)
            if found is None:
                fail(f"{name}: nothing was recorded")
            data, count = fit(found, folder)
            (catalog.TRACES / f"{name}.trace.xz").write_bytes(data)
            print(f"{name}: {found.name.rpartition('.')[0]}, {count:,} of {calls(found):,} calls, {len(data):,} bytes", flush=True)


def show():
    print("| trace | calls | threads | blocks at once | MiB at once | bytes |\n| --- | --- | --- | --- | --- | --- |")
    for path in sorted(catalog.TRACES.glob("*.xz")):
        with tempfile.NamedTemporaryFile() as file:
            file.write(lzma.decompress(path.read_bytes()))
            file.flush()
            said = info(file.name)
        peak, blocks = (int(word) for word in re.findall(r"\d+", said["live, most"]))
        print(f"| {path.name.split('.')[0]} | {int(said['calls'].split(',')[0]):,} | {said['threads'].split(',')[0]} | {blocks:,} "
              f"| {peak / (1 << 20):.1f} | {path.stat().st_size:,} |")


def in_turns(runs, rounds):
    """{key: [what each round returned]}; the first round does not count."""
    found = {key: [] for key in runs}
    for number in range(rounds + 1):
        for key in list(runs)[::1 if number % 2 else -1]:
            value = runs[key]()
            if number:
                found[key].append(value)
    return found


def ratio(found, index):
    """Median of the rounds' ratios, and their range."""
    ratios = sorted(traced[index] / plain[index] for traced, plain in zip(found["traced"], found["plain"]))
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"


def measured(run_once, rounds, folder):
    """A row: CPU time with and without, wall time, bytes a call. run_once(variables) -> (CPU seconds, wall seconds)"""
    sizes = []

    def traced():
        for old in folder.iterdir():
            old.unlink()
        times = run_once(variables(folder))
        largest = max(folder.iterdir(), key=lambda path: path.stat().st_size)
        sizes.append((sum(path.stat().st_size for path in folder.iterdir()), sum(calls(path) for path in folder.iterdir()), info(largest)))
        return times

    found = in_turns({"plain": lambda: run_once(libc()), "traced": traced}, rounds)
    plain = [statistics.median(times[index] for times in found["plain"]) for index in (0, 1)]
    bytes_, count, _ = sizes[-1]
    return f"{count / 1e6:.2f} | {plain[0]:.2f} | {ratio(found, 0)} | {ratio(found, 1)} | {bytes_ / count:.2f}"


def measure_costs(rounds):
    print("| program | calls, millions | CPU time without, s | with trace, times | wall time, times | bytes a call |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory(prefix="traces-") as scratch:
        folder = pathlib.Path(scratch) / "traces"
        folder.mkdir()

        def program_once(program, scale):
            def run(extra):
                done = measure.run_macro(program, extra, scale)
                if done.status != "ok":
                    fail(f"{program.name}: {done.reason}")
                return done.user + done.system, done.wall
            return run

        def loop_once(arguments):
            def run(extra):
                done, _ = measure.run_command([f"{scratch}/loop", *map(str, arguments)], environment(peer=extra), 120)
                return done.user + done.system, done.wall
            return run

        for name, scale in MEASURED.items():
            program = workload(name)
            program.make_inputs(scale)
            print(f"| {name} | {measured(program_once(program, scale), rounds, folder)} |", flush=True)
        (pathlib.Path(scratch) / "loop.c").write_text(LOOP)
        subprocess.run(["cc", "-O2", "-fno-builtin", f"{scratch}/loop.c", "-o", f"{scratch}/loop", "-pthread"], check=True)
        for name, arguments in LOOPS.items():
            print(f"| {name} | {measured(loop_once(arguments), rounds, folder)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", nargs="*", metavar="NAME", help="these, or all")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not PLAYER.exists():
        fail("not built: make")
    os.umask(0o022)
    if arguments.record is not None:
        record(arguments.record)
    if arguments.measure:
        measure_costs(arguments.rounds)
    if arguments.list or (arguments.record is None and not arguments.measure):
        show()


if __name__ == "__main__":
    main()
