"""What scripts/declarations.py reads from the public headers is what the C compiler sees there, and what is checked in below
bindings/ is what it writes. If this fails, a program in another language calls our functions with wrong arguments, or cannot
call one of them."""
import re
import sys

import pytest

import conftest
from conftest import attempt, find

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import declarations
from declarations import Alias, Callback, Constant, Enum, Function, Struct

ITEMS = declarations.everything()
TOP = "".join(f'#include "{name}"\n' for name in declarations.HEADERS) + "#include <wchar.h>\n"


def same_type(left, right, name):
    return f'_Static_assert(__builtin_types_compatible_p({left}, {right}), "{name}");'


def signature(item):
    return f"{item.result} (*)({', '.join(t for t, _ in item.parameters) or 'void'})"


def assertions(item):
    """What the C compiler is asked about something that was read."""
    name = item.name
    if isinstance(item, (Function, Callback)):
        seen = f"__typeof__(&{name})" if isinstance(item, Function) else f"{name}*"
        yield same_type(seen, signature(item), name)
    elif isinstance(item, Constant):
        yield f'_Static_assert({name} == {item.value}, "{name}");'
    elif isinstance(item, Alias):
        yield same_type(name, item.type, name)
    elif isinstance(item, Enum):
        yield from (f'_Static_assert({value} == {number}, "{value}");' for value, number, _ in item.values)
    elif isinstance(item, Struct):
        fields = [(t, n, f"[{length}]" if length else "") for t, n, length, _ in item.fields]
        yield f"struct copy_of_{name} {{ {' '.join(f'{t} {n}{length};' for t, n, length in fields)} }};"
        yield f'_Static_assert(sizeof(struct copy_of_{name}) == sizeof({name}), "{name}");'
        for t, n, length in fields:
            yield f'_Static_assert(offsetof(struct copy_of_{name}, {n}) == offsetof({name}, {n}), "{name}.{n}");'
            yield same_type(f"__typeof__((({name}*)0)->{n})", f"{t}{length}", f"{name}.{n}")


def said_by_the_compiler(items):
    """The names of what it sees otherwise."""
    source = TOP + "\n".join(line for item in items for line in assertions(item))
    done = attempt(find("cc"), "-std=gnu11", "-fsyntax-only", f"-I{conftest.ROOT / 'include'}", "-xc", "-", stdin=source)
    said = re.findall(r'static assertion failed: "(.*?)"', done.output)
    assert done.status == 0 or said, done.output
    return said


def test_compiler_sees_what_was_read():
    assert said_by_the_compiler(ITEMS) == []


def test_every_function_of_the_library_is_declared():
    text = (conftest.ROOT / "test" / "interop" / "symbols.txt").read_text()
    exported = set(re.findall(r"^mi_\w+$", text, re.M))
    assert {item.name for item in ITEMS if isinstance(item, Function)} == exported


def test_every_type_of_the_headers_is_declared():
    code = "".join(declarations.read(name).partition("\n// C++: ")[0] for name in declarations.HEADERS)
    types = set(re.findall(r"^(?:typedef .*?|} )\(?(?:mi_cdecl )?(mi_\w+)\)?(?:;|\()", code, re.M))
    assert types == {item.name for item in ITEMS if not isinstance(item, (Function, Constant, declarations.Group))}


# what is in a header, what is put there instead, and the name that the compiler then says
MISTAKES = {
    "argument": ("mi_malloc_aligned(size_t size, size_t alignment)", "mi_malloc_aligned(size_t size, int alignment)", "mi_malloc_aligned"),
    "result": ("int mi_version(void)", "long mi_version(void)", "mi_version"),
    "const": ("mi_usable_size(const void* p)", "mi_usable_size(void* p)", "mi_usable_size"),
    "callback": ("mi_error_fun)(int err,", "mi_error_fun)(long err,", "mi_error_fun"),
    "number": ("mi_option_purge_delay = 15", "mi_option_purge_delay = 16", "mi_option_purge_delay"),
    "field": ("size_t used; ///<", "int used; ///<", "mi_heap_area_t.used"),
    "macro": ("MI_STAT_COUNT(reserved) /**<", "MI_STAT_COUNTER(reserved) /**<", "mi_stats_t.reserved"),
    "constant": ("#define MI_SMALL_WSIZE_MAX 128", "#define MI_SMALL_WSIZE_MAX 127", "MI_SMALL_WSIZE_MAX"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_difference_is_noticed(mistake):
    old, new, said = MISTAKES[mistake]
    assert sum(declarations.read(name).count(old) for name in declarations.HEADERS) == 1
    changed = declarations.everything(lambda name: declarations.read(name).replace(old, new))
    assert said in said_by_the_compiler(changed)
    assert declarations.written(changed) != declarations.written(ITEMS)


def test_files_are_what_the_script_writes():
    for path, text in declarations.written(ITEMS).items():
        assert (conftest.ROOT / path).read_text() == text, f"{path}: run scripts/declarations.py"


@pytest.mark.parametrize("text, rust", [
    ("void*", "*mut c_void"), ("const char*", "*const c_char"), ("char**", "*mut *mut c_char"), ("size_t", "usize"),
    ("const void* const*", "*const *const c_void"), ("void* const", "*mut c_void"), ("mi_output_fun*", "mi_output_fun"),
    ("const unsigned char*", "*const c_uchar"), ("unsigned long long", "c_ulonglong"), ("mi_heap_t*", "*mut mi_heap_t")])
def test_types_in_rust(text, rust):
    assert declarations.rust_type(text, {"mi_output_fun"}) == rust
