"""The order of items among which scores do not tell: by popularity, then by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from csrr.arrays import AnyArray, Float64Array, Int32Array

HALF_LIVES = 10
"""So many half-lives is the time from the first event of a log to its last."""


class ItemOrder(NamedTuple):
    """`items`, the item rows from first to last, and `places`, the place of each item in it; shapes (n_items,)."""

    items: Int32Array
    places: Int32Array

    @classmethod
    def by_row(cls, n_items: int) -> ItemOrder:
        """Return the order of the rows."""
        rows = np.arange(n_items, dtype=np.int32)
        return cls(rows, rows)

    @classmethod
    def by_popularity(cls, *popularity: AnyArray) -> ItemOrder:
        """Return the largest first; what ties in one of `popularity`, shape (n_items,) each, goes by the next."""
        items = np.lexsort([-each for each in popularity[::-1]]).astype(np.int32)
        places = np.empty_like(items)
        places[items] = np.arange(len(items), dtype=np.int32)
        return cls(items, places)


def count_recent(item_rows: Int32Array, times: AnyArray, n_items: int) -> Float64Array:
    """Return the events of each item, shape (n_items,), of which one of a half-life ago counts half.

    A half-life is a tenth of the time from the first event to the last, so no event counts less than 2^-10. Nothing
    but the order of the times and their distances matters: any unit will do.
    """
    moments = times.astype(np.float64)
    ages = moments.max(initial=-np.inf) - moments
    span = ages.max(initial=0)
    weights = np.exp2(-HALF_LIVES * ages / span) if span > 0 else np.ones(len(ages))
    return np.bincount(item_rows, weights, minlength=n_items).astype(np.float64)


def measure_ages(item_rows: Int32Array, times: AnyArray, n_items: int) -> Float64Array:
    """Return how long before the last event of a log each item was first seen, shape (n_items,); inf for one never."""
    moments = times.astype(np.float64)
    first = np.full(n_items, np.inf)
    np.minimum.at(first, item_rows, moments)
    return np.where(np.isfinite(first), moments.max(initial=-np.inf) - first, np.inf)
