"""Packages are built from the source archive, as their tools do it, and a program is built on what they contain. Run by
`make long WHAT=packages`: minutes, and tools that other tests do not need."""
import os
import pathlib
import sys

import pytest

import conftest
from conftest import attempt, find, run

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import release  # noqa: E402

PACKAGING = conftest.ROOT / "packaging"
CONSUMER = conftest.ROOT / "test" / "interop" / "src" / "consumer.c"
TOOLS = conftest.ROOT / "build" / "packages" / "python" / "bin"
VERSION = release.version()


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """The source archive."""
    return pathlib.Path(release.archive(tmp_path_factory.mktemp("source")))


@pytest.fixture(scope="session", autouse=True)
def build_without_ours():
    """The tools see no variable of a build around this one."""
    for name in ("CC", "CFLAGS", "LDFLAGS", "MAKEFLAGS", "DESTDIR"):
        os.environ.pop(name, None)


@pytest.fixture(scope="session")
def tree(source):
    """The source archive, unpacked."""
    run("tar", "-C", source.parent, "-xf", source)
    return source.parent / f"libmimalloc-{VERSION}"


def tool(name):
    """A program that scripts/setup.sh fetches."""
    path = TOOLS / name
    return path if path.exists() else pytest.skip(f"{name} is not there: scripts/setup.sh tools")


def check_unpacked(unpacked, tmp_path):
    """A tree with all files of a package serves programs that ask pkg-config, and static ones."""
    found = next(unpacked.glob("usr/lib*/**/mimalloc.pc"))
    lib = found.parent.parent
    words = run(find("pkg-config"), "--cflags", "--libs", "mimalloc", PKG_CONFIG_PATH=found.parent).split()
    run("cc", CONSUMER, "-o", tmp_path / "shared", *words, f"-Wl,-rpath,{lib}", "-pthread")
    run(tmp_path / "shared")
    assert "libmimalloc.so.3 => " + str(lib) in run("ldd", tmp_path / "shared")
    run("cc", "-static", lib / "mimalloc.o", CONSUMER, "-o", tmp_path / "static", f"-I{unpacked}/usr/include", "-pthread")
    run(tmp_path / "static")
    assert (lib / "mimalloc-compat" / "libjemalloc.so.2").exists() and (lib / "mimalloc-compat" / "libtcmalloc_minimal.so.4").exists()
    replay = unpacked / "usr" / "bin" / "mimalloc-replay"
    run(replay, "--record", tmp_path / "trace", "--", "ls")
    assert "glibc" in run(replay, tmp_path / "trace", "--with", "glibc", "--with", f"ours={lib / 'libmimalloc.so.3'}", "--rounds", 1)
    run("cc", CONSUMER, lib / "libmimalloc.a", "-o", tmp_path / "archive", f"-I{unpacked}/usr/include", "-pthread")
    run(tmp_path / "archive")
    # The tool reads this process, which has no such library, and says so.
    assert "does not have this library in it" in attempt(unpacked / "usr" / "bin" / "mimalloc-inspect", os.getpid()).output


def test_debian_package(source, tmp_path):
    find("dpkg-buildpackage")
    find("dh")
    unpacked = tmp_path / "root"
    (tmp_path / f"libmimalloc_{VERSION}.orig.tar.gz").write_bytes(source.read_bytes())
    run("tar", "-C", tmp_path, "-xf", source)
    tree = tmp_path / f"libmimalloc-{VERSION}"
    run("cp", "-r", tree / "packaging" / "debian", tree)
    run("dpkg-buildpackage", "-us", "-uc", cwd=tree, timeout=900)
    packages = sorted(tmp_path.glob("*.deb"))
    assert {path.name.split("_")[0] for path in packages} >= {"libmimalloc3", "libmimalloc-dev", "mimalloc-tools"}
    for package in packages:
        run("dpkg-deb", "-x", package, unpacked)
    check_unpacked(unpacked, tmp_path)
    # A package of a program that is linked with the library depends on this version.
    shlibs = run("dpkg-deb", "-I", next(tmp_path.glob("libmimalloc3_*.deb")), "shlibs")
    assert shlibs.split()[:5] == ["libmimalloc", "3", "libmimalloc3", "(>=", f"{VERSION})"], shlibs
    assert "jemalloc" not in shlibs and "tcmalloc" not in shlibs
    run(find("lintian"), "--fail-on", "error,warning", "--allow-root", next(tmp_path.glob("*.changes")))


