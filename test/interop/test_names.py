"""Programs that define some of the names we define, and not others. If one of these fails, a program that brings its own
malloc or its own operator new dies with the library in front of it: a block meets a free it does not come from."""
import itertools
import pathlib

import pytest

import conftest
from conftest import attempt, find, run

pytestmark = pytest.mark.slow
SOURCES = conftest.ROOT / "test" / "interop" / "src"
C_FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-fno-builtin", "-Wno-deprecated-declarations"]
RIGHT = conftest.Ended(0, "all of one allocator\n", "")

# What the program has of its own.
MALLOCS = {"none": [], "malloc": ["-DOWN_MALLOC"], "malloc-aligned": ["-DOWN_MALLOC", "-DOWN_ALIGNED"]}
PAIRS = ("PLAIN", "ARRAY", "ALIGNED", "ALIGNED_ARRAY")
SUBSETS = [subset for length in range(len(PAIRS) + 1) for subset in itertools.combinations(PAIRS, length)]
HALVES = [("ONLY_NEW",), ("ONLY_DELETE",)]
# How the library comes into the process.
WAYS = ("preloaded", "linked")
OTHERS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}


def find_library(pattern):
    """A library of the system; the test is skipped where it is not installed."""
    for folder in ("/usr/lib", "/usr/lib64", "/usr/local/lib"):
        for path in sorted(pathlib.Path(folder).glob(f"**/{pattern}")):
            return path
    return pytest.skip(f"{pattern} is not installed")


class Built(dict):
    """built[source, definitions]: an object file, compiled when first wanted."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def __missing__(self, key):
        source, definitions = key
        path = self.folder / f"{len(self)}.o"
        compiler = ["c++", "-std=c++17"] if source.endswith("pp") else ["cc", "-std=gnu11"]
        run(*compiler, *C_FLAGS, "-fPIE", "-c", *definitions, SOURCES / source, "-o", path)
        self[key] = path
        return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Built(tmp_path_factory.mktemp("names"))


def link(source, definitions, built, folder, *words):
    compiler = "c++" if source.endswith("pp") else "cc"
    program = folder / "program"
    run(compiler, built[source, tuple(definitions)], "-pthread", "-ldl", *words, "-o", program)
    return program


def execute(way, source, definitions, built, folder, library):
    if way == "preloaded":
        return attempt(link(source, definitions, built, folder), LD_PRELOAD=library)
    words = ["-Wl,--no-as-needed", f"-L{library.parent}", "-lmimalloc", f"-Wl,-rpath,{library.parent}"]
    return attempt(link(source, definitions, built, folder, *words))


# -- Names of C

@pytest.mark.parametrize("threads", ["threads", "one-thread"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("own", MALLOCS)
def test_own_malloc(own, way, threads, built, library, tmp_path):
    """As glibc's manual says how to replace malloc: the four names, or all of them."""
    definitions = [*MALLOCS[own], *(["-DNO_THREADS"] if threads == "one-thread" else [])]
    assert execute(way, "names.c", definitions, built, tmp_path, library) == RIGHT


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name, archive", [("jemalloc", "libjemalloc.a"), ("tcmalloc", "libtcmalloc_minimal.a")])
@pytest.mark.parametrize("source", ["names.c", "names.cpp"])
def test_linked_statically_with_another(source, name, archive, way, built, library, tmp_path):
    path = find_library(archive)
    words = [path, "-lstdc++", "-lm"]
    if way == "linked":
        words += ["-Wl,--no-as-needed", f"-L{library.parent}", "-lmimalloc", f"-Wl,-rpath,{library.parent}"]
    program = link(source, [], built, tmp_path, *words)
    assert attempt(program, **({"LD_PRELOAD": library} if way == "preloaded" else {})) == RIGHT


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("source", ["names.c", "names.cpp"])
def test_another_in_front(source, name, built, library, tmp_path):
    """A program linked with us, and another allocator preloaded: it wins all names it has."""
    words = ["-Wl,--no-as-needed", f"-L{library.parent}", "-lmimalloc", f"-Wl,-rpath,{library.parent}"]
    program = link(source, [], built, tmp_path, *words)
    assert attempt(program, LD_PRELOAD=find_library(OTHERS[name])) == RIGHT


@pytest.mark.parametrize("source, words", [("names.c", []), ("names.cpp", [])])
def test_valgrind(source, words, built, library, tmp_path):
    """Valgrind replaces the names it knows, wherever they are."""
    valgrind = find("valgrind")
    program = link(source, ["-DNO_THREADS"] if source == "names.c" else [], built, tmp_path, *words)
    assert attempt(valgrind, "--quiet", "--error-exitcode=99", program, LD_PRELOAD=library) == RIGHT


# -- Names of C++

@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("own", ["none", "malloc-aligned"])
@pytest.mark.parametrize("subset", [*SUBSETS, *HALVES], ids=lambda subset: "-".join(subset).lower() or "nothing")
def test_own_operators(subset, own, way, built, library, tmp_path):
    definitions = [*MALLOCS[own], *(f"-D{name}" for name in subset)]
    assert execute(way, "names.cpp", definitions, built, tmp_path, library) == RIGHT


@pytest.mark.parametrize("static", [[], ["-static"]], ids=["dynamic", "static"])
@pytest.mark.parametrize("subset", [*SUBSETS, *HALVES], ids=lambda subset: "-".join(subset).lower() or "nothing")
def test_own_operators_in_an_object(subset, static, built, build, library, tmp_path):
    """Our object file in the program: its own operators stand beside ours."""
    program = link("names.cpp", [f"-D{name}" for name in subset], built, tmp_path, build / "mimalloc.o", *static)
    assert attempt(program) == RIGHT


@pytest.mark.parametrize("static", [[], ["-static"]], ids=["dynamic", "static"])
def test_names_in_an_object(static, built, build, library, tmp_path):
    program = link("names.c", ["-DSTATIC"] if static else [], built, tmp_path, build / "mimalloc.o", *static)
    assert attempt(program) == RIGHT
