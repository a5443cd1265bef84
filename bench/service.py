#!/usr/bin/python3
"""A service with a pool of 800 threads that allocate, free and block: what lives and what is resident, over time.

  make long WHAT=service                           ours, and those of the peers that are installed or built already
  bench/service.py --peers ours,glibc,NAME=/path/to/another.so --rounds 9

The workload is bench/micro/pool.c. Each round runs every peer once, in an order that rotates; the first is a warm-up. The
table has medians; the picture is of each peer's fastest round. Picture and samples are kept in build/bench/service. What is asked for: committed
at most 1.2 times what lives, at the throughput of the same library without sharing. The sharing is no option: compare with
a library that was built without it, as NAME=FILE.
"""
import argparse
import csv
import pathlib
import statistics
import sys

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

from suite import catalog, measure, peers  # noqa: E402  found by the line above

OUT = catalog.BUILD / "service"
USUAL = ["ours", "glibc", "jemalloc", "tcmalloc-minimal", "tcmalloc", "mimalloc3", "snmalloc"]
MIB = 1 << 10  # of KiB
COLUMNS = ["peak live", "peak resident", "of live", "end live", "end resident", "of live", "end committed", "of live", "time, s",
           "of glibc", "CPU, s", "of glibc"]


def run_one(peer, scale):
    """({figure: value}, the file of samples) of one run; ends the measurement if it fails."""
    file = OUT / f"{peer.name}.new"
    workload = catalog.Workload("pool", "server", "", command=("pool", "--timeline", str(file)))
    *_, run = measure.attempts(workload, peer.variables(), scale, repeats=1)
    if run.status != "ok":
        sys.exit(f"service: pool with {peer.name} {run.reason}")
    figures = {key: float(value) for key, value in (pair.split("=") for pair in run.extra.split())}
    figures |= {"seconds": run.seconds, "cpu": run.user + run.system, "disturbed": run.disturbed,
                "committed_kib": read(file)[-1]["committed_kib"]}
    return figures, file


def read(file):
    """The samples in the order of time: those of the lanes are one after another."""
    with open(file, newline="") as text:
        rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(text)]
    return sorted(rows, key=lambda row: row["ns"])


def table_row(figures, glibc):
    """The columns of a peer, from the medians of its figures."""
    live, end = figures["live_kib"], figures["live_end_kib"]
    committed = figures["committed_kib"]
    row = [live / MIB, figures["resident_peak_kib"] / MIB, figures["resident_peak_kib"] / live, end / MIB,
           figures["resident_kib"] / MIB, figures["resident_kib"] / end,
           committed / MIB if committed else None, committed / end if committed else None]
    for key in ("seconds", "cpu"):
        row += [figures[key], figures[key] / glibc[key] if glibc else None]
    return row


def shown(value):
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def draw(names, scale, path):
    """What is resident, and dotted what lives. The libraries are needed for this alone."""
    from suite import charts
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for name in names:
        color, rows = charts.look(name, "light", names)[0], read(OUT / f"{name}.csv")
        seconds = [(row["ns"] - rows[0]["ns"]) / 1e9 for row in rows]
        axes.plot(seconds, [row["resident_kib"] / MIB for row in rows], color=color, label=name,
                  linewidth=2 if name == "ours" else 1.2)
        # What lives is the same for all but for the time it takes.
        axes.plot(seconds, [row["live_kib"] / MIB for row in rows], color=color, linewidth=0.8, linestyle=":")
    axes.plot([], [], color="#57606a", linewidth=0.8, linestyle=":", label="what lives")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"pool of threads that wait with their tasks, scale {scale}: time, s")
    axes.set_ylabel("resident memory, MiB")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peers", default="", help="as of bench/run.py; without it, the usual ones that are there")
    add("--rounds", type=int, default=5, help="rounds that count (5)")
    add("--scale", choices=catalog.SCALES, default="full", help="full; smaller pools are for a look")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds must be at least 1")
    chosen = peers.choose(parser, arguments.peers, USUAL)
    if not (catalog.MICRO / "pool").exists():
        parser.error("build/bench/micro/pool is missing: make long WHAT=service builds it")
    peers.expect(parser, chosen)
    return arguments, chosen


def main():
    arguments, chosen = options()
    OUT.mkdir(parents=True, exist_ok=True)
    rounds = {peer.name: [] for peer in chosen}
    for number in range(arguments.rounds + 1):
        shift = number % len(chosen)
        for peer in chosen[shift:] + chosen[:shift]:
            figures, file = run_one(peer, arguments.scale)
            if number:
                rounds[peer.name].append(figures)
            if number and figures["seconds"] == min(run["seconds"] for run in rounds[peer.name]):
                file.replace(file.with_suffix(".csv"))
    medians = {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in rounds.items()}
    print(f"| peer | {' | '.join(COLUMNS)} |\n| --- |{' ---: |' * len(COLUMNS)}")
    for name, figures in medians.items():
        print(f"| {name} | {' | '.join(shown(value) for value in table_row(figures, medians.get('glibc')))} |")
    disturbed = sum(run["disturbed"] for runs in rounds.values() for run in runs)
    print(f"MiB; medians of {arguments.rounds} rounds. {disturbed:.0f} of {arguments.rounds * len(chosen)} runs were disturbed by "
          "other processes.")
    picture = OUT / "service.png"
    draw([peer.name for peer in chosen], arguments.scale, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main()
