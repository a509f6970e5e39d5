"""The problem in factors, U = P Q': alternating half-steps, one function for both sides by transposing."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from csrr.optim import tall
from csrr.optim.certificate import SLACK, Certificate, Status, duality_gap, relative_gap
from csrr.optim.factor_loops import descend_rows, pulled_sums
from csrr.optim.krylov import eigh_falling, orthonormal
from csrr.optim.lowrank import LowRank
from csrr.optim.pattern import Floats, Pattern
from csrr.optim.problem import Problem
from csrr.optim.solver import Callback, Options, Step
from csrr.threads import run_ranges

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Factors:
    """P of (n, d) and Q of (m, d); the matrix is P Q'."""

    users: Floats
    items: Floats

    @property
    def T(self) -> Factors:
        """The factors of the transposed matrix."""
        return Factors(self.items, self.users)

    @classmethod
    def of(cls, u: LowRank) -> Factors:
        """The balanced factors: P = left*sqrt(s), Q = right*sqrt(s)."""
        root = np.sqrt(u.s).astype(u.left.dtype)
        return cls(u.left * root, np.ascontiguousarray(u.right * root))

    def low_rank(self) -> LowRank:
        """The singular triplets of P Q', those that are nothing left out."""
        balanced, s = self.balanced()
        keep = s > max(_nothing(self.users.dtype) * s.max(initial=0), _LEAST)
        scale = (s[keep] ** -0.5).astype(self.users.dtype)
        left, right = (np.ascontiguousarray(f[:, keep]) for f in (balanced.users, balanced.items))
        left *= scale
        right *= scale
        return LowRank(left, s[keep], right)

    def balanced(self, diagonal: Floats | None = None) -> tuple[Factors, Floats]:
        """Factors of the same matrix with P'P = Q'Q = diag(s), s its singular values: the least ||P||^2 + ||Q||^2.

        With P'P = E diag(g) E' and R = E diag(sqrt(g)), the squares of the singular values are the eigenvalues of
        R'(Q'Q)R = F diag(s^2) F', so P E diag(1/sqrt(g)) F diag(sqrt(s)) and Q R F diag(1/sqrt(s)) do. Where s is
        rounding, the factors are smaller than balanced ones; what is returned as s is always the diagonal of Q'Q.
        `diagonal`, if given, is g where P'P is known to be diagonal.
        """
        nothing = _nothing(self.users.dtype)
        if diagonal is None:
            g, E = eigh_falling(tall.gram(self.users))
        else:
            g, E = diagonal, np.eye(len(diagonal))
        root = np.sqrt(np.maximum(g, nothing**2 * max(float(g.max(initial=0)), _LEAST)))
        R = E * root
        squares, F = eigh_falling(R.T @ tall.gram(self.items) @ R)
        s = np.sqrt(squares)
        s = np.maximum(s, nothing * max(float(s.max(initial=0)), _LEAST))
        dtype = self.users.dtype
        users = tall.times(self.users, ((E / root) @ (F * np.sqrt(s))).astype(dtype))
        items = tall.times(self.items, ((R @ F) / np.sqrt(s)).astype(dtype))
        # Not squares/s: where that is rounding it is far from the diagonal, and the next step would rise.
        return Factors(users, items), np.einsum("ik,ik->k", items, items, dtype=np.float64)

    def turned(self) -> tuple[Factors, Floats]:
        """Factors of the same matrix, turned so that Q'Q is diagonal, and that diagonal."""
        g, E = eigh_falling(tall.gram(self.items))
        turn = E.astype(self.users.dtype)
        return Factors(tall.times(self.users, turn), tall.times(self.items, turn)), g


# Of a matrix that is nothing at all: what can still be divided by in single precision.
_LEAST = 1e-30


def _nothing(dtype: Any) -> float:
    """The share of the largest singular value below which another is rounding."""
    return 1e-6 if dtype == np.float32 else 1e-9


def _cells(problem: Problem) -> tuple[Any, ...]:
    """The observed cells as the compiled loops take them; without V, its penalty is any array."""
    pattern, cap = problem.pattern, problem.target if problem.cap is None else problem.cap
    return pattern.indptr, pattern.indices, problem.target, problem.weight, cap, problem.cap is not None


