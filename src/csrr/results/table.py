"""Tables of results: shown, turned into other kinds of tables, and written to files, a part at a time."""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import AnyArray, to_pandas
from csrr._base.files import atomic_write
from csrr._base.text import find_best, format_html_table, format_html_words
from csrr.parameters import ParameterError
from csrr.results.formatting import BestColumns, format_latex_table, format_text_table

if TYPE_CHECKING:
    import pandas as pd


SHOWN = 10
"""The number of rows that a table shows of itself."""
SHOWN_IN_HTML = 20


class TabularResult(ABC):
    """A result with rows: it defines its table once, and can then be shown and written in every way."""

    @abstractmethod
    def table(self) -> ResultTable:
        """Return all of the result as a table.

        Returns
        -------
        table
            Its columns are those of `to_arrow`.
        """

    def display_table(self) -> ResultTable:
        """Return a shorter table for display.

        Returns
        -------
        table
            What LaTeX and HTML show.
        """
        return self.table()

    @abstractmethod
    def _heading(self) -> str:
        """Return the line above the table."""

    def _remarks(self) -> list[str]:
        """Return the sentences below the table."""
        return []

    def _best_columns(self) -> BestColumns:
        """Return the columns in which the best number is marked, and which end that is."""
        return {}

    def to_arrow(self) -> pa.Table:
        """Return the result as an Arrow table.

        Returns
        -------
        table
            The columns of `table`; one with values of several types has them as texts.
        """
        table = self.table()
        types = {"title": pa.string(), **table.types}
        return pa.table({name: _as_arrow(column, types.get(name)) for name, column in table.columns.items()})

    def to_frame(self) -> pd.DataFrame:
        """Return the result as a pandas DataFrame.

        Returns
        -------
        frame
            The columns of `to_arrow`.
        """
        return to_pandas(self.to_arrow())

    def to_list(self) -> list[dict[str, Any]]:
        """Return the result as plain Python values, ready for JSON.

        Returns
        -------
        rows
            A dict for each row of `table`; None where a number is not finite.
        """
        return [{name: _as_plain(value) for name, value in row.items()} for row in self.table().rows()]

    def to_latex(self, *, best: BestColumns | None = None) -> str:
        r"""Return the display table as a LaTeX tabular, for a document with \usepackage{booktabs}.

        Parameters
        ----------
        best
            Columns in which the best number is bold, and whether that is the largest or the smallest:
            ``{"recall": "max", "cost": "min"}``; default: those that the result marks itself, {}: none.

        Returns
        -------
        text
            Numbers to four digits, all else escaped.
        """
        table = self.display_table()
        return format_latex_table(list(table.columns), table.lines(), self._best_columns() if best is None else best)

    def to_html(self, *, best: BestColumns | None = None, rows: int | None = None) -> str:
        """Return the display table as HTML.

        Parameters
        ----------
        best
            As for `to_latex`.
        rows
            The most rows to show; None for all. What is left out is counted.

        Returns
        -------
        text
            Numbers to four digits, long texts cut, all escaped.
        """
        table, best = self.display_table(), self._best_columns() if best is None else best
        header, shown = list(table.columns), table.take(slice(rows))
        cells = find_best(header, list(table.lines()), best) if best else set()
        bold = {(row, place) for row, place in cells if row < len(shown)}
        return format_html_table(header, shown.lines(), len(table) - len(shown), bold)

    def __repr__(self) -> str:
        table = self.display_table()
        return "\n".join([self._heading(), *([str(table)] if len(table) else []), *self._remarks()])

    def _repr_html_(self) -> str:
        table = self.to_html(rows=SHOWN_IN_HTML)
        return "\n".join([format_html_words(self._heading()), table, *map(format_html_words, self._remarks())])


