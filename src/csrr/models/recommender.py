"""The contract of a model, and what every model can do once it can score."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self, Unpack, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Float32Array, Float64Array, Rows
from csrr.data import IdMap, ItemTable, Log, as_log, read_items
from csrr.data.ids import Id
from csrr.data.times import Times
from csrr.models.asked_ids import IdReader, Unknown, is_one_id, list_ids, read_asked
from csrr.models.best_lists import Least, Wishes, find_known, make_lists, score_known
from csrr.models.folded_items import FoldedItems, read_new_items
from csrr.models.folded_users import FoldedUsers
from csrr.models.heldout import calibrate_on, holds_events, measure_heldout, measure_reliability_on
from csrr.models.histories import read_histories
from csrr.models.item_choices import People
from csrr.models.join_events import join_events
from csrr.models.kept import Arrays, Kept
from csrr.models.most_alike import find_most_alike
from csrr.models.read_rules import RuleOptions
from csrr.models.show_model import differs, show_model
from csrr.models.store import State, plain_state, restore_plain, write_model
from csrr.models.write_lists import WrittenLists, recommend_in_batches, write_lists
from csrr.noise.noise_scores import LeftOut
from csrr.noise.suspects import Suspects, find_suspects
from csrr.optim.pattern import Pattern
from csrr.parameters import ParameterError, Renamed, check_params, list_defaults, list_parameters, use_new_names
from csrr.ranking import Neighbors, Recommendations, top_k
from csrr.ranking.calibration import Calibration
from csrr.ranking.item_order import ItemOrder, count_recent, measure_ages
from csrr.ranking.item_vectors import normalise_rows, sketch_rows
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
    `csrr.tune`. `score_histories` or `fold_users` gives `fold_in` and `recommend_for`, `fold_items` gives
    `fold_in_items`, `score_own` gives `suspects`. `update` fits it to all events, unless it knows a shorter way.
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
    item_table_
        What else is known of the items, after `set_items`; or None.
    seen_
        The training events: ones, sparse of shape (n_users, n_items).
    seen_weights_, seen_times_
        The weights of these events, where the model weighs by them, and their times, where the log has them: shape
        (n_events,) each, or None.
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
    item_table_: ItemTable | None = None
    seen_: sparse.csr_array[np.float32, tuple[int, int]]
    seen_weights_: Float32Array | None = None
    seen_times_: Times | None = None
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
    _expected: Log | None = None
    _recent: Float64Array | None = None
    """The training events of each item, recent ones counting more; None of a log without times."""
    _ages: Float64Array | None = None
    """How long before the last training event each item was first seen; None of a log without times."""
    _order: ItemOrder | None = None
    _vectors: Float32Array | None = None

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
        table, self._expected = self.item_table_ if log is self._expected else None, None
        self.users_, self.items_, self.titles_ = log.users, log.items, log.titles
        self.item_table_ = None if table is None else replace(table.align(log.items), titles=log.titles)
        self.seen_ = log.to_csr()
        self.seen_weights_ = log.weights if self.weighs_events else None
        self.seen_times_ = log.times
        self.calibration_ = None
        if log.times is None:
            self.remember_recent(None)
            return
        events = log.item_rows, log.times, log.n_items
        self.remember_recent(count_recent(*events), measure_ages(*events))

    def expect(self, log: Log) -> Log:
        """Note that a log goes on from the model's own: what is known of its items stays when it is remembered.

        Parameters
        ----------
        log
            The training events and new ones.

        Returns
        -------
        log
            The same log.
        """
        self._expected = log
        return log

    def remember_recent(self, counts: Float64Array | None, ages: Float64Array | None = None) -> None:
        """Keep how popular items were of late, and how old they are.

        Parameters
        ----------
        counts
            The training events of each item, recent ones counting more, shape (n_items,); None where times are unknown.
        ages
            How long before the last training event each item was first seen, shape (n_items,); None where unknown.
        """
        self._recent, self._ages, self._order, self._vectors = counts, ages, None, None

    def set_items(self, items: Any) -> Self:
        """Keep what an item table says of the model's items; return the model. `update` keeps it, a new `fit` drops it.

        Titles of the table win over those of the log. The rules of `recommend` ask its columns, and it is saved with
        the model.

        Parameters
        ----------
        items
            An `ItemTable`, or what `csrr.read_items` takes: a path, a table, a dict of columns. Items that the model
            does not know are left out; of items that the table does not have, all is missing.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            Where the table cannot be used, or has none of the model's items.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> _ = model.set_items({"item": range(40), "genre": ["Indie", "RPG"] * 20})
        >>> model.recommend(3, k=4, columns=["genre"], where={"genre": "RPG"}).columns["genre"].tolist()
        [['RPG', 'RPG', 'RPG', 'RPG']]
        """
        self.check_fitted()
        table = read_items(items).align(self.items_)
        if table.titles is not None and self.titles_ is not None:
            is_named = np.array([title is not None for title in table.titles])
            self.titles_ = np.where(is_named, table.titles, self.titles_)
        elif table.titles is not None:
            self.titles_ = table.titles
        self.item_table_ = replace(table, titles=self.titles_)
        return self

    @property
    def item_ages(self) -> Float64Array | None:
        """How long before the last training event each item was first seen, shape (n_items,); None without times."""
        return None if self._ages is None else self._ages.copy()

    @property
    def item_vectors(self) -> Float32Array:
        """Vectors of length 1, shape (n_items, d), whose products say how alike items are.

        Of a model with factors, these; of others, sketches of who chose an item, whose products estimate the cosine.
        """
        if self._vectors is None:
            if self.has_factors:
                self._vectors = normalise_rows(self.item_factors_[:, self._likeness])
            else:
                self._vectors = sketch_rows(sparse.csr_array(self.seen_.T))
        return self._vectors

    @property
    def weighs_events(self) -> bool:
        """Whether the weights of the events count; an update needs them then. A model of one's own may say so."""
        return getattr(self, "event_weights", "ignore") != "ignore"

    @property
    def fades_events(self) -> bool:
        """Whether the times of the events count."""
        return getattr(self, "half_life", None) is not None

    def weigh(self, log: Log) -> Log:
        """Return a log with the weights that count: those of its events, faded where there is a `half_life`.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        log
            The log, as the fit weighs it.
        """
        if not self.fades_events:
            return log
        return (log if self.weighs_events else replace(log, weights=None)).fade(getattr(self, "half_life"))  # noqa: B009

    def _weigh_new(self, clicks: Any) -> Any:
        """Return clicks of new people, or on new items, faded where the model fades and their times are known."""
        if not self.fades_events or isinstance(clicks, list | tuple):
            return clicks
        log = as_log(clicks)
        return self.weigh(log) if log.times is not None else log if self.weighs_events else replace(log, weights=None)

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

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of an estimator; it is imported only then."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

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
        given = {name: value for name, value in self.get_params().items() if differs(value, defaults[name])}
        call = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        if not self.is_fitted:
            return call
        return f"{call}, fitted to {len(self.users_):,} users x {len(self.items_):,} items"

    def _repr_html_(self) -> str:
        return show_model(self)

    # Tomorrow's events

    def update(self, new_events: Any, *, choose: bool = False) -> Self:
        """Add events to those of the training data, fit to all of them, and return the model.

        Users and items may be new. An event that is there already gets the sum of the weights and the latest time, as
        in `csrr.read`. What the fit chose on held-out events stays as it is. The result is that of a fit to all events
        with the same choices. A calibration is dropped: its scores were others.

        Parameters
        ----------
        new_events
            A log, a table with user and item columns, or a users x items matrix. Ids are of the types that the
            model has.
        choose
            Whether to choose anew what is left to the data, as `fit` does.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            Where ids are of other types, or weights or times that the model needs are missing.

        Examples
        --------
        >>> log = csrr.synthetic(60, 40, events_per_user=10).log
        >>> model = csrr.PopRank().fit(log)
        >>> model.update({"user": [3, 60], "item": [7, 40]})
        PopRank(), fitted to 61 users x 41 items
        """
        return self.fit(join_events(self, new_events))

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

    @overload
    def score(self, users: Log, items: None = None) -> float: ...

    @overload
    def score(self, users: Any, items: Any = None) -> Float32Array: ...

    def score(self, users: Any, items: Any = None) -> Float32Array | float:
        """Return the scores of pairs of a user and an item, or of users and all items.

        Parameters
        ----------
        users, items
            Ids, equally many; one id alone goes with each of the others. A log or a table of held-out events in place
            of ids is scikit-learn's question.

        Returns
        -------
        scores
            Shape (n,); without `items`, (n, n_items). Of held-out events, the mean NDCG@10 of those that are not in
            the training data, over users who have any.

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
        if items is None and holds_events(users):
            return measure_heldout(self, users)
        user_rows = self.users_.rows(list_ids(users))
        if items is None:
            return self.score_rows(user_rows)
        item_rows = self.items_.rows(list_ids(items), "item")
        if len(user_rows) != len(item_rows) and not (is_one_id(users) or is_one_id(items)):
            raise ValueError(f"pairs need as many users as items, got {len(user_rows)} and {len(item_rows)}")
        # Copies: kernels cannot take what numpy lays over one number.
        user_rows, item_rows = (np.array(each) for each in np.broadcast_arrays(user_rows, item_rows))
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
        columns: Sequence[str] = (),
        threads: int | None = None,
        **rules: Unpack[RuleOptions],
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
        columns
            Columns of the item table (`set_items`) that the result shall show.
        threads
            The number of threads; 0 for all cores, None for what is in force.
        **rules
            What else is asked of a list, mostly by columns of the item table; the scores returned are the model's own.

            - ``where={"in_stock": True, "price": (None, 20)}``: only items that meet all conditions, see
              `ItemTable.match`.
            - ``boost={"genre": {"Indie": 1.2}}``, ``{item: 2.0}`` or ``"margin"`` (a column of factors): a factor f
              adds ln f times the user's spread, the standard deviation of their 100 best scores. Factors of one item
              multiply; a common factor of all items changes nothing.
            - ``fresh="30d"``: a new item has the factor 2, whose logarithm halves with that age (a number is in the
              unit of the log's times). ``{"half_life": "30d", "factor": 3, "by": "released"}`` says more.
            - ``at_most={"genre": 2}``: at most two of each category in a list,
              ``{"genre": {"RPG": 1}}`` of one category. Lists are filled while there is an item that may enter.
            - ``at_least={"genre": {"Indie": 1}}``: the last places are kept for a category that lacks some.
            - ``diversity=0.3``: maximal marginal relevance among the best 5 k items, at least 50: at every place the
              largest (1 - d) relevance - d likeness, where relevance goes from 0 to 1 among them, and likeness is the
              largest cosine (`item_vectors`; by a column with ``diversity_by="genre"``) to the items above it.

        Returns
        -------
        recommendations
            Items, scores and, of a calibrated model, probabilities of each user.

        Raises
        ------
        ParameterError
            For a `min_probability` without a calibration, or without costs, and for items per user or rules that make
            no sense.
        DataError
            For a column or a category that the item table does not have.
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
        wishes = Wishes(k, exclude_seen, candidates, exclude, min_probability, min_score, columns, rules)
        with nullcontext() if threads is None else use_threads(threads):
            return make_lists(self, people, self.score_rows, wishes, reader)

    def _find_people(self, users: Any, reader: IdReader) -> People:
        """Return those who are asked for: one id, several, or None for all."""
        asked = self.users_.ids if users is None else read_asked(list_ids(users), reader)
        rows = np.arange(len(self.users_)) if users is None else reader.find(self.users_, asked)
        return People(asked, rows, self.users_, take_rows(self.seen_, rows))

    def recommend_batches(
        self, users: Any = None, k: int = 10, *, batch_users: int | None = None, **options: Any
    ) -> Iterator[Recommendations]:
        """Return the lists of `recommend`, a batch of users at a time: memory does not grow with the number of users.

        Parameters
        ----------
        users, k
            As for `recommend`.
        batch_users
            The number of users in a batch; None for as many as have some hundred thousand items together.
        **options
            The other options of `recommend`.

        Returns
        -------
        batches
            An iterator of recommendations, in the order of the users.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> [len(recs) for recs in model.recommend_batches(k=4, batch_users=25)]
        [25, 25, 10]
        """
        return recommend_in_batches(self, users, k, batch_users, options)

    def recommend_to(
        self,
        path: str | os.PathLike[str],
        users: Any = None,
        k: int = 10,
        *,
        spreadsheet: bool = False,
        callback: Callable[[int], object] | None = None,
        **options: Any,
    ) -> WrittenLists:
        """Write the lists of `recommend` to a file, at once or not at all, in memory that is that of one batch.

        Parameters
        ----------
        path
            The file: its name ends in .parquet, .csv, .jsonl (JSON lines) or .arrow. One that is there is replaced at
            the end; an interruption leaves it as it was.
        users, k
            As for `recommend`.
        spreadsheet
            Whether texts of a CSV that a spreadsheet would run as a formula get an apostrophe in front.
        callback
            Told the number of users so far, after each batch.
        **options
            The other options of `recommend`.

        Returns
        -------
        written
            The path, the numbers of users and of rows, and the length of the longest list. A row is user, item, rank,
            score and, where known, probability and title.

        Raises
        ------
        ParameterError
            For another ending, before anything is computed.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.recommend_to("recs.parquet", k=4).n_rows
        240
        """
        return write_lists(self, path, users, k, spreadsheet=spreadsheet, callback=callback, options=options)

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
        users, seen = read_histories(self, self._weigh_new(histories), reader)
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

    def fold_in_items(self, clicks: Any) -> FoldedItems:
        """Return items that were not in the training data, by who chose them: their scores, and lists that have them.

        What was learnt of users and of other items stays as it is. `update` takes the same events into the model.

        Parameters
        ----------
        clicks
            A log, or what becomes one: its users are the model's, its items are new.

        Returns
        -------
        items
            They have `score` and `recommend`; the latter's lists are of known and new items.

        Raises
        ------
        ParameterError
            For an item that the model knows.
        UnknownIdError
            For a user that it does not know.
        NotImplementedError
            Where the model cannot tell.

        Examples
        --------
        >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> items = model.fold_in_items({"user": [3, 5, 9], "item": [40, 40, 40]})
        >>> items.score([3, 4]).shape, items.recommend(4, k=3).items.shape
        ((2, 1), (1, 3))
        """
        self.check_fitted()
        return self.fold_items(*read_new_items(self._weigh_new(clicks), self.users_, self.items_, self.history_weight))

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        """Return items that were not in the training data, by their log and by who chose them.

        Parameters
        ----------
        log
            Events of the model's users and of new items.
        chosen
            The same: ones or weights, csr of shape (n_new, n_users).

        Returns
        -------
        items
            Their scores and recommendations.
        """
        raise NotImplementedError(f"a {type(self).__name__} knows only the items it was fitted to; update it")

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
        if ability == "fold_in_items":
            return cls.fold_items is not Recommender.fold_items
        if ability == "suspects":
            return cls.score_own is not Recommender.score_own or cls.leave_out is not Recommender.leave_out
        return True

    def _check_factors(self) -> None:
        self.check_fitted()
        if not self.has_factors:
            raise NotImplementedError(f"a {type(self).__name__} has no factors to tell by what is alike")

    # Noisy clicks

    def suspects(self, *, popularity: float = 0.0) -> Suspects:
        """Return how much each click of the training data looks like noise, and which users and items have most.

        Parameters
        ----------
        popularity
            Noise is taken to fall on an item in proportion to (its clicks + 1)^popularity: 0 finds clicks at random,
            0.5 finds more of those on popular items and of accounts that push one, and takes more of the good ones for
            noise.

        Returns
        -------
        suspects
            A score for each event: a rate of noise under the assumptions that `Suspects` states.

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
