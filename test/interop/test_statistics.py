"""Statistics as JSON, read by a parser that is not ours. If this fails, tools that watch programs cannot read what
we report."""
import ctypes
import json

import pytest

COUNTS = ("pages reserved committed page_committed pages_abandoned threads malloc_normal malloc_huge malloc_requested "
          "segments segments_abandoned segments_cache _segments_reserved heaps theaps").split()
COUNTERS = ("reset purged mmap_calls commit_calls reset_calls purge_calls arena_count malloc_normal_count "
            "malloc_huge_count malloc_guarded_count arena_rollback_count arena_purges pages_extended pages_retire "
            "page_searches page_searches_count pages_reclaim_on_alloc pages_reclaim_on_free pages_reabandon_full "
            "pages_unabandon_busy_wait heaps_delete_wait").split()
PROCESS = "elapsed_msecs user_msecs system_msecs page_faults rss_current rss_peak commit_current commit_peak".split()
AMOUNT = ["total", "peak", "current"]


class SubProcess(ctypes.Structure):
    """mi_subproc_id_t"""
    _fields_ = [("id", ctypes.c_void_p)]


@pytest.fixture(scope="module")
def mi(library):
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    loaded = ctypes.CDLL(str(library))
    for name, result, arguments in [
            ("mi_stats_get_json", pointer, [size, pointer]),
            ("mi_heap_stats_get_json", pointer, [pointer, size, pointer]),
            ("mi_subproc_stats_get_json", pointer, [SubProcess, size, pointer]),
            ("mi_heap_new", pointer, []), ("mi_heap_main", pointer, []), ("mi_heap_malloc", pointer, [pointer, size]),
            ("mi_heap_destroy", None, [pointer]), ("mi_subproc_main", SubProcess, []),
            ("mi_subproc_new", SubProcess, []), ("mi_subproc_destroy", None, [SubProcess]),
            ("mi_malloc", pointer, [size]), ("mi_free", None, [pointer])]:
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


@pytest.fixture
def heap(mi):
    made = mi.mi_heap_new()
    yield made
    mi.mi_heap_destroy(made)


def forms(mi, heap):
    """All functions that make JSON, each as f(size, buffer)."""
    return {"process": mi.mi_stats_get_json,
            "sub-process": lambda size, buffer: mi.mi_subproc_stats_get_json(mi.mi_subproc_main(), size, buffer),
            "heap": lambda size, buffer: mi.mi_heap_stats_get_json(heap, size, buffer),
            "main heap": lambda size, buffer: mi.mi_heap_stats_get_json(None, size, buffer)}


def report(mi, form=None):
    text = (form or mi.mi_stats_get_json)(0, None)
    parsed = json.loads(ctypes.string_at(text))
    mi.mi_free(text)
    return parsed


def check_shape(parsed):
    keys = list(parsed)
    assert keys[:3] == ["stat_version", "mimalloc_version", "process"]
    assert keys[-3:] == ["malloc_bins", "page_bins", "chunk_bins"]
    assert set(keys[3:-3]) == {*COUNTS, *COUNTERS} and len(keys) == 6 + len(COUNTS) + len(COUNTERS)
    assert keys.index("pages") < keys.index("reset") < keys.index("threads") < keys.index("heaps_delete_wait")
    assert list(parsed["process"]) == PROCESS
    assert all(list(parsed[key]) == AMOUNT for key in COUNTS) and all(isinstance(parsed[key], int) for key in COUNTERS)
    for bins in ("malloc_bins", "page_bins"):
        assert len(parsed[bins]) == 74 and all(list(row) == [*AMOUNT, "block_size", "page_size"] for row in parsed[bins])
    assert "".join(row["bin"] for row in parsed["chunk_bins"]) == "SXMLH "
    assert parsed["process"]["rss_current"] > 1 << 20


def test_shape(mi, heap):
    blocks = [mi.mi_malloc(size) for size in (10, 10000, 10000000)]
    for name, form in forms(mi, heap).items():
        parsed = report(mi, form)
        check_shape(parsed)
        assert (parsed["malloc_huge"]["current"] >= 10000000) == (name != "heap"), name
    for block in blocks:
        mi.mi_free(block)


def test_heap_has_its_blocks(mi, heap):
    """And nothing of the process but what the process used."""
    for size in [100] * 7 + [1000000]:
        assert mi.mi_heap_malloc(heap, size)
    parsed = report(mi, forms(mi, heap)["heap"])
    in_use = {row["block_size"]: row["current"] for row in parsed["malloc_bins"] if row["current"]}
    assert in_use == {112: 7, (1 << 19) + 8: 1} and parsed["malloc_normal"]["current"] == 7 * 112
    assert parsed["malloc_huge"]["current"] == parsed["malloc_huge"]["total"] == 1003520
    assert parsed["malloc_huge_count"] == 1 and parsed["pages"] == {"total": 1, "peak": 1, "current": 1}
    assert parsed["reserved"]["current"] == parsed["threads"]["current"] == parsed["mmap_calls"] == 0
    assert parsed["process"]["commit_current"] > 1000000


def test_sub_process_has_its_figures(mi):
    subproc = mi.mi_subproc_new()
    parsed = report(mi, lambda size, buffer: mi.mi_subproc_stats_get_json(subproc, size, buffer))
    check_shape(parsed)
    assert parsed["heaps"]["current"] == 1 and parsed["threads"]["current"] == parsed["pages"]["total"] == 0
    mi.mi_subproc_destroy(subproc)


def test_resident_memory_is_the_kernels(mi):
    """Not an estimate: within what the interpreter itself may have touched meanwhile."""
    block = mi.mi_malloc(64 << 20)
    ctypes.memset(block, 1, 64 << 20)
    parsed = report(mi)
    with open("/proc/self/statm") as statm:
        kernel = int(statm.read().split()[1]) * 4096
    assert abs(parsed["process"]["rss_current"] - kernel) < 8 << 20
    assert parsed["process"]["rss_peak"] >= parsed["process"]["rss_current"] - (1 << 20) and kernel > 64 << 20
    mi.mi_free(block)


@pytest.mark.parametrize("which", ["process", "sub-process", "heap", "main heap"])
def test_every_size_of_buffer(mi, heap, which):
    """Valid, or nothing: from one byte to all of it; size 0 is a block."""
    form = forms(mi, heap)[which]
    buffer = ctypes.create_string_buffer(32768)
    assert form(32768, buffer)
    length = len(buffer.value)
    block = form(0, buffer)
    assert block != ctypes.addressof(buffer) and json.loads(ctypes.string_at(block))
    mi.mi_free(block)
    valid = []
    for size in range(1, length + 200):
        if form(size, buffer):
            valid.append(size)
            assert json.loads(buffer.value)["mimalloc_version"] == 30403
        else:
            assert buffer.value == b""
    assert valid and valid[0] > length - 64 and valid[-1] == length + 199
