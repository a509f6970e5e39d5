"""Metrics of lists, and of all cells of users and items, each defined here and nowhere else.

A metric that needs only the hits of a list is a function in `HIT_METRICS`; one that needs more, such as the items or
the scores of all cells, is a subclass of `Metric` in `OTHER_METRICS`. `csrr.evaluate` and the command line read both.

Cells are counted from blocks of scores, so that a users x items array never exists. They are those of the given rows
that are not in `seen`; the positives are the ones stored in `relevant`, the negatives all others. A cell is recommended
when its score is above the threshold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, Rows
from csrr._base.threads import run_ranges
from csrr.data.items import Categories
from csrr.parameters import ParameterError
from csrr.ranking.loops import count_cell_rows, hit_rows, measure_likeness_rows
from csrr.ranking.topk import Cells, check_rows, split_rows


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
    return _normalize_dcg(hits, np.minimum(n_relevant, hits.shape[1]), n_relevant)


def list_ndcg(hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return DCG / DCG of the same hits moved to the front, 0 without hits: only the order counts.

    This is not the usual NDCG: finding fewer of the relevant items costs nothing.
    """
    return _normalize_dcg(hits, hits.sum(axis=1), n_relevant)


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


HitMetric = Callable[[BoolArray, Int64Array], Any]
"""From hits, shape (b, k), and numbers of relevant items, shape (b,), to a value for each user, shape (b,)."""

HIT_METRICS: dict[str, HitMetric] = {
    "precision": precision,
    "recall": recall,
    "f1": f1,
    "ndcg": ndcg,
    "list_ndcg": list_ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}
NEXT_ITEM = ("hit_rate", "ndcg", "full_mrr")
"""The usual metrics where each user has one test event, the next one: HR@k, NDCG@k, and MRR over all items."""
STANDARD = ("precision", "recall", "f1", "ndcg")
_BUILT_IN = (*HIT_METRICS, "f1_of_means")


def register_metric(name: str, function: HitMetric) -> HitMetric:
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
        raise ParameterError.of("name", name, "give a word of letters, digits and _")
    if name in _BUILT_IN or name in OTHER_METRICS:
        raise ParameterError.of("name", name, "is a metric of csrr; give yours another")
    if not callable(function):
        raise ParameterError.of("function", function, "it must be a function of hits and n_relevant")
    HIT_METRICS[name] = function
    return function


def split_metric(metric: Any, names: Collection[str]) -> tuple[str, int]:
    """Return the name and the length of a metric like "ndcg@10", one of `names` at a length of at least 1."""
    name, _, k = str(metric).partition("@")
    if not isinstance(metric, str) or name not in names or not k.isdecimal() or int(k) < 1:
        raise ParameterError.of("metric", metric, f"must be like ndcg@10, one of {', '.join(names)} at a length")
    return name, int(k)


def measure_users(
    hits: BoolArray, n_relevant: Int64Array, at: Sequence[int], metrics: Sequence[str] = STANDARD
) -> dict[str, Float64Array]:
    """Return every metric at every k of `at`, none above the lists' length, under names like "ndcg@10"."""
    return {f"{name}@{k}": _measure(name, hits[:, :k], n_relevant) for name in metrics for k in at}


