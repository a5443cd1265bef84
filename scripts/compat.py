#!/usr/bin/env python3
"""Runs programs of others with the library preloaded: same output as with glibc, their own tests pass, and how much memory.

Usage: compat.py [NAME...] [--library PATH] [--peers] [--quick]
       compat.py --list | --packages [NAME...] | --sources [NAME...] | --docs

The rows are in test/compat/rows; row.py there says what one is. A row passes, fails, or cannot be judged: because what it
needs is missing, or because it fails with glibc as well. Results are merged into build/compat/results.json; --docs writes
them into docs/compatibility.md. With --peers, rows marked so run with the allocators of the distribution too.
Exit status: 1 if a row failed, 2 if one could not be judged.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
HERE = ROOT / "test" / "compat"
sys.path[:0] = [str(HERE), str(ROOT / "bench")]
from row import load  # noqa: E402
from suite import measure  # noqa: E402  (starts a program, reports its peak, kills what it leaves behind)

RESULTS = ROOT / "build" / "compat" / "results.json"
SOURCES = ROOT / "build" / "compat" / "sources"
DOCUMENT = ROOT / "docs" / "compatibility.md"
LIBRARY = ROOT / "build" / "release" / "libmimalloc.so"
BEGIN, END = "<!-- begin of what scripts/compat.py wrote -->", "<!-- end of what scripts/compat.py wrote -->"
PEERS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4"}
TAIL = 1500  # characters of output that a failure shows


def environment(folder, home, preload):
    """No variable of whoever calls us but the path; the same for all allocators but for what is preloaded."""
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/games", "HOME": str(home),
                 "TMPDIR": str(home), "LC_ALL": "C.UTF-8", "TZ": "UTC", "COMMON": str(folder / "common"),
                 "SRC": str(HERE / "src"), "SOURCES": str(SOURCES), "PRELOADED": preload}
    if preload:
        variables["LD_PRELOAD"] = preload
    return variables


def run_script(text, folder, name, preload, limit_s):
    """Run a script in an empty folder/`name`: {status, output, peak_kib, seconds, figures}. status None: too slow."""
    where = folder / name
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    where.chmod(0o777)
    script = folder / f"{name}.sh"
    script.write_text((HERE / "prelude.sh").read_text() + text)
    with open(folder / "output", "w+b") as output, open(os.devnull) as nothing:
        started = measure.launch(["/bin/bash", str(script)], environment(folder, where, preload), where, nothing, output, output)
        try:
            status = started.wait(limit_s)
        except subprocess.TimeoutExpired:
            started.kill()
            status = None
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines(keepends=True)
    return {"status": status, "output": "".join(line for line in lines if not line.startswith("FIGURE ")),
            "figures": [line[7:].strip() for line in lines if line.startswith("FIGURE ")],
            "peak_kib": started.figures.get("peak_kib"), "seconds": round(started.figures.get("wall_ns", 0) / 1e9, 1)}


def missing_packages(names):
    """Those of them that dpkg does not know as installed; none where there is no dpkg."""
    if not names or not shutil.which("dpkg-query"):
        return []
    known = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Status}\n"], capture_output=True, text=True).stdout
    installed = {line.split()[0] for line in known.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def first_difference(expected, found):
    old, new = expected.splitlines(), found.splitlines()
    at = next((i for i, pair in enumerate(zip(old, new)) if pair[0] != pair[1]), min(len(old), len(new)))
    return (f"line {at + 1} of the output differs; with glibc:\n{chr(10).join(old[at:at + 4])}\n"
            f"with the library:\n{chr(10).join(new[at:at + 4])}")[:TAIL]


def verdict(row, plain, run):
    """("pass" or "fail", why)."""
    if run["status"] is None:
        return "fail", f"did not end within {row.limit_s} s\n{run['output'][-TAIL:]}"
    if run["status"] != 0:
        return "fail", f"ended with {run['status']}\n{run['output'][-TAIL:]}"
    if run["output"] != plain["output"]:
        return "fail", first_difference(plain["output"], run["output"])
    return "pass", ""


def judge(row, libraries):
    """Run one row with glibc and with each of {name: path}."""
    result = {"name": row.name, "outcome": "cannot be judged", "runs": {}}
    missing = missing_packages(row.packages.split()) + [f"sources of {name}" for name in row.sources.split()
                                                       if not (SOURCES / name).is_dir()]
    if missing:
        return {**result, "reason": f"not installed: {' '.join(missing)}"}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="compat-"))
    folder.chmod(0o755)
    try:
        if row.setup:
            done = run_script(row.setup, folder, "common", "", max(row.limit_s, 300))
            if done["status"] != 0:
                return {**result, "reason": f"its setup failed\n{done['output'][-TAIL:]}"}
        plain = run_script(row.script, folder, "run", "", row.limit_s)
        failed = plain["status"] != 0
        result["runs"]["glibc"] = {**costs(plain), "outcome": "fail" if failed else "pass"}
        if row.expect:
            plain["output"] = row.expect
        elif failed:
            return {**result, "reason": f"with glibc: {verdict(row, plain, plain)[1]}"}
        for name, path in libraries.items():
            preload = str(shutil.copy(os.path.realpath(path), folder))  # where every user can read it
            run = run_script(row.script, folder, "run", preload, row.limit_s)
            outcome, reason = verdict(row, plain, run)
            result["runs"][name] = {**costs(run), "outcome": outcome, "reason": reason}
        ours = result["runs"].get("ours")
        return {**result, "outcome": ours["outcome"], "reason": ours["reason"]}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def costs(run):
    return {key: run[key] for key in ("peak_kib", "seconds", "figures")}


def peer_libraries():
    found = {name: next(iter(sorted(pathlib.Path("/usr/lib").glob(f"*/{file}"))), None) for name, file in PEERS.items()}
    return {name: path for name, path in found.items() if path}


def read_results():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"rows": {}}


def keep(result):
    """One more row in the file of results. What peers did earlier stays, where they were not run now."""
    results = read_results()
    old = results["rows"].get(result["name"], {}).get("runs", {})
    result["runs"] = {**{name: run for name, run in old.items() if name in PEERS}, **result["runs"]}
    results["rows"][result["name"]] = {**result, "date": datetime.date.today().isoformat()}
    results["machine"] = machine()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    new = RESULTS.with_suffix(f".{os.getpid()}")
    new.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    new.replace(RESULTS)


def machine():
    release = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.M)
    kernel = re.match(r"\d+\.\d+", platform.release())
    return f"{release[1] if release else 'Linux'}, glibc {platform.libc_ver()[1]}, Linux {kernel[0]}, {platform.machine()}"


def mib(kib):
    return f"{kib / 1024:.0f}" if kib >= 10240 else f"{kib / 1024:.1f}"


def line_of(result):
    """One row for the terminal."""
    runs, words = result["runs"], [f"{result['outcome']:16} {result['name']:24}"]
    for name, run in runs.items():
        words.append(f"{name} {mib(run['peak_kib'] or 0)} MiB {run['seconds']} s"
                     + (f" {run['outcome']}" if name in PEERS else "") + "".join(f" [{f}]" for f in run["figures"]))
    reason = "".join(f"\n    {line}" for line in result.get("reason", "").splitlines())
    return ", ".join(words) + reason


# -- the document

def cell(result, name):
    run = result["runs"].get(name)
    if not run:
        return ""
    if run.get("outcome") == "fail":
        return "fails"
    return mib(run["peak_kib"])


def remarks(result):
    runs = result["runs"]
    figures = [f"{figure} ({name})" for name in ("glibc", "ours") for figure in runs.get(name, {}).get("figures", [])]
    if result["outcome"] != "pass":
        figures.insert(0, result["reason"].splitlines()[0])
    return "; ".join(figures).replace("|", "\\|")


def tables(rows, results):
    """The document's generated part, as lines."""
    done = [results["rows"][row.name] for row in rows if row.name in results["rows"]]
    count = {word: sum(result["outcome"] == word for result in done) for word in ("pass", "fail", "cannot be judged")}
    yield (f"{len(done)} rows: {count['pass']} pass, {count['fail']} fail, {count['cannot be judged']} cannot be judged. "
           f"{results.get('machine', '')}. Memory is the peak of the largest process, in MiB.")
    for group in dict.fromkeys(row.group for row in rows):
        yield from ("", f"### {group}", "", "| row | what runs | result | glibc | ours | jemalloc | tcmalloc | remarks |",
                    "| --- | --- | --- | --- | --- | --- | --- | --- |")
        for row in (row for row in rows if row.group == group):
            result = results["rows"].get(row.name, {"outcome": "not run", "runs": {}, "reason": "not run"})
            yield (f"| {row.name} | {row.what} | {result['outcome']} | "
                   + " | ".join(cell(result, name) for name in ("glibc", "ours", *PEERS)) + f" | {remarks(result)} |")