def test_rpm_packages(source, tmp_path):
    find("rpmbuild")
    unpacked = tmp_path / "root"
    (tmp_path / "SOURCES").mkdir()
    unpacked.mkdir()
    (tmp_path / "SOURCES" / source.name).write_bytes(source.read_bytes())
    # --nodeps: where the distribution has no RPM, what is to be there for the build is, but RPM knows of nothing.
    run("rpmbuild", "--nodeps", "--define", f"_topdir {tmp_path}", "-ba", PACKAGING / "rpm" / "libmimalloc.spec", timeout=900)
    packages = list(tmp_path.glob("RPMS/*/*.rpm"))
    assert len(packages) == 3 and len(list(tmp_path.glob("SRPMS/*.rpm"))) == 1
    for package in packages:
        run("rpm2archive", package)
        run("tar", "-C", unpacked, "-xf", f"{package}.tgz")
    check_unpacked(unpacked, tmp_path)
    library = next(path for path in packages if "-devel-" not in path.name and "-tools-" not in path.name)
    provided = run("rpm", "-qp", "--provides", library)
    assert "libmimalloc.so.3()(64bit)" in provided and "jemalloc" not in provided and "tcmalloc" not in provided
    assert f"libmimalloc({os.uname().machine.replace('_', '-')}) = {VERSION}" in run(
        "rpm", "-qp", "--requires", next(path for path in packages if "-devel-" in path.name))


@pytest.mark.parametrize("shared", [True, False])
def test_conan_package(shared, tree, tmp_path):
    conan = tool("conan")
    home = {"CONAN_HOME": tmp_path / "home"}
    run(conan, "profile", "detect", **home)
    output = run(conan, "create", tree / "packaging" / "conan", "-o", f"libmimalloc/*:shared={shared}", timeout=600, **home)
    assert f"libmimalloc/{VERSION} (test package): RUN: ./user" in output
    # The program of packaging/conan/test_package fails otherwise; this is what it says.
    assert "malloc is ours" in output


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_meson_subproject(kind, source, tmp_path):
    find("meson")
    project = tmp_path / "project"
    files = project / "subprojects" / "packagefiles" / "libmimalloc"
    files.mkdir(parents=True)
    for name in ("meson.build", "meson_options.txt"):
        (files / name).write_bytes((PACKAGING / "meson" / name).read_bytes())
    release.recipes(source, source.parent.as_uri(), tmp_path)
    (tmp_path / "meson" / "libmimalloc.wrap").rename(project / "subprojects" / "libmimalloc.wrap")
    (project / "user.c").write_bytes((PACKAGING / "conan" / "test_package" / "user.c").read_bytes())
    (project / "meson.build").write_text("project('user', 'c')\n"
                                         "executable('user', 'user.c', dependencies: dependency('mimalloc'))\n")
    run("meson", "setup", "build", f"-Ddefault_library={kind}", cwd=project)
    run("ninja", "-C", "build", cwd=project)
    assert "malloc is ours" in run(project / "build" / "user")
    assert ("libmimalloc.so.3" in run("readelf", "-d", project / "build" / "user")) == (kind == "shared")


def test_homebrew_formula_can_be_read():
    assert run(find("ruby"), "-c", PACKAGING / "homebrew" / "libmimalloc.rb") == "Syntax OK\n"


def test_nix_expression_has_the_version(tmp_path):
    """What it builds with is left out; the rest is evaluated."""
    seen = attempt(find("nix-instantiate"), "--eval", PACKAGING / "nix" / "default.nix", "-A", "version", "--arg", "pkgs",
                   "{ stdenv.mkDerivation = given: given; }", apart=True, NIX_STATE_DIR=tmp_path, NIX_STORE_DIR=tmp_path)
    assert (seen.status, seen.output) == (0, f'"{VERSION}"\n'), seen.errors


