"""Tables of any kind -> the columns of events: who, what, and perhaps how much and when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import BoolArray, Float64Array
from csrr.data.columns import (
    Times,
    as_arrow_array,
    read_id_column,
    read_number_column,
    read_text_id_column,
    read_time_column,
    show_type,
)
from csrr.data.errors import DataError, RowNamer, list_names, name_table_row, show_value

Column = str | int | Literal[False] | None
"""A column by name or position; None to recognise it by its name, False to do without it."""

# The first words of a role win over the second: user_id over session_id. "id" may follow a user or item word.
WORDS = {
    "user": ("user uid", "customer visitor person reviewer member account client session"),
    "item": (
        "item iid",
        "movie artist product track song book isbn asin article album game venue location business",
    ),
    "rating": ("rating", "ratings score star stars vote"),
    "weight": ("weight", "count plays playcount quantity confidence clicks views"),
    "time": ("timestamp", "time date datetime ts unixtime"),
    "title": ("title", "name itemname itemtitle movietitle artistname"),
}
REQUIRED = ("user", "item")
NAMES = {
    role: [
        {word + end for word in tier.split() for end in (("", "id") if role in REQUIRED else ("",))} for tier in tiers
    ]
    for role, tiers in WORDS.items()
}


@dataclass(frozen=True)
class Events:
    """The columns of a table of n events, each of shape (n,), checked but not yet merged."""

    user: pa.Array
    item: pa.Array
    rating: Float64Array | None
    weight: Float64Array | None
    time: Times | None
    title: pa.Array | None
    names: tuple[str, ...]
    where: RowNamer

    def __len__(self) -> int:
        return len(self.user)

    def select(self, mask: BoolArray) -> Events:
        """Return the events where `mask`, shape (n,), is true."""
        chosen = pa.array(mask)
        return Events(
            self.user.filter(chosen),
            self.item.filter(chosen),
            None if self.rating is None else self.rating[mask],
            None if self.weight is None else self.weight[mask],
            None if self.time is None else self.time[mask],
            None if self.title is None else self.title.filter(chosen),
            self.names,
            self.where,
        )


def is_table(data: object) -> bool:
    """Return whether `read_events` can take `data`."""
    return isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data)


def read_events(
    table: Any, columns: Mapping[str, Column], where: RowNamer = name_table_row, *, is_text: bool = False
) -> Events:
    """Return the events of a table; `columns` names the column of a role, or leaves it to be found.

    With `is_text`, ids were read from text: an empty one is missing, and they are integers if all look so.
    """
    cells = split_columns(table)
    names = tuple(cells)
    chosen = {role: find_column(role, columns.get(role), names) for role in NAMES}
    as_ids = read_text_id_column if is_text else read_id_column
    readers: dict[str, Any] = {
        "user": as_ids,
        "item": as_ids,
        "rating": read_number_column,
        "weight": read_number_column,
        "time": read_time_column,
        "title": read_title_column,
    }
    arrays = {
        role: None if name is None else readers[role](cells[name](), name, where) for role, name in chosen.items()
    }
    lengths = {chosen[role]: len(array) for role, array in arrays.items() if array is not None}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns differ in length: {lengths}")
    found = Events(**arrays, names=names, where=where)
    if len(found) == 0:
        raise DataError(f"the table has no rows; its columns are {quote_names(names)}")
    _check_weights(found, chosen["weight"])
    return found


def find_role(name: str) -> str | None:
    """Return the role a column name is recognised as, or None."""
    plain = normalise_name(name)
    return next((role for role, tiers in NAMES.items() if any(plain in tier for tier in tiers)), None)


def quote_names(names: Collection[str]) -> str:
    """Return names, in quotes and commas, at most 20 of them."""
    return list_names([show_value(name) for name in names]) or "none"


def normalise_name(name: str) -> str:
    """Return a column name in lower case without '_', '-', blanks and RecBole's ":token"."""
    return name.split(":")[0].lower().translate(str.maketrans("", "", "_- "))


def find_column(role: str, given: Column, names: tuple[str, ...]) -> str | None:
    """Return the name of the column of a role, or None where the role may be left out and is."""
    if given is False and role not in REQUIRED:
        return None
    if isinstance(given, int) and not isinstance(given, bool):
        if not 0 <= given < len(names):
            raise DataError(f"{role}={given}: there are {len(names)} columns, numbered from 0")
        return names[given]
    if isinstance(given, str):
        if given not in names:
            raise DataError(
                f"{role}={show_value(given)}: there is no such column; the columns are {quote_names(names)}"
            )
        return given
    for tier in NAMES[role]:
        matches = [name for name in names if normalise_name(name) in tier]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise DataError(
                f"which column is the {role}: {quote_names(matches)}? Say so with {role}={show_value(matches[0])}"
            )
    if role in REQUIRED:
        raise DataError(
            f"no column looks like the {role}; the columns are {quote_names(names)}; name it with {role}='...'"
        )
    return None


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def split_columns(table: Any) -> dict[str, Callable[[], Any]]:
    """Return a function for each column of any table, by name, that gives it: nothing is read that is not asked for."""
    pairs: list[tuple[str, Callable[[], Any]]]
    if isinstance(table, Mapping):
        pairs = [(str(name), partial(table.__getitem__, name)) for name in table]
    elif _is_pandas(table):
        pairs = [(str(name), partial(_take_series, table, i)) for i, name in enumerate(table.columns)]
    else:
        arrow = _as_arrow_table(table)
        pairs = [(name, partial(arrow.column, i)) for i, name in enumerate(arrow.column_names)]
    cells = dict(pairs)
    if len(cells) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two columns are called {show_value(twice)}; rename one")
    return cells


def _take_series(table: Any, place: int) -> Any:
    return table.iloc[:, place]


def _as_arrow_table(table: Any) -> pa.Table:
    try:
        return pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DataError(f"a {type(table).__name__} cannot be read as a table: {error}") from error


def read_title_column(values: Any, column: str, where: RowNamer) -> pa.Array:
    array = as_arrow_array(values, column, where)
    try:
        titles = array.cast(pa.large_string())
    except pa.ArrowException:
        raise DataError(
            f"column {show_value(column)} holds {show_type(array.type)} values, not titles; pass title=False"
        ) from None
    return pc.if_else(pc.equal(titles, ""), None, titles)


def _check_weights(found: Events, column: str | None) -> None:
    if found.weight is None:
        return
    with np.errstate(over="ignore"):
        bad = np.flatnonzero((found.weight < 0) | ~np.isfinite(found.weight.astype(np.float32)))
    if bad.size:
        row = int(bad[0])
        raise DataError(
            f"column {show_value(column)}, {found.where(row)}:"
            f" the weight {found.weight[row]:g} is not a finite number >= 0"
        )
