"""Reports of mistakes: their lines, JSON, what they lead to, and that no damage makes them crash. The guide says what is tested here."""
import importlib.util
import json
import os
import platform
import re
import subprocess

import pytest

import conftest
from conftest import attempt, compiled, run

pytestmark = pytest.mark.slow
GUIDE = (conftest.ROOT / "docs" / "guide.md").read_text()
FLAVOURS = {"release": [], "debug": ["-DMI_DEBUG=2", "-DMI_PADDING=1"], "secure": ["-DMI_SECURE=4"]}

spec = importlib.util.spec_from_file_location("misuse", conftest.ROOT / "scripts" / "misuse.py")
misuse = importlib.util.module_from_spec(spec)
spec.loader.exec_module(misuse)


def keys_of(head):
    """The keys of the table below `head` in the guide."""
    table = GUIDE[GUIDE.index(head):].split("\n\n")[1]
    return {key for cell in re.findall(r"^\| (`.*?`) \|", table, re.M) for key in re.findall(r"`(\w+)`", cell)}


ERROR_KEYS = keys_of("addresses are\nstrings as")
ABOUT_KEYS = keys_of("gives for the address:")
KINDS = set(re.findall(r'`"([^"]+)"`', re.search(r"^\| `kind` \| (.*\"unable to.*?;)", GUIDE, re.M)[1]))
STACK_KEYS = keys_of("in and beside guarded blocks:")
FRAME_KEYS = {"address", "function", "function_offset", "module", "module_offset"}
FAULT_KEYS = {"mimalloc", "kind", "errno", "thread", "message", "address", "size", "found", "access"}
STATES = {"in use", "free", "fresh", "unknown"}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    return {name: compiled(folder, name, "-O1", *flags) for name, flags in FLAVOURS.items()}


@pytest.fixture(scope="module")
def program():
    return misuse.build()


def check_about(about):
    assert set(about) == ABOUT_KEYS, about
    assert about["kind"] in ("block", "free", "foreign", "damaged")
    for name in ("block", "before", "behind"):
        block = about[name]
        assert block is None or (set(block) == {"address", "asked", "state"} and block["state"] in STATES), about
        assert block is None or block["asked"] is None or type(block["asked"]) is int
    assert (about["page"] is None) == (about["kind"] != "block") == (about["heap"] is None)
    if about["page"]:
        page = {"address", "descriptor", "size", "block_size", "blocks", "handed_out", "in_use", "holder", "thread"}
        assert set(about["page"]) == page and set(about["heap"]) == {"address", "kind", "number", "subprocess"}


def check_json(line):
    """Checks a line of JSON; returns the object."""
    report = json.loads(line)
    assert line.isascii() and report["mimalloc"] in ("error", "summary", "stack"), line
    if report["mimalloc"] == "stack":
        assert set(report) == STACK_KEYS and report["of"] in ("access", "allocation", "free") and report["frames"]
        assert all(set(frame) == FRAME_KEYS for frame in report["frames"])
        return report
    if "access" in report:
        is_ours = report["kind"] == "fault in the allocator"
        assert set(report) == FAULT_KEYS | ({"try"} if is_ours else set()) and report["kind"] in KINDS, line
        assert report["access"] in ("read", "write", "access") and (report["address"] is None) == (report["size"] is None) == is_ours
        return report
    if report["mimalloc"] == "summary":
        assert set(report) == {"mimalloc", "kind", "errno", "more"} and report["more"] > 0
        return report
    if report["kind"] == "other":
        assert set(report) == {"mimalloc", "kind", "errno", "thread", "message"}
        return report
    assert set(report) == ERROR_KEYS and report["kind"] in KINDS and report["try"] and report["message"], line
    if report["bytes"]:
        count = len(bytes.fromhex(report["bytes"]["hex"]))
        assert set(report["bytes"]) == {"address", "hex", "text"} and 0 < count <= 32
        assert len(report["bytes"]["text"]) == count
    if report["about"] is None:
        assert report["address"] is None
    else:
        check_about(report["about"])
        assert report["about"]["address"] == report["address"]
    return report


