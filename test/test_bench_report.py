"""What the benchmark says of its raw results: medians, ties, the envelope, tables and pictures.

If this fails, the report may name the wrong winner. The data are made up, so that the answers are known.
"""
import html.parser
import json
import re
import subprocess
import xml.etree.ElementTree

import pytest
from test_bench import BENCH, python  # noqa: F401  a fixture

from suite import measure, raw  # found by test_bench

# (workload, group): {peer: seconds of rounds 1 to 5}. Peak memory is 100 times that in KiB, the integral 1000 times.
NOISE = [1.0, 1.3, 0.8, 1.1, 0.9]
SYNTHETIC = {
    ("behind", "classic"): {"ours": [1.1] * 5, "glibc": [1.0] * 5, "other": [3.0] * 5, "limit": [0.1] * 5},
    ("ahead", "classic"): {"ours": [0.5] * 5, "glibc": [2.0] * 5, "other": [1.0] * 5, "limit": [0.1] * 5},
    ("near", "threads"): {"ours": [1.005] * 5, "glibc": [1.0] * 5, "other": [2.0] * 5},
    ("noisy", "threads"): {"ours": NOISE, "glibc": NOISE[::-1], "other": [9.0] * 5},
    ("paired", "threads"): {"ours": [x * 1.05 for x in NOISE], "glibc": NOISE, "other": [9.0] * 5},
    ("crash", "server"): {"ours": [1.0] * 5, "glibc": [2.0] * 5, "other": None},
    ("wrong", "server"): {"ours": [1.0] * 5, "glibc": [1.0] * 5, "other": [0.1] * 5},
    ("far", "server"): {"ours": [1.0] * 5, "glibc": [1.0] * 5, "other": [10.0] * 5},
    ("latency", "server"): {"ours": [1.0] * 5, "glibc": [1.0] * 5, "other": [1.0] * 5},
}


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """Raw results whose answer is known."""
    path = tmp_path_factory.mktemp("raw") / "raw.csv"
    writer = raw.Writer(path, {"command": "none", "limit.limit": "yes", "missing.nginx": "not installed: <nginx>",
                               "peer.ours": "1", "peer.glibc": "2", "note.0": "a note & more"})
    for (workload, group), by_peer in SYNTHETIC.items():
        for number in range(6):
            for position, (peer, values) in enumerate(by_peer.items()):
                keys = {"position": position, "workload": workload, "group": group, "peer": peer, "round": number}
                value = 50.0 if number == 0 else values[number - 1] if values else 1.0  # the warm-up round is off
                run = measure.Run(seconds=value, peak_kib=int(value * 1e5), file_kib=2048, kib_seconds=value * 1e3, check="c")
                if values is None:
                    run.fail("was killed by SIGSEGV")
                if (workload, peer) == ("wrong", "other"):
                    run.check = "d"
                if workload == "latency":
                    run.extra = "ns_p50=20 ns_p99=40 ns_max=5000 resident_kib_0s=9"
                    run.curve = "0:1024 500:2048 1000:512"
                if workload == "far":
                    costs = {"ours": (30, 60, 8), "glibc": (20, 90, 8), "other": (40, 70, 9), "limit": (1, 1, 1)}[peer]
                    run.extra = "ns_pair@1024MiB={1} ns_pair@64MiB={0} ns_two@9threads={2}".format(*costs)
                kind = "run" if number else "warm-up"
                if (workload, peer, number) == ("behind", "ours", 3):  # repeated: the disturbed attempt is not used
                    bad = measure.Run(seconds=77.0, peak_kib=1, check="c", disturbance=0.4, disturbed=1)
                    writer.row(bad, kind=kind, attempt=0, **keys)
                writer.row(run, kind=kind, attempt=1, **keys)
    writer.close()
    return path


