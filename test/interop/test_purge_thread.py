"""The purge thread: programs with threads that sleep after a burst, and programs that it might disturb. If one of these
fails, an idle server keeps memory, or a program breaks that counts, limits or forbids its threads."""
import pytest

import conftest
from conftest import attempt, run

pytestmark = pytest.mark.slow
SOURCE = conftest.ROOT / "test" / "interop" / "src" / "purge_thread.c"
SKIPPED = 77


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("purge-thread") / "program"
    run("cc", "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, "-pthread", "-ldl", "-o", path)
    return path


@pytest.mark.parametrize("size", [1000, 100_000])
def test_idle(size, program, library, figure):
    """256 MiB are freed, then nothing happens: with the thread nearly all of them go back."""
    at_once, later = map(int, run(program, "idle", size, LD_PRELOAD=library).split())
    _, without = map(int, run(program, "idle", size, LD_PRELOAD=library, MIMALLOC_PURGE_THREAD=0).split())
    figure(f"purge thread: 256 MiB in blocks of {size} freed, resident {at_once} MiB, later {later} MiB (without {without})")
    assert later < 16 and without > 28


@pytest.mark.parametrize("option, counts", [("0", "1 2 3"), ("1", "2 3 4"), ("2", "1 3 4")])
def test_count(option, counts, program, library):
    """A program with one thread keeps one."""
    assert run(program, "count", LD_PRELOAD=library, MIMALLOC_PURGE_THREAD=option).split() == counts.split()


@pytest.mark.parametrize("mode", ["again", "kept", "before", "off", "count-c11", "fork", "clone", "rights-in-clone", "rights-in-clone-threads",
                                  "rights-in-vfork",
                                  "rights-when-late", "alone-at-fork", "thread-after-fork", "unshare", "setns", "rights", "limit", "full-memory",
                                  "signals", "sandbox", "exit", "main-ends", "main-ends-first", "idle-thread-ends-last", "late-memory",
                                  "forked-thread-ends", "all-done", "shorter-delay"])
def test_undisturbed(mode, program, library):
    ended = attempt(program, mode, LD_PRELOAD=library, timeout=60)
    if ended.status == SKIPPED:
        pytest.skip(ended.output.strip())
    assert ended.status == 0, ended.output


def test_kept_at_fork(program, library):
    """Who asks for the purge thread in a program with one thread keeps it."""
    run(program, "kept-at-fork", LD_PRELOAD=library, MIMALLOC_PURGE_THREAD=1)


def test_large_thread_local_variables(library, tmp_path):
    """They need more than the stack of the purge thread: 128 KiB of a Fortran program, a megabyte of a simulator."""
    run("cc", "-O1", "-DTLS_KIB=1024", SOURCE, "-pthread", "-ldl", "-o", tmp_path / "program")
    assert run(tmp_path / "program", "count", LD_PRELOAD=library).split() == ["1", "3", "4"]


def test_constructor_with_threads(program, library, tmp_path):
    run("cc", "-O1", "-shared", "-fPIC", SOURCE.with_name("thread_in_constructor.c"), "-pthread", "-o", tmp_path / "threads.so")
    ended = attempt(program, "constructor", tmp_path / "threads.so", LD_PRELOAD=library, timeout=60)
    assert ended.status == 0, ended.output


def test_unloaded(program, library):
    run(program, "dlclose", library, MIMALLOC_PURGE_THREAD=1)
