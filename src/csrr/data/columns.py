"""One column at a time: anything array-like becomes a checked array, or an error naming column and row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import Float64Array, Int64Array
from csrr.data.errors import DataError, RowNamer, name_table_row, quote_error, show_value

Times = Int64Array | Float64Array

CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"


def read_id_column(values: Any, column: str, where: RowNamer = name_table_row) -> pa.Array:
    """Return ids as an Arrow array of int64 or large_string, shape (n,).

    Integers of any width and whole floats become int64; strings stay exactly as they are.
    """
    array = as_arrow_array(values, column, where)
    _reject_missing(array, column, where)
    kind = array.type
    if _is_text(kind):
        return array.cast(pa.large_string())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _as_int64(array, column, where)
    if len(array) == 0:
        return pa.array([], pa.int64())
    raise DataError(
        f"{_name_column(column)}, {where(0)}: {_show_cell(array, 0)} is of type {show_type(kind)};"
        " ids are integers or strings"
    )


def read_text_id_column(values: Any, column: str, where: RowNamer = name_table_row) -> pa.Array:
    """Return ids written in a text, shape (n,): int64 if each is the plain spelling of one, else text.

    "7" and "-3" are plain; "007" and "+7" are not. An empty id is missing.
    """
    array = read_id_column(values, column, where)
    if (empty := pc.index(array, "").as_py()) >= 0:
        raise _make_missing_error(column, where(empty))
    if not pc.all(pc.match_substring_regex(pc.unique(array), CANONICAL_INTEGER)).as_py():
        return array
    try:
        return array.cast(pa.int64())
    except pa.ArrowInvalid:
        return array


def read_number_column(values: Any, column: str, where: RowNamer = name_table_row) -> Float64Array:
    """Return numbers as float64, shape (n,), none of them missing."""
    array = as_arrow_array(values, column, where)
    _reject_missing(array, column, where)
    try:
        numbers = _to_numbers(array)
    except pa.ArrowException:
        row = _find_first_failure(array, _to_numbers)
        raise DataError(
            f"{_name_column(column)}, {where(row)}: {_show_cell(array, row)} is not a number;"
            " correct it, or leave the column out"
        ) from None
    missing = np.flatnonzero(np.isnan(numbers))
    if missing.size:
        raise _make_missing_error(column, where(int(missing[0])))
    return numbers


def read_time_column(values: Any, column: str, where: RowNamer = name_table_row) -> Times:
    """Return times, shape (n,): integers as int64, other numbers as float64, dates as seconds since 1970.

    A date that names no time zone is in UTC.
    """
    array = as_arrow_array(values, column, where)
    _reject_missing(array, column, where)
    kind = array.type
    if pa.types.is_integer(kind):
        return np.asarray(_as_int64(array, column, where).to_numpy())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _to_epoch_seconds(array)
    if _is_text(kind):
        return _parse_text_times(array, column, where)
    numbers = read_number_column(array, column, where)
    endless = np.flatnonzero(np.isinf(numbers))
    if endless.size:
        raise DataError(f"{_name_column(column)}, {where(int(endless[0]))}: an infinite time")
    return numbers


def parse_time(at: float | str | date | np.datetime64) -> float:
    """Return a number as it is, and a date, datetime or ISO string as seconds since 1970 (UTC by default)."""
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at.strip())
        except ValueError:
            raise DataError(
                f"{show_value(at)} is not a time: give a number, a datetime or text like 2000-12-31"
            ) from None
    if isinstance(at, np.datetime64):
        at = at.astype("datetime64[us]").item()
    if isinstance(at, date):
        stamp = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    return float(at)


def as_arrow_array(values: Any, column: str, where: RowNamer) -> pa.Array:
    """Return any column as one Arrow array, shape (n,); NaN in a column that is not Arrow's is null."""
    try:
        if isinstance(values, str | bytes):
            raise TypeError("text is one value")
        is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
        if not is_arrow:
            _reject_mixed_times(values)
        array = values if is_arrow else pa.array(values, from_pandas=True)
    except (pa.ArrowException, OverflowError, ValueError, TypeError, RecursionError) as error:
        raise _make_unlike_error(values, column, where, error) from None
    try:
        if not isinstance(array, pa.ChunkedArray):
            return _flatten(array)
        return pa.concat_arrays([_flatten(chunk) for chunk in array.chunks or [pa.array([], array.type)]])
    except pa.ArrowException as error:
        raise DataError(
            f"{_name_column(column)} of type {show_type(array.type)} cannot be read: {quote_error(error)}"
        ) from None


def _reject_mixed_times(values: Any) -> None:
    """Raise a TypeError where numpy's times stand among other values: pyarrow 26 crashes on [datetime64, int64]."""
    if isinstance(values, list | tuple) or getattr(values, "dtype", None) == np.object_:
        kinds = set(map(type, values)) - {type(None), float}
        if len(kinds) > 1 and kinds & {np.datetime64, np.timedelta64}:
            raise TypeError("times of numpy among other values")


