"""The tables of a summary, with every number already as text: systems by metrics, paired tests, ranks, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from csrr.paper.summary_fields import Part, listed, mapping, parts, text
from csrr.plots.number_text import (
    UNKNOWN,
    count,
    duration,
    fixed,
    half_width,
    known,
    p_value,
    percent,
    relative,
    short,
)

RANKED_BY = "NDCG@5"
TEST_COLUMNS = (
    *("A vs B", "Metric", "A − B", "Interval", "p, t test", "p, Wilcoxon", "Effect size"),
    *("Users better with A", "Users worse with A", "Users"),
)
GROUPS = {"paper": "The paper's systems", "today": "Systems of today"}


@dataclass(frozen=True)
class Cell:
    """A mean of ours, half its interval, the printed value and the relative difference from it; "" for none."""

    mean: str
    half: str
    printed: str
    difference: str
    best: bool

    @property
    def sign(self) -> str:
        """The direction in which ours differs: "up", "down" or "same"."""
        return {"+": "up", "−": "down"}.get(self.difference[:1], "same")


@dataclass(frozen=True)
class Row:
    """A system and its cells, one a column."""

    system: str
    cells: list[Cell]


@dataclass(frozen=True)
class Setting:
    """How a system was set and what that took."""

    system: str
    about: str
    params: str
    tried: str
    tune: str
    fit: str
    evaluate: str
    certificate: str


@dataclass(frozen=True)
class Rank:
    """A system's place by `RANKED_BY` among those with a printed value: ours, and the printed one."""

    system: str
    ours: int
    printed: int


@dataclass(frozen=True)
class Table:
    """One data set under one protocol: rows in groups, and what is said beneath them."""

    title: str
    facts: str
    columns: list[str]
    n_extra: int
    groups: list[tuple[str, list[Row]]]
    note: str
    settings: list[Setting]
    ranks: list[Rank]
    tests: list[tuple[str, ...]]
    command: str


def read_table(part: Part, where: str) -> Table:
    """Return a table of the comparison or of the ablation; `where` names it in errors."""
    rows = parts(part, "rows", where)
    extra = list(dict.fromkeys(name for row in rows for name in mapping(row, "extra", where)))
    columns = [str(name) for name in listed(part, "columns", where)]
    label = text(part, "label", text(part, "data", "data"))
    protocol = text(part, "protocol")
    cells = [dict(mapping(row, "cells", where)) | dict(mapping(row, "extra", where)) for row in rows]
    best = {column: _best(cells, column) for column in (*columns, *extra)}
    lines = [
        (text(row, "group", "paper"), Row(text(row, "system"), [_cell(own.get(c), best[c]) for c in best]))
        for row, own in zip(rows, cells, strict=True)
    ]
    return Table(
        title=f"{label}, protocol “{protocol}”" if protocol else label,
        facts=_facts(part, where),
        columns=[*columns, *extra],
        n_extra=len(extra),
        groups=_grouped(lines),
        note=text(part, "note"),
        settings=[_setting(row, where) for row in rows if row.get("params") or row.get("seconds")],
        ranks=_ranks(rows, cells),
        tests=[_test(each) for each in parts(part, "tests", where)],
        command=text(part, "command"),
    )


def _grouped(lines: Sequence[tuple[str, Row]]) -> list[tuple[str, list[Row]]]:
    """Return (title of the group, its rows), the paper's first; one group alone needs no title."""
    names = sorted({name for name, _ in lines}, key=lambda name: ([*GROUPS, name].index(name), name))
    grouped = [(GROUPS.get(name, name), [row for group, row in lines if group == name]) for name in names]
    return grouped if len(grouped) > 1 else [("", rows) for _, rows in grouped]


