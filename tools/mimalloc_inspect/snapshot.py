# SPDX-License-Identifier: MIT
"""A snapshot: the facts of a walk, added up so that the sum is what the system says is resident. It is a dictionary of plain
values; --json writes it, and all other outputs are made from it alone.

Of each page of the library, `in_use` is the smaller of the bytes of its blocks in use and of its resident bytes; the rest of
what is resident there is free. So the parts add up exactly. In a page whose blocks in use were not all touched, free memory
may be counted as in use: by at most what was not touched.
"""
import collections
import struct
import time

from . import elf
from .heap import Scout, Walk
from .target import Kept

FORMAT = "mimalloc-inspect 1"
CELLS_MAX = 2048
SITES_SHOWN = 20


def take(target, layout, is_stopped=False):
    """Look at a target; returns the snapshot."""
    begun = time.monotonic()
    stopped_ms = None
    if is_stopped:
        with target.stopped():
            stopped = time.monotonic()
            target.look()
            target = Kept(target)
            Scout(target, layout).run()
            stopped_ms = (time.monotonic() - stopped) * 1000
        target.freeze()
    walk = Walk(target, layout).run()
    if target.kind == "process" and not is_stopped:
        target.read_status()  # it may have grown meanwhile
    rest = Rest(target, walk)
    is_consistent = target.kind == "core" or (target.missed == 0 if is_stopped else not walk.has_changed())
    return Snapshot(target, layout, walk, rest).build(is_consistent, stopped_ms, (time.monotonic() - begun) * 1000)


class Rest:
    """What is resident and not the library's: of each mapping what is anonymous, less what is ours there."""

    def __init__(self, target, walk):
        ours = collections.Counter()
        ranges = [(arena.start, arena.start + arena.slices * walk.slice) for arena in walk.arenas]
        ranges += [(page.start, page.start + page.slices * walk.slice) for page in walk.pages if page.arena is None]
        ranges += [(start, end) for _, start, end, _ in walk.meta]
        covered = 0
        for start, end in sorted(ranges):
            start = max(start, covered)
            covered = max(covered, end)
            while start < end:
                mapping = target.mapping_of(start)
                if mapping is None:
                    break
                until = min(end, mapping.end)
                ours[mapping.start] += target.resident(start, until).count(1) * walk.os_page
                start = until
        self.bytes = collections.Counter()
        for mapping in target.mappings:
            self.bytes[target.rest_of(mapping)] += max(target.anonymous(mapping) - ours[mapping.start], 0)
        self.figures = target.figures()
        self.names = names_of_threads(getattr(target, "target", target), {own["thread_id"] for own in walk.theaps.values()})


def names_of_threads(target, pointers):
    """Which threads these are. Their thread pointers lead to what libc knows of a thread, in which its number stands: in
    glibc and musl, on any processor, near the pointer."""
    numbers, found = target.threads(), {}
    for pointer in pointers - {0}:
        for first, size in ((0, 0x400), (-0xa00, 0xa00)):
            try:
                text = target.read(pointer + first, size)
            except Exception:  # nothing is there: the thread has ended, or the memory is damaged
                continue
            hits = {n for n in struct.unpack(f"{size // 4}i", text) if n in numbers}
            if len(hits) == 1:
                found[pointer] = numbers[hits.pop()]
                break
    return found


class Sum:
    """What belongs together: a class, a heap, a thread."""

    def __init__(self):
        self.pages = self.blocks = self.bytes = self.carved = self.resident = self.in_use = self.empty = 0

    def add(self, page):
        live = page.live * page.size
        self.pages += 1
        self.blocks += page.live
        self.bytes += live
        self.carved += page.count
        self.resident += page.resident
        self.in_use += min(live, page.resident)
        self.empty += page.resident if page.live == 0 else 0

    def plain(self, **more):
        return {**more, "pages": self.pages, "blocks": self.blocks, "bytes": self.bytes, "blocks_free": self.carved - self.blocks,
                "resident": self.resident, "in_use": self.in_use, "free": self.resident - self.in_use,
                "not_touched": self.bytes - self.in_use}


