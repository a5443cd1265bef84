#!/usr/bin/env python3
"""Writes packaging/grafana/mimalloc.json, a Grafana dashboard of the metrics that mi_metrics tells.

Usage: dashboard.py

`metrics` reads names, kinds, units and descriptions from the tables in src/api/stats_metrics.c; PANELS says which of them
are drawn together, and each must be drawn somewhere. A counter is drawn as its rate. test/interop/test_metrics.py fails if
the file that is checked in is not what this script writes, or names a metric that the library does not tell.
"""
import collections
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "api" / "stats_metrics.c"
DASHBOARD = ROOT / "packaging" / "grafana" / "mimalloc.json"

ROW = re.compile(r'MI_METRICS_ROW\(\s*([\w.]+),\s*(GAUGE|COUNTER),\s*(NUMBER|BYTES|MS),\s*"(\w+)",\s*"([^"]+)"\)')
SUFFIX = {"NUMBER": "", "BYTES": "_bytes", "MS": "_seconds"}
PROCESS = '{job=~"$job", instance=~"$instance"}'

# name: with prefix, unit and `_total`; word: the name alone, for a legend; by_size: a sample for each size of blocks.
Metric = collections.namedtuple("Metric", "name word kind unit help by_size")

# Title, and what is drawn: names as in the tables, or (legend, expression with names in braces).
PANELS = [
    ("Memory of the process", ["process_resident", "committed", "touched", "binned", "huge"]),
    ("Committed, but in no block", [("not in a block", "{committed} - {binned} - {huge}"),
                                    ("free blocks in pages", "{touched} - {binned}"), "metadata"]),
    ("What is left of the limit", ["room"]),
    ("Address space and peaks", ["reserved", "committed_peak", "process_resident_peak", "huge_peak"]),
    ("Memory given back, by second", ["purged", "reset"]),
    ("Bytes by size of block, the ten largest", ["class"]),
    ("Blocks by size, the ten most", ["class_blocks"]),
    ("Pages by size of block, the ten most", ["class_pages"]),
    ("Blocks allocated by size, by second, the ten most", ["class_blocks_allocated"]),
    ("Bytes allocated by size, by second, the ten most", ["class_allocated"]),
    ("Pages", ["pages", "pages_abandoned"]),
    ("Pages that are made or change hands, by second",
     ["pages_made", "pages_pooled", "pages_taken_on_alloc", "pages_taken_on_free"]),
    ("Calls of the system, by second", ["purge_calls", "reset_calls", "commit_calls", "mmap_calls"]),
    ("Blocks with a page of their own, by second", ["huge_blocks_made", "guarded_blocks_made"]),
    ("Bytes of blocks with a page of their own, by second", ["huge_allocated"]),
    ("Threads and heaps", ["threads", "heaps", "theaps"]),
    ("What is made, by second", ["threads_started", "heaps_made", "arenas_made", "arena_rollbacks"]),
    ("Processors in use", ["process_cpu_user", "process_cpu_system"]),
    ("Page faults that read from a disk, by second", ["process_page_faults"]),
]


def metrics():
    """All metrics of the tables, by the name there."""
    found = {}
    text = SOURCE.read_text()
    for figure, kind, unit, word, description in ROW.findall(text):
        total = "_total" if kind == "COUNTER" else ""
        found[word] = Metric(f"mimalloc_{word}{SUFFIX[unit]}{total}", word, kind, unit, description, figure.endswith("_bins"))
    assert len(found) == text.count("MI_METRICS_ROW(") - 1, "a row of src/api/stats_metrics.c was not understood"
    return found


def expression(metric):
    series = metric.name + PROCESS
    if metric.kind == "COUNTER":
        series = f"rate({series}[$__rate_interval])"
    return f"topk(10, {series})" if metric.by_size else series


def target(number, drawn, known):
    """A line of a panel, and the metrics it is made of."""
    if isinstance(drawn, str):
        metric = known[drawn]
        used, formula = [metric], expression(metric)
        legend = "{{size}} bytes" if metric.by_size else metric.word.replace("_", " ")
    else:
        legend, formula = drawn
        used = [known[word] for word in re.findall(r"{(\w+)}", formula)]
        formula = re.sub(r"{(\w+)}", lambda match: expression(known[match[1]]), formula)
    line = {"datasource": {"type": "prometheus", "uid": "${datasource}"}, "expr": formula, "legendFormat":
            "{{instance}} " + legend, "refId": chr(ord("A") + number), "editorMode": "code", "range": True}
    return line, used


def panel(number, title, drawn, known):
    lines = [target(i, one, known) for i, one in enumerate(drawn)]
    used = [metric for _, metrics_of_line in lines for metric in metrics_of_line]
    units = {(metric.unit, metric.kind) for metric in used}
    assert len(units) == 1, f"{title}: metrics of several kinds or units on one axis"
    unit = {("BYTES", "GAUGE"): "bytes", ("BYTES", "COUNTER"): "binBps", ("NUMBER", "GAUGE"): "short",
            ("NUMBER", "COUNTER"): "cps", ("MS", "COUNTER"): "none"}[units.pop()]
    described = {metric.word: metric.help for metric in used}
    return {"id": number + 1, "type": "timeseries", "title": title,
            "description": "\n".join(f"{word.replace('_', ' ')}: {text}" for word, text in described.items()),
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"h": 8, "w": 12, "x": number % 2 * 12, "y": number // 2 * 8},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 8, "showPoints": "never"}},
                            "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}},
            "targets": [line for line, _ in lines]}, described


def variable(name, query):
    return {"name": name, "type": "query", "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "definition": query, "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": True,
            "includeAll": True, "current": {"text": "All", "value": "$__all"}}


def dashboard():
    known = metrics()
    made = [panel(number, title, drawn, known) for number, (title, drawn) in enumerate(PANELS)]
    left = set(known) - {word for _, words in made for word in words}
    assert not left, f"in no panel: {', '.join(sorted(left))}"
    any_metric = known["committed"].name
    return {"title": "Memory of programs with mimalloc", "uid": "mimalloc", "tags": ["malloc", "memory"],
            "description": "Figures that the allocator of a program tells (mi_metrics)",
            "schemaVersion": 39, "version": 1, "editable": True, "graphTooltip": 1, "refresh": "30s",
            "time": {"from": "now-3h", "to": "now"}, "timezone": "browser", "annotations": {"list": []}, "links": [],
            "templating": {"list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "current": {}},
                variable("job", f"label_values({any_metric}, job)"),
                variable("instance", f'label_values({any_metric}{{job=~"$job"}}, instance)')]},
            "panels": [one for one, _ in made]}


def text():
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    DASHBOARD.parent.mkdir(exist_ok=True)
    DASHBOARD.write_text(text())
