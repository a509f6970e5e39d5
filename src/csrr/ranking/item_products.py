"""Scores that go from item to item: users' clicks times sparse weights between items."""

from __future__ import annotations

from typing import Any

import numpy as np

from csrr.arrays import AnyArray, Float32Array, Rows
from csrr.ranking.row_loops import add_sparse_product, multiply_sparse_own, multiply_sparse_pairs
from csrr.ranking.score_blocks import check_rows, split_rows
from csrr.threads import run_ranges


def add_products(
    out: Float32Array, clicks: Any, rows: Rows, weights: Any, scale: AnyArray, amounts: Any = None
) -> None:
    """Add scale[rows] * (clicks[rows] @ weights) to `out`, shape (len(rows), n_items).

    `clicks`, (n_users, n_items), and `weights`, (n_items, n_items), are csr, the values of `clicks` taken as `amounts`,
    (nnz,), or ones; `scale` has shape (n_users,).
    """
    check_rows(rows, len(out), clicks.shape[0])
    parts = (rows, scale, clicks.indptr, clicks.indices, amounts, weights.indptr, weights.indices, weights.data, out)
    run_ranges(lambda a, b: add_sparse_product(a, b, *parts), split_rows(len(rows)))


def multiply_pairs(
    clicks: Any, user_rows: Rows, item_rows: Rows, weights: Any, scale: AnyArray, amounts: Any = None
) -> Float32Array:
    """Return the same for pairs of a user row and an item row, shape (n,); indices of `weights` are sorted."""
    check_rows(user_rows, len(user_rows), clicks.shape[0])
    check_rows(item_rows, len(user_rows), clicks.shape[1])
    out = np.empty(len(user_rows), np.float32)
    sides = (user_rows, item_rows, scale, clicks.indptr, clicks.indices, amounts)
    parts = (*sides, weights.indptr, weights.indices, weights.data, out)
    run_ranges(lambda a, b: multiply_sparse_pairs(a, b, *parts), split_rows(len(out)))
    return out


def multiply_own(clicks: Any, weights: Any, scale: AnyArray, amounts: Any = None) -> Float32Array:
    """Return the same for the stored entries of `clicks`, shape (nnz,)."""
    out = np.empty(len(clicks.indices), np.float32)
    parts = (scale, clicks.indptr, clicks.indices, amounts, weights.indptr, weights.indices, weights.data)
    run_ranges(
        lambda a, b: multiply_sparse_own(a, b, *parts, np.zeros(weights.shape[0]), out), split_rows(clicks.shape[0])
    )
    return out
