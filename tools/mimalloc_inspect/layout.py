# SPDX-License-Identifier: MIT
"""The stamp of the library (src/observe/inspect.c), and where the fields of its structures are: as the library itself says.

A note of ELF in the first OS page of a file tells that there is a stamp, and its first bytes tell where. So one tool reads every
build: release, secure, debug, in a shared library or in the program itself, stripped or not. What it does not read is another
format, and it says so.
"""
import pathlib
import re
import struct

from . import elf
from .target import Failure, Unreadable

FORMAT = 4
MAGIC = b"\x7fmi-inspect\xb1\x5e\xc7\x02\0"
HEAD = "16sIII4x8B"
ADDRESSES = ("state", "pagemap", "marks", "meta_maps", "sites")
TRACK = ("", "ASan", "Valgrind", "padding")
SEARCH_STEP = 1 << 22
READY = 1  # of the stage of the process


def definitions():
    """The names of the lines of inspect.def: a constant, a structure, or structure.field."""
    here = pathlib.Path(__file__).resolve().parent
    path = next(p for p in (here / "inspect.def", here.parents[1] / "src" / "observe" / "inspect.def") if p.is_file())
    for kind, arguments in re.findall(r"^(NUMBER|SIZE|FIELD)\((.*)\)$", path.read_text(), re.M):
        name, _, *field = (part.strip() for part in arguments.split(","))
        yield f"{name}.{field[0]}" if kind == "FIELD" else name


class Build:
    """What the stamp says of a build."""

    def __init__(self, head):
        (_, self.format, self.version, self.number_count, self.secure, self.debug, self.track, self.is_tiny, self.is_tagged,
         self.is_override, self.is_plain, self.pointer_size) = head

    def text(self):
        words = [f"secure {self.secure}"] if self.secure else []
        words += [f"debug {self.debug}"] if self.debug else []
        words += [TRACK[self.track]] if 0 < self.track < len(TRACK) else []
        words += ["tiny"] if self.is_tiny else []
        words += ["memory tags"] if self.is_tagged else []
        words += ["plain POSIX"] if self.is_plain else []
        words += [] if self.is_override else ["malloc not replaced"]
        return f"libmimalloc {self.version // 10000}.{self.version // 100 % 100}.{self.version % 100} ({', '.join(words) or 'release'})"


