"""The benchmark measures what it says: if this fails, a published figure may be wrong.

What is drawn and reckoned from the raw results is tested in test_bench_report.py.
"""
import csv
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
sys.path.insert(0, str(BENCH))

from suite import catalog, measure, peers, raw  # noqa: E402  found by the line above

MIB = 1 << 20
PACKAGES = "numpy, matplotlib, rich, jinja2"
TRACES = [workload for workload in catalog.all_workloads() if workload.kind == "trace"]
MICRO = [workload for workload in catalog.all_workloads() if workload.kind == "micro"]

HOLD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char** argv) { /* MIB MILLISECONDS END */
  size_t size = strtoul(argv[1], NULL, 10) << 20;
  char* p = malloc(size + 1);
  memset(p, 1, size);
  double start = now();
  usleep(1000 * atoi(argv[2]));
  printf("held %.4f\ncheck 0f\nops 7\nseconds 0.25\n", now() - start);
  fflush(stdout);
  if (argc > 3 && strcmp(argv[3], "abort") == 0) abort();
  if (argc > 3) { fprintf(stderr, "something is wrong\n"); return atoi(argv[3]); }
  return p[size / 2] - 1;
}
"""


@pytest.fixture(scope="module")
def hold(tmp_path_factory):
    """A program that takes so many MiB for so many milliseconds."""
    folder = tmp_path_factory.mktemp("hold")
    (folder / "hold.c").write_text(HOLD)
    subprocess.run(["cc", "-O1", str(folder / "hold.c"), "-o", str(folder / "hold")], check=True)
    return str(folder / "hold")


@pytest.fixture(scope="module")
def python():
    """An interpreter that has what the report needs: this one, or the system's; else the tests are skipped."""
    names = PACKAGES.split(", ")
    if all(importlib.util.find_spec(name) for name in names):
        return sys.executable
    done = subprocess.run(["/usr/bin/python3", "-c", f"import {PACKAGES}"], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"one of {PACKAGES} is missing: make deps FOR=bench")
    return "/usr/bin/python3"


