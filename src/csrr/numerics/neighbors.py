"""Weights between items: a ridge regression for each item on its nearest items, and the same for new items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, FloatArray, Int32Array, Int64Array
from csrr._base.heap import add_to_heap, is_below, replace_worst, sort_heap
from csrr._base.lazy_jit import compile_loop, compile_part
from csrr._base.threads import run_ranges
from csrr.numerics.problem import Pattern, Sparse

_TOGETHER = 64
"""Number of items whose neighbors are found with one scratch row of n_items."""


class CellIndex(NamedTuple):
    """Cells both ways: the users of item j are item_users[item_indptr[j]:item_indptr[j + 1]], and so on."""

    item_indptr: Int64Array
    item_users: Int32Array
    user_indptr: Int64Array
    user_items: Int32Array

    @classmethod
    def of(cls, by_user: Any, by_item: Any) -> CellIndex:
        """The cells of two csr arrays, or patterns, of (n, m) and (m, n)."""
        return cls(by_item.indptr, by_item.indices, by_user.indptr, by_user.indices)


class Likeness(NamedTuple):
    """Likeness of items i (had) and j (scored), by y_i.y_j = item_i * item_j * the sum of `user` over users of both:

    y_i.y_j / (had_i * scored_j + shrink), or, a `ratio`, y_i.y_j / (had_i + scored_j - y_i.y_j + shrink). `user` is
    (n,), the others (m,).
    """

    user: FloatArray
    item: Float64Array
    had: Float64Array
    scored: Float64Array
    shrink: float = 0.0
    ratio: bool = False


def find_nearest_items(
    cells: CellIndex,
    likeness: Likeness,
    width: int,
    first: int,
    stop: int,
    amounts: tuple[FloatArray, FloatArray] | None = None,
) -> tuple[Float32Array, Int32Array, Int64Array]:
    """For items `first` to `stop`: the largest likenesses, best first, the items they are to, and their number.

    They are found on this machine.

    Shapes (stop - first, width) twice and (stop - first,). `amounts` are the entries of the cells by user and by item,
    (nnz,) each; None: all 1.
    """
    mine, theirs = (None, None) if amounts is None else amounts
    values, items = np.zeros((stop - first, width), np.float32), np.zeros((stop - first, width), np.int32)
    found = np.zeros(stop - first, np.int64)

    def find(a: int, b: int) -> None:
        m, part = len(likeness.item), slice(a - first, b - first)
        work = np.zeros(m), np.empty(m + 1, np.int32), np.empty(m, np.float32)
        _find_nearest(a, b, cells, mine, theirs, likeness, *work, values[part], items[part], found[part])

    run_ranges(find, [first, *range(first + _TOGETHER, stop, _TOGETHER), stop])
    return values, items, found


@compile_part(fastmath=True)
def bound_best(values, n, k):  # type: ignore[no-untyped-def]
    # A bound that at least k of values[:n], none below 0, reach, and about twice as many at most.
    low, high = np.float32(0), np.float32(0)
    for t in range(n):
        high = max(high, values[t])
    for _ in range(12):
        middle = np.float32(0.5) * (low + high)
        n_reach = np.int32(0)
        for t in range(n):
            n_reach = np.int32(n_reach + np.int32(values[t] >= middle))
        if n_reach < k:
            high = middle
            continue
        low = middle
        if n_reach <= 2 * k:
            break
    return low


@compile_loop(fastmath=True)
def _find_nearest(  # type: ignore[no-untyped-def]
    start, stop, cells, amounts, amounts_by_item, likeness, together, touched, alike, values, items, found
):
    # values[j - start], items[j - start] = the largest similarities to j, and whose they are, best first, and
    # found[j - start] their number. `together`, zeros, (m,), `touched`, (m + 1,), and `alike`, (m,), are there to work
    # in.
    item_indptr, item_users, user_indptr, user_items = cells
    user, item, had, scored, shrink, ratio = likeness
    k = values.shape[1]
    for j in range(start, stop):
        # together[i] = sum of user[u] times both amounts over the users u of both i and j, in `touched` if not 0
        n_cells = 0
        for p in range(item_indptr[j], item_indptr[j + 1]):
            n_cells += user_indptr[item_users[p] + 1] - user_indptr[item_users[p]]
        is_dense, n_touched = n_cells > 4 * len(together), 0
        for p in range(item_indptr[j], item_indptr[j + 1]):
            u = item_users[p]
            if user[u] == 0:
                continue
            for q in range(user_indptr[u], user_indptr[u + 1]):
                i = user_items[q]
                if not is_dense:
                    # Without a branch, which would be mispredicted half of the time; the last place may be beyond the
                    # end.
                    touched[n_touched] = i
                    n_touched += together[i] == 0
                together[i] += user[u] if amounts is None else user[u] * amounts_by_item[p] * amounts[q]
        if is_dense:
            for i in range(len(together)):
                touched[n_touched] = i
                n_touched += together[i] != 0
        for t in range(n_touched):
            i = touched[t]
            dot = together[i] * item[i] * item[j]
            below = had[i] + scored[j] - dot if ratio else had[i] * scored[j]
            # Sums of the same numbers in another order are a tie.
            alike[t] = np.float32(dot / (below + shrink)) if i != j else np.float32(-1)
        for t in range(n_touched):
            together[touched[t]] = 0
        best, whose, size = values[j - start], items[j - start], np.int64(0)
        # Most are far below the best, and none of those need go through the heap.
        least = bound_best(alike, n_touched, k)
        for t in range(n_touched):
            if alike[t] < least:
                continue
            i = touched[t]
            if size < k:
                add_to_heap(best, whose, size, alike[t], i)
                size += 1
            elif is_below(best[0], whose[0], alike[t], i):
                replace_worst(best, whose, k, alike[t], i)
        sort_heap(best, whose, size)
        found[j - start] = size


@compile_part(fastmath=True)
def add_users(j, cells, amounts, per_cell, per_user, sums):  # type: ignore[no-untyped-def]
    # sums[i] += sum of per_cell[p] * per_user[u] * amounts[q] over the users u of both i and j, p the cell of u and j,
    # q that of u and i; amounts None: all 1
    item_indptr, item_users, user_indptr, user_items = cells
    for p in range(item_indptr[j], item_indptr[j + 1]):
        u = item_users[p]
        value = per_cell[p] * per_user[u]
        for q in range(user_indptr[u], user_indptr[u + 1]):
            sums[user_items[q]] += value if amounts is None else value * amounts[q]


@compile_loop(fastmath=True)
def cross_targets(start, stop, cells, amounts, targets, user, item, support, sums, out):  # type: ignore[no-untyped-def]
    # out[j - start, p] = (X'T)[support[j, p], j]; `sums` is there to work in, (m,)
    width = support.shape[1]
    for j in range(start, stop):
        for p in range(width):
            if support[j, p] >= 0:
                sums[support[j, p]] = 0
        add_users(j, cells, amounts, targets, user, sums)
        for p in range(width):
            i = support[j, p]
            out[j - start, p] = sums[i] * item[i] if i >= 0 else 0.0


@compile_loop(fastmath=True)
def cross_low_rank(start, stop, image, right, support, targets_along, out):  # type: ignore[no-untyped-def]
    # out[j - start, p] = targets_along[j, p] - image[support[j, p]] . right[j]
    width, rank = support.shape[1], right.shape[1]
    for j in range(start, stop):
        mine = right[j]
        for p in range(width):
            i = support[j, p]
            if i < 0:
                out[j - start, p] = 0
                continue
            other = image[i]
            total = right.dtype.type(0)
            for c in range(rank):
                total += other[c] * mine[c]
            out[j - start, p] = targets_along[j, p] - total


@compile_loop(fastmath=True)
def gather_grams(  # type: ignore[no-untyped-def]
    start, stop, rows, firsts, at, cells, amounts, item_of_cell, weights, item, support, sums, grams
):
    # grams[j, p*(p + 1)/2 + q] = (X'X)[support[j, p], support[j, q]] for q = 0 to p, for all places
    # at[firsts[start]:firsts[stop]], (j, p) each. The row of X'X of the item rows[t] serves
    # all places at[firsts[t]:firsts[t + 1]]. `sums` is there to work in, (m,).
    width = support.shape[1]
    for t in range(start, stop):
        for place in range(firsts[t], firsts[t + 1]):
            j, p = at[place] // width, at[place] % width
            for q in range(p + 1):
                sums[support[j, q]] = 0
        add_users(rows[t], cells, amounts, item_of_cell, weights, sums)
        for place in range(firsts[t], firsts[t + 1]):
            j, p = at[place] // width, at[place] % width
            row = grams[j, p * (p + 1) // 2 : (p + 1) * (p + 2) // 2]
            for q in range(p + 1):
                other = support[j, q]
                row[q] = sums[other] * item[other]


@compile_part(fastmath=True)
def dot_rows(a, b, n):  # type: ignore[no-untyped-def]
    total = np.float64(0)
    for c in range(n):
        total += a[c] * b[c]
    return total


@compile_part(fastmath=True)
def factorize(gram, k, rho, lower):  # type: ignore[no-untyped-def]
    # lower @ lower.T = the first k rows and columns of X'X, given as a lower triangle, + rho*I; whether it is regular.
    # Four rows at a time: each earlier row is read once for all of them.
    is_regular = True
    for first in range(0, k, 4):
        last = min(first + 4, k)
        for b in range(first):
            row, inverse = lower[b], 1 / lower[b, b]
            if last - first < 4:
                for a in range(first, last):
                    lower[a, b] = (gram[a * (a + 1) // 2 + b] - dot_rows(lower[a], row, b)) * inverse
                continue
            r0, r1, r2, r3 = lower[first], lower[first + 1], lower[first + 2], lower[first + 3]
            t0, t1, t2, t3 = np.float64(0), np.float64(0), np.float64(0), np.float64(0)
            for c in range(b):
                t0 += r0[c] * row[c]
                t1 += r1[c] * row[c]
                t2 += r2[c] * row[c]
                t3 += r3[c] * row[c]
            place = first * (first + 1) // 2 + b
            r0[b] = (gram[place] - t0) * inverse
            r1[b] = (gram[place + first + 1] - t1) * inverse
            r2[b] = (gram[place + 2 * first + 3] - t2) * inverse
            r3[b] = (gram[place + 3 * first + 6] - t3) * inverse
        for a in range(first, last):
            row = gram[a * (a + 1) // 2 : (a + 1) * (a + 2) // 2]
            for b in range(first, a):
                lower[a, b] = (row[b] - dot_rows(lower[a], lower[b], b)) / lower[b, b]
            total = row[a] - dot_rows(lower[a], lower[a], a) + rho
            if not total > 1e-6 * (row[a] + rho):
                is_regular = False
                total = np.float64(1)
            lower[a, a] = np.sqrt(total)
    return is_regular


@compile_part(fastmath=True)
def substitute(lower, k, x):  # type: ignore[no-untyped-def]
    # x[:k] = (lower @ lower.T)^-1 x[:k]
    for a in range(k):
        x[a] = (x[a] - dot_rows(lower[a], x, a)) / lower[a, a]
    for a in range(k - 1, -1, -1):
        x[a] /= lower[a, a]
        for b in range(a):
            x[b] -= lower[a, b] * x[a]


@compile_loop(fastmath=True)
def solve_items(start, stop, support, grams, crossed, ks, rhos, places, lower, x, out):  # type: ignore[no-untyped-def]
    # out[v, places[r], j] = (grams[j] + rhos[r]*I)^-1 crossed[v, j], of the first ks[r] neighbors, by Cholesky,
    # where out is 0; returns the first item whose system is singular, -1 if none is.
    # `lower`, (K, K), and `x`, (K,), are there to work in. `rhos` rise, and ks fall where they are equal: the factor of
    # a system has those of its first neighbors.
    width, singular = support.shape[1], -1
    for j in range(start, stop):
        there = 0
        while there < width and support[j, there] >= 0:
            there += 1
        for r in range(len(ks)):
            k = min(there, ks[r])
            is_new = r == 0 or rhos[r] != rhos[r - 1]
            if is_new and not factorize(grams[j], k, rhos[r], lower) and singular < 0:
                singular = j
            for v in range(len(crossed)):
                x[:k] = crossed[v, j, :k]
                substitute(lower, k, x)
                out[v, places[r], j, :k] = x[:k]
    return singular


_GRAM_BYTES = 2**28
"""The most bytes of Gram matrices that are kept; more are made again each time, in parts of a quarter of this."""
_LEAST_ITEMS = 256

Support = Int32Array
"""The neighbors of each item, nearest first, (m, K); -1 where there are fewer."""
Factored = tuple[FloatArray, FloatArray]
"""U = left @ right.T, left of (n, d) and right of (m, d)."""


def find_nearest(pattern: Pattern, k: int, amounts: FloatArray | None = None) -> Support:
    """The k items nearest to each item by the cosine of their columns, nearest first, (m, k); -1 where there are fewer.

    Equally near items go by row. `amounts`, (nnz,), are the entries of the columns; None: all 1.
    """
    (n, m), engine = pattern.shape, pattern.engine
    if amounts is None:
        counts: AnyArray = pattern.count_items()
    else:
        counts = engine.sum_columns(pattern, amounts.astype(np.float64) ** 2)
    sizes = np.sqrt(np.where(counts > 0, counts, 1))
    likeness = Likeness(engine.put(pattern, np.ones(n)), np.ones(m), sizes, sizes)
    width = min(k, m - 1)
    if width == 0:
        return np.empty((m, 0), np.int32)
    _, items, found = engine.find_nearest(pattern, likeness, width, amounts)
    items[np.arange(width) >= found[:, None]] = -1
    return items


class SingularError(np.linalg.LinAlgError):
    """A system whose penalty is too small for its neighbors."""


class SupportIndex(NamedTuple):
    """The csr form of an (m, K) array on a support, whose entries are row numbers of a matrix, (rows, m): its `indptr`,
    (rows + 1,), and `indices`, and the place of each entry in the array, (entries,) both."""

    indptr: Int64Array
    indices: Int32Array
    places: Int64Array

    @classmethod
    def of(cls, support: Support, n_rows: int) -> SupportIndex:
        """The form of arrays on a support, -1 where a place is not taken."""
        places = _sort_places(support)
        counts = np.bincount(support.ravel()[places], minlength=n_rows)
        columns = (places // max(support.shape[1], 1)).astype(np.int32)
        return cls(np.concatenate(([0], np.cumsum(counts))), columns, places)

    def make_matrix(self, weights: Float32Array) -> Any:
        """The (rows, m) csr array with `weights`, (m, K), on the support; zeros are left out."""
        shape = len(self.indptr) - 1, len(weights)
        # Copies: zeros are left out in place.
        given = weights.ravel()[self.places], self.indices.copy(), self.indptr.copy()
        matrix = sparse.csr_array(given, shape=shape)
        matrix.eliminate_zeros()
        return matrix


class Ridge(NamedTuple):
    """The largest number of neighbors of an item, and rho, the strength of the penalty on their weights."""

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
        engine, pattern = self.pattern.engine, self.pattern
        entries = engine.scale_cells(pattern, self.user.astype(np.float64), np.ones(pattern.shape[1]))
        if self.amounts is not None:
            entries = entries * self.amounts
        diagonal = engine.sum_columns(pattern, entries**2) * self.item.astype(np.float64) ** 2
        return float(diagonal[diagonal > 0].mean())

    def solve(self, parts: Sequence[Factored], ridges: Sequence[Ridge]) -> Float32Array:
        """S on the support for each U = left @ right.T of `parts` and each of `ridges`.

        Shape (len(parts), len(ridges), m, K); 0 beyond a ridge's k. A singular system raises SingularError.
        """
        m, width = self.support.shape
        if 0 in (len(parts), len(ridges), m, width):
            return np.zeros((len(parts), len(ridges), m, width), np.float32)
        crossed, engine = self._cross_left_over(parts), self.pattern.engine
        ks, rhos = np.array([r.k for r in ridges]), np.array([r.rho for r in ridges])
        if self._keeps_grams:
            found, singular = engine.solve_items(self.support, self._all_grams, crossed, ks, rhos)
            _check_regular(singular)
            return found
        size = max(_LEAST_ITEMS, _GRAM_BYTES // (8 * width * (width + 1)))
        parted: list[Float32Array] = []
        for first in range(0, m, size):
            mine = slice(first, first + size)
            grams = engine.gather_grams(self, self.support[mine])
            some, singular = engine.solve_items(self.support[mine], grams, crossed[:, mine].copy(), ks, rhos)
            _check_regular(singular, first)
            parted.append(some)
        return np.concatenate(parted, axis=2)

    @cached_property
    def _targets_along(self) -> Float64Array:
        """X'T on the support, (m, K)."""
        return self.pattern.engine.cross_targets(self)

    def _cross_left_over(self, parts: Sequence[Factored]) -> Float32Array:
        """(X'(T - U)) on the support, one for each of `parts`, (len(parts), m, K)."""
        found: list[Float32Array] = []
        images: dict[int, FloatArray] = {}
        for left, right in parts:
            if id(left) not in images:
                images = {id(left): self._x.transposed_times(left)}
            along = self._targets_along
            found.append(self.pattern.engine.cross_low_rank(images[id(left)], right, self.support, along))
        return np.stack(found)

    @cached_property
    def _x(self) -> Sparse:
        """X, (n, m)."""
        entries = self.pattern.engine.scale_cells(self.pattern, self.user, self.item)
        return self.pattern.fill(entries if self.amounts is None else entries * self.amounts)

    @property
    def _keeps_grams(self) -> bool:
        m, width = self.support.shape
        return bool(2 * m * width * (width + 1) <= _GRAM_BYTES)

    @cached_property
    def _all_grams(self) -> Float32Array:
        return self.pattern.engine.gather_grams(self, self.support)

    @property
    def by_neighbor(self) -> SupportIndex:
        """The form of S, csr of shape (m, m)."""
        return self.index_neighbors(self.support.shape[1])

    def index_neighbors(self, k: int) -> SupportIndex:
        """The form of S of the first k neighbors of each item, csr of shape (m, m)."""
        if k not in self._indexes:
            self._indexes[k] = SupportIndex.of(np.ascontiguousarray(self.support[:, :k]), self.pattern.shape[1])
        return self._indexes[k]

    @cached_property
    def _indexes(self) -> dict[int, SupportIndex]:
        return {}


