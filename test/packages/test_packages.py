"""What can be seen of the packages without building one: their versions, and that their files can be read. The builds are
in builds.py (`make long WHAT=packages`)."""
import hashlib
import json
import pathlib
import re
import shutil
import sys

import pytest

import conftest
from conftest import run

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import release  # noqa: E402
import sbom  # noqa: E402

PACKAGING = conftest.ROOT / "packaging"


def test_versions_agree():
    # If this fails, a package claims to be another version than the library in it.
    assert release.disagreements() == []


@pytest.fixture
def copied(tmp_path):
    """A tree with the header and the files that repeat its version."""
    shutil.copytree(conftest.ROOT / "include", tmp_path / "include")
    for folder in filter(lambda name: (conftest.ROOT / name).exists(), ("packaging", "bindings")):
        shutil.copytree(conftest.ROOT / folder, tmp_path / folder, symlinks=True)
    return tmp_path


def test_another_version_is_noticed(copied):
    header = copied / "include" / "mimalloc.h"
    header.write_text(re.sub(r"(MI_MALLOC_VERSION) \d+", r"\1 31002", header.read_text()))
    assert release.version(copied) == "3.10.2"
    found = "\n".join(release.disagreements(copied))
    for pattern, _ in release.VERSIONED:
        for path in copied.glob(pattern):
            name = str(path.relative_to(copied))
            assert f"{name}: {release.version()}, not 3.10.2" in found or "[workspace]" in path.read_text(), found


def test_a_file_without_its_version_is_noticed(copied):
    (copied / "packaging" / "rpm" / "libmimalloc.spec").write_text("Name: libmimalloc\n")
    (copied / "packaging" / "debian" / "changelog").unlink()
    assert release.disagreements(copied) == ["packaging/debian/changelog: not there",
                                             "packaging/rpm/libmimalloc.spec: no version"]


def test_archive_depends_on_files_only(tmp_path):
    # If this fails, nobody can make sure that an archive is what is in the repository.
    (tmp_path / "again").mkdir()
    first, second = (pathlib.Path(release.archive(folder)) for folder in (tmp_path, tmp_path / "again"))
    assert first.read_bytes() == second.read_bytes()
    names = run("tar", "-tf", first).split()
    assert {f"libmimalloc-{release.version()}/{name}" for name in ("CMakeLists.txt", "LICENSE", "src/static.c")} <= set(names)
    assert not [name for name in names if "/build/" in name or "/.git/" in name]


def test_recipes_name_the_archive(tmp_path):
    # If this fails, a package manager refuses the archive, or cannot find it.
    packed = tmp_path / "packed.tar.gz"
    packed.write_bytes(b"an archive")
    release.recipes(packed, "https://example.org/releases/", tmp_path)
    for path in release.RECIPES:
        text = (tmp_path / path).read_text()
        hashes = {hashlib.new(kind, b"an archive").hexdigest() for kind in ("sha256", "sha512")}
        assert [value for value in hashes if value in text] and "https://example.org/releases/libmimalloc-" in text, path
        assert not [word for word in ("@URL@", "@SHA256@", "@SHA512@") if word in text], path


def test_sbom_lists_what_is_shipped(tmp_path):
    # If this fails, who looks for a known file, or for who is affected by a mistake, is told something wrong.
    run("python3", conftest.ROOT / "scripts" / "sbom.py", tmp_path / "sbom.json")
    written = json.loads((tmp_path / "sbom.json").read_text())
    assert written == sbom.document()
    package, = written["packages"]
    assert (package["name"], package["versionInfo"]) == ("libmimalloc", release.version())
    assert package["licenseDeclared"] == "MIT" and (conftest.ROOT / "LICENSE").read_text().startswith("MIT License")
    files = {file["fileName"]: file for file in written["files"]}
    compiled = re.findall(r'^#include "(.+)"', (conftest.ROOT / "src" / "static.c").read_text(), re.MULTILINE)
    assert len(compiled) > 50 and {"./src/" + name for name in compiled} <= files.keys()
    assert {f"./include/{path.name}" for path in (conftest.ROOT / "include").glob("*.h")} <= files.keys()
    for name, file in files.items():
        content = (conftest.ROOT / name).read_bytes()
        assert file["checksums"][1] == {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}, name
        assert file["licenseInfoInFiles"] == ["MIT"] or not name.endswith((".c", ".h")), name
    contained = {r["relatedSpdxElement"] for r in written["relationships"] if r["relationshipType"] == "CONTAINS"}
    assert contained == {file["SPDXID"] for file in written["files"]} and len(contained) == len(files)


# -- The files of those whose tools are not at hand: they can at least be read.

def test_vcpkg_port_can_be_read(tmp_path):
    assert json.loads((PACKAGING / "vcpkg" / "vcpkg.json").read_text())["name"] == "libmimalloc"
    # CMake reads all of a file before it does the first line of it.
    (tmp_path / "port.cmake").write_text("return()\n" + (PACKAGING / "vcpkg" / "portfile.cmake").read_text())
    run("cmake", "-P", tmp_path / "port.cmake")


def test_alpine_package_can_be_read():
    script = '. "$1"; for f in build check package; do command -v $f || exit 1; done; echo "$source"'
    read = run("sh", "-euc", script, "sh", PACKAGING / "alpine" / "APKBUILD").split()
    assert read == ["build", "check", "package", f"@URL@/libmimalloc-{release.version()}.tar.gz"]
