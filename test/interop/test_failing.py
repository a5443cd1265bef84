"""The sweep over system calls that fail (test/stress/failing.c and failing_new.cpp) has every exported function in a
scenario, and stands before every function of libc that the library calls and that can fail. So has the sandbox, in which
the process is ended when it asks the system for more than memory (test/stress/sandbox.c and sandbox_new.cpp)."""
import json
import re

import pytest

import conftest
from conftest import run

# Exported functions that no scenario calls, with the reason.
NOT_SWEPT = {
    "mi_process_done": "the end of the process calls it: every scenario does",
    "mi_heap_main": "returns an address; the scenarios of heaps use it",
    **dict.fromkeys(("cfree", "vfree", "free_sized", "free_aligned_sized", "__libc_free", "__libc_cfree"),
                    "call free by name, which is swept"),
    **dict.fromkeys(("__libc_malloc", "__libc_calloc", "__libc_realloc", "__libc_memalign", "__libc_valloc",
                     "__libc_pvalloc", "__posix_memalign", "_aligned_malloc", "reallocarr", "reallocf"),
                    "another name of a function that is swept, or made of one"),
    **dict.fromkeys(("malloc_size", "malloc_good_size"), "another name of a function that allocates nothing"),
    **dict.fromkeys(("mallinfo", "malloc_stats", "malloc_info"), "the figures of mallinfo2, which is swept"),
    **dict.fromkeys(("dlopen", "dlmopen"), "the loader's, which is called with the same arguments"),
    **dict.fromkeys(("thrd_create", "pthread_join", "thrd_join", "pthread_tryjoin_np", "pthread_timedjoin_np", "pthread_clockjoin_np", "unshare",
                     "setns", "prctl", "capset"), "libc's, which are called with the same arguments"),
}
# Of those that a scenario calls, the ones that ask the system by contract and are not called in the sandbox; docs/guide.md
# says so.
ASKING = {
    **dict.fromkeys(("mi_realpath", "mi_heap_realpath"), "files"),
    **dict.fromkeys(("mi_process_info", "mi_process_info_print", "mi_process_info_print_out", "mi_explain", "mi_stats_print",
                     "mi_stats_print_out", "mi_thread_stats_print", "mi_thread_stats_print_out",
                     "mi_subproc_stats_print_out", "mi_subproc_heap_stats_print_out", "mi_stats_get_json",
                     "mi_stats_as_json", "mi_subproc_stats_get_json", "mi_heap_stats_get_json", "mi_metrics"),
                    "resident memory, processor time, NUMA nodes"),
    "mi_profile_start": "the number of the thread, for each sample",
    **dict.fromkeys(("mi_profile_write", "mi_profile_write_to"), "files, what is mapped"),
    **dict.fromkeys(("mi_reserve_huge_os_pages", "mi_reserve_huge_os_pages_interleave"), "NUMA nodes"),
}
# What the library calls of libc and the sweep lets pass, with the reason.
NOT_REFUSED = {
    **dict.fromkeys(("memcpy", "memmove", "memset", "memcmp", "strlen", "strnlen", "strstr", "getauxval", "getenv", "__errno_location",
                     "pthread_getspecific", "pthread_setcancelstate", "pthread_attr_init", "pthread_attr_destroy",
                     "pthread_attr_setstacksize", "pthread_self", "pthread_getcpuclockid", "sigfillset", "__pthread_register_cancel",
                     "__pthread_unregister_cancel"),
                    "makes no system call"),
    "pthread_join": "of a thread that is there: never refused",
    **dict.fromkeys(("close", "dlclose", "abort", "pthread_key_delete", "__cxa_finalize"), "the result is not used"),
    **dict.fromkeys(("write", "fputs"), "a message that is lost"),
    **dict.fromkeys(("getrlimit", "getrusage"), "refused by a filter in test/api/refusals.c"),
    **dict.fromkeys(("backtrace", "_dl_find_object", "dladdr", "dl_iterate_phdr", "sigemptyset", "sigaddset", "pthread_sigmask"),
                    "stacks and names, for reports: no result has no effect"),
    "sigaction": "of valid signals: never refused; when guards are switched on, and then not twice",
    "getpid": "never refused",
    "pthread_mutex_trylock": "in the child of a fork, which counts as one that lives for ever if it finds no mutex",
    "realpath": "of the path, not of memory",
    "dlsym": "its memory is libc's own",
    "__cxa_atexit": "when the library is loaded, before a scenario",
}
WEAK = re.compile(r"^_ITM_|^_ZSt|^_ZT|^__cxa_(throw|allocate_exception|(begin|end)_catch)$|^__gxx_personality_v0$|"
                  r"^__gmon_start__$|^__(a|hwa|m|t)san_init$")
