#!/usr/bin/env python3
"""Real programs on the system's malloc and on ours, side by side.

Usage: demo.py [--library FILE] [--rounds N] [--only TEXT]

Every program runs N times with each malloc, in turns (A B A B ...), and the table shows medians. Before
each run half a GiB is touched and given back, off the clock: the first touch of memory that the host
took back is slow, and would be charged to whoever comes first.
  time      wall clock of the program; for redis, of redis-benchmark against it
  memory    peak resident memory of the program (for redis of the server)
  faults    minor page faults of the program
"""
import argparse
import hashlib
import mmap
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
WARM_BYTES = 1 << 29  # the largest program below takes half of it

CHURN = r"""
import collections, json, random, re
random.seed(1)
words = ["".join(random.choices("abcdefghij", k=random.randint(2, 12))) for _ in range(40000)]
index, texts = collections.defaultdict(list), []
for i in range(300000):
    index[words[i * 7919 % len(words)]].append((i, str(i)))
for r in range(20):
    row = {w: [n for n, _ in index[w][r % 3:]] for w in words[r::20]}
    texts.append(json.dumps(row))
    if r % 3 == 2:
        del texts[0]
back = [json.loads(t) for t in texts]
tree = None
for i in random.sample(range(200000), 200000):
    tree = (tree, i) if i % 3 else (i, None)
found = re.findall(r'"(\w+)": \[(\d+)', "".join(texts))
print(len(index), sum(len(b) for b in back), len(found), hash(str(sorted(found)[:1000])) & 0xffff)
"""

TEMPLATES = r"""
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
template <int N> struct Tag {
  std::map<std::string, std::variant<int, std::string, std::vector<Tag<N - 1>>>> m;
  std::unordered_map<int, std::function<int(Tag<N - 1>&)>> f;
};
template <> struct Tag<0> { int v; };
template <int N> std::size_t walk() {
  Tag<N> t; t.m["a"] = N; t.m["b"] = std::string(N, 'b'); t.f[N] = [](Tag<N - 1>&) { return N; };
  std::set<std::pair<int, std::string>> s{{N, "x"}}; std::vector<std::tuple<int, long, std::string>> v(N);
  std::sort(v.begin(), v.end());
  return t.m.size() + s.size() + v.size() + walk<N - 1>();
}
template <> std::size_t walk<0>() { return 0; }
int main() { std::cout << walk<SIZE>() << '\n'; }
"""


def warm():
    """Have the host find memory now, not while a program is measured. In a child, so that it all goes back."""
    child = os.fork()
    if child == 0:
        try:
            with mmap.mmap(-1, WARM_BYTES) as memory:
                for offset in range(0, WARM_BYTES, 4096):
                    memory[offset] = 1
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def environment(preload, extra):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "MIMALLOC_", "PYTHON"))}
    kept.update(LC_ALL="C", PYTHONHASHSEED="0", **extra)
    if preload:
        kept["LD_PRELOAD"] = str(preload)
    return kept


class Run:
    """What one run cost and what it printed."""

    def __init__(self, seconds, kib, faults, output):
        self.seconds, self.kib, self.faults, self.output = seconds, kib, faults, output


def fail(message):
    sys.exit(f"\ndemo: {message}")


