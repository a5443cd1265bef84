"""What GitHub would run if the project were pushed there (.github/): none of it was executed, so a checker reads it. If one of
these fails, a push there runs nothing, or something else than README says."""
import importlib.util
import re
import shutil

import pytest

import conftest
from conftest import attempt

GITHUB = conftest.ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FETCHED = conftest.ROOT / "build" / "actionlint" / "actionlint"


def lint(*paths):
    tool = FETCHED if FETCHED.exists() else shutil.which("actionlint") or pytest.skip("actionlint cannot be had")
    return attempt(tool, "-no-color", *paths)


@pytest.mark.slow
def test_workflows_are_right():
    ended = lint(*WORKFLOWS)
    assert len(WORKFLOWS) == 4 and ended.status == 0, ended.output


# kind of mistake: (what is in linux.yml, what is put there instead, what is said about it)
MISTAKES = {"key": ("runs-on:", "run-on:", '"runs-on" section is missing'),
            "matrix": ("matrix.command", "matrix.comand", 'property "comand" is not defined'),
            "system": ("os: ubuntu-24.04-arm", "os: ubuntu-24.04-mips", 'label "ubuntu-24.04-mips" is unknown')}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MISTAKES)
def test_the_checker_finds(kind, tmp_path):
    old, new, message = MISTAKES[kind]
    text = (GITHUB / "workflows" / "linux.yml").read_text()
    assert old in text
    (tmp_path / "linux.yml").write_text(text.replace(old, new))
    ended = lint(tmp_path / "linux.yml")
    assert ended.status == 1 and message in ended.output, ended.output


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_workflow_is_pinned_and_honest(path):
    """Actions have a version, and nobody takes the file for something that ran."""
    text = path.read_text()
    used = re.findall(r"uses: (\S+)", text)
    assert used and all(re.search(r"@v\d", action) for action in used), used
    assert "never executed so far" in " ".join(line.lstrip("# ") for line in text.splitlines()[:6])


@pytest.mark.parametrize("path", WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def test_what_a_workflow_calls_is_there(path):
    """Presets, files, words for make, and platforms."""
    text = path.read_text()
    presets = set(re.findall(r'"name": "([\w-]+)"', (conftest.ROOT / "CMakePresets.json").read_text()))
    makefile = (conftest.ROOT / "Makefile").read_text()
    assert set(re.findall(r"--preset ([\w-]+)", text)) <= presets
    assert all((conftest.ROOT / name).exists() for name in re.findall(r"(?<![\w/])(?:\.github|test|scripts)/[\w./]+", text))
    words = re.findall(r"\bmake (\w+)", text) + re.findall(r"command: (\w+)", text)
    assert all(re.search(rf"^{word}:", makefile, re.M) for word in words), words
    runs = (conftest.ROOT / "scripts" / "long.sh").read_text()
    which = [word for found in re.findall(r"which: \[(.*)\]", text) for word in found.split(", ")]
    assert all(re.search(rf"\bwhich=.*[ -]{word}[ }}]", runs) for word in which), which


@pytest.fixture(scope="module")
def windows():
    spec = importlib.util.spec_from_file_location("run_on_windows", GITHUB / "windows.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_programs_for_windows_are_found(windows):
    """Those of another machine, whose folder had another path."""
    place = conftest.ROOT / "build"
    assert windows.here("/home/x/build/windows/test/release/api/basic.exe", "windows") == place / "windows/test/release/api/basic.exe"
    assert windows.here("/home/x/build/windows", "windows") == place / "windows"
    assert windows.here("/x/test/../build/cross/windows-gcc/usr/bin", "windows-gcc") == place / "cross/windows-gcc/usr/bin"


def test_programs_for_windows_are_judged(windows):
    """What cannot hold there does not count; all else does, and a crash."""
    heap = {"name": "heap"}
    lacking, other = "not ok 1 - heap_new_without_memory\n", "not ok 2 - heap_other\n"
    assert windows.failed(heap, "ok 1 - heap_other\n", 0) == set()
    assert windows.failed(heap, lacking, 1) == set()
    assert windows.failed(heap, lacking + other, 2) == {"heap_other"}
    assert windows.failed(heap, lacking, -1073741819) == {"heap"}
    assert windows.failed({"name": "threads"}, "no result\n", 1) == {"threads"}
