"""Bars: from 0 to their values, a row a label, numbers beside them."""

import math
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from csrr.report.charts import Panel, Point, Series, draw_bar_chart, measure_bar_chart

HOSTILE = '</svg><script>alert("1")</script>&\''


def panel(values, names=("a",)):
    series = [Series(name, [Point(label=label, mean=value) for label, value in values.items()]) for name in names]
    return Panel("t", "item", "amount", series=series, kind="bars")


def read(svg):
    """Return what is told of each bar, its left end, its right end and its top."""
    bars = []
    for each in ElementTree.fromstring(svg).iter("g"):
        if each.get("class") == "point":
            box = each.find("rect")
            left = float(box.get("x"))
            bars.append((each.find("title").text, left, left + float(box.get("width")), float(box.get("y"))))
    return bars


def test_bars_go_from_zero_to_their_values():
    bars = read(draw_bar_chart(panel({"one": 1.0, "two": 2.0, "less": -1.0}), ["a"]))
    (_, zero, one, first), (_, start, two, second), (_, less, end, third) = bars
    assert zero == start == end
    assert abs((two - zero) - 2 * (one - zero)) < 0.1
    assert abs((zero - less) - (one - zero)) < 0.1
    assert first < second < third
    assert bars[2][0] == "a, less: −1.0000"


def test_an_interval_has_a_line_and_is_told():
    point = Point(label="one", mean=0.2, low=0.1, high=0.3)
    svg = draw_bar_chart(Panel("t", "x", "y", series=[Series("a", [point])], kind="bars"), ["a"])
    assert 'class="whisker"' in svg
    assert "a, one: 0.2000 (0.1000 to 0.3000)" in svg
    assert 'class="whisker"' not in draw_bar_chart(panel({"one": 0.2}), ["a"])


@given(st.dictionaries(st.text("abc ", min_size=1, max_size=60), st.floats(-1e4, 1e4), min_size=1, max_size=12))
def test_everything_lies_inside(values):
    both = panel(values, ("a", "b"))
    width, height = measure_bar_chart(both)
    bars = read(draw_bar_chart(both, ["a", "b"]))
    assert len(bars) == 2 * len(values)
    assert all(0 <= left <= right <= width and 0 <= top <= height for _, left, right, top in bars)
    tops = [top for *_, top in bars]
    assert len(set(tops)) == len(tops)


def test_what_is_not_known_has_no_bar_and_text_stays_text():
    root = ElementTree.fromstring(draw_bar_chart(panel({HOSTILE: 1.0, "x": math.nan}), ["a"]))
    assert {each.tag for each in root.iter()} == {"svg", "path", "text", "g", "title", "rect"}
    assert sum(each.get("class") == "point" for each in root.iter("g")) == 1
    assert "no bars" in draw_bar_chart(panel({}), ["a"])
    assert len(read(draw_bar_chart(panel({"zero": 0.0}), ["a"]))) == 1
