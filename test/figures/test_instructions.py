"""How many instructions a malloc and a free take. If this fails, every program that allocates got slower,
on every machine, and no timing on a busy one would have told us.

The counts of the hit paths are compared with test/asm/fast_path.x86_64.golden, which has a section for each
compiler that was looked at. MI_UPDATE_GOLDEN=1 rewrites the section of the compiler at hand.
"""
import functools
import os
import re

import pytest

import conftest
import measure
from conftest import find, run

pytestmark = measure.x86_only

GOLDEN = conftest.ROOT / "test" / "asm" / "fast_path.x86_64.golden"
COLUMNS = ("instructions", "branches", "calls", "locked", "loads", "stores")
# name: function, and which of its conditional branches are taken, counted from 0. What is not taken falls
# through: the compiler was told that leaving the hit path is unlikely.
PATHS = {
    "malloc": ("malloc", ()),
    "malloc-medium": ("malloc", (0,)),
    "free": ("free", ()),
    "calloc": ("calloc", ()),
}
# By the width of pointers. With 32 bits arguments come on the stack, and one call finds the data of the library.
BOUNDS = {64: {"malloc": 15, "free": 17}, 32: {"malloc": 18, "free": 23}}
CALLS = {64: 0, 32: 1}
BRANCHES_MAX = 2
# What a 32-bit processor has to load, store or exchange 64 bits at once.
WIDE = re.compile(r"cmpxchg8b|fildll|fistpll|movq|movlp[sd]")
SECURE_BOUND = 340
GUARDED_BOUND = 1.05

SMALL_MAX = 1024
CLASS_MAX = 512 * 1024
PAIR_BOUND_SMALL = {64: 37, 32: 56}
PAIR_BOUND = {64: 72, 32: 105}  # with the home held: HOLD-2
ROUNDS = 50  # of 100 pairs
# A random block of a heap full of blocks of one size is freed, and another allocated: 500 to 800 if the page of each is
# parked and taken back in turn.
REPLACE_BOUND = {64: 229, 32: 305}
REPLACE_MAX = 32768  # larger blocks have no portion: an empty page waits for the next one
# 3,000 to 5,000 if a page is made each time. While memory of earlier sizes waits to go back, each new page looks whether
# some is due (950 to 1,080 while none waits), and looks for what waits between blocks: with the clock of pair.c some does all the time.
REPLACE_BOUND_ABOVE = {64: 1185, 32: 1580}
# The block that the thread freed last, up to 8 MiB, is the next one of that size (kept.c).
LARGE = [600 * 1024, 1024 * 1024, 8 * 1024 * 1024]
LARGE_BOUND = {64: 250, 32: 450}
HEAP_BOUNDS = {"destroy": 9_250, "delete": 12_500}
HEAP_OTHERS = 1000
HEAP_OTHERS_BOUND = 1.05
HEAP_ROUNDS = 200
HEAPS_THAT_END = [500, 10_000]
HEAPS_THAT_END_BOUND = 1.5  # memory goes back meanwhile; 2.8 if all theaps of the thread are looked at
VISIT_THREADS = 20, 200
VISIT_BOUND = 1.1  # 1.36 if each page is looked for in the portions of all threads
ROUNDS_BOUND = 600  # where there is a bound: what earlier sizes left to be purged must not count much


# -- Counted in the code

@functools.lru_cache(maxsize=None)
def disassemble(library):
    """{address: (mnemonic, operands, next address)} and {symbol: address}"""
    text = run(find("objdump"), "-d", "-w", "--no-show-raw-insn", library)
    symbols = run("objdump", "-T", library)
    found = []
    for line in text.splitlines():
        match = re.match(r"\s+([0-9a-f]+):\s+((?:(?:lock|rep|repz|repnz|notrack|bnd|data16|cs) )*\S+)\s*(.*)", line)
        if match:
            found.append((int(match[1], 16), match[2], match[3].split("#")[0].split("<")[0].strip()))
    code = {at: (name, operands, found[i + 1][0] if i + 1 < len(found) else None)
            for i, (at, name, operands) in enumerate(found)}
    exported = {}
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) >= 6 and any(field.startswith(".text") for field in fields):
            exported[fields[-1]] = int(fields[0], 16)
    return code, exported


