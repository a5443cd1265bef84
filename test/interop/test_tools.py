"""Programs under AddressSanitizer, Valgrind and ThreadSanitizer, and with a padded build: builds that track blocks find, or
make the tools find, what a program does wrong with our memory, and nothing in a program that is right."""
import pathlib
import re
import signal
import xml.etree.ElementTree

import pytest

import conftest
from conftest import attempt, find, run

pytestmark = pytest.mark.slow
INCLUDE = conftest.ROOT / "include"
LIBRARY = conftest.ROOT / "src" / "static.c"
MISUSE = pathlib.Path(__file__).resolve().parent / "src" / "misuse.c"
SANITIZED = pathlib.Path(__file__).resolve().parent / "src" / "sanitized.c"
STRESS = conftest.ROOT / "test" / "stress"

# mistake: what Valgrind calls it
OVERFLOWS = ["overflow", "overflow_odd", "overflow_large", "overflow_mapping", "overflow_nothing", "overflow_zeroed",
             "overflow_aligned", "overflow_string", "overflow_from_heap", "overflow_shifted", "overflow_shrunk",
             "overflow_grown", "underflow", "underflow_shifted"]
LATE = ["use_after_free", "use_after_free_large", "use_after_free_elsewhere", "use_after_realloc", "use_after_destroy",
        "use_after_destroy_large", "use_after_collect"]
READS = ["overflow_by_reading", "use_after_free_first_byte"]
FREES = ["realloc_after_free", "double_free", "double_free_large", "free_inside", "free_of_nobody"]
UNSEEN_BY_ASAN = {"uninitialised": "UninitCondition", "uninitialised_again": "UninitCondition",
                  "leak": "Leak_DefinitelyLost"}
VALGRIND = {**dict.fromkeys(OVERFLOWS + LATE, "InvalidWrite"), **dict.fromkeys(READS, "InvalidRead"),
            **dict.fromkeys(FREES, "InvalidFree"), **UNSEEN_BY_ASAN}
RIGHT = ["clean", "holder"]
# Without a tool a write is seen by its trace, if the block or its page is still there when it is looked for.
UNSEEN_BY_PADDING = ["use_after_free_large", "use_after_destroy", "use_after_destroy_large", "use_after_collect"]


