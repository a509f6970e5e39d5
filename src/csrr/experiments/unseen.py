"""What a fitted model has seen, and what of a log it has not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.data import IdMap, Log
from csrr.models.recommender import Recommender

Rows = npt.NDArray[np.int64]


def training_log(model: Recommender) -> Log:
    """The events a model was fitted to, without weights, times and titles."""
    cells = model.seen_.tocoo()
    return Log(model.users_, model.items_, cells.row, cells.col)


def unseen_events(events: Log, model: Recommender) -> Log:
    """The events whose user and item the model knows and that are not in its training data, in its row numbers."""
    rows = _rows_in(events.users, model.users_)[events.user_rows]
    columns = _rows_in(events.items, model.items_)[events.item_rows]
    n_items = len(model.items_)
    seen = model.seen_.tocoo()
    keys = np.unique((rows * n_items + columns)[(rows >= 0) & (columns >= 0)])
    left = np.setdiff1d(keys, seen.row.astype(np.int64) * n_items + seen.col)
    return Log(model.users_, model.items_, left // n_items, left % n_items)


def _rows_in(mine: IdMap, known: IdMap) -> Rows:
    """The row in `known` of each id of `mine`, or -1."""
    ids: npt.NDArray[Any] = mine.ids
    common = np.isin(ids, known.ids) if ids.dtype == known.ids.dtype else np.zeros(len(ids), np.bool_)
    rows = np.full(len(ids), -1, np.int64)
    rows[common] = known.rows(ids[common])
    return rows
