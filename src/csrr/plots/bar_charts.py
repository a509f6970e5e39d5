"""Bars, one below the other: a row for each label, a bar for each series, its value at its end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from csrr.plots.charts import (
    BOTTOM,
    Scale,
    Size,
    draw_text,
    estimate_width,
    make_scale,
    name_colour,
    open_chart,
    place_linear_ticks,
    shorten,
)
from csrr.plots.number_text import format_fixed
from csrr.plots.panels import Panel, Point, list_series_names

WIDTH, TOP = 600, 8
BAR, BETWEEN = 15, 9
"""The height of a bar, and the room between two rows."""
MOST_LABEL = 230
"""The room that labels may take."""
NUMBER = 70
"""The room for the value at the end of a bar."""


def measure_bar_chart(panel: Panel) -> Size:
    """Return the width and the height of a panel of bars."""
    rows, n_series = _list_labels(panel), max(1, len(list_series_names([panel])))
    return WIDTH, TOP + len(rows) * (n_series * BAR + BETWEEN) + BOTTOM


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
        middle = TOP + row * step + (step - BETWEEN) / 2
        parts.append(draw_text(left - 8, middle + 4, shorten(label, MOST_LABEL), "end", "label"))
    for each in panel.series:
        at = TOP + mine.index(each.name) * BAR
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
    lines = "".join(f"M{scale(place)} {TOP}V{bottom:g}" for place, _ in ticks)
    words = "".join(draw_text(scale(place), bottom + 18, label, "middle") for place, label in ticks)
    return f'<path d="{lines}" class="grid"/><path d="M{scale(0.0)} {TOP}V{bottom:g}" class="axis"/>{words}'


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
