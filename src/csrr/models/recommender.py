"""The contract of a model, and what every model can do once it can score."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Float32Array, Rows
from csrr.data import IdMap, Log, as_log
from csrr.data.ids import Id
from csrr.models.folded_users import (
    FoldedUsers,
    Least,
    allow_items,
    check_cut,
    check_k,
    is_one_id,
    list_ids,
    name_lists,
    read_histories,
)
from csrr.models.heldout import calibration_on, reliability_on
from csrr.models.store import Arrays, State, plain_state, restore_plain, write_model
from csrr.noise.noise_scores import LeftOut
from csrr.noise.suspects import Suspects, find_suspects
from csrr.optim.pattern import Pattern
from csrr.parameters import ParameterError, Renamed, check_params, defaults_of, parameters_of, use_new_names
from csrr.ranking import Neighbours, Recommendations, block_top_k, top_k
from csrr.ranking.calibration import Calibration
from csrr.ranking.explanations import Explanation, spread_amounts
from csrr.ranking.reliability import Reliability
from csrr.ranking.topk import Top
from csrr.threads import use_threads

PAIRS, USERS = 2**15, 2**8
"""Number of pairs scored at a time, and of the users whose scores of all items these are taken from."""


class NotFittedError(RuntimeError):
    """A question to a model that has not been fitted."""


class Recommender(ABC):
    """The contract of a model: what a subclass gives, and what it gets for it.

    It gives `fit`, which reads data (`read`), keeps what recommending needs of them (`remember`) and sets fitted
    attributes, whose names end in an underscore; and one of

    - `score_histories(seen, rows)`, the scores of people by their histories; or
    - `user_factors_` and `item_factors_`, arrays whose products are the scores, with `has_factors = True`; or
    - `score_rows(rows)`, the scores of users by row number.

    It gets everything else: `recommend`, `score`, `calibrate`, `save` (fitted attributes that are arrays, sparse
    arrays or plain values; `state` and `restore` for others), and it works in `csrr.evaluate`, `csrr.compare` and
    `csrr.tune`. `score_histories` or `fold_users` gives `fold_in` and `recommend_for`; `score_own` gives `suspects`.
    `csrr.register` makes it known to `csrr.load` by its name.

    Its `__init__` takes keyword arguments with defaults and only stores them, under their own names; or it declares
    parameters (`csrr.parameters`), and gets their checks too.

    Attributes
    ----------
    users_, items_
        The ids of the training data, in the order of their rows.
    titles_
        The titles of the items, or None.
    seen_
        The training events: ones, sparse of shape (n_users, n_items).
    calibration_
        What turns scores into probabilities, after `calibrate`; or None.
    """

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
    _likeness: ClassVar[slice] = slice(None)
    """The columns of the factors by which users, or items, are alike."""

    @abstractmethod
    def fit(self, data: Any) -> Self:
        """Fit to a log, a table with user and item columns, or a users x items matrix; return the model."""

    # What a fit begins and ends with

    @staticmethod
    def read(data: Any) -> Log:
        """Return training data as a log with at least one event."""
        log = as_log(data)
        if len(log) == 0:
            raise ParameterError("the log has no events; there is nothing to fit")
        return log

    def remember(self, log: Log) -> None:
        """Keep what recommending needs of the training log."""
        self.users_, self.items_, self.titles_ = log.users, log.items, log.titles
        self.seen_ = log.to_csr()
        self.calibration_ = None

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "seen_")

    def check_fitted(self) -> None:
        """Raise NotFittedError unless `fit` has been called."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(data) first")

    # Parameters

    def check_params(self) -> None:
        """Raise ParameterError for parameters that make no sense: by their declarations, as far as there are any."""
        check_params(self.get_params(), parameters_of(type(self)).values())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name. `deep` is there for scikit-learn: no parameter is a model itself."""
        return {name: getattr(self, name) for name in defaults_of(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name; return the model. What was fitted stays until the next `fit`."""
        valid = defaults_of(type(self))
        params = use_new_names(type(self), params)
        for name in params:
            if name not in valid:
                known = ", ".join(valid) or "none"
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has: {known}")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def start_value(self, name: str, log: Log) -> float:
        """Return the number around which a parameter that is "auto" is searched, for a log."""
        raise ParameterError(f"{type(self).__name__} has no {name} that can be tuned around auto; give a Range")

    def __repr__(self) -> str:
        defaults = defaults_of(type(self))
        given = {name: value for name, value in self.get_params().items() if _differs(value, defaults[name])}
        call = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        if not self.is_fitted:
            return call
        return f"{call}, fitted to {len(self.users_):,} users x {len(self.items_):,} items"

    # Scores

    def score_rows(self, rows: Rows) -> Float32Array:
        """Return a new float32 array of scores, shape (len(rows), n_items), for the users with these rows."""
        if self.has_factors:
            return self.user_factors_[rows] @ self.item_factors_.T
        return self.score_histories(self.seen_, rows)

    def score_histories(self, seen: Any, rows: Rows) -> Float32Array:
        """Return the scores, shape (len(rows), n_items), of people by their histories: those rows of `seen`, csr."""
        raise NotImplementedError(f"a {type(self).__name__} knows only the users it was fitted to")

    def score_pairs(self, user_rows: Rows, item_rows: Rows) -> Float32Array:
        """Return the score of each pair of a user row and an item row, shape (n,)."""
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
        """Return the best items for users by row number, as item rows and scores, shapes (len(rows), k).

        Cells stored in `seen`, sparse of shape (n_users, n_items), are left out; see `ranking.top_k`.
        """
        self.check_fitted()
        return top_k(self.score_rows, rows, len(self.items_), k, seen=seen, candidates=candidates)

    def score(self, users: Any, items: Any = None) -> Float32Array:
        """Return the scores of pairs, shape (n,), or without `items` of all items, shape (n, n_items).

        `users` and `items` are ids, equally many; one id alone goes with each of the others.
        """
        self.check_fitted()
        user_rows = self.users_.rows(list_ids(users))
        if items is None:
            return self.score_rows(user_rows)
        item_rows = self.items_.rows(list_ids(items), "item")
        if len(user_rows) != len(item_rows) and not (is_one_id(users) or is_one_id(items)):
            raise ValueError(f"pairs need as many users as items, got {len(user_rows)} and {len(item_rows)}")
        user_rows, item_rows = np.broadcast_arrays(user_rows, item_rows)
        scores = np.empty(len(user_rows), np.float32)
        for first in range(0, len(scores), PAIRS):
            part = slice(first, first + PAIRS)
            scores[part] = self.score_pairs(user_rows[part], item_rows[part])
        return scores

    # Recommendations

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
        self.check_fitted()
        cut = check_cut(self, min_probability, min_score)
        rows = self.user_rows(users)
        allowed = allow_items(self.items_, candidates, exclude)
        k = min(check_k(k), len(allowed))
        with nullcontext() if threads is None else use_threads(threads):
            found = self.top_rows(rows, k, seen=self.seen_ if exclude_seen else None, candidates=allowed)
        return name_lists(self, self.users_.ids[rows], found, cut)

    def user_rows(self, users: Any) -> Rows:
        """Return the rows of one user id, of several, or of all users for None."""
        return np.arange(len(self.users_)) if users is None else self.users_.rows(list_ids(users))

    def name_items(self, item_rows: Rows) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Return the ids and, where known, the titles of items by row number."""
        return self.items_.ids[item_rows], None if self.titles_ is None else self.titles_[item_rows]

    # New people

    def fold_in(self, histories: Any) -> FoldedUsers:
        """People who were not in the training data, by their histories: their scores and recommendations.

        `histories` is a list of lists of item ids, or a log (table, matrix) whose items are the model's. What was
        learnt of the items stays as it is.
        """
        self.check_fitted()
        return self.fold_users(*read_histories(histories, self.items_, self.history_weight))

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedUsers:
        """Return people by their ids and histories, `seen`: ones or weights, csr of shape (len(users), n_items)."""
        return FoldedUsers(users, seen, self, partial(self.score_histories, seen))

    @property
    def history_weight(self) -> float | None:
        """What a click of a new history weighs where its log does not say; None where weights do not count."""
        return None

    def recommend_for(self, history: Any, k: int = 10, **options: Any) -> Recommendations:
        """Return the `k` best items for a person who was not in the training data, by the ids (or one) they chose.

        `options` are those of `FoldedUsers.recommend`.
        """
        return self.fold_in([list(list_ids(history))]).recommend(k, **options)

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
        self.check_fitted()
        self.calibration_ = calibration_on(heldout, self, self.user_rows(users), observed_share)
        return self.calibration_

    def reliability(self, heldout: Any, *, users: Any = None) -> Reliability:
        """Return the probabilities against other held-out events than `calibrate` had, given as there."""
        self.check_fitted()
        return reliability_on(heldout, self, self.user_rows(users))

    def probability(self, users: Any, items: Any = None) -> npt.NDArray[np.float64]:
        """Return the probability that a pair not in the training data is a positive; shapes are those of `score`."""
        self.check_fitted()
        return self.check_calibrated().probability(self.score(users, items))

    @property
    def decision_probability(self) -> float | None:
        """The probability above which recommending costs less than not, where the model has costs; else None."""
        return None

    def check_calibrated(self) -> Calibration:
        """Return the calibration; ParameterError where there is none."""
        if self.calibration_ is None:
            raise ParameterError(
                f"this {type(self).__name__} has no probabilities yet; call calibrate(heldout) with events that it was"
                " not fitted to (on the command line, csrr calibrate)"
            )
        return self.calibration_

    # What is alike

    def similar_items(self, item: Id, k: int = 10) -> Neighbours:
        """Return the `k` other items whose factors have the largest cosine with those of `item`."""
        self._check_factors()
        rows, scores = _nearest(self.item_factors_[:, self._likeness], self.items_.row(item, "item"), k)
        ids, titles = self.name_items(rows)
        return Neighbours(item, ids, scores, titles)

    def similar_users(self, user: Id, k: int = 10) -> Neighbours:
        """Return the `k` other users whose factors have the largest cosine with those of `user`."""
        self._check_factors()
        rows, scores = _nearest(self.user_factors_[:, self._likeness], self.users_.row(user), k)
        return Neighbours(user, self.users_.ids[rows], scores)

    @classmethod
    def can(cls, ability: str) -> bool:
        """Return whether models of this kind have an ability that not all have: "explain", "similar_items", ..."""
        method = getattr(cls, ability, None)
        needs_factors = ability.startswith("similar") and method is getattr(Recommender, ability, None)
        return method is not None and (cls.has_factors or not needs_factors)

    def _check_factors(self) -> None:
        self.check_fitted()
        if not self.has_factors:
            raise NotImplementedError(f"a {type(self).__name__} has no factors to tell by what is alike")

    # Noisy clicks

    def suspects(self, *, popularity: float = 0.0) -> Suspects:
        """Return how probable it is that each click of the training data is noise, and which users and items have most.

        Noise is taken to fall on an item in proportion to (its clicks + 1)^popularity: 0 finds clicks at random, 0.5
        finds more of those on popular items and of accounts that push one, and takes more of the good ones for noise.
        """
        self.check_fitted()
        return find_suspects(self, popularity=popularity)

    def score_own(self) -> Float32Array:
        """Return what each training event would score without itself, shape (n_events,), in the order of `seen_`."""
        raise NotImplementedError(f"a {type(self).__name__} does not tell what a click would score without itself")

    def as_judge(self) -> Any:
        """Return the model that tells which clicks are noise: this one, or one like it that is fit to judge."""
        return self

    def leave_out(self) -> LeftOut:
        """Return the values of all cells by which noise is told, those of clicks without their own influence."""
        return LeftOut(Pattern.of(self.seen_), self.score_own(), lambda rows, items: self.score_rows(rows)[:, items])

    def explained_shares(self) -> Float32Array:
        """Return the share of each training event, shape (n_events,), that its score explains."""
        rows = np.repeat(np.arange(len(self.users_)), np.diff(self.seen_.indptr))
        return self.score_pairs(rows, self.seen_.indices)

    def training_log(self) -> Log:
        """Return the events that the model was fitted to, in their order, without weights or times."""
        rows = np.repeat(np.arange(len(self.users_), dtype=np.int32), np.diff(self.seen_.indptr))
        return Log(self.users_, self.items_, rows, self.seen_.indices, titles=self.titles_)

    # Saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, at once or not at all; `csrr.load` reads it."""
        self.check_fitted()
        write_model(path, self)

    def state(self) -> State:
        """Return what was fitted beyond the training log, as arrays and as plain facts, for saving."""
        return plain_state(self)

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        """Set what `state` returned."""
        restore_plain(self, arrays, facts)


