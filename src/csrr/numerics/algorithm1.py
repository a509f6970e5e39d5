"""Algorithm 1 of the paper to the letter: dense, one full SVD an iteration. The only dense solver here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from csrr._base.arrays import FloatArray
from csrr.numerics.certificate import Status
from csrr.numerics.problem import Loss

Box = Literal["paper", "none"]

MAX_CELLS = 200_000_000
_CALM = 3  # iterations in a row with a small change that end the loop
_BLOW_UP = 1e3  # the objective, as a multiple of its value at zero, that counts as divergence


class Iteration(NamedTuple):
    """One line of the history: the objective at (U, V), seconds since the start, and the rank of U~."""

    number: int
    objective: float
    seconds: float
    rank: int


@dataclass(frozen=True, eq=False)
class DenseResult:
    """The result of Algorithm 1: U, V and X = U + V, (n, m) each, and how it got there."""

    U: FloatArray
    V: FloatArray
    objective: float
    iterations: int
    status: Status
    history: list[Iteration] = field(repr=False)

    @property
    def X(self) -> FloatArray:
        """The prediction U + V, (n, m)."""
        return self.U + self.V


@dataclass(frozen=True, eq=False)
class _Problem:
    """l1*||U||_* + sum v_penalty*|V| + sum weight/2*(U + V - target)^2; all arrays (n, m), v_penalty None without V."""

    weight: FloatArray
    target: FloatArray
    v_penalty: FloatArray | None
    l1: float

    @property
    def safe_step(self) -> float:
        """One over the Lipschitz constant of the gradient: max weight in U alone, twice that in (U, V)."""
        return 1 / ((1 if self.v_penalty is None else 2) * max(float(self.weight.max()), 1.0))

    def compute_loss(self, X: FloatArray) -> float:
        """sum weight/2*(X - target)^2."""
        return float(np.sum(self.weight * (X - self.target) ** 2, dtype=np.float64)) / 2

    def compute_gradient(self, X: FloatArray) -> FloatArray:
        """The subgradient of the loss in X, and so in U and in V, (n, m)."""
        return self.weight * (X - self.target)

    def compute_objective(self, U: FloatArray, V: FloatArray, loss: float) -> float:
        """The objective at (U, V), where the loss is already known."""
        if not math.isfinite(loss):
            return math.inf
        penalty = 0.0 if self.v_penalty is None else float(np.sum(self.v_penalty * np.abs(V), dtype=np.float64))
        return self.l1 * float(np.linalg.svd(U, compute_uv=False).sum()) + penalty + loss


def algorithm1(
    observed: Any,
    *,
    alpha: float,
    l1: float,
    l2: float | None,
    loss: Loss = "I",
    box: Box = "paper",
    target: Any = None,
    step: float | None = None,
    max_iter: int = 200,
    tol: float = 1e-6,
    momentum: bool = True,
    callback: Callable[[Iteration, FloatArray, FloatArray], object] | None = None,
    time_limit: float | None = None,
    dtype: DTypeLike = np.float64,
) -> DenseResult:
    """U and V that nearly minimize, over the 0/1 matrix `observed`, (n, m), sparse or dense,

        l1*||U||_* + l2*sum_ij t_ij*|V_ij| + sum_ij w_ij/2*(U_ij + V_ij - y_ij)^2

    with (w, y) = (alpha, t) for loss I and (1, alpha*t) for loss II on observed cells, (1, 0) on all others.
    t is 1 (the paper), or what `target`, (n, m), says: in (0, 1] if observed, else 0. `l2=None` leaves V out.

    `box="paper"` clips U and V to [0, 1] after the momentum step, as the paper does. That is a heuristic: it
    is not the proximal step of the constrained problem, so the iterates need not tend to its minimizer.
    `box="none"` clips nothing and tends to the minimizer over all U and V, signs free. There V is what
    0 <= V <= 1 would give as long as 0 <= y - U - l2*t/w <= 1 wherever V is not 0, and |U| <= l2 elsewhere.

    `step` is the largest safe one unless given: 1/(2*max w), or 1/max w without V. Stops when the objective
    has changed by at most `tol`, relatively, in 3 iterations in a row, when the loss is 0 (the paper updates
    on mistakes only), after `time_limit` seconds, or when the objective blows up. Arguments are not checked.
    """
    targets = _to_dense(observed if target is None else target, np.dtype(dtype))
    problem = _build_problem(targets, float(alpha), float(l1), l2, loss)
    limits = _Limits(int(max_iter), float(tol), math.inf if time_limit is None else time_limit)
    with np.errstate(over="ignore", invalid="ignore"):  # a step too long overflows: that is "diverged"
        return _iterate(problem, float(step or problem.safe_step), box == "paper", momentum, limits, callback)


class _Limits(NamedTuple):
    max_iter: int
    tol: float
    seconds: float


def _iterate(
    problem: _Problem,
    step: float,
    clip: bool,
    momentum: bool,
    limits: _Limits,
    callback: Callable[[Iteration, FloatArray, FloatArray], object] | None,
) -> DenseResult:
    """The loop of Algorithm 1; the names are the paper's, with U~ and V~ as U_new and V_new."""
    started = time.perf_counter()
    U = V = U_old = V_old = np.zeros_like(problem.target)
    tau = 1.0
    loss = problem.compute_loss(U + V)
    objectives = [loss]
    history: list[Iteration] = []
    status: Status | None = "converged" if loss == 0 else None
    while status is None:
        gradient = problem.compute_gradient(U + V)
        U_new, rank = _shrink(U - step * gradient, step * problem.l1)
        V_new = V if problem.v_penalty is None else _soft_threshold(V - step * gradient, step * problem.v_penalty)
        tau_new = (1 + math.sqrt(1 + 4 * tau**2)) / 2
        ahead = (tau - 1) / tau_new if momentum else 0.0
        U, V = U_new + ahead * (U_new - U_old), V_new + ahead * (V_new - V_old)
        if clip:
            U, V = np.clip(U, 0, 1), np.clip(V, 0, 1)
        U_old, V_old, tau = U_new, V_new, tau_new

        loss = problem.compute_loss(U + V)
        objectives.append(problem.compute_objective(U, V, loss))
        seconds = time.perf_counter() - started
        history.append(Iteration(len(history) + 1, objectives[-1], seconds, rank))
        if callback is not None:
            callback(history[-1], U, V)
        status = "converged" if loss == 0 else _find_status(objectives, seconds, limits)
    return DenseResult(U, V, objectives[-1], len(history), status, history)


