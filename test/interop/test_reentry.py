"""The library is called from its own callbacks, from fork handlers, from constructors before its own and destructors
after it. If one of these fails, a program hangs or crashes that does there what it does everywhere: allocate."""
import pathlib

import pytest

import conftest
from conftest import run

pytestmark = pytest.mark.slow
SOURCES = pathlib.Path(__file__).resolve().parent / "src"
FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", f"-I{conftest.ROOT / 'include'}", "-pthread"]
PARTS = ["output", "error", "deferred", "fork", "begin and end"]


def compile(*arguments):
    run("cc", *FLAGS, *arguments)


@pytest.fixture(scope="module", params=["preloaded", "linked", "object", "static"])
def program(request, build, library, tmp_path_factory):
    """(how, file, environment). The early library is initialised before ours, but where ours is linked statically:
    there its constructor runs before that of our part of the program."""
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "reentry"
    early = ["-L", folder, "-learly", f"-Wl,-rpath,{folder}"]
    compile("-shared", "-fPIC", SOURCES / "early.c", "-o", folder / "libearly.so")
    source = SOURCES / "reentry.c"
    if request.param == "preloaded":
        # A library may leave open who defines what it calls; the program is nothing but that library.
        compile("-shared", "-fPIC", source, *early, "-o", folder / "libprogram.so")
        compile(folder / "libprogram.so", *early, "-Wl,--allow-shlib-undefined", "-o", path)
        return request.param, path, {"LD_PRELOAD": library}
    if request.param == "linked":
        compile(source, "-L", build, "-lmimalloc", f"-Wl,-rpath,{build}", *early, "-o", path)
    if request.param == "object":
        compile(source, build / "mimalloc.o", *early, "-o", path)
    if request.param == "static":
        compile("-static", source, SOURCES / "early.c", build / "mimalloc.o", "-o", path)
    return request.param, path, {}


@pytest.mark.parametrize("part", PARTS)
def test_reentry(program, part):
    _, path, environment = program
    text = run(path, part, **environment)
    assert "ok\n" in text, text


def test_reentry_is_early_and_late(program):
    """The control: what says that it runs after our destructor does, and so did its constructor before ours."""
    _, path, environment = program
    text = run(path, MIMALLOC_SHOW_STATS="1", **environment)
    assert 0 < text.find("pages") < text.find("the early library ended"), text
