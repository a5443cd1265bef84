#!/usr/bin/python3
"""What the workloads with threads cost on 1, 4 and all cores: ours beside the peers.

  make long WHAT=scaling                           ours, and those of the peers that are installed or built already
  bench/scaling.py --threads 1,16 --seconds 300 --peers ours,NAME=/path/to/another.so

A workload does the same with each thread, so on a quiet machine with enough cores its time stays the same, whereas its
processor time grows with the threads. Rounds rotate the order of the peers, and as many are run as the time allows: two
at least, of which the first is a warm-up. A workload that has no use for threads is not here: see bench/run.py.
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

from suite import catalog, measure, peers  # noqa: E402  found by the line above

USUAL = ["ours", "glibc", "jemalloc", "tcmalloc-minimal", "mimalloc3", "snmalloc", "rpmalloc"]
NAMES = ["larson", "mstress", "rptest", "xmalloc-test", "prodcons", "sh8bench", "alloc-test", "glibc-thread", "replace",
         "cache-scratch", "cache-thrash", "mleak"]
METRICS = {"time": lambda run: run.seconds, "CPU": lambda run: run.user + run.system, "peak": lambda run: run.peak_kib}


def workloads(counts):
    """Each workload with each number of threads."""
    return [catalog.Workload(name, "threads", "", threads=count) for name in NAMES for count in counts]


def measured(cells, chosen, arguments):
    """{(workload, peer's name): [run]} of the rounds that count. Ends at the deadline, but not in the first of them."""
    deadline = time.monotonic() + arguments.seconds
    runs, failed = {}, set()
    for number in range(1 << 20):
        shift = number % len(chosen)
        for cell in cells:
            if number > 1 and time.monotonic() > deadline:
                return runs, number
            for peer in chosen[shift:] + chosen[:shift]:
                key = cell.name, cell.threads, peer.name
                if key in failed:
                    continue
                *_, run = measure.attempts(cell, peer.variables(), arguments.scale, warm_mib=64, repeats=0)
                if run.status != "ok":
                    failed.add(key)
                    print(f"scaling: {cell.name} with {cell.threads} threads and {peer.name} failed: {run.reason}")
                elif number:
                    runs.setdefault(key, []).append(run)
    raise AssertionError("no deadline")


def table(runs, cells, chosen):
    """For each metric: a row for each workload and number of threads, in times of ours."""
    others = [peer.name for peer in chosen[1:]]
    for metric, value in METRICS.items():
        first = chosen[0].name
        print(f"\n| {metric} | threads | {first} | {' | '.join(f'{name} / {first}' for name in others)} |")
        print(f"| --- | ---: |{' ---: |' * (len(others) + 1)}")
        ratios = {name: [] for name in others}
        for cell in cells:
            medians = {}
            for peer in chosen:
                those = runs.get((cell.name, cell.threads, peer.name))
                if those:
                    medians[peer.name] = statistics.median(value(run) for run in those)
            if first not in medians:
                continue
            own = medians[first]
            shown = f"{own / 1024:.0f} MiB" if metric == "peak" else f"{own:.3f} s"
            row = [f"{medians[name] / own:.2f}" if name in medians and own else "-" for name in others]
            for name in others:
                if medians.get(name) and own:
                    ratios[name].append(medians[name] / own)
            print(f"| {cell.name} | {cell.threads} | {shown} | {' | '.join(row)} |")
        means = [f"{statistics.geometric_mean(those):.2f}" if those else "-" for those in ratios.values()]
        print(f"| geometric mean | | | {' | '.join(means)} |")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peers", default="", help="as of bench/run.py; the first is compared with the others; without it, the usual ones")
    cores = os.cpu_count() or 1
    add("--threads", default=",".join(str(count) for count in sorted({1, min(4, cores), cores})), help="(%(default)s)")
    add("--seconds", type=float, default=600, help="as many rounds as fit (600)")
    add("--scale", choices=catalog.SCALES, default="quick", help="(quick)")
    arguments = parser.parse_args()
    try:
        counts = [int(word) for word in arguments.threads.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1 or max(counts) > 1024:
        parser.error("--threads must be numbers from 1 to 1024, with commas between them")
    chosen = peers.choose(parser, arguments.peers, USUAL)
    cells = workloads(counts)
    gone = sorted({cell.name for cell in cells if cell.missing(arguments.scale)})
    if gone:
        parser.error(f"not built, or too large for this machine: {', '.join(gone)} (make long WHAT=scaling builds them)")
    peers.expect(parser, chosen)
    return arguments, cells, chosen


def main():
    arguments, cells, chosen = options()
    runs, rounds = measured(cells, chosen, arguments)
    table(runs, cells, chosen)
    print(f"\nMedians of at least {rounds - 2 or 1} rounds on {os.cpu_count()} cores, scale {arguments.scale}.")


if __name__ == "__main__":
    main()
