#!/usr/bin/env python3
"""Writes the public headers as declarations of another language: the files below bindings/ that say so at their top.

Usage: declarations.py

`parse` reads a header into the structures below, in its order; `rust` and `d` write those, `go` the options alone. The headers
are plain enough for that: a declaration follows its comment of `///`, and what depends on a condition is for C++ or for compilers.
test/bindings/test_declarations.py asks the C compiler whether what was read is what it sees, and fails if a file that is
checked in is not what this script writes.
"""
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ("mimalloc.h", "mimalloc-stats.h", "mimalloc-profile.h")

Group = collections.namedtuple("Group", "name")  # its title
Constant = collections.namedtuple("Constant", "name value doc")
Opaque = collections.namedtuple("Opaque", "name doc")
Alias = collections.namedtuple("Alias", "name type doc")
Struct = collections.namedtuple("Struct", "name fields doc")  # fields: (type, name, length of an array or None, doc)
Enum = collections.namedtuple("Enum", "name values doc")  # values: (name, number or other name, doc)
Callback = collections.namedtuple("Callback", "name result parameters doc")  # parameters: (type, name)
Function = collections.namedtuple("Function", "name result parameters doc must_use")

DECORATION = re.compile(r"\b(?:mi_attr_\w+(?:\([\d, ]*\))?|mi_decl_\w+|mi_cdecl)\s*")
MEMBER_DOC = r"(?:\s*///<\s*(?P<doc>.*))?"


# -- Reading --

def unconditional(text):
    """The lines that every compiler of C sees: those inside of nothing but the guard of the header."""
    depth = 0
    for line in text.splitlines():
        if line.startswith("#if"):
            depth += 1
        elif line.startswith("#endif"):
            depth -= 1
        elif depth == 1 and not line.startswith(("#else", "#elif", "#undef", "#include")):
            yield line


def statements(text):
    """Each declaration or definition of a macro, as one string, with the lines of the comment in front of it."""
    doc, code = [], ""
    for line in unconditional(text):
        if not code and line.startswith("///"):
            doc.append(line[3:].removeprefix(" "))
            continue
        if not code and line.startswith("//"):
            continue
        if not code and not line.strip():
            if doc:
                yield doc, ""
            doc = []
            continue
        code += line.strip() + "\n"
        is_complete = (not line.endswith("\\") if code.startswith("#") else
                       line.rstrip().endswith((";", "}")) and code.count("{") == code.count("}"))
        if is_complete:
            yield doc, code
            doc, code = [], ""


def described(doc):
    """A comment without what only Doxygen reads; parameters and result become a list."""
    lines = []
    for line in doc:
        item = re.match(r"@(?:param(?:\[[\w,]+\])? (?P<name>\S+)|return) (?P<text>.*)", line)
        if item:
            if lines and not lines[-1].startswith(("- ", "  ")):
                lines.append("")
            lines.append(f"- `{item['name']}`: {item['text']}" if item["name"] else f"- Returns {item['text']}")
        else:
            lines.append("  " + line.strip() if lines and lines[-1].startswith(("- ", "  ")) else line)
    return lines


def typed(text):
    """A parameter or field, `const char* name`, as (type, name)."""
    type_, name = re.fullmatch(r"(.*?[\s*])(\w+)", text.strip(), re.S).groups()
    return re.sub(r"\s+", " ", type_).strip(), name


def parameters(text):
    return [] if text.strip() in ("", "void") else [typed(parameter) for parameter in text.split(",")]


def fields(body, macros):
    body = body.replace("MI_STAT_FIELDS()", macros.get("MI_STAT_FIELDS", ""))
    body = re.sub(r"MI_(STAT_COUNT(?:ER)?)\((\w+)\) /\*\*< (.*?) *\*/ *\\?",
                  lambda m: f"mi_{m[1].lower()}_t {m[2]}; ///< {m[3]}", body)
    for field in re.finditer(rf"^(?P<text>[\w\s*]+?)(?:\[(?P<length>\w+)\])?;{MEMBER_DOC}$", body, re.M):
        yield (*typed(field["text"]), field["length"], field["doc"] or "")


