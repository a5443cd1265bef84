"""macOS on arm64 and x86-64: the library as zig links it, and what is in the file. Nothing here runs on macOS. If one of these
fails, the loader of macOS does not load the library, or a program there keeps the malloc of the system, or has two of them.

`make test` builds one of the two, where zig is installed; `make platforms` builds both, and programs with them."""
import functools
import json
import os
import shutil

import pytest

import conftest
from conftest import attempt, run

pytestmark = pytest.mark.slow
HERE = conftest.ROOT / "test" / "macos"
LIEF = conftest.ROOT / "build" / "lief" / "bin" / "python"
CACHES = {f"ZIG_{kind}_CACHE_DIR": conftest.ROOT / "build" / "zig-cache" / kind.lower() for kind in ("LOCAL", "GLOBAL")}
PLATFORMS = os.environ.get("MI_PLATFORMS", "").split()
IS_ALL = any(name.startswith("macos-") for name in PLATFORMS)
PROCESSORS = [name for name in ("arm64", "x86_64") if f"macos-{name}" in PLATFORMS or (not IS_ALL and name == "arm64")]
PUBLIC = {f"_{line}" for line in (conftest.ROOT / "test" / "interop" / "symbols.txt").read_text().splitlines() if line.startswith("mi_")}

# What the loader exchanges: the name in libSystem, and our function.
PAIRS = {"malloc": "mi_malloc", "calloc": "mi_calloc", "valloc": "mi_valloc", "aligned_alloc": "mi_aligned_alloc",
         "posix_memalign": "mi_posix_memalign", "realloc": "mi_zone_any_realloc", "reallocf": "mi_zone_any_reallocf",
         "free": "mi_zone_any_free", "vfree": "mi_zone_any_free", "malloc_size": "mi_zone_any_size", "malloc_good_size": "mi_good_size"}
TYPED = {f"malloc_type_{name}": f"mi_typed_{name}"
         for name in ("malloc", "calloc", "valloc", "aligned_alloc", "posix_memalign", "realloc", "free")}
OTHERS = {"pthread_create": "mi_macos_pthread_create"}  # which the library calls itself, too
ALL = {**PAIRS, **TYPED, **OTHERS}
WEAK = {*TYPED, "aligned_alloc"}  # not in all versions of macOS

# What the library needs of libSystem, beside these.
NEEDS = set("""
_NSGetEnviron __cxa_atexit __error __memcpy_chk __memset_chk __stderrp __stdoutp abort backtrace bzero __bzero memcmp memcpy memmove memset
strlen strnlen wcslen clock_gettime close open write dladdr dlsym dyld_stub_binder getenv getpid getrusage issetugid realpath$DARWIN_EXTSN
sigaction sysconf madvise mmap mprotect munmap mach_task_self_ task_info vm_read_overwrite __ulock_wait __ulock_wake
pthread_atfork pthread_attr_destroy pthread_attr_init pthread_attr_setstacksize pthread_create pthread_getspecific pthread_join
pthread_key_create pthread_key_delete pthread_kill pthread_self pthread_setcancelstate pthread_setspecific pthread_sigmask
malloc_default_purgeable_zone malloc_get_all_zones malloc_zone_free malloc_zone_from_ptr malloc_zone_realloc malloc_zone_register
malloc_zone_unregister""".split())

# The fields of <malloc/malloc.h>, in their order.
ZONE = [0, 0, "size", "malloc", "calloc", "valloc", "free", "realloc", "destroy", None, "malloc_many", "free_many", "introspection", 10,
        "memalign", "free_sized", "relieve", "claims"]
INTROSPECTION = ["enumerate", "good_size", "check", "print", "log", "do_nothing", "do_nothing", "statistics", "is_locked", 0, 0, 0, 0,
                 "do_nothing"]


@functools.cache
def zig():
    folders = sorted((conftest.ROOT / "build" / "zig").glob("lib/python*/site-packages/ziglang"))
    command = str(folders[0] / "zig") if folders else shutil.which("zig")
    if command is None or attempt(command, "version").status != 0:
        pytest.skip("zig is not installed: scripts/setup.sh zig")
    return command


def macho(path):
    if not LIEF.exists() or attempt(LIEF, "-c", "import lief").status != 0:
        pytest.skip("lief cannot be had")
    return json.loads(run(LIEF, HERE / "macho.py", path))


@functools.cache
def build(processor, *options):
    """The folder of a preset, as users build it; options make another one beside it."""
    zig()
    preset = f"macos-{processor}"
    folder = conftest.ROOT / "build" / "-".join([preset, *(option.split("=")[0].lower() for option in options)])
    run("cmake", "--preset", preset, "-B", folder, *(f"-D{option}" for option in options), cwd=conftest.ROOT, **CACHES)
    run("cmake", "--build", folder, "--target", "mimalloc", "mimalloc-static", cwd=conftest.ROOT, **CACHES)
    return folder


