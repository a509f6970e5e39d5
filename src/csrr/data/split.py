"""Splits of a log into training and test events: at random, by time, by user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from csrr._base.arrays import BoolArray, Int64Array
from csrr._base.text import show_argument
from csrr.data.columns import Times, format_cuts, parse_time
from csrr.data.errors import DataError, DataWarning, warn_caller
from csrr.data.log import Log, as_log, mark_leading
from csrr.parameters import Choice, ParameterError, check_number, check_seed, is_whole

By = Literal["user", "log", "last", "time"]
"""The test events: a random share of each user's events, or of all; each user's last ones; or all from a time on."""


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
    by: By = "user",
    last: int | None = None,
    at: float | str | date | None = None,
    time_quantile: float | None = None,
    held_out_users: None = None,
    given: float | None = None,
    cold_items: float | None = None,
) -> tuple[Log, Log]: ...


@overload
def split(
    log: Any,
    ratio: float | None = None,
    *,
    seed: int = 0,
    by: By = "user",
    last: int | None = None,
    at: float | str | date | None = None,
    time_quantile: float | None = None,
    held_out_users: Any,
    given: float | None = None,
    cold_items: None = None,
) -> HeldOut: ...


def split(
    log: Any,
    ratio: float | None = None,
    *,
    seed: int = 0,
    by: By = "user",
    last: int | None = None,
    at: float | str | date | None = None,
    time_quantile: float | None = None,
    held_out_users: Any = None,
    given: float | None = None,
    cold_items: float | None = None,
) -> tuple[Log, Log] | HeldOut:
    """Split a log into (train, test), or a `HeldOut`; all parts share the log's row numbers.

    Give one of `ratio`, `last`, `at`, `time_quantile`, `held_out_users` and `cold_items`; the default is a `ratio` of
    0.8. The result depends on the events and the seed; on the order of the input rows only where it decides between
    equal times.

    Of a log with a target (`csrr.read(..., target="buy")`), only events of the target type are held out, and `ratio`,
    `last` and `time_quantile` count these. What else happened between a user and an item can be train, so that what is
    viewed in train may be bought in test: with `at` and `time_quantile` what happened before that time, with `last`
    what happened before the user's first held-out event (at equal times, other types come first), with a `ratio` all
    of it. Later events of other types are in no part.

    Parameters
    ----------
    log
        A log, a table with user and item columns, or a users x items matrix.
    ratio
        The share of each user's n events in train, drawn at random: ratio*n, rounded half up, at least one.
    seed
        Seed of the random numbers.
    by
        What `ratio` is a share of: with "user" each user's events, with "log" all events, both drawn at random; with
        "last" each user's first events, and without a ratio all but the last one; with "time" all events in the order
        of time. Of the events after that time, or after `at`, test has those whose users and items have events before.
    last
        The number of each user's latest events in test. The log needs times, whose ties the rows that were read break,
        or an order (`csrr.read(..., ordered=True)`). At least one event stays in train, so a user with few events has
        fewer in test.
    at
        Events at or after this time (a number, a datetime, or a string like 2000-12-31) are test.
    time_quantile
        The same, at the time before which about this share of the events lies.
    held_out_users
        The share or number of users to leave out of train, drawn at random; or their ids.
    given
        The share of each held-out user's events in `given`, drawn at random (0.8 if nothing is said); with `last`,
        `given` has all but the latest.
    cold_items
        The share of the items to leave out of train with all their events, drawn at random: a test of what is known of
        items without a history. Test has those of their events whose users have others.

    Returns
    -------
    parts
        Two logs, train and test; with `held_out_users`, three: train, given and asked.

    Raises
    ------
    ParameterError
        For an argument that cannot be what it is.
    DataError
        If the arguments contradict each other or the log, such as a time for a log without times.

    Warns
    -----
    DataWarning
        Before a split by order or time, if most users have most of their events at one time.

    Examples
    --------
    >>> log = csrr.synthetic(60, 40, events_per_user=10).log
    >>> train, test = csrr.split(log, ratio=0.8, seed=1)
    >>> len(train) + len(test) == len(log)
    True
    >>> plays = csrr.read({"user": [1, 1, 1, 2, 2], "item": [7, 9, 8, 8, 7]}, ordered=True)
    >>> train, test = csrr.split(plays, by="last")
    >>> test.items.ids[test.item_rows].tolist()
    [8, 7]
    """
    events = as_log(log)
    ways = {"ratio": ratio, "last": last, "at": at, "time_quantile": time_quantile, "held_out_users": held_out_users}
    ways |= {"cold_items": cold_items}
    chosen = {name for name, value in ways.items() if value is not None}
    if len(chosen) > 1 and chosen != {"held_out_users", "last"}:
        raise DataError(f"split takes one of {', '.join(ways)}, not {' and '.join(sorted(chosen))} together")
    check_seed(seed)
    Choice(name="by", words=tuple(_GO_WITH)).check(by)
    if chosen - _GO_WITH[by]:
        raise ParameterError.of(
            "by", by, f"goes with {' or '.join(sorted(_GO_WITH[by]))}, not {', '.join(sorted(chosen))}"
        )
    if given is not None and (held_out_users is None or last is not None):
        raise ParameterError.of("given", given, "goes with held_out_users, without last")
    rng = np.random.default_rng(seed)
    if cold_items is not None:
        return _note_cut(_hide_items(events, _check_fraction("cold_items", cold_items), rng), None)
    if held_out_users is not None:
        return _split_users(
            events, _draw_users(events, held_out_users, rng), last, 0.8 if given is None else given, rng
        )
    is_of_order = by in ("last", "time") or chosen & {"last", "at", "time_quantile"}
    if is_of_order and (doubt := describe_loaded_times(events)) is not None:
        warn_caller(doubt, DataWarning)
    if last is not None or by == "last":
        many: int | float = 1 if last is None else last
        if ratio is not None:
            many = _check_fraction("ratio", ratio)
        how: Literal["last", "share"] = "last" if is_whole(many, 1) and many == 1 else "share"
        return _note_cut(_hold_out_last(events, many, is_share=ratio is not None), how)
    if by == "time" or at is not None or time_quantile is not None:
        name, share = ("ratio", ratio) if time_quantile is None else ("time_quantile", time_quantile)
        quantile = _check_fraction(name, 0.8 if share is None else share)
        moment = np.quantile(get_target_times(events), quantile, method="higher") if at is None else parse_time(at)
        train, test = cut_at(events, float(moment))
        return _keep_known(train, test) if by == "time" else (train, test)
    ratio = _check_fraction("ratio", 0.8 if ratio is None else ratio)
    if by == "log":
        parts = _cut(events, lambda each: rng.permutation(len(each)) < _round_share(ratio, np.array([len(each)])))
    else:
        parts = _cut(events, lambda each: _draw_share_of_each_user(each, ratio, rng))
    return _note_cut(parts, None)


_GO_WITH = {
    "user": {"ratio", "last", "at", "time_quantile", "held_out_users", "cold_items"},
    "log": {"ratio"},
    "last": {"ratio", "last"},
    "time": {"ratio", "at", "time_quantile"},
}


def _note_cut(parts: tuple[Log, Log], how: Literal["last", "share", "time"] | None) -> tuple[Log, Log]:
    """Return (train, test) with `cut` set: how train was made."""
    return replace(parts[0], cut=how), replace(parts[1], cut=None)


def _hide_items(log: Log, share: float, rng: np.random.Generator) -> tuple[Log, Log]:
    """Return (train, test): events of other items than a share of them, and those of the target type of these."""
    there = np.flatnonzero(log.of_target().item_counts())
    n_hidden = max(1, int(share * len(there) + 0.5))
    if n_hidden >= len(there):
        raise DataError(f"cold_items={share:g} leaves none of the {len(there):,} items in train; give a smaller share")
    is_hidden = np.zeros(log.n_items, np.bool_)
    is_hidden[rng.choice(there, n_hidden, replace=False)] = True
    train, test = log.select(~is_hidden[log.item_rows]), log.of_target()
    return train, test.select(is_hidden[test.item_rows] & (train.user_counts() > 0)[test.user_rows])


def _check_fraction(name: str, value: float) -> float:
    check_number(name, value, above=0, below=1)
    return float(value)


def _require_times(log: Log) -> Times:
    if log.times is None:
        raise DataError("the log has no times, so it cannot be split by time; read it with a time column")
    return log.times


def get_target_times(log: Log) -> Times:
    """Return the times of the events that can be held out, shape (n,)."""
    _require_times(log)
    return _require_times(log.select_types(log.types.target_cells) if log.types is not None else log)


def _cut(log: Log, choose: Callable[[Log], BoolArray]) -> tuple[Log, Log]:
    """Return (train, test): the events that `choose` marks, shape (n_events,), and those that it does not.

    Of a log with a target it chooses among the events of that type; all others are train.
    """
    if log.types is None or log.types.target is None:
        train = choose(log)
        return log.select(train), log.select(~train)
    held = log.is_target.copy()
    held[held] = ~choose(log.select(held))
    cells = log.types.target_cells & held[:, None]
    return log.select_types(~cells), log.select_types(cells)


def _hold_out_last(log: Log, many: float, *, is_share: bool = False) -> tuple[Log, Log]:
    """Return (train, test): test has each user's `many` latest events, train those before.

    With `is_share`, `many` is the share of each user's events in train.
    """
    if not is_share and not is_whole(many, 1):
        raise ParameterError.of("last", many, "must be a whole number of events, at least 1")
    order, counts = log.find_order(), np.bincount(log.user_rows[log.is_target], minlength=log.n_users)
    # The number of each user's test events, (n_users,).
    last = counts - _round_share(many, counts) if is_share else np.full(log.n_users, min(int(many), len(log)))
    if log.types is None or log.types.target is None:
        train = mark_leading(log, order, np.maximum(counts - last, np.minimum(1, counts)))
        return log.select(train), log.select(~train)
    events, kinds = np.nonzero(log.types.cells)
    is_goal, users = log.types.target_cells[events, kinds], log.user_rows[events]
    places = np.argsort(order)[events]
    order = np.lexsort(
        (is_goal, places, users)
        if log.types.times is None
        else (places, is_goal, log.types.times[events, kinds], users)
    )
    users, is_goal = users[order], is_goal[order]
    is_first = np.diff(users, prepend=-1) > 0
    # The latest events of the target type, but never the first event of a user.
    may_be_held = is_goal & ~is_first
    after = np.cumsum(may_be_held[::-1])[::-1]  # the number of candidates from here on, of all users
    ends = np.append(after, 0)[np.searchsorted(users, users, side="right")]
    is_held = may_be_held & (after - ends <= last[users])
    # Train is everything of a user before the first held-out event.
    begun = np.cumsum(is_held)
    is_train = begun - (begun - is_held)[np.flatnonzero(is_first)][np.cumsum(is_first) - 1] == 0
    train, test = np.zeros_like(log.types.cells), np.zeros_like(log.types.cells)
    for cells, mask in ((train, is_train), (test, is_held)):
        cells[events[order[mask]], kinds[order[mask]]] = True
    return log.select_types(train), log.select_types(test)


def _round_share(ratio: float, counts: Int64Array) -> Int64Array:
    """Return `ratio * counts` rounded half up (0.29 * 50 is 14.5), at least 1 where there is an event."""
    rounded: Int64Array = np.floor(ratio * counts + 0.5 + 1e-9).astype(np.int64)
    return np.where(counts > 0, np.maximum(rounded, 1), 0)


def _draw_share_of_each_user(log: Log, ratio: float, rng: np.random.Generator) -> BoolArray:
    """Return which events, shape (n_events,), belong to a random share of their user's events."""
    shuffled = (log.user_rows.astype(np.int64) << 32) | rng.integers(2**32, size=len(log))
    return mark_leading(log, np.argsort(shuffled, kind="stable"), _round_share(ratio, log.user_counts()))


