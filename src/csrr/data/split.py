"""A log -> what a model may see and what it is asked about."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from csrr.arrays import BoolArray, Int64Array
from csrr.data.as_log import as_log
from csrr.data.errors import DataError
from csrr.data.log import Log
from csrr.data.times import Times, parse_time, show_moments


class HeldOut(NamedTuple):
    """The result of `split` with `held_out_users`.

    Attributes
    ----------
    train
        The events of the other users.
    given
        The held-out users' events that a model may use as history.
    asked
        The held-out users' events to predict.

    Examples
    --------
    >>> train, given, asked = csrr.split(csrr.synthetic(60, 40, events_per_user=10).log, held_out_users=10)
    >>> len(set(asked.user_rows)), len(set(train.user_rows))
    (10, 50)
    """

    train: Log
    given: Log
    asked: Log


@overload
def split(
    log: Any,
    ratio: float | None = None,
    *,
    seed: int = 0,
    by: Literal["user", "log"] = "user",
    last: int | None = None,
    at: float | str | date | None = None,
    time_quantile: float | None = None,
    held_out_users: None = None,
    given: float = 0.8,
) -> tuple[Log, Log]: ...


@overload
def split(
    log: Any,
    ratio: float | None = None,
    *,
    seed: int = 0,
    by: Literal["user", "log"] = "user",
    last: int | None = None,
    at: float | str | date | None = None,
    time_quantile: float | None = None,
    held_out_users: Any,
    given: float = 0.8,
) -> HeldOut: ...


def split(
    log: Any,
    ratio: float | None = None,
    *,
    seed: int = 0,
    by: Literal["user", "log"] = "user",
    last: int | None = None,
    at: float | str | date | None = None,
    time_quantile: float | None = None,
    held_out_users: Any = None,
    given: float = 0.8,
) -> tuple[Log, Log] | HeldOut:
    """Split a log into (train, test), or a `HeldOut`; all parts share the log's row numbers.

    Give one of `ratio`, `last`, `at`, `time_quantile` and `held_out_users`; the default is a `ratio` of 0.8. The result
    depends on the events and the seed, not on the order of the input rows.

    Parameters
    ----------
    log
        A log, a table with user and item columns, or a users x items matrix.
    ratio
        The share of each user's n events in train, drawn at random: ratio*n, rounded half up, at least one.
    seed
        Seed of the random numbers.
    by
        With "log", `ratio` is a share of all events, not of each user's.
    last
        The number of each user's latest events in test; item rows break ties of time. At least one event stays in
        train, so a user with few events has fewer in test.
    at
        Events at or after this time (a number, a datetime, or a string like 2000-12-31) are test.
    time_quantile
        The same, at the time before which about this share of the events lies.
    held_out_users
        The share or number of users to leave out of train, drawn at random; or their ids.
    given
        The share of each held-out user's events in `given`, drawn at random; with `last`, all but the latest.

    Returns
    -------
    parts
        Two logs, train and test; with `held_out_users`, three: train, given and asked.

    Raises
    ------
    DataError
        If the arguments contradict each other or the log, such as a time for a log without times.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> train, test = csrr.split(log, ratio=0.8, seed=1)
    >>> len(train) + len(test) == len(log)
    True
    """
    events = as_log(log)
    _check_modes(ratio=ratio, last=last, at=at, time_quantile=time_quantile, held_out_users=held_out_users)
    rng = np.random.default_rng(seed)
    if held_out_users is not None:
        return _split_users(events, _draw_users(events, held_out_users, rng), last, given, rng)
    if last is not None:
        return _cut(events, _mark_all_but_last(events, last), "last")
    if at is not None:
        return _split_at(events, parse_time(at))
    if time_quantile is not None:
        quantile = _check_fraction("time_quantile", time_quantile)
        return _split_at(events, float(np.quantile(_require_times(events), quantile, method="higher")))
    ratio = _check_fraction("ratio", 0.8 if ratio is None else ratio)
    if by == "log":
        return _cut(events, rng.permutation(len(events)) < _round_share(ratio, np.array([len(events)])))
    if by != "user":
        raise DataError(f"by={by!r}: choose 'user' (a share of each user's events) or 'log' (of all events)")
    return _cut(events, _draw_share_of_each_user(events, ratio, rng))


def _check_modes(**modes: Any) -> None:
    chosen = {name for name, value in modes.items() if value is not None}
    if len(chosen) > 1 and chosen != {"held_out_users", "last"}:
        raise DataError(f"split takes one of {', '.join(modes)}, not {' and '.join(sorted(chosen))} together")


def _check_fraction(name: str, value: float) -> float:
    if isinstance(value, bool) or not 0 < value < 1:
        raise DataError(f"{name}={value!r}: it must lie strictly between 0 and 1")
    return float(value)


def _require_times(log: Log) -> Times:
    if log.times is None:
        raise DataError("the log has no times, so it cannot be split by time; read it with a time column")
    return log.times


def _cut(log: Log, train: BoolArray, how: Literal["last", "time"] | None = None) -> tuple[Log, Log]:
    return replace(log.select(train), cut=how), replace(log.select(~train), cut=None)


def _round_share(ratio: float, counts: Int64Array) -> Int64Array:
    """Return `ratio * counts` rounded half up (0.29 * 50 is 14.5), at least 1 where there is an event."""
    rounded: Int64Array = np.floor(ratio * counts + 0.5 + 1e-9).astype(np.int64)
    return np.where(counts > 0, np.maximum(rounded, 1), 0)


def _mark_leading(log: Log, order: Int64Array, n_leading: Int64Array) -> BoolArray:
    """Return which events, shape (n_events,), are among their user's first `n_leading`, shape (n_users,).

    `order`, shape (n_events,), sorts the events by user row, and each user's events by what decides.
    """
    counts = log.user_counts()
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    mask = np.empty(len(log), np.bool_)
    mask[order] = place < np.repeat(n_leading, counts)
    return mask


def _draw_share_of_each_user(log: Log, ratio: float, rng: np.random.Generator) -> BoolArray:
    """Return which events, shape (n_events,), belong to a random share of their user's events."""
    shuffled = (log.user_rows.astype(np.int64) << 32) | rng.integers(2**32, size=len(log))
    return _mark_leading(log, np.argsort(shuffled, kind="stable"), _round_share(ratio, log.user_counts()))