@pytest.fixture(scope="module", params=PROCESSORS)
def processor(request):
    zig()
    return request.param


@pytest.fixture(scope="module")
def library(processor):
    return macho(build(processor) / "libmimalloc.dylib")


def test_loader_can_load_it(processor, library):
    assert library["file"] == "DYLIB" and library["processor"] == processor.upper()
    assert library["libraries"] == ["@rpath/libmimalloc.3.dylib", "/usr/lib/libSystem.B.dylib"]
    assert "BUILD_VERSION" in library["commands"] and "UUID" in library["commands"]
    # A processor of this kind runs nothing that is not signed.
    assert processor != "arm64" or "CODE_SIGNATURE" in library["commands"]
    assert library["types"]["__mod_init_func"] == "MOD_INIT_FUNC_POINTERS"


def test_has_no_thread_local_variables(library):
    """The first use of one calls malloc."""
    assert not [name for name in library["segments"] if name.startswith("__thread")]
    assert "__tlv_bootstrap" not in library["imports"]


def test_exports_the_interface_and_nothing_else(library):
    assert len(PUBLIC) > 200
    assert set(library["exports"]) - {"___dso_handle", "__mh_dylib_header"} == PUBLIC


def test_pairs_of_interposed_functions(library):
    assert library["segments"]["__interpose"] == "__DATA" and library["types"]["__interpose"] == "INTERPOSING"
    found = {pair["theirs"][1:]: pair for pair in library["pairs"]}
    assert len(found) == len(library["pairs"]) and found.keys() == ALL.keys()
    for name, ours in ALL.items():
        assert f"_{ours}" in found[name]["ours"], name
        assert found[name]["is_weak"] == (name in WEAK), name


def test_needs_nothing_unexpected(library):
    """Nor does it call a malloc that is not ours, which would be the only one it can reach by name."""
    needed = {name[1:] if name.startswith("_") else name for name in library["elsewhere"]}
    assert needed <= NEEDS, needed - NEEDS
    assert not needed & {*PAIRS, *TYPED}
    assert {name[1:] for name in library["imports"] if name.startswith("_")} - needed == {*PAIRS, *TYPED}


@pytest.mark.parametrize("name, expected", [("zone", ZONE), ("introspection", INTROSPECTION)])
def test_zone_has_its_functions_where_the_system_looks(library, name, expected):
    """At the places that the headers of macOS say; the model in test/lib/zone_model.h has the same order."""
    assert len(library[name]) == len(expected)
    for is_there, field in zip(library[name], expected):
        if isinstance(field, str):
            assert f"_mi_zone_{field}" in is_there, field
        elif field is not None:
            assert is_there == field


@pytest.fixture(scope="module")
def program(tmp_path_factory, processor):
    """A program, linked with the archive and with the shared library."""
    target = {"arm64": "aarch64", "x86_64": "x86_64"}[processor]
    folder = tmp_path_factory.mktemp(processor)
    made = {}
    for kind, library in (("static", "libmimalloc.a"), ("shared", "libmimalloc.dylib")):
        made[kind] = folder / kind
        run(zig(), "cc", "-target", f"{target}-macos", "-O1", f"-I{conftest.ROOT / 'include'}", HERE / "program.c",
            build(processor) / library, "-o", made[kind], **CACHES)
    return {kind: macho(path) for kind, path in made.items()}


def test_program_with_the_archive(program):
    """Two allocators with one name would be in the process, if the archive defined malloc: it is a zone only."""
    static = program["static"]
    assert static["file"] == "EXECUTE" and static["libraries"] == ["/usr/lib/libSystem.B.dylib"]
    assert "__interpose" not in static["segments"] and not [name for name in static["segments"] if name.startswith("__thread")]
    assert {"_malloc", "_free", "_malloc_zone_register"} <= set(static["imports"])
    assert static["zone"][ZONE.index(10)] == 10


def test_program_with_the_shared_library(program):
    shared = program["shared"]
    assert sorted(shared["libraries"]) == ["/usr/lib/libSystem.B.dylib", "@rpath/libmimalloc.3.dylib"]
    assert {"_malloc", "_free", "_mi_version"} <= set(shared["imports"])


def test_other_builds_link(processor):
    if not IS_ALL:
        pytest.skip("make platforms builds for x86-64, and other builds of the library")
    for option in ("MI_OVERRIDE=OFF", "MI_SECURE=4", "MI_DEBUG=3", "MI_PADDING=ON", "MI_OS_PLAIN=ON"):
        library = macho(next(build(processor, option).glob("libmimalloc*.3.dylib")))
        is_override = option != "MI_OVERRIDE=OFF"
        assert ("__interpose" in library["segments"]) == is_override, option
        assert ("_malloc_zone_register" in library["imports"]) == is_override, option
