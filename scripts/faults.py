"""Breaks one rule of the library after the other and looks whether the tests see it: `make long WHAT=faults`.

test/faults/NAME.patch is a fault: what rule it breaks (its first line), the programs that must fail with it (the line
`Test:`, as debug/unit/remote), and a patch of src/. Each is applied to a copy of the tree, the programs are built and
run, and the patch is taken back. A fault that no program sees is a gap in the tests.

A program that does not end is one that fails. One that cannot be built says nothing, nor does one that fails without
any fault: both are errors.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAULTS = ROOT / "test" / "faults"
TREE = ROOT / "build" / "faults" / "tree"
BUILD = TREE / "build" / "test"
TIMEOUT_S = 60
LIST = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
# Without fuzz: a hunk goes where its context is, and nowhere else.
PATCH = ("patch", "-p1", "--fuzz=0", "--force", "--no-backup-if-mismatch", "--silent")
FAILED = re.compile(r"\bnot ok \d+ - (\S+)")  # a program may have printed before it
ASSERTION = re.compile(r"^.*assert.*$", re.MULTILINE | re.IGNORECASE)


class Problem(Exception):
    """Why nothing can be said about a fault."""


@dataclasses.dataclass
class Fault:
    name: str
    rule: str
    programs: list
    text: str


def read(path):
    """The fault in a file."""
    text = path.read_text()
    rule, test = (text.splitlines() + ["", ""])[:2]
    if not test.startswith("Test: ") or not rule.strip():
        raise Problem(f"{path.name}: the first line must say which rule is broken, the second 'Test: debug/unit/NAME'")
    return Fault(path.stem, rule, test.split()[1:], text)


def read_all(only=None):
    """All faults, or those of the names."""
    paths = {path.stem: path for path in sorted(FAULTS.glob("*.patch"))}
    for name in only or ():
        if name not in paths:
            raise Problem(f"there is no fault {name!r}; there are: {', '.join(paths)}")
    return [read(paths[name]) for name in (only or paths)]


def run(command, folder, what, text=None):
    """Run a command that must succeed; returns its output."""
    done = subprocess.run(command, cwd=folder, input=text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Problem(f"{what}:\n{done.stdout[-3000:].rstrip()}")
    return done.stdout


def touched(fault):
    """The files of a patch."""
    return re.findall(r"^\+\+\+ b/(\S+)", fault.text, re.MULTILINE)


def copy(files):
    """Files of the tree as they are, into the copy. What is the same there is not built again."""
    for name in files:
        source, target = ROOT / name, TREE / name
        if not target.exists() or source.read_bytes() != target.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def prepare():
    """The copy, without any fault, and configured."""
    files = [name for name in run(LIST, ROOT, "git cannot list the files").splitlines()
             if (ROOT / name).is_file()]
    for path in list(TREE.glob("src/*/*")) + list(TREE.glob("test/*/*")):
        if path.is_file() and str(path.relative_to(TREE)) not in files:
            path.unlink()  # removed since
    copy(files)
    # What a fault leaves unused is not a reason to stop.
    run(["cmake", "--preset", "test", "-DMI_WERROR=OFF"], TREE, "cannot be configured")


def target_of(program):
    """debug/unit/remote is made by unit-remote-debug."""
    flavour, group, name = program.split("/")
    return f"{group}-{name}-{flavour}"


def build(programs, jobs):
    run(["ninja", "-C", BUILD, f"-j{jobs}", *map(target_of, programs)], TREE, "cannot be built")


def how_it_fails(program):
    """How a program fails, or None."""
    environment = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}
    with subprocess.Popen([BUILD / "test" / program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True, cwd=BUILD) as process:
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return f"hang, ended after {TIMEOUT_S} s"
    text = output.decode(errors="replace")
    failed, assertion = FAILED.search(text), ASSERTION.search(text)
    if process.returncode == 0:
        return None
    if failed:
        return failed[1]
    if process.returncode > 0:
        return f"exit status {process.returncode}"
    return signal.Signals(-process.returncode).name + (f": {assertion[0].strip()}" if assertion else "")


def try_fault(fault, jobs):
    """[(program, how it fails, or None)] with the fault."""
    try:
        run(PATCH, TREE, "does not apply", fault.text)
        build(fault.programs, jobs)
        return [(program, how_it_fails(program)) for program in fault.programs]
    finally:
        copy(touched(fault))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this fault; may be given several times")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilers at once (default: %(default)s)")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # programs crash on purpose
    bad = 0
    try:
        faults = read_all(arguments.only)
        programs = sorted({program for fault in faults for program in fault.programs})
        prepare()
        build(programs, arguments.jobs)
        for program in programs:
            how = how_it_fails(program)
            if how is not None:
                raise Problem(f"{program} fails without any fault ({how}): what it catches says nothing")
        print("| fault | rule | caught by | how |\n| --- | --- | --- | --- |", flush=True)
        for fault in faults:
            try:
                for program, how in try_fault(fault, arguments.jobs):
                    bad += how is None
                    print(f"| {fault.name} | {fault.rule} | {program} | {how or '**not caught**'} |", flush=True)
            except Problem as problem:
                bad += 1
                print(f"| {fault.name} | {fault.rule} | - | **error** |\n{fault.name} {problem}", flush=True)
    except Problem as problem:
        sys.exit(f"faults: {problem}")
    print(f"{len(faults)} faults, {bad} not caught" if bad else f"{len(faults)} faults, all caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
