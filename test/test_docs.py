"""The reference is complete, and the guide lists every option. If this fails, a user finds a function without a word
about it. `make docs` refuses to build such a reference: each kind of mistake is tried. test_site.py is about the rest."""
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

import pytest

import conftest

pytestmark = pytest.mark.slow
SOURCES = ["docs/Doxyfile", "docs/reference.dox", "docs/site/*", "include/*.h"]

# kind of mistake: (file, what is in it, what is put there instead, what is said about it)
MISTAKES = {
    "function": ("include/mimalloc.h", r"(/// .*\n)+(?=mi_decl_export void mi_free\()", "", "mi_free(void *p) (func"),
    "parameter": ("include/mimalloc.h", r"/// @param heartbeat .*\n", "", "parameter 'heartbeat'"),
    "result": ("include/mimalloc.h", r"/// @return as MI_MALLOC_VERSION\n", "", "return type of member mi_version"),
    "other-parameter": ("include/mimalloc.h", r"@param heartbeat", "@param pulse", "'pulse' of command @param"),
    "macro": ("include/mimalloc.h", r"/// `mi_malloc\(\)` of one element.\n", "", "mi_malloc_tp(tp) (macro"),
    "field": ("include/mimalloc-stats.h", r"/\*\*< bytes given back \*/", "", "Member purged (variable)"),
    "reference": ("include/mimalloc.h", r"`mi_heap_visit_blocks\(\)`", "@ref nowhere", "reference to 'nowhere'"),
    "link": ("docs/reference.dox", r"modules.html", "nowhere.html", "index.html: broken link: nowhere.html"),
    "anchor": ("docs/reference.dox", r"#details", "#nowhere", "index.html: broken link: mimalloc_8h.html#nowhere"),
}


DEFAULTS = dict(re.findall(r"^#define (MI_DEFAULT_\w+) (\S+)", (conftest.ROOT / "src/base/defaults.h").read_text(), re.M))
DEFAULTS["MI_SHOW_ERRORS"] = "0"  # in a release build
OPTIONS = {name: DEFAULTS.get(value, value) for name, value in
           re.findall(r"^X\((\w+), ([\w-]+)", (conftest.ROOT / "src/core/common/options.def").read_text(), re.M)}


def build(root, output):
    if not shutil.which("doxygen"):
        pytest.skip("doxygen is not installed")
    return subprocess.run([sys.executable, str(conftest.ROOT / "scripts" / "docs.py"), "--root", str(root),
                           "--output", str(output)], capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    """The reference of this tree, built without a complaint."""
    output = tmp_path_factory.mktemp("docs")
    result = build(conftest.ROOT, output)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    return output


def test_every_public_name_is_documented(docs):
    """Doxygen complains about what it sees; this is about what it was not shown."""
    tags = xml.etree.ElementTree.parse(docs / "mimalloc.tag")
    documented = {name.text for name in tags.iterfind(".//name")}
    symbols = (conftest.ROOT / "test" / "interop" / "symbols.txt").read_text().splitlines()
    public = [name for name in symbols if name.startswith("mi_")] + [f"mi_option_{name}" for name in OPTIONS]
    assert len(public) > 200
    assert [name for name in public if name not in documented] == []


def test_guide_lists_every_option():
    """With its default, where that is a plain number."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\S+) \|", (conftest.ROOT / "docs" / "guide.md").read_text(), re.M)
    listed = dict(rows)
    assert sorted(listed) == sorted(name for name in OPTIONS if not name.startswith("deprecated_"))
    plain = {name: value for name, value in listed.items() if not value.endswith("G")}
    assert plain == {name: OPTIONS[name] for name in plain}


@pytest.mark.parametrize("kind", MISTAKES)
def test_docs_refuses(kind, tmp_path):
    for pattern in SOURCES:
        for source in conftest.ROOT.glob(pattern):
            copy = tmp_path / source.relative_to(conftest.ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    name, old, new, message = MISTAKES[kind]
    path = tmp_path / name
    text, count = re.subn(old, new, path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    result = build(tmp_path, tmp_path / "build")
    assert result.returncode == 1 and message in result.stderr, result.stderr
