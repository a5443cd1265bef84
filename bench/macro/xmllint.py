"""xmllint on a large XML file: build the tree, search it, print it again.

A tree is five or so blocks per element, of 24 to 120 bytes: nodes, attributes, texts, namespaces; names come from a
dictionary. All of it is allocated in the order of the file, stays, and is freed node by node at the end. The search
makes sets of nodes that double; the printer has one growing buffer. One thread.
"""
import random

from suite import catalog
from suite.context import checksum

ITEMS = {"tiny": 3000, "quick": 30000, "full": 64000}
SEARCH = "sum(//item[name[contains(., 'a')]/@kind = 'k3']/value[@unit][. > 50]) + count(//part[not(@note)]/*)"


def prepare(folder, scale):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklm", k=draw.randint(2, 12))) for _ in range(3000)]
    with open(folder / "in.xml", "w") as out:
        out.write("<?xml version='1.0'?>\n<root xmlns:m='urn:m'>")
        for i in range(ITEMS[scale]):
            out.write(f"<item id='i{i}' m:n='{draw.choice(words)}'><name kind='k{i % 7}'>{draw.choice(words)}</name>"
                      f"<value unit='{draw.choice(words)[:3]}'>{draw.randint(0, 100)}</value>")
            for _ in range(draw.randint(0, 4)):
                text = " ".join(draw.choices(words, k=draw.randint(1, 9)))
                out.write(f"<part note='{draw.choice(words)}'>&lt;{text}</part>")
            out.write("<!-- end --></item>\n")
        out.write("</root>\n")


def run(context):
    tree = context.finish(["xmllint", "--format", context.folder / "in.xml"])
    found = context.finish(["xmllint", "--xpath", SEARCH, context.folder / "in.xml"])
    return checksum(tree, found)


WORKLOAD = catalog.Program(name="xmllint", group="programs", needs=[("xmllint", "libxml2-utils")], prepare=prepare,
                           run=run, sentence="xmllint on a large XML file: a tree of nodes, built, searched, freed")
