"""The contract of a model, and what every model can do once it can score."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, wraps
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import Float32Array, Float64Array, Int32Array, Rows
from csrr._base.text import fold_html, format_html_facts, format_html_table, format_html_words
from csrr._base.threads import use_threads
from csrr.data import IdMap, ItemTable, Log, as_log, read_items
from csrr.data.columns import Times
from csrr.data.errors import DataWarning, warn_caller
from csrr.data.event_types import EventTypes
from csrr.data.ids import Id, Ids
from csrr.data.matrix import check_sparse
from csrr.data.tables import is_table
from csrr.models.filters import (
    IdLookup,
    RuleOptions,
    Unknown,
    UserBatch,
    is_for_each,
    is_one_id,
    list_ids,
    need_table,
    read_asked,
)
from csrr.models.foldin import FoldedItems, FoldedUsers, read_histories, read_new_items
from csrr.models.recommend import (
    Least,
    RecommendOptions,
    WrittenLists,
    check_k,
    find_known,
    make_lists,
    recommend_in_batches,
    score_known,
    write_lists,
)
from csrr.models.schema import Arrays, FileSchema
from csrr.models.store import ModelState, plain_state, restore_plain, write_model
from csrr.models.update import join_events
from csrr.noise.scores import LeaveOneOut
from csrr.noise.suspects import Suspects, find_suspects
from csrr.numerics.problem import Pattern
from csrr.parameters import (
    ParameterError,
    check_number,
    check_params,
    check_whole,
    explain_names,
    list_defaults,
    list_parameters,
    refuse_names,
)
from csrr.ranking import NeighborLists, Neighbors, Recommendations, top_k
from csrr.ranking.calibration import Calibration, Reliability
from csrr.ranking.explanations import Explanation, spread_amounts
from csrr.ranking.metrics import Metric, mark_hits, ndcg
from csrr.ranking.rules import normalise_rows, sketch_rows
from csrr.ranking.topk import (
    ItemOrder,
    Restrictions,
    RowScorer,
    Top,
    count_recent,
    measure_ages,
    multiply_factors,
    score_blocks,
    take_rows,
)
from csrr.results.table import ResultTable

MOST_GROUPS = 20
SCORED_AT = 10
"""The length of the lists that `Recommender.score` measures."""
_ROWS_SPLIT = (
    "no score: scikit-learn splits the rows of a matrix, which are users, and a model cannot rank for users it was not"
    " fitted to; pass a table of events (log.to_frame()) and cv=csrr.interop.PerUserSplit()"
)


def find_unseen_events(events: Log, model: Recommender) -> Log:
    """The events whose user and item the model knows and that are not in its training data, in its row numbers.

    Where there is a target, events of that type count on both sides.
    """
    events = events.of_target()
    rows = model.users_.find(events.users.ids)[events.user_rows]
    columns = model.items_.find(events.items.ids, "item")[events.item_rows]
    n_items = len(model.items_)
    seen = model.seen_of_target.tocoo()
    keys = np.unique((rows * n_items + columns)[(rows >= 0) & (columns >= 0)])
    left = np.setdiff1d(keys, seen.row.astype(np.int64) * n_items + seen.col)
    return Log(model.users_, model.items_, left // n_items, left % n_items)


def holds_events(data: Any) -> bool:
    """Whether data are events, and not ids: a log, a table or a matrix."""
    # Columns of pandas, polars and Arrow can be streamed like their tables.
    is_of_columns = isinstance(data, Mapping) or (is_table(data) and hasattr(data, "columns"))
    return isinstance(data, Log) or is_of_columns or _is_matrix(data)


def _is_matrix(data: Any) -> bool:
    return sparse.issparse(data) or (isinstance(data, np.ndarray) and data.ndim == 2)


def measure_heldout(model: Recommender, heldout: Any, metric: Metric = ndcg, k: int = SCORED_AT) -> float:
    """The mean of a metric of lists of length k, over users with an event that the model knows but has not seen."""
    if _is_matrix(heldout):
        if "sklearn.model_selection" in sys.modules:
            # Its searches turn the error into NaN, each with a traceback: the reason comes first.
            warn_caller(_ROWS_SPLIT, DataWarning)
        raise ParameterError(
            "a matrix of held-out events does not say which of the model's users its rows are; give a log or a table"
            " with user and item columns"
        )
    unseen = find_unseen_events(as_log(heldout), model)
    relevant, n_relevant = unseen.to_csr(), unseen.user_counts()
    rows = np.flatnonzero(n_relevant)
    if not len(rows):
        raise ParameterError(
            "there is nothing to score on: no event is of a user and an item that the model knows and is not in its"
            " training data"
        )
    items, _ = model.top_rows(rows, min(k, len(model.items_)), seen=model.seen_of_target)
    return float(np.nanmean(metric(mark_hits(items, relevant, rows), n_relevant[rows])))


def calibrate_on(heldout: Any, model: Recommender, rows: Rows, observed_share: float, n_groups: int) -> Calibration:
    """The calibration of a model on the unseen cells of the user rows `rows`; see `Recommender.calibrate`."""
    check_number("observed_share", observed_share, above=0, most=1)
    check_whole("n_groups", n_groups, least=1)
    check_number("n_groups", n_groups, least=1, most=MOST_GROUPS)
    cells = _collect_cells(heldout, model, rows)
    return Calibration.of(*cells, observed_share=observed_share, n_groups=int(n_groups))


def measure_reliability_on(heldout: Any, model: Recommender, rows: Rows, observed_share: float | None) -> Reliability:
    """What a calibrated model says of the unseen cells of the user rows `rows`, against what happened."""
    calibration = model.check_calibrated()
    if observed_share is not None:
        check_number("observed_share", observed_share, above=0, most=1)
    return calibration.check(*_collect_cells(heldout, model, rows), observed_share=observed_share)


def _collect_cells(heldout: Any, model: Recommender, rows: Rows) -> tuple[RowScorer, Rows, int, Any, Any]:
    """What `Calibration` asks for: scores, rows, the number of items, and which cells are positives and which seen."""
    log, rows = as_log(heldout), np.unique(rows)
    relevant = find_unseen_events(log, model).to_csr()
    if not np.diff(relevant.indptr)[rows].any():
        raise ParameterError(
            "calibration needs positives: events that are not in the training data, of users and items that the model"
            f" knows; none of the {len(log):,} held-out events is one"
        )
    return model.score_rows, rows, len(model.items_), relevant, model.seen_of_target


def show_model(model: Recommender) -> str:
    """Return a model as HTML."""
    parts = [format_html_words(repr(model) if model.is_fitted else f"{model!r}, not fitted yet")]
    if model.is_fitted:
        parts.append(format_html_facts(_list_facts(model)))
        certificate = getattr(model, "certificate_", None)
        if certificate is not None:
            parts.append(fold_html(f"Certificate: {certificate}", certificate._repr_html_()))
    rows = _list_parameters(model)
    if rows:
        n_set = sum(bool(is_set) for *_, is_set in rows)
        title = f"{len(rows)} parameters, {n_set} of them set"
        parts.append(fold_html(title, format_html_table(("parameter", "value", "fitted", ""), rows)))
    return "\n".join(parts)


def _list_facts(model: Recommender) -> dict[str, object]:
    """Return the size of a fitted model, and what else it has found."""
    facts: dict[str, object] = {
        "users": f"{len(model.users_):,}",
        "items": f"{len(model.items_):,}",
        "events": f"{model.seen_.nnz:,}",
    }
    if model.event_types is not None:
        facts["event types"] = model.event_types.describe()
    if hasattr(model, "rank_"):
        facts["rank"] = model.rank_
    if hasattr(model, "costs_"):
        facts["costs"] = f"a miss costs {model.costs_.ratio:.4g} false alarms"
    if model.calibration_ is not None:
        facts["calibrated"] = f"on {model.calibration_.n_positives.sum():,} events"
    return facts


def _list_parameters(model: Recommender) -> list[tuple[str, str, str, str]]:
    """Return each parameter: its name, its value, what the fit made of it, and whether it is not the default."""
    defaults = list_defaults(type(model))
    return [
        (name, repr(value), _find_fitted(model, name, value), "set" if differs(value, defaults[name]) else "")
        for name, value in model.get_params().items()
    ]


def _find_fitted(model: Recommender, name: str, value: Any) -> str:
    """Return the number that a fit found for a parameter which left it open; nothing where there is none."""
    if not model.is_fitted or not (value is None or isinstance(value, str)):
        return ""
    settled = model.settled_params() if hasattr(model, "settled_params") else {}
    found = settled.get(name, getattr(model, f"{name}_", None))
    return f"{found:.4g}" if isinstance(found, int | float) and not isinstance(found, bool) else ""


def differs(value: Any, default: Any) -> bool:
    """Return whether a parameter is not the default."""
    return value is not default and not np.array_equal(value, default)


class LikeOptions(TypedDict, total=False):
    """The options of `Recommender.similar_users`."""

    candidates: Any
    exclude: Any
    unknown: Unknown


class ItemLikeOptions(LikeOptions, total=False):
    """The options of `Recommender.similar_items`."""

    where: Mapping[str, Any] | None


class LikenessOptions(NamedTuple):
    """What is asked of neighbors: the options of `similar_items`, or of `similar_users`, which has no `where`."""

    candidates: Any
    exclude: Any
    unknown: Unknown
    where: Mapping[str, Any] | None = None


def find_similar_items(
    model: Recommender, items: Any, k: int, score_rows: RowScorer, wanted: LikenessOptions
) -> Neighbors | NeighborLists:
    """Return the items most like one, or like each of several; `score_rows` gives similarities, -inf for none."""
    _check_can(model, "similar_items")
    limits = Restrictions(len(model.items_))
    if wanted.where is not None:
        limits.keep(np.flatnonzero(need_table(model, "where").match(wanted.where)))
    found = _find_alike(model.items_, "item", items, k, score_rows, wanted, limits, model.item_order)
    lists = NeighborLists.from_rows(*found, model.items_, model.titles_)
    return lists[0] if is_one_id(items) else lists


def find_similar_users(model: Recommender, users: Any, k: int, wanted: LikenessOptions) -> Neighbors | NeighborLists:
    """Return the users most like one, or like each of several."""
    _check_can(model, "similar_users")
    limits = Restrictions(len(model.users_))
    found = _find_alike(model.users_, "user", users, k, model.score_similar_users, wanted, limits)
    lists = NeighborLists.from_rows(*found, model.users_, None)
    return lists[0] if is_one_id(users) else lists


def _check_can(model: Recommender, ability: str) -> None:
    model.check_fitted()
    if not model.can(ability):
        raise NotImplementedError(f"a {type(model).__name__} has no factors to compute similarities from")


def _find_alike(
    known: IdMap,
    kind: Literal["item", "user"],
    asked: Any,
    k: int,
    score_rows: RowScorer,
    wanted: LikenessOptions,
    limits: Restrictions,
    order: ItemOrder | None = None,
) -> tuple[Ids, Int32Array, Float32Array]:
    """Return the ids asked for, shape (n,), and the rows and scores of what is most like each, shapes (n, k)."""
    reader, n_known, k = IdLookup(wanted.unknown), len(known), check_k(k)
    ids = read_asked(list_ids(asked), reader)
    place = f"the {kind}{'' if is_one_id(asked) else 's'} asked for"
    rows = reader.find(known, ids, kind, place)
    reader.count(place, int((rows < 0).sum()), len(rows))
    there = np.flatnonzero(rows >= 0)
    limits.leave_out(sparse.csr_array((np.ones(len(there)), (there, rows[there])), shape=(len(rows), n_known)))
    for name, apply in (("candidates", limits.keep), ("exclude", limits.leave_out)):
        given = getattr(wanted, name)
        if is_for_each(given):
            raise ParameterError(f"{name}: give a list of {kind} ids, the same for all")
        if given is not None:
            apply(reader.find_known(known, list_ids(given), kind, name))

    def score(places: Rows) -> Float32Array:
        scores = np.full((len(places), n_known), -np.inf, np.float32)
        mine = rows[places]
        scores[mine >= 0] = score_rows(mine[mine >= 0])
        return scores

    found = top_k(
        score, np.arange(len(rows)), n_known, min(k, limits.count_left(), n_known - 1), limits=limits, order=order
    )
    reader.warn()
    return ids, *found


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
    """Return weights, -inf in place of 0: that is none."""
    marked: Float32Array = np.where(weights == 0, np.float32(-np.inf), weights)
    return marked


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
    _, titles = model.name_items(pair[1])
    title = None if titles is None else titles[0] or None
    return Explanation(*named, amounts[order].astype(np.float32), user, item, score, parts, title)


def tabulate_costs(
    model: Recommender, heldout: Any, miss: float | None, false_alarm: float | None, lengths: Sequence[int]
) -> ResultTable:
    """Return a row for each choice: nothing, the best items, all that pay; see `Recommender.expected_cost`."""
    calibration, (price, alarm) = model.check_calibrated(), _find_prices(model, miss, false_alarm)
    for k in lengths:
        check_whole("lengths", k, least=1)
    names = ["nothing", *(f"the best {k}" for k in lengths), "all that pay"]
    n_items, rows = len(model.items_), np.arange(len(model.users_))
    activity = np.diff(model.seen_of_target.indptr)
    came = None if heldout is None else find_unseen_events(as_log(heldout), model).to_csr()
    n_shown, expected, paid = (np.zeros((len(rows), len(names))) for _ in range(3))
    for part, scores in score_blocks(model.score_rows, rows, n_items, seen=model.seen_of_target):
        is_open = scores > -np.inf
        said = np.where(is_open, calibration.probability(scores, activity[part, None], np.arange(n_items)), 0)
        lost = price * _find_factors(model, rows[part], n_items)
        order = np.argsort(-scores, axis=1, kind="stable")[:, : max([*lengths, 1])]
        shown = [np.zeros_like(is_open)]
        for k in lengths:
            best = np.zeros_like(is_open)
            np.put_along_axis(best, order[:, :k], values=True, axis=1)
            shown.append(best & is_open)
        shown.append((said * lost > (1 - said) * alarm) & is_open)
        true = None if came is None else came[rows[part]].toarray() > 0
        for at, mine in enumerate(shown):
            n_shown[part, at] = mine.sum(1)
            expected[part, at] = np.where(mine, (1 - said) * alarm, said * lost * is_open).sum(1)
            if true is not None:
                paid[part, at] = np.where(mine, ~true * alarm, true * lost).sum(1)
    lines = []
    for at, name in enumerate(names):
        line = {"choice": name, "items": float(n_shown[:, at].mean())} | _describe("expected", expected[:, at])
        lines.append(line if came is None else line | _describe("cost", paid[:, at]))
    return ResultTable.from_rows(lines)


def _find_prices(model: Recommender, miss: float | None, false_alarm: float | None) -> tuple[float, float]:
    """Return what a miss and a false alarm cost: as given, or by the model's costs."""
    if miss is None and false_alarm is None:
        params = model.get_params()
        if params.get("miss_cost") is not None:
            return float(params["miss_cost"]), float(params["false_alarm_cost"])
        if (least := model.decision_probability) is None:
            raise ParameterError(f"this {type(model).__name__} has no costs; give miss and false_alarm")
        return 1 / least - 1, 1.0
    if miss is None or false_alarm is None:
        raise ParameterError("miss and false_alarm go together")
    check_number("miss", miss, above=0)
    check_number("false_alarm", false_alarm, above=0)
    return float(miss), float(false_alarm)


