"""What every model can do once it can score: recommend, score, find neighbours."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Rows
from csrr.data import IdMap, Log, as_log
from csrr.data.ids import Id
from csrr.models.answers import Explanation, FoldedFactors, FoldedUsers, Least, checked_cut, lists
from csrr.models.heldout import calibration_on, reliability_on
from csrr.models.store import (
    Arrays,
    State,
    ids_arrays,
    ids_from,
    sparse_arrays,
    sparse_from,
    text_arrays,
    text_from,
    write,
)
from csrr.models.strengths import ParameterError
from csrr.ranking import Neighbours, Recommendations, block_top_k, top_k
from csrr.ranking.calibration import Calibration
from csrr.ranking.reliability import Reliability
from csrr.ranking.topk import Top
from csrr.threads import use_threads

Floats = npt.NDArray[np.float32]

PAIRS, USERS = 2**15, 2**8
"""Number of pairs scored at a time, and of the users whose scores of all items these are taken from."""


class NotFittedError(RuntimeError):
    """A question to a model that has not been fitted."""


class Recommender(ABC):
    """The contract of a model: `fit`, `_score_rows` for blocks of users, `_fold` for new ones; all else is inherited.

    A subclass's `__init__` takes keyword arguments with defaults and only stores them, under their own names.
    Its `fit` calls `_remember(log)`, which sets `users_`, `items_`, `titles_` (or None) and `seen_`, the
    training events, sparse of shape (n_users, n_items).
    """

    users_: IdMap
    items_: IdMap
    titles_: npt.NDArray[np.object_] | None
    seen_: sparse.csr_array[np.float32, tuple[int, int]]
    calibration_: Calibration | None = None

    @abstractmethod
    def fit(self, data: Any) -> Self:
        """Fit to a log, a table with user and item columns, or a users x items matrix; return the model."""

    @abstractmethod
    def _score_rows(self, rows: Rows) -> Floats:
        """Return a new float32 array of scores, shape (len(rows), n_items), for the users with these rows."""

    @staticmethod
    def _read(data: Any) -> Log:
        """Return the training data as a log with at least one event."""
        log = as_log(data)
        if len(log) == 0:
            raise ParameterError("the log has no events; there is nothing to fit")
        return log

    def _remember(self, log: Log) -> None:
        """Keep what recommending needs of the training log."""
        self.users_, self.items_, self.titles_ = log.users, log.items, log.titles
        self.seen_ = log.to_csr()
        self.calibration_ = None

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "seen_")

    def _state(self) -> State:
        """Return what was fitted beyond the training log, as arrays and as plain facts, for saving."""
        raise NotImplementedError(f"{type(self).__name__} cannot be saved")

    def _restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        """Set what `_state` returned."""
        raise NotImplementedError(f"{type(self).__name__} cannot be loaded")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, at once or not at all; `csrr.load` reads it."""
        self._check_fitted()
        arrays, facts = self._state()
        common: Arrays = {**ids_arrays("users", self.users_), **ids_arrays("items", self.items_)}
        if self.titles_ is not None:
            common |= text_arrays("titles", self.titles_)
        common |= sparse_arrays("seen", self.seen_, with_data=False)
        if self.calibration_ is not None:
            common |= self.calibration_.arrays()
        header = {"model": type(self).__name__, "params": self.get_params(), "facts": facts}
        write(path, header, {**common, **arrays})

    def _restore_common(self, arrays: Arrays) -> None:
        self.users_, self.items_ = ids_from(arrays, "users"), ids_from(arrays, "items")
        self.titles_ = text_from(arrays, "titles") if "titles.text" in arrays else None
        self.seen_ = sparse_from(arrays, "seen", (len(self.users_), len(self.items_)))
        self.calibration_ = Calibration.from_arrays(arrays)

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(data) first")

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(cls).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    def get_params(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; return the model. What was fitted stays until the next `fit`."""
        valid = self._defaults()
        for name in params:
            if name not in valid:
                known = ", ".join(valid) or "none"
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has: {known}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = {name: value for name, value in self.get_params().items() if _differs(value, defaults[name])}
        call = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        if not self.is_fitted:
            return call
        return f"{call}, fitted to {len(self.users_):,} users x {len(self.items_):,} items"

    def recommend(
        self,
        users: Any = None,
        k: int = 10,
        *,
        exclude_seen: bool = True,
        candidates: Any = None,
        exclude: Any = None,
        min_probability: Least = None,
        min_score: float | None = None,
        threads: int | None = None,
    ) -> Recommendations:
        """Return the `k` best items for each of `users`: one id, several, or None for all.

        Left out are items the user has in the training data (unless `exclude_seen` is false), items not among
        `candidates` and items in `exclude`, both given by id. Equal scores go by item row. `k` is cut to the
        number of items that are left for everyone; a user with fewer gets a list that ends in None.

        Items below `min_score` or, of a calibrated model, `min_probability` are left out too, and perhaps nothing is
        left; "cost" stands for `decision_probability`, from which on recommending pays. Costs of single users and items
        need no more: they are in the scores already.
        """
        self._check_fitted()
        cut = checked_cut(self, min_probability, min_score)
        rows = self._user_rows(users)
        allowed = self._allowed_items(candidates, exclude)
        k = min(self._checked_k(k), len(allowed))
        with nullcontext() if threads is None else use_threads(threads):
            found = self.top_rows(rows, k, seen=self.seen_ if exclude_seen else None, candidates=allowed)
        return lists(self, self.users_.ids[rows], found, cut)

    def _allowed_items(self, candidates: Any, exclude: Any) -> Rows:
        """Return the rows of the items among `candidates` (None: all) and not in `exclude`, both by id."""
        allowed = np.ones(len(self.items_), np.bool_)
        if candidates is not None:
            allowed[:] = False
            allowed[self.items_.rows(_listed(candidates), "item")] = True
        if exclude is not None:
            allowed[self.items_.rows(_listed(exclude), "item")] = False
        return np.flatnonzero(allowed)

    @staticmethod
    def _checked_k(k: int) -> int:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"k={k!r}: it must be a whole number, at least 1")
        return int(k)

    def _user_rows(self, users: Any) -> Rows:
        """Return the rows of one user id, of several, or of all users for None."""
        return np.arange(len(self.users_)) if users is None else self.users_.rows(_listed(users))

    def top_rows(self, rows: Rows, k: int, *, seen: Any = None, candidates: Rows | None = None) -> Top:
        """Return the best items for users by row number, as item rows and scores, shapes (len(rows), k).

        Cells stored in `seen`, sparse of shape (n_users, n_items), are left out; see `ranking.top_k`.
        """
        self._check_fitted()
        return top_k(self._score_rows, rows, len(self.items_), k, seen=seen, candidates=candidates)

    def score(self, users: Any, items: Any = None) -> Floats:
        """Return the scores of pairs, shape (n,), or without `items` of all items, shape (n, n_items).

        `users` and `items` are ids, equally many; one id alone goes with each of the others.
        """
        self._check_fitted()
        user_rows = self.users_.rows(_listed(users))
        if items is None:
            return self._score_rows(user_rows)
        item_rows = self.items_.rows(_listed(items), "item")
        if len(user_rows) != len(item_rows) and not (_is_one(users) or _is_one(items)):
            raise ValueError(f"pairs need as many users as items, got {len(user_rows)} and {len(item_rows)}")
        user_rows, item_rows = np.broadcast_arrays(user_rows, item_rows)
        scores = np.empty(len(user_rows), np.float32)
        for first in range(0, len(scores), PAIRS):
            part = slice(first, first + PAIRS)
            scores[part] = self._score_pairs(user_rows[part], item_rows[part])
        return scores

    # What a score means

    def calibrate(self, heldout: Any, *, observed_share: float = 1.0, users: Any = None) -> Calibration:
        """Return what turns scores into probabilities, learnt from held-out events, and keep it as `calibration_`.

        `heldout` is a log, or what becomes one. Its events of users or items that the model does not know, and those
        that are in the training data, are left out. Counted are all cells of all users of the model that are not in
        the training data, also of users without held-out events: to leave these out would overstate every probability.
        If `heldout` is about some users only, give their ids as `users`. `observed_share` is the share of all
        positives that the log shows, training and held-out events together; `Calibration` says what follows from it.
        The calibration is saved with the model; a new `fit` drops it.
        """
        self._check_fitted()
        self.calibration_ = calibration_on(heldout, self, self._user_rows(users), observed_share)
        return self.calibration_

    def reliability(self, heldout: Any, *, users: Any = None) -> Reliability:
        """Return the probabilities against other held-out events than `calibrate` had, given as there."""
        self._check_fitted()
        return reliability_on(heldout, self, self._user_rows(users))

    def probability(self, users: Any, items: Any = None) -> npt.NDArray[np.float64]:
        """Return the probability that a pair not in the training data is a positive; shapes are those of `score`."""
        self._check_fitted()
        return self._check_calibrated().probability(self.score(users, items))

    @property
    def decision_probability(self) -> float | None:
        """The probability above which recommending costs less than not, where the model has costs; else None."""
        return None

    def _check_calibrated(self) -> Calibration:
        if self.calibration_ is None:
            raise ParameterError(
                f"this {type(self).__name__} has no probabilities yet; call calibrate(heldout) with events that it was"
                " not fitted to (on the command line, csrr calibrate)"
            )
        return self.calibration_

    def _score_pairs(self, user_rows: Rows, item_rows: Rows) -> Floats:
        """Return the score of each pair of a user row and an item row, shape (n,)."""
        scores = np.empty(len(user_rows), np.float32)
        distinct, place = np.unique(user_rows, return_inverse=True)
        for first in range(0, len(distinct), USERS):
            block = self._score_rows(distinct[first : first + USERS])
            mine = (place >= first) & (place < first + USERS)
            scores[mine] = block[place[mine] - first, item_rows[mine]]
        return scores

    # New people, and why

    def fold_in(self, histories: Any) -> FoldedUsers:
        """People who were not in the training data, by their histories: their scores and recommendations.

        `histories` is a list of lists of item ids, or a log (table, matrix) whose items are the model's. What was
        learnt of the items stays as it is.
        """
        self._check_fitted()
        return self._fold(*self._read_histories(histories))

    def _fold(self, users: npt.NDArray[Any], seen: Any) -> FoldedUsers:
        """Return the people with these ids and histories, `seen`: ones (or, where `_weighs_histories`, what their log
        says of weights), sparse of shape (len(users), n_items).
        """
        raise NotImplementedError(f"a {type(self).__name__} knows only the users it was fitted to")

    @property
    def _weighs_histories(self) -> bool:
        return False

    def _read_histories(self, histories: Any) -> tuple[npt.NDArray[Any], Any]:
        if isinstance(histories, list | tuple):
            if any(_is_one(h) for h in histories):
                raise ParameterError(
                    "fold_in takes a list of histories, each a list of item ids; for one, recommend_for"
                )
            users: npt.NDArray[Any] = np.arange(len(histories))
            lengths = [len(h) for h in histories]
            if not lengths or min(lengths) == 0:
                raise ParameterError("every history needs at least one item")
            rows = np.repeat(users, lengths)
            columns = np.concatenate([self.items_.rows(list(h), "item") for h in histories])
        else:
            log = as_log(histories)
            users = log.users.ids
            rows, columns = log.user_rows, self.items_.rows(log.items.ids, "item")[log.item_rows]
            if self._weighs_histories and log.weights is not None:
                shape = len(users), len(self.items_)
                return users, sparse.csr_array((log.weights, (rows, columns)), shape=shape)
        ones = np.ones(len(rows), np.float32)
        matrix = sparse.csr_array((ones, (rows, columns)), shape=(len(users), len(self.items_)))
        matrix.sum_duplicates()
        matrix.data[:] = 1
        return users, matrix

    def recommend_for(self, history: Any, k: int = 10, **options: Any) -> Recommendations:
        """Return the `k` best items for a person who was not in the training data, by the ids (or one) they chose.

        `options` are those of `FoldedUsers.recommend`.
        """
        return self.fold_in([list(_listed(history))]).recommend(k, **options)

    def _explanation(
        self, user: Id, item: Id, history: Rows, amounts: npt.NDArray[Any], neighbors: Any = None
    ) -> Explanation:
        """Return what each item row of `history` adds to the score: `amounts`, and exactly what `neighbors` say.

        What they leave over of the score is spread over the amounts in proportion.
        """
        pair = np.array([self.users_.row(user)]), np.array([self.items_.row(item, "item")])
        score = float(self._score_pairs(*pair)[0])
        size = np.abs(amounts).sum()
        through = np.zeros(len(amounts), np.float32) if neighbors is None else neighbors
        if size > 0:
            amounts = amounts + (score - through.sum() - amounts.sum()) * np.abs(amounts) / size
        amounts = amounts + through
        order = np.argsort(-amounts, kind="stable")
        named = self._named(history[order])
        parts = None if neighbors is None else neighbors[order].astype(np.float32)
        return Explanation(*named, amounts[order].astype(np.float32), user, item, score, parts)

    def _heaviest(self, item: Id, weights: npt.NDArray[Any], k: int) -> Neighbours:
        """Return the `k` items with the largest weights, shape (n_items,), or as many as have one: zero is none."""
        weights = np.where(weights == 0, -np.inf, weights)
        rows, scores = block_top_k(weights[None], min(self._checked_k(k), len(weights)))
        found = rows[0] >= 0
        ids, titles = self._named(rows[0][found])
        return Neighbours(item, ids, scores[0][found], titles)

    def _named(self, item_rows: Rows) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        return self.items_.ids[item_rows], None if self.titles_ is None else self.titles_[item_rows]


class FactorModel(Recommender):
    """A recommender whose scores are `user_factors_ @ item_factors_.T`.

    `user_factors_` has shape (n_users, d), `item_factors_` (n_items, d), both float32.
    """

    _likeness = slice(None)
    """The columns of the factors by which users, or items, are alike."""

    user_factors_: Floats
    item_factors_: Floats

    def _score_rows(self, rows: Rows) -> Floats:
        return self.user_factors_[rows] @ self.item_factors_.T

    def _score_pairs(self, user_rows: Rows, item_rows: Rows) -> Floats:
        scores: Floats = np.einsum("nd,nd->n", self.user_factors_[user_rows], self.item_factors_[item_rows])
        return scores

    def _folded(self, users: npt.NDArray[Any], seen: Any, user_factors: Floats, specific: Any = None) -> FoldedFactors:
        """Return new people by their factors, shape (len(users), d)."""
        items = self.item_factors_
        return FoldedFactors(users, seen, self, lambda rows: user_factors[rows] @ items.T, user_factors, specific)

    def similar_items(self, item: Id, k: int = 10) -> Neighbours:
        """Return the `k` other items whose factors have the largest cosine with those of `item`."""
        self._check_fitted()
        rows, scores = _nearest(self.item_factors_[:, self._likeness], self.items_.row(item, "item"), k)
        ids, titles = self._named(rows)
        return Neighbours(item, ids, scores, titles)

    def similar_users(self, user: Id, k: int = 10) -> Neighbours:
        """Return the `k` other users whose factors have the largest cosine with those of `user`."""
        self._check_fitted()
        rows, scores = _nearest(self.user_factors_[:, self._likeness], self.users_.row(user), k)
        return Neighbours(user, self.users_.ids[rows], scores)


def _nearest(factors: Floats, row: int, k: int) -> Top:
    """Return the rows and cosines, shape (k,), of the nearest others; the cosine with a zero row is 0."""
    norms = np.linalg.norm(factors, axis=1) * np.linalg.norm(factors[row])
    cosines = np.divide(factors @ factors[row], norms, out=np.zeros(len(factors), np.float32), where=norms > 0)
    cosines[row] = -np.inf
    rows, scores = block_top_k(cosines[None], min(Recommender._checked_k(k), len(factors) - 1))
    return rows[0], scores[0]


def _is_one(ids: Any) -> bool:
    return isinstance(ids, str | int | float | np.generic)


def _listed(ids: Any) -> Any:
    return [ids] if _is_one(ids) else ids


def _differs(value: Any, default: Any) -> bool:
    return value is not default and not np.array_equal(value, default)
