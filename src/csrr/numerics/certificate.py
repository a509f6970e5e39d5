"""The duality gap: how far a fit can be from the optimum, at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import ceil, floor, isinf, log10
from typing import Any, Literal, NamedTuple

import numpy as np

from csrr._base.arrays import FloatArray
from csrr._base.text import FactSheet
from csrr.numerics.krylov import LowRankPlusSparse, eigh_falling, estimate_spectral_norm, orthonormalize
from csrr.numerics.problem import LowRank, Problem

Status = Literal["converged", "rank_cap", "max_iter", "timeout", "diverged"]
"""Reasons why a solver stopped: at a gap of `tol`; where the bound on the rank lets the objective fall no more; at a
limit."""

_ROUNDING = 2.0
"""Measured errors of sums and norms are up to half a machine epsilon of what is added up; so many are allowed for."""

ROUGH = 0.05
"""The relative error of the norm of the gradient where the time is up."""
_PRECISE = 5e-4
"""The error of the norm below which no small random space will do: the gradient's singular values lie too close."""
_LARGEST_RATIO = 1e300
"""Of ||gradient||_2 to l1."""
SLACK = 0.01
"""The share of l1 by which ||gradient||_2 may exceed it at a point that passes for optimal."""


@dataclass(frozen=True)
class Certificate(FactSheet):
    """Proof of how good the low-rank part of a fit is: `dual` <= the optimum <= `primal`.

    `gap` is (primal - dual)/primal, by which solvers stop; `excess` is (primal - dual)/dual: the objective is at most
    that share above the optimum. `rank_capped` says that a limit on the rank binds: both then are about the optimum
    without the limit, and `span_dual` is a lower bound for U within the item directions that were found, whose
    excess is `span_excess`. `gradient_ratio` is ||gradient||_2 / l1. `rounding` is the share of `primal` that the
    bounds were lowered by, so that they hold in spite of rounding. `has_neighbors` says that the scores have a second
    part, neighbors, which is fitted to what U leaves over and of which the bounds say nothing.
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
    span_dual: float | None = None
    has_neighbors: bool = False

    @property
    def excess(self) -> float:
        """(primal - dual)/dual: by what share the objective can exceed the optimum; infinite if `dual` is 0."""
        return _compute_excess(self.primal, self.dual)

    @property
    def span_excess(self) -> float | None:
        """The same for the best U within the item directions that were found; None if no rank limit binds."""
        return None if self.span_dual is None else _compute_excess(self.primal, self.span_dual)

    @property
    def is_global(self) -> bool:
        """Whether a stationary point is known to be a global optimum: ||gradient||_2 <= l1, to one per cent.

        The gap then is no more than that per cent; a larger one says that the point is not stationary.
        """
        ratio = self.gradient_ratio
        return self.status == "converged" and ratio is not None and ratio <= 1 + SLACK and self.gap <= 2 * SLACK

    def to_dict(self) -> dict[str, Any]:
        """The fields and both excesses as plain values."""
        return asdict(self) | {"excess": self.excess, "span_excess": self.span_excess}

    @property
    def claim(self) -> str:
        """A sentence that says what is proved."""
        if not self.rank_capped:
            said = f"{_say_excess(self.excess)} above the optimum of the low-rank part"
            return said + " (most of it is rounding)" * (self.gap < 2 * self.rounding)
        said = f"limited to rank {self.rank}: "
        if self.span_excess is not None:
            said += f"{_say_excess(self.span_excess)} above the best within its item directions; "
        return f"{said}not the optimum of the unlimited problem ({_say_excess(self.excess)} above that)"

    def __str__(self) -> str:
        beside = "; the neighbors are not covered" * self.has_neighbors
        return (
            f"{self._status_words}: objective {self.primal:.6g}, {self.claim}{beside}; rank {self.rank},"
            f" {self.iterations} iterations, {self.seconds:.2f} s"
        )

    @property
    def facts(self) -> dict[str, object]:
        """The fields in words, by name, as notebooks show them."""
        ratio, span = self.gradient_ratio, self.span_excess
        return {
            "status": self._status_words,
            "objective of the low-rank part": f"{self.primal:.6g}",
            "the optimum is at least": f"{self.dual:.6g}",
            "above the optimum" + " without the rank limit" * self.rank_capped: _say_excess(self.excess),
            "above the best within its item directions": None if span is None else _say_excess(span),
            "not covered": "the neighbors" if self.has_neighbors else None,
            "rank": self.rank,
            "iterations": self.iterations,
            "norm of the gradient / l1": None if ratio is None else f"{ratio:.6g}",
            "seconds": f"{self.seconds:.2f}",
        }

    @property
    def _status_words(self) -> str:
        return "settled at its rank limit" if self.status == "rank_cap" else self.status


def _compute_excess(primal: float, dual: float) -> float:
    """(primal - dual)/dual; 0 where both are 0, infinite where only the bound is."""
    if dual > 0:
        return max(primal / dual - 1, 0.0)
    return float("inf") if primal > 0 else 0.0


def _say_excess(excess: float) -> str:
    """The excess in per cent, rounded up to two digits, so that what is printed holds."""
    if excess == 0 or isinf(100 * excess):
        return "0 %" if excess == 0 else "any amount"
    step = 10.0 ** (floor(log10(100 * excess)) - 1)
    shown = ceil(100 * excess / step) * step
    return f"at most {shown:,.0f} %" if shown >= 10 else f"at most {shown:.2g} %"


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
    """primal >= optimum >= dual, ||gradient||_2 (rounded up), its leading triplets, once asked for, and `rounding`.

    `rounding` is what `dual` was lowered by, so that it is a bound in spite of rounding. `span_dual`, if it was asked
    for, bounds the objective from below for U within the item directions of the point.
    """

    primal: float
    dual: float
    gradient_norm: float
    find_leading: Callable[[], LowRank]
    rounding: float
    span_dual: float | None = None

    @property
    def relative(self) -> float:
        """(primal - dual)/primal."""
        return compute_relative_gap(self.primal, self.dual)

    def certify(
        self, problem: Problem, rank: int, iterations: int, status: Status, seconds: float, rank_capped: bool
    ) -> Certificate:
        """The certificate of a solver that stopped here."""
        # No more than all of it: at strengths next to 0 rounding is more than the objective.
        share = min(self.rounding / self.primal, 1.0) if self.primal > 0 else 0.0
        span_dual = self.span_dual if rank_capped else None
        # At strengths next to 0 the ratio is beyond all numbers.
        ratio = self.gradient_norm / problem.l1 if self.gradient_norm / _LARGEST_RATIO < problem.l1 else None
        return Certificate(
            *(self.primal, self.dual, self.relative, rank, iterations, status, seconds, rank_capped, ratio, share),
            span_dual=span_dual,
        )


def compute_gap(
    problem: Problem, low_rank: LowRank, rng: np.random.Generator, rtol: float, *, in_span: bool = False
) -> Gap:
    """The primal and the dual value at U; the norm of the gradient is taken to about rtol.

    `in_span` asks for the bound within the item directions of U, too.

    Where rounding would blur them by more than that, they are computed in double precision. A norm that is asked for
    roughly, to `_PRECISE` or worse, counts for rtol larger.
    """
    point = Point.at(problem, low_rank, exact=True)
    rounding, of_norm = _allow_for_rounding(problem, point)
    is_blurred = rounding > rtol * point.compute_primal(problem) or of_norm > rtol * problem.l1
    if is_blurred and problem.target.dtype != np.float64:
        exact = compute_gap(problem.astype(np.float64), low_rank.astype(np.float64), rng, rtol, in_span=in_span)
        # Whoever goes on from these directions does so in the precision of the problem.
        return exact._replace(find_leading=lambda: exact.find_leading().astype(problem.target.dtype.type))
    gradient = LowRankPlusSparse(low_rank, problem.pattern, point.gradient_values)
    # At the optimum the gradient has as many singular values of l1 as U has of its own, with the same vectors.
    near = low_rank.trim() if rtol < _PRECISE else None
    norm, find_leading = estimate_spectral_norm(gradient, rng, dtype=low_rank.left.dtype.type, rtol=rtol, near=near)

    # The products behind the norm are rounded; the bound must not be.
    def bound(norm: float) -> float:
        # No objective is below zero.
        return max(point.compute_dual(problem, norm) - rounding, 0.0)

    margin = 1 + 100 * float(np.finfo(low_rank.left.dtype).eps)
    norm = norm * margin + of_norm
    if near is None:
        norm *= 1 + rtol
    span_dual = bound(compute_span_norm(gradient) * margin + of_norm) if in_span else None
    return Gap(point.compute_primal(problem), bound(norm), norm, find_leading, rounding, span_dual)


def compute_span_norm(gradient: LowRankPlusSparse) -> float:
    """||gradient Q||_2 for the item directions Q, (m, k), of its low-rank part.

    For U = W Q' the nuclear norm is that of W, so a dual point Y need only satisfy ||Y Q||_2 <= l1 there.
    """
    image = gradient.times(orthonormalize(gradient.engine, gradient.low_rank.right))
    return float(np.sqrt(eigh_falling(gradient.engine.cross(image, image))[0][:1].sum()))


def _allow_for_rounding(problem: Problem, point: Point) -> tuple[float, float]:
    """Bounds on the rounding errors of primal and dual together, and of the norm of the gradient.

    On cells that are fitted well, U and the target cancel: what is left is small, its error is not.
    """
    eps = _ROUNDING * float(np.finfo(point.observed.dtype).eps)
    size = float(np.sqrt(point.unobserved + problem.engine.sum_cells(sum_squares, point.observed)))
    pull = float(np.sqrt(problem.engine.sum_cells(sum_squares, point.pull)))
    return 2 * eps * (size * (size + pull) + point.compute_primal(problem)), eps * size


def compute_relative_gap(primal: float, dual: float) -> float:
    """(primal - dual)/primal; 0 where both are 0."""
    return (primal - dual) / primal if primal > 0 else 0.0
