"""The log: distinct events of users and items by row, made from tables and matrices, and joined with later events."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse

from csrr._base.arrays import (
    BoolArray,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    ObjectArray,
    Rows,
    to_pandas,
)
from csrr._base.text import format_html_rows, show_argument, show_value
from csrr.data.columns import Times, describe_doubtful_ids, format_times, merge_by_key, parse_time, pick_rows
from csrr.data.errors import DataError, DataWarning, warn_caller
from csrr.data.event_types import EventTypes, RowTypes, join_types, narrow_weights
from csrr.data.ids import Id, IdMap, Ids, TitleMap, align_titles, drop_unused, join_ids, join_titles, place_rows
from csrr.data.matrix import is_matrix, read_entries
from csrr.data.tables import (
    ColumnKey,
    Events,
    LogColumns,
    OnBadRows,
    ReadOptions,
    Table,
    open_table,
    read_events,
    require_some,
)
from csrr.parameters import ParameterError, read_days

if TYPE_CHECKING:
    import pandas as pd


_logger = logging.getLogger(__name__)


class DistinctEvents(NamedTuple):
    """Distinct events sorted by user row, then item row; every array has shape (n,)."""

    user_rows: Int32Array
    item_rows: Int32Array
    weights: Float32Array | None
    times: Times | None
    types: EventTypes | None = None
    places: Int32Array | Int64Array | None = None

    def select(self, mask: BoolArray) -> DistinctEvents:
        """Return the events where `mask`, shape (n,), is true."""
        return DistinctEvents(*(pick_rows(each, mask) for each in self))


def number_pairs(user_rows: Rows, item_rows: Rows, n_items: int) -> Int64Array:
    """Return one number a (user, item) pair, shape (n,), ordered by user, then item."""
    pairs = user_rows.astype(np.int64)
    pairs *= n_items
    pairs += item_rows
    return pairs


def merge_repeats(
    user_rows: Int32Array,
    item_rows: Int32Array,
    weights: Float64Array | None,
    times: Times | None,
    n_items: int,
    types: RowTypes | None = None,
    *,
    ordered: bool = False,
) -> DistinctEvents:
    """Return distinct events: the weights of repeats summed, the latest time and all types kept, all of shape (n,).

    With times, or rows that are `ordered`, their places among the rows are kept, those of the latest of repeats.
    """
    keys = number_pairs(user_rows, item_rows, n_items)
    if weights is None and times is None and not ordered:
        keys.sort()
        if n_repeats := int(np.count_nonzero(keys[1:] == keys[:-1])):
            _logger.info("merged %d repeated (user, item) rows", n_repeats)
            keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        users, items = (np.empty(len(keys), np.int32) for _ in range(2))
        np.floor_divide(keys, n_items, out=users, casting="unsafe")
        np.remainder(keys, n_items, out=items, casting="unsafe")
        return DistinctEvents(users, items, None, None)
    first, last, summed, latest = merge_by_key(keys, weights, times)
    if len(first) < len(keys):
        _logger.info("merged %d repeated (user, item) rows", len(keys) - len(first))
    users, items = user_rows[first], item_rows[first]
    places = None
    if times is not None or ordered:
        places = last.astype(np.int32) if len(keys) < 2**31 else last
    if types is None or weights is None:
        return DistinctEvents(users, items, None if summed is None else narrow_weights(summed), latest, places=places)
    merged = types.merge(np.searchsorted(keys[first], keys), weights, times)
    return DistinctEvents(users, items, merged.sum_weights(), latest, merged, places)


_DAY = 86_400.0
MOST_HALVINGS = 10
"""After so many half-lives the weight stays constant: a thousandth, and the problem can still be solved."""


SHOWN = 5
"""The number of rows that a notebook shows."""


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """An immutable interaction log: one event per (user, item) pair, sorted by user row, then item row.

    Attributes
    ----------
    users
        The users' ids.
    items
        The items' ids.
    user_rows
        The user row of each event, shape (n_events,).
    item_rows
        The item row of each event, shape (n_events,).
    weights
        The weight of each event, above 0, shape (n_events,), if known.
    times
        The time of each event, in seconds since 1970, shape (n_events,), if known.
    titles
        The titles of the items, shape (n_items,), if known: str or None.
    columns
        If the log came from a table: which column was used for what, and which were not used. It does not affect
        equality.
    types
        The types of the events, such as views and purchases, with the one to judge by, if they were read: `EventTypes`.
    cut
        If the log is the training part of a split in time: "last" where each user's last event was held out, "share"
        where their last ones were, "time" where all from a time on were. It does not affect equality.
    places
        The rows of the table that events come from, shape (n_events,), if the log has times or was declared to be in
        order: the latest row of a pair. Of events of the same time the one in a later row is later.

    Examples
    --------
    >>> log = csrr.Log.from_table({"user": ["ann", "ann", "bob"], "item": [7, 9, 9]})
    >>> log
    Log: 2 users x 2 items, 3 events (75 %)
    user 'user', item 'item'
    >>> log.history("ann").tolist()
    [7, 9]
    """

    users: IdMap
    items: IdMap
    user_rows: Int32Array
    item_rows: Int32Array
    weights: Float32Array | None = None
    times: Times | None = None
    titles: ObjectArray | None = None
    columns: LogColumns | None = None
    types: EventTypes | None = None
    cut: Literal["last", "share", "time"] | None = None
    places: Int32Array | Int64Array | None = None

    def __post_init__(self) -> None:
        """Copy and check every array once, and make it read-only."""
        self._seal("user_rows", np.int32, len(self.user_rows))
        self._seal("item_rows", np.int32, len(self))
        self._seal("weights", np.float32, len(self))
        for name in ("times", "places"):
            self._seal(name, None, len(self))
        self._seal("titles", np.object_, self.n_items)
        if self.types is not None and self.types.amounts.shape != (len(self), len(self.types.names)):
            raise DataError(f"there are {len(self)} events, but types of {len(self.types.amounts)}")
        if len(self) == 0:
            return
        for rows, n in ((self.user_rows, self.n_users), (self.item_rows, self.n_items)):
            if rows.min() < 0 or rows.max() >= n:
                raise DataError(f"a row number lies outside {self.n_users} users x {self.n_items} items")
        rises = self.item_rows[1:] > self.item_rows[:-1]
        rises &= self.user_rows[1:] == self.user_rows[:-1]
        rises |= self.user_rows[1:] > self.user_rows[:-1]
        if not rises.all():
            raise DataError("events must be distinct and sorted by user row, then item row; use Log.from_table")
        if self.weights is not None and not ((self.weights > 0) & np.isfinite(self.weights)).all():
            raise DataError("weights must be finite and > 0")

    def _seal(self, name: str, dtype: Any, length: int) -> None:
        if getattr(self, name) is None:
            return
        array = np.array(getattr(self, name), dtype)
        if array.shape != (length,):
            raise DataError(f"{name} has shape {array.shape}, not ({length},)")
        array.flags.writeable = False
        object.__setattr__(self, name, array)

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        user: ColumnKey = None,
        item: ColumnKey = None,
        rating: ColumnKey = None,
        weight: ColumnKey = None,
        event: ColumnKey = None,
        time: ColumnKey = None,
        title: ColumnKey = None,
        weights: Mapping[Any, float] | None = None,
        target: str | int | None = None,
        min_rating: float | None = None,
        min_weight: float | None = None,
        titles: TitleMap | None = None,
        ordered: bool = False,
        on_bad_rows: OnBadRows = "error",
    ) -> Log:
        """Read a log from a table with one row per event.

        Columns are recognized by name (user_id, movieId, count, ...) unless given by name or position; False leaves one
        out. Repeated (user, item) pairs become one event with the sum of the weights, the latest time and all types.
        Only ids with an event left are in the log.

        Parameters
        ----------
        table
            A pandas, polars or pyarrow table, anything with `__arrow_c_stream__`, a dict of columns, or a list of
            tuples or dicts. Of tuples without names, the first value is the user and the second the item.
        user, item
            The columns of ids: integers or strings. UUIDs and bytes become strings, whole floats and decimals
            integers.
        rating
            The column of ratings, which are not kept.
        weight
            The column of weights. A weight of 0 means that nothing happened: the row is dropped.
        event
            The column of event types, such as view, cart and buy. It is never recognized, and needs `weights`.
        time
            The column of times: dates, text like 2000-12-31, or numbers that count seconds, milli-, micro- or
            nanoseconds since 1970.
        title
            The column of titles. If an item has several, the alphabetically first is used.
        weights
            The weight of each event type; times the weight column, if there is one.
        target
            The event type by which models are judged and chosen; None: all count.
        min_rating
            Keep rows with at least this rating.
        min_weight
            Keep events with at least this weight, summed over all rows of the pair.
        titles
            Titles by item id; they take precedence over a column.
        ordered
            Whether the rows are in the order in which things happened, oldest first: for tables without times. With
            times, rows break ties.
        on_bad_rows
            Whether a row without an id, with an invalid number or time, or of an event type without a weight, is an
            error or is skipped, with a `DataWarning`.

        Returns
        -------
        log
            The log, checked.

        Raises
        ------
        DataError
            If the table cannot be used; the message names the column and the row.
        ParameterError
            If an argument cannot be what it is.
        """
        if titles is not None and not isinstance(titles, Mapping):
            raise ParameterError.of("titles", titles, "must be a dict of titles by item id")
        roles = (user, item, rating, weight, event, time, title)
        options = ReadOptions(roles, weights, target, min_rating, min_weight, on_bad_rows, ordered=ordered)
        return read_log(open_table(table), options, titles=titles)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        user_ids: Any = None,
        item_ids: Any = None,
        titles: TitleMap | Sequence[str | None] | None = None,
        min_rating: float | None = None,
        min_weight: float | None = None,
    ) -> Log:
        """Read a log from a users x items matrix; users and items without events stay in the log.

        Values become weights, except when all of them are 1 or `min_rating` declares them to be ratings.

        Parameters
        ----------
        matrix
            Sparse in any format, or dense.
        user_ids, item_ids
            The ids of rows and columns, in order; default: their numbers.
        titles
            Titles by item id, or a title for each column.
        min_rating
            Treat values as ratings, and keep those of at least this.
        min_weight
            Treat values as weights, and keep those of at least this.

        Returns
        -------
        log
            The log.
        """
        if not is_matrix(matrix):
            raise DataError(f"{show_value(matrix)} is no matrix; csrr.read takes tables and files")
        for name, values in (("user_ids", user_ids), ("item_ids", item_ids), ("titles", titles)):
            if values is not None and (not hasattr(values, "__len__") or getattr(values, "ndim", 1) != 1):
                raise ParameterError.of(name, values, "must be a list, one for each row or column")
        sizes = (None if ids is None else len(ids) for ids in (user_ids, item_ids))
        rows, columns, values, shape = read_entries(matrix, *sizes, min_rating=min_rating, min_weight=min_weight)
        users, user_rows = place_rows(user_ids, rows, shape[0])
        items, item_rows = place_rows(item_ids, columns, shape[1])
        binary = min_rating is not None or bool((values == 1).all())
        merged = merge_repeats(user_rows, item_rows, None if binary else values, None, shape[1])
        if titles is not None and not isinstance(titles, Mapping):
            if len(titles) != shape[1]:
                raise DataError(f"there are {len(titles)} titles for {shape[1]} items")
            titles = dict(zip(range(shape[1]) if item_ids is None else item_ids, titles, strict=True))
        known = align_titles(titles, items)
        return cls(users, items, merged.user_rows, merged.item_rows, merged.weights, titles=known)

    @property
    def n_users(self) -> int:
        """Number of users, those without events included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """Number of items, those without events included."""
        return len(self.items)

    @property
    def density(self) -> float:
        """Share of all (user, item) pairs that are events."""
        return len(self) / max(1, self.n_users * self.n_items)

    @property
    def is_target(self) -> BoolArray:
        """Which events are of the target type, shape (n_events,); all of them where there is no target."""
        return np.ones(len(self), np.bool_) if self.types is None else self.types.is_target

    def of_target(self) -> Log:
        """Return the events of the target type: the log itself where there is no target.

        Returns
        -------
        log
            The log of these; weights are those of all their types.
        """
        return self if self.types is None or self.types.target is None else self.select(self.is_target)

    def __len__(self) -> int:
        return len(self.user_rows)

    def to_csr(self, *, weighted: bool = False) -> sparse.csr_array[np.float32, tuple[int, int]]:
        """Return the events as a matrix.

        Parameters
        ----------
        weighted
            Whether the values are the weights, instead of ones.

        Returns
        -------
        matrix
            Sparse float32 of shape (n_users, n_items).
        """
        if weighted and self.weights is None:
            raise DataError("the log has no weights; use to_csr()")
        values = self.weights.copy() if weighted and self.weights is not None else np.ones(len(self), np.float32)
        starts = np.concatenate(([0], np.cumsum(self.user_counts())))
        matrix = sparse.csr_array((values, self.item_rows.copy(), starts), shape=(self.n_users, self.n_items))
        matrix.has_canonical_format = True
        return matrix

    def select(self, mask: BoolArray) -> Log:
        """Return the log of some of the events; users, items and titles stay.

        Parameters
        ----------
        mask
            Which, shape (n_events,).

        Returns
        -------
        log
            The log of these.
        """
        mask = np.asarray(mask)
        if mask.dtype != np.bool_ or mask.shape != (len(self),):
            raise DataError(f"the mask is {mask.dtype} of shape {mask.shape}; it must be bool of shape ({len(self)},)")
        parts = {name: getattr(self, name) for name in ("user_rows", "item_rows", "weights", "times", "places")}
        known = {name: array[mask] for name, array in parts.items() if array is not None}
        return replace(self, **known, types=None if self.types is None else self.types.select(mask))

    def select_types(self, cells: BoolArray) -> Log:
        """Return the log of some of the events by type; users, items and titles stay.

        Parameters
        ----------
        cells
            Which types of which events, shape (n_events, n_types).

        Returns
        -------
        log
            The log of these: weights and times are those of the types that are left.
        """
        if self.types is None:
            raise DataError("the log has no event types; read it with event= and weights=")
        cells = self.types.cells & cells
        mask: BoolArray = np.asarray(cells.any(axis=1))
        types = replace(self.types, amounts=np.where(cells, self.types.amounts, 0)).select(mask)
        times = None if self.times is None else self.times[mask]
        return replace(
            self.select(mask),
            weights=None if self.weights is None else types.sum_weights(),
            times=times if types.times is None else types.find_latest(),
            types=types,
        )

    def decay(self, half_life: float | str | timedelta, *, now: Any = None) -> Log:
        """Return the log with time decay: weights are multiplied by 2^(-age/half_life).

        After ten half-lives the weight stays constant. Models use these weights only if `event_weights` says so;
        models with their own `half_life` apply the decay themselves.

        Parameters
        ----------
        half_life
            In days, a string like "90d" or "12h", or a timedelta. Times are in seconds.
        now
            The time from which age counts: a number, a date or a string like 2000-12-31. Default: the latest event.

        Returns
        -------
        log
            The log with weights.

        Raises
        ------
        DataError
            If the events have no times.

        Examples
        --------
        >>> log = csrr.read({"user": [1, 1], "item": [7, 8], "time": ["2026-01-01", "2026-01-31"]})
        >>> log.decay("30d").weights.tolist()
        [0.5, 1.0]
        """
        days = read_days("half_life", half_life)
        if self.times is None:
            raise DataError("half_life needs events with times; give a column of times, or leave it out")
        latest = (self.times.max() if len(self) else 0) if now is None else parse_time(now)
        with np.errstate(over="ignore"):
            halvings = np.clip((latest - self.times.astype(np.float64)) / (days * _DAY), 0, MOST_HALVINGS)
        factors = np.exp2(-halvings)
        weights = (factors if self.weights is None else self.weights * factors).astype(np.float32)
        if self.types is None:
            return replace(self, weights=weights)
        amounts = self.types.amounts * factors.astype(np.float32)[:, None]
        return replace(self, weights=weights, types=replace(self.types, amounts=amounts))

    @property
    def is_ordered(self) -> bool:
        """Whether it is known which events of a user came first: there are times, or the rows were in order."""
        return self.times is not None or self.places is not None

    def find_order(self) -> Int64Array:
        """Return the events of each user from the oldest to the latest; of the same time, in the order of the rows.

        Returns
        -------
        order
            The numbers of the events, shape (n_events,): first those of the first user.

        Raises
        ------
        DataError
            If the order is not known.

        Examples
        --------
        >>> log = csrr.read({"user": [1, 1, 1], "item": [9, 7, 8]}, ordered=True)
        >>> log.items.ids[log.item_rows[log.find_order()]].tolist()
        [9, 7, 8]
        """
        if not self.is_ordered:
            raise DataError(
                "the log has no times, so what came first is unknown: read it with a column of times, or, if its rows"
                f" are in order, with {show_argument('ordered', True)}"
            )
        keys = (each for each in (self.places, self.times) if each is not None)
        return np.lexsort((*keys, self.user_rows))

    def find_ages(self) -> Int32Array:
        """Return the number of later events of the same user, for each event.

        Returns
        -------
        ages
            Shape (n_events,); 0 for the latest event of a user.

        Raises
        ------
        DataError
            If the order is not known.

        Examples
        --------
        >>> csrr.read({"user": [1, 1, 1], "item": [9, 7, 8]}, ordered=True).find_ages().tolist()
        [1, 0, 2]
        """
        counts, ages = self.user_counts(), np.empty(len(self), np.int32)
        ages[self.find_order()] = np.repeat(np.cumsum(counts), counts) - 1 - np.arange(len(self))
        return ages

    def user_counts(self) -> Int64Array:
        """Return the number of events of each user.

        Returns
        -------
        counts
            Shape (n_users,).
        """
        return np.bincount(self.user_rows, minlength=self.n_users)

    def item_counts(self) -> Int64Array:
        """Return the number of events of each item.

        Returns
        -------
        counts
            Shape (n_items,).
        """
        return np.bincount(self.item_rows, minlength=self.n_items)

    def history(self, user: Id) -> Ids:
        """Return the items of a user.

        Parameters
        ----------
        user
            The user's id.

        Returns
        -------
        ids
            The ids of the items, oldest first where that is known, else in the order of the item rows.

        Examples
        --------
        >>> csrr.read({"user": [1, 1, 1], "item": [9, 7, 8]}, ordered=True).history(1).tolist()
        [9, 7, 8]
        """
        row = self.users.row(user)
        mine = slice(*np.searchsorted(self.user_rows, [row, row + 1]))
        items = self.item_rows[mine]
        if self.is_ordered:
            items = items[np.lexsort([each[mine] for each in (self.places, self.times) if each is not None])]
        return self.items.ids[items]

    def title(self, item_row: int) -> str | None:
        """Return the title of an item.

        Parameters
        ----------
        item_row
            Its row number.

        Returns
        -------
        title
            None if it is not known.
        """
        return None if self.titles is None else self.titles[item_row]

    def to_arrow(self) -> pa.Table:
        """Return the events by id as an Arrow table.

        Returns
        -------
        table
            user, item and, where known, weight, types (such as view|buy), time and title. If the log has an order
            without times, the events of each user are in that order.
        """
        return self._list_first(len(self))

    def _list_first(self, n: int) -> pa.Table:
        """Return the first `n` events, as `to_arrow` has them."""
        shown: Any = slice(n) if self.times is not None or self.places is None else self.find_order()[:n]
        user_rows, item_rows = self.user_rows[shown], self.item_rows[shown]
        columns = {"user": self.users.ids[user_rows], "item": self.items.ids[item_rows]}
        optional = {
            "weight": None if self.weights is None else self.weights[shown],
            "types": None if self.types is None else self.types.select(shown).list_names(),
            "time": None if self.times is None else self.times[shown],
            "title": None if self.titles is None else self.titles[item_rows],
        }
        return pa.table(columns | {name: values for name, values in optional.items() if values is not None})

    def to_frame(self) -> pd.DataFrame:
        """Return the events by id as a pandas DataFrame.

        Returns
        -------
        frame
            The columns of `to_arrow`.
        """
        return to_pandas(self.to_arrow())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        names = ("user_rows", "item_rows", "weights", "times", "titles")
        same = self.is_ordered == other.is_ordered
        same &= all(np.array_equal(getattr(self, name), getattr(other, name)) for name in names)
        if same and self.times is None and self.places is not None:
            same = np.array_equal(self.find_order(), other.find_order())
        same_types = self.types is other.types or (self.types is not None and self.types.equals(other.types))
        return same and same_types and self.users == other.users and self.items == other.items

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        percent = 100 * self.density
        share = f"{percent:.2g}" if percent < 10 else f"{percent:.0f}"
        size = f"{self.n_users:,} users x {self.n_items:,} items, {len(self):,} events ({share} %)"
        extras = [name for name in ("weights", "titles", "times") if getattr(self, name) is not None]
        about = f"\n{self.columns.describe()}" if self.columns is not None else ""
        types = f"\nevent types: {self.types.describe()}" if self.types is not None else ""
        if self.places is not None and self.times is None:
            extras.append("in order")
        return ", ".join([f"Log: {size}", *extras]) + about + types

    def _repr_html_(self) -> str:
        first = self._list_first(SHOWN).to_pydict()
        if self.times is not None:
            first["time"] = format_times(self.times[:SHOWN])
        return format_html_rows(repr(self), first, len(self))


