"""What `make demo` shows holds: the same outputs, and no more memory than promised. If this fails, the
first thing a visitor runs embarrasses us."""
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "demo"))
import demo  # noqa: E402  (the path comes first)

pytestmark = pytest.mark.slow
MEMORY_RATIO_MAX = 1.05
PROGRAMS = ["redis-server", "python3", "python3, all by malloc", "g++, templates"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return {name: (base, run) for name, base, run in demo.programs(tmp_path_factory.mktemp("demo"))}


@pytest.mark.parametrize("name", PROGRAMS)
def test_demo_program(name, rows, library, figure):
    if name not in rows:
        pytest.skip(f"{name} is not installed")
    base, run = rows[name]
    system, ours = run(base), run(library)
    ratio = ours.kib / system.kib
    figure(f"demo, {name}: peak memory {system.kib} KiB with glibc's malloc, {ours.kib} KiB with ours, "
           f"ratio {ratio:.3f} (at most {MEMORY_RATIO_MAX}); time ratio {ours.seconds / system.seconds:.2f}")
    assert system.output == ours.output
    assert ratio <= MEMORY_RATIO_MAX
