"""Users x items matrices of any kind -> checked entries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from csrr._base.arrays import Float64Array, Int64Array
from csrr._base.text import quote_error
from csrr.data.errors import DataError
from csrr.data.sources import BYTES_A_ROW, choose_limit


class Entries(NamedTuple):
    """The entries above 0 of a matrix, row by row: three arrays of shape (n,); and its shape."""

    rows: Int64Array
    columns: Int64Array
    values: Float64Array
    shape: tuple[int, int]


def is_matrix(data: object) -> bool:
    """Return whether data are a matrix, sparse or dense, that `read_entries` accepts or refuses with a reason."""
    return sparse.issparse(data) or isinstance(data, np.ndarray)


def check_sparse(matrix: Any, what: str = "the matrix") -> Any:
    """Return a sparse matrix of two dimensions whose parts fit together: itself, or a copy as COO; else a DataError.

    scipy makes a matrix of any arrays, and its compiled loops trust them: a wrong index would crash the process.
    """
    try:
        if matrix.dtype == np.float16 or not matrix.dtype.isnative:
            raise ValueError(f"its values are {matrix.dtype}, which scipy does not have")
        if matrix.format in ("csr", "csc", "bsr"):
            _check_compressed(matrix)
            if matrix.indptr[-1] < len(matrix.indices):
                # Values behind the last row are not part of the matrix, but scipy would make entries of them.
                matrix = matrix.copy()
                matrix.prune()
        else:
            if matrix.format == "dia":
                _check_diagonals(matrix)
            if matrix.format == "lil":
                _check_lists(matrix.rows, matrix.data, matrix.shape[0])
            matrix = sparse.coo_array(matrix)
            _check_indices(matrix.row, matrix.shape[0])
            _check_indices(matrix.col, matrix.shape[1])
            if not len(matrix.row) == len(matrix.col) == len(matrix.data):
                raise ValueError("there are not as many values as places")
    except (ValueError, TypeError, IndexError, AttributeError, OverflowError) as error:
        raise DataError(f"{what} is damaged: {quote_error(error)}; make it again from its entries") from None
    return matrix


def _check_compressed(matrix: Any) -> None:
    """Raise ValueError unless the pointers of a CSR, CSC or BSR matrix cut its indices into rows (columns)."""
    pointers, indices, data = (np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    block = data.shape[1:]
    if len(block) != (2 if matrix.format == "bsr" else 0) or 0 in block:
        raise ValueError(f"its values have the shape {data.shape}")
    many, other = (-(-size // step) for size, step in zip(matrix.shape, block or (1, 1), strict=True))
    if block and (many * block[0], other * block[1]) != matrix.shape:
        raise ValueError(f"blocks of shape {block} do not fill {matrix.shape}")
    many, other = (other, many) if matrix.format == "csc" else (many, other)
    if pointers.shape != (many + 1,) or pointers.dtype.kind not in "iu" or indices.shape != data.shape[:1]:
        raise ValueError(f"{pointers.size:,} pointers, {indices.size:,} indices and {len(data):,} values")
    if pointers[0] != 0 or pointers[-1] > len(indices) or (pointers[1:] < pointers[:-1]).any():
        raise ValueError(f"its pointers do not rise from 0 to {len(indices):,}")
    _check_indices(indices, other)


def _check_diagonals(matrix: Any) -> None:
    """Raise ValueError unless a DIA matrix has an offset, within its shape, for each diagonal."""
    offsets, (n, m) = matrix.offsets, matrix.shape
    if matrix.data.ndim != 2 or offsets.shape != matrix.data.shape[:1]:
        raise ValueError(f"it has {offsets.size:,} offsets for values of shape {matrix.data.shape}")
    _check_indices(offsets, n + m, first=-n)


def _check_lists(rows: Any, data: Any, many: int) -> None:
    """Raise ValueError unless there is a list of columns, and one of as many values, for each row of a LIL matrix."""
    is_list = {type(each) for each in (*rows, *data)} <= {list}
    if rows.shape != (many,) or data.shape != (many,) or not is_list or list(map(len, rows)) != list(map(len, data)):
        raise ValueError(f"its lists of columns and of values, {rows.shape} and {data.shape}, do not go together")


def _check_indices(indices: Any, size: int, first: int = 0) -> None:
    """Raise ValueError unless these are some of the `size` whole numbers from `first` on."""
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        raise ValueError(f"its indices are {indices.dtype} of {indices.ndim} dimensions")
    if len(indices) and not (indices.min() >= first and indices.max() < first + size):
        raise ValueError(f"its indices go from {indices.min()} to {indices.max()}, not {first} to {first + size - 1}")


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
    choose_limit().check(
        BYTES_A_ROW * (n_users + n_items), f"a matrix of {n_users:,} x {n_items:,}, whatever is in it,"
    )
    _check_id_counts((n_users, n_items), n_user_ids, n_item_ids)
    if sparse.issparse(matrix):
        matrix = check_sparse(matrix)
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
        where = f"at row {rows[at]}, column {columns[at]}"
        raise DataError(f"the matrix has {values[at]} {where}; values must be finite and >= 0")