def explain_score(
    model: Recommender, user: Id, item: Id, history: Rows, amounts: npt.NDArray[Any], neighbors: Any = None
) -> Explanation:
    """Return what each item row of `history` adds to the score of an item: `amounts`, and exactly what `neighbors` say.

    What they leave over of the score is spread over the amounts in proportion.
    """
    pair = np.array([model.users_.row(user)]), np.array([model.items_.row(item, "item")])
    score = float(model.score_pairs(*pair)[0])
    amounts = spread_amounts(amounts, score, neighbors)
    order = np.argsort(-amounts, kind="stable")
    named = model.name_items(history[order])
    parts = None if neighbors is None else neighbors[order].astype(np.float32)
    return Explanation(*named, amounts[order].astype(np.float32), user, item, score, parts)


def rank_neighbors(model: Recommender, item: Id, weights: npt.NDArray[Any], k: int) -> Neighbours:
    """Return the `k` items with the largest weights, shape (n_items,), or as many as have one: zero is none."""
    weights = np.where(weights == 0, -np.inf, weights)
    rows, scores = block_top_k(weights[None], min(check_k(k), len(weights)))
    found = rows[0] >= 0
    ids, titles = model.name_items(rows[0][found])
    return Neighbours(item, ids, scores[0][found], titles)


def _nearest(factors: Float32Array, row: int, k: int) -> Top:
    """Return the rows and cosines, shape (k,), of the nearest others; the cosine with a zero row is 0."""
    norms = np.linalg.norm(factors, axis=1) * np.linalg.norm(factors[row])
    cosines = np.divide(factors @ factors[row], norms, out=np.zeros(len(factors), np.float32), where=norms > 0)
    cosines[row] = -np.inf
    rows, scores = block_top_k(cosines[None], min(check_k(k), len(factors) - 1))
    return rows[0], scores[0]


def _differs(value: Any, default: Any) -> bool:
    return value is not default and not np.array_equal(value, default)
