"""Programs written for jemalloc and for gperftools run with our libraries of these names. If one of these fails, such a
program does not start, or gets another answer than it would from the allocator it was written for.

The programs in src/compat_* are compiled with the headers of the other allocator and linked with its library; each of their
scenarios then runs with that library and with ours, and must hold with both."""
import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest

import conftest
from conftest import attempt, environment, find, run
from test_names import find_library

pytestmark = pytest.mark.slow
COMPAT = conftest.ROOT / "src" / "compat"
SOURCES = pathlib.Path(__file__).resolve().parent / "src"
FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-fno-builtin", "-pthread"]
# Our library, the header that programs include, and what to link with.
JEMALLOC = ("libjemalloc.so.2", "jemalloc/jemalloc.h", "-ljemalloc")
GPERFTOOLS = ("libtcmalloc_minimal.so.4", "gperftools/malloc_extension_c.h", "-ltcmalloc_minimal")


@pytest.fixture(scope="module")
def folder(build):
    path = build / "mimalloc-compat"
    assert path.is_dir(), f"{path} is missing: MI_BUILD_COMPAT is OFF"
    return path


def compiled(source, peer, path):
    """A program with the header and the library of the other allocator."""
    name, header, library = peer
    compiler = ["c++", "-std=c++17"] if source.endswith("pp") else ["cc", "-std=gnu11"]
    find_library(name)
    if attempt("cc", "-E", "-x", "c", "-include", header, "/dev/null").status != 0:
        pytest.skip(f"{header} is not installed")
    run(*compiler, *FLAGS, SOURCES / source, "-o", path, library, "-ldl")
    return path


@pytest.fixture(scope="module")
def jemalloc(tmp_path_factory):
    return compiled("compat_jemalloc.c", JEMALLOC, tmp_path_factory.mktemp("jemalloc") / "program")


@pytest.fixture(scope="module")
def gperftools(tmp_path_factory):
    return compiled("compat_gperftools.c", GPERFTOOLS, tmp_path_factory.mktemp("gperftools") / "program")


@pytest.fixture(scope="module")
def in_cxx(tmp_path_factory):
    return compiled("compat_gperftools.cpp", GPERFTOOLS, tmp_path_factory.mktemp("in_cxx") / "program")


@pytest.fixture(params=["theirs", "ours"])
def who(request):
    return request.param


def execute(program, who, folder, *arguments, **options):
    if who == "ours":
        options["LD_LIBRARY_PATH"] = folder
    return attempt(program, *arguments, apart=True, **options)


# Debian's libraries may change; what their programs ask of them does not.
SILENT = conftest.Ended(0, "", "")


# -- jemalloc

@pytest.mark.parametrize("scenario", ["sizes", "zeroes", "in_place", "shrink", "no_memory", "errors", "mibs", "statistics", "activity",
                                      "purge", "decay", "background", "threads", "arenas", "arena_of_a_thread", "at_once"])
def test_jemalloc(scenario, who, jemalloc, folder):
    assert execute(jemalloc, who, folder, scenario) == SILENT


@pytest.fixture(scope="module")
def thin(build, tmp_path_factory):
    """Our names alone, on whichever library is there."""
    path = tmp_path_factory.mktemp("thin") / JEMALLOC[0]
    sources = [*COMPAT.glob("jemalloc*.c"), COMPAT / "compat_size.c"]
    run("cc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE", f"-I{conftest.ROOT / 'include'}",
        *sources, "-o", path, f"-Wl,-soname,{JEMALLOC[0]}", f"-L{build}", "-lmimalloc")
    return path.parent


@pytest.mark.parametrize("flavour", ["debug", "tiny", "padded", "secure", "full", "plain"])
def test_jemalloc_on_other_builds(flavour, thin, jemalloc, build):
    """With every check of ours, and where blocks have other sizes."""
    scenarios = ["zeroes", "in_place", "mibs", "arenas", "at_once", "statistics"]
    for scenario in [*(["sizes"] if flavour != "tiny" else []), *scenarios]:  # its pages are smaller than nallocx knows
        library = build / "flavour" / flavour / "libmimalloc.so.3"
        assert (scenario, execute(jemalloc, "ours", thin, scenario, LD_PRELOAD=library)) == (scenario, SILENT)


@pytest.mark.parametrize("conf, wanted", [("", "1234"), ("dirty_decay_ms:77", "77"), ("tcache:true,dirty_decay_ms:0x10", "16"),
                                          ("dirty_decay_ms:-1", "-1"), ("dirty_decay_ms:5,dirty_decay_ms:6", "6")])
def test_jemalloc_options(conf, wanted, who, jemalloc, folder):
    """Of the program's own variable and of the environment, which wins."""
    assert execute(jemalloc, who, folder, "options", wanted, MALLOC_CONF=conf) == SILENT


