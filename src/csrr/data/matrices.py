"""Users x items matrices of any kind -> checked entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr.arrays import Float64Array, Int64Array
from csrr.data.errors import DataError


class Entries(NamedTuple):
    """The entries above 0 of a matrix, row by row: three arrays of shape (n,); and its shape."""

    rows: Int64Array
    columns: Int64Array
    values: Float64Array
    shape: tuple[int, int]


def is_matrix(data: object) -> bool:
    """Return whether `read_entries` can take `data`, or at least say what is wrong with it."""
    return sparse.issparse(data) or isinstance(data, np.ndarray)


def read_entries(
    matrix: Any,
    n_user_ids: int | None = None,
    n_item_ids: int | None = None,
    *,
    min_rating: float | None = None,
    min_weight: float | None = None,
) -> Entries:
    """Return the entries of a sparse or dense users x items matrix that are above 0 and reach both bounds.

    Duplicates are summed first. Where ids are given, there must be as many as rows and columns.
    """
    if matrix.ndim != 2:
        raise DataError(f"a matrix has 2 dimensions, users x items; this one has {matrix.ndim}")
    n_users, n_items = (int(n) for n in matrix.shape)
    if n_users == 0 or n_items == 0:
        raise DataError(f"the matrix is empty: its shape is {n_users} x {n_items}")
    if matrix.dtype.kind not in "buif":
        raise DataError(f"a matrix holds bool, integer or float values; this one holds {matrix.dtype}")
    _check_id_counts((n_users, n_items), n_user_ids, n_item_ids)
    if matrix.dtype == np.float16 or not matrix.dtype.isnative:  # scipy takes neither
        matrix = matrix.astype(np.float32 if matrix.dtype == np.float16 else matrix.dtype.newbyteorder("="))
    coo = sparse.coo_array(matrix)
    _check_values(coo.row, coo.col, coo.data)
    summed = sparse.csr_array(coo.astype(np.float64)).tocoo()
    bounds = [bound for bound in (min_rating, min_weight) if bound is not None]
    keep = (summed.data.astype(np.float32) > 0) & (summed.data >= max(bounds, default=0))
    if not keep.any():
        condition = f">= {max(bounds):g}" if bounds else "above 0"
        raise DataError(f"no events left: the matrix has no value {condition}")
    rows, columns = (index[keep].astype(np.int64) for index in (summed.row, summed.col))
    return Entries(rows, columns, summed.data[keep], (n_users, n_items))


def _check_id_counts(shape: tuple[int, int], n_user_ids: int | None, n_item_ids: int | None) -> None:
    """Raise DataError unless there is one user id a row and one item id a column, where ids are given."""
    n_users, n_items = shape
    if n_user_ids in (None, n_users) and n_item_ids in (None, n_items):
        return
    counts = [f"{n:,} {kind} ids" for n, kind in ((n_user_ids, "user"), (n_item_ids, "item")) if n is not None]
    seen = f"the matrix is {n_users} x {n_items} but there are {' and '.join(counts)}"
    if n_user_ids in (None, n_items) and n_item_ids in (None, n_users):
        raise DataError(f"the matrix looks transposed: {seen}; pass matrix.T, which has users as rows")
    raise DataError(f"{seen}; give one user id a row and one item id a column")


def _check_values(rows: Any, columns: Any, values: Any) -> None:
    with np.errstate(over="ignore"):
        bad = np.flatnonzero((values < 0) | ~np.isfinite(values.astype(np.float32)))
    if bad.size:
        at = int(bad[0])
        raise DataError(
            f"the matrix has {values[at]} at row {rows[at]}, column {columns[at]} (counted from 0);"
            " values must be finite and >= 0"
        )
