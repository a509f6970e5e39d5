"""Printing: JSON for machines, tables for people."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.printable import make_printable

if TYPE_CHECKING:
    import pyarrow as pa


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text for people. All that is printed goes through here: what data holds, no terminal shall obey."""
    click.echo(make_printable(str(text), keep="\n\t"), err=err, nl=nl)


@contextmanager
def say_warnings() -> Iterator[None]:
    """Say our own warnings on stderr, a line each; others stay what they are."""
    import csrr

    kinds = (csrr.NoHistoryWarning, csrr.UnknownIdWarning)
    with warnings.catch_warnings(record=True) as told:
        for kind in kinds:
            warnings.simplefilter("always", kind)
        yield
    for each in told:
        if issubclass(each.category, kinds):
            say(f"csrr: {str(each.message).partition(';')[0]}", err=True)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def say_error(message: str) -> None:
    """Print what stops a command, to stderr; its label is red on a terminal that takes colors."""
    label = "csrr: error:"
    colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    click.echo(click.style(label, fg="red", bold=True) if colored else label, err=True, nl=False)
    say(f" {message}", err=True)


def write_csv(table: pa.Table, path: Path, *, spreadsheet: bool = False) -> None:
    """Write a table as CSV; the file appears only when it is complete.

    Values are written as they are, so that what reads the file gets them back. With `spreadsheet`, texts that a
    spreadsheet would run as a formula get an apostrophe in front.
    """
    from pyarrow import csv

    from csrr.files import atomic_write

    with atomic_write(path) as file:
        csv.write_csv(_disarm(table) if spreadsheet else table, file)


def _disarm(table: pa.Table) -> pa.Table:
    """Return a table whose texts are no formulas: those that begin with one of = + - @, a tab or a line end change."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            texts = pc.replace_substring_regex(table.column(place), r"^([=+\-@\t\r\n])", r"'\1", max_replacements=1)
            table = table.set_column(place, field, texts)
    return table


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object; numpy values become plain ones, NaN and infinities null."""
    click.echo(json.dumps(to_plain(data), allow_nan=False))


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    return [to_plain(each) for each in value] if isinstance(value, list | tuple) else str(value)
