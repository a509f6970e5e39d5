"""Weights between items for what a low rank leaves over: a small ridge system for every item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from csrr.optim.nearest import Likeness, nearest_items
from csrr.optim.pattern import Floats, Pattern
from csrr.threads import run_ranges

_GRAM_BYTES = 2**28
"""How much the Gram blocks that are kept may take; more are made again each time, in parts of a quarter of this."""
_LEAST_ITEMS = 256
_RANGES = 64

Support = npt.NDArray[np.int32]
Factored = tuple[Floats, Floats]
"""U = left @ right.T, left of (n, d) and right of (m, d)."""


def nearest(pattern: Pattern, k: int) -> Support:
    """The k items nearest to each item by the cosine of their columns, nearest first, (m, k); -1 where there are fewer.

    Equally near items go by row.
    """
    n, m = pattern.shape
    counts = np.bincount(pattern.indices, minlength=m)
    sizes = np.sqrt(np.maximum(counts, 1))
    likeness = Likeness(np.ones(n), np.ones(m), sizes, sizes)
    width = min(k, m - 1)
    if width == 0:
        return np.empty((m, 0), np.int32)
    _, items, found = nearest_items(pattern, pattern.T, likeness, width, 0, m)
    items[np.arange(width) >= found[:, None]] = -1
    return items


class SingularError(np.linalg.LinAlgError):
    """A system whose penalty is too small for its neighbours."""


class Layout(NamedTuple):
    """The csr form of an (m, K) array on a support: its `indptr` and `indices`, and the place of each entry."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    places: npt.NDArray[np.int64]


class Ridge(NamedTuple):
    """How many neighbours an item has at most, and rho, the strength of the penalty on their weights."""

    k: int
    rho: float


