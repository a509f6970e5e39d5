"""A model and the events that it was fitted to: parameters, fit, update, item table, file."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from csrr._base.progress import Callback, show_live_line
from csrr._base.text import fold_html, format_html_facts, format_html_table, format_html_words
from csrr.data.columns import Times
from csrr.data.errors import DataError, DataWarning, warn_caller
from csrr.data.event_types import EventTypes
from csrr.data.ids import IdMap
from csrr.data.items import ItemTable, read_items
from csrr.data.log import Log, as_log, join_logs
from csrr.data.split import describe_loaded_times
from csrr.models.schema import Arrays, FileSchema, ModelFileError, sparse_arrays, sparse_from
from csrr.models.store import ModelState, read_plain_shape, write_model
from csrr.parameters import ParameterError, check_params, explain_names, list_defaults, list_parameters, refuse_names
from csrr.ranking.calibration import Calibration
from csrr.ranking.rules import normalize_rows, sketch_rows
from csrr.ranking.topk import ItemOrder, count_recent, measure_ages

Method = TypeVar("Method", bound=Callable[..., Any])


class NotFittedError(RuntimeError):
    """Raised when a model is used before `fit`."""


@contextmanager
def follow_steps(callback: Callback | None, *, verbose: bool, aim: float | None = None) -> Iterator[Callback | None]:
    """Give the function that a fit calls with each step: `callback`; with `verbose` one that shows the step, too."""
    if not verbose:
        yield callback
        return
    with show_live_line(aim, every=1.0) as line:

        def tell(step: Any) -> None:
            line.step(step)
            if callback is not None:
                callback(step)

        yield tell


@contextmanager
def explain_memory(engine: Any) -> Iterator[None]:
    """Turns an error of a device that has no more memory into a ParameterError that says how much was asked for."""
    try:
        yield
    except RuntimeError as error:
        asked = re.search(r"[Tt]ried to allocate (\d+ bytes|[\d.]+ [KMGT]iB)", str(error))
        if asked is None:
            raise
        has = re.search(r"total capacity of ([\d.]+ [KMGT]iB) of which ([\d.]+ [KMGT]iB) is free", str(error))
        there = f" has {has[1]}, {has[2]} of it free, and" if has else ""
        raise ParameterError(
            f"the memory of the engine{there} does not hold {asked[1]} more; lower max_rank or neighbors, leave out"
            ' rare items, or use engine="threads"',
            parameter="engine",
            value=engine,
        ) from None


def change_at_once(method: Method) -> Method:
    """Return a method that changes a copy of the model, whose state the model then takes in one assignment.

    Until then other threads see the model as it was, and it stays so if the method fails.
    """

    @wraps(method)
    def change_copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        aside = _copy_state(self)
        answer = method(aside, *args, **kwargs)
        self.__dict__ = aside.__dict__
        return self if answer is aside else answer

    return cast(Method, change_copy)


def ask_one_state(method: Method) -> Method:
    """Return a method that reads the model as it was at the call, whatever other threads change meanwhile."""

    @wraps(method)
    def ask_copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(_copy_state(self), *args, **kwargs)

    return cast(Method, ask_copy)


def _copy_state(model: Any) -> Any:
    """Return another object of the model's class with the same attributes."""
    # Copies of a state share what is computed of it.
    model.__dict__.setdefault("_computed", {})
    copied = object.__new__(type(model))
    copied.__dict__ = model.__dict__.copy()
    return copied


def _update_at_once(update: Method) -> Method:
    """Return a method `update` that works as `change_at_once`, and after which the model still has its item table."""

    @wraps(update)
    def update_with_table(self: Any, *args: Any, **kwargs: Any) -> Any:
        table = self.item_table_
        answer = update(self, *args, **kwargs)
        if self.item_table_ is None and table is not None:
            self.item_table_ = replace(table.align(self.items_), titles=self.titles_)
        return answer

    return change_at_once(cast(Method, update_with_table))