def memory_access(name, operands):
    """(loads, stores) of one instruction in AT&T syntax."""
    base = name.split()[-1]
    if base.startswith(("lea", "nop", "j", "ret", "prefetch")):
        return 0, 0
    if base.startswith("push"):
        return 0, 1
    if base.startswith("pop"):
        return 1, 0
    parts = re.split(r",(?![^(]*\))", operands)
    is_memory = ["(" in part or part.startswith(("%fs:", "%gs:")) for part in parts]
    if not any(is_memory):
        return 0, 0
    if base.startswith("call"):
        return 1, 0
    if len(parts) > 1 and not is_memory[-1] or base.startswith(("test", "bt")) or re.match(r"cmp[bwlq]?$", base):
        return 1, 0
    return (0, 1) if base.startswith(("mov", "set")) else (1, 1)


def walk(library, function, taken):
    """The mnemonics and operands on the path from the entry of a function to its return."""
    code, symbols = disassemble(library)
    at, branches = symbols[function], 0
    for _ in range(200):
        name, operands, following = code[at]
        base = name.split()[-1]
        yield name, operands
        if base.startswith("ret"):
            return
        at = following
        if base.startswith("jmp"):
            assert re.fullmatch(r"[0-9a-f]+", operands), f"{function} leaves the library: {name} {operands}"
            at = int(operands, 16)
        elif base.startswith("j"):
            at = int(operands, 16) if branches in taken else following
            branches += 1
    pytest.fail(f"{function} does not return")


def hit_path(library, function, taken):
    """Counts along that path."""
    count = dict.fromkeys(COLUMNS, 0)
    for name, operands in walk(library, function, taken):
        base = name.split()[-1]
        loads, stores = memory_access(name, operands)
        count["instructions"] += 1
        count["loads"] += loads
        count["stores"] += stores
        count["locked"] += "lock" in name.split() or (base.startswith("xchg") and "(" in operands)
        count["calls"] += base.startswith("call")
        count["branches"] += base.startswith("j") and not base.startswith("jmp")
    return count


def compiler(library):
    """The name and version of the compiler, as in "GCC 12.2"."""
    text = run("objdump", "-s", "-j", ".comment", library)
    raw = bytes.fromhex("".join("".join(line[1:].split(" ", 1)[1][:35].split()) for line in text.splitlines()
                                if re.match(r" [0-9a-f]+ ", line)))
    match = re.search(rb"(GCC|clang)\D*?(?:\([^)]*\))? ?(?:version )?(\d+\.\d+)", raw)
    assert match, raw
    return f"{match[1].decode()} {match[2].decode()}"


def read_golden():
    """{compiler: {path: counts}}"""
    sections, current = {}, None
    for line in GOLDEN.read_text().splitlines() if GOLDEN.exists() else ():
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "compiler":
            current = sections.setdefault(" ".join(words[1:]), {})
        else:
            current[words[0]] = dict(zip(COLUMNS, map(int, words[1:])))
    return sections


def write_golden(sections):
    lines = ["# Instructions on the hit paths of the release library, x86-64, by compiler.",
             "# Written by MI_UPDATE_GOLDEN=1; a change of a number needs a reason in the commit.", ""]
    for name in sorted(sections):
        lines += [f"compiler {name}", f"{'# path':<16}" + "".join(f"{column:>14}" for column in COLUMNS)]
        lines += [f"{path:<16}" + "".join(f"{counts[column]:>14}" for column in COLUMNS)
                  for path, counts in sections[name].items()] + [""]
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text("\n".join(lines).rstrip() + "\n")


