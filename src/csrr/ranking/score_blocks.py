"""Scores in blocks of users: everything that ranks, counts or calibrates goes through here, one block at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.arrays import AnyArray, Float32Array, FloatArray, Rows
from csrr.ranking.row_loops import mask_rows
from csrr.threads import n_threads, run_ranges, use_threads

RowScorer = Callable[[Rows], Float32Array]
"""From row numbers of users, shape (b,), to a new array of their scores, shape (b, n_items), which may be changed."""

BLOCK_BYTES = 2**26
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 32, 4096
PRODUCT_ITEMS = 1024
"""Items whose scores are one product of a thread."""


def score_blocks(
    score_rows: Callable[[Rows], AnyArray],
    rows: Rows,
    n_items: int,
    *,
    seen: Any = None,
    items: Rows | None = None,
    block_rows: int | None = None,
    dtype: npt.DTypeLike = np.float32,
) -> Iterator[tuple[slice, AnyArray]]:
    """Yield which of `rows` a block has, and their scores, shape (b, n_items) or, with `items`, (b, len(items)).

    `score_rows(rows)` returns a new array of `dtype` and of shape (len(rows), n_items), which is overwritten: cells
    that `seen`, sparse of shape (n_users, n_items), stores become -inf. `items` are the item rows to keep, in their
    order. A block has `block_rows` rows, or as many as make about BLOCK_BYTES; how products are rounded may depend on
    it.
    """
    past = None if seen is None else seen.tocsr()
    size = block_rows or choose_block_rows(n_items)
    for first in range(0, len(rows), size):
        part = slice(first, min(first + size, len(rows)))
        scores = _check_block(score_rows(rows[part]), (part.stop - first, n_items), np.dtype(dtype))
        if past is not None:
            mask_cells(scores, past.indptr, past.indices, rows[part])
        yield part, scores if items is None else np.ascontiguousarray(scores[:, items])


def multiply_factors(users: FloatArray, items: FloatArray) -> Float32Array:
    """Return users @ items.T, shape (b, m), of factors of shapes (b, d) and (m, d).

    The items are cut without regard to the number of threads, which must not change how products are rounded.
    """
    scores = np.empty((len(users), len(items)), np.result_type(users, items))

    def multiply(start: int, stop: int) -> None:
        np.matmul(users, items[start:stop].T, out=scores[:, start:stop])

    with use_threads(n_threads(), blas=1):
        run_ranges(multiply, [*range(0, len(items), PRODUCT_ITEMS), len(items)])
    return scores


def mask_cells(scores: FloatArray, indptr: Rows, indices: Rows, rows: Rows) -> None:
    """Set to -inf, in row i of `scores`, shape (b, n_items), the cells that CSR row `rows[i]` stores."""
    check_rows(rows, len(scores), len(indptr) - 1)
    run_ranges(lambda a, b: mask_rows(a, b, scores, indptr, indices, rows), split_rows(len(scores)))


def choose_block_rows(n_items: int) -> int:
    """Return the number of rows that make a block of about BLOCK_BYTES."""
    return max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, BLOCK_BYTES // (4 * max(1, n_items))))


def split_rows(n_rows: int) -> list[int]:
    """Return row numbers that cut `n_rows` rows into a few ranges for each thread in force."""
    n_ranges = min(n_rows, 4 * n_threads())
    return [n_rows * i // n_ranges for i in range(n_ranges + 1)] if n_ranges else [0]


def check_rows(rows: Rows, n_wanted: int, n_rows: int) -> None:
    """Raise an IndexError unless `rows` are `n_wanted` numbers below `n_rows`: kernels check no bounds."""
    if len(rows) != n_wanted or (n_wanted and not (rows.min() >= 0 and rows.max() < n_rows)):
        raise IndexError(f"rows must be {n_wanted} numbers from 0 to {n_rows - 1}")


def _check_block(scores: AnyArray, shape: tuple[int, int], dtype: np.dtype[Any]) -> AnyArray:
    if scores.shape != shape or scores.dtype != dtype:
        raise ValueError(
            f"a score block is {scores.dtype} of shape {scores.shape}; it must be {dtype} of shape {shape}"
        )
    return np.ascontiguousarray(scores)
