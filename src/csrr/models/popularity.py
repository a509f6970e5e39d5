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
    """Scores an item by the number of users who have it.

    Attributes
    ----------
    popularity_
        That number, shape (n_items,).
    users_, items_
        The ids of the training data, in the order of their rows.
    titles_
        The titles of the items, or None.
    seen_
        The training events: ones, sparse of shape (n_users, n_items).
    calibration_
        What turns scores into probabilities, after `calibrate`; or None.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> model = csrr.PopRank().fit(log)
    >>> int(model.popularity_.sum()) == len(log)
    True
    """

    popularity_: npt.NDArray[np.float32]

    def fit(self, data: Any) -> Self:
        """Count the users of each item, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.

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
        """Return the same scores for everyone.

        Parameters
        ----------
        seen
            Histories, a row each: csr of shape (n, n_items).
        rows
            Which of them are asked for.

        Returns
        -------
        scores
            A new float32 array of shape (len(rows), n_items).
        """
        return np.tile(self.popularity_, (len(rows), 1))

    def state(self) -> State:
        """Return what was fitted, for saving.

        Returns
        -------
        arrays
            Arrays by name.
        facts
            Plain values by name.
        """
        return {"popularity": self.popularity_}, {}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        """Set what `state` returned.

        Parameters
        ----------
        arrays, facts
            As `state` returned them.
        """
        self.popularity_ = arrays["popularity"]
