"""mimalloc-inspect says of a process, and of its core dump, what the program itself knows. If this fails, who asks why the
memory of a process is so large gets a wrong answer, a Python error, or none; or the process is disturbed by the question."""
import contextlib
import fcntl
import io
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest

import conftest
from conftest import attempt, environment, find, run

sys.path.insert(0, str(conftest.ROOT / "tools"))
from mimalloc_inspect import layout, main, picture, text  # noqa: E402
from mimalloc_inspect.target import Core  # noqa: E402

TOOL = conftest.ROOT / "tools" / "mimalloc-inspect"
SOURCE = pathlib.Path(__file__).parent / "src" / "inspected.c"
FLAGS = ["-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin-malloc", "-rdynamic", f"-I{conftest.ROOT}/include", SOURCE]
FLAVOURS = ["release", "debug", "padded", "secure", "full", "plain", "tiny"]
PAGE = os.sysconf("SC_PAGE_SIZE")
EVER = {"worker": 123, "left": 57, "heap": 311, "sparse": 2000, "current": 33, "shared": 1001}  # blocks that it ever allocated


def library_of(flavour, build):
    return build / "libmimalloc.so" if flavour == "release" else build / "flavour" / flavour / "libmimalloc.so"


@pytest.fixture(scope="module")
def program(tmp_path_factory, library):
    path = tmp_path_factory.mktemp("inspect") / "inspected"
    run("cc", *FLAGS, library, "-pthread", "-o", path)
    return path


