"""The package of bindings/zig: its own tests, and a program that follows its README. If this fails, a Zig program does not build,
or gets memory that is not what it asked for.

The compiler is large (411 MB), so only `make long WHAT=languages` fetches it; here the tests run where it is there."""
import os
import re
import shlex
import shutil
import sys

import pytest

import conftest
from conftest import attempt

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import declarations  # noqa: E402
import release  # noqa: E402

FOLDER = conftest.ROOT / "bindings" / "zig"
PYTHON = conftest.ROOT / "build" / "zig" / "bin" / "python"
MANIFEST, BUILD, EXAMPLE, COMMAND = (text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", (FOLDER / "README.md").read_text(), re.M | re.S))
TESTS = re.findall(r'^test "', (FOLDER / "src" / "tests.zig").read_text(), re.M)
VERSION = release.version_number()
FUNCTIONS = {item.name: item for item in declarations.everything() if isinstance(item, declarations.Function)}
IS_LONG = os.environ.get("MI_LANGUAGES") == "all"
slow = pytest.mark.slow


def zig(*arguments, cwd):
    command = [shutil.which("zig")] if shutil.which("zig") else [PYTHON, "-m", "ziglang"]
    if not shutil.which(command[0]) or attempt(*command, "version").status != 0:
        pytest.skip("zig is not installed: scripts/setup.sh zig")
    caches = {f"ZIG_{kind}_CACHE_DIR": conftest.ROOT / "build" / "zig-cache" / kind.lower() for kind in ("LOCAL", "GLOBAL")}
    done = attempt(*command, *arguments, cwd=cwd, timeout=900, **caches)
    assert done.status == 0, done.output[-8000:]
    return done.output


def test_version_is_that_of_the_header():
    assert f"expectEqual({VERSION}, mimalloc.version())" in (FOLDER / "src" / "tests.zig").read_text()


def test_declarations_are_those_of_the_header():
    """As many parameters as in C, with these names."""
    text = (FOLDER / "src" / "mimalloc.zig").read_text()
    declared = re.findall(r"extern fn (mi_\w+)\((.*?)\)", text)
    assert len(declared) > 8
    for name, parameters in declared:
        named = [parameter for _, parameter in FUNCTIONS[name].parameters]
        assert [part.split(":")[0].strip() for part in parameters.split(",") if part] == named, name


@slow
@pytest.mark.parametrize("options", [[], ["-Dsecure"], ["-Ddebug"]] if IS_LONG else [[]])
def test_own_tests(options):
    assert f"{len(TESTS)}/{len(TESTS)} tests passed" in zig("build", "test", "--summary", "all", *options, cwd=FOLDER)


@slow
def test_readme_makes_a_program(tmp_path):
    (tmp_path / "libmimalloc").symlink_to(conftest.ROOT)
    program = tmp_path / "program"
    program.mkdir()
    for name, text in (("build.zig.zon", MANIFEST), ("build.zig", BUILD), ("main.zig", EXAMPLE)):
        (program / name).write_text(text)
    assert f"{VERSION} 998001 of the whole process\n" in zig(*shlex.split(COMMAND)[1:], cwd=program)
