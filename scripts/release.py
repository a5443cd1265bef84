#!/usr/bin/env python3
"""What a release consists of: its version, which several files repeat, its source archive, and its binary interface.

Usage: release.py versions          say which file has another version than include/mimalloc.h
       release.py archive FOLDER    write libmimalloc-VERSION.tar.gz of the tree as it is
       release.py recipes ARCHIVE URL FOLDER
                                    write what names the archive by its hash and the folder it can be had from
       release.py abi               write packaging/libmimalloc.abi, the interface of the library in build/release
       release.py all URL FOLDER    make a release: all of that in a new folder, with an SBOM and SHA256SUMS

`all` refuses a tree with changes that are not committed, a version that files disagree on or that CHANGELOG.md does not
know, and a library with which programs of the last release would not run (by libabigail: packaging/libmimalloc.abi).

The archive depends on nothing but the files: packed again elsewhere and later, it has the same bytes.
"""
import glob
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

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


def version_number(root=ROOT):
    """That of the header: major * 10000 + minor * 100 + patch."""
    return int(re.search(r"^#define MI_MALLOC_VERSION (\d+)", read("include/mimalloc.h", root), re.MULTILINE)[1])


def version(root=ROOT):
    """The same in words, as 3.4.3."""
    number = version_number(root)
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


ABI = os.path.join(ROOT, "packaging", "libmimalloc.abi")


def write_abi(library, headers, path):
    """What programs see of a shared library with debug information: names, and the types in the public headers."""
    subprocess.run(["abidw", "--headers-dir", headers, "--drop-private-types", "--no-corpus-path", "--no-comp-dir-path",
                    "--no-show-locs", "--type-id-style", "hash", "--out-file", path, library], check=True)


def abi_changes(path, before=ABI):
    """What breaks programs that were built for `before`, in words; nothing if they run. More names do not."""
    done = subprocess.run(["abidiff", "--no-added-syms", before, path], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def refusals(root=ROOT):
    """Why this tree cannot be released."""
    found = disagreements(root)
    git = subprocess.run(["git", "-C", root, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
    if git:
        found.append(f"the tree has changes that are not committed: {' '.join(git.split()[1::2][:5])}")
    if not re.search(rf"^## {re.escape(version(root))}\b", read("CHANGELOG.md", root), re.MULTILINE):
        found.append(f"CHANGELOG.md has no section {version(root)}")
    return found


def release(url, folder, root=ROOT):
    """Everything that is published. Ends with a message if something is wrong."""
    import sbom  # which imports this file
    found = refusals(root)
    if found:
        sys.exit("release: " + "\nrelease: ".join(found))
    os.makedirs(folder)  # so that nothing else is in it
    packed = archive(folder, root)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.unpack_archive(packed, scratch)
        tree = os.path.join(scratch, f"libmimalloc-{version(root)}")
        build = os.path.join(scratch, "build")
        for command in (["cmake", "-S", tree, "-B", build, "-DCMAKE_BUILD_TYPE=Release"], ["cmake", "--build", build, "--parallel"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        interface = os.path.join(folder, "libmimalloc.abi")
        write_abi(os.path.join(build, "libmimalloc.so"), os.path.join(tree, "include"), interface)
    changes = abi_changes(interface, os.path.join(root, "packaging", "libmimalloc.abi"))
    if changes:
        sys.exit(f"release: programs of the last release would not run\n{changes}")
    sbom.write(os.path.join(folder, f"libmimalloc-{version(root)}.spdx.json"), root)
    recipes(packed, url, os.path.join(folder, "recipes"))
    sums = []
    for path in sorted(glob.glob(os.path.join(folder, "**"), recursive=True)):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                sums.append(f"{hashlib.sha256(f.read()).hexdigest()}  {os.path.relpath(path, folder)}\n")
    with open(os.path.join(folder, "SHA256SUMS"), "w", encoding="utf-8") as f:
        f.writelines(sums)


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
    if arguments == ["abi"]:
        write_abi(os.path.join(ROOT, "build", "release", "libmimalloc.so"), os.path.join(ROOT, "include"), ABI)
        return 0
    if len(arguments) == 3 and arguments[0] == "all":
        release(*arguments[1:])
        return 0
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