class Inspected:
    """The program, running, and the groups of blocks that it has: (name, heap, thread, size, count)."""

    def __init__(self, program, library=None, **variables):
        preload = {"LD_LIBRARY_PATH": library.parent} if library else {}
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment(**preload, **variables), preexec_fn=allow_cores, cwd=program.parent)
        self.pid = self.process.pid
        self.groups = [(*line.split()[:3], *map(int, line.split()[3:])) for line in self.answer()]

    def answer(self):
        lines = list(iter(self.process.stdout.readline, "done\n"))
        assert self.process.poll() is None and "" not in lines
        return lines

    def do(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return "".join(self.answer())

    def end(self):
        self.process.kill()
        self.process.communicate()


def allow_cores():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


@contextlib.contextmanager
def running(*arguments, **variables):
    inspected = Inspected(*arguments, **variables)
    try:
        yield inspected
    finally:
        inspected.end()


def call(*words):
    """The tool's exit status, output and error output, in this process: to start Python takes longer than all else."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        status = main.main([str(word) for word in words])
    return status, output.getvalue(), errors.getvalue()


def inspect(*words):
    """A snapshot, as whoever calls the tool gets it."""
    status, output, errors = call("--json", "-", *words)
    assert status == 0 and errors == "", errors
    return json.loads(output)


def refusal(*words):
    """What the tool says, and nothing else, when it has nothing to tell."""
    status, output, errors = call(*words)
    assert status == 1 and output == "" and re.fullmatch(r"mimalloc-inspect: [^\n]+\n", errors), (status, output, errors)
    return errors


def core_of(inspected, path):
    """gdb writes a core dump of a process that goes on; no setting of the machine forbids that."""
    ended = attempt(find("gdb"), "-nx", "-batch", "-p", inspected.pid, "-ex", f"generate-core-file {path}", DEBUGINFOD_URLS="")
    if not path.exists():
        pytest.skip(f"gdb may not attach here: {ended.output[-300:]}")
    return path


@pytest.fixture(scope="module")
def core(program, library, tmp_path_factory):
    """A core dump of the release build, and the groups of its program."""
    with running(program, library) as inspected:
        yield core_of(inspected, tmp_path_factory.mktemp("core") / "core"), inspected.groups


def check_known(found, groups, is_exact=True):
    """What the program knows is what the snapshot says: counts of each size, and where the blocks are."""
    padding = 32 if "padding" in found["build"]["text"] else 0
    for name, heap, thread, size, count in groups:
        if name == "large":
            entries = [c for c in found["classes"] if c["kind"] == "own" and c["bytes"] >= 15_000_000]
        else:
            entries = [c for c in found["classes"] if c["kind"] == "shared" and size + padding <= c["size"] <= 1.13 * (size + padding) + 16]
        # A few blocks of libc are in the same class where that serves a whole doubling.
        assert count <= entries[0]["blocks"] <= count + (0 if name == "large" else 8), (name, size, count, found["classes"])
        if name != "large":
            assert entries[0]["bytes"] == entries[0]["blocks"] * entries[0]["size"]
            # Lists of a secure build are coded: what threads hold ready counts as allocated.
            assert EVER[name] <= entries[0]["allocated"] <= EVER[name] + (8 if not found["build"]["secure"] else 2000), (name, entries)
    heaps = {heap["name"]: heap for heap in found["heaps"]}
    assert set(heaps) == {"main", "heap 1"} and heaps["heap 1"]["blocks"] == 311
    counted = {thread["name"]: thread["blocks"] for thread in found["threads"] if thread["kind"] == "thread"}
    if found["target"]["kind"] == "process":
        # In pages of the worker are its own blocks, those of libc for the thread, and at most a few of others.
        assert 123 <= counted["worker"] <= 140, counted
    assert found["total"]["blocks"] == sum(c["blocks"] for c in found["classes"]) == sum(t["blocks"] for t in found["threads"])


def check_sums(found):
    """The parts are all of what is resident, and nothing is less than nothing."""
    parts, total = found["parts"], found["total"]
    assert sum(parts.values()) == found["system"]["anonymous"]
    assert all(size >= 0 for size in parts.values()), parts
    assert parts["in_use"] + parts["free_in_pages"] == total["resident"] and total["in_use"] + total["not_touched"] == total["bytes"]
    # What is told of the rest one by one is what is left; the kernel counts each thread's last few pages late.
    assert abs(sum(rest["bytes"] for rest in found["not_ours"]) - parts["not_ours"]) <= 64 * PAGE * 2
    for arena in found["arenas"]:
        assert sum(map(sum, arena["cells"])) <= arena["resident"] <= arena["bytes"]


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_process_and_its_core_dump_are_told_as_the_program_knows_them(flavour, program, build, tmp_path):
    """One tool for all builds, whose structures differ."""
    with running(program, library_of(flavour, build)) as inspected:
        live = inspect(inspected.pid)
        for _ in range(100):  # until the purge thread does nothing meanwhile
            if not live["is_consistent"]:
                live = inspect(inspected.pid)
        stopped = inspect("--stop", inspected.pid)
        dead = inspect(core_of(inspected, tmp_path / "core")) if flavour in ("release", "secure") else None
        inspected.do("collect")  # it runs as before
    for found in filter(None, (live, stopped, dead)):
        check_known(found, inspected.groups)
        check_sums(found)
    assert live["is_consistent"] and live["warnings"] == [] and live["stopped_ms"] is None
    assert stopped["is_consistent"] and stopped["stopped_ms"] > 0
    assert live["build"]["object"].endswith("libmimalloc.so.3.4") and live["target"]["pid"] == inspected.pid
    if flavour == "release":
        assert live["build"]["text"] == "libmimalloc 3.4.3 (release)" and dead["is_consistent"], dead["warnings"]
        assert [c["blocks"] for c in dead["classes"]] == [c["blocks"] for c in live["classes"]]
        # Not all that is resident was ever written: at most a page of zeros for each mapping and table.
        assert 0.95 * live["total"]["resident"] <= dead["total"]["resident"] <= live["total"]["resident"]
        # The program touched all of these blocks.
        touched = [c for c in live["classes"] if c["kind"] == "own" or c["size"] in (256, 112, 96, 4096)]
        assert touched and all(c["in_use"] >= 0.97 * c["bytes"] for c in touched), touched


def test_a_core_dump_of_a_crash(program, library, tmp_path):
    """The kernel writes it: without what files have, which is enough."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"the kernel gives core dumps to {pattern}")
    shutil.copy(program, tmp_path)
    inspected = Inspected(tmp_path / program.name, library)
    os.kill(inspected.pid, signal.SIGABRT)
    assert inspected.process.wait() == -signal.SIGABRT
    inspected.end()
    path = next(tmp_path.glob("core*"))
    (tmp_path / program.name).unlink()
    found = inspect("--sysroot", tmp_path, path)  # no file of this machine
    check_known(found, inspected.groups)
    check_sums(found)
    assert found["is_consistent"] and found["target"]["pid"] == inspected.pid and found["target"]["name"] == "inspected"


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_program_that_contains_the_library_and_is_stripped(kind, build, tmp_path):
    flags = ["-static", "-no-pie"] if kind == "static" else []
    path = tmp_path / "inspected"
    run("cc", *FLAGS, *flags, "-Wl,--gc-sections", build / "mimalloc.o", "-pthread", "-o", path)
    run(find("strip"), path)
    with running(path) as inspected:
        live = inspect(inspected.pid)
        core = core_of(inspected, tmp_path / "core")
        dead = inspect(core)
    for found in (live, dead):
        check_known(found, inspected.groups)
        check_sums(found)
        assert found["build"]["object"] == str(path)
    if kind == "static":
        check_completed(core, path, inspected.groups)


def check_completed(core, path, groups):
    """What the kernel leaves out of a core dump is taken from the file, if it is the one that the process had."""
    data = bytearray(core.read_bytes())
    stamps = find_stamps(data)
    first, count = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    for at in range(first, first + 56 * count, 56):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == 1 and any(offset <= stamp < offset + size for stamp in stamps):
            struct.pack_into("<I", data, at, 0)
    core.write_bytes(data)
    check_known(inspect(core), groups)
    shutil.copy(find("ls"), path)
    assert "is not the file that the process had: build id" in refusal(core)
    path.unlink()
    assert "its stamp cannot be found" in refusal(core)


def test_what_is_kept_and_what_a_collect_gives_back(program, library):
    with running(program, library, MIMALLOC_PURGE_DELAY=1000000) as inspected:
        inspected.do("collect")
        before = inspect(inspected.pid)
        inspected.do("grow")
        grown = inspect(inspected.pid)
        inspected.do("shrink")
        shrunk = inspect(inspected.pid)
        inspected.do("collect")
        after = inspect(inspected.pid)
    size = 4000 * 2000
    assert grown["parts"]["in_use"] - before["parts"]["in_use"] >= 0.98 * size
    promised = shrunk["collect"]["kept"] + shrunk["collect"]["empty_pages"]
    assert promised >= 0.7 * size, "a part goes back at once: only so much may wait"
    came_back = shrunk["system"]["anonymous"] - after["system"]["anonymous"]
    assert abs(came_back - promised) <= 0.02 * size, (came_back, promised)
    assert after["collect"]["kept"] + after["collect"]["empty_pages"] == 0


class Explained:
    """What mi_explain says, as figures: the parts, and a dictionary of rows by name for each table."""
    UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

    def __init__(self, said):
        self.said = said
        sum_of_all = re.search(r"^Resident, without files: (\S+ \S+)", said, re.M)
        self.anonymous = self.amount(sum_of_all[1]) if sum_of_all else None
        self.parts = {name: self.amount(re.search(rf"^  {name} +(\S+ \S?i?B) +\d+ %", said, re.M)[1])
                      for name in ("in use", "free in pages", "kept", "metadata", *(["not ours"] if sum_of_all else []))}
        self.sizes, self.heaps, self.threads = map(self.table, ("By size of blocks", "By heaps", "By threads"))

    @classmethod
    def amount(cls, words):
        number, unit = words.split()
        return float(number) * cls.UNITS[unit]

    @staticmethod
    def is_near(amount, exact):
        """A figure is cut at one digit behind the point."""
        return amount <= exact <= amount + max(amount / 9, 110)

    def table(self, title):
        """Of each line its name, and the numbers behind."""
        lines = re.search(rf"^{title}:.*\n((?:  .*\n)+)", self.said, re.M)[1].splitlines()
        rows = [re.fullmatch(r"  (.*?) +(\d+) +(\d+) +(\S+ \S*B) +(?:(\d+) +)?(\S+ \S*B) +(\S+ \S*B)(?: +\d+ %)?(?: +(\d+))?", line)
                for line in lines]
        return {row[1].strip(): {"pages": int(row[2]), "blocks": int(row[3]), "bytes": self.amount(row[4]),
                                 "blocks_free": row[5] and int(row[5]), "resident": self.amount(row[6]), "free": self.amount(row[7]),
                                 "allocated": row[8] and int(row[8])} for row in filter(None, rows)}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_library_explains_itself_as_the_tool_does(flavour, program, build):
    """If this fails, mi_explain, or the command `explain`, sends its reader to the wrong part of the memory. Other threads hold a
    few blocks ready, which it counts as in use (USAGE-1), and the tool does not."""
    with running(program, library_of(flavour, build)) as inspected:
        explained = Explained(inspected.do("explain"))
        found = inspect("--stop", inspected.pid)
    for entry in found["classes"]:
        if entry["kind"] != "shared" or entry["pages"] == 0 or text.block_name(entry) not in explained.sizes:
            continue
        row = explained.sizes[text.block_name(entry)]
        assert row["pages"] == entry["pages"] and row["blocks"] + row["blocks_free"] == entry["blocks"] + entry["blocks_free"], (row, entry)
        # The worker, and libc for it, allocate of some sizes.
        ready = entry["blocks_free"] if entry["size"] < 200 or entry["size"] in (576, 640) or found["build"]["secure"] else 0
        assert 0 <= row["blocks"] - entry["blocks"] <= ready, (row, entry)
        assert found["build"]["secure"] or 0 <= row["allocated"] - entry["allocated"] <= ready, (row, entry)
        assert flavour == "plain" or explained.is_near(row["resident"], entry["resident"]), (row, entry)
    own = next(c for c in found["classes"] if c["kind"] == "own" and c["bytes"] >= 15_000_000)
    assert explained.sizes["own page"]["blocks"] == own["blocks"] and explained.is_near(explained.sizes["own page"]["free"], own["free"])
    assert explained.heaps["heap 1"]["blocks"] == 311 and set(explained.heaps) == {"main", "heap 1"}
    first = next(t for t in found["threads"] if t["name"] == "inspected")
    asker = explained.threads[f"thread {first['pointer']:#x}, which asks"]
    assert asker["pages"] == first["pages"] and abs(asker["blocks"] - first["blocks"]) <= 0.01 * first["blocks"] + 5, (asker, first)
    if flavour == "plain":  # what the system charges for, as far as the library knows
        assert explained.anonymous is None and "The system does not say" in explained.said
        assert abs(explained.parts["in use"] - found["parts"]["in_use"]) <= 0.02 * found["parts"]["in_use"]
        return
    assert abs(sum(explained.parts.values()) - explained.anonymous) <= 0.05 * explained.anonymous
    for mine, theirs in (("in use", "in_use"), ("free in pages", "free_in_pages"), ("kept", "kept")):
        assert abs(explained.parts[mine] - found["parts"][theirs]) <= 0.02 * explained.anonymous, (explained.parts, found["parts"])
    assert explained.is_near(explained.anonymous, found["system"]["anonymous"]) or \
        abs(explained.anonymous - found["system"]["anonymous"]) <= 0.05 * explained.anonymous


def test_the_map_of_the_library_is_that_of_the_tool(program, library):
    def letters(lines):
        rows = re.findall(r"^ +0x0*([0-9a-f]+) \|(.*)\|$", lines, re.M)
        return {int(at, 16): row for at, row in rows if row.strip()}

    with running(program, library) as inspected:
        said = inspected.do("explain")
        status, report, _ = call("--stop", inspected.pid)
    mine, theirs = letters(said), letters(report)
    assert status == 0 and list(mine) == list(theirs) and mine
    both = [(a, b) for at in mine for a, b in zip(mine[at], theirs[at].ljust(64))]
    assert sum(a != b for a, b in both) <= 3, (said, report)


def test_the_library_explains_zeros_that_were_only_read(program, library):
    with running(program, library) as inspected:
        before = Explained(inspected.do("explain"))
        inspected.do("touch")
        after = Explained(inspected.do("explain"))
    assert after.parts["in use"] - before.parts["in use"] <= 1 << 20, (before.said, after.said)
    assert abs(after.parts["not ours"] - before.parts["not ours"] - (40 << 20)) <= 5 << 20, (before.said, after.said)


@pytest.mark.parametrize("has_scan", (True, False), ids=("kernel-now", "kernel-before-6.7"))
def test_zeros_that_were_only_read_are_not_resident(program, library, has_scan, monkeypatch):
    """The kernel has one page of zeros for all of them, which counts for nobody."""
    if not has_scan:
        monkeypatch.setattr(fcntl, "ioctl", lambda *arguments: os.fstat(-1))  # fails
    with running(program, library) as inspected:
        before = inspect(inspected.pid)
        inspected.do("touch")
        after = inspect(inspected.pid)
    check_sums(after)
    assert after["total"]["bytes"] - before["total"]["bytes"] >= 32 << 20
    assert after["parts"]["in_use"] - before["parts"]["in_use"] < 1 << 20


def test_a_child_of_a_fork_has_what_it_shares(program, library):
    """A visit reads memory that was never touched, so that the next one finds pages of zeros beside what the parent has, too."""
    with running(program, library) as inspected:
        parent = inspect(inspected.pid)
        child = int(inspected.do("fork"))
        visits = [inspect(child) for _ in range(3)]
    for visit in visits:
        check_sums(visit)
        assert abs(visit["parts"]["in_use"] - parent["parts"]["in_use"]) < 1 << 20, (visit["parts"], parent["parts"])


def test_call_sites_of_a_profile(program, library, tmp_path):
    with running(program, library, MIMALLOC_PROFILE=tmp_path / "profile", MIMALLOC_PROFILE_RATE=1) as inspected:
        inspected.do("grow")
        found = inspect(inspected.pid)
    sites = {site["frames"][0]: site for site in found["profile"]["sites"]}
    assert sites["asked_here"]["blocks"] == 4000 and sites["asked_here"]["frames"][1] == "main"
    assert 4000 * 2000 <= sites["asked_here"]["bytes"] <= 4000 * 2100
    assert sites["worker"]["blocks"] == 123
    assert next(c for c in found["classes"] if c["kind"] == "sample")["blocks"] > 4000


def test_two_snapshots_are_compared(program, library, tmp_path):
    with running(program, library) as inspected:
        run(TOOL, "--json", tmp_path / "old", inspected.pid)
        inspected.do("grow")
        call("--json", tmp_path / "new", inspected.pid)
    shown = call("--compare", tmp_path / "old", tmp_path / "new")[1]
    found = inspect("--compare", tmp_path / "old", tmp_path / "new")
    assert re.search(r"^ +2048 +\+\d+ +\+4000 +\+7.8 MiB .* \+4000$", shown, re.M), shown
    assert [(c["blocks"], c["allocated"]) for c in found["classes"] if c["name"] == "2048"] == [(4000, 4000)]
    assert found["parts"]["in_use"] >= 4000 * 2000 and [heap["name"] for heap in found["heaps"]] == ["main"]
    again = inspect("--compare", tmp_path / "new", tmp_path / "new")
    assert set(again["parts"].values()) == {0} and again["classes"] == [] == again["threads"]
    assert call("--snapshot", tmp_path / "new")[1] == "\n".join(text.report(json.loads((tmp_path / "new").read_text()))) + "\n"


def test_a_process_that_changes_is_read_without_harm(program, library):
    """Whatever is read in the middle of a change: the tool ends, and says that the figures may contradict each other."""
    with running(program, library) as inspected:
        inspected.do("busy")
        seen = [inspect(inspected.pid)]
        while seen[-1]["is_consistent"] and len(seen) < 100:  # it was, if the threads had no processor meanwhile
            seen.append(inspect(inspected.pid))
        stopped = [inspect("--stop", inspected.pid) for _ in range(2)]
        inspected.do("collect")
    assert not seen[-1]["is_consistent"]
    assert all(found["is_consistent"] and not found["warnings"] for found in stopped)
    for found in stopped:
        check_sums(found)
    for found in seen:
        group = next(c for c in found["classes"] if c["size"] == 4096)
        assert group["blocks"] >= 311 and abs(sum(found["parts"].values()) - found["system"]["anonymous"]) == 0
    shown = "\n".join(text.report(seen[-1]))
    assert "The process changed while it was read" in shown


def test_no_signal_is_lost_when_a_process_is_stopped(program, library):
    with running(program, library) as inspected:
        sent = 0
        for _ in range(2):
            tool = subprocess.Popen([TOOL, "--stop", str(inspected.pid)], stdout=subprocess.DEVNULL)
            while tool.poll() is None:
                # The system itself drops signals of a user who has more than RLIMIT_SIGPENDING of them in queues.
                for _ in range(20):
                    os.kill(inspected.pid, signal.SIGRTMIN)
                sent += 20
                time.sleep(0.001)
            assert tool.returncode == 0
        assert int(inspected.do("signals")) == sent > 20


# -- What cannot be told

def test_who_cannot_be_looked_at(program, library, tmp_path):
    assert "there is no process 4194303" in refusal(4194303)
    # A program without the library, and a thread of one with it.
    with subprocess.Popen(["sleep", "60"]) as other: # (this process may have it, for other tests)
        assert "does not have this library in it" in refusal(other.pid)
        other.kill()
    with running(program, library) as inspected:
        thread = next(int(t) for t in os.listdir(f"/proc/{inspected.pid}/task") if int(t) != inspected.pid)
        assert f"is a thread of process {inspected.pid}" in refusal(thread)
        if os.geteuid() == 0:
            shared = tmp_path / "tool"
            shutil.copytree(conftest.ROOT / "tools", shared / "tools")
            shutil.copy(conftest.ROOT / "src" / "observe" / "inspect.def", shared / "tools" / "mimalloc_inspect")
            for folder in (tmp_path, *tmp_path.parents[:-2]):
                folder.chmod(folder.stat().st_mode | 0o055)
            ended = subprocess.run(["/usr/bin/python3", str(shared / "tools" / "mimalloc-inspect"), str(inspected.pid)], user=65534,
                                   group=65534, extra_groups=[], capture_output=True, text=True, cwd="/")
            assert ended.returncode == 1 and "belongs to user 0: run this as that user, or as root" in ended.stderr, ended
        else:
            assert "belongs to user 0: run this as that user, or as root" in refusal(1)
            inspected.do("hide")
            assert "it is not dumpable" in refusal(inspected.pid) or "ptrace_scope" in refusal(inspected.pid)


def test_files_that_are_no_core_dump(core, tmp_path):
    path, _ = core
    (tmp_path / "empty").touch()
    assert "no core dump" in refusal(tmp_path / "empty")
    assert "No such file" in refusal(tmp_path / "missing")
    assert "it is an ELF file, but no core dump" in refusal(find("ls"))
    (tmp_path / "packed").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(100))
    assert "it is compressed: zstd -d" in refusal(tmp_path / "packed")
    with open(path, "rb") as file:
        data = file.read(1000)
    (tmp_path / "head").write_bytes(data[:50])
    assert "truncated" in refusal(tmp_path / "head")
    (tmp_path / "wide").write_bytes(data[:4] + b"\1" + data[5:])
    assert "no core dump that can be read" in refusal(tmp_path / "wide")
    (tmp_path / "json").write_text('{"format": "mimalloc-inspect 1"}')
    assert "a snapshot is damaged" in refusal("--snapshot", tmp_path / "json")
    (tmp_path / "json").write_text('{"format": 2}')
    assert "is no snapshot that this version reads" in refusal("--compare", tmp_path / "json", tmp_path / "json")
    assert attempt(TOOL).status == 2 == attempt(TOOL, 1, "--compare", "a", "b").status


