#!/usr/bin/env python3
"""Builds the site: every Markdown file of the repository as a page, and the reference, in one folder.

Usage: website.py [--root ROOT] [--output FOLDER]      (default: this repository, and build/site in it)

FOLDER is made anew. It can be opened from disk (index.html), or be put on any web server: its pages load nothing from
elsewhere. Sphinx makes it, with docs/site, and docs.py the reference in it. Exit status 1, with what is wrong on standard error, if one of them
warns, a page is not in the navigation (docs/site/navigation.txt), or a link of the result leads nowhere.

Sphinx gets copies of the Markdown files, in which
- README.md is index.md, which web servers show for a folder;
- a link to a file that is no page is its text;
- a function's name, in back ticks and with parentheses, is a link to its description.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from docs import arguments, broken_links, reference
from release import version
from tidy import LINK, listed, prose

SPHINX = pathlib.Path(__file__).resolve().parent.parent / "build/sphinx/bin/sphinx-build"
FUNCTION = re.compile(r"(?<!\[)`(\w+)\(\)`(?!\])")


def index(path):
    """What a page is called in the site, without what comes after the dot."""
    return re.sub(r"(^|/)README$", r"\1index", os.path.splitext(path)[0])


def descriptions(tags):
    """Where in the reference a function or macro is described, by its name; from Doxygen's list."""
    found = {}
    for member in xml.etree.ElementTree.parse(tags).iterfind(".//member"):
        found.setdefault(member.findtext("name"), f"reference/{member.findtext('anchorfile')}#{member.findtext('anchor')}")
    return found


def convert(root, page, described):
    """A Markdown file of ours, for Sphinx."""
    def link(match):
        text, target, _ = match.groups()
        if target.endswith(".md"):
            return match[0].replace("README.md", "index.md")
        is_file = target and ":" not in target and (root / page).parent.joinpath(target).exists()
        return text if is_file else match[0]

    def function(match):
        if match[1] not in described:
            return match[0]
        path = os.path.relpath(described[match[1]], os.path.dirname(page) or ".")
        return f'<a class="reference internal" href="{path}"><code class="literal">{match[1]}()</code></a>'

    lines = []
    for line, is_prose in prose((root / page).read_text()):
        if is_prose:
            line = LINK.sub(link, line)
            line = line if line.startswith("#") else FUNCTION.sub(function, line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def build(root, output, work):
    """Makes `output` anew; returns what is wrong with it."""
    shutil.rmtree(output, ignore_errors=True)
    said = reference(root, work / "reference", [f'LAYOUT_FILE = "{root}/docs/site/layout.xml"'])
    described = descriptions(work / "mimalloc.tag")
    for path in listed(str(root)):
        copy = work / "pages" / path
        if path.endswith(".md"):
            copy = copy.with_name(os.path.basename(index(path)) + ".md")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(convert(root, path, described))
        elif path.endswith(".svg"):  # Sphinx takes no care of pictures that are HTML, for light and dark
            (output / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / path, output / path)
    with open(work / "pages" / "index.md", "a") as front:
        front.write((root / "docs/site/navigation.txt").read_text())

    done = subprocess.run([SPHINX, "-q", "-W", "--keep-going", "-c", root / "docs/site", "-d", work / "state",
                           "-D", f"html_title=libmimalloc {version(root)}", work / "pages", output],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said += done.stdout.splitlines() or ["sphinx-build failed"] * (done.returncode != 0)
    shutil.copytree(work / "reference", output / "reference")
    return said + broken_links(output)


def main():
    root, output = arguments(__doc__, "site")
    if not SPHINX.exists():
        sys.exit(f"website: {SPHINX} is missing; scripts/setup.sh sphinx fetches it")
    with tempfile.TemporaryDirectory() as work:
        said = build(root, output, pathlib.Path(work))
    if said:
        sys.exit("\n".join([*said, "website: the site has mistakes, see above"]))
    print(f"website: {output}/index.html")


if __name__ == "__main__":
    main()
