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
    before = os.environ.get("LD_PRELOAD")
    environment = {"PYTHONMALLOC": "malloc", **os.environ, "LD_PRELOAD": f"{path()}:{before}" if before else str(path())}
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment)


main()
