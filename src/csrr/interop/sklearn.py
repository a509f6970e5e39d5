"""Splits and scorers for the searches of scikit-learn.

Models are estimators already: `get_params`, `set_params`, `fit(X)` and `score(X)`, with X a table of events. X cannot
be a matrix if rows are split: its rows are users, and a model cannot rank items for users it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

from csrr._base.arrays import Int64Array
from csrr.data.errors import DataError
from csrr.data.log import Log
from csrr.data.tables import open_table, read_events
from csrr.models.base import Recommender
from csrr.models.scorer import holds_events, measure_heldout
from csrr.parameters import ParameterError, check_number, check_whole
from csrr.ranking.metrics import HIT_METRICS, split_metric


class PerUserSplit:
    """Cross-validation splits of each user's events, for `cv` of scikit-learn.

    At least one event of each user stays in train.

    Parameters
    ----------
    n_splits
        The number of splits. Without `ratio` they are folds: every event of a user with two or more is in test once.
    ratio
        The share of each user's events in train, drawn anew for each split.
    seed
        Seed of the random numbers.

    Examples
    --------
    >>> from csrr.interop import PerUserSplit
    >>> events = {"user": [1, 1, 1, 2, 2, 3], "item": [7, 8, 9, 7, 8, 9]}
    >>> [sorted(test.tolist()) for _, test in PerUserSplit(2).split(events)]
    [[0, 2, 3], [1, 4]]
    """

    def __init__(self, n_splits: int = 5, *, ratio: float | None = None, seed: int = 0) -> None:
        """Store the parameters, checked."""
        check_whole("n_splits", n_splits, least=1 if ratio is not None else 2)
        check_whole("seed", seed, least=0)
        if ratio is not None:
            check_number("ratio", ratio, above=0, most=1)
        self.n_splits = n_splits
        self.ratio = ratio
        self.seed = seed

    def __repr__(self) -> str:
        ratio = "" if self.ratio is None else f", ratio={self.ratio}"
        return f"PerUserSplit({self.n_splits}{ratio}, seed={self.seed})"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits, whatever the data.

        Parameters
        ----------
        X, y, groups
            Not used; required by scikit-learn.

        Returns
        -------
        n_splits
            The parameter.
        """
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Int64Array, Int64Array]]:
        """Yield the row numbers of train and test.

        Parameters
        ----------
        X
            A table of events with user and item columns.
        y, groups
            Not used; required by scikit-learn.

        Yields
        ------
        parts
            Two arrays, sorted.
        """
        users = _read_users(X)
        rng = np.random.default_rng(self.seed)
        counts = np.bincount(users)
        place = _shuffle_places(users, rng)
        for number in range(self.n_splits):
            if self.ratio is None:
                is_test = (place % self.n_splits == number) & (counts[users] > 1)
            else:
                place = place if number == 0 else _shuffle_places(users, rng)
                n_train = np.maximum(np.floor(self.ratio * counts + 0.5), 1)
                is_test = place >= n_train[users]
            yield np.flatnonzero(~is_test), np.flatnonzero(is_test)


def ranking_scorer(metric: str = "ndcg@10") -> Callable[..., float]:
    """Return a scorer for `scoring` of scikit-learn: the mean of a ranking metric over users with held-out events.

    Parameters
    ----------
    metric
        The metric and the length, such as "recall@20"; your own registered metrics work too.

    Returns
    -------
    scorer
        A function of a fitted model, or a pipeline that ends in one, and a table of held-out events.

    Examples
    --------
    >>> from csrr.interop import ranking_scorer
    >>> train, test = csrr.split(csrr.synthetic(100, 40, events_per_user=10).log)
    >>> model = csrr.PopRank().fit(train)
    >>> ranking_scorer("ndcg@10")(model, test.to_frame()) == model.score(test)
    True
    """
    name, k = split_metric(metric, HIT_METRICS)

    def score(estimator: Any, X: Any, y: Any = None) -> float:
        if hasattr(estimator, "steps"):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        if not isinstance(estimator, Recommender) or not holds_events(X):
            raise ParameterError(
                f"give a model of csrr and a table, not a {type(estimator).__name__} and a {type(X).__name__}"
            )
        estimator.check_fitted()
        return measure_heldout(estimator, X, HIT_METRICS[name], k)

    return score


def _read_users(X: Any) -> Int64Array:
    """Return a number for the user of each event."""
    if isinstance(X, Log):
        raise DataError("scikit-learn cannot take rows of a Log; pass log.to_frame(), a table of its events")
    if not holds_events(X) or sparse.issparse(X):
        raise DataError(f"X is a {type(X).__name__}; PerUserSplit needs a table of events with user and item columns")
    numbers = read_events(open_table(X)).user.dictionary_encode().indices
    return np.asarray(numbers.to_numpy(), np.int64)


def _shuffle_places(users: Int64Array, rng: np.random.Generator) -> Int64Array:
    """Return the place of each event among its user's, in a random order."""
    order = np.lexsort((rng.random(len(users)), users))
    starts = np.concatenate(([0], np.cumsum(np.bincount(users))))
    place = np.empty(len(users), np.int64)
    place[order] = np.arange(len(users)) - starts[users[order]]
    return place
