"""Charts: round ticks, points in their places, bars from 0 to their values, text that cannot break out."""

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from csrr.data.errors import DataError
from csrr.report.svg import (
    CHARACTER,
    HEIGHT,
    LARGE_POINTS,
    LEFT,
    NAME_HEIGHT,
    RIGHT,
    WIDTH,
    Box,
    Panel,
    Point,
    Series,
    choose_step,
    draw_panel,
    place_linear_ticks,
    place_log_ticks,
)

HOSTILE = '</svg><script>alert("1")</script>&\''
NUMBER = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-320, 5e-324, 1e6, 1e6 + 1e-9]))


def draw_svg(panel, names):
    return draw_panel(panel, names).svg


def draw_points(panel, names):
    return draw_panel(panel, names, alone=True).svg


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
    (x1, y1), (x2, y2), (x3, y3) = marks(draw_svg(panel([(1, 0.1), (10, 0.2), (100, 0.4)], log=True), ["a"]))
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.02)
    assert y2 - y3 == pytest.approx(2 * (y1 - y2), abs=0.05)
    assert LEFT < x1 < x3 < WIDTH - RIGHT
    assert 0 < y3 < y1 < HEIGHT


def test_a_linear_axis_is_linear():
    (x1, _), (x2, _), (x3, _) = marks(draw_svg(panel([(1, 0.1), (10, 0.2), (100, 0.4)]), ["a"]))
    assert x3 - x2 == pytest.approx(10 * (x2 - x1), rel=0.01)


def test_an_interval_is_drawn_and_told():
    svg = draw_svg(panel([], series=[Series("a", [Point(1, 0.2, 0.1, 0.3, "l1 12.3"), Point(2, 0.2)])]), ["a"])
    bar = re.search(r'd="M[\d.]+ ([\d.]+)V([\d.]+)M[\d.]+ ([\d.]+)V([\d.]+)" class="bar"', svg)
    low, high, other_low, other_high = map(float, bar.groups())
    assert low > high
    assert other_low == other_high
    assert "<title>a, 1: 0.2000 (0.1000 to 0.3000)\nl1 12.3</title>" in svg


def test_points_that_are_not_known_are_left_out():
    svg = draw_svg(panel([(1, 0.1), (2, math.nan), (math.nan, 0.2), (math.inf, 0.3), (4, 0.2)]), ["a"])
    assert len(marks(svg)) == 2
    assert "nan" not in svg


@pytest.mark.parametrize("points", [[], [(1, math.nan)]])
def test_a_chart_without_points_says_so(points):
    assert "no points" in draw_svg(panel(points), ["a"])


@pytest.mark.parametrize("log", [True, False])
def test_a_single_point_has_axes(log):
    assert len(marks(draw_svg(panel([(3, 0.5)], log=log), ["a"]))) == 1


def test_a_log_axis_has_no_place_for_zero():
    with pytest.raises(DataError, match="t: x = 0 has no place on a log axis"):
        draw_svg(panel([(0, 0.1), (1, 0.2)], log=True), ["a"])


def test_text_stays_text():
    series = [Series(HOSTILE, [Point(1, 0.1, note=HOSTILE)])]
    root = ElementTree.fromstring(draw_svg(panel([], title=HOSTILE, x=HOSTILE, y=HOSTILE, series=series), [HOSTILE]))
    assert {each.tag for each in root.iter()} == {"svg", "path", "text", "g", "title", "circle"}
    assert HOSTILE in root.get("aria-label")


def test_a_series_has_the_color_of_its_name():
    svg = draw_svg(panel([(1, 0.1)]), ["b", "a"])
    assert "--series-1" in svg
    assert "--series-0" not in svg


def draw_dots(found, title="t", y="score", **more):
    series = [Series(name, points) for name, points in found.items()]
    return draw_panel(Panel(title, "", y, series=series, kind="dots"), list(found), **more).svg


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
    found = [Point(mean=0.1, low=0.05, high=0.15, label="one"), Point(mean=0.3, label="two")]
    places, bars = read_dots(draw_dots({"a": found}))
    first, second = places["a, one: 0.1000 (0.0500 to 0.1500)"], places["a, two: 0.3000"]
    (low, high), (start, end) = bars
    assert low < first < high
    assert start == end == second
    # 0.1 is a third of the way from 0 to 0.3, and 0.05 half of that.
    zero = second - 1.5 * (second - first)
    assert low == pytest.approx(zero + (first - zero) / 2, abs=0.05)


