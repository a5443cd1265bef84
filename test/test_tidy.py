"""The style rules hold, and each rule can fail: a tree with one offence per rule must make it fire."""
import re
import subprocess
import sys

import pytest

import conftest

TOP = """// SPDX-License-Identifier: MIT
// bad.c - this comment is long enough that the file has a design comment before its code.
"""
LONG_FUNCTION = "int mi_long(void) {\n" + "  mi_step();\n" * 80 + "  return 0;\n}\n"

# rule: (path, text). Each offends against this rule.
OFFENCES = {
    "column": ("src/core/bad.c", TOP + "int x;" + " " * 120 + "// far\n"),
    "function-length": ("src/core/bad.c", TOP + LONG_FUNCTION),
    "file-length": ("src/core/front/free.c", TOP + "int x;\n" * 230),
    "file-top": ("src/core/bad.c", "int x;\n"),
    "os-macro": ("src/core/bad.c", TOP + "#if defined(__linux__)\n#endif\n"),
    "fast-if": ("src/core/front/alloc.c", TOP + "#if MI_DEBUG\n#endif\n"),
    "layer": ("src/base/bad.c", TOP + '#include "core/common/types.h"\n'),
    "call": ("src/core/arenas/bad.c", TOP + "void mi_bad(void) {\n  mi_above();\n}\n"),
    "circle": ("src/core/pages/bad.c", TOP + "void mi_beside(void) {\n  mi_above();\n}\n"),
    "page-state": ("src/core/bad.c", TOP + "void f(mi_page_t* page) {\n  page->place = MI_PLACE_NONE;\n}\n"),
    "torn": ("src/core/bad.c", TOP + "//\n//   one thing   " + "what is said of it, " * 4 + "and\n//   so on\n"),
    "dead-code": ("src/core/bad.c", TOP + "// mi_old_call(page);\nint x;\n"),
    "todo": ("src/core/bad.c", TOP + "int x; // TO" + "DO later\n"),
    "order": ("src/core/bad.c", TOP + "int x;\nint y;\nint z;\nvoid f(void) { mi_atomic_load_acquire(&x); }\n"),
    "stale-name": ("src/core/bad.c", TOP + "// See `mi_not_there`.\nint x;\n"),
    "invariant": ("src/core/bad.c", TOP + "// FINE-1  a name of another file.\nint x;\n"),
    "banned": ("src/core/bad.c", TOP + 'void f(void) { printf("hello"); }\n'),
    "unique-file": ("src/core/same.h", TOP + "int x;\n"),
    "binary": ("test/data.bin", "a\0b"),
    "dead-link": ("README.md", "See [there](nowhere.md).\n"),
    "dead-anchor": ("README.md", "# Title\nSee [there](#nowhere).\n"),
}
# As close to the offences as one gets without offending.
INNOCENT = {
    "src/base/atomic.h": TOP + "void mi_atomic_load_acquire(int* p);\n",
    "src/base/same.h": TOP + "void mi_step(void);\n",
    "src/os/good.c": TOP + '#if defined(__linux__)\n#endif\n#include "base/same.h"\n',
    "src/core/fine.c": TOP + "// FINE-1  one thing.\n// FINE-2  after FINE-1: UTF-8, SHA-256, C-11.\n"
    "int x; // \"printf(\" and `mi_step` in a comment\n"
    "void f(int* p) {\n  // Pairs with the release in `mi_step`.\n  mi_atomic_load_acquire(p);\n  page->free(p);\n}\n",
    "src/core/pairs.c": TOP + "void f(int* p) {\n  // Pairs with none: nobody else knows it.\n  mi_atomic_load_acquire(p);\n}\n"
    "void g(int* p) {\n  // Publishes what it points to, for\n  // `mi_step`.\n  mi_atomic_store_release(p, 1);\n}\n",
    "src/core/pages/upper.c": TOP + "void mi_above(void) {\n  mi_below();\n  mi_beside();\n}\n",
    "src/core/arenas/below.c": TOP + "void mi_below(void) {\n  mi_step();\n}\n",
    "include/good.h": "/// Steps.\n///\n/// @code\n/// mi_step();\n/// @endcode\nvoid mi_step(void);\n",
    "GOOD.md": "# Good: `mi_step`, and all\n[here](#good-mi_step-and-all), [there](GOOD.md#again-1)\n## Again\n## Again\n",
    "src/core/allowed.c": TOP + "#if defined(__linux__) // tidy: allow os-macro (a test)\n#endif\n",
}


def tidy(tree):
    return subprocess.run([sys.executable, str(conftest.ROOT / "scripts" / "tidy.py"), str(tree)],
                          capture_output=True, text=True)


def make_tree(path, files):
    subprocess.run(["git", "init", "-q", str(path)], check=True)
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def test_tidy_has_no_findings():
    result = tidy(conftest.ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_tidy_accepts_good_code(tmp_path):
    result = tidy(make_tree(tmp_path, INNOCENT))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("rule", OFFENCES)
def test_tidy_finds(rule, tmp_path):
    path, text = OFFENCES[rule]
    result = tidy(make_tree(tmp_path, {**INNOCENT, path: text}))
    assert result.returncode == 1
    findings = result.stdout.splitlines()
    assert any(line.startswith(f"{path}:") and f"[{rule}]" in line for line in findings), findings


@pytest.mark.parametrize("text", [
    "/// mi_old_call(page);\nint x;\n",
    "/// @code\n/// mi_step();\n/// @endcode\n/// mi_old_call(page);\nint x;\n",
])
def test_tidy_finds_dead_code_in_documentation(text, tmp_path):
    """Only what stands between @code and @endcode is an example."""
    result = tidy(make_tree(tmp_path, {**INNOCENT, "include/bad.h": text}))
    assert result.returncode == 1
    assert [line.split(":")[0] for line in result.stdout.splitlines()] == ["include/bad.h"]
    assert "[dead-code]" in result.stdout


@pytest.mark.parametrize("line", ["BAD-2  a gap.", "BAD-1  one.\n// BAD-1  again.", "A1  no name.", "See FINE-3.",
                                  "See A1 " "of fine.c."])
def test_tidy_finds_invariants(line, tmp_path):
    """They are numbered from 1 under the name of their file, and exist where they are referred to."""
    result = tidy(make_tree(tmp_path, {**INNOCENT, "src/core/bad.c": f"{TOP}// {line}\nint x;\n"}))
    assert result.returncode == 1
    assert {re.match(r"([\w/.]+):\d+: \[(\w+)\]", found).groups() for found in result.stdout.splitlines()} == {
        ("src/core/bad.c", "invariant")}


@pytest.mark.parametrize("comment", ["Sees it.", "Pairs with the release in mi_step.", "Sees `x`.", "Pairs with none."])
def test_tidy_wants_the_counterpart_of_an_order(comment, tmp_path):
    """A function or a file in back ticks, or why there is none."""
    text = TOP + f"int x;\nvoid f(void) {{\n  // {comment}\n  mi_atomic_load_acquire(&x);\n}}\n"
    result = tidy(make_tree(tmp_path, {**INNOCENT, "src/core/bad.c": text}))
    assert result.stdout.splitlines() == ["src/core/bad.c:6: [order] mi_atomic_load_acquire(&x);"]


def test_every_rule_has_an_offence():
    source = (conftest.ROOT / "scripts" / "tidy.py").read_text()
    rules = set(re.findall(r"(?:bad|here)\(\"([\w-]+)\"", source))
    assert rules == set(OFFENCES)