@pytest.fixture(scope="session")
def micro():
    """The micro workloads, built."""
    if not (shutil.which("cmake") and shutil.which("ninja")):
        pytest.skip("cmake or ninja is missing")
    for command in (["cmake", "-S", "bench", "-B", "build/bench/cmake", "-G", "Ninja"],
                    ["cmake", "--build", "build/bench/cmake"]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def command(*argv):
    """A workload that is this command."""
    class Command(catalog.Workload):
        def argv(self, scale):
            return [str(part) for part in argv]
    return Command("command", "classic", "a command", timeout=20)


def test_memory_and_faults(hold):
    ballast = bytearray(300 * MIB)  # ours is not the program's
    run = measure.run_micro(command(hold, 64, 400), {}, "tiny")
    del ballast
    assert run.status == "ok", run.reason
    held, size = float(re.search(r"held=(\S+)", run.extra)[1]), 64 * 1024
    assert size * 0.98 <= run.peak_kib <= size * 1.1
    assert 500 < run.file_kib < 8192  # libc and the program, nothing of what it holds
    assert 0.8 * held * size <= run.kib_seconds <= 1.1 * run.wall * size
    assert run.faults >= 500 and run.user + run.system > 0 and 0.4 <= run.wall < 10


def test_memory_of_an_empty_program():
    ballast = bytearray(300 * MIB)
    run, _ = measure.run_command(["true"], measure.environment(), 20)
    del ballast
    assert run.status == "ok" and 100 < run.peak_kib < 8192


def test_memory_of_children(hold):
    shell = f"{hold} 48 300 > /dev/null & {hold} 48 300; wait"
    run = measure.run_micro(command("sh", "-c", shell), {}, "tiny")
    assert run.status == "ok", run.reason
    assert 2 * 48 * 1024 <= run.peak_kib <= 2 * 48 * 1024 * 1.15


def test_curve(hold):
    run = measure.run_micro(command(hold, 32, 300), {}, "tiny")
    points = [tuple(map(int, point.split(":"))) for point in run.curve.split()]
    assert points == sorted(points) and len(points) <= measure.CURVE_POINTS
    assert abs(points[-1][1] / 1024 - 32) < 4 and points[-1][0] >= 250


def test_printed_keys(hold):
    run = measure.run_micro(command(hold, 1, 1), {}, "tiny")
    assert (run.check, run.ops, run.seconds) == ("0f", 7, 0.25) and run.wall != 0.25
    assert run.extra.startswith("held=")


@pytest.mark.parametrize("end, reason", [
    (("abort",), "was killed by SIGABRT"), (("3",), "ended with exit status 3: something is wrong")])
def test_crash_is_recorded(hold, end, reason):
    run = measure.run_micro(command(hold, 16, 50, *end), {}, "tiny")
    assert (run.status, run.reason) == ("failed", reason)
    assert run.peak_kib > 16 * 1024


def test_timeout_is_recorded(hold):
    since = time.monotonic()
    run, _ = measure.run_command(["sh", "-c", f"{hold} 1 60000 & wait"], measure.environment(), 0.5)
    assert (run.status, run.reason) == ("failed", "ran longer than 0.5 s") and time.monotonic() - since < 20
    # A process that was killed is there until its memory is gone.
    while subprocess.run(["pgrep", "-f", f"{hold} 1 60000"], stdout=subprocess.DEVNULL, check=False).returncode == 0:
        assert time.monotonic() - since < 20
        time.sleep(0.05)


def test_missing_program_and_library_are_recorded(hold, tmp_path):
    assert "exit status 127" in measure.run_micro(command(tmp_path / "none"), {}, "tiny").reason
    run = measure.run_micro(command(hold, 1, 1), {"LD_PRELOAD": str(tmp_path / "none.so")}, "tiny")
    assert run.status == "failed" and "cannot be preloaded" in run.reason


def test_disturbance_repeats_the_run(hold):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        runs = list(measure.attempts(command(hold, 1, 300), {}, "tiny", warm_mib=1, repeats=2))
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert len(runs) == 3 and all(run.disturbed and run.disturbance > 0.3 for run in runs)


def test_own_work_is_no_disturbance():
    """Of the program and of its clients: both are children of the harness. Other processes may disturb this test."""
    burn = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"]

    def both(context):
        context.finish(burn)
        context.client(burn)
    program = catalog.Program("two", "programs", "", [], None, both)
    before = measure.busy_seconds()
    run = measure.run_macro(program, {}, "tiny")
    after = measure.busy_seconds()
    assert run.status == "ok", run.reason
    assert run.user + run.system >= 0.4 and after[1] - before[1] >= 0.8


def test_macro_failure_is_recorded():
    def run(context):
        context.finish(["sh", "-c", "echo no >&2; exit 4"])
    found = measure.run_macro(catalog.Program("bad", "programs", "", [], None, run), {}, "tiny")
    assert found.status == "failed" and "sh ended with 4: no" in found.reason and found.peak_kib > 0


def test_catalog():
    assert catalog.broken_files() == []
    used = {pathlib.Path(workload.argv("tiny")[0]).name for workload in MICRO}
    assert used == {path.stem for path in (BENCH / "micro").glob("*.c")}
    for workload in catalog.all_workloads():
        assert workload.sentence and workload.origin and workload.group in catalog.GROUPS, workload.name
    assert [workload.name for workload in catalog.select("larson")] == ["larson"]
    assert len(catalog.select("pairs")) == 6
    for bad in ({"only": "nonsense"}, {"groups": "nonsense"}):
        with pytest.raises(ValueError, match="nonsense"):
            catalog.select(**bad)


@pytest.mark.parametrize("text, message", [
    ("nonsense", "unknown peer 'nonsense'"), ("glibc,glibc", "twice"), ("a b=/bin/true", "needs a name"),
    ("mine=/nowhere/lib.so", "there is no file"), ("ours=/bin/true", "known peer"), ("", "unknown peer ''")])
def test_peers_that_do_not_parse(text, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        peers.parse(text)


@pytest.mark.parametrize("output", [["--output", "/home/me/results"], ["--output=/a b"], []])
def test_no_path_of_one_machine_is_published(output):
    assert raw.command(["--only", "a", *output, "--update-docs"]) == "bench/run.py --only a --update-docs"


def test_raw_results_round_trip(tmp_path):
    path = tmp_path / "raw.csv"
    writer = raw.Writer(path, {"command": "run.py --only a", "peer.ours": "1\n2"})
    run = measure.Run(seconds=0.125, peak_kib=7, check="ab", extra='a=1 b="x"').fail(f"{ROOT}/build/it, said\n\"no\"")
    keys = {"kind": "run", "round": 1, "position": 0, "attempt": 0, "workload": "w", "group": "g", "peer": "ours"}
    writer.row(run, **keys)
    writer.note("a sentence")
    writer.row(measure.Run(), **keys)
    writer.close()
    header, rows = raw.read(path)
    assert header == {"command": "run.py --only a", "peer.ours": "1 2", "note.1": "a sentence"}
    assert len(rows) == 2 and {**rows[0], **keys} == rows[0]
    assert (rows[0]["seconds"], rows[0]["peak_kib"], rows[0]["instructions"]) == (0.125, 7, None)
    assert (rows[0]["reason"], rows[0]["extra"]) == ('build/it, said "no"', 'a=1 b="x"')
    path.write_text(path.read_text()[:-10])  # a line that was cut off
    assert len(raw.read(path)[1]) == 1
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not a file of raw results"):
        raw.read(path)


def test_budget(python):
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); import run\n" \
           "print([run.fit(30, 10, 3, 280), run.fit(10, 10, 3, 300), run.fit(30, 2, 3, 280), run.fit(500, 9, 3, 280)])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[(4, 2), (10, 3), (2, 3), (2, 1)]"


COST = """
import pathlib, types
from suite import catalog
slow, quick = (types.SimpleNamespace(name=name) for name in ("slow", "quick"))
workload = types.SimpleNamespace(name="w", is_long=False)
session = run.Session(types.SimpleNamespace(scale="full", seconds=None, repeats=3, rounds=5), [workload], [slow, quick],
                      None, None)
first = session.warm_mib(workload)
session.peaks["w"] = 100 * 1024
session.costs = {("w", "slow"): 6.0, ("w", "quick"): 1.0, "w": 1.0}
session.fastest["w"] = 1.0
print([first, session.warm_mib(workload)])
print([[session.takes_part(workload, peer, number) for number in (0, 1, 2)] for peer in (slow, quick)])
print(session.round_cost(1), session.round_cost(2))
session.fastest["w"] = 2.0
print(session.takes_part(workload, slow, 2))
session.done_count, session.repeated_count = 10, 2
print(session.repeats(), end=" ")
session.repeated_count = 3
print(session.repeats())
workload.is_long = True
print([session.takes_part(workload, quick, number) for number in (0, 1, 2, 3)])
"""


def test_what_takes_part(python):
    """Slow peers run a workload once, and repeats end when they are many: else a full run takes days."""
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); import run\n{COST}"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[1024, 264]", "[[True, True, False], [True, True, True]]", "7.0 1.0", "True",
                                        "3 0", "[False, True, True, False]"]


