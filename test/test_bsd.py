"""FreeBSD, NetBSD and OpenBSD, linked by zig: what is in the files is checked, and nothing is run. If one of these fails, a
program there is not linked, or not loaded, or has parts of libc's malloc in the place of ours.

The compiler is large (411 MB), so only `make platforms` and `make long WHAT=languages` fetch it; elsewhere the tests run where it
is there, with the shared library for x86-64 only, compiled as fast as can be."""
import functools
import os
import re
import shutil

import pytest

import conftest
from conftest import attempt, run

pytestmark = pytest.mark.slow
IS_LONG = "bsd" in os.environ.get("MI_PLATFORMS", "").split()
SYSTEMS = ("freebsd", "netbsd", "openbsd")
TARGETS = [f"{system}-{processor}" for processor in (("x86_64", "aarch64") if IS_LONG else ("x86_64",)) for system in SYSTEMS]
SOURCE = conftest.ROOT / "test" / "bsd" / "program.c"
BUILD = conftest.ROOT / "build"
CACHES = {f"ZIG_{kind}_CACHE_DIR": BUILD / "zig-cache" / kind.lower() for kind in ("LOCAL", "GLOBAL")}
# What the library needs of libc; of NetBSD some names are those of a version of the function.
NEEDS = set("""abort clock_gettime close getenv getpagesize getpid getrusage issetugid madvise mmap mprotect munmap open pipe
    pthread_atfork pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize pthread_create pthread_getspecific pthread_join
    pthread_key_create pthread_key_delete pthread_kill pthread_self pthread_setcancelstate pthread_setspecific pthread_sigmask
    realpath sigaction sigaddset sigemptyset sigfillset strnlen wcslen write bcmp memcmp memcpy memmove memset strlen""".split())
NEEDS_OF = {"freebsd": {"_umtx_op", "sysctl", "__error", "__stdoutp", "__stderrp"},
            "netbsd": {"syscall", "sysctl", "__errno", "__sF"},
            "openbsd": {"futex", "sigaltstack", "__errno", "__stdout", "__stderr"}}
RENAMED = {"__clock_gettime50": "clock_gettime", "__getrusage50": "getrusage", "__sigaction_siginfo": "sigaction",
           "__libc_thr_keycreate": "pthread_key_create", "__libc_thr_keydelete": "pthread_key_delete", "__libc_thr_sigsetmask": "pthread_sigmask",
           **{f"__{name}14": name for name in ("sigaddset", "sigemptyset", "sigfillset")},
           **{f"__libc_thr_{name}": f"pthread_{name}" for name in ("self", "setcancelstate", "setspecific", "getspecific")}}
# There or not: sanitizers, C++, and what libc may lack. (`environ` is in the start code of a program.)
WEAK = set("""_ZSt15get_new_handlerv _ZTISt9bad_alloc _ZTVSt9bad_alloc __asan_init __cxa_allocate_exception __cxa_begin_catch __cxa_end_catch
    __cxa_throw __gxx_personality_v0 __hwasan_init __msan_init __tsan_init _dl_find_object backtrace dl_iterate_phdr dladdr environ""".split())
# What libc calls of its own malloc: in the archive only, and never visible.
QUIET = {"freebsd": {"_malloc_prefork", "_malloc_postfork", "_malloc_thread_cleanup", "_malloc_first_thread"},
         "netbsd": {"_malloc_prefork", "_malloc_postfork", "_malloc_thread_cleanup", "_malloc_postfork_child"},
         "openbsd": {"_malloc_init"}}


@functools.cache
def zig():
    program = shutil.which("zig") or next((BUILD / "zig").glob("lib/python*/site-packages/ziglang/zig"), None)
    if not program or attempt(program, "version").status != 0:
        pytest.skip("zig is not installed: scripts/setup.sh zig")
    return program


def compiled(target, *arguments):
    system, processor = target.split("-")
    run(zig(), "cc", "-target", f"{processor}-{system}", "-fno-builtin-malloc", f"-I{conftest.ROOT / 'include'}", *arguments,
        timeout=900, **CACHES)


@functools.cache
def shared(target):
    """The library as the preset builds it; in a quick run as an embedder would, without CMake."""
    zig()
    if IS_LONG:
        for step in ("--preset", "--build --preset"):
            run("cmake", *step.split(), target, cwd=conftest.ROOT, timeout=900, **CACHES)
        return BUILD / target / "libmimalloc.so.3.4"
    path = BUILD / "bsd" / target / "libmimalloc.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    compiled(target, "-c", "-O0", "-fno-sanitize=all", "-fno-stack-protector", "-std=gnu11", "-fPIC", *sorted(conftest.code_flags()), "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB",
             "-DMI_SHARED_LIB_EXPORT", f"-I{conftest.ROOT / 'src'}", conftest.ROOT / "src" / "static.c", "-o", path.with_suffix(".o"))
    compiled(target, "-O1", "-shared", path.with_suffix(".o"), "-Wl,-soname,libmimalloc.so.3", "-o", path)
    return path


def archive(target):
    if not IS_LONG:
        pytest.skip("make platforms builds the archive")
    return shared(target).parent / "libmimalloc.a"


