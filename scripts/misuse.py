#!/usr/bin/env python3
"""What allocators do about mistakes with memory: runs test/misuse/mistakes.c with each of them in front.

    scripts/misuse.py                                  our builds that there are, and glibc
    scripts/misuse.py NAME=FILE ...                    these libraries; NAME= alone is glibc; guarded=FILE guards every block;
                                                       mte=FILE is for 64-bit ARM, and runs in the emulator
    scripts/misuse.py --update-docs NAME=FILE ...      and put them into the tables of docs/security.md, beside the others
    scripts/misuse.py --only double,invalid_stack      some mistakes
    scripts/misuse.py --random [NAME=FILE ...]         how well the places of blocks can be foretold, instead

Each mistake is made in several runs, because addresses and orders are random; the worst outcome counts:

    at once     the wrong call, or the wrong access, ended the program
    harmless    the program went on, and nothing of it was damaged
    later       a later call noticed it, and ended the program with a report
    missed      the program went on with damage: two owners of a block, a block that changed, a secret that was read
    explained   an access of the allocator failed, and a report said so: it followed what the mistake had destroyed
    crash       the same without a report, or it did not come back
"""
import argparse
import collections
import concurrent.futures
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "test" / "misuse"
BUILD = ROOT / "build" / "misuse"
DOCUMENT = ROOT / "docs" / "security.md"
OUTCOMES = ["at once", "harmless", "later", "missed", "explained", "crash"]  # from the best to the worst
ACCESSES = ("overflow", "underflow", "late", "read", "forged")  # the mistake is an access of the program
RUNS = 5
SECONDS = 20
EXPLAINED = "mimalloc: error: fault in the allocator: "
# All builds of ours end the program when they notice something, so that it can be told from what they do not notice.
OURS = {"MIMALLOC_ABORT_ON_MISUSE": "2", "MIMALLOC_SHOW_ERRORS": "1"}
BUILDS = ["release", "guarded", "debug", "secure", "mte"]
EVERY_BLOCK = {"guarded": {"MIMALLOC_GUARDED_SAMPLE_RATE": "1"}}
# With memory tags (docs/security.md). Qemu up to 7.2 takes the instruction that clears a cache line for a fault if its
# address has a tag: one of libc's functions for this kind of processor does without.
CROSS = "aarch64-linux-gnu"
EMULATED = {"mte": ["qemu-aarch64", "-cpu", "max", "-L", f"/usr/{CROSS}", "-E", "GLIBC_TUNABLES=glibc.cpu.name=kunpeng920"]}


def build(name="mistakes"):
    """A program of test/misuse."""
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / name
    subprocess.run(["cc", "-std=gnu11", "-O1", "-g", "-w", "-fno-builtin", "-U_FORTIFY_SOURCE", SOURCES / f"{name}.c",
                    "-o", program, "-pthread", "-Wl,--no-as-needed", "-lstdc++"], check=True)
    return program


def emulated(name, variables):
    """The command for a program of a library that runs in the emulator, with these variables there."""
    program = BUILD / "mistakes-arm"
    if not program.exists() or program.stat().st_mtime < (SOURCES / "mistakes.c").stat().st_mtime:
        made = program.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        subprocess.run([f"{CROSS}-gcc", "-std=gnu11", "-O1", "-g", "-w", "-fno-builtin", "-U_FORTIFY_SOURCE",
                        SOURCES / "mistakes.c", "-o", made, "-pthread"], check=True)
        made.rename(program)
    return [*EMULATED[name], *(word for item in variables.items() for word in ("-E", "=".join(item))), program]


def mistakes_of(program):
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


def kind_of(mistake):
    return mistake.split("_")[0]


def judge(mistake, status, said, errors=""):
    """The outcome of one run: its exit status (None: it did not end), the lines that it wrote, and what its allocator wrote."""
    is_over = "end" in said
    if status is None:
        return "crash"
    if status in (-signal.SIGSEGV, -signal.SIGBUS):
        if EXPLAINED in errors:
            return "explained"
        return "at once" if not is_over and kind_of(mistake) in ACCESSES else "crash"
    if status != 0:
        return "at once" if not is_over else "later"
    return "harmless" if said[-1:] == ["fine"] and "lost" not in said else "missed"


