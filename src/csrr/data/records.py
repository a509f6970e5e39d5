"""Rows as Python objects, tuples or dicts -> columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from csrr.data.errors import DataError, show_value


class SparseColumns(Mapping[str, Any]):
    """Columns of which every row has only some: lists of values, None where a row has none."""

    def __init__(self) -> None:
        self._cells: dict[str, tuple[array[int], list[Any]]] = {}
        self._n_rows = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Put a row under the others."""
        for name, value in row.items():
            if (cells := self._cells.get(name)) is None:
                cells = self._cells[name] = (array("q"), [])
            cells[0].append(self._n_rows)
            cells[1].append(value)
        self._n_rows += 1

    def __getitem__(self, name: str) -> list[Any]:
        rows, values = self._cells[name]
        if len(rows) == self._n_rows:
            return values
        column: list[Any] = [None] * self._n_rows
        for row, value in zip(rows, values, strict=True):
            column[row] = value
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __len__(self) -> int:
        return len(self._cells)


def is_records(data: object) -> bool:
    """Return whether `as_columns` can take `data`: a list of tuples or dicts. A list of lists may be a matrix."""
    return isinstance(data, list | tuple) and bool(data) and isinstance(data[0], tuple | Mapping)


def as_columns(records: Sequence[Any]) -> Mapping[str, Any]:
    """Return the columns of rows: by the keys of dicts, the fields of named tuples, or numbered from 0."""
    first = records[0]
    if isinstance(first, Mapping):
        columns = SparseColumns()
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise DataError(f"row {row + 1}: {show_value(record)} is not a dict like the rows before it")
            columns.add({str(name): value for name, value in record.items()})
        return columns
    width = len(first)
    for row, record in enumerate(records):
        if not isinstance(record, tuple) or len(record) != width:
            raise DataError(f"row {row + 1}: {show_value(record)} is not a row of {width} values like the first")
    names = getattr(first, "_fields", None) or map(str, range(width))
    return dict(zip(map(str, names), zip(*records, strict=True), strict=True))


def has_names(records: Sequence[Any]) -> bool:
    """Return whether rows say what their columns are called."""
    return isinstance(records[0], Mapping) or hasattr(records[0], "_fields")
