"""Ids of any type -> integers or strings, and never a user who is nobody."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import Int64Array, ObjectArray
from csrr.data.columns import (
    SKIP_HINT,
    as_arrow_array,
    find_first_failure,
    is_text,
    name_column,
    reject_missing,
    show_cell,
    show_type,
)
from csrr.data.errors import DataError, RowNamer, name_table_row, show_value

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