def build(folder, name, *arguments, compiler="cc"):
    """The path of what the compiler makes; skips the test if it cannot make programs of the kind at all."""
    path = folder / name
    flags = [word for word in arguments if str(word).startswith("-fsanitize")]
    trial = folder / "trial.c"
    trial.write_text("int main(void) { return 0; }\n")
    if attempt(find(compiler), *flags, trial, "-o", folder / "trial").status != 0:
        pytest.skip(f"{compiler} cannot link with {' '.join(flags)}")
    run(compiler, "-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", f"-I{INCLUDE}", *arguments, "-o", path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tools")


# -- AddressSanitizer --

@pytest.fixture(scope="module")
def asan_library(folder):
    """As users get it: not compiled with the sanitizer."""
    return build(folder, "asan.o", "-DMI_TRACK_ASAN=1", "-c", LIBRARY)


@pytest.fixture(scope="module", params=["cc", "clang"])
def asan_program(request, folder, asan_library):
    return build(folder, f"misuse-asan-{request.param}", "-fsanitize=address", MISUSE, asan_library, "-lpthread",
                 compiler=request.param)


@pytest.mark.parametrize("mistake", OVERFLOWS + LATE + READS + FREES)
def test_asan_finds(mistake, asan_program):
    output = attempt(asan_program, mistake).output
    frames = re.findall(r"^ +#\d+ 0x\w+ in (\w+)", output, re.M)
    assert "ERROR: AddressSanitizer: " in output, output
    assert mistake in frames, output
    if mistake in FREES:
        assert "mimalloc: error: " in output, output  # the tool has no word for it


@pytest.mark.parametrize("name", RIGHT)
def test_asan_is_silent(name, asan_program):
    assert run(asan_program, name) == ""


# -- Valgrind --

def valgrind(program, folder, *arguments):
    """[(kind, functions of the stack)] of all errors in one run, and the output of the program."""
    report = folder / "valgrind.xml"
    output = run(find("valgrind"), "--xml=yes", f"--xml-file={report}", "--leak-check=full", program, *arguments)
    errors = xml.etree.ElementTree.parse(report).getroot().findall("error")
    return [(error.findtext("kind"), [frame.findtext("fn") for frame in error.find("stack")]) for error in errors], output


@pytest.fixture(scope="module")
def valgrind_program(folder):
    if not pathlib.Path("/usr/include/valgrind/memcheck.h").exists():
        pytest.skip("valgrind/memcheck.h is not installed")
    return build(folder, "misuse-valgrind", "-DMI_TRACK_VALGRIND=1", MISUSE, LIBRARY, "-lpthread")


@pytest.fixture(scope="module")
def valgrind_errors(valgrind_program, folder):
    return valgrind(valgrind_program, folder, *VALGRIND)[0]


@pytest.mark.parametrize("mistake", VALGRIND)
def test_valgrind_finds(mistake, valgrind_errors):
    kinds = [kind for kind, functions in valgrind_errors if mistake in functions]
    assert VALGRIND[mistake] in kinds, valgrind_errors


def test_valgrind_is_silent(valgrind_program, folder):
    assert valgrind(valgrind_program, folder, *RIGHT) == ([], "")


def test_valgrind_with_malloc_replaced(folder, valgrind_program):
    """The program's own malloc stays, if Valgrind is told: then it is ours that is watched."""
    source = folder / "plain.c"
    source.write_text("#include <stdlib.h>\n"
                      "int main(void) { volatile char* p = malloc(10); p[10] = 1; free((void*)p); return p[5]; }\n")
    program = build(folder, "plain", "-DMI_TRACK_VALGRIND=1", "-DMI_MALLOC_OVERRIDE", "-fno-builtin", source, LIBRARY,
                    "-lpthread", "-w")
    output = attempt("valgrind", "--soname-synonyms=somalloc=nouserintercepts", program).output
    assert "Invalid write of size 1" in output and "Invalid read of size 1" in output, output
    assert "mi_track_give" in output and "mi_track_take" in output, output


# -- A padded build --

@pytest.fixture(scope="module")
def padded_program(folder):
    return build(folder, "misuse-padded", "-DMI_PADDING=1", MISUSE, LIBRARY, "-lpthread")


def padded(mistake):
    """What a padded build calls the mistake; None: nothing."""
    if mistake in READS + UNSEEN_BY_PADDING + list(UNSEEN_BY_ASAN):
        return None
    if mistake in FREES:
        return r"(double free detected of block|invalid pointer:) \w+ "
    kind = "use after free" if mistake in LATE else mistake.split("_")[0]
    return rf"(buffer )?{kind} in heap block \w+ of size \d+: write .* bytes.*, found in mi_collect; there is now 01 "


@pytest.mark.parametrize("mistake", VALGRIND)
def test_padded_finds(mistake, padded_program):
    status, output, _ = attempt(padded_program, mistake)
    wanted = padded(mistake)
    if wanted is None:
        assert status == 0 and "error" not in output, "docs/guide.md says that this is not found"
    else:
        assert re.match(f"mimalloc: error: {wanted}", output), output
        assert (status == 0) == (mistake in FREES), status  # what is damaged ends the process


AT_ONCE = {"MIMALLOC_PURGE_DELAY": "0", "MIMALLOC_ARENA_EAGER_COMMIT": "0"}


@pytest.mark.parametrize("mistake", UNSEEN_BY_PADDING)
def test_use_of_memory_that_went_back_ends_the_program(mistake, padded_program):
    """As docs/guide.md says; with these options any build does so."""
    assert attempt(padded_program, mistake, **AT_ONCE).status == -signal.SIGSEGV


@pytest.mark.parametrize("options", [{}, AT_ONCE])
@pytest.mark.parametrize("name", RIGHT)
def test_padded_is_silent(name, options, padded_program):
    assert run(padded_program, name, **options) == ""


@pytest.mark.parametrize("mistake, at", [
    ("overflow", "size 24: write after 24 bytes"), ("overflow_odd", "size 13: write after 13 bytes"),
    ("overflow_nothing", "size 0: write after 0 bytes"), ("overflow_large", "size 3145728: write after 3145728 bytes"),
    ("overflow_shrunk", "size 60: write after 60 bytes"), ("overflow_grown", "size 1049576: write after 1049576 bytes"),
    ("underflow", "size 40: write 1 bytes before it"), ("use_after_free", "size 100: write 50 bytes into it")])
def test_padded_is_exact(mistake, at, padded_program):
    assert f" of {at}, found in " in attempt(padded_program, mistake).output


PADDED = """
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>
static volatile size_t one = 1;
int main(int argc, char** argv) {
  char* const p = mi_malloc(40 * one);
  char* const before = mi_malloc(40 * one);
  if (strcmp(argv[1], "contents") == 0) {
    printf("%x ", p[39] & 255);
    mi_free(p);
    printf("%x %x\\n", p[0] & 255, p[39] & 255);
    memset(mi_zalloc(40), 1, 40);
  } else if (strcmp(argv[1], "free") == 0) {
    memcpy(p + 40, "behind!", 8);
    mi_free(p);
  } else if (strcmp(argv[1], "realloc") == 0) {
    p[41 * one] = 1;
    p[-2 * one] = 1;
    mi_free(mi_realloc(p, 38));
  } else if (strcmp(argv[1], "reuse") == 0) {
    mi_free(p);
    p[3 * one] = 7;
    for (size_t i = 0; i < 3000 * one; i++) mi_malloc(40);
    puts("not reached");
  } else if (strcmp(argv[1], "size") == 0) {
    mi_free_size(p, 40);
    mi_free_size(before, argc == 2 ? 39 : 41);
    return 0;
  } else if (strcmp(argv[1], "notes") == 0) { // both notes of a block
    memset(p - 16, 1, 16);
    memset(p + 40, 2, 8 + 16);
    mi_free(p);
    puts("not freed");
  }
  return before == NULL || argc < 2;
}
"""


@pytest.fixture(scope="module")
def padded_by_hand(folder):
    (folder / "padded.c").write_text(PADDED)
    return build(folder, "padded", "-w", "-DMI_PADDING=1", folder / "padded.c", LIBRARY, "-lpthread")


def test_padded_contents_are_known(padded_by_hand):
    assert run(padded_by_hand, "contents") == "d0 df df\n"


@pytest.mark.parametrize("case, wanted", [
    ("free", r'buffer overflow .* of size 40: write after 40 bytes, found in free; there is now 62 65 68 69 6e 64 21 00 .*"behind!\.'),
    ("realloc", r"buffer overflow .* of size 40: write after 41 bytes, found in realloc; "),
    ("reuse", r"use after free .* of size 40: write 3 bytes into it, found in malloc; there is now 07 df "),
    ("notes", r"invalid pointer: ")])
def test_padded_finds_at_the_next_call(case, wanted, padded_by_hand):
    status, output, _ = attempt(padded_by_hand, case)
    assert re.match(f"mimalloc: error: {wanted}", output), output
    assert "not reached" not in output and (status != 0) == (case != "notes"), output


@pytest.mark.parametrize("arguments, size", [([], 39), ([1], 41)])
def test_padded_knows_the_size_at_a_free(arguments, size, padded_by_hand):
    said = run(padded_by_hand, "size", *arguments)
    assert re.fullmatch(rf"mimalloc: warning: free with size {size} of block \w+, which holds 40 bytes\n", said), said


def test_padded_goes_on_if_an_error_function_says_so(folder):
    source = folder / "goes_on.c"
    source.write_text("#include <errno.h>\n#include <mimalloc.h>\n#include <stdio.h>\n"
                      "static void say(int code, void* arg) { printf(\"%d \", code == EFAULT); (void)arg; }\n"
                      "int main(void) { mi_register_error(&say, NULL);\n"
                      "  volatile char* p = mi_malloc(10); p[10] = 1; p[-1] = 1; mi_free((void*)p); puts(\"on\"); return 0; }\n")
    program = build(folder, "goes_on", "-w", "-DMI_PADDING=1", source, LIBRARY, "-lpthread")
    assert re.search(r"underflow.* 1 1 on$", " ".join(run(program).split())), run(program)


# -- ThreadSanitizer, without suppressions --

@pytest.fixture(scope="module")
def tsan_library(folder):
    return build(folder, "tsan.o", "-fsanitize=thread", "-DMI_DEBUG=3", "-DMI_SHOW_ERRORS=0", "-c", LIBRARY)


@pytest.mark.parametrize("name, arguments", [("slots", []), ("heaps", []), ("forks", ["--mib", "1"])])
def test_tsan_is_silent(name, arguments, folder, tsan_library):
    program = build(folder, f"tsan-{name}", "-fsanitize=thread", "-DLOAD_BY_NAME", "-fno-builtin",
                    f"-I{conftest.ROOT / 'test' / 'lib'}", STRESS / f"{name}.c", tsan_library, "-lpthread")
    output = run(program, "--percent", "3", *arguments)
    assert "WARNING: ThreadSanitizer" not in output, output


# -- Programs under a sanitizer with the library preloaded: each knows fixed ranges of addresses only --

# The run-time library of gcc is a shared one behind ours, so that our malloc is the program's; that of clang is in the
# program itself, and so is its malloc.
PRELOADED = [("cc", "address", "ours"), ("cc", "thread", "ours"), ("clang", "address", "others"),
             ("clang", "thread", "others"), ("clang", "memory", "others"), ("clang", "leak", "others")]


@pytest.fixture(scope="module", params=PRELOADED, ids="-".join)
def sanitized(request, folder, library):
    """(sanitizer, whose malloc, how to run it) of a program."""
    compiler, sanitizer, whose = request.param
    find("setarch")
    program = build(folder, f"sanitized-{compiler}-{sanitizer}", f"-fsanitize={sanitizer}", "-fno-builtin", SANITIZED,
                    "-lpthread", "-ldl", compiler=compiler)

    def start(word, how=run, preload=library):
        # Addresses as without randomisation: older run-time libraries refuse some of the others, with or without us.
        # A block that one thread frees and another gets next is a race to ThreadSanitizer if the malloc is not its
        # own, for it does not see inside (the guide says so): `work`, which does that, runs without reports.
        return how("setarch", "-R", "env", f"LD_PRELOAD={preload}" if preload else "PRELOADED=no",
                   f"TSAN_OPTIONS=report_bugs={int(word != 'work')}",
                   "ASAN_OPTIONS=verify_asan_link_order=0", program, word)
    if start("work", attempt, None).output != "0 wrong, sum 8\n":
        pytest.skip(f"{compiler} -fsanitize={sanitizer} does not work on this machine, with no library in front either")
    return sanitizer, whose, start


def test_sanitized_program_runs(sanitized):
    """If this fails, a program that is checked by a sanitizer dies with the library in front of it."""
    _, whose, start = sanitized
    assert start("work") == "0 wrong, sum 8\n"
    assert start("whose") == f"{whose}\n"


def test_sanitizer_still_finds(sanitized):
    """If this fails, it dies no more, but is not checked any more either."""
    sanitizer, whose, start = sanitized
    if sanitizer == "thread":
        assert "WARNING: ThreadSanitizer: data race" in start("race", attempt).output
    elif sanitizer == "address" and whose == "others":
        assert "heap-buffer-overflow" in start("overflow", attempt).output


# -- CMake --

@pytest.mark.parametrize("flags, problem", [
    (["-DMI_TRACK_VALGRIND=ON", "-DMI_HAS_MEMCHECK_H=OFF"], "MI_TRACK_VALGRIND needs the header valgrind/memcheck.h"),
    (["-DMI_TRACK_VALGRIND=ON", "-DMI_TRACK_ASAN=ON"], "MI_TRACK_ASAN and MI_TRACK_VALGRIND are both ON"),
    (["-DMI_TRACK_ASAN=ON", "-DMI_PADDING=ON"], "MI_PADDING and a tool (MI_TRACK_ASAN, MI_TRACK_VALGRIND) are both ON")])
def test_cmake_refuses(flags, problem, tmp_path):
    status, output, _ = attempt("cmake", "-S", conftest.ROOT, "-B", tmp_path, "-G", "Ninja", *flags)
    assert status == 1 and problem in output, output


@pytest.mark.parametrize("flags, is_padded", [
    ([], False), (["-DCMAKE_BUILD_TYPE=Debug"], True), (["-DCMAKE_BUILD_TYPE=Debug", "-DMI_NO_PADDING=ON"], False),
    (["-DCMAKE_BUILD_TYPE=Debug", "-DMI_PADDING=OFF"], False), (["-DMI_PADDING=ON"], True),
    (["-DCMAKE_BUILD_TYPE=Debug", "-DMI_TRACK_ASAN=ON"], False)])
def test_cmake_pads(flags, is_padded, tmp_path):
    run("cmake", "-S", conftest.ROOT, "-B", tmp_path, "-G", "Ninja", *flags)
    assert ("-DMI_PADDING=1" in (tmp_path / "build.ninja").read_text()) == is_padded
