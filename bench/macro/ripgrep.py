"""ripgrep searches a folder of generated files for several patterns, with two threads, and prints JSON.

Files are read into one buffer per thread; what reaches malloc are the compiled expressions, the caches of their lazy
automata, paths, and per match the strings of one JSON message, made by one thread and put out by it: a program that
reuses its memory well and leaves an allocator little to do but not to be in the way.
"""
import random

from suite import catalog
from suite.context import checksum

FILES = {"tiny": 40, "quick": 300, "full": 1200}
TIMES = {"tiny": 1, "quick": 5, "full": 3}
PATTERNS = [r"\b(a[b-f]+)\s+(\w+)\s+a\w*e\b", r"(?i)FEED|cafe|[0-9a-f]{14}", r"^\s*\w{3,5}\b.*\bend\b", "dead"]


def prepare(folder, scale):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdef", k=draw.randint(2, 6))) for _ in range(3000)]
    words += ["end", "cafe", "feed", "dead"] * 10
    lines = [" ".join(draw.choices(words, k=draw.randint(3, 16))) for _ in range(6000)]
    for number in range(FILES[scale]):
        inside = folder / "tree" / f"d{number % 37}" / f"e{number % 5}"
        inside.mkdir(parents=True, exist_ok=True)
        start = draw.randrange(5000)
        (inside / f"f{number}.txt").write_text("\n".join(lines[start:start + draw.randint(100, 900)]) + "\n")


def run(context):
    printed = []
    for pattern in PATTERNS * TIMES[context.scale]:
        out = context.finish(["rg", "--json", "--threads=2", "--no-ignore", "--no-config", "-e", pattern, "tree"],
                             cwd=context.folder)
        # The order of the files is that in which threads finish them; the summary is of times.
        printed += sorted(line for line in out.splitlines() if line.startswith(b'{"type":"match"'))
    return checksum(*printed)


WORKLOAD = catalog.Program(name="ripgrep", group="programs", needs=[("rg", "ripgrep")], prepare=prepare, run=run,
                           sentence="ripgrep searches a folder with two threads and prints JSON")
