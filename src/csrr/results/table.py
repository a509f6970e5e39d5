"""Tables of results: shown, turned into other kinds of tables, and written to files, a part at a time."""

from __future__ import annotations

import json
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import AnyArray, to_pandas
from csrr._base.files import atomic_write
from csrr._base.text import (
    TABLE_WIDTH,
    cut_text,
    find_best,
    find_numeric,
    format_cell,
    format_html_table,
    format_html_words,
    format_value,
    make_printable,
    measure_width,
    to_plain,
)
from csrr.parameters import ParameterError

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
        return [to_plain(row) for row in self.table().rows()]

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


class HeadedTable(ResultTable):
    """A table that is shown under a heading."""

    def display_table(self) -> ResultTable:
        """Return the table without its heading.

        Returns
        -------
        table
            The same columns.
        """
        return ResultTable(self.columns, types=self.types)

    def __str__(self) -> str:
        return TabularResult.__repr__(self)

    __repr__ = __str__
    _repr_html_ = TabularResult._repr_html_


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


TABLE_SUFFIXES = (".parquet", ".csv", ".jsonl", ".arrow")
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
    with atomic_write(path) as file, _open_writer(suffix, file, schema) as writer:
        is_armed = spreadsheet and suffix == ".csv"
        yield lambda table: writer.write_table(disarm(table) if is_armed else table)


def write_table_file(path: str | os.PathLike[str], table: pa.Table, *, spreadsheet: bool = False) -> None:
    """Write one table to a file, as `open_table_file` does."""
    with open_table_file(path, table.schema, spreadsheet=spreadsheet) as write:
        write(table)


def check_table_path(path: str | os.PathLike[str]) -> str:
    """Return the ending of a name, if it is one that tables are written to."""
    suffix = Path(path).suffix
    if suffix not in TABLE_SUFFIXES:
        raise ParameterError(f"{os.fspath(path)}: the name must end in {', '.join(TABLE_SUFFIXES)}")
    return suffix


def disarm(table: pa.Table) -> pa.Table:
    """Return a table whose texts are no formulas: those that begin with one of = + - @, a tab or a line end change."""
    for place, column in enumerate(table.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = pc.replace_substring_regex(table.column(place), r"^([=+\-@\t\r\n])", r"'\1", max_replacements=1)
            table = table.set_column(place, column, texts)
    return table


class _JsonLinesWriter(nullcontext[Any]):
    """Writes rows as lines of JSON, with the methods of Arrow's writers."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(self)
        self.file = file

    def write_table(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        self.file.writelines(f"{json.dumps(row)}\n".encode() for row in table.to_pylist())


def _open_writer(suffix: str, file: BinaryIO, schema: pa.Schema) -> Any:
    """Return a writer of tables of `schema`, a context manager, for the ending of a name."""
    from pyarrow import csv, parquet

    if suffix == ".parquet":
        return parquet.ParquetWriter(file, schema)
    if suffix == ".csv":
        return csv.CSVWriter(file, schema)
    return pa.ipc.new_file(file, schema) if suffix == ".arrow" else _JsonLinesWriter(file)


_LEAST = 16
"""The least width that a text is cut to, so that an id or a title can still be recognized."""
_LONGEST_NUMBER = 24
_NUMBERS = re.compile(r"[-+±%.,\d\se]*(?:to[-+±%.,\d\se]*)?")

BestColumns = Mapping[str, Literal["max", "min"]]
"""The end of a column that is best, by the name of the column."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "±": r"$\pm$",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def format_text_table(
    header: Sequence[str], lines: Iterable[Sequence[object]], notes: Sequence[str] | None = None
) -> str:
    """Return the lines under their header, in aligned columns: numbers to the right, the rest to the left.

    Under each line stands its note, where it has one. Where `fit_tables` says how wide a table may be, titles are cut,
    then other texts; what is still too wide is folded.
    """
    body = [list(line) for line in lines]
    cells = [[make_printable(name) for name in header], *([format_cell(value) for value in line] for line in body)]
    widths = [max(map(measure_width, column)) for column in zip(*cells, strict=True)]
    flush, width = find_numeric(len(header), body), TABLE_WIDTH.get().width
    parts, gap = [list(range(len(header)))], 2
    if width is not None:
        least = [_find_least(column) for column in zip(*cells, strict=True)]
        widths, parts, gap = _fit(widths, least, [name == "title" for name in header], width)
    columns = list(zip(cells[0], widths, flush, strict=True))
    filled = [
        [_fill(text, width, flush=right, name=name) for text, (name, width, right) in zip(line, columns, strict=True)]
        for line in cells
    ]
    folded = [[(" " * gap).join(line[place] for place in part).rstrip() for line in filled] for part in parts]
    if notes is not None:
        noted = zip(folded[0], ("", *notes), strict=True)
        folded[0] = [text for line, note in noted for text in (line, *([note] if note else []))]
    return "\n\n".join("\n".join(part) for part in folded)