ADDRESS = "0x[0-9a-f]+"
BLOCK = rf"{ADDRESS}, (\d+ bytes asked for, )?(in use|free|never handed out|not known whether in use)"
LINES = [rf"mimalloc: error: (thread {ADDRESS}: )?[a-z].*",
         rf"mimalloc:   block:  ({BLOCK}(; the address is \d+ bytes (into it|before it|behind its end))?|none; .*)",
         rf"mimalloc:   before: ({BLOCK}|none; .*)", rf"mimalloc:   behind: ({BLOCK}|none; .*)",
         rf'mimalloc:   bytes:  {ADDRESS}:( [0-9a-f][0-9a-f]){{1,16}} "[ -~]{{1,16}}"',
         rf'mimalloc:           {ADDRESS}:( [0-9a-f][0-9a-f]){{1,16}} "[ -~]{{1,16}}"', r"mimalloc:   try:    \S.*"]


def check_text(text):
    """Checks the lines of some reports: each has its place. Returns how many reports there are."""
    last, count = len(LINES) - 1, 0
    for line in text.splitlines():
        if re.fullmatch(r"mimalloc: error: .*: \d+ more of this kind", line):
            continue
        at = next((i for i, pattern in enumerate(LINES) if re.fullmatch(pattern, line)), None)
        assert at is not None, line
        assert at > last or (at == 0 and last == len(LINES) - 1), (line, text)
        last, count = at, count + (at == 0)
    assert last == len(LINES) - 1, text
    return count


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_mistake_is_reported_in_order_and_as_json(flavour, libraries, program):
    """If this fails, a log reader stumbles over a report, or finds no keys that the guide names."""
    kinds, count = set(), 0
    for mistake in misuse.mistakes_of(program):
        for is_json in (0, 1):
            variables = {"LD_PRELOAD": str(libraries[flavour]), "MIMALLOC_SHOW_ERRORS": "1", "MIMALLOC_REPORT_JSON": str(is_json),
                         "MIMALLOC_ABORT_ON_MISUSE": "2"}
            try:
                said = subprocess.run([program, mistake], env=os.environ | variables, stdin=subprocess.DEVNULL, timeout=20,
                                      capture_output=True).stderr.decode()
            except subprocess.TimeoutExpired:
                assert flavour == "release"  # it crashes or hangs there: docs/security.md
                continue
            # The program itself, or the C++ library, may have words too.
            lines = [line for line in said.splitlines() if "mimalloc" in line and "warning" not in line]
            if is_json:
                kinds |= {report["kind"] for report in map(check_json, lines) if report["mimalloc"] != "stack"}
                continue
            # A crash in the allocator is told in other lines: see below.
            lines = [line for line in lines if not re.match(r"mimalloc: error: (  |fault in the allocator: )", line)]
            if lines:
                count += check_text("\n".join(lines))
    wanted = {"release": 4, "debug": 5, "secure": 4}[flavour]
    assert len(kinds) >= wanted and count > 30, (kinds, count)


HOSTILE = r"""
#include <mimalloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char** arguments) {
  (void)count;
  char* const p = mi_malloc(24);
  const int first = atoi(arguments[1]);
  for (int i = 0; i < 8; i++) p[24 + i] = (char)(first + i);
  mi_free(p);
  void* volatile too_large = mi_malloc((size_t)-1);
  too_large = mi_calloc((size_t)1 << 40, (size_t)1 << 40);
  void* volatile odd = mi_malloc_aligned(1, 3);
  void* volatile too_much = mi_malloc((size_t)1 << 47);
  mi_free((void*)(uintptr_t)0x1234560);
  mi_free((void*)(uintptr_t)0x1234560);
  if (first == 0) mi_new((size_t)1 << 47); // nobody can be told by an exception
  return 0;
}
"""


