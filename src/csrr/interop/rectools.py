"""Models of RecTools in csrr, and models and lists of csrr in RecTools, which must be installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from rectools import Columns
from rectools.models.base import ModelBase

from csrr._base.arrays import Float32Array, Rows
from csrr.data.log import Log
from csrr.interop.implicit import OutsideModel
from csrr.models.base import Recommender
from csrr.models.recommend import rank_items
from csrr.parameters import ParameterError
from csrr.ranking.topk import RowScorer
from csrr.results.recommendations import Recommendations

AT_ONCE = 64
"""The number of users that go to RecTools at a time: it answers with a table of all items for each."""


def from_rectools(model: Any, dataset: Any) -> OutsideModel:
    """Return a fitted model of RecTools as a model of csrr; see `csrr.interop`."""
    table = dataset.get_raw_interactions(include_weight=False, include_datetime=False)
    log = Log.from_table(table.rename(columns={Columns.User: "user", Columns.Item: "item"}))

    def score_some(rows: Rows) -> Float32Array:
        found = model.recommend(log.users.ids[rows], dataset, k=log.n_items, filter_viewed=False, add_rank_col=False)
        users, items, scores = (found[name].to_numpy() for name in (Columns.User, Columns.Item, Columns.Score))
        return _place_scores(users, items, scores, rows, log)

    return OutsideModel.of(lambda rows: _score_in_parts(score_some, rows), log, f"RecTools {type(model).__name__}")


def _place_scores(users: Any, items: Any, scores: Any, user_rows: Any, log: Log) -> Float32Array:
    """Return the scores of a table of user ids and item ids, as (len(user_rows), n_items); -inf for the other cells.

    `user_rows` are the rows of the users in the table.
    """
    place = np.full(log.n_users, -1)
    place[user_rows] = np.arange(len(user_rows))
    block = np.full((len(user_rows), log.n_items), -np.inf, np.float32)
    if len(scores):
        block[place[log.users.rows(users)], log.items.rows(items, "item")] = scores
    return block


def _score_in_parts(score_some: RowScorer, rows: Rows) -> Float32Array:
    """Return scores of shape (len(rows), n_items), some users at a time."""
    return np.concatenate([score_some(rows[first : first + AT_ONCE]) for first in range(0, len(rows), AT_ONCE)])


def to_rectools(ours: Any) -> Any:
    """Return recommendations as a table of RecTools, or a model as a model of RecTools; see `csrr.interop`."""
    if isinstance(ours, Recommendations):
        names = {"user": Columns.User, "item": Columns.Item}
        return ours.to_frame().rename(columns=names)[Columns.Recommendations]
    if isinstance(ours, Recommender):
        return RecToolsModel(ours)
    raise ParameterError(f"to_rectools takes recommendations or a model, not a {type(ours).__name__}")


class RecToolsModel(ModelBase):  # type: ignore[misc]
    """A model of csrr for RecTools: its users and items are the internal numbers of the dataset."""

    def __init__(self, model: Recommender, verbose: int = 0) -> None:
        """Store a model, of which the parameters are used."""
        super().__init__(verbose=verbose)
        self.model: Recommender = model

    def __repr__(self) -> str:
        return f"RecToolsModel({self.model!r})"

    def _fit(self, dataset: Any) -> None:
        fresh = type(self.model)(**self.model.get_params())
        self.model = fresh.fit(Log.from_matrix(dataset.get_user_item_matrix(include_weights=False)))

    def _recommend_u2i(
        self, user_ids: Any, dataset: Any, k: int, filter_viewed: bool, sorted_item_ids_to_recommend: Any
    ) -> tuple[Any, Any, Any]:
        viewed = dataset.get_user_item_matrix(include_weights=False) if filter_viewed else None
        if sorted_item_ids_to_recommend is not None:
            k = min(k, len(sorted_item_ids_to_recommend))
        items, scores = rank_items(self.model, user_ids, k, seen=viewed, candidates=sorted_item_ids_to_recommend)
        found = items >= 0
        return np.repeat(user_ids, found.sum(axis=1)), items[found], scores[found]

    def _recommend_i2i(
        self, target_ids: Any, dataset: Any, k: int, sorted_item_ids_to_recommend: Any
    ) -> tuple[Any, Any, Any]:
        near = self.model.similar_items(target_ids, k, candidates=sorted_item_ids_to_recommend)
        there = near.scores > -np.inf
        return np.repeat(target_ids, there.sum(axis=1)), near.ids[there].astype(np.int64), near.scores[there]
