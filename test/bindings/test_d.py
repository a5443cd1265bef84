"""The package of bindings/d: its tests, and a program that follows its README. If this fails, a D program does not build, or gets
memory that is not what it asked for.

Here the tests are linked with a library that is compiled as dub does, but without optimisation, for time; `make long WHAT=languages`
compiles them with each compiler there is, and lets dub build the program of the README as it says, and with the library that is installed."""
import json
import os
import re
import shlex
import sys

import pytest

import conftest
from conftest import attempt, find, run

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import release  # noqa: E402

FOLDER = conftest.ROOT / "bindings" / "d"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", (FOLDER / "README.md").read_text(), re.M | re.S)
(_, MANIFEST), (_, EXAMPLE), (_, COMMAND) = BLOCKS
SOURCES = [FOLDER / "tests" / "tests.d", *sorted((FOLDER / "source").rglob("*.d"))]
COMPILERS = {"ldc2": ["-unittest", "-of"], "gdc": ["-funittest", "-o"]}
IS_LONG = os.environ.get("MI_LANGUAGES") == "all"
slow = pytest.mark.slow


def test_flags_are_those_of_cmake():
    assert conftest.code_flags() <= set((FOLDER / "compile.sh").read_text().split())


@slow
@pytest.mark.parametrize("compiler", COMPILERS if IS_LONG else ["ldc2"])
def test_own_tests(compiler, tmp_path):
    """Those that are written fail if one assertion in them does."""
    test, output = COMPILERS[compiler]
    find(compiler)
    program, library = tmp_path / "program", tmp_path / "static.o"
    run("cc", "-c", "-std=gnu11", "-O0", "-fPIC", "-ftls-model=initial-exec", "-DNDEBUG", "-DMI_STATIC_LIB",
        f"-I{conftest.ROOT / 'include'}", conftest.ROOT / "src" / "static.c", "-o", library)
    name = [f"{output}={program}", f"-od={tmp_path}"] if compiler == "ldc2" else [output, program]
    run(find(compiler), test, f"-I{FOLDER / 'source'}", *SOURCES, library, *name)
    assert re.search(r"\b1 modules passed unittests", run(program))
    wrong = attempt(program, MIMALLOC_DISALLOW_OS_ALLOC=1)  # seen to fail: there is no memory
    assert wrong.status != 0


if IS_LONG:
    @pytest.fixture
    def readme(tmp_path):
        """The program of the README, in a folder beside the repository."""
        (tmp_path / "libmimalloc").symlink_to(conftest.ROOT)
        (tmp_path / "program" / "source").mkdir(parents=True)
        (tmp_path / "program" / "dub.json").write_text(MANIFEST)
        (tmp_path / "program" / "source" / "app.d").write_text(EXAMPLE)
        return tmp_path / "program"

    def dub(folder, **variables):
        find("dub")
        return run(*shlex.split(COMMAND), "--skip-registry=all", cwd=folder, DUB_HOME=folder / "home", timeout=600, **variables)

    VERSION = release.version_number()

    @pytest.mark.parametrize("compiler", COMPILERS)
    def test_readme_makes_a_program(compiler, readme):
        find(compiler)
        seen = dub(readme, DC=compiler, MIMALLOC_SHOW_STATS=1)
        assert f"{VERSION} 998001\n" in seen and "committed" in seen

    def test_readme_links_the_installed_library(build, readme):
        run("cmake", "--install", build, "--prefix", readme / "usr")
        library = next(readme.glob("usr/lib*/**/libmimalloc.so")).parent
        manifest = json.loads(MANIFEST) | {"subConfigurations": {"libmimalloc-sys": "shared"}, "lflags": [f"-L{library}"]}
        (readme / "dub.json").write_text(json.dumps(manifest))
        assert f"{VERSION} 998001\n" in dub(readme, LD_LIBRARY_PATH=library)
        assert "libmimalloc.so" in run("ldd", readme / "program")