@pytest.mark.parametrize("path", BOUNDS[64])
def test_hit_path_is_short(path, either_library, figure):
    """Every allocation of every program runs through these instructions."""
    width = measure.bits(either_library)
    count = hit_path(either_library, *PATHS[path])
    measure.say(figure, f"instructions of a hit, {path}{measure.kind(either_library)}", count["instructions"],
                f"{BOUNDS[width][path]}; branches {count['branches']} of {BRANCHES_MAX}")
    assert count["instructions"] <= BOUNDS[width][path]
    assert count["branches"] <= BRANCHES_MAX
    assert count["calls"] <= CALLS[width] and count["locked"] == 0
    if width == 32:
        assert not [name for name, _ in walk(either_library, *PATHS[path]) if WIDE.match(name)]
        assert any(WIDE.match(name) for name, _, _ in disassemble(either_library)[0].values()), "the control: elsewhere there are some"


def test_hit_paths_are_as_recorded(library):
    """A fast path that grows by one instruction is noticed by nobody but this test."""
    here = {path: hit_path(library, *where) for path, where in PATHS.items()}
    sections, name = read_golden(), compiler(library)
    if os.environ.get("MI_UPDATE_GOLDEN") == "1":
        sections[name] = here
        write_golden(sections)
    if name not in sections:
        pytest.skip(f"no counts are recorded for {name}; MI_UPDATE_GOLDEN=1 records them")
    assert here == sections[name]


def test_hit_path_sees_what_it_counts():
    """The control of the two tests above: the words that stand for a locked instruction, loads and stores."""
    assert memory_access("lock cmpxchg", "%rcx,0x40(%rdx)") == (1, 1)
    assert memory_access("mov", "%fs:0x0,%rax") == (1, 0)
    assert memory_access("mov", "(%rax,%rdx,8),%rcx") == (1, 0)
    assert memory_access("mov", "%rcx,(%rax,%rdx,8)") == (0, 1)
    assert memory_access("cmp", "%rcx,%fs:0x0") == (1, 0)
    assert memory_access("subl", "$0x1,0x10(%rdx,%rax,1)") == (1, 1)
    assert memory_access("lea", "0x7(%rdi),%rax") == (0, 0)
    assert memory_access("ret", "") == (0, 0)


def test_cold_lists_are_fetched(library):
    """If this fails, each malloc in a large heap of which most was freed waits for a cache miss (REFILL-6), and each free that makes
    holes for as many as the page has blocks: gcc drops calls of functions that do nothing but fetch."""
    seen, name = set(), ""
    for line in run(find("objdump"), "-d", "-w", "--no-show-raw-insn", library).splitlines():
        match = re.match(r"[0-9a-f]+ <(\w+)", line)
        name = match[1] if match else name
        if "\tprefetch" in line:
            seen.add(name)
    assert any(name.startswith("mi_refill_") for name in seen), seen
    assert any(name.startswith("mi_hole_") for name in seen), seen


# -- Counted by running