def test_a_number_is_a_process_whatever_files_are_there(core, program, library, tmp_path, monkeypatch):
    """In a folder of core dumps, which the kernel names by processes, each process can be asked for, and each core dump."""
    monkeypatch.chdir(tmp_path)
    with running(program, library) as inspected:
        (tmp_path / str(inspected.pid)).symlink_to(core[0])
        found = inspect(inspected.pid)["target"]
        assert (found["kind"], found["pid"]) == ("process", inspected.pid)
        found = inspect(f"./{inspected.pid}")["target"]
        assert (found["kind"], found["file"]) == ("core", f"./{inspected.pid}")
    (tmp_path / "4194303").symlink_to(core[0])
    assert "there is no process 4194303 (the file of this name is ./4194303)" in refusal(4194303)
    assert "No such file" in refusal("\u00b2")  # a digit, and no number


def test_a_truncated_core_dump(core, tmp_path):
    """What is there is told, with a warning; without the library's own data nothing can be."""
    path, _ = core
    data = path.read_bytes()
    said = []
    for part in (0.1, 0.5, 0.9, 0.99):
        (tmp_path / "core").write_bytes(data[:int(len(data) * part)])
        status, output, errors = call("--json", "-", tmp_path / "core")
        if status == 0:
            said.append(json.loads(output))
        else:
            assert status == 1 and "the core dump is truncated" in errors
    assert all(not found["is_consistent"] and "the core dump is truncated" in found["warnings"][0] for found in said)


