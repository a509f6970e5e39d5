"""Conditions on a column of an item table: which items meet them."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np

from csrr.arrays import BoolArray, ObjectArray
from csrr.data.errors import DataError, list_names, show_value
from csrr.data.item_columns import ItemColumn
from csrr.data.times import parse_time


def match_column(column: ItemColumn, name: str, wanted: Any) -> BoolArray:
    """Return which items meet a condition, shape (n,): a value, a list of values, or a pair (least, most)."""
    if isinstance(wanted, tuple):
        return _match_range(column, name, wanted)
    several = list(wanted) if isinstance(wanted, list | set | frozenset | np.ndarray) else [wanted]
    if not several:
        raise DataError(f"where: {show_value(name)} is given no values; name at least one")
    if column.is_text:
        places = [find_category(column, name, each) for each in several]
        found: BoolArray = np.asarray(column.values.members[:, places].sum(axis=1)).ravel() > 0
        return found
    met = np.zeros(len(column.values), np.bool_)
    for each in several:
        met |= column.to_numbers() == _read_bound(column, name, each)
    return met


def _match_range(column: ItemColumn, name: str, wanted: tuple[Any, ...]) -> BoolArray:
    if len(wanted) != 2 or column.is_text:
        what = "categories: give one, or a list of them" if column.is_text else "a range is a pair, (least, most)"
        raise DataError(f"where: {show_value(name)}={show_value(wanted)}; {what}")
    numbers = column.to_numbers()
    met: BoolArray = ~np.isnan(numbers)
    least, most = (None if each is None else _read_bound(column, name, each) for each in wanted)
    if least is not None:
        met &= numbers >= least
    if most is not None:
        met &= numbers <= most
    return met


def _read_bound(column: ItemColumn, name: str, value: Any) -> float:
    """Return a number, a flag or a date, in the unit of the column."""
    if column.kind == "date":
        return parse_time(value)
    if isinstance(value, bool | int | float | np.number | np.bool_) and not np.isnan(value):
        return float(value)
    raise DataError(f"where: {show_value(name)} holds numbers or true and false, which {show_value(value)} is not")


def find_category(column: ItemColumn, name: str, category: Any) -> int:
    """Return the place of a category among the names of a column."""
    if not column.is_text:
        raise DataError(f"the column {show_value(name)} holds {column.kind} values, not categories")
    return find_name(column.values.names, name, category)


def find_name(names: ObjectArray, column: str, category: Any) -> int:
    """Return the place of a category among sorted names."""
    place = int(np.searchsorted(names, str(category))) if len(names) else 0
    if place < len(names) and names[place] == str(category):
        return place
    near = difflib.get_close_matches(str(category), names.tolist(), 1)
    hint = f"did you mean {show_value(near[0])}?" if near else f"there are {list_names(names.tolist()) or 'none'}"
    raise DataError(f"no item has {show_value(column)} {show_value(category)}; {hint}")