class Layout:
    """The fields and constants of a build, and the addresses that the stamp has."""

    def __init__(self, target, note, stamp, order, pointer):
        self.target, self.note, self.order, self.pointer = target, note, order, pointer
        self.word, self.forms = struct.calcsize(order + pointer), {}
        form, names = order + HEAD, list(definitions())
        self.build = Build(struct.unpack(form, target.read(stamp, struct.calcsize(form))))
        self.refuse_others(len(names))
        # The addresses are aligned as such, and so is what comes before them.
        form = f"{order}{len(ADDRESSES)}{pointer}{len(names)}I"
        values = struct.unpack(form, target.read(stamp + struct.calcsize(order + HEAD), struct.calcsize(form)))
        self.address = dict(zip(ADDRESSES, values))
        self.number = dict(zip(names, values[len(ADDRESSES):]))
        self.check_bounds()
        self.stage, self.stamp = self.array(target.read(self.address["state"] + self["state.stage"], 4), 0, 1, "I")[0], stamp

    def is_right(self):
        """True if the state that the stamp leads to leads back to it (INSPECT-2)."""
        back = self.array(self.target.read(self.address["state"] + self["state.stamp"], self.word), 0, 1)[0]
        return back == (self.stamp if self.stage == READY else back)

    def refuse_others(self, count):
        if self.build.format != FORMAT or self.build.number_count != count or self.build.pointer_size != self.word:
            raise Failure(f"{self.note} has {self.build.text()}, whose structures have format {self.build.format} with "
                          f"{self.build.number_count} figures; this mimalloc-inspect reads format {FORMAT} with {count}: use the one "
                          "that is installed beside that library")

    def check_bounds(self):
        n = self.number
        sane = (8 <= n["slice_shift"] <= 20 and n["slice_shift"] + 6 < n["window_shift"] < n["address_bits"] <= 64
                and n["window_shift"] <= 32 and 0 < n["class_count"] < 255 and n["page"] == 128 and n["site_buckets"] <= 1 << 20
                and n["book_pieces"] <= 32 and n["book_first"] <= 64 and n["buckets"] <= 1 << 12
                and all(n[s] < 1 << 20 for s in ("theap", "heap", "arena", "subproc", "site"))
                and all(n[name] <= n.get(name.partition(".")[0], 1 << 28) for name in n if "." in name))
        if not sane:
            raise Failure(f"{self.note}: the sizes and offsets in the stamp make no sense: it is damaged")

    def __getitem__(self, name):
        return self.number[name]

    def fields(self, structure, **kinds):
        """How some fields of a structure are read: a Struct of all of its bytes, by which they come in the order of their
        names here. `kinds`: the name, with _ for a point, and B, H, I, Q (64 bits), q or P (an address, or size_t)."""
        known = self.forms.get((structure, *kinds))
        if known:
            return known
        places = []
        for name, kind in kinds.items():
            full = next(n for n in self.number if n.startswith(structure + ".") and n[len(structure) + 1:].replace(".", "_") == name)
            places.append((self.number[full], kind.replace("P", self.pointer), name))
        places.sort()
        form, at = self.order, 0
        for offset, kind, _ in places:
            if offset < at:
                raise Failure(f"{self.note}: two fields of a structure overlap: the stamp is damaged")
            form += f"{offset - at}x{kind}"
            at = offset + struct.calcsize("<" + kind)
        form += f"{self.number.get(structure, at) - at}x"
        self.forms[(structure, *kinds)] = struct.Struct(form), [name for _, _, name in places]
        return self.forms[(structure, *kinds)]

    def array(self, data, offset, count, kind="P"):
        return struct.unpack_from(f"{self.order}{count}{kind.replace('P', self.pointer)}", data, offset)

    def class_size(self, size_class):
        if size_class == 0:
            return 8
        if size_class <= 8:
            return size_class * 16
        return (9 + (size_class - 9) % 8) << ((size_class - 9) // 8 + 4)


def find(target, wanted=None):
    """The layouts of all copies of the library in a target."""
    found, problems = [], []
    for mapping in target.mappings:
        if mapping.offset != 0 or mapping.name.startswith("[") or "r" not in mapping.flags or (wanted and wanted not in mapping.name):
            continue
        try:
            found += in_file(target, mapping)
        except (Unreadable, elf.NotElf, struct.error):
            continue
        except Failure as failure:
            problems.append(failure)
    if not found and problems:
        raise problems[0]
    return found


def in_file(target, mapping):
    """The layouts in one mapped file that has the note."""
    def read(offset, size):
        return target.read(mapping.start + offset, size)
    if read(0, 4) != b"\x7fELF":
        return
    header = elf.Header(read)
    segments = list(header.segments(read))
    base = mapping.start - next((address - offset for kind, _, offset, address, _, _ in segments if kind == elf.PT_LOAD), 0)
    said = [text for kind, _, _, address, size, _ in segments if kind == elf.PT_NOTE and size <= 1 << 16
            for owner, form, _, text in elf.notes(header.order, target.read(base + address, size)) if owner == b"mimalloc" and form == 1]
    if not said:
        return
    place, candidates = mapping.name or f"the program at {mapping.start:#x}", 0
    # Where constants with addresses are, and then all else: where code is not position independent they are among the others.
    loads = sorted((not flags & 2, address, size) for kind, flags, _, address, size, _ in segments if kind == elf.PT_LOAD)
    for _, address, size in loads:
        for stamp in search(target, base + address, size, header):
            candidates += 1
            try:
                layout = Layout(target, place, stamp, header.order, header.pointer)
                if layout.is_right():
                    yield layout
                    return
            except Unreadable:
                continue  # bytes that look like a stamp
    form, version = struct.unpack_from(header.order + "II", said[0].ljust(8, b"\0"))
    version = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    if candidates:
        raise Failure(f"{place} has libmimalloc {version}, but the state of the process does not belong to its stamp: the memory is "
                      "damaged, or the file is of another build than the one that the process had")
    raise Failure(f"{place} has libmimalloc {version} with format {form}, but its stamp cannot be found: the memory that has it "
                  "cannot be read, or is damaged")


def search(target, start, size, header):
    """The addresses in a range at which a stamp begins."""
    step, overlap = struct.calcsize(header.order + header.pointer), len(MAGIC)
    for first in range(start, start + size, SEARCH_STEP):
        try:
            text = target.read(first, min(SEARCH_STEP + overlap, start + size - first))
        except Unreadable:
            continue
        at = text.find(MAGIC)
        while at >= 0:
            if (first + at) % step == 0:
                yield first + at
            at = text.find(MAGIC, at + 1)
