"""A summary -> what the page and the Markdown both show, in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from csrr.paper.jobs import FIGURES, TABLES
from csrr.paper.page_tables import ShownTable, show_table
from csrr.paper.summary_types import Claim, Figure, Made, MissingPart, Summary
from csrr.paper.today import ShownToday, show_today
from csrr.plots.charts import draw_line_chart
from csrr.plots.number_text import UNKNOWN, compute_half_width, format_duration, format_fixed, format_short
from csrr.plots.panels import Panel, Point, list_series_names

TITLE = "Robust Cost-Sensitive Learning for Recommendation with Implicit Feedback, reproduced"
VERDICTS = {
    "holds": ("✓", "holds"),
    "partly": ("◐", "holds in part"),
    "fails": ("✕", "does not hold"),
    "untestable": ("–", "cannot be tested"),
}
"""Each verdict as a sign and in words."""
BEYOND = ("robustness", "kept", "detection", "push", "cleaning")
"""Figures that the paper does not have, in the order in which they follow its own."""


@dataclass(frozen=True)
class ShownPanel:
    """One chart of a figure, and its values: (x, mean and half-width for each series)."""

    title: str
    x: str
    series: list[str]
    svg: str
    values: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class ShownFigure:
    """A figure of several panels with one legend."""

    title: str
    caption: str
    names: list[str]
    panels: list[ShownPanel]
    command: str


@dataclass(frozen=True)
class Document:
    """All that is shown, with every number as text; lists of pairs are (name, what is said of it)."""

    quick: bool
    made: list[tuple[str, str]]
    headlines: list[str]
    claims: list[Claim]
    tables: dict[str, list[ShownTable]]
    figures: list[ShownFigure]
    missing: list[MissingPart]
    protocols: list[tuple[str, str]]
    data_sets: list[tuple[str, str]]
    commands: list[tuple[str, str]]
    today: ShownToday | None = None
    title: str = TITLE


def make_document(summary: Summary) -> Document:
    """Return what is to be shown of a summary."""
    tables: dict[str, list[ShownTable]] = {
        name: [show_table(each) for each in getattr(summary, name)] for name in TABLES
    }
    order = [*FIGURES, *BEYOND, *sorted(summary.figures)]
    figures = [_show_figure(summary.figures[name]) for name in sorted(summary.figures, key=order.index)]
    named = [(name.capitalize(), each.title, each.command) for name, shown in tables.items() for each in shown]
    named += [("Figure", each.title, each.command) for each in figures]
    return Document(
        quick=summary.made.quick,
        made=_list_made(summary.made),
        headlines=[_tie_percents(each) for each in summary.headlines],
        claims=[replace(each, evidence=_tie_percents(each.evidence)) for each in summary.claims],
        tables=tables,
        figures=figures,
        missing=_list_missing(summary),
        protocols=list(summary.protocols.items()),
        data_sets=_list_data_sets(summary, tables["comparison"]),
        commands=[(f"{kind}, {title}", command) for kind, title, command in named if command],
        today=_show_today(summary),
    )


def _list_made(made: Made) -> list[tuple[str, str]]:
    """Return (what, its value) for how the results came to be."""
    versions = {"python": made.python, "numpy": made.numpy, "scipy": made.scipy, "numba": made.numba}
    shown = {
        "Date": made.date,
        "csrr": made.csrr,
        "With": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "Commit": made.commit,
        "Machine": made.machine,
        "Time": "" if made.seconds is None else _describe_time(made),
        "Command": made.command,
    }
    return [(name, value) for name, value in shown.items() if value]


def _describe_time(made: Made) -> str:
    """Return how long the work took and, where it is known, in how many runs and processes."""
    work = format_duration(made.seconds or 0.0)
    runs = [
        f"{each.results} results in {format_duration(each.seconds)}"
        + (f" with {each.workers} workers" if each.workers > 1 else "")
        if each.seconds is not None
        else "one stopped before its end"
        for each in made.runs
    ]
    return f"{work} of work; runs: {', '.join(runs)}" if runs else work


def _tie_percents(words: str) -> str:
    """Return text whose percent signs stay on the line of their numbers."""
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _show_today(summary: Summary) -> ShownToday | None:
    if summary.today is None:
        return None
    shown = show_today(summary.today)
    return replace(shown, verdict=_tie_percents(shown.verdict))


def _show_figure(figure: Figure) -> ShownFigure:
    names = list_series_names(figure.panels)
    panels = [_show_panel(panel, names) for panel in figure.panels]
    return ShownFigure(figure.title, figure.caption, names, panels, figure.command)


def _show_panel(panel: Panel, names: Sequence[str]) -> ShownPanel:
    by_place = {each.name: {point.x: point for point in each.select_drawn()} for each in panel.series}
    places = sorted({x for points in by_place.values() for x in points})
    values = [(format_short(x), [_show_point(own.get(x)) for own in by_place.values()]) for x in places]
    return ShownPanel(panel.title, panel.x, list(by_place), draw_line_chart(panel, names), values)


def _show_point(point: Point | None) -> str:
    if point is None:
        return UNKNOWN
    half = compute_half_width(*point.interval)
    note = f" ({point.note})" if point.note else ""
    return format_fixed(point.mean) + (f" ±{format_fixed(half)}" if half else "") + note


def _list_missing(summary: Summary) -> list[MissingPart]:
    """Return the parts not run: those the summary names, and those it has nothing of."""
    absent = [f"--table {name}" for name in TABLES if not getattr(summary, name)]
    absent += [f"--figure {name}" for name in FIGURES if name not in summary.figures]
    named = [f"{each.part} {each.command}" for each in summary.missing]
    silent = [part for part in absent if not any(part in words for words in named)]
    return summary.missing + [MissingPart(part, f"csrr reproduce {part}") for part in silent]


def _list_data_sets(summary: Summary, shown: Sequence[ShownTable]) -> list[tuple[str, str]]:
    """Return (label, what is in it under each protocol) for each data set once."""
    facts: dict[str, list[str]] = {}
    for table, own in zip(summary.comparison, shown, strict=True):
        facts.setdefault(table.label, []).append(f"Protocol “{table.protocol}”: {own.facts}.")
    return [(label, " ".join(each)) for label, each in facts.items()]
