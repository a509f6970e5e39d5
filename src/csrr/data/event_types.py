"""Types of events, such as views, carts and purchases: their weights, and the target among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import BoolArray, Float32Array, Float64Array, Int64Array, Rows
from csrr._base.text import list_names, show_argument, show_value
from csrr.data.columns import Column, Times, hint_skip, merge_by_key, name_column
from csrr.data.errors import DataError
from csrr.parameters import ParameterError, is_number

MOST_TYPES = 64
"""With more types than these, the column is probably one of ids."""


@dataclass(frozen=True, eq=False, repr=False)
class EventTypes:
    """The types of the events of a log: of each (user, item) pair, how much of each type there was.

    Attributes
    ----------
    names
        The types, in the order in which their weights were given.
    amounts
        The summed weights by type, shape (n_events, n_types); 0: none of that type.
    times
        The time of the latest of each type, in seconds since 1970, shape (n_events, n_types), if known.
    target
        The type by which models are judged, or None: all count.

    Examples
    --------
    >>> table = {"user": [1, 1, 2], "item": [7, 7, 7], "type": ["view", "buy", "view"]}
    >>> log = csrr.read(table, event="type", weights={"view": 1, "buy": 10}, target="buy")
    >>> log.types
    EventTypes: view 2, buy 1; the target is buy
    >>> log.types.amounts.tolist()
    [[1.0, 10.0], [1.0, 0.0]]
    >>> log.is_target.tolist()
    [True, False]
    """

    names: tuple[str, ...]
    amounts: Float32Array
    times: Times | None = None
    target: str | None = None

    @property
    def cells(self) -> BoolArray:
        """Which types each pair has, shape (n_events, n_types)."""
        return np.asarray(self.amounts > 0)

    @property
    def is_target(self) -> BoolArray:
        """Which pairs have an event of the target type, shape (n_events,); all of them without a target."""
        return np.asarray(self.target_cells.any(axis=1))

    @property
    def target_cells(self) -> BoolArray:
        """Which types of each pair are the target, shape (n_events, n_types)."""
        return np.asarray(self.cells & np.array([self.target in (None, name) for name in self.names]))

    def sum_weights(self) -> Float32Array:
        """Return the weight of each pair: the sum over its types.

        Returns
        -------
        weights
            Shape (n_events,).
        """
        return np.asarray(self.amounts.sum(axis=1, dtype=np.float64), np.float32)

    def find_latest(self) -> Times | None:
        """Return the latest time of each pair.

        Returns
        -------
        times
            In seconds since 1970, shape (n_events,); None if they are not known.
        """
        if self.times is None:
            return None
        low = np.iinfo(np.int64).min if self.times.dtype.kind == "i" else -np.inf
        latest: Times = np.where(self.cells, self.times, low).max(axis=1)
        return latest

    def select(self, mask: Any) -> EventTypes:
        """Return the types of some pairs.

        Parameters
        ----------
        mask
            Which, shape (n_events,), or their numbers.

        Returns
        -------
        types
            Theirs.
        """
        return replace(self, amounts=self.amounts[mask], times=None if self.times is None else self.times[mask])

    def list_names(self) -> list[str]:
        """Return the types of each pair as text.

        Returns
        -------
        names
            One text for each pair, such as view|buy.
        """
        return [
            "|".join(name for name, is_there in zip(self.names, row, strict=True) if is_there) for row in self.cells
        ]

    def describe(self) -> str:
        """Return in words how many pairs have each type, and which is the target.

        Returns
        -------
        words
            On one line.
        """
        counts = self.cells.sum(axis=0).tolist()
        parts = [f"{name} {n:,}" for name, n in zip(self.names, counts, strict=True)]
        return f"{list_names(parts)}" + (f"; the target is {self.target}" if self.target is not None else "")

    def equals(self, other: EventTypes | None) -> bool:
        """Return whether another log's types are the same.

        Parameters
        ----------
        other
            The types of that log, if any.

        Returns
        -------
        same
            Whether names, target, amounts and times are.
        """
        if other is None or (self.names, self.target) != (other.names, other.target):
            return False
        times: list[Any] = [each.times if each.times is None else each.times * each.cells for each in (self, other)]
        return np.array_equal(self.amounts, other.amounts) and np.array_equal(*times)

    def __repr__(self) -> str:
        return f"EventTypes: {self.describe()}"


@dataclass(frozen=True, eq=False)
class RowTypes:
    """The type of each row of a table: `codes`, shape (n,), are places among `names`, -1 where the weight is 0."""

    names: tuple[str, ...]
    codes: Rows
    target: str | None

    def select(self, mask: BoolArray) -> RowTypes:
        """Return the types of the rows where `mask`, shape (n,), is true."""
        return replace(self, codes=self.codes[mask])

    def merge(self, pairs: Int64Array, weights: Float64Array, times: Times | None) -> EventTypes:
        """Return the types of distinct pairs, of which `pairs`, shape (n,), holds the number of each row.

        The weights of a type add up, and the latest time is kept. Inputs have shape (n,).
        """
        n_pairs, n_types = int(pairs.max(initial=-1)) + 1, len(self.names)
        cells = pairs * n_types + self.codes
        first, _, sums, last = merge_by_key(cells, weights, times)
        amounts: Float64Array = np.zeros((n_pairs, n_types))
        latest: Any = None
        amounts.flat[cells[first]] = sums
        if last is not None:
            latest = np.zeros((n_pairs, n_types), last.dtype)
            latest.flat[cells[first]] = last
        return EventTypes(self.names, narrow_weights(amounts), latest, self.target)


def read_weights(event: Any, weights: Any, target: Any) -> dict[str, float]:
    """Return the weight of each type of the column `event`, checked; check `target` too."""
    if not isinstance(weights, Mapping) or not weights:
        example = show_argument("weights", {"view": 1, "cart": 3, "buy": 10})
        instead = "" if weights is None else f", not {show_value(weights)}"
        raise ParameterError.of("event", event, f"needs a weight for each type, such as {example}{instead}")
    if len(weights) > MOST_TYPES:
        raise ParameterError.of(
            "weights", weights, f"names {len(weights):,} event types; at most {MOST_TYPES} are possible"
        )
    found: dict[str, float] = {}
    for name, weight in weights.items():
        if not is_number(weight, least=0, most=float(np.finfo(np.float32).max)):
            raise ParameterError.of("weights", {name: weight}, "must be a number >= 0")
        if name_type(name) in found:
            raise ParameterError.of("weights", weights, f"names the event type {show_value(name_type(name))} twice")
        found[name_type(name)] = float(weight)
    if not any(np.float32(weight) > 0 for weight in found.values()):
        raise ParameterError.of("weights", weights, "must have a weight above 0 for at least one event type")
    if target is not None and not found.get(name_type(target), 0) > 0:
        known = ", ".join(show_value(name) for name, weight in found.items() if weight > 0)
        raise ParameterError.of("target", target, f"must be an event type with a weight above 0: {known}")
    return found


def name_type(name: Any) -> str:
    """Return an event type as text: True as "true", 1 as "1"."""
    if isinstance(name, bool | np.bool_):
        return "true" if name else "false"
    if isinstance(name, str | int | np.integer):
        return str(name).strip()
    raise ParameterError(f"{show_value(name)} is no event type; types are strings or integers")


def read_types(column: Column) -> pa.Array:
    """Return event types as text, shape (n,)."""
    try:
        values = column.array
        if pa.types.is_floating(values.type):
            values = values.cast(pa.int64())
        return pc.utf8_trim_whitespace(values.cast(pa.large_string()))
    except pa.ArrowException:
        raise column.make_type_error(", not event types: strings or integers") from None


def code_types(column: Column, weights: Mapping[str, float], target: Any) -> RowTypes:
    """Return the types of rows, shape (n,), as places among those with a weight above 0; all must have a weight."""
    column.reject_missing()
    texts = column.array
    unknown = pc.invert(pc.is_in(texts, value_set=pa.array(list(weights), texts.type)))
    if pc.any(unknown).as_py():
        found = pc.value_counts(texts.filter(unknown)).to_pylist()
        found.sort(key=lambda each: (-each["counts"], each["values"]))
        names = list_names([f"{show_value(each['values'])} ({each['counts']:,})" for each in found])
        row = pc.index(unknown, True).as_py()
        raise DataError(
            f"{name_column(column.name)} has event types without a weight: {names}; the first is in"
            f" {column.where(row)}; give each one, 0 to leave it out, {hint_skip()}",
            column=column.name,
            row=row,
        )
    positive = tuple(name for name, weight in weights.items() if np.float32(weight) > 0)
    places = pc.index_in(texts, value_set=pa.array(positive, texts.type)).fill_null(-1)
    return RowTypes(positive, places.to_numpy(zero_copy_only=False), None if target is None else name_type(target))


def join_types(known: EventTypes, new: EventTypes | None, pairs: tuple[Int64Array, Int64Array]) -> EventTypes:
    """Return the types of the events of two logs, of which `pairs` holds the number of each among the joined ones.

    Weights of the same type add up. New events need the same types.
    """
    if new is None:
        raise DataError("the known events have types and the new ones have none; read them with event= and weights=")
    if set(known.names) != set(new.names) or known.target != new.target:
        raise DataError(
            f"the new events have the types {new.describe()}, the known ones {known.describe()}; read both with the"
            " same weights= and target="
        )
    order = [new.names.index(name) for name in known.names]
    both = (
        known,
        replace(new, amounts=new.amounts[:, order], times=None if new.times is None else new.times[:, order]),
    )
    cells = [np.nonzero(each.amounts) for each in both]
    amounts = np.concatenate([each.amounts[there] for each, there in zip(both, cells, strict=True)])
    latest: list[Any] = [each.times[there] for each, there in zip(both, cells, strict=True) if each.times is not None]
    rows = RowTypes(known.names, np.concatenate([codes for _, codes in cells]), known.target)
    numbers = np.concatenate([pair[places] for pair, (places, _) in zip(pairs, cells, strict=True)])
    return rows.merge(numbers, amounts.astype(np.float64), np.concatenate(latest) if len(latest) == 2 else None)


def narrow_weights(weights: Float64Array) -> Float32Array:
    """Return sums of weights as float32; DataError where they are too large for it."""
    with np.errstate(over="ignore"):
        narrow = weights.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise DataError(f"the weights of a repeated (user, item) pair add up to {weights.max():g}; scale them down")
    return narrow