def mark_leading(log: Log, order: Int64Array, n_leading: Int64Array) -> BoolArray:
    """Return which events, shape (n_events,), are among their user's first `n_leading`, shape (n_users,).

    `order`, shape (n_events,), sorts the events by user row, and the events of each user in the order that decides.
    """
    counts = log.user_counts()
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    mask = np.empty(len(log), np.bool_)
    mask[order] = place < np.repeat(n_leading, counts)
    return mask


def as_log(data: Any) -> Log:
    """Return `data` as a log: a log itself, a table with user and item columns, or a users x items matrix."""
    if isinstance(data, Log):
        return data
    return Log.from_matrix(data) if is_matrix(data) else Log.from_table(data)


def read_log(table: Table, options: ReadOptions, titles: TitleMap | None = None) -> Log:
    """Return the log of a table; `titles` by item id take precedence over those of the table."""
    return make_log(read_events(table, options), options.min_weight, titles, ordered=options.ordered)


def make_log(
    events: Events, min_weight: float | None = None, titles: TitleMap | None = None, *, ordered: bool = False
) -> Log:
    """Return the log of events, of which those of a pair become one, with a weight of at least `min_weight`."""
    users, user_rows = IdMap.encode(events.user)
    items, item_rows = IdMap.encode(events.item)
    given = events.weight, events.time, len(items), events.types
    merged = merge_repeats(user_rows, item_rows, *given, ordered=ordered)
    n_repeats = len(user_rows) - len(merged.user_rows)
    if min_weight is not None and merged.weights is not None:
        merged = merged.select(merged.weights >= min_weight)
        require_some(len(merged.user_rows), len(events), f"weight >= {min_weight:g}")
    users, user_rows = drop_unused(users, merged.user_rows)
    items, item_rows = drop_unused(items, merged.item_rows)
    if titles is None and (titles := events.titles) is None and events.title is not None:
        # Of several titles of an item, the alphabetically first.
        pairs = pa.table({"item": events.item, "title": events.title})
        least = pairs.group_by("item").aggregate([("title", "min")])
        titles = dict(zip(least["item"].to_pylist(), least["title_min"].to_pylist(), strict=True))
    known = align_titles(titles, items)
    notes = [*events.columns.notes, *([] if events.is_text else describe_doubtful_ids(users.ids, items.ids))]
    for note in notes:
        warn_caller(note, DataWarning)
    columns = replace(events.columns, notes=tuple(notes), n_repeats=n_repeats)
    rest = merged.weights, merged.times, known, columns, merged.types
    return Log(users, items, user_rows, item_rows, *rest, places=merged.places)


