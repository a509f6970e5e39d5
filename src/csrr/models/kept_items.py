"""An item table in a model file: its arrays, what they must be, and the table again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.data import IdMap, ItemTable
from csrr.data.item_columns import KINDS, Categories, ItemColumn, find_far_dates
from csrr.models.kept import Arrays, ModelFileError, Part, Sizes, Sparse, Texts, Values
from csrr.models.text_arrays import sparse_arrays, sparse_from, text_arrays, text_from

START = "item_table."
_NAMES, _KINDS = f"{START}names", f"{START}kinds"
_TYPES = {"number": "float64", "whole": "int64", "flag": "bool", "date": "int64"}


class AtMostOne:
    """A csr pattern of ones with at most one in a row."""

    def __init__(self, cells: Sparse) -> None:
        self.cells = cells

    @property
    def names(self) -> tuple[str, ...]:
        """The arrays that it is made of."""
        return self.cells.names

    def check(self, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sizes) -> None:
        """Raise ModelFileError unless the arrays are as declared."""
        self.cells.check(arrays, sizes)
        if (np.diff(arrays[self.names[0]]) > 1).any():
            raise ModelFileError(f"array {self.names[0]!r} gives an item several of what it has one of")


def item_table_arrays(table: ItemTable) -> Arrays:
    """Return the columns of a table as arrays; titles are the model's own."""
    arrays: Arrays = text_arrays(_NAMES, np.array(list(table.columns), np.object_))
    arrays[_KINDS] = np.array([KINDS.index(column.kind) for column in table.columns.values()], np.int8)
    for place, column in enumerate(table.columns.values()):
        name = f"{START}{place}"
        if column.is_text:
            arrays |= text_arrays(f"{name}.names", column.values.names)
            arrays |= sparse_arrays(f"{name}.members", column.values.members, with_data=False)
        else:
            arrays[name] = column.values.astype(np.int64) if column.kind == "date" else column.values
    return arrays


def item_table_parts(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Part, ...]:
    """Return what the arrays of an item table must be, by the kinds of its columns; nothing where there is none."""
    if not any(name.startswith(START) for name in arrays):
        return ()
    kinds = Values(_KINDS, ("item columns",), ("int8",), least=0, most=len(KINDS) - 1)
    kinds.check(arrays, {})
    parts: list[Part] = [kinds, Texts(_NAMES, "item columns")]
    for place, kind in enumerate(arrays[_KINDS].tolist()):
        name, kind = f"{START}{place}", KINDS[kind]
        if kind in _TYPES:
            parts.append(Values(name, ("items",), (_TYPES[kind],), is_free=True))
            continue
        size = f"categories of item column {place}"
        members = Sparse(f"{name}.members", ("items", size), None, f"entries of item column {place}")
        parts += [Texts(f"{name}.names", size), AtMostOne(members) if kind == "category" else members]
    return tuple(parts)


def item_table_from(arrays: Arrays, items: IdMap, titles: npt.NDArray[np.object_] | None) -> ItemTable | None:
    """Return the table that `item_table_arrays` was given, once its arrays are what they must be; None for none."""
    if _KINDS not in arrays:
        return None
    names = text_from(arrays, _NAMES).tolist()
    if len(set(names)) < len(names) or None in names:
        raise ModelFileError(f"array '{_NAMES}.text' does not name the columns of items, each once")
    kinds = [KINDS[kind] for kind in arrays[_KINDS].tolist()]
    columns = {name: _read_column(arrays, f"{START}{place}", kinds[place], items) for place, name in enumerate(names)}
    return ItemTable(items, columns, titles)


def _read_column(arrays: Arrays, name: str, kind: Any, items: IdMap) -> ItemColumn:
    if kind == "date":
        dates = arrays[name].astype("datetime64[s]")
        if find_far_dates(dates).any():
            raise ModelFileError(f"array {name!r} holds what is no date")
        return ItemColumn(kind, dates)
    if kind in _TYPES:
        return ItemColumn(kind, arrays[name])
    names = text_from(arrays, f"{name}.names")
    texts = names.tolist()
    if None in texts or any(a >= b for a, b in pairwise(texts)):
        raise ModelFileError(f"the categories '{name}.names' are not in order, each once")
    return ItemColumn(kind, Categories(names, sparse_from(arrays, f"{name}.members", (len(items), len(names)))))
