"""One column of an item table: numbers, flags, dates or categories, found out from its values."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from csrr.arrays import AnyArray, BoolArray, Float64Array, ObjectArray, Rows
from csrr.data.columns import as_arrow_array, show_type
from csrr.data.errors import DataError, RowNamer, name_table_row, quote_error, show_value

CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"

Kind = Literal["number", "whole", "flag", "date", "category", "categories"]
KINDS: tuple[Kind, ...] = ("number", "whole", "flag", "date", "category", "categories")
"""Numbers, whole numbers, true or false, times; one text for an item, several texts for an item."""

NO_DATE = np.datetime64("NaT", "s")
FARTHEST = 3e11
"""Seconds from 1970 to a date, some ten thousand years at most."""
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.]+Z?)?$"


class Categories(NamedTuple):
    """The categories of n items: distinct `names`, sorted, and who has which, `members`, csr of shape (n, n_names)."""

    names: ObjectArray
    members: Any

    @classmethod
    def collect(cls, rows: Rows, texts: pa.Array, n: int) -> Categories:
        """Return the categories of pairs of an item row and a text, shapes (m,)."""
        encoded = texts.cast(pa.large_string()).dictionary_encode()
        order = pc.array_sort_indices(encoded.dictionary).to_numpy()
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        columns = place[encoded.indices.to_numpy()] if len(texts) else np.empty(0, np.int32)
        members = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(n, len(order)))
        members.sum_duplicates()
        members.data[:] = 1
        names = np.array(encoded.dictionary.take(pa.array(order)).to_pylist(), np.object_)
        return cls(names, members)

    def take(self, rows: Rows) -> Categories:
        """Return those of some items, none for row -1; names that nobody has any more are dropped."""
        there = np.flatnonzero(rows >= 0)
        chosen = self.members[rows[there]].tocoo()
        used, columns = np.unique(chosen.col, return_inverse=True)
        ones = np.ones(len(columns), np.float32)
        members = sparse.csr_array((ones, (there[chosen.row], columns)), shape=(len(rows), len(used)))
        return Categories(self.names[used], members)


class ItemColumn(NamedTuple):
    """A column: its kind, and an array of shape (n,) or, for texts, their categories."""

    kind: Kind
    values: Any

    @property
    def is_text(self) -> bool:
        """Whether it holds categories."""
        return self.kind in ("category", "categories")

    @property
    def n_bytes(self) -> int:
        """How much memory it takes, about."""
        if not self.is_text:
            return int(self.values.nbytes)
        names, members = self.values
        return int(sum(map(len, names)) + 60 * len(names) + 8 * members.nnz + members.indptr.nbytes)

    def take(self, rows: Rows) -> ItemColumn:
        """Return the values of some items, missing for row -1."""
        if self.is_text:
            return ItemColumn(self.kind, self.values.take(rows))
        missing = rows < 0
        if not missing.any():
            return ItemColumn(self.kind, self.values[rows])
        if self.kind == "date":
            return ItemColumn("date", np.where(missing, NO_DATE, self.values[rows]))
        return ItemColumn("number", np.where(missing, np.nan, self.values[rows].astype(np.float64)))

    def show(self, rows: Rows) -> AnyArray:
        """Return the values of some items for people, None where missing; several texts of one with | between them."""
        if self.is_text:
            names, members = self.values
            chosen = members[rows]
            found = np.full(len(rows), None, np.object_)
            for place, (first, end) in enumerate(zip(chosen.indptr[:-1], chosen.indptr[1:], strict=True)):
                if end > first:
                    found[place] = "|".join(names[chosen.indices[first:end]])
            return found
        values = self.values[rows]
        if self.kind == "date":
            texts: ObjectArray = np.datetime_as_string(values, unit=_find_unit(self.values)).astype(np.object_)
            texts[np.isnat(values)] = None
            return texts
        missing = np.isnan(values) if self.kind == "number" else np.zeros(len(rows), np.bool_)
        if not missing.any():
            return np.asarray(values)
        shown: ObjectArray = values.astype(np.object_)
        shown[missing] = None
        return shown

    def to_categories(self) -> Categories | None:
        """Return the categories that the values are, of whole numbers and flags too; None for other columns."""
        if self.is_text:
            found: Categories = self.values
            return found
        if self.kind in ("whole", "flag"):
            return Categories.collect(
                np.arange(len(self.values)), pa.array(self.values.astype(str).tolist()), len(self.values)
            )
        return None

    def to_numbers(self) -> Float64Array:
        """Return numbers, flags or dates (seconds since 1970) as float64, shape (n,), NaN where missing."""
        if self.kind == "date":
            seconds: Float64Array = self.values.astype(np.int64).astype(np.float64)
            return np.where(np.isnat(self.values), np.nan, seconds)
        found: Float64Array = self.values.astype(np.float64)
        return found


def read_item_column(
    values: Any, name: str, where: RowNamer = name_table_row, *, is_text: bool = False, separator: str | None = "|"
) -> ItemColumn:
    """Return a column; with `is_text` it was read from a text, and what looks like numbers or dates becomes such.

    Texts that hold the `separator`, and lists of texts, are several categories of one item.
    """
    array = as_arrow_array(values, name, where)
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = pc.utf8_trim_whitespace(array.cast(pa.large_string()))
        texts = pc.if_else(pc.equal(texts, ""), None, texts)
        return (_guess(texts) if is_text else None) or _read_texts(texts, separator)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _read_lists(array, name)
    if pa.types.is_null(kind):
        return _read_texts(array.cast(pa.large_string()), None)
    try:
        return _check_dates(_read_plain(array), name, where)
    except pa.ArrowException as error:
        raise DataError(
            f"column {show_value(name)} holds {show_type(kind)} values ({quote_error(error)}); an item table has"
            " numbers,"
            " texts, dates, true or false, and lists of texts: choose others with columns=[...]"
        ) from None


def _read_plain(array: pa.Array) -> ItemColumn:
    kind = array.type
    if pa.types.is_boolean(kind) and not array.null_count:
        return ItemColumn("flag", np.array(array.to_numpy(zero_copy_only=False)))
    if pa.types.is_signed_integer(kind) and not array.null_count:
        return ItemColumn("whole", np.array(array.cast(pa.int64()).to_numpy()))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return ItemColumn("date", _to_seconds(array))
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or array.null_count):
        raise pa.ArrowInvalid("no numbers")
    return ItemColumn("number", np.array(array.cast(pa.float64()).to_numpy(zero_copy_only=False)))


def find_far_dates(dates: AnyArray) -> BoolArray:
    """Return which dates are too far from 1970 to be any, shape (n,)."""
    return ~np.isnat(dates) & (np.abs(dates.astype(np.int64).astype(np.float64)) > FARTHEST)


def _check_dates(column: ItemColumn, name: str, where: RowNamer) -> ItemColumn:
    if column.kind == "date" and (far := find_far_dates(column.values)).any():
        raise DataError(
            f"column {show_value(name)}, {where(int(far.argmax()))}: the date is ten thousand years away; correct it,"
            " or choose other columns with columns=[...]"
        )
    return column


def _to_seconds(array: pa.Array) -> AnyArray:
    ticks = array.cast(pa.timestamp("s", getattr(array.type, "tz", None)), safe=False).cast(pa.int64())
    seconds = ticks.fill_null(0).to_numpy().astype("datetime64[s]")
    return np.where(_find_nulls(array), NO_DATE, seconds)


def _guess(texts: pa.Array) -> ItemColumn | None:
    """Return texts as numbers, flags or dates where every one that is there is such; else None."""
    known = texts.drop_null()
    if len(known) == 0:
        return None
    distinct = pc.unique(known)

    def all_match(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(distinct, pattern)).as_py())

    try:
        if all_match(CANONICAL_INTEGER):
            return _read_plain(texts.cast(pa.int64()))
        if all_match(_NUMBER):
            return _read_plain(texts.cast(pa.float64()))
        if all_match("^(?i:true|false)$"):
            return _read_plain(pc.utf8_lower(texts).cast(pa.bool_()))
        if all_match(_DATE):
            plain = pc.replace_substring_regex(texts, "Z$", "")
            return ItemColumn("date", _to_seconds(plain.cast(pa.timestamp("us"))))
    except pa.ArrowException:
        return None
    return None


def _read_texts(texts: pa.Array, separator: str | None) -> ItemColumn:
    n, rows = len(texts), np.flatnonzero(~_find_nulls(texts))
    known = texts.drop_null()
    if separator is None or not pc.any(pc.match_substring(known, separator)).as_py():
        return ItemColumn("category", Categories.collect(rows, known, n))
    lists = pc.split_pattern(known, separator)
    rows = np.repeat(rows, pc.list_value_length(lists).to_numpy(zero_copy_only=False).astype(np.int64))
    return _collect_many(rows, lists.flatten(), n)


def _read_lists(array: pa.Array, name: str) -> ItemColumn:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    try:
        flat = pc.list_flatten(array).cast(pa.large_string())
    except pa.ArrowException:
        raise DataError(
            f"column {show_value(name)} holds {show_type(array.type)} values; lists are of texts: choose other columns"
            " with columns=[...]"
        ) from None
    return _collect_many(np.repeat(np.arange(len(array)), lengths), flat, len(array))


def _collect_many(rows: Rows, texts: pa.Array, n: int) -> ItemColumn:
    texts = pc.utf8_trim_whitespace(texts)
    known = ~_find_nulls(texts) & pc.not_equal(texts, "").fill_null(False).to_numpy(zero_copy_only=False)
    return ItemColumn("categories", Categories.collect(rows[known], texts.filter(pa.array(known)), n))


def _find_nulls(array: pa.Array) -> BoolArray:
    nulls: BoolArray = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _find_unit(dates: AnyArray) -> Literal["D", "s"]:
    known = dates[~np.isnat(dates)].astype(np.int64)
    return "D" if bool((known % 86400 == 0).all()) else "s"
