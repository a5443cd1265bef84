"""The report: tables once, then as one HTML page that needs nothing else, and as Markdown for docs/benchmarks.md."""
import dataclasses
import pathlib

import jinja2

from suite import catalog, charts, stats
from suite.stats import METRICS, OURS

TEMPLATE = pathlib.Path(__file__).with_name("template.html")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
SIGNS = {"ahead": "ahead", "tie": "=", "behind": "behind", "failed": "failed", "alone": "no other"}


@dataclasses.dataclass(frozen=True)
class Text:
    """One field of a table: what is shown, what it is sorted by, a class for its colour, a word on it."""
    text: str
    sort: float | str = ""
    kind: str = ""
    hint: str = ""


@dataclasses.dataclass(frozen=True)
class Table:
    key: str
    title: str
    note: str
    head: list
    rows: list


def field(value, kind="", hint=""):
    if isinstance(value, Text):
        return value
    if isinstance(value, float):
        return Text(number(value), value, kind, hint)
    return Text(str(value), value, kind, hint)


def table(key, title, note, head, rows):
    return Table(key, title, note, head, [[field(value) for value in row] for row in rows])


def number(value):
    """Three digits that mean something."""
    if value is None or value != value:
        return "–"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"


def ratio_field(estimate, verdict):
    """Ours to the other's; a tie is shown as one."""
    if estimate is None:
        return Text(SIGNS.get(verdict, "–"), 0.0, verdict)
    hint = f"{number(estimate.low)} to {number(estimate.high)}, {estimate.count} rounds"
    return Text(("= " if verdict == "tie" else "") + number(estimate.value), estimate.value, verdict, hint)


def summary_table(results):
    rows = []
    for metric in METRICS.values():
        for group, count, mean, ahead, tie, behind in results.summary(metric.key):
            kind = "ahead" if mean < 1 - stats.TIE else "behind" if mean > 1 + stats.TIE else "tie"
            rows.append([metric.title, group, count, Text(number(mean), mean, kind), ahead, tie, behind])
    return table("summary", "The envelope", "Ours to the best peer of each workload, another one each time: geometric "
                 "mean; below 1 we need less than the best of all. Then how often we are ahead, tie, are behind.",
                 ["what", "group", "workloads", "ours / best", "ahead", "tie", "behind"], rows)


def envelopes_table(results):
    metrics = {metric: results.envelopes(metric) for metric in METRICS}
    rows = [[own] + [Text(number(mean), mean, hint=f"{count} workloads") if mean else Text("–", 0.0)
                     for mean, count in (envelopes.get(own, (None, 0)) for envelopes in metrics.values())]
            for own in results.allocators()]
    return table("envelopes", "The envelope of each",
                 "The same for each allocator: its figures to those of the best of all others, another one for each "
                 "workload, ours among them. Workloads that it does not finish do not count.",
                 ["allocator", *(metric.title for metric in METRICS.values())], rows)


def work_table(results):
    rows = [[row.workload, row.group, METRICS[row.metric].title, number(row.ours), row.best_peer, number(row.best),
             ratio_field(row.ratio, row.verdict)] for row in results.work_list()]
    return table("work", "The work list", "Where we fail, or need over 3 % more than the best peer, worst first.",
                 ["workload", "group", "what", "ours", "best peer", "its", "ours / best"], rows)


def group_tables(results):
    found = []
    for group, workloads in results.groups.items():
        rows = []
        for workload in workloads:
            row = [Text(workload, workload, hint=sentence(workload))]
            for metric in METRICS:
                at = results.standing(workload, metric)
                ours = "–" if at.ours is None else at.ours
                row += [ours, at.best_peer or "–", ratio_field(at.ratio, at.verdict)]
            rows.append(row)
        head = ["workload"] + [text for metric in METRICS.values()
                               for text in (f"{metric.title}, {metric.unit}", "best peer", "ours / best")]
        found.append(table(f"group-{group}", group, catalog.GROUPS.get(group, ""), head, rows))
    return found


def against_table(results, metric):
    rows = [[peer, *(Text(number(mean), mean, hint=f"{count} workloads") for _, mean, count in columns)]
            for peer, columns in results.against(metric).items()]
    return table(f"against-{metric}", f"{METRICS[metric].title} of each peer relative to ours",
                 "Geometric means over the workloads that both finish; above 1 the peer needs more than we do.",
                 ["peer", *results.groups, "all"], rows)