def class_sizes():
    """One request size of every class up to the largest, the largest request of each."""
    sizes, top = [8, *range(16, 129, 16)], 128
    while top < CLASS_MAX:
        sizes += [top + top // 8 * eighth for eighth in range(1, 9)]
        top *= 2
    return sizes


def counted(folder, calls, *command):
    """Instructions of each call of the function `measured` of a program."""
    run(find("valgrind"), "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}", "--toggle-collect=measured",
        "--dump-after=measured", *command)
    return [int(re.search(r"^totals: (\d+)", (folder / f"out.{i + 1}").read_text(), re.M)[1]) for i in range(calls)]


def pair_costs(library, pattern, sizes, folder, rounds=ROUNDS):
    """{size: instructions of a malloc and a free, without the loop around them}"""
    total = counted(folder, 3 * len(sizes), measure.program("pair", library), rounds, *(f"{pattern}:{size}" for size in sizes))
    # Three calls for each size: to warm up, with malloc and free, and with two functions that only return,
    # whose two instructions belong to the loop's cost no more than malloc's own return does.
    return {size: (total[3 * i + 1] - total[3 * i + 2]) / (rounds * 100) + 2 for i, size in enumerate(sizes)}


def highest(costs, low, high):
    size = max((s for s in costs if low <= s <= high), key=costs.get)
    return costs[size], size


@pytest.mark.slow
def test_pair_is_cheap(either_library, figure, tmp_path):
    """A loop that allocates and frees is what programs spend their time in malloc with."""
    width, kind = measure.bits(either_library), measure.kind(either_library)
    costs = pair_costs(either_library, "pair", class_sizes(), tmp_path, ROUNDS_BOUND)
    small, small_size = highest(costs, 16, SMALL_MAX)
    all_of, all_size = highest(costs, 8, CLASS_MAX)
    measure.say(figure, f"instructions of a pair{kind}, 16 B to 1 KiB, highest at {small_size} B", f"{small:.2f}",
                PAIR_BOUND_SMALL[width])
    measure.say(figure, f"instructions of a pair{kind}, up to 512 KiB, highest at {all_size} B", f"{all_of:.2f}",
                PAIR_BOUND[width])
    assert small <= PAIR_BOUND_SMALL[width]
    assert all_of <= PAIR_BOUND[width]


@pytest.mark.slow
def test_large_pair_is_cheap(either_library, figure, tmp_path):
    """A program that needs a large buffer for each request. 370 if the block goes through the whole slow path."""
    width, kind = measure.bits(either_library), measure.kind(either_library)
    costs = pair_costs(either_library, "pair", LARGE, tmp_path, ROUNDS_BOUND)
    value, size = highest(costs, LARGE[0], LARGE[-1])
    measure.say(figure, f"instructions of a pair{kind}, 600 KiB to 8 MiB, highest at {size} B", f"{value:.1f}", LARGE_BOUND[width])
    assert value <= LARGE_BOUND[width]


@pytest.mark.slow
def test_replacement_is_cheap(either_library, figure, tmp_path):
    """A program that keeps many blocks of one size, and replaces now one and now another, spends its time here."""
    width, kind = measure.bits(either_library), measure.kind(either_library)
    costs = pair_costs(either_library, "replace", class_sizes(), tmp_path, ROUNDS_BOUND)
    value, size = highest(costs, 8, REPLACE_MAX)
    measure.say(figure, f"instructions of a replacement in a full heap{kind}, up to 32 KiB, highest at {size} B",
                f"{value:.1f}", REPLACE_BOUND[width])
    value_above, size_above = highest(costs, REPLACE_MAX + 1, CLASS_MAX)
    measure.say(figure, f"instructions of a replacement in a full heap{kind}, up to 512 KiB, highest at {size_above} B",
                f"{value_above:.1f}", REPLACE_BOUND_ABOVE[width])
    assert value <= REPLACE_BOUND[width]
    assert value_above <= REPLACE_BOUND_ABOVE[width]


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["held", "batch", "stack"])
def test_pair_in_other_patterns(pattern, library, figure, tmp_path):
    """Not promised, but a user meets these patterns too: the figures show where we stand."""
    costs = pair_costs(library, pattern, class_sizes(), tmp_path)
    for low, high, name in ((8, SMALL_MAX, "up to 1 KiB"), (SMALL_MAX + 1, CLASS_MAX, "1 KiB to 512 KiB")):
        value, size = highest(costs, low, high)
        typical = sorted(cost for s, cost in costs.items() if low <= s <= high)
        measure.say(figure, f"instructions of a pair, pattern {pattern}, {name}",
                    f"median {typical[len(typical) // 2]:.1f}, highest {value:.1f} at {size} B", "none")


@pytest.mark.slow
def test_pair_makes_no_page_and_no_system_call(library, figure):
    """A page made and given back for every pair, or a system call, costs a hundred times the pair."""
    sizes = class_sizes()
    command = measure.program("pair", library), 0, *(f"pair:{size}" for size in sizes)
    phases = measure.trace("calls", *command)
    made = [int(line.split()[1]) for line in run(measure.program("trace"), "calls", *command, apart=True).splitlines()]
    measure.say(figure, "system calls of 500,000 pairs, every class", phases["pairs"], 0)
    measure.say(figure, "pages made by 500,000 pairs, every class", max(made), 0)
    assert len(made) == len(sizes) and not any(made)
    assert phases["pairs"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEAP_BOUNDS)
