"""The module of bindings/go: its own tests, and a program that follows its README. If this fails, a Go program does not build,
or gets memory that is not what it asked for.

Here the package is linked with the library that is built already (tag `mimalloc_system`), as a distribution would do it;
`make long WHAT=languages` compiles the library through cgo, as the README says, and looks at format and lints."""
import functools
import hashlib
import os
import re
import shlex
import shutil
import sys

import pytest

import conftest
from conftest import attempt, find, run

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import release  # noqa: E402

FOLDER = conftest.ROOT / "bindings" / "go"
README = (FOLDER / "README.md").read_text()
START, EXAMPLE, COMPILED, LINKED = (text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S))
VERSION = release.version()
IS_LONG = os.environ.get("MI_LANGUAGES") == "all"
TESTS = re.findall(r"^func (Test\w+)\(", (FOLDER / "mimalloc_test.go").read_text(), re.M)
slow = pytest.mark.slow


@functools.cache
def mark():
    """Go keeps what it has compiled, for flags and for what is in the folder of the package; this is about all else: the C
    sources, and where the library is installed."""
    sources = sorted((conftest.ROOT / "src").rglob("*.[ch]")) + sorted((conftest.ROOT / "include").glob("*.h"))
    return hashlib.sha256(b"".join([bytes(conftest.ROOT), *(path.read_bytes() for path in sources)])).hexdigest()[:16]


def go(*arguments, cwd=FOLDER, **variables):
    """Runs go without a network."""
    find("cc")
    return attempt(find("go"), *arguments, cwd=cwd, timeout=900, CGO_ENABLED=1, GOPROXY="off", GOTOOLCHAIN="local",
                   GOFLAGS="-buildvcs=false", CC="cc", CGO_CFLAGS=f"-O2 -DMI_SOURCES_{mark()}", **variables)


@pytest.fixture(scope="module")
def linked(build, library):
    """Variables with which the library is found that `make test` built."""
    find("pkg-config")
    folder = conftest.ROOT / "build" / "go"
    run("cmake", "--install", build, "--prefix", folder)
    package, = folder.glob("lib*/**/mimalloc.pc")
    return {"PKG_CONFIG_PATH": package.parent, "LD_LIBRARY_PATH": package.parent.parent}


def passed(done):
    assert done.status == 0, done.output[-8000:]
    return set(re.findall(r"^--- PASS: (\w+)", done.output, re.M))


def program(folder):
    """The program of the README, in a folder beside the repository."""
    (folder / "libmimalloc").symlink_to(conftest.ROOT)
    program = folder / "program"
    program.mkdir()
    (program / "main.go").write_text(EXAMPLE)
    for line in START.splitlines():
        done = go(*shlex.split(line)[1:], cwd=program)
        assert done.status == 0, done.output
    return program


def assert_as_expected(done):
    """The program has run, and the library has read its environment."""
    assert done.status == 0 and f"{VERSION} 998001\n" in done.output and re.search("purge_delay.* 77", done.output), done.output


def test_version_is_that_of_the_header():
    assert f'\nconst Version = "{VERSION}"\n' in (FOLDER / "mimalloc.go").read_text()


def test_flags_are_those_of_cmake():
    """cgo refuses those that are missing (https://go.dev/s/invalidflag)."""
    text = (FOLDER / "compiled.go").read_text()
    assert set(re.findall(r" (-f[\w=-]+)", "".join(re.findall(r"^#cgo CFLAGS:(.*)$", text, re.M)))) == conftest.code_flags()


@slow
def test_own_tests_with_the_installed_library(linked, figure):
    done = go("test", "-v", "-count=1", "-tags", "mimalloc_system", ".", **linked)
    assert len(TESTS) > 10 and passed(done) == set(TESTS)
    figure(f"Go: {len(TESTS)} tests of the module")


@slow
def test_readme_makes_a_program_with_the_installed_library(linked, tmp_path):
    done = go(*shlex.split(LINKED)[1:], cwd=program(tmp_path), **linked, MIMALLOC_VERBOSE=1, MIMALLOC_PURGE_DELAY=77)
    assert_as_expected(done)


# -- What only make long does --

if IS_LONG:
    def test_own_tests():
        done = go("test", "-v", "-count=1", ".")
        assert passed(done) == set(TESTS)

    def test_readme_makes_a_program(tmp_path):
        done = go(*shlex.split(COMPILED)[1:], cwd=program(tmp_path), MIMALLOC_VERBOSE=1, MIMALLOC_PURGE_DELAY=77)
        assert_as_expected(done)

    def test_lints(linked):
        done = go("vet", "-tags", "mimalloc_system", ".", **linked)
        assert done.status == 0, done.output

    def test_format():
        if not shutil.which("gofmt"):
            pytest.skip("gofmt is not installed")
        assert run("gofmt", "-l", FOLDER) == ""
