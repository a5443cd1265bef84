"""clang -O2 on generated C: many functions, each through some hundred passes.

The front end keeps its tree in bump allocators that never give back. The optimizer is the contrary: instructions and
basic blocks come one by one from operator new, made and dropped in every pass; each pass fills and frees its own maps,
whose tables double. Half of the blocks have at most 32 bytes, the others all sizes to some KiB. One thread.
"""
import random

from suite import catalog
from suite.context import checksum

FUNCTIONS = {"tiny": 2, "quick": 14, "full": 24}


def function(number, draw):
    """Nested loops and branches over some variables and an array: work for every pass, the same for each seed."""
    lines = [f"long f{number}(long *p, long n, struct node *at) {{", "  long a = n, b = 1, c = 2, d = p[0];"]
    for _ in range(draw.randint(3, 6)):
        x, y, z = draw.choices("abcd", k=3)
        lines.append(f"  for (long i = 0; i < n + {draw.randint(1, 9)}; i++) {{")
        for _ in range(draw.randint(3, 7)):
            lines.append(f"    if (({x} ^ i) % {draw.randint(2, 30)} == {y}) {{ {z} += p[i] * {draw.randint(2, 99)}; }}"
                         f" else {{ p[i & 15] -= {x} >> {draw.randint(1, 7)}; {y} ^= at->value; at = at->next; }}")
        if number:
            lines.append(f"    {x} += f{draw.randrange(max(0, number - 8), number)}(p, {y} & 7, at);")
        lines.append("  }")
    return "\n".join([*lines, "  return a + b * c - d;", "}"])


def prepare(folder, scale):
    draw = random.Random(1)
    text = "\n".join(function(number, draw) for number in range(FUNCTIONS[scale]))
    (folder / "many.c").write_text("struct node { struct node *next; long value; };\n" + text + "\n")


def run(context):
    context.finish(["clang", "-O2", "-c", "many.c", "-o", context.scratch / "many.o"], cwd=context.folder)
    return checksum(context.scratch / "many.o")


WORKLOAD = catalog.Program(name="clang", group="programs", needs=[("clang", "clang")], prepare=prepare, run=run,
                           sentence="clang -O2 on a generated C file: instructions and tables of a hundred passes")