def values(body):
    number = 0
    for value in re.finditer(rf"^(?P<name>\w+)(?: = (?P<value>\w+))?,?{MEMBER_DOC}$", body, re.M):
        number = int(value["value"] or number) if not value["value"] or value["value"].isdigit() else value["value"]
        yield value["name"], number, value["doc"] or ""
        number = number + 1 if isinstance(number, int) else None


def declaration(doc, code, macros):
    """What a statement declares, or None for those that are of C alone."""
    plain, doc = DECORATION.sub("", code), described(doc)
    if match := re.match(r"#define (\w+)\(\)\s*\\\n(.*)", code, re.S):
        macros[match[1]] = match[2]
        return None
    if match := re.match(r"#define (\w+) ([\w(]\S*(?: \S+)*)\n", code):
        return Constant(match[1], match[2], doc)
    if match := re.match(r"typedef struct \w* ?{\n(.*)}\s*(\w+);", plain, re.S):
        return Struct(match[2], list(fields(match[1], macros)), doc)
    if match := re.match(r"typedef enum \w* ?{\n(.*)}\s*(\w+);", plain, re.S):
        return Enum(match[2], list(values(match[1])), doc)
    if match := re.match(r"typedef struct \w+ (\w+);", plain):
        return Opaque(match[1], doc)
    if match := re.match(r"typedef ([\w\s*]+)\((\w+)\)\((.*)\);", plain, re.S):
        return Callback(match[2], match[1].strip(), parameters(match[3]), doc)
    if match := re.match(r"typedef ([\w*]+) (\w+);", plain):
        return Alias(match[2], match[1], doc)
    if "mi_decl_export" in code:
        result, name, listed = re.fullmatch(r"(.*?[\s*])(\w+)\((.*)\)\s*;\s*", plain, re.S).groups()
        return Function(name, re.sub(r"\s+", " ", result).strip(), parameters(listed), doc, "mi_decl_nodiscard" in code)
    return None


def parse(text):
    """The declarations of a header for C, and the titles of groups that have some, in order."""
    found, macros = [], {}
    for doc, code in statements(text):
        title = next((line.split(" ", 2)[2] for line in doc if line.startswith("@defgroup")), None)
        if title:
            found.append(Group(title))
        elif code:
            found.append(declaration(doc, code, macros))
    found = [item for item in found if item]
    is_empty = [isinstance(item, Group) and isinstance(after, Group) for item, after in zip(found, found[1:] + [None])]
    return [item for item, skipped in zip(found, is_empty) if not skipped]


# -- Rust --

# What a global allocator needs. All else is in the feature "extended".
BASIC = """mi_malloc mi_zalloc mi_realloc mi_free mi_malloc_aligned mi_zalloc_aligned mi_realloc_aligned mi_free_size_aligned
           mi_usable_size mi_version""".split()
RUST = {"void": "c_void", "char": "c_char", "unsigned char": "c_uchar", "int": "c_int", "long": "c_long", "bool": "bool",
        "long long": "c_longlong", "unsigned long long": "c_ulonglong", "size_t": "usize", "int64_t": "i64", "double": "f64"}
WIDTH = 120  # bindings/rust/rustfmt.toml


def rust_type(text, callbacks=()):
    """A type of C, as it stands in a declaration of Rust."""
    text = text.removesuffix(" const").strip()
    if not text.endswith("*"):
        return RUST.get(text.removeprefix("const "), text.removeprefix("const "))
    to = text[:-1].strip()
    if to in callbacks:
        return to  # an Option of a function: NULL is None
    is_const = to.endswith(" const") or to.startswith("const ") and not to.endswith("*")
    return f"*{'const' if is_const else 'mut'} {rust_type(to, callbacks)}"


def rust_array(text, length):
    if not length:
        return rust_type(text)
    return f"[{rust_type(text)}; {length if length.isdigit() else f'{length} as usize'}]"


