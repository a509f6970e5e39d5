"""The content of the page and of the Markdown, in reading order, with all numbers as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from csrr._base.text import UNKNOWN, format_duration, format_fixed, format_short
from csrr.report.svg import Panel, Point, draw_panel, list_series_names
from csrr_paper.evidence import write_notice
from csrr_paper.jobs import FIGURES, TABLES
from csrr_paper.method import DIFFERENCES
from csrr_paper.overview import Overview, make_overview
from csrr_paper.page_tables import RANKED_BY, ShownTable, compute_half_width, show_table
from csrr_paper.summary_types import Claim, Figure, Made, MissingPart, ResultPanel, Summary
from csrr_paper.today import ShownToday, show_today

TITLE = "Robust Cost-Sensitive Learning for Recommendation with Implicit Feedback, reproduced"
VERDICTS = {
    "holds": ("✓", "holds"),
    "partly": ("◐", "holds in part"),
    "fails": ("✕", "does not hold"),
    "untestable": ("–", "not judged"),
}
"""The sign of each verdict, and its words."""
BEYOND = ("robustness", "kept", "detection", "push", "cleaning")
"""Figures that the paper does not have, in their order after the paper's figures."""
TUNED = ", tuned"
"""The end of the title of a panel with a tuned model."""
IN_VALUES_OF = {"kept": "robustness"}
"""Figures that are not drawn, because they look like another one; their numbers are among its values."""


@dataclass(frozen=True)
class ShownPanel:
    """One chart of a figure."""

    title: str
    svg: str


@dataclass(frozen=True)
class ShownValues:
    """The values of a panel as text: x, and a mean with half its interval and a note for each series."""

    title: str
    x: str
    series: list[str]
    rows: list[tuple[str, list[tuple[str, str]]]]
    drawn: bool


@dataclass(frozen=True)
class ShownFigure:
    """A figure of several panels with one legend, and the values of these panels and of similar ones."""

    title: str
    caption: str
    names: list[str]
    panels: list[ShownPanel]
    values: list[ShownValues]
    command: str


@dataclass(frozen=True)
class Document:
    """The whole content, with every number as text; lists of pairs are (name, text)."""

    notice: str
    made: list[tuple[str, str]]
    headlines: list[str]
    overview: Overview | None
    claims: list[Claim]
    tables: dict[str, list[ShownTable]]
    figures: list[ShownFigure]
    missing: list[MissingPart]
    protocols: list[tuple[str, str]]
    commands: list[tuple[str, str]]
    differences: list[str]
    today: ShownToday | None = None
    title: str = TITLE


def make_document(summary: Summary) -> Document:
    """Return the content of a summary."""
    tables: dict[str, list[ShownTable]] = {
        name: [show_table(each) for each in getattr(summary, name)] for name in TABLES
    }
    figures = _show_figures(summary.figures)
    named = [(name.capitalize(), each.title, each.command) for name, shown in tables.items() for each in shown]
    named += [("Figure", each.title, each.command) for each in figures]
    return Document(
        notice=write_notice(summary),
        made=_list_made(summary.made),
        headlines=[_tie_percents(each) for each in summary.headlines],
        overview=make_overview(summary),
        claims=[replace(each, evidence=_tie_percents(each.evidence)) for each in summary.claims],
        tables=tables,
        figures=figures,
        missing=_list_missing(summary),
        protocols=list(summary.protocols.items()),
        commands=[(f"{kind}, {title}", command) for kind, title, command in named if command],
        differences=[*DIFFERENCES, *map(_tie_percents, summary.differences)],
        today=_show_today(summary),
    )


def _list_made(made: Made) -> list[tuple[str, str]]:
    """Return (name, value) pairs on how the results were made."""
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
    """Return the time of the work and, if known, the numbers of runs and processes."""
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
    """Return a text in which no line breaks before a percent sign."""
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _show_today(summary: Summary) -> ShownToday | None:
    if summary.today is None:
        return None
    shown = show_today(summary.today)
    return replace(shown, verdict=_tie_percents(shown.verdict))


def _show_figures(found: Mapping[str, Figure]) -> list[ShownFigure]:
    """Return the paper's figures, then the others."""
    order = [*FIGURES, *BEYOND, *sorted(found)]
    alike = {name: whole for name, whole in IN_VALUES_OF.items() if name in found and whole in found}
    return [
        _show_figure(found[name], [found[each] for each, whole in alike.items() if whole == name])
        for name in sorted(found, key=order.index)
        if name not in alike
    ]


def _show_figure(figure: Figure, alike: Sequence[Figure]) -> ShownFigure:
    """Return a figure without similar panels, but with the values of all panels, and of the figures `alike`."""
    drawn = _select_drawn(figure.panels)
    names = list_series_names(drawn)
    panels = [ShownPanel(panel.title, draw_panel(panel, names).svg) for panel in drawn]
    others = [replace(panel, title=f"{panel.title}: {panel.y}") for each in alike for panel in each.panels]
    values = [_show_values(panel, drawn=panel in drawn) for panel in (*figure.panels, *others)]
    return ShownFigure(figure.title, figure.caption, names, panels, values, figure.command)


def _select_drawn(panels: Sequence[ResultPanel]) -> list[ResultPanel]:
    """Return one panel of those that differ only in the metric, and no tuned model beside the same one untuned."""
    metrics: dict[tuple[str, str], list[ResultPanel]] = {}
    for panel in panels:
        metrics.setdefault((panel.title.removesuffix(f", {panel.y}"), panel.x), []).append(panel)
    tuned = {title.removesuffix(TUNED) for title, _ in metrics if title.endswith(TUNED)}
    return [
        next((panel for panel in each if panel.y == RANKED_BY), each[0])
        for (title, _), each in metrics.items()
        if title not in tuned
    ]


def _show_values(panel: Panel, *, drawn: bool) -> ShownValues:
    by_place = {each.name: {point.x: point for point in each.select_drawn()} for each in panel.series}
    places = sorted({x for points in by_place.values() for x in points})
    rows = [(format_short(x), [_show_point(own.get(x)) for own in by_place.values()]) for x in places]
    return ShownValues(panel.title, panel.x, list(by_place), rows, drawn)


def _show_point(point: Point | None) -> tuple[str, str]:
    """Return a point's mean with half its interval, and its note."""
    if point is None:
        return UNKNOWN, ""
    half = compute_half_width(*point.interval)
    return format_fixed(point.mean) + (f" ±{format_fixed(half)}" if half else ""), point.note


def _list_missing(summary: Summary) -> list[MissingPart]:
    """Return the parts that were not run: those that the summary lists, and those without any result."""
    absent = [f"--table {name}" for name in TABLES if not getattr(summary, name)]
    absent += [f"--figure {name}" for name in FIGURES if name not in summary.figures]
    named = [f"{each.part} {each.command}" for each in summary.missing]
    silent = [part for part in absent if not any(part in words for words in named)]
    return summary.missing + [MissingPart(part, f"csrr reproduce {part}") for part in silent]