def _find_factors(model: Recommender, rows: Any, n_items: int) -> Any:
    """Return how many times the cost of a miss that of each cell is, (n, n_items), or 1 for all."""
    common = model.decision_probability
    if common is None:
        return 1.0
    return (1 / model.decide_cells(rows[:, None], np.arange(n_items)) - 1) / (1 / common - 1)


def _describe(name: str, values: Float64Array) -> dict[str, float]:
    """Return the mean of users' values, (n,), and the ends of its 95 % interval."""
    mean, half = float(values.mean()), 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


PAIRS, USERS = 2**15, 2**8
"""Number of pairs scored at a time, and of the users whose scores of all items these are taken from."""


Method = TypeVar("Method", bound=Callable[..., Any])


class NotFittedError(RuntimeError):
    """Raised when a model is used before `fit`."""


def change_at_once(method: Method) -> Method:
    """Return a method that changes a model, as one that works on a copy, whose state the model takes in one assignment.

    Until then other threads see the model as it was, and that it stays if the method fails.
    """

    @wraps(method)
    def work_aside(self: Any, *args: Any, **kwargs: Any) -> Any:
        aside = _copy_state(self)
        answer = method(aside, *args, **kwargs)
        self.__dict__ = aside.__dict__
        return self if answer is aside else answer

    return cast(Method, work_aside)


