"""What stops a command, as one line; ids and model files that a command line names."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from csrr.cli import interrupts
from csrr.cli.interrupts import NOTHING_WRITTEN, Stopped
from csrr.cli.output import say, say_error

if TYPE_CHECKING:
    import csrr
    from csrr.data.ids import Id, IdMap


COLUMNS = ("user", "item", "rating", "weight", "time", "title")


class Failure(click.ClickException):
    """A message that is complete as it is."""

    exit_code = 2


class Interrupted(Failure):
    """Ctrl-C, or another signal that ends a process; the exit code says which."""

    exit_code = 130

    def __init__(self, message: str = NOTHING_WRITTEN) -> None:
        super().__init__(message)


@contextmanager
def stoppable(message: Callable[[], str] | None = None) -> Iterator[None]:
    """Turn Ctrl-C into `Interrupted` with a message, also where compiled code has made another error of it.

    Without a message, the last one is said that the block has announced (`interrupts.say_at_the_end`).
    """
    if message is not None:
        interrupts.say_at_the_end(message)
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
            interrupts.forget(message)


def _is_ctrl_c(error: BaseException | None) -> bool:
    """Return whether an error is Ctrl-C, or came of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt | Stopped):
        error = error.__cause__ or error.__context__
    return error is not None


def tell_written(*paths: Path | None) -> Callable[[], str]:
    """Return a message that says, once it is asked for, which of these files have been written since now."""
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


def explain(error: Exception, options: Iterable[str]) -> str | None:
    """Return the message of an error that the user can mend, its `options` as such, or None for a fault of ours."""
    if isinstance(error, click.ClickException | click.Abort | click.exceptions.Exit):
        return None
    import csrr

    ours = csrr.DataError | csrr.UnknownIdError | csrr.ParameterError | csrr.ModelFileError | csrr.NotFittedError
    if isinstance(error, ours):
        return as_options(str(error), options)
    if isinstance(error, ImportError) and error.name is None:
        return str(error)  # ours: it says which package to install
    if isinstance(error, MemoryError):
        return "this needs more memory than there is; take a smaller log, or a larger machine"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename is not None else ""
        return f"{named}{error.strerror or error}"
    return None


_OF_COLUMNS = rf"(?<![\w-])({'|'.join(COLUMNS)})="
_REWORDINGS: tuple[tuple[str, Any], ...] = (
    (r"csrr\.fetch\('([^']+)'\)", r"`csrr data fetch \1`"),
    (r"call [^;]*? \(on the command line, ([^()]*)\)", r"use \1"),
    (r'unknown="ignore"', "--unknown ignore"),
    (r"^(\w+)(?= asks for columns)", lambda found: f"--{found[1].replace('_', '-')}"),
    (r"header=False", "--no-header"),
    (r"ordered=True", "--ordered"),
    # Weights of event types, as an example spells them in Python.
    (
        r'weights={(("[^"]*": [0-9.]+(, )?)+)}',
        lambda found: re.sub(r'"([^"]*)": ([0-9.]+),?', r"--weight \1=\2", found[1]),
    ),
    (r"(?<![\w-])weights\b(?=[\[=:])", "--weight"),
    (r"(?<=name the column of ids with )item=", "--items-id="),
    (rf"{_OF_COLUMNS}(?=['\d])", r"--\1-column="),
    (rf"{_OF_COLUMNS}False", r"--\1-column=none"),
)
"""Words of the library, and those of the command line in their place."""


def as_options(message: str, options: Iterable[str]) -> str:
    """Return a message of the library with its arguments spelled as options of the command line."""
    options = list(options)
    if "unknown" not in options:
        message = re.sub(r'; unknown="ignore" [^;]*', "", message)
    if "at" in options:
        message = re.sub(r"(?<![\w-])first=", "--at=", message)
    for pattern, words in _REWORDINGS:
        message = re.sub(pattern, words, message)
    for name in options:
        if name not in COLUMNS:
            message = re.sub(rf"(?<![\w-]){name}=", f"--{name.replace('_', '-')}=", message)
    return message


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
        interrupts.claim()
        code = interrupts.exit_code()
    if isinstance(error, Interrupted):
        say(message, err=True)
    else:
        say_error(message)
    if as_json:
        click.echo(json.dumps({"error": message}))
    return code


def hush() -> None:
    """Send what is still to be printed nowhere: the reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_id(text: str, known: IdMap) -> Id:
    """Return an id as the model has it: an integer where ids are integers and `text` is one."""
    is_integer = known.ids.dtype != object and re.fullmatch(r"\s*-?[0-9]+\s*", text)
    return int(text) if is_integer else text


@contextmanager
def tell_known_ids(model: csrr.Recommender) -> Iterator[None]:
    """Say of an unknown id what those of the model are like."""
    import csrr
    from csrr.data.errors import show_value

    try:
        yield
    except csrr.UnknownIdError as error:
        ids, kind = getattr(model, f"{error.kind}s_").ids, error.kind
        some = ", ".join(show_value(each) for each in ids[:3].tolist())
        words = f"{error}; the model has {len(ids):,} {kind}s, such as {some}"
        raise csrr.UnknownIdError(words, ids=error.ids, kind=kind) from None


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
    """Return the model in a file; where there is none, an error says what to do."""
    import csrr

    if path.is_dir():
        inside = path / MODEL_NAME
        hint = f"did you mean {inside}?" if inside.exists() else "give the path of a file that csrr fit wrote"
        raise Failure(f"{path} is a folder, not a model file; {hint}")
    if not path.exists():
        folder = path.parent
        siblings = [each.name for each in folder.iterdir() if each.suffix == path.suffix] if folder.is_dir() else []
        near = suggest_near(path.name, siblings, 0.8)
        raise Failure(f"there is no model file {path}{near or f'; csrr fit LOG -o {path} makes one'}")
    return csrr.load(path)


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
