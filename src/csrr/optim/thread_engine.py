"""The engine of one machine: blocks of rows on the threads in force.

Ranges depend on the data alone and are added up in order, so that results have the same bits whatever the number of
threads; and no BLAS thread is waited for that the system has put aside for another program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from csrr.optim.arrays import Doubles, Floats, join_parts
from csrr.optim.cell_loops import observed_dots, sparse_times_dense, transposed_times_dense
from csrr.threads import map_ranges

if TYPE_CHECKING:
    from csrr.optim.pattern import Pattern

_MOST_RANGES, _LEAST_ROWS, _LEAST_CELLS = 16, 1024, 2**15

Part = TypeVar("Part")


def cut_rows(rows: int, least: int = _LEAST_ROWS) -> list[int]:
    """Row numbers that cut `rows` rows into ranges of about `least` or more; they depend on nothing else."""
    ranges = int(np.clip(rows // least, 1, _MOST_RANGES))
    return [rows * i // ranges for i in range(ranges + 1)]


class ThreadEngine:
    """`Engine` on this machine. Its methods may fill one array from many threads; those who call it see whole ones."""

    def put(self, x: Floats) -> Floats:
        """The array itself, (rows, k)."""
        return x

    def multiply_sparse(self, pattern: Pattern, values: Floats, x: Floats) -> Floats:
        """S @ x, (n, k), for the sparse S with `values`, (nnz,), and x, (m, k)."""
        out = np.empty((pattern.shape[0], x.shape[1]), x.dtype)
        given = (pattern.indptr, pattern.indices, values, np.ascontiguousarray(x), out)
        map_ranges(lambda a, b: sparse_times_dense(a, b, *given), pattern.bounds)
        return out

    def multiply_transposed(self, pattern: Pattern, values: Floats, y: Floats) -> Floats:
        """S.T @ y, (m, k), for the sparse S with `values`, (nnz,), and y, (n, k).

        Item by item, where the values stand being looked up on the way. A sum over blocks of users needs an (m, k) for
        each of them: with 16 blocks and k = 140 it took as long on MovieLens-1M, six times as long on Gowalla.
        """
        by_item, places = pattern.T, pattern.places_by_item
        out = np.empty((pattern.shape[1], y.shape[1]), y.dtype)
        given = (by_item.indptr, by_item.indices, places, values, np.ascontiguousarray(y), out)
        map_ranges(lambda a, b: transposed_times_dense(a, b, *given), by_item.bounds)
        return out

    def dot_rows(self, pattern: Pattern, left: Floats, right: Floats, width: int) -> Floats:
        """left @ right.T on the observed cells, (nnz,): left (n, k), right (m, k), their first `width` columns."""
        out = np.empty(pattern.nnz, left.dtype)
        given = (pattern.indptr, pattern.indices, left, right, width, out)
        map_ranges(lambda a, b: observed_dots(a, b, *given), pattern.bounds)
        return out

    def map_cells(self, work: Callable[..., Floats], *cells: Floats) -> Floats:
        """`work` of arrays of (nnz,), (nnz,), range by range."""
        bounds = cut_rows(len(cells[0]), _LEAST_CELLS)
        return join_parts(map_ranges(lambda a, b: work(*(c[a:b] for c in cells)), bounds))

    def sum_cells(self, work: Callable[..., float], *cells: Floats) -> float:
        """The sum of `work` over ranges of arrays of (nnz,)."""
        bounds = cut_rows(len(cells[0]), _LEAST_CELLS)
        return sum(map_ranges(lambda a, b: work(*(c[a:b] for c in cells)), bounds))

    def multiply(self, x: Floats, small: Floats) -> Floats:
        """x @ small, (rows, c), for x of (rows, k) and small of (k, c)."""
        out = np.empty((len(x), small.shape[1]), np.result_type(x, small))
        map_ranges(lambda a, b: np.matmul(x[a:b], small, out=out[a:b]), cut_rows(len(x)))
        return out

    def cross(self, x: Floats, y: Floats) -> Doubles:
        """x.T @ y, (k, c), for x of (rows, k) and y of (rows, c); the ranges are added up in double precision."""
        total = np.zeros((x.shape[1], y.shape[1]))
        for part in map_ranges(lambda a, b: x[a:b].T @ y[a:b], cut_rows(len(x))):
            total += part
        return total

    def square_columns(self, x: Floats) -> Doubles:
        """The sum of the squares of every column of x, (rows, k), in double precision, (k,)."""
        squares: Doubles = np.einsum("ik,ik->k", x, x, dtype=np.float64)
        return squares

    def join_columns(self, arrays: Sequence[Floats]) -> Floats:
        """Arrays of (rows, ...) side by side, (rows, the sum of their widths)."""
        return np.concatenate(arrays, axis=1)

    def map_rows(
        self,
        work: Callable[..., tuple[Floats, ...]],
        pattern: Pattern,
        cells: Sequence[Floats],
        rows: Sequence[Floats],
    ) -> tuple[Floats, ...]:
        """What `work` returns for blocks of users (see `Engine`), each array, (n, ...), put together in their order."""

        def run(a: int, b: int) -> tuple[Floats, ...]:
            first, last = pattern.indptr[a], pattern.indptr[b]
            block = pattern.indptr[a : b + 1] - first, pattern.indices[first:last]
            return work(*block, *(c[first:last] for c in cells), *(r[a:b] for r in rows))

        parts = map_ranges(run, pattern.bounds)
        return tuple(join_parts(list(each)) for each in zip(*parts, strict=True))

    def map_ranges(self, work: Callable[[int, int], Part], bounds: Sequence[int]) -> list[Part]:
        """What `work(start, stop)` returns for each consecutive pair of `bounds`, in order."""
        return map_ranges(work, bounds)


THREADS = ThreadEngine()
