"""Plots: one well-formed SVG that needs nothing else, and its files."""

import re
import shutil
from dataclasses import dataclass, field
from xml.etree import ElementTree

import pytest

import csrr
from csrr import ParameterError

SVG = "{http://www.w3.org/2000/svg}"


def panel(title="Cost", names=("a", "b")):
    points = [{"x": x, "mean": x * x, "low": x * x - 0.5, "high": x * x + 0.5, "note": "5 < 6 & so"} for x in range(4)]
    series = [{"name": name, "points": points} for name in names]
    return {"title": title, "x": "ratio", "y": "cost", "series": series}


@dataclass
class Sample:
    title: str = "Costs & <ratios>"
    caption: str = "What it shows: x < y & more. " * 12
    panels: list = field(default_factory=lambda: [panel()])


def drawn(what):
    return ElementTree.fromstring(csrr.plot(what).svg)


def words(root):
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_it_tells_title_legend_axes_and_the_whole_caption():
    what = Sample()
    told = words(drawn(what))
    assert told[0] == what.title
    assert {"a", "b", "ratio", "cost"} <= set(told)
    caption = " ".join(told[told.index("ratio") + 2 :])
    assert caption.split() == what.caption.split()


def test_a_single_series_needs_no_legend():
    assert "only" not in words(drawn(Sample(panels=[panel(names=["only"])])))


def test_it_needs_nothing_else():
    svg = csrr.plot(Sample()).svg
    assert "var(" not in svg
    assert re.findall("https?://[^\"']*", svg) == ["http://www.w3.org/2000/svg"]
    assert re.search(r"color:#[0-9a-f]{6}", svg)
    root = ElementTree.fromstring(svg)
    ground = root.find(f"{SVG}rect")
    assert ground.attrib == {"width": root.get("width"), "height": root.get("height"), "fill": "#ffffff"}
    rules = root.find(f"{SVG}style").text.strip().splitlines()
    assert all(rule.startswith(".csrr-plot ") for rule in rules), "in a notebook, a rule of ours must not touch others"


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, 2), (3, 2), (4, 2), (7, 2)])
def test_panels_stand_beside_and_below_each_other_each_under_its_title(n, columns):
    root = drawn(Sample(panels=[panel(f"Panel {place}") for place in range(n)]))
    charts = [each for each in root.iter(f"{SVG}svg") if each.get("class") == "chart"]
    places = {(each.get("x"), each.get("y")) for each in charts}
    assert len(charts) == len(places) == n
    assert len({x for x, _ in places}) == columns
    for chart in charts:
        assert float(chart.get("x")) + float(chart.get("width")) <= float(root.get("width"))
        assert float(chart.get("y")) + float(chart.get("height")) <= float(root.get("height"))
    assert [word for word in words(root) if word.startswith("Panel")] == (
        [f"Panel {place}" for place in range(n)] if n > 1 else []
    )


def test_files(tmp_path):
    plot = csrr.plot(Sample(), tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text() == plot.svg == plot._repr_svg_()
    plot.save(tmp_path / "b.HTML")
    page = (tmp_path / "b.HTML").read_text()
    assert plot.svg in page
    assert "<title>Costs &amp; &lt;ratios&gt;</title>" in page
    assert plot.title in repr(plot)


def test_other_files_are_refused_and_nothing_is_left(tmp_path):
    for name in ("a.png", "svg", "a.svg.gz"):
        with pytest.raises(ParameterError, match=r"\.svg or \.html"):
            csrr.plot(Sample(), tmp_path / name)
    with pytest.raises(FileNotFoundError):
        csrr.plot(Sample(), tmp_path / "nowhere" / "a.svg")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_plotted():
    with pytest.raises(ParameterError, match="a dict cannot be plotted: it has no title and no caption and no panels"):
        csrr.plot({})


def test_a_panel_that_is_no_panel_is_named_with_its_place():
    bad = panel() | {"series": [{"name": "a", "points": [{"x": 1, "mean": "high"}]}]}
    with pytest.raises(csrr.DataError, match="panel 2, series 1, points 1, mean: it should be a number, and is 'high'"):
        csrr.plot(Sample(panels=[panel(), bad]))


def test_points_without_a_place_are_left_out():
    points = [{"x": 1, "mean": 2}, {"x": 2, "mean": None}, {"x": 3, "mean": float("nan")}, {"mean": 1}]
    root = drawn(Sample(panels=[{"series": [{"points": points}]}]))
    assert sum(each.get("class") == "point" for each in root.iter(f"{SVG}g")) == 1


def test_a_reliability():
    told = csrr.Reliability.of([0.1, 0.3, 0.7], [1, 3, 5], [10, 10, 10])
    root = drawn(told)
    assert {"Reliability", "perfect", "observed", "probability", "share of positives"} <= set(words(root))
    assert sum(each.get("class") == "point" for each in root.iter(f"{SVG}g")) == 3 + 2


def test_in_a_browser_every_word_has_room(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("there is no chromium to open the plot with")
    title = "Wide words everywhere, MMM WWW, in a title that needs several lines of the plot to be told"
    many = Sample(title, panels=[panel(f"Panel {place}", [f"series {n}" for n in range(9)]) for place in range(2)])
    csrr.plot(many, tmp_path / "a.html")
    faults = """() => {
        const words = [...document.querySelectorAll('.csrr-plot > text')];
        const boxes = words.map(each => [each.textContent, each.getBBox()]);
        const view = document.querySelector('.csrr-plot').viewBox.baseVal;
        const found = boxes.filter(([_, a]) => a.x < 0 || a.x + a.width > view.width || a.y + a.height > view.height);
        boxes.forEach(([text, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
            if (a.x < b.x + b.width && b.x < a.x + a.width && a.y + 1 < b.y + b.height && b.y + 1 < a.y + a.height)
                found.push([text, other]);
        }));
        return found.map(each => each[0]);
    }"""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto((tmp_path / "a.html").as_uri())
        assert page.evaluate(faults) == []
        browser.close()
