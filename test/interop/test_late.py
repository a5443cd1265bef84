"""What comes into a process after the library, or changes while the process runs. If one of these fails, a program that
runs with libc's malloc ends, hangs, or finds its files changed."""
import pytest

import conftest
from conftest import attempt, run

pytestmark = pytest.mark.slow
SOURCES = conftest.ROOT / "test" / "interop" / "src"
WARNINGS = ["-O1", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the programs, and the plug-in."""
    path = tmp_path_factory.mktemp("late")
    for name in "environment", "host", "atfork":
        run("cc", *WARNINGS, SOURCES / f"late_{name}.c", "-pthread", "-ldl", "-o", path / name)
    run("c++", *WARNINGS, "-shared", "-fPIC", SOURCES / "late_plugin.cpp", "-o", path / "plugin.so")
    return path


@pytest.mark.parametrize("mode", ["frame", "gone"])
def test_environment_is_gone_at_the_end(mode, folder, library):
    """It is read by the constructor, and never again."""
    ended = attempt(folder / "environment", mode, LD_PRELOAD=library)
    assert ended.status == 0 and ended.output == "end of main\n", ended.output


def test_environment_for_a_child(folder, library, tmp_path):
    """A profile that a child is to write is not written by its parent."""
    file = tmp_path / "profile"
    file.write_text("of the child\n")
    ended = attempt(folder / "environment", "child", file, LD_PRELOAD=library)
    assert ended.status == 0, ended.output
    assert file.read_text() == "of the child\n"


@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("mode", range(3))
def test_cxx_library_is_loaded_later(mode, scope, folder, library):
    """The new-handler is called, and std::bad_alloc thrown."""
    ended = attempt(folder / "host", folder / "plugin.so", mode, scope, LD_PRELOAD=library)
    assert ended.status == 0, ended.output


def test_first_malloc_is_that_of_a_fork_handler(folder, library):
    ended = attempt(folder / "atfork", LD_PRELOAD=library, timeout=60)
    assert ended.status == 0 and ended.output == "done\n", ended.output
