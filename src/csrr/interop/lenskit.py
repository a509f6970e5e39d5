"""Pipelines of LensKit in csrr, and models and lists of csrr in LensKit, which must be installed."""

# No `from __future__ import annotations` here: LensKit reads the annotations of a component when it is called.
from typing import Any

import numpy as np
from lenskit.data import Dataset, ItemList, ItemListCollection, QueryInput, RecQuery
from lenskit.operations import score as score_items
from lenskit.pipeline import Component
from lenskit.training import Trainable, TrainingOptions
from pydantic import BaseModel

from csrr._base.arrays import Float32Array, Rows
from csrr.data.log import Log, as_log
from csrr.interop.implicit import OutsideModel
from csrr.models.base import Recommender
from csrr.parameters import ParameterError, list_defaults
from csrr.registry import MODELS
from csrr.results.recommendations import Recommendations

AS_USUAL = TrainingOptions()


def from_lenskit(pipeline: Any, train: Any) -> OutsideModel:
    """Return a trained pipeline of LensKit as a model of csrr; see `csrr.interop`."""
    log = read_dataset(train) if isinstance(train, Dataset) else as_log(train)
    everything = ItemList(item_ids=log.items.ids)

    def score_rows(rows: Rows) -> Float32Array:
        block = np.empty((len(rows), log.n_items), np.float32)
        for place, user in enumerate(log.users.ids[rows].tolist()):
            block[place] = score_items(pipeline, user, everything).scores()
        return block

    name = getattr(pipeline, "name", None)
    return OutsideModel.of(score_rows, log, f"LensKit {name or type(pipeline).__name__}")


def to_lenskit(ours: Any) -> Any:
    """Return recommendations as lists of LensKit, or a model as a scorer of its pipelines; see `csrr.interop`."""
    if isinstance(ours, Recommendations):
        lengths = (ours.scores > -np.inf).sum(axis=1).tolist()
        lists = zip(ours.users.tolist(), ours.items, ours.scores, lengths, strict=True)
        return ItemListCollection.from_dict(
            {user: ItemList(item_ids=items[:n], scores=scores[:n], ordered=True) for user, items, scores, n in lists},
            key="user_id",
        )
    if isinstance(ours, Recommender):
        defaults = list_defaults(type(ours))
        changed = {name: value for name, value in ours.get_params().items() if value is not defaults[name]}
        return CsrrScorer(model=type(ours).__name__, params=changed)
    raise ParameterError(f"to_lenskit takes recommendations or a model, not a {type(ours).__name__}")


def read_dataset(data: Any) -> Log:
    """Return the events of a dataset of LensKit, with all users and items, even those without events."""
    matrix = data.interaction_matrix(format="scipy", layout="csr")
    matrix.data[:] = 1
    return Log.from_matrix(matrix, user_ids=data.users.ids(), item_ids=data.items.ids())


class CsrrConfig(BaseModel):  # type: ignore[misc]
    """The name of a model, and its parameters that differ from the defaults."""

    model: str = "CSRR"
    params: dict[str, Any] = {}


class CsrrScorer(Component[ItemList], Trainable):  # type: ignore[misc]
    """A scorer of items by a model of csrr; an unknown user is folded in by the history of the query."""

    config: CsrrConfig
    model_: Recommender

    def train(self, data: Dataset, options: TrainingOptions = AS_USUAL) -> None:
        """Fit the model, unless it is fitted and the options do not ask for a new fit."""
        if not hasattr(self, "model_") or options.retrain:
            self.model_ = MODELS[self.config.model](**self.config.params).fit(read_dataset(data))

    def __call__(self, query: QueryInput, items: ItemList) -> ItemList:
        """Return the items with scores; NaN for items that the model does not know."""
        found = np.full(len(items), np.nan, np.float32)
        scores = self._score(RecQuery.create(query))
        if scores is not None and len(items):
            known, rows = self._find_rows(items.ids())
            found[known] = scores[rows]
        return ItemList(items, scores=found)

    def _score(self, query: Any) -> Float32Array | None:
        """Return the scores of all items of the model, or None if neither the user nor a history is known."""
        if query.user_id is not None and query.user_id in self.model_.users_:
            rows = self.model_.users_.rows([query.user_id])
            own: Float32Array = self.model_.score_rows(rows)[0]
            return own
        history = query.history_items
        if history is None:
            return None
        known, _ = self._find_rows(history.ids())
        mine = [item for item, is_known in zip(history.ids().tolist(), known.tolist(), strict=True) if is_known]
        scores: Float32Array | None = self.model_.fold_in([mine]).score()[0] if mine else None
        return scores

    def _find_rows(self, ids: Any) -> tuple[Any, Rows]:
        """Return which of the ids the model knows, and the rows of those."""
        known = np.isin(ids, self.model_.items_.ids)
        return known, self.model_.items_.rows(ids[known], "item")
