"""The page docs/where.md: its commands, on demo/leaky.c, print what it shows, and what the tools say is what that program knows.
If this fails, who follows the page from a symptom is led to the wrong function, or nowhere."""
import collections
import math
import os
import re
import shlex
import sys

import pytest

import conftest
from conftest import attempt, find, run
from test_profile import pprof, pprof_cum  # noqa: F401  (a fixture)

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import where  # noqa: E402  (the path comes first)

# One process for all that fetch pprof.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("test_profile")]
PAGE = where.PAGE.read_text()
RATE = int(re.search(r"^\$ export MIMALLOC_PROFILE_RATE=(\d+)$", PAGE, re.M)[1])
FUNCTIONS = ("session_open", "cache_put", "import_record")
SESSION, ANSWER, RECORD = 4096, 1792, 160  # bytes of a block
RECORDS, KEPT = 400000, 40000
PAGE_SIZE = 64 * 1024
PICTURE_MAX = 150 * 1024
ERRORS = 4.5  # standard errors that an estimate may be off

Session = collections.namedtuple("Session", "folder ran")


@pytest.fixture(scope="module")
def session(tmp_path_factory, library, request):
    """All commands of the page, run once, and the folder they ran in; without those of pprof where it cannot be had."""
    path = os.environ["PATH"]
    try:
        request.getfixturevalue("pprof")
    except pytest.skip.Exception:
        pass
    folder = tmp_path_factory.mktemp("where")
    os.environ["PATH"] = f"{path}:{conftest.ROOT / 'build' / 'pprof'}"
    try:
        yield Session(folder, where.run(PAGE, folder, library))
    finally:
        os.environ["PATH"] = path


def printed(session, part):
    """What the one command printed that has this in it."""
    command, = [command for command in session.ran if part in command.text]
    assert command.is_run, command.text
    return command.output


def quantity(text):
    """Of "1.5 MiB", bytes."""
    number, unit = re.fullmatch(r"([\d.]+) (\w+)", text).groups()
    return float(number) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]


def current(stats, name):
    """Of a line of statistics, the bytes in use now: the last with a unit."""
    line, = re.findall(rf"^ *{name} +:(.*)$", stats, re.M)
    return quantity(re.findall(r"[\d.]+ (?:[KMG]i)?B\b", line)[-1])


def by_function(text):
    """Of folded stacks, bytes by the function that allocates."""
    found = collections.Counter()
    for stack, value in where.stacks(text).items():
        found[stack[-1]] += value
    return found


def is_near(found, expected):
    """An estimate: n samples are off by one part in the root of n."""
    return abs(found - expected) <= ERRORS * expected / math.sqrt(expected / RATE)


def told(log, what):
    """Of what the program says itself: (how many, bytes)."""
    return tuple(map(int, re.search(rf"^{what}: (\d+), (\d+) bytes$", log, re.M).groups()))


