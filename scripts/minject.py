#!/usr/bin/env python3
"""Adds mimalloc.dll to what a 64-bit program for Windows imports, so that it has our malloc from its start.

Usage: minject.py [--inplace | -o FILE] [--force] PROGRAM.exe
       minject.py --list PROGRAM.exe

Writes PROGRAM-mi.exe, with --inplace over the program itself. mimalloc.dll belongs beside it, or where Windows looks for DLLs.
A DLL can be changed as a program can: then all programs that load it at their start have our malloc. --list prints which DLLs
are imported. Refused, unless --force is given: a program that has mimalloc.dll already, and one that no C run-time of Windows
serves (its own is linked into it: our DLL would be loaded, and malloc stay what it is). Signatures do not survive: they are
taken out. Needs lief, a Python package (scripts/setup.sh lief puts it into build/lief).
"""
import argparse
import pathlib
import re
import sys

try:
    import lief
except ImportError:
    sys.exit("minject: the Python package lief is missing: pip install lief, or scripts/setup.sh lief and build/lief/bin/python")

DLL = "mimalloc.dll"
FUNCTION = "mi_version"
# The run-times whose malloc the DLL takes over (override_windows.c), by all names that programs import them by; and those
# that are made of one of them.
RUN_TIMES = re.compile(r"^(msvcrt|ucrtbase|api-ms-win-crt-.*|vcruntime140.*|msvcp140.*)(\.dll)?$", re.I)


lief.logging.disable()  # of what it cannot read, we ask for nothing


def fail(text):
    sys.exit(f"minject: {text}")


def read(path):
    program = lief.PE.parse(str(path)) if path.is_file() else fail(f"{path}: there is no such file")
    if not isinstance(program, lief.PE.Binary):
        fail(f"{path} is no program or DLL for Windows")
    if program.header.machine != lief.PE.Header.MACHINE_TYPES.AMD64:
        fail(f"{path} is for another processor than 64-bit x86")
    if program.data_directory(lief.PE.DataDirectory.TYPES.CLR_RUNTIME_HEADER).rva != 0:
        fail(f"{path} is a program for .NET, whose memory malloc does not have")
    return program


def names(program):
    return [entry.name for entry in program.imports]


def inject(program):
    """Add the import. What the linker had found out about imports before, and a signature, hold no more."""
    program.add_import(DLL).add_entry(FUNCTION)
    for kind in (lief.PE.DataDirectory.TYPES.BOUND_IMPORT, lief.PE.DataDirectory.TYPES.CERTIFICATE_TABLE):
        directory = program.data_directory(kind)
        directory.rva = directory.size = 0
    program.optional_header.checksum = 0  # which Windows compares for drivers only


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="\n".join(__doc__.splitlines()[5:]))
    parser.add_argument("program", type=pathlib.Path)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-i", "--inplace", action="store_true", help="change the program itself")
    where.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE")
    where.add_argument("-l", "--list", action="store_true", help="print what it imports")
    parser.add_argument("-f", "--force", action="store_true", help="do what is refused otherwise")
    given = parser.parse_args()
    program = read(given.program)
    if given.list:
        print("\n".join(names(program)))
        return
    has_it = any(name.lower() == DLL for name in names(program))
    if has_it and not given.force:
        fail(f"{given.program} has {DLL} already")
    if not any(RUN_TIMES.match(name) for name in names(program)) and not given.force:
        fail(f"{given.program} has its own C run-time, and would keep its malloc: it imports {', '.join(names(program))}")
    target = given.program if given.inplace else given.output
    if target is None:
        target = given.program.with_name(f"{given.program.stem}-mi{given.program.suffix}")
    if not has_it:
        inject(program)
    settings = lief.PE.Builder.config_t()
    settings.imports = True
    # Beside it first: a program that is half written would be none.
    half = target.with_name(f"{target.name}.part")
    program.write(str(half), settings)
    half.replace(target)
    print(f"{target}: imports {DLL} now, which belongs beside it")


if __name__ == "__main__":
    main()
