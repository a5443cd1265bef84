"""libmimalloc-idle.so, which gives memory back while a program waits. If one of these fails, a function in which programs wait
does not do what it does in libc, or memory does not come back, or comes back at a moment when that is not safe.

src/waits.c knows each of the functions and what must become of it; it has the two functions of libmimalloc itself."""
import pathlib
import re
import textwrap

import pytest

from conftest import environment, find, run

pytestmark = pytest.mark.slow
SOURCE = pathlib.Path(__file__).resolve().parent / "src" / "waits.c"
LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "src" / "idle" / "waits.c"


@pytest.fixture(scope="module")
def idle(build):
    path = build / "mimalloc-idle" / "libmimalloc-idle.so"
    assert path.exists(), f"{path} is missing: MI_BUILD_IDLE is OFF"
    return path


def program(folder, *flags, compiler="cc"):
    path = folder / "waits"
    run(compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", *flags, SOURCE, "-pthread", "-o", path)
    return path


def test_functions_of_libc(tmp_path):
    """What is checked holds without us."""
    assert run(program(tmp_path, "-rdynamic"), "libc") == "fine\n"


@pytest.mark.parametrize("flags", [[], ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]], ids=["plain", "fortified"])
def test_functions(idle, tmp_path, flags):
    path = program(tmp_path, "-rdynamic", *flags)
    assert ("__poll_chk" in run("nm", "-D", path)) == bool(flags)
    assert run(path, env=environment(LD_PRELOAD=idle)) == "fine\n"


def test_functions_with_32_bits(root, tmp_path):
    idle = root / "build" / "i686" / "mimalloc-idle" / "libmimalloc-idle.so"
    if not idle.exists():
        pytest.skip("no compiler for 32-bit x86")
    path = program(tmp_path, "-rdynamic", compiler=find("i686-linux-gnu-gcc"))
    assert run(path, env=environment(LD_PRELOAD=idle)) == "fine\n"


def test_functions_without_libmimalloc(idle, tmp_path):
    """Its two functions are in the program, but nobody outside sees them."""
    assert run(program(tmp_path), "libc", env=environment(LD_PRELOAD=idle)) == "fine\n"


def test_no_library_is_needed_but_libc(idle):
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", idle))
    assert needed and all(name.startswith(("libc.", "ld-linux", "libdl.", "libpthread.")) for name in needed), needed


WAITS = """
    import os, select, sys, threading, time

    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 20

    def select_select(seconds):
        select.select([ends[0]], [], [], seconds)

    def poll(seconds):
        one = select.poll()
        one.register(ends[0], select.POLLIN)
        one.poll(1000 * seconds)

    def epoll(seconds):
        one = select.epoll()
        one.register(ends[0], select.EPOLLIN)
        one.poll(seconds)

    def lock(seconds):
        one = threading.Lock()
        one.acquire()
        one.acquire(timeout=seconds)

    def ticks(seconds):
        for i in range(10 * seconds):
            time.sleep(0.1)

    for burst in range(5):
        blocks = [bytes(3000 + i % 3000) for i in range(30000)]
    kept = blocks[::500]
    del blocks
    before = resident()
    ends = os.pipe()
    globals()[sys.argv[1]](3)
    print(before, resident(), sum(map(len, kept)) >> 10)
"""


def memory(way, *preload):
    """MiB that are resident before and after a wait."""
    ended = run(find("python3"), "-c", textwrap.dedent(WAITS), way,
                env=environment(LD_PRELOAD=":".join(map(str, preload)), PYTHONMALLOC="malloc"))
    before, after, _ = map(int, ended.split())
    assert before > 40
    return after


def test_memory_stays(library):
    """What the next test is about."""
    assert memory("poll", library) > 40


@pytest.mark.parametrize("way", ["poll", "epoll", "select_select", "lock", "ticks"])
def test_memory_comes_back(library, idle, way, figure):
    """A program with one thread, which has no purge thread."""
    after = memory(way, library, idle)
    figure(f"python that waits ({way}) with libmimalloc-idle: {after} MiB resident")
    assert after < 30


SLEEPS = """
    #include <poll.h>
    #include <time.h>
    static int asked, given;
    __attribute__((visibility("default"))) int mi_thread_idle_due(void) { asked++; return given ? -1 : asked == 1 ? 20 : 0; }
    __attribute__((visibility("default"))) void mi_thread_idle(void) { given++; }
    int main(void) {
      struct timespec a, b;
      clock_gettime(CLOCK_MONOTONIC, &a);
      if (poll(0, 0, 60) != 0) return 1;
      clock_gettime(CLOCK_MONOTONIC, &b);
      long ms = (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000;
      return given == 1 && ms >= 59 ? 0 : 2;
    }
"""


def test_musl(tmp_path):
    """A libc that lacks some of the functions. The unwinder of Debian's musl-gcc is glibc's: one that finds no frames
    is in its place."""
    compiler = find("musl-gcc")
    (tmp_path / "unwinder.c").write_text("int _Unwind_Backtrace(void* f, void* arg) { (void)f, (void)arg; return 5; }"
                                         "long _Unwind_GetIPInfo(void* c, int* before) { (void)c; return *before = 0; }")
    run(compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
        "-fvisibility=hidden", "-Wl,-z,defs", LIBRARY, tmp_path / "unwinder.c", "-o", tmp_path / "idle.so")
    (tmp_path / "sleeps.c").write_text(textwrap.dedent(SLEEPS))
    run(compiler, "-O2", "-rdynamic", tmp_path / "sleeps.c", "-o", tmp_path / "sleeps")
    run(tmp_path / "sleeps", env=environment(LD_PRELOAD=tmp_path / "idle.so"))
