"""A session: the history of one user, to which events are added one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from csrr._base.arrays import AnyArray, Float32Array
from csrr.data.ids import Id
from csrr.models.foldin import FoldedUsers
from csrr.models.order import FadedScores
from csrr.ranking.topk import multiply_factors
from csrr.results.recommendations import Recommendations

if TYPE_CHECKING:
    from csrr.models.base import Recommender

_LEAST_SCALE = 1e-200
"""Sums are written out anew where what they are multiplied by becomes smaller."""


class Session:
    """The history of one user, whose scores follow each event that is added, as if folded in with all of it.

    An event costs as much as the rank and the number of items that its item is a neighbor of, whatever the length of
    the history. An item that is in the history already moves to its end. The session keeps the model as it was.

    Examples
    --------
    >>> log = csrr.read({"user": [1, 1, 2, 2, 2], "item": ["a", "b", "c", "a", "b"]}, ordered=True)
    >>> session = csrr.CSRR(order="next").fit(log).session(history=["c"])
    >>> session.add("a")
    >>> session.recommend(k=1).items.tolist()
    [['b']]
    """

    def __init__(self, model: Recommender, scores: FadedScores, history: Any) -> None:
        self._model, self._scores = model, scores
        # Its values are places from the latest on.
        self._start(history.indices[np.argsort(-history.data)].tolist())

    def _start(self, rows: Iterable[int]) -> None:
        """Begins with these items, oldest first."""
        n_decays, n_items = len(self._scores.decays), len(self._scores.right)
        self._rows: list[int] = []
        # The sum over events of d^age * left[i], and that of the weights of i, which is scale * sums.
        self._users = np.zeros((n_decays, self._scores.left.shape[1]))
        self._scale, self._sums = np.ones(n_decays), np.zeros((n_decays, n_items))
        for row in rows:
            self._push(row)

    def _push(self, row: int) -> None:
        own, decays = self._scores, np.array(self._scores.decays)
        self._rows.append(row)
        self._users = decays[:, None] * self._users + own.left[row]
        self._scale *= decays
        if self._scale.min() < _LEAST_SCALE:
            self._sums *= self._scale[:, None]
            self._scale[:] = 1
        weights, m = own.weights, len(own.right)
        for c, scale in enumerate(self._scale):
            mine = slice(weights.indptr[c * m + row], weights.indptr[c * m + row + 1])
            self._sums[c, weights.indices[mine]] += weights.data[mine] / scale

    @property
    def history(self) -> AnyArray:
        """The ids of the items, oldest first, shape (n,)."""
        return self._model.items_.ids[self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Session: {len(self):,} items, of {self._model!r}"

    def add(self, item: Id) -> None:
        """Add an event, which is now the latest.

        Parameters
        ----------
        item
            The id of its item.

        Raises
        ------
        UnknownIdError
            For an item that the model does not know.
        """
        row = int(self._model.items_.row(item, "item"))
        if row in self._rows:
            # Every event before it is one step less away.
            self._start(each for each in list(self._rows) if each != row)
        self._push(row)

    def score(self) -> Float32Array:
        """Return the scores of all items.

        Returns
        -------
        scores
            Shape (n_items,).
        """
        users = self._users.reshape(1, -1).astype(np.float32)
        scores: Float32Array = multiply_factors(users, self._scores.right)[0]
        return scores + (self._scale @ self._sums).astype(np.float32)

    def recommend(self, k: int = 10, **options: Any) -> Recommendations:
        """Return the best items, best first.

        Parameters
        ----------
        k
            The number of items.
        **options
            Those of `Recommender.recommend_for`.

        Returns
        -------
        recommendations
            One list.
        """
        ages = np.arange(len(self), 0, -1, dtype=np.float32)
        seen = sparse.csr_array((ages, (np.zeros(len(self), int), self._rows)), shape=(1, len(self._scores.right)))
        people = FoldedUsers(np.arange(1), seen, self._model, lambda rows: np.tile(self.score(), (len(rows), 1)))
        return people.recommend(k, **options)
