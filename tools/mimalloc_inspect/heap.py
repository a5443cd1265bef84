# SPDX-License-Identifier: MIT
"""A walk over what the library has: facts, nothing added up. The rules of the package (__init__.py) hold here above all.

    sub-processes -> arenas -> bitmaps, descriptors -> pages -> marks (secure builds) or lists of free blocks
                  -> the book of pages outside arenas            theaps -> lists that malloc takes from
    page.heap -> heaps      call sites of a profile            our own structures

What is in use of a page is what its owner counts, less the free blocks that count as used: those of the list that a theap
allocates from, those that other threads freed, and those that touch a hole. In a secure build the marks say it for each block.
What stays in doubt: blocks that a thread frees for another and still collects (at most 32, of at most 1 KiB, for each
thread), which are known to that thread alone; and guarded blocks that were freed, whose memory is kept: they count as free.
"""
import collections
import contextlib
import struct

from .target import Unreadable

INTERIOR, MAX_SPECIAL, OWNER_FLAGS = 2, 15, 1 | 4 | 8
REMOTE_POOLED, REMOTE_BITS = 2, 7
PLACE_CURRENT = 1
STAGE_READY = 1
MARK_WINDOW_SHIFT, MARK_SHIFT = 27, 4
GUARD_FREED = 2
SPARE_BITS = 24
# More than any sound process has: what is longer is damaged.
SUBPROCS_MAX, ARENAS_MAX, THEAPS_MAX, OTHERS_MAX, SITES_MAX, FRAMES_MAX, METAS_MAX = 1 << 16, 1 << 14, 1 << 17, 1 << 16, 1 << 18, 64, 1 << 20
SLICES_MAX, DIRECT_MAX, PORTION_MAX, LINKS_MAX = 1 << 25, 1 << 22, 4096, 1 << 14
NEAR_MAX = 64  # slices that are kept while lists are followed
WARNINGS_MAX = 50

# kind: shared (blocks of one size), own (one block), sample, guarded; live is blocks in use, count is blocks that were carved.
Page = collections.namedtuple("Page", "start slices kind size live count owner is_pooled heap subproc resident arena")
# free: a byte for each slice, 1 free, 2 waiting to go back; resident: bytes that are resident in each slice.
Arena = collections.namedtuple("Arena", "index subproc start slices flags free resident swapped")
Heap = collections.namedtuple("Heap", "address subproc sequence is_main is_ended")
Site = collections.namedtuple("Site", "count bytes size frames")


