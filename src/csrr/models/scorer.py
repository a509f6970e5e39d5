"""A model as scores see it: its parameters, the data it was fitted to, and a score for every user and item."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Float32Array, Rows
from csrr.data import IdMap, Log, as_log
from csrr.models.folded_users import list_ids
from csrr.parameters import ParameterError, Renamed, check_params, list_defaults, list_parameters, use_new_names
from csrr.ranking import top_k
from csrr.ranking.calibration import Calibration
from csrr.ranking.topk import Top

USERS = 2**8
"""Number of users whose scores of all items are held while pairs are scored."""


class NotFittedError(RuntimeError):
    """A question to a model that has not been fitted."""


class Scorer(ABC):
    """What can be fitted to data and scores pairs of a user and an item by row number; see `Recommender`."""

    users_: IdMap
    items_: IdMap
    titles_: npt.NDArray[np.object_] | None
    seen_: sparse.csr_array[np.float32, tuple[int, int]]
    calibration_: Calibration | None = None
    user_factors_: Float32Array
    item_factors_: Float32Array

    has_factors: ClassVar[bool] = False
    """Whether scores are products of `user_factors_`, (n_users, d), and `item_factors_`, (n_items, d)."""
    walked: ClassVar[tuple[str, ...]] = ()
    """Parameters along which one fit can begin where another ended: `fit(data, start=)`."""
    renamed: ClassVar[dict[str, Renamed]] = {}
    """Parameters by a name that they had before."""

    @abstractmethod
    def fit(self, data: Any) -> Self:
        """Fit to data, and return the model.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.

        Returns
        -------
        model
            The model itself.
        """

    # What a fit begins and ends with

    @staticmethod
    def read(data: Any) -> Log:
        """Return training data as a log with at least one event.

        Parameters
        ----------
        data
            A log, a table with user and item columns, or a users x items matrix.

        Returns
        -------
        log
            The log.

        Raises
        ------
        ParameterError
            Where there are no events.
        """
        log = as_log(data)
        if len(log) == 0:
            raise ParameterError("the log has no events; there is nothing to fit")
        return log

    def remember(self, log: Log) -> None:
        """Keep what recommending needs of the training log.

        Parameters
        ----------
        log
            The training log.
        """
        self.users_, self.items_, self.titles_ = log.users, log.items, log.titles
        self.seen_ = log.to_csr()
        self.calibration_ = None

    def training_log(self) -> Log:
        """Return the events that the model was fitted to.

        Returns
        -------
        log
            In their order, without weights or times.
        """
        rows = np.repeat(np.arange(len(self.users_), dtype=np.int32), np.diff(self.seen_.indptr))
        return Log(self.users_, self.items_, rows, self.seen_.indices, titles=self.titles_)

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "seen_")

    def check_fitted(self) -> None:
        """Raise an error unless `fit` has been called.

        Raises
        ------
        NotFittedError
            Where it has not.
        """
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(data) first")

    # Parameters

    def check_params(self) -> None:
        """Raise an error for parameters that make no sense: by their declarations, as far as there are any.

        Raises
        ------
        ParameterError
            For the first of them.
        """
        check_params(self.get_params(), list_parameters(type(self)).values())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep
            There for scikit-learn: no parameter is a model itself.

        Returns
        -------
        params
            What was given, or is the default.
        """
        return {name: getattr(self, name) for name in list_defaults(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; return the model. What was fitted stays until the next `fit`.

        Parameters
        ----------
        **params
            The new values.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ValueError
            For a name that is no parameter of the model; nothing is changed then.
        """
        valid = list_defaults(type(self))
        params = use_new_names(type(self), params)
        for name in params:
            if name not in valid:
                known = ", ".join(valid) or "none"
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has: {known}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def start_value(self, name: str, log: Log) -> float:
        """Return the number around which a parameter that is "auto" is searched.

        Parameters
        ----------
        name
            The parameter.
        log
            The training log.

        Returns
        -------
        value
            Where the search begins.

        Raises
        ------
        ParameterError
            Where the model has no such parameter.
        """
        raise ParameterError(f"{type(self).__name__} has no {name} that can be tuned around auto; give a Range")

    def __repr__(self) -> str:
        defaults = list_defaults(type(self))
        given = {name: value for name, value in self.get_params().items() if _differs(value, defaults[name])}
        call = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        if not self.is_fitted:
            return call
        return f"{call}, fitted to {len(self.users_):,} users x {len(self.items_):,} items"

    # Scores

    def score_rows(self, rows: Rows) -> Float32Array:
        """Return the scores of all items for users by row number.

        Parameters
        ----------
        rows
            The rows of the users.

        Returns
        -------
        scores
            A new float32 array of shape (len(rows), n_items).
        """
        if self.has_factors:
            return self.user_factors_[rows] @ self.item_factors_.T
        return self.score_histories(self.seen_, rows)

    def score_histories(self, seen: Any, rows: Rows) -> Float32Array:
        """Return the scores of all items for people by their histories.

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
        raise NotImplementedError(f"a {type(self).__name__} knows only the users it was fitted to")

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> Float32Array:
        """Return the score of each pair of a user row and an item row.

        Parameters
        ----------
        user_rows, item_rows
            The rows of the users and of the items, shape (n,) each.

        Returns
        -------
        scores
            Shape (n,).
        """
        if self.has_factors:
            products: Float32Array = np.einsum("nd,nd->n", self.user_factors_[user_rows], self.item_factors_[item_rows])
            return products
        scores = np.empty(len(user_rows), np.float32)
        distinct, place = np.unique(user_rows, return_inverse=True)
        for first in range(0, len(distinct), USERS):
            block = self.score_rows(distinct[first : first + USERS])
            mine = (place >= first) & (place < first + USERS)
            scores[mine] = block[place[mine] - first, item_rows[mine]]
        return scores

    def top_rows(self, rows: Rows, k: int, *, seen: Any = None, candidates: Rows | None = None) -> Top:
        """Return the best items for users by row number.

        Parameters
        ----------
        rows
            The rows of the users.
        k
            The number of items for each.
        seen
            Cells to leave out: those stored in a sparse array of shape (n_users, n_items).
        candidates
            The rows of the items to choose among; None for all.

        Returns
        -------
        top
            Item rows and scores, shapes (len(rows), k); see `ranking.top_k`.
        """
        self.check_fitted()
        return top_k(self.score_rows, rows, len(self.items_), k, seen=seen, candidates=candidates)

    # Ids and rows

    def user_rows(self, users: Any) -> Rows:
        """Return the rows of users.

        Parameters
        ----------
        users
            One id, several, or None for all.

        Returns
        -------
        rows
            Shape (n,).
        """
        return np.arange(len(self.users_)) if users is None else self.users_.rows(list_ids(users))

    def name_items(self, item_rows: Rows) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return the ids and titles of items by row number.

        Parameters
        ----------
        item_rows
            The rows, shape (n,).

        Returns
        -------
        ids
            Shape (n,).
        titles
            Shape (n,), or None where there are none.
        """
        return self.items_.ids[item_rows], None if self.titles_ is None else self.titles_[item_rows]


def _differs(value: Any, default: Any) -> bool:
    return value is not default and not np.array_equal(value, default)
