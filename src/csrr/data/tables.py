"""Tables of any kind -> columns by name, and columns of events, checked."""

from __future__ import annotations

import logging
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import BoolArray, Float64Array
from csrr._base.text import quote_names, show_argument, show_value
from csrr.data.columns import (
    MISSING,
    Column,
    Times,
    find_bad_ids,
    find_bad_numbers,
    find_bad_times,
    hint_skip,
    is_number_type,
    pick_rows,
    read_ids,
    read_numbers,
    read_text_ids,
    read_times,
)
from csrr.data.errors import DataError, RowNamer, name_table_row
from csrr.data.event_types import RowTypes, code_types, read_types, read_weights
from csrr.parameters import Choice, ParameterError, check_number, check_texts

ColumnKey = str | int | Literal[False] | None
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
    # A column of event types is never recognized: the weight of each type must be given.
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
"""A column with such a word in its name holds an amount of something; it is used as the weight if the user asks."""
COUNTS_BEYOND = 10
"""Numbers up to this are taken for ratings, whatever they look like."""
ENOUGH_RATINGS = 100_000
"""This many ratings are enough to recognize the steps of a scale."""
# order_id identifies an event, not an item.
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

    def describe(self) -> str:
        """Return one line: which column is used for what, which are not used, and how to change that.

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
            liked = show_argument("min_rating", int(liked) if (liked := self.liked_from).is_integer() else liked)
            line += (
                f"; every rating counts as a choice, low ones too ({liked} keeps those of {self.liked_from:g} and more)"
            )
        elif self.holds_counts:
            line += (
                f"; its numbers, {format_range(self)}, look like counts, and are not used"
                f" ({show_argument('weight', self.rating)} uses them as weights)"
            )
        if self.left_alone:
            line += f"; not used: {quote_names(self.left_alone)}"
        amounts = [name for name in self.left_alone if is_amount(name)]
        if amounts and self.weight is None:
            line += f" ({show_argument('weight', amounts[0])} uses it as the weight)"
        return line

    @property
    def holds_counts(self) -> bool:
        """Whether the numbers of the rating column look like counts, and count for nothing so far."""
        unused = self.weight is None and self.min_rating is None
        return unused and self.liked_from is None and self.rating_range is not None and len({*self.rating_range}) > 1

    def __repr__(self) -> str:
        return f"LogColumns: {self.describe()}"


def check_column(role: str, given: Any) -> None:
    """Raise ParameterError unless `given` is a name, a position, None or, for a role that may be missing, False."""
    is_place = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if given is None or isinstance(given, str) or is_place or (given is False and role not in REQUIRED):
        return
    otherwise = " or None" if role in REQUIRED else ", False (for none) or None"
    problem = f"must be the name of a column, its number (from 0){otherwise}"
    if role == "weight" and isinstance(given, Mapping):
        problem += "; weights by type of event are weights={...}, with event= for the column that holds the types"
    elif hasattr(given, "__len__") and not isinstance(given, bytes):
        problem += "; values belong into the table, as a column with a name"
    raise ParameterError.of(role, given, problem)


def format_range(columns: LogColumns) -> str:
    """Return the lowest and the highest rating in words, or an empty text."""
    return "" if columns.rating_range is None else "{:,.6g} to {:,.6g}".format(*columns.rating_range)


def choose_liked_rating(ratings: Float64Array) -> float | None:
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


def choose_columns(names: Collection[str], given: Mapping[str, ColumnKey]) -> dict[str, str | None]:
    """Return the column of each role: the one that is given, or one that is recognized by its name."""
    every = tuple(names)
    # Columns that are given come first: the others are recognized among the rest.
    order = sorted(NAMES, key=lambda role: (given.get(role) is None, role == "item"))
    chosen: dict[str, str | None] = {}
    for role in order:
        taken = [name for other in REQUIRED if (name := chosen.get(other)) is not None] if role in REQUIRED else []
        chosen[role] = find_column(role, given.get(role), every, taken)
        if role in REQUIRED and chosen[role] is None:
            raise make_no_column_error(role, every)
    if chosen["user"] == chosen["item"]:
        raise DataError(f"the column {show_value(chosen['user'])} cannot be both the user and the item")
    return {role: chosen[role] for role in NAMES}


def make_no_column_error(role: str, names: Collection[str]) -> DataError:
    """Return an error for a table without a column of a role that it must have."""
    name_it = f"name it with {show_argument(role, '...')}"
    return DataError(f"no column looks like the {role}; the columns are {quote_names(names)}; {name_it}", column=role)


def find_role(name: str) -> str | None:
    """Return the role a column name is recognized as, or None."""
    plain = normalize_name(name)
    return next((role for role, tiers in NAMES.items() if any(plain in tier for tier in tiers)), None)


def is_amount(name: str) -> bool:
    """Return whether a column, by its name, holds an amount of something."""
    return AMOUNTS.search(normalize_name(name)) is not None


def normalize_name(name: str) -> str:
    """Return a column name in lower case without '_', '-', blanks and RecBole's ":token"."""
    return name.split(":")[0].lower().translate(str.maketrans("", "", "_- "))


