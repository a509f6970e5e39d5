"""Items with an amount each: why a score is what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from csrr.data.ids import Id
from csrr.ranking.text_tables import text_table, to_pandas

if TYPE_CHECKING:
    import pandas as pd

Titles = npt.NDArray[Any] | None


@dataclass(frozen=True, eq=False)
class Amounts:
    """Items with an amount each, largest first."""

    items: npt.NDArray[Any]
    titles: Titles
    amounts: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.items)

    def _columns(self) -> dict[str, list[Any]]:
        columns = {"item": self.items.tolist()}
        if self.titles is not None:
            columns["title"] = self.titles.tolist()
        return columns | {"amount": self.amounts.tolist()}

    def rows(self) -> list[dict[str, Any]]:
        """One dict an item: item, title (where known), amount and what else is known of it."""
        columns = self._columns()
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas table."""
        return to_pandas(pa.table(self._columns()))

    def head_text(self, most: int) -> str:
        """Return the first `most` rows as text."""
        columns = self._columns()
        return text_table(list(columns), list(zip(*columns.values(), strict=True))[:most])


@dataclass(frozen=True, eq=False)
class Explanation(Amounts):
    """How much each item of a user's history adds to the score of an item; `amounts` sum to `score`.

    `neighbors`, (n,), is what of each amount comes from item to item; None where a model has no such part.
    """

    user: Id
    item: Id
    score: float
    neighbors: npt.NDArray[np.float32] | None = None

    def _columns(self) -> dict[str, list[Any]]:
        columns = super()._columns()
        return columns if self.neighbors is None else columns | {"neighbors": self.neighbors.tolist()}

    @property
    def contributions(self) -> list[tuple[Id, str | None, float]]:
        """(item id, title or None, amount), largest first."""
        return [(row["item"], row.get("title"), row["amount"]) for row in self.rows()]

    def __str__(self) -> str:
        return f"item {self.item} for user {self.user}: score {self.score:.3f}, of which\n{self.head_text(10)}"


def spread_amounts(
    amounts: npt.NDArray[Any], score: float, neighbors: npt.NDArray[np.float32] | None
) -> npt.NDArray[Any]:
    """Return amounts, (n,), that sum to a score: what `neighbors` say exactly, and the rest in proportion."""
    size = np.abs(amounts).sum()
    through = np.zeros(len(amounts), np.float32) if neighbors is None else neighbors
    if size > 0:
        amounts = amounts + (score - through.sum() - amounts.sum()) * np.abs(amounts) / size
    return amounts + through
