"""Which column of a table is what, told by the names of the columns, and what is said about it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from csrr._base.arrays import Float64Array
from csrr.data.errors import DataError, quote_names, show_value
from csrr.parameters import ParameterError

Column = str | int | Literal[False] | None
"""A column by name or position; None to recognize it by its name, False to do without it."""

# Earlier words of a role win over later ones: user_id over session_id. "id" may follow a user or item word.
WORDS = {
    "user": (
        "user uid",
        "customer visitor person reviewer member account client session",
        "buyer shopper listener player reader viewer subscriber household username",
    ),
    "item": (
        "item iid",
        "movie artist product track song book isbn asin parentasin article album game venue location business",
        "sku stockcode anime recipe restaurant hotel video beer",
    ),
    "rating": ("rating", "ratings score star stars vote", "rate scores overall starrating userrating reviewscore"),
    "weight": ("weight", "count plays playcount quantity confidence clicks views", "qty counts nplays nclicks nviews"),
    # A column of event types is never recognized: what each type weighs must be said.
    "event": (),
    "time": ("timestamp", "time date datetime ts unixtime", "eventtime eventtimestamp createdat unixreviewtime"),
    "title": ("title", "name itemname itemtitle movietitle artistname"),
}
REQUIRED = ("user", "item")
NAMES = {
    role: [
        {word + end for word in tier.split() for end in (("", "id") if role in REQUIRED else ("",))} for tier in tiers
    ]
    for role, tiers in WORDS.items()
}
AMOUNTS = re.compile("hours|minutes|seconds|duration|amount|playtime|watchtime|listens|times(played|watched|viewed)")
"""A column with such a word in its name says how much there was of something; it is a weight where it is asked for."""
COUNTS_BEYOND = 10
"""Numbers up to this are taken for ratings, whatever they look like."""
ENOUGH_RATINGS = 100_000
"""So many tell what steps a scale has."""
# order_id says which event, not which item.
_EVENT_WORDS = "order transaction event review rating row line invoice request purchase interaction index log"
_EVENTS = {word + "id" for word in _EVENT_WORDS.split()}
_ID_NAME = re.compile(r".*[^ _-][ _-](?i:id)|.*[a-z](Id|ID)", re.DOTALL)


@dataclass(frozen=True, repr=False)
class LogColumns:
    """Which column of a table was used for what.

    Attributes
    ----------
    user, item, rating, weight, event, time, title
        The name of each column, or None where there is none.
    left_alone
        The columns that were not used.
    min_rating
        The rating that a row had to have, or None.
    liked_from
        The rating that "liked" may begin at, by the scale of the ratings; None where they do not look like ratings.
    rating_range
        The lowest and the highest rating, or None.
    notes
        Other notes on the data: ids that were merged, lines that were skipped.
    n_repeats
        The number of rows that repeat a (user, item) pair.

    Examples
    --------
    >>> log = csrr.read({"user": ["ann", "bob"], "movieId": [1, 2], "Hours": [2.5, 3.0]})
    >>> log.columns
    LogColumns: user 'user', item 'movieId'; not used: 'Hours' (weight='Hours' uses it as the weight)
    >>> log.columns.left_alone
    ('Hours',)
    """

    user: str
    item: str
    rating: str | None = None
    weight: str | None = None
    event: str | None = None
    time: str | None = None
    title: str | None = None
    left_alone: tuple[str, ...] = ()
    min_rating: float | None = None
    liked_from: float | None = None
    rating_range: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    n_repeats: int = 0

    def describe(self, min_rating: str = "min_rating={}", weight: str = "weight={}") -> str:
        """Return one line: which column is used for what, which are not used, and how to change that.

        Parameters
        ----------
        min_rating, weight
            How these options are spelled, with {} in the place of the value.

        Returns
        -------
        line
            The line.
        """
        used = [f"{role} {show_value(getattr(self, role))}" for role in NAMES if getattr(self, role) is not None]
        line = ", ".join(used)
        if self.rating is not None and self.min_rating is not None:
            line += f"; ratings from {self.min_rating:g} on count"
        elif self.liked_from is not None:
            liked = f"{self.liked_from:g}"
            line += (
                f"; every rating counts as a choice, low ones too ({min_rating.format(liked)} keeps those of {liked}"
                " and more)"
            )
        elif self.holds_counts:
            line += (
                f"; its numbers, {spell_range(self)}, look like counts, and are not used"
                f" ({weight.format(show_value(self.rating))} uses them as weights)"
            )
        if self.left_alone:
            line += f"; not used: {quote_names(self.left_alone)}"
        amounts = [name for name in self.left_alone if is_amount(name)]
        if amounts and self.weight is None:
            line += f" ({weight.format(show_value(amounts[0]))} uses it as the weight)"
        return line

    @property
    def holds_counts(self) -> bool:
        """Whether the numbers of the rating column look like counts, and count for nothing so far."""
        unused = self.weight is None and self.min_rating is None
        return unused and self.liked_from is None and self.rating_range is not None and len({*self.rating_range}) > 1

    def __repr__(self) -> str:
        return f"LogColumns: {self.describe()}"


def check_column(role: str, given: Any) -> None:
    """Raise ParameterError unless `given` can name a column, or say that there is none."""
    is_place = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if given is None or isinstance(given, str) or is_place or (given is False and role not in REQUIRED):
        return
    otherwise = " or None" if role in REQUIRED else ", False (for none) or None"
    said = f"{role}={show_value(given)}: it must be the name of a column, its number (from 0){otherwise}"
    if role == "weight" and isinstance(given, Mapping):
        said += "; weights by type of event are weights={...}, with event= for the column that holds the types"
    elif hasattr(given, "__len__") and not isinstance(given, bytes):
        said += "; values belong into the table, as a column with a name"
    raise ParameterError(said)


def spell_range(columns: LogColumns) -> str:
    """Return the lowest and the highest rating in words; nothing where there are none."""
    return "" if columns.rating_range is None else "{:,.6g} to {:,.6g}".format(*columns.rating_range)


def choose_liked(ratings: Float64Array) -> float | None:
    """Return the rating at three quarters of the scale of ratings, shape (n,): 4 of 1 to 5, 8 of 1 to 10, 1 of 0 and 1.

    None where all are the same, or where they pile up far below their highest, as counts do and ratings do not.
    """
    low, high = float(ratings.min()), float(ratings.max())
    if low == high or not np.isfinite(high - low):
        return None
    some = ratings[:: -(-len(ratings) // ENOUGH_RATINGS)]
    if high > COUNTS_BEYOND and np.quantile(some, 0.9) < low + (high - low) / 4:
        return None
    # A log may lack the lowest ratings of its scale.
    low = min(low, 0 if high <= 1 or high >= 20 else 1)
    steps = (step for step in (1, 0.5, 0.1) if np.allclose(some / step, np.round(some / step), rtol=0, atol=1e-4))
    step = next(steps, 10.0 ** np.floor(np.log10((high - low) / 10)))
    return float(f"{np.ceil((low + 0.75 * (high - low)) / step - 1e-6) * step:.6g}")


def choose_columns(names: Collection[str], given: Mapping[str, Column]) -> dict[str, str | None]:
    """Return the column of each role: the one that is given, or the one whose name tells it."""
    every = tuple(names)
    # What is given decides first: what is left can be told from it.
    order = sorted(NAMES, key=lambda role: (given.get(role) is None, role == "item"))
    chosen: dict[str, str | None] = {}
    for role in order:
        taken = [name for other in REQUIRED if (name := chosen.get(other)) is not None] if role in REQUIRED else []
        chosen[role] = find_column(role, given.get(role), every, taken)
    if chosen["user"] == chosen["item"]:
        raise DataError(f"the column {show_value(chosen['user'])} cannot be both the user and the item")
    return {role: chosen[role] for role in NAMES}


def describe_columns(names: Collection[str], chosen: Mapping[str, str | None], notes: Collection[str]) -> LogColumns:
    """Return what the columns were taken for."""
    used = {role: name for role, name in chosen.items() if name is not None}
    left = tuple(name for name in names if name not in used.values())
    return LogColumns(**used, left_alone=left, notes=tuple(notes))  # type: ignore[arg-type]


def find_role(name: str) -> str | None:
    """Return the role a column name is recognized as, or None."""
    plain = normalise_name(name)
    return next((role for role, tiers in NAMES.items() if any(plain in tier for tier in tiers)), None)


def is_amount(name: str) -> bool:
    """Return whether a column name tells how much of something there was."""
    return AMOUNTS.search(normalise_name(name)) is not None


def normalise_name(name: str) -> str:
    """Return a column name in lower case without '_', '-', blanks and RecBole's ":token"."""
    return name.split(":")[0].lower().translate(str.maketrans("", "", "_- "))