def rust_call(head, listed, result, tail, indent):
    """A function's declaration, broken as rustfmt does it."""
    result = "" if result == "void" else f" -> {result}"
    line = f"{indent}{head}({', '.join(listed)}){result}{tail}"
    if len(line) <= WIDTH:
        return [line]
    return [f"{indent}{head}(", *(f"{indent}    {one}," for one in listed), f"{indent}){result}{tail}"]


def rust_doc(lines, indent=""):
    lines = [lines] if isinstance(lines, str) else lines
    return [f"{indent}///{' ' if line else ''}{line}" for line in lines if lines != [""]]


def rust_item(item, callbacks):
    name, doc = item.name, rust_doc(item.doc)
    listed = [f"{n}: {rust_type(t, callbacks)}" for t, n in getattr(item, "parameters", ())]
    result = getattr(item, "result", "void")
    result = "void" if result == "void" else rust_type(result, callbacks)
    if isinstance(item, Constant):
        value = item.value.replace("sizeof(void*)", "size_of::<*mut c_void>()")
        value = value[1:-1] if value.startswith("(") else value
        return [*doc, f"pub const {name}: {'c_int' if name == 'MI_MALLOC_VERSION' else 'usize'} = {value};"]
    if isinstance(item, Opaque):
        return [*doc, "#[repr(C)]", f"pub struct {name} {{", "    _opaque: [u8; 0],", "}"]
    if isinstance(item, Alias):
        return [*doc, f"pub type {name} = {rust_type(item.type)};"]
    if isinstance(item, Enum):
        constants = [[*rust_doc(text), f"pub const {value}: {name} = {number};"] for value, number, text in item.values]
        return [*doc, f"pub type {name} = c_int;", "", *sum(constants, [])]
    if isinstance(item, Struct):
        body = [[*rust_doc(text, "    "), f"    pub {n}: {rust_array(t, length)},"]
                for t, n, length, text in item.fields]
        return [*doc, "#[repr(C)]", "#[derive(Clone, Copy, Debug)]", f"pub struct {name} {{", *sum(body, []), "}"]
    return [*doc, *rust_call(f"pub type {name} = Option<unsafe extern \"C\" fn", listed, result, ">;", "")]


def rust(items, callbacks):
    """Items as lines of Rust; functions that follow each other are in one block."""
    lines, is_open = [], False
    for item in items:
        if is_open and not isinstance(item, Function):
            lines.append("}")
        if isinstance(item, Group):
            lines += ["", f"// -- {item.name} --"]
        elif isinstance(item, Function):
            lines += [""] if is_open else ["", 'extern "C" {']
            lines += rust_doc(item.doc, "    ") + (["    #[must_use]"] if item.must_use else [])
            listed = [f"{n}: {rust_type(t, callbacks)}" for t, n in item.parameters]
            result = "void" if item.result == "void" else rust_type(item.result, callbacks)
            lines += rust_call(f"pub fn {item.name}", listed, result, ";", "    ")
        else:
            lines += ["", *rust_item(item, callbacks)]
        is_open = isinstance(item, Function)
    return lines + (["}"] if is_open else [])


def rust_files(items):
    """The two files of declarations, by name."""
    callbacks = {item.name for item in items if isinstance(item, Callback)}
    basic, rest = ([i for i in items if (i.name in BASIC) == is_basic] for is_basic in (True, False))
    head = ["// SPDX-License-Identifier: MIT",
            "// Written by scripts/declarations.py from the headers in include/; change those instead.", "", "use core::ffi::*;"]
    return {"basic.rs": [*head, *rust(basic, callbacks)],
            "extended.rs": [*head, "use core::mem::size_of;", "", "use crate::wchar_t;", *rust(rest, callbacks)]}


# -- D --

D = {"unsigned char": "ubyte", "long": "c_long", "long long": "long", "unsigned long long": "ulong", "int64_t": "long"}
D_WORDS = {"in", "out", "ref", "version", "function", "delegate", "module", "align", "debug", "scope", "lazy", "alias"}


