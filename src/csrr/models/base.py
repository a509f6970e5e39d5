"""The contract of a model: what it inherits once it can fit and score."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext, suppress
from functools import partial
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import Float32Array, Rows
from csrr._base.threads import use_threads
from csrr.data.ids import Id
from csrr.data.log import Log
from csrr.models.estimator import ask_one_state
from csrr.models.foldin import FoldedItems, FoldedUsers, read_histories, read_new_items
from csrr.models.recommend import (
    IdLookup,
    Least,
    RecommendOptions,
    Unknown,
    UserBatch,
    WrittenLists,
    check_k,
    is_for_each,
    is_one_id,
    list_ids,
    list_user_ids,
    make_list_schema,
    make_lists,
    need_table,
    read_asked,
    take_matrix_rows,
    write_lists,
)
from csrr.models.scorer import Scorer
from csrr.parameters import ParameterError, check_whole
from csrr.ranking.topk import LEAST_TOGETHER, Restrictions, RowScorer, take_rows, top_k
from csrr.results.recommendations import NeighborLists, Neighbors, Recommendations
from csrr.results.table import check_table_path, open_table_file
from csrr.rules import RuleOptions

BATCH_ROWS = 2**17
"""Number of places in the lists of one batch: a row group of Parquet, and some ten megabytes."""
_NEEDS = {
    "similar_items": ("similar_items", "score_similar_items"),
    "similar_users": ("similar_users", "score_similar_users"),
    "fold_in_items": ("fold_in_items", "fold_items"),
    "suspects": ("suspects", "score_own", "leave_out"),
}
"""The optional methods, and the methods of which a model overrides one to have them."""


class SimilarUsersOptions(TypedDict, total=False):
    """The options of `Recommender.similar_users`."""

    candidates: Any
    exclude: Any
    unknown: Unknown


class SimilarItemsOptions(SimilarUsersOptions, total=False):
    """The options of `Recommender.similar_items`."""

    by: Literal["auto", "neighbors", "factors", "next"]
    where: Mapping[str, Any] | None


class Recommender(Scorer):
    """The base class of all models; derive from it to write your own.

    A subclass provides `fit`, which reads data (`read`), stores what recommending needs (`remember`) and sets fitted
    attributes, whose names end in an underscore; and one of

    - `score_histories(seen, rows)`: scores, given histories;
    - `user_factors_` and `item_factors_`, arrays whose products are the scores, with `has_factors = True`;
    - `score_rows(rows)`: scores of users, given by row number.

    It inherits everything else: `recommend`, `score`, `calibrate`, `save` (fitted attributes that are arrays, sparse
    arrays or plain values; override `state` and `restore` for others), and works in `csrr.evaluate`, `csrr.compare` and
    `csrr.tune`. `score_histories` or `fold_users` enables `fold_in` and `recommend_for`, `fold_items` enables
    `fold_in_items`, `score_own` enables `suspects`. `update` refits on all events unless it is overridden.
    `csrr.register` makes the class known to `csrr.load` and `csrr.tune` by its name; `search_space` is what `csrr.tune`
    tries by default.

    `fit` and `update` work on a copy and then exchange all attributes at once: another thread may ask the model
    meanwhile, and gets the answer of the old model or of the new one.

    `__init__` takes keyword arguments with defaults and only stores them, under the same names; or the class declares
    its parameters (`csrr.parameters`), which are then checked.

    Lists are ordered by score; popularity (`popularity`) breaks ties, then the item row. Users without training events
    get popular items, unless `knows_everyone = True` says that their scores are meaningful.

    Attributes
    ----------
    users_, items_
        The ids of the training data, in the order of their rows.
    titles_
        The titles of the items, or None.
    item_table_
        The item table set by `set_items`, or None.
    seen_
        The training events: ones, sparse of shape (n_users, n_items).
    seen_weights_, seen_times_
        The weights of these events, if the model uses weights, and their times, if the log has them: shape
        (n_events,) each, or None.
    seen_ages_
        The number of later events of the same user for each, shape (n_events,), if the model uses the order; or None.
    calibration_
        The calibration that `calibrate` learned, or None.
    user_factors_, item_factors_
        If the model has factors: arrays of shapes (n_users, d) and (n_items, d) whose products are the scores.

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

    # Lists

    @ask_one_state
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

        Popularity breaks ties between equal scores, then the item row. Users without training events get popular items,
        with score 0; `fallback` of the result marks them, and a `NoHistoryWarning` counts them. With
        `cost_ratio`, costs of single users and items are already part of the scores.

        Items per user, for `candidates`, `exclude` and `exclude_seen`, are a dict from users to items, a table (pandas,
        polars, pyarrow, `Log`) with user and item columns, or a sparse matrix with a row for each requested user, or
        for each user of the model. Users who are not listed have no items there.

        Parameters
        ----------
        users
            One id, several, or None for all.
        k
            The length of the lists. It is reduced to the number of available items; a user with fewer items gets a list
            that ends in None.
        exclude_seen
            Whether to leave out the user's training items, those with an event of the target type where the log had a
            target; or items per user to leave out in their place.
        candidates
            The ids of the items to choose among; None for all; or items per user.
        exclude
            The ids of items to leave out for everyone; or items per user.
        min_probability
            For a calibrated model: leave out those of the k best items that are below this probability; the list may be
            empty. "cost" stands for the probability above which recommending pays: `decision_probability`, or less
            where a miss of this user or item costs more.
        min_score
            Leave out items below this score.
        unknown
            What to do with ids that the model does not know: "raise" an error; "mark": items are left out, users get
            popular items, and `status` of the result tells which; "ignore": the same, with an `UnknownIdWarning` and a
            `NoHistoryWarning`.
        columns
            Columns of the item table (`set_items`) to show in the result.
        threads
            The number of threads; 0: all cores, None: the current setting.
        **rules
            Business rules, mostly by columns of the item table. The scores returned are those of the model.

            - ``where={"in_stock": True, "price": (None, 20)}``: only items that meet all conditions, see
              `ItemTable.match`.
            - ``boost={"genre": {"Indie": 1.2}}``, ``{item: 2.0}`` or ``"margin"`` (a column of factors): a factor f
              adds ln f times the user's spread, the standard deviation of their 100 best scores. Factors of one item
              multiply; a factor common to all items changes nothing.
            - ``fresh="30d"``: a new item has the factor 2, whose logarithm halves with that age (a number is in the
              unit of the log's times). Or ``{"half_life": "30d", "factor": 3, "by": "released"}``.
            - ``at_most={"genre": 2}``: at most two of each category in a list, or ``{"genre": {"RPG": 1}}``: of one
              category. Lists are filled as long as an item is allowed.
            - ``at_least={"genre": {"Indie": 1}}``: the last places are reserved for missing categories.
            - ``diversity=0.3``: maximal marginal relevance among the best 5 k items, at least 50: each place gets the
              largest (1 - d) * relevance - d * similarity, where relevance is scaled to [0, 1] among them, and
              similarity is the largest cosine (`item_vectors`) to the items above.
            - ``diversity_by="genre"``: this similarity is that of the categories of a column.

        Returns
        -------
        recommendations
            Items, scores and, for a calibrated model, probabilities.

        Raises
        ------
        ParameterError
            For a `min_probability` without a calibration, or without costs, and for items per user or rules that are
            not valid.
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
        reader = IdLookup(unknown)
        batch = self._make_batch(users, reader)
        wanted = RecommendOptions(k, exclude_seen, candidates, exclude, min_probability, min_score, columns, rules)
        with nullcontext() if threads is None else use_threads(threads):
            return make_lists(self, batch, self.row_scorer, wanted, reader)

    @property
    def row_scorer(self) -> RowScorer:
        """The function that scores users for lists: products, unless a subclass has a `score_rows` of its own."""
        products = self.make_products() if type(self).score_rows is Scorer.score_rows else None
        return self.score_rows if products is None else products

    def _make_batch(self, users: Any, reader: IdLookup) -> UserBatch:
        """Return the users to make lists for: one id, several, or None for all."""
        if self.item_counts is not None:
            raise ParameterError(
                "this model has the items alone: ask it for histories (recommend_for, fold_in), or write the lists of"
                " everybody (csrr.write_lists)"
            )
        ids = self.users_.ids if users is None else read_asked(list_ids(users), reader)
        rows = np.arange(len(self.users_)) if users is None else reader.find(self.users_, ids)
        done = None if self.seen_of_target is self.seen_ else take_rows(self.seen_of_target, rows)
        return UserBatch(ids, rows, self.users_, take_rows(self.seen_, rows), done)

    @ask_one_state
    def recommend_batches(
        self, users: Any = None, k: int = 10, *, batch_users: int | None = None, **options: Any
    ) -> Iterator[Recommendations]:
        """Return the lists of `recommend` in batches of users, so that memory does not grow with their number.

        Parameters
        ----------
        users, k
            As for `recommend`.
        batch_users
            The number of users in a batch; None: chosen so that a batch has some hundred thousand items.
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
        self.check_fitted()
        size = max(1, BATCH_ROWS // check_k(k)) if batch_users is None else batch_users
        check_whole("batch_users", size, least=1)
        ids = list_user_ids(self, users, options)
        shape = len(ids), len(self.items_)
        parts = (slice(first, first + size) for first in range(0, len(ids), size))
        return (self.recommend(ids[part], k, **take_matrix_rows(options, part, shape)) for part in parts)

    @ask_one_state
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
        """Write the lists of `recommend` to a file, atomically, with the memory of one batch.

        Parameters
        ----------
        path
            The file, with the extension .parquet, .csv, .jsonl (JSON lines) or .arrow. An existing file is replaced at
            the end; an interruption leaves it unchanged.
        users, k
            As for `recommend`.
        spreadsheet
            Whether to put an apostrophe in front of CSV text that a spreadsheet would run as a formula.
        callback
            Called after each batch with the number of users so far.
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
            For another extension, before anything is computed.

        Examples
        --------
        >>> model = csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.recommend_to("recs.parquet", k=4).n_rows
        240
        """
        check_table_path(path)
        batches = self.recommend_batches(users, k, **options)
        schema = make_list_schema(self, users, options)
        with open_table_file(path, schema, spreadsheet=spreadsheet) as write:
            return write_lists(os.fspath(path), batches, schema, write, callback)

    # New users and items

    @ask_one_state
    def fold_in(self, histories: Any, *, unknown: Unknown = "raise") -> FoldedUsers:
        """Fold in new users by their histories; return an object with their scores and recommendations.

        The item parameters stay fixed. Users with an empty history, or with unknown items only, get popular items.

        Parameters
        ----------
        histories
            A list of histories, each a list of item ids or a dict from item ids to weights, the newest item last; or a
            log (table, matrix) of the model's items. Weights are used as in `fit`: a model fitted without weights
            refuses a dict with weights other than 1, and ignores those of a log. Where order counts, a log has times,
            or was read with ``ordered=True``.
        unknown
            What to do with items that the model does not know: "raise" an error, or "ignore" them, with an
            `UnknownIdWarning`.

        Returns
        -------
        people
            An object with `score` and `recommend`.

        Raises
        ------
        ParameterError
            If this is not a list of histories, and for weights that the model does not use.
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
        reader = IdLookup(unknown)
        users, seen = read_histories(self, histories, reader)
        reader.warn()
        return self.fold_users(users, seen)

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedUsers:
        """Fold in new users, given by ids and histories.

        Parameters
        ----------
        users
            Their ids, shape (n,).
        seen
            Their histories: weights, or values as in `histories`, csr of shape (n, n_items).

        Returns
        -------
        people
            Their scores and recommendations.
        """
        return FoldedUsers(users, seen, self, partial(self.score_histories, seen))

    @ask_one_state
    def fold_in_items(self, clicks: Any) -> FoldedItems:
        """Fold in new items by the users who chose them; return an object with scores and recommendations.

        The parameters of users and other items stay fixed. `update` adds the same events to the model.

        Parameters
        ----------
        clicks
            A log, or anything that `csrr.read` takes, with known users and new items.

        Returns
        -------
        items
            An object with `score` and `recommend`; its lists have known and new items.

        Raises
        ------
        ParameterError
            For an item that the model knows.
        UnknownIdError
            For a user that it does not know.
        NotImplementedError
            If the model cannot tell.

        Examples
        --------
        >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> items = model.fold_in_items({"user": [3, 5, 9], "item": [40, 40, 40]})
        >>> items.score([3, 4]).shape, items.recommend(4, k=3).items.shape
        ((2, 1), (1, 3))
        """
        self.check_fitted()
        return self.fold_items(*read_new_items(self, clicks))

    def fold_items(self, log: Log, chosen: Any) -> FoldedItems:
        """Fold in new items, given by their log and the users who chose them.

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
        """The weight of a click in a new history without weights; None if weights are not used."""
        return None

    def recommend_for(
        self, history: Any, k: int = 10, *, unknown: Unknown = "raise", threads: int | None = None, **options: Any
    ) -> Recommendations:
        """Return the best items for a new user, given by a history.

        Parameters
        ----------
        history
            The ids of the user's items, or one id; or a dict from item ids to weights, as for `fold_in`. A model that
            uses order takes the last item for the newest. An empty history gives popular items.
        k
            The number of items.
        unknown
            As for `recommend`; it also applies to the history.
        threads
            As for `recommend`; it also applies to the fold-in, unless the model has a number of its own.
        **options
            The others of `recommend`. Items per user are for user 0.

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
        one = history if isinstance(history, Mapping | Set) else list(list_ids(history))
        with nullcontext() if threads is None else use_threads(threads):
            return self.fold_in([one], unknown=unknown).recommend(k, unknown=unknown, **options)

    @ask_one_state
    def warm_up(self) -> None:
        """Compile and prepare what lists need, so that the first request takes no longer than others.

        Examples
        --------
        >>> model = csrr.EASE(reg=10).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> model.warm_up()
        """
        self.check_fitted()
        some = self.users_.ids[np.flatnonzero(np.diff(self.seen_.indptr))[:LEAST_TOGETHER]]
        for users in (some, some[:1]):
            self.recommend(users, 1, unknown="mark")
        with suppress(NotImplementedError):
            self.recommend_for(self.items_.ids[:1], 1, unknown="mark")
            self.similar_items(self.items_.ids[:1], 1)

    # Similar items and users

    @overload
    def similar_items(self, items: Id, k: int = 10, **options: Unpack[SimilarItemsOptions]) -> Neighbors: ...

    @overload
    def similar_items(self, items: Any, k: int = 10, **options: Unpack[SimilarItemsOptions]) -> NeighborLists: ...

    @ask_one_state
    def similar_items(
        self,
        items: Any,
        k: int = 10,
        *,
        by: Literal["auto", "neighbors", "factors", "next"] = "auto",
        candidates: Any = None,
        exclude: Any = None,
        where: Mapping[str, Any] | None = None,
        unknown: Unknown = "raise",
    ) -> Neighbors | NeighborLists:
        """Return the items most similar to an item, or to each of several.

        Similarity is the cosine of the items' factors; in models that weigh items, the weight for the item.

        Parameters
        ----------
        items
            The id of an item, or several ids.
        k
            The number of similar items; fewer where fewer have a weight.
        by
            For CSRR and its relatives. "neighbors": the items with the largest positive weights for it, with `order`
            those that it comes after; "next": with order "next", the items that come after it: those whose scores it
            raises most as the latest item; "factors": the largest cosine of item factors; "auto": by neighbors if the
            item has any.
        candidates
            The ids of the items to choose among; None for all.
        exclude
            The ids of items to leave out.
        where
            Only items that meet these conditions on columns of the item table, as for `recommend`.
        unknown
            What to do with unknown ids: "raise" an error, or "ignore": an empty list and an `UnknownIdWarning`.

        Returns
        -------
        neighbors
            The similar items, most similar first: `Neighbors` of one item, `NeighborLists` of several.

        Raises
        ------
        NotImplementedError
            If the model cannot tell.
        ParameterError
            For a `by` that the model does not have.

        Examples
        --------
        >>> model = csrr.WRMF(4).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> len(model.similar_items(7, k=3)), model.similar_items([7, 8, 9], k=3).ids.shape
        (3, (3, 3))
        """
        options = SimilarItemsOptions(candidates=candidates, exclude=exclude, unknown=unknown, where=where)
        return find_similar(self, "item", items, k, self._choose_likeness(by), options)

    def _choose_likeness(self, by: str) -> RowScorer:
        """Return the function that measures likeness of items: "auto", or another one of a subclass."""
        if by != "auto":
            raise ParameterError.of("by", by, f'must be "auto": {type(self).__name__} knows one kind of likeness')
        return self.score_similar_items

    def score_similar_items(self, rows: Rows) -> Float32Array:
        """Return the similarities of items, given by rows, to all items.

        Parameters
        ----------
        rows
            The rows of the items.

        Returns
        -------
        scores
            A float32 array of shape (len(rows), n_items), -inf where there is no similarity.
        """
        return compute_cosines(self.item_factors_[:, self._likeness], rows)

    @overload
    def similar_users(self, users: Id, k: int = 10, **options: Unpack[SimilarUsersOptions]) -> Neighbors: ...

    @overload
    def similar_users(self, users: Any, k: int = 10, **options: Unpack[SimilarUsersOptions]) -> NeighborLists: ...

    @ask_one_state
    def similar_users(
        self, users: Any, k: int = 10, *, candidates: Any = None, exclude: Any = None, unknown: Unknown = "raise"
    ) -> Neighbors | NeighborLists:
        """Return the users most similar to a user, or to each of several.

        Similarity is the cosine of the users' factors; in models that weigh items, that of their histories.

        Parameters
        ----------
        users
            The id of a user, or several ids.
        k
            The number of similar users; fewer where fewer share an item.
        candidates
            The ids of the users to choose among; None for all.
        exclude
            The ids of users to leave out.
        unknown
            What to do with unknown ids: "raise" an error, or "ignore": an empty list and an `UnknownIdWarning`.

        Returns
        -------
        neighbors
            The similar users, most similar first: `Neighbors` of one user, `NeighborLists` of several.

        Raises
        ------
        NotImplementedError
            If the model cannot tell.
        """
        options = SimilarItemsOptions(candidates=candidates, exclude=exclude, unknown=unknown)
        return find_similar(self, "user", users, k, self.score_similar_users, options)

    def score_similar_users(self, rows: Rows) -> Float32Array:
        """Return the similarities of users, given by rows, to all users.

        Parameters
        ----------
        rows
            The rows of the users.

        Returns
        -------
        scores
            A float32 array of shape (len(rows), n_users), -inf where there is no similarity.
        """
        return compute_cosines(self.user_factors_[:, self._likeness], rows)

    @classmethod
    def can(cls, ability: str) -> bool:
        """Return whether models of this class support an optional method.

        Parameters
        ----------
        ability
            The name of a method, such as "explain" or "similar_items".

        Returns
        -------
        can
            Whether they support it.
        """
        if ability not in _NEEDS or (ability.startswith("similar") and cls.has_factors):
            return hasattr(cls, ability)
        return any(getattr(cls, name) is not getattr(Recommender, name) for name in _NEEDS[ability])


def find_similar(
    model: Recommender,
    kind: Literal["item", "user"],
    queries: Any,
    k: int,
    score_rows: RowScorer,
    options: SimilarItemsOptions,
) -> Neighbors | NeighborLists:
    """Return the items (or users) most similar to one, or to each of several.

    `score_rows` gives similarities, shape (len(rows), n), -inf for none; the rest is as for
    `Recommender.similar_items`.
    """
    model.check_fitted()
    if not model.can(f"similar_{kind}s"):
        raise NotImplementedError(f"a {type(model).__name__} has no factors to compute similarities from")
    known, titles, order = model.users_, None, None
    if kind == "item":
        known, titles, order = model.items_, model.titles_, model.item_order
    reader, n_known, k = IdLookup(options["unknown"]), len(known), check_k(k)
    limits = Restrictions(n_known)
    if (where := options.get("where")) is not None:
        limits.keep(np.flatnonzero(need_table(model, "where").match(where)))
    ids = read_asked(list_ids(queries), reader, kind)
    place = f"the {kind}{'' if is_one_id(queries) else 's'} asked for"
    rows = reader.find_counted(known, ids, kind, place)
    there = np.flatnonzero(rows >= 0)
    limits.leave_out(sparse.csr_array((np.ones(len(there)), (there, rows[there])), shape=(len(rows), n_known)))
    for name, apply in (("candidates", limits.keep), ("exclude", limits.leave_out)):
        given = options.get(name)
        if is_for_each(given):
            raise ParameterError(f"{name}: give a list of {kind} ids, the same for all")
        if given is not None:
            apply(reader.find_known(known, list_ids(given), kind, name))

    def score(places: Rows) -> Float32Array:
        scores = np.full((len(places), n_known), -np.inf, np.float32)
        mine = rows[places]
        scores[mine >= 0] = score_rows(mine[mine >= 0])
        return scores

    n_most = min(k, limits.count_left(), n_known - 1)
    found = top_k(score, np.arange(len(rows)), n_known, n_most, limits=limits, order=order)
    reader.warn()
    lists = NeighborLists.from_rows(ids, *found, known, titles)
    return lists[0] if is_one_id(queries) else lists


def compute_cosines(factors: Float32Array, rows: Rows) -> Float32Array:
    """Return the cosines of some rows of factors with all, shape (len(rows), n); with a zero row they are 0."""
    norms = np.linalg.norm(factors, axis=1)
    products = norms[rows, None] * norms
    cosines: Float32Array = np.zeros_like(products)
    np.divide(factors[rows] @ factors.T, products, out=cosines, where=products > 0)
    return cosines


def compute_history_cosines(seen: Any, rows: Rows) -> Float32Array:
    """Return the cosines of some users' histories with those of all, shape (len(rows), n_users); -inf for 0."""
    lengths = np.sqrt(np.maximum(np.diff(seen.indptr), 1)).astype(np.float32)
    return mark_nothing((seen[rows] @ seen.T).toarray() / (lengths[rows, None] * lengths))


def mark_nothing(weights: Float32Array) -> Float32Array:
    """Return weights with -inf in place of 0, which means no weight."""
    marked: Float32Array = np.where(weights == 0, np.float32(-np.inf), weights)
    return marked
