# SPDX-License-Identifier: MIT
"""mimalloc-inspect: why the resident memory of a process is what it is, told from outside.

    target.py    a process or a core dump: its memory, its mappings, what is resident, its threads
    elf.py       notes and symbols of ELF files
    layout.py    the stamp of the library, and where the fields of its structures are
    heap.py      a walk over arenas, pages and theaps: facts, nothing added up
    snapshot.py  the facts added up: the snapshot, which is what --json writes
    text.py      a snapshot, or the difference of two, as text
    picture.py   a snapshot as SVG and as an HTML page
    main.py      the command line

Rules that hold for all of them:
1. Nothing runs in the process, and nothing is written to it.
2. Whatever is read may be damaged, or change meanwhile. An address is used only through `read`, which refuses what is not
   mapped; a number only within its bounds; a list only up to a length that no sound one has. So no input can crash the tool or
   keep it busy for ever: its work is bounded by what is mapped.
3. What was not sound is left out, and the snapshot says so (`warnings`, `is_consistent`).
"""
