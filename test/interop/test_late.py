"""What comes into a process after the library, or changes while the process runs. If one of these fails, a program that
runs with libc's malloc ends, hangs, or finds its files changed."""
import pytest

import conftest
from conftest import attempt, compiled, run

pytestmark = pytest.mark.slow
SOURCES = conftest.ROOT / "test" / "interop" / "src"
WARNINGS = ["-O1", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the programs, and the plug-in."""
    path = tmp_path_factory.mktemp("late")
    for name in "environment", "host", "atfork", "frames":
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


def test_guards_stay_because_of_a_filter(build, tmp_path):
    """Memory that has guards which a sandbox keeps is not used again before it is mapped anew."""
    run("cc", *WARNINGS, SOURCES / "late_filter.c", f"-I{conftest.ROOT / 'include'}", build / "libmimalloc.a", "-pthread",
        "-o", tmp_path / "filter")
    ended = attempt(tmp_path / "filter", timeout=60)
    assert ended.status == 0 and ended.output == "went on\n", ended.output


@pytest.mark.parametrize("setting", [{"MIMALLOC_GUARDED_SAMPLE_RATE": 1}, {"MIMALLOC_PROFILE_RATE": 1}], ids=["guards", "profile"])
@pytest.mark.parametrize("kind", ["preloaded", "secure", "debug", "linked"])
def test_frames_are_registered(kind, setting, folder, build, tmp_path):
    """The unwinder allocates and frees with a lock held that a stack waits for."""
    macros = {"secure": ["-DMI_SECURE=4"], "debug": ["-DMI_DEBUG=2", "-DMI_PADDING=1"]}
    program, variables = folder / "frames", {"LD_PRELOAD": build / "libmimalloc.so"}
    if kind in macros:
        variables = {"LD_PRELOAD": compiled(tmp_path, kind, *macros[kind])}
    if kind == "linked":
        program, variables = tmp_path / "frames", {}
        run("cc", *WARNINGS, SOURCES / "late_frames.c", build / "libmimalloc.a", "-pthread", "-o", program)
    ended = attempt(program, timeout=60, MIMALLOC_PROFILE=tmp_path / "profile.pb", **setting, **variables)
    assert ended.status == 0 and ended.output == "went on\n", ended.output
