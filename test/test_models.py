"""The protocols without locks (test/models) hold in all interleavings, each fault that is put into them is found, and
the models still say what the C code does. If this fails, threads may corrupt memory, lose blocks or wait for ever.

Here only what two forced switches of threads can reach is explored; `make long WHAT=models` explores more."""
import os
import re
import shutil
import subprocess

import pytest

import conftest

CRATE = conftest.ROOT / "test" / "models"
SOURCES = {path.name: path.read_text() for path in sorted((CRATE / "src").glob("*.rs"))}
TESTS = [f"{name[:-3]}::{test}" for name, text in SOURCES.items()
         for test in re.findall(r"^    (\w+):\s+(?:holds|holds_within|catches)\(", text, re.M)]
PREEMPTIONS = 2


# -- the models run --

def cargo(*arguments):
    environment = {**os.environ, "CARGO_TARGET_DIR": str(conftest.ROOT / "build" / "models"), "RUST_BACKTRACE": "0",
                   "LOOM_MAX_PREEMPTIONS": str(PREEMPTIONS)}
    command = ["cargo", *arguments[:1], "--locked", "--manifest-path", str(CRATE / "Cargo.toml"), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=3600)


@pytest.fixture(scope="module")
def results(figure):
    """What cargo says about each test: its result, and its output."""
    if not shutil.which("cargo"):
        pytest.skip("cargo is not installed")
    fetched = cargo("fetch")
    if fetched.returncode != 0 and "needs to be updated" not in fetched.stderr:
        pytest.skip(f"the crates cannot be had: {' '.join(fetched.stderr.split('note:')[0].split())[:200]}")
    built = cargo("test", "--release", "--no-run")
    assert built.returncode == 0, built.stderr
    run = cargo("test", "--release", "--", "--show-output")
    result = dict(re.findall(r"^test (\S+) \.\.\. (\w+)$", run.stdout, re.M))
    output = dict(re.findall(r"^---- (\S+) stdout ----\n(.*?)\n\n(?=----|successes:|failures:)", run.stdout,
                             re.M | re.S))
    assert result, run.stdout + run.stderr
    explored = sum(int(n) for n in re.findall(r"^explored (\d+)$", run.stdout, re.M))
    faults = sum("_fault_" in test for test in result)
    figure(f"models: {len(result) - faults} scenarios hold in {explored:,} executions (at most {PREEMPTIONS} forced "
           f"switches each), {faults} faults are found")
    return result, output


@pytest.mark.slow
@pytest.mark.parametrize("name", TESTS)
def test_model(results, name):
    result, output = results
    assert result.get(name) == "ok", output.get(name, "it did not run")


@pytest.mark.slow
def test_every_model_is_reported(results):
    assert sorted(results[0]) == sorted(TESTS)


# -- the models are those of the C code --

MIRROR = re.compile(r"^\s*//@ (\S+) (\w+) (mi_atomic_(\w+?)_(relaxed|acquire|release|acq_rel)) (\w+)"
                    r"( left out: \S.*)?$")
KIND = {"cas_weak": "cas", "cas_strong": "cas"}
ORDER = {"relaxed": "Relaxed", "acquire": "Acquire", "release": "Release", "acq_rel": "AcqRel"}


def arguments(text, start):
    """The arguments of a call whose parenthesis opens before `start`."""
    found, depth, at = [""], 0, start
    while depth >= 0 and at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and depth == 0:
            found.append("")
        elif depth >= 0:
            found[-1] += text[at]
        at += 1
    return [argument.strip() for argument in found]


def accesses(code, function):
    """The atomic accesses of a C function or macro: operation, words of what it acts on. None: no such.
    A fence for the compiler is none."""
    body = (re.search(rf"^\w[^\n;]*\b{function}\([^;{{}}]*\)[^;{{}}]*{{\n.*?^}}", code, re.M | re.S)
            or re.search(rf"^#define {function}\(.*?[^\\]\n", code, re.M | re.S))
    if not body:
        return None
    return {(call[1], tuple(re.findall(r"\w+", arguments(body[0], call.end())[0])))
            for call in re.finditer(r"\b(mi_atomic_(?!signal_fence)\w+)\(", body[0])}


