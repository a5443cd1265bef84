"""One run: warm-up, start, memory over time, time, faults, instructions, disturbance. Needs nothing but Python and cc.

attempts() is what the loop of run.py uses; launch() is handed to suite.context, which starts programs with it. What
watches a program is launch.c. A run that fails is a result too: it has a reason, and is never dropped.
"""
import contextlib
import dataclasses
import math
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time

from suite import catalog
from suite.context import Context, environment

SOURCE = pathlib.Path(__file__).with_name("launch.c")
LAUNCHER = catalog.BUILD / "launch"
DISTURBED = 0.05  # of the machine
TICK = 1 / os.sysconf("SC_CLK_TCK")
CURVE_POINTS = 120


@dataclasses.dataclass
class Run:
    """What one run cost. The fields are the columns of the raw results; None: not known."""
    status: str = "ok"  # or failed
    reason: str = ""
    seconds: float = None  # the workload's own, where it has one; else wall
    wall: float = None
    user: float = None
    system: float = None
    peak_kib: int = None
    file_kib: int = None  # of it at most: mapped from files, or shared
    kib_seconds: float = None  # resident memory integrated over time
    faults: int = None
    major_faults: int = None
    switches: int = None
    instructions: int = None
    disturbance: float = 0.0  # share of the machine that others took
    disturbed: int = 0
    check: str = ""
    ops: int = None
    extra: str = ""  # the other keys a micro workload printed, as "key=value key=value"
    curve: str = ""  # "ms:kib ms:kib"

    def fail(self, reason):
        text = str(reason).replace(f"{catalog.BENCH.parent}/", "")  # raw results are published: they name no folder of the machine
        self.status, self.reason = "failed", " ".join(text.split())[:300]
        return self


def launcher():
    """The program that starts programs, compiled if it is older than its source."""
    if not LAUNCHER.exists() or LAUNCHER.stat().st_mtime < SOURCE.stat().st_mtime:
        LAUNCHER.parent.mkdir(parents=True, exist_ok=True)
        new = LAUNCHER.with_suffix(f".{os.getpid()}")
        subprocess.run(["cc", "-O2", str(SOURCE), "-o", str(new)], check=True, stdin=subprocess.DEVNULL)
        new.replace(LAUNCHER)
    return str(LAUNCHER)


class Launched:
    """A program under test, leader of its own session. figures and curve are there once wait() has returned."""

    def __init__(self, argv, env, cwd, stdin, stdout, stderr):
        reader, writer = os.pipe()
        command = [launcher(), str(writer), str(len(env)), *(f"{key}={value}" for key, value in env.items()), *argv]
        try:
            self._launcher = subprocess.Popen(command, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr,
                                              pass_fds=[writer], env={"PATH": os.environ.get("PATH", os.defpath)})
        finally:
            os.close(writer)
        self._reader, self._text, self.figures, self.curve, self.status = reader, b"", {}, [], None
        while b"\n" not in self._text:
            if not self._read(None):
                raise OSError("the launcher did not start")
        self.pid = int(self._text.split()[1])

    def _read(self, deadline):
        """Wait for more from the launcher: False at its end."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([self._reader], [], [], left)[0]:
            raise subprocess.TimeoutExpired(self._launcher.args[-1], 0)
        more = os.read(self._reader, 1 << 16)
        self._text += more
        return bool(more)

    def wait(self, timeout=None):
        """The exit status, as subprocess has it."""
        if self.status is None:
            deadline = None if timeout is None else time.monotonic() + timeout
            while self._read(deadline):
                pass
            self._launcher.wait()
            os.close(self._reader)
            for line in self._text.decode().splitlines():
                key, *values = line.split()
                if key == "at":
                    self.curve.append((int(values[0]), int(values[1])))
                else:
                    self.figures[key] = int(values[0])
            # Without a status the launcher was killed, and the program with it.
            self.status = os.waitstatus_to_exitcode(self.figures.get("status", signal.SIGKILL))
        return self.status

    def terminate(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(30)


def launch(argv, env, cwd, stdin, stdout, stderr):
    return Launched(argv, env, cwd, stdin, stdout, stderr)


def warm(mib):
    """Have the host find memory now, not while a program is measured."""
    mib = min(mib, int(catalog.memory_gib() * 1024 / 2))
    if mib > 0:
        subprocess.run([launcher(), "warm", str(mib)], check=False)


def thin(curve, count=CURVE_POINTS):
    step = max(1, math.ceil(len(curve) / count))
    return " ".join(f"{ms}:{kib}" for ms, kib in curve[::step])


def ending(code):
    if code >= 0:
        return f"ended with exit status {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


def add_figures(run, handles):
    """Sums over the programs of one run; the peak is of the largest, or of all a program's processes together."""
    figures = [handle.figures for handle in handles if "wall_ns" in handle.figures]
    if not figures:
        return
    total = {key: sum(part[key] for part in figures) for key in figures[0]}
    run.wall, run.user, run.system = total["wall_ns"] / 1e9, total["user_us"] / 1e6, total["system_us"] / 1e6
    run.peak_kib = max(max(part["peak_kib"], part["tree_kib"]) for part in figures)
    run.file_kib = max(part["file_kib"] for part in figures)
    run.kib_seconds, run.faults = total["kib_ms"] / 1e3, total["faults"]
    run.major_faults, run.switches = total["major_faults"], total["switches"]
    run.instructions = total["instructions"] if all(part["instructions"] >= 0 for part in figures) else None


