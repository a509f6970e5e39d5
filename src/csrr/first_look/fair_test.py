"""A log -> a part to learn from and a part to be asked about, as fair as the log allows, and why so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csrr.arrays import AnyArray, Int64Array
from csrr.data import DataError, Log, split
from csrr.data.merge import number_pairs
from csrr.first_look.oddities import format_day
from csrr.plots.number_text import format_number_of

QUANTILE, RATIO = 0.8, 0.8
LEAST_JUDGED = 10
"""Fewer users than these tell nothing."""
ENOUGH_JUDGED, ENOUGH_SHARE = 200, 0.25
"""A cut in time must leave so many users with events on both sides, or in a small log that share of all."""
MOST_JUDGED = 10_000
"""More users than these are a sample of so many."""


@dataclass(frozen=True, eq=False)
class FairTest:
    """What models learn from and what they are asked about.

    Attributes
    ----------
    train, test
        The parts.
    how
        How they were parted, in words.
    users
        The ids of the users who are asked about.
    n_judged
        How many of them have events in train.
    new_item_share
        The share of the test events whose item is in no event of train; no model can find it.
    """

    train: Log
    test: Log
    how: str
    users: AnyArray
    n_judged: int
    new_item_share: float


def hold_out(log: Log, seed: int = 0) -> FairTest:
    """Return the fairest test that a log allows: a cut in time, each user's latest events, or a random fifth of these.

    Raises DataError where too few users have the events for any.
    """
    _check_size(log)
    ways = [_hold_out_at_random(log, seed)] if not _has_order(log) else [_cut_in_time(log), _hold_out_latest(log)]
    for number, (train, test, how) in enumerate(ways):
        judged = _find_judged(train, test)
        enough = min(ENOUGH_JUDGED, max(LEAST_JUDGED, ENOUGH_SHARE * log.n_users))
        if len(judged) >= enough or number == len(ways) - 1:
            return _make_test(train, test, how, judged, seed)
    raise AssertionError("there is a last way")


def find_left_out(log: Log, train: Log) -> Log:
    """Return the events of a log that are not in a part of it, by their types where there are any."""
    pairs, kept = (number_pairs(each.user_rows, each.item_rows, log.n_items) for each in (log, train))
    is_in_train = np.isin(pairs, kept)
    if log.types is None or train.types is None:
        return log.select(~is_in_train)
    cells = np.ones_like(log.types.cells)
    cells[is_in_train] = ~train.types.cells
    return log.select_types(cells)


def _check_size(log: Log) -> None:
    n_users = int((log.user_counts() > 1).sum())
    n_items = int(np.count_nonzero(log.item_counts()))
    if n_users < LEAST_JUDGED:
        people = format_number_of(int(np.count_nonzero(log.user_counts())), "user")
        raise DataError(
            f"no test is possible: it needs {LEAST_JUDGED} users with two events or more, one for training and one for"
            f" the test, and {n_users} of {people} {'has' if n_users == 1 else 'have'} so many; use a longer log, or"
            " check which column is the user"
        )
    if n_items < LEAST_JUDGED:
        raise DataError(
            f"no test is possible: the log has {format_number_of(n_items, 'item')}, and a list of the best needs at"
            f" least {LEAST_JUDGED} to choose from; use a longer log, or check which column is the item"
        )


def _has_order(log: Log) -> bool:
    return log.times is not None and bool(log.times.min() < log.times.max())


def _cut_in_time(log: Log) -> tuple[Log, Log, str]:
    assert log.times is not None
    # Where the last fifth has one time only, the cut is there; the latest of all events is test in any case.
    # With a target, so much of what it is comes before the cut.
    wanted = log.times if log.types is None or log.types.times is None else log.types.times[log.types.target_cells]
    cut = float(np.quantile(wanted, QUANTILE, method="higher"))
    cut = cut if wanted.min() < cut else float(wanted.max())
    train, test = split(log, at=cut)
    how = (
        f"Split in time: models learn from {format_number_of(len(train), 'event')} before {format_day(cut)} and are"
        f" tested on the {len(test):,} from then on."
    )
    return train, test, how


def _hold_out_latest(log: Log) -> tuple[Log, Log, str]:
    counts = log.user_counts()
    last = int(np.clip(round((1 - RATIO) * float(np.median(counts[counts > 1]))), 1, 10))
    train, test = split(log, last=last)
    events = "event" if last == 1 else f"{last} events"
    how = (
        f"Each user’s latest {events}: models learn from the {len(train):,} before and are tested on these"
        f" {len(test):,}. A single split in time would leave too few users with events on both sides."
    )
    return train, test, how


def _hold_out_at_random(log: Log, seed: int) -> tuple[Log, Log, str]:
    train, test = split(log, ratio=RATIO, seed=seed)
    how = (
        f"A random fifth of each user’s events, {len(test):,} of them; models learn from the other {len(train):,}."
        " There are no times to split at, so the future may be harder than this test."
    )
    return train, test, how


def _find_judged(train: Log, test: Log) -> Int64Array:
    """Return the rows of users with events on both sides."""
    return np.flatnonzero((train.user_counts() > 0) & (test.user_counts() > 0))


def _make_test(train: Log, test: Log, how: str, judged: Int64Array, seed: int) -> FairTest:
    if len(judged) < LEAST_JUDGED:
        raise DataError(
            f"no test is possible: it needs {LEAST_JUDGED} users with an event for training and one for the test, and"
            f" {len(judged)} {'has' if len(judged) == 1 else 'have'} both; most users have too few events: use a longer"
            " log"
        )
    asked = np.flatnonzero(test.user_counts() > 0)
    if len(asked) > MOST_JUDGED:
        asked = np.sort(np.random.default_rng(seed).choice(asked, MOST_JUDGED, replace=False))
        how += f" Of the test users, a random {MOST_JUDGED:,} are evaluated."
    known = train.user_counts()[asked] > 0
    new = float((train.item_counts()[test.item_rows] == 0).mean())
    return FairTest(train, test, how, train.users.ids[asked], int(known.sum()), new)
