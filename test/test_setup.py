"""What the commands do on a machine that lacks packages: `make deps`, `make demo` and `make test` install them, all others
name them and the line to type (scripts/setup.sh), and a long run of scripts/long.sh gets its parameters.

The machine is a folder with the few programs that the scripts themselves call; it is all of PATH. Its apt-get writes down
how it was called, and every other program that stands there does nothing."""
import re
import shutil
import subprocess

import pytest

import conftest

OWN_TOOLS = "sh dirname awk tr sed grep cat mktemp rm printenv make".split()
BUILD = {"cmake": "cmake", "ninja": "ninja-build", "gcc": "gcc", "cc": "gcc", "python3": "python3", "git": "git"}
LONG = "sanitize models endurance soak faults flavours coverage fuzz platforms wasm service scaling languages packages".split()
RECORD = 'echo "${0##*/} $*" >>"${0%/*}/calls"\n'


class Machine:
    def __init__(self, folder, user="root"):
        self.folder = folder
        for name in OWN_TOOLS:
            (folder / name).symlink_to(shutil.which(name))
        self.add("id", f"echo {0 if user == 'root' else 1000}")
        self.add("apt-get", RECORD)

    def add(self, name, script="exit 0"):
        (self.folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / name).chmod(0o755)

    def run(self, *command, **variables):
        return subprocess.run([str(self.folder / command[0]), *command[1:]], cwd=conftest.ROOT, text=True, timeout=100,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={"PATH": str(self.folder), **variables})

    def setup(self, *arguments, **variables):
        return self.run("sh", "scripts/setup.sh", *arguments, **variables)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


def missing(*, of):
    """Names of the packages in a line of output."""
    line = next(line for line in of.splitlines() if line.startswith("setup: missing: "))
    return line.removeprefix("setup: missing: ").split()


def test_setup_names_what_is_missing(tmp_path):
    # If these fail, a command that only builds changes the machine, or nobody learns what to do.
    machine = Machine(tmp_path)
    done = machine.setup("--check", "build")
    assert done.returncode == 1 and machine.calls() == []
    assert sorted(missing(of=done.stdout)) == sorted({*BUILD.values(), "libc6-dev"})
    assert done.stdout.splitlines()[-1] == 'setup: to install them, type: make deps FOR="build"'


def test_setup_names_one_that_is_missing(tmp_path):
    machine = Machine(tmp_path)
    for name in BUILD.keys() - {"ninja"}:
        machine.add(name)
    done = machine.setup("--check", "build")
    assert (done.returncode, missing(of=done.stdout), machine.calls()) == (1, ["ninja-build"], [])


def test_setup_is_silent_when_nothing_is_missing(tmp_path):
    machine = Machine(tmp_path)
    for name in BUILD:
        machine.add(name)
    for arguments in (["--check", "build"], ["build"]):
        done = machine.setup(*arguments)
        assert (done.returncode, done.stdout, machine.calls()) == (0, "", [])


@pytest.mark.parametrize("arguments, line", [
    ((), "sudo make deps"), (("--check", "test"), "sudo make deps"), (("build",), 'sudo make deps FOR="build"'),
    (("--check", "soak", "fuzz"), 'sudo make deps FOR="soak fuzz"'),
    (("--check", "compat"), 'sudo make deps FOR="compat" ONLY="git redis"')])
def test_setup_tells_another_user_what_to_type(arguments, line, tmp_path):
    machine = Machine(tmp_path, user="somebody")
    done = machine.setup(*arguments, ONLY="git redis")
    assert done.returncode == 1 and machine.calls() == []
    assert done.stdout.splitlines()[-1] == f"setup: to install them, type: {line}"


def test_setup_installs_what_is_missing(tmp_path):
    # If this fails, `make test` does nothing on a fresh machine.
    machine = Machine(tmp_path)
    machine.add("cmake")
    done = machine.setup("build")
    assert done.returncode == 0, done.stdout
    update, install = machine.calls()
    assert update.startswith("apt-get update")
    assert set(install.split()) >= {*BUILD.values(), "libc6-dev"} - {"cmake"} and "cmake" not in install.split()


def test_setup_asks_again_once_python_and_clang_are_there(tmp_path):
    """Which packages the quick rows of test/compat need, only Python can tell; of clang's runtime, only clang."""
    machine = Machine(tmp_path)
    machine.add("clang", "echo 99.0.1")
    machine.add("python3-of-apt", "echo row-package")
    machine.add("apt-get", f"{RECORD}{shutil.which('cp')} {tmp_path}/python3-of-apt {tmp_path}/python3")
    done = machine.setup("test")
    first, last = (call.split() for call in machine.calls() if call.startswith("apt-get install"))
    assert "python3" in first and "row-package" not in first, done.stdout
    assert "python3" not in last and "row-package" in last, done.stdout


@pytest.mark.parametrize("refused, status, said", [
    ("*", 1, "setup: apt-get could not install: cmake"), ("*lua5.4*", 0, "setup: lua5.4 cannot be had")])
def test_setup_goes_on_without_a_package_of_one_test_only(refused, status, said, tmp_path):
    machine = Machine(tmp_path)
    machine.add("apt-get", f'{RECORD}case "$1 $*" in install*{refused}) exit 100 ;; esac')
    done = machine.setup("test")
    assert done.returncode == status and said in done.stdout, done.stdout


