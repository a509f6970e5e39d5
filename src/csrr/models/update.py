"""The events of a model's fit: weighed as the model weighs them, and joined with new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from csrr._base.arrays import AnyArray, BoolArray
from csrr.data.errors import DataError
from csrr.data.ids import IdMap
from csrr.data.log import Log, join_logs

if TYPE_CHECKING:
    from csrr.models.estimator import Estimator


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
