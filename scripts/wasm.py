#!/usr/bin/env python3
"""How long a malloc and free takes on WebAssembly under node, beside the malloc of wasi-libc and those of Emscripten.

Usage: wasm.py [--rounds N]
Builds test/wasm/pairs.c with each, runs them in turn, and prints the medians in nanoseconds as rows of a table, with the lowest
and highest ratio of the rounds. The machine must have nothing else to do: the ratios differ by a half otherwise.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "test" / "wasm" / "pairs.c"
FLAGS = ["-O2", "-fno-builtin", f"-I{ROOT / 'include'}"]
WASI = ["clang", "--target=wasm32-wasi", *FLAGS, SOURCE]
EMSCRIPTEN = ["emcc", *FLAGS, SOURCE, "-sALLOW_MEMORY_GROWTH"]
THREADS = ["emcc", *FLAGS, SOURCE, "-pthread", "-sPTHREAD_POOL_SIZE=4", "-sEXIT_RUNTIME=1", "-sINITIAL_MEMORY=128MB"]
PLAIN = ["-DPLAIN"]
# What it is built for -> whose malloc -> what is added to the command, and the end of the program's name.
PROGRAMS = {
    "wasi": (WASI, ".wasm", {"ours": [], "wasi-libc": PLAIN}),
    "emscripten": (EMSCRIPTEN, ".js", {"ours": [], **{m: [*PLAIN, f"-sMALLOC={m}"] for m in ("dlmalloc", "emmalloc")}}),
    "emscripten-threads": (THREADS, ".js", {"ours": [], **{m: [*PLAIN, f"-sMALLOC={m}"] for m in ("dlmalloc", "emmalloc")}}),
}
ENVIRONMENT = {**os.environ, "NODE_PATH": "/usr/share/nodejs"}


def call(*command):
    return subprocess.run([str(part) for part in command], cwd=ROOT, env=ENVIRONMENT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def measure(program):
    runner = ["--no-warnings", "--single-threaded", ROOT / "test/wasm/wasi.mjs"] if program.suffix == ".wasm" else ["--no-experimental-fetch"]
    lines = call("node", *runner, program).splitlines()
    return {name: float(value) for name, value in (line.split(": ") for line in lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        for preset, (command, suffix, whose) in PROGRAMS.items():
            call("cmake", "--preset", preset)
            call("cmake", "--build", "--preset", preset)
            programs = {name: pathlib.Path(folder) / f"{name}-{preset}{suffix}" for name in whose}
            for name, flags in whose.items():
                archive = [] if "-DPLAIN" in flags else [ROOT / "build" / preset / "libmimalloc.a"]
                call(*command, *flags, *archive, "-o", programs[name])
            seen = [{name: measure(program) for name, program in programs.items()} for _ in range(rounds)]
            print(f"\n| {preset}, ns | {' | '.join(whose)} |\n| --- |{' --- |' * len(whose)}")
            for pattern in seen[0]["ours"]:
                cells = []
                for name in whose:
                    median = statistics.median(run[name][pattern] for run in seen)
                    ratios = sorted(run["ours"][pattern] / run[name][pattern] for run in seen)
                    spread = f"{statistics.median(ratios):.2f}, {ratios[0]:.2f} to {ratios[-1]:.2f}"
                    cells.append(f"{median:.0f}" if name == "ours" else f"{median:.0f} ({spread})")
                print(f"| {pattern} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
