"""Weights between items for what a low rank leaves over: a small ridge system for every item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr.arrays import AnyArray, Float32Array, Float64Array, FloatArray, Int32Array, Int64Array
from csrr.optim.nearest import Likeness, find_nearest_items
from csrr.optim.neighbor_loops import cross_low_rank, cross_targets, gather_grams, place_grams, solve_items
from csrr.optim.pattern import Pattern, Sparse

_GRAM_BYTES = 2**28
"""How much the Gram blocks that are kept may take; more are made again each time, in parts of a quarter of this."""
_LEAST_ITEMS = 256
_RANGES = 64

Support = Int32Array
"""The neighbors of each item, nearest first, (m, K); -1 where there are fewer."""
Factored = tuple[FloatArray, FloatArray]
"""U = left @ right.T, left of (n, d) and right of (m, d)."""


def find_nearest(pattern: Pattern, k: int, amounts: FloatArray | None = None) -> Support:
    """The k items nearest to each item by the cosine of their columns, nearest first, (m, k); -1 where there are fewer.

    Equally near items go by row. `amounts`, (nnz,), are the entries of the columns; None: all 1.
    """
    n, m = pattern.shape
    squares = None if amounts is None else amounts.astype(np.float64) ** 2
    counts = np.bincount(pattern.indices, squares, minlength=m)
    sizes = np.sqrt(np.maximum(counts, 1) if squares is None else np.where(counts > 0, counts, 1))
    likeness = Likeness(np.ones(n), np.ones(m), sizes, sizes)
    width = min(k, m - 1)
    if width == 0:
        return np.empty((m, 0), np.int32)
    both = None if amounts is None else (amounts, pattern.transpose_values(amounts))
    _, items, found = find_nearest_items(pattern, pattern.T, likeness, width, 0, m, pattern.engine, both)
    items[np.arange(width) >= found[:, None]] = -1
    return items


class SingularError(np.linalg.LinAlgError):
    """A system whose penalty is too small for its neighbors."""


class Layout(NamedTuple):
    """The csr form of an (m, K) array on a support: its `indptr`, (m + 1,), and `indices`, and the place of each entry
    in the array, (entries,) both."""

    indptr: Int64Array
    indices: Int32Array
    places: Int64Array


class Ridge(NamedTuple):
    """How many neighbors an item has at most, and rho, the strength of the penalty on their weights."""

    k: int
    rho: float


@dataclass(frozen=True, eq=False)
class Regression:
    """
    minimize  rho/2*||S||_F^2 + 1/2*||T - U - X*S||_F^2

    over S of (m, m), zero but for the k nearest items of each item j in column j. T has `target` on the observed cells,
    (nnz,); X = diag(user) * A * diag(item), A with `amounts`, (nnz,), there (None: ones);
    `support`, (m, K), is what `find_nearest` gave.
    """

    pattern: Pattern
    target: FloatArray
    user: FloatArray
    item: FloatArray
    support: Support
    amounts: FloatArray | None = None

    @cached_property
    def mean_diagonal(self) -> float:
        """The mean of the diagonal of X'X over the items with clicks: the unit of rho."""
        entries = self.user.astype(np.float64)[self.pattern.rows]
        if self.amounts is not None:
            entries *= self.amounts
        squares = np.bincount(self.pattern.indices, entries**2, self.pattern.shape[1])
        diagonal = squares * self.item.astype(np.float64) ** 2
        return float(diagonal[diagonal > 0].mean())

    def solve(self, parts: Sequence[Factored], ridges: Sequence[Ridge]) -> Float32Array:
        """S on the support for each U = left @ right.T of `parts` and each of `ridges`.

        Shape (len(parts), len(ridges), m, K); 0 beyond a ridge's k. A singular system raises SingularError.
        """
        m, width = self.support.shape
        found = np.zeros((len(parts), len(ridges), m, width), np.float32)
        if found.size == 0:
            return found
        asked = self._cross_left_over(parts)
        ks, rhos = np.array([r.k for r in ridges]), np.array([r.rho for r in ridges])
        size = m if self._keeps_grams else max(_LEAST_ITEMS, _GRAM_BYTES // (8 * width * (width + 1)))
        for first in range(0, m, size):
            support = self.support[first : first + size]
            grams = self._all_grams if self._keeps_grams else self._gather_grams(support)
            given = (first, support, grams, asked, ks, rhos)
            self.pattern.engine.scatter_ranges(
                partial(_solve_range, given),
                partial(_place_weights, first),
                _cut_items(len(support)),
                found,
            )
        return found

    def _map_items(self, loop: Callable[[int, int, AnyArray], object], dtype: type[np.floating]) -> AnyArray:
        """What `loop` puts into an array for a range of items, (items, K), for all of them, (m, K)."""
        m, width = self.support.shape

        def work(start: int, stop: int) -> tuple[AnyArray, ...]:
            out = np.empty((stop - start, width), dtype)
            loop(start, stop, out)
            return (out,)

        (found,) = self.pattern.engine.map_ranges(work, _cut_items(m))
        return found

    @property
    def _clicks(self) -> tuple[Int64Array, Int32Array, Int64Array, Int32Array, FloatArray | None]:
        """The pattern by item and by user, and the amounts by user, as the compiled loops take them."""
        by_item = self.pattern.T
        return by_item.indptr, by_item.indices, self.pattern.indptr, self.pattern.indices, self.amounts

    @cached_property
    def _targets_along(self) -> Float64Array:
        """X'T on the support, (m, K)."""
        targets, user = self.pattern.transpose_values(self.target), self.user.astype(np.float64)
        given = (*self._clicks, targets, user, self.item, self.support)
        return self._map_items(
            lambda start, stop, out: cross_targets(start, stop, *given, np.zeros(len(self.item)), out), np.float64
        )

    def _cross_left_over(self, parts: Sequence[Factored]) -> Float32Array:
        """(X'(T - U)) on the support, one for each of `parts`, (len(parts), m, K)."""
        found: list[Float32Array] = []
        images: dict[int, FloatArray] = {}
        for left, right in parts:
            if id(left) not in images:
                images = {id(left): self._x.transposed_times(left)}
            given = (images[id(left)], right, self.support, self._targets_along)
            found.append(self._map_items(partial(_cross_low_rank, given), np.float32))
        return np.stack(found)

    @cached_property
    def _x(self) -> Sparse:
        """X, (n, m)."""
        entries = self.user[self.pattern.rows] * self.item[self.pattern.indices]
        return self.pattern.fill(entries if self.amounts is None else entries * self.amounts)

    @property
    def _keeps_grams(self) -> bool:
        m, width = self.support.shape
        return bool(2 * m * width * (width + 1) <= _GRAM_BYTES)

    @cached_property
    def _all_grams(self) -> Float32Array:
        return self._gather_grams(self.support)

    def _gather_grams(self, support: Support) -> Float32Array:
        """X'X among the neighbors of some items, (items, K*(K + 1)/2): lower triangles, row by row.

        `support` is (items, K).
        """
        width = support.shape[1]
        at = _sort_places(support)
        rows, firsts = np.unique(support.ravel()[at], return_index=True)
        firsts = np.append(firsts, len(at))
        weights = self.user.astype(np.float64) ** 2
        given = (rows.astype(np.int64), firsts, at, *self._clicks, self._item_of_cell, weights, self.item, support)

        def gather(start: int, stop: int) -> Float32Array:
            places = at[firsts[start] : firsts[stop]]
            part = np.empty(len(places) + (places % width).sum(), np.float32)
            gather_grams(start, stop, *given, np.zeros(len(self.item)), part)
            return part

        return self.pattern.engine.scatter_ranges(
            gather,
            lambda start, stop, part, grams: place_grams(part, at[firsts[start] : firsts[stop]], width, grams),
            _cut_items(len(rows), 8 * _RANGES),
            np.zeros((len(support), width * (width + 1) // 2), np.float32),
        )

    @cached_property
    def _item_of_cell(self) -> FloatArray:
        """The factor of each cell's item times its amount, in the order of the transposed pattern, (nnz,)."""
        factors = self.item[self.pattern.T.rows]
        return factors if self.amounts is None else factors * self.pattern.transpose_values(self.amounts)

    @cached_property
    def by_neighbor(self) -> Layout:
        """Where the places of the support stand in a csr array of shape (m, m), columns as in S."""
        m, width = self.support.shape
        there = _sort_places(self.support)
        counts = np.bincount(self.support.ravel()[there], minlength=m)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        return Layout(indptr, (there // max(width, 1)).astype(np.int32), there)

    def make_matrix(self, weights: Float32Array) -> Any:
        """The (m, m) csr array with `weights`, (m, K), on the support; zeros are left out."""
        m = self.pattern.shape[1]
        indptr, indices, places = self.by_neighbor
        # Copies: zeros are left out in place.
        matrix = sparse.csr_array((weights.ravel()[places], indices.copy(), indptr.copy()), shape=(m, m))
        matrix.eliminate_zeros()
        return matrix


def _cross_low_rank(given: tuple[Any, ...], start: int, stop: int, out: Float32Array) -> None:
    """Fills `out`, (items, K), for a range of items; `given` are the loop's other arguments."""
    cross_low_rank(start, stop, *given, out)


def _solve_range(given: tuple[Any, ...], start: int, stop: int) -> tuple[Float32Array, int]:
    """What `solve_items` returns for a range of items: weights, (U's, ridges, items, K), and a singular one or -1."""
    _, support, _, asked, ks, _ = given
    width = support.shape[1]
    weights = np.zeros((len(asked), len(ks), stop - start, width), np.float32)
    return weights, solve_items(start, stop, *given, np.empty((width, width)), np.empty(width), weights)


def _place_weights(first: int, start: int, stop: int, part: tuple[Float32Array, int], found: Float32Array) -> None:
    """Puts the weights of items `first` + start to stop into `found`, (U's, ridges, m, K), unless one is singular."""
    weights, singular = part
    if singular >= 0:
        raise SingularError(f"the neighbors of item row {first + singular} are linearly dependent")
    found[:, :, first + start : first + stop] = weights


def _sort_places(support: Support) -> Int64Array:
    """The places of the support, (items, K), that are taken, by the neighbor there, then in order, (taken,)."""
    flat = support.ravel()
    there = np.flatnonzero(flat >= 0)
    return there[np.argsort(flat[there], kind="stable")]


def _cut_items(items: int, most: int = _RANGES) -> list[int]:
    ranges = max(1, min(most, items))
    return [items * i // ranges for i in range(ranges + 1)]
