"""SVG charts of panels: lines, points on a plane, and rows of bars or dots."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from csrr._base.text import format_fixed, format_power_of_ten, format_short
from csrr.data.errors import DataError

PanelKind = Literal["lines", "points", "bars", "dots"]
"""Points joined by lines; points alone; or a row for each label, with bars from 0 to the means, or with dots."""


@dataclass(frozen=True)
class Point:
    """A mean at `x`, its interval, and a note; a point with a coordinate that is not finite is not drawn.

    `label` names a point that stands alone, or the row of a bar or a dot. `splits` is the number of splits of the data
    that the mean is taken over, if it is.
    """

    x: float = math.nan
    mean: float = math.nan
    low: float | None = None
    high: float | None = None
    note: str = ""
    splits: int | None = None
    label: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """The ends of the interval, both the mean if there is none."""
        if self.low is None or self.high is None or not math.isfinite(self.low + self.high):
            return self.mean, self.mean
        return self.low, self.high

    def describe(self, series: str, place: str, show: Callable[[float], str] = format_fixed) -> str:
        """Return the text that appears when a user points at the point."""
        low, high = self.interval
        interval = f" ({show(low)} to {show(high)})" if low < high else ""
        name = f"{self.label}\n" if self.label not in ("", place) else ""
        return f"{name}{series}, {place}: {show(self.mean)}{interval}" + (f"\n{self.note}" if self.note else "")


@dataclass(frozen=True)
class Series:
    """Points of one name, which share a color."""

    name: str = ""
    points: list[Point] = field(default_factory=list)

    def select_drawn(self) -> list[Point]:
        """Return the points with finite coordinates, by x."""
        drawn = [point for point in self.points if math.isfinite(point.x) and math.isfinite(point.mean)]
        return sorted(drawn, key=lambda point: point.x)


@dataclass(frozen=True)
class Panel:
    """One chart: its title, the labels of its axes and its series; with `log`, x is on a log scale.

    Of bars and dots, which lie in rows, `x` says what the rows are, and `y` what the lengths mean.
    """

    title: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    series: list[Series] = field(default_factory=list)
    kind: PanelKind = field(default="lines", kw_only=True)


def list_series_names(panels: Sequence[Panel]) -> list[str]:
    """Return the names of all series of some panels, each once, in the order of appearance."""
    return list(dict.fromkeys(each.name for panel in panels for each in panel.series))


WIDTH, HEIGHT = 360, 250
SIZE, LARGE_LINES, LARGE_POINTS = (WIDTH, HEIGHT), (600, 320), (600, 420)
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 30, 46
CHARACTER = 7.7
"""The width of a character of 12 px, rounded up: fonts differ."""
N_COLORS = 8
MARKERS = (
    "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.4L4.2 3.2H-4.2z",
    "M0-4.6L4.6 0L0 4.6L-4.6 0z",
    "M0 4.4L4.2-3.2H-4.2z",
)
Scale = Callable[[float], float]
Ticks = list[tuple[float, str]]
Size = tuple[float, float]
"""A width and a height."""


class Chart(NamedTuple):
    """A chart as an SVG element, and its size."""

    svg: str
    size: Size


@dataclass(frozen=True)
class Axis:
    """The scale of an axis from values to pixels, its ticks with their labels, its own label, and its two ends."""

    scale: Scale
    ticks: Ticks
    label: str
    start: float
    end: float


def draw_panel(
    panel: Panel,
    names: Sequence[str],
    *,
    alone: bool = False,
    width: float = 600,
    show: Callable[[float], str] = format_fixed,
) -> Chart:
    """Return the chart of a panel; a series has the color and the marker of its place in `names`.

    Lines and points are larger if the chart stands `alone`. Rows of bars and dots have a `width`, which is exceeded if
    labels would take more than half of it, and `show` writes their values.
    """
    if panel.kind in ("bars", "dots"):
        return _draw_rows(panel, names, width, show)
    large = LARGE_POINTS if panel.kind == "points" else LARGE_LINES
    return _draw_plane(panel, names, large if alone else SIZE)


def draw_marker(place: int, kind: PanelKind = "lines") -> str:
    """Return a small SVG of the marker of the series at `place`, for a legend."""
    line = '<path d="M-12 0H12" stroke="currentColor" stroke-width="2"/>' if kind == "lines" else ""
    drawn = '<path d="M-10-5h20v10h-20z" fill="currentColor"/>' if kind == "bars" else line + _draw_shape(place)
    return (
        f'<svg viewBox="-12 -6 24 12" width="24" height="12" aria-hidden="true" style="color:{name_color(place)}">'
        f"{drawn}</svg>"
    )


def name_color(place: int) -> str:
    """Return the color of the series at `place`."""
    return f"var(--series-{place % N_COLORS})"


def _draw_shape(place: int) -> str:
    """Return the marker of the series at `place`, around the origin."""
    return f'<path d="{MARKERS[place % len(MARKERS)]}" fill="currentColor"/>'


def _finish_chart(panel: Panel, size: Size, parts: Sequence[str]) -> Chart:
    """Return the chart of these parts; a sentence on it is for readers who do not see it."""
    by = " against " if panel.kind in ("lines", "points") else " by "
    axes = f": {panel.y}{by}{panel.x}" if panel.x else f": {panel.y}" if panel.y else ""
    words = f"{panel.title or 'figure'}{axes}, {panel.kind} for {', '.join(list_series_names([panel]))}"
    nothing = "no bars" if panel.kind == "bars" else "no points"
    body = "".join(parts) or _draw_text(size[0] / 2, size[1] / 2, nothing, "middle")
    svg = f'<svg viewBox="0 0 {size[0]:g} {size[1]:g}" class="chart" role="img" aria-label="{escape(words)}">{body}'
    return Chart(f"{svg}</svg>", size)


def _draw_text(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def _estimate_width(words: str) -> float:
    return CHARACTER * len(words)


def _shorten(words: str, room: float) -> str:
    """Return a text, cut if it is too long for its room."""
    most = int(room / CHARACTER)
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def choose_step(length: float, n_steps: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that covers `length` in at most `n_steps` steps."""
    rough = max(length / n_steps, sys.float_info.min)
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough * (1 - 1e-9))