def descend(
    problem: Problem, own: Floats, other: Floats, curvature: Floats, reg: Floats, steps: int, relax: float = 1.0
) -> float:
    """Lowers the objective over `own`, (n, d), in place, `other`, (m, d), held fixed; returns it as it was before,
    less the penalty of `other`:

        sum_i reg_i/2*||own_i||^2 + sum_obs h(u) + 1/2*sum_unobs u^2,   u = own other'.

    other'other must be diag(curvature). Costs `steps` + 1 passes over the observed cells; 0 steps only evaluate. The
    last step is `relax` times as long as is best for `own` alone, which may be better for what follows.
    """
    pattern = problem.pattern
    loss = np.empty(pattern.shape[0])
    dtype = own.dtype
    fixed = _cells(problem)
    moving = (own, np.ascontiguousarray(other), curvature.astype(dtype), reg.astype(dtype), steps, relax, loss)
    run_ranges(lambda a, b: descend_rows(a, b, *fixed, *moving), pattern.bounds)
    return float(loss.sum())


def pulled(problem: Problem, own: Floats, other: Floats) -> tuple[Floats, float]:
    """(-h'(u) + u on the observed cells) @ other, (n, d), and sum_obs (h(u) - u^2/2), u = own other'."""
    pattern = problem.pattern
    out, loss = np.empty_like(own), np.empty(pattern.shape[0])
    run_ranges(lambda a, b: pulled_sums(a, b, *_cells(problem), own, other, out, loss), pattern.bounds)
    return out, float(loss.sum())


def objective(problem: Problem, factors: Factors) -> float:
    """l1/2*(||P||^2 + ||Q||^2) + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2."""
    P, Q = factors.users, factors.items
    _, loss = pulled(problem, P, Q)
    grams = [tall.gram(f) for f in (P, Q)]
    return loss + 0.5 * float(np.sum(grams[0] * grams[1])) + 0.5 * problem.l1 * float(sum(map(np.trace, grams)))