@dataclass(frozen=True, eq=False)
class Regression:
    """
    minimise  rho/2*||S||_F^2 + 1/2*||T - U - X*S||_F^2

    over S of (m, m), zero but for the k nearest items of each item j in column j. T has `target` on the observed cells,
    (nnz,); X = diag(user) * A * diag(item), A the pattern; `support`, (m, K), is what `nearest` gave.
    """

    pattern: Pattern
    target: Floats
    user: Floats
    item: Floats
    support: Support

    @cached_property
    def mean_diagonal(self) -> float:
        """The mean of the diagonal of X'X over the items with clicks: the unit of rho."""
        squares = np.bincount(
            self.pattern.indices, self.user.astype(np.float64)[self.pattern.rows] ** 2, self.pattern.shape[1]
        )
        diagonal = squares * self.item.astype(np.float64) ** 2
        return float(diagonal[diagonal > 0].mean())

    def solve(self, parts: Sequence[Factored], ridges: Sequence[Ridge]) -> npt.NDArray[np.float32]:
        """S on the support for each U = left @ right.T of `parts` and each of `ridges`.

        Shape (len(parts), len(ridges), m, K); 0 beyond a ridge's k. A singular system raises SingularError.
        """
        m, width = self.support.shape
        out = np.zeros((len(parts), len(ridges), m, width), np.float32)
        if width == 0 or not ridges:
            return out
        asked = self._asked(parts)
        ks, rhos = np.array([r.k for r in ridges]), np.array([r.rho for r in ridges])
        size = m if self._keeps_grams else max(_LEAST_ITEMS, _GRAM_BYTES // (8 * width * (width + 1)))
        for first in range(0, m, size):
            support = self.support[first : first + size]
            grams = self._all_grams if self._keeps_grams else self._grams(support)
            given = (first, support, grams, asked, ks, rhos, out)
            singular = np.zeros(len(support), np.bool_)
            run_ranges(partial(_solve_items, *given, singular), _cuts(len(support)))
            if singular.any():
                at = first + int(singular.argmax())
                raise SingularError(f"the neighbours of item row {at} are linearly dependent")
        return out

    @cached_property
    def _towards(self) -> npt.NDArray[np.float64]:
        """X'T on the support, (m, K)."""
        by_item = self.pattern.T
        parts = (by_item.indptr, by_item.indices, self.pattern.indptr, self.pattern.indices)
        targets, user = self.pattern.transposed(self.target), self.user.astype(np.float64)
        out = np.empty(self.support.shape)
        run_ranges(partial(_cross_targets, *parts, targets, user, self.item, self.support, out), _cuts(len(out)))
        return out

    def _asked(self, parts: Sequence[Factored]) -> npt.NDArray[np.float32]:
        """(X'(T - U)) on the support, one for each of `parts`, (len(parts), m, K)."""
        by_item = self.pattern.T
        values = self.user[by_item.indices] * self.item[by_item.rows]
        out = np.empty((len(parts), *self.support.shape), np.float32)
        images: dict[int, Floats] = {}
        for place, (left, right) in enumerate(parts):
            if id(left) not in images:
                images = {id(left): by_item.times(values, left)}
            given = (images[id(left)], right, self.support, self._towards, out[place])
            run_ranges(partial(_cross_low_rank, *given), _cuts(len(right)))
        return out

    @property
    def _keeps_grams(self) -> bool:
        m, width = self.support.shape
        return bool(2 * m * width * (width + 1) <= _GRAM_BYTES)

    @cached_property
    def _all_grams(self) -> npt.NDArray[np.float32]:
        return self._grams(self.support)

    def _grams(self, support: Support) -> npt.NDArray[np.float32]:
        """X'X among the neighbours of some items, (len(support), K*(K + 1)/2): lower triangles, row by row."""
        width = support.shape[1]
        grams = np.zeros((len(support), width * (width + 1) // 2), np.float32)
        at = np.flatnonzero(support.ravel() >= 0)
        at = at[np.argsort(support.ravel()[at], kind="stable")]
        rows, starts = np.unique(support.ravel()[at], return_index=True)
        starts = np.append(starts, len(at))
        by_item = self.pattern.T
        parts = (by_item.indptr, by_item.indices, self.pattern.indptr, self.pattern.indices)
        weights = self.user.astype(np.float64) ** 2
        given = (rows, starts, at, *parts, weights, self.item, support, grams)
        run_ranges(partial(_gather_grams, *given), _cuts(len(rows)))
        return grams

    @cached_property
    def by_neighbor(self) -> Layout:
        """Where the places of the support stand in a csr array of shape (m, m), columns as in S."""
        m, width = self.support.shape
        there = np.flatnonzero(self.support.ravel() >= 0)
        there = there[np.argsort(self.support.ravel()[there], kind="stable")]
        counts = np.bincount(self.support.ravel()[there], minlength=m)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        return Layout(indptr, (there // max(width, 1)).astype(np.int32), there)

    def matrix(self, weights: npt.NDArray[np.float32]) -> Any:
        """The (m, m) csr array with `weights`, (m, K), on the support; zeros are left out."""
        m = self.pattern.shape[1]
        indptr, indices, places = self.by_neighbor
        matrix = sparse.csr_array((weights.ravel()[places], indices, indptr), shape=(m, m))
        matrix.eliminate_zeros()
        return matrix


def _cuts(rows: int) -> list[int]:
    ranges = max(1, min(_RANGES, rows))
    return [rows * i // ranges for i in range(ranges + 1)]


@njit(nogil=True, fastmath=True, cache=True)
def _cross_targets(  # type: ignore[no-untyped-def]
    item_indptr, item_users, user_indptr, user_items, targets, user, item, support, out, start, stop
):
    # out[j, p] = (X'T)[support[j, p], j]
    m, width = support.shape
    sums = np.zeros(m)
    for j in range(start, stop):
        for p in range(width):
            if support[j, p] >= 0:
                sums[support[j, p]] = 0
        for p in range(item_indptr[j], item_indptr[j + 1]):
            u = item_users[p]
            value = targets[p] * user[u]
            for q in range(user_indptr[u], user_indptr[u + 1]):
                sums[user_items[q]] += value
        for p in range(width):
            i = support[j, p]
            out[j, p] = sums[i] * item[i] if i >= 0 else 0.0


@njit(nogil=True, fastmath=True, cache=True)
def _cross_low_rank(image, right, support, towards, out, start, stop):  # type: ignore[no-untyped-def]
    # out[j, p] = towards[j, p] - image[support[j, p]] . right[j]
    width, rank = support.shape[1], right.shape[1]
    for j in range(start, stop):
        mine = right[j]
        for p in range(width):
            i = support[j, p]
            if i < 0:
                out[j, p] = 0
                continue
            other = image[i]
            total = right.dtype.type(0)
            for c in range(rank):
                total += other[c] * mine[c]
            out[j, p] = towards[j, p] - total


@njit(nogil=True, fastmath=True, cache=True)
def _gather_grams(  # type: ignore[no-untyped-def]
    rows, starts, at, item_indptr, item_users, user_indptr, user_items, weights, item, support, grams, start, stop
):
    # grams[j, p*(p + 1)/2 + q] = (X'X)[support[j, p], support[j, q]] for q <= p; the row of X'X of the item rows[t]
    # serves all its places, at[starts[t]:starts[t + 1]]
    width = support.shape[1]
    sums = np.zeros(len(item))
    for t in range(start, stop):
        i = rows[t]
        for place in range(starts[t], starts[t + 1]):
            j, p = at[place] // width, at[place] % width
            for q in range(p + 1):
                sums[support[j, q]] = 0
        for p in range(item_indptr[i], item_indptr[i + 1]):
            u = item_users[p]
            value = weights[u] * item[i]
            for q in range(user_indptr[u], user_indptr[u + 1]):
                sums[user_items[q]] += value
        for place in range(starts[t], starts[t + 1]):
            j, p = at[place] // width, at[place] % width
            for q in range(p + 1):
                other = support[j, q]
                grams[j, p * (p + 1) // 2 + q] = sums[other] * item[other]


@njit(nogil=True, fastmath=True, cache=True)
def _solve_items(first, support, grams, asked, ks, rhos, out, singular, start, stop):  # type: ignore[no-untyped-def]
    # out[:, r, first + j] = (grams[j] + rhos[r]*I)^-1 asked[:, first + j], of the first ks[r] neighbours, by Cholesky
    width = support.shape[1]
    lower = np.empty((width, width))
    x = np.empty(width)
    for j in range(start, stop):
        there = 0
        while there < width and support[j, there] >= 0:
            there += 1
        for r in range(len(ks)):
            k = min(there, ks[r])
            for a in range(k):
                row = grams[j, a * (a + 1) // 2 : (a + 1) * (a + 2) // 2]
                for b in range(a + 1):
                    total = np.float64(row[b])
                    for c in range(b):
                        total -= lower[a, c] * lower[b, c]
                    if b < a:
                        lower[a, b] = total / lower[b, b]
                    else:
                        total += rhos[r]
                        if not total > 1e-6 * (row[a] + rhos[r]):
                            singular[j] = True
                            total = np.float64(1)
                        lower[a, a] = np.sqrt(total)
            for v in range(len(asked)):
                for a in range(k):
                    total = np.float64(asked[v, first + j, a])
                    for c in range(a):
                        total -= lower[a, c] * x[c]
                    x[a] = total / lower[a, a]
                for a in range(k - 1, -1, -1):
                    total = x[a]
                    for c in range(a + 1, k):
                        total -= lower[c, a] * x[c]
                    x[a] = total / lower[a, a]
                    out[v, r, first + j, a] = x[a]
