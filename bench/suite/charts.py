"""The pictures: SVG, each in a light and a dark version, on a transparent background.

A peer has one colour and one mark in all of them; colours are of the Okabe-Ito and Tol palettes, which the colour-blind
can tell apart, and marks tell apart what has a similar colour. Everything relative is to ours, on a logarithmic axis.
"""
import io
import math

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402  the backend comes first

from suite import stats  # noqa: E402

THEMES = {"light": {"text": "#24292f", "line": "#8c959f"}, "dark": {"text": "#e6edf3", "line": "#7d8590"}}
# name: (light, dark, mark). Relatives share a hue.
LOOKS = {
    "ours": ("#d1242f", "#ff7b72", "D"),
    "glibc": ("#57606a", "#b1bac4", "o"),
    "jemalloc": ("#0072b2", "#58a6ff", "s"),
    "jemalloc5.3.1": ("#0072b2", "#58a6ff", "P"),
    "tcmalloc-minimal": ("#009e73", "#3fc99b", "v"),
    "tcmalloc": ("#009e73", "#3fc99b", "^"),
    "mimalloc2": ("#d55e00", "#f0883e", "<"),
    "mimalloc3": ("#d55e00", "#f0883e", ">"),
    "snmalloc": ("#aa4499", "#e085cf", "h"),
    "rpmalloc": ("#b08800", "#f0e442", "X"),
    "tbb": ("#33a0c8", "#88ccee", "p"),
    "hardened": ("#332288", "#b4a7ff", "d"),
    "scudo": ("#882255", "#f28cb8", "*"),
    "limit": ("#24292f", "#ffffff", "|"),
}
OTHERS = [("#117733", "#7ee787", "8"), ("#999933", "#dddd77", "H"), ("#cc6677", "#ffa0ab", "4")]
STEPS = [(3, [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8, 16, 32]), (1, [0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8, 4]),
         (0, [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2])]  # ticks for axes of so many doublings
WIDEST = 8.0  # ratios beyond stand at the edge, with their number beside it
PERCENTILES = [("ns_p50", "50 %"), ("ns_p99", "99 %"), ("ns_p99_9", "99.9 %"), ("ns_p99_99", "99.99 %"),
               ("ns_max", "worst")]

MEANINGS = {"B": "size", "MiB": "heap", "threads": "threads"}  # of the x axis, by its unit


def look(peer, theme, peers=()):
    """(colour, mark): fixed for the known ones, in the order of appearance for files of the command line."""
    strangers = [name for name in peers if name not in LOOKS]
    found = LOOKS.get(peer) or OTHERS[strangers.index(peer) % len(OTHERS) if peer in strangers else 0]
    return found[0 if theme == "light" else 1], found[2]


def settings(theme, salt):
    colors = THEMES[theme]
    return {"svg.fonttype": "none", "svg.hashsalt": f"{salt}-{theme}", "font.family": "sans-serif", "font.size": 9,
            "text.color": colors["text"], "axes.edgecolor": colors["line"], "axes.labelcolor": colors["text"],
            "xtick.color": colors["text"], "ytick.color": colors["text"], "axes.spines.top": False,
            "axes.spines.right": False, "grid.color": colors["line"], "grid.alpha": 0.3, "grid.linewidth": 0.6,
            "legend.frameon": False}