def test_json_with_any_bytes(tmp_path):
    """If this fails, whoever overflows a buffer with quotes or line breaks forges lines of a log."""
    (tmp_path / "hostile.c").write_text(HOSTILE)
    run("cc", "-O1", "-w", "-DMI_PADDING=1", f"-I{conftest.ROOT}/include", tmp_path / "hostile.c",
        conftest.ROOT / "src" / "static.c", "-o", tmp_path / "hostile", "-pthread")
    for first in range(0, 256, 8):
        ended = attempt(tmp_path / "hostile", first, MIMALLOC_REPORT_JSON="1", MIMALLOC_ABORT_ON_MISUSE="0", MIMALLOC_SHOW_ERRORS="1")
        reports = [check_json(line) for line in ended.output.splitlines() if line.startswith('{"mimalloc":')]
        written = bytes(range(first, first + 8))
        overflow = reports[0]
        assert overflow["kind"] == "buffer overflow" and overflow["size"] == 24 and overflow["call"] == "free"
        found = int(overflow["found"], 16) - int(overflow["bytes"]["address"], 16)
        assert bytes.fromhex(overflow["bytes"]["hex"])[found:found + 8] == written
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in written)
        assert overflow["bytes"]["text"][found:found + 8] == letters and letters in overflow["message"]
        # Each kind once, and at the end how many more there were; `new` without memory ends the process before that.
        more = ["other"] if first == 0 else ["invalid pointer", "allocation request is too large"]
        assert [report["kind"] for report in reports[1:]] == [
            "allocation request is too large", "invalid alignment", "unable to allocate memory", "invalid pointer", *more], reports
        assert len(ended.output.splitlines()) == len(reports) + (first == 0)
        assert reports[1]["size"] is None or reports[1]["size"] == 2**64 - 1


GUARDED = r"""
#include <mimalloc.h>
#include <string.h>
__attribute__((noinline)) char* make(void) { return mi_malloc(100); }
__attribute__((noinline)) void drop(char* p) { mi_free(p); }
int main(int count, char** arguments) {
  (void)count;
  char* volatile p = make();
  switch (arguments[1][0]) {
    case 'o': ((volatile char*)p)[100 + 4096] = 1; break;
    case 'u': (void)*(volatile char*)(p - 4096); break;
    case 'f': drop(p); p[9] = 1; break;
    case 'd': drop(p); drop(p); break;
  }
  return 0;
}
"""


def test_faults_in_guarded_blocks_as_json(tmp_path):
    """If this fails, a log reader does not learn of a fault what the text says: the access, the block, and the stacks."""
    (tmp_path / "guarded.c").write_text(GUARDED)
    run("cc", "-O1", "-g", "-w", "-rdynamic", "-fno-omit-frame-pointer", f"-I{conftest.ROOT}/include", tmp_path / "guarded.c",
        conftest.ROOT / "src" / "static.c", "-o", tmp_path / "guarded", "-pthread")
    wanted = {"o": ("buffer overflow", "write", ["access", "allocation"]), "u": ("buffer underflow", "read", ["access", "allocation"]),
              "f": ("use after free", "write", ["access", "allocation", "free"]), "d": ("double free", None, ["allocation", "free"])}
    for mistake, (kind, access, stacks) in wanted.items():
        ended = attempt(tmp_path / "guarded", mistake, MIMALLOC_REPORT_JSON="1", MIMALLOC_GUARDED_SAMPLE_RATE="1",
                        MIMALLOC_ABORT_ON_MISUSE="0")
        assert ended.status == (-11 if access else 0), ended.output
        reports = [check_json(line) for line in ended.output.splitlines() if line.startswith('{"mimalloc":')]
        assert reports[0]["kind"] == kind and reports[0].get("access") == access and reports[0]["size"] == 100
        assert [report["of"] for report in reports[1:]] == stacks, ended.output
        for stack in reports[1:]:
            names = {frame["function"] for frame in stack["frames"]}
            assert stack["block"] == reports[0]["address"] and "main" in names
            assert {"access": "main", "allocation": "make", "free": "drop"}[stack["of"]] in names
        if access:
            distance = int(reports[0]["found"], 16) - int(reports[0]["address"], 16)
            assert distance == {"o": 4196, "u": -4096, "f": 9}[mistake]


