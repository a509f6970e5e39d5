"""One column at a time: anything array-like becomes a checked array, or an error naming column and row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import date, datetime, time
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import Float64Array
from csrr.data.errors import DataError, RowNamer, name_table_row, quote_error, show_value

SKIP_HINT = "or pass on_bad_rows='skip'"
NUMBER = r"^\s*[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?\s*$"
"""How a number is written in a text, with a point or a comma."""
_SPELT_WITH_COMMA = r"^\s*[+-]?[0-9]*,[0-9]+\s*$"
_MAYBE_THOUSANDS = r"^\s*[+-]?[0-9]{1,3},[0-9]{3}\s*$"


def read_number_column(values: Any, column: str, where: RowNamer = name_table_row) -> Float64Array:
    """Return numbers as float64, shape (n,), none of them missing. A decimal comma is one where none has a point."""
    array = as_arrow_array(values, column, where)
    reject_missing(array, column, where)
    try:
        numbers = _to_numbers(array)
    except pa.ArrowException:
        numbers = _to_numbers_with_comma(array, column, where)
    missing = np.flatnonzero(np.isnan(numbers))
    if missing.size:
        raise make_missing_error(column, where(int(missing[0])))
    return numbers


def _to_numbers_with_comma(array: pa.Array, column: str, where: RowNamer) -> Float64Array:
    """Return numbers such as 3,5 as float64, shape (n,)."""
    row = find_first_failure(array, _to_numbers)
    cell = f"{name_column(column)}, {where(row)}: {show_cell(array, row)}"
    if is_text(array.type) and pc.match_substring_regex(array[row : row + 1], _SPELT_WITH_COMMA)[0].as_py():
        with_comma = array.filter(pc.match_substring(array, ","))
        if pc.any(pc.match_substring(array, ".")).as_py():
            raise DataError(f"{cell} has a comma and other numbers a point; write all of them with a point")
        if pc.all(pc.match_substring_regex(with_comma, _MAYBE_THOUSANDS)).as_py():
            raise DataError(f"{cell} may be thousands or a fraction; write it with a point, or without the comma")
        return read_number_column(pc.replace_substring(array, ",", "."), column, where)
    raise DataError(f"{cell} is not a number; correct it, leave the column out, {SKIP_HINT}")


def find_bad_numbers(array: pa.Array) -> pa.Array:
    """Return which values, shape (n,), are missing or no finite numbers."""
    if is_text(array.type):
        return pc.invert(pc.match_substring_regex(array, NUMBER)).fill_null(True)
    if pa.types.is_floating(array.type):
        return pc.invert(pc.is_finite(array)).fill_null(True)
    return array.is_null()


def as_arrow_array(values: Any, column: str, where: RowNamer) -> pa.Array:
    """Return any column as one Arrow array, shape (n,); NaN in a column that is not Arrow's is null."""
    try:
        if isinstance(values, str | bytes):
            raise TypeError("text is one value")
        is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
        array = values if is_arrow else pa.array(_prepare(values), from_pandas=True)
    except (pa.ArrowException, OverflowError, ValueError, TypeError, RecursionError) as error:
        raise _make_unlike_error(values, column, where, error) from None
    try:
        if not isinstance(array, pa.ChunkedArray):
            return _flatten(array)
        return pa.concat_arrays([_flatten(chunk) for chunk in array.chunks or [pa.array([], array.type)]])
    except pa.ArrowException as error:
        raise DataError(
            f"{name_column(column)} of type {show_type(array.type)} cannot be read: {quote_error(error)}"
        ) from None


def join_dictionaries(parts: list[pa.DictionaryArray]) -> pa.DictionaryArray:
    """Return dictionaries of texts, one after the other, as one whose texts are distinct if theirs are."""
    joined = pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    return joined if isinstance(joined, pa.DictionaryArray) else joined.chunk(0)


