"""A log and the events that came after it -> one log."""

from __future__ import annotations

from typing import Any

import numpy as np

from csrr.arrays import Int32Array, ObjectArray
from csrr.data.errors import DataError
from csrr.data.event_types import join_types
from csrr.data.id_columns import read_id_column
from csrr.data.ids import IdMap
from csrr.data.log import Log
from csrr.data.merge import merge_repeats, number_pairs


def join_logs(known: Log, new: Log) -> Log:
    """Return the events of both logs: of a pair that both have, the sum of the weights and the latest time.

    All users and items of either are in it. A title of the new log wins. Weights and times are in both logs or in none,
    and so are event types if the known log has them.
    """
    users, known_users, new_users = join_ids(known.users, new.users, "user")
    items, known_items, new_items = join_ids(known.items, new.items, "item")
    weights, times = (
        _join_columns(name, getattr(known, name), getattr(new, name), len(new)) for name in ("weights", "times")
    )
    user_rows = np.concatenate([known_users[known.user_rows], new_users[new.user_rows]])
    item_rows = np.concatenate([known_items[known.item_rows], new_items[new.item_rows]])
    merged = merge_repeats(
        user_rows,
        item_rows,
        None if weights is None else weights.astype(np.float64),
        times,
        len(items),
    )
    titles = join_titles((known.titles, known_items), (new.titles, new_items), len(items))
    types = None
    if known.types is not None:
        _, places = np.unique(number_pairs(user_rows, item_rows, len(items)), return_inverse=True)
        types = join_types(known.types, new.types, (places[: len(known)], places[len(known) :]))
    return Log(users, items, merged.user_rows, merged.item_rows, merged.weights, merged.times, titles, types=types)


def join_ids(known: IdMap, new: IdMap, kind: str) -> tuple[IdMap, Int32Array, Int32Array]:
    """Return the map of all ids, and the rows there of the known ones and of the new."""
    if len(known) and len(new) and known.ids.dtype != new.ids.dtype:
        theirs, ours = (_show_ids(ids) for ids in (new, known))
        raise DataError(f"the {kind} ids of the new events are {theirs}, those known {ours}; make them of one type")
    parts = [ids.ids for ids in (known, new) if len(ids)]
    if not parts:
        return known, np.empty(0, np.int32), np.empty(0, np.int32)
    joined, rows = IdMap.encode(read_id_column(np.concatenate(parts), f"{kind} ids"))
    return joined, rows[: len(known)], rows[len(known) :]


def _show_ids(ids: IdMap) -> str:
    kind = "strings" if ids.ids.dtype == np.object_ else "integers"
    return f"{kind} ({ids.ids[:1].tolist()[0]!r})"


def _join_columns(name: str, known: Any, new: Any, n_new: int) -> Any:
    """Return a column of both logs, shape (n_known + n_new,), or None where neither has it."""
    if known is None and new is None:
        return None
    if known is None or new is None:
        with_it, without = ("known events", "new ones") if new is None else ("new events", "known ones")
        raise DataError(f"the {with_it} have {name} and the {without} have none; give {name} for all events or none")
    return np.concatenate([known, new])


def join_titles(
    known: tuple[ObjectArray | None, Int32Array], new: tuple[ObjectArray | None, Int32Array], n_items: int
) -> ObjectArray | None:
    """Return the title of each item, shape (n_items,), of titles and where each goes; None where there are none."""
    if known[0] is None and new[0] is None:
        return None
    joined = np.full(n_items, None, np.object_)
    for titles, rows in (known, new):
        if titles is not None:
            there = np.array([title is not None for title in titles], np.bool_)
            joined[rows[there]] = titles[there]
    return joined
