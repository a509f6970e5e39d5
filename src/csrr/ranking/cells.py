"""Score blocks -> what a threshold, or the order, gets right over all cells, without ever holding them all.

The cells are those of the given rows that are not in `seen`; the positives are the ones stored in `relevant`, the
negatives all others. A cell is recommended when its score is above the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.arrays import BoolArray, Float32Array, Float64Array, Int64Array, Rows
from csrr.ranking.row_loops import count_cell_rows
from csrr.ranking.score_blocks import RowScorer, check_rows, score_blocks, split_rows
from csrr.threads import run_ranges

CELL_METRICS = ("cell_recall", "specificity", "sum", "cost")


@dataclass(frozen=True, eq=False)
class Measures:
    """The paper's four measures, arrays of one shape; `cell_recall` and `specificity` are NaN without such cells.

    With P positives, of which M score at most the threshold, and N negatives, of which F score above it:
    cell_recall = 1 - M/P, specificity = 1 - F/N, sum = c*cell_recall + (1 - c)*specificity and
    cost = c*M + (1 - c)*F, c the positive cost.
    """

    cell_recall: Float64Array
    specificity: Float64Array
    sum: Float64Array
    cost: Float64Array


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Counts of cells for each of n rows, to which `add` adds a block.

    `positives` and `negatives` have shape (n,); `missed`, the positives not above each threshold, and
    `false_alarms`, the negatives above it, have shape (n, n_thresholds). `beaten`, shape (n,) or (0,) where not asked
    for, counts pairs of a positive and a negative: 2 where the negative has the larger score, 1 where they tie.
    """

    rows: Rows
    relevant: Any
    n_seen: Int64Array
    thresholds: Float32Array
    positives: Int64Array
    negatives: Int64Array
    missed: Int64Array
    false_alarms: Int64Array
    beaten: Int64Array

    @classmethod
    def empty(cls, rows: Rows, relevant: Any, seen: Any, thresholds: npt.ArrayLike = (), *, auc: bool) -> CellCounts:
        """Return counts of 0; `relevant` and `seen`, CSR of shape (n_users, n_items), share no cell."""
        bounds = np.asarray(thresholds, np.float64)
        n_seen, positives = (np.diff(matrix.indptr)[rows].astype(np.int64) for matrix in (seen, relevant))
        missed, false_alarms = (np.zeros((len(rows), len(bounds)), np.int64) for _ in range(2))
        return cls(
            rows,
            relevant,
            n_seen,
            _round_down(bounds),
            positives,
            relevant.shape[1] - n_seen - positives,
            missed,
            false_alarms,
            np.zeros(len(rows) if auc else 0, np.int64),
        )

    def add(self, part: slice, scores: Float32Array) -> None:
        """Count the rows `part`, whose scores are `scores`, shape (b, n_items), seen cells -inf."""
        rows, n_seen = self.rows[part], self.n_seen[part]
        missed, false_alarms, beaten = self.missed[part], self.false_alarms[part], self.beaten[part]
        indptr, indices = self.relevant.indptr, self.relevant.indices
        check_rows(rows, len(scores), len(indptr) - 1)

        def count(start: int, stop: int) -> None:
            bounds = self.thresholds
            count_cell_rows(start, stop, scores, indptr, indices, rows, n_seen, bounds, missed, false_alarms, beaten)

        run_ranges(count, split_rows(len(scores)))

    def take(self, which: BoolArray) -> CellCounts:
        """Return the counts of some of the rows, `which` of shape (n,)."""
        arrays = {name: getattr(self, name)[which] for name in ("rows", "n_seen", "positives", "negatives", "missed")}
        beaten = self.beaten[which] if len(self.beaten) else self.beaten
        return replace(self, **arrays, false_alarms=self.false_alarms[which], beaten=beaten)

    def auc(self) -> Float64Array:
        """Return the share of pairs of a positive and a negative that the scores order rightly, ties half: shape (n,).

        It is NaN for a row without positives or without negatives.
        """
        return 1 - _share(self.beaten, 2 * self.positives * self.negatives)

    def measure_rows(self, positive_cost: float) -> Measures:
        """Return the measures of each row and threshold, shape (n, n_thresholds)."""
        sizes = self.positives[:, None], self.negatives[:, None]
        return _compute_measures(self.missed, self.false_alarms, *sizes, positive_cost)

    def pool(self, positive_cost: float) -> Measures:
        """Return the measures of all rows' cells together at each threshold, shape (n_thresholds,)."""
        sizes = self.positives.sum(), self.negatives.sum()
        return _compute_measures(self.missed.sum(axis=0), self.false_alarms.sum(axis=0), *sizes, positive_cost)

    def linearise(self, positive_cost: float) -> Measures:
        """Return values of each row, shape (n, n_thresholds), whose mean over rows is `pool`, and whose spread its.

        For a ratio of sums, mean M / mean P, this is the delta method: a row has ratio + (M_row - ratio*P_row)/mean P.
        """
        missed = _linearise_ratio(self.missed, self.positives[:, None])
        false = _linearise_ratio(self.false_alarms, self.negatives[:, None])
        cost = positive_cost * self.missed + (1 - positive_cost) * self.false_alarms
        both = positive_cost * (1 - missed) + (1 - positive_cost) * (1 - false)
        return Measures(1 - missed, 1 - false, both, len(self.rows) * cost)


def measure_cells(
    score_rows: RowScorer,
    rows: Rows,
    n_items: int,
    relevant: Any,
    seen: Any,
    thresholds: npt.ArrayLike,
    positive_cost: float = 0.5,
) -> Measures:
    """Return the measures over all cells of `rows` together at each of `thresholds`, shape (n_thresholds,).

    `relevant` and `seen`, sparse of shape (n_users, n_items), share no cell. Scores are made in blocks.
    """
    bounds = np.asarray(thresholds, np.float64)
    if bounds.ndim != 1 or np.isnan(bounds).any():
        raise ValueError(f"thresholds must be a list of numbers, not {thresholds!r}")
    if not 0 <= positive_cost <= 1:
        raise ValueError(f"positive_cost={positive_cost!r}: it must lie between 0 and 1")
    relevant, seen = relevant.tocsr(), seen.tocsr()
    counts = CellCounts.empty(rows, relevant, seen, bounds, auc=False)
    for part, scores in score_blocks(score_rows, rows, n_items, seen=seen):
        counts.add(part, scores)
    return counts.pool(positive_cost)


def _compute_measures(missed: Any, false_alarms: Any, positives: Any, negatives: Any, positive_cost: float) -> Measures:
    recall, specificity = 1 - _share(missed, positives), 1 - _share(false_alarms, negatives)
    both = positive_cost * recall + (1 - positive_cost) * specificity
    return Measures(recall, specificity, both, positive_cost * missed + (1 - positive_cost) * false_alarms)


def _share(part: Any, whole: Any) -> Float64Array:
    """Return part / whole, NaN where whole is 0."""
    part, whole = np.broadcast_arrays(part, whole)
    share: Float64Array = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return share


def _linearise_ratio(part: Int64Array, whole: Int64Array) -> Float64Array:
    if not whole.any():
        return np.full(part.shape, np.nan)
    ratio = part.sum(axis=0) / whole.sum()
    values: Float64Array = ratio + (part - ratio * whole) / whole.mean()
    return values


def _round_down(thresholds: Float64Array) -> Float32Array:
    """Return the largest float32 not above each threshold: the same float32 scores are above it."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(np.float32)
    return np.where(near > thresholds, np.nextafter(near, np.float32(-np.inf)), near)
