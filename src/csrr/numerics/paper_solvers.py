"""The paper's algorithms to the letter: Algorithm 1 on dense arrays, Algorithm 2 (CSRR-e) without a dense matrix."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from csrr._base.arrays import FloatArray
from csrr.numerics.certificate import Status
from csrr.numerics.factored import FactoredSolution, Factors, certify, compute_objective, guess_factors
from csrr.numerics.problem import Loss, Pattern, Problem
from csrr.numerics.solver import Callback, Options, Step, Trace

Box = Literal["paper", "none"]

MAX_CELLS = 200_000_000
_CALM = 3  # iterations in a row with a small change that end the loop
_BLOW_UP = 1e3  # the objective, as a multiple of its value at zero, that counts as divergence


@dataclass(frozen=True, eq=False)
class DenseResult:
    """The result of Algorithm 1: U and V, (n, m) each, and how it got there.

    Steps have the objective at (U, V) and the rank of U~; their gap is not known.
    """

    U: FloatArray
    V: FloatArray
    objective: float
    iterations: int
    status: Status
    history: list[Step] = field(repr=False)


@dataclass(frozen=True, eq=False)
class _Problem:
    """l1*||U||_* + sum v_penalty*|V| + sum weight/2*(U + V - target)^2; all arrays (n, m), v_penalty None without V."""

    weight: FloatArray
    target: FloatArray
    v_penalty: FloatArray | None
    l1: float

    def compute_loss(self, X: FloatArray) -> float:
        """sum weight/2*(X - target)^2."""
        return float(np.sum(self.weight * (X - self.target) ** 2, dtype=np.float64)) / 2

    def compute_objective(self, U: FloatArray, V: FloatArray, loss: float) -> float:
        """The objective at (U, V), where the loss is already known."""
        if not math.isfinite(loss):
            return math.inf
        penalty = 0.0 if self.v_penalty is None else float(np.sum(self.v_penalty * np.abs(V), dtype=np.float64))
        return self.l1 * float(np.linalg.svd(U, compute_uv=False).sum()) + penalty + loss


DenseCallback = Callable[[Step, FloatArray, FloatArray], object]
"""Sees each step, with U and V."""


@np.errstate(over="ignore", invalid="ignore")  # a step too long overflows: that is "diverged"
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
    callback: DenseCallback | None = None,
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
    # 1/L of the gradient: L is the largest weight in U alone, twice that in (U, V).
    step = float(step or 1 / ((1 if l2 is None else 2) * max(float(problem.weight.max()), 1.0)))
    # The names are the paper's, with U~ and V~ as U_new and V_new.
    started = time.perf_counter()
    U = V = U_old = V_old = np.zeros_like(problem.target)
    tau = 1.0
    value = problem.compute_loss(U + V)
    objectives = [value]
    history: list[Step] = []
    status: Status | None = "converged" if value == 0 else None
    while status is None:
        gradient = problem.weight * (U + V - problem.target)
        U_new, rank = _shrink(U - step * gradient, step * problem.l1)
        V_new = V if problem.v_penalty is None else _soft_threshold(V - step * gradient, step * problem.v_penalty)
        tau_new = (1 + math.sqrt(1 + 4 * tau**2)) / 2
        ahead = (tau - 1) / tau_new if momentum else 0.0
        U, V = U_new + ahead * (U_new - U_old), V_new + ahead * (V_new - V_old)
        if box == "paper":
            U, V = np.clip(U, 0, 1), np.clip(V, 0, 1)
        U_old, V_old, tau = U_new, V_new, tau_new

        value = problem.compute_loss(U + V)
        objectives.append(problem.compute_objective(U, V, value))
        seconds = time.perf_counter() - started
        history.append(Step(len(history) + 1, objectives[-1], math.nan, rank, seconds))
        if callback is not None:
            callback(history[-1], U, V)
        status = "converged" if value == 0 else _choose_dense_status(objectives, tol, max_iter)
        if status is None and time_limit is not None and seconds >= time_limit:
            status = "timeout"
    return DenseResult(U, V, objectives[-1], len(history), status, history)


def _choose_dense_status(objectives: list[float], tol: float, max_iter: int) -> Status | None:
    """The reason to stop, or None; `objectives` starts with the value at zero."""
    if not objectives[-1] <= _BLOW_UP * objectives[0]:
        return "diverged"
    recent = objectives[-_CALM - 1 :]
    calm = [abs(b - a) <= tol * abs(a) for a, b in pairwise(recent)]
    if len(calm) == _CALM and all(calm):
        return "converged"
    return "max_iter" if len(objectives) > max_iter else None


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


Moves = Iterator[tuple[Factors, float]]
"""Factors after a gradient step, and the objective that the step started from."""

# Progress is judged over this many gradient steps: single ones can be short.
_WINDOW = 10


def compute_upper_bound(rank: int) -> float:
    """1/sqrt(d), less what rounding could add to a sum of d products: P Q' <= 1 holds to the last bit.

    Rounding to single precision, whatever the factors are computed in: that is how models keep them.
    """
    slack = 4 * (rank + 2) * float(np.finfo(np.float32).eps)
    return float(np.nextafter(np.float32(np.sqrt((1 - slack) / rank)), np.float32(0)))


def algorithm2(
    problem: Problem,
    rank: int,
    options: Options,
    *,
    step: float | None = None,
    single_v_step: bool = False,
    start: Factors | None = None,
    callback: Callback | None = None,
) -> FactoredSolution:
    """P of (n, rank) and Q of (m, rank), both in [0, 1/sqrt(rank)], and V that lower

        l1/2*(||P||^2 + ||Q||^2) + sum_obs v_penalty*V + sum_obs w/2*(P Q' + V - t)^2 + 1/2*sum_unobs (P Q')^2.

    Repeats: steps P <- clip((P - step*grad_P)/(1 + step*l1)) and likewise Q, V fixed, until _WINDOW of them lower the
    objective by less than a tenth of options.tol of it; then V in closed form. Ends when such a round lowers the
    objective by less than options.tol of it, or after options.max_iter gradient steps in all.

    With `step` both gradients are taken at one point, as in the paper. Without, P and Q take turns with the step
    1/(largest weight * ||Q'Q||_2), which cannot raise the objective, and with momentum, dropped when it does.

    With `single_v_step` V begins at 0 and takes one proximal step after each inner loop, as in the paper; its length is
    `step`, or 1/(largest weight), with which cells of that weight get the closed form all the same.
    """
    began = time.perf_counter()
    bound = compute_upper_bound(rank)
    rng = np.random.default_rng(options.seed)
    factors = _clip(guess_nonnegative(problem, rank, rng) if start is None else start, bound)
    trace = Trace(callback, began)
    status: Status | None = None
    left = options.max_iter
    deadline = np.inf if options.time_limit is None else began + options.time_limit
    v_step = step or 1 / problem.smoothness
    v = 0 * problem.target if single_v_step and problem.v_penalty is not None else None
    while status is None:
        here = trace.add(_measure(problem, factors, v), float("nan"), rank)
        status = _choose_status(trace.history, options.tol, left, is_late=began + here.seconds > deadline)
        if status is None:
            best = problem.find_specific(problem.pattern.dots(factors.users, factors.items)) if v is None else v
            fixed = _fix_specific(problem, best)
            moves = (
                _step_in_turns(fixed, factors, bound) if step is None else _step_at_once(fixed, factors, bound, step)
            )
            moved, used = _run_until_flat(moves, 0.1 * options.tol, left, deadline)
            left -= used
            # Momentum may end a round above its start; the round is then left out.
            if step is not None or _measure(problem, moved, v) < here.objective:
                factors = moved
            if v is not None:
                v = _step_specific(problem, factors, v, v_step)
    certificate = certify(problem, factors, options, trace.history, status, began, rng)
    return FactoredSolution(factors, replace(certificate, rank_capped=False), trace.history)


def _measure(problem: Problem, factors: Factors, v: FloatArray | None) -> float:
    """The objective at P, Q and V = v, (nnz,); None: at the best V."""
    if v is None or problem.v_penalty is None:
        return compute_objective(problem, factors)
    penalty = float((problem.v_penalty * v).sum(dtype=np.float64))
    return compute_objective(_fix_specific(problem, v), factors) + penalty


def _fix_specific(problem: Problem, v: FloatArray) -> Problem:
    """The problem in P and Q alone at V = v, (nnz,)."""
    return replace(problem, target=problem.target - v, v_penalty=None)


def _step_specific(problem: Problem, factors: Factors, v: FloatArray, step: float) -> FloatArray:
    """V after one proximal step from v, kept in [0, 1], (nnz,)."""
    assert problem.v_penalty is not None
    gradient = problem.weight * (problem.pattern.dots(factors.users, factors.items) + v - problem.target)
    return (v - v.dtype.type(step) * (gradient + problem.v_penalty)).clip(0, 1)


def _choose_status(history: list[Step], tol: float, left: int, *, is_late: bool) -> Status | None:
    now = history[-1].objective
    if len(history) > 1 and not now <= 10 * history[0].objective:
        return "diverged"
    if len(history) > 1 and 0 <= history[-2].objective - now <= tol * now:
        return "converged"
    if left <= 0:
        return "max_iter"
    return "timeout" if is_late else None


def _run_until_flat(moves: Moves, tol: float, most: int, deadline: float) -> tuple[Factors, int]:
    """The factors when _WINDOW steps lower the objective by less than tol of it, and the number of steps taken."""
    before: list[float] = []
    for factors, value in islice(moves, most):  # noqa: B007 - the last ones are what is wanted
        before.append(value)
        is_flat = len(before) > _WINDOW and before[-_WINDOW - 1] - value <= tol * value
        if is_flat or time.perf_counter() > deadline:
            break
    return factors, len(before)


def _step_at_once(problem: Problem, factors: Factors, bound: float, step: float) -> Moves:
    """The paper's steps: both gradients at the same point."""
    while True:
        users, value = _step_users(problem, factors, bound, step)
        items, _ = _step_users(problem.T, factors.T, bound, step)
        factors = Factors(users, items)
        yield factors, value


def _step_in_turns(problem: Problem, factors: Factors, bound: float) -> Moves:
    """Steps in turns, each as long as the curvature allows, from a point beyond the last two."""
    last, ahead, pace, before = factors, factors, 1.0, np.inf
    while True:
        users, value = _step_users(problem, ahead, bound)
        items, _ = _step_users(problem.T, Factors(ahead.items, users), bound)
        now = Factors(users, items)
        yield now, value
        pace, beta = _choose_momentum(pace, has_risen=value > before)
        ahead = Factors(_go_beyond(users, last.users, beta, bound), _go_beyond(items, last.items, beta, bound))
        last, before = now, value


def _choose_momentum(pace: float, *, has_risen: bool) -> tuple[float, float]:
    """The next pace and how far to go on beyond the last step; from a standstill when the objective has risen."""
    if has_risen:
        return 1.0, 0.0
    faster = float((1 + np.sqrt(1 + 4 * pace**2)) / 2)
    return faster, (pace - 1) / faster


def _go_beyond(now: FloatArray, last: FloatArray, beta: float, bound: float) -> FloatArray:
    """now + beta*(now - last), kept in [0, bound]."""
    return (now + now.dtype.type(beta) * (now - last)).clip(0, now.dtype.type(bound))


def _step_users(
    problem: Problem, factors: Factors, bound: float, step: float | None = None
) -> tuple[FloatArray, float]:
    """P after a projected gradient step, Q fixed, and the objective before it."""
    P, Q, engine = factors.users, factors.items, problem.engine
    sums, loss = engine.pull_rows(problem, P, Q)
    gram = engine.cross(Q, Q)
    gradient = engine.multiply(P, gram.astype(P.dtype))
    value = loss + 0.5 * engine.dot(P, gradient)
    value += 0.5 * problem.l1 * sum(engine.dot(f, f) for f in (P, Q))
    if step is None:
        step = 1 / max(problem.smoothness * float(np.linalg.eigvalsh(gram)[-1]), 1e-30)
    gradient -= sums
    scale = P.dtype.type(1 / (1 + step * problem.l1))
    return ((P - P.dtype.type(step) * gradient) * scale).clip(0, P.dtype.type(bound)), value


def guess_nonnegative(problem: Problem, rank: int, rng: np.random.Generator) -> Factors:
    """Factors to begin with: what is positive of a rough SVD of the targets."""
    return take_nonnegative_part(problem.pattern, guess_factors(problem, rank, rng), rng)


def take_nonnegative_part(pattern: Pattern, factors: Factors, rng: np.random.Generator) -> Factors:
    """The larger of the positive and the negative half of each column pair of P and Q; zeros become small.

    A coordinate that is 0 on both sides would stay so.
    """
    users, items, engine = factors.users, factors.items, pattern.engine
    halves = [(sign * f).clip(0) for sign in (1, -1) for f in (users, items)]
    norms = [np.sqrt(engine.dot_columns(half, half)) for half in halves]
    signs = np.where(norms[0] * norms[1] >= norms[2] * norms[3], 1, -1).astype(users.dtype)

    def take_half(f: FloatArray, noise: FloatArray) -> FloatArray:
        return (f * signs).clip(0) + f.dtype.type(0.1 * abs(f).mean()) * noise

    noise = [rng.random(f.shape).astype(f.dtype) for f in (users, items)]
    return Factors(take_half(users, engine.put(pattern, noise[0])), take_half(items, noise[1]))


def _clip(factors: Factors, bound: float) -> Factors:
    dtype = factors.users.dtype.type
    return Factors(*(f.clip(0, dtype(bound)) for f in (factors.users, factors.items)))


def fold_in_nonnegative(problem: Problem, items: FloatArray, *, tol: float = 1e-4, max_iter: int = 500) -> FloatArray:
    """The user factors P in [0, 1/sqrt(d)], (n, d), that minimize, Q fixed,

        l1/2*||P||^2 + sum_obs h(P Q') + 1/2*sum_unobs (P Q')^2.

    Accelerated projected gradient, until no step moves a user by more than tol of the largest factor norm.
    """
    rank, engine = items.shape[1], problem.engine
    bound = compute_upper_bound(rank)
    P = ahead = engine.put(problem.pattern, np.full((problem.pattern.shape[0], rank), 0.1 * bound, items.dtype))
    pace, before = 1.0, np.inf
    for _ in range(max_iter):
        moved, value = _step_users(problem, Factors(ahead, items), bound)
        pace, beta = _choose_momentum(pace, has_risen=value > before)
        ahead, shift = _go_beyond(moved, P, beta, bound), engine.find_largest_norm(moved - P)
        P, before = moved, value
        if shift <= tol * engine.find_largest_norm(P):
            break
    return P
