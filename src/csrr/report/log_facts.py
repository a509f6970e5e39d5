"""Statistics of a log, and anything unusual in it, with advice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from csrr._base.arrays import Int64Array
from csrr._base.text import format_number_of, format_percent, make_printable, show_value
from csrr.data.log import Log
from csrr.data.split import describe_loaded_times
from csrr.data.tables import format_range, is_amount

SHORT = 5
"""Users with fewer events have short histories: little is left to learn from once some events are held out."""
MACHINE_EVENTS, MACHINE_SHARE, MACHINE_TIMES = 100, 0.5, 10
"""An account with at least 100 events looks like a bot if it has half of all items, or ten times the events of the 99th
percentile."""
BURST, BURST_SECONDS = 300, 300.0
"""An account with this number of events in this number of seconds looks like a bot, too."""
HOUR, DAY, WEEK = 3600, 86_400, 604_800
LEAST_DAYS = 7
"""Fewer days after the first week say nothing of new items."""


@dataclass(frozen=True)
class LogFacts:
    """The statistics of a log.

    Attributes
    ----------
    n_users, n_items, n_events
        Users and items with events, and the events.
    density
        The share of all pairs that are events.
    columns
        Which column was used for what, in words, if the log was a table.
    n_repeats
        The number of rows that repeat a pair of user and item.
    weighted
        Whether events have weights.
    first, last
        The times of the first and the last event, in seconds since 1970, if known.
    events_per_user, events_per_item
        The smallest number, the quartiles (25 %, median, 75 %), and the largest.
    top_share
        The share of events that fall on the most popular tenth of the items.
    n_short
        Users with fewer than `SHORT` events.
    n_single_items
        Items with one event.
    machines
        The ids of accounts that look like bots, the most active first.
    largest_moment
        The share of events at the most frequent single time, if known.
    new_share
        The share of a day's events, on average over days after the first week, that fell on items whose first event was
        less than a week before; if times are known.
    popularity
        Pairs of a share of the items, most popular first, and the share of the events that fall on them.
    """

    n_users: int
    n_items: int
    n_events: int
    density: float
    columns: str | None
    n_repeats: int
    weighted: bool
    first: float | None
    last: float | None
    events_per_user: list[int]
    events_per_item: list[int]
    top_share: float
    n_short: int
    n_single_items: int
    machines: list[Any]
    largest_moment: float | None
    new_share: float | None
    popularity: list[tuple[float, float]]


def compute_log_facts(log: Log) -> LogFacts:
    """Return the statistics of a log."""
    of_users, of_items = log.user_counts(), log.item_counts()
    per_user, per_item = of_users[of_users > 0], np.sort(of_items[of_items > 0])[::-1]
    columns, n_events = log.columns, len(log)
    times = log.times if n_events else None
    return LogFacts(
        n_users=len(per_user),
        n_items=len(per_item),
        n_events=n_events,
        density=n_events / max(1, len(per_user) * len(per_item)),
        columns=None if columns is None else columns.describe(),
        n_repeats=0 if columns is None else columns.n_repeats,
        weighted=log.weights is not None,
        first=None if times is None else float(times.min()),
        last=None if times is None else float(times.max()),
        events_per_user=_compute_quartiles(per_user),
        events_per_item=_compute_quartiles(per_item),
        top_share=float(per_item[: -(-len(per_item) // 10)].sum() / max(1, n_events)),
        n_short=int((per_user < SHORT).sum()),
        n_single_items=int((per_item == 1).sum()),
        machines=log.users.ids[find_machines(log)].tolist(),
        largest_moment=None if times is None else float(np.unique(times, return_counts=True)[1].max() / n_events),
        new_share=_measure_new_share(log),
        popularity=_accumulate_popularity(per_item),
    )


def _measure_new_share(log: Log) -> float | None:
    """Return the mean over days of the share of events on items that were new that week; None if it is not known."""
    if log.times is None or not len(log):
        return None
    times = log.times.astype(np.float64)
    first = np.full(log.n_items, np.inf)
    np.minimum.at(first, log.item_rows, times)
    later = times >= times.min() + WEEK
    _, days = np.unique(times[later] // DAY, return_inverse=True)
    if days.max(initial=-1) + 1 < LEAST_DAYS:
        return None
    is_new = (times - first[log.item_rows])[later] < WEEK
    return float((np.bincount(days, is_new) / np.bincount(days)).mean())


def find_machines(log: Log) -> Int64Array:
    """Return the rows of accounts that look like bots, the most active first."""
    counts = log.user_counts()
    active = counts[counts > 0]
    if not len(active):
        return np.empty(0, np.int64)
    many = MACHINE_TIMES * float(np.quantile(active, 0.99))
    found = (counts > MACHINE_SHARE * np.count_nonzero(log.item_counts())) | (counts > many) | _mark_bursts(log)
    rows = np.flatnonzero(found & (counts >= MACHINE_EVENTS))
    return rows[np.argsort(-counts[rows], kind="stable")]


def _mark_bursts(log: Log) -> Any:
    """Return which users, (n_users,), have more events at once than a person makes; none if times are whole hours."""
    found = np.zeros(log.n_users, np.bool_)
    if log.times is None or len(log) < BURST or not (log.times % HOUR).any():
        return found
    order = np.lexsort((log.times, log.user_rows))
    users, times = log.user_rows[order], log.times[order]
    quick = (users[BURST - 1 :] == users[: 1 - BURST]) & (times[BURST - 1 :] - times[: 1 - BURST] < BURST_SECONDS)
    found[users[: 1 - BURST][quick]] = True
    return found


def _compute_quartiles(counts: Int64Array) -> list[int]:
    return (
        [int(each) for each in np.quantile(counts, [0, 0.25, 0.5, 0.75, 1], method="lower")] if len(counts) else [0] * 5
    )


def _accumulate_popularity(per_item: Int64Array, most: int = 40) -> list[tuple[float, float]]:
    """Return pairs of a share of the items, most popular first, and their share of the events; at most `most`."""
    places = np.unique(np.linspace(0, len(per_item), most).round().astype(np.int64))
    events = np.concatenate(([0], np.cumsum(per_item)))
    return [(float(place / len(per_item)), float(events[place] / events[-1])) for place in places if len(per_item)]


EARLIEST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
MUCH_AT_ONCE, DENSE, MANY = 0.2, 0.3, 0.5
SHOWN = 5


@dataclass(frozen=True)
class Anomaly:
    """Something unusual in a log.

    Attributes
    ----------
    what
        A sentence on what is unusual.
    action
        A sentence on what to do about it.
    """

    what: str
    action: str


def find_anomalies(log: Log, facts: LogFacts) -> list[Anomaly]:
    """Return what is unusual in a log, the most serious first."""
    parts = _check_columns(log, facts), _check_users(facts), _check_times(log, facts), _check_items(facts)
    return [Anomaly(*found) for part in parts for found in part]


def _check_columns(log: Log, facts: LogFacts) -> Iterator[tuple[str, str]]:
    if (columns := log.columns) is None:
        return
    for note in columns.notes:
        yield note, "Check that these rows and ids are intended."
    rating, scale = show_value(columns.rating), format_range(columns)
    if columns.liked_from is not None and columns.min_rating is None:
        yield (
            f"The column {rating} holds ratings from {scale}, and every rating counts as a choice, bad ones too.",
            f"Add --min-rating {columns.liked_from:g} (or what “liked” means here) to count only those.",
        )
    elif columns.holds_counts:
        what = f"The column {rating} holds numbers from {scale}: counts rather than ratings, and not used."
        yield what, f"Add --weight-column {rating} to keep them as weights."
    amounts = [name for name in columns.left_alone if is_amount(name)]
    if amounts and columns.weight is None:
        what = f"The column {show_value(amounts[0])} seems to be an amount, and is not used."
        yield what, f"Add --weight-column {amounts[0]!r} to keep it as a weight."
    if facts.n_repeats:
        share = format_percent(facts.n_repeats / (facts.n_repeats + facts.n_events))
        rows, verb = format_number_of(facts.n_repeats, "row"), "repeats" if facts.n_repeats == 1 else "repeat"
        what = f"{rows} ({share}) {verb} a pair of user and item; each pair counts once."
        yield what, "If repeats matter, add a weight column with their number."


def _check_users(facts: LogFacts) -> Iterator[tuple[str, str]]:
    if n := len(facts.machines):
        named = ", ".join(make_printable(str(each)) for each in facts.machines[:SHOWN]) + (", …" if n > SHOWN else "")
        what = f"{n:,} account{'s look' if n > 1 else ' looks'} like a bot: {named}."
        yield what, "Check them; remove crawlers and test accounts before the fit."
    if facts.n_short > MANY * facts.n_users:
        share = format_percent(facts.n_short / facts.n_users)
        what = f"{share} of the users have fewer than {SHORT} events: too few to say much about each."
        yield what, "Look at the light users under “Accuracy by group” before you rely on lists for them."
    if facts.n_users < facts.n_items / 10:
        what = f"There are {facts.n_items / facts.n_users:.0f} items for each user."
        yield what, "Check that the user and the item columns are not swapped."


def _check_times(log: Log, facts: LogFacts) -> Iterator[tuple[str, str]]:
    if facts.first is None or facts.last is None:
        return
    if facts.largest_moment is not None and facts.largest_moment > MUCH_AT_ONCE:
        what = f"{format_percent(facts.largest_moment)} of the events have the same time."
        yield what, "Perhaps it is the time of an import; look for a column with the time of the event."
    elif (doubt := describe_loaded_times(log)) is not None:
        action = "Name a column with the times of events; or --time-column none, and --ordered if rows are in order."
        yield f"{doubt.split('. ')[0]}.", action
    if facts.first < EARLIEST or facts.last > time.time() + 86_400:
        what = f"Times run from {format_day(facts.first)} to {format_day(facts.last)}."
        yield what, "Check the time column; --time-column names another, or none."


def _check_items(facts: LogFacts) -> Iterator[tuple[str, str]]:
    if facts.n_single_items > MANY * facts.n_items:
        what = f"{format_percent(facts.n_single_items / facts.n_items)} of the items were chosen only once."
        yield what, "No model can learn them; merge variants of a product, or use a longer period."
    if facts.density > DENSE:
        what = f"{format_percent(facts.density)} of all pairs are events: there are few items, or rows are not choices."
        yield what, "Check that a row means a choice, not an item that was merely shown."


def format_day(seconds: float) -> str:
    """Return the day of a time, or the number itself if it is no date of the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g}"
