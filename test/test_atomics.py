"""What comments say of atomic fields is so: who accesses them, in which order, and what an order pairs with.

A wrong table sends whoever changes a protocol to the wrong function; no other test reads it. The comment of a field is the
one above it, or above its structure; fields in consecutive lines share one. A table has rows like these:

    //   write  any    CAS release   push blocks   mi_remote_push, mi_remote_take   (publishes the links)
    //   read   owner  relaxed       "worth collecting?"

- A row that names functions, or a file, is right: in each the field is accessed in this way and order.
- Every write of such a field, and every read that is not relaxed, is in a function that such a row names.
- Without a table, the comment says who writes and who reads, and names the orders that the code uses, and no other.
- An ordered access names a function that accesses the same field on the other side, or says `pairs with none`, and why.

Plain text matching, as in scripts/tidy.py. Not looked at: structures that are assigned as a whole, and `mi_atomic_peek`.
"""
import functools
import re
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import tidy  # noqa: E402

ORDERS = r"relaxed|acquire|release|acq_rel|seq_cst"
ACCESS = re.compile(rf"\bmi_atomic_(load|store|swap|or|and|add|sub|cas)(?:_weak|_strong)?_({ORDERS})\(")
COUNT = re.compile(r"\bmi_count_(?:add(?:_peak)?|raise)\((?=&)")  # relaxed
MAP = re.compile(r"\bmi_bitmap_(\w+)\((?=\w+->\w+,)")  # a map of an arena; relaxed, but for these
MAP_ORDER = {"set_release": "release", "try_claim": "acquire", "is_set_acquire": "acquire"}
DECLARED = re.compile(r"\s*(?:static |typedef |MI_INTERNAL_DATA_DECL |mi_attr_aligned\(\d+\) )*(?:mi_atomic\([^()]*\)|mi_bitmap_word_t\*) "
                      r"(?!const)(\w[^;=]*)[;=]")
ROW = re.compile(r"\s*//   (write|read) +([^(]*)")
SIDE = {"acquire": {"release", "acq_rel"}, "release": {"acquire", "acq_rel"},
        "acq_rel": {"acquire", "release", "acq_rel"}}
# What the same name is in two structures, by the receiver.
RECEIVER = {"heap": {"page": "mi_page_t", "from": "mi_page_t", "rest": "mi_page_t",
                     "theap": "mi_theap_t", "home": "mi_theap_t"},
            "arenas": {"subproc": "mi_subproc_t", "s": "mi_subproc_t", "count": "mi_counters_t"},
            "committed": {"arena": "mi_arena_t", "count": "mi_counters_t"}}
# What is not accessed by the name of its field: a variable or a function in a file.
ALIAS = {("bitmap", "word"): "mi_bitmap_word_t", ("bitmap", "map"): "mi_bitmap_word_t",
         ("arena", "hint"): "mi_arena_t.low_word", ("book", "entry"): "mi_book_entry_t",
         ("book", "mi_book_entry"): "mi_book_entry_t",
         ("mark", "mark"): "mi_mark_t", ("mark", "mi_mark_find"): "mi_mark_t",
         ("fit", "node"): "mi_fit_node_t", ("fit", "mi_fit_node"): "mi_fit_node_t",
         ("state", "counter"): "mi_counters_t.pages", ("state", "peak"): "mi_counters_t.pages",
         ("stats", "name"): "mi_counters_t.pages", ("subproc", "field"): "mi_counters_t.pages",
         ("output", "count"): "mi_output_t.errors", ("process", "flag"): "mi_process_is_started",
         ("calls", "mi_shadow_find"): "mi_shadow_word_t", ("writer", "word"): "mi_shadow_word_t"}


def declared(files):
    """Of each field, `structure.field` or a global, the lines of its comment. Those that share one have the same list."""
    found = {}
    for path, text in files.items():
        lines, owner, own, above = text.split("\n"), "", [], None
        for no, line in enumerate(lines):
            m = re.match(r"(?:typedef |static )*struct (\w+)_s \{", line)
            if m: owner, own = m[1] + "_t.", comment(lines, no)
            if line.startswith("}"): owner, own = "", []
            m = DECLARED.match(line)
            if not m or path.endswith("atomic.h"): above = None; continue
            if above is None: above = comment(lines, no) or own
            if "//" in line: above.append("//" + line.split("//")[1])
            for name in m[1].split(","): found[owner + re.sub(r"\[.*", "", name).strip()] = above
    return found