def place_linear_ticks(low: float, high: float, n_steps: int = 5) -> Ticks:
    """Return places and labels of round ticks between `low` and `high`, low < high."""
    return _place_stepped(choose_step(high - low, n_steps), low, high)


def _place_stepped(step: float, low: float, high: float) -> Ticks:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    plain = digits <= 5 and max(abs(low), abs(high)) < 1e6
    places = [i * step for i in range(first, last + 1)]
    return [(place, format_fixed(place, digits) if plain else format_short(place)) for place in places]


def place_log_ticks(low: float, high: float, n_ticks: int = 8) -> Ticks:
    """Return places and labels of ticks on a log axis: powers of ten, or 1-2-5 steps if these are fewer than three."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last > first + 1:
        every = -(-(last - first + 1) // n_ticks)
        return [(10.0**e, format_power_of_ten(e)) for e in range(first, last + 1, every)]
    steps = [factor * 10.0**e for e in range(first - 1, last + 1) for factor in (1, 2, 5)]
    inside = [place for place in steps if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]
    return [(place, format_short(place)) for place in inside] if len(inside) > 1 else place_linear_ticks(low, high)


def _make_scale(low: float, high: float, start: float, end: float, along: Scale = float) -> Scale:
    """Return a function from values to pixels between `start` and `end`; `low` and `high` are on the scale `along`."""
    return lambda value: round(start + (along(value) - low) / (high - low) * (end - start), 2)


def _make_x_axis(values: list[float], panel: Panel, ends: tuple[float, float]) -> Axis:
    low, high = min(values), max(values)
    if panel.log and low <= 0:
        where = panel.title or "figure"
        raise DataError(f"{where}: x = {low:g} has no place on a log axis; leave the point out or log false")
    if low == high:
        low, high = (low / 2, high * 2) if panel.log else (low - 0.5, high + 0.5)
    along: Scale = math.log10 if panel.log else float
    margin = 0.04 * (along(high) - along(low))
    scale = _make_scale(along(low) - margin, along(high) + margin, *ends, along)
    # On a short log axis the reader looks for the points themselves: 1/4, 1/2, 1, 2, 4.
    own = [(place, format_short(place)) for place in sorted(set(values))] if panel.log and high / low < 100 else []
    linear = [place_linear_ticks(low, high, n_steps) for n_steps in (5, 4, 3, 2)]
    choices = [own, place_log_ticks(low, high)] if panel.log else linear
    return Axis(scale, next((ticks for ticks in choices if _have_room(ticks, scale)), choices[-1]), panel.x, *ends)


def _have_room(ticks: Ticks, scale: Scale) -> bool:
    """Return whether there are ticks, and no two labels touch."""
    near = (_estimate_width(a + b) / 2 + 8 > scale(y) - scale(x) for (x, a), (y, b) in pairwise(ticks))
    return bool(ticks) and not any(near)


def _make_y_axis(values: list[float], label: str, bottom: float) -> Axis:
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-9):
        low, high = low - 0.05 * (abs(low) or 1), high + 0.05 * (abs(high) or 1)
    ends = [
        (step, step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9))
        for step in (choose_step(high - low, n_steps) for n_steps in (5, 8))
    ]
    # Smaller steps where the larger would leave a third of the axis empty.
    step, low, high = ends[0] if ends[0][2] - ends[0][1] < 1.5 * (high - low) else ends[1]
    return Axis(_make_scale(low, high, bottom, TOP), _place_stepped(step, low, high), label, bottom, TOP)


SMALL = 0.8
"""The size of the markers of points alone, relative to those on lines."""
NAME_HEIGHT, NAME_DISTANCE = 13, 7
"""The height of a name beside a point, and its distance from the point."""


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Return whether it has an area in common with another rectangle."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)

    def lies_in(self, other: Box) -> bool:
        """Return whether all of it is inside another rectangle."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.top <= self.top and self.bottom <= other.bottom


