"""What becomes of mistakes with memory: each of test/misuse/mistakes.c, with each of our builds. docs/security.md has the table."""
import importlib.util
import re

import pytest

import conftest
from conftest import compiled

pytestmark = pytest.mark.slow
RUNS = 3
# The mistakes whose outcome depends on nothing random, and so is the same everywhere.
CERTAIN = ("double", "invalid", "realloc")
# A block that is in use again cannot be told from one that always was; two frees at one moment may both be taken.
UNTOLD = {"double_of_new_owner": "missed", "double_at_one_moment": None}

TAGGED = conftest.ROOT / "build" / "aarch64" / "flavour" / "mte" / "libmimalloc.so"

spec = importlib.util.spec_from_file_location("misuse", conftest.ROOT / "scripts" / "misuse.py")
misuse = importlib.util.module_from_spec(spec)
spec.loader.exec_module(misuse)
HERE = [build for build in misuse.BUILDS if build not in misuse.EMULATED]


@pytest.fixture(scope="module")
def program():
    return misuse.build()


@pytest.fixture(scope="module")
def found(program, library, tmp_path_factory):
    folder = tmp_path_factory.mktemp("misuse")
    libraries = {"release": library, "guarded": library, "debug": compiled(folder, "debug", "-DMI_DEBUG=2", "-DMI_PADDING=1"),
                 "secure": compiled(folder, "secure", "-DMI_SECURE=4")}
    return misuse.outcomes(program, misuse.mistakes_of(program), libraries, RUNS)


def of_kind(found, build, *kinds):
    return {mistake: outcome for (mistake, name), outcome in found.items() if name == build and misuse.kind_of(mistake) in kinds}


def test_secure_refuses_every_wrong_free_at_once(found):
    """If this fails, an attacker can have a block freed twice, or an address of his choice."""
    wrong = {mistake: outcome for mistake, outcome in of_kind(found, "secure", *CERTAIN).items()
             if outcome != "at once" and mistake not in UNTOLD}
    assert wrong == {}


def test_secure_never_follows_what_a_program_wrote(found):
    assert {outcome for outcome in of_kind(found, "secure", "forged").values()} <= {"at once", "harmless", "later"}


def test_secure_never_faults(found):
    assert [mistake for (mistake, build), outcome in found.items() if build == "secure" and outcome in ("explained", "crash")] == []


def test_debug_finds_every_wrong_free_at_once(found):
    wrong = {mistake: outcome for mistake, outcome in of_kind(found, "debug", *CERTAIN).items()
             if outcome != "at once" and mistake not in UNTOLD}
    assert wrong == {}


@pytest.mark.parametrize("flavour", HERE)
def test_no_crash_in_the_allocator_goes_without_a_report(flavour, found):
    """If this fails, a program crashes in malloc or free, and its user believes that the allocator is broken."""
    assert [mistake for (mistake, build), outcome in found.items() if build == flavour and outcome == "crash"] == []


@pytest.mark.parametrize("flavour, least", [("release", 0.4), ("guarded", 0.75), ("debug", 0.9), ("secure", 0.95)])
def test_most_mistakes_are_caught_or_harmless(flavour, least, found, figure):
    mistakes = sorted({mistake for mistake, _ in found})
    share = misuse.share(found, flavour, mistakes)
    figure(f"mistakes with memory that are caught or harmless, {flavour}: {share:.0%} of {len(mistakes)} (bound: {least:.0%})")
    assert share >= least


def test_table_of_the_document_is_true(found):
    """The rows of docs/security.md, for what does not depend on random addresses."""
    rows = misuse.documented("misuse")
    builds = next(row for row in rows if row[0] == "mistake")[1:]
    told = {(name.strip("`"), build): cell for name, *cells in rows if name.startswith("`")
            for build, cell in zip(builds, cells) if build in HERE}
    assert {mistake for mistake, _ in told} == {mistake for mistake, _ in found}
    wrong = {key: (told[key], outcome) for key, outcome in found.items()
             if misuse.kind_of(key[0]) in CERTAIN and key[0] not in UNTOLD and told[key] != outcome}
    assert wrong == {}


def test_memory_tags_stop_at_once(program, figure):
    """If this fails, an address that was freed can be used or freed again in a build with memory tags. The table of the
    document says the same of these mistakes."""
    if not TAGGED.exists():
        pytest.skip("no compiler, emulator or cmocka for aarch64")
    kinds = (*CERTAIN, "late", "forged")
    mistakes = [mistake for mistake in misuse.mistakes_of(program) if misuse.kind_of(mistake) in kinds]
    found = {mistake: outcome for (mistake, _), outcome in misuse.outcomes(program, mistakes, {"mte": TAGGED}, 1).items()}
    rows = misuse.documented("misuse")
    column = next(row for row in rows if row[0] == "mistake").index("mte")
    told = {row[0].strip("`"): row[column] for row in rows if row[0].startswith("`")}
    at_once = [mistake for mistake in mistakes if found[mistake] == "at once"]
    figure(f"mistakes with memory that tags stop at once: {len(at_once)} of {len(mistakes)}")
    assert {mistake: outcome for mistake, outcome in found.items() if outcome in ("missed", "crash")} == {}
    assert {mistake: (told[mistake], found[mistake]) for mistake in mistakes
            if (told[mistake] == "at once") != (found[mistake] == "at once") and mistake not in UNTOLD} == {}


EMBEDDED = """
#include <mimalloc.h>
#include <string.h>
int main(void) {
  static char* p[3000];
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 3000; i++) memset(p[i] = mi_malloc(1 + i % 40), i % 100, 1 + i % 40);
    for (int i = 0; i < 3000; i++) {
      for (int k = 0; k <= i % 40; k++) if (p[i][k] != i % 100) return 1;
    }
    for (int i = 0; i < 3000; i++) mi_free(p[i]);
  }
  mi_free(p[7]);
  return 0;
}
"""


def test_secure_build_inside_a_program(tmp_path):
    """Where malloc is not replaced, the smallest blocks have 8 bytes in any other build."""
    (tmp_path / "embedded.c").write_text(EMBEDDED)
    conftest.run("cc", "-O1", "-w", "-DMI_SECURE=4", f"-I{conftest.ROOT / 'include'}", tmp_path / "embedded.c",
                 conftest.ROOT / "src" / "static.c", "-o", tmp_path / "embedded", "-pthread")
    ended = conftest.attempt(tmp_path / "embedded")
    assert ended.output.startswith("mimalloc: error: double free detected of block ") and ended.status == -6


@pytest.mark.parametrize("status, said, outcome", [
    (0, ["begin", "end", "fine"], "harmless"), (0, ["begin", "end", "harm a block"], "missed"),
    (0, ["begin", "end", "lost", "fine"], "missed"), (-6, ["begin"], "at once"), (-6, ["begin", "end"], "later"),
    (-11, ["begin", "end"], "crash"), (None, ["begin"], "crash")])
def test_outcome_is_judged(status, said, outcome):
    assert misuse.judge("double_small", status, said) == outcome


def test_fault_of_an_access_is_a_catch():
    assert misuse.judge("overflow_small_1", -11, ["begin"]) == "at once"
    assert misuse.judge("double_small", -11, ["begin"]) == "crash"
    assert misuse.judge("double_small", -11, ["begin"], misuse.EXPLAINED + "read at 0x10\n") == "explained"
