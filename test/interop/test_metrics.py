"""Metrics as text for Prometheus (mi_metrics), read by Prometheus's own parser for Python; the server of demo/metrics.c; the
dashboard for Grafana. If this fails, who watches programs with a monitoring system sees nothing, or something else."""
import contextlib
import ctypes
import http.client
import json
import re
import shlex
import socket
import subprocess
import sys
import threading
import time

import pytest

import conftest
from conftest import environment, run

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import dashboard  # noqa: E402  (the path comes first)

PLAIN, OPEN = 0, 1  # mi_metrics_format_t
SOURCE = conftest.ROOT / "demo" / "metrics.c"
GUIDE = (conftest.ROOT / "docs" / "guide.md").read_text()
COMMAND = re.search(r"^//   (cc .*)$", SOURCE.read_text(), re.M)[1]
MEMORY_LIMIT = 1010  # mi_option_memory_limit
ROOM = "mimalloc_room_bytes"  # where there is a limit: test_budget.py
KNOWN = {metric.name: metric for metric in dashboard.metrics().values()}


def families(text, form=PLAIN):
    """What the parser finds: {name of a sample: {value of label size: value}}, and the types by name of a sample."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser" if form == OPEN else "prometheus_client.parser")
    samples, types = {}, {}
    for family in parser.text_string_to_metric_families(text):
        assert family.documentation and family.samples or "class" in family.name
        for sample in family.samples:
            samples.setdefault(sample.name, {})[sample.labels.get("size")] = sample.value
            types[sample.name] = family.type
    return samples, types


@pytest.fixture(scope="module")
def mi(library):
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    loaded = ctypes.CDLL(str(library))
    for name, result, arguments in [
            ("mi_metrics", size, [ctypes.c_int, pointer, size]), ("mi_stats_get_json", pointer, [size, pointer]),
            ("mi_malloc", pointer, [size]), ("mi_free", None, [pointer]), ("mi_usable_size", size, [pointer])]:
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def told(mi, form=PLAIN):
    buffer = ctypes.create_string_buffer(32 << 10)
    length = mi.mi_metrics(form, buffer, len(buffer))
    assert length == len(buffer.value)
    return buffer.value.decode("ascii")


def statistics(mi):
    buffer = ctypes.create_string_buffer(32 << 10)  # not a block: it would be counted
    assert mi.mi_stats_get_json(len(buffer), buffer)
    return json.loads(buffer.value)


def test_both_formats_say_the_same(mi):
    block = mi.mi_malloc(100)  # so that there is a size
    texts = {form: told(mi, form) for form in (PLAIN, OPEN)}
    found = {form: families(text, form) for form, text in texts.items()}
    for form, (samples, types) in found.items():
        assert {*samples, ROOM} == {*KNOWN, "mimalloc_build_info"}
        for name, metric in KNOWN.items():
            if name == ROOM and name not in samples:
                continue
            assert types[name] == metric.kind.lower()
            assert metric.by_size == (None not in samples[name])
    (plain, _), (open_metrics, _) = found[PLAIN], found[OPEN]
    moving = {name for name in KNOWN if name.startswith("mimalloc_process_")}
    assert {n: v for n, v in plain.items() if n not in moving} == {n: v for n, v in open_metrics.items() if n not in moving}
    assert texts[OPEN].endswith("# EOF\n") and "# EOF" not in texts[PLAIN]
    assert "# TYPE mimalloc_purged_bytes_total counter" in texts[PLAIN]
    assert "# TYPE mimalloc_purged_bytes counter\n# UNIT mimalloc_purged_bytes bytes" in texts[OPEN]
    mi.mi_free(block)


def test_figures_are_those_of_the_statistics(mi):
    """One source of figures: nothing else uses the library in this process, which has a malloc of its own."""
    blocks = [mi.mi_malloc(size) for size in [64] * 5000 + [3000] * 700 + [3 << 20] * 3]
    huge = 3 * mi.mi_usable_size(blocks[-1])
    json_text, (samples, _) = statistics(mi), families(told(mi))
    one = {name: values[None] for name, values in samples.items() if None in values}
    for name, key, part in [("committed_bytes", "committed", "current"), ("committed_peak_bytes", "committed", "peak"),
                            ("reserved_bytes", "reserved", "current"), ("binned_bytes", "malloc_normal", "current"),
                            ("huge_bytes", "malloc_huge", "current"), ("huge_allocated_bytes_total", "malloc_huge", "total"),
                            ("touched_bytes", "page_committed", "current"), ("pages", "pages", "current"),
                            ("pages_made_total", "pages", "total"), ("threads", "threads", "current"),
                            ("heaps", "heaps", "current"), ("theaps", "theaps", "current")]:
        assert one[f"mimalloc_{name}"] == json_text[key][part], name
    for name in ("purge_calls", "reset_calls", "commit_calls", "mmap_calls"):
        assert one[f"mimalloc_{name}_total"] == json_text[name], name
    # Of the bins with pages, each: blocks, their bytes, and pages.
    assert samples["mimalloc_class_blocks"]["huge"] == 3 and samples["mimalloc_class_bytes"]["huge"] == huge
    for key, metric in [("malloc_bins", "mimalloc_class_blocks"), ("page_bins", "mimalloc_class_pages")]:
        expected = {str(row["block_size"]): row["current"] for row, pages in zip(json_text[key][:-1], json_text["page_bins"])
                    if pages["current"]}
        assert expected == {size: value for size, value in samples[metric].items() if size != "huge"}
    # What was ever allocated only grows, here by the blocks that are still in use.
    allocated, sizes = samples["mimalloc_class_blocks_allocated_total"], samples["mimalloc_class_allocated_bytes_total"]
    assert allocated == {str(row["block_size"]): row["total"] for row in json_text["malloc_bins"][:-1] if row["total"]} | {
        "huge": json_text["malloc_bins"][-1]["total"]}
    assert allocated["64"] >= 5000 and sizes["64"] == 64 * allocated["64"] and sizes["huge"] == json_text["malloc_huge"]["total"]
    assert samples["mimalloc_class_blocks"]["64"] >= 5000
    assert samples["mimalloc_class_bytes"]["64"] == 64 * samples["mimalloc_class_blocks"]["64"]
    for block in blocks:
        mi.mi_free(block)
    after = families(told(mi))[0]
    assert after["mimalloc_class_blocks"].get("64", 0) < 5000
    assert all(after["mimalloc_class_blocks_allocated_total"][size] >= count for size, count in allocated.items())


def test_process_figures_are_true(mi):
    samples, _ = families(told(mi))
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * 4096
    assert abs(samples["mimalloc_process_resident_bytes"][None] - resident) < 4 << 20
    user = samples["mimalloc_process_cpu_user_seconds_total"][None]
    assert 0 < user < 1000 and user != int(user)


# -- The server --

@pytest.fixture(scope="module")
def server(tmp_path_factory, library):
    """Built by the command that the file says, but against the library that is tested."""
    command = shlex.split(COMMAND)
    assert command[-2:] == ["-o", "metrics"] and "-Lbuild/release" in command
    program = tmp_path_factory.mktemp("metrics") / "metrics"
    command = [f"-L{library.parent}" if part == "-Lbuild/release" else part for part in command[:-1]]
    run(*command, program, f"-Wl,-rpath,{library.parent}", "-Wall", "-Wextra", "-Werror", cwd=conftest.ROOT)
    process = subprocess.Popen([program, "0"], stdout=subprocess.PIPE, env=environment(), text=True)
    yield int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/metrics\n", process.stdout.readline())[1])
    assert process.poll() is None, "the program ended"
    process.kill()
    process.wait()


def ask(port, method="GET", path="/metrics", timeout=60, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.getheader("Content-Length") and answer.getheader("Connection") == "close"
    connection.close()
    return answer.status, answer.getheader("Content-Type"), text


def test_server_answers_a_scraper(server):
    # What Prometheus 2.45 sends, and what an older one does.
    wishes = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5"
    status, kind, text = ask(server, Accept=wishes)
    assert (status, kind) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert {*families(text, OPEN)[0], ROOM} == {*KNOWN, "mimalloc_build_info"}
    status, kind, text = ask(server, Accept="text/plain;version=0.0.4;q=1,*/*;q=0.1")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    samples, _ = families(text)
    assert samples["mimalloc_class_blocks"] and samples["mimalloc_binned_bytes"][None] > 0
    assert samples["mimalloc_threads"][None] == 1  # the thread that serves has never allocated


def test_server_refuses_the_rest(server):
    assert ask(server, path="/")[0] == 404 and ask(server, path="/metricsx")[0] == 404
    assert ask(server, method="POST")[0] == 405
    assert ask(server, path="/metrics?collect=all")[0] == 200
    status, _, text = ask(server, method="HEAD")
    assert (status, text) == (200, "")
    with socket.create_connection(("127.0.0.1", server), timeout=60) as silent:  # says nothing: not for ever
        assert silent.recv(100).startswith(b"HTTP/1.1 400 ")
    with socket.create_connection(("127.0.0.1", server), timeout=60) as long:
        long.sendall(b"GET /metrics HTTP/1.1\r\nX: ".ljust((8 << 10) - 1, b"x"))  # all that it reads
        assert long.recv(100).startswith(b"HTTP/1.1 400 ")
    assert ask(server)[0] == 200


def test_server_is_not_held_up_by_who_is_slow(server):
    """One byte now and then is never silence, and never a request: others are served nevertheless."""
    with socket.create_connection(("127.0.0.1", server), timeout=60) as slow:
        is_over = threading.Event()

        def trickle():
            with contextlib.suppress(OSError):  # closed by the server
                while not is_over.wait(0.2):
                    slow.sendall(b"x")
        sender = threading.Thread(target=trickle)
        sender.start()
        try:
            start = time.monotonic()
            assert ask(server, timeout=20)[0] == 200
            assert time.monotonic() - start < 10
        finally:
            is_over.set()
            sender.join()


def test_guide_names_all_metrics_and_the_command():
    assert COMMAND in GUIDE
    missing = [name for name in [*KNOWN, "mimalloc_build_info"] if f"`{name}`" not in GUIDE and f"`{name}{{" not in GUIDE]
    assert not missing, f"docs/guide.md does not name {', '.join(missing)}"


# -- The dashboard --

def test_dashboard_is_what_the_script_writes():
    assert dashboard.DASHBOARD.read_text() == dashboard.text(), "run scripts/dashboard.py"


def test_dashboard_has_what_grafana_needs(mi):
    """Read from the file, beside the script: each field that Grafana asks of a dashboard, and metrics that the library tells."""
    board = json.loads(dashboard.DASHBOARD.read_text())
    assert isinstance(board["schemaVersion"], int) and board["schemaVersion"] >= 36  # since Grafana 9
    assert board["title"] and board["uid"] and board["time"]["from"] == "now-3h" and board["panels"]
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert set(variables) == {"datasource", "job", "instance"} and variables["datasource"]["type"] == "datasource"
    block = mi.mi_malloc(100)
    mi.mi_option_set(MEMORY_LIMIT, 1 << 20)  # 1 GiB
    samples = families(told(mi))[0]
    names = set(samples)
    mi.mi_option_set(MEMORY_LIMIT, 0)
    mi.mi_free(block)
    assert (1 << 30) - (64 << 20) <= samples[ROOM][None] < 1 << 30  # less what is in use, in whole slices
    ids, areas, drawn = set(), set(), set()
    for panel in board["panels"]:
        assert panel["type"] == "timeseries" and panel["title"] and panel["targets"]
        ids.add(panel["id"])
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        areas |= {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        for target in panel["targets"]:
            assert target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            used = re.findall(r"mimalloc_\w+", target["expr"])
            assert used and not set(used) - names, f"{panel['title']}: no such metric among {used}"
            drawn |= set(used)
            assert target["expr"].count("(") == target["expr"].count(")")
            for name in used:
                assert ("rate(" in target["expr"]) == name.endswith("_total"), target["expr"]
    assert len(ids) == len(board["panels"])
    assert len(areas) == sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in board["panels"]), "panels overlap"
    assert drawn == set(KNOWN)