def _find_least(column: Sequence[str]) -> int:
    """Return the least width of a column, its header first; numbers, with their intervals, are not cut."""
    name, *texts = column
    widest = max(map(measure_width, texts), default=0)
    holds_numbers = widest <= _LONGEST_NUMBER and all(map(_NUMBERS.fullmatch, texts))
    return max(widest if holds_numbers else min(widest, _LEAST), measure_width(name))


def _fit(
    widths: Sequence[int], least: Sequence[int], are_titles: Sequence[bool], width: int
) -> tuple[list[int], list[list[int]], int]:
    """Return widths that fit, the columns of each part of the table, and the gap between them."""
    places = list(range(len(widths)))
    for gap in (2, 1):
        cut = _cut_widths(widths, least, are_titles, width - gap * (len(widths) - 1))
        if sum(cut) + gap * (len(cut) - 1) <= width:
            return cut, [places], gap
    # Two columns side by side: the first, which every part has, and another.
    half = [min(each, max((width - 2) // 2, smallest)) for each, smallest in zip(widths, least, strict=True)]
    return half, _fold(half, width), 2


def _cut_widths(widths: Sequence[int], least: Sequence[int], are_titles: Sequence[bool], room: int) -> list[int]:
    """Return the widths, cut until they fit the room or nothing is left to cut: titles first, then the widest."""
    cut = list(widths)
    while sum(cut) > room:
        longest = max(range(len(cut)), key=lambda place: (cut[place] > least[place], are_titles[place], cut[place]))
        if cut[longest] <= least[longest]:
            break
        cut[longest] -= 1
    return cut


def _fold(widths: Sequence[int], width: int) -> list[list[int]]:
    """Return the columns of each part of a table that is too wide; all of them begin with the first column."""
    parts = [[0]]
    for place in range(1, len(widths)):
        if len(parts[-1]) > 1 and sum(widths[each] + 2 for each in parts[-1]) + widths[place] > width:
            parts.append([0])
        parts[-1].append(place)
    return parts


def _fill(text: str, width: int, *, flush: bool, name: str) -> str:
    """Return a text of that width, cut or with blanks; `name` is that of the column."""
    # What tells ids apart is as often their end.
    text = cut_text(text, width, keep_end=name != "title")
    blanks = " " * (width - measure_width(text))
    return blanks + text if flush else text + blanks


def format_latex_table(
    header: Sequence[str], lines: Iterable[Sequence[object]], best: BestColumns | None = None
) -> str:
    r"""Return the lines under their header as a LaTeX tabular, for \usepackage{booktabs}.

    In the columns that `best` names the largest or smallest number is bold, and what looks the same to four digits.
    """
    body = [list(line) for line in lines]
    cells = [[_format_latex(value) for value in line] for line in body]
    for row, place in find_best(header, body, best or {}):
        cells[row][place] = rf"\textbf{{{cells[row][place]}}}"
    columns = "".join("r" if flush else "l" for flush in find_numeric(len(header), body))
    header_line = " & ".join(map(_escape_latex, header))
    rows = [r"\toprule", rf"{header_line} \\", r"\midrule", *(rf"{' & '.join(line)} \\" for line in cells)]
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *rows, r"\bottomrule", r"\end{tabular}"])


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in " ".join(text.split()))


def _format_latex(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "--" if math.isnan(value) else r"$\infty$" if value > 0 else r"$-\infty$"
    text = _escape_latex(format_value(value))
    return f"$-${text[1:]}" if isinstance(value, int | float) and text.startswith("-") else text
