"""A column of any kind of table -> numbers, ids, or times in seconds since 1970."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import Float64Array, Int64Array, ObjectArray
from csrr._base.text import quote_error, show_argument, show_value
from csrr.data.errors import DataError, RowNamer, name_table_row
from csrr.parameters import is_number

NUMBER = r"^\s*[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?\s*$"
"""How a number is written in a text, with a point or a comma."""
_SPELT_WITH_COMMA = r"^\s*[+-]?[0-9]*,[0-9]+\s*$"
_MAYBE_THOUSANDS = r"^\s*[+-]?[0-9]{1,3},[0-9]{3}\s*$"


@dataclass(frozen=True)
class Column:
    """A column as it was read: its name, its values, shape (n,), and the function that names its rows in errors.

    `can_skip` says that bad rows can be skipped if the user asks for it, which errors then suggest.
    """

    name: str
    array: pa.Array
    where: RowNamer = name_table_row
    can_skip: bool = True

    @classmethod
    def read(cls, values: Any, name: str, where: RowNamer = name_table_row) -> Column:
        """Return any values as a column; NaN in values that are not Arrow's is null."""
        try:
            if isinstance(values, str | bytes):
                raise TypeError("text is one value")
            is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
            array = values if is_arrow else pa.array(_prepare(values), from_pandas=True)
        except (pa.ArrowException, OverflowError, ValueError, TypeError, RecursionError) as error:
            raise _make_unlike_error(values, name, where, error) from None
        try:
            if isinstance(array, pa.ChunkedArray):
                flat = pa.concat_arrays([_flatten(chunk) for chunk in array.chunks or [pa.array([], array.type)]])
            else:
                flat = _flatten(array)
        except pa.ArrowException as error:
            kind = show_type(array.type)
            raise DataError(f"{name_column(name)} of type {kind} cannot be read: {quote_error(error)}") from None
        return cls(name, flat, where)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def kind(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self.array.type

    @property
    def is_text(self) -> bool:
        """Whether the values are texts."""
        return is_text(self.kind)

    def make_error(self, row: int, what: str) -> DataError:
        """Return an error that names the column and the row; `what` says what is wrong there."""
        return DataError(f"{name_column(self.name)}, {self.where(row)}: {what}", column=self.name, row=row)

    def make_value_error(self, row: int, what: str) -> DataError:
        """Return an error about the value of a row; not every value of Arrow is one of Python's."""
        try:
            value = show_value(self.array[row].as_py())
        except (pa.ArrowException, ValueError, ArithmeticError, TypeError, LookupError, NotImplementedError):
            value = f"a value of type {show_type(self.kind)}"
        return self.make_error(row, f"{value} {what}")

    def make_type_error(self, what: str) -> DataError:
        """Return an error about the type of all values."""
        return DataError(f"{name_column(self.name)} holds {show_type(self.kind)} values{what}", column=self.name)

    def make_missing_error(self, row: int) -> DataError:
        """Return an error about a missing value."""
        way_out = f"remove the row or fill it in, {hint_skip()}" if self.can_skip else "leave it out"
        return self.make_error(row, f"the value is missing; {way_out}")

    def reject_missing(self) -> None:
        """Raise DataError for the first missing value, if there is one."""
        if self.array.null_count:
            raise self.make_missing_error(pc.index(self.array.is_null(), True).as_py())

    def cast(self, kind: pa.DataType, what: str) -> pa.Array:
        """Return the values cast to a type; a DataError with `what` names the first that cannot be."""
        try:
            return self.array.cast(kind)
        except pa.ArrowException:
            row = find_first_failure(self.array, lambda part: part.cast(kind))
            raise self.make_value_error(row, what) from None


def read_numbers(column: Column) -> Float64Array:
    """Return numbers as float64, shape (n,), none missing. A comma is a decimal comma if no number has a point."""
    column.reject_missing()
    try:
        numbers = _to_numbers(column.array)
    except pa.ArrowException:
        return _read_numbers_with_comma(column)
    missing = np.flatnonzero(np.isnan(numbers))
    if missing.size:
        raise column.make_missing_error(int(missing[0]))
    return numbers


def _read_numbers_with_comma(column: Column) -> Float64Array:
    """Return numbers such as 3,5 as float64, shape (n,)."""
    array, row = column.array, find_first_failure(column.array, _to_numbers)
    what = f"is not a number; correct it, leave the column out, {hint_skip()}"
    if column.is_text and pc.match_substring_regex(array[row : row + 1], _SPELT_WITH_COMMA)[0].as_py():
        with_comma = array.filter(pc.match_substring(array, ","))
        if pc.any(pc.match_substring(array, ".")).as_py():
            what = "has a comma and other numbers a point; write all of them with a point"
        elif pc.all(pc.match_substring_regex(with_comma, _MAYBE_THOUSANDS)).as_py():
            what = "may be thousands or a fraction; write it with a point, or without the comma"
        else:
            return read_numbers(replace(column, array=pc.replace_substring(array, ",", ".")))
    raise column.make_value_error(row, what)


def find_bad_numbers(array: pa.Array) -> pa.Array:
    """Return which values, shape (n,), are missing or no finite numbers."""
    if is_text(array.type):
        return pc.invert(pc.match_substring_regex(array, NUMBER)).fill_null(True)
    if pa.types.is_floating(array.type):
        return pc.invert(pc.is_finite(array)).fill_null(True)
    return array.is_null()


def join_dictionaries(parts: list[pa.DictionaryArray]) -> pa.DictionaryArray:
    """Return dictionaries of texts, one after the other, as one whose texts are distinct if theirs are."""
    joined = pa.chunked_array(parts).unify_dictionaries().combine_chunks()
    return joined if isinstance(joined, pa.DictionaryArray) else joined.chunk(0)


def _prepare(values: Any) -> Any:
    """Return values that Arrow takes: UUIDs as text, times of numpy in one array and in a unit that it knows.

    Raises a TypeError where numpy's times stand among other values: pyarrow 26 crashes on [datetime64, int64].
    """
    dtype = getattr(values, "dtype", None)
    if isinstance(values, list | tuple) or dtype == np.object_:
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
    if isinstance(dtype, np.dtype) and dtype.kind == "M" and np.datetime_data(dtype)[0] in ("Y", "M", "W", "h", "m"):
        return values.astype("datetime64[s]")
    return values


def _flatten(array: pa.Array) -> pa.Array:
    """Return an array without dictionaries, runs, views and extension types, which Arrow computes less with."""
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
    digits = b"".join(array.fill_null(bytes(16)).to_pylist()).hex().encode()
    texts = pa.array(np.frombuffer(digits, "S32")).cast(pa.large_string())
    texts = pc.replace_substring_regex(texts, "^(.{8})(.{4})(.{4})(.{4})", r"\1-\2-\3-\4-")
    return pc.if_else(array.is_valid(), texts, None)


def _make_unlike_error(values: Any, column: str, where: RowNamer, error: Exception) -> DataError:
    """Return an error for a column that is no array, naming the first row whose type differs."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        return DataError(f"{name_column(column)} is the single value {show_value(values)}, not a list of values")
    first = None
    for row, cell in enumerate(list(values)):
        if cell is None or (isinstance(cell, float) and cell != cell):
            continue
        first = cell if first is None else first
        if type(cell) is not type(first):
            what = (
                f"is {_name_kind(cell)}, but the values before it are like {show_value(first)}, {_name_kind(first)};"
                " make the column one type"
            )
        elif isinstance(cell, int) and not -(2**63) <= cell < 2**63:
            what = "does not fit in 64 bits; pass it as text"
        elif isinstance(cell, str) and any("\ud800" <= each <= "\udfff" for each in cell):
            what = "holds half a character; correct it"
        else:
            continue
        return Column(column, pa.nulls(0), where).make_error(row, f"{show_value(cell)} {what}")
    return DataError(f"{name_column(column)} cannot be read: {quote_error(error)}", column=column)


def name_column(column: str) -> str:
    return f"column {show_value(column)}"


def show_type(kind: pa.DataType) -> str:
    """Return the name of an Arrow type, in at most 60 characters."""
    return show_value(str(kind)).strip("'")


def _name_kind(cell: Any) -> str:
    names = {"int": "an integer", "str": "a string", "float": "a fractional number", "bool": "a bool"}
    return names.get(type(cell).__name__, f"a {type(cell).__name__}")


def hint_skip() -> str:
    """Return how bad rows can be left out."""
    return f"or pass {show_argument('on_bad_rows', 'skip')}"


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
    # An integer beyond 2^53 is rounded, which does not matter for an amount.
    is_whole = pa.types.is_integer(array.type)
    return np.asarray(array.cast(pa.float64(), safe=not is_whole).to_numpy(zero_copy_only=False))


def is_number_type(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    return any(bool(test(kind)) for test in tests)


MISSING = (
    *("NULL", "null", "None", "NaN", "nan", "-NaN", "-nan", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA"),
    *("NaT", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""The texts that mean a missing value in a text file: those of pandas, and NaT."""
INTEGER = r"^(0|-?[1-9][0-9]{0,18})(\.0*)?$"
"""An integer as it is usually written, or as pandas writes it in a column with missing values: 7.0."""
ROUNDED = r"^[0-9](\.[0-9]+)?[eE]\+[0-9]{2}$"
"""A large integer as spreadsheets write it, its last digits lost."""
EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}
"""Up to here, floats tell all integers apart."""


