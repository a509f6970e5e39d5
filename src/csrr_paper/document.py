"""The content of the page and of the Markdown, in reading order: figures, tables, all numbers as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from csrr._base.text import (
    UNKNOWN,
    format_duration,
    format_fixed,
    format_p_value,
    format_percent,
    format_short,
    to_finite,
)
from csrr.report.charts import draw_document
from csrr.report.svg import Chart, Panel, Point, Series, draw_panel, list_series_names
from csrr_paper.claims import NEAR_IN, PAPERS_BEST, index_tables, list_differences, list_standard, write_notice
from csrr_paper.jobs import FIGURES, TABLES
from csrr_paper.summary_types import (
    STANDARD,
    Cell,
    CertificateFacts,
    Claim,
    Figure,
    Made,
    MissingPart,
    PairedTest,
    ResultPanel,
    Summary,
    SystemRow,
    SystemTable,
    Times,
)
from csrr_paper.today import ShownToday, compute_relative, show_today

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


RANKED_BY = "NDCG@5"
TEST_COLUMNS = (
    *("A vs B", "Metric", "A − B", "Interval", "p, t test", "p, Wilcoxon", "Effect size"),
    *("Users better with A", "Users worse with A", "Users"),
)
GROUPS = {"paper": "Systems of the paper", "today": "Systems that are not in the paper"}


@dataclass(frozen=True)
class ShownCell:
    """A measured mean, half its interval, the printed value and the relative difference from it; "" for none."""

    mean: str
    half: str
    printed: str
    difference: str
    best: bool

    @property
    def sign(self) -> str:
        """The direction in which the mean differs: "up", "down" or "same"."""
        return {"+": "up", "−": "down"}.get(self.difference[:1], "same")


class ShownRow(NamedTuple):
    """A system and its cells, one for each column."""

    system: str
    cells: list[ShownCell]


class ShownSettings(NamedTuple):
    """The parameters of a system, and the times of tuning and fitting."""

    system: str
    about: str
    params: str
    tried: str
    tune: str
    fit: str
    evaluate: str
    certificate: str


class Rank(NamedTuple):
    """A system's rank by `RANKED_BY` among those with a printed value: as measured, and as printed."""

    system: str
    measured: int
    printed: int


@dataclass(frozen=True)
class ShownTable:
    """A table of one data set under one protocol: rows in groups, and notes."""

    title: str
    protocol: str
    facts: str
    columns: list[str]
    n_extra: int
    groups: list[tuple[str, list[ShownRow]]]
    note: str
    settings: list[ShownSettings]
    ranks: list[Rank]
    tests: list[tuple[str, ...]]
    command: str


def show_table(table: SystemTable) -> ShownTable:
    """Return a table of the comparison or of the ablation, with every number as text."""
    extra = list(dict.fromkeys(name for row in table.rows for name in row.extra))
    columns = [*table.columns, *extra]
    cells = [row.cells | row.extra for row in table.rows]
    best = [_find_best(cells, column) for column in columns]
    rows = [
        ShownRow(row.system, [_show_cell(own.get(column), top) for column, top in zip(columns, best, strict=True)])
        for row, own in zip(table.rows, cells, strict=True)
    ]
    return ShownTable(
        title=f"{table.label}, protocol “{table.protocol}”",
        protocol=table.protocol,
        facts=_list_facts(table),
        columns=columns,
        n_extra=len(extra),
        groups=_group([row.group or "paper" for row in table.rows], rows),
        note=table.note,
        settings=[_show_settings(row) for row in table.rows if row.params or row.seconds],
        ranks=_rank(table.rows),
        tests=[_show_test(test) for test in table.tests],
        command=table.command,
    )


def _group(groups: Sequence[str], rows: Sequence[ShownRow]) -> list[tuple[str, list[ShownRow]]]:
    """Return (title of the group, its rows), the paper's first; one group alone needs no title."""
    names = sorted(set(groups), key=lambda name: ([*GROUPS, name].index(name), name))
    if len(names) < 2:
        return [("", list(rows)) for _ in names]
    return [
        (GROUPS.get(name, name), [row for group, row in zip(groups, rows, strict=True) if group == name])
        for name in names
    ]


