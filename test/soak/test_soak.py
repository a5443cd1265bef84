"""A server's life in miniature stays within the bounds of memory, and the bounds catch what breaks them. If this fails, a
program that runs for weeks grows until it is killed. `make long WHAT=soak` is the long version."""
import csv
import dataclasses
import subprocess
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "test" / "soak"))

import soak  # noqa: E402  found by the line above

PLAN = soak.Plan(seconds=120, cycles=10, sample_ms=100, seed=1, purge_delay_ms=1000, lag_ms=3000)
PHASES = ["steady", "burst", "quiet"]


def made_up(resident=lambda sample: sample.live_kib * 5 // 4 + 20 * soak.MIB, **changes):
    """The samples of a run whose resident memory is a function of the rest: 4 s a phase, 25 MiB live, 250 in a burst."""
    found = []
    for index in range(PLAN.cycles * len(PHASES) * 40):
        cycle, phase = index // (len(PHASES) * 40), PHASES[index // 40 % len(PHASES)]
        live = (250 if phase == "burst" and index % 40 < 5 else 25) * soak.MIB
        sample = soak.Sample(index * 100, cycle + 1, phase, live, 0, 0, 100, 5, index)
        found.append(dataclasses.replace(sample, resident_kib=resident(sample) + 10 * soak.MIB, **changes))
    edge = soak.Sample(0, 0, "start", 0, 0, 10 * soak.MIB, 30, 1, 0)
    return [edge, *found, dataclasses.replace(edge, ms=len(found) * 100, phase="end")]


def test_soak_bounds_let_a_sound_run_pass():
    assert soak.problems(made_up(), PLAN) == []


def test_soak_bounds_see_memory_that_never_goes_back():
    """After the burst all of it is kept."""
    found = soak.problems(made_up(lambda sample: 270 * soak.MIB), PLAN)
    assert any(problem.startswith("quiet") for problem in found), found


def test_soak_bounds_see_a_slow_leak():
    """2 MiB a cycle: no single sample is out of bounds, the trend is."""
    found = soak.problems(made_up(lambda sample: sample.live_kib + (20 + 2 * sample.cycle) * soak.MIB), PLAN)
    assert len(found) == 1 and "grows by 16.0 MiB" in found[0], found


def test_soak_bounds_see_areas_and_the_end():
    samples = made_up(areas=soak.AREAS + 11)
    found = soak.problems(samples, PLAN)
    assert len(found) == 1 and "areas" in found[0], found
    samples = made_up()
    samples[-1] = dataclasses.replace(samples[-1], resident_kib=(11 + soak.END_MIB) * soak.MIB)
    found = soak.problems(samples, PLAN)
    assert len(found) == 1 and "freed and collected" in found[0], found
    assert any("no sample of the end" in problem for problem in soak.problems(samples[:-1], PLAN))


@pytest.mark.slow
def test_soak_draws(tmp_path):
    """The picture is kept, also of a run that broke a bound."""
    if subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True, check=False).returncode:
        pytest.skip("matplotlib is missing: make deps FOR=soak")
    with open(tmp_path / "made-up.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in dataclasses.fields(soak.Sample)])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(sample) for sample in made_up(lambda sample: 270 * soak.MIB))
    done = subprocess.run(["/usr/bin/python3", soak.__file__, "--render", tmp_path / "made-up.csv"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and "soak: quiet" in done.stderr, done.stdout + done.stderr
    assert (tmp_path / "made-up.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
@pytest.mark.parametrize("arguments, message", [
    (("--seconds", "0"), "--seconds must be a number from 1"), (("--cycles", "3x"), "not '3x'"),
    (("--nonsense", "1"), "--nonsense"), (("more",), "'more' is no option"), (("--out", "/nowhere/f"), "/nowhere/f: No such")])
def test_soak_refuses(arguments, message, build):
    done = subprocess.run([build / "test" / "soak" / "soak", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (1, 2) and message in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("preload", [False, True], ids=["linked", "preloaded"])
def test_soak_quick(preload, build, library, tmp_path, figure):
    """All phases, three times in 12 s; and without heaps and sub-processes in a program that is linked with nothing."""
    plan, out = soak.quick_plan(seed=1), tmp_path / "soak.csv"
    if preload:  # the same paths, through the names of the C library only
        plan = dataclasses.replace(plan, seconds=4, cycles=1)
    broken = soak.run(plan, out, preload=str(library) if preload else None, programs=build / "test" / "soak")
    assert broken is None, broken
    samples = soak.read(out)
    for line in soak.summary(samples, plan):
        print(line)
    if not preload:
        figure(f"FIGURE soak, all phases in miniature: {soak.settled(samples)[-1]:.0f} MiB resident beyond what lives when it is "
               f"quiet (bound {soak.BOUNDS['quiet'][1]} and half of what lives)")
    phases = {sample.phase for sample in samples}
    assert phases - {"start", "fill", "end"} == set(soak.BOUNDS) - ({"heaps", "subprocs"} if preload else set())
    assert soak.problems(samples, plan) == []
