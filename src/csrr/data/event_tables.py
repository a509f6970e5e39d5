"""Tables of any kind -> the columns of events: who, what, and perhaps how much and when."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import BoolArray, Float64Array
from csrr.data.bad_rows import OnBadRows, drop_bad_rows
from csrr.data.columns import SKIP_HINT, as_arrow_array, read_number_column, show_type
from csrr.data.errors import DataError, RowNamer, name_table_row, quote_names, show_value
from csrr.data.event_types import TypeColumn, code_types, read_weights, spell_types
from csrr.data.id_columns import MISSING, read_id_column, read_text_id_column
from csrr.data.recognise_columns import Column, LogColumns, check_column, choose_columns, describe_columns, find_role
from csrr.data.records import as_columns, has_names, is_records
from csrr.data.times import Times, read_time_column
from csrr.parameters import ParameterError, check_number, check_texts


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of a table of events, checked: the arguments that all readers share.

    `columns` gives the column of a role, or leaves it to be found; `weights` is the weight of each type of events.
    """

    columns: Mapping[str, Column]
    weights: Mapping[str, float] | None = None
    target: Any = None
    min_rating: float | None = None
    min_weight: float | None = None
    on_bad_rows: OnBadRows = "error"
    missing: Collection[str] | None = None

    @classmethod
    def of(
        cls,
        *,
        weights: Any = None,
        target: Any = None,
        min_rating: Any = None,
        min_weight: Any = None,
        on_bad_rows: Any = "error",
        missing: Any = None,
        **columns: Any,
    ) -> Self:
        """Return the arguments; ParameterError for what they cannot be."""
        for role, column in columns.items():
            check_column(role, column)
        for name, bound in (("min_rating", min_rating), ("min_weight", min_weight)):
            if bound is not None:
                check_number(name, bound)
        if not isinstance(on_bad_rows, str) or on_bad_rows not in get_args(OnBadRows):
            raise DataError(f"on_bad_rows={show_value(on_bad_rows)} is not known; choose 'error' or 'skip'")
        if isinstance(missing, str):
            missing = (missing,)
        check_texts("missing", missing, "strings, such as ['-', 'NULL']")
        return cls(
            columns=columns,
            weights=read_weights(columns.get("event"), weights, target),
            target=target,
            min_rating=None if min_rating is None else float(min_rating),
            min_weight=None if min_weight is None else float(min_weight),
            on_bad_rows="skip" if on_bad_rows == "skip" else "error",
            missing=None if missing is None else tuple(missing),
        )

    @property
    def given(self) -> list[str]:
        """The names of the columns that are given, and of the bounds."""
        names = [role for role, column in self.columns.items() if column is not None]
        return names + [name for name in ("min_rating", "min_weight") if getattr(self, name) is not None]


NOTHING_ASKED = Asked(columns={})


@dataclass(frozen=True)
class Events:
    """The columns of a table of n events, each of shape (n,), checked but not yet merged."""

    user: pa.Array
    item: pa.Array
    rating: Float64Array | None
    weight: Float64Array | None
    types: TypeColumn | None
    time: Times | None
    title: pa.Array | None
    names: tuple[str, ...]
    columns: LogColumns
    where: RowNamer
    is_text: bool

    def __len__(self) -> int:
        return len(self.user)

    def select(self, mask: BoolArray) -> Events:
        """Return the events where `mask`, shape (n,), is true."""
        chosen = pa.array(mask)
        return replace(
            self,
            user=self.user.filter(chosen),
            item=self.item.filter(chosen),
            rating=None if self.rating is None else self.rating[mask],
            weight=None if self.weight is None else self.weight[mask],
            types=None if self.types is None else self.types.select(mask),
            time=None if self.time is None else self.time[mask],
            title=None if self.title is None else self.title.filter(chosen),
        )


def is_table(data: object) -> bool:
    """Return whether `read_events` can take `data`."""
    return isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or _is_pandas(data) or is_records(data)


def read_events(
    table: Any,
    asked: Asked = NOTHING_ASKED,
    where: RowNamer = name_table_row,
    *,
    is_text: bool = False,
    notes: Collection[str] = (),
) -> Events:
    """Return the events of a table.

    With `is_text`, ids were read from text: blanks around them are not theirs, one that is empty or that `asked` says
    is missing is so, and they are integers if all look so. `notes` is what was found out about the table before.
    """
    cells, columns = split_columns(table), asked.columns
    told, names = list(notes), tuple(cells)
    absent = MISSING if asked.missing is None else tuple(asked.missing)
    if asked.missing is not None and not is_text:
        raise ParameterError("missing= is for text files; elsewhere a missing id is null, and strings stay as they are")
    if is_records(table) and not has_names(table):
        columns = {"user": 0, "item": 1} | {role: column for role, column in columns.items() if column is not None}
    chosen = choose_columns(names, columns)
    used = {role: name for role, name in chosen.items() if name is not None}
    if asked.on_bad_rows == "skip":
        as_cells = {"event": spell_types}
        arrays = {role: as_cells.get(role, as_arrow_array)(cells[name](), name, where) for role, name in used.items()}
        _check_lengths(used, arrays)
        arrays, where = drop_bad_rows(arrays, where, absent if is_text else None, asked.weights or (), told.append)
        cells |= {used[role]: partial(_return, array) for role, array in arrays.items()}
    as_ids = partial(read_text_id_column, missing=absent, note=told.append) if is_text else read_id_column
    readers: dict[str, Any] = {
        "user": as_ids,
        "item": as_ids,
        "rating": read_number_column,
        "weight": read_number_column,
        "event": spell_types,
        "time": read_time_column,
        "title": read_title_column,
    }
    read = {role: readers[role](cells[name](), name, where) for role, name in used.items()}
    _check_lengths(used, read)
    if is_text:
        _reject_headers(read["user"], read["item"], names, where)
    about = describe_columns(names, chosen, told)
    spelt = read.pop("event", None)
    columns_of = dict.fromkeys(role for role in chosen if role != "event") | read
    found = Events(**columns_of, types=None, names=names, columns=about, where=where, is_text=is_text)
    if len(found) == 0:
        raise DataError(f"the table has no rows; its columns are {quote_names(names)}")
    _check_weights(found, chosen["weight"])
    if spelt is None or asked.weights is None:
        return found
    types = code_types(spelt, used["event"], where, asked.weights, asked.target)
    # A type of weight 0 has the code -1: the last, which is 0.
    by_type = np.array([*(asked.weights[name] for name in types.names), 0.0])[types.codes]
    if types.lacks_target:
        about = replace(about, notes=(*about.notes, f"no event is of the target type {show_value(types.target)}"))
    weighed = replace(
        found, columns=about, weight=by_type if found.weight is None else by_type * found.weight, types=types
    )
    _check_weights(weighed, used.get("weight", used["event"]))
    return weighed


def _check_lengths(used: Mapping[str, str], arrays: Mapping[str, Any]) -> None:
    lengths = {used[role]: len(array) for role, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns differ in length: {lengths}")


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
            " read them one by one"
        )


def _return(value: Any) -> Any:
    return value


def _is_pandas(data: object) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns")


def split_columns(table: Any) -> dict[str, Callable[[], Any]]:
    """Return a function for each column of any table, by name, that gives it: nothing is read that is not asked for."""
    pairs: list[tuple[str, Callable[[], Any]]]
    if is_records(table):
        table = as_columns(table)
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
            f" the weight {found.weight[row]:g} is not a finite number >= 0; correct it, {SKIP_HINT}"
        )
