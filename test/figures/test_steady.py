"""A program with one thread pays nothing for the existence of threads. If this fails, each of its allocations
may cost ten times as much: a locked instruction takes as long as a whole malloc and free."""
import re

import pytest

import measure
import test_instructions
from conftest import find, run

pytestmark = [measure.x86_only, pytest.mark.slow]


@pytest.fixture(scope="module")
def offsets(library, tmp_path_factory):
    """A file with the address of every instruction of the library that locks."""
    text = run(find("objdump"), "-d", "-w", "--no-show-raw-insn", library)
    # xchg locks by itself when one side is memory.
    found = re.findall(r"^\s*([0-9a-f]+):\s+(?:lock |xchg\w* .*\()", text, re.M)
    assert len(found) > 10
    path = tmp_path_factory.mktemp("steady") / "offsets"
    path.write_text("\n".join(found))
    return path


def test_steady_state_has_no_locked_instruction(library, offsets, figure):
    """Frees into full pages of the program's own are included: that is where a protocol between threads
    would show."""
    hits, made = {}, {}
    for size in test_instructions.class_sizes():
        command = measure.program("trace"), "locked", offsets, measure.program("steady", library), size
        seen = run(*command)
        hits[size] = int(re.search(r"^phase steady hits (\d+)", seen, re.M)[1])
        made[size] = int(re.search(r"made (-?\d+)", seen)[1])
    measure.say(figure, "locked instructions of a single-threaded program in steady state, every class",
                sum(hits.values()), 0)
    measure.say(figure, "sizes for which pages are made while half of the blocks are replaced at random",
                f"{sum(1 for n in made.values() if n)} of {len(made)}, at most {max(made.values())} pages", "none")
    assert len(hits) > 100 and not any(hits.values()), {size: n for size, n in hits.items() if n}


def test_steady_state_sees_locked_instructions(library, offsets):
    """The control of the test above: once a second thread has existed the same program must execute some."""
    command = measure.program("trace"), "locked", offsets, measure.program("steady", library), 1024, "threaded"
    assert int(re.search(r"^phase steady hits (\d+)", run(*command), re.M)[1]) > 0
