"""Times however they are written -> seconds since 1970."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import Float64Array, Int64Array
from csrr.data.columns import (
    SKIP_HINT,
    as_arrow_array,
    find_first_failure,
    is_text,
    name_column,
    read_number_column,
    reject_missing,
    show_cell,
)
from csrr.data.errors import DataError, RowNamer, name_table_row, show_value
from csrr.parameters import is_number

Times = Int64Array | Float64Array

FINER = 3e11
"""A number from here on is no second of the next nine thousand years, but a millisecond since 1979 or finer."""


def show_times(times: Times) -> list[str]:
    """Return times as people read them, to the second: 2024-01-31T10:00:03."""
    return [str(each) for each in times.astype(np.int64).astype("datetime64[s]")]


def show_moments(times: Times) -> list[str]:
    """Return times as dates where the last of them is later than 1973, and as the numbers that they are elsewhere."""
    return show_times(times) if times.max() > 1e8 else [f"{each:.12g}" for each in times]


def read_time_column(values: Any, column: str, where: RowNamer = name_table_row) -> Times:
    """Return times, shape (n,): seconds since 1970, int64 where they were written as integers, else float64.

    Numbers are seconds, milli-, micro- or nanoseconds, as their median tells, or all of them dates like 20001231. A
    date that names no time zone is in UTC.
    """
    array = as_arrow_array(values, column, where)
    reject_missing(array, column, where)
    return scale_to_seconds(_read_times(array, column, where))


def scale_to_seconds(times: Times) -> Times:
    """Return times in seconds, shape (n,), of times in seconds, milli-, micro- or nanoseconds, or like 20001231."""
    if len(times) == 0:
        return times
    first, last = times.min(), times.max()
    if first >= 1900_01_01 and last <= 2100_12_31:
        return _read_compact_dates(times)
    if last < FINER and first > -FINER:
        return times
    sizes = np.abs(times.astype(np.float64))
    factor = _find_factor(float(np.median(sizes[sizes > 0])))
    return times if factor == 1 else times / factor


def parse_time(at: float | str | date | np.datetime64) -> float:
    """Return a number, a date, datetime or ISO string (UTC by default) as seconds since 1970."""
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at.strip())
        except ValueError:
            raise DataError(
                f"{show_value(at)} is not a time: give a number, a datetime or text like 2000-12-31"
            ) from None
    if isinstance(at, np.datetime64):
        at = at.astype("datetime64[us]").item()  # None of what is no time
    if isinstance(at, date):
        stamp = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    if not is_number(at):
        raise DataError(f"{show_value(at)} is not a time: give a number, a datetime or text like 2000-12-31")
    return float(scale_to_seconds(np.array([float(at)]))[0])


def find_bad_times(array: pa.Array) -> pa.Array:
    """Return which texts, shape (n,), are no times; one that is missing is none."""
    encoded = array.dictionary_encode()
    bad = pa.array([_is_bad(text) for text in encoded.dictionary.to_pylist()], pa.bool_())
    return bad.take(encoded.indices).fill_null(True)


def _is_bad(text: str) -> bool:
    try:
        _parse_text_time(text)
    except DataError:
        return True
    return False


def _parse_text_time(text: str) -> float:
    """Return an ISO string, or a number, as seconds since 1970."""
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    return parse_time(number if np.isfinite(number) else text)


def _read_compact_dates(times: Times) -> Times:
    """Return numbers like 20001231, shape (n,), as seconds, and numbers that are no such dates as they are."""
    numbers = times.astype(np.int64)
    years, months, days = numbers // 10_000, numbers // 100 % 100, numbers % 100
    dates = (12 * (years - 1970) + months - 1).astype("datetime64[M]").astype("datetime64[D]") + (days - 1)
    back = dates.astype("datetime64[M]").astype(np.int64) == 12 * (years - 1970) + months - 1
    is_date = back & (days >= 1) & (months >= 1) & (months <= 12) & (numbers == times)
    return dates.astype(np.int64) * 86_400 if is_date.all() else times


def _find_factor(size: float) -> float:
    """Return how many of the units that a number of such a size counts make a second."""
    return next((factor for factor in (1.0, 1e3, 1e6, 1e9) if size < FINER * factor), 1.0)


def _read_times(array: pa.Array, column: str, where: RowNamer) -> Times:
    kind = array.type
    if pa.types.is_integer(kind):
        try:
            return np.asarray(array.cast(pa.int64()).to_numpy())
        except pa.ArrowException:
            row = find_first_failure(array, lambda part: part.cast(pa.int64()))
            raise DataError(
                f"{name_column(column)}, {where(row)}: {show_cell(array, row)} is not a time; correct it"
            ) from None
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _to_epoch_seconds(array)
    if is_text(kind):
        return _parse_text_times(pc.utf8_trim_whitespace(array), column, where)
    numbers = read_number_column(array, column, where)
    endless = np.flatnonzero(np.isinf(numbers))
    if endless.size:
        raise DataError(f"{name_column(column)}, {where(int(endless[0]))}: an infinite time; correct it, {SKIP_HINT}")
    return numbers


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
            array[:1].cast(kind)  # Arrow takes long to fail: it writes an error for every value
            parsed = array.cast(kind)
        except pa.ArrowInvalid:
            continue
        return _read_times(parsed, column, where)
    seconds = np.empty(len(array))
    for row, text in enumerate(array.to_pylist()):
        try:
            seconds[row] = _parse_text_time(text)
        except DataError as error:
            raise DataError(f"{name_column(column)}, {where(row)}: {error}; correct it, {SKIP_HINT}") from None
    return seconds
