"""Damaged and odd files: what is read must be a sound log, or an error that says what is wrong with which file."""

from __future__ import annotations

import json
import resource
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import csrr
from csrr._base.text import make_printable
from csrr.cli import app
from csrr.data.log import join_logs
from fuzz.alter import alter
from fuzz.arrow_tables import draw_table_file
from fuzz.campaign import Finding, set_environment
from fuzz.log_files import Files, make_bombs, make_good_files, pack

MAX_BYTES = 4 << 20
ALLOWANCE = 48 << 20
"""What reading may take beside four times the file, or four times what it may unpack to."""
OPTIONS: tuple[dict[str, Any], ...] = (
    *({"separator": each} for each in (",", ";", "\t", "::", "§", "ab", " ", "\x00", '"', "\n", "\udcff", "\x01")),
    *({"header": True}, {"header": False}, {"header": False, "user": 0, "item": 1, "rating": 2}),
    *({"format": each} for each in ("text", "json", "arrow", "parquet", "user-lists", "ml-1m", "eachmovie", "xlsx")),
    *({"user": 1, "item": 0}, {"user": "item", "item": "user"}, {"user": 99}, {"title": "user"}, {"time": "title"}),
    *({"rating": "time"}, {"weight": "rating"}, {"time": False, "title": False, "weight": False, "rating": False}),
    *(
        {"on_bad_rows": "skip"},
        {"on_bad_rows": "skip", "header": False},
        {"missing": []},
        {"query": "SELECT * FROM log"},
    ),
    *({"ordered": True}, {"ordered": True, "time": False}, {"ordered": True, "on_bad_rows": "skip"}),
    *({"event": each, "weights": {"a": 1, "7": 0, "title 1": 2}, "target": "a"} for each in ("title", "extra", "item")),
    *({"min_rating": 3.0}, {"min_rating": float("nan")}, {"min_weight": 1.0}, {"part": "train"}, {"part": "test"}),
)
CLI_NAMES = {name: f"--{name}-column" for name in ("user", "item", "rating", "weight", "time", "title")}
CLI_NAMES["query"] = "--sql"


class Logs:
    """A file read by `csrr.read` or by the command line. A case is a line of JSON, then the bytes of the file."""

    name = "logs"
    about = "files of every format, damaged: a sound log or a DataError naming the file; no crash, no hang, no bomb"
    patience = 20.0

    def __init__(self) -> None:
        self._good: list[Files] = []
        self.bombs: list[tuple[str, bytes]] = []

    def prepare(self) -> None:
        """Make the files and load what reads them."""
        self._good, self.bombs = make_good_files(), make_bombs()
        with tempfile.TemporaryDirectory() as folder:  # a first run loads much that stays
            file = Path(folder) / "log.csv"
            file.write_text("user,item,title\n1,2,a\n2,3,b\n")
            _check_read(file, {})
            _check_command(file, {})

    def make(self, rng: np.random.Generator) -> bytes:
        """Draw a file and do harm to it, to its packing, or to none."""
        options = {} if rng.random() < 0.7 else OPTIONS[int(rng.integers(len(OPTIONS)))]
        kind = rng.random()
        if kind < 0.005:
            name, data = self.bombs[int(rng.integers(len(self.bombs)))]
        elif kind < 0.35:
            name, data = draw_table_file(rng)
            if rng.random() < 0.3:
                data = alter(data, rng)
        else:
            files = dict(self._good[int(rng.integers(len(self._good)))])
            if rng.random() < 0.7:
                harmed = list(files)[int(rng.integers(len(files)))]
                files[harmed] = alter(files[harmed], rng)
            if rng.random() < 0.03:  # somebody else's bytes under this name
                files[next(iter(files))] = next(iter(self._good[int(rng.integers(len(self._good)))].values()))
            name, data = pack(files, rng)
            if rng.random() < 0.4:
                data = alter(data, rng)
        about = {"name": name, "options": options}
        if rng.random() < 0.02 and "weights" not in options:
            about["cli"] = True
        return json.dumps(about).encode() + b"\n" + data

    def check(self, case: bytes, folder: Path) -> None:
        """Read the file, within limits of memory."""
        head, _, data = case.partition(b"\n")
        about = json.loads(head)
        path = folder / Path(about["name"]).name
        path.write_bytes(data)
        limits = {"CSRR_MAX_BYTES": str(MAX_BYTES), "CSRR_DATA_DIR": str(folder / "none")}
        most = 4 * (len(data) + MAX_BYTES) + ALLOWANCE
        with limit_process(most, path.name), set_environment(limits), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", csrr.DataWarning)
            if about.get("cli"):
                _check_command(path, about["options"])
            else:
                _check_read(path, about["options"])


@contextmanager
def limit_process(most: int, what: str) -> Iterator[None]:
    """A finding where the process grows by more than `most` bytes, Arrow's memory included.

    `limit_memory` does not see Arrow's. Nor may it run beside Arrow's threads: Python 3.11 can crash where tracemalloc
    stops while another thread asks for memory (python/cpython#128679).
    """
    before = _read_resident()
    yield
    if (grown := _read_peak() - before) > most:
        raise Finding(f"{what} took {grown:,} bytes of memory, more than {most:,}")