def _show_cell(cell: Cell | None, best: str) -> ShownCell:
    cell = cell or Cell()
    mean, half = format_fixed(cell.mean), compute_half_width(cell.low, cell.high)
    printed, difference = to_finite(cell.printed), compute_relative(cell.mean, cell.printed)
    return ShownCell(
        mean=mean,
        half="" if half is None else f"±{format_fixed(half)}",
        printed="" if printed is None else format_fixed(printed),
        difference="" if difference is None else format_percent(difference, signed=True),
        best=mean == best != UNKNOWN,
    )


def _find_best(cells: Sequence[dict[str, Cell]], column: str) -> str:
    """Return the largest mean of a column as text, so that equal texts are marked together."""
    means = [to_finite(own[column].mean) for own in cells if column in own]
    return format_fixed(max((mean for mean in means if mean is not None), default=None))


def _list_facts(table: SystemTable) -> str:
    sizes = {"users": table.n_users, "items": table.n_items, "events": table.n_events}
    facts = [f"{format_fixed(number, 0)} {name}" for name, number in sizes.items() if number is not None]
    if table.splits:
        facts.append("1 split" if len(table.splits) == 1 else f"{len(table.splits)} splits")
    if table.tuned:
        facts.append(f"parameters chosen on {'the ' if table.tuned == 'first split' else ''}{table.tuned}")
    return ", ".join(facts)


def _show_settings(row: SystemRow) -> ShownSettings:
    seconds = row.seconds or Times()
    tune, fit, evaluate = map(format_duration, (seconds.tune, seconds.fit, seconds.evaluate))
    params, certificate = _show_params(row.params), _show_certificate(row.certificate)
    return ShownSettings(row.system, row.about, params, format_fixed(row.tried, 0), tune, fit, evaluate, certificate)


def _show_params(chosen: Sequence[dict[str, Any]]) -> str:
    """Return parameters with the value that all splits share, or else with one value for each split."""
    names = dict.fromkeys(name for each in chosen for name in each)
    shared, by_split = [], []
    for name in names:
        values = [each.get(name) for each in chosen]
        shown = [format_short(value) if to_finite(value) is not None else str(value) for value in values]
        if len(set(shown)) == 1:
            shared.append(f"{name} {shown[0]}")
        else:
            by_split.append(f"{name} {', '.join(shown)} by split")
    return "; ".join(([", ".join(shared)] if shared else []) + by_split) or "nothing to choose"


def _show_certificate(certificate: CertificateFacts | None) -> str:
    if certificate is None:
        return UNKNOWN
    rank = "" if certificate.rank is None else f"rank {format_fixed(certificate.rank, 0)}"
    return ", ".join(each for each in (f"gap {format_short(certificate.gap)}", rank, certificate.status) if each)


def _rank(rows: Sequence[SystemRow]) -> list[Rank]:
    """Return the ranks by `RANKED_BY`, the best measured first, of the systems that have both values."""
    both = [
        (row.system, ours, printed)
        for row in rows
        if (cell := row.cells.get(RANKED_BY))
        and (ours := to_finite(cell.mean)) is not None
        and (printed := to_finite(cell.printed)) is not None
    ]
    ranks = [
        Rank(name, 1 + sum(other[1] > mine for other in both), 1 + sum(other[2] > theirs for other in both))
        for name, mine, theirs in both
    ]
    return sorted(ranks, key=lambda rank: rank.measured) if len(ranks) > 1 else []


