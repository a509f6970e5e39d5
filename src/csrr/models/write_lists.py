"""The lists of many users, a batch at a time: memory is that of one batch, however many users there are."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse

from csrr.arrays import AnyArray
from csrr.data.errors import NoHistoryWarning, UnknownIdWarning, warn_caller
from csrr.data.item_columns import Kind
from csrr.data.matrices import check_sparse
from csrr.models.asked_ids import IdReader, list_ids, read_asked
from csrr.models.best_lists import check_k
from csrr.parameters import check_whole
from csrr.ranking import Recommendations
from csrr.ranking.table_files import check_table_path, open_table_file

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

BATCH_ROWS = 2**17
"""Number of places in the lists of one batch: a row group of Parquet, and some ten megabytes."""

_TEXT = pa.string()
_COLUMN_TYPES: dict[Kind, pa.DataType] = {
    "number": pa.float64(),
    "whole": pa.int64(),
    "flag": pa.bool_(),
    "date": _TEXT,
    "category": _TEXT,
    "categories": _TEXT,
}
"""What columns of an item table are in a file."""


class WrittenLists(NamedTuple):
    """What `recommend_to` wrote: for how many users, how many rows, and the length of the longest list.

    `n_fallback` of the users got popular items.
    """

    path: str
    n_users: int
    n_rows: int
    k: int
    n_fallback: int


def recommend_in_batches(
    model: Recommender, users: Any, k: int, batch_users: int | None, options: dict[str, Any]
) -> Iterator[Recommendations]:
    """Yield the lists of users, `batch_users` of them at a time, or as many as have BATCH_ROWS places."""
    model.check_fitted()
    size = max(1, BATCH_ROWS // check_k(k)) if batch_users is None else batch_users
    check_whole("batch_users", size, least=1)
    ids = _find_ids(model, users, options)
    shape = len(ids), len(model.items_)
    parts = (slice(first, first + size) for first in range(0, len(ids), size))
    return (model.recommend(ids[part], k, **_take_rows(options, part, shape)) for part in parts)


def _find_ids(model: Recommender, users: Any, options: dict[str, Any]) -> AnyArray:
    """Return the ids of those who are asked for, shape (n,)."""
    return model.users_.ids if users is None else read_asked(list_ids(users), IdReader(options.get("unknown", "raise")))


def _take_rows(options: dict[str, Any], part: slice, shape: tuple[int, int]) -> dict[str, Any]:
    """Return options for some of the users: of a matrix of a `shape` with a row for each, their rows."""
    found = dict(options)
    for name, value in options.items():
        is_matrix = bool(sparse.issparse(value))
        if is_matrix and value.shape == shape:
            found[name] = sparse.csr_array(check_sparse(value, name))[part]
    return found


def write_lists(
    model: Recommender,
    path: str | os.PathLike[str],
    users: Any,
    k: int,
    *,
    spreadsheet: bool,
    callback: Callable[[int], object] | None,
    options: dict[str, Any],
) -> WrittenLists:
    """Write the lists of users to a file, and return how many; `callback` is told the number of users so far."""
    check_table_path(path)
    batches = recommend_in_batches(model, users, k, None, options)
    schema = make_list_schema(model, users, options)
    written = WrittenLists(os.fspath(path), 0, 0, 0, 0)
    with warnings.catch_warnings(), open_table_file(path, schema, spreadsheet=spreadsheet) as write:
        # Said once, of all batches together.
        warnings.simplefilter("ignore", NoHistoryWarning)
        warnings.simplefilter("once", UnknownIdWarning)
        for recs in batches:
            table = _conform(recs.to_arrow(), schema)
            write(table)
            written = WrittenLists(
                written.path,
                written.n_users + len(recs),
                written.n_rows + len(table),
                max(written.k, recs.k),
                written.n_fallback + int(recs.fallback.sum()),
            )
            if callback is not None:
                callback(written.n_users)
    if written.n_fallback:
        has, gets = ("has", "gets") if written.n_fallback == 1 else ("have", "get")
        told = f"{written.n_fallback:,} of {written.n_users:,} users {has} no history and {gets} popular items"
        warn_caller(f"{told}; the column why marks them", NoHistoryWarning)
    return written


def make_list_schema(model: Recommender, users: Any, options: dict[str, Any]) -> pa.Schema:
    """Return the columns of lists, whatever a batch has in them."""
    asked = {"user": _find_ids(model, users, options), "item": model.items_.ids}
    kinds = {name: pa.int64() if ids.dtype != object else pa.string() for name, ids in asked.items()}
    kinds |= {"rank": pa.int64(), "score": pa.float32()}
    kinds |= {} if model.calibration_ is None else {"probability": pa.float32()}
    kinds |= {} if model.titles_ is None else {"title": pa.string()}
    if model.item_table_ is not None:
        columns = model.item_table_.columns
        kinds |= {name: _COLUMN_TYPES[columns[name].kind] for name in options.get("columns", ()) if name in columns}
    may_fall_back = options.get("unknown") == "ignore" or not (np.diff(model.seen_.indptr) > 0).all()
    return pa.schema(kinds | ({"why": pa.string()} if may_fall_back else {}))


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of the schema; one that a batch has no use for is of nulls."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)
