"""What goes with what one has: the part of a score that comes from item to item."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from csrr.arrays import AnyArray, Float32Array, FloatArray, Rows
from csrr.models.build_problem import ClickProblem
from csrr.models.settings import Settings
from csrr.models.strengths import count_clicks
from csrr.optim.item_foldin import find_nearest_known, make_weights, weigh_neighbors
from csrr.optim.neighbors import Factored, Regression, Ridge, find_nearest
from csrr.optim.problem import Problem
from csrr.ranking.item_products import add_products, multiply_own, multiply_pairs


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """`weights`, csr float32 of shape (n_items, n_items): what item i in a history adds to the score of item j.

    In units of a click, times the number of clicks of the history to the power `power`.
    """

    weights: Any
    power: float = 0.0

    @classmethod
    def none(cls, n_items: int) -> Neighborhood:
        """No neighbors at all."""
        return cls(sparse.csr_array((n_items, n_items), dtype=np.float32))

    @classmethod
    def of(cls, built: ClickProblem, u: Factored, user_scaling: float) -> Neighborhood:
        """The weights that explain best what U, fitted to the balanced problem, leaves over."""
        n_items, settings = built.problem.pattern.shape[1], built.settings
        if settings.neighbors == 0:
            return cls.none(n_items)
        regression = built.build_regression(
            find_nearest(built.problem.pattern, settings.neighbors, built.genuine), settings.neighbor_scaling
        )
        ridge = Ridge(settings.neighbors, settings.reg_neighbors * regression.mean_diagonal)
        weights = make_click_weights(regression, regression.solve([u], [ridge])[0, 0], built.scaling.item)
        return cls(weights, user_scaling - settings.neighbor_scaling)

    @property
    def is_empty(self) -> bool:
        """Whether no item has a neighbor."""
        return bool(self.weights.nnz == 0)

    def scale(self, clicks: Any, amounts: FloatArray | None = None) -> npt.NDArray[np.float32]:
        """What the weights are multiplied by for each user of `clicks`, csr: shape (n_users,).

        Here and below, `amounts`, (nnz,), are what clicks count for; None: 1.
        """
        scale: npt.NDArray[np.float32] = (count_clicks(clicks, amounts) ** self.power).astype(np.float32)
        return scale

    def add(self, scores: npt.NDArray[np.float32], clicks: Any, rows: Rows, amounts: FloatArray | None = None) -> None:
        """Add what neighbors say to the scores of all items, (len(rows), n_items), of the users at these rows."""
        if not self.is_empty:
            add_products(scores, clicks, rows, self.weights, self.scale(clicks, amounts), amounts)

    def score_pairs(
        self, clicks: Any, user_rows: Rows, item_rows: Rows, amounts: FloatArray | None = None
    ) -> npt.NDArray[np.float32]:
        """What neighbors say of pairs of a user and an item, (n,)."""
        if self.is_empty:
            return np.zeros(len(user_rows), np.float32)
        return multiply_pairs(clicks, user_rows, item_rows, self.weights, self.scale(clicks, amounts), amounts)

    def score_clicks(self, clicks: Any, amounts: FloatArray | None = None) -> npt.NDArray[np.float32]:
        """What neighbors say of every click itself, (nnz,)."""
        if self.is_empty:
            return np.zeros(len(clicks.indices), np.float32)
        return multiply_own(clicks, self.weights, self.scale(clicks, amounts), amounts)

    def explain_history(self, clicks: Any, row: int, item: int, amounts: FloatArray | None = None) -> AnyArray:
        """What each click of the user at a row of `clicks` adds to the score of an item row, (number of clicks,)."""
        mine = slice(clicks.indptr[row], clicks.indptr[row + 1])
        found: AnyArray = self.get_column(item)[clicks.indices[mine]] * self.scale(
            clicks[[row]], None if amounts is None else amounts[mine]
        )
        return found if amounts is None else found * amounts[mine]

    def get_column(self, item: int) -> npt.NDArray[np.float32]:
        """The weights for one item, (n_items,)."""
        column: npt.NDArray[np.float32] = self.weights[:, [item]].toarray()[:, 0]
        return column


def make_click_weights(regression: Regression, solved: Float32Array, item: FloatArray) -> Any:
    """Return weights on the support, (m, K), in units of a click: csr, (m, m); `item`, (m,), is D_i^-b."""
    weights = regression.make_matrix(solved)
    weights.data *= np.repeat(item, np.diff(weights.indptr)) / item[weights.indices]
    return weights


def fold_neighbors(
    problem: Problem, u: Factored, scaling: FloatArray, seen: Any, item: FloatArray, settings: Settings
) -> Any:
    """Return the weights for new items, csr (n_items, new), that explain best what their common taste leaves over.

    `problem` has the new items as rows over the users, U = users @ items.T of `u`, and `scaling`, (new,), is their
    D_i^-b; `item`, (n_items,), that of the known ones, whose events are
    `seen`, csr, with what they count for.
    """
    user = np.maximum(seen.sum(axis=1), 1) ** -settings.neighbor_scaling
    x = sparse.csr_array(sparse.diags_array(item) @ (sparse.diags_array(user) @ seen).T)
    diagonal = np.asarray(x.multiply(x).sum(axis=1))
    ridge = Ridge(settings.neighbors, settings.reg_neighbors * float(diagonal[diagonal > 0].mean()))
    targets = problem.pattern.make_matrix(problem.target)
    support = find_nearest_known(seen, targets, settings.neighbors)
    found = weigh_neighbors(x, targets, *u, support, ridge)
    scaled = [item[rows] * s / mine for rows, s, mine in zip(support, found, scaling, strict=True)]
    return make_weights(support, scaled, seen.shape[1])
