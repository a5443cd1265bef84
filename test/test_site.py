"""The site is whole: each Markdown file is a page that the navigation leads to, every link and picture is there, nothing is
loaded from elsewhere, and a phone shows all of it. If this fails, a reader finds a link to nothing, or text cut off."""
import re
import shutil
import subprocess
import sys

import pytest

import conftest

sys.path.insert(0, str(conftest.ROOT / "scripts"))
import docs  # noqa: E402
import tidy  # noqa: E402
import website  # noqa: E402

pytestmark = pytest.mark.slow
PAGES = [path for path in tidy.listed(str(conftest.ROOT)) if path.endswith(".md")]
WIDTHS = (1280, 400)

# What is written into a page, at its end, and what is said about it.
MISTAKES = {
    "README.md": [
        ("[there](docs/nowhere.md)", "docs/nowhere.md"),
        ("[there](docs/guide.md#nowhere)", "local id not found in doc 'docs/guide': 'nowhere'"),
        ('<a href="nowhere.html">there</a>', "index.html: broken link: nowhere.html"),
        ('<a href="docs/guide.html#nowhere">there</a>', "index.html: broken link: docs/guide.html#nowhere"),
        ('<img src="https://example.org/a.svg">', "index.html: loaded from another machine: https://example.org/a.svg"),
        ('<script src="//example.org/a.js"></script>', "index.html: loaded from another machine: //example.org/a.js"),
        ('<picture><source srcset="dark.svg"><img src="light.svg"></picture>', "index.html: broken link: dark.svg"),
    ],
    "docs/nobody.md": [("# A page that nobody finds", "nobody.md: WARNING: document isn't included in any toctree")],
    "docs/site/style.css": [
        ("a { background: url(nowhere.png); }", "style.css: broken link: nowhere.png"),
        ('@import "https://example.org/a.css";', "style.css: loaded from another machine: https://example.org/a.css"),
    ],
    "include/mimalloc.h": [("#define MI_NOBODY 1", "MI_NOBODY (macro definition) of file mimalloc.h is not documented")],
}

# Elements, described, that reach beyond the window, and that no frame of the page scrolls.
CUT_OFF = """
    const page = "article, .header, .contents";
    const scrolls = e => !e.matches(page) && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    return [...document.querySelectorAll("article *, .header *, .contents *")]
        .filter(e => e.getBoundingClientRect().right > innerWidth && !scrolls(e.parentElement))
        .map(e => e.tagName + " " + e.textContent.trim().slice(0, 60));
"""


def build(root, output):
    conftest.find("doxygen")
    if not website.SPHINX.exists():
        pytest.skip("Sphinx is not in build/sphinx (scripts/setup.sh sphinx)")
    return subprocess.run([sys.executable, str(conftest.ROOT / "scripts" / "website.py"), "--root", str(root),
                           "--output", str(output)], capture_output=True, text=True, timeout=240)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of this tree, built without a complaint."""
    output = tmp_path_factory.mktemp("site")
    result = build(conftest.ROOT, output)
    assert result.returncode == 0 and not result.stderr, result.stdout + result.stderr
    return output


def test_every_markdown_file_is_a_page_that_every_page_leads_to(site):
    assert len(PAGES) > 20
    pages = {site / (website.index(page) + ".html"): conftest.ROOT / page for page in PAGES}
    for path, source in pages.items():
        text = path.read_text()
        title = re.search(r"^# (.*)", source.read_text(), re.M)[1]
        assert re.search(rf"<h1>{title}<a", text), source
        navigation = text[text.index('<aside class="sidebar-drawer">'):text.index("</aside>")]
        linked = {(path.parent / link).resolve() if link != "#" else path for link in re.findall(r'href="([^"]+)"', navigation)}
        assert linked >= {*pages, site / "reference" / "index.html"}, source


def test_guide_leads_to_descriptions_of_functions(site):
    link, = set(re.findall(r'href="\.\./reference/(group__heaps\.html#\w+)"><code class="literal">mi_heap_destroy\(\)<', (site / "docs/guide.html").read_text()))
    page, anchor = link.split("#")
    assert anchor in docs.Page((site / "reference" / page).read_text()).anchors


def test_links_to_files_that_are_no_pages_are_text(tmp_path):
    (tmp_path / "LICENSE").touch()
    (tmp_path / "a.md").write_text("[licence](LICENSE), [start](b/README.md#x), [other](https://example.org), `f()`, `g()`\n")
    assert website.convert(tmp_path, "a.md", {"f": "reference/f.html#1"}) == (
        "licence, [start](b/index.md#x), [other](https://example.org), "
        '<a class="reference internal" href="reference/f.html#1"><code class="literal">f()</code></a>, `g()`\n')


def test_site_refuses_mistakes(tmp_path):
    """All of them in one copy of the sources; each is named."""
    for path in tidy.listed(str(conftest.ROOT)):
        if path.endswith((".md", ".svg")) or path.startswith(("docs/", "include/")):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(conftest.ROOT / path, tmp_path / path)
    for path, mistakes in MISTAKES.items():
        with open(tmp_path / path, "a") as file:
            file.writelines(f"\n{text}\n" for text, _ in mistakes)
    result = build(tmp_path, tmp_path / "build" / "site")
    assert result.returncode == 1
    missing = [message for mistakes in MISTAKES.values() for _, message in mistakes if message not in result.stderr]
    assert missing == [], result.stderr


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service
    conftest.find("chromium")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    # Nothing may come from a network.
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(conftest.find("chromedriver")), options=options)
    yield driver
    driver.quit()


def resize(browser, width):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})


def test_nothing_is_cut_off(site, browser):
    """Opened from disk, on a desk and on a phone; no script or file of a page fails."""
    pages = [website.index(page) for page in PAGES]
    pages += ["reference/index", "reference/modules", "reference/functions", "reference/group__options", "reference/group__arenas"]
    for width in WIDTHS:
        resize(browser, width)
        for page in pages:
            browser.get((site / f"{page}.html").as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width, (width, page)
            assert browser.execute_script(CUT_OFF) == [], (width, page)
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_are_as_light_as_the_page(scheme, site, browser):
    resize(browser, WIDTHS[0])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get((site / "docs/benchmarks.html").as_uri())
    pictures = browser.execute_script("return [...document.images].map(image => image.currentSrc)")
    assert len(pictures) > 10 and {picture.rsplit("-", 1)[1] for picture in pictures} == {f"{scheme}.svg"}
    missing = browser.execute_script("return [...document.images].filter(image => !image.naturalWidth).length")
    assert missing == 0
    red, *_ = map(int, re.findall(r"\d+", browser.execute_script("return getComputedStyle(document.body).color")))
    assert red < 80 if scheme == "light" else red > 180  # of the text


def test_search_finds_a_heading_from_disk(site, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.wait import WebDriverWait
    browser.get((site / "search.html").as_uri() + "?q=purge+thread")
    wanted = "ul.search a[href$='docs/guide.html#the-purge-thread']"
    assert WebDriverWait(browser, 20).until(lambda driver: driver.find_elements(By.CSS_SELECTOR, wanted))