def d_type(text, callbacks=()):
    """A type of C, as it stands in a declaration of D, where const is that of all that can be reached."""
    text = text.removesuffix(" const").strip()
    if not text.endswith("*"):
        return D.get(text.removeprefix("const "), text.removeprefix("const "))
    to = text[:-1].strip()
    if to in callbacks:
        return to  # of a function: a pointer already
    is_const = to.endswith(" const") or to.startswith("const ") and not to.endswith("*")
    to = d_type(to, callbacks)
    return f"const({to})*" if is_const else f"{to}*"


def d_name(name):
    return name + "_" if name in D_WORDS else name


def d_item(item, callbacks):
    name, doc = item.name, rust_doc(getattr(item, "doc", ()))
    listed = ", ".join(f"{d_type(t, callbacks)} {d_name(n)}" for t, n in getattr(item, "parameters", ()))
    result = d_type(getattr(item, "result", "void"), callbacks)
    if isinstance(item, Group):
        return [f"// -- {name} --"]
    if isinstance(item, Constant):
        value = item.value.replace("sizeof(void*)", "(void*).sizeof")
        return [*doc, f"enum {'int' if name == 'MI_MALLOC_VERSION' else 'size_t'} {name} = {value};"]
    if isinstance(item, Opaque):
        return [*doc, f"struct {name};"]
    if isinstance(item, Alias):
        return [*doc, f"alias {name} = {d_type(item.type)};"]
    if isinstance(item, Enum):
        constants = [[*rust_doc(text), f"enum {name} {value} = {number};"] for value, number, text in item.values]
        return [*doc, f"alias {name} = int;", *sum(constants, [])]
    if isinstance(item, Struct):
        body = [[*rust_doc(text, "    "), f"    {d_type(t)}{f'[{length}]' if length else ''} {d_name(n)};"] for t, n, length, text in item.fields]
        return [*doc, f"struct {name}", "{", *sum(body, []), "}"]
    if isinstance(item, Callback):
        return [*doc, f"alias {name} = {result} function({listed});"]
    return [*doc, f"{result} {name}({listed});"]


def d(items):
    """All of the headers, as a module of D."""
    callbacks = {item.name for item in items if isinstance(item, Callback)}
    head = ["// SPDX-License-Identifier: MIT",
            "// Written by scripts/declarations.py from the headers in include/; change those instead.",
            "/// All functions of the library, with the names of C.", "module mimalloc.c;", "",
            "import core.stdc.config : c_long;", "import core.stdc.stddef : wchar_t;", "",
            "extern (C) nothrow @nogc @system:"]
    return head + sum((["", *d_item(item, callbacks)] for item in items), [])


# -- Go --

def go(items):
    """The options that have an effect, by their newest names; cgo reads all else from the headers."""
    options, = (item.values for item in items if isinstance(item, Enum) and item.name == "mi_option_t")
    listed = [("Option" + name.removeprefix("mi_option_").title().replace("_", ""), number, doc)
              for name, number, doc in options if isinstance(number, int) and name.startswith("mi_") and not doc.startswith("no effect")]
    names, numbers = (max(len(str(option[column])) for option in listed) for column in (0, 1))
    body = [f"\t{name:{names}} Option = {number:<{numbers}} // {doc}" for name, number, doc in listed]
    return ["// SPDX-License-Identifier: MIT", "", "// Code generated by scripts/declarations.py from include/mimalloc.h. DO NOT EDIT.", "",
            "package mimalloc", "", "// The options, with the numbers of mi_option_t.", "const (", *body, ")"]


# -- Files --

def read(name):
    return (ROOT / "include" / name).read_text()


def everything(read=read):
    """The declarations of all headers."""
    return sum((parse(read(name)) for name in HEADERS), [])


def written(items):
    """Text of each file that this script writes, by its path below the repository."""
    files = {f"bindings/rust/libmimalloc-sys/src/{name}": lines for name, lines in rust_files(items).items()}
    files["bindings/d/source/mimalloc/c.d"] = d(items)
    files["bindings/go/options.go"] = go(items)
    return {path: "\n".join(lines) + "\n" for path, lines in files.items()}


def main():
    for path, text in written(everything()).items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
