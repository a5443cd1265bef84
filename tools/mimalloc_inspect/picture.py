# SPDX-License-Identifier: MIT
"""A snapshot as a picture of the map (SVG), and as one HTML page that needs nothing else.

A cell of the map stands for some slices. It is filled from below: in use, free in pages, kept; what is empty is not resident.
All cells of a colour are one path, so that a map of thousands of cells is small.
"""
import html as markup

from .text import PARTS, SHOWN, amount, block_name, percent, remarks, thread_name, title

CELL, GAP, LEFT = 13, 2, 112
COLUMNS = 64, 32  # of the picture, and in the page, which a phone must show
COLOURS = {  # of a part: on a light background, and on a dark one
    "in_use": ("#2b6cb0", "#63a4e8"), "free_in_pages": ("#dd7a1b", "#f0a04b"), "kept": ("#8e5bb5", "#bb92dd"),
    "changing_hands": ("#b83280", "#e07bb4"), "metadata": ("#38855a", "#68b98b"), "not_ours": ("#8a8f98", "#a3a9b3"),
}
CELLS = ("in_use", "free_in_pages", "kept")


def escaped(value):
    return markup.escape(str(value), quote=True)


def style():
    """The colours as classes; of text and the ground of cells, too."""
    light = "".join(f".{name}{{fill:{light}}}" for name, (light, _) in COLOURS.items())
    dark = "".join(f".{name}{{fill:{dark}}}" for name, (_, dark) in COLOURS.items())
    return (f"text{{font:12px sans-serif;fill:#222}}.ground{{fill:#e8eaee}}.none{{fill:none}}{light}"
            f"@media(prefers-color-scheme:dark){{text{{fill:#ddd}}.ground{{fill:#30343b}}{dark}}}")


def cells(arena, top, columns):
    """The cells of an arena, whose first row is at `top`: a path for each colour, and the address of each row, which says what
    is in it when the pointer rests there. Returns their height, too."""
    paths = {name: [] for name in ("ground", *CELLS)}
    for i, cell in enumerate(arena["cells"]):
        x, bottom = LEFT + i % columns * (CELL + GAP), top + i // columns * (CELL + GAP) + CELL
        paths["ground"].append(f"M{x} {bottom}v-{CELL}h{CELL}v{CELL}z")
        for name, size in zip(CELLS, cell):
            height = round(min(size / arena["cell_bytes"], 1) * CELL, 1)
            if height > 0:
                paths[name].append(f"M{x} {bottom:g}v-{height:g}h{CELL}v{height:g}z")
                bottom = round(bottom - height, 1)
    found = [f'<path class="{name}" d="{"".join(d)}"/>' for name, d in paths.items() if d]
    rows = -(-len(arena["cells"]) // columns)
    for row in range(rows):
        here = arena["cells"][row * columns:(row + 1) * columns]
        start, y = arena["start"] + row * columns * arena["cell_bytes"], top + row * (CELL + GAP)
        sizes = (f"{label} {amount(sum(cell[k] for cell in here))}" for k, (_, label) in enumerate(legend()))
        found.append(f'<text x="0" y="{y + CELL - 2}">{start:#x}</text><rect class="none" pointer-events="all" x="{LEFT}" y="{y}" '
                     f'width="{columns * (CELL + GAP)}" height="{CELL + GAP}"><title>{start:#x}: {escaped(", ".join(sizes))}</title></rect>')
    return "".join(found), rows * (CELL + GAP)


def legend():
    return [(key, label) for key, label, _ in PARTS if key in CELLS]


def heading(arena):
    flags = f", {', '.join(arena['flags'])}" if arena["flags"] else ""
    of = f" of sub-process {arena['subprocess']}" if arena["subprocess"] else ""
    return (f"Arena at {arena['start']:#x}{of}{flags}: {amount(arena['bytes'])}, {amount(arena['resident'])} resident; "
            f"a cell is {amount(arena['cell_bytes'])}")


def frame(width, height, label, body):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{escaped(label)}">'
            f"{body}</svg>")


def svg(snapshot):
    """The map as a picture."""
    body, y = [f"<title>{escaped(title(snapshot))}</title><style>{style()}</style>"], 30
    for k, (key, label) in enumerate(legend()):
        body.append(f'<rect class="{key}" x="{160 * k}" y="2" width="{CELL}" height="{CELL}"/><text x="{160 * k + 18}" y="13">{label}</text>')
    for arena in snapshot["arenas"]:
        body.append(f'<text x="0" y="{y + 12}">{escaped(heading(arena))}</text>')
        found, height = cells(arena, y + 20, COLUMNS[0])
        body.append(found)
        y += height + 34
    if not snapshot["arenas"]:
        body.append(f'<text x="0" y="{y + 12}">There is no arena.</text>')
        y += 20
    return frame(LEFT + COLUMNS[0] * (CELL + GAP), y, "Map of the heap", "".join(body)) + "\n"


def maps(snapshot):
    """The map as a part of the page."""
    signs = "".join(f'<span class="sign">{dot(key)}{label}</span>' for key, label in legend())
    found = [f'<p class="soft">{signs}<br>A cell is filled from below with what is resident in it; what is empty is not resident.</p>']
    for arena in snapshot["arenas"]:
        body, height = cells(arena, 0, COLUMNS[1])
        found.append(f"<p>{escaped(heading(arena))}</p>"
                     f'<div class="map">{frame(LEFT + COLUMNS[1] * (CELL + GAP), height, heading(arena), body)}</div>')
    outside = snapshot["outside_arenas"]
    if outside["pages"]:
        found.append(f'<p>Outside arenas: {outside["pages"]} blocks with mappings of their own, {amount(outside["resident"])} resident</p>')
    return "\n".join(found)


# -- The page --