def find_stamps(data):
    """Where it is: also in the page behind the code, if the file has both in one, and as the linker left it there."""
    found = [match.start() for match in re.finditer(re.escape(layout.MAGIC), data)]
    assert 1 <= len(found) <= 2
    return found


def test_another_build_is_named(core, tmp_path):
    path, _ = core
    data = bytearray(path.read_bytes())
    for at in find_stamps(data):
        data[at + 16:at + 24] = struct.pack("II", 7, 30500)
    (tmp_path / "core").write_bytes(data)
    said = refusal(tmp_path / "core")
    assert "libmimalloc 3.5.0 (release), whose structures have format 7" in said and "this mimalloc-inspect reads format 4" in said
    data = bytearray(path.read_bytes())
    core_file = Core(path)
    one, = layout.find(core_file)
    struct.pack_into("Q", data, place_of(core_file, one.address["state"] + one["state.stamp"]), one.stamp + 8)
    (tmp_path / "core").write_bytes(data)
    assert "the state of the process does not belong to its stamp" in refusal(tmp_path / "core")
    for at in find_stamps(data):
        data[at:at + 16] = bytes(16)
    (tmp_path / "core").write_bytes(data)
    assert "its stamp cannot be found" in refusal(tmp_path / "core")


def place_of(core_file, address):
    """Where in the file of a core dump an address is."""
    load = next(load for load in core_file.loads if load[0] <= address < load[0] + load[1])
    return load[3] + address - load[0]


