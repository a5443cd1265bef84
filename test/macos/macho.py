"""Prints, as JSON, what test_macos.py checks of a file in Mach-O format. Runs where the package lief is (scripts/setup.sh lief)."""
import json
import struct
import sys

import lief

lief.logging.disable()  # what zig leaves out (a table of data in code) is no mistake

POINTER = 8
binary = lief.MachO.parse(sys.argv[1])[0]
sections = {section.name: section for section in binary.sections}
names = {}  # address: names there; local ones, too
for symbol in binary.symbols:
    if symbol.value:
        names.setdefault(symbol.value, []).append(symbol.name)


def words(address, count):
    data = bytes(binary.get_content_from_virtual_address(address, count * POINTER))
    return struct.unpack(f"<{count}Q", data)


def named(address):
    return names.get(address, [hex(address)])


def address_of(name):
    return next((symbol.value for symbol in binary.symbols if symbol.name == name and symbol.value), None)


def table(name, count):
    """What the pointers in a structure point to; numbers as they are."""
    start = address_of(name)
    return [named(word) if word > 0xFFFF else word for word in words(start, count)] if start else None


bindings = [{"address": item.address, "name": item.symbol.name, "is_weak": item.weak_import, "segment": item.segment.name,
             "library": item.library.name if item.has_library else None} for item in binary.bindings if item.has_symbol]
bound = {item["address"]: item for item in bindings}
pairs = []
if "__interpose" in sections:
    section = sections["__interpose"]
    for start in range(section.virtual_address, section.virtual_address + section.size, 2 * POINTER):
        theirs = bound.get(start + POINTER)
        pairs.append({"ours": named(words(start, 1)[0]), "theirs": theirs and theirs["name"], "is_weak": theirs and theirs["is_weak"]})

print(json.dumps({
    "file": binary.header.file_type.name, "processor": binary.header.cpu_type.name,
    "segments": {section.name: section.segment_name for section in binary.sections},
    "types": {section.name: section.type.name for section in binary.sections},
    "commands": [command.command.name for command in binary.commands],
    "libraries": [library.name for library in binary.libraries],
    "imports": sorted({symbol.name for symbol in binary.imported_symbols}),
    "exports": sorted({symbol.name for symbol in binary.exported_symbols}),
    "elsewhere": sorted({item["name"] for item in bindings
                         if not ("__interpose" in sections and 0 <= item["address"] - sections["__interpose"].virtual_address < sections["__interpose"].size)}),
    "pairs": pairs,
    "zone": table("_mi_zone", 18),
    "introspection": table("_mi_zone_introspection", 14),
}))
