"""Columns of events -> distinct events: keep the positive ones, merge repeats, number what is left."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from csrr.arrays import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array, ObjectArray, Rows
from csrr.data.errors import DataError, quote_names
from csrr.data.event_tables import Events
from csrr.data.event_types import EventTypes, TypeColumn, narrow_weights
from csrr.data.ids import IdMap
from csrr.data.times import Times

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Merged:
    """Distinct events sorted by user row, then item row; every array has shape (n,)."""

    user_rows: Int32Array
    item_rows: Int32Array
    weights: Float32Array | None
    times: Times | None
    types: EventTypes | None = None

    def select(self, mask: BoolArray) -> Merged:
        """Return the events where `mask`, shape (n,), is true."""
        return Merged(
            self.user_rows[mask],
            self.item_rows[mask],
            None if self.weights is None else self.weights[mask],
            None if self.times is None else self.times[mask],
            None if self.types is None else self.types.select(mask),
        )


def number_pairs(user_rows: Rows, item_rows: Rows, n_items: int) -> Int64Array:
    """Return one number a (user, item) pair, shape (n,), ordered by user, then item."""
    pairs = user_rows.astype(np.int64)
    pairs *= n_items
    pairs += item_rows
    return pairs


def keep_positive(found: Events, min_rating: float | None, min_weight: float | None) -> Events:
    """Return the events with a rating >= `min_rating` and a weight above 0."""
    for bound, column, role in ((min_rating, found.rating, "rating"), (min_weight, found.weight, "weight")):
        if bound is not None and column is None:
            raise DataError(
                f"min_{role} needs a {role} column, and none was recognized;"
                f" the columns are {quote_names(found.names)}; name it with {role}='...'"
            )
    n_read = len(found)
    if min_rating is not None and found.rating is not None:
        found = found.select(found.rating >= min_rating)
        _require_some(len(found), n_read, f"rating >= {min_rating:g}")
    if found.weight is not None:
        happened = found.weight.astype(np.float32) > 0
        if not happened.all():
            _logger.info("dropped %d rows of weight 0", np.count_nonzero(~happened))
            found = found.select(happened)
            _require_some(len(found), n_read, "a weight above 0")
    return found


def keep_heavy(merged: Merged, min_weight: float | None, n_read: int) -> Merged:
    """Return the events with a weight >= `min_weight`."""
    if min_weight is None or merged.weights is None:
        return merged
    kept = merged.select(merged.weights >= min_weight)
    _require_some(len(kept.user_rows), n_read, f"weight >= {min_weight:g}")
    return kept


def merge_repeats(
    user_rows: Int32Array,
    item_rows: Int32Array,
    weights: Float64Array | None,
    times: Times | None,
    n_items: int,
    types: TypeColumn | None = None,
) -> Merged:
    """Return distinct events: the weights of repeats summed, the latest time and all types kept, all of shape (n,)."""
    keys = number_pairs(user_rows, item_rows, n_items)
    if weights is None and times is None:
        keys.sort()
        if n_repeats := int(np.count_nonzero(keys[1:] == keys[:-1])):
            _logger.info("merged %d repeated (user, item) rows", n_repeats)
            keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
        users, items = (np.empty(len(keys), np.int32) for _ in range(2))
        np.floor_divide(keys, n_items, out=users, casting="unsafe")
        np.remainder(keys, n_items, out=items, casting="unsafe")
        return Merged(users, items, None, None)
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if len(first) < len(keys):
        _logger.info("merged %d repeated (user, item) rows", len(keys) - len(first))
        if weights is not None:
            # A sum of floats depends on their order: sorting makes it the same for any order of the rows.
            order = np.lexsort((weights, keys))
    pairs = order[first]
    summed = None if weights is None else narrow_weights(np.add.reduceat(weights[order], first))
    latest = None if times is None else np.maximum.reduceat(times[order], first)
    if types is None or weights is None:
        return Merged(user_rows[pairs], item_rows[pairs], summed, latest)
    numbers = np.empty(len(keys), np.int64)
    numbers[order] = np.cumsum(np.diff(keys[order], prepend=-1) > 0) - 1
    found = types.merge(numbers, weights, times)
    return Merged(user_rows[pairs], item_rows[pairs], found.sum_weights(), latest, found)


def drop_unused(ids: IdMap, rows: Int32Array) -> tuple[IdMap, Int32Array]:
    """Return the ids that `rows`, shape (n,), mention, and the rows renumbered accordingly."""
    seen = np.bincount(rows, minlength=len(ids)) > 0
    if seen.all():
        return ids, rows
    return IdMap(ids.ids[seen]), (np.cumsum(seen, dtype=np.int32) - 1)[rows]


def place_rows(ids: Any, rows: Int64Array, n: int) -> tuple[IdMap, Int32Array]:
    """Return the map of a matrix's row (or column) ids, and where each of its `rows`, shape (m,), went."""
    if ids is None:
        return IdMap.range(n), rows.astype(np.int32)
    known = IdMap(ids)
    return known, known.rows(ids)[rows].astype(np.int32)


def collect_titles(found: Events) -> dict[Any, str] | None:
    """Return the title of each item by its id; of several, the first in the alphabet."""
    if found.title is None:
        return None
    pairs = pa.table({"item": found.item, "title": found.title})
    least = pairs.group_by("item").aggregate([("title", "min")])
    return dict(zip(least["item"].to_pylist(), least["title_min"].to_pylist(), strict=True))


def align_titles(titles: Mapping[Any, str | None] | None, items: IdMap) -> ObjectArray | None:
    """Return the title, or None, of each item, shape (n_items,). Item 7 finds the title of 7 and of "7"."""
    if titles is None:
        return None
    by_text = {str(id): title for id, title in titles.items()}
    aligned = np.empty(len(items), object)
    aligned[:] = [by_text.get(str(id)) for id in items]
    return aligned


def _require_some(n_left: int, n_read: int, condition: str) -> None:
    if n_left == 0:
        raise DataError(f"no events left: {n_read:,} rows read, 0 with {condition}")
