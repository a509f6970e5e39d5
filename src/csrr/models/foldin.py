"""New users and new items: reading their histories, and their scores and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import Float32Array, Float64Array, Rows
from csrr._base.text import show_value
from csrr.data.ids import IdMap, join_ids, join_titles
from csrr.data.log import Log, as_log
from csrr.models.estimator import uses_times, weigh
from csrr.models.recommend import (
    IdLookup,
    Least,
    RecommendOptions,
    Unknown,
    UserBatch,
    check_k,
    find_user_rows,
    is_one_id,
    list_ids,
    make_lists,
    mark_known,
    restrict,
    score_known,
)
from csrr.parameters import ParameterError, check_number, list_defaults
from csrr.ranking.topk import NO_ITEM, ItemOrder, Products, RowScorer, add_products, multiply_factors, take_rows, top_k
from csrr.results.recommendations import Recommendations
from csrr.rules import RuleOptions

if TYPE_CHECKING:
    from csrr.models.base import Recommender


_PLACE = "histories"
_MOST = 1e15
"""The largest weight: far beyond any use, far within float32."""


class Clicks(NamedTuple):
    """Clicks of `users`: user rows, item rows (-1: unknown), weights (NaN: not given), (n_clicks,), oldest first."""

    users: npt.NDArray[Any]
    rows: Rows
    columns: Rows
    weights: Float64Array

    def select(self, which: Any) -> Clicks:
        """Return some of the clicks, in the order of `which`."""
        return self._replace(rows=self.rows[which], columns=self.columns[which], weights=self.weights[which])


def read_histories(model: Recommender, histories: Any, reader: IdLookup) -> tuple[npt.NDArray[Any], Any]:
    """Return the ids of users and their histories, csr of shape (n, n_items); a history may be empty.

    Its values are ones or, in a model that uses weights, the given ones, or `history_weight` where none is given. In
    one that `reads_order`, they are those of `histories`.
    """
    is_listed = isinstance(histories, list | tuple)
    clicks = _read_lists(model, histories, reader) if is_listed else _read_log(model, histories, reader)
    reader.count(_PLACE, clicks.columns)
    n_items = len(model.items_)
    # As in a log, a click of weight 0 does not count.
    clicks = clicks.select((clicks.columns >= 0) & (clicks.weights != 0))
    pairs, first = np.unique(clicks.rows * n_items + clicks.columns, return_index=True)
    usual = 1.0 if model.history_weight is None else model.history_weight
    values = np.where(np.isnan(clicks.weights), usual, clicks.weights)[first].astype(np.float32)
    if model.reads_order:
        pairs, values = _count_back(clicks, n_items)
    return clicks.users, sparse.csr_array((values, np.divmod(pairs, n_items)), shape=(len(clicks.users), n_items))


def _count_back(clicks: Clicks, n_items: int) -> tuple[npt.NDArray[np.int64], Float32Array]:
    """Return the cells of clicks, rising, and their places counted from the latest of a row, 1: that of its repeats."""
    # The first of equal numbers is the latest, since the order is turned.
    pairs, latest = np.unique((clicks.rows * n_items + clicks.columns)[::-1], return_index=True)
    rows = pairs // n_items
    newest_first = np.lexsort((latest, rows))
    values = np.empty(len(pairs), np.float32)
    values[newest_first] = np.arange(len(pairs)) - np.searchsorted(rows, rows) + 1
    return pairs, values


def _read_new_log(model: Recommender, clicks: Any) -> Log:
    """Return clicks of new users, or on new items, as a log, weighed as in a fit; their ages count where known."""
    log = as_log(clicks)
    if not uses_times(model):
        return log
    return weigh(model, log) if log.times is not None else log if model.weighs_events else replace(log, weights=None)


def _read_log(model: Recommender, histories: Any, reader: IdLookup) -> Clicks:
    """Return the clicks of a log, or of a table or matrix, with weights if the model uses any."""
    log = _read_new_log(model, histories)
    columns = reader.find(model.items_, log.items.ids, "item", _PLACE)[log.item_rows]
    is_weighted = model.history_weight is not None and log.weights is not None
    weights = np.asarray(log.weights, np.float64) if is_weighted else np.full(len(log), np.nan)
    clicks = Clicks(log.users.ids, log.user_rows.astype(np.int64), columns, weights)
    return clicks.select(log.find_order()) if model.reads_order else clicks


def _read_lists(model: Recommender, histories: Sequence[Any], reader: IdLookup) -> Clicks:
    """Return the clicks of lists of item ids, or of mappings from item ids to weights; users are numbered."""
    if not histories:
        raise ParameterError("fold_in needs at least one history; pass [[]] for a user without a history")
    if any(is_one_id(history) for history in histories):
        raise ParameterError("fold_in takes a list of histories, each a list of item ids; for one, recommend_for")
    ids: list[Any] = []
    weights: list[float] = []
    lengths = []
    for number, history in enumerate(histories):
        if isinstance(history, Set) and model.reads_order:
            name = type(model).__name__
            raise ParameterError(
                f"history {number} is a set, and this {name} needs its order: give a list, newest last"
            )
        mine = list(list_ids(history))
        ids += mine
        lengths.append(len(mine))
        is_weighted = isinstance(history, Mapping)
        weights += _check_weights(model, history, number) if is_weighted else [np.nan] * len(mine)
    users = np.arange(len(histories))
    columns = reader.find(model.items_, ids, "item", _PLACE)
    return Clicks(users, np.repeat(users, lengths), columns, np.array(weights, np.float64))


def _check_weights(model: Recommender, history: Mapping[Any, Any], number: int) -> list[float]:
    """Return the weights of one history, checked; weights other than 1 are refused if the model uses none."""
    for item, weight in history.items():
        is_number = isinstance(weight, Real | np.number) and not isinstance(weight, bool | np.bool_)
        if not is_number or not 0 <= float(weight) <= _MOST:
            raise ParameterError(
                f"history {number}, item {show_value(item)}: the weight {show_value(weight)} must be a number from 0 to"
                f" {_MOST:g}, as the weights of events are"
            )
    weights = [float(weight) for weight in history.values()]
    if model.history_weight is None and any(weight != 1 for weight in weights):
        name = type(model).__name__
        has_weights = "event_weights" in list_defaults(type(model))
        why = "was fitted to events without weights" if has_weights else "takes no weights"
        raise ParameterError(
            f"history {number} has weights, and this {name} {why}; give the item ids alone, or fit a model that"
            " uses them: WRMF, CSRR or CSRRe with event_weights"
        )
    return weights


@dataclass(frozen=True, eq=False, repr=False)
class FoldedUsers:
    """New users: `users` (ids) and `seen` (their histories, sparse (n, m)).

    `score_rows` gives the scores of all items, (len(rows), m), for those at the given places.
    """

    users: npt.NDArray[Any]
    seen: Any
    model: Recommender
    score_rows: RowScorer

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self):,} users of {self.model!r}"

    def score(self) -> npt.NDArray[np.float32]:
        """The scores of all items, (n, n_items)."""
        return self.score_rows(np.arange(len(self)))

    def recommend(
        self,
        k: int = 10,
        *,
        exclude_seen: Any = True,
        candidates: Any = None,
        exclude: Any = None,
        min_probability: Least = None,
        min_score: float | None = None,
        unknown: Unknown = "raise",
        columns: Sequence[str] = (),
        **rules: Unpack[RuleOptions],
    ) -> Recommendations:
        """Return the `k` best items for each; the arguments are those of `Recommender.recommend`.

        Users with an empty history get popular items.
        """
        batch = UserBatch(self.users, np.arange(len(self)), IdMap(self.users), self.seen)
        options = RecommendOptions(k, exclude_seen, candidates, exclude, min_probability, min_score, columns, rules)
        return make_lists(self.model, batch, self.score_rows, options, IdLookup(unknown))


@dataclass(frozen=True, eq=False, repr=False)
class FoldedFactors(FoldedUsers):
    """New users of a factor model: `user_factors` (n, d) and, if the model has it, `specific` V, sparse (n, m)."""

    user_factors: npt.NDArray[np.float32]
    specific: Any = None

    @classmethod
    def of(cls, model: Recommender, users: npt.NDArray[Any], seen: Any, factors: npt.NDArray[Any]) -> FoldedFactors:
        """Return new users by their factors, shape (len(users), d)."""
        return cls(users, seen, model, Products.of_factors(factors, model.scored_items()), factors)


@dataclass(frozen=True, eq=False, repr=False)
class FoldedItems:
    """Items that were not in the training data, beside the unchanged users and items of a model.

    Attributes
    ----------
    items
        The ids of the new items, in the order of their rows.
    seen
        Who chose them: ones, sparse of shape (n_users, n_new).
    titles
        Their titles, shape (n_new,), or None.
    model
        The model.
    score_rows
        Gives the scores of the new items, (len(rows), n_new), for users by row number.
    item_factors
        The factors of the new items in a model of factors, shape (n_new, d).
    weights
        In a model of weights between items: what item i in a history adds to the score of new item j, sparse or dense
        of shape (n_items, n_new).
    """

    items: IdMap
    seen: Any
    titles: npt.NDArray[np.object_] | None
    model: Recommender
    score_rows: RowScorer
    item_factors: Float32Array | None = None
    weights: Any = None

    @classmethod
    def of(
        cls, model: Recommender, log: Log, chosen: Any, score_rows: RowScorer, factors: Any = None, weights: Any = None
    ) -> FoldedItems:
        """Return the items of a log, given the users who chose them, csr of shape (n_new, n_users)."""
        seen = sparse.csr_array(chosen.T)
        seen.data = np.ones_like(seen.data)
        return cls(log.items, seen, log.titles, model, score_rows, factors, weights)

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self):,} items of {self.model!r}"

    def score(self, users: Any = None) -> Float32Array:
        """Return the scores of the new items.

        Parameters
        ----------
        users
            One id, several, or None for all.

        Returns
        -------
        scores
            Shape (n_users, n_new).
        """
        return self.score_rows(find_user_rows(self.model, users))

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        exclude_seen: Any = True,
        candidates: Any = None,
        exclude: Any = None,
        min_score: float | None = None,
    ) -> Recommendations:
        """Return the best items for users, best first: known and new items in one list.

        Equal scores go by the number of events, then by item row.

        Parameters
        ----------
        users
            One id, several, or None for all.
        k
            The number of items for each, as for `Recommender.recommend`.
        exclude_seen, candidates, exclude, min_score
            As for `Recommender.recommend`; ids are of known and new items.

        Returns
        -------
        recommendations
            Items and scores of each user.
        """
        model = self.model
        if min_score is not None:
            check_number("min_score", min_score)
        joined, known, new = join_ids(model.items_, self.items, "item")
        rows = find_user_rows(model, users)
        seen = _place_columns([(model.seen_, known), (self.seen, new)], len(joined))
        done = _place_columns([(model.seen_of_target, known), (self.seen, new)], len(joined))
        batch = UserBatch(model.users_.ids[rows], rows, model.users_, take_rows(seen, rows), take_rows(done, rows))
        limits = restrict(batch, joined, IdLookup("raise"), RecommendOptions(k, exclude_seen, candidates, exclude))
        is_known = mark_known(model, np.diff(model.seen_.indptr)[rows], rows)

        def score_all(rows: Rows) -> Float32Array:
            scores = np.empty((len(rows), len(joined)), np.float32)
            scores[:, known], scores[:, new] = model.score_rows(rows), self.score_rows(rows)
            return scores

        items, scores = top_k(
            lambda places: score_known(score_all, rows[places], is_known[places], len(joined)),
            np.arange(len(rows)),
            len(joined),
            min(check_k(k), limits.count_left()),
            limits=limits,
            order=ItemOrder.by_popularity(np.bincount(seen.indices, minlength=len(joined))),
        )
        out = scores < (-np.inf if min_score is None else min_score)
        items, scores = np.where(out, np.int32(NO_ITEM), items), np.where(out, np.float32(-np.inf), scores)
        titles = join_titles((model.titles_, known), (self.titles, new), len(joined))
        return Recommendations.from_rows(batch.ids, items, scores, joined, titles, None, ~is_known)


def read_new_items(model: Recommender, clicks: Any) -> tuple[Log, Any]:
    """Return events of known users and new items as a log, and as csr of shape (n_new, n_users).

    Its values are ones or, in a model that uses weights, the log's, or `history_weight` if the log has none.
    """
    log, users, items, weight = _read_new_log(model, clicks), model.users_, model.items_, model.history_weight
    if len(log) == 0:
        raise ParameterError("there are no events; an item is folded in by those who chose it")
    join_ids(items, log.items, "item")
    if known := [id for id in log.items if id in items]:
        raise ParameterError(
            f"item {known[0]!r} is in the training data; fold_in_items takes new items only, update takes any events"
        )
    if not (counts := log.item_counts()).all():
        raise ParameterError(f"nobody chose item {log.items.ids[counts == 0].tolist()[0]!r}; leave it out")
    rows = users.rows(log.users.ids)[log.user_rows]
    values = np.ones(len(log), np.float32)
    if weight is not None:
        values = log.weights if log.weights is not None else values * np.float32(weight)
    return log, sparse.csr_array((values, (log.item_rows, rows)), shape=(log.n_items, len(users)))


def make_scorer(
    model: Recommender,
    factors: Any = None,
    weights: Any = None,
    scale: Any = None,
    amounts: Any = None,
    clicks: Any = None,
) -> RowScorer:
    """Return a function for the scores of new items by their factors, (n_new, d), and weights, csr (n_items, n_new).

    `scale`, (n_users,), multiplies what the weights add; each event counts by `amounts`, (n_events,), or 1 for None.
    `clicks`, csr of n_users rows, are the histories; None: the training events.
    """
    histories = model.seen_ if clicks is None else clicks

    def score_rows(rows: Rows) -> Float32Array:
        if factors is None:
            scores = np.zeros((len(rows), weights.shape[1]), np.float32)
        else:
            scores = multiply_factors(model.user_factors_[rows], factors)
        if weights is not None:
            add_products(scores, histories, rows, weights, scale, amounts)
        return scores

    return score_rows


def _place_columns(parts: list[tuple[Any, Rows]], n_columns: int) -> Any:
    """Return csr matrices of the same users in one, with the columns of each at the given places."""
    cells = [(matrix.tocoo(), columns) for matrix, columns in parts]
    rows = np.concatenate([each.row for each, _ in cells])
    columns = np.concatenate([where[each.col] for each, where in cells])
    shape = parts[0][0].shape[0], n_columns
    return sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
