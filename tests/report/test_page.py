"""The page needs nothing else, says what was found, and is whole in a browser."""

import re
import shutil

import pytest

import csrr
from csrr.report.findings import count_hits
from tests.chart_faults import CHART_FAULTS
from tests.test_docs import read_page, words

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def look(tmp_path_factory):
    log = csrr.synthetic(300, 120, rank=5, events_per_user=20, seed=2).log
    titles = {item: f"<b>Item & {item}</b>\x1b[31m\u202egnitset" for item in range(120)}
    named = csrr.Log.from_table({"user": log.user_rows, "item": log.item_rows}, titles=titles)
    return csrr.start(named, 2, tmp_path_factory.mktemp("look"))


@pytest.fixture(scope="module")
def text(look):
    return (look.folder / "page.html").read_text()


def test_nothing_leads_outside(text):
    assert re.findall(r"https?://[^\s\"'<]+", text.replace("http://www.w3.org/2000/svg", "")) == []
    assert "<script" not in text
    assert "src=" not in text


def test_elements_close_and_links_lead_somewhere(text):
    page = read_page(text.replace("<br>", "<br/>"))
    ids = {each.get("id") for each in page.iter() if each.get("id")}
    links = [each.get("href") for each in page.iter("a")]
    assert len(links) == 9
    assert {link.removeprefix("#") for link in links} <= ids


def test_titles_are_text_and_no_markup(text):
    assert "<b>Item" not in text
    assert "&lt;b&gt;Item &amp;amp; " not in text
    assert "&lt;b&gt;Item &amp; " in text


def test_controls_and_marks_that_turn_text_are_spelled_out(look, text):
    assert not {"\x1b", "\u202e"} & set(text + (look.folder / "summary.json").read_text())
    assert "\\x1b[31m\\u202egnitset" in text


def test_the_page_says_what_was_found(look, text):
    said = words(read_page(text.replace("<br>", "<br/>")))
    assert look.test.how in said
    for each in look.done:
        assert f"{each.with_history['ndcg@10']:.4f}" in said
    for row in look.comparison.rows:
        assert f"{abs(row.paired.difference):.4f}" in said
    for each in look.examples:
        assert f"User {each.user}" in said
    assert look.costs.recommendation in said
    assert "csrr recommend" in said
    assert text.count('class="chart"') == 7
    assert [f"{each.found} of 100 people find something they then chose" in said for each in count_hits(look)] == [
        True
    ] * 2
    assert text.index('class="served"') < text.index("NDCG@10")
    assert "Not done" not in said


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open the page with")
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_in_a_browser_nothing_is_cut_off_or_asked_for(look, width, scheme):
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        asked, errors = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.goto((look.folder / "page.html").as_uri())
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
        assert errors == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CHART_FAULTS) == []
        browser.close()
