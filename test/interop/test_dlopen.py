"""The library loaded by a program at run time and unloaded again, in both TLS models. If one of these fails, a
host of plug-ins grows with each one it reloads, or crashes when a thread or the process ends."""
import pytest

import conftest
from conftest import attempt, run

pytestmark = pytest.mark.slow
SOURCES = conftest.ROOT / "test" / "interop" / "src"
INCLUDE = conftest.ROOT / "include"
WARNINGS = ["-O1", "-Wall", "-Wextra", "-Werror"]
MODELS = ["initial-exec", "local-dynamic"]


@pytest.fixture(scope="module")
def folders(build, library, tmp_path_factory):
    """{model: a folder with libmimalloc.so and mimalloc.o}"""
    dynamic = tmp_path_factory.mktemp("local-dynamic")
    run("cmake", "-S", conftest.ROOT, "-B", dynamic, "-G", "Ninja", "-DMI_LOCAL_DYNAMIC_TLS=ON", "-DMI_BUILD_STATIC=OFF")
    run("cmake", "--build", dynamic)
    return {"initial-exec": build, "local-dynamic": dynamic}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    path = tmp_path_factory.mktemp("host") / "host"
    run("cc", *WARNINGS, SOURCES / "dlopen_host.c", "-pthread", "-ldl", "-o", path)
    return path


@pytest.fixture(scope="module", params=[(model, kind) for model in MODELS for kind in ("library", "plug-in")],
                ids=lambda param: "-".join(param))
def loaded(request, folders, tmp_path_factory):
    """(file, prefix) of something to load: the library itself, and one that contains it."""
    model, kind = request.param
    if kind == "library":
        return folders[model] / "libmimalloc.so", "mi_"
    plugin = tmp_path_factory.mktemp("plugin") / "plugin.so"
    run("c++", *WARNINGS, "-shared", "-fPIC", f"-I{INCLUDE}", SOURCES / "plugin.cpp", folders[model] / "mimalloc.o",
        "-pthread", "-o", plugin)
    return plugin, "plugin_"


def test_reload(loaded, host):
    """Memory, thread keys and handlers all go, 1,000 times; threads that used the library end later."""
    run(host, "reload", *loaded)


@pytest.mark.parametrize("mode", ["stay", "early", "apart"])
def test_never_unloaded(mode, loaded, host):
    """At the end of the process nothing goes: whoever comes last still has its blocks."""
    assert run(host, mode, *loaded) == "still here\n"


@pytest.mark.parametrize("model", MODELS)
def test_preloaded(model, folders, host):
    library = folders[model] / "libmimalloc.so"
    assert run(host, "stay", library, "mi_", LD_PRELOAD=library) == "still here\n"


@pytest.mark.parametrize("model", MODELS)
def test_static_tls_block_is_full(model, folders, host, tmp_path):
    """Other libraries have taken the room there is for thread-local variables of the model initial-exec."""
    (tmp_path / "filler.c").write_text("__thread char filler[SIZE] __attribute__((tls_model(\"initial-exec\")));\n"
                                       "char* touch(void) { return filler; }\n")
    fillers = []
    for size in (1024, 512, 256, 256, 128, 64, 32, 16, 16):
        fillers.append(tmp_path / f"filler{len(fillers)}.so")
        run("cc", "-shared", "-fPIC", f"-DSIZE={size}", tmp_path / "filler.c", "-o", fillers[-1])
    result = attempt(host, "stay", folders[model] / "libmimalloc.so", "mi_", *fillers)
    if model == "local-dynamic":
        assert (result.status, result.output) == (0, "still here\n")
    else:
        assert "static TLS block" in result.output, "if this works too, the option is not needed any more"
