"""Heap profiles are read by the tools they are for: pprof, jeprof, and a program that draws flame graphs.

Each is the real one, fetched or found; where it cannot be had the test is skipped and says so.
"""
import gzip
import os
import pathlib
import re
import subprocess

import pytest

from conftest import ROOT, attempt, find, run

PPROF = "github.com/google/pprof@v0.0.0-20261105003125-4bf881d7fb0b"
INFERNO = "0.12.8"
LIBRARY = pathlib.Path(os.environ.get("MI_BUILD_DIR", ROOT / "build" / "test")) / "libmimalloc.so"
MIB = 1 << 20
# Bytes that stay in use, by the function that asks for them; a block of 200 bytes has 208, one of 5000 has 5120.
SMALL, LARGE, THREADS, PLUGIN = 64 * MIB * 208 / 200, 30 * MIB, 16 * MIB * 1024 / 1000, 16 * MIB
PLUGIN_SOURCE = """
#include <stddef.h>
__attribute__((visibility("default"))) void keep_in_plugin(void (*keep)(size_t, size_t)) {
  keep(16 << 20, 1 << 16);
  __asm__ volatile("");
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("profile")


@pytest.fixture(scope="module")
def program(folder):
    """The program and its plug-in."""
    flags = ["-O1", "-g", "-fno-optimize-sibling-calls", "-fno-builtin"]
    (folder / "plugin.c").write_text(PLUGIN_SOURCE)
    run("cc", *flags, "-shared", "-fPIC", "-o", folder / "plugin.so", folder / "plugin.c")
    run("cc", *flags, "-rdynamic", "-pthread", "-o", folder / "profiled", ROOT / "test/interop/src/profiled.c", "-ldl")
    return folder / "profiled"


def profile(program, name, **more):
    """Runs the program with a profile; the path of that."""
    folder = program.parent
    for old in folder.glob("run.*"):
        old.unlink()
    file = folder / name.split(",")[0]
    variables = {"LD_PRELOAD": LIBRARY, "MIMALLOC_PROFILE": f"{folder}/{name}", "MIMALLOC_PROFILE_RATE": 8192, **more}
    ended = attempt(program, folder / "plugin.so", **variables)
    assert ended.status == 0 and ended.output == "", ended.output
    return file


def near(found, expected):
    """Within a tenth: more than four standard errors of what has 2000 samples or more."""
    return abs(found - expected) < expected / 10


def fetched(command, binary, **env):
    """A program that a package manager of a language builds; skips the test if it cannot."""
    if not binary.exists():
        binary.parent.mkdir(parents=True, exist_ok=True)
        try:
            ended = subprocess.run([str(word) for word in command], env={**os.environ, **env}, timeout=500, check=False,
                                   capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{command[0]} did not build {binary.name} in time")
        if not binary.exists():
            pytest.skip(f"{binary.name} cannot be had: {ended.stderr.strip().splitlines()[-1:]}")
    return binary


@pytest.fixture(scope="module")
def pprof():
    target = ROOT / "build" / "pprof"
    return fetched([find("go"), "install", PPROF], target / "pprof", GOBIN=str(target), GOFLAGS="-mod=mod")


@pytest.fixture(scope="module")
def flamegraph():
    target = ROOT / "build" / "inferno"
    # It draws two small pictures: what takes long is the compiler.
    command = [find("cargo"), "install", "--debug", "inferno", "--version", INFERNO, "--locked", "--no-default-features",
               "--features", "cli", "--root", target]
    return fetched(command, target / "bin" / "inferno-flamegraph")


def pprof_cum(pprof, file, index):
    """Of each function, the bytes of it and what it calls, as pprof says."""
    text = run(pprof, "-top", "-cum", "-unit=B", "-nodefraction=0", "-symbolize=none", f"-sample_index={index}", file)
    rows = re.findall(r"^ *-?[\d.]+B? +-?[\d.]+% +-?[\d.]+% +(-?[\d.]+)B? +-?[\d.]+% +(\S+)", text, re.M)
    assert rows, text
    return {name: float(value) for value, name in rows}


@pytest.mark.parametrize("suffix", ["pb.gz", "pb"])
def test_pprof_finds_who_keeps_memory(program, pprof, suffix, figure):
    file = profile(program, f"run.{suffix}")
    live = pprof_cum(pprof, file, "inuse_space")
    assert near(live["keep_small"], SMALL) and near(live["keep_large"], LARGE)
    assert near(live["work"], THREADS) and near(live["keep_in_plugin"], PLUGIN)
    assert near(live["keep_blocks"], SMALL + LARGE + THREADS + PLUGIN)
    assert live.get("churn", 0) < MIB
    allocated = pprof_cum(pprof, file, "alloc_space")
    assert allocated["churn"] > 4 * 20000 * 4000 * 0.9
    raw = run(pprof, "-raw", file)
    assert "inuse_space/bytes[dflt]" in raw and "plugin.so" in raw and re.search(r"thread:\[\d+", raw)
    # Each of the four threads is a label.
    text = run(pprof, "-tags", "-sample_index=inuse_space", "-unit=B", "-symbolize=none", file)
    assert len(set(re.findall(r": (\d+)B?$", text[text.index(" thread:"):], re.M))) >= 5, text
    figure(f"a heap profile of {live['main'] / MIB:.0f} MiB in use is {file.stat().st_size} bytes as {suffix}")


def test_pprof_shows_the_peak_and_its_own_lines(program, pprof):
    file = profile(program, "run.pb.gz,peak")
    assert "peak_space/bytes[dflt]" in run(pprof, "-raw", file)
    peak = pprof_cum(pprof, file, "peak_space")
    assert peak["keep_blocks"] >= 0.9 * (SMALL + LARGE + THREADS + PLUGIN)
    # With the build-id and the mappings pprof finds source lines, where it has addr2line or the like.
    if attempt("addr2line", "--version").status == 0:
        assert "profiled.c:" in run(pprof, "-top", "-lines", file)


def test_children_of_a_fork_have_profiles_of_their_own(program, pprof):
    file = profile(program, "run.pb.gz")
    children = [other for other in program.parent.glob("run.*.pb.gz") if other != file]
    assert len(children) == 3
    for child in children:
        live = pprof_cum(pprof, child, "inuse_space")
        # Its own blocks beside those of its parent.
        assert near(live["keep_small"], SMALL) and live["keep_blocks"] > SMALL + LARGE + 7 * MIB


def test_jeprof_finds_who_keeps_memory(program):
    jeprof = find("jeprof")
    file = profile(program, "run.heap")
    text = run(jeprof, "--text", "--cum", "--show_bytes", program, file)
    cum = {name: int(value) for value, name in re.findall(r"^ *\d+ +[\d.]+% +[\d.]+% +(\d+) +[\d.]+% +(\S+)", text, re.M)}
    assert near(cum["keep_small"], SMALL) and near(cum["keep_large"], LARGE), text
    assert near(cum["keep_blocks"], SMALL + LARGE + THREADS + PLUGIN), text
    text = run(jeprof, "--text", "--cum", "--show_bytes", "--alloc_space", program, file)
    assert int(re.search(r"(\d+) +[\d.]+% +churn", text)[1]) > 4 * 20000 * 4000 * 0.9


def test_pprof_reads_the_text(program, pprof):
    file = profile(program, "run.heap")
    text = run(pprof, "-top", "-cum", "-unit=B", "-sample_index=inuse_space", program, file)
    total = re.search(r"of ([\d.]+)B total", text)
    assert near(float(total[1]), SMALL + LARGE + THREADS + PLUGIN), text


def test_a_flame_graph_shows_who_keeps_memory(program, flamegraph):
    file = profile(program, "run.folded")
    # A stack has a line for each size of blocks.
    stacks = [line.rsplit(" ", 1) for line in file.read_text().splitlines()]
    kept = sum(int(value) for stack, value in stacks if ";keep_small;" in stack)
    assert near(kept, SMALL) and all(";" in stack for stack, _ in stacks)
    drawn = subprocess.run([flamegraph, "--countname", "bytes", file], capture_output=True, text=True, check=True).stdout
    shown = re.search(r"<title>keep_small \(([\d,]+) bytes", drawn)
    assert shown and near(int(shown[1].replace(",", "")), SMALL)


MAPPING_SOURCE = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
  const int file = memfd_create("code", 0);
  if (file < 0 || ftruncate(file, 8192) != 0) return 1;
  if (mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0) == MAP_FAILED) return 2;
  for (int i = 0; i < 1000; i++) *(char* volatile*)malloc(sizeof(char*) * 500) = 0;
  return ftruncate(file, 0);
}
"""