DATA = {"__environ", "environ", "stderr", "stdout", "_r_debug", "_DYNAMIC", "__libc_single_threaded"}


def undefined(path):
    """Names a program or library expects from others."""
    return {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--undefined-only", path).splitlines()}


def defined(path):
    return {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", path).splitlines()}


def programs(build, name):
    manifest = build / "tests.json"
    if not manifest.exists():
        pytest.fail(f"{manifest} is missing: run make test")
    found = [p["path"] for p in json.loads(manifest.read_text())
             if p["name"].startswith(name) and p["group"] == "stress" and p["flavour"] == "release"]
    assert len(found) == 2, f"{name} and {name}_new are not among the tests: {found}"
    return found


@pytest.fixture(scope="module")
def sweeps(build):
    return programs(build, "failing")


def exported(root):
    """What is exported here: not what only another system has."""
    text = (root / "test" / "interop" / "symbols.txt").read_text()
    sections = re.findall(r"^\[(.*)\]\n((?:\w+\n)*)", text, re.M)
    return {name for section, names in sections if "openbsd" not in section for name in names.split()}


def test_every_function_is_swept(sweeps):
    """If this fails, nobody knows what a function does when there is no memory."""
    called = set().union(*(undefined(path) for path in sweeps))
    names = exported(conftest.ROOT)
    missing = sorted(names - called - set(NOT_SWEPT))
    assert not missing, ("in no scenario of test/stress/failing.c or failing_new.cpp, nor in NOT_SWEPT of "
                         f"test/interop/test_failing.py: {', '.join(missing)}")
    unknown = sorted(set(NOT_SWEPT) - names)
    assert not unknown, f"NOT_SWEPT names what the library does not export: {', '.join(unknown)}"


def test_every_function_is_in_the_sandbox(build):
    """If this fails, nobody knows whether a function ends a program that locked itself in."""
    called = set().union(*(undefined(path) for path in programs(build, "sandbox")))
    names = exported(conftest.ROOT)
    missing = sorted(names - called - set(NOT_SWEPT) - set(ASKING))
    assert not missing, ("in no scenario of test/stress/sandbox.c or sandbox_new.cpp, nor in ASKING of "
                         f"test/interop/test_failing.py: {', '.join(missing)}")
    assert not called & set(ASKING), f"called in the sandbox, and in ASKING: {', '.join(called & set(ASKING))}"
    guide = (conftest.ROOT / "docs" / "guide.md").read_text()
    silent = sorted(name for name in ASKING if f"`{name}" not in guide)
    assert not silent, f"docs/guide.md does not say that these ask the system: {', '.join(silent)}"


def test_every_call_can_be_refused(sweeps, library):
    """If this fails, the library makes a system call that the sweep never refuses."""
    calls = {name for name in undefined(library) if not WEAK.match(name)} - DATA
    for path in sweeps:
        left = sorted(calls - defined(path) - set(NOT_REFUSED))
        assert not left, f"test/lib/sweep.h does not stand before: {', '.join(left)}"
