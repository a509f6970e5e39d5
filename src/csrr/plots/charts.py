"""Line and dot charts as SVG: points with their intervals, colors left to the page's style sheet.

The page gives the variables --series-0 to --series-7, --grid and --muted; text takes the color around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from csrr.data import DataError
from csrr.plots.number_text import format_fixed, format_power_of_ten, format_short
from csrr.plots.panels import DotRow, Panel, PanelKind, Point

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
