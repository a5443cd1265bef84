"""From raw rows to what can be said: medians with intervals, ties, the envelope, the work list.

The rules are in bench/README.md, Method. A ratio is always ours to the other's for the envelope (above 1: we are
behind), and the other's to ours in charts (above 1: it needs more than we do).
"""
import dataclasses
import functools
import math
import re

import numpy

from suite import raw

OURS = "ours"
TIE, BEHIND = 0.01, 0.03
POINT = re.compile(r"ns_(\w+)@(\d+)([A-Za-z]+)")  # key of one point of a curve of costs: ns_OPERATION@XUNIT
SAMPLES = 2000


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    title: str
    column: str
    unit: str
    scale: float  # from the column's unit to this one


METRICS = {metric.key: metric for metric in (
    Metric("time", "time", "seconds", "s", 1.0),
    Metric("memory", "peak memory", "peak_kib", "MiB", 1 / 1024),
    Metric("average", "memory over time", "kib_seconds", "MiB s", 1 / 1024),
)}
# Told beside the peak, not compared: how much of libc one fault maps is the kernel's choice.
FILES = Metric("files", "memory mapped from files", "file_kib", "MiB", 1 / 1024)
COLUMNS = (*METRICS.values(), FILES)


@dataclasses.dataclass(frozen=True)
class Estimate:
    value: float
    low: float
    high: float
    count: int

    @property
    def is_tie(self):
        """As a ratio: is it a difference at all?"""
        return self.low <= 1 <= self.high or abs(self.value - 1) <= TIE + 1e-9


@functools.cache
def draws(count, seed=1):
    return numpy.random.default_rng(seed).integers(0, count, (SAMPLES, count))


def estimate(values):
    """The median with its 95 % interval by bootstrap, always with the same draws. One value has no interval."""
    values = numpy.asarray(values, dtype=float)
    medians = numpy.median(values[draws(len(values))], axis=1)
    low, high = numpy.percentile(medians, [2.5, 97.5])
    return Estimate(float(numpy.median(values)), float(low), float(high), len(values))


def geometric_mean(values):
    values = [value for value in values if value > 0]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


@dataclasses.dataclass
class Cell:
    """All runs of one workload and one peer: {metric: {round: value}}, and what went wrong."""
    values: dict
    failure: str = ""
    runs: int = 0
    disturbed: int = 0
    rows: list = dataclasses.field(default_factory=list)

    def estimate(self, metric):
        values = list(self.values[metric].values())
        return estimate(values) if values else None

    def median(self, metric):
        found = self.estimate(metric)
        return found.value if found and not self.failure else None


@dataclasses.dataclass(frozen=True)
class Standing:
    """Where an allocator, mostly ours, stands on one workload in one metric. ratio is its to that of the best other."""
    workload: str
    group: str
    metric: str
    ours: float | None
    best_peer: str
    best: float | None
    ratio: Estimate | None
    verdict: str  # ahead, tie, behind, failed, alone (no other works)


def worth(row):
    return row["status"] != "ok", row["disturbance"]


def counted(rows):
    """Of several attempts the least disturbed; the warm-up round only if there is no other."""
    runs = [row for row in rows if row["kind"] == raw.COUNTED]
    chosen = {}
    for row in runs or [row for row in rows if row["kind"] == raw.WARM_UP]:
        key = row["workload"], row["peer"], row["round"]
        before = chosen.get(key)
        if before is None or worth(row) < worth(before):
            chosen[key] = row
    return list(chosen.values())


