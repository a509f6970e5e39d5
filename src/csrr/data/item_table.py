"""What is known of items beside who chose them: titles, categories, prices, dates."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from csrr.arrays import BoolArray, Int64Array, ObjectArray
from csrr.data.errors import DataError, quote_names, show_value
from csrr.data.ids import IdMap
from csrr.data.item_columns import CANONICAL_INTEGER, ItemColumn
from csrr.data.item_conditions import match_column
from csrr.html_text import format_html_table, format_html_words

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5
"""The number of rows that a notebook shows."""


@dataclass(frozen=True, eq=False, repr=False)
class ItemTable:
    """A table of item attributes, one row per item.

    Attributes
    ----------
    items
        The ids of the items, in the order of the rows.
    columns
        The columns by name: numbers, flags, dates or categories.
    titles
        The titles of the items, shape (n_items,), if known: str or None.

    Examples
    --------
    >>> table = csrr.read_items({"item": [7, 8], "title": ["Alien", "Big"], "genre": ["Horror|SF", "Comedy"]})
    >>> table
    ItemTable: 2 items, titles, genre (3 categories)
    >>> table.match({"genre": "SF"}).tolist()
    [True, False]
    """

    items: IdMap
    columns: Mapping[str, ItemColumn]
    titles: ObjectArray | None = None

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, name: str) -> ItemColumn:
        """Return a column by its name."""
        if name not in self.columns:
            near = difflib.get_close_matches(str(name), self.columns, 1)
            hint = f"; did you mean {show_value(near[0])}?" if near else ""
            raise DataError(
                f"the item table has no column {show_value(name)}{hint}; its columns are {quote_names(self.columns)}"
            )
        return self.columns[name]

    def align(self, items: IdMap) -> ItemTable:
        """Return the table with rows for the given items, in their order.

        Parameters
        ----------
        items
            The ids. Items that are not in the table get missing values.

        Returns
        -------
        table
            Its other items are left out.

        Raises
        ------
        DataError
            If the table has none of them.
        """
        rows = self.items.find(_as_type_of(items, self.items), "item")
        if len(items) and (rows < 0).all():
            raise DataError(
                f"the item table has none of the {len(items):,} items: its ids are like"
                f" {show_value(self.items.ids[:3].tolist())}, theirs like {show_value(items.ids[:3].tolist())}; name"
                " the"
                " column of ids with item='...'"
            )
        titles = None
        if self.titles is not None:
            titles = self.titles[rows]
            titles[rows < 0] = None
        return ItemTable(items, {name: column.take(rows) for name, column in self.columns.items()}, titles)

    def match(self, where: Mapping[str, Any]) -> BoolArray:
        """Return which items meet all conditions.

        Parameters
        ----------
        where
            By column: a value; a list of allowed values; or a pair (minimum, maximum) of numbers or dates, where None
            means no bound. A missing value meets no condition.

        Returns
        -------
        met
            Shape (n_items,).
        """
        if not isinstance(where, Mapping):
            raise DataError(f"where={show_value(where)}: it must be a dict from columns to values or (least, most)")
        met = np.ones(len(self), np.bool_)
        for name, wanted in where.items():
            met &= match_column(self[name], str(name), wanted)
        return met

    def to_arrow(self) -> pa.Table:
        """Return the table as an Arrow table.

        Returns
        -------
        table
            item, title where known, and the columns.
        """
        return self._list_rows(np.arange(len(self)))

    def _list_rows(self, rows: Int64Array) -> pa.Table:
        """Return some rows, as `to_arrow` has them."""
        found: dict[str, Any] = {"item": self.items.ids[rows]}
        if self.titles is not None:
            found["title"] = pa.array(self.titles[rows].tolist(), pa.string())
        return pa.table(found | {name: column.show(rows) for name, column in self.columns.items() if name not in found})

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame.

        Returns
        -------
        frame
            The columns of `to_arrow`.
        """
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install 'csrr[pandas]', or use to_arrow") from None
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def __repr__(self) -> str:
        told = ["titles"] if self.titles is not None else []
        for name, column in self.columns.items():
            n = f" ({len(column.values.names):,} categories)" if column.is_text else f" ({column.kind})"
            told.append(f"{name}{n}")
        return f"ItemTable: {len(self):,} items{''.join(f', {each}' for each in told[:12])}{', ...' * (len(told) > 12)}"

    def _repr_html_(self) -> str:
        first = self._list_rows(np.arange(min(SHOWN, len(self))))
        lines = zip(*first.to_pydict().values(), strict=True)
        table = format_html_table(first.column_names, lines, len(self) - len(first))
        return f"{format_html_words(repr(self))}\n{table}"


def _as_type_of(asked: IdMap, known: IdMap) -> Any:
    """Return ids in the type of others, where 7 and "7" are the same item."""
    is_text = known.ids.dtype == np.object_
    if (asked.ids.dtype == np.object_) == is_text:
        return asked.ids
    if is_text:
        return asked.ids.astype(str).astype(np.object_)
    texts = pa.array(asked.ids, pa.large_string())
    plain = pc.match_substring_regex(texts, CANONICAL_INTEGER).to_numpy(zero_copy_only=False)
    fits = plain & (pc.utf8_length(texts).to_numpy() < 19)
    # No id is that small: whatever is no integer is in no table of integers.
    return np.array([int(text) if fit else -(2**63) for text, fit in zip(asked.ids, fits, strict=True)], np.int64)
