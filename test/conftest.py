"""Shared by all tests: figures that are printed at the end, and the last line with the counts."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = []


def run(*command, **environment):
    """What a program prints that must end with 0, without the variables of the library and the loader but those given."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("MIMALLOC_", "LD_"))}
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=120, env={**kept, **{k: str(v) for k, v in environment.items()}})
    assert result.returncode == 0, f"{' '.join(map(str, command))}\n{result.stdout}"
    return result.stdout


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not part of the quick run (make check)")


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


@pytest.fixture(scope="session")
def figure():
    """figure("text"): a number worth knowing, printed when the run ends."""
    return FIGURES.append


def pytest_terminal_summary(terminalreporter):
    if FIGURES:
        terminalreporter.section("figures")
        for line in dict.fromkeys(FIGURES):
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
