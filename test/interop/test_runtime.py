"""A language's run-time with a private copy of the library, whose collector walks its heaps (demo/runtime.c). If this fails, who
embeds the library meets another copy in the process, or a collector misses objects, or finds ones that are not there."""
import re
import shlex

import pytest

import conftest
from conftest import attempt, run

SOURCE = conftest.ROOT / "demo" / "runtime.c"
COMMAND = re.search(r"^//   (cc .*)$", SOURCE.read_text(), re.M)[1]
GUIDE = (conftest.ROOT / "docs" / "guide.md").read_text()
ROUND = re.compile(r"round (\d): (\d+) objects in (\d+) KiB, (\d+) left")
OBJECT = 32  # bytes, that of a 64-bit machine


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built by the command that the file says, in the folder that it is said for."""
    path = tmp_path_factory.mktemp("runtime") / "runtime"
    *command, name = shlex.split(COMMAND)
    assert name == "runtime"
    run(*command, path, "-Wall", "-Wextra", "-Werror", cwd=conftest.ROOT)
    return path


def test_guide_has_the_command():
    assert COMMAND in GUIDE


def test_collector_finds_all_objects(program, figure):
    rounds = [tuple(map(int, found)) for found in ROUND.findall(run(program))]
    assert [number for number, *_ in rounds] == [1, 2, 3]
    kept = 4 * 63 * 100  # four threads, trees of 63 objects, one of nine of 900
    assert [(seen, left) for _, seen, _, left in rounds] == [(9 * kept + i * kept, (i + 1) * kept) for i in range(3)]
    for _, seen, kib, _ in rounds:
        assert seen * OBJECT <= kib * 1024 <= 1.25 * seen * OBJECT
    figure(f"a run-time's heap: {rounds[-1][1]} objects of {OBJECT} bytes in {rounds[-1][2]} KiB")


def test_copy_is_private(program, library):
    """It defines none of the names of libc, nor of the library, and runs beside one that replaces malloc."""
    defined = [line.split()[-1] for line in run("nm", "--defined-only", "--extern-only", program).splitlines()]
    assert [name for name in defined if name.startswith("rt_")]
    assert not [name for name in defined if re.fullmatch(r"mi_.*|malloc|calloc|realloc|free|_Zn.*|_Zd.*", name)]
    assert run(program, LD_PRELOAD=library) == run(program)


def test_copy_has_options_of_its_own(program):
    assert "committed" not in run(program, MIMALLOC_SHOW_STATS=1)
    assert "committed" in run(program, RT_SHOW_STATS=1)


def test_no_memory_is_told(program):
    assert attempt(program, RT_DISALLOW_OS_ALLOC=1).status == 2
