"""Runs the compiled test programs: each test function of a cmocka program is one test here, a program
without cmocka is one test as a whole. The programs and their flavours are listed in tests.json in the
build folder. A line of output that starts with "FIGURE " is shown at the end of the run."""
import functools
import json
import os
import pathlib
import re
import signal

import pytest

import conftest

BUILD = pathlib.Path(os.environ.get("MI_BUILD_DIR", conftest.ROOT / "build" / "test"))
CROSS = conftest.ROOT / "build" / "aarch64"
# Other processors, by qemu's names, whose programs were built and are to run (make long WHAT=platforms); each also with
# other sizes of OS pages, where it may have such.
PLATFORMS = os.environ.get("MI_PLATFORMS", "").split()
PAGE_SIZES = {"aarch64": (16384, 65536), "ppc64le": (65536,)}
SLOW = ("failure", "refusals")  # thousands of runs with calls that are refused; limits of the system
SKIPPED = 77  # status of a program without cmocka that cannot do its work here; its last line says why
TIMEOUT_S = int(os.environ.get("MI_TEST_TIMEOUT", "240"))
REGISTERED = re.compile(r"\bcmocka_unit_test\w*\s*\(\s*(\w+)")
TAP = re.compile(r"^(ok|not ok) \d+(?: -)? (# SKIP )?(\S+)")


def programs(manifest, flavour=None):
    if not manifest.exists():
        return []
    found = json.loads(manifest.read_text())
    for program in found:
        program["flavour"] = flavour or program["flavour"]
    return found


# Programs that also run with guards around every block: flavours and groups. A test that cannot hold then skips itself.
EVERY_BLOCK = "guarded"
GUARDED = {("release", "api"): EVERY_BLOCK, ("padded", "api"): f"{EVERY_BLOCK}-padded", ("secure", "api"): f"{EVERY_BLOCK}-secure",
           ("release", "stress"): EVERY_BLOCK, ("secure", "stress"): f"{EVERY_BLOCK}-secure"}
# They bound memory, which is 64 KiB of addresses and an OS page for each block then, or refuse the calls that make guards.
UNGUARDED = {"charged", "collapse", "crowd", "failing", "failing_new", "limits", "phases", "pipeline", "pool", "sandbox", "sleepers"}
# They look at what lies beside blocks, or which block comes next.
UNGUARDED |= {"secure", "secure_quarantine", "secure_told"}


def guarded_programs():
    kinds = [(program, GUARDED.get((program["flavour"], program["group"]))) for program in programs(BUILD / "tests.json")]
    return [dict(program, flavour=flavour) for program, flavour in kinds
            if flavour and program["name"] not in UNGUARDED]


# With memory tags, some also on a processor that has none.
UNTAGGED = {"basic", "realloc", "tagged"}


def cross_programs():
    found = [dict(program, flavour="aarch64-mte" if program["flavour"] == "mte" else "aarch64")
             for program in programs(CROSS / "tests.json")]
    return found + [dict(program, flavour="aarch64-mte-without", emulator=[*program["emulator"], "-cpu", "cortex-a57"])
                    for program in found if program["flavour"] == "aarch64-mte" and program["name"] in UNTAGGED]


