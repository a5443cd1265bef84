# SPDX-License-Identifier: MIT
"""The command line of mimalloc-inspect."""
import argparse
import json
import os
import pathlib
import re
import sys

from . import layout, picture, snapshot, text
from .target import Core, Failure, Process, Unreadable

ABOUT = """Say why the resident memory of a process is what it is: what is in use, what is free inside pages, what is kept, and what
is not the allocator's; by size, heap and thread, with a map. The process runs libmimalloc, as a shared library or linked
into it; it need not help, and nothing runs in it."""
MORE = """A target of digits only is the number of a process; a file of such a name has a folder before it (./123).

Exit status: 0; 1 when there is nothing to tell, with a message; 2 for a wrong command line.
A process changes while it is read; with --stop it does not. A core dump needs the file of the library only if the
kernel left out parts of it, which is so for programs at fixed addresses, and for dumps without file contents."""


def arguments(words):
    parser = argparse.ArgumentParser(prog="mimalloc-inspect", description=ABOUT, epilog=MORE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", help="the number of a process, or the file of a core dump (./123 if it is named so)")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="compare two snapshots, files that --json wrote")
    parser.add_argument("--stop", action="store_true", help="stop the process while it is read, some milliseconds to a second")
    parser.add_argument("--json", metavar="FILE", help="write a snapshot, or the comparison, as JSON; - for standard output")
    parser.add_argument("--svg", metavar="FILE", help="write the map as a picture")
    parser.add_argument("--html", metavar="FILE", help="write all of it as one page for a browser")
    parser.add_argument("--object", metavar="NAME", help="of several copies of the library, that in a file with NAME in its path")
    parser.add_argument("--sysroot", metavar="FOLDER", help="where the files are that a core dump names")
    parser.add_argument("--snapshot", action="store_true", help="the target is a file that --json wrote")
    parser.add_argument("--no-map", action="store_true", help="leave the map out of the text")
    chosen = parser.parse_args(words)
    if (chosen.target is None) == (chosen.compare is None):
        parser.error("name one process or core dump, or two snapshots with --compare")
    if chosen.compare and (chosen.svg or chosen.html or chosen.stop):
        parser.error("--compare writes text and JSON")
    if chosen.snapshot and chosen.stop:
        parser.error("a snapshot cannot be stopped")
    return chosen


def printable(words):
    """Without what a terminal might take for a command: names are those of others."""
    return "".join(c if c.isprintable() or c == "\n" else "?" for c in words)


def write(path, words):
    try:
        if path == "-":
            sys.stdout.write(words)
        else:
            pathlib.Path(path).write_text(words)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error


def load(path):
    """A snapshot from a file."""
    try:
        found = json.loads(pathlib.Path(path).read_text())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path} is no snapshot: {error}") from error
    form = found.get("format") if isinstance(found, dict) else None
    if form != snapshot.FORMAT:
        raise Failure(f"{path} is no snapshot that this version reads: its format is {form!r}, not {snapshot.FORMAT!r}")
    return found


def open_target(chosen):
    """A number is a process, whatever files are here: a folder of core dumps may have one of that name."""
    if not re.fullmatch("[0-9]+", chosen.target):
        return Core(chosen.target, chosen.sysroot)
    try:
        return Process(int(chosen.target))
    except Failure as failure:
        if os.path.isfile(chosen.target):
            raise Failure(f"{failure} (the file of this name is ./{chosen.target})") from failure
        raise


def choose(target, wanted):
    """The copy of the library that is looked at, and a remark about others."""
    remarks = getattr(target, "warnings", [])
    try:
        found = layout.find(target, wanted)
    except Failure as failure:
        raise Failure("; ".join([str(failure), *remarks])) from failure
    if not found:
        raise Failure("; ".join([
            f"{target.name() or 'the program'} ({target.kind} {target.pid}) does not have this library in it" +
            (f", in a file with {wanted} in its path" if wanted else "") +
            ": it has another allocator, or a libmimalloc from before 3.4.3's stamp", *remarks]))

    found.sort(key=lambda one: one.stage, reverse=True)
    others = [one.note for one in found[1:] if one.stage]
    return found[0], others


def look(chosen):
    if chosen.snapshot:
        return load(chosen.target)
    target = open_target(chosen)
    one, others = choose(target, chosen.object)
    if chosen.stop and target.kind == "core":
        raise Failure("a core dump cannot be stopped: leave out --stop")
    taken = snapshot.take(target, one, chosen.stop)
    for other in others:
        taken["warnings"].append(f"there is another copy of the library, in {other}: --object tells which is looked at")
    return taken


def run(chosen):
    if chosen.compare:
        old, new = map(load, chosen.compare)
        found = json.dumps(text.difference(old, new), indent=1) + "\n" if chosen.json else None
        words = printable("\n".join(text.compare(old, new)) + "\n")
    else:
        taken = look(chosen)
        found = json.dumps(taken, indent=1) + "\n" if chosen.json else None
        if chosen.svg:
            write(chosen.svg, picture.svg(taken))
        if chosen.html:
            write(chosen.html, picture.html(taken))
        words = printable("\n".join(text.report(taken, not chosen.no_map)) + "\n")
    if found:
        write(chosen.json, found)
    if chosen.json != "-" and "-" not in (chosen.svg, chosen.html):
        sys.stdout.write(words)


def main(words=None):
    chosen = arguments(words)
    try:
        run(chosen)
        sys.stdout.flush()
    except Failure as failure:
        print(f"mimalloc-inspect: {failure}", file=sys.stderr)
        return 1
    except Unreadable as error:
        print(f"mimalloc-inspect: the structures of the library cannot be read: {error}", file=sys.stderr)
        return 1
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        if not (chosen.compare or chosen.snapshot):
            raise
        print(f"mimalloc-inspect: a snapshot is damaged: {error!r}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0