def _check_regular(singular: int, first: int = 0) -> None:
    """Raise SingularError if `solve_items` found a singular system of the items from `first` on."""
    if singular >= 0:
        raise SingularError(f"the neighbors of item row {first + singular} are linearly dependent")


def _sort_places(support: Support) -> Int64Array:
    """The places of the support, (items, K), that are taken, by the neighbor there, then in order, (taken,)."""
    flat = support.ravel()
    there = np.flatnonzero(flat >= 0)
    # A conversion counts where a sort would compare.
    cells = there, (flat[there], np.arange(len(there), dtype=np.int32))
    places: Int64Array = sparse.coo_array(cells, shape=(int(flat.max(initial=0)) + 1, len(there))).tocsr().data
    return places


def group_places(support: Support) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The neighbors on a support, (rows,), where the places of each begin, (rows + 1,), and all places by neighbor."""
    at = _sort_places(support)
    rows, firsts = np.unique(support.ravel()[at], return_index=True)
    return rows.astype(np.int64), np.append(firsts, len(at)), at


def list_nearest(clicks: Any, chosen: Any, likeness: Likeness, k: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """The known items most like each new one, best first, as `find_nearest_items` has it: likenesses, items, counts.

    `clicks` is csr, (n, m); `chosen`, csr of (new, n), is who chose the new items. `likeness` is of all items, the new
    ones last.
    """
    by_item = sparse.vstack([clicks.T.tocsr(), chosen], format="csr")
    m = clicks.shape[1]
    return find_nearest_items(CellIndex.of(clicks, by_item), likeness, min(k, m), m, m + chosen.shape[0])


def find_nearest_known(clicks: Any, chosen: Any, k: int) -> list[AnyArray]:
    """The rows of the k known items nearest to each new one by the cosine of their columns, an array each.

    `clicks` is csr, (n, m), `chosen` csr, (new, n).
    """
    counts = np.concatenate([np.bincount(clicks.indices, minlength=clicks.shape[1]), np.diff(chosen.indptr)])
    sizes = np.sqrt(np.maximum(counts, 1))
    likeness = Likeness(np.ones(clicks.shape[0]), np.ones(len(sizes)), sizes, sizes)
    _, items, found = list_nearest(clicks, chosen, likeness, k)
    return [row[:n] for row, n in zip(items, found, strict=True)]


def weigh_neighbors(
    x: Any, targets: Any, users: FloatArray, items: FloatArray, support: list[AnyArray], ridge: Ridge
) -> list[Float64Array]:
    """The weights of the known items in `support` for each new one, an array each:

        minimize  rho/2*||s_j||^2 + 1/2*||t_j - U_j - X*s_j||^2

    over s_j on its support. `x` is X by item, csr of (m, n); `targets`, csr of (new, n), is t; U_j = users @ items_j.
    """
    from scipy import linalg

    found = []
    for j, rows in enumerate(support):
        mine = x[rows].astype(np.float64)
        gram = (mine @ mine.T).toarray()
        gram[np.diag_indices_from(gram)] += ridge.rho
        left_over = targets[[j]].toarray()[0].astype(np.float64) - users @ items[j]
        try:
            found.append(linalg.solve(gram, mine @ left_over, assume_a="pos"))
        except (linalg.LinAlgError, ValueError):  # the latter where factors of a file are beyond what can be squared
            raise SingularError(f"the neighbors of new item {j} are linearly dependent, or too large") from None
    return found


def make_weights(support: list[AnyArray], weights: list[Float64Array], n_items: int) -> Any:
    """The csr array, (n_items, new), float32, with the weights of each new item on its support."""
    starts = np.concatenate(([0], np.cumsum([len(rows) for rows in support])))
    values, rows = np.concatenate([*weights, []]), np.concatenate([*support, []]).astype(np.int32)
    matrix = sparse.csc_array((values.astype(np.float32), rows, starts), shape=(n_items, len(support))).tocsr()
    matrix.eliminate_zeros()
    return matrix
