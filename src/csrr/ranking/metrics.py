"""Score blocks -> what a threshold, or the order, gets right over all cells, without ever holding them all.

The cells are those of the given rows that are not in `seen`; the positives are the ones stored in `relevant`, the
negatives all others. A cell is recommended when its score is above the threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, Rows
from csrr._base.threads import run_ranges
from csrr.parameters import ParameterError
from csrr.ranking.loops import count_cell_rows, hit_rows, measure_likeness_rows
from csrr.ranking.topk import RowScorer, check_rows, score_blocks, split_rows


def mark_hits(items: Int32Array, relevant: Any, rows: Rows) -> BoolArray:
    """Return which of `items`, shape (b, k), CSR row `rows[i]` of `relevant` stores, its indices sorted."""
    check_rows(rows, len(items), relevant.shape[0])
    hits = np.empty(items.shape, np.bool_)
    indptr, indices = relevant.indptr, relevant.indices
    run_ranges(lambda a, b: hit_rows(a, b, items, indptr, indices, rows, hits), split_rows(len(items)))
    return hits


def precision(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return hits / k, also where a list or the relevant items are fewer than k."""
    return _mask_undefined(hits.sum(axis=1) / hits.shape[1], n_relevant)


def recall(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return hits / relevant items."""
    return _mask_undefined(hits.sum(axis=1) / np.maximum(n_relevant, 1), n_relevant)


def f1(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return the harmonic mean of each user's precision and recall: 2 hits / (k + relevant items)."""
    return _mask_undefined(2 * hits.sum(axis=1) / (hits.shape[1] + n_relevant), n_relevant)


def ndcg(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return DCG / ideal DCG: a hit at rank r gains 1 / log2(1 + r), the ideal has min(k, relevant) hits."""
    return _normalise_dcg(hits, np.minimum(n_relevant, hits.shape[1]), n_relevant)


def list_ndcg(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return DCG / DCG of the same hits moved to the front, 0 without hits: only the order counts.

    This is not the usual NDCG: finding fewer of the relevant items costs nothing.
    """
    return _normalise_dcg(hits, hits.sum(axis=1), n_relevant)


def average_precision(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return the sum, over the ranks of hits, of precision down to that rank / min(k, relevant items).

    Its mean over users is MAP: 1 where the list has nothing but hits or all that are relevant at its front.
    """
    k = hits.shape[1]
    precisions = np.cumsum(hits, axis=1) / np.arange(1, k + 1)
    return _mask_undefined((precisions * hits).sum(axis=1) / np.clip(n_relevant, 1, k), n_relevant)


def reciprocal_rank(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return 1 / rank of the first hit, 0 without one. Its mean over users is MRR."""
    return _mask_undefined(np.asarray(hits.any(axis=1) / (hits.argmax(axis=1) + 1)), n_relevant)


def hit_rate(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return 1 where there is a hit, else 0."""
    return _mask_undefined(np.asarray(hits.any(axis=1), np.float64), n_relevant)


def measure_item_information(seen: Any) -> Float64Array:
    """Return -log2 of the share of users who have each item, shape (n_items,).

    The users are those with an event in `seen`, CSR of shape (n_users, n_items) with at least one. An item that
    nobody has counts as if one user had it: as surprising as the rarest item can be.
    """
    n_users = np.count_nonzero(np.diff(seen.indptr))
    owners = np.bincount(seen.indices, minlength=seen.shape[1])
    return np.asarray(np.log2(n_users / np.maximum(owners, 1)))


def novelty(items: Int32Array, bits: Float64Array) -> Float64Array:
    """Return the mean of `bits`, shape (n_items,), over the items of each list, shape (b, k), where -1 is none.

    With `measure_item_information` this is the mean of -log2(share of users who have the item); NaN for an empty list.
    """
    listed = items >= 0
    total, n = np.where(listed, bits[items], 0).sum(axis=1), listed.sum(axis=1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def coverage(items: Int32Array, n_items: int) -> float:
    """Return the share of all items that are in at least one of the lists, shape (b, k), where -1 is none.

    It belongs to all lists together: no user has a value, so there is no interval.
    """
    listed = np.zeros(n_items + 1, np.bool_)
    listed[items] = True
    return float(listed[:-1].mean())


HEAD_SHARE = 0.8
"""The most popular items that have this share of the training events together are the head, all others the tail."""


def find_long_tail(seen: Any) -> BoolArray:
    """Return which items are not in the head, shape (n_items,): beyond the fewest with HEAD_SHARE of all events.

    The events are those of `seen`, CSR of shape (n_users, n_items); of items with equally many, first rows go first.
    """
    counts = np.bincount(seen.indices, minlength=seen.shape[1])
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    is_tail = np.empty(len(counts), np.bool_)
    is_tail[order] = before >= HEAD_SHARE * counts.sum()
    return is_tail


def long_tail(items: Int32Array, is_tail: BoolArray) -> Float64Array:
    """Return the share of each list, shape (b, k), where -1 is none, that is in the long tail; NaN for an empty one."""
    return novelty(items, is_tail.astype(np.float64))


def diversity(items: Int32Array, seen: Any) -> Float64Array:
    """Return 1 - the mean cosine of the items of each list, shape (b, k), over all pairs; NaN with fewer than two.

    The cosine of two items is that of their columns in `seen`, CSR of shape (n_users, n_items): users who have both /
    sqrt(users who have one * users who have the other). It does not depend on a model, so that models can be compared.
    """
    owners = sparse.csr_array(seen.T)
    likeness = np.empty(len(items))
    parts = (np.ascontiguousarray(items), owners.indptr, owners.indices, owners.shape[1], likeness)
    run_ranges(lambda a, b: measure_likeness_rows(a, b, *parts), split_rows(len(items)))
    return 1 - likeness


Metric = Callable[[BoolArray, Int64Array], Any]
"""From hits, shape (b, k), and numbers of relevant items, shape (b,), to a value a user, shape (b,)."""

METRICS: dict[str, Metric] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "ndcg": ndcg,
    "list_ndcg": list_ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}
STANDARD = ("precision", "recall", "f1", "ndcg")
_TAKEN = (*METRICS, "coverage", "novelty", "f1_of_means", "auc", "cell_recall", "specificity", "sum", "cost")


def register_metric(name: str, function: Metric) -> Metric:
    """Register your own metric by name, for `csrr.evaluate`, `csrr.compare` and `csrr.tune`; return the function.

    Larger values are better. A second metric of the same name replaces the first.

    Parameters
    ----------
    name
        Its name; at a list of length 10 it is "name@10".
    function
        `function(hits, n_relevant)` returns one number per user, shape (b,). `hits`, bool of shape (b, k), says
        which ranks of the users' lists hold a relevant item; `n_relevant`, shape (b,), is the number of relevant
        items per user.

    Returns
    -------
    function
        The function itself.

    Raises
    ------
    ParameterError
        For a name that is not an identifier, or that a built-in metric has.

    Examples
    --------
    >>> def first_three(hits, n_relevant):
    ...     return hits[:, :3].mean(axis=1)
    >>> metric = csrr.register_metric("first_three", first_three)
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> found = csrr.evaluate(csrr.PopRank().fit(train), train, test, at=10, metrics=["ndcg", "first_three"])
    >>> list(found.means)
    ['ndcg@10', 'first_three@10']
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError(f"name={name!r}: give a word of letters, digits and _")
    if name in _TAKEN:
        raise ParameterError(f"name={name!r} is a metric of csrr; give yours another")
    if not callable(function):
        raise ParameterError(f"function={function!r}: it must be a function of hits and n_relevant")
    METRICS[name] = function
    return function


def measure_users(
    hits: BoolArray, n_relevant: Int64Array, at: Sequence[int], metrics: Sequence[str] = STANDARD
) -> dict[str, Float64Array]:
    """Return every metric at every k of `at`, none above the lists' length, under names like "ndcg@10"."""
    return {f"{name}@{k}": _measure(name, hits[:, :k], n_relevant) for name in metrics for k in at}


def average_metrics(per_user: dict[str, Float64Array]) -> dict[str, float]:
    """Return the mean over users of each metric, NaN left out, and, from precision and recall, "f1_of_means@k".

    That is the harmonic mean of mean precision and mean recall, and differs from "f1@k", the mean of F1.
    """
    means = {name: _average(values) for name, values in per_user.items()}
    for k, (p, r) in pair_precision_recall(per_user).items():
        both = _average(p) + _average(r)
        means[f"f1_of_means@{k}"] = 2 * _average(p) * _average(r) / both if both else 0.0
    return means


def pair_precision_recall(per_user: dict[str, Float64Array]) -> dict[str, tuple[Float64Array, Float64Array]]:
    """Return precision and recall at each k that has both, by k as it is written in names."""
    both = {}
    for name, values in per_user.items():
        metric, _, k = name.partition("@")
        if metric == "precision" and f"recall@{k}" in per_user:
            both[k] = values, per_user[f"recall@{k}"]
    return both


def _measure(name: str, hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return the values of a metric, shape (b,), if they are such."""
    hits = hits.view()
    hits.flags.writeable = False  # a metric of somebody else's must not change it for the others
    found = METRICS[name](hits, n_relevant)
    try:
        values = np.asarray(found, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"metric {name!r} returned {type(found).__name__}, not numbers") from None
    if values.shape != n_relevant.shape:
        raise ParameterError(
            f"metric {name!r} returned shape {values.shape} for hits of shape {hits.shape}; it must return a number for"
            f" each user, shape {n_relevant.shape}"
        )
    if np.isinf(values).any():
        raise ParameterError(f"metric {name!r} is infinite for user {int(np.isinf(values).argmax())} of the hits")
    return _mask_undefined(values, n_relevant)


def _average(values: Float64Array) -> float:
    """Return the mean of what is not NaN; NaN if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _normalise_dcg(hits: BoolArray, n_ideal: Int64Array, n_relevant: Int64Array) -> Float64Array:
    """Return DCG / DCG of `n_ideal`, shape (b,), hits at the front; 0 where that is none."""
    gains = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.concatenate(([1.0], np.cumsum(gains)))
    return _mask_undefined(hits @ gains / ideal[n_ideal], n_relevant)


def _mask_undefined(values: Float64Array, n_relevant: Int64Array) -> Float64Array:
    return np.where(n_relevant > 0, values, np.nan)


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
        missed = linearize_ratio(self.missed, self.positives[:, None])
        false = linearize_ratio(self.false_alarms, self.negatives[:, None])
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


def linearize_ratio(part: AnyArray, whole: AnyArray) -> Float64Array:
    """Return values of each row whose mean is sum(part) / sum(whole), and whose spread is that of this ratio."""
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