@explain_names
class Estimator(ABC):
    """The part of `Recommender` that has to do with fitting: parameters, the training events, update, saving."""

    users_: IdMap
    items_: IdMap
    titles_: npt.NDArray[np.object_] | None
    item_table_: ItemTable | None = None
    seen_: sparse.csr_array[np.float32, tuple[int, int]]
    seen_weights_: Float32Array | None = None
    seen_times_: Times | None = None
    seen_ages_: Int32Array | None = None
    calibration_: Calibration | None = None
    user_factors_: Float32Array
    item_factors_: Float32Array

    event_types: EventTypes | None = None
    """The types of the training events, without their times; None where the log had none."""
    recent_popularity: Float64Array | None = None
    """The events of each item, recent ones weighted more, shape (n_items,); None where the log had no times."""
    item_ages: Float64Array | None = None
    """The time from when each item was first seen to the last training event, shape (n_items,); None without times."""

    item_counts: Int64Array | None = None
    """The events of each item, shape (n_items,), where the users are not in the model; else None."""

    has_factors: ClassVar[bool] = False
    """Whether scores are products of `user_factors_`, (n_users, d), and `item_factors_`, (n_items, d)."""
    knows_everyone: ClassVar[bool] = False
    """Whether scores are meaningful for users without training events; else these get popular items."""
    walked: ClassVar[tuple[str, ...]] = ()
    """Parameters along which one fit can begin where another ended: `fit(data, start=)`."""
    search_space: ClassVar[Mapping[str, Any] | None] = None
    """The values that `csrr.tune` tries for parameters: lists, `Range` or `Walk`; None: its caller gives them."""
    file_schema: ClassVar[FileSchema | None] = None
    """The declaration of what `state` returns, by which files are checked; None where there is none."""
    _likeness: ClassVar[slice] = slice(None)
    """The columns of the factors by which users, or items, are alike."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, wrap in (("fit", change_at_once), ("update", _update_at_once)):
            if name in vars(cls):
                setattr(cls, name, wrap(vars(cls)[name]))
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

    # The training events

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
        self.users_, self.items_, self.titles_ = log.users, log.items, log.titles
        self.item_table_, self.calibration_, self.item_counts = None, None, None
        self.seen_ = log.to_csr()
        self.event_types = None if log.types is None else replace(log.types, times=None)
        self.seen_weights_ = log.weights if uses_weights(self, log) else None
        self.seen_times_ = log.times
        self.seen_ages_ = log.find_ages() if self._keeps_order and log.is_ordered else None
        # A split in time has told of it already.
        if self._keeps_order and log.cut is None and (doubt := describe_loaded_times(log)) is not None:
            warn_caller(doubt, DataWarning)
        self.recent_popularity, self.item_ages = None, None
        if log.times is not None:
            events = log.item_rows, log.times, log.n_items
            self.recent_popularity, self.item_ages = count_recent(log.user_rows, *events), measure_ages(*events)
        self._computed: dict[str, Any] = {}

    def _compute_once(self, name: str, compute: Callable[[], Any]) -> Any:
        """Return a value computed of the fitted state: once, for all copies of that state."""
        computed = self.__dict__.setdefault("_computed", {})
        if name not in computed:
            computed[name] = compute()
        return computed[name]

    @property
    def seen_of_target(self) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """The training events that lists leave out, sparse of shape (n_users, n_items): those of the target type.

        Without a target these are all. What was viewed and not bought may be recommended where the target is to buy.
        """
        if self.event_types is None or self.event_types.target is None:
            return self.seen_
        found: sparse.csr_array[np.float32, tuple[int, int]] = self._compute_once(
            "seen_of_target", lambda: self.training_log().of_target().to_csr()
        )
        return found

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
    def item_vectors(self) -> Float32Array:
        """Unit vectors of items, shape (n_items, d), whose products are similarities.

        They are the scaled factors; in a model without factors, sketches of the users who chose an item, whose products
        estimate the cosine.
        """

        def compute() -> Float32Array:
            if self.has_factors:
                return normalize_rows(self.item_factors_[:, self._likeness])
            return sketch_rows(self.seen_.T.tocsr())

        vectors: Float32Array = self._compute_once("item_vectors", compute)
        return vectors

    @property
    def weighs_events(self) -> bool:
        """Whether the model uses event weights; an update then needs them. Your own model may override it."""
        kind = getattr(self, "event_weights", "ignore")
        return self.seen_weights_ is not None if kind == "auto" else kind != "ignore"

    @property
    def uses_order(self) -> bool:
        """Whether the model learns from the order of events, which is then kept. Your own model may override it."""
        return getattr(self, "order", "ignore") != "ignore"

    @property
    def _keeps_order(self) -> bool:
        return self.uses_order

    @property
    def reads_order(self) -> bool:
        """Whether scores depend on the order of histories, which are then as in `histories`, once the model is fitted.

        They do if the fit kept the order, unless the model found it useless.
        """
        return self.seen_ages_ is not None

    @property
    def histories(self) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """The training events as `score_histories` takes them, sparse of shape (n_users, n_items).

        They are ones or, where `reads_order`, 1 for the latest event of a user, 2 for the one before it, and so on.
        """
        ages = self.seen_ages_
        if ages is None or not self.reads_order:
            return self.seen_

        def compute() -> Any:
            parts = (ages + 1).astype(np.float32), self.seen_.indices, self.seen_.indptr
            return sparse.csr_array(parts, shape=self.seen_.shape)

        found: sparse.csr_array[np.float32, tuple[int, int]] = self._compute_once("histories", compute)
        return found

    @ask_one_state
    def training_log(self) -> Log:
        """Return the events that the model was fitted to.

        Returns
        -------
        log
            In their order, with event types if there were any, without weights or times. If the model uses the order
            of events, that is kept.
        """
        rows = np.repeat(np.arange(len(self.users_), dtype=np.int32), np.diff(self.seen_.indptr))
        places = None if self.seen_ages_ is None else -self.seen_ages_
        given = self.users_, self.items_, rows, self.seen_.indices
        return Log(*given, titles=self.titles_, types=self.event_types, places=places)

    @property
    def popularity(self) -> Float64Array:
        """Popularity of each item in the training data, shape (n_items,): its events, recent ones weighted more.

        The weight of an event halves with every tenth or third of the log's time span, with all of it, or never:
        whichever ranks best, by NDCG@10, what users chose in the last fifth of the events. Without times, all events
        count the same.
        """
        self.check_fitted()
        if self.recent_popularity is not None:
            return self.recent_popularity.copy()
        if self.item_counts is not None:
            return self.item_counts.astype(np.float64)
        return np.bincount(self.seen_.indices, minlength=len(self.items_)).astype(np.float64)

    @property
    def item_order(self) -> ItemOrder:
        """The order of items with equal scores: by popularity, then by number of events, then by row."""

        def compute() -> ItemOrder:
            counts = np.bincount(self.seen_.indices, minlength=len(self.items_))
            return ItemOrder.by_popularity(self.popularity, counts)

        order: ItemOrder = self._compute_once("item_order", compute)
        return order

    @property
    def described_users(self) -> BoolArray | None:
        """Which users have scores that mean something without events, shape (n_users,), by their features; or None."""
        return None

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
        """Return the tags of an estimator of scikit-learn, which is imported only here."""
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
        given = {name: value for name, value in self.get_params().items() if _differs(value, defaults[name])}
        call = f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        if not self.is_fitted:
            return call
        return f"{call}, fitted to {len(self.users_):,} users x {len(self.items_):,} items"

    def _repr_html_(self) -> str:
        parts = [format_html_words(repr(self) if self.is_fitted else f"{self!r}, not fitted yet")]
        if self.is_fitted:
            parts.append(format_html_facts(_list_facts(self)))
            certificate = getattr(self, "certificate_", None)
            if certificate is not None:
                parts.append(fold_html(f"Certificate: {certificate}", certificate._repr_html_()))
        rows = _list_parameters(self)
        if rows:
            n_set = sum(bool(is_set) for *_, is_set in rows)
            title = f"{len(rows)} parameters, {n_set} of them set"
            parts.append(fold_html(title, format_html_table(("parameter", "value", "fitted", ""), rows)))
        return "\n".join(parts)

    # New events, and files

    @_update_at_once
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
        arrays: Arrays = {}
        facts: dict[str, Any] = {}
        for name in filter(is_fitted_name, vars(self)):
            value: Any = getattr(self, name)
            if isinstance(value, sparse.csr_array):
                arrays |= sparse_arrays(name, value)
                facts[name] = {"shape": list(value.shape)}
            elif isinstance(value, np.ndarray):
                arrays[name] = value
            elif value is None or isinstance(value, bool | int | float | str | np.generic):
                facts[name] = value
            else:
                raise NotImplementedError(
                    f"{type(self).__name__}.{name}, a {type(value).__name__}, cannot be saved as it is: write the"
                    " methods state and restore"
                )
        return arrays, facts

    def restore(self, arrays: Arrays, facts: dict[str, Any]) -> None:
        """Set what `state` returned.

        Parameters
        ----------
        arrays, facts
            As `state` returned them.
        """
        # A file must not set an attribute that is not fitted.
        alone, kind = set(arrays), type(self).__name__
        for name, value in facts.items():
            if not is_fitted_name(name) or name in arrays:
                raise ModelFileError(f"a fact {name!r} is no fitted attribute of a {kind}")
            if isinstance(value, dict):
                alone -= {f"{name}.{part}" for part in ("indptr", "indices", "data")}
                setattr(self, name, sparse_from(arrays, name, read_plain_shape(arrays, name, value)))
            elif value is None or isinstance(value, bool | int | float | str):
                setattr(self, name, value)
            else:
                raise ModelFileError(f"the fact {name!r} is a {type(value).__name__}, not a plain value")
        for name in alone:
            if not is_fitted_name(name):
                raise ModelFileError(f"an array {name!r} is no fitted attribute of a {kind}")
            setattr(self, name, arrays[name])


_KEPT_BY_ALL = re.compile("(users|items|titles|item_table|seen(_weights|_times|_ages)?|calibration)_")


def is_fitted_name(name: str) -> bool:
    """Return whether an attribute is one that a fit sets beyond what all models keep: its name ends in one `_`."""
    return re.fullmatch(r"[^_].*[^_]_", name) is not None and not _KEPT_BY_ALL.fullmatch(name)


def _list_facts(model: Estimator) -> dict[str, object]:
    """Return the size of a fitted model, and facts such as its rank."""
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


def _list_parameters(model: Estimator) -> list[tuple[str, str, str, str]]:
    """Return each parameter: its name, its value, the number that a fit found for it, and "set" unless by default."""
    defaults = list_defaults(type(model))
    return [
        (name, repr(value), _find_fitted(model, name, value), "set" if _differs(value, defaults[name]) else "")
        for name, value in model.get_params().items()
    ]


def _find_fitted(model: Estimator, name: str, value: Any) -> str:
    """Return the number that a fit found for an open parameter, as text; empty if there is none."""
    if not model.is_fitted or not (value is None or isinstance(value, str)):
        return ""
    settled = model.settled_params() if hasattr(model, "settled_params") else {}
    found = settled.get(name, getattr(model, f"{name}_", None))
    return f"{found:.4g}" if isinstance(found, int | float) and not isinstance(found, bool) else ""


def _differs(value: Any, default: Any) -> bool:
    """Return whether a parameter is not the default."""
    return value is not default and not np.array_equal(value, default)


# The events of a fit: weighed as the model weighs them, and joined with new ones


def uses_times(model: Estimator) -> bool:
    """Return whether a model weighs events by their age."""
    return getattr(model, "half_life", None) is not None


def uses_weights(model: Estimator, log: Log) -> bool:
    """Return whether a fit to a log uses its weights: "auto" uses those given by event type."""
    if getattr(model, "event_weights", None) == "auto":
        return log.types is not None and log.weights is not None
    return model.weighs_events


def weigh(model: Estimator, log: Log) -> Log:
    """Return a log with the weights that a fit uses: those of its events, decayed if there is a `half_life`."""
    if not uses_times(model):
        return log
    return (log if uses_weights(model, log) else replace(log, weights=None)).decay(getattr(model, "half_life"))  # noqa: B009


def join_events(model: Estimator, new_events: Any) -> Log:
    """Return the training events of a model and new ones, with the weights and times by which it weighs them."""
    model.check_fitted()
    known, new = model.training_log(), model.read(new_events)
    columns: dict[str, tuple[bool, Any, Any]] = {
        "weights": (model.weighs_events, model.seen_weights_, new.weights),
        "times": (uses_times(model), model.seen_times_, new.times),
    }
    for name, (is_needed, of_known, of_new) in columns.items():
        if is_needed and of_known is None:
            raise DataError(
                f"this {type(model).__name__} weighs events by their {name}, and those of its training events were not"
                " kept (it was fitted without); fit it to the whole log"
            )
        if is_needed and of_new is None:
            raise DataError(f"this {type(model).__name__} weighs events by their {name}, and the new ones have none")
    if model.seen_ages_ is not None and not new.is_ordered:
        raise DataError(
            f"this {type(model).__name__} learns from the order of events, and the new ones have none: read them with a"
            " column of times, or, if their rows are in order, with ordered=True"
        )
    # Weights and an order that the model does not use are dropped. Times give recent popularity if all events have
    # them.
    weights = (model.seen_weights_, new.weights) if model.weighs_events else (None, None)
    times = (model.seen_times_, new.times)
    times = times if all(each is not None for each in times) else (None, None)
    places = None if model.seen_ages_ is None else -new.find_ages()
    return join_logs(
        replace(known, weights=weights[0], times=times[0]),
        replace(new, weights=weights[1], times=times[1], places=places),
    )


def place_rows_by_id(values: AnyArray, known: IdMap, joined: IdMap) -> tuple[AnyArray, BoolArray]:
    """Return values of known ids, (n_known, ...), at the rows of joined ids, and which of these are new.

    Shapes (n_joined, ...), zeros for new ids, and (n_joined,).
    """
    rows = joined.rows(known.ids)
    placed = np.zeros((len(joined), *values.shape[1:]), values.dtype)
    placed[rows] = values
    is_new = np.ones(len(joined), np.bool_)
    is_new[rows] = False
    return placed, is_new


def count_clicks(clicks: Any, amounts: AnyArray | None = None) -> AnyArray:
    """Return the number of clicks of each user of a pattern or csr, at least 1, or the sum of their `amounts`: (n,)."""
    sums = None if amounts is None else np.concatenate([[0.0], np.cumsum(amounts, dtype=np.float64)])
    counts: AnyArray = np.maximum(np.diff(clicks.indptr if sums is None else sums[clicks.indptr]), 1)
    return counts


def resolve_rank(rank: Any, default: int, shape: tuple[int, int]) -> int:
    """Return the number of factors: as given, or by default as many as there are users or items at most."""
    most = min(shape)
    if rank is None:
        return min(default, most)
    if rank > most:
        raise ParameterError.of(
            "rank", rank, f"is beyond the matrix, {shape[0]} users x {shape[1]} items: at most {most}"
        )
    return int(rank)
