#!/usr/bin/env python3
"""Builds the documentation: the reference from the public headers, and the Markdown files as pages of it.

Usage: docs.py [--root ROOT] [--output FOLDER]      (default: this repository, and build/docs in it)

Doxygen does the work, with docs/Doxyfile; the result is FOLDER/html/index.html, and FOLDER/mimalloc.tag lists what
is documented. Exit status 1, with what is wrong on standard error, if Doxygen warns or a link of the result leads
nowhere. Links of the Markdown files in the repository itself are checked by tidy.py.

Doxygen's Markdown is not quite that of the places where people read our files, so it gets copies in which
- every heading has a label, made of the file's name and the anchor that the heading has elsewhere;
- links to Markdown files and their headings are references to labels;
- a picture with a dark variant is the light one.
"""
import argparse
import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

from tidy import LINK, anchors, listed, prose

PICTURE = re.compile(r'<picture>.*?<img alt="([^"]*)" src="(?:[^"]*/)?([^"]*)"></picture>')


def label(page, anchor=""):
    """What a page, or a heading in it, is called in the documentation."""
    return re.sub(r"\W+", "-", os.path.splitext(page)[0].lower()) + (f"-{anchor}" if anchor else "")


def reference(match, page, pages):
    """A link of a Markdown file as a reference; one to another machine as it is."""
    text, target, anchor = match.groups()
    if re.match(r"[a-z]+:", target):
        return match[0]
    path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
    if path not in pages:
        sys.exit(f"docs: {page}: the link to {target} leads to no page")
    return f"[{text}](@ref {label(path, anchor)})"


def convert(page, text, pages):
    """A Markdown file of ours, for Doxygen."""
    heading = iter(anchors(text))
    lines = []
    for line, is_prose in prose(text):
        if is_prose and line.startswith("#"):
            # The first heading is the page itself.
            anchor = next(heading)
            line += f" {{#{label(page, anchor if lines else '')}}}"
        elif is_prose:
            line = LINK.sub(lambda match: reference(match, page, pages), line)
            line = PICTURE.sub(r"![\1](\2)", line)
        lines.append(line)
    return "\n".join(lines) + "\n"


def write_pages(root, folder):
    """Converted copies of all Markdown files; returns their paths, the front page first."""
    pages = [page for page in listed(str(root)) if page.endswith(".md")]
    pages.sort(key=lambda page: (page != "README.md", page != "docs/guide.md", page))
    copies = []
    for page in pages:
        copies.append(folder / f"{label(page)}.md")
        copies[-1].write_text(convert(page, (root / page).read_text(), pages))
    return copies


def version(root):
    number = int(re.search(r"#define MI_MALLOC_VERSION (\d+)", (root / "include/mimalloc.h").read_text())[1])
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def doxygen(root, output, copies):
    """Runs Doxygen; what it says and whether it was content."""
    settings = [f"PROJECT_NUMBER = {version(root)}", f'OUTPUT_DIRECTORY = "{output}"',
                f'GENERATE_TAGFILE = "{output}/mimalloc.tag"', f'USE_MDFILE_AS_MAINPAGE = "{copies[0]}"']
    settings += [f'INPUT += "{copy}"' for copy in copies]
    settings += ["FILE_PATTERNS += *.md", f'STRIP_FROM_PATH = "{root}/include" "{copies[0].parent}"']
    done = subprocess.run(["doxygen", "-"], cwd=root, input="@INCLUDE = docs/Doxyfile\n" + "\n".join(settings),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.splitlines(), done.returncode == 0


class Page(html.parser.HTMLParser):
    """What a page of the result links to, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src", "data"):
                self.links.append(value or "")
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def broken_links(folder):
    """Links that lead nowhere, as text. Those to other machines are not followed."""
    pages = {path: Page(path.read_text(errors="replace")) for path in sorted(folder.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.name}: broken link: {link}")
    return broken


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=here)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    output = (arguments.output or root / "build" / "docs").resolve()

    # A page that is gone must not stay.
    shutil.rmtree(output / "html", ignore_errors=True)
    (output / "pages").mkdir(parents=True, exist_ok=True)
    said, is_content = doxygen(root, output, write_pages(root, output / "pages"))
    said += broken_links(output / "html")
    if said or not is_content:
        sys.exit("\n".join([*said, "docs: the documentation has mistakes, see above"]))
    print(f"docs: {output}/html/index.html")


if __name__ == "__main__":
    main()
