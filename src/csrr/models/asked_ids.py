"""Ids that somebody asks by: their rows, and what to do with those that a model does not know."""

from __future__ import annotations

from collections.abc import Iterator, Set, ValuesView
from typing import Any, Literal

import numpy as np

from csrr.arrays import AnyArray, Rows
from csrr.data import IdMap, UnknownIdError
from csrr.data.errors import UnknownIdWarning, warn_caller
from csrr.data.ids import read_ids
from csrr.parameters import ParameterError

Unknown = Literal["raise", "ignore"]
"""What to do with unknown ids: raise an error, or leave out items and give users popular items."""

_WAY_OUT = {
    "item": 'unknown="ignore" leaves out unknown items',
    "user": 'unknown="ignore" gives unknown users popular items',
}


class IdReader:
    """Finds the rows of ids; unknown ones are an error or, where they are to be ignored, counted for one warning."""

    def __init__(self, unknown: Unknown) -> None:
        if unknown not in ("raise", "ignore"):
            raise ParameterError(f'unknown={unknown!r}: it must be "raise" or "ignore"')
        self.ignores: bool = unknown == "ignore"
        self._left_out: dict[str, tuple[int, int]] = {}

    def find(self, known: IdMap, ids: Any, kind: Literal["user", "item"] = "user", place: str = "") -> Rows:
        """Return the row of each id, -1 for one that is unknown and to be ignored; `place` says where ids stand."""
        if self.ignores:
            return find_rows(known, ids, kind)
        try:
            return known.rows(ids, kind)
        except UnknownIdError as error:
            where = f"{place}: " if place else ""
            raise UnknownIdError(f"{where}{error}; {_WAY_OUT[kind]}") from None

    def find_known(self, known: IdMap, ids: Any, kind: Literal["user", "item"], place: str) -> Rows:
        """Return the rows of those ids that are known; the others are counted as left out."""
        rows = self.find(known, ids, kind, place)
        self.count(place, int((rows < 0).sum()), len(rows))
        return rows[rows >= 0]

    def count(self, place: str, n_unknown: int, n_asked: int) -> None:
        """Count ids that were left out, of all that stand in a place."""
        if n_unknown:
            before = self._left_out.get(place, (0, 0))
            self._left_out[place] = before[0] + n_unknown, before[1] + n_asked

    def warn(self) -> None:
        """Say once what was left out."""
        if self._left_out:
            told = ", ".join(f"{n:,} of {asked:,} in {place}" for place, (n, asked) in self._left_out.items())
            warn_caller(f"unknown ids were left out: {told}", UnknownIdWarning)
            self._left_out = {}


def read_asked(ids: Any, reader: IdReader) -> AnyArray:
    """Return the ids of users as they are asked for, shape (n,); of both types only where strangers are ignored."""
    if reader.ignores and _has_both_types(ids):
        mixed = np.empty(len(ids), np.object_)
        mixed[:] = ids
        return mixed
    return read_ids(ids)


def find_rows(known: IdMap, ids: Any, kind: str = "user") -> Rows:
    """Return the row of each id, -1 for one that is unknown, as those of the other type are in a list of both."""
    if not _has_both_types(ids):
        return known.find(ids, kind)
    is_text = known.ids.dtype == np.object_
    mine = np.array([isinstance(each, str) == is_text for each in ids])
    rows = np.full(len(ids), -1, np.int64)
    rows[mine] = known.find([each for each, is_mine in zip(ids, mine, strict=True) if is_mine], kind)
    return rows


def _has_both_types(ids: Any) -> bool:
    """Return whether integers and strings stand in one list."""
    is_list = isinstance(ids, list | tuple) or getattr(ids, "dtype", None) == np.object_
    return is_list and len({isinstance(each, str) for each in ids if each is not None}) > 1


def is_one_id(ids: Any) -> bool:
    """Return whether this is one id, not several."""
    return isinstance(ids, str | int | float | np.generic)


def list_ids(ids: Any) -> Any:
    """Return one id or several as several."""
    if isinstance(ids, IdMap):
        return ids.ids
    if isinstance(ids, Set | ValuesView | Iterator | range):
        return list(ids)
    return [ids] if is_one_id(ids) else ids
