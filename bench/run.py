#!/usr/bin/python3
"""Compare this library with other allocators on this machine, and write a report.

Every round runs each chosen workload once with each peer, in an order that rotates. The first round is a warm-up: it
is recorded, but does not count. A run that other processes disturbed is repeated. Words and method: bench/README.md.

  bench/run.py --list                                  workloads, peers with their versions, what is missing
  bench/run.py --quick                                 a look at everything in five minutes
  bench/run.py --only larson,redis --peers ours,glibc,tcmalloc --rounds 10
  bench/run.py --peers ours,glibc,NAME=/path/to/another.so
  bench/run.py --render build/bench/report/results-....csv --update-docs

With --quick, or with --seconds, a first look with one peer says what a round costs; then as many peers and rounds are
run as fit, the most important peers first, and the report says what was left out. Ctrl-C ends with a report of what
there is; raw results are on the disk already.
"""
import argparse
import math
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(BENCH))

from suite import catalog, measure, peers, raw  # noqa: E402  found by the line above

ROOT = BENCH.parent
DOCS = ROOT / "docs" / "benchmarks.md"
IMPORTANT = ["ours", "glibc", "jemalloc", "tcmalloc", "mimalloc3", "snmalloc"]
QUICK_SECONDS = 290  # of five minutes, the rest is for the report
SCALES = {"tiny": (0, 0.1), "quick": (256, 0.4), "full": (1024, 1.0)}  # (most MiB of warm-up, a guess in seconds)
LONG_S = 12  # a guess for a workload that is long
GIVE_UP_AFTER = 2  # failures of one workload with one peer
SLOW_S, SLOW_TIMES = 5, 5  # a run that takes so long, and so many times what the fastest peer takes, is run once
REPEATED = 0.2  # of all runs, at most: on a machine that is never quiet, repeating only takes time


def fail(message):
    sys.exit(f"bench: {message}")