def test_jemalloc_mistakes_in_options(who, jemalloc, folder):
    said = execute(jemalloc, who, folder, "options", "1234", MALLOC_CONF="nonsense:1,thp:maybe,dirty_decay_ms:many")
    assert said.status == 0 and said.errors.splitlines() == [
        "<jemalloc>: Invalid conf pair: nonsense:1", "<jemalloc>: Invalid conf value: thp:maybe",
        "<jemalloc>: Invalid conf value: dirty_decay_ms:many"]
    said = execute(jemalloc, who, folder, "options", "1234", MALLOC_CONF="abort_conf:true,nonsense:1")
    assert said.status == -6 and "nonsense:1\n" in said.errors


# What jemalloc takes without a word, of its manual page or not.
TAKEN = ("lg_tcache_max:16", "hpa:false", "hpa_slab_max_alloc:65536", "hpa_dirty_mult:0.25", "bin_shards:1-160:16|161-512:4",
         "slab_sizes:1-4096:17", "mutex_max_spin:-1", "tcache_nslots_small_max:100", "prof_stats:true", "prof_log:false",
         "prof_sys_thread_name:true", "san_guard_small:0", "experimental_infallible_new:false", "narenas:default",
         "lg_prof_sample:63", "tcache_nslots_small_min:10", "lg_tcache_nslots_mul:1", "hpa_sec_nshards:4")


@pytest.mark.parametrize("conf", TAKEN)
def test_jemalloc_options_that_are_taken(conf, who, jemalloc, folder):
    assert execute(jemalloc, who, folder, "sizes", MALLOC_CONF=conf) == SILENT


@pytest.mark.parametrize("conf", ["hpa:maybe", "lg_tcache_max:many", "mutex_max_spin:many", "prof_stats:2", "narenas:some"])
def test_jemalloc_mistakes_in_options_that_are_taken(conf, who, jemalloc, folder):
    assert execute(jemalloc, who, folder, "sizes", MALLOC_CONF=conf) == (0, "", f"<jemalloc>: Invalid conf value: {conf}\n")


def test_jemalloc_largest_rate(who, jemalloc, folder):
    said = execute(jemalloc, who, folder, "report", "J", MALLOC_CONF="prof:true,prof_active:false,lg_prof_sample:100").output
    assert json.loads(said)["jemalloc"]["opt"]["lg_prof_sample"] == 63


FIGURES = {"allocated", "active", "metadata", "resident", "mapped", "retained"}


def test_jemalloc_report(who, jemalloc, folder):
    text = execute(jemalloc, who, folder, "report", "mdablxe")
    assert (text.status, text.errors) == (0, "")
    line = r"^Allocated: \d+, active: \d+, metadata: .*, resident: \d+, mapped: \d+, retained: \d+$"
    assert len(re.findall(line, text.output, re.M)) == 1
    assert text.output.startswith("___ Begin jemalloc statistics ___\n") and "ersion: " in text.output
    assert text.output.endswith("--- End jemalloc statistics ---\n")
    assert "ersion: " not in execute(jemalloc, who, folder, "report", "gmdablxe").output


def test_jemalloc_report_as_json(who, jemalloc, folder):
    def report(opts):
        return json.loads(execute(jemalloc, who, folder, "report", opts).output)["jemalloc"]
    found = report("Jmdablxe")
    assert FIGURES <= found["stats"].keys() and all(isinstance(found["stats"][name], int) for name in FIGURES)
    assert found["version"].startswith("5.") and found["opt"]["dirty_decay_ms"] == 1234 and found["opt"]["tcache"] is True
    assert found["opt"]["dss"] in ("secondary", "disabled")
    assert report("gJmdablxe").keys() == {"stats"}


def test_jemalloc_report_quotes(jemalloc, folder):
    said = execute(jemalloc, "ours", folder, "report", "J", MALLOC_CONF='prof_prefix:a"b\\c')
    assert json.loads(said.output)["jemalloc"]["opt"]["prof_prefix"] == 'a"b\\c'


def test_jemalloc_report_at_the_end(who, jemalloc, folder):
    said = execute(jemalloc, who, folder, "sizes", MALLOC_CONF="stats_print:true")
    assert said.status == 0 and said.errors.startswith("___ Begin jemalloc statistics ___\n")


