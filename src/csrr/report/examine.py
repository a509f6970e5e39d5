"""What a log is -> what is odd in it, and what to do about that."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from csrr._base.arrays import Int64Array
from csrr._base.text import format_number_of, format_percent, make_printable
from csrr.data import Log
from csrr.data.errors import show_value
from csrr.data.tables import format_range, is_amount

SHORT = 5
"""Users with fewer events are too short to judge: little is left to learn from once some are held out."""
MACHINE_EVENTS, MACHINE_SHARE, MACHINE_TIMES = 100, 0.5, 10
"""An account of so many events looks like a machine if it has that share of all items, or so many times the events of
the 99th percentile."""
BURST, BURST_SECONDS = 300, 300.0
"""Or so many events in so many seconds."""
HOUR = 3600


@dataclass(frozen=True)
class LogFacts:
    """What a log is, in numbers.

    Attributes
    ----------
    n_users, n_items, n_events
        Users and items with events, and the events.
    density
        The share of all pairs that are events.
    columns
        What the columns were taken for, in words, where it was a table.
    n_repeats
        Rows of a pair that another row had told of already.
    weighted
        Whether events have weights.
    first, last
        The times of the first and the last event, in seconds since 1970, where known.
    events_per_user, events_per_item
        The quartiles and the ends: least, 25 %, median, 75 %, most.
    top_share
        The share of events that the most popular tenth of the items has.
    n_short
        Users with fewer than `SHORT` events.
    n_single_items
        Items with one event.
    machines
        The ids of accounts that look like machines, busiest first.
    largest_moment
        The share of events at the most frequent single time, where known.
    popularity
        Shares of the items, most popular first, and the shares of the events that these have.
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
    popularity: list[tuple[float, float]]


