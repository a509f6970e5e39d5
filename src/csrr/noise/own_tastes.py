"""A user's own choices -> which of them are a taste, if an unusual one, and which stand alone.

A choice is a taste if other choices of the same user are like it, by what everyone else did. A click at random has such
company only by chance, and how much chance gives is known: it is what items have that the user did not choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from csrr.data.ids import Id
from csrr.models.answers import Preferences
from csrr.models.robust import RobustModel
from csrr.noise.noise_scores import judge
from csrr.optim.foldin import ItemSide
from csrr.optim.pattern import Pattern

Floats = npt.NDArray[np.floating[Any]]

COMPANY = 3
"""The number of other choices that an item is compared with: those most like it."""
LEAST_OTHERS = 5
"""An item that fewer other users chose cannot be judged."""
ISOLATED, OWN = 0.45, 0.6
"""Support below the first, and from the second on, decides. Chosen on planted data, for accuracy and few undecided."""
SAMPLED_USERS, SAMPLED_ITEMS = 1000, 20


@dataclass(frozen=True, eq=False)
class Tastes:
    """What it takes to say how alike items are without the user who is asked about.

    `users`, (n, d), and `items`, (m, d), are the factors of U. An item's are a sum over its clicks: `entered`, (nnz,),
    is the coefficient of each, and `inverse`, (d, d), is (P'P + l1*I)^-1.
    """

    pattern: Pattern
    users: Floats
    items: Floats
    entered: Floats
    inverse: Floats

    @classmethod
    def of(cls, model: RobustModel) -> Tastes:
        """Return the tastes that a model sees."""
        pattern = Pattern.of(model.seen_)
        problem, _ = model._histories(pattern, model._clicks.values)
        factors = model._factors("float64")
        u = pattern.dots(factors.users, factors.items)
        inverse = ItemSide.of(factors.users, model.l1_).inverse
        return cls(pattern, factors.users, factors.items, problem.pull(u) + u, inverse)

    @cached_property
    def chance(self) -> Floats:
        """The company of items drawn at random with users who did not choose them, sorted."""
        rng = np.random.default_rng(0)
        able = np.flatnonzero(np.diff(self.pattern.indptr) > COMPANY)
        found: list[Floats] = [np.empty(0)]
        for row in np.sort(rng.permutation(able)[:SAMPLED_USERS]):
            items, directions = self._own(row)
            others = np.setdiff1d(rng.integers(0, len(self.items), SAMPLED_ITEMS), items)
            found.append(_company(_directions(self.items[others]) @ directions.T))
        return np.sort(np.concatenate(found))

    def _own(self, row: int) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the items that a user chose, (n,), and their directions less that user's share in them, (n, d)."""
        mine = slice(self.pattern.indptr[row], self.pattern.indptr[row + 1])
        items = self.pattern.indices[mine]
        share = self.entered[mine, None] * (self.users[row] @ self.inverse)
        return items, _directions(self.items[items] - share)

    def support(self, row: int) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the items that a user chose, (n,), and the share of chance pairs that are less alike, (n,).

        It is NaN for a user with too few choices to compare with.
        """
        items, directions = self._own(row)
        if len(items) <= COMPANY:
            return items, np.full(len(items), np.nan)
        alike = directions @ directions.T
        np.fill_diagonal(alike, -np.inf)
        return items, np.searchsorted(self.chance, _company(alike)) / max(1, len(self.chance))


def tastes_of(model: RobustModel) -> Tastes:
    """Return the tastes by which a model's V is judged; made at the first question after a fit."""
    kept = model.__dict__.get("_tastes")
    if kept is None or kept[0] is not model.seen_:
        kept = model.__dict__["_tastes"] = model.seen_, Tastes.of(judge(model))
    tastes: Tastes = kept[1]
    return tastes


def specific_preferences(model: RobustModel, user: Id) -> Preferences:
    """Return a user's entries of V, largest first, each judged; `Preferences` says what the words mean."""
    row = model.users_.row(user)
    mine = model.specific_[[row]].tocsr()
    order = np.argsort(-mine.data, kind="stable")
    chosen = mine.indices[order]
    support: Floats = np.empty(0)
    kinds = np.empty(0, np.str_)
    if len(chosen):
        items, of_all = tastes_of(model).support(row)
        support = of_all[np.searchsorted(items, chosen)]
        others = np.bincount(model.seen_.indices, minlength=len(model.items_))[chosen] - 1
        support = np.where(others < LEAST_OTHERS, np.nan, support)
        kinds = np.select([support >= OWN, support < ISOLATED], ["own taste", "isolated"], "unclear")
    return Preferences(*model._named(chosen), mine.data[order], user, kinds, support)


def _directions(factors: Floats) -> Floats:
    """Return the rows at length 1, or 0 where they have none."""
    lengths = np.linalg.norm(factors, axis=1, keepdims=True)
    directions: Floats = np.divide(factors, lengths, out=np.zeros_like(factors), where=lengths > 0)
    return directions


def _company(alike: Floats) -> Floats:
    """Return the mean of the `COMPANY` largest of each row, shape (len(alike),)."""
    means: Floats = np.partition(alike, -COMPANY, axis=1)[:, -COMPANY:].mean(axis=1)
    return means