def test_dots_without_a_number_are_left_out_and_text_stays_text():
    found = {HOSTILE: [Point(mean=0.1, label=HOSTILE)], "b": [Point(label=HOSTILE)]}
    root = ElementTree.fromstring(draw_dots(found, title=HOSTILE, y=HOSTILE))
    assert {each.tag for each in root.iter()} == {"svg", "path", "text", "g", "title"}
    assert len([each for each in root.iter("g") if each.get("class") == "point"]) == 1
    assert "no points" in draw_dots({})


def test_dots_below_zero_have_a_line_at_zero_and_words_of_their_own():
    found = [Point(mean=-20.0, low=-30.0, high=-10.0, label="one"), Point(mean=-5.0, label="two")]
    svg = draw_dots({"a": found}, width=300, show=lambda value: f"{value:.0f} percent")
    places, ((low, high), _) = read_dots(svg)
    assert set(places) == {"a, one: -20 percent (-30 percent to -10 percent)", "a, two: -5 percent"}
    root = ElementTree.fromstring(svg)
    (line,) = [each.get("d") for each in root.iter("path") if each.get("class") == "axis"]
    zero = float(re.match(r"M(\S+) ", line)[1])
    assert zero - places["a, two: -5 percent"] == pytest.approx((zero - low) / 6, abs=0.05)
    assert low < high < places["a, two: -5 percent"] < zero < 300
    assert root.get("viewBox").startswith("0 0 300 ")


def test_labels_take_no_more_room_than_the_dots():
    label = "a name that is as long as a chart"
    svg = draw_dots({"a": [Point(mean=1.0, label=label)]}, width=300)
    assert float(ElementTree.fromstring(svg).get("viewBox").split()[2]) > 150 + CHARACTER * len(label)
    assert f">{label}<" in svg


def read_y_ticks(low, high):
    """Return the ticks of the y axis of a chart of two points."""
    panel = Panel("t", "x", "y", False, [Series("a", [Point(1, low), Point(2, high)])])
    texts = ElementTree.fromstring(draw_svg(panel, ["a"])).iter("text")
    return [float(each.text.replace("−", "-")) for each in texts if each.get("text-anchor") == "end"]


