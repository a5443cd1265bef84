# SPDX-License-Identifier: MIT
"""A snapshot, or the difference of two, as text."""
WIDTH = 64
PARTS = (
    ("in_use", "in use", "blocks that the program has"),
    ("free_in_pages", "free in pages", "beside blocks in use, or in pages kept for the next blocks of that size"),
    ("kept", "kept", "free memory that has not gone back yet"),
    ("changing_hands", "changing hands", "was being taken or given back"),
    ("metadata", "metadata", "the library's own structures"),
    ("not_ours", "not ours", "stacks, data of libraries, what the program maps itself"),
)
FIELDS = ("pages", "blocks", "bytes", "resident", "free")  # of a class, a heap or a thread
MAP_SIGNS = " .:-=+*#"
SHOWN = 24


def amount(size, sign=""):
    if size is None:
        return "?"
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(size) >= scale:
            return f"{size / scale:{sign}.1f} {unit}"
    return f"{size:{sign}} B"


def known(number):
    return "" if number is None else str(number)


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if part is not None and whole else ""


def table(rows, left=(0,)):
    """Lines of columns; those in `left` are aligned at the left."""
    rows = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(w) if k in left else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths))).rstrip()


def title(snapshot):
    target = snapshot["target"]
    name = f" ({target['name']})" if target["name"] else ""
    what = f"process {target['pid']}{name}" if target["kind"] == "process" else f"core dump {target['file']} of process {target['pid']}{name}"
    return f"{what}: {snapshot['build']['text']} in {snapshot['build']['object']}"


def remarks(snapshot):
    """What must be said about how far the figures hold."""
    if not snapshot["is_set_up"]:
        yield "The library is there, but nothing was allocated from it yet."
    if snapshot["stopped_ms"] is not None:
        yield f"The process was stopped for {snapshot['stopped_ms']:.0f} ms."
    elif not snapshot["is_consistent"]:
        yield ("The process changed while it was read: figures may contradict each other a little (--stop stops it meanwhile)."
               if snapshot["target"]["kind"] == "process" else "Not all of it could be read: figures are too low.")
    yield from (f"warning: {text}" for text in snapshot["warnings"])


def block_name(entry):
    names = {"own": "own page", "sample": "samples", "guarded": "guarded"}
    return names.get(entry["kind"]) or str(entry["size"])


def report(snapshot, has_map=True):
    """The lines of the report."""
    total, parts = snapshot["total"], snapshot["parts"]
    yield title(snapshot)
    yield from remarks(snapshot)
    anonymous = snapshot["system"]["anonymous"]
    yield ""
    yield (f"Resident, without files: {amount(anonymous)}" + (
        f" (all: {amount(snapshot['system']['resident'])}; swapped out: {amount(snapshot['system']['swapped'])})"
        if snapshot["system"]["resident"] is not None else " (OS pages of the core dump that are not all zero)"))
    yield from table([(name, amount(parts[key]), percent(parts[key], anonymous), about) for key, name, about in PARTS
                      if parts[key] or key != "changing_hands"], left=(0, 3))
    yield ""
    yield (f"Blocks in use: {total['blocks']}, {amount(total['bytes'])}" + (
        f", of which {amount(total['not_touched'])} is not resident" if total["not_touched"] else ""))
    collect = snapshot["collect"]
    yield (f"A collect would give back {amount(collect['kept'])} that is kept, and each thread that collects its part of "
           f"{amount(collect['empty_pages'])} in pages without a block in use.")
    if collect["kept_for_ever"]:
        yield f"{amount(collect['kept_for_ever'])} of what is kept never goes back: it is pinned, or memory of the program."
    yield ""
    yield from by_class(snapshot)
    yield from by_name("heaps", snapshot["heaps"], lambda heap: heap["name"])
    yield from by_name("threads", snapshot["threads"], thread_name)
    if snapshot["metadata"]:
        yield "Metadata: " + ", ".join(f"{name} {amount(size)}" for name, size in sorted(snapshot["metadata"].items()))
    if snapshot["not_ours"]:
        yield "Not ours: " + ", ".join(f"{entry['name']} {amount(entry['bytes'])}" for entry in snapshot["not_ours"])
    yield from sites(snapshot["profile"])
    if has_map:
        yield ""
        yield from picture(snapshot)


def thread_name(thread):
    if thread["kind"] != "thread":
        return thread["name"]
    return f"{thread['number']} {thread['name']}".strip() if thread["number"] else f"thread {thread['pointer']:#x}"


def by_class(snapshot):
    most = sorted((c for c in snapshot["classes"] if c["pages"]), key=lambda c: -c["resident"])
    shown = sorted(most[:SHOWN], key=lambda c: (c["kind"] != "shared", c["size"]))
    if not shown:
        return
    yield "By size of blocks:"
    yield from table([("size", "pages", "blocks", "in use", "free blocks", "resident", "free", "", "ever allocated")] + [
        (block_name(c), c["pages"], c["blocks"], amount(c["bytes"]), c["blocks_free"], amount(c["resident"]), amount(c["free"]),
         percent(c["free"], c["resident"]), known(c.get("allocated"))) for c in shown], left=())
    if len(most) > SHOWN:
        yield f"  and {len(most) - SHOWN} sizes with {amount(sum(c['resident'] for c in most[SHOWN:]))} resident"
    yield ""


def by_name(what, entries, name):
    if not entries:
        return
    yield f"By {what}:"
    yield from table([("", "pages", "blocks", "in use", "resident", "free")] + [
        (name(e), e["pages"], e["blocks"], amount(e["bytes"]), amount(e["resident"]), amount(e["free"])) for e in entries[:SHOWN]])
    if len(entries) > SHOWN:
        yield f"  and {len(entries) - SHOWN} others with {amount(sum(e['resident'] for e in entries[SHOWN:]))} resident"
    yield ""