def full_table(results, metric):
    rows = []
    for workload in results.workloads:
        row = [Text(workload, workload, hint=sentence(workload))]
        for peer in results.peers:
            cell = results.cell(workload, peer)
            found = cell.estimate(metric.key) if cell and not cell.failure else None
            if cell and cell.failure:
                row.append(Text("failed", -1.0, "failed", cell.failure))
            elif found is None:
                row.append(Text("–", -1.0))
            else:
                mark = "*" if cell.disturbed * 2 > cell.runs else ""
                row.append(Text(number(found.value) + mark, found.value,
                                hint=f"{number(found.low)} to {number(found.high)}, {found.count} rounds"))
        rows.append(row)
    return table(f"all-{metric.key}", f"All: {metric.title}, {metric.unit}",
                 "Medians. An asterisk: more than half of the runs stayed disturbed by other processes.",
                 ["workload", *results.peers], rows)


def limit_table(results):
    rows = []
    for limit in results.limits():
        for workload in results.workloads:
            ratios = [results.ratio(workload, OURS, limit, metric) for metric in ("time", "memory")]
            if any(ratios):
                rows.append([workload, *(ratio_field(at, "tie" if at and at.is_tie else "") for at in ratios)])
    return table("limit", "The distance to the possible", "Ours to the allocator that does the least work that could "
                 "be correct: what is left to gain at most.", ["workload", "time", "peak memory"], rows)


def extra_tables(results):
    """What some workloads print about themselves: latencies, memory after a pause."""
    found = []
    for workload in results.workloads:
        per_peer = {peer: results.extra(workload, peer) for peer in results.peers}
        keys = list(dict.fromkeys(key for extra in per_peer.values() for key in extra
                                  if ("ns_" in key or key.startswith("resident")) and not stats.POINT.fullmatch(key)))
        if keys:
            rows = [[peer, *(extra.get(key, "–") for key in keys)] for peer, extra in per_peer.items() if extra]
            title = f"What {workload} prints"
            found.append(table(f"extra-{workload}", title, sentence(workload), ["peer", *keys], rows))
    return found


def cost_tables(results):
    """What an operation costs as something grows: a row for each point."""
    found = []
    for workload in results.workloads:
        rows = []
        for operation, points in results.costs(workload).items():
            for (x, unit), costs in points.items():
                best = min((costs[peer] for peer in results.rivals() if costs.get(peer)), default=None)
                ratio = costs[OURS] / best if best and OURS in costs else None
                verdict = "" if ratio is None else "behind" if ratio > 1 + stats.BEHIND else \
                    "ahead" if ratio < 1 - stats.BEHIND else "tie"
                rows.append([operation, Text(charts.quantity(x, unit), x), *(costs.get(peer, "–") for peer in results.peers),
                             Text(number(ratio), ratio or 0.0, verdict)])
        if rows:
            found.append(table(f"cost-{workload}", f"{workload}: ns per operation", sentence(workload),
                               ["operation", "at", *results.peers, "ours / best"], rows))
    return found


def instruction_table(results):
    counts = results.instructions()
    rows = [[workload, *(found.get(peer, "–") for peer in results.peers)] for workload, found in counts.items()]
    how = "valgrind, start of the program taken off" if any(
        row["kind"] == "callgrind" for row in results.rows) else "the processor"
    return table("instructions", "Instructions per call of malloc", f"Of the whole program, counted by {how}.",
                 ["workload", *results.peers], rows)


def failure_table(results):
    rows = [[workload, peer, reason] for workload, peer, reason in results.failures()]
    return table("failures", "What failed", "No run is dropped; what failed is not part of any mean.",
                 ["workload", "peer", "how"], rows)


def missing_table(results):
    rows = [[key.removeprefix("missing."), why] for key, why in results.header.items() if key.startswith("missing.")]
    return table("missing", "What could not be had", "Named, so that nothing is left out silently.", ["what", "why"],
                 rows)


def sentence(workload):
    return next((found.sentence for found in catalog.all_workloads() if found.name == workload), "")