def cut_at(log: Log, cut: float) -> tuple[Log, Log]:
    """Return (train, test): what happened before a time, in seconds, and from then on."""
    return _note_cut(_split_at(log, cut), "time")


def _split_at(log: Log, cut: float) -> tuple[Log, Log]:
    times = _require_times(log)
    types = None if log.types is None or log.types.target is None else log.types
    if types is not None and types.times is not None:
        times = types.times[types.cells]
    if not times.min() < cut <= times.max():
        given, first, last = format_cuts(np.array([cut, times.min(), times.max()]))
        raise DataError(f"all events lie on one side of the time {given}: theirs run from {first} to {last}")
    if types is None or types.times is None:
        return _cut(log, lambda each: _require_times(each) < cut)
    early = types.times < cut
    late = ~early & types.target_cells
    if not late.any():
        given = format_cuts(np.array([cut, times.max()]))[0]
        raise DataError(f"no event of the target type {types.target!r} is at or after the time {given}")
    return log.select_types(early), log.select_types(late)


def _keep_known(train: Log, test: Log) -> tuple[Log, Log]:
    """Return (train, test), test without events of users or items that have none in train."""
    known = (train.user_counts()[test.user_rows] > 0) & (train.item_counts()[test.item_rows] > 0)
    if not known.any():
        raise DataError(
            "no event after the cut is of a user and an item with events before; cut elsewhere, or leave out by='time'"
        )
    return train, test.select(known)


