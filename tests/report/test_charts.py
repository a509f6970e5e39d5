"""Plots: one well-formed SVG that needs nothing else, and its files."""

import re
import shutil
from dataclasses import dataclass, field
from xml.etree import ElementTree

import numpy as np
import pytest

import csrr
from csrr import ParameterError
from csrr.report.charts import draw_document
from csrr.report.svg import Panel, Point, Series, draw_panel

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


def test_rows_of_dots_are_drawn():
    points = [{"label": "new users", "mean": 0.2, "low": 0.1, "high": 0.3}, {"label": "others", "mean": 0.4}]
    series = [{"name": name, "points": points} for name in ("a", "b")]
    root = drawn(Sample(panels=[{"y": "accuracy", "kind": "dots", "series": series}]))
    assert {"new users", "others", "accuracy", "a", "b"} <= set(words(root))
    assert sum(each.get("class") == "point" for each in root.iter(f"{SVG}g")) == 4


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


def test_charts_beside_each_other_are_one_document():
    panels = [
        Panel(name, "", "x", series=[Series("a", [Point(mean=1.0, label=name)])], kind="dots") for name in ("b", "c<d")
    ]
    charts = [(panel.title, draw_panel(panel, ["a"], width=400)) for panel in panels]
    svg = draw_document("title", charts, ["a"], in_page=True)
    root = ElementTree.fromstring(svg)
    inner = [each for each in root.iter(f"{SVG}svg") if "chart" in each.get("class", "")]
    ends = [(float(each.get("x")), float(each.get("x")) + float(each.get("width"))) for each in inner]
    assert 0 < ends[0][0] < ends[0][1] < ends[1][0] < ends[1][1] < float(root.get("width"))
    assert all(float(each.get("y")) + float(each.get("height")) <= float(root.get("height")) for each in inner)
    assert "var(--" not in svg
    assert "title" not in words(root)


def test_lines_are_drawn_where_they_belong():
    lines = {"a": ([1, 2, 3], np.array([3, 2, 1])), "b": (range(2), [0.5, np.nan], [0.4, 0.4], [0.6, 0.6])}
    svg = csrr.plot_lines(lines, title="T", x="day", y="hits", caption="What to know.").svg
    assert svg.count('class="point"') == 4
    assert "b, 0: 0.5000 (0.4000 to 0.6000)" in svg
    assert all(f">{word}<" in svg for word in ("T", "day", "hits", "a", "b", "What to know."))


def test_points_have_names_and_groups():
    plot = csrr.plot_points({"jazz": [[0, 0], [1, 1]], "folk": [[2, 0]]}, labels={"jazz": ["one", None]}, title="Map")
    assert plot.title == "Map"
    assert plot.svg.count('class="point"') == 3
    assert re.findall('class="point-name">([^<]*)<', plot.svg) == ["one"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"a": ([1],)}, "lines: 'a' needs x and y, or x, y, low and high; it has 1"),
        ({"a": ([1, 2], [1])}, r"lines: 'a' has shapes \(2,\), \(1,\)"),
        ({"a": (["x"], [1])}, "lines: 'a' holds something that is no number"),
        ({"a": ([[1]], [[1]])}, "lines: 'a' has shapes"),
    ],
)
def test_lines_that_are_none(lines, message):
    with pytest.raises(ParameterError, match=message):
        csrr.plot_lines(lines)


@pytest.mark.parametrize(
    ("points", "labels", "message"),
    [
        ({"a": [1, 2]}, None, r"points: 'a' must be pairs, shape \(n, 2\), and has shape \(2,\)"),
        ({"a": [["x", "y"]]}, None, "points: 'a' holds something that is no number"),
        ({"a": [[1, 2]]}, {"b": ["x"]}, "labels: there are no points of 'b'; there are a"),
        ({"a": [[1, 2]]}, {"a": []}, "labels: 'a' has 0 labels for 1 points"),
    ],
)
def test_points_that_are_none(points, labels, message):
    with pytest.raises(ParameterError, match=message):
        csrr.plot_points(points, labels=labels)


def test_results_that_are_drawn_as_bars():
    log = csrr.synthetic(120, 40, events_per_user=12, seed=0).log
    train, test = csrr.split(log, seed=0)
    model = csrr.CSRR(reg_low_rank=0.3, neighbors=5).fit(train)
    why = model.explain(3, model.recommend(3, k=1).items[0, 0])
    drawn = csrr.plot(why)
    assert drawn.title == f"Why {why.title} for user 3"
    bars = [each for part in why.panels[0]["series"] for each in part["points"]]
    assert sum(each["mean"] for each in bars) == pytest.approx(why.score, abs=1e-4)
    found = {
        name: csrr.evaluate(each, train, test, at=5) for name, each in {"a": model, "b": csrr.EASE().fit(train)}.items()
    }
    table = csrr.plot(csrr.tabulate(found, ["ndcg@5", "recall@5"]))
    assert table.svg.count('class="point"') == 4
    assert f">{found['a']['recall@5']:.4f}<" in table.svg
    pair = csrr.compare(found, "ndcg@5").rows[0]
    assert f"a - b: {pair.paired.difference:.4f}".replace("-0", "−0") in csrr.plot(csrr.compare(found, "ndcg@5")).svg
    path = csrr.path(train, n=4, cost_ratio=1, reg_sparse=1, neighbors=0)
    assert csrr.plot(path).svg.count('class="point"') == 8