# What an emulator cannot show: its own memory is that of the program, its threads and children are slow or do not come up, and it says that
# memory was populated (MADV_POPULATE_WRITE) that it did not touch: what is charged is less than what was asked for.
EMULATED_LACKS = {"charged", "children", "crowd", "exit_order", "failing", "forks", "limits", "signals", "thread_ends", "threads"}
# What does not hold elsewhere: where, program, test (none: all of the program), and why. "plain" is a system that is
# taken for one with nothing but POSIX (src/os/os_plain.c).
ELSEWHERE_LACKS = {
    ("windows", "arena", "arena_many_leave_room_for_malloc"): "Windows has no fork",
    ("windows", "heap", "heap_new_without_memory"): "Windows has no fork",
    ("windows", "heap_malloc", "heap_alloc_new_does_not_return_null"): "Windows has no fork",
    ("windows", "heap_malloc", "heap_strings"): "Windows has other paths (test/windows/paths.c)",
    ("windows", "options_matrix", "options_matrix_holds_within_limits"): "Windows has no limits of resources",
    ("windows", "strings", "realpath_resolves"): "Windows has other paths (test/windows/paths.c)",
    ("windows", "theap", "theap_without_memory_is_null"): "Windows has no fork",
    ("plain", "collapse"): "POSIX does not have huge pages",
    ("plain", "sandbox"): "it makes system calls that a sandbox need not permit",
    ("plain", "sandbox_new"): "it makes system calls that a sandbox need not permit",
    ("plain", "glibc_names", "malloc_trim_gives_memory_back"): "POSIX does not have the resident size",
    ("plain", "messages", "process_info_tells_the_truth"): "POSIX does not have the resident size",
    ("plain", "guarded", "guarded_faults_are_reported"): "POSIX does not have what kind an access was",
    ("plain", "guarded", "guarded_by_the_environment"): "POSIX does not have what kind an access was",
    ("plain", "refusals", "refusals_mappings"): "POSIX does not have a call that gives memory back without a new mapping",
    ("plain", "refusals", "refusals_no_overcommit"): "POSIX does not say whether memory is charged before it is touched",
    ("s390x", "guarded", "guarded_faults_are_reported"): "it tells the OS page of a fault only",
    ("s390x", "guarded", "guarded_handler_stands_back"): "it tells the OS page of a fault only",
    ("s390x", "places"): "its mmap takes other arguments",
    ("musl", "first_call"): "musl calls no function of .preinit_array",
    ("musl", "children"): "popen of musl 1.2.3 closes the pipes of other threads that call it at the same time",
    ("musl", "guarded", "guarded_faults_are_reported"): "musl has no function that tells a stack",
    ("musl", "guarded", "guarded_mistakes_are_found_by_free"): "musl has no function that tells a stack"}


def lacks(program, name):
    """Why a test cannot hold where it is to run, or None."""
    is_platform = program["flavour"].startswith("platform")
    if is_platform and program["emulator"] and program["group"] == "stress" and program["name"] in EMULATED_LACKS:
        return "the emulator's own memory, threads and children count, and populated memory does not"
    where = program["flavour"].split("-")[1] if is_platform else program["flavour"]
    return ELSEWHERE_LACKS.get((where, program["name"], name), ELSEWHERE_LACKS.get((where, program["name"])))


def platform_flavour(program):
    """What a program is called that has another library than the one as shipped, which unit tests do not have."""
    is_shipped = program["flavour"] == "release" or program["group"] == "unit"
    return "" if is_shipped else f"-{program['flavour']}"


def platform_programs():
    for platform in PLATFORMS:
        found = [program for program in programs(conftest.ROOT / "build" / platform / "tests.json") if program["flavour"] != "mte"]
        for page_size in (None, *PAGE_SIZES.get(platform, ())):
            more = ["-p", str(page_size)] if page_size else []
            suffix = f"-{page_size // 1024}k" if page_size else ""
            yield from (dict(program, flavour=f"platform-{platform}{suffix}{platform_flavour(program)}", emulator=[*program["emulator"], *more])
                        for program in found if not page_size or program["group"] != "unit")


PROGRAMS = programs(BUILD / "tests.json") + guarded_programs() + cross_programs() + list(platform_programs())


@functools.lru_cache(maxsize=None)
def registered_names(source):
    """The test functions a source registers; None if it does not use cmocka."""
    text = (conftest.ROOT / source).read_text()
    if not re.search(r"#\s*include\s*<cmocka\.h>", text) and not REGISTERED.search(text):
        return None
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.M)
    return tuple(dict.fromkeys(REGISTERED.findall(text)))


@functools.lru_cache(maxsize=None)
def run(path, emulator, is_guarded=False):
    """Run a program once."""
    more = {"MIMALLOC_GUARDED_SAMPLE_RATE": "1"} if is_guarded else {}
    return conftest.attempt(*emulator, path, timeout=TIMEOUT_S, CMOCKA_MESSAGE_OUTPUT="TAP", **more)