def _find_status(objectives: list[float], seconds: float, limits: _Limits) -> Status | None:
    """The reason to stop, or None; `objectives` starts with the value at zero."""
    if not objectives[-1] <= _BLOW_UP * objectives[0]:
        return "diverged"
    recent = objectives[-_CALM - 1 :]
    calm = [abs(b - a) <= limits.tol * abs(a) for a, b in pairwise(recent)]
    if len(calm) == _CALM and all(calm):
        return "converged"
    if len(objectives) > limits.max_iter:
        return "max_iter"
    return "timeout" if seconds >= limits.seconds else None


def _shrink(X: FloatArray, threshold: float) -> tuple[FloatArray, int]:
    """X with its singular values soft-thresholded, (n, m), and how many are left."""
    P, sigma, Qt = np.linalg.svd(X, full_matrices=False)
    rank = int(np.count_nonzero(sigma > threshold))
    return (P[:, :rank] * (sigma[:rank] - threshold)) @ Qt[:rank], rank


def _soft_threshold(X: FloatArray, threshold: FloatArray) -> FloatArray:
    """sign(X) * [|X| - threshold]_+, (n, m)."""
    return np.sign(X) * np.maximum(np.abs(X) - threshold, 0)


def _build_problem(targets: FloatArray, alpha: float, l1: float, l2: float | None, loss: Loss) -> _Problem:
    """The problem for the targets t, (n, m), which are 0 where nothing was observed."""
    seen = targets > 0
    one = targets.dtype.type(1)
    weight = np.where(seen, one * alpha if loss == "I" else one, one)
    # Off the observed cells V costs l2, as in the paper.
    v_penalty = None if l2 is None else float(l2) * np.where(seen, targets, one)
    return _Problem(weight, targets if loss == "I" else alpha * targets, v_penalty, l1)


def _to_dense(matrix: Any, dtype: np.dtype[Any]) -> FloatArray:
    """A sparse or dense matrix as a new dense array, (n, m)."""
    cells = math.prod(np.shape(matrix))
    if cells > MAX_CELLS:
        raise ValueError(
            f"the matrix has {cells:,} cells and Algorithm 1 holds all of them, several times over; its limit is"
            f" {MAX_CELLS:,}. Use the scalable solver, which needs the observed cells only (csrr.CSRR)."
        )
    return np.array(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype)
