"""Explanations of scores: items with an amount each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from csrr._base.arrays import AnyArray, Float32Array, Int32Array, ObjectArray
from csrr.data.ids import Id
from csrr.results.table import SHOWN, ResultTable, TabularResult


@dataclass(frozen=True, eq=False)
class Amounts(TabularResult):
    """Items with an amount each, largest first.

    Attributes
    ----------
    items
        The ids of the items, shape (n,).
    titles
        Their titles, shape (n,), or None.
    amounts
        The amounts, shape (n,).
    """

    items: AnyArray
    titles: AnyArray | None
    amounts: Float32Array

    def __len__(self) -> int:
        return len(self.items)

    def table(self) -> ResultTable:
        """Return the items: item, title (where known), amount and what else is known.

        Returns
        -------
        table
            A row for each item.
        """
        return ResultTable.from_lists(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns = {"item": self.items.tolist()}
        if self.titles is not None:
            columns["title"] = self.titles.tolist()
        return columns | {"amount": self.amounts.tolist()}

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `table`.

        Returns
        -------
        rows
            A dict for each item.
        """
        return list(self.table().rows())


@dataclass(frozen=True, eq=False)
class Explanation(Amounts):
    """The amounts that the items of a user's history add to the score of an item; they sum to `score`.

    Attributes
    ----------
    items
        The ids of the history's items, shape (n,), largest amount first.
    titles
        Their titles, shape (n,), or None.
    amounts
        What each adds, shape (n,).
    user, item
        Whose score it is, and of what.
    title
        The title of that item, or None.
    score
        The score.
    neighbors
        What of each amount comes from item to item, shape (n,); None where a model has no such part.
    ages
        The number of later events of the user, shape (n,), where the order of events counts; else None.
    shared
        What each has in common with that item: categories, tags or words, shape (n,), where a model was fitted with
        features of items; else None.
    """

    user: Id
    item: Id
    score: float
    neighbors: Float32Array | None = None
    title: str | None = None
    ages: Int32Array | None = None
    shared: ObjectArray | None = None

    def _columns(self) -> dict[str, list[Any]]:
        columns = super()._columns()
        more = {"neighbors": self.neighbors, "age": self.ages, "shared": self.shared}
        return columns | {name: values.tolist() for name, values in more.items() if values is not None}

    @property
    def contributions(self) -> list[tuple[Id, str | None, float]]:
        """(item id, title or None, amount), largest first."""
        return [(row["item"], row.get("title"), row["amount"]) for row in self.rows()]

    def _heading(self) -> str:
        named = f"item {self.item}" if self.title is None else f"{self.title} (item {self.item})"
        return f"{named} for user {self.user}: score {self.score:.3f}, of which"

    def __str__(self) -> str:
        return f"{self._heading()}\n{self.table().head(SHOWN)}"

    # For csrr.plot

    @property
    def plot_title(self) -> str:
        """The title of the plot."""
        return f"Why {self.item if self.title is None else self.title} for user {self.user}"

    @property
    def caption(self) -> str:
        """The caption of the plot."""
        parts = "" if self.neighbors is None else ", through common taste and from item to item"
        return f"What each choice of the history adds to a score of {self.score:.3f}{parts}."

    @property
    def panels(self) -> list[dict[str, Any]]:
        """The chart: bars for the largest amounts, and for all others together."""
        through = np.zeros(len(self), np.float32) if self.neighbors is None else self.neighbors
        parts = {"common taste": self.amounts - through} | ({} if self.neighbors is None else {"neighbors": through})
        order = np.argsort(-np.abs(self.amounts), kind="stable")
        groups = {self._name(place): np.array([place]) for place in order[:SHOWN]}
        if len(order) > SHOWN:
            groups[f"{len(order) - SHOWN:,} others"] = order[SHOWN:]
        series = []
        for part, values in parts.items():
            sums = {name: float(values[which].sum()) for name, which in groups.items()}
            # Most items are no neighbors, which needs no bar.
            points = [{"label": name, "mean": sums[name]} for name in sums if sums[name] or part == "common taste"]
            series.append({"name": part, "points": points})
        return [{"title": "Reasons", "x": "choice", "y": "adds to the score", "kind": "bars", "series": series}]

    def _name(self, place: int) -> str:
        """Return the title of an item of the history, with its id where another has the same, or its id."""
        title = None if self.titles is None else self.titles[place]
        if title is None:
            return str(self.items[place])
        return str(title) if (self.titles == title).sum() == 1 else f"{title} ({self.items[place]})"


def spread_amounts(amounts: AnyArray, score: float, neighbors: Float32Array | None) -> AnyArray:
    """Return amounts, (n,), that sum to a score: the neighbors' as they are, the rest in proportion."""
    size = np.abs(amounts).sum()
    through = np.zeros(len(amounts), np.float32) if neighbors is None else neighbors
    if size > 0:
        amounts = amounts + (score - through.sum() - amounts.sum()) * (np.abs(amounts) / size)
    return amounts + through
