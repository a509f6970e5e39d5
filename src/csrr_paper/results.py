"""The folder of results: a file for each result, and one with the hits of every user; one run at a time."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from csrr._base.arrays import BoolArray, Int64Array
from csrr._base.files import atomic_write, try_lock, write_text
from csrr._base.threads import available_cores
from csrr.data.errors import DataError
from csrr.ranking.metrics import measure_users
from csrr_paper.printed import LENGTHS

FORMAT = 1
"""The format of the summary of results."""

_FOLDER_FORMAT = 2
_HEAD, _LOCK, _RUNS = "results.json", ".lock", "runs.json"


@cache
def read_versions() -> dict[str, str]:
    """Return the versions of the libraries that results depend on, and in a checkout the commit."""
    names = ("csrr", "numpy", "scipy", "numba")
    commit = read_commit()
    versions = {"python": platform.python_version(), **{name: version(name) for name in names}}
    return versions | ({"commit": commit} if commit else {})


def read_commit() -> str:
    """Return the commit of this code, with "+" if files differ from it; "" outside of a checkout.

    CSRR_COMMIT names it where the code travels without its history.
    """
    if given := os.environ.get("CSRR_COMMIT"):
        return given
    root = Path(__file__).parents[2]
    if not (root / ".git").exists() or (git := shutil.which("git")) is None:
        return ""
    try:
        found, changed = (
            subprocess.run(  # noqa: S603 (git, by its full path, with words of our own)
                [git, "-C", str(root), *words], capture_output=True, text=True, timeout=10, check=True
            ).stdout
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "-uno", "--", "src"))
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.strip() + "+" * bool(changed.strip())


@cache
def describe_machine() -> str:
    """Return the processor and the number of cores in words."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{name}, {available_cores()} cores"


class ResultsError(DataError):
    """A folder of results that cannot be used as it is."""