class Snapshot:
    def __init__(self, target, layout, walk, rest):
        self.target, self.layout, self.walk, self.rest = target, layout, walk, rest
        self.all = Sum()
        self.classes, self.heaps, self.threads = (collections.defaultdict(Sum) for _ in range(3))
        for page in walk.pages:
            size = page.size if page.kind == "shared" else 0
            for total in (self.all, self.classes[page.kind, size], self.heaps[page.heap], self.threads[self.whose(page)]):
                total.add(page)
        self.allocated = {size: count for size, count in zip(walk.sizes, walk.allocated) if count > 0}
        for size in self.allocated:
            self.classes.setdefault(("shared", size), Sum())  # there may be no page of it any more
        self.kept = self.kept_pinned = self.held = 0
        self.cells = [self.map_of(arena) for arena in walk.arenas]

    def whose(self, page):
        if page.owner:
            return "thread", page.owner
        return ("single" if page.kind != "shared" else "pool"), 0

    # -- The map --

    def cell_slices(self):
        size = 1
        while sum(-(-arena.slices // size) for arena in self.walk.arenas) > CELLS_MAX:
            size *= 2
        return size

    def map_of(self, arena):
        """Of each cell the resident bytes in use, free in pages, and kept; and what is free or kept of the arena."""
        in_use, total = [0] * arena.slices, [0] * arena.slices
        is_page = bytearray(arena.slices)
        for page in self.pages_of().get(arena.index, ()):
            first = (page.start - arena.start) // self.walk.slice
            share = min(page.live * page.size, page.resident) / page.resident if page.resident else 0
            for i in range(first, first + page.slices):
                is_page[i] = 1
                total[i] = arena.resident[i]
                in_use[i] = arena.resident[i] * share
        size, cells = self.cell_slices(), []
        for first in range(0, arena.slices, size):
            last = min(first + size, arena.slices)
            used = sum(in_use[first:last])
            kept = sum(arena.resident[i] for i in range(first, last) if arena.free[i] and not is_page[i])
            cells.append([round(used), round(sum(total[first:last]) - used), kept])
        kept = sum(cell[2] for cell in cells)
        held = sum(arena.resident[i] for i in range(arena.slices) if not arena.free[i] and not is_page[i])
        self.kept += kept
        self.kept_pinned += kept if "pinned" in arena.flags or "foreign" in arena.flags else 0
        self.held += held
        return {"start": arena.start, "bytes": arena.slices * self.walk.slice, "subprocess": arena.subproc, "flags": arena.flags,
                "resident": sum(arena.resident), "swapped": arena.swapped, "cell_bytes": size * self.walk.slice, "cells": cells}

    def pages_of(self):
        if not hasattr(self, "by_arena"):
            self.by_arena = collections.defaultdict(list)
            for page in self.walk.pages:
                self.by_arena[page.arena].append(page)
        return self.by_arena

    # -- All --

    def build(self, is_consistent, stopped_ms, read_ms):
        walk, target, build = self.walk, self.target, self.layout.build
        warnings = [*getattr(target, "warnings", ()), *walk.warnings]
        meta = collections.Counter()
        for what, _, _, resident in walk.meta:
            meta[what] += resident
        ours = [("in_use", self.all.in_use), ("free_in_pages", self.all.resident - self.all.in_use), ("kept", self.kept),
                ("changing_hands", self.held), ("metadata", sum(meta.values()))]
        figures = self.rest.figures
        anonymous = figures["anonymous"]
        total = sum(size for _, size in ours)
        parts = dict(ours)
        if anonymous is not None and anonymous < total:  # it shrank while it was read
            figures["anonymous"], anonymous, is_consistent = total, total, False
        parts["not_ours"] = (anonymous - total) if anonymous is not None else None
        return {
            "format": FORMAT,
            "target": {"kind": target.kind, "pid": target.pid, "name": target.name(), "time": int(time.time()),
                       "file": getattr(target, "path", None) if target.kind == "core" else None},
            "build": {"text": build.text(), "version": build.version, "secure": build.secure, "debug": build.debug,
                      "track": build.track, "object": self.layout.note},
            "is_set_up": walk.is_set_up, "is_consistent": is_consistent and not warnings, "stopped_ms": stopped_ms,
            "read_ms": read_ms, "warnings": warnings,
            "system": figures, "parts": parts, "metadata": dict(meta),
            "not_ours": [{"name": name, "bytes": size} for name, size in self.rest.bytes.most_common() if size],
            "total": self.all.plain(),
            "collect": {"kept": self.kept - self.kept_pinned, "kept_for_ever": self.kept_pinned, "empty_pages": self.all.empty},
            "classes": [total.plain(kind=kind, size=size, allocated=self.allocated.get(size, 0) if kind == "shared" else None)
                        for (kind, size), total in sorted(self.classes.items())],
            "heaps": self.plain_heaps(), "threads": self.plain_threads(),
            "arenas": self.cells,
            "outside_arenas": {"pages": len(self.pages_of().get(None, ())),
                               "resident": sum(page.resident for page in self.pages_of().get(None, ()))},
            "profile": self.plain_sites(),
        }

    def plain_heaps(self):
        found = []
        for address, total in self.heaps.items():
            heap = self.walk.heaps.get(address)
            name = "not known" if heap is None else "main" if heap.is_main else f"heap {heap.sequence}"
            name += f" of sub-process {heap.subproc}" if heap and heap.subproc else ""
            name += ", ended" if heap and heap.is_ended else ""
            found.append(total.plain(name=name, address=address))
        return sorted(found, key=lambda heap: -heap["resident"])

    def plain_threads(self):
        found = []
        for (kind, pointer), total in self.threads.items():
            number, name = self.rest.names.get(pointer, (None, ""))
            if kind == "single":
                name = "blocks with a page of their own (any thread)"
            elif kind == "pool":
                name = "pages of no thread"
            found.append(total.plain(kind=kind, pointer=pointer, number=number, name=name))
        return sorted(found, key=lambda thread: -thread["resident"])

    def plain_sites(self):
        names = Names(self.target)
        sums = collections.defaultdict(lambda: [0, 0])
        for site in self.walk.sites:
            sums[site.frames][0] += site.count
            sums[site.frames][1] += site.bytes
        top = sorted(sums.items(), key=lambda item: -item[1][1])[:SITES_SHOWN]
        return {"interval": self.walk.profile_interval, "missed": self.walk.missed_samples, "site_count": len(sums),
                "sites": [{"blocks": count, "bytes": size, "frames": [names.of(address) for address in frames]}
                          for frames, (count, size) in top]}


class Names:
    """Names of the functions that addresses of code are in."""

    def __init__(self, target):
        self.target, self.tables = target, {}

    def of(self, address):

        mapping = self.target.mapping_of(address)
        if mapping is None:
            return f"{address:#x}"
        first = next((m for m in self.target.mappings if m.name == mapping.name and m.offset == 0), mapping)
        at = address - first.start
        if mapping.name not in self.tables:
            self.tables[mapping.name] = ([], []), 0
            path = self.target.file(first)
            if path is not None:
                try:
                    self.tables[mapping.name] = elf.symbols(path), base_of(path)
                except (elf.NotElf, OSError, struct.error, IndexError):
                    pass
        table, base = self.tables[mapping.name]
        # A return address is behind its call.
        return elf.name_at(table, at + base - 1) or f"{mapping.name.rpartition('/')[2] or '?'}+{at:#x}"


def base_of(path):
    """The address for which the start of a file was linked."""

    with open(path, "rb") as file:
        text = file.read(1 << 16)
    header = elf.Header(lambda at, size: text[at:at + size])
    segments = header.segments(lambda at, size: text[at:at + size])
    return next((address - offset for kind, _, offset, address, _, _ in segments if kind == elf.PT_LOAD), 0)
