"""What a log is -> what is odd in it, and what to do about that."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime

from csrr.data import Log
from csrr.data.errors import show_value
from csrr.data.recognise_columns import is_amount, spell_range
from csrr.first_look.examine import SHORT, LogFacts
from csrr.plots.number_text import format_number_of, format_percent
from csrr.printable import make_printable

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
    rating, scale = show_value(columns.rating), spell_range(columns)
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
