"""Faults that scripts/faults.py injects: each still fits the code, and names programs that there are. That the programs
see them is what `make long WHAT=faults` shows; it takes minutes."""
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import faults  # pylint: disable=wrong-import-position

NAMES = sorted(path.stem for path in faults.FAULTS.glob("*.patch"))
FLAVOURS = {"unit": ("debug", "tiny"), "api": ("release", "debug", "tiny", "padded", "secure", "full", "plain"),
            "stress": ("release", "debug", "tiny", "padded", "secure", "full", "plain")}


def why_no_program(program):
    """Why nothing of that name is built from test/, or None."""
    if not re.fullmatch(r"\w+/\w+/\w+", program):
        return f"{program!r} is not FLAVOUR/GROUP/NAME"
    flavour, group, name = program.split("/")
    if flavour not in FLAVOURS.get(group, ()):
        return f"{program}: groups and their flavours are {FLAVOURS}"
    sources = [path for path in (conftest.ROOT / "test" / group).glob(f"{name}.*") if path.suffix in (".c", ".cpp")]
    return None if sources else f"{program}: there is no test/{group}/{name}.c"


def why_not_applied(fault, folder):
    """Why the patch does not fit copies of the files it changes, or None."""
    files = faults.touched(fault)
    if not files or not all(name.startswith("src/") and (conftest.ROOT / name).is_file() for name in files):
        return f"it must change files of src/, not {files}"
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(conftest.ROOT / name, folder / name)
    done = subprocess.run([*faults.PATCH, "--dry-run"], cwd=folder, input=fault.text, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return None if done.returncode == 0 else f"it does not apply any more:\n{done.stdout}"


def test_faults_are_there():
    assert NAMES


@pytest.mark.parametrize("name", NAMES)
def test_fault(name, tmp_path):
    if shutil.which("patch") is None:
        pytest.skip("patch is not installed")
    fault = faults.read(faults.FAULTS / f"{name}.patch")
    assert fault.programs, "no program must catch it"
    problems = [why_no_program(program) for program in fault.programs] + [why_not_applied(fault, pathlib.Path(tmp_path))]
    assert not any(problems), "\n".join(filter(None, problems))


@pytest.mark.parametrize("program", ["unit/remote", "debug/unit/none", "release/unit/remote", "debug/fuzz/calls"])
def test_a_program_that_is_not_there_is_found(program):
    assert why_no_program(program)


def test_a_patch_that_does_not_fit_is_found(tmp_path):
    text = "--- a/src/core/pages/pool.c\n+++ b/src/core/pages/pool.c\n@@ -1,1 +1,1 @@\n-no line of it\n+nor this\n"
    assert "does not apply" in why_not_applied(faults.Fault("none", "a rule", ["debug/unit/pool"], text), tmp_path)
