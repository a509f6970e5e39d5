"""Files and tables -> an item table."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from csrr._base.arrays import AnyArray, BoolArray, Float64Array, Int64Array, ObjectArray, Rows, to_pandas
from csrr._base.text import format_html_rows, list_names, quote_error, quote_names, show_value
from csrr.data.columns import (
    MISSING,
    Column,
    find_missing,
    is_number_type,
    name_column,
    parse_time,
    read_ids,
    read_text_ids,
)
from csrr.data.errors import DataError, RowNamer, name_in_errors
from csrr.data.formats import TextOptions, guess_format, open_member, parse_text, recognize
from csrr.data.ids import IdMap
from csrr.data.read import check_file_options, reject_file_options
from csrr.data.sources import ByteLimit, FileSet, choose_limit, open_files
from csrr.data.tables import (
    WORDS,
    ColumnKey,
    Table,
    check_column,
    find_column,
    is_table,
    make_no_column_error,
    normalize_name,
    open_table,
    read_titles,
)
from csrr.parameters import ParameterError, check_texts

if TYPE_CHECKING:
    import pandas as pd


CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"

ColumnKind = Literal["number", "whole", "flag", "date", "category", "categories"]
KINDS: tuple[ColumnKind, ...] = ("number", "whole", "flag", "date", "category", "categories")
"""Numbers, whole numbers, true or false, times; one text for an item, several texts for an item."""

NO_DATE = np.datetime64("NaT", "s")
FARTHEST = 3e11
"""Seconds from 1970 to a date, some ten thousand years at most."""
_PATTERNS: dict[str, Callable[[pa.Array], pa.Array]] = {
    CANONICAL_INTEGER: lambda texts: texts.cast(pa.int64()),
    r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$": lambda texts: texts.cast(pa.float64()),
    "^(?i:true|false)$": lambda texts: pc.utf8_lower(texts).cast(pa.bool_()),
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.]+Z?)?$": lambda texts: pc.replace_substring_regex(texts, "Z$", "").cast(
        pa.timestamp("us")
    ),
}
"""How numbers, flags and dates are written in a text, and how such texts are read."""


class Categories(NamedTuple):
    """The categories of n items: sorted `names`, and `members`, csr of shape (n, n_names), 1 where an item has one."""

    names: ObjectArray
    members: Any

    @classmethod
    def collect(cls, rows: Rows, texts: pa.Array, n: int) -> Categories:
        """Return the categories of pairs of an item row and a text, shapes (m,)."""
        names, columns = IdMap.encode(texts.cast(pa.large_string()))
        members = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, len(names)))
        members.sum_duplicates()
        members.data[:] = 1
        return cls(np.asarray(names.ids, np.object_), members)

    def find(self, column: str, category: Any) -> int:
        """Return the place of a category among the names, which are those of a column."""
        place = int(np.searchsorted(self.names, str(category))) if len(self.names) else 0
        if place < len(self.names) and self.names[place] == str(category):
            return place
        near = difflib.get_close_matches(str(category), self.names.tolist(), 1)
        hint = (
            f"did you mean {show_value(near[0])}?" if near else f"there are {list_names(self.names.tolist()) or 'none'}"
        )
        raise DataError(f"no item has {show_value(column)} {show_value(category)}; {hint}")

    def take(self, rows: Rows) -> Categories:
        """Return the categories of some items, none for row -1; names that no item has any more are dropped."""
        there = np.flatnonzero(rows >= 0)
        chosen = self.members[rows[there]].tocoo()
        used, columns = np.unique(chosen.col, return_inverse=True)
        ones = np.ones(len(columns), np.float32)
        members = sparse.csr_array((ones, (there[chosen.row], columns)), shape=(len(rows), len(used)))
        return Categories(self.names[used], members)


class ItemColumn(NamedTuple):
    """A column: its kind, and an array of shape (n,) or, for texts, their categories."""

    kind: ColumnKind
    values: Any

    @property
    def is_text(self) -> bool:
        """Whether it holds categories."""
        return self.kind in ("category", "categories")

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, about."""
        if not self.is_text:
            return int(self.values.nbytes)
        names, members = self.values
        return int(sum(map(len, names)) + 60 * len(names) + 8 * members.nnz + members.indptr.nbytes)

    def take(self, rows: Rows) -> ItemColumn:
        """Return the values of some items, missing for row -1."""
        if self.is_text:
            return ItemColumn(self.kind, self.values.take(rows))
        missing = rows < 0
        if not missing.any():
            return ItemColumn(self.kind, self.values[rows])
        if self.kind == "date":
            return ItemColumn("date", np.where(missing, NO_DATE, self.values[rows]))
        return ItemColumn("number", np.where(missing, np.nan, self.values[rows].astype(np.float64)))

    def show(self, rows: Rows) -> AnyArray:
        """Return the values of some items for people, None where missing; several texts of one with | between them."""
        if self.is_text:
            names, members = self.values
            chosen = members[rows]
            found = np.full(len(rows), None, np.object_)
            for place, (first, end) in enumerate(zip(chosen.indptr[:-1], chosen.indptr[1:], strict=True)):
                if end > first:
                    found[place] = "|".join(names[chosen.indices[first:end]])
            return found
        values = self.values[rows]
        if self.kind == "date":
            seconds = self.values[~np.isnat(self.values)].astype(np.int64)
            unit: Literal["D", "s"] = "D" if bool((seconds % 86400 == 0).all()) else "s"
            texts: ObjectArray = np.datetime_as_string(values, unit=unit).astype(np.object_)
            texts[np.isnat(values)] = None
            return texts
        missing = np.isnan(values) if self.kind == "number" else np.zeros(len(rows), np.bool_)
        if not missing.any():
            return np.asarray(values)
        shown: ObjectArray = values.astype(np.object_)
        shown[missing] = None
        return shown

    def to_categories(self) -> Categories | None:
        """Return the categories that the values are, of whole numbers and flags too; None for other columns."""
        if self.is_text:
            return cast(Categories, self.values)
        if self.kind in ("whole", "flag"):
            return Categories.collect(
                np.arange(len(self.values)), pa.array(self.values.astype(str).tolist()), len(self.values)
            )
        return None

    def to_numbers(self) -> Float64Array:
        """Return numbers, flags or dates (seconds since 1970) as float64, shape (n,), NaN where missing."""
        if self.kind == "date":
            return np.where(np.isnat(self.values), np.nan, self.values.astype(np.int64).astype(np.float64))
        return np.asarray(self.values, np.float64)


