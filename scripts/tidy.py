#!/usr/bin/env python3
"""The style rules that a machine can check; STYLE.md says what each is for.

Usage: tidy.py ROOT [--only RULE[,RULE]] [--summary]
Every finding is "path:line: [rule] text"; exit status 1 if there are any.
Plain text matching, no parser: keep each rule simple enough to read in a minute,
and let a line opt out with a trailing  tidy: allow RULE (why)  comment.
Looked at: what git tracks, and what it would track if it were added now.
"""
import os
import re
import subprocess
import sys
from collections import Counter

# Who may include whom. Order = layers, lowest first (see ARCHITECTURE.md).
LAYERS = {
    "base": {"base"},
    "os": {"base", "os"},
    "core": {"base", "os", "core"},
    "observe": {"base", "os", "core", "observe"},
    "api": {"base", "os", "core", "observe", "api"},
    "compat": {"base", "compat"}, # and the public headers
    "trace": {"base", "trace"},
    "override": {"base", "api", "override"},
}
# The folders of the core, lowest first. Each has a header of its own name, which those above include; above the core
# that is core.h, and the table of options.
CORE = ("common", "arenas", "pages", "threads", "heaps", "process", "front")
CORE_FACES = {"core.h", "common/options.def"}
# Who may write what says whose a page is and where it is kept.
PAGE_STATE = (
    (re.compile(r"mi_atomic_(store|cas|swap|add|sub|and|or)\w*\(&?\w+->owner\b|\bplace = MI_PLACE|->page_count( [-+]?=[^=]|\+\+|--)"), ("life.c",)),
    (re.compile(r"mi_atomic_(store|cas|swap|add|sub|and|or)\w*\(&\w+->thread_free\b"), ("life.c", "remote.c")),
)
OS_MACRO = re.compile(r"\b(_WIN32|_WIN64|__APPLE__|__linux__|__ANDROID__|__BIONIC__|__\w*BSD__|__sun|__HAIKU__"
                      r"|__wasi__|__EMSCRIPTEN__|__CYGWIN__|__MINGW\w+|__QNX__|__GLIBC__)\b")
OS_DIRS = ("src/os/", "src/override/", "src/base/compiler.h", "include/")
FAST_FILES = {"src/core/front/alloc.c", "src/core/front/free.c"}
LIMIT = {"column": 100, "function": 70, "file": 800, "fast-file": 220}
TABLE_ROW = re.compile(r"(\s*//\s{3,})([\w|(].*)")
TORN_FROM = 84  # columns: what a formatter breaks is longer
ORDERED = re.compile(r"\bmi_atomic_\w*(acquire|release|acq_rel|seq_cst)\w*\s*\(")
COUNTERPART = re.compile(r"(?i)\b(?:pairs with|publishes|sees)\b.*?`(?:mi_\w+|[\w/]+\.[ch])`|\bpairs with none: \w")
DEAD = re.compile(r"^\s*///?\s*(if ?\(|for ?\(|while ?\(|return\b|[\w>.\-\[\]]+ = |_?mi_\w+\().*[;{}]\s*(//.*)?$")
NAME = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
# What core must not call: it runs before and inside libc, and a string function of libc may be ours. The
# compiler itself emits calls of memcpy and memset, so these are fine.
BANNED = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|strdup|printf|fprintf|sprintf|snprintf|vsnprintf|puts"
                    r"|fputs|fopen|fwrite|strlen|strcpy|strcat|strcmp|strncmp|strtol|atoi|getenv|secure_getenv"
                    r"|qsort|abort|exit|assert|rand|time|usleep|sleep"
                    r"|mmap|munmap|mprotect|madvise|mremap)\s*\(")
# The invariants of a file, at its top; where one is referred to, by its name and by a number alone.
INVARIANT = re.compile(r"// ([A-Z][A-Z_\d]*)-(\d+)  \S")
CITED = re.compile(r"(?<![\w-])([A-Z][A-Z_\d]*)-(\d+)(?![\w-])")
NUMBER_ALONE = re.compile(r"// [A-Z]\d\d?  \S|.*(?<![\w-])[A-Z]\d\d? (of|in) `?[\w/]+\.[ch]\b")
BINARY = re.compile(rb"\0")
BINARY_FOLDER = "bench/traces/" # what is recorded has no form that a person reads


