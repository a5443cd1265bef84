"""Option destroy_on_exit in a program that calls the library by name: nothing of it stays mapped."""
import pathlib

import pytest

import conftest
from conftest import run

SOURCE = pathlib.Path(__file__).resolve().parent / "src" / "destroy.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built with the library, which leaves malloc alone."""
    path = tmp_path_factory.mktemp("destroy") / "destroy"
    run("cc", "-O1", "-g", f"-I{conftest.ROOT / 'include'}", SOURCE, conftest.ROOT / "src" / "static.c", "-lpthread",
        "-o", path)
    return path


def mapped(program, **environment):
    """Bytes before the first block, with blocks, and after the end of the library."""
    return map(int, run(program, **environment).split())


@pytest.mark.parametrize("value", ["1", "2"])
def test_destroy_unmaps_everything(program, value):
    # If this fails, tools that look for leaks report all memory of the library.
    before, used, after = mapped(program, MIMALLOC_DESTROY_ON_EXIT=value, MIMALLOC_SHOW_ERRORS="1")
    assert used > before + (50 << 20)
    assert after <= before


def test_destroy_is_an_option(program):
    # If this fails, blocks are gone for whoever frees them after the end; or the test above sees nothing.
    before, used, after = mapped(program)
    assert before < used <= after