def symbols(path, *options):
    """The kind of each symbol, by name."""
    lines = (line.split() for line in run("nm", "--format=posix", *options, path).splitlines() if " " in line)
    return {re.sub("@.*", "", words[0]): words[1] for words in lines if len(words) > 1}


def listed(*sections):
    text = (conftest.ROOT / "test" / "interop" / "symbols.txt").read_text()
    found = dict(re.findall(r"^\[(.*)\]\n((?:\w+\n)*)", text, re.M))
    return {name for section in sections for name in found[section].split()}


def exported(system):
    return listed("always", "override", *(["override openbsd"] if system == "openbsd" else []))


@pytest.mark.parametrize("name", ["__ANDROID__", "__DragonFly__", "__HAIKU__"])
def test_others_are_plain(name):
    """Systems of which nobody here has the headers: what is chosen for them is valid with those of Linux, and is the plain port."""
    flags = [f"-D{name}", "-D__linux__" if name == "__ANDROID__" else "-U__linux__", "-DMI_MALLOC_OVERRIDE", "-DMI_SHARED_LIB", "-DMI_SHARED_LIB_EXPORT",
             f"-I{conftest.ROOT / 'include'}"]
    source = conftest.ROOT / "src" / "static.c"
    included = run("cc", "-std=gnu11", "-fsyntax-only", "-H", "-Wall", "-Wextra", "-Werror", *flags, source)
    assert "os_plain.c" in included and "os_linux.c" not in included and "os_bsd.c" not in included


each = pytest.mark.parametrize("target", TARGETS)


@each
def test_exports(target):
    """All of the malloc family, and nothing else that could clash."""
    found = symbols(shared(target), "-D", "--defined-only")
    assert set(found) == exported(target.split("-")[0])
    assert found["malloc"] == found["free"] == "T"


@each
def test_needs(target):
    """A name that libc lacks, a thread-local variable that calls a function, or malloc itself would be seen here."""
    found = symbols(shared(target), "-D", "--undefined-only")
    strong = {RENAMED.get(name, name) for name, kind in found.items() if kind == "U"}
    system = target.split("-")[0]
    assert strong <= NEEDS | NEEDS_OF[system] and NEEDS_OF[system] <= strong, strong ^ (NEEDS | NEEDS_OF[system])
    assert {name for name, kind in found.items() if kind != "U"} <= WEAK


@each
def test_is_loadable(target):
    """The name that programs ask for, the libraries that it needs itself, and thread-local storage where libc has some."""
    system, processor = target.split("-")
    header, dynamic, segments = (run("readelf", option, shared(target)) for option in ("-hW", "-dW", "-lW"))
    assert {"x86_64": "X86-64", "aarch64": "AArch64"}[processor] in header
    assert "[libmimalloc.so.3]" in dynamic and "TEXTREL" not in dynamic
    needed = re.findall(r"NEEDED.*\[(lib\w+)\.so", dynamic)
    assert sorted(needed) == sorted(["libc", "libthr" if system == "freebsd" else "libpthread"])
    found = re.search(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x\w+)", segments, re.M)
    if system == "openbsd":
        assert found is None and "STATIC_TLS" not in dynamic
    else:
        assert int(found.group(1), 16) <= 48 and "STATIC_TLS" in dynamic


@each
def test_calls_by_name(target):
    """A program that defines some of the names itself gets them called: the loader decides (src/override/override.h)."""
    loaded = set(re.findall(r"GLOB_DA\w*\s+\w+\s+(\w+)", run("readelf", "-rW", shared(target))))
    names = set(re.findall(r"(\w+);", (conftest.ROOT / "cmake" / "by-name.list").read_text())) & exported("freebsd")
    assert len(names) > 12 and names <= loaded, names - loaded


@pytest.mark.parametrize("target", [target for target in TARGETS if target.endswith("x86_64")])
def test_makes_no_system_call_itself(target):
    """OpenBSD ends a process that does, unless libc does it."""
    code = run("objdump", "-d", "--no-show-raw-insn", shared(target))
    assert "<malloc>:" in code or "<__libc_malloc>:" in code
    assert not re.search(r"\t(syscall|sysenter|int +\$0x80)\b", code)


@each
def test_program(target, tmp_path):
    """It has our malloc by way of the shared library, which comes before libc."""
    library = shared(target)
    compiled(target, "-O1", "-Wall", "-Wextra", "-Werror", SOURCE, library, "-lpthread", "-o", tmp_path / "program")
    dynamic = run("readelf", "-dW", tmp_path / "program")
    needed = re.findall(r"NEEDED.*\[(\w+)\.so", dynamic)
    assert needed.index("libmimalloc") < needed.index("libc")
    assert symbols(tmp_path / "program", "-D")["malloc"] == "U"


@each
def test_program_with_archive(target, tmp_path):
    """It has our malloc itself, and so has libc: the program exports it. What libc calls of its own malloc stays libc's."""
    system = target.split("-")[0]
    held = symbols(archive(target), "--defined-only")
    assert {name: held.get(name) for name in QUIET[system]} == {name: "W" for name in QUIET[system]}
    compiled(target, "-O1", SOURCE, archive(target), "-lpthread", "-o", tmp_path / "program")
    found = symbols(tmp_path / "program", "-D", "--defined-only")
    assert {"malloc", "free", "calloc", "realloc", "posix_memalign"} <= set(found)
    assert not QUIET[system] & set(found)
