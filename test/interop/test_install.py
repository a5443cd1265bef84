"""An installed tree is usable in the usual ways: find_package, pkg-config, the object file first on the
link line. If one of these fails, nobody can build against what we ship."""
import os
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.slow

PROGRAM = r"""
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  void* p = malloc(100);
  void* q = mi_malloc(100);
  printf("%d %d\n", mi_usable_size(p) >= 100, mi_version() >= 340);
  mi_free(q);
  free(p);
  return 0;
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(consumer C)
find_package(mimalloc 3.4 CONFIG REQUIRED)
foreach(name IN ITEMS CMAKE_DIR LIBRARY_DIR INCLUDE_DIR OBJECT_DIR TARGET_DIR)
  if(NOT EXISTS "${MIMALLOC_${name}}")
    message(FATAL_ERROR "MIMALLOC_${name} is '${MIMALLOC_${name}}'")
  endif()
endforeach()
add_executable(shared main.c)
target_link_libraries(shared mimalloc)
add_executable(static main.c)
target_link_libraries(static mimalloc-static)
"""


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def installed(build, library, tmp_path_factory):
    """Installed, then moved: nothing may depend on the place it was installed to."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", build, "--prefix", first)
    moved = first.parent / "moved"
    shutil.move(first, moved)
    return moved


def test_layout(installed):
    for name in ("lib/libmimalloc.so", "lib/libmimalloc.so.3", "lib/libmimalloc.so.3.4", "lib/mimalloc-3.4/libmimalloc.a",
                 "lib/mimalloc-3.4/mimalloc.o", "include/mimalloc-3.4/mimalloc.h", "lib/pkgconfig/mimalloc.pc",
                 "lib/cmake/mimalloc-3.4/mimalloc-config.cmake"):
        found = list(installed.glob(name.replace("lib/", "lib*/**/", 1) if name.startswith("lib/") else name))
        assert found, f"{name} is not installed"
    assert "[libmimalloc.so.3]" in run("readelf", "-d", next(installed.glob("lib*/**/libmimalloc.so.3.4")))


def test_find_package(installed, tmp_path):
    (tmp_path / "main.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "b")
    for name in ("shared", "static"):
        assert run(tmp_path / "b" / name) == "1 1\n", name


@pytest.mark.parametrize("wanted, accepted", [("3.4", True), ("3.1", True), ("3.5", False), ("2.1", False)])
def test_find_package_version(installed, tmp_path, wanted, accepted):
    (tmp_path / "main.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(CMAKE.replace("mimalloc 3.4", f"mimalloc {wanted}"))
    result = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja",
                             f"-DCMAKE_PREFIX_PATH={installed}"], capture_output=True, text=True)
    assert (result.returncode == 0) == accepted, result.stdout + result.stderr


def test_pkg_config(installed, tmp_path):
    program = shutil.which("pkg-config") or shutil.which("pkgconf")
    if not program:
        pytest.skip("pkg-config is not installed")
    (tmp_path / "main.c").write_text(PROGRAM)
    folder = next(installed.glob("lib*/**/pkgconfig"))
    flags = run(program, "--cflags", "--libs", "mimalloc", env={**os.environ, "PKG_CONFIG_PATH": folder}).split()
    assert re.search(r"mimalloc-3\.4$", next(flag for flag in flags if flag.startswith("-I")))
    run("cc", tmp_path / "main.c", "-o", tmp_path / "main", *flags)
    assert run(tmp_path / "main", env={**os.environ, "LD_LIBRARY_PATH": folder.parent}) == "1 1\n"


def test_object_file_first(installed, tmp_path):
    (tmp_path / "main.c").write_text(PROGRAM)
    run("cc", f"-I{installed}/include/mimalloc-3.4", next(installed.glob("lib*/**/mimalloc.o")), tmp_path / "main.c",
        "-o", tmp_path / "main", "-pthread")
    assert run(tmp_path / "main") == "1 1\n"