def test_jemalloc_profile(who, jemalloc, folder, tmp_path):
    conf = "prof:true,prof_active:false,lg_prof_sample:10,prof_prefix:own"
    ended = execute(jemalloc, who, folder, "profile", "named", MALLOC_CONF=conf, cwd=tmp_path)
    assert ended == SILENT
    named, own = tmp_path / "named", next(tmp_path.glob("own.*.m*.heap"))
    for path in (named, own):
        assert path.read_text().startswith("heap") and "MAPPED_LIBRARIES" in path.read_text()
    shown = run(find("jeprof"), "--text", "--show_bytes", jemalloc, named, PERL_BADLANG=0)
    amount, = re.findall(r"(\d+)\s+[\d.]+%\s+[\d.]+%\s+\d+\s+[\d.]+%\s+allocate_much", shown)
    assert 1000000 < int(amount) < 4000000, shown


def test_jemalloc_profile_at_the_end(who, jemalloc, folder, tmp_path):
    conf = "prof:true,prof_final:true,prof_prefix:own,lg_prof_sample:8"
    assert execute(jemalloc, who, folder, "zeroes", MALLOC_CONF=conf, cwd=tmp_path).status == 0
    path, = tmp_path.iterdir()
    assert re.fullmatch(r"own\.\d+\.0\.f\.heap", path.name) and path.read_text().startswith("heap")


def test_jemalloc_profile_in_a_deep_folder(who, jemalloc, folder, tmp_path):
    deep = tmp_path / "/".join(["folder-of-a-service"] * 40)
    deep.mkdir(parents=True)
    assert execute(jemalloc, who, folder, "zeroes", MALLOC_CONF=f"prof:true,prof_final:true,prof_prefix:{deep}/own",
                   cwd=tmp_path) == SILENT
    path, = deep.iterdir()
    assert re.fullmatch(r"own\.\d+\.0\.f\.heap", path.name) and path.read_text().startswith("heap")


def test_jemalloc_long_prefix_in_a_report(jemalloc, folder):
    prefix = 'a"' * 1000
    said = execute(jemalloc, "ours", folder, "report", "J", MALLOC_CONF=f"prof_prefix:{prefix}").output
    assert json.loads(said)["jemalloc"]["opt"]["prof_prefix"] == prefix
    said = execute(jemalloc, "ours", folder, "sizes", MALLOC_CONF=f"confirm_conf:true,prof_prefix:{prefix}").errors
    assert f"<jemalloc>: prof_prefix:{prefix}: names of profiles\n" in said
    assert "Invalid conf value" in execute(jemalloc, "ours", folder, "sizes", MALLOC_CONF=f"prof_prefix:{'a' * 5000}").errors


def test_jemalloc_with_and_without_profiles(who, jemalloc, folder):
    assert execute(jemalloc, who, folder, "profiled", MALLOC_CONF="prof:true") == SILENT
    assert execute(jemalloc, who, folder, "no_profile", MALLOC_CONF="prof:false") == SILENT


def test_jemalloc_ours(jemalloc, folder):
    """What has no counterpart here, and which options of ours are set."""
    assert execute(jemalloc, "ours", folder, "ours") == SILENT
    assert execute(jemalloc, "ours", folder, "ours_ever") == SILENT
    assert execute(jemalloc, "ours", folder, "reset_of_others") == SILENT
    assert execute(jemalloc, "ours", folder, "ours_first", MIMALLOC_PURGE_DELAY=99, MALLOC_CONF="dirty_decay_ms:5") == SILENT


@pytest.mark.parametrize("asked", [{"MIMALLOC_VERBOSE": 1}, {"MALLOC_CONF": "confirm_conf:true"}], ids=["verbose", "confirm"])
def test_jemalloc_options_are_explained(asked, jemalloc, folder):
    conf = ",".join(filter(None, (asked.get("MALLOC_CONF"), "thp:never,narenas:3")))
    said = execute(jemalloc, "ours", folder, "decay", **{**asked, "MALLOC_CONF": conf}).errors
    assert "<jemalloc>: thp:never: option allow_thp\n" in said and "<jemalloc>: narenas:3: no effect\n" in said


# -- A program of others

class Redis:
    """Debian's redis, which is linked with libjemalloc.so.2."""

    def __init__(self, folder, library):
        self.socket, self.log = folder / "s", folder / "log"
        program = shutil.which("redis-server") or find("redis-check-rdb")
        if "libjemalloc.so.2" not in run(find("ldd"), program):
            pytest.skip("redis is not linked with jemalloc")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", folder, "--hz", "50"],
            executable=program, stdout=open(self.log, "w"), stderr=subprocess.STDOUT, env=environment(LD_LIBRARY_PATH=library))

    def __call__(self, *words):
        return run(find("redis-cli"), "-s", self.socket, *words).strip()

    def until(self, is_so, *words):
        """What a command says as soon as `is_so` holds of it; within 20 seconds."""
        for _ in range(400):
            answer = attempt("redis-cli", "-s", self.socket, *words)
            said = answer.output
            if answer.status == 0 and is_so(said): return said
            assert self.process.poll() is None, self.log.read_text()[-4000:]
            time.sleep(0.05)
        return pytest.fail(f"{words}: {said}")


