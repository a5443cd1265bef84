"""Defaults of options that whoever builds the library may change (src/base/defaults.h)."""
import re
import signal

import conftest
from conftest import attempt, run

TABLE = (conftest.ROOT / "src" / "core" / "common" / "options.def").read_text()
OPTIONS = re.findall(r"^X\((\w+), ([^,]+),", TABLE, re.M)

# What of the interface can be changed.
NAMES = """verbose arena_eager_commit arena_reserve arena_max_object_size disallow_arena_alloc
           allow_large_os_pages reserve_huge_os_pages reserve_os_memory guarded_sample_rate pagemap_commit
           page_max_reclaim page_cross_thread_max_reclaim allow_thp abort_on_misuse zero_on_free purge_delay""".split()

PROGRAM = """
#include "core/common/state.h"
#include <stdio.h>
int main(void) {
  for (size_t i = 0; i < MI_OPTION_COUNT; i++) printf("%ld\\n", mi_atomic_load_relaxed(&mi_option_values[i]));
}
"""


def values(folder, *flags):
    """The values of a build with these flags."""
    source = folder / "defaults.c"
    source.write_text(PROGRAM)
    program = folder / "defaults"
    run("cc", "-std=gnu11", f"-I{conftest.ROOT / 'src'}", f"-I{conftest.ROOT / 'include'}", *flags, source,
        conftest.ROOT / "src" / "core" / "common" / "state.c", "-o", program)
    return dict(zip((name for name, _ in OPTIONS), map(int, run(program).split())))


def test_defaults_can_be_changed_when_building(tmp_path):
    # If this fails, a distribution cannot ship the library with other defaults.
    before = values(tmp_path)
    after = values(tmp_path, *(f"-DMI_DEFAULT_{name.upper()}={77 + i}" for i, name in enumerate(NAMES)))
    expected = {**before, **{name: 77 + i for i, name in enumerate(NAMES)}}
    assert after == expected and all(before[name] != after[name] for name in NAMES)


def test_defaults_in_the_table_are_those_of_the_interface():
    # If this fails, a default can be changed that nobody knows of, or has the name of another option.
    assert sorted(name for name, value in OPTIONS if value == f"MI_DEFAULT_{name.upper()}") == sorted(NAMES)
    assert sum("MI_DEFAULT_" in value for _, value in OPTIONS) == len(NAMES)


HUNGRY = """
#include <mimalloc.h>
#include <stdint.h>
int main(void) {
  mi_free((void*)(uintptr_t)0x1234560);
  return mi_malloc(SIZE_MAX) == NULL ? 3 : 4;
}
"""


def hungry(folder, *definitions):
    """How a program ends that asks for too much: (exit status, what it printed)."""
    (folder / "hungry.c").write_text(HUNGRY)
    run("cc", "-std=gnu11", "-Wno-alloc-size-larger-than", f"-I{conftest.ROOT / 'include'}", *definitions,
        folder / "hungry.c", conftest.ROOT / "src" / "static.c", "-o", folder / "hungry", "-pthread")
    return attempt(folder / "hungry")[:2]


def test_errors_are_shown_and_fatal_where_the_build_says_so(tmp_path):
    # If this fails, MI_SHOW_ERRORS or MI_XMALLOC of a packager does nothing.
    assert hungry(tmp_path) == (3, "")
    status, printed = hungry(tmp_path, "-DMI_SHOW_ERRORS=1")
    assert status == 3 and "invalid pointer" in printed and "too large" in printed
    assert hungry(tmp_path, "-DMI_XMALLOC=1")[0] == -signal.SIGABRT
