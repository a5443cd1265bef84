"""Real kernels, booted under qemu, with programs of ours in the place of a system. If one of these fails, memory is not on the
NUMA node or in the huge pages that a program asked for, or does not come back; or a program does not run where OS pages have
64 KiB. No other test sees such a machine: an emulator of programs hands on what the kernel here has.

`make platforms` boots them (MI_PLATFORMS=kernel). scripts/setup.sh kernel fetches the kernels of the distribution; nothing of
them is installed. The console is all that comes out of a machine: test/kernel/init.c says what is written there."""
import collections
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time

import pytest

import conftest
from conftest import find, run

pytestmark = pytest.mark.slow
IS_LONG = "kernel" in os.environ.get("MI_PLATFORMS", "").split()
HERE = conftest.ROOT / "test" / "kernel"
KERNELS = conftest.ROOT / "build" / "kernel"
BOOT_S = 120  # until the first process runs; 3 to 11 on two processors
PROGRAM_S = 120
QUIET_S = 30  # longer than a program may take, nothing is printed: the machine hangs
FLAGS = ["-std=gnu11", "-O2", "-static", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fno-builtin", f"-I{conftest.ROOT / 'include'}",
         f"-I{conftest.ROOT / 'test' / 'lib'}"]

# How a program ended: its status, what it printed, and which explicit huge pages were not free afterwards. What a machine
# said, and what came of each program; `problem` is why it ended before its time, or None.
Result = collections.namedtuple("Result", "status output lost")
Booted = collections.namedtuple("Booted", "console results problem seconds")


# -- A machine

