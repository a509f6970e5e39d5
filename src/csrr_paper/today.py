"""Current systems on data that the paper does not have: our measurements, published numbers, and who is first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from csrr._base.text import UNKNOWN, format_fixed, format_percent, to_finite
from csrr.data.errors import DataError
from csrr.report.charts import read_dataclass

OURS = "CSRR()"
TODAY = "Systems of today on other data"
"""The title of the section."""
PRINTED_ELSEWHERE = "Published elsewhere for the same training and test files"


@dataclass(frozen=True)
class TodayColumn:
    """A measure on a data set, by a key; `splits` is the number of splits of a mean, 1 if the split is fixed."""

    key: str
    data: str
    measure: str
    splits: int = 1
    fixed: bool = False


@dataclass(frozen=True)
class TodayRow:
    """A measured system: its means by column, and the number of splits if it is smaller than the column's."""

    system: str
    about: str = ""
    values: dict[str, float] = field(default_factory=dict)
    fewer: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PublishedRow:
    """The published numbers of a system by column, for the same training and test files, and their source."""

    system: str
    source: str
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Today:
    """Systems by columns: measured `rows`, and `published` numbers."""

    columns: list[TodayColumn]
    rows: list[TodayRow]
    published: list[PublishedRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    command: str = ""

    @classmethod
    def from_json(cls, plain: Any) -> Self:
        """Return the tables from plain values of JSON; raise a DataError for an unknown column or a missing source."""
        return read_dataclass(cls, plain, "today")

    def list_rows(self) -> list[TodayRow | PublishedRow]:
        """Return the measured rows, then the printed ones."""
        return [*self.rows, *self.published]

    def __post_init__(self) -> None:
        known = {column.key for column in self.columns}
        for row in self.list_rows():
            if unknown := [name for name in row.values if name not in known]:
                raise DataError(f"today, {row.system}: {unknown[0]!r} is none of its columns; name it in columns")
        for row in self.published:
            if not row.source.strip():
                raise DataError(f"today, {row.system}: a printed number needs its source; say where it is printed")


@dataclass(frozen=True)
class TodayCell:
    """A number as text, a note, and whether no other number in the column is larger."""

    text: str
    note: str = ""
    best: bool = False


class ShownSystem(NamedTuple):
    """A system, its cells, and the source of published numbers; "" if they were measured."""

    system: str
    cells: list[TodayCell]
    source: str = ""


class ShownColumn(NamedTuple):
    """The header of a column."""

    data: str
    measure: str
    splits: str


@dataclass(frozen=True)
class ShownToday:
    """The section as it is shown: a header for each column, measured rows; printed rows with their sources, in those
    columns that have any."""

    verdict: str
    columns: list[ShownColumn]
    rows: list[ShownSystem]
    printed_columns: list[ShownColumn]
    published: list[ShownSystem]
    abouts: list[tuple[str, str]]
    notes: list[str]
    command: str


def show_today(today: Today) -> ShownToday:
    """Return the section of systems of today with every number as text."""
    best = {column.key: _find_best(today, column.key) for column in today.columns}
    printed = [column for column in today.columns if any(column.key in row.values for row in today.published)]
    return ShownToday(
        verdict=say_places(today),
        columns=[_name_column(column) for column in today.columns],
        rows=[ShownSystem(row.system, _show_cells(today.columns, row, best)) for row in today.rows],
        printed_columns=[_name_column(column) for column in printed],
        published=[ShownSystem(row.system, _show_cells(printed, row, best), row.source) for row in today.published],
        abouts=[(row.system, row.about) for row in today.rows if row.about],
        notes=today.notes,
        command=today.command,
    )


def say_places(today: Today) -> str:
    """Return a sentence on the number of columns in which `CSRR()` is first, and on who is ahead in the others."""
    own = next((row.values for row in today.rows if row.system == OURS), {})
    held = [column for column in today.columns if column.key in own]
    if not held:
        return f"{OURS} was not measured."
    behind = [_say_behind(today, column, own[column.key]) for column in held]
    lost = [words for words in behind if words]
    first = "all" if not lost else "none" if len(lost) == len(held) else str(len(held) - len(lost))
    count = f"{len(held)} column{'s' if len(held) > 1 else ''}"
    return f"{OURS} is first in {first} of {count}" + (f", and behind on {'; '.join(lost)}." if lost else ".")


def _say_behind(today: Today, column: TodayColumn, own: float) -> str:
    """Return the systems with larger numbers in a column, the largest first; "" if there are none."""
    others = [(row.values.get(column.key), row) for row in today.list_rows()]
    ahead = sorted(
        ((value, row) for value, row in others if value is not None and value > own), key=lambda pair: -pair[0]
    )
    if not ahead:
        return ""
    each = ", ".join(
        f"{row.system}{' as printed' if isinstance(row, PublishedRow) else ''} {format_fixed(value)}"
        for value, row in ahead
    )
    lost = format_percent(compute_relative(own, ahead[0][0]), signed=True)
    return f"{column.data}, {column.measure} ({each}; {OURS} {format_fixed(own)}, {lost})"


def _find_best(today: Today, column: str) -> str:
    """Return the largest number of a column as text, so that equal texts are marked together."""
    found = [row.values.get(column) for row in today.list_rows()]
    return format_fixed(max((value for value in found if value is not None), default=None))


def _show_cells(
    columns: Sequence[TodayColumn], row: TodayRow | PublishedRow, best: Mapping[str, str]
) -> list[TodayCell]:
    fewer = row.fewer if isinstance(row, TodayRow) else {}
    cells = []
    for column in columns:
        text = format_fixed(row.values.get(column.key))
        splits = fewer.get(column.key)
        note = "" if splits is None else f"{splits} split{'s' if splits > 1 else ''}"
        cells.append(TodayCell(text, note, text == best[column.key] != UNKNOWN))
    return cells


def _name_column(column: TodayColumn) -> ShownColumn:
    splits = "fixed split" if column.fixed else f"{column.splits} split{'s' if column.splits > 1 else ''}"
    return ShownColumn(column.data, column.measure, splits)


def compute_relative(mean: float, printed: float | None) -> float | None:
    """Return by how much `mean` differs from `printed`, as a share of it; None where that is not defined."""
    ours, theirs = to_finite(mean), to_finite(printed)
    return None if ours is None or not theirs else (ours - theirs) / abs(theirs)
