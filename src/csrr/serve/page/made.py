"""What takes the page minutes to find out of a model, a map and noise: made once, by another process, kept in files."""

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
from csrr._base.arrays import Float32Array, Int32Array
from csrr._base.files import atomic_write
from csrr._base.lazy_jit import compile_loop
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
    from csrr.serve.page.made import lay_out

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
    from csrr.noise.scores import judge_choices
    from csrr.noise.suspects import find_suspects

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


NEAR, DIMS, CELLS = 12, 48, 2**24
ROUNDS, REPELLED, SPREAD = 150, 4, 0.6
_A, _B = 1.577, 0.895
"""A pair at distance d is alike by 1 / (1 + a d^2b), which is flat up to about a tenth (McInnes et al., UMAP)."""


def lay_out(vectors: Float32Array, seed: int = 0) -> Float32Array:
    """Return places of items in the square from 0 to 1, shape (n, 2), of unit vectors, shape (n, d)."""
    n = len(vectors)
    if n < 3:
        return np.linspace(0.25, 0.75, 2 * n, dtype=np.float32).reshape(n, 2)
    rng = np.random.default_rng(seed)
    reduced = _reduce(vectors)
    near, weights = find_nearest(reduced, min(NEAR, n - 1))
    # The two directions of most variance to begin with; a little noise parts items that are the same.
    first: Any = reduced[:, :2] if reduced.shape[1] > 1 else np.hstack([reduced, reduced])
    first = 10 * first / max(float(np.abs(first).max()), 1e-12) + rng.normal(0, 0.01, (n, 2))
    places: Float32Array = np.ascontiguousarray(first, np.float32)
    _attract(places, near, weights, ROUNDS, REPELLED, seed)
    # Half by place and half by rank: islands far from the others would leave most of the square empty.
    low, high = np.quantile(places, [0.005, 0.995], axis=0)
    scaled = np.clip((places - low) / np.maximum(high - low, 1e-9), 0, 1)
    ranks = np.argsort(np.argsort(places, axis=0, kind="stable"), axis=0) / (n - 1)
    spread: Float32Array = (0.03 + 0.94 * (SPREAD * ranks + (1 - SPREAD) * scaled)).astype(np.float32)
    return spread


def _reduce(vectors: Float32Array) -> Float32Array:
    """Return the directions of most variance of vectors, shape (n, at most DIMS), largest first."""
    centered = vectors - vectors.mean(axis=0)
    values, directions = np.linalg.eigh(centered.T @ centered)
    best = np.argsort(-values)[:DIMS]
    return np.ascontiguousarray(centered @ directions[:, best], np.float32)


def find_nearest(vectors: Float32Array, k: int) -> tuple[Int32Array, Float32Array]:
    """Return the k vectors of largest cosine to each, and how strongly they attract it, shapes (n, k)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.maximum(lengths, 1e-12)
    near = np.empty((len(units), k), np.int32)
    weights = np.empty((len(units), k), np.float32)
    size = max(1, CELLS // len(units))
    for first in range(0, len(units), size):
        cosines = units[first : first + size] @ units.T
        rows = np.arange(len(cosines))
        cosines[rows, first + rows] = -2
        best = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
        near[first : first + size] = best
        found = np.take_along_axis(cosines, best, axis=1)
        weights[first : first + size] = np.exp(4 * (found - found.max(axis=1, keepdims=True)))
    return near, weights


@compile_loop()
def _attract(places: Any, near: Any, weights: Any, n_rounds: int, n_repelled: int, seed: int) -> None:
    """Move each item toward its nearest and away from some others, by less in each round."""
    n, k = near.shape
    state = np.uint64(2 * seed + 88172645463325252)
    for step in range(n_rounds):
        rate = np.float32(1.0 - step / n_rounds)
        for i in range(n):
            for place in range(k):
                state ^= state << np.uint64(13)
                state ^= state >> np.uint64(7)
                state ^= state << np.uint64(17)
                if np.float32(state & np.uint64(0xFFFF)) / np.float32(65536.0) > weights[i, place]:
                    continue
                j = near[i, place]
                x, y = places[i, 0] - places[j, 0], places[i, 1] - places[j, 1]
                square = x * x + y * y
                if square > 0:
                    pull = -2.0 * _A * _B * square ** (_B - 1) / (1.0 + _A * square**_B)
                    dx, dy = min(4.0, max(-4.0, pull * x)) * rate, min(4.0, max(-4.0, pull * y)) * rate
                    places[i, 0] += dx
                    places[i, 1] += dy
                    places[j, 0] -= dx
                    places[j, 1] -= dy
                for _ in range(n_repelled):
                    state ^= state << np.uint64(13)
                    state ^= state >> np.uint64(7)
                    state ^= state << np.uint64(17)
                    j = np.int64(state % np.uint64(n))
                    if j == i:
                        continue
                    x, y = places[i, 0] - places[j, 0], places[i, 1] - places[j, 1]
                    square = x * x + y * y
                    push = 2.0 * _B / ((0.001 + square) * (1.0 + _A * square**_B))
                    places[i, 0] += min(4.0, max(-4.0, push * x)) * rate
                    places[i, 1] += min(4.0, max(-4.0, push * y)) * rate
