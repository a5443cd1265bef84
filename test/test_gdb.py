"""scripts/gdb.py: what it says of addresses in a core dump is what the library says of them."""
import re

import pytest

import conftest
from conftest import attempt, find, run

PROGRAM = """
#include "static.c"
#include <stdio.h>
#include <stdlib.h>
static void tell(const char* name, const void* p) {
  mi_about_t about;
  char text[MI_DESCRIBE_TEXT_MAX];
  mi_describe_address(p, &about);
  mi_describe_text(&about, text, sizeof(text));
  printf("%s %p %s\\n", name, p, text);
}
char* volatile small; // p + 8 in the test
int main(void) {
  small = mi_malloc(100);
  char* const large = mi_malloc(3000000);
  mi_heap_t* const heap = mi_heap_new();
  tell("small", small);
  tell("inside", small + 8);
  tell("large", large);
  tell("heap", mi_heap_malloc(heap, 64));
  char* const freed = mi_malloc(5000000);
  mi_free(freed);
  tell("freed", freed);
  tell("foreign", &small);
  fflush(stdout);
  abort();
}
"""


def test_gdb_says_what_reports_say(tmp_path):
    """Whoever gets a core dump of a user learns which block, page and heap an address in it belongs to."""
    gdb = find("gdb")
    if attempt(gdb, "-batch", "-ex", "python print(1)", apart=True).output != "1\n":
        pytest.skip("this gdb has no Python")
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    run("cc", "-g", "-O1", "-std=gnu11", f"-I{conftest.ROOT}/src", f"-I{conftest.ROOT}/include", source, "-o", program,
        "-lpthread")
    core = tmp_path / "core"
    # A core dump that no setting of the machine forbids: gdb writes it when the program has stopped.
    dumped = attempt(gdb, "-nx", "-batch", "-ex", "set disable-randomization off", "-ex", "run",
                     "-ex", f"generate-core-file {core}", program, apart=True, DEBUGINFOD_URLS="")
    if not core.exists():
        pytest.skip(f"gdb cannot run a program here: {dumped.errors.strip()[-200:]}")
    told = re.findall(r"^(\w+) (0x[0-9a-f]+) (.*)$", dumped.output, re.M)
    assert [name for name, _, _ in told] == ["small", "inside", "large", "heap", "freed", "foreign"]
    commands = [argument for _, address, _ in told for argument in ("-ex", f"mi {address}")]
    seen = attempt(gdb, "-nx", "-batch", "-ex", f"source {conftest.ROOT}/scripts/gdb.py", *commands, "-ex", "mi small+8",
                   program, core, apart=True, DEBUGINFOD_URLS="")
    for name, address, text in told:
        assert f"{address}: {text}\n" in seen.output, (name, seen.output, seen.errors)
    assert seen.output.count(f"{told[1][1]}: {told[1][2]}\n") == 2


def test_gdb_without_the_library():
    """A program without us, or without debug information, gets a clear answer."""
    seen = attempt(find("gdb"), "-nx", "-batch", "-ex", f"source {conftest.ROOT}/scripts/gdb.py", "-ex", "mi 16", "-ex", "mi")
    if "No module named" in seen.output or "Scripting in the" in seen.output:
        pytest.skip("this gdb has no Python")
    assert "no mi_pagemap: the library is not there, or has no debug information" in seen.output
