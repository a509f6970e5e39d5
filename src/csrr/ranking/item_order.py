"""The order of items among which scores do not tell: by popularity, then by row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from csrr.arrays import AnyArray, Float64Array, Int32Array, Rows

HALF_LIVES = (10, 3, 1, 0)
"""How many half-lives the time from the first event of a log to its last may be: the log chooses, and the first of
equals is taken. With 0 all events count the same."""
LAST, AT = 0.2, 10
"""The share of the events, the latest, by which a log chooses, and the length of the lists whose NDCG decides."""


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


def count_recent(user_rows: Rows, item_rows: Rows, times: AnyArray, n_items: int) -> Float64Array:
    """Return the events of each item, shape (n_items,), of which one of a half-life ago counts half.

    The half-life is that of `HALF_LIVES` whose counts rank best what users chose last. No event counts less than 2^-10.
    Nothing but the order of the times and their distances matters: any unit will do.
    """
    moments = times.astype(np.float64)
    half_lives = HALF_LIVES[0]
    if len(moments) and np.ptp(moments) > 0:
        is_last = moments >= np.quantile(moments, 1 - LAST, method="higher")
        before = item_rows[~is_last], moments[~is_last], n_items
        asked = user_rows[is_last], item_rows[is_last]
        half_lives = max(HALF_LIVES, key=lambda n: _measure_ndcg(_weigh_events(*before, n), *asked))
    return _weigh_events(item_rows, moments, n_items, half_lives)


def _weigh_events(item_rows: Rows, moments: Float64Array, n_items: int, half_lives: float) -> Float64Array:
    """Return the events of each item, shape (n_items,), weighted; all of the time is so many half-lives."""
    ages = moments.max(initial=-np.inf) - moments
    span = ages.max(initial=0)
    weights = np.exp2(-half_lives * ages / span) if span > 0 else np.ones(len(ages))
    return np.bincount(item_rows, weights, minlength=n_items).astype(np.float64)


def _measure_ndcg(popularity: Float64Array, user_rows: Rows, item_rows: Rows) -> float:
    """Return the mean NDCG@10 over users of one list for all of them; the rows are those of the events asked for."""
    gains = np.zeros(len(popularity))
    best = ItemOrder.by_popularity(popularity).items[:AT]
    gains[best] = 1 / np.log2(np.arange(len(best)) + 2)
    _, user, counts = np.unique(user_rows, return_inverse=True, return_counts=True)
    ideal = np.cumsum(1 / np.log2(np.arange(AT) + 2))[np.minimum(counts, AT) - 1]
    return float((np.bincount(user, gains[item_rows]) / ideal).mean())


def measure_ages(item_rows: Int32Array, times: AnyArray, n_items: int) -> Float64Array:
    """Return how long before the last event of a log each item was first seen, shape (n_items,); inf for one never."""
    moments = times.astype(np.float64)
    first = np.full(n_items, np.inf)
    np.minimum.at(first, item_rows, moments)
    return np.where(np.isfinite(first), moments.max(initial=-np.inf) - first, np.inf)
