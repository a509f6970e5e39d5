"""Unseen cells and positives, counted in bins of the score, a block of users at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from csrr.arrays import Float32Array, Int64Array, Rows
from csrr.ranking.cell_groups import CellGroups
from csrr.ranking.score_blocks import RowScorer, score_blocks


def score_positives(
    score_rows: RowScorer, rows: Rows, n_items: int, relevant: Any, seen: Any
) -> Iterator[tuple[slice, Float32Array, Any, Float32Array]]:
    """Yield which rows a block has, its scores, its positives (coo) and theirs.

    Scores are of shape (b, n_items), seen cells -inf; those of positives of shape (p,).
    """
    for part, scores in score_blocks(score_rows, rows, n_items, seen=seen):
        mine = relevant[rows[part]].tocoo()
        yield part, scores, mine, scores[mine.row, mine.col]


def count_in_bins(
    edges: Float32Array,
    score_rows: RowScorer,
    rows: Rows,
    n_items: int,
    relevant: Any,
    seen: Any,
    groups: CellGroups | None = None,
) -> tuple[Int64Array, Int64Array]:
    """Return the numbers of unseen cells and of positives in each group and bin, shapes (n_activity, n_popularity, b).

    Without groups all cells are one.
    """
    n_activity, n_popularity = (1, 1) if groups is None else groups.shape
    counts = np.zeros((2, n_activity, n_popularity, len(edges) + 1), np.int64)
    n_cells, n_positives = counts
    of_user = np.zeros(len(rows), np.int64) if groups is None else groups.of_users(np.diff(seen.indptr)[rows])
    of_item = np.zeros(n_items, np.int64) if groups is None else groups.of_items()
    for part, scores, mine, positives in score_positives(score_rows, rows, n_items, relevant, seen):
        place = of_user[part][mine.row], of_item[mine.col], np.searchsorted(edges, positives)
        np.add.at(n_positives, place, 1)
        # Last: it sorts the very scores.
        for user, item, inside in _split_block(scores, of_user[part], of_item):
            n_cells[user, item] += _fill_histogram(inside, edges)
    # Seen cells are -inf, in the first bin.
    past = seen[rows].tocoo()
    np.subtract.at(n_cells, (of_user[past.row], of_item[past.col], 0), 1)
    return n_cells, n_positives


def _split_block(scores: Float32Array, of_user: Rows, of_item: Rows) -> Iterator[tuple[int, int, Float32Array]]:
    """Yield each group of a block and its scores, shape (n,)."""
    users, items = np.unique(of_user), np.unique(of_item)
    if len(users) == len(items) == 1:
        yield int(users[0]), int(items[0]), scores.reshape(-1)
        return
    columns = [np.flatnonzero(of_item == item) for item in items]
    for user in users:
        mine = scores[of_user == user]
        for item, chosen in zip(items, columns, strict=True):
            yield int(user), int(item), mine[:, chosen].reshape(-1)


def _fill_histogram(scores: Float32Array, edges: Float32Array) -> Int64Array:
    """Return the number of scores in each bin, shape (n_bins,); `scores`, shape (n,), are sorted in place."""
    scores.sort()
    if len(scores) and np.isnan(scores[-1]):
        raise ValueError("a score is NaN: there is no probability for it")
    return np.diff(np.searchsorted(scores, edges, side="right"), prepend=0, append=len(scores))
