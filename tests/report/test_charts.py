"""Charts: round ticks, points in their places, text that cannot break out."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from csrr.data import DataError
from csrr.report.charts import (
    CHARACTER,
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    DotRow,
    Panel,
    Point,
    Series,
    choose_step,
    draw_dot_chart,
    draw_line_chart,
    place_linear_ticks,
    place_log_ticks,
)
from csrr.report.plot import draw_beside

HOSTILE = '</svg><script>alert("1")</script>&\''


def labels(ticks):
    return [label for _, label in ticks]


def panel(points, log=False, **more):
    given = {"title": "t", "x": "x", "y": "y", "series": [Series("a", [Point(x, mean) for x, mean in points])]}
    return Panel(**(given | {"log": log} | more))


def marks(svg):
    """Return the places of the points."""
    found = re.findall(r'class="point" transform="translate\(([\d.]+) ([\d.]+)\)"', svg)
    return [(float(x), float(y)) for x, y in found]


def test_linear_ticks_are_round():
    assert labels(place_linear_ticks(0.5, 0.95)) == ["0.5", "0.6", "0.7", "0.8", "0.9"]
    assert labels(place_linear_ticks(-1, 1)) == ["−1.0", "−0.5", "0.0", "0.5", "1.0"]
    assert labels(place_linear_ticks(0, 1200)) == ["0", "500", "1,000"]
    assert labels(place_linear_ticks(0, 3e-8)) == ["0", "10⁻⁸", "2·10⁻⁸", "3·10⁻⁸"]


def test_log_ticks_are_powers_of_ten_where_there_are_three():
    assert labels(place_log_ticks(1e-3, 1e2)) == ["10⁻³", "10⁻²", "10⁻¹", "10⁰", "10¹", "10²"]
    assert labels(place_log_ticks(1e-9, 1e9)) == ["10⁻⁹", "10⁻⁶", "10⁻³", "10⁰", "10³", "10⁶", "10⁹"]
    assert labels(place_log_ticks(0.15, 7)) == ["0.2", "0.5", "1", "2", "5"]
    assert labels(place_log_ticks(0.1, 1)) == ["0.1", "0.2", "0.5", "1"]
    assert labels(place_log_ticks(1.1, 1.5)) == ["1.1", "1.2", "1.3", "1.4", "1.5"]


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_linear_ticks_lie_inside_and_are_a_few(low, length):
    high = low + length
    places = [place for place, _ in place_linear_ticks(low, high)]
    step = choose_step(high - low, 5)
    assert 1 <= len(places) <= 6
    assert low - 1e-6 * step <= places[0] <= places[-1] <= high + 1e-6 * step
    assert f"{step:.0e}"[0] in "125"


@given(st.floats(-9, 9), st.floats(0.01, 12))
def test_log_ticks_lie_inside_and_are_a_few(exponent, decades):
    low, high = 10.0**exponent, 10.0 ** (exponent + decades)
    places = [place for place, _ in place_log_ticks(low, high)]
    assert 1 <= len(places) <= 8
    assert low * (1 - 1e-6) <= places[0] <= places[-1] <= high * (1 + 1e-6)


def test_points_are_where_they_belong():
    (x1, y1), (x2, y2), (x3, y3) = marks(draw_line_chart(panel([(1, 0.1), (10, 0.2), (100, 0.4)], log=True), ["a"]))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.02)
    assert y2 - y3 == pytest.approx(2 * (y1 - y2), abs=0.05)
    assert LEFT < x1 < x3 < WIDTH - RIGHT
    assert 0 < y3 < y1 < HEIGHT


def test_a_linear_axis_is_linear():
    (x1, _), (x2, _), (x3, _) = marks(draw_line_chart(panel([(1, 0.1), (10, 0.2), (100, 0.4)]), ["a"]))
    assert x3 - x2 == pytest.approx(10 * (x2 - x1), rel=0.01)


def test_an_interval_is_drawn_and_told():
    svg = draw_line_chart(panel([], series=[Series("a", [Point(1, 0.2, 0.1, 0.3, "l1 12.3"), Point(2, 0.2)])]), ["a"])
    bar = re.search(r'd="M[\d.]+ ([\d.]+)V([\d.]+)M[\d.]+ ([\d.]+)V([\d.]+)" class="bar"', svg)
    low, high, other_low, other_high = map(float, bar.groups())
    assert low > high
    assert other_low == other_high
    assert "<title>a, 1: 0.2000 (0.1000 to 0.3000)\nl1 12.3</title>" in svg


def test_points_that_are_not_known_are_left_out():
    svg = draw_line_chart(panel([(1, 0.1), (2, math.nan), (math.nan, 0.2), (math.inf, 0.3), (4, 0.2)]), ["a"])
    assert len(marks(svg)) == 2
    assert "nan" not in svg


@pytest.mark.parametrize("points", [[], [(1, math.nan)]])
def test_a_chart_without_points_says_so(points):
    assert "no points" in draw_line_chart(panel(points), ["a"])


@pytest.mark.parametrize("log", [True, False])
def test_a_single_point_has_axes(log):
    assert len(marks(draw_line_chart(panel([(3, 0.5)], log=log), ["a"]))) == 1


def test_a_log_axis_has_no_place_for_zero():
    with pytest.raises(DataError, match="t: x = 0 has no place on a log axis"):
        draw_line_chart(panel([(0, 0.1), (1, 0.2)], log=True), ["a"])


def test_text_stays_text():
    series = [Series(HOSTILE, [Point(1, 0.1, note=HOSTILE)])]
    root = ElementTree.fromstring(
        draw_line_chart(panel([], title=HOSTILE, x=HOSTILE, y=HOSTILE, series=series), [HOSTILE])
    )
    assert {each.tag for each in root.iter()} == {"svg", "path", "text", "g", "title", "circle"}
    assert HOSTILE in root.get("aria-label")


def test_a_series_has_the_colour_of_its_name():
    svg = draw_line_chart(panel([(1, 0.1)]), ["b", "a"])
    assert "--series-1" in svg
    assert "--series-0" not in svg


def read_dots(svg):
    """Return the x of each point by what is told of it, and the ends of the intervals in their order."""
    root = ElementTree.fromstring(svg)
    points = [each for each in root.iter("g") if each.get("class") == "point"]
    places = {each.find("title").text: float(re.findall(r"[-\d.]+", each.get("transform"))[0]) for each in points}
    bars = [each.get("d") for each in root.iter("path") if each.get("class") == "bar"]
    return places, [
        (float(low), float(high)) for low, high in (re.fullmatch(r"M(\S+) \S+H(\S+)", d).groups() for d in bars)
    ]


def test_dots_lie_to_scale_from_zero_within_their_intervals():
    rows = [DotRow("one", {"a": Point(mean=0.1, low=0.05, high=0.15)}), DotRow("two", {"a": Point(mean=0.3)})]
    places, bars = read_dots(draw_dot_chart("t", "score", rows, ["a"]))
    first, second = places["a, one: 0.1000 (0.0500 to 0.1500)"], places["a, two: 0.3000"]
    (low, high), (start, end) = bars
    assert low < first < high
    assert start == end == second
    # 0.1 is a third of the way from 0 to 0.3, and 0.05 half of that.
    zero = second - 1.5 * (second - first)
    assert low == pytest.approx(zero + (first - zero) / 2, abs=0.05)


def test_dots_without_a_number_are_left_out_and_text_stays_text():
    rows = [DotRow(HOSTILE, {HOSTILE: Point(mean=0.1), "b": Point()})]
    root = ElementTree.fromstring(draw_dot_chart(HOSTILE, HOSTILE, rows, [HOSTILE, "b"]))
    assert {each.tag for each in root.iter()} == {"svg", "path", "text", "g", "title"}
    assert len([each for each in root.iter("g") if each.get("class") == "point"]) == 1
    assert "no points" in draw_dot_chart("t", "x", [], [])


def test_dots_below_zero_have_a_line_at_zero_and_words_of_their_own():
    rows = [DotRow("one", {"a": Point(mean=-20.0, low=-30.0, high=-10.0)}), DotRow("two", {"a": Point(mean=-5.0)})]
    svg = draw_dot_chart("t", "%", rows, ["a"], width=300, show=lambda value: f"{value:.0f} percent")
    places, ((low, high), _) = read_dots(svg)
    assert set(places) == {"a, one: -20 percent (-30 percent to -10 percent)", "a, two: -5 percent"}
    root = ElementTree.fromstring(svg)
    (line,) = [each.get("d") for each in root.iter("path") if each.get("class") == "axis"]
    zero = float(re.match(r"M(\S+) ", line)[1])
    assert zero - places["a, two: -5 percent"] == pytest.approx((zero - low) / 6, abs=0.05)
    assert low < high < places["a, two: -5 percent"] < zero < 300
    assert root.get("viewBox").startswith("0 0 300 ")


def test_labels_take_no_more_room_than_the_dots():
    rows = [DotRow("a name that is as long as a chart", {"a": Point(mean=1.0)})]
    width = float(ElementTree.fromstring(draw_dot_chart("t", "x", rows, ["a"], width=300)).get("viewBox").split()[2])
    assert width > 150 + CHARACTER * len(rows[0].label)


def read_y_ticks(low, high):
    """Return the ticks of the y axis of a chart of two points."""
    panel = Panel("t", "x", "y", False, [Series("a", [Point(1, low), Point(2, high)])])
    texts = ElementTree.fromstring(draw_line_chart(panel, ["a"])).iter("text")
    return [float(each.text.replace("−", "-")) for each in texts if each.get("text-anchor") == "end"]


def test_an_axis_is_not_mostly_empty():
    assert read_y_ticks(-0.05, 1.05) == pytest.approx([-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    assert read_y_ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def test_charts_beside_each_other_are_one_document():
    charts = {name: draw_dot_chart(name, "x", [DotRow(name, {"a": Point(mean=1.0)})], ["a"]) for name in ("b", "c<d")}
    svg = draw_beside("title", charts, ["a"])
    root = ElementTree.fromstring(svg)
    inner = [each for each in root.iter("{http://www.w3.org/2000/svg}svg") if "chart" in each.get("class", "")]
    ends = [(float(each.get("x")), float(each.get("x")) + float(each.get("width"))) for each in inner]
    assert 0 < ends[0][0] < ends[0][1] < ends[1][0] < ends[1][1] < float(root.get("width"))
    assert all(float(each.get("y")) + float(each.get("height")) <= float(root.get("height")) for each in inner)
    assert "var(--" not in svg
