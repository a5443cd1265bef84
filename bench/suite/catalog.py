"""All workloads: the micro ones are listed here, each program has a file of its own in bench/macro, each trace in bench/traces.

A workload has a name, a group, one sentence on what it is, and where its pattern comes from. missing() says why it
cannot run on this machine; what is missing is named in the report, never silently left out.
"""
import dataclasses
import functools
import hashlib
import importlib.util
import lzma
import pathlib
import shutil
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent
BUILD = BENCH.parent / "build" / "bench"
MICRO = BUILD / "micro"
PLAYER = BUILD / "player"  # replays a trace
TRACES = BENCH / "traces"  # compressed; bench/traces.py makes them
GROUPS = {
    "classic": "programs of the early nineties that every allocator paper since has used",
    "threads": "several threads: blocks that change hands, many sizes, threads that come and go",
    "sizes": "one pattern over a range of sizes",
    "growth": "what one operation costs as the heap, the threads or the sizes grow",
    "server": "what servers ask: pools of threads, queues, bursts, a large heap, latency",
    "programs": "real programs of the distribution, on generated inputs",
    "traces": "recorded calls of real programs, replayed without the programs",
}
SCALES = ("tiny", "quick", "full")
TIMEOUT_S = 120
LONG_ROUNDS = 2  # of workloads that are long, at the full scale


@dataclasses.dataclass(frozen=True)
class Workload:
    """A micro workload: a program of build/bench/micro with its arguments."""
    name: str
    group: str
    sentence: str
    origin: str = "ours"
    command: tuple = ()  # program and arguments; the program is called like the workload if there are none
    threads: int = 0  # 0: the program decides
    keeps_curve: bool = False  # resident memory over time goes into the raw results
    gib: float = 0.2  # what the full scale may take with a wasteful allocator
    is_long: bool = False  # a run with full inputs takes 10 s and more: LONG_ROUNDS of them tell enough
    timeout: int = TIMEOUT_S
    kind = "micro"

    def argv(self, scale):
        program, *rest = self.command or (self.name,)
        threads = ["--threads", str(self.threads)] if self.threads else []
        return [str(MICRO / program), "--scale", scale, *threads, *rest]

    def missing(self, scale="full"):
        if not pathlib.Path(self.argv(scale)[0]).exists():
            return "not built"
        have = memory_gib()
        needs = self.gib if scale == "full" else self.gib / 4
        return f"takes up to {needs:.0f} GiB, {have:.1f} GiB are free" if needs > have else ""


@dataclasses.dataclass(frozen=True)
class Trace(Workload):
    """A trace of bench/traces, replayed by the player: its own tables are not counted, its own time is subtracted."""
    kind = "trace"
    EXTENT = {"tiny": ["--calls", "20000"], "quick": ["--times", "5"], "full": ["--times", "20"]}

    def argv(self, scale):
        packed, path = TRACES / f"{self.name.removeprefix('trace-')}.trace.xz", BUILD / "traces" / f"{self.name}.trace"
        if not path.exists() or path.stat().st_mtime < packed.stat().st_mtime:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(lzma.decompress(packed.read_bytes()))
        return [str(PLAYER), str(path), "--bench", *self.EXTENT[scale]]


@dataclasses.dataclass(frozen=True)
class Program:
    """A macro workload: see bench/README.md for what prepare and run must do."""
    name: str
    group: str
    sentence: str
    needs: list  # [(command or path, package)]
    prepare: object
    run: object
    origin: str = "the distribution"
    keeps_curve: bool = False
    is_long: bool = False
    source: str = ""  # filled in by all_workloads()
    kind = "macro"

    def folder(self, scale):
        return BUILD / "macro" / f"{self.name}-{scale}"

    def missing(self, scale="full"):
        lacks = [f"{command} (package {package})" for command, package in self.needs if not shutil.which(command)]
        return f"not installed: {', '.join(lacks)}" if lacks else ""

    def make_inputs(self, scale):
        """prepare() unless it has been done by this very file."""
        folder, key = self.folder(scale), hashlib.sha256(self.source.encode()).hexdigest()
        stamp = folder.with_suffix(".stamp")
        if not folder.is_dir() or not stamp.exists() or stamp.read_text() != key:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self.prepare(folder, scale)
            stamp.write_text(key)


def memory_gib():
    """What the kernel thinks can be taken without swapping."""
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / (1 << 20)
    return 0.0


def group_of(group, *rows):
    """From rows (name, sentence, origin, command if it is not the name, more fields)."""
    padded = [(*row, "", {})[:5] if len(row) == 3 else (*row, {})[:5] for row in rows]
    return [Workload(name, group, words, origin, tuple(command.split()), **more)
            for name, words, origin, command, more in padded]


def pairs(label, size):
    words = f"malloc and free of {size} bytes in a loop"
    return f"pairs-{label}", words, "the first loop anyone writes", f"pairs --size {size}"