def _measure(name: str, hits: BoolArray, n_relevant: Int64Array) -> Float64Array:
    """Return the values of a metric, shape (b,), checked."""
    hits = hits.view()
    hits.flags.writeable = False  # a metric of somebody else's must not change it for the others
    found = HIT_METRICS[name](hits, n_relevant)
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
    """Return the mean of the values that are not NaN; NaN without any."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _normalize_dcg(hits: BoolArray, n_ideal: Int64Array, n_relevant: Int64Array) -> Float64Array:
    """Return DCG / DCG of `n_ideal`, shape (b,), hits at the front; 0 where that is none."""
    gains = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    ideal = np.concatenate(([1.0], np.cumsum(gains)))
    return _mask_undefined(hits @ gains / ideal[n_ideal], n_relevant)


def _mask_undefined(values: Float64Array, n_relevant: Int64Array) -> Float64Array:
    return np.where(n_relevant > 0, values, np.nan)


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
    for, counts pairs of a positive and a negative: 2 where the negative has the larger score, 1 where they tie. `best`,
    of the same shape, is that count for the best positive alone.
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
    best: Int64Array

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
            *np.zeros((2, len(rows) if auc else 0), np.int64),
        )

    @classmethod
    def of(cls, cells: Cells, thresholds: npt.ArrayLike) -> CellCounts:
        """Return the counts of cells at some thresholds."""
        counts = cls.empty(cells.rows, cells.relevant, cells.seen, thresholds, auc=False)
        for part, scores in cells.score():
            counts.add(part, scores)
        return counts

    def add(self, part: slice, scores: Float32Array) -> None:
        """Count the rows `part`, whose scores are `scores`, shape (b, n_items), seen cells -inf."""
        rows, n_seen = self.rows[part], self.n_seen[part]
        counted = self.missed[part], self.false_alarms[part], self.beaten[part], self.best[part]
        indptr, indices = self.relevant.indptr, self.relevant.indices
        check_rows(rows, len(scores), len(indptr) - 1)

        def count(start: int, stop: int) -> None:
            count_cell_rows(start, stop, scores, indptr, indices, rows, n_seen, self.thresholds, *counted)

        run_ranges(count, split_rows(len(scores)))

    def take(self, which: BoolArray) -> CellCounts:
        """Return the counts of some of the rows, `which` of shape (n,)."""
        of_rows = {name: each for name, each in vars(self).items() if name not in ("relevant", "thresholds")}
        return replace(self, **{name: each[which] for name, each in of_rows.items() if len(each)})

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

    def linearize(self, positive_cost: float) -> Measures:
        """Return values of each row, shape (n, n_thresholds), with the mean `pool`, whose spread gives its interval.

        For a ratio of sums, mean M / mean P, this is the delta method: a row has ratio + (M_row - ratio*P_row)/mean P.
        """
        missed = linearize_ratio(self.missed, self.positives[:, None])
        false = linearize_ratio(self.false_alarms, self.negatives[:, None])
        cost = positive_cost * self.missed + (1 - positive_cost) * self.false_alarms
        both = positive_cost * (1 - missed) + (1 - positive_cost) * (1 - false)
        return Measures(1 - missed, 1 - false, both, len(self.rows) * cost)


def measure_cells(cells: Cells, thresholds: npt.ArrayLike, positive_cost: float = 0.5) -> Measures:
    """Return the measures over all cells together at each of `thresholds`, shape (n_thresholds,)."""
    bounds = np.asarray(thresholds, np.float64)
    if bounds.ndim != 1 or np.isnan(bounds).any():
        raise ValueError(f"thresholds must be a list of numbers, not {thresholds!r}")
    if not 0 <= positive_cost <= 1:
        raise ValueError(f"positive_cost={positive_cost!r}: it must lie between 0 and 1")
    return CellCounts.of(cells, bounds).pool(positive_cost)


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


@dataclass(frozen=True, eq=False)
class EvaluatedLists:
    """The lists of n users, and everything that a metric may compare them with.

    Attributes
    ----------
    items
        The item rows of the lists, shape (n, k), -1 where a list is short.
    hits
        Which of them are test events, shape (n, k).
    counts
        The counts of all cells of these users; `counts.rows` are their row numbers, `counts.positives` the numbers of
        their test events, `counts.relevant` the test events themselves.
    clicks
        The training events of all users, csr of shape (n_users, n_items).
    positive_cost
        The weight of a missed test event at a threshold; a false alarm has 1 minus it.
    categories
        The categories of the items, where a column of the item table was named.
    """

    items: Int32Array
    hits: BoolArray
    counts: CellCounts
    clicks: Any
    positive_cost: float = 0.5
    categories: Categories | None = None

    def cut(self, k: int) -> EvaluatedLists:
        """Return the same with the first k places of each list."""
        return replace(self, items=self.items[:, :k], hits=self.hits[:, :k])

    def take(self, which: BoolArray) -> EvaluatedLists:
        """Return the lists of some of the users, `which` of shape (n,)."""
        return replace(self, items=self.items[which], hits=self.hits[which], counts=self.counts.take(which))


class MetricValues(NamedTuple):
    """Values of a metric: of each user, shape (n,), and their mean.

    `per_user` is None where only all lists together have a value. `linear`, shape (n,), gives the interval of a mean
    that is not the mean of `per_user`.
    """

    per_user: Float64Array | None
    mean: float
    linear: Float64Array | None = None


class Metric(ABC):
    """A metric of `csrr.evaluate`.

    Attributes
    ----------
    name
        Its name; of lists of length 10 it is "name@10".
    source
        Its input: "lists", measured at each length; or all cells, their "order" or those above the "threshold".
    """

    name: str
    source: ClassVar[Literal["lists", "order", "threshold"]] = "lists"

    @abstractmethod
    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the values of the users whose lists these are."""


