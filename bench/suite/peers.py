"""The allocators that are compared: where each comes from, its version, how it is built, and whether it works.

Three kinds: what the system has (glibc, packages of the distribution), what we build from a crate that bundles the
allocator's sources (peers/NAME), and files that the command line names (NAME=/path/to/library.so).
All of them are preloaded. None is built for the processor of this machine: x86-64 or ARMv8 as it is, no LTO.
"""
import dataclasses
import functools
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CRATES = ROOT / "bench" / "peers"
BUILD = ROOT / "build" / "bench"
OURS = ROOT / "build" / "release" / "libmimalloc.so"
LIMIT = BUILD / "limit" / "liblimit.so"

BUILD_SECONDS = 1800  # Google's tcmalloc is 200 files of C++
CHECK_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Peer:
    """One allocator. `library` is where it is or will be; None: nothing is preloaded."""
    name: str
    version: str
    library: pathlib.Path | None
    environment: dict = dataclasses.field(default_factory=dict)
    note: str = ""
    is_limit: bool = False  # does less than an allocator must: shown, but no part of the envelope

    @property
    def exists(self):
        return self.library is None or self.library.exists()

    def variables(self):
        """What must be in the environment of a program that runs with this allocator."""
        return self.environment | ({"LD_PRELOAD": str(self.library)} if self.library else {})


@dataclasses.dataclass(frozen=True)
class Package:
    """An allocator from the distribution."""
    name: str
    package: str
    file: str
    note: str


@dataclasses.dataclass(frozen=True)
class Crate:
    """An allocator in a crate, built in peers/FOLDER. `bundled`: how to ask the library which version it is."""
    name: str
    folder: str
    crate: str
    note: str
    flags: str = "-O3"
    bundled: str = ""
    environment: dict = dataclasses.field(default_factory=dict)
    patience: str = ""  # said when it is built, if that takes long
    is_variant: bool = False  # of another one: only where it is asked for by name


PACKAGES = [
    Package("jemalloc", "libjemalloc2", "libjemalloc.so.2", "jemalloc as the distribution ships it"),
    Package("tcmalloc-minimal", "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4",
            "gperftools: caches per thread, without the profiler"),
    Package("mimalloc2", "libmimalloc2.0", "libmimalloc.so.2",
            "mimalloc 2 as the distribution ships it; 2.0.9 gets alignments from 256 on wrong"),
    Package("tbb", "libtbbmalloc2", "libtbbmalloc_proxy.so.2",
            "oneTBB's scalable allocator behind its proxy; a child forked while threads allocate may hang"),
]

MI_VERSION = "v = library.mi_version(); print('%d.%d.%d' % ((v // 10000, v // 100 % 100, v % 100) if v >= 10000 " \
             "else (v // 100, v // 10 % 10, v % 10)))"
MALLCTL = "p = ctypes.c_char_p(); n = ctypes.c_size_t(8); " \
          "library.mallctl(b'version', ctypes.byref(p), ctypes.byref(n), None, ctypes.c_size_t(0)); " \
          "print(p.value.decode().split('-')[0])"

