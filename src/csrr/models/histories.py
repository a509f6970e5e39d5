"""The histories of people who were not in the training data, in row numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import Float64Array, Rows
from csrr.data import as_log
from csrr.data.errors import show_value
from csrr.models.asked_ids import IdReader, is_one_id, list_ids
from csrr.parameters import ParameterError, list_defaults

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

_PLACE = "histories"
_MOST = 1e15
"""The largest weight: far beyond any use, far within float32."""


class Clicks(NamedTuple):
    """Clicks of `users`: whose, on what (-1: unknown) and how much (NaN: not said), shapes (n_clicks,)."""

    users: npt.NDArray[Any]
    rows: Rows
    columns: Rows
    weights: Float64Array


def read_histories(model: Recommender, histories: Any, reader: IdReader) -> tuple[npt.NDArray[Any], Any]:
    """Return the ids of people and their histories, csr of shape (n, n_items); a history may be empty.

    Its values are ones or, where weights count for the model, those given, or what a click weighs where none is.
    """
    is_listed = isinstance(histories, list | tuple)
    clicks = _read_lists(model, histories, reader) if is_listed else _read_log(model, histories, reader)
    reader.count(_PLACE, int((clicks.columns < 0).sum()), len(clicks.columns))
    n_items = len(model.items_)
    # As in a log, what weighs nothing did not happen.
    there = (clicks.columns >= 0) & (clicks.weights != 0)
    pairs, first = np.unique(clicks.rows[there] * n_items + clicks.columns[there], return_index=True)
    weights = clicks.weights[there][first]
    usual = 1.0 if model.history_weight is None else model.history_weight
    values = np.where(np.isnan(weights), usual, weights).astype(np.float32)
    return clicks.users, sparse.csr_array((values, np.divmod(pairs, n_items)), shape=(len(clicks.users), n_items))


def _read_log(model: Recommender, histories: Any, reader: IdReader) -> Clicks:
    """Return the clicks of a log, or of what becomes one; its weights as far as the model asks for any."""
    log = as_log(histories)
    columns = reader.find(model.items_, log.items.ids, "item", _PLACE)[log.item_rows]
    is_weighted = model.history_weight is not None and log.weights is not None
    weights = np.asarray(log.weights, np.float64) if is_weighted else np.full(len(log), np.nan)
    return Clicks(log.users.ids, log.user_rows.astype(np.int64), columns, weights)


def _read_lists(model: Recommender, histories: Sequence[Any], reader: IdReader) -> Clicks:
    """Return the clicks of lists of item ids, or of mappings from item ids to weights; people are numbered."""
    if not histories:
        raise ParameterError("fold_in needs at least one history; pass [[]] for a user without a history")
    if any(is_one_id(history) for history in histories):
        raise ParameterError("fold_in takes a list of histories, each a list of item ids; for one, recommend_for")
    ids: list[Any] = []
    weights: list[float] = []
    lengths = []
    for number, history in enumerate(histories):
        mine = list(list_ids(history))
        ids += mine
        lengths.append(len(mine))
        is_weighted = isinstance(history, Mapping)
        weights += _check_weights(model, history, number) if is_weighted else [np.nan] * len(mine)
    users = np.arange(len(histories))
    columns = reader.find(model.items_, ids, "item", _PLACE)
    return Clicks(users, np.repeat(users, lengths), columns, np.array(weights, np.float64))


def _check_weights(model: Recommender, history: Mapping[Any, Any], number: int) -> list[float]:
    """Return the weights of one history; they are those of a fit, and refused where a fit would not ask for any."""
    for item, weight in history.items():
        is_number = isinstance(weight, Real | np.number) and not isinstance(weight, bool | np.bool_)
        if not is_number or not 0 <= float(weight) <= _MOST:
            raise ParameterError(
                f"history {number}, item {show_value(item)}: the weight {show_value(weight)} must be a number from 0 to"
                f" {_MOST:g}, as the weights of events are"
            )
    weights = [float(weight) for weight in history.values()]
    if model.history_weight is None and any(weight != 1 for weight in weights):
        name = type(model).__name__
        has_weights = "event_weights" in list_defaults(type(model))
        why = "was fitted to events without weights" if has_weights else "takes no weights"
        raise ParameterError(
            f"history {number} has weights, and this {name} {why}; give the item ids alone, or fit a model that"
            " uses them: WRMF, CSRR or CSRRe with event_weights"
        )
    return weights