@dataclass(frozen=True, eq=False, repr=False)
class ResultTable(TabularResult):
    """Named columns of one length.

    Attributes
    ----------
    columns
        The columns by name, in order: an array of shape (n_rows,) each.
    types
        The Arrow types of columns whose values may not tell, being unknown one and all. Titles are text without that.
    """

    columns: Mapping[str, AnyArray]
    types: Mapping[str, pa.DataType] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the columns are of one length."""
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns differ in length: {lengths}")

    @staticmethod
    def from_lists(
        columns: Mapping[str, Sequence[Any]], *, types: Mapping[str, pa.DataType] | None = None
    ) -> ResultTable:
        """Return the table of columns of plain values.

        Parameters
        ----------
        columns
            The columns by name, in order; None stands for what is not known.
        types
            As the attribute.

        Returns
        -------
        table
            The table.
        """
        return ResultTable({name: _as_column(values) for name, values in columns.items()}, types=types or {})

    @staticmethod
    def from_rows(rows: Iterable[Mapping[str, Any]], *, types: Mapping[str, pa.DataType] | None = None) -> ResultTable:
        """Return the table of dicts, one a row.

        Parameters
        ----------
        rows
            The rows. Columns are in the order in which their names come up; what a row lacks is None there.
        types
            As the attribute.

        Returns
        -------
        table
            The table.
        """
        rows = list(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        return ResultTable.from_lists({name: [row.get(name) for row in rows] for name in names}, types=types)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> AnyArray:
        """Return the column of that name, shape (n_rows,)."""
        return self.columns[name]

    def lines(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of each row.

        Yields
        ------
        line
            A value for each column.
        """
        return zip(*(column.tolist() for column in self.columns.values()), strict=True)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield a dict for each row.

        Yields
        ------
        row
            The values of a row by the names of their columns.
        """
        for values in self.lines():
            yield dict(zip(self.columns, values, strict=True))

    def take(self, which: slice | AnyArray) -> Self:
        """Return the table of some rows.

        Parameters
        ----------
        which
            A slice, a mask or row numbers.

        Returns
        -------
        table
            A table of the same columns.
        """
        return replace(self, columns={name: column[which] for name, column in self.columns.items()})

    def head(self, n: int = SHOWN) -> Self:
        """Return the table of the first rows.

        Parameters
        ----------
        n
            How many.

        Returns
        -------
        table
            A table of the same columns.
        """
        return self.take(slice(n))

    def table(self) -> ResultTable:
        """Return the table itself.

        Returns
        -------
        table
            The same.
        """
        return self

    def summary(self) -> dict[str, Any]:
        """Return the table as plain Python values, ready for JSON.

        Returns
        -------
        summary
            What `to_list` returns, under "rows".
        """
        return {"rows": self.to_list()}

    def _heading(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        return self.to_html(rows=SHOWN_IN_HTML)

    def __str__(self) -> str:
        return format_text_table(list(self.columns), self.lines())

    def __repr__(self) -> str:
        more = [f"... {len(self) - SHOWN:,} more"] if len(self) > SHOWN else []
        return "\n".join([str(self.head()), *more])


def _as_column(values: Sequence[Any]) -> AnyArray:
    """Return values as an array, shape (n,): of objects, unless they are all numbers or all bools."""
    kinds = {type(value) for value in values}
    if kinds in ({bool}, {int}, {float}, {int, float}):
        return np.asarray(values)
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column


def _as_arrow(column: AnyArray, kind: pa.DataType | None) -> pa.Array:
    if kind is None and column.dtype != np.object_:
        return pa.array(column)
    try:
        return pa.array(column.tolist(), kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in column.tolist()])


def _as_plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


TableWriter = Callable[[pa.Table], None]
"""Writes the rows of a table behind those that were written before."""


@contextmanager
def open_table_file(
    path: str | os.PathLike[str], schema: pa.Schema, *, spreadsheet: bool = False
) -> Iterator[TableWriter]:
    """Give a function that writes tables of `schema` to a file, which appears at the end; its name ends in the format.

    With `spreadsheet`, texts of a CSV that a spreadsheet would run as a formula get an apostrophe in front.
    """
    suffix = check_table_path(path)
    with atomic_write(path) as file, _WRITERS[suffix](file, schema) as write:
        yield (lambda table: write(disarm(table))) if spreadsheet and suffix == ".csv" else write


def write_table_file(path: str | os.PathLike[str], table: pa.Table, *, spreadsheet: bool = False) -> None:
    """Write one table to a file, as `open_table_file` does."""
    with open_table_file(path, table.schema, spreadsheet=spreadsheet) as write:
        write(table)


def check_table_path(path: str | os.PathLike[str]) -> str:
    """Return the ending of a name, if it is one that tables are written to."""
    suffix = Path(path).suffix
    if suffix not in _WRITERS:
        raise ParameterError(f"{os.fspath(path)}: the name must end in {', '.join(_WRITERS)}")
    return suffix


def disarm(table: pa.Table) -> pa.Table:
    """Return a table whose texts are no formulas: those that begin with one of = + - @, a tab or a line end change."""
    for place, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = pc.replace_substring_regex(table.column(place), r"^([=+\-@\t\r\n])", r"'\1", max_replacements=1)
            table = table.set_column(place, column, texts)
    return table


@contextmanager
def _open_parquet(file: BinaryIO, schema: pa.Schema) -> Iterator[TableWriter]:
    from pyarrow import parquet

    with parquet.ParquetWriter(file, schema) as writer:
        yield writer.write_table


@contextmanager
def _open_csv(file: BinaryIO, schema: pa.Schema) -> Iterator[TableWriter]:
    from pyarrow import csv

    with csv.CSVWriter(file, schema) as writer:
        yield writer.write_table


@contextmanager
def _open_json_lines(file: BinaryIO, _schema: pa.Schema) -> Iterator[TableWriter]:
    yield lambda table: file.writelines(f"{json.dumps(row)}\n".encode() for row in table.to_pylist())


@contextmanager
def _open_arrow(file: BinaryIO, schema: pa.Schema) -> Iterator[TableWriter]:
    with pa.ipc.new_file(file, schema) as writer:
        yield writer.write_table


_WRITERS: dict[str, Any] = {
    ".parquet": _open_parquet,
    ".csv": _open_csv,
    ".jsonl": _open_json_lines,
    ".arrow": _open_arrow,
}