def find_column(role: str, given: ColumnKey, names: tuple[str, ...], taken: Collection[str] = ()) -> str | None:
    """Return the column of a role, given or recognized among those not `taken`; None where there is none."""
    if given is False and role not in REQUIRED:
        return None
    check_column(role, given)
    if isinstance(given, int | np.integer):
        if not 0 <= given < len(names):
            what = f"{show_argument(role, given)}: there are {len(names)} columns, numbered from 0"
            raise DataError(what, column=role)
        return names[given]
    if isinstance(given, str):
        if given not in names:
            what = f"{show_argument(role, given)}: there is no such column; the columns are {quote_names(names)}"
            raise DataError(what, column=role)
        return given
    free = [name for name in names if name not in taken]
    tiers = [[name for name in free if normalize_name(name) in tier] for tier in NAMES[role]]
    if role == "item":
        tiers.append([name for name in free if _may_be_item(name)])
    matches: list[str] = next(filter(None, tiers), [])
    if len(matches) > 1:
        raise DataError(
            f"which column is the {role}: {quote_names(matches)}? Say so with {show_argument(role, matches[0])};"
            f" the columns are {quote_names(names)}",
            column=role,
        )
    return matches[0] if matches else None


def _may_be_item(name: str) -> bool:
    """Return whether a column holds ids of something that is no user and no event: Anime_ID, not order_id."""
    plain = normalize_name(name)
    return bool(_ID_NAME.fullmatch(name.split(":")[0])) and find_role(name) is None and plain not in _EVENTS


_logger = logging.getLogger(__name__)

Columns = Mapping[str, Callable[[], Any]]
"""A function for each column by name, which reads it: no column is read unless it is used."""


@dataclass(frozen=True)
class Table:
    """A table, from a file or from memory: its columns, and what is known about them.

    With `is_text`, it was read from a text: ids may have blanks around them, and integers are to be recognized. `where`
    names a row in errors. `roles` are the columns of roles that the format defines, `titles` those by item id from
    another file, and `notes` are remarks for the user. `member` is the file, where it is one of several or in an
    archive.
    """

    columns: Columns
    where: RowNamer = name_table_row
    is_text: bool = False
    roles: Mapping[str, ColumnKey] = field(default_factory=dict)
    titles: dict[str, str] | None = None
    notes: tuple[str, ...] = ()
    member: str | None = None

    def read(self, name: str, role: str | None = None) -> Column:
        """Return a column by name."""
        values = self.columns[name]()
        if self.is_text and role in REQUIRED and isinstance(values, pa.DictionaryArray):
            return Column(name, values, self.where)  # of a user list: already the distinct ids
        return Column.read(values, name, self.where)


def hold_columns(values: Mapping[Any, Any]) -> Columns:
    """Return columns whose values are in memory."""
    return {str(name): partial(values.__getitem__, name) for name in values}


def stack_rows(rows: Iterable[Mapping[str, Any]]) -> Columns:
    """Return the columns of rows, each of which may have only some: lists of values, None where a row has none."""
    cells: defaultdict[str, tuple[array[int], list[Any]]] = defaultdict(lambda: (array("q"), []))
    n_rows = 0
    for row in rows:
        for name, value in row.items():
            places, values = cells[name]
            places.append(n_rows)
            values.append(value)
        n_rows += 1
    return {name: partial(_spread, n_rows, *each) for name, each in cells.items()}


def _spread(n_rows: int, places: array[int], values: list[Any]) -> list[Any]:
    if len(places) == n_rows:
        return values
    column: list[Any] = [None] * n_rows
    for place, value in zip(places, values, strict=True):
        column[place] = value
    return column


def _is_records(data: object) -> bool:
    """Return whether data are a list of tuples or dicts. A list of lists may be a matrix."""
    return isinstance(data, list | tuple) and bool(data) and isinstance(data[0], tuple | Mapping)


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def is_table(data: object) -> bool:
    """Return whether `open_table` can take `data`."""
    return isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data) or _is_records(data)


