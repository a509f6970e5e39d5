"""What lists may hold: items for everyone, and cells of each person. All that restricts a list is collected here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from csrr.arrays import BoolArray, Float32Array, Rows
from csrr.ranking.row_loops import keep_cells
from csrr.ranking.score_blocks import check_rows, mask_cells, split_rows
from csrr.threads import run_ranges

Items = Any
"""Item rows for everyone, or a csr array of shape (n, n_items) that stores a row of cells for each person."""


@dataclass(eq=False)
class Restrictions:
    """What restricts the lists of n people among `n_items` items; it begins with nothing.

    `allowed`, shape (n_items,), holds for everyone. `left_out` are cells that are in no list and `kept`, where there
    are any, the only ones that are: csr arrays of shape (n, n_items), a row for each person.
    """

    n_items: int
    allowed: BoolArray = field(init=False)
    left_out: list[Any] = field(default_factory=list, init=False)
    kept: list[Any] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.allowed = np.ones(self.n_items, np.bool_)

    def keep(self, items: Items) -> None:
        """Leave out all but these."""
        if sparse.issparse(items):
            self.kept.append(_sort(items))
        else:
            chosen = np.zeros(self.n_items, np.bool_)
            chosen[items] = True
            self.allowed &= chosen

    def leave_out(self, items: Items) -> None:
        """Leave these out."""
        if sparse.issparse(items):
            self.left_out.append(items)
        else:
            self.allowed[items] = False

    def count_left(self) -> int:
        """Return the length of the longest list that there can be, but for the cells left out."""
        lengths = [int(np.diff(each.indptr).max(initial=0)) for each in self.kept]
        return min([int(self.allowed.sum()), *lengths])

    def mask(self, part: slice, scores: Float32Array) -> None:
        """Set to -inf the cells that may not be in the lists of the people at `part`; their scores are (b, n_items).

        What is `allowed` is for those who make lists of the scores: a sweep over them costs more than asking.
        """
        rows = np.arange(part.start, part.stop)
        for cells in self.left_out:
            mask_cells(scores, cells.indptr, cells.indices, rows)
        for cells in self.kept:
            _keep_cells(scores, cells, rows)


def take_rows(matrix: Any, rows: Rows) -> Any:
    """Return the rows of a csr array, an empty one for -1; the array itself where that is all of it in its order."""
    if len(rows) == matrix.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return matrix
    there = rows >= 0
    if there.all():
        return matrix[rows]
    counts = np.zeros(len(rows), np.int64)
    some = matrix[rows[there]]
    counts[there] = np.diff(some.indptr)
    starts = np.concatenate(([0], np.cumsum(counts)))
    return sparse.csr_array((some.data, some.indices, starts), shape=(len(rows), matrix.shape[1]))


def _keep_cells(scores: Float32Array, cells: Any, rows: Rows) -> None:
    check_rows(rows, len(scores), cells.shape[0])
    parts = (scores, cells.indptr, cells.indices, rows)
    run_ranges(lambda a, b: keep_cells(a, b, *parts), split_rows(len(scores)))


def _sort(cells: Any) -> Any:
    """Return cells whose columns rise within a row, each there once: what `keep_cells` asks for."""
    if cells.has_canonical_format:
        return cells
    cells = cells.copy()
    cells.sum_duplicates()
    return cells
