"""Processes that are number 1, each in its own namespace. If this fails, a container's first process that starts another
container while it makes its first allocation leaves that one hanging."""
import os

import pytest

import conftest
from conftest import attempt, run

INCLUDE = conftest.ROOT / "include"
SOURCE = conftest.ROOT / "test" / "interop" / "src" / "pid_namespace.c"
NOT_PERMITTED = 77


def test_first_allocation_in_two_namespaces(tmp_path):
    library = tmp_path / "static.o"
    tree = os.environ.get("MI_SOURCE_DIR", conftest.ROOT)  # of another version, to compare
    run("cc", "-O0", "-DMI_DEBUG=0", f"-I{tree}/include", f"-I{tree}/src", "-c", f"{tree}/src/static.c", "-o", library)
    run("cc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", SOURCE, library, "-pthread", "-o", tmp_path / "program")
    status, output, _ = attempt(tmp_path / "program", timeout=300)
    if status == NOT_PERMITTED:
        pytest.skip("no namespaces of process numbers: not permitted here")
    assert (status, output) == (0, "done\n")