def test_two_builds_are_the_same(source, tmp_path):
    """Other folders, one inside of the source and one not, other times of the files, another time of the build."""
    built = []
    for folder, build in (("one", "one/build/release"), ("quite/another", "out")):
        (tmp_path / folder).mkdir(parents=True)
        run("tar", "-C", tmp_path / folder, "--strip-components=1", "-xf", source, *(["--touch"] if built else []))
        run("cmake", "-S", tmp_path / folder, "-B", tmp_path / build, "-G", "Ninja")
        run("cmake", "--build", tmp_path / build)
        built.append(tmp_path / build)
    for name in ("libmimalloc.so", "libmimalloc.a", "mimalloc.o", "mimalloc-compat/libjemalloc.so.2",
                 "mimalloc-compat/libtcmalloc_minimal.so.4", "mimalloc-trace/libmimalloc-trace.so", "mimalloc-idle/libmimalloc-idle.so", "mimalloc-player"):
        first, second = ((folder / name).read_bytes() for folder in built)
        assert str(tmp_path).encode() not in first, name
        assert first == second, name


def test_sbom_is_valid(tmp_path):
    """By the tools of those who made the format."""
    run("python3", conftest.ROOT / "scripts" / "sbom.py", tmp_path / "libmimalloc.spdx.json")
    run(tool("pyspdxtools"), "-i", tmp_path / "libmimalloc.spdx.json")


# -- The binary interface, and a release --

def build_changed(tree, build, header, before, after):
    """The library of a tree in which something was replaced, and its interface."""
    path = tree / "include" / header
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    run("cmake", "-S", tree, "-B", build, "-G", "Ninja", "-DMI_BUILD_STATIC=OFF", "-DMI_BUILD_OBJECT=OFF")
    run("cmake", "--build", build)
    release.write_abi(build / "libmimalloc.so", tree / "include", build / "now.abi")
    path.write_text(text)
    return release.abi_changes(build / "now.abi")


def test_programs_of_the_last_release_run(tree, tmp_path):
    """If this fails, a program crashes that was not built again. When it is meant: soname, CHANGELOG, `release.py abi`."""
    find("abidw")
    assert build_changed(tree, tmp_path, "mimalloc.h", "", "") == ""


@pytest.mark.parametrize("header, before, after, told", [
    ("mimalloc.h", "typedef struct mi_heap_area_s {", "typedef struct mi_heap_area_s {\n  int more;", "int more"),
    ("mimalloc-stats.h", "mi_decl_export bool mi_stats_get(mi_stats_t* stats)", "bool mi_stats_get(mi_stats_t* stats)",
     "mi_stats_get")])
def test_change_of_the_interface_is_noticed(header, before, after, told, tree, tmp_path):
    find("abidw")
    assert told in build_changed(tree, tmp_path, header, before, after)


def test_release_is_made(tmp_path):
    """From a copy of the repository, as it is committed."""
    find("abidw")
    copy = tmp_path / "copy"
    run("git", "clone", "-q", conftest.ROOT, copy)

    def attempt_release():
        return attempt("python3", copy / "scripts" / "release.py", "all", "https://example.org/releases", tmp_path / "out", timeout=600)

    refused = attempt_release()
    assert refused.status == 1 and f"CHANGELOG.md has no section {VERSION}" in refused.output
    changes = copy / "CHANGELOG.md"
    changes.write_text(changes.read_text().replace("## Unreleased", f"## {VERSION}"))
    refused = attempt_release()
    assert refused.status == 1 and "not committed: CHANGELOG.md" in refused.output
    run("git", "-C", copy, "-c", "user.name=N", "-c", "user.email=n@example.org", "commit", "-qam", "Release")
    done = attempt_release()
    assert done.status == 0, done.output
    run("sha256sum", "-c", "SHA256SUMS", cwd=tmp_path / "out")
    listed = {line.split()[1] for line in (tmp_path / "out" / "SHA256SUMS").read_text().splitlines()}
    assert {f"libmimalloc-{VERSION}.tar.gz", f"libmimalloc-{VERSION}.spdx.json", "libmimalloc.abi"} <= listed
    assert any(name.startswith("recipes/") for name in listed)
    assert attempt_release().status != 0  # the folder is there