class Results:
    """Everything the charts and the report ask."""

    def __init__(self, header, rows):
        self.header, self.rows = header, rows
        self.peers = list(dict.fromkeys(row["peer"] for row in rows))
        self.peers.sort(key=lambda name: (name != OURS, name in self.limits()))
        self.groups = {}
        for row in rows:
            names = self.groups.setdefault(row["group"], [])
            if row["workload"] not in names:
                names.append(row["workload"])
        self.workloads = {name: group for group, names in self.groups.items() for name in names}
        self.cells = {}
        for row in counted(rows):
            cell = self.cells.setdefault((row["workload"], row["peer"]), Cell({metric.key: {} for metric in COLUMNS}))
            cell.runs += 1
            cell.disturbed += row["disturbed"] or 0
            cell.rows.append(row)
            for metric in COLUMNS:
                if row["status"] == "ok" and row.get(metric.column):  # older files have no file_kib
                    cell.values[metric.key][row["round"]] = row[metric.column] * metric.scale
        self._failures()
        self._ratios = {}

    def limits(self):
        return [key.partition(".")[2] for key in self.header if key.startswith("limit.")]

    def rivals(self):
        """The peers of the envelope: neither ours (or a build of ours) nor the limit."""
        return [name for name in self.peers
                if name != OURS and not name.startswith(f"{OURS}-") and name not in self.limits()]

    def _failures(self):
        """A cell with a failed run, in whatever round, or with another check than the others has failed."""
        failed = {}
        for row in self.rows:
            if row["status"] != "ok" and row["kind"] != raw.CALLGRIND:
                failed.setdefault((row["workload"], row["peer"]), []).append(row["reason"])
        for key, reasons in failed.items():
            cell = self.cells.setdefault(key, Cell({metric.key: {} for metric in COLUMNS}))
            cell.failure = reasons[0] + (f" ({len(reasons)} times)" if len(reasons) > 1 else "")
        for workload in self.workloads:
            checks = {}
            for peer in self.peers:
                cell = self.cell(workload, peer)
                for check in {row["check"] for row in cell.rows if row["status"] == "ok"} if cell else ():
                    checks.setdefault(check, []).append(peer)
            if len(checks) > 1:
                right = max(checks, key=lambda check: (len(checks[check]), "glibc" in checks[check]))
                for check, peers in checks.items():
                    for peer in peers if check != right else ():
                        cell = self.cell(workload, peer)
                        cell.failure = cell.failure or f"wrong result: check {check} instead of {right}"

    def cell(self, workload, peer):
        return self.cells.get((workload, peer))

    def works(self, workload, peer):
        cell = self.cell(workload, peer)
        return bool(cell and not cell.failure and cell.values["time"])

    def ratio(self, workload, above, below, metric):
        """The median of the ratios of the rounds that both have; None if there is none."""
        key = workload, above, below, metric
        if key not in self._ratios:
            found = None
            if self.works(workload, above) and self.works(workload, below):
                tops, bottoms = (self.cell(workload, peer).values[metric] for peer in (above, below))
                pairs = [tops[number] / bottoms[number] for number in sorted(tops) if number in bottoms]
                found = estimate(pairs) if pairs else None
            self._ratios[key] = found
        return self._ratios[key]

    def allocators(self):
        return [OURS, *self.rivals()]

    def standing(self, workload, metric, own=OURS):
        group = self.workloads[workload]
        working = [peer for peer in self.allocators() if peer != own and self.works(workload, peer)]
        medians = {peer: self.cell(workload, peer).median(metric) for peer in working}
        medians = {peer: value for peer, value in medians.items() if value is not None}
        best = min(medians, key=medians.get, default="")
        cell = self.cell(workload, own)
        ours = cell.median(metric) if cell else None
        ratio = self.ratio(workload, own, best, metric) if best else None
        if cell and cell.failure:
            verdict = "failed"
        elif ratio is None:
            verdict = "alone"
        else:
            verdict = "tie" if ratio.is_tie else "ahead" if ratio.value < 1 else "behind"
        return Standing(workload, group, metric, ours, best, medians.get(best), ratio, verdict)

    @functools.cache
    def envelope(self, metric, own=OURS):
        return [self.standing(workload, metric, own) for workload in self.workloads]

    def envelopes(self, metric):
        """{allocator: (geometric mean of its ratios to the best other, workloads)}"""
        found = {}
        for own in self.allocators():
            ratios = [row.ratio.value for row in self.envelope(metric, own) if row.ratio]
            if ratios:
                found[own] = geometric_mean(ratios), len(ratios)
        return found

    def summary(self, metric):
        """[(group or "all", workloads compared, geometric mean of ours to best, ahead, tie, behind)]"""
        lines = []
        for group in [*self.groups, "all"]:
            rows = [row for row in self.envelope(metric) if row.ratio and group in (row.group, "all")]
            if rows:
                count = [sum(row.verdict == verdict for row in rows) for verdict in ("ahead", "tie", "behind")]
                lines.append((group, len(rows), geometric_mean([row.ratio.value for row in rows]), *count))
        return lines

    def work_list(self, metrics=tuple(METRICS)):
        """Where we failed, or are more than 3 % behind the best: worst first."""
        rows = [row for metric in metrics for row in self.envelope(metric)
                if row.verdict == "failed" and metric == "time"
                or row.verdict == "behind" and row.ratio.value > 1 + BEHIND]
        return sorted(rows, key=lambda row: -row.ratio.value if row.ratio else -math.inf)

    def against(self, metric):
        """{peer: [(group or "all", geometric mean of the peer's to ours, workloads)]}"""
        table = {}
        for peer in self.peers:
            if peer == OURS:
                continue
            for group in [*self.groups, "all"]:
                ratios = [self.ratio(name, peer, OURS, metric) for name, of in self.workloads.items()
                          if group in (of, "all")]
                ratios = [ratio.value for ratio in ratios if ratio]
                table.setdefault(peer, []).append((group, geometric_mean(ratios), len(ratios)))
        return table

    def failures(self):
        return [(workload, peer, cell.failure) for (workload, peer), cell in self.cells.items() if cell.failure]

    def files(self):
        """{peer: geometric mean over the workloads that all finish of the MiB mapped from files or shared}"""
        found = {}
        for workload in self.workloads:
            cells = [self.cell(workload, peer) for peer in self.peers]
            medians = [cell.median(FILES.key) if cell else None for cell in cells]
            if all(medians):
                for peer, value in zip(self.peers, medians):
                    found.setdefault(peer, []).append(value)
        return {peer: geometric_mean(values) for peer, values in found.items()}

    def disturbed(self):
        return sum(cell.disturbed for cell in self.cells.values()), sum(cell.runs for cell in self.cells.values())

    def extra(self, workload, peer):
        """{key: median} of the numbers a workload printed beside check, ops and seconds."""
        found = {}
        for row in self.cell(workload, peer).rows if self.works(workload, peer) else ():
            for pair in (row["extra"] or "").split():
                key, _, value = pair.partition("=")
                try:
                    found.setdefault(key, []).append(float(value))
                except ValueError:
                    continue
        return {key: float(numpy.median(values)) for key, values in found.items()}

    def curve(self, workload, peer):
        """[(seconds, MiB)] of the run whose memory over time is the median one; () if there is none."""
        if not self.works(workload, peer):
            return ()
        rows = sorted((row for row in self.cell(workload, peer).rows if row["curve"] and row["status"] == "ok"),
                      key=lambda row: row["kib_seconds"] or 0)
        if not rows:
            return ()
        points = (point.split(":") for point in rows[len(rows) // 2]["curve"].split())
        return [(int(ms) / 1000, int(kib) / 1024) for ms, kib in points]

    def costs(self, workload):
        """{operation: {(x, unit): {peer: median ns}}} of a workload that prints what an operation costs as x grows."""
        found = {}
        for peer in self.peers:
            for key, value in self.extra(workload, peer).items():
                if point := POINT.fullmatch(key):
                    at = int(point[2]), point[3]
                    found.setdefault(point[1], {}).setdefault(at, {})[peer] = value
        return {operation: dict(sorted(points.items())) for operation, points in found.items()}

    def instructions(self):
        """{workload: {peer: instructions per operation}}: counted by hardware, else by valgrind without start-up."""
        table = {}
        for row in self.rows:
            if row["kind"] == raw.CALLGRIND and row["instructions"] and row["ops"]:
                table.setdefault(row["workload"], {})[row["peer"]] = row["instructions"] / row["ops"]
        for (workload, peer), cell in self.cells.items():
            found = [row["instructions"] / row["ops"] for row in cell.rows
                     if row["status"] == "ok" and row["instructions"] and row["ops"]]
            if found:
                table.setdefault(workload, {})[peer] = float(numpy.median(found))
        return table
