"""Files and tables -> an item table."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.data.errors import DataError, RowNamer, name_table_row, quote_names, show_value
from csrr.data.event_tables import is_table, read_title_column, split_columns
from csrr.data.id_columns import read_id_column, read_text_id_column
from csrr.data.ids import IdMap
from csrr.data.item_columns import ItemColumn, read_item_column
from csrr.data.item_files import load_items
from csrr.data.item_table import ItemTable
from csrr.data.limits import Limit, find_limit
from csrr.data.recognise_columns import WORDS, Column, check_column, find_column, normalise_name
from csrr.data.sources import open_bundle
from csrr.parameters import ParameterError, check_texts

_TITLES = {word + end for word in " ".join(WORDS["item"]).split() for end in ("name", "title")}


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
    _check_arguments(columns, item=item, title=title, categories=categories, member=member, separator=separator)
    if header is not None and not isinstance(header, bool | np.bool_):
        raise ParameterError(f"header={show_value(header)}: it must be True, False or None")
    options = (item, title, columns, categories)
    of_files = {"member": member, "separator": separator, "header": header}
    if given := [
        name for name, value in of_files.items() if value is not None and not isinstance(source, str | os.PathLike)
    ]:
        raise ParameterError(f"{given[0]}= is for files; leave it out for a table in memory")
    if isinstance(source, ItemTable):
        if any(each is not None for each in options[:3]):
            raise ParameterError("an ItemTable is read already; item=, title= and columns= are for what it was made of")
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
        return _make_table(content.columns, *options, content.where, is_text=content.is_text, limit=find_limit())
    except DataError as error:
        raise DataError(f"{bundle.path.name}: {error}") from error.__cause__


def _check_arguments(columns: Any, *, item: Any, title: Any, **texts: Any) -> None:
    """Raise ParameterError for what an argument of `read_items` cannot be."""
    check_column("item", item)
    check_column("title", title)
    for name, value in texts.items():
        if value is not None and (not isinstance(value, str) or not value):
            raise ParameterError(f"{name}={show_value(value)}: it must be a text that is not empty, or None")
    check_texts("columns", columns, "names, such as ['genre', 'price']")


def _make_table(
    table: Any,
    item: Column,
    title: Column,
    columns: Sequence[str] | None,
    categories: str | None,
    where: RowNamer = name_table_row,
    *,
    is_text: bool = False,
    limit: Limit | None = None,
) -> ItemTable:
    cells = split_columns(table)
    id_name, title_name = _find_ids(item, tuple(cells)), _find_titles(title, tuple(cells))
    given = cells[id_name]()
    ids = (
        read_text_id_column(given, id_name, where).dictionary_decode()
        if is_text
        else read_id_column(given, id_name, where)
    )
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
    found: dict[str, ItemColumn] = {}
    n_bytes = 0
    for name in _choose_columns(columns, cells, {id_name, title_name}):
        column = read_item_column(cells[name](), name, where, is_text=is_text, separator=categories)
        found[name] = column.take(rows)
        n_bytes += column.n_bytes
        if limit is not None:
            # Each column has been held against the limit when it was read; of a file, all of them together are too.
            limit.check(n_bytes, "the item table")
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
