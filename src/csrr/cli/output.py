"""Printing: JSON for machines, tables for people."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from csrr._base.text import make_printable, measure_width, to_plain

_GLUE = "\x1f"
"""Holds an option and its value together where lines are broken."""


def find_width(*, err: bool = False) -> int | None:
    """Return the number of columns of the terminal; None where stdout (or stderr) is not one."""
    stream = sys.stderr if err else sys.stdout
    return shutil.get_terminal_size().columns if stream.isatty() else None


def say(text: object = "", *, err: bool = False, hang: int | None = None) -> None:
    """Print a text for people. All printing goes through here: control characters in data must not reach a terminal.

    A terminal gets lines that fit it, broken between words, and indented by `hang` from the second on; a file or a
    program gets them as they are.
    """
    click.echo(_lay_out(text, err=err, hang=hang), err=err)


def say_command(words: Sequence[str]) -> None:
    """Print a command to be copied: a terminal gets it in lines that a shell takes for one."""
    parts: list[str] = []
    for word in words:
        follows = bool(parts) and parts[-1].startswith("-") and _GLUE not in parts[-1] and not word.startswith("-")
        quoted = make_printable(shlex.quote(word)).replace(" ", _GLUE)
        parts[-1:] = [f"{parts[-1]}{_GLUE}{quoted}"] if follows else [*parts[-1:], quoted]
    width = find_width()
    lines = [f"  {' '.join(parts)}"] if width is None else _wrap(" ".join(parts), width - 2, "  ", "      ")
    click.echo(" \\\n".join(lines).replace(_GLUE, " "))


def _lay_out(text: object, *, err: bool, hang: int | None = None) -> str:
    safe, width = make_printable(str(text), keep="\n\t"), find_width(err=err)
    if width is None:
        return safe
    return "\n".join(each for line in safe.split("\n") for each in _wrap_line(line, width, hang))


def _wrap_line(line: str, width: int, hang: int | None) -> list[str]:
    """Return a line in pieces that fit; all but the first are indented, so that they are seen to belong to it."""
    if measure_width(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return _wrap(line.lstrip(), width, indent, f"{indent}  " if hang is None else " " * hang)


def _wrap(text: str, width: int, first: str, others: str) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, 20),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


@contextmanager
def say_warnings() -> Iterator[None]:
    """Say our own warnings on stderr, a line each; others stay what they are."""
    import csrr

    kinds = (csrr.NoHistoryWarning, csrr.UnknownIdWarning, csrr.DataWarning)
    caught: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            for kind in kinds:
                warnings.simplefilter("always", kind)
            yield
    finally:
        for each in caught:
            if issubclass(each.category, kinds):
                say(f"csrr: {each.message}", err=True)
            else:
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def say_error(message: str) -> None:
    """Print what stops a command, to stderr; its label is red on a terminal that takes colors."""
    label = "csrr: error:"
    colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    shown = _lay_out(f"{label} {message}", err=True)
    if colored:
        shown = click.style(label, fg="red", bold=True) + shown.removeprefix(label)
    click.echo(shown, err=True)


def print_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object; numpy values become plain ones, NaN and infinities null."""
    click.echo(json.dumps(to_plain(data), allow_nan=False))


def summarize_model(model: Any, path: Path) -> dict[str, Any]:
    """Return the size, the parameters and the certificate of a fitted model and its file, for JSON."""
    costs, certificate, chosen = (getattr(model, name, None) for name in ("costs_", "certificate_", "chosen_"))
    return {
        "model": str(path),
        "kind": type(model).__name__,
        "bytes": path.stat().st_size,
        "n_users": len(model.users_),
        "n_items": len(model.items_),
        "n_events": int(model.seen_.nnz),
        "params": model.get_params(),
        "costs": None if costs is None else str(costs),
        "certificate": None if certificate is None else certificate.to_dict(),
        "chosen": None if chosen is None else chosen.summary(),
    }


def describe_fit(model: Any, seconds: float) -> list[str]:
    """Return lines on what a fit chose, and its certificate; of a model without one, the time."""
    chosen, certificate = (getattr(model, name, None) for name in ("chosen_", "certificate_"))
    notes = [] if chosen is None else [each for each in (chosen.note, chosen.growth_note) if each]
    return [*notes, f"{type(model).__name__}, fitted in {seconds:.2f} s" if certificate is None else str(certificate)]
