"""python3 on dictionaries, lists, strings and JSON: a program of objects.

Twice. As it comes, the interpreter carves objects up to 512 bytes out of arenas that it maps itself, and malloc sees
what is larger: lists and tables of dictionaries, most of 1 to 4 KiB, and long strings. With PYTHONMALLOC=malloc every
object is a block of its own: nine of ten have at most 64 bytes; many live for microseconds, others stay until the
end. One thread.
"""
import os
import sys

from suite import catalog
from suite.context import checksum

PYTHON = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable  # not a wrapper script
ROUNDS = {"tiny": 1, "quick": 3, "full": 8}
SCRIPT = r"""
import collections, json, random, re, sys
random.seed(1)
words = ["".join(random.choices("abcdefghij", k=random.randint(2, 12))) for _ in range(12000)]

class Node:
    def __init__(self, key, text):
        self.key, self.text, self.left, self.right = key, text, None, None

def insert(root, key, text):
    while root.key != key:
        side = "left" if key < root.key else "right"
        if getattr(root, side) is None:
            setattr(root, side, Node(key, text))
        root = getattr(root, side)

kept, total = collections.deque(maxlen=5), 0
for turn in range(int(sys.argv[1])):
    index = collections.defaultdict(list)
    for i in range(50000):
        index[words[(i * 7919 + turn) % len(words)]].append((i, str(i)))
    text = json.dumps({word: [number for number, _ in rows[turn % 3:]] for word, rows in index.items()})
    back = json.loads(text)
    root = Node(1 << 16, "")
    for i in range(6000):
        insert(root, (i * 40503 + turn) % 131071, f"{turn} {i}")
    found = re.findall(r'"(\w+)": \[(\d+)', text)
    lines = sorted(f"{word[::-1]}{len(rows)}{rows[:2]}" for word, rows in back.items())
    kept.append((index, lines[turn::7], root, found))
    total += len(text) + len("".join(lines).replace("a", "<a>").split("<a>")) + len(found)
    total += sum(map(len, back.values()))
print(total, len(kept), kept[-1][1][:5])
"""


def prepare(folder, scale):
    (folder / "objects.py").write_text(SCRIPT)


def run_with(env):
    def run(context):
        return checksum(context.finish([PYTHON, "-S", context.folder / "objects.py", ROUNDS[context.scale]], env=env))
    return run


NEEDS = [(PYTHON, "python3")]
WORKLOADS = [
    catalog.Program(name="python", group="programs", needs=NEEDS, prepare=prepare, run=run_with({}),
                    sentence="python3 on dictionaries, trees, JSON, regular expressions; own small objects"),
    catalog.Program(name="python-malloc", group="programs", needs=NEEDS, prepare=prepare,
                    run=run_with({"PYTHONMALLOC": "malloc"}),
                    sentence="the same with every object by malloc: millions of short-lived small blocks"),
]
