"""RecTools: its models as ours, our models and lists as its own. Needs RecTools installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from rectools import Columns
from rectools.models.base import ModelBase

from csrr._base.arrays import Float32Array, Rows
from csrr.data import Log
from csrr.interop.implicit import OutsideModel, place_scores, score_in_parts
from csrr.models.base import Recommender
from csrr.models.recommend import rank_items
from csrr.parameters import ParameterError
from csrr.ranking import Recommendations


def from_rectools(model: Any, dataset: Any) -> OutsideModel:
    """Return a model of RecTools, fitted to a dataset of it, as one of ours; see `csrr.interop`."""
    table = dataset.get_raw_interactions(include_weight=False, include_datetime=False)
    log = Log.from_table(table.rename(columns={Columns.User: "user", Columns.Item: "item"}))

    def score_some(rows: Rows) -> Float32Array:
        found = model.recommend(log.users.ids[rows], dataset, k=log.n_items, filter_viewed=False, add_rank_col=False)
        users, items, scores = (found[name].to_numpy() for name in (Columns.User, Columns.Item, Columns.Score))
        return place_scores(users, items, scores, rows, log)

    return OutsideModel.of(lambda rows: score_in_parts(score_some, rows), log, f"RecTools {type(model).__name__}")


def to_rectools(ours: Any) -> Any:
    """Return recommendations as a table of RecTools, or a model as one of its models; see `csrr.interop`."""
    if isinstance(ours, Recommendations):
        names = {"user": Columns.User, "item": Columns.Item}
        return ours.to_frame().rename(columns=names)[Columns.Recommendations]
    if isinstance(ours, Recommender):
        return RecToolsModel(ours)
    raise ParameterError(f"to_rectools takes recommendations or a model, not a {type(ours).__name__}")


class RecToolsModel(ModelBase):  # type: ignore[misc]
    """A model of csrr that RecTools fits and asks: its users and items are the dataset's internal numbers."""

    def __init__(self, model: Recommender, verbose: int = 0) -> None:
        """Store a model, whose parameters count."""
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
