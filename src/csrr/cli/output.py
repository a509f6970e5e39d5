"""Printing: JSON for machines, tables for people, and what stops a command, in one line."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from csrr._base.text import make_printable, measure_width, show_in_python, show_value, to_plain
from csrr.cli import interrupts
from csrr.cli.interrupts import NOTHING_WRITTEN, Stopped

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


class Failure(click.ClickException):
    """An error whose message needs no addition."""

    exit_code = 2


class Interrupted(Failure):
    """Ctrl-C, or another signal that ends a process; the exit code says which."""

    exit_code = 130

    def __init__(self, message: str = NOTHING_WRITTEN) -> None:
        super().__init__(message)


@contextmanager
def stoppable(message: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn Ctrl-C into `Interrupted` with a message, also where compiled code has made another error of it.

    Without a message, the last one is said that the block has announced (`interrupts.set_last_message`).
    """
    if message is not None:
        interrupts.set_last_message(message)
    say = message or interrupts.find_message
    try:
        yield
    except (KeyboardInterrupt, Stopped):
        raise Interrupted(say()) from None
    except click.ClickException:
        raise
    except Exception as error:
        if not (interrupts.is_caught() or _is_ctrl_c(error)):
            raise
        raise Interrupted(say()) from None
    finally:
        if message is not None:
            interrupts.clear_messages(message)


def _is_ctrl_c(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C, or came of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt | Stopped):
        error = error.__cause__ or error.__context__
    return error is not None


def describe_written(*paths: Path | None) -> Callable[[], str]:
    """Return a function that says which of these files have been written since it was made."""
    before = {path: _identify(path) for path in paths if path is not None}

    def message() -> str:
        written = [str(path) for path, was in before.items() if _identify(path) != was]
        return f"interrupted: {' and '.join(written)} written" if written else NOTHING_WRITTEN

    return message


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def suggest_near(word: str, known: Iterable[str], least: float = 0.6) -> str:
    """Return "; did you mean ...?" with the name nearest to a word, or nothing where none is near.

    How alike two words are is between 0 and 1; names of files, whose endings are alike, ask for more.
    """
    near = get_close_matches(word, list(known), 1, least)
    return f"; did you mean {near[0]}?" if near else ""


def explain(error: Exception) -> str | None:
    """Return the message of an error that the user can correct, or None for an error of csrr itself."""
    if isinstance(error, click.ClickException | click.Abort | click.exceptions.Exit):
        return None
    import csrr

    ours = csrr.DataError | csrr.UnknownIdError | csrr.ParameterError | csrr.ModelFileError | csrr.NotFittedError
    if isinstance(error, ours):
        return str(error)
    if isinstance(error, ImportError) and error.name is None:
        return str(error)  # ours: it says which package to install
    if isinstance(error, MemoryError):
        return "this needs more memory than there is; take a smaller log, or a larger machine"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename is not None else ""
        return f"{named}{error.strerror or error}"
    return None


def spell_option(param: click.Parameter, value: Any, spell: Callable[[Any], str] = str) -> list[str]:
    """Return the words of an option with a value, each with its flag, as `spell` writes values."""
    flag = param.opts[-1]
    if isinstance(value, bool) and getattr(param, "is_flag", False):
        return [flag if value else param.secondary_opts[-1]]
    if isinstance(value, Mapping):
        return [word for name, each in value.items() for word in (flag, f"{name}={each}")]
    several = value if isinstance(value, tuple) else (value,)
    return [word for each in several for word in (flag, "none" if each is False else spell(each))]


def show_option(name: str, value: object = ..., **other_names: str) -> str:
    """Return an argument of the library as an option of the running command, or as in Python where it has none.

    `other_names` are the command's names of options for arguments that are called differently in the library.
    """
    context = click.get_current_context(silent=True)
    for param in context.command.params if context is not None else ():
        if isinstance(param, click.Option) and param.name == other_names.get(name, name):
            words = spell_option(param, value, show_value)
            if value is ...:
                return words[0]
            has_one = len(words) == 2 and words[0].startswith("--") and not isinstance(value, Mapping)
            return "=".join(words) if has_one else " ".join(words)
    return show_in_python(name, value)


def format_line(error: click.ClickException) -> str:
    """Return what `error` says; bad usage also names the help."""
    message = " ".join(error.format_message().split())
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "csrr"
        return f"{message} See {path} --help" if message.endswith("?") else f"{message.rstrip('.')}; see {path} --help"
    return message


def report(error: click.ClickException, as_json: bool) -> int:
    """Print an error to stderr, with `as_json` to stdout too, and return its exit code."""
    message = format_line(error)
    code = 2 if isinstance(error, click.UsageError) else error.exit_code
    if isinstance(error, Interrupted):
        interrupts.take_last_word()
        code = interrupts.exit_code()
    if isinstance(error, Interrupted):
        say(message, err=True)
    else:
        say_error(message)
    if as_json:
        click.echo(json.dumps({"error": message}))
    return code


def discard_output() -> None:
    """Discard output that is still to be written, after its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
