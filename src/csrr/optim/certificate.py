"""The duality gap: how far a fit can be from the optimum, at most."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from csrr.arrays import FloatArray
from csrr.html_text import format_html_facts
from csrr.optim.krylov import LowRankPlusSparse, estimate_spectral_norm
from csrr.optim.lowrank import LowRank
from csrr.optim.problem import Problem

Status = Literal["converged", "rank_cap", "max_iter", "timeout", "diverged"]
"""Why a solver stopped: at a gap of `tol`; where the cap on the rank lets the objective fall no more; at a limit."""

_ROUNDING = 2.0
"""Measured errors of sums and norms are up to half a machine epsilon of what is added up; so many are allowed for."""

ROUGH = 0.05
"""How well the norm of the gradient is known where the time is up."""
_PRECISE = 5e-4
"""The error of the norm below which no small random space will do: the gradient's singular values lie too close."""
_LARGEST_RATIO = 1e300
"""Of ||gradient||_2 to l1."""
SLACK = 0.01
"""How far ||gradient||_2 may exceed l1 at a point that passes for optimal, as a share of l1."""


@dataclass(frozen=True)
class Certificate:
    """Proof of how good a fit is: `dual` <= the optimum <= `primal`.

    `gap` is (primal - dual)/primal. `rank_capped` says that a cap on the rank binds: the gap then is to the
    optimum without the cap. `gradient_ratio` is ||gradient||_2 / l1. `rounding` is the share of `primal` that `dual`
    was lowered by, so that the bound holds in spite of rounding.
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
    rounding: float = 0.0

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
        status = "settled at its rank limit" if self.status == "rank_cap" else self.status
        without = " without the limit" if self.rank_capped else ""
        if self.gap < 2 * self.rounding:
            without += " (most of it is rounding)"
        return (
            f"{status}: objective {self.primal:.6g}, within {self.gap:.2g} of the optimum{without}, rank {self.rank},"
            f" {self.iterations} iterations, {self.seconds:.2f} s"
        )

    def _repr_html_(self) -> str:
        status = "settled under its cap on the rank" if self.status == "rank_cap" else self.status
        ratio = self.gradient_ratio
        facts = {
            "status": status,
            "objective": f"{self.primal:.6g}",
            "the optimum is at least": f"{self.dual:.6g}",
            "relative gap": f"{self.gap:.2g}" + (" without the cap on the rank" if self.rank_capped else ""),
            "rank": self.rank,
            "iterations": self.iterations,
            "norm of the gradient / l1": None if ratio is None else f"{ratio:.6g}",
            "seconds": f"{self.seconds:.2f}",
        }
        return format_html_facts(facts)


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
        squared = low_rank.trim().compute_squared_norm(engine) if exact else float(low_rank.s @ low_rank.s)
        nuclear = low_rank.compute_nuclear_norm(engine) if exact else float(low_rank.s.sum())
        unobserved = max(squared - engine.sum_cells(sum_squares, u), 0.0)
        return cls(low_rank, u, problem.pull(u), unobserved, nuclear)

    @property
    def gradient_values(self) -> FloatArray:
        """S, (nnz,): the gradient is U + S, S on the observed cells."""
        return -(self.pull + self.observed)

    def compute_primal(self, problem: Problem) -> float:
        """The objective at U, V minimized out."""
        return problem.l1 * self.nuclear_norm + 0.5 * self.unobserved + problem.sum_observed_loss(self.observed)

    def compute_dual(self, problem: Problem, gradient_norm: float) -> float:
        """The dual value at Y = c*(pull on observed cells, -U elsewhere), c so that ||Y||_2 <= l1."""
        c = min(1.0, problem.l1 / gradient_norm) if gradient_norm > 0 else 1.0
        return problem.sum_observed_dual(self.pull * self.pull.dtype.type(c)) - 0.5 * c**2 * self.unobserved


def sum_squares(u: FloatArray) -> float:
    """The sum of the squares of u, (cells,), in double precision."""
    return float(np.sum(u.astype(np.float64) ** 2))


class Gap(NamedTuple):
    """primal >= optimum >= dual, ||gradient||_2 (rounded up), the leading triplets of the gradient, and `rounding`.

    `rounding` is what `dual` was lowered by, so that it is a bound in spite of rounding.
    """

    primal: float
    dual: float
    gradient_norm: float
    leading: LowRank
    rounding: float

    @property
    def relative(self) -> float:
        """(primal - dual)/primal."""
        return compute_relative_gap(self.primal, self.dual)

    def certify(
        self, problem: Problem, rank: int, iterations: int, status: Status, seconds: float, rank_capped: bool
    ) -> Certificate:
        """The certificate of a solver that stopped here."""
        share = self.rounding / self.primal if self.primal > 0 else 0.0
        # At strengths next to 0 the ratio is beyond all numbers.
        ratio = self.gradient_norm / problem.l1 if self.gradient_norm / _LARGEST_RATIO < problem.l1 else None
        return Certificate(
            *(self.primal, self.dual, self.relative, rank, iterations, status, seconds, rank_capped, ratio, share)
        )


def compute_gap(problem: Problem, low_rank: LowRank, rng: np.random.Generator, rtol: float) -> Gap:
    """The primal and the dual value at U; the norm of the gradient is taken to about rtol.

    Where rounding would blur them by more than that, they are computed in double precision. A norm that is asked for
    roughly, to `_PRECISE` or worse, counts for rtol larger.
    """
    point = Point.at(problem, low_rank, exact=True)
    rounding, of_norm = _allow_for_rounding(problem, point)
    is_blurred = rounding > rtol * point.compute_primal(problem) or of_norm > rtol * problem.l1
    if is_blurred and problem.target.dtype != np.float64:
        return compute_gap(problem.astype(np.float64), low_rank.astype(np.float64), rng, rtol)
    gradient = LowRankPlusSparse(low_rank, problem.pattern, point.gradient_values)
    # At the optimum the gradient has as many singular values of l1 as U has of its own, with the same vectors.
    near = low_rank.trim() if rtol < _PRECISE else None
    norm, leading = estimate_spectral_norm(gradient, rng, dtype=low_rank.left.dtype.type, rtol=rtol, near=near)
    # The products behind the norm are rounded; the bound must not be.
    norm = norm * (1 + 100 * float(np.finfo(low_rank.left.dtype).eps)) + of_norm
    if near is None:
        norm *= 1 + rtol
    # No objective is below zero.
    dual = max(point.compute_dual(problem, norm) - rounding, 0.0)
    return Gap(point.compute_primal(problem), dual, norm, leading, rounding)


def _allow_for_rounding(problem: Problem, point: Point) -> tuple[float, float]:
    """What primal and dual together, and the norm of the gradient, may be off by rounding.

    On cells that are fitted well, U and the target cancel: what is left is small, its error is not.
    """
    eps = _ROUNDING * float(np.finfo(point.observed.dtype).eps)
    size = float(np.sqrt(point.unobserved + problem.engine.sum_cells(sum_squares, point.observed)))
    pull = float(np.sqrt(problem.engine.sum_cells(sum_squares, point.pull)))
    return 2 * eps * (size * (size + pull) + point.compute_primal(problem)), eps * size


def compute_relative_gap(primal: float, dual: float) -> float:
    """(primal - dual)/primal; 0 where both are 0."""
    return (primal - dual) / primal if primal > 0 else 0.0
