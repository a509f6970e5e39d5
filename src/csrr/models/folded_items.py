"""Items that were not in the training data: who chose them, and to whom they are recommended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Float32Array, Rows
from csrr.data import IdMap, Log, as_log
from csrr.data.join_logs import join_ids, join_titles
from csrr.models.asked_ids import IdReader
from csrr.models.best_lists import check_k, find_known, score_known
from csrr.models.item_choices import People, restrict
from csrr.parameters import ParameterError, check_number
from csrr.ranking import Recommendations, top_k
from csrr.ranking.item_order import ItemOrder
from csrr.ranking.item_products import add_products
from csrr.ranking.restrictions import take_rows
from csrr.ranking.score_blocks import RowScorer
from csrr.ranking.topk import NO_ITEM

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender


@dataclass(frozen=True, eq=False, repr=False)
class FoldedItems:
    """Items that were not in the training data, and the model's users and items as they are.

    Attributes
    ----------
    items
        The ids of the new items, in the order of their rows.
    seen
        Who chose them: ones, sparse of shape (n_users, n_new).
    titles
        What they are called, shape (n_new,), where known.
    model
        The model.
    score_rows
        Gives the scores of the new items, (len(rows), n_new), for users by row number.
    item_factors
        Of models that have factors: shape (n_new, d).
    weights
        Of models that go from item to item: what item i in a history adds to the score of new item j, sparse or dense
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
        """Return the items of a log by who chose them, csr of shape (n_new, n_users), and what was found of them."""
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
        return self.score_rows(self.model.user_rows(users))

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
        """Return the best items for users, best first: of those known and the new ones, in one list.

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
        rows = model.user_rows(users)
        seen = _place_columns([(model.seen_, known), (self.seen, new)], len(joined))
        done = _place_columns([(model.seen_of_target, known), (self.seen, new)], len(joined))
        people = People(model.users_.ids[rows], rows, model.users_, take_rows(seen, rows), take_rows(done, rows))
        limits = restrict(people, joined, IdReader("raise"), seen=exclude_seen, candidates=candidates, exclude=exclude)
        is_known = find_known(model, np.diff(model.seen_.indptr)[rows], rows)

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
        return Recommendations.from_rows(people.ids, items, scores, joined, titles, None, ~is_known)


def read_new_items(clicks: Any, users: IdMap, items: IdMap, weight: float | None) -> tuple[Log, Any]:
    """Return events of known users and new items as a log, and as csr of shape (n_new, n_users).

    Its values are ones or, where a click has a `weight` for a model, the log's, or that weight where it has none.
    """
    log = as_log(clicks)
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


def make_scorer(model: Recommender, factors: Any = None, weights: Any = None, scale: Any = None) -> RowScorer:
    """Return what gives the scores of new items by their factors, (n_new, d), and weights, csr (n_items, n_new)."""

    def score_rows(rows: Rows) -> Float32Array:
        if factors is None:
            scores = np.zeros((len(rows), weights.shape[1]), np.float32)
        else:
            scores = model.user_factors_[rows] @ factors.T
        if weights is not None:
            add_products(scores, model.seen_, rows, weights, scale)
        return scores

    return score_rows


def _place_columns(parts: list[tuple[Any, Rows]], n_columns: int) -> Any:
    """Return csr matrices of the same users side by side, the columns of each where it says."""
    cells = [(matrix.tocoo(), columns) for matrix, columns in parts]
    rows = np.concatenate([each.row for each, _ in cells])
    columns = np.concatenate([where[each.col] for each, where in cells])
    shape = parts[0][0].shape[0], n_columns
    return sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
