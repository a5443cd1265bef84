"""The quick rows of `make compat` with the library under test, that a row can fail, and that the document has them all."""
import re
import subprocess
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import compat  # noqa: E402
from row import Row  # noqa: E402

pytestmark = pytest.mark.slow
ROWS = compat.load()


@pytest.mark.parametrize("row", [row for row in ROWS if row.quick], ids=lambda row: row.name)
def test_row(row, library):
    result = compat.judge(row, {"ours": library})
    if result["outcome"] == "cannot be judged":
        pytest.skip(result["reason"])
    assert result["outcome"] == "pass", result["reason"]


def judge(library, script, **more):
    return compat.judge(Row("trial", "", script, **{"limit_s": 20, **more}), {"ours": library})


@pytest.mark.parametrize("script, outcome, reason", [
    ("echo same", "pass", ""),
    ("echo 'FIGURE $RANDOM'; echo same", "pass", ""),
    ('echo "${PRELOADED:+other}"', "fail", "line 1 of the output differs"),
    ('[ -z "$PRELOADED" ]', "fail", "ended with 1"),
    ('[ -z "$PRELOADED" ] || kill -11 $$', "fail", "ended with -11"),
    ("export -f active; plain bash -c 'active self'", "fail", "ended with 99"),
    ("exit 3", "cannot be judged", "with glibc: ended with 3"),
])
def test_outcome(library, script, outcome, reason):
    """Without this a row that never fails would look like a program that works."""
    result = judge(library, script)
    assert result["outcome"] == outcome and reason in result["reason"], result


def test_a_row_that_hangs_fails(library):
    assert "did not end" in judge(library, '[ -z "$PRELOADED" ] || sleep 60', limit_s=1)["reason"]


def test_a_missing_package_is_said(library):
    result = judge(library, "true", packages="no-such-package")
    assert result["outcome"] == "cannot be judged" and "no-such-package" in result["reason"]


def test_peak_memory_is_that_of_the_largest_process(library):
    runs = judge(library, "/usr/bin/python3 -c 'x = b\"x\" * (100 << 20)'; true")["runs"]
    assert all(100 << 10 <= run["peak_kib"] <= 140 << 10 for run in runs.values()), runs


def test_names_are_unique():
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_the_document_lists_every_row():
    """A row that is added is run for the document too: make compat, scripts/compat.py --docs."""
    text = compat.DOCUMENT.read_text()
    listed = re.findall(r"^\| ([\w.+-]+) \| ", text.split(compat.BEGIN)[1], re.M)
    assert set(listed) - {"row", "---"} == {row.name for row in ROWS}


def test_packages_are_printed_for_setup():
    output = subprocess.run([sys.executable, compat.__file__, "--packages", "static-jemalloc"], capture_output=True, text=True)
    assert output.stdout == "libjemalloc-dev\n", output.stderr
