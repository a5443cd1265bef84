"""Processes that are number 1, each in its own namespace. If this fails, a container's first process that starts another
container while it makes its first allocation leaves that one hanging."""
import os
import subprocess

import pytest

import conftest

INCLUDE = conftest.ROOT / "include"
SOURCE = conftest.ROOT / "test" / "interop" / "src" / "pid_namespace.c"
NOT_PERMITTED = 77


def test_first_allocation_in_two_namespaces(tmp_path):
    library = tmp_path / "static.o"
    tree = os.environ.get("MI_SOURCE_DIR", conftest.ROOT)  # of another version, to compare
    subprocess.run(["cc", "-O0", "-DMI_DEBUG=0", f"-I{tree}/include", f"-I{tree}/src", "-c", f"{tree}/src/static.c", "-o",
                    library], check=True)
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", SOURCE, library, "-pthread", "-o",
                    tmp_path / "program"], check=True)
    result = subprocess.run([tmp_path / "program"], capture_output=True, text=True, timeout=300)
    if result.returncode == NOT_PERMITTED:
        pytest.skip("no namespaces of process numbers: not permitted here")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "done\n"
