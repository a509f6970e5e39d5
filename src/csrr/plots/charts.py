"""Line charts as SVG: points with their intervals, one line a series, colours left to the page's style sheet.

The page gives the variables --series-0 to --series-7, --grid and --muted; text takes the colour around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Any

from csrr.data import DataError
from csrr.paper.summary_fields import Part, listed, parts, text
from csrr.plots.number_text import fixed, known, power_of_ten, short

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 30, 46
CHARACTER = 7.7
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


@dataclass(frozen=True)
class Axis:
    """Where a value is drawn, the ticks and their labels, the axis' own label and where it starts."""

    scale: Scale
    ticks: Ticks
    label: str
    start: float


def nice_step(length: float, n_steps: int) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that covers `length` in at most `n_steps` steps."""
    rough = length / n_steps
    magnitude = 10.0 ** math.floor(math.log10(rough))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= rough * (1 - 1e-9))


def linear_ticks(low: float, high: float, n_steps: int = 5) -> Ticks:
    """Return places and labels of round ticks between `low` and `high`, low < high."""
    return _stepped(nice_step(high - low, n_steps), low, high)


def _stepped(step: float, low: float, high: float) -> Ticks:
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    plain = digits <= 5 and max(abs(low), abs(high)) < 1e6
    places = [i * step for i in range(first, last + 1)]
    return [(place, fixed(place, digits) if plain else short(place)) for place in places]


def log_ticks(low: float, high: float, n_ticks: int = 8) -> Ticks:
    """Return places and labels of ticks on a log axis: powers of ten, or 1-2-5 steps where there are too few."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last > first:
        every = -(-(last - first + 1) // n_ticks)
        return [(10.0**e, power_of_ten(e)) for e in range(first, last + 1, every)]
    steps = [factor * 10.0**e for e in range(first - 1, last + 1) for factor in (1, 2, 5)]
    inside = [place for place in steps if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]
    return [(place, short(place)) for place in inside] if len(inside) > 1 else linear_ticks(low, high)


def line_chart(panel: Part, names: Sequence[str]) -> str:
    """Return a panel as an SVG element; a series has the colour and marker of its place in `names`."""
    title = text(panel, "title", "figure")
    drawn = [(text(each, "name"), drawn_points(each, title)) for each in parts(panel, "series", title)]
    points = [point for _, series in drawn for point in series]
    label = f"{title}: {text(panel, 'y')} against {text(panel, 'x')}, lines for {', '.join(name for name, _ in drawn)}"
    opening = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" class="chart" role="img" aria-label="{escape(label)}">'
    if not points:
        return f'{opening}<text x="{WIDTH / 2}" y="{HEIGHT / 2}" text-anchor="middle">no points</text></svg>'
    y = _y_axis([point[end] for point in points for end in ("low", "high")], text(panel, "y"))
    left = max(LEFT, 14 + max(_width(label) for _, label in y.ticks))
    x = _x_axis([point["x"] for point in points], text(panel, "x"), left, log=bool(panel.get("log")), where=title)
    body = [_axes(x, y), *(_series(name, series, names.index(name), x, y) for name, series in drawn)]
    return f"{opening}{''.join(body)}</svg>"


def marker(place: int) -> str:
    """Return a small SVG of the line and marker of the series at `place`, for a legend."""
    return (
        f'<svg viewBox="-12 -6 24 12" width="24" height="12" aria-hidden="true" style="color:{_colour(place)}">'
        f'<path d="M-12 0H12" stroke="currentColor" stroke-width="2"/>{_marker(place)}</svg>'
    )


def drawn_points(series: Part, where: str) -> list[dict[str, Any]]:
    """Return a series' points that have a place, by x; without an interval `low` and `high` are the mean."""
    found = []
    for point in parts(series, "points", where):
        x, mean = known(point.get("x")), known(point.get("mean"))
        if x is None or mean is None:
            continue
        low, high = known(point.get("low")), known(point.get("high"))
        ends = {"low": mean, "high": mean} if low is None or high is None else {"low": low, "high": high}
        found.append({"x": x, "mean": mean, **ends, "note": text(point, "note")})
    return sorted(found, key=lambda point: point["x"])


def series_names(panels: Sequence[Part]) -> list[str]:
    """Return the names of all series of some panels, each once, in the order they come."""
    return list(dict.fromkeys(text(each, "name") for panel in panels for each in listed(panel, "series", "figure")))


def _x_axis(values: list[float], label: str, left: float, *, log: bool, where: str) -> Axis:
    low, high = min(values), max(values)
    if log and low <= 0:
        raise DataError(f"summary, {where}: x = {low:g} has no place on a log axis; leave the point out or log false")
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 0.5, high + 0.5)
    along: Scale = math.log10 if log else float
    margin = 0.04 * (along(high) - along(low))
    scale = _scale(along, along(low) - margin, along(high) + margin, left, WIDTH - RIGHT)
    # On a short log axis the reader looks for the points themselves: 1/4, 1/2, 1, 2, 4.
    own = [(place, short(place)) for place in sorted(set(values))] if log and high / low < 100 else []
    choices = [own, log_ticks(low, high)] if log else [linear_ticks(low, high, n_steps) for n_steps in (5, 4, 3, 2)]
    return Axis(scale, next((ticks for ticks in choices if _have_room(ticks, scale)), choices[-1]), label, left)