ZORN = "Zorn, Grunwald: Empirical measurements of six allocation-intensive C programs, 1992"
HOARD = "Berger, McKinley, Blumofe, Wilson: Hoard, 2000"
LARSON = "Larson, Krishnan: Memory allocation for long-running server applications, 1998"
LEIJEN = "Leijen, Zorn, de Moura: Mimalloc: free list sharding in action, 2019"

MICRO_WORKLOADS = [
    *group_of(
        "classic",
        ("cfrac", "factors a number by continued fractions: short-lived numbers of a few words", ZORN),
        ("espresso", "minimizes boolean functions: sets of cubes that are copied and dropped", ZORN),
        ("barnes", "gravitation of bodies by a tree: many small blocks that live long",
         "Barnes, Hut: Nature 324, 1986"),
    ),
    *group_of(
        "threads",
        ("larson", "a server: threads replace random blocks, and hand all to a successor", LARSON),
        ("larson-sized", "larson, given back with the size", LARSON, "larson --sized"),
        ("mstress", "threads build and swap structures of blocks, in phases", LEIJEN),
        ("rptest", "threads with blocks of many sizes, a part freed by another thread", "Jansson: rpmalloc, 2017"),
        ("alloc-test1", "random sizes on one thread, lives of random length",
         "the description of OLogN's alloc-test, 2018", "alloc-test", {"threads": 1}),
        ("alloc-testN", "alloc-test1 on two threads", "the description of OLogN's alloc-test, 2018",
         "alloc-test", {"threads": 2}),
        ("sh6bench", "batches of small blocks, freed partly in order, partly in reverse",
         "MicroQuill: SmartHeap, 2006"),
        ("sh8bench", "sh6bench with blocks that change threads", "MicroQuill: SmartHeap, 2006"),
        ("xmalloc-test", "some threads only allocate, others only free",
         "Lever, Boreham: malloc() performance in a multithreaded Linux environment, 2000"),
        ("cache-scratch1", "blocks given by another thread are written, freed and replaced; one thread", HOARD,
         "cache-scratch", {"threads": 1}),
        ("cache-scratchN", "the same on two threads: passive false sharing", HOARD, "cache-scratch", {"threads": 2}),
        ("cache-thrash1", "small blocks are allocated, written many times, freed; one thread", HOARD,
         "cache-thrash", {"threads": 1}),
        ("cache-thrashN", "the same on two threads: active false sharing", HOARD, "cache-thrash", {"threads": 2}),
        ("glibc-simple", "lists of blocks of one size, one thread", "glibc's description of its own benchmark, 2017"),
        ("glibc-thread", "random sizes in a live set of each thread", "glibc's description of its own benchmark, 2017"),
        ("mleak", "threads that end and leave nothing: what stays behind is a leak", "common practice"),
        ("rbstress", "red-black trees shared by threads: nodes of one size", LEIJEN),
    ),
    *group_of(
        "sizes",
        *(pairs(*row) for row in
          (("16", 16), ("64", 64), ("1k", 1024), ("4k", 4096), ("32k", 32768), ("200k", 204800))),
        ("heap-pairs", "malloc and free of 64 bytes in a loop; prints what a heap around each block takes, where there are "
         "heaps", "ours"),
        ("replace-small", "random blocks of a live set of 100000 are replaced: 16 to 128 bytes", "ours",
         "replace --live 100000 --low 16 --high 128"),
        ("replace", "random blocks of a live set of 100000 are replaced: 16 bytes to 1 KiB", "ours",
         "replace --live 100000 --low 16 --high 1024"),
        ("replace-one", "random blocks of a live set of 300000 are replaced: all of 500 bytes", "ours",
         "replace --live 300000 --low 500 --high 500"),
        ("replace-pages", "random blocks of a live set of 20000 are replaced: 4 to 32 KiB", "ours",
         "replace --live 20000 --low 4096 --high 32768", {"gib": 1.0}),
        ("random-sizes-large", "random blocks of a live set are replaced: sizes up to some MiB", "ours"),
        ("malloc-large", "a few blocks of 5 to 25 MiB, replaced", LEIJEN),
        ("calloc-large", "zeroed blocks of many MiB", "ours"),
        ("grow", "one buffer that grows by realloc to a large size", "ours", "grow", {"gib": 9.0}),
        ("grow-many", "many buffers that grow by realloc in turns", "ours", "grow --many"),
        ("grow-cut", "buffers that double while they fill, and are cut to their length in the end", "ours", "grow --cut"),
    ),
    *group_of(
        "growth",
        ("growth-half", "pairs of 1 to 2 MiB in heaps of blocks of 64 KiB, every second one freed", "ours",
         "growth --pattern half", {"gib": 17.0, "is_long": True}),
        ("growth-random", "blocks of 1 to 200 KB are replaced in heaps of them, and pairs of 1 to 2 MiB", "ours",
         "growth --pattern random", {"gib": 5.0}),
        ("growth-aligned", "blocks at multiples of 64 KiB to 1 MiB are replaced in heaps of them", "ours",
         "growth --pattern aligned", {"gib": 5.0}),
        ("growth-aligned-4m", "the same at multiples of 4 MiB, which not every allocator knows", "ours",
         "growth --pattern aligned-4m", {"gib": 5.0}),
        ("growth-small", "blocks of 16 to 2000 bytes are replaced in heaps of them", "ours",
         "growth --pattern small", {"gib": 7.0, "is_long": True}),
        ("growth-refill", "blocks of 512 and of 16 to 4000 bytes, of which 15 of 16 are freed at random, and allocated again", "ours",
         "growth --pattern refill", {"gib": 7.0, "is_long": True}),
        ("growth-bursts", "bursts of 16 to 1024 MiB of blocks of 32 KiB to 1 MiB, all freed, again and again", "ours",
         "growth --pattern bursts", {"gib": 2.0}),
        ("growth-threads", "pairs of 2 KiB and 200,000 bytes beside 0 to 200 threads that sleep", "ours",
         "growth --pattern threads"),
        ("growth-sizes", "pairs of 16 bytes to 64 MiB in a heap of 64 MiB", "ours", "growth --pattern sizes"),
    ),
    *group_of(
        "server",
        ("pool", "a pool of hundreds of threads with requests of mixed lives", "ours", "pool",
         {"keeps_curve": True, "gib": 2.0}),
        ("startup", "a program that starts, takes little and ends", "ours"),
        ("prodcons-1", "blocks of 64 bytes from one thread to another, one at a time", "ours",
         "prodcons --size 64 --queue 1"),
        ("prodcons-100", "the same through a queue of 100", "ours", "prodcons --size 64 --queue 100"),
        ("prodcons-10k", "the same through a queue of 10000", "ours", "prodcons --size 64 --queue 10000"),
        ("prodcons-1m", "the same through a queue of a million", "ours", "prodcons --size 64 --queue 1000000"),
        ("bigheap", "a heap of gigabytes that shrinks again", "ours", "bigheap", {"keeps_curve": True, "gib": 14.0, "is_long": True}),
        ("burst", "a gigabyte of small blocks, most freed, then silence: what goes back, and when?", "ours", "burst",
         {"keeps_curve": True, "gib": 2.0, "is_long": True}),
        ("burst-alive", "the same, but one thread goes on with a little work", "ours", "burst --alive",
         {"keeps_curve": True, "gib": 2.0, "is_long": True}),
        ("latency", "single calls of malloc and free on two threads, each timed", "Masmano and others: TLSF, 2004"),
        ("latency-large", "the same with 3.2 GiB, half of them freed, each thread with another's blocks", "Masmano and others: TLSF, 2004",
         "latency --large", {"gib": 6.0, "is_long": True}),
    ),
]