@dataclass(frozen=True)
class MetricOfHits(Metric):
    """A function of `HIT_METRICS`."""

    name: str

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the mean over users."""
        return _average_users(_measure(self.name, lists.hits, lists.counts.positives))


class Coverage(Metric):
    """The share of all items that are in at least one list.

    It belongs to all lists together: no user has a value, so there is no interval.
    """

    name = "coverage"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the share."""
        n_lists = np.bincount(lists.items[lists.items >= 0], minlength=lists.clicks.shape[1])
        return MetricValues(None, float((n_lists > 0).mean()))


class Novelty(Metric):
    """The mean over a list of -log2(share of users who have the item); NaN for an empty list.

    The users are those with training events. An item that nobody has counts as if one user had it: as surprising as the
    rarest item can be.
    """

    name = "novelty"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the mean over users."""
        n_users = np.count_nonzero(np.diff(lists.clicks.indptr))
        bits = np.log2(n_users / np.maximum(_count_events(lists.clicks), 1))
        return _average_users(_average_items(lists.items, bits))


class Diversity(Metric):
    """1 - the mean cosine of the items of a list, over all pairs; NaN with fewer than two.

    The cosine of two items is that of their columns in the training events: users who have both / sqrt(users who have
    one * users who have the other). It does not depend on a model, so that models can be compared.
    """

    name = "diversity"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the mean over users."""
        owners = sparse.csr_array(lists.clicks.T)
        likeness = np.empty(len(lists.items))
        parts = (np.ascontiguousarray(lists.items), owners.indptr, owners.indices, owners.shape[1], likeness)
        run_ranges(lambda a, b: measure_likeness_rows(a, b, *parts), split_rows(len(likeness)))
        return _average_users(1 - likeness)


class LongTail(Metric):
    """The share of a list that is in the long tail; NaN for an empty list.

    The fewest items, most popular first, that have HEAD_SHARE of the training events together are the head, all others
    the tail; of items with equally many events, first rows go first.
    """

    name = "long_tail"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the mean over users."""
        counts = _count_events(lists.clicks)
        order = np.argsort(-counts, kind="stable")
        is_tail = np.empty(len(counts))
        is_tail[order] = np.cumsum(counts[order]) - counts[order] >= HEAD_SHARE * counts.sum()
        return _average_users(_average_items(lists.items, is_tail))


HEAD_SHARE = 0.8


class AUC(Metric):
    """The share of pairs of a test event and another unseen item that the scores order rightly, ties half."""

    name = "auc"
    source = "order"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the mean over users."""
        return _average_users(lists.counts.auc())


class FullMRR(Metric):
    """1 / the rank of the user's best ranked test event among all unseen items, ties half. Its mean is MRR."""

    name = "full_mrr"
    source = "order"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the mean over users."""
        return _average_users(np.where(lists.counts.positives > 0, 2 / (lists.counts.best + 2), np.nan))


@dataclass(frozen=True)
class ThresholdMetric(Metric):
    """A measure of the paper, by its name in `Measures`, over all cells of all users together."""

    name: str
    source = "threshold"

    def measure(self, lists: EvaluatedLists) -> MetricValues:
        """Return the values of single users, and the measure of all their cells, which is not their mean."""
        counts, cost = lists.counts, lists.positive_cost
        pooled = float(getattr(counts.pool(cost), self.name)[0])
        rows, linear = (getattr(each(cost), self.name)[:, 0] for each in (counts.measure_rows, counts.linearize))
        return MetricValues(rows, pooled, linear)


OTHER_METRICS: dict[str, Metric] = {
    each.name: each
    for each in (
        Coverage(),
        Novelty(),
        Diversity(),
        LongTail(),
        AUC(),
        FullMRR(),
        *(ThresholdMetric(measure.name) for measure in fields(Measures)),
    )
}
"""The metrics that need more than hits, by name."""


def list_metrics() -> list[str]:
    """Return the names of all metrics, registered ones among them."""
    return [*HIT_METRICS, *OTHER_METRICS]


def find_metric(name: str) -> Metric:
    """Return the metric of a name that `list_metrics` has."""
    return OTHER_METRICS.get(name) or MetricOfHits(name)


def _average_users(values: Float64Array) -> MetricValues:
    return MetricValues(values, _average(values))


def _average_items(items: Int32Array, values: Float64Array) -> Float64Array:
    """Return the mean of `values`, shape (n_items,), over each list of items, shape (b, k); NaN for an empty one."""
    listed = items >= 0
    total, n = np.where(listed, values[items], 0).sum(axis=1), listed.sum(axis=1)
    return np.where(n > 0, total / np.maximum(n, 1), np.nan)


def _count_events(clicks: Any) -> Int64Array:
    """Return the number of events of each item, shape (n_items,)."""
    return np.bincount(clicks.indices, minlength=clicks.shape[1])