def test_lists_that_do_not_end(core, tmp_path):
    """A list of the library that leads to itself, or to nothing, is left out from there on, with a warning."""
    path, groups = core
    core_file = Core(path)
    one, = layout.find(core_file)
    state = one.address["state"]
    arena = one.array(core_file.read(state + one["state.main"] + one["subproc.arenas"], 8), 0, 1)[0]
    bucket = next(at for at in range(state + one["state.theap_bucket"], state + one["state.theap_bucket"] + 512, 8)
                  if any(core_file.read(at, 8)))
    home = one.array(core_file.read(bucket, 8), 0, 1)[0]
    loops = [(arena + one["arena.next"], arena, "the list of arenas has a loop"),
             (home + one["theap.bucket_next"], home, "the list of threads has a loop"),
             (arena + one["arena.next"], 0x123456789000, "the list of arenas leads to 0x123456789000, where nothing is")]
    victim = pathlib.Path(shutil.copy(path, tmp_path))
    for at, to, said in loops:
        with open(victim, "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), struct.pack("Q", to), place_of(core_file, at))
            found = inspect(victim)
            os.pwrite(file.fileno(), core_file.read(at, 8), place_of(core_file, at))
        assert said in found["warnings"] and not found["is_consistent"], found["warnings"]
        assert next(c for c in found["classes"] if c["size"] == 4096)["blocks"] >= 311


def test_damaged_core_dumps_never_break_the_tool(core, tmp_path, capsys):
    """Bytes of the state, descriptors and headers are changed: the tool ends soon, and in order."""
    victim = pathlib.Path(shutil.copy(core[0], tmp_path))
    core_file = Core(victim)
    one, = layout.find(core_file)
    spots = [spot for spot, _ in sorted(spots_of(core_file, one).items())]
    ended = {0: 0, 1: 0}
    with open(victim, "r+b", buffering=0) as file:
        for seed in range(32):
            draw = random.Random(seed)
            start, size = spots[seed % len(spots)]
            whole = os.pread(file.fileno(), size, start)
            damaged = bytearray(whole)
            for _ in range(draw.choice((1, 20, 300))):
                damaged[draw.randrange(size)] = draw.randrange(256) if draw.random() < 0.8 else 0xff
            os.pwrite(file.fileno(), damaged, start)
            ended[main.main(["--html", "/dev/null", "--svg", "/dev/null", str(victim)])] += 1
            assert "Traceback" not in capsys.readouterr().err
            os.pwrite(file.fileno(), whole, start)
    assert min(ended.values()) > 3, ended  # some could be told, some not


def spots_of(core_file, one):
    """Ranges of the file that are worth damaging: what is read first, and what leads to all else."""
    def place(address):
        return place_of(core_file, address)
    state, theap = one.address["state"], one["state.theap_bucket"]
    arena = one.array(core_file.read(state + one["state.main"] + one["subproc.arenas"], 8), 0, 1)[0]
    near = one.address["pagemap"] + one["pagemap.none"] - one["near_slices"] * one["page"]
    return {(place(state), one["state"]): "state", (place(state + theap), 512): "theaps", (place(near), 200 * 128): "descriptors",
            (place(arena), one["arena"]): "arena", (place(one.stamp), 500): "stamp", (0, 20000): "headers",
            (place(one.address["meta_maps"]), 8): "mappings", (place(state + one["state.main"]), one["subproc"]): "sub-process"}


# -- Pictures

@pytest.fixture(scope="module")
def page(program, library, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with running(program, library) as inspected:
        run(TOOL, "--html", folder / "page.html", "--svg", folder / "map.svg", "--json", folder / "json", inspected.pid)
    return folder


def test_pictures_need_nothing_else_and_names_cannot_break_them(page):
    import xml.dom.minidom
    taken = json.loads((page / "json").read_text())
    xml.dom.minidom.parseString((page / "map.svg").read_text())
    words = (page / "page.html").read_text()
    assert not re.search(r"\b(src|href)=|url\(|@import|<script", words)
    assert set(re.findall(r"https?://[^\s\"']+", words)) == {"http://www.w3.org/2000/svg"}
    assert words == picture.html(taken)
    taken["target"]["name"] = "<script>\x1b[31m&\""
    assert "<script" not in picture.html(taken) and "<script" not in picture.svg(taken)
    assert "\x1b" not in main.printable("\n".join(text.report(taken)))
    # The path of a colour has a cell for each cell with such memory.
    used = sum(cell[0] * 2 * 13 > arena["cell_bytes"] * 0.1 for arena in taken["arenas"] for cell in arena["cells"])
    drawn = re.search(r'<path class="in_use" d="([^"]*)"', picture.svg(taken))[1].count("M")
    assert 0 < drawn and abs(drawn - used) <= used / 4


def test_page_in_a_browser(page):
    """At 1280 and 400 pixels nothing is cut off, and nothing is loaded from elsewhere."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service
    find("chromium")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service(find("chromedriver")), options=options)
    try:
        for width in (1280, 400):
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
            browser.get((page / "page.html").as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            beyond = "return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth).length"
            assert browser.execute_script(beyond) == 0
        assert browser.execute_script("return document.querySelectorAll('.map path.in_use').length") > 0
        assert browser.get_log("browser") == []
    finally:
        browser.quit()


# -- Installed

def test_installed_tool_runs_and_its_manual_has_all_options(program, library, build, tmp_path):
    first = tmp_path / "first"
    run("cmake", "--install", build, "--prefix", first)
    moved = pathlib.Path(shutil.move(first, tmp_path / "moved"))
    tool = moved / "bin" / "mimalloc-inspect"
    with running(program, library) as inspected:
        assert json.loads(run(tool, "--json", "-", inspected.pid))["total"]["blocks"] > 1000
    assert not list(moved.rglob("__pycache__"))
    options = set(re.findall(r"--[a-z-]+", run(tool, "--help"))) - {"--help"}
    manual = next(moved.rglob("mimalloc-inspect.1")).read_text().replace("\\-", "-")
    assert options and options <= set(re.findall(r"--[a-z-]+", manual))
