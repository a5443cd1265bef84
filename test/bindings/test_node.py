"""The package of bindings/node: its own tests, and the commands of its README. If this fails, `npx libmimalloc` does not run a
program, or runs it on libc's malloc without anyone noticing.

Here it gets the library that is built already; `make long WHAT=languages` lets npm build it, from a copy of the repository."""
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

FOLDER = conftest.ROOT / "bindings" / "node"
README = (FOLDER / "README.md").read_text()
INSTALL, USE, EXAMPLE = (text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S))
MANIFEST = json.loads((FOLDER / "package.json").read_text())
TESTS = re.findall(r'^test\("(.*?)"', (FOLDER / "test" / "library.test.js").read_text(), re.M)
IS_LONG = os.environ.get("MI_LANGUAGES") == "all"
slow = pytest.mark.slow


def test_version_is_that_of_the_header():
    assert MANIFEST["version"] == release.version()


def node():
    """Node of a version that the package is for."""
    program = find("node", "nodejs")
    version = run(program, "--version").strip()
    if int(version[1:].split(".")[0]) < 18:
        pytest.skip(f"node is too old: {version}")
    return program


@pytest.fixture(scope="module")
def package(library, tmp_path_factory):
    """The package, with the library that `make test` built."""
    folder = tmp_path_factory.mktemp("node") / "node_modules" / "libmimalloc"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("build", "libmimalloc", "node_modules"))
    (folder / "libmimalloc").mkdir()
    shutil.copy(library.resolve(), folder / "libmimalloc" / "libmimalloc.so")
    return folder


def follow(folder, npx):
    """Runs the commands of the README, and its example, where the package is in node_modules."""
    (folder / "script.js").write_text("console.log(process.argv.slice(2), require('libmimalloc').isActive())")
    outputs = [run(*npx, *shlex.split(line)[2:], cwd=folder) for line in USE.splitlines()]
    assert outputs[:2] == ["[ 'argument' ] true\n", "true\n"]
    assert "script.js" in outputs[2]
    assert run(node(), "-e", EXAMPLE, cwd=folder, PATH=f"{pathlib.Path(node()).parent}:{os.environ['PATH']}") == "false\ntrue\n0\n"


@slow
def test_own_tests(package, figure):
    reporter = ("--test-reporter", "tap") if "--test-reporter" in run(node(), "--help") else ()
    done = attempt(node(), "--test", *reporter, "test/library.test.js", cwd=package)
    assert done.status == 0, done.output[-8000:]
    assert len(TESTS) > 5 and set(TESTS) <= set(re.findall(r"^\s*ok \d+ - (.*)$", done.output, re.M)), done.output
    figure(f"Node: {len(TESTS)} tests of the package")


@slow
def test_commands_of_the_readme(package):
    follow(package.parent.parent, [node(), package / MANIFEST["bin"]["libmimalloc"]])


# -- What only make long does --

if IS_LONG:
    def npm(*arguments, **options):
        done = attempt(find("npm"), *arguments, "--offline", **options, timeout=600)
        assert done.status == 0, done.output[-8000:]
        return done.output

    def test_npm_builds_what_the_readme_says(tmp_path):
        """The folder is installed, and the archive that is made of it, beside which there is no repository and no compiler."""
        node(), find("cmake")
        copy = tmp_path / "libmimalloc"
        for name in ("src", "include", "cmake", "bindings/node", "bindings/python"):
            shutil.copytree(conftest.ROOT / name, copy / name, symlinks=True,
                            ignore=shutil.ignore_patterns("build", "libmimalloc.so", "node_modules"))
        for name in ("CMakeLists.txt", "LICENSE"):
            shutil.copy(conftest.ROOT / name, copy)
        (tmp_path / "package.json").write_text("{}")
        npm(*shlex.split(INSTALL)[1:], cwd=tmp_path)
        follow(tmp_path, [find("npx"), "--no-install", "libmimalloc"])

        packed = npm("pack", "--pack-destination", tmp_path, cwd=copy / "bindings" / "node")
        other = tmp_path / "other"
        other.mkdir()
        (other / "package.json").write_text("{}")
        npm("install", tmp_path / packed.splitlines()[-1], cwd=other)
        shutil.rmtree(copy)
        follow(other, [find("npx"), "--no-install", "libmimalloc"])
        files = {str(path.relative_to(other / "node_modules" / "libmimalloc")) for path in (other / "node_modules" / "libmimalloc").rglob("*.*")}
        assert files == {"README.md", "cli.js", "index.js", "package.json", "libmimalloc/libmimalloc.so"}
