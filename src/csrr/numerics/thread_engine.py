"""The engine of one machine: blocks of rows on the threads in force.

Ranges depend on the data alone and are added up in order, so that results have the same bits whatever the number of
threads; and no BLAS thread is waited for that the system has put aside for another program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from csrr._base.arrays import AnyArray, Float64Array, FloatArray
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import map_ranges

if TYPE_CHECKING:
    from csrr.numerics.problem import Pattern, Sparse


@compile_loop(fastmath=True)
def multiply_rows(start, stop, indptr, indices, values, x, out):  # type: ignore[no-untyped-def]
    # out[start:stop] = S[start:stop] @ x
    width = x.shape[1]
    for i in range(start, stop):
        row = out[i]
        for c in range(width):
            row[c] = 0
        for p in range(indptr[i], indptr[i + 1]):
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

Part = TypeVar("Part")


def cut_rows(rows: int, least: int = _LEAST_ROWS) -> list[int]:
    """Row numbers that cut `rows` rows into ranges of about `least` or more; they depend on nothing else."""
    ranges = int(np.clip(rows // least, 1, _MOST_RANGES))
    return [rows * i // ranges for i in range(ranges + 1)]


class ThreadEngine:
    """`Engine` on this machine. Its methods may fill one array from many threads; those who call it see whole ones."""

    def put(self, x: FloatArray) -> FloatArray:
        """The array itself, (rows, k)."""
        return x

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

    def map_cells(self, work: Callable[..., FloatArray], *cells: FloatArray) -> FloatArray:
        """`work` of arrays of (nnz,), (nnz,), range by range."""
        bounds = cut_rows(len(cells[0]), _LEAST_CELLS)
        (found,) = self.map_ranges(lambda a, b: (work(*(c[a:b] for c in cells)),), bounds)
        return found

    def sum_cells(self, work: Callable[..., float], *cells: FloatArray) -> float:
        """The sum of `work` over ranges of arrays of (nnz,)."""
        bounds = cut_rows(len(cells[0]), _LEAST_CELLS)
        return sum(map_ranges(lambda a, b: work(*(c[a:b] for c in cells)), bounds))

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

    def join_columns(self, arrays: Sequence[FloatArray]) -> FloatArray:
        """Arrays of (rows, ...) side by side, (rows, the sum of their widths)."""
        return np.concatenate(arrays, axis=1)

    def map_rows(
        self,
        work: Callable[..., tuple[FloatArray, ...]],
        pattern: Pattern,
        cells: Sequence[FloatArray],
        rows: Sequence[FloatArray],
    ) -> tuple[FloatArray, ...]:
        """What `work` returns for blocks of users (see `Engine`), each array, (n, ...), put together in their order."""

        def run(a: int, b: int) -> tuple[FloatArray, ...]:
            first, last = pattern.indptr[a], pattern.indptr[b]
            block = pattern.indptr[a : b + 1] - first, pattern.indices[first:last]
            return work(*block, *(c[first:last] for c in cells), *(r[a:b] for r in rows))

        return self.map_ranges(run, pattern.bounds)

    def map_ranges(
        self, work: Callable[[int, int], tuple[AnyArray, ...]], bounds: Sequence[int]
    ) -> tuple[AnyArray, ...]:
        """What `work(start, stop)` returns for each consecutive pair of `bounds`, put together in order."""
        wholes: list[AnyArray] = []
        first, length = bounds[0], bounds[-1] - bounds[0]
        lock = Lock()

        def run(a: int, b: int) -> None:
            parts = work(a, b)
            with lock:
                if not wholes:
                    wholes.extend(np.empty((length, *part.shape[1:]), part.dtype) for part in parts)
            # At once, while the part is in the cache of the core that made it.
            for whole, part in zip(wholes, parts, strict=True):
                whole[a - first : b - first] = part

        map_ranges(run, bounds)
        return tuple(wholes)

    def scatter_ranges(
        self,
        work: Callable[[int, int], Part],
        place: Callable[[int, int, Part, FloatArray], object],
        bounds: Sequence[int],
        whole: FloatArray,
    ) -> FloatArray:
        """`whole`, a new array, with what `work` returns for ranges of `bounds` put in it by `place` (see `Engine`)."""
        map_ranges(lambda a, b: place(a, b, work(a, b), whole), bounds)
        return whole


def _multiply(pattern: Pattern, values: FloatArray, x: FloatArray) -> FloatArray:
    """S @ x, (n, k), for the sparse S with `values`, (nnz,), and x, (m, k)."""
    out = np.empty((pattern.shape[0], x.shape[1]), x.dtype)
    given = (pattern.indptr, pattern.indices, values, np.ascontiguousarray(x), out)
    map_ranges(lambda a, b: multiply_rows(a, b, *given), pattern.bounds)
    return out


THREADS = ThreadEngine()
