"""The raw results: comment lines "# key: value" on the machine and the versions, then one row per single run.

Rows are written one by one, so that an interrupted measurement loses nothing. Nothing is filtered here: repeated
attempts, failed runs and the warm-up round are all in the file; stats.py says which count.
"""
import csv
import dataclasses
import datetime
import os
import pathlib
import platform
import re
import shlex
import subprocess

from suite import catalog
from suite.measure import Run

ROOT = catalog.BENCH.parent
KEYS = ["kind", "round", "position", "attempt", "workload", "group", "peer"]
FIELDS = {field.name: field for field in dataclasses.fields(Run)}
TYPES = {"round": int, "position": int, "attempt": int, **{
    name: {str: str, int: int, float: float}[field.type] for name, field in FIELDS.items()}}
WARM_UP, COUNTED, CALLGRIND = "warm-up", "run", "callgrind"  # kinds of rows


def first_line(command):
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=20)
        return (done.stdout.splitlines() or [""])[0].strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def text_of(path, pattern=".*"):
    try:
        found = re.search(pattern, pathlib.Path(path).read_text(), re.M)
    except OSError:
        return ""
    return (found[found.re.groups] if found else "").strip()


def command(arguments):
    """The command line without --output: it says where the results lie on one machine, not what was measured."""
    told, rest = [], iter(arguments)
    for argument in rest:
        if argument == "--output":
            next(rest, None)
        elif not argument.startswith("--output="):
            told.append(argument)
    return "bench/run.py " + shlex.join(told)


def machine():
    """What a reader must know to judge the figures; nothing that names the machine or its user."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": first_line(["git", "describe", "--always", "--dirty"]),
        "kernel": f"{platform.system()} {platform.release()}",
        "processor": text_of("/proc/cpuinfo", r"^model name\s*:\s*(.*)") or platform.machine(),
        "hypervisor": "yes" if "hypervisor" in text_of("/proc/cpuinfo", r"^flags.*") else "no",
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.1f} GiB",
        "huge pages": text_of("/sys/kernel/mm/transparent_hugepage/enabled"),
        "address randomization": text_of("/proc/sys/kernel/randomize_va_space"),
        "governor": text_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not told",
        "compiler": first_line(["cc", "--version"]),
        "system": text_of("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)'),
        "python": platform.python_version(),
    }


def program_versions(workloads):
    packages = {package for workload in workloads if workload.kind == "macro" for _, package in workload.needs}
    found = {package: first_line(["dpkg-query", "-W", "-f=${Version}", package]) for package in sorted(packages)}
    return {f"program.{package}": version for package, version in found.items() if version}


class Writer:
    """Opens the file with its header; row() and note() append and flush."""

    def __init__(self, path, header):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "w", newline="")
        self._notes = 0
        for key, value in header.items():
            self.comment(key, value)
        self._csv = csv.DictWriter(self._file, KEYS + list(FIELDS), lineterminator="\n")
        self._csv.writeheader()
        self._file.flush()

    def comment(self, key, value):
        self._file.write(f"# {key}: {' '.join(str(value).split())}\n")
        self._file.flush()

    def note(self, text):
        """A sentence for the report."""
        self._notes += 1
        self.comment(f"note.{self._notes}", text)

    def row(self, run, **keys):
        values = {name: getattr(run, name) for name in FIELDS}
        values = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in values.items()}
        self._csv.writerow({**keys, **values})
        self._file.flush()

    def close(self):
        self._file.close()


def value_of(name, text):
    kind = TYPES.get(name, str)
    return text if kind is str else kind(text) if text else None


def read(path):
    """(header, rows). ValueError if it is not one of our files; a last line that was cut off is left out."""
    header, lines = {}, []
    for line in pathlib.Path(path).read_text().splitlines(keepends=True):
        if line.startswith("# "):
            key, _, value = line[2:].rstrip("\n").partition(": ")
            header[key] = value
        elif line.endswith("\n"):
            lines.append(line)
    reader = csv.DictReader(lines)
    if not reader.fieldnames or not set(KEYS) <= set(reader.fieldnames):
        raise ValueError(f"{path} is not a file of raw results: its columns are {reader.fieldnames}")
    return header, [{name: value_of(name, text) for name, text in row.items()} for row in reader]
