#!/usr/bin/env python3
"""What is known of each platform: records what `make platforms` saw, and writes README's table from it.

    python3 scripts/platforms.py [RESULTS.xml [PLATFORM...]]

RESULTS.xml is what pytest wrote (--junitxml); docs/platforms.json keeps the newest results of each platform in it, and those of
others stay as they are. With PLATFORM... only these are recorded: a run may have a few results of others. Without a file only
the table is written. PLATFORMS is the list of what the code is for.

PLATFORMS-1  a number in the table comes from a run, together with the day, the sources, the compiler and the emulator of that run.
PLATFORMS-2  a platform is recorded only if each of its test programs has a result: a part of a run is no result.
Deliberately absent: a list of test programs (build/PLATFORM/tests.json has it), and an own format for results.
"""
import collections
import json
import pathlib
import platform
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "platforms.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- Written by scripts/platforms.py: begin -->\n", "<!-- Written by scripts/platforms.py: end -->\n"
NATIVE = "x86_64"

# A row: its name for WHICH and in the record, what a reader calls it, what the compiler defines there, and for platforms
# that have no tests what was done instead.
Row = collections.namedtuple("Row", "key system processor macros level", defaults=["", None])
PLATFORMS = [
    Row(NATIVE, "Linux, glibc", "x86-64", "__linux__ __GLIBC__ __x86_64__"),
    Row("musl", "Linux, musl", "x86-64", "__linux__ __x86_64__"),
    Row("i686", "Linux, glibc", "32-bit x86", "__i386__"),
    Row("aarch64", "Linux, glibc", "64-bit ARM", "__aarch64__"),
    Row("arm", "Linux, glibc", "32-bit ARM (armhf)"),
    Row("riscv64", "Linux, glibc", "riscv64", "__riscv"),
    Row("s390x", "Linux, glibc", "s390x", "__s390x__"),
    Row("ppc64le", "Linux, glibc", "ppc64le", "__powerpc64__"),
    Row("windows", "Windows, clang", "x86-64", "_WIN32"),
    Row("windows-gcc", "Windows, gcc", "x86-64", "_WIN32"),
    Row("windows-msvc", "Windows, clang-cl", "x86-64", "_WIN32"),
    Row("macos", "macOS", "arm64, x86-64", "__APPLE__", "linked, never run"),
    Row("freebsd", "FreeBSD", "x86-64, 64-bit ARM", "__FreeBSD__", "linked, never run"),
    Row("netbsd", "NetBSD 10", "x86-64, 64-bit ARM", "__NetBSD__", "linked, never run"),
    Row("openbsd", "OpenBSD", "x86-64, 64-bit ARM", "__OpenBSD__", "linked, never run"),
    Row("posix", "Android, DragonFly, Haiku", "any", "__ANDROID__ __DragonFly__ __HAIKU__", "written, never compiled"),
    Row("wasm", "WASI, Emscripten", "WebAssembly", "__wasi__ __EMSCRIPTEN__ __wasm__"),
]
KEYS = sorted((row.key for row in PLATFORMS), key=len, reverse=True)

# Why tests are skipped, in few words: the first that is found in what a test says.
REASONS = [
    ("emulator", r"emulator|qemu|Wine|cannot start itself"),
    ("another build", r"\bbuilds?\b|level 5|MI_\w+|with guards|guarded|flavour"),
    ("no program for it here", r"not installed|cannot be had|no compiler|make platforms"),
    ("not on this system", r""),
]


def output(*command):
    try:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()
    except OSError:
        return ""


def sources():
    """The commit that last changed what is compiled, and + if that is not all."""
    paths = "--", "src", "include", "cmake", "CMakeLists.txt"
    return output("git", "log", "-1", "--format=%h", *paths) + ("+" if output("git", "status", "--porcelain", *paths) else "")


def compiler(folder):
    """Of a build folder, as CMake found it."""
    for path in folder.glob("CMakeFiles/*/CMakeCCompiler.cmake"):
        found = dict(re.findall(r'^set\(CMAKE_C_COMPILER_(ID|VERSION) "(.*)"\)', path.read_text(), re.M))
        if "VERSION" in found:
            return f"{ {'GNU': 'gcc'}.get(found['ID'], found['ID'].lower())} {found['VERSION']}"
    return ""


def version(*command):
    """A program and its version, from the first line that it prints."""
    found = re.search(r"\d+(\.\d+)+", output(*command, "--version"))
    return f"{pathlib.Path(command[0]).name} {found[0]}" if found else ""


def manifest(key):
    path = ROOT / "build" / ("test" if key == NATIVE else key) / "tests.json"
    return json.loads(path.read_text()) if path.exists() else []


def runner(key):
    """What ran the programs; empty: the processor did."""
    if key == "wasm":
        wasmtime = output(ROOT / "build" / "wasmtime" / "bin" / "python", "-c", "from importlib.metadata import version as v; print(v('wasmtime'))")
        return ", ".join(filter(None, [version("node"), wasmtime and f"wasmtime {wasmtime}"]))
    emulators = {program["emulator"][0] for program in manifest(key) if program["emulator"]}
    for emulator in emulators:
        if not emulator.endswith("wine.sh"):
            return version(emulator)
        wine = version("wine64") or version("/usr/lib/wine/wine64")
        return wine.replace("wine64", "Wine")
    return ""