def open_table(data: Any) -> Table:
    """Return a table in memory, of any kind that `is_table` accepts."""
    if type(data).__name__ == "LazyFrame":
        raise DataError("a LazyFrame holds no data yet; pass frame.collect()")
    if hasattr(data, "to_delayed"):
        raise DataError("a Dask DataFrame is for CSRR().fit; for anything else pass frame.compute()")
    if not is_table(data):
        raise DataError(
            f"cannot use a {type(data).__name__} as data; accepted are a Log, a pandas, polars or pyarrow table,"
            " a dict of columns (user, item and perhaps rating, weight, time), a list of tuples or dicts, a scipy"
            " sparse matrix or a 2-D numpy array (users x items); csrr.read takes a path or a database, too"
        )
    if _is_records(data):
        return _open_records(data)
    if isinstance(data, Mapping):
        check_names([str(name) for name in data])
        return Table(hold_columns(data))
    if _is_pandas(data):
        check_names(names := [str(name) for name in data.columns])
        return Table({name: partial(_take_series, data, i) for i, name in enumerate(names)})
    try:
        arrow = pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"a {type(data).__name__} cannot be read as a table: {error}") from error
    check_names(arrow.column_names)
    return Table({name: partial(arrow.column, i) for i, name in enumerate(arrow.column_names)})


def _take_series(data: Any, place: int) -> Any:
    return data.iloc[:, place]


def _open_records(records: Any) -> Table:
    """Return the table of rows: columns are the keys of dicts, the fields of named tuples, or numbered from 0."""
    first = records[0]
    if isinstance(first, Mapping):
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise DataError(f"row {row + 1}: {show_value(record)} is not a dict like the rows before it", row=row)
        return Table(stack_rows({str(name): value for name, value in record.items()} for record in records))
    width = len(first)
    for row, record in enumerate(records):
        if not isinstance(record, tuple) or len(record) != width:
            what = f"is not a row of {width} values like the first"
            raise DataError(f"row {row + 1}: {show_value(record)} {what}", row=row)
    names = getattr(first, "_fields", None)
    columns = hold_columns(dict(zip(names or range(width), zip(*records, strict=True), strict=True)))
    return Table(columns, roles={} if names else {"user": 0, "item": 1})


def check_names(names: list[str]) -> None:
    """Raise an error where two columns have the same name."""
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise DataError(f"two columns are called {show_value(twice)}; rename one")


OnBadRows = Literal["error", "skip"]
"""Whether a row without an id, or with an invalid number or time, is an error or is left out."""


@dataclass
class ReadOptions:
    """The arguments that all readers of events share, checked: ParameterError for an invalid one.

    `roles` are given in the order of `NAMES`; `columns` has the column of each role, None where it is to be recognized.
    `weights` is the weight of each event type.
    """

    roles: InitVar[Sequence[Any]] = (None,) * len(NAMES)
    weights: Any = None
    target: Any = None
    min_rating: float | None = None
    min_weight: float | None = None
    on_bad_rows: OnBadRows = "error"
    missing: Collection[str] | None = None
    ordered: bool = False
    columns: dict[str, ColumnKey] = field(init=False)

    def __post_init__(self, roles: Sequence[Any]) -> None:
        """Check everything."""
        self.columns = dict(zip(NAMES, roles, strict=True))
        for role, column in self.columns.items():
            check_column(role, column)
        for name in ("min_rating", "min_weight"):
            if (bound := getattr(self, name)) is not None:
                check_number(name, bound)
                setattr(self, name, float(bound))
        Choice(name="on_bad_rows", words=get_args(OnBadRows)).check(self.on_bad_rows)
        if not isinstance(self.ordered, bool | np.bool_):
            raise ParameterError.of("ordered", self.ordered, "must be True or False")
        if isinstance(self.missing, str):
            self.missing = (self.missing,)
        check_texts("missing", self.missing, "strings, such as ['-', 'NULL']")
        event = self.columns["event"]
        if event is not None and event is not False:
            self.weights = read_weights(event, self.weights, self.target)
            return
        for name in ("weights", "target"):
            if (value := getattr(self, name)) is not None:
                raise ParameterError.of(name, value, f"needs the event types: {show_argument('event', '...')}")

    @property
    def given(self) -> list[str]:
        """The names of the columns and bounds that are given."""
        names = [role for role, column in self.columns.items() if column is not None]
        return names + [name for name in ("min_rating", "min_weight") if getattr(self, name) is not None]


DEFAULTS = ReadOptions()