def test_an_axis_is_not_mostly_empty():
    assert read_y_ticks(-0.05, 1.05) == pytest.approx([-0.2, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    assert read_y_ticks(0.0, 1.0) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def bar_panel(values, names=("a",)):
    series = [Series(name, [Point(label=label, mean=value) for label, value in values.items()]) for name in names]
    return Panel("t", "item", "amount", series=series, kind="bars")


def read_bars(svg):
    """Return what is told of each bar, its left end, its right end and its top."""
    bars = []
    for each in ElementTree.fromstring(svg).iter("g"):
        if each.get("class") == "point":
            box = each.find("rect")
            left = float(box.get("x"))
            bars.append((each.find("title").text, left, left + float(box.get("width")), float(box.get("y"))))
    return bars


def test_bars_go_from_zero_to_their_values():
    bars = read_bars(draw_svg(bar_panel({"one": 1.0, "two": 2.0, "less": -1.0}), ["a"]))
    (_, zero, one, first), (_, start, two, second), (_, less, end, third) = bars
    assert zero == start == end
    assert abs((two - zero) - 2 * (one - zero)) < 0.1
    assert abs((zero - less) - (one - zero)) < 0.1
    assert first < second < third
    assert bars[2][0] == "a, less: −1.0000"


def test_an_interval_of_a_bar_has_a_line_and_is_told():
    point = Point(label="one", mean=0.2, low=0.1, high=0.3)
    svg = draw_svg(Panel("t", "x", "y", series=[Series("a", [point])], kind="bars"), ["a"])
    assert 'class="whisker"' in svg
    assert "a, one: 0.2000 (0.1000 to 0.3000)" in svg
    assert 'class="whisker"' not in draw_svg(bar_panel({"one": 0.2}), ["a"])


@given(st.dictionaries(st.text("abc ", min_size=1, max_size=60), st.floats(-1e4, 1e4), min_size=1, max_size=12))
@example({"tiny": 5e-324})
def test_bars_lie_inside(values):
    both = bar_panel(values, ("a", "b"))
    width, height = draw_panel(both, ["a", "b"]).size
    bars = read_bars(draw_svg(both, ["a", "b"]))
    assert len(bars) == 2 * len(values)
    assert all(0 <= left <= right <= width and 0 <= top <= height for _, left, right, top in bars)
    tops = [top for *_, top in bars]
    assert len(set(tops)) == len(tops)


def test_what_is_not_known_has_no_bar_and_its_text_stays_text():
    root = ElementTree.fromstring(draw_svg(bar_panel({HOSTILE: 1.0, "x": math.nan}), ["a"]))
    assert {each.tag for each in root.iter()} == {"svg", "path", "text", "g", "title", "rect"}
    assert sum(each.get("class") == "point" for each in root.iter("g")) == 1
    assert "no bars" in draw_svg(bar_panel({}), ["a"])
    assert len(read_bars(draw_svg(bar_panel({"zero": 0.0}), ["a"]))) == 1


def point_panel(points, **more):
    series = [Series("a", [Point(x, mean, label=label) for x, mean, label in points])]
    return Panel(title="t", series=series, kind="points", **more)


def point_marks(svg):
    found = re.findall(r'class="point" transform="translate\(([-\d.]+) ([-\d.]+)\)', svg)
    return [(float(x), float(y)) for x, y in found]


def names(svg):
    """Return the names beside points: text, and the place of its anchor."""
    found = [each for each in ElementTree.fromstring(svg).iter("text") if each.get("class") == "point-name"]
    return [(each.text, float(each.get("x")), float(each.get("y")), each.get("text-anchor")) for each in found]


def test_a_map_has_one_scale_and_no_axes():
    svg = draw_points(point_panel([(0, 0, ""), (3, 0, ""), (0, 4, "")]), ["a"])
    (x0, y0), (x1, y1), (x2, y2) = sorted(point_marks(svg), key=lambda place: (place[0], -place[1]))
    assert x0 == x1
    assert y0 == y2
    assert (x2 - x0) / (y0 - y1) == pytest.approx(3 / 4, rel=1e-2)
    assert "tick" not in svg


def test_with_labels_there_are_axes():
    svg = draw_points(point_panel([(0, 0, ""), (3, 1, "")], x="days", y="hits"), ["a"])
    words = [each.text for each in ElementTree.fromstring(svg).iter("text")]
    assert {"days", "hits", "0", "3"} <= set(words)


@given(st.lists(st.tuples(NUMBER, NUMBER, st.sampled_from(["", "name", "a longer name"])), min_size=1, max_size=30))
def test_points_lie_inside_and_names_over_no_other(points):
    svg = draw_points(point_panel(points), ["a"])
    assert len(point_marks(svg)) == len(points)
    assert all(0 <= x <= LARGE_POINTS[0] and 0 <= y <= LARGE_POINTS[1] for x, y in point_marks(svg))
    boxes = []
    for text, x, y, anchor in names(svg):
        width = 7 * len(text)
        left = {"start": x, "end": x - width, "middle": x - width / 2}[anchor]
        boxes.append(Box(left, y - NAME_HEIGHT + 3, left + width, y))
    assert all(box.lies_in(Box(0, 0, *LARGE_POINTS)) for box in boxes)
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[:place])


def test_names_that_have_room_are_all_there():
    svg = draw_points(point_panel([(0, 0, "one"), (1, 1, "two"), (2, 0, "three")]), ["a"])
    assert {text for text, *_ in names(svg)} == {"one", "two", "three"}
    crowded = draw_points(point_panel([(0, 0, f"name {n}") for n in range(9)]), ["a"])
    assert 1 <= len(names(crowded)) < 9
    assert crowded.count("name 8") == 1, "what has no room is told where it is pointed at"


def test_names_stay_text_and_what_has_no_place_is_left_out():
    svg = draw_points(point_panel([(1, 2, HOSTILE), (math.nan, 1, "x"), (3, math.inf, "y")]), ["a"])
    root = ElementTree.fromstring(svg)
    assert {each.tag for each in root.iter()} <= {"svg", "path", "text", "g", "title"}
    assert len(point_marks(svg)) == 1
    assert "no points" in draw_points(point_panel([]), ["a"])
