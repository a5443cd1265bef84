"""The crates of bindings/rust: their own tests in several sets of features, a program that follows the README, and that all
is built from our sources without a network. If this fails, a Rust program does not compile, or gets another library than it
asked for.

Here each feature is tried once, several at a time; `make long WHAT=languages` tries each alone, with the profile `release`
too, looks at format, lints and reference, and tests the packaged crate in a folder of its own."""
import functools
import os
import re
import shutil

import pytest

import conftest
from conftest import attempt, find, run

WORKSPACE = conftest.ROOT / "bindings" / "rust"
CRATES = ("libmimalloc-sys", "mimalloc")
HEADER = (conftest.ROOT / "include" / "mimalloc.h").read_text()
IS_LONG = os.environ.get("MI_LANGUAGES") == "all"
TARGET = conftest.ROOT / "build" / ("rust-long" if IS_LONG else "rust")
# The compilers' time is most of what these tests take.
VARIABLES = {"CARGO_TARGET_DIR": TARGET, "RUST_BACKTRACE": 0, "CARGO_TERM_COLOR": "never",
             **({"RUSTFLAGS": "-Dwarnings"} if IS_LONG else {"CFLAGS": "-O0", "CARGO_PROFILE_DEV_DEBUG": 0, "CARGO_INCREMENTAL": 0})}
slow = pytest.mark.slow

LAYERS = ("mimalloc/heap", "mimalloc/allocator-api2", "extended")
CHANGES = ("secure", "override", "no_thp", "local_dynamic_tls")


def features(*names):
    return ("--features", ",".join(names))


SETS = {"default": features(*LAYERS), "changes": features(*LAYERS, *CHANGES), "debug": features(*LAYERS, "debug")}
if IS_LONG:
    alone = ("arena", *CHANGES, "debug_in_debug", *LAYERS)
    SETS |= {"none": (), "all": ("--all-features",), "release": ("--release", *features(*LAYERS, "debug_in_debug")),
             **{name: features("extended", name) for name in alone}}


def number_of(version):
    """30403 of 3.4.3."""
    major, minor, patch = map(int, version.split("."))
    return major * 10000 + minor * 100 + patch


def cargo(*arguments, cwd=WORKSPACE, **more):
    env = conftest.environment(**VARIABLES, **more)
    return attempt(find("cargo"), *arguments, cwd=cwd, env=env, timeout=1200, apart=arguments[0] == "run")


@pytest.fixture(scope="module")
def crates():
    """The crates that ours need are there; from now on there is no network."""
    find("cc")
    fetched = cargo("fetch", "--locked")
    if fetched.status != 0 and "needs to be updated" not in fetched.output:
        pytest.skip(f"the crates cannot be had: {' '.join(fetched.output.split('note:')[0].split())[:200]}")
    assert fetched.status == 0, fetched.output


# -- Without cargo --

@pytest.mark.parametrize("crate", CRATES)
def test_version_is_that_of_the_header(crate):
    number = int(re.search(r"#define MI_MALLOC_VERSION (\d+)", HEADER)[1])
    manifest = (WORKSPACE / crate / "Cargo.toml").read_text()
    versions = re.findall(r'^version = "(.*)"$|libmimalloc-sys = .*version = "=([\d.]*)"', manifest, re.M)
    assert versions and {number_of(own or other) for own, other in versions} == {number}


def test_flags_are_those_of_cmake():
    flags = (conftest.ROOT / "cmake" / "flags.cmake").read_text()
    optional = set(re.findall(r"check_c_compiler_flag\((-fno-\S+)", flags)) | {"-fno-align-loops"}
    expected = (conftest.code_flags() | optional) - {"-ftls-model=initial-exec"}  # a feature decides that
    script = (WORKSPACE / "libmimalloc-sys" / "build.rs").read_text()
    assert set(re.findall(r'"(-f[\w=-]+)"', script)) == expected


# -- The crates' own tests --

# Examples in the documents of the crates and in comments; all run as they stand there.
EXAMPLES = sum(len(re.findall(r"^```rust\n|^/// ```.*\n(?=///.*[^`]\n)", path.read_text(), re.M))
               for crate in CRATES for path in (WORKSPACE / crate).glob("**/*.*") if path.name == "README.md" or path.suffix == ".rs")


def names_in(crate):
    """The names of a crate's tests."""
    texts = "".join(path.read_text() for path in sorted((WORKSPACE / crate / "tests").glob("*.rs")))
    return set(re.findall(r"#\[test\]\n(?:#\[.*\n)*fn (\w+)", texts))


@functools.cache
def own_tests(name):
    """What cargo says with a set of features."""
    # Examples in documents only once: each of them is compiled as a program.
    documents = [] if name == "default" or IS_LONG else ["--tests"]
    return cargo("test", "--workspace", "--offline", "--locked", "--no-fail-fast", *documents, *SETS[name])


@slow
@pytest.mark.parametrize("name", SETS)
def test_own_tests(name, crates):
    done = own_tests(name)
    assert done.status == 0, done.output[-8000:]


@slow
def test_every_test_and_example_has_passed(crates, figure):
    known = set().union(*map(names_in, CRATES))
    output = "".join(own_tests(name).output for name in SETS)
    passed = set(re.findall(r"^test (\w+) \.\.\. (?:mimalloc:.*\n)*ok$", output, re.M))
    assert len(known) > 30 and known <= passed, known - passed
    assert len(re.findall(r"^test \S+ - .* \.\.\. ok$", own_tests("default").output, re.M)) == EXAMPLES
    figure(f"Rust: {len(known)} tests of the crates, with {len(SETS)} sets of features")


# -- A program of one's own --

def blocks(readme, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (WORKSPACE / readme).read_text(), re.M | re.S)


