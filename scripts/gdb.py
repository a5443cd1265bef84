"""What an address is, in a core dump or a stopped program: block, neighbours, page and heap.

    (gdb) source scripts/gdb.py
    (gdb) mi 0x20000000140

Needs a library or program with debug information (-g). Says what mi_describe says, from the same structures, and by the
same rules: src/core/common/describe.c knows, explain.c has the words. Nothing is called in the program. What lies at the
ends of slots in builds with notes or canaries is decoded as in note.h and slack.h of that folder.
"""
import gdb

# src/core/common/types.h and mark.h; macros are not in the debug information.
OWNER_NONE, OWNER_INTERIOR, OWNER_MAX_SPECIAL = 0, 2, 15
OWNER_PARKED, OWNER_FLAGS = 1, 1 | 4 | 8
REMOTE_OWNED, REMOTE_POOLED = 1, 2
PLACES = ("in none of its lists", "which allocates from it", "in its queue", "which frees into it")
PLACE_CURRENT = 1
PARTS = 16
MARK_USED, MARK_PLAIN, MARK_SHIFT, MARK_WINDOW_SHIFT = 0x80, 0x7E, 4, 27
NOTE_INVERSE, NOTE_KEY, NOTE_FREED, NOTE_SIZE = 0xF1DE83E19937733D, 0x5DEECE66D6A09E66, 1 << 63, 16
CANARY_SIZE, CANARY_FAR, CANARY_NONE_SIZE = 8, 0x78, 16
DESCRIBE_WINDOWS, DESCRIBE_SLICES = 16, 1024
WORD = 1 << 64
NONE, UNKNOWN, FRESH, USED, FREE = "none", "not known whether in use", "never handed out", "in use", "free"


def number(value):
    """Of a field, which may be atomic."""
    return int(value.cast(gdb.lookup_type("unsigned long"))) if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR \
        else int(value)


def symbol(name):
    return gdb.lookup_global_symbol(name) or gdb.lookup_static_symbol(name)


def variable(name):
    found = symbol(name)
    if found is None:
        raise gdb.GdbError(f"mi: no {name}: the library is not there, or has no debug information (build it with -g)")
    return found.value()


def has_type(name):
    try:
        return gdb.lookup_type(name) is not None
    except gdb.error:
        return False