@dataclass(frozen=True)
class Events:
    """The columns of a table of n events, each of shape (n,), checked; (user, item) pairs may repeat.

    `titles` by item id are those of another file.
    """

    user: pa.Array
    item: pa.Array
    weight: Float64Array | None
    time: Times | None
    title: pa.Array | None
    types: RowTypes | None
    columns: LogColumns
    titles: Mapping[Any, str | None] | None
    is_text: bool

    def __len__(self) -> int:
        return len(self.user)


def read_events(table: Table, options: ReadOptions = DEFAULTS) -> Events:
    """Return the events of a table: those with a rating of at least `min_rating`, and a weight above 0."""
    names, notes = tuple(table.columns), list(table.notes)
    if options.missing is not None and not table.is_text:
        what = "is for text files; elsewhere a missing id is null, and strings stay as they are"
        raise ParameterError.of("missing", options.missing, what)
    missing = MISSING if options.missing is None else options.missing
    given = {role: column for role, column in options.columns.items() if column is not None}
    chosen = choose_columns(names, {**table.roles, **given})
    used = {role: name for role, name in chosen.items() if name is not None}
    if options.ordered and "time" in used:
        raise ParameterError.of(
            *("ordered", True),
            f"is for data without times, and the column {show_value(used['time'])} holds times, which give the order;"
            f" leave it out, or pass {show_argument('time', False)} to go by the rows",
        )
    opened: dict[str, Column] = {}
    if options.on_bad_rows == "skip":
        opened = {role: table.read(name) for role, name in used.items()}
        opened = _drop_bad_rows(opened, missing if table.is_text else None, options.weights or (), notes.append)
    where = opened["user"].where if opened else table.where
    as_ids = partial(read_text_ids, missing=missing, note=notes.append) if table.is_text else read_ids
    readers: dict[str, Callable[[Column], Any]] = {
        "user": as_ids,
        "item": as_ids,
        "rating": read_numbers,
        "weight": read_numbers,
        "time": read_times,
        "title": read_titles,
        "event": lambda column: replace(column, array=read_types(column)),
    }
    read: dict[str, Any] = {
        role: readers[role](opened[role] if opened else table.read(used[role], role)) if role in used else None
        for role in readers
    }
    _check_lengths({name: len(read[role]) for role, name in used.items()})
    if not len(read["user"]):
        raise DataError(f"the table has no rows; its columns are {quote_names(names)}")
    if table.is_text:
        _reject_headers(read["user"], read["item"], names, where)
    _check_weights(read["weight"], used.get("weight"), where)
    types = None
    if (texts := read.pop("event")) is not None and options.weights is not None:
        types = code_types(texts, options.weights, options.target)
        # A type of weight 0 has the code -1: the last, which is 0.
        by_type = np.array([*(options.weights[name] for name in types.names), 0.0])[types.codes]
        read["weight"] = by_type if read["weight"] is None else by_type * read["weight"]
        _check_weights(read["weight"], used.get("weight", used["event"]), where)
        if types.target is not None and not (types.codes == types.names.index(types.target)).any():
            notes.append(f"no event is of the target type {show_value(types.target)}")
    about = LogColumns(
        **used,  # type: ignore[arg-type]
        left_alone=tuple(name for name in names if name not in used.values()),
        min_rating=options.min_rating,
        notes=tuple(notes),
    )
    if (ratings := read.pop("rating")) is not None:
        span = float(ratings.min()), float(ratings.max())
        about = replace(about, liked_from=choose_liked_rating(ratings), rating_range=span)
    read["types"] = types
    kept = _find_positive(ratings, read["weight"], names, options)
    if kept is not None:
        read = {role: pick_rows(values, kept) for role, values in read.items()}
    titles = table.titles if options.columns.get("title") is None else None
    return Events(**read, columns=about, titles=titles, is_text=table.is_text)