@dataclass(frozen=True)
class Task:
    """The values that identify a result: data (and which ratings count), split, system and all given parameters."""

    data: str
    at_least: float | None
    split: int
    system: str
    params: dict[str, Any]

    @property
    def key(self) -> str:
        """A unique name for the files of this task."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()
        words = "".join(c if c.isalnum() else "-" for c in f"{self.data} {self.system} {self.split}".lower())
        return f"{words}-{digest[:12]}"


@dataclass(frozen=True)
class Result:
    """A result: the task, its means, and how, where and when they were obtained.

    `size` has users, items and events; `seconds` fit and evaluate; `model` its kind and all its parameters.
    """

    task: Task
    means: dict[str, float]
    n_users: int
    n_left_out: int
    size: dict[str, int]
    seconds: dict[str, float]
    tuning: dict[str, Any] | None
    certificate: dict[str, Any] | None
    model: dict[str, Any]
    versions: dict[str, str] = field(default_factory=read_versions)
    machine: str = field(default_factory=describe_machine)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Self:
        """Return the result from plain values of JSON."""
        return cls(**{**plain, "task": Task(**plain["task"])})


@dataclass(frozen=True)
class Run:
    """A run with a folder of results: when it began, and, if it ended, its seconds and its number of results."""

    began: str
    workers: int
    seconds: float | None = None
    results: int = 0


class ResultStore:
    """The results in a folder; `open` gives one to write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    @contextmanager
    def open(cls, folder: str | os.PathLike[str]) -> Iterator[Self]:
        """Yield the results in `folder`, created if missing, to which only this process can write."""
        store = cls(Path(folder))
        try:
            for part in ("rows", "tuning"):
                (store.folder / part).mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ResultsError(f"{folder}: a file is in the way of the folder of results; name another") from error
        with try_lock(store.folder / _LOCK) as free:
            if not free:
                raise ResultsError(
                    f"{folder}: another run is writing its results there; wait for it, or name another folder"
                )
            store._check_head()
            yield store

    def _check_head(self) -> None:
        head, mine = self.folder / _HEAD, {"format": _FOLDER_FORMAT, "csrr": version("csrr")}
        if not head.exists():
            own = ("rows", "tuning", _RUNS)
            others = [
                path.name for path in self.folder.iterdir() if not path.name.startswith(".") and path.name not in own
            ]
            if others:
                raise ResultsError(f"{self.folder}: it holds {others[0]} and no results; name a new or an empty folder")
            write_text(head, json.dumps(mine))
            return
        try:
            theirs = json.loads(head.read_text())
            was = f"csrr {theirs['csrr']} (format {theirs['format']})"
        except (ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{head}: it is not what csrr writes; name another folder") from error
        if theirs != mine:
            raise ResultsError(
                f"{self.folder}: its results are of {was}, this is csrr {mine['csrr']} (format {_FOLDER_FORMAT});"
                " results of two versions are not to be mixed: name another folder"
            )

    def find(self, task: Task) -> Result | None:
        """Return the result of a task, or None."""
        return self._read(self._get_path(task))

    def read_all(self) -> list[Result]:
        """Return every result, in the order of the files' names."""
        found = (self._read(path) for path in sorted((self.folder / "rows").glob("*.json")))
        return [result for result in found if result is not None]

    def keep(self, result: Result, lists: Lists) -> None:
        """Write a result, its lists first, so that every result has its lists."""
        path = self._get_path(result.task)
        with atomic_write(path.with_suffix(".npz")) as file:
            np.savez_compressed(file, allow_pickle=False, **lists.pack())
        write_text(path, json.dumps(asdict(result), indent=1, allow_nan=False))

    def read_lists(self, task: Task) -> Lists:
        """Return the lists of a result."""
        path = self._get_path(task).with_suffix(".npz")
        try:
            with np.load(path, allow_pickle=False) as file:
                return Lists.unpack(file)
        except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise _make_damage_error(path.with_suffix(".*")) from error

    def read_runs(self) -> list[Run]:
        """Return the runs with this folder, the earliest first."""
        path = self.folder / _RUNS
        if not path.exists():
            return []
        try:
            return [Run(**each) for each in read_json(path, "runs")["runs"]]
        except TypeError as error:
            raise _make_damage_error(path) from error

    @contextmanager
    def note_run(self, workers: int, count: Callable[[], int]) -> Iterator[None]:
        """Record when a run begins and, if it ends, how long it took; `count` returns the number of results."""
        before, n_before, began = self.read_runs(), count(), time.perf_counter()
        run = Run(datetime.now(UTC).isoformat(timespec="seconds"), workers)
        self._write_runs([*before, run])
        yield
        ended = replace(run, seconds=round(time.perf_counter() - began, 1), results=count() - n_before)
        self._write_runs([*before, ended] if ended.results else before)

    def _write_runs(self, runs: list[Run]) -> None:
        write_text(self.folder / _RUNS, json.dumps({"runs": [asdict(each) for each in runs]}, indent=1))

    def _get_path(self, task: Task) -> Path:
        return self.folder / "rows" / f"{task.key}.json"

    @staticmethod
    def _read(path: Path) -> Result | None:
        """Return the result in a file; None if there is none."""
        if not path.exists():
            return None
        try:
            return Result.from_json(read_json(path, "task"))
        except TypeError as error:
            raise _make_damage_error(path) from error


def read_json(path: Path, *names: str) -> dict[str, Any]:
    """Return the object in a JSON file, which must have these names."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        if isinstance(found, dict) and all(name in found for name in names):
            return found
        raise ValueError(f"without {' or '.join(names)}")
    except ValueError as error:
        raise _make_damage_error(path) from error


def _make_damage_error(path: Path) -> ResultsError:
    return ResultsError(f"{path}: it is not a result of csrr; delete it and run again")


def make_results_table(results: Iterable[Result]) -> pa.Table:
    """Return results as the rows of a table: task, means, sizes, times in seconds, and nested facts as JSON."""
    lines = []
    for result in results:
        facts = asdict(result)
        parts = [facts.pop(name) for name in ("task", "means", "size", "seconds")]
        task, means, size, seconds = parts
        facts["n_evaluated"] = facts.pop("n_users")
        sizes = {f"n_{name}": value for name, value in size.items()}
        times = {f"{name}_s": value for name, value in seconds.items()}
        flat = {**task, **means, **sizes, **times, **facts}
        lines.append({name: json.dumps(value) if isinstance(value, dict) else value for name, value in flat.items()})
    return pa.Table.from_pylist(lines)


MEASURED = ("precision", "recall", "ndcg", "list_ndcg")
"""The metrics of every list, at every length of `LENGTHS`."""

PerUser = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Lists:
    """The hits in the lists of the users of one result, from which every metric can be computed again.

    `hits` says whether each place is a test item, shape (n_users, longest list), `n_relevant` how many there are.
    """

    users: npt.NDArray[Any]
    hits: BoolArray
    n_relevant: Int64Array

    def measure(self) -> PerUser:
        """Return the users, and for each metric one value for each of them."""
        return {"users": self.users, **measure_users(self.hits, self.n_relevant, LENGTHS, MEASURED)}

    def pack(self) -> PerUser:
        """Return the hits as small arrays, one bit each."""
        users = self.users if self.users.dtype != object else self.users.astype(str)
        return {"users": users, "hits": np.packbits(self.hits, axis=1), "n_relevant": self.n_relevant.astype("<i4")}

    @classmethod
    def unpack(cls, packed: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the hits from the arrays of `pack`."""
        hits = np.unpackbits(packed["hits"], axis=1, count=max(LENGTHS)).astype(np.bool_)
        return cls(packed["users"], hits, packed["n_relevant"].astype(np.int64))


_KEYS = ("data", "at_least", "split", "system")


def make_lists_table(store: ResultStore, results: Iterable[Result]) -> pa.Table:
    """Return the lists of results as a table: a packed row for each, with the values that identify it."""
    lines = []
    for result in results:
        packed = store.read_lists(result.task).pack()
        task = {name: getattr(result.task, name) for name in _KEYS}
        lines.append(
            task | {name: array.tobytes() for name, array in packed.items()} | {"ids": packed["users"].dtype.str}
        )
    return pa.Table.from_pylist(lines)
