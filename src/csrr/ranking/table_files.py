"""Tables -> a file, a part at a time: Parquet, CSV, JSON lines or Arrow, at once or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from csrr.files import atomic_write
from csrr.parameters import ParameterError

TableWriter = Callable[[pa.Table], None]
"""Writes the rows of a table behind those that were written before."""


@contextmanager
def open_table_file(
    path: str | os.PathLike[str], schema: pa.Schema, *, spreadsheet: bool = False
) -> Iterator[TableWriter]:
    """Give what writes tables of `schema` to a file, which appears at the end; the ending of its name says the format.

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
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = pc.replace_substring_regex(table.column(place), r"^([=+\-@\t\r\n])", r"'\1", max_replacements=1)
            table = table.set_column(place, field, texts)
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
TABLE_SUFFIXES = tuple(_WRITERS)
"""How the name of a table's file may end."""