def shape(output):
    """Its lines without numbers, units and addresses, in no order: what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]+|\b\d[\d.]*( ?[KMG]i?B?| B|[kMG]?B| s)?\b", "#", output)
    text = re.sub(r"\( +", "(", text.replace("%", ""))
    return sorted(re.sub(" +", " ", line).strip() for line in text.splitlines())


def test_page_is_about_the_program():
    """It is built there as the file says, and every function of its table is in the page."""
    source = (conftest.ROOT / "demo" / "leaky.c").read_text()
    command = re.search(r"^//   (cc .*)$", source, re.M)[1]
    assert where.commands(PAGE)[0].text == command
    for name in FUNCTIONS:
        assert f"`{name}`" in PAGE and re.search(rf"^//   {name} ", source, re.M)


def test_program_has_no_warnings(tmp_path):
    command = shlex.split(where.commands(PAGE)[0].text)
    run(*command[:-1], tmp_path / "leaky", "-Wall", "-Wextra", "-Werror", cwd=conftest.ROOT)


def test_commands_print_what_the_page_shows(session):
    for shown, ran in zip(where.commands(PAGE), session.ran, strict=True):
        if shown.text.split()[0] not in where.OPTIONAL:
            assert ran.is_run and shape(ran.output) == shape(shown.output), f"{ran.text}\n{ran.output}"


def test_program_says_the_same_each_time(session):
    """Else nothing could be compared: a fifth of the requests is wrong, and a fifth asks for what is new."""
    plain = "LD_PRELOAD=libmimalloc.so ./leaky"
    said, = [ran.output for ran in session.ran if ran.text == plain]
    assert [said] == [shown.output for shown in where.commands(PAGE) if shown.text == plain]
    assert told(said, "sessions lost") == (6000, 6000 * SESSION) and told(said, "records kept") == (KEPT, KEPT * RECORD)
    assert told(said, "answers in the cache") == (6040, 6040 * ANSWER)


def test_growth_names_the_leak_first(session):
    grown = by_function((session.folder / "growth.folded").read_text())
    assert [name for name, _ in grown.most_common(2)] == ["session_open", "cache_put"]
    lost, cached = grown["session_open"], grown["cache_put"]
    # In each round as many sessions are lost as answers are new.
    error = math.sqrt(RATE / lost + RATE / cached)
    assert lost > 16 * RATE and abs(lost / cached / (SESSION / ANSWER) - 1) < ERRORS * error
    assert grown["import_record"] < RATE


def test_live_profile_has_the_cache(session):
    live = by_function((session.folder / "live.folded").read_text())
    grown = by_function((session.folder / "growth.folded").read_text())
    assert is_near(live["import_record"], KEPT * RECORD)
    assert live["cache_put"] > 1.2 * grown["cache_put"] and live["session_open"] > 1.2 * grown["session_open"]


def test_report_at_the_end_has_what_was_lost_and_not_the_cache(session):
    log = (session.folder / "log").read_text()
    _, lost = told(log, "sessions lost")
    assert lost > 100 * RATE and told(log, "answers in the cache")[1] > 10 * RATE
    sites = re.findall(r"^ +(\d+) bytes in \d+ blocks of (\d+) bytes, allocated at\n +(\w+)", log, re.M)
    (found, size), = [(int(found), int(size)) for found, size, name in sites if name == "session_open"]
    assert is_near(found, lost) and size == SESSION and sites[0][2] == "session_open"
    assert "cache_put" not in log and "import_record" not in log
    # The profile that is written at the end has the same.
    end = by_function((session.folder / "end.folded").read_text())
    assert is_near(end["session_open"], lost) and not end["cache_put"] and not end["import_record"]


def test_report_is_exact_with_a_rate_of_one(session):
    report = printed(session, "MIMALLOC_PROFILE_RATE=1 ")
    count, lost = told(report, "sessions lost")
    assert re.search(rf"^ +{lost} bytes in {count} blocks of {SESSION} bytes, allocated at\n +session_open$", report, re.M), report


def test_statistics_show_free_memory_between_blocks(session, figure):
    stats = printed(session, "committed|peak rss")
    binned, touched = current(stats, "binned"), current(stats, "touched")
    free = touched - binned
    # What the burst left: nine tenths of its blocks, and no OS page of its own went back.
    assert abs(free / ((RECORDS - KEPT) * RECORD) - 1) < 0.1
    metrics = (session.folder / "metrics").read_text()
    resident = int(re.search(r"^mimalloc_process_resident_bytes (\d+)$", metrics, re.M)[1])
    assert resident > touched > free > binned / 2

    def size(what, block):
        return int(re.search(rf'^mimalloc_class_{what}{{size="{block}"}} (\d+)$', metrics, re.M)[1])
    # Sampled blocks have pages of their own, a thousandth of these sizes.
    assert abs(size("bytes", RECORD) / (KEPT * RECORD) - 1) < 0.01
    filled = {block: size("bytes", block) / (size("pages", block) * PAGE_SIZE) for block in (RECORD, ANSWER, SESSION)}
    assert filled[RECORD] < 0.11 and filled[ANSWER] > 0.8 and filled[SESSION] > 0.8
    figure(f"a burst of {RECORDS} blocks, of which {KEPT} stay: {free / (1 << 20):.0f} MiB free between them")


def test_peak_is_the_burst(session):
    peak = by_function((session.folder / "peak.folded").read_text())
    assert peak.most_common(1)[0][0] == "import_record" and is_near(peak["import_record"], RECORDS * RECORD)
    assert told((session.folder / "peak.log").read_text(), "sessions lost") == (6000, 6000 * SESSION)


def test_nothing_is_reported_after_the_fixes(session):
    log = (session.folder / "fixed.log").read_text()
    assert told(log, "sessions lost") == (0, 0) and "blocks are in use, from " in log
    assert not [name for name in FUNCTIONS if name in log]
    *_, stats = [ran.output for ran in session.ran if "'binned|huge|touched'" in ran.text]
    # The records that stay are a block of their own; around the cache and the requests that run there is little.
    assert 0.98 * KEPT * RECORD < current(stats, "huge") < KEPT * RECORD + (4 << 20)
    assert current(stats, "touched") < 4 << 20


def test_pprof_tells_the_call_site_of_a_size_and_the_threads(pprof, session):
    for shown, ran in zip(where.commands(PAGE), session.ran, strict=True):
        if ran.text.startswith("pprof"):
            assert ran.is_run and shape(ran.output) == shape(shown.output), f"{ran.text}\n{ran.output}"
    grown = pprof_cum(pprof, session.folder / "now.pb.gz", "growth_space")
    assert max(FUNCTIONS, key=lambda name: grown.get(name, 0)) == "session_open"
    file = session.folder / "burst.pb.gz"
    assert is_near(pprof_cum(pprof, file, "inuse_space")["import_record"], KEPT * RECORD)
    assert is_near(pprof_cum(pprof, file, "peak_space")["import_record"], RECORDS * RECORD)
    threads = [float(share) for share in re.findall(r"\( ?([\d.]+)%\): \d+$", printed(session, "pprof -tags"), re.M)]
    assert len(threads) == 4 and threads[0] < 1.5 * threads[2] and threads[3] < threads[2]  # main is the last


def test_debugger_shows_a_page_with_few_blocks_in_use(session):
    gdb = find("gdb")
    if "1" not in attempt(gdb, "-nx", "-batch", "-ex", "python print(1)").output.split():
        pytest.skip("this gdb has no Python")
    command, = [ran for ran in session.ran if ran.text.startswith("gdb")]
    if not command.output and "process" not in attempt(gdb, "-batch", "-ex", "starti", "-ex", "info inferiors", "/bin/true").output:
        pytest.skip("gdb cannot run a program here")
    assert re.search(r"block \d+ of 409 at .* of 160 bytes; page at .* of 64 KiB, 4\d of 409 blocks in use, .*; main heap", command.output)


def test_pictures_are_small_and_show_what_they_are_for(session):
    for name in ("growth", "time"):
        for theme in ("light", "dark"):
            picture = where.IMAGES / f"where-{name}-{theme}.svg"
            assert f"images/{picture.name}" in PAGE and picture.stat().st_size < PICTURE_MAX
            text = picture.read_text()
            assert ("session_open" if name == "growth" else "resident") in text and "<script" not in text
    code = "import sys, pathlib; sys.path.insert(0, 'scripts'); import where\n" \
           "print(where.draw_flames(where.stacks(pathlib.Path(sys.argv[1]).read_text()), 'growth', 'dark'))"
    drawn = attempt("/usr/bin/python3", "-c", code, session.folder / "growth.folded", cwd=conftest.ROOT)
    if "No module named" in drawn.output:
        pytest.skip("matplotlib is not installed")
    assert "session_open" in drawn.output and "cache_put" in drawn.output and "import_record" not in drawn.output
