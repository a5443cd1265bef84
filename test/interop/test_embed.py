"""What those pass who build the sources themselves, as bindings of other languages do: flags, macros and options of the
library that ours is compatible with. If one of these fails, a build looks as if it had what it asked for."""
import re

import pytest

import conftest
from conftest import attempt, run

SOURCES = conftest.ROOT / "test" / "interop" / "src"
INCLUDE = conftest.ROOT / "include"
STATIC_C = conftest.ROOT / "src" / "static.c"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wno-long-long", "-Werror"]
FILLERS = 60


# -- Thread-local variables

def static_tls(library):
    """(bytes of thread-local variables, whether all of them must be in the static block of each thread)"""
    found = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x\w+)", run("readelf", "-lW", library), re.M)
    return int(found.group(1), 16), "STATIC_TLS" in run("readelf", "-dW", library)


@pytest.fixture(scope="module", params=["initial-exec", "local-dynamic"])
def built(request, tmp_path_factory):
    """(model, a library built by hand, with nothing but the flag on the command line)"""
    path = tmp_path_factory.mktemp("embed") / "libembedded.so"
    run("cc", "-O1", "-shared", "-fPIC", f"-ftls-model={request.param}", f"-I{INCLUDE}", "-DMI_MALLOC_OVERRIDE",
        STATIC_C, "-pthread", "-o", path)
    return request.param, path


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The program, and libraries that together want more of the static block than there is."""
    folder = tmp_path_factory.mktemp("host")
    run("cc", *WARNINGS[:2], SOURCES / "embed_host.c", "-pthread", "-ldl", "-o", folder / "host")
    for name, model, size in (("full", "initial-exec", 32), ("late", "global-dynamic", 100)):
        (folder / name).mkdir()
        (folder / "filler.c").write_text(f"__thread char filler[{size}] __attribute__((tls_model(\"{model}\")));\n"
                                         "char* touch(void) { return filler; }\n")
        run("cc", "-shared", "-fPIC", folder / "filler.c", "-o", folder / name / "filler0.so")
        for i in range(1, FILLERS):
            (folder / name / f"filler{i}.so").write_bytes((folder / name / "filler0.so").read_bytes())
    return folder


def test_tls_model_on_the_command_line_acts(built):
    # The attribute of a variable would win over the flag.
    model, library = built
    assert static_tls(library)[1] == (model == "initial-exec")


def test_library_is_loaded_after_sixty_others(built, host):
    # What a plug-in for a large program meets: others have used up what there is for variables of threads.
    model, library = built
    result = attempt(host / "host", host / "full", FILLERS, library)
    if model == "local-dynamic":
        assert (result.status, result.output) == (0, "used\n")
    else:
        assert "static TLS block" in result.output, "if this works too, the flag is not needed any more"


def test_loader_allocates_for_thread_local_variables(built, host):
    # The loader makes room for variables of libraries loaded late by malloc, which is ours, which has such variables.
    _, library = built
    assert run(host / "host", host / "late", FILLERS, LD_PRELOAD=library) == "used\n"
    assert run(host / "host", host / "late", FILLERS, library) == "used\n"


def test_library_takes_little_of_the_static_block(library):
    # glibc keeps about 1.6 KB for all libraries that are loaded late.
    size, is_static = static_tls(library)
    assert is_static and size <= 48


# -- Macros on the line of the C file

# What must not look as if it were there.
REFUSED = ["MI_SECURE=6", "MI_TRACK_ETW=1", "MI_MAX_ALIGN_SIZE=32",
           "MI_TLS_MODEL_LOCAL=1", "MI_TLS_MODEL_PTHREADS=1", "MI_DEBUG=4"]
ACCEPTED = ["MI_SECURE=5", "MI_GUARDED=1", "MI_PADDING=1", "MI_TRACK_ETW=0", "MI_MAX_ALIGN_SIZE=16", "MI_DEBUG=3",
            "MI_NO_THP=1", "MI_FREE_IS_CHECKED=1", "MI_STAT=2", "MI_VISIT_ABANDONED=1", "MI_SHOW_ERRORS=1", "MI_XMALLOC=1",
            "MI_SKIP_COLLECT_ON_EXIT=1", "MI_LIBC_MUSL=1", "MI_OPT_SIMD=1", "MI_USE_ENVIRON=1", "MI_LOCAL_DYNAMIC_TLS=1",
            "MI_TLS_RECURSE_GUARD=1"]


def syntax(*macros):
    return attempt("cc", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDE}", *(f"-D{macro}" for macro in macros),
                   STATIC_C)


@pytest.mark.parametrize("macro", REFUSED)
def test_macro_without_code_stops_the_build(macro):
    result = syntax(macro)
    name = macro.split("=")[0]
    named = name.removesuffix("LOCAL").removesuffix("PTHREADS")
    assert result.status != 0 and re.search(rf'error: #error "{named}\b.* ', result.output), result.output


def test_macros_that_act_or_are_harmless_build():
    result = syntax(*ACCEPTED)
    assert result.status == 0, result.output


def test_no_thp_acts(tmp_path):
    (tmp_path / "value.c").write_text('#include "core/common/state.h"\n#include <stdio.h>\nint main(void) {\n'
                                      '  printf("%ld", mi_option_value(allow_thp));\n}\n')
    values = []
    for flags in ([], ["-DMI_NO_THP=1"], ["-DMI_NO_THP=0"], ["-DMI_NO_THP=1", "-DMI_DEFAULT_ALLOW_THP=2"]):
        run("cc", "-std=gnu11", *flags, f"-I{conftest.ROOT / 'src'}", f"-I{INCLUDE}", tmp_path / "value.c",
            conftest.ROOT / "src" / "core" / "common" / "state.c", "-o", tmp_path / "value")
        values.append(run(tmp_path / "value"))
    assert values == ["1", "0", "1", "2"]


# -- Options of CMake

# Of the library that ours is compatible with; the first are things a build may rely on.
WARNED = "TRACK_ETW DEBUG_TSAN DEBUG_UBSAN".split()
MENTIONED = """FREE_IS_CHECKED LIBC_MUSL USE_CXX NO_USE_CXX OPT_ARCH NO_OPT_ARCH OPT_SIMD SEE_ASM USE_LIBATOMIC
               TLS_MODEL_LOCAL TLS_MODEL_PTHREADS TLS_RECURSE_GUARD OSX_INTERPOSE OSX_ZONE WIN_REDIRECT WIN_DIRECT_TLS
               WIN_INIT_USE_RAW_DLLMAIN WIN_INIT_USE_TLS_DLLMAIN WIN_USE_FLS""".split()


def test_options_of_cmake_are_accepted_with_a_word(tmp_path):
    options = [f"-DMI_{name}=ON" for name in WARNED + MENTIONED]
    said = run("cmake", "-S", conftest.ROOT, "-B", tmp_path, "-G", "Ninja", *options)
    warnings = re.findall(r"^CMake Warning.*\n\s+MI_(\w+) has no effect", said, re.M)
    words = re.findall(r"^-- libmimalloc: MI_(\w+) has no effect \(.+\)$", said, re.M)
    assert sorted(warnings) == sorted(WARNED) and sorted(words) == sorted(MENTIONED)
    assert "not used by the project" not in said, said


@pytest.mark.parametrize("options, told", [
    (["-DMI_SECURE=6"], 'MI_SECURE is "6", must be ON, OFF or a level of 0 to 5'), (["-DMI_SECURE=high"], 'MI_SECURE is "high", must be'),
    (["-DMI_SECURE=ON", "-DMI_TRACK_ASAN=ON"], "MI_SECURE and a tool (MI_TRACK_ASAN, MI_TRACK_VALGRIND) are both ON")])
def test_protection_without_code_is_refused(options, told, tmp_path):
    # If this fails, whoever asks for protection gets a library of that name, and no protection.
    result = attempt("cmake", "-S", conftest.ROOT, "-B", tmp_path, "-G", "Ninja", *options)
    assert result.status != 0 and told in " ".join(result.output.split()) and not (tmp_path / "build.ninja").exists()


@pytest.mark.parametrize("folder, options, level", [
    ("b", [], 0), ("b", ["-DMI_SECURE=ON"], 4), ("b", ["-DMI_SECURE=2"], 2), ("b", ["-DMI_SECURE_FULL=ON"], 5),
    ("secure", [], 4), ("secure", ["-DMI_SECURE=OFF"], 0)])
def test_level_of_a_secure_build(folder, options, level, tmp_path):
    run("cmake", "-S", conftest.ROOT, "-B", tmp_path / folder, "-G", "Ninja", *options)
    levels = set(re.findall(r"-DMI_SECURE=(\d)", (tmp_path / folder / "build.ninja").read_text()))
    assert levels == ({str(level)} if level else set())


# -- The headers

PROGRAM = """
#include <mimalloc.h>
#include <mimalloc-stats.h>
mi_decl_align(64) static char aligned[3];
static int bins[MI_BIN_HUGE + 1 == MI_BIN_COUNT ? 1 : -1];
void take(mi_subproc_id_t id);
void take(mi_subproc_id_t id) { (void)id; }
int main(void) {
  mi_stats_t_decl(stats)
  mi_stats_t_decl(other);
  (void)bins;
  return (size_t)aligned % 64 == 0 && stats.version == other.version ? 0 : 1;
}
"""


@pytest.mark.parametrize("compiler", ["cc", "c++"])
def test_headers_have_what_programs_of_the_interface_use(compiler, library, tmp_path):
    source = tmp_path / ("program.c" if compiler == "cc" else "program.cc")
    source.write_text(PROGRAM)
    run(compiler, *WARNINGS, f"-I{INCLUDE}", source, "-o", tmp_path / "program")
    run(tmp_path / "program")
    # An object that was compiled with the header of the other library links with one that was with ours.
    assert ("_Z4take15mi_subproc_id_t" if compiler == "c++" else "take") in run("nm", tmp_path / "program")
