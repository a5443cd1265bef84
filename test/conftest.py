"""Shared by all tests: how a program is run, figures that are printed at the end, the last line with the counts, and which
tests may run side by side: with pytest-xdist several processes run them, and one more prints what these report."""
import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = []  # of the test that runs
SHOWN = []  # of all tests that have run; in the process that prints


# How a program ended: its exit status, or minus the number of the signal, or None when it took too long. What it printed
# to its standard output, and to error output; where the two are not kept apart, all of it is in `output`.
Ended = collections.namedtuple("Ended", "status output errors")


def environment(**variables):
    """The variables of this process but those of the library, the loader, libc's malloc and libstdc++; and those given."""
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("MIMALLOC_", "LD_", "MALLOC_", "GLIBC_TUNABLES", "GLIBCXX_"))}
    return {**kept, **{k: str(v) for k, v in variables.items()}}


def attempt(*command, timeout=240, apart=False, cwd=None, stdin=None, env=None, **variables):
    """Run a program in `env`, or `environment(**variables)`; if it takes too long it is ended with all that it started."""
    process = subprocess.Popen([str(part) for part in command], cwd=cwd, start_new_session=True,
                               env=environment(**variables) if env is None else env,
                               stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE if apart else subprocess.STDOUT)
    try:
        seen = process.communicate(None if stdin is None else stdin.encode(), timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        seen, status = process.communicate(), None
    return Ended(status, *((text or b"").decode(errors="backslashreplace") for text in seen))


def run(*command, **options):
    """What a program prints that must end with 0."""
    ended = attempt(*command, **options)
    assert ended.status == 0, f"{' '.join(map(str, command))} ended with {ended.status}\n{ended.output}{ended.errors}"[-8000:]
    return ended.output


def code_flags():
    """What cmake/flags.cmake compiles the library with on Linux, whatever the compiler: for those who do without CMake."""
    text = re.sub(r"if\(WIN32\).*?else", "", (ROOT / "cmake" / "flags.cmake").read_text(), flags=re.S)
    parts = re.findall(r"MI_CODE_FLAGS (-f.*)\)", text)[:2]
    return set(" ".join(parts).replace("${MI_TLS_MODEL}", "initial-exec").split()) - {"-g"}


def find(*names):
    """The path of the first of these programs that is installed; skips the test if there is none."""
    return next(filter(None, map(shutil.which, names)), None) or pytest.skip(f"{names[0]} is not installed")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not part of the quick run (make check)")
    config.addinivalue_line("markers", "xdist_group(name): tests that one process runs, one after the other")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """The tests of a file run one after the other, since they share what its fixtures make, unless the file says else."""
    for item in items:
        if not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item):
    """Figures travel with the report of the test, to the process that prints."""
    item.user_properties.extend(("figure", line) for line in FIGURES)
    FIGURES.clear()


def pytest_runtest_logreport(report):
    SHOWN.extend(line for name, line in report.user_properties if name == "figure")


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def build():
    """The folder with what `make test` built; MI_BUILD_DIR names another one."""
    return pathlib.Path(os.environ.get("MI_BUILD_DIR", ROOT / "build" / "test"))


@pytest.fixture(scope="session")
def library(build):
    path = build / "libmimalloc.so"
    if not path.exists():
        pytest.fail(f"{path} is missing: run make test, or cmake --preset test && cmake --build --preset test")
    return path


@pytest.fixture(params=[64, 32], ids=["64-bit", "32-bit"])
def either_library(request):
    """The library for this processor, and that for its 32-bit sibling."""
    if request.param == 64:
        return request.getfixturevalue("library")
    folder = ROOT / "build" / "i686"
    if not (folder / "tests.json").exists():
        pytest.skip("no compiler or cmocka for 32-bit x86, or this commit leaves it out (scripts/test.sh)")
    return folder / "libmimalloc.so"


def compiled(folder, name, *macros):
    """A library of ours with these macros, as users get it, without the time that cmake takes."""
    path = folder / f"lib{name}.so"
    run("cc", "-std=gnu11", "-O2", "-shared", "-fPIC", "-ftls-model=initial-exec", "-DMI_MALLOC_OVERRIDE", *macros,
        f"-I{ROOT / 'include'}", ROOT / "src" / "static.c", "-o", path, "-pthread")
    return path


@pytest.fixture(scope="session")
def figure():
    """figure("text"): a number worth knowing, printed when the run ends."""
    return FIGURES.append


def pytest_terminal_summary(terminalreporter):
    if SHOWN:
        terminalreporter.section("figures")
        for line in dict.fromkeys(SHOWN):
            terminalreporter.write_line(line)


def pytest_sessionfinish(session, exitstatus):
    # Everything skipped or deselected is not a success.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and exitstatus == 0 and not reporter.stats.get("passed") and not session.config.option.collectonly:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_unconfigure(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not reporter or config.option.collectonly:
        return
    count = {key: len(reporter.stats.get(key, [])) for key in
             ("passed", "xpassed", "failed", "error", "skipped", "xfailed")}
    print(f"{count['passed'] + count['xpassed']} passed, {count['failed'] + count['error']} failed, "
          f"{count['skipped'] + count['xfailed']} skipped", flush=True)
