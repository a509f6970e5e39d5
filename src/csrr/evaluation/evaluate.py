"""Evaluation of a fitted model on a split: a value for each user and metric, then means."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from csrr._base.arrays import BoolArray, Float64Array, Int32Array, Int64Array, Rows
from csrr._base.text import format_html_words
from csrr._base.threads import use_threads
from csrr.data.errors import DataError, UnknownIdError
from csrr.data.ids import IdMap, Ids
from csrr.data.items import Categories
from csrr.data.log import Log, as_log
from csrr.evaluation.statistics import Interval, combine_f1, compute_mean_interval, linearize_f1
from csrr.models.base import Recommender
from csrr.models.recommend import (
    IdLookup,
    Unknown,
    find_categories,
    find_user_rows,
    list_ids,
    mark_known,
    read_asked,
    read_rules,
    score_lists,
    score_popular,
)
from csrr.parameters import ParameterError, check_number, is_whole
from csrr.ranking.metrics import (
    STANDARD,
    CellCounts,
    EvaluatedLists,
    Metric,
    MetricValues,
    find_metric,
    list_metrics,
    mark_hits,
)
from csrr.ranking.rules import Rules
from csrr.ranking.topk import block_top_k, score_blocks
from csrr.results.table import HeadedTable, ResultTable, TabularResult, format_text_table
from csrr.rules import RuleOptions


class RuleCost(HeadedTable):
    """The mean of each metric with and without rules, and its paired difference over users.

    Attributes
    ----------
    columns
        Arrays of shape (n,):

        - metric: its name, like "ndcg@10";
        - without, with: the means;
        - difference: with the rules less without;
        - low, high: its 95 % interval over users, NaN for a single user.
    types
        The Arrow types of columns whose values may not tell.
    """

    def display_table(self) -> ResultTable:
        """Return the same, with the difference and half the width of its interval as one text."""
        lines = [
            {"": name, "without": f"{before:.4f}", "with": f"{after:.4f}", "difference": _show(change, high - low)}
            for name, before, after, change, low, high in self.lines()
        ]
        return ResultTable.from_rows(lines)

    def _heading(self) -> str:
        return "What the rules change: mean over users ± 95 % interval of the difference"


def measure_rule_cost(before: Mapping[str, Float64Array], after: Mapping[str, Float64Array]) -> RuleCost:
    """Return the changes of values of users by metric, shapes (n_users,); users that lack a value are left out."""
    rows = []
    for name in after:
        both = ~(np.isnan(before[name]) | np.isnan(after[name]))
        old, new = before[name][both], after[name][both]
        change = float(np.mean(new - old)) if len(old) else np.nan
        means = (float(np.mean(old)), float(np.mean(new))) if len(old) else (np.nan, np.nan)
        rows.append((*means, change, *compute_mean_interval(new - old)))
    names = ("without", "with", "difference", "low", "high")
    columns = dict(zip(names, np.array(rows, np.float64).reshape(-1, 5).T, strict=True))
    return RuleCost({"metric": np.array(list(after), np.object_), **columns})


def _show(change: float, width: float) -> str:
    return f"{change:+.4f}" if np.isnan(width) else f"{change:+.4f} ± {width / 2:.4f}"


SHOWN_CATEGORIES = 20


@dataclass(frozen=True, eq=False, repr=False)
class CategoryShares(HeadedTable):
    """The share of each category of a column in lists, beside its share in training and test events.

    An item of several categories counts for each by 1 / their number, so that shares add up to 1 over all categories
    and what has none.

    Attributes
    ----------
    columns
        Arrays of shape (n,), categories with most training events first:

        - the column of the item table: the names of the categories;
        - items: how many items have each;
        - train, test, lists: the shares of training events, of test events and of places in lists;
        - recall: the share of the test events on items of a category that are in the lists, NaN without any.
    types
        The Arrow types of columns whose values may not tell.
    k
        The length of the lists.
    """

    k: int = 0

    def display_table(self) -> ResultTable:
        """Return the categories with most training events, 20 at most."""
        return super().display_table().head(SHOWN_CATEGORIES)

    def _heading(self) -> str:
        name = next(iter(self.columns))
        shown = f" (first {SHOWN_CATEGORIES} of {len(self):,})" if len(self) > SHOWN_CATEGORIES else ""
        shares = f"shares of training events, test events and places in lists of {self.k}; recall@{self.k}"
        return f"By {name}{shown}: {shares}"


def measure_categories(column: str, categories: Categories, evaluated: EvaluatedLists) -> CategoryShares:
    """Return the shares of categories by a column, in lists, test events and training events."""
    items, hits, counts = evaluated.items, evaluated.hits, evaluated.counts
    members = categories.members
    n_items = members.shape[0]
    weights = members.multiply(1 / np.maximum(np.diff(members.indptr), 1)[:, None]).tocsr()
    events = evaluated.clicks, counts.relevant[counts.rows]
    trained, tested = (np.bincount(cells.indices, minlength=n_items) for cells in events)
    listed = np.bincount(items[items >= 0], minlength=n_items)
    found = members.T @ np.bincount(items[hits], minlength=n_items)
    asked = members.T @ tested
    recall = np.divide(found, asked, out=np.full(len(asked), np.nan), where=asked > 0)
    train, test, lists = (weights.T @ counts / max(counts.sum(), 1) for counts in (trained, tested, listed))
    order = np.lexsort((categories.names, -train))
    n_members = np.bincount(members.indices, minlength=len(categories.names))
    columns = {column: categories.names, "items": n_members, "train": train, "test": test, "lists": lists}
    ordered = {name: each[order] for name, each in (columns | {"recall": recall}).items()}
    return CategoryShares(ordered, k=items.shape[1])


_log = logging.getLogger(__name__)


PerUser = dict[str, Float64Array]
Means = dict[str, float]


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(TabularResult):
    """The result of `csrr.evaluate`: metrics per user, their means and intervals.

    Attributes
    ----------
    at
        The lengths of the lists.
    users
        The ids of the users evaluated, shape (n_users,).
    per_user
        Values by metric, like "ndcg@10", each of shape (n_users,).
    means
        Means over these users, with three exceptions: "f1_of_means@k" is the F1 of mean precision and mean recall
        ("f1@k" is the mean of the users' F1); "coverage@k" has no value per user; "cell_recall", "specificity", "sum"
        and "cost" are the paper's metrics over all cells of all users ("cost" is a total), where users with many cells
        weigh more than in the mean of `per_user`.
    n_left_out
        Number of users without test items, who are not evaluated.
    linear
        For means that are not those of `per_user`: values of shape (n_users,) that give their intervals.
    hits
        Whether each entry of a user's list is a test item, shape (n_users, max(at)).
    n_relevant
        The number of test items of each user, shape (n_users,).
    n_train
        The number of training events of each user, shape (n_users,), if known.
    by_history
        If some users have no training events: the evaluations of users "with" and "without" a history. The latter get
        the same popular items from every model, so only the former distinguish models.
    without_rules
        With `rules`: the metrics of the same users' lists without them; else None.
    by_category
        With `by`: the shares of categories in lists and events, and recall by category; else None.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> found = csrr.evaluate(csrr.PopRank().fit(train), train, test, at=5)
    >>> low, high = found.interval("ndcg@5")
    >>> low < found["ndcg@5"] < high
    True
    """

    at: tuple[int, ...]
    users: Ids
    per_user: PerUser
    means: Means
    n_left_out: int
    linear: PerUser = field(default_factory=dict)
    hits: BoolArray = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    n_relevant: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    n_train: Int64Array | None = None
    by_history: dict[str, Evaluation] = field(default_factory=dict)
    without_rules: Evaluation | None = None
    by_category: CategoryShares | None = None

    @property
    def rule_cost(self) -> RuleCost | None:
        """The change of each ranking metric by the rules, with paired intervals; None without rules."""
        if self.without_rules is None:
            return None
        before = self.without_rules.per_user
        return measure_rule_cost(before, {name: self.per_user[name] for name in before})

    @property
    def n_users(self) -> int:
        """Number of users evaluated."""
        return len(self.users)

    @property
    def n_without_history(self) -> int:
        """Number of evaluated users without training events."""
        return 0 if self.n_train is None else int((self.n_train == 0).sum())

    def __getitem__(self, name: str) -> float:
        """Return a mean by its name, like "ndcg@10"."""
        if name not in self.means:
            raise KeyError(f"no metric {name!r}; there are: {', '.join(self.means)}")
        return self.means[name]

    def interval(self, name: str, level: float = 0.95) -> Interval:
        """Return the confidence interval of a mean, as if the users were drawn at random.

        Parameters
        ----------
        name
            The metric.
        level
            The confidence level.

        Returns
        -------
        interval
            (low, high), by Student's t over users; for "f1_of_means@k" and the metrics over all cells by the delta
            method. It is (NaN, NaN) for "coverage@k", which has no values per user, and for a single user.
        """
        mean = self[name]
        values = self.linear.get(name, self.per_user.get(name))
        return compute_mean_interval(np.full(1, mean) if values is None else values, level)

    def text(self, name: str) -> str:
        """Return a mean as text.

        Parameters
        ----------
        name
            The metric.

        Returns
        -------
        text
            With half the width of its 95 % interval: "0.1234 ± 0.0012".
        """
        mean, (low, high) = self[name], self.interval(name)
        digits = ",.1f" if name == "cost" else ".4f"
        return f"{mean:{digits}}" if np.isnan(low) else f"{mean:{digits}} ± {(high - low) / 2:{digits}}"

    def summary(self) -> dict[str, Any]:
        """Return everything as plain Python values, ready for JSON.

        Returns
        -------
        summary
            The means, their 95 % intervals (None: no interval) and the numbers of users; `by_history`, if some users
            have no history; `rule_cost` and `by_category`, if requested.
        """
        intervals = {name: list(self.interval(name)) for name in self.means}
        apart = {name: part.summary() for name, part in self.by_history.items()}
        return {
            "at": list(self.at),
            "n_users": self.n_users,
            "n_left_out": self.n_left_out,
            "n_without_history": self.n_without_history,
            "means": dict(self.means),
            "intervals": {name: None if np.isnan(ends).any() else ends for name, ends in intervals.items()},
            **({"by_history": apart} if apart else {}),
            **({"rule_cost": self.rule_cost.to_list()} if self.rule_cost else {}),
            **({"by_category": self.by_category.to_list()} if self.by_category else {}),
        }

    def table(self) -> ResultTable:
        """Return the values of all users as a table.

        Returns
        -------
        table
            A row for each user: user, then the metrics and, where known, n_train.
        """
        known = {} if self.n_train is None else {"n_train": self.n_train}
        return ResultTable({"user": self.users, **self.per_user, **known})

    def display_table(self) -> ResultTable:
        """Return a row for each mean: metric, mean, and its 95 % interval from low to high.

        Returns
        -------
        table
            The table for LaTeX and HTML; users with and without a history have separate rows, if there are both.
        """
        parts = {"all": self} | {f"{name} history": part for name, part in self.by_history.items()}
        rows = [(who, name, part[name], *part.interval(name)) for who, part in parts.items() for name in part.means]
        columns = dict(zip(("users", "metric", "mean", "low", "high"), map(list, zip(*rows, strict=True)), strict=True))
        if not self.by_history:
            del columns["users"]
        return ResultTable.from_lists(columns)

    def _heading(self) -> str:
        left_out = f" ({self.n_left_out:,} without test items left out)" if self.n_left_out else ""
        return f"Evaluation: mean over {self.n_users:,} users ± 95 % interval{left_out}"

    def __repr__(self) -> str:
        of_lists = dict.fromkeys(name.split("@")[0] for name in self.means if "@" in name)
        lines = [[name, *(self.text(f"{name}@{k}") for k in self.at)] for name in of_lists]
        others = [[name, self.text(name)] for name in self.means if "@" not in name]
        tables = [format_text_table(["", *(f"@{k}" for k in self.at)], lines)] if lines else []
        tables += [format_text_table(["", ""], others)] if others else []
        more = [line for each in (self.rule_cost, self.by_category) if each is not None for line in ("", repr(each))]
        return "\n".join([self._heading(), *tables, *self._lines_by_history(), *more])

    def _repr_html_(self) -> str:
        cold = [format_html_words(describe_cold(self))] if self.by_history else []
        more = [each._repr_html_() for each in (self.rule_cost, self.by_category) if each is not None]
        return "\n".join([super()._repr_html_(), *cold, *more])

    def _lines_by_history(self) -> list[str]:
        """Return the means of users with and without a history beside each other; nothing where all have one."""
        if not self.by_history:
            return []
        names = [f"{name} history ({part.n_users:,})" for name, part in self.by_history.items()]
        lines = [[name, *(part.text(name) for part in self.by_history.values())] for name in self.means]
        return ["", describe_cold(self), format_text_table(["", *names], lines)]


def describe_cold(found: Evaluation) -> str:
    """Return in words how many users have no history."""
    return (
        f"{found.n_without_history:,} of {found.n_users:,} users have no training events and get the same popular"
        " items from every model"
    )


def evaluate(
    model: Recommender,
    train: Any,
    test: Any,
    *,
    at: int | Sequence[int] = (5, 10, 20),
    users: Any = None,
    metrics: Sequence[str] = STANDARD,
    threads: int | None = None,
    threshold: float = 0.5,
    positive_cost: float = 0.5,
    rules: RuleOptions | None = None,
    by: str | None = None,
    items: Any = None,
    candidates: Any = None,
    unknown: Unknown = "raise",
) -> Evaluation:
    """Evaluate how well a model, fitted on `train`, ranks the events of `test` among all items not in `train`.

    A user's items in `train` are left out of the lists, and test events that are also in `train` are ignored. Of logs
    with a target (`csrr.read(..., target="buy")`), only events of the target type count, on both sides: what was viewed
    and not bought in `train` may be in a list, and is right if it is bought in `test`. Only users with remaining test
    events are evaluated. Lists are those of `recommend`: popularity breaks ties, and users
    without training events get popular items; `by_history` of the result reports these users separately.

    Parameters
    ----------
    model
        A fitted model.
    train, test
        Logs, or anything that `csrr.read` takes, without users or items that the model does not know.
    at
        The length of the lists, or several lengths.
    users
        The ids of the users to evaluate; default: all with test events.
    metrics
        For lists of length k: "precision", "recall", "f1", "ndcg", "list_ndcg" (the paper's NDCG), "map", "mrr",
        "hit_rate", "coverage", "novelty", "diversity", "long_tail"; `ranking.metrics` defines them. Over all items
        that a user does not have in `train`: "auc", how often a test item scores above another one, ties half;
        "full_mrr", 1 / the rank of the best test item; and the paper's "cell_recall", "specificity", "sum" and "cost",
        see `ranking.metrics`. Your own metrics (`csrr.register_metric`) are for lists.
    threads
        Number of threads; 0 for all cores.
    threshold
        For the paper's metrics: items with a score above it count as recommended.
    positive_cost
        For the paper's metrics: the weight of a missed test item; a false alarm has 1 minus it.
    rules
        The rules of `recommend` by name, such as ``{"diversity": 0.3}``, for the lists. `without_rules` of the result
        has the metrics without them, `rule_cost` the difference. Metrics over all items ignore rules.
    by
        A column of the item table; `by_category` of the result has shares and recall of its categories.
    items
        An item table, or anything that `csrr.read_items` takes, in place of the model's.
    candidates
        The ids of the items to rank, and to be found; None for all. Items that were hidden whole
        (`csrr.split(log, cold_items=0.1)`) are so ranked among themselves.
    unknown
        What to do with users and items of `test`, and with `users`, that the model does not know: "raise" an error, or
        "ignore": they are left out, with an `UnknownIdWarning` that counts them.

    Returns
    -------
    evaluation
        Values per user, means and intervals.

    Raises
    ------
    DataError
        If the logs do not fit the model, or no test events remain.

    Examples
    --------
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> found = csrr.evaluate(csrr.EASE().fit(train), train, test, at=(5, 10), metrics=["ndcg", "auc"])
    >>> list(found.means)
    ['ndcg@5', 'ndcg@10', 'auc']
    """
    model.check_fitted()
    if items is not None:
        model = copy(model).set_items(items)
    at, measured = _check_at(at, len(model.items_)), [find_metric(name) for name in _check_metrics(metrics)]
    check_number("positive_cost", positive_cost, least=0, most=1)
    if np.isnan(threshold):
        raise ParameterError.of("threshold", threshold, "must be a number; scores above it count as recommended")
    categories = None if by is None else find_categories(model, "by", by)
    reader = IdLookup(unknown)
    asked_rules = read_rules(model, rules or {}, max(at), reader)
    train = as_log(train)
    clicks, seen = (_align(each, model, "train", IdLookup("raise")) for each in (train, train.of_target()))
    relevant = _drop_seen(_align(as_log(test).of_target(), model, "test", reader), seen)
    allowed = None
    if candidates is not None:
        allowed = np.zeros(len(model.items_), np.bool_)
        allowed[reader.find_known(model.items_, list_ids(candidates), "item", "candidates")] = True
        relevant = _keep_columns(relevant, allowed)
    if users is None or not reader.ignores:
        asked = np.unique(find_user_rows(model, users))
    else:
        asked = np.unique(reader.find_known(model.users_, read_asked(list_ids(users), reader), "user", "users"))
    reader.warn()
    rows = asked[np.diff(relevant.indptr)[asked] > 0]
    if not len(rows):
        raise DataError("no user has a test event that is not in train: there is nothing to evaluate")
    sources = {metric.source for metric in measured}
    thresholds = [threshold] if "threshold" in sources else []
    counts = CellCounts.empty(rows, relevant, seen, thresholds, auc="order" in sources)
    users, n_train = model.users_.ids[rows], np.diff(model.seen_.indptr)[rows].astype(np.int64)
    with nullcontext() if threads is None else use_threads(threads):
        plain, ruled = _rank_and_count(model, rows, max(at), seen, counts, asked_rules, allowed)
        before = EvaluatedLists(plain, mark_hits(plain, relevant, rows), counts, clicks, positive_cost, categories)
        lists, without = before, None
        if ruled is not None:
            lists = replace(before, items=ruled, hits=mark_hits(ruled, relevant, rows))
            without = _measure(before, [each for each in measured if each.source == "lists"], at, users, n_train)
        found = _measure(lists, measured, at, users, n_train)
        parts = {"with": n_train > 0, "without": n_train == 0} if (n_train == 0).any() else {}
        apart = {
            name: _measure(lists.take(which), measured, at, users[which], n_train[which])
            for name, which in parts.items()
            if which.any()
        }
    shares = None if by is None or categories is None else measure_categories(by, categories, lists)
    left_out = len(asked) - len(rows)
    return replace(found, n_left_out=left_out, by_history=apart, without_rules=without, by_category=shares)


def _rank_and_count(
    model: Recommender,
    rows: Rows,
    k: int,
    seen: Any,
    counts: CellCounts,
    rules: Rules | None,
    allowed: BoolArray | None,
) -> tuple[Int32Array, Int32Array | None]:
    """Return the items of the users' lists, shape (len(rows), k), the same by rules, and count cells, in one pass."""
    items = np.empty((len(rows), k), np.int32)
    ruled = None if rules is None else np.empty_like(items)
    is_cold, popular = ~mark_known(model, np.diff(model.seen_.indptr)[rows], rows), score_popular(model)
    for part, scores in score_blocks(partial(score_lists, model), rows, len(model.items_), seen=seen):
        if allowed is not None:
            scores[:, ~allowed] = -np.inf
        items[part], _ = block_top_k(scores, k, model.item_order)
        counts.add(part, scores)
        if rules is not None and ruled is not None:
            # As in `recommend`, rules go by popularity where nothing is known of a user.
            cold = is_cold[part]
            scores[cold] = np.where(scores[cold] > -np.inf, popular, -np.inf)
            ruled[part], _ = rules.rank(scores, k, model.item_order)
    return items, ruled


def _measure(
    lists: EvaluatedLists, metrics: Sequence[Metric], at: tuple[int, ...], users: Ids, n_train: Int64Array
) -> Evaluation:
    """Return the values and means of metrics of n users with these ids and numbers of training events."""
    found: dict[str, MetricValues] = {}
    for metric in metrics:
        if metric.source == "lists":
            found |= {f"{metric.name}@{k}": metric.measure(lists.cut(k)) for k in at}
        else:
            found[metric.name] = metric.measure(lists)
    per_user = {name: each.per_user for name, each in found.items() if each.per_user is not None}
    for k in at:
        names = f"precision@{k}", f"recall@{k}"
        if found.keys() >= set(names):
            linear = linearize_f1(*(per_user[name] for name in names))
            found[f"f1_of_means@{k}"] = MetricValues(None, combine_f1(*(found[name].mean for name in names)), linear)
    linears = {name: each.linear for name, each in found.items() if each.linear is not None}
    means = {name: each.mean for name, each in found.items()}
    return Evaluation(at, users, per_user, means, 0, linears, lists.hits, lists.counts.positives, n_train)


def _keep_columns(matrix: Any, kept: BoolArray) -> Any:
    """Return the cells of a csr matrix in some of its columns."""
    some = kept[matrix.indices]
    starts = np.concatenate(([0], np.cumsum(some)))[matrix.indptr]
    return sparse.csr_array((matrix.data[some], matrix.indices[some], starts), shape=matrix.shape)


def _check_at(at: int | Sequence[int], n_items: int) -> tuple[int, ...]:
    several = tuple(at) if isinstance(at, Iterable) else (at,)
    if not several or not all(is_whole(k, 1) and k <= n_items for k in several):
        raise ParameterError.of("at", at, f"must be lengths of lists, from 1 to the number of items, {n_items:,}")
    return tuple(dict.fromkeys(map(int, several)))


def _check_metrics(metrics: Sequence[str]) -> tuple[str, ...]:
    several = () if isinstance(metrics, str) else tuple(dict.fromkeys(metrics))
    known = list_metrics()
    if not several or not set(several) <= set(known):
        raise ParameterError.of("metrics", metrics, f"choose from {', '.join(known)}; `at` says at which k")
    return several


def _align(log: Log, model: Recommender, part: str, reader: IdLookup) -> Any:
    """Return the events in the model's row numbers, sparse of shape (n_users, n_items), indices sorted."""
    if log.users == model.users_ and log.items == model.items_:
        return log.to_csr()
    rows = []
    for kind, ids, own_rows, known in (
        ("user", log.users.ids, log.user_rows, model.users_),
        ("item", log.items.ids, log.item_rows, model.items_),
    ):
        rows.append(known.find(ids, kind)[own_rows])
        if not reader.ignores and (unknown := rows[-1] < 0).any():
            _refuse_ids(known, ids[np.unique(own_rows[unknown])], kind, part)
    is_known = (rows[0] >= 0) & (rows[1] >= 0)
    reader.count(f"the events of {part}", np.where(is_known, 0, -1))
    user_rows, item_rows = (each[is_known] for each in rows)
    shape = (len(model.users_), len(model.items_))
    matrix = sparse.csr_array((np.ones(len(user_rows), np.float32), (user_rows, item_rows)), shape=shape)
    matrix.sum_duplicates()
    return matrix


def _refuse_ids(known: IdMap, ids: Ids, kind: str, part: str) -> None:
    """Raise a DataError for ids that the model does not know."""
    try:
        known.rows(ids, kind)
    except UnknownIdError as error:
        hint = ', or pass unknown="ignore"' if part == "test" else ""
        raise DataError(
            f"{part} does not fit the model: {error}; split one log with csrr.split and fit on its train part{hint}"
        ) from error


def _drop_seen(relevant: Any, seen: Any) -> Any:
    """Return the cells of `relevant` that `seen` does not store; says so when some are dropped."""
    repeated = relevant.multiply(seen)
    if repeated.nnz == 0:
        return relevant
    _log.warning("%d of %d test events are also in train, and are ignored", repeated.nnz, relevant.nnz)
    left = sparse.csr_array(relevant - repeated)
    left.eliminate_zeros()
    left.sort_indices()
    return left