def _draw_plane(panel: Panel, names: Sequence[str], size: Size) -> Chart:
    """Return lines or points on a plane; points without labels of axes are a map, and have no axes."""
    drawn = [(each.name, each.select_drawn()) for each in panel.series]
    points = [point for _, series in drawn for point in series]
    if not points:
        return _finish_chart(panel, size, [])
    is_map = panel.kind == "points" and not (panel.x or panel.y)
    x, y, ground = _lay_map(points, size) if is_map else _lay_axes(panel, points, size)
    series = [_draw_series(name, own, names.index(name), x, y, panel.kind) for name, own in drawn]
    labels = _place_names(points, x, y) if panel.kind == "points" else ()
    return _finish_chart(panel, size, [ground, *series, *labels])


def _lay_axes(panel: Panel, points: Sequence[Point], size: Size) -> tuple[Axis, Axis, str]:
    """Return axes that have room for all points, and their drawing, with lines across for the ticks of y."""
    y = _make_y_axis([end for point in points for end in point.interval], panel.y, size[1] - BOTTOM)
    left = max(LEFT, 14 + max(_estimate_width(label) for _, label in y.ticks))
    right, bottom = size[0] - RIGHT, y.start
    x = _make_x_axis([point.x for point in points], panel, (left, right))
    lines = "".join(f"M{left:g} {y.scale(place)}H{right:g}" for place, _ in y.ticks)
    marks = "".join(f"M{x.scale(place)} {bottom:g}v5" for place, _ in x.ticks)
    words = [_draw_text(left - 8, y.scale(place) + 4, label, "end") for place, label in y.ticks]
    words += [_draw_text(x.scale(place), bottom + 20, label, "middle") for place, label in x.ticks]
    words += [_draw_text((left + right) / 2, size[1] - 6, _shorten(x.label, right - left), "middle", "label")]
    words += [_draw_text(4, 14, _shorten(y.label, size[0] - 8), "start", "label")]
    axis = f"M{left:g} {bottom:g}H{right:g}{marks}"
    return x, y, f'<path d="{lines}" class="grid"/><path d="{axis}" class="axis"/>{"".join(words)}'


