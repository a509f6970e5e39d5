"""The engine of one machine: blocks of rows on the threads in force.

Ranges depend on the data alone and are added up in order, so that results have the same bits whatever the number of
threads; and no BLAS thread is waited for that the system has put aside for another program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from csrr._base.arrays import AnyArray, Float32Array, Float64Array, FloatArray, Int32Array, Int64Array
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import map_ranges, run_ranges
from csrr.numerics.factored import descend_rows, pull_rows
from csrr.numerics.neighbors import (
    CellIndex,
    cross_low_rank,
    cross_targets,
    find_nearest_items,
    gather_grams,
    group_places,
    solve_items,
)

if TYPE_CHECKING:
    from csrr.numerics.neighbors import Likeness, Regression
    from csrr.numerics.problem import Pattern, Problem, Sparse


@compile_loop(fastmath=True)
def multiply_rows(start, stop, indptr, indices, values, x, out):  # type: ignore[no-untyped-def]
    # out[start:stop] = S[start:stop] @ x, four cells at a time: `out` is read and written a fourth as often
    width = x.shape[1]
    for i in range(start, stop):
        row, first, last = out[i], indptr[i], indptr[i + 1]
        for c in range(width):
            row[c] = 0
        whole = last - (last - first) % 4
        for p in range(first, whole, 4):
            v0, v1, v2, v3 = values[p], values[p + 1], values[p + 2], values[p + 3]
            x0, x1, x2, x3 = x[indices[p]], x[indices[p + 1]], x[indices[p + 2]], x[indices[p + 3]]
            for c in range(width):
                row[c] += (v0 * x0[c] + v1 * x1[c]) + (v2 * x2[c] + v3 * x3[c])
        for p in range(whole, last):
            value = values[p]
            other = x[indices[p]]
            for c in range(width):
                row[c] += value * other[c]


@compile_loop(fastmath=True)
def dot_observed(start, stop, indptr, indices, left, right, width, out):  # type: ignore[no-untyped-def]
    # out[p] = left[i, :width] . right[j, :width] for every observed cell p = (i, j)
    zero = out.dtype.type(0)
    for i in range(start, stop):
        row = left[i]
        for p in range(indptr[i], indptr[i + 1]):
            other = right[indices[p]]
            total = zero
            for c in range(width):
                total += row[c] * other[c]
            out[p] = total


_MOST_RANGES, _LEAST_ROWS, _LEAST_CELLS = 16, 1024, 2**15
_ITEM_RANGES = 64
"""The largest number of ranges of items."""


def cut_rows(rows: int, least: int = _LEAST_ROWS) -> list[int]:
    """Row numbers that cut `rows` rows into ranges of about `least` or more; they depend on nothing else."""
    ranges = int(np.clip(rows // least, 1, _MOST_RANGES))
    return [rows * i // ranges for i in range(ranges + 1)]


class ThreadEngine:
    """`Engine` on this machine: its own arrays are numpy's.

    Its methods may fill one array from many threads; those who call it see whole ones.
    """

    def put(self, pattern: Pattern, x: FloatArray) -> FloatArray:
        """The array itself, (n,) or (n, k)."""
        return x

    def put_cells(self, pattern: Pattern, values: FloatArray) -> FloatArray:
        """The array itself, (nnz,)."""
        return values

    def get(self, x: FloatArray, rows: AnyArray | None = None) -> FloatArray:
        """The array itself, or some of its rows."""
        return x if rows is None else x[rows]

    def multiply_sparse(self, matrix: Sparse, x: FloatArray) -> FloatArray:
        """matrix @ x, (n, k), for a matrix of (n, m) and x of (m, k)."""
        return _multiply(matrix.pattern, matrix.values, x)

    def multiply_transposed(self, matrix: Sparse, y: FloatArray) -> FloatArray:
        """matrix.T @ y, (m, k), for a matrix of (n, m) and y of (n, k), from its values item by item.

        A sum over blocks of users needs no such order, but an (m, k) for each block, which takes far longer where there
        are many items; so does looking values up in place.
        """
        return _multiply(matrix.pattern.T, matrix.values_by_item, y)

    def dot_rows(self, pattern: Pattern, left: FloatArray, right: FloatArray, width: int) -> FloatArray:
        """left @ right.T on the observed cells, (nnz,): left (n, k), right (m, k), their first `width` columns."""
        out = np.empty(pattern.nnz, left.dtype)
        given = (pattern.indptr, pattern.indices, left, right, width, out)
        map_ranges(lambda a, b: dot_observed(a, b, *given), pattern.bounds)
        return out

    def scale_cells(self, pattern: Pattern, user: FloatArray, item: FloatArray) -> FloatArray:
        """user[i] * item[j] for each observed cell (i, j), (nnz,): user (n,), item (m,)."""

        def scale(a: int, b: int) -> tuple[AnyArray]:
            return (user.take(pattern.rows[a:b]) * item.take(pattern.indices[a:b]),)

        return _join_ranges(scale, cut_rows(pattern.nnz, _LEAST_CELLS))[0]

    def transpose_cells(self, pattern: Pattern, values: FloatArray) -> FloatArray:
        """CellIndex, (nnz,), in the order of the transposed pattern, (nnz,)."""
        out, order = np.empty_like(values), pattern.order_by_item
        map_ranges(lambda a, b: values.take(order[a:b], out=out[a:b], mode="clip"), cut_rows(len(out), _LEAST_CELLS))
        return out

    def map_cells(self, work: Callable[..., FloatArray], *cells: FloatArray) -> FloatArray:
        """`work` of arrays of (nnz,), (nnz,), range by range."""
        bounds = cut_rows(len(cells[0]), _LEAST_CELLS)
        (found,) = _join_ranges(lambda a, b: (work(*(c[a:b] for c in cells)),), bounds)
        return found

    def sum_cells(self, work: Callable[..., float], *cells: FloatArray) -> float:
        """The sum of `work` over ranges of arrays of (nnz,)."""
        bounds = cut_rows(len(cells[0]), _LEAST_CELLS)
        return sum(map_ranges(lambda a, b: work(*(c[a:b] for c in cells)), bounds))

    def sum_rows(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each row, (n,), in double precision."""
        sums: Float64Array = np.bincount(pattern.rows, values, pattern.shape[0]).astype(np.float64, copy=False)
        return sums

    def sum_columns(self, pattern: Pattern, values: FloatArray) -> Float64Array:
        """The sum of the cells of each column, (m,), in double precision."""
        sums: Float64Array = np.bincount(pattern.indices, values, pattern.shape[1]).astype(np.float64, copy=False)
        return sums

    def multiply(self, x: FloatArray, small: FloatArray) -> FloatArray:
        """x @ small, (rows, c), for x of (rows, k) and small of (k, c)."""
        out = np.empty((len(x), small.shape[1]), np.result_type(x, small))
        map_ranges(lambda a, b: np.matmul(x[a:b], small, out=out[a:b]), cut_rows(len(x)))
        return out

    def cross(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """x.T @ y, (k, c), for x of (rows, k) and y of (rows, c); the ranges are added up in double precision."""
        total = np.zeros((x.shape[1], y.shape[1]))
        for part in map_ranges(lambda a, b: x[a:b].T @ y[a:b], cut_rows(len(x))):
            total += part
        return total

    def dot_columns(self, x: FloatArray, y: FloatArray) -> Float64Array:
        """The dot product of every column of x with that of y, (rows, k) both, in double precision, (k,)."""
        dots: Float64Array = np.einsum("ik,ik->k", x, y, dtype=np.float64)
        return dots

    def dot(self, x: FloatArray, y: FloatArray) -> float:
        """The sum of x * y, (rows, k) both, in double precision."""
        return float(np.einsum("ik,ik->", x, y, dtype=np.float64))

    def find_largest_norm(self, x: FloatArray) -> float:
        """The largest norm of a row of x, (n, k); 0 for none."""
        return float(np.sqrt(np.einsum("ik,ik->i", x, x).max(initial=0)))

    def join_columns(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Arrays of (rows, ...) side by side, (rows, the sum of their widths)."""
        rows, width = len(arrays[0]), sum(each.shape[1] for each in arrays)
        out = np.empty((rows, width), np.result_type(*arrays))
        map_ranges(lambda a, b: np.concatenate([x[a:b] for x in arrays], axis=1, out=out[a:b]), cut_rows(rows))
        return out

    # In factors

    def descend_rows(
        self,
        problem: Problem,
        own: FloatArray,
        other: FloatArray,
        curvature: FloatArray,
        reg: FloatArray,
        steps: int,
        relax: float,
    ) -> tuple[FloatArray, float]:
        """A lower point than `own`, (n, d), with `other`, (m, d), fixed, and the objective at `own`."""
        fixed = (problem.v_penalty is not None, np.ascontiguousarray(other), curvature, steps, relax)

        def work(*block: AnyArray) -> tuple[AnyArray, ...]:
            *given, start, strengths = block
            lower, loss = start.copy(), np.empty(len(start))
            scratch = np.empty((4, lower.shape[1]), lower.dtype)
            descend_rows(*given, lower, strengths, *fixed, scratch, loss)
            return lower, loss

        lower, loss = _map_rows(work, problem, own, reg)
        return lower, float(loss.sum())

    def pull_rows(self, problem: Problem, own: FloatArray, other: FloatArray) -> tuple[FloatArray, float]:
        """(-h'(u) + u on the observed cells) @ other, (n, d), and sum_obs (h(u) - u^2/2), u = own other'."""

        def work(*block: AnyArray) -> tuple[AnyArray, ...]:
            sums, loss = np.zeros_like(block[-1]), np.empty(len(block[-1]))
            pull_rows(*block, problem.v_penalty is not None, other, sums, loss)
            return sums, loss

        sums, loss = _map_rows(work, problem, own)
        return sums, float(loss.sum())

    # Neighbors

    def find_nearest(
        self, pattern: Pattern, likeness: Likeness, width: int, amounts: FloatArray | None
    ) -> tuple[Float32Array, Int32Array, Int64Array]:
        """The largest likenesses to each item, whose they are, best first, and how many each item has."""
        both = None if amounts is None else (amounts, self.transpose_cells(pattern, amounts))
        return find_nearest_items(CellIndex.of(pattern, pattern.T), likeness, width, 0, pattern.shape[1], both)

    def cross_targets(self, regression: Regression) -> Float64Array:
        """X'T on the support, (m, K)."""
        own, support = regression, regression.support
        targets, user = self.transpose_cells(own.pattern, own.target), own.user.astype(np.float64)
        given = (CellIndex.of(own.pattern, own.pattern.T), own.amounts, targets, user, own.item, support)
        out = np.empty(support.shape)
        run_ranges(
            lambda a, b: cross_targets(a, b, *given, np.zeros(len(own.item)), out[a:b]), _cut_items(len(support))
        )
        return out

    def gather_grams(self, regression: Regression, support: Int32Array) -> Float32Array:
        """X'X among the neighbors of some items, (items, K*(K + 1)/2): lower triangles, row by row."""
        own, width = regression, support.shape[1]
        rows, firsts, at = group_places(support)
        weights = own.user.astype(np.float64) ** 2
        item_of_cell = own.item[own.pattern.T.rows]
        if own.amounts is not None:
            item_of_cell = item_of_cell * self.transpose_cells(own.pattern, own.amounts)
        cells = CellIndex.of(own.pattern, own.pattern.T)
        given = rows, firsts, at, cells, own.amounts, item_of_cell, weights, own.item, support
        grams = np.zeros((len(support), width * (width + 1) // 2), np.float32)
        run_ranges(
            lambda a, b: gather_grams(a, b, *given, np.zeros(len(own.item)), grams),
            _cut_items(len(rows), 8 * _ITEM_RANGES),
        )
        return grams

    def cross_low_rank(
        self, image: FloatArray, right: FloatArray, support: Int32Array, along: Float64Array
    ) -> Float32Array:
        """along - image @ right.T on the support, (m, K): image (m, d), right (m, d), along (m, K)."""
        out = np.empty(support.shape, np.float32)
        run_ranges(lambda a, b: cross_low_rank(a, b, image, right, support, along, out[a:b]), _cut_items(len(support)))
        return out

    def solve_items(
        self, support: Int32Array, grams: Float32Array, crossed: Float32Array, ks: AnyArray, rhos: AnyArray
    ) -> tuple[Float32Array, int]:
        """(grams + rho*I)^-1 crossed for items and rhos, of the first k neighbors, and a singular item or -1."""
        width, order = support.shape[1], np.lexsort((-ks, rhos))
        weights = np.zeros((len(crossed), len(ks), *support.shape), np.float32)
        given = support, grams, crossed, ks[order], rhos[order], order

        def solve(start: int, stop: int) -> int:
            return int(solve_items(start, stop, *given, np.empty((width, width)), np.empty(width), weights))

        singular = map_ranges(solve, _cut_items(len(support)))
        return weights, next((item for item in singular if item >= 0), -1)


def _multiply(pattern: Pattern, values: FloatArray, x: FloatArray) -> FloatArray:
    """S @ x, (n, k), for the sparse S with `values`, (nnz,), and x, (m, k)."""
    out = np.empty((pattern.shape[0], x.shape[1]), x.dtype)
    given = (pattern.indptr, pattern.indices, values, np.ascontiguousarray(x), out)
    map_ranges(lambda a, b: multiply_rows(a, b, *given), pattern.bounds)
    return out


def _join_ranges(work: Callable[[int, int], tuple[AnyArray, ...]], bounds: Sequence[int]) -> tuple[AnyArray, ...]:
    """The results of `work(start, stop)` for consecutive pairs of `bounds`, each array put together in order."""
    wholes: list[AnyArray] = []
    lock = Lock()

    def run(a: int, b: int) -> None:
        parts = work(a, b)
        with lock:
            if not wholes:
                wholes.extend(np.empty((bounds[-1], *part.shape[1:]), part.dtype) for part in parts)
        # At once, while the part is in the cache of the core that made it.
        for whole, part in zip(wholes, parts, strict=True):
            whole[a:b] = part

    map_ranges(run, bounds)
    return tuple(wholes)


def _map_rows(work: Callable[..., tuple[AnyArray, ...]], problem: Problem, *rows: FloatArray) -> tuple[AnyArray, ...]:
    """The results of `work` for blocks of users, each array, (n, ...), put together in their order.

    It is given a block's `indptr`, from 0, and `indices`; target, weight and V's penalty of its cells, any array in
    place of the last without V; and its part of `rows`, (n, ...) each.
    """
    pattern, cells = problem.pattern, (*problem.given, problem.target)[:3]

    def run(a: int, b: int) -> tuple[AnyArray, ...]:
        first, last = pattern.indptr[a], pattern.indptr[b]
        block = pattern.indptr[a : b + 1] - first, pattern.indices[first:last]
        return work(*block, *(c[first:last] for c in cells), *(r[a:b] for r in rows))

    return _join_ranges(run, pattern.bounds)


def _cut_items(items: int, most: int = _ITEM_RANGES) -> list[int]:
    ranges = max(1, min(most, items))
    return [items * i // ranges for i in range(ranges + 1)]


THREADS = ThreadEngine()


def open_engine() -> ThreadEngine:
    """The engine of this process."""
    return THREADS
