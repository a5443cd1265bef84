"""What a row of `make compat` is: a program of others, and what it does with our library in front of it.

The files of rows/ list them, a group each; scripts/compat.py runs them. A row is a bash script (-e, -u, pipefail) that runs
with glibc first. If it fails there, the row cannot be judged. Then it runs with the library preloaded into everything it
starts, in an empty folder of the same path: it must end with 0 again and print the same. So a script prints what the
program computed, and strips what differs from run to run (times, addresses, process ids).

A script finds the functions of prelude.sh, and in its environment: PRELOADED (path of the library, empty with glibc),
COMMON (folder where `setup` ran, once, without the library), SRC (our test/compat/src: programs that stand for those of
others, so they share nothing with our tests) and SOURCES (the sources of others, build/compat/sources). A line
"FIGURE text" is a number worth knowing: shown in the table, not compared.
"""
import dataclasses
import importlib.util
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    what: str  # what is exercised, for the table
    script: str
    expect: str = ""  # what must be printed, where glibc itself is known to fail
    packages: str = ""  # of Debian 12, by apt
    sources: str = ""  # source packages, for the tests in them
    setup: str = ""  # script that runs once, before; what it prints is not compared
    limit_s: int = 120  # for one run
    quick: bool = False  # part of make test
    peers: bool = False  # runs with --peers
    group: str = ""  # first line of the file it is in


def load():
    """All rows, in the order of their files."""
    found = []
    for path in sorted((HERE / "rows").glob("*.py")):
        spec = importlib.util.spec_from_file_location(f"compat_rows_{path.stem}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        group = module.__doc__.splitlines()[0].rstrip(".")
        found += [dataclasses.replace(row, group=group) for row in module.ROWS]
    return found