def sites(profile):
    if not profile["interval"] and not profile["sites"]:
        return
    yield ""
    missed = f"; {profile['missed']} samples were missed" if profile["missed"] else ""
    yield f"Call sites with most bytes in use, estimated from samples (of {profile['site_count']}{missed}):"
    for site in profile["sites"]:
        yield f"  {amount(site['bytes'])} in {site['blocks']} blocks: {' < '.join(site['frames'][:6])}"


def sign(cell, size):
    """One letter for a cell: how much of its memory is resident, and whether that is used, free or kept."""
    used, free, kept = cell
    resident = used + free + kept
    if resident == 0:
        return " "
    if kept * 2 > resident:
        return "k"
    if free * 2 > resident:
        return "f"
    return MAP_SIGNS[min(1 + int(used / size * (len(MAP_SIGNS) - 1)), len(MAP_SIGNS) - 1)]


def picture(snapshot):
    """The map: a letter for each cell."""
    for arena in snapshot["arenas"]:
        flags = f", {', '.join(arena['flags'])}" if arena["flags"] else ""
        of = f" of sub-process {arena['subprocess']}" if arena["subprocess"] else ""
        yield (f"Arena at {arena['start']:#x}{of}{flags}: {amount(arena['bytes'])}, {amount(arena['resident'])} resident; "
               f"a letter is {amount(arena['cell_bytes'])}")
        letters = "".join(sign(cell, arena["cell_bytes"]) for cell in arena["cells"])
        last = len(letters.rstrip())
        for at in range(0, last, WIDTH):
            yield f"  {arena['start'] + at * arena['cell_bytes']:#014x} |{letters[at:at + WIDTH]:{WIDTH}}|"
        if last < len(letters) - WIDTH:
            yield f"  and {amount((len(letters) - last) * arena['cell_bytes'])} of which nothing is resident"
    if snapshot["outside_arenas"]["pages"]:
        yield (f"Outside arenas: {snapshot['outside_arenas']['pages']} blocks with mappings of their own, "
               f"{amount(snapshot['outside_arenas']['resident'])} resident")
    if snapshot["arenas"]:
        yield f"  ({' '.join(MAP_SIGNS[1:])} more and more of it in use; f most of what is resident is free, k kept; blank: nothing is)"


# -- Differences --

def amount_of(entry, field):
    """A figure of an entry, 0 if there is none."""
    return entry.get(field) or 0 if entry else 0


def difference(old, new):
    """What has changed, as a dictionary."""
    def keyed(entries, key, fields=FIELDS):
        found = {}
        for which, side in ((0, old), (1, new)):
            for entry in entries(side):
                found.setdefault(key(entry), [None, None])[which] = entry
        changes = []
        for name, (before, after) in found.items():
            change = {field: amount_of(after, field) - amount_of(before, field) for field in fields}
            if any(change.values()):
                changes.append({"name": name, **change})
        return sorted(changes, key=lambda c: (-abs(c.get("resident", c["bytes"])), -abs(c.get("allocated", 0))))
    parts = {key: new["parts"][key] - old["parts"][key] for key, _, _ in PARTS
             if None not in (new["parts"].get(key), old["parts"].get(key))}
    return {
        "format": "mimalloc-inspect difference 1",
        "old": old["target"], "new": new["target"],
        "system": {key: new["system"][key] - old["system"][key] for key in new["system"]
                   if None not in (new["system"][key], old["system"].get(key))},
        "parts": parts,
        "total": {key: new["total"][key] - old["total"][key] for key in FIELDS},
        "classes": keyed(lambda s: s["classes"], block_name, (*FIELDS, "allocated")),
        "heaps": keyed(lambda s: s["heaps"], lambda heap: heap["name"]),
        "threads": keyed(lambda s: s["threads"], thread_name),
        "sites": keyed(lambda s: s["profile"]["sites"], lambda site: " < ".join(site["frames"][:6]), ("blocks", "bytes")),
    }


def compare(old, new):
    """The lines of a comparison."""
    found = difference(old, new)
    yield f"from {title(old)}"
    yield f"to   {title(new)}"
    yield f"after {new['target']['time'] - old['target']['time']} s"
    yield ""
    rows = [("resident, without files", amount(old["system"]["anonymous"]), amount(new["system"]["anonymous"]),
             amount(found["system"].get("anonymous"), "+"))]
    rows += [(name, amount(old["parts"][key]), amount(new["parts"][key]), amount(found["parts"].get(key), "+")) for key, name, _ in PARTS]
    yield from table([("", "before", "after", "change"), *rows])
    for what in ("classes", "heaps", "threads"):
        if found[what]:
            yield ""
            is_class = what == "classes"
            yield "By size of blocks:" if is_class else f"By {what}:"
            yield from table([("", "pages", "blocks", "in use", "resident", "free", *(["ever allocated"] if is_class else []))] + [
                (c["name"], f"{c['pages']:+}", f"{c['blocks']:+}", *(amount(c[k], "+") for k in ("bytes", "resident", "free")),
                 *([f"{c['allocated']:+}"] if is_class else [])) for c in found[what][:SHOWN]])
    if found["sites"]:
        yield ""
        yield "Call sites (estimated):"
        for site in found["sites"][:SHOWN]:
            yield f"  {amount(site['bytes'], '+')} in {site['blocks']:+} blocks: {site['name']}"