def _prepare(values: Any) -> Any:
    """Return values that Arrow takes: UUIDs as text, times of numpy in one array and in a unit that it knows.

    Raises a TypeError where numpy's times stand among other values: pyarrow 26 crashes on [datetime64, int64].
    """
    if isinstance(values, list | tuple) or getattr(values, "dtype", None) == np.object_:
        kinds = set(map(type, values)) - {type(None), float}
        if kinds == {UUID}:
            return [str(value) if isinstance(value, UUID) else None for value in values]
        if kinds == {np.datetime64}:
            return np.array([value if isinstance(value, np.datetime64) else None for value in values], "datetime64[us]")
        if date in kinds and len(kinds) > 1 and all(issubclass(kind, date) for kind in kinds):
            # Arrow would make dates of all of them.
            return [datetime.combine(value, time()) if type(value) is date else value for value in values]
        if len(kinds) > 1 and kinds & {np.datetime64, np.timedelta64}:
            raise TypeError("times of numpy among other values")
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "M" and np.datetime_data(dtype)[0] in ("Y", "M", "W", "h", "m"):
        return values.astype("datetime64[s]")
    return values


def _flatten(array: pa.Array) -> pa.Array:
    """Return an array without what Arrow computes less with: dictionaries, runs, views and types of others."""
    if isinstance(array, pa.ExtensionArray):
        is_uuid = array.type.extension_name == "arrow.uuid"
        return _spell_uuids(array.storage) if is_uuid else _flatten(array.storage)
    if pa.types.is_dictionary(array.type):
        return _flatten(array.dictionary).take(array.indices)
    if pa.types.is_run_end_encoded(array.type):
        return _flatten(pc.run_end_decode(array))
    if pa.types.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _spell_uuids(array: pa.Array) -> pa.Array:
    """Return UUIDs, 16 bytes each, as text: 8-4-4-4-12 digits."""
    n = len(array)
    raw = np.frombuffer(b"".join(array.fill_null(bytes(16)).to_pylist()), np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    spelt = np.full((n, 36), ord("-"), np.uint8)
    places = [place for place in range(36) if place not in (8, 13, 18, 23)]
    spelt[:, places] = digits[np.column_stack((raw >> 4, raw & 15)).reshape(n, 32)]
    texts = pa.array(spelt.view("S36").reshape(n)).cast(pa.large_string())
    return pc.if_else(array.is_valid(), texts, None)


def _make_unlike_error(values: Any, column: str, where: RowNamer, error: Exception) -> DataError:
    """Return an error for a column that is no array, naming the first row whose type differs."""
    name = name_column(column)
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


def name_column(column: str) -> str:
    return f"column {show_value(column)}"


def show_type(kind: pa.DataType) -> str:
    """Return the name of an Arrow type, in at most 60 characters."""
    return show_value(str(kind)).strip("'")


def show_cell(array: pa.Array, row: int) -> str:
    """Return the value of a row in words; not every value of Arrow is one of Python's."""
    try:
        return show_value(array[row].as_py())
    except (pa.ArrowException, ValueError, ArithmeticError, TypeError, LookupError, NotImplementedError):
        return f"a value of type {show_type(array.type)}"


def _name_kind(cell: Any) -> str:
    names = {"int": "an integer", "str": "a string", "float": "a fractional number", "bool": "a bool"}
    return names.get(type(cell).__name__, f"a {type(cell).__name__}")


def make_missing_error(column: str, place: str) -> DataError:
    return DataError(f"{name_column(column)}, {place}: the value is missing; remove the row or fill it in, {SKIP_HINT}")


def reject_missing(array: pa.Array, column: str, where: RowNamer) -> None:
    if array.null_count:
        raise make_missing_error(column, where(pc.index(array.is_null(), True).as_py()))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def find_first_failure(array: pa.Array, convert: Callable[[pa.Array], object]) -> int:
    """Return the first row of `array` that `convert` cannot take, given that there is one."""

    def fails(n_rows: int) -> bool:
        try:
            convert(array[:n_rows])
        except pa.ArrowException:
            return True
        return False

    return bisect_left(range(1, len(array) + 1), True, key=fails)


def _to_numbers(array: pa.Array) -> Float64Array:
    if is_text(array.type):
        array = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
    elif not (is_number_type(array.type) or len(array) == 0):
        raise pa.ArrowInvalid("not numbers")
    # An integer beyond 2^53 is rounded: as an amount it is what it was.
    is_whole = pa.types.is_integer(array.type)
    return np.asarray(array.cast(pa.float64(), safe=not is_whole).to_numpy(zero_copy_only=False))


def is_number_type(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(bool(test(kind)) for test in tests)