def _check_lengths(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns differ in length: {lengths}")


def _drop_bad_rows(
    columns: Mapping[str, Column],
    missing: Collection[str] | None,
    types: Collection[str],
    note: Callable[[str], object],
) -> dict[str, Column]:
    """Return the columns of each role without bad rows.

    `missing` are the texts that stand for no id, None where ids were not read from text; `types` are the types that
    events may have. `note` is called with a sentence on how many rows were left out.
    """
    _check_lengths({column.name: len(column) for column in columns.values()})
    where, n_rows = columns["user"].where, len(columns["user"])
    bad = np.zeros(n_rows, bool)
    for role, column in columns.items():
        bad |= np.asarray(_find_bad(role, column, missing, types).to_numpy(zero_copy_only=False))
    if not bad.any():
        return dict(columns)
    kept = np.flatnonzero(~bad)
    if not kept.size:
        raise DataError(f"no rows are left: all {n_rows:,} are bad; {show_argument('on_bad_rows', 'error')} says why")
    note(f"skipped {n_rows - kept.size:,} of {n_rows:,} rows that are bad; the first is {where(int(np.argmax(bad)))}")
    good = pa.array(~bad)
    return {
        role: Column(column.name, column.array.filter(good), lambda row: where(int(kept[row])))
        for role, column in columns.items()
    }


def _find_bad(role: str, column: Column, missing: Collection[str] | None, types: Collection[str]) -> pa.Array:
    """Return which values, shape (n,), a column of this role must not have."""
    values = column.array
    if role in REQUIRED:
        return find_bad_ids(values, missing)
    if role == "time":
        return find_bad_times(values)
    if role == "title":
        return pa.array(np.zeros(len(values), bool))
    if role == "event":
        texts = read_types(column)
        return pc.invert(pc.is_in(texts, pa.array([*types], texts.type)))
    bad = find_bad_numbers(values)
    if role == "weight" and column.is_text:
        return pc.or_(bad, pc.match_substring_regex(values, r"^\s*-").fill_null(True))
    if role == "weight" and is_number_type(values.type):
        return pc.or_(bad, pc.less(values.cast(pa.float64(), safe=False), 0).fill_null(True))
    return bad


def _reject_headers(users: pa.Array, items: pa.Array, names: Collection[str], where: RowNamer) -> None:
    """Raise an error naming a row whose ids are names of columns. `users` and `items` are dictionaries, shape (n,)."""
    words = pa.array([name for name in names if find_role(name)], pa.large_string())
    if users.type.value_type != pa.large_string() or items.type.value_type != pa.large_string():
        return
    in_users, in_items = (pc.is_in(ids.dictionary, value_set=words) for ids in (users, items))
    if not (pc.any(in_users).as_py() and pc.any(in_items).as_py()):
        return
    row = pc.index(pc.and_(in_users.take(users.indices), in_items.take(items.indices)), True).as_py()
    if row >= 0:
        raise DataError(
            f"{where(row)} names columns, but is not the first line; where files with different columns were joined,"
            " read them one by one",
            row=row,
        )


def read_titles(column: Column) -> pa.Array:
    """Return titles, shape (n,), null where there is none."""
    try:
        titles = column.array.cast(pa.large_string())
    except pa.ArrowException:
        raise column.make_type_error(f", not titles; pass {show_argument('title', False)}") from None
    return pc.if_else(pc.equal(titles, ""), None, titles)


def _check_weights(weights: Float64Array | None, name: str | None, where: RowNamer) -> None:
    if weights is None or name is None:
        return
    with np.errstate(over="ignore"):
        bad = np.flatnonzero((weights < 0) | ~np.isfinite(weights.astype(np.float32)))
    if bad.size:
        what = f"the weight {weights[bad[0]]:g} is not a finite number >= 0; correct it, {hint_skip()}"
        raise Column(name, pa.nulls(0), where).make_error(int(bad[0]), what)


def _find_positive(
    ratings: Float64Array | None, weights: Float64Array | None, names: Collection[str], options: ReadOptions
) -> BoolArray | None:
    """Return which events, shape (n,), have a rating of at least `min_rating` and a weight above 0; None if all do."""
    for role, values in (("rating", ratings), ("weight", weights)):
        if values is None and getattr(options, f"min_{role}") is not None:
            raise DataError(
                f"min_{role} needs a {role} column, and none was recognized;"
                f" the columns are {quote_names(names)}; name it with {show_argument(role, '...')}",
                column=role,
            )
    kept: BoolArray | None = None
    if options.min_rating is not None and ratings is not None:
        kept = ratings >= options.min_rating
        require_some(int(kept.sum()), len(kept), f"rating >= {options.min_rating:g}")
    if weights is not None and not (happened := weights.astype(np.float32) > 0).all():
        liked = np.ones(len(weights), np.bool_) if kept is None else kept
        kept = liked & happened
        _logger.info("dropped %d rows of weight 0", np.count_nonzero(liked & ~happened))
        require_some(int(kept.sum()), len(kept), "a weight above 0")
    return kept


def require_some(n_left: int, n_read: int, condition: str) -> None:
    """Raise an error if no events are left."""
    if n_left == 0:
        raise DataError(f"no events left: {n_read:,} rows read, 0 with {condition}")