def _mark_all_but_last(log: Log, last: int) -> BoolArray:
    """Return which events, shape (n_events,), are not among the `last` latest of their user."""
    if isinstance(last, bool) or last != int(last) or last < 1:
        raise DataError(f"last={last!r}: it must be a whole number of events, at least 1")
    counts = log.user_counts()
    return _mark_leading(
        log, np.lexsort((_require_times(log), log.user_rows)), np.maximum(counts - last, np.minimum(1, counts))
    )


def _split_at(log: Log, cut: float) -> tuple[Log, Log]:
    times = _require_times(log)
    train = times < cut
    if train.all() or not train.any():
        given, first, last = show_moments(np.array([cut, times.min(), times.max()]))
        raise DataError(f"all events lie on one side of the time {given}: theirs run from {first} to {last}")
    return _cut(log, train, "time")


def _draw_users(log: Log, wanted: Any, rng: np.random.Generator) -> BoolArray:
    """Return which users, shape (n_users,), are held out."""
    active = np.flatnonzero(log.user_counts())
    if isinstance(wanted, bool | str):
        raise DataError(f"held_out_users={wanted!r}: give a share, a number of users, or a list of ids")
    if isinstance(wanted, float | np.floating):
        wanted = int(_round_share(_check_fraction("held_out_users", float(wanted)), np.array([len(active)]))[0])
    if isinstance(wanted, int | np.integer):
        if not 1 <= wanted < len(active):
            raise DataError(f"held_out_users={wanted}: it must leave some of the {len(active)} users in train")
        chosen = rng.choice(active, int(wanted), replace=False)
    else:
        chosen = log.users.rows(wanted)
    mask = np.zeros(log.n_users, np.bool_)
    mask[chosen] = True
    return mask


def _split_users(log: Log, held_out: BoolArray, last: int | None, given: float, rng: np.random.Generator) -> HeldOut:
    theirs = held_out[log.user_rows]
    if not theirs.any() or theirs.all():
        raise DataError("held_out_users must leave events on both sides: some of the users, but not all of them")
    train, asked_about = log.select(~theirs), log.select(theirs)
    if last is not None:
        return HeldOut(train, *_cut(asked_about, _mark_all_but_last(asked_about, last)))
    return HeldOut(
        train, *_cut(asked_about, _draw_share_of_each_user(asked_about, _check_fraction("given", given), rng))
    )