def ask_one_state(method: Method) -> Method:
    """Return a method that reads a model, as one that reads the state at the call, whatever other threads change."""

    @wraps(method)
    def ask_copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(_copy_state(self), *args, **kwargs)

    return cast(Method, ask_copy)


def _copy_state(model: Any) -> Any:
    """Return another object of the model's class with the same attributes."""
    copied = object.__new__(type(model))
    copied.__dict__ = model.__dict__.copy()
    return copied


@explain_names
class Recommender(ABC):
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
    `csrr.register` makes the class known to `csrr.load` by its name.

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
    """Whether scores are meaningful for users without training events; else these get popular items."""
    walked: ClassVar[tuple[str, ...]] = ()
    """Parameters along which one fit can begin where another ended: `fit(data, start=)`."""
    kept: ClassVar[FileSchema | None] = None
    """What `state` returns, declared: files are checked by it. None for a model that says no more than `state` does."""
    _likeness: ClassVar[slice] = slice(None)
    """The columns of the factors by which users, or items, are alike."""
    _expected: Log | None = None
    _types: EventTypes | None = None
    _target_events: sparse.csr_array[np.float32, tuple[int, int]] | None = None
    _recent: Float64Array | None = None
    """The training events of each item, recent ones counting more; None of a log without times."""
    _ages: Float64Array | None = None
    """How long before the last training event each item was first seen; None of a log without times."""
    _made: dict[str, Any]
    """What was computed of the state when it was first asked for; copies of the state share it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in {"fit", "update"} & vars(cls).keys():
            setattr(cls, name, change_at_once(vars(cls)[name]))
        # Wrong names of arguments are explained in models of your own too.
        explain_names(cls)

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
            If there are no events.
        """
        log = as_log(data)
        if len(log) == 0:
            raise ParameterError("the log has no events; there is nothing to fit")
        return log

    def remember(self, log: Log) -> None:
        """Store what recommending needs of the training log.

        Parameters
        ----------
        log
            The training log.
        """
        table, self._expected = self.item_table_ if log is self._expected else None, None
        self.users_, self.items_, self.titles_ = log.users, log.items, log.titles
        self.item_table_ = None if table is None else replace(table.align(log.items), titles=log.titles)
        self.seen_ = log.to_csr()
        self.seen_weights_ = log.weights if self.weighs(log) else None
        self.seen_times_ = log.times
        self.remember_types(log.types)
        self.calibration_ = None
        if log.times is None:
            self.remember_recent(None)
            return
        events = log.item_rows, log.times, log.n_items
        self.remember_recent(count_recent(log.user_rows, *events), measure_ages(*events))

    def expect(self, log: Log) -> Log:
        """Announce a log that extends the training log, so that `remember` keeps the item table.

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

    def remember_types(self, types: EventTypes | None) -> None:
        """Store the types of the training events.

        Parameters
        ----------
        types
            Those of the log; None where it has none.
        """
        self._types, self._target_events = None if types is None else replace(types, times=None), None

    @property
    def event_types(self) -> EventTypes | None:
        """The types of the training events, without their times; None where the log had none."""
        return self._types

    @property
    def seen_of_target(self) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """The training events that lists leave out, sparse of shape (n_users, n_items): those of the target type.

        Without a target these are all. What was viewed and not bought may be recommended where the target is to buy.
        """
        if self._types is None or self._types.target is None:
            return self.seen_
        if self._target_events is None:
            self._target_events = self.training_log().of_target().to_csr()
        return self._target_events

    def remember_recent(self, counts: Float64Array | None, ages: Float64Array | None = None) -> None:
        """Store the recent popularity of items, and their ages.

        Parameters
        ----------
        counts
            The training events of each item, recent ones counting more, shape (n_items,); None where times are unknown.
        ages
            How long before the last training event each item was first seen, shape (n_items,); None where unknown.
        """
        self._recent, self._ages, self._made = counts, ages, {}

    @change_at_once
    def set_items(self, items: Any) -> Self:
        """Attach an item table to the model, and return the model. `update` keeps the table, a new `fit` drops it.

        Titles of the table take precedence over those of the log. The rules of `recommend` use its columns, and it is
        saved with the model.

        Parameters
        ----------
        items
            An `ItemTable`, or what `csrr.read_items` takes: a path, a table, a dict of columns. Items that the model
            does not know are ignored; items that are not in the table have missing values.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            If the table cannot be used, or has none of the model's items.

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
        """Unit vectors of items, shape (n_items, d), whose products are similarities.

        They are the scaled factors; in a model without factors, sketches of the users who chose an item, whose products
        estimate the cosine.
        """
        if "vectors" not in self._made:
            of_factors = self.has_factors
            made = (
                normalise_rows(self.item_factors_[:, self._likeness])
                if of_factors
                else sketch_rows(self.seen_.T.tocsr())
            )
            self._made["vectors"] = made
        vectors: Float32Array = self._made["vectors"]
        return vectors

    @property
    def weighs_events(self) -> bool:
        """Whether the model uses event weights; an update then needs them. Your own model may override it."""
        kind = getattr(self, "event_weights", "ignore")
        return self.seen_weights_ is not None if kind == "auto" else kind != "ignore"

    def weighs(self, log: Log) -> bool:
        """Return whether a fit to a log uses its weights.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        weighs
            Whether it does: "auto" weights are used where they were given by event type.
        """
        if getattr(self, "event_weights", None) == "auto":
            return log.types is not None and log.weights is not None
        return self.weighs_events

    @property
    def fades_events(self) -> bool:
        """Whether the model uses event times."""
        return getattr(self, "half_life", None) is not None

    def weigh(self, log: Log) -> Log:
        """Return a log with the weights that the fit uses: those of its events, decayed if there is a `half_life`.

        Parameters
        ----------
        log
            The training log.

        Returns
        -------
        log
            The weighted log.
        """
        if not self.fades_events:
            return log
        return (log if self.weighs(log) else replace(log, weights=None)).decay(getattr(self, "half_life"))  # noqa: B009

    def _weigh_new(self, clicks: Any) -> Any:
        """Return clicks of new people, or on new items, faded where the model fades and their times are known."""
        if not self.fades_events or isinstance(clicks, list | tuple):
            return clicks
        log = as_log(clicks)
        return self.weigh(log) if log.times is not None else log if self.weighs_events else replace(log, weights=None)

    @ask_one_state
    def training_log(self) -> Log:
        """Return the events that the model was fitted to.

        Returns
        -------
        log
            In their order, with event types if there were any, without weights or times.
        """
        rows = np.repeat(np.arange(len(self.users_), dtype=np.int32), np.diff(self.seen_.indptr))
        return Log(self.users_, self.items_, rows, self.seen_.indices, titles=self.titles_, types=self._types)

    @property
    def popularity(self) -> Float64Array:
        """Popularity of each item in the training data, shape (n_items,): its events, recent ones weighted more.

        The weight of an event halves with every tenth or third of the log's time span, with all of it, or never:
        whichever ranks best, by NDCG@10, what users chose in the last fifth of the events. Without times, all events
        count the same.
        """
        self.check_fitted()
        if self._recent is not None:
            return self._recent.copy()
        return np.bincount(self.seen_.indices, minlength=len(self.items_)).astype(np.float64)

    @property
    def recent_popularity(self) -> Float64Array | None:
        """`popularity` if the training log has times; else None."""
        return None if self._recent is None else self._recent.copy()

    @property
    def item_order(self) -> ItemOrder:
        """The order of items with equal scores: by popularity, then by number of events, then by row."""
        if "order" not in self._made:
            counts = np.bincount(self.seen_.indices, minlength=len(self.items_))
            self._made["order"] = ItemOrder.by_popularity(self.popularity, counts)
        order: ItemOrder = self._made["order"]
        return order

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has been called."""
        return hasattr(self, "seen_")

    def check_fitted(self) -> None:
        """Raise an error unless `fit` has been called.

        Raises
        ------
        NotFittedError
            If it has not.
        """
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(data) first")

    # Parameters

    def check_params(self) -> None:
        """Raise an error if a parameter is not valid.

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
            For scikit-learn; it has no effect, because no parameter is a model.

        Returns
        -------
        params
            The given values, or the defaults.
        """
        return {name: getattr(self, name) for name in list_defaults(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name, and return the model. Fitted attributes stay until the next `fit`.

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
        refuse_names(type(self).__name__, params, list_defaults(type(self)))
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of an estimator; it is imported only then."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def start_value(self, name: str, log: Log) -> float:
        """Return the value at which the search for an "auto" parameter starts.

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
            If the model has no such parameter.
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
        """Add events to the training data, refit on all of them, and return the model.

        Users and items may be new. An event that the model already has gets the sum of the weights and the latest
        time, as in `csrr.read`. Hyperparameters that the fit chose on held-out events stay. The result is that of a fit
        to all events with these hyperparameters. A calibration is dropped, because the scores change.

        Parameters
        ----------
        new_events
            A log, a table with user and item columns, or a users x items matrix. Ids must have the types of the
            model's ids.
        choose
            Whether to search "auto" parameters again, as `fit` does.

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        DataError
            If ids have other types, or weights or times that the model needs are missing.

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
            return multiply_factors(self.user_factors_[rows], self.item_factors_)
        return self.score_histories(self.seen_, rows)

    def score_histories(self, seen: Any, rows: Rows) -> Float32Array:
        """Return the scores of all items, given histories.

        Parameters
        ----------
        seen
            Histories, a row each: csr of shape (n, n_items).
        rows
            The rows to score.

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
        """Return the scores used for lists: those of `score_rows`, but 0 for users without a history.

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

    @ask_one_state
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
        seen = check_sparse(seen, "seen") if sparse.issparse(seen) and seen is not self.seen_ else seen
        order = self.item_order
        return top_k(self.score_lists, rows, len(self.items_), k, seen=seen, candidates=candidates, order=order)

    @overload
    def score(self, users: Log, items: None = None) -> float: ...

    @overload
    def score(self, users: Any, items: Any = None) -> Float32Array: ...

    @ask_one_state
    def score(self, users: Any, items: Any = None) -> Float32Array | float:
        """Return the scores of user-item pairs, or of users and all items.

        Parameters
        ----------
        users, items
            Ids, the same number of each; a single id is paired with all of the others. For scikit-learn, `users` may
            be a log or table of held-out events.

        Returns
        -------
        scores
            Shape (n,); without `items`, (n, n_items). For held-out events: the mean NDCG@10 over users, training
            events left out.

        Raises
        ------
        ValueError
            If the numbers of users and items differ.

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
            What to do with ids that the model does not know: "raise" an error, or "ignore": items are left out, with an
            `UnknownIdWarning`, and users get popular items.
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
            - ``at_most={"genre": 2}``: at most two of each category in a list,
              or ``{"genre": {"RPG": 1}}``: of one category. Lists are filled as long as an item is allowed.
            - ``at_least={"genre": {"Indie": 1}}``: the last places are reserved for missing categories.
            - ``diversity=0.3``: maximal marginal relevance among the best 5 k items, at least 50: each place gets the
              largest (1 - d) * relevance - d * similarity, where relevance is scaled to [0, 1] among them, and
              similarity is the largest cosine (`item_vectors`; or a column: ``diversity_by="genre"``) to the items
              above.

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
        people = self._find_people(users, reader)
        wishes = RecommendOptions(k, exclude_seen, candidates, exclude, min_probability, min_score, columns, rules)
        with nullcontext() if threads is None else use_threads(threads):
            return make_lists(self, people, self.score_rows, wishes, reader)

    def _find_people(self, users: Any, reader: IdLookup) -> UserBatch:
        """Return those who are asked for: one id, several, or None for all."""
        asked = self.users_.ids if users is None else read_asked(list_ids(users), reader)
        rows = np.arange(len(self.users_)) if users is None else reader.find(self.users_, asked)
        done = None if self.seen_of_target is self.seen_ else take_rows(self.seen_of_target, rows)
        return UserBatch(asked, rows, self.users_, take_rows(self.seen_, rows), done)

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
        return recommend_in_batches(self, users, k, batch_users, options)

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

    @ask_one_state
    def fold_in(self, histories: Any, *, unknown: Unknown = "raise") -> FoldedUsers:
        """Fold in new users by their histories; return an object with their scores and recommendations.

        The item parameters stay fixed. Users with an empty history, or with unknown items only, get popular items.

        Parameters
        ----------
        histories
            A list of histories, each a list of item ids or a dict from item ids to weights; or a log (table, matrix)
            of the model's items. Weights are used as in `fit`: a model fitted without weights refuses a dict with
            weights other than 1, and ignores those of a log.
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
        users, seen = read_histories(self, self._weigh_new(histories), reader)
        reader.warn()
        return self.fold_users(users, seen)

    def fold_users(self, users: npt.NDArray[Any], seen: Any) -> FoldedUsers:
        """Fold in new users, given by ids and histories.

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
        return self.fold_items(*read_new_items(self._weigh_new(clicks), self.users_, self.items_, self.history_weight))

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
        self, history: Any, k: int = 10, *, unknown: Unknown = "raise", **options: Any
    ) -> Recommendations:
        """Return the best items for a new user, given by a history.

        Parameters
        ----------
        history
            The ids of the user's items, or one id; or a dict from item ids to weights, as for `fold_in`. An empty
            history gives popular items.
        k
            The number of items.
        unknown
            As for `recommend`; it also applies to the history.
        **options
            Those of `recommend`, except `threads`. Items per user are for user 0.

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
        """Learn from held-out events how scores map to probabilities; return the calibration, kept as `calibration_`.

        It counts all cells that are not in the training data, also those of users without held-out events; without
        these, every probability would be too high. The calibration is saved with the model; a new `fit` drops it.

        Parameters
        ----------
        heldout
            A log, or anything that `csrr.read` takes. Events of unknown users or items, and events of the training
            data, are left out.
        observed_share
            The share of all positives that training and held-out events show together; see `Calibration`.
        users
            The ids of the users that `heldout` covers, if not all.
        n_groups
            The number of groups of items by training events, and of users likewise, from 1 to 20. Each pair of
            groups gets its own curve, shrunk toward the common one if it has few positives: a single curve can be too
            high for some groups and too low for others. With 1 there is one curve, and probabilities have the order
            of scores.

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

    @ask_one_state
    def reliability(self, heldout: Any, *, users: Any = None, observed_share: float | None = None) -> Reliability:
        """Compare probabilities with held-out events that `calibrate` has not seen.

        Parameters
        ----------
        heldout, users
            As for `calibrate`.
        observed_share
            The share of all positives that training and these held-out events show; None: that of the calibration.

        Returns
        -------
        reliability
            Predicted and observed rates; `by_popularity` and `by_activity` give them by groups of items and users.
        """
        self.check_fitted()
        return measure_reliability_on(heldout, self, self.user_rows(users), observed_share)

    @ask_one_state
    def probability(self, users: Any, items: Any = None) -> npt.NDArray[np.float64]:
        """Return the probability that a user chooses an item, for pairs not in the training data.

        Parameters
        ----------
        users, items
            As for `score`.

        Returns
        -------
        probabilities
            The shape is that of `score`.

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
        """The probability above which recommending pays, given the model's costs; None without costs."""
        return None

    def expected_cost(
        self,
        heldout: Any = None,
        *,
        miss: float | None = None,
        false_alarm: float | None = None,
        lengths: Sequence[int] = (1, 5, 10, 20),
    ) -> ResultTable:
        """Return what showing nothing, the best items, or all items that pay is expected to cost a user.

        Parameters
        ----------
        heldout
            Events that neither the fit nor `calibrate` has seen: then the table also says what each choice did cost.
        miss, false_alarm
            The costs; default: those of the model.
        lengths
            Lengths of lists.

        Returns
        -------
        table
            A row for each choice: choice, items a user, expected, cost if there are held-out events, and the ends of
            their 95 % intervals over users. Costs are those of events as many as calibration was learned from.

        Raises
        ------
        ParameterError
            Before `calibrate`, or without costs.

        Examples
        --------
        >>> train, rest = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log, ratio=0.6)
        >>> heldout, test = csrr.split(rest, ratio=0.5)
        >>> model = csrr.CSRR(miss_cost=5, false_alarm_cost=1).fit(train)
        >>> calibration = model.calibrate(heldout)
        >>> list(model.expected_cost(test, lengths=[5])["choice"])
        ['nothing', 'the best 5', 'all that pay']
        """

        self.check_fitted()
        return tabulate_costs(self, heldout, miss, false_alarm, lengths)

    def decide_cells(self, user_rows: Rows, item_rows: Rows) -> Any:
        """Return the probability above which recommending a cell pays.

        Parameters
        ----------
        user_rows, item_rows
            Their rows, of shapes that go together; -1 for users and items that the model does not know.

        Returns
        -------
        probabilities
            One for all, or of the common shape.
        """
        return self.decision_probability

    def check_calibrated(self) -> Calibration:
        """Return the calibration.

        Returns
        -------
        calibration
            What `calibrate` kept.

        Raises
        ------
        ParameterError
            If there is none.
        """
        if self.calibration_ is None:
            raise ParameterError(
                f"this {type(self).__name__} has no probabilities yet; call calibrate(heldout) with events that it was"
                " not fitted to (on the command line, csrr calibrate)"
            )
        return self.calibration_

    # What is alike

    @overload
    def similar_items(self, items: Id, k: int = 10, **options: Unpack[ItemLikeOptions]) -> Neighbors: ...

    @overload
    def similar_items(self, items: Any, k: int = 10, **options: Unpack[ItemLikeOptions]) -> NeighborLists: ...

    @ask_one_state
    def similar_items(
        self,
        items: Any,
        k: int = 10,
        *,
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

        Examples
        --------
        >>> model = csrr.WRMF(4).fit(csrr.synthetic(60, 40, events_per_user=10).log)
        >>> len(model.similar_items(7, k=3)), model.similar_items([7, 8, 9], k=3).ids.shape
        (3, (3, 3))
        """
        chosen = LikenessOptions(candidates, exclude, unknown, where)
        return find_similar_items(self, items, k, self.score_similar_items, chosen)

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
    def similar_users(self, users: Id, k: int = 10, **options: Unpack[LikeOptions]) -> Neighbors: ...

    @overload
    def similar_users(self, users: Any, k: int = 10, **options: Unpack[LikeOptions]) -> NeighborLists: ...

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
        return find_similar_users(self, users, k, LikenessOptions(candidates, exclude, unknown))

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
        method = getattr(cls, ability, None)
        if method is None or method is not getattr(Recommender, ability, None):
            return method is not None
        # The contract's own methods ask for something that not all models give.
        if ability.startswith("similar"):
            return cls.has_factors or getattr(cls, f"score_{ability}") is not getattr(Recommender, f"score_{ability}")
        if ability == "fold_in_items":
            return cls.fold_items is not Recommender.fold_items
        if ability == "suspects":
            return cls.score_own is not Recommender.score_own or cls.leave_out is not Recommender.leave_out
        return True

    # Noisy clicks

    @ask_one_state
    def suspects(self, *, popularity: float = 0.0) -> Suspects:
        """Score each training event by how much it looks like noise, and rank users and items by it.

        Parameters
        ----------
        popularity
            Noise is assumed to hit an item in proportion to (its clicks + 1)^popularity. 0 suits random clicks; 0.5
            finds more noise on popular and on pushed items, and takes more genuine clicks for noise.

        Returns
        -------
        suspects
            A score for each event: the probability of noise under the assumptions of `Suspects`.

        Raises
        ------
        NotImplementedError
            If the model cannot score a click without using that click.
        """
        self.check_fitted()
        return find_suspects(self, popularity=popularity)

    def score_own(self) -> Float32Array:
        """Return the leave-one-out score of each training event: its score without its own influence.

        Returns
        -------
        scores
            Shape (n_events,), in the order of `seen_`.
        """
        raise NotImplementedError(f"a {type(self).__name__} cannot score a click without its own influence")

    def noise_model(self) -> Any:
        """Return the model that scores clicks for `suspects`.

        Returns
        -------
        judge
            This model, or a refit of it with suitable regularization.
        """
        return self

    def leave_out(self) -> LeaveOneOut:
        """Return the values of all cells from which noise is estimated.

        Returns
        -------
        values
            The values of clicks are leave-one-out.
        """
        return LeaveOneOut(
            Pattern.of(self.seen_), self.score_own(), lambda rows, items: self.score_rows(rows)[:, items]
        )

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

    @ask_one_state
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically; `csrr.load` reads it.

        Parameters
        ----------
        path
            The file; an existing one is replaced.

        Examples
        --------
        >>> csrr.PopRank().fit(csrr.synthetic(60, 40, events_per_user=10).log).save("popular.csrr")
        >>> csrr.load("popular.csrr")
        PopRank(), fitted to 60 users x 40 items
        """
        self.check_fitted()
        write_model(path, self)

    def state(self) -> ModelState:
        """Return the fitted state, without the training log, for saving.

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