def _flatten(array: pa.Array) -> pa.Array:
    """Return an array without what Arrow computes less with: dictionaries, runs, views and types of others."""
    if isinstance(array, pa.ExtensionArray):
        return _flatten(array.storage)
    if pa.types.is_dictionary(array.type):
        return _flatten(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        return _flatten(pc.run_end_decode(array))
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _make_unlike_error(values: Any, column: str, where: RowNamer, error: Exception) -> DataError:
    """Return an error for a column that is no array, naming the first row whose type differs."""
    name = _name_column(column)
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return DataError(f"{name} is the single value {show_value(values)}, not a list of values")
    cells = list(values)
    first = next((cell for cell in cells if not _is_missing(cell)), None)
    for row, cell in enumerate(cells):
        if type(cell) is not type(first) and not _is_missing(cell):
            return DataError(
                f"{name}, {where(row)}: {show_value(cell)} is {_name_kind(cell)}, but the values before it are"
                f" like {show_value(first)}, {_name_kind(first)}; make the column one type"
            )
        if isinstance(cell, int) and not -(2**63) <= cell < 2**63:
            return DataError(f"{name}, {where(row)}: {show_value(cell)} does not fit in 64 bits; pass it as text")
        if isinstance(cell, str) and not _is_unicode(cell):
            return DataError(f"{name}, {where(row)}: {show_value(cell)} holds half a character; correct it")
    return DataError(f"{name} cannot be read: {quote_error(error)}")


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _name_column(column: str) -> str:
    return f"column {show_value(column)}"


def show_type(kind: pa.DataType) -> str:
    """Return the name of an Arrow type, in at most 60 characters."""
    return show_value(str(kind)).strip("'")


def _show_cell(array: pa.Array, row: int) -> str:
    """Return the value of a row in words; not every value of Arrow is one of Python's."""
    try:
        return show_value(array[row].as_py())
    except (pa.ArrowException, ValueError, ArithmeticError, TypeError, LookupError, NotImplementedError):
        return f"a value of type {show_type(array.type)}"


def _name_kind(cell: Any) -> str:
    names = {"int": "an integer", "str": "a string", "float": "a fractional number", "bool": "a bool"}
    return names.get(type(cell).__name__, f"a {type(cell).__name__}")


def _make_missing_error(column: str, place: str) -> DataError:
    return DataError(f"{_name_column(column)}, {place}: the value is missing; remove the row or fill it in")


def _reject_missing(array: pa.Array, column: str, where: RowNamer) -> None:
    if array.null_count:
        raise _make_missing_error(column, where(pc.index(array.is_null(), True).as_py()))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_int64(array: pa.Array, column: str, where: RowNamer) -> pa.Array:
    try:
        return array.cast(pa.int64())
    except pa.ArrowException:
        row = _find_first_failure(array, lambda part: part.cast(pa.int64()))
        raise DataError(
            f"{_name_column(column)}, {where(row)}: {_show_cell(array, row)} is not a 64-bit integer;"
            " use integers or strings"
        ) from None


def _find_first_failure(array: pa.Array, convert: Callable[[pa.Array], object]) -> int:
    """Return the first row of `array` that `convert` cannot take, given that there is one."""

    def fails(n_rows: int) -> bool:
        try:
            convert(array[:n_rows])
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(1, len(array) + 1), True, key=fails)


def _to_numbers(array: pa.Array) -> Float64Array:
    if _is_text(array.type):
        array = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    elif not (_is_number(array.type) or len(array) == 0):
        raise pa.ArrowInvalid("not numbers")
    return np.asarray(array.cast(pa.float64()).to_numpy(zero_copy_only=False))


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(bool(test(kind)) for test in tests)


def _to_epoch_seconds(array: pa.Array) -> Float64Array:
    kind = array.type
    if pa.types.is_date32(kind):
        return np.asarray(array.cast(pa.int32()).to_numpy()) * 86400.0
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    ticks = np.asarray(array.cast(pa.int64()).to_numpy())
    if unit == "ns":  # a float has no room for them
        ticks, unit = ticks // 1000, "us"
    return ticks / {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]


def _parse_text_times(array: pa.Array, column: str, where: RowNamer) -> Times:
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            parsed = array.cast(kind)
        except pa.ArrowInvalid:
            continue
        return read_time_column(parsed, column, where)
    seconds = np.empty(len(array))
    for row, text in enumerate(array.to_pylist()):
        try:
            seconds[row] = parse_time(text)
        except DataError as error:
            raise DataError(f"{_name_column(column)}, {where(row)}: {error}") from None
    return seconds
