"""The documentation site builds without a warning, has every public name with every parameter, and works offline."""

import inspect
import json
import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import csrr
from csrr.registry import MODELS
from docs.make.reference import list_groups

pytest.importorskip("sphinx")

ROOT = Path(__file__).parents[1]
DOCUMENTS = list((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--builder", "html", "--fail-on-warning", "--keep-going", "--jobs", "2"]
    command = [
        sys.executable,
        "-m",
        "sphinx",
        *options,
        "--doctree-dir",
        str(folder / "cache"),
        "docs",
        str(folder / "site"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return folder / "site"


class Reader(HTMLParser):
    """Collects what a page points to, what it loads, and its ids."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids = [], [], set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids.add(found.get("id"))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if found.get("src") or (tag == "link" and found.get("rel") in ("stylesheet", "preload")):
            self.loads.append(found.get("src") or found["href"])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Reader(path) for path in site.rglob("*.html")}


def test_every_document_is_a_page(site):
    written = [path.relative_to(ROOT / "docs") for path in DOCUMENTS]
    assert len(written) >= 30
    assert [str(path) for path in written if not (site / path).with_suffix(".html").exists()] == []


def test_every_example_has_a_page_with_a_plot_a_script_and_a_notebook(site):
    names = [path.stem for path in (ROOT / "examples" / "gallery").glob("plot_*.py")]
    assert len(names) >= 8
    index = (site / "gallery" / "index.html").read_text("utf-8")
    for name in names:
        text = (site / "gallery" / f"{name}.html").read_text("utf-8")
        assert re.search(rf'<img [^>]*src="[^"]*sphx_glr_{name}_001\.svg"', text), name
        assert f"{name}.html" in index
        assert f"{name}_thumb.svg" in index
        for ending in (".py", ".ipynb"):
            (kept,) = (site / "_downloads").rglob(f"{name}{ending}")
            assert f"{kept.parent.name}/{name}{ending}" in text
        notebook = json.loads(kept.read_text("utf-8"))
        assert all(not cell.get("outputs") for cell in notebook["cells"])
    assert "<table>" in (site / "gallery" / "plot_first_model.html").read_text("utf-8")


def find_page(site, name):
    (found,) = [path for path in (site / "api").rglob("*.html") if path.stem == name]
    return found.read_text("utf-8")


@pytest.mark.parametrize("name", csrr.__all__)
def test_every_public_name_has_a_page_with_all_its_parameters(site, name):
    text = find_page(site, name)
    assert f'id="csrr.{name}"' in text or f'id="module-csrr.{name}"' in text
    value = getattr(csrr, name)
    if (inspect.isclass(value) and not issubclass(value, BaseException)) or inspect.isfunction(value):
        described = ",".join(re.findall(r"<dt><strong>(.*?)</strong>", text))
        assert set(inspect.signature(value).parameters) <= set(re.findall(r"\w+", described))


def test_a_parameter_has_its_type_its_default_and_its_meaning(site):
    text = " ".join(unescape(re.sub(r"<[^>]*>", " ", find_page(site, "CSRR"))).split())
    assert "loss {'I', 'II'}, default 'I' The paper's loss" in text
    assert "half_life float | str | timedelta | None, default None The age" in text


def test_no_link_within_the_site_leads_nowhere(site, pages):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = target.exists() and (
                not parts.fragment or target.suffix != ".html" or unquote(parts.fragment) in pages[target].ids
            )
            if not known:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages):
    elsewhere = {each for page in pages.values() for each in page.loads if urlsplit(each).netloc}
    assert elsewhere == set()


def test_the_index_has_every_name_once_and_models_and_errors_by_themselves():
    groups = list_groups()
    assert sorted(name for names in groups.values() for name in names) == sorted(csrr.__all__)
    assert {*MODELS} < {*groups["Models"]}
    assert all(name.endswith(("Error", "Warning")) for name in groups["Errors and warnings"])
    assert not [name for name in groups["What calls return"] if name.endswith(("Error", "Warning"))]


def test_formulas_are_drawn_by_the_browser_itself(site):
    text = (site / "math.html").read_text("utf-8")
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in text
    assert not re.search(r"\$|\\[a-z]+\{", re.sub(r"<(pre|code).*?</\1>", "", text, flags=re.DOTALL))


@pytest.fixture(scope="module")
def page():
    """A page of a browser, 1,280 px wide."""
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("evaluated on different users", "faq.html"),
        ("recommend_for", "api/"),
        ("cold start", "recipes/new-people.html"),
    ],
)
def test_search_finds_messages_parameters_and_words_of_the_field_without_a_server(site, page, asked, wanted):
    page.goto(f"{(site / 'search.html').as_uri()}?q={asked}")
    page.wait_for_selector("#search-results ul.search li a")
    found = page.eval_on_selector_all("#search-results ul.search li a", "all => all.map(each => each.href)")
    assert any(wanted in each for each in found), found


CUT = """() => [...document.querySelectorAll(".bd-article :is(pre, table, img, math)")]
    .filter(each => each.checkVisibility() && each.scrollWidth > each.clientWidth + 1)
    .filter(each => getComputedStyle(each).display != "inline").map(each => each.textContent.slice(0, 60))"""


def test_no_code_and_no_table_is_cut_on_a_screen_of_1280_pixels(site, page):
    cut = {}
    page = page.context.browser.new_page(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    for path in [(site / each.relative_to(ROOT / "docs")).with_suffix(".html") for each in sorted(DOCUMENTS)]:
        page.goto(path.as_uri(), wait_until="load")
        cut[path.name] = page.evaluate(CUT)
    assert len(cut) >= 30
    assert {name: found for name, found in cut.items() if found} == {}