def _draw_users(log: Log, wanted: Any, rng: np.random.Generator) -> BoolArray:
    """Return which users, shape (n_users,), are held out."""
    active = np.flatnonzero(log.user_counts())
    if isinstance(wanted, bool | str) or (isinstance(wanted, np.ndarray) and wanted.ndim != 1):
        raise ParameterError.of("held_out_users", wanted, "must be a share, a number of users, or a list of ids")
    if isinstance(wanted, float | np.floating):
        wanted = int(_round_share(_check_fraction("held_out_users", float(wanted)), np.array([len(active)]))[0])
    if isinstance(wanted, int | np.integer):
        if not 1 <= wanted < len(active):
            raise ParameterError.of("held_out_users", wanted, f"must leave some of the {len(active)} users in train")
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
        return HeldOut(train, *_hold_out_last(asked_about, last))
    share = _check_fraction("given", given)
    return HeldOut(train, *_cut(asked_about, lambda each: _draw_share_of_each_user(each, share, rng)))


MUCH_AT_ONCE = 0.5
"""Times of a log where so many users have this share of their events at one time look like times of loading."""
LEAST_TELLING = 5
"""With fewer users of three events or more, times are not judged."""


def describe_loaded_times(log: Log) -> str | None:
    """Return why the times of a log look like those of when rows were loaded, and what to do; None if they do not."""
    if log.times is None:
        return None
    order = np.lexsort((log.times, log.user_rows))
    users, times = log.user_rows[order], log.times[order]
    starts = np.flatnonzero((np.diff(users, prepend=-1) != 0) | (np.diff(times, prepend=times[:1]) != 0))
    largest = np.zeros(log.n_users, np.int64)
    np.maximum.at(largest, users[starts], np.diff(starts, append=len(users)))
    counts = log.user_counts()
    is_telling = counts >= 3
    share = (largest > MUCH_AT_ONCE * counts)[is_telling].sum() / max(1, is_telling.sum())
    if is_telling.sum() < LEAST_TELLING or share <= MUCH_AT_ONCE:
        return None
    return (
        f"{share:.0%} of the users have most of their events at one time, as if it were when the rows were loaded: the"
        " times do not say what came first. Read a column with the times of the events, or leave times out"
        f" ({show_argument('time', False)}), with {show_argument('ordered', True)} where rows are in order"
    )