def test_setup_refuses_an_unknown_group(tmp_path):
    machine = Machine(tmp_path)
    done = machine.setup("--check", "soap")
    assert done.returncode == 2 and "unknown group 'soap'; there are: build" in done.stdout


def test_setup_names_kernels_that_cannot_be_had(tmp_path):
    """They are downloaded into build/, never installed; in a tree that has none."""
    machine = Machine(tmp_path)
    for name in ("mkdir", "mv"):
        (tmp_path / name).symlink_to(shutil.which(name))
    machine.add("apt-get", RECORD + "exit 100")
    machine.add("apt-cache", "echo '  Depends: linux-image-1.2.3-cloud'")
    (tmp_path / "tree" / "scripts").mkdir(parents=True)
    shutil.copy(conftest.ROOT / "scripts" / "setup.sh", tmp_path / "tree" / "scripts")
    done = machine.run("sh", str(tmp_path / "tree" / "scripts" / "setup.sh"), "kernel")
    assert done.returncode == 0
    for processor in ("x86_64", "ppc64le"):
        assert f"setup: a kernel for {processor} cannot be had (build/kernel/{processor}/log)" in done.stdout, done.stdout
    calls = [[word for word in call.split() if word in ("update", "download", "install", "linux-image-1.2.3-cloud")] for call in machine.calls()]
    assert calls == [["update"], ["download", "linux-image-1.2.3-cloud"]] * 2


def test_setup_calls_what_there_is():
    # If this fails, a group installs nothing, and what needs it is skipped.
    text = (conftest.ROOT / "scripts" / "setup.sh").read_text()
    defined = set(re.findall(r"^((?:fetch|need)_\w+)\(\)", text, re.M))
    called = set(re.findall(r"\b(?:fetch|need)_\w+", text)) - {"need_"}
    assert len(called) > 20 and called <= defined, called - defined


# -- The commands

@pytest.mark.parametrize("command", [
    "all", "check", "install", "docs", "site", "bench", "compat", *(f"long WHAT={word}" for word in LONG)])
def test_command_installs_nothing(command, tmp_path):
    # If this fails, a command changes the machine without being asked.
    machine = Machine(tmp_path)
    machine.add("apt-get", RECORD + "exit 100")  # whatever is broken, nothing runs then
    done = machine.run("make", "--no-print-directory", *command.split())
    group = {"all": "build", "install": "build"}.get(command, command.rpartition("=")[2])
    line = "make deps" if group == "check" else f'make deps FOR="{group}"'
    assert done.returncode == 2 and machine.calls() == [] and "\nsetup: to install them, type: " in done.stdout, done.stdout
    assert done.stdout.count("type: ") == 1 and f"type: {line}\n" in done.stdout, done.stdout


@pytest.mark.parametrize("command, packages", [
    ("demo", {"cmake", "g++"}), ("test", {"cmake", "libcmocka-dev"}), ("deps", {"cmake", "libcmocka-dev"}),
    ("deps FOR=docs", {"doxygen"})])
def test_command_installs(command, packages, tmp_path):
    machine = Machine(tmp_path)
    machine.add("apt-get", RECORD + "exit 100")
    done = machine.run("make", "--no-print-directory", *command.split())
    assert done.returncode == 2 and "setup: apt-get could not install" in done.stdout
    assert packages <= {word for call in machine.calls() for word in call.split()}


# -- Long runs

@pytest.fixture
def complete(tmp_path):
    """A machine with what long runs in Python need; each call is recorded."""
    machine = Machine(tmp_path)
    for name in (*BUILD, "g++", "objdump", "patch", "lcov", "clang"):
        machine.add(name)
    machine.add("python3", 'case "$1" in scripts/compat.py | -*) ;; *) ' + RECORD.strip() + ' ;; esac\n'
                '[ "$1" != scripts/sanitize.py ]')
    return machine


def test_long_lists_its_words(tmp_path):
    done = Machine(tmp_path).run("make", "long")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[2:] if not line.startswith(" ")] == LONG


def test_long_refuses_an_unknown_word_before_the_first_run(complete):
    done = complete.run("make", "long", "WHAT=faults soap")
    assert done.returncode == 2 and f"unknown word 'soap'; there are: {' '.join(LONG)}" in done.stdout
    assert complete.calls() == []


def test_long_runs_all_in_order_and_names_those_that_failed(complete):
    done = complete.run("make", "long", "WHAT=coverage sanitize faults", "WHICH=tsan ubsan", "ONLY=pool-tag fork-lock",
                        "ARGS=--jobs 1")
    assert complete.calls() == ["python3 scripts/coverage.py", "python3 scripts/sanitize.py tsan ubsan",
                                "python3 scripts/faults.py --only pool-tag --only fork-lock --jobs 1"], done.stdout
    assert done.returncode == 2 and "long: failed: sanitize\n" in done.stdout


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_long_gives_fuzzing_its_seconds(shell, complete):
    # bash has a variable SECONDS of its own.
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    for variables in ({}, {"SECONDS": "600", "TARGET": "calls"}):
        assert complete.run(shutil.which(shell), "scripts/long.sh", "fuzz", **variables).returncode == 0
    assert complete.calls() == ["python3 scripts/fuzz.py", "python3 scripts/fuzz.py --seconds=600 --target=calls"]
