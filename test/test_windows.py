"""Windows on x86-64, with mingw-w64, under Wine: what is not among the programs that test_native.py runs (MI_PLATFORMS=windows).
If one of these fails, a program for Windows has another malloc than it was built with, or none. It was never run on Windows."""
import json
import os
import pathlib
import shlex
import shutil

import pytest

import conftest
from conftest import attempt, find, run

pytestmark = pytest.mark.slow
BUILD = conftest.ROOT / "build" / "windows"
WITHOUT = [line.strip().split(": ", 1) for line in (conftest.ROOT / "test" / "windows" / "without.txt").read_text().splitlines()
           if line and not line.startswith("#")]


def test_is_built():
    if not (BUILD / "tests.json").exists():
        pytest.skip("no compiler for Windows, no Wine, or no cmocka for it")


@pytest.mark.parametrize("name, why", WITHOUT, ids=[name for name, _ in WITHOUT])
def test_program_is_for_others(name, why):
    """What is left out is named. It is there elsewhere."""
    assert any((conftest.ROOT / "test" / f"{name}{suffix}").exists() for suffix in (".c", ".cpp"))
    pytest.skip(f"{name}: Windows has no {why}")


def test_all_programs_compile():
    """`make test` links a few of them only; the others are to be there when `make platforms` runs them."""
    commands = BUILD / "compile_commands.json"
    if not commands.exists() or not (BUILD / "tests.json").exists():
        pytest.skip("no compiler for Windows, no Wine, or no cmocka for it")
    flags = next(shlex.split(entry["command"])[:-4] for entry in json.loads(commands.read_text()) if "/test/api/" in entry["file"])
    sources = [source for group in ("api", "stress") for source in sorted((conftest.ROOT / "test" / group).glob("*.c"))
               if f"{group}/{source.stem}" not in dict(WITHOUT)]
    assert len(sources) > 30
    results = ((source.name, attempt(*flags, "-fsyntax-only", source)) for source in sources)
    assert [(name, result.output) for name, result in results if result.status != 0] == []


# -- Programs that were built without us

