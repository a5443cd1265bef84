"""Programs from outside the tree, built in each of the ways there are to use the library, and run: all of
their memory must be ours. If one of these fails, nobody can use what we ship in that way."""
import os
import pathlib
import re
import shutil

import pytest

import conftest
from conftest import attempt, find, run

pytestmark = pytest.mark.slow
SOURCES = pathlib.Path(__file__).resolve().parent / "src"
INCLUDE = conftest.ROOT / "include"
STATIC_C = conftest.ROOT / "src" / "static.c"
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wno-long-long", "-Werror"]
MUSL = pathlib.Path("/usr/lib") / f"{os.uname().machine}-linux-musl"


# -- What there is to use: an installed tree, an amalgamation, and objects that users compile.

@pytest.fixture(scope="session")
def installed(build, library, tmp_path_factory):
    """Installed, then moved: nothing may depend on the place it was installed to."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", build, "--prefix", first)
    return shutil.move(first, first.parent / "moved")


@pytest.fixture(scope="session")
def lib(installed):
    """The folder with the shared library: lib, lib64 or one for the architecture."""
    return next(installed.glob("lib*/**/libmimalloc.so")).parent


@pytest.fixture(scope="session")
def amalgamation(tmp_path_factory):
    """The one file, and no other file of ours."""
    folder = tmp_path_factory.mktemp("amalgamation")
    run("python3", conftest.ROOT / "scripts" / "amalgamate.py", folder / "mimalloc.c")
    return folder / "mimalloc.c"


def from_tree(cc, *flags):
    """How users compile src/static.c on their own."""
    return [find(cc), "-c", "-O2", "-fPIC", *WARNINGS[:2], "-Werror", f"-I{INCLUDE}", *flags, STATIC_C]


# What is about names is compiled with -O1, in half of the time.
OBJECTS = {
    "replacing": lambda _: from_tree("cc", "-DMI_MALLOC_OVERRIDE"),
    "by-name": lambda _: from_tree("cc", "-O1"),
    "one": lambda _: from_tree("cc", "-O1", "-DMI_PREFIX=one_"),
    "two-in-one-file": lambda amalgamation: [find("cc"), "-c", "-O1", "-DMI_PREFIX=two_", amalgamation],
    "three-replacing": lambda _: from_tree("cc", "-O1", "-DMI_PREFIX=three_", "-DMI_MALLOC_OVERRIDE"),
    "in-one-file": lambda amalgamation: [find("cc"), "-c", "-O2", "-DMI_MALLOC_OVERRIDE", amalgamation],
    "musl": lambda _: from_tree("musl-gcc", "-DMI_MALLOC_OVERRIDE"),
}


class Compiled(dict):
    """compiled[name]: the path of one of OBJECTS, made when first wanted."""

    def __init__(self, amalgamation, folder):
        super().__init__()
        self.amalgamation, self.folder = amalgamation, folder

    def __missing__(self, name):
        path = self.folder / f"{name}.o"
        run(*OBJECTS[name](self.amalgamation), "-o", path)
        self[name] = path
        return path


@pytest.fixture(scope="session")
def compiled(amalgamation, tmp_path_factory):
    return Compiled(amalgamation, tmp_path_factory.mktemp("objects"))


# -- Without a build system

# way: the words of the command line. `main` is the program, `object` and `archive` what is installed.
WAYS = {
    "object": "cc {object} {main}",
    "object, -static": "cc -static {object} {main}",
    "object, -static-pie": "cc -static-pie -fPIE {object} {main}",
    "archive": "cc {main} {archive}",
    "archive, -static": "cc -static {main} {archive}",
    "whole archive": "cc {main} -Wl,--whole-archive {archive} -Wl,--no-whole-archive",
    "whole archive, -static": "cc -static {main} -Wl,--whole-archive {archive} -Wl,--no-whole-archive",
    "shared": "cc {main} -L{lib} -lmimalloc -Wl,-rpath,{lib}",
    "static.c": "cc {main} {compiled[replacing]}",
    "amalgamation": "cc {main} {compiled[in-one-file]}",
    "amalgamation, -static": "cc -static {main} {compiled[in-one-file]}",
    "override header": "cc -DCONSUMER_RENAMED {main} {compiled[by-name]}",
    "musl": "musl-gcc {compiled[musl]} {main}",
    "musl, -static": "musl-gcc -static {compiled[musl]} {main}",
    # What the compilers of musl's own distributions do for -static-pie; Debian's wrapper does not know it.
    "musl, -static-pie": "musl-gcc -static -fPIE -nostartfiles -Wl,-pie,--no-dynamic-linker,-z,text"
                         " {musl}/rcrt1.o {musl}/crti.o {compiled[musl]} {main} {musl}/crtn.o",
}
CXX_WAYS = {
    "object": "c++ {object} {main}",
    "object, -static": "c++ -static {object} {main}",
    "archive, -static": "c++ -static {main} {archive}",
    "whole archive": "c++ {main} -Wl,--whole-archive {archive} -Wl,--no-whole-archive",
    "shared": "c++ {main} -L{lib} -lmimalloc -Wl,-rpath,{lib}",
}
for version in (98, 11, 14, 17, 20):
    CXX_WAYS[f"new-delete header, C++{version}"] = f"c++ -std=c++{version} -DCONSUMER_NEW_DELETE {{main}} {{compiled[by-name]}}"


@pytest.mark.parametrize("way, source, words", [
    *(pytest.param(way, "consumer.c", words, id=way) for way, words in WAYS.items()),
    *(pytest.param(way, "consumer.cpp", words, id=f"{way}, in C++") for way, words in CXX_WAYS.items())])
def test_way(way, source, words, installed, lib, compiled, tmp_path):
    find(words.split()[0])
    versioned = next(installed.glob("lib*/**/libmimalloc.a")).parent
    command = [word.format(main=SOURCES / source, object=versioned / "mimalloc.o", archive=versioned / "libmimalloc.a",
                           lib=lib, musl=MUSL, compiled=compiled) for word in words.split()]
    run(*command, f"-I{next(installed.glob('include/*'))}", *WARNINGS, "-pthread", "-o", tmp_path / "main")
    run(tmp_path / "main")
    is_static = "INTERP" not in run("readelf", "-lW", tmp_path / "main")
    assert is_static == ("-static" in way)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("version", [98, 11, 14, 17, 20])
def test_new_delete_header_without_exceptions(compiler, version, compiled, tmp_path):
    (tmp_path / "main.cpp").write_text("""#include <mimalloc-new-delete.h>
        int main() {
          char* const p = new (std::nothrow) char[10];
          volatile std::size_t huge = static_cast<std::size_t>(-1) / 4;
          const bool is_right = mi_usable_size(p) >= 10 && new (std::nothrow) char[huge] == NULL;
          delete[] p;
          return is_right ? 0 : 1;
        }\n""")
    run(find(compiler), f"-std=c++{version}", "-fno-exceptions", *WARNINGS, f"-I{INCLUDE}", tmp_path / "main.cpp",
        compiled["by-name"], "-pthread", "-o", tmp_path / "main")
    run(tmp_path / "main")


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("version", [98, 11, 14, 17, 20])
def test_stl_allocator(compiler, version, compiled, tmp_path):
    run(find(compiler), f"-std=c++{version}", *WARNINGS, f"-I{INCLUDE}", SOURCES / "stl.cpp", compiled["by-name"],
        "-pthread", "-o", tmp_path / "main")
    run(tmp_path / "main")


def test_stl_allocator_with_prefix(compiled, tmp_path):
    run("c++", "-DMI_PREFIX=one_", *WARNINGS, f"-I{INCLUDE}", SOURCES / "stl.cpp", compiled["one"], "-pthread",
        "-o", tmp_path / "main")
    run(tmp_path / "main")
    assert "16mi_stl_allocator" not in run("nm", tmp_path / "main"), "the class of two copies has the same name"


def test_stl_allocator_without_exceptions(compiled, tmp_path):
    run("c++", "-fno-exceptions", *WARNINGS, f"-I{INCLUDE}", SOURCES / "stl.cpp", compiled["by-name"],
        "-pthread", "-o", tmp_path / "main")
    assert attempt(tmp_path / "main").status == -6, "the program asks for too much and must not go on"


# The classes over heaps: the flags that every program with heaps.h is linked with, and the programs.
HEAPS = ["-Wl,--wrap=mi_heap_new", "-pthread"]
HEAP_PROGRAMS = [("heap_stl.cpp", 11), ("heap_stl.cpp", 14), ("heap_stl.cpp", 17), ("heap_stl.cpp", 20),
                 ("memory_resource.cpp", 17), ("memory_resource.cpp", 20)]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("source, version", HEAP_PROGRAMS)
def test_heap_classes(compiler, source, version, compiled, tmp_path):
    run(find(compiler), f"-std=c++{version}", *WARNINGS, f"-I{INCLUDE}", SOURCES / source, compiled["by-name"], *HEAPS,
        "-o", tmp_path / "main")
    run(tmp_path / "main")


def test_heap_classes_without_types(compiled, tmp_path):
    run("c++", "-std=c++17", "-fno-rtti", *WARNINGS, f"-I{INCLUDE}", SOURCES / "memory_resource.cpp", compiled["by-name"],
        *HEAPS, "-o", tmp_path / "main")
    run(tmp_path / "main")


@pytest.mark.parametrize("source", ["heap_stl.cpp", "memory_resource.cpp"])
def test_heap_classes_without_exceptions(source, compiled, tmp_path):
    run("c++", "-std=c++17", "-fno-exceptions", *WARNINGS, f"-I{INCLUDE}", SOURCES / source, compiled["by-name"], *HEAPS,
        "-o", tmp_path / "main")
    result = attempt(tmp_path / "main")
    assert result.status == -6 and not result.output, "the program has no memory and must not go on"


@pytest.mark.parametrize("source", ["heap_stl.cpp", "memory_resource.cpp"])
def test_heap_classes_with_prefix(source, tmp_path):
    run("c++", "-std=c++17", "-DMI_PREFIX=one_", f"-I{INCLUDE}", "-c", SOURCES / source, "-o", tmp_path / "main.o")
    names = run("nm", tmp_path / "main.o")
    classes = re.findall(r"#define (\w+)", (INCLUDE / "mimalloc-prefix.h").read_text().split("// C++ classes")[1])
    assert "one_heap" in names and len(classes) > 5
    mangled = {f"{len(name)}{name}" for name in classes}
    assert not [name for name in mangled if name in names], "classes of two copies have the same name"


@pytest.mark.parametrize("version", [98, 14])
def test_memory_resource_needs_cxx17(version, tmp_path):
    (tmp_path / "main.cpp").write_text("#include <mimalloc-memory-resource.h>\n")
    result = attempt("c++", f"-std=c++{version}", f"-I{INCLUDE}", "-fsyntax-only", tmp_path / "main.cpp")
    assert result.status != 0 and "is for C++17 and later" in result.output


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "gnu17"])
def test_headers_in_c(standard, tmp_path):
    for header in INCLUDE.glob("*.h"):
        (tmp_path / "main.c").write_text(f"#include <{header.name}>\n#include <{header.name}>\nint none;\n")
        run("cc", f"-std={standard}", *WARNINGS, "-Wstrict-prototypes", "-Wundef", f"-I{INCLUDE}", "-fsyntax-only",
            tmp_path / "main.c")


def test_copies_with_prefixes(compiled, tmp_path):
    """Three copies in one process, each with its own memory and its own environment variables."""
    source, flags = SOURCES / "prefix.c", [*WARNINGS, f"-I{INCLUDE}"]
    for name in ("one", "two"):
        run("cc", "-c", *flags, f"-DMI_PREFIX={name}_", source, "-o", tmp_path / f"{name}.o")
    run("cc", *flags, source, tmp_path / "one.o", tmp_path / "two.o", compiled["replacing"],
        compiled["one"], compiled["two-in-one-file"], "-pthread", "-o", tmp_path / "main")
    run(tmp_path / "main", MIMALLOC_PURGE_DELAY="100", ONE_PURGE_DELAY="101", two_purge_delay="102")


# -- Installed: CMake and pkg-config

def test_layout(installed, lib):
    for name in ("lib*/**/libmimalloc.so.3", "lib*/**/libmimalloc.so.3.4", "lib*/**/mimalloc-3.4/libmimalloc.a",
                 "lib*/**/mimalloc-3.4/mimalloc.o", "include/mimalloc-3.4/mimalloc.h", "lib*/**/pkgconfig/mimalloc.pc",
                 "include/mimalloc-3.4/mimalloc-override.h", "include/mimalloc-3.4/mimalloc-new-delete.h",
                 "include/mimalloc-3.4/mimalloc-prefix.h", "include/mimalloc-3.4/mimalloc-stats.h",
                 "include/mimalloc-3.4/mimalloc-profile.h",
                 "include/mimalloc-3.4/mimalloc-memory-resource.h",
                 "lib*/**/mimalloc-compat/libjemalloc.so.2", "lib*/**/mimalloc-compat/libtcmalloc_minimal.so.4",
                 "bin/mimalloc-replay", "bin/mimalloc-player", "lib*/**/mimalloc-trace/libmimalloc-trace.so", "lib*/**/mimalloc-idle/libmimalloc-idle.so",
                 "share/man/man1/mimalloc-replay.1", "lib*/**/cmake/mimalloc-3.4/mimalloc-config.cmake"):
        assert list(installed.glob(name)), f"{name} is not installed"
    # Nobody finds these in the place of the system's, and nobody links with them by accident.
    assert not [path for path in lib.glob("*") if "jemalloc" in path.name or "tcmalloc" in path.name]
    assert not list(installed.glob("lib*/**/libjemalloc.so"))
    assert "[libmimalloc.so.3]" in run("readelf", "-d", lib / "libmimalloc.so.3.4")


FIND_PACKAGE = """
find_package(mimalloc WANTED CONFIG REQUIRED)
foreach(name IN ITEMS CMAKE_DIR LIBRARY_DIR INCLUDE_DIR OBJECT_DIR TARGET_DIR)
  if(NOT EXISTS "${MIMALLOC_${name}}")
    message(FATAL_ERROR "MIMALLOC_${name} is '${MIMALLOC_${name}}'")
  endif()
