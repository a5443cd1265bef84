"""Windows on x86-64, with mingw-w64, under Wine: what is not among the programs that test_native.py runs (MI_PLATFORMS=windows).
If one of these fails, a program for Windows has another malloc than it was built with, or none. It was never run on Windows."""
import pytest

import conftest

pytestmark = pytest.mark.slow
BUILD = conftest.ROOT / "build" / "windows"
WITHOUT = [line.strip().split(": ", 1) for line in (conftest.ROOT / "test" / "windows" / "without.txt").read_text().splitlines()
           if line and not line.startswith("#")]


def test_is_built():
    if not (BUILD / "tests.json").exists():
        pytest.skip("no compiler for Windows, no Wine, or no cmocka for it")


@pytest.mark.parametrize("name, why", WITHOUT, ids=[name for name, _ in WITHOUT])
def test_program_is_for_others(name, why):
    """What is left out is named. It is there elsewhere."""
    assert any((conftest.ROOT / "test" / f"{name}{suffix}").exists() for suffix in (".c", ".cpp"))
    pytest.skip(f"{name}: Windows has no {why}")