def finish(figure):
    """The figure as text, from <svg on; the same each time for the same data."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, bbox_inches="tight",
                   metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    text = buffer.getvalue()
    return "\n".join(line.rstrip() for line in text[text.index("<svg"):].splitlines()) + "\n"


def short(value, _=None):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def add_legend(axes, columns=6):
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1.005), ncols=columns, handletextpad=0.3,
                    columnspacing=1.2, borderaxespad=0.2)


def show_ratios(axis, low, high):
    """Round numbers on a logarithmic axis, more of them the narrower it is."""
    span = math.log2(high / low)
    steps = next((steps for narrow, steps in STEPS if span > narrow), STEPS[-1][1])
    axis.set_major_locator(ticker.FixedLocator([step for step in steps if low <= step <= high]))
    axis.set_major_formatter(short)
    axis.set_minor_locator(ticker.NullLocator())


def relative(results, group, metric, theme):
    """One group: a row for each workload, a mark for each peer at its ratio to ours; further right needs more."""
    workloads, others = results.groups[group], [peer for peer in results.peers if peer != stats.OURS]
    with pyplot.rc_context(settings(theme, f"{group}-{metric}")):
        height = max(0.3, 0.034 * len(others) + 0.1)
        figure, axes = pyplot.subplots(figsize=(8.2, 0.9 + height * len(workloads)))
        axes.axvline(1, color=look(stats.OURS, theme)[0], linewidth=1.4, label=stats.OURS)
        axes.set_xscale("log", base=2)
        seen, beyond = [1.0], [[] for _ in workloads]
        for index, peer in enumerate(others):
            color, mark = look(peer, theme, results.peers)
            shift = (index - (len(others) - 1) / 2) * 0.72 / max(1, len(others))
            marks, spans = [], []  # drawn at once for each peer: that keeps the file small
            for row, workload in enumerate(workloads):
                ratio = results.ratio(workload, peer, stats.OURS, metric)
                if ratio is None:
                    continue
                at, low, high = (min(max(value, 1 / WIDEST), WIDEST) for value in (ratio.value, ratio.low, ratio.high))
                seen += [low, high]
                marks.append((at, row + shift))
                spans.append((row + shift, low, high))
                if at != ratio.value:
                    beyond[row].append(f"{peer} {short(ratio.value)}×")
            if marks:
                axes.hlines(*zip(*spans), colors=color, linewidth=1)
                axes.plot(*zip(*marks), mark, color=color, markersize=4.5, markeredgewidth=1, linestyle="", label=peer)
        for row, workload in enumerate(workloads):
            words = beyond[row] + [f"{peer} failed" for name, peer, _ in results.failures() if name == workload]
            if words:
                lines = [", ".join(words[at:at + 2]) for at in range(0, len(words), 2)]
                axes.annotate("\n".join(lines), (1, row), xycoords=("axes fraction", "data"), fontsize=6.5,
                              xytext=(5, 0), textcoords="offset points", va="center")
        for row in range(1, len(workloads)):
            axes.axhline(row - 0.5, color=THEMES[theme]["line"], linewidth=0.4, alpha=0.5)
        axes.set_xlim(min(seen) / 1.06, max(max(seen), 1.1) * 1.06)
        show_ratios(axes.xaxis, *axes.get_xlim())
        axes.set_yticks(range(len(workloads)), workloads)
        axes.set_ylim(len(workloads) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x")
        axes.set_xlabel(f"{stats.METRICS[metric].title} relative to ours: right of the line needs more, left less")
        add_legend(axes)
        return finish(figure)


def overview(results, theme):
    """Each peer at its geometric means of time and peak memory over all workloads, relative to ours."""
    means = [{peer: rows[-1][1] for peer, rows in results.against(metric).items()} for metric in ("time", "memory")]
    with pyplot.rc_context(settings(theme, "overview")):
        figure, axes = pyplot.subplots(figsize=(8.2, 4.6))
        labels = []
        for peer in results.peers:
            x, y = (1.0, 1.0) if peer == stats.OURS else (means[0].get(peer, math.nan), means[1].get(peer, math.nan))
            if math.isfinite(x) and math.isfinite(y):
                color, mark = look(peer, theme, results.peers)
                axes.plot([x], [y], mark, color=color, markersize=8, linestyle="")
                labels.append(axes.annotate(f" {peer}", (x, y), color=color, xytext=(5, 0), textcoords="offset points",
                                            va="center"))
        axes.axvline(1, color=THEMES[theme]["line"], linewidth=0.8)
        axes.axhline(1, color=THEMES[theme]["line"], linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.margins(x=0.15, y=0.12)
        for axis, name, limits in ((axes.xaxis, "time", axes.get_xlim()), (axes.yaxis, "peak memory", axes.get_ylim())):
            show_ratios(axis, *limits)
            axis.set_label_text(f"{name} relative to ours")
        axes.grid()
        pull_apart(figure, labels)
        return finish(figure)


def pull_apart(figure, labels):
    """Move a label down by its height until it covers none of those above it."""
    figure.draw_without_rendering()
    boxes = []
    for label in sorted(labels, key=lambda label: -label.get_window_extent().y0):
        box = label.get_window_extent()
        for other in sorted(boxes, key=lambda other: -other.y0):
            if box.overlaps(other):
                box = box.translated(0, other.y0 - box.y1 - 1)
        down = (box.y0 - label.get_window_extent().y0) * 72 / figure.dpi
        label.xyann = (label.xyann[0], label.xyann[1] + down)
        boxes.append(box)


def memory_curves(results, workload, theme):
    """Resident memory over time of one workload, the run with the median integral for each peer."""
    curves = {peer: results.curve(workload, peer) for peer in results.peers}
    with pyplot.rc_context(settings(theme, f"curve-{workload}")):
        figure, axes = pyplot.subplots(figsize=(8.2, 3.6))
        for peer, points in curves.items():
            if points:
                color, mark = look(peer, theme, results.peers)
                axes.plot(*zip(*points), color=color, linewidth=2 if peer == stats.OURS else 1, marker=mark,
                          markersize=4, markevery=max(1, len(points) // 8), label=peer)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{workload}: time, s")
        axes.set_ylabel("resident memory, MiB")
        axes.grid()
        add_legend(axes)
        return finish(figure)


def latency_curves(results, workload, theme):
    """Percentiles of the time of one call."""
    with pyplot.rc_context(settings(theme, f"latency-{workload}")):
        figure, axes = pyplot.subplots(figsize=(8.2, 3.8))
        for peer in results.peers:
            extra = results.extra(workload, peer)
            points = [(index, extra[key]) for index, (key, _) in enumerate(PERCENTILES) if extra.get(key)]
            if points:
                color, mark = look(peer, theme, results.peers)
                axes.plot(*zip(*points), color=color, marker=mark, markersize=5, label=peer,
                          linewidth=2 if peer == stats.OURS else 1)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g} µs" if value >= 1000 else f"{value:g} ns")
        axes.set_xticks(range(len(PERCENTILES)), [label for _, label in PERCENTILES])
        axes.set_ylabel("time of one call")
        axes.set_xlabel(f"{workload}: this share of the calls takes at most")
        axes.grid()
        add_legend(axes)
        return finish(figure)


def quantity(x, unit):
    """A number with its unit; bytes in the largest one that divides them."""
    units = ["B", "KiB", "MiB", "GiB"]
    if unit not in units:
        return f"{x}"
    at = units.index(unit)
    while x >= 1024 and x % 1024 == 0 and at + 1 < len(units):
        x, at = x // 1024, at + 1
    return f"{x} {units[at]}"


def apart(points):
    """[(x, words)] for a logarithmic axis; the words of a point close to the last that has some are left out."""
    ticks, last = [], 0
    for x, unit in points:
        ticks.append((x, quantity(x, unit) if x >= 1.5 * last else ""))
        last = x if ticks[-1][1] else last
    return ticks


def cost_curves(results, workload, theme):
    """What an operation costs as the heap, the threads or the sizes grow: a field for each operation."""
    costs = results.costs(workload)
    with pyplot.rc_context(settings(theme, f"cost-{workload}")):
        columns = min(2, len(costs))
        rows = -(-len(costs) // columns)
        figure, fields = pyplot.subplots(rows, columns, figsize=(8.2, 0.6 + 2.9 * rows), sharey=True, squeeze=False)
        for axes, (operation, points) in zip(fields.flat, costs.items()):
            for peer in results.peers:
                color, mark = look(peer, theme, results.peers)
                line = [(x, found[peer]) for (x, _), found in points.items() if found.get(peer)]
                if line:
                    axes.plot(*zip(*line), color=color, marker=mark, markersize=4, label=peer,
                              linewidth=2 if peer == stats.OURS else 1)
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g} µs" if value >= 1000 else f"{value:g} ns")
            axes.set_xticks(*zip(*apart(points)), rotation=40)
            axes.xaxis.set_minor_locator(ticker.NullLocator())
            axes.set_xlabel(f"{workload}, {operation}: {MEANINGS.get(next(iter(points))[1], '')}")
            axes.grid()
        for axes in fields.flat[len(costs):]:
            axes.set_visible(False)
        fields[0, 0].set_ylabel("CPU time of one operation")
        add_legend(fields[0, 0])
        figure.subplots_adjust(wspace=0.08, hspace=0.55)
        return finish(figure)


def all_charts(results):
    """{name: (title, {theme: svg})}, in the order of the report."""
    plans = {}
    if len(results.peers) > 1 and stats.OURS in results.peers:
        plans["overview"] = "Time and memory of all: geometric means, less is better", lambda theme: overview(results, theme)
        for group in results.groups:
            for metric in ("time", "memory"):
                title = f"{group}: {stats.METRICS[metric].title} relative to ours"
                plans[f"{group}-{metric}"] = title, lambda theme, g=group, m=metric: relative(results, g, m, theme)
    for workload in results.workloads:
        if any(results.curve(workload, peer) for peer in results.peers):
            plans[f"curve-{workload}"] = f"{workload}: resident memory over time", \
                lambda theme, w=workload: memory_curves(results, w, theme)
    for workload in results.workloads:
        if any("ns_p50" in results.extra(workload, peer) for peer in results.peers):
            plans[f"latency-{workload}"] = f"{workload}: time of single calls", \
                lambda theme, w=workload: latency_curves(results, w, theme)
    for workload in results.workloads:
        if results.costs(workload):
            plans[f"cost-{workload}"] = f"{workload}: what one operation costs", \
                lambda theme, w=workload: cost_curves(results, w, theme)
    return {name: (title, {theme: draw(theme) for theme in THEMES}) for name, (title, draw) in plans.items()}
