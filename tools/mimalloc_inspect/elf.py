# SPDX-License-Identifier: MIT
"""ELF: program headers and notes of a file that is mapped somewhere, and the symbols of one on a disk."""
import bisect
import struct

PT_LOAD, PT_NOTE = 1, 4
SEGMENTS_MAX, NOTES_MAX, SECTIONS_MAX, SYMBOLS_MAX = 256, 64, 1000, 2_000_000


class NotElf(Exception):
    """There is no ELF file of this machine's kind, or it is damaged."""


class Header:
    """The header of a file; `read(offset, size)` gives its bytes, or raises."""

    def __init__(self, read):
        ident = read(0, 16)
        if ident[:4] != b"\x7fELF":
            raise NotElf("it is no ELF file")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise NotElf("its ELF header is damaged")
        self.bits = 32 * ident[4]
        self.order = "<" if ident[5] == 1 else ">"
        self.pointer = "IQ"[ident[4] - 1]
        form = self.order + "HHI" + self.pointer * 3 + "IHHHHHH"
        (self.type, self.machine, _, _, self.segments_at, self.sections_at, _, _, self.segment_size, self.segment_count,
         self.section_size, self.section_count, _) = struct.unpack(form, read(16, struct.calcsize(form)))
        if self.segment_count == 0xffff and self.sections_at:  # too many for the field: section 0 has the number
            at = self.sections_at + (44 if self.bits == 64 else 28)
            self.segment_count = struct.unpack(self.order + "I", read(at, 4))[0]

    def segments(self, read, most=SEGMENTS_MAX):
        """(type, flags, offset, address, bytes in the file, bytes in memory) of each segment."""
        form = self.order + ("IIQQQQQQ" if self.bits == 64 else "IIIIIIII")
        if self.segment_size < struct.calcsize(form) or self.segment_count > most:
            raise NotElf("its program headers are damaged")
        table = read(self.segments_at, self.segment_count * self.segment_size)
        for i in range(self.segment_count):
            found = struct.unpack_from(form, table, i * self.segment_size)
            if self.bits == 64:
                kind, flags, offset, address, _, file_size, size, _ = found
            else:
                kind, offset, address, _, file_size, size, flags, _ = found
            yield kind, flags, offset, address, file_size, size


def notes(order, table, most=NOTES_MAX):
    """(owner, type, where its contents start, contents) of each note in the bytes of a segment."""
    at = 0
    for _ in range(most):
        if at + 12 > len(table):
            return
        name_size, size, kind = struct.unpack_from(order + "III", table, at)
        start = at + 12 + (name_size + 3 & ~3)
        if start + size > len(table):
            return
        yield table[at + 12:at + 12 + name_size].rstrip(b"\0"), kind, start, table[start:start + size]
        at = start + (size + 3 & ~3)


def build_id(order, table):
    """The build id among notes, as hexadecimal digits; empty if there is none."""
    return next((text.hex() for owner, kind, _, text in notes(order, table) if owner == b"GNU" and kind == 3), "")


def symbols(path):
    """The functions of a file: their addresses, in order, and (size, name) of each."""
    found = {}
    with open(path, "rb") as file:
        def read(at, size):
            file.seek(at)
            text = file.read(min(size, 1 << 28))
            if len(text) < size:
                raise NotElf("it is truncated")
            return text
        header = Header(read)
        form = header.order + ("IIQQQQIIQQ" if header.bits == 64 else "IIIIIIIIII")
        if header.section_count > SECTIONS_MAX or header.section_size < struct.calcsize(form):
            return [], []
        sections = [struct.unpack_from(form, read(header.sections_at + i * header.section_size, struct.calcsize(form)))
                    for i in range(header.section_count)]
        entry = struct.Struct(header.order + ("IBBHQQ" if header.bits == 64 else "IIIBBH"))
        for section in sections:
            if section[1] not in (2, 11) or section[6] >= len(sections) or section[5] > SYMBOLS_MAX * entry.size:
                continue  # neither .symtab nor .dynsym
            strings = read(sections[section[6]][4], sections[section[6]][5])
            table = read(section[4], section[5] - section[5] % entry.size)
            for fields in entry.iter_unpack(table):
                if header.bits == 64:
                    name, info, _, where, address, size = fields
                else:
                    name, address, size, info, _, where = fields
                if info & 15 in (2, 10) and where != 0 and address not in found:
                    found[address] = size, strings[name:strings.find(b"\0", name)].decode(errors="replace")
    addresses = sorted(found)
    return addresses, [found[address] for address in addresses]


def name_at(table, address):
    """The function that an address of the file is in; empty if none is known."""
    addresses, about = table
    i = bisect.bisect_right(addresses, address) - 1
    if i < 0 or (about[i][0] and address >= addresses[i] + about[i][0]):
        return ""
    return about[i][1]