def examine(log: Log) -> LogFacts:
    """Return what a log is."""
    of_users, of_items = log.user_counts(), log.item_counts()
    per_user, per_item = of_users[of_users > 0], np.sort(of_items[of_items > 0])[::-1]
    times = log.times
    return LogFacts(
        n_users=len(per_user),
        n_items=len(per_item),
        n_events=len(log),
        density=len(log) / max(1, len(per_user) * len(per_item)),
        columns=None if log.columns is None else log.columns.describe(),
        n_repeats=0 if log.columns is None else log.columns.n_repeats,
        weighted=log.weights is not None,
        first=None if times is None or not len(log) else float(times.min()),
        last=None if times is None or not len(log) else float(times.max()),
        events_per_user=_find_quartiles(per_user),
        events_per_item=_find_quartiles(per_item),
        top_share=float(per_item[: -(-len(per_item) // 10)].sum() / max(1, len(log))),
        n_short=int((per_user < SHORT).sum()),
        n_single_items=int((per_item == 1).sum()),
        machines=log.users.ids[find_machines(log)].tolist(),
        largest_moment=_measure_largest_moment(log),
        popularity=_share_out(per_item),
    )


def find_machines(log: Log) -> Int64Array:
    """Return the rows of accounts that look like machines, busiest first."""
    counts = log.user_counts()
    active = counts[counts > 0]
    if not len(active):
        return np.empty(0, np.int64)
    many = MACHINE_TIMES * float(np.quantile(active, 0.99))
    found = (counts > MACHINE_SHARE * np.count_nonzero(log.item_counts())) | (counts > many) | _mark_bursts(log)
    rows = np.flatnonzero(found & (counts >= MACHINE_EVENTS))
    return rows[np.argsort(-counts[rows], kind="stable")]


def _mark_bursts(log: Log) -> Any:
    """Return which users, shape (n_users,), have a burst that no hand makes; times of whole hours tell of none."""
    found = np.zeros(log.n_users, np.bool_)
    if log.times is None or len(log) < BURST or not (log.times % HOUR).any():
        return found
    order = np.lexsort((log.times, log.user_rows))
    users, times = log.user_rows[order], log.times[order]
    quick = (users[BURST - 1 :] == users[: 1 - BURST]) & (times[BURST - 1 :] - times[: 1 - BURST] < BURST_SECONDS)
    found[users[: 1 - BURST][quick]] = True
    return found


def _find_quartiles(counts: Int64Array) -> list[int]:
    if not len(counts):
        return [0] * 5
    return [int(each) for each in np.quantile(counts, [0, 0.25, 0.5, 0.75, 1], method="lower")]


def _measure_largest_moment(log: Log) -> float | None:
    if log.times is None or not len(log):
        return None
    return float(np.unique(log.times, return_counts=True)[1].max() / len(log))


def _share_out(per_item: Int64Array, most: int = 40) -> list[tuple[float, float]]:
    """Return shares of the items, most popular first, and the shares of the events that these have."""
    if not len(per_item):
        return []
    places = np.unique(np.linspace(0, len(per_item), most).round().astype(np.int64))
    events = np.concatenate(([0], np.cumsum(per_item)))
    return [(float(place / len(per_item)), float(events[place] / events[-1])) for place in places]


EARLIEST = datetime(1990, 1, 1, tzinfo=UTC).timestamp()
MUCH_AT_ONCE, DENSE, MANY = 0.2, 0.3, 0.5
SHOWN = 5


@dataclass(frozen=True)
class Oddity:
    """Something odd in a log.

    Attributes
    ----------
    what
        What it is.
    action
        What to do about it.
    """

    what: str
    action: str


def find_oddities(log: Log, facts: LogFacts) -> list[Oddity]:
    """Return what is odd in a log, the gravest first."""
    return [*_look_at_columns(log, facts), *_look_at_people(facts), *_look_at_times(facts), *_look_at_items(facts)]


def _look_at_columns(log: Log, facts: LogFacts) -> list[Oddity]:
    columns, found = log.columns, []
    if columns is None:
        return []
    found += [Oddity(note, "Check that these rows and ids are intended.") for note in columns.notes]
    rating, scale = show_value(columns.rating), format_range(columns)
    if columns.liked_from is not None and columns.min_rating is None:
        what = f"The column {rating} holds ratings from {scale}, and every rating counts as a choice, bad ones too."
        action = f"Add --min-rating {columns.liked_from:g} (or what “liked” means here) to count only those."
        found.append(Oddity(what, action))
    elif columns.holds_counts:
        what = f"The column {rating} holds numbers from {scale}: counts rather than ratings, and not used."
        found.append(Oddity(what, f"Add --weight-column {rating} to keep them as weights."))
    amounts = [name for name in columns.left_alone if is_amount(name)]
    if amounts and columns.weight is None:
        what = f"The column {show_value(amounts[0])} seems to be an amount, and is not used."
        found.append(Oddity(what, f"Add --weight-column {amounts[0]!r} to keep it as a weight."))
    if facts.n_repeats:
        share = facts.n_repeats / (facts.n_repeats + facts.n_events)
        rows, verb = format_number_of(facts.n_repeats, "row"), "repeats" if facts.n_repeats == 1 else "repeat"
        what = f"{rows} ({format_percent(share)}) {verb} a pair of user and item; each pair counts once."
        found.append(Oddity(what, "If repeats matter, add a weight column with their number."))
    return found


def _look_at_people(facts: LogFacts) -> list[Oddity]:
    found = []
    if facts.machines:
        n = len(facts.machines)
        named = ", ".join(make_printable(str(each)) for each in facts.machines[:SHOWN]) + (", …" if n > SHOWN else "")
        what = f"{n:,} account{'s look' if n > 1 else ' looks'} like a bot: {named}."
        found.append(Oddity(what, "Check them; remove crawlers and test accounts before the fit."))
    if facts.n_short > MANY * facts.n_users:
        share = format_percent(facts.n_short / facts.n_users)
        what = f"{share} of the users have fewer than {SHORT} events: too few to say much about each."
        found.append(
            Oddity(what, "Look at the light users under “Accuracy by group” before you rely on lists for them.")
        )
    if facts.n_users < facts.n_items / 10:
        what = f"There are {facts.n_items / facts.n_users:.0f} items for each user."
        found.append(Oddity(what, "Check that the user and the item columns are not swapped."))
    return found


def _look_at_times(facts: LogFacts) -> list[Oddity]:
    if facts.first is None or facts.last is None:
        return []
    found = []
    if facts.largest_moment is not None and facts.largest_moment > MUCH_AT_ONCE:
        what = f"{format_percent(facts.largest_moment)} of the events have the same time."
        found.append(Oddity(what, "Perhaps it is the time of an import; look for a column with the time of the event."))
    if facts.first < EARLIEST or facts.last > time.time() + 86_400:
        what = f"Times run from {format_day(facts.first)} to {format_day(facts.last)}."
        found.append(Oddity(what, "Check the time column; --time-column names another, or none."))
    return found


def _look_at_items(facts: LogFacts) -> list[Oddity]:
    found = []
    if facts.n_single_items > MANY * facts.n_items:
        what = f"{format_percent(facts.n_single_items / facts.n_items)} of the items were chosen only once."
        found.append(Oddity(what, "No model can learn them; merge variants of a product, or use a longer period."))
    if facts.density > DENSE:
        share = format_percent(facts.density)
        what = f"{share} of all pairs are events: there are few items, or rows are not choices."
        found.append(Oddity(what, "Check that a row means a choice, not an item that was merely shown."))
    return found


def format_day(seconds: float) -> str:
    """Return the day of a time, or the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g}"
