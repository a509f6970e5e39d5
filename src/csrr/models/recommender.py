"""The contract of a model, and what every model can do once it can score."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Float32Array, Float64Array, Rows
from csrr.data import IdMap, Log, as_log
from csrr.data.ids import Id
from csrr.models.asked_ids import IdReader, Unknown, is_one_id, list_ids, read_asked
from csrr.models.best_lists import Least, Wishes, find_known, make_lists, score_known
from csrr.models.folded_users import FoldedUsers
from csrr.models.heldout import calibrate_on, measure_reliability_on
from csrr.models.histories import read_histories
from csrr.models.item_choices import People
from csrr.models.kept import Arrays, Kept
from csrr.models.most_alike import find_most_alike
from csrr.models.store import State, plain_state, restore_plain, write_model
from csrr.noise.noise_scores import LeftOut
from csrr.noise.suspects import Suspects, find_suspects
from csrr.optim.pattern import Pattern
from csrr.parameters import ParameterError, Renamed, check_params, list_defaults, list_parameters, use_new_names
from csrr.ranking import Neighbors, Recommendations, top_k
from csrr.ranking.calibration import Calibration
from csrr.ranking.item_order import ItemOrder, count_recent
from csrr.ranking.reliability import Reliability
from csrr.ranking.restrictions import take_rows
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

    Lists are by score, equal scores by popularity (`popularity`), then by item row. People of whom the training data
    hold no event get what is popular, unless `knows_everyone = True` says that scores mean something for them too.

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
    user_factors_, item_factors_
        Of models that have factors: arrays of shapes (n_users, d) and (n_items, d) whose products are the scores.

    Examples
    --------
    >>> class Random(csrr.Recommender):
    ...     def __init__(self, seed=0):
    ...         self.seed = seed
    ...
    ...     def fit(self, data):
    ...         self.remember(self.read(data))
    ...         return self
    ...
    ...     def score_rows(self, rows):
    ...         return np.random.default_rng(self.seed).random((len(rows), len(self.items_)), np.float32)
    >>> Random().fit(csrr.synthetic(60, 40, events_per_user=10).log).recommend([3, 5], k=4).items.shape
    (2, 4)
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
    knows_everyone: ClassVar[bool] = False
    """Whether scores mean something for users without training events too; else they get what is popular."""
    walked: ClassVar[tuple[str, ...]] = ()
    """Parameters along which one fit can begin where another ended: `fit(data, start=)`."""
    renamed: ClassVar[dict[str, Renamed]] = {}
    """Parameters by a name that they had before."""
    kept: ClassVar[Kept | None] = None
    """What `state` returns, declared: files are checked by it. None for a model that says no more than `state` does."""
    _likeness: ClassVar[slice] = slice(None)
    """The columns of the factors by which users, or items, are alike."""
    _recent: Float64Array | None = None
    """The training events of each item, recent ones counting more; None of a log without times."""
    _order: ItemOrder | None = None

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
        self.remember_recent(None if log.times is None else count_recent(log.item_rows, log.times, log.n_items))

    def remember_recent(self, counts: Float64Array | None) -> None:
        """Keep how popular items were of late.

        Parameters
        ----------
        counts
            The training events of each item, recent ones counting more, shape (n_items,); None where times are unknown.
        """
        self._recent, self._order = counts, None

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
    def popularity(self) -> Float64Array:
        """How popular each item is in the training data, shape (n_items,): its events, recent ones counting more.

        An event that is a tenth of the log's time span older than another counts half of it. Of a log without times,
        and of a model saved before these were kept, all events count alike.
        """
        self.check_fitted()
        if self._recent is not None:
            return self._recent.copy()
        return np.bincount(self.seen_.indices, minlength=len(self.items_)).astype(np.float64)

    @property
    def recent_popularity(self) -> Float64Array | None:
        """The same where the training log had times; else None."""
        return None if self._recent is None else self._recent.copy()

    @property
    def item_order(self) -> ItemOrder:
        """The order of items among equal scores: the popular first, then by number of events, then by row."""
        if self._order is None:
            counts = np.bincount(self.seen_.indices, minlength=len(self.items_))
            self._order = ItemOrder.by_popularity(self.popularity, counts)
        return self._order

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

    def score_lists(self, rows: Rows) -> Float32Array:
        """Return the scores that lists are made of: those of `score_rows`, but 0 for users without a history.

        Parameters
        ----------
        rows
            The rows of the users.

        Returns
        -------
        scores
            A new float32 array of shape (len(rows), n_items).
        """
        rows = np.asarray(rows)
        activity = self.seen_.indptr[rows + 1] - self.seen_.indptr[rows]
        return score_known(self.score_rows, rows, find_known(self, activity, rows), len(self.items_))

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
        order = self.item_order
        return top_k(self.score_lists, rows, len(self.items_), k, seen=seen, candidates=candidates, order=order)

    def score(self, users: Any, items: Any = None) -> Float32Array:
        """Return the scores of pairs of a user and an item, or of users and all items.

        Parameters
        ----------
        users, items
            Ids, equally many; one id alone goes with each of the others.

        Returns
        -------
        scores
            Shape (n,); without `items`, (n, n_items).

        Raises
        ------
        ValueError
            Where there are not as many users as items.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.score(3).shape, model.score(3, [5, 6]).shape
        ((1, 40), (2,))
        """
        self.check_fitted()
        user_rows = self.users_.rows(list_ids(users))
        if items is None:
            return self.score_rows(user_rows)
        item_rows = self.items_.rows(list_ids(items), "item")
        if len(user_rows) != len(item_rows) and not (is_one_id(users) or is_one_id(items)):
            raise ValueError(f"pairs need as many users as items, got {len(user_rows)} and {len(item_rows)}")
        user_rows, item_rows = (np.array(rows) for rows in np.broadcast_arrays(user_rows, item_rows))
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
        exclude_seen: Any = True,
        candidates: Any = None,
        exclude: Any = None,
        min_probability: Least = None,
        min_score: float | None = None,
        unknown: Unknown = "raise",
        threads: int | None = None,
    ) -> Recommendations:
        """Return the best items for users, best first.

        Equal scores go by popularity, then by item row. Users without training events get what is popular, with score
        0; `fallback` of the result says who, and a `NoHistoryWarning` how many. Costs of single users and items need no
        more: they are in the scores already.

        Items per user, for `candidates`, `exclude` and `exclude_seen`, are a dict from users to items, a table (pandas,
        polars, pyarrow, `Log`) with user and item columns, or a sparse matrix with a row for each user asked for, or
        for each of the model's. Whoever they do not name has no items there.

        Parameters
        ----------
        users
            One id, several, or None for all.
        k
            The number of items for each. It is cut to the number of items that are left for everyone; a user with fewer
            gets a list that ends in None.
        exclude_seen
            Whether items that the user has in the training data are left out; or, in their place, items per user.
        candidates
            The ids of the items to choose among; None for all; or items per user.
        exclude
            The ids of items to leave out for everyone; or items per user.
        min_probability
            Of a calibrated model: of the k best by score, those below this probability are left out, and perhaps
            nothing is left. "cost" stands for `decision_probability`, from which on recommending pays.
        min_score
            Items below this score are left out.
        unknown
            What becomes of ids that the model does not know: "raise", an error; "ignore", items are left out, which an
            `UnknownIdWarning` counts, and users get what is popular.
        threads
            The number of threads; 0 for all cores, None for what is in force.

        Returns
        -------
        recommendations
            Items, scores and, of a calibrated model, probabilities of each user.

        Raises
        ------
        ParameterError
            For a `min_probability` without a calibration, or without costs, and for items per user that make no sense.
        UnknownIdError
            For an id that the model does not know.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.recommend([3, 5], k=4, exclude=[7]).items.shape
        (2, 4)
        >>> model.recommend([3, 5], k=2, candidates={3: [1], 5: [2, 9]}, exclude_seen=False).items[0].tolist()
        [1, None]
        """
        self.check_fitted()
        reader = IdReader(unknown)
        people = self._find_people(users, reader)
        wishes = Wishes(k, exclude_seen, candidates, exclude, min_probability, min_score)
        with nullcontext() if threads is None else use_threads(threads):
            return make_lists(self, people, self.score_rows, wishes, reader)

    def _find_people(self, users: Any, reader: IdReader) -> People:
        """Return those who are asked for: one id, several, or None for all."""
        asked = self.users_.ids if users is None else read_asked(list_ids(users), reader)
        rows = np.arange(len(self.users_)) if users is None else reader.find(self.users_, asked)
        return People(asked, rows, self.users_, take_rows(self.seen_, rows))

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

    # New people

    def fold_in(self, histories: Any, *, unknown: Unknown = "raise") -> FoldedUsers:
        """Return people who were not in the training data, by their histories: their scores and recommendations.

        What was learnt of the items stays as it is. Of somebody whose history is empty, or of unknown items alone,
        nothing is known: they get what is popular.

        Parameters
        ----------
        histories
            A list of histories, each a list of item ids or a dict from item ids to weights; or a log (table, matrix)
            whose items are the model's. Weights are those of a fit: a model that was fitted without any refuses a dict
            with others than 1, and does without those of a log, as its fit does.
        unknown
            What becomes of items that the model does not know: "raise", an error; "ignore", they are left out, which an
            `UnknownIdWarning` counts.

        Returns
        -------
        people
            They have `score` and `recommend`, as the model has.

        Raises
        ------
        ParameterError
            For what is no list of histories, and for weights that the model does not use.
        UnknownIdError
            For an item that the model does not know.

        Examples
        --------
        >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> people = model.fold_in([[1, 5, 9], [2, 4]])
        >>> len(people), people.recommend(k=3).items.shape
        (2, (2, 3))
        """
        self.check_fitted()
        reader = IdReader(unknown)
        users, seen = read_histories(self, histories, reader)
        reader.warn()
        return self.fold_users(users, seen)

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedUsers:
        """Return people who were not in the training data, by ids and histories.

        Parameters
        ----------
        users
            Their ids, shape (n,).
        seen
            Their histories: ones or weights, csr of shape (n, n_items).

        Returns
        -------
        people
            Their scores and recommendations.
        """
        return FoldedUsers(users, seen, self, partial(self.score_histories, seen))

    @property
    def history_weight(self) -> float | None:
        """What a click of a new history weighs where its log does not say; None where weights do not count."""
        return None

    def recommend_for(
        self, history: Any, k: int = 10, *, unknown: Unknown = "raise", **options: Any
    ) -> Recommendations:
        """Return the best items for a person who was not in the training data.

        Parameters
        ----------
        history
            The ids of the items that they chose, or one; or a dict from item ids to weights, as for `fold_in`. For an
            empty one, what is popular.
        k
            The number of items.
        unknown
            As for `recommend`, of the history too.
        **options
            Those of `recommend`, but for `threads`. Items per user are for user 0.

        Returns
        -------
        recommendations
            One list.

        Examples
        --------
        >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.recommend_for([1, 5, 9], k=3).items.shape
        (1, 3)
        """
        one = history if isinstance(history, Mapping) else list(list_ids(history))
        return self.fold_in([one], unknown=unknown).recommend(k, unknown=unknown, **options)

    # What a score means

    def calibrate(
        self, heldout: Any, *, observed_share: float = 1.0, users: Any = None, n_groups: int = 1
    ) -> Calibration:
        """Return what turns scores into probabilities, learnt from held-out events, and keep it as `calibration_`.

        Counted are all cells of all users of the model that are not in the training data, also of users without
        held-out events: to leave these out would overstate every probability. The calibration is saved with the model;
        a new `fit` drops it.

        Parameters
        ----------
        heldout
            A log, or what becomes one. Its events of users or items that the model does not know, and those that are in
            the training data, are left out.
        observed_share
            The share of all positives that the log shows, training and held-out events together; `Calibration` says
            what follows from it.
        users
            The ids of those that `heldout` is about, if it is about some users only.
        n_groups
            The number of groups of items by their training events, and of users by theirs, from 1 to 20. Each pair of
            groups has a curve of its own, drawn to the common one where it has few positives: one curve for all says
            too much of some groups and too little of others. With 1 there is one curve, and probabilities are in the
            order of scores.

        Returns
        -------
        calibration
            The calibration.

        Examples
        --------
        >>> train, heldout = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model = csrr.EASE(reg=10).fit(train)
        >>> calibration = model.calibrate(heldout)
        >>> bool(0 < model.probability(3, 5)[0] < 1)
        True
        """
        self.check_fitted()
        self.calibration_ = calibrate_on(heldout, self, self.user_rows(users), observed_share, n_groups)
        return self.calibration_

    def reliability(self, heldout: Any, *, users: Any = None, observed_share: float | None = None) -> Reliability:
        """Return the probabilities against other held-out events than `calibrate` had.

        Parameters
        ----------
        heldout, users
            As for `calibrate`.
        observed_share
            The share of all positives that the training events and these held-out ones show; None for that of the
            calibration.

        Returns
        -------
        reliability
            What was said and what happened; `by_popularity` and `by_activity` are the same for items and users of few
            and of many training events.
        """
        self.check_fitted()
        return measure_reliability_on(heldout, self, self.user_rows(users), observed_share)

    def probability(self, users: Any, items: Any = None) -> npt.NDArray[np.float64]:
        """Return the probability that a pair not in the training data is a positive.

        Parameters
        ----------
        users, items
            As for `score`.

        Returns
        -------
        probabilities
            Of the shape that `score` has.

        Raises
        ------
        ParameterError
            Before `calibrate`.
        """
        self.check_fitted()
        calibration, scores = self.check_calibrated(), self.score(users, items)
        activity = np.diff(self.seen_.indptr)[self.users_.rows(list_ids(users))]
        if items is None:
            return calibration.probability(scores, activity[:, None], np.arange(len(self.items_)))
        return calibration.probability(scores, activity, self.items_.rows(list_ids(items), "item"))

    @property
    def decision_probability(self) -> float | None:
        """The probability above which recommending costs less than not, where the model has costs; else None."""
        return None

    def check_calibrated(self) -> Calibration:
        """Return the calibration.

        Returns
        -------
        calibration
            What `calibrate` kept.

        Raises
        ------
        ParameterError
            Where there is none.
        """
        if self.calibration_ is None:
            raise ParameterError(
                f"this {type(self).__name__} has no probabilities yet; call calibrate(heldout) with events that it was"
                " not fitted to (on the command line, csrr calibrate)"
            )
        return self.calibration_

    # What is alike

    def similar_items(self, item: Id, k: int = 10, *, unknown: Unknown = "raise") -> Neighbors:
        """Return the other items whose factors have the largest cosine with those of an item.

        Parameters
        ----------
        item
            Its id.
        k
            The number of others.
        unknown
            For an item that the model does not know: "raise", an error; "ignore", nothing, and an `UnknownIdWarning`.

        Returns
        -------
        neighbours
            The others, most alike first.

        Raises
        ------
        NotImplementedError
            Where the model cannot tell.
        """
        self._check_factors()
        row = self.find_item(item, unknown)
        if row is None:
            return self.name_neighbors(item, np.empty(0, np.int64), np.empty(0, np.float32))
        factors = self.item_factors_[:, self._likeness]
        return self.name_neighbors(item, *find_most_alike(factors, row, k, self.item_order))

    def find_item(self, item: Id, unknown: Unknown) -> int | None:
        """Return the row of an item.

        Parameters
        ----------
        item
            Its id.
        unknown
            For one that the model does not know: "raise" or "ignore".

        Returns
        -------
        row
            Its row, or None where it is unknown and to be ignored, of which a warning tells.
        """
        return _find_one(self.items_, item, "item", unknown)

    def name_neighbors(self, item: Id, rows: Rows, scores: Float32Array) -> Neighbors:
        """Return items by their rows as what is nearest to an item.

        Parameters
        ----------
        item
            Its id.
        rows, scores
            The rows of the others, most alike first, and how near they are; shapes (n,).

        Returns
        -------
        neighbours
            In the caller's ids.
        """
        ids, titles = self.name_items(rows)
        return Neighbors(item, ids, scores, titles)

    def similar_users(self, user: Id, k: int = 10, *, unknown: Unknown = "raise") -> Neighbors:
        """Return the other users whose factors have the largest cosine with those of a user.

        Parameters
        ----------
        user
            Their id.
        k
            The number of others.
        unknown
            For a user whom the model does not know: "raise", an error; "ignore", nobody, and an `UnknownIdWarning`.

        Returns
        -------
        neighbours
            The others, most alike first.

        Raises
        ------
        NotImplementedError
            Where the model has no factors.
        """
        self._check_factors()
        row = _find_one(self.users_, user, "user", unknown)
        if row is None:
            return Neighbors(user, self.users_.ids[:0], np.empty(0, np.float32))
        rows, scores = find_most_alike(self.user_factors_[:, self._likeness], row, k)
        return Neighbors(user, self.users_.ids[rows], scores)

    @classmethod
    def can(cls, ability: str) -> bool:
        """Return whether models of this kind have an ability that not all have.

        Parameters
        ----------
        ability
            The name of a method, such as "explain" or "similar_items".

        Returns
        -------
        can
            Whether they have it.
        """
        method = getattr(cls, ability, None)
        if method is None or method is not getattr(Recommender, ability, None):
            return method is not None
        # The contract's own methods ask for something that not all models give.
        if ability.startswith("similar"):
            return cls.has_factors
        if ability == "suspects":
            return cls.score_own is not Recommender.score_own or cls.leave_out is not Recommender.leave_out
        return True

    def _check_factors(self) -> None:
        self.check_fitted()
        if not self.has_factors:
            raise NotImplementedError(f"a {type(self).__name__} has no factors to tell by what is alike")

    # Noisy clicks

    def suspects(self, *, popularity: float = 0.0) -> Suspects:
        """Return how probable it is that each click of the training data is noise, and which users and items have most.

        Parameters
        ----------
        popularity
            Noise is taken to fall on an item in proportion to (its clicks + 1)^popularity: 0 finds clicks at random,
            0.5 finds more of those on popular items and of accounts that push one, and takes more of the good ones for
            noise.

        Returns
        -------
        suspects
            A probability for each event.

        Raises
        ------
        NotImplementedError
            Where the model does not tell what a click would score without itself.
        """
        self.check_fitted()
        return find_suspects(self, popularity=popularity)

    def score_own(self) -> Float32Array:
        """Return what each training event would score without itself.

        Returns
        -------
        scores
            Shape (n_events,), in the order of `seen_`.
        """
        raise NotImplementedError(f"a {type(self).__name__} does not tell what a click would score without itself")

    def as_judge(self) -> Any:
        """Return the model that tells which clicks are noise.

        Returns
        -------
        judge
            This one, or one like it that is fit to judge.
        """
        return self

    def leave_out(self) -> LeftOut:
        """Return the values of all cells by which noise is told.

        Returns
        -------
        values
            Those of clicks are without their own influence.
        """
        return LeftOut(Pattern.of(self.seen_), self.score_own(), lambda rows, items: self.score_rows(rows)[:, items])

    def explained_shares(self) -> Float32Array:
        """Return the share of each training event that its score explains.

        Returns
        -------
        shares
            Shape (n_events,).
        """
        rows = np.repeat(np.arange(len(self.users_)), np.diff(self.seen_.indptr))
        return self.score_pairs(rows, self.seen_.indices)

    # Saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, at once or not at all; `csrr.load` reads it.

        Parameters
        ----------
        path
            The file; one that is there is replaced.

        Examples
        --------
        >>> csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log).save("popular.csrr")
        >>> csrr.load("popular.csrr")
        PopRank(), fitted to 60 users x 40 items
        """
        self.check_fitted()
        write_model(path, self)

    def state(self) -> State:
        """Return what was fitted beyond the training log, for saving.

        Returns
        -------
        arrays
            Arrays by name.
        facts
            Plain values by name.
        """
        return plain_state(self)

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        """Set what `state` returned.

        Parameters
        ----------
        arrays, facts
            As `state` returned them.
        """
        restore_plain(self, arrays, facts)


def _find_one(known: IdMap, one: Id, kind: Literal["user", "item"], unknown: Unknown) -> int | None:
    """Return the row of one id; None, and a warning, where it is unknown and to be ignored."""
    reader = IdReader(unknown)
    rows = reader.find_known(known, [one], kind, f"the {kind} asked for")
    reader.warn()
    return int(rows[0]) if len(rows) else None


def _differs(value: Any, default: Any) -> bool:
    return value is not default and not np.array_equal(value, default)
