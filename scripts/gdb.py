"""What an address is, in a core dump or a stopped program: block, page and heap.

    (gdb) source scripts/gdb.py
    (gdb) mi 0x20000000140

Needs a library or program with debug information (-g). Says what src/core/common/describe.c says in reports, from the
same structures: an address leads to a descriptor as in src/core/common/pagemap.h. Nothing is called in the program.
"""
import gdb

# src/core/common/types.h; macros are not in the debug information.
OWNER_NONE, OWNER_INTERIOR, OWNER_SINGLE, OWNER_MAX_SPECIAL = 0, 2, 6, 15
OWNER_PARKED, OWNER_FLAGS = 1, 1 | 8
REMOTE_OWNED, REMOTE_POOLED = 1, 2
PLACES = ("in none of its lists", "which allocates from it", "in its queue", "which frees into it")


def number(value):
    """Of a field, which may be atomic."""
    return int(value.cast(gdb.lookup_type("unsigned long"))) if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR \
        else int(value)


def variable(name):
    symbol = gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)
    if symbol is None:
        raise gdb.GdbError(f"mi: no {name}: the library is not there, or has no debug information (build it with -g)")
    return symbol.value()


class Map:
    def __init__(self):
        self.pagemap = variable("mi_pagemap")
        none = self.pagemap["none"]
        self.page = none[0].type
        self.slices = none.type.sizeof // self.page.sizeof
        windows = self.pagemap["window"].type.sizeof // 8
        bits = 48 if "aarch64" in gdb.selected_inferior().architecture().name() else 47  # MI_ADDRESS_BITS
        self.window_shift = bits - (windows.bit_length() - 1)
        self.slice_shift = self.window_shift - (self.slices.bit_length() - 1)
        self.limit = 1 << bits

    def descriptor(self, address):
        """The descriptor of the slice of an address, or None: no window."""
        if address >= self.limit:
            return None
        window = number(self.pagemap["window"][address >> self.window_shift])
        if window == 0:
            return None
        # Modulo 2^64: the near descriptors are in front of `none` (PAGEMAP-4).
        at = (int(self.pagemap["none"].address) + window) % (1 << 64)
        at += (address >> self.slice_shift) % self.slices * self.page.sizeof
        return gdb.Value(at).cast(self.page.pointer()).dereference()


def describe_block(page, address):
    start, size = number(page["start"]), number(page["block_size"])
    offset = address - start
    is_single = number(page["owner"]) == OWNER_SINGLE
    index = 0 if is_single else offset // size
    at = number(page["shift"]) if is_single else index * size
    reserved = 1 if is_single else number(page["reserved"])
    if index >= reserved:
        return "behind the last block"
    text = f"block {index} of {reserved} at {start + at:#x} of {size - (at if is_single else 0)} bytes"
    if offset != at:
        text += f", {offset - at} bytes into it" if offset > at else f", {at - offset} bytes before it"
    return text


def describe_page(page):
    owner, word, place = number(page["owner"]), number(page["thread_free"]), number(page["place"])
    kib = number(page["slice_count"]) << Map().slice_shift >> 10
    if owner == OWNER_SINGLE:
        return f"page of its own at {number(page['start']):#x} of {kib} KiB"
    used = number(page["count"]["used"]) - (1 if place == 1 else 0)
    text = f"page at {number(page['start']):#x} of {kib} KiB, {used} of " \
           f"{number(page['refilled']['used']) - 1} blocks in use, "
    if owner <= OWNER_MAX_SPECIAL:
        text += "left by a thread that ended" if word & REMOTE_OWNED else "of no thread"
    elif word & REMOTE_OWNED and not owner & OWNER_PARKED:
        text += f"of thread {owner & ~OWNER_FLAGS:#x}, {PLACES[place] if place < len(PLACES) else f'place {place}'}"
    else:
        text += f"parked by thread {owner & ~OWNER_FLAGS:#x}"
    return text + (", pooled" if word & REMOTE_POOLED else "")


def describe_heap(page):
    at = number(page["heap"])
    heap = gdb.Value(at).cast(gdb.lookup_type("mi_heap_t").pointer()).dereference()
    text = "main heap" if heap["is_main"] else f"heap {number(heap['sequence'])} at {at:#x}"
    if not heap["is_main"] and number(heap["link"]) == 0:
        text += ", which has ended"
    sequence = number(heap["subproc"].dereference()["sequence"])
    return text + (f" of sub-process {sequence}" if sequence else "")


def describe(address):
    pagemap = Map()
    page = pagemap.descriptor(address)
    if page is None:
        return "the address is not ours"
    if number(page["owner"]) == OWNER_INTERIOR:
        page = page["first"].dereference()
    if number(page["owner"]) == OWNER_NONE:
        if number(page["start"]) == 0:
            return "the address is not ours"
        return f"nothing is in use there; last was a page at {number(page['start']):#x}, " \
               f"blocks of {number(page['block_size'])} bytes"
    parts = [describe_block(page, address), describe_page(page)]
    try:
        parts.append(describe_heap(page))
    except gdb.MemoryError:
        parts.append(f"heap not known, at {number(page['heap']):#x}")
    return "; ".join(parts)


class Command(gdb.Command):
    """Say which block, page and heap of mimalloc an address belongs to: mi ADDRESS"""

    def __init__(self):
        super().__init__("mi", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("mi: which address? For example: mi p, or mi 0x20000000140")
        address = int(gdb.parse_and_eval(argument).cast(gdb.lookup_type("unsigned long")))
        try:
            print(f"{address:#x}: {describe(address)}")
        except gdb.MemoryError as error:
            raise gdb.GdbError(f"mi: the structures cannot be read: {error}") from error


Command()
