"""The documents name files that exist, and every room is on the path."""

import copy
import importlib.util
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree.ElementTree import TreeBuilder

import pytest
from pyarrow import parquet

from csrr_paper.document import draw_picture, make_overview
from csrr_paper.page import render_html, render_markdown
from csrr_paper.printed import DATA, PROTOCOLS
from csrr_paper.summary import FIGURE_WORDS
from csrr_paper.summary_types import Summary
from csrr_paper.systems import SYSTEMS
from csrr_paper.today import PRINTED_ELSEWHERE, TODAY, say_places

ROOT = Path(__file__).parents[1]
NAMED = set(re.findall(r"`(src/csrr(?:_paper)?/[\w/]+\.py)`", (ROOT / "docs" / "path.md").read_text()))


def test_the_path_names_files_that_exist():
    assert NAMED
    assert [name for name in sorted(NAMED) if not (ROOT / name).exists()] == []


def test_every_room_is_on_the_path():
    source = ROOT / "src" / "csrr"
    rooms = {path.parent.name for path in source.glob("*/__init__.py")} - {"interop"}
    assert {Path(name).parent.name for name in NAMED} >= rooms
    assert "interop" in (ROOT / "docs" / "path.md").read_text()
    assert len((ROOT / "docs" / "path.md").read_text().split()) < 800


