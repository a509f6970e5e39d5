"""The duality gap: how far a fit can be from the optimum, at most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from csrr.arrays import FloatArray
from csrr.optim.krylov import LowRankPlusSparse, spectral_norm
from csrr.optim.lowrank import LowRank
from csrr.optim.problem import Problem

Status = Literal["converged", "max_iter", "timeout", "diverged"]

ROUGH = 0.05
"""How well the norm of the gradient is known where the time is up."""
SLACK = 0.01
"""How far ||gradient||_2 may exceed l1 at a point that passes for optimal, as a share of l1."""


@dataclass(frozen=True)
class Certificate:
    """Proof of how good a fit is: `dual` <= the optimum <= `primal`.

    `gap` is (primal - dual)/primal. `rank_capped` says that a cap on the rank binds: the gap then is to the
    optimum without the cap. `gradient_ratio` is ||gradient||_2 / l1.
    """

    primal: float
    dual: float
    gap: float
    rank: int
    iterations: int
    status: Status
    seconds: float
    rank_capped: bool = False
    gradient_ratio: float | None = None

    @property
    def is_global(self) -> bool:
        """Whether a stationary point is known to be a global optimum: ||gradient||_2 <= l1, to one per cent.

        The gap then is no more than that per cent; a larger one says that the point is not stationary.
        """
        ratio = self.gradient_ratio
        return self.status == "converged" and ratio is not None and ratio <= 1 + SLACK and self.gap <= 2 * SLACK

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        capped = ", rank capped" if self.rank_capped else ""
        return (
            f"{self.status}: objective {self.primal:.6g}, within {self.gap:.2g} of the optimum, rank {self.rank}"
            f"{capped}, {self.iterations} iterations, {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class Point:
    """U with what both its primal and its dual value need.

    `observed`, U on the observed cells, and `pull` there, (nnz,) each; `unobserved` is sum_unobs U^2.
    """

    low_rank: LowRank
    observed: FloatArray
    pull: FloatArray
    unobserved: float
    nuclear_norm: float

    @classmethod
    def at(cls, problem: Problem, low_rank: LowRank, *, exact: bool = False) -> Point:
        """The point U; `exact` takes the norms from the factors as rounded, not from the singular values."""
        u, engine = low_rank.evaluate_on(problem.pattern), problem.engine
        squared = low_rank.trimmed().squared_norm(engine) if exact else float(low_rank.s @ low_rank.s)
        nuclear = low_rank.nuclear_norm(engine) if exact else float(low_rank.s.sum())
        unobserved = max(squared - engine.sum_cells(sum_squares, u), 0.0)
        return cls(low_rank, u, problem.pull(u), unobserved, nuclear)

    @property
    def gradient_values(self) -> FloatArray:
        """S, (nnz,): the gradient is U + S, S on the observed cells."""
        return -(self.pull + self.observed)

    def primal(self, problem: Problem) -> float:
        """The objective at U, V minimised out."""
        return problem.l1 * self.nuclear_norm + 0.5 * self.unobserved + problem.observed_loss(self.observed)

    def dual(self, problem: Problem, gradient_norm: float) -> float:
        """The dual value at Y = c*(pull on observed cells, -U elsewhere), c so that ||Y||_2 <= l1."""
        c = min(1.0, problem.l1 / gradient_norm) if gradient_norm > 0 else 1.0
        return problem.observed_dual(self.pull * self.pull.dtype.type(c)) - 0.5 * c**2 * self.unobserved


def sum_squares(u: FloatArray) -> float:
    """The sum of the squares of u, (cells,), in double precision."""
    return float(np.sum(u.astype(np.float64) ** 2))


class Gap(NamedTuple):
    """primal >= optimum >= dual, ||gradient||_2 (rounded up), and the leading triplets of the gradient."""

    primal: float
    dual: float
    gradient_norm: float
    leading: LowRank


def duality_gap(problem: Problem, low_rank: LowRank, rng: np.random.Generator, rtol: float) -> Gap:
    """The primal and the dual value at U; the norm of the gradient is taken to about rtol.

    A norm that is only roughly known, to a hundredth or worse, counts for as much larger.
    """
    point = Point.at(problem, low_rank, exact=True)
    gradient = LowRankPlusSparse(low_rank, problem.pattern, point.gradient_values)
    norm, leading = spectral_norm(gradient, rng, dtype=low_rank.left.dtype.type, rtol=rtol)
    # The products behind the norm are rounded; the bound must not be.
    norm *= 1 + 100 * float(np.finfo(low_rank.left.dtype).eps)
    if rtol >= ROUGH:
        norm *= 1 + rtol
    return Gap(point.primal(problem), point.dual(problem, norm), norm, leading)


def relative_gap(primal: float, dual: float) -> float:
    """(primal - dual)/primal; 0 where both are 0."""
    return (primal - dual) / primal if primal > 0 else 0.0
