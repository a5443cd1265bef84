"""Traces of programs, and their replay. If one of these fails, a trace is not what the program did, recording disturbs the
program, or what a replay measures belongs to another run.

src/traced.c knows each of its calls and writes them down; a test compares that with what was recorded."""
import collections
import json
import os
import pathlib
import random
import re
import shutil

import pytest

from conftest import attempt, environment, find, run

pytestmark = pytest.mark.slow
SOURCE = pathlib.Path(__file__).resolve().parent / "src" / "traced.c"
HEADER, HEAD = 4096, 48  # bytes of the header of a file, and of the head of a piece


class Tools:
    def __init__(self, build, folder):
        self.recorder = build / "mimalloc-trace" / "libmimalloc-trace.so"
        self.player, self.replay = build / "mimalloc-player", build / "mimalloc-replay"
        assert self.recorder.exists(), f"{self.recorder} is missing: MI_BUILD_TRACE is OFF"
        self.program, self.folder, self.count = folder / "traced", folder, 0
        # It asks for too much, and writes down addresses of blocks that are gone.
        run("cc", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free", "-Wno-alloc-size-larger-than", "-fno-builtin", SOURCE, "-pthread", "-o", self.program)

    def record(self, scenario, *arguments, behind="", status=0, **variables):
        """(the trace, what the program wrote down, what it said)"""
        self.count += 1
        trace, log = self.folder / f"{scenario}-{self.count}.trace", self.folder / f"{scenario}-{self.count}.log"
        preload = f"{self.recorder}:{behind}" if behind else self.recorder
        ended = attempt(self.program, scenario, log, *arguments, apart=True,
                        env=environment(LD_PRELOAD=preload, MIMALLOC_TRACE=trace, **variables))
        assert ended.status == status, ended
        return trace, log.read_text() if log.exists() else "", ended.errors

    def dump(self, trace, *options):
        return [line for line in run(self.player, trace, "--dump", *options).splitlines() if not line.startswith("#")]

    def info(self, trace):
        text = run(self.player, trace, "--info")
        return {key: rest for key, rest in re.findall(r"^(\w+(?:, \w+| in it)?) +(.*)$", text, re.M)}


@pytest.fixture(scope="module")
def tools(build, tmp_path_factory):
    return Tools(build, tmp_path_factory.mktemp("trace"))


BLOCK = re.compile(r"(?:0x[0-9a-f]+|\d+:\d+)")


class Names:
    """Blocks and threads by the order in which they appear: what both texts have in common."""

    def __init__(self):
        self.blocks, self.threads, self.count = {}, {}, 0

    def line(self, text):
        words = text.split()
        words[0] = str(self.threads.setdefault(words[0], len(self.threads)))
        for i, word in enumerate(words[1:], 1):
            if not BLOCK.fullmatch(word):
                continue
            if words[i - 1] == "=":  # returned: a new block, wherever it lies
                self.count += 1
                self.blocks[word] = f"#{self.count}"
            words[i] = self.blocks.get(word, "unknown")
        return " ".join(words)


def written(log):
    names = Names()
    return [names.line(line) for line in log.splitlines()]


def recorded(lines):
    """The calls of the program, without those of libc: by their sizes, and frees by the block."""
    names, ours, found = Names(), set(), []
    for line in lines:
        words = line.split()
        if words[1] == "ends":
            continue
        allocates = "=" in words
        size = int(words[words.index("=") - 1]) if allocates else None
        is_ours = size % 1000 == 7 or (words[1] == "realloc" and words[2] in ours) if allocates else words[2] in ours or words[2] == "NULL"
        if not is_ours:
            continue
        if allocates and words[-1] != "NULL":
            ours.add(words[-1])
        if words[1] in ("free", "realloc", "reallocarray") and words[2] != "NULL" and not (allocates and words[-1] == "NULL" and size):
            ours.discard(words[2])
        found.append(names.line(line))
    return found


def without_null_frees(lines):
    """libc frees NULL as well, and nothing tells whose it is."""
    return [line for line in lines if not line.endswith("free NULL")]


def same_calls(trace_lines, log):
    made, seen = without_null_frees(written(log)), without_null_frees(recorded(trace_lines))
    for number, (a, b) in enumerate(zip(made, seen)):
        assert a == b, f"call {number}: the program did {a!r}, recorded is {b!r}"
    assert len(made) == len(seen)
    return len(made)


def live_peak(lines):
    """(bytes, blocks) at once, of all calls of a dump; each free is of a block that lives."""
    live, total, peak, most = {}, 0, 0, 0
    for line in lines:
        words = line.split()
        if words[1] == "ends":
            continue
        allocates, has_failed = "=" in words, words[-1] == "NULL"
        size = int(words[words.index("=") - 1]) if allocates else 0
        if words[1] in ("calloc", "reallocarray"):
            size *= int(words[words.index("=") - 2])
        block = words[2] if words[1] in ("free", "realloc", "reallocarray", "(gone)") else "NULL"
        if block not in ("NULL", "unknown") and not (allocates and has_failed and size):
            total -= live.pop(block)  # KeyError: it was not there
        if allocates and not has_failed:
            assert words[-1] not in live
            live[words[-1]] = size
            total += size
        peak, most = max(peak, total), max(most, len(live))
    return peak, most


@pytest.fixture(scope="module")
def turns(tools):
    return tools.record("turns")


# -- What is recorded

@pytest.mark.parametrize("behind", ["glibc", "mimalloc"])
def test_records_exactly_what_was_called(tools, turns, library, behind):
    """All functions, five threads one after the other, blocks that change threads, calls that fail."""
    trace, log, said = turns if behind == "glibc" else tools.record("turns", behind=library)
    assert said == ""
    count = same_calls(tools.dump(trace), log)
    assert count > 10000
    counted = collections.Counter(line.split()[1] for line in written(log))
    assert len(counted) == 10 and min(counted.values()) > 50, counted  # nothing is only seemingly tested
    assert log.count("free NULL") <= int(re.search(r"free (\d+)", tools.info(trace)["calls"])[1])
    assert len([line for line in tools.dump(trace) if line.endswith(" ends")]) == 4


def test_peak_of_live_bytes_is_exact(tools, turns):
    trace = turns[0]
    peak, most = live_peak(tools.dump(trace))
    assert tools.info(trace)["live, most"] == f"{peak} bytes, {most} blocks"
    figures = json.loads(run(tools.player, trace, "--json"))
    assert figures["peak_live"] == peak and peak > 1000000


def test_threads_at_once(tools):
    """Whatever the order: each free comes after the call that returned the block, and nothing is lost or doubled."""
    trace, log, said = tools.record("crowd")
    mallocs, frees = map(int, log.split())
    lines = tools.dump(trace)
    seen = recorded(lines)
    assert (sum(" malloc " in line for line in seen), sum(" free #" in line for line in seen)) == (mallocs, frees) and said == ""
    live_peak(lines)
    info = tools.info(trace)
    assert info["not in it"].startswith("0 ") and info["unseen"].startswith("0 ")
    assert int(re.search(r"(\d+) calls with", info["threads"])[1]) > 1000, "no block changed threads: this tests nothing"
    for options in (["--touch", "all"], ["--times", "3"]):
        run(tools.player, trace, *options)


def test_threads_that_pass(tools):
    """One after another: what they take of the file is little, and a replay has few at a time."""
    trace, _, _ = tools.record("passing", 2000)
    info = tools.info(trace)
    assert info["threads"].startswith("2001,") and float(re.search(r"([\d.]+) a call", info["file"])[1]) < 8
    figures = json.loads(run(tools.player, trace, "--json"))
    assert figures["threads"] == 2001 and figures["peak_resident"] - figures["start_resident"] < 4 << 20


def test_fork(tools):
    """The child has a file of its own, where blocks of its parent are unknown; the parent's goes on."""
    trace, log, _ = tools.record("forks")
    child, = trace.parent.glob(f"{trace.name}.*")
    assert same_calls(tools.dump(trace), log) > 200
    lines, made = tools.dump(child), trace.with_suffix(".log.child").read_text()
    names = Names()  # of the child alone: blocks of the parent have no name
    wanted = [re.sub(r"(\d+) reallocarray unknown", r"\1 reallocarray unknown", names.line(line)) for line in made.splitlines()]
    names = Names()
    seen = [names.line(line) for line in lines if not line.endswith(" ends")]
    assert any("free unknown" in line for line in seen) and any("realloc unknown" in line for line in seen)
    assert without_null_frees(wanted) == without_null_frees(seen)
    run(tools.player, child)
    assert tools.info(child)["process"].endswith(f"of {tools.info(trace)['process'].split(',')[0]}")


def test_exec(tools):
    """The next program of the same process begins a file of its own."""
    log = tools.folder / "after.log"
    trace, before, _ = tools.record("execs", log)
    second, = trace.parent.glob(f"{trace.name}.*")
    assert same_calls(tools.dump(trace), before) >= 10 and same_calls(tools.dump(second), log.read_text()) >= 50


@pytest.mark.parametrize("scenario, status", [("killed", -9), ("leaves", 0)])
def test_process_that_ends_at_once(tools, scenario, status):
    """By SIGKILL, or _exit: everything up to that moment is there."""
    trace, log, _ = tools.record(scenario, status=status)
    assert same_calls(tools.dump(trace), log) > 4000


NAMES = r"""
#include <new>
#include <cstdlib>
#include <cstdint>
struct alignas(64) Wide { char c[128]; };
template <class T> static T* used(T* p) { T* volatile q = p; return q; }
int main() {
  delete used(new char);
  delete[] used(new char[1007]);
  delete used(new Wide);
  delete[] used(new Wide[3]);
  ::operator delete(used(static_cast<char*>(::operator new(2007, std::nothrow))), std::nothrow);
  try { used(static_cast<char*>(::operator new(SIZE_MAX / 2 + 7))); return 1; } catch (const std::bad_alloc&) {}
  if (::operator new(SIZE_MAX / 2 + 7, std::nothrow) != nullptr) return 2;
  free(used(static_cast<char*>(malloc(3007))));
}
"""


@pytest.mark.parametrize("behind", ["glibc", "mimalloc"])
def test_operators_of_cxx(tools, library, behind, tmp_path):
    """Each is one call, whichever allocator has them; an exception (a block that the call allocated) passes, and recording goes
    on."""
    (tmp_path / "names.cpp").write_text(NAMES)
    run("c++", "-std=c++17", "-O1", "-fno-builtin", tmp_path / "names.cpp", "-o", tmp_path / "names")
    preload = f"{tools.recorder}:{library}" if behind == "mimalloc" else tools.recorder
    run(tmp_path / "names", LD_PRELOAD=preload, MIMALLOC_TRACE=tmp_path / "trace")
    calls = [re.sub(r"\d+:\d+", "B", line[2:]) for line in tools.dump(tmp_path / "trace")]
    start = calls.index("malloc 1 = B")
    free = "free B"
    wanted = ["malloc 1 = B", free, "malloc 1007 = B", free, "aligned_alloc 64 128 = B", free, "aligned_alloc 64 384 = B", free,
              "malloc 2007 = B", free, "malloc 9223372036854775814 = NULL", "free unknown", "malloc 9223372036854775814 = NULL",
              "malloc 3007 = B", free]
    assert [call for call in calls[start:] if call != "free NULL"][:len(wanted)] == wanted


def test_names_of_files(tools, tmp_path):
    """%p and %n; a file that is there stays as it is."""
    for _ in range(2):
        run("ls", cwd=tmp_path, LD_PRELOAD=tools.recorder, MIMALLOC_TRACE="a%%-%n")
    run("ls", cwd=tmp_path, LD_PRELOAD=tools.recorder, MIMALLOC_TRACE="%p")
    found = sorted(path.name for path in tmp_path.iterdir())
    assert len(found) == 3 and re.fullmatch(r"\d+ a%-ls a%-ls\.\d+", " ".join(found))
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())
    assert "program      ls\n" in run(tools.player, tmp_path / "a%-ls", "--info")


