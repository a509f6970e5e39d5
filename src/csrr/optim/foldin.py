"""The user side given the item side: a small convex problem a user, solved for many at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from csrr.optim.pattern import Floats
from csrr.optim.problem import Problem


@dataclass(frozen=True, eq=False)
class ItemSide:
    """The balanced item factors Q, (m, k), of a solution, and the inverse of Q'Q + l1*I, (k, k)."""

    factors: Floats
    inverse: Floats

    @classmethod
    def of(cls, factors: Floats, l1: float) -> ItemSide:
        gram = (factors.T @ factors).astype(np.float64)
        inverse = linalg.inv(gram + l1 * np.eye(len(gram)), check_finite=False) if len(gram) else gram
        return cls(factors, inverse.astype(factors.dtype))


def fold_in(
    problem: Problem, side: ItemSide, start: Floats | None = None, *, tol: float = 1e-3, max_iter: int = 200
) -> Floats:
    """The user factors P, (n, k), that minimise, Q fixed,

        l1/2*||P||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2.

    Steps P <- P + eta*(c Q (Q'Q + l1*I)^-1 - P), c = pull + PQ' on the observed cells, until none moves a user by
    more than tol of the largest factor norm; at the fixed point P is a sum over the user's items (see `shares`).
    """
    rows = problem.pattern.shape[0]
    factors = np.zeros((rows, side.factors.shape[1]), side.factors.dtype) if start is None else start.copy()
    step = factors.dtype.type(2 / (problem.smoothness + problem.convexity))
    for _ in range(max_iter):
        observed = problem.pattern.dots(factors, side.factors)
        move = problem.pattern.times(problem.pull(observed) + observed, side.factors) @ side.inverse
        move -= factors
        factors += step * move
        moved = np.sqrt(np.einsum("ik,ik->i", move, move).max(initial=0))
        largest = np.sqrt(np.einsum("ik,ik->i", factors, factors).max(initial=0))
        if moved <= tol * largest or moved == 0:
            break
    return factors


def shares(problem: Problem, side: ItemSide, factors: Floats, item: int) -> Floats:
    """What each observed cell of a one-user problem adds to that user's value for `item`, (nnz,).

    At a solution P = sum_j c_j q_j (Q'Q + l1*I)^-1, c = pull + PQ', so the value is a sum over the user's cells.
    """
    observed = problem.pattern.dots(factors, side.factors)
    weights = problem.pull(observed) + observed
    along: Floats = side.factors[problem.pattern.indices] @ (side.inverse @ side.factors[item])
    return weights * along