def split(text):
    """Return (code, comments) with line structure kept in both."""
    code, com, i, n = [], [], 0, len(text)
    while i < n:
        two = text[i:i + 2]
        if two == "//" or two == "/*":
            j = text.find("\n", i) if two == "//" else text.find("*/", i + 2)
            j = n if j < 0 else j + (0 if two == "//" else 2)
            com.append(text[i:j]); code.append("\n" * text.count("\n", i, j)); i = j
        elif text[i] in "\"'":
            q, j = text[i], i + 1
            while j < n and text[j] != q and text[j] != "\n":
                j += 2 if text[j] == "\\" else 1
            code.append(q + q); com.append(""); i = j + 1
        else:
            code.append(text[i]); com.append("\n" if text[i] == "\n" else ""); i += 1
    return "".join(code).split("\n"), "".join(com).split("\n")


def functions(code):
    """Yield (name, first line, length) of top-level functions; conditional code is not balanced."""
    depth, sig, start, pp = 0, "", None, False
    for no, line in enumerate(code, 1):
        s = line.strip()
        if pp or s.startswith("#"):
            pp = s.endswith("\\"); continue
        if s.startswith('extern ""'):
            continue
        for ch in s:
            if ch == "{":
                if depth == 0:
                    names = re.findall(r"(\w+)\s*\(", sig)
                    start = (names[0], no) if names and "=" not in sig.split("(")[0] else None
                depth += 1
            elif ch == "}":
                depth = max(0, depth - 1)
                if depth == 0:
                    if start: yield start[0], start[1], no - start[1] + 1
                    start, sig = None, ""
            elif depth == 0:
                sig = "" if ch == ";" else sig + ch
        sig = (sig + " ")[-2000:]


def listed(root):
    """Paths git tracks or would track, that exist; without a repository all but build/."""
    git = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if os.path.exists(os.path.join(root, ".git")):
        found = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    else:
        found = [os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names
                 if os.path.relpath(folder, root).split(os.sep)[0] != "build" and "__pycache__" not in folder]
    return sorted({p for p in found if p and os.path.isfile(os.path.join(root, p))})


def prose(text):
    """The lines of a Markdown file, and of each whether it is text and not code."""
    fenced = False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        yield line, not fenced and not fence


