"""The baseline that knows no one: what most people have."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from csrr.arrays import Rows
from csrr.data import as_log
from csrr.models.recommender import Recommender
from csrr.models.store import Arrays, State


class PopRank(Recommender):
    """Scores an item by the number of users who have it: `popularity_`, shape (n_items,)."""

    popularity_: npt.NDArray[np.float32]

    def fit(self, data: Any) -> Self:
        """Count the users of each item of a log, a table or a users x items matrix; return the model."""
        log = as_log(data)
        self.remember(log)
        self.popularity_ = log.item_counts().astype(np.float32)
        return self

    def score_histories(self, seen: Any, rows: Rows) -> npt.NDArray[np.float32]:
        """Return the same scores, shape (len(rows), n_items), for everyone."""
        return np.tile(self.popularity_, (len(rows), 1))

    def state(self) -> State:
        """Return what was fitted, as arrays and as plain facts, for saving."""
        return {"popularity": self.popularity_}, {}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        """Set what `state` returned."""
        self.popularity_ = arrays["popularity"]