def read_ids(column: Column) -> pa.Array:
    """Return ids as an Arrow array of int64 or large_string, shape (n,).

    Integers of any width, whole floats and whole decimals become int64. Strings stay exactly as they are, bytes are
    taken for UTF-8, and UUIDs become text.
    """
    column.reject_missing()
    kind = column.kind
    if column.is_text:
        return column.array.cast(pa.large_string())
    if pa.types.is_floating(kind):
        large = np.abs(column.array.to_numpy(zero_copy_only=False)) > EXACT[kind]
        if large.any():
            what = f"is a float, which tells integers apart up to {EXACT[kind]:,} only; read the column as integers"
            raise column.make_value_error(int(np.argmax(large)), f"{what} or text")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.int64(), "is not a 64-bit integer; use integers or strings")
    if pa.types.is_fixed_size_binary(kind):
        column = replace(column, array=column.array.cast(pa.large_binary()))
    if pa.types.is_binary(column.kind) or pa.types.is_large_binary(column.kind):
        return column.cast(pa.large_string(), "is not text in UTF-8; use integers or strings")
    if len(column) == 0:
        return pa.array([], pa.int64())
    raise column.make_value_error(0, f"is of type {show_type(kind)}; ids are integers or strings")


def read_text_ids(
    column: Column, missing: Collection[str] = MISSING, note: Callable[[str], object] = lambda _: None
) -> pa.Array:
    """Return ids written in a text, shape (n,), without blanks around them: integers if all are such, else text.

    "7", "-3" and "7.0" are integers; "007" and "+7" are not. An empty id is missing, and so are those in `missing`.
    `note` is called with remarks on the ids. The array is a dictionary of int64 or large_string.
    """
    # Texts repeat: it is enough to look at the distinct ones.
    encoded = column.array
    if not isinstance(encoded, pa.DictionaryArray):
        encoded = read_ids(column).dictionary_encode()
    written, indices = encoded.dictionary, encoded.indices
    texts = pc.utf8_trim_whitespace(written)
    absent = find_missing(texts, missing)
    if pc.any(absent).as_py():
        row = pc.index(absent.take(indices), True).as_py()
        raise _make_missing_id_error(column, row, written[indices[row].as_py()].as_py())
    n_merged = 0 if texts.equals(written) else len(texts) - pc.count_distinct(texts).as_py()
    if n_merged:
        example = show_value(written.filter(pc.not_equal(written, texts))[0].as_py())
        note(
            f"{name_column(column.name)}: {n_merged:,} of the ids differ from another by blanks around them only, such"
            f" as {example}; they are one id, without the blanks"
        )
    ids = _parse_integers(texts)
    if ids is texts and (rounded := texts.filter(pc.match_substring_regex(texts, ROUNDED))):
        note(
            f"{name_column(column.name)}: ids such as {show_value(rounded[0].as_py())} look like large integers that"
            " were rounded when they were written; write the column as text"
        )
    if pc.count_distinct(ids).as_py() < len(ids):
        return ids.take(indices).dictionary_encode()
    return pa.DictionaryArray.from_arrays(indices, ids)


