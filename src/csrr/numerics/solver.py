"""Proximal steps on the convex problem until a certificate says that they are enough; solutions along a falling l1."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from csrr._base.arrays import FloatArray
from csrr.numerics.certificate import (
    ROUGH,
    Certificate,
    Point,
    Status,
    compute_gap,
    compute_relative_gap,
    compute_span_norm,
    sum_squares,
)
from csrr.numerics.krylov import (
    LowRankPlusSparse,
    compute_partial_svd,
    eigh_falling,
    estimate_spectral_norm,
    orthonormalize,
)
from csrr.numerics.problem import LowRank, Problem

# Beyond this condition number momentum beats the longer plain step, 2/(L + 1), in time to a given gap.
_MOMENTUM_ABOVE = 9.0
# Deep spaces of thin blocks find the slowly falling tail of the spectrum; flops depend on the total width.
_KRYLOV_DEPTH = 8


@dataclass(frozen=True)
class Pace:
    """Step and momentum for cells of at most `curvature`; the largest of a problem makes every step safe."""

    curvature: float
    step: float
    momentum: float

    @classmethod
    def of(cls, problem: Problem, curvature: float) -> Pace:
        """The best pace for cells of at most this curvature."""
        convexity = problem.convexity
        root = np.sqrt(curvature / convexity)
        is_steep = root**2 > _MOMENTUM_ABOVE or problem.is_slack
        momentum = float((root - 1) / (root + 1)) if is_steep else 0.0
        return cls(curvature, 1 / curvature if momentum else 2 / (curvature + convexity), momentum)

    def slow_down(self, problem: Problem) -> Pace:
        """The pace for cells of twice the curvature, or of the largest there is."""
        return Pace.of(problem, min(2 * self.curvature, problem.smoothness))

    def is_daring(self, problem: Problem) -> bool:
        """Whether steps are longer than the largest curvature of a cell makes safe."""
        return self.curvature < problem.smoothness


@dataclass(frozen=True, eq=False)
class State:
    """A point of the search: U, with spare directions, and what the next step needs to know of the last one.

    `previous`, kept where a step may want it, is the U before and its values on the observed cells, (nnz,). `age` is
    the number of steps since the objective last rose. `by_item` says which side's directions the next step keeps:
    they take turns. `is_full`: all directions are in use; `is_cut`: the cap on the rank took something away.
    """

    low_rank: LowRank
    pace: Pace
    previous: tuple[LowRank, FloatArray] | None = None
    age: int = 0
    by_item: bool = False
    is_full: bool = False
    is_cut: bool = False

    @classmethod
    def at(cls, problem: Problem, start: LowRank, cap: int | None) -> State:
        """The state before the first step, from `start`, cut to a rank of `cap`."""
        u = cut_rank(start, cap)
        return cls(u, Pace.of(problem, problem.typical_curvature), is_full=u.width == 0, is_cut=u.rank == cap)

    @property
    def facing(self) -> LowRank:
        """U, or its transpose where the step goes by item: its `right` is the side that is kept."""
        return self.low_rank.T if self.by_item else self.low_rank

    def with_facing(self, u: LowRank) -> State:
        """The state with U, seen from the side that is kept, replaced."""
        return replace(self, low_rank=u.T if self.by_item else u)

    def count_room(self, shape: tuple[int, int], cap: int | None) -> int:
        """The number of directions that may be added."""
        most = min(shape) if cap is None else min(*shape, cap + count_spare(cap))
        return most - self.low_rank.width


@dataclass(frozen=True, eq=False)
class Ahead:
    """The point Y = U + momentum*(U - before) to step from; the gradient there is Y + S, S of `values`, (nnz,)."""

    values: FloatArray
    before: LowRank | None
    momentum: float
    age: int


def count_spare(rank: int) -> int:
    """The number of directions to keep beyond the rank."""
    return max(8, rank // 10)


def cut_rank(u: LowRank, cap: int | None) -> LowRank:
    """The best matrix of rank `cap` at most; what was cut stays as spare directions."""
    if cap is None or u.rank <= cap:
        return u
    return LowRank(u.left, np.where(np.arange(u.width) < cap, u.s, 0), u.right)


def look_ahead(problem: Problem, state: State, point: Point, *, has_risen: bool = False) -> Ahead:
    """The point to step from: U itself, or beyond it where there is momentum and the objective has not risen."""
    momentum, age = state.pace.momentum, state.age
    if problem.is_slack:
        # Linear cells have no curvature to make a constant momentum for; Nesterov's grows until it overshoots.
        age = 0 if has_risen else age + 1
        momentum = age / (age + 3)
    values, before = point.observed, None
    if momentum and state.previous is not None and not has_risen:
        before, observed_before = state.previous
        beta = values.dtype.type(momentum)
        values = (1 + beta) * values - beta * observed_before
    return Ahead(-(problem.pull(values) + values), before, momentum, age)


def take_step(problem: Problem, state: State, point: Point, ahead: Ahead, cap: int | None) -> State:
    """The state after soft-thresholding the singular values of Z = (1 - step)*Y - step*S, seen through one side.

    With `right` orthonormal, Z @ right costs one sparse product (U @ right is at hand), and the triplets of that thin
    matrix are those of Z projected on span(right). The sides take turns, so the directions follow Z by one half of
    a power iteration a step.
    """
    u, engine, dtype = state.facing, problem.engine, problem.target.dtype.type
    x = _project(problem, state, ahead)
    squares, vectors = eigh_falling(engine.cross(x, x).astype(dtype))
    sigma = np.sqrt(squares.astype(np.float64))
    threshold = state.pace.step * problem.l1
    found = int(np.count_nonzero(sigma > threshold))
    rank = min(found, cap or found)
    # The width falls by a tenth at most: directions that are not in use yet get time to settle.
    width = max(rank + count_spare(rank), int(0.9 * len(sigma)))
    width = min(width, int(np.count_nonzero(sigma > 1e-6 * sigma[:1])))
    s = np.where(np.arange(width) < rank, np.maximum(sigma[:width] - threshold, 0), 0)
    left = engine.multiply(x, (vectors[:, :width] / sigma[:width]).astype(dtype))
    right = engine.multiply(u.right, vectors[:, :width].astype(dtype))
    return replace(
        state.with_facing(LowRank(left, s, right)),
        previous=(state.low_rank, point.observed) if ahead.momentum or state.pace.is_daring(problem) else None,
        age=ahead.age,
        by_item=not state.by_item,
        is_full=found > len(sigma) - count_spare(found) // 2,
        is_cut=found > rank,
    )


def _project(problem: Problem, state: State, ahead: Ahead) -> FloatArray:
    """Z @ right, (rows, width), right the side that is kept; Z as in `take_step`."""
    u, dtype = state.facing, problem.target.dtype.type
    x = u.scaled_left
    if ahead.before is not None:
        beta = dtype(ahead.momentum)
        before = ahead.before.T if state.by_item else ahead.before
        x *= 1 + beta
        x -= beta * before.times(u.right, problem.engine)
    x *= dtype(1 - state.pace.step)
    sparse = problem.pattern.fill(ahead.values * dtype(state.pace.step))
    x -= sparse.transposed_times(u.right) if state.by_item else sparse.times(u.right)
    return x


def take_back(problem: Problem, state: State) -> State:
    """The state where the last step began, to take shorter ones from there.

    Most low-rank steps see the mean of many cells' curvatures; the last did not.
    """
    assert state.previous is not None
    return replace(state, low_rank=state.previous[0], previous=None, pace=state.pace.slow_down(problem))


def search_directions(problem: Problem, state: State, ahead: Ahead, cap: int | None, rng: np.random.Generator) -> State:
    """The state with more directions: a short block Krylov space of Z less what is there, Z as in `take_step`."""
    u, engine, dtype = state.facing, problem.engine, problem.target.dtype
    step = state.pace.step
    z = LowRankPlusSparse(state.low_rank, problem.pattern, ahead.values, 1 - step, -step)
    forth, back = (z.transposed_times, z.times) if state.by_item else (z.times, z.transposed_times)
    wanted = min(max(32, u.width // 3), state.count_room(z.shape, cap))
    block = _put(problem, state, rng.standard_normal((len(u.left), -(-wanted // _KRYLOV_DEPTH))).astype(dtype))
    right = u.right
    for _ in range(_KRYLOV_DEPTH):
        fresh = orthonormalize(engine, back(block), right)[:, : u.width + wanted - right.shape[1]]
        right = engine.join_columns([right, fresh])
        block = forth(fresh)
    return _add_directions(problem, state, right)


def absorb_directions(problem: Problem, state: State, leading: LowRank, cap: int | None) -> State:
    """The state with the directions of `leading`, triplets of the gradient, along which that exceeds l1."""
    u, engine = state.facing, problem.engine
    over = leading.s > problem.l1
    found = (leading.left if state.by_item else leading.right)[:, over]
    room = max(state.count_room(problem.pattern.shape, cap), 0)
    fresh = orthonormalize(engine, found, u.right)[:, :room]
    return _add_directions(problem, state, engine.join_columns([u.right, fresh]))


def _put(problem: Problem, state: State, x: FloatArray) -> FloatArray:
    """A numpy array, (rows, k), of the side that is not kept, for the engine."""
    return x if state.by_item else problem.engine.put(problem.pattern, x)


def _add_directions(problem: Problem, state: State, right: FloatArray) -> State:
    """The state with `right`, (rows, width), which begins with the directions there are, as the side that is kept."""
    u, engine = state.facing, problem.engine
    added = right.shape[1] - u.width
    zeros = _put(problem, state, np.zeros((len(u.left), added), problem.target.dtype))
    return state.with_facing(LowRank(engine.join_columns([u.left, zeros]), np.append(u.s, np.zeros(added)), right))


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
    """Limits of a solver: relative gap `tol`, `max_iter` steps, `time_limit` seconds; `rank_cap` bounds the rank."""

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
    keep: Callable[[LowRank], object] | None = None,
) -> Solution:
    """The minimizer of `problem` to a relative duality gap of `options.tol`, from `start` or from zero.

    A problem that one SVD solves is solved by one SVD. `callback` sees every step and may raise to stop; `keep` sees U
    after every step.
    """
    trace, rng, cap = Trace(callback), np.random.default_rng(options.seed), options.rank_cap
    # A start whose penalty alone is more than the objective at zero is none; that of a file may be anything.
    if start is not None and not problem.l1 * float(start.s.sum()) < problem.value_at_zero:
        start = None
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
        status, missing = _choose_status(problem, state, trace, options), None
        if status or (step.gap * optimism <= options.tol and not is_rejected):
            certificate, missing = _certify(problem, state, trace, options, status or "converged", rng)
            if status or certificate.gap <= options.tol:
                return Solution(state.low_rank.trim(), certificate, trace.history)
            optimism, state = _distrust(problem, state, certificate.gap, step.gap)
        # 4. More directions, if some are missing.
        ahead = look_ahead(problem, state, point, has_risen=trace.has_risen)
        if missing is not None:
            state = absorb_directions(problem, state, missing(), cap)
        elif _should_widen(problem, state, trace, options):
            state = search_directions(problem, state, ahead, cap, rng)
        # 5. The next point.
        state = take_step(problem, state, point, ahead, cap)
        if keep is not None:
            keep(state.low_rank)
    raise AssertionError("unreachable: max_iter is a reason to stop")


def improve(problem: Problem, start: LowRank, options: Options) -> LowRank:
    """The point that proximal steps lead to within the directions of `start`; no certificate.

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

    In a slack problem V stays in: steps lower an excess slowly in the linear part. In other problems later steps lower
    the rank, more so with larger weights; triplets that would not last are not computed.
    """
    scale = problem.typical_curvature
    pull = problem.pull(0 * problem.target) if problem.is_slack else problem.weight * problem.target
    values = pull / problem.target.dtype.type(scale)
    operator = LowRankPlusSparse(LowRank.zero(problem.pattern), problem.pattern, values)
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
        """Whether the last step lowered the objective by less than a tenth of `tol` of it."""
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
    return rng.standard_normal((m, min(4, m))).astype(problem.target.dtype)


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


def _choose_status(problem: Problem, state: State, trace: Trace, options: Options) -> Status | None:
    """The reason to stop at this point, apart from a small gap; None if there is none."""
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
) -> tuple[Certificate, Callable[[], LowRank]]:
    """The certificate of U, and what computes the leading triplets of the gradient there."""
    u = state.low_rank
    rtol = 0.1 * options.tol
    if status == "timeout":
        rtol = max(rtol, ROUGH)
    gap = compute_gap(problem, u, rng, rtol=rtol, in_span=state.is_cut)
    if status != "diverged" and gap.relative <= options.tol:
        status = "converged"
    is_capped = state.is_cut and gap.relative > options.tol
    return gap.certify(problem, u.rank, trace.history[-1].iteration, status, trace.seconds, is_capped), gap.find_leading


def _distrust(problem: Problem, state: State, gap: float, estimate: float) -> tuple[float, State]:
    """The factor from the estimated gap to the certified one, from now on, and the state to go on from."""
    if state.pace.is_daring(problem):
        # What the estimate does not see may be heavy cells that overshoot from step to step.
        return 1.0, replace(state, pace=state.pace.slow_down(problem))
    return max(1.0, gap / estimate) if estimate > 0 else 1.0, state


def _should_widen(problem: Problem, state: State, trace: Trace, options: Options) -> bool:
    """Whether directions are missing: all are in use, or the objective has settled and the gap has not."""
    room = state.count_room(problem.pattern.shape, options.rank_cap)
    return room > 0 and (state.is_full or trace.has_settled(options.tol))


def solve_path(
    problem: Problem,
    strengths: Sequence[float],
    options: Options,
    *,
    callback: Callable[[Solution], object] | None = None,
) -> list[Solution]:
    """A solution for each l1 of `strengths`, falling: by one SVD where that is enough, else warm-started fits."""
    if problem.is_one_shot:
        solutions = _solve_one_shot_path(problem, strengths, options)
        for solution in solutions if callback else ():
            callback(solution)  # type: ignore[misc]
        return solutions
    solutions, start = [], LowRank.zero(problem.pattern, problem.target.dtype.type)
    for l1 in strengths:
        solution = solve(problem.with_strength(l1), options, start=start)
        solutions.append(solution)
        start = solution.low_rank
        if callback is not None:
            callback(solution)
    return solutions


def _solve_one_shot_path(problem: Problem, strengths: Sequence[float], options: Options) -> list[Solution]:
    """One SVD, at the weakest strength, serves all: U(l1) = left (sigma - l1)_+ right'."""
    began = time.perf_counter()
    weakest = problem.with_strength(strengths[-1])
    base = solve(weakest, options)
    u = base.low_rank
    sigma = u.s + weakest.l1
    gradient = LowRankPlusSparse(u, problem.pattern, Point.at(weakest, u).gradient_values)
    rng, dtype = np.random.default_rng(options.seed), u.left.dtype.type
    norm = estimate_spectral_norm(gradient, rng, dtype=dtype, rtol=0.1 * options.tol)[0]
    span_norm = compute_span_norm(gradient)
    # <left_i right_i', T>: sigma, but for the error of the triplets
    along = problem.engine.dot_columns(u.left, problem.pattern.fill(problem.target).times(u.right))
    square = problem.engine.sum_cells(sum_squares, problem.target)
    solutions = []
    for l1 in strengths:
        s = np.maximum(sigma - l1, 0)
        inner, own = float(s @ along), float(s @ s)
        primal = l1 * float(s.sum()) + 0.5 * (square - 2 * inner + own)
        dual, span_dual = (
            c * (square - inner) - 0.5 * c**2 * (square - 2 * inner + own)
            # The gradients of two strengths differ by at most the difference of the strengths.
            for c in (min(1.0, l1 / (each + l1 - weakest.l1)) for each in (norm, span_norm))
        )
        is_capped = base.certificate.rank_capped and bool(np.all(s > 0))
        certificate = replace(
            base.certificate,
            primal=primal,
            dual=dual,
            gap=compute_relative_gap(primal, dual),
            rank=int(np.count_nonzero(s)),
            seconds=time.perf_counter() - began,
            rank_capped=is_capped,
            span_dual=span_dual if is_capped else None,
        )
        solutions.append(Solution(LowRank(u.left, s, u.right), _mark_converged(certificate, options), []))
    return solutions


def _mark_converged(certificate: Certificate, options: Options) -> Certificate:
    return replace(certificate, status="converged") if certificate.gap <= options.tol else certificate
