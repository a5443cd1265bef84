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


@pytest.fixture(scope="module")
def mi(library):
    loaded = ctypes.CDLL(str(library))
    loaded.mi_stats_get_json.restype = ctypes.c_void_p
    loaded.mi_stats_get_json.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    loaded.mi_malloc.restype = ctypes.c_void_p
    loaded.mi_malloc.argtypes = [ctypes.c_size_t]
    loaded.mi_free.argtypes = [ctypes.c_void_p]
    return loaded


def report(mi):
    text = mi.mi_stats_get_json(0, None)
    parsed = json.loads(ctypes.string_at(text))
    mi.mi_free(text)
    return parsed


def test_shape(mi):
    blocks = [mi.mi_malloc(size) for size in (10, 10000, 10000000)]
    parsed = report(mi)
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
    assert parsed["process"]["rss_current"] > 1 << 20 and parsed["malloc_huge"]["current"] >= 10000000
    for block in blocks:
        mi.mi_free(block)


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


def test_every_size_of_buffer(mi):
    """Valid, or nothing: from one byte to all of it."""
    buffer = ctypes.create_string_buffer(32768)
    assert mi.mi_stats_get_json(32768, buffer)
    length = len(buffer.value)
    valid = []
    for size in range(1, length + 200):
        if mi.mi_stats_get_json(size, buffer):
            valid.append(size)
            assert json.loads(buffer.value)["mimalloc_version"] == 30403
        else:
            assert buffer.value == b""
    assert valid and valid[0] > length - 64 and valid[-1] == length + 199