def _read_resident() -> int:
    """The memory that the process has now; where the system can, its peak is set back to that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return _read_peak()


def _read_peak() -> int:
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _check_read(path: Path, options: dict[str, Any]) -> None:
    try:
        log = csrr.read(path, **options)
    except csrr.DataError as error:
        check_message(str(error), path)
    except csrr.ParameterError as error:
        check_option(error, options)
    else:
        check_log(log)


def check_option(error: csrr.ParameterError, options: dict[str, Any]) -> None:
    """Raise Finding unless an error begins with an option that was given, and has no meaning for the kind of file."""
    if str(error).partition("=")[0] not in options:
        raise Finding(f"the message names no option that was given: {error}")


def check_message(message: str, path: Path) -> None:
    if path.name not in message:
        raise Finding(f"the message does not name the file: {message[:300]}")
    if len(message) > 2000:
        raise Finding(f"a message of {len(message):,} characters: {message[:300]}")


def check_log(log: csrr.Log, *, is_matrix: bool = False) -> None:
    """A finding where a log is not sound; of a matrix, users and items without events stay."""
    if not len(log):
        raise Finding("a log without events")
    for ids, counts in ((log.users, log.user_counts()), (log.items, log.item_counts())):
        listed = ids.ids.tolist()
        if len(set(listed)) < len(listed) or not all(isinstance(each, int | str) for each in listed):
            raise Finding(f"ids that are not distinct integers or strings: {listed[:5]}")
        if not counts.all() and not is_matrix:
            raise Finding("an id without an event")
    if log.weights is not None and not (np.isfinite(log.weights) & (log.weights > 0)).all():
        raise Finding("a weight that is not finite and positive")
    if log.times is not None and not np.isfinite(log.times).all():
        raise Finding("a time that is not finite")
    if log.titles is not None and not all(each is None or (isinstance(each, str) and each) for each in log.titles):
        raise Finding("a title that is no text")
    X = log.to_csr(weighted=log.weights is not None)
    if X.shape != (log.n_users, log.n_items) or X.nnz != len(log):
        raise Finding("the matrix is not the log")
    # Of numbers far from today, reading guesses another unit.
    is_far = log.times is not None and np.abs(log.times).max() > 1e11
    is_declared = log.times is None and log.is_ordered
    is_plain = not is_matrix and not is_far and log.types is None
    if is_plain and csrr.Log.from_table(log.to_arrow(), ordered=is_declared) != log:
        raise Finding("the log as a table is another log")
    if log.is_ordered:
        _check_order(log)
    train, test = csrr.split(log, 0.5)
    if len(train) + len(test) != len(log):
        raise Finding("a split loses events")
    model = csrr.PopRank().fit(log)
    if not np.isfinite(model.score_rows(np.arange(min(2, log.n_users)))).all():
        raise Finding("a score is not finite")


def _check_order(log: csrr.Log) -> None:
    """A finding where the order of events is not theirs, or a split by it takes others than the latest."""
    order, ages = log.find_order(), log.find_ages()
    users = log.user_rows[order]
    if (np.sort(order) != np.arange(len(log))).any() or (np.diff(users) < 0).any():
        raise Finding("the order of events is not one of users")
    times = np.zeros(len(log)) if log.times is None else log.times[order]
    if ((times[1:] < times[:-1]) & (users[1:] == users[:-1])).any():
        raise Finding("a later event is older")
    if log.types is not None and log.types.target is not None:
        return
    train, test = csrr.split(log, last=1)
    latest = log.select((ages == 0) & (log.user_counts()[log.user_rows] > 1))
    if len(train) + len(test) != len(log) or not np.array_equal(test.item_rows, latest.item_rows):
        raise Finding("the last events are not the latest")
    twice = join_logs(log, log)
    if not np.array_equal(twice.find_order(), order):
        raise Finding("the same events once more are in another order")


def _check_command(path: Path, options: dict[str, Any]) -> None:
    """Fit and recommend as a user would: a result, or one line."""
    model = path.with_name("model.csrr")
    result = _run("fit", str(path), "-o", str(model), "--model", "pop-rank", *_as_arguments(options))
    if result.exit_code == 0:
        user = csrr.load(model).users_.ids[0]
        _run("recommend", str(model), f"--user={user}")


def _run(*args: str) -> Any:
    result = CliRunner().invoke(app, list(args))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    told = result.stderr.splitlines()
    for line in (*result.stdout.split("\n"), *result.stderr.split("\n")):
        if make_printable(line) != line:
            raise Finding(f"csrr {args[0]} prints what a terminal obeys: {line[:200]!r}")
    # Before the error, the command may have told what it took the columns for.
    is_plain = all(line.startswith("csrr: ") for line in told) and told[-1:] and told[-1].startswith("csrr: error: ")
    if result.exit_code == 2 and not is_plain:
        raise Finding(f"csrr {args[0]} fails with more than a line: {result.stderr[:300]!r}")
    if result.exit_code not in (0, 2):
        raise Finding(f"csrr {args[0]} ends with {result.exit_code}: {result.stderr[:300]!r}")
    return result


def _as_arguments(options: dict[str, Any]) -> list[str]:
    arguments = []
    for name, value in options.items():
        if name == "header":
            arguments.append("--header" if value else "--no-header")
        elif name == "ordered":
            arguments.append("--ordered")
        elif name != "part":
            option = CLI_NAMES.get(name, f"--{name.replace('_', '-')}")
            arguments.append(f"{option}={'none' if value is False else value}")
    return arguments