@pytest.mark.parametrize("suffix", ["pb", "pb.gz", "heap", "folded"])
def test_code_that_is_gone_is_no_crash(suffix, tmp_path):
    """The file of a mapping is empty, as with a plug-in that is being unloaded: who reads there is ended."""
    (tmp_path / "mapping.c").write_text(MAPPING_SOURCE)
    run("cc", "-O1", "-o", tmp_path / "mapping", tmp_path / "mapping.c")
    file = tmp_path / f"run.{suffix}"
    ended = attempt(tmp_path / "mapping", LD_PRELOAD=LIBRARY, MIMALLOC_PROFILE=file, MIMALLOC_PROFILE_RATE=8192)
    assert ended.status == 0 and ended.output == "", ended.output
    assert file.stat().st_size > 50


NAMES_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static int asked;
int dladdr(const void* address, Dl_info* info) {
  asked++;
  return ((int (*)(const void*, Dl_info*))dlsym(RTLD_NEXT, "dladdr"))(address, info);
}
__attribute__((noinline)) void* make(size_t size, int depth) {
  void* volatile block = depth == 0 ? malloc(size) : make(size, depth - 1);
  return block;
}
int main(int argc, char** argv) {
  int (*start)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "mi_profile_start");
  int (*write)(const char*, int) = (int (*)(const char*, int))dlsym(RTLD_DEFAULT, "mi_profile_write");
  if (argc < 2 || start == 0 || write == 0 || !start(1)) return 1;
  for (int i = 0; i < 2000; i++) make(10000 + i * 16, i % 20); /* a site for each depth and class */
  asked = 0;
  if (write(argv[1], 0) != 0) return 2;
  printf("%d\\n", asked);
  return 0;
}
"""


@pytest.mark.parametrize("suffix", ["pb", "folded"])
def test_each_name_is_asked_for_once(suffix, tmp_path):
    """The loader looks through all symbols of a file for a name: hundreds of thousands in a browser."""
    (tmp_path / "names.c").write_text(NAMES_SOURCE)
    run("cc", "-O1", "-fno-optimize-sibling-calls", "-rdynamic", "-o", tmp_path / "names", tmp_path / "names.c", "-ldl")
    file = tmp_path / f"run.{suffix}"
    asked = int(run(tmp_path / "names", file, LD_PRELOAD=LIBRARY))
    if suffix == "folded": assert len(file.read_text().splitlines()) > 40
    assert 1 <= asked < 100


def test_a_file_that_is_cut_off_is_told(program):
    if not os.path.exists("/dev/full"): pytest.skip("there is no /dev/full")
    link = program.parent / "full.pb.gz"
    link.symlink_to("/dev/full")
    ended = attempt("true", LD_PRELOAD=LIBRARY, MIMALLOC_PROFILE=link)
    link.unlink()
    assert ended.status == 0 and "cannot write the profile" in ended.output and "no space left" in ended.output


def test_the_gzip_form_is_sound(program):
    file = profile(program, "run.pb.gz")
    assert len(gzip.decompress(file.read_bytes())) > 1000  # checks the CRC and the length


def test_a_program_with_raised_privileges_writes_no_profile(tmp_path):
    """Else whoever may start it could overwrite a file of its owner."""
    if os.geteuid() != 0: pytest.skip("only root can make such a program")
    # Linked to the library, because the loader ignores LD_PRELOAD here as well.
    raised, target = tmp_path / "raised", tmp_path / "run.heap"
    run("cc", "-O1", "-g", "-pthread", "-o", raised, ROOT / "test/interop/src/profiled.c", LIBRARY,
        f"-Wl,-rpath,{LIBRARY.parent}", "-ldl")
    assert attempt(raised, MIMALLOC_PROFILE=target).status == 0 and target.exists()
    target.unlink()
    os.chown(raised, 1, 1)
    raised.chmod(0o6755)
    tmp_path.chmod(0o777)
    ended = attempt(raised, MIMALLOC_PROFILE=target, MIMALLOC_PROFILE_LEAKS=1)
    if ended.status == 127: pytest.skip("the loader does not find the library for such a program")
    assert ended.status == 0 and not target.exists() and ended.output == ""