def modelled(text, at):
    """The access after a comment that ends at `at`, in a model: its kind and its order."""
    call = re.compile(r"\.(load|store|swap|add|sub|or|and|cas)\(").search(text, at)
    if not call or text.count("\n", at, call.start()) > 2:
        return None
    order = arguments(text, call.end())[-1]
    if order not in ORDER.values():  # a variable: what it is without a fault
        named = re.findall(rf"let {order} = (?:self\.)?order\(.*, (\w+)\);", text[:at])
        order = named[-1] if named else order
    return call[1], order


def drift(models, read):
    """What the models say about the C code that is not so; `read` returns a C file."""
    found, mirrored = [], {}
    for name, text in models.items():
        at = 0
        for line in text.splitlines(keepends=True):
            at += len(line)
            if "//@" not in line or line.startswith("//!"): continue
            mirror = MIRROR.match(line.rstrip("\n"))
            if not mirror:
                found.append(f"{name}: not understood: {line.strip()}")
                continue
            path, function, operation, kind, order, field, left_out = mirror.groups()
            mirrored.setdefault((path, function), []).append((operation, field))
            expected = KIND.get(kind, kind), ORDER[order]
            if not left_out and modelled(text, at) != expected:
                found.append(f"{name}: the model has {modelled(text, at)} for {operation} of {function}")
    for (path, function), expected in mirrored.items():
        actual = accesses(read(path), function)
        if actual is None:
            found.append(f"{path} has no function {function}")
            continue
        found += [f"{path}: {function} has no {operation} of {field}" for operation, field in expected
                  if not any(operation == o and field in words for o, words in actual)]
        found += [f"{path}: {function} has {o} of {'.'.join(words)}, which no model has" for o, words in sorted(actual)
                  if not any(operation == o and field in words for operation, field in expected)]
    return found


def read(path):
    return (conftest.ROOT / path).read_text()


def test_models_agree_with_the_code():
    assert sum(text.count("//@ src/") for text in SOURCES.values()) > 80
    assert drift(SOURCES, read) == []


# file, what is in it, what is put there instead, what is said about it
MISTAKES = {
    "weaker": ("src/core/pages/remote.c", "mi_atomic_cas_weak_acquire(&page->thread_free, &word, word & MI_REMOTE_BITS)",
               "mi_atomic_cas_weak_relaxed(&page->thread_free, &word, word & MI_REMOTE_BITS)",
               "mi_remote_take has no mi_atomic_cas_weak_acquire of thread_free"),
    "more": ("src/core/pages/inside.h", "if (mi_unlikely(heap != MI_HEAP_FIRST)) ",
             "mi_atomic_store_relaxed(&heap->numa_wish, 0);\n  if (mi_unlikely(heap != MI_HEAP_FIRST)) ",
             "mi_inside_leave has mi_atomic_store_relaxed of heap.numa_wish, which no model has"),
    "renamed": ("src/core/process/init.c", "mi_process_setup(void)", "mi_process_start(void)",
                "has no function mi_process_setup"),
    "macro": ("src/core/arenas/arena.h", "mi_atomic_load_acquire(&arena->next)", "mi_atomic_load_relaxed(&arena->next)",
              "MI_FOR_EACH_ARENA has no mi_atomic_load_acquire of next"),
    "model": ("book.rs", "let walk = order(self.fault == Fault::WalkRelaxed, Acquire);",
              "let walk = order(self.fault == Fault::WalkRelaxed, Relaxed);",
              "the model has ('load', 'Relaxed') for mi_atomic_load_acquire of mi_book_next"),
    "unreadable": ("once.rs", "//@ src/core/process/init.c mi_process_setup", "//@ mi_process_setup", "not understood"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_difference_is_noticed(mistake):
    path, old, new, said = MISTAKES[mistake]
    change = lambda text: text.replace(old, new)
    assert old in (SOURCES[path] if path in SOURCES else read(path))
    models = {name: change(text) if name == path else text for name, text in SOURCES.items()}
    found = drift(models, lambda name: change(read(name)) if name == path else read(name))
    assert any(said in line for line in found), found
