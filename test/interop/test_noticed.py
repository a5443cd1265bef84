"""What the guide says of misuse (docs/guide.md, "Misuse that is noticed") is what happens: each row of its table is a
mistake of src/noticed.c, made with blocks that share pages and with blocks that have a page of their own. If one of these
fails, somebody relies on a report that never comes, or looks for a mistake that would have been reported."""
import pathlib
import re
import signal

import pytest

import conftest
from conftest import attempt, run

SOURCE = pathlib.Path(__file__).resolve().parent / "src" / "noticed.c"
SHARED = (16, 1000, 16000)  # bytes of blocks that share pages with others
OWN = (524289, 5000000)  # and of those that have a page of their own

AT_CALL = {"at the call": "1 EINVAL", "later": "0 -", "again": "0", "given": "0"}
REFUSED = {"at the call": "1 EOVERFLOW"}
# (how the row begins, mistake): what happens with blocks up to 512 KiB, and with larger ones.
ROWS = {
    ("an address that is not ours", "foreign"): (AT_CALL, AT_CALL),
    ("an address that is not ours", "realloc_foreign"): (AT_CALL, AT_CALL),
    ("an address inside a block of a page that is full", "inside_full"): (AT_CALL, AT_CALL),
    ("an address inside a block of a page that is full", "inside_elsewhere"): (AT_CALL, AT_CALL),
    ("an address inside a block of any other page", "inside"): (
        {"at the call": "0 -", "later": "0 -", "collected": "0 -", "given": "1"}, AT_CALL),
    ("an address inside a block, to `realloc`", "realloc_inside"): (AT_CALL, AT_CALL),
    ("a block whose page has gone back", "page_gone"): (AT_CALL, AT_CALL),
    ("a block freed twice in a row", "twice"): ({"at the call": "0 -", "later": "1 EAGAIN", "again": "0"}, AT_CALL),
    ("a block freed twice, another", "twice_with_another_between"): (
        {"at the call": "0 -", "later": "0 -", "collected": "1 EFAULT", "again": "1"}, AT_CALL),
    ("a write into a block that another thread freed", "written_after_free_elsewhere"): (
        {"at the call": "0 -", "collected": "1 EFAULT", "later": "0 -", "given": "0"}, None),
    ("a write into a block that the same thread freed", "written_after_free"): (
        {"at the call": "0 -", "later": "0 -", "collected": "0 -", "given": "1"}, {"later": "0 -", "given": "0"}),
    ("a size or alignment that cannot be", "impossible_size"): (REFUSED, REFUSED),
    ("a size or alignment that cannot be", "impossible_alignment"): (REFUSED, REFUSED),
}


@pytest.fixture(scope="module")
def program(build, tmp_path_factory):
    path = tmp_path_factory.mktemp("noticed") / "noticed"
    run("cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fno-builtin", f"-I{conftest.ROOT / 'include'}", SOURCE,
        "-L", build, "-lmimalloc", f"-Wl,-rpath,{build}", "-pthread", "-o", path)
    return path


def outcome(program, mistake, size):
    """What it printed, the first line of each kind."""
    found = {}
    for what, said in re.findall(r"^(at the call|later|collected|again|given) (.*)$", run(program, mistake, size), re.M):
        found.setdefault(what, said)
    return found


@pytest.mark.parametrize("row, mistake", ROWS, ids=[mistake for _, mistake in ROWS])
def test_misuse_ends_as_the_guide_says(program, row, mistake):
    for expected, sizes in zip(ROWS[row, mistake], (SHARED, OWN)):
        for size in sizes if expected else ():
            if mistake == "written_after_free_elsewhere" and size > 1000:
                continue  # pages of few blocks are empty then, and their lists forgotten
            if mistake == "written_after_free" and size == 16000:
                continue  # which block malloc looks at next depends on where the page ends
            found = outcome(program, mistake, size)
            assert {what: found.get(what) for what in expected} == expected, f"{mistake} {size}: {found}"


def test_every_row_of_the_guide_is_a_mistake():
    guide = (conftest.ROOT / "docs" / "guide.md").read_text()
    table = guide.split("## Misuse that is noticed")[1].split("###")[0]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][2:]
    names = {name for name, _ in ROWS}
    assert len(rows) == len(names) and all(any(row.startswith(name) for name in names) for row in rows), rows


def test_every_mistake_is_in_a_row():
    mistakes = re.findall(r'^    \{"(\w+)", &\w+\},$', SOURCE.read_text(), re.M)
    assert sorted(mistakes) == sorted(mistake for _, mistake in ROWS)


@pytest.mark.parametrize("level, mistake, is_ended", [
    (0, "foreign", False), (1, "foreign", False), (2, "foreign", True), (2, "twice", True), (2, "impossible_size", False),
    (1, "written_after_free_elsewhere", False)])
def test_misuse_ends_the_process_if_it_is_to(program, level, mistake, is_ended):
    """The program has an error function, which is called before it ends."""
    status = attempt(program, mistake, 1000, MIMALLOC_ABORT_ON_MISUSE=str(level)).status
    assert status == (-signal.SIGABRT if is_ended else 0)


UNHANDLED = """
#include <mimalloc.h>
int main(int argc, char** argv) {
  if (argc > 1) mi_free(argv);
  void* volatile p[4000];
  for (int i = 0; i < 3; i++) p[i] = mi_malloc(48);
  for (int i = 0; i < 3; i++) mi_free(p[i % 2]); // the list has a loop
  for (int i = 3; i < 4000; i++) p[i] = mi_malloc(48);
  mi_collect(1);
  return 0;
}
"""


@pytest.mark.parametrize("level, arguments, is_ended", [
    (0, [], False), (1, [], True), (2, [], True), (1, ["foreign"], True), (0, ["foreign"], False)])
def test_damage_ends_the_process_if_it_is_to(build, tmp_path, level, arguments, is_ended):
    source = tmp_path / "unhandled.c"
    source.write_text(UNHANDLED)
    run("cc", "-O1", "-w", "-fno-builtin", f"-I{conftest.ROOT / 'include'}", source, "-L", build, "-lmimalloc",
        f"-Wl,-rpath,{build}", "-o", tmp_path / "unhandled")
    status = attempt(tmp_path / "unhandled", *arguments, MIMALLOC_ABORT_ON_MISUSE=str(level)).status
    assert status == (-signal.SIGABRT if is_ended else 0)
