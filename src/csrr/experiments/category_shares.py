"""Lists by category: what they hold of each beside what people chose, and how much of that is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from csrr.arrays import BoolArray, Float64Array, Int32Array, Int64Array, ObjectArray
from csrr.data.item_columns import Categories
from csrr.ranking.result_table import ResultTable, TabularResult

SHOWN_CATEGORIES = 20


@dataclass(frozen=True, eq=False, repr=False)
class CategoryShares(TabularResult):
    """The share of each category of a column in lists, beside its share in training and test events.

    An item of several categories counts for each by 1 / their number, so that shares add up to 1 over all categories
    and what has none.

    Attributes
    ----------
    column
        The column of the item table.
    k
        The length of the lists.
    categories
        The names of the categories, those with most training events first; shape (n,).
    n_items
        How many items have each, shape (n,).
    train, test, lists
        The shares of training events, of test events and of places in lists, shapes (n,).
    recall
        The share of the test events on items of a category that are in the lists, shape (n,); NaN without any.
    """

    column: str
    k: int
    categories: ObjectArray
    n_items: Int64Array
    train: Float64Array
    test: Float64Array
    lists: Float64Array
    recall: Float64Array

    def table(self) -> ResultTable:
        """Return a row for each category: category, items, train, test, lists, recall.

        Returns
        -------
        table
            Those with most training events first.
        """
        return ResultTable(
            {
                self.column: self.categories,
                "items": self.n_items,
                "train": self.train,
                "test": self.test,
                "lists": self.lists,
                "recall": self.recall,
            }
        )

    def display_table(self) -> ResultTable:
        """Return the categories with most training events, 20 at most."""
        return self.table().head(SHOWN_CATEGORIES)

    def _heading(self) -> str:
        shown = (
            f" (first {SHOWN_CATEGORIES} of {len(self.categories):,})"
            if len(self.categories) > SHOWN_CATEGORIES
            else ""
        )
        return (
            f"By {self.column}{shown}: shares of training events, test events and places in lists of {self.k};"
            f" recall@{self.k}"
        )


def measure_categories(
    column: str, categories: Categories, items: Int32Array, hits: BoolArray, relevant: Any, seen: Any
) -> CategoryShares:
    """Return the shares of categories.

    `items` are lists and `hits` what is right in them, shapes (n, k); `relevant` and `seen` the test and training
    events, sparse of shape (n_users, n_items).
    """
    members = categories.members
    n_items = members.shape[0]
    weights = members.multiply(1 / np.maximum(np.diff(members.indptr), 1)[:, None]).tocsr()
    trained, tested = (np.bincount(cells.indices, minlength=n_items) for cells in (seen, relevant))
    listed = np.bincount(items[items >= 0], minlength=n_items)
    found = members.T @ np.bincount(items[hits], minlength=n_items)
    asked = members.T @ tested
    recall = np.divide(found, asked, out=np.full(len(asked), np.nan), where=asked > 0)
    train, test, lists = (weights.T @ counts / max(counts.sum(), 1) for counts in (trained, tested, listed))
    order = np.lexsort((categories.names, -train))
    n_members = np.bincount(members.indices, minlength=len(categories.names))
    shares = (each[order] for each in (train, test, lists, recall))
    return CategoryShares(column, items.shape[1], categories.names[order], n_members[order], *shares)
