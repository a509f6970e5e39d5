"""Whatever can be a log -> a log."""

from __future__ import annotations

from typing import Any

from csrr.data.errors import DataError
from csrr.data.event_tables import is_table
from csrr.data.log import Log
from csrr.data.matrices import is_matrix


def as_log(data: Any) -> Log:
    """Return `data` as a log: a log itself, a table with user and item columns, or a users x items matrix."""
    if isinstance(data, Log):
        return data
    if is_matrix(data):
        return Log.from_matrix(data)
    if is_table(data):
        return Log.from_table(data)
    raise DataError(describe_unusable(data))


def describe_unusable(data: Any) -> str:
    """Return a message that says what can be used in place of `data`."""
    if type(data).__name__ == "LazyFrame":
        return "a LazyFrame holds no data yet; pass frame.collect()"
    return (
        f"cannot use a {type(data).__name__} as data; accepted are a Log, a pandas, polars or pyarrow table,"
        " a dict of columns (user, item and perhaps rating, weight, time), a list of tuples or dicts, a scipy sparse"
        " matrix or a 2-D numpy array (users x items); csrr.read takes a path or a database, too"
    )