def evaluate(python, path, code):
    """What a piece of Python says of the results in a file, by way of JSON."""
    start = f"import json, pathlib, sys\nsys.path.insert(0, {str(BENCH)!r})\nfrom suite import raw, report, stats\n" \
            f"results = stats.Results(*raw.read({str(path)!r}))\n"
    done = subprocess.run([python, "-c", start + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_ties_and_envelope(python, synthetic):
    rows = evaluate(python, synthetic, """print(json.dumps([[
        (row.workload, row.best_peer, row.ratio.value, row.verdict) for row in results.envelope(metric)]
        for metric in stats.METRICS]))""")
    expected = {"behind": ("glibc", 1.1, "behind"), "ahead": ("other", 0.5, "ahead"), "near": ("glibc", 1.005, "tie"),
                "noisy": ("glibc", 1.0, "tie"), "paired": ("glibc", 1.05, "behind"), "crash": ("glibc", 0.5, "ahead"),
                "wrong": ("glibc", 1.0, "tie"), "far": ("glibc", 1.0, "tie"), "latency": ("glibc", 1.0, "tie")}
    for of_metric in rows:
        assert {name: (peer, verdict) for name, peer, _, verdict in of_metric} == {
            name: (peer, verdict) for name, (peer, _, verdict) in expected.items()}
        for name, _, ratio, _ in of_metric:
            assert ratio == pytest.approx(expected[name][1], abs=1e-4), name


def test_means_and_work_list(python, synthetic):
    summary, work, against, failures = evaluate(python, synthetic, """print(json.dumps([
        results.summary("time"), [(row.workload, row.metric) for row in results.work_list(["time"])],
        results.against("time"), results.failures()]))""")
    assert ["classic", 2, pytest.approx((1.1 * 0.5) ** 0.5), 1, 0, 1] in summary
    assert [row[0] for row in summary] == ["classic", "threads", "server", "all"]
    assert work == [["behind", "time"], ["paired", "time"]]
    assert against["glibc"][0] == ["classic", pytest.approx((1 / 1.1 * 4) ** 0.5), 2]
    assert sorted(failures) == [["crash", "other", "was killed by SIGSEGV (6 times)"],
                                ["wrong", "other", "wrong result: check d instead of c"]]


def test_envelope_of_each(python, synthetic):
    """Each allocator beside the best of the others, ours among them, where it works."""
    found, rows = evaluate(python, synthetic, """print(json.dumps([
        results.envelopes("time"), [[cell.text for cell in row] for row in report.envelopes_table(results).rows]]))""")
    assert found == {"ours": [pytest.approx((1.1 * 0.5 * 1.005 * 1.05 * 0.5) ** (1 / 9)), 9],
                     "glibc": [pytest.approx((1 / 1.1 * 4 / 1.005 / 1.05 * 2) ** (1 / 9)), 9],
                     "other": [pytest.approx((3 * 2 * 2 * 9 * 9 * 10) ** (1 / 7)), 7]}
    assert [row[0] for row in rows] == ["ours", "glibc", "other"]
    assert rows[2][1:] == [f"{found['other'][0]:.2f}"] * 3


def test_costs(python, synthetic):
    """As something grows: the points are in order, and ours stands beside the best of each point."""
    costs, cells, keys = evaluate(python, synthetic, """tables = report.all_tables(results)
print(json.dumps([[(operation, [(x, unit, found["ours"]) for (x, unit), found in points.items()])
                   for operation, points in results.costs("far").items()],
                  [[(cell.text, cell.kind) for cell in (*row[:2], *row[-1:])] for row in tables["cost-far"].rows],
                  list(tables)]))""")
    assert costs == [["pair", [[64, "MiB", 30.0], [1024, "MiB", 60.0]]], ["two", [[9, "threads", 8.0]]]]
    assert cells == [[["pair", ""], ["64 MiB", ""], ["1.50", "behind"]], [["pair", ""], ["1 GiB", ""], ["0.857", "ahead"]],
                     [["two", ""], ["9", ""], ["1.00", "tie"]]]
    assert "extra-latency" in keys and "extra-far" not in keys  # points have a table of their own
    assert [key for key in keys if key.startswith("cost-")] == ["cost-far"]


class Balance(html.parser.HTMLParser):
    """Every element that opens is closed, in order."""
    VOID = {"meta", "br", "img", "link", "hr", "source"}

    def __init__(self):
        super().__init__()
        self.open, self.outside = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)
        self.outside += [value for key, value in attrs if key in ("src", "href") and value.startswith(("http", "//"))]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.slow
def test_report(python, synthetic, tmp_path):
    done = subprocess.run([python, BENCH / "run.py", "--render", synthetic, "--output", tmp_path], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "report.html") in done.stdout and "The envelope" in done.stdout
    page = (tmp_path / "report.html").read_text()
    parser = Balance()
    parser.feed(page)
    assert parser.open == [] and parser.outside == []
    for text in (*(name for name, _ in SYNTHETIC), "killed by SIGSEGV", "installed: &lt;nginx&gt;", "note &amp; more"):
        assert text in page, text
    pictures = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(pictures) == 2 * (1 + 3 * 2 + 1 + 1 + 1)  # overview, groups, a curve, latencies, costs: light and dark
    assert len(re.findall(r'role="img" aria-label="[^"]+"><svg', page)) == len(pictures)
    assert "other 10×" in page and "other failed" in page  # beside the chart: beyond its edge, no mark at all
    assert "Could not be had, for reasons named below: nginx." in page
    assert "of the workloads that all finish: ours 2.00, glibc 2.00" in page and "All: memory mapped from files, MiB" in page
    for picture in pictures:
        assert xml.etree.ElementTree.fromstring(picture).tag.endswith("svg")


@pytest.mark.slow
def test_documents(python, synthetic, tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text("before\n<!-- tables: begin -->\nstale words\n<!-- tables: end -->\nafter\n")
    code = f"""page, pictures = report.write(results, pathlib.Path({str(tmp_path)!r}))
for _ in range(2):
    report.update_docs(results, pictures, pathlib.Path({str(page)!r}))
print(json.dumps(len(pictures)))"""
    count = evaluate(python, synthetic, code)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "stale words" not in text
    assert all(name in text for name, _ in SYNTHETIC)
    linked = set(re.findall(r'(?:src|srcset)="(benchmarks/[^"]+)"', text))
    assert linked == {f"benchmarks/{path.name}" for path in (tmp_path / "benchmarks").iterdir()}
    assert len(linked) == 2 * count
    page.write_text("no marks")
    code = code.replace("print(", "#") + "\n"
    with pytest.raises(AssertionError, match="needs the lines"):
        evaluate(python, synthetic, code)


def test_labels_are_pulled_apart(python, synthetic):
    """Of peers that are alike: each name can be read."""
    boxes = evaluate(python, synthetic, """from matplotlib import pyplot
from suite import charts
figure, axes = pyplot.subplots()
labels = [axes.annotate(name, (0.5, 0.5 + at), xytext=(5, 0), textcoords="offset points", va="center")
          for name, at in (("one", 0), ("two", 0), ("three", 0.001), ("four", 0.02))]
charts.pull_apart(figure, labels)
print(json.dumps([label.get_window_extent().extents.tolist() for label in labels]))""")
    heights = sorted((bottom, top) for _, bottom, _, top in boxes)
    assert all(top <= bottom for (_, top), (bottom, _) in zip(heights, heights[1:]))
