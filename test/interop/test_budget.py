"""The limit of a container: a memory control group. If one of these fails, a program is killed because free memory of ours is
still resident, or because we open a file in its sandbox."""
import os
import pathlib
import re

import pytest

import conftest
from conftest import attempt, find, run

pytestmark = pytest.mark.slow
SOURCE = conftest.ROOT / "test" / "interop" / "src" / "limited.c"
ROOT = pathlib.Path("/sys/fs/cgroup")
KILLED = -9
SKIPPED = 77


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("budget") / "program"
    run("cc", "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", path)
    return path


class Group:
    """A memory control group, of whichever version there is."""

    def __init__(self, path, mib):
        self.path = path
        path.mkdir()
        is_first = (path / "memory.limit_in_bytes").exists()
        (path / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(mib << 20))
        if (path / "memory.swap.max").exists():
            (path / "memory.swap.max").write_text("0")

    def run(self, *command, **variables):
        enter = 'echo $$ >"$0" && exec env "$@"'
        settings = [f"{name}={value}" for name, value in variables.items()]
        return attempt("sh", "-c", enter, self.path / "cgroup.procs", *settings, *command, timeout=120)


@pytest.fixture
def group(request):
    """group(MIB): a group with that limit."""
    made = []

    def make(mib):
        version_1 = ROOT / "memory"
        parent = version_1 if version_1.is_dir() else ROOT
        path = parent / f"mimalloc-test-{os.getpid()}-{len(made)}"
        try:
            made.append(Group(path, mib))
        except OSError as error:
            if path.is_dir():
                path.rmdir()
            pytest.skip(f"no memory control group can be made here: {error}")
        return made[-1]

    yield make
    for one in made:
        one.path.rmdir()


def most(ended):
    """The highest number that a program printed before it was killed."""
    assert ended.status == KILLED, ended.output
    return max(map(int, re.findall(r"^\d+$", ended.output, re.M)))


def test_sizes_that_change(program, library, group, figure):
    """A program whose blocks change their sizes gets further before it is killed."""
    limited = group(256)
    got = most(limited.run(program, "change", LD_PRELOAD=library))
    without = most(limited.run(program, "change", LD_PRELOAD=library, MIMALLOC_MEMORY_LIMIT=-1))
    figure(f"budget: blocks of changing sizes in a container of 256 MiB, in use when it is full: {got} MiB (without the budget {without})")
    assert got > 1.1 * without


def test_full_heap(program, library, group):
    """A program that uses nearly all of its container, and replaces a part of it, goes on."""
    limited = group(270)
    assert limited.run(program, "replace", 245, LD_PRELOAD=library).status == 0
    assert limited.run(program, "replace", 245, LD_PRELOAD=library, MIMALLOC_MEMORY_LIMIT=-1).status == KILLED


def test_limit_of_a_group_around(program, library, group):
    """The limit is that of the group around the one of the process."""
    around = group(270)
    try:
        inner = Group(around.path / "inner", 1 << 20)
    except OSError as error:
        pytest.skip(f"no group can be made inside: {error}")
    try:
        assert inner.run(program, "replace", 245, LD_PRELOAD=library).status == 0
    finally:
        inner.path.rmdir()


def test_sandbox(program, library, group):
    """No file is opened once the program may be in a sandbox that forbids it."""
    ended = group(1024).run(program, "sandbox", 300, LD_PRELOAD=library)
    if ended.status == SKIPPED:
        pytest.skip("no filter of system calls can be set here")
    assert ended.status == 0 and int(ended.output) == 300


GIB = 1 << 30
STAT_2 = "anon 1\nfile {file}\nkernel 1\nshmem {kept}\n"
STAT_1 = "cache 0\nrss 0\ntotal_cache {file}\ntotal_rss 5\ntotal_shmem {kept}\n"
HIGH, MAX, NOW, STAT, WAITS, OLD_MAX, OLD_NOW = ("memory.high", "memory.max", "memory.current", "memory.stat", "memory.pressure",
                                                 "memory.limit_in_bytes", "memory.usage_in_bytes")
EASY, HARD = ("some avg10={} avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n".format(share)
              for share in ("9.99", "10.00"))