class Walk:
    """All that was found."""

    def __init__(self, target, layout):
        self.target, self.layout = target, layout
        self.pages, self.arenas, self.heaps, self.sites, self.theaps = [], [], {}, [], {}
        self.meta, self.seen, self.warnings, self.missed_samples, self.profile_interval = [], [], [], 0, 0
        self.slice = 1 << layout["slice_shift"]
        self.limit = 1 << layout["address_bits"]
        self.wrap = 1 << 8 * layout.word
        self.address_mask = (1 << 56) - 1 if layout.build.is_tagged else self.wrap - 1
        self.windows, self.mark_windows, self.near = {}, {}, {}
        self.page_form, self.page_names = layout.fields(
            "page", owner="P", shift="P", count_used="I", refilled_used="I", refilled_handed="i", reserved="I", size_class="B", place="B",
            bias="H", block_size="P", start="P", thread_free="P", heap="P", sampled="P", guarded="P", slice_count="I",
            holes="H" if layout["part_count"] == 16 else "I")
        self.sizes = [layout.class_size(c) for c in range(layout["class_count"])]
        # Blocks that malloc ever returned, by class (src/core/common/handed.h).
        self.allocated = [0] * layout["class_count"]

    # -- Reading --

    def warn(self, text):
        if len(self.warnings) < WARNINGS_MAX and text not in self.warnings:
            self.warnings.append(text)

    def read(self, address, size, is_watched=False):
        """Bytes; those that are watched are read again at the end, to see whether they have changed."""
        text = self.target.read(address, size)
        if is_watched:
            self.seen.append((address, len(text), hash(text)))
        return text

    def has_changed(self):
        for address, size, known in self.seen:
            try:
                if hash(self.target.read(address, size)) != known:
                    return True
            except Unreadable:
                return True
        return False

    def structure(self, name, address, is_watched=False, **kinds):
        form, names = self.layout.fields(name, **kinds)
        return dict(zip(names, form.unpack(self.read(address, form.size, is_watched))))

    def pointer(self, address):
        return self.layout.array(self.read(address, self.layout.word), 0, 1)[0]

    def chain(self, what, first, most, step):
        """The addresses of a linked list; `step(address)` gives the next one."""
        address, found = first, set()
        while address != 0:
            if address in found or len(found) >= most:
                self.warn(f"the list of {what} has a loop")
                return
            found.add(address)
            yield address
            try:
                address = step(address)
            except Unreadable:
                self.warn(f"the list of {what} leads to {address:#x}, where nothing is")
                return

    # -- All --

    def run(self):
        layout, at = self.layout, self.layout.address["state"]
        state = self.structure("state", at, stage="I", os_page_size="P", window_first="P", window_end="P", orphans="P",
                               profile_interval="P")
        self.is_set_up = state["stage"] == STAGE_READY
        self.profile_interval = state["profile_interval"]
        size = state["os_page_size"]
        self.os_page = size if 4096 <= size <= 1 << 20 and size & size - 1 == 0 else self.target.page_size
        if not self.is_set_up:
            return self
        self.read_theaps(at, state["orphans"])
        subproc = at + layout["state.main"]
        for address in self.chain("sub-processes", subproc, SUBPROCS_MAX, lambda a: self.structure("subproc", a, next="P")["next"]):
            with self.tolerated("a sub-process"):
                self.read_subproc(address)
        self.subtract_lists()
        for address in self.heap_addresses():
            self.read_heap(address)
        self.read_meta(state)
        self.read_sites()
        if self.target.kind == "core":
            # In a page with blocks that were carved there is at least a link.
            lost = sum(page.count > 1 and page.resident == 0 for page in self.pages)
            if lost:
                self.warn(f"the core dump lacks the memory of {lost} pages: gdb leaves out what lies beside inaccessible memory")
        return self

    @contextlib.contextmanager
    def tolerated(self, what):
        try:
            yield
        except Unreadable as error:
            self.warn(f"{what} was left out: {error}")
        except (struct.error, IndexError, OverflowError, ValueError, MemoryError):
            self.warn(f"{what} was left out: it is damaged")

    def read_subproc(self, address):
        own = self.structure("subproc", address, arenas="P", sequence="P", spare="Q", kept="P", direct_used="I")
        count = self.layout["kept_slots"] if own["kept"] else 0
        slots = [self.structure("kept", own["kept"] + i * self.layout["kept"], kept_run="Q") for i in range(count)]
        spares = [self.run_of(word) for word in [own["spare"]] + [slot["kept_run"] for slot in slots] if word]
        for arena in self.chain("arenas", own["arenas"], ARENAS_MAX, lambda a: self.structure("arena", a, next="P")["next"]):
            with self.tolerated(f"the arena at {arena:#x}"):
                self.read_arena(arena, own["sequence"], spares)
        with self.tolerated("the number of blocks ever allocated"):
            size, at = self.layout["of_class"], self.layout["of_class.handed"]
            data = self.read(address + self.layout["subproc.count.of_class"], size * self.layout["class_count"])
            for c in range(self.layout["class_count"]):
                self.allocated[c] += self.layout.array(data, c * size + at, 1, "q")[0]
        with self.tolerated("the list of blocks with a mapping of their own"):
            self.read_book(address, own["direct_used"], own["sequence"])

    # -- Pages --

    def run_of(self, word):
        """A run of slices that is kept, of a sub-process or of a thread: its addresses."""
        start = word >> SPARE_BITS << self.layout["slice_shift"]
        return range(start, start + (word & (1 << SPARE_BITS) - 1) * self.slice)

    def read_arena(self, address, subproc, spares):
        own = self.structure("arena", address, start="P", slice_max="P", word_count="P", slice_count="P", is_pinned="B",
                             is_foreign="B", is_exclusive="B", free="P", purge_young="P", purge_old="P")
        start, count = own["start"], own["slice_count"]
        if start % self.slice or not 0 < count <= min(own["slice_max"], own["word_count"] * 64, SLICES_MAX) or \
                start + count * self.slice > self.limit or not self.target.is_mapped(start, start + count * self.slice):
            self.warn(f"the arena at {address:#x} is damaged: it begins at {start:#x} and has {count} slices")
            return
        size = (count + 63) // 64 * 8
        maps = [self.read(own[name], size, is_watched=True) for name in ("free", "purge_young", "purge_old")]
        # Bits as bytes: 1 for a free slice, 2 for one that waits.
        free = bytearray(unpack_bits(maps[0], count, self.layout.order))
        for waits in maps[1:]:
            for i in positions(unpack_bits(waits, count, self.layout.order)):
                if free[i]:
                    free[i] = 2
        for run in spares:
            for at in range(max(run.start, start), min(run.stop, start + count * self.slice), self.slice):
                free[(at - start) // self.slice] = 2
        present = self.target.resident(start, start + count * self.slice)
        step = self.slice // self.os_page or 1
        resident = [present.count(1, i, i + step) * self.os_page for i in range(0, count * step, step)]
        if self.os_page > self.slice:  # tiny builds on large OS pages: one of them for several slices
            resident = [0] * count
        flags = [name for name in ("pinned", "foreign", "exclusive") if own[f"is_{name}"]]
        arena = Arena(len(self.arenas), subproc, start, count, flags, free, resident,
                      self.target.swapped(start, start + count * self.slice))
        self.arenas.append(arena)
        self.read_descriptors(arena, subproc)

    def table(self, window):
        """Where the descriptors of a window are; None if it has none."""
        if window not in self.windows:
            base = self.layout.address["pagemap"] + self.layout["pagemap.window"]
            entry = self.pointer(base + window * self.layout.word)
            none = self.layout.address["pagemap"] + self.layout["pagemap.none"]
            self.windows[window] = (none + entry) % self.wrap if entry else None
        return self.windows[window]

    def read_descriptors(self, arena, subproc):
        shift = self.layout["window_shift"]
        per_window = 1 << shift - self.layout["slice_shift"]
        i = 0
        while i < arena.slices:
            start = arena.start + i * self.slice
            first = (start >> self.layout["slice_shift"]) % per_window
            count = min(arena.slices - i, per_window - first)
            with self.tolerated(f"the descriptors of {count} slices at {start:#x}"):
                at = self.table(start >> shift)
                if at is None:
                    self.warn(f"the slices at {start:#x} have no descriptors")
                else:
                    self.read_pages(arena, subproc, i, self.read(at + first * self.layout["page"], count * self.layout["page"], True))
            i += count

    def read_pages(self, arena, subproc, first, data):
        names = {name: k for k, name in enumerate(self.page_names)}
        owner_at, start_at, slices_at = names["owner"], names["start"], names["slice_count"]
        base, end = arena.start, arena.start + arena.slices * self.slice
        for i, fields in enumerate(self.page_form.iter_unpack(data), first):
            owner = fields[owner_at]
            if owner == 0 or owner == INTERIOR:
                continue
            start = base + i * self.slice
            if fields[start_at] != start or not 0 < fields[slices_at] <= (end - start) // self.slice:
                self.warn(f"the descriptor of the slice at {start:#x} is damaged, or was being made")
                continue
            self.add_page(dict(zip(self.page_names, fields)), subproc, arena, sum(arena.resident[i:i + fields[slices_at]]))

    def add_page(self, page, subproc, arena, resident):
        slices, size_class = page["slice_count"], page["size_class"]
        is_single = size_class == self.layout["class_count"]
        if size_class > self.layout["class_count"] or (not is_single and page["block_size"] != self.sizes[size_class]):
            self.warn(f"the page at {page['start']:#x} is damaged: class {size_class}, blocks of {page['block_size']} bytes")
            return
        owner = page["owner"] & ~OWNER_FLAGS if page["owner"] > MAX_SPECIAL else 0
        if is_single:
            kind = "guarded" if page["guarded"] else "sample" if page["sampled"] else "own"
            size, live, count = min(page["block_size"], slices * self.slice) - min(page["shift"], page["block_size"]), 1, 1
            if kind == "guarded":
                with contextlib.suppress(Unreadable):
                    if self.structure("guarded", page["guarded"], record_state="I")["record_state"] == GUARD_FREED:
                        live = 0
        else:
            kind, size = "shared", self.sizes[size_class]
            fit = max((slices * self.slice - self.layout["page_fence"]) // size, 1)
            count = min(max(page["refilled_used"], 1) - 1, fit)
            live = self.count_used(page, size, count, slices)
            self.allocated[size_class] += page["refilled_handed"]
        self.pages.append(Page(page["start"], slices, kind, size, live, count, owner, bool(page["thread_free"] & REMOTE_POOLED),
                               page["heap"], subproc, resident, arena.index if arena else None))

    def count_used(self, page, size, count, slices):
        if self.layout.build.secure:
            return self.count_marks(page["start"], size, count)
        used = page["count_used"] + page["bias"] - (page["place"] == PLACE_CURRENT)
        if page["holes"]:
            used -= self.count_missing(page["holes"], slices, size, min(page["reserved"], count))
        first = page["thread_free"] & ~REMOTE_BITS
        if first:
            pushed = self.length(first, page["start"], size, count)
            used -= pushed
            self.allocated[page["size_class"]] -= pushed
        return min(max(used, 0), count)

    def count_missing(self, holes, slices, size, reserved):
        """How many blocks touch a hole (src/core/common/part.c)."""
        parts = self.layout["part_count"]
        part = -(-(slices * self.slice // parts) // self.os_page) * self.os_page
        count, counted = 0, 0
        for i in range(parts):
            if holes >> i & 1:
                first, end = max(i * part // size, counted), min(-(-(i + 1) * part // size), reserved)
                if first < end:
                    count += end - first
                    counted = end
        return count

    def next_of(self, block):
        """The link of a free block."""
        start = block - block % self.slice
        if start not in self.near:
            if len(self.near) >= NEAR_MAX:
                self.near.clear()
            self.near[start] = self.read(start, self.slice)
        word = self.near[start][block - start:block - start + self.layout.word]
        return int.from_bytes(word, "little" if self.layout.order == "<" else "big") & self.address_mask

    def length(self, first, start, size, count):
        """The blocks of a list of one page: at most as many as were carved."""
        block, found = first & self.address_mask, 0
        while block != 0 and found < count and 0 <= block - start < count * size and (block - start) % size == 0:
            found += 1
            try:
                block = self.next_of(block)
            except Unreadable:
                self.warn(f"the memory of the page at {start:#x} cannot be read: its free blocks are counted as used")
                break
        return found

    USED = bytes(i >> 7 for i in range(256))

    def count_marks(self, start, size, count):
        """The blocks in use, by their marks (src/core/common/mark.h). A page lies in one window, or in two."""
        found, address, end = 0, start, start + count * size
        while address < end:
            window = address >> MARK_WINDOW_SHIFT
            if window not in self.mark_windows:
                self.mark_windows[window] = self.pointer(self.layout.address["marks"] + window * self.layout.word)
            base = self.mark_windows[window]
            until = min(end, window + 1 << MARK_WINDOW_SHIFT)
            blocks = -(-(until - address) // size)
            if base == 0:
                self.warn(f"the page at {start:#x} has no marks")
            else:
                step = size >> MARK_SHIFT
                try:
                    marks = self.read((base + (address >> MARK_SHIFT)) % self.wrap, (blocks - 1) * step + 1)
                except Unreadable:
                    self.warn(f"the marks of the page at {start:#x} cannot be read: its blocks are counted as free")
                else:
                    found += marks[::step].translate(self.USED).count(1)
            address += blocks * size
        return found

    def read_book(self, subproc, used, sequence):
        """Pages outside arenas (src/core/arenas/book.c)."""
        layout, entries, left = self.layout, [], min(used, DIRECT_MAX)
        first = layout["book_first"]
        if left:
            entries += layout.array(self.read(subproc + layout["subproc.direct.first"], first * layout.word), 0, first)[:left]
            left -= len(entries)
        pieces = layout.array(self.read(subproc + layout["subproc.direct.piece"], layout["book_pieces"] * layout.word), 0,
                              layout["book_pieces"])
        for k, piece in enumerate(pieces):
            count = min(left, 4 * first << 2 * k)
            if count == 0:
                break
            entries += layout.array(self.read(piece, count * layout.word), 0, count)
            left -= count
        for entry in entries:
            if entry == 0 or entry & 1:
                continue
            with self.tolerated(f"the block with the descriptor {entry:#x}"):
                page = dict(zip(self.page_names, self.page_form.unpack(self.read(entry, self.page_form.size, True))))
                start, size = page["start"], page["slice_count"] * self.slice
                if start % self.slice or start + size > self.limit or not size or not self.target.is_mapped(start, start + size):
                    self.warn(f"the descriptor {entry:#x} of a block with a mapping of its own is damaged, or was being made")
                elif page["owner"] not in (0, INTERIOR):
                    self.add_page(page, sequence, None, self.target.resident(start, start + size).count(1) * self.os_page)

    # -- Theaps --

    def read_theaps(self, state, orphans):
        layout = self.layout
        buckets = layout.array(self.read(state + layout["state.theap_bucket"], layout["buckets"] * layout.word), 0, layout["buckets"])
        def follow(name): return lambda a: self.structure("theap", a, **{name: "P"})[name]
        homes = [home for first in buckets for home in self.chain("threads", first, THEAPS_MAX, follow("bucket_next"))]
        homes += self.chain("threads that ended", orphans, THEAPS_MAX, follow("orphan_next"))
        for home in homes:
            with self.tolerated(f"what the thread with the theap {home:#x} has"):
                own = self.read_theap(home)
                count = min(own["others_count"], OTHERS_MAX)
                if count and own["others"]:
                    for other in layout.array(self.read(own["others"], count * layout.word), 0, count):
                        if other:
                            self.read_theap(other)

    def read_theap(self, address):
        if address in self.theaps:
            return self.theaps[address]
        layout, count = self.layout, self.layout["class_count"]
        data = self.read(address, layout["theap"], is_watched=True)
        form, names = layout.fields("theap", thread_id="P", others="P", others_count="P")
        own = dict(zip(names, form.unpack(data)))
        own["free"] = layout.array(data, layout["theap.free"], count)
        own["current"] = layout.array(data, layout["theap.current"], count)
        unsettled = layout.array(data, layout["theap.unsettled"], count, "h")
        room = layout.array(data, layout["theap.room"], count, "B")
        self.allocated = [total + more - less for total, more, less in zip(self.allocated, unsettled, room)]
        self.theaps[address] = own
        return own

    def subtract_lists(self):
        """Blocks that a theap is about to hand out count as used in their pages, but are free."""
        if self.layout.build.secure:
            return  # marks say it
        by_start = {page.start: i for i, page in enumerate(self.pages)}
        at_slice = {}
        for page in self.pages:
            if page.kind == "shared":
                at_slice.update((page.start + k * self.slice, page.start) for k in range(min(page.slices, 16)))
        for first, size_class in self.lists():
            self.subtract(first, size_class, by_start, at_slice)

    def lists(self):
        """The first block, and the class, of each list that malloc takes from."""
        none = self.layout.address["pagemap"] + self.layout["pagemap.none"]
        for own in self.theaps.values():
            for size_class, (head, current) in enumerate(zip(own["free"], own["current"])):
                heads = [head]
                if current not in (0, none):
                    with contextlib.suppress(Unreadable):
                        heads.append(self.structure("page", current, guarded="P")["guarded"])  # sample_rest
                yield from ((first & self.address_mask, size_class) for first in heads if first)

    def subtract(self, block, size_class, by_start, at_slice):
        size, found = self.sizes[size_class], collections.Counter()
        while block != 0:
            start = at_slice.get(block - block % self.slice)
            if start is None or self.pages[by_start[start]].size != size or (block - start) % size or \
                    found[start] >= self.pages[by_start[start]].count or len(found) > PORTION_MAX:
                break
            found[start] += 1
            try:
                block = self.next_of(block)
            except Unreadable:
                break
        self.allocated[size_class] -= found.total()
        for start, count in found.items():
            page = self.pages[by_start[start]]
            self.pages[by_start[start]] = page._replace(live=max(page.live - count, 0))

    # -- The rest --

    def heap_addresses(self):
        return {page.heap for page in self.pages}

    def read_heap(self, address):
        try:
            own = self.structure("heap", address, subproc="P", sequence="P", is_main="B", link="P")
            subproc = self.structure("subproc", own["subproc"], sequence="P")["sequence"]
        except Unreadable:
            self.warn(f"the heap at {address:#x} cannot be read")
            return
        self.heaps[address] = Heap(address, subproc, own["sequence"], bool(own["is_main"]), not own["is_main"] and not own["link"])

    def read_meta(self, state):
        """Ranges of memory of our own structures."""
        layout = self.layout
        def step(a): return self.structure("meta", a, next="P")["next"]
        with self.tolerated("the memory of the library's structures"):
            for entry in self.chain("mappings for structures", self.pointer(layout.address["meta_maps"]), METAS_MAX, step):
                own = self.structure("meta", entry, start="P", size="P")
                self.add_meta("structures", own["start"], own["size"])
        table = layout["page"] << layout["window_shift"] - layout["slice_shift"]
        none = layout.address["pagemap"] + layout["pagemap.none"]
        near = (none - layout["near_slices"] * layout["page"]) % self.wrap
        with self.tolerated("the tables of descriptors"):
            count = min(max(state["window_end"] - state["window_first"], 0), 1 << 20)
            first = min(state["window_first"], 1 << 20)
            at = layout.address["pagemap"] + layout["pagemap.window"] + first * layout.word
            for entry in set(layout.array(self.read(at, count * layout.word), 0, count)):
                if entry and (none + entry) % self.wrap != near:
                    self.add_meta("descriptors", (none + entry) % self.wrap, table)
        for name, size in (("state", layout["state"]), ("pagemap", layout["pagemap"])):
            self.add_meta("in the library", layout.address[name], size)
        for window, base in self.mark_windows.items():
            if base:
                start = (base + (window << MARK_WINDOW_SHIFT - MARK_SHIFT)) % self.wrap
                self.add_meta("marks", start, 1 << MARK_WINDOW_SHIFT - MARK_SHIFT)

    def add_meta(self, what, start, size):
        start, end = start - start % self.os_page, -(-(start + size) // self.os_page) * self.os_page
        if size > 1 << 40 or end > self.limit or not self.target.is_mapped(start, end):
            self.warn(f"{what} at {start:#x} of {size} bytes: no such memory is mapped")
            return
        self.meta.append((what, start, end, self.target.resident(start, end).count(1) * self.os_page))

    def read_sites(self):
        layout, at = self.layout, self.layout.address["sites"]
        with self.tolerated("the call sites"):
            self.missed_samples = layout.array(self.read(at + layout["sites.missed"], 8), 0, 1, "q")[0]
            buckets = layout.array(self.read(at + layout["sites.bucket"], layout["site_buckets"] * layout.word), 0, layout["site_buckets"])
            left = SITES_MAX
            for first in filter(None, buckets):
                for site in self.chain("call sites", first, left, lambda a: self.structure("site", a, next="P")["next"]):
                    left -= 1
                    with self.tolerated("a call site"):
                        self.read_site(site)

    def read_site(self, address):
        own = self.structure("site", address, chance_size="P", weight="Q", taken_count="q", taken_bytes="q", freed_count="q",
                             freed_bytes="q", frame_count="I")
        count, size = own["taken_count"] - own["freed_count"], own["taken_bytes"] - own["freed_bytes"]
        if count <= 0:
            return
        frames = min(own["frame_count"], FRAMES_MAX)
        where = self.layout.array(self.read(address + self.layout["site.frames"], frames * self.layout.word), 0, frames)
        self.sites.append(Site(count * own["weight"] >> 16, size * own["weight"] >> 16, own["chance_size"], where))


class Scout(Walk):
    """Reads what a walk will read, while the process is stopped, and looks into as little of it as possible: only where lists
    lead. Its target keeps what was read."""

    def __init__(self, target, layout):
        super().__init__(target, layout)
        self.found_heaps = set()

    def read_pages(self, arena, subproc, first, data):
        form, _ = self.layout.fields("page", size_class="B", thread_free="P", heap="P", guarded="P")
        several, single = self.layout["page"], self.layout["class_count"]
        for i, (size_class, word, heap, guarded) in enumerate(form.iter_unpack(data)):
            self.found_heaps.add(heap)
            if word > REMOTE_BITS or (size_class == single and guarded):
                page = dict(zip(self.page_names, self.page_form.unpack_from(data, i * several)))
                if page["start"] == arena.start + (first + i) * self.slice and page["slice_count"]:
                    self.add_page(page, subproc, arena, 0)
        if self.layout.build.secure:
            self.read_marks(arena.start + first * self.slice, len(data) // several * self.slice)

    def count_marks(self, start, size, count):
        return 0  # they are read all at once

    def read_marks(self, start, size):
        while size > 0:
            window = start >> MARK_WINDOW_SHIFT
            part = min(size, (window + 1 << MARK_WINDOW_SHIFT) - start)
            if window not in self.mark_windows:
                self.mark_windows[window] = self.pointer(self.layout.address["marks"] + window * self.layout.word)
            if self.mark_windows[window]:
                self.read((self.mark_windows[window] + (start >> MARK_SHIFT)) % self.wrap, part >> MARK_SHIFT)
            start, size = start + part, size - part

    def heap_addresses(self):
        return self.found_heaps

    def subtract_lists(self):
        for first, _ in () if self.layout.build.secure else self.lists():
            block = first
            for _ in range(LINKS_MAX):
                if block == 0:
                    break
                try:
                    block = self.next_of(block)
                except Unreadable:
                    break


BITS = [bytes(i >> k & 1 for k in range(8)) for i in range(256)]


def unpack_bits(words, count, order="<"):
    """A byte for each bit of words of 64 bits."""
    if order == ">":
        words = b"".join(words[i:i + 8][::-1] for i in range(0, len(words), 8))
    return b"".join(map(BITS.__getitem__, words))[:count]


def positions(flags):
    """Where the bytes that are not 0 are."""
    at = flags.find(1)
    while at >= 0:
        yield at
        at = flags.find(1, at + 1)