@pytest.fixture(scope="module")
def maker():
    """docs/from_results.py, as a module."""
    spec = importlib.util.spec_from_file_location("from_results", ROOT / "docs" / "from_results.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_blocks_are_made_of_the_results(maker):
    for document in maker.BLOCKS:
        text = (ROOT / document).read_text()
        assert maker.fill_blocks(document, text) == text, document
    pages = ("docs/reproduction.md", "docs/benchmarks.md", "docs/recipes/noisy-logs.md", "README.md")
    reproduction, benchmarks, noise, readme = ((ROOT / name).read_text() for name in pages)
    assert "| PopRank | 0." in reproduction
    assert "| CiteULike-a, 5-core" in benchmarks
    assert "| Random clicks | .4" in noise
    assert "| Gowalla, @20 | " in readme
    assert len(readme.split()) < 1050


def test_bold_in_the_readme_is_ahead_beyond_the_interval(maker):
    def row(ours, theirs, error):
        run = {"found": {"CSRR": {"ndcg@20": ours}, "EASE": {"ndcg@20": theirs}, "ItemKNN": {"ndcg@20": 0.1}}}
        ahead = {} if error is None else {"ahead": {"EASE": {"ndcg@20": [ours - theirs, error]}}}
        return maker.front.make_table(maker.SUMMARY.today, {"accuracy/gowalla/0": run | ahead}).splitlines()[-1]

    assert "| **.2200** | EASE .2000 | +10.0 ± 4.9 % |" in row(0.22, 0.2, 0.005)
    assert "| .2200 | EASE .2000 | +10.0 ± 14.7 % |" in row(0.22, 0.2, 0.015)
    assert "| .1800 | **EASE .2000** | -10.0 ± 4.9 % |" in row(0.18, 0.2, 0.005)
    assert "| .2200 | EASE .2000 | +10.0 % |" in row(0.22, 0.2, None)


@pytest.fixture(scope="module")
def summary(maker):
    return maker.SUMMARY


@pytest.fixture(scope="module")
def page(summary):
    """The page that is built of the results, as a tree of elements."""
    return read_page(render_html(summary))


class PageReader(HTMLParser):
    """Builds a tree; every element that is opened must be closed, but for those that HTML has no end of."""

    def __init__(self):
        super().__init__()
        self.builder, self.open = TreeBuilder(), []

    def handle_starttag(self, tag, attrs):
        self.builder.start(tag, {name: value or "" for name, value in attrs})
        if tag in ("meta", "link", "input"):
            self.builder.end(tag)
        else:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.builder.start(tag, dict(attrs))
        self.builder.end(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.builder.end(tag)

    def handle_data(self, data):
        self.builder.data(data)


def read_page(text):
    reader = PageReader()
    reader.feed(text)
    assert reader.open == []
    return reader.builder.close()


def words(element):
    return " ".join("".join(element.itertext()).split())


def rows_under(page, caption):
    """Return the rows of the one table whose caption begins so: the name, then the texts of each cell."""
    (table,) = [each for each in page.iter("table") if words(each.find("caption")).startswith(caption)]
    found = [row for row in table.iter("tr") if row.find("th") is not None and row.find("th").get("scope") == "row"]
    return [(words(row.find("th")), [list(cell.itertext()) for cell in row.iter("td")]) for row in found]


def assert_holds(whole, part, where):
    """Assert that plain values hold all that others do, but for what is null there."""
    if isinstance(part, dict):
        for name, each in part.items():
            if each is not None:
                assert_holds(whole[name], each, f"{where}, {name}")
    elif isinstance(part, list):
        assert len(whole) == len(part), where
        for place, each in enumerate(part):
            assert_holds(whole[place], each, f"{where} {place}")
    else:
        assert whole == part, where


def test_the_summary_is_read_whole(maker, summary):
    plain = json.loads((ROOT / "docs" / "results" / "summary.json").read_text())
    assert_holds(maker.FOUND.to_json(), plain, "summary")
    assert Summary.from_json(summary.to_json()) == summary


def test_the_words_are_those_of_the_code_and_the_numbers_those_of_the_file(maker, summary):
    for name, figure in maker.FOUND.figures.items():
        title, caption = FIGURE_WORDS.get(name, (summary.figures[name].title, ""))
        assert summary.figures[name].title == title
        assert summary.figures[name].caption.startswith(caption)
        found = [series.points for panel in figure.panels for series in panel.series]
        assert found == [series.points for panel in summary.figures[name].panels for series in panel.series]
    for table, own in zip(maker.FOUND.comparison, summary.comparison, strict=True):
        assert replace(table, rows=[]) == replace(own, rows=[])
        for row, shown in zip(table.rows, own.rows, strict=True):
            about = SYSTEMS[row.system].about if row.system in SYSTEMS else row.about
            assert shown == replace(row, about=about)
    assert summary.protocols == {name: PROTOCOLS[name].about for name in maker.FOUND.protocols}


def test_the_markdown_in_the_docs_is_made_of_the_results(summary):
    assert (ROOT / "docs" / "reproduction.md").read_text() == render_markdown(summary, "reproduction.svg")
    assert (ROOT / "docs" / "reproduction.svg").read_text() == draw_picture(make_overview(summary))


def test_the_table_of_today_is_made_of_the_results(page):
    results = ROOT / "docs" / "results"
    found, plain = (json.loads((results / name).read_text()) for name in ("defaults.json", "today.json"))
    shown = dict(rows_under(page, TODAY))
    assert list(shown) == [row["system"] for row in plain["rows"]]
    for system, cells in shown.items():
        for column, texts in zip(plain["columns"], cells, strict=True):
            data, measure = column["key"].split("/")
            runs = [each["found"] for key, each in found.items() if key.startswith(f"accuracy/{data}/")]
            values = [run[system.removesuffix("()")].get(measure) for run in runs if system.removesuffix("()") in run]
            values = [each for each in values if each is not None]
            fewer = [f"{len(values)} split{'s' if len(values) > 1 else ''}"] if 0 < len(values) < len(runs) else []
            assert texts == [f"{sum(values) / len(values):.4f}" if values else "–", *fewer], (system, column["key"])


def test_every_printed_number_of_today_has_its_source(page):
    plain = json.loads((ROOT / "docs" / "results" / "today.json").read_text())
    shown = dict(rows_under(page, PRINTED_ELSEWHERE))
    assert len(shown) == len(plain["published"])
    for row in plain["published"]:
        assert row["source"].startswith("https://")
        *values, (source,) = shown[row["system"]]
        assert f"https://{source}" == row["source"]
        assert sorted(text for (text,) in values if text != "–") == sorted(
            f"{each:.4f}" for each in row["values"].values()
        )


def test_the_sentence_on_today_follows_the_results(maker):
    plain = json.loads((ROOT / "docs" / "results" / "today.json").read_text())
    found = copy.deepcopy(maker.DEFAULTS)
    before = say_places(maker.today.make_today(plain, found))
    for key, each in found.items():
        if key.startswith("accuracy/"):
            each["found"]["CSRR"] = dict.fromkeys(each["found"]["CSRR"], 1.0)
    assert (
        before
        != say_places(maker.today.make_today(plain, found))
        == f"CSRR() is first in all of {len(plain['columns'])} columns."
    )


@pytest.mark.parametrize("part", ["comparison", "ablation"])
def test_every_number_of_the_page_s_tables_is_that_of_the_results(summary, page, part):
    before = "Ablation, " if part == "ablation" else ""
    tables = getattr(summary, part)
    assert tables
    for table in tables:
        name = f"{table.label}, protocol “{table.protocol}”"
        shown = dict(rows_under(page, f"{before}{name}: measured means"))
        assert sorted(shown) == sorted(row.system for row in table.rows)
        for row in table.rows:
            cells = [*(row.cells[column] for column in table.columns), *row.extra.values()]
            for texts, cell in zip(shown[row.system], cells, strict=True):
                assert texts[:2] == [f"{cell.mean:.4f}", f"±{(cell.high - cell.low) / 2:.4f}"]
                relative = [] if cell.printed is None else [f"{100 * (cell.mean / cell.printed - 1):.1f}".lstrip("-")]
                assert texts[2:3] == [f"{each:.4f}" for each in [cell.printed] if each is not None]
                assert [each.lstrip("+−").removesuffix(" %") for each in texts[3:]] == relative


def test_every_paired_test_is_on_the_page(summary, page):
    for table in (*summary.comparison, *summary.ablation):
        caption = f"Paired tests, {table.label}, protocol “{table.protocol}”"
        bodies = [each.find("tbody") for each in page.iter("table") if words(each.find("caption")) == caption]
        shown = {tuple(words(cell) for cell in row)[:3] for body in bodies for row in body.iter("tr")}
        assert table.tests
        for test in table.tests:
            difference = f"{test.difference:+.4f}".replace("-", "−")
            assert (f"{test.a} vs {test.b}", test.metric, difference) in shown


def test_every_figure_has_every_point_and_what_looks_alike_is_drawn_once(summary, page):
    figures = {words(each.find("div/h3")): each for each in page.iter("figure") if each.find("div/h3") is not None}
    values = [words(each) for figure in figures.values() for each in figure.iter("table")]
    n_drawn = 0
    for figure in summary.figures.values():
        for panel in figure.panels:
            means = {f"{point.mean:.4f}" for series in panel.series for point in series.points}
            assert any(all(each in table for each in means) for table in values), (figure.title, panel.title)
        shown = figures[figure.title].iter("svg") if figure.title in figures else ()
        charts = [each for each in shown if each.get("class") == "chart"]
        n_drawn += len(charts)
        for chart in charts:
            told = [each.find("title").text for each in chart.iter("g") if each.get("class") == "point"]
            assert any(len(told) == sum(len(each.points) for each in panel.series) for panel in figure.panels)
    assert len(figures) == len(summary.figures) - ("kept" in summary.figures)
    assert 0 < n_drawn < sum(len(figure.panels) for figure in summary.figures.values()) / 2


def test_every_link_of_the_page_leads_somewhere_in_it_or_to_a_source(summary, page):
    ids = [each.get("id") for each in page.iter() if each.get("id")]
    links = [each.get("href") for each in page.iter("a")]
    assert len(ids) == len(set(ids))
    assert len(links) > 10
    assert [link for link in links if link[:1] == "#" and link[1:] not in ids] == []
    assert [link for link in links if link[:1] != "#"] == [row.source for row in summary.today.published]
    assert [each.get("src") for each in page.iter() if each.get("src")] == []
    assert [each.get("href") for each in page.iter("link")] == ["data:,"]


def test_every_claim_is_on_the_page_with_its_verdict(summary, page):
    found = [each for each in page.iter("details") if each.get("class", "").startswith("claim ")]
    for claim, each in zip(summary.claims, found, strict=True):
        assert each.get("class") == f"claim {claim.verdict}"
        assert words(each.find("summary")).endswith(" ".join(claim.claim.split()))
        assert words(each.find("p")).split() == claim.evidence.split()


def test_the_page_begins_with_five_sentences_and_one_figure(summary, page):
    (header,) = page.iter("header")
    assert [words(each).split() for each in header.find("ul").iter("li")] == [
        each.split() for each in summary.headlines
    ]
    assert len(summary.headlines) == 5
    assert len(list(header.iter("figure"))) == 1


def test_the_markdown_is_short(summary):
    assert len(re.findall(r"\w[^\s|]*", render_markdown(summary))) < 8000


def test_the_results_have_every_row_that_the_summary_speaks_of(summary):
    rows = parquet.read_table(ROOT / "docs" / "results" / "rows.parquet").to_pylist()
    for table in summary.comparison:
        for row in table.rows:
            at_least = DATA[table.data].at_least[table.protocol]
            found = [
                each["recall@5"]
                for each in rows
                if (each["data"], each["at_least"], each["system"]) == (table.data, at_least, row.system)
            ]
            assert len(found) >= 1
            assert sum(found) / len(found) == pytest.approx(row.cells["R@5"].mean)