TRACE_WORKLOADS = [Trace(f"trace-{path.name.split('.')[0]}", "traces",
                         f"what {path.name.split('.')[0]} asked of its allocator, recorded and replayed", "bench/traces.py")
                   for path in sorted(TRACES.glob("*.trace.xz"))]


def load_programs():
    """([Program], [(file, why it could not be loaded)])"""
    found, broken = [], []
    for path in sorted((BENCH / "macro").glob("[!_]*.py")):
        try:
            spec = importlib.util.spec_from_file_location(f"macro_{path.stem}", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            listed = getattr(module, "WORKLOADS", None) or [module.WORKLOAD]
            found += [dataclasses.replace(program, source=path.read_text()) for program in listed]
        except Exception as error:  # a broken file must not hide the others
            broken.append((path.name, f"{type(error).__name__}: {error}"))
    return found, broken


@functools.cache
def _all():
    programs, broken = load_programs()
    listed = [*MICRO_WORKLOADS, *programs, *TRACE_WORKLOADS]
    names = [workload.name for workload in listed]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two workloads have the same name: {', '.join(sorted(twice))}")
    order = list(GROUPS)
    listed.sort(key=lambda workload: order.index(workload.group) if workload.group in order else len(order))
    return listed, broken


def all_workloads():
    return _all()[0]


def broken_files():
    return _all()[1]


def select(only="", groups="", with_macro=True):
    """The workloads of a command line: --only a,b (whole names or beginnings), --groups a,b. ValueError if unknown."""
    listed = [workload for workload in all_workloads() if with_macro or workload.kind != "macro"]
    for group in filter(None, groups.split(",")):
        if group not in {workload.group for workload in listed}:
            raise ValueError(f"unknown group {group!r}; there are {', '.join(dict.fromkeys(w.group for w in listed))}")
    if groups:
        listed = [workload for workload in listed if workload.group in groups.split(",")]
    if not only:
        return listed
    chosen = []
    for word in filter(None, only.split(",")):
        found = [w for w in listed if w.name == word] or [w for w in listed if w.name.startswith(word)]
        if not found:
            raise ValueError(f"unknown workload {word!r}; --list shows all")
        chosen += found
    return [workload for workload in listed if workload in chosen]