def read_item_column(column: Column, *, is_text: bool = False, separator: str | None = "|") -> ItemColumn:
    """Return a column; with `is_text` it was read from a text, and is parsed as numbers or dates if all texts look so.

    Texts that hold the `separator`, and lists of texts, are several categories of one item.
    """
    array, kind = column.array, column.kind
    if column.is_text:
        texts = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        # NA is missing among numbers, but may be Namibia among texts.
        numbers = pc.if_else(find_missing(texts, MISSING), None, texts) if is_text else None
        return (_guess(numbers) if is_text else None) or _read_texts(texts, separator)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _read_lists(column)
    if pa.types.is_null(kind):
        return _read_texts(array.cast(pa.large_string()), None)
    try:
        found = _read_plain(array)
    except pa.ArrowException as error:
        raise column.make_type_error(
            f" ({quote_error(error)}), not numbers, texts, dates, flags or lists of texts; choose columns=[...]"
        ) from None
    if found.kind == "date" and (far := find_far_dates(found.values)).any():
        what = "the date is ten thousand years away; correct it, or choose other columns with columns=[...]"
        raise column.make_error(int(far.argmax()), what)
    return found


def _read_plain(array: pa.Array) -> ItemColumn:
    kind = array.type
    if pa.types.is_boolean(kind) and not array.null_count:
        return ItemColumn("flag", np.array(array.to_numpy(zero_copy_only=False)))
    if pa.types.is_signed_integer(kind) and not array.null_count:
        return ItemColumn("whole", np.array(array.cast(pa.int64()).to_numpy()))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        ticks = array.cast(pa.timestamp("s", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        seconds = ticks.fill_null(0).to_numpy().astype("datetime64[s]")
        return ItemColumn("date", np.where(_find_nulls(array), NO_DATE, seconds))
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    if not (is_number_type(kind) or array.null_count):
        raise pa.ArrowInvalid("no numbers")
    return ItemColumn("number", np.array(array.cast(pa.float64()).to_numpy(zero_copy_only=False)))


def find_far_dates(dates: AnyArray) -> BoolArray:
    """Return which dates are too far from 1970 to be any, shape (n,)."""
    return ~np.isnat(dates) & (np.abs(dates.astype(np.int64).astype(np.float64)) > FARTHEST)


def _guess(texts: pa.Array) -> ItemColumn | None:
    """Return texts as numbers, flags or dates where every one that is there is such; else None."""
    distinct = pc.unique(texts.drop_null())
    for pattern, parse in _PATTERNS.items() if len(distinct) else ():
        if pc.all(pc.match_substring_regex(distinct, pattern)).as_py():
            try:
                return _read_plain(parse(texts))
            except pa.ArrowException:
                return None
    return None


def _read_texts(texts: pa.Array, separator: str | None) -> ItemColumn:
    if separator is not None and pc.any(pc.match_substring(texts, separator)).as_py():
        lists = pc.split_pattern(texts, separator)
        return _collect_lists(lists, lists.flatten())
    rows = np.flatnonzero(~_find_nulls(texts))
    return ItemColumn("category", Categories.collect(rows, texts.drop_null(), len(texts)))


def _read_lists(column: Column) -> ItemColumn:
    try:
        return _collect_lists(column.array, pc.list_flatten(column.array).cast(pa.large_string()))
    except pa.ArrowException:
        raise column.make_type_error("; lists are of texts: choose other columns with columns=[...]") from None


def _collect_lists(lists: pa.Array, texts: pa.Array) -> ItemColumn:
    """Return lists of categories, whose `texts` stand one after the other."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = pc.utf8_trim_whitespace(texts)
    known = pc.not_equal(texts, "").fill_null(False)
    rows = np.repeat(np.arange(len(lists)), lengths)[known.to_numpy(zero_copy_only=False)]
    return ItemColumn("categories", Categories.collect(rows, texts.filter(known), len(lists)))


def _find_nulls(array: pa.Array) -> BoolArray:
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def match_column(column: ItemColumn, name: str, value: Any) -> BoolArray:
    """Return which items meet a condition, shape (n,): a value, a list of values, or a pair (least, most)."""
    if isinstance(value, tuple) and (len(value) != 2 or column.is_text):
        what = "categories: give one, or a list of them" if column.is_text else "a range is a pair, (least, most)"
        raise DataError(f"where: {show_value(name)}={show_value(value)}; {what}")
    several = list(value) if isinstance(value, list | set | frozenset | np.ndarray) else [value]
    if not several:
        raise DataError(f"where: {show_value(name)} is given no values; name at least one")
    if column.is_text:
        places = [column.values.find(name, each) for each in several]
        return np.asarray(column.values.members[:, places].sum(axis=1)).ravel() > 0
    read, numbers = partial(_read_bound, column, name), column.to_numbers()
    if isinstance(value, tuple):
        least, most = value
        bounds = [(-np.inf if least is None else read(least), np.inf if most is None else read(most))]
    else:
        bounds = [(number, number) for number in map(read, several)]
    met: BoolArray = np.any([(low <= numbers) & (numbers <= high) for low, high in bounds], axis=0)
    return met


def _read_bound(column: ItemColumn, name: str, value: Any) -> float:
    """Return a number, a flag or a date, in the unit of the column."""
    if column.kind == "date":
        return parse_time(value)
    if isinstance(value, bool | int | float | np.number | np.bool_) and not np.isnan(value):
        return float(value)
    raise DataError(f"where: {show_value(name)} holds numbers or true and false, which {show_value(value)} is not")


SHOWN = 5
"""The number of rows that a notebook shows."""


@dataclass(frozen=True, eq=False, repr=False)
class ItemTable:
    """A table of item attributes, one row per item.

    Attributes
    ----------
    items
        The ids of the items, in the order of the rows.
    columns
        The columns by name: numbers, flags, dates or categories.
    titles
        The titles of the items, shape (n_items,), if known: str or None.

    Examples
    --------
    >>> table = csrr.read_items({"item": [7, 8], "title": ["Alien", "Big"], "genre": ["Horror|SF", "Comedy"]})
    >>> table
    ItemTable: 2 items, titles, genre (3 categories)
    >>> table.match({"genre": "SF"}).tolist()
    [True, False]
    """

    items: IdMap
    columns: Mapping[str, ItemColumn]
    titles: ObjectArray | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: str) -> ItemColumn:
        """Return a column by its name."""
        if name not in self.columns:
            near = difflib.get_close_matches(str(name), self.columns, 1)
            hint = f"; did you mean {show_value(near[0])}?" if near else ""
            raise DataError(
                f"the item table has no column {show_value(name)}{hint}; its columns are {quote_names(self.columns)}"
            )
        return self.columns[name]

    def align(self, items: IdMap) -> ItemTable:
        """Return the table with rows for the given items, in their order.

        Parameters
        ----------
        items
            The ids. Items that are not in the table get missing values.

        Returns
        -------
        table
            Its other items are left out.

        Raises
        ------
        DataError
            If the table has none of them.
        """
        rows = self.items.find(match_id_type(items, self.items), "item")
        if len(items) and (rows < 0).all():
            raise DataError(
                f"the item table has none of the {len(items):,} items: its ids are like"
                f" {show_value(self.items.ids[:3].tolist())}, theirs like {show_value(items.ids[:3].tolist())}; name"
                f" the column of ids with item='...' (on the command line, --items-id)"
            )
        titles = None
        if self.titles is not None:
            titles = self.titles[rows]
            titles[rows < 0] = None
        return ItemTable(items, {name: column.take(rows) for name, column in self.columns.items()}, titles)

    def match(self, where: Mapping[str, Any]) -> BoolArray:
        """Return which items meet all conditions.

        Parameters
        ----------
        where
            By column: a value; a list of allowed values; or a pair (minimum, maximum) of numbers or dates, where None
            means no bound. A missing value meets no condition.

        Returns
        -------
        met
            Shape (n_items,).
        """
        if not isinstance(where, Mapping):
            raise DataError(f"where={show_value(where)}: it must be a dict from columns to values or (least, most)")
        met = np.ones(len(self), np.bool_)
        for name, value in where.items():
            met &= match_column(self[name], str(name), value)
        return met

    def to_arrow(self) -> pa.Table:
        """Return the table as an Arrow table.

        Returns
        -------
        table
            item, title where known, and the columns.
        """
        return self._list_rows(np.arange(len(self)))

    def _list_rows(self, rows: Int64Array) -> pa.Table:
        """Return some rows, as `to_arrow` has them."""
        found: dict[str, Any] = {"item": self.items.ids[rows]}
        if self.titles is not None:
            found["title"] = pa.array(self.titles[rows].tolist(), pa.string())
        return pa.table(found | {name: column.show(rows) for name, column in self.columns.items() if name not in found})

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame.

        Returns
        -------
        frame
            The columns of `to_arrow`.
        """
        return to_pandas(self.to_arrow())

    def __repr__(self) -> str:
        parts = ["titles"] if self.titles is not None else []
        for name, column in self.columns.items():
            n = f" ({len(column.values.names):,} categories)" if column.is_text else f" ({column.kind})"
            parts.append(f"{name}{n}")
        return (
            f"ItemTable: {len(self):,} items{''.join(f', {each}' for each in parts[:12])}{', ...' * (len(parts) > 12)}"
        )

    def _repr_html_(self) -> str:
        first = self._list_rows(np.arange(min(SHOWN, len(self))))
        return format_html_rows(repr(self), first.to_pydict(), len(self))


def match_id_type(items: IdMap, known: IdMap) -> Any:
    """Return ids in the type of others, where 7 and "7" are the same item."""
    is_text = known.ids.dtype == np.object_
    if (items.ids.dtype == np.object_) == is_text:
        return items.ids
    if is_text:
        return items.ids.astype(str).astype(np.object_)
    texts = pa.array(items.ids, pa.large_string())
    fits = pc.and_(pc.match_substring_regex(texts, CANONICAL_INTEGER), pc.less(pc.utf8_length(texts), 19))
    # No id is that small: a text that is not an integer is not found in a table of integers.
    return pc.if_else(fits, texts, str(-(2**63))).cast(pa.int64()).to_numpy()


_GENRES = (
    "Unknown Action Adventure Animation Children Comedy Crime Documentary Drama Fantasy Film-Noir Horror Musical"
    " Mystery Romance Sci-Fi Thriller War Western"
)
ITEM_FILES: dict[str, tuple[str, ...] | None] = {
    "u.item": ("item", "title", "released", "video", "url", *_GENRES.split()),
    "movies.dat": ("item", "title", "genres"),
    "movies.csv": None,
    "artists.dat": None,
    "item_info.dat": None,
    **{f"items.{end}": None for end in ("csv", "tsv", "parquet", "arrow", "jsonl")},
}
"""Files that hold items, by name, and their columns where they have no header."""


def open_item_file(files: FileSet, member: str | None, how: TextOptions) -> Table:
    """Return the table of items in a file, or in a member of several."""
    name = _find_member(files, member)
    names, format = ITEM_FILES.get(name.lower()), guess_format(name)
    if names is not None and format == "text":
        return parse_text(files.read(name), how, names)
    table = open_member(files, format, name, how._replace(expected={*how.expected, "id"}))
    return replace(table, member=None)


def _find_member(files: FileSet, member: str | None) -> str:
    names = list(files.members)
    if member is not None:
        if (found := files.find(member.rpartition("/")[2])) is None:
            raise DataError(f"there is no {member}; there are {list_names(names) or 'no files'}")
        return found
    if files.main is not None:
        return files.main
    known = [found for name in ITEM_FILES if (found := files.find(name))]
    if len(known) == 1:
        return known[0]
    with suppress(DataError):
        return recognize(files, "text")[1]
    raise DataError(
        f"it is not clear which file holds the items; there are {list_names(known or names) or 'no files'}; pass the"
        " path of one (in Python, member='...' names one in an archive)"
    )


_TITLES = {word + end for word in " ".join(WORDS["item"]).split() for end in ("name", "title")}


def read_items(
    source: Any,
    *,
    item: ColumnKey = None,
    title: ColumnKey = None,
    columns: Sequence[str] | None = None,
    categories: str | None = "|",
    member: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> ItemTable:
    """Read an item table, with one row per item, from a file or a table in memory.

    Formats are CSV, TSV, Parquet, Arrow and JSON-lines files, plain or compressed, and the item files of MovieLens,
    Last.fm and EachMovie, also in their archives. Text columns of numbers, of true and false, or of dates like
    2000-12-31 are recognized; others are categories.

    Parameters
    ----------
    source
        A path, the name of a file or data set in `data_dir`, or a pandas, polars or pyarrow table or a dict of columns.
    item
        The column of ids, by name or position; recognized as in a log, or called id.
    title
        The column of titles; False for none.
    columns
        The names of the other columns to keep; None for all.
    categories
        The separator between the categories of one item, as in Action|Comedy; None: no separator. Lists of strings
        need none.
    member
        The file in an archive or folder that holds several.
    separator
        The field separator of a text file.
    header
        Whether a text file begins with column names.

    Returns
    -------
    table
        The table, checked.

    Raises
    ------
    DataError
        If the table cannot be used: no ids, a repeated id, invalid values; the message says where and what to do.

    Examples
    --------
    >>> table = csrr.read_items({"item": ["a", "b"], "price": [3.5, None], "genre": [["Indie"], ["Indie", "RPG"]]})
    >>> table.to_arrow().column("genre").to_pylist()
    ['Indie', 'Indie|RPG']
    """
    check_column("item", item)
    check_column("title", title)
    check_file_options(categories=categories, member=member, separator=separator, header=header)
    check_texts("columns", columns, "names, such as ['genre', 'price']")
    if isinstance(source, str | os.PathLike):
        files = open_files(source)
        with name_in_errors(files.path.name):
            named = {each for each in (item, title, *(columns or ())) if isinstance(each, str)}
            table = open_item_file(files, member, TextOptions(separator, header, named))
            return make_item_table(table, item, title, columns, categories, choose_limit())
    reject_file_options({"member": member, "separator": separator, "header": header}, "a table in memory")
    if isinstance(source, ItemTable):
        if any(each is not None for each in (item, title, columns)):
            raise ParameterError("an ItemTable is read already; item=, title= and columns= are for what it was made of")
        return source
    if not is_table(source):
        raise DataError(
            f"a {type(source).__name__} is no item table: pass a path, a pandas, polars or pyarrow table, or a dict"
        )
    return make_item_table(open_table(source), item, title, columns, categories)


def make_item_table(
    table: Table,
    item: ColumnKey,
    title: ColumnKey,
    columns: Sequence[str] | None,
    categories: str | None,
    limit: ByteLimit | None = None,
) -> ItemTable:
    """Return the item table of a table of any kind."""
    names = tuple(table.columns)
    id_name, title_name = find_ids(item, names, "item"), find_column("title", title, names)
    if id_name is None:
        raise make_no_column_error("item", names)
    if title_name is None and title is None:
        alike = [name for name in names if normalize_name(name) in _TITLES]
        title_name = alike[0] if len(alike) == 1 else None
    given = table.read(id_name, "item")
    ids = read_text_ids(given).dictionary_decode() if table.is_text else read_ids(given)
    if len(ids) == 0:
        raise DataError(f"the item table has no rows; its columns are {quote_names(names)}")
    check_distinct(ids, id_name, table.where)
    items = IdMap(ids)
    rows = np.empty(len(items), np.int64)
    rows[items.rows(ids, "item")] = np.arange(len(items))
    titles = None
    if title_name is not None:
        titles = np.array(read_titles(table.read(title_name)).to_pylist(), np.object_)[rows]
    for name in columns or ():
        if name not in names:
            raise DataError(f"columns: there is no column {show_value(name)}; there are {quote_names(names)}")
    found: dict[str, ItemColumn] = {}
    for name in dict.fromkeys(names if columns is None else columns):
        if name in (id_name, title_name):
            continue
        found[name] = read_item_column(table.read(name), is_text=table.is_text, separator=categories).take(rows)
        if limit is not None:
            # The limit held for each column when it was read; for a file, it also holds for all of them together.
            limit.check(sum(each.n_bytes for each in found.values()), "the item table")
    return ItemTable(items, found, titles)


def find_ids(key: ColumnKey, names: tuple[str, ...], kind: str) -> str | None:
    """Return the column of ids of items, or users: as in a log, or one that is called id; None for none."""
    if (found := find_column(kind, key, names)) is not None:
        return found
    plain = [name for name in names if normalize_name(name) == "id"]
    return plain[0] if len(plain) == 1 else None


def check_distinct(ids: pa.Array, column: str, where: RowNamer, kind: str = "item", more: str = "") -> None:
    """Raise DataError for an id that is in two rows; `more` says what else may be done."""
    counts = pc.value_counts(ids)
    if len(counts) == len(ids):
        return
    twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
    places = np.flatnonzero(pc.equal(ids, twice).to_numpy(zero_copy_only=False))[:2]
    raise DataError(
        f"{name_column(column)}: the {kind} {show_value(twice.as_py())} is there twice, in {where(int(places[0]))} and"
        f" {where(int(places[1]))}; keep one row for each {kind}{more}",
        column=column,
        row=int(places[1]),
    )