CRASH = r"""
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile uintptr_t one = 1;
__attribute__((noinline)) void request_end(uintptr_t p) { free((void*)(p * one)); }
__attribute__((noinline)) void* request_new(size_t size) { return malloc(size * one); }
__attribute__((noinline)) static void deep(uintptr_t limit) {
  volatile char room[64];
  room[0] = 1;
  if ((uintptr_t)&room - limit > 400) deep(limit);
  else request_new(3 << 20);
  room[1] = 1;
}
__attribute__((noinline)) static void grow_stack(void) {
  volatile char room[300000];
  for (size_t i = 0; i < sizeof(room); i += 4096) room[i] = 1;
}
static void own(int signal) { (void)signal; (void)!write(2, "own\n", 4); _exit(42); }
static void misuse(const char* how) {
  switch (how[0]) {
    case 'n': request_end(0x4141414141414140); break;  // not an address of any program
    case 'g':
    case 'l': { // the link of the free block behind
      volatile uintptr_t* const p = request_new(48);
      p[6] = how[0] == 'l' ? 0x1230 : 0x4141414141414140;
      for (int i = 0; i < 100; i++) request_new(48);
      break;
    }
    case 's': { // the stack overflows in malloc
      grow_stack();
      uintptr_t top = (uintptr_t)&how;
      char* const end = (char*)(top - 200000 & ~(uintptr_t)4095);
      if (mprotect(end - 4096, 4096, PROT_NONE) != 0) _exit(2);
      deep((uintptr_t)end);
      break;
    }
    case 'c': memcpy(request_new(10), (void*)(8 * one), 5); break; // a crash of the program
    case 'h': { // no handler without reports, one with
      struct sigaction now;
      sigaction(SIGSEGV, NULL, &now);
      _exit(now.sa_handler == SIG_DFL ? 10 : 11);
    }
    case 'o': signal(SIGSEGV, &own); request_end(0x4141414141414140); break;
  }
}
int main(int count, char** arguments) {
  (void)count;
  static char other[65536];
  const stack_t stack = {.ss_sp = other, .ss_size = sizeof(other)};
  sigaltstack(&stack, NULL);
  free(malloc(10));
  misuse(arguments[1]);
  return 1;
}
"""


def test_crash_in_the_allocator_is_explained(library, tmp_path):
    """If this fails, a user whose program dies in malloc learns nothing, or learns it of a crash that is not ours."""
    (tmp_path / "crash.c").write_text(CRASH)
    run("cc", "-O1", "-w", "-rdynamic", "-fno-builtin", "-fno-optimize-sibling-calls", tmp_path / "crash.c", "-o", tmp_path / "crash")

    def crash(how, **variables):
        return attempt(tmp_path / "crash", how, **{"LD_PRELOAD": library, "MIMALLOC_SHOW_ERRORS": "1"} | variables)

    for how, function, found in (("n", "request_end", None), ("l", "request_new", "0x1230"), ("g", "request_new", None)):
        ended = crash(how)
        lines = ended.output.splitlines()
        assert ended.status == -11 and lines[0].startswith("mimalloc: error: fault in the allocator: "), ended.output
        assert lines[1] == "mimalloc: error:   at:" and " #0 " in lines[2] and "libmimalloc" in lines[2]
        assert any(f" {function}+0x" in line for line in lines) and any(" main+0x" in line for line in lines), ended.output
        assert lines[-1].startswith("mimalloc: error:   try: ") and ended.output.count("fault in") == 1
        report, stack = (check_json(line) for line in crash(how, MIMALLOC_REPORT_JSON="1").output.splitlines())
        assert report["kind"] == "fault in the allocator" and report["try"] and stack["of"] == "access" and stack["block"] is None
        assert function in {frame["function"] for frame in stack["frames"]}
        assert how == "n" or (report["found"] == found and ("cannot be" in report["message"]) == (found is None)), report
        assert how != "g" or report["access"] == "access" or platform.machine() != "x86_64"
        silent = crash(how, MIMALLOC_SHOW_ERRORS="0")
        assert (silent.status, silent.output) == (-11, "")
    # Not ours, not explained: and a program that has a handler of its own keeps it.
    for how, status in (("s", -11), ("c", -11), ("o", 42)):
        ended = crash(how)
        assert (ended.status, ended.output) == (status, "own\n" if how == "o" else ""), (how, ended.output)
    assert crash("h", MIMALLOC_SHOW_ERRORS="0").status == 10 and crash("h").status == 11


