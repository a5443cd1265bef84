"""The package of bindings/python: built and installed as its README says, in an environment of its own. If this fails, a
Python program does not run with `python -m libmimalloc`, or runs on libc's malloc without anyone noticing."""
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

import pytest

import conftest
from conftest import attempt, find, run

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import release  # noqa: E402

FOLDER = conftest.ROOT / "bindings" / "python"
README = (FOLDER / "README.md").read_text()
COMMANDS, *_ = INSTALL, USE = re.findall(r"^```\n(.*?)^```", README, re.M | re.S)
EXAMPLE, = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)
VERSION = [int(part) for part in release.version().split(".")]
slow = pytest.mark.slow

REPORT = """
import json, libmimalloc, os, sys
print(json.dumps({"active": libmimalloc.is_active(), "arguments": sys.argv, "preload": os.environ.get("LD_PRELOAD"),
                  "statistics": libmimalloc.statistics(), "version": libmimalloc.version(), "path": str(libmimalloc.path())}))
"""


def test_version_is_that_of_the_header():
    version = re.search(r'^version = "(\d+)\.(\d+)\.(\d+)"$', (FOLDER / "pyproject.toml").read_text(), re.M)
    assert VERSION == list(map(int, version.groups()))


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment where the package is installed."""
    folder = tmp_path_factory.mktemp("python")
    find("cmake"), find("cc")
    made = attempt(sys.executable, "-m", "venv", folder)
    if "ensurepip is not" in made.output:
        pytest.skip("python3-venv is not installed")
    assert made.status == 0, made.output
    command = shlex.split(INSTALL.replace("./libmimalloc", str(conftest.ROOT)))
    done = attempt(folder / "bin" / command[0], *command[1:], "--disable-pip-version-check", cwd=folder)
    if "No matching distribution found for scikit-build-core" in done.output:
        pytest.skip("scikit-build-core cannot be had")
    assert done.status == 0, done.output[-8000:]
    return folder / "bin" / "python"


def reported(*command, **options):
    return json.loads(run(*command, **options).splitlines()[-1])


@slow
def test_program_runs_on_the_library(python, tmp_path):
    (tmp_path / "program.py").write_text(REPORT)
    seen = reported(python, "-m", "libmimalloc", "program.py", "argument", "-c", cwd=tmp_path)
    assert seen["active"] and seen["arguments"] == ["program.py", "argument", "-c"]
    assert seen["preload"] == seen["path"] and pathlib.Path(seen["path"]).is_file()
    assert seen["version"] == VERSION
    other = reported(python, "program.py", cwd=tmp_path)
    assert not other["active"] and other["statistics"] is None


@slow
def test_modules_options_and_status_pass_through(python):
    listed = run(python, "-m", "libmimalloc", "-m", "json.tool", stdin='{"a": 1}')
    assert json.loads(listed) == {"a": 1}
    done = attempt(python, "-m", "libmimalloc", "-X", "utf8", "-c", "import sys; sys.exit(40 + sys.flags.utf8_mode)")
    assert done.status == 41
    alone = attempt(python, "-m", "libmimalloc", apart=True)
    assert alone.status == 1 and "python -m libmimalloc program.py" in alone.errors


@pytest.mark.parametrize("name", ["with space", "with:colon"])
def test_path_that_the_loader_divides_is_refused(name, library, tmp_path):
    """LD_PRELOAD cannot hold such a path: the program would run without the library."""
    folder = tmp_path / name
    shutil.copytree(FOLDER / "libmimalloc", folder / "libmimalloc", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(library.resolve(), folder / "libmimalloc" / "libmimalloc.so")
    ended = attempt(sys.executable, "-m", "libmimalloc", "-c", "print('ran')", cwd=folder, apart=True)
    assert ended.status == 1 and ended.output == ""
    assert f"LD_PRELOAD cannot hold '{folder}/libmimalloc/libmimalloc.so': spaces and colons" in ended.errors
    os.symlink(folder / "libmimalloc" / "libmimalloc.so", tmp_path / "link.so")
    assert run(sys.executable, "-c", "import libmimalloc; print(libmimalloc.is_active())", cwd=folder,
               LD_PRELOAD=tmp_path / "link.so") == "True\n"


@slow
def test_children_run_on_it_too(python):
    child = "import libmimalloc; print(libmimalloc.is_active())"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)"
    assert run(python, "-m", "libmimalloc", "-c", parent) == "True\n"


@slow
def test_what_was_preloaded_stays(python):
    seen = reported(python, "-m", "libmimalloc", "-c", REPORT, LD_PRELOAD="libm.so.6")
    assert seen["preload"] == f"{seen['path']}:libm.so.6" and seen["active"]


@slow
@pytest.mark.parametrize("allocator, is_ours", [(None, True), ("pymalloc", False)])
def test_small_objects_are_ours_unless_said_otherwise(python, allocator, is_ours):
    grow = """
import libmimalloc
def current(): return libmimalloc.statistics()["malloc_normal"]["current"]
before = current()
kept = [float(i) for i in range(300000)]
large = bytearray(100000)
print(current() - before)
"""
    grown = int(run(python, "-m", "libmimalloc", "-c", grow, **({"PYTHONMALLOC": allocator} if allocator else {})))
    assert (grown > 300000 * 24) == is_ours and grown >= 100000


@slow
def test_examples_of_the_readme(python, tmp_path):
    (tmp_path / "program.py").write_text(EXAMPLE)
    program, _, last = map(shlex.split, USE.splitlines())
    version = str(tuple(VERSION))
    assert version in EXAMPLE
    assert re.fullmatch(rf"{re.escape(version)}\n\d+ bytes in blocks\n", run(python, *program[1:], cwd=tmp_path))
    assert run(python, "program.py", cwd=tmp_path) == f"{version}\n"
    assert run(python, *last[1:]) == "True\n"
    assert "committed" in run(python, *last[1:], MIMALLOC_SHOW_STATS=1)
    other = re.search(r"`(LD_PRELOAD=.*) program`", README)[1].replace("python", str(python), 1)
    assert "libmimalloc.so" in run("sh", "-c", f"{other} cat /proc/self/maps")


@slow
def test_library_is_as_it_is_shipped(python):
    """Without debug information, with the name that other programs are linked with."""
    path = run(python, "-c", "import libmimalloc; print(libmimalloc.path())").strip()
    assert "[libmimalloc.so.3]" in run(find("readelf"), "-dW", path)
    sections = run(find("readelf"), "-SW", path)
    assert ".debug_info" not in sections and ".symtab" in sections
    wheel, = pathlib.Path(path).parent.parent.glob("libmimalloc-*.dist-info/WHEEL")
    assert re.search(r"^Tag: py3-none-\w*linux\w*$", wheel.read_text(), re.M)
