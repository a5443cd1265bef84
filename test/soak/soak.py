#!/usr/bin/python3
"""Run a server's life in short, draw its memory over time, and check that it stays within bounds.

  make long WHAT=soak                    30 minutes; or with MINUTES=120 SEED=7
  test/soak/soak.py --minutes 5          after cmake --build --preset test --target soak soak-plain
  test/soak/soak.py --quick              15 seconds, what make test runs
  test/soak/soak.py --preload FILE       any allocator under a program that is linked with none; "none": that of libc
  test/soak/soak.py --render FILE.csv    only draw and check

The samples and the picture are kept below build/soak. The exit status is 1 if a bound was broken, or if the program found
foreign bytes, hung or crashed, and 2 if something is missing. soak.c says what the phases are.
"""
import argparse
import csv
import dataclasses
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "test" / "test" / "soak"
OUT = ROOT / "build" / "soak"
DOCS = ROOT / "docs" / "images"
MIB = 1 << 10  # of KiB

# Phase: (factor, MiB). In its second half, what is resident beyond the start is at most so many times what lived at most in
# the last lag_ms (Plan), and so many MiB: about a quarter more than was measured. Where many threads wait, or sizes change
# all the time, more may be held than is used; when it is quiet, little.
BOUNDS = {
    "steady": (1.5, 96),
    "burst": (1.5, 64),
    "sizes": (1.5, 112),
    "threads": (1.5, 112),
    "pool": (1.5, 144),
    "pipeline": (1.5, 144),
    "grow": (1.5, 168),
    "forks": (1.5, 96),
    "collect": (1.5, 80),
    "heaps": (1.5, 112),
    "subprocs": (1.5, 112),
    "quiet": (1.5, 64),
}
AREAS = 1000  # mapped, besides two for each thread
TREND = 0.35  # of the median at the end of a cycle, over all cycles: a quarter is noise
TREND_CYCLES = 8  # fewer have no trend; the first does not count, because it is the one that fills
END_MIB = 4  # beyond the start, when all is freed and collected


@dataclasses.dataclass(frozen=True)
class Plan:
    seconds: int
    cycles: int
    sample_ms: int
    seed: int
    purge_delay_ms: int
    lag_ms: int  # what was freed so long ago must be gone; long enough for a machine that is busy

@dataclasses.dataclass(frozen=True)
class Sample:
    ms: int
    cycle: int
    phase: str
    live_kib: int
    committed_kib: int
    resident_kib: int
    areas: int
    threads: int
    blocks: int


def plan_of(minutes, seed):
    """Cycles of three minutes, but enough of them for a trend."""
    return Plan(max(1, round(minutes * 60)), max(TREND_CYCLES, round(minutes / 3)), 1000 if minutes >= 10 else 200, seed, 1000,
                3000)


def quick_plan(seed):
    """All phases in miniature: the clock of the library runs ten times as fast."""
    return Plan(12, 3, 50, seed, 100, 2000)


def read(path):
    with open(path, newline="") as file:
        kinds = {field.name: field.type for field in dataclasses.fields(Sample)}
        return [Sample(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(file)]


def run(plan, out, preload=None, programs=PROGRAMS):
    """Returns what is wrong, or None; the samples are in the file `out`."""
    program = programs / ("soak-plain" if preload else "soak")
    if not program.exists():
        sys.exit(f"soak: {program} is missing: cmake --preset test && cmake --build --preset test --target {program.name}")
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("MIMALLOC_", "LD_PRELOAD"))}
    variables["MIMALLOC_PURGE_DELAY"] = str(plan.purge_delay_ms)
    if preload and preload != "none":
        variables["LD_PRELOAD"] = os.path.abspath(preload)
    command = [program, "--seconds", plan.seconds, "--cycles", plan.cycles, "--seed", plan.seed, "--sample-ms",
               plan.sample_ms, "--out", out]
    done = subprocess.run([str(part) for part in command], env=variables, capture_output=True, text=True, errors="replace",
                          check=False)
    if done.returncode:
        return f"the program ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:].strip()}"
    return None


def ranges(samples):
    """[(cycle, phase, its samples)], in the order of time."""
    found = []
    for sample in samples:
        if not found or found[-1][:2] != (sample.cycle, sample.phase):
            found.append((sample.cycle, sample.phase, []))
        found[-1][2].append(sample)
    return found


def start_kib(samples):
    return min(sample.resident_kib for sample in samples if sample.phase == "start")


