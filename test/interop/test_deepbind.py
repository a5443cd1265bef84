"""Libraries opened with RTLD_DEEPBIND see libc's malloc and free before ours. If one of these fails, a program that opens
its extensions so, as PHP does, dies with the library in front of it, or finds other libraries than without it."""
import pytest

import conftest
from conftest import find, run

SOURCE = conftest.ROOT / "test" / "interop" / "src" / "deepbind.c"
FLAGS = ["-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin"]


@pytest.fixture(scope="module")
def folder(library, tmp_path_factory):
    path = tmp_path_factory.mktemp("deepbind")
    (path / "inner").mkdir()
    shared = [*FLAGS, "-shared", "-fPIC", SOURCE]
    run("cc", *FLAGS, "-rdynamic", SOURCE, "-ldl", "-o", path / "program")
    run("cc", *FLAGS, "-rdynamic", SOURCE, "-ldl", "-Wl,--no-as-needed", f"-L{library.parent}", "-lmimalloc",
        f"-Wl,-rpath,{library.parent}", "-o", path / "linked")
    run("cc", *shared, "-DPLUGIN", "-o", path / "plugin.so")
    run("cc", *shared, "-DPLUGIN", "-o", path / "inner" / "inner.so")
    run("cc", *shared, "-DOPENER", "-ldl", "-Wl,-rpath,$ORIGIN/inner", "-o", path / "opener.so")
    run("cc", *shared, "-DOPENER", "-ldl", "-Wl,--no-as-needed", f"-L{library.parent}", "-lmimalloc",
        f"-Wl,-rpath,$ORIGIN/inner:{library.parent}", "-o", path / "opener-linked.so")
    return path


@pytest.mark.parametrize("how", ["pass", "base"])
def test_blocks_go_both_ways(how, folder, library):
    """Opened by dlopen, and by dlmopen into the program's own namespace."""
    assert run(folder / "program", how, folder / "plugin.so", LD_PRELOAD=library) == "done\n"


def test_linked(folder):
    assert run(folder / "linked", "pass", folder / "plugin.so") == "done\n"


@pytest.mark.parametrize("drop, whose", [("1", "the program's\n"), ("0", "the plug-in's\n")])
def test_option(drop, whose, folder, library):
    assert run(folder / "program", "ask", folder / "plugin.so", LD_PRELOAD=library, MIMALLOC_DROP_DEEPBIND=drop) == whose


def test_run_path_of_the_caller(folder, library):
    """A library opens another one that only its own run path leads to."""
    assert run(folder / "program", "pass", folder / "opener.so", "inner.so", LD_PRELOAD=library) == "done\n"


def test_namespace_of_the_caller(folder, library):
    """A library that is linked with us, in a namespace of its own: what it opens is there, too."""
    assert run(folder / "program", "apart", folder / "opener-linked.so", "inner.so", LD_PRELOAD=library) == "done\n"


def test_php(library):
    """All of its extensions are opened so."""
    php = find("php", "php8.2")
    script = ("$a = []; for ($i = 0; $i < 20000; $i++) { $a[] = json_encode(['n' => $i, 's' => str_repeat('x', $i % 300)]); }"
              "preg_match_all('/n\":(\\d+)/', implode($a), $m); echo count(get_loaded_extensions()) > 5 ? 'ok' : 'few', "
              "array_sum($m[1]);")
    assert run(php, "-r", script, LD_PRELOAD=library, USE_ZEND_ALLOC="0") == "ok199990000"
