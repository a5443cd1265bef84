"""The library is called from its own callbacks, from fork handlers, from constructors before its own and destructors
after it. If one of these fails, a program hangs or crashes that does there what it does everywhere: allocate."""
import os
import pathlib
import subprocess

import pytest

import conftest

pytestmark = pytest.mark.slow
SOURCES = pathlib.Path(__file__).resolve().parent / "src"
FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", f"-I{conftest.ROOT / 'include'}", "-pthread"]
PARTS = ["output", "error", "deferred", "fork", "begin and end"]


def run(*command, **environment):
    """Exit status and output, error output among it in order."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MIMALLOC_", "LD_"))}
    result = subprocess.run([str(part) for part in command], env={**kept, **environment}, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=200)
    return result.returncode, result.stdout


def compile(*arguments):
    status, text = run("cc", *FLAGS, *arguments)
    assert status == 0, text


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
        return request.param, path, {"LD_PRELOAD": str(library)}
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
    status, text = run(path, part, **environment)
    assert status == 0 and "ok\n" in text, f"status {status}\n{text}"


def test_reentry_is_early_and_late(program):
    """The control: what says that it runs after our destructor does, and so did its constructor before ours."""
    _, path, environment = program
    status, text = run(path, MIMALLOC_SHOW_STATS="1", **environment)
    assert status == 0, text
    assert 0 < text.find("pages") < text.find("the early library ended"), text