def run_program(command, folder, preload, extra=None, outputs=()):
    """Run a program once. The peak is the largest of the program and the processes it waited for."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        child = subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 env=environment(preload, extra or {}))
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        output = out.read()
    if child.returncode:
        fail(f"{' '.join(command)} ended with {child.returncode}:\n{output.decode(errors='replace')[-3000:]}")
    for name in outputs:
        output += (folder / name).read_bytes()
    return Run(seconds, usage.ru_maxrss, usage.ru_minflt, hashlib.sha256(output).hexdigest())


def status_of(pid, field):
    return int(re.search(rf"^{field}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def faults_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[7])


REDIS_FILL = """for i = 1, 150000 do redis.call('set', 'k' .. i, string.rep('v', i % 400)) end
for i = 1, 50000 do redis.call('hset', 'h' .. i % 500, 'f' .. i, string.rep('w', i % 90)) end return redis.call('dbsize')"""
REDIS_READ = """local out = '' for i = 1, 150000, 7 do out = redis.sha1hex(out .. (redis.call('get', 'k' .. i) or '')) end
for i = 0, 499 do out = redis.sha1hex(out .. redis.call('hlen', 'h' .. i)) end return out .. redis.call('dbsize')"""


def run_redis(folder, preload):
    """One server, filled, read back, and under redis-benchmark."""
    socket = str(folder / "socket")
    program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    arguments = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", str(folder)]

    def client(*command, tool="redis-cli"):
        done = subprocess.run([tool, "-s", socket, *command], capture_output=True, text=True, env=environment(None, {}))
        return done.stdout if done.returncode == 0 else ""

    with open(folder / "log", "w") as log:
        server = subprocess.Popen(arguments, executable=program, stdout=log, stderr=log, env=environment(preload, {}))
        try:
            for _ in range(200):
                if client("ping").strip() == "PONG":
                    break
                time.sleep(0.05)
            else:
                fail("redis-server did not start:\n" + (folder / "log").read_text()[-2000:])
            output = client("eval", REDIS_FILL, "0") + client("eval", REDIS_READ, "0")
            start = time.perf_counter()
            bench = client("-q", "-n", "40000", "-c", "30", "-P", "8", "-r", "40000", "-d", "250",
                           "-t", "set,get,lpush,lpop,sadd,hset,zadd,mset", tool="redis-benchmark")
            seconds = time.perf_counter() - start
            if "requests per second" not in bench:
                fail("redis-benchmark failed:\n" + bench + (folder / "log").read_text()[-2000:])
            run = Run(seconds, status_of(server.pid, "VmHWM"), faults_of(server.pid), output)
            client("shutdown", "nosave")
            if server.wait(timeout=30):
                fail(f"redis-server ended with {server.returncode}:\n" + (folder / "log").read_text()[-2000:])
            return run
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()


def libc_path():
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if re.search(r"/libc\.so\.6$|/libc-[\d.]+\.so$", line):
            return line.split(None, 5)[5]
    return None


def uses_other_malloc(program):
    listing = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.search(r"lib(jemalloc|tcmalloc)\w*", listing)


def programs(folder):
    """[(name, what to preload for the system's run, function of what to preload)]"""
    rows = []
    server = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if server and shutil.which("redis-benchmark"):
        rows.append(("redis-server", libc_path() if uses_other_malloc(server) else None,
                     lambda preload: run_redis(folder, preload)))
    else:
        print("demo: redis is not installed, left out")
    # A wrapper script in front of the interpreter would be what is measured.
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
    (folder / "churn.py").write_text(CHURN)
    rows.append(("python3", None, lambda preload: run_program([python, "churn.py"], folder, preload)))
    rows.append(("python3, all by malloc", None, lambda preload: run_program(
        [python, "churn.py"], folder, preload, {"PYTHONMALLOC": "malloc"})))
    if shutil.which("g++"):
        (folder / "heavy.cpp").write_text(TEMPLATES)
        command = ["g++", "-std=c++17", "-O1", "-DSIZE=6", "-c", "heavy.cpp", "-o", "heavy.o"]
        rows.append(("g++, templates", None, lambda preload: run_program(command, folder, preload, outputs=["heavy.o"])))
    else:
        print("demo: g++ is not installed, left out")
    return rows


def progress(text):
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)


def median(runs, field):
    return statistics.median(getattr(run, field) for run in runs)


def print_table(results):
    head = f"{'':<24}{'time, s':^24}{'peak memory, MiB':^26}{'page faults':^26}outputs"
    print(head)
    print(f"{'':<24}" + f"{'system':>8}{'ours':>8}{'ratio':>7} " + 2 * f"{'system':>9}{'ours':>9}{'ratio':>7} " + " equal")
    for name, (system, ours) in results.items():
        line = f"{name:<24}"
        for field, scale, width, digits in (("seconds", 1, 8, 2), ("kib", 1024, 9, 1), ("faults", 1, 9, 0)):
            a, b = median(system, field) / scale, median(ours, field) / scale
            line += f"{a:>{width}.{digits}f}{b:>{width}.{digits}f}{b / a if a else 0:>7.2f} "
        print(line + ("  yes" if len({run.output for run in system + ours}) == 1 else "  NO"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path, help="another library than the one built here")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="only the programs whose name contains this")
    arguments = parser.parse_args()
    library = (arguments.library or BUILD / "libmimalloc.so").resolve()
    if not arguments.library:
        build()
    if not library.exists():
        fail(f"{library} does not exist")

    began, results = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        folder = pathlib.Path(name)
        rows = [row for row in programs(folder) if arguments.only in row[0]]
        notes = [name for name, base, _ in rows if base]
        for number, (title, base, run) in enumerate(rows):
            results[title] = ([], [])
            for round_number in range(arguments.rounds):
                for which, preload in enumerate((base, library)):
                    progress(f"[{number + 1}/{len(rows)}] {title}, round {round_number + 1} of {arguments.rounds}, "
                             f"{('system', 'ours')[which]} ({time.monotonic() - began:.0f} s)")
                    warm()
                    results[title][which].append(run(preload))
    progress("")
    print_table(results)
    equal = all(len({run.output for run in a + b}) == 1 for a, b in results.values())
    print(f"\noutputs equal: {'yes' if equal else 'NO'}")
    print(f"Medians of {arguments.rounds} runs in turns, {time.monotonic() - began:.0f} s in all; system = glibc's malloc.")
    for name in notes:
        print(f"{name} is packaged with another malloc; the system's runs have glibc's put in front of it.")
    shown = library.relative_to(ROOT) if library.is_relative_to(ROOT) else library
    print(f"\nTo run a program of yours:\n  LD_PRELOAD={'$PWD/' if not shown.is_absolute() else ''}{shown} program")
    return 0 if equal and results else 1


def build():
    for command in (["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release"]):
        progress("building the release library")
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            fail(f"{' '.join(command)} failed:\n{done.stdout[-4000:]}")


if __name__ == "__main__":
    sys.exit(main())
