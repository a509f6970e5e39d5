"""The observed cells of a users x items matrix, and the products that only need those."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from csrr.arrays import FloatArray, Int32Array, Int64Array
from csrr.optim.engine import Engine
from csrr.optim.thread_engine import THREADS

__all__ = ["FloatArray", "Pattern", "Sparse"]

_CHUNKS = 16


def _balance_bounds(indptr: Int64Array) -> list[int]:
    """Row numbers that cut the rows into ranges of about equally many cells, (at most _CHUNKS + 1,)."""
    rows = len(indptr) - 1
    wanted = np.linspace(0, indptr[-1], _CHUNKS + 1)
    cuts = np.searchsorted(indptr, wanted[1:-1], side="left")
    return [0, *sorted({int(c) for c in cuts if 0 < c < rows}), rows]


class Pattern:
    """Which cells of an (n, m) matrix are observed; values on them are arrays of (nnz,), in row order.

    The cells of row i are `indices[indptr[i]:indptr[i + 1]]`, column numbers: `indptr` is (n + 1,), `indices` (nnz,).
    What is computed on them, and on all that belongs to a problem with this pattern, `engine` computes. `bounds`,
    row numbers, cut the rows into blocks of about equally many cells.
    """

    def __init__(
        self, shape: tuple[int, int], indptr: Int64Array, indices: Int32Array, engine: Engine = THREADS
    ) -> None:
        self.shape = shape
        self.indptr = indptr
        self.indices = indices
        self.engine = engine
        self.bounds: list[int] = _balance_bounds(indptr)

    @classmethod
    def of(cls, matrix: Any, engine: Engine = THREADS) -> Pattern:
        """The pattern of a sparse matrix, (n, m); explicit zeros count as observed."""
        csr = sparse.csr_array(matrix)
        csr.sum_duplicates()
        shape = int(csr.shape[0]), int(csr.shape[1])
        return cls(shape, csr.indptr.astype(np.int64), csr.indices.astype(np.int32), engine)

    @property
    def nnz(self) -> int:
        """How many cells are observed."""
        return len(self.indices)

    @cached_property
    def rows(self) -> Int32Array:
        """The row number of every observed cell, (nnz,)."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def _by_item(self) -> tuple[Pattern, Int32Array]:
        """The transposed pattern, and where each of its cells stands in ours, (nnz,)."""
        order = sparse.csr_array(
            (np.arange(self.nnz, dtype=np.int32), self.indices, self.indptr), shape=self.shape
        ).tocsc()
        indptr, indices = order.indptr.astype(np.int64), order.indices.astype(np.int32)
        return Pattern(self.shape[::-1], indptr, indices, self.engine), order.data

    @property
    def T(self) -> Pattern:
        """The transposed pattern."""
        return self._by_item[0]

    def transpose_values(self, values: FloatArray) -> FloatArray:
        """The values, (nnz,), in the order of the transposed pattern, (nnz,)."""
        return values[self._by_item[1]]

    def make_matrix(self, values: FloatArray) -> Any:
        """The (n, m) sparse array with `values`, (nnz,), on the observed cells."""
        return sparse.csr_array((values, self.indices, self.indptr), shape=self.shape, copy=True)

    def fill(self, values: FloatArray) -> Sparse:
        """The (n, m) matrix with `values`, (nnz,), on the observed cells, for products."""
        return Sparse(self, values)

    def dots(self, left: FloatArray, right: FloatArray, width: int | None = None) -> FloatArray:
        """left @ right.T on the observed cells, (nnz,); of the first `width` columns, if given.

        `left` is (n, k), `right` (m, k).
        """
        return self.engine.dot_rows(self, left, right, left.shape[1] if width is None else width)


class Sparse:
    """The (n, m) matrix with `values`, (nnz,), on the observed cells of a pattern; the pattern's engine multiplies."""

    def __init__(self, pattern: Pattern, values: FloatArray) -> None:
        self.pattern = pattern
        self.values = values

    @cached_property
    def values_by_item(self) -> FloatArray:
        """The values in the order of the transposed pattern, (nnz,), for an engine that wants them so."""
        return self.pattern.transpose_values(self.values)

    def times(self, x: FloatArray) -> FloatArray:
        """The matrix times x, (m, k): (n, k)."""
        return self.pattern.engine.multiply_sparse(self, x)

    def transposed_times(self, y: FloatArray) -> FloatArray:
        """The transposed matrix times y, (n, k): (m, k)."""
        return self.pattern.engine.multiply_transposed(self, y)
