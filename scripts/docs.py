#!/usr/bin/env python3
"""Builds the reference, from the public headers. website.py makes the whole site, and this a part of it.

Usage: docs.py [--root ROOT] [--output FOLDER]      (default: this repository, and build/docs in it)

Doxygen does the work, with docs/Doxyfile; the result is FOLDER/html/index.html, and FOLDER/mimalloc.tag lists what
is documented. Exit status 1, with what is wrong on standard error, if Doxygen warns or a link of the result leads
nowhere.
"""
import argparse
import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

from release import version

# What of a page the browser fetches with it, and in style sheets.
FETCHED = {"img": "src", "source": "srcset", "script": "src", "iframe": "src", "object": "data", "link": "href"}
STYLE_URL = re.compile(r"""url\(\s*["']?([^"')\s]+)|@import\s+["']([^"']+)""")


def reference(root, folder, settings=()):
    """Makes `folder` anew, and a list of names beside it; returns what Doxygen complains about."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    settings = [f"PROJECT_NUMBER = {version(root)}", f'OUTPUT_DIRECTORY = "{folder.parent}"', f"HTML_OUTPUT = {folder.name}",
                f'GENERATE_TAGFILE = "{folder.parent}/mimalloc.tag"', f'STRIP_FROM_PATH = "{root}/include"', *settings]
    done = subprocess.run(["doxygen", "-"], cwd=root, input="@INCLUDE = docs/Doxyfile\n" + "\n".join(settings),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.splitlines() or ["doxygen failed"] * (done.returncode != 0)


class Page(html.parser.HTMLParser):
    """What a page of the result links to, what it loads, and what can be linked to in it."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == FETCHED.get(tag):
                self.loads.append(value or "")
            elif name == "href":
                self.links.append(value or "")
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)


def broken_links(folder):
    """What leads nowhere, and what a page would load from another machine, as text. Links to others are not followed."""
    pages = {path: Page(path.read_text(errors="replace")) for path in sorted(folder.rglob("*.html"))}
    loaded = {path: page.loads for path, page in pages.items()}
    for path in sorted(folder.rglob("*.css")):
        loaded[path] = ["".join(match) for match in STYLE_URL.findall(path.read_text(errors="replace"))]
    broken = []
    for path, links in [*((path, page.links) for path, page in pages.items()), *loaded.items()]:
        for link in links:
            parts = urllib.parse.urlsplit(link)
            if parts.netloc and links is loaded[path]:
                broken.append(f"{path.relative_to(folder)}: loaded from another machine: {link}")
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].anchors):
                broken.append(f"{path.relative_to(folder)}: broken link: {link}")
    return broken


def arguments(text, output):
    """Those of this script and of website.py: where the repository is, and where the result goes."""
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=here)
    parser.add_argument("--output", type=pathlib.Path)
    given = parser.parse_args()
    root = given.root.resolve()
    return root, (given.output or root / "build" / output).resolve()


def main():
    root, output = arguments(__doc__, "docs")
    said = reference(root, output / "html")
    said += broken_links(output / "html")
    if said:
        sys.exit("\n".join([*said, "docs: the reference has mistakes, see above"]))
    print(f"docs: {output}/html/index.html")


if __name__ == "__main__":
    main()