EXAMPLE = r"""
#include <mimalloc.h>
#include <string.h>
int main(void) {
  char* name[6];
  for (int i = 0; i < 6; i++) memset(name[i] = mi_malloc(40), 'a' + i, 40);
  mi_free(name[3]);
  strcpy(name[2] + 40, "behind!");
  mi_free(name[2]);
  return 0;
}
"""


def test_example_of_the_guide_is_real(tmp_path):
    """If this fails, the guide explains a report that nobody gets."""
    (tmp_path / "example.c").write_text(EXAMPLE)
    run("cc", "-O1", "-w", "-DMI_PADDING=1", f"-I{conftest.ROOT}/include", tmp_path / "example.c",
        conftest.ROOT / "src" / "static.c", "-o", tmp_path / "example", "-pthread")
    said = attempt(tmp_path / "example", MIMALLOC_ABORT_ON_MISUSE="0", MIMALLOC_SHOW_ERRORS="1").output
    shown = re.search(r"### Reading a report\n\n```\n(.*?)```", GUIDE, re.S)[1]
    # Addresses differ in each run, and with them the coded bytes of the note.
    plain = lambda text: re.sub(ADDRESS, "0x", re.sub(r'00( [0-9a-f]{2}){8} ".*?"', "00", text))
    assert plain(shown) == plain(said)
    check_text(said)


VIOLATION = r"""
#include <mimalloc.h>
#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
static jmp_buf back;
static const char* mode;
static void say(const char* text) { puts(text); fflush(stdout); }
static void at_exit(void) { say("exit handler"); }
static void on_error(int code, void* arg) {
  (void)arg;
  say(code == EFAULT ? "called EFAULT" : code == EAGAIN || code == EINVAL ? "called" : "called for memory");
  if (!strcmp(mode, "misuse")) mi_free((void*)(uintptr_t)0x777770);
  if (!strcmp(mode, "jump")) longjmp(back, 1);
}
int main(int count, char** arguments) {
  (void)count;
  setvbuf(stdout, NULL, _IONBF, 0);
  mode = arguments[2];
  atexit(&at_exit);
  if (strcmp(mode, "none")) mi_register_error(&on_error, NULL);
  char* volatile p = mi_malloc(40);
  if (!strcmp(arguments[1], "damage")) {
    memset(p + 40, 1, 8); // of padded and secure builds
  }
  // Nothing of what follows may need memory from the system, except that stack.
  volatile char stack[65536];
  for (int i = 0; i < 65536; i += 512) stack[i] = 1;
  const struct rlimit none = {1, 1};
  setrlimit(RLIMIT_AS, &none);
  for (volatile int round = 0; round < 2; round++) {
    if (setjmp(back) != 0) { say("back"); continue; }
    if (!strcmp(arguments[1], "wrong")) mi_free((void*)(uintptr_t)(0x123450 + 16 * round));
    if (!strcmp(arguments[1], "damage")) { if (round == 0) mi_free(p); }
    if (!strcmp(arguments[1], "large")) if (mi_malloc(SIZE_MAX) != NULL) return 1;
  }
  say("went on");
  return 0;
}
"""


