"""WebAssembly: the library built by its presets for WASI and for Emscripten, in programs that run under node and wasmtime.
If one of these fails, a program for a browser or for the edge has another malloc than it was built with, wrong blocks, or
memory that grows and grows: none of it ever goes back. What cannot be had here is skipped by name."""
import functools
import pathlib

import pytest

import conftest
from conftest import attempt, find, run

pytestmark = pytest.mark.slow
SOURCES = conftest.ROOT / "test" / "wasm"
FLAGS = ["-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin", f"-I{conftest.ROOT / 'include'}"]
MEMORY_MAX = 256 << 20
WASMTIME = conftest.ROOT / "build" / "wasmtime" / "bin" / "python"
# Emscripten 3.1.6 in Debian: its JavaScript is there, and it takes node's fetch for that of a browser.
DEBIAN = {"NODE_PATH": "/usr/share/nodejs"}
# With its compiler threads node 20 crashes now and then while a program's memory grows, whatever malloc the program has.
NODE_WASI = ["--no-warnings", "--single-threaded", SOURCES / "wasi.mjs"]
NODE_EMSCRIPTEN = ["--no-experimental-fetch"]


def need(*tools):
    for tool in tools:
        find(tool)
    if "clang" in tools and not pathlib.Path("/usr/lib/wasm32-wasi/libc.a").exists():
        pytest.skip("wasi-libc is not installed")


@functools.cache
def library(preset):
    """The archive that a preset builds, as users build it."""
    run("cmake", "--preset", preset, cwd=conftest.ROOT)
    run("cmake", "--build", "--preset", preset, cwd=conftest.ROOT)
    return conftest.ROOT / "build" / preset / "libmimalloc.a"


def wasi(program, source, *flags):
    archive = [] if "-DPLAIN" in flags else [library("wasi")]
    run("clang", "--target=wasm32-wasi", *FLAGS, *flags, SOURCES / source, *archive, "-o", program)
    return program


def emscripten(program, source, *flags, preset="emscripten"):
    run("emcc", *FLAGS, *flags, SOURCES / source, library(preset), "-o", program, **DEBIAN)
    return program


def figures(output):
    return {name: int(value) for name, value in (line.split() for line in output.splitlines())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("wasm")


@pytest.fixture(scope="module", params=["node", "wasmtime"])
def runner(request):
    need("clang", "wasm-ld")
    if request.param == "node":
        return [find("node"), *NODE_WASI]
    if not WASMTIME.exists() or attempt(WASMTIME, "-c", "import wasmtime").status != 0:
        pytest.skip("wasmtime cannot be had")
    return [WASMTIME, SOURCES / "wasi.py"]


@pytest.fixture(scope="module")
def single(folder):
    return wasi(folder / "single.wasm", "single.c", "-Wl,-s", f"-Wl,--max-memory={MEMORY_MAX}")


def check_bounds(seen):
    """What is in use, and what was in use before, bounds where memory ends."""
    live = seen["mixed_live_kib"]
    assert seen["mixed_end_kib"] - seen["first_end_kib"] <= 1.45 * live, seen
    assert seen["bursts_end_kib"] <= seen["mixed_end_kib"] + 1024, seen
    assert seen["large_end_kib"] <= seen["bursts_end_kib"] + 24 * 1024, seen
    assert seen["filled_mib"] >= 0.9 * MEMORY_MAX / (1 << 20), seen


def test_wasi(runner, single):
    check_bounds(figures(run(*runner, single)))


def test_wasi_mappings(runner, single):
    """Blocks that are mappings of their own: these are used again, and read as zero. (So the environment is read, too.)"""
    seen = figures(run(*runner, single, "mapped", MIMALLOC_ARENA_RESERVE="16MiB"))
    assert seen["large_end_kib"] <= seen["first_end_kib"] + 45 * 1024, seen


def test_wasi_memory_of_its_start(runner, folder):
    """A program whose memory does not grow has what it starts with."""
    size = 8 << 20
    program = wasi(folder / "fixed.wasm", "fixed.c", f"-Wl,--initial-memory={size}", f"-Wl,--max-memory={size}")
    assert figures(run(*runner, program))["filled_kib"] >= 6000


def test_wasi_beside_its_own_malloc(runner, single, folder, figure):
    plain = wasi(folder / "plain.wasm", "single.c", "-DPLAIN", "-Wl,-s", f"-Wl,--max-memory={MEMORY_MAX}")
    ours, theirs = figures(run(*runner, single)), figures(run(*runner, plain))
    code = (single.stat().st_size - plain.stat().st_size) / 1024
    start = ours["first_end_kib"] - theirs["first_end_kib"]
    ratio = ours["mixed_end_kib"] / theirs["mixed_end_kib"]
    figure(f"wasi: {ours['mixed_live_kib']} KiB of blocks: memory ends at {ours['mixed_end_kib']} KiB, with the malloc of "
           f"wasi-libc {theirs['mixed_end_kib']} ({ratio:.2f}); {start} KiB more at the start, {code:.0f} KiB more code")
    assert ratio <= 1.4 and start <= 800 and code <= 164


@pytest.fixture(scope="module")
def node():
    need("emcc")
    return [find("node"), *NODE_EMSCRIPTEN]


def test_emscripten(node, folder):
    program = emscripten(folder / "single.js", "single.c", "-sALLOW_MEMORY_GROWTH", f"-sMAXIMUM_MEMORY={MEMORY_MAX}")
    check_bounds(figures(run(*node, program)))


def test_emscripten_new(node, folder):
    program = emscripten(folder / "new.js", "new.cpp", "-g2", "-fexceptions", "-sALLOW_MEMORY_GROWTH")
    assert figures(run(*node, program)) == {"new": 1}
    assert b"mi_cxx_new_array" in program.with_suffix(".wasm").read_bytes()


def test_emscripten_has_one_malloc(node, folder):
    """That of Emscripten is not in the program, not even unused."""
    program = emscripten(folder / "fixed.js", "fixed.c", "-g2", "-sINITIAL_MEMORY=16MB", "-sABORTING_MALLOC=0")
    assert figures(run(*node, program))["filled_kib"] >= 9000
    names = program.with_suffix(".wasm").read_bytes()
    assert b"mi_malloc" in names and b"dlmalloc" not in names and b"emmalloc" not in names


@pytest.mark.parametrize("main, flags", [
    ("page", ["-sINITIAL_MEMORY=64MB"]),
    ("thread", ["-sPROXY_TO_PTHREAD", "-sALLOW_MEMORY_GROWTH", "-Wno-pthreads-mem-growth"])])
def test_emscripten_threads(main, flags, node, folder):
    """Main runs on the thread of the page, or on one of its own."""
    flags = ["-pthread", "-sPTHREAD_POOL_SIZE=6", "-sEXIT_RUNTIME=1", *flags]
    program = emscripten(folder / f"{main}.js", "threads.c", *flags, preset="emscripten-threads")
    seen = figures(run(*node, program))
    # All ends were noticed: those who come take the theaps of those who went.
    own = 1 if main == "page" else 2
    assert (seen["threads_now"], seen["threads_total"]) == (own, own + 160), seen
    assert seen["theaps_peak"] <= own + 5, seen
    # 140 threads came and went between the two: 18 MiB of stacks, 7 MiB of thread-local memory. 1.6 MiB is the most that was
    # seen in 80 runs.
    assert seen["late_end_kib"] <= seen["early_end_kib"] + 3 * 1024, seen