endforeach()
"""
ADD_SUBDIRECTORY = f"add_subdirectory({conftest.ROOT} mimalloc)\n"
FETCH_CONTENT = f"""
include(FetchContent)
FetchContent_Declare(mimalloc SOURCE_DIR {conftest.ROOT})
FetchContent_MakeAvailable(mimalloc)
"""


def cmake_project(folder, how, target="mimalloc"):
    """A project with options, flags and modules of its own, none of which may get mixed up with ours."""
    for name in ("options", "flags", "install"):
        (folder / f"{name}.cmake").write_text('message(FATAL_ERROR "a module of the consumer")\n')
    (folder / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.18)
project(consumer LANGUAGES C)
list(APPEND CMAKE_MODULE_PATH ${{CMAKE_CURRENT_SOURCE_DIR}})
{how}
if(CMAKE_BUILD_TYPE OR DEFINED CACHE{{CMAKE_BUILD_TYPE}} AND NOT "$CACHE{{CMAKE_BUILD_TYPE}}" STREQUAL "")
  message(FATAL_ERROR "the build type of the consumer is now ${{CMAKE_BUILD_TYPE}}")
endif()
add_executable(consumer {SOURCES / "consumer.c"})
target_link_libraries(consumer PRIVATE {target})
""")
    return ["cmake", "-S", folder, "-B", folder / "b", "-G", "Ninja"]


