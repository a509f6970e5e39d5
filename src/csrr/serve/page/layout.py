"""Items in two dimensions, so that items alike lie together: a graph of the nearest, laid out by attraction."""

from __future__ import annotations

from typing import Any

import numpy as np

from csrr._base.arrays import Float32Array, Int32Array
from csrr._base.lazy_jit import compile_loop

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