def find_column(role: str, given: Column, names: tuple[str, ...], taken: Collection[str] = ()) -> str | None:
    """Return the name of the column of a role, or None where the role may be left out and is.

    What is recognized is none of `taken`.
    """
    if given is False and role not in REQUIRED:
        return None
    check_column(role, given)
    if isinstance(given, int | np.integer):
        if not 0 <= given < len(names):
            raise DataError(f"{role}={given}: there are {len(names)} columns, numbered from 0")
        return names[given]
    if isinstance(given, str):
        if given not in names:
            raise DataError(
                f"{role}={show_value(given)}: there is no such column; the columns are {quote_names(names)}"
            )
        return given
    free = [name for name in names if name not in taken]
    tiers = [[name for name in free if normalise_name(name) in tier] for tier in NAMES[role]]
    if role == "item":
        tiers.append([name for name in free if _may_be_item(name)])
    for matches in tiers:
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise DataError(
                f"which column is the {role}: {quote_names(matches)}? Say so with {role}={show_value(matches[0])};"
                f" the columns are {quote_names(names)}"
            )
    if role in REQUIRED:
        raise DataError(
            f"no column looks like the {role}; the columns are {quote_names(names)}; name it with {role}='...'"
        )
    return None


def _may_be_item(name: str) -> bool:
    """Return whether a column holds ids of something that is no user and no event: Anime_ID, not order_id."""
    plain = normalise_name(name)
    return bool(_ID_NAME.fullmatch(name.split(":")[0])) and find_role(name) is None and plain not in _EVENTS
