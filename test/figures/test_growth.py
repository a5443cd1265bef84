"""Costs that stay flat. If this fails, a program whose heap grows finds that an operation which took a microsecond takes a
hundred: searches that go through the whole heap do not show in programs with small heaps.

Instructions are counted, because they are the same on every machine; bench/ has the times.
"""
import re

import pytest

import measure
from conftest import find, run

pytestmark = [measure.x86_only, pytest.mark.slow]

OPERATIONS, REQUEST_BLOCKS = 200, 1000  # as growth.c has them
SMALL, LARGE = 64, 4096  # MiB
GROWTH = 1.3
# Instructions of malloc and free of a large block that is found without a search: of the same size, or of another one.
PAIR, PAIR_NEAR = 730, 595
CROWD = 1.5
# A block of a request, beside so many threads, for one beside 7: where there are many, each one holds less ready.
REQUESTS = {40: 1.75, 200: 4.8}
# Each arena is asked for a run that happens to be aligned, and 4 GiB are several arenas.
GROWTH_OF = {"aligned": 2.1}
# The heaps are of addresses: no memory is to be populated ahead of its use.
ENVIRONMENT = {"MIMALLOC_ALLOW_THP": "0"}


def totals(library, pattern, mib, folder, **options):
    """Instructions of each call of `measured`, in the order in which they ended."""
    out = folder / f"out-{pattern}-{mib}"
    run(find("valgrind"), "--tool=callgrind", f"--callgrind-out-file={out}", "--toggle-collect=measured",
        "--dump-after=measured", measure.program("growth", library), pattern, mib, **ENVIRONMENT, **options)
    parts = sorted(folder.glob(f"{out.name}.*"), key=lambda part: int(part.suffix[1:]))
    return [int(re.search(r"^totals: (\d+)", part.read_text(), re.M)[1]) for part in parts]


def cost(library, pattern, mib, folder, **options):
    """Instructions of an operation in a heap of that size."""
    return totals(library, pattern, mib, folder, **options)[1] / OPERATIONS


def cost_of_requests(library, threads, folder):
    """Instructions of a block, on average over the threads."""
    each = totals(library, "requests", threads, folder)[:threads]
    assert len(each) == threads
    return sum(each) / threads / REQUEST_BLOCKS


@pytest.mark.parametrize("pattern", ["half", "holes", "random", "pair", "aligned", "left"])
def test_cost_does_not_grow_with_the_heap(pattern, library, figure, tmp_path):
    small, large = (cost(library, pattern, mib, tmp_path) for mib in (SMALL, LARGE))
    bound = GROWTH_OF.get(pattern, GROWTH)
    measure.say(figure, f"instructions of an operation in a heap of 4 GiB and of 64 MiB, {pattern}",
                f"{large:.0f} and {small:.0f}, {large / small:.2f}", bound)
    assert large <= bound * small


@pytest.mark.parametrize("shortest,bound", [("0", 2.0), ("2M", GROWTH)])
def test_giving_back_does_not_search_the_heap(shortest, bound, library, figure, tmp_path):
    """If this fails, each free in a large heap that shrinks walks past all that waits and is too short to go back."""
    small, large = (cost(library, "thin", mib, tmp_path, MIMALLOC_MINIMAL_PURGE_SIZE=shortest) for mib in (256, LARGE))
    measure.say(figure, f"instructions of a free in a heap of 4 GiB and of 256 MiB that shrinks, runs below {shortest} stay",
                f"{large:.0f} and {small:.0f}, {large / small:.2f}", bound)
    assert large <= bound * small


@pytest.mark.parametrize("mib", [SMALL, LARGE])
def test_pair_of_similar_sizes_has_one_place(mib, library, figure, tmp_path):
    """If this fails, large blocks of changing sizes each lie elsewhere in a heap with holes, and memory is moved there."""
    near = cost(library, "near", mib, tmp_path)
    measure.say(figure, f"instructions of a pair of 1 to 2 MiB in a heap of {mib} MiB with holes", f"{near:.0f}", PAIR_NEAR)
    assert near <= PAIR_NEAR


def test_threads_that_sleep_cost_nothing(library, figure, tmp_path):
    """If this fails, a program of which one thread works pays for its others, from some number of them on."""
    alone, few, many = (cost(library, "crowd", threads, tmp_path) / 20 for threads in (1, 31, 100))
    measure.say(figure, "instructions of a replacement in a small heap beside 1, 31 and 100 threads that sleep",
                f"{alone:.0f}, {few:.0f} and {many:.0f}", CROWD)
    assert max(few, many) <= CROWD * alone


@pytest.mark.parametrize("threads", REQUESTS)
def test_threads_that_wait_between_requests(threads, library, figure, tmp_path):
    """If this fails, a server pays with each request for what its other threads have, from some number of them on."""
    few, many = (cost_of_requests(library, count, tmp_path) for count in (8, threads))
    measure.say(figure, f"instructions of a block of a request with {threads} and with 8 threads",
                f"{many:.0f} and {few:.0f}, {many / few:.2f}", REQUESTS[threads])
    assert many <= REQUESTS[threads] * few


def test_cost_does_not_grow_with_the_size(library, figure, tmp_path):
    """If this fails, a buffer that is allocated and freed again and again costs what it holds."""
    small, large = (cost(library, "same", mib, tmp_path) for mib in (1, SMALL))
    measure.say(figure, "instructions of a pair of 64 MiB and of 1 MiB", f"{large:.0f} and {small:.0f}", PAIR)
    assert max(small, large) <= PAIR