def fit(cost, count, rounds, seconds):
    """(peers, rounds) that fit into the time if one round of one peer costs so much: rather 4 peers than 3 rounds."""
    affordable = int(seconds / cost) if cost > 0 else count * rounds
    for number in range(rounds, 0, -1):
        if affordable // number >= min(count, 4):
            return min(count, affordable // number), number
    return min(count, max(2, affordable)), 1


def by_importance(names):
    return sorted(names, key=lambda name: IMPORTANT.index(name) if name in IMPORTANT else len(IMPORTANT))


class OutOfTime(Exception):
    """The time that --quick or --seconds gives is over."""


class Session:
    """The runs: what has been measured, what one costs, what still failed."""

    def __init__(self, arguments, workloads, chosen, writer, shown):
        self.arguments, self.scale, self.writer, self.shown = arguments, arguments.scale, writer, shown
        self.workloads, self.peers = workloads, chosen
        self.costs, self.fastest, self.peaks, self.failures = {}, {}, {}, {}
        self.done_count = self.repeated_count = 0
        self.began = time.monotonic()
        self.deadline = self.began + arguments.seconds if arguments.seconds else None

    def cost(self, workload, peer):
        """Seconds of one run with all around it, as far as we know."""
        guess = SCALES[self.scale][1] + SCALES[self.scale][0] / 4096
        known = [self.costs[key] for key in ((workload.name, peer.name), workload.name) if key in self.costs]
        return known[0] if known else LONG_S if self.is_long(workload) else guess

    def warm_mib(self, workload):
        """Twice what a run of it took with any peer so far: the same for all of a round but the first."""
        most = SCALES[self.scale][0]
        return min(most, 64 + 2 * self.peaks[workload.name] // 1024) if workload.name in self.peaks else most

    def repeats(self):
        """How often a run may be repeated that others disturb."""
        return self.arguments.repeats if self.repeated_count <= REPEATED * self.done_count else 0

    def gives_up(self, workload, peer):
        return self.failures.get((workload.name, peer.name), 0) >= GIVE_UP_AFTER

    def is_long(self, workload):
        return workload.is_long and self.scale == "full"

    def takes_part(self, workload, peer, number):
        """Not if it fails, nor in every round if it is so long or slow that more of them would tell nothing new."""
        if self.gives_up(workload, peer):
            return False
        if self.is_long(workload) and not 1 <= number <= catalog.LONG_ROUNDS:
            return False
        return number <= 1 or not self.is_slow(workload, peer)

    def is_slow(self, workload, peer):
        return self.cost(workload, peer) > max(SLOW_S, SLOW_TIMES * self.fastest.get(workload.name, math.inf))

    def round_cost(self, number):
        return sum(self.cost(workload, peer) for workload in self.workloads for peer in self.peers
                   if self.takes_part(workload, peer, number))

    def run_one(self, workload, peer, kind, number, position, remaining):
        """One cell of one round, repeated while it is disturbed."""
        if not self.takes_part(workload, peer, number):
            return
        self.shown.update(f"{self.title(kind, number)}: {workload.name}, {peer.name}", remaining)
        since = time.monotonic()
        repeats = self.repeats() if kind == raw.COUNTED else 0
        runs = measure.attempts(workload, peer.variables(), self.scale, self.warm_mib(workload), repeats)
        for attempt, run in enumerate(runs):
            self.writer.row(run, kind=kind, round=number, position=position, attempt=attempt, workload=workload.name,
                            group=workload.group, peer=peer.name)
            self.peaks[workload.name] = max(self.peaks.get(workload.name, 0), run.peak_kib or 0)
        self.done_count += 1
        self.repeated_count += attempt
        if run.status != "ok":
            self.failures[workload.name, peer.name] = self.failures.get((workload.name, peer.name), 0) + 1
            self.shown.say(f"{workload.name} with {peer.name} failed: {run.reason}")
        cost = (time.monotonic() - since) / (attempt + 1)
        self.costs[workload.name, peer.name] = self.costs[workload.name] = cost
        if run.status == "ok":
            self.fastest[workload.name] = min(cost, self.fastest.get(workload.name, cost))

    def title(self, kind, number):
        return "warm-up" if kind == raw.WARM_UP else f"round {number} of {self.arguments.rounds}"

    def run_round(self, chosen, kind, number, rounds_after):
        """Every workload with every peer; the order of peers rotates from round to round."""
        for index, workload in enumerate(self.workloads):
            if self.deadline and time.monotonic() > self.deadline:
                raise OutOfTime(f"out of time in round {number}, at {workload.name}")
            shift = number % len(chosen)
            order = chosen[shift:] + chosen[:shift]
            for position, peer in enumerate(order):
                rest = [(workload, left) for left in order[position:]]
                rest += [(later, left) for later in self.workloads[index + 1:] for left in order]
                remaining = sum(self.cost(*pair) for pair in rest if self.takes_part(*pair, number))
                if rounds_after:
                    remaining += self.round_cost(number + 1) + (rounds_after - 1) * self.round_cost(number + 2)
                self.run_one(workload, peer, kind, number, position, remaining)

    def shrink(self):
        """After a first look with one peer: keep the peers and rounds that fit, and say so."""
        left = self.deadline - time.monotonic()
        rounds = self.arguments.rounds
        part = min(catalog.LONG_ROUNDS / rounds, 1)  # of its rounds that a long workload takes part in
        cost = sum(self.cost(workload, self.peers[0]) * (part if self.is_long(workload) else 1)
                   for workload in self.workloads)
        count, rounds = fit(cost, len(self.peers), rounds, left)
        kept = by_importance([peer.name for peer in self.peers])[:count]
        dropped = [peer.name for peer in self.peers if peer.name not in kept]
        if dropped or rounds < self.arguments.rounds:
            self.note(f"To end in {self.arguments.seconds} s, {rounds} of {self.arguments.rounds} rounds were planned"
                      + (f", and these peers left out: {', '.join(dropped)}." if dropped else "."))
        self.peers = [peer for peer in self.peers if peer.name in kept]
        self.arguments.rounds = rounds

    def note(self, text):
        self.writer.note(text)
        self.shown.say(text)

    def run_all(self):
        try:
            first = self.peers[:1] if self.deadline else self.peers
            self.run_round(first, raw.WARM_UP, 0, self.arguments.rounds)
            if self.deadline:
                self.shrink()
            for number in range(1, self.arguments.rounds + 1):
                self.run_round(self.peers, raw.COUNTED, number, self.arguments.rounds - number)
            self.note_slow()
            self.count_instructions()
        except OutOfTime as reason:
            self.note(f"The measurement ended early: {reason}.")
        except KeyboardInterrupt:
            self.note("The measurement was interrupted; this is what there was.")
        self.writer.comment("lasted", f"{time.monotonic() - self.began:.0f} s")

    def note_slow(self):
        long = [workload.name for workload in self.workloads if self.is_long(workload)]
        if long and self.arguments.rounds > catalog.LONG_ROUNDS:
            self.note(f"In {catalog.LONG_ROUNDS} rounds and without a warm-up, because a run is long: {', '.join(long)}.")
        names = [f"{workload.name} with {peer.name}" for workload in self.workloads for peer in self.peers
                 if self.is_slow(workload, peer) and not self.gives_up(workload, peer)]
        if names and self.arguments.rounds > 1:
            self.note(f"In one round only, because a run took more than {SLOW_S} s and {SLOW_TIMES} times as long as "
                      f"the fastest peer's: {', '.join(names)}.")

    def count_instructions(self):
        """Where no hardware counts them: those of the shortest way through malloc and free, by valgrind, once."""
        wanted = [workload for workload in self.workloads if workload.name.startswith("pairs-")]
        if not wanted or not self.arguments.instructions:
            return
        for peer in self.peers:
            self.shown.update(f"instructions by valgrind: {peer.name}", 0)
            start = measure.callgrind(["true"], peer.variables())[0]
            for workload in wanted:
                run = measure.count_instructions(workload, peer.variables(), start)
                self.writer.row(run, kind=raw.CALLGRIND, round=0, position=0, attempt=0, workload=workload.name,
                                group=workload.group, peer=peer.name)


def build(names):
    """What is measured, and what measures: our library, the micro workloads, the peers. Returns {peer: why not}."""
    log = catalog.BUILD / "build.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    commands = [["cmake", "-S", "bench", "-B", "build/bench/cmake", "-G", "Ninja"],
                ["cmake", "--build", "build/bench/cmake"]]
    if "ours" in names:
        commands += [["cmake", "--preset", "release"], ["cmake", "--build", "--preset", "release"]]
    print("bench: building", flush=True)
    with open(log, "w") as output:
        for command in commands:
            print(f"bench: {' '.join(command)}", file=output, flush=True)
            if subprocess.run(command, cwd=ROOT, stdout=output, stderr=output, check=False).returncode:
                fail(f"{' '.join(command)} failed, see {log.relative_to(ROOT)}")
    return dict(peers.build(names, catalog.BUILD / "peers" / "build.log"))


def usable(chosen, broken):
    """(the peers that work, {name: why not}): none is measured that another allocator answers for."""
    good, bad = [], dict(broken)
    for peer in chosen:
        reason = bad.get(peer.name) or peers.check(peer)
        if reason:
            bad[peer.name] = reason
        else:
            good.append(peer)
    return good, bad


def ready(workloads, scale):
    """(the workloads that can run, {name: why not}), inputs made."""
    good, bad = [], {}
    for workload in workloads:
        reason = workload.missing(scale)
        if not reason and workload.kind == "macro":
            try:
                workload.make_inputs(scale)
            except Exception as error:  # a generator that fails costs its workload, not the whole measurement
                reason = f"its inputs cannot be made: {type(error).__name__}: {error}"
        if reason:
            bad[workload.name] = reason
        else:
            good.append(workload)
    return good, bad


def list_all(arguments, workloads, chosen):
    for group in dict.fromkeys(workload.group for workload in workloads):
        print(f"{group}: {catalog.GROUPS.get(group, '')}")
        for workload in workloads:
            if workload.group == group:
                reason = workload.missing(arguments.scale)
                print(f"  {workload.name:<20} {workload.sentence}" + (f"  [missing: {reason}]" if reason else ""))
    for name, reason in catalog.broken_files():
        print(f"  {name} cannot be loaded: {reason}")
    print("peers:")
    for peer in chosen:
        lacks = "" if peer.exists else "  [not built or not installed]"
        print(f"  {peer.name:<20} {peer.version}: {peer.note}{lacks}")


def header(arguments, workloads, chosen, missing):
    found = {"command": raw.command(sys.argv[1:]), **raw.machine(), "scale": arguments.scale,
             "rounds": arguments.rounds, "seed": "none" if arguments.seed is None else arguments.seed,
             "repeated if others took over": f"{measure.DISTURBED:.0%}"}
    found |= {f"peer.{peer.name}": peer.version or "built here" for peer in chosen}
    found |= {f"limit.{peer.name}": "yes" for peer in chosen if peer.is_limit}
    return found | raw.program_versions(workloads) | {f"missing.{name}": reason for name, reason in missing.items()}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="small inputs, 3 rounds, five minutes")
    add("--full", action="store_true", help="large inputs, 5 rounds, up to two hours (this is the default)")
    add("--only", default="", metavar="NAMES", help="only these workloads, by name or beginning: larson,prodcons")
    add("--groups", default="", help=f"only these groups: {', '.join(catalog.GROUPS)}")
    add("--no-macro", action="store_true", help="without the real programs")
    add("--peers", default="", help="only these, or a library of your own as NAME=FILE")
    add("--rounds", type=int, help="rounds that count: 5, with --quick 3")
    add("--scale", choices=catalog.SCALES, help="size of the inputs; full, with --quick quick")
    add("--seconds", type=int, help="do what fits into this time")
    add("--repeats", type=int, help="how often a disturbed run is repeated: 3, with --quick once")
    add("--seed", type=int, help="shuffle the peers' first order by this number")
    add("--no-instructions", dest="instructions", action="store_false", help="never count instructions under valgrind")
    add("--no-build", action="store_true", help="measure what is built already")
    add("--output", type=pathlib.Path, default=catalog.BUILD / "report", metavar="DIR", help="build/bench/report")
    add("--render", type=pathlib.Path, metavar="CSV", help="write the report of raw results there are; run nothing")
    add("--update-docs", action="store_true", help="put tables and pictures into docs/benchmarks.md")
    add("--list", action="store_true", help="workloads, peers, what is missing; then end")
    arguments = parser.parse_args()
    if arguments.quick and arguments.full:
        parser.error("--quick or --full?")
    quick = arguments.quick
    arguments.scale = arguments.scale or ("quick" if quick else "full")
    arguments.rounds = arguments.rounds if arguments.rounds is not None else 3 if quick else 5
    arguments.repeats = arguments.repeats if arguments.repeats is not None else 1 if quick else 3
    arguments.seconds = arguments.seconds or (QUICK_SECONDS if quick else None)
    arguments.instructions &= not arguments.seconds
    if arguments.rounds < 1 or arguments.repeats < 0 or (arguments.seconds or 1) < 1:
        parser.error("--rounds and --seconds must be at least 1, --repeats at least 0")
    try:
        workloads = catalog.select(arguments.only, arguments.groups, not arguments.no_macro)
        arguments.peers = arguments.peers or ",".join(peers.usual())
        names = [peer.name for peer in peers.parse(arguments.peers)] if not arguments.render else []
    except ValueError as error:
        parser.error(str(error))
    return arguments, workloads, names