def _cell(cell: Any, best: str) -> Cell:
    if not isinstance(cell, Mapping):
        return Cell(UNKNOWN, "", "", "", False)
    mean, half, printed = fixed(cell.get("mean")), half_width(cell), known(cell.get("printed"))
    difference = relative(cell.get("mean"), printed)
    return Cell(
        mean=mean,
        half="" if half is None else f"±{fixed(half)}",
        printed="" if printed is None else fixed(printed),
        difference="" if difference is None else percent(difference, signed=True),
        best=mean == best != UNKNOWN,
    )


def _best(cells: Sequence[Part], column: str) -> str:
    """Return the largest mean of a column as it is shown, so that what reads the same is best together."""
    own = [each.get(column) for each in cells]
    means = [known(cell.get("mean")) for cell in own if isinstance(cell, Mapping)]
    return fixed(max((mean for mean in means if mean is not None), default=None))


def _facts(part: Part, where: str) -> str:
    facts = [f"{count(part[name])} {name[2:]}" for name in ("n_users", "n_items", "n_events") if name in part]
    splits = listed(part, "splits", where)
    if splits:
        facts.append("1 split" if len(splits) == 1 else f"{len(splits)} splits")
    if text(part, "tuned"):
        facts.append(f"parameters chosen on {text(part, 'tuned')}")
    return ", ".join(facts)


def _setting(row: Part, where: str) -> Setting:
    seconds, certificate = mapping(row, "seconds", where), mapping(row, "certificate", where)
    return Setting(
        system=text(row, "system"),
        about=text(row, "about"),
        params=_params(parts(row, "params", where)),
        tried=count(row.get("tried")),
        tune=duration(seconds.get("tune")),
        fit=duration(seconds.get("fit")),
        evaluate=duration(seconds.get("evaluate")),
        certificate=_certificate(certificate),
    )


def _params(chosen: Sequence[Part]) -> str:
    """Return parameters with the value that all splits share, or else with one value a split."""
    names = dict.fromkeys(name for each in chosen for name in each)
    shared, by_split = [], []
    for name in names:
        values = [each.get(name) for each in chosen]
        shown = [short(value) if known(value) is not None else str(value) for value in values]
        if len(set(shown)) == 1:
            shared.append(f"{name} {shown[0]}")
        else:
            by_split.append(f"{name} {', '.join(shown)} by split")
    return "; ".join(([", ".join(shared)] if shared else []) + by_split) or "nothing to choose"


def _certificate(certificate: Part) -> str:
    if not certificate:
        return UNKNOWN
    gap = f"gap {short(certificate.get('gap'))}"
    rank = f"rank {count(certificate['rank'])}" if "rank" in certificate else ""
    return ", ".join(each for each in (gap, rank, text(certificate, "status")) if each)


def _ranks(rows: Sequence[Part], cells: Sequence[Part]) -> list[Rank]:
    """Return the places by `RANKED_BY`, ours first to last, of the systems that have both values."""
    both: list[tuple[str, float, float]] = []
    for row, own in zip(rows, cells, strict=True):
        cell = own.get(RANKED_BY)
        if isinstance(cell, Mapping):
            ours, printed = known(cell.get("mean")), known(cell.get("printed"))
            if ours is not None and printed is not None:
                both.append((text(row, "system"), ours, printed))
    ranks = [
        Rank(name, 1 + sum(other[1] > mine for other in both), 1 + sum(other[2] > theirs for other in both))
        for name, mine, theirs in both
    ]
    return sorted(ranks, key=lambda rank: rank.ours) if len(ranks) > 1 else []


def _test(test: Part) -> tuple[str, ...]:
    """Return a paired comparison of two systems over users, in the order of `TEST_COLUMNS`."""
    return (
        f"{text(test, 'a')} vs {text(test, 'b')}",
        text(test, "metric"),
        fixed(test.get("difference"), signed=True),
        f"{fixed(test.get('low'), signed=True)} to {fixed(test.get('high'), signed=True)}",
        p_value(test.get("p_t")),
        p_value(test.get("p_wilcoxon")),
        fixed(test.get("effect"), 2, signed=True),
        percent(known(test.get("better"))),
        percent(known(test.get("worse"))),
        count(test.get("n_users")),
    )
