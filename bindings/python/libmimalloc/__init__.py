"""The memory allocator libmimalloc.

`python -m libmimalloc program.py` runs a program on it. In such a process `is_active()` is true, and `statistics()` says
what memory is used for.
"""
import ctypes
import json
import pathlib

__all__ = ["is_active", "path", "statistics", "version"]


def path():
    """The shared library: what LD_PRELOAD needs, for programs that are not in Python."""
    return pathlib.Path(__file__).resolve().parent / "libmimalloc.so"


def _of_the_process():
    """The functions of the library that is in front of libc; None if it is not."""
    functions = ctypes.CDLL(None)
    return functions if hasattr(functions, "mi_describe") else None  # other libraries have other names in mi_


def is_active():
    """Whether this process allocates with the library."""
    return _of_the_process() is not None


def version():
    """The version of the library in this package, as (3, 4, 3)."""
    number = ctypes.CDLL(str(path())).mi_version()
    return number // 10000, number // 100 % 100, number % 100


def statistics():
    """What `mi_stats_get_json` says of this process, as a dict; None if `is_active()` is false."""
    functions = _of_the_process()
    if functions is None:
        return None
    functions.mi_stats_get_json.restype = ctypes.c_void_p
    functions.mi_stats_get_json.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    functions.mi_free.argtypes = [ctypes.c_void_p]
    text = functions.mi_stats_get_json(0, None)
    if not text:
        raise MemoryError
    try:
        return json.loads(ctypes.string_at(text))
    finally:
        functions.mi_free(text)
