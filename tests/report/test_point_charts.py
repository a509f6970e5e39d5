"""Points alone: each in its place, names where there is room and over no other."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.report.charts import LETTERS, POINT_SIZE, Box, Panel, Point, Series, draw_point_chart

HOSTILE = '</svg><script>alert("1")</script>&\''
NUMBER = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-320, 5e-324, 1e6, 1e6 + 1e-9]))


def panel(points, **more):
    series = [Series("a", [Point(x, mean, label=label) for x, mean, label in points])]
    return Panel(title="t", series=series, kind="points", **more)


def marks(svg):
    found = re.findall(r'class="point" transform="translate\(([-\d.]+) ([-\d.]+)\)', svg)
    return [(float(x), float(y)) for x, y in found]


def names(svg):
    """Return the names beside points: text, and the place of its anchor."""
    found = [each for each in ElementTree.fromstring(svg).iter("text") if each.get("class") == "beside"]
    return [(each.text, float(each.get("x")), float(each.get("y")), each.get("text-anchor")) for each in found]


def test_a_map_has_one_scale_and_no_axes():
    svg = draw_point_chart(panel([(0, 0, ""), (3, 0, ""), (0, 4, "")]), ["a"])
    (x0, y0), (x1, y1), (x2, y2) = sorted(marks(svg), key=lambda place: (place[0], -place[1]))
    assert x0 == x1
    assert y0 == y2
    assert (x2 - x0) / (y0 - y1) == pytest.approx(3 / 4, rel=1e-2)
    assert "tick" not in svg


def test_with_labels_there_are_axes():
    svg = draw_point_chart(panel([(0, 0, ""), (3, 1, "")], x="days", y="hits"), ["a"])
    words = [each.text for each in ElementTree.fromstring(svg).iter("text")]
    assert {"days", "hits", "0", "3"} <= set(words)


@given(st.lists(st.tuples(NUMBER, NUMBER, st.sampled_from(["", "name", "a longer name"])), min_size=1, max_size=30))
def test_points_lie_inside_and_names_over_no_other(points):
    svg = draw_point_chart(panel(points), ["a"])
    assert len(marks(svg)) == len(points)
    assert all(0 <= x <= POINT_SIZE[0] and 0 <= y <= POINT_SIZE[1] for x, y in marks(svg))
    boxes = []
    for text, x, y, anchor in names(svg):
        width = 7 * len(text)
        left = {"start": x, "end": x - width, "middle": x - width / 2}[anchor]
        boxes.append(Box(left, y - LETTERS + 3, left + width, y))
    assert all(box.lies_in(Box(0, 0, *POINT_SIZE)) for box in boxes)
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[:place])


def test_names_that_have_room_are_all_there():
    svg = draw_point_chart(panel([(0, 0, "one"), (1, 1, "two"), (2, 0, "three")]), ["a"])
    assert {text for text, *_ in names(svg)} == {"one", "two", "three"}
    crowded = draw_point_chart(panel([(0, 0, f"name {n}") for n in range(9)]), ["a"])
    assert 1 <= len(names(crowded)) < 9
    assert crowded.count("name 8") == 1, "what has no room is told where it is pointed at"


def test_text_stays_text_and_what_has_no_place_is_left_out():
    svg = draw_point_chart(panel([(1, 2, HOSTILE), (math.nan, 1, "x"), (3, math.inf, "y")]), ["a"])
    root = ElementTree.fromstring(svg)
    assert {each.tag for each in root.iter()} <= {"svg", "path", "text", "g", "title"}
    assert len(marks(svg)) == 1
    assert "no points" in draw_point_chart(panel([]), ["a"])