def join_logs(known: Log, new: Log) -> Log:
    """Return the events of both logs: of a pair that both have, the sum of the weights and the latest time.

    All users and items of either are in it. A title of the new log wins. Weights and times are in both logs or in none,
    and so are event types if the known log has them. Of events in order, or of the same time, the new ones are later.
    """
    if known.is_ordered != new.is_ordered and known.times is new.times is None:
        both = show_argument("ordered", True)
        raise DataError(f"of the known events and the new ones, only some are in order; read both with {both}")
    users, known_users, new_users = join_ids(known.users, new.users, "user")
    items, known_items, new_items = join_ids(known.items, new.items, "item")
    weights, times = (
        _join_columns(name, getattr(known, name), getattr(new, name), len(new)) for name in ("weights", "times")
    )
    user_rows = np.concatenate([known_users[known.user_rows], new_users[new.user_rows]])
    item_rows = np.concatenate([known_items[known.item_rows], new_items[new.item_rows]])
    by_row: Any = slice(None)
    if known.is_ordered:
        by_row = np.concatenate([_sort_by_place(known), len(known) + _sort_by_place(new)])
    merged = merge_repeats(
        user_rows[by_row],
        item_rows[by_row],
        None if weights is None else weights[by_row].astype(np.float64),
        None if times is None else times[by_row],
        len(items),
        ordered=known.is_ordered,
    )
    titles = join_titles((known.titles, known_items), (new.titles, new_items), len(items))
    types = None
    if known.types is not None:
        _, places = np.unique(number_pairs(user_rows, item_rows, len(items)), return_inverse=True)
        types = join_types(known.types, new.types, (places[: len(known)], places[len(known) :]))
    rest = merged.weights, merged.times, titles
    return Log(users, items, merged.user_rows, merged.item_rows, *rest, types=types, places=merged.places)


def _sort_by_place(log: Log) -> Int64Array:
    """Return the events in the order of the rows that they come from, shape (n_events,), if these are known."""
    return np.arange(len(log)) if log.places is None else np.argsort(log.places)


def _join_columns(name: str, known: Any, new: Any, n_new: int) -> Any:
    """Return a column of both logs, shape (n_known + n_new,), or None where neither has it."""
    if known is None and new is None:
        return None
    if known is None or new is None:
        with_it, without = ("known events", "new ones") if new is None else ("new events", "known ones")
        raise DataError(f"the {with_it} have {name} and the {without} have none; give {name} for all events or none")
    return np.concatenate([known, new])
