#!/usr/bin/python3
"""Record what a program asks of its allocator, replay it with several allocators, and show side by side what each took.

  mimalloc-replay --record run.%p.trace -- program argument...            MIMALLOC_TRACE and LD_PRELOAD are set for it
  mimalloc-replay run.1234.trace --with glibc --with mimalloc=/usr/lib/libmimalloc.so
  mimalloc-replay run.1234.trace --with glibc --with other=/path/to/lib.so --rounds 11 --json figures.json --svg figures.svg
  mimalloc-replay run.1234.trace                  once, with the allocator that is there; also --info, --dump, --cut

Each allocator is preloaded into a process of its own (mimalloc-player). A round runs each once, in an order that rotates;
the first round is a warm-up and does not count. Figures are medians; the spread is that of all counted rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

PLAYER = pathlib.Path(os.path.realpath(__file__)).parent / "mimalloc-player"
RECORDERS = [PLAYER.parent / "mimalloc-trace", PLAYER.parent / "@MI_TRACE_FROM_BIN@"]
MIB = 1 << 20
NO_PRELOAD = ("glibc", "system")  # names that may stand without a file: what is there if nothing is preloaded
TIMEOUT_S = 3600
# What the table shows: title, key of the figures, divisor, digits. The first column has the spread, too.
COLUMNS = [("time, ms", "cpu_seconds", 1e-3, 2), ("peak, MiB", "peak_resident", MIB, 2), ("end, MiB", "end_resident", MIB, 2),
           ("start, MiB", "start_resident", MIB, 2), ("fragmentation", "fragmentation", 1, 3), ("page faults", "faults", 1, 0)]


def fail(message):
    sys.exit(f"mimalloc-replay: {message}")


def record(words):
    """Become the program that is to be recorded."""
    parser = argparse.ArgumentParser(prog="mimalloc-replay", allow_abbrev=False)
    parser.add_argument("--record", required=True, metavar="FILE", help="%%p in it: the process, %%n: the program")
    parser.add_argument("--limit", type=int, metavar="MIB", help="the largest size of a file")
    parser.add_argument("--time", action="store_true", help="record the time as well")
    parser.add_argument("program", nargs="+", help="what to run, behind --")
    arguments = parser.parse_args(words)
    library = next((str(folder / "libmimalloc-trace.so") for folder in RECORDERS if (folder / "libmimalloc-trace.so").exists()), None)
    if library is None:
        fail(f"there is no libmimalloc-trace.so in {' or '.join(map(str, RECORDERS))}")
    if " " in library or ":" in library:
        # The loader would take it for several names, say that there are no such files, and start the program without.
        fail(f"LD_PRELOAD cannot hold {library!r}: spaces and colons divide it. Move what is installed, or set LD_PRELOAD to a link to"
             " the library whose path has neither, and MIMALLOC_TRACE")
    before = os.environ.get("LD_PRELOAD")
    os.environ |= {"LD_PRELOAD": f"{library}:{before}" if before else library, "MIMALLOC_TRACE": arguments.record}
    if arguments.limit:
        os.environ["MIMALLOC_TRACE_LIMIT"] = str(arguments.limit)
    if arguments.time:
        os.environ["MIMALLOC_TRACE_TIME"] = "1"
    try:
        os.execvp(arguments.program[0], arguments.program)
    except OSError as error:
        fail(f"{arguments.program[0]}: {error.strerror}")


def parse_peer(text):
    """(name, file or None) of NAME=FILE, or of a name that needs no file."""
    name, has_file, path = text.partition("=")
    if not has_file:
        if name not in NO_PRELOAD:
            raise argparse.ArgumentTypeError(f"{text!r} is neither NAME=FILE nor one of {', '.join(NO_PRELOAD)}")
        return name, None
    if not name or not os.path.isfile(path):
        raise argparse.ArgumentTypeError(f"{text!r}: there is no such file" if name else f"{text!r} has no name")
    return name, os.path.realpath(path)


def play(trace, name, path, options):
    """The figures of one replay with one allocator."""
    environment = {key: value for key, value in os.environ.items() if key not in ("LD_PRELOAD", "MIMALLOC_TRACE")}
    if path:
        environment["LD_PRELOAD"] = path
    done = subprocess.run([PLAYER, trace, "--json", *options], env=environment, capture_output=True, text=True, errors="replace",
                          check=False, timeout=TIMEOUT_S)
    said = done.stderr.strip().splitlines()
    if done.returncode != 0:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        fail(f"with {name}: {said[-1] if said else how}")
    figures = json.loads(done.stdout)
    if path and os.path.realpath(figures["allocator"]) != path:
        fail(f"with {name}: malloc is that of {figures['allocator']}, not of {path}" + (f" ({said[0]})" if said else ""))
    for line in said:
        print(line, file=sys.stderr)
    grown = figures["peak_resident"] - figures["start_resident"]
    has_ratio = figures["peak_resident"] >= 0 and figures["peak_live"] > 0
    figures["fragmentation"] = grown / figures["peak_live"] if has_ratio else None
    return figures


def measure(trace, peers, rounds, options):
    """{name: [figures of each counted round]}"""
    runs = {name: [] for name, _ in peers}
    for number in range(rounds + 1):
        shift = number % len(peers)
        for name, path in peers[shift:] + peers[:shift]:
            figures = play(trace, name, path, options)
            if number > 0:
                runs[name].append(figures)
        if sys.stderr.isatty():
            print(f"\rround {number} of {rounds} ", end="\n" if number == rounds else "", file=sys.stderr, flush=True)
    return runs


def middle(runs, key):
    """The median of a figure, None where the system did not say it."""
    values = [run[key] for run in runs if run[key] is not None and run[key] >= 0]
    return statistics.median(values) if values else None


def summary(runs):
    """{name: {key: median, cpu_low and cpu_high: the spread}}"""
    found = {}
    for name, its in runs.items():
        times = [run["cpu_seconds"] for run in its]
        found[name] = {key: middle(its, key) for _, key, _, _ in COLUMNS}
        found[name] |= {"cpu_low": min(times), "cpu_high": max(times), "wall_seconds": middle(its, "wall_seconds")}
    return found


def show(value, divisor, digits):
    return "?" if value is None else f"{value / divisor:,.{digits}f}"


def table(found):
    rows = [["", COLUMNS[0][0], "spread", *(title for title, *_ in COLUMNS[1:])]]
    for name, figures in found.items():
        cells = [show(figures[key], divisor, digits) for _, key, divisor, digits in COLUMNS]
        cells.insert(1, "-".join(show(figures[key], 1e-3, 2) for key in ("cpu_low", "cpu_high")))
        rows.append([name, *cells])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths)))
             for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def draw(found, trace, path):
    """A bar for each allocator, in four panels."""
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        fail("--svg needs matplotlib for " + sys.executable + " (Debian: python3-matplotlib)")
    names, settings = list(found), {"svg.fonttype": "none", "svg.hashsalt": "replay", "font.size": 9,
                                    "axes.spines.top": False, "axes.spines.right": False}
    with pyplot.rc_context(settings):
        figure, panels = pyplot.subplots(1, 4, figsize=(11, 1.2 + 0.4 * len(names)), sharey=True)
        for axes, (title, key, divisor, digits) in zip(panels, [COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[4]]):
            values = [(found[name][key] or 0) / divisor for name in names]
            bars = axes.barh(names, values, color=[f"C{i}" for i in range(len(names))])
            axes.bar_label(bars, [show(found[name][key], divisor, digits) for name in names], padding=3, fontsize=8)
            axes.set_title(title, fontsize=9)
            axes.set_xlim(0, max([*values, 1e-9]) * 1.3)
            if key == "cpu_seconds":
                spread = [[(found[name][key] - found[name]["cpu_low"]) / divisor for name in names],
                          [(found[name]["cpu_high"] - found[name][key]) / divisor for name in names]]
                axes.errorbar(values, names, xerr=spread, fmt="none", ecolor="black", elinewidth=0.8, capsize=2)
        panels[0].invert_yaxis()
        figure.suptitle(pathlib.Path(trace).name, fontsize=10)
        figure.tight_layout()
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def main():
    if sys.argv[1:] and sys.argv[1].partition("=")[0] == "--record":
        record(sys.argv[1:])
    if not any(word == "--with" or word.startswith("--with=") for word in sys.argv[1:]):
        if {"-h", "--help"} & set(sys.argv[1:]):
            print(__doc__)
            return 0
        if {"--rounds", "--svg"} & {word.partition("=")[0] for word in sys.argv[1:]}:
            fail("--rounds and --svg are for several allocators: name them by --with")
        try:
            os.execv(PLAYER, ["mimalloc-player", *sys.argv[1:]])
        except OSError as error:
            fail(f"{PLAYER}: {error.strerror}")
    parser = argparse.ArgumentParser(prog="mimalloc-replay", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--with", dest="peers", action="append", type=parse_peer, metavar="NAME=FILE",
                        help=f"an allocator: its library, or one of {', '.join(NO_PRELOAD)} (nothing is preloaded)")
    parser.add_argument("--rounds", type=int, default=5, help="that count: 5")
    parser.add_argument("--json", metavar="FILE", help="write all figures of all rounds; - is standard output, without the table")
    parser.add_argument("--svg", metavar="FILE", help="draw a picture (needs matplotlib)")
    parser.add_argument("--touch", choices=("pages", "all", "none"), default="pages", help="what of a block is written to: pages")
    parser.add_argument("--calls", type=int, help="only the first so many calls")
    arguments = parser.parse_args()
    if arguments.rounds < 1 or (arguments.calls is not None and arguments.calls < 1):
        parser.error("--rounds and --calls must be at least 1")
    names = [name for name, _ in arguments.peers]
    if len(set(names)) < len(names):
        parser.error("two allocators have the same name")
    options = ["--touch", arguments.touch] + (["--calls", str(arguments.calls)] if arguments.calls else [])
    try:
        runs = measure(arguments.trace, arguments.peers, arguments.rounds, options)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    found, any_run = summary(runs), runs[names[0]][0]
    if arguments.json:
        text = json.dumps({"trace": arguments.trace, "rounds": arguments.rounds, "touch": arguments.touch,
                           **{key: any_run[key] for key in ("calls", "threads", "peak_live", "end_live")},
                           "allocators": {name: {"file": path, **found[name], "runs": runs[name]} for name, path in arguments.peers}}, indent=1)
        if arguments.json == "-":
            print(text)
        else:
            pathlib.Path(arguments.json).write_text(text + "\n")
    if arguments.json != "-":
        print(f"{any_run['calls']:,} calls, {any_run['threads']} threads, {any_run['peak_live'] / MIB:,.2f} MiB live at the peak, "
              f"{any_run['end_live'] / MIB:,.2f} at the end; {arguments.rounds} rounds\n\n{table(found)}")
    if arguments.svg:
        draw(found, arguments.trace, arguments.svg)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        fail("interrupted")