CRATE_PEERS = [
    Crate("mimalloc3", "mimalloc3", "libmimalloc-sys", "mimalloc 3, the current design", bundled=MI_VERSION),
    Crate("jemalloc5.3.1", "jemalloc", "tikv-jemalloc-sys", "the last release of jemalloc", bundled=MALLCTL),
    Crate("snmalloc", "snmalloc", "snmalloc-sys", "snmalloc without its checks"),
    Crate("rpmalloc", "rpmalloc", "rpmalloc-sys", "rpmalloc 1.4, the version before the rewrite", flags="-O2"),
    # glibc registers the memory for restartable sequences first; tcmalloc then falls back to caches per thread.
    Crate("tcmalloc", "tcmalloc", "libtcmalloc-sys",
          "Google's tcmalloc, caches per CPU, pages of 8 KiB; a child forked while threads allocate may hang",
          flags="-O3 -fno-omit-frame-pointer -fstack-protector",
          environment={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"}, patience=", which takes minutes, once"),
    Crate("hardened", "hardened", "hardened-malloc-sys",
          "GrapheneOS' hardened_malloc, default configuration: security first"),
    Crate("scudo", "scudo", "scudo-sys", "LLVM's hardened allocator, sources of about LLVM 14"),
    Crate("mimalloc3-secure", "mimalloc3secure", "libmimalloc-sys", "mimalloc 3 in its secure build", bundled=MI_VERSION,
          is_variant=True),
    Crate("snmalloc-checks", "snmallocchecks", "snmalloc-sys", "snmalloc with its checks", is_variant=True),
]

FUNCTIONS = ["malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign", "malloc_usable_size"]


def output_of(command, variables=None):
    """The last line a program prints, or "": for versions, where a failure is no reason to stop."""
    try:
        result = subprocess.run(command, env=os.environ | (variables or {}), cwd=ROOT, timeout=60, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (result.stdout.strip().splitlines() or [""])[-1]


def ask(library, question):
    """Ask a library for its version. Preloaded, because not every allocator can be loaded into a running program."""
    if not library.exists():
        return ""
    program = f"import ctypes; library = ctypes.CDLL(None); {question}"
    return output_of([sys.executable, "-c", program], {"LD_PRELOAD": str(library)})


def package_version(package):
    """The version of an installed package, or "". Newer distributions give some names the suffix t64."""
    for name in (package, f"{package}t64"):
        status, _, version = output_of(["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}\n", name]).partition(" ")
        if status == "installed":
            return version
    return ""


def crate_version(crate):
    lock = (CRATES / crate.folder / "Cargo.lock").read_text()
    version = re.search(rf'^name = "{crate.crate}"\nversion = "([^"]+)"', lock, re.M)[1]
    number, _, revision = version.partition("+")
    return version if len(revision) < 10 else number  # jemalloc's is a whole commit


def system_library(file):
    """Where the dynamic linker finds a library of the distribution; the usual place if it is not there."""
    triple = sysconfig.get_config_var("MULTIARCH") or f"{platform.machine()}-linux-gnu"
    folders = [f"/usr/lib/{triple}", f"/lib/{triple}", "/usr/lib64", "/usr/lib"]
    places = [pathlib.Path(folder) / file for folder in folders]
    return next((place for place in places if place.exists()), places[0])


def library_of(crate):
    return BUILD / "peers" / crate.name / f"lib{crate.folder}.so"


@functools.cache
def compiler():
    """The name and version of the C++ compiler that builds the crates."""
    try:
        text = subprocess.run(["c++", "--version"], text=True, stdout=subprocess.PIPE, check=False).stdout
    except OSError:
        return "no compiler"
    line = text.partition("\n")[0]
    version = re.search(r"(\d+\.\d+(?:\.\d+)?)\s*$", line) or re.search(r"(\d+\.\d+(?:\.\d+)?)", line)
    name = "clang" if "clang" in line else "gcc"
    return f"{name} {version[1]}" if version else "an unknown compiler"


def our_version():
    text = output_of(["git", "describe", "--always", "--dirty", "--tags"]) or ask(OURS, MI_VERSION)
    return text or "unknown"


def package_peer(package):
    library = system_library(package.file)
    version = package_version(package.package) or ("of unknown version" if library.exists() else "is not installed")
    return Peer(package.name, f"{package.package} {version}", library, {}, package.note)


def crate_peer(crate):
    library = library_of(crate)
    bundled = ask(library, crate.bundled) if crate.bundled else ""
    version = f"{crate.crate} {crate_version(crate)}; {compiler()} {crate.flags}"
    return Peer(crate.name, f"{bundled} ({version})" if bundled else version, library, crate.environment, crate.note)


def known():
    """All peers, ours first. One that is not there yet is in the list too: see build()."""
    libc, libc_version = platform.libc_ver()
    version = our_version()
    return [
        Peer("ours", version, OURS, {}, "this library"),
        Peer("glibc", f"{libc} {libc_version}", None, {}, "what a program gets that asks for nothing else"),
        *map(package_peer, PACKAGES),
        *map(crate_peer, CRATE_PEERS),
        Peer("limit", version, LIMIT, {}, "the least work that could be correct", is_limit=True),
    ]


def names():
    """The names of all peers in their order, without asking anything for its version."""
    return ["ours", "glibc", *(peer.name for peer in PACKAGES + CRATE_PEERS), "limit"]


def usual():
    """Those that are compared where nobody chooses."""
    return [name for name in names() if name not in [crate.name for crate in CRATE_PEERS if crate.is_variant]]


def parse(text):
    """The peers of a command line: "ours,glibc,NAME=/path/to/library.so". ValueError says what is wrong with it."""
    peers, by_name = [], {}
    for word in text.split(","):
        name, equals, path = word.strip().partition("=")
        if name in by_name:
            raise ValueError(f"peer {name!r} is there twice")
        if equals:
            library = pathlib.Path(path).expanduser().resolve()
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", name):
                raise ValueError(f"{word!r}: NAME=FILE needs a name of letters, digits and . _ + -")
            if name in names():
                raise ValueError(f"{word!r}: {name!r} is the name of a known peer; choose another one")
            if not path or not library.is_file():
                raise ValueError(f"{word!r}: there is no file {path!r}")
            by_name[name] = Peer(name, str(library), library, {}, "given on the command line")
        elif name not in names():
            raise ValueError(f"unknown peer {name!r}; there are {', '.join(names())}, and NAME=/path/to/library.so")
        else:
            by_name[name] = None
        peers.append(name)
    everything = {peer.name: peer for peer in known()} if None in by_name.values() else {}
    return [by_name[name] or everything[name] for name in peers]


def name_of(parser):
    return parser.prog.removesuffix(".py")


def choose(parser, text, usual):
    """The peers of a command line, or with "" those of `usual` that are there; ends with an error of the parser."""
    try:
        found = parse(text or ",".join(usual))
    except ValueError as error:
        parser.error(str(error))
    missing = [peer.name for peer in found if not peer.exists]
    if missing and (text or "ours" in missing):
        parser.error(f"not installed or not built: {', '.join(missing)} (make, make deps FOR=bench, make bench)")
    if missing:
        print(f"{name_of(parser)}: left out, because they are not there: {', '.join(missing)}")
    return [peer for peer in found if peer.exists]


def expect(parser, peers):
    """End with a message if a peer does not work."""
    for peer in peers:
        reason = check(peer)
        if reason:
            sys.exit(f"{name_of(parser)}: {peer.name} does not work: {reason}")


def build(wanted, log):
    """Build what is missing or older than its crate. `log` gets all output. Returns [(name, reason)] of what failed.

    Names that are not known, those of files on the command line, need nothing.
    """
    log = pathlib.Path(log)
    log.parent.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in wanted:
        reason = build_one(name, log)
        if reason:
            failed.append((name, reason))
    return failed


def build_one(name, log):
    if name == "ours" and not OURS.exists():
        return f"{OURS.relative_to(ROOT)} is missing: make"
    if name == "limit" and not LIMIT.exists():
        return f"{LIMIT.relative_to(ROOT)} is missing: make bench"
    for package in PACKAGES:
        if package.name == name and not system_library(package.file).exists():
            return f"the package {package.package} is not installed: make deps FOR=bench"
    for crate in CRATE_PEERS:
        if crate.name == name:
            return build_crate(crate, log)
    return ""


def build_crate(crate, log):
    """Build a crate unless it is built. Returns why that failed, or ""."""
    target = library_of(crate)
    folder = CRATES / crate.folder
    sources = [path for path in [*folder.rglob("*"), CRATES / "build.rs", CRATES / "exports.map"] if path.is_file()]
    if target.exists() and target.stat().st_mtime >= max(path.stat().st_mtime for path in sources):
        return ""
    if not shutil.which("cargo"):
        return "cargo is not installed: make deps FOR=bench"
    print(f"bench: building {crate.name}" + crate.patience, flush=True)
    # What a shell has set for other programs must not change what is measured.
    kept = {key: value for key, value in os.environ.items()
            if key not in ("CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LD_PRELOAD")
            and "RUSTFLAGS" not in key}
    command = ["cargo", "build", "--release", "--locked", "--target-dir", str(BUILD / "cargo")]
    with log.open("ab") as output:
        output.write(f"\n== {crate.name}: {' '.join(command)}\n".encode())
        output.flush()
        start = output.tell()
        try:
            code = subprocess.run(command, cwd=folder, env=kept, stdin=subprocess.DEVNULL, stdout=output,
                                  stderr=subprocess.STDOUT, timeout=BUILD_SECONDS, check=False).returncode
        except subprocess.TimeoutExpired:
            return f"cargo took more than {BUILD_SECONDS} s"
    if code:
        with log.open("rb") as printed:
            printed.seek(start)
            return error_in(printed.read().decode(errors="replace"))
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_suffix(".new")
    shutil.copyfile(BUILD / "cargo" / "release" / f"libpeer_{crate.folder}.so", new)
    new.replace(target)  # a program that runs with the old one keeps it
    return ""


SUMS_UP = re.compile(r"could not compile|failed to run custom build command|error occurred in cc-rs|linking with|"
                     r"collect2|ld returned|unrecognized command|failed to parse lock file")


def error_in(text):
    """The line of a compiler's or cargo's output that says most: the first error, not what sums up errors."""
    lines = [re.sub(r"^(cargo:warning=|= note:)\s*", "", line.strip()) for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b|panicked at|needs to be updated", line)]
    telling = [line for line in errors if not SUMS_UP.search(line)]
    return (telling or errors[-1:] or lines[-1:] or ["it failed without a word"])[0][:300]


def checker():
    """The program that tries a peer, compiled once."""
    source, program = CRATES / "check.c", BUILD / "peers" / "check"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Without -fno-builtin the compiler may drop what we want to see done.
        subprocess.run(["cc", "-O1", "-std=gnu11", "-fno-builtin", "-pthread", str(source), "-o", str(program), "-ldl"],
                       check=True, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return program


def check(peer):
    """Run a small program with the peer. Returns "" if the peer serves it and nothing broke, else what is wrong."""
    if not peer.exists:
        return f"{peer.library} is missing"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    try:
        result = subprocess.run([str(checker())], env=kept | peer.variables(), stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=CHECK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"the check hangs: no end after {CHECK_SECONDS} s"
    except subprocess.CalledProcessError as error:
        return f"peers/check.c does not compile: {error_in(error.stderr)}"
    except OSError as error:
        return f"the check cannot run: {error}"
    complaint = (result.stderr.strip().splitlines() or [""])[-1]
    if result.returncode:
        how = f"signal {-result.returncode}" if result.returncode < 0 else f"exit {result.returncode}"
        return f"the check failed with {how}" + (f": {complaint}" if complaint else "")
    if complaint:
        return f"the check printed: {complaint}"  # the dynamic linker only warns if it cannot preload
    served = dict(line.split(" ", 1) for line in result.stdout.splitlines())
    for function in FUNCTIONS:
        file = pathlib.Path(served.get(function, "nowhere"))
        wrong = not file.name.startswith("libc.") if peer.library is None else file.resolve() != peer.library.resolve()
        if wrong:
            return f"{function} is served by {file}"
    return ""
