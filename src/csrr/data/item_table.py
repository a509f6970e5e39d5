"""What is known of items beside who chose them: titles, categories, prices, dates."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import BoolArray, ObjectArray
from csrr.data.columns import CANONICAL_INTEGER, read_id_column, read_text_id_column
from csrr.data.errors import DataError, RowNamer, name_table_row, show_value
from csrr.data.event_tables import (
    WORDS,
    Column,
    find_column,
    is_table,
    normalise_name,
    quote_names,
    read_title_column,
    split_columns,
)
from csrr.data.ids import IdMap
from csrr.data.item_columns import ItemColumn, read_item_column
from csrr.data.item_conditions import match_column
from csrr.data.item_files import load_items
from csrr.data.sources import open_bundle

if TYPE_CHECKING:
    import pandas as pd

_TITLES = {word + end for word in " ".join(WORDS["item"]).split() for end in ("name", "title")}


@dataclass(frozen=True, eq=False, repr=False)
class ItemTable:
    """What is known of items: a row for each.

    Attributes
    ----------
    items
        The ids of the items, in the order of the rows.
    columns
        The columns by name: numbers, flags, dates or categories.
    titles
        What the items are called, shape (n_items,), where known: str or None.

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
        """Return the table with a row for each of some items, in their order.

        Parameters
        ----------
        items
            The ids. What the table does not say of one of them is missing.

        Returns
        -------
        table
            Its other items are left out.

        Raises
        ------
        DataError
            Where the table has none of them.
        """
        rows = self.items.find(_as_type_of(items, self.items), "item")
        if len(items) and (rows < 0).all():
            raise DataError(
                f"the item table has none of the {len(items):,} items: its ids are like"
                f" {show_value(self.items.ids[:3].tolist())}, theirs like {show_value(items.ids[:3].tolist())}; name"
                " the"
                " column of ids with item='...'"
            )
        titles = None
        if self.titles is not None:
            titles = self.titles[rows]
            titles[rows < 0] = None
        return ItemTable(items, {name: column.take(rows) for name, column in self.columns.items()}, titles)

    def match(self, where: Mapping[str, Any]) -> BoolArray:
        """Return which items meet all of some conditions.

        Parameters
        ----------
        where
            By column: a value; a list of values, one of which an item must have; or a pair (least, most) of numbers or
            dates, where None stands for no bound. What is missing meets no condition.

        Returns
        -------
        met
            Shape (n_items,).
        """
        if not isinstance(where, Mapping):
            raise DataError(f"where={show_value(where)}: it must be a dict from columns to values or (least, most)")
        met = np.ones(len(self), np.bool_)
        for name, wanted in where.items():
            met &= match_column(self[name], str(name), wanted)
        return met

    def to_arrow(self) -> pa.Table:
        """Return the table as an Arrow table.

        Returns
        -------
        table
            item, title where known, and the columns.
        """
        rows = np.arange(len(self))
        found: dict[str, Any] = {"item": self.items.ids}
        if self.titles is not None:
            found["title"] = pa.array(self.titles.tolist(), pa.string())
        return pa.table(found | {name: column.show(rows) for name, column in self.columns.items() if name not in found})

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame.

        Returns
        -------
        frame
            The columns of `to_arrow`.
        """
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'csrr[pandas]', or use to_arrow") from None
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        told = ["titles"] if self.titles is not None else []
        for name, column in self.columns.items():
            n = f" ({len(column.values.names):,} categories)" if column.is_text else f" ({column.kind})"
            told.append(f"{name}{n}")
        return f"ItemTable: {len(self):,} items{''.join(f', {each}' for each in told[:12])}{', ...' * (len(told) > 12)}"


def read_items(
    source: Any,
    *,
    item: Column = None,
    title: Column = None,
    columns: Sequence[str] | None = None,
    categories: str | None = "|",
    member: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
) -> ItemTable:
    """Return the item table of a file or of a table in memory: a row for each item.

    Known are CSV, TSV, Parquet, Arrow and JSON-lines files, plain, packed or zipped, and the item files of MovieLens,
    Last.fm and EachMovie, also in their archives. A column of a text file whose values are all numbers, true or false,
    or dates like 2000-12-31 is such; others are categories.

    Parameters
    ----------
    source
        A path, the name of a file or data set in `data_dir`, or a pandas, polars or pyarrow table or a dict of columns.
    item
        The column of ids, by name or position; recognised as in a log, or called id.
    title
        The column of titles; False for none.
    columns
        The names of the other columns to keep; None for all.
    categories
        What stands between the categories of one item, as in Action|Comedy; None where nothing does. Lists of texts
        need none.
    member
        The file in an archive or folder that holds several.
    separator
        What stands between the fields of a text.
    header
        Whether a text begins with the names of its columns.

    Returns
    -------
    table
        The table, checked.

    Raises
    ------
    DataError
        Where the table cannot be used: no ids, an id twice, values of no use; the message says where and what to do.

    Examples
    --------
    >>> table = csrr.read_items({"item": ["a", "b"], "price": [3.5, None], "genre": [["Indie"], ["Indie", "RPG"]]})
    >>> table.to_arrow().column("genre").to_pylist()
    ['Indie', 'Indie|RPG']
    """
    options = (item, title, columns, categories)
    if isinstance(source, ItemTable):
        return source
    if not isinstance(source, str | os.PathLike):
        if not is_table(source):
            raise DataError(
                f"cannot use a {type(source).__name__} as an item table; accepted are a path, a pandas, polars or"
                " pyarrow"
                " table, and a dict of columns"
            )
        return _make_table(source, *options)
    bundle = open_bundle(source)
    try:
        named = {each for each in (item, title, *(columns or ())) if isinstance(each, str)}
        content = load_items(bundle, member, separator=separator, header=header, expected=named)
        return _make_table(content.columns, *options, content.where, is_text=content.is_text)
    except DataError as error:
        raise DataError(f"{bundle.path.name}: {error}") from error.__cause__


def _make_table(
    table: Any,
    item: Column,
    title: Column,
    columns: Sequence[str] | None,
    categories: str | None,
    where: RowNamer = name_table_row,
    *,
    is_text: bool = False,
) -> ItemTable:
    if categories is not None and (not isinstance(categories, str) or not categories):
        raise DataError(f"categories={show_value(categories)}: give what stands between them, such as '|', or None")
    cells = split_columns(table)
    id_name, title_name = _find_ids(item, tuple(cells)), _find_titles(title, tuple(cells))
    ids = (read_text_id_column if is_text else read_id_column)(cells[id_name](), id_name, where)
    if len(ids) == 0:
        raise DataError(f"the item table has no rows; its columns are {quote_names(cells)}")
    _check_distinct(ids, id_name, where)
    items = IdMap(ids)
    rows = np.empty(len(items), np.int64)
    rows[items.rows(ids, "item")] = np.arange(len(items))
    titles = None
    if title_name is not None:
        known = read_title_column(cells[title_name](), title_name, where)
        titles = np.array(known.to_pylist(), np.object_)[rows]
    found = {}
    for name in _choose_columns(columns, cells, {id_name, title_name}):
        column = read_item_column(cells[name](), name, where, is_text=is_text, separator=categories)
        found[name] = column.take(rows)
    return ItemTable(items, found, titles)


def _find_ids(item: Column, names: tuple[str, ...]) -> str:
    """Return the column of ids: as in a log, or one that is called id."""
    plain = [name for name in names if normalise_name(name) == "id"]
    try:
        found = find_column("item", item, names)
    except DataError as error:
        if item is None and len(plain) == 1 and "no column looks like" in str(error):
            return plain[0]
        raise
    assert found is not None
    return found


def _find_titles(title: Column, names: tuple[str, ...]) -> str | None:
    found = find_column("title", title, names)
    if found is None and title is None:
        alike = [name for name in names if normalise_name(name) in _TITLES]
        return alike[0] if len(alike) == 1 else None
    return found


def _choose_columns(asked: Sequence[str] | None, cells: Mapping[str, Any], taken: set[str | None]) -> list[str]:
    if isinstance(asked, str):
        raise DataError(f"columns={show_value(asked)}: give a list of names")
    if asked is None:
        return [name for name in cells if name not in taken]
    for name in asked:
        if name not in cells:
            raise DataError(f"columns: there is no column {show_value(name)}; there are {quote_names(cells)}")
    return [name for name in dict.fromkeys(asked) if name not in taken]


def _check_distinct(ids: pa.Array, column: str, where: RowNamer) -> None:
    counts = pc.value_counts(ids)
    if len(counts) == len(ids):
        return
    twice = counts.filter(pc.greater(counts.field("counts"), 1))[0]["values"]
    places = np.flatnonzero(pc.equal(ids, twice).to_numpy(zero_copy_only=False))[:2]
    raise DataError(
        f"column {show_value(column)}: the item {show_value(twice.as_py())} is there twice, in"
        f" {where(int(places[0]))} and"
        f" {where(int(places[1]))}; keep one row for each item"
    )


def _as_type_of(asked: IdMap, known: IdMap) -> Any:
    """Return ids in the type of others, where 7 and "7" are the same item."""
    is_text = known.ids.dtype == np.object_
    if (asked.ids.dtype == np.object_) == is_text:
        return asked.ids
    if is_text:
        return asked.ids.astype(str).astype(np.object_)
    texts = pa.array(asked.ids, pa.large_string())
    plain = pc.match_substring_regex(texts, CANONICAL_INTEGER).to_numpy(zero_copy_only=False)
    fits = plain & (pc.utf8_length(texts).to_numpy() < 19)
    # No id is that small: whatever is no integer is in no table of integers.
    return np.array([int(text) if fit else -(2**63) for text, fit in zip(asked.ids, fits, strict=True)], np.int64)