def find_missing(texts: pa.Array, missing: Collection[str]) -> pa.Array:
    """Return which texts, shape (n,), mean a missing value."""
    return pc.is_in(texts, value_set=pa.array(["", *missing], texts.type))


def describe_doubtful_ids(user_ids: Int64Array | ObjectArray, item_ids: Int64Array | ObjectArray) -> list[str]:
    """Return remarks on ids, sorted, of shape (n,), that look like missing values made into text."""
    notes = []
    for role, ids in (("user", user_ids), ("item", item_ids)):
        if ids.dtype != np.object_ or len(ids) == 0:
            continue
        places = np.minimum(np.searchsorted(ids, np.array(("", *MISSING), object)), len(ids) - 1)
        if found := [name for name, place in zip(("", *MISSING), places.tolist(), strict=True) if ids[place] == name]:
            names = " and ".join(map(repr, found))
            notes.append(
                f"{names} among the ids of the {role}s: if missing values were made into text, drop these rows"
            )
    return notes


def _make_missing_id_error(column: Column, row: int, text: str) -> DataError:
    if not text.strip():
        return column.make_missing_error(row)
    what = f"{show_value(text)} means that the id is missing; remove the row, {hint_skip()}; if it is a real id, pass"
    return column.make_error(row, f"{what} {show_argument('missing', [])}")


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


