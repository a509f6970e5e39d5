"""The popularity baseline: the same scores for everyone."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import Rows
from csrr.data.log import Log, as_log
from csrr.models.base import Recommender
from csrr.models.foldin import FoldedItems
from csrr.models.schema import Arrays, FileSchema, Values
from csrr.models.store import ModelState


class PopRank(Recommender):
    """Popularity baseline: an item's score is the number of users who have it, for every user.

    If the log has times, recent popularity breaks ties. Users without training events get the same popular items as
    from every other model.

    Attributes
    ----------
    popularity_
        That number, shape (n_items,).
    users_, items_
        The ids of the training data, in the order of their rows.
    titles_
        The titles of the items, or None.
    item_table_
        The item table set by `set_items`, or None.
    seen_
        The training events: ones, sparse of shape (n_users, n_items).
    seen_weights_, seen_times_
        The weights of these events, if the model uses weights, and their times, if the log has them: shape
        (n_events,) each, or None.
    seen_ages_
        The number of later events of the same user for each, shape (n_events,), if the model uses the order; or None.
    calibration_
        The calibration that `calibrate` learned, or None.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> model = csrr.PopRank().fit(log)
    >>> int(model.popularity_.sum()) == len(log)
    True
    """

    search_space: ClassVar = {}
    file_schema = FileSchema((Values("popularity", ("items",)),))

    popularity_: npt.NDArray[np.float32]

    def fit(self, data: Any, y: Any = None) -> Self:
        """Count the events of each item, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.
        y
            Not used; required by scikit-learn.

        Returns
        -------
        model
            The model itself.
        """
        log = as_log(data)
        self.remember(log)
        self.popularity_ = log.item_counts().astype(np.float32)
        return self

    def score_histories(self, seen: Any, rows: Rows) -> npt.NDArray[np.float32]:
        return np.tile(self.popularity_, (len(rows), 1))

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        counts = np.diff(chosen.indptr).astype(np.float32)
        return FoldedItems.of(self, log, chosen, lambda rows: np.tile(counts, (len(rows), 1)))

    def state(self) -> ModelState:
        return {"popularity": self.popularity_}, {}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        self.popularity_ = arrays["popularity"]
