"""What takes the page minutes to find out of a model: made once, by a process of low priority, and kept in files."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

import csrr
from csrr._base.files import atomic_write
from csrr._base.threads import use_threads
from csrr.parameters import ParameterError

Kind = Literal["map", "noise"]
State = Literal["none", "working", "ready", "failed"]
KINDS = ("", "own taste", "isolated", "unclear")
"""What the own part of a choice may be called; its number is kept."""
OWN = 0.85
"""The share of a choice that common taste does not explain, from which on it is called a person's own."""


PROGRAM = "import sys; from csrr.serve.page.made import main; main(*sys.argv[1:])"
"""What the process runs, with the model's file and the kind."""


class Made:
    """The files made of one model, in a folder beside the copy that is served.

    Parameters
    ----------
    model_file
        The copy.
    """

    def __init__(self, model_file: Path) -> None:
        self._model_file, self._folder = model_file, model_file.with_suffix(".page")

    def state(self, kind: Kind) -> State:
        """Return how far it is."""
        if (self._folder / f"{kind}.npz").exists():
            return "ready"
        if _is_locked(self._folder / f"{kind}.lock"):
            return "working"
        return "failed" if (self._folder / f"{kind}.error").exists() else "none"

    def tell_problem(self, kind: Kind) -> str | None:
        """Return why it failed."""
        with suppress(OSError):
            return (self._folder / f"{kind}.error").read_text()
        return None

    def open(self, kind: Kind) -> dict[str, Any]:
        """Return its arrays."""
        return self.map if kind == "map" else self.noise

    @cached_property
    def map(self) -> dict[str, Any]:
        """The places of the items, and the singular values of the scores."""
        return self._read("map")

    @cached_property
    def noise(self) -> dict[str, Any]:
        """Of each training event: how much it looks like noise, how much of it is unexplained, and of what kind."""
        return self._read("noise")

    def _read(self, kind: Kind) -> dict[str, Any]:
        with np.load(self._folder / f"{kind}.npz", allow_pickle=False) as arrays:
            return dict(arrays)

    async def start(self, kind: Kind) -> None:
        """Begin to make it, unless it is there or being made."""
        if self.state(kind) in ("ready", "working"):
            return
        self._folder.mkdir(exist_ok=True)
        (self._folder / f"{kind}.error").unlink(missing_ok=True)
        for old in self._folder.parent.glob("*.page"):
            if not old.with_suffix(".csrr").exists():
                shutil.rmtree(old, ignore_errors=True)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, os.fspath(self._model_file), kind),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        _RUNNING.add(task := asyncio.create_task(process.wait()))
        task.add_done_callback(_RUNNING.discard)


_RUNNING: set[asyncio.Task[int]] = set()


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def make_map(model: csrr.Recommender) -> dict[str, Any]:
    """Return places of the items, (n_items, 2), and the singular values of the products of the factors."""
    from csrr.serve.page.layout import lay_out

    found = {"places": lay_out(model.item_vectors)}
    if model.has_factors:
        users, items = (np.asarray(each, np.float64) for each in (model.user_factors_, model.item_factors_))
        roots = [_find_root(each) for each in (users, items)]
        found["singular_values"] = np.linalg.svd(roots[0] @ roots[1].T, compute_uv=False)
    return found


def _find_root(factors: Any) -> Any:
    """Return a d x d matrix R with R'R = F'F."""
    values, vectors = np.linalg.eigh(factors.T @ factors)
    return np.sqrt(np.maximum(values, 0))[:, None] * vectors.T


def find_noise(model: Any) -> dict[str, Any]:
    """Return, of each training event, its noise score, what taste does not explain, its kind; shapes (n_events,)."""
    from csrr.noise.suspects import find_suspects
    from csrr.noise.tastes import judge_choices

    if not type(model).can("suspects"):
        raise ParameterError(f"a {type(model).__name__} cannot tell which clicks look like noise")
    strict = model.noise_model()
    suspects = find_suspects(strict)
    found = {name: np.asarray(getattr(suspects, name), np.float32) for name in ("scores", "unexplained")}
    own = getattr(strict, "specific_", None)
    if own is None:
        return found
    seen, own = model.seen_, own.tocsr()
    rows = np.repeat(np.arange(seen.shape[0]), np.diff(seen.indptr))
    values = np.asarray(own[rows, seen.indices], np.float32).ravel()
    kinds, tastes = np.zeros(seen.nnz, np.int8), strict.tastes()
    for user in np.flatnonzero(np.diff(own.indptr)):
        mine = slice(seen.indptr[user], seen.indptr[user + 1])
        chosen = np.flatnonzero(values[mine])
        words, _ = judge_choices(tastes, int(user), seen.indices[mine][chosen])
        kinds[seen.indptr[user] + chosen] = [KINDS.index(str(word)) for word in words]
    kinds[(kinds == KINDS.index("own taste")) & (found["unexplained"] < OWN)] = 0
    return found | {"kinds": kinds}


def main(model_file: str, kind: Kind) -> None:
    """Make it, in this process, unless another one does."""
    folder = Path(model_file).with_suffix(".page")
    with (folder / f"{kind}.lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        os.nice(10)
        try:
            model = csrr.load(model_file, mmap=True)
            with use_threads(1):
                arrays = make_map(model) if kind == "map" else find_noise(model)
            with atomic_write(folder / f"{kind}.npz") as file:
                np.savez(file, **arrays)
        except Exception as error:
            (folder / f"{kind}.error").write_text(f"{error}"[:500])
            raise