def archive(folder, files):
    """An initial file system: {path: (contents, mode)} in the format "newc" of cpio."""
    folders = {str(parent) for path in files for parent in list(pathlib.PurePath(path).parents)[:-1]} | {"dev"}
    entries = [(name, 0o40755, b"") for name in sorted(folders)] + [(name, 0o100000 | mode, data) for name, (data, mode) in files.items()]
    padded = lambda data: data + bytes(-len(data) % 4)
    path = folder / "initramfs"
    with open(path, "wb") as output:
        for name, mode, data in entries + [("TRAILER!!!", 0, b"")]:
            numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
            output.write(padded(b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0") + padded(data))
    return path


def console_of(*command, limit_s):
    """What a machine prints until it ends, and why it had to be ended, or None; when its first process ran."""
    machine = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    start, seen, problem, ready, is_ended = time.monotonic(), b"", None, None, False
    last = start
    try:
        while True:
            now = time.monotonic()
            if ready is None and now - start > BOOT_S:
                problem = f"did not boot within {BOOT_S} s"
            elif ready is not None and now - last > limit_s + QUIET_S:
                problem = f"printed nothing for {now - last:.0f} s"
            if problem:
                break
            if select.select([machine.stdout], [], [], 1)[0]:
                more = os.read(machine.stdout.fileno(), 1 << 16)
                if not more:
                    is_ended = True
                    break
                seen, last = seen + more, time.monotonic()
                if ready is None and b"@ready" in seen:
                    ready = last - start
    finally:
        if not is_ended:
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()
        machine.stdout.close()
    return seen.decode(errors="backslashreplace").replace("\r", ""), problem, ready


def results_in(console):
    """{program: Result} of those that ended, and the name of one that did not, or None."""
    found, name, lines, lost = {}, None, [], []
    for line in console.splitlines():
        begin, end = re.fullmatch(r"@begin (\S+)", line), re.fullmatch(r"@end (\S+) (\S+)", line)
        if begin:
            name, lines, lost = begin[1], [], []
        elif end and end[1] == name:
            found[name] = Result(end[2], "\n".join(lines).strip("\n"), lost)
            name = None
        elif line.startswith("@lost "):
            lost.append(line)
        else:
            lines.append(line)
    return found, name


def booted(folder, command, kernel, options, files, programs, limit_s=PROGRAM_S):
    """Boot a kernel with these files, and run these programs: {name: [path, argument...]}."""
    lines = ["\t".join([name, str(limit_s), *arguments]) for name, arguments in programs.items()]
    files = {**files, "programs": ("".join(f"{line}\n" for line in lines).encode(), 0o644)}
    console, problem, ready = console_of(*command, "-display", "none", "-nodefaults", "-serial", "stdio", "-no-reboot", "-kernel", kernel,
                                         "-initrd", archive(folder, files), "-append", f"panic=-1 {options}", limit_s=limit_s)
    found, during = results_in(console)
    if not problem and "\n@done" not in console:
        problem = "ended"
    if problem and during:
        problem += f" during {during}"
    return Booted(console, found, problem, ready)


def kernel_of(processor):
    path = next(KERNELS.glob(f"{processor}/vmlinu*"), None)
    return path or pytest.skip(f"the kernel for {processor} cannot be had")


def program_of(compiler, path, *arguments):
    run(find(compiler), *FLAGS, *arguments, "-o", path, "-pthread")
    return path.read_bytes(), 0o755


def tail(text, count=40):
    return "\n".join(text.splitlines()[-count:])


def check_booted(machine, figure, what):
    if machine.problem:
        pytest.fail(f"the kernel {machine.problem}; its last lines:\n{tail(machine.console)}", pytrace=False)
    figure(f"{what} boots in {machine.seconds:.1f} s")


def check_result(machine, name):
    result = machine.results.get(name)
    if result is None:
        pytest.fail(f"did not run: the kernel {machine.problem or 'skipped it'}; its last lines:\n{tail(machine.console, 10)}", pytrace=False)
    conftest.FIGURES.extend(f"{name}: {line[7:]}" for line in result.output.splitlines() if line.startswith("FIGURE "))
    if result.status == "77":
        pytest.skip(f"{name}: {result.output.splitlines()[-1]}")
    if result.status != "0":
        pytest.fail(f"{name} ended with {result.status}\n{tail(result.output, 80)}", pytrace=False)
    if result.lost:
        pytest.fail("explicit huge pages are not free after its end:\n" + "\n".join(result.lost), pytrace=False)


# -- Two NUMA nodes, and explicit huge pages: x86-64

CASES = re.findall(r"^ +CASE\((\w+), ", (HERE / "machine.c").read_text(), re.M) if IS_LONG else []
# The first 2 GiB have no whole GiB that is free; the rest of a node must have one behind 4 GiB.
MIB_OF_NODE = (3584, 2560)
TWO_NODES = ["-machine", "q35", "-accel", "tcg", "-cpu", "max,-erms", "-smp", "4", "-m", f"{sum(MIB_OF_NODE)}M"]
for node, size in enumerate(MIB_OF_NODE):
    TWO_NODES += ["-object", f"memory-backend-ram,id=memory{node},size={size}M",
                  "-numa", f"node,nodeid={node},cpus={2 * node}-{2 * node + 1},memdev=memory{node}"]
RESERVED = "hugepagesz=1G hugepages=0:1,1:1 hugepagesz=2M hugepages=0:64,1:64"
left_out = pytest.param("", marks=pytest.mark.skip("make platforms boots kernels"), id="none")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    kernel, emulator, folder = kernel_of("x86_64"), find("qemu-system-x86_64"), tmp_path_factory.mktemp("nodes")
    compiler = "x86_64-linux-gnu-gcc"
    library = [*sorted(conftest.code_flags()), "-DMI_MALLOC_OVERRIDE", conftest.ROOT / "src" / "static.c"]
    files = {"init": program_of(compiler, folder / "init", HERE / "init.c"),
             "machine": program_of(compiler, folder / "machine", HERE / "machine.c", *library)}
    return booted(folder, [emulator, *TWO_NODES], kernel, f"console=ttyS0 quiet nokaslr mitigations=off {RESERVED}", files,
                  {name: ["/machine", name] for name in CASES})


@pytest.mark.parametrize("name", ["boots", *CASES] if IS_LONG else [left_out])
def test_nodes(name, nodes, figure):
    if name == "boots":
        check_booted(nodes, figure, "a machine with two NUMA nodes, and pages of 2 MiB and 1 GiB,")
    else:
        check_result(nodes, name)


# -- OS pages of 64 KiB: POWER, with the programs that test_native.py runs under an emulator of programs

BUILD = conftest.ROOT / "build" / "ppc64le"
TRIPLE = "powerpc64le-linux-gnu"
LIBC = pathlib.Path(f"/usr/{TRIPLE}/lib")
# Unit tests have a system of their own, with OS pages of their own. What a program cannot do here:
WITHOUT = {"stress/children": "there is no shell",
           "stress/collapse": "huge pages have 2 MiB here, and the library takes them for larger",
           "stress/crowd": "its bounds are for OS pages of 4 KiB",
           "stress/failing": "it takes minutes, and its bounds are for OS pages of 4 KiB"}
IS_BUILT = IS_LONG and (BUILD / "tests.json").exists()
PROGRAMS = {f"{program['group']}/{program['name']}": program
            for program in (json.loads((BUILD / "tests.json").read_text()) if IS_BUILT else []) if program["group"] != "unit"}


def stripped(path, folder):
    run(f"{TRIPLE}-strip", "-o", folder / path.name, path)
    return (folder / path.name).read_bytes(), 0o755


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    kernel, emulator, folder = kernel_of("ppc64le"), find("qemu-system-ppc64"), tmp_path_factory.mktemp("pages")
    if not PROGRAMS:
        pytest.skip("no compiler or cmocka for ppc64le")
    compiler = f"{TRIPLE}-gcc"
    library = [*sorted(conftest.code_flags()), "-DMI_MALLOC_OVERRIDE", conftest.ROOT / "src" / "static.c"]
    files = {"init": program_of(compiler, folder / "init", HERE / "init.c"),
             "shrink": program_of(compiler, folder / "shrink", HERE / "shrink.c", *library)}
    # The others as they were built, with the shared library.
    cmocka = conftest.ROOT / "build" / "cross" / "ppc64le" / "usr" / "lib" / "libcmocka.so.0"
    files["lib64/ld64.so.2"] = stripped(LIBC / "ld64.so.2", folder)
    for path in (LIBC / "libc.so.6", LIBC / "libgcc_s.so.1", cmocka, BUILD / "libmimalloc.so.3"):
        files[f"lib/{path.name}"] = stripped(path, folder)
    to_run = {"shrink": ["/shrink"]}
    for name, program in PROGRAMS.items():
        files[f"test/{name}"] = stripped(pathlib.Path(program["path"]), folder)
        if name not in WITHOUT:
            to_run[name] = [f"/test/{name}"]
    command = [emulator, "-M", "pseries", "-accel", "tcg", "-smp", "2", "-m", "2048M"]
    # What a kernel does not know it gives to its first process, as a variable.
    return booted(folder, command, kernel, "console=hvc0 quiet MI_STRESS_PERCENT=30", files, to_run)


@pytest.mark.parametrize("name", ["boots", "shrink", *PROGRAMS] if IS_LONG else [left_out])
def test_pages(name, pages, figure):
    if name in WITHOUT:
        pytest.skip(f"{name}: {WITHOUT[name]}")
    if name == "boots":
        check_booted(pages, figure, "a machine with OS pages of 64 KiB")
    else:
        check_result(pages, name)
