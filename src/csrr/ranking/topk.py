"""Score blocks -> the best items of each row, without ever holding a full users x items array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import BoolArray, Float32Array, Int32Array, Rows
from csrr.ranking.item_order import ItemOrder
from csrr.ranking.restrictions import Restrictions, take_rows
from csrr.ranking.row_loops import find_top_k_rows
from csrr.ranking.score_blocks import RowScorer, score_blocks, split_rows
from csrr.threads import run_ranges

Top = tuple[Int32Array, Float32Array]
"""The best items of each row and their scores, shapes (n, k)."""

Ranker = Callable[[Float32Array, int, ItemOrder | None, BoolArray | None], Top]
"""Makes lists of a block of scores as `block_top_k` does: of scores, k, the order of ties, and what is allowed."""

NO_ITEM = -1


def block_top_k(scores: npt.ArrayLike, k: int, order: ItemOrder | None = None, allowed: BoolArray | None = None) -> Top:
    """Return the items, shape (b, k), and scores, shape (b, k), of the best of each row of (b, n_items).

    Best first; equal scores by `order`, or by item row without one, whatever the number of threads. A cell of -inf is
    never returned, nor an item that is not `allowed`, shape (n_items,): a list that runs short ends in item -1 with
    score -inf. Scores are taken as float32; NaN is refused with a ValueError.
    """
    block = np.ascontiguousarray(scores, np.float32)
    if block.ndim != 2:
        raise ValueError(f"scores must have shape (rows, items), not {block.shape}")
    if k < 0:
        raise ValueError(f"k={k}: it must not be negative")
    by_place, places = _check_order(order, block.shape[1])
    chosen = np.ones(block.shape[1], np.bool_) if allowed is None else _check_allowed(allowed, block.shape[1])
    items = np.full((len(block), k), NO_ITEM, np.int32)
    best = np.full((len(block), k), -np.inf, np.float32)
    if k == 0:
        return items, best
    bad = np.zeros(len(block), np.bool_)
    parts = (block, chosen, places, by_place, best, items, bad)
    run_ranges(lambda a, b: find_top_k_rows(a, b, *parts), split_rows(len(block)))
    if bad.any():
        row = int(bad.argmax())
        item = int((np.isnan(block[row]) & chosen).argmax())
        raise ValueError(f"a score is NaN: row {row} of the block, item row {item}")
    return items, best


def top_k(
    score_rows: RowScorer,
    rows: Rows,
    n_items: int,
    k: int,
    *,
    seen: Any = None,
    candidates: Rows | None = None,
    exclude: Any = None,
    limits: Restrictions | None = None,
    order: ItemOrder | None = None,
    block_rows: int | None = None,
    rank: Ranker | None = None,
) -> Top:
    """Return the best items of each of `rows` as `block_top_k` does, or as `rank`, shapes (len(rows), k), in blocks.

    `score_rows(rows)` returns a new float32 array of shape (len(rows), n_items), which is overwritten. Left
    out is what `limits` leave out, which speak of the people in the order of `rows`; or, without them, the cells stored
    in `seen`, sparse of shape (n_users, n_items); the items not among `candidates`; and those in `exclude`: item rows
    for everyone, or a sparse matrix of shape (len(rows), n_items).
    """
    rows = np.asarray(rows, np.int64)
    if limits is None:
        limits = _make_limits(rows, n_items, seen, candidates, exclude)
    items = np.empty((len(rows), k), np.int32)
    best = np.empty((len(rows), k), np.float32)
    for part, scores in score_blocks(score_rows, rows, n_items, block_rows=block_rows):
        limits.mask(part, scores)
        items[part], best[part] = (rank or block_top_k)(scores, k, order, limits.allowed)
    return items, best


def _make_limits(rows: Rows, n_items: int, seen: Any, candidates: Rows | None, exclude: Any) -> Restrictions:
    limits = Restrictions(n_items)
    if candidates is not None:
        limits.keep(np.asarray(candidates, np.int64))
    if sparse.issparse(exclude):
        limits.leave_out(_check_csr(exclude, len(rows), n_items, "exclude"))
    elif exclude is not None:
        limits.leave_out(np.asarray(exclude, np.int64))
    if seen is not None:
        limits.leave_out(take_rows(_check_csr(seen, int(rows.max(initial=-1)) + 1, n_items, "seen"), rows))
    return limits


def _check_csr(matrix: Any, n_rows: int, n_items: int, name: str) -> Any:
    """Return a sparse matrix in CSR format, if it has `n_items` columns and at least `n_rows` rows."""
    if matrix.shape[0] < n_rows or matrix.shape[1] != n_items:
        raise ValueError(f"{name} has shape {matrix.shape}; it must be ({n_rows}, {n_items})")
    return sparse.csr_array(matrix)


def _check_order(order: ItemOrder | None, n_items: int) -> ItemOrder:
    """Return an order of `n_items` items: kernels check no bounds."""
    if order is None:
        return ItemOrder.by_row(n_items)
    if order.items.shape != (n_items,) or order.places.shape != (n_items,):
        raise ValueError(f"the order is one of {len(order.items)} items; it must be of {n_items}")
    return order


def _check_allowed(allowed: BoolArray, n_items: int) -> BoolArray:
    if allowed.shape != (n_items,) or allowed.dtype != np.bool_:
        raise ValueError(f"allowed is {allowed.dtype} of shape {allowed.shape}; it must be bool of shape ({n_items},)")
    return allowed
