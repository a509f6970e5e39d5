"""How much time is left to a fit, for whoever is at work on it.

Work that can end early asks `seconds_left`. Work that cannot, and is worth nothing unless it is finished, runs inside
`cut_off`: the next time it shares out ranges of rows after the deadline, `TimeUpError` ends it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("csrr_deadline", default=math.inf)
_cut: ContextVar[float] = ContextVar("csrr_cut", default=math.inf)


class TimeUpError(Exception):
    """The time is up for work that was to be cut off."""


@contextmanager
def limit_time(seconds: float | None) -> Iterator[None]:
    """Gives the block so many seconds, or what is left to the block around it if that is less; None adds no limit."""
    token = _deadline.set(min(_deadline.get(), math.inf if seconds is None else time.perf_counter() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(share: float = 1.0) -> float | None:
    """The given share of the time that is left, never below zero; None where there is no limit."""
    deadline = _deadline.get()
    return None if deadline == math.inf else share * max(0.0, deadline - time.perf_counter())


@contextmanager
def cut_off(seconds: float | None) -> Iterator[None]:
    """Raises TimeUpError in the block once it has shared out work for longer than this; None for never."""
    token = _cut.set(min(_cut.get(), math.inf if seconds is None else time.perf_counter() + seconds))
    try:
        yield
    finally:
        _cut.reset(token)


def cut_time() -> float:
    """When the work here is cut off, in seconds of `time.perf_counter`; infinity for never."""
    return _cut.get()