def test_error_of_a_build():
    old = "error: failed to parse lock file at: /x/Cargo.lock\n\nCaused by:\n" \
          "  lock file version `4` was found, perhaps Cargo needs to be updated?\n"
    assert "perhaps Cargo needs to be updated" in peers.error_in(old)
    assert peers.error_in("error: could not compile `a`\n x.c:1: error: no\n") == "x.c:1: error: no"


def test_setup_names_what_is_missing(tmp_path):
    """On a machine with nothing, as somebody who may not install: what, and the line to type."""
    for name in ("sh", "dirname", "awk", "tr", "sed", "grep"):
        (tmp_path / name).symlink_to(shutil.which(name))
    for name, text in (("id", "echo 1000"), ("apt-get", "exit 1")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([str(tmp_path / "sh"), "scripts/setup.sh", "--check", "bench"], cwd=ROOT, text=True,
                          capture_output=True, env={"PATH": str(tmp_path)}, check=False)
    *lists, line = done.stderr.strip().splitlines()[-3:]
    assert done.returncode == 1 and line.endswith('type: sudo make deps FOR="bench"')
    needed, left_out = (set(text.rpartition(": ")[2].split()) for text in lists)
    assert {"cmake", "gcc", "python3"} <= needed and not needed & left_out
    for workload in catalog.all_workloads():
        for command, package in workload.needs if workload.kind == "macro" else ():
            assert package in needed | left_out or command.startswith("/") or package in ("util-linux", "rustc"), package


def measured(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@pytest.mark.slow
def test_command_line(python, micro, library, tmp_path):
    base = [python, BENCH / "run.py", "--only", "pairs-16,startup", "--peers", f"glibc,mine={library}", "--no-build",
            "--scale", "tiny", "--repeats", "0", "--no-instructions", "--output", tmp_path]
    done = subprocess.run([*base, "--rounds", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = measured(next(tmp_path.glob("*.csv")))
    assert len(rows) == 2 * 2 * 3 and {row["status"] for row in rows} == {"ok"}
    starts = [row["peer"] for row in rows if row["position"] == "0" and row["workload"] == "startup"]
    assert starts == ["glibc", "mine", "glibc"]  # the order rotates
    for path in tmp_path.iterdir():
        path.unlink()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    going = subprocess.Popen([*base, "--rounds", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "TMPDIR": str(scratch)})
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not any(len(measured(path)) > 20 for path in tmp_path.glob("*.csv")):
        time.sleep(0.2)
    going.send_signal(signal.SIGINT)
    time.sleep(0.001)
    going.send_signal(signal.SIGTERM)  # as make and timeout do: the same Ctrl-C once more
    output, errors = going.communicate(timeout=30)
    assert going.returncode == 0, errors
    assert "interrupted" in output and (tmp_path / "report.html").exists()
    assert list(scratch.iterdir()) == []


def run_alike(workload, library):
    """Run a workload with glibc and with ours: both do the same. Returns what ours took."""
    theirs = measure.run_micro(workload, {}, "tiny")
    ours = measure.run_micro(workload, {"LD_PRELOAD": str(library)}, "tiny")
    assert (theirs.status, ours.status) == ("ok", "ok"), (theirs.reason, ours.reason)
    assert ours.check == theirs.check and ours.ops and ours.ops == theirs.ops
    return ours


@pytest.mark.slow
@pytest.mark.parametrize("workload", MICRO, ids=lambda workload: workload.name)
def test_micro_workload(workload, micro, library):
    """Our library serves every workload, and it sees the same contents as with glibc."""
    run_alike(workload, library)


@pytest.mark.slow
@pytest.mark.parametrize("workload", TRACES, ids=lambda workload: workload.name)
def test_trace(workload, micro, library):
    """As a micro workload; and its peak is that of the replay without the player's tables."""
    ours = run_alike(workload, library)
    assert 10000 < ours.ops <= 20000
    assert ours.seconds <= ours.wall and 500 < ours.peak_kib < 100000 and "live_kib=" in ours.extra


def test_traces_are_small():
    """The first calls of programs, of which nothing else is known: they are in the repository."""
    paths = list(catalog.TRACES.glob("*"))
    assert len(paths) == len(TRACES) >= 10 and sum(path.stat().st_size for path in paths) < 1 << 20
    for workload in TRACES:
        head = pathlib.Path(workload.argv("tiny")[1]).read_bytes()[:200]
        assert head.startswith(b"mitrace1") and b"/" not in head[48:head.index(b"IMPC")]


@pytest.mark.slow
@pytest.mark.parametrize("workload", [workload for workload in MICRO if workload.group == "growth"],
                         ids=lambda workload: workload.name)
def test_growth_prints_a_curve(workload, micro, python):
    """What it prints are points that the report knows how to draw."""
    run = measure.run_micro(workload, {}, "tiny")
    assert run.status == "ok", run.reason
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); from suite import charts, stats\n" \
           f"points = [stats.POINT.fullmatch(pair.partition('=')[0]) for pair in {run.extra!r}.split()]\n" \
           "print(len(points) > 0 and all(points) and {point[3] for point in points} <= set(charts.MEANINGS))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True", run.extra + done.stderr
    assert all(float(pair.partition("=")[2]) > 0 for pair in run.extra.split())


def test_nothing_is_left_behind(hold, tmp_path):
    """Neither when the program ends, nor when the harness is killed: also what has a session of its own."""
    def running(tag):
        return subprocess.run(["pgrep", "-f", f"{hold} 1 {tag}"], capture_output=True, text=True, check=False).stdout
    run, _ = measure.run_command(["sh", "-c", f"setsid {hold} 1 61000 & sleep 0.2"], measure.environment(), 20)
    time.sleep(0.2)
    assert run.status == "ok" and running(61000) == ""
    code = f"import sys; sys.path.insert(0, {str(BENCH)!r}); from suite import measure\n" \
           f"measure.run_command(['sh', '-c', 'setsid {hold} 1 62000 & wait'], measure.environment(), 60)"
    harness = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})
    deadline = time.monotonic() + 20
    while not running(62000) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)
    assert running(62000) != ""
    harness.kill()
    harness.wait()
    time.sleep(0.5)
    assert running(62000) == ""


