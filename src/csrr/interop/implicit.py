"""Models that other libraries fitted, wrapped as models of csrr."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import Float32Array, Rows
from csrr.data.errors import DataError
from csrr.data.log import Log, as_log
from csrr.data.matrix import check_sparse
from csrr.models.base import Recommender
from csrr.parameters import ParameterError
from csrr.ranking.topk import RowScorer

Scorer = Callable[[Any], npt.ArrayLike]
"""From the ids of users, shape (b,), to their scores of all items, shape (b, n_items), in the order of the items."""


class OutsideModel(Recommender):
    """A model that another library fitted, wrapped for csrr.

    Parameters
    ----------
    scorer
        A function from user rows to the scores of all items.
    name
        The name of the model.
    """

    def __init__(self, scorer: RowScorer | None = None, name: str = "model") -> None:
        """Store the parameters."""
        self.scorer = scorer
        self.name = name

    @classmethod
    def of(cls, scorer: RowScorer, log: Log, name: str) -> Self:
        """Return the model with these scores, fitted to a log."""
        model = cls(scorer, name)
        model.remember(log)
        return model

    def fit(self, data: Any) -> NoReturn:
        """Raise an error: another library fits the model."""
        raise NotImplementedError(f"{self.name} is fitted by the library that it comes from")

    def save(self, path: str | os.PathLike[str]) -> NoReturn:
        """Raise an error: another library saves the model."""
        raise NotImplementedError(f"{self.name} is saved by the library that it comes from")

    def score_rows(self, rows: Rows) -> Float32Array:
        assert self.scorer is not None
        scores = np.array(self.scorer(rows), np.float32)
        if scores.shape != (len(rows), len(self.items_)):
            raise ParameterError(
                f"{self.name}: scores of shape {scores.shape} for {len(rows)} users and {len(self.items_)} items"
            )
        # Items without a score are in no list.
        scores[np.isnan(scores)] = -np.inf
        return scores

    def __repr__(self) -> str:
        return f"{self.name}, fitted to {len(self.users_):,} users x {len(self.items_):,} items"


def from_scores(score: Scorer, train: Any, *, name: str = "model") -> OutsideModel:
    """Wrap any scoring function as a csrr model.

    Parameters
    ----------
    score
        A function from user ids, shape (b,), to their scores of all items, shape (b, n_items): columns in the order of
        `train.items`, NaN for items without a score.
    train
        The training log.
    name
        The name of the model.

    Returns
    -------
    model
        For `csrr.evaluate`, `csrr.compare` and `recommend`.

    Examples
    --------
    >>> from csrr.interop import from_scores
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> rng = np.random.default_rng(0)
    >>> model = from_scores(lambda users: rng.random((len(users), 40)), train, name="random")
    >>> csrr.evaluate(model, train, test, at=5)["recall@5"] < 0.3
    True
    """
    log = as_log(train)
    return OutsideModel.of(lambda rows: np.asarray(score(log.users.ids[rows]), np.float32), log, name)


def from_implicit(model: Any, train: Any, *, weighted: bool = False) -> OutsideModel:
    """Wrap a fitted implicit model as a csrr model.

    Parameters
    ----------
    model
        A fitted model: with factors (ALS, BPR, logistic) or item-based nearest neighbors.
    train
        The log whose `to_csr()` it was fitted to.
    weighted
        Whether it was fitted to `to_csr(weighted=True)`.

    Returns
    -------
    model
        For `csrr.evaluate`, `csrr.compare` and `recommend`. Items without a score are not ranked.

    Raises
    ------
    DataError
        If it was fitted to other numbers of users or items.
    """
    log, name = as_log(train), f"implicit {type(model).__name__}"
    if hasattr(model, "user_factors"):
        users, items = _as_numpy(model.user_factors), _as_numpy(model.item_factors)
        _check_shape(name, (len(users), len(items)), log)
        return OutsideModel.of(lambda rows: users[rows] @ items.T, log, name)
    if getattr(model, "similarity", None) is None:
        raise ParameterError(f"from_implicit takes a fitted model of implicit, not a {type(model).__name__}")
    clicks, weights = log.to_csr(weighted=weighted), sparse.csr_array(check_sparse(model.similarity, name))
    _check_shape(name, (log.n_users, weights.shape[0]), log)

    def score_rows(rows: Rows) -> Float32Array:
        scores: Float32Array = (clicks[rows] @ weights).toarray().astype(np.float32)
        return np.where(scores == 0, np.float32(-np.inf), scores)

    return OutsideModel.of(score_rows, log, name)


def _as_numpy(factors: Any) -> Float32Array:
    found = factors.to_numpy() if hasattr(factors, "to_numpy") else factors
    return np.asarray(found, np.float32)


def _check_shape(name: str, shape: tuple[int, int], log: Log) -> None:
    if shape != (log.n_users, log.n_items):
        raise DataError(
            f"{name} was fitted to {shape[0]:,} users and {shape[1]:,} items, train has {log.n_users:,} and"
            f" {log.n_items:,}; fit it to train.to_csr()"
        )