def _lay_map(points: Sequence[Point], size: Size) -> tuple[Axis, Axis, str]:
    """Return two axes of the same scale without ticks, and a frame."""
    (width, height), edge = size, RIGHT
    across, up = [point.x for point in points], [point.mean for point in points]
    middle = (min(across) + max(across)) / 2, (min(up) + max(up)) / 2
    # Room for the markers at the edge. If all points are in one place, up to rounding, the map still has some size.
    spans = (max(across) - min(across)) / (width - 2 * edge), (max(up) - min(up)) / (height - 2 * edge)
    unit = max(1.1 * max(spans), 1e-9 * max(map(abs, middle))) or 1.0
    half = unit * (width / 2 - edge), unit * (height / 2 - edge)
    ends = edge, width - edge, height - edge, edge
    x = Axis(_make_scale(middle[0] - half[0], middle[0] + half[0], *ends[:2]), [], "", *ends[:2])
    y = Axis(_make_scale(middle[1] - half[1], middle[1] + half[1], *ends[2:]), [], "", *ends[2:])
    return x, y, f'<path d="M{ends[0]} {ends[3]}H{ends[1]:g}V{ends[2]:g}H{ends[0]}z" class="grid"/>'


def _draw_series(name: str, points: Sequence[Point], place: int, x: Axis, y: Axis, kind: PanelKind) -> str:
    """Return the markers of a series; with "lines", larger ones joined by a line, and intervals."""
    lines, shape, resize, style = "", _draw_shape(place), f" scale({SMALL})", ' opacity="0.8"'
    if kind == "lines":
        shape, resize, style = f'<circle r="9" fill="transparent"/>{shape}', "", ""
        line = "L".join(f"{x.scale(point.x)} {y.scale(point.mean)}" for point in points)
        bars = "".join("M{} {}V{}".format(x.scale(point.x), *map(y.scale, point.interval)) for point in points)
        lines = f'<path d="M{line}" class="line"/><path d="{bars}" class="bar"/>' if points else ""
    marks = "".join(
        f'<g class="point" transform="translate({x.scale(point.x)} {y.scale(point.mean)}){resize}">'
        f"<title>{escape(point.describe(name, format_short(point.x)))}</title>{shape}</g>"
        for point in points
    )
    return f'<g style="color:{name_color(place)}"{style}>{lines}{marks}</g>'


def _place_names(points: Sequence[Point], x: Axis, y: Axis) -> Iterator[str]:
    """Yield the labels for which there is room: beside their point, inside the chart, and over no other label."""
    frame, taken = Box(x.start, y.end, x.end, y.start), list[Box]()
    for point in points:
        if not point.label:
            continue
        for anchor, left, top in _list_places(point, x, y):
            box = Box(left, top, left + _estimate_width(point.label), top + NAME_HEIGHT)
            if box.lies_in(frame) and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                at = {"start": box.left, "end": box.right, "middle": (box.left + box.right) / 2}[anchor]
                yield _draw_text(at, box.bottom - 3, point.label, anchor, "point-name")
                break


def _list_places(point: Point, x: Axis, y: Axis) -> list[tuple[str, float, float]]:
    """Return the places that the name of a point may have: its anchor, and its upper left corner."""
    across, up, width = x.scale(point.x), y.scale(point.mean), _estimate_width(point.label)
    return [
        ("start", across + NAME_DISTANCE, up - NAME_HEIGHT / 2),
        ("end", across - NAME_DISTANCE - width, up - NAME_HEIGHT / 2),
        ("middle", across - width / 2, up - NAME_DISTANCE - NAME_HEIGHT),
        ("middle", across - width / 2, up + NAME_DISTANCE),
    ]


ROWS_TOP = 8
BAR, BETWEEN, DOT_ROW = 15, 9, 30
"""The height of a bar, the space between two rows of bars, and the height of a row of dots."""
MOST_LABEL = 230
"""The largest width of the labels of bars."""
NUMBER = 70
"""The space for the value at the end of a bar."""