HERE = conftest.ROOT / "test" / "windows"
WINE = HERE / "wine.sh"
PYTHON = conftest.ROOT / "build" / "lief" / "bin" / "python"
MINJECT = [PYTHON, conftest.ROOT / "scripts" / "minject.py"]
UCRT = "-ltestcrt"  # ucrtbase.def; a name that begins with ucrt means something to the compiler


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With the DLL, which programs find beside them."""
    if not (BUILD / "mimalloc.dll").exists() or not (BUILD / "tests.json").exists():
        pytest.skip("no compiler for Windows, no Wine, or no cmocka for it")
    path = tmp_path_factory.mktemp("windows")
    shutil.copy(BUILD / "mimalloc.dll", path)
    return path


def find_dll(name):
    """A DLL of the compiler, or None."""
    folders = [*pathlib.Path("/usr/lib/gcc/x86_64-w64-mingw32").glob("*-posix"), pathlib.Path("/usr/x86_64-w64-mingw32/lib")]
    return next((folder / name for folder in folders if (folder / name).exists()), None)


def compiled(folder, name, *flags):
    program = folder / f"{name}.exe"
    run(find("clang-19"), "--target=x86_64-w64-mingw32", "-O1", HERE / "injected.c", f"-L{BUILD}", *flags, "-o", program)
    return program


@pytest.fixture(scope="module", params=["msvcrt", "ucrtbase"])
def plain(request, folder):
    return compiled(folder, request.param, *([UCRT] if request.param == "ucrtbase" else []))


@pytest.fixture(scope="module")
def minject():
    if not PYTHON.exists() or attempt(PYTHON, "-c", "import lief").status != 0:
        pytest.skip("lief cannot be had")
    return MINJECT


def test_minject(plain, minject):
    """A program is given our malloc without being built again."""
    assert run(WINE, plain) == "loaded 0, ours 0\r\n"
    run(*minject, plain)
    injected = plain.with_name(f"{plain.stem}-mi.exe")
    assert run(WINE, injected) == "loaded 1, ours 1000\r\n"
    assert run(WINE, injected, MIMALLOC_DISABLE_REDIRECT="1") == "loaded 1, ours 0\r\n"
    assert "mimalloc.dll" in run(*minject, "--list", injected).split()
    ended = attempt(*minject, injected)
    assert ended.status == 1 and "has mimalloc.dll already" in ended.output
    assert plain.read_bytes() != injected.read_bytes()


def test_minject_in_place(folder, minject):
    program = compiled(folder, "in-place", "-s")
    run(*minject, "--inplace", program)
    assert run(WINE, program) == "loaded 1, ours 1000\r\n"


def test_minject_refuses(folder, minject):
    """What would have no effect, or what is no program."""
    text = folder / "text.exe"
    text.write_text("This is no program.")
    for path, why in ((text, "is no program"), (folder / "none.exe", "there is no such file"), ("/bin/ls", "is no program")):
        ended = attempt(*minject, path)
        assert ended.status == 1 and why in ended.output, ended
    assert not list(folder.glob("*.part"))


# -- clang-cl, with Wine's libraries in place of Microsoft's (scripts/msvc.sh)

MSVC = conftest.ROOT / "build" / "windows-msvc"


@pytest.fixture(scope="module")
def visual(tmp_path_factory):
    """Programs of a project that uses what CMake installed."""
    if not (MSVC / "tests.json").exists():
        pytest.skip("no clang 19, linker of LLVM, or libraries of Wine")
    place = tmp_path_factory.mktemp("visual")
    run("cmake", "--install", MSVC, "--prefix", place / "installed")
    run("cmake", "-S", HERE / "visual", "-B", place, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={place / 'installed'}",
        f"-DCMAKE_TOOLCHAIN_FILE={conftest.ROOT / 'cmake' / 'cross-msvc.cmake'}")
    run("cmake", "--build", place)
    shutil.copy(place / "installed" / "bin" / "mimalloc.dll", place)
    return place


@pytest.mark.parametrize("library, owner", [("mimalloc", "ours"), ("mimalloc-static", "of others")])
def test_visual(visual, library, owner):
    """With the DLL malloc is ours, too; both see threads end, and print statistics when the process does."""
    program = visual / f"visual-{library}.exe"
    seen = f"new: ours\r\nmalloc: {owner}\r\nthreads: 0 failed, 0 more than before\r\n"
    assert run(WINE, program) == seen
    output = run(WINE, program, MIMALLOC_SHOW_STATS="1")
    assert seen in output and output.count("committed") == 1


@pytest.mark.parametrize("library", ["mimalloc", "mimalloc-static"])
def test_visual_without_memory(visual, library):
    """The exception is that of the C++ library, if the process has it; without one, the process ends."""
    program = visual / f"visual-{library}.exe"
    assert run(WINE, program, "throw") == "without memory: std::bad_alloc\r\nnothrow: NULL\r\n"
    ended = attempt(WINE, program, "abort")
    assert ended.status == 3 and "survived" not in ended.output, ended


def test_handler_of_gcc(folder):
    """The new-handler and the exception of libstdc++, in a program that has it as a DLL."""
    libraries = [find_dll(name) for name in ("libstdc++-6.dll", "libgcc_s_seh-1.dll", "libwinpthread-1.dll")]
    if None in libraries:
        pytest.skip("libstdc++-6.dll cannot be had")
    for library in libraries:
        shutil.copy(library, folder)
    program = folder / "handler.exe"
    run(find("clang-19"), "--target=x86_64-w64-mingw32", "-O1", "-DMI_SHARED_LIB", f"-I{conftest.ROOT / 'include'}", HERE / "handler.c",
        f"-L{BUILD}", "-lmimalloc", "-o", program)
    ended = attempt(WINE, program)
    assert ended.status == 3 and "NULL after 3 calls" in ended.output and "survived" not in ended.output, ended
    assert "terminate called after throwing an instance of 'std::bad_alloc'" in ended.output, ended


# -- Real programs: make platforms fetches them (scripts/setup.sh exe), and runs them (MI_EXE=1)

EXE = conftest.ROOT / "build" / "exe"


@pytest.fixture(scope="module", params=[BUILD, MSVC], ids=["windows", "windows-msvc"])
def dll(request):
    """That of clang with mingw-w64, and that of clang-cl."""
    if not (request.param / "tests.json").exists():
        pytest.skip(f"no compiler for {request.param.name}")
    return request.param / "mimalloc.dll"


def real(folder, minject, package, dll):
    """A program as it is, and one that the DLL was injected into, both in a folder of their own."""
    found = sorted((EXE / package).rglob("*.exe"))
    if not os.environ.get("MI_EXE"):
        pytest.skip("make platforms runs it")
    if not found:
        pytest.skip(f"{package} for Windows cannot be had")
    place = folder / dll.parent.name / package
    place.mkdir(parents=True)
    shutil.copy(dll, place)
    plain, injected = place / "plain.exe", place / "injected.exe"
    shutil.copy(found[0], plain)
    run(*minject, "-o", injected, plain)
    return plain, injected


def on_windows(path):
    return f"Z:{path}".replace("/", "\\")


def check_redirected(*command, **variables):
    assert "malloc of ucrtbase.dll is redirected" in run(WINE, *command, MIMALLOC_VERBOSE="1", **variables)


def test_clang_format(folder, minject, dll):
    """C++, with the libraries that Visual Studio has for it."""
    plain, injected = real(folder, minject, "clang-format", dll)
    command = ["--style=llvm", on_windows(conftest.ROOT / "src" / "os" / "os_windows.c")]
    assert run(WINE, injected, *command) == run(WINE, plain, *command)
    check_redirected(injected, *command)


def test_swig(folder, minject, dll):
    """C++ by gcc, with msvcrt."""
    plain, injected = real(folder, minject, "swig", dll)
    interface = folder / "sizes.i"
    interface.write_text("%module sizes\n%inline %{\n" +
                         "".join(f"int f{i}(const char* s, double x) {{ return {i} + (int)x; }}\n" for i in range(2000)) + "%}\n")
    library = next((EXE / "swig").rglob("swig.swg")).parent
    made = []
    for program in (plain, injected):
        output = folder / "sizes_wrap.c"
        run(WINE, program, "-python", "-o", on_windows(output), on_windows(interface), SWIG_LIB=on_windows(library))
        made.append(output.read_bytes())
    assert len(made[0]) > 1000000 and made[0] == made[1]


def test_ffmpeg(folder, minject, dll):
    """C, with fourteen threads, and blocks that are aligned."""
    plain, injected = real(folder, minject, "imageio-ffmpeg", dll)
    made = []
    for program in (plain, injected):
        video = folder / "out.avi"
        command = ["-y", "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=3:size=320x240:rate=25", "-c:v", "mpeg4", on_windows(video)]
        run(WINE, program, *command)
        made.append(video.read_bytes())
    assert len(made[0]) > 50000 and made[0] == made[1]
    check_redirected(injected, *command)
