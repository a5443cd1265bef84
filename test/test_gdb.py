"""scripts/gdb.py: what it says of addresses in a core dump is what the library says of them."""
import re

import pytest

import conftest
from conftest import attempt, find, run

PROGRAM = r"""
#include "static.c"
#include <stdio.h>
#include <stdlib.h>
static void tell(const char* name, const void* p) {
  char text[1000];
  mi_describe(p, text, sizeof(text));
  printf("%s 0x%lx: %s\n.\n", name, (unsigned long)p, text);
}
static void* leave(void* arg) {
  *(void**)arg = mi_malloc(700);
  return NULL;
}
char* volatile small; // p + 8 in the test
int main(void) {
  char* blocks[40];
  for (int i = 0; i < 40; i++) blocks[i] = mi_malloc(300 + i);
  for (int i = 0; i < 40; i += 3) mi_free(blocks[i]);
  small = mi_malloc(100);
  char* const large = mi_malloc(3000000);
  mi_heap_t* const heap = mi_heap_new();
  mi_heap_t* const other = mi_heap_new();
  char* const in_other = mi_heap_malloc(other, 64);
  tell("small", small);
  tell("inside", small + 8);
  tell("behind", small + 105);
  for (int i = 0; i < 40; i++) tell("one", blocks[i]);
  tell("far", blocks[0] + 60000);
  tell("tail", (char*)(((uintptr_t)blocks[0] | 0xffff) - 7));
  tell("head", (char*)((uintptr_t)blocks[0] & ~(uintptr_t)0xffff));
  tell("large", large);
  tell("later", large + 2000000);
  tell("shifted", mi_malloc_aligned_at(1000000, 64, 8));
  tell("aligned", mi_malloc_aligned(300, 512));
  tell("heap", mi_heap_malloc(heap, 64));
  mi_heap_delete(other);
  tell("moved", in_other);
  pthread_t thread;
  void* left = NULL;
  if (pthread_create(&thread, NULL, &leave, &left) != 0) return 1;
  pthread_join(thread, NULL);
  tell("left", left);
  char* const victim = mi_malloc(5000);
  char* const freed = mi_malloc(5000000); // last, so that nothing takes its place
  mi_free(freed);
  tell("freed", freed);
  tell("foreign", &small);
  tell("null", NULL);
  tell("wild", (void*)(uintptr_t)0xffff800000001000);
  mi_pagemap_find(victim)->block_size++;
  tell("damaged", victim);
  fflush(stdout);
  abort();
}
"""
NAMES = ["small", "inside", "behind", *["one"] * 40, "far", "tail", "head", "large", "later", "shifted", "aligned", "heap", "moved",
         "left", "freed", "foreign", "null", "wild", "damaged"]
# What the memory of a block says of it, and not the tables.
FROM_THE_BLOCK = r"\d+ bytes asked for, |; the address is .*"
BUILDS = {"release": [], "padded": ["-DMI_PADDING=1"], "secure": ["-DMI_SECURE=4"], "both": ["-DMI_SECURE=4", "-DMI_PADDING=1"]}


@pytest.mark.parametrize("build", BUILDS)
def test_gdb_says_what_mi_describe_says(build, tmp_path):
    """Whoever gets a core dump of a user, or stops a program, learns which block, page and heap an address belongs to."""
    gdb = find("gdb")
    if attempt(gdb, "-batch", "-ex", "python print(1)", apart=True).output != "1\n":
        pytest.skip("this gdb has no Python")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    run("cc", "-g", "-O1", "-std=gnu11", f"-I{conftest.ROOT}/src", f"-I{conftest.ROOT}/include", *BUILDS[build], source,
        "-o", program, "-lpthread")
    core, script = tmp_path / "core", conftest.ROOT / "scripts" / "gdb.py"
    # Describes each address that the program told of.
    ask = tmp_path / "ask.py"
    ask.write_text(f"""
import gdb, re
for address in re.findall(r"^\\w+ (0x[0-9a-f]+): ", open("{tmp_path}/told").read(), re.M):
    gdb.execute("mi " + address)
gdb.execute("mi small+8")
""")
    # A core dump that no setting of the machine forbids: gdb writes it when the program has stopped.
    live = attempt(gdb, "-nx", "-batch", "-ex", "set disable-randomization off", "-ex", f"run > {tmp_path}/told",
                   "-ex", f"generate-core-file {core}", "-ex", f"source {script}", "-ex", f"source {ask}", program, apart=True,
                   DEBUGINFOD_URLS="")
    if not core.exists():
        pytest.skip(f"gdb cannot run a program here: {live.errors.strip()[-200:]}")
    told = re.findall(r"^(\w+) (0x[0-9a-f]+): (.*?)\n\.$", (tmp_path / "told").read_text(), re.M | re.S)
    assert [name for name, _, _ in told] == NAMES
    dead = attempt(gdb, "-nx", "-batch", "-ex", f"source {script}", "-ex", f"source {ask}", program, core, apart=True,
                   DEBUGINFOD_URLS="")
    # With fences gdb writes no notes of the build with both into a core.
    for seen in (live,) if build == "both" else (live, dead):
        # gdb writes the rest of a MiB in which it meets a fence not into a core either: so no block there is read.
        lost = FROM_THE_BLOCK if seen is dead and build == "secure" else "$^"
        output = re.sub(lost, "", seen.output)
        for name, address, text in told:
            said = re.sub(lost, "", f"{address}: {text}\n")
            assert said in output, (name, text, seen.output[-3000:], seen.errors[-500:])
        assert output.count(re.sub(lost, "", f"{told[1][1]}: {told[1][2]}\n")) == 2


def test_gdb_without_the_library():
    """A program without us, or without debug information, gets a clear answer."""
    seen = attempt(find("gdb"), "-nx", "-batch", "-ex", f"source {conftest.ROOT}/scripts/gdb.py", "-ex", "mi 16", "-ex", "mi")
    if "No module named" in seen.output or "Scripting in the" in seen.output:
        pytest.skip("this gdb has no Python")
    assert "no mi_pagemap: the library is not there, or has no debug information" in seen.output
