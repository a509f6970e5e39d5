"""Errors of a command in one line; ids and model files that a command line names."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr._base.text import show_in_python, show_value
from csrr.cli import interrupts
from csrr.cli.interrupts import NOTHING_WRITTEN, Stopped
from csrr.cli.output import say, say_error

if TYPE_CHECKING:
    import csrr
    from csrr.data.ids import Id, IdMap


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


def as_id(text: str, known: IdMap) -> Id:
    """Return an id as the model has it: an integer where ids are integers and `text` is one."""
    is_integer = known.ids.dtype != object and re.fullmatch(r"\s*-?[0-9]+\s*", text)
    return int(text) if is_integer else text


@contextmanager
def name_known_ids(model: csrr.Recommender) -> Iterator[None]:
    """Add examples of the ids of a model to an error about an unknown one."""
    import csrr

    try:
        yield
    except csrr.UnknownIdError as error:
        ids, kind = getattr(model, f"{error.kind}s_").ids, error.kind
        some = ", ".join(show_value(each) for each in ids[:3].tolist())
        words = f"{error.args[0]}; the model has {len(ids):,} {kind}s, such as {some}"
        hint = error.hint if "unknown" in click.get_current_context().params else ""
        raise csrr.UnknownIdError(words, ids=error.ids, kind=kind, hint=hint) from None


def as_ids(texts: Iterable[str], known: IdMap, *, unknown: str) -> list[Id]:
    """Return several ids of items, each given alone or, where that is no id itself, in a list with commas."""
    found: list[Id] = []
    for text in texts:
        parts = [text] if as_id(text, known) in known else [part.strip() for part in text.split(",")]
        found += [as_id(part, known) for part in parts if part]
    if unknown == "raise" and known.ids.dtype != object and (strangers := [id for id in found if isinstance(id, str)]):
        known.rows(strangers, "item")
    return found


MODEL_NAME = "model.csrr"
"""What `csrr start` calls the model in its folder."""


def load_model(path: Path) -> Any:
    """Return the model in a file; Failure, with what to do, where there is no such file."""
    import csrr

    find_model(path)
    return csrr.load(path)


def find_model(path: Path) -> None:
    """Raise an error that says what to do if there is no file at a path."""
    if path.is_dir():
        inside = path / MODEL_NAME
        hint = f"did you mean {inside}?" if inside.exists() else "give the path of a file that csrr fit wrote"
        raise Failure(f"{path} is a folder, not a model file; {hint}")
    if not path.exists():
        folder = path.parent
        siblings = [each.name for each in folder.iterdir() if each.suffix == path.suffix] if folder.is_dir() else []
        near = suggest_near(path.name, siblings, 0.8)
        raise Failure(f"there is no model file {path}{near or f'; csrr fit LOG -o {path} makes one'}")


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file begins like a model."""
    from csrr.models.store import MAGIC

    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def check_expendable(path: Path, otherwise: str = "") -> None:
    """Raise an error if `path` holds something that is not a model: perhaps the log; `otherwise` is what else to do."""
    if path.exists() and path.stat().st_size and not is_model_file(path):
        raise Failure(f"{path} exists and is no model; give another name{otherwise}")