def name(case):
    """Of a test; behind it pytest-xdist writes a group."""
    return case.get("name").split("@")[0]


def place(case):
    """Of a result: which platform it is of, program, and OS page in KiB if that is another; or None."""
    module = case.get("classname").rsplit(".", 1)[-1]
    if module in ("test_windows", "test_wasm"):
        return module[len("test_"):], re.sub(r"\[.*", "", name(case)), None
    found = re.match(r"test_native\[(\w+/\w+)\[([\w-]+)\]", name(case))
    if module != "test_native" or not found:
        return None
    flavour = re.sub(r"^platform-", "", found[2])
    if flavour != found[2]:
        key = next((key for key in KEYS if re.match(rf"{key}(-|$)", flavour)), None)
        page = re.search(r"-(\d+)k(-|$)", flavour)
        return key and (key, found[1], int(page[1]) if page else None)
    return None if flavour.startswith("aarch64") or platform.machine() != NATIVE else (NATIVE, found[1], None)


def lacking(key, programs):
    """Programs that have no result."""
    if key == "wasm":
        wanted = set(re.findall(r"^def (test_\w+)", (ROOT / "test" / "test_wasm.py").read_text(), re.M))
    else:
        wanted = {f"{program['group']}/{program['name']}" for program in manifest(key) if program["flavour"] != "mte"} or {"all"}
    return sorted(wanted - programs)


def read(path):
    """The record of each platform that has results in the file, whole or not: {key: (record, programs)}."""
    found = {}
    for suite in xml.etree.ElementTree.parse(path).iter("testsuite"):
        for case in suite.iter("testcase"):
            where = place(case)
            if not where:
                continue
            key, program, page = where
            record, programs = found.setdefault(key, ({"day": suite.get("timestamp")[:10], "passed": 0, "failed": [], "skipped": {}, "pages": []}, set()))
            programs.add(program)
            if page and page not in record["pages"]:
                record["pages"].append(page)
            skipped = case.find("skipped")
            if skipped is not None:
                why = re.sub(r"^\S+(: )(?=\S)", "", skipped.get("message"))
                record["skipped"][why] = record["skipped"].get(why, 0) + 1
            elif case.find("failure") is None and case.find("error") is None:
                record["passed"] += 1
            else:
                record["failed"].append(re.sub(r"^test_native\[(.*)\]$", r"\1", name(case)).replace("[platform-", "["))
    return found


def renew(records, path, wanted=()):
    """`records` with those of a file of results, of these platforms (none: all that it has); prints what is not taken."""
    for key, (record, programs) in read(path).items():
        if wanted and key not in wanted:
            continue
        missing = lacking(key, programs)
        if missing:
            print(f"platforms: {key} is not recorded, {len(missing)} programs have no result ({', '.join(missing[:3])})", file=sys.stderr)
            continue
        built = ["wasi", "emscripten"] if key == "wasm" else ["test" if key == NATIVE else key]
        found = dict.fromkeys(filter(None, (compiler(ROOT / "build" / folder) for folder in built)))
        records[key] = {**record, "pages": sorted(record["pages"]), "failed": sorted(record["failed"]), "skipped": dict(sorted(record["skipped"].items())),
                        "sources": sources(), "compiler": ", ".join(found), "runner": runner(key)}
    return records


def reasons(skipped):
    """How many tests were skipped, and why."""
    if not skipped:
        return "0"
    count = collections.Counter()
    for why, times in skipped.items():
        count[next(reason for reason, pattern in REASONS if re.search(pattern, why))] += times
    return f"{sum(count.values()):,}: " + ", ".join(f"{reason} {times:,}" for reason, times in count.most_common())


def table(records):
    lines = ["| system | processor | level | last run of all its tests | passed | skipped |", "| --- | --- | --- | --- | --- | --- |"]
    for row in PLATFORMS:
        record = records.get(row.key)
        cells = [row.system, row.processor, row.level or "not run since results are recorded", "", "", ""]
        if record:
            level = f"[failing: {len(record['failed'])}](docs/platforms.json)" if record["failed"] else "tested"
            if record["pages"]:
                cells[1] += f", OS pages of 4, {' and '.join(map(str, record['pages']))} KiB"
            cells[2] = level + (f", under {record['runner']}" if record["runner"] else "")
            cells[3] = f"{record['day']}, {record['sources']}, {record['compiler']}"
            cells[4:] = f"{record['passed']:,}", reasons(record["skipped"])
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


def renewed(page, records):
    """The text of README with the table of these records."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + "\n" + table(records) + "\n" + END + rest.split(END)[1]


def main():
    if sys.argv[1:2] == ["--help"]:
        sys.exit(__doc__)
    records = json.loads(RECORD.read_text())
    if len(sys.argv) > 1:
        records = renew(records, sys.argv[1], sys.argv[2:])
        RECORD.write_text(json.dumps(records, indent=2, sort_keys=True) + "\n")
    README.write_text(renewed(README.read_text(), records))


if __name__ == "__main__":
    main()
