"""Builds and runs the small programs that the figures are measured with."""
import functools
import pathlib
import platform
import re
import tempfile
import zlib

import pytest

import conftest
from conftest import run

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "src"

COMPILERS = {64: "cc", 32: "i686-linux-gnu-gcc"}  # by the width of pointers

x86_only = pytest.mark.skipif(platform.machine() != "x86_64", reason="counts instructions of x86-64")


@functools.lru_cache(maxsize=None)
def folder():
    """Where programs are built; removed when the run ends, through the object that holds it."""
    return tempfile.TemporaryDirectory(prefix="figures-")


@functools.lru_cache(maxsize=None)
def bits(library):
    """How wide the pointers of a library are, from the class of its file."""
    with open(library, "rb") as file:
        return {1: 32, 2: 64}[file.read(5)[4]]


def kind(library):
    """What is said about a figure that is not of the library for this processor."""
    return "" if bits(library) == 64 else ", 32 bits"


@functools.lru_cache(maxsize=None)
def program(name, library=None, width=64):
    """Compile src/NAME.c, linked with the library if one is given, otherwise for pointers of `width` bits; return its path."""
    width = bits(library) if library else width
    path = pathlib.Path(folder().name) / (f"{name}-{zlib.crc32(bytes(library)):08x}" if library else f"{name}-{width}")
    command = [COMPILERS[width], "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-fno-builtin",
               "-I", conftest.ROOT / "include", SOURCE / f"{name}.c", "-o", path, "-pthread"]
    if library:
        command += ["-Wl,--no-as-needed", library, f"-Wl,-rpath,{library.parent}"]
    run(*command)
    return path


def trace(mode, *command, preload=None):
    """What trace.c says about a program: the highest count of calls of each phase; "calls", "peak",
    "private", "libc", "ours"."""
    before = [program("trace"), mode] + (["-p", preload] if preload else [])
    lines = run(*before, *command)
    found = {}
    for name, calls in re.findall(r"^phase (\S+) calls (\d+)", lines, re.M):
        found[name] = max(found.get(name, 0), int(calls))
    for name, value in re.findall(r"^total (calls) (\d+)", lines, re.M) + re.findall(
            r"\b(peak|private|libc|ours) (\d+)", lines):
        found[name] = int(value)
    assert found, f"nothing was traced: {lines[-2000:]}"
    return found


def say(figure, row, value, bound):
    """Print a figure of the table, now and at the end of the run."""
    line = f"FIGURE {row}: {value} (bound {bound})"
    print(line)
    figure(line)