def comment(lines, no):
    """The comment that ends above a line."""
    first = no
    while first > 0 and lines[first - 1].lstrip().startswith("//"): first -= 1
    return lines[first:no]


def argument(text, start):
    """The first argument of a call, whose parenthesis ends at `start`."""
    depth, end = 0, start
    while depth > 0 or text[end] not in ",)":
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return text[start:end]


def resolve(path, argument, names):
    """The field that an argument is the address of, or None."""
    m = re.fullmatch(r"(.*?)(\w+)(?:\[.*\]|\(.*\))?", "".join(argument.split()).lstrip("&"))
    room, name = path.rsplit("/", 1)[1].rsplit(".", 1)[0], m[2]
    if (room, name) in ALIAS: return ALIAS[room, name]
    if name in names: return name
    fitting = [n for n in names if n.endswith("." + name)]
    if len(fitting) == 1: return fitting[0]
    receiver = re.findall(r"\w+", m[1])
    owner = RECEIVER.get(name, {}).get(receiver[-1] if receiver else "")
    return f"{owner}.{name}" if owner else None


@functools.lru_cache(maxsize=None)
def parsed(text):
    """Of a file: the code, the lines of comments, and functions and macros: name, first and last line."""
    code, comments = tidy.split(text)
    homes = [(name, first, first + length - 1) for name, first, length in tidy.functions(code)]
    for no, line in enumerate(code, 1):
        m = re.match(r"#define (\w+)\(", line)
        last = no
        while m and code[last - 1].endswith("\\"): last += 1
        if m: homes.append((m[1], no, last))
    return "\n".join(code), comments, homes


def accesses(files, names, bad):
    """All accesses: path, line, function, field, what it does, order."""
    for path, text in files.items():
        if path.endswith("atomic.h"): continue
        code, _, homes = parsed(text)
        found = [(m, m[1], m[2]) for m in ACCESS.finditer(code)]
        found += [(m, "count", "relaxed") for m in COUNT.finditer(code)]
        found += [(m, "map", MAP_ORDER.get(m[1], "relaxed")) for m in MAP.finditer(code)]
        for m, verb, order in found:
            no = code.count("\n", 0, m.start()) + 1
            home = [name for name, first, last in homes if first <= no <= last]
            field = resolve(path, argument(code, m.end()), names)
            if field is None: bad(path, no, "no field has the name of what is accessed")
            else: yield path, no, home[-1] if home else None, field, verb, order


def check_table(field, lines, mine, functions, bad):
    """The rows of a field's table, and what is accessed."""
    allowed = set()  # what the rows say: (function or file, is a write, order)
    for line in lines:
        row = ROW.match(line)
        if not row: continue
        says = re.search(rf"\b(?:(CAS|store|load|swap|or|and|add|sub) )?({ORDERS})\b", row[2])
        if not says: bad(field, 0, f"no order: {line.strip()}"); continue
        named = re.findall(r"\b(?:mi|MI)_\w+|\b\w+\.[ch]\b", row[2][says.end():])
        if says[2] != "relaxed" and not named: bad(field, 0, f"no function: {line.strip()}")
        for name in named:
            if name not in functions: bad(field, 0, f"`{name}` does not exist")
            elif not any(name in (home, path.rsplit("/", 1)[1]) and (verb != "load") == (row[1] == "write")
                         and order == says[2] and says[1] in (None, verb, verb.upper())
                         for path, _, home, _, verb, order in mine):
                bad(field, 0, f"`{name}` has no {row[1]} {says[0]}")
            allowed.add((name, row[1] == "write", says[2]))
    for path, no, home, _, verb, order in mine:
        is_write = verb != "load"
        if not is_write and order == "relaxed": continue
        if not {(home, is_write, order), (path.rsplit("/", 1)[1], is_write, order)} & allowed:
            bad(path, no, f"no row of `{field}` names {home}: {verb} {order}")


def check_prose(fields, text, mine, bad):
    """The comment of fields that have no table."""
    used = {order for *_, order in mine}
    says = set(re.findall(rf"\b({ORDERS})\b", text.lower())) | ({"relaxed"} if re.search(r"\bhints?\b", text) else set())
    if used != says: bad(fields, 0, f"the code uses {sorted(used)}, the comment names {sorted(says)}")
    for word in ("write|writ", "read"):
        if not re.search(rf"\b(?:{word}|any thread)", text, re.I):
            bad(fields, 0, f"the comment does not say who may {word[:5]}")


