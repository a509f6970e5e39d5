"""The figure of the summary: differences of measured values from printed ones, and of current systems from CSRR-I."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from csrr._base.text import UNKNOWN, format_percent
from csrr.report.charts import draw_document
from csrr.report.svg import Chart, Panel, Point, Series, draw_panel
from csrr_paper.claims import index_tables
from csrr_paper.headlines import NEAR_IN, PAPERS_BEST, list_differences, list_standard
from csrr_paper.summary_types import STANDARD, Cell, Summary, SystemTable
from csrr_paper.today import compute_relative

WIDTH = 420
WORDS = (
    (
        f"{NEAR_IN}, measured against printed",
        "Systems of the paper; the bars are 95 % intervals of the measured mean over users.",
        "% difference from the printed value",
    ),
    (
        f"{STANDARD[:1].upper()}{STANDARD[1:]}, against {PAPERS_BEST}",
        "Systems that are not in the paper; to the right of the line is better.",
        f"% difference from {PAPERS_BEST}",
    ),
)
"""The title, the caption and the label of the axis of each chart."""


@dataclass(frozen=True)
class OverviewPart:
    """One chart, and its values as text: a row for each system, a value for each of its data sets, `names`."""

    title: str
    caption: str
    chart: Chart
    names: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Overview:
    """The charts of the figure; `names` are the data sets, one mark each."""

    names: list[str]
    parts: list[OverviewPart]


def make_overview(summary: Summary) -> Overview | None:
    """Return the figure of a summary; None if there is nothing to draw."""
    tables = {table.label: table for table in index_tables(summary.comparison).values()}
    near = {label: _compare_with_print(table) for label, table in tables.items()}
    today = {label: _compare_with_ours(table) for label, table in tables.items()}
    names = [label for label in tables if near[label] or today[label]]
    parts = [
        _draw_part(*words, found, names)
        for words, found in zip(WORDS, (near, today), strict=True)
        if any(found.values())
    ]
    return Overview(names, parts) if parts else None


def draw_picture(overview: Overview) -> str:
    """Return the figure as an SVG document, for pages that cannot contain SVG."""
    charts = [(part.title, part.chart) for part in overview.parts]
    return draw_document("Summary of the results", charts, overview.names, in_page=True)


def _compare_with_print(table: SystemTable) -> dict[str, Point]:
    """Return the difference of each system from its printed value in percent, with the interval of the mean."""
    cells = {row.system: row.cells[NEAR_IN] for row in table.rows if NEAR_IN in row.cells}
    return {name: _to_percent(cells[name], cells[name].printed) for name in list_differences(table)}


def _compare_with_ours(table: SystemTable) -> dict[str, Point]:
    """Return the difference of each current system from the paper's best in percent."""
    means = list_standard(table)
    if PAPERS_BEST not in means:
        return {}
    others = [row.system for row in table.rows if row.group == "today" and row.system in means]
    return {name: _to_percent(Cell(means[name]), means[PAPERS_BEST]) for name in others}


def _to_percent(cell: Cell, base: float | None) -> Point:
    shares = [None if value is None else compute_relative(value, base) for value in (cell.mean, cell.low, cell.high)]
    mean, low, high = (None if each is None else 100 * each for each in shares)
    return Point(mean=math.nan if mean is None else mean, low=low, high=high)


def _draw_part(
    title: str, caption: str, axis: str, found: Mapping[str, dict[str, Point]], names: list[str]
) -> OverviewPart:
    """Return a chart with a row for each system, and its values."""
    systems = list(dict.fromkeys(system for points in found.values() for system in points))
    own = {name: found[name] for name in names if found[name]}
    values = [
        (system, [_show_percent(each[system].mean) if system in each else UNKNOWN for each in own.values()])
        for system in systems
    ]
    series = [
        Series(name, [replace(each[row], label=row) for row in systems if row in each]) for name, each in own.items()
    ]
    panel = Panel(title, "", axis, series=series, kind="dots")
    return OverviewPart(title, caption, draw_panel(panel, names, width=WIDTH, show=_show_percent), list(own), values)


def _show_percent(percent: float) -> str:
    return format_percent(percent / 100, signed=True)