def _show_test(test: PairedTest) -> tuple[str, ...]:
    """Return a paired comparison of two systems over users, in the order of `TEST_COLUMNS`."""
    return (
        f"{test.a} vs {test.b}",
        test.metric,
        format_fixed(test.difference, signed=True),
        f"{format_fixed(test.low, signed=True)} to {format_fixed(test.high, signed=True)}",
        format_p_value(test.p_t),
        format_p_value(test.p_wilcoxon),
        format_fixed(test.effect, 2, signed=True),
        format_percent(test.better),
        format_percent(test.worse),
        format_fixed(test.n_users, 0),
    )


def compute_half_width(low: float | None, high: float | None) -> float | None:
    """Return half the length of an interval, None where an end is not known."""
    low, high = to_finite(low), to_finite(high)
    return None if low is None or high is None else (high - low) / 2


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


METRICS = (
    ("P@N, precision", "Hits among the first N items of a list, divided by N; the mean over users."),
    ("R@N, recall", "Hits among the first N items, divided by the user's held-out items; the mean over users."),
    (
        "F@N",
        "The harmonic mean of mean precision and mean recall, not the mean of each user's F. It reproduces the "
        "printed cells to 1e-4, except for two, which differ by 4e-4.",
    ),
    (
        "NDCG@N",
        "As the paper computed it: the discounted gain of the hits, divided by the gain of the same hits at the top "
        "of the list; 0 without hits. It measures the order of the hits, not their number. In the protocol “text” it "
        "is the standard NDCG.",
    ),
    (
        "standard NDCG@N",
        "The same gain divided by that of an ideal list of the user's held-out items, as is usual today.",
    ),
)
TUNING = (
    "Parameters are never chosen on test events: candidates are compared by standard NDCG@10 on a tenth of each "
    "user's training events. How many were tried and what was chosen is under each table, and so is whether "
    "parameters were tuned on each split (--tune each) or on the first one for all splits (--tune once). In the "
    "second case, some test events of the other splits are among the events used for tuning."
)
INTERVALS = (
    "A cell is a mean over splits, the best of a column in bold. With the box above a table checked, it also has ± "
    "half the width of the 95 % interval of the mean over users, the printed value, and (measured − printed) / "
    "printed: + is above the printed value, − below. p values are corrected by Holm's method, those of one system "
    "against all others together."
)
DIFFERENCES = (
    "The text counts ratings larger than 3 as positive, but the printed numbers fit ratings of 3 and more. Protocol "
    "“numbers” follows the numbers, “text” the text.",
    "The printed NDCG is normalized by the hits of the list itself, which makes it much higher than precision.",
    "On MovieLens-100K the printed rows of MC-Shift and CSRR fit no protocol that also fits PopRank, BPRMF and WRMF. "
    "5 · P@5 / R@5, the mean number of held-out items of a user weighted by hits, is 16.8 to 17.4 in the former and "
    "11.8 to 13.1 in the latter. “all-ratings” comes nearer to the former.",
    "Regularization strengths are searched as fractions of the strength that gives zero, on a finer grid than the "
    "paper's; c_p on a coarser one. For the paper's systems, the absolute value that was best on validation data is "
    "then used, as in the paper. The paper's own grids are available as csrr tune --space paper.",
    "Algorithm 2 constrains each coordinate of the factors of CSRR-e to [0, 1/√d]. “CSRR-e, boxed” does the same. "
    "The objective only asks for scores in [0, 1]: “CSRR-e” leaves the factors free, and the loss keeps most scores "
    'there. V is solved exactly after each inner loop; the paper\'s single proximal step is v_update="step". The '
    "authors' code is not available.",
    "Without the box constraint and without V, CSRR-II is MC-Shift: all cells have the same weight, and α only "
    "rescales λ₁. The difference between the two rows is the effect of V.",
    "“CSRR, scaled” is tuned like the others. “CSRR, scaled, by rule” and “CSRR()” are not tuned by this protocol. "
    "Their rules and default settings were set with MovieLens and EachMovie among the data sets at hand, so these "
    "tables are not a blind test of them.",
    "In the comparison, the convex models are solved to a certified duality gap instead of for a number of steps. "
    "Their results do not depend on a step size.",
)
