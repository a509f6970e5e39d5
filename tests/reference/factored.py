"""The factored problem in plain dense numpy, float64. P is (n, d), Q is (m, d), the matrix is U = P Q'.

objective(P, Q) = l1/2*(||P||^2 + ||Q||^2) + smooth(P Q'), `smooth` as in `dense`: V minimised out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.reference import dense

Matrix = NDArray[np.floating[Any]]


def objective(P: Matrix, Q: Matrix, problem: dense.Dense) -> float:
    """The objective, V minimised out."""
    return float(problem.l1 / 2 * ((P**2).sum() + (Q**2).sum()) + dense.smooth(P @ Q.T, problem))


def gradient(P: Matrix, Q: Matrix, problem: dense.Dense) -> Matrix:
    """The gradient over P, (n, d); over Q it is gradient(Q, P, transposed(problem))."""
    found: Matrix = problem.l1 * P - dense.pull(P @ Q.T, problem) @ Q
    return found


def transposed(problem: dense.Dense) -> dense.Dense:
    """The problem of the transposed matrix."""
    p = problem
    return dense.Dense(p.observed.T, p.alpha, p.l1, p.l2, p.loss, p.item_scaling, p.user_scaling)


def best_rows(Q: Matrix, weight: Matrix, target: Matrix, reg: Matrix) -> Matrix:
    """The P, (n, d), that minimises reg_i*||p_i||^2 + sum_ij weight_ij*(target_ij - p_i.q_j)^2: one system a row."""
    rows = [
        np.linalg.solve(Q.T @ (w[:, None] * Q) + r * np.eye(Q.shape[1]), Q.T @ (w * t))
        for w, t, r in zip(weight, target, reg, strict=True)
    ]
    return np.array(rows)


def weighted_als(
    weight: Matrix, target: Matrix, regs: tuple[Matrix, Matrix], rank: int, sweeps: int
) -> tuple[Matrix, Matrix]:
    """P and Q after `sweeps` of exact alternating least squares from a random start."""
    Q = np.random.default_rng(0).standard_normal((weight.shape[1], rank))
    for _ in range(sweeps):
        P = best_rows(Q, weight, target, regs[0])
        Q = best_rows(P, weight.T, target.T, regs[1])
    return P, Q


class Paper(NamedTuple):
    """What Algorithm 2 arrives at, and how many rounds (of P and Q, then V) and gradient steps it took."""

    P: Matrix
    Q: Matrix
    V: Matrix
    rounds: int
    steps: int


def algorithm2(
    problem: dense.Dense,
    P: Matrix,
    Q: Matrix,
    *,
    step: float,
    bound: float,
    tol: float,
    window: int,
    max_iter: int,
    single: bool = False,
) -> Paper:
    """The paper's Algorithm 2: projected gradient steps on P and Q until convergence, then V, and again.

    V is at its best, from the beginning; with `single` it begins at 0 and takes one proximal step a round, projected.
    Convergence: `window` steps lower the objective by less than tol/10 of it; a round, by less than tol.
    """
    p, steps, rounds = problem, 0, 0
    V = np.zeros_like(p.target)

    def measure() -> float:
        if not single:
            return objective(P, Q, p)
        loss = (p.weight * (P @ Q.T + V - p.target) ** 2).sum() / 2
        return float(loss + (p.cap * V).sum() + p.l1 / 2 * ((P**2).sum() + (Q**2).sum()))

    before = measure()
    while True:
        V = V if single else dense.specific(P @ Q.T, p)
        values: list[float] = []
        while steps < max_iter:
            X = P @ Q.T + V
            slope = p.weight * (X - p.target)
            values.append(float((slope * (X - p.target)).sum() + p.l1 * ((P**2).sum() + (Q**2).sum())) / 2)
            P, Q = (
                np.clip((P - step * slope @ Q) / (1 + step * p.l1), 0, bound),
                np.clip((Q - step * slope.T @ P) / (1 + step * p.l1), 0, bound),
            )
            steps += 1
            if len(values) > window and values[-window - 1] - values[-1] <= 0.1 * tol * values[-1]:
                break
        if single:
            moved = V - step * p.weight * (P @ Q.T + V - p.target)
            V = np.clip(np.sign(moved) * np.maximum(np.abs(moved) - step * p.cap, 0), 0, 1) * p.observed
        rounds += 1
        now = measure()
        if steps >= max_iter or 0 <= before - now <= tol * now:
            return Paper(P, Q, dense.specific(P @ Q.T, p), rounds, steps)
        before = now
