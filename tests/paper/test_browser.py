"""The page in a real browser: laptop and phone, light and dark."""

import copy
import re
import shutil

import pytest

from csrr_paper.page import write_page
from csrr_paper.summary_types import Summary
from tests.chart_faults import CHART_FAULTS
from tests.paper.sample import full_summary, partial_summary

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("there is no chromium to open the page with", allow_module_level=True)

ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
]
LAPTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}

CLIPPED = """() => [...document.querySelectorAll('th, td, .card, pre, h1, h2, h3, h4, nav a, .legend li')]
    .filter(each => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline')
    .map(each => each.textContent)"""


FAINT = """() => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = colour => {
        const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
        const [r, g, b] = numbers(colour).map(v => linear(v / 255));
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const ground = each => {
        for (let at = each; at; at = at.parentElement) {
            const colour = getComputedStyle(at).backgroundColor;
            if (numbers(colour)[3] !== 0) return colour;
        }
    };
    const own = each => [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    return [...document.querySelectorAll('body *:not(title)')].filter(own).filter(each => {
        const style = getComputedStyle(each);
        const [a, b] = [light(each.tagName === 'text' ? style.fill : style.color), light(ground(each))];
        return (Math.max(a, b) + .05) / (Math.min(a, b) + .05) < 4.5;
    }).map(each => each.className + ': ' + each.textContent);
}"""


def long_summary():
    """Return a summary with long names and large and tiny numbers."""
    summary = copy.deepcopy(full_summary())
    for part in summary["comparison"]:
        part["label"] = "A data set with a name of many words and-one-that-has-no-place-to-break-it-at-all"
        for row in part["rows"]:
            row["system"] = f"{row['system']} withaverylongnamethatcannotbebroken"
    scales = {"cost": 1e-7, "step": 12345.6, "strengths": 3e9}
    for name, figure in summary["figures"].items():
        for panel in figure["panels"]:
            panel["x"] = panel["y"] = "an axis with a label that is much longer than the axis is wide"
            for point in (point for series in panel["series"] for point in series["points"]):
                point |= {end: point[end] * scales[name] for end in ("mean", "low", "high")}
                point["x"] *= 1.0 if panel["log"] else 1e5
    return summary


SUMMARIES = {"full": full_summary, "partial": partial_summary, "long": long_summary}


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {name: write_page(Summary.from_json(make()), folder / name)[0] for name, make in SUMMARIES.items()}


@pytest.fixture
def opened(browser, files):
    """Give a function that opens a page and returns it with what it said and asked for."""
    pages = []

    def open_page(name="full", size=LAPTOP, scheme="light", unfolded=True):
        page = browser.new_page(viewport=size, color_scheme=scheme, reduced_motion="reduce")
        pages.append(page)
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(files[name].as_uri())
        if unfolded:
            page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
            page.evaluate("for (const each of document.querySelectorAll('input')) each.checked = true")
        return page, said, asked

    yield open_page
    for page in pages:
        page.close()


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize(
    ("name", "scheme"), [("full", "light"), ("full", "dark"), ("partial", "light"), ("long", "light")]
)
def test_the_page_is_sound(opened, files, name, size, scheme):
    page, said, asked = opened(name, size, scheme)
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [files[name].as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(CHART_FAULTS) == []
    assert page.evaluate(FAINT) == []


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_link_leads_somewhere_and_every_id_is_one_of_its_kind(opened, name):
    page, *_ = opened(name)
    links = page.eval_on_selector_all("a", "all => all.map(each => each.getAttribute('href'))")
    ids = page.eval_on_selector_all("[id]", "all => all.map(each => each.id)")
    within = [link for link in links if link[:1] == "#"]
    assert within
    assert set(links) - set(within) <= {"https://example.org/LightGCN"}
    assert {link[1:] for link in within} <= set(ids)
    assert len(ids) == len(set(ids))


def test_a_link_of_the_contents_brings_its_section_into_view(opened):
    page, *_ = opened()
    page.click("nav a[href='#figures']")
    assert 0 <= page.locator("#figures").bounding_box()["y"] < 100


def test_on_a_phone_the_table_scrolls_and_its_head_and_first_column_stay(opened):
    page, *_ = opened(size=PHONE)
    box = page.locator("#comparison-1 .box").first
    head, first = box.locator("thead th").nth(0), box.locator("tbody th[scope=row]").nth(3)
    last = box.locator("thead th").last
    before = head.bounding_box(), first.bounding_box(), last.bounding_box()
    box.evaluate("each => { each.scrollLeft = 10000; }")
    after = head.bounding_box(), first.bounding_box(), last.bounding_box()
    assert before[0] == after[0]
    assert before[1] == after[1]
    assert before[2]["x"] > PHONE["width"] > after[2]["x"] + after[2]["width"]
    box.evaluate("each => { each.style.maxHeight = '200px'; each.scrollTop = 150; }")
    assert head.bounding_box() == before[0]
    assert last.bounding_box() == after[2]
    assert first.bounding_box()["y"] == before[1]["y"] - 150


def test_a_cell_is_one_number_until_the_keyboard_asks_for_more(opened):
    page, *_ = opened(unfolded=False)
    table = page.locator("#comparison-1")
    cell, box = table.locator("td").first, table.locator("input")
    assert re.fullmatch(r"0\.\d{4}", cell.inner_text())
    box.focus()
    page.keyboard.press("Space")
    assert re.fullmatch(r"0\.\d{4}\s+±0\.\d{4}\s+0\.\d{4}\s+[+−]\d+\.\d %", cell.inner_text())
    assert re.fullmatch(r"0\.\d{4}", page.locator("#comparison-2 td").first.inner_text()), "each table on its own"
    page.keyboard.press("Space")
    assert re.fullmatch(r"0\.\d{4}", cell.inner_text())


def test_tests_evidence_and_other_protocols_are_folded_until_asked_for(opened):
    page, *_ = opened(unfolded=False)
    assert page.locator("table.pairs:visible").count() == 0
    assert page.locator("#comparison > details table:visible").count() == 0
    claim = page.locator(".claim").first
    claim.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "9 of 10 columns" in claim.inner_text()
    heights = [
        page.evaluate(f"document.querySelector('#{each}').offsetTop") for each in ("claims", "figures", "comparison")
    ]
    assert heights == sorted(heights)


def test_dark_is_dark(opened):
    grounds = [
        opened("partial", scheme=scheme)[0].evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    ]
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 23, 27)"]


def test_a_point_tells_its_value(opened):
    page, *_ = opened("partial")
    point = page.locator("#figure-1 .point").first
    assert point.locator("title").text_content().startswith("CSRR-I, 0.5: 0.")


def test_nothing_is_cut_off_in_print(opened):
    page, *_ = opened(size={"width": 1032, "height": 400})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 1032
    assert (
        page.evaluate("[...document.querySelectorAll('.box')].filter(e => e.scrollHeight > e.clientHeight + 1).length")
        == 0
    )