def anchors(text):
    """What links call the headings of a Markdown file, in their order."""
    found, seen = [], Counter()
    for line, is_prose in prose(text):
        heading = is_prose and re.match(r"#+ (.*)", line)
        if not heading: continue
        anchor = re.sub(r"[^\w -]", "", heading[1].strip().lower()).replace(" ", "-")
        found.append(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def check_document(root, p, known, bad):
    """All rules that look at one Markdown file."""
    def read(path):
        with open(os.path.join(root, path), errors="replace") as f: return f.read()
    for no, (line, is_prose) in enumerate(prose(read(p)), 1):
        if not is_prose: continue
        for _, target, anchor in LINK.findall(line):
            if re.match(r"[a-z]+:", target): continue
            path = os.path.normpath(os.path.join(os.path.dirname(p), target)) if target else p
            if not os.path.exists(os.path.join(root, path)): bad("dead-link", p, no, target)
            elif anchor and (not path.endswith(".md") or anchor not in anchors(read(path))):
                bad("dead-anchor", p, no, f"{target}#{anchor}")
        if "tidy: allow stale-name" in line: continue
        for word in (w for q in NAME.findall(line) for w in re.findall(r"\b(?:mi_\w+|MI_\w+)\b(?!\*)", q)):
            if word not in known and not word.endswith("_"): bad("stale-name", p, no, f"`{word}` does not exist")


def check_include(p, target):
    """Why a file may not include another (both from src/), or None."""
    layer, to = p.split("/")[1], target.split("/")[0]
    if to not in LAYERS or layer not in LAYERS: return None
    if to not in LAYERS[layer]: return f"{layer} may not include {to}"
    if to != "core": return None
    inside = target[len("core/"):]
    if layer != "core": return None if inside in CORE_FACES else f"{layer} may include of the core only {sorted(CORE_FACES)}"
    mine, other = p.split("/")[2], inside.split("/")[0]
    if mine == other or mine not in CORE or other not in CORE: return None
    if CORE.index(other) > CORE.index(mine): return f"core/{mine} may not include core/{other}"
    return None if inside == f"{other}/{other}.h" else f"of core/{other} only {other}.h may be included"


def check_calls(parts, bad):
    """Functions of the core call what their own folder and those below define; files do not call in circles."""
    sources = {p: code for p, (code, _) in parts.items() if re.match(r"src/core/\w+/", p)}
    spans = {p: list(functions(code)) for p, code in sources.items()}
    room = lambda p: p[len("src/core/"):].rsplit(".", 1)[0]  # a .c file and its header are one
    homes = {}
    for p, found in spans.items():
        for name, _, _ in found: homes.setdefault(name, set()).add(room(p))
    calls = {room(p): {} for p in sources}
    for p, found in spans.items():
        for _, first, length in found:
            for no in range(first, first + length):
                for name in re.findall(r"\b_?mi_\w+", sources[p][no - 1]):
                    home = homes.get(name, set())
                    if len(home) == 1 and room(p) not in home: calls[room(p)].setdefault(*home, (p, no, name))
    rank = lambda r: CORE.index(r.split("/")[0]) if r.split("/")[0] in CORE else 0
    for here, found in calls.items():
        for there, (p, no, name) in found.items():
            if rank(there) > rank(here): bad("call", p, no, f"{name} is of core/{there}, above")
    def reach(r, seen):
        for n in calls[r]:
            if n in seen: continue
            seen.add(n)
            reach(n, seen)
        return seen
    reached = {r: reach(r, set()) for r in calls}
    for circle in sorted({tuple(sorted(q for q in reached[r] if r in reached[q])) for r in calls if r in reached[r]}):
        p, no, name = next(call for r in circle for n, call in calls[r].items() if n in circle)
        reasons = [c for q, (_, com) in parts.items() if q in sources and room(q) in circle for c in com if "tidy: allow circle (" in c]
        if not reasons: bad("circle", p, no, f"{', '.join(circle)} call each other ({name})")


def check_file(p, text, code, com, known, paths, bad):
    """All rules that look at one C file; bad(rule, path, line, text) takes a finding."""
    lines = text.split("\n")
    top = next((i for i, l in enumerate(code) if l.strip()), len(code))
    words = " ".join(l for l in com[:top] if not re.search(r"(?i)copyright|licen[sc]e|free software|terms of", l))
    twin = p.endswith(".h") and p[:-2] + ".c" in paths  # then the comment stands there
    if p.startswith("src/") and not twin and len(re.findall(r"[a-z]{3,}", words)) < 10:
        bad("file-top", p, 1, "no design comment before the first line of code")
    if len(lines) > LIMIT["file"] and "tidy: allow file-length" not in lines[0]: bad("file-length", p, 1, f"{len(lines)} lines")
    if p in FAST_FILES and len(lines) > LIMIT["fast-file"]: bad("file-length", p, 1, f"fast path file has {len(lines)} lines")
    layer = p.split("/")[1] if p.startswith("src/") and p.count("/") > 1 else None
    example = False  # between @code and @endcode in a public header: how to use it
    for no, (line, cd, cm) in enumerate(zip(lines, code, com), 1):
        allowed = re.search(r"tidy: allow ([\w-]+)", cm)
        def here(rule, message):
            if not allowed or allowed[1] != rule: bad(rule, p, no, message)
        if len(line.expandtabs(8)) > LIMIT["column"]: here("column", f"{len(line)} columns")
        if re.match(r"\s*#\s*(if|elif)", cd):
            if OS_MACRO.search(cd) and not p.startswith(OS_DIRS): here("os-macro", cd.strip())
            if p in FAST_FILES and not re.match(r"\s*#\s*ifndef\s+MI_\w+_H\b", cd): here("fast-if", cd.strip())
        m = re.match(r'\s*#\s*include\s*""', cd) and re.match(r'\s*#\s*include\s*"([^"]+)"', line)
        if m and layer in LAYERS and "/" in m[1]:
            # Includes are written from src/ ("base/bits.h") or relative to the file ("../base/bits.h").
            near = m[1] if m[1].split("/")[0] in LAYERS else os.path.normpath(os.path.join(p, "..", m[1]))[4:]
            wrong = check_include(p, near)
            if wrong: here("layer", wrong)
        if layer == "core" and BANNED.search(cd) and not re.match(r"\s*#", cd):
            here("banned", f"{BANNED.search(cd)[1]} called in core")
        if p.startswith("include/") and re.search(r"@(end)?code\b", cm): example = "@code" in cm
        for pattern, writers in PAGE_STATE if layer == "core" else ():
            if pattern.search(cd) and os.path.basename(p) not in writers: here("page-state", f"only {', '.join(writers)} may: {cd.strip()[:60]}")
        if DEAD.match(line) and not example: here("dead-code", line.strip()[:70])
        if re.search(r"\b(TODO|FIXME|XXX|[Tt]odo)\b", cm) and not re.search(r"#\d+", cm): here("todo", cm.strip()[:70])
        if p.startswith("src/") and ORDERED.search(cd) and not re.match(r"\s*#", cd) and p != "src/base/atomic.h":
            near = " ".join(com[max(0, no - 4):no])
            if not COUNTERPART.search(near): here("order", cd.strip()[:70])
        for word in (w for q in NAME.findall(cm) for w in re.findall(r"\b(?:_*mi_\w+|MI_\w+)\b", q)):
            if word not in known: here("stale-name", f"`{word}` does not exist")
    for no in range(1, len(lines)):
        row, below = TABLE_ROW.match(lines[no - 1]), TABLE_ROW.match(lines[no])
        if not row or not below or row[1] != below[1] or "tidy: allow torn" in lines[no]: continue
        if len(lines[no - 1]) > TORN_FROM and re.search(r"\S {2,}\S", row[2]) and re.fullmatch(r"[|a-z()].*", below[2]) \
                and not re.search(r"\S {2,}\S", below[2]):
            bad("torn", p, no + 1, f"a row of a table goes on as a row of its own: {below[2][:50]}")
    for name, first, length in functions(code):
        if length > LIMIT["function"]: bad("function-length", p, first, f"{name}: {length} lines")


def check_invariants(root, paths, bad):
    """Invariants are called STEM-N, N from 1, after the file that they are of; those that are referred to exist."""
    def lines(path):
        with open(os.path.join(root, path), errors="replace") as f: return list(enumerate(f, 1))
    stem = lambda p: os.path.splitext(os.path.basename(p))[0].upper()
    texts = {p: lines(p) for p in paths if p.endswith((".c", ".h", ".def", ".rs", ".patch", ".md", ".py"))}
    stems = {stem(p) for p in paths if p.startswith("src/")}
    count = Counter()
    for p, no, m in ((p, no, INVARIANT.match(line)) for p, text in texts.items() for no, line in text):
        if not m: continue
        if m[1] != stem(p): bad("invariant", p, no, f"{m[1]}-{m[2]} is defined in a file of another name")
        count[m[1]] += 1
        if int(m[2]) != count[m[1]]: bad("invariant", p, no, f"{m[1]}-{m[2]} should be {m[1]}-{count[m[1]]}")
    for p, text in texts.items():
        for no, line in text:
            if NUMBER_ALONE.match(line): bad("invariant", p, no, f"write STEM-NUMBER: {line.strip()[:60]}")
            for name, number in CITED.findall(line):
                if name in stems | set(count) and not 1 <= int(number) <= count[name]:
                    bad("invariant", p, no, f"{name}-{number} does not exist")


def check_tree(root, paths, known, bad):
    """Rules about the set of files."""
    seen = {}
    for p in (p for p in paths if p.startswith("src/")):
        name = os.path.basename(p)
        if name in seen: bad("unique-file", p, 1, f"{seen[name]} has the same name")
        seen.setdefault(name, p)
    for p in paths:
        with open(os.path.join(root, p), "rb") as f: head = f.read(8192)
        if BINARY.search(head) and not p.startswith(BINARY_FOLDER): bad("binary", p, 1, "a binary file")
        if p.endswith(".md"): check_document(root, p, known, bad)


def check(root, only):
    out = []
    def bad(rule, path, line, text):
        if not only or rule in only: out.append((path, line, rule, text))
    paths = listed(root)
    sources = [p for p in paths if p.endswith((".c", ".h", ".def")) and p.startswith(("src/", "include/", "test/", "bench/"))]
    files = {p: open(os.path.join(root, p), errors="replace").read() for p in sources}
    parts = {p: split(t) for p, t in files.items()}
    known = set(w for p in parts for l in parts[p][0] for w in re.findall(r"[A-Za-z_]\w+", l))
    build = [p for p in paths if p.endswith((".cmake", "CMakeLists.txt", ".json", ".py", ".sh", "Makefile"))]
    known |= set(w for p in build for w in re.findall(r"\w+", open(os.path.join(root, p), errors="replace").read()))
    for p, text in files.items():
        check_file(p, text, *parts[p], known, paths, bad)
    check_calls(parts, bad)
    check_invariants(root, paths, bad)
    check_tree(root, paths, known, bad)
    return out


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if not arguments:
        sys.exit(__doc__)
    only = set(sys.argv[sys.argv.index("--only") + 1].split(",")) if "--only" in sys.argv else set()
    found = check(arguments[0], only)
    if "--summary" in sys.argv:
        for rule, count in Counter(f[2] for f in found).most_common(): print(f"{count:6d} {rule}")
    else:
        for path, line, rule, text in found: print(f"{path}:{line}: [{rule}] {text}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