def recent_live(samples, lag_ms):
    """For each sample, the most that lived in the last lag_ms."""
    found, first = [], 0
    for index, sample in enumerate(samples):
        while samples[first].ms < sample.ms - lag_ms:
            first += 1
        found.append(max(other.live_kib for other in samples[first:index + 1]))
    return found


def trend(values):
    """The median of all slopes between two of them (Theil 1950, Sen 1968): one strange cycle does not matter."""
    return statistics.median((values[j] - values[i]) / (j - i) for i in range(len(values)) for j in range(i + 1, len(values)))


def settled(samples):
    """[MiB resident beyond the start and what lives, at the end of each cycle but the first]"""
    start = start_kib(samples)
    last = [part[-max(1, len(part) // 4):] for _, phase, part in ranges(samples) if phase == "quiet"]
    return [statistics.median((s.resident_kib - start - s.live_kib) / MIB for s in part) for part in last[1:]]


def worst(samples, plan):
    """{phase: (MiB over its bound, negative: below; the sample; what lived)}: where each phase came closest."""
    start, found = start_kib(samples), {}
    live = dict(zip(map(id, samples), recent_live(samples, plan.lag_ms)))
    for _, phase, part in ranges(samples):
        for sample in part[len(part) // 2:] if phase in BOUNDS else ():
            factor, constant = BOUNDS[phase]
            over = (sample.resident_kib - start - factor * live[id(sample)]) / MIB - constant
            if phase not in found or over > found[phase][0]:
                found[phase] = over, sample, live[id(sample)]
    return found


def problems(samples, plan):
    """What is out of bounds, in words."""
    found, start = [], start_kib(samples)
    for phase, (over, sample, live) in worst(samples, plan).items():
        if over > 0:
            factor, constant = BOUNDS[phase]
            found.append(f"{phase}, cycle {sample.cycle}, after {sample.ms / 1000:.1f} s: resident "
                         f"{(sample.resident_kib - start) / MIB:.1f} MiB for {live / MIB:.1f} live, allowed {factor:g} "
                         f"times that and {constant} MiB")
    for sample in samples:
        if sample.areas > AREAS + 2 * sample.threads:
            found.append(f"{sample.phase}, cycle {sample.cycle}: {sample.areas} areas are mapped, allowed {AREAS}")
            break
    rests = settled(samples)
    if len(rests) >= TREND_CYCLES - 1:
        growth = trend(rests) * (len(rests) - 1)
        allowed = TREND * statistics.median(rests)
        if growth > allowed:
            found.append(f"what is resident beyond what lives grows by {growth:.1f} MiB from cycle 2 to {len(rests) + 1}, allowed "
                         f"{allowed:.1f}: {', '.join(f'{rest:.1f}' for rest in rests)}")
    ends = [sample for sample in samples if sample.phase == "end"]
    if not ends:
        found.append("there is no sample of the end")
    elif ends[-1].resident_kib - start > END_MIB * MIB:
        found.append(f"{(ends[-1].resident_kib - start) / MIB:.1f} MiB more than at the start are resident when all is freed "
                     f"and collected, allowed {END_MIB}")
    return found


def summary(samples, plan):
    """The figures, as lines."""
    start = start_kib(samples)
    rests = settled(samples)
    lines = [f"{samples[-1].blocks / 1e6:.1f} million blocks in {samples[-1].ms / 1000:.0f} s, {plan.cycles} cycles, seed "
             f"{plan.seed}; at most {max(s.areas for s in samples)} areas and {max(s.threads for s in samples)} threads"]
    lines += [f"{phase:<9} closest to its bound: resident {(s.resident_kib - start) / MIB:6.1f} MiB, lived {live / MIB:6.1f}, "
              f"{-over:6.1f} below" for phase, (over, s, live) in worst(samples, plan).items()]
    lines.append("quiet, at the end of each cycle from the second on, MiB resident beyond what lives: " + " ".join(f"{r:.1f}" for r in rests))
    if len(rests) >= TREND_CYCLES - 1:
        lines.append(f"trend of that over these cycles: {trend(rests) * (len(rests) - 1):+.1f} MiB")
    lines.append(f"at the end, all freed and collected: {(samples[-1].resident_kib - start) / MIB:.1f} MiB beyond the start")
    return lines


def thinner(samples, most=600):
    """No more points than a page can show; of those that fall together, the one with the most resident."""
    step = -(-len(samples) // most)
    return [max(samples[at:at + step], key=lambda sample: sample.resident_kib) for at in range(0, len(samples), step)]


def draw(samples, path, title, theme="light"):
    """Memory over time, in PNG or SVG; phases are stripes, with their names in the first cycle."""
    sys.path.insert(0, str(ROOT / "bench"))
    from suite import charts
    from matplotlib import pyplot
    start = start_kib(samples)
    colors = [charts.look(peer, theme)[0] for peer in ("jemalloc", "ours", "limit")]
    with pyplot.rc_context(charts.settings(theme, "soak")):
        figure, axes = pyplot.subplots(figsize=(9, 4))
        shown = thinner(samples)
        minutes = [sample.ms / 60000 for sample in shown]
        lines = [("committed", [s.committed_kib / MIB for s in shown]),
                 ("resident, beyond the start", [(s.resident_kib - start) / MIB for s in shown]),
                 ("live", [s.live_kib / MIB for s in shown])]
        for (label, values), color in zip(lines, colors):
            if any(values):
                axes.plot(minutes, values, color=color, linewidth=0.9, label=label)
        for index, (cycle, phase, part) in enumerate(ranges(samples)):
            begin, end = part[0].ms / 60000, part[-1].ms / 60000
            if index % 2:
                axes.axvspan(begin, end, color=charts.THEMES[theme]["line"], alpha=0.12, linewidth=0)
            if cycle == 1:
                axes.annotate(phase, ((begin + end) / 2, 0.99), xycoords=("data", "axes fraction"), rotation=90, fontsize=5,
                              ha="center", va="top")
        axes.set_xlim(0, minutes[-1])
        axes.set_ylim(bottom=0)
        axes.set_xlabel(f"{title}: time, minutes")
        axes.set_ylabel("MiB")
        charts.add_legend(axes)
        if path.suffix == ".svg":
            path.write_text(charts.finish(figure))
        else:
            figure.savefig(path, dpi=110, bbox_inches="tight", facecolor="white")
            pyplot.close(figure)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--minutes", type=float, default=30, help="how long (30)")
    add("--quick", action="store_true", help="15 seconds, the clock of the library ten times as fast")
    add("--seed", type=int, default=1, help="of all random numbers (1)")
    add("--preload", metavar="FILE", help='use soak-plain with this library, or "none"')
    add("--render", metavar="FILE", help="draw and check the samples of an earlier run of the same length")
    add("--name", default="", help="of the files below build/soak")
    add("--update-docs", action="store_true", help="put the picture into docs/images")
    arguments = parser.parse_args()
    if arguments.minutes <= 0 or arguments.seed <= 0:
        parser.error("--minutes and --seed must be above 0")
    if arguments.preload not in (None, "none") and not pathlib.Path(arguments.preload).exists():
        parser.error(f"--preload: there is no file {arguments.preload}")
    return arguments


def main():
    arguments = options()
    if importlib.util.find_spec("matplotlib") is None:  # now, not when a long run has ended
        print("soak: the picture needs matplotlib, which this python3 lacks: make deps FOR=soak installs it for /usr/bin/python3",
              file=sys.stderr)
        return 2
    plan = quick_plan(arguments.seed) if arguments.quick else plan_of(arguments.minutes, arguments.seed)
    OUT.mkdir(parents=True, exist_ok=True)
    name = arguments.name or ("quick" if arguments.quick else f"soak-{arguments.minutes:g}min-seed{arguments.seed}")
    out = pathlib.Path(arguments.render or OUT / f"{name}.csv")
    broken = None
    if not arguments.render:
        print(f"soak: {plan.seconds} s, {plan.cycles} cycles, seed {plan.seed}; samples go to {out}", flush=True)
        broken = run(plan, out, arguments.preload)
    samples = read(out)
    title = f"{plan.cycles} cycles, seed {plan.seed}" + (f", {arguments.preload}" if arguments.preload else "")
    draw(samples, out.with_suffix(".png"), title)
    for theme in ("light", "dark") if arguments.update_docs else ():
        DOCS.mkdir(exist_ok=True)
        draw(samples, DOCS / f"soak-{theme}.svg", title, theme)
    found = ([broken] if broken else []) + problems(samples, plan)
    print("\n".join(summary(samples, plan)))
    print(f"picture: {out.with_suffix('.png')}")
    for problem in found:
        print(f"soak: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
