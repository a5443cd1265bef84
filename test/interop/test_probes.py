"""Static probes (src/os/probe.h): the notes of the library are those of the guide's table, and a debugger stops there.
If this fails, a tracer finds no place to attach, or reads another number than the guide says."""
import platform
import re
import shutil

import pytest

import conftest
from conftest import attempt, run

ROW = re.compile(r"^\| `(\w+)` \| (`\w+`(?:, `\w+`)*) \|", re.M)
NOTE = re.compile(r"Provider: (\w+)\s+Name: (\w+)\s+Location: (0x[0-9a-f]+), Base: \S+ Semaphore: \S+\s+Arguments: (.*)")
PROGRAM = r"""
#include <pthread.h>
#include <stdlib.h>
#include <mimalloc.h>
static void* volatile kept;
static void* thread_main(void* unused) {
  kept = malloc(40);
  return unused;
}
int main(void) {
  pthread_t thread;
  kept = malloc(3000000);
  free(kept);
  kept = malloc(2000);
  free(kept);
  mi_collect(true);
  pthread_create(&thread, NULL, &thread_main, NULL);
  pthread_join(thread, NULL);
  mi_profile_start(1);
  for (int i = 0; i < 2000; i++) kept = malloc(300);
  return 0;
}
"""

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="no probes on this processor")


def table():
    """{name: number of arguments} of the guide."""
    text = (conftest.ROOT / "docs" / "guide.md").read_text()
    section = text[text.index("\n## Probes\n"):]
    section = section[:section.index("\n## ", 1)]
    return {name: arguments.count("`") // 2 for name, arguments in ROW.findall(section)}


def notes(path):
    return NOTE.findall(run("readelf", "--notes", "--wide", path))


def test_guide_has_the_probes(library):
    found = {}
    for provider, name, location, arguments in notes(library):
        assert provider == "mimalloc" and int(location, 16) > 0
        assert re.fullmatch(r"8@\S+(?: 8@\S+)*", arguments), arguments
        found.setdefault(name, set()).add(len(arguments.split()))
    assert {name: {count} for name, count in table().items()} == found


def test_probe_is_one_instruction(library):
    """The code that a note points to does nothing."""
    code = run("objdump", "--disassemble", "--no-show-raw-insn", library)
    for _, name, location, _ in notes(library):
        line = re.search(rf"^ *{int(location, 16):x}:\s+(.*)$", code, re.M)
        assert line and line[1].strip() == "nop", name


def test_debugger_stops_at_probes(library, tmp_path):
    if not shutil.which("gdb"):
        pytest.skip("gdb is missing")
    source = tmp_path / "probed.c"
    source.write_text(PROGRAM)
    run("cc", "-O0", "-fno-builtin", f"-I{conftest.ROOT}/include", source, "-o", tmp_path / "probed", library, "-pthread",
        f"-Wl,-rpath,{library.parent}")
    script = ["set breakpoint pending on", "set debuginfod enabled off", "set confirm off"]
    for number, (name, count) in enumerate(table().items(), 1):
        values = ", ".join(f"$_probe_arg{i}" for i in range(count))
        script += [f"break -probe-stap mimalloc:{name}", f"commands {number}", "silent",
                   f'printf "{name}{" %lu" * count}\\n", {values}', "continue", "end"]
    (tmp_path / "gdb").write_text("\n".join([*script, "run", ""]))
    ended = attempt("gdb", "-batch", "-nx", "-x", tmp_path / "gdb", tmp_path / "probed")
    seen = {}
    for name, values in re.findall(r"^(\w+)((?: \d+)+)$", ended.output, re.M):
        seen.setdefault(name, []).append([int(value) for value in values.split()])
    assert set(seen) == set(table()), ended.output
    # Bytes of a block, whole OS pages; a size of blocks.
    assert any(3000000 <= size < 3000000 + 65536 for _, size in seen["large_make"])
    assert {start for start, _ in seen["large_release"]} <= {start for start, _ in seen["large_make"] + seen["sample"]}
    assert any(size == 2048 for _, size in seen["page_make"]) and any(size == 2048 for _, size, _ in seen["carve"])
    assert any(size == 512 for _, size in seen["sample"])
    assert all(start % 4096 == 0 and size >= 4096 for start, size in seen["purge"])
    assert len(seen["thread_start"]) == 2 and [seen["thread_start"][1]] == seen["thread_end"][:1]
