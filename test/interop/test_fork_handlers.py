"""Libraries that end their threads before a fork, and create them again after it, by handlers that they registered before
the first malloc (OpenBLAS and others do). If one of these fails, a program hangs in fork, or its child crashes."""
import pytest

import conftest
from conftest import attempt, run

pytestmark = pytest.mark.slow
SOURCE = conftest.ROOT / "test" / "interop" / "src" / "fork_handlers.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("fork-handlers") / "program"
    run("cc", "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, "-pthread", "-o", path)
    return path


@pytest.mark.parametrize("purge_thread", [0, 1, 2])
@pytest.mark.parametrize("mode", ["allocates", "frees"])
def test_handlers_before_ours(mode, purge_thread, program, library):
    ended = attempt(program, mode, LD_PRELOAD=library, MIMALLOC_PURGE_THREAD=purge_thread, timeout=250)
    assert ended.status == 0, ended.output
    assert ended.output.strip().endswith("done")


@pytest.mark.parametrize("join", ["thrd_join", "pthread_tryjoin_np", "pthread_timedjoin_np", "pthread_clockjoin_np"])
def test_ways_to_join(join, program, library):
    ended = attempt(program, "allocates", join, LD_PRELOAD=library, timeout=250)
    assert ended.status == 0, ended.output
    assert ended.output.strip().endswith("done")


def test_handlers_before_ours_without_options(program, library):
    """Without a variable the library is set up by the first malloc only."""
    for mode in "allocates", "frees":
        ended = attempt(program, mode, LD_PRELOAD=library, timeout=250)
        assert ended.status == 0, ended.output
