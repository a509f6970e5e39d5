"""Accelerated proximal gradient on low-rank + sparse matrices, stopped by the duality gap."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from csrr.arrays import FloatArray
from csrr.optim.certificate import ROUGH, Certificate, Point, Status, compute_gap, compute_relative_gap
from csrr.optim.krylov import LowRankPlusSparse, compute_partial_svd, eigh_falling, orthonormalize
from csrr.optim.lowrank import LowRank
from csrr.optim.problem import Problem
from csrr.optim.proximal_step import (
    State,
    absorb_directions,
    count_spare,
    look_ahead,
    search_directions,
    take_back,
    take_step,
)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """One line of the trace. `gap` is an estimate: it takes the norm of the gradient from below."""

    iteration: int
    objective: float
    gap: float
    rank: int
    seconds: float


Callback = Callable[[Step], Any]


@dataclass(frozen=True)
class Solution:
    """U with its certificate and the trace of the solver."""

    low_rank: LowRank
    certificate: Certificate
    history: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Options:
    """When to stop: relative gap `tol`, `max_iter` steps, `time_limit` seconds; `rank_cap` bounds the rank."""

    tol: float = 1e-3
    max_iter: int = 100
    time_limit: float | None = None
    rank_cap: int | None = None
    seed: int = 0


def solve(
    problem: Problem,
    options: Options,
    *,
    start: LowRank | None = None,
    callback: Callback | None = None,
) -> Solution:
    """The minimizer of `problem` to a relative duality gap of `options.tol`, from `start` or from zero.

    A problem that one SVD solves is solved by one SVD. `callback` sees every step and may raise to stop.
    """
    trace, rng, cap = Trace(callback), np.random.default_rng(options.seed), options.rank_cap
    state = State.at(problem, guess_low_rank(problem, options) if start is None else start, cap)
    probe, optimism = _draw_probe(problem, rng), 1.0
    for iteration in range(options.max_iter + 1):
        # 1. Where we are: the objective, and what the gap is about.
        point = Point.at(problem, state.low_rank)
        norm, probe = _estimate_norm(problem, point, probe, rounds=1 if iteration else 4)
        primal = point.compute_primal(problem)
        step = trace.add(primal, compute_relative_gap(primal, point.compute_dual(problem, norm)), state.low_rank.rank)
        # 2. A step that was too long for the cells it moved is taken back.
        is_rejected = _is_too_long(problem, state, trace)
        if is_rejected:
            state = take_back(problem, state)
            point = Point.at(problem, state.low_rank)
        else:
            trace.accepted = step.objective
        # 3. Stop? At a limit, or where the gap is small enough and the certificate says so too.
        status, missing = _find_reason(problem, state, trace, options), None
        if status or (step.gap * optimism <= options.tol and not is_rejected):
            certificate, missing = _certify(problem, state, trace, options, status or "converged", rng)
            if status or certificate.gap <= options.tol:
                return Solution(state.low_rank.trim(), certificate, trace.history)
            optimism, state = _distrust(problem, state, certificate.gap, step.gap)
        # 4. More directions, if some are missing.
        ahead = look_ahead(problem, state, point, has_risen=trace.has_risen)
        if missing is not None:
            state = absorb_directions(problem, state, missing, cap)
        elif _should_widen(problem, state, trace, options):
            state = search_directions(problem, state, ahead, cap, rng)
        # 5. The next point.
        state = take_step(problem, state, point, ahead, cap)
    raise AssertionError("unreachable: max_iter is a reason to stop")


def improve(problem: Problem, start: LowRank, options: Options) -> LowRank:
    """What proximal steps lead to within the directions of `start`; no certificate.

    They end when a step lowers the objective by less than `options.tol` of it, or after `options.max_iter`.
    """
    state, before = State.at(problem, start, options.rank_cap), np.inf
    for _ in range(options.max_iter):
        point = Point.at(problem, state.low_rank)
        objective = point.compute_primal(problem)
        if before - objective < options.tol * objective:
            break
        before = objective
        state = take_step(problem, state, point, look_ahead(problem, state, point), options.rank_cap)
    return state.low_rank.trim()


def guess_low_rank(problem: Problem, options: Options) -> LowRank:
    """One proximal step from zero, V left out: the soft-thresholded SVD of w*t/L. It solves a one-shot problem.

    Of a slack problem V is not left out: the linear part would let go of what is too much but slowly.

    Elsewhere the steps to come lower the rank, the more the larger the weights; triplets that would not last
    are not computed.
    """
    scale = problem.typical_curvature
    pull = problem.pull(np.zeros_like(problem.target)) if problem.is_slack else problem.weight * problem.target
    values = pull / problem.target.dtype.type(scale)
    operator = LowRankPlusSparse(LowRank.zero(problem.pattern.shape), problem.pattern, values)
    threshold = problem.l1 / scale
    cap = options.rank_cap
    found = compute_partial_svd(
        operator,
        np.random.default_rng(options.seed),
        above=threshold * scale**0.15,
        cap=cap and cap + count_spare(cap),
        spare=0.6,
        dtype=values.dtype.type,
    )
    return LowRank(found.left, np.maximum(found.s - threshold, 0), found.right)


class Trace:
    """The steps so far, and `accepted`, the objective of the last that was not taken back."""

    def __init__(self, callback: Callback | None = None, began: float | None = None) -> None:
        """`callback` sees every step and may raise to stop; `began` is when, by `time.perf_counter`, if not now."""
        self.history: list[Step] = []
        self.accepted: float = np.inf
        self._callback, self._began = callback, time.perf_counter() if began is None else began

    @property
    def seconds(self) -> float:
        """The time since the search began."""
        return time.perf_counter() - self._began

    @property
    def has_risen(self) -> bool:
        """Whether the last step raised the objective."""
        return len(self.history) > 1 and self.history[-1].objective > self.history[-2].objective

    def has_settled(self, tol: float) -> bool:
        """Whether the last step lowered the objective, and by next to nothing of it: a tenth of `tol`."""
        if len(self.history) < 3 or self.history[-1].objective > self.accepted:
            return False
        last, now = self.history[-2:]
        return last.objective - now.objective < 0.1 * tol * now.objective

    def add(self, objective: float, gap: float, rank: int) -> Step:
        """Adds a step to the history, and tells those who listen."""
        step = Step(len(self.history), objective, gap, rank, self.seconds)
        self.history.append(step)
        _logger.debug("%s", step)
        if self._callback is not None:
            self._callback(step)
        return step


def _draw_probe(problem: Problem, rng: np.random.Generator) -> FloatArray:
    """A random block of the item side, (m, 4 or fewer), for `_estimate_norm`."""
    m = problem.pattern.shape[1]
    return problem.engine.put(rng.standard_normal((m, min(4, m))).astype(problem.target.dtype))


def _estimate_norm(problem: Problem, point: Point, probe: FloatArray, rounds: int) -> tuple[float, FloatArray]:
    """||gradient||_2 from below, by rounds of power iteration on `probe`, (m, 4), and the probe they lead to."""
    engine = problem.engine
    gradient = LowRankPlusSparse(point.low_rank, problem.pattern, point.gradient_values)
    for _ in range(rounds):
        image = gradient.times(orthonormalize(engine, probe))
        probe = gradient.transposed_times(image)
    # A gradient of zero leaves no direction.
    return float(np.sqrt(eigh_falling(engine.cross(image, image))[0][:1].sum())), probe


def _is_too_long(problem: Problem, state: State, trace: Trace) -> bool:
    """Whether the last step raised the objective because it was longer than is safe."""
    is_daring = state.pace.is_daring(problem) and state.previous is not None
    return is_daring and not trace.history[-1].objective <= trace.accepted


def _find_reason(problem: Problem, state: State, trace: Trace, options: Options) -> Status | None:
    """Why to stop here, if there is a reason other than the gap."""
    first, last = trace.history[0], trace.history[-1]
    rounding = 10 * float(np.finfo(problem.target.dtype).eps) * problem.value_at_zero
    if state.is_cut and trace.has_settled(options.tol):
        # The cap on the rank is all that keeps the gap open.
        return "rank_cap"
    if not np.isfinite(trace.accepted) or trace.accepted > 10 * first.objective + rounding:
        return "diverged"
    if last.iteration >= options.max_iter:
        return "max_iter"
    if options.time_limit is not None and last.seconds > options.time_limit:
        return "timeout"
    return None


def _certify(
    problem: Problem, state: State, trace: Trace, options: Options, status: Status, rng: np.random.Generator
) -> tuple[Certificate, LowRank]:
    """The certificate of U, and the leading triplets of the gradient there."""
    u = state.low_rank
    rtol = 0.1 * options.tol
    if status == "timeout":
        rtol = max(rtol, ROUGH)
    gap = compute_gap(problem, u, rng, rtol=rtol, in_span=state.is_cut)
    if status != "diverged" and gap.relative <= options.tol:
        status = "converged"
    is_capped = state.is_cut and gap.relative > options.tol
    return gap.certify(problem, u.rank, trace.history[-1].iteration, status, trace.seconds, is_capped), gap.leading


def _distrust(problem: Problem, state: State, gap: float, estimate: float) -> tuple[float, State]:
    """How many times the certified gap is the estimated one, from now on, and the state to go on from."""
    if state.pace.is_daring(problem):
        # What the estimate does not see may be heavy cells that overshoot from step to step.
        return 1.0, replace(state, pace=state.pace.slow_down(problem))
    return max(1.0, gap / estimate) if estimate > 0 else 1.0, state


def _should_widen(problem: Problem, state: State, trace: Trace, options: Options) -> bool:
    """Whether directions are missing: all are in use, or the objective has settled and the gap has not."""
    room = state.count_room(problem.pattern.shape, options.rank_cap)
    return room > 0 and (state.is_full or trace.has_settled(options.tol))