# Trees under /sys/fs/cgroup: folders and their files; /proc/self/cgroup; what is left for a program that uses 100 MiB, in MiB
# and about, since it was looked at: the limit less the use then. None: no limit.
TREES = {
    "group": ({"a/b": {MAX: 1 * GIB, HIGH: "max", NOW: 100 << 20}}, "0::/a/b", 1024 - 100),
    "high": ({"a/b": {MAX: "max", HIGH: GIB // 2, NOW: 100 << 20}}, "0::/a/b", 512 - 100),
    "around": ({"a/b": {MAX: 2 * GIB, HIGH: "max", NOW: 0}, "a": {MAX: GIB, HIGH: "max", NOW: GIB // 4}}, "0::/a/b", 768),
    "inner": ({"a/b": {MAX: GIB, HIGH: "max", NOW: 0}, "a": {MAX: 4 * GIB, HIGH: "max", NOW: GIB}}, "0::/a/b", 1024),
    "files": ({"a": {MAX: GIB, HIGH: "max", NOW: GIB - (8 << 20), STAT: STAT_2.format(file=700 << 20, kept=100 << 20)}},
              "0::/a", 8 + 600),
    "container": ({"": {MAX: GIB, HIGH: "max", NOW: 0}}, "0::/", 1024),
    "other path": ({"": {MAX: GIB, HIGH: "max", NOW: 0}}, "0::/not/visible/here", 1024),
    "no limit": ({"a": {MAX: "max", HIGH: "max", NOW: 5}}, "0::/a", None),
    "first": ({"memory/a": {OLD_MAX: GIB, OLD_NOW: 0}, "memory": {OLD_MAX: 2**63 - 4096, OLD_NOW: 7}},
              "3:cpu:/a\n2:memory:/a\n0::/a", 1024),
    "first files": ({"memory/a": {OLD_MAX: GIB, OLD_NOW: GIB, STAT: STAT_1.format(file=600 << 20, kept=0)}}, "2:memory:/a", 600),
    "no group": ({}, "", None),
    "pressure": ({"a": {MAX: "max", HIGH: "max", NOW: 5, WAITS: HARD}}, "0::/a", 0),
    "little pressure": ({"a": {MAX: "max", HIGH: "max", NOW: 5, WAITS: EASY}}, "0::/a", None),
}


@pytest.mark.parametrize("name", TREES)
def test_what_is_read(name, program, library, tmp_path):
    """The files of both versions, wherever they are: here made by hand, in a namespace of mounts."""
    folders, groups, left = TREES[name]
    tree = tmp_path / "tree"
    for folder, files in {**folders, "": folders.get("", {})}.items():
        (tree / folder).mkdir(parents=True, exist_ok=True)
        for file, content in {"cgroup.procs": "1", WAITS: EASY, **files}.items():
            (tree / folder / file).write_text(f"{content}\n")
    (tmp_path / "groups").write_text(groups + "\n")
    script = ('mount --bind "$1" /sys/fs/cgroup && mount --bind "$2" /proc/$$/cgroup && shift 2 && exec env "$@"')
    ended = attempt(find("unshare"), "-m", "sh", "-c", script, "sh", tree, tmp_path / "groups", f"LD_PRELOAD={library}", program, "room", 100)
    if "unshare failed" in ended.output or "permission denied" in ended.output.lower():
        pytest.skip(f"nothing can be mounted here: {ended.output.strip()}")
    assert ended.status == 0, ended.output
    said = ended.output.split("\n")[1]
    if left is None or left == 0:
        assert said == ("no limit" if left is None else "0")
    else:  # 100 MiB and what is lost between blocks, since it was looked at
        assert left - 130 <= int(said) <= left


def opened(program, library, mib, folder, mode="grow", **variables):
    """The files of control groups and pressure that a program opens which uses so many MiB."""
    trace = folder / "trace"
    run(find("strace"), "-f", "-o", trace, "-e", "trace=openat", "-E", f"LD_PRELOAD={library}", program, mode, mib, **variables)
    return re.findall(r'"((?:/proc/self/cgroup|/proc/pressure|/sys/fs/cgroup)[^"]*)"', trace.read_text())


def test_files_that_are_opened(program, library, tmp_path):
    """A small program opens none, and one without a limit a few for each time that its memory doubles."""
    assert opened(program, library, 4, tmp_path) == []
    assert opened(program, library, 200, tmp_path, MIMALLOC_MEMORY_LIMIT="1GiB") == []
    paths = opened(program, library, 200, tmp_path)
    assert 1 <= paths.count("/proc/self/cgroup") <= 8
    assert len(paths) < 20 * paths.count("/proc/self/cgroup")


def test_sandbox_of_a_child(program, library, tmp_path):
    """The limit is still looked at when a child of a vfork has got ready for its sandbox."""
    assert 2 <= opened(program, library, 200, tmp_path, "vfork").count("/proc/self/cgroup") <= 8