def figures(text):
    return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)\r?$", text, re.M)}


def test_redis(folder, tmp_path):
    find("redis-cli")
    redis = Redis(tmp_path, folder)
    try:
        redis.until(lambda said: said.strip() == "PONG", "ping")
        assert str(folder / "libjemalloc.so.2") in pathlib.Path(f"/proc/{redis.process.pid}/maps").read_text()
        redis("eval", "for i = 1, 60000 do redis.call('set', 'k' .. i, string.rep('v', i % 500)) end return 1", "0")
        # These are refreshed now and then.
        full = figures(redis.until(lambda said: figures(said)["allocator_allocated"] > 15 << 20, "info", "memory"))
        assert full["used_memory"] * 0.8 < full["allocator_allocated"] < full["used_memory"] * 1.5
        assert full["allocator_allocated"] <= full["allocator_active"] <= full["allocator_resident"]
        assert full["used_memory_rss"] * 0.4 < full["allocator_resident"] < full["used_memory_rss"] * 1.2
        assert redis("flushall") == "OK" and redis("memory", "purge") == "OK"
        empty = figures(redis.until(lambda said: figures(said)["allocator_resident"] < full["allocator_resident"] / 2,
                                    "info", "memory"))
        assert empty["allocator_allocated"] < full["allocator_allocated"] / 4
        assert "Begin jemalloc statistics" in redis("memory", "malloc-stats")
        for value in ("no", "yes"):
            assert redis("config", "set", "jemalloc-bg-thread", value) == "OK"
        attempt("redis-cli", "-s", redis.socket, "shutdown", "nosave")
        assert redis.process.wait(timeout=30) == 0
    finally:
        redis.process.kill()
        redis.process.wait()


# -- gperftools

@pytest.mark.parametrize("scenario", ["properties", "extension", "names"])
def test_gperftools(scenario, who, gperftools, folder):
    assert execute(gperftools, who, folder, scenario) == SILENT


def test_gperftools_in_cxx(who, in_cxx, folder):
    assert execute(in_cxx, who, folder) == SILENT


def test_gperftools_ours(gperftools, folder):
    assert execute(gperftools, "ours", folder, "ours") == SILENT
    assert execute(gperftools, "ours", folder, "ours_rate", "500", TCMALLOC_RELEASE_RATE=2) == SILENT
    assert execute(gperftools, "ours", folder, "ours_rate", "-1", TCMALLOC_RELEASE_RATE=0) == SILENT
    assert execute(gperftools, "ours", folder, "ours_rate", "99", TCMALLOC_RELEASE_RATE=2, MIMALLOC_PURGE_DELAY=99) == SILENT


# -- The libraries

def exported(path):
    listed = run("nm", "-D", "--defined-only", "--format=posix", path)
    return {line.split()[0] for line in listed.splitlines() if " " in line}


# Names of the other library that ours has not, and why.
ABSENT = {
    "libjemalloc.so.2": r"je_test_hooks_\w+",  # its own tests
    # Hooks, and what they need to see; its own functions, and the class but for what all programs call.
    "libtcmalloc_minimal.so.4": r"MallocHook_\w+|mmap(64)?|munmap|mremap|sbrk|RunningOnValgrind|TCMalloc\w+|tcmalloc_sys_alloc"
                                r"|_ZN(?!15MallocExtension8instanceEv)\w+|_Z[^nd]\w+",
}
# What ours has of them besides.
MORE = {"libjemalloc.so.2": set(),
        "libtcmalloc_minimal.so.4": {"MallocExtension_GetMemoryReleaseRate", "MallocExtension_SetMemoryReleaseRate"}}


@pytest.mark.parametrize("name", ABSENT)
def test_exported_names(name, folder, library):
    """All that programs can call of the other library, all of ours, and nothing else."""
    theirs, ours, plain = exported(find_library(name)), exported(folder / name), exported(library)
    assert not {known for known in theirs - ours if not re.fullmatch(ABSENT[name], known)}
    assert plain <= ours and ours - plain - theirs == MORE[name]
    assert f"[{name}]" in run("readelf", "-d", folder / name)


@pytest.mark.parametrize("name", ABSENT)
def test_preloaded(name, folder):
    """In front of a program that knows nothing of it, it is our allocator, and says nothing unless asked to."""
    assert attempt("ls", "/dev/null", apart=True, LD_PRELOAD=folder / name) == (0, "/dev/null\n", "")
    assert "show_stats" in run("ls", "/dev/null", LD_PRELOAD=folder / name, MIMALLOC_VERBOSE=1)
