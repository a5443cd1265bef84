"""A thread made by another copy of libc, in a linker namespace of its own: the libc that the library looks at never hears
of it. If one of these fails, a program that uses dlmopen, or runs with an audit library, gets blocks twice."""

import pytest

import conftest
from conftest import run

SOURCES = conftest.ROOT / "test" / "interop" / "src"
WARNINGS = ["-O1", "-Wall", "-Wextra", "-Werror"]
INCLUDE = conftest.ROOT / "include"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("namespaces")
    run("cc", *WARNINGS, "-rdynamic", f"-I{INCLUDE}", SOURCES / "namespaces.c", "-pthread", "-ldl", "-o", path / "program")
    run("cc", *WARNINGS, "-shared", "-fPIC", SOURCES / "namespaces_thread.c", "-pthread", "-o", path / "thread.so")
    return path


def test_dlmopen(folder, library):
    """The program opens the namespace when it is under way."""
    assert run(folder / "program", "dlmopen", folder / "thread.so", LD_PRELOAD=library) == "done\n"


def test_audit(folder, library):
    """The namespace is there before the program is."""
    assert run(folder / "program", "audit", LD_PRELOAD=library, LD_AUDIT=folder / "thread.so") == "done\n"


def test_dlmopen_is_that_of_the_caller(library, tmp_path):
    """A library opens another one by its own run path, which the loader finds by the caller's address; a file that is not
    there, and arguments the loader refuses, give what they give without us."""
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "inner.c").write_text("int inner(void) { return 42; }\n")
    (tmp_path / "outer.c").write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stddef.h>\n"
        "void* outer(const char* name, int flags) { return dlmopen(LM_ID_NEWLM, name, flags); }\n")
    (tmp_path / "main.c").write_text(
        "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n"
        "void* outer(const char* name, int flags);\n"
        "int main(void) {\n"
        "  void* const library = outer(\"libinner.so\", RTLD_NOW);\n"
        "  int (*const inner)(void) = library != NULL ? (int (*)(void))dlsym(library, \"inner\") : NULL;\n"
        "  printf(\"%d\\n\", inner != NULL ? inner() : -1);\n"
        "  Lmid_t lmid = -1;\n"
        "  printf(\"%d\", library != NULL && dlinfo(library, RTLD_DI_LMID, &lmid) == 0);\n"
        "  printf(\" %d\\n\", lmid > 0);\n"
        "  printf(\"%d\", dlmopen(LM_ID_BASE, \"libinner.so\", RTLD_NOW) != NULL);\n"
        "  printf(\" %s\\n\", dlerror());\n"
        "  printf(\"%d\", outer(\"libinner.so\", 0) != NULL);\n"
        "  printf(\" %s\\n\", dlerror());\n"
        "  return 0;\n}\n")
    run("cc", "-shared", "-fPIC", inner / "inner.c", "-o", inner / "libinner.so")
    run("cc", "-shared", "-fPIC", tmp_path / "outer.c", "-ldl", f"-Wl,-rpath,{inner},--enable-new-dtags", "-o",
        tmp_path / "libouter.so")
    run("cc", tmp_path / "main.c", tmp_path / "libouter.so", "-ldl", f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "main")
    plain = run(tmp_path / "main")
    assert plain.startswith("42\n1 1\n0 ")
    assert run(tmp_path / "main", LD_PRELOAD=library) == plain
