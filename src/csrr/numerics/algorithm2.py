"""The paper's Algorithm 2 (CSRR-e): factors in [0, 1/sqrt(d)] by projected gradient, without a dense matrix."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from csrr._base.arrays import FloatArray
from csrr.numerics.certificate import Status
from csrr.numerics.factored import FactoredSolution, Factors, certify, compute_objective, guess_factors
from csrr.numerics.problem import Pattern, Problem
from csrr.numerics.solver import Callback, Options, Step, Trace

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
        status = _find_reason(trace.history, options.tol, left, is_late=began + here.seconds > deadline)
        if status is None:
            fixed = _fix_specific(problem, _find_best_specific(problem, factors) if v is None else v)
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


def _find_best_specific(problem: Problem, factors: Factors) -> FloatArray:
    return problem.find_specific(problem.pattern.dots(factors.users, factors.items))


def _step_specific(problem: Problem, factors: Factors, v: FloatArray, step: float) -> FloatArray:
    """V after one proximal step from v, kept in [0, 1], (nnz,)."""
    assert problem.v_penalty is not None
    gradient = problem.weight * (problem.pattern.dots(factors.users, factors.items) + v - problem.target)
    return (v - v.dtype.type(step) * (gradient + problem.v_penalty)).clip(0, 1)


def _find_reason(history: list[Step], tol: float, left: int, *, is_late: bool) -> Status | None:
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
    """Of each column pair of P and Q its positive or its negative half, the larger; zeros become small.

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
