"""The lists of many users, a batch at a time: memory is that of one batch, however many users there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from scipy import sparse

from csrr.data.columns import read_id_column
from csrr.models.folded_users import check_k, list_ids
from csrr.parameters import check_whole
from csrr.ranking import Recommendations
from csrr.ranking.table_files import check_table_path, open_table_file

if TYPE_CHECKING:
    from csrr.models.recommender import Recommender

BATCH_ROWS = 2**17
"""Number of places in the lists of one batch: a row group of Parquet, and some ten megabytes."""


class WrittenLists(NamedTuple):
    """What `recommend_to` wrote: for how many users, how many rows, and the length of the longest list."""

    path: str
    n_users: int
    n_rows: int
    k: int


def recommend_in_batches(
    model: Recommender, users: Any, k: int, batch_users: int | None, options: dict[str, Any]
) -> Iterator[Recommendations]:
    """Yield the lists of users, `batch_users` of them at a time, or as many as have BATCH_ROWS places."""
    model.check_fitted()
    size = max(1, BATCH_ROWS // check_k(k)) if batch_users is None else batch_users
    check_whole("batch_users", size, least=1)
    ids = model.users_.ids if users is None else read_id_column(list_ids(users), "user ids")
    parts = (slice(first, first + size) for first in range(0, len(ids), size))
    return (model.recommend(ids[part], k, **_take_rows(options, part, len(ids))) for part in parts)


def _take_rows(options: dict[str, Any], part: slice, n_users: int) -> dict[str, Any]:
    """Return options for some of the users: of a matrix with a row for each, their rows."""
    found = dict(options)
    for name, value in options.items():
        is_matrix = bool(sparse.issparse(value))
        if is_matrix and value.shape[0] == n_users:
            found[name] = value.tocsr()[part]
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
    schema = make_list_schema(model)
    n_users = n_rows = longest = 0
    with open_table_file(path, schema, spreadsheet=spreadsheet) as write:
        for recs in batches:
            table = recs.to_arrow().cast(schema)
            write(table)
            n_users, n_rows, longest = n_users + len(recs), n_rows + len(table), max(longest, recs.k)
            if callback is not None:
                callback(n_users)
    return WrittenLists(os.fspath(path), n_users, n_rows, longest)


def make_list_schema(model: Recommender) -> pa.Schema:
    """Return the columns of lists, whatever a batch has in them."""
    kinds = {
        name: pa.int64() if ids.ids.dtype != object else pa.string()
        for name, ids in (("user", model.users_), ("item", model.items_))
    }
    kinds |= {"rank": pa.int64(), "score": pa.float32()}
    kinds |= {} if model.calibration_ is None else {"probability": pa.float32()}
    return pa.schema(kinds | ({} if model.titles_ is None else {"title": pa.string()}))