def read(address, size):
    """Bytes of the program, or None."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except (gdb.MemoryError, OverflowError):
        return None


def words(text):
    return [int.from_bytes(text[i:i + 8], "little") for i in range(0, len(text), 8)]


class Map:
    """The page map, and what the build knows of blocks."""

    def __init__(self):
        self.pagemap = variable("mi_pagemap")
        none = self.pagemap["none"]
        self.none = int(none.address)
        self.page = none[0].type
        self.slices = none.type.sizeof // self.page.sizeof
        windows = self.pagemap["window"].type.sizeof // 8
        is_arm = "aarch64" in gdb.selected_inferior().architecture().name()
        bits = 48 if is_arm else 47  # MI_ADDRESS_BITS
        self.address_bits = 56 if is_arm else 64  # those that the processor does not ignore
        self.window_shift = bits - (windows.bit_length() - 1)
        self.slice_shift = self.window_shift - (self.slices.bit_length() - 1)
        self.slice_size = 1 << self.slice_shift
        self.limit = 1 << bits
        self.classes = gdb.lookup_type("mi_theap_t").strip_typedefs()["free"].type.sizeof // 8
        self.is_secure = symbol("mi_marks") is not None
        self.has_notes = has_type("mi_note_t")
        self.has_canary = symbol("mi_canary_refuse") is not None

    def window(self, index):
        return number(self.pagemap["window"][index])

    def descriptor(self, address):
        """The address of the descriptor of a slice; there is a window."""
        # Modulo 2^64: the near descriptors are in front of `none` (PAGEMAP-4).
        at = (self.none + self.window(address >> self.window_shift)) % WORD
        return at + (address >> self.slice_shift) % self.slices * self.page.sizeof

    def is_descriptor(self, at, address):
        last = address >> self.window_shift
        for index in range(max(last - DESCRIBE_WINDOWS, 0), last + 1):
            window = self.window(index)
            offset = (at - (self.none + window)) % WORD
            if window != 0 and offset < self.slices * self.page.sizeof:
                return offset % self.page.sizeof == 0
        return False

    def mark(self, address, behind=0):
        base = number(variable("mi_marks")["base"][address >> MARK_WINDOW_SHIFT])
        found = read((base + (address >> MARK_SHIFT) + behind) % WORD, 1) if base != 0 else None
        return found[0] if found else 0


class Page:
    """A copy of what a descriptor says."""

    def __init__(self, pagemap, at):
        page = gdb.Value(at).cast(pagemap.page.pointer()).dereference()
        self.map, self.at = pagemap, at
        self.owner, self.remote, self.place = number(page["owner"]), number(page["thread_free"]), number(page["place"])
        self.start, self.slices = number(page["start"]), number(page["slice_count"])
        self.size, self.reserved = number(page["block_size"]), number(page["reserved"])
        self.size_class = number(page["size_class"])
        self.capacity = max(number(page["refilled"]["used"]), 1) - 1
        self.used = number(page["count"]["used"]) + number(page["bias"])
        if self.place == PLACE_CURRENT and self.used > 0:
            self.used -= 1
        self.holes = number(page["holes"])
        self.first, self.heap = number(page["first"]), number(page["heap"])
        self.is_single = self.size_class == pagemap.classes
        self.shift = number(page["shift"]) if self.is_single else 0

    def bytes(self):
        return self.slices * self.map.slice_size

    def has(self, address):
        return 0 <= address - self.start < self.bytes()

    def leave_out_holes(self):
        """Blocks that touch a hole (src/core/pages/hole.c) count as used, but are free."""
        if self.is_single or self.holes == 0:
            return
        os_page = number(variable("mi_state")["os"]["page_size"])
        part = -(-(self.bytes() // PARTS) // os_page) * os_page
        blocks = ((i * self.size // part, ((i + 1) * self.size - 1) // part + 1) for i in range(self.reserved))
        self.used -= min(sum(1 for first, end in blocks if self.holes >> first & (1 << end - first) - 1), self.used)

    def is_sound(self):
        if self.start == 0 or self.start >= self.map.limit or self.start % self.map.slice_size != 0:
            return False
        if self.map.descriptor(self.start) != self.at or self.slices == 0:
            return False
        if self.place >= len(PLACES) or self.size_class > self.map.classes:
            return False
        if self.is_single:
            return self.size <= self.bytes() and self.shift < self.size
        return self.size == class_size(self.size_class) and self.capacity <= self.reserved and \
            self.reserved * self.size <= self.bytes()


class Block:
    """A block of a page, or none: its start and size as the program has it, and its state."""

    def __init__(self, page, index):
        self.state, self.size = NONE, None
        if not 0 <= index < (1 if page.is_single else page.reserved):
            return
        slot = page.start + index * page.size
        self.start = slot + page.shift
        self.state = self.state_of(page, index)
        if self.state == FRESH:
            return
        if page.map.has_notes:
            self.add_note(page, slot)
        elif page.map.has_canary:
            self.add_canary(page, slot + page.size)

    def state_of(self, page, index):
        if not page.is_single and index >= page.capacity:
            return FRESH
        if page.map.is_secure:
            mark = page.map.mark(self.start)
            return UNKNOWN if mark == 0 else USED if mark & MARK_USED else FREE
        if page.is_single:
            return USED
        return FREE if page.used == 0 else UNKNOWN

    def add_note(self, page, slot):
        end = slot + page.size - NOTE_SIZE
        text = read(end, NOTE_SIZE)
        if text is None:
            return
        word, size_word = ((code * NOTE_INVERSE - NOTE_KEY) % WORD for code in words(text))
        block, size = word & ~NOTE_FREED, size_word & ~NOTE_FREED
        is_known = (word ^ size_word) & NOTE_FREED == 0 and slot <= block <= end and size <= end - block
        if is_known:
            self.start, self.size = block, size
        if page.map.is_secure:
            return
        if is_known:
            self.state = FREE if word & NOTE_FREED else USED
        if not any(text):
            self.state = FRESH

    def add_canary(self, page, end):
        room = end - self.start
        if self.state != USED or room <= CANARY_NONE_SIZE:
            return
        if page.map.mark(self.start, behind=1) == MARK_PLAIN:
            self.size = room
            return
        text = read(end - 2 * CANARY_SIZE, 2 * CANARY_SIZE)
        if text is None:
            return
        secret = variable("mi_secret")
        key = (self.start * number(secret["block_factor"]) % WORD ^ number(secret["block"])) | 0x8080808080808080
        far, last = (word ^ key for word in words(text))
        told = last >> 56
        if not 1 <= told <= CANARY_FAR or last.to_bytes(8, "big")[:min(told, CANARY_SIZE)] != bytes([told]) * min(told, CANARY_SIZE):
            return
        slack = far if told == CANARY_FAR else told
        if slack <= room:
            self.size = room - slack

    def text(self):
        asked = f"{self.size} bytes asked for, " if self.size is not None else ""
        return f"{self.start:#x}, {asked}{self.state}"


def class_size(size_class):
    if size_class <= 8:
        return size_class * 16 or 8
    return (9 + (size_class - 9) % 8) << ((size_class - 9) // 8 + 4)


def describe_block(page, index, block, address):
    if block.state == NONE:
        return "behind the last block, "
    at = page.start + (page.shift if page.is_single else index * page.size)
    text = f"block {index} of {1 if page.is_single else page.reserved} at {at:#x} of {page.size - page.shift} bytes"
    if address != at:
        text += f", {address - at} bytes into it" if address > at else f", {at - address} bytes before it"
    if block.state == FRESH or (page.map.is_secure and block.state != UNKNOWN):
        text += f", {block.state}"
    return text + "; "


def describe_page(page):
    kib = page.bytes() >> 10
    if page.is_single:
        return f"page of its own at {page.start:#x} of {kib} KiB"
    text = f"page at {page.start:#x} of {kib} KiB, {page.used} of {page.capacity} blocks in use, "
    thread = page.owner & ~OWNER_FLAGS
    if page.owner <= OWNER_MAX_SPECIAL:
        text += "left by a thread that ended" if page.remote & REMOTE_OWNED else "of no thread"
    elif page.remote & REMOTE_OWNED and not page.owner & OWNER_PARKED:
        text += f"of thread {thread:#x}, {PLACES[page.place]}"
    else:
        text += f"parked by thread {thread:#x}"
    return text + (", pooled" if page.remote & REMOTE_POOLED else "")


def is_ours(at, size):
    """In the memory of the library's own structures (meta.c)."""
    entry = variable("mi_meta_maps")
    while at % 8 == 0 and int(entry) != 0:
        if 0 <= at - number(entry["start"]) <= number(entry["size"]) - size:
            return True
        entry = entry["next"]
    return False


