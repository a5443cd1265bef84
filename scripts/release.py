#!/usr/bin/env python3
"""What a release consists of: its version, which several files repeat, and its source archive.

Usage: release.py versions          say which file has another version than include/mimalloc.h
       release.py archive FOLDER    write libmimalloc-VERSION.tar.gz of the tree as it is
       release.py recipes ARCHIVE URL FOLDER
                                    write what names the archive by its hash and the folder it can be had from

The archive depends on nothing but the files: packed again elsewhere and later, it has the same bytes.
"""
import glob
import gzip
import hashlib
import os
import re
import subprocess
import sys
import tarfile

from tidy import listed

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Of all files in the archive: any time does, but for the first years, which Debian takes for a mistake.
FILE_TIME = 1_767_225_600  # 2026-01-01
# Where the version stands: path (a pattern; those of bindings may match many files), and what is around it. CMake, conan,
# meson and nix read it from the header. Each place that matches must have it, and each file at least one.
VERSIONED = (
    ("packaging/debian/changelog", r"\Alibmimalloc \(([\d.]+)-\d+\)"),
    ("packaging/rpm/libmimalloc.spec", r"^Version: +(\S+)|^\* .* - ([\d.]+)-1$"),
    ("packaging/meson/libmimalloc.wrap", r"libmimalloc-([\d.]+\d)"),
    ("packaging/vcpkg/vcpkg.json", r'^  "version": "(.*)"'),
    ("packaging/homebrew/libmimalloc.rb", r"/libmimalloc-(.*)\.tar\.gz"),
    ("packaging/alpine/APKBUILD", r"^pkgver=(.*)"),
    ("bindings/**/Cargo.toml", r'^version = "(.*)"|^libmimalloc-sys = .*\bversion = "=?([^"]*)"'),
    ("bindings/**/pyproject.toml", r'^version = "(.*)"'),
    ("bindings/**/package.json", r'^  "version": "(.*)"'),
    ("bindings/d/dub.json", r'^    "version": "(.*)"'),
    ("bindings/zig/build.zig.zon", r'^    \.version = "(.*)"'),
)

# What is filled in when the archive is there: @URL@, the folder it can be had from, @SHA256@ and @SHA512@.
RECIPES = ("meson/libmimalloc.wrap", "vcpkg/portfile.cmake", "homebrew/libmimalloc.rb", "alpine/APKBUILD")


def read(path, root=ROOT):
    with open(os.path.join(root, path), encoding="utf-8") as f:
        return f.read()


def version(root=ROOT):
    """That of the header: major * 10000 + minor * 100 + patch."""
    number = int(re.search(r"^#define MI_MALLOC_VERSION (\d+)", read("include/mimalloc.h", root), re.MULTILINE)[1])
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def disagreements(root=ROOT):
    """A line for each place with another version, and for each file of the list that has none."""
    wanted, found = version(root), []
    for pattern, around in VERSIONED:
        paths = glob.glob(os.path.join(root, pattern), recursive=True)
        if not paths and "*" not in pattern:
            found.append(f"{pattern}: not there")
        for path in paths:
            name = os.path.relpath(path, root)
            versions = [next(filter(None, match.groups())) for match in re.finditer(around, read(path), re.MULTILINE)]
            found += [f"{name}: {other}, not {wanted}" for other in versions if other != wanted]
            if not versions and "[workspace]" not in read(path):
                found.append(f"{name}: no version")
    return found


def members(root=ROOT):
    """Paths of what git tracks, or would track if it were added now; links, too."""
    if not os.path.exists(os.path.join(root, ".git")):
        return listed(root)
    git = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted({path for path in found if path and os.path.lexists(os.path.join(root, path))})


def archive(folder, root=ROOT):
    """The path of the source archive, new in `folder`."""
    name = f"libmimalloc-{version(root)}"
    path = os.path.join(folder, name + ".tar.gz")

    def plain(entry):  # of no person, machine or time
        entry.uid = entry.gid = 0
        entry.mtime = FILE_TIME
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        return entry

    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member in members(root):
            tar.add(os.path.join(root, member), f"{name}/{member}", recursive=False, filter=plain)
    return path


def recipes(packed, url, folder):
    """Writes RECIPES for this archive, below `folder`."""
    with open(packed, "rb") as f:
        content = f.read()
    for path in RECIPES:
        text = read(os.path.join("packaging", path)).replace("@URL@", url.rstrip("/"))
        for kind in ("sha256", "sha512"):
            text = text.replace(f"@{kind.upper()}@", hashlib.new(kind, content).hexdigest())
        os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
        with open(os.path.join(folder, path), "w", encoding="utf-8") as f:
            f.write(text)


def main(arguments):
    if arguments == ["versions"]:
        found = disagreements()
        print("\n".join(found) or version())
        return 1 if found else 0
    if len(arguments) == 2 and arguments[0] == "archive":
        print(archive(arguments[1]))
        return 0
    if len(arguments) == 4 and arguments[0] == "recipes":
        recipes(*arguments[1:])
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