@pytest.mark.slow
def test_service(micro, python):
    """bench/service.py: the table has a row for each peer, what lives and what is resident make sense, and there is a picture."""
    done = subprocess.run([python, "bench/service.py", "--scale", "tiny", "--rounds", "1", "--peers", "glibc"], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    row = re.search(r"^\| glibc \| (.*) \|$", done.stdout, re.M)[1].split(" | ")
    live, resident = float(row[0]), float(row[1])
    assert 5 < live <= resident < 4 * live and row[8] != "-" and row[9] == "1.00"
    picture = pathlib.Path(re.search(r"^picture: (.*)$", done.stdout, re.M)[1])
    assert picture.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
@pytest.mark.parametrize("arguments, message", [
    (("--rounds", "0"), "--rounds must be at least 1"), (("--peers", "nonsense"), "unknown peer 'nonsense'"),
    (("--scale", "huge"), "invalid choice")])
def test_service_refuses(arguments, message):
    done = subprocess.run([sys.executable, "bench/service.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and message in done.stderr


@pytest.mark.slow
def test_scaling(micro, python, library):
    """bench/scaling.py: each metric has a row for each workload and number of threads."""
    done = subprocess.run([python, "bench/scaling.py", "--scale", "tiny", "--seconds", "0", "--threads", "1,2", "--peers",
                           f"glibc,mine={library}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout + done.stderr
    rows = re.findall(r"^\| ([a-z0-9-]+) \| (\d+) \| [0-9.]+ (s|MiB) \| ([0-9.]+|-) \|$", done.stdout, re.M)
    assert len(rows) == 3 * 2 * 12 and {row[1] for row in rows} == {"1", "2"}
    assert all(0.2 < float(row[3]) < 5 for row in rows if row[2] == "MiB")


@pytest.mark.slow
@pytest.mark.parametrize("arguments, message", [
    (("--threads", "0"), "numbers from 1 to 1024"), (("--threads", "1,x"), "numbers from 1 to 1024"),
    (("--peers", "nonsense"), "unknown peer 'nonsense'")])
def test_scaling_refuses(arguments, message):
    done = subprocess.run([sys.executable, "bench/scaling.py", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and message in done.stderr
