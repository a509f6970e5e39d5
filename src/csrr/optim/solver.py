"""Accelerated proximal gradient on low-rank + sparse matrices, stopped by the duality gap."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from csrr.optim import tall
from csrr.optim.certificate import Certificate, Point, Status, duality_gap, relative_gap
from csrr.optim.krylov import LowRankPlusSparse, eigh_falling, orthonormal, partial_svd
from csrr.optim.lowrank import LowRank
from csrr.optim.pattern import Floats
from csrr.optim.problem import Problem

logger = logging.getLogger(__name__)


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
    """The minimiser of `problem` to a relative duality gap of `options.tol`, from `start` or from zero.

    A problem that one SVD solves is solved by one SVD. `callback` sees every step and may raise to stop.
    """
    return _Search(problem, options, start, callback).run()


def improved(problem: Problem, start: LowRank, options: Options) -> LowRank:
    """What proximal steps lead to within the directions of `start`; no certificate.

    They end when a step lowers the objective by less than `options.tol` of it, or after `options.max_iter`.
    """
    search = _Search(problem, options, start, None)
    search.may_widen = False
    before = np.inf
    for _ in range(options.max_iter):
        point = Point.at(problem, search.current)
        objective = point.primal(problem)
        if before - objective < options.tol * objective:
            break
        before = objective
        search.advance(point)
    return search.current.trimmed()


def first_guess(problem: Problem, options: Options) -> LowRank:
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
    found = partial_svd(
        operator,
        np.random.default_rng(options.seed),
        above=threshold * scale**0.15,
        cap=cap and cap + _spare(cap),
        spare=0.6,
        dtype=values.dtype.type,
    )
    return LowRank(found.left, np.maximum(found.s - threshold, 0), found.right)


def _cut(u: LowRank, cap: int | None) -> LowRank:
    """The best matrix of rank `cap` at most; what was cut stays as spare directions."""
    if cap is None or u.rank <= cap:
        return u
    return LowRank(u.left, np.where(np.arange(u.width) < cap, u.s, 0), u.right)


def _spare(rank: int) -> int:
    """How many directions to keep beyond the rank."""
    return max(8, rank // 10)


class _Search:
    """The state of one run: U (as singular triplets), the point before it, and the trace."""

    # Beyond this condition number momentum beats the longer plain step, 2/(L + 1), in time to a given gap.
    _MOMENTUM_ABOVE = 9.0
    # Deep spaces of thin blocks find the slowly falling tail of the spectrum; flops depend on the total width.
    _KRYLOV_DEPTH = 8

    def __init__(
        self,
        problem: Problem,
        options: Options,
        start: LowRank | None,
        callback: Callback | None,
    ) -> None:
        self.problem, self.options, self.callback = problem, options, callback
        self.began = time.perf_counter()
        self.rng = np.random.default_rng(options.seed)
        self.dtype = problem.target.dtype.type
        self.current = _cut(first_guess(problem, options) if start is None else start, options.rank_cap)
        # Whether the cap on the rank took something away, at the last step.
        self.cut = self.current.rank == options.rank_cap
        self.previous: tuple[LowRank, Floats] | None = None
        self.history: list[Step] = []
        self.saturated = self.current.width == 0
        self.may_widen = True
        self.flip = False
        self.missing: LowRank | None = None
        # How much smaller the estimated gap was than the certified one, when last compared.
        self.optimism = 1.0
        self._set_steps(problem.typical_curvature)
        # Steps since the objective last rose, and the objective where the last step began.
        self.age, self.accepted = 0, np.inf
        shape = problem.pattern.shape
        self.probe = self.rng.standard_normal((shape[1], min(4, shape[1]))).astype(self.dtype)

    def _set_steps(self, curvature: float) -> None:
        """Sets step and momentum for cells of at most this curvature."""
        self.curvature, convexity = curvature, self.problem.convexity
        root = np.sqrt(curvature / convexity)
        is_steep = root**2 > self._MOMENTUM_ABOVE or self.problem.is_slack
        self.momentum = float((root - 1) / (root + 1)) if is_steep else 0.0
        self.step = 1 / curvature if self.momentum else 2 / (curvature + convexity)

    @property
    def is_daring(self) -> bool:
        """Whether steps are longer than the largest curvature of a cell makes safe."""
        return self.curvature < self.problem.smoothness

    def run(self) -> Solution:
        for iteration in range(self.options.max_iter + 1):
            point = Point.at(self.problem, self.current)
            step = self._record(iteration, point)
            is_rejected = self._is_rejected(step)
            if is_rejected:
                point = self._take_back()
            status = self._status(step)
            if self._settled_at_cap() and not is_rejected:
                status = "converged"
            if status or (step.gap * self.optimism <= self.options.tol and not is_rejected):
                certificate = self._certify(iteration, status or "converged")
                if status or certificate.gap <= self.options.tol:
                    return Solution(self.current.trimmed(), certificate, self.history)
                self.optimism = max(1.0, certificate.gap / step.gap) if step.gap > 0 and not self.is_daring else 1.0
                if self.is_daring:
                    # What the estimate does not see may be heavy cells that overshoot from step to step.
                    self._set_steps(min(2 * self.curvature, self.problem.smoothness))
            self.advance(point)
        raise AssertionError("unreachable: max_iter is a status")

    def _is_rejected(self, step: Step) -> bool:
        """Whether a step was too long for the cells it moved; one that was not is where the next begins."""
        if self.is_daring and self.previous is not None and not step.objective <= self.accepted:
            return True
        self.accepted = step.objective
        return False

    def _take_back(self) -> Point:
        """Goes back to where the last step began, to take shorter ones from there.

        Most low-rank steps see the mean of many cells' curvatures; the last did not.
        """
        assert self.previous is not None
        self._set_steps(min(2 * self.curvature, self.problem.smoothness))
        self.current, self.previous = self.previous[0], None
        return Point.at(self.problem, self.current)

    def _status(self, step: Step) -> Status | None:
        """Why to stop here, if there is a reason other than the gap."""
        first = self.history[0].objective
        if not np.isfinite(self.accepted) or self.accepted > 10 * first + 1e-12:
            return "diverged"
        if step.iteration >= self.options.max_iter:
            return "max_iter"
        limit = self.options.time_limit
        if limit is not None and step.seconds > limit:
            return "timeout"
        return None

    def _record(self, iteration: int, point: Point) -> Step:
        primal = point.primal(self.problem)
        gap = relative_gap(primal, point.dual(self.problem, self._probe_norm(point)))
        seconds = time.perf_counter() - self.began
        step = Step(iteration, primal, gap, self.current.rank, seconds)
        self.history.append(step)
        logger.debug("%s", step)
        if self.callback is not None:
            self.callback(step)
        return step

    def _probe_norm(self, point: Point) -> float:
        """||gradient||_2 from below: a round of power iteration on a block kept from step to step, four at first."""
        gradient = LowRankPlusSparse(self.current, self.problem.pattern, point.gradient_values)
        for _ in range(1 if self.history else 4):
            image = gradient.times(orthonormal(self.probe))
            self.probe = gradient.transposed_times(image)
        # A gradient of zero leaves no direction.
        return float(np.sqrt(eigh_falling(tall.gram(image))[0][:1].sum()))

    def _certify(self, iterations: int, status: Status) -> Certificate:
        primal, dual, norm, self.missing = duality_gap(
            self.problem, self.current, self.rng, rtol=0.1 * self.options.tol
        )
        gap = relative_gap(primal, dual)
        if status in ("max_iter", "timeout") and gap <= self.options.tol:
            status = "converged"
        seconds = time.perf_counter() - self.began
        capped = self.cut and gap > self.options.tol
        ratio = norm / self.problem.l1
        return Certificate(primal, dual, gap, self.current.rank, iterations, status, seconds, capped, ratio)

    def advance(self, point: Point) -> None:
        """One proximal gradient step from the current point, extrapolated where there is momentum."""
        values, before = point.observed, None
        if self.problem.is_slack:
            # Linear cells have no curvature to make a constant momentum for; Nesterov's grows until it overshoots.
            self.age = 0 if self._rose() else self.age + 1
            self.momentum = self.age / (self.age + 3)
        if self.momentum and self.previous is not None and not self._rose():
            before, observed_before = self.previous
            beta = self.dtype(self.momentum)
            values = (1 + beta) * values - beta * observed_before
        # The gradient at Y is Y + S, so the point to shrink is (1 - step)*Y - step*S.
        sparse = -(self.problem.pull(values) + values)
        if self.missing is not None:
            self._absorb(self.missing)
            self.missing = None
        elif self._should_widen():
            self._widen(sparse)
        self.previous = (self.current, point.observed) if self.momentum or self.is_daring else None
        self._shrink(sparse, before)
        self.flip = not self.flip

    def _rose(self) -> bool:
        return len(self.history) > 1 and self.history[-1].objective > self.history[-2].objective

    def _shrink(self, sparse: Floats, before: LowRank | None) -> None:
        """Soft-thresholds the singular values of Z = (1 - step)*Y - step*S, seen through one side's directions.

        With `right` orthonormal, Z @ right costs one sparse product (U @ right is at hand), and the triplets of
        that thin matrix are those of Z projected on span(right). The sides alternate, so the directions follow
        Z by one half of a power iteration a step.
        """
        u = self.current.T if self.flip else self.current
        x = u.scaled_left
        if before is not None:
            beta = self.dtype(self.momentum)
            x *= 1 + beta
            x -= beta * (before.T if self.flip else before).times(u.right)
        x *= self.dtype(1 - self.step)
        x -= self._product(sparse * self.dtype(self.step), u.right)
        squares, vectors = eigh_falling(tall.gram(x).astype(self.dtype))
        sigma = np.sqrt(squares.astype(np.float64))
        threshold = self.step * self.problem.l1
        rank = int(np.count_nonzero(sigma > threshold))
        self.saturated = rank > len(sigma) - _spare(rank) // 2
        self.cut = rank > (self.options.rank_cap or rank)
        rank = min(rank, self.options.rank_cap or rank)
        # The width falls by a tenth at most: directions that are not in use yet get time to settle.
        width = max(rank + _spare(rank), int(0.9 * len(sigma)))
        width = min(width, int(np.count_nonzero(sigma > 1e-6 * sigma[:1])))
        s = np.where(np.arange(width) < rank, np.maximum(sigma[:width] - threshold, 0), 0)
        left = tall.times(x, (vectors[:, :width] / sigma[:width]).astype(self.dtype))
        shrunk = LowRank(left, s, tall.times(u.right, vectors[:, :width].astype(self.dtype)))
        self.current = shrunk.T if self.flip else shrunk

    def _product(self, values: Floats, x: Floats) -> Floats:
        pattern = self.problem.pattern
        return pattern.T.times(pattern.transposed(values), x) if self.flip else pattern.times(values, x)

    def _room(self) -> int:
        cap = self.options.rank_cap
        most = min(self.problem.pattern.shape)
        if cap is not None:
            most = min(most, cap + _spare(cap))
        return most - self.current.width

    def _should_widen(self) -> bool:
        """Whether directions are missing: all are in use, or the objective has settled and the gap has not."""
        return self.may_widen and self._room() > 0 and (self.saturated or self._settled())

    def _settled(self) -> bool:
        if len(self.history) < 3 or self.history[-1].objective > self.accepted:
            return False
        last, now = self.history[-2:]
        return last.objective - now.objective < 0.1 * self.options.tol * now.objective

    def _settled_at_cap(self) -> bool:
        """Whether the cap on the rank is all that keeps the gap open."""
        return self.cut and self._settled()

    def _widen(self, sparse: Floats) -> None:
        """Adds directions: a short block Krylov space of Z less what is there."""
        u = self.current.T if self.flip else self.current
        z = LowRankPlusSparse(self.current, self.problem.pattern, sparse, 1 - self.step, -self.step)
        forth, back = (z.transposed_times, z.times) if self.flip else (z.times, z.transposed_times)
        wanted = max(32, u.width // 3)
        wanted = min(wanted, self._room())
        block = self.rng.standard_normal((len(u.left), -(-wanted // self._KRYLOV_DEPTH))).astype(self.dtype)
        right = u.right
        for _ in range(self._KRYLOV_DEPTH):
            fresh = orthonormal(back(block), right)[:, : u.width + wanted - right.shape[1]]
            right = np.concatenate([right, fresh], axis=1)
            block = forth(fresh)
        self._set_directions(u, right)

    def _absorb(self, leading: LowRank) -> None:
        """Adds the directions along which the gradient exceeds l1."""
        u = self.current.T if self.flip else self.current
        over = leading.s > self.problem.l1
        found = (leading.left if self.flip else leading.right)[:, over]
        fresh = orthonormal(found, u.right)[:, : max(self._room(), 0)]
        self._set_directions(u, np.concatenate([u.right, fresh], axis=1))

    def _set_directions(self, u: LowRank, right: Floats) -> None:
        added = right.shape[1] - u.width
        left = np.concatenate([u.left, np.zeros((len(u.left), added), self.dtype)], axis=1)
        wider = LowRank(left, np.concatenate([u.s, np.zeros(added)]), right)
        self.current = wider.T if self.flip else wider