def find_bad_ids(array: pa.Array, missing: Collection[str] | None) -> pa.Array:
    """Return which ids, shape (n,), are missing or invalid; `missing` are texts that mean a missing id, if given."""
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


def format_times(times: Times) -> list[str]:
    """Return times as people read them, to the second: 2024-01-31T10:00:03."""
    return [str(each) for each in times.astype(np.int64).astype("datetime64[s]")]


def format_cuts(times: Times) -> list[str]:
    """Return times as dates where the last of them is later than 1973, and as the numbers that they are elsewhere."""
    return format_times(times) if times.max() > 1e8 else [f"{each:.12g}" for each in times]


def read_times(column: Column) -> Times:
    """Return times, shape (n,): seconds since 1970, int64 where they were written as integers, else float64.

    Numbers are seconds, milli-, micro- or nanoseconds, as their median tells, or all of them dates like 20001231. A
    date that names no time zone is in UTC.
    """
    column.reject_missing()
    return scale_to_seconds(_read_unscaled_times(column))


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
    size = float(np.median(sizes[sizes > 0]))
    factor = next((factor for factor in (1.0, 1e3, 1e6, 1e9) if size < FINER * factor), 1.0)
    return times if factor == 1 else times / factor


def parse_time(at: float | str | date | np.datetime64) -> float:
    """Return a number, a date, datetime or ISO string (UTC by default) as seconds since 1970."""
    given = at
    if isinstance(at, str):
        with suppress(ValueError):
            at = datetime.fromisoformat(at.strip())
    if isinstance(at, np.datetime64):
        at = at.astype("datetime64[us]").item()  # None for "not a time"
    if isinstance(at, date):
        stamp = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
        return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
    if not is_number(at):
        raise DataError(f"{show_value(given)} is not a time: give a number, a datetime or text like 2000-12-31")
    return float(scale_to_seconds(np.array([float(at)]))[0])


def find_bad_times(array: pa.Array) -> pa.Array:
    """Return which values, shape (n,), are missing or not times."""
    if not is_text(array.type):
        is_stamp = pa.types.is_timestamp(array.type) or pa.types.is_date(array.type)
        return array.is_null() if is_stamp else find_bad_numbers(array)
    encoded = array.dictionary_encode()
    bad = pa.array([_parse_text_time(text) is None for text in encoded.dictionary.to_pylist()], pa.bool_())
    return bad.take(encoded.indices).fill_null(True)


