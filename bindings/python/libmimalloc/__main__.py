"""Runs a Python program on libmimalloc: python -m libmimalloc program.py [argument...]

Everything behind the name of this module goes to the interpreter, which starts anew with the library in front of libc:
options, `-c` and `-m` too. Its own allocator of small objects is switched off, unless PYTHONMALLOC is set: it takes memory
in large pieces, in which the library sees nothing. Programs that the program starts get the library, too.
"""
import os
import sys

from . import path


def main():
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    library = str(path())
    if " " in library or ":" in library:
        # The loader would take it for several names, say that there are no such files, and start the program without.
        sys.exit(f"libmimalloc: LD_PRELOAD cannot hold {library!r}: spaces and colons divide it. Move the package, or set"
                 " LD_PRELOAD to a link to the library whose path has neither")
    before = os.environ.get("LD_PRELOAD")
    environment = {"PYTHONMALLOC": "malloc", **os.environ, "LD_PRELOAD": f"{library}:{before}" if before else library}
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


main()
