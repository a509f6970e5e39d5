"""A summary -> what the page and the Markdown both show, in reading order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from csrr.data import DataError
from csrr.paper.page_tables import Table, read_table
from csrr.paper.summary_fields import Part, check_summary, listed, mapping, parts, text
from csrr.plots.charts import drawn_points, line_chart, series_names
from csrr.plots.number_text import UNKNOWN, duration, fixed, half_width, known, short

TITLE = "Robust Cost-Sensitive Learning for Recommendation with Implicit Feedback, reproduced"
VERDICTS = {"holds": "holds", "partly": "holds in part", "fails": "does not hold", "untestable": "cannot be tested"}
MARKS = {"holds": "✓", "partly": "◐", "fails": "✕", "untestable": "–"}
FIGURES = ("cost", "step", "strengths")
BEYOND = ("robustness", "kept", "detection", "push", "cleaning")
"""Figures that the paper does not have, in the order in which they follow its own."""
COMMAND = "csrr reproduce"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, what became of it, and why we say so."""

    claim: str
    where: str
    verdict: str
    evidence: str

    @property
    def words(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.verdict]

    @property
    def mark(self) -> str:
        """The verdict as a sign."""
        return MARKS[self.verdict]


@dataclass(frozen=True)
class Panel:
    """One chart of a figure, and its values: (x, mean and half-width for each series)."""

    title: str
    x: str
    series: list[str]
    svg: str
    values: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Figure:
    """A figure of several panels with one legend."""

    title: str
    caption: str
    names: list[str]
    panels: list[Panel]
    command: str


@dataclass(frozen=True)
class Missing:
    """A part that was not run, and the command that runs it."""

    part: str
    command: str


@dataclass(frozen=True)
class Document:
    """All that is shown."""

    title: str
    quick: bool
    made: list[tuple[str, str]]
    headlines: list[str]
    claims: list[Claim]
    comparison: list[Table]
    ablation: list[Table]
    figures: list[Figure]
    missing: list[Missing]
    protocols: list[tuple[str, str]]
    data_sets: list[tuple[str, str]]
    commands: list[tuple[str, str]]


def read_document(summary: Any) -> Document:
    """Return what is to be shown of a summary; raises a DataError for one that is not of the known format."""
    check_summary(summary)
    comparison = _tables(summary, "comparison")
    ablation = _tables(summary, "ablation")
    figures = _figures(mapping(summary, "figures", ""))
    named = [("Comparison, " + table.title, table.command) for table in comparison]
    named += [("Ablation, " + table.title, table.command) for table in ablation]
    named += [("Figure, " + figure.title, figure.command) for figure in figures]
    return Document(
        title=TITLE,
        quick=bool(summary["made"].get("quick")),
        made=_made(summary["made"]),
        headlines=[tied(str(each)) for each in listed(summary, "headlines", "")],
        claims=[_claim(each) for each in parts(summary, "claims", "")],
        comparison=comparison,
        ablation=ablation,
        figures=figures,
        missing=_missing(summary),
        protocols=[(name, str(words)) for name, words in mapping(summary, "protocols", "").items()],
        data_sets=_data_sets(parts(summary, "comparison", ""), comparison),
        commands=[(name, command) for name, command in named if command],
    )


def _tables(summary: Part, name: str) -> list[Table]:
    return [read_table(each, f"{name} {i}") for i, each in enumerate(parts(summary, name, ""), start=1)]


def _made(made: Part) -> list[tuple[str, str]]:
    """Return (what, its value) for how the results came to be."""
    versions = ", ".join(f"{name} {made[name]}" for name in ("python", "numpy", "scipy", "numba") if made.get(name))
    shown = {
        "Date": text(made, "date"),
        "csrr": text(made, "csrr"),
        "With": versions,
        "Machine": text(made, "machine"),
        "Time": "" if known(made.get("seconds")) is None else duration(made["seconds"]),
        "Command": text(made, "command"),
    }
    return [(name, value) for name, value in shown.items() if value]


def _claim(claim: Part) -> Claim:
    verdict = text(claim, "verdict")
    if verdict not in VERDICTS:
        raise DataError(f"summary, claims: the verdict {verdict!r} is none of {', '.join(VERDICTS)}")
    return Claim(text(claim, "claim"), text(claim, "where"), verdict, tied(text(claim, "evidence")))


def tied(words: str) -> str:
    """Return text whose percent signs stay on the line of their numbers."""
    return words.replace(" %", "\N{NO-BREAK SPACE}%")


def _figures(figures: Part) -> list[Figure]:
    known_first = sorted(figures, key=lambda name: ([*FIGURES, *BEYOND, name].index(name), name))
    return [_figure(name, mapping(figures, name, "figures")) for name in known_first]


def _figure(name: str, figure: Part) -> Figure:
    panels = parts(figure, "panels", f"figure {name}")
    names = series_names(panels)
    return Figure(
        title=text(figure, "title", name),
        caption=text(figure, "caption"),
        names=names,
        panels=[_panel(panel, names) for panel in panels],
        command=text(figure, "command"),
    )


def _panel(panel: Part, names: Sequence[str]) -> Panel:
    title = text(panel, "title")
    lines = {text(each, "name"): drawn_points(each, title) for each in parts(panel, "series", title)}
    places = sorted({point["x"] for points in lines.values() for point in points})
    by_place = {name: {point["x"]: point for point in points} for name, points in lines.items()}
    values = [(short(x), [_value(own.get(x)) for own in by_place.values()]) for x in places]
    return Panel(title, text(panel, "x", "x"), list(lines), line_chart(panel, names), values)


def _value(point: Part | None) -> str:
    if point is None:
        return UNKNOWN
    half = half_width(point)
    note = f" ({point['note']})" if point["note"] else ""
    return fixed(point["mean"]) + (f" ±{fixed(half)}" if half else "") + note


def _missing(summary: Part) -> list[Missing]:
    """Return the parts not run: those the summary names, and those it has nothing of."""
    named = [Missing(text(each, "part"), text(each, "command")) for each in parts(summary, "missing", "")]
    figures = mapping(summary, "figures", "")
    absent = [f"--table {name}" for name in ("comparison", "ablation") if not summary.get(name)]
    absent += [f"--figure {name}" for name in FIGURES if not figures.get(name)]
    silent = [part for part in absent if not any(part in f"{each.part} {each.command}" for each in named)]
    return named + [Missing(part, f"{COMMAND} {part}") for part in silent]


def _data_sets(found: Sequence[Part], tables: Sequence[Table]) -> list[tuple[str, str]]:
    """Return (label, what is in it under each protocol) for each data set once."""
    seen: dict[str, list[str]] = {}
    for part, table in zip(found, tables, strict=True):
        label = text(part, "label", text(part, "data", "data"))
        protocol = f"Protocol “{text(part, 'protocol')}”: " if text(part, "protocol") else ""
        seen.setdefault(label, []).append(f"{protocol}{table.facts}.")
    return [(label, " ".join(facts)) for label, facts in seen.items()]
