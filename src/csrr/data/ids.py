"""The only place where an id meets a row number."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr._base.arrays import Int32Array, Int64Array, ObjectArray, Rows
from csrr.data.columns import Column, read_ids
from csrr.data.errors import DataError, UnknownIdError

Id = int | str
TitleMap = Mapping[Any, str | None]
Ids = Int64Array | ObjectArray


def convert_ids(ids: Any, kind: str = "user") -> Ids:
    """Return ids, shape (n,), as int64, or as object holding str."""
    return np.array(_read(ids, f"{kind} ids").to_numpy(zero_copy_only=False))


FEW = 64
"""Up to this many ids are read without further checks if they are plain integers or strings."""
RARE = 50
"""Ids are looked up one by one if there are so many times fewer of them than in the map; else by a table of all."""


def _read(ids: Any, name: str) -> pa.Array:
    few = ids.tolist() if isinstance(ids, np.ndarray) and ids.ndim == 1 and len(ids) <= FEW else ids
    if isinstance(few, list) and len(few) <= FEW:
        types = {type(each) for each in few}
        kind = pa.int64() if types == {int} else pa.large_string() if types == {str} else None
        with suppress(OverflowError, UnicodeEncodeError):
            if kind is not None:
                return pa.array(few, kind)
    return read_ids(replace(Column.read(ids, name), can_skip=False))


class IdMap:
    """An immutable two-way map between distinct ids and the row numbers 0..n-1.

    Ids are all integers or all strings. Rows follow the sorted ids, whatever the order of the data.

    Parameters
    ----------
    ids
        The ids, shape (n,).

    Attributes
    ----------
    identity
        Whether every id is its own row number.

    Examples
    --------
    >>> ids = csrr.IdMap(["bob", "ann"])
    >>> ids.row("bob"), ids.ids[0], "eve" in ids
    (1, 'ann', False)
    """

    __slots__ = ("_ids", "_text", "identity")

    def __init__(self, ids: Any) -> None:
        """Store `ids`, shape (n,), sorted; they must be distinct."""
        column = _read(ids, "ids")
        self._set(column.take(pc.array_sort_indices(column)))
        repeated = self._ids[1:][self._ids[1:] == self._ids[:-1]]
        if repeated.size:
            raise DataError(f"ids must be distinct, but {repeated.tolist()[0]!r} appears more than once")

    def _set(self, column: pa.Array) -> None:
        self._text: pa.Array | None = None if pa.types.is_integer(column.type) else column
        self._ids: Ids = np.array(column.to_numpy(zero_copy_only=False))
        self._ids.flags.writeable = False
        n = len(self._ids)
        self.identity: bool = self._text is None and (n == 0 or bool(self._ids[0] == 0 and self._ids[-1] == n - 1))

    @classmethod
    def _of(cls, column: pa.Array) -> IdMap:
        """Return the map of distinct ids, rising."""
        ids = cls.__new__(cls)
        cls._set(ids, column)
        return ids

    @classmethod
    def encode(cls, column: pa.Array) -> tuple[IdMap, Int32Array]:
        """Return the map of the ids of a checked column, and the row of each.

        Parameters
        ----------
        column
            An Arrow array of int64 or large_string, or a dictionary of distinct ones of these, shape (n,).

        Returns
        -------
        encoded
            The map, and row numbers of shape (n,).
        """
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        order = pc.array_sort_indices(encoded.dictionary)
        row_of_code = np.empty(len(order), np.int32)
        row_of_code[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
        return cls._of(encoded.dictionary.take(order)), row_of_code[encoded.indices.to_numpy()]

    def add(self, new: IdMap) -> tuple[IdMap, Int32Array, Int32Array]:
        """Return the map with a few other ids of the same type, and the rows there of its own and of these.

        Parameters
        ----------
        new
            The others; the map may have some of them.

        Returns
        -------
        joined
            The map, and two arrays of rows.
        """
        theirs = self.find(new.ids)
        is_new = theirs < 0
        added = new.ids[is_new]
        places = np.searchsorted(self._ids, added)
        own = np.arange(len(self)) + np.cumsum(np.bincount(places, minlength=len(self) + 1))[: len(self)]
        theirs = np.where(is_new, 0, own[theirs])
        theirs[is_new] = places + np.arange(len(added))
        ids = np.insert(self._ids, places, added)
        joined = self._of(pa.array(ids, None if self._text is None else self._text.type))
        return joined, own.astype(np.int32), theirs.astype(np.int32)

    @classmethod
    def range(cls, n: int) -> IdMap:
        """Return the map of the ids 0..n-1 to themselves.

        Parameters
        ----------
        n
            Number of ids.

        Returns
        -------
        ids
            The map.
        """
        return cls._of(pa.array(np.arange(n, dtype=np.int64)))

    @property
    def ids(self) -> Ids:
        """The ids by row, shape (n,): int64, or object holding str. Read-only."""
        return self._ids

    def rows(self, ids: Any, kind: str = "user") -> Rows:
        """Return the rows of ids.

        Parameters
        ----------
        ids
            The ids, shape (m,).
        kind
            What they are of, for messages: "user" or "item".

        Returns
        -------
        rows
            The row number of each, shape (m,).

        Raises
        ------
        UnknownIdError
            If one is not in the map.
        """
        ids = _read(ids, f"{kind} ids")
        rows = self._find(ids)
        if (rows < 0).any():
            raise self._unknown(ids.filter(pa.array(rows < 0)).to_pylist(), kind)
        return rows

    def find(self, ids: Any, kind: str = "user") -> Rows:
        """Return the rows of ids, as far as they are known.

        Parameters
        ----------
        ids
            The ids, shape (m,).
        kind
            What they are of, for messages: "user" or "item".

        Returns
        -------
        rows
            The row number of each, -1 for one that is not in the map, shape (m,).
        """
        return self._find(_read(ids, f"{kind} ids"))

    def _find(self, ids: pa.Array) -> Rows:
        if len(ids) == 0 or len(self) == 0 or pa.types.is_integer(ids.type) != (self._text is None):
            return np.full(len(ids), -1, np.int64)
        if self._text is not None and len(ids) * RARE > len(self):
            return np.asarray(pc.index_in(ids, value_set=self._text).fill_null(-1).to_numpy(), np.int64)
        asked = ids.to_numpy(zero_copy_only=False)
        if self.identity:
            return np.where((asked >= 0) & (asked < len(self)), asked, -1)
        places = np.searchsorted(self._ids, asked)
        return np.where(self._ids[np.minimum(places, len(self) - 1)] == asked, places, -1)

    def row(self, id: Id, kind: str = "user") -> int:
        """Return the row of one id.

        Parameters
        ----------
        id
            The id.
        kind
            What it is of, for messages: "user" or "item".

        Returns
        -------
        row
            Its row number.

        Raises
        ------
        UnknownIdError
            If it is not in the map.
        """
        if isinstance(id, str) and self._text is not None:
            # Ids are sorted, by the bytes of UTF-8 as by characters. Looking up many at once makes a table first.
            place = bisect.bisect_left(self._ids, id)
            if place < len(self) and self._ids[place] == id:
                return place
        return int(self.rows([id], kind)[0])

    def _unknown(self, ids: list[Id], kind: str) -> UnknownIdError:
        some = ", ".join(repr(id) for id in ids[:3])
        more = f" and {len(ids) - 3:,} more" if len(ids) > 3 else ""
        plural = "s" if len(ids) > 1 else ""
        return UnknownIdError(f"unknown {kind} id{plural}: {some}{more}{self._hint(ids[0])}", ids=ids, kind=kind)

    def _hint(self, id: Id) -> str:
        """Return a remark on an id that was not found: the other type, other case or blanks around it."""
        if self._text is None:
            if isinstance(id, int):
                return ""
            text = id.strip()
            near = f"; did you mean {int(text)}?" if re.fullmatch(r"-?[0-9]+", text) and int(text) in self else ""
            return f" (ids are integers{near})"
        if isinstance(id, int):
            return f" (ids are strings{f'; did you mean {str(id)!r}?' if str(id) in self else ''})"
        folded = pc.utf8_lower(pc.utf8_trim_whitespace(self._text))
        place = pc.index(folded, id.strip().lower()).as_py()
        return f" (did you mean {self._ids[place]!r}?)" if place >= 0 else ""

    def __contains__(self, id: object) -> bool:
        try:
            self.row(id)  # type: ignore[arg-type]
        except (UnknownIdError, DataError):
            return False
        return True

    def __iter__(self) -> Iterator[Id]:
        return iter(self._ids.tolist())

    def __len__(self) -> int:
        return len(self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdMap) and np.array_equal(self._ids, other._ids)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        some = ", ".join(repr(id) for id in self._ids[:3].tolist())
        return f"IdMap: {len(self):,} ids ({some}{', ...' if len(self) > 3 else ''})"


def drop_unused(ids: IdMap, rows: Int32Array) -> tuple[IdMap, Int32Array]:
    """Return the ids that `rows`, shape (n,), mention, and the rows renumbered accordingly."""
    seen = np.bincount(rows, minlength=len(ids)) > 0
    if seen.all():
        return ids, rows
    return IdMap(ids.ids[seen]), (np.cumsum(seen, dtype=np.int32) - 1)[rows]


def place_rows(ids: Any, rows: Int64Array, n: int) -> tuple[IdMap, Int32Array]:
    """Return the map of a matrix's row (or column) ids, and where each of its `rows`, shape (m,), went."""
    if ids is None:
        return IdMap.range(n), rows.astype(np.int32)
    known = IdMap(ids)
    return known, known.rows(ids)[rows].astype(np.int32)