def render(path, arguments):
    """The report, and what the terminal shows of it."""
    from suite import console, report, stats  # what is needed to measure is needed before
    results = stats.Results(*raw.read(path))
    if not results.cells:
        fail(f"there are no runs in {path}")
    page, pictures = report.write(results, arguments.output)
    console.print_summary(results, report.all_tables(results), report.notes(results))
    print(f"\nraw results: {path}\nreport:      {page}")
    if arguments.update_docs:
        report.update_docs(results, pictures, DOCS)
        print(f"documents:   {DOCS.relative_to(ROOT)}, {DOCS.with_suffix('').relative_to(ROOT)}/")


class Interrupts:
    """SIGINT and SIGTERM as KeyboardInterrupt, once: make and timeout hand the same Ctrl-C on a second time, which
    would hit while folders are removed. A later one counts again."""
    GRACE_S = 2

    def __init__(self):
        self.last = -math.inf
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self)

    def __call__(self, *_):
        before, self.last = self.last, time.monotonic()
        if self.last - before > self.GRACE_S:
            raise KeyboardInterrupt


def main():
    arguments, workloads, names = options()
    if arguments.list:
        return list_all(arguments, workloads, peers.parse(arguments.peers))
    try:
        from suite import console, report  # better to fail now than after hours
    except ImportError as error:
        fail(f"{error.name} is missing for {sys.executable}: make deps FOR=bench installs it for /usr/bin/python3")
    try:
        if arguments.render:
            return render(arguments.render, arguments)
    except (OSError, ValueError) as error:
        fail(error)
    # One folder for those of all runs: an interruption between the making of such a folder and its `with` leaves nothing.
    with tempfile.TemporaryDirectory(prefix="bench-") as tempfile.tempdir:
        Interrupts()
        return measure_all(arguments, workloads, names)


def measure_all(arguments, workloads, names):
    from suite import console
    broken = {} if arguments.no_build else build(names)
    good, missing_peers = usable(peers.parse(arguments.peers), broken)  # now their versions can be asked
    able, missing = ready(workloads, arguments.scale)
    missing |= {name: f"the file cannot be loaded: {reason}" for name, reason in catalog.broken_files()}
    missing |= missing_peers
    for name, reason in missing.items():
        print(f"bench: without {name}: {reason}")
    if not good or not able:
        fail("nothing to run: no peer" if not good else "nothing to run: no workload")
    if arguments.seed is not None:
        random.Random(arguments.seed).shuffle(good)
    path = arguments.output / time.strftime("results-%Y%m%d-%H%M%S.csv")
    writer = raw.Writer(path, header(arguments, able, good, missing))
    with console.Progress() as shown:
        session = Session(arguments, able, good, writer, shown)
        session.run_all()
    writer.close()
    if session.done_count:
        render(path, arguments)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        fail("interrupted; what was measured is in build/bench/report or --output, and --render makes a report of it")
