"""A log -> what a model may see and what it is asked about."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from csrr.data.columns import Times, moment
from csrr.data.errors import DataError
from csrr.data.log import Log, as_log

Mask = npt.NDArray[np.bool_]
Order = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]


class HeldOut(NamedTuple):
    """A split by users: `train` holds the other users; each held-out user's events are `given` or `asked`."""

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
    """Return (train, test), or `HeldOut`; all parts share the log's row numbers.

    One of these decides; without any, it is `ratio` = 0.8:

    - `ratio`: a random share of each user's n events is train: `ratio * n`, rounded half up, at least one.
      With `by="log"` the share is of all events, whoever's they are.
    - `last`: each user's `last` latest events are test, equal times in the order of the item rows. At least
      one event stays in train, so a user with no more than `last` events has fewer in test.
    - `at`: events at or after that time (a number, a datetime, or text like 2000-12-31) are test.
    - `time_quantile`: the same, at the time before which about that share of the events lies.
    - `held_out_users`: that share or number of the users, drawn at random, or the users with these ids, are
      left out of train. A random share `given` of the events of each (rounded as above) is given; with
      `last`, all but the latest ones are.

    The result depends on the events and the seed, not on the order of the rows they were read from.
    """
    events = as_log(log)
    _check_modes(ratio=ratio, last=last, at=at, time_quantile=time_quantile, held_out_users=held_out_users)
    rng = np.random.default_rng(seed)
    if held_out_users is not None:
        return _split_users(events, _drawn_users(events, held_out_users, rng), last, given, rng)
    if last is not None:
        return _parts(events, _all_but_last(events, last))
    if at is not None:
        return _split_at(events, moment(at))
    if time_quantile is not None:
        quantile = _fraction("time_quantile", time_quantile)
        return _split_at(events, float(np.quantile(_times(events), quantile, method="higher")))
    ratio = _fraction("ratio", 0.8 if ratio is None else ratio)
    if by == "log":
        return _parts(events, rng.permutation(len(events)) < _rounded(ratio, np.array([len(events)])))
    if by != "user":
        raise DataError(f"by={by!r}: choose 'user' (a share of each user's events) or 'log' (of all events)")
    return _parts(events, _share_of_each_user(events, ratio, rng))


def _check_modes(**modes: Any) -> None:
    chosen = {name for name, value in modes.items() if value is not None}
    if len(chosen) > 1 and chosen != {"held_out_users", "last"}:
        raise DataError(f"split takes one of {', '.join(modes)}, not {' and '.join(sorted(chosen))} together")


def _fraction(name: str, value: float) -> float:
    if isinstance(value, bool) or not 0 < value < 1:
        raise DataError(f"{name}={value!r}: it must lie strictly between 0 and 1")
    return float(value)


def _times(log: Log) -> Times:
    if log.times is None:
        raise DataError("the log has no times, so it cannot be split by time; read it with a time column")
    return log.times


def _parts(log: Log, train: Mask) -> tuple[Log, Log]:
    return log.select(train), log.select(~train)


def _rounded(ratio: float, counts: Counts) -> Counts:
    """Return `ratio * counts` rounded half up (0.29 * 50 is 14.5), at least 1 where there is an event."""
    rounded: Counts = np.floor(ratio * counts + 0.5 + 1e-9).astype(np.int64)
    return np.where(counts > 0, np.maximum(rounded, 1), 0)


def _leading(log: Log, order: Order, n_leading: Counts) -> Mask:
    """Return which events, shape (n_events,), are among their user's first `n_leading`, shape (n_users,).

    `order`, shape (n_events,), sorts the events by user row, and each user's events by what decides.
    """
    counts = log.user_counts()
    place = np.arange(len(log)) - np.repeat(np.cumsum(counts) - counts, counts)
    mask = np.empty(len(log), np.bool_)
    mask[order] = place < np.repeat(n_leading, counts)
    return mask


def _share_of_each_user(log: Log, ratio: float, rng: np.random.Generator) -> Mask:
    """Return which events, shape (n_events,), belong to a random share of their user's events."""
    shuffled = (log.user_rows.astype(np.int64) << 32) | rng.integers(2**32, size=len(log))
    return _leading(log, np.argsort(shuffled, kind="stable"), _rounded(ratio, log.user_counts()))


def _all_but_last(log: Log, last: int) -> Mask:
    """Return which events, shape (n_events,), are not among the `last` latest of their user."""
    if isinstance(last, bool) or last != int(last) or last < 1:
        raise DataError(f"last={last!r}: it must be a whole number of events, at least 1")
    counts = log.user_counts()
    return _leading(log, np.lexsort((_times(log), log.user_rows)), np.maximum(counts - last, np.minimum(1, counts)))


def _split_at(log: Log, cut: float) -> tuple[Log, Log]:
    times = _times(log)
    train = times < cut
    if train.all() or not train.any():
        raise DataError(
            f"all events lie on one side of the time {cut:.12g}:"
            f" theirs run from {times.min():.12g} to {times.max():.12g}"
        )
    return _parts(log, train)


def _drawn_users(log: Log, wanted: Any, rng: np.random.Generator) -> Mask:
    """Return which users, shape (n_users,), are held out."""
    active = np.flatnonzero(log.user_counts())
    if isinstance(wanted, bool | str):
        raise DataError(f"held_out_users={wanted!r}: give a share, a number of users, or a list of ids")
    if isinstance(wanted, float | np.floating):
        wanted = int(_rounded(_fraction("held_out_users", float(wanted)), np.array([len(active)]))[0])
    if isinstance(wanted, int | np.integer):
        if not 1 <= wanted < len(active):
            raise DataError(f"held_out_users={wanted}: it must leave some of the {len(active)} users in train")
        chosen = rng.choice(active, int(wanted), replace=False)
    else:
        chosen = log.users.rows(wanted)
    mask = np.zeros(log.n_users, np.bool_)
    mask[chosen] = True
    return mask


def _split_users(log: Log, held_out: Mask, last: int | None, given: float, rng: np.random.Generator) -> HeldOut:
    theirs = held_out[log.user_rows]
    if not theirs.any() or theirs.all():
        raise DataError("held_out_users must leave events on both sides: some of the users, but not all of them")
    train, asked_about = log.select(~theirs), log.select(theirs)
    if last is not None:
        return HeldOut(train, *_parts(asked_about, _all_but_last(asked_about, last)))
    return HeldOut(train, *_parts(asked_about, _share_of_each_user(asked_about, _fraction("given", given), rng)))