def _have_room(ticks: Ticks, scale: Scale) -> bool:
    """Return whether there are ticks, and no label of one comes near the next."""
    near = ((_width(a) + _width(b)) / 2 + 8 > scale(y) - scale(x) for (x, a), (y, b) in pairwise(ticks))
    return bool(ticks) and not any(near)


def _y_axis(values: list[float], label: str) -> Axis:
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-9):
        low, high = low - 0.05 * (abs(low) or 1), high + 0.05 * (abs(high) or 1)
    step = nice_step(high - low, 5)
    low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return Axis(_scale(float, low, high, HEIGHT - BOTTOM, TOP), _stepped(step, low, high), label, HEIGHT - BOTTOM)


def _scale(along: Scale, low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: round(start + (along(value) - low) / (high - low) * (end - start), 2)


def _axes(x: Axis, y: Axis) -> str:
    left, bottom, right = x.start, y.start, WIDTH - RIGHT
    lines = "".join(f"M{left:g} {y.scale(place)}H{right}" for place, _ in y.ticks)
    marks = "".join(f"M{x.scale(place)} {bottom:g}v5" for place, _ in x.ticks)
    words = [_text(left - 8, y.scale(place) + 4, label, "end") for place, label in y.ticks]
    words += [_text(x.scale(place), bottom + 20, label, "middle") for place, label in x.ticks]
    words += [_text((left + right) / 2, HEIGHT - 6, _shortened(x.label, right - left), "middle", "label")]
    words += [_text(4, 14, _shortened(y.label, WIDTH - 8), "start", "label")]
    axis = f"M{left:g} {bottom:g}H{right}{marks}"
    return f'<path d="{lines}" class="grid"/><path d="{axis}" class="axis"/>{"".join(words)}'


def _text(x: float, y: float, words: str, anchor: str, kind: str = "tick") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words)}</text>'


def _width(words: str) -> float:
    """Return about how wide a text is, rather too much than too little: fonts differ."""
    return CHARACTER * len(words)


def _shortened(words: str, room: float) -> str:
    most = int(room / CHARACTER)
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def _series(name: str, points: list[dict[str, Any]], place: int, x: Axis, y: Axis) -> str:
    line = "L".join(f"{x.scale(p['x'])} {y.scale(p['mean'])}" for p in points)
    bars = "".join(f"M{x.scale(p['x'])} {y.scale(p['low'])}V{y.scale(p['high'])}" for p in points)
    marks = "".join(
        f'<g class="point" transform="translate({x.scale(p["x"])} {y.scale(p["mean"])})">'
        f'<title>{escape(_tooltip(name, p))}</title><circle r="9" fill="transparent"/>{_marker(place)}</g>'
        for p in points
    )
    path = f'<path d="M{line}" class="line"/><path d="{bars}" class="bar"/>' if points else ""
    return f'<g style="color:{_colour(place)}">{path}{marks}</g>'


def _tooltip(name: str, point: dict[str, Any]) -> str:
    note = f"\n{point['note']}" if point["note"] else ""
    interval = f" ({fixed(point['low'])} to {fixed(point['high'])})" if point["low"] < point["high"] else ""
    return f"{name}, {short(point['x'])}: {fixed(point['mean'])}{interval}{note}"


def _marker(place: int) -> str:
    return f'<path d="{MARKERS[place % len(MARKERS)]}" fill="currentColor"/>'


def _colour(place: int) -> str:
    return f"var(--series-{place % N_COLOURS})"