def align_titles(titles: TitleMap | None, items: IdMap) -> ObjectArray | None:
    """Return the title, or None, of each item, shape (n_items,). Item 7 finds the title of 7 and of "7"."""
    if titles is None:
        return None
    by_text = {str(id): title for id, title in titles.items()}
    aligned = np.empty(len(items), object)
    aligned[:] = [by_text.get(str(id)) for id in items]
    return aligned


def join_ids(known: IdMap, new: IdMap, kind: str) -> tuple[IdMap, Int32Array, Int32Array]:
    """Return the map of all ids, and the rows there of the known ones and of the new."""
    if len(known) and len(new) and known.ids.dtype != new.ids.dtype:
        theirs, ours = (_show_ids(ids) for ids in (new, known))
        raise DataError(f"the {kind} ids of the new events are {theirs}, those known {ours}; make them of one type")
    parts = [ids.ids for ids in (known, new) if len(ids)]
    if not parts:
        return known, np.empty(0, np.int32), np.empty(0, np.int32)
    if len(new) * RARE <= len(known):
        return known.add(new)
    joined, rows = IdMap.encode(_read(np.concatenate(parts), f"{kind} ids"))
    return joined, rows[: len(known)], rows[len(known) :]


def _show_ids(ids: IdMap) -> str:
    kind = "strings" if ids.ids.dtype == np.object_ else "integers"
    return f"{kind} ({ids.ids[:1].tolist()[0]!r})"


def join_titles(
    known: tuple[ObjectArray | None, Int32Array], new: tuple[ObjectArray | None, Int32Array], n_items: int
) -> ObjectArray | None:
    """Return the title of each item, shape (n_items,), from two logs' titles and their rows; None without titles."""
    if known[0] is None and new[0] is None:
        return None
    joined = np.full(n_items, None, np.object_)
    for titles, rows in (known, new):
        if titles is not None:
            there = np.array([title is not None for title in titles], np.bool_)
            joined[rows[there]] = titles[there]
    return joined