def expected(mistake, mode, level):
    """What the guide says: (lines of the program, whether it is ended)."""
    is_memory, code = mistake == "large", {"wrong": "called", "damage": "called EFAULT", "large": "called for memory"}[mistake]
    stops = not is_memory and (level == 2 or (level == 1 and mistake == "damage" and mode == "none"))
    lines = []
    for round in range(1 if mistake == "damage" else 2):
        if mode == "none" or (mode == "jump" and round > 0):
            call = []
        else:
            call = [code]
        lines += call
        if mode == "jump" and call:
            lines.append("back")  # so that nothing is decided
        elif stops:
            return lines, True
    return [*lines, "went on", "exit handler"], False


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_what_a_mistake_leads_to(flavour, tmp_path):
    """If this fails, a program goes on that its owner wanted to end, or ends that should go on."""
    (tmp_path / "violation.c").write_text(VIOLATION)
    run("cc", "-O1", "-w", *FLAVOURS[flavour], f"-I{conftest.ROOT}/include", tmp_path / "violation.c",
        conftest.ROOT / "src" / "static.c", "-o", tmp_path / "violation", "-pthread")
    defaults = {"release": 0, "debug": 1, "secure": 2}
    rows = dict(re.findall(r"^\| (\d) \| report.* \| (\w+) builds \|", GUIDE, re.M))
    assert {build: int(level) for level, build in rows.items()} == defaults
    for mistake in ("wrong", "large") if flavour == "release" else ("wrong", "damage", "large"):
        for mode in ("none", "plain", "misuse", "jump"):
            for level in (None, 0, 1, 2):
                variables = {} if level is None else {"MIMALLOC_ABORT_ON_MISUSE": str(level)}
                ended = attempt(tmp_path / "violation", mistake, mode, apart=True, MIMALLOC_SHOW_ERRORS="1", **variables)
                lines, is_ended = expected(mistake, mode, defaults[flavour] if level is None else level)
                case = (mistake, mode, level, ended)
                if mode == "misuse" and mistake != "large" and (defaults[flavour] if level is None else level) == 2:
                    lines, is_ended = lines[:1], True
                if mode == "misuse" and mistake == "large" and (defaults[flavour] if level is None else level) == 2:
                    lines, is_ended = lines[:1], True  # the mistake of the function ends it
                assert ended.output.splitlines() == lines, case
                assert ended.status == (-6 if is_ended else 0), case
                assert "mimalloc: error: " in ended.errors, case


DAMAGED = {"release": ([], 40000), "padded": (["-DMI_PADDING=1"], 3000), "secure": (["-DMI_SECURE=4"], 3000),
           "both": (["-DMI_SECURE=4", "-DMI_PADDING=1"], 2000), "tiny": (["-DMI_TINY=1"], 40000)}


@pytest.mark.parametrize("build", DAMAGED)
def test_no_damage_crashes_a_report(build, tmp_path, figure):
    """If this fails, whoever overwrites our structures makes the report of it crash, or hang, before anybody reads it."""
    flags, rounds = DAMAGED[build]
    root = conftest.ROOT
    run("cc", "-g", "-O1", "-w", *flags, f"-I{root}/include", f"-I{root}/src", root / "test" / "misuse" / "damage.c",
        "-o", tmp_path / "damage", "-pthread")
    kinds = {}
    for seed in (1, 2):
        said = run(tmp_path / "damage", rounds, seed, MIMALLOC_SHOW_ERRORS="1")
        for line in said.splitlines():
            if line.startswith('{"mimalloc"'):
                check_json(line)
            elif line.startswith("{"):
                check_about(json.loads(line))
        texts, longest, most = map(int, re.search(r"^texts (\d+) longest (\d+) of (\d+)$", said, re.M).groups())
        assert texts > rounds and longest < most - 64
        for kind, count in re.findall(r"(foreign|past|page|damaged) (\d+)", said):
            kinds[kind] = kinds.get(kind, 0) + int(count)
    figure(f"longest report of a damaged process, {build}: {longest} of {most} bytes")
    assert all(kinds[kind] > 0 for kind in ("foreign", "page", "damaged")), kinds
    assert kinds["damaged"] > rounds / 20 and kinds["page"] > rounds / 20