def notes(results):
    found = [value for key, value in results.header.items() if key.startswith("note.")]
    rounds = max((len(cell.values["time"]) for cell in results.cells.values()), default=0)
    if rounds == 1:
        found.append("One round: there are no intervals, and a tie is only what is within 1 %.")
    elif rounds < 6:
        found.append(f"{rounds} rounds: an interval is the range of the rounds, and holds for less than 95 %.")
    missing = [key.partition(".")[2] for key in results.header if key.startswith("missing.")]
    if missing:
        found.append(f"Could not be had, for reasons named below: {', '.join(missing)}.")
    files = results.files()
    if files:
        found.append("Part of the peaks, memory mapped from files or shared, MiB, geometric means of the workloads that all "
                     f"finish: {', '.join(f'{peer} {number(value)}' for peer, value in files.items())}.")
    disturbed, runs = results.disturbed()
    if disturbed:
        found.append(f"{disturbed} of {runs} runs stayed disturbed by other processes.")
    return found


def versions(results):
    return [(key.partition(".")[2], value) for key, value in results.header.items() if key.startswith("peer.")]


def facts(results):
    """The header without what has a place of its own."""
    return [(key, value) for key, value in results.header.items()
            if not key.startswith(("peer.", "limit.", "missing.", "note."))]


def all_tables(results):
    """In the order of the report; those without rows are left out."""
    found = [summary_table(results), envelopes_table(results), work_table(results), *group_tables(results),
             *(against_table(results, metric) for metric in METRICS),
             *(full_table(results, metric) for metric in stats.COLUMNS),
             limit_table(results), instruction_table(results), *extra_tables(results),
             *cost_tables(results), failure_table(results),
             missing_table(results)]
    return {part.key: part for part in found if part.rows}


def html(results, pictures):
    loader = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = loader.from_string(TEMPLATE.read_text())
    return template.render(tables=all_tables(results), pictures=pictures, notes=notes(results),
                           versions=versions(results), facts=facts(results), groups=list(results.groups))


def markdown_table(part):
    def clean(text):
        return text.replace("|", "\\|")
    align = ["---"] + ["---:" if any(isinstance(row[i].sort, (int, float)) for row in part.rows) else "---"
                       for i in range(1, len(part.head))]
    lines = ["| " + " | ".join(part.head) + " |", "| " + " | ".join(align) + " |"]
    for row in part.rows:
        cells = [f"**{clean(at.text)}**" if at.kind in ("behind", "failed") else clean(at.text) for at in row]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def picture(name, title):
    return (f'<picture><source media="(prefers-color-scheme: dark)" srcset="benchmarks/{name}-dark.svg">'
            f'<img alt="{title}" src="benchmarks/{name}-light.svg"></picture>')


def markdown(results, pictures):
    """What stands between the marks in docs/benchmarks.md."""
    tables, parts = all_tables(results), []

    def add(key, level=3):
        if key in tables:
            part = tables[key]
            parts.extend(filter(None, [f"{'#' * level} {part.title}", part.note, markdown_table(part)]))

    def show(name):
        if name in pictures:
            parts.append(picture(name, pictures[name][0]))

    head = dict(facts(results))
    shown = ("date", "commit", "processor", "cores", "memory", "kernel", "huge pages", "compiler", "scale", "rounds")
    parts.append(", ".join(f"{key}: {head[key]}" for key in shown if head.get(key)))
    if head.get("command"):
        parts.append(f"Command: `{head['command']}`")
    parts.append("\n".join(f"- {text}" for text in notes(results)))
    parts.append(markdown_table(table("peers", "", "", ["peer", "version"], versions(results))))
    show("overview")
    add("summary")
    add("envelopes")
    for group in results.groups:
        add(f"group-{group}")
        for metric in ("time", "memory"):
            show(f"{group}-{metric}")
    for name in pictures:
        if name.startswith(("curve-", "latency-", "cost-")):
            show(name)
    for key in tables:
        if key not in ("summary", "envelopes", "work") and not key.startswith(("group-", "all-")):
            add(key)
    add("work")
    return "\n\n".join(filter(None, parts)) + "\n"


def write(results, folder):
    """The page and its pictures below `folder`. Returns the page's path and the pictures."""
    pictures = charts.all_charts(results)
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "report.html"
    page.write_text(html(results, pictures))
    return page, pictures


def update_docs(results, pictures, page):
    """Put tables between the marks of the page, which keeps the rest, and the pictures into the folder beside it."""
    text = page.read_text() if page.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{page} needs the lines {BEGIN} and {END}, once and in this order")
    before, rest = text.split(BEGIN)
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    for name, (_, drawn) in pictures.items():
        for theme, svg in drawn.items():
            (folder / f"{name}-{theme}.svg").write_text(svg)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(results, pictures)}\n{END}{rest.split(END)[1]}")
