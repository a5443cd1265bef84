"""jq on a large JSON file: parse, group, rebuild, print.

Every value is a block with a count of its uses: numbers inside their parents, strings and arrays as blocks of their
length, objects as tables that double. The parsed file is half a million of blocks, kept; the program on it makes and
drops as many again, one at a time, and compiles a regular expression for each row. One thread.
"""
import json
import random

from suite import catalog
from suite.context import checksum

ROWS = {"tiny": 800, "quick": 3500, "full": 6000}
PROGRAM = """
[.[] | {id, name, tags, at: .nest.at, text: (.text | ascii_upcase | split(" ") | map(select(length > 3)) | join("-"))}]
| group_by(.tags[0])
| map({key: .[0].tags[0], n: length, sum: (map(.at[0]) | add), tags: (map(.tags[]) | unique),
       names: (sort_by(.text) | map(.name + ":" + (.id | tostring))), long: [.[] | select(.text | test("A[B-M]+-"))]})
"""


def prepare(folder, scale):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklm", k=draw.randint(2, 12))) for _ in range(3000)]
    rows = [{"id": i, "name": draw.choice(words),
             "tags": [f"t{draw.randint(0, 40)}" for _ in range(draw.randint(1, 5))],
             "nest": {"at": [draw.randint(0, 1000) / 4, i], "on": draw.random() < 0.5, "none": None},
             "text": " ".join(draw.choices(words, k=draw.randint(3, 14)))} for i in range(ROWS[scale])]
    (folder / "in.json").write_text(json.dumps(rows))


def run(context):
    return checksum(context.finish(["jq", PROGRAM, context.folder / "in.json"]))


WORKLOAD = catalog.Program(name="jq", group="programs", needs=[("jq", "jq")], prepare=prepare, run=run,
                           sentence="jq on a large JSON file: a large tree of small counted blocks")
