"""The observed cells of a users x items matrix, and the products that only need those."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from csrr.optim.cell_loops import observed_dots, sparse_times_dense
from csrr.threads import run_ranges

Floats = NDArray[np.floating[Any]]

_CHUNKS = 16


def _balanced_bounds(indptr: NDArray[np.int64]) -> list[int]:
    """Row numbers that cut the rows into ranges of about equally many cells, (at most _CHUNKS + 1,)."""
    rows = len(indptr) - 1
    wanted = np.linspace(0, indptr[-1], _CHUNKS + 1)
    cuts = np.searchsorted(indptr, wanted[1:-1], side="left")
    return [0, *sorted({int(c) for c in cuts if 0 < c < rows}), rows]


class Pattern:
    """Which cells of an (n, m) matrix are observed; values on them are arrays of (nnz,), in row order."""

    def __init__(self, shape: tuple[int, int], indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> None:
        self.shape = shape
        self.indptr = indptr
        self.indices = indices
        self.bounds = _balanced_bounds(indptr)

    @classmethod
    def of(cls, matrix: Any) -> Pattern:
        """The pattern of a sparse matrix; explicit zeros count as observed."""
        csr = sparse.csr_array(matrix)
        csr.sum_duplicates()
        return cls((int(csr.shape[0]), int(csr.shape[1])), csr.indptr.astype(np.int64), csr.indices.astype(np.int32))

    @property
    def nnz(self) -> int:
        """How many cells are observed."""
        return len(self.indices)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """The row number of every observed cell, (nnz,)."""
        return np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.indptr))

    @cached_property
    def _columns_first(self) -> tuple[Pattern, NDArray[np.int32]]:
        """The transposed pattern, and where each of its cells stands in ours."""
        order = sparse.csr_array(
            (np.arange(self.nnz, dtype=np.int32), self.indices, self.indptr), shape=self.shape
        ).tocsc()
        flipped = Pattern(self.shape[::-1], order.indptr.astype(np.int64), order.indices.astype(np.int32))
        return flipped, order.data

    def matrix(self, values: Floats) -> Any:
        """The (n, m) sparse array with `values` on the observed cells."""
        return sparse.csr_array((values, self.indices, self.indptr), shape=self.shape, copy=True)

    def times(self, values: Floats, x: Floats) -> Floats:
        """S @ x, (n, k), for the sparse S with `values`."""
        out = np.empty((self.shape[0], x.shape[1]), x.dtype)
        x = np.ascontiguousarray(x)
        run_ranges(lambda a, b: sparse_times_dense(a, b, self.indptr, self.indices, values, x, out), self.bounds)
        return out

    @property
    def T(self) -> Pattern:
        """The transposed pattern."""
        return self._columns_first[0]

    def transposed(self, values: Floats) -> Floats:
        """The values in the order of the transposed pattern, (nnz,)."""
        return values[self._columns_first[1]]

    def dots(self, left: Floats, right: Floats, width: int | None = None) -> Floats:
        """left @ right.T on the observed cells, (nnz,); of the first `width` columns, if given."""
        out = np.empty(self.nnz, left.dtype)
        width = left.shape[1] if width is None else width
        run_ranges(lambda a, b: observed_dots(a, b, self.indptr, self.indices, left, right, width, out), self.bounds)
        return out
