#!/usr/bin/env python3
"""Builds and runs the test programs under the tools that find mistakes with memory and threads; ends with a table.

Usage: scripts/sanitize.py [asan] [tsan] [ubsan] [valgrind]      (no argument: all of them)

Each tool has a CMake preset of its name, built in build/<name>. There are no suppressions. Not built for them are
stress/failing and failing_new, which replace the same functions of libc as the tools do. Exit status 1 if a test failed
or a build did."""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Which tests run (an expression for pytest), which programs of these do not, and what is said about it.
TOOLS = {
    "asan": ("not aarch64", [], ""),
    "tsan": ("not aarch64", ["unit/failure"], "not unit/failure: thousands of processes with one thread each, and slow"),
    "ubsan": ("not aarch64", [], ""),
    "valgrind": ("api and release and not aarch64", [], "only the public interface of the release build: it is slow"),
}
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


def build(name):
    """Whether it worked; the log is beside the build folder."""
    log = ROOT / "build" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as out:
        for command in (["cmake", "--preset", name], ["cmake", "--build", "--preset", name]):
            if subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
                print("\n".join(log.read_text().splitlines()[-40:]), file=sys.stderr)
                print(f"sanitize: the build of preset {name} failed, see {log}", file=sys.stderr)
                return False
    return True


def run(name):
    """The counts of pytest, as text."""
    which, left_out, _ = TOOLS[name]
    environment = {**os.environ, "MI_BUILD_DIR": str(ROOT / "build" / name), "MI_TEST_TIMEOUT": "900"}
    command = [sys.executable, "-m", "pytest", "test/test_native.py", "-q", "-rsf", "-p", "no:cacheprovider", "-k", which,
               *(f"--deselect=test/test_native.py::test_native[{program}" for program in left_out)]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
    output = ""
    for line in process.stdout:
        print(line, end="", flush=True)
        output += line
    process.wait()
    found = COUNTS.findall(output)
    return found[-1] if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", nargs="*", help=f"one of {', '.join(TOOLS)}")
    tools = parser.parse_args().tool or list(TOOLS)
    for name in tools:
        if name not in TOOLS:
            parser.error(f"there is no tool '{name}', only {', '.join(TOOLS)}")
    rows = []
    for name in tools:
        start = time.monotonic()
        counts = run(name) if build(name) else None
        rows.append((name, *(counts or ("-", "did not run", "-")), f"{(time.monotonic() - start) / 60:.1f} min"))
    layout = "{:<10} {:>8} {:>12} {:>8} {:>10}"
    print(layout.format("tool", "passed", "failed", "skipped", "time"))
    for row in rows:
        print(layout.format(*row))
    for name in tools:
        if TOOLS[name][2]:
            print(f"{name}: {TOOLS[name][2]}")
    return 0 if all(row[2] == "0" for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
