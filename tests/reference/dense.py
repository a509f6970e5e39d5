"""The problem in plain dense numpy, float64: slow, and meant to be read. Arrays are (n, m), users x items.

    objective(U, V) = l1*||U||_* + sum_ij cap*|V| + sum_ij weight/2*(U + V - target)^2

Observed cells carry (weight, target) = (alpha, t) for loss I and (1, alpha*t) for loss II; all others carry
(1, 0). V lies in [0, 1] on the observed cells, and is 0 elsewhere. Where cells have costs of their own, alpha and cap
are multiplied by them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Dense:
    """One problem: the 0/1 matrix A, (n, m), the strengths, the degree scaling; without l2 there is no V."""

    A: Any
    alpha: float
    l1: float
    l2: float | None
    loss: Literal["I", "II"] = "I"
    user_scaling: float = 0
    item_scaling: float = 0
    costs: Any = 1.0

    @cached_property
    def observed(self) -> NDArray[np.bool_]:
        """Which cells are observed, (n, m)."""
        return np.asarray(self.A.toarray() if hasattr(self.A, "toarray") else self.A, np.bool_)

    @cached_property
    def T(self) -> Matrix:
        """D_u^-a A D_i^-b, (n, m), with D the numbers of observed cells (1 where there are none)."""
        users = np.maximum(self.observed.sum(axis=1, keepdims=True), 1.0)
        items = np.maximum(self.observed.sum(axis=0, keepdims=True), 1.0)
        T: Matrix = users**-self.user_scaling * self.observed * items**-self.item_scaling
        return T

    @cached_property
    def weight(self) -> Matrix:
        """The curvature of each cell's loss, (n, m)."""
        return np.where(self.observed, self.alpha * self.costs if self.loss == "I" else 1.0, 1.0)

    @cached_property
    def target(self) -> Matrix:
        """What each cell is pulled to, (n, m)."""
        return self.T if self.loss == "I" else self.alpha * self.costs * self.T

    @cached_property
    def cap(self) -> Matrix:
        """The price of V in each cell, (n, m), infinite without V."""
        if self.l2 is None:
            return np.full(self.T.shape, np.inf)
        return self.l2 * np.where(self.observed, self.costs * self.T, 1.0)


class Solution(NamedTuple):
    """The optimal U and V, (n, m) each, and how well they are known to be optimal."""

    U: Matrix
    V: Matrix
    objective: float
    gap: float
    iterations: int


def nuclear_norm(U: Matrix) -> float:
    """The sum of the singular values."""
    return float(np.linalg.svd(U, compute_uv=False).sum())


def objective(U: Matrix, V: Matrix, problem: Dense) -> float:
    """The objective with V as it is given."""
    p, used = problem, V != 0
    penalty = (p.cap[used] * np.abs(V[used])).sum()
    return float(p.l1 * nuclear_norm(U) + penalty + (p.weight / 2 * (U + V - p.target) ** 2).sum())


def specific(U: Matrix, problem: Dense) -> Matrix:
    """The best V for this U, (n, m)."""
    p = problem
    return np.where(p.observed, np.clip(p.target - U - p.cap / p.weight, 0, 1), 0.0)


def smooth(U: Matrix, problem: Dense) -> float:
    """The loss with V minimised out: sum of h(U) over observed cells, of U^2/2 over the others.

    h(u) = min over 0 <= v <= 1 of c*v + w/2*(t - u - v)^2: quadratic, linear (slope -c), quadratic.
    """
    p, seen = problem, problem.observed
    w, c, r = p.weight[seen], p.cap[seen], p.target[seen] - U[seen]
    h = w / 2 * r**2
    linear, beyond = w * r > c, w * r > c + w
    h[linear] = c[linear] * r[linear] - c[linear] ** 2 / (2 * w[linear])
    h[beyond] = c[beyond] + w[beyond] / 2 * (r[beyond] - 1) ** 2
    return float(h.sum() + (U[~seen] ** 2).sum() / 2)


def objective_eliminated(U: Matrix, problem: Dense) -> float:
    """The objective with V minimised out."""
    return problem.l1 * nuclear_norm(U) + smooth(U, problem)


def pull(U: Matrix, problem: Dense) -> Matrix:
    """Minus the gradient of `smooth`, (n, m): g = -h'(U) on observed cells, -U elsewhere."""
    p = problem
    free = p.weight * (p.target - U)
    return np.where(p.observed, np.maximum(np.minimum(free, p.cap), free - p.weight), -U)


def dual_value(Y: Matrix, problem: Dense) -> float:
    """The lower bound on the objective that a Y, (n, m), with ||Y||_2 <= l1 proves."""
    p, seen = problem, problem.observed
    y, t, w, c = Y[seen], p.target[seen], p.weight[seen], p.cap[seen]
    return float((y * t - y**2 / (2 * w) - np.maximum(0, y - c)).sum() - (Y[~seen] ** 2).sum() / 2)


def dual_point(U: Matrix, problem: Dense) -> Matrix:
    """The pull at U, shrunk until its spectral norm is at most l1, (n, m)."""
    Y = pull(U, problem)
    norm = float(np.linalg.norm(Y, 2))
    return Y * min(1.0, problem.l1 / norm) if norm > 0 else Y


def gap(U: Matrix, problem: Dense) -> float:
    """An upper bound on objective_eliminated(U) minus the optimum, never negative but for rounding."""
    return objective_eliminated(U, problem) - dual_value(dual_point(U, problem), problem)


def shrink(X: Matrix, threshold: float) -> Matrix:
    """X with its singular values soft-thresholded, (n, m)."""
    P, sigma, Qt = np.linalg.svd(X, full_matrices=False)
    shrunk: Matrix = (P * np.maximum(sigma - threshold, 0)) @ Qt
    return shrunk


def solve(problem: Dense, tol: float = 1e-10, max_iter: int = 100_000, within: Matrix | None = None) -> Solution:
    """The optimum: FISTA over U with V minimised out, restarted when the momentum points uphill.

    Stops when gap <= tol * max(1, objective); RuntimeError if that does not happen. `within`, (m, k), has orthonormal
    columns, and U = W within' is the best of those; this stops when a step moves U by less than tol.
    """
    step = 1 / max(problem.weight.max(), 1.0)
    U: Matrix = np.zeros(problem.T.shape)
    point = before = U
    tau = 1.0
    for iteration in range(max_iter):
        if iteration % 10 == 0:
            value, excess = objective_eliminated(U, problem), gap(U, problem)
            if within is not None:
                excess = tol if iteration and np.abs(U - before).max() < tol else np.inf
            if excess <= tol * max(1.0, value):
                return Solution(U, specific(U, problem), value, excess, iteration)
        moved = point + step * pull(point, problem)
        new = shrink(moved if within is None else moved @ within @ within.T, step * problem.l1)
        if ((point - new) * (new - U)).sum() > 0:
            tau = 1.0
        tau_next = (1 + np.sqrt(1 + 4 * tau**2)) / 2
        point = new + (tau - 1) / tau_next * (new - U)
        U, before, tau = new, U, tau_next
    raise RuntimeError(f"the gap is still {excess:.1e} after {max_iter} iterations")