@pytest.mark.parametrize("target", ["mimalloc", "mimalloc-static"])
def test_find_package(target, installed, tmp_path):
    run(*cmake_project(tmp_path, FIND_PACKAGE.replace("WANTED", "3.4"), target), f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", tmp_path / "b")
    run(tmp_path / "b" / "consumer")


@pytest.mark.parametrize("wanted", ["", "1.4", "2.0", "2.1.7", "3.0", "3.4", "3.4.3", "3 EXACT", "3.4 EXACT",
                                    "3.4.3 EXACT", "1.7...3.4", "3.0...<4"])
def test_find_package_accepts(wanted, installed, tmp_path):
    run(*cmake_project(tmp_path, FIND_PACKAGE.replace("WANTED", wanted)), f"-DCMAKE_PREFIX_PATH={installed}")


@pytest.mark.parametrize("wanted", ["3.4.4", "3.5", "4.0", "3.3 EXACT", "3.4.2 EXACT", "2 EXACT", "3.5...4"])
def test_find_package_refuses(wanted, installed, tmp_path):
    result = attempt(*cmake_project(tmp_path, FIND_PACKAGE.replace("WANTED", wanted)), f"-DCMAKE_PREFIX_PATH={installed}")
    said = " ".join(result.output.split())
    assert result.status != 0 and re.search("(compatible with|exactly matches) requested version", said), result.output


@pytest.mark.parametrize("how, target", [(ADD_SUBDIRECTORY, "mimalloc-obj"), (ADD_SUBDIRECTORY, "mimalloc-static"),
                                         (FETCH_CONTENT, "mimalloc")], ids=["directory-obj", "directory-static", "fetch"])
def test_part_of_a_project(how, target, tmp_path):
    run(*cmake_project(tmp_path, how, target))
    run("cmake", "--build", tmp_path / "b", "--target", "consumer")
    run(tmp_path / "b" / "consumer")
    commands = run("ninja", "-C", tmp_path / "b", "-t", "commands", "consumer").splitlines()
    assert any("-O2" in line for line in commands if "static.c" in line), "the library is not optimised"
    assert not any("-O2" in line for line in commands if "consumer.c" in line), "the consumer got our flags"


def test_options_of_a_parent(tmp_path):
    """What a project sets before it adds this one holds from the first time that it is configured."""
    options = "set(MI_SECURE 3)\nset(MI_PADDING ON)\nset(MI_DEBUG 1)\nset(MI_EXTRA_CPPDEFS MI_SHOW_ERRORS=1)\n"
    for configure in (cmake_project(tmp_path, options + ADD_SUBDIRECTORY, "mimalloc-secure"), ["cmake", tmp_path / "b"]):
        run(*configure)
        commands = run("ninja", "-C", tmp_path / "b", "-t", "commands", "mimalloc")
        for definition in ("MI_SECURE=3", "MI_PADDING=1", "MI_DEBUG=1", "MI_SHOW_ERRORS=1"):
            assert f"-D{definition} " in commands, f"{definition} is not there"
    # The user's word on the command line is heard where the project says nothing.
    run(*cmake_project(tmp_path, ADD_SUBDIRECTORY, "mimalloc"), "-DMI_SECURE=2")
    assert "-DMI_SECURE=2 " in run("ninja", "-C", tmp_path / "b", "-t", "commands", "mimalloc")


FOREIGN_FLAGS = {"warnings": "-Wpedantic -Wconversion -Wmissing-prototypes -Werror", "undefined": "-fsanitize=undefined",
                 "address": "-fsanitize=address"}


@pytest.mark.parametrize("compiler, flags", [
    pytest.param(compiler, flags, id=f"{name}-{compiler}") for name, flags in FOREIGN_FLAGS.items() for compiler in ("gcc", "clang")
    if (name, compiler) != ("undefined", "gcc")])  # whose functions are in a library
def test_part_of_a_project_with_flags(compiler, flags, tmp_path):
    """A project that compiles everything with its own warnings, or for a sanitizer, builds and runs; of some of these malloc is
    the sanitizer's."""
    how = f"add_compile_options({flags})\n{ADD_SUBDIRECTORY}"
    if "address" in flags:
        how += "add_compile_definitions(CONSUMER_RENAMED)\n"
    run(*cmake_project(tmp_path, how, "mimalloc-static"), f"-DCMAKE_C_COMPILER={find(compiler)}", f"-DCMAKE_C_FLAGS={flags}",
        "-DCMAKE_C_FLAGS_RELEASE=-O0")
    said = run("cmake", "--build", tmp_path / "b", "--target", "consumer", "mimalloc")
    assert "warning:" not in said
    assert "MI_HAS_LAYOUT:INTERNAL=1\n" in (tmp_path / "b" / "CMakeCache.txt").read_text()
    assert "runtime error" not in run(tmp_path / "b" / "consumer")


@pytest.mark.parametrize("who", ["user", "parent", "nobody"])
def test_flags_of_a_release(who, tmp_path):
    """What a user or a parent says of optimisation holds; if nobody says anything, it is ours."""
    said = {"user": ["-DCMAKE_C_FLAGS_RELEASE=-O1 -DSAID"]}.get(who, [])
    parent = 'set(CMAKE_C_FLAGS_RELEASE "-O1 -DSAID")\n' if who == "parent" else ""
    run(*cmake_project(tmp_path, parent + ADD_SUBDIRECTORY), *said)
    for configure_again in (False, True):
        if configure_again:
            run("cmake", tmp_path / "b")
        commands = run("ninja", "-C", tmp_path / "b", "-t", "commands", "mimalloc")
        compile_line = next(line for line in commands.splitlines() if "static.c" in line)
        flags = {word for word in compile_line.split() if re.fullmatch(r"-O.*|-DSAID", word)}
        wanted = {"-O2"} if who == "nobody" else {"-O1", "-DSAID"}
        assert flags == wanted, compile_line


@pytest.mark.parametrize("more", [[], ["-static"]], ids=["shared", "static"])
def test_pkg_config(more, lib, tmp_path):
    program = shutil.which("pkgconf") or find("pkg-config")
    asked = {"PKG_CONFIG_PATH": lib / "pkgconfig"}
    flags = run(program, "--cflags", "--libs", *["--static"] * len(more), "mimalloc", **asked).split()
    run("cc", *more, SOURCES / "consumer.c", *flags, "-pthread", "-o", tmp_path / "main")
    run(tmp_path / "main", LD_LIBRARY_PATH=lib)
    run(program, "--exact-version", "3.4.3", "mimalloc", **asked)


# {prefix} and {other} are whole paths.
@pytest.mark.parametrize("libdir", ["lib", "lib/triplet", "{prefix}/lib64", "{other}/lib"])
@pytest.mark.parametrize("includedir", ["include", "{prefix}/include", "{other}/include"])
def test_pkg_config_with_whole_paths(libdir, includedir, tmp_path):
    """Distributions give whole paths for the folders, or for one of them."""
    program = shutil.which("pkgconf") or find("pkg-config")
    places = {"prefix": tmp_path / "prefix", "other": tmp_path / "other"}
    run("cmake", "-S", conftest.ROOT, "-B", tmp_path / "b", "-G", "Ninja", f"-DCMAKE_INSTALL_PREFIX={places['prefix']}",
        f"-DCMAKE_INSTALL_LIBDIR={libdir.format(**places)}", f"-DCMAKE_INSTALL_INCLUDEDIR={includedir.format(**places)}")
    lib, include = (places["prefix"] / path.format(**places) for path in (libdir, includedir))
    (lib / "pkgconfig").mkdir(parents=True)
    shutil.copy(tmp_path / "b" / "mimalloc.pc", lib / "pkgconfig")
    flags = run(program, "--cflags", "--libs", "--static", "mimalloc", PKG_CONFIG_PATH=lib / "pkgconfig").split()
    folders = [flag[:2] + os.path.normpath(flag[2:]) for flag in flags if flag[:2] in ("-I", "-L")]
    assert folders == [f"-I{include}/mimalloc-3.4", f"-L{lib}", f"-L{lib}/mimalloc-3.4"]
    prefix = run(program, "--variable=prefix", "mimalloc", PKG_CONFIG_PATH=lib / "pkgconfig").strip()
    assert os.path.normpath(prefix) == str(places["prefix"])


# -- What others can see

def symbols(*sections):
    text = (pathlib.Path(__file__).parent / "symbols.txt").read_text()
    found = dict(re.findall(r"^\[(.*)\]\n((?:\w+\n)*)", text, re.M))
    assert set(sections) <= set(found) and all(found.values())
    return {name for section in sections for name in found[section].split()}


REPLACING = ("always", "override", "override glibc")


@pytest.mark.parametrize("artifact, sections, prefix", [
    ("libmimalloc.so", (*REPLACING, "library", "library glibc"), "mi_"), ("libmimalloc.a", REPLACING, "mi_"), ("mimalloc.o", REPLACING, "mi_"),
    ("replacing", REPLACING, "mi_"), ("in-one-file", REPLACING, "mi_"), ("by-name", ("always",), "mi_"),
    ("one", ("always",), "one_"), ("two-in-one-file", ("always",), "two_"), ("three-replacing", REPLACING, "three_"),
    ("musl", ("always", "override"), "mi_")])
def test_symbols(artifact, sections, prefix, installed, compiled):
    path = compiled[artifact] if artifact in OBJECTS else next(installed.glob(f"lib*/**/{artifact}"))
    listed = run("nm", "-D" if path.suffix == ".so" else "-g", "--defined-only", "--format=posix", path)
    found = [line.split()[0] for line in listed.splitlines() if " " in line]
    found = [name for name in found if name != "_.stapsdt.base"]  # of the probes; it is hidden, weak, and of all objects that have some
    if path.suffix != ".so" and "_Znwm" in found:
        found.remove("mi_cxx_catching")  # between the parts of one file; it is hidden
    assert sorted(found) == sorted(re.sub("^mi_", prefix, name) for name in symbols(*sections))


def test_every_declared_function_is_defined():
    """Whoever calls what a header declares can link."""
    headers = "".join((INCLUDE / name).read_text() for name in ("mimalloc.h", "mimalloc-stats.h", "mimalloc-profile.h"))
    text = re.sub(r"//.*|^#.*|^static inline .*", "", headers, flags=re.M)
    inline = {*re.findall(r"\bstruct (\w+)", text), "mi_stats_header_init", "mi_stats_init"}
    declared = set(re.findall(r"\b(mi_\w+)\(", text)) - inline
    assert {name for name in declared if not name.startswith(("mi_attr_", "mi_cxx_", "mi_decl_"))} == symbols("always")


@pytest.mark.parametrize("folder, flags, name", [
    ("b", [], "mimalloc"), ("b", ["-DCMAKE_BUILD_TYPE=RelWithDebInfo"], "mimalloc"),
    ("b", ["-DCMAKE_BUILD_TYPE=Debug"], "mimalloc-debug"), ("debug", [], "mimalloc-debug"),
    ("b", ["-DMI_SECURE=OFF"], "mimalloc"), ("secure", ["-DMI_SECURE=0"], "mimalloc"), ("secure", [], "mimalloc-secure"),
    ("b", ["-DMI_SECURE=ON", "-DCMAKE_BUILD_TYPE=Debug"], "mimalloc-secure-debug"),
    ("b", ["-DMI_TRACK_VALGRIND=ON"], "mimalloc-valgrind"), ("b", ["-DMI_TRACK_ASAN=ON"], "mimalloc-asan")])
def test_names(folder, flags, name, tmp_path):
    """The file names and the pkg-config file say what kind of build it is."""
    if name == "mimalloc-valgrind" and not pathlib.Path("/usr/include/valgrind/memcheck.h").exists():
        pytest.skip("valgrind/memcheck.h is not installed")
    run("cmake", "-S", conftest.ROOT, "-B", tmp_path / folder, "-G", "Ninja", *flags)
    targets = {line.split(":")[0] for line in run("ninja", "-C", tmp_path / folder, "-t", "targets", "all").splitlines()}
    assert {f"lib{name}.so.3.4", f"lib{name}.a", f"{name}.o"} <= targets
    assert f"-l{name}\n" in (tmp_path / folder / "mimalloc.pc").read_text()
