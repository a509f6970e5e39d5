"""The tables of a summary, with every number as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from csrr_paper.summary_types import Cell, CertificateFacts, PairedTest, SystemRow, SystemTable, Times
from csrr_paper.today import compute_relative

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