@functools.lru_cache(maxsize=None)
def results(path, emulator, is_guarded=False):
    """{test: (outcome, its lines of output)} of a cmocka program."""
    found, lines, last = {}, [], None
    for line in run(path, emulator, is_guarded).output.splitlines():
        match = TAP.match(line)
        if match:
            outcome = "skipped" if match[2] else "passed" if match[1] == "ok" else "failed"
            last = match[3]
            found[last] = (outcome, lines + [line])
            lines = []
        elif line.startswith("#") and last:  # cmocka prints the reason after the verdict
            found[last][1].append(line)
        else:
            lines.append(line)
    return found


def ending(status):
    if status is None:
        return f"ran longer than {TIMEOUT_S} s"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def whole_program_problem(status, names, reported):
    """What is wrong with a run beyond the verdicts on its tests; None if nothing."""
    failed = [name for name, (outcome, _) in reported.items() if outcome == "failed"]
    unknown = [name for name in failed if name not in (names or ())]
    if status is None or status < 0:
        return ending(status)
    if unknown:
        return f"has failed tests that are not found by name in its source: {unknown}"
    if names is not None and not reported:
        return f"reported no test and {ending(status)}"
    if status and not failed:
        return ending(status)
    return None


def label(program):
    return f"{program['group']}/{program['name']}[{program['flavour']}]"


def collect():
    for program in PROGRAMS:
        # It runs once. (No bracket behind the name of a group: xdist would not see the group.)
        marks = [pytest.mark.xdist_group(f"{program['flavour']}/{program['group']}/{program['name']}")]
        if program["group"] == "stress" or program["flavour"].startswith(("aarch64", "platform")) or program["name"] in SLOW:
            marks.append(pytest.mark.slow)
        names = registered_names(program["source"])
        # The last one, without a name, is about the program as a whole.
        for name in (*(names or ()), None):
            yield pytest.param(program, name, marks=marks, id=label(program) + (f"::{name}" if name else ""))


def test_programs_are_built():
    """Without this an empty build folder would look like success."""
    assert PROGRAMS, f"no test programs in {BUILD}: run make test"


@pytest.mark.slow
def test_aarch64_is_built():
    if not (CROSS / "tests.json").exists():
        pytest.skip("no compiler, emulator or cmocka for aarch64, or this commit leaves it out (scripts/test.sh)")


@pytest.mark.slow
def test_musl_is_built():
    if not (conftest.ROOT / "build" / "musl" / "tests.json").exists():
        pytest.skip("no compiler or cmocka for musl, or this commit leaves it out (scripts/test.sh)")


@pytest.mark.slow
def test_i686_is_built():
    if not (conftest.ROOT / "build" / "i686" / "tests.json").exists():
        pytest.skip("no compiler or cmocka for 32-bit x86, or this commit leaves it out (scripts/test.sh)")


@pytest.mark.parametrize("program, name", list(collect()))
def test_native(program, name):
    lack = lacks(program, name)
    if lack:
        pytest.skip(f"{label(program)}: {lack}")
    key = program["path"], tuple(program["emulator"]), program["flavour"].startswith(EVERY_BLOCK)
    status, output, _ = run(*key)
    conftest.FIGURES.extend(f"{label(program)}: {line[7:]}" for line in output.splitlines()
                            if line.startswith("FIGURE "))
    names = registered_names(program["source"])
    tail = "\n".join(output.splitlines()[-80:])
    if status == SKIPPED and names is None:
        pytest.skip(f"{label(program)}: {tail.splitlines()[-1]}")
    if name is None:
        problem = whole_program_problem(status, names, results(*key) if names is not None else {})
        if problem:
            pytest.fail(f"{label(program)} {problem}\n{tail}", pytrace=False)
        return
    outcome, lines = results(*key).get(name, (None, None))
    if outcome is None:
        pytest.fail(f"not reported; {label(program)} {ending(status)}\n{tail}", pytrace=False)
    if outcome == "skipped":
        why = next((line[6:] for line in lines if line.startswith("SKIP: ")), "says so")
        pytest.skip(f"{label(program)}::{name}: {why}")
    if outcome == "failed":
        pytest.fail("\n".join(lines), pytrace=False)