def leading_factors(
    pattern: Pattern, values: Floats, rank: int, threshold: float, rng: np.random.Generator, passes: int = 2
) -> Factors:
    """Balanced factors, rank `rank`, of a rough soft-thresholded SVD of the sparse matrix with `values`.

    Singular values below the threshold keep a thousandth, so that their directions can grow.
    """
    dtype = values.dtype
    width = min(rank + rank // 10 + 8, *pattern.shape)
    right = rng.standard_normal((pattern.shape[1], width), dtype.type)
    flipped, flipped_values = pattern.T, pattern.transposed(values)
    for is_later in range(passes):
        start = orthonormal(right, rounds=1) if is_later else right
        left = orthonormal(pattern.times(values, start), rounds=1)
        right = flipped.times(flipped_values, left)
    squares, turn = eigh_falling(tall.gram(right))
    s = np.sqrt(squares[:rank])
    turn = turn[:, :rank]
    floor = max(float(s[0]), 1e-300) * 1e-3 if len(s) else 1.0
    kept = np.sqrt(np.maximum(s - threshold, 1e-3 * np.maximum(s, floor)))
    users = tall.times(left, (turn * kept).astype(dtype))
    items = tall.times(right, (turn * (kept / np.maximum(s, floor))).astype(dtype))
    return widened(Factors(users, items), rank, rng)


def first_factors(problem: Problem, rank: int, rng: np.random.Generator) -> Factors:
    """Factors to begin with: one proximal step from zero, V left out, roughly."""
    scale = problem.smoothness
    values = problem.weight * problem.target / problem.target.dtype.type(scale)
    return leading_factors(problem.pattern, values, rank, problem.l1 / scale, rng)


def widened(factors: Factors, rank: int, rng: np.random.Generator) -> Factors:
    """The factors with exactly `rank` columns: the last ones cut off, or small random ones added.

    A column that is zero in both would stay so.
    """
    missing = rank - factors.users.shape[1]
    if missing <= 0:
        return Factors(*(np.ascontiguousarray(f[:, :rank]) for f in (factors.users, factors.items)))

    def extended(f: Floats) -> Floats:
        size = 1e-2 * np.sqrt(np.mean(f**2)) if f.size else 1e-2
        return np.hstack([f, (size * rng.standard_normal((len(f), missing))).astype(f.dtype)])

    return Factors(extended(factors.users), extended(factors.items))


def lower(problem: Problem, start: Factors, other: Factors) -> Factors:
    """`start`, unless the objective is lower at `other`: a start at or near zero is a saddle that looks like rest."""
    return start if objective(problem, start) <= objective(problem, other) else other


class Alternation(NamedTuple):
    """Where alternating between the sides came to rest, and why."""

    factors: Factors
    status: Status
    history: list[Step]


def alternate(
    problem: Problem,
    regs: tuple[Floats, Floats],
    factors: Factors,
    options: Options,
    *,
    callback: Callback | None = None,
    began: float | None = None,
) -> Alternation:
    """Factors that lower, from `factors` on,

        sum_i regs[0]_i/2*||p_i||^2 + sum_j regs[1]_j/2*||q_j||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2

    by half-steps, P and Q in turns, until an iteration lowers it by less than options.tol of it; it never rises.
    Before a half-step the factors are turned so that the Gram matrix of the fixed side is diagonal and, where all
    regs are one number, balanced, which lowers the penalty. `callback` sees every step and may raise to stop.
    """
    began = time.perf_counter() if began is None else began
    is_uniform = min(r.min() for r in regs) == max(r.max() for r in regs)

    def prepared(factors: Factors, diagonal: Floats | None) -> tuple[Factors, Floats]:
        return factors.balanced(diagonal) if is_uniform else factors.turned()

    steps = 1 if problem.smoothness <= _ONE_STEP_UP_TO else 2
    history: list[Step] = []
    curvature = None
    for iteration in range(options.max_iter + 1):
        factors, curvature = prepared(factors, curvature)
        value = 0.5 * float(regs[1] @ np.einsum("ik,ik->i", factors.items, factors.items, dtype=np.float64))
        value += descend(problem, factors.users, factors.items, curvature, regs[0], steps, _RELAX)
        seconds = time.perf_counter() - began
        rank = int(np.count_nonzero(curvature > _nothing(factors.users.dtype) * curvature[0]))
        history.append(Step(iteration, value, float("nan"), rank, seconds))
        logger.debug("%s", history[-1])
        if callback is not None:
            callback(history[-1])
        if iteration and history[-2].objective - value <= options.tol * value:
            return Alternation(factors, "converged", history)
        if options.time_limit is not None and seconds > options.time_limit:
            return Alternation(factors, "timeout", history)
        flipped, curvature = prepared(factors.T, curvature)
        descend(problem.T, flipped.users, flipped.items, curvature, regs[1], steps, _RELAX)
        factors = flipped.T
    return Alternation(factors, "max_iter", history)


# Up to this weight one step of conjugate gradients a half-step is the quickest way down; beyond, two.
_ONE_STEP_UP_TO = 4.0
# The other side will follow: going beyond what is best for one side alone saves about one iteration in six.
_RELAX = 1.3


@dataclass(frozen=True)
class FactoredSolution:
    """P and Q with their certificate and the trace of the solver."""

    factors: Factors
    certificate: Certificate
    history: list[Step]


def solve_factored(
    problem: Problem,
    rank: int,
    options: Options,
    *,
    start: LowRank | None = None,
    callback: Callback | None = None,
) -> FactoredSolution:
    """A stationary point of the factored form of `problem`, P of (n, rank) and Q of (m, rank):

        minimise  l1/2*(||P||^2 + ||Q||^2) + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2.

    Alternates (see `alternate`) from a rough SVD of the targets, or from `start` where that is lower.
    """
    began = time.perf_counter()
    rng = np.random.default_rng(options.seed)
    factors = first_factors(problem, rank, rng)
    if start is not None:
        factors = lower(problem, widened(Factors.of(start), rank, rng), factors)
    n, m = problem.pattern.shape
    regs = np.full(n, problem.l1), np.full(m, problem.l1)
    factors, status, history = alternate(problem, regs, factors, options, callback=callback, began=began)
    certificate = certify(problem, factors, options, history, status, began, rng)
    return FactoredSolution(factors, certificate, history)


def certify(
    problem: Problem,
    factors: Factors,
    options: Options,
    history: list[Step],
    status: Status,
    began: float,
    rng: np.random.Generator,
) -> Certificate:
    """How far P Q' is from the optimum of the convex problem, at most."""
    u = factors.low_rank()
    primal, dual, norm, _ = duality_gap(problem, u, rng, rtol=min(0.01, 10 * options.tol))
    gap, ratio = relative_gap(primal, dual), norm / problem.l1
    is_full = u.rank == factors.users.shape[1] < min(problem.pattern.shape)
    capped = is_full and gap > options.tol and ratio > 1 + SLACK
    seconds = time.perf_counter() - began
    return Certificate(primal, dual, gap, u.rank, history[-1].iteration, status, seconds, capped, ratio)
