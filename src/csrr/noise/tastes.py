"""User-specific choices: which of them are an unusual taste, and which are isolated.

A choice is a taste if the same user has chosen similar items; how similar items are is learned from all other users. A
random click has similar items only by chance. How many is measured on items that the user did not choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr._base.arrays import FloatArray
from csrr.data.ids import Id
from csrr.numerics.factored import ItemSide
from csrr.numerics.problem import Pattern
from csrr.results.recommendations import Amounts

COMPANY = 3
"""The number of other choices that an item is compared with: the most similar ones."""
LEAST_OTHERS = 5
"""An item that fewer other users chose is "unclear"."""
ISOLATED, OWN = 0.45, 0.6
"""Choices with less support than the first are isolated, those with the second or more are a taste. Chosen on planted
data."""
SAMPLED_USERS, SAMPLED_ITEMS = 1000, 20


@dataclass(frozen=True, eq=False)
class Preferences(Amounts):
    """User-specific choices: the entries of V, largest first, in units of a click, each judged.

    Junk that is consistent passes as taste, and the first choice of a new interest as isolated: clicks alone do not
    tell.

    Attributes
    ----------
    items
        The ids of the chosen items, shape (n,), largest amount first.
    titles
        Their titles, shape (n,), or None.
    amounts
        How much of each click is the user's own, shape (n,).
    user
        Whose choices they are.
    kinds
        Shape (n,): "own taste" (company: an unusual but consistent taste), "isolated" (none: perhaps junk) or
        "unclear": between the two, or, with a support of NaN, an item that too few others chose or a user with too few
        choices.
    support
        How much company a choice has, shape (n,): the share of pairs of a user and an item not chosen that have less.
        Company is how alike the item and the three most like it among the user's other choices are, by what everyone
        else chose.
    """

    user: Id
    kinds: npt.NDArray[np.str_]
    support: FloatArray

    def _columns(self) -> dict[str, list[Any]]:
        support = [None if np.isnan(value) else value for value in self.support.tolist()]
        return super()._columns() | {"kind": self.kinds.tolist(), "support": support}

    def _heading(self) -> str:
        return f"user {self.user}: {len(self)} user-specific choices"

    def __str__(self) -> str:
        if not len(self):
            return f"user {self.user} has no user-specific choices"
        return "\n".join([str(self.table()), *self._remarks()])

    def _remarks(self) -> list[str]:
        counts = ", ".join(f"{(self.kinds == kind).sum()} {kind}" for kind in ("own taste", "isolated", "unclear"))
        known = (
            "Clicks alone cannot tell consistent noise from a taste, or the first choice of a new interest from noise."
        )
        return [f"{counts}. {known}"]


@dataclass(frozen=True, eq=False)
class Tastes:
    """The common taste, by which items are compared without the influence of one user.

    `users`, (n, d), and `items`, (m, d), are the factors of U. An item's are a sum over its clicks: `entered`, (nnz,),
    is the coefficient of each, and `inverse`, (d, d), is (P'P + l1*I)^-1.
    """

    pattern: Pattern
    users: FloatArray
    items: FloatArray
    entered: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, pattern: Pattern, users: FloatArray, items: FloatArray, entered: FloatArray, l1: float) -> Tastes:
        """Return the tastes of factors of U at a regularization `l1`."""
        return cls(pattern, users, items, entered, ItemSide.of(users, l1, pattern.engine).inverse)

    @cached_property
    def chance(self) -> FloatArray:
        """The similarity of random items to the choices of users who did not choose them, sorted."""
        rng = np.random.default_rng(0)
        able = np.flatnonzero(np.diff(self.pattern.indptr) > COMPANY)
        found: list[FloatArray] = [np.empty(0)]
        for row in np.sort(rng.permutation(able)[:SAMPLED_USERS]):
            items, directions = self._select_own(row)
            others = np.setdiff1d(rng.integers(0, len(self.items), SAMPLED_ITEMS), items)
            found.append(_average_nearest(_normalize_rows(self.items[others]) @ directions.T))
        return np.sort(np.concatenate(found))

    def _select_own(self, row: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Return the items that a user chose, (n,), and their directions less that user's share in them, (n, d)."""
        mine = slice(self.pattern.indptr[row], self.pattern.indptr[row + 1])
        items = self.pattern.indices[mine]
        share = self.entered[mine, None] * (self.users[row] @ self.inverse)
        return items, _normalize_rows(self.items[items] - share)

    def measure_support(self, row: int) -> tuple[npt.NDArray[np.int32], FloatArray]:
        """Return the items that a user chose, (n,), and the share of chance pairs that are less similar, (n,).

        It is NaN for a user with too few choices to compare.
        """
        items, directions = self._select_own(row)
        if len(items) <= COMPANY:
            return items, np.full(len(items), np.nan)
        alike = directions @ directions.T
        np.fill_diagonal(alike, -np.inf)
        return items, np.searchsorted(self.chance, _average_nearest(alike)) / max(1, len(self.chance))


def judge_choices(tastes: Tastes, row: int, chosen: npt.NDArray[Any]) -> tuple[npt.NDArray[np.str_], FloatArray]:
    """Return the kind and the support of those items, by row, that are user-specific choices; both (len(chosen),)."""
    items, of_all = tastes.measure_support(row)
    support = of_all[np.searchsorted(items, chosen)]
    others = np.bincount(tastes.pattern.indices, minlength=len(tastes.items))[chosen] - 1
    support = np.where(others < LEAST_OTHERS, np.nan, support)
    return np.select([support >= OWN, support < ISOLATED], ["own taste", "isolated"], "unclear"), support


def _normalize_rows(factors: FloatArray) -> FloatArray:
    """Return the rows, scaled to length 1 unless they are 0."""
    lengths = np.linalg.norm(factors, axis=1, keepdims=True)
    return factors / np.where(lengths > 0, lengths, 1)


def _average_nearest(alike: FloatArray) -> FloatArray:
    """Return the mean of the `COMPANY` largest values of each row, shape (len(alike),)."""
    means: FloatArray = np.partition(alike, -COMPANY, axis=1)[:, -COMPANY:].mean(axis=1)
    return means
