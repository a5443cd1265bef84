"""Each fuzz target of test/fuzz: every input of its corpus once, and then a few seconds of new ones; `make long
WHAT=fuzz` goes on. If one fails, some sequence of calls or some text corrupts memory, or does something else than it says."""
import re
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import fuzz  # noqa: E402  pylint: disable=wrong-import-position

pytestmark = pytest.mark.slow
SECONDS = {"calls": 4, "threads": 2}  # the corpus of calls alone takes two
OTHERS = 1


@pytest.fixture(scope="module")
def built():
    problem = fuzz.missing()
    if problem:
        pytest.skip(problem)
    problem = fuzz.build()
    if problem:
        pytest.fail(f"the build of preset fuzz failed\n{problem[-4000:]}", pytrace=False)


def test_every_target_has_a_corpus():
    """A target without one starts from nothing each time."""
    for program in fuzz.programs():
        assert fuzz.read_corpus(fuzz.target_of(program)), program
    assert sum(path.stat().st_size for path in fuzz.CORPUS.iterdir()) < 300 * 1024


@pytest.mark.parametrize("program", fuzz.programs())
def test_fuzz(program, built, tmp_path, figure):
    status, output = fuzz.run(program, SECONDS.get(fuzz.target_of(program), OTHERS), tmp_path, ["-seed=1"])
    if status != 0:
        pytest.fail("\n".join(output.splitlines()[-60:]), pytrace=False)
    figure(f"fuzz/{program}: {re.search(r'Done ([0-9]+) runs', output)[1]} inputs")