def run_command(argv, env, timeout):
    """(run, standard output) of a program that ends by itself."""
    run = Run()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, \
            open(f"{folder}/out", "w+b") as out, open(f"{folder}/err", "w+b") as err:
        with open(os.devnull, "rb") as nothing:
            handle = launch(argv, env, folder, nothing, out, err)
        try:
            code = handle.wait(timeout)
        except subprocess.TimeoutExpired:
            run.fail(f"ran longer than {timeout} s")
        finally:
            if handle.status is None:
                handle.kill()
        add_figures(run, [handle])
        run.curve = thin(handle.curve)
        out.seek(0)
        err.seek(0)
        output, errors = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    if run.status == "ok" and code != 0:
        run.fail(": ".join([ending(code), *errors.strip().splitlines()[-1:]]))
    elif run.status == "ok" and "cannot be preloaded" in errors:
        run.fail(errors.strip().splitlines()[0])
    return run, output


def run_micro(workload, variables, scale):
    run, output = run_command(workload.argv(scale), environment(peer=variables), workload.timeout)
    pairs = dict(line.split(None, 1) for line in output.splitlines() if len(line.split(None, 1)) == 2)
    run.check, run.seconds = pairs.pop("check", ""), run.wall
    with contextlib.suppress(KeyError, ValueError):
        run.ops = int(pairs.pop("ops"))
    with contextlib.suppress(KeyError, ValueError):
        run.seconds = float(pairs.pop("seconds"))
    with contextlib.suppress(KeyError, ValueError):
        run.peak_kib, run.kib_seconds = int(pairs.pop("peak_kib")), None  # what was seen from outside is something else
    run.extra = " ".join(f"{key}={value.strip()}" for key, value in pairs.items())
    if run.status == "ok" and not run.check:
        run.fail("printed no check")
    return run


def run_macro(program, variables, scale):
    run, context = Run(), None
    try:
        with Context(program.folder(scale), scale, variables, launch) as context:
            run.check = str(program.run(context))
        run.seconds = context.seconds
    except Exception as error:  # whatever the program under test or its client did
        run.fail(f"{type(error).__name__}: {error}" if type(error).__name__ != "Failed" else error)
    handles = [process.handle for process in context.processes] if context else []
    add_figures(run, handles)
    if handles and handles[0].status is not None:
        run.curve = thin(max((handle.curve for handle in handles), key=lambda curve: max(curve, key=lambda at: at[1])[1]
                             if curve else 0))
    return run


def busy_seconds():
    """(seconds the machine worked or was stolen, since it started; our own share)"""
    fields = [int(word) for word in pathlib.Path("/proc/stat").read_text().split(None, 9)[1:9]]
    own = sum(usage.ru_utime + usage.ru_stime for usage in
              (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)))
    return (sum(fields) - fields[3] - fields[4]) * TICK, own  # all but idle and iowait


def run_once(workload, variables, scale, warm_mib):
    warm(warm_mib)
    since, (busy, own) = time.monotonic(), busy_seconds()
    run = (run_macro if workload.kind == "macro" else run_micro)(workload, variables, scale)
    lasted, (busy_end, own_end) = time.monotonic() - since, busy_seconds()
    lost = max(0.0, busy_end - busy - (own_end - own))
    run.disturbance = lost / (lasted * os.cpu_count())
    # Two ticks are what the kernel's counters cannot tell from nothing.
    run.disturbed = int(run.disturbance > DISTURBED and lost > 2.5 * TICK)
    if not workload.keeps_curve:
        run.curve = ""
    return run


def attempts(workload, variables, scale, warm_mib=1024, repeats=3):
    """The runs of one workload with one peer in one round: again while others disturb it, but not if it fails."""
    for _ in range(repeats + 1):
        run = run_once(workload, variables, scale, warm_mib)
        yield run
        if run.status != "ok" or not run.disturbed:
            return


def callgrind(argv, variables, timeout=100):
    """(instructions as valgrind counts them or None, standard output): for where no hardware does."""
    if not shutil.which("valgrind"):
        return None, ""
    argv = ["timeout", str(timeout), "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
            "--soname-synonyms=somalloc=NONE", *argv]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        done = subprocess.run(argv, cwd=folder, env=environment(peer=variables), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found[1]) if done.returncode == 0 and found else None, done.stdout


def count_instructions(workload, variables, start):
    """A run that holds nothing but instructions and calls of malloc; `start` is what an empty program takes."""
    run = Run()
    count, output = callgrind(workload.argv("tiny"), variables)
    ops = re.search(r"^ops (\d+)", output, re.M)
    if count is None or start is None or ops is None:
        return run.fail("cannot be counted under valgrind")
    run.instructions, run.ops = count - start, int(ops[1])
    return run