def run(program, mistake, name, library):
    variables = dict(OURS, **EVERY_BLOCK.get(name, {}), LD_PRELOAD=str(library)) if library else {}
    command, variables = (emulated(name, variables), {}) if name in EMULATED else ([program], variables)
    try:
        result = subprocess.run([*command, mistake], env=os.environ | variables, stdin=subprocess.DEVNULL, timeout=SECONDS,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return "crash"
    if result.returncode in (2, 3, 4):
        raise SystemExit(f"misuse.py: {mistake} could not be made: exit status {result.returncode} with {library or 'glibc'}")
    return judge(mistake, result.returncode, result.stdout.split("\n")[:-1], result.stderr)


def outcomes(program, mistakes, libraries, runs=RUNS):
    """{(mistake, name of the library): its worst outcome}"""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = {(mistake, name): [pool.submit(run, program, mistake, name, library) for _ in range(runs)]
                 for mistake in mistakes for name, library in libraries.items()}
        return {key: max((one.result() for one in several), key=OUTCOMES.index) for key, several in found.items()}


def share(found, name, mistakes):
    """The part of the mistakes that are caught or harmless."""
    return sum(found[mistake, name] in OUTCOMES[:3] for mistake in mistakes) / len(mistakes)


def tables(found, mistakes, names):
    """The tables in Markdown: one for each kind of mistake, and one with all of them."""
    head = "| " + " | ".join(["mistakes", "", *names]) + " |\n| --- |" + " --- |" * (len(names) + 1) + "\n"
    kinds = collections.defaultdict(list)
    for mistake in mistakes:
        kinds[kind_of(mistake)].append(mistake)
    text = head
    for kind, those in [*kinds.items(), ("all", mistakes)]:
        cells = []
        for name in names:
            counts = collections.Counter(found[mistake, name] for mistake in those)
            cells.append(", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]))
        text += f"| {kind} | {len(those)} | " + " | ".join(cells) + " |\n"
    text += "| caught or harmless | | " + " | ".join(f"{share(found, name, mistakes):.0%}" for name in names) + " |\n"
    text += "\n" + head.replace("mistakes |  |", "mistake |").replace(" --- |", "", 1)
    for mistake in mistakes:
        text += f"| `{mistake}` | " + " | ".join(found[mistake, name] for name in names) + " |\n"
    return text


def entropy(values):
    """Bits of Shannon's entropy of what was seen."""
    counts = collections.Counter(values)
    return sum(n / len(values) * math.log2(len(values) / n) for n in counts.values())


def bits_that_vary(addresses):
    """The sum of the entropy of each bit: an upper bound, of more bits than so few runs could show otherwise."""
    return sum(entropy([address >> bit & 1 for address in addresses]) for bit in range(48))


def places(program, library, runs):
    """(address of the first block, distances of the next ones) of many runs."""
    variables = os.environ | ({"LD_PRELOAD": str(library)} if library else {})
    found = []
    for _ in range(runs):
        first, *steps = map(int, subprocess.run([program], env=variables, capture_output=True, text=True, check=True).stdout.split())
        found.append((first, steps))
    return found


def randomness(libraries, runs):
    """A table in Markdown."""
    program = build("order")
    text = "| allocator | bits of the first address | bits of the step to the next block |\n| --- | --- | --- |\n"
    for name, library in libraries.items():
        found = places(program, library, runs)
        steps = [step for _, those in found for step in those]
        text += f"| {name} | {bits_that_vary([first for first, _ in found]):.0f} | {entropy(steps):.1f} |\n"
    return text


def our_builds():
    """{name: library} of those that are built."""
    release = ROOT / "build" / "release" / "libmimalloc.so"
    places = {"release": release, "guarded": release, "debug": BUILD / "debug" / "libmimalloc-debug.so",
              "secure": BUILD / "secure" / "libmimalloc-secure.so", "mte": BUILD / "mte" / "libmimalloc-mte.so"}
    return {name: library for name, library in places.items() if library.exists()}


def documented(what):
    """The lines between the marks of a table in the document, each as its cells."""
    text = re.search(rf"(?s)<!-- {what} -->\n(.*)<!-- end of {what} -->", DOCUMENT.read_text())[1]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line]


def with_documented(found, mistakes):
    """What was found, with what the document says of mistakes that were not made; and all names, in its order."""
    rows = documented("misuse")
    names = next(row for row in rows if row[0] == "mistake")[1:]
    before = {(row[0].strip("`"), name): outcome for row in rows if row[0].startswith("`") for name, outcome in zip(names, row[1:])}
    names = [name for name in BUILDS if (mistakes[0], name) in before | found] + [name for name in names if name not in BUILDS]
    names += list(dict.fromkeys(name for _, name in found if name not in names))
    missing = sorted({f"{mistake} of {name}" for mistake in mistakes for name in names} -
                     {f"{mistake} of {name}" for mistake, name in [*before, *found]})
    if missing:
        raise SystemExit(f"misuse.py: the document has no outcome for {', '.join(missing)}: run these, too")
    return before | found, list(dict.fromkeys(names))


def update(what, text):
    before = DOCUMENT.read_text()
    after = re.sub(rf"(?s)(<!-- {what} -->\n).*(<!-- end of {what} -->)", lambda m: m[1] + text + m[2], before)
    DOCUMENT.write_text(after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--only", default="", help="these mistakes, by name or beginning")
    parser.add_argument("--runs", type=int, help=f"of each mistake, {RUNS}; with --random 1000")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--update-docs", action="store_true")
    arguments = parser.parse_args()
    libraries = dict(word.split("=", 1) for word in arguments.libraries) or our_builds() | {"glibc": ""}
    for name, library in libraries.items():
        if library and not pathlib.Path(library).exists():
            raise SystemExit(f"misuse.py: there is no library {library} for {name}")
    if arguments.random:
        text = randomness(libraries, arguments.runs or 1000)
        sys.stdout.write(text)
        if arguments.update_docs:
            rows = {line.split("|")[1]: line for line in text.splitlines()}
            before = {f" {row[0]} ": "| " + " | ".join(row) + " |" for row in documented("random")}
            update("random", "".join(line + "\n" for line in (before | rows).values()))
        return
    program = build()
    chosen = tuple(arguments.only.split(",")) if arguments.only else ("",)
    every = mistakes_of(program)
    mistakes = [mistake for mistake in every if mistake.startswith(chosen)]
    if not mistakes:
        raise SystemExit(f"misuse.py: no mistake is called {arguments.only}; {program} lists all")
    found = outcomes(program, mistakes, libraries, arguments.runs or RUNS)
    text = tables(found, mistakes, list(libraries))
    sys.stdout.write(text)
    if arguments.update_docs:
        everything, names = with_documented(found, every)
        update("misuse", tables(everything, every, names))


if __name__ == "__main__":
    main()
