"""The user side given the item side: a small convex problem a user, solved for many at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from csrr._base.arrays import FloatArray
from csrr.numerics.engine import Engine
from csrr.numerics.factored import descend
from csrr.numerics.krylov import eigh_falling
from csrr.numerics.problem import Problem


@dataclass(frozen=True, eq=False)
class ItemSide:
    """The item factors Q, (m, k), of a solution; Q'Q = turn @ diag(curvature) @ turn.T; `turned` is Q @ turn, (m, k).

    `turn` is (k, k), `curvature` (k,).
    """

    factors: FloatArray
    turned: FloatArray
    turn: FloatArray
    curvature: FloatArray
    l1: float

    @classmethod
    def of(cls, factors: FloatArray, l1: float, engine: Engine) -> ItemSide:
        """The item side with factors Q, (m, k)."""
        curvature, turn = eigh_falling(engine.cross(factors, factors))
        turn = turn.astype(factors.dtype)
        # A penalty below what rounding makes of Q'Q holds nothing back.
        least = float(np.finfo(factors.dtype).eps * curvature.max(initial=0))
        return cls(factors, engine.multiply(factors, turn), turn, curvature, max(l1, least))

    @property
    def inverse(self) -> FloatArray:
        """(Q'Q + l1*I)^-1, (k, k)."""
        scaled: FloatArray = self.turn / (self.curvature + self.l1).astype(self.turn.dtype)
        return scaled @ self.turn.T


def fold_in(
    problem: Problem, side: ItemSide, start: FloatArray | None = None, *, tol: float = 1e-3, max_iter: int = 200
) -> FloatArray:
    """The user factors P, (n, k), that minimize, Q fixed,

        l1/2*||P||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2.

    Alternates V at its best and two steps of conjugate gradients, until none moves a user by more than tol of
    the largest factor norm; at the minimum P is a sum over the user's items (see `explain_value`).
    """
    pattern, engine = problem.pattern, problem.engine
    if start is None:
        factors = engine.put(pattern, np.zeros((pattern.shape[0], len(side.turn)), side.turn.dtype))
    else:
        factors = engine.multiply(start, side.turn)
    reg = engine.put(pattern, np.full(pattern.shape[0], side.l1))
    for _ in range(max_iter):
        before = factors
        factors, _ = descend(problem, before, side.turned, side.curvature, reg, steps=2)
        moved, largest = engine.find_largest_norm(before - factors), engine.find_largest_norm(factors)
        if moved <= tol * largest or moved == 0:
            break
    return engine.multiply(factors, side.turn.T)


def explain_value(problem: Problem, side: ItemSide, factors: FloatArray, item: int) -> FloatArray:
    """What each observed cell of a one-user problem adds to that user's value for `item`, (nnz,).

    At a solution P = sum_j c_j q_j (Q'Q + l1*I)^-1, c = pull + PQ', so the value is a sum over the user's cells.
    """
    observed = problem.pattern.dots(factors, side.factors)
    weights = problem.pull(observed) + observed
    # Of factors far apart in size curvature is rounded to less than nothing: l1 alone is left, or the least there is.
    strengths = (side.curvature + side.l1).astype(side.turn.dtype)
    least = float(np.finfo(strengths.dtype).tiny)
    towards = side.turned[item] / np.where(strengths > least, strengths, strengths.dtype.type(max(side.l1, least)))
    along: FloatArray = side.turned[problem.pattern.indices] @ towards
    return weights * along