def test_a_heap_that_comes_and_goes_is_cheap(kind, library, figure, tmp_path):
    """Language run-times have a heap for each request, module or arena of objects, and many of them."""
    total = counted(tmp_path, 4, measure.program("heaps", library), HEAP_ROUNDS, f"{kind}:0", f"{kind}:{HEAP_OTHERS}")
    alone, among = total[1] / HEAP_ROUNDS, total[3] / HEAP_ROUNDS
    measure.say(figure, f"instructions of a heap with a block, made and ended by mi_heap_{kind}", f"{alone:.0f}", HEAP_BOUNDS[kind])
    measure.say(figure, f"the same while {HEAP_OTHERS} other heaps exist", f"{among / alone:.3f} times", HEAP_OTHERS_BOUND)
    assert alone <= HEAP_BOUNDS[kind]
    assert among <= HEAP_OTHERS_BOUND * alone


@pytest.mark.slow
def test_to_end_a_heap_costs_the_same_among_many_that_end(library, figure, tmp_path):
    """A server that drops a heap for each of its sessions, here and there: a thread frees what it had in those that ended."""
    total = counted(tmp_path, len(HEAPS_THAT_END), measure.program("heaps", library), 0, *(f"end:{count}" for count in HEAPS_THAT_END))
    few, many = (instructions / count for instructions, count in zip(total, HEAPS_THAT_END))
    row = "instructions to end one of {1:,} heaps by mi_heap_destroy, of those for one of {0:,}".format(*HEAPS_THAT_END)
    measure.say(figure, row, f"{many / few:.3f} times", HEAPS_THAT_END_BOUND)
    assert many <= HEAPS_THAT_END_BOUND * few


@pytest.mark.slow
def test_a_visit_costs_what_there_is_to_visit(library, figure, tmp_path):
    """A heap analysis of a server with 1,600 threads took ten seconds, in which nobody may allocate."""
    total = counted(tmp_path, len(VISIT_THREADS), measure.program("visits", library), 0, *VISIT_THREADS)
    few, many = (instructions / count for instructions, count in zip(total, VISIT_THREADS))
    row = "instructions of a visit for each of {1} threads, of those for each of {0}".format(*VISIT_THREADS)
    measure.say(figure, row, f"{many / few:.3f} times", VISIT_BOUND)
    assert many <= VISIT_BOUND * few


@pytest.mark.slow
def test_secure_pair_is_bounded(figure, tmp_path):
    """What a secure build adds to each malloc and free, so that it can be left on."""
    library = conftest.compiled(tmp_path, "secure", "-DMI_SECURE=4")
    costs = pair_costs(library, "pair", [size - 1 for size in class_sizes() if 16 <= size <= SMALL_MAX], tmp_path)
    value, size = highest(costs, 8, SMALL_MAX)
    measure.say(figure, f"instructions of a pair in a secure build, 16 B to 1 KiB, highest at {size} B", f"{value:.1f}",
                SECURE_BOUND)
    assert value <= SECURE_BOUND


@pytest.mark.slow
def test_waiting_for_a_guarded_block_is_free(library, figure, tmp_path, monkeypatch):
    """Guards can be left on in production only if the blocks between two samples cost what they always do."""
    sizes = [16, 64, 256, SMALL_MAX, 8192, 65536]
    without = pair_costs(library, "held", sizes, tmp_path)
    monkeypatch.setenv("MIMALLOC_GUARDED_SAMPLE_RATE", "4000")
    monkeypatch.setenv("MIMALLOC_GUARDED_MAX", "1")  # each sample is drawn, and none of these gets guards
    guarded = pair_costs(library, "held", sizes, tmp_path)
    ratio = max(guarded[size] / without[size] for size in sizes)
    measure.say(figure, "instructions of a pair with guards on, between two samples, to those without", f"{ratio:.3f}", GUARDED_BOUND)
    assert ratio <= GUARDED_BOUND