def _draw_rows(panel: Panel, names: Sequence[str], width: float, show: Callable[[float], str]) -> Chart:
    """Return bars from 0 to the means, or dots with their intervals: a row for each label."""
    is_bars, mine = panel.kind == "bars", list_series_names([panel])
    drawn = [(each.name, point) for each in panel.series for point in each.points if math.isfinite(point.mean)]
    labels = list(dict.fromkeys(point.label for _, point in drawn))
    step = len(mine) * BAR + BETWEEN if is_bars else DOT_ROW
    bottom = ROWS_TOP + step * len(labels)
    room = max((_estimate_width(label) + 1 for label in labels), default=0.0)
    room = min(room, MOST_LABEL) if is_bars else room
    left = 11 + room
    size = max(width, left + width / 2), bottom + BOTTOM
    if not labels:
        return _finish_chart(panel, size, [])
    ends = [0.0, *(end for _, point in drawn for end in point.interval)]
    low, high = min(ends), max(ends) if min(ends) < max(ends) else 1.0
    low -= 0.05 * (high - low) if low < 0 and not is_bars else 0.0
    start, end = left + (NUMBER if low < 0 and is_bars else 0), size[0] - (NUMBER if is_bars else 30)
    scale = _make_scale(low, high, start, end)
    ticks = place_linear_ticks(low, high)
    grid = "".join(f"M{scale(place)} {ROWS_TOP}V{bottom:g}" for place, _ in ticks)
    zero = f'<path d="M{scale(0.0)} {ROWS_TOP}V{bottom:g}" class="axis"/>' if is_bars or low < 0 else ""
    parts = [f'<path d="{grid}" class="grid"/>{zero}']
    parts += [_draw_text(scale(place), bottom + 18, label, "middle") for place, label in ticks]
    parts.append(_draw_text((start + end) / 2, size[1] - 6, panel.y, "middle", "label"))
    middles = {
        label: ROWS_TOP + row * step + (step - (BETWEEN if is_bars else 0)) / 2 for row, label in enumerate(labels)
    }
    parts += [_draw_text(left - 8, y + 4, _shorten(label, room), "end", "label") for label, y in middles.items()]
    for name, point in drawn:
        lane = mine.index(name) - (len(mine) - 1) / 2
        place, y = names.index(name), middles[point.label] + lane * (BAR if is_bars else 5)
        title = f"<title>{escape(point.describe(name, point.label, show))}</title>"
        mark = _draw_bar(point, title, y, scale, show) if is_bars else _draw_dot(point, title, y, scale, place)
        parts.append(f'<g style="color:{name_color(place)}">{mark}</g>')
    return _finish_chart(panel, size, parts)


def _draw_dot(point: Point, title: str, y: float, scale: Scale, place: int) -> str:
    low, high = (scale(end) for end in point.interval)
    return (
        f'<path d="M{low} {y:g}H{high}" class="bar"/><g class="point"'
        f' transform="translate({scale(point.mean)} {y:g})">{title}{_draw_shape(place)}</g>'
    )


def _draw_bar(point: Point, title: str, y: float, scale: Scale, show: Callable[[float], str]) -> str:
    """Return a bar from 0 to a mean, its interval, and the mean beyond both."""
    start, end = sorted((scale(0.0), scale(point.mean)))
    low, high = (scale(each) for each in point.interval)
    whisker = f'<path d="M{low} {y:g}H{high}M{low} {y - 3:g}v6M{high} {y - 3:g}v6" class="whisker"/>'
    at, anchor = (max(end, high) + 6, "start") if point.mean >= 0 else (min(start, low) - 6, "end")
    return (
        f'<g class="point">{title}<rect x="{start}" y="{y - BAR / 2 + 1:g}" width="{end - start:.2f}"'
        f' height="{BAR - 2}" fill="currentColor"/>{whisker if low < high else ""}</g>'
        f"{_draw_text(at, y + 4, show(point.mean), anchor)}"
    )