def project(folder, manifest, **files):
    """A crate in a folder, which depends on ours as a README says."""
    (folder / "src").mkdir(parents=True)
    package = '[package]\nname = "program"\nversion = "0.0.0"\nedition = "2021"\n'
    manifest = manifest.replace('path = "libmimalloc/', f'path = "{conftest.ROOT}/')
    (folder / "Cargo.toml").write_text(f"{package}\n{manifest}")
    shutil.copy(WORKSPACE / "Cargo.lock", folder)
    for name, text in files.items():
        (folder / "src" / f"{name}.rs").write_text(text)
    return folder


LIBRARY = """
#[global_allocator]
static GLOBAL: mimalloc::MiMalloc = mimalloc::MiMalloc;
#[no_mangle]
pub extern "C" fn sum(count: u64) -> u64 {
    (0..count).collect::<Vec<u64>>().iter().sum()
}
"""


def is_loadable_late(folder):
    """Whether a library takes no room of the static block for thread-local variables. A loader refuses one that needs more
    than is left."""
    library = folder / "libprogram.so"
    shutil.copy(TARGET / "debug" / library.name, library)
    exported = set(re.findall(r" [TW] (\w+)$", run(find("nm"), "-D", "--defined-only", library), re.M))
    assert "sum" in exported and not {name for name in exported if name.startswith("mi_")}, "another copy may call ours"
    run("/usr/bin/python3", "-c", f"import ctypes; assert ctypes.CDLL({str(library)!r}).sum(100000) == 704982704")
    return "STATIC_TLS" not in run(find("readelf"), "-dW", library)


@slow
def test_readme_makes_a_program(crates, tmp_path):
    """The dependency and the first example, as a reader copies them; and a library with the same dependency."""
    program = next(block for block in blocks("mimalloc/README.md", "rust") if "fn main" in block)
    manifest = blocks("mimalloc/README.md", "toml")[0] + '\n[lib]\ncrate-type = ["cdylib"]\n'
    folder = project(tmp_path / "program", manifest, main=program, lib=LIBRARY)
    profile = tmp_path / "run.folded"
    done = cargo("run", "--offline", "--quiet", cwd=folder, MIMALLOC_SHOW_STATS=1, MIMALLOC_PROFILE=profile)
    number = re.search(r"#define MI_MALLOC_VERSION (\d+)", HEADER)[1]
    assert (done.status, done.output) == (0, f"from libmimalloc {number}\n"), done.errors
    assert profile.exists() and "committed" in done.errors  # what the environment asks of the library
    assert not is_loadable_late(tmp_path)


@slow
def test_local_dynamic_tls_takes_no_static_room(crates, tmp_path):
    manifest = blocks("mimalloc/README.md", "toml")[0].replace('" }', '", features = ["local_dynamic_tls"] }')
    folder = project(tmp_path / "library", manifest + '\n[lib]\ncrate-type = ["cdylib"]\n', lib=LIBRARY)
    done = cargo("build", "--offline", cwd=folder)
    assert done.status == 0, done.output
    assert is_loadable_late(tmp_path)


# -- What only make long does --

if IS_LONG:
    def test_format(crates):
        if not shutil.which("rustfmt"):
            pytest.skip("rustfmt is not installed")
        done = cargo("fmt", "--check")
        assert done.status == 0, done.output

    def test_lints(crates):
        if not shutil.which("cargo-clippy"):
            pytest.skip("clippy is not installed")
        done = cargo("clippy", "--offline", "--workspace", "--all-targets", *SETS["default"])
        assert done.status == 0, done.output

    def test_reference(crates):
        done = cargo("doc", "--offline", "--workspace", "--no-deps", *SETS["default"], RUSTDOCFLAGS="-Dwarnings")
        assert done.status == 0, done.output

    def test_packaged_crate_needs_nothing_else(crates, tmp_path):
        """The archive passes its tests in another folder, beside one of the crates it needs, with no registry."""
        packaged = cargo("package", "--offline", "--allow-dirty", "--no-verify", "-p", "libmimalloc-sys")
        assert packaged.status == 0, packaged.output
        archive = max((TARGET / "package").glob("libmimalloc-sys-*.crate"), key=lambda path: path.stat().st_mtime)
        run("tar", "-C", tmp_path, "-xf", archive)
        folder = tmp_path / archive.stem
        vendored = cargo("vendor", "--offline", tmp_path / "vendor", cwd=folder)
        assert vendored.status == 0, vendored.output
        folder.joinpath(".cargo").mkdir()
        folder.joinpath(".cargo", "config.toml").write_text(
            f'[source.crates-io]\nreplace-with = "folder"\n[source.folder]\ndirectory = "{tmp_path}/vendor"\n')
        home = tmp_path / "home"
        done = cargo("test", "--offline", "--features", "extended", cwd=folder, CARGO_HOME=home)
        assert done.status == 0 and "visitor_sees_each_block_of_a_heap ... ok" in done.output, done.output[-8000:]
        assert not (home / "registry").exists()

    def test_sources_are_found_where_links_are_not_kept(crates, tmp_path):
        """git writes files with the name of what they lead to, where it cannot make links."""
        for folder in ("src", "include", "bindings/rust"):
            shutil.copytree(conftest.ROOT / folder, tmp_path / folder, symlinks=True)
        for link in list((tmp_path / "bindings/rust/libmimalloc-sys/c").iterdir()):
            target = os.readlink(link)
            link.unlink()
            link.write_text(target)
        done = cargo("test", "-p", "libmimalloc-sys", "--offline", "--locked", cwd=tmp_path / "bindings" / "rust")
        assert done.status == 0 and "version_of_the_library_is_that_of_the_crate ... ok" in done.output, done.output[-8000:]