def _parse_text_time(text: str) -> float | None:
    """Return an ISO string, or a number, as seconds since 1970; None for what is neither."""
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    try:
        return parse_time(number if np.isfinite(number) else text)
    except DataError:
        return None


def _read_compact_dates(times: Times) -> Times:
    """Return numbers like 20001231, shape (n,), as seconds; where one is not such a date, return all unchanged."""
    numbers = times.astype(np.int64)
    years, months, days = numbers // 10_000, numbers // 100 % 100, numbers % 100
    dates = (12 * (years - 1970) + months - 1).astype("datetime64[M]").astype("datetime64[D]") + (days - 1)
    back = dates.astype("datetime64[M]").astype(np.int64) == 12 * (years - 1970) + months - 1
    is_date = back & (days >= 1) & (months >= 1) & (months <= 12) & (numbers == times)
    return dates.astype(np.int64) * 86_400 if is_date.all() else times


def _read_unscaled_times(column: Column) -> Times:
    """Return times as numbers, shape (n,), in the unit in which they were written."""
    kind = column.kind
    if pa.types.is_integer(kind):
        return np.asarray(column.cast(pa.int64(), "is not a time; correct it").to_numpy())
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _to_epoch_seconds(column.array)
    if column.is_text:
        return _parse_text_times(replace(column, array=pc.utf8_trim_whitespace(column.array)))
    numbers = read_numbers(column)
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise column.make_error(int(infinite[0]), f"an infinite time; correct it, {hint_skip()}")
    return numbers


def _to_epoch_seconds(array: pa.Array) -> Float64Array:
    kind = array.type
    if pa.types.is_date32(kind):
        return np.asarray(array.cast(pa.int32()).to_numpy()) * 86400.0
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    ticks = np.asarray(array.cast(pa.int64()).to_numpy())
    if unit == "ns":  # nanoseconds since 1970 do not fit into a float
        ticks, unit = ticks // 1000, "us"
    return ticks / {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]


def _parse_text_times(column: Column) -> Times:
    array = column.array
    for kind in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            array[:1].cast(kind)  # Arrow takes long to fail: it writes an error for every value
            parsed = array.cast(kind)
        except pa.ArrowInvalid:
            continue
        return _read_unscaled_times(replace(column, array=parsed))
    seconds = np.empty(len(array))
    for row, text in enumerate(array.to_pylist()):
        if (second := _parse_text_time(text)) is None:
            what = "is not a time: give a number, a datetime or text like 2000-12-31"
            raise column.make_value_error(row, f"{what}; correct it, {hint_skip()}")
        seconds[row] = second
    return seconds


class Merged(NamedTuple):
    """The rows of each distinct key, in the order of keys: `first`, one of them, `last`, the latest; all (n_distinct,).

    `weights` are summed, `times` the latest. Of rows with the same time, the last one is the latest.
    """

    first: Int64Array
    last: Int64Array
    weights: Float64Array | None
    times: Times | None


def merge_by_key(keys: Int64Array, weights: Float64Array | None, times: Times | None) -> Merged:
    """Return the rows merged by key; inputs have shape (n,), keys are not negative."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if weights is not None and len(starts) < len(keys):
        # A sum of floats depends on their order: sorting makes it the same for any order of the rows.
        order = np.lexsort((weights, keys))
    sums = None if weights is None else np.add.reduceat(weights[order], starts)
    latest = None if times is None else np.maximum.reduceat(times[order], starts)
    first = last = order[starts]
    if len(starts) < len(keys):
        if times is not None and latest is not None:
            order = np.where(times[order] == np.repeat(latest, np.diff(starts, append=len(keys))), order, -1)
        last = np.maximum.reduceat(order, starts)
    return Merged(first, last, sums, latest)


def pick_rows(values: Any, mask: Any) -> Any:
    """Return the rows where `mask`, shape (n,), is true, of an array, of types of events, or of None."""
    if isinstance(values, pa.Array):
        return values.filter(pa.array(mask))
    return None if values is None else values.select(mask) if hasattr(values, "select") else values[mask]
