"""Old events weigh less: half as much with every half-life."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from csrr.arrays import Float32Array
from csrr.data.errors import DataError
from csrr.data.times import Times, parse_time
from csrr.parameters import read_days

_DAY = 86_400.0
MOST_HALVINGS = 10
"""After so many half-lives an event fades no more: it weighs a thousandth, and the problem can still be solved."""


def fade_weights(
    weights: Float32Array | None, times: Times | None, half_life: float | str | timedelta, now: Any = None
) -> Float32Array:
    """Return weights, or ones where there are none, times 2^(-age/half_life), shape (n_events,).

    Times are in seconds; ages are before `now`, or before the latest event.
    """
    days = read_days("half_life", half_life)
    if times is None:
        raise DataError(
            "half_life needs events with times, and these have none; give a column of times, or leave it out"
        )
    latest = (times.max() if len(times) else 0) if now is None else parse_time(now)
    with np.errstate(over="ignore"):
        halvings = np.clip((latest - times.astype(np.float64)) / (days * _DAY), 0, MOST_HALVINGS)
    faded: Float32Array = ((1 if weights is None else weights) * np.exp2(-halvings)).astype(np.float32)
    return faded
