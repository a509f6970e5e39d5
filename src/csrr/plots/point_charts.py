"""Points that stand alone: a cloud with colors and shapes by series, and names where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from csrr.plots.charts import (
    RIGHT,
    Axis,
    Size,
    describe_point,
    draw_axes,
    draw_shape,
    draw_text,
    estimate_width,
    make_axes,
    make_scale,
    name_colour,
    open_chart,
)
from csrr.plots.panels import Panel, Point

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
