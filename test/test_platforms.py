"""README's table of platforms is what `make platforms` saw, and leaves no platform out. If one of these fails, README promises
what nobody ran, or hides what the code is for."""
import json
import pathlib
import re
import shutil
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import platforms  # noqa: E402  (the folder is no package)
import tidy  # noqa: E402

PROCESSOR = re.compile(r"\b(__x86_64__|__i386__|__aarch64__|__arm__|__riscv|__s390x__|__powerpc64__|__loongarch64|__mips__|__wasm__)\b")
PRESETS = json.loads((conftest.ROOT / "CMakePresets.json").read_text())["configurePresets"]


def test_readme_has_the_table():
    readme = platforms.README.read_text()
    assert platforms.renewed(readme, json.loads(platforms.RECORD.read_text())) == readme, "run python3 scripts/platforms.py"


def test_all_that_the_code_asks_for_is_listed():
    """Each system and processor of a conditional belongs to a row."""
    listed = set(" ".join(row.macros for row in platforms.PLATFORMS).split())
    asked = set()
    for path in conftest.ROOT.glob("src/**/*.[ch]"):
        for line in re.findall(r"^\s*#\s*(?:el)?if.*", path.read_text(), re.M):
            asked.update(found[0] for pattern in (tidy.OS_MACRO, PROCESSOR) for found in pattern.finditer(line))
    assert len(asked) > 10 and asked - listed == set()


def test_all_toolchains_are_listed():
    """Each preset for another platform has a row, whose name it has or begins with; each toolchain file has a preset."""
    crossed = {preset["cacheVariables"]["MI_CROSS"] for preset in PRESETS if "MI_CROSS" in preset.get("cacheVariables", {})}
    rows = [row.key for row in platforms.PLATFORMS] + ["wasi", "emscripten"]  # the two of wasm
    assert len(crossed) > 10 and [name for name in crossed if not re.match(rf"({'|'.join(rows)})(-|$)", name)] == []
    used = {pathlib.Path(preset["toolchainFile"]).name for preset in PRESETS if "toolchainFile" in preset}
    assert used == {path.name for path in conftest.ROOT.glob("cmake/cross-*.cmake")}


def test_make_platforms_runs_all_that_can_run():
    default = re.search(r"which=\$\{WHICH:-(.*)\}", (conftest.ROOT / "scripts" / "long.sh").read_text())[1]
    assert {row.key for row in platforms.PLATFORMS if not row.level} - set(default.split()) == set()


def test_records_are_whole():
    """Nothing is recorded for what cannot run, and each record says when, what and with what."""
    records = json.loads(platforms.RECORD.read_text())
    assert set(records) <= {row.key for row in platforms.PLATFORMS if not row.level}
    for record in records.values():
        assert record["passed"] > 0 and re.fullmatch(r"\d{4}-\d\d-\d\d", record["day"])
        assert record["sources"] and record["compiler"]


RESULTS = """<testsuites><testsuite timestamp="2026-01-02T03:04:05">
<testcase classname="test.test_native" name="test_native[api/basic[platform-arm]::one]"/>
<testcase classname="test.test_native" name="test_native[api/basic[platform-arm]::two]@platform-arm/api/basic"><failure message="no"/></testcase>
<testcase classname="test.test_native" name="test_native[stress/forks[platform-arm-16k]]">
 <skipped message="stress/forks[platform-arm-16k]: the emulator's own memory counts"/></testcase>
<testcase classname="test.test_native" name="test_native[api/basic[aarch64]::one]"/>
<testcase classname="test.test_bench" name="test_of_the_benchmark"/>
</testsuite></testsuites>"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository with a build for one platform, and its results."""
    folder = tmp_path / "build" / "arm"
    (folder / "CMakeFiles" / "3").mkdir(parents=True)
    (folder / "CMakeFiles" / "3" / "CMakeCCompiler.cmake").write_text('set(CMAKE_C_COMPILER_ID "GNU")\nset(CMAKE_C_COMPILER_VERSION "9.9")\n')
    (folder / "tests.json").write_text(json.dumps([
        {"group": group, "name": name, "flavour": "release", "emulator": []} for group, name in (("api", "basic"), ("stress", "forks"))]))
    (tmp_path / "results.xml").write_text(RESULTS)
    monkeypatch.setattr(platforms, "ROOT", tmp_path)
    return tmp_path


def test_results_are_recorded(tree):
    """What was there of others stays; a test that fails is in the table."""
    records = platforms.renew({"musl": {"passed": 1}}, tree / "results.xml")
    assert sorted(records) == ["arm", "musl"]
    arm = records["arm"]
    assert (arm["passed"], arm["failed"], arm["pages"], arm["day"], arm["compiler"]) == (1, ["api/basic[arm]::two"], [16], "2026-01-02", "gcc 9.9")
    assert arm["skipped"] == {"the emulator's own memory counts": 1}
    row = next(line for line in platforms.table({"arm": arm}).splitlines() if "armhf" in line)
    assert "| [failing: 1](docs/platforms.json) |" in row and row.endswith("| 1 | 1: emulator 1 |")


def test_a_part_of_a_run_is_not_recorded(tree, capsys):
    shutil.copy(tree / "results.xml", tree / "part.xml")
    (tree / "part.xml").write_text(re.sub(r"<testcase [^>]*stress/forks.*?</testcase>", "", RESULTS, flags=re.S))
    assert platforms.renew({}, tree / "part.xml") == {}
    assert "arm is not recorded, 1 programs have no result (stress/forks)" in capsys.readouterr().err
    assert platforms.renew({}, tree / "part.xml", ["musl"]) == {} and capsys.readouterr().err == ""  # nobody asked for it
    assert list(platforms.renew({}, tree / "results.xml", ["arm"])) == ["arm"]