def describe_heap(page):
    heap_type, main = gdb.lookup_type("mi_heap_t"), variable("mi_state")["main"]
    unknown = f"heap not known, at {page.heap:#x}"
    if page.heap != int(main["heap_main"].address) and not is_ours(page.heap, heap_type.sizeof):
        return unknown
    heap = gdb.Value(page.heap).cast(heap_type.pointer()).dereference()
    subproc = number(heap["subproc"])
    if subproc != int(main.address) and not is_ours(subproc, main.type.sizeof):
        return unknown
    text = "main heap" if heap["is_main"] else f"heap {number(heap['sequence'])} at {page.heap:#x}"
    if not heap["is_main"] and number(heap["link"]) == 0:
        text += ", which has ended"
    sequence = number(heap["subproc"].dereference()["sequence"])
    return text + (f" of sub-process {sequence}" if sequence else "")


def describe_lines(page, block, before, behind, address):
    """The lines below the first."""
    if block.state == NONE:
        yield "block:  none; the address is behind the last block of its page"
    else:
        offset, text = address - block.start, block.text()
        if offset < 0:
            text += f"; the address is {-offset} bytes before it"
        elif offset > 0 and block.size is not None and offset >= block.size:
            text += f"; the address is {offset - block.size} bytes behind its end"
        elif offset > 0:
            text += f"; the address is {offset} bytes into it"
        yield f"block:  {text}"
    for name, neighbour, end in (("before", before, "first"), ("behind", behind, "last")):
        none = "the block has a page of its own" if page.is_single else f"the block is the {end} of its page"
        yield f"{name}: " + (f"none; {none}" if neighbour.state == NONE else neighbour.text())


def describe_in(pagemap, at, address):
    """An address that should be in the page of a descriptor."""
    if not pagemap.is_descriptor(at, address):
        return f"the page is damaged: descriptor {at:#x}, start 0x0, 0 slices, blocks of size 0"
    page = Page(pagemap, at)
    if not page.is_sound() or not page.has(address):
        return f"the page is damaged: descriptor {at:#x}, start {page.start:#x}, {page.slices} slices, " \
               f"blocks of size {page.size}"
    page.leave_out_holes()
    index = 0 if page.is_single else (address - page.start) // page.size
    block = Block(page, index)
    alone = Block(page, -1)
    before, behind = (alone, alone) if page.is_single else (Block(page, index - 1), Block(page, index + 1))
    first = describe_block(page, index, block, address) + describe_page(page) + "; " + describe_heap(page)
    return "\n  ".join([first, *describe_lines(page, block, before, behind, address)])


def describe_gap(pagemap, address):
    """An address whose slice has no owner: in a large block, or where a page was before."""
    past = None
    start = address - address % pagemap.slice_size
    for at in range(start, max(start - DESCRIBE_SLICES * pagemap.slice_size, 0), -pagemap.slice_size):
        if pagemap.window(at >> pagemap.window_shift) == 0:
            continue  # no descriptor
        page = Page(pagemap, pagemap.descriptor(at))
        if page.owner == OWNER_INTERIOR:
            break
        is_there = page.start == at and page.is_sound() and page.has(address)
        if page.owner != OWNER_NONE:
            if is_there:
                return describe_in(pagemap, page.at, address)
            break
        if is_there and past is None:
            past = page
    if past is None:
        return "the address is not ours"
    return f"nothing is in use there; last was a page at {past.start:#x}, blocks of {past.size - past.shift} bytes"


def describe(address):
    pagemap = Map()
    address %= 1 << pagemap.address_bits
    if address == 0 or address >= pagemap.limit:
        return "the address is not ours"
    page = Page(pagemap, pagemap.descriptor(address))
    if page.owner == OWNER_NONE:
        return describe_gap(pagemap, address)
    return describe_in(pagemap, page.first if page.owner == OWNER_INTERIOR else page.at, address)


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
