#!/usr/bin/env python3
"""Writes the whole library as one C file: src/static.c with everything it includes of ours in its place.

Usage: amalgamate.py FILE

Headers of the system stay #include lines. A header of ours is written where it comes first; a file without
a guard, which is meant to be included several times, each time. The result compiles like src/static.c, and
alone.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
GUARD = re.compile(r"^#ifndef (\w+_H)\n#define \1\n", re.M)


def find(name, includer):
    for folder in (includer.parent, ROOT / "include"):
        if (folder / name).is_file():
            return (folder / name).resolve()
    sys.exit(f"{includer}: there is no {name}")


def lines_of(path, written):
    """The lines of a file and of all it includes, but for the headers in `written`, which grows."""
    text = path.read_text()
    if GUARD.search(text):
        written.add(path)
    shown = path.relative_to(ROOT)
    yield f"// ==== {shown}"
    for line in text.splitlines():
        include = INCLUDE.match(line)
        if include:
            included = find(include[1], path)
            if included not in written:
                yield from lines_of(included, written)
                yield f"// ==== {shown}, continued"
        elif line != "#pragma once":  # the compiler warns of it outside of headers
            yield line


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    target = pathlib.Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    top = ["// libmimalloc in one file, written by scripts/amalgamate.py; change the sources instead.", ""]
    target.write_text("\n".join([*top, *lines_of(ROOT / "src" / "static.c", set())]) + "\n")


if __name__ == "__main__":
    main()