def write_document(rows):
    text = DOCUMENT.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    DOCUMENT.write_text("\n".join([head + BEGIN, "", *tables(rows, read_results()), "", END + tail]))


# -- the command line

def chosen(rows, names, quick):
    unknown = set(names) - {row.name for row in rows}
    if unknown:
        sys.exit(f"compat: no such row: {' '.join(sorted(unknown))}")
    return [row for row in rows if (not names or row.name in names) and (row.quick or not quick)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    parser.add_argument("--peers", action="store_true", help="the rows marked so, with other allocators too")
    parser.add_argument("--quick", action="store_true", help="the rows of make test")
    parser.add_argument("--list", action="store_true", help="names and what they exercise")
    parser.add_argument("--packages", action="store_true", help="what must be installed, for scripts/setup.sh")
    parser.add_argument("--sources", action="store_true", help="source packages, for scripts/setup.sh")
    parser.add_argument("--docs", action="store_true", help="write the results into docs/compatibility.md")
    return parser.parse_args()


def main():
    options, rows = parse(), load()
    wanted = chosen(rows, options.names, options.quick)
    if options.docs:
        write_document(rows)
    elif options.list:
        print("\n".join(f"{row.name:24} {row.what}" for row in wanted))
    elif options.packages or options.sources:
        words = [word for row in wanted for word in (row.packages if options.packages else row.sources).split()]
        print("\n".join(dict.fromkeys(words)))
    else:
        sys.exit(run_rows(wanted, options))


def run_rows(rows, options):
    """Run them one after the other; the exit status."""
    if not options.library.exists():
        sys.exit(f"compat: {options.library} is missing")
    outcomes = []
    for row in rows:
        peers = peer_libraries() if options.peers and row.peers else {}
        result = judge(row, {"ours": options.library, **peers})
        keep(result)
        outcomes.append(result["outcome"])
        print(line_of(result), flush=True)
    print(", ".join(f"{outcomes.count(word)} {word}" for word in ("pass", "fail", "cannot be judged")))
    return 1 if "fail" in outcomes else 2 if "cannot be judged" in outcomes else 0


if __name__ == "__main__":
    main()