PAGE_STYLE = """
:root{color-scheme:light dark;--text:#222;--soft:#666;--line:#d4d8de;--ground:#fff}
@media(prefers-color-scheme:dark){:root{--text:#ddd;--soft:#a3a9b3;--line:#3c414a;--ground:#17191d}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--text);background:var(--ground);max-width:1120px;margin:0 auto;padding:12px}
h1{font-size:1.35em;margin:.3em 0;overflow-wrap:anywhere}h2{font-size:1.1em;margin:1.6em 0 .4em}
p{margin:.4em 0;overflow-wrap:anywhere}.soft{color:var(--soft)}.warning{border-left:4px solid #dd7a1b;padding-left:8px}
table{border-collapse:collapse;width:100%}td,th{padding:2px 8px;text-align:right;border-bottom:1px solid var(--line);
font-variant-numeric:tabular-nums;font-weight:normal;vertical-align:top;white-space:nowrap}th{color:var(--soft)}
td:first-child,th:first-child{text-align:left;padding-left:0;white-space:normal;overflow-wrap:anywhere}
.words{text-align:left;white-space:normal}.name,.sign{white-space:nowrap}.sign{margin-right:1em}.map{max-width:800px}
.bar{display:block;width:100%;height:26px;border-radius:4px;overflow:hidden}.small{height:10px;min-width:60px}
svg{display:block;width:100%;height:auto}.dot{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
@media(max-width:640px){.minor{display:none}td,th{padding:2px 4px;font-size:13px}body{padding:8px}}
"""


def bar(shares, kind=""):
    """A bar of [(class, bytes)]."""
    whole, x, found = sum(size for _, size in shares) or 1, 0.0, []
    for name, size in shares:
        width = 100 * size / whole
        found.append(f'<rect class="{name}" x="{x:.2f}" y="0" width="{width:.2f}" height="10"/>')
        x += width
    return f'<svg class="bar {kind}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{"".join(found)}</svg>'


def grid(heads, rows, minor=(), words=()):
    """A table; `rows` are lists of HTML. On a narrow screen the columns in `minor` are left out."""
    def kind(k):
        names = [name for name, chosen in (("minor", minor), ("words", words)) if k in chosen]
        return f' class="{" ".join(names)}"' if names else ""
    head = "".join(f"<th{kind(k)}>{escaped(cell)}</th>" for k, cell in enumerate(heads))
    body = "".join("<tr>" + "".join(f"<td{kind(k)}>{cell}</td>" for k, cell in enumerate(row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def dot(key):
    return f'<svg class="dot" viewBox="0 0 10 10" aria-hidden="true"><rect class="{key}" width="10" height="10"/></svg>'


def part_rows(snapshot):
    anonymous = snapshot["system"]["anonymous"]
    for key, name, about in PARTS:
        size = snapshot["parts"][key]
        if size or key != "changing_hands":
            yield [f'<span class="name">{dot(key)}{escaped(name)}</span>', amount(size), percent(size, anonymous), escaped(about)]


def sum_rows(entries, name):
    for entry in entries[:SHOWN]:
        shares = [("in_use", entry["in_use"]), ("free_in_pages", entry["free"])]
        yield [escaped(name(entry)), entry["pages"], entry["blocks"], amount(entry["bytes"]), entry["blocks_free"],
               amount(entry["resident"]), amount(entry["free"]), bar(shares, "small")]


def sums(heading, first, entries, name):
    if not entries:
        return ""
    heads = (first, "pages", "blocks", "in use", "free blocks", "resident", "free", "")
    rest = len(entries) - SHOWN
    more = f'<p class="soft">and {rest} others with {amount(sum(e["resident"] for e in entries[SHOWN:]))} resident</p>' if rest > 0 else ""
    return f"<h2>{escaped(heading)}</h2>" + grid(heads, sum_rows(entries, name), minor=(1, 4, 7)) + more


def site_table(profile):
    if not profile["interval"] and not profile["sites"]:
        return ""
    rows = ([escaped(" < ".join(site["frames"][:6])), site["blocks"], amount(site["bytes"])] for site in profile["sites"])
    return "<h2>Call sites with most bytes in use, estimated from samples</h2>" + grid(("called by", "blocks", "in use"), rows)


def html(snapshot):
    """All of a snapshot as one page."""
    parts, total, collect = snapshot["parts"], snapshot["total"], snapshot["collect"]
    shares = [(key, max(parts[key] or 0, 0)) for key, _, _ in PARTS]
    said = "".join(f'<p class="{"warning" if line.startswith("warning") else "soft"}">{escaped(line)}</p>' for line in remarks(snapshot))
    most = sorted(snapshot["classes"], key=lambda c: -c["resident"])
    name = snapshot["target"]["name"] or "a process"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Memory of {escaped(name)}</title><style>{PAGE_STYLE}{style()}</style></head><body>
<h1>{escaped(amount(snapshot["system"]["anonymous"]))} resident: where it is</h1>
<p class="soft">{escaped(title(snapshot))}</p>{said}
{bar(shares)}
{grid(("part", "bytes", "", "what it is"), part_rows(snapshot), words=(3,))}
<p>{total["blocks"]} blocks in use have {escaped(amount(total["bytes"]))}, of which {escaped(amount(total["not_touched"]))} is not resident.
A collect would give back {escaped(amount(collect["kept"]))} that is kept, and each thread that collects its part of
{escaped(amount(collect["empty_pages"]))} in pages without a block in use.</p>
{sums("By size of blocks", "size", most, block_name)}
{sums("By heaps", "heap", snapshot["heaps"], lambda heap: heap["name"])}
{sums("By threads", "thread", snapshot["threads"], thread_name)}
{site_table(snapshot["profile"])}
<h2>Map</h2>
{maps(snapshot)}
</body></html>
"""
