"""Times however they are written -> seconds since 1970."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import Float64Array, Int64Array, ObjectArray
from csrr.data.errors import DataError, RowNamer, name_table_row, quote_error, show_value
from csrr.parameters import is_number

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


MISSING = (
    *("NULL", "null", "None", "NaN", "nan", "-NaN", "-nan", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA"),
    *("NaT", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""What a text file may hold in the place of a value that is missing: what pandas takes for that, and NaT."""
INTEGER = r"^(0|-?[1-9][0-9]{0,18})(\.0*)?$"
"""An integer as it is plainly written, or as pandas writes it in a column with missing values: 7.0."""


ROUNDED = r"^[0-9](\.[0-9]+)?[eE]\+[0-9]{2}$"
"""A large integer as spreadsheets write it, its last digits lost."""
EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}
"""Up to here, floats tell all integers apart."""


def read_id_column(values: Any, column: str, where: RowNamer = name_table_row) -> pa.Array:
    """Return ids as an Arrow array of int64 or large_string, shape (n,).

    Integers of any width, whole floats and whole decimals become int64. Strings stay exactly as they are, bytes are
    taken for UTF-8, and UUIDs become text.
    """
    array = as_arrow_array(values, column, where)
    reject_missing(array, column, where)
    kind = array.type
    if is_text(kind):
        return array.cast(pa.large_string())
    if pa.types.is_floating(kind):
        _reject_rounded(array, column, where)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _cast(array, pa.int64(), "a 64-bit integer", column, where)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _cast(array, pa.large_string(), "text in UTF-8", column, where)
    if len(array) == 0:
        return pa.array([], pa.int64())
    raise DataError(
        f"{name_column(column)}, {where(0)}: {show_cell(array, 0)} is of type {show_type(kind)};"
        " ids are integers or strings"
    )


def read_text_id_column(
    values: Any,
    column: str,
    where: RowNamer = name_table_row,
    missing: Collection[str] = MISSING,
    note: Callable[[str], object] = lambda _: None,
) -> pa.Array:
    """Return ids written in a text, shape (n,), without blanks around them: integers if all are such, else text.

    "7", "-3" and "7.0" are integers; "007" and "+7" are not. An empty id is missing, and so are those in `missing`.
    `note` is told where ids were the same but for blanks. The array is a dictionary of int64 or large_string.
    """
    # Texts repeat: what is told of each is told of the distinct ones.
    is_encoded = isinstance(values, pa.DictionaryArray) and values.null_count == 0 and is_text(values.dictionary.type)
    encoded = values if is_encoded else read_id_column(values, column, where).dictionary_encode()
    written, indices = encoded.dictionary, encoded.indices
    texts = pc.utf8_trim_whitespace(written)
    absent = find_missing(texts, missing)
    if pc.any(absent).as_py():
        row = pc.index(absent.take(indices), True).as_py()
        raise _make_missing_id_error(written[indices[row].as_py()].as_py(), column, where(row))
    _note_merged(written, texts, column, note)
    ids = _parse_integers(texts)
    if ids is texts and (rounded := texts.filter(pc.match_substring_regex(texts, ROUNDED))):
        note(
            f"{name_column(column)}: ids such as {show_value(rounded[0].as_py())} look like large integers that were"
            " rounded when they were written; write the column as text"
        )
    if pc.count_distinct(ids).as_py() < len(ids):
        return ids.take(indices).dictionary_encode()
    return pa.DictionaryArray.from_arrays(indices, ids)


def find_missing(texts: pa.Array, missing: Collection[str]) -> pa.Array:
    """Return which texts, shape (n,), stand for no value."""
    return pc.is_in(texts, value_set=pa.array(["", *missing], texts.type))


def describe_doubtful_ids(user_ids: Int64Array | ObjectArray, item_ids: Int64Array | ObjectArray) -> list[str]:
    """Return what is to be said of ids, sorted, of shape (n,), that look like missing values made into text."""
    found = {"user": _list_missing_like(user_ids), "item": _list_missing_like(item_ids)}
    return [
        f"{' and '.join(map(repr, ids))} among the ids of the {role}s: if missing values were made into text,"
        " drop these rows"
        for role, ids in found.items()
        if ids
    ]


def _list_missing_like(ids: Int64Array | ObjectArray) -> list[str]:
    if ids.dtype != np.object_ or len(ids) == 0:
        return []
    asked = ("", *MISSING)
    places = np.minimum(np.searchsorted(ids, np.array(asked, object)), len(ids) - 1)
    return [name for name, place in zip(asked, places.tolist(), strict=True) if ids[place] == name]


def _make_missing_id_error(text: str, column: str, place: str) -> DataError:
    if text.strip():
        return DataError(
            f"{name_column(column)}, {place}: {show_value(text)} means that the id is missing; remove the row,"
            f" {SKIP_HINT}; if it is a real id, pass missing=[]"
        )
    return DataError(f"{name_column(column)}, {place}: the value is missing; remove the row or fill it in, {SKIP_HINT}")


def _reject_rounded(array: pa.Array, column: str, where: RowNamer) -> None:
    most = EXACT[array.type]
    large = np.abs(array.to_numpy(zero_copy_only=False)) > most
    if large.any():
        row = int(np.argmax(large))
        raise DataError(
            f"{name_column(column)}, {where(row)}: {show_cell(array, row)} is a float, which tells integers apart up to"
            f" {most:,} only; read the column as integers or text"
        )


def _note_merged(written: pa.Array, texts: pa.Array, column: str, note: Callable[[str], object]) -> None:
    n_merged = len(texts) - pc.count_distinct(texts).as_py() if not texts.equals(written) else 0
    if n_merged:
        some = written.filter(pc.not_equal(written, texts))[0].as_py()
        note(
            f"{name_column(column)}: {n_merged:,} of the ids differ from another by blanks around them only, such as"
            f" {show_value(some)}; they are one id, without the blanks"
        )


def _parse_integers(texts: pa.Array) -> pa.Array:
    """Return texts as int64, shape (n,), where all of them are integers, and as they are otherwise."""
    if not pc.all(pc.match_substring_regex(texts, INTEGER)).as_py():
        return texts
    if pc.any(pc.match_substring(texts, ".")).as_py():
        texts = pc.replace_substring_regex(texts, r"\..*$", "")
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return texts


def _cast(array: pa.Array, kind: pa.DataType, what: str, column: str, where: RowNamer) -> pa.Array:
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    try:
        return array.cast(kind)
    except pa.ArrowException:
        row = find_first_failure(array, lambda part: part.cast(kind))
        raise DataError(
            f"{name_column(column)}, {where(row)}: {show_cell(array, row)} is not {what}; use integers or strings"
        ) from None


def find_bad_ids(array: pa.Array, missing: Collection[str] | None) -> pa.Array:
    """Return which ids, shape (n,), are missing or no ids; texts in `missing` are missing, where it is given."""
    kind = array.type
    if is_text(kind) and missing is not None:
        return find_missing(pc.utf8_trim_whitespace(array), missing).fill_null(True)
    if pa.types.is_floating(kind):
        numbers = array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return pa.array(~(np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) < 2**63)))
    return array.is_null()


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
