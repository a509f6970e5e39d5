"""A panel -> the chart of its kind, and its size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import Literal, NamedTuple

from csrr._base.text import format_fixed, format_power_of_ten, format_short
from csrr.data import DataError

PanelKind = Literal["lines", "points", "bars"]
"""Points joined by lines; points alone; or a bar for each point, from 0 to its mean."""


@dataclass(frozen=True)
class Point:
    """A mean at `x`, its interval, and what else is worth knowing; a point whose place is not known is not drawn.

    `label` is written beside a point that stands alone, where there is room, and before a bar. `splits` is how many
    splits of the data the mean is of, where it is of any.
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
        """The ends of the interval, both the mean where it has none."""
        if self.low is None or self.high is None or not math.isfinite(self.low + self.high):
            return self.mean, self.mean
        return self.low, self.high


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str = ""
    points: list[Point] = field(default_factory=list)

    def select_drawn(self) -> list[Point]:
        """Return the points that have a place, by x."""
        drawn = [point for point in self.points if math.isfinite(point.x) and math.isfinite(point.mean)]
        return sorted(drawn, key=lambda point: point.x)


@dataclass(frozen=True)
class Panel:
    """One chart: its title, the labels of its axes and its series; with `log`, x is on a log scale.

    Bars lie one below the other, a row for each label of a point: `x` says what the rows are, `y` what the lengths.
    """

    title: str = ""
    x: str = ""
    y: str = ""
    log: bool = False
    series: list[Series] = field(default_factory=list)
    kind: PanelKind = field(default="lines", kw_only=True)


@dataclass(frozen=True)
class DotRow:
    """A line of a dot chart: what it is of, and a point with its interval for each series, by name."""

    label: str
    points: dict[str, Point]


def list_series_names(panels: Sequence[Panel]) -> list[str]:
    """Return the names of all series of some panels, each once, in the order they come."""
    return list(dict.fromkeys(each.name for panel in panels for each in panel.series))


WIDTH, HEIGHT = 360, 250
SIZE = (WIDTH, HEIGHT)
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 30, 46
CHARACTER = 7.7
DOT_WIDTH, DOT_ROW, DOT_TOP = 720, 30, 8
N_COLOURS = 8
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


@dataclass(frozen=True)
class Axis:
    """Where a value is drawn, the ticks and their labels, the axis' own label, and where it starts and ends."""

    scale: Scale
    ticks: Ticks
    label: str
    start: float
    end: float