def check_pairs(files, all_accesses, bad):
    """Every ordered access names one of the other side."""
    for path, no, _, field, verb, order in all_accesses:
        if order == "relaxed" or verb == "map": continue
        near = " ".join(parsed(files[path])[1][max(0, no - 4):no])
        others = {name for a, _, home, other, _, kind in all_accesses if other == field and kind in SIDE[order]
                  for name in (home, a.rsplit("/", 1)[1])}
        if "pairs with none" not in near.lower() and not others & set(tidy.NAME.findall(near)):
            bad(path, no, f"{order} of `{field}`: the comment names none of {sorted(filter(None, others))}")


def check(files):
    """What is wrong, a line each."""
    out = []
    def bad(where, no, what): out.append(f"{where}:{no}: {what}")
    comments = declared(files)
    found = list(accesses(files, comments, bad))
    functions = {home for _, _, home, *_ in found} | {path.rsplit("/", 1)[1] for path in files}
    for lines in {id(lines): lines for lines in comments.values()}.values():
        fields = [field for field, its in comments.items() if its is lines]
        mine = [access for access in found if access[3] in fields]
        if any(map(ROW.match, lines)): check_table(fields[0], lines, mine, functions, bad)
        else: check_prose(", ".join(fields), " ".join(lines), mine, bad)
    check_pairs(files, found, bad)
    return out


@pytest.fixture(scope="module")
def source():
    paths = sorted((conftest.ROOT / "src").rglob("*.[ch]"))
    return {str(path.relative_to(conftest.ROOT)): path.read_text() for path in paths}


def test_comments_say_how_atomic_fields_are_accessed(source):
    findings = check(source)
    assert not findings, "\n".join(findings)


# What is changed in the text of a file, and what is said then.
@pytest.mark.parametrize("path, old, new, finding", [
    ("core/pages/remote.c", "release(&page->thread_free, &word, desired)", "relaxed(&page->thread_free, &word, desired)",
     "`mi_remote_push` has no write CAS release"),
    ("core/pages/remote.c", "mi_remote_take(mi_page_t* page)", "mi_remote_grab(mi_page_t* page)",
     "`mi_remote_take` does not exist"),
    ("core/common/types.h", "mi_remote_push     (publishes", "mi_remote_take     (publishes",
     "`mi_remote_take` has no write CAS release"),
    ("core/common/types.h",
     "  //   write  any    CAS acq_rel   set OWNED, by a pop  mi_remote_claim_popped  (the same)\n", "",
     "no row of `mi_page_t.thread_free` names mi_remote_claim_popped: cas acq_rel"),
    ("core/common/types.h", "mi_inside_enter, mi_heap_end_by_delete  (HEAP", "(HEAP",
     "no function: //   write  any  add acq_rel"),
    ("core/common/pagemap.h", "store relaxed  mi_pagemap_done", "mi_pagemap_done", "no order"),
    ("core/common/pagemap.c", "store_relaxed(&mi_pagemap.window[w], 0)", "store_release(&mi_pagemap.window[w], 0)",
     "no row of `mi_pagemap_t.window` names mi_pagemap_done: store release"),
    ("core/arenas/numa.c", "load_relaxed(&mi_state.numa_count)", "load_acquire(&mi_state.numa_count)",
     "mi_state_t.numa_count:0: the code uses ['acquire', 'relaxed'], the comment names ['relaxed']"),
    ("core/arenas/purge.c", "mi_bitmap_set(arena->dirty", "mi_bitmap_set_release(arena->dirty",
     "mi_arena_t.dirty:0: the code uses"),
    ("core/common/state.h", "same.\n  mi_atomic(size_t) numa_count", "same.\n\n  mi_atomic(size_t) numa_count",
     "mi_state_t.numa_count:0: the comment does not say who may write"),
    ("core/common/state.h", "Written by that thread, read by any.", "Written by that thread.", "does not say who may read"),
    ("core/process/init.c", "pairs with the acquire in `mi_init_os`", "pairs with the acquire in `mi_init_main_heap`",
     "release of `mi_state_t.is_prepared`: the comment names none of"),
    ("core/process/init.c", "load_acquire(&mi_state.is_prepared)", "load_acquire(&mi_state.was_prepared)",
     "no field has the name"),
])
def test_a_comment_that_is_not_so_is_found(source, path, old, new, finding):
    text = source["src/" + path]
    assert old in text
    findings = check({**source, "src/" + path: text.replace(old, new, 1)})
    assert any(finding in line for line in findings), findings
