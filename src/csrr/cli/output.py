"""Printing: JSON for machines, tables for people, and one line that tells how far a fit is."""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.printable import describe_size, make_printable

if TYPE_CHECKING:
    import pyarrow as pa

SECONDS_BETWEEN = 0.05


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text for people. All that is printed goes through here: what data holds, no terminal shall obey."""
    click.echo(make_printable(str(text), keep="\n\t"), err=err, nl=nl)


def write_csv(table: pa.Table, path: Path, *, spreadsheet: bool = False) -> None:
    """Write a table as CSV; the file appears only when it is complete.

    Values are written as they are, so that what reads the file gets them back. With `spreadsheet`, texts that a
    spreadsheet would run as a formula get an apostrophe in front.
    """
    from pyarrow import csv

    from csrr.files import atomic_write
    from csrr.ranking.table_files import disarm

    with atomic_write(path) as file:
        csv.write_csv(disarm(table) if spreadsheet else table, file)


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


class Line:
    """One line on stderr that is written over and over; nothing where stderr is no terminal."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.due = 0.0

    def show(self, text: str, *, now: bool = True) -> None:
        """Write `text` over the line; without `now`, at most every `SECONDS_BETWEEN`."""
        if not self.live or (not now and time.monotonic() < self.due):
            return
        self.due = time.monotonic() + SECONDS_BETWEEN
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{make_printable(text)[:width]}\x1b[K")
        sys.stderr.flush()

    def step(self, step: Any) -> None:
        """Show a step of a fit: the gap or, where only the end of the fit tells it, the objective."""
        aim = f"objective {step.objective:.6g}" if math.isnan(step.gap) else f"gap {step.gap:.1e}"
        self.show(
            f"iteration {step.iteration}  {aim}  rank {step.rank}  {step.seconds:.1f} s",
            now=step.iteration <= 1,
        )

    def show_bytes(self, done: int, total: int | None) -> None:
        """Show how much has been fetched."""
        self.show(describe_size(done) + (f" of {describe_size(total)}" if total else ""), now=done == total)


@contextmanager
def show_live_line() -> Iterator[Line]:
    """Give a `Line`, and clear it at the end, whatever the end is."""
    line = Line()
    try:
        yield line
    finally:
        line.show("")