def choose_step(length: float, n_steps: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that covers `length` in at most `n_steps` steps."""
    rough = length / n_steps
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
    """Return places and labels of ticks on a log axis: powers of ten, or 1-2-5 steps where these are one or two."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last > first + 1:
        every = -(-(last - first + 1) // n_ticks)
        return [(10.0**e, format_power_of_ten(e)) for e in range(first, last + 1, every)]
    steps = [factor * 10.0**e for e in range(first - 1, last + 1) for factor in (1, 2, 5)]
    inside = [place for place in steps if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]
    return [(place, format_short(place)) for place in inside] if len(inside) > 1 else place_linear_ticks(low, high)


def draw_line_chart(panel: Panel, names: Sequence[str], size: Size = SIZE) -> str:
    """Return a panel as an SVG element; a series has the color and marker of its place in `names`."""
    drawn = [(each.name, each.select_drawn()) for each in panel.series]
    points = [point for _, series in drawn for point in series]
    title = panel.title or "figure"
    label = f"{title}: {panel.y} against {panel.x}, lines for {', '.join(name for name, _ in drawn)}"
    if not points:
        return open_chart(label, size) + draw_text(size[0] / 2, size[1] / 2, "no points", "middle") + "</svg>"
    x, y = make_axes(panel, points, size)
    body = [draw_axes(x, y, size), *(_draw_series(name, series, names.index(name), x, y) for name, series in drawn)]
    return f"{open_chart(label, size)}{''.join(body)}</svg>"


def open_chart(label: str, size: Size) -> str:
    """Return the tag that a chart begins with; `label` says what it shows to those who do not see it."""
    return f'<svg viewBox="0 0 {size[0]:g} {size[1]:g}" class="chart" role="img" aria-label="{escape(label)}">'


def make_axes(panel: Panel, points: Sequence[Point], size: Size) -> tuple[Axis, Axis]:
    """Return the two axes of a panel on which all of the points have their places."""
    y = _make_y_axis([end for point in points for end in point.interval], panel.y, size[1] - BOTTOM)
    left = max(LEFT, 14 + max(estimate_width(label) for _, label in y.ticks))
    ends = left, size[0] - RIGHT
    return _make_x_axis([point.x for point in points], panel.x, ends, log=panel.log, where=panel.title or "figure"), y


def draw_dot_chart(
    title: str,
    label: str,
    rows: Sequence[DotRow],
    names: Sequence[str],
    *,
    width: float = DOT_WIDTH,
    show: Callable[[float], str] = format_fixed,
) -> str:
    """Return points with intervals as an SVG element, a line for each row, on an axis with 0 that `label` names.

    `show` writes a value. The chart is wider than `width` where the labels would take more than half of it.
    """
    points = [point for row in rows for point in row.points.values() if math.isfinite(point.mean)]
    bottom = DOT_TOP + DOT_ROW * len(rows)
    height = bottom + BOTTOM
    left = 10 + max((estimate_width(row.label) for row in rows), default=0.0)
    width = max(width, left + width / 2)
    words = f"{title}: {label}, points for {', '.join(names)}"
    opening = f'<svg viewBox="0 0 {width:g} {height}" class="chart" role="img" aria-label="{escape(words)}">'
    if not points:
        return f'{opening}<text x="{width / 2:g}" y="{DOT_ROW}" text-anchor="middle">no points</text></svg>'
    low = min(0.0, *(end for point in points for end in point.interval))
    most = max(0.0, *(end for point in points for end in point.interval))
    most = most if low < most else 1.0
    low -= 0.05 * (most - low) if low < 0 else 0.0
    scale = make_scale(float, low, most, left, width - 30)
    parts = [
        f'<path d="M{scale(place)} {DOT_TOP}V{bottom}" class="grid"/>'
        + draw_text(scale(place), bottom + 18, text, "middle")
        for place, text in place_linear_ticks(low, most)
    ]
    parts += [f'<path d="M{scale(0.0)} {DOT_TOP}V{bottom}" class="axis"/>'] if low < 0 else []
    parts.append(draw_text((left + width - 30) / 2, height - 7, label, "middle", "label"))
    for place, row in enumerate(rows):
        y = DOT_TOP + DOT_ROW * (place + 0.5)
        parts.append(draw_text(left - 10, y + 4, row.label, "end", "label"))
        parts += [_draw_dot(name, row, names.index(name), scale, y, show) for name in row.points]
    return f"{opening}{''.join(parts)}</svg>"


def _draw_dot(name: str, row: DotRow, place: int, scale: Scale, y: float, show: Callable[[float], str]) -> str:
    point = row.points[name]
    if not math.isfinite(point.mean):
        return ""
    y += 5 * (place - (len(row.points) - 1) / 2)
    low, high = (scale(end) for end in point.interval)
    interval = " ({} to {})".format(*map(show, point.interval)) if low < high else ""
    told = escape(f"{name}, {row.label}: {show(point.mean)}{interval}")
    return (
        f'<g style="color:{name_colour(place)}"><path d="M{low} {y:g}H{high}" class="bar"/><g class="point"'
        f' transform="translate({scale(point.mean)} {y:g})"><title>{told}</title>{draw_shape(place)}</g></g>'
    )


def draw_marker(place: int, kind: PanelKind = "lines") -> str:
    """Return a small SVG of what the series at `place` is drawn with, for a legend."""
    line = '<path d="M-12 0H12" stroke="currentColor" stroke-width="2"/>' if kind == "lines" else ""
    drawn = '<path d="M-10-5h20v10h-20z" fill="currentColor"/>' if kind == "bars" else line + draw_shape(place)
    return (
        f'<svg viewBox="-12 -6 24 12" width="24" height="12" aria-hidden="true" style="color:{name_colour(place)}">'
        f"{drawn}</svg>"
    )


def _make_x_axis(values: list[float], label: str, ends: tuple[float, float], *, log: bool, where: str) -> Axis:
    low, high = min(values), max(values)
    if log and low <= 0:
        raise DataError(f"{where}: x = {low:g} has no place on a log axis; leave the point out or log false")
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    along: Scale = math.log10 if log else float
    margin = 0.04 * (along(high) - along(low))
    scale = make_scale(along, along(low) - margin, along(high) + margin, *ends)
    # On a short log axis the reader looks for the points themselves: 1/4, 1/2, 1, 2, 4.
    own = [(place, format_short(place)) for place in sorted(set(values))] if log and high / low < 100 else []
    linear = [place_linear_ticks(low, high, n_steps) for n_steps in (5, 4, 3, 2)]
    choices = [own, place_log_ticks(low, high)] if log else linear
    return Axis(scale, next((ticks for ticks in choices if _have_room(ticks, scale)), choices[-1]), label, *ends)


def _have_room(ticks: Ticks, scale: Scale) -> bool:
    """Return whether there are ticks, and no label of one comes near the next."""
    near = (estimate_width(a + b) / 2 + 8 > scale(y) - scale(x) for (x, a), (y, b) in pairwise(ticks))
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
    return Axis(make_scale(float, low, high, bottom, TOP), _place_stepped(step, low, high), label, bottom, TOP)


def make_scale(along: Scale, low: float, high: float, start: float, end: float) -> Scale:
    """Return where on the way from `start` to `end` a value lies between `low` and `high`, both as `along` has them."""
    return lambda value: round(start + (along(value) - low) / (high - low) * (end - start), 2)


def draw_axes(x: Axis, y: Axis, size: Size) -> str:
    """Return two axes, with lines across the chart for the ticks of y."""
    left, right, bottom = x.start, x.end, y.start
    lines = "".join(f"M{left:g} {y.scale(place)}H{right:g}" for place, _ in y.ticks)
    marks = "".join(f"M{x.scale(place)} {bottom:g}v5" for place, _ in x.ticks)
    words = [draw_text(left - 8, y.scale(place) + 4, label, "end") for place, label in y.ticks]
    words += [draw_text(x.scale(place), bottom + 20, label, "middle") for place, label in x.ticks]
    words += [draw_text((left + right) / 2, size[1] - 6, shorten(x.label, right - left), "middle", "label")]
    words += [draw_text(4, 14, shorten(y.label, size[0] - 8), "start", "label")]
    axis = f"M{left:g} {bottom:g}H{right:g}{marks}"
    return f'<path d="{lines}" class="grid"/><path d="{axis}" class="axis"/>{"".join(words)}'


def draw_text(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    """Return a text at a place."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def estimate_width(words: str) -> float:
    """Return about how wide a text is, rather too much than too little: fonts differ."""
    return CHARACTER * len(words)


def shorten(words: str, room: float) -> str:
    """Return a text, cut where it has no room."""
    most = int(room / CHARACTER)
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def _draw_series(name: str, points: list[Point], place: int, x: Axis, y: Axis) -> str:
    line = "L".join(f"{x.scale(point.x)} {y.scale(point.mean)}" for point in points)
    bars = "".join("M{} {}V{}".format(x.scale(point.x), *map(y.scale, point.interval)) for point in points)
    marks = "".join(
        f'<g class="point" transform="translate({x.scale(point.x)} {y.scale(point.mean)})">'
        f'<title>{escape(describe_point(name, point))}</title><circle r="9" fill="transparent"/>{draw_shape(place)}</g>'
        for point in points
    )
    path = f'<path d="M{line}" class="line"/><path d="{bars}" class="bar"/>' if points else ""
    return f'<g style="color:{name_colour(place)}">{path}{marks}</g>'


def describe_point(name: str, point: Point) -> str:
    """Return what is told of a point that is pointed at."""
    note = f"\n{point.note}" if point.note else ""
    low, high = point.interval
    interval = f" ({format_fixed(low)} to {format_fixed(high)})" if low < high else ""
    return f"{name}, {format_short(point.x)}: {format_fixed(point.mean)}{interval}{note}"


def draw_shape(place: int) -> str:
    """Return the marker of the series at `place`, around the origin."""
    return f'<path d="{MARKERS[place % len(MARKERS)]}" fill="currentColor"/>'


def name_colour(place: int) -> str:
    """Return the color of the series at `place`."""
    return f"var(--series-{place % N_COLOURS})"


POINT_SIZE = (600, 420)
SMALL = 0.8
"""The size of a marker, beside that of a line."""
LETTERS = 13
"""The height of a name."""
AWAY = 7
"""How far from its point a name is."""


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Return whether it has a part in common with another one."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)

    def lies_in(self, other: Box) -> bool:
        """Return whether it has no part outside of another one."""
        across = other.left <= self.left and self.right <= other.right
        return across and other.top <= self.top and self.bottom <= other.bottom


def draw_point_chart(panel: Panel, names: Sequence[str], size: Size = POINT_SIZE) -> str:
    """Return a panel of points as an SVG element; without labels of axes it is a map, and has none."""
    drawn = [(each.name, each.select_drawn()) for each in panel.series]
    points = [point for _, series in drawn for point in series]
    title = panel.title or "figure"
    against = f": {panel.y} against {panel.x}" if panel.x or panel.y else ""
    opening = open_chart(f"{title}{against}, points of {', '.join(name for name, _ in drawn)}", size)
    if not points:
        return opening + draw_text(size[0] / 2, size[1] / 2, "no points", "middle") + "</svg>"
    x, y, ground = _lay_ground(panel, points, size)
    marks = "".join(_draw_marks(name, series, names.index(name), x, y) for name, series in drawn)
    return f"{opening}{ground}{marks}{''.join(_place_names(points, x, y))}</svg>"


def _lay_ground(panel: Panel, points: Sequence[Point], size: Size) -> tuple[Axis, Axis, str]:
    """Return the axes and what is drawn of them: of a map a frame, within which both have one scale."""
    if panel.x or panel.y:
        x, y = make_axes(panel, points, size)
        return x, y, draw_axes(x, y, size)
    (width, height), edge = size, RIGHT
    across, up = [point.x for point in points], [point.mean for point in points]
    middle = (min(across) + max(across)) / 2, (min(up) + max(up)) / 2
    # Room for the markers at the edge; a map of one place, as far as numbers tell, is of some size too.
    spans = (max(across) - min(across)) / (width - 2 * edge), (max(up) - min(up)) / (height - 2 * edge)
    unit = 1.1 * max(spans)
    if unit <= 1e-12 * max(map(abs, middle)):
        unit = 1e-9 * max(map(abs, middle)) or 1.0
    half = unit * (width / 2 - edge), unit * (height / 2 - edge)
    ends = edge, width - edge, height - edge, edge
    x = Axis(make_scale(float, middle[0] - half[0], middle[0] + half[0], *ends[:2]), [], "", *ends[:2])
    y = Axis(make_scale(float, middle[1] - half[1], middle[1] + half[1], *ends[2:]), [], "", *ends[2:])
    return x, y, f'<path d="M{ends[0]} {ends[3]}H{ends[1]:g}V{ends[2]:g}H{ends[0]}z" class="grid"/>'


def _draw_marks(name: str, points: Sequence[Point], place: int, x: Axis, y: Axis) -> str:
    marks = "".join(
        f'<g class="point" transform="translate({x.scale(point.x)} {y.scale(point.mean)}) scale({SMALL})">'
        f"<title>{escape(_describe(name, point))}</title>{draw_shape(place)}</g>"
        for point in points
    )
    return f'<g style="color:{name_colour(place)}" opacity="0.8">{marks}</g>'


def _describe(name: str, point: Point) -> str:
    return f"{point.label}\n{describe_point(name, point)}" if point.label else describe_point(name, point)


def _place_names(points: Sequence[Point], x: Axis, y: Axis) -> Iterator[str]:
    """Yield the labels of points that have room: beside their point, within the chart, and over no other."""
    frame, taken = Box(x.start, y.end, x.end, y.start), list[Box]()
    for point in points:
        if not point.label:
            continue
        for anchor, left, top in _list_places(point, x, y):
            box = Box(left, top, left + estimate_width(point.label), top + LETTERS)
            if box.lies_in(frame) and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                at = {"start": box.left, "end": box.right, "middle": (box.left + box.right) / 2}[anchor]
                yield draw_text(at, box.bottom - 3, point.label, anchor, "beside")
                break


def _list_places(point: Point, x: Axis, y: Axis) -> list[tuple[str, float, float]]:
    """Return where the name of a point may stand: how it is anchored, and its upper left corner."""
    across, up, width = x.scale(point.x), y.scale(point.mean), estimate_width(point.label)
    return [
        ("start", across + AWAY, up - LETTERS / 2),
        ("end", across - AWAY - width, up - LETTERS / 2),
        ("middle", across - width / 2, up - AWAY - LETTERS),
        ("middle", across - width / 2, up + AWAY),
    ]


BAR_WIDTH, BAR_TOP = 600, 8
BAR, BETWEEN = 15, 9
"""The height of a bar, and the room between two rows."""
MOST_LABEL = 230
"""The room that labels may take."""
NUMBER = 70
"""The room for the value at the end of a bar."""


def measure_bar_chart(panel: Panel) -> Size:
    """Return the width and the height of a panel of bars."""
    rows, n_series = _list_labels(panel), max(1, len(list_series_names([panel])))
    return BAR_WIDTH, BAR_TOP + len(rows) * (n_series * BAR + BETWEEN) + BOTTOM


def draw_bar_chart(panel: Panel, names: Sequence[str]) -> str:
    """Return a panel of bars as an SVG element; a series has the color of its place in `names`."""
    size = measure_bar_chart(panel)
    labels, mine = _list_labels(panel), list_series_names([panel])
    opening = open_chart(f"{panel.title or 'figure'}: {panel.y} by {panel.x}, bars for {', '.join(mine)}", size)
    if not labels:
        return opening + draw_text(size[0] / 2, size[1] / 2, "no bars", "middle") + "</svg>"
    points = [point for each in panel.series for point in each.points if math.isfinite(point.mean)]
    ends = [0.0, *(end for point in points for end in point.interval)]
    low, high = min(ends), max(ends) or (0.0 if min(ends) < 0 else 1.0)
    left = 12 + min(MOST_LABEL, max(estimate_width(label) for label in labels))
    scale = make_scale(float, low, high, left + (NUMBER if low < 0 else 0), size[0] - NUMBER)
    step, bottom = len(mine) * BAR + BETWEEN, size[1] - BOTTOM
    parts = [
        _draw_ground(scale, low, high, bottom),
        draw_text((scale(low) + scale(high)) / 2, size[1] - 6, panel.y, "middle", "label"),
    ]
    for row, label in enumerate(labels):
        middle = BAR_TOP + row * step + (step - BETWEEN) / 2
        parts.append(draw_text(left - 8, middle + 4, shorten(label, MOST_LABEL), "end", "label"))
    for each in panel.series:
        at = BAR_TOP + mine.index(each.name) * BAR
        colour = name_colour(names.index(each.name))
        bars = "".join(
            _draw_bar(each.name, point, at + labels.index(point.label) * step, scale)
            for point in each.points
            if math.isfinite(point.mean)
        )
        parts.append(f'<g style="color:{colour}">{bars}</g>')
    return f"{opening}{''.join(parts)}</svg>"


def _list_labels(panel: Panel) -> list[str]:
    """Return the labels of the points that are drawn, each once, in the order they come."""
    points = (point for each in panel.series for point in each.points)
    return list(dict.fromkeys(point.label for point in points if math.isfinite(point.mean)))


def _draw_ground(scale: Scale, low: float, high: float, bottom: float) -> str:
    ticks = place_linear_ticks(low, high)
    lines = "".join(f"M{scale(place)} {BAR_TOP}V{bottom:g}" for place, _ in ticks)
    words = "".join(draw_text(scale(place), bottom + 18, label, "middle") for place, label in ticks)
    return f'<path d="{lines}" class="grid"/><path d="M{scale(0.0)} {BAR_TOP}V{bottom:g}" class="axis"/>{words}'


def _draw_bar(name: str, point: Point, top: float, scale: Scale) -> str:
    """Return a bar from 0 to a mean, its interval, and the mean beyond both."""
    start, end = sorted((scale(0.0), scale(point.mean)))
    low, high = (scale(each) for each in point.interval)
    middle, value = top + BAR / 2, format_fixed(point.mean)
    interval = " ({} to {})".format(*map(format_fixed, point.interval)) if low < high else ""
    told = escape(f"{name}, {point.label}: {value}{interval}" + (f"\n{point.note}" if point.note else ""))
    whisker = f'<path d="M{low} {middle:g}H{high}M{low} {middle - 3:g}v6M{high} {middle - 3:g}v6" class="whisker"/>'
    at, anchor = (max(end, high) + 6, "start") if point.mean >= 0 else (min(start, low) - 6, "end")
    return (
        f'<g class="point"><title>{told}</title><rect x="{start}" y="{top + 1:g}" width="{end - start:.2f}"'
        f' height="{BAR - 2}" fill="currentColor"/>{whisker if low < high else ""}</g>'
        f"{draw_text(at, middle + 4, value, anchor)}"
    )


LONE = (600, 320)
"""The size of a chart of lines that has a plot to itself."""


class Chart(NamedTuple):
    """A chart as an SVG element, and its size."""

    svg: str
    size: Size


def draw_panel(panel: Panel, names: Sequence[str], *, alone: bool = False) -> Chart:
    """Return the chart of a panel, larger where it is `alone`; a series has the color of its place in `names`."""
    if panel.kind == "bars":
        return Chart(draw_bar_chart(panel, names), measure_bar_chart(panel))
    if panel.kind == "points":
        size = POINT_SIZE if alone else SIZE
        return Chart(draw_point_chart(panel, names, size), size)
    size = LONE if alone else SIZE
    return Chart(draw_line_chart(panel, names, size), size)
