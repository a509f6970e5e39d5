"""A panel -> the chart of its kind, and its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from csrr.plots.point_charts import POINT_SIZE, draw_point_chart
from csrr.plots.bar_charts import draw_bar_chart, measure_bar_chart
from csrr.plots.charts import SIZE, Size, draw_line_chart
from csrr.plots.panels import Panel

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
