"""Models that score an item by its weights from the items a user has: EASE, neighborhoods and transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from csrr._base.arrays import Float32Array, Rows
from csrr._base.lazy_jit import compile_loop
from csrr._base.threads import run_ranges
from csrr.data.ids import Id
from csrr.models.base import Recommender, compute_history_cosines, mark_nothing
from csrr.models.estimator import ask_one_state
from csrr.models.schema import Arrays, sparse_arrays, sparse_from
from csrr.models.scorer import explain_score
from csrr.models.store import ModelState
from csrr.ranking.topk import Products, ScoredItems, add_products, check_rows, multiply_pairs, split_rows
from csrr.results.recommendations import Explanation


class ItemWeightsModel(Recommender):
    """A recommender whose scores are X @ W: X the users' clicks (ones, or as `weigh_history` says), W = `weights_`.

    `weights_`, of shape (n_items, n_items), float32, is dense or a csr array; `weights_[i, j]` is what item i in a
    history adds to the score of item j. The diagonal is zero: an item does not affect its own score.
    """

    weights_: Any

    def weigh_history(self, seen: Any) -> Float32Array | None:
        """Return how much each event of histories counts. Only a model with sparse weights may give numbers.

        Parameters
        ----------
        seen
            Histories, a row each: csr of shape (n, n_items), with values as in `histories`.

        Returns
        -------
        amounts
            Shape (n_events,), or None for 1.
        """
        return None

    def make_products(self) -> Products | None:
        if not self._is_sparse:
            return None
        (n_users, n_items), none = self.seen_.shape, np.empty((0, 0), np.float32)
        items = self._compute_once("items", lambda: ScoredItems(none.reshape(n_items, 0), self.weights_))
        amounts = self._compute_once("amounts", lambda: self.weigh_history(self.histories))
        return Products(items, none.reshape(n_users, 0), self.histories, _make_ones(self.seen_), amounts)

    def score_histories(self, seen: Any, rows: Rows) -> Float32Array:
        if self._is_sparse:
            sums = np.zeros((len(rows), seen.shape[1]), np.float32)
            add_products(sums, seen, rows, self.weights_, _make_ones(seen), self.weigh_history(seen))
            return sums
        check_rows(rows, len(rows), seen.shape[0])
        out = np.empty((len(rows), seen.shape[1]), np.float32)
        parts = (rows, seen.indptr, seen.indices, self.weights_, out)
        run_ranges(lambda a, b: _add_dense(a, b, *parts), split_rows(len(rows)))
        return out

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> Float32Array:
        if self._is_sparse:
            given = self.weights_, _make_ones(self.seen_), self.weigh_history(self.histories)
            return multiply_pairs(self.seen_, user_rows, item_rows, *given)
        check_rows(user_rows, len(user_rows), self.seen_.shape[0])
        check_rows(item_rows, len(user_rows), self.seen_.shape[1])
        out = np.empty(len(user_rows), np.float32)
        parts = (user_rows, item_rows, self.seen_.indptr, self.seen_.indices, self.weights_, out)
        run_ranges(lambda a, b: _add_pairs_dense(a, b, *parts), split_rows(len(out)))
        return out

    @property
    def _is_sparse(self) -> bool:
        return bool(sparse.issparse(self.weights_))

    def score_own(self) -> Float32Array:
        # An item does not affect its own score.
        return self.explained_shares()

    @ask_one_state
    def explain(self, user: Id, item: Id) -> Explanation:
        """Return how much each item of the user's history adds to the score of an item.

        Parameters
        ----------
        user, item
            Their ids.

        Returns
        -------
        explanation
            A contribution for each item of the history; they sum to the score.
        """
        self.check_fitted()
        row, column = self.users_.row(user), self.items_.row(item, "item")
        mine = self.histories[[row]]
        amounts = self._copy_column(column)[mine.indices]
        if (counts := self.weigh_history(mine)) is not None:
            amounts *= counts
        return explain_score(self, user, item, mine.indices, amounts)

    def _copy_column(self, column: int) -> Float32Array:
        """Return a copy of the weights for one item, shape (n_items,)."""
        if self._is_sparse:
            stored: Float32Array = self._by_item[[column]].toarray()[0]
            return stored
        dense: Float32Array = self.weights_[:, column].copy()
        return dense

    def score_similar_items(self, rows: Rows) -> Float32Array:
        # Of sparse weights most are not there, and the item's own never is.
        return mark_nothing(self._by_item[rows].toarray() if self._is_sparse else self.weights_[:, rows].T)

    @property
    def _by_item(self) -> Any:
        """The transposed weights, csr, of which rows are quick to take."""
        return self._compute_once("by item", lambda: self.weights_.T.tocsr())

    def score_similar_users(self, rows: Rows) -> Float32Array:
        return compute_history_cosines(self.seen_, rows)

    def state(self) -> ModelState:
        if self._is_sparse:
            return sparse_arrays("weights", self.weights_), {}
        return {"weights": self.weights_}, {}

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        n_items = len(self.items_)
        is_dense = "weights" in arrays
        self.weights_ = arrays["weights"] if is_dense else sparse_from(arrays, "weights", (n_items, n_items))


def _make_ones(clicks: Any) -> Float32Array:
    return np.ones(clicks.shape[0], np.float32)


@compile_loop(fastmath=True)
def _add_dense(start, stop, rows, indptr, indices, weights, out):  # type: ignore[no-untyped-def]
    # out[i] = weights[items of user rows[i]].sum(axis=0)
    for i in range(start, stop):
        row = out[i]
        row[:] = 0
        for p in range(indptr[rows[i]], indptr[rows[i] + 1]):
            added = weights[indices[p]]
            for j in range(len(row)):
                row[j] += added[j]


@compile_loop(fastmath=True)
def _add_pairs_dense(start, stop, users, items, indptr, indices, weights, out):  # type: ignore[no-untyped-def]
    # out[n] = weights[items of user users[n], items[n]].sum()
    for n in range(start, stop):
        total = np.float32(0)
        for p in range(indptr[users[n]], indptr[users[n] + 1]):
            total += weights[indices[p], items[n]]
        out[n] = total
