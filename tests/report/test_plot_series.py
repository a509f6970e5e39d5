"""Arrays of one's own as plots, and what is wrong with some."""

import re

import numpy as np
import pytest

import csrr
from csrr import ParameterError


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
    assert re.findall('class="beside">([^<]*)<', plot.svg) == ["one"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"a": ([1],)}, "lines: 'a' needs x and y, or x, y, low and high; it has 1"),
        ({"a": ([1, 2], [1])}, r"lines: 'a' has arrays of shapes \(2,\), \(1,\)"),
        ({"a": (["x"], [1])}, "lines: 'a' holds something that is no number"),
        ({"a": ([[1]], [[1]])}, "lines: 'a' has arrays of shapes"),
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