def test_silent_without_a_name(tools, tmp_path):
    assert attempt("ls", "/dev/null", cwd=tmp_path, apart=True, LD_PRELOAD=tools.recorder) == (0, "/dev/null\n", "")
    assert not list(tmp_path.iterdir())


def test_exported_names(tools):
    """Of the functions it passes on, and no other: a program does not find what its libc lacks."""
    names = {line.split()[0] for line in run("nm", "-D", "--defined-only", "--format=posix", tools.recorder).splitlines()}
    plain = {name for name in names if not name.startswith("_Z")}
    assert plain == {"malloc", "calloc", "realloc", "reallocarray", "free", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc"}
    assert len(names - plain) == 20 and all(re.fullmatch(r"_Z(n[wa]m|d[la]P)\w*", name) for name in names - plain)
    assert "SONAME" not in run("readelf", "-d", tools.recorder)


def test_record_by_command(tools, tmp_path):
    """mimalloc-replay finds the library, and becomes the program."""
    ended = attempt(tools.replay, "--record", "r.%n", "--limit", 5, "--", "ls", "--color=never", "/dev/null", cwd=tmp_path, apart=True)
    assert ended == (0, "/dev/null\n", "") and int(tools.info(tmp_path / "r.ls")["calls"].split(",")[0]) > 20
    refused = attempt(tools.replay, "--record", "r", "--", "no-such-program", cwd=tmp_path, apart=True)
    assert refused.status == 1 and refused.errors == "mimalloc-replay: no-such-program: No such file or directory\n"


@pytest.mark.parametrize("name", ["with space", "with:colon"])
def test_record_by_command_refuses_a_path_that_is_divided(name, tools, tmp_path):
    """The program would run, and no trace be written."""
    folder = tmp_path / name
    (folder / "mimalloc-trace").mkdir(parents=True)
    for path in (pathlib.Path("mimalloc-replay"), pathlib.Path("mimalloc-trace", "libmimalloc-trace.so")):
        shutil.copy(tools.replay.parent / path, folder / path)
    ended = attempt(folder / "mimalloc-replay", "--record", "r", "--", "echo", "ran", cwd=tmp_path, apart=True)
    assert ended.status == 1 and ended.output == ""
    assert f"LD_PRELOAD cannot hold '{folder}/mimalloc-trace/libmimalloc-trace.so': spaces and colons" in ended.errors


def test_times(tools):
    """The program slept for 20 ms three times: where it did is seen, if it is asked for."""
    def pauses(**variables):
        trace, _, _ = tools.record("pauses", **variables)
        lines = run(tools.player, trace, "--dump").splitlines()
        marks = [int(line.split()[1]) for line in lines if line.startswith("#")]
        return sum(later - sooner >= 15 for sooner, later in zip([0, *marks], marks)), run(tools.player, trace, "--info")
    count, text = pauses(MIMALLOC_TRACE_TIME=1)
    assert count == 3 and float(re.search(r"ended, ([\d.]+) s", text)[1]) >= 0.06
    assert pauses()[0] < 3  # a new piece has the time, too


# -- When something is wrong

def test_limit(tools):
    trace, _, said = tools.record("many", 700000, MIMALLOC_TRACE_LIMIT=1)
    assert re.fullmatch(r"mimalloc-trace: process \d+: the file is as large as it may be, the trace ends here\n", said)
    assert trace.stat().st_size <= 1 << 20
    assert "until the file was as large as it may be" in run(tools.player, trace, "--info")
    assert len(tools.dump(trace)) > 400000
    run(tools.player, trace)


def test_no_room(tools):
    """The first pieces fit, a later one does not; the program ends well and the trace is good."""
    strace = find("strace")
    trace, log = tools.folder / "room.trace", tools.folder / "room.log"
    ended = attempt(strace, "-qq", "-f", "-o", "/dev/null", "-e", "inject=fallocate:error=ENOSPC:when=4+", "-E", f"LD_PRELOAD={tools.recorder}",
                    "-E", f"MIMALLOC_TRACE={trace}", tools.program, "many", log, 100000, apart=True)
    if "PTRACE" in ended.errors or "ptrace" in ended.errors:
        pytest.skip("no process may be traced here")
    assert ended.status == 0 and re.search(r"process \d+: no space left for the file, the trace ends here \(error 28\)\n$", ended.errors)
    assert "until there was no room for the file" in run(tools.player, trace, "--info")


def test_size_of_files_is_limited(tools):
    """By RLIMIT_FSIZE, which would end the program."""
    trace, log = tools.folder / "ulimit.trace", tools.folder / "ulimit.log"
    ended = attempt("sh", "-c", f"ulimit -f 200; exec {tools.program} many {log} 500000", apart=True,
                    LD_PRELOAD=tools.recorder, MIMALLOC_TRACE=trace)
    assert ended.status == 0 and "cannot make the file larger, the trace ends here" in ended.errors
    run(tools.player, next(trace.parent.glob("ulimit.trace.*")))


@pytest.mark.parametrize("name", ["/none/of/these", "/dev/full/x", "/proc/self/x"])
def test_no_file(tools, name):
    ended = attempt("ls", "/dev/null", apart=True, LD_PRELOAD=tools.recorder, MIMALLOC_TRACE=name)
    assert (ended.status, ended.output) == (0, "/dev/null\n")
    assert re.fullmatch(rf"mimalloc-trace: process \d+: no trace: cannot write {name} \(error \d+\)\n", ended.errors)


# -- Damaged traces

def word(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def pieces(data):
    """(start, bytes that have a sum) of each piece."""
    at, found = HEADER, []
    while at < len(data):
        if word(data, at) == 0:
            at = (at // 4096 + 1) * 4096
            continue
        found.append((at, word(data, at + 40)))
        at += word(data, at + 4)
    return found


def ends_well(tools, path, data, *options):
    """It is read or refused, in a while; nothing else happens."""
    path.write_bytes(data)
    ended = attempt(tools.player, path, *options, apart=True, timeout=20)
    assert ended.status in (0, 1, 2), (ended.status, ended.errors[-500:], options)
    if ended.status:
        assert re.fullmatch(r"(mimalloc-player: [^\n]+\n)+", ended.errors), ended.errors
    return ended


@pytest.fixture(scope="module")
def small(tools):
    return tools.record("some")[0].read_bytes()


def test_changed_bytes_are_found(tools, small, tmp_path):
    """In whatever has a sum, which is all of a program that ended in order."""
    places = [(start + low, start + high) for start, summed in pieces(small) for low, high in ((0, 40), (HEAD, HEAD + summed))]
    places += [(0, 12), (16, 300)]
    draw = random.Random(1)
    for seed in range(90):
        data, (low, high) = bytearray(small), draw.choice(places)
        data[draw.randrange(low, high)] ^= 1 << draw.randrange(8)
        ended = ends_well(tools, tmp_path / "trace", data, draw.choice(["--info", "--dump", "--json"]))
        assert ended.status == 2 and re.search(r"trace: (damaged at byte \d+: |not a trace)", ended.errors), (seed, ended)


def test_changed_records_without_a_sum(tools, turns, small, tmp_path):
    """What a process that was killed has left: anything may stand there."""
    draw, refused = random.Random(2), 0
    for data in (small, turns[0].read_bytes()[:HEADER + 40 * 4096]):
        open_ended = bytearray(data)
        for start, _ in pieces(data):
            open_ended[start + 40:start + 44] = bytes(4)
        for _ in range(40):
            changed = bytearray(open_ended)
            for _ in range(draw.choice([1, 1, 3, 100])):
                changed[draw.randrange(HEADER, len(changed))] = draw.randrange(256)
            what = draw.choice([["--info"], ["--dump"], ["--json", "--touch", "none"], ["--cut", "50", str(tmp_path / "cut")]])
            refused += ends_well(tools, tmp_path / "trace", changed, *what).status == 2
            (tmp_path / "cut").unlink(missing_ok=True)
    assert 10 < refused < 80


def crafted(small, *records):
    """A trace of one thread with these records, which nobody has closed."""
    head = (0x43504D49, HEAD + len(b"".join(records)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    return small[:HEADER] + b"".join(number.to_bytes(4, "little") for number in head) + b"".join(records)


def crafted_threads(small, threads):
    """A trace of threads, each with epochs and the records in them."""
    data = small[:HEADER]
    for thread, epochs in enumerate(threads):
        records, last = b"", 0
        for epoch, its in epochs:
            records, last = records + bytes([0xDD, epoch - last]) + its, epoch
        head = (0x43504D49, HEAD + len(records), thread, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        data += b"".join(number.to_bytes(4, "little") for number in head) + records
    return data


ORDER, MALLOC, FREE = b"\xdd\x01", b"\xd0\x10", b"\x01"


@pytest.mark.parametrize("records, status, said", [
    ([ORDER, MALLOC, FREE], 0, ""), ([ORDER, MALLOC, b"\xe0"], 0, "the file ends within a record"),
    ([ORDER, MALLOC, b"\xd0"], 0, "the file ends within a record"), ([ORDER, b"\x05"], 2, "a block that was never there"),
    ([ORDER, MALLOC, b"\xc0"], 0, "the file ends within a record"), ([ORDER, b"\x7f", b"\xff" * 9 + b"\x01"], 2, "a block that was never there"),
    ([ORDER, b"\x85"], 2, "a size that was never used"), ([ORDER, b"\xda\x02"], 2, "a free without one before"),
    ([ORDER, b"\xe5"], 2, "no call begins so"), ([ORDER, b"\xe0\x00"], 2, "no call begins so"), ([ORDER, b"\xd0" + b"\xff" * 12, MALLOC], 2, "a number"),
    ([b"\xdd\x00", MALLOC], 2, "an epoch"), ([ORDER, b"\xd2\x02\xff\xff\xff\x01\x00\x10"], 2, "a thread")])
def test_crafted_records(tools, small, tmp_path, records, status, said):
    ended = ends_well(tools, tmp_path / "trace", crafted(small, *records), "--info")
    assert ended.status == status and said in ended.errors and (said or ended.errors == ""), ended


def test_blocks_that_are_not_there(tools, small, tmp_path):
    """Freed twice, or of a thread that the trace does not have: left out, and counted."""
    data = crafted(small, ORDER, MALLOC, FREE, FREE, b"\xd9\x07\x03", b"\xd2\x03\x20", b"\xdc")
    assert ends_well(tools, tmp_path / "trace", data, "--info").output.count("4 calls with blocks that the trace does not have") == 1
    assert ends_well(tools, tmp_path / "trace", data, "--json").status == 0


def test_truncated(tools, turns, tmp_path):
    whole, draw = turns[0].read_bytes(), random.Random(3)
    counts = []
    for length in sorted([0, 7, 8, 47, 48, 4095, 4096, 4097, 4096 + 47, *(draw.randrange(4096, len(whole)) for _ in range(25))]):
        ended = ends_well(tools, tmp_path / "trace", whole[:length], "--info")
        if length < HEADER:
            assert ended.status == 2 and ("not a trace" in ended.errors or "size of the header" in ended.errors)
            continue
        assert ended.status == 0
        counts.append(int(re.search(r"^calls +(\d+)", ended.output, re.M)[1]))
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] > 5000
    assert "the file ends within" in ended.errors
    assert ends_well(tools, tmp_path / "trace", whole, "--info").errors == ""
    assert "not a trace of mimalloc-trace" in ends_well(tools, tmp_path / "trace", b"#!/bin/sh\n" * 500, "--dump").errors


def test_more_memory_than_there_is(tools, tmp_path):
    """A replay that could not be is refused, before anything is touched."""
    program = tmp_path / "program.c"
    program.write_text("#include <stdlib.h>\nint main(void) { for (int i = 0; i < 3000; i++) if (malloc(1 << 30) == NULL) return 1; }\n")
    run("cc", "-fno-builtin", program, "-o", tmp_path / "program")
    if attempt(tmp_path / "program", LD_PRELOAD=tools.recorder, MIMALLOC_TRACE=tmp_path / "trace").status != 0:
        pytest.skip("the system promises no such block")
    ended = attempt(tools.player, tmp_path / "trace", apart=True)
    assert ended.status == 2 and re.search(r"the program had \d+ MiB at once, and \d+ are available here", ended.errors)
    run(tools.player, tmp_path / "trace", "--touch", "none")


# -- A part of a trace

def test_cut(tools, turns, tmp_path):
    whole = tools.dump(turns[0])
    for count in (1, 1000, 5000):
        path = tmp_path / f"{count}"
        run(tools.player, turns[0], "--cut", count, path)
        lines = tools.dump(path)
        assert lines == whole[:len(lines)] and sum(not line.endswith(" ends") for line in lines) == count
        assert "the first calls of a longer trace" in run(tools.player, path, "--info")
        run(tools.player, path)
    assert lines == tools.dump(turns[0], "--calls", 5000)
    refused = attempt(tools.player, turns[0], "--cut", 10, path, apart=True)
    assert refused.status == 2 and "exists" in refused.errors


# -- A replay

BAD = r"""
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
static char *at, *last; static int count, lock;
static void* cut(size_t alignment, size_t size) { /* never frees; now and then the same block twice */
  if (at == NULL) at = mmap(NULL, (size_t)4 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (size == 1007 && last != NULL && ++count % 50 == 0) return last;
  char* p = (char*)(((uintptr_t)at + 16 + alignment - 1) & -alignment);
  ((size_t*)p)[-1] = size;
  at = p + size;
  if (size == 1007) last = p;
  return p;
}
static void* take(size_t alignment, size_t size) {
  while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE)) {}
  void* p = cut(alignment, size);
  __atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
  return p;
}
void* malloc(size_t size) { return take(16, size); }
void free(void* p) { (void)p; }
void* calloc(size_t n, size_t size) { return take(16, n * size); }
void* realloc(void* p, size_t size) {
  void* q = take(16, size);
  if (p != NULL) { size_t before = ((size_t*)p)[-1]; memcpy(q, p, before < size ? before : size); }
  return q;
}
void* memalign(size_t alignment, size_t size) { return take(alignment < 16 ? 16 : alignment, size); }
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** p, size_t alignment, size_t size) { *p = memalign(alignment, size); return 0; }
"""


def test_wrong_allocator_is_found_out(tools, turns, tmp_path):
    for name, text in (("bad", BAD), ("good", BAD.replace("return last;", ";"))):
        (tmp_path / f"{name}.c").write_text(text)
        run("cc", "-shared", "-fPIC", "-O1", "-fno-builtin", tmp_path / f"{name}.c", "-o", tmp_path / f"{name}.so")
    run(tools.player, turns[0], LD_PRELOAD=tmp_path / "good.so")
    ended = attempt(tools.player, turns[0], apart=True, LD_PRELOAD=tmp_path / "bad.so")
    assert ended.status == 1 and ended.errors == "mimalloc-player: the contents of a block have changed (1007)\n"


def test_threads_that_another_ends(tools, small, tmp_path):
    """The third thread is started by the second, late, and has ended when the first starts the fourth: who ends a thread waits
    until it is there."""
    pair, end = MALLOC + FREE, b"\xdf"
    first = [[(1, MALLOC), (4, FREE)], [(2, pair * 150000)], [(3, pair + end)]]
    for threads in ([*first, [(5, pair + end)]], first):  # or by the first at the very end
        (tmp_path / "trace").write_bytes(crafted_threads(small, threads))
        for _ in range(3):
            ended = attempt(tools.player, tmp_path / "trace", "--json", "--times", 3, apart=True, timeout=60)
            assert ended.status == 0 and json.loads(ended.output)["threads"] == len(threads), ended


def test_what_is_touched(tools, tmp_path):
    """None, a byte in each OS page, or all; the tables of the player are not counted."""
    program = tmp_path / "program.c"
    program.write_text("#include <stdlib.h>\nvoid* p[20000];\nint main(void) { for (int i = 0; i < 20000; i++) p[i] = malloc(i % 2 ? 3000 : 20000); }\n")
    run("cc", "-fno-builtin", program, "-o", tmp_path / "program")
    run(tmp_path / "program", LD_PRELOAD=tools.recorder, MIMALLOC_TRACE=tmp_path / "trace")
    found = {touch: json.loads(run(tools.player, tmp_path / "trace", "--json", "--touch", touch)) for touch in ("none", "pages", "all")}
    for touch in ("pages", "all"):
        grown = found[touch]["peak_resident"] - found[touch]["start_resident"]
        assert 0.97 < grown / found[touch]["peak_live"] < 1.1, (touch, found[touch])
        assert found[touch]["end_resident"] > 200 << 20 and found[touch]["faults"] > 40000
    assert found["none"]["peak_resident"] < 150 << 20


def test_comparison(tools, turns, library, tmp_path):
    """Side by side: interleaved rounds, medians, and what is measured is what was asked for."""
    has_picture = attempt("/usr/bin/python3", "-c", "import matplotlib").status == 0
    picture = ["--svg", tmp_path / "a.svg"] if has_picture else []
    text = run(tools.replay, turns[0], "--with", "glibc", "--with", f"ours={library}", "--rounds", 2, "--json", tmp_path / "figures", *picture)
    assert re.search(r"^\d[\d,]* calls, 5 threads, [\d.]+ MiB live at the peak, ", text)
    header, glibc, ours = text.splitlines()[2:5]
    for column in ("time, ms", "spread", "peak, MiB", "end, MiB", "fragmentation", "page faults"):
        assert column in header
    assert glibc.startswith("glibc ") and ours.startswith("ours ") and len(re.findall(r"[\d.,]+", ours)) >= 8
    figures = json.loads((tmp_path / "figures").read_text())
    assert figures["allocators"]["ours"]["file"] == os.path.realpath(library)
    runs = figures["allocators"]["ours"]["runs"]
    assert len(runs) == 2 and all(os.path.realpath(one["allocator"]) == os.path.realpath(library) for one in runs)
    assert "libc" in figures["allocators"]["glibc"]["runs"][0]["allocator"]
    assert figures["peak_live"] == live_peak(tools.dump(turns[0]))[0]
    if has_picture:
        drawn = (tmp_path / "a.svg").read_text()
        assert drawn.startswith("<?xml") and ">glibc<" in drawn and ">ours<" in drawn and ">fragmentation<" in drawn
    mine = figures["allocators"]["ours"]
    assert mine["fragmentation"] == pytest.approx((mine["peak_resident"] - mine["start_resident"]) / figures["peak_live"], rel=0.2)


@pytest.mark.parametrize("arguments, said", [
    (["--with", "none"], "neither NAME=FILE nor one of glibc, system"), (["--with", "a=/none"], "there is no such file"),
    (["--with", "glibc", "--with", "glibc"], "two allocators have the same name"), (["--rounds", "3"], "name them by --with"),
    (["--touch", "some"], "--touch needs one of"), (["--calls", "0"], "needs a number of at least 1"), (["--unknown"], "unknown option"),
    (["--with", "text={trace}"], "malloc is that of"), (["--with", "glibc", "--rounds", "0"], "must be at least 1")])
def test_mistakes_of_users(tools, turns, arguments, said):
    ended = attempt(tools.replay, turns[0], *(word.format(trace=turns[0]) for word in arguments), apart=True)
    assert ended.status not in (0, None) and said in ended.errors and "Traceback" not in ended.errors


# -- What it costs: counted, not timed

def instructions(tools, count, folder, *preload):
    variables = {"LD_PRELOAD": tools.recorder, "MIMALLOC_TRACE": folder / f"{count}.trace"} if preload else {}
    ended = attempt(find("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null", tools.program, "many", folder / "log", count,
                    apart=True, **variables)
    assert ended.status == 0, ended.errors
    return int(re.search(r"Collected : (\d+)", ended.errors)[1])


def test_instructions(tools, tmp_path, figure):
    """Of one recorded call, besides those of the allocator. The start of a trace is in it: of 40,000 calls it is little."""
    pairs = 20000
    taken = (instructions(tools, pairs, tmp_path, True) - instructions(tools, pairs, tmp_path)) / (2 * pairs)
    figure(f"a recorded call takes {taken:.0f} instructions")
    assert 10 < taken < 100


def test_bytes_and_calls_of_the_system(tools, tmp_path, figure):
    """A real program takes below 8 bytes a call, and the system is asked for pieces only."""
    script = "import json, re, collections\nx = [json.loads(json.dumps({'a': [i, str(i)] * 9})) for i in range(4000)]"
    trace, counts = tmp_path / "python", {}
    for name, variables in (("without", {}), ("with", {"LD_PRELOAD": tools.recorder, "MIMALLOC_TRACE": trace})):
        ended = attempt(find("strace"), "-f", "-qq", "-o", tmp_path / name, *(part for key, value in variables.items() for part in ("-E", f"{key}={value}")),
                        "/usr/bin/python3", "-c", script, apart=True)
        if ended.status != 0:
            pytest.skip(f"strace: {ended.errors[-200:]}")
        counts[name] = len((tmp_path / name).read_text().splitlines())
    bytes_, calls = re.search(r"^file +(\d+) bytes, ([\d.]+) a call", run(tools.player, trace, "--info"), re.M).groups()
    figure(f"a trace of python takes {calls} bytes a call")
    assert float(calls) < 8
    # What does not grow with the trace: the start, and the tables by address, of which there are more or fewer with where the system puts memory.
    assert counts["with"] - counts["without"] < 100 + int(bytes_) / 65536 * 12


def test_ten_million_calls(tools):
    """Blocks are named by numbers that grow: nothing depends on how long a trace is."""
    trace, _, _ = tools.record("many", 5000000)
    info = tools.info(trace)
    assert info["calls"].startswith("10000") and float(re.search(r"([\d.]+) a call", info["file"])[1]) < 1.1
